//! The benchmarks, each with its inputs, its kernels and its baselines.
//!
//! A baseline does the same arithmetic as the kernel, floats in the same order, so its results are equal to the last
//! bit. `rust` is what a good engineer writes first: idiomatic loops that the compiler can vectorise, on all cores by
//! rayon, built for the baseline instruction set. The second one is tuned: blocking, and this processor's widest vectors,
//! detected at run time.

mod compact;
mod dfa;
mod histogram;
mod mandelbrot;
mod math;
mod matmul;
mod matmul_i8;
mod mix;
mod ops;
mod reduce;
mod saxpy;
mod scan;
mod sha256;
mod sort;
mod stencil;

use crate::case::Benchmark;
pub use math::MATH;
use std::sync::LazyLock;

pub use ops::OPS;

/// All benchmarks, in the order in which they are shown.
pub static BENCHMARKS: [&Benchmark; 15] = [
    &saxpy::SAXPY,
    &mix::MIX,
    &mandelbrot::MANDELBROT,
    &matmul::MATMUL,
    &matmul::TILED,
    &matmul_i8::MATMUL_I8,
    &histogram::HISTOGRAM,
    &reduce::TREE,
    &reduce::SUM,
    &scan::SCAN,
    &compact::COMPACT,
    &sort::SORT,
    &sha256::SHA256,
    &dfa::DFA,
    &stencil::STENCIL,
];

/// Elements that one thread takes at a time: large enough to hide the hand-over, small enough for a level-2 cache.
const CHUNK: usize = 1 << 16;

/// Runs work as code for the widest vectors that this processor has: a closure whose loops the compiler vectorises, or one
/// written with vectors.
#[inline(always)]
pub(crate) fn widest<W: pulp::WithSimd>(work: W) -> W::Output {
    static ARCH: LazyLock<pulp::Arch> = LazyLock::new(pulp::Arch::new);
    ARCH.dispatch(work)
}

fn floats(words: &[u32]) -> &[f32] {
    bytemuck::cast_slice(words)
}

fn floats_mut(words: &mut [u32]) -> &mut [f32] {
    bytemuck::cast_slice_mut(words)
}
