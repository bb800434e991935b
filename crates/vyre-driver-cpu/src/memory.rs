//! Resident buffers, which are host memory behind the shared handle table, and threads' working memory.
#![allow(unsafe_code)]

use crate::device::{Device, lost};
use memmap2::MmapMut;
use std::alloc::Layout;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use vyre_driver::resident::Pinned;
use vyre_driver::{BackendError, Resource};

pub(crate) type Memory = Mutex<Bytes>;

/// A resident buffer's bytes.
pub(crate) enum Bytes {
    Small(Vec<u8>),
    /// Pages of their own, aligned for vectors; large pages where the system has them, because a kernel that streams through
    /// its buffers spends much of its time on finding pages.
    Large(MmapMut),
}

/// Bytes from which a resident buffer has pages of its own.
const LARGE_BYTES: usize = 1 << 20;

impl Bytes {
    fn zeroed(byte_len: usize) -> Result<Bytes, BackendError> {
        if byte_len < LARGE_BYTES {
            return Ok(Bytes::Small(zeroed(byte_len, RESIDENT)?));
        }
        let refused =
            |_| BackendError::OutOfMemory { what: RESIDENT.to_owned(), requested_bytes: byte_len as u64 };
        let pages = MmapMut::map_anon(byte_len).map_err(refused)?;
        // It is only a wish: small pages do as well.
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        Ok(Bytes::Large(pages))
    }
}

const RESIDENT: &str = "a resident buffer";

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Small(bytes) => bytes,
            Bytes::Large(pages) => pages,
        }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Bytes::Small(bytes) => bytes,
            Bytes::Large(pages) => pages,
        }
    }
}

/// The bytes behind a pin. A panic elsewhere cannot leave them half-written in a way that matters: they are only bytes.
pub(crate) fn bytes(pinned: &Pinned<Memory>) -> MutexGuard<'_, Bytes> {
    pinned.memory().lock().unwrap_or_else(PoisonError::into_inner)
}

/// [`bytes`], unless `stop` says to give up before another dispatch lets go of them.
pub(crate) fn bytes_unless<'a>(
    pinned: &'a Pinned<Memory>,
    stop: &dyn Fn() -> bool,
) -> Option<MutexGuard<'a, Bytes>> {
    let mut pause = Duration::from_micros(5);
    loop {
        match pinned.memory().try_lock() {
            Ok(bytes) => return Some(bytes),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if stop() => return None,
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
        }
    }
}

impl Device {
    pub(crate) fn allocate(&self, byte_len: usize) -> Result<Resource, BackendError> {
        self.ready()?;
        let bytes = Bytes::zeroed(byte_len)?;
        Ok(self.resident.insert(byte_len, Mutex::new(bytes)))
    }

    pub(crate) fn upload(&self, uploads: &[(&Resource, &[u8])]) -> Result<(), BackendError> {
        let generation = self.ready()?;
        let _span = tracing::trace_span!("upload").entered();
        // All are checked before any is written, so that a failed batch changes nothing.
        let mut pins = Vec::with_capacity(uploads.len());
        for (resource, source) in uploads {
            let pinned = self.resident.pin(resource).map_err(|error| self.cause(generation, error))?;
            pinned.check_full(source.len())?;
            pins.push(pinned);
        }
        for (pinned, (_, source)) in pins.iter().zip(uploads) {
            let mut bytes = bytes(pinned);
            bytes.copy_from_slice(source);
            // Under the lock, so that a dispatch that fails later is not talked over.
            pinned.revalidate();
        }
        self.still(generation)
    }

    pub(crate) fn upload_at(&self, uploads: &[(&Resource, usize, &[u8])]) -> Result<(), BackendError> {
        let generation = self.ready()?;
        let _span = tracing::trace_span!("upload").entered();
        let mut pins = Vec::with_capacity(uploads.len());
        for (resource, offset, source) in uploads {
            let pinned = self.pin_defined(resource, generation)?;
            pinned.check_range(*offset, source.len())?;
            pins.push(pinned);
        }
        for (pinned, (_, offset, source)) in pins.iter().zip(uploads) {
            let mut bytes = bytes(pinned);
            pinned.check_defined().map_err(|error| self.cause(generation, error))?;
            bytes[*offset..offset + source.len()].copy_from_slice(source);
        }
        self.still(generation)
    }

    pub(crate) fn download(
        &self,
        resource: &Resource,
        range: Option<(usize, usize)>,
        out: &mut Vec<u8>,
    ) -> Result<(), BackendError> {
        let generation = self.ready()?;
        let _span = tracing::trace_span!("readback").entered();
        let pinned = self.pin_defined(resource, generation)?;
        let (offset, len) = range.unwrap_or((0, pinned.byte_len()));
        pinned.check_range(offset, len)?;
        out.clear();
        out.try_reserve(len).map_err(|_| BackendError::OutOfMemory {
            what: "a download".to_owned(),
            requested_bytes: len as u64,
        })?;
        let bytes = bytes(&pinned);
        // The dispatch that held the bytes may have failed, and the device may be another by now.
        self.still(generation)?;
        pinned.check_defined()?;
        out.extend_from_slice(&bytes[offset..offset + len]);
        Ok(())
    }

    /// Whether the device is the one that a call began on.
    pub(crate) fn still(&self, generation: u64) -> Result<(), BackendError> {
        if self.is_current(generation) { Ok(()) } else { Err(lost()) }
    }

    /// Memory whose bytes are defined, for a call that began on the device of `generation`.
    pub(crate) fn pin_defined(
        &self,
        resource: &Resource,
        generation: u64,
    ) -> Result<Pinned<Memory>, BackendError> {
        self.resident.pin_defined(resource).map_err(|error| self.cause(generation, error))
    }

    /// What is behind an error of a call: a handle that went with the device is not the caller's mistake.
    pub(crate) fn cause(&self, generation: u64, error: BackendError) -> BackendError {
        self.still(generation).err().unwrap_or(error)
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
