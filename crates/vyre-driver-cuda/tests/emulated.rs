//! What hardware does not do on demand: devices of several models side by side, little memory, and devices, copies and
//! allocations that fail. Each test runs in a process of its own, with emulated devices; with others it prints `SKIP`.
//!
//! The rule behind all of them: a call gives the right bytes or an error with its code and a `Fix:`, never wrong bytes, never a
//! hang; and after `try_recover`, where the device is lost, the next call is right.

mod common;

use common::{numbered, on_emulated, subject};
use std::time::{Duration, Instant};
use vyre_driver::{
    BackendError, DispatchConfig, ErrorCode, ResidentDispatchStep, ResidentReadRange, VyreBackend,
};
use vyre_driver_cuda::CudaBackend;
use vyre_foundation::ir::Program;
use vyre_testkit::contract::{self, LIMIT, code, in_own_process, increment, words, works};

/// The first of the emulated devices.
fn first() -> CudaBackend {
    numbered(0).expect("it is emulated")
}

const MODELS: [u32; 8] = [70, 75, 80, 86, 89, 90, 100, 120];

#[test]
fn every_model_says_what_it_is_and_works_up_to_its_limits() {
    let all = MODELS.map(|sm| format!("sm_{sm}")).join(",");
    if !on_emulated("every_model_says_what_it_is_and_works_up_to_its_limits", &all, "") {
        return;
    }
    for (ordinal, sm) in (0..).zip(MODELS) {
        let backend = numbered(ordinal).unwrap_or_else(|error| panic!("sm_{sm}: {error}"));
        assert_eq!(backend.device_name(), format!("vyre emulated sm_{sm}"));
        assert_eq!(backend.supports_tensor_cores(), sm >= 80, "sm_{sm}");
        assert_eq!(backend.supports_bf16(), sm >= 80, "sm_{sm}");
        assert!(backend.supports_grid_sync(), "sm_{sm}");
        let subject = subject(backend);
        contract::all_of_the_workgroup_memory_can_be_had(&subject);
        contract::limits_are_named(&subject);
    }
    let beyond = numbered(MODELS.len() as u32).map(drop).expect_err("there are no more");
    assert_eq!(beyond.code(), ErrorCode::Unavailable);
    assert!(beyond.to_string().contains("there are 8 devices, and number 8"), "{beyond}");
}

#[test]
fn two_devices_of_one_process_keep_apart() {
    if !on_emulated("two_devices_of_one_process_keep_apart", "sm_90,sm_120", "") {
        return;
    }
    let open = |ordinal| subject(numbered(ordinal).expect("it is emulated"));
    contract::two_backends_of_one_process_keep_apart(&open(0), &open(1));
    contract::two_backends_of_one_process_keep_apart(&open(1), &open(0));
    // Threads go from one device to the other, and copies overlap.
    let (first, second) = (open(0), open(1));
    std::thread::scope(|scope| {
        scope.spawn(|| contract::large_copies_are_whole(&first));
        scope.spawn(|| contract::large_copies_are_whole(&second));
        scope.spawn(|| [&first, &second].repeat(50).into_iter().for_each(|one| works(&**one)));
    });
}

const MIB: usize = 1 << 20;

/// Allocations of 16 MiB until there is no more, and how many there were. They are given back.
fn fill(backend: &CudaBackend) -> usize {
    let mut taken = Vec::new();
    let error = loop {
        match backend.allocate_resident(16 * MIB) {
            Ok(resource) if taken.len() < 100 => taken.push(resource),
            Ok(_) => panic!("100 allocations of 16 MiB fit 256 MiB"),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, BackendError::OutOfMemory { requested_bytes, .. } if requested_bytes == 16 << 20)
    );
    assert!(!backend.device_lost());
    // What is not there for a dispatch is an error of the same kind.
    let large = DispatchConfig { output_sizes: vec![64 * MIB], ..DispatchConfig::default() };
    assert_eq!(code(backend.dispatch(&increment(), &[], &large)), ErrorCode::OutOfMemory);
    let count = taken.len();
    taken.into_iter().for_each(|resource| backend.free_resident(resource).expect("it is free"));
    count
}

#[test]
fn memory_that_runs_out_is_an_error_and_is_had_again() {
    if !on_emulated("memory_that_runs_out_is_an_error_and_is_had_again", "sm_90:memory=256MiB", "") {
        return;
    }
    let backend = first();
    let count = fill(&backend);
    assert!((10..=16).contains(&count), "{count} allocations of 16 MiB in 256 MiB");
    // What the pool keeps in other sizes makes room: far more in all than the device has.
    for turn in 0..24 {
        let resource = backend.allocate_resident((90 + turn) * MIB).expect("what was freed is had again");
        backend.free_resident(resource).expect("it is free");
    }
    works(&backend);
    // A device that was lost while it was full gives all of its memory to the one that follows.
    let taken: Vec<_> = (0..count - 1).map(|_| backend.allocate_resident(16 * MIB)).collect();
    assert!(taken.iter().all(Result::is_ok));
    backend.lose_device();
    backend.try_recover().expect("it recovers");
    assert_eq!(fill(&backend), count);
    works(&backend);
    backend.shutdown().expect("it shuts down");
    assert_eq!(fill(&first()), count, "a backend that was shut down holds nothing");
}

/// One launch, in a form and of a size that change from turn to turn. Wrong bytes panic.
fn turn(backend: &CudaBackend, turn: u32) -> Result<(), BackendError> {
    // Sizes of different classes, so that the pool seldom has one; every seventh goes through the ring of large copies.
    let count = if turn.is_multiple_of(7) { 800_003 + turn * 50_000 } else { 300 + turn * 4096 };
    let (program, input) = (increment(), words(turn..turn + count));
    let expected = words(turn + 1..turn + count + 1);
    let plain = DispatchConfig::default();
    let found = match turn % 5 {
        0 => backend.dispatch_borrowed(&program, &[&input], &plain)?.remove(0),
        1 => {
            let timeout = Some(Duration::from_secs(600));
            let config = DispatchConfig { timeout, ..DispatchConfig::default() };
            backend.dispatch_borrowed_timed(&program, &[&input], &config)?.outputs.remove(0)
        }
        2 => {
            let pipeline = backend.compile_native(&program, &plain)?.expect("there is something to keep");
            pipeline.dispatch(&[&input], &plain)?.remove(0)
        }
        3 => backend.dispatch_async(&program, &[input], &plain)?.await_result()?.remove(0),
        _ => return resident_turn(backend, &input, &expected),
    };
    assert!(found == expected, "turn {turn}");
    Ok(())
}

/// A launch on resident memory: if it fails, what it may have written is not to be had.
fn resident_turn(backend: &CudaBackend, input: &[u8], expected: &[u8]) -> Result<(), BackendError> {
    let program = increment();
    let resources = [backend.allocate_resident(input.len())?];
    backend.upload_resident(&resources[0], input)?;
    let grid_override = Some([(input.len() as u32 / 4).div_ceil(64), 1, 1]);
    let step = ResidentDispatchStep { program: &program, resources: &resources, grid_override };
    let range = ResidentReadRange { resource: &resources[0], byte_offset: 4, byte_len: input.len() - 4 };
    let mut found = Vec::new();
    let ran = backend.dispatch_resident_sequence_read_ranges_into(&[step], &[range], &mut [&mut found]);
    match ran {
        Ok(()) => assert!(found == expected[4..], "resident memory"),
        Err(_) => {
            let left = code(backend.download_resident(&resources[0]));
            assert!([ErrorCode::BadHandle, ErrorCode::DeviceLost].contains(&left), "{left}");
        }
    }
    let [resource] = resources;
    // A device that is lost has nothing to free.
    let freed = backend.free_resident(resource);
    ran.and(freed)
}

/// Turns on a device that meets faults, recovered where it is lost: the codes of the turns that failed.
fn survive(backend: &CudaBackend, turns: u32) -> Vec<ErrorCode> {
    let mut codes = Vec::new();
    for at in 0..turns {
        let Err(error) = turn(backend, at) else { continue };
        assert!(error.to_string().contains("Fix:"), "turn {at}: {error}");
        assert_eq!(error.code() == ErrorCode::DeviceLost, backend.device_lost(), "turn {at}: {error}");
        if backend.device_lost() {
            assert_eq!(code(turn(backend, at)), ErrorCode::DeviceLost);
            backend.try_recover().expect("it recovers");
        }
        codes.push(error.code());
    }
    (0..3).for_each(|_| works(backend));
    codes
}

/// Losses by launch, one for each form of the call.
fn losses(test: &str, fault: &str) {
    let launches = [3, 9, 15, 21, 27];
    let faults: String = launches.iter().map(|launch| format!("launch {launch}: {fault}\n")).collect();
    if !on_emulated(test, "sm_90", &faults) {
        return;
    }
    let codes = survive(&first(), 40);
    assert!(codes.len() >= launches.len(), "{codes:?}");
    assert!(codes.iter().all(|code| *code == ErrorCode::DeviceLost), "{codes:?}");
}

#[test]
fn a_device_that_is_lost_at_a_launch_recovers() {
    losses("a_device_that_is_lost_at_a_launch_recovers", "lost");
}

#[test]
fn a_device_with_a_memory_error_recovers() {
    losses("a_device_with_a_memory_error_recovers", "ecc");
}

#[test]
fn a_device_after_an_illegal_address_recovers() {
    losses("a_device_after_an_illegal_address_recovers", "illegal address");
}

#[test]
fn a_device_after_a_timeout_of_its_own_recovers() {
    losses("a_device_after_a_timeout_of_its_own_recovers", "timeout");
}

/// Each error after which a context is of no use, by its name in a file of faults.
#[test]
fn a_device_recovers_from_every_error_that_poisons_a_context() {
    let errors = [
        "misaligned address",
        "illegal instruction",
        "invalid address space",
        "invalid pc",
        "stack error",
        "assert",
        "launch failed",
        "unknown",
    ];
    let faults: String =
        (0..).zip(errors).map(|(at, error)| format!("launch {}: {error}\n", 4 + 7 * at)).collect();
    if !on_emulated("a_device_recovers_from_every_error_that_poisons_a_context", "sm_90", &faults) {
        return;
    }
    let codes = survive(&first(), 80);
    assert!(codes.len() >= errors.len(), "{codes:?}");
    assert!(codes.iter().all(|code| *code == ErrorCode::DeviceLost), "{codes:?}");
}

/// Whatever a backend made is destroyed before its context.
#[test]
fn nothing_is_left_of_a_backend() {
    let test = "nothing_is_left_of_a_backend";
    let Some(backend) = common::backend(test) else { return };
    if !backend.device_name().starts_with("vyre emulated") {
        return eprintln!("SKIP {test} on cuda: {} is not emulated", backend.device_name());
    }
    drop(backend);
    if in_own_process(test, &[("VYRE_EMULATED_CHECKS", "leaks")], LIMIT) {
        let backend = first();
        for at in 0..10 {
            turn(&backend, at).expect("it runs");
            assert!(forms(&backend).is_empty());
        }
        backend.shutdown().expect("it shuts down");
        drop(backend);
    }
}

/// Memory that was freed is used again: the device has none to give after the first.
#[test]
fn freed_memory_is_used_again() {
    if !on_emulated("freed_memory_is_used_again", "sm_90", "allocation 40..1000000: out of memory\n") {
        return;
    }
    let backend = first();
    for at in 0..100 {
        let resource =
            backend.allocate_resident(300_000).unwrap_or_else(|error| panic!("turn {at}: {error}"));
        backend.free_resident(resource).expect("it is free");
        works(&backend);
    }
}

#[test]
fn a_loss_within_a_repeated_sequence_recovers() {
    if !on_emulated("a_loss_within_a_repeated_sequence_recovers", "sm_90", "launch 20: lost") {
        return;
    }
    let (backend, program) = (first(), increment());
    let run = || {
        let resources = [backend.allocate_resident(256).expect("it fits")];
        let grid_override = Some([1, 1, 1]);
        let step = ResidentDispatchStep { program: &program, resources: &resources, grid_override };
        let range = ResidentReadRange { resource: &resources[0], byte_offset: 0, byte_len: 4 };
        let mut out = Vec::new();
        let ran = backend.dispatch_resident_repeated_sequence_read_ranges_into(
            &[step],
            &[step],
            100,
            &[range],
            &mut [&mut out],
        );
        (ran.map(|()| out), resources)
    };
    let (lost, [resource]) = run();
    assert_eq!(code(lost), ErrorCode::DeviceLost);
    assert_eq!(code(backend.download_resident(&resource)), ErrorCode::DeviceLost);
    backend.try_recover().expect("it recovers");
    assert_eq!(code(backend.download_resident(&resource)), ErrorCode::BadHandle);
    assert_eq!(run().0.expect("it runs"), words([101]));
}

#[test]
fn a_loss_beside_other_callers_reaches_them_as_an_error() {
    if !on_emulated("a_loss_beside_other_callers_reaches_them_as_an_error", "sm_90", "launch 30: lost") {
        return;
    }
    let backend = first();
    let failed: usize = std::thread::scope(|scope| {
        let backend = &backend;
        let caller = |first: u32| {
            scope.spawn(move || {
                let results = (first..first + 40).map(|at| turn(backend, at));
                let failed: Vec<BackendError> = results.filter_map(Result::err).collect();
                failed.iter().for_each(|error| assert_eq!(error.code(), ErrorCode::DeviceLost, "{error}"));
                failed.len()
            })
        };
        let callers: Vec<_> = (0..4).map(caller).collect();
        callers.into_iter().map(|caller| caller.join().expect("it gets right bytes or errors")).sum()
    });
    assert!(failed > 0 && backend.device_lost());
    backend.try_recover().expect("it recovers");
    (0..20).for_each(|at| turn(&backend, at).expect("it runs"));
}

#[test]
fn a_kernel_that_never_ends_loses_the_device_and_no_more() {
    if !on_emulated("a_kernel_that_never_ends_loses_the_device_and_no_more", "sm_90", "launch 2: hangs") {
        return;
    }
    let backend = first();
    works(&backend);
    let kept = backend.allocate_resident(64).expect("it fits");
    let (timeout, start) = (Some(Duration::from_millis(100)), Instant::now());
    let config = DispatchConfig { timeout, ..DispatchConfig::default() };
    assert_eq!(code(backend.dispatch(&increment(), &[words(0..64)], &config)), ErrorCode::DeviceLost);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(backend.device_lost());
    backend.try_recover().expect("a context opens beside the one that hangs");
    assert_eq!(code(backend.download_resident(&kept)), ErrorCode::BadHandle);
    (0..10).for_each(|at| turn(&backend, at).expect("it runs"));
    backend.shutdown().expect("nothing waits for what hangs");
}

/// The first copy sets the cancel word of a new stream.
#[test]
fn a_copy_that_never_ends_loses_the_device_and_no_more() {
    if !on_emulated("a_copy_that_never_ends_loses_the_device_and_no_more", "sm_90", "copy 1: hangs") {
        return;
    }
    let backend = first();
    let start = Instant::now();
    assert_eq!(code(turn(&backend, 0)), ErrorCode::DeviceLost);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    backend.try_recover().expect("a context opens beside the one that hangs");
    (0..10).for_each(|at| turn(&backend, at).expect("it runs"));
}

#[test]
fn copies_that_fail_are_errors() {
    let faults: String =
        [1, 4, 9, 15, 16, 30, 50, 51, 80].map(|copy| format!("copy {copy}: fails\n")).concat();
    if !on_emulated("copies_that_fail_are_errors", "sm_90", &faults) {
        return;
    }
    assert!(!survive(&first(), 50).is_empty());
}

/// A program of one workgroup, from the lines of its body.
fn program(body: &str) -> Program {
    contract::parse(&format!(
        "program @form workgroup(64, 1, 1) {{
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          {body}
        }}"
    ))
}

/// Calls of further forms, each with right bytes or an error: programs that trap, that leave bytes unwritten, that have grid
/// barriers, that are timed, that repeat as a graph, that are kept.
fn forms(backend: &CudaBackend) -> Vec<BackendError> {
    const BYTES: usize = 1 << 16;
    let sized = DispatchConfig { output_sizes: vec![BYTES], ..DispatchConfig::default() };
    let timeout = Some(Duration::from_secs(600));
    let stoppable = DispatchConfig { timeout, ..sized.clone() };
    let mut errors = Vec::new();
    let mut see = |found: Result<(), BackendError>| errors.extend(found.err());

    // The memory that it leaves to the next one is not zero.
    let (input, expected) = (words(1..BYTES as u32 / 4 + 1), words(2..BYTES as u32 / 4 + 2));
    see(backend.dispatch(&increment(), &[&input[..]].map(<[u8]>::to_vec), &DispatchConfig::default()).map(
        |out| {
            assert!(out[0] == expected, "increment");
        },
    ));
    let partial = program("%first = eq.u32 %i, 0\n if %first {\n store.u32 @y[0], 7\n }");
    for config in [&sized, &stoppable] {
        see(backend.dispatch(&partial, &[], config).map(|out| {
            assert!(
                out[0][..4] == words([7]) && out[0][4..].iter().all(|byte| *byte == 0),
                "what no lane writes"
            );
        }));
    }
    let trapping = program("trap 9");
    match backend.dispatch(&trapping, &[], &sized) {
        Ok(_) => panic!("a trap was lost"),
        Err(BackendError::Trap { .. }) => {}
        Err(error) => see(Err(error)),
    }
    see(trap_within_a_sequence(backend, &trapping));
    let barrier = program(
        "store.u32 @y[%i], %i
         grid_barrier
         %n = len @y
         %last = sub.u32 %n, 1
         %from = sub.u32 %last, %i
         %v = load.u32 @y[%from]
         grid_barrier
         store.u32 @y[%i], %v",
    );
    let turned = DispatchConfig { output_sizes: vec![1024], ..DispatchConfig::default() };
    see(backend.dispatch_borrowed_timed(&barrier, &[], &turned).map(|timed| {
        assert!(timed.outputs[0] == words((0..256).rev()), "grid barriers");
    }));
    see(repeated(backend, 40));
    let kept = program("store.u32 @y[%i], 5");
    see(backend.compile_native(&kept, &sized).and_then(|pipeline| {
        let pipeline = pipeline.expect("there is something to keep");
        pipeline.dispatch(&[], &sized).map(|out| assert!(out[0] == words(vec![5; BYTES / 4]), "kept"))
    }));
    errors
}

/// One launch of several traps, and the others have no trap.
fn trap_within_a_sequence(backend: &CudaBackend, trapping: &Program) -> Result<(), BackendError> {
    let program = increment();
    let resources = [backend.allocate_resident(256)?];
    let [first, second] = [&program, trapping].map(|program| ResidentDispatchStep {
        program,
        resources: &resources,
        grid_override: Some([1, 1, 1]),
    });
    let uploaded = backend.upload_resident(&resources[0], &words(0..64));
    let ran = uploaded.and_then(|()| {
        match backend.dispatch_resident_sequence_read_ranges_into(&[first, second, first], &[], &mut []) {
            Ok(_) => panic!("a trap was lost"),
            Err(BackendError::Trap { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    });
    let [resource] = resources;
    let freed = backend.free_resident(resource);
    ran.and(freed)
}

/// Increments so often, as a repeated sequence.
fn repeated(backend: &CudaBackend, count: u32) -> Result<(), BackendError> {
    let program = increment();
    let resources = [backend.allocate_resident(256)?];
    let ran = (|| {
        backend.upload_resident(&resources[0], &words(0..64))?;
        let step =
            ResidentDispatchStep { program: &program, resources: &resources, grid_override: Some([1, 1, 1]) };
        let range = ResidentReadRange { resource: &resources[0], byte_offset: 0, byte_len: 256 };
        let mut out = Vec::new();
        backend.dispatch_resident_repeated_sequence_read_ranges_into(
            &[],
            &[step],
            count,
            &[range],
            &mut [&mut out],
        )?;
        assert!(out == words(count..count + 64), "{count} turns");
        Ok(())
    })();
    let [resource] = resources;
    let freed = backend.free_resident(resource);
    ran.and(freed)
}

/// Every function of the driver may fail, and none of the errors may get lost: what follows would use memory that was not
/// filled, or look at results that are not there.
fn failing_calls(test: &str, step: u32) {
    if !on_emulated(test, "sm_90", &format!("call every {step}: invalid value\n")) {
        return;
    }
    // Opening fails too, now and then.
    let backend =
        (0..step).find_map(|_| numbered(0).ok()).expect("some of so many calls in a row do not fail");
    let mut failed = 0;
    for at in 0..150 {
        let errors = turn(&backend, at).err().into_iter().chain(forms(&backend));
        for error in errors {
            failed += 1;
            assert!(error.to_string().contains("Fix:"), "turn {at}: {error}");
            let is_loss = error.code() == ErrorCode::DeviceLost;
            assert!(is_loss || !matches!(error.code(), ErrorCode::Trap), "turn {at}: {error}");
            assert!(!is_loss || backend.device_lost(), "turn {at}: {error}");
        }
        if backend.device_lost() {
            (0..step).find_map(|_| backend.try_recover().ok()).expect("it recovers");
        }
    }
    assert!(failed > 0, "no turn failed");
}

#[test]
fn calls_that_fail_all_the_time_are_errors() {
    failing_calls("calls_that_fail_all_the_time_are_errors", 13);
}

#[test]
fn calls_that_fail_often_are_errors() {
    failing_calls("calls_that_fail_often_are_errors", 41);
}

#[test]
fn calls_that_fail_now_and_then_are_errors() {
    failing_calls("calls_that_fail_now_and_then_are_errors", 157);
}

#[test]
fn calls_that_fail_seldom_are_errors() {
    failing_calls("calls_that_fail_seldom_are_errors", 379);
}

#[test]
fn an_allocation_that_fails_once_is_tried_again() {
    let faults: String = [3, 7, 12].map(|one| format!("allocation {one}: out of memory\n")).concat();
    if !on_emulated("an_allocation_that_fails_once_is_tried_again", "sm_90", &faults) {
        return;
    }
    let codes = survive(&first(), 30);
    assert!(codes.is_empty(), "{codes:?}");
}

#[test]
fn allocations_that_fail_again_are_errors_and_the_device_goes_on() {
    let faults: String =
        [3, 4, 9, 10, 15, 16, 21, 22].map(|one| format!("allocation {one}: out of memory\n")).concat();
    if !on_emulated("allocations_that_fail_again_are_errors_and_the_device_goes_on", "sm_90", &faults) {
        return;
    }
    let backend = first();
    let codes = survive(&backend, 30);
    assert!(!codes.is_empty() && codes.iter().all(|code| *code == ErrorCode::OutOfMemory), "{codes:?}");
    assert!(!backend.device_lost());
}
