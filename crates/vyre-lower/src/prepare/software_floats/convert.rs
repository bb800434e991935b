//! Casts between floats, and between floats and integers, as functions over integers.

use super::format::{Format, Plain, Unpacked, Word, c, resize};
use vyre_foundation::ir::DataType;
use vyre_foundation::ir::builder::{Kernel, Val};

/// The four formats, for functions built in one kernel.
pub(super) struct Formats<'k> {
    pub(super) f16: Format<'k, u32>,
    pub(super) bf16: Format<'k, u32>,
    pub(super) f32: Format<'k, u32>,
    pub(super) f64: Format<'k, u64>,
}

impl<'k> Formats<'k> {
    pub(super) fn new(k: &'k Kernel) -> Formats<'k> {
        Formats {
            f16: Format::new(k, DataType::F16, 10),
            bf16: Format::new(k, DataType::BF16, 7),
            f32: Format::new(k, DataType::F32, 23),
            f64: Format::new(k, DataType::F64, 52),
        }
    }

    /// Declares the cast of a `from` to `ty`, one of which is a float, and neither bool.
    pub(super) fn declare_cast(&self, ty: DataType, from: DataType, name: &str) {
        match ty {
            DataType::F16 => self.to_float(&self.f16, from, name),
            DataType::BF16 => self.to_float(&self.bf16, from, name),
            DataType::F32 => self.to_float(&self.f32, from, name),
            DataType::F64 => self.to_float(&self.f64, from, name),
            DataType::U32 | DataType::I32 | DataType::U64 | DataType::I64 => match from {
                DataType::F16 => to_integer(&self.f16, ty, name),
                DataType::BF16 => to_integer(&self.bf16, ty, name),
                DataType::F32 => to_integer(&self.f32, ty, name),
                DataType::F64 => to_integer(&self.f64, ty, name),
                other => unreachable!("{other} is no float"),
            },
            DataType::Bool | DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 => {
                unreachable!("no function casts to {ty}")
            }
        }
    }

    fn to_float<W: Word>(&self, to: &Format<'k, W>, from: DataType, name: &str) {
        match from {
            DataType::F16 => convert(&self.f16, to, name),
            DataType::BF16 => convert(&self.bf16, to, name),
            DataType::F32 => convert(&self.f32, to, name),
            DataType::F64 => convert(&self.f64, to, name),
            DataType::U32 => from_integer::<u32, u32, W>(to, name),
            DataType::I32 => from_integer::<i32, u32, W>(to, name),
            DataType::U64 => from_integer::<u64, u64, W>(to, name),
            DataType::I64 => from_integer::<i64, u64, W>(to, name),
            DataType::Bool | DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 => {
                unreachable!("no function casts from {from}")
            }
        }
    }
}

/// One float format to another.
fn convert<'k, A: Word, B: Word>(from: &Format<'k, A>, to: &Format<'k, B>, name: &str) {
    from.k.function::<A, _>(name, |x| {
        let magnitude = from.magnitude(x);
        let sign = from.is_negative(x).select::<B>(c::<B>(to.sign()), c::<B>(0));
        let Unpacked { exponent, digits } = from.unpack(magnitude);
        let exponent = exponent + (to.bias() as i32 - from.bias() as i32);
        let r = to.pack(sign, Unpacked { exponent, digits: resize(digits) });
        let r = magnitude.eq(c::<A>(0)).select(sign, r);
        let infinity = c::<A>(from.infinity());
        let r = magnitude.eq(infinity).select(sign | c::<B>(to.infinity()), r);
        magnitude.gt(infinity).select(to.nan(), r)
    });
}

/// An integer, whose magnitude is an `M`, to a float.
fn from_integer<'k, T: Plain, M: Word, W: Word>(to: &Format<'k, W>, name: &str) {
    to.k.function::<T, _>(name, |x| {
        let bits = x.cast::<M>();
        let (magnitude, sign) = if T::TYPE.is_signed() {
            let negative = x.lt(c::<T>(0));
            let sign = negative.select::<W>(c::<W>(to.sign()), c::<W>(0));
            (negative.select(to.k.val(c::<M>(0)) - bits, bits), sign)
        } else {
            (bits, to.word(0))
        };
        let shift = M::low(magnitude.clz());
        let exponent = (to.bias() as i32 + M::BITS as i32 - 1) - shift.cast::<i32>();
        let r = to.pack(sign, Unpacked { exponent, digits: resize(magnitude << shift) });
        magnitude.eq(c::<M>(0)).select(c::<W>(0), r)
    });
}

/// A float to the integer type `ty`.
fn to_integer<'k, W: Word>(from: &Format<'k, W>, ty: DataType, name: &str) {
    fn declare<'k, W: Word, M: Word, T: Plain>(from: &Format<'k, W>, name: &str) {
        from.k.function::<W, _>(name, |x| whole::<W, M, T>(from, x));
    }
    match ty {
        DataType::U32 => declare::<W, W, u32>(from, name),
        DataType::I32 => declare::<W, W, i32>(from, name),
        DataType::U64 => declare::<W, u64, u64>(from, name),
        DataType::I64 => declare::<W, u64, i64>(from, name),
        other => unreachable!("{other} is no integer that computes"),
    }
}

/// A float's whole part as a `T`, held at its limits, computed in `M`, which is as wide as both.
fn whole<'k, W: Word, M: Word, T: Plain>(from: &Format<'k, W>, x: Val<'k, W>) -> Val<'k, T> {
    let magnitude = from.magnitude(x);
    let (field, digits) = from.fields(magnitude);
    let digits = digits.cast::<M>() << (M::BITS - 1 - from.fraction_bits);
    let whole = digits >> ((from.bias() as u32 + M::BITS - 1) - W::low(field));
    let none = magnitude.lt(c::<W>(from.power(0))) | magnitude.gt(c::<W>(from.infinity()));
    let whole = none.select(c::<M>(0), whole);
    let negative = from.is_negative(x);
    let greatest_bits = T::TYPE.bits() - u32::from(T::TYPE.is_signed());
    let greatest = from.k.val(c::<M>(u64::MAX >> (64 - greatest_bits)));
    let over = magnitude.ge(c::<W>(from.power(greatest_bits.into()))) & !none;
    let result = if T::TYPE.is_signed() {
        let whole = over.select(greatest + negative.cast::<M>(), whole);
        negative.select(from.k.val(c::<M>(0)) - whole, whole)
    } else {
        negative.select(c::<M>(0), over.select(greatest, whole))
    };
    result.cast()
}
