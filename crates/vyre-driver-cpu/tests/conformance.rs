//! The conformance suite on this backend, the driver contract included.
//!
//! The quick run is always done; `VYRE_CONFORM=full` does the whole suite.

use vyre_conform::ConformanceSuite;
use vyre_driver_cpu::{CpuConfig, Emitter};

#[test]
fn the_suite_finds_nothing_wrong() {
    for emitter in [Emitter::Portable, Emitter::Avx2, Emitter::Avx512] {
        let backend = match vyre_driver_cpu::open(&CpuConfig { emitter, ..CpuConfig::default() }) {
            Ok(backend) => backend,
            Err(error) if emitter != Emitter::Portable => {
                eprintln!("SKIP {emitter:?}: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let full = std::env::var("VYRE_CONFORM").is_ok_and(|size| size == "full");
        let suite = if full { ConformanceSuite::new() } else { ConformanceSuite::quick() };
        let report = suite.run_driver(&backend);
        let failures: Vec<String> = report.failures.iter().take(10).map(ToString::to_string).collect();
        assert!(
            failures.is_empty(),
            "{} failures with {emitter:?}:\n{}",
            report.failures.len(),
            failures.join("\n\n")
        );
    }
}
