//! Single elements of device memory, as kernels access them: 1, 2, 4 or 8 bytes at a multiple of their size.
//!
//! Accesses are relaxed atomics of the host, so that kernels with races, and copies beside kernels, have defined behaviour
//! here. Not here: whether an access is allowed.
#![allow(unsafe_code)]

use crate::memory::Block;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

impl Block {
    fn place(&self, offset: u64, bytes: u32) -> *mut u8 {
        assert!(offset + u64::from(bytes) <= self.byte_len.next_multiple_of(8), "the engine checks ranges");
        assert!(offset.is_multiple_of(u64::from(bytes)), "the engine checks alignment");
        // SAFETY: the words hold all bytes up to the length, rounded up to a word.
        unsafe { self.words.as_ptr().add(offset as usize) }
    }

    /// The element at an offset.
    pub fn load(&self, offset: u64, bytes: u32) -> u64 {
        let place = self.place(offset, bytes);
        // SAFETY: the place is inside the words, which live as long as the block, and aligned.
        unsafe {
            match bytes {
                1 => u64::from(AtomicU8::from_ptr(place).load(Relaxed)),
                2 => u64::from(AtomicU16::from_ptr(place.cast()).load(Relaxed)),
                4 => u64::from(AtomicU32::from_ptr(place.cast()).load(Relaxed)),
                _ => AtomicU64::from_ptr(place.cast()).load(Relaxed),
            }
        }
    }

    /// Stores an element, and marks it as written.
    pub fn store(&self, offset: u64, bytes: u32, value: u64) {
        let place = self.place(offset, bytes);
        // SAFETY: as for `load`.
        unsafe {
            match bytes {
                1 => AtomicU8::from_ptr(place).store(value as u8, Relaxed),
                2 => AtomicU16::from_ptr(place.cast()).store(value as u16, Relaxed),
                4 => AtomicU32::from_ptr(place.cast()).store(value as u32, Relaxed),
                _ => AtomicU64::from_ptr(place.cast()).store(value, Relaxed),
            }
        }
        self.mark_element(offset, bytes);
    }

    /// Replaces an element by what `change` makes of it, at once; returns what it was.
    pub fn update(&self, offset: u64, bytes: u32, mut change: impl FnMut(u64) -> u64) -> u64 {
        let place = self.place(offset, bytes);
        // SAFETY: as for `load`.
        unsafe {
            match bytes {
                2 => {
                    let old = AtomicU16::from_ptr(place.cast())
                        .fetch_update(Relaxed, Relaxed, |old| Some(change(u64::from(old)) as u16));
                    u64::from(old.unwrap_or_else(|old| old))
                }
                4 => {
                    let old = AtomicU32::from_ptr(place.cast())
                        .fetch_update(Relaxed, Relaxed, |old| Some(change(u64::from(old)) as u32));
                    u64::from(old.unwrap_or_else(|old| old))
                }
                _ => {
                    let old = AtomicU64::from_ptr(place.cast())
                        .fetch_update(Relaxed, Relaxed, |old| Some(change(old)));
                    old.unwrap_or_else(|old| old)
                }
            }
        }
    }

    /// Whether something has written all bytes of an element, whose marks are in one word.
    pub fn has_element(&self, offset: u64, bytes: u32) -> bool {
        let bits = ((1u64 << bytes) - 1) << (offset % 64);
        self.written[offset as usize / 64].load(Relaxed) & bits == bits
    }

    fn mark_element(&self, offset: u64, bytes: u32) {
        let bits = ((1u64 << bytes) - 1) << (offset % 64);
        let marks = &self.written[offset as usize / 64];
        // Most stores meet marked bytes, and looking is cheaper than writing.
        if marks.load(Relaxed) & bits != bits {
            marks.fetch_or(bits, Relaxed);
        }
    }
}
