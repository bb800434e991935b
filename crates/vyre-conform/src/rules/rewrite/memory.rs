//! Wrong loads, stores, lengths and locals.

use super::lines::{Lines, bits, n};
use super::{FLOATS, Memory, Place, Rewrite, SMALL, WIDE, computing, stored, typed};
use crate::failure::Cause;
use crate::rules::{Rule, float};
use ComputeOp as Op;
use vyre_foundation::ir::{
    BufferId, BufferKind, ComputeOp, DataType, Node, OpId, Operand, ProgramParts, ReadOp, Value, WriteOp,
};

pub(super) const REWRITES: &[Rewrite] = &[
    Rewrite::lines("out-of-bounds-clamped", Cause::OutOfBounds, loads, |lines, node| {
        let (result, ty, buffer, index) = load(node)?;
        let index = clamped(lines, buffer, index);
        lines.push(Node::Load { result, ty, buffer, index });
        Some(())
    }),
    Rewrite::lines("out-of-bounds-wrapped", Cause::OutOfBounds, loads, |lines, node| {
        let (result, ty, buffer, index) = load(node)?;
        let index = wrapped(lines, buffer, index);
        lines.push(Node::Load { result, ty, buffer, index });
        Some(())
    }),
    Rewrite::lines("out-of-bounds-gives-ones", Cause::OutOfBounds, loads, |lines, node| {
        let (result, ty, buffer, index) = load(node)?;
        let (right, ty) = (lines.load(buffer, index), ty.computes_as());
        let inside = in_bounds(lines, buffer, index);
        lines.give(result, Op::Select, ty, [inside, right, bits(ty, ty.mask() >> 2)]);
        Some(())
    }),
    Rewrite::lines("neighbour-read", Cause::OutOfBounds, loads, |lines, node| {
        let (result, ty, buffer, index) = load(node)?;
        let index = lines.index(Op::Xor, index, n(1));
        lines.push(Node::Load { result, ty, buffer, index });
        Some(())
    }),
    Rewrite::lines(
        "index-in-16-bits",
        Cause::OutOfBounds,
        || vec![Place::Op(LOAD), Place::Op(STORE)],
        |lines, node| {
            let mut node = node.clone();
            match &mut node {
                Node::Load { index, .. } | Node::Store { index, .. } => {
                    *index = lines.index(Op::And, *index, n(0xffff))
                }
                _ => return None,
            }
            lines.push(node);
            Some(())
        },
    ),
    Rewrite::lines(
        "other-signedness",
        Cause::Signedness,
        || typed(LOAD, &SMALL[..4]),
        |lines, node| {
            let (result, ty, buffer, index) = load(node)?;
            let value = lines.load(buffer, index);
            let other = if ty.is_signed() { DataType::U32 } else { DataType::I32 };
            let value = lines.compute(Op::Bitcast, other, [value]);
            let value = lines.compute(Op::Extract, other, [value, n(0), n(ty.bits())]);
            lines.give(result, Op::Bitcast, ty.computes_as(), [value]);
            Some(())
        },
    ),
    Rewrite::lines(
        "low-byte-only",
        Cause::NarrowStore,
        || typed(LOAD, &[DataType::U16, DataType::I16]),
        |lines, node| {
            let (result, ty, buffer, index) = load(node)?;
            let (value, ty) = (lines.load(buffer, index), ty.computes_as());
            lines.give(result, Op::And, ty, [value, bits(ty, 0xff)]);
            Some(())
        },
    ),
    Rewrite::lines(
        "high-half-zero",
        Cause::WideInteger,
        || typed(LOAD, &WIDE),
        |lines, node| {
            let (result, ty, buffer, index) = load(node)?;
            let value = lines.load(buffer, index);
            lines.give(result, Op::And, ty, [value, bits(ty, 0xffff_ffff)]);
            Some(())
        },
    ),
    Rewrite::lines(
        "subnormals-flushed",
        Cause::FlushedSubnormals,
        || typed(LOAD, &FLOATS),
        |lines, node| {
            let (result, ty, buffer, index) = load(node)?;
            let value = lines.load(buffer, index);
            let value = flushed(lines, ty, value);
            lines.copy(result, ty, value);
            Some(())
        },
    ),
    Rewrite::lines(
        "aligned-down",
        Cause::OutOfBounds,
        || vec![Place::Bytes],
        |lines, node| {
            let (result, ty, buffer, index) = load(node)?;
            let index = lines.index(Op::And, index, n(!3));
            lines.push(Node::Load { result, ty, buffer, index });
            Some(())
        },
    ),
    Rewrite::lines(
        "bytes-reversed",
        Cause::WrongOp,
        || vec![Place::Bytes],
        |lines, node| {
            let (result, ..) = load(node)?;
            let parts = bytes(lines, node)?;
            join(lines, result, [parts[3], parts[2], parts[1], parts[0]]);
            Some(())
        },
    ),
    Rewrite::lines(
        "bytes-sign-extended",
        Cause::Signedness,
        || vec![Place::Bytes],
        |lines, node| {
            let (result, ..) = load(node)?;
            let parts = bytes(lines, node)?.map(|byte| {
                let signed = lines.compute(Op::Bitcast, DataType::I32, [byte]);
                let signed = lines.compute(Op::Extract, DataType::I32, [signed, n(0), n(8)]);
                lines.compute(Op::Bitcast, DataType::U32, [signed])
            });
            join(lines, result, parts);
            Some(())
        },
    ),
    Rewrite::lines(
        "one-byte-out-is-all-zero",
        Cause::OutOfBounds,
        || vec![Place::Bytes],
        |lines, node| {
            let (result, ty, buffer, index) = load(node)?;
            let right = lines.value_of(|result| Node::Load { result, ty, buffer, index });
            let last = lines.compute(Op::AddSat, DataType::U32, [index, n(3)]);
            let inside = in_bounds(lines, buffer, last);
            lines.give(result, Op::Select, DataType::U32, [inside, right, n(0)]);
            Some(())
        },
    ),
    Rewrite::lines(
        "last-word-repeated",
        Cause::OutOfBounds,
        || vec![Place::Bytes],
        |lines, node| {
            let (result, ty, buffer, index) = load(node)?;
            let len = lines.len(buffer);
            let last = lines.compute(Op::SubSat, DataType::U32, [len, n(4)]);
            let index = lines.index(Op::Min, index, last);
            lines.push(Node::Load { result, ty, buffer, index });
            Some(())
        },
    ),
    Rewrite::lines("out-of-bounds-clamped", Cause::OutOfBounds, stores, |lines, node| {
        let (ty, buffer, index, value) = store(node)?;
        let index = clamped(lines, buffer, index);
        lines.push(Node::Store { ty, buffer, index, value });
        Some(())
    }),
    Rewrite::lines("out-of-bounds-wrapped", Cause::OutOfBounds, stores, |lines, node| {
        let (ty, buffer, index, value) = store(node)?;
        let index = wrapped(lines, buffer, index);
        lines.push(Node::Store { ty, buffer, index, value });
        Some(())
    }),
    Rewrite::lines(
        "neighbour-cleared",
        Cause::NarrowStore,
        || typed(STORE, &SMALL),
        |lines, node| {
            let (ty, buffer, index, value) = store(node)?;
            let neighbour = lines.index(Op::Xor, index, n(1));
            lines.store(buffer, neighbour, bits(ty.computes_as(), 0));
            lines.push(Node::Store { ty, buffer, index, value });
            Some(())
        },
    ),
    Rewrite::lines(
        "upper-bits-spill",
        Cause::NarrowStore,
        || typed(STORE, &SMALL[..4]),
        |lines, node| {
            let (ty, buffer, index, value) = store(node)?;
            let spill = lines.compute(Op::Shr, ty.computes_as(), [value, n(ty.bits())]);
            let next = lines.index(Op::Or, index, n(1));
            let even = lines.index(Op::Ne, index, next);
            lines.when(even, |lines| lines.store(buffer, next, spill));
            lines.push(Node::Store { ty, buffer, index, value });
            Some(())
        },
    ),
    Rewrite::lines(
        "saturates",
        Cause::IntegerOverflow,
        || typed(STORE, &SMALL[..4]),
        |lines, node| {
            let (ty, buffer, index, value) = store(node)?;
            let wide = ty.computes_as();
            let (least, greatest) = match ty.is_signed() {
                true => ((!0u64) << (ty.bits() - 1), ty.mask() >> 1),
                false => (0, ty.mask()),
            };
            let held = lines.compute(Op::Clamp, wide, [value, bits(wide, least), bits(wide, greatest)]);
            lines.push(Node::Store { ty, buffer, index, value: held });
            Some(())
        },
    ),
    Rewrite::lines(
        "high-half-left-out",
        Cause::WideInteger,
        || typed(STORE, &WIDE),
        |lines, node| {
            let (ty, buffer, index, value) = store(node)?;
            let old = lines.load(buffer, index);
            let old = lines.compute(Op::And, ty, [old, bits(ty, 0xffff_ffff_0000_0000)]);
            let low = lines.compute(Op::And, ty, [value, bits(ty, 0xffff_ffff)]);
            let value = lines.compute(Op::Or, ty, [old, low]);
            lines.push(Node::Store { ty, buffer, index, value });
            Some(())
        },
    ),
    Rewrite::lines(
        "subnormals-flushed",
        Cause::FlushedSubnormals,
        || typed(STORE, &FLOATS),
        |lines, node| {
            let (ty, buffer, index, value) = store(node)?;
            let value = flushed(lines, ty, value);
            lines.push(Node::Store { ty, buffer, index, value });
            Some(())
        },
    ),
    Rewrite::lines(
        "minus-zero-lost",
        Cause::SignedZero,
        || typed(STORE, &FLOATS),
        |lines, node| {
            let (ty, buffer, index, value) = store(node)?;
            let zero = lines.compute(Op::Eq, ty, [value, bits(ty, 0)]);
            let value = lines.compute(Op::Select, ty, [zero, bits(ty, 0), value]);
            lines.push(Node::Store { ty, buffer, index, value });
            Some(())
        },
    ),
    Rewrite { whole: floats_as_bits, ..nan_bits("nan-bits-kept", &float::NAN_BITS_KEPT) },
    Rewrite { whole: floats_as_bits, ..nan_bits("nan-made-negative", &float::NAN_MADE_NEGATIVE) },
    Rewrite::lines("counts-bytes", Cause::OutOfBounds, lens, |lines, node| match node {
        Node::Len { result, buffer } if lines.parts.buffer(*buffer).ty.bytes() > 1 => {
            let (len, size) = (lines.len(*buffer), lines.parts.buffer(*buffer).ty.bytes());
            lines.give(*result, Op::Mul, DataType::U32, [len, n(size as u32)]);
            Some(())
        }
        _ => None,
    }),
    Rewrite::lines("one-less", Cause::OutOfBounds, lens, |lines, node| len(lines, node, Op::SubSat, 1)),
    Rewrite::lines("one-more", Cause::OutOfBounds, lens, |lines, node| len(lines, node, Op::Add, 1)),
    Rewrite::lines("left-out", Cause::WrongOp, || typed(SET, &computing()), |_, _| Some(())),
    Rewrite::lines(
        "starts-at-zero",
        Cause::WrongOp,
        || typed(VAR, &computing()),
        |lines, node| match node {
            Node::Var { local, ty, len, init } if init.literal().is_none_or(|init| init.bits() != 0) => {
                lines.push(Node::Var { local: *local, ty: *ty, len: *len, init: bits(*ty, 0) });
                Some(())
            }
            _ => None,
        },
    ),
    Rewrite::lines(
        "out-of-bounds-clamped",
        Cause::OutOfBounds,
        || typed(GET, &computing()),
        |lines, node| array(lines, node, |lines, index, len| lines.index(Op::Min, index, n(len - 1))),
    ),
    Rewrite::lines(
        "out-of-bounds-wrapped",
        Cause::OutOfBounds,
        || typed(GET, &computing()),
        |lines, node| array(lines, node, |lines, index, len| lines.index(Op::Rem, index, n(len))),
    ),
    Rewrite::lines(
        "out-of-bounds-clamped",
        Cause::OutOfBounds,
        || typed(SET, &computing()),
        |lines, node| array(lines, node, |lines, index, len| lines.index(Op::Min, index, n(len - 1))),
    ),
    Rewrite::lines(
        "out-of-bounds-wrapped",
        Cause::OutOfBounds,
        || typed(SET, &computing()),
        |lines, node| array(lines, node, |lines, index, len| lines.index(Op::Rem, index, n(len))),
    ),
    Rewrite::lines(
        "first-element",
        Cause::WrongOp,
        || typed(GET, &computing()),
        |lines, node| array(lines, node, |_, _, _| n(0)),
    ),
];

const LOAD: OpId = OpId::ReadOp(ReadOp::Load);
const STORE: OpId = OpId::WriteOp(WriteOp::Store);
const GET: OpId = OpId::ReadOp(ReadOp::Get);
const SET: OpId = OpId::WriteOp(WriteOp::Set);
const VAR: OpId = OpId::WriteOp(WriteOp::Var);

fn loads() -> Vec<Place> {
    let memories = [Memory::Uniform, Memory::Read, Memory::ReadWrite, Memory::Workgroup, Memory::Table];
    typed(LOAD, &stored()).into_iter().chain(memories.map(|memory| Place::Memory(LOAD, memory))).collect()
}

fn stores() -> Vec<Place> {
    let memories = [Memory::ReadWrite, Memory::Workgroup];
    typed(STORE, &stored()).into_iter().chain(memories.map(|memory| Place::Memory(STORE, memory))).collect()
}

fn lens() -> Vec<Place> {
    vec![Place::Op(OpId::ReadOp(ReadOp::Len))]
}

fn load(node: &Node) -> Option<(Value, DataType, BufferId, Operand)> {
    match node {
        Node::Load { result, ty, buffer, index } => Some((*result, *ty, *buffer, *index)),
        _ => None,
    }
}

fn store(node: &Node) -> Option<(DataType, BufferId, Operand, Operand)> {
    match node {
        Node::Store { ty, buffer, index, value } => Some((*ty, *buffer, *index, *value)),
        _ => None,
    }
}

/// The index, or the last one.
pub(super) fn clamped(lines: &mut Lines<'_>, buffer: BufferId, index: Operand) -> Operand {
    let len = lines.len(buffer);
    let last = lines.index(Op::Sub, len, n(1));
    lines.index(Op::Min, index, last)
}

/// The index modulo the length.
pub(super) fn wrapped(lines: &mut Lines<'_>, buffer: BufferId, index: Operand) -> Operand {
    let len = lines.len(buffer);
    lines.index(Op::Rem, index, len)
}

fn in_bounds(lines: &mut Lines<'_>, buffer: BufferId, index: Operand) -> Operand {
    let len = lines.len(buffer);
    lines.index(Op::Lt, index, len)
}

fn flushed(lines: &mut Lines<'_>, ty: DataType, value: Operand) -> Operand {
    let normal = match ty {
        DataType::F16 => 1 << 10,
        DataType::BF16 => 1 << 7,
        DataType::F32 => 1 << 23,
        _ => 1 << 52,
    };
    let magnitude = lines.compute(Op::Abs, ty, [value]);
    let small = lines.compute(Op::Lt, ty, [magnitude, bits(ty, normal)]);
    let zero = lines.compute(Op::Copysign, ty, [bits(ty, 0), value]);
    lines.compute(Op::Select, ty, [small, zero, value])
}

/// The four bytes that a `load.u32` reads.
fn bytes(lines: &mut Lines<'_>, node: &Node) -> Option<[Operand; 4]> {
    let (_, _, buffer, index) = load(node)?;
    Some([0, 1, 2, 3].map(|at| {
        // Beyond the last index there is nothing.
        let here = lines.compute(Op::AddSat, DataType::U32, [index, n(at)]);
        lines.load(buffer, here)
    }))
}

fn join(lines: &mut Lines<'_>, result: Value, bytes: [Operand; 4]) {
    let mut word = bytes[0];
    for (at, byte) in (1..).zip(&bytes[1..]) {
        let shifted = lines.compute(Op::Shl, DataType::U32, [*byte, n(8 * at)]);
        word = lines.index(Op::Or, word, shifted);
    }
    lines.copy(result, DataType::U32, word);
}

fn len(lines: &mut Lines<'_>, node: &Node, op: ComputeOp, by: u32) -> Option<()> {
    let Node::Len { result, buffer } = node else { return None };
    let len = lines.len(*buffer);
    lines.give(*result, op, DataType::U32, [len, n(by)]);
    Some(())
}

/// An access of a private array at another index.
fn array(
    lines: &mut Lines<'_>,
    node: &Node,
    change: fn(&mut Lines<'_>, Operand, u32) -> Operand,
) -> Option<()> {
    let len = lines.array_len(node.local()?)?;
    let mut node = node.clone();
    match &mut node {
        Node::Get { index: Some(index), .. } | Node::Set { index: Some(index), .. } => {
            *index = change(lines, *index, len)
        }
        _ => return None,
    }
    lines.push(node);
    Some(())
}

const fn nan_bits(name: &'static str, rule: &'static Rule) -> Rewrite {
    let lines = Rewrite::lines(name, Cause::NanBits, || typed(STORE, &FLOATS), |_, _| None);
    Rewrite { bitcast: Some(rule), ..lines }
}

/// Lets writable buffers of one float type hold integers, with bitcasts around every access, so that bitcasts which
/// keep a NaN's bits become stores which do.
fn floats_as_bits(parts: &mut ProgramParts, place: Place) -> Option<()> {
    let Place::Typed(_, ty) = place else { return None };
    let (stored, carrier) = match ty.bits() {
        16 => (DataType::U16, DataType::U32),
        32 => (DataType::U32, DataType::U32),
        _ => (DataType::U64, DataType::U64),
    };
    let before = parts.clone();
    let concerns = |buffer: BufferId| {
        let buffer = before.buffer(buffer);
        buffer.ty == ty && matches!(buffer.kind, BufferKind::ReadWrite { .. })
    };
    let mut any = false;
    for (buffer, now) in (0..).map(BufferId).zip(&mut parts.buffers) {
        if concerns(buffer) {
            now.ty = stored;
            any = true;
        }
    }
    super::lines::edit(parts, &|_, _| true, &|lines, node| match node {
        Node::Load { result, buffer, index, .. } if concerns(*buffer) => {
            let raw =
                lines.value_of(|result| Node::Load { result, ty: stored, buffer: *buffer, index: *index });
            lines.give(*result, Op::Bitcast, ty, [raw]);
            Some(())
        }
        Node::Store { buffer, index, value, .. } if concerns(*buffer) => {
            let raw = lines.compute(Op::Bitcast, carrier, [*value]);
            lines.push(Node::Store { ty: stored, buffer: *buffer, index: *index, value: raw });
            Some(())
        }
        _ => None,
    });
    any.then_some(())
}
