//! Values at the edges of each type, and input data rich in them.
//!
//! Random bits alone almost never hit a subnormal, an infinity or the least integer; programs and inputs made here
//! hit them all the time.

use crate::source::{Draw, Seeded};
use half::{bf16, f16};
use vyre_foundation::ir::{DataType, Literal};

/// Numbers that every float type rounds to something telling.
const FLOATS: [f64; 20] = [
    0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    3.0,
    0.1,
    1.0 / 3.0,
    std::f64::consts::PI,
    255.0,
    -7.75,
    2048.5,
    65504.0,
    16_777_217.0,
    2_147_483_648.0,
    -2_147_483_648.0,
    18_446_744_073_709_551_616.0,
    -0.0,
];

/// Bits of integers around which carries, signs and widths change.
const INTEGERS: [u64; 24] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    31,
    32,
    63,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x00ff_00ff_00ff_00ff,
    0x5555_5555_5555_5555,
    0x7fff_ffff,
    0x8000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
];

/// The bits of edge value number `at` of `ty`, out of [`edge_count`].
fn edge(ty: DataType, at: usize) -> u64 {
    let bits = if ty.is_float() {
        match FLOATS.get(at) {
            Some(value) => float_bits(ty, *value),
            None => float_pattern(ty, at - FLOATS.len()),
        }
    } else {
        // Both signs of each, and the sign bit of the type itself.
        let value = INTEGERS[at / 2 % INTEGERS.len()];
        match (at / 2 == INTEGERS.len(), at % 2) {
            (true, 0) => 1 << (ty.bits() - 1),
            (true, _) => ty.mask() >> 1,
            (false, 0) => value,
            (false, _) => value.wrapping_neg(),
        }
    };
    bits & ty.mask()
}

/// How many edge values `ty` has.
fn edge_count(ty: DataType) -> usize {
    match ty {
        DataType::Bool => 2,
        _ if ty.is_float() => FLOATS.len() + FLOAT_PATTERNS,
        _ => 2 * INTEGERS.len() + 2,
    }
}

const FLOAT_PATTERNS: usize = 11;

/// A bit pattern at the edge of the encoding: subnormals, the largest, infinities, NaNs.
fn float_pattern(ty: DataType, at: usize) -> u64 {
    let mantissa_bits = match ty {
        DataType::F16 => 10,
        DataType::BF16 => 7,
        DataType::F32 => 23,
        _ => 52,
    };
    let sign = 1 << (ty.bits() - 1);
    let infinity = (sign - 1) & !((1 << mantissa_bits) - 1);
    [
        1,
        sign | 1,
        (1 << mantissa_bits) - 1,
        1 << mantissa_bits,
        (1 << mantissa_bits) | 1,
        infinity - 1,
        sign | (infinity - 1),
        infinity,
        sign | infinity,
        infinity | 1 << (mantissa_bits - 1),
        sign | infinity | 1,
    ][at % FLOAT_PATTERNS]
}

fn float_bits(ty: DataType, value: f64) -> u64 {
    match ty {
        DataType::F16 => u64::from(f16::from_f64(value).to_bits()),
        DataType::BF16 => u64::from(bf16::from_f64(value).to_bits()),
        DataType::F32 => u64::from((value as f32).to_bits()),
        _ => value.to_bits(),
    }
}

/// A constant of `ty`: small, at an edge, or any bits at all.
pub fn literal(draw: &mut Draw<'_>, ty: DataType) -> Literal {
    let bits = match draw.below(8) {
        0..=2 if !ty.is_float() => u64::from(draw.below(6)),
        0..=6 => edge(ty, draw.below(edge_count(ty) as u32) as usize),
        _ => draw.bits(),
    };
    Literal::from_bits(ty, bits)
}

/// `count` elements of input for a buffer of `ty`, fixed by `seed`.
///
/// A third of them are small, a third at an edge, a third random. NaNs may have any payload: the language says what
/// becomes of it.
pub fn data(ty: DataType, count: usize, seed: u64) -> Vec<u8> {
    let mut random = Seeded::new(seed);
    let mut bytes = Vec::with_capacity(count * ty.bytes());
    for _ in 0..count {
        let bits = random.next_u64();
        let element = match bits % 3 {
            0 if ty.is_float() => float_bits(ty, ((bits >> 8) % 65) as f64 / 4.0 - 8.0),
            0 => (bits >> 8) % 12,
            1 => edge(ty, (bits >> 8) as usize % edge_count(ty)),
            _ => random.next_u64(),
        };
        bytes.extend_from_slice(&element.to_le_bytes()[..ty.bytes()]);
    }
    bytes
}
