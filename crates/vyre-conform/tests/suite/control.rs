//! The suite never fails the reference, through either face.

use vyre_conform::{Cause, ConformanceSuite, DispatchConfig, ReferenceBackend, VyreBackend};

#[test]
fn the_reference_passes_as_a_vendor() {
    let report = ConformanceSuite::quick().report(&ReferenceBackend);
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
}

#[test]
fn the_reference_passes_as_a_driver() {
    let driver = vyre_driver::registry::open("reference").expect("it is linked");
    let report = ConformanceSuite::quick().run_driver(driver.as_ref());
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
}

/// Gives one byte less than it is asked for.
struct Short;

impl VyreBackend for Short {
    fn name(&self) -> &str {
        "short"
    }

    fn dispatch(&self, _: &str, _: &[u8], size: usize, _: DispatchConfig) -> Result<Vec<u8>, String> {
        Ok(vec![0; size - 1])
    }
}

#[test]
fn too_few_bytes_of_a_shader_are_said_to_be_too_few() {
    let failures = ConformanceSuite::quick().matching("op/u32/add").stop_at_first_failure().run(&Short);
    assert_eq!(failures[0].cause, Cause::WrongLength, "{}", failures[0]);
}
