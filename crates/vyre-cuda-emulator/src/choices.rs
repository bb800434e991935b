//! Seeded choices, where hardware or the API leaves something open: who runs next, how late a copy is.
//!
//! The generator is SplitMix64: any seed will do, and any of its numbers can be had by its place. Not here: numbers that nobody may guess.

/// What each number is apart from the one before, ahead of mixing.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of choices.
#[derive(Clone)]
pub(crate) struct Choices(u64);

impl Choices {
    pub(crate) fn new(seed: u64) -> Choices {
        Choices(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// The number at a place of the stream, counted from 0.
    pub(crate) fn at(&self, place: u64) -> u64 {
        Choices(self.0.wrapping_add(place.wrapping_mul(STEP))).next()
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}
