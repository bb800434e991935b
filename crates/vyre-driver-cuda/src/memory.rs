//! Device memory.
#![allow(unsafe_code)]

use crate::device::Device;
use cudarc::driver::result;
use cudarc::driver::sys;
use vyre_driver::BackendError;

/// An allocation of the device's pool.
pub(crate) struct Memory {
    pub(crate) address: sys::CUdeviceptr,
    pub(crate) byte_len: usize,
    stream: sys::CUstream,
}

// SAFETY: an address is a number; who uses it orders the uses through the stream.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the address came from `malloc_async` on this stream and is freed once. After the device is lost the
        // call fails, and its memory is gone anyway.
        let _ = unsafe { result::free_async(self.address, self.stream) };
    }
}

impl Memory {
    /// Memory of that many bytes, zero at the start.
    pub(crate) fn zeroed(device: &Device, byte_len: usize) -> Result<Memory, BackendError> {
        let memory = Memory::new(device, byte_len)?;
        // SAFETY: the allocation has that many bytes.
        unsafe { result::memset_d8_async(memory.address, 0, byte_len, device.stream) }
            .map_err(|error| device.fault(error, "clearing memory"))?;
        Ok(memory)
    }

    /// Memory of that many bytes, holding anything.
    pub(crate) fn new(device: &Device, byte_len: usize) -> Result<Memory, BackendError> {
        // SAFETY: the stream belongs to the current context. A buffer without bytes still has an address.
        let address = unsafe { result::malloc_async(device.stream, byte_len.max(16)) };
        let address = address.map_err(|error| match device.fault(error, "a device buffer") {
            BackendError::OutOfMemory { what, .. } => {
                BackendError::OutOfMemory { what, requested_bytes: byte_len as u64 }
            }
            other => other,
        })?;
        Ok(Memory { address, byte_len, stream: device.stream })
    }

    /// Copies bytes to the start of the allocation, or to `offset`; returns when they are read.
    pub(crate) fn write(&self, device: &Device, offset: usize, bytes: &[u8]) -> Result<(), BackendError> {
        assert!(offset + bytes.len() <= self.byte_len, "callers check the range");
        // SAFETY: the range lies inside, and pageable host memory is staged before the call returns.
        unsafe { result::memcpy_htod_async(self.address + offset as u64, bytes, device.stream) }
            .map_err(|error| device.fault(error, "an upload"))
    }

    /// Copies a range to the host; waits for everything enqueued before.
    pub(crate) fn read(&self, device: &Device, offset: usize, bytes: &mut [u8]) -> Result<(), BackendError> {
        assert!(offset + bytes.len() <= self.byte_len, "callers check the range");
        // SAFETY: the range lies inside, and the stream is waited for before `bytes` is looked at.
        unsafe { result::memcpy_dtoh_async(bytes, self.address + offset as u64, device.stream) }
            .and_then(|()| unsafe { result::stream::synchronize(device.stream) })
            .map_err(|error| device.fault(error, "a readback"))
    }
}
