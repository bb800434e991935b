//! SHA-256 of many messages of four blocks.

use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, random_words};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use vyre::algorithms::{Plan, SHA256_ROUNDS, SHA256_START};

/// Blocks of a message, padding included.
const BLOCKS: usize = 4;
const MESSAGE_WORDS: usize = BLOCKS * 16;
/// The bytes of contents: the padding is one byte and the length takes eight.
const CONTENT_BYTES: usize = MESSAGE_WORDS * 4 - 9;

pub(super) static SHA256: Benchmark = Benchmark {
    name: "sha256",
    about: "SHA-256 of messages of 247 bytes",
    unit: "messages",
    size: 1 << 18,
    tiny: 70,
    size_min: 1,
    size_max: 1 << 24,
    power: 1,
    make,
    // 26 a round and 13 a word of the schedule, as they are written.
    ops: |size, _| (64 * 26 + 48 * 13) * BLOCKS as u64 * u64::from(size),
    kind: OpKind::U32,
    baselines: &[Baseline { label: PLAIN, run: plain }, Baseline { label: "sha2 crate", run: library }],
};

fn make(size: u32) -> Case {
    let mut words = random_words(11, size as usize * MESSAGE_WORDS);
    for message in bytemuck::cast_slice_mut::<u32, u8>(&mut words).chunks_exact_mut(MESSAGE_WORDS * 4) {
        message[CONTENT_BYTES] = 0x80;
        message[CONTENT_BYTES + 1..].copy_from_slice(&(CONTENT_BYTES as u64 * 8).to_be_bytes());
    }
    let starts = (0..=size).map(|message| message * BLOCKS as u32).collect();
    let plan = Plan::sha256(size as usize, size as usize * BLOCKS).expect("its size is checked");
    Case::of(plan, vec![words, starts])
}

/// The compression function of FIPS 180-4 on one block.
fn compress(hash: &mut [u32; 8], block: &[u32]) {
    let mut w = [0u32; 64];
    for (w, word) in w.iter_mut().zip(block) {
        *w = word.to_be();
    }
    for t in 16..64 {
        let (w15, w2) = (w[t - 15], w[t - 2]);
        let s0 = w15.rotate_right(7) ^ w15.rotate_right(18) ^ w15 >> 3;
        let s1 = w2.rotate_right(17) ^ w2.rotate_right(19) ^ w2 >> 10;
        w[t] = w[t - 16].wrapping_add(s0).wrapping_add(w[t - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *hash;
    for (k, w) in SHA256_ROUNDS.iter().zip(w) {
        let sum1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = e & f ^ !e & g;
        let t1 = h.wrapping_add(sum1).wrapping_add(choice).wrapping_add(*k).wrapping_add(w);
        let sum0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let majority = a & b ^ a & c ^ b & c;
        (h, g, f, e) = (g, f, e, d.wrapping_add(t1));
        (d, c, b, a) = (c, b, a, t1.wrapping_add(sum0.wrapping_add(majority)));
    }
    for (hash, mixed) in hash.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *hash = hash.wrapping_add(mixed);
    }
}

fn plain(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let messages = read[0].par_chunks(MESSAGE_WORDS).zip(write[0].par_chunks_mut(8));
    messages.for_each(|(message, digest)| {
        let mut hash = SHA256_START;
        message.chunks(16).for_each(|block| compress(&mut hash, block));
        digest.copy_from_slice(&hash.map(u32::to_be));
    });
}

/// The crate that people use for it, with the processor's own instructions for SHA-256 where there are any.
fn library(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let messages = read[0].par_chunks(MESSAGE_WORDS).zip(write[0].par_chunks_mut(8));
    messages.for_each(|(message, digest)| {
        let hash = Sha256::digest(&bytemuck::cast_slice(message)[..CONTENT_BYTES]);
        bytemuck::cast_slice_mut(digest).copy_from_slice(&hash);
    });
}
