//! Device memory, and the pool that keeps what was freed.
//!
//! Buffers that come back to the pool keep their identity, so that the bind groups of the last dispatch serve the next.
//! Memory that the host maps comes back only when it is known to be as the next user expects it; otherwise it is let go.
//! When the device has no more memory, the pool is emptied and the allocation tried once more; then it is an error.

use crate::ID;
use crate::device::{Device, Kept};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vyre_driver::BackendError;
use wgpu::BufferUsages;

/// Bytes that the pool keeps.
const KEPT_BYTES_MAX: u64 = 1 << 30;

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Kernels read and write it.
    Storage,
    /// The host reads it. In the pool it is not mapped.
    Readback,
    /// The host writes it. In the pool it is mapped.
    Upload,
}

impl Kind {
    fn usage(self) -> BufferUsages {
        match self {
            Kind::Storage => BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            Kind::Readback => BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            Kind::Upload => BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC,
        }
    }
}

/// A buffer and what it is known by.
pub(crate) struct Buffer {
    pub(crate) raw: Kept<wgpu::Buffer>,
    /// No two buffers of the device have the same.
    pub(crate) id: u64,
}

/// Freed buffers, by kind and size.
pub(crate) struct Pool {
    device: Arc<Device>,
    free: Mutex<Free>,
    ids: AtomicU64,
    /// Ids of buffers that are gone, which bind groups may still hold.
    gone: Mutex<Vec<u64>>,
}

#[derive(Default)]
struct Free {
    buffers: BTreeMap<(Kind, u64), Vec<Buffer>>,
    bytes: u64,
}

/// An allocation. Dropping it gives it back to the pool, so nothing on the device may use it then; what the host maps is
/// given back by [`Memory::keep`] alone.
pub struct Memory {
    buffer: Option<Buffer>,
    /// What was asked for. The buffer has more, which is nobody's.
    pub(crate) byte_len: usize,
    kind: Kind,
    pool: Arc<Pool>,
}

impl Memory {
    pub(crate) fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("it is there until it is dropped")
    }

    pub(crate) fn raw(&self) -> &wgpu::Buffer {
        &self.buffer().raw
    }

    /// Gives it back to the pool: it is mapped, or not, as its kind is there.
    pub(crate) fn keep(mut self) {
        self.pool.take_back(self.kind, self.buffer.take());
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self.kind {
            Kind::Storage => self.pool.take_back(self.kind, self.buffer.take()),
            // A call failed half-way, so nobody knows how it is.
            Kind::Readback | Kind::Upload => {}
        }
    }
}

/// Whole words, at least four; sizes differ by an eighth at most, so that memory of one dispatch fits the next.
fn size_class(byte_len: u64) -> u64 {
    let step = (byte_len.next_power_of_two() / 16).max(16);
    byte_len.max(1).next_multiple_of(step)
}

impl Pool {
    pub(crate) fn new(device: Arc<Device>) -> Arc<Pool> {
        Arc::new(Pool { device, free: Mutex::default(), ids: AtomicU64::new(0), gone: Mutex::default() })
    }

    /// Memory of that many bytes, holding anything.
    pub(crate) fn allocate(self: &Arc<Pool>, kind: Kind, byte_len: usize) -> Result<Memory, BackendError> {
        let limit = self.device.limits.max_buffer_size & !3;
        let asked = byte_len as u64;
        if asked > limit {
            let what = "a device buffer's bytes (max_buffer_size)".into();
            return Err(BackendError::LimitExceeded { what, asked, limit, backend: ID.into() });
        }
        let size = size_class(asked).min(limit);
        let kept = {
            let mut free = self.lock();
            let kept = free.buffers.get_mut(&(kind, size)).and_then(Vec::pop);
            free.bytes -= kept.as_ref().map_or(0, |_| size);
            kept
        };
        let buffer = match kept {
            Some(buffer) => buffer,
            None => self.create(kind, size, asked)?,
        };
        Ok(Memory { buffer: Some(buffer), byte_len, kind, pool: Arc::clone(self) })
    }

    fn create(&self, kind: Kind, size: u64, asked: u64) -> Result<Buffer, BackendError> {
        let mapped_at_creation = kind == Kind::Upload;
        let wanted = wgpu::BufferDescriptor { label: None, size, usage: kind.usage(), mapped_at_creation };
        let create = || self.device.watched("a device buffer", || self.device.raw.create_buffer(&wanted));
        let first = create();
        let raw = match first {
            Err(BackendError::OutOfMemory { .. }) => {
                self.trim();
                create()
            }
            other => other,
        };
        let raw = raw.map_err(|error| match error {
            BackendError::OutOfMemory { what, .. } => {
                BackendError::OutOfMemory { what, requested_bytes: asked }
            }
            other => other,
        })?;
        Ok(Buffer { raw: self.device.kept(raw), id: self.new_id() })
    }

    /// An id that nothing else of the device has.
    pub(crate) fn new_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    fn take_back(&self, kind: Kind, buffer: Option<Buffer>) {
        let Some(buffer) = buffer else { return };
        let size = buffer.raw.size();
        let mut free = self.lock();
        if free.bytes + size <= KEPT_BYTES_MAX {
            free.bytes += size;
            free.buffers.entry((kind, size)).or_default().push(buffer);
        } else {
            self.gone.lock().unwrap_or_else(PoisonError::into_inner).push(buffer.id);
        }
    }

    /// Gives what is kept back to the device.
    fn trim(&self) {
        let dropped = std::mem::take(&mut *self.lock());
        let ids = dropped.buffers.values().flatten().map(|buffer| buffer.id);
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
    }

    /// The ids of buffers that are gone since the last time.
    pub(crate) fn gone(&self) -> Vec<u64> {
        std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        // Nothing panics while the lock is held half-way through a change.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
