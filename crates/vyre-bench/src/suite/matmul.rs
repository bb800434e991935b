//! c = a * b, products added from left to right.

use super::{floats, floats_mut, widest};
use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, Written, groups, random_floats};
use rayon::prelude::*;

pub(super) static MATMUL: Benchmark = Benchmark {
    name: "matmul",
    about: "square f32 matrices, the naive kernel",
    unit: "rows",
    size: 512,
    tiny: 37,
    size_min: 1,
    size_max: 1 << 14,
    power: 3,
    kernels: &[include_str!("../../kernels/matmul.vyre")],
    make,
    ops: |size, _| 2 * u64::from(size).pow(3),
    kind: OpKind::F32,
    baselines: &[Baseline { label: PLAIN, run: plain }, Baseline { label: "rust blocked", run: blocked }],
};

fn make(size: u32) -> Case {
    let elements = size as usize * size as usize;
    let reads = vec![vec![size], random_floats(4, elements), random_floats(5, elements)];
    let grid = [groups(size, 16), groups(size, 16), 1];
    Case::single(reads, Written::result(elements), grid)
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

const ROWS: usize = 4;
const COLUMNS: usize = 64;

/// A tile of c stays in registers while a's columns and b's rows pass.
fn blocked(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let n = read[0][0] as usize;
    let (a, b, c) = (floats(&read[1]), floats(&read[2]), floats_mut(&mut write[0]));
    c.par_chunks_mut(n * ROWS).zip(a.par_chunks(n * ROWS)).for_each(|(c, a)| {
        widest(|| {
            for first in (0..n).step_by(COLUMNS) {
                match (c.len() == n * ROWS, n - first >= COLUMNS) {
                    (true, true) => tile(n, first, a, b, c),
                    _ => edge(n, first..n.min(first + COLUMNS), a, b, c),
                }
            }
        })
    });
}

#[inline(always)]
fn tile(n: usize, first: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    let mut sums = [[0.0f32; COLUMNS]; ROWS];
    for l in 0..n {
        let b: &[f32; COLUMNS] = b[l * n + first..].first_chunk().expect("the tile is whole");
        for (row, sums) in sums.iter_mut().enumerate() {
            let a = a[row * n + l];
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        c[row * n + first..][..COLUMNS].copy_from_slice(sums);
    }
}

#[inline(always)]
fn edge(n: usize, columns: std::ops::Range<usize>, a: &[f32], b: &[f32], c: &mut [f32]) {
    for (c, a) in c.chunks_mut(n).zip(a.chunks(n)) {
        for column in columns.clone() {
            c[column] = a.iter().enumerate().fold(0.0, |sum, (l, a)| sum + a * b[l * n + column]);
        }
    }
}
