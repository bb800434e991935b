//! What each launch asks of a valid program, found by one walk and kept with the program.

use crate::ir::{Axis, BufferId, BufferKind, BuiltinOp, Node, OpId, ProgramParts, WriteOp, walk};
use crate::launch::bound_buffers;

/// Facts that depend on the program alone.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The bound buffers, by ascending binding.
    pub bound: Vec<BufferId>,
    /// The ops it uses, each once.
    pub ops: Vec<OpId>,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u64,
    /// Whether it has a grid barrier or a collective.
    pub has_grid_sync: bool,
    /// Whether it may trap.
    pub traps: bool,
    /// Whether it asks for its place along y or z. A grid along x alone would leave most of its work undone, so none is
    /// derived for it.
    pub needs_grid: bool,
}

impl Facts {
    pub(super) fn of(parts: &ProgramParts) -> Facts {
        let mut ops = Vec::new();
        let mut seen = [false; 256];
        let mut needs_grid = false;
        for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
            walk(&body.block, |_, _, node| {
                let op = node.op();
                if !std::mem::replace(&mut seen[usize::from(op.info().tag)], true) {
                    ops.push(op);
                }
                needs_grid |= matches!(
                    node,
                    Node::Builtin {
                        op: BuiltinOp::GlobalId | BuiltinOp::WorkgroupId | BuiltinOp::NumWorkgroups,
                        axis: Some(Axis::Y | Axis::Z),
                        ..
                    }
                );
            });
        }
        let shared = parts.buffers.iter().filter(|buffer| matches!(buffer.kind, BufferKind::Workgroup));
        Facts {
            bound: bound_buffers(parts),
            workgroup_bytes: shared
                .map(|buffer| u64::from(buffer.len.unwrap_or(0)) * buffer.ty.bytes() as u64)
                .sum(),
            has_grid_sync: ops.iter().any(|op| op.is_grid_wide()),
            traps: ops.contains(&OpId::WriteOp(WriteOp::Trap)),
            needs_grid,
            ops,
        }
    }
}
