//! Buffers, which are host memory, and threads' working memory.
#![allow(unsafe_code)]

use memmap2::MmapMut;
use std::alloc::Layout;
use std::cell::RefCell;
use vyre_driver::BackendError;

/// A buffer of the device.
///
/// What one submission writes nothing else uses meanwhile: the driver layer promises that, and the accesses below rely on it.
pub struct Memory {
    address: *mut u8,
    byte_len: usize,
    _bytes: Bytes,
}

// SAFETY: it is plain memory behind an address; the driver layer decides who uses it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// What owns a buffer's bytes.
#[allow(dead_code)] // Held, and reached by the address.
enum Bytes {
    Small(Vec<u8>),
    /// Pages of their own, aligned for vectors; large pages where the system has them, because a kernel that streams through
    /// its buffers spends much of its time on finding pages.
    Large(MmapMut),
}

/// Bytes from which a buffer has pages of its own.
const LARGE_BYTES: usize = 1 << 20;

const RESIDENT: &str = "a resident buffer";

impl Memory {
    pub(crate) fn zeroed(byte_len: usize) -> Result<Memory, BackendError> {
        if byte_len < LARGE_BYTES {
            let mut bytes = zeroed(byte_len, RESIDENT)?;
            return Ok(Memory { address: bytes.as_mut_ptr(), byte_len, _bytes: Bytes::Small(bytes) });
        }
        let refused =
            |_| BackendError::OutOfMemory { what: RESIDENT.to_owned(), requested_bytes: byte_len as u64 };
        let mut pages = MmapMut::map_anon(byte_len).map_err(refused)?;
        // It is only a wish: small pages do as well.
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        Ok(Memory { address: pages.as_mut_ptr(), byte_len, _bytes: Bytes::Large(pages) })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address as u64
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.byte_len
    }

    pub(crate) fn clear(&self) {
        // SAFETY: the buffer has that many bytes, and nothing else uses it (see the type).
        unsafe { self.address.write_bytes(0, self.byte_len) }
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.byte_len, "the driver layer checks ranges");
        // SAFETY: the range is inside the buffer, and nothing else uses it (see the type).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address.add(offset), bytes.len()) }
    }

    pub(crate) fn read(&self, offset: usize, byte_len: usize) -> &[u8] {
        assert!(offset + byte_len <= self.byte_len, "the driver layer checks ranges");
        // SAFETY: the range is inside the buffer, and nothing writes it (see the type).
        unsafe { std::slice::from_raw_parts(self.address.add(offset), byte_len) }
    }
}

/// Zeros, aligned for every element, or an error instead of an abort.
pub(crate) fn zeroed(byte_len: usize, what: &str) -> Result<Vec<u8>, BackendError> {
    let refused = || BackendError::OutOfMemory { what: what.to_owned(), requested_bytes: byte_len as u64 };
    let layout = Layout::array::<u8>(byte_len).map_err(|_| refused())?;
    if byte_len == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout is not empty.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        return Err(refused());
    }
    // SAFETY: the global allocator gave `byte_len` bytes with the layout that a `Vec<u8>` of that capacity has, and they
    // are zero, so all of them are initialised.
    Ok(unsafe { Vec::from_raw_parts(start, byte_len, byte_len) })
}

/// What a thread works in. It is kept for the next launch unless it is large.
pub(crate) struct Scratch {
    lines: Vec<Line>,
}

/// A cache line, so that scratch memory is aligned to one.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Scratch memory that is given back at once.
const KEPT_LINES_MAX: usize = (4 << 20) / 64;

thread_local! {
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch { lines: Vec::new() }) };
}

impl Scratch {
    /// Calls `f` with the address of `bytes` bytes of this thread's, or `None` if there is no memory.
    pub(crate) fn with<T>(bytes: u64, f: impl FnOnce(Option<u64>) -> T) -> T {
        SCRATCH.with_borrow_mut(|scratch| {
            let count = bytes.div_ceil(64) as usize;
            let more = count.saturating_sub(scratch.lines.len());
            if more > 0 {
                if scratch.lines.try_reserve_exact(more).is_err() {
                    return f(None);
                }
                scratch.lines.resize(count, Line([0; 64]));
            }
            let result = f(Some(scratch.lines.as_mut_ptr() as u64));
            if scratch.lines.len() > KEPT_LINES_MAX {
                scratch.lines = Vec::new();
            }
            result
        })
    }
}
