//! Products of matrices of i8 in i32, by the tile product `mma`.
//!
//! A workgroup makes a tile of c, some steps along k at a time. Slices of a and b lie in workgroup memory twice: while `mma`
//! multiplies one pair, the next is stored to the other, and the one behind it is on its way in registers. How large tiles
//! are is a question of workgroup memory, so there are several programs, and a device gets the largest that fits.

use crate::matmul::Shape;
use crate::plan::{Plan, Role};
use crate::programs::{built, four};
use vyre_driver::BackendError;
use vyre_foundation::ir::builder::{Bounds, Kernel, Mem, ReadOnly, Shared, Val, Var};
use vyre_foundation::ir::{Axis, Program};

/// What a workgroup makes.
#[derive(Clone, Copy)]
struct Tile {
    rows: u32,
    columns: u32,
    /// Steps along k of one tile product.
    depth: u32,
    lanes: u32,
}

/// 224, 96 and 14 KiB of workgroup memory. The largest has much on its way while it multiplies.
const TILES: [Tile; 3] = [
    Tile { rows: 128, columns: 256, depth: 128, lanes: 256 },
    Tile { rows: 128, columns: 128, depth: 64, lanes: 256 },
    Tile { rows: 32, columns: 64, depth: 32, lanes: 64 },
];
/// Steps along k that rows are made of where they are whole: pairs of slices, of every tile but the largest.
const WHOLE: u32 = 128;
/// Elements of c from which on there are enough of the largest tiles for a device.
const LARGE: usize = 1 << 20;
/// Rows of tiles whose workgroups follow each other, so that those that run together share rows and columns.
const BAND: u32 = 8;

/// Where a factor lies: in words if all its rows are whole, else in bytes.
#[derive(Clone, Copy)]
enum Source<'k> {
    Words(Mem<'k, u32, ReadOnly>),
    Bytes(Mem<'k, u8, ReadOnly>),
}

/// One of the two factors: rows of `depth` bytes.
struct Factor<'k> {
    tile: Tile,
    from: Source<'k>,
    slices: [Mem<'k, i8, Shared>; 2],
    /// The tile's first row.
    first: Val<'k, u32>,
    /// Bytes of a row; over [`WHOLE`] where they are whole.
    depth: Val<'k, u32>,
    /// Whether bytes beyond a row's end must be 0. If those of one factor are, their products are.
    guarded: bool,
    l: Val<'k, u32>,
    /// A lane's share of the slice that comes next: pieces of four words.
    next: Vec<Var<'k, u32>>,
}

impl<'k> Factor<'k> {
    fn fetch(&self, at: Val<'k, u32>) {
        let Tile { depth, lanes, .. } = self.tile;
        for (piece, next) in (0u32..).zip(self.next.chunks(4)) {
            let piece = self.l + piece * lanes;
            let row = self.first + (piece >> (depth / 16).ilog2());
            let along = at + ((piece & (depth / 16 - 1)) << 4);
            let words = match self.from {
                Source::Words(from) => {
                    four(from, ((row * self.depth) << (WHOLE / 4).ilog2()) + (along >> 4 << 2))
                }
                Source::Bytes(from) => {
                    let first = row * self.depth + along;
                    std::array::from_fn(|word| {
                        let (bytes, along) = (from.word_at(first + 4 * word as u32), along + 4 * word as u32);
                        let left = self.depth.max(along) - along;
                        let cut = || left.ge(4).select(bytes, bytes.extract(0, left * 8));
                        if self.guarded { cut() } else { bytes }
                    })
                }
            };
            next.iter().zip(words).for_each(|(next, word)| next.set(word));
        }
    }

    fn place(&self, slice: usize) {
        for (piece, words) in (0u32..).zip(self.next.chunks(4)) {
            let to = (self.l + piece * self.tile.lanes) << 4;
            for (word, bytes) in (0u32..).zip(words) {
                let bytes = bytes.get();
                for byte in 0..4 {
                    let value = (bytes >> (8 * byte)).bitcast::<i32>();
                    self.slices[slice].put(to + (4 * word + byte), value);
                }
            }
        }
    }
}

/// The tile that a workgroup makes, by rows and columns of tiles: bands of rows, each from left to right.
fn place_in_bands<'k>(k: &'k Kernel) -> [Val<'k, u32>; 2] {
    let [across, down] = [Axis::X, Axis::Y].map(|axis| k.num_workgroups(axis));
    let index = k.workgroup_id(Axis::Y) * across + k.workgroup_id(Axis::X);
    let band = across * BAND;
    let first = index / band * BAND;
    let height = (down - first).min(BAND);
    let within = index % band;
    [first + within % height, within / height]
}

/// c = a * b with b by columns. Whole means that a row of a and b has whole pairs of slices and one of c fours only.
fn program(tile: Tile, whole: bool) -> Program {
    let Tile { rows, columns, depth: step, lanes } = tile;
    let kind = if whole { "" } else { "_ragged" };
    built(&format!("matmul_i8_{rows}_{columns}{kind}"), [lanes, 1, 1], |k| {
        let size = k.uniform::<u32>("size", 0).sized(3);
        let source = |name, binding| match whole {
            true => Source::Words(k.read(name, binding)),
            false => Source::Bytes(k.read(name, binding)),
        };
        let (from_a, from_b) = (source("a", 1), source("b", 2));
        let c = k.read_write::<i32>("c", 3).output();
        let slices = |names: [&'static str; 2], rows| names.map(|name| k.workgroup(name, rows * step));
        let (ta, tb) = (slices(["ta0", "ta1"], rows), slices(["tb0", "tb1"], columns));
        let tc = k.workgroup::<i32>("tc", rows * columns);
        let [m, n, depth] = [0, 1, 2].map(|at| size.at(at));
        let [down, across] = place_in_bands(k);
        let (row0, column0, l) = (down * rows, across * columns, k.local_index());
        let factor = |from, slices, rows, first, guarded| {
            let next = (0..rows * step / 4 / lanes).map(|_| k.var(0u32)).collect();
            Factor { tile, from, slices, first, depth, guarded, l, next }
        };
        let factors = [factor(from_a, ta, rows, row0, true), factor(from_b, tb, columns, column0, false)];

        let fetch = |at| factors.iter().for_each(|factor| factor.fetch(at));
        let place = |slice| factors.iter().for_each(|factor| factor.place(slice));
        fetch(k.val(0));
        place(0);
        fetch(k.val(step));
        let end = if whole { depth << WHOLE.ilog2() } else { depth };
        k.for_((0, end).step(2 * step), |at| {
            for half in [0, 1] {
                k.mma([rows, columns, step], (tc, 0), (ta[half], 0), (tb[half], 0));
                place(1 - half);
                fetch(at + (half as u32 + 2) * step);
            }
        });
        let width = if whole { n << 2 } else { n };
        k.for_(0..rows * columns / 4 / lanes, |round| {
            let from = (l + round * lanes) << 2;
            let (row, column) = (row0 + (from >> columns.ilog2()), column0 + (from & (columns - 1)));
            let to = if whole { (row * n) << 2 } else { row * n } + column;
            k.if_(row.lt(m) & column.lt(width), || {
                for (at, sum) in (0u32..).zip(four(tc, from)) {
                    match whole || at == 0 {
                        true => c.put(to + at, sum),
                        false => k.if_((column + at).lt(width), || c.put(to + at, sum)),
                    }
                }
            });
        });
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
        let whole = n % 4 == 0 && k % WHOLE == 0;
        let size = plan.constant(&if whole { [m, n / 4, k / WHOLE] } else { [m, n, k] });
        let choice = |tile: &Tile| {
            let grid = [n.div_ceil(tile.columns).max(1), m.div_ceil(tile.rows).max(1), 1];
            (program(*tile, whole), grid)
        };
        // Bytes that are asked for one by one leave too few registers for the largest, and a small product too few workgroups.
        let large = whole && k % (2 * TILES[0].depth) == 0 && shape.m * shape.n >= LARGE;
        let choices: Vec<_> = TILES[usize::from(!large)..].iter().map(choice).collect();
        plan.step_of(&choices, &[size, a, b, c]);
        Ok(plan)
    }
}
