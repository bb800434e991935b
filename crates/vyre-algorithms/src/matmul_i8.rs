//! Products of matrices of i8 in i32, by the tile product `mma`.
//!
//! A workgroup makes a tile of c, some steps along k at a time. Slices of a and b have several places in workgroup memory:
//! while `mma` multiplies one pair, others are loaded. Workgroup memory limits the size of tiles, so there are
//! several programs, and a device runs the largest that fits.

use crate::matmul::Shape;
use crate::plan::{Plan, Role};
use crate::programs::{built, four};
use vyre_driver::BackendError;
use vyre_foundation::ir::builder::{Bounds, Kernel, Mem, ReadOnly, Shared, Val};
use vyre_foundation::ir::{Axis, Program};

/// The tile of a workgroup.
#[derive(Clone, Copy)]
struct Tile {
    rows: u32,
    columns: u32,
    /// Steps along k of one tile product.
    depth: u32,
    /// Places for slices. A slice comes in half of them ahead, so the one that it replaces was read as long ago.
    places: u32,
    lanes: u32,
}

/// 224, 96 and 14 KiB of workgroup memory.
const TILES: [Tile; 3] = [
    Tile { rows: 128, columns: 256, depth: 64, places: 4, lanes: 256 },
    Tile { rows: 128, columns: 128, depth: 32, places: 4, lanes: 256 },
    Tile { rows: 32, columns: 64, depth: 32, places: 2, lanes: 64 },
];
/// Steps along k that rows are made of where they are whole: all places of every tile but the largest.
const WHOLE: u32 = 128;
/// Elements of c from which on there are enough of the largest tiles for a device.
const LARGE: usize = 1 << 20;
/// Rows of tiles whose workgroups follow each other, so that those that run together share rows and columns.
const BAND: u32 = 8;

/// How a factor is stored: in words if all its rows are whole words, else in bytes.
#[derive(Clone, Copy)]
enum Source<'k> {
    Words(Mem<'k, u32, ReadOnly>),
    Bytes(Mem<'k, u8, ReadOnly>),
}

/// One of the two factors: rows of `depth` bytes.
struct Factor<'k> {
    tile: Tile,
    from: Source<'k>,
    slices: Vec<Mem<'k, i8, Shared>>,
    /// The tile's first row.
    first: Val<'k, u32>,
    /// Bytes of a row; over [`WHOLE`] where they are whole.
    depth: Val<'k, u32>,
    /// Whether bytes beyond a row's end must be 0. If those of one factor are, their products are.
    guarded: bool,
    l: Val<'k, u32>,
}

impl<'k> Factor<'k> {
    /// Brings a lane's share of the slice at `at` along k to its place: pieces of four words.
    fn bring(&self, rows: u32, at: Val<'k, u32>, place: usize) {
        let Tile { depth, lanes, .. } = self.tile;
        for piece in 0..rows * depth / 16 / lanes {
            let piece = self.l + piece * lanes;
            let words = self.piece(at, piece);
            for (word, bytes) in (0u32..).zip(words) {
                for byte in 0..4 {
                    let value = (bytes >> (8 * byte)).bitcast::<i32>();
                    self.slices[place].put((piece << 4) + (4 * word + byte), value);
                }
            }
        }
    }

    fn piece(&self, at: Val<'k, u32>, piece: Val<'k, u32>) -> [Val<'k, u32>; 4] {
        let depth = self.tile.depth;
        let row = self.first + (piece >> (depth / 16).ilog2());
        let along = at + ((piece & (depth / 16 - 1)) << 4);
        match self.from {
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

/// c = a * b with b by columns. Whole means that a row of a and b has slices for all places and one of c fours only.
fn program(tile: Tile, whole: bool) -> Program {
    let Tile { rows, columns, depth: step, places, lanes } = tile;
    let kind = if whole { "" } else { "_ragged" };
    built(&format!("matmul_i8_{rows}_{columns}{kind}"), [lanes, 1, 1], |k| {
        let size = k.uniform::<u32>("size", 0).sized(3);
        let source = |name, binding| match whole {
            true => Source::Words(k.read(name, binding)),
            false => Source::Bytes(k.read(name, binding)),
        };
        let (from_a, from_b) = (source("a", 1), source("b", 2));
        let c = k.read_write::<i32>("c", 3).output();
        let slices = |name: &str, rows| -> Vec<_> {
            (0..places).map(|place| k.workgroup(&format!("{name}{place}"), rows * step)).collect()
        };
        let (ta, tb) = (slices("ta", rows), slices("tb", columns));
        let tc = k.workgroup::<i32>("tc", rows * columns);
        let [m, n, depth] = [0, 1, 2].map(|at| size.at(at));
        let [down, across] = place_in_bands(k);
        let (row0, column0, l) = (down * rows, across * columns, k.local_index());
        let factor = |from, slices: &[_], first, guarded| Factor {
            tile,
            from,
            slices: slices.to_vec(),
            first,
            depth,
            guarded,
            l,
        };
        let (fa, fb) = (factor(from_a, &ta, row0, true), factor(from_b, &tb, column0, false));
        let bring = |at, place: u32| {
            fa.bring(rows, at, place as usize);
            fb.bring(columns, at, place as usize);
        };
        let ahead = places / 2;
        for place in 0..ahead {
            bring(k.val(place * step), place);
        }
        let end = if whole { depth << WHOLE.ilog2() } else { depth };
        k.for_((0, end).step(places * step), |at| {
            for place in 0..places {
                let factors = [&ta, &tb].map(|slices| (slices[place as usize], 0));
                k.mma([rows, columns, step], (tc, 0), factors[0], factors[1]);
                bring(at + (place + ahead) * step, (place + ahead) % places);
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

/// Rows and columns of c that a workgroup makes on processors, and its lanes: as many as elements.
const CORNER: u32 = 4;
const LANES: u32 = CORNER * CORNER;

/// The same for processors: the lanes of a workgroup are neighbours along k, and a's and b's rows are contiguous there.
fn by_rows(whole: bool) -> Program {
    built(if whole { "matmul_i8_rows" } else { "matmul_i8_rows_ragged" }, [LANES, 1, 1], |k| {
        k.subgroup(LANES);
        let size = k.uniform::<u32>("size", 0).sized(3);
        let (a, b) = (k.read::<i8>("a", 1), k.read::<i8>("b", 2));
        let c = k.read_write::<i32>("c", 3).output();
        let [m, n, depth] = [0, 1, 2].map(|at| size.at(at));
        let (n, depth) = if whole { (n << 2, depth << WHOLE.ilog2()) } else { (n, depth) };
        let [row0, column0] = [Axis::Y, Axis::X].map(|axis| k.workgroup_id(axis) * CORNER);
        let lane = k.subgroup_lane();
        let sums: Vec<_> = (0..LANES).map(|_| k.var(0i32)).collect();
        let take = |at: Val<'_, u32>, last: bool| {
            let at = at + lane;
            let left = (0..CORNER).map(|along| a.at((row0 + along) * depth + at));
            // After a row's end nothing is added.
            let left = left.map(|x| if last { at.lt(depth).select(x, 0) } else { x }).collect::<Vec<_>>();
            let right: Vec<_> = (0..CORNER).map(|along| b.at((column0 + along) * depth + at)).collect();
            for (at, sum) in sums.iter().enumerate() {
                sum.update(|sum| sum + left[at / CORNER as usize] * right[at % CORNER as usize]);
            }
        };
        let full = depth & !(LANES - 1);
        k.for_((0, full).step(LANES), |at| take(at, false));
        if !whole {
            k.if_(full.lt(depth), || take(full, true));
        }
        let mut own = k.val(0i32);
        for (at, sum) in (0u32..).zip(&sums) {
            own = lane.eq(at).select(sum.get().subgroup_reduce_add(), own);
        }
        let (row, column) = (row0 + lane / CORNER, column0 + lane % CORNER);
        k.if_(row.lt(m) & column.lt(n), || c.put(row * n + column, own));
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
        let large = whole && k % (TILES[0].places * TILES[0].depth) == 0 && shape.m * shape.n >= LARGE;
        let choices: Vec<_> = TILES[usize::from(!large)..].iter().map(choice).collect();
        plan.step_of(&choices, &[size, a, b, c]);
        plan.on_processors(&by_rows(whole), [n, m, CORNER].map(|size| size.div_ceil(CORNER).max(1)));
        Ok(plan)
    }
}
