//! Prefix sums of u32 elements, wrapping.

use super::CHUNK;
use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, random_words};
use rayon::prelude::*;
use vyre::algorithms::{Plan, Scan};

pub(super) static SCAN: Benchmark = Benchmark {
    name: "scan",
    about: "inclusive prefix sums: sums on the way up, scans on the way down",
    unit: "elements",
    size: 1 << 24,
    tiny: 70_001,
    size_min: 1,
    size_max: 1 << 30,
    power: 1,
    make,
    ops: |size, _| u64::from(size),
    kind: OpKind::U32,
    baselines: &[Baseline { label: PLAIN, run: plain }, Baseline { label: "rust blocked", run: blocked }],
};

fn make(size: u32) -> Case {
    let plan = Plan::scan::<u32>(Scan::Inclusive, size as usize).expect("its size is checked");
    Case::of(plan, vec![random_words(8, size as usize)])
}

fn sum(x: &[u32]) -> u32 {
    x.iter().fold(0, |sum, x| sum.wrapping_add(*x))
}

fn scan(mut sum: u32, x: &[u32], y: &mut [u32]) {
    for (y, x) in y.iter_mut().zip(x) {
        sum = sum.wrapping_add(*x);
        *y = sum;
    }
}

/// The sum before each chunk of `x`, from `start` on; and the sum of all.
fn offsets(start: u32, x: &[u32], chunk: usize) -> (Vec<u32>, u32) {
    let mut sums: Vec<u32> = x.par_chunks(chunk).map(sum).collect();
    let mut before = start;
    for sum in &mut sums {
        let next = before.wrapping_add(*sum);
        *sum = std::mem::replace(&mut before, next);
    }
    (sums, before)
}

/// Two passes: sums of chunks, then each chunk from the sum before it.
fn plain(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    stretch(0, &read[0], &mut write[0], CHUNK);
}

/// Stretches that stay in the caches between the passes.
fn blocked(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let stretch_len = CHUNK * rayon::current_num_threads();
    let mut before = 0;
    for (x, y) in read[0].chunks(stretch_len).zip(write[0].chunks_mut(stretch_len)) {
        before = stretch(before, x, y, CHUNK);
    }
}

fn stretch(start: u32, x: &[u32], y: &mut [u32], chunk: usize) -> u32 {
    let (offsets, end) = offsets(start, x, chunk);
    let chunks = y.par_chunks_mut(chunk).zip(x.par_chunks(chunk)).zip(offsets);
    chunks.for_each(|((y, x), offset)| scan(offset, x, y));
    end
}
