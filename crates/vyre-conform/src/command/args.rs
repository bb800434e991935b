//! The options of the commands.

use crate::batch::{Level, Track};
use crate::certificate::parse_hex;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use vyre_terminal::ValueError;

/// The commands of the suite.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the conformance suite on a backend and certify what it shows
    #[command(after_help = CERTIFY_HELP)]
    Certify(Certify),
    /// Check a certificate, offline: form, signature, programs, and outputs by the reference
    #[command(after_help = VERIFY_HELP)]
    Verify(Verify),
    /// Run one case of a certificate again and show its program, inputs and outputs
    #[command(after_help = REPLAY_HELP)]
    Replay(Replay),
    /// Make a key to sign certificates with
    #[command(after_help = KEYGEN_HELP)]
    Keygen(Keygen),
}

const CERTIFY_HELP: &str = "\
LEVEL is one of these; each includes those before it:
  ops        every op gives the right bits for edge values, hard cases, random operands
  laws       laws between ops; small domains without exception
  programs   control flow, memory, barriers, atomics, subgroups, limits, known kernels
  random     programs that are new in each run, tests against cheats, the driver contract

Examples:
  vyre certify --backend reference --quick
  vyre certify --backend cpu --sign key.pem -o cert.json --html report.html
  vyre certify --backend cpu --track integer --level programs -o cert.json
  vyre certify --backend cpu --case op/f32/div
  vyre certify --backend cpu --journal run.jsonl -o cert.json      interrupted? run it again
  vyre certify --backend cpu --shard 1/2 --nonce HEX --journal a.jsonl
  vyre certify --merge a.jsonl --merge b.jsonl --sign key.pem -o cert.json

Exit codes: 0 all that was asked for passed, 1 failures, 2 wrong usage, 3 the backend could
not be opened, 4 a file could not be read or written, 130 interrupted";

const VERIFY_HELP: &str = "\
Examples:
  vyre verify cert.json --trusted-key vendor.pub
  vyre verify cert.json --all

Exit codes: 0 verified and signed by a trusted key, 1 rejected, 2 wrong usage,
3 consistent, but UNTRUSTED or UNSIGNED, 4 the file could not be read";

const REPLAY_HELP: &str = "\
Examples:
  vyre replay cert.json --case 'op/f32/div:special'
  vyre replay cert.json --case random/float/3 --backend reference

Exit codes: 0 the outputs are those of the certificate and, where a backend ran, of the
backend, 1 they differ or the certificate is rejected, 2 wrong usage, 3 the backend could
not be opened, 4 the file could not be read";

const KEYGEN_HELP: &str = "\
Examples:
  vyre keygen -o key.pem            also writes key.pem.pub, for others

Exit codes: 0 both files are written, 2 one of them exists already, 4 a file could not be
written";

/// What to run, and where results go.
#[derive(Debug, Args)]
pub struct Certify {
    /// The backend to run
    #[arg(long, value_name = "ID")]
    pub(super) backend: Option<String>,
    /// The highest level to run
    #[arg(long, value_name = "LEVEL", default_value = "math", value_parser = level())]
    pub(super) level: Level,
    /// Run only one track: programs without floats, or with
    #[arg(long, value_name = "TRACK", value_parser = track())]
    pub(super) track: Option<Track>,
    /// Run the quick suite: seconds, and enough for every wrong backend we know of
    #[arg(long)]
    pub(super) quick: bool,
    /// Run only groups and batches whose name starts like this, or the batch of one case
    #[arg(long, value_name = "NAME", value_parser = parse_case, conflicts_with_all = ["output", "shard"])]
    pub(super) case: Option<String>,
    /// Sign the certificate with the key in this file
    #[arg(long, value_name = "FILE", requires = "output")]
    pub(super) sign: Option<PathBuf>,
    /// Write the certificate to this file; what is there is removed when the run starts
    #[arg(short, long, value_name = "FILE", conflicts_with = "shard")]
    pub(super) output: Option<PathBuf>,
    /// Write a report to read in a browser
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Write a report in JUnit's XML, for CI
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Run one of several parts; all need the same nonce
    #[arg(long, value_name = "I/N", value_parser = parse_shard, requires = "nonce", requires = "journal")]
    pub(super) shard: Option<(u32, u32)>,
    /// Seed the run with 64 hexadecimal digits instead of a number drawn when it starts
    #[arg(long, value_name = "HEX", value_parser = parse_nonce)]
    pub(super) nonce: Option<[u8; 32]>,
    /// Keep a record of what passed, and go on where it ends
    #[arg(long, value_name = "FILE", conflicts_with = "case")]
    pub(super) journal: Option<PathBuf>,
    /// Run nothing, and certify what the journals of shards have together
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["backend", "quick", "case", "shard", "nonce", "journal", "stop_at_first"]
    )]
    pub(super) merge: Vec<PathBuf>,
    /// End the run at its first failure
    #[arg(long)]
    pub(super) stop_at_first: bool,
}

/// Which certificate, and whom to trust.
#[derive(Debug, Args)]
pub struct Verify {
    /// The certificate
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// A key to trust: its 64 hexadecimal digits, or its file
    #[arg(long, value_name = "KEY")]
    pub(super) trusted_key: Vec<String>,
    /// Compute the outputs of every group again, not those of a random sample
    #[arg(long)]
    pub(super) all: bool,
}

/// Which case of which certificate.
#[derive(Debug, Args)]
pub struct Replay {
    /// The certificate
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// The group or batch, or the start of its name, or a case
    #[arg(long, value_name = "NAME", value_parser = parse_case)]
    pub(super) case: String,
    /// The backend to run it on beside the reference; the certificate's own if left out and there is one
    #[arg(long, value_name = "ID")]
    pub(super) backend: Option<String>,
}

/// Where the key goes.
#[derive(Debug, Args)]
pub struct Keygen {
    /// The file for the private key; the public one goes beside it, with `.pub` appended to its name
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: PathBuf,
}

fn level() -> impl TypedValueParser<Value = Level> {
    PossibleValuesParser::new(Level::ALL.map(Level::name))
        .map(|name| Level::from_name(&name).expect("one of the possible values"))
}

fn track() -> impl TypedValueParser<Value = Track> {
    PossibleValuesParser::new(Track::ALL.map(Track::name))
        .map(|name| Track::from_name(&name).expect("one of the possible values"))
}

/// `2/4`, counted from one; the suite counts from zero.
fn parse_shard(text: &str) -> Result<(u32, u32), ValueError> {
    let parts = text.split_once('/').and_then(|(at, of)| Some((at.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((at, of)) if (1..=of).contains(&at) => Ok((at - 1, of)),
        Some(_) | None => Err(ValueError::new("not a part", "write `1/4` to `4/4` for four parts")),
    }
}

/// A name that cannot be a case's must not read as a case that passed.
fn parse_case(text: &str) -> Result<String, ValueError> {
    let number = text.split_once('#').map(|(_, number)| number.parse::<u32>());
    match text.is_empty() || text.starts_with('#') || matches!(number, Some(Err(_))) {
        true => {
            Err(ValueError::new("not a case's name", "take one from a report, or the start of one: `op/f32`"))
        }
        false => Ok(text.into()),
    }
}

fn parse_nonce(text: &str) -> Result<[u8; 32], ValueError> {
    parse_hex(text)
        .ok_or_else(|| ValueError::new("not 64 hexadecimal digits", "draw them with `openssl rand -hex 32`"))
}
