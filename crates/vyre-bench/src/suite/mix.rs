//! 64 rounds of an integer mixing function.

use super::{CHUNK, widest};
use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, Written, groups, random_words};
use rayon::prelude::*;

const ROUNDS: u32 = 64;

pub(super) static MIX: Benchmark = Benchmark {
    name: "mix",
    about: "64 rounds of integer mixing",
    unit: "elements",
    size: 1 << 24,
    tiny: 1027,
    size_min: 1,
    size_max: 1 << 30,
    power: 1,
    make,
    // Three shifts, three exclusive ors, two products and a sum.
    ops: |size, _| 9 * u64::from(ROUNDS) * u64::from(size),
    kind: OpKind::U32,
    baselines: &[Baseline { label: PLAIN, run: plain }, Baseline { label: "rust simd", run: simd }],
};

fn make(size: u32) -> Case {
    let start = random_words(3, size as usize);
    Case::single(
        include_str!("../../kernels/mix.vyre"),
        Vec::new(),
        Written::update(start),
        [groups(size, 256), 1, 1],
    )
}

#[inline(always)]
fn round(x: u32, round: u32) -> u32 {
    let x = (x ^ x >> 16).wrapping_mul(0x85eb_ca6b);
    let x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
    (x ^ x >> 16).wrapping_add(round)
}

fn plain(_: &[Vec<u32>], write: &mut [Vec<u32>]) {
    write[0].par_iter_mut().for_each(|y| {
        for at in 0..ROUNDS {
            *y = round(*y, at);
        }
    });
}

/// Elements side by side, so that each round is a loop over lanes: the compiler vectorises inner loops only.
fn simd(_: &[Vec<u32>], write: &mut [Vec<u32>]) {
    const LANES: usize = 128;
    write[0].par_chunks_mut(CHUNK).for_each(|chunk| {
        widest(|| {
            let (blocks, rest) = chunk.as_chunks_mut::<LANES>();
            for block in blocks {
                let mut lanes = *block;
                for at in 0..ROUNDS {
                    lanes.iter_mut().for_each(|x| *x = round(*x, at));
                }
                *block = lanes;
            }
            rest.iter_mut().for_each(|y| *y = (0..ROUNDS).fold(*y, round));
        })
    });
}
