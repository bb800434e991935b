//! A backend that overrides every method, on a device with known times: what callers and the framework get from it.
//!
//! Telemetry is counted for the whole process, so every test that dispatches takes its turn.

#[path = "full/backend.rs"]
mod backend;
#[path = "full/device.rs"]
mod device;

use backend::{FullBackend, missing_op, ops};
use device::{PREPARE_NS, SYNCHRONIZE_NS, TIMES, Times};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vyre_driver::observability::{DispatchTelemetry, snapshot_dispatch_telemetry};
use vyre_driver::{
    BackendError, DeviceTimingQuality, DispatchConfig, ErrorCode, HandleFault, ResidentDispatchStep,
    ResidentReadRange, ResidentSequenceTiming, Resource, TimedDispatchResult, VyreBackend, grid_sync,
    pipeline,
};
use vyre_foundation::ir::Program;
use vyre_foundation::text;

fn parse(source: &str) -> Program {
    text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program
}

/// What the fake device does whatever it is given; `name` makes the digest differ.
fn bump(name: &str) -> Program {
    parse(&format!(
        "program @{name} workgroup(1, 1, 1) {{
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          %v = load.u32 @y[%i]
          %w = add.u32 %v, 1
          store.u32 @y[%i], %w
        }}"
    ))
}

fn two_barriers() -> Program {
    parse(
        "program @stages workgroup(1, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          store.u32 @y[%i], 1
          grid_barrier
          store.u32 @y[%i], 2
          grid_barrier
          store.u32 @y[%i], 3
        }",
    )
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config() -> DispatchConfig {
    DispatchConfig::default()
}

fn metric(backend: &FullBackend, wanted: &str) -> u64 {
    let metrics = backend.backend_metric_snapshot();
    metrics.into_iter().find(|(name, _)| *name == wanted).expect("the metric is published").1
}

/// Resident words, uploaded.
fn resident(backend: &FullBackend, values: &[u32]) -> Resource {
    let resource = backend.allocate_resident(values.len() * 4).unwrap();
    backend.upload_resident(&resource, &words(values)).unwrap();
    resource
}

fn fault<T: std::fmt::Debug>(result: Result<T, BackendError>) -> HandleFault {
    match result {
        Err(BackendError::BadHandle { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_timed_dispatch_reports_the_devices_own_times() {
    let _turn = turn();
    let backend = FullBackend::new();
    let timed = backend.dispatch_borrowed_timed(&bump("t"), &[&words(&[4, 5])], &config()).unwrap();
    let expected = TimedDispatchResult {
        outputs: vec![words(&[5, 6])],
        wall_ns: PREPARE_NS + 100 + 10 + SYNCHRONIZE_NS,
        device_ns: Some(100),
        enqueue_ns: Some(10),
        wait_ns: Some(5),
    };
    assert_eq!(timed, expected);
}

#[test]
fn overridden_dispatches_count_as_the_defaults_do() {
    let _turn = turn();
    let backend = FullBackend::new();
    let program = bump("counted");
    let before = snapshot_dispatch_telemetry();
    let roomy = Vec::with_capacity(100);
    let storage = roomy.as_ptr();
    let mut outputs = vec![roomy, vec![1], vec![2]];
    backend.dispatch_borrowed_into(&program, &[&words(&[1, 2])], &config(), &mut outputs).unwrap();
    assert_eq!(outputs, [words(&[2, 3])], "stale slots are gone");
    assert_eq!(outputs[0].as_ptr(), storage, "the slot kept its storage");
    backend.dispatch_borrowed_into(&program, &[&words(&[1; 50])], &config(), &mut outputs).unwrap();
    assert_ne!(outputs[0].as_ptr(), storage, "the result did not fit and was moved in");
    backend.dispatch_borrowed_into(&program, &[&words(&[9])], &config(), &mut Vec::new()).unwrap();
    backend.dispatch(&program, &[words(&[7])], &config()).unwrap();
    assert!(backend.dispatch(&program, &[], &config()).is_err(), "and this one counts nowhere");
    let after = snapshot_dispatch_telemetry();
    let expected = DispatchTelemetry {
        launches: before.launches + 4,
        input_bytes: before.input_bytes + 8 + 200 + 4 + 4,
        output_bytes: before.output_bytes + 8 + 200 + 4 + 4,
        output_slots: before.output_slots + 3,
        output_slots_reused: before.output_slots_reused + 1,
        output_slots_moved: before.output_slots_moved + 1,
        output_slots_appended: before.output_slots_appended + 1,
    };
    assert_eq!(after, expected);
}

#[test]
fn sequences_sum_their_steps_and_read_behind_one_synchronization() {
    let _turn = turn();
    let backend = FullBackend::new();
    let (first, second) = (bump("a"), bump("b"));
    let (x, y) = ([resident(&backend, &[0; 4])], [resident(&backend, &[10; 4])]);
    let step = |program, resources, count| ResidentDispatchStep {
        program,
        resources,
        grid_override: Some([count, 1, 1]),
    };
    let steps = [step(&first, &x[..], 4), step(&second, &y[..], 1), step(&first, &x[..], 2)];
    let range = |resource, byte_offset, byte_len| ResidentReadRange { resource, byte_offset, byte_len };
    let ranges = [range(&x[0], 0, 16), range(&x[0], 4, 4), range(&y[0], 0, 8)];
    let mut outs = [vec![1; 64], Vec::new(), Vec::new()];
    let storage = outs[0].as_ptr();
    let mut slots: Vec<&mut Vec<u8>> = outs.iter_mut().collect();
    let timing =
        backend.dispatch_resident_sequence_read_ranges_timed_into(&steps, &ranges, &mut slots).unwrap();
    let expected = ResidentSequenceTiming {
        wall_ns: 2 * PREPARE_NS + 3 * 110 + SYNCHRONIZE_NS,
        device_ns: Some(300),
        enqueue_ns: Some(30),
        wait_ns: Some(15),
    };
    assert_eq!(timing, expected);
    assert_eq!(outs, [words(&[2, 2, 1, 1]), words(&[2]), words(&[11, 10])]);
    assert_eq!(outs[0].as_ptr(), storage, "readback reuses the caller's storage");
    assert_eq!(metric(&backend, "synchronizations"), 1);
    assert_eq!(metric(&backend, "preparations"), 2, "two programs, three steps");
}

#[test]
fn an_unknown_time_makes_its_sum_unknown_and_an_overflow_is_an_error() {
    let _turn = turn();
    let backend = FullBackend::new();
    let program = bump("times");
    let y = [resident(&backend, &[0])];
    let step = ResidentDispatchStep { program: &program, resources: &y, grid_override: None };
    let run = |script: [Times; 2]| {
        backend.device.script.lock().unwrap().extend(script);
        backend.dispatch_resident_sequence_read_ranges_timed_into(&[step, step], &[], &mut [])
    };
    let timing = run([TIMES, Times { wait: None, ..TIMES }]).unwrap();
    assert_eq!((timing.device_ns, timing.enqueue_ns, timing.wait_ns), (Some(200), Some(20), None));
    let huge = Times { wait: Some(u64::MAX), ..TIMES };
    assert_eq!(run([huge, TIMES]).unwrap_err().code(), ErrorCode::ClockOverflow);
    assert_eq!(run([huge, Times { wait: Some(0), ..TIMES }]).unwrap().wait_ns, Some(u64::MAX));
}

#[test]
fn repeated_sequences_prepare_once_however_often_they_run() {
    let _turn = turn();
    let program = bump("repeated");
    let preparations = |count: u32| {
        let backend = FullBackend::new();
        let y = [resident(&backend, &[0, 0])];
        let one = ResidentDispatchStep { program: &program, resources: &y, grid_override: Some([1, 1, 1]) };
        let both = ResidentDispatchStep { grid_override: None, ..one };
        let range = ResidentReadRange { resource: &y[0], byte_offset: 0, byte_len: 8 };
        let mut out = Vec::new();
        backend
            .dispatch_resident_repeated_sequence_read_ranges_into(
                &[both],
                &[one, both],
                count,
                &[range],
                &mut [&mut out],
            )
            .unwrap();
        assert_eq!(out, words(&[1 + 2 * count, 1 + count]));
        assert_eq!(metric(&backend, "launches"), 1 + 2 * u64::from(count));
        assert_eq!(metric(&backend, "synchronizations"), 1);
        metric(&backend, "preparations")
    };
    assert_eq!((preparations(0), preparations(3), preparations(3_000)), (1, 1, 1));
}

#[test]
fn async_dispatches_fail_and_cancel_through_their_handle() {
    let _turn = turn();
    let backend = FullBackend::new();
    let program = bump("async");
    let start = |inputs: &[&[u8]]| backend.dispatch_borrowed_async(&program, inputs, &config()).unwrap();
    let input = words(&[1]);
    let (late, cancelled, wrong, good) = (start(&[&input]), start(&[&input]), start(&[]), start(&[&input]));
    assert_eq!(metric(&backend, "launches"), 0, "nothing has run yet");
    assert!(!late.is_ready());
    let limit = Duration::from_millis(5);
    assert_eq!(late.await_timeout(limit).unwrap_err(), BackendError::Timeout { limit });
    cancelled.cancel();
    assert_eq!(cancelled.await_result().unwrap_err(), BackendError::Cancelled);
    assert_eq!(wrong.await_result().unwrap_err().code(), ErrorCode::InvalidLaunch);
    backend.flush().unwrap();
    assert!(good.is_ready());
    assert_eq!(good.await_timeout(limit).unwrap(), [words(&[2])]);
    assert_eq!(metric(&backend, "launches"), 1, "only the good one ran");
}

#[test]
fn pipelines_give_the_bytes_of_dispatch_until_recovery_invalidates_them() {
    let _turn = turn();
    let backend = FullBackend::new();
    let shared: Arc<dyn VyreBackend> = Arc::new(backend.clone());
    let program = bump("compiled");
    let compiled = pipeline::compile(&shared, &program, &config()).unwrap();
    let again = backend.compile_native(&program, &config()).unwrap().expect("it compiles natively");
    let counts = backend.pipeline_cache_snapshot().unwrap();
    assert_eq!((counts.hits, counts.misses, counts.entries), (1, 1, 1));

    let (a, b) = (words(&[1]), words(&[8, 9]));
    let batch: [&[&[u8]]; 2] = [&[&a], &[&b]];
    let expected = [vec![words(&[2])], vec![words(&[9, 10])]];
    assert_eq!(compiled.dispatch_batch(&batch, &config()).unwrap(), expected);
    assert_eq!(
        compiled.dispatch(&[&b], &config()).unwrap(),
        backend.dispatch(&program, std::slice::from_ref(&b), &config()).unwrap()
    );
    assert_eq!(again.program(), &program);

    backend.device.lost.store(true, Ordering::Release);
    assert!(backend.device_lost() && !compiled.is_valid());
    assert_eq!(compiled.dispatch(&[&a], &config()).unwrap_err().code(), ErrorCode::DeviceLost);
    backend.try_recover().unwrap();
    assert!(!backend.device_lost());
    for old in [&compiled, &again] {
        assert!(!old.is_valid());
        assert_eq!(old.dispatch(&[&a], &config()).unwrap_err().code(), ErrorCode::PipelineInvalidated);
    }
    assert_eq!(backend.pipeline_cache_snapshot().unwrap().entries, 0);
    let fresh = pipeline::compile(&shared, &program, &config()).unwrap();
    assert!(fresh.is_valid());
    assert_eq!(fresh.dispatch(&[&a], &config()).unwrap(), [words(&[2])]);
}

#[test]
fn resident_memory_knows_its_lengths_ranges_and_owners() {
    let _turn = turn();
    let (backend, other) = (FullBackend::new(), FullBackend::new());
    let (x, y) = (resident(&backend, &[1, 2, 3]), resident(&backend, &[4]));
    backend.upload_resident_at_many(&[(&x, 8, &words(&[30])), (&y, 0, &words(&[40]))]).unwrap();
    let (mut tail, mut whole) = (Vec::new(), Vec::new());
    backend.download_resident_ranges_into(&[(&x, 4, 8), (&y, 0, 4)], &mut [&mut tail, &mut whole]).unwrap();
    assert_eq!((tail, whole), (words(&[2, 30]), words(&[40])));
    assert_eq!(metric(&backend, "synchronizations"), 1, "two ranges, one synchronization");
    assert_eq!(backend.upload_resident(&x, &[0; 11]).unwrap_err().code(), ErrorCode::InvalidLaunch);
    assert_eq!(backend.upload_resident_at(&x, 12, &[0]).unwrap_err().code(), ErrorCode::InvalidLaunch);
    assert_eq!(backend.download_resident_range(&x, 0, 13).unwrap_err().code(), ErrorCode::InvalidLaunch);
    assert_eq!(fault(other.download_resident(&x)), HandleFault::Foreign);

    let pinned = backend.device.table.pin(&x).unwrap();
    assert_eq!(fault(backend.free_resident(x.clone())), HandleFault::InUse);
    drop(pinned);
    backend.free_resident(x.clone()).unwrap();
    let program = bump("freed");
    assert_eq!(
        fault(backend.dispatch_resident_timed(&program, std::slice::from_ref(&x), &config())),
        HandleFault::Freed
    );
    assert_eq!(metric(&backend, "launches"), 0);
    backend.try_recover().unwrap();
    assert_eq!(fault(backend.download_resident(&y)), HandleFault::Lost);
}

#[test]
fn device_buffers_share_the_table_and_belong_to_their_backend() {
    let _turn = turn();
    let (backend, other) = (FullBackend::new(), FullBackend::new());
    let program = bump("typed");
    let mut y = backend.allocate_device_buffer(8).unwrap();
    assert_eq!((y.backend_id(), y.byte_len()), ("full", 8));
    backend.upload_device_buffer(&mut *y, &words(&[1, 5])).unwrap();
    assert_eq!(backend.upload_device_buffer(&mut *y, &[0; 7]).unwrap_err().code(), ErrorCode::InvalidLaunch);
    backend.dispatch_with_device_buffers(&program, &[], &mut [&mut *y], &config()).unwrap();
    assert_eq!(backend.download_device_buffer(&*y).unwrap(), words(&[2, 6]));
    assert_eq!(fault(other.download_device_buffer(&*y)), HandleFault::Foreign);
    assert_eq!(
        fault(other.dispatch_with_device_buffers(&program, &[], &mut [&mut *y], &config())),
        HandleFault::Foreign
    );
    assert_eq!(fault(other.free_device_buffer(y)), HandleFault::Foreign);
    assert_eq!(backend.device.table.usage(), (1, 8), "the failed free freed nothing");
}

#[test]
fn after_shutdown_nothing_runs() {
    let _turn = turn();
    let backend = FullBackend::new();
    let y = resident(&backend, &[0]);
    let program = bump("shut");
    backend.prepare().unwrap();
    let compiled = backend.compile_native(&program, &config()).unwrap().unwrap();
    backend.shutdown().unwrap();
    let after = [
        backend.dispatch(&program, &[words(&[1])], &config()).map(drop),
        backend.dispatch_resident_timed(&program, std::slice::from_ref(&y), &config()).map(drop),
        backend.upload_resident(&y, &[0; 4]),
        backend.allocate_resident(4).map(drop),
        backend.compile_native(&program, &config()).map(drop),
        compiled.dispatch(&[&words(&[1])], &config()).map(drop),
        backend.prepare(),
        backend.flush(),
    ];
    for result in after {
        assert_eq!(result.unwrap_err().code(), ErrorCode::ShutDown);
    }
    assert_eq!(metric(&backend, "launches"), 0);
}

/// `(launches, resident allocations made)` or the error of routing a program with grid barriers.
fn routed(ways: [bool; 3], groups: u32) -> Result<(u64, bool), ErrorCode> {
    let backend = FullBackend { grid_sync: ways, ..FullBackend::new() };
    let input = words(&vec![0; groups as usize]);
    let marker = backend.device.table.insert(0, Mutex::new(Vec::new()));
    grid_sync::dispatch(&backend, &two_barriers(), &[&input], &config()).map_err(|error| error.code())?;
    // Handles are serial numbers, so the next one tells whether any was given out meanwhile.
    let next = backend.device.table.insert(0, Mutex::new(Vec::new()));
    let (Resource::Resident(marker), Resource::Resident(next)) = (marker, next) else { unreachable!() };
    Ok((metric(&backend, "launches"), next - marker > 1))
}

#[test]
fn grid_barriers_run_natively_where_they_fit_then_resident_then_split_by_the_host() {
    let _turn = turn();
    assert_eq!(routed([true, true, true], 8), Ok((1, false)), "fits: one native launch");
    assert_eq!(routed([true, true, true], 9), Ok((3, true)), "does not fit: three parts on resident memory");
    assert_eq!(routed([false, true, true], 1), Ok((3, true)));
    assert_eq!(routed([true, false, true], 9), Ok((3, false)), "three parts by the host");
    assert_eq!(routed([true, false, false], 9), Err(ErrorCode::UnsupportedFeature), "never a hidden split");
    assert_eq!(routed([true, false, false], 8), Ok((1, false)));

    let backend = FullBackend::new();
    let input = words(&[0; 9]);
    let forced = backend.dispatch_borrowed(&two_barriers(), &[&input], &config());
    assert_eq!(forced.unwrap_err().code(), ErrorCode::CooperativeResidencyExceeded);
    assert!(!backend.cooperative_grid_sync_fits(&bump("no_barrier"), &[&input], &config()).unwrap());
}

#[test]
fn what_it_publishes_is_what_callers_see_and_what_admission_holds_them_to() {
    let _turn = turn();
    let backend = FullBackend::new();
    let seen: &dyn VyreBackend = &backend;
    assert_eq!((seen.id(), seen.version()), ("full", "7"));
    assert_eq!((seen.device_name(), seen.driver_name()), ("full device", "full driver 1"));
    assert!(std::ptr::eq(seen.supported_ops(), ops()) && !seen.supported_ops().contains(&missing_op()));
    let claims = [
        seen.supports_subgroup_ops(),
        seen.supports_f16(),
        seen.supports_bf16(),
        seen.supports_tensor_cores(),
        seen.supports_async_compute(),
        seen.supports_indirect_dispatch(),
        seen.supports_speculation(),
        seen.supports_persistent_thread_dispatch(),
        seen.supports_grid_sync(),
        seen.supports_resident_dispatch(),
        seen.is_distributed(),
        seen.supports_distributed_collectives(),
    ];
    assert!(!claims.contains(&false));
    assert_eq!(seen.subgroup_size(), Some(32));
    assert_eq!(seen.max_compute_invocations_per_workgroup(), 512, "not the product of the axes");
    let profile = seen.device_profile();
    assert_eq!((profile.compute_units, profile.timing_quality), (132, DeviceTimingQuality::DeviceEvents));
    assert!(!profile.supports_f16, "an overridden profile says what it says, not what the queries say");

    let over = DispatchConfig { grid_override: Some([1_001, 1, 1]), ..config() };
    let refused = seen.dispatch(&bump("over"), &[words(&[0])], &over).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::LimitExceeded);
    let large = seen.dispatch(&bump("large"), &[vec![0; 4_100]], &config()).unwrap_err();
    assert_eq!(large.code(), ErrorCode::LimitExceeded);
    assert_eq!((metric(&backend, "launches"), metric(&backend, "preparations")), (0, 0));
}
