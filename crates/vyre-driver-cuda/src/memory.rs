//! Device memory, and the pool that keeps what was freed.
//!
//! The driver's own allocations are slow and some wait for the device, so freed memory stays in a pool by size. When the
//! device has no more, the pool is emptied and the allocation tried once more; then it is an error.
#![allow(unsafe_code)]

use crate::device::Context;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vyre_driver::BackendError;

/// Freed memory, by size.
pub(crate) struct Pool {
    context: Arc<Context>,
    free: Mutex<BTreeMap<usize, Vec<sys::CUdeviceptr>>>,
}

/// An allocation. Dropping it gives it back to the pool, so nothing on the device may use it then.
pub(crate) struct Block {
    pub(crate) address: sys::CUdeviceptr,
    pub(crate) byte_len: usize,
    pool: Arc<Pool>,
}

/// Memory of a device, as the driver layer has it.
pub struct Memory(pub(crate) Block);

/// Sizes differ by an eighth at most, so that memory of one dispatch fits the next.
fn size_class(byte_len: usize) -> usize {
    // A size without a class is more than any device has: it is asked for as it is, and refused.
    let step = byte_len.checked_next_power_of_two().map_or(256, |power| (power / 16).max(256));
    byte_len.max(1).checked_next_multiple_of(step).unwrap_or(byte_len)
}

impl Pool {
    pub(crate) fn new(context: Arc<Context>) -> Arc<Pool> {
        Arc::new(Pool { context, free: Mutex::default() })
    }

    /// Memory of that many bytes, holding anything.
    pub(crate) fn allocate(self: &Arc<Pool>, byte_len: usize) -> Result<Block, BackendError> {
        let size = size_class(byte_len);
        let kept = self.lock().get_mut(&size).and_then(Vec::pop);
        let address = match kept {
            Some(address) => address,
            None => self.allocate_new(size, byte_len)?,
        };
        Ok(Block { address, byte_len, pool: Arc::clone(self) })
    }

    fn allocate_new(&self, size: usize, byte_len: usize) -> Result<sys::CUdeviceptr, BackendError> {
        self.context.enter()?;
        // SAFETY: a context is current.
        let ask = || unsafe { result::malloc_sync(size) };
        let first = ask();
        let address = match first {
            Err(error) if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                self.trim();
                ask()
            }
            other => other,
        };
        address.map_err(|error| match self.context.fault(error, "a device buffer") {
            BackendError::OutOfMemory { what, .. } => {
                BackendError::OutOfMemory { what, requested_bytes: byte_len as u64 }
            }
            other => other,
        })
    }

    /// Gives what is kept back to the device.
    fn trim(&self) {
        for address in std::mem::take(&mut *self.lock()).into_values().flatten() {
            // SAFETY: the address came from `malloc_sync`, and is not in use any more.
            let _ = unsafe { result::free_sync(address) };
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Vec<sys::CUdeviceptr>>> {
        // Nothing panics while the lock is held half-way through a change.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // What is left in the pool goes with its context.
        let size = size_class(self.byte_len);
        self.pool.lock().entry(size).or_default().push(self.address);
    }
}

/// Host memory that the device copies from and to without help.
pub(crate) struct Pinned {
    address: *mut u8,
    byte_len: usize,
    context: Arc<Context>,
}

// SAFETY: it is plain memory; who has the `Pinned` decides who uses it.
unsafe impl Send for Pinned {}
// SAFETY: as above: shared references give out an address, and no access.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn new(context: &Arc<Context>, byte_len: usize) -> Result<Pinned, BackendError> {
        // SAFETY: a context is current.
        let address = unsafe { result::malloc_host(byte_len, 0) }
            .map_err(|error| context.fault(error, "pinned host memory"))?;
        // SAFETY: the allocation has that many bytes.
        unsafe { address.cast::<u8>().write_bytes(0, byte_len) };
        Ok(Pinned { address: address.cast(), byte_len, context: Arc::clone(context) })
    }

    /// The address of a part of it.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.byte_len, "callers stay inside");
        // SAFETY: the offset is inside the allocation.
        unsafe { self.address.add(offset) }
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.byte_len
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.context.can_tidy() {
            // SAFETY: it was allocated by `malloc_host`, and nothing on the device uses it.
            let _ = unsafe { result::free_host(self.address.cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn a_size_class_has_room_and_wastes_an_eighth_at_most() {
        assert_eq!([0, 1, 256, 257].map(size_class), [256, 256, 256, 512]);
        for byte_len in (4096..1 << 20).step_by(4093).chain([usize::MAX / 2 - 7, usize::MAX - 3, usize::MAX])
        {
            let size = size_class(byte_len);
            assert!(byte_len <= size && size - byte_len <= byte_len / 8, "{byte_len}: {size}");
        }
    }
}
