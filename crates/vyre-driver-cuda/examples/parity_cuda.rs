//! Compares the device with the reference: `parity_cuda PROGRAMS [SECONDS] [FIRST_SEED]`. Prints what differs, and what the
//! programs contained.
#![allow(clippy::print_stdout)]

use std::time::Duration;
use vyre_conform::check_random;
use vyre_driver_cuda::CudaConfig;
use vyre_generate::Config;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (programs, limit, first) = (number(0, 1000), Duration::from_secs(number(1, 60)), number(2, 0));
    let backend = vyre_driver_cuda::open(&CudaConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    println!("{}", check_random(&backend, first..first + programs, limit, config));
}

/// Every third program is short and its lanes never meet: such ones may share threads.
fn config(seed: u64) -> Config {
    let meets = !seed.is_multiple_of(3);
    Config {
        lines: if meets { 40 } else { 8 },
        barriers: meets,
        grid_barriers: meets,
        subgroups: meets,
        mma: meets,
        collectives: meets,
        traps: seed.is_multiple_of(8),
        ..Config::default()
    }
}
