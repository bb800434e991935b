//! Device memory: allocations with an address, their bytes, and which of the bytes something has written.
//!
//! Bytes are atomic words, so that copies and kernels may race as they do on hardware without undefined behaviour here.
//! Pages come from the system untouched, so an allocation costs only what is used of it. The host sees memory that
//! nothing has written as bytes of `STALE`, never as zeros. Between allocations is a red zone, and addresses come back
//! into use only when a heap has gone through all of its own, so most wrong addresses hit nothing.
//! Not here: what a kernel may access (the engine asks by address), and when it is safe to free (the driver waits).
#![allow(unsafe_code)]

use crate::fault::{Code, Fault};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What the host reads from bytes that nothing has written.
pub const STALE: u8 = 0xCB;
/// Every allocation begins at a multiple of this.
const ALIGN: u64 = 256;
/// The least distance between two allocations.
const RED_ZONE: u64 = 512;
/// What one allocation takes of the device at least.
const GRANULE: u64 = 512;
/// Addresses of one heap.
const SPAN: u64 = 1 << 44;
/// From this size on, words are mapped from the system rather than taken from the process's own heap.
const MAPPED_MIN: usize = 1 << 16;

/// Zeroed words that take memory only where they are touched.
pub struct Words {
    start: *mut AtomicU64,
    len: usize,
    mapped: bool,
}

// SAFETY: the words are atomics that this value owns.
unsafe impl Send for Words {}
// SAFETY: as above; shared references only reach atomics.
unsafe impl Sync for Words {}

impl Words {
    /// `None` where the system has no memory. Words that were asked to be `paged` begin at a page.
    fn new(len: usize, paged: bool) -> Option<Words> {
        let byte_len = len.checked_mul(8).filter(|bytes| *bytes > 0)?;
        if !paged && byte_len < MAPPED_MIN {
            let words: Box<[AtomicU64]> = std::iter::repeat_with(|| AtomicU64::new(0)).take(len).collect();
            return Some(Words { start: Box::into_raw(words).cast(), len, mapped: false });
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping touches nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), byte_len, protection, flags, -1, 0) };
        (start != libc::MAP_FAILED).then(|| Words { start: start.cast(), len, mapped: true })
    }

    /// Where the words are in this process.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.cast()
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `new` made that many zeroed words there, and they live until `drop`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: each branch gives back what `new` took in the same way, once.
        unsafe {
            if self.mapped {
                libc::munmap(self.start.cast(), self.len * 8);
            } else {
                drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start, self.len)));
            }
        }
    }
}

/// One allocation. It lives as long as something refers to it, so that a kernel that runs when it is freed touches
/// nothing else.
pub struct Block {
    /// Its first address on the device, a multiple of 256.
    pub address: u64,
    /// How many bytes were asked for.
    pub byte_len: u64,
    /// The bytes, in words.
    pub words: Words,
    /// One bit for each byte: whether something wrote it.
    pub written: Words,
}

impl Block {
    fn new(address: u64, byte_len: u64, paged: bool) -> Result<Block, Fault> {
        let words = usize::try_from(byte_len.div_ceil(8)).ok().and_then(|len| Words::new(len, paged));
        let written = usize::try_from(byte_len.div_ceil(64)).ok().and_then(|len| Words::new(len, false));
        match (words, written) {
            (Some(words), Some(written)) => Ok(Block { address, byte_len, words, written }),
            _ => Err(Fault::new(
                Code::OutOfMemory,
                format!("this machine has no room for {byte_len} bytes of device memory"),
            )),
        }
    }

    /// Memory of the host that the device may access too: its address is the same on both. The host's writes are not
    /// seen, so all of it counts as written.
    pub fn pinned(byte_len: u64) -> Result<Block, Fault> {
        let mut block = Block::new(0, byte_len, true)?;
        block.address = block.words.as_ptr() as u64;
        block.mark(0, byte_len);
        Ok(block)
    }

    /// The first address behind it.
    pub fn end(&self) -> u64 {
        self.address + self.byte_len
    }

    /// Copies bytes in from the host, and marks them as written. The range is inside.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let (head, body) = bytes.split_at(head_len(offset, bytes.len()));
        self.write_part(offset, head);
        let mut at = offset + head.len() as u64;
        let (words, tail) = body.as_chunks::<8>();
        for word in words {
            self.words[(at / 8) as usize].store(u64::from_le_bytes(*word), Relaxed);
            at += 8;
        }
        self.write_part(at, tail);
        self.mark(offset, bytes.len() as u64);
    }

    /// Writes less than a word, without touching the word's other bytes.
    fn write_part(&self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let shift = offset % 8 * 8;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let mask = (u64::MAX >> (64 - 8 * bytes.len())) << shift;
        let value = u64::from_le_bytes(word) << shift;
        let replace = |old: u64| Some(old & !mask | value);
        let _ = self.words[(offset / 8) as usize].fetch_update(Relaxed, Relaxed, replace);
    }

    /// Sets bytes.
    pub fn fill(&self, offset: u64, byte_len: u64, value: u8) {
        let chunk = [value; 4096];
        for at in (0..byte_len).step_by(chunk.len()) {
            let len = (byte_len - at).min(chunk.len() as u64);
            self.write(offset + at, &chunk[..len as usize]);
        }
    }

    /// Makes memory that was just allocated one of zeros, which its pages are already.
    pub(crate) fn mark_zeroed(&self) {
        self.mark(0, self.byte_len);
    }

    /// Copies bytes out to the host. The range is inside.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        let (head, body) = out.split_at_mut(head_len(offset, out.len()));
        let mut at = offset;
        self.read_part(at, head);
        at += head.len() as u64;
        let (words, tail) = body.as_chunks_mut::<8>();
        for out in words {
            *out = self.word_for_host((at / 8) as usize).to_le_bytes();
            at += 8;
        }
        self.read_part(at, tail);
    }

    fn read_part(&self, offset: u64, out: &mut [u8]) {
        if out.is_empty() {
            return;
        }
        let word = self.word_for_host((offset / 8) as usize).to_le_bytes();
        let first = (offset % 8) as usize;
        out.copy_from_slice(&word[first..first + out.len()]);
    }

    /// A word, with `STALE` for bytes that nothing has written.
    fn word_for_host(&self, index: usize) -> u64 {
        let value = self.words[index].load(Relaxed);
        let bits = self.written[index / 8].load(Relaxed) >> (index % 8 * 8) & 0xff;
        if bits == 0xff {
            return value;
        }
        let mut bytes = value.to_le_bytes();
        for (at, byte) in bytes.iter_mut().enumerate() {
            if bits >> at & 1 == 0 {
                *byte = STALE;
            }
        }
        u64::from_le_bytes(bytes)
    }

    /// Copies bytes from another allocation, or from another place of this one. What nothing has written there counts as
    /// unwritten here too. Both ranges are inside.
    pub fn copy_from(&self, offset: u64, source: &Block, source_offset: u64, byte_len: u64) {
        let mut buffer = [0; 4096];
        for at in (0..byte_len).step_by(buffer.len()) {
            let part = &mut buffer[..(byte_len - at).min(4096) as usize];
            source.read(source_offset + at, part);
            self.write(offset + at, part);
            if !source.is_all_written(source_offset + at, part.len() as u64) {
                self.copy_unwritten(offset + at, source, source_offset + at, part.len() as u64);
            }
        }
    }

    /// Counts bytes as unwritten that are unwritten elsewhere.
    fn copy_unwritten(&self, offset: u64, source: &Block, source_offset: u64, byte_len: u64) {
        for byte in 0..byte_len {
            if !source.is_written(source_offset + byte) {
                let bit = offset + byte;
                self.written[(bit / 64) as usize].fetch_and(!(1 << (bit % 64)), Relaxed);
            }
        }
    }

    /// Whether all bytes of a range are known to be written. It looks at groups of 64, so it may miss that at the ends.
    fn is_all_written(&self, offset: u64, byte_len: u64) -> bool {
        let (first, last) = (offset / 64, (offset + byte_len - 1) / 64);
        self.written[first as usize..=last as usize].iter().all(|bits| bits.load(Relaxed) == u64::MAX)
    }

    fn is_written(&self, offset: u64) -> bool {
        self.written[(offset / 64) as usize].load(Relaxed) >> (offset % 64) & 1 == 1
    }

    /// Marks bytes as written.
    fn mark(&self, offset: u64, byte_len: u64) {
        let end = offset + byte_len;
        let mut at = offset;
        while at < end {
            let len = (64 - at % 64).min(end - at);
            let word = &self.written[(at / 64) as usize];
            if len == 64 {
                word.store(u64::MAX, Relaxed);
            } else {
                word.fetch_or((u64::MAX >> (64 - len)) << (at % 64), Relaxed);
            }
            at += len;
        }
    }
}

/// How many of the bytes come before the first whole word.
fn head_len(offset: u64, len: usize) -> usize {
    len.min(((8 - offset % 8) % 8) as usize)
}

/// What a device has left. The heaps of its contexts share it.
pub struct Budget {
    free: AtomicU64,
}

impl Budget {
    /// All of a device's memory.
    pub fn new(byte_len: u64) -> Arc<Budget> {
        Arc::new(Budget { free: AtomicU64::new(byte_len) })
    }

    /// Bytes that no allocation has.
    pub fn free_bytes(&self) -> u64 {
        self.free.load(Relaxed)
    }

    fn take(&self, byte_len: u64) -> bool {
        self.free.fetch_update(Relaxed, Relaxed, |free| free.checked_sub(byte_len)).is_ok()
    }

    fn give_back(&self, byte_len: u64) {
        self.free.fetch_add(byte_len, Relaxed);
    }
}

/// The memory that the kernels of one context can access.
pub struct Heap {
    base: u64,
    budget: Arc<Budget>,
    /// Sorted by address. Readers take the list as it is, and never wait for an allocation.
    blocks: RwLock<Arc<Vec<Arc<Block>>>>,
    /// Where the next allocation is tried.
    next: Mutex<u64>,
}

impl Heap {
    /// A device's memory of that size, whose addresses begin at `base`.
    pub fn new(base: u64, byte_len: u64) -> Heap {
        Heap::within(base, Budget::new(byte_len))
    }

    /// Memory whose addresses begin at `base`, on a device that others use too.
    pub fn within(base: u64, budget: Arc<Budget>) -> Heap {
        let base = base.next_multiple_of(ALIGN);
        Heap { base, budget, blocks: RwLock::default(), next: Mutex::new(base) }
    }

    /// The first address of the heap that has this one, if they are laid out by `number`: no two heaps overlap, and no
    /// address is one that the host could use.
    pub fn base_of(number: u64) -> u64 {
        (1 << 48) + number * SPAN
    }

    /// Memory that nothing has written; `Code::OutOfMemory` where the device has no room.
    pub fn allocate(&self, byte_len: u64) -> Result<Arc<Block>, Fault> {
        if byte_len == 0 {
            return Err(Fault::new(Code::InvalidValue, "an allocation of no bytes"));
        }
        let room = charged(byte_len).filter(|charge| self.budget.take(*charge));
        let Some(charge) = room else {
            let free = self.budget.free_bytes();
            let message = format!("{byte_len} bytes were asked for, and the device has {free} left");
            return Err(Fault::new(Code::OutOfMemory, message));
        };
        let placed = self.place(byte_len);
        if placed.is_err() {
            self.budget.give_back(charge);
        }
        placed
    }

    fn place(&self, byte_len: u64) -> Result<Arc<Block>, Fault> {
        let mut block = Block::new(0, byte_len, false)?;
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let full = || Fault::new(Code::OutOfMemory, "the context has used all of its addresses");
        let address = gap(&self.snapshot(), self.base, *next, byte_len).ok_or_else(full)?;
        *next = (address + byte_len + RED_ZONE).next_multiple_of(ALIGN);
        block.address = address;
        let block = Arc::new(block);
        self.adopt(Arc::clone(&block));
        Ok(block)
    }

    /// Makes memory that was allocated elsewhere accessible at its address.
    pub fn adopt(&self, block: Arc<Block>) {
        let mut blocks = self.blocks.write().unwrap_or_else(PoisonError::into_inner);
        let at = blocks.partition_point(|other| other.address < block.address);
        Arc::make_mut(&mut blocks).insert(at, block);
    }

    /// Frees what `allocate` returned; `Code::InvalidValue` for any other address.
    pub fn free(&self, address: u64) -> Result<(), Fault> {
        let block = self.remove(address)?;
        self.budget.give_back(charged(block.byte_len).expect("it was charged when it was made"));
        Ok(())
    }

    /// Takes out what `adopt` or `allocate` put in.
    pub fn remove(&self, address: u64) -> Result<Arc<Block>, Fault> {
        let mut blocks = self.blocks.write().unwrap_or_else(PoisonError::into_inner);
        match blocks.binary_search_by_key(&address, |block| block.address) {
            Ok(at) => Ok(Arc::make_mut(&mut blocks).remove(at)),
            Err(_) => Err(Fault::new(
                Code::InvalidValue,
                format!("{address:#x} is not the first address of an allocation"),
            )),
        }
    }

    /// The allocation that has all of `byte_len` bytes from `address`.
    pub fn find(&self, address: u64, byte_len: u64) -> Option<Arc<Block>> {
        let blocks = self.snapshot();
        let block = blocks.get(blocks.partition_point(|block| block.address <= address).checked_sub(1)?)?;
        (address.checked_add(byte_len)? <= block.end()).then(|| Arc::clone(block))
    }

    /// All allocations, sorted by address, as they are now.
    pub fn snapshot(&self) -> Arc<Vec<Arc<Block>>> {
        Arc::clone(&self.blocks.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Bytes that no allocation has.
    pub fn free_bytes(&self) -> u64 {
        self.budget.free_bytes()
    }
}

/// What an allocation takes of the device.
fn charged(byte_len: u64) -> Option<u64> {
    byte_len.checked_next_multiple_of(GRANULE)
}

/// The first free address from `next` on, or else from the heap's first on.
fn gap(blocks: &[Arc<Block>], base: u64, next: u64, byte_len: u64) -> Option<u64> {
    let end = base + SPAN;
    [next, base].into_iter().find_map(|mut at| {
        let first = blocks.partition_point(|block| block.end() + RED_ZONE <= at);
        for block in &blocks[first..] {
            if at.checked_add(byte_len)?.checked_add(RED_ZONE)? <= block.address {
                break;
            }
            at = at.max((block.end() + RED_ZONE).next_multiple_of(ALIGN));
        }
        (at.checked_add(byte_len)? <= end).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_reads_what_was_written_and_stale_bytes_beside_it() {
        for offset in 0..20 {
            for len in 0..40 {
                let block = Block::new(0, 100, false).expect("small");
                let bytes: Vec<u8> = (1..=len).collect();
                block.write(offset, &bytes);
                let mut out = [0; 100];
                block.read(0, &mut out);
                let (start, end) = (offset as usize, offset as usize + bytes.len());
                assert_eq!(&out[start..end], bytes);
                assert!(out[..start].iter().chain(&out[end..]).all(|byte| *byte == STALE));
                let copy = Block::new(0, 100, false).expect("small");
                copy.copy_from(3, &block, 0, 90);
                let mut copied = [0; 90];
                copy.read(3, &mut copied);
                assert_eq!(copied, out[..90]);
            }
        }
    }

    #[test]
    fn allocations_are_aligned_apart_and_found_only_whole() {
        let heap = Heap::new(Heap::base_of(1), 1 << 20);
        let blocks: Vec<_> = [1, 300, 4096, 5].map(|len| heap.allocate(len).expect("fits")).into();
        for pair in blocks.windows(2) {
            assert_eq!(pair[1].address % ALIGN, 0);
            assert!(pair[1].address - pair[0].end() >= RED_ZONE);
        }
        let block = &blocks[1];
        assert!(heap.find(block.address + 299, 1).is_some());
        assert!(heap.find(block.address + 299, 2).is_none());
        assert!(heap.find(block.address - 1, 1).is_none());
        assert!(heap.free(block.address + 256).is_err());
        heap.free(block.address).expect("it is allocated");
        assert!(heap.find(block.address, 1).is_none());
        assert_ne!(heap.allocate(300).expect("fits").address, block.address);
    }

    #[test]
    fn a_device_has_no_more_than_it_has() {
        let heap = Heap::new(Heap::base_of(1), 4096);
        let block = heap.allocate(4096).expect("it fits exactly");
        assert_eq!(heap.allocate(1).err().map(|fault| fault.code), Some(Code::OutOfMemory));
        heap.free(block.address).expect("it is allocated");
        assert_eq!(heap.free_bytes(), 4096);
        assert!(heap.allocate(u64::MAX).is_err());
    }

    #[test]
    fn large_memory_costs_nothing_until_it_is_touched() {
        let heap = Heap::new(Heap::base_of(1), 1 << 42);
        let block = heap.allocate(1 << 38).expect("nothing of it is touched");
        block.write((1 << 38) - 4, b"last");
        let mut out = [0; 8];
        block.read((1 << 38) - 8, &mut out);
        assert_eq!(&out, b"\xCB\xCB\xCB\xCBlast");
    }
}
