//! Counts bytes by value.

use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, random_words};
use rayon::prelude::*;
use vyre::algorithms::Plan;

/// Bytes that one thread counts at a time.
const CHUNK_BYTES: usize = 1 << 20;

pub(super) static HISTOGRAM: Benchmark = Benchmark {
    name: "histogram",
    about: "bytes counted by value in workgroup memory",
    unit: "bytes",
    size: 1 << 26,
    tiny: 100_000,
    size_min: 4,
    size_max: u32::MAX - 3,
    power: 1,
    make,
    // An extraction and an addition.
    ops: |size, _| 2 * u64::from(size & !3),
    kind: OpKind::U32,
    baselines: &[Baseline { label: PLAIN, run: plain }, Baseline { label: "rust blocked", run: blocked }],
};

fn make(size: u32) -> Case {
    let plan = Plan::histogram(size as usize & !3).expect("its size is checked");
    Case::of(plan, vec![random_words(6, size as usize / 4)])
}

fn count(read: &[Vec<u32>], write: &mut [Vec<u32>], chunk: impl Fn(&mut [u32; 256], &[u8]) + Sync) {
    let bytes: &[u8] = bytemuck::cast_slice(&read[0]);
    let fold = |mut counts: [u32; 256], bytes: &[u8]| {
        chunk(&mut counts, bytes);
        counts
    };
    let add = |mut all: [u32; 256], counts: [u32; 256]| {
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
        all
    };
    let counts = bytes.par_chunks(CHUNK_BYTES).fold(|| [0; 256], fold).reduce(|| [0; 256], add);
    write[0].copy_from_slice(&counts);
}

fn plain(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    count(read, write, |counts, bytes| {
        for byte in bytes {
            counts[usize::from(*byte)] += 1;
        }
    });
}

/// Four tables, so that equal bytes in a row do not wait for each other.
fn blocked(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    count(read, write, |counts, bytes| {
        let mut tables = [[0u32; 256]; 4];
        let (fours, rest) = bytes.as_chunks::<4>();
        for four in fours {
            for (table, byte) in tables.iter_mut().zip(four) {
                table[usize::from(*byte)] += 1;
            }
        }
        for byte in rest {
            tables[0][usize::from(*byte)] += 1;
        }
        for (value, count) in counts.iter_mut().enumerate() {
            *count += tables.iter().map(|table| table[value]).sum::<u32>();
        }
    });
}
