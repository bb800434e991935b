//! Wrong launches, ids and control flow.

use super::lines::{Lines, n, prologue};
use super::{FLOATS, Place, Rewrite, typed};
use crate::failure::Cause;
use ComputeOp as Op;
use vyre_foundation::ir::{
    Axis, Buffer, BufferKind, BuiltinOp, ComputeOp, ControlOp, DataType, Literal, Node, OpId, Operand,
    ProgramParts, WriteOp,
};

pub(super) const REWRITES: &[Rewrite] = &[
    Rewrite::whole("last-workgroup-missing", Cause::MissingWorkgroups, |parts, _| {
        guarded(parts, |lines| {
            let (at, count) = workgroups(lines);
            let last = lines.index(Op::Sub, count, n(1));
            lines.index(Op::Lt, at, last)
        })
    }),
    Rewrite::whole("first-workgroup-only", Cause::MissingWorkgroups, |parts, _| {
        guarded(parts, |lines| {
            let at = lines.builtin(BuiltinOp::WorkgroupIndex, None);
            lines.index(Op::Eq, at, n(0))
        })
    }),
    Rewrite::whole("half-of-the-workgroups", Cause::MissingWorkgroups, |parts, _| {
        guarded(parts, |lines| {
            let (at, count) = workgroups(lines);
            let half = lines.index(Op::Div, count, n(2));
            lines.index(Op::Lt, at, half)
        })
    }),
    Rewrite::whole("last-lane-missing", Cause::MissingLanes, |parts, _| {
        let lanes = parts.workgroup_lanes() as u32;
        guarded(parts, |lines| {
            let at = lines.builtin(BuiltinOp::LocalIndex, None);
            lines.index(Op::Ne, at, n(lanes - 1))
        })
    }),
    Rewrite::whole("partial-warp-missing", Cause::MissingLanes, |parts, _| {
        let lanes = parts.workgroup_lanes() as u32;
        if lanes < 32 || lanes.is_multiple_of(32) {
            return None;
        }
        guarded(parts, |lines| {
            let at = lines.builtin(BuiltinOp::LocalIndex, None);
            lines.index(Op::Lt, at, n(lanes / 32 * 32))
        })
    }),
    Rewrite::whole("first-lane-only", Cause::MissingLanes, |parts, _| {
        guarded(parts, |lines| {
            let at = lines.builtin(BuiltinOp::LocalIndex, None);
            lines.index(Op::Eq, at, n(0))
        })
    }),
    Rewrite::grid("one-workgroup-less-along-x", Cause::MissingWorkgroups, |[x, y, z]| {
        [x.saturating_sub(1), y, z]
    }),
    Rewrite::grid("one-workgroup-less-along-y", Cause::MissingWorkgroups, |[x, y, z]| {
        [x, y.saturating_sub(1), z]
    }),
    Rewrite::grid("one-workgroup-less-along-z", Cause::MissingWorkgroups, |[x, y, z]| {
        [x, y, z.saturating_sub(1)]
    }),
    Rewrite::grid("only-along-x", Cause::MissingWorkgroups, |[x, y, z]| [x, y.min(1), z.min(1)]),
    Rewrite::grid("one-workgroup-more-along-x", Cause::ExtraLanes, |[x, y, z]| [x + 1, y, z]),
    Rewrite::grid("one-workgroup-more-along-y", Cause::ExtraLanes, |[x, y, z]| [x, y + 1, z]),
    Rewrite::grid("one-workgroup-more-along-z", Cause::ExtraLanes, |[x, y, z]| [x, y, z + 1]),
    Rewrite::grid("grid-transposed", Cause::WrongIds, |[x, y, z]| [y, x, z]),
    Rewrite::grid("grid-reversed", Cause::WrongIds, |[x, y, z]| [z, y, x]),
    Rewrite::whole("workgroup-transposed", Cause::WrongIds, |parts, _| {
        parts.workgroup.swap(0, 1);
        Some(())
    }),
    Rewrite::whole("workgroup-memory-kept", Cause::UnzeroedWorkgroupMemory, |parts, _| {
        let first = parts.buffers.iter().filter_map(Buffer::binding).max().map_or(0, |max| max + 1);
        let shared: Vec<usize> = (0..parts.buffers.len())
            .filter(|at| matches!(parts.buffers[*at].kind, BufferKind::Workgroup))
            .collect();
        for (at, binding) in shared.iter().zip(first..) {
            parts.buffers[*at].kind = BufferKind::ReadWrite { binding, output: false };
        }
        (!shared.is_empty()).then_some(())
    }),
    Rewrite::lines("next-axis", Cause::WrongIds, axes, |lines, node| match node {
        Node::Builtin { result, op, axis: Some(axis) } => {
            let axis = Some(Axis::ALL[(axis.index() + 1) % 3]);
            lines.push(Node::Builtin { result: *result, op: *op, axis });
            Some(())
        }
        _ => None,
    }),
    Rewrite::lines("one-more", Cause::WrongIds, ids, |lines, node| match node {
        Node::Builtin { result, op, axis } => {
            let right = lines.builtin(*op, *axis);
            lines.give(*result, Op::Add, DataType::U32, [right, n(1)]);
            Some(())
        }
        _ => None,
    }),
    Rewrite::lines("zero", Cause::WrongIds, ids, |lines, node| {
        lines.copy(node.result()?, DataType::U32, n(0));
        Some(())
    }),
    Rewrite::lines("y-first", Cause::WrongIds, indices, y_first),
    Rewrite::lines(
        "size-left-out",
        Cause::WrongIds,
        || along(BuiltinOp::GlobalId),
        |lines, node| match node {
            Node::Builtin { result, axis, .. } => {
                let group = lines.builtin(BuiltinOp::WorkgroupId, *axis);
                let local = lines.builtin(BuiltinOp::LocalId, *axis);
                lines.give(*result, Op::Add, DataType::U32, [group, local]);
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines(
        "counts-lanes",
        Cause::WrongIds,
        || along(BuiltinOp::NumWorkgroups),
        |lines, node| match node {
            Node::Builtin { result, op, axis } => {
                let groups = lines.builtin(*op, *axis);
                let size = lines.builtin(BuiltinOp::WorkgroupSize, *axis);
                lines.give(*result, Op::Mul, DataType::U32, [groups, size]);
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines("one-trip-more", Cause::BoundaryComparison, loops, |lines, node| {
        reloop(lines, node, |lines, Bounds { lo, hi, step }| {
            let hi = lines.compute(Op::AddSat, DataType::U32, [hi, n(step)]);
            Bounds { lo, hi, step }
        })
    }),
    Rewrite::lines("one-trip-less", Cause::BoundaryComparison, loops, |lines, node| {
        reloop(lines, node, |lines, Bounds { lo, hi, step }| {
            let hi = lines.compute(Op::SubSat, DataType::U32, [hi, n(1)]);
            Bounds { lo, hi, step }
        })
    }),
    Rewrite::lines("at-least-one-trip", Cause::BoundaryComparison, loops, |lines, node| {
        reloop(lines, node, |lines, Bounds { lo, hi, step }| {
            let least = lines.compute(Op::AddSat, DataType::U32, [lo, n(1)]);
            Bounds { lo, hi: lines.index(Op::Max, hi, least), step }
        })
    }),
    Rewrite::lines("starts-one-late", Cause::BoundaryComparison, loops, |lines, node| {
        reloop(lines, node, |lines, Bounds { lo, hi, step }| Bounds {
            lo: lines.compute(Op::AddSat, DataType::U32, [lo, n(1)]),
            hi,
            step,
        })
    }),
    Rewrite::lines("step-ignored", Cause::BoundaryComparison, loops, |lines, node| {
        reloop(lines, node, |_, bounds| Bounds { step: 1, ..bounds })
    }),
    Rewrite::lines("step-doubled", Cause::BoundaryComparison, loops, |lines, node| {
        reloop(lines, node, |_, bounds| Bounds { step: bounds.step.saturating_mul(2), ..bounds })
    }),
    Rewrite::lines("at-most-65535-trips", Cause::BoundaryComparison, loops, |lines, node| {
        reloop(lines, node, |lines, Bounds { lo, hi, step }| {
            let most = lines.compute(Op::AddSat, DataType::U32, [lo, n(step.saturating_mul(65_535))]);
            Bounds { lo, hi: lines.index(Op::Min, hi, most), step }
        })
    }),
    Rewrite::lines("bound-read-again", Cause::BoundaryComparison, loops, bound_read_again),
    Rewrite::lines(
        "continues",
        Cause::WrongOp,
        || control(ControlOp::Break),
        |lines, _| {
            lines.push(Node::Continue);
            Some(())
        },
    ),
    Rewrite::lines(
        "breaks",
        Cause::WrongOp,
        || control(ControlOp::Continue),
        |lines, _| {
            lines.push(Node::Break);
            Some(())
        },
    ),
    Rewrite::lines("left-out", Cause::WrongOp, || control(ControlOp::Break), |_, _| Some(())),
    Rewrite::lines("left-out", Cause::WrongOp, || control(ControlOp::Continue), |_, _| Some(())),
    Rewrite::lines(
        "negated",
        Cause::WrongOp,
        || control(ControlOp::If),
        |lines, node| match node {
            Node::If { cond, then, otherwise } => {
                let cond = lines.compute(Op::Not, DataType::Bool, [*cond]);
                lines.push(Node::If { cond, then: then.clone(), otherwise: otherwise.clone() });
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines(
        "always-taken",
        Cause::WrongOp,
        || control(ControlOp::If),
        |lines, node| match node {
            Node::If { then, otherwise, .. } => {
                let cond = Literal::bool(true).into();
                lines.push(Node::If { cond, then: then.clone(), otherwise: otherwise.clone() });
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines(
        "else-always-taken",
        Cause::WrongOp,
        || control(ControlOp::If),
        |lines, node| match node {
            Node::If { cond, then, otherwise } if !otherwise.is_empty() => {
                lines.push(Node::If { cond: *cond, then: then.clone(), otherwise: Vec::new() });
                let cond = Literal::bool(true).into();
                lines.push(Node::If { cond, then: otherwise.clone(), otherwise: Vec::new() });
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines(
        "else-left-out",
        Cause::WrongOp,
        || control(ControlOp::If),
        |lines, node| match node {
            Node::If { cond, then, otherwise } if !otherwise.is_empty() => {
                lines.push(Node::If { cond: *cond, then: then.clone(), otherwise: Vec::new() });
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines(
        "arguments-swapped",
        Cause::WrongOp,
        || control(ControlOp::Call),
        |lines, node| match node {
            Node::Call { result, function, args } => {
                let mut args = args.clone();
                let params = &lines.parts.functions[function.index()].params;
                let other = (1..args.len()).find(|at| params[*at].1 == params[0].1)?;
                args.swap(0, other);
                lines.push(Node::Call { result: *result, function: *function, args });
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines(
        "gives-zero",
        Cause::WrongOp,
        || control(ControlOp::Call),
        |lines, node| match node {
            Node::Call { result: Some(result), function, .. } => {
                let ty = lines.parts.functions[function.index()].result?;
                lines.copy(*result, ty, super::lines::bits(ty, 0));
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines(
        "left-out",
        Cause::Trap,
        || vec![Place::Op(OpId::WriteOp(WriteOp::Trap))],
        |_, _| Some(()),
    ),
    Rewrite::lines(
        "other-code",
        Cause::Trap,
        || vec![Place::Op(OpId::WriteOp(WriteOp::Trap))],
        |lines, node| match node {
            Node::Trap { code } => {
                lines.push(Node::Trap { code: code ^ 1 });
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines(
        "one-element-late",
        Cause::WrongIds,
        || control(ControlOp::IndirectDispatch),
        |lines, node| match node {
            Node::IndirectDispatch { buffer, offset } => {
                lines.push(Node::IndirectDispatch { buffer: *buffer, offset: offset + 1 });
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines("contracted", Cause::FusedMultiplyAdd, sums, contracted),
    Rewrite::lines("reassociated", Cause::WrongRounding, folds, |lines, node| match node {
        // (a + b) + c becomes a + (b + c).
        Node::Compute { result, op, ty, args } => {
            let (inner, c) = (args[0], args[1]);
            let Node::Compute { op: first, ty: of, args: pair, .. } = lines.line_of(inner)?.clone() else {
                return None;
            };
            if (first, of) != (*op, *ty) {
                return None;
            }
            let right = lines.compute(*op, *ty, [pair[1], c]);
            lines.give(*result, *op, *ty, [pair[0], right]);
            Some(())
        }
        _ => None,
    }),
    Rewrite::lines(
        "cancelled",
        Cause::WrongRounding,
        || floats(Op::Sub),
        |lines, node| match node {
            // (a + b) - a becomes b, and a - a becomes 0.
            Node::Compute { result, ty, args, .. } => {
                if args[0] == args[1] {
                    lines.copy(*result, *ty, super::lines::bits(*ty, 0));
                    return Some(());
                }
                let Node::Compute { op: Op::Add, ty: of, args: pair, .. } = lines.line_of(args[0])?.clone()
                else {
                    return None;
                };
                let rest = if pair[0] == args[1] { pair[1] } else { pair[0] };
                (of == *ty && pair.contains(&args[1])).then(|| lines.copy(*result, *ty, rest))
            }
            _ => None,
        },
    ),
];

fn control(op: ControlOp) -> Vec<Place> {
    vec![Place::Op(OpId::ControlOp(op))]
}

fn loops() -> Vec<Place> {
    control(ControlOp::For)
}

fn along(op: BuiltinOp) -> Vec<Place> {
    Axis::ALL.into_iter().map(|axis| Place::Axis(op, axis)).collect()
}

fn axes() -> Vec<Place> {
    BuiltinOp::ALL.iter().filter(|op| op.has_axis()).flat_map(|op| along(*op)).collect()
}

fn ids() -> Vec<Place> {
    let whole = BuiltinOp::ALL.iter().filter(|op| !op.has_axis()).map(|op| Place::Op(OpId::BuiltinOp(*op)));
    whole.chain(axes()).collect()
}

fn indices() -> Vec<Place> {
    let ops = [BuiltinOp::GlobalIndex, BuiltinOp::LocalIndex, BuiltinOp::WorkgroupIndex];
    ops.into_iter().map(|op| Place::Op(OpId::BuiltinOp(op))).collect()
}

fn floats(op: ComputeOp) -> Vec<Place> {
    typed(OpId::ComputeOp(op), &FLOATS)
}

fn sums() -> Vec<Place> {
    [floats(Op::Add), floats(Op::Sub)].concat()
}

fn folds() -> Vec<Place> {
    [floats(Op::Add), floats(Op::Mul)].concat()
}

/// Puts the whole body under a condition.
fn guarded(parts: &mut ProgramParts, condition: impl FnOnce(&mut Lines<'_>) -> Operand) -> Option<()> {
    if matches!(parts.body.block.first(), Some(Node::IndirectDispatch { .. })) {
        return None;
    }
    let body = std::mem::take(&mut parts.body.block);
    let mut cond = n(0);
    let mut block = prologue(parts, |lines| cond = condition(lines));
    block.push(Node::If { cond, then: body, otherwise: Vec::new() });
    parts.body.block = block;
    Some(())
}

/// This workgroup's number and how many there are.
fn workgroups(lines: &mut Lines<'_>) -> (Operand, Operand) {
    let at = lines.builtin(BuiltinOp::WorkgroupIndex, None);
    let counts = Axis::ALL.map(|axis| lines.builtin(BuiltinOp::NumWorkgroups, Some(axis)));
    let plane = lines.index(Op::Mul, counts[0], counts[1]);
    (at, lines.index(Op::Mul, plane, counts[2]))
}

/// The index with y as the fastest axis.
fn y_first(lines: &mut Lines<'_>, node: &Node) -> Option<()> {
    let Node::Builtin { result, op, .. } = node else { return None };
    let (id, count) = match op {
        BuiltinOp::GlobalIndex => (BuiltinOp::GlobalId, BuiltinOp::NumWorkgroups),
        BuiltinOp::LocalIndex => (BuiltinOp::LocalId, BuiltinOp::WorkgroupSize),
        _ => (BuiltinOp::WorkgroupId, BuiltinOp::NumWorkgroups),
    };
    let [x, y, z] = Axis::ALL.map(|axis| lines.builtin(id, Some(axis)));
    let mut extent = |axis| {
        let count = lines.builtin(count, Some(axis));
        match op {
            BuiltinOp::GlobalIndex => {
                let size = lines.builtin(BuiltinOp::WorkgroupSize, Some(axis));
                lines.index(Op::Mul, count, size)
            }
            _ => count,
        }
    };
    let (wide, high) = (extent(Axis::X), extent(Axis::Y));
    let rows = lines.index(Op::Mul, z, wide);
    let row = lines.index(Op::Add, x, rows);
    let before = lines.index(Op::Mul, row, high);
    lines.give(*result, Op::Add, DataType::U32, [y, before]);
    Some(())
}

/// The bounds of a loop.
struct Bounds {
    lo: Operand,
    hi: Operand,
    step: u32,
}

fn reloop(lines: &mut Lines<'_>, node: &Node, change: fn(&mut Lines<'_>, Bounds) -> Bounds) -> Option<()> {
    let Node::For { counter, lo, hi, step, body } = node else { return None };
    let Bounds { lo, hi, step } = change(lines, Bounds { lo: *lo, hi: *hi, step: *step });
    lines.push(Node::For { counter: *counter, lo, hi, step, body: body.clone() });
    Some(())
}

/// A loop that looks at its bound's local before every trip.
fn bound_read_again(lines: &mut Lines<'_>, node: &Node) -> Option<()> {
    let Node::For { counter, lo, hi, step, body } = node else { return None };
    let Node::Get { ty, local, index: None, .. } = lines.line_of(*hi)?.clone() else { return None };
    let body = lines.block_of(|lines| {
        let now = lines.value_of(|result| Node::Get { result, ty, local, index: None });
        let over = lines.index(Op::Ge, Operand::Value(*counter), now);
        lines.when(over, |lines| lines.push(Node::Break));
        body.iter().for_each(|node| lines.push(node.clone()));
    });
    lines.push(Node::For { counter: *counter, lo: *lo, hi: n(u32::MAX), step: *step, body });
    Some(())
}

/// A multiplication and the sum that uses it as one `fma`.
fn contracted(lines: &mut Lines<'_>, node: &Node) -> Option<()> {
    let Node::Compute { result, op, ty, args } = node else { return None };
    let product = |lines: &Lines<'_>, operand: Operand| match lines.line_of(operand) {
        Some(Node::Compute { op: Op::Mul, ty: of, args, .. }) if of == ty => Some([args[0], args[1]]),
        _ => None,
    };
    match (product(lines, args[0]), product(lines, args[1]), op) {
        (Some([a, b]), _, Op::Add) => lines.give(*result, Op::Fma, *ty, [a, b, args[1]]),
        (None, Some([a, b]), Op::Add) => lines.give(*result, Op::Fma, *ty, [a, b, args[0]]),
        (Some([a, b]), _, Op::Sub) => {
            let c = lines.compute(Op::Neg, *ty, [args[1]]);
            lines.give(*result, Op::Fma, *ty, [a, b, c]);
        }
        (None, Some([a, b]), Op::Sub) => {
            let a = lines.compute(Op::Neg, *ty, [a]);
            lines.give(*result, Op::Fma, *ty, [a, b, args[0]]);
        }
        _ => return None,
    }
    Some(())
}
