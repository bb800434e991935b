//! The ops between two types: `cast` and `bitcast`.

use super::float::{read_bf16, read_f16, write_bf16, write_f16, write_f32, write_f64};
use super::round::{self, round_integer};
use super::{Meaning, observe};
use crate::ir::DataType;

/// What any value of any type is exactly.
enum Exact {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

/// A type on either side of a cast.
trait Scalar {
    /// The value that the bits stand for.
    fn read(bits: u64) -> Exact;
    /// The bits of the value, rounded once, truncated or saturated.
    fn write(value: Exact) -> u64;
}

/// One type's side of all its casts: `|bits| value` to read, and how a float and an integer become bits.
///
/// Rust's `as` has the language's rules: between integers it truncates or extends by the source's sign, from float
/// to integer it saturates and turns NaN to 0, and to f32 and f64 it rounds once to nearest even.
macro_rules! scalar {
    ($name:ident, $read:expr, |$value:ident| $from_unsigned:expr, $from_signed:expr, $from_float:expr) => {
        struct $name;
        impl Scalar for $name {
            #[inline(always)]
            fn read(bits: u64) -> Exact {
                $read(bits)
            }
            #[inline(always)]
            fn write(value: Exact) -> u64 {
                match value {
                    Exact::Unsigned($value) => $from_unsigned,
                    Exact::Signed($value) => $from_signed,
                    Exact::Float($value) => $from_float,
                }
            }
        }
    };
}

scalar!(Bool, Exact::Unsigned, |v| u64::from(v != 0), u64::from(v != 0), u64::from(v != 0.0));
scalar!(U32, Exact::Unsigned, |v| v as u32 as u64, v as u32 as u64, v as u32 as u64);
scalar!(
    I32,
    |b| Exact::Signed(b as i32 as i64),
    |v| v as u32 as u64,
    v as u32 as u64,
    v as i32 as u32 as u64
);
scalar!(U64, Exact::Unsigned, |v| v, v as u64, v as u64);
scalar!(I64, |b| Exact::Signed(b as i64), |v| v, v as u64, v as i64 as u64);
scalar!(
    F16,
    |b| Exact::Float(read_f16(b)),
    |v| round_integer(false, v, &round::F16),
    round_integer(v < 0, v.unsigned_abs(), &round::F16),
    write_f16(v)
);
scalar!(
    BF16,
    |b| Exact::Float(read_bf16(b)),
    |v| round_integer(false, v, &round::BF16),
    round_integer(v < 0, v.unsigned_abs(), &round::BF16),
    write_bf16(v)
);
scalar!(
    F32,
    |b| Exact::Float(f32::from_bits(b as u32).into()),
    |v| write_f32(v as f32),
    write_f32(v as f32),
    write_f32(v as f32)
);
scalar!(F64, |b| Exact::Float(f64::from_bits(b)), |v| write_f64(v as f64), write_f64(v as f64), write_f64(v));

/// `cast.ty` of a `source`; every pair of types that compute has one.
pub(super) fn cast(ty: DataType, source: DataType) -> Option<Meaning> {
    match ty {
        DataType::Bool => cast_to::<Bool>(source),
        DataType::U32 => cast_to::<U32>(source),
        DataType::I32 => cast_to::<I32>(source),
        DataType::U64 => cast_to::<U64>(source),
        DataType::I64 => cast_to::<I64>(source),
        DataType::F16 => cast_to::<F16>(source),
        DataType::BF16 => cast_to::<BF16>(source),
        DataType::F32 => cast_to::<F32>(source),
        DataType::F64 => cast_to::<F64>(source),
        DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 => None,
    }
}

fn cast_to<T: Scalar>(source: DataType) -> Option<Meaning> {
    Some(match source {
        DataType::Bool => |x| T::write(Bool::read(x[0])),
        DataType::U32 => |x| T::write(U32::read(x[0])),
        DataType::I32 => |x| T::write(I32::read(x[0])),
        DataType::U64 => |x| T::write(U64::read(x[0])),
        DataType::I64 => |x| T::write(I64::read(x[0])),
        DataType::F16 => |x| T::write(F16::read(x[0])),
        DataType::BF16 => |x| T::write(BF16::read(x[0])),
        DataType::F32 => |x| T::write(F32::read(x[0])),
        DataType::F64 => |x| T::write(F64::read(x[0])),
        DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 => return None,
    })
}

/// `bitcast.ty` of a `source`: between types of 32 bits, between types of 64, and between u32 and a 16-bit float,
/// which is its low half. Whichever side is a float shows a NaN as the canonical one.
pub(super) fn bitcast(ty: DataType, source: DataType) -> Option<Meaning> {
    let equal_width = ty.bits() == source.bits() && ty.bits() >= 32;
    let low_half = |half: DataType, whole| half.is_float() && half.bits() == 16 && whole == DataType::U32;
    if !equal_width && !low_half(ty, source) && !low_half(source, ty) {
        return None;
    }
    Some(match if ty.is_float() { ty } else { source } {
        DataType::F16 => |x| observe(DataType::F16, x[0] & DataType::F16.mask()),
        DataType::BF16 => |x| observe(DataType::BF16, x[0] & DataType::BF16.mask()),
        DataType::F32 => |x| observe(DataType::F32, x[0]),
        DataType::F64 => |x| observe(DataType::F64, x[0]),
        DataType::U32 | DataType::I32 | DataType::U64 | DataType::I64 => |x| x[0],
        DataType::Bool | DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 => return None,
    })
}
