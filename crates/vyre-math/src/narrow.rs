//! f16 and bf16: every argument, or all pairs of 256 values.

use crate::kernel::elements;
use crate::oracle::{Oracle, oracle};
use std::fmt;
use vyre::ir::{ComputeOp, DataType};
use vyre::math::MathOp;
use vyre_foundation::scalar::meaning;

/// A wrong result: bits of the arguments, of the result, and of the right one.
#[derive(Debug)]
pub struct Wrong {
    args: [u16; 2],
    got: u16,
    right: u16,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { args: [x, y], got, right } = self;
        write!(f, "{x:#06x}, {y:#06x} gives {got:#06x}, not {right:#06x}")
    }
}

/// The wrong results of a function of a 16-bit type; `None` for one without an oracle.
pub fn wrong(op: &MathOp, ty: DataType, backend: &str) -> Result<Option<Vec<Wrong>>, String> {
    let Some(oracle) = oracle(op.name) else { return Ok(None) };
    let arguments: Vec<[u16; 2]> = (0..=u16::MAX).map(|bits| arguments(op, bits)).collect();
    let got = run(op, ty, backend, &arguments)?;
    let wide = |bits: u16| f64::from_bits(convert(DataType::F64, ty, bits.into()));
    let checked = arguments.into_iter().zip(got).filter_map(|(args @ [x, y], got)| {
        let exact = match oracle {
            Oracle::One(_, f) => f(wide(x)),
            Oracle::Two(_, f) => f(wide(x), wide(y)),
        };
        let right = match ty.canonical_nan().filter(|_| exact.is_nan()) {
            Some(nan) => nan,
            None => convert(ty, DataType::F64, exact.to_bits()),
        };
        (u64::from(got) != right).then_some(Wrong { args, got, right: right as u16 })
    });
    Ok(Some(checked.collect()))
}

/// Every argument, or of two the pair of values with that number.
fn arguments(op: &MathOp, bits: u16) -> [u16; 2] {
    let some = |byte: u16| byte << 8 | byte >> 3;
    if op.operands == 1 { [bits, 0] } else { [some(bits & 255), some(bits >> 8)] }
}

/// A number of another type, rounded once.
fn convert(ty: DataType, source: DataType, bits: u64) -> u64 {
    meaning(ComputeOp::Cast, ty, source).map_or(0, |cast| cast(&[bits, 0, 0, 0]))
}

fn run(op: &MathOp, ty: DataType, backend: &str, arguments: &[[u16; 2]]) -> Result<Vec<u16>, String> {
    let kernel = elements(op, ty).map_err(|error| error.to_string())?;
    let column = |at: usize| arguments.iter().flat_map(|args| args[at].to_le_bytes()).collect::<Vec<u8>>();
    let mut launch = kernel.launch().backend(backend).bytes("x", column(0)).size("r", arguments.len() as u64);
    if op.operands == 2 {
        launch = launch.bytes("y", column(1));
    }
    let grid = [(arguments.len() as u32).div_ceil(256), 1, 1];
    let output = launch.grid(grid).run().map_err(|error| error.to_string())?;
    let result = output.bytes("r").map_err(|error| error.to_string())?;
    Ok(result.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
}
