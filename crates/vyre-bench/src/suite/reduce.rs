//! The sum of u32 elements, wrapping: by the textbook's tree, and tuned.

use super::{CHUNK, widest};
use crate::case::{
    Baseline, Benchmark, Bind, Case, OpKind, PLAIN, Step, Written, groups, program, random_words,
};
use rayon::prelude::*;
use vyre::algorithms::{Fold, Plan};

pub(super) static TREE: Benchmark = Benchmark {
    name: "tree",
    about: "sum by a tree over workgroup memory, one element a lane",
    unit: "elements",
    size: 1 << 24,
    tiny: 70_001,
    size_min: 1,
    size_max: 1 << 30,
    power: 1,
    make: tree,
    ops: |size, _| u64::from(size),
    kind: OpKind::U32,
    baselines: BASELINES,
};

pub(super) static SUM: Benchmark = Benchmark {
    name: "sum",
    about: "sum with 16 elements a lane, then by subgroups",
    make: sum_plan,
    ..TREE
};

const BASELINES: &[Baseline] = &[
    Baseline { label: PLAIN, run: |read, write| over_chunks(read, write, sum) },
    Baseline { label: "rust simd", run: |read, write| over_chunks(read, write, |x| widest(|| sum(x))) },
];

/// Levels that each leave one sum for 256 elements, until one is left.
fn tree(size: u32) -> Case {
    let mut writes = vec![Written::result(1)];
    let mut steps = Vec::new();
    let mut from = Bind::Read(0);
    let mut count = size;
    while steps.is_empty() || count > 1 {
        count = groups(count, 256);
        let to = if count > 1 { Bind::Write(writes.len()) } else { Bind::Write(0) };
        if count > 1 {
            writes.push(Written::between(count as usize));
        }
        steps.push(Step { program: 0, grid: [count, 1, 1], binds: vec![from, to], planned: None });
        from = to;
    }
    let programs = vec![program(include_str!("../../kernels/tree.vyre"))];
    Case { programs, reads: vec![random_words(7, size as usize)], writes, steps, bytes: 4 * u64::from(size) }
}

fn sum_plan(size: u32) -> Case {
    let plan = Plan::reduce::<u32>(Fold::Add, size as usize).expect("its size is checked");
    Case::of(plan, vec![random_words(7, size as usize)])
}

#[inline(always)]
fn sum(x: &[u32]) -> u32 {
    x.iter().fold(0, |sum, x| sum.wrapping_add(*x))
}

fn over_chunks(read: &[Vec<u32>], write: &mut [Vec<u32>], sum: impl Fn(&[u32]) -> u32 + Sync + Send) {
    let total = read[0].par_chunks(CHUNK).map(sum).reduce(|| 0, u32::wrapping_add);
    write[0][0] = total;
}
