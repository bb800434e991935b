//! Compaction and sorting against plain Rust.

use crate::common::{cpu, everywhere, random};
use proptest::prelude::*;
use vyre_algorithms::Plan;

fn words(x: &[u32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        proptest::sample::select(vec![0, 1, 3, 5, 31, 33, 4095, 4096, 4097, 8191, 8192, 8195]),
        0..10_000usize,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn compact(len in sizes(), seed: u64, density in 0..9u64) {
        let x: Vec<u32> = (0..len).map(|at| random(seed, at) as u32).collect();
        // Any byte that is not 0 keeps.
        let flag = |bits: u64| if bits % 8 < density { (bits >> 8) as u8 | 1 << (bits >> 16 & 7) } else { 0 };
        let keep: Vec<u8> = (0..len).map(|at| flag(random(seed ^ 1, at))).collect();
        let kept: Vec<u32> = x.iter().zip(&keep).filter(|(_, keep)| **keep != 0).map(|(x, _)| *x).collect();
        // The reference starts outputs with ones and the others with zeros: what lies behind is nobody's.
        let plan = Plan::compact::<u32>(len).unwrap();
        let checked = crate::common::reference(&plan, &[words(&x), keep.clone()]);
        prop_assert!(checked[0][..kept.len() * 4] == words(&kept));
        prop_assert!(checked[0][kept.len() * 4..].iter().all(|byte| *byte == 0xff));
        prop_assert!(checked[1] == words(&[kept.len() as u32]));
        let keep: Vec<bool> = keep.iter().map(|keep| *keep != 0).collect();
        prop_assert_eq!(vyre_algorithms::compact(&cpu(), &x, &keep).unwrap(), kept);
        let wide: Vec<u64> = x.iter().map(|x| u64::from(*x) << 20).collect();
        let kept: Vec<u64> = wide.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(x, _)| *x).collect();
        prop_assert_eq!(vyre_algorithms::compact(&cpu(), &wide, &keep).unwrap(), kept);
    }

    #[test]
    fn sort(len in sizes(), seed: u64, mask in proptest::sample::select(vec![u32::MAX, 0, 0xff00_0003, 0x00f0_0f00])) {
        let keys: Vec<u32> = (0..len).map(|at| random(seed, at) as u32 & mask).collect();
        let values: Vec<u32> = (0..len as u32).collect();
        let mut pairs: Vec<(u32, u32)> = keys.iter().copied().zip(values.iter().copied()).collect();
        pairs.sort_by_key(|(key, _)| *key);
        let (sorted, moved): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
        let plan = Plan::sort(len, true).unwrap();
        prop_assert!(everywhere(&plan, &[words(&keys), words(&values)]) == [words(&sorted), words(&moved)]);
        let plan = Plan::sort(len, false).unwrap();
        prop_assert!(everywhere(&plan, &[words(&keys)]) == [words(&sorted)]);
    }
}

/// More tiles than one level of a scan has.
#[test]
fn many_tiles() {
    let keys: Vec<u32> = (0..300_001).map(|at| random(9, at) as u32).collect();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert!(vyre_algorithms::sort(&cpu(), &keys).unwrap() == sorted);
}

#[test]
fn inputs_of_different_lengths_are_refused() {
    let error = vyre_algorithms::compact(&cpu(), &[1u32, 2], &[true]).unwrap_err().to_string();
    assert!(error.contains("Fix:"), "{error}");
    let error = vyre_algorithms::sort_pairs(&cpu(), &[1, 2], &[1]).unwrap_err().to_string();
    assert!(error.contains("Fix:"), "{error}");
}
