//! Any bytes are a certificate in its one form or are refused with a fix.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| vyre_testkit::fuzz::certificate(data));
