//! Operands that are hard to round: edge values, and random ones near limits and midpoints.

use crate::source::Seeded;
use vyre_foundation::ir::{ComputeOp, DataType};

/// How a float type's bits are divided.
#[derive(Clone, Copy)]
struct Layout {
    fraction_bits: u32,
    exponent_max: u64,
    bias: u64,
}

fn layout(ty: DataType) -> Layout {
    let (fraction_bits, exponent_bits) = match ty {
        DataType::F16 => (10, 5),
        DataType::BF16 => (7, 8),
        DataType::F32 => (23, 8),
        DataType::F64 => (52, 11),
        other => unreachable!("{other} is no float"),
    };
    Layout { fraction_bits, exponent_max: (1 << exponent_bits) - 1, bias: (1 << (exponent_bits - 1)) - 1 }
}

fn float(ty: DataType, sign: u64, exponent: u64, fraction: u64) -> u64 {
    let l = layout(ty);
    let fraction = fraction & ((1 << l.fraction_bits) - 1);
    (sign & 1) << (ty.bits() - 1) | exponent.min(l.exponent_max) << l.fraction_bits | fraction
}

/// About a hundred bit patterns of a float type: both signs of zeros, subnormals, limits, small integers, the ends
/// of the integer types, infinities and NaNs.
pub fn edges(ty: DataType) -> Vec<u64> {
    let l = layout(ty);
    let ones = (1 << l.fraction_bits) - 1;
    let mut magnitudes = vec![0, 1, 2, 3, ones >> 1, (ones >> 1) + 1, ones - 1, ones];
    // Exponents: smallest normals, around the precision, around one, the ends of integer types, the largest.
    let p = u64::from(l.fraction_bits);
    let powers = [
        1,
        2,
        l.bias - p,
        l.bias - 2,
        l.bias - 1,
        l.bias,
        l.bias + 1,
        l.bias + p - 1,
        l.bias + p,
        l.bias + p + 1,
    ];
    let ends = [l.bias + 15, l.bias + 30, l.bias + 31, l.bias + 32, l.bias + 62, l.bias + 63, l.bias + 64];
    for exponent in powers.into_iter().chain(ends).chain([l.exponent_max - 2, l.exponent_max - 1]) {
        for fraction in [0, 1, ones] {
            magnitudes.push(float(ty, 0, exponent.min(l.exponent_max - 1), fraction));
        }
    }
    magnitudes.push(float(ty, 0, l.bias, 1 << (l.fraction_bits - 1))); // 1.5
    for nan_or_infinity in [0, 1, 1 << (l.fraction_bits - 1), ones] {
        magnitudes.push(float(ty, 0, l.exponent_max, nan_or_infinity));
    }
    magnitudes.sort_unstable();
    magnitudes.dedup();
    let sign = 1 << (ty.bits() - 1);
    magnitudes.iter().flat_map(|m| [*m, m | sign]).collect()
}

/// A fraction field with runs of ones and zeros, a few bits at either end, or anything.
fn fraction(random: &mut Seeded, bits: u32) -> u64 {
    let any = random.next_u64();
    let low = random.below(bits.into()) as u32;
    match random.below(6) {
        0 => 1 << low,
        1 => !0 << low,
        2 => !(!0 << low),
        3 => any & 7 | (any >> 8 & 7) << (bits - 3),
        4 => (1 << (bits - 1)) ^ (any & 3),
        _ => any,
    }
}

/// One operand: mostly finite with a shaped fraction, sometimes subnormal, extreme, or any bits at all.
pub fn one(random: &mut Seeded, ty: DataType) -> u64 {
    let l = layout(ty);
    let exponent = match random.below(8) {
        0 => 0,
        1 => 1 + random.below(3),
        2 => l.exponent_max - 1 - random.below(2),
        3 | 4 => l.bias - 8 + random.below(16 + 2 * u64::from(l.fraction_bits)),
        5 => return random.next_u64() & ty.mask(),
        _ => random.below(l.exponent_max),
    };
    let (sign, fraction) = (random.next_u64(), fraction(random, l.fraction_bits));
    float(ty, sign, exponent, fraction)
}

/// Two operands whose result falls where rounding is hard: sums of near exponents, products and quotients at the
/// subnormal and overflow limits.
pub fn shaped(random: &mut Seeded, op: ComputeOp, ty: DataType) -> (u64, u64) {
    let l = layout(ty);
    let a = one(random, ty);
    let exponent = a >> l.fraction_bits & l.exponent_max;
    let near = |random: &mut Seeded, centre: u64, spread: u64| {
        (centre + random.below(2 * spread)).saturating_sub(spread).min(l.exponent_max - 1)
    };
    let p = u64::from(l.fraction_bits);
    let exponent = match (op, random.below(4)) {
        (_, 0) => return (a, one(random, ty)),
        (ComputeOp::Mul, 1) => near(random, (l.bias + 1).saturating_sub(exponent) + l.bias.min(exponent), p),
        // e + f - bias near 0: the product is about the smallest normal, or below.
        (ComputeOp::Mul, 2) => near(random, l.bias.saturating_sub(exponent), p),
        (ComputeOp::Mul, _) => near(random, (l.exponent_max + l.bias).saturating_sub(exponent), 2),
        // e - f + bias near 0.
        (ComputeOp::Div, 1) => near(random, exponent + l.bias, p),
        // fmod takes a step per exponent between the two; keep most of them close.
        _ => near(random, exponent, p + 3),
    };
    let (sign, fraction) = (random.next_u64(), fraction(random, l.fraction_bits));
    (a, float(ty, sign, exponent, fraction))
}

/// An addend for `a * b` that nearly cancels it, or falls at the product's last bits or just below.
pub fn addend(random: &mut Seeded, ty: DataType, a: u64, b: u64) -> u64 {
    let l = layout(ty);
    let exponent = |bits: u64| bits >> l.fraction_bits & l.exponent_max;
    let product = (exponent(a) + exponent(b)).saturating_sub(l.bias);
    let p = u64::from(l.fraction_bits);
    let exponent = match random.below(5) {
        0 => return one(random, ty),
        1 => product,
        2 => product + p - 2 + random.below(5),
        3 => (product + random.below(5)).saturating_sub(p + 3),
        _ => (product + random.below(4 * p)).saturating_sub(2 * p),
    };
    let (sign, fraction) = (random.next_u64(), fraction(random, l.fraction_bits));
    float(ty, sign, exponent.min(l.exponent_max - 1), fraction)
}

/// A value of `wide` at a midpoint of `narrow`, or a last bit beside one.
pub fn near_midpoint(random: &mut Seeded, wide: DataType, narrow: DataType) -> u64 {
    let (w, n) = (layout(wide), layout(narrow));
    let smallest = w.bias.saturating_sub(n.bias + u64::from(n.fraction_bits) + 2);
    let span = n.exponent_max + u64::from(n.fraction_bits) + 4;
    let exponent = smallest + random.below(span);
    // A subnormal of the narrow type has fewer digits, so its midpoint is at a higher bit.
    let normal = (w.bias - n.bias + 1) as i64;
    let lost = (normal - exponent as i64).clamp(0, n.fraction_bits.into()) as u32;
    let cut = w.fraction_bits - n.fraction_bits + lost;
    let upper = if cut >= 64 { 0 } else { random.next_u64() << cut };
    let middle = upper | 1 << (cut - 1);
    let beside = middle.wrapping_add(random.below(3)).wrapping_sub(1);
    let sign = random.next_u64();
    float(wide, sign, exponent, beside)
}

/// Integers at powers of two and beside them, near midpoints of the float types, and random ones of every length.
pub fn integers(ty: DataType, random_count: u32) -> impl Iterator<Item = u64> {
    let powers = (0..ty.bits()).flat_map(|n| [1u64 << n, (1 << n) - 1, (1 << n) + 1, !(1 << n), (!0) << n]);
    let mut random = Seeded::new(ty.tag().into());
    let shaped = (0..random_count).map(move |_| {
        let any = random.next_u64() >> random.below(64);
        let digits = 64 - any.leading_zeros();
        let kept = [8, 11, 24, 53][random.below(4) as usize];
        let magnitude = if random.below(2) == 0 || digits <= kept {
            any
        } else {
            let cut = digits - kept;
            (any >> cut << cut | 1 << (cut - 1)).wrapping_add(random.below(3)).wrapping_sub(1)
        };
        if random.below(2) == 0 { magnitude } else { magnitude.wrapping_neg() }
    });
    [0, !0, 1 << 31, 1 << 63].into_iter().chain(powers).chain(shaped).map(move |bits| bits & ty.mask())
}
