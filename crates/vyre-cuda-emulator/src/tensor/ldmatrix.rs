//! `ldmatrix` and `stmatrix`: 8 by 8 matrices of 16-bit elements between shared memory and a warp's registers.
//!
//! Eight lanes give the addresses of a matrix's rows, 16 bytes each; the rows need not be next to each other. In the
//! registers four lanes hold a row: lane `l` has columns `2 * (l % 4)` and the one after it of row `l / 4`. With `.trans`
//! rows and columns change places.
//!
//! Not here: the shapes and types that came with sm_100.

use super::modifiers::{Modifiers, needs};
use crate::alu::{Row, Target};

/// The rows of one matrix, and the bytes of a row.
const ROWS: usize = 8;

/// What the two instructions have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Matrices {
    count: usize,
    transposed: bool,
    generic: bool,
}

/// `ldmatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ldmatrix {
    matrices: Matrices,
    lanes: usize,
}

/// `stmatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stmatrix {
    matrices: Matrices,
}

impl Matrices {
    fn of(name: &'static str, words: &[&str], target: Target) -> Result<Matrices, String> {
        let mut words = Modifiers::new(name, words);
        words.require_sync_aligned()?;
        words.require("m8n8")?;
        let counts = [("x1", 1), ("x2", 2), ("x4", 4)];
        let Some((_, count)) = counts.into_iter().find(|(word, _)| words.take(word)) else {
            return Err(format!(".num modifier required for instruction '{name}': .x1, .x2 or .x4"));
        };
        let transposed = words.take("trans");
        let generic = !words.take_shared(target)?;
        if !words.take("b16") {
            return Err(format!("Incorrect instruction type specified for {name} with shape '.m8n8'"));
        }
        words.finish()?;
        Ok(Matrices { count, transposed, generic })
    }

    /// Where the half of a lane's register is from: the row, and the byte in it.
    fn place(&self, matrix: usize, lane: usize, half: usize) -> (usize, usize) {
        let (across, along) = (lane / 4, 2 * (lane % 4) + half);
        let (row, column) = if self.transposed { (along, across) } else { (across, along) };
        (matrix * ROWS + row, 2 * column)
    }
}

impl Ldmatrix {
    /// Decides whether the form is legal.
    pub fn of(modifiers: &[&str], target: Target) -> Result<Ldmatrix, String> {
        needs("ldmatrix", target, 65, 75)?;
        let matrices = Matrices::of("ldmatrix", modifiers, target)?;
        let rows = matrices.count * ROWS;
        // On sm_75 all lanes must have valid addresses, although only the first ones are used.
        Ok(Ldmatrix { matrices, lanes: if target.sm <= 75 { 32 } else { rows } })
    }

    /// How many registers a lane receives.
    pub fn registers(&self) -> usize {
        self.matrices.count
    }

    /// How many rows are read: lane `i` has the address of row `i`, a multiple of 16.
    pub fn rows(&self) -> usize {
        self.matrices.count * ROWS
    }

    /// How many lanes, from the first, must have valid addresses: at least those of the rows.
    pub fn addressed_lanes(&self) -> usize {
        self.lanes
    }

    /// Whether addresses are generic ones, which must point to shared memory.
    pub fn is_generic(&self) -> bool {
        self.matrices.generic
    }

    /// The registers, from the rows' bytes.
    pub fn spread(&self, rows: &[[u8; 16]]) -> Vec<Row> {
        let half = |matrix, lane, half| {
            let (row, byte) = self.matrices.place(matrix, lane, half);
            u64::from(u16::from_le_bytes([rows[row][byte], rows[row][byte + 1]])) << (16 * half)
        };
        (0..self.matrices.count)
            .map(|matrix| std::array::from_fn(|lane| half(matrix, lane, 0) | half(matrix, lane, 1)))
            .collect()
    }
}

impl Stmatrix {
    /// Decides whether the form is legal.
    pub fn of(modifiers: &[&str], target: Target) -> Result<Stmatrix, String> {
        needs("stmatrix", target, 78, 90)?;
        Ok(Stmatrix { matrices: Matrices::of("stmatrix", modifiers, target)? })
    }

    /// How many registers a lane gives.
    pub fn registers(&self) -> usize {
        self.matrices.count
    }

    /// How many rows are written: lane `i` has the address of row `i`, a multiple of 16.
    pub fn rows(&self) -> usize {
        self.matrices.count * ROWS
    }

    /// Whether addresses are generic ones, which must point to shared memory.
    pub fn is_generic(&self) -> bool {
        self.matrices.generic
    }

    /// The rows' bytes, from the registers.
    pub fn gather(&self, registers: &[Row]) -> Vec<[u8; 16]> {
        let mut rows = vec![[0; 16]; self.rows()];
        for (matrix, register) in registers.iter().enumerate() {
            for (lane, value) in register.iter().enumerate() {
                for half in 0..2 {
                    let (row, byte) = self.matrices.place(matrix, lane, half);
                    let bytes = ((value >> (16 * half)) as u16).to_le_bytes();
                    rows[row][byte..byte + 2].copy_from_slice(&bytes);
                }
            }
        }
        rows
    }
}
