//! One step of heat flow on a plate.

use super::{floats, floats_mut, widest};
use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, Written, groups, random_floats};
use rayon::prelude::*;

pub(super) static STENCIL: Benchmark = Benchmark {
    name: "stencil",
    about: "five-point stencil on a square of f32",
    unit: "cells a side",
    size: 4096,
    tiny: 67,
    size_min: 1,
    size_max: 1 << 15,
    power: 2,
    make,
    ops: |size, _| 7 * u64::from(size.saturating_sub(2)).pow(2),
    kind: OpKind::F32,
    baselines: &[
        Baseline { label: PLAIN, run: |read, write| over_rows(read, write, 1, inner) },
        Baseline {
            label: "rust blocked",
            run: |read, write| over_rows(read, write, 32, |rows, new| widest(|| inner(rows, new))),
        },
    ],
};

fn make(size: u32) -> Case {
    let cells = size as usize * size as usize;
    let reads = vec![vec![size; 2], random_floats(9, cells)];
    Case::single(
        include_str!("../../kernels/stencil.vyre"),
        reads,
        Written::result(cells),
        [groups(size, 64), groups(size, 4), 1],
    )
}

/// The row above, the row itself and the row below.
type Rows<'r> = [&'r [f32]; 3];

#[inline(always)]
fn inner([north, row, south]: Rows<'_>, new: &mut [f32]) {
    let last = row.len() - 1;
    let (west, centre, east) = (&row[..last - 1], &row[1..last], &row[2..]);
    let around = north[1..last].iter().zip(&south[1..last]).zip(west.iter().zip(east));
    for ((new, centre), ((n, s), (w, e))) in new[1..last].iter_mut().zip(centre).zip(around) {
        let mean = ((n + s) + (w + e)) * 0.25;
        *new = centre + (mean - centre) * 0.5;
    }
}

/// The step over bands of `band` rows each.
fn over_rows(
    read: &[Vec<u32>],
    write: &mut [Vec<u32>],
    band: usize,
    inner: impl Fn(Rows<'_>, &mut [f32]) + Sync,
) {
    let [width, height] = [0, 1].map(|axis: usize| read[0][axis] as usize);
    let (old, new) = (floats(&read[1]), floats_mut(&mut write[0]));
    let row = |y: usize| &old[y * width..][..width];
    new.par_chunks_mut(width * band).enumerate().for_each(|(at, rows)| {
        for (below, new) in rows.chunks_mut(width).enumerate() {
            let y = at * band + below;
            if y == 0 || y == height - 1 || width < 3 {
                new.copy_from_slice(row(y));
                continue;
            }
            (new[0], new[width - 1]) = (row(y)[0], row(y)[width - 1]);
            inner([row(y - 1), row(y), row(y + 1)], new);
        }
    });
}
