//! The number of steps until a point leaves the circle, at most 256.

use super::widest;
use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, Written, groups};
use rayon::prelude::*;

const STEPS: u32 = 256;

pub(super) static MANDELBROT: Benchmark = Benchmark {
    name: "mandelbrot",
    about: "up to 256 steps for each pixel",
    unit: "pixels a side",
    size: 2048,
    tiny: 33,
    size_min: 1,
    size_max: 1 << 15,
    power: 2,
    make,
    // Three products, five sums and a comparison a step; of the last one only what the comparison needs.
    ops: |_, results| {
        results[0].iter().map(|steps| 9 * u64::from(*steps) + 4 * u64::from(*steps < STEPS)).sum()
    },
    kind: OpKind::F32,
    baselines: &[Baseline { label: PLAIN, run: plain }, Baseline { label: "rust simd", run: simd }],
};

fn make(size: u32) -> Case {
    let view = [-2.0, -1.25, 2.5 / size as f32].map(f32::to_bits).to_vec();
    let pixels = size as usize * size as usize;
    let grid = [groups(size, 16), groups(size, 16), 1];
    Case::single(
        include_str!("../../kernels/mandelbrot.vyre"),
        vec![view, vec![size; 2]],
        Written::result(pixels),
        grid,
    )
}

struct View {
    left: f32,
    top: f32,
    pixel: f32,
    width: usize,
}

impl View {
    fn of(read: &[Vec<u32>]) -> View {
        let [left, top, pixel] = [0, 1, 2].map(|at: usize| f32::from_bits(read[0][at]));
        View { left, top, pixel, width: read[1][0] as usize }
    }

    fn x(&self, column: usize) -> f32 {
        self.left + column as f32 * self.pixel
    }

    fn y(&self, row: usize) -> f32 {
        self.top + row as f32 * self.pixel
    }
}

fn steps(cx: f32, cy: f32) -> u32 {
    let (mut x, mut y) = (0.0f32, 0.0f32);
    for step in 0..STEPS {
        let (xx, yy) = (x * x, y * y);
        if xx + yy > 4.0 {
            return step;
        }
        let xy = x * y;
        (x, y) = (xx - yy + cx, xy + xy + cy);
    }
    STEPS
}

fn plain(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let view = View::of(read);
    write[0].par_chunks_mut(view.width).enumerate().for_each(|(row, pixels)| {
        for (column, pixel) in pixels.iter_mut().enumerate() {
            *pixel = steps(view.x(column), view.y(row));
        }
    });
}

/// Lanes side by side until the last of them has left: one that left counts no more.
fn simd(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    const LANES: usize = 32;
    let view = View::of(read);
    write[0].par_chunks_mut(view.width).enumerate().for_each(|(row, pixels)| {
        widest(|| {
            let cy = view.y(row);
            let (blocks, rest) = pixels.as_chunks_mut::<LANES>();
            let first_of_rest = blocks.len() * LANES;
            for (block, counts) in blocks.iter_mut().enumerate() {
                let cx: [f32; LANES] = std::array::from_fn(|lane| view.x(block * LANES + lane));
                *counts = lanes(&cx, cy);
            }
            for (at, pixel) in rest.iter_mut().enumerate() {
                *pixel = steps(view.x(first_of_rest + at), cy);
            }
        })
    });
}

#[inline(always)]
fn lanes<const LANES: usize>(cx: &[f32; LANES], cy: f32) -> [u32; LANES] {
    /// Steps between two looks at whether any lane goes on.
    const STRIDE: u32 = 8;
    let (mut x, mut y) = ([0.0f32; LANES], [0.0f32; LANES]);
    let (mut active, mut counts) = ([1u32; LANES], [0u32; LANES]);
    for _ in 0..STEPS / STRIDE {
        for _ in 0..STRIDE {
            for lane in 0..LANES {
                let (xx, yy) = (x[lane] * x[lane], y[lane] * y[lane]);
                active[lane] &= u32::from(xx + yy <= 4.0);
                counts[lane] += active[lane];
                let xy = x[lane] * y[lane];
                x[lane] = xx - yy + cx[lane];
                y[lane] = xy + xy + cy;
            }
        }
        if active.iter().all(|active| *active == 0) {
            break;
        }
    }
    counts
}
