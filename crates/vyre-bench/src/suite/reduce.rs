//! The sum of u32 elements, wrapping: by the textbook's tree, and as it is written for speed.

use super::{CHUNK, widest};
use crate::case::{Baseline, Benchmark, Bind, Case, OpKind, PLAIN, Step, Written, groups, random_words};
use rayon::prelude::*;

pub(super) static TREE: Benchmark = Benchmark {
    name: "tree",
    about: "sum by a tree over workgroup memory, one element a lane",
    unit: "elements",
    size: 1 << 24,
    tiny: 70_001,
    size_min: 1,
    size_max: 1 << 30,
    power: 1,
    kernels: &[include_str!("../../kernels/tree.vyre")],
    make: |size| make(size, 256),
    ops: |size, _| u64::from(size),
    kind: OpKind::U32,
    baselines: BASELINES,
};

pub(super) static SUM: Benchmark = Benchmark {
    name: "sum",
    about: "sum with 16 elements a lane, then by subgroups",
    kernels: &[include_str!("../../kernels/sum.vyre")],
    make: |size| make(size, 4096),
    ..TREE
};

const BASELINES: &[Baseline] = &[
    Baseline { label: PLAIN, run: |read, write| over_chunks(read, write, sum) },
    Baseline { label: "rust simd", run: |read, write| over_chunks(read, write, |x| widest(|| sum(x))) },
];

/// Levels that each leave one sum for `each` elements, until one is left.
fn make(size: u32, each: u32) -> Case {
    let mut writes = Vec::new();
    let mut steps = Vec::new();
    let mut from = Bind::Read(0);
    let mut count = size;
    loop {
        count = groups(count, each);
        let to = Bind::Write(writes.len());
        writes.push(if count > 1 { Written::between(count as usize) } else { Written::result(1) });
        steps.push(Step { kernel: 0, grid: [count, 1, 1], binds: vec![from, to] });
        from = to;
        if count <= 1 {
            return Case {
                reads: vec![random_words(7, size as usize)],
                writes,
                steps,
                bytes: 4 * u64::from(size),
            };
        }
    }
}

#[inline(always)]
fn sum(x: &[u32]) -> u32 {
    x.iter().fold(0, |sum, x| sum.wrapping_add(*x))
}

fn over_chunks(read: &[Vec<u32>], write: &mut [Vec<u32>], sum: impl Fn(&[u32]) -> u32 + Sync + Send) {
    let total = read[0].par_chunks(CHUNK).map(sum).reduce(|| 0, u32::wrapping_add);
    write.last_mut().expect("a level leaves the sum")[0] = total;
}
