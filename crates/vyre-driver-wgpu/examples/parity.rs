//! Compares the device with the reference: `parity PROGRAMS [SECONDS] [FIRST_SEED]`. Prints what differs, and what the
//! programs contained. Programs are made, compiled and interpreted on all cores; the device runs one at a time.
#![allow(clippy::print_stdout)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vyre_conform::check_program;
use vyre_driver::VyreBackend;
use vyre_driver_wgpu::WgpuConfig;
use vyre_foundation::launch::{bound_buffers, default_grid};
use vyre_generate::{Config, Stats};

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (programs, seconds, first) = (number(0, 1000), number(1, 60), number(2, 0));
    let backend = WgpuConfig::from_env()
        .and_then(|config| vyre_driver_wgpu::open(&config))
        .unwrap_or_else(|error| panic!("{error}"));
    backend.notes().iter().for_each(|(name, text)| println!("{name}: {text}"));
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let (next, wrong) = (AtomicU64::new(first), AtomicU64::new(0));
    let stats = Mutex::new((Stats::default(), 0u64));
    let work = || {
        while Instant::now() < deadline && !backend.device_lost() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + programs {
                break;
            }
            let config = Config { traps: seed.is_multiple_of(8), ..Config::default() };
            let case = vyre_generate::seeded(seed, &config);
            let parts = case.program.parts();
            let grid = case.grid.unwrap_or_else(|| {
                let bound = bound_buffers(parts).into_iter().zip(&case.buffers);
                let mut lens: Vec<u32> = parts.buffers.iter().map(|buffer| buffer.len.unwrap_or(0)).collect();
                bound.for_each(|(id, bytes)| {
                    lens[id.index()] = (bytes.len() / parts.buffer(id).ty.bytes()) as u32
                });
                default_grid(parts, &lens)
            });
            if let Err(failure) = check_program(&backend, &case.program, grid, &case.buffers)
                && wrong.fetch_add(1, Ordering::Relaxed) < 5
            {
                println!("seed {seed} differs: {failure}");
            }
            let mut stats = stats.lock().expect("no thread panics with it");
            stats.0.add(&case.program);
            stats.1 += 1;
            if stats.1 % 10_000 == 0 {
                println!("{} programs, {} differ", stats.1, wrong.load(Ordering::Relaxed));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (stats, run) = stats.into_inner().expect("no thread panicked");
    let lost = if backend.device_lost() { "\nthe device is lost" } else { "" };
    println!("{run} programs, {} differ{lost}\n{stats}", wrong.into_inner());
}
