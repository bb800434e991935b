//! y = a * x + y.

use super::{CHUNK, floats, floats_mut, widest};
use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, Written, groups, random_floats};
use rayon::prelude::*;

pub(super) static SAXPY: Benchmark = Benchmark {
    name: "saxpy",
    about: "y = a * x + y",
    unit: "elements",
    size: 1 << 24,
    tiny: 4099,
    size_min: 1,
    size_max: 1 << 30,
    power: 1,
    make,
    ops: |size, _| 2 * u64::from(size),
    kind: OpKind::F32,
    baselines: &[
        Baseline { label: PLAIN, run: |read, write| over_chunks(read, write, saxpy) },
        Baseline {
            label: "rust simd",
            run: |read, write| over_chunks(read, write, |a, x, y| widest(|| saxpy(a, x, y))),
        },
    ],
};

fn make(size: u32) -> Case {
    let count = size as usize;
    let reads = vec![vec![1.5f32.to_bits()], random_floats(1, count)];
    Case::single(
        include_str!("../../kernels/saxpy.vyre"),
        reads,
        Written::update(random_floats(2, count)),
        [groups(size, 256), 1, 1],
    )
}

#[inline(always)]
fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

fn over_chunks(read: &[Vec<u32>], write: &mut [Vec<u32>], saxpy: impl Fn(f32, &[f32], &mut [f32]) + Sync) {
    let a = f32::from_bits(read[0][0]);
    let (x, y) = (floats(&read[1]), floats_mut(&mut write[0]));
    y.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).for_each(|(y, x)| saxpy(a, x, y));
}
