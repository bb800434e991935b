//! Compares the device with the reference: `parity_wgpu PROGRAMS [SECONDS] [FIRST_SEED]`. Prints what differs, and what the
//! programs contained.
#![allow(clippy::print_stdout)]

use std::time::Duration;
use vyre_conform::check_random;
use vyre_driver::VyreBackend;
use vyre_driver_wgpu::WgpuConfig;
use vyre_generate::Config;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (programs, limit, first) = (number(0, 1000), Duration::from_secs(number(1, 60)), number(2, 0));
    let backend = WgpuConfig::from_env()
        .and_then(|config| vyre_driver_wgpu::open(&config))
        .unwrap_or_else(|error| panic!("{error}"));
    backend.notes().iter().for_each(|(name, text)| println!("{name}: {text}"));
    let config = |seed: u64| Config { traps: seed.is_multiple_of(8), ..Config::default() };
    println!("{}", check_random(&backend, first..first + programs, limit, config));
}
