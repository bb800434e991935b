//! The Rust types that stand for the language's types.
//!
//! [`Scalar`] is every one of them. [`Computes`] are those that values have, [`Element`] those that lie in buffers. The
//! narrower traits mirror the type sets of the op table, so an op on a wrong type does not compile.

use crate::ir::{DataType, Literal};
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that stands for a type of the language.
pub trait Scalar: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The type it stands for.
    const TYPE: DataType;

    /// The value's bits, the unused upper ones zero.
    fn bits(self) -> u64;

    /// The value that has those bits.
    fn from_bits(bits: u64) -> Self;

    /// The constant in the language.
    fn literal(self) -> Literal {
        Literal::from_bits(Self::TYPE, self.bits())
    }
}

/// A type that values have: bool, u32, i32, u64, i64, f16, bf16, f32 or f64. Its constants stand where its values do.
pub trait Computes: Scalar + for<'k> super::Arg<'k, Self> {}

/// A type that lies in buffers and tables: every one but bool.
pub trait Element: Scalar {
    /// The type that a loaded element has.
    type Value: Computes;
}

/// A number that computes.
pub trait Number: Computes + Element<Value = Self> {}

/// An integer that computes.
pub trait Integer: Number {}

/// u32 or i32.
pub trait Int32: Integer {}

/// A signed integer or float that computes.
pub trait Signed: Number {}

/// A float.
pub trait Float: Number {}

/// An integer or bool.
pub trait Logic: Computes {}

/// A type whose bits can be read as a `U`.
pub trait BitcastTo<U>: Number {}

macro_rules! scalars {
    ($( $rust:ty => $ty:ident, $to:expr, $from:expr; )*) => {
        $(
            impl sealed::Sealed for $rust {}
            impl Scalar for $rust {
                const TYPE: DataType = DataType::$ty;

                fn bits(self) -> u64 {
                    let to: fn($rust) -> u64 = $to;
                    to(self)
                }

                fn from_bits(bits: u64) -> $rust {
                    let from: fn(u64) -> $rust = $from;
                    from(bits)
                }
            }
        )*
    };
}

scalars! {
    bool => Bool, |x| u64::from(x), |bits| bits & 1 != 0;
    u8 => U8, |x| u64::from(x), |bits| bits as u8;
    i8 => I8, |x| u64::from(x as u8), |bits| bits as i8;
    u16 => U16, |x| u64::from(x), |bits| bits as u16;
    i16 => I16, |x| u64::from(x as u16), |bits| bits as i16;
    u32 => U32, |x| u64::from(x), |bits| bits as u32;
    i32 => I32, |x| u64::from(x as u32), |bits| bits as i32;
    u64 => U64, |x| x, |bits| bits;
    i64 => I64, |x| x as u64, |bits| bits as i64;
    f16 => F16, |x| u64::from(x.to_bits()), |bits| f16::from_bits(bits as u16);
    bf16 => BF16, |x| u64::from(x.to_bits()), |bits| bf16::from_bits(bits as u16);
    f32 => F32, |x| u64::from(x.to_bits()), |bits| f32::from_bits(bits as u32);
    f64 => F64, |x| x.to_bits(), |bits| f64::from_bits(bits);
}

macro_rules! mark {
    ($( $marker:ident: $($ty:ty)* ; )*) => { $( $( impl $marker for $ty {} )* )* };
}

mark! {
    Computes: bool u32 i32 u64 i64 f16 bf16 f32 f64;
    Number: u32 i32 u64 i64 f16 bf16 f32 f64;
    Integer: u32 i32 u64 i64;
    Int32: u32 i32;
    Signed: i32 i64 f16 bf16 f32 f64;
    Float: f16 bf16 f32 f64;
    Logic: bool u32 i32 u64 i64;
}

macro_rules! elements {
    ($( $ty:ty => $value:ty; )*) => { $( impl Element for $ty { type Value = $value; } )* };
}

elements! {
    u8 => u32; i8 => i32; u16 => u32; i16 => i32; u32 => u32; i32 => i32; u64 => u64; i64 => i64;
    f16 => f16; bf16 => bf16; f32 => f32; f64 => f64;
}

macro_rules! bitcasts {
    ($( $from:ty => $($to:ty)*; )*) => { $( $( impl BitcastTo<$to> for $from {} )* )* };
}

bitcasts! {
    u32 => u32 i32 f32 f16 bf16;
    i32 => u32 i32 f32;
    f32 => u32 i32 f32;
    u64 => u64 i64 f64;
    i64 => u64 i64 f64;
    f64 => u64 i64 f64;
    f16 => u32;
    bf16 => u32;
}
