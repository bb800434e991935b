//! The error of f64 results, in units of the last place.

use crate::kernel::elements;
use crate::oracle::{Oracle, oracle};
use vyre::ir::DataType;
use vyre::math::MathOp;

/// The worst result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Worst {
    /// Its distance from the right one, in floats.
    pub ulp: u64,
    /// Its arguments.
    pub args: [f64; 2],
}

/// Runs a function on `count` arguments of many sizes, and on special ones, and gives its worst result; `None` for one
/// without an oracle.
pub fn worst(op: &MathOp, backend: &str, count: usize, seed: u64) -> Result<Option<Worst>, String> {
    let Some(oracle) = oracle(op.name) else { return Ok(None) };
    let kernel = elements(op, DataType::F64).map_err(|error| error.to_string())?;
    let special = crate::special::values();
    let special = || special.iter().map(|x| f64::from(*x));
    let mut random = Random(seed);
    let mut pairs: Vec<[f64; 2]> = match oracle {
        Oracle::One(..) => special().map(|x| [x, 0.0]).collect(),
        Oracle::Two(..) => special().flat_map(|x| special().map(move |y| [x, y])).collect(),
    };
    pairs.extend((0..count).map(|_| [random.float(), random.float()]));
    let column = |at: usize| pairs.iter().map(|pair| pair[at]).collect::<Vec<f64>>();
    let mut launch = kernel.launch().backend(backend).input("x", &column(0));
    if op.operands == 2 {
        launch = launch.input("y", &column(1));
    }
    let grid = [(pairs.len() as u32).div_ceil(256), 1, 1];
    let output = launch.size("r", pairs.len() as u64).grid(grid).run().map_err(|error| error.to_string())?;
    let got = output.get::<f64>("r").map_err(|error| error.to_string())?;
    let off = |([x, y], got): (&[f64; 2], &f64)| {
        let right = match oracle {
            Oracle::One(_, f) => f(*x),
            Oracle::Two(_, f) => f(*x, *y),
        };
        Worst { ulp: distance(right, *got), args: [*x, *y] }
    };
    Ok(pairs.iter().zip(&got).map(off).max_by_key(|worst| worst.ulp))
}

/// The number of floats between two; NaNs are equal. A NaN is far from any number, and so is a number of the other sign, a
/// zero too: signs are not a matter of accuracy.
pub fn distance(a: f64, b: f64) -> u64 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) if a.is_sign_negative() == b.is_sign_negative() => a.to_bits().abs_diff(b.to_bits()),
        _ => u64::MAX,
    }
}

/// Numbers of both signs, of a few binades around 1 or of any size.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd)
    }

    fn float(&mut self) -> f64 {
        let (bits, kind) = (self.next(), self.next());
        let significand = bits & ((1 << 52) - 1) | (kind & 1) << 63;
        let exponent = match (kind >> 1) & 3 {
            0 => (bits >> 52) & 2047,
            1 => 1023 - 30 + ((bits >> 52) & 63),
            _ => 1023 - 6 + ((bits >> 52) & 15),
        };
        f64::from_bits(significand | exponent << 52)
    }
}
