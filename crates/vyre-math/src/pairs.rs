//! Functions of two arguments: all pairs of special values, and random ones.

use crate::check::{Args, progress};
use rayon::prelude::*;
use vyre::host::Kernel;
use vyre::ir::DataType;
use vyre::math::MathOp;
use vyre_math::canonical;
use vyre_math::kernel::{drafted, elements};
use vyre_math::special;

/// Pairs of one dispatch.
const CHUNK: usize = 1 << 22;

pub(crate) fn check(args: &Args, op: &'static MathOp, right: fn(f32, f32) -> f32) -> Result<bool, String> {
    let kernel = match &args.draft {
        None => elements(op, DataType::F32),
        Some(draft) => {
            let text =
                std::fs::read_to_string(draft).map_err(|error| format!("{}: {error}", draft.display()))?;
            drafted(op, &text)
        }
    };
    let kernel = kernel.map_err(|error| error.to_string())?;
    let values = special::values();
    let special = values.iter().flat_map(|x| values.iter().map(|y| (*x, *y))).collect();
    let mut wrong = compare(args, &kernel, special, right)?;
    let chunks = args.pairs.div_ceil(CHUNK as u64);
    let bar = progress(op.name, chunks);
    for chunk in 0..chunks {
        let pairs = (0..CHUNK as u64).into_par_iter().map(|at| random(op.name, chunk * CHUNK as u64 + at));
        wrong += compare(args, &kernel, pairs.collect(), right)?;
        bar.set_message(format!("{wrong} wrong"));
        bar.inc(1);
    }
    bar.finish_and_clear();
    anstream::println!(
        "{} {} pairs  {wrong} wrong",
        op.name,
        chunks * CHUNK as u64 + values.len().pow(2) as u64
    );
    Ok(wrong == 0)
}

/// The pair with that number: of all exponents, or for powers such that the result is mostly finite, or of near size, or
/// small whole numbers, where exact cases are.
fn random(name: &str, number: u64) -> (f32, f32) {
    let a = mix(number);
    let b = mix(a ^ number.rotate_left(32));
    let (x, y) = (f32::from_bits(a as u32), f32::from_bits((a >> 32) as u32));
    match b % 8 {
        0 | 1 => (x, y),
        2 | 3 if name == "pow" => {
            let x = x.abs();
            let scale = 300.0 * (((b >> 32) as f32) / (1u64 << 31) as f32 - 1.0);
            (x, scale / x.log2())
        }
        // Whole and half numbers.
        4 => (((a >> 8) % 4096) as f32, ((b >> 8) % 64) as f32 / 2.0 - 8.0),
        5 => (((a >> 8) % (1 << 24)) as f32 / 1024.0, ((b >> 8) % 4096) as f32 / 32.0),
        // Exponents within a few binades of each other.
        _ => (x, f32::from_bits((x.to_bits() & 0x7f00_0000).wrapping_add(b as u32 & 0x87ff_ffff))),
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

fn compare(
    args: &Args,
    kernel: &Kernel,
    pairs: Vec<(f32, f32)>,
    right: fn(f32, f32) -> f32,
) -> Result<usize, String> {
    let (xs, ys): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
    let launch = kernel.launch().backend(&args.backend).input("x", &xs).input("y", &ys);
    let grid = [(xs.len() as u32).div_ceil(256), 1, 1];
    let output = launch.size("r", xs.len() as u64).grid(grid).run().map_err(|error| error.to_string())?;
    let got = output.get::<f32>("r").map_err(|error| error.to_string())?;
    let wrong = xs.par_iter().zip(&ys).zip(&got).filter(|((x, y), got)| {
        let right = canonical(right(**x, **y));
        let wrong = canonical(**got) != right;
        if wrong {
            anstream::println!("  {x:e}, {y:e} gives {got:e}, not {:e}", f32::from_bits(right));
        }
        wrong
    });
    Ok(wrong.count())
}
