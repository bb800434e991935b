//! Any program is judged without a panic, and a valid one runs alike in every order of lanes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vyre_testkit::fuzz::validate(data));
