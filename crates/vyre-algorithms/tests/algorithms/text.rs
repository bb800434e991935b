//! SHA-256 and automata over many messages.

use crate::common::{cpu, everywhere, random};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use vyre_algorithms::{Dfa, Plan};

fn messages(seed: u64, lengths: &[usize]) -> Vec<Vec<u8>> {
    let message = |(at, len): (usize, &usize)| (0..*len).map(|l| random(seed + at as u64, l) as u8).collect();
    lengths.iter().enumerate().map(message).collect()
}

fn words(x: &[u32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_le_bytes()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn sha256(seed in 0..u64::from(u32::MAX), lengths in proptest::collection::vec(0..200usize, 0..70)) {
        let messages = messages(seed, &lengths);
        let digests: Vec<[u8; 32]> = messages.iter().map(|message| Sha256::digest(message).into()).collect();
        prop_assert_eq!(vyre_algorithms::sha256(&cpu(), &messages).unwrap(), digests);
    }

    #[test]
    fn dfa(
        seed in 0..u64::from(u32::MAX),
        states in proptest::sample::select(vec![1u32, 5, 8, 9, 40]),
        lengths in proptest::collection::vec(0..50usize, 0..300),
    ) {
        let entry = |state: u32, byte: u8| random(seed, state as usize * 256 + usize::from(byte));
        let step = |state: u32, byte: u8| (entry(state, byte) as u32 % states, entry(state, byte) >> 40 & 3 == 0);
        let dfa = Dfa::new(states, step).unwrap();
        let records = messages(seed, &lengths);
        let count = |record: &Vec<u8>| record.iter().fold((0, 0), |(state, hits), byte| {
            let (next, hit) = step(state, *byte);
            (next, hits + u32::from(hit))
        }).1;
        let expected: Vec<u32> = records.iter().map(count).collect();
        prop_assert_eq!(vyre_algorithms::dfa_matches(&cpu(), &dfa, &records).unwrap(), expected);
    }
}

/// The plans on the interpreter, with its race checks, about the ends of blocks and words.
#[test]
fn everywhere_the_same() {
    let message = [b'a'; 64 * 2];
    let starts = [0, 1, 2, 2];
    let found = everywhere(&Plan::sha256(3, 2).unwrap(), &[message.to_vec(), words(&starts)]);
    assert_eq!(found[0][..32], found[0][32..64]);
    let lengths = [0, 55, 56, 63, 64, 119, 120, 1000];
    let messages = messages(5, &lengths);
    let digests: Vec<[u8; 32]> = messages.iter().map(|message| Sha256::digest(message).into()).collect();
    let interpreter = vyre_driver_reference::ReferenceBackend::default();
    assert_eq!(vyre_algorithms::sha256(&interpreter, &messages).unwrap(), digests);

    let dfa = Dfa::new(2, |state, byte| (u32::from(byte == b'a'), state == 1 && byte == b'b')).unwrap();
    let text = b"ababaabbab__ab".iter().copied().chain([0; 2]).collect::<Vec<u8>>();
    let inputs = [text, words(&[0, 2, 3]), words(&[7, 4, 2]), words(dfa.table())];
    assert_eq!(everywhere(&Plan::dfa(4, 3, &dfa).unwrap(), &inputs), [words(&[3, 1, 1])]);
}

#[test]
fn automata_that_lead_nowhere_are_refused() {
    for (states, next) in [(0, 0), (3, 3), (1 << 23, 0)] {
        let error = Dfa::new(states, |_, _| (next, false)).unwrap_err().to_string();
        assert!(error.contains("Fix:"), "{error}");
    }
}
