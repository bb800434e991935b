//! Berkeley SoftFloat as an oracle.
//!
//! Its bindings' own bf16 truncates instead of rounding, so bf16 goes through f32: rounded toward zero, with the last
//! bit set if that was inexact (round to odd), and from there to bf16 by the carry trick. f32 has the same exponents
//! and 16 more bits, so nothing is lost on the way. Float to integer is left to the other oracle, since SoftFloat
//! answers there as the host's processor does, and fmod too, since SoftFloat has only the IEEE remainder.

use crate::Case;
use softfloat_wrapper::{ExceptionFlags, F16, F32, F64, Float, RoundingMode};
use vyre_foundation::ir::{ComputeOp, DataType};

const NEAREST: RoundingMode = RoundingMode::TiesToEven;

pub(crate) fn answer(case: Case, x: &[u64; 4]) -> Option<u64> {
    if case.op == ComputeOp::Cast {
        return cast(case, x[0]);
    }
    match case.ty {
        DataType::F16 => {
            compute(case.op, x.map(|bits| F16::from_bits(bits as u16)), NEAREST).map(|r| r.bits(u64::from))
        }
        DataType::F32 => {
            compute(case.op, x.map(|bits| F32::from_bits(bits as u32)), NEAREST).map(|r| r.bits(u64::from))
        }
        DataType::F64 => compute(case.op, x.map(F64::from_bits), NEAREST).map(|r| r.bits(u64::from)),
        DataType::BF16 => {
            let operands = x.map(|bits| F32::from_bits((bits as u32) << 16));
            match to_odd(|| compute(case.op, operands, RoundingMode::TowardZero))? {
                (Outcome::Truth(truth), _) => Some(truth.into()),
                (Outcome::Float(float), inexact) => Some(to_bf16(float.to_bits() | u32::from(inexact))),
            }
        }
        other => unreachable!("{other} is no float"),
    }
}

enum Outcome<F> {
    Float(F),
    Truth(bool),
}

impl<F: Float> Outcome<F> {
    fn bits(self, widen: fn(F::Payload) -> u64) -> u64 {
        match self {
            Outcome::Float(float) => widen(float.to_bits()),
            Outcome::Truth(truth) => truth.into(),
        }
    }
}

fn compute<F: Float>(op: ComputeOp, [a, b, c, _]: [F; 4], round: RoundingMode) -> Option<Outcome<F>> {
    Some(Outcome::Float(match op {
        ComputeOp::Add => a.add(b, round),
        ComputeOp::Sub => a.sub(b, round),
        ComputeOp::Mul => a.mul(b, round),
        ComputeOp::Div => a.div(b, round),
        ComputeOp::Fma => a.fused_mul_add(b, c, round),
        ComputeOp::Sqrt => a.sqrt(round),
        ComputeOp::Floor => a.round_to_integral(RoundingMode::TowardNegative),
        ComputeOp::Ceil => a.round_to_integral(RoundingMode::TowardPositive),
        ComputeOp::Trunc => a.round_to_integral(RoundingMode::TowardZero),
        ComputeOp::Round => a.round_to_integral(NEAREST),
        ComputeOp::Eq => return Some(Outcome::Truth(a.eq(b))),
        ComputeOp::Ne => return Some(Outcome::Truth(!a.eq(b))),
        ComputeOp::Lt => return Some(Outcome::Truth(a.lt_quiet(b))),
        ComputeOp::Le => return Some(Outcome::Truth(a.le_quiet(b))),
        ComputeOp::Gt => return Some(Outcome::Truth(b.lt_quiet(a))),
        ComputeOp::Ge => return Some(Outcome::Truth(b.le_quiet(a))),
        ComputeOp::IsNan => return Some(Outcome::Truth(a.is_nan())),
        _ => return None,
    }))
}

/// Runs something and tells whether its result was inexact.
fn to_odd<T>(run: impl FnOnce() -> Option<T>) -> Option<(T, bool)> {
    let mut flags = ExceptionFlags::default();
    flags.set();
    let result = run()?;
    flags.get();
    Some((result, flags.is_inexact()))
}

/// An f32 to bf16, ties to even: half of the lost 16 bits, and a tie only if the last kept bit is odd.
fn to_bf16(bits: u32) -> u64 {
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    let carry = 0x7fff + (bits >> 16 & 1);
    if nan { 0x7fc0 } else { ((bits + carry) >> 16).into() }
}

fn cast(case: Case, bits: u64) -> Option<u64> {
    match case.source {
        DataType::U32 => convert(case.ty, bits as u32, F16::from_u32, F32::from_u32, F64::from_u32),
        DataType::I32 => convert(case.ty, bits as i32, F16::from_i32, F32::from_i32, F64::from_i32),
        DataType::U64 => convert(case.ty, bits, F16::from_u64, F32::from_u64, F64::from_u64),
        DataType::I64 => convert(case.ty, bits as i64, F16::from_i64, F32::from_i64, F64::from_i64),
        DataType::F16 => convert_float(case.ty, F16::from_bits(bits as u16)),
        DataType::F32 => convert_float(case.ty, F32::from_bits(bits as u32)),
        DataType::F64 => convert_float(case.ty, F64::from_bits(bits)),
        DataType::BF16 => convert_float(case.ty, F32::from_bits((bits as u32) << 16)),
        _ => None,
    }
}

fn convert_float<F: Float + Copy>(ty: DataType, value: F) -> Option<u64> {
    convert(ty, value, |v, r| v.to_f16(r), |v, r| v.to_f32(r), |v, r| v.to_f64(r))
}

fn convert<T>(
    ty: DataType,
    value: T,
    to_f16: impl FnOnce(T, RoundingMode) -> F16,
    to_f32: impl FnOnce(T, RoundingMode) -> F32,
    to_f64: impl FnOnce(T, RoundingMode) -> F64,
) -> Option<u64> {
    Some(match ty {
        DataType::F16 => to_f16(value, NEAREST).to_bits().into(),
        DataType::F32 => to_f32(value, NEAREST).to_bits().into(),
        DataType::F64 => to_f64(value, NEAREST).to_bits(),
        DataType::BF16 => {
            let (float, inexact) = to_odd(|| Some(to_f32(value, RoundingMode::TowardZero)))?;
            to_bf16(float.to_bits() | u32::from(inexact))
        }
        _ => return None,
    })
}
