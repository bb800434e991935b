//! `wgmma.mma_async` on bytes: four warps multiply 64 rows by up to 256 columns over a depth of 32.
//!
//! b is in shared memory, a there or in registers. Both are passed as pieces of 16 bytes: two for each row of a, and two for
//! each column of b. Warp `w` of the four holds rows `16 * w` and on of the accumulator, and of a if it is in registers; each
//! warp's part is distributed as by `mma.m16n8k32`, eight columns after eight.
//!
//! Not here: that the instruction is asynchronous. The engine decides when it runs, and checks the fences.

use super::descriptor::Descriptor;
use super::mma::{Element, accumulate, dot};
use super::modifiers::{Modifiers, dimensions, float_product, is_float, is_shape, needs, needs_sm_90a};
use crate::alu::{Row, Target};

const NAME: &str = "wgmma.mma_async";
/// Rows of a.
const ROWS: usize = 64;
/// The depth, and the bytes of a row.
const DEPTH: usize = 32;

/// `wgmma.mma_async.sync.aligned` with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wgmma {
    columns: usize,
    a: Element,
    b: Element,
    saturates: bool,
}

impl Wgmma {
    /// Decides whether the form is legal. `mma_async` is one of the modifiers.
    pub fn of(modifiers: &[&str], target: Target) -> Result<Wgmma, String> {
        let mut words = Modifiers::new(NAME, modifiers);
        words.require("mma_async")?;
        words.require_sync_aligned()?;
        if words.any(is_float) {
            return Err(float_product(NAME));
        }
        let name = "wgmma.mma_async with integer types";
        needs_sm_90a(name, target)?;
        let saturates = words.take("satfinite");
        let shape =
            words.take_where(is_shape).ok_or("Shape modifier required for instruction 'wgmma.mma_async'")?;
        let types = words.take_all(|word| matches!(word, "s32" | "s8" | "u8"));
        words.finish()?;
        let ["s32", a, b] = types[..] else { return Err(Wgmma::wrong_types()) };
        let (Some(a), Some(b)) = (Element::of(a), Element::of(b)) else { return Err(Wgmma::wrong_types()) };
        if a != b {
            needs("WGMMA with mixed integer types", target, 84, 0)?;
        }
        let columns = match dimensions(shape) {
            Some([ROWS, columns, DEPTH]) if Wgmma::is_legal(columns) => columns,
            _ => return Err(format!("Illegal matrix shape '.{shape}' for instruction '{name}'")),
        };
        Ok(Wgmma { columns, a, b, saturates })
    }

    fn wrong_types() -> String {
        "Unexpected instruction types specified for 'wgmma.mma_async'".to_owned()
    }

    /// Up to 32 columns in steps of eight, then in steps of sixteen. The syntax in the ISA ends at 224, but its table of
    /// shapes and `ptxas` go on to 256.
    fn is_legal(columns: usize) -> bool {
        let step = if columns <= 32 { 8 } else { 16 };
        (8..=256).contains(&columns) && columns.is_multiple_of(step)
    }

    /// How many registers of a lane hold a, if it is in registers.
    pub fn a_registers(&self) -> usize {
        4
    }

    /// How many registers of a lane hold its part of the accumulator.
    pub fn d_registers(&self) -> usize {
        self.columns / 2
    }

    /// The addresses in shared memory of a's pieces.
    pub fn a_addresses(&self, descriptor: u64) -> Result<Vec<u32>, String> {
        Descriptor::of(descriptor)?.pieces(ROWS as u32)
    }

    /// The addresses in shared memory of b's pieces.
    pub fn b_addresses(&self, descriptor: u64) -> Result<Vec<u32>, String> {
        Descriptor::of(descriptor)?.pieces(self.columns as u32)
    }

    /// a's pieces, from the registers of the four warps.
    pub fn a_pieces(&self, warps: [&[Row]; 4]) -> Vec<[u8; 16]> {
        let mut pieces = vec![[0; 16]; 2 * ROWS];
        for (warp, registers) in warps.into_iter().enumerate() {
            for (register, row) in registers.iter().enumerate() {
                for (lane, value) in row.iter().enumerate() {
                    let at = 16 * warp + 8 * (register % 2) + lane / 4;
                    let first = 4 * (lane % 4);
                    let bytes = (*value as u32).to_le_bytes();
                    pieces[2 * at + register / 2][first..first + 4].copy_from_slice(&bytes);
                }
            }
        }
        pieces
    }

    /// Computes the accumulator of the four warps: the product plus what it was, or the product alone without `adds`,
    /// which is the operand `scale-d`.
    pub fn run(&self, a: &[[u8; 16]], b: &[[u8; 16]], adds: bool, d: [&mut [Row]; 4]) {
        let (a, b) = (lines(self.a, a), lines(self.b, b));
        for (warp, registers) in d.into_iter().enumerate() {
            for (register, row) in registers.iter_mut().enumerate() {
                for (lane, value) in row.iter_mut().enumerate() {
                    let at = 16 * warp + 8 * (register / 2 % 2) + lane / 4;
                    let column = 8 * (register / 4) + 2 * (lane % 4) + register % 2;
                    let old = if adds { *value as i32 } else { 0 };
                    *value = u64::from(accumulate(old, dot(&a[at], &b[column]), self.saturates) as u32);
                }
            }
        }
    }
}

/// The values of each two pieces.
fn lines(element: Element, pieces: &[[u8; 16]]) -> Vec<[i16; DEPTH]> {
    let value = |pair: &[[u8; 16]], at: usize| element.get(u32::from(pair[at / 16][at % 16]), 0);
    pieces.chunks_exact(2).map(|pair| std::array::from_fn(|at| value(pair, at))).collect()
}
