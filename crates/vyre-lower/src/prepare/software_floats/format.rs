//! A float format in integers: taking a float apart, and rounding and packing a result.
//!
//! All formats share one shape. A float's digits are kept in a word with the leading one in the top bit, so the word has
//! room below for bits that decide the rounding, and the last of them is sticky: once a one was shifted past the end it
//! stays set. [`Format::pack`] is the only place that rounds.
//!
//! Words are u32 for f16, bf16 and f32, and u64 for f64. Every shift amount is below the width, because the language
//! takes amounts modulo the width.

use std::cell::OnceCell;
use vyre_foundation::ir::DataType;
use vyre_foundation::ir::builder::{Callable, Integer, Kernel, Logic, Params, Val};

/// An integer that functions take and give.
pub(super) trait Plain: Integer + for<'k> Params<Vals<'k> = Val<'k, Self>> {}
impl<T: Integer + for<'k> Params<Vals<'k> = Val<'k, T>>> Plain for T {}

/// The unsigned integers in which formats compute.
pub(super) trait Word: Plain + Logic {
    const BITS: u32;

    /// Whether [`Word::digit`] is never too small.
    const EXACT_DIGITS: bool;

    /// The low 32 bits.
    fn low(x: Val<'_, Self>) -> Val<'_, u32>;

    /// `rest * 2^bits / divisor` rounded down, or one less.
    ///
    /// The divisor has its leading one at `Format::fraction_bits`, the rest is below twice the divisor, and `bits` is at
    /// most `Format::spare_bits`.
    fn digit<'k>(rest: Val<'k, Self>, divisor: Val<'k, Self>, bits: Val<'k, u32>) -> Val<'k, Self>;
}

impl Word for u32 {
    const BITS: u32 = 32;
    const EXACT_DIGITS: bool = true;

    fn low(x: Val<'_, u32>) -> Val<'_, u32> {
        x
    }

    fn digit<'k>(rest: Val<'k, u32>, divisor: Val<'k, u32>, bits: Val<'k, u32>) -> Val<'k, u32> {
        (rest << bits) / divisor
    }
}

impl Word for u64 {
    const BITS: u32 = 64;
    const EXACT_DIGITS: bool = false;

    fn low(x: Val<'_, u64>) -> Val<'_, u32> {
        x.cast()
    }

    /// Divides the leading bits of both in 32 bits, the divisor's rounded up. They are at least 2^19, so the quotient,
    /// below 2^12, is too small by less than 2^-7 before it is rounded down: the next rest is below 1.01 divisors.
    fn digit<'k>(rest: Val<'k, u64>, divisor: Val<'k, u64>, bits: Val<'k, u32>) -> Val<'k, u64> {
        (u64::low(rest >> (33 - bits)) / (u64::low(divisor >> 33) + 1)).cast()
    }
}

/// A constant by its bits.
pub(super) fn c<T: Integer>(bits: u64) -> T {
    T::from_bits(bits)
}

/// `digits / 2^amount` with a sticky last bit; the amount is below the width.
pub(super) fn shift_right<'k, W: Word>(
    digits: Val<'k, W>,
    amount: Val<'k, u32>,
    one: Val<'k, W>,
) -> Val<'k, W> {
    let lost = digits & ((one << amount) - one);
    (digits >> amount) | lost.ne(c::<W>(0)).cast::<W>()
}

/// Top-aligned digits in another word, with a sticky last bit where it has fewer.
pub(super) fn resize<'k, A: Word, B: Word>(digits: Val<'k, A>) -> Val<'k, B> {
    if A::BITS > B::BITS {
        let lost = digits.cast::<B>().ne(c::<B>(0));
        return (digits >> (A::BITS - B::BITS)).cast::<B>() | lost.cast::<B>();
    }
    scale(digits.cast::<B>(), B::BITS as i32 - A::BITS as i32)
}

/// `x * 2^exponent`, rounded down.
pub(super) fn scale<W: Word>(x: Val<'_, W>, exponent: i32) -> Val<'_, W> {
    match exponent.signum() {
        1 => x << exponent.unsigned_abs(),
        -1 => x >> exponent.unsigned_abs(),
        _ => x,
    }
}

/// A finite float, taken apart: `digits / 2^(W::BITS - 1) * 2^(exponent - bias)`, the top digit set unless it is zero.
#[derive(Clone, Copy)]
pub(super) struct Unpacked<'k, W> {
    pub(super) exponent: Val<'k, i32>,
    pub(super) digits: Val<'k, W>,
}

/// The arguments of [`Format::pack`]: the sign in its place, the biased exponent, the digits.
type PackArgs<W> = (W, i32, W);

/// One float type, for functions built in one kernel.
pub(super) struct Format<'k, W: Word> {
    pub(super) k: &'k Kernel,
    pub(super) ty: DataType,
    pub(super) fraction_bits: u32,
    pack: OnceCell<Callable<'k, PackArgs<W>, Val<'k, W>>>,
}

impl<'k, W: Word> Format<'k, W> {
    pub(super) fn new(k: &'k Kernel, ty: DataType, fraction_bits: u32) -> Format<'k, W> {
        Format { k, ty, fraction_bits, pack: OnceCell::new() }
    }

    /// The sign bit.
    pub(super) fn sign(&self) -> u64 {
        1 << (self.ty.bits() - 1)
    }

    /// The greatest exponent field, that of infinities and NaNs.
    fn exponent_max(&self) -> u64 {
        (self.sign() - 1) >> self.fraction_bits
    }

    pub(super) fn bias(&self) -> u64 {
        self.exponent_max() / 2
    }

    pub(super) fn infinity(&self) -> u64 {
        self.exponent_max() << self.fraction_bits
    }

    /// The bits of `2^exponent`, or of infinity where that is too large.
    pub(super) fn power(&self, exponent: u64) -> u64 {
        (self.bias() + exponent).min(self.exponent_max()) << self.fraction_bits
    }

    pub(super) fn nan(&self) -> W {
        c(self.ty.canonical_nan().expect("a format is of a float type"))
    }

    /// The bits of a word beside a significand.
    pub(super) fn spare_bits(&self) -> u32 {
        W::BITS - 1 - self.fraction_bits
    }

    pub(super) fn word(&self, bits: u64) -> Val<'k, W> {
        self.k.val(c(bits))
    }

    pub(super) fn magnitude(&self, x: Val<'k, W>) -> Val<'k, W> {
        x & c::<W>(self.sign() - 1)
    }

    pub(super) fn is_negative(&self, x: Val<'k, W>) -> Val<'k, bool> {
        (x & c::<W>(self.sign())).ne(c::<W>(0))
    }

    /// The exponent field and the significand as an integer: subnormals have the smallest normal's field.
    pub(super) fn fields(&self, magnitude: Val<'k, W>) -> (Val<'k, W>, Val<'k, W>) {
        let field = magnitude >> self.fraction_bits;
        let hidden = 1 << self.fraction_bits;
        let leading = field.ne(c::<W>(0)).select::<W>(c::<W>(hidden), c::<W>(0));
        (field.max(c::<W>(1)), (magnitude & c::<W>(hidden - 1)) | leading)
    }

    /// A finite float's magnitude, taken apart.
    pub(super) fn unpack(&self, magnitude: Val<'k, W>) -> Unpacked<'k, W> {
        let (field, digits) = self.fields(magnitude);
        self.normal(field.cast::<i32>() + self.spare_bits() as i32, digits)
    }

    /// Moves the top digit into the top bit. Zero keeps no particular exponent.
    pub(super) fn normal(&self, exponent: Val<'k, i32>, digits: Val<'k, W>) -> Unpacked<'k, W> {
        let shift = W::low(digits.clz());
        Unpacked { exponent: exponent - shift.cast::<i32>(), digits: digits << shift }
    }

    /// The float nearest to a value, ties to even, with that sign bit: subnormal below the smallest exponent, infinite
    /// above the greatest. The value is not zero.
    pub(super) fn pack(&self, sign: Val<'k, W>, value: Unpacked<'k, W>) -> Val<'k, W> {
        let name = format!("soft.pack.{}", self.ty);
        let declare = || self.k.function(&name, |args| self.pack_body(args));
        self.pack.get_or_init(declare).call((sign, value.exponent, value.digits))
    }

    fn pack_body(&self, (sign, exponent, digits): (Val<'k, W>, Val<'k, i32>, Val<'k, W>)) -> Val<'k, W> {
        let below = (1 - exponent).max(0).min(W::BITS as i32 - 1);
        let digits = shift_right(digits, below.cast::<u32>(), self.word(1));
        let kept = digits >> self.spare_bits();
        // What is dropped, at the top of the word; half of the last place is its top bit alone.
        let rest = digits << (self.fraction_bits + 1);
        let up = (rest | (kept & c::<W>(1))).gt(c::<W>(1 << (W::BITS - 1)));
        // The leading digit adds one to the exponent field, and so does a carry out of the rounding.
        let field = (exponent.max(1).min(self.exponent_max() as i32) - 1).cast::<W>();
        let magnitude = (field << self.fraction_bits) + kept + up.cast::<W>();
        sign | magnitude.min(c::<W>(self.infinity()))
    }
}
