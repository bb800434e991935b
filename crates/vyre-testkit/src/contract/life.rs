//! A device's life: lost, recovered, shut down, forked, and beside another.

use super::{Subject, code, increment, process, words, works};
use std::sync::atomic::{AtomicBool, Ordering};
use vyre_driver::{BackendError, DispatchConfig, ErrorCode, HandleFault};

/// Every call on a lost device is an error; after recovery what was made before is refused, and the rest works.
///
/// # Panics
/// If the backend breaks the contract.
pub fn a_lost_device_says_so_and_recovers(backend: &Subject) {
    let (program, config) = (increment(), DispatchConfig::default());
    let inputs: &[&[u8]] = &[&words([7])];
    // A recovered device can be lost again.
    for _ in 0..2 {
        let pipeline = backend.compile_native(&program, &config).expect("it compiles");
        let pipeline = pipeline.expect("there is something to keep");
        assert_eq!(pipeline.dispatch(inputs, &config).expect("it runs"), [words([8])]);
        let batch = pipeline.dispatch_batch(&[inputs, inputs], &config).expect("it runs");
        assert_eq!(batch, [[words([8])], [words([8])]]);
        let resource = backend.allocate_resident(256).expect("it fits");
        backend.lose();
        assert!(backend.device_lost() && !pipeline.is_valid());
        assert_eq!(code(backend.download_resident(&resource)), ErrorCode::DeviceLost);
        assert_eq!(code(backend.upload_resident(&resource, &[1; 256])), ErrorCode::DeviceLost);
        assert_eq!(code(backend.allocate_resident(256)), ErrorCode::DeviceLost);
        assert_eq!(code(pipeline.dispatch(inputs, &config)), ErrorCode::DeviceLost);
        assert_eq!(code(backend.dispatch_borrowed(&program, inputs, &config)), ErrorCode::DeviceLost);
        backend.try_recover().expect("it recovers");
        assert!(!backend.device_lost() && !pipeline.is_valid());
        assert_eq!(code(backend.download_resident(&resource)), ErrorCode::BadHandle);
        assert_eq!(code(backend.free_resident(resource)), ErrorCode::BadHandle);
        assert_eq!(code(pipeline.dispatch(inputs, &config)), ErrorCode::PipelineInvalidated);
        works(&**backend);
    }
}

/// Threads go on while the device is lost and recovered: each call is right, or an error that names the loss.
///
/// # Panics
/// If the backend breaks the contract.
pub fn loss_while_others_work_is_an_error_or_too_late(backend: &Subject) {
    let (done, config) = (AtomicBool::new(false), DispatchConfig::default());
    let expected_codes = [ErrorCode::DeviceLost, ErrorCode::BadHandle];
    let dispatch = || -> Result<(), BackendError> {
        let found = backend.dispatch(&increment(), &[words(0..300)], &config)?;
        assert!(found == [words(1..301)]);
        Ok(())
    };
    let resident = || -> Result<(), BackendError> {
        let memory = backend.allocate_resident(1200)?;
        backend.upload_resident(&memory, &words(0..300))?;
        backend.dispatch_resident_timed(&increment(), std::slice::from_ref(&memory), &config)?;
        assert!(backend.download_resident(&memory)? == words(1..301));
        backend.free_resident(memory)
    };
    std::thread::scope(|scope| {
        for work in [&dispatch as &(dyn Fn() -> Result<(), BackendError> + Sync), &resident, &resident] {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Err(error) = work() {
                        assert!(expected_codes.contains(&error.code()), "{error}");
                    }
                }
            });
        }
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            backend.lose();
            backend.try_recover().expect("it recovers");
        }
        done.store(true, Ordering::Relaxed);
    });
    works(&**backend);
}

/// After `shutdown` every call says so, a second `shutdown` included in what may come.
///
/// # Panics
/// If the backend breaks the contract.
pub fn a_backend_that_was_shut_down_says_so(backend: &Subject) {
    let (program, config) = (increment(), DispatchConfig::default());
    let inputs: &[&[u8]] = &[&words([7])];
    let pipeline = backend.compile_native(&program, &config).expect("it compiles");
    let pipeline = pipeline.expect("there is something to keep");
    let resource = backend.allocate_resident(4).expect("it fits");
    let pending = backend.dispatch_async(&program, &[words([7])], &config).expect("it starts");
    backend.shutdown().expect("it shuts down");
    match pending.await_result() {
        Ok(found) => assert_eq!(found, [words([8])]),
        Err(error) => assert_eq!(code::<()>(Err(error)), ErrorCode::ShutDown),
    }
    assert_eq!(code(backend.dispatch_borrowed(&program, inputs, &config)), ErrorCode::ShutDown);
    assert_eq!(code(pipeline.dispatch(inputs, &config)), ErrorCode::ShutDown);
    assert_eq!(code(backend.allocate_resident(4)), ErrorCode::ShutDown);
    assert_eq!(code(backend.download_resident(&resource)), ErrorCode::ShutDown);
    assert_eq!(code(backend.try_recover()), ErrorCode::ShutDown);
    backend.shutdown().expect("it is shut down");
}

/// For devices that do not survive a fork: the child gets errors and hangs nowhere, and the parent goes on. The child of a
/// process with threads may find any lock taken, so the process should have no other test: see [`in_own_process`].
///
/// [`in_own_process`]: super::in_own_process
///
/// # Panics
/// If the backend breaks the contract.
pub fn a_forked_child_gets_an_error(backend: &Subject) {
    works(&**backend);
    let (program, input, config) = (increment(), words([7]), DispatchConfig::default());
    let resource = backend.allocate_resident(4).expect("it fits");
    let refused = || {
        let dispatch = backend.dispatch_borrowed(&program, &[&input], &config).map(drop);
        let download = backend.download_resident(&resource).map(drop);
        [dispatch, download].into_iter().all(|result| {
            result.is_err_and(|error| {
                error.code() == ErrorCode::DeviceLost && error.to_string().contains("Fix:")
            })
        })
    };
    match process::forked(refused) {
        None => {
            eprintln!("SKIP a_forked_child_gets_an_error on {}: processes do not fork here", backend.id())
        }
        Some(refused) => assert!(refused, "the child got no error"),
    }
    works(&**backend);
    assert_eq!(backend.download_resident(&resource).expect("it is there"), [0; 4]);
}

/// Two backends share nothing: not handles, not a loss, not a shutdown.
///
/// # Panics
/// If the backends break the contract.
pub fn two_backends_of_one_process_keep_apart(first: &Subject, second: &Subject) {
    let resource = first.allocate_resident(4).expect("it fits");
    first.upload_resident(&resource, &[1, 2, 3, 4]).expect("it uploads");
    // The second has a handle of the same number within its own.
    let own = second.allocate_resident(4).expect("it fits");
    match second.download_resident(&resource) {
        Err(BackendError::BadHandle { cause, .. }) => assert_eq!(cause, HandleFault::Foreign),
        other => panic!("{other:?}"),
    }
    std::thread::scope(|scope| {
        for backend in [first, second, first, second] {
            scope.spawn(move || (0..50).for_each(|_| works(&**backend)));
        }
    });
    first.lose();
    assert!(first.device_lost() && !second.device_lost());
    works(&**second);
    first.try_recover().expect("it recovers");
    works(&**first);
    first.shutdown().expect("it shuts down");
    works(&**second);
    assert_eq!(second.download_resident(&own).expect("it is there"), [0; 4]);
}
