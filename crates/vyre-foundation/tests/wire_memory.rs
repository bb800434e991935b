//! Decoding takes memory in proportion to the bytes it is given, whatever counts they state.

use peak_alloc::PeakAlloc;
use std::path::Path;
use vyre_foundation::wire::{HEADER_BYTES, MAGIC, VERSION, WireError, decode};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Bytes of memory per byte of input: the smallest line has one byte and is a node of 88, and lists grow by doubling.
const FACTOR: usize = 200;
/// Bytes of memory for errors and what a test harness does meanwhile.
const CONSTANT: usize = 16 << 10;

fn wrap(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&MAGIC[..], &VERSION.to_le_bytes(), &length, blake3::hash(payload).as_bytes(), payload].concat()
}

fn check(payload: &[u8], what: &str) -> Option<WireError> {
    let bytes = wrap(payload);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let result = decode(&bytes);
    let taken = MEMORY.peak_usage() - before;
    let allowed = FACTOR * bytes.len() + CONSTANT;
    assert!(taken <= allowed, "{what}: {taken} bytes of memory for {} of input", bytes.len());
    result.err()
}

/// A million `if`s in each other or behind each other, each announcing as many lines as it can get believed.
fn greedy_blocks() -> Vec<u8> {
    let mut payload = vec![1, b'p', 1, 1, 1, 0, 0, 0, 0, 0, 1];
    payload.extend([0xa0, 0x01, 0x01, 0xff, 0xff, 0x3f, 0xff, 0xff, 0x3f].repeat(300_000));
    payload
}

// One test, so that nothing else allocates meanwhile.
#[test]
fn counts_do_not_allocate() {
    assert!(check(&greedy_blocks(), "greedy blocks").is_some());
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wire/v1");
    let mut refused = 0;
    for entry in std::fs::read_dir(directory).expect("the golden files") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|found| found != "vyreb") {
            continue;
        }
        let payload = std::fs::read(&path).expect("a golden file").split_off(HEADER_BYTES);
        assert_eq!(check(&payload, "as it is"), None);
        for at in 0..payload.len() {
            for count in [&[0x7f][..], &[0xff, 0x7f], &[0xff, 0xff, 0x3f], &[0xff, 0xff, 0xff, 0x07]] {
                let changed = [&payload[..at], count, &payload[at + 1..]].concat();
                let what = format!("{} with {count:x?} at {at}", path.display());
                refused += usize::from(check(&changed, &what).is_some());
            }
        }
    }
    assert!(refused > 10_000, "{refused} hostile files refused");
}
