//! SHA-256 of many messages, one lane for each.
//!
//! All 64 rounds of a block are written out, so that the schedule and the state stay in registers and the constants in the
//! code.

use crate::plan::{Plan, Role, count, grid, refused};
use crate::programs::built;
use vyre_driver::BackendError;
use vyre_foundation::ir::Program;
use vyre_foundation::ir::builder::Val;

const LANES: u32 = 64;

/// The constants of the rounds of the compression function, from FIPS 180-4.
#[rustfmt::skip]
pub const SHA256_ROUNDS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// The state before a message's first block, as FIPS 180-4 says.
pub const SHA256_START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

type Word<'k> = Val<'k, u32>;

/// The bytes of a word in opposite order: the standard's words have their most significant byte first.
fn swapped(word: Word<'_>) -> Word<'_> {
    (word & 0xff00_ff00).rotl(8) | (word & 0x00ff_00ff).rotr(8)
}

/// Exclusive ors of a word turned right.
fn turned(x: Word<'_>, by: [u32; 3]) -> Word<'_> {
    x.rotr(by[0]) ^ x.rotr(by[1]) ^ x.rotr(by[2])
}

/// As [`turned`], the last one shifted instead.
fn shifted(x: Word<'_>, by: [u32; 3]) -> Word<'_> {
    x.rotr(by[0]) ^ x.rotr(by[1]) ^ (x >> by[2])
}

/// The compression function of FIPS 180-4, without the sum at its end.
fn rounds<'k>(
    mut w: [Word<'k>; 16],
    [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h]: [Word<'k>; 8],
) -> [Word<'k>; 8] {
    for (t, constant) in SHA256_ROUNDS.into_iter().enumerate() {
        let word = w[t % 16];
        let choice = (e & f) ^ (!e & g);
        let t1 = h + turned(e, [6, 11, 25]) + choice + constant + word;
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let t2 = turned(a, [2, 13, 22]) + majority;
        (h, g, f, e, d, c, b, a) = (g, f, e, d + t1, c, b, a, t1 + t2);
        if t < 48 {
            let [w1, w9, w14] = [1, 9, 14].map(|ahead| w[(t + ahead) % 16]);
            w[t % 16] = word + shifted(w1, [7, 18, 3]) + w9 + shifted(w14, [17, 19, 10]);
        }
    }
    [a, b, c, d, e, f, g, h]
}

fn program() -> Program {
    built("sha256", [LANES, 1, 1], |k| {
        let blocks = k.read::<u32>("blocks", 0);
        let starts = k.read::<u32>("starts", 1);
        let digests = k.read_write::<u32>("digests", 2).output();
        let i = k.workgroup_index() * LANES + k.local_index();
        let to = i << 3;
        k.if_(to.lt(digests.len()), || {
            let hash = SHA256_START.map(|word| k.var(word));
            k.for_(starts.at(i)..starts.at(i + 1), |block| {
                let first = block << 4;
                let words: Vec<_> = (0..16).map(|at| blocks.at(first + at)).collect();
                let before = hash.map(|word| word.get());
                let mixed = rounds(std::array::from_fn(|at| swapped(words[at])), before);
                for at in 0..8 {
                    hash[at].set(before[at] + mixed[at]);
                }
            });
            let words = hash.map(|word| swapped(word.get()));
            (0u32..).zip(words).for_each(|(at, word)| digests.put(to + at, word));
        });
    })
}

impl Plan {
    /// The SHA-256 digests of messages that have `blocks` blocks of 64 bytes together, padded as the standard says. Inputs are the
    /// blocks, and for each message and the end the number of its first block in u32; the output is 32 bytes a message.
    pub fn sha256(messages: usize, blocks: usize) -> Result<Plan, BackendError> {
        let (words, out) = (blocks.checked_mul(16), messages.checked_mul(8));
        let (Some(words), Some(out)) = (words, out) else {
            return refused("the messages are more than an index reaches".into(), "hash them in parts");
        };
        count(words)?;
        let groups = count(out)?.div_ceil(8 * LANES);
        let mut plan = Plan::default();
        let text = plan.buffer(words * 4, Role::Input);
        let starts = plan.buffer((messages + 1) * 4, Role::Input);
        let digests = plan.buffer(out * 4, Role::Output);
        plan.step(&program(), grid(groups), &[text, starts, digests]);
        Ok(plan)
    }
}

/// Messages as [`Plan::sha256`] takes them: all blocks, and the first of each with the end.
pub(crate) fn padded<M: AsRef<[u8]>>(messages: &[M]) -> (Vec<u8>, Vec<u32>) {
    let (mut bytes, mut starts) = (Vec::new(), vec![0]);
    for message in messages {
        let message = message.as_ref();
        bytes.extend_from_slice(message);
        bytes.push(0x80);
        bytes.resize((bytes.len() + 8).next_multiple_of(64) - 8, 0);
        bytes.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
        // A plan of so many blocks is refused, before a start that did not fit is read.
        starts.push((bytes.len() / 64) as u32);
    }
    (bytes, starts)
}
