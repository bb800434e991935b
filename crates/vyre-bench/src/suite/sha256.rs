//! SHA-256 of many messages of four blocks.

use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, random_words};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use vyre::algorithms::Plan;

/// Blocks of a message, padding included.
const BLOCKS: usize = 4;
const MESSAGE_WORDS: usize = BLOCKS * 16;
/// What is left for contents: the padding is one byte and the length in eight.
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

const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

#[rustfmt::skip]
const K: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

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
    for (k, w) in K.iter().zip(w) {
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
        let mut hash = START;
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
