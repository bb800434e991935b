//! Text and wire carry every generated program.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vyre_testkit::fuzz::roundtrip(data));
