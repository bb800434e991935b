//! `vyre-math check`: every f32 argument of the one-argument functions.

use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use std::path::PathBuf;
use vyre_foundation::math::{MathOp, OPS};
use vyre::host::Kernel;
use vyre_math::kernel::{drafted, patterns, run_patterns};
use vyre_math::oracle::{Oracle, oracle};

/// Arguments of one dispatch.
const CHUNK: u32 = 1 << 24;
const CHUNKS: u32 = (1 << 31) / (CHUNK / 2);
/// Wrong results that are shown for a function.
const SHOWN_MAX: usize = 400;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The functions; all of them where none is named.
    functions: Vec<String>,
    /// The backend that computes.
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// Only every Nth chunk, for a quick look.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Take the functions in f64 from this text instead of the library, without its hard cases.
    #[arg(long)]
    draft: Option<PathBuf>,
    /// Keep what is done in this file, and skip it.
    #[arg(long)]
    state: Option<PathBuf>,
}

/// A wrong result: the argument's bits, the result's, and the right ones.
struct Wrong {
    x: u32,
    got: u32,
    right: u32,
}

pub(crate) fn run(args: &Args) -> Result<bool, String> {
    let named = |op: &&MathOp| args.functions.is_empty() || args.functions.iter().any(|name| name == op.name);
    let mut all_right = true;
    if let Some(draft) = &args.draft {
        let text = std::fs::read_to_string(draft).map_err(|error| error.to_string())?;
        for name in &args.functions {
            let Some(Oracle::One(right, _)) = oracle(name) else { return Err(format!("no oracle for {name}")) };
            all_right &= one(args, name, &drafted(name, &text).map_err(|error| error.to_string())?, right)?;
        }
        return Ok(all_right);
    }
    for op in OPS.iter().filter(named) {
        if let Some(Oracle::One(right, _)) = oracle(op.name) {
            let kernel = patterns(op).map_err(|error| error.to_string())?;
            all_right &= one(args, op.name, &kernel, right)?;
        }
    }
    Ok(all_right)
}

fn one(args: &Args, name: &str, kernel: &Kernel, right: fn(f32) -> f32) -> Result<bool, String> {
    let bar = ProgressBar::new(u64::from(CHUNKS));
    bar.set_style(ProgressStyle::with_template("{prefix:8} {wide_bar} {pos}/{len} {elapsed} {msg}").unwrap());
    bar.set_prefix(name.to_string());
    let mut digest = blake3::Hasher::new();
    let mut wrong = Vec::new();
    let mut count = 0;
    for chunk in (0..CHUNKS).step_by(args.every) {
        let base = chunk * CHUNK;
        let got = run_patterns(kernel, &args.backend, base, CHUNK).map_err(|error| error.to_string())?;
        digest.update(&got);
        let found = compare(base, &got, right);
        count += found.len();
        wrong.extend(found.into_iter().take(SHOWN_MAX - wrong.len().min(SHOWN_MAX)));
        bar.set_message(format!("{count} wrong"));
        bar.inc(args.every as u64);
    }
    bar.finish_and_clear();
    let digest = digest.finalize().to_hex();
    anstream::println!("{:8} {count} wrong  {}", name, &digest[..16]);
    for Wrong { x, got, right } in &wrong {
        let (fx, fgot) = (f32::from_bits(*x), f32::from_bits(*got));
        anstream::println!("  {x:#010x}, {right:#010x}  got {got:#010x}  {fx:e} -> {fgot:e}");
    }
    Ok(count == 0)
}

fn compare(base: u32, got: &[u8], right: fn(f32) -> f32) -> Vec<Wrong> {
    const PART: usize = 1 << 14;
    let parts = got.par_chunks(4 * PART).enumerate();
    let wrong = parts.flat_map_iter(|(part, bytes)| {
        let first = base + (part * PART) as u32;
        bytes.chunks_exact(4).enumerate().filter_map(move |(at, bytes)| {
            let x = first + at as u32;
            let right = canonical(right(f32::from_bits(x)));
            let got = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            (got != right).then_some(Wrong { x, got, right })
        })
    });
    wrong.collect()
}

fn canonical(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}
