//! c = a * b of bytes in i32, b by columns.

use super::widest;
use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, random_words};
use rayon::prelude::*;
use vyre::algorithms::{Plan, Shape};

pub(super) static MATMUL_I8: Benchmark = Benchmark {
    name: "matmul_i8",
    about: "square i8 matrices in i32, by tile products",
    unit: "rows",
    size: 512,
    tiny: 70,
    size_min: 1,
    size_max: 1 << 15,
    power: 3,
    make,
    ops: |size, _| 2 * u64::from(size).pow(3),
    kind: OpKind::U32,
    baselines: &[
        Baseline { label: PLAIN, run: |read, write| over_rows(read, write, dot) },
        Baseline {
            label: "rust simd",
            run: |read, write| over_rows(read, write, |a, b| widest(|| dot(a, b))),
        },
    ],
};

fn make(size: u32) -> Case {
    let side = size as usize;
    let plan = Plan::matmul_i8(Shape { m: side, n: side, k: side }).expect("its size is checked");
    let factor = |seed| random_words(seed, (side * side).div_ceil(4));
    Case::of(plan, vec![factor(15), factor(16)])
}

#[inline(always)]
fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

fn over_rows(read: &[Vec<u32>], write: &mut [Vec<u32>], dot: impl Fn(&[i8], &[i8]) -> i32 + Sync) {
    let n = write[0].len().isqrt();
    let [a, b] = [0, 1].map(|at| &bytemuck::cast_slice::<u32, i8>(&read[at])[..n * n]);
    write[0].par_chunks_mut(n).zip(a.par_chunks(n)).for_each(|(c, a)| {
        c.iter_mut().zip(b.chunks(n)).for_each(|(c, b)| *c = dot(a, b) as u32);
    });
}
