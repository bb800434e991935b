//! Operands on which conversions go wrong: limits of the target, and points halfway between two of its values.

use super::float::Format;
use super::{distinct, int, values};
use vyre_foundation::ir::DataType;

/// Values of `source` whose conversion to `target` is easy to get wrong.
pub(super) fn values_into(target: DataType, source: DataType) -> Vec<u64> {
    let mut all = values(source);
    match (Format::of(source), Format::of(target)) {
        (Some(from), Some(into)) => all.extend(midpoints(from, into)),
        (Some(from), None) => all.extend(limits(from)),
        (None, Some(into)) if source.is_integer() => all.extend(long_integers(source, into)),
        (None, _) => {}
    }
    distinct(all)
}

/// Where `into` has two nearest values, and the next values of `from` on both sides.
fn midpoints(from: Format, into: Format) -> Vec<u64> {
    let mut points: Vec<u64> = into.edges();
    // Every length of a subnormal, even and odd.
    points.extend((0..into.precision as u32).flat_map(|at| [1 << at, 3 << at, (1 << at) - 1]));
    let points = points.into_iter().filter(|bits| into.is_finite(*bits)).map(|bits| into.midpoint(bits));
    let values = points.flat_map(|(significand, exponent)| {
        let at = from.place(significand, exponent);
        // One step, and steps of about half of the digits: a conversion that rounds twice loses them in between.
        let steps = [0, 1, 2, 1 << (from.precision / 2), 1 << (from.precision * 2 / 3)];
        steps.into_iter().flat_map(move |step| [at + step, at.saturating_sub(step)])
    });
    let values = values.filter(|bits| bits & from.sign() == 0);
    values.flat_map(|bits| [bits, bits | from.sign()]).collect()
}

/// The limits of all integer types, and the values on both sides.
fn limits(from: Format) -> Vec<u64> {
    let mut values = from.halves();
    for exponent in [7, 8, 15, 16, 30, 31, 32, 33, 62, 63, 64, 65] {
        let at = from.power(exponent);
        values.extend([at - 2, at - 1, at, at + 1, at + 2].into_iter().flat_map(|x| [x, x | from.sign()]));
    }
    values
}

/// Integers of every length whose last kept digit is even or odd, with what is cut off at a half, or one unit beside it.
fn long_integers(source: DataType, into: Format) -> Vec<u64> {
    let mut values = int::bits(source);
    let kept_digits = into.precision as u32;
    for length in kept_digits + 1..=source.bits() {
        let cut = length - kept_digits;
        let top = 1u64 << (kept_digits - 1);
        for kept in [top, top | 1, 2 * top - 1, 2 * top - 2] {
            let half = 1u64 << (cut - 1);
            let low = [0, 1, half - 1, half, half + 1, (half - 1) * 2 + 1];
            // Just above and below a half by what a wider float of 24 or 53 digits would not see.
            let unseen = [24, 53].map(|digits| half + (half >> (digits - kept_digits.min(digits))));
            values.extend(low.into_iter().chain(unseen).map(|low| (kept << cut).wrapping_add(low)));
        }
    }
    values.into_iter().flat_map(|x| [x, x.wrapping_neg()]).map(|x| x & source.mask()).collect()
}
