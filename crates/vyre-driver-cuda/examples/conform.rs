//! The conformance suite on the device: `conform [quick|full] [PREFIX]`.
#![allow(clippy::print_stdout)]

use vyre_conform::{ConformanceSuite, Track};
use vyre_driver_cuda::CudaConfig;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let backend = vyre_driver_cuda::open(&CudaConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut suite = match args.first().map(String::as_str) {
        Some("full") => ConformanceSuite::new(),
        _ => ConformanceSuite::quick(),
    };
    if let Some(prefix) = args.get(1) {
        suite = suite.matching(prefix);
    }
    let report = suite.run_driver(&backend);
    report.failures.iter().take(60).for_each(|failure| println!("{failure}\n"));
    for track in Track::ALL {
        println!("{track}: {:?}", report.standing(track).level);
    }
    let (cases, dispatches) = (report.cases(), report.dispatches());
    println!(
        "{cases} cases, {dispatches} dispatches, {} failures, {:?}",
        report.failures.len(),
        report.elapsed
    );
}
