//! Any bytes decode or are refused with a fix, and a program has one encoding.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vyre_testkit::fuzz::wire(data));
