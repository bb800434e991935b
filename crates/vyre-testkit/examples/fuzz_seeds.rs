//! Writes seeds for the fuzz targets: `fuzz_seeds DIRECTORY COUNT`.
//!
//! Each seed is a generated valid program, once as text and once as the payload of its wire form, so that a fuzzer that
//! changes a few bytes lands close to a valid program.

use std::path::PathBuf;
use vyre_foundation::{text, wire};
use vyre_generate::{Config, seeded};

fn main() -> Result<(), String> {
    const USAGE: &str = "usage: fuzz_seeds DIRECTORY COUNT";
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or(USAGE)?);
    let count: u64 = arguments.next().and_then(|count| count.parse().ok()).ok_or(USAGE)?;
    for seed in 0..count {
        // Small programs: a change then has a fair chance to hit what matters.
        let config = Config { lines: 4 + (seed % 20) as u32, ..Config::default() };
        let program = seeded(seed, &config).program;
        let files = [
            (format!("generated-{seed}.vyre"), text::print(&program).into_bytes()),
            (format!("generated-{seed}.payload"), program.to_bytes().split_off(wire::HEADER_BYTES)),
        ];
        for (name, bytes) in files {
            let path = directory.join(name);
            std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}
