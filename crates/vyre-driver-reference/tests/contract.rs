//! The driver contract on the reference backend, as far as the conformance suite does not test it: what is the
//! interpreter's own, several instances, hanging dispatches, recovery.

use std::sync::Arc;
use std::time::{Duration, Instant};
use vyre_driver::routing::{Choice, dispatch, route};
use vyre_driver::{
    BackendError, CancelToken, DispatchConfig, ErrorCode, HandleFault, VyreBackend, pipeline, registry,
};
use vyre_driver_reference::ReferenceBackend;
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::Program;
use vyre_foundation::text;

fn parse(source: &str) -> Program {
    text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `y[i] = x[i] * k + y[i]`.
fn scale() -> Program {
    parse(
        "program @scale workgroup(4, 1, 1) {
          buffer @k : uniform    u32[1] binding 0
          buffer @x : read       u32[]  binding 3
          buffer @y : read_write u32[]  binding 5 output
          %i = global_id x
          %k = load.u32 @k[0]
          %x = load.u32 @x[%i]
          %y = load.u32 @y[%i]
          %p = mul.u32 %k, %x
          %s = add.u32 %p, %y
          store.u32 @y[%i], %s
        }",
    )
}

/// Loops 2^32 - 1 times.
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

fn code<T: std::fmt::Debug>(result: Result<T, BackendError>) -> ErrorCode {
    let error = result.expect_err("must fail");
    assert!(error.to_string().contains("Fix:"), "{error}");
    error.code()
}

#[test]
fn what_is_wrong_is_refused_before_any_launch() {
    let backend = ReferenceBackend::default();
    let invalid = parse("program @bad workgroup(1, 1, 1) {\n  break\n}\n");
    assert_eq!(code(backend.dispatch(&invalid, &[], &DispatchConfig::default())), ErrorCode::InvalidProgram);
    let huge = DispatchConfig { grid_override: Some([u32::MAX, 2, 1]), ..DispatchConfig::default() };
    let inputs = [words(&[1]), words(&[1]), words(&[1])];
    assert_eq!(code(backend.dispatch(&scale(), &inputs, &huge)), ErrorCode::InvalidLaunch);
    let wide = DispatchConfig { workgroup_override: Some([2048, 1, 1]), ..DispatchConfig::default() };
    assert_eq!(code(backend.dispatch(&scale(), &inputs, &wide)), ErrorCode::InvalidProgram);
    assert_eq!(backend.backend_metric_snapshot()[0], ("dispatches", 0));
}

#[test]
fn wrong_handles_and_ranges_are_errors() {
    let backend = ReferenceBackend::default();
    let other = ReferenceBackend::default();
    let y = backend.allocate_resident(8).unwrap();
    let fault = |result: Result<(), BackendError>| match result {
        Err(BackendError::BadHandle { cause, .. }) => cause,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(other.upload_resident(&y, &[0; 8])), HandleFault::Foreign);
    let buffer = backend.allocate_device_buffer(4).unwrap();
    assert_eq!(fault(other.download_device_buffer(&*buffer).map(drop)), HandleFault::Foreign);
    assert_eq!(code(backend.upload_resident(&y, &[0; 7])), ErrorCode::InvalidLaunch);
    assert_eq!(code(backend.upload_resident_at(&y, 6, &[0; 3])), ErrorCode::InvalidLaunch);
    assert_eq!(code(backend.download_resident_range(&y, usize::MAX, 2)), ErrorCode::InvalidLaunch);
    let (good, bad) = (words(&[1, 2]), words(&[3]));
    assert!(backend.upload_resident_many(&[(&y, &good), (&y, &bad)]).is_err());
    assert_eq!(backend.download_resident(&y).unwrap(), [0; 8], "a failed batch changes nothing");
    let k = backend.allocate_resident(4).unwrap();
    let twice = [k, y.clone(), y.clone()];
    let bound_twice = backend.dispatch_resident_timed(&scale(), &twice, &DispatchConfig::default()).map(drop);
    assert_eq!(fault(bound_twice), HandleFault::BoundTwice);
    backend.free_resident(y.clone()).unwrap();
    assert_eq!(fault(backend.free_resident(y.clone())), HandleFault::Freed);
    assert_eq!(fault(backend.download_resident(&y).map(drop)), HandleFault::Freed);
}

#[test]
fn a_trap_fails_the_dispatch_and_invalidates_what_it_could_write() {
    let program = parse(
        "program @guard workgroup(1, 1, 1) {
          buffer @x : read       u32[] binding 0
          buffer @y : read_write u32[] binding 1 output
          %i = global_id x
          store.u32 @y[%i], 1
          %v = load.u32 @x[%i]
          %z = eq.u32 %v, 0
          if %z {
            trap 7
          }
        }",
    );
    let backend = ReferenceBackend::default();
    let x = backend.allocate_resident(4).unwrap();
    let y = backend.allocate_resident(4).unwrap();
    let resources = [x.clone(), y.clone()];
    let config = DispatchConfig::default();
    match backend.dispatch_resident_timed(&program, &resources, &config) {
        Err(BackendError::Trap { code: 7, place, lane: Some([0, 0, 0]) }) => {
            assert_eq!(place, Place::Line { function: None, site: 5 });
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(code(backend.download_resident(&y)), ErrorCode::BadHandle);
    assert_eq!(backend.download_resident(&x).unwrap(), [0; 4], "what it only reads is untouched");
    backend.upload_resident(&x, &words(&[1])).unwrap();
    assert_eq!(code(backend.dispatch_resident_timed(&program, &resources, &config)), ErrorCode::BadHandle);
    backend.upload_resident(&y, &[0; 4]).unwrap();
    backend.dispatch_resident_timed(&program, &resources, &config).unwrap();
    assert_eq!(backend.download_resident(&y).unwrap(), words(&[1]));
}

#[test]
fn a_dispatch_that_hangs_ends_at_its_timeout_and_the_next_one_works() {
    let backend = ReferenceBackend::default();
    let limit = Duration::from_millis(50);
    let config = DispatchConfig { timeout: Some(limit), ..DispatchConfig::default() };
    let start = Instant::now();
    let error = backend.dispatch(&endless(), &[], &config).unwrap_err();
    assert_eq!(error, BackendError::Timeout { limit });
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let inputs = [words(&[2]), words(&[4]), words(&[0])];
    assert_eq!(backend.dispatch(&scale(), &inputs, &config).unwrap(), [words(&[8])]);
}

#[test]
fn a_timeout_also_ends_the_wait_for_a_buffer_that_another_dispatch_holds() {
    let backend = ReferenceBackend::default();
    let (program, y) = (endless(), [backend.allocate_resident(4).unwrap()]);
    let token = CancelToken::new();
    let cancellable = DispatchConfig { cancel: Some(token.clone()), ..DispatchConfig::default() };
    let limit = Duration::from_millis(50);
    let impatient = DispatchConfig { timeout: Some(limit), ..DispatchConfig::default() };
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| backend.dispatch_resident_timed(&program, &y, &cancellable));
        std::thread::sleep(Duration::from_millis(20));
        let waited = backend.dispatch_resident_timed(&program, &y, &impatient);
        assert_eq!(waited.unwrap_err(), BackendError::Timeout { limit });
        token.cancel();
        // If the holder came too late to hold it, it finds what the other left.
        let held = code(holder.join().unwrap());
        assert!([ErrorCode::Cancelled, ErrorCode::BadHandle].contains(&held), "{held}");
    });
    assert_eq!(code(backend.download_resident(&y[0])), ErrorCode::BadHandle, "its bytes are undefined now");
}

#[test]
fn async_dispatches_can_be_awaited_timed_out_and_cancelled() {
    let backend = ReferenceBackend::default();
    let config = DispatchConfig::default();
    let pending = {
        let inputs = [words(&[2]), words(&[4]), words(&[0])];
        let borrowed: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        backend.dispatch_borrowed_async(&scale(), &borrowed, &config).unwrap()
    };
    assert_eq!(pending.await_result().unwrap(), [words(&[8])], "the inputs are gone by now");

    let pending = backend.dispatch_async(&endless(), &[], &config).unwrap();
    assert!(!pending.is_ready());
    pending.cancel();
    assert_eq!(pending.await_result().unwrap_err(), BackendError::Cancelled);

    let limit = Duration::from_millis(20);
    let pending = backend.dispatch_async(&endless(), &[], &config).unwrap();
    assert_eq!(pending.await_timeout(limit).unwrap_err(), BackendError::Timeout { limit });

    let token = CancelToken::new();
    let cancellable = DispatchConfig { cancel: Some(token.clone()), ..DispatchConfig::default() };
    let pending = backend.dispatch_async(&endless(), &[], &cancellable).unwrap();
    token.cancel();
    assert_eq!(pending.await_result().unwrap_err(), BackendError::Cancelled);

    // Errors of the run come from `await_result`.
    let pending = backend.dispatch_async(&scale(), &[], &config).unwrap();
    assert_eq!(code(pending.await_result()), ErrorCode::InvalidLaunch);
}

#[test]
fn recovery_invalidates_pipelines_and_handles_and_shutdown_ends_dispatch() {
    let backend = ReferenceBackend::default();
    let program = scale();
    let config = DispatchConfig::default();
    let inputs = [words(&[2]), words(&[4]), words(&[0])];
    let borrowed: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let pipeline = backend.compile_native(&program, &config).unwrap().unwrap();
    let handle = backend.allocate_resident(4).unwrap();
    assert_eq!(pipeline.dispatch(&borrowed, &config).unwrap(), [words(&[8])]);
    assert_eq!(pipeline.dispatch_batch(&[&borrowed, &borrowed], &config).unwrap().len(), 2);

    backend.lose_device();
    assert!(backend.device_lost() && !pipeline.is_valid());
    assert_eq!(code(pipeline.dispatch(&borrowed, &config)), ErrorCode::DeviceLost);
    assert_eq!(code(backend.dispatch(&program, &inputs, &config)), ErrorCode::DeviceLost);

    backend.try_recover().unwrap();
    assert!(!backend.device_lost());
    assert_eq!(code(pipeline.dispatch(&borrowed, &config)), ErrorCode::PipelineInvalidated);
    assert_eq!(code(backend.download_resident(&handle)), ErrorCode::BadHandle);
    assert_eq!(backend.dispatch(&program, &inputs, &config).unwrap(), [words(&[8])]);

    backend.shutdown().unwrap();
    assert_eq!(code(backend.dispatch(&program, &inputs, &config)), ErrorCode::ShutDown);
    assert_eq!(code(backend.try_recover()), ErrorCode::ShutDown);
}

#[test]
fn pipelines_count_their_cache() {
    let backend = ReferenceBackend::default();
    let config = DispatchConfig::default();
    for _ in 0..3 {
        backend.compile_native(&scale(), &config).unwrap();
    }
    let counts = backend.pipeline_cache_snapshot().unwrap();
    assert_eq!((counts.hits, counts.misses, counts.entries), (2, 1, 1));
}

#[test]
fn routing_finds_the_reference_and_never_substitutes() {
    let inputs = [words(&[2]), words(&[4]), words(&[0])];
    let borrowed: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let config = DispatchConfig::default();
    let (timed, taken) = dispatch(Choice::Auto, &scale(), &borrowed, &config).unwrap();
    assert_eq!((timed.outputs, taken.backend.id()), (vec![words(&[8])], "reference"));
    match route(Choice::Id("cuda-9"), &scale(), &borrowed, &config) {
        Err(error) => {
            assert_eq!(error.code(), ErrorCode::Unavailable);
            assert!(error.to_string().contains("reference"), "{error}");
        }
        Ok(_) => panic!("no such backend"),
    }
    let shared: Arc<dyn VyreBackend> = registry::open("reference").unwrap();
    let pipeline = pipeline::compile(&shared, &scale(), &config).unwrap();
    assert_eq!(pipeline.dispatch(&borrowed, &config).unwrap(), [words(&[8])]);
}
