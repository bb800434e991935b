//! The instructions around asynchronous work: fences, and groups that are committed and awaited.
//!
//! Not here: `cp.async.mbarrier.arrive` and the groups of bulk copies.

use super::modifiers::{Modifiers, needs, needs_sm_90a};
use crate::alu::Target;

/// What `wgmma` has besides products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WgmmaGroups {
    /// `wgmma.fence`: orders accesses of registers before the products that follow.
    Fence,
    /// `wgmma.commit_group`: the products since the last one become a group.
    Commit,
    /// `wgmma.wait_group`: waits until at most as many groups are under way as the operand says.
    Wait,
}

impl WgmmaGroups {
    /// Decides whether the form is legal.
    pub fn of(modifiers: &[&str], target: Target) -> Result<WgmmaGroups, String> {
        let (name, kind) = match modifiers.first() {
            Some(&"fence") => ("wgmma.fence", WgmmaGroups::Fence),
            Some(&"commit_group") => ("wgmma.commit_group", WgmmaGroups::Commit),
            Some(&"wait_group") => ("wgmma.wait_group", WgmmaGroups::Wait),
            _ => return Err("Not a name of any known instruction: 'wgmma'".to_owned()),
        };
        let mut words = Modifiers::new(name, &modifiers[1..]);
        words.require_sync_aligned()?;
        words.finish()?;
        needs_sm_90a(name, target)?;
        Ok(kind)
    }
}

/// What `cp.async` has besides copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyGroups {
    /// `cp.async.commit_group`: this lane's copies since the last one become a group.
    Commit,
    /// `cp.async.wait_group`: waits until at most as many groups are under way as the operand says.
    Wait,
    /// `cp.async.wait_all`: waits for all copies, committed or not.
    WaitAll,
}

impl CopyGroups {
    /// Decides whether the form is legal. `async` is one of the modifiers.
    pub fn of(modifiers: &[&str], target: Target) -> Result<CopyGroups, String> {
        let (name, kind) = match modifiers {
            ["async", "commit_group"] => ("cp.async.commit_group", CopyGroups::Commit),
            ["async", "wait_group"] => ("cp.async.wait_group", CopyGroups::Wait),
            ["async", "wait_all"] => ("cp.async.wait_all", CopyGroups::WaitAll),
            _ => return Err("Not a name of any known instruction: 'cp.async'".to_owned()),
        };
        needs(name, target, 70, 80)?;
        Ok(kind)
    }
}

/// Decides whether a wait may let that many groups go on: the operand of both instructions.
pub fn groups_under_way(operand: i128) -> Result<u64, String> {
    u64::try_from(operand)
        .map_err(|_| format!("unexpected value '{operand}', expected to be non-negative integer"))
}
