//! Products of matrices of i8 in i32, by the tile product `mma`.
//!
//! A workgroup makes 128 by 128 elements of c, 64 steps along k at a time. The next slices of a and b are on their way in
//! registers, as words, while `mma` multiplies those in workgroup memory.

use crate::matmul::{SIDE, Shape};
use crate::plan::{Plan, Role};
use crate::programs::{built, four};
use vyre_driver::BackendError;
use vyre_foundation::ir::builder::{Bounds, Mem, ReadOnly, Shared, Val};
use vyre_foundation::ir::{Axis, Program};

/// Steps along k of one tile product.
const DEPTH: u32 = 64;
const LANES: u32 = 256;
/// A lane's share of a slice: pieces of 16 bytes.
const PIECES: u32 = SIDE * DEPTH / 16 / LANES;

/// One of the two factors: rows of `depth` bytes.
#[derive(Clone, Copy)]
struct Factor<'k> {
    from: Mem<'k, u8, ReadOnly>,
    tile: Mem<'k, i8, Shared>,
    /// The tile's first row.
    first: Val<'k, u32>,
    /// Bytes of a row; over 64 where they are whole.
    depth: Val<'k, u32>,
    whole: bool,
    /// Whether bytes beyond a row's end must be 0. If those of one factor are, their products are.
    guarded: bool,
    l: Val<'k, u32>,
}

impl<'k> Factor<'k> {
    /// A lane's pieces of the slice at `at` along k, four words each.
    fn fetch(&self, at: Val<'k, u32>) -> Vec<Val<'k, u32>> {
        let mut words = Vec::new();
        for piece in 0..PIECES {
            let piece = self.l + piece * LANES;
            let row = self.first + (piece >> 2);
            let along = at + ((piece & 3) << 4);
            let row = if self.whole { (row * self.depth) << 6 } else { row * self.depth };
            let from = row + along;
            for word in 0..4 {
                let bytes = self.from.word_at(from + 4 * word);
                words.push(match self.guarded && !self.whole {
                    true => {
                        let left = self.depth.max(along + 4 * word) - (along + 4 * word);
                        left.ge(4).select(bytes, bytes.extract(0, left * 8))
                    }
                    false => bytes,
                });
            }
        }
        words
    }

    fn place(&self, words: &[Val<'k, u32>]) {
        for (piece, words) in (0u32..).zip(words.chunks(4)) {
            let to = (self.l + piece * LANES) << 4;
            for (word, bytes) in (0u32..).zip(words) {
                for byte in 0..4 {
                    let value = (*bytes >> (8 * byte)).bitcast::<i32>();
                    self.tile.put(to + (4 * word + byte), value);
                }
            }
        }
    }
}

/// c = a * b with b by columns. Whole means that a row of a and b has whole slices and one of c fours only.
fn program(whole: bool) -> Program {
    built(if whole { "matmul_i8" } else { "matmul_i8_ragged" }, [LANES, 1, 1], |k| {
        let size = k.uniform::<u32>("size", 0).sized(3);
        let (a, b) = (k.read("a", 1), k.read("b", 2));
        let c = k.read_write::<i32>("c", 3).output();
        let (ta, tb) = (k.workgroup("ta", SIDE * DEPTH), k.workgroup("tb", SIDE * DEPTH));
        let tc = k.workgroup::<i32>("tc", SIDE * SIDE);
        let [m, n, depth] = [0, 1, 2].map(|at| size.at(at));
        let [row0, column0] = [Axis::Y, Axis::X].map(|axis| k.workgroup_id(axis) * SIDE);
        let l = k.local_index();
        let a = Factor { from: a, tile: ta, first: row0, depth, whole, guarded: true, l };
        let b = Factor { from: b, tile: tb, first: column0, depth, whole, guarded: false, l };

        a.place(&a.fetch(k.val(0)));
        b.place(&b.fetch(k.val(0)));
        let end = if whole { depth << 6 } else { depth };
        k.for_((0, end).step(DEPTH), |at| {
            let next = [a.fetch(at + DEPTH), b.fetch(at + DEPTH)];
            k.mma([SIDE, SIDE, DEPTH], (tc, 0), (ta, 0), (tb, 0));
            a.place(&next[0]);
            b.place(&next[1]);
        });
        let width = if whole { n << 2 } else { n };
        for round in 0..SIDE * SIDE / 4 / LANES {
            let from = (l + round * LANES) << 2;
            let (row, column) = (row0 + (from >> SIDE.ilog2()), column0 + (from & (SIDE - 1)));
            let to = if whole { (row * n) << 2 } else { row * n } + column;
            k.if_(row.lt(m) & column.lt(width), || {
                for (at, sum) in (0u32..).zip(four(tc, from)) {
                    match whole || at == 0 {
                        true => c.put(to + at, sum),
                        false => k.if_((column + at).lt(width), || c.put(to + at, sum)),
                    }
                }
            });
        }
    })
}

impl Plan {
    /// c = a * b of i8 in i32, wrapping: the inputs are a by rows and b by columns (n rows of k), the output is c by rows.
    pub fn matmul_i8(shape: Shape) -> Result<Plan, BackendError> {
        let [m, n, k] = shape.sizes()?;
        let mut plan = Plan::default();
        let a = plan.buffer(shape.m * shape.k, Role::Input);
        let b = plan.buffer(shape.n * shape.k, Role::Input);
        let c = plan.buffer(shape.m * shape.n * 4, Role::Output);
        let whole = n % 4 == 0 && k % DEPTH == 0;
        let size = plan.constant(&if whole { [m, n / 4, k / DEPTH] } else { [m, n, k] });
        plan.step(&program(whole), shape.grid(), &[size, a, b, c]);
        Ok(plan)
    }
}
