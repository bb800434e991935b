//! LLVM's APFloat in Rust as an oracle. It has no square root.

use crate::Case;
use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};
use vyre_foundation::ir::{ComputeOp, DataType};

pub(crate) fn answer(case: Case, x: &[u64; 4]) -> Option<u64> {
    if case.op == ComputeOp::Cast {
        return cast(case, x[0]);
    }
    match case.ty {
        DataType::F16 => compute::<Half>(case.op, x),
        DataType::BF16 => compute::<BFloat>(case.op, x),
        DataType::F32 => compute::<Single>(case.op, x),
        DataType::F64 => compute::<Double>(case.op, x),
        other => unreachable!("{other} is no float"),
    }
}

fn compute<F: Float>(op: ComputeOp, x: &[u64; 4]) -> Option<u64> {
    let [a, b, c, _] = x.map(|bits| F::from_bits(bits.into()));
    let integral = |round| a.round_to_integral(round).value;
    let float = match op {
        ComputeOp::Add => (a + b).value,
        ComputeOp::Sub => (a - b).value,
        ComputeOp::Mul => (a * b).value,
        ComputeOp::Div => (a / b).value,
        ComputeOp::Rem => a.c_fmod(b).value,
        ComputeOp::Neg => -a,
        ComputeOp::Abs => a.abs(),
        ComputeOp::Min => lesser(a, b),
        ComputeOp::Max => greater(a, b),
        ComputeOp::Clamp => lesser(greater(a, b), c),
        ComputeOp::Fma => a.mul_add(b, c).value,
        ComputeOp::Floor => integral(Round::TowardNegative),
        ComputeOp::Ceil => integral(Round::TowardPositive),
        ComputeOp::Trunc => integral(Round::TowardZero),
        ComputeOp::Round => integral(Round::NearestTiesToEven),
        // The language reads a NaN's sign as plus.
        ComputeOp::Copysign if b.is_nan() => a.abs(),
        ComputeOp::Copysign => a.copy_sign(b),
        ComputeOp::Eq => return Some((a == b).into()),
        ComputeOp::Ne => return Some((a != b).into()),
        ComputeOp::Lt => return Some((a < b).into()),
        ComputeOp::Le => return Some((a <= b).into()),
        ComputeOp::Gt => return Some((a > b).into()),
        ComputeOp::Ge => return Some((a >= b).into()),
        ComputeOp::IsNan => return Some(a.is_nan().into()),
        ComputeOp::IsInf => return Some(a.is_infinite().into()),
        _ => return None,
    };
    Some(float.to_bits() as u64)
}

/// IEEE 754-2019's minimumNumber: APFloat's minimum, with NaN set aside first.
fn lesser<F: Float>(a: F, b: F) -> F {
    if a.is_nan() || b.is_nan() { a.min(b) } else { a.minimum(b) }
}

/// IEEE 754-2019's maximumNumber.
fn greater<F: Float>(a: F, b: F) -> F {
    if a.is_nan() || b.is_nan() { a.max(b) } else { a.maximum(b) }
}

fn cast(case: Case, bits: u64) -> Option<u64> {
    match case.source {
        DataType::F16 => from_float(Half::from_bits(bits.into()), case.ty),
        DataType::BF16 => from_float(BFloat::from_bits(bits.into()), case.ty),
        DataType::F32 => from_float(Single::from_bits(bits.into()), case.ty),
        DataType::F64 => from_float(Double::from_bits(bits.into()), case.ty),
        DataType::I32 => from_integer(i128::from(bits as i32), case.ty),
        DataType::I64 => from_integer(i128::from(bits as i64), case.ty),
        _ => from_integer(i128::from(bits), case.ty),
    }
}

fn from_float<F>(value: F, ty: DataType) -> Option<u64>
where
    F: Float + FloatConvert<Half> + FloatConvert<BFloat> + FloatConvert<Single> + FloatConvert<Double>,
{
    let lost = &mut false;
    let width = ty.bits() as usize;
    Some(match ty {
        DataType::F16 => FloatConvert::<Half>::convert(value, lost).value.to_bits() as u64,
        DataType::BF16 => FloatConvert::<BFloat>::convert(value, lost).value.to_bits() as u64,
        DataType::F32 => FloatConvert::<Single>::convert(value, lost).value.to_bits() as u64,
        DataType::F64 => FloatConvert::<Double>::convert(value, lost).value.to_bits() as u64,
        DataType::I32 | DataType::I64 => value.to_i128(width).value as u64 & ty.mask(),
        DataType::U32 | DataType::U64 => value.to_u128(width).value as u64 & ty.mask(),
        _ => return None,
    })
}

fn from_integer(value: i128, ty: DataType) -> Option<u64> {
    Some(match ty {
        DataType::F16 => Half::from_i128(value).value.to_bits() as u64,
        DataType::BF16 => BFloat::from_i128(value).value.to_bits() as u64,
        DataType::F32 => Single::from_i128(value).value.to_bits() as u64,
        DataType::F64 => Double::from_i128(value).value.to_bits() as u64,
        _ => return None,
    })
}
