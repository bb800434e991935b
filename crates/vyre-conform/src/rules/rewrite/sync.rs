//! Wrong atomics, subgroup ops, barriers and tile products.

use super::lines::{Lines, bits, n};
use super::{FLOATS, INTEGERS, Place, Rewrite, WIDE, computing, typed};
use crate::failure::Cause;
use ComputeOp as Op;
use vyre_foundation::ir::{
    Args, AtomicOp, BufferId, BuiltinOp, ComputeOp, DataType, MemoryOrdering, Node, OpId, Operand, ReduceOp,
    SubgroupOp, Sweep, SyncOp, Value,
};

pub(super) const REWRITES: &[Rewrite] = &[
    Rewrite::lines("updates-lost", Cause::NonAtomic, atomics, |lines, node| {
        let Atomic { result, op, ty, buffer, index, args } = atomic(node)?;
        if let Some(result) = result {
            lines.push(Node::Load { result, ty, buffer, index });
        }
        let lane = lines.builtin(BuiltinOp::LocalIndex, None);
        let odd = lines.index(Op::And, lane, n(1));
        let even = lines.index(Op::Eq, odd, n(0));
        lines.when(even, |lines| lines.push(Node::Atomic { result: None, op, ty, buffer, index, args }));
        Some(())
    }),
    Rewrite::lines("gives-the-new-value", Cause::WrongOp, atomics, |lines, node| {
        let Atomic { result, op, ty, buffer, index, args } = atomic(node)?;
        let result = result?;
        lines.push(Node::Atomic { result: None, op, ty, buffer, index, args });
        lines.push(Node::Load { result, ty, buffer, index });
        Some(())
    }),
    Rewrite::lines("other-op", Cause::WrongOp, atomics, |lines, node| {
        let Atomic { result, op, ty, buffer, index, args } = atomic(node)?;
        let (op, args) = match op {
            AtomicOp::Add => (AtomicOp::Sub, args),
            AtomicOp::Sub => (AtomicOp::Add, args),
            AtomicOp::Min => (AtomicOp::Max, args),
            AtomicOp::Max => (AtomicOp::Min, args),
            AtomicOp::And => (AtomicOp::Or, args),
            AtomicOp::Or => (AtomicOp::And, args),
            AtomicOp::Xor => (AtomicOp::Or, args),
            AtomicOp::Exchange => (AtomicOp::Add, args),
            AtomicOp::CompareExchange => (AtomicOp::Exchange, args[1..].into()),
        };
        lines.push(Node::Atomic { result, op, ty, buffer, index, args });
        Some(())
    }),
    Rewrite::lines(
        "other-signedness",
        Cause::Signedness,
        || ordered_atomics(&INTEGERS),
        |lines, node| {
            replaced(lines, node, |lines, op, ty, old, args| {
                let other = match ty {
                    DataType::U32 => DataType::I32,
                    DataType::I32 => DataType::U32,
                    DataType::U64 => DataType::I64,
                    _ => DataType::U64,
                };
                let fold = if op == AtomicOp::Min { Op::Min } else { Op::Max };
                let pair = [old, args[0]].map(|operand| lines.compute(Op::Bitcast, other, [operand]));
                let kept = lines.compute(fold, other, pair);
                Some(lines.compute(Op::Bitcast, ty, [kept]))
            })
        },
    ),
    Rewrite::lines("halves-apart", Cause::WideInteger, wide_atomics, |lines, node| {
        replaced(lines, node, |lines, op, ty, old, args| {
            let value = args[args.len() - 1];
            let (low, high) = (bits(ty, 0xffff_ffff), bits(ty, 0xffff_ffff_0000_0000));
            let part = |lines: &mut Lines<'_>, operand, mask| lines.compute(Op::And, ty, [operand, mask]);
            let fold = match op {
                AtomicOp::Add => Op::Add,
                AtomicOp::Sub => Op::Sub,
                AtomicOp::Min => Op::Min,
                AtomicOp::Max => Op::Max,
                AtomicOp::Exchange => {
                    let (old, new) = (part(lines, old, high), part(lines, value, low));
                    return Some(lines.compute(Op::Or, ty, [old, new]));
                }
                AtomicOp::CompareExchange => {
                    let pair = [part(lines, old, low), part(lines, args[0], low)];
                    let equal = lines.compute(Op::Eq, ty, pair);
                    return Some(lines.compute(Op::Select, ty, [equal, value, old]));
                }
                AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => return None,
            };
            let halves = [low, high].map(|mask| {
                let pair = [part(lines, old, mask), part(lines, value, mask)];
                let folded = lines.compute(fold, ty, pair);
                part(lines, folded, mask)
            });
            Some(lines.compute(Op::Or, ty, halves))
        })
    }),
    Rewrite::lines("left-out", Cause::WrongOp, atomics, |lines, node| {
        let Atomic { result, ty, buffer, index, .. } = atomic(node)?;
        if let Some(result) = result {
            lines.push(Node::Load { result, ty, buffer, index });
        }
        Some(())
    }),
    Rewrite::lines("out-of-bounds-clamped", Cause::OutOfBounds, atomics, |lines, node| {
        let Atomic { result, op, ty, buffer, index, args } = atomic(node)?;
        let index = super::memory::clamped(lines, buffer, index);
        lines.push(Node::Atomic { result, op, ty, buffer, index, args });
        Some(())
    }),
    Rewrite::lines("out-of-bounds-wrapped", Cause::OutOfBounds, atomics, |lines, node| {
        let Atomic { result, op, ty, buffer, index, args } = atomic(node)?;
        let index = super::memory::wrapped(lines, buffer, index);
        lines.push(Node::Atomic { result, op, ty, buffer, index, args });
        Some(())
    }),
    Rewrite::whole("subgroups-half-as-wide", Cause::SubgroupWidth, |parts, _| {
        parts.subgroup = Some(parts.subgroup.filter(|width| *width > 1)? / 2);
        Some(())
    }),
    Rewrite::whole("subgroups-twice-as-wide", Cause::SubgroupWidth, |parts, _| {
        let wider = parts.subgroup.filter(|width| *width < 32)? * 2;
        parts.subgroup = parts.workgroup_lanes().is_multiple_of(wider.into()).then_some(wider);
        parts.subgroup.map(|_| ())
    }),
    Rewrite::lines("half-as-wide", Cause::SubgroupWidth, subgroups, half_as_wide),
    Rewrite::lines(
        "left-to-right",
        Cause::SubgroupWidth,
        || folds(&[ReduceOp::Add, ReduceOp::Mul], &FLOATS),
        left_to_right,
    ),
    Rewrite::lines("inclusive-and-exclusive-swapped", Cause::SubgroupWidth, scans, |lines, node| {
        let (result, op, ty, args) = subgroup(node)?;
        let op = match op.fold()? {
            (Sweep::Inclusive, fold) => find(Sweep::Exclusive, fold),
            (Sweep::Exclusive, fold) => find(Sweep::Inclusive, fold),
            (Sweep::Reduce, _) => return None,
        };
        lines.push(Node::Subgroup { result, op, ty, args: args.clone() });
        Some(())
    }),
    Rewrite::lines("prefix-instead-of-all", Cause::SubgroupWidth, reductions, |lines, node| {
        let (result, op, ty, args) = subgroup(node)?;
        let (Sweep::Reduce, fold) = op.fold()? else { return None };
        lines.push(Node::Subgroup { result, op: find(Sweep::Inclusive, fold), ty, args: args.clone() });
        Some(())
    }),
    Rewrite::lines("first-lane-gets-its-own", Cause::SubgroupWidth, exclusives, |lines, node| {
        let (_, _, _, args) = subgroup(node)?;
        first_lane(lines, node, args[0])
    }),
    Rewrite::lines("first-lane-gets-zero", Cause::SubgroupWidth, exclusives_from_something, |lines, node| {
        let (_, _, ty, _) = subgroup(node)?;
        first_lane(lines, node, bits(ty, 0))
    }),
    Rewrite::lines("first-lane-gets-minus-zero", Cause::SignedZero, exclusive_sums, |lines, node| {
        let (_, _, ty, _) = subgroup(node)?;
        first_lane(lines, node, bits(ty, ty.mask() ^ ty.mask() >> 1))
    }),
    Rewrite::lines("lane-clamped", Cause::SubgroupWidth, picks, |lines, node| {
        let (result, op, ty, args) = subgroup(node)?;
        let last = n(lines.parts.subgroup? - 1);
        let lane = lines.index(Op::Min, args[1], last);
        lines.push(Node::Subgroup { result, op, ty, args: Args::from_slice(&[args[0], lane]) });
        Some(())
    }),
    Rewrite::lines("own-value-past-the-width", Cause::SubgroupWidth, picks, |lines, node| {
        let (result, op, ty, args) = subgroup(node)?;
        let width = n(lines.parts.subgroup?);
        let right = lines.subgroup(op, ty, [args[0], args[1]]);
        let inside = lines.index(Op::Lt, args[1], width);
        lines.give(result, Op::Select, ty, [inside, right, args[0]]);
        Some(())
    }),
    Rewrite::lines("next-lane", Cause::SubgroupWidth, picks, |lines, node| {
        let (result, op, ty, args) = subgroup(node)?;
        let lane = lines.index(Op::Add, args[1], n(1));
        lines.push(Node::Subgroup { result, op, ty, args: Args::from_slice(&[args[0], lane]) });
        Some(())
    }),
    Rewrite::lines("any-and-all-swapped", Cause::WrongOp, votes, |lines, node| {
        let (result, op, ty, args) = subgroup(node)?;
        let op = match op {
            SubgroupOp::Any => SubgroupOp::All,
            SubgroupOp::All => SubgroupOp::Any,
            _ => return None,
        };
        lines.push(Node::Subgroup { result, op, ty, args: args.clone() });
        Some(())
    }),
    Rewrite::lines("lanes-reversed", Cause::SubgroupWidth, masks, |lines, node| {
        let (result, op, ty, args) = subgroup(node)?;
        let width = lines.parts.subgroup?;
        let mask = lines.subgroup(op, ty, [args[0]]);
        let turned = lines.compute(Op::ReverseBits, DataType::U32, [mask]);
        lines.give(result, Op::Shr, DataType::U32, [turned, n(32 - width)]);
        Some(())
    }),
    Rewrite::lines("first-lane-left-out", Cause::SubgroupWidth, masks, |lines, node| {
        let (result, op, ty, args) = subgroup(node)?;
        let mask = lines.subgroup(op, ty, [args[0]]);
        lines.give(result, Op::And, DataType::U32, [mask, n(!1)]);
        Some(())
    }),
    Rewrite::lines(
        "low-halves-compared",
        Cause::WideInteger,
        || typed(id(SubgroupOp::Match), &WIDE),
        |lines, node| {
            let (result, op, ty, args) = subgroup(node)?;
            let low = lines.compute(Op::And, ty, [args[0], bits(ty, 0xffff_ffff)]);
            lines.push(Node::Subgroup { result, op, ty, args: Args::from_slice(&[low]) });
            Some(())
        },
    ),
    Rewrite::lines("left-out", Cause::MissingBarrier, barriers, |_, _| Some(())),
    Rewrite::lines("left-out-backwards", Cause::MissingBarrier, barriers, |_, _| Some(())).reversed(),
    Rewrite::lines("left-out", Cause::WrongOp, collectives, |_, _| Some(())),
    Rewrite::lines("plain-load", Cause::MissingBarrier, uniform_loads, |lines, node| match node {
        Node::UniformLoad { result, ty, buffer, index } => {
            lines.push(Node::Load { result: *result, ty: *ty, buffer: *buffer, index: *index });
            Some(())
        }
        _ => None,
    }),
    Rewrite::lines("plain-load-backwards", Cause::MissingBarrier, uniform_loads, |lines, node| match node {
        Node::UniformLoad { result, ty, buffer, index } => {
            lines.push(Node::Load { result: *result, ty: *ty, buffer: *buffer, index: *index });
            Some(())
        }
        _ => None,
    })
    .reversed(),
    Rewrite::lines("factors-swapped", Cause::WrongOp, tiles, |lines, node| match node {
        Node::Mma { m, n, k, c, a, b } => {
            lines.push(Node::Mma { m: *m, n: *n, k: *k, c: *c, a: *b, b: *a });
            Some(())
        }
        _ => None,
    }),
    Rewrite::lines("last-row-missing", Cause::WrongOp, tiles, |lines, node| smaller(lines, node, [1, 0, 0])),
    Rewrite::lines("last-term-missing", Cause::WrongOp, tiles, |lines, node| smaller(lines, node, [0, 0, 1])),
    Rewrite::lines("left-out", Cause::WrongOp, tiles, |_, _| Some(())),
    Rewrite::lines("overwrites", Cause::WrongOp, tiles, |lines, node| match node {
        Node::Mma { m, n: columns, c, .. } => {
            let barrier = || Node::Barrier { ordering: MemoryOrdering::Workgroup };
            lines.push(barrier());
            let lane = lines.builtin(BuiltinOp::LocalIndex, None);
            let first = lines.index(Op::Eq, lane, n(0));
            lines.when(first, |lines| {
                for at in 0..(m * columns).min(256) {
                    let index = lines.index(Op::Add, c.offset, n(at));
                    lines.store(c.buffer, index, bits(DataType::I32, 0));
                }
            });
            lines.push(barrier());
            lines.push(node.clone());
            Some(())
        }
        _ => None,
    }),
];

const fn id(op: SubgroupOp) -> OpId {
    OpId::SubgroupOp(op)
}

/// The fields of an atomic.
struct Atomic {
    result: Option<Value>,
    op: AtomicOp,
    ty: DataType,
    buffer: BufferId,
    index: Operand,
    args: Args,
}

fn atomic(node: &Node) -> Option<Atomic> {
    match node {
        Node::Atomic { result, op, ty, buffer, index, args } => Some(Atomic {
            result: *result,
            op: *op,
            ty: *ty,
            buffer: *buffer,
            index: *index,
            args: args.clone(),
        }),
        _ => None,
    }
}

/// The value that an atomic stores, from its op, its type, the old value and its operands.
type Update = fn(&mut Lines<'_>, AtomicOp, DataType, Operand, &Args) -> Option<Operand>;

/// An atomic as a load, another update and a store.
fn replaced(lines: &mut Lines<'_>, node: &Node, update: Update) -> Option<()> {
    let Atomic { result, op, ty, buffer, index, args } = atomic(node)?;
    let old = lines.load(buffer, index);
    let new = update(lines, op, ty, old, &args)?;
    lines.store(buffer, index, new);
    if let Some(result) = result {
        lines.copy(result, ty, old);
    }
    Some(())
}

fn atomics() -> Vec<Place> {
    AtomicOp::ALL.iter().flat_map(|op| typed(OpId::AtomicOp(*op), &INTEGERS)).collect()
}

fn ordered_atomics(types: &[DataType]) -> Vec<Place> {
    [AtomicOp::Min, AtomicOp::Max].into_iter().flat_map(|op| typed(OpId::AtomicOp(op), types)).collect()
}

fn wide_atomics() -> Vec<Place> {
    let bitwise = |op: &AtomicOp| matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
    let ops = AtomicOp::ALL.iter().filter(|op| !bitwise(op));
    ops.flat_map(|op| typed(OpId::AtomicOp(*op), &WIDE)).collect()
}

fn barriers() -> Vec<Place> {
    [SyncOp::Barrier, SyncOp::SubgroupBarrier, SyncOp::GridBarrier]
        .into_iter()
        .map(|op| Place::Op(OpId::SyncOp(op)))
        .collect()
}

fn collectives() -> Vec<Place> {
    let ops = [SyncOp::AllReduce, SyncOp::AllGather, SyncOp::ReduceScatter, SyncOp::Broadcast];
    ops.into_iter().map(|op| Place::Op(OpId::SyncOp(op))).collect()
}

fn uniform_loads() -> Vec<Place> {
    vec![Place::Op(OpId::SyncOp(SyncOp::UniformLoad))]
}

fn tiles() -> Vec<Place> {
    vec![Place::Op(OpId::SyncOp(SyncOp::Mma))]
}

fn smaller(lines: &mut Lines<'_>, node: &Node, by: [u32; 3]) -> Option<()> {
    let Node::Mma { m, n, k, c, a, b } = node else { return None };
    let [m, n, k] = [m - by[0], n - by[1], k - by[2]];
    if m * n * k > 0 {
        lines.push(Node::Mma { m, n, k, c: *c, a: *a, b: *b });
    }
    Some(())
}

fn find(wanted: Sweep, fold: ReduceOp) -> SubgroupOp {
    let found = SubgroupOp::ALL.iter().find(|op| op.fold() == Some((wanted, fold)));
    *found.expect("every fold has all three forms")
}

fn subgroup(node: &Node) -> Option<(Value, SubgroupOp, DataType, &Args)> {
    match node {
        Node::Subgroup { result, op, ty, args } => Some((*result, *op, *ty, args)),
        _ => None,
    }
}

fn subgroup_places(wanted: impl Fn(SubgroupOp) -> bool) -> Vec<Place> {
    let places = |op: SubgroupOp| match op.info().types.is_empty() {
        true => vec![Place::Op(id(op))],
        false => typed(id(op), &computing()),
    };
    SubgroupOp::ALL.iter().filter(|op| wanted(**op)).flat_map(|op| places(*op)).collect()
}

fn subgroups() -> Vec<Place> {
    subgroup_places(|_| true)
}

fn scans() -> Vec<Place> {
    subgroup_places(|op| op.fold().is_some_and(|(kind, _)| kind != Sweep::Reduce))
}

fn reductions() -> Vec<Place> {
    subgroup_places(|op| op.fold().is_some_and(|(kind, _)| kind == Sweep::Reduce))
}

fn exclusives() -> Vec<Place> {
    subgroup_places(|op| op.fold().is_some_and(|(kind, _)| kind == Sweep::Exclusive))
}

/// Exclusive scans whose first lane does not get zero.
fn exclusives_from_something() -> Vec<Place> {
    let zero = [ReduceOp::Add, ReduceOp::Or, ReduceOp::Xor];
    let places = subgroup_places(|op| {
        op.fold().is_some_and(|(kind, fold)| kind == Sweep::Exclusive && !zero.contains(&fold))
    });
    // The least of the unsigned integers is zero.
    let is_zero = |place: &Place| matches!(place, Place::Typed(op, DataType::U32 | DataType::U64) if *op == id(SubgroupOp::ExclusiveMax));
    places.into_iter().filter(|place| !is_zero(place)).collect()
}

fn exclusive_sums() -> Vec<Place> {
    typed(id(SubgroupOp::ExclusiveAdd), &FLOATS)
}

fn folds(folds: &[ReduceOp], types: &[DataType]) -> Vec<Place> {
    let ops = SubgroupOp::ALL.iter().filter(|op| op.fold().is_some_and(|(_, fold)| folds.contains(&fold)));
    ops.flat_map(|op| typed(id(*op), types)).collect()
}

fn picks() -> Vec<Place> {
    subgroup_places(|op| matches!(op, SubgroupOp::Shuffle | SubgroupOp::Broadcast))
}

fn votes() -> Vec<Place> {
    subgroup_places(|op| matches!(op, SubgroupOp::Any | SubgroupOp::All))
}

fn masks() -> Vec<Place> {
    subgroup_places(|op| matches!(op, SubgroupOp::Ballot | SubgroupOp::Match))
}

/// An exclusive scan whose first lane gets something else.
fn first_lane(lines: &mut Lines<'_>, node: &Node, gets: Operand) -> Option<()> {
    let (result, op, ty, args) = subgroup(node)?;
    let right = lines.subgroup(op, ty, [args[0]]);
    let lane = lines.builtin(BuiltinOp::SubgroupLane, None);
    let first = lines.index(Op::Eq, lane, n(0));
    lines.give(result, Op::Select, ty, [first, gets, right]);
    Some(())
}

/// A fold in the order of the lanes.
fn left_to_right(lines: &mut Lines<'_>, node: &Node) -> Option<()> {
    let (result, op, ty, args) = subgroup(node)?;
    let (kind, fold) = op.fold()?;
    let width = lines.parts.subgroup.filter(|width| *width > 2)?;
    let lane = lines.builtin(BuiltinOp::SubgroupLane, None);
    let mut sum = lines.subgroup(SubgroupOp::Shuffle, ty, [args[0], n(0)]);
    let mut mine = match kind {
        Sweep::Exclusive => bits(ty, vyre_foundation::scalar::identity(fold, ty)),
        Sweep::Inclusive | Sweep::Reduce => sum,
    };
    for other in 1..width {
        let before = sum;
        let value = lines.subgroup(SubgroupOp::Shuffle, ty, [args[0], n(other)]);
        sum = lines.compute(fold.op(), ty, [sum, value]);
        let here = lines.index(Op::Eq, lane, n(other));
        let gets = if kind == Sweep::Exclusive { before } else { sum };
        mine = lines.compute(Op::Select, ty, [here, gets, mine]);
    }
    let given = if kind == Sweep::Reduce { sum } else { mine };
    lines.copy(result, ty, given);
    Some(())
}

/// A subgroup op that stays within half of the width.
fn half_as_wide(lines: &mut Lines<'_>, node: &Node) -> Option<()> {
    let (result, op, ty, args) = subgroup(node)?;
    let half = lines.parts.subgroup.filter(|width| *width > 1)? / 2;
    let lane = lines.builtin(BuiltinOp::SubgroupLane, None);
    let base = lines.index(Op::And, lane, n(half));
    let inside = |lines: &mut Lines<'_>, mask: Operand| {
        let own = lines.compute(Op::Shl, DataType::U32, [n((1 << half) - 1), base]);
        (lines.index(Op::And, mask, own), own)
    };
    match op {
        SubgroupOp::Ballot | SubgroupOp::Match => {
            let mask = lines.subgroup(op, ty, [args[0]]);
            let (mask, _) = inside(lines, mask);
            lines.copy(result, DataType::U32, mask);
        }
        SubgroupOp::Any | SubgroupOp::All => {
            let mask = lines.subgroup(SubgroupOp::Ballot, DataType::U32, [args[0]]);
            let (mask, own) = inside(lines, mask);
            let (op, with) = if op == SubgroupOp::Any { (Op::Ne, n(0)) } else { (Op::Eq, own) };
            lines.give(result, op, DataType::U32, [mask, with]);
        }
        SubgroupOp::Broadcast | SubgroupOp::Shuffle => {
            let lane = lines.index(Op::And, args[1], n(half - 1));
            let lane = lines.index(Op::Or, base, lane);
            lines.push(Node::Subgroup {
                result,
                op: SubgroupOp::Shuffle,
                ty,
                args: Args::from_slice(&[args[0], lane]),
            });
        }
        _ => {
            let (kind, fold) = op.fold()?;
            let folded = fold_within(lines, (kind, fold), ty, args[0], half);
            lines.copy(result, ty, folded);
        }
    }
    Some(())
}

/// The language's own fold, over the lanes of a narrower subgroup.
fn fold_within(
    lines: &mut Lines<'_>,
    (kind, fold): (Sweep, ReduceOp),
    ty: DataType,
    value: Operand,
    width: u32,
) -> Operand {
    let lane = lines.builtin(BuiltinOp::SubgroupLane, None);
    let place = lines.index(Op::And, lane, n(width - 1));
    let mut x = value;
    let mut distance = 1;
    while distance < width {
        if kind == Sweep::Reduce {
            let other = lines.index(Op::Xor, lane, n(distance));
            let other = lines.subgroup(SubgroupOp::Shuffle, ty, [x, other]);
            x = lines.compute(fold.op(), ty, [x, other]);
        } else {
            let other = lines.index(Op::Sub, lane, n(distance));
            let other = lines.subgroup(SubgroupOp::Shuffle, ty, [x, other]);
            let sum = lines.compute(fold.op(), ty, [other, x]);
            let has = lines.index(Op::Ge, place, n(distance));
            x = lines.compute(Op::Select, ty, [has, sum, x]);
        }
        distance *= 2;
    }
    if kind == Sweep::Exclusive {
        let below = lines.index(Op::Sub, lane, n(1));
        let below = lines.subgroup(SubgroupOp::Shuffle, ty, [x, below]);
        let first = lines.index(Op::Eq, place, n(0));
        let identity = bits(ty, vyre_foundation::scalar::identity(fold, ty));
        x = lines.compute(Op::Select, ty, [first, identity, below]);
    }
    x
}
