//! The driver contract on the interpreter, and what is its own in it: it names the lane of a trap, and routing finds it.

use std::sync::Arc;
use vyre_driver::routing::{Choice, dispatch, route};
use vyre_driver::{BackendError, DispatchConfig, ErrorCode, VyreBackend, pipeline, registry};
use vyre_driver_reference::ReferenceBackend;
use vyre_testkit::contract::{Subject, increment, parse, words};

/// Where the tests run that all backends share.
fn subjects(_: &str) -> [Subject; 1] {
    [Subject::new(ReferenceBackend::default(), ReferenceBackend::lose_device)]
}

vyre_testkit::contract_tests!(
    subjects,
    what_hangs_ends_at_its_timeout_or_when_cancelled,
    one_kernel_that_is_stopped_leaves_others_alone,
    a_timeout_leaves_resident_memory_undefined_until_it_is_filled,
    a_timeout_also_ends_the_wait_for_a_buffer_that_another_dispatch_holds,
);

#[test]
fn a_trap_names_its_lane() {
    let program = parse(
        "program @guard workgroup(4, 1, 1) {
          %i = global_id x
          %z = eq.u32 %i, 2
          if %z {
            trap 7
          }
        }",
    );
    let config = DispatchConfig { grid_override: Some([1, 1, 1]), ..DispatchConfig::default() };
    match ReferenceBackend::default().dispatch(&program, &[], &config) {
        Err(BackendError::Trap { code: 7, lane: Some([2, 0, 0]), .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn routing_finds_the_reference_and_never_substitutes() {
    let (program, config) = (increment(), DispatchConfig::default());
    let (x, y) = (words([7]), words([8]));
    let inputs: &[&[u8]] = &[&x];
    let (timed, taken) = dispatch(Choice::Id("reference"), &program, inputs, &config).expect("it runs");
    assert_eq!((timed.outputs, taken.backend.id()), (vec![y.clone()], "reference"));
    match route(Choice::Id("cuda-9"), &program, inputs, &config) {
        Err(error) => {
            assert_eq!(error.code(), ErrorCode::Unavailable);
            assert!(error.to_string().contains("reference"), "{error}");
        }
        Ok(_) => panic!("no such backend"),
    }
    let shared: Arc<dyn VyreBackend> = registry::open("reference").expect("it opens");
    let pipeline = pipeline::compile(&shared, &program, &config).expect("it compiles");
    assert_eq!(pipeline.dispatch(inputs, &config).expect("it runs"), [y]);
}
