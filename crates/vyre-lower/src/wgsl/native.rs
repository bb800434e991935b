//! The device's own f32 in the place of softened functions.
//!
//! A float stays its bits between ops, so softened and native ones can stand side by side, and each op alone decides how it
//! is made. Where a device is only right about normal numbers, or only near, a function asks whether it was and calls the
//! softened one else.

use crate::floats::{FloatOp, Floats, How};
use crate::prepare::{LibraryFunction, Routine};
use vyre_foundation::ir::{Block, DataType, FunctionId, Node, ProgramParts, walk};

/// What stands in a softened function's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Native {
    /// The library's function.
    pub(super) helper: String,
    /// Whether the softened one is called where this one may be wrong.
    pub(super) is_guarded: bool,
}

/// What stands in the place of each function, by what it stands for.
pub(super) fn chosen(library: &[Option<LibraryFunction>], floats: &Floats) -> Vec<Option<Native>> {
    library.iter().map(|function| function.and_then(|function| of(function, floats))).collect()
}

fn of(function: LibraryFunction, floats: &Floats) -> Option<Native> {
    let op = match function.routine {
        _ if function.ty != DataType::F32 => return None,
        Routine::Add => FloatOp::Add,
        Routine::Mul => FloatOp::Mul,
        Routine::Div => FloatOp::Div,
        Routine::Fma => FloatOp::Fma,
        Routine::Sqrt => FloatOp::Sqrt,
        Routine::Eq | Routine::Lt | Routine::Le => FloatOp::Compare,
        Routine::Floor | Routine::Ceil | Routine::Trunc | Routine::Round => FloatOp::Round,
        Routine::Cast { from: DataType::U32 | DataType::I32 } => FloatOp::Cast,
        // No device has them exactly, or integers are as fast.
        Routine::Rem | Routine::Min | Routine::Max | Routine::Cast { .. } => return None,
    };
    let how = floats.how(DataType::F32, op);
    let kind = match how {
        _ if !super::ways(op, DataType::F32).contains(&how) => return None,
        How::Native | How::Guarded => "native",
        How::Corrected => "corrected",
        How::ThroughF64 | How::Soft => return None,
    };
    let name = function.name().replace('.', "_").replacen("soft", kind, 1);
    Some(Native { helper: name, is_guarded: how != How::Native })
}

/// The functions whose lines are still needed: those that are called, but for those that something stands for always.
pub(super) fn written(parts: &ProgramParts, natives: &[Option<Native>]) -> Vec<bool> {
    let mut written = vec![natives.iter().all(Option::is_none); natives.len()];
    let mark = |written: &mut Vec<bool>, block: &Block| {
        walk(block, |_, _, node| {
            if let Node::Call { function: FunctionId(called), .. } = node {
                let at = *called as usize;
                written[at] |= natives[at].as_ref().is_none_or(|native| native.is_guarded);
            }
        });
    };
    mark(&mut written, &parts.body.block);
    // Each stands above its callers.
    for at in (0..parts.functions.len()).rev() {
        if written[at] {
            mark(&mut written, &parts.functions[at].body.block);
        }
    }
    written
}
