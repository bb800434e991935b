//! Stream compaction: the elements that a flag keeps.

use super::CHUNK;
use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, random, random_words, words};
use rayon::prelude::*;
use vyre::algorithms::Plan;

pub(super) static COMPACT: Benchmark = Benchmark {
    name: "compact",
    about: "elements whose flag is set, in their order: every other one on average",
    unit: "elements",
    size: 1 << 24,
    tiny: 10_001,
    size_min: 1,
    size_max: 1 << 30,
    power: 1,
    make,
    // A test and a place.
    ops: |size, _| 2 * u64::from(size),
    kind: OpKind::U32,
    baselines: &[
        Baseline { label: PLAIN, run: |read, write| over_chunks(read, write, plain) },
        Baseline { label: "rust blocked", run: |read, write| over_chunks(read, write, without_branches) },
    ],
};

fn make(size: u32) -> Case {
    let len = size as usize;
    let keep: Vec<u8> = (0..len).map(|at| random(13, at) as u8 & 1).collect();
    let plan = Plan::compact::<u32>(len).expect("its size is checked");
    Case::of(plan, vec![random_words(12, len), words(&keep)])
}

fn plain(x: &[u32], keep: &[u8], y: &mut [u32]) {
    let kept = x.iter().zip(keep).filter(|(_, keep)| **keep != 0);
    y.iter_mut().zip(kept).for_each(|(y, (x, _))| *y = *x);
}

/// Stores every element and moves on where it counts.
fn without_branches(x: &[u32], keep: &[u8], y: &mut [u32]) {
    let mut all = vec![0; x.len() + 1];
    let mut at = 0;
    for (x, keep) in x.iter().zip(keep) {
        all[at] = *x;
        at += usize::from(*keep != 0);
    }
    y.copy_from_slice(&all[..at]);
}

/// Counts what each chunk keeps, then fills each chunk's part of the result.
fn over_chunks(read: &[Vec<u32>], write: &mut [Vec<u32>], fill: impl Fn(&[u32], &[u8], &mut [u32]) + Sync) {
    let (x, keep) = (&read[0], &bytemuck::cast_slice::<u32, u8>(&read[1])[..read[0].len()]);
    let count = |keep: &[u8]| keep.iter().filter(|keep| **keep != 0).count();
    let counts: Vec<usize> = keep.par_chunks(CHUNK).map(count).collect();
    let (y, kept) = write.split_at_mut(1);
    let mut rest = y[0].as_mut_slice();
    let mut parts = Vec::new();
    for count in &counts {
        parts.push(rest.split_off_mut(..*count).expect("no more are kept than there are"));
    }
    let chunks = parts.into_par_iter().zip(x.par_chunks(CHUNK)).zip(keep.par_chunks(CHUNK));
    chunks.for_each(|((y, x), keep)| fill(x, keep, y));
    kept[0][0] = counts.iter().sum::<usize>() as u32;
}
