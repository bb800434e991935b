//! A backend with nothing but `id` and `dispatch`: every default, by what it does.
//!
//! Telemetry is counted for the whole process, so the tests that read it take turns.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use vyre_driver::backend::private::Sealed;
use vyre_driver::observability::{DispatchTelemetry, snapshot_dispatch_telemetry};
use vyre_driver::{
    BackendError, DEVICE_BUFFER_FEATURE, DeviceBuffer, DeviceProfile, DispatchConfig, ErrorCode,
    PendingDispatch, ResidentDispatchStep, ResidentReadRange, Resource, VyreBackend, default_supported_ops,
};
use vyre_foundation::ir::{OpId, Program};

/// Returns its inputs, each reversed.
#[derive(Default)]
struct MockBackend {
    dispatches: AtomicUsize,
}

impl Sealed for MockBackend {}

impl VyreBackend for MockBackend {
    fn id(&self) -> &'static str {
        "mock"
    }

    fn dispatch(
        &self,
        _program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        self.dispatches.fetch_add(1, Ordering::Relaxed);
        if config.label.as_deref() == Some("fail") {
            return Err(BackendError::Cancelled);
        }
        Ok(inputs.iter().map(|input| input.iter().rev().copied().collect()).collect())
    }
}

/// A test's turn at the counters; every test that dispatches takes one.
fn turn() -> std::sync::MutexGuard<'static, ()> {
    static TELEMETRY: Mutex<()> = Mutex::new(());
    TELEMETRY.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What `work` added to the counters.
fn counted(work: impl FnOnce()) -> DispatchTelemetry {
    let before = snapshot_dispatch_telemetry();
    work();
    let after = snapshot_dispatch_telemetry();
    DispatchTelemetry {
        launches: after.launches - before.launches,
        input_bytes: after.input_bytes - before.input_bytes,
        output_bytes: after.output_bytes - before.output_bytes,
        output_slots: after.output_slots - before.output_slots,
        output_slots_reused: after.output_slots_reused - before.output_slots_reused,
        output_slots_moved: after.output_slots_moved - before.output_slots_moved,
        output_slots_appended: after.output_slots_appended - before.output_slots_appended,
    }
}

fn unsupported(result: Result<(), BackendError>) -> String {
    match result {
        Err(BackendError::UnsupportedFeature { name, backend }) => {
            assert_eq!(backend, "mock");
            name
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn borrowed_dispatch_copies_calls_and_counts_once() {
    let _turn = turn();
    let mock = MockBackend::default();
    let program = Program::empty();
    let counts = counted(|| {
        let outputs =
            mock.dispatch_borrowed(&program, &[&[1, 2, 3], &[4]], &DispatchConfig::default()).unwrap();
        assert_eq!(outputs, [vec![3, 2, 1], vec![4]]);
    });
    let expected =
        DispatchTelemetry { launches: 1, input_bytes: 4, output_bytes: 4, ..DispatchTelemetry::default() };
    assert_eq!(counts, expected);
}

#[test]
fn failed_dispatches_are_not_counted() {
    let _turn = turn();
    let mock = MockBackend::default();
    let config = DispatchConfig { label: Some("fail".into()), ..DispatchConfig::default() };
    let counts = counted(|| {
        let error = mock.dispatch_borrowed(&Program::empty(), &[&[1]], &config).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Cancelled);
    });
    assert_eq!(counts, DispatchTelemetry::default());
}

#[test]
fn dispatch_into_reuses_moves_and_appends_and_drops_stale_slots() {
    let _turn = turn();
    let mock = MockBackend::default();
    let program = Program::empty();
    let config = DispatchConfig::default();
    let roomy = Vec::with_capacity(64);
    let storage = roomy.as_ptr();
    let mut outputs = vec![roomy, Vec::new()];
    let counts = counted(|| {
        mock.dispatch_borrowed_into(&program, &[&[1, 2], &[3, 4], &[5]], &config, &mut outputs).unwrap();
    });
    assert_eq!(outputs, [vec![2, 1], vec![4, 3], vec![5]]);
    assert_eq!(outputs[0].as_ptr(), storage, "a slot with room keeps its storage");
    let expected = DispatchTelemetry {
        launches: 1,
        input_bytes: 5,
        output_bytes: 5,
        output_slots: 3,
        output_slots_reused: 1,
        output_slots_moved: 1,
        output_slots_appended: 1,
    };
    assert_eq!(counts, expected);

    mock.dispatch_borrowed_into(&program, &[&[9]], &config, &mut outputs).unwrap();
    assert_eq!(outputs, [vec![9]], "no stale slot stays behind");
}

#[test]
fn the_empty_program_dispatches_without_admission() {
    let _turn = turn();
    let mut outputs = Vec::new();
    let mock = MockBackend::default();
    mock.dispatch_borrowed_into(&Program::empty(), &[&[7]], &DispatchConfig::default(), &mut outputs)
        .unwrap();
    assert_eq!(outputs, [vec![7]]);
}

#[test]
fn timed_dispatch_knows_only_the_wall() {
    let _turn = turn();
    let timed = MockBackend::default()
        .dispatch_borrowed_timed(&Program::empty(), &[&[1, 2]], &DispatchConfig::default())
        .unwrap();
    assert_eq!(timed.outputs, [vec![2, 1]]);
    assert!(timed.wall_ns > 0);
    assert_eq!((timed.device_ns, timed.enqueue_ns, timed.wait_ns), (None, None, None));
}

#[test]
fn async_dispatch_is_ready_at_once_and_returns_its_errors_from_the_call() {
    let _turn = turn();
    let mock = MockBackend::default();
    let program = Program::empty();
    let config = DispatchConfig::default();
    let both: [Box<dyn PendingDispatch>; 2] = [
        mock.dispatch_async(&program, &[vec![1, 2]], &config).unwrap(),
        mock.dispatch_borrowed_async(&program, &[&[1, 2]], &config).unwrap(),
    ];
    assert_eq!(mock.dispatches.load(Ordering::Relaxed), 2, "both ran before their handles were returned");
    for pending in both {
        assert!(pending.is_ready());
        assert_eq!(pending.await_result().unwrap(), [vec![2, 1]]);
    }
    let failing = DispatchConfig { label: Some("fail".into()), ..DispatchConfig::default() };
    assert!(mock.dispatch_async(&program, &[], &failing).is_err());
    assert!(mock.dispatch_borrowed_async(&program, &[], &failing).is_err());
}

#[test]
fn resident_defaults_decline_by_name() {
    let mock = MockBackend::default();
    let resource = Resource::Resident(1);
    let program = Program::empty();
    let mut out = Vec::new();
    let declined = [
        (mock.allocate_resident(4).map(drop), "resident buffer allocation"),
        (mock.upload_resident(&resource, &[]), "resident buffer upload"),
        (mock.upload_resident_many(&[(&resource, &[])]), "resident buffer batch upload"),
        (mock.upload_resident_at(&resource, 0, &[]), "resident buffer ranged upload"),
        (mock.upload_resident_at_many(&[(&resource, 0, &[])]), "resident buffer ranged batch upload"),
        (mock.download_resident(&resource).map(drop), "resident buffer download"),
        (mock.download_resident_into(&resource, &mut out), "resident buffer download"),
        (mock.download_resident_range(&resource, 0, 4).map(drop), "resident buffer ranged download"),
        (
            mock.download_resident_range_into(&resource, 0, 4, &mut Vec::new()),
            "resident buffer ranged download",
        ),
        (
            mock.download_resident_ranges_into(&[(&resource, 0, 4)], &mut [&mut Vec::new()]),
            "resident buffer ranged download",
        ),
        (mock.free_resident(resource.clone()), "resident buffer free"),
        (mock.resident_byte_len(&resource).map(drop), "resident buffer download"),
        (
            mock.dispatch_resident_timed(&program, &[], &DispatchConfig::default()).map(drop),
            "resident timed dispatch",
        ),
        (mock.try_recover(), "device recovery"),
    ];
    for (result, name) in declined {
        assert_eq!(unsupported(result), name);
    }
}

#[test]
fn ranged_readback_checks_its_counts_before_anything_else() {
    let mock = MockBackend::default();
    let resource = Resource::Resident(1);
    let range = ResidentReadRange { resource: &resource, byte_offset: 0, byte_len: 4 };
    let program = Program::empty();
    let step = ResidentDispatchStep { program: &program, resources: &[], grid_override: None };
    let results = [
        mock.download_resident_ranges_into(&[(&resource, 0, 4)], &mut []),
        mock.dispatch_resident_sequence_read_ranges_into(&[step], &[range], &mut []),
        mock.dispatch_resident_sequence_read_ranges_timed_into(&[step], &[range], &mut []).map(drop),
        mock.dispatch_resident_repeated_sequence_read_ranges_into(&[], &[step], 3, &[range], &mut []),
    ];
    for result in results {
        assert_eq!(result.unwrap_err().code(), ErrorCode::InvalidLaunch);
    }
}

#[test]
fn a_sequence_of_nothing_takes_no_time_and_asks_for_nothing() {
    let mock = MockBackend::default();
    let timing = mock.dispatch_resident_sequence_read_ranges_timed_into(&[], &[], &mut []).unwrap();
    assert_eq!((timing.device_ns, timing.enqueue_ns, timing.wait_ns), (Some(0), Some(0), Some(0)));
    // A repeat of nothing is nothing, however often.
    mock.dispatch_resident_repeated_sequence_read_ranges_into(&[], &[], u32::MAX, &[], &mut []).unwrap();
}

#[test]
fn device_buffers_decline_under_one_name() {
    struct Other;
    impl DeviceBuffer for Other {
        fn backend_id(&self) -> &'static str {
            "other"
        }
        fn byte_len(&self) -> usize {
            0
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }
    let mock = MockBackend::default();
    let declined = [
        mock.allocate_device_buffer(4).map(drop),
        mock.upload_device_buffer(&mut Other, &[]),
        mock.download_device_buffer(&Other).map(drop),
        mock.free_device_buffer(Box::new(Other)),
        mock.dispatch_with_device_buffers(&Program::empty(), &[], &mut [], &DispatchConfig::default()),
    ];
    for result in declined {
        assert_eq!(unsupported(result), DEVICE_BUFFER_FEATURE);
    }
}

#[test]
fn capabilities_claim_nothing() {
    let mock = MockBackend::default();
    assert_eq!(mock.version(), "unspecified");
    assert_eq!((mock.device_name(), mock.driver_name()), ("unspecified", "unspecified"));
    assert_eq!(mock.supported_ops(), default_supported_ops());
    assert!(OpId::all().all(|op| mock.supported_ops().contains(&op)));
    let claims = [
        mock.supports_subgroup_ops(),
        mock.supports_f16(),
        mock.supports_bf16(),
        mock.supports_tensor_cores(),
        mock.supports_async_compute(),
        mock.supports_indirect_dispatch(),
        mock.supports_speculation(),
        mock.supports_persistent_thread_dispatch(),
        mock.supports_grid_sync(),
        mock.supports_resident_dispatch(),
        mock.is_distributed(),
        mock.supports_distributed_collectives(),
        mock.device_lost(),
    ];
    assert!(!claims.contains(&true));
    assert!(mock.allows_host_grid_sync_split());
    assert!(!mock.cooperative_grid_sync_fits(&Program::empty(), &[], &DispatchConfig::default()).unwrap());
    assert_eq!(mock.max_workgroup_size(), [1, 1, 1]);
    assert_eq!(mock.max_compute_workgroups_per_dimension(), 1);
    assert_eq!(mock.max_compute_invocations_per_workgroup(), 1);
    assert_eq!(mock.subgroup_size(), None);
    assert_eq!(mock.max_storage_buffer_bytes(), 0);
    assert!(mock.pipeline_cache_snapshot().is_none());
    assert!(mock.backend_metric_snapshot().is_empty());
    assert!(mock.compile_native(&Program::empty(), &DispatchConfig::default()).unwrap().is_none());
    assert!(mock.prepare().is_ok() && mock.flush().is_ok() && mock.shutdown().is_ok());
    let expected = DeviceProfile {
        max_workgroup_size: [1, 1, 1],
        max_invocations_per_workgroup: 1,
        ..DeviceProfile::unknown("mock")
    };
    assert_eq!(mock.device_profile(), expected);
}

/// Overrides a few queries, so that the defaults built on them can be seen to follow.
struct Wide;

impl Sealed for Wide {}

impl VyreBackend for Wide {
    fn id(&self) -> &'static str {
        "wide"
    }
    fn dispatch(&self, _: &Program, _: &[Vec<u8>], _: &DispatchConfig) -> Result<Vec<Vec<u8>>, BackendError> {
        Ok(Vec::new())
    }
    fn max_workgroup_size(&self) -> [u32; 3] {
        [u32::MAX, u32::MAX, 3]
    }
    fn supports_subgroup_ops(&self) -> bool {
        true
    }
    fn subgroup_size(&self) -> Option<u32> {
        Some(32)
    }
}

#[test]
fn derived_queries_follow_what_a_backend_overrides() {
    assert_eq!(Wide.max_compute_invocations_per_workgroup(), u32::MAX, "the product is capped, not wrapped");
    let profile = Wide.device_profile();
    assert!(profile.has_subgroup_shuffle && profile.supports_subgroup_ops);
    assert_eq!(profile.subgroup_size, 32);
}

#[test]
fn a_split_program_stops_at_a_backend_that_returns_other_buffers_than_it_was_given() {
    let _turn = turn();
    let source = "program @stages workgroup(1, 1, 1) {
      buffer @x : read       u32[] binding 0
      buffer @y : read_write u32[] binding 1 output
      %v = load.u32 @x[0]
      store.u32 @y[0], %v
      grid_barrier
      store.u32 @y[0], 2
    }";
    let program =
        vyre_foundation::text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program;
    let mock = MockBackend::default();
    let config = DispatchConfig { output_sizes: vec![4], ..DispatchConfig::default() };
    // The mock returns all its inputs, also those that are no outputs.
    let error = vyre_driver::grid_sync::dispatch(&mock, &program, &[&[1, 2, 3, 4]], &config).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Other);
    assert!(error.to_string().contains("backend `mock` returned outputs of"), "{error}");
    assert_eq!(mock.dispatches.load(Ordering::Relaxed), 1, "the second part never ran");
}
