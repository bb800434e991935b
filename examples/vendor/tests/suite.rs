//! The suite on this vendor's device, and on the one with a mistake in it.
//!
//! A part of the quick suite here; `cargo run --bin vendor certify` runs all of it and writes the certificate.

use vyre_conform::{Cause, ConformanceSuite, Level};
use vyre_vendor_example::{Mistake, VendorBackend, VendorRuntime};

/// The runtime, or `None` with the reason told.
fn runtime(test: &str) -> Option<VendorRuntime> {
    VendorRuntime::open().inspect_err(|reason| eprintln!("SKIP {test}: {reason}")).ok()
}

#[test]
fn the_device_gives_the_right_bytes() {
    let Some(runtime) = runtime("the_device_gives_the_right_bytes") else { return };
    let backend = VendorBackend::new(runtime);
    for group in ["op/u32", "op/f32"] {
        let report = ConformanceSuite::quick().up_to(Level::Ops).matching(group).report(&backend);
        let cases = report.cases();
        eprintln!("{group}: {cases} cases, {} failures", report.failures.len());
        assert!(cases > 10_000, "{group} has {cases} cases");
        assert!(report.failures.is_empty(), "{}", report.failures[0]);
    }
}

#[test]
fn the_mistake_is_found_and_explained() {
    let Some(runtime) = runtime("the_mistake_is_found_and_explained") else { return };
    let backend = VendorBackend::new(runtime.with_mistake(Mistake::RoundsWorkgroupsDown));
    let suite = ConformanceSuite::quick().up_to(Level::Ops).nonce([7; 32]).stop_at_first_failure();
    let failures = suite.run(&backend);
    let failure = failures.first().expect("a runtime that loses workgroups is wrong");
    assert_eq!(failure.cause, Cause::MissingWorkgroups, "{failure}");
    assert!(failure.program.lines().count() < 20, "a small program shows it: {failure}");
}
