//! The float ops: IEEE 754, round to nearest even, one rounding per op, subnormals kept.
//!
//! f32 and f64 compute in their own Rust type, whose operators are IEEE's. f16 and bf16 compute in f64 and are then
//! rounded to their type, and that second rounding never hurts:
//!
//! - products, remainders and the ops that pick or move bits are exact in f64;
//! - a sum, quotient or root of p-bit floats that is not exact in f64 lies further than f64's error from every
//!   midpoint of the narrow type, since 53 >= 2p + 2 for p = 11 and p = 8 (Figueroa, "When is double rounding
//!   innocuous?"); this holds for subnormal results too, whose midpoints have fewer bits still;
//! - `fma` is the exception, and is rounded to odd first ([`fma_odd`]).

use super::{Meaning, round};
use crate::ir::{ComputeOp, DataType};

const F32_NAN: u64 = DataType::F32.canonical_nan().unwrap();
const F64_NAN: u64 = DataType::F64.canonical_nan().unwrap();

/// One float type's ops, computed in `$carrier`. `$read` is exact; `$write` rounds once and makes NaN canonical.
macro_rules! float {
    ($name:ident: $carrier:ident, $read:expr, $write:expr, $fma:expr) => {
        #[doc = concat!("The ops of ", stringify!($name), ".")]
        pub(super) fn $name(op: ComputeOp) -> Option<Meaning> {
            macro_rules! one {
                (|$a:ident| $result:expr) => {
                    |x| {
                        let $a: $carrier = $read(x[0]);
                        $write($result)
                    }
                };
            }
            macro_rules! two {
                (|$a:ident, $b:ident| $result:expr) => {
                    |x| {
                        let ($a, $b): ($carrier, $carrier) = ($read(x[0]), $read(x[1]));
                        $write($result)
                    }
                };
            }
            macro_rules! three {
                (|$a:ident, $b:ident, $c:ident| $result:expr) => {
                    |x| {
                        let ($a, $b, $c): ($carrier, $carrier, $carrier) =
                            ($read(x[0]), $read(x[1]), $read(x[2]));
                        $write($result)
                    }
                };
            }
            macro_rules! test {
                (|$a:ident, $b:ident| $result:expr) => {
                    |x| {
                        let ($a, $b): ($carrier, $carrier) = ($read(x[0]), $read(x[1]));
                        u64::from($result)
                    }
                };
            }
            /// The lesser; a number rather than NaN, and -0 rather than +0.
            #[inline(always)]
            fn min(a: $carrier, b: $carrier) -> $carrier {
                let a_first = a < b || a == b && a.is_sign_negative();
                if b.is_nan() || a_first { a } else { b }
            }
            /// The greater; a number rather than NaN, and +0 rather than -0.
            #[inline(always)]
            fn max(a: $carrier, b: $carrier) -> $carrier {
                let a_first = a > b || a == b && a.is_sign_positive();
                if b.is_nan() || a_first { a } else { b }
            }
            Some(match op {
                ComputeOp::Add => two!(|a, b| a + b),
                ComputeOp::Sub => two!(|a, b| a - b),
                ComputeOp::Mul => two!(|a, b| a * b),
                ComputeOp::Div => two!(|a, b| a / b),
                // Rust's `%` on floats is fmod, which is exact.
                ComputeOp::Rem => two!(|a, b| a % b),
                ComputeOp::Neg => one!(|a| -a),
                ComputeOp::Abs => one!(|a| a.abs()),
                ComputeOp::Min => two!(|a, b| min(a, b)),
                ComputeOp::Max => two!(|a, b| max(a, b)),
                ComputeOp::Clamp => three!(|a, lo, hi| min(max(a, lo), hi)),
                ComputeOp::Eq => test!(|a, b| a == b),
                ComputeOp::Ne => test!(|a, b| a != b),
                ComputeOp::Lt => test!(|a, b| a < b),
                ComputeOp::Le => test!(|a, b| a <= b),
                ComputeOp::Gt => test!(|a, b| a > b),
                ComputeOp::Ge => test!(|a, b| a >= b),
                ComputeOp::Fma => three!(|a, b, c| $fma(a, b, c)),
                ComputeOp::Sqrt => one!(|a| a.sqrt()),
                ComputeOp::Floor => one!(|a| a.floor()),
                ComputeOp::Ceil => one!(|a| a.ceil()),
                ComputeOp::Trunc => one!(|a| a.trunc()),
                ComputeOp::Round => one!(|a| a.round_ties_even()),
                ComputeOp::Copysign => two!(|a, b| if b.is_nan() { a.abs() } else { a.copysign(b) }),
                ComputeOp::IsNan => |x| u64::from($read(x[0]).is_nan()),
                ComputeOp::IsInf => |x| u64::from($read(x[0]).is_infinite()),
                // The table lists no other, or it has been answered before.
                _ => return None,
            })
        }
    };
}

float!(f16: f64, read_f16, write_f16, fma_odd);
float!(bf16: f64, read_bf16, write_bf16, fma_odd);
float!(f32: f32, read_f32, write_f32, |a: f32, b: f32, c: f32| fma_odd(a.into(), b.into(), c.into()) as f32);
float!(f64: f64, read_f64, write_f64, f64::mul_add);

/// The value of an f16, exactly.
#[inline]
pub(super) fn read_f16(bits: u64) -> f64 {
    let (exponent, fraction) = (bits >> 10 & 0x1f, bits & 0x3ff);
    let magnitude = match exponent {
        // Subnormals count in units of 2^-24.
        0 => fraction as f64 * (1.0 / 16_777_216.0),
        0x1f if fraction == 0 => f64::INFINITY,
        0x1f => f64::NAN,
        // The other exponents are biased by 15, f64's by 1023.
        _ => f64::from_bits((exponent + 1023 - 15) << 52 | fraction << 42),
    };
    if bits >> 15 != 0 { -magnitude } else { magnitude }
}

/// The f16 nearest to a value.
#[inline]
pub(super) fn write_f16(value: f64) -> u64 {
    round::round_f64(value, &round::F16)
}

/// The value of a bf16, exactly: it is the upper half of an f32.
#[inline]
pub(super) fn read_bf16(bits: u64) -> f64 {
    f32::from_bits((bits as u32) << 16).into()
}

/// The bf16 nearest to a value.
#[inline]
pub(super) fn write_bf16(value: f64) -> u64 {
    round::round_f64(value, &round::BF16)
}

/// The value of an f32.
#[inline(always)]
pub(super) fn read_f32(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// The bits of an f32, a NaN's canonical.
#[inline(always)]
pub(super) fn write_f32(value: f32) -> u64 {
    if value.is_nan() { F32_NAN } else { value.to_bits().into() }
}

/// The value of an f64.
#[inline(always)]
pub(super) fn read_f64(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// The bits of an f64, a NaN's canonical.
#[inline(always)]
pub(super) fn write_f64(value: f64) -> u64 {
    if value.is_nan() { F64_NAN } else { value.to_bits() }
}

/// `a * b + c` for operands of at most 24 bits, rounded to odd: an inexact result gets the one of its two
/// neighbours in f64 whose last bit is set.
///
/// Such a result still shows on which side of every f16, bf16 and f32 midpoint the exact one lies, so rounding it
/// again gives the exact sum rounded once. Plain f64 arithmetic could land on a midpoint and lose the side.
#[inline]
fn fma_odd(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b; // exact: 48 bits, and far from f64's limits
    let sum = product + c;
    // Knuth's TwoSum: `sum + error` is `product + c` exactly.
    let c_part = sum - product;
    let error = (product - (sum - c_part)) + (c - c_part);
    if !sum.is_finite() || error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    let away_from_zero = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away_from_zero { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}
