//! The float ops as functions over integers, one definition for all formats.
//!
//! Each function computes as if its operands were finite and then selects the answers of the others, so that lanes
//! do not part. What it computes for infinities and NaNs meanwhile has no meaning and no effect.

use super::Routine;
use super::format::{Format, Unpacked, Word, c, scale, shift_right};
use vyre_foundation::ir::builder::{Bounds, Val};

type One<'k, W> = fn(&Format<'k, W>, Val<'k, W>) -> Val<'k, W>;
type Two<'k, W, R> = fn(&Format<'k, W>, Val<'k, W>, Val<'k, W>) -> Val<'k, R>;

/// Declares a routine in its format's kernel.
pub(super) fn declare<'k, W: Word>(f: &Format<'k, W>, routine: Routine, name: &str) {
    let one = |body: One<'k, W>| {
        f.k.function::<W, _>(name, |a| body(f, a));
    };
    let two = |body: Two<'k, W, W>| {
        f.k.function::<(W, W), _>(name, |(a, b)| body(f, a, b));
    };
    let test = |body: Two<'k, W, bool>| {
        f.k.function::<(W, W), _>(name, |(a, b)| body(f, a, b));
    };
    match routine {
        Routine::Add => two(Format::add),
        Routine::Mul => two(Format::mul),
        Routine::Div => two(Format::div),
        Routine::Rem => two(Format::rem),
        Routine::Min => two(|f, a, b| f.pick(a, b, |a, b| a.le(b))),
        Routine::Max => two(|f, a, b| f.pick(a, b, |a, b| a.ge(b))),
        Routine::Eq => test(|f, a, b| f.numbers(a, b) & (a.eq(b) | f.zeros(a, b))),
        Routine::Lt => test(|f, a, b| f.numbers(a, b) & f.order(a).lt(f.order(b)) & !f.zeros(a, b)),
        Routine::Le => test(|f, a, b| f.numbers(a, b) & (f.order(a).le(f.order(b)) | f.zeros(a, b))),
        Routine::Fma => {
            f.k.function::<(W, W, W), _>(name, |(a, b, c)| f.fma(a, b, c));
        }
        Routine::Sqrt => one(Format::sqrt),
        Routine::Floor => one(|f, a| f.integral(a, Toward::Down)),
        Routine::Ceil => one(|f, a| f.integral(a, Toward::Up)),
        Routine::Trunc => one(|f, a| f.integral(a, Toward::Zero)),
        Routine::Round => one(|f, a| f.integral(a, Toward::Nearest)),
        Routine::Cast { .. } => unreachable!("`convert` declares casts"),
    }
}

/// Where an integral value is looked for.
#[derive(Clone, Copy)]
enum Toward {
    Down,
    Up,
    Zero,
    Nearest,
}

/// The root, rounded down, of a number with one of its top two bits set.
///
/// A line is within 4 % of the root, so the first of Newton's steps is within 0.1 % and the second within 0.02 of it;
/// each rounds down from a number that is not below the root, which leaves the root or one more.
fn root_of_word(x: Val<'_, u32>) -> Val<'_, u32> {
    let line = (((x >> 15) * 11) >> 5) + 22_150;
    let near = (line + x / line) >> 1;
    let root = ((near + x / near) >> 1).min(0xffff);
    root - (root * root).gt(x).cast::<u32>()
}

/// A number of two words.
#[derive(Clone, Copy)]
struct Wide<'k, W> {
    high: Val<'k, W>,
    low: Val<'k, W>,
}

impl<'k, W: Word> Format<'k, W> {
    fn add(&self, a: Val<'k, W>, b: Val<'k, W>) -> Val<'k, W> {
        let infinity = c::<W>(self.infinity());
        let (ma, mb) = (self.magnitude(a), self.magnitude(b));
        let subtract = self.is_negative(a ^ b);
        let greater = ma.lt(mb).select(b, a);
        let (high, low) = (ma.max(mb), ma.min(mb));
        // The top bit stays free for the carry. Of the bits below the significand two would do beside the sticky one.
        let ((field, x), (small_field, y)) = (self.fields(high), self.fields(low));
        let (x, y) = (x << (self.spare_bits() - 1), y << (self.spare_bits() - 1));
        let gap = (field - small_field).min(c::<W>(u64::from(W::BITS) - 1));
        let y = shift_right(y, W::low(gap), self.word(1));
        let sum = subtract.select(x - y, x + y);
        let sign = greater & c::<W>(self.sign());
        let r = self.pack(sign, self.normal(field.cast::<i32>() + 1, sum));
        let r = sum.eq(c::<W>(0)).select(subtract.select(c::<W>(0), sign), r);
        let r = high.ge(infinity).select(greater, r);
        (high.gt(infinity) | (low.eq(infinity) & subtract)).select(self.nan(), r)
    }

    fn mul(&self, a: Val<'k, W>, b: Val<'k, W>) -> Val<'k, W> {
        let infinity = c::<W>(self.infinity());
        let (ma, mb) = (self.magnitude(a), self.magnitude(b));
        let sign = (a ^ b) & c::<W>(self.sign());
        let (x, y) = (self.unpack(ma), self.unpack(mb));
        let low = x.digits * y.digits;
        let product = x.digits.mul_hi(y.digits) | low.ne(c::<W>(0)).cast::<W>();
        let exponent = x.exponent + y.exponent - (self.bias() as i32 - 1);
        let r = self.pack(sign, self.normal(exponent, product));
        let (high, low) = (ma.max(mb), ma.min(mb));
        let r = low.eq(c::<W>(0)).select(sign, r);
        let r = high.ge(infinity).select(sign | infinity, r);
        (high.gt(infinity) | (high.eq(infinity) & low.eq(c::<W>(0)))).select(self.nan(), r)
    }

    /// Long division by digits of `spare_bits`: the quotient has one more bit than the significand, and the rest
    /// tells what follows.
    fn div(&self, a: Val<'k, W>, b: Val<'k, W>) -> Val<'k, W> {
        let infinity = c::<W>(self.infinity());
        let (ma, mb) = (self.magnitude(a), self.magnitude(b));
        let sign = (a ^ b) & c::<W>(self.sign());
        let (x, y) = (self.unpack(ma), self.unpack(mb));
        let less = x.digits.lt(y.digits);
        let exponent = x.exponent - y.exponent + self.bias() as i32 - less.cast::<i32>();
        let spare = self.spare_bits();
        let divisor = y.digits >> spare;
        let mut rest = ((x.digits >> spare) << less.cast::<u32>()) - divisor;
        let mut quotient = self.word(1);
        let digits = (self.fraction_bits + 1).div_ceil(spare);
        for _ in 0..digits {
            let digit = W::digit(rest, divisor, self.k.val(spare));
            rest = (rest << spare) - digit * divisor;
            quotient = (quotient << spare) + digit;
        }
        if !W::EXACT_DIGITS {
            let short = rest.ge(divisor);
            rest = short.select(rest - divisor, rest);
            quotient = quotient + short.cast::<W>();
        }
        let top_aligned = quotient << (W::BITS - 1 - digits * spare);
        let digits = top_aligned | rest.ne(c::<W>(0)).cast::<W>();
        let r = self.pack(sign, Unpacked { exponent, digits });
        let zero = ma.eq(c::<W>(0)) | mb.eq(infinity);
        let r = zero.select(sign, r);
        let infinite = ma.eq(infinity) | mb.eq(c::<W>(0));
        let r = infinite.select(sign | infinity, r);
        ((zero & infinite) | ma.max(mb).gt(infinity)).select(self.nan(), r)
    }

    /// fmod: division again, keeping the rest alone, for as many digits as the exponents are apart.
    fn rem(&self, a: Val<'k, W>, b: Val<'k, W>) -> Val<'k, W> {
        let infinity = c::<W>(self.infinity());
        let (ma, mb) = (self.magnitude(a), self.magnitude(b));
        let (x, y) = (self.unpack(ma), self.unpack(mb));
        let spare = self.spare_bits();
        let divisor = y.digits >> spare;
        let rest = self.k.var(x.digits >> spare);
        let gap = (x.exponent - y.exponent).max(0).cast::<u32>();
        self.k.for_((0, gap).step(spare), |done| {
            let bits = (gap - done).min(spare);
            rest.update(|rest| (rest << bits) - W::digit(rest, divisor, bits) * divisor);
        });
        let rest = rest.get();
        let rest = rest.ge(divisor).select(rest - divisor, rest);
        let sign = a & c::<W>(self.sign());
        let r = self.pack(sign, self.normal(y.exponent + spare as i32, rest));
        let r = rest.eq(c::<W>(0)).select(sign, r);
        let r = ma.lt(mb).select(a, r);
        let wrong = ma.ge(infinity) | mb.gt(infinity) | mb.eq(c::<W>(0));
        wrong.select(self.nan(), r)
    }

    /// A number by which floats of any sign are ordered, -0 below +0.
    fn order(&self, x: Val<'k, W>) -> Val<'k, W> {
        let sign = self.sign();
        x ^ self.is_negative(x).select::<W>(c::<W>(sign | (sign - 1)), c::<W>(sign))
    }

    /// `a` if it comes first by `first` or `b` is no number, else `b`.
    fn pick(
        &self,
        a: Val<'k, W>,
        b: Val<'k, W>,
        first: impl FnOnce(Val<'k, W>, Val<'k, W>) -> Val<'k, bool>,
    ) -> Val<'k, W> {
        let infinity = c::<W>(self.infinity());
        let a_first = first(self.order(a), self.order(b)) & self.magnitude(a).le(infinity);
        (a_first | self.magnitude(b).gt(infinity)).select(a, b)
    }

    /// Whether neither is NaN.
    fn numbers(&self, a: Val<'k, W>, b: Val<'k, W>) -> Val<'k, bool> {
        self.magnitude(a).max(self.magnitude(b)).le(c::<W>(self.infinity()))
    }

    /// Whether both are zero.
    fn zeros(&self, a: Val<'k, W>, b: Val<'k, W>) -> Val<'k, bool> {
        self.magnitude(a | b).eq(c::<W>(0))
    }

    fn sqrt(&self, a: Val<'k, W>) -> Val<'k, W> {
        let magnitude = self.magnitude(a);
        let x = self.unpack(magnitude);
        let exponent = x.exponent - self.bias() as i32;
        // Halving the exponent needs it even; a radicand with the top bit set has an even number of digits.
        let radicand = x.digits >> (1 - (exponent & 1).cast::<u32>());
        let digits = self.root(radicand);
        let exponent = (exponent >> 1) + self.bias() as i32;
        let r = self.pack(self.word(0), Unpacked { exponent, digits });
        let itself = magnitude.eq(c::<W>(0)) | a.eq(c::<W>(self.infinity()));
        let r = itself.select(a, r);
        // Above infinity: NaN, or a sign bit.
        (a.gt(c::<W>(self.infinity())) & !itself).select(self.nan(), r)
    }

    /// The root of a number that has one of its top two bits set, top-aligned, with a sticky end.
    ///
    /// Sixteen bits of it come from `root_of_word`. Then `rest` is what is left of the radicand's leading digits beside
    /// `root^2`, and longhand digits follow: `rest / (2 * root)` is the next one or one too large, so the divisor is
    /// rounded up, and what a digit lacks for that shows in the next, or at last in a rest above `2 * root`.
    fn root(&self, radicand: Val<'k, W>) -> Val<'k, W> {
        let leading = W::low(scale(radicand, 32 - W::BITS as i32));
        let first = root_of_word(leading);
        let (mut root, mut rest) = (first.cast::<W>(), (leading - first * first).cast::<W>());
        let (mut known, mut consumed) = (16, 32);
        while known < self.fraction_bits + 2 {
            let bits = if known == 16 { 9 } else { 10 };
            // Both in 32 bits: the rest is below 2.1 roots, and the root has `known` bits.
            let (up, down) = (30 - known as i32, 31 - known as i32 - bits as i32);
            let divisor = W::low(scale(root, down)) + (1 << down.max(0));
            let digit = (W::low(scale(rest, up)) / divisor).cast::<W>();
            rest = (rest << (2 * bits)) - digit * ((root << (bits + 1)) + digit);
            if consumed < W::BITS {
                rest = rest + ((radicand << consumed) >> (W::BITS - 2 * bits));
            }
            root = (root << bits) + digit;
            (known, consumed) = (known + bits, consumed + 2 * bits);
        }
        let short = rest.gt(root << 1);
        let rest = short.select(rest - (root << 1) - c::<W>(1), rest);
        let top_aligned = (root + short.cast::<W>()) << (W::BITS - known);
        top_aligned | rest.ne(c::<W>(0)).cast::<W>()
    }

    /// The bits of a float's magnitude count integers as far as its exponent puts their end: rounding is masking them,
    /// and a carry goes into the exponent as it must.
    fn integral(&self, a: Val<'k, W>, toward: Toward) -> Val<'k, W> {
        let (zero, one) = (c::<W>(0), c::<W>(self.power(0)));
        let magnitude = self.magnitude(a);
        let places = (self.bias() as u32 + self.fraction_bits) - W::low(magnitude >> self.fraction_bits);
        let unit = self.word(1) << places;
        let mask = unit - c::<W>(1);
        // Before masking, and for magnitudes below 1.
        let (large, small) = match toward {
            Toward::Zero => (magnitude, self.word(0)),
            Toward::Down | Toward::Up => {
                let up = matches!(toward, Toward::Up);
                let sign = a & c::<W>(self.sign());
                let away = if up { sign.eq(zero) } else { sign.ne(zero) };
                let small = (away & magnitude.ne(zero)).select(one, zero);
                (away.select(magnitude + mask, magnitude), small)
            }
            Toward::Nearest => {
                // For 1 to 2 the place of the ones holds the exponent's last bit, which is set there too.
                let odd = (magnitude >> places) & c::<W>(1);
                let half = c::<W>(self.power(0) - (1 << self.fraction_bits));
                (magnitude + (mask >> 1) + odd, magnitude.gt(half).select(one, zero))
            }
        };
        let r = magnitude.lt(one).select(small, large & !mask) | (a & c::<W>(self.sign()));
        magnitude.ge(c::<W>(self.power(u64::from(self.fraction_bits)))).select(a, r)
    }

    /// The exact product and the addend as numbers of two words, added exactly but for what lies so far below that one
    /// sticky bit says enough.
    fn fma(&self, a: Val<'k, W>, b: Val<'k, W>, addend: Val<'k, W>) -> Val<'k, W> {
        let zero = c::<W>(0);
        let (ma, mb, mc) = (self.magnitude(a), self.magnitude(b), self.magnitude(addend));
        let product_sign = (a ^ b) & c::<W>(self.sign());
        let subtract = self.is_negative(a ^ b ^ addend);
        let (x, y, z) = (self.unpack(ma), self.unpack(mb), self.unpack(mc));
        // Two bits stay free at the top; significands leave more than that at the end.
        let (high, low) = (x.digits.mul_hi(y.digits), x.digits * y.digits);
        let product = Wide { high: high >> 2, low: (high << (W::BITS - 2)) | (low >> 2) };
        let addend_digits = Wide { high: z.digits >> 2, low: self.word(0) };
        let product_exponent = x.exponent + y.exponent - (self.bias() as i32 - 1);
        // A product of zero must not push the addend out. An addend of zero may: products below it round to zero.
        let product_zero = ma.min(mb).eq(zero);
        let product_exponent = product_zero.select(z.exponent, product_exponent);
        let swap = product_exponent.lt(z.exponent);
        let exponent = product_exponent.max(z.exponent);
        let gap = exponent - product_exponent.min(z.exponent);
        let near = self.choose(swap, addend_digits, product);
        let far = self.shift_wide(self.choose(swap, product, addend_digits), gap);
        let (sum, flipped) = self.add_wide(near, far, subtract);
        let near_sign = swap.select(addend & c::<W>(self.sign()), product_sign);
        let sign = near_sign ^ flipped.select::<W>(c::<W>(self.sign()), zero);
        let r = self.pack(sign, self.normal_wide(exponent, sum));
        let r = (sum.high | sum.low).eq(zero).select(subtract.select(zero, product_sign), r);
        self.fma_special([ma, mb, mc], [product_sign, addend], subtract, r)
    }

    /// `finite`, or what `fma` gives for infinities and NaNs.
    fn fma_special(
        &self,
        [ma, mb, mc]: [Val<'k, W>; 3],
        [product_sign, addend]: [Val<'k, W>; 2],
        subtract: Val<'k, bool>,
        finite: Val<'k, W>,
    ) -> Val<'k, W> {
        let infinity = c::<W>(self.infinity());
        let (high, low) = (ma.max(mb), ma.min(mb));
        let r = mc.eq(infinity).select(addend, finite);
        let r = high.eq(infinity).select(product_sign | infinity, r);
        let wrong = high.eq(infinity) & (low.eq(c::<W>(0)) | (mc.eq(infinity) & subtract));
        (wrong | high.max(mc).gt(infinity)).select(self.nan(), r)
    }

    fn choose(&self, cond: Val<'k, bool>, a: Wide<'k, W>, b: Wide<'k, W>) -> Wide<'k, W> {
        Wide { high: cond.select(a.high, b.high), low: cond.select(a.low, b.low) }
    }

    /// Shifts right by an amount that is not negative, with a sticky last bit. From a whole word on only the upper word
    /// counts: its top digit is then far below what is rounded, and tells that something is there.
    fn shift_wide(&self, x: Wide<'k, W>, amount: Val<'k, i32>) -> Wide<'k, W> {
        let bits = W::BITS as i32;
        let whole = amount.ge(bits);
        let x = self.choose(whole, Wide { high: self.word(0), low: x.high }, x);
        let amount = (amount - whole.select(bits, 0)).min(bits - 1).cast::<u32>();
        // The upper word's lost bits, in two steps because for 0 they are shifted by a whole word.
        let carried = (x.high << 1) << (bits as u32 - 1 - amount);
        Wide { high: x.high >> amount, low: shift_right(x.low, amount, self.word(1)) | carried }
    }

    /// `x + y`, or the magnitude of `x - y` and whether that was negative.
    fn add_wide(
        &self,
        x: Wide<'k, W>,
        y: Wide<'k, W>,
        subtract: Val<'k, bool>,
    ) -> (Wide<'k, W>, Val<'k, bool>) {
        let (sum_low, difference_low) = (x.low + y.low, x.low - y.low);
        let sum = x.high + y.high + sum_low.lt(x.low).cast::<W>();
        let difference = x.high - y.high - x.low.lt(y.low).cast::<W>();
        let negative = subtract & (difference >> (W::BITS - 1)).ne(c::<W>(0));
        let result = self.choose(
            subtract,
            Wide { high: difference, low: difference_low },
            Wide { high: sum, low: sum_low },
        );
        let negated_high = !result.high + result.low.eq(c::<W>(0)).cast::<W>();
        let negated = Wide { high: negated_high, low: self.word(0) - result.low };
        (self.choose(negative, negated, result), negative)
    }

    /// Moves the top digit into the top bit of one word with a sticky end.
    fn normal_wide(&self, exponent: Val<'k, i32>, x: Wide<'k, W>) -> Unpacked<'k, W> {
        let zero = self.word(0);
        let short = x.high.eq(zero);
        let x = self.choose(short, Wide { high: x.low, low: zero }, x);
        let shift = W::low(x.high.clz());
        // A shift of 0 or of the whole width happens only where the lower word is empty.
        let digits = (x.high << shift) | (x.low >> (W::BITS - shift)) | (x.low << shift).ne(zero).cast::<W>();
        let exponent = exponent + 2 - shift.cast::<i32>() - short.select(W::BITS as i32, 0);
        Unpacked { exponent, digits }
    }
}
