//! `vyre-math check`: results against core-math's, every f32 argument of one-argument functions, many pairs of the others,
//! every f16 and bf16, and how far f64 is off.
//!
//! If the digest of a sweep is the one that `digests.txt` has for correct results, the results are the same
//! to the last bit, and no oracle is needed.

use crate::pairs;
use crate::sweep::{Sweep, Swept, Wrong, append};
use std::path::PathBuf;
use vyre::host::{Error, Kernel};
use vyre::ir::DataType;
use vyre::math::{MathOp, OPS};
use vyre_math::kernel::{drafted, elements, patterns, run_patterns};
use vyre_math::oracle::{Oracle, oracle};
use vyre_math::ulp::worst;
use vyre_math::{canonical, narrow};

/// Arguments of one dispatch.
const CHUNK: u32 = 1 << 24;
const CHUNKS: u32 = 256;
/// f64 arguments for each function.
const WIDE: usize = 1 << 22;
/// The digests of results that were all right: a function, how many arguments, the digest.
const DIGESTS: &str = include_str!("../digests.txt");

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The functions; all of them where none is named.
    pub(crate) functions: Vec<String>,
    /// The backend that computes.
    #[arg(long, default_value = "cpu")]
    pub(crate) backend: String,
    /// Only this type, or several: f16, bf16, f32, f64; with `--digest` it is f32.
    #[arg(long = "type")]
    types: Vec<String>,
    /// Compare digests with those of checked results instead of asking the oracle.
    #[arg(long)]
    digest: bool,
    /// Keep what is done in this file, and go on from it.
    #[arg(long)]
    pub(crate) state: Option<PathBuf>,
    /// Append the digests of functions that are all right to this file: `crates/vyre-math/digests.txt`.
    #[arg(long)]
    record: Option<PathBuf>,
    /// Only every Nth f32 argument and an Nth of the pairs, for a quick look. N is a power of two up to 256.
    #[arg(long, default_value_t = 1, value_parser = step)]
    every: u32,
    /// Random pairs for each function of two arguments.
    #[arg(long, default_value_t = 1 << 30)]
    pub(crate) pairs: u64,
    /// Take the functions in f64 from this text instead of the library, without the hard cases.
    #[arg(long)]
    pub(crate) draft: Option<PathBuf>,
}

fn step(text: &str) -> Result<u32, String> {
    let step = text.parse().ok().filter(|step: &u32| step.is_power_of_two() && *step <= CHUNKS);
    step.ok_or_else(|| "write 1, 2, 4, 8, 16, 32, 64, 128 or 256".to_string())
}

pub(crate) fn run(args: &Args) -> Result<bool, String> {
    let known = |name: &&String| MathOp::from_name(name).is_none();
    if let Some(name) = args.functions.iter().find(known) {
        return Err(format!("there is no function `{name}`\n  Fix: `vyre ops` lists them"));
    }
    let named = |op: &&MathOp| args.functions.is_empty() || args.functions.iter().any(|name| name == op.name);
    let types = types(args)?;
    let mut all_right = true;
    for op in OPS.iter().filter(named) {
        for ty in &types {
            all_right &= match ty {
                DataType::F32 => f32_results(args, op)?,
                DataType::F64 => wide(args, op)?,
                _ => short(args, op, *ty)?,
            };
        }
    }
    Ok(all_right)
}

fn types(args: &Args) -> Result<Vec<DataType>, String> {
    let floats = [DataType::F32, DataType::F16, DataType::BF16, DataType::F64];
    if args.types.is_empty() {
        return Ok(if args.digest { vec![DataType::F32] } else { floats.to_vec() });
    }
    let named = |name: &String| {
        let ty = DataType::from_name(name).filter(|ty| floats.contains(ty));
        ty.ok_or_else(|| format!("there are no functions of `{name}`\n  Fix: name f16, bf16, f32 or f64"))
    };
    args.types.iter().map(named).collect()
}

fn kernel(args: &Args, op: &'static MathOp) -> Result<Kernel, String> {
    let kernel = match &args.draft {
        Some(draft) => {
            let text =
                std::fs::read_to_string(draft).map_err(|error| format!("{}: {error}", draft.display()))?;
            drafted(op, &text)
        }
        None if op.operands == 1 => patterns(op),
        None => elements(op, DataType::F32),
    };
    kernel.map_err(|error| error.to_string())
}

fn f32_results(args: &Args, op: &'static MathOp) -> Result<bool, String> {
    let kernel = kernel(args, op)?;
    let oracle = oracle(op.name).filter(|_| !args.digest);
    let (count, swept) = match op.operands {
        1 => (u64::from(CHUNK) * u64::from(CHUNKS / args.every), one(args, op, &kernel, oracle)?),
        _ => {
            let count = args.pairs / u64::from(args.every);
            (count, pairs::sweep(args, op, &kernel, count, oracle)?)
        }
    };
    // Functions without an oracle are functions of those that have one; their digests must be equal everywhere.
    let checked = swept.wrong == 0 && !args.digest;
    if let Some(path) = args.record.as_ref().filter(|_| checked) {
        append(path, &format!("{} {count} {}", op.name, swept.digest))?;
    }
    Ok(report(args, op.name, count, &swept))
}

fn one(args: &Args, op: &'static MathOp, kernel: &Kernel, oracle: Option<Oracle>) -> Result<Swept, String> {
    let sweep = Sweep {
        name: op.name,
        key: format!("{} {} {}", op.name, args.backend, args.every),
        chunks: CHUNKS / args.every,
    };
    let compute = |chunk: u32| {
        // Between the steps the arguments are another one each time.
        let place = [chunk.wrapping_mul(CHUNK).wrapping_mul(args.every) + chunk % args.every, args.every];
        let got =
            run_patterns(kernel, &args.backend, place, CHUNK).map_err(|error: Error| error.to_string())?;
        Ok((place, got))
    };
    sweep.run(args, compute, |place, got| match oracle {
        Some(Oracle::One(right, _)) => compare(*place, got, right),
        _ => Vec::new(),
    })
}

fn compare([base, step]: [u32; 2], got: &[u8], right: fn(f32) -> f32) -> Vec<Wrong> {
    let results = got.chunks_exact(4).enumerate();
    let wrong = results.filter_map(|(at, bytes)| {
        let x = base.wrapping_add(at as u32 * step);
        let right = canonical(right(f32::from_bits(x)));
        let got = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        (got != right).then(|| Wrong { args: vec![x], got, right })
    });
    wrong.collect()
}

/// Says how a function did in f32.
fn report(args: &Args, name: &str, count: u64, swept: &Swept) -> bool {
    let key = format!("{name} {count} ");
    let listed = DIGESTS.lines().find_map(|line| line.strip_prefix(key.as_str()));
    let same = listed.is_none_or(|digest| digest == swept.digest);
    let compared = !args.digest && oracle(name).is_some();
    let verdict = match (compared, listed) {
        (true, _) => format!("{} wrong", swept.wrong),
        (false, Some(_)) if same => "as checked".to_string(),
        (false, Some(_)) => "other results than were checked".to_string(),
        (false, None) => "no digest to compare with".to_string(),
    };
    anstream::println!("{name:9} f32   {count:>10} arguments  {}  {verdict}", swept.digest);
    swept.wrong == 0 && same && (!args.digest || listed.is_some())
}

fn short(args: &Args, op: &'static MathOp, ty: DataType) -> Result<bool, String> {
    let Some(wrong) = narrow::wrong(op, ty, &args.backend)? else { return Ok(true) };
    let first: Vec<String> = wrong.iter().take(5).map(ToString::to_string).collect();
    let ty = ty.name();
    anstream::println!(
        "{:9} {ty:5} {:>10} arguments  {} wrong {}",
        op.name,
        1 << 16,
        wrong.len(),
        first.join("; ")
    );
    Ok(wrong.is_empty())
}

fn wide(args: &Args, op: &'static MathOp) -> Result<bool, String> {
    let Some(worst) = worst(op, &args.backend, WIDE / args.every as usize, 1)? else { return Ok(true) };
    anstream::println!(
        "{:9} f64   {:>10} arguments  off by {} in the last place, at {:?}",
        op.name,
        WIDE / args.every as usize,
        worst.ulp,
        worst.args
    );
    Ok(worst.ulp <= op.f64_off_max)
}
