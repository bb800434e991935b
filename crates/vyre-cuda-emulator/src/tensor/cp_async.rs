//! `cp.async`: a lane's copy of 4, 8 or 16 bytes from global to shared memory, which it awaits later.
//!
//! Not here: the copy itself, which the engine does. Both addresses must be multiples of the size. The hints of caching
//! have no effect that a program could observe.

use super::modifiers::{Modifiers, needs};
use crate::alu::Target;

/// `cp.async.ca` or `cp.async.cg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpAsync {
    /// `.cg`: past the first-level cache.
    global_only: bool,
    hinted: bool,
    may_ignore: bool,
}

impl CpAsync {
    /// Decides whether the form is legal. `async` is one of the modifiers.
    pub fn of(modifiers: &[&str], target: Target) -> Result<CpAsync, String> {
        needs("cp.async", target, 70, 80)?;
        let mut words = Modifiers::new("cp.async", modifiers);
        words.require("async")?;
        let (near, global_only) = (words.take("ca"), words.take("cg"));
        if near == global_only {
            return Err(
                "Exactly one of '.ca' and '.cg' modifiers required for instruction 'cp.async'".to_owned()
            );
        }
        // The destination's space is named before the source's.
        let spaces = words.take_all(|word| matches!(word, "shared" | "shared::cta" | "global"));
        match spaces[..] {
            ["shared", "global"] => (),
            ["shared::cta", "global"] => needs("::cta", target, 78, 0)?,
            _ => return Err("State space incorrect for instruction 'cp.async'".to_owned()),
        }
        let hinted = words.take("L2::cache_hint");
        let prefetches =
            words.take_where(|word| matches!(word, "L2::64B" | "L2::128B" | "L2::256B")).is_some();
        if hinted || prefetches {
            needs("cache prefetching", target, 74, 0)?;
        }
        words.finish()?;
        Ok(CpAsync { global_only, hinted, may_ignore: target.version >= 75 })
    }

    /// Whether the last operand is a cache policy.
    pub fn has_cache_policy(&self) -> bool {
        self.hinted
    }

    /// Decides whether that many bytes, `cp-size`, may be copied.
    pub fn size(&self, bytes: i128) -> Result<u32, String> {
        let (legal, expected): (&[i128], _) =
            if self.global_only { (&[16], "16") } else { (&[4, 8, 16], "4 or 8 or 16") };
        if legal.contains(&bytes) {
            return Ok(bytes as u32);
        }
        Err(format!(
            "Argument 2 of instruction 'cp.async': unexpected value '{bytes}', expected to be {expected}"
        ))
    }

    /// Decides whether of `size` bytes that many, `src-size`, may be read. The others become zero. It may be an immediate,
    /// or a register: then more than `size` is undefined behaviour.
    pub fn source_size(&self, size: u32, bytes: i128) -> Result<u32, String> {
        if (0..=i128::from(size)).contains(&bytes) {
            return Ok(bytes as u32);
        }
        Err(format!(
            "Argument 3 of instruction 'cp.async': value '{bytes}' out of range, expected to be in range [0..{size}]"
        ))
    }

    /// Decides whether a predicate, `ignore-src`, may follow the size. Where it is true all bytes become zero.
    pub fn ignore_source(&self) -> Result<(), String> {
        let error = "Feature 'ignore-src on cp.async' requires PTX ISA .version 7.5 or later";
        self.may_ignore.then_some(()).ok_or_else(|| error.to_owned())
    }
}
