//! Random words that are the same everywhere: SplitMix64.
//!
//! For inputs, programs and schedules that a seed must bring back. Not for secrets.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The first word of the stream of `seed`. Neighbouring seeds give words that have nothing to do with each other.
pub const fn word(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Word number `at` of the stream of `seed`, from 0.
pub const fn word_at(seed: u64, at: u64) -> u64 {
    word(seed.wrapping_add(at.wrapping_mul(STEP)))
}

/// The stream of a seed.
///
/// ```
/// use vyre_foundation::random::{Words, word_at};
/// let mut words = Words::new(7);
/// assert_eq!([words.next_word(), words.next_word()], [word_at(7, 0), word_at(7, 1)]);
/// ```
#[derive(Clone, Debug)]
pub struct Words {
    state: u64,
}

impl Words {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> Words {
        Words { state: seed }
    }

    /// The next word.
    pub const fn next_word(&mut self) -> u64 {
        let word = word(self.state);
        self.state = self.state.wrapping_add(STEP);
        word
    }
}
