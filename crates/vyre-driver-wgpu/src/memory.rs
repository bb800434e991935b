//! Device memory, and the pool that keeps what was freed.
//!
//! Buffers that come back to the pool keep their identity, so that the bind groups of the last dispatch serve the next.
//! Memory that the host maps comes back only when it is known to be as the next user expects it; otherwise it is let go.
//! Where the device has the host's memory, storage is mapped too, while nothing on the device uses it: [`Mapped`] has it for
//! so long.
//! When the device has no more memory, the pool is emptied and the allocation tried once more; then it is an error.

use crate::ID;
use crate::device::{Device, Kept};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vyre_driver::BackendError;
use wgpu::{BufferUsages, BufferView, BufferViewMut, MapMode, MapRangeError};

/// Bytes that the pool keeps.
const KEPT_BYTES_MAX: u64 = 1 << 30;

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Kernels read and write it. In the pool it is not mapped.
    Storage,
    /// The host reads it. In the pool it is not mapped.
    Readback,
    /// The host writes it. In the pool it is mapped.
    Upload,
}

impl Kind {
    pub(crate) fn usage(self, device: &Device) -> BufferUsages {
        let storage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        match self {
            Kind::Storage if device.staged.is_none() => {
                storage | BufferUsages::MAP_READ | BufferUsages::MAP_WRITE
            }
            Kind::Storage => storage,
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
    /// What was asked for. The buffer has more, which is not used.
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
            // A call failed half-way, so its state is unknown.
            Kind::Readback | Kind::Upload => {}
        }
    }
}

/// Memory that the host has mapped, or will have when nothing is awaited any more. No submission may use it until this is
/// dropped.
pub(crate) struct Mapped<'a> {
    device: &'a Device,
    /// Each once.
    memories: Vec<&'a Memory>,
    /// How many are not mapped yet.
    pub(crate) awaited: Arc<AtomicUsize>,
    has_failed: Arc<AtomicBool>,
}

impl<'a> Mapped<'a> {
    /// Asks for memory, of which some may be named more than once. wgpu maps it when the device is looked at, after what uses
    /// it now.
    pub(crate) fn ask(
        device: &'a Device,
        mode: MapMode,
        memories: impl Iterator<Item = &'a Memory>,
    ) -> Result<Mapped<'a>, BackendError> {
        let mut memories: Vec<&Memory> = memories.collect();
        memories.sort_unstable_by_key(|memory| memory.buffer().id);
        memories.dedup_by_key(|memory| memory.buffer().id);
        let awaited = Arc::new(AtomicUsize::new(memories.len()));
        let mapped = Mapped { device, memories, awaited, has_failed: Arc::default() };
        device.watched("a mapping", || {
            for memory in &mapped.memories {
                let (awaited, has_failed) = (Arc::clone(&mapped.awaited), Arc::clone(&mapped.has_failed));
                memory.raw().map_async(mode, .., move |result| {
                    has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    awaited.fetch_sub(1, Ordering::Release);
                });
            }
        })?;
        Ok(mapped)
    }

    /// What is in one of them.
    pub(crate) fn view(&self, memory: &Memory) -> Result<BufferView, BackendError> {
        self.found(|| memory.raw().get_mapped_range(..))
    }

    /// The same to write to.
    pub(crate) fn view_mut(&self, memory: &Memory) -> Result<BufferViewMut, BackendError> {
        self.found(|| memory.raw().get_mapped_range_mut(..))
    }

    fn found<T>(&self, find: impl FnOnce() -> Result<T, MapRangeError>) -> Result<T, BackendError> {
        let found = self.device.watched("a mapping", find)?;
        found.ok().filter(|_| !self.has_failed.load(Ordering::Relaxed)).ok_or_else(|| {
            self.device.lose("memory could not be mapped");
            self.device.lost()
        })
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        let unmap = || self.memories.iter().for_each(|memory| memory.raw().unmap());
        // What stays mapped cannot be used, and no later call would notice.
        if self.device.watched("a mapping", unmap).is_err() {
            self.device.lose("memory could not be unmapped");
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
        let wanted =
            wgpu::BufferDescriptor { label: None, size, usage: kind.usage(&self.device), mapped_at_creation };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WgpuConfig;

    #[test]
    fn a_mapping_that_fails_is_an_error() {
        let opened = WgpuConfig::from_env().and_then(|config| Device::open(&config));
        let device = match opened.map(|device| (device.staged, device)) {
            Ok((None, device)) => Arc::new(device),
            Ok((Some(reason), _)) => return eprintln!("SKIP mappings on wgpu: memory is staged: {reason}"),
            Err(error) => return eprintln!("SKIP mappings on wgpu: {error}"),
        };
        let memory = Pool::new(Arc::clone(&device)).allocate(Kind::Storage, 64).expect("it fits");
        let ask = || Mapped::ask(&device, MapMode::Write, [&memory, &memory].into_iter());
        for _ in 0..2 {
            let mapped = ask().unwrap_or_else(|error| panic!("{error}"));
            device.look().expect("it is there");
            assert_eq!(mapped.awaited.load(Ordering::Acquire), 0);
            mapped.view_mut(&memory).expect("it is mapped").slice(..).fill(1);
        }
        let [_held, again] = [ask(), ask()].map(|asked| asked.unwrap_or_else(|error| panic!("{error}")));
        device.look().expect("it is there");
        let Err(error) = again.view(&memory) else { panic!("it is mapped twice") };
        assert!(error.to_string().contains("Fix:"), "{error}");
        assert!(device.is_lost());
    }
}
