//! Many threads on one backend of our own, while the device is lost and recovered under them: no deadlock, no lost error, no
//! wrong bytes.
//!
//! `VYRE_STRESS_SECONDS=120 cargo test --release -p vyre --test stress` runs it longer.

#![allow(clippy::print_stdout)] // The counts are the result.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vyre_driver::{
    BackendError, DispatchConfig, ErrorCode, HandleFault, PendingDispatch, Resource, VyreBackend,
};
use vyre_driver_cpu::{CpuBackend, CpuConfig};
use vyre_driver_reference::ReferenceBackend;
use vyre_foundation::ir::Program;
use vyre_foundation::text;

const LANES: u32 = 256;

/// A backend whose device can be lost on request.
trait Device: VyreBackend {
    fn lose(&self);
}

impl Device for ReferenceBackend {
    fn lose(&self) {
        self.lose_device();
    }
}

impl Device for CpuBackend {
    fn lose(&self) {
        self.lose_device();
    }
}

fn backends() -> [Box<dyn Device>; 2] {
    let config = CpuConfig { threads: 3, ..CpuConfig::default() };
    [
        Box::new(ReferenceBackend::default()),
        Box::new(vyre_driver_cpu::open(&config).expect("this host has an emitter")),
    ]
}

fn stress_time() -> Duration {
    let seconds = std::env::var("VYRE_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

fn parse(source: &str) -> Program {
    text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program
}

fn program() -> Program {
    let source = "program @square workgroup(64, 1, 1) {
          buffer @x : read       u32[] binding 0
          buffer @y : read_write u32[] binding 1 output
          %i = global_id x
          %v = load.u32 @x[%i]
          %s = mul.u32 %v, %v
          store.u32 @y[%i], %s
        }";
    parse(source)
}

fn input(seed: u32) -> Vec<u8> {
    (0..LANES).flat_map(|i| (i ^ seed).to_le_bytes()).collect()
}

fn expected(seed: u32) -> Vec<u8> {
    (0..LANES).flat_map(|i| (i ^ seed).wrapping_mul(i ^ seed).to_le_bytes()).collect()
}

/// One round of everything a caller does; an error is passed on, wrong bytes panic.
fn round(backend: &dyn Device, program: &Program, seed: u32) -> Result<(), BackendError> {
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

    let pipeline = backend.compile_native(program, &config)?.expect("it compiles");
    assert_eq!(pipeline.dispatch(&[&x], &config)?, [expected(seed)]);
    resources.into_iter().try_for_each(|resource| backend.free_resident(resource))
}

#[test]
fn threads_share_a_backend_that_is_lost_and_recovered() {
    backends().iter().for_each(|backend| stress_share(&**backend));
}

fn stress_share(backend: &dyn Device) {
    let program = program();
    let (done, good, failed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (backend, program, done, good, failed) = (backend, &program, &done, &good, &failed);
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
        while start.elapsed() < stress_time() {
            std::thread::sleep(Duration::from_millis(20));
            backend.lose();
            assert!(backend.device_lost());
            std::thread::sleep(Duration::from_millis(2));
            backend.try_recover().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let (good, failed) = (good.into_inner(), failed.into_inner());
    println!("{good} rounds right, {failed} ended by a lost device, in {:?}", start.elapsed());
    assert!(good > 0 && failed > 0, "{good} good, {failed} failed");
    round(backend, &program, 1).expect("works after the last recovery");
}

/// Runs for minutes unless it is stopped.
fn endless() -> Program {
    parse(
        "program @endless workgroup(1, 1, 1) {
          buffer @y : read_write u32[1] binding 0 output
          var $a : u32 = 1
          for %i in 0..4294967295 {
            %a = get.u32 $a
            %b = mul.u32 %a, 3
            set.u32 $a, %b
          }
          %r = get.u32 $a
          store.u32 @y[0], %r
        }",
    )
}

/// What each of those who wait on a device that is lost got.
fn lose_while_all_wait(backend: &dyn Device, program: &Program) -> Vec<(&'static str, Option<BackendError>)> {
    let config = DispatchConfig::default();
    let held = backend.allocate_resident(4).unwrap();
    let resources = [held.clone()];
    let resident = || backend.dispatch_resident_timed(program, &resources, &config);
    let mut ended = Vec::new();
    std::thread::scope(|scope| {
        let pending = backend.dispatch_async(program, &[], &config).unwrap();
        let polled = backend.dispatch_async(program, &[], &config).unwrap();
        let holder = scope.spawn(|| resident().err());
        // Those who come before the holder has the buffer try again.
        std::thread::sleep(Duration::from_millis(5));
        let waiting = [
            ("dispatch", scope.spawn(|| backend.dispatch(program, &[], &config).err())),
            ("await", scope.spawn(|| pending.await_result().err())),
            ("poll", scope.spawn(|| poll(polled).err())),
            ("resident dispatch behind another", scope.spawn(|| resident().err())),
            ("download", scope.spawn(|| until_error(|| backend.download_resident(&held).map(drop)))),
            ("upload", scope.spawn(|| until_error(|| backend.upload_resident_at(&held, 0, &[1; 4])))),
        ];
        // Again and again, for those that the scheduler lets start only after a recovery.
        while !(holder.is_finished() && waiting.iter().all(|(_, thread)| thread.is_finished())) {
            std::thread::sleep(Duration::from_millis(5));
            backend.lose();
            backend.try_recover().unwrap();
        }
        ended.push(("resident dispatch", holder.join().unwrap()));
        ended.extend(waiting.map(|(what, thread)| (what, thread.join().unwrap())));
    });
    ended
}

fn until_error(mut call: impl FnMut() -> Result<(), BackendError>) -> Option<BackendError> {
    loop {
        if let Err(error) = call() {
            return Some(error);
        }
    }
}

fn poll(pending: Box<dyn PendingDispatch>) -> Result<Vec<Vec<u8>>, BackendError> {
    while !pending.is_ready() {
        std::thread::yield_now();
    }
    pending.await_result()
}

#[test]
fn those_who_wait_learn_of_the_loss_even_if_recovery_follows_at_once() {
    backends().iter().for_each(|backend| stress_who(&**backend));
}

fn stress_who(backend: &dyn Device) {
    let (endless, program) = (endless(), program());
    let (start, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || start.elapsed() < stress_time() {
        for (what, error) in lose_while_all_wait(backend, &endless) {
            let error = error.unwrap_or_else(|| panic!("{what} saw nothing of the loss"));
            // A thread that the scheduler kept from starting until the recovery sees its handle gone instead.
            let gone = matches!(error, BackendError::BadHandle { cause: HandleFault::Lost, .. });
            assert!(error.code() == ErrorCode::DeviceLost || gone, "{what}: {error}");
        }
        round(backend, &program, rounds).expect("works after recovery");
        rounds += 1;
    }
    println!("{rounds} losses under seven waiters each, in {:?}", start.elapsed());
}

/// One of the things that threads do to handles they share; whether it freed the handle.
fn touch(backend: &dyn Device, bump: &Program, handle: &Resource, choice: u32) -> Result<bool, BackendError> {
    let words = LANES as usize;
    match choice % 4 {
        0 => backend.upload_resident(handle, &choice.to_le_bytes().repeat(words))?,
        1 => {
            backend.dispatch_resident_timed(
                bump,
                std::slice::from_ref(handle),
                &DispatchConfig::default(),
            )?;
        }
        2 => {
            let bytes = backend.download_resident(handle)?;
            assert_eq!(bytes, bytes[..4].repeat(words), "uploads and dispatches are all or nothing");
        }
        _ => {
            backend.free_resident(handle.clone())?;
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn threads_race_to_free_what_others_use() {
    backends().iter().for_each(|backend| stress_race(&**backend));
}

fn stress_race(backend: &dyn Device) {
    let bump = parse(
        "program @bump workgroup(64, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          %v = load.u32 @y[%i]
          %w = add.u32 %v, 1
          store.u32 @y[%i], %w
        }",
    );
    let allocate = || backend.allocate_resident(LANES as usize * 4).unwrap();
    let pool = Mutex::new((0..6).map(|_| allocate()).collect::<Vec<_>>());
    let [allocated, freed, faults] = [6, 0, 0].map(AtomicU64::new);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let (backend, bump, pool, allocate) = (backend, &bump, &pool, &allocate);
            let (allocated, freed, faults) = (&allocated, &freed, &faults);
            scope.spawn(move || {
                let mut random = thread + 1;
                while start.elapsed() < stress_time() {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let at = (random >> 8) as usize % 6;
                    let handle = pool.lock().unwrap()[at].clone();
                    match touch(backend, bump, &handle, random >> 16) {
                        Ok(false) => {}
                        Ok(true) => {
                            freed.fetch_add(1, Ordering::Relaxed);
                            allocated.fetch_add(1, Ordering::Relaxed);
                            pool.lock().unwrap()[at] = allocate();
                        }
                        Err(BackendError::BadHandle {
                            cause: HandleFault::Freed | HandleFault::InUse,
                            ..
                        }) => {
                            faults.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    for handle in pool.into_inner().unwrap() {
        backend.free_resident(handle).unwrap();
        freed.fetch_add(1, Ordering::Relaxed);
    }
    let (allocated, freed, faults) = (allocated.into_inner(), freed.into_inner(), faults.into_inner());
    println!(
        "{allocated} allocated, {freed} freed, {faults} handles found freed or in use, in {:?}",
        start.elapsed()
    );
    assert_eq!(allocated, freed, "each allocation is freed by one thread and no more");
    assert!(backend.backend_metric_snapshot().contains(&("resident_allocations", 0)));
    assert!(faults > 0, "the threads got in each other's way");
}
