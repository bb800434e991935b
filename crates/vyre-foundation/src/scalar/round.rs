//! Rounding an exact value to a 16-bit float, once, ties to even, in integer arithmetic.
//!
//! The `half` crate drops the low 32 bits of an f64 before it rounds, so a value just above a midpoint can round down.
//! Here nothing is dropped before the decision.

/// A 16-bit float format: one sign bit, an exponent field, and `precision - 1` bits of fraction.
pub(super) struct Format {
    /// Bits of precision, the leading one counted.
    precision: i32,
    /// The exponent of the smallest subnormal, the unit in which all values are whole.
    unit: i32,
    /// The bits of infinity.
    infinity: u64,
    /// The bits of the canonical NaN.
    nan: u64,
}

/// IEEE 754 binary16.
pub(super) const F16: Format = Format { precision: 11, unit: -24, infinity: 0x7c00, nan: 0x7e00 };
/// The upper half of a binary32.
pub(super) const BF16: Format = Format { precision: 8, unit: -133, infinity: 0x7f80, nan: 0x7fc0 };

/// An f64 rounded to a 16-bit float, ties to even.
#[inline]
pub(super) fn round_f64(value: f64, format: &Format) -> u64 {
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    if value.is_nan() {
        format.nan
    } else if exponent == 0 {
        // Zero, or an f64 subnormal, far below half of either format's smallest value.
        u64::from(value.is_sign_negative()) << 15
    } else {
        // An infinity goes this way too: it overflows like any value of its exponent.
        round(value.is_sign_negative(), fraction | 1 << 52, exponent - 1075, format)
    }
}

/// An integer rounded to a 16-bit float, ties to even.
#[inline]
pub(super) fn round_integer(negative: bool, magnitude: u64, format: &Format) -> u64 {
    round(negative, magnitude, 0, format)
}

/// `significand * 2^exponent` rounded to a 16-bit float, ties to even.
#[inline]
fn round(negative: bool, significand: u64, exponent: i32, format: &Format) -> u64 {
    let sign = u64::from(negative) << 15;
    if significand == 0 {
        return sign;
    }
    let digits = 64 - significand.leading_zeros() as i32;
    // The result is a multiple of 2^grid: the type has `precision` digits, and none below its unit.
    let grid = (exponent + digits - format.precision).max(format.unit);
    let drop = grid - exponent;
    let kept = if drop <= 0 {
        significand << -drop
    } else if drop > 64 {
        0 // below half of the grid
    } else {
        let (kept, rest) = ((significand as u128) >> drop, (significand as u128) & ((1 << drop) - 1));
        let half = 1 << (drop - 1);
        let up = rest > half || rest == half && kept & 1 == 1;
        kept as u64 + u64::from(up)
    };
    // Each step of the grid is one step of the exponent field, to which a normal's leading digit adds one; a value
    // that rounded up to the next power of two carries into that field by itself.
    let magnitude = ((grid - format.unit) as u64) << (format.precision - 1);
    sign | (magnitude + kept).min(format.infinity)
}
