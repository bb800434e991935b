//! Rules for floats: rounding, subnormals, fusing, NaN, signed zeros, and casts from and to floats.
//!
//! Other rounding directions come from a software float library, so a rule rounds exactly as a backend with that flaw does.

use super::int::{bits, limits, value};
use super::{Row, Rule, other};
use crate::failure::Cause;
use ComputeOp as Op;
use rustc_apfloat::{Float, FloatConvert, Round, Status, ieee};
use vyre_foundation::ir::{ComputeOp, DataType};
use vyre_foundation::scalar::meaning;

pub(super) const RULES: &[Rule] = &[
    Rule::new("subnormals-flushed", Cause::FlushedSubnormals, |row, x| flushed(row, x, true, true)),
    Rule::new("subnormal-operands-flushed", Cause::FlushedSubnormals, |row, x| flushed(row, x, true, false)),
    Rule::new("subnormal-result-flushed", Cause::FlushedSubnormals, |row, x| flushed(row, x, false, true)),
    Rule::new("subnormal-result-loses-its-sign", Cause::FlushedSubnormals, |row, x| {
        let result = row.right(x);
        is_subnormal(row.result(), result).map(|subnormal| if subnormal { 0 } else { result })
    }),
    Rule::new("unfused", Cause::UnfusedMultiplyAdd, |row, x| match row.op {
        Op::Fma => other(Op::Add, row.ty, &[other(Op::Mul, row.ty, x)?, x[2], 0, 0]),
        _ => None,
    }),
    Rule::new("rounds-toward-zero", Cause::WrongRounding, |row, x| rounded(row, x, Round::TowardZero)),
    Rule::new("rounds-up", Cause::WrongRounding, |row, x| rounded(row, x, Round::TowardPositive)),
    Rule::new("rounds-down", Cause::WrongRounding, |row, x| rounded(row, x, Round::TowardNegative)),
    Rule::new("ties-away", Cause::WrongRounding, |row, x| rounded(row, x, Round::NearestTiesToAway)),
    Rule::new("other-neighbour", Cause::WrongRounding, |row, x| {
        let approximated = matches!(row.op, Op::Div | Op::Sqrt);
        let (up, down) = (rounded(row, x, Round::TowardPositive), rounded(row, x, Round::TowardNegative));
        approximated.then(|| if up == Some(row.right(x)) { down } else { up })?
    }),
    Rule::new("by-the-reciprocal", Cause::WrongRounding, |row, x| {
        if !row.ty.is_float() {
            return None;
        }
        let one = meaning(Op::Cast, row.ty, DataType::U32)?(&[1, 0, 0, 0]);
        match row.op {
            Op::Div => other(Op::Mul, row.ty, &[x[0], other(Op::Div, row.ty, &[one, x[1], 0, 0])?, 0, 0]),
            Op::Sqrt => {
                let root = other(Op::Sqrt, row.ty, x)?;
                other(Op::Mul, row.ty, &[x[0], other(Op::Div, row.ty, &[one, root, 0, 0])?, 0, 0])
            }
            _ => None,
        }
    }),
    Rule::new("through-f64", Cause::WrongRounding, |row, x| through(row, x, DataType::F64)),
    Rule::new("through-f32", Cause::WrongRounding, |row, x| through(row, x, DataType::F32)),
    Rule::new("through-bf16", Cause::WrongRounding, |row, x| through(row, x, DataType::BF16)),
    Rule::new("largest-instead-of-infinity", Cause::WrongRounding, |row, x| {
        let result = row.right(x);
        let overflows = matches!(row.op, Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Fma | Op::Cast);
        let float = fields(row.result()).filter(|_| overflows)?;
        let infinite = |ty: DataType, bits: u64| fields(ty).is_some_and(|f| bits & f.magnitude == f.infinity);
        let from_infinity = row.operands().enumerate().any(|(at, ty)| infinite(ty, x[at]));
        Some(if infinite(row.result(), result) && !from_infinity {
            (result - 1) & !float.sign | result & float.sign
        } else {
            result
        })
    }),
    Rule::new("inexact-quotient", Cause::WrongRounding, |row, x| match row.op {
        Op::Rem if row.ty.is_float() => {
            let quotient = other(Op::Trunc, row.ty, &[other(Op::Div, row.ty, x)?, 0, 0, 0])?;
            let product = other(Op::Mul, row.ty, &[quotient, x[1], 0, 0])?;
            other(Op::Sub, row.ty, &[x[0], product, 0, 0])
        }
        _ => None,
    }),
    Rule::new("nearest-quotient", Cause::WrongOp, |row, x| match row.op {
        Op::Rem => in_float(row.ty, Nearest { x }),
        _ => None,
    }),
    Rule::new("divisor's-sign", Cause::WrongOp, |row, x| match (row.op, fields(row.ty)) {
        (Op::Rem, Some(float)) => Some(row.right(x) & !float.sign | x[1] & float.sign),
        _ => None,
    }),
    Rule::new("half-up", Cause::WrongRounding, |row, x| match row.op {
        Op::Round => {
            let half = meaning(Op::Cast, row.ty, DataType::F32)?(&[0x3f00_0000, 0, 0, 0]);
            other(Op::Floor, row.ty, &[other(Op::Add, row.ty, &[x[0], half, 0, 0])?, 0, 0, 0])
        }
        _ => None,
    }),
    Rule::new("nan-wins", Cause::NanComparison, |row, x| {
        picks(row, x, |a, b, min| if a.is_nan() || b.is_nan() { Pick::Nan } else { right_pick(a, b, min) })
    }),
    Rule::new("second-if-unordered", Cause::NanComparison, |row, x| {
        picks(row, x, |a, b, min| Pick::first(if min { a < b } else { a > b }))
    }),
    Rule::new("first-if-unordered", Cause::NanComparison, |row, x| {
        picks(row, x, |a, b, min| Pick::first(!(if min { b < a } else { b > a })))
    }),
    Rule::new("second-of-equal-zeros", Cause::SignedZero, |row, x| {
        picks(row, x, |a, b, min| if a == 0.0 && b == 0.0 { Pick::Second } else { right_pick(a, b, min) })
    }),
    Rule::new("first-of-equal-zeros", Cause::SignedZero, |row, x| {
        picks(row, x, |a, b, min| if a == 0.0 && b == 0.0 { Pick::First } else { right_pick(a, b, min) })
    }),
    Rule::new("true-if-unordered", Cause::NanComparison, |row, x| {
        let compares = matches!(row.op, Op::Eq | Op::Lt | Op::Le | Op::Gt | Op::Ge) && row.ty.is_float();
        compares.then(|| row.right(x) | u64::from(is_nan(row.ty, x[0]) || is_nan(row.ty, x[1])))
    }),
    Rule::new("false-if-unordered", Cause::NanComparison, |row, x| {
        let nan = is_nan(row.ty, x[0]) || is_nan(row.ty, x[1]);
        (row.op == Op::Ne && row.ty.is_float()).then(|| row.right(x) & u64::from(!nan))
    }),
    Rule::new("bits-compared", Cause::SignedZero, |row, x| match row.op {
        Op::Eq if row.ty.is_float() => Some((x[0] == x[1]).into()),
        Op::Ne if row.ty.is_float() => Some((x[0] != x[1]).into()),
        _ => None,
    }),
    Rule::new("bits-compared-as-integers", Cause::WrongOp, |row, x| {
        let compares = matches!(row.op, Op::Lt | Op::Le | Op::Gt | Op::Ge) && row.ty.is_float();
        let up = 64 - row.ty.bits();
        compares.then(|| other(row.op, DataType::I64, &[x[0] << up, x[1] << up, 0, 0]))?
    }),
    Rule::new("only-quiet-nans", Cause::NanComparison, |row, x| match row.op {
        Op::IsNan => fields(row.ty).map(|float| (x[0] & float.magnitude >= float.nan).into()),
        _ => None,
    }),
    Rule::new("only-positive", Cause::NanComparison, |row, x| match row.op {
        Op::IsNan | Op::IsInf => {
            fields(row.ty).map(|float| if x[0] & float.sign == 0 { row.right(x) } else { 0 })
        }
        _ => None,
    }),
    Rule::new("by-the-exponent-alone", Cause::NanComparison, |row, x| match row.op {
        Op::IsNan | Op::IsInf => fields(row.ty).map(|float| (x[0] & float.infinity == float.infinity).into()),
        _ => None,
    }),
    Rule::new("minus-zero-lost", Cause::SignedZero, |row, x| {
        let result = row.right(x);
        fields(row.result()).map(|float| if result == float.sign { 0 } else { result })
    }),
    Rule::new("minus-zero-read-as-plus", Cause::SignedZero, |row, x| {
        map_operands(row, x, |float, bits| if bits == float.sign { 0 } else { bits })
    }),
    Rule::new("zero-minus", Cause::SignedZero, |row, x| match row.op {
        Op::Neg if row.ty.is_float() => other(Op::Sub, row.ty, &[0, x[0], 0, 0]),
        _ => None,
    }),
    Rule::new("negated-if-less-than-zero", Cause::SignedZero, |row, x| match row.op {
        Op::Abs if row.ty.is_float() => {
            let less = other(Op::Lt, row.ty, &[x[0], 0, 0, 0])? != 0;
            if less { other(Op::Neg, row.ty, x) } else { Some(x[0]) }
        }
        _ => None,
    }),
    Rule::new("nan's-sign-taken", Cause::NanBits, |row, x| match (row.op, fields(row.ty)) {
        (Op::Copysign, Some(float)) => Some(x[0] & float.magnitude | x[1] & float.sign),
        _ => None,
    }),
    Rule::new("own-sign-kept", Cause::SignedZero, |row, x| match (row.op, fields(row.ty)) {
        (Op::Copysign, Some(float)) => Some(row.right(x) | x[0] & float.sign),
        _ => None,
    }),
    NAN_BITS_KEPT,
    NAN_MADE_NEGATIVE,
    Rule::new("nan-sign-kept", Cause::NanBits, |row, x| {
        let kept = nan_bits_kept(row, x)?;
        let float = bitcast_float(row)?;
        Some(row.right(x) | if is_nan(float, kept) { kept & fields(float)?.sign } else { 0 })
    }),
    Rule::new("upper-half", Cause::WrongOp, |row, x| match row.op {
        Op::Bitcast if row.ty.bits() == 16 => Some(row.right(&[x[0] >> 16, 0, 0, 0])),
        Op::Bitcast if row.source.bits() == 16 => Some(row.right(x) << 16),
        _ => None,
    }),
    Rule::new("too-large-wraps", Cause::IntegerOverflow, |row, x| {
        to_integer(row, x, |row, v| bits(row.ty, if v.abs() < 1e38 { v as i128 } else { 0 }))
    }),
    Rule::new("too-large-gives-least", Cause::IntegerOverflow, |row, x| {
        to_integer(row, x, |row, v| {
            let (least, greatest) = limits(row.ty);
            let inside = v.trunc() >= least as f64 && v.trunc() < (greatest + 1) as f64;
            if inside { bits(row.ty, v as i128) } else { row.ty.mask() ^ row.ty.mask() >> 1 }
        })
    }),
    Rule::new("nan-gives-least", Cause::IntegerOverflow, |row, x| nan_gives(row, x, |row| limits(row.ty).0)),
    Rule::new("nan-gives-greatest", Cause::IntegerOverflow, |row, x| {
        nan_gives(row, x, |row| limits(row.ty).1)
    }),
    Rule::new("rounded-to-nearest", Cause::WrongRounding, |row, x| {
        to_integer(row, x, |row, v| saturated(row, v.round_ties_even()))
    }),
    Rule::new("rounded-down", Cause::WrongRounding, |row, x| {
        to_integer(row, x, |row, v| saturated(row, v.floor()))
    }),
    Rule::new("nan-is-false", Cause::NanComparison, |row, x| match (row.op, row.ty) {
        (Op::Cast, DataType::Bool) if row.source.is_float() => {
            Some(if is_nan(row.source, x[0]) { 0 } else { row.right(x) })
        }
        _ => None,
    }),
    Rule::new("fractions-are-false", Cause::WrongRounding, |row, x| match (row.op, row.ty) {
        (Op::Cast, DataType::Bool) if row.source.is_float() => {
            Some((read(row.source, x[0]).trunc() != 0.0).into())
        }
        _ => None,
    }),
    Rule::new("minus-zero-is-true", Cause::SignedZero, |row, x| match (row.op, row.ty) {
        (Op::Cast, DataType::Bool) if row.source.is_float() => Some((x[0] != 0).into()),
        _ => None,
    }),
];

/// The encoding of a float type.
struct Fields {
    sign: u64,
    magnitude: u64,
    infinity: u64,
    nan: u64,
    /// The least normal number.
    normal: u64,
}

fn fields(ty: DataType) -> Option<Fields> {
    let nan = ty.canonical_nan()?;
    let magnitude = ty.mask() >> 1;
    // The canonical NaN is infinity and the highest bit of the fraction.
    let normal = match ty {
        DataType::F16 => 1 << 10,
        DataType::BF16 => 1 << 7,
        DataType::F32 => 1 << 23,
        _ => 1 << 52,
    };
    Some(Fields { sign: magnitude + 1, magnitude, infinity: nan & !(normal >> 1), nan, normal })
}

fn is_nan(ty: DataType, bits: u64) -> bool {
    fields(ty).is_some_and(|float| bits & float.magnitude > float.infinity)
}

/// Whether it is subnormal; `None` for what is no float.
fn is_subnormal(ty: DataType, bits: u64) -> Option<bool> {
    fields(ty).map(|float| (1..float.normal).contains(&(bits & float.magnitude)))
}

/// A float's value. Those of f64 and of the narrower types are exact.
fn read(ty: DataType, bits: u64) -> f64 {
    f64::from_bits(meaning(Op::Cast, DataType::F64, ty).expect("floats cast")(&[bits, 0, 0, 0]))
}

/// The result with every float operand changed; `None` if there is none.
fn map_operands(row: &Row, x: &[u64; 4], change: fn(&Fields, u64) -> u64) -> Option<u64> {
    let mut changed = *x;
    let mut any = false;
    for (at, ty) in row.operands().enumerate() {
        if let Some(float) = fields(ty) {
            changed[at] = change(&float, x[at]);
            any = true;
        }
    }
    any.then(|| row.right(&changed))
}

fn flushed(row: &Row, x: &[u64; 4], operands: bool, result: bool) -> Option<u64> {
    let flush = |float: &Fields, bits: u64| {
        let subnormal = (1..float.normal).contains(&(bits & float.magnitude));
        if subnormal { bits & float.sign } else { bits }
    };
    let computed = if operands { map_operands(row, x, flush) } else { None };
    let float = fields(row.result()).filter(|_| result);
    if computed.is_none() && float.is_none() {
        return None;
    }
    let bits = computed.unwrap_or_else(|| row.right(x));
    Some(float.map_or(bits, |float| flush(&float, bits)))
}

/// The result computed in another float type and rounded to its own.
fn through(row: &Row, x: &[u64; 4], inner: DataType) -> Option<u64> {
    let cast = |ty: DataType, source: DataType, bits: u64| {
        meaning(Op::Cast, ty, source).map(|f| f(&[bits, 0, 0, 0]))
    };
    if row.op == Op::Cast {
        let floats = row.ty.is_float() || row.source.is_float();
        return floats.then(|| cast(row.ty, inner, cast(inner, row.source, x[0])?))?;
    }
    if !row.ty.is_float() || matches!(row.op, Op::Bitcast | Op::Select) {
        return None;
    }
    let mut converted = *x;
    for (at, ty) in row.operands().enumerate().filter(|(_, ty)| ty.is_float()) {
        converted[at] = cast(inner, ty, x[at])?;
    }
    let result = other(row.op, inner, &converted)?;
    if row.result() == row.ty { cast(row.ty, inner, result) } else { Some(result) }
}

/// Something computed in a soft float type.
trait InFloat {
    fn run<F: Float + FloatConvert<ieee::Quad>>(self) -> Option<u64>
    where
        ieee::Double: FloatConvert<F>;
}

fn in_float(ty: DataType, compute: impl InFloat) -> Option<u64> {
    match ty {
        DataType::F16 => compute.run::<ieee::Half>(),
        DataType::BF16 => compute.run::<ieee::BFloat>(),
        DataType::F32 => compute.run::<ieee::Single>(),
        DataType::F64 => compute.run::<ieee::Double>(),
        _ => None,
    }
}

struct Nearest<'a> {
    x: &'a [u64; 4],
}

impl InFloat for Nearest<'_> {
    fn run<F: Float>(self) -> Option<u64> {
        let [a, b] = [0, 1].map(|at| F::from_bits(self.x[at].into()));
        Some(a.ieee_rem(b).value.to_bits() as u64)
    }
}

struct Rounded<'a> {
    row: &'a Row,
    x: &'a [u64; 4],
    round: Round,
}

/// The result rounded in another direction.
fn rounded(row: &Row, x: &[u64; 4], round: Round) -> Option<u64> {
    in_float(row.ty, Rounded { row, x, round })
}

impl InFloat for Rounded<'_> {
    fn run<F: Float + FloatConvert<ieee::Quad>>(self) -> Option<u64>
    where
        ieee::Double: FloatConvert<F>,
    {
        let Rounded { row, x, round } = self;
        let [a, b, c] = [0, 1, 2].map(|at| F::from_bits(x[at].into()));
        let result = match row.op {
            Op::Add => a.add_r(b, round).value,
            Op::Sub => a.sub_r(b, round).value,
            Op::Mul => a.mul_r(b, round).value,
            Op::Div => a.div_r(b, round).value,
            Op::Fma => a.mul_add_r(b, c, round).value,
            Op::Round => a.round_to_integral(round).value,
            Op::Sqrt => root(a, F::from_bits(row.right(x).into()), round),
            Op::Cast if row.source.is_float() => {
                ieee::Double::from_bits(read(row.source, x[0]).to_bits().into())
                    .convert_r(round, &mut false)
                    .value
            }
            Op::Cast if row.source.is_integer() => F::from_i128_r(value(row.source, x[0]), round).value,
            _ => return None,
        };
        Some(result.to_bits() as u64)
    }
}

/// The square root of `a` in another direction, from the nearest one: its square is exact in a quad.
fn root<F: Float + FloatConvert<ieee::Quad>>(a: F, nearest: F, round: Round) -> F {
    let quad = |value: F| value.convert(&mut false).value;
    let square = quad(nearest) * quad(nearest);
    if !square.value.is_finite_non_zero() || square.status != Status::OK {
        return nearest;
    }
    match (square.value.partial_cmp(&quad(a)), round) {
        (Some(std::cmp::Ordering::Greater), Round::TowardZero | Round::TowardNegative) => {
            nearest.next_down().value
        }
        (Some(std::cmp::Ordering::Less), Round::TowardPositive) => nearest.next_up().value,
        _ => nearest,
    }
}

/// Which operand `min` or `max` gives.
#[derive(Clone, Copy, PartialEq)]
enum Pick {
    First,
    Second,
    Nan,
}

impl Pick {
    fn first(first: bool) -> Pick {
        if first { Pick::First } else { Pick::Second }
    }
}

fn right_pick(a: f64, b: f64, min: bool) -> Pick {
    let before = if min { a < b } else { a > b };
    let first = before || a == b && a.is_sign_negative() == min;
    Pick::first(b.is_nan() || first)
}

/// `min`, `max` or `clamp` with another choice.
fn picks(row: &Row, x: &[u64; 4], pick: fn(f64, f64, bool) -> Pick) -> Option<u64> {
    let nan = row.ty.canonical_nan()?;
    let choose = |a: u64, b: u64, min: bool| match pick(read(row.ty, a), read(row.ty, b), min) {
        Pick::First => a,
        Pick::Second => b,
        Pick::Nan => nan,
    };
    match row.op {
        Op::Min => Some(choose(x[0], x[1], true)),
        Op::Max => Some(choose(x[0], x[1], false)),
        Op::Clamp => Some(choose(choose(x[0], x[1], false), x[2], true)),
        _ => None,
    }
}

/// The float type on either side of a bitcast.
fn bitcast_float(row: &Row) -> Option<DataType> {
    (row.op == Op::Bitcast)
        .then_some(if row.ty.is_float() { row.ty } else { row.source })
        .filter(|ty| ty.is_float())
}

fn nan_bits_kept(row: &Row, x: &[u64; 4]) -> Option<u64> {
    bitcast_float(row).map(|float| x[0] & float.mask())
}

/// A cast from a float that is not NaN to an integer, by another rule.
fn to_integer(row: &Row, x: &[u64; 4], convert: fn(&Row, f64) -> u64) -> Option<u64> {
    let casts = row.op == Op::Cast && row.source.is_float() && row.ty.is_integer();
    casts.then(|| match read(row.source, x[0]) {
        nan if nan.is_nan() => 0,
        number => convert(row, number),
    })
}

fn saturated(row: &Row, value: f64) -> u64 {
    let (least, greatest) = limits(row.ty);
    bits(row.ty, (value as i128).clamp(least, greatest))
}

fn nan_gives(row: &Row, x: &[u64; 4], gives: fn(&Row) -> i128) -> Option<u64> {
    let casts = row.op == Op::Cast && row.source.is_float() && row.ty.is_integer();
    casts.then(|| if is_nan(row.source, x[0]) { bits(row.ty, gives(row)) } else { row.right(x) })
}

/// Bitcasts that show a NaN as it is.
pub(super) const NAN_BITS_KEPT: Rule = Rule::new("nan-bits-kept", Cause::NanBits, nan_bits_kept);

/// Bitcasts that show every NaN with its sign set.
pub(super) const NAN_MADE_NEGATIVE: Rule = Rule::new("nan-made-negative", Cause::NanBits, |row, x| {
    let float = bitcast_float(row)?;
    let result = row.right(x);
    Some(if is_nan(float, result) { result | fields(float)?.sign } else { result })
});
