//! c = a * b, products added from left to right.

use super::{floats, floats_mut, widest};
use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, Written, groups, random_floats};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use vyre::algorithms::{Plan, Shape};

pub(super) static MATMUL: Benchmark = Benchmark {
    name: "matmul",
    about: "square f32 matrices, the naive kernel",
    unit: "rows",
    size: 512,
    tiny: 37,
    size_min: 1,
    size_max: 1 << 14,
    power: 3,
    make,
    ops: |size, _| 2 * u64::from(size).pow(3),
    kind: OpKind::F32,
    baselines: &[
        Baseline { label: PLAIN, run: plain },
        Baseline {
            label: "rust blocked",
            run: |read, write| bands::<false>(&read[1], &read[2], &mut write[0]),
        },
    ],
};

pub(super) static TILED: Benchmark = Benchmark {
    name: "matmul_tiled",
    about: "square f32 matrices by tiles in workgroup memory, fused",
    tiny: 137,
    make: |size| {
        let side = size as usize;
        let plan = Plan::matmul(Shape { m: side, n: side, k: side }).expect("its size is checked");
        Case::of(plan, vec![random_floats(4, side * side), random_floats(5, side * side)])
    },
    baselines: &[
        Baseline { label: PLAIN, run: plain_fused },
        Baseline {
            label: "rust blocked",
            run: |read, write| bands::<true>(&read[0], &read[1], &mut write[0]),
        },
    ],
    ..MATMUL
};

fn make(size: u32) -> Case {
    let elements = size as usize * size as usize;
    let reads = vec![vec![size], random_floats(4, elements), random_floats(5, elements)];
    let grid = [groups(size, 16), groups(size, 16), 1];
    Case::single(include_str!("../../kernels/matmul.vyre"), reads, Written::result(elements), grid)
}

/// A row of c at a time: rows of b are added to it, each times an element of a, so that the inner loop is contiguous.
fn plain(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let n = read[0][0] as usize;
    let (a, b, c) = (floats(&read[1]), floats(&read[2]), floats_mut(&mut write[0]));
    c.par_chunks_mut(n).zip(a.par_chunks(n)).for_each(|(c, a)| {
        c.fill(0.0);
        for (a, b) in a.iter().zip(b.chunks(n)) {
            for (c, b) in c.iter_mut().zip(b) {
                *c += a * b;
            }
        }
    });
}

/// The same with one rounding for product and sum, in the code of a processor that has an instruction for it.
fn plain_fused(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let (a, b, c) = (floats(&read[0]), floats(&read[1]), floats_mut(&mut write[0]));
    let n = a.len().isqrt();
    c.par_chunks_mut(n).zip(a.par_chunks(n)).for_each(|(c, a)| {
        widest(|| {
            c.fill(0.0);
            for (a, b) in a.iter().zip(b.chunks(n)) {
                for (c, b) in c.iter_mut().zip(b) {
                    *c = a.mul_add(*b, *c);
                }
            }
        });
    });
}

/// Rows of a tile, and its columns in vectors: their sums fill half of the widest registers.
const ROWS: usize = 4;
const VECTORS: usize = 4;

/// A tile of c stays in registers while a's columns and b's rows pass.
fn bands<const FUSED: bool>(a: &[u32], b: &[u32], c: &mut [u32]) {
    let n = a.len().isqrt();
    let (a, b, c) = (floats(a), floats(b), floats_mut(c));
    let bands = c.par_chunks_mut(n * ROWS).zip(a.par_chunks(n * ROWS));
    bands.for_each(|(c, a)| widest(Band::<FUSED> { n, a, b, c }));
}

/// Up to four rows of a and c, and all of b. Left to itself the compiler keeps the sums in memory, so vectors are spelled out.
struct Band<'m, const FUSED: bool> {
    n: usize,
    a: &'m [f32],
    b: &'m [f32],
    c: &'m mut [f32],
}

impl<const FUSED: bool> WithSimd for Band<'_, FUSED> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Band { n, a, b, c } = self;
        let columns = VECTORS * S::F32_LANES;
        let mut first = 0;
        while c.len() == n * ROWS && n - first >= columns {
            let sums = tile::<S, FUSED>(simd, n, a, &b[first..]);
            for (row, sums) in sums.iter().enumerate() {
                let c = &mut c[row * n + first..][..columns];
                S::as_mut_simd_f32s(c).0.copy_from_slice(sums);
            }
            first += columns;
        }
        edge::<FUSED>(n, first..n, a, b, c);
    }
}

/// The sums of a tile; `b` starts with its first column.
#[inline(always)]
fn tile<S: Simd, const FUSED: bool>(simd: S, n: usize, a: &[f32], b: &[f32]) -> [[S::f32s; VECTORS]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    for l in 0..n {
        let b: &[S::f32s; VECTORS] = S::as_simd_f32s(&b[l * n..]).0.first_chunk().expect("the tile is whole");
        for (row, sums) in sums.iter_mut().enumerate() {
            let a = simd.splat_f32s(a[row * n + l]);
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum = match FUSED {
                    true => simd.mul_add_f32s(a, *b, *sum),
                    false => simd.add_f32s(*sum, simd.mul_f32s(a, *b)),
                };
            }
        }
    }
    sums
}

#[inline(always)]
fn edge<const FUSED: bool>(n: usize, columns: std::ops::Range<usize>, a: &[f32], b: &[f32], c: &mut [f32]) {
    for (c, a) in c.chunks_mut(n).zip(a.chunks(n)) {
        for column in columns.clone() {
            let next = |sum, a: &f32, b: f32| if FUSED { a.mul_add(b, sum) } else { sum + a * b };
            c[column] = a.iter().enumerate().fold(0.0, |sum, (l, a)| next(sum, a, b[l * n + column]));
        }
    }
}
