//! The optimiser keeps the bytes of every race-free run.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vyre_testkit::fuzz::optimise(data));
