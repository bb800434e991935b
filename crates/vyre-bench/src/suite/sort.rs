//! Sorts u32 keys.

use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, random_words};
use rayon::prelude::*;
use vyre::algorithms::Plan;

pub(super) static SORT: Benchmark = Benchmark {
    name: "sort",
    about: "radix sort of u32 keys: four passes of eight bits",
    unit: "keys",
    size: 1 << 22,
    tiny: 5_001,
    size_min: 1,
    size_max: 1 << 30,
    power: 1,
    make: |size| {
        let plan = Plan::sort(size as usize, false).expect("its size is checked");
        Case::of(plan, vec![random_words(14, size as usize)])
    },
    // Four passes, each with a digit to take and a place to find.
    ops: |size, _| 8 * u64::from(size),
    kind: OpKind::U32,
    baselines: &[Baseline { label: PLAIN, run: plain }, Baseline { label: "rust radix", run: radix }],
};

fn plain(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    write[0].copy_from_slice(&read[0]);
    write[0].par_sort_unstable();
}

/// The same passes on one core.
fn radix(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let mut from = read[0].clone();
    for shift in [0, 8, 16, 24] {
        let digit = |key: u32| (key >> shift & 255) as usize;
        let mut places = [0usize; 257];
        from.iter().for_each(|key| places[digit(*key) + 1] += 1);
        (0..256).for_each(|digit| places[digit + 1] += places[digit]);
        for key in &from {
            let place = &mut places[digit(*key)];
            write[0][*place] = *key;
            *place += 1;
        }
        from.copy_from_slice(&write[0]);
    }
}
