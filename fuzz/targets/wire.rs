//! Any bytes: decoding ends with a program or an error, and a program's bytes are the ones it was read from.
//!
//! The digest in the header would stop nearly every mutation, so the input is read as a payload too, behind a header
//! that fits it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vyre_foundation::wire::{MAGIC, VERSION, decode, encode};

fuzz_target!(|data: &[u8]| {
    check(data);
    let length = (data.len() as u32).to_le_bytes();
    let digest = blake3::hash(data);
    check(&[&MAGIC[..], &VERSION.to_le_bytes(), &length, digest.as_bytes(), data].concat());
});

fn check(bytes: &[u8]) {
    match decode(bytes) {
        Ok(program) => assert_eq!(encode(&program), bytes, "a program has one encoding"),
        Err(error) => assert!(error.to_string().contains("Fix: ")),
    }
}
