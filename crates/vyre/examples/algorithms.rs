//! Every algorithm of the library once, on the backend that is named, or on the best one:
//! `cargo run --example algorithms -- cpu`.

use vyre::algorithms::{self, Dfa, Fold, Plan, Scan, Shape};
use vyre::driver::{BackendError, VyreBackend, registry};

fn main() -> Result<(), BackendError> {
    let id = std::env::args().nth(1).unwrap_or_else(|| "cpu".into());
    let backend = registry::open(&id)?;
    let backend = &*backend;

    let x = [3u32, 1, 4, 1, 5, 9, 2, 6];
    assert_eq!(algorithms::reduce(backend, Fold::Add, &x)?, 31);
    assert_eq!(algorithms::scan(backend, Scan::Exclusive, &x)?, [0, 3, 4, 8, 9, 14, 23, 25]);
    let odd = x.map(|x| x % 2 == 1);
    assert_eq!(algorithms::compact(backend, &x, &odd)?, [3, 1, 1, 5, 9]);
    assert_eq!(algorithms::sort(backend, &x)?, [1, 1, 2, 3, 4, 5, 6, 9]);
    assert_eq!(algorithms::histogram(backend, b"abracadabra")?[usize::from(b'a')], 5);
    let shape = Shape { m: 2, n: 2, k: 2 };
    assert_eq!(
        algorithms::matmul(backend, shape, &[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0, 1.0, 1.0])?,
        [3.0, 2.0, 7.0, 4.0]
    );
    assert_eq!(algorithms::matmul_i8(backend, shape, &[1, 2, 3, 4], &[1, 1, 0, 1])?, [3, 2, 7, 4]);
    assert_eq!(algorithms::sha256(backend, &["abc"])?[0][..4], [0xba, 0x78, 0x16, 0xbf]);
    let ab = Dfa::new(2, |state, byte| (u32::from(byte == b'a'), state == 1 && byte == b'b'))?;
    assert_eq!(algorithms::dfa_matches(backend, &ab, &["abracadabra", "ba", ""])?, [2, 0, 0]);
    resident(backend)
}

/// The same on memory of the device: a plan, its scratch allocated once, and two runs.
fn resident(backend: &dyn VyreBackend) -> Result<(), BackendError> {
    let keys: Vec<u32> = (0..100_000u32).map(|at| at.wrapping_mul(0x9e37_79b9)).collect();
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let (from, to) = (backend.allocate_resident(bytes.len())?, backend.allocate_resident(bytes.len())?);
    backend.upload_resident(&from, &bytes)?;
    let sort = Plan::sort(keys.len(), false)?.prepare(backend)?;
    sort.run(std::slice::from_ref(&from), std::slice::from_ref(&to))?;
    sort.run(std::slice::from_ref(&from), std::slice::from_ref(&to))?;
    let sorted = backend.download_resident(&to)?;
    assert!(sorted.as_chunks().0.is_sorted_by_key(|key| u32::from_le_bytes(*key)));
    [from, to].into_iter().try_for_each(|resource| backend.free_resident(resource))
}
