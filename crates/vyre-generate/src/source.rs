//! Where the generators' choices come from.
//!
//! Every choice is drawn from a stream of bytes. A seeded stream never ends; a slice of bytes does, and then gives
//! zeros. Generators put the plainest choice at zero and stop adding lines once a source is spent, so a fuzzer's
//! shorter or smaller input is a smaller program, and shrinking bytes works on any generator alike.

use vyre_foundation::random::Words;

/// A stream of bytes to draw choices from.
pub trait Source {
    /// The next byte; zero once the source is spent.
    fn byte(&mut self) -> u8;

    /// Whether only zeros follow.
    fn is_spent(&self) -> bool {
        false
    }
}

/// An endless source that a seed fixes.
#[derive(Clone, Debug)]
pub struct Seeded {
    words: Words,
    word: u64,
    bytes_left: u32,
}

impl Seeded {
    /// The stream of `seed`.
    pub const fn new(seed: u64) -> Seeded {
        Seeded { words: Words::new(seed), word: 0, bytes_left: 0 }
    }

    /// The next 64 bits at once.
    pub const fn next_u64(&mut self) -> u64 {
        self.words.next_word()
    }

    /// A number below `bound`, which is not 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}

impl Source for Seeded {
    fn byte(&mut self) -> u8 {
        if self.bytes_left == 0 {
            self.word = self.next_u64();
            self.bytes_left = 8;
        }
        self.bytes_left -= 1;
        let byte = self.word as u8;
        self.word >>= 8;
        byte
    }
}

/// A source over bytes that a fuzzer or a shrinker made.
#[derive(Clone, Debug)]
pub struct Bytes<'a> {
    bytes: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// The stream of `bytes`, then zeros.
    pub const fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { bytes }
    }
}

impl Source for Bytes<'_> {
    fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => 0,
        }
    }

    fn is_spent(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Choices over a source.
pub struct Draw<'a> {
    source: &'a mut dyn Source,
}

impl<'a> Draw<'a> {
    /// Choices drawn from `source`.
    pub fn new(source: &'a mut dyn Source) -> Draw<'a> {
        Draw { source }
    }

    /// Whether only the plainest choices follow.
    pub fn is_spent(&self) -> bool {
        self.source.is_spent()
    }

    /// 64 free bits.
    pub fn bits(&mut self) -> u64 {
        (0..8).fold(0, |bits, _| bits << 8 | u64::from(self.source.byte()))
    }

    /// A number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        // One byte for small bounds keeps the bias of the remainder low and a fuzzer's input short.
        let bytes = match bound {
            0 | 1 => return 0,
            2..=16 => 1,
            17..=4096 => 2,
            _ => 4,
        };
        let drawn = (0..bytes).fold(0, |bits, _| bits << 8 | u32::from(self.source.byte()));
        drawn % bound
    }

    /// True `of_256` times of 256.
    pub fn chance(&mut self, of_256: u32) -> bool {
        u32::from(self.source.byte()) + of_256 >= 256
    }

    /// A number from `low` to `high`, both possible.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    /// One of `items`, which are not empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u32) as usize]
    }

    /// One of `items` by its weight; `None` if all weights are zero.
    pub(crate) fn weighted<T: Copy>(&mut self, items: &[(T, u32)]) -> Option<T> {
        let mut at = self.below(items.iter().map(|(_, weight)| weight).sum());
        for (item, weight) in items {
            if at < *weight {
                return Some(*item);
            }
            at -= weight;
        }
        None
    }
}
