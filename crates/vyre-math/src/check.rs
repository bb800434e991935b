//! `vyre-math check`: results against core-math's, every f32 argument of one-argument functions, many pairs of the others.
//!
//! All 2^32 arguments run in chunks. A chunk that is done stands in the state file with its digest, so that a check that was
//! stopped goes on behind it. The digest of a function is that of its chunks' digests: where it is the one that
//! `digests.txt` has for a function that was checked whole, the results are the same to the last bit, and no oracle is
//! needed to know that they are right.

use crate::pairs;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use vyre::host::Kernel;
use vyre::math::{MathOp, OPS};
use vyre_math::canonical;
use vyre_math::kernel::{drafted, patterns, run_patterns};
use vyre_math::oracle::{Oracle, oracle};
use vyre_math::ulp::{ULP_MAX, worst};

/// Arguments of one dispatch.
const CHUNK: u32 = 1 << 24;
const CHUNKS: u32 = 256;
/// Wrong results that are shown for a function.
const SHOWN_MAX: usize = 400;
/// The digests of functions whose results were all right, one to a line.
const DIGESTS: &str = include_str!("../digests.txt");

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The functions; all of them where none is named.
    pub(crate) functions: Vec<String>,
    /// The backend that computes.
    #[arg(long, default_value = "cpu")]
    pub(crate) backend: String,
    /// Compare digests with those of checked results instead of asking the oracle.
    #[arg(long)]
    digest: bool,
    /// Measure f64 results in units of the last place instead.
    #[arg(long)]
    f64: bool,
    /// Keep what is done in this file, and go on from it.
    #[arg(long)]
    state: Option<PathBuf>,
    /// Append the digests of functions that are all right to this file: `crates/vyre-math/digests.txt`.
    #[arg(long)]
    record: Option<PathBuf>,
    /// Only every Nth argument, for a quick look; there is no digest then. N is a power of two up to 256.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    every: u32,
    /// Random pairs for each function of two arguments.
    #[arg(long, default_value_t = 1 << 24)]
    pub(crate) pairs: u64,
    /// Take the functions in f64 from this text instead of the library, without the hard cases.
    #[arg(long)]
    pub(crate) draft: Option<PathBuf>,
}

/// A wrong result: the argument's bits, the result's, and the right ones.
struct Wrong {
    x: u32,
    got: u32,
    right: u32,
}

/// A chunk that was run: the digest of its results, and how many are wrong.
#[derive(Clone)]
struct Done {
    digest: String,
    wrong: usize,
}

pub(crate) fn run(args: &Args) -> Result<bool, String> {
    let known = |name: &&String| MathOp::from_name(name).is_none();
    if let Some(name) = args.functions.iter().find(known) {
        return Err(format!("there is no function `{name}`\n  Fix: `vyre ops` lists them"));
    }
    let named = |op: &&MathOp| args.functions.is_empty() || args.functions.iter().any(|name| name == op.name);
    let mut all_right = true;
    if args.f64 {
        for op in OPS.iter().filter(named) {
            if let Some(worst) = worst(op, &args.backend, 1 << 22, args.pairs)? {
                anstream::println!("{:9} {} units at {:?}", op.name, worst.ulp, worst.args);
                all_right &= worst.ulp <= ULP_MAX;
            }
        }
        return Ok(all_right);
    }
    for op in OPS.iter().filter(named) {
        let right = match oracle(op.name) {
            Some(Oracle::One(right, _)) => one(args, op, Some(right))?,
            Some(Oracle::Two(right, _)) => pairs::check(args, op, right)?,
            // Without an oracle there is a digest, which must be the same on every backend.
            None if op.operands == 1 => one(args, op, None)?,
            None => continue,
        };
        all_right &= right;
    }
    Ok(all_right)
}

fn kernel(args: &Args, op: &'static MathOp) -> Result<Kernel, String> {
    let Some(draft) = &args.draft else { return patterns(op).map_err(|error| error.to_string()) };
    let text = std::fs::read_to_string(draft).map_err(|error| format!("{}: {error}", draft.display()))?;
    drafted(op, &text).map_err(|error| error.to_string())
}

fn one(args: &Args, op: &'static MathOp, right: Option<fn(f32) -> f32>) -> Result<bool, String> {
    let kernel = kernel(args, op)?;
    let right = right.filter(|_| !args.digest);
    let mut state =
        State::open(args.state.as_deref(), &format!("{} {} {}", op.name, args.backend, args.every))?;
    let chunks = CHUNKS / args.every;
    let bar = progress(op.name, u64::from(chunks));
    let mut wrong = Vec::new();
    let mut digests = Vec::new();
    let mut count = 0;
    for chunk in 0..chunks {
        let done = match state.done.get(&chunk) {
            Some(done) => done.clone(),
            None => {
                // Between the steps the arguments are another one each time.
                let place =
                    [chunk.wrapping_mul(CHUNK).wrapping_mul(args.every) + chunk % args.every, args.every];
                let got =
                    run_patterns(&kernel, &args.backend, place, CHUNK).map_err(|error| error.to_string())?;
                let found = right.map_or_else(Vec::new, |right| compare(place, &got, right));
                let done = Done { digest: blake3::hash(&got).to_hex().to_string(), wrong: found.len() };
                wrong.extend(found.into_iter().take(SHOWN_MAX - wrong.len().min(SHOWN_MAX)));
                state.add(chunk, &done)?;
                done
            }
        };
        count += done.wrong;
        digests.push(done.digest);
        bar.set_message(format!("{count} wrong"));
        bar.inc(1);
    }
    bar.finish_and_clear();
    for Wrong { x, got, right } in &wrong {
        let (fx, fgot) = (f32::from_bits(*x), f32::from_bits(*got));
        anstream::println!("  [{x:#010x}, {right:#010x}],  // {fx:e} gives {fgot:e}");
    }
    let digest = (args.every == 1).then(|| blake3::hash(digests.concat().as_bytes()).to_hex().to_string());
    if let (Some(path), Some(digest)) = (&args.record, &digest)
        && count == 0
        && (right.is_some() || oracle(op.name).is_none())
    {
        append(path, &format!("{} {}", op.name, &digest[..32]))?;
    }
    Ok(report(op.name, count, digest, right.is_some()))
}

fn append(path: &Path, line: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    writeln!(file, "{line}").map_err(failed)
}

/// Says how a function did.
fn report(name: &str, wrong: usize, digest: Option<String>, compared: bool) -> bool {
    let digest = digest.as_deref().map(|digest| &digest[..32]);
    let listed = DIGESTS.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let same = digest.is_none() || listed.is_none() || digest == listed;
    let verdict = match (compared, digest, listed) {
        (true, ..) => format!("{wrong} wrong"),
        (false, Some(_), Some(_)) if same => "as checked".to_string(),
        (false, Some(_), Some(_)) => "other results than were checked".to_string(),
        (false, ..) => "not compared".to_string(),
    };
    anstream::println!("{name} {}  {verdict}", digest.unwrap_or("-"));
    wrong == 0 && (compared || same)
}

pub(crate) fn progress(name: &str, len: u64) -> ProgressBar {
    let bar = ProgressBar::new(len);
    if let Ok(style) = ProgressStyle::with_template("{prefix:9} {wide_bar} {pos}/{len} {eta} {msg}") {
        bar.set_style(style);
    }
    bar.set_prefix(name.to_string());
    bar
}

fn compare([base, step]: [u32; 2], got: &[u8], right: fn(f32) -> f32) -> Vec<Wrong> {
    const PART: usize = 1 << 14;
    let parts = got.par_chunks(4 * PART).enumerate();
    let wrong = parts.flat_map_iter(|(part, bytes)| {
        let first = base.wrapping_add((part * PART) as u32 * step);
        bytes.chunks_exact(4).enumerate().filter_map(move |(at, bytes)| {
            let x = first.wrapping_add(at as u32 * step);
            let right = canonical(right(f32::from_bits(x)));
            let got = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            (got != right).then_some(Wrong { x, got, right })
        })
    });
    wrong.collect()
}

/// The state file: a line for each chunk that is done.
struct State {
    path: Option<PathBuf>,
    key: String,
    done: HashMap<u32, Done>,
}

impl State {
    fn open(path: Option<&Path>, key: &str) -> Result<State, String> {
        let text = match path {
            Some(path) if path.exists() => {
                std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?
            }
            _ => String::new(),
        };
        let rest = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        let done = rest.filter_map(|line| {
            let mut words = line.split(' ');
            let chunk = words.next()?.parse().ok()?;
            Some((chunk, Done { wrong: words.next()?.parse().ok()?, digest: words.next()?.to_string() }))
        });
        Ok(State { path: path.map(Path::to_path_buf), key: key.to_string(), done: done.collect() })
    }

    fn add(&mut self, chunk: u32, done: &Done) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        append(path, &format!("{} {chunk} {} {}", self.key, done.wrong, done.digest))
    }
}
