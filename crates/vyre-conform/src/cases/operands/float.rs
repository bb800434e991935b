//! Operands on which wrong float arithmetic shows.
//!
//! Every set is made from the format alone: values at its edges, sums and products that are exactly between two floats
//! or next to such a point, results at the edge of the subnormals and of the largest number, quotients and roots as
//! near to a midpoint as any can be. Answers are never computed here; the reference has them.

use super::{Row, distinct};
use vyre_foundation::ir::{ComputeOp, DataType, int_or_bool};
use vyre_foundation::scalar::meaning;
use vyre_generate::source::Seeded;

/// A binary float format.
#[derive(Clone, Copy)]
pub(in crate::cases) struct Format {
    pub(super) ty: DataType,
    /// Bits of precision, the leading one counted.
    pub(super) precision: i32,
    /// The exponent of the largest number; that of the least normal one is `1 - exponent_max`.
    exponent_max: i32,
}

impl Format {
    /// The format of a float type.
    pub(in crate::cases) const fn of(ty: DataType) -> Option<Format> {
        let (precision, exponent_max) = match ty {
            DataType::F16 => (11, 15),
            DataType::BF16 => (8, 127),
            DataType::F32 => (24, 127),
            DataType::F64 => (53, 1023),
            int_or_bool!() => return None,
        };
        Some(Format { ty, precision, exponent_max })
    }

    const fn exponent_min(self) -> i32 {
        1 - self.exponent_max
    }

    pub(super) const fn sign(self) -> u64 {
        1 << (self.ty.bits() - 1)
    }

    const fn infinity(self) -> u64 {
        (self.sign() - 1) & !((1 << (self.precision - 1)) - 1)
    }

    pub(super) const fn is_finite(self, bits: u64) -> bool {
        bits & (self.sign() - 1) < self.infinity()
    }

    /// `2^exponent`.
    pub(super) fn power(self, exponent: i32) -> u64 {
        self.place(1, exponent)
    }

    /// The bits of `significand * 2^exponent`. What the format has no room for is cut off; what is too large becomes
    /// the largest number.
    pub(super) fn place(self, significand: u64, exponent: i32) -> u64 {
        if significand == 0 {
            return 0;
        }
        let digits = 64 - significand.leading_zeros() as i32;
        let top = exponent + digits - 1;
        if top > self.exponent_max {
            return self.infinity() - 1;
        }
        // The weight of the last bit: the type has `precision` digits, and none below its smallest number.
        let unit = top.max(self.exponent_min()) - (self.precision - 1);
        let kept = match exponent - unit {
            up @ 0.. => significand << up,
            down @ -63..=-1 => significand >> -down,
            _ => 0,
        };
        // Each step of the unit is one of the exponent field, to which a normal's leading digit adds one.
        let field = (unit - (self.exponent_min() - (self.precision - 1))) as u64;
        (field << (self.precision - 1)) + kept
    }

    /// The value's significand as a whole number, and the exponent of its last bit; finite values only.
    fn parts(self, bits: u64) -> (u64, i32) {
        let field = (bits & (self.sign() - 1)) >> (self.precision - 1);
        let fraction = bits & ((1 << (self.precision - 1)) - 1);
        let leading = if field == 0 { 0 } else { 1 << (self.precision - 1) };
        (fraction | leading, self.exponent_min() - (self.precision - 1) + (field as i32 - 1).max(0))
    }

    /// The point between a finite value's magnitude and the next larger one, as significand and exponent.
    pub(super) fn midpoint(self, bits: u64) -> (u64, i32) {
        let (significand, exponent) = self.parts(bits);
        (2 * significand + 1, exponent - 1)
    }

    /// The few values that triples are made of: zeros, ends of each range, one, infinities, NaN.
    pub(super) fn core(self) -> Vec<u64> {
        let (p, one) = (self.precision, self.power(0));
        let normal = self.power(self.exponent_min());
        let positive = [0, one, 1, normal - 1, normal, self.infinity() - 1, self.infinity(), one + 1];
        let mut values: Vec<u64> = positive.into_iter().flat_map(|bits| [bits, bits | self.sign()]).collect();
        values.extend([self.power(-p), self.place(3, -1), self.power(p), self.nan(1)]);
        values
    }

    /// NaN number `at`: canonical, signalling, negative, with all bits set.
    fn nan(self, at: usize) -> u64 {
        let quiet = 1 << (self.precision - 2);
        [
            self.infinity() | quiet,
            self.infinity() | 1,
            self.sign() | self.infinity() | quiet | 5,
            self.sign() | (self.sign() - 1),
        ][at % 4]
    }

    /// Values at the edges of the format, the core first.
    pub(in crate::cases) fn edges(self) -> Vec<u64> {
        let (p, min, max) = (self.precision, self.exponent_min(), self.exponent_max);
        let normal = self.power(min);
        let mut positive = vec![2, 3, normal / 2, normal / 2 + 1, normal + 1, 2 * normal - 1, 2 * normal];
        // Around one, and where the last bit weighs a half, one and two.
        for exponent in [-1, 0, p - 2, p - 1, p] {
            let power = self.power(exponent);
            positive.extend([power - 1, power, power + 1]);
        }
        // Powers whose products and sums with the others just vanish or just stay.
        positive.extend([min / 2, -p - 1, 1 - p, 1, max / 2, max / 2 + 1].map(|e| self.power(e)));
        positive.extend([(3, -2), (5, -1), (3, 0), (7, 0), (10, 0)].map(|(s, e)| self.place(s, e)));
        // A third, a tenth and pi, cut off.
        let noise =
            [(0x5555_5555_5555_5555, -64), (0xcccc_cccc_cccc_cccc, -67), (0xc90f_daa2_2168_c234, -62)];
        positive.extend(noise.map(|(s, e)| self.place(s, e)));
        positive.extend([self.power(max) - 1, self.power(max), self.infinity() - 2]);
        let mut values = self.core();
        values.extend(positive.into_iter().flat_map(|bits| [bits, bits | self.sign()]));
        values.extend((0..4).map(|at| self.nan(at)));
        distinct(values)
    }

    /// Any value; most are near one, and most have a telling significand.
    pub(in crate::cases) fn random(self, random: &mut Seeded) -> u64 {
        let bits = random.next_u64();
        let sign = if bits & 1 == 0 { 0 } else { self.sign() };
        let near = (bits >> 8) as i32 % (2 * self.precision);
        let significand = significand(random, 1 + (bits >> 40) as u32 % self.precision as u32);
        match bits >> 4 & 15 {
            0..=2 => random.next_u64() & self.ty.mask(),
            3 => {
                let edges = self.core();
                edges[(bits >> 8) as usize % edges.len()]
            }
            4 => sign | (random.next_u64() & ((1 << self.precision) - 1)),
            5 => sign | (self.infinity() - 1 - (random.next_u64() & ((1 << self.precision) - 1))),
            _ => sign | self.place(significand, near - self.precision),
        }
    }

    /// A value of ordinary size with all its digits in use.
    pub(in crate::cases) fn near_one(self, random: &mut Seeded) -> u64 {
        let noise = random.next_u64();
        let significand = noise >> (64 - self.precision) | 1 << (self.precision - 1);
        self.signed(self.place(significand, (noise & 3) as i32 - self.precision), noise >> 2)
    }

    /// Whole numbers, halves and their neighbours, in every binade that has a fraction, and one beyond.
    pub(super) fn halves(self) -> Vec<u64> {
        let mut values = Vec::new();
        for exponent in -2..=self.precision {
            // From `whole` on, in units of a half, a quarter and the last bit.
            for whole in [0, 1, 2, 3] {
                let start = self.power(exponent);
                let last = start + (self.power(exponent + 1) - start - 1);
                let unit = (1 << (self.precision - 1)) >> exponent.clamp(0, self.precision - 1);
                let at = start + whole * unit;
                let points = [at, at + unit / 4, at + unit / 2, at + unit / 4 * 3, last - whole];
                values.extend(points.into_iter().flat_map(|point| [point - 1, point, point + 1]));
            }
        }
        values.extend((0..1 << self.precision.min(8)).map(|n| self.place(n, -2)));
        both_signs(self, values)
    }

    /// Sums: every gap between exponents that matters, ties, cancellation, at both ends of the range.
    pub(super) fn sums(self) -> Vec<Row> {
        let (p, mut random) = (self.precision, Seeded::new(1));
        let top = 1 << (p - 1);
        let shapes = [top, top | 1, 2 * top - 1, top | 1 << (p / 2), significand(&mut random, p as u32)];
        let bases = [0, self.exponent_max, self.exponent_min() + 1, self.exponent_min() + p];
        let gaps = [0, 1, 2, 3, p / 2, p - 2, p - 1, p, p + 1, p + 2];
        let mut rows = Vec::new();
        for (base, gap) in bases.into_iter().flat_map(|base| gaps.map(|gap| (base, gap))) {
            for (at, (x, y)) in shapes.iter().flat_map(|x| shapes.map(|y| (*x, y))).enumerate() {
                let (x, y) = (self.place(x, base - p + 1), self.place(y, base - gap - p + 1));
                let flip = if at % 2 == 0 { 0 } else { self.sign() };
                rows.push([x | flip, y, 0, 0]);
                rows.push([y | flip ^ self.sign(), x | self.sign(), 0, 0]);
            }
        }
        rows.extend(self.neighbours());
        rows
    }

    /// Pairs of equal, neighbouring and opposite values.
    pub(super) fn neighbours(self) -> Vec<Row> {
        let mut random = Seeded::new(2);
        let mut values = self.edges();
        values.extend((0..40).map(|_| self.random(&mut random)));
        let mask = self.ty.mask();
        let pair = |x: u64, y: u64| [x, y & mask, 0, 0];
        values
            .into_iter()
            .flat_map(|x| {
                [
                    pair(x, x),
                    pair(x, x.wrapping_add(1)),
                    pair(x.wrapping_add(1) & mask, x),
                    pair(x, x ^ self.sign()),
                    pair(x, x.wrapping_sub(1) ^ self.sign()),
                ]
            })
            .collect()
    }

    /// Where results of products, quotients and the like change their rounding: leading exponents.
    fn result_exponents(self) -> [i32; 10] {
        let (p, min) = (self.precision, self.exponent_min());
        [0, min, min - 1, min - 2, min - p / 2, min - p + 1, min - p, min - p - 1, self.exponent_max, {
            self.exponent_max + 1
        }]
    }

    /// Products with as many bits as the type has, one more (a tie) and two more, at all places of the range.
    pub(super) fn products(self) -> Vec<Row> {
        let (p, mut random) = (self.precision, Seeded::new(3));
        let mut rows = Vec::new();
        for exponent in self.result_exponents() {
            for (at, left) in [1, 2, 3, p / 3, p / 2, p / 2 + 1, p - 2, p - 1, p].into_iter().enumerate() {
                for digits in [p, p + 1, p + 2, 2 * p] {
                    let right = (digits - left + at as i32 % 2).clamp(1, p);
                    let x = significand(&mut random, left as u32);
                    let y = significand(&mut random, right as u32);
                    let half = exponent.div_euclid(2);
                    let x = self.place(x, half - left + 1);
                    let y = self.place(y, exponent - half - right + 1);
                    let signs = random.next_u64();
                    rows.push([self.signed(x, signs), self.signed(y, signs >> 1), 0, 0]);
                }
            }
        }
        rows
    }

    fn signed(self, magnitude: u64, sign: u64) -> u64 {
        if sign & 1 == 0 { magnitude } else { magnitude | self.sign() }
    }

    /// Quotients as near to a midpoint as any: `a * 2^(t + 1) = q * b + r` with an odd `q` of `t + 1` digits and a tiny
    /// `r`, for the full precision and for the fewer digits of subnormal results; exact quotients and ties too.
    pub(super) fn quotients(self) -> Vec<Row> {
        let (p, mut random) = (self.precision, Seeded::new(4));
        let mut rows = Vec::new();
        for digits in [p, p, p, p - 1, p - 2, p / 2, 3, 2, 1] {
            // The exponent of the result's leading digit: anywhere, or where the type keeps so many digits.
            let exponent = if digits == p { 0 } else { self.exponent_min() - p + digits };
            for (remainder, tries) in [(1i128, 48), (-1, 48), (3, 24), (-3, 24)] {
                for _ in 0..tries {
                    let b = significand(&mut random, p as u32) | 1;
                    let modulus = 1i128 << (digits + 1);
                    let q = (-remainder * inverse(b.into(), modulus)).rem_euclid(modulus);
                    if q < modulus / 2 {
                        continue; // too few digits
                    }
                    let a = (q * i128::from(b) + remainder) / modulus;
                    let scale = -(p - 1) - exponent / 2;
                    let signs = random.next_u64();
                    let a = self.place(a as u64, exponent + 1 + scale);
                    rows.push([self.signed(a, signs), self.signed(self.place(b, scale), signs >> 1), 0, 0]);
                }
            }
            for bits in 1..=8.min(p / 2) {
                let b = significand(&mut random, bits as u32);
                let q = significand(&mut random, (digits + 1).min(p - bits).max(1) as u32);
                let scale = -exponent / 2;
                let a = self.place(q * b, exponent + scale - digits);
                rows.push([a, self.place(b, scale), 0, 0]);
                rows.push([self.place(q, exponent + scale - digits), self.power(scale), 0, 0]);
            }
        }
        rows.extend(self.products());
        rows
    }

    /// Remainders: exact multiples and their neighbours, small and huge quotients, divisors among the subnormals.
    pub(super) fn remainders(self) -> Vec<Row> {
        let (p, mut random) = (self.precision, Seeded::new(5));
        let (min, max) = (self.exponent_min(), self.exponent_max);
        let mut rows = Vec::new();
        for base in [0, min - p + 4, min, min + 1, max / 2] {
            for gap in [0, 1, 2, p / 2, p - 1, p, p + 1, 2 * p, max / 2, max] {
                for digits in [1, 2, p / 2, p] {
                    let y = significand(&mut random, digits as u32);
                    let n = significand(&mut random, (p - digits).clamp(1, gap.clamp(1, p)) as u32);
                    let low = base - digits + 1;
                    let multiple = self.place(n.wrapping_mul(y), low);
                    let far = self.place(significand(&mut random, p as u32), base + gap - p + 1);
                    let y = self.signed(self.place(y, low), n >> 1);
                    for x in [multiple, multiple + 1, multiple.saturating_sub(1), far] {
                        rows.push([self.signed(x, random.next_u64()), y, 0, 0]);
                    }
                }
            }
        }
        rows
    }

    /// Roots as near to a midpoint as any: `x * 2^k = n^2 - r` with an odd `n` of one digit more than the type has and a
    /// small `r`; squares of all lengths, and their neighbours.
    pub(super) fn roots(self) -> Vec<u64> {
        let (p, mut random) = (self.precision, Seeded::new(6));
        let mut values = Vec::new();
        for remainder in [1i128, -7, 9, 17, -15, 25, 33, -23] {
            for k in [p + 1, p + 2] {
                for root in roots_modulo(remainder, k) {
                    let n = root | 1 << p;
                    let square = i128::from(n) * i128::from(n) - remainder;
                    if square & ((1 << k) - 1) == 0 && square >> k < 1 << p {
                        let x = (square >> k) as u64;
                        // The exponent stays even with `k` counted, or the root is another one.
                        let even = k & 1;
                        let scales = [even - 2 * p, even, self.exponent_min() + even + (p & 1)];
                        values.extend(scales.map(|scale| self.place(x, scale & !1 | even)));
                    }
                }
            }
        }
        for digits in 1..=p / 2 {
            let n = significand(&mut random, digits as u32);
            for scale in [0, -2 * digits, (self.exponent_min() - p) & !1] {
                let square = self.place(n * n, scale);
                values.extend([square.saturating_sub(1), square, square + 1, self.place(n * n, scale + 1)]);
            }
        }
        values
    }

    /// Fused sums: ties that a tiny addend breaks, products whose lost part is all that remains, sums that overflow or
    /// vanish only in between.
    pub(super) fn fused(self) -> Vec<Row> {
        let (p, mut random) = (self.precision, Seeded::new(7));
        let multiply = meaning(ComputeOp::Mul, self.ty, self.ty).expect("floats multiply");
        let (min, max) = (self.exponent_min(), self.exponent_max);
        let mut rows = Vec::new();
        let mut push = |row: [u64; 3], signs: u64| {
            let [a, b, c] = row;
            rows.push([self.signed(a, signs), self.signed(b, signs >> 1), self.signed(c, signs >> 2), 0]);
        };
        for exponent in [0, 1, min, min - 1, min - p / 2, max] {
            for at in 0..6 * p {
                // An odd product of one digit more than the type has, where the significands allow.
                let left = 2 + at % (p - 1);
                let x = significand(&mut random, left as u32);
                let y = significand(&mut random, (p + 2 - left).clamp(1, p) as u32);
                let half = exponent.div_euclid(2);
                let digits = 128 - (u128::from(x) * u128::from(y)).leading_zeros() as i32;
                let low = half - left + 1;
                let (a, b) = (self.place(x, low), self.place(y, exponent - (digits - 1) - low));
                let signs = random.next_u64();
                let gap = [p, p + 1, 30, 54, 60, 2 * p, 3 * p, 120][at as usize % 8];
                push([a, b, self.power((exponent - gap).max(min - p + 1))], signs);
                push([a, b, multiply(&[a, b, 0, 0]) ^ self.sign()], signs & 3);
                push([a, b, multiply(&[a, b, 0, 0]) ^ self.sign()], (signs & 1) * 3);
                // The product is half of the sum's last bit, or next to that.
                let c = self.place(significand(&mut random, p as u32), exponent - p + 1);
                let one = self.power(half);
                let nudged = [one, one + 1, one - 1][at as usize % 3];
                push([nudged, self.power(exponent - half - p), c], signs);
            }
        }
        let large = self.power(max / 2 + 1);
        let most = self.infinity() - 1;
        for signs in 0..8 {
            push([large, large, most], signs);
            push([most, self.power(1), most], signs);
            push([most, self.power(0) + 1, most], signs);
            push([self.power(min / 2), self.power(min / 2 - p), 1], signs);
            push([1, self.power(-1), 1], signs);
            push([1, 1, 0], signs);
        }
        rows
    }
}

/// A significand of `digits` digits that is odd: noise, a run of ones, or a few ones.
pub(super) fn significand(random: &mut Seeded, digits: u32) -> u64 {
    let (bits, all) = (random.next_u64(), u64::MAX >> (64 - digits));
    let shape = match bits >> 60 {
        0..=7 => bits,
        8..=9 => !(1 << (bits % u64::from(digits))),
        10..=12 => 1 << (bits % u64::from(digits)),
        13 => all << (bits % u64::from(digits)),
        _ => all >> (bits % u64::from(digits)),
    };
    shape & all | 1 | 1 << (digits - 1)
}

fn both_signs(format: Format, values: Vec<u64>) -> Vec<u64> {
    distinct(values.into_iter().flat_map(|bits| [bits, bits | format.sign()]).collect())
}

/// The inverse of an odd number modulo a power of two, by Newton's iteration.
fn inverse(odd: i128, modulus: i128) -> i128 {
    (0..7).fold(1i128, |x, _| (x * (2 - odd * x % modulus)).rem_euclid(modulus))
}

/// The odd numbers below `2^k` whose square is `r` modulo `2^k`; there are four if `r` is 1 modulo 8.
fn roots_modulo(r: i128, k: i32) -> Vec<u64> {
    let mut n = 1i128;
    for bit in 3..k {
        // With `n * n = r` modulo `2^bit`, either `n` or `n + 2^(bit - 1)` is right modulo `2^(bit + 1)`.
        if (n * n - r) & ((1 << (bit + 1)) - 1) != 0 {
            n += 1 << (bit - 1);
        }
    }
    let modulus = 1i128 << k;
    let all = [n, -n, n + modulus / 2, modulus / 2 - n];
    all.into_iter().map(|n| n.rem_euclid(modulus) as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOATS: [DataType; 4] = [DataType::F16, DataType::BF16, DataType::F32, DataType::F64];

    #[test]
    fn placing_gives_the_value() {
        let f64s = Format::of(DataType::F64).unwrap();
        for (significand, exponent) in
            [(1u64, 0), (3, -1), (7, 40), (1, -1074), (5, -1074), (1, -1022), (0x1f_ffff_ffff_ffff, 971)]
        {
            // Two factors, since one alone may leave f64's range.
            let half = f64::from(exponent / 2).exp2();
            let value = significand as f64 * half * f64::from(exponent - exponent / 2).exp2();
            assert_eq!(f64s.place(significand, exponent), value.to_bits(), "{significand} * 2^{exponent}");
        }
        for format in FLOATS.map(|ty| Format::of(ty).unwrap()) {
            for bits in format.edges().into_iter().filter(|bits| format.is_finite(*bits)) {
                let (significand, exponent) = format.parts(bits);
                assert_eq!(format.place(significand, exponent), bits & !format.sign());
            }
            assert_eq!(format.place(1, 5000), format.infinity() - 1);
            assert_eq!(format.place(u64::MAX, -5000), 0);
        }
    }

    /// The sets are what they say: half of the last bit, give or take very little.
    #[test]
    fn hard_quotients_and_roots_lie_next_to_midpoints() {
        for format in FLOATS.map(|ty| Format::of(ty).unwrap()) {
            let p = format.precision;
            let near = format.quotients().into_iter().filter(|[a, b, ..]| {
                let (a, b) = (format.parts(*a).0, format.parts(*b).0);
                // The quotient with one digit too many is odd, and the next digits are all alike.
                let scaled = (u128::from(a) << (p + 1)) + 3;
                b != 0 && scaled % u128::from(b) <= 6 && (scaled / u128::from(b)) & 1 == 1
            });
            assert!(near.count() > 60, "{}", format.ty);
            let near = format.roots().into_iter().filter(|bits| {
                let (x, exponent) = format.parts(*bits);
                let wide = u128::from(x) << (p + 1 + (p + 1 + exponent).rem_euclid(2));
                let root = (wide + 40).isqrt();
                root & 1 == 1 && root * root + 40 >= wide && root * root <= wide + 40
            });
            assert!(near.count() > 12, "{}", format.ty);
        }
    }
}
