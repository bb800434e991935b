//! Any program is judged without a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vyre_testkit::fuzz::validate(data));
