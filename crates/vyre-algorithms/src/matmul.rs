//! Products of matrices, by tiles in workgroup memory.
//!
//! A workgroup makes 128 by 128 elements of c. Slices of a and b, eight deep, pass through workgroup memory in two places: while
//! one is multiplied, the next is loaded. A lane keeps 8 by 8 sums, as four squares of 4 by 4, so that it reads four
//! adjacent elements at once.

use crate::plan::{Plan, Role, refused};
use crate::programs::{built, four};
use vyre_driver::BackendError;
use vyre_foundation::ir::builder::{Bounds, Kernel, Mem, ReadOnly, Shared, Val};
use vyre_foundation::ir::{Axis, Program};

/// The sizes of a product: a is m by k, b is k by n, c is m by n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of a and c.
    pub m: usize,
    /// Columns of b and c.
    pub n: usize,
    /// Columns of a, rows of b.
    pub k: usize,
}

/// Rows and columns of c that a workgroup makes.
pub(crate) const SIDE: u32 = 128;

impl Shape {
    /// The sizes as indices, if all places that a tile may ask for have one.
    pub(crate) fn sizes(self) -> Result<[u32; 3], BackendError> {
        let Shape { m, n, k } = self;
        let [tall, wide, deep] =
            [m, n, k].map(|size| size.next_multiple_of(SIDE as usize).saturating_add(SIDE as usize));
        let fits = |rows: usize, columns: usize| rows.checked_mul(columns).is_some_and(|all| all < 1 << 32);
        match fits(tall, deep) && fits(deep, wide) && fits(tall, wide) {
            true => Ok([m as u32, n as u32, k as u32]),
            false => refused(
                format!("a product of {m} x {k} and {k} x {n} elements is more than an index reaches"),
                "split it into blocks of rows and columns",
            ),
        }
    }

    /// The workgroups for a product.
    pub(crate) fn grid(self) -> [u32; 3] {
        [self.n, self.m, SIDE as usize].map(|size| (size.div_ceil(SIDE as usize)).max(1) as u32)
    }
}

/// Steps along k that pass through workgroup memory together.
const DEPTH: u32 = 8;
/// How far the columns of a slice of a are apart: four more than it has rows, so that the stores of lanes do not conflict.
const STRIDE: u32 = SIDE + 4;

/// Where a lane loads and stores.
struct Lane<'k> {
    k: &'k Kernel,
    whole: bool,
    /// Sizes; n and k over four where they are whole.
    m: Val<'k, u32>,
    n: Val<'k, u32>,
    depth: Val<'k, u32>,
    a: Mem<'k, f32, ReadOnly>,
    b: Mem<'k, f32, ReadOnly>,
    /// Two slices each: a by columns, b by rows.
    ta: Mem<'k, f32, Shared>,
    tb: Mem<'k, f32, Shared>,
    row0: Val<'k, u32>,
    column0: Val<'k, u32>,
    l: Val<'k, u32>,
}

impl<'k> Lane<'k> {
    /// `rows` times a row's length, seen to be a multiple of four where it is.
    fn rows(&self, rows: Val<'k, u32>, length: Val<'k, u32>) -> Val<'k, u32> {
        if self.whole { (rows * length) << 2 } else { rows * length }
    }

    /// A lane's share of the slice at `at` along k: four elements of a row of a, and of one of b.
    fn fetch(&self, at: Val<'k, u32>) -> [[Val<'k, f32>; 4]; 2] {
        let a_k = at + ((self.l & 1) << 2);
        let a_row = self.rows(self.row0 + (self.l >> 1), self.depth);
        let mut a = four(self.a, a_row + a_k);
        if !self.whole {
            // Elements after a row's end are not part of it. A product with -0.0 leaves every sum as it is, +0.0 would
            // not; b is +0.0 there, out of bounds.
            for (at, a) in (0u32..).zip(&mut a) {
                *a = (a_k + at).lt(self.depth).select(*a, -0.0f32);
            }
        }
        let b_row = self.rows(at + (self.l >> 5), self.n);
        [a, four(self.b, b_row + (self.column0 + ((self.l & 31) << 2)))]
    }

    /// Puts a share where the workgroup finds it, in the first or second place.
    fn place(&self, second: Val<'k, u32>, [a, b]: [[Val<'k, f32>; 4]; 2]) {
        let b_at = second * (DEPTH * SIDE) + (self.l << 2);
        for (at, b) in (0u32..).zip(b) {
            self.tb.put(b_at + at, b);
        }
        let a_at = second * (DEPTH * STRIDE) + ((self.l & 1) * (4 * STRIDE) + (self.l >> 1));
        for (at, a) in (0u32..).zip(a) {
            self.ta.put(a_at + at * STRIDE, a);
        }
    }

    /// The first of the four rows and columns that a lane has in a square.
    fn corner(&self) -> [Val<'k, u32>; 2] {
        [(self.l >> 4) << 2, (self.l & 15) << 2]
    }

    /// Adds the products of one slice to the sums, k ascending.
    fn multiply(&self, first: Val<'k, u32>, sums: &mut [Val<'k, f32>]) {
        let [row, column] = self.corner();
        let (a_at, b_at) = (first * (DEPTH * STRIDE) + row, first * (DEPTH * SIDE) + column);
        for step in 0..DEPTH {
            let halves = |from, at: Val<'k, u32>| [four(from, at), four(from, at + SIDE / 2)].concat();
            let a = halves(self.ta, a_at + step * STRIDE);
            let b = halves(self.tb, b_at + step * SIDE);
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum = a[at / 8].fma(b[at % 8], *sum);
            }
        }
    }

    /// Stores the sums that are within c.
    fn store(&self, c: impl Fn(Val<'k, u32>, Val<'k, f32>), sums: &[Val<'k, f32>]) {
        let [row, column] = self.corner();
        let width = if self.whole { self.n << 2 } else { self.n };
        for (at, four) in (0u32..).zip(sums.chunks(4)) {
            let row = self.row0 + row + (at / 2 % 4 + at / 8 * (SIDE / 2));
            let column = self.column0 + column + at % 2 * (SIDE / 2);
            let to = self.rows(row, self.n) + column;
            self.k.if_(row.lt(self.m) & column.lt(width), || {
                for (at, sum) in (0u32..).zip(four) {
                    match self.whole || at == 0 {
                        true => c(to + at, *sum),
                        false => self.k.if_((column + at).lt(width), || c(to + at, *sum)),
                    }
                }
            });
        }
    }
}

/// c = a * b. Whole means that a row of b has fours only and k has whole slices.
fn program(whole: bool) -> Program {
    built(if whole { "matmul_f32" } else { "matmul_f32_ragged" }, [256, 1, 1], |k| {
        let size = k.uniform::<u32>("size", 0).sized(3);
        let (a, b) = (k.read("a", 1), k.read("b", 2));
        let c = k.read_write::<f32>("c", 3).output();
        let (ta, tb) = (k.workgroup("ta", 2 * DEPTH * STRIDE), k.workgroup("tb", 2 * DEPTH * SIDE));
        let [row0, column0] = [Axis::Y, Axis::X].map(|axis| k.workgroup_id(axis) * SIDE);
        let [m, n, depth] = [0, 1, 2].map(|at| size.at(at));
        let lane = Lane { k, whole, m, n, depth, a, b, ta, tb, row0, column0, l: k.local_index() };

        let sums: Vec<_> = (0..64).map(|_| k.var(0.0f32)).collect();
        lane.place(k.val(0), lane.fetch(k.val(0)));
        k.barrier();
        let end = if whole { depth << 2 } else { depth };
        k.for_((0, end).step(DEPTH), |at| {
            let next = lane.fetch(at + DEPTH);
            let place = (at >> DEPTH.ilog2()) & 1;
            let mut so_far: Vec<_> = sums.iter().map(|sum| sum.get()).collect();
            lane.multiply(place, &mut so_far);
            sums.iter().zip(so_far).for_each(|(sum, value)| sum.set(value));
            lane.place(1 - place, next);
            k.barrier();
        });
        let sums: Vec<_> = sums.iter().map(|sum| sum.get()).collect();
        lane.store(|at, sum| c.put(at, sum), &sums);
    })
}

/// Rows and columns of c that a workgroup makes on processors.
const SQUARE: u32 = 16;

/// The same for processors: a lane for each element, whose rows and columns stay in caches.
fn naive(whole: bool) -> Program {
    let name = if whole { "matmul_f32_naive" } else { "matmul_f32_naive_ragged" };
    built(name, [SQUARE, SQUARE, 1], |k| {
        let size = k.uniform::<u32>("size", 0).sized(3);
        let (a, b) = (k.read::<f32>("a", 1), k.read::<f32>("b", 2));
        let c = k.read_write::<f32>("c", 3).output();
        let [m, n, depth] = [0, 1, 2].map(|at| size.at(at));
        let [n, depth] = [n, depth].map(|size| if whole { size << 2 } else { size });
        let (row, column) = (k.global_id(Axis::Y), k.global_id(Axis::X));
        k.if_(column.lt(n) & row.lt(m), || {
            let sum = k.var(0.0f32);
            k.for_((0, depth), |at| {
                sum.update(|sum| a.at(row * depth + at).fma(b.at(at * n + column), sum));
            });
            c.put(row * n + column, sum.get());
        });
    })
}

impl Plan {
    /// c = a * b in f32, by rows: each element is the fold of `fma(a, b, sum)` over k ascending, from +0.0. The inputs are a
    /// and b, the output is c.
    pub fn matmul(shape: Shape) -> Result<Plan, BackendError> {
        let [m, n, k] = shape.sizes()?;
        let mut plan = Plan::default();
        let a = plan.buffer(shape.m * shape.k * 4, Role::Input);
        let b = plan.buffer(shape.k * shape.n * 4, Role::Input);
        let c = plan.buffer(shape.m * shape.n * 4, Role::Output);
        let whole = n % 4 == 0 && k % DEPTH == 0;
        let size = plan.constant(&if whole { [m, n / 4, k / 4] } else { [m, n, k] });
        plan.step(&program(whole), shape.grid(), &[size, a, b, c]);
        plan.on_processors(&naive(whole), [n, m, SQUARE].map(|size| size.div_ceil(SQUARE).max(1)));
        Ok(plan)
    }
}
