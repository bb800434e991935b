//! Floats in integers: every operation is exact, and rounded once at its end.
//!
//! A finite float is `mantissa * 2^exponent` with a mantissa of 128 bits. Sums, products, quotients and roots are computed
//! to more bits than any format keeps; what does not fit is remembered in the lowest bit, which is enough to round in each
//! of the four ways. f16, bf16 and all directed roundings go this way; f32 and f64 to nearest are the processor's.
//! The operations are kept out of line, because hundreds of functions on warps call them.
//! Not here: NaN payloads, flushing and saturation (`float`).

use std::cmp::Ordering;

/// How a result is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// Toward zero.
    Zero,
    /// Toward minus infinity.
    Down,
    /// Toward plus infinity.
    Up,
}

/// A binary format of IEEE 754, or bf16.
pub(super) trait Format {
    /// Bits in all.
    const WIDTH: u32;
    /// Bits of the fraction, without the hidden one.
    const FRACTION: u32;
    /// What arithmetic gives for an invalid operation.
    const NAN: u64;
    /// Whether NaN operands are kept, instead of replaced by the canonical NaN.
    const KEEPS_NAN: bool = false;

    const SIGN: u64 = 1 << (Self::WIDTH - 1);
    const INFINITY: u64 = (Self::SIGN - 1) >> Self::FRACTION << Self::FRACTION;
    /// The exponent of the last bit of a subnormal.
    const LAST: i32 = 2 - (1 << (Self::WIDTH - Self::FRACTION - 2)) - Self::FRACTION as i32;

    /// To nearest.
    fn add(a: u64, b: u64) -> u64 {
        add::<Self>(a, b, Rounding::Nearest)
    }

    /// To nearest.
    fn mul(a: u64, b: u64) -> u64 {
        mul::<Self>(a, b, Rounding::Nearest)
    }

    /// To nearest.
    fn div(a: u64, b: u64) -> u64 {
        div::<Self>(a, b, Rounding::Nearest)
    }

    /// To nearest.
    fn sqrt(a: u64) -> u64 {
        sqrt::<Self>(a, Rounding::Nearest)
    }

    /// To nearest.
    fn fma(a: u64, b: u64, c: u64) -> u64 {
        fma::<Self>(a, b, c, Rounding::Nearest)
    }
}

/// A finite number. The lowest bit of the mantissa may stand for more bits below it.
#[derive(Clone, Copy)]
pub(super) struct Finite {
    pub(super) negative: bool,
    pub(super) mantissa: u128,
    pub(super) exponent: i32,
}

/// What the bits of a float mean.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Nan,
    /// Negative or not.
    Infinite(bool),
    Finite(Finite),
}

impl Finite {
    /// The same number with its first bit at bit 125.
    fn normal(self) -> Finite {
        let shift = self.mantissa.leading_zeros() as i32 - 2;
        Finite { mantissa: self.mantissa << shift, exponent: self.exponent - shift, ..self }
    }

    /// The integer next to it, without its sign; `u128::MAX` where it does not fit.
    #[inline(never)]
    pub(super) fn integral(self, rounding: Rounding) -> u128 {
        if self.exponent <= 0 {
            shift_rounded(self.mantissa, self.exponent.unsigned_abs(), self.negative, rounding)
        } else if self.mantissa.leading_zeros() as i32 > self.exponent {
            self.mantissa << self.exponent
        } else if self.mantissa == 0 {
            0
        } else {
            u128::MAX
        }
    }
}

#[inline(never)]
pub(super) fn unpack<F: Format + ?Sized>(bits: u64) -> Value {
    let negative = bits & F::SIGN != 0;
    let magnitude = bits & (F::SIGN - 1);
    if magnitude >= F::INFINITY {
        return if magnitude > F::INFINITY { Value::Nan } else { Value::Infinite(negative) };
    }
    let (field, fraction) = (magnitude >> F::FRACTION, magnitude & ((1 << F::FRACTION) - 1));
    let hidden = u64::from(field != 0) << F::FRACTION;
    let exponent = F::LAST + (field as i32 - 1).max(0);
    Value::Finite(Finite { negative, mantissa: (hidden | fraction).into(), exponent })
}

fn infinite<F: Format + ?Sized>(negative: bool) -> u64 {
    F::INFINITY | if negative { F::SIGN } else { 0 }
}

/// `mantissa / 2^shift`, rounded to an integer.
fn shift_rounded(mantissa: u128, shift: u32, negative: bool, rounding: Rounding) -> u128 {
    if shift == 0 {
        return mantissa;
    }
    // Beyond 127 places only whether there is anything matters, as mantissas have at most 127 bits.
    let (mantissa, shift) = if shift > 127 { (mantissa.min(1), 2) } else { (mantissa, shift) };
    let (kept, rest, half) = (mantissa >> shift, mantissa & ((1 << shift) - 1), 1 << (shift - 1));
    let up = match rounding {
        Rounding::Nearest => rest > half || rest == half && kept & 1 == 1,
        Rounding::Zero => false,
        Rounding::Down => negative && rest != 0,
        Rounding::Up => !negative && rest != 0,
    };
    kept + u128::from(up)
}

/// The float of a format that a number is rounded to.
#[inline(never)]
pub(super) fn round<F: Format + ?Sized>(x: Finite, rounding: Rounding) -> u64 {
    let sign = if x.negative { F::SIGN } else { 0 };
    if x.mantissa == 0 {
        return sign;
    }
    let top = 127 - x.mantissa.leading_zeros() as i32;
    let last = (x.exponent + top - F::FRACTION as i32).max(F::LAST);
    let kept = if last <= x.exponent {
        x.mantissa << (x.exponent - last)
    } else {
        shift_rounded(x.mantissa, (last - x.exponent) as u32, x.negative, rounding)
    };
    // The hidden bit adds one to the exponent's field, and so does a carry out of the fraction.
    let field = (last - F::LAST) as u64;
    if field >= F::INFINITY >> F::FRACTION || (field << F::FRACTION) + kept as u64 >= F::INFINITY {
        let away = match rounding {
            Rounding::Nearest => true,
            Rounding::Zero => false,
            Rounding::Down => x.negative,
            Rounding::Up => !x.negative,
        };
        return sign | (F::INFINITY - u64::from(!away));
    }
    sign | ((field << F::FRACTION) + kept as u64)
}

/// Shifts right and keeps in the lowest bit whether anything was lost.
fn jam(mantissa: u128, shift: u32) -> u128 {
    if shift > 127 {
        return mantissa.min(1);
    }
    mantissa >> shift | u128::from(mantissa & ((1 << shift) - 1) != 0)
}

fn sum(a: Finite, b: Finite, rounding: Rounding) -> Finite {
    if a.mantissa == 0 && b.mantissa == 0 {
        let negative = if a.negative == b.negative { a.negative } else { rounding == Rounding::Down };
        return Finite { negative, ..a };
    }
    if a.mantissa == 0 || b.mantissa == 0 {
        return if a.mantissa == 0 { b } else { a };
    }
    let (a, b) = (a.normal(), b.normal());
    let (a, b) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
    let small = jam(b.mantissa, (a.exponent - b.exponent) as u32);
    if a.negative == b.negative {
        return Finite { mantissa: a.mantissa + small, ..a };
    }
    match a.mantissa.cmp(&small) {
        Ordering::Greater => Finite { mantissa: a.mantissa - small, ..a },
        Ordering::Less => Finite { negative: b.negative, mantissa: small - a.mantissa, exponent: a.exponent },
        Ordering::Equal => Finite { negative: rounding == Rounding::Down, mantissa: 0, exponent: 0 },
    }
}

fn product(a: Finite, b: Finite) -> Finite {
    Finite {
        negative: a.negative != b.negative,
        mantissa: a.mantissa * b.mantissa,
        exponent: a.exponent + b.exponent,
    }
}

#[inline(never)]
pub(super) fn add<F: Format + ?Sized>(a: u64, b: u64, rounding: Rounding) -> u64 {
    match (unpack::<F>(a), unpack::<F>(b)) {
        (Value::Nan, _) | (_, Value::Nan) => F::NAN,
        (Value::Infinite(x), Value::Infinite(y)) if x != y => F::NAN,
        (Value::Infinite(x), _) | (_, Value::Infinite(x)) => infinite::<F>(x),
        (Value::Finite(x), Value::Finite(y)) => round::<F>(sum(x, y, rounding), rounding),
    }
}

#[inline(never)]
pub(super) fn mul<F: Format + ?Sized>(a: u64, b: u64, rounding: Rounding) -> u64 {
    match (unpack::<F>(a), unpack::<F>(b)) {
        (Value::Nan, _) | (_, Value::Nan) => F::NAN,
        (Value::Infinite(x), Value::Infinite(y)) => infinite::<F>(x != y),
        (Value::Infinite(x), Value::Finite(y)) | (Value::Finite(y), Value::Infinite(x)) => {
            if y.mantissa == 0 { F::NAN } else { infinite::<F>(x != y.negative) }
        }
        (Value::Finite(x), Value::Finite(y)) => round::<F>(product(x, y), rounding),
    }
}

#[inline(never)]
pub(super) fn fma<F: Format + ?Sized>(a: u64, b: u64, c: u64, rounding: Rounding) -> u64 {
    match (unpack::<F>(a), unpack::<F>(b), unpack::<F>(c)) {
        (Value::Finite(x), Value::Finite(y), Value::Finite(z)) => {
            round::<F>(sum(product(x, y), z, rounding), rounding)
        }
        (Value::Finite(_), Value::Finite(_), _) => add::<F>(0, c, rounding),
        // The product is infinite or NaN, so it is exact.
        _ => add::<F>(mul::<F>(a, b, rounding), c, rounding),
    }
}

#[inline(never)]
pub(super) fn div<F: Format + ?Sized>(a: u64, b: u64, rounding: Rounding) -> u64 {
    let negative = (a ^ b) & F::SIGN != 0;
    match (unpack::<F>(a), unpack::<F>(b)) {
        (Value::Nan, _) | (_, Value::Nan) | (Value::Infinite(_), Value::Infinite(_)) => F::NAN,
        (Value::Infinite(_), Value::Finite(_)) => infinite::<F>(negative),
        (Value::Finite(_), Value::Infinite(_)) => infinite::<F>(negative) & F::SIGN,
        (Value::Finite(x), Value::Finite(y)) => match (x.mantissa, y.mantissa) {
            (0, 0) => F::NAN,
            (0, _) => infinite::<F>(negative) & F::SIGN,
            (_, 0) => infinite::<F>(negative),
            _ => {
                let x = x.normal();
                let (quotient, rest) = (x.mantissa / y.mantissa, x.mantissa % y.mantissa);
                let mantissa = quotient | u128::from(rest != 0);
                round::<F>(Finite { negative, mantissa, exponent: x.exponent - y.exponent }, rounding)
            }
        },
    }
}

#[inline(never)]
pub(super) fn sqrt<F: Format + ?Sized>(a: u64, rounding: Rounding) -> u64 {
    match unpack::<F>(a) {
        Value::Nan | Value::Infinite(true) => F::NAN,
        Value::Infinite(false) => a,
        Value::Finite(x) if x.mantissa == 0 => a,
        Value::Finite(x) if x.negative => F::NAN,
        Value::Finite(x) => {
            let x = x.normal();
            let odd = x.exponent & 1;
            let square = x.mantissa << odd;
            let root = square.isqrt();
            let mantissa = root | u128::from(root * root != square);
            round::<F>(Finite { negative: false, mantissa, exponent: (x.exponent - odd) / 2 }, rounding)
        }
    }
}
