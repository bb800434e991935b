//! Compares the device with the reference: `parity PROGRAMS SECONDS`. Prints what differs, and what programs contained.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};
use vyre_driver::{BackendError, DispatchConfig, VyreBackend};
use vyre_driver_cuda::CudaBackend;
use vyre_generate::{Config, Stats};
use vyre_reference::{Launch, Options, RunError};

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    let (programs, seconds) = (args.next().unwrap_or(1000), args.next().unwrap_or(60));
    let backend = CudaBackend::open(0).unwrap_or_else(|error| panic!("{error}"));
    let (mut stats, mut wrong, mut run) = (Stats::default(), 0, 0);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    for seed in 0..programs {
        let config = Config { traps: seed % 8 == 0, ..Config::default() };
        let case = vyre_generate::seeded(seed, &config);
        stats.add(&case.program);
        let valid = case.valid().expect("generated programs are valid");
        let launch = Launch { grid: case.grid, buffers: case.buffers.clone() };
        let expected = vyre_reference::run(&valid, launch, &Options::default());
        let inputs: Vec<&[u8]> = case.buffers.iter().map(Vec::as_slice).collect();
        let grid = DispatchConfig { grid_override: case.grid, ..DispatchConfig::default() };
        let actual = vyre_driver::grid_sync::dispatch(&backend, &case.program, &inputs, &grid);
        let parts = case.program.parts();
        let same = match (&expected, &actual) {
            (Ok(expected), Ok(actual)) => {
                let bound = vyre_foundation::launch::bound_buffers(parts).into_iter().zip(&expected.buffers);
                let outputs = bound.filter(|(id, _)| parts.buffer(*id).is_output()).map(|(_, bytes)| bytes);
                outputs.eq(actual.outputs.iter())
            }
            (Err(RunError::Trap { code, .. }), Err(BackendError::Trap { code: other, .. })) => code == other,
            _ => false,
        };
        run += 1;
        if !same {
            wrong += 1;
            if wrong <= 5 {
                let error = actual.as_ref().err().map(ToString::to_string).unwrap_or_default();
                let buffers = expected.as_ref().ok().map(|outcome| outcome.buffers.clone());
                let expected = expected.as_ref().err().map(ToString::to_string).unwrap_or_default();
                println!("seed {seed} differs: expected `{expected}`, got `{error}`");
                if let (Some(buffers), Ok(actual)) = (&buffers, &actual) {
                    show_difference(&case.program, buffers, &actual.outputs);
                }
            }
            if backend.device_lost() {
                println!("the device is lost");
                break;
            }
        }
        if Instant::now() > deadline {
            break;
        }
    }
    println!("{run} programs, {wrong} differ\n{stats}");
}

/// The first element that differs, in each output.
fn show_difference(program: &vyre_foundation::ir::Program, expected: &[Vec<u8>], actual: &[Vec<u8>]) {
    let parts = program.parts();
    let bound = vyre_foundation::launch::bound_buffers(parts).into_iter().zip(expected);
    let outputs = bound.filter(|(id, _)| parts.buffer(*id).is_output());
    for ((id, expected), actual) in outputs.zip(actual) {
        let buffer = parts.buffer(id);
        let size = buffer.ty.bytes();
        let differs = |(a, b): &(&[u8], &[u8])| a != b;
        let mut pairs = expected.chunks(size).zip(actual.chunks(size));
        if let Some(at) = pairs.position(|pair| differs(&pair)) {
            println!("  @{}[{at}] : {}", buffer.name, buffer.ty);
        }
    }
}
