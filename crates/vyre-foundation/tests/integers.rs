//! Integer and bool ops of `scalar` against arithmetic on mathematical integers and on single bits.
//!
//! The model holds a value as an `i128` and reduces it once at the end, or builds the result bit by bit, so it shares
//! no overflow, shift or sign trick with the definition. All pairs of edge values are tried, with all amounts, offsets
//! and counts that differ.

use std::io::Write;
use vyre_foundation::ir::{ComputeOp, DataType, TypeSet};
use vyre_foundation::scalar::meaning;

/// The integer that the bits stand for.
fn value(ty: DataType, bits: u64) -> i128 {
    let negative = ty.is_signed() && bits >> (ty.bits() - 1) == 1;
    i128::from(bits) - if negative { 1 << ty.bits() } else { 0 }
}

/// The bits of an integer modulo 2 to the width.
fn bits(ty: DataType, value: i128) -> u64 {
    value.rem_euclid(1 << ty.bits()) as u64
}

fn limits(ty: DataType) -> (i128, i128) {
    match ty.is_signed() {
        true => (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1),
        false => (0, (1 << ty.bits()) - 1),
    }
}

/// A value whose bit `i` is `bit(i)`.
fn build(ty: DataType, bit: impl Fn(u32) -> bool) -> u64 {
    (0..ty.bits()).fold(0, |all, i| all | u64::from(bit(i)) << i)
}

fn bit(bits: u64, i: u32) -> bool {
    bits >> i & 1 == 1
}

/// The two-operand arithmetic and comparisons.
fn pair(op: ComputeOp, ty: DataType, a: i128, b: i128) -> Option<i128> {
    let (least, greatest) = limits(ty);
    // Toward zero, whatever the signs.
    let quotient = |a: i128, b: i128| (a.abs() / b.abs()) * a.signum() * b.signum();
    Some(match op {
        ComputeOp::Add => a + b,
        ComputeOp::Sub => a - b,
        ComputeOp::Mul => multiply(a, b).1,
        ComputeOp::MulHi => multiply(a, b).0 << (64 - ty.bits()) | multiply(a, b).1 >> ty.bits(),
        ComputeOp::Div if b == 0 => a,
        ComputeOp::Div => quotient(a, b),
        ComputeOp::Rem if b == 0 => 0,
        ComputeOp::Rem => a - quotient(a, b) * b,
        ComputeOp::Min => a.min(b),
        ComputeOp::Max => a.max(b),
        ComputeOp::AddSat => (a + b).clamp(least, greatest),
        ComputeOp::SubSat => (a - b).clamp(least, greatest),
        ComputeOp::Eq => (a == b).into(),
        ComputeOp::Ne => (a != b).into(),
        ComputeOp::Lt => (a < b).into(),
        ComputeOp::Le => (a <= b).into(),
        ComputeOp::Gt => (a > b).into(),
        ComputeOp::Ge => (a >= b).into(),
        _ => return None,
    })
}

/// `a * b` as a high part and a low part of 64 bits: `high * 2^64 + low`, with `0 <= low < 2^64`.
fn multiply(a: i128, b: i128) -> (i128, i128) {
    // Half of `b` at a time, so that no partial product leaves i128.
    let (b_high, b_low) = (b >> 32, b & 0xffff_ffff);
    let (high, low) = (a * b_high, a * b_low);
    let sum = (high & 0xffff_ffff) * (1 << 32) + (low & ((1 << 64) - 1));
    ((high >> 32) + (low >> 64) + (sum >> 64), sum & ((1 << 64) - 1))
}

/// The one-operand ops.
fn single(op: ComputeOp, ty: DataType, x: u64) -> Option<u64> {
    let width = ty.bits();
    let zeros =
        |mut places: Box<dyn Iterator<Item = u32>>| places.position(|i| bit(x, i)).unwrap_or(width as usize);
    Some(match op {
        ComputeOp::Neg => bits(ty, -value(ty, x)),
        ComputeOp::Abs => bits(ty, value(ty, x).abs()),
        ComputeOp::Not => build(ty, |i| !bit(x, i)),
        ComputeOp::Popcount => (0..width).filter(|i| bit(x, *i)).count() as u64,
        ComputeOp::Clz => zeros(Box::new((0..width).rev())) as u64,
        ComputeOp::Ctz => zeros(Box::new(0..width)) as u64,
        ComputeOp::ReverseBits => build(ty, |i| bit(x, width - 1 - i)),
        _ => return None,
    })
}

/// The ops of bits at the same place, and those by an amount.
fn by_bit(op: ComputeOp, ty: DataType, a: u64, b: u64) -> Option<u64> {
    let width = ty.bits();
    let amount = (b % u64::from(width)) as u32;
    let sign = ty.is_signed() && bit(a, width - 1);
    Some(match op {
        ComputeOp::And => build(ty, |i| bit(a, i) && bit(b, i)),
        ComputeOp::Or => build(ty, |i| bit(a, i) || bit(b, i)),
        ComputeOp::Xor => build(ty, |i| bit(a, i) != bit(b, i)),
        ComputeOp::Shl => build(ty, |i| i >= amount && bit(a, i - amount)),
        ComputeOp::Shr => build(ty, |i| if i + amount < width { bit(a, i + amount) } else { sign }),
        ComputeOp::Rotl => build(ty, |i| bit(a, (i + width - amount) % width)),
        ComputeOp::Rotr => build(ty, |i| bit(a, (i + amount) % width)),
        _ => return None,
    })
}

fn extract(ty: DataType, x: u64, offset: u32, count: u32) -> u64 {
    let offset = offset.min(ty.bits());
    let count = count.min(ty.bits() - offset);
    let top = ty.is_signed() && count > 0 && bit(x, offset + count - 1);
    build(ty, |i| if i < count { bit(x, offset + i) } else { top })
}

fn insert(ty: DataType, x: u64, field: u64, offset: u32, count: u32) -> u64 {
    let offset = offset.min(ty.bits());
    let count = count.min(ty.bits() - offset);
    build(ty, |i| if i >= offset && i - offset < count { bit(field, i - offset) } else { bit(x, i) })
}

fn edges(ty: DataType) -> Vec<u64> {
    let (least, greatest) = limits(ty);
    let mut values: Vec<i128> = (-9..10).collect();
    for n in (3..ty.bits()).step_by(4).chain([ty.bits() - 1]) {
        values.extend([(1 << n) - 1, 1 << n, (1 << n) + 1, -(1 << n)]);
    }
    values.extend([least, least + 1, greatest - 1, greatest, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
    let mut all: Vec<u64> = values.into_iter().map(|v| bits(ty, v)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn amounts(ty: DataType) -> Vec<u32> {
    let w = ty.bits();
    vec![0, 1, 2, 7, 8, w / 2, w - 2, w - 1, w, w + 1, 2 * w, u32::MAX - 1, u32::MAX]
}

fn run(op: ComputeOp, ty: DataType, x: [u64; 4]) -> u64 {
    meaning(op, ty, ty).unwrap_or_else(|| panic!("{op:?} {ty}"))(&x)
}

/// Compares and counts.
struct Tally(u64);

impl Tally {
    fn expect(&mut self, op: ComputeOp, ty: DataType, x: [u64; 4], theirs: u64) {
        self.0 += 1;
        assert_eq!(run(op, ty, x), theirs, "{}.{ty} {x:x?}", op.info().name);
    }

    fn report(&self, what: &str) {
        assert!(self.0 > 0);
        let _ = writeln!(std::io::stderr(), "{what:<28} {:>7} cases, 0 mismatches", self.0);
    }
}

#[test]
fn arithmetic_and_bits() {
    use ComputeOp::{Bitcast, Cast, Clamp, Dot4, Extract, Insert, Select};
    for op in ComputeOp::ALL.iter().copied() {
        let mut tally = Tally(0);
        for ty in TypeSet::INT.iter().filter(|ty| op.info().types.contains(*ty)) {
            for a in edges(ty) {
                if let Some(theirs) = single(op, ty, a) {
                    tally.expect(op, ty, [a, 0, 0, 0], theirs);
                }
                let by_amount = op.info().args.get(1) == Some(&vyre_foundation::ir::ArgType::U32);
                let others =
                    if by_amount { amounts(ty).into_iter().map(u64::from).collect() } else { edges(ty) };
                for b in others {
                    let wide = pair(op, ty, value(ty, a), value(ty, b)).map(|v| bits(ty, v));
                    if let Some(theirs) = wide.or_else(|| by_bit(op, ty, a, b)) {
                        tally.expect(op, ty, [a, b, 0, 0], theirs);
                    }
                }
            }
        }
        // The others have their own tests below.
        let elsewhere = matches!(op, Bitcast | Cast | Clamp | Dot4 | Extract | Insert | Select);
        let takes_integers = TypeSet::INT.iter().any(|ty| op.info().types.contains(ty));
        if takes_integers && !elsewhere {
            tally.report(op.info().name);
        }
    }
}

#[test]
fn fields_clamps_and_dots() {
    let (mut extracts, mut inserts, mut clamps, mut dots) = (Tally(0), Tally(0), Tally(0), Tally(0));
    for ty in TypeSet::INT.iter() {
        for x in edges(ty).into_iter().step_by(3) {
            for offset in amounts(ty) {
                for count in amounts(ty) {
                    let place = [u64::from(offset), u64::from(count)];
                    let theirs = extract(ty, x, offset, count);
                    extracts.expect(ComputeOp::Extract, ty, [x, place[0], place[1], 0], theirs);
                    let theirs = insert(ty, x, !x & ty.mask(), offset, count);
                    inserts.expect(ComputeOp::Insert, ty, [x, !x & ty.mask(), place[0], place[1]], theirs);
                }
            }
            for lo in edges(ty).into_iter().step_by(5) {
                for hi in edges(ty).into_iter().step_by(7) {
                    let theirs = value(ty, x).max(value(ty, lo)).min(value(ty, hi));
                    clamps.expect(ComputeOp::Clamp, ty, [x, lo, hi, 0], bits(ty, theirs));
                }
            }
        }
    }
    for ty in TypeSet::INT32.iter() {
        let byte = if ty.is_signed() { DataType::I8 } else { DataType::U8 };
        for a in edges(DataType::U32) {
            for b in edges(DataType::U32) {
                let product = |i: u32| value(byte, a >> (8 * i) & 0xff) * value(byte, b >> (8 * i) & 0xff);
                let sum: i128 = (0..4).map(product).sum();
                let acc = a.rotate_left(7) & ty.mask();
                dots.expect(ComputeOp::Dot4, ty, [a, b, acc, 0], bits(ty, value(ty, acc) + sum));
            }
        }
    }
    extracts.report("extract");
    inserts.report("insert");
    clamps.report("clamp");
    dots.report("dot4");
}

#[test]
fn casts_among_integers_and_bool() {
    let mut tally = Tally(0);
    let integers = || TypeSet::INT.iter().chain([DataType::Bool]);
    for source in integers() {
        let values = if source == DataType::Bool { vec![0, 1] } else { edges(source) };
        for ty in integers() {
            let cast = meaning(ComputeOp::Cast, ty, source).unwrap();
            for x in &values {
                let exact = value(source, *x);
                let theirs = if ty == DataType::Bool { u64::from(exact != 0) } else { bits(ty, exact) };
                assert_eq!(cast(&[*x, 0, 0, 0]), theirs, "cast.{ty} of {source} {x:x}");
                tally.0 += 1;
            }
        }
    }
    tally.report("cast among integers and bool");
}

#[test]
fn bool_ops_are_truth_tables() {
    let tables = [
        (ComputeOp::And, [0, 0, 0, 1]),
        (ComputeOp::Or, [0, 1, 1, 1]),
        (ComputeOp::Xor, [0, 1, 1, 0]),
        (ComputeOp::Eq, [1, 0, 0, 1]),
        (ComputeOp::Ne, [0, 1, 1, 0]),
        (ComputeOp::Not, [1, 1, 0, 0]),
    ];
    for (op, table) in tables {
        for (i, theirs) in table.into_iter().enumerate() {
            let x = [i as u64 >> 1, i as u64 & 1, 0, 0];
            assert_eq!(run(op, DataType::Bool, x), theirs, "{op:?} {x:?}");
        }
    }
}

#[test]
fn select_takes_one_of_two() {
    for ty in TypeSet::ANY.iter() {
        for (condition, theirs) in [(1, 1), (0, 0)] {
            assert_eq!(run(ComputeOp::Select, ty, [condition, 1, 0, 0]), theirs, "{ty}");
        }
    }
}

#[test]
fn bitcasts_keep_bits_but_not_nan_payloads() {
    use DataType::{BF16, F16, F32, F64, I32, I64, U32, U64};
    let rows = [
        (U32, F32, 0x3f80_0000, 0x3f80_0000),
        (I32, F32, 0xffc0_0001, 0x7fc0_0000),
        (F32, U32, 0x7f80_0001, 0x7fc0_0000),
        (F32, F32, 0xff80_0001, 0x7fc0_0000),
        (F32, I32, 0xff80_0000, 0xff80_0000),
        (U32, I32, 0xffff_ffff, 0xffff_ffff),
        (U64, F64, 0xfff8_0000_0000_0000, 0x7ff8_0000_0000_0000),
        (F64, I64, 0x7ff0_0000_0000_0001, 0x7ff8_0000_0000_0000),
        (I64, U64, 1 << 63, 1 << 63),
        (F16, U32, 0xffff_3c00, 0x3c00),
        (F16, U32, 0xfc01, 0x7e00),
        (U32, F16, 0xfe01, 0x7e00),
        (U32, F16, 0xfc00, 0xfc00),
        (BF16, U32, 0x1234_ff80, 0xff80),
        (BF16, U32, 0xff81, 0x7fc0),
        (U32, BF16, 0x7fff, 0x7fc0),
    ];
    for (ty, source, x, theirs) in rows {
        let bitcast = meaning(ComputeOp::Bitcast, ty, source).unwrap();
        assert_eq!(bitcast(&[x, 0, 0, 0]), theirs, "bitcast.{ty} of {source} {x:x}");
    }
}

#[test]
fn casts_between_floats_and_bool() {
    for ty in TypeSet::FLOAT.iter() {
        let to_bool = meaning(ComputeOp::Cast, DataType::Bool, ty).unwrap();
        let from_bool = meaning(ComputeOp::Cast, ty, DataType::Bool).unwrap();
        let sign = ty.mask() ^ ty.mask() >> 1;
        // Both zeros are false; the smallest value and NaN are true.
        let rows = [(0, 0), (sign, 0), (1, 1), (sign | 1, 1), (ty.canonical_nan().unwrap(), 1)];
        for (x, theirs) in rows {
            assert_eq!(to_bool(&[x, 0, 0, 0]), theirs, "{ty} {x:x}");
        }
        let one = meaning(ComputeOp::Cast, ty, DataType::U32).unwrap()(&[1, 0, 0, 0]);
        assert_eq!([from_bool(&[0; 4]), from_bool(&[1, 0, 0, 0])], [0, one], "{ty}");
    }
}
