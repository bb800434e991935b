//! `vyre-math bench`: arguments a second on a backend, beside core-math and the C library in loops on all cores.

use rayon::prelude::*;
use std::time::{Duration, Instant};
use vyre::ir::DataType;
use vyre::math::OPS;
use vyre_math::canonical;
use vyre_math::kernel::elements;
use vyre_math::oracle::{Oracle, oracle};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The functions; all of them where none is named.
    functions: Vec<String>,
    /// The backend that computes.
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// How many arguments.
    #[arg(long, default_value_t = 1 << 22)]
    count: usize,
}

/// The C library's functions, as Rust's standard library calls them.
fn libm(name: &str) -> Option<fn(f32) -> f32> {
    Some(match name {
        "exp" => f32::exp,
        "exp2" => f32::exp2,
        "expm1" => f32::exp_m1,
        "log" => f32::ln,
        "log2" => f32::log2,
        "log10" => f32::log10,
        "log1p" => f32::ln_1p,
        "sin" => f32::sin,
        "cos" => f32::cos,
        "tan" => f32::tan,
        "asin" => f32::asin,
        "acos" => f32::acos,
        "atan" => f32::atan,
        "sinh" => f32::sinh,
        "cosh" => f32::cosh,
        "tanh" => f32::tanh,
        "cbrt" => f32::cbrt,
        _ => return None,
    })
}

/// Arguments that programs have: between 0 and 1 where the function wants that, else of both signs and a few binades.
fn arguments(name: &str, count: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let unit = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 24) as f32
    });
    let place = |u: f32| match name {
        "asin" | "acos" | "atanh" => 2.0 * u - 1.0,
        "log" | "log2" | "log10" | "rsqrt" => 100.0 * u + 1e-6,
        "acosh" => 100.0 * u + 1.0,
        _ => 20.0 * u - 10.0,
    };
    unit.take(count).map(place).collect()
}

pub(crate) fn run(args: &Args) -> Result<bool, String> {
    anstream::println!(
        "{:10} {:>10} {:>10} {:>10}  million arguments a second",
        "",
        args.backend,
        "core-math",
        "libm"
    );
    let named = |name: &str| args.functions.is_empty() || args.functions.iter().any(|wanted| wanted == name);
    for op in OPS.iter().filter(|op| op.operands == 1 && named(op.name)) {
        let xs = arguments(op.name, args.count);
        let ours = ours(args, op.name, &xs)?;
        let per_second = |time: Duration| args.count as f64 / time.as_secs_f64() / 1e6;
        let native = |f: Option<fn(f32) -> f32>| {
            f.map_or("-".into(), |f| format!("{:.0}", per_second(best(|| map(f, &xs)))))
        };
        let core = match oracle(op.name) {
            Some(Oracle::One(f, _)) => Some(f),
            _ => None,
        };
        anstream::println!(
            "{:10} {:>10.0} {:>10} {:>10}",
            op.name,
            per_second(ours),
            native(core),
            native(libm(op.name))
        );
    }
    Ok(true)
}

fn map(f: fn(f32) -> f32, xs: &[f32]) -> Duration {
    let mut out = vec![0.0; xs.len()];
    let start = Instant::now();
    out.par_chunks_mut(1 << 14).zip(xs.par_chunks(1 << 14)).for_each(|(out, xs)| {
        out.iter_mut().zip(xs).for_each(|(out, x)| *out = f(*x));
    });
    let time = start.elapsed();
    std::hint::black_box(out.iter().fold(0, |sum: u32, r| sum.wrapping_add(canonical(*r))));
    time
}

fn best(mut run: impl FnMut() -> Duration) -> Duration {
    (0..5).map(|_| run()).min().unwrap_or_default()
}

/// The time that the device spends, or where it is not known the whole run's.
fn ours(args: &Args, name: &str, xs: &[f32]) -> Result<Duration, String> {
    let op = OPS.iter().find(|op| op.name == name).ok_or("no such function")?;
    let kernel = elements(op, DataType::F32).map_err(|error| error.to_string())?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let launch = kernel.launch().backend(&args.backend).input("x", xs).size("r", xs.len() as u64);
        let output = launch.run().map_err(|error| error.to_string())?;
        times.push(output.timing().device.unwrap_or(output.timing().wall));
    }
    Ok(times.into_iter().min().unwrap_or_default())
}
