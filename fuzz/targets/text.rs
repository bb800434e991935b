//! Any source text parses or is refused with a fix, and survives printing and formatting.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vyre_testkit::fuzz::text(data));
