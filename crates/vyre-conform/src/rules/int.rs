//! Rules for integers, bools, and what all types share: signedness, carries, shifts, division, comparison, selection.

use super::{Row, Rule, other};
use crate::failure::Cause;
use ComputeOp as Op;
use vyre_foundation::ir::{ComputeOp, DataType};
use vyre_foundation::random::word;
use vyre_foundation::scalar::meaning;

pub(super) const RULES: &[Rule] = &[
    Rule::new("other-signedness", Cause::Signedness, |row, x| match row.op {
        Op::Cast => Row { ty: flip(row.ty)?, ..*row }.try_right(x),
        _ => other(row.op, flip(row.ty)?, x),
    }),
    Rule::new("source-of-other-signedness", Cause::Signedness, |row, x| match row.op {
        Op::Cast => Row { source: flip(row.source)?, ..*row }.try_right(x),
        _ => None,
    }),
    Rule::new("saturates", Cause::IntegerOverflow, saturates),
    Rule::new("wraps", Cause::IntegerOverflow, |row, x| match row.op {
        Op::AddSat => other(Op::Add, row.ty, x),
        Op::SubSat => other(Op::Sub, row.ty, x),
        _ => None,
    }),
    Rule::new("halves-apart", Cause::WideInteger, halves_apart),
    Rule::new("high-halves-read-as-zero", Cause::WideInteger, |row, x| {
        let wide = |at: usize| row.operand(at).is_integer() && row.operand(at).bits() == 64;
        let mut narrow = *x;
        let any = (0..row.op.info().args.len()).filter(|at| wide(*at)).map(|at| narrow[at] &= LOW).count();
        (any > 0).then(|| row.right(&narrow))
    }),
    Rule::new("high-half-lost", Cause::WideInteger, |row, x| {
        (row.result().is_integer() && row.result().bits() == 64).then(|| row.right(x) & LOW)
    }),
    Rule::new("past-the-width-is-zero", Cause::UnmaskedShift, |row, x| past_width(row, x, |_, _| 0)),
    Rule::new("past-the-width-is-the-sign", Cause::UnmaskedShift, |row, x| {
        past_width(row, x, |row, x| if value(row.ty, x[0]) < 0 { row.ty.mask() } else { 0 })
    }),
    Rule::new("amount-held-below-the-width", Cause::UnmaskedShift, |row, x| {
        is_shift(row).then(|| row.right(&[x[0], x[1].min(width(row) - 1), 0, 0]))
    }),
    Rule::new("amount-modulo-half-the-width", Cause::UnmaskedShift, |row, x| {
        is_shift(row).then(|| row.right(&[x[0], x[1] % (width(row) / 2), 0, 0]))
    }),
    Rule::new("amount-modulo-twice-the-width", Cause::UnmaskedShift, |row, x| {
        past_width(row, &[x[0], x[1] % (2 * width(row)), 0, 0], |_, _| 0)
    }),
    Rule::new("amount-in-eight-bits", Cause::UnmaskedShift, |row, x| {
        past_width(row, &[x[0], x[1] & 0xff, 0, 0], |_, _| 0)
    }),
    Rule::new("zero-divisor-gives-zero", Cause::DivisionByZero, |row, x| divisor(row, x, 0, |_| 0)),
    Rule::new("zero-divisor-gives-ones", Cause::DivisionByZero, |row, x| {
        divisor(row, x, 0, |row| row.ty.mask())
    }),
    Rule::new("zero-divisor-gives-the-dividend", Cause::DivisionByZero, |row, x| match row.op {
        Op::Rem if row.ty.is_integer() => Some(if x[1] == 0 { x[0] } else { row.right(x) }),
        _ => None,
    }),
    Rule::new("least-by-minus-one-gives-greatest", Cause::DivisionByZero, |row, x| {
        least_by_minus_one(row, x, |row| row.ty.mask() >> 1)
    }),
    Rule::new("least-by-minus-one-gives-zero", Cause::DivisionByZero, |row, x| {
        least_by_minus_one(row, x, |_| 0)
    }),
    Rule::new("least-by-minus-one-leaves-one", Cause::DivisionByZero, |row, x| {
        least_by_minus_one(row, x, |_| 1)
    }),
    Rule::new("quotient-rounded-down", Cause::WrongOp, |row, x| {
        let (a, b) = (value(row.ty, x[0]), value(row.ty, x[1]));
        if !row.ty.is_signed() || b == 0 {
            return None;
        }
        let remainder = (a % b + b) % b;
        match row.op {
            Op::Div => Some(bits(row.ty, (a - remainder) / b)),
            Op::Rem => Some(bits(row.ty, remainder)),
            _ => None,
        }
    }),
    Rule::new("through-floats", Cause::WrongRounding, through_floats),
    Rule::new("boundary", Cause::BoundaryComparison, |row, x| {
        let op = match row.op {
            Op::Lt => Op::Le,
            Op::Le => Op::Lt,
            Op::Gt => Op::Ge,
            Op::Ge => Op::Gt,
            _ => return None,
        };
        other(op, row.ty, x)
    }),
    Rule::new("lowest-bit-ignored", Cause::BoundaryComparison, |row, x| {
        is_comparison(row).then(|| row.right(&[x[0] & !1, x[1] & !1, 0, 0]))
    }),
    Rule::new("highest-bit-ignored", Cause::BoundaryComparison, |row, x| {
        let mask = row.ty.mask() >> 1;
        is_comparison(row).then(|| row.right(&[x[0] & mask, x[1] & mask, 0, 0]))
    }),
    Rule::new("by-the-sign-of-the-difference", Cause::IntegerOverflow, |row, x| {
        if !row.ty.is_integer() {
            return None;
        }
        let sign = |a: u64, b: u64| a.wrapping_sub(b) >> (row.ty.bits() - 1) & 1;
        match row.op {
            Op::Lt => Some(sign(x[0], x[1])),
            Op::Gt => Some(sign(x[1], x[0])),
            Op::Le => Some(1 - sign(x[1], x[0])),
            Op::Ge => Some(1 - sign(x[0], x[1])),
            _ => None,
        }
    }),
    Rule::new("zero-has-no-zeros", Cause::WrongOp, |row, x| zeros(row, x, |_| 0)),
    Rule::new("zero-has-one-zero-less", Cause::WrongOp, |row, x| zeros(row, x, |row| width(row) - 1)),
    Rule::new("zero-has-all-ones", Cause::WrongOp, |row, x| zeros(row, x, |row| row.ty.mask())),
    Rule::new("bytes-reversed", Cause::WrongOp, |row, x| match row.op {
        Op::ReverseBits => Some(x[0].swap_bytes() >> (64 - row.ty.bits())),
        _ => None,
    }),
    Rule::new("count-not-clamped", Cause::WrongOp, |row, x| {
        field(row, x, |offset, count, width| (offset.min(width), count % (2 * width)))
    }),
    Rule::new("offset-modulo-the-width", Cause::WrongOp, |row, x| {
        field(row, x, |offset, count, width| (offset % width, count.min(width - offset % width)))
    }),
    Rule::new("count-modulo-the-width", Cause::WrongOp, |row, x| {
        field(row, x, |offset, count, width| {
            (offset.min(width), (count % width).min(width - offset.min(width)))
        })
    }),
    Rule::new("count-clamped-first", Cause::WrongOp, |row, x| {
        field(row, x, |offset, count, width| {
            let count = count.min(width);
            (offset.min(width - count), count)
        })
    }),
    Rule::new("old-bits-kept", Cause::WrongOp, |row, x| match row.op {
        Op::Insert => Some(x[0] | row.right(x)),
        _ => None,
    }),
    Rule::new("low-half-of-the-product", Cause::WrongOp, |row, x| match row.op {
        Op::MulHi => other(Op::Mul, row.ty, x),
        _ => None,
    }),
    Rule::new("high-before-low", Cause::WrongOp, |row, x| match row.op {
        Op::Clamp => other(Op::Min, row.ty, x).and_then(|_| {
            let low = other(Op::Min, row.ty, &[x[0], x[2], 0, 0])?;
            other(Op::Max, row.ty, &[low, x[1], 0, 0])
        }),
        _ => None,
    }),
    Rule::new("accumulator-ignored", Cause::WrongOp, |row, x| match row.op {
        Op::Dot4 => Some(row.right(&[x[0], x[1], 0, 0])),
        Op::Fma => other(Op::Mul, row.ty, x),
        _ => None,
    }),
    Rule::new("true-is-minus-one", Cause::WrongOp, |row, x| match (row.op, row.source) {
        (Op::Cast, DataType::Bool) if row.ty.is_integer() => Some(if x[0] != 0 { row.ty.mask() } else { 0 }),
        _ => None,
    }),
    Rule::new("lowest-bit-decides", Cause::WrongOp, |row, x| match (row.op, row.ty) {
        (Op::Cast, DataType::Bool) => Some(x[0] & 1),
        _ => None,
    }),
    Rule::new("logical-not", Cause::WrongOp, |row, x| match row.op {
        Op::Not => Some((x[0] == 0).into()),
        _ => None,
    }),
    Rule::new("through-i32", Cause::IntegerOverflow, |row, x| {
        let float = row.source.is_float();
        match row.op {
            Op::Floor | Op::Ceil | Op::Trunc | Op::Round => {
                let whole = meaning(Op::Cast, DataType::I32, row.ty)?(&[row.right(x), 0, 0, 0]);
                Some(meaning(Op::Cast, row.ty, DataType::I32)?(&[whole, 0, 0, 0]))
            }
            Op::Cast if float && row.ty.is_integer() => {
                let whole = meaning(Op::Cast, DataType::I32, row.source)?(x);
                Some(meaning(Op::Cast, row.ty, DataType::I32)?(&[whole, 0, 0, 0]))
            }
            _ => None,
        }
    }),
    Rule::new("opposite-op", Cause::WrongOp, |row, x| other(opposite(row.op)?, row.ty, x)),
    Rule::new("similar-op", Cause::WrongOp, |row, x| other(similar(row.op)?, row.ty, x)),
    Rule::new("operands-swapped", Cause::WrongOp, |row, x| {
        let x = match row.op {
            Op::Select | Op::Clamp | Op::Fma => [x[0], x[2], x[1], 0],
            Op::Extract => [x[0], x[2], x[1], 0],
            Op::Insert => [x[0], x[1], x[3], x[2]],
            _ if row.op.info().args.len() == 2 => [x[1], x[0], 0, 0],
            _ => return None,
        };
        let fits = |(at, ty): (usize, DataType)| x[at] & !ty.mask() == 0;
        row.operands().enumerate().all(fits).then(|| row.right(&x))
    }),
    Rule::new("first-operand", Cause::WrongOp, |row, x| {
        let first = match row.op {
            Op::Select => x[1],
            _ if row.operand(0) == row.result() => x[0],
            _ => return None,
        };
        Some(first)
    }),
    Rule::new("highest-bit-lost", Cause::WrongOp, |row, x| {
        (row.result().is_integer()).then(|| row.right(x) & row.result().mask() >> 1)
    }),
    Rule::new("one-too-many", Cause::WrongOp, |row, x| {
        (row.result().is_integer()).then(|| row.right(x).wrapping_add(1) & row.result().mask())
    }),
    Rule::new("one-operand-in-sixteen", Cause::WrongOp, |row, x| {
        let wrong = word(x[0] ^ word(x[1] ^ word(x[2] ^ word(x[3])))).is_multiple_of(16);
        Some(row.right(x) ^ u64::from(wrong))
    }),
];

const LOW: u64 = 0xffff_ffff;

impl Row {
    fn try_right(&self, x: &[u64; 4]) -> Option<u64> {
        meaning(self.op, self.ty, self.source).map(|run| run(x))
    }
}

fn flip(ty: DataType) -> Option<DataType> {
    match ty {
        DataType::U32 => Some(DataType::I32),
        DataType::I32 => Some(DataType::U32),
        DataType::U64 => Some(DataType::I64),
        DataType::I64 => Some(DataType::U64),
        _ => None,
    }
}

fn width(row: &Row) -> u64 {
    row.ty.bits().into()
}

/// An integer's value.
pub(super) fn value(ty: DataType, bits: u64) -> i128 {
    match ty.is_signed() {
        true => (bits << (64 - ty.bits())) as i64 as i128 >> (64 - ty.bits()),
        false => bits.into(),
    }
}

pub(super) fn bits(ty: DataType, value: i128) -> u64 {
    value as u64 & ty.mask()
}

/// The least and greatest value of an integer type.
pub(super) fn limits(ty: DataType) -> (i128, i128) {
    match ty.is_signed() {
        true => (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1),
        false => (0, ty.mask().into()),
    }
}

fn saturates(row: &Row, x: &[u64; 4]) -> Option<u64> {
    if !row.ty.is_integer() {
        return None;
    }
    let (a, b) = (value(row.source, x[0]), value(row.ty, x[1]));
    let exact = match row.op {
        Op::Add => a + b,
        Op::Sub => a - b,
        // Products of 64-bit integers fit 128 bits, but for the largest unsigned ones.
        Op::Mul => a.saturating_mul(b),
        Op::Neg => -a,
        Op::Abs => a.abs(),
        Op::Cast if row.source.is_integer() => a,
        _ => return None,
    };
    let (least, greatest) = limits(row.ty);
    Some(bits(row.ty, exact.clamp(least, greatest)))
}

fn halves_apart(row: &Row, x: &[u64; 4]) -> Option<u64> {
    if !row.ty.is_integer() || row.ty.bits() != 64 {
        return None;
    }
    let low = [x[0] & LOW, x[1] & LOW];
    let high = [x[0] >> 32, x[1] >> 32];
    let join = |low: u64, high: u64| low & LOW | high << 32;
    let both = |f: fn(u64, u64) -> u64| join(f(low[0], low[1]), f(high[0], high[1]));
    let each = |f: fn(u32) -> u32| join(f(low[0] as u32).into(), f(high[0] as u32).into());
    let high_order = value(row.ty, x[0]) >> 32 < value(row.ty, x[1]) >> 32;
    let high_after = value(row.ty, x[0]) >> 32 > value(row.ty, x[1]) >> 32;
    Some(match row.op {
        Op::Add => both(u64::wrapping_add),
        Op::Sub => both(u64::wrapping_sub),
        Op::Mul => both(u64::wrapping_mul),
        Op::MulHi => (high[0] * high[1]) + ((high[0] * low[1]) >> 32) + ((low[0] * high[1]) >> 32),
        Op::Neg => each(u32::wrapping_neg),
        Op::ReverseBits => each(u32::reverse_bits),
        Op::Clz => u64::from((high[0] as u32).leading_zeros()),
        Op::Ctz => u64::from((low[0] as u32).trailing_zeros()),
        Op::Shl => join(low[0] << (x[1] % 32), high[0] << (x[1] % 32)),
        Op::Shr => join(low[0] >> (x[1] % 32), high[0] >> (x[1] % 32)),
        Op::Lt | Op::Le => u64::from(high_order),
        Op::Gt | Op::Ge => u64::from(high_after),
        Op::Eq => u64::from(low[0] == low[1] || high[0] == high[1]),
        Op::Ne => u64::from(low[0] != low[1] && high[0] != high[1]),
        _ => return None,
    })
}

fn is_shift(row: &Row) -> bool {
    matches!(row.op, Op::Shl | Op::Shr | Op::Rotl | Op::Rotr)
}

fn is_comparison(row: &Row) -> bool {
    row.ty.is_integer() && matches!(row.op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge)
}

fn past_width(row: &Row, x: &[u64; 4], then: fn(&Row, &[u64; 4]) -> u64) -> Option<u64> {
    is_shift(row).then(|| if x[1] >= width(row) { then(row, x) } else { row.right(x) })
}

fn divisor(row: &Row, x: &[u64; 4], zero: u64, then: fn(&Row) -> u64) -> Option<u64> {
    let divides = row.ty.is_integer() && matches!(row.op, Op::Div | Op::Rem);
    divides.then(|| if x[1] == zero { then(row) } else { row.right(x) })
}

fn least_by_minus_one(row: &Row, x: &[u64; 4], then: fn(&Row) -> u64) -> Option<u64> {
    let divides = row.ty.is_signed() && matches!(row.op, Op::Div | Op::Rem);
    let (least, minus_one) = (row.ty.mask() ^ row.ty.mask() >> 1, row.ty.mask());
    divides.then(|| if x[0] == least && x[1] == minus_one { then(row) } else { row.right(x) })
}

/// Division as `a / b` in a float of the same width, which has too few digits.
fn through_floats(row: &Row, x: &[u64; 4]) -> Option<u64> {
    if !row.ty.is_integer() || !matches!(row.op, Op::Div | Op::Rem) {
        return None;
    }
    let (a, b) = (value(row.ty, x[0]), value(row.ty, x[1]));
    if b == 0 {
        return Some(row.right(x));
    }
    let quotient = match row.ty.bits() {
        32 => (a as f32 / b as f32) as i128,
        _ => (a as f64 / b as f64) as i128,
    };
    Some(bits(row.ty, if row.op == Op::Div { quotient } else { a - quotient * b }))
}

fn zeros(row: &Row, x: &[u64; 4], of_zero: fn(&Row) -> u64) -> Option<u64> {
    let counts = matches!(row.op, Op::Clz | Op::Ctz);
    counts.then(|| if x[0] == 0 { of_zero(row) } else { row.right(x) })
}

/// `extract` or `insert` with offset and count adjusted otherwise. What a field has beyond the width is zero.
fn field(row: &Row, x: &[u64; 4], adjust: fn(u64, u64, u64) -> (u64, u64)) -> Option<u64> {
    let (offset, count) = match row.op {
        Op::Extract => adjust(x[1], x[2], width(row)),
        Op::Insert => adjust(x[2], x[3], width(row)),
        _ => return None,
    };
    let mask = ((1u128 << count.min(127)) - 1) << offset;
    if row.op == Op::Insert {
        let kept = u128::from(x[0]) & !mask;
        return Some((kept | (u128::from(x[1]) << offset) & mask) as u64 & row.ty.mask());
    }
    let field = (u128::from(x[0]) & mask) >> offset;
    let negative = row.ty.is_signed() && count > 0 && field >> (count - 1) & 1 == 1;
    let extended = if negative { field as i128 - (1i128 << count.min(126)) } else { field as i128 };
    Some(bits(row.ty, extended))
}

fn opposite(op: Op) -> Option<Op> {
    const PAIRS: [(Op, Op); 12] = [
        (Op::Add, Op::Sub),
        (Op::AddSat, Op::SubSat),
        (Op::Shl, Op::Shr),
        (Op::Rotl, Op::Rotr),
        (Op::Min, Op::Max),
        (Op::And, Op::Or),
        (Op::Clz, Op::Ctz),
        (Op::Eq, Op::Ne),
        (Op::Lt, Op::Gt),
        (Op::Le, Op::Ge),
        (Op::Floor, Op::Ceil),
        (Op::IsNan, Op::IsInf),
    ];
    PAIRS.into_iter().find_map(|(a, b)| (a == op).then_some(b).or((b == op).then_some(a)))
}

fn similar(op: Op) -> Option<Op> {
    Some(match op {
        Op::Xor => Op::Or,
        Op::Or => Op::Xor,
        Op::Rotl => Op::Shl,
        Op::Rotr => Op::Shr,
        Op::Eq => Op::Le,
        Op::Floor | Op::Ceil | Op::Round => Op::Trunc,
        Op::Trunc => Op::Floor,
        Op::Popcount => Op::Clz,
        Op::Mul => Op::MulHi,
        Op::Div => Op::Rem,
        Op::Rem => Op::Div,
        _ => return None,
    })
}
