//! The conformance suite on this machine's device, the driver contract included.
//!
//! The quick run is always done; `VYRE_CONFORM=full` does the whole suite, `VYRE_CONFORM=PREFIX` the quick cases whose names
//! begin so.

use vyre_conform::ConformanceSuite;
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

#[test]
fn the_suite_finds_nothing_wrong() {
    let suite = match std::env::var("VYRE_CONFORM").as_deref() {
        Ok("full") => ConformanceSuite::new(),
        Ok(prefix) => ConformanceSuite::quick().matching(prefix),
        Err(_) => ConformanceSuite::quick(),
    };
    check(&suite, None);
}
