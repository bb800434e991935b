//! The conformance suite on this machine's device, the driver contract included.
//!
//! All of it, but of the random programs those of the quick suite: a software device compiles each for a second or more.
//! `VYRE_CONFORM=full` runs them too, `VYRE_CONFORM=PREFIX` the quick cases whose names begin so.

use vyre_conform::{ConformanceSuite, Level};
use vyre_driver_wgpu::{MemoryChoice, WgpuConfig};

/// Runs a suite on the device, with its memory as asked for.
fn check(suite: &ConformanceSuite<'_>, memory: Option<MemoryChoice>) {
    let config = WgpuConfig::from_env();
    let config = config.map(|config| WgpuConfig { memory: memory.unwrap_or(config.memory), ..config });
    let backend = match config.and_then(|config| vyre_driver_wgpu::open(&config)) {
        Ok(backend) => backend,
        Err(error) => return eprintln!("SKIP the suite on wgpu: {error}"),
    };
    let report = suite.run_driver(&backend);
    let failures: Vec<String> = report.failures.iter().take(10).map(ToString::to_string).collect();
    let (cases, dispatches) = (report.cases(), report.dispatches());
    eprintln!("{cases} cases, {dispatches} dispatches, {:?}", report.elapsed);
    assert!(failures.is_empty(), "{} failures:\n{}", report.failures.len(), failures.join("\n\n"));
}

#[test]
fn the_driver_contract_holds_where_memory_is_staged() {
    check(&ConformanceSuite::quick().matching("driver/"), Some(MemoryChoice::Staged));
}

/// Runs suites unless the run asks for other cases.
fn check_all<'a>(suites: impl IntoIterator<Item = ConformanceSuite<'a>>) {
    if std::env::var_os("VYRE_CONFORM").is_none() {
        suites.into_iter().for_each(|suite| check(&suite, None));
    }
}

// Side by side, because a software device compiles on one core.

#[test]
fn every_op_law_and_program_is_right() {
    check_all([ConformanceSuite::new().up_to(Level::Programs)]);
}

#[test]
fn every_function_trick_and_contract_is_right() {
    check_all(["math/", "cheat/", "driver/"].map(|prefix| ConformanceSuite::new().matching(prefix)));
}

#[test]
fn random_programs_are_right() {
    check_all([ConformanceSuite::quick().matching("random/")]);
}

#[test]
fn what_is_asked_for_is_right() {
    match std::env::var("VYRE_CONFORM").as_deref() {
        Ok("full") => check(&ConformanceSuite::new(), None),
        Ok(prefix) => check(&ConformanceSuite::quick().matching(prefix), None),
        Err(_) => {}
    }
}
