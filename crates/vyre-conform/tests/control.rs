//! The suite never fails the reference, through either face.

use vyre_conform::{ConformanceSuite, ReferenceBackend};

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

// Linking a driver registers its backend.
use vyre_driver_reference as _;
