//! Functions of two arguments: all pairs of special values, pairs known to be hard, and random ones of several kinds.
//!
//! A part of the random pairs is constructed near a rounding boundary, from the boundary backwards: for `atan2` by the
//! continued fraction of its tangent, for `hypot` by a sum of squares next to its square, for `pow` by an exponent that
//! takes the base there.

use crate::check::Args;
use crate::sweep::{Sweep, Swept, Wrong};
use vyre::host::Kernel;
use vyre::math::MathOp;
use vyre_math::canonical;
use vyre_math::oracle::Oracle;
use vyre_math::special;

/// Pairs of one dispatch.
const CHUNK: u64 = 1 << 22;

/// Powers nearest to a rounding boundary, 48 to 51 bits beyond f32's, as the authors of CORE-MATH found by search; the last
/// three tripped other libraries.
const POW: &[[u32; 2]] = &[
    [0x303b3eb9, 0x3f801404],
    [0x041748bc, 0x3f8118bc],
    [0x02d512f8, 0x3f826c72],
    [0x42cd9ae3, 0x3f829e64],
    [0x32f34af5, 0x3f835351],
    [0x411f14df, 0x3f84f5cd],
    [0x3996658b, 0x3f85cde8],
    [0x136b54f5, 0x3f8924fe],
    [0x1d24db42, 0x3f8a84fb],
    [0x62458bc6, 0x3f8acf85],
    [0x5cac73ab, 0x3f8b69f8],
    [0x43ec607b, 0x3f8bf407],
    [0x0fe629f4, 0x3f8ddba9],
    [0x511f259c, 0x3f8ee10d],
    [0x1dc4d5ef, 0x3f8f3c1d],
    [0x784ae361, 0x3f8fbb8e],
    [0x650a3bcc, 0x3f930c6b],
    [0x3f60921e, 0x3f93778c],
    [0x1ba76048, 0x3f93bb37],
    [0x177a7f93, 0x3f952c20],
    [0x474014df, 0x3f96c609],
    [0x46e605ba, 0x3f983b6f],
    [0x0a1e6831, 0x3f99339a],
    [0x3547ed87, 0x0cd18d80],
    [0x35cd0800, 0x3ff00000],
    [0x293b1960, 0xb42fc98a],
];

/// The arguments of a chunk.
type Columns = (Vec<f32>, Vec<f32>);

/// Special and known pairs in a chunk of their own, and then `count` random ones.
pub(crate) fn sweep(
    args: &Args,
    op: &'static MathOp,
    kernel: &Kernel,
    count: u64,
    oracle: Option<Oracle>,
) -> Result<Swept, String> {
    let key = format!("{} {} pairs {count}", op.name, args.backend);
    let sweep = Sweep { name: op.name, key, chunks: 1 + count.div_ceil(CHUNK) as u32 };
    let compute = |chunk: u32| {
        let (xs, ys) = pairs(op.name, chunk, count);
        let got = run(kernel, &args.backend, &xs, &ys)?;
        Ok(((xs, ys), got))
    };
    sweep.run(args, compute, |columns: &Columns, got| match oracle {
        Some(Oracle::Two(right, _)) => compare(columns, got, right),
        _ => Vec::new(),
    })
}

fn pairs(name: &str, chunk: u32, count: u64) -> Columns {
    if chunk == 0 {
        let values = special::values();
        let special = values.iter().flat_map(|x| values.iter().map(|y| (*x, *y)));
        let known = POW.iter().map(|[x, y]| (f32::from_bits(*x), f32::from_bits(*y)));
        return special.chain(known.filter(|_| name == "pow")).unzip();
    }
    let first = u64::from(chunk - 1) * CHUNK;
    (first..count.min(first + CHUNK)).map(|number| random(name, number)).unzip()
}

fn run(kernel: &Kernel, backend: &str, xs: &[f32], ys: &[f32]) -> Result<Vec<u8>, String> {
    let launch = kernel.launch().backend(backend).input("x", xs).input("y", ys);
    let grid = [(xs.len() as u32).div_ceil(256), 1, 1];
    let output = launch.size("r", xs.len() as u64).grid(grid).run().map_err(|error| error.to_string())?;
    Ok(output.bytes("r").map_err(|error| error.to_string())?.to_vec())
}

fn compare((xs, ys): &Columns, got: &[u8], right: fn(f32, f32) -> f32) -> Vec<Wrong> {
    let rows = xs.iter().zip(ys).zip(got.chunks_exact(4));
    let wrong = rows.filter_map(|((x, y), got)| {
        let right = canonical(right(*x, *y));
        let got = u32::from_le_bytes([got[0], got[1], got[2], got[3]]);
        (got != right).then(|| Wrong { args: vec![x.to_bits(), y.to_bits()], got, right })
    });
    wrong.collect()
}

/// The pair with that number: of all exponents, or of near size, or small whole numbers, where exact cases are, or near a
/// boundary.
fn random(name: &str, number: u64) -> (f32, f32) {
    let a = mix(number);
    let b = mix(a ^ number.rotate_left(32));
    let (x, y) = (f32::from_bits(a as u32), f32::from_bits((a >> 32) as u32));
    match (b % 8, name) {
        (0, _) => (x, y),
        (1, "atan2") => near_atan2(a, b),
        (1, "hypot") => near_hypot(a, b),
        (1, "pow") => near_pow(a, b),
        // Powers that are mostly finite.
        (2 | 3, "pow") => {
            let scale = 300.0 * (((b >> 32) as f32) / (1u64 << 31) as f32 - 1.0);
            (x.abs(), scale / x.abs().log2())
        }
        (2, "atan2") => subnormal_atan2(a as u32, b),
        // Whole and half numbers.
        (4, _) => (((a >> 8) % 4096) as f32, ((b >> 8) % 64) as f32 / 2.0 - 8.0),
        (5, _) => (((a >> 8) % (1 << 24)) as f32 / 1024.0, ((b >> 8) % 4096) as f32 / 32.0),
        // Exponents within a few binades of each other.
        _ => (x, f32::from_bits((x.to_bits() & 0x7f00_0000).wrapping_add(b as u32 & 0x87ff_ffff))),
    }
}

/// A power of two with an exponent between -64 and 63.
fn scale(bits: u64) -> f32 {
    f32::from_bits((63 + (bits % 128) as u32) << 23)
}

/// A point whose angle is next to one halfway between two floats: a convergent of the angle's tangent.
fn near_atan2(a: u64, b: u64) -> (f32, f32) {
    // Halfway is a 25th bit; the angle is between 2^-7 and 2.
    let halfway = (1 << 24 | a & 0xff_ffff | 1) as f64 / (1 << 24) as f64;
    let tangent = (halfway / (1u64 << ((b >> 8) % 8)) as f64).tan();
    let mut rest = tangent.abs();
    let (mut num, mut den) = ([1.0, 0.0], [0.0, 1.0]);
    loop {
        let whole = rest.floor();
        let next = [whole * num[0] + num[1], whole * den[0] + den[1]];
        if next[0] >= (1 << 24) as f64 || next[1] >= (1 << 24) as f64 || rest == whole {
            break;
        }
        (num, den) = ([next[0], num[0]], [next[1], den[0]]);
        rest = 1.0 / (rest - whole);
    }
    let scale = scale(b >> 16);
    (num[0] as f32 * scale, (den[0] as f32 * scale).copysign(tangent as f32))
}

/// A point whose angle is subnormal: the quotient, less a little, which is often representable or halfway.
fn subnormal_atan2(a: u32, b: u64) -> (f32, f32) {
    let y = a & 0x87ff_ffff;
    let exponent = (y >> 23 & 0xf) + 126 + ((b >> 8) % 25) as u32;
    (f32::from_bits(y), f32::from_bits(exponent << 23 | (b >> 16) as u32 & 0x70_0000))
}

/// Legs whose hypotenuse is next to one halfway between two floats: half a unit more than the longer leg, or a few.
fn near_hypot(a: u64, b: u64) -> (f32, f32) {
    let long = (1 << 23 | a & 0x7f_ffff) as f64;
    let halves = (1 + 2 * ((b >> 8) % 4)) as f64;
    let unit = (1u64 << ((b >> 16) % 11)) as f64;
    let short = (unit * (halves * long + halves * halves / 4.0).sqrt()).round();
    let scale = scale(b >> 24);
    ((long * unit) as f32 * scale, short as f32 * scale)
}

/// A base and the exponent for which the power is next to one halfway between two floats, near 1.
fn near_pow(a: u64, b: u64) -> (f32, f32) {
    let x = f32::from_bits(a as u32 & 0x7fff_ffff);
    let halves = (1 + 2 * ((a >> 32) % 512)) as f64;
    let beside = if b >> 63 == 0 { halves / (1 << 24) as f64 } else { -halves / (1 << 25) as f64 };
    (x, (beside.ln_1p() / f64::from(x).ln()) as f32)
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How far a number is from halfway between two floats, in units of f32's last place.
    fn from_halfway(value: f64) -> f64 {
        let unit = f64::from(f32::from_bits((value as f32).to_bits() + 1)) - f64::from(value as f32);
        ((value / unit).fract().abs() - 0.5).abs()
    }

    #[test]
    fn pairs_that_are_meant_to_be_near_a_boundary_are() {
        for (near, exact) in [
            (near_atan2 as fn(u64, u64) -> (f32, f32), core_math::atan2 as fn(f64, f64) -> f64),
            (near_hypot, core_math::hypot),
            (near_pow, core_math::pow),
        ] {
            let pair = |number| near(mix(number), mix(!number));
            let far = |(x, y): &(f32, f32)| from_halfway(exact((*x).into(), (*y).into())) > 1e-3;
            let finite = |(x, y): &(f32, f32)| x.is_normal() && y.is_normal();
            let pairs: Vec<_> = (0..1000).map(pair).filter(finite).collect();
            let far = pairs.iter().filter(|pair| far(pair)).count();
            assert!(far < pairs.len() / 50 && pairs.len() > 900, "{far} of {}", pairs.len());
        }
    }
}
