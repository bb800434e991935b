//! Many threads on one backend, while the device is lost and recovered under them: no deadlock, no lost error, no wrong
//! bytes.
//!
//! `VYRE_STRESS_SECONDS=120 cargo test --release -p vyre-driver-reference --test stress` runs it longer.

#![allow(clippy::print_stdout)] // The counts are the result.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vyre_driver::{BackendError, DispatchConfig, ErrorCode, VyreBackend};
use vyre_driver_reference::ReferenceBackend;
use vyre_foundation::ir::Program;
use vyre_foundation::text;

const LANES: u32 = 256;

fn program() -> Program {
    let source = "program @square workgroup(64, 1, 1) {
          buffer @x : read       u32[] binding 0
          buffer @y : read_write u32[] binding 1 output
          %i = global_id x
          %v = load.u32 @x[%i]
          %s = mul.u32 %v, %v
          store.u32 @y[%i], %s
        }";
    text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program
}

fn input(seed: u32) -> Vec<u8> {
    (0..LANES).flat_map(|i| (i ^ seed).to_le_bytes()).collect()
}

fn expected(seed: u32) -> Vec<u8> {
    (0..LANES).flat_map(|i| (i ^ seed).wrapping_mul(i ^ seed).to_le_bytes()).collect()
}

/// One round of everything a caller does; an error is passed on, wrong bytes panic.
fn round(backend: &ReferenceBackend, program: &Program, seed: u32) -> Result<(), BackendError> {
    let x = input(seed);
    let config = DispatchConfig {
        output_sizes: vec![x.len()],
        timeout: Some(Duration::from_secs(20)),
        ..DispatchConfig::default()
    };
    assert_eq!(backend.dispatch_borrowed(program, &[&x], &config)?, [expected(seed)]);

    let pending = backend.dispatch_borrowed_async(program, &[&x], &config)?;
    let resident = backend.allocate_resident(x.len())?;
    let output = backend.allocate_resident(x.len())?;
    backend.upload_resident(&resident, &x)?;
    let resources = [resident, output];
    backend.dispatch_resident_timed(program, &resources, &DispatchConfig::default())?;
    assert_eq!(backend.download_resident(&resources[1])?, expected(seed));
    assert_eq!(pending.await_result()?, [expected(seed)]);

    let pipeline = backend.compile_native(program, &config)?.expect("the reference compiles");
    assert_eq!(pipeline.dispatch(&[&x], &config)?, [expected(seed)]);
    resources.into_iter().try_for_each(|resource| backend.free_resident(resource))
}

#[test]
fn threads_share_a_backend_that_is_lost_and_recovered() {
    let seconds = std::env::var("VYRE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let backend = ReferenceBackend::new();
    let program = program();
    let (done, good, failed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (backend, program, done, good, failed) = (&backend, &program, &done, &good, &failed);
            scope.spawn(move || {
                let mut seed = thread;
                while !done.load(Ordering::Relaxed) {
                    seed += 8;
                    match round(backend, program, seed) {
                        Ok(()) => good.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            // What a loss may lead to, and nothing else.
                            let code = error.code();
                            let known =
                                [ErrorCode::DeviceLost, ErrorCode::BadHandle, ErrorCode::PipelineInvalidated];
                            assert!(known.contains(&code), "{error}");
                            failed.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
        while start.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_millis(20));
            backend.lose_device();
            assert!(backend.device_lost());
            std::thread::sleep(Duration::from_millis(2));
            backend.try_recover().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let (good, failed) = (good.into_inner(), failed.into_inner());
    println!("{good} rounds right, {failed} ended by a lost device, in {:?}", start.elapsed());
    assert!(good > 0 && failed > 0, "{good} good, {failed} failed");
    round(&backend, &program, 1).expect("works after the last recovery");
}
