//! Operands at the edges of their types, and random ones that are hard to round.

use crate::{Case, random_count};

/// SplitMix64: the same cases on every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(text: &str) -> Random {
        Random(text.bytes().fold(0x1234_5678, |seed, byte| seed * 31 % 0xffff_ffff + u64::from(byte)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A float format: bits in all and bits of the fraction.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) width: u32,
    pub(crate) fraction: u32,
}

impl Layout {
    fn exponents(self) -> u64 {
        (1 << (self.width - 1 - self.fraction)) - 1
    }

    fn bias(self) -> u64 {
        self.exponents() / 2
    }

    fn join(self, sign: u64, exponent: u64, fraction: u64) -> u64 {
        let exponent = exponent.min(self.exponents());
        (sign & 1) << (self.width - 1) | exponent << self.fraction | fraction & ((1 << self.fraction) - 1)
    }
}

/// Zeros, subnormals, powers of two with their neighbours, limits, infinities and NaNs of both signs.
pub(crate) fn floats(layout: Layout) -> Vec<u64> {
    let (bias, top, digits) = (layout.bias(), layout.exponents(), u64::from(layout.fraction));
    let exponents = [0, 1, 2, bias - digits.min(bias - 1), bias - 2, bias - 1, bias, bias + 1, bias + 7];
    let ends =
        [bias + digits, bias + digits + 1, bias + 15, bias + 31, bias + 63, bias + 64, top - 2, top - 1];
    let mut all = Vec::new();
    for exponent in exponents.into_iter().chain(ends).chain([top]) {
        for fraction in [0, 1, 1 << (digits - 1), (1 << digits) - 1] {
            for sign in [0, 1] {
                all.push(layout.join(sign, exponent, fraction));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Bits with long runs, a few bits, or anything.
fn pattern(random: &mut Random, bits: u32) -> u64 {
    let low = random.below(bits.into());
    match random.below(6) {
        0 => 1 << low,
        1 => !0 << low,
        2 => !(!0 << low),
        3 => (1 << (bits - 1)) ^ (random.next() & 3),
        _ => random.next(),
    }
}

/// A random float: of any exponent, or of one near `centre`.
fn float(random: &mut Random, layout: Layout, centre: u64) -> u64 {
    let exponent = match random.below(6) {
        0 => random.below(3),
        1 => random.below(layout.exponents() + 1),
        2 => layout.bias() - 4 + random.below(8),
        _ => (centre + random.below(2 * u64::from(layout.fraction) + 6))
            .saturating_sub(u64::from(layout.fraction) + 3)
            .min(layout.exponents() - 1),
    };
    let (sign, fraction) = (random.next(), pattern(random, layout.fraction));
    layout.join(sign, exponent, fraction)
}

/// Cases of up to three floats: all pairs of edges with some third ones, and random ones whose exponents are such that sums
/// nearly cancel and products and quotients land near the limits.
pub(crate) fn of_floats(layout: Layout, operands: usize, seed: &str) -> Vec<Case> {
    let edges = floats(layout);
    let mut cases = Vec::new();
    for (i, a) in edges.iter().enumerate() {
        if operands == 1 {
            cases.push([*a, 0, 0, 0]);
            continue;
        }
        for (j, b) in edges.iter().enumerate() {
            let thirds = edges.iter().skip((i + j) % 31).step_by(31);
            cases.extend(thirds.take(if operands == 3 { 4 } else { 1 }).map(|c| [*a, *b, *c, 0]));
        }
    }
    let mut random = Random::new(seed);
    for _ in 0..random_count() {
        cases.push(random_floats(&mut random, layout));
    }
    cases
}

fn random_floats(random: &mut Random, layout: Layout) -> Case {
    let exponent = |bits: u64| bits >> layout.fraction & layout.exponents();
    let (bias, centre) = (layout.bias(), random.below(layout.exponents()));
    let a = float(random, layout, centre);
    let near = match random.below(4) {
        // A product or a quotient near the smallest numbers, or near the largest.
        0 => bias.saturating_sub(exponent(a)),
        1 => (layout.exponents() + bias).saturating_sub(exponent(a)),
        2 => exponent(a) + bias,
        _ => exponent(a),
    };
    let b = float(random, layout, near.min(layout.exponents() - 1));
    let product = (exponent(a) + exponent(b)).saturating_sub(bias);
    let c = float(random, layout, product.min(layout.exponents() - 1));
    [a, b, c, 0]
}

/// Floats of a wide format near midpoints of a narrow one.
pub(crate) fn near_midpoints(wide: Layout, narrow: Layout, seed: &str) -> Vec<Case> {
    let mut random = Random::new(seed);
    let mut cases = of_floats(wide, 1, seed);
    for _ in 0..random_count() {
        let least = (wide.bias() + 1).saturating_sub(narrow.bias() + u64::from(narrow.fraction) + 3);
        let exponent = least + random.below(narrow.exponents() + u64::from(narrow.fraction) + 6);
        let lost =
            (wide.bias() + 1).saturating_sub(narrow.bias() + exponent).min(narrow.fraction.into()) as u32;
        let cut = wide.fraction - narrow.fraction.min(wide.fraction) + lost;
        let kept = random.next().checked_shl(cut).unwrap_or(0);
        let middle = (kept | 1u64.checked_shl(cut.saturating_sub(1)).unwrap_or(0))
            .wrapping_add(random.below(3))
            .wrapping_sub(1);
        let sign = random.next();
        cases.push([wide.join(sign, exponent, middle), 0, 0, 0]);
    }
    cases
}

/// Integers of so many bits: powers of two and their neighbours, and random ones of every length.
pub(crate) fn integers(bits: u32, operands: usize, seed: &str) -> Vec<Case> {
    let mask = !0 >> (64 - bits);
    let mut edges: Vec<u64> = vec![0, 1, 2, 3, mask, mask - 1, mask >> 1, (mask >> 1) + 1, (mask >> 1) + 2];
    for bit in (3..bits).step_by(4) {
        edges.extend([1 << bit, (1 << bit) - 1, !(1 << bit) & mask, (!0 << bit) & mask]);
    }
    let mut cases = Vec::new();
    for (i, a) in edges.iter().enumerate() {
        if operands == 1 {
            cases.push([*a, 0, 0, 0]);
            continue;
        }
        for (j, b) in edges.iter().enumerate() {
            cases.push([*a, *b, edges[(i * 7 + j * 3) % edges.len()], edges[(i + j * 5) % edges.len()]]);
        }
    }
    let mut random = Random::new(seed);
    for _ in 0..random_count() {
        let mut next = || {
            let any = random.next() >> random.below(64);
            (if random.below(2) == 0 { any } else { any.wrapping_neg() }) & mask
        };
        cases.push([next(), next(), next(), next()]);
    }
    cases
}
