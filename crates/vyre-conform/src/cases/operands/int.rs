//! Operands on which integer arithmetic goes wrong: signs, limits, carries between 32-bit halves, bit fields.

use super::{Row, distinct};
use vyre_foundation::ir::DataType;
use vyre_generate::source::Seeded;

/// Both ends and the middle of a word; 64-bit values have one in each half.
const WORDS: [u64; 5] = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

/// Numbers around which widths, signs and digits change.
const SMALL: [u64; 17] =
    [2, 3, 5, 7, 10, 31, 32, 33, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x1_0000, 0x1_0001];

/// Patterns whose bits all matter.
const PATTERNS: [u64; 4] =
    [0x5555_5555_5555_5555, 0x3333_cccc_f0f0_00ff, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

/// Shift amounts around every multiple of both widths, and far beyond them.
const AMOUNTS: [u32; 32] = [
    0,
    1,
    2,
    7,
    8,
    15,
    16,
    17,
    30,
    31,
    32,
    33,
    34,
    47,
    48,
    62,
    63,
    64,
    65,
    95,
    96,
    97,
    127,
    128,
    0x100,
    0x121,
    0x8000_0000,
    0x8000_0021,
    u32::MAX - 32,
    u32::MAX - 31,
    u32::MAX - 1,
    u32::MAX,
];

/// Offsets and counts of bit fields.
const FIELDS: [u32; 17] = [0, 1, 2, 5, 8, 16, 24, 31, 32, 33, 40, 48, 63, 64, 65, 0x8000_0000, u32::MAX];

/// The few values that triples are made of.
pub(super) fn core(ty: DataType) -> Vec<u64> {
    let (all, most) = (ty.mask(), ty.mask() >> 1);
    let values =
        [0, 1, all, most, most + 1, 2, all - 1, most - 1, most + 2, 0x8000_0000, 0xffff_ffff, 0x7fff_ffff];
    let wide = if ty.bits() == 64 { vec![1 << 32, 0x1_8000_0000, 0xffff_ffff_0000_0000] } else { vec![] };
    distinct(values.into_iter().chain(wide).chain([100, 255]).map(|bits| bits & all).collect())
}

/// Values at the edges of the type, the core first.
pub(in crate::cases) fn edges(ty: DataType) -> Vec<u64> {
    let mut values = core(ty);
    if ty.bits() == 64 {
        values.extend(WORDS.iter().flat_map(|high| WORDS.map(|low| high << 32 | low)));
        values.extend([1 << 16, 1 << 33, 1 << 48, 0xffff_fffe_ffff_ffff, 0x1_0000_0002]);
        values.extend([2, 3, 7, 10, 0xffff].into_iter().flat_map(|n: u64| [n, n.wrapping_neg()]));
    } else {
        values.extend(SMALL.into_iter().flat_map(|n| [n, n.wrapping_neg()]));
    }
    values.extend(PATTERNS);
    distinct(values.into_iter().map(|bits| bits & ty.mask()).collect())
}

/// Single bits, masks and their complements at every place, with and without bits around them.
pub(super) fn bits(ty: DataType) -> Vec<u64> {
    let mut random = Seeded::new(11);
    let mut values = edges(ty);
    for at in 0..ty.bits() {
        let (bit, noise) = (1u64 << at, random.next_u64());
        let around = [bit, bit - 1, bit | 1, !bit, bit.wrapping_neg(), 0xff << at, !(bit - 1) & !bit];
        values.extend(around);
        values.extend([bit | noise & (bit - 1), bit | noise << at, noise]);
    }
    distinct(values.into_iter().map(|bits| bits & ty.mask()).collect())
}

/// Any value: noise, of some length, or near an edge.
pub(super) fn random(ty: DataType, random: &mut Seeded) -> u64 {
    let (bits, noise) = (random.next_u64(), random.next_u64());
    let value = match bits >> 60 {
        0..=5 => noise,
        6..=9 => noise >> (bits % 64),
        10..=11 => (noise >> (bits % 64)).wrapping_neg(),
        12 => (1 << (bits % 64)) - (noise & 1),
        _ => {
            let edges = core(ty);
            edges[bits as usize % edges.len()].wrapping_add(noise % 5).wrapping_sub(2)
        }
    };
    value & ty.mask()
}

/// Pairs whose sum, difference or order is at its turning point.
pub(super) fn neighbours(ty: DataType) -> Vec<Row> {
    let mut source = Seeded::new(12);
    let mut values = edges(ty);
    values.extend((0..64).map(|_| random(ty, &mut source)));
    let (all, most) = (ty.mask(), ty.mask() >> 1);
    let partner = |x: u64| {
        let to_top = all.wrapping_sub(x);
        let to_most = most.wrapping_sub(x);
        [
            x,
            x.wrapping_add(1),
            x.wrapping_sub(1),
            to_top,
            to_top.wrapping_add(1),
            to_most,
            to_most.wrapping_add(1),
            {
                // The same number with its lower half's sign turned: halves compared with the wrong signedness show.
                x ^ 0x8000_0000
            },
        ]
    };
    let rows = values.into_iter().flat_map(|x| partner(x).map(|y| [x, y & all, 0, 0]));
    rows.flat_map(|[x, y, ..]| [[x, y, 0, 0], [y, x, 0, 0]]).collect()
}

/// Dividends that are multiples, or one off; divisors of every length; quotient digits that a first guess misses.
pub(super) fn quotients(ty: DataType) -> Vec<Row> {
    let mut source = Seeded::new(13);
    let mut rows = Vec::new();
    for length in 1..=ty.bits() {
        for shape in 0..6 {
            let noise = source.next_u64() & ty.mask();
            let bits = noise >> (ty.bits() - length);
            let divisor = match shape {
                0 | 1 => bits | 1 << (length - 1),
                2 => 1 << (length - 1),
                3 => ty.mask() >> (ty.bits() - length),
                4 => (1 << (length - 1)) + 1,
                _ => bits.wrapping_neg(),
            } & ty.mask();
            let quotient = random(ty, &mut source);
            let fitting = quotient >> (length - 1);
            for (quotient, rest) in [(fitting, 0), (fitting, !0), (fitting, 1), (quotient, 0)] {
                let dividend = quotient.wrapping_mul(divisor).wrapping_add(rest);
                rows.push([dividend & ty.mask(), divisor, 0, 0]);
            }
            rows.push([ty.mask(), divisor, 0, 0]);
            rows.push([ty.mask() / 2 + 1, divisor, 0, 0]);
            rows.push([noise, divisor, 0, 0]);
        }
    }
    rows
}

/// Factors of every pair of lengths, full of ones or of noise, so that partial products carry.
pub(super) fn products(ty: DataType) -> Vec<Row> {
    let mut source = Seeded::new(14);
    let mut rows = Vec::new();
    for left in (1..=ty.bits()).step_by(3) {
        for right in (1..=ty.bits()).rev().step_by(5) {
            let ones = |length: u32| ty.mask() >> (ty.bits() - length);
            let (x, y) = (source.next_u64() & ones(left), source.next_u64() & ones(right));
            rows.push([ones(left), ones(right), 0, 0]);
            rows.push([x, y, 0, 0]);
            rows.push([x.wrapping_neg() & ty.mask(), y, 0, 0]);
            rows.push([ones(left), y.wrapping_neg() & ty.mask(), 0, 0]);
        }
    }
    rows
}

/// Values and shift amounts, all pairs.
pub(super) fn shifts(ty: DataType) -> Vec<Row> {
    edges(ty).into_iter().flat_map(|x| AMOUNTS.map(|n| [x, n.into(), 0, 0])).collect()
}

/// Fields of every place and length, of a few telling values.
pub(super) fn fields(ty: DataType, insert: bool) -> Vec<Row> {
    let values: [u64; 6] = [!0, 0x5555_5555_5555_5555, PATTERNS[3], 0x8000_0000_8000_0000, PATTERNS[1], 0];
    let mut rows = Vec::new();
    for (at, x) in values.into_iter().enumerate() {
        let bits = [0, !0, PATTERNS[2], 0x7fff_ffff_0000_0001, PATTERNS[0], !PATTERNS[1]][at] & ty.mask();
        for offset in FIELDS {
            for count in FIELDS {
                let (x, offset, count) = (x & ty.mask(), offset.into(), count.into());
                rows.push(if insert { [x, bits, offset, count] } else { [x, offset, count, 0] });
            }
        }
    }
    rows
}

/// Byte products with every pair of edge bytes at every place, alone and together, and sums that wrap.
pub(super) fn dots() -> Vec<Row> {
    const BYTES: [u64; 7] = [0, 1, 2, 0x7f, 0x80, 0x81, 0xff];
    const SUMS: [u64; 6] = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x7fff_0000];
    let mut rows = Vec::new();
    for (at, (x, y)) in BYTES.iter().flat_map(|x| BYTES.map(|y| (*x, y))).enumerate() {
        for place in 0..4 {
            let sum = SUMS[(at + place) % SUMS.len()];
            rows.push([x << (8 * place), y << (8 * place), sum, 0]);
            rows.push([x << (8 * place), y << (8 * ((place + 1) % 4)) | y, sum, 0]);
        }
        let spread = 0x0101_0101;
        rows.extend(SUMS.map(|sum| [x * spread, y * spread, sum, 0]));
    }
    rows
}
