//! The table of resident memory that every backend keeps.
//!
//! A handle is a serial number under the number of the table that gave it, so that a handle from another backend, from
//! before a device loss, or of freed memory is distinguished from a good one. The memory itself is the backend's type `M`.
//! A dispatch pins what it uses; pinned memory cannot be freed.

use crate::error::{BackendError, HandleFault};
use crate::types::{DeviceBuffer, Resource};
use rustc_hash::FxHashMap;
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vyre_foundation::validate::ValidProgram;

/// Leaves a million tables to a process, and each of them allocations for half a year at a million a second.
const SERIAL_BITS: u32 = 44;

/// The resident memory of one backend.
pub(crate) struct ResidentTable<M> {
    backend: &'static str,
    /// This table's number, in the bits above the serial.
    owner: u64,
    state: Mutex<State<M>>,
}

struct State<M> {
    entries: FxHashMap<u64, Arc<Entry<M>>>,
    next_serial: u64,
    /// Handles below this serial that are not in the table went with a lost device or were freed before.
    lost_below: u64,
}

struct Entry<M> {
    byte_len: usize,
    memory: M,
    invalidated: std::sync::atomic::AtomicBool,
}

/// Resident memory that a dispatch or transfer is using. Dropping it lets go.
pub(crate) struct Pinned<M> {
    handle: u64,
    entry: Arc<Entry<M>>,
}

impl<M> Pinned<M> {
    /// The backend's memory.
    #[must_use]
    pub(crate) fn memory(&self) -> &M {
        &self.entry.memory
    }

    /// How many bytes it has.
    #[must_use]
    pub(crate) fn byte_len(&self) -> usize {
        self.entry.byte_len
    }

    /// The handle's number.
    #[must_use]
    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    /// Says that a failed dispatch left its bytes undefined; only a full upload makes them usable again.
    pub(crate) fn invalidate(&self) {
        self.entry.invalidated.store(true, Ordering::Release);
    }

    /// Says that all its bytes were written anew.
    pub(crate) fn revalidate(&self) {
        self.entry.invalidated.store(false, Ordering::Release);
    }

    /// Checks that no failed dispatch left its bytes undefined. Ask again once the bytes are locked: a dispatch that held
    /// them until then may have failed.
    pub(crate) fn check_defined(&self) -> Result<(), BackendError> {
        if self.entry.invalidated.load(Ordering::Acquire) {
            return Err(BackendError::BadHandle { handle: self.handle, cause: HandleFault::Invalidated });
        }
        Ok(())
    }

    /// Checks that a range is inside.
    pub(crate) fn check_range(&self, byte_offset: usize, byte_len: usize) -> Result<(), BackendError> {
        if byte_offset.checked_add(byte_len).is_some_and(|end| end <= self.byte_len()) {
            return Ok(());
        }
        Err(BackendError::InvalidLaunch {
            message: format!(
                "a range of {byte_len} bytes at {byte_offset} reaches beyond the {} bytes of handle {:#x}",
                self.byte_len(),
                self.handle
            ),
            fix: "keep offset plus length within the allocation".to_owned(),
        })
    }

    /// Checks that an upload fills the allocation.
    pub(crate) fn check_full(&self, byte_len: usize) -> Result<(), BackendError> {
        if byte_len == self.byte_len() {
            return Ok(());
        }
        Err(BackendError::InvalidLaunch {
            message: format!(
                "an upload of {byte_len} bytes into the {} bytes of handle {:#x}",
                self.byte_len(),
                self.handle
            ),
            fix: "upload exactly the allocation's length, or use the ranged upload".to_owned(),
        })
    }
}

impl<M> ResidentTable<M> {
    /// An empty table for the backend with that id.
    #[must_use]
    pub(crate) fn new(backend: &'static str) -> ResidentTable<M> {
        static OWNERS: AtomicU64 = AtomicU64::new(1);
        let owner = OWNERS.fetch_add(1, Ordering::Relaxed) << SERIAL_BITS;
        let state = State { entries: FxHashMap::default(), next_serial: 1, lost_below: 0 };
        ResidentTable { backend, owner, state: Mutex::new(state) }
    }

    /// Puts memory into the table.
    pub(crate) fn insert(&self, byte_len: usize, memory: M) -> Resource {
        let mut state = self.lock();
        let handle = self.owner | state.next_serial;
        state.next_serial += 1;
        let invalidated = std::sync::atomic::AtomicBool::new(false);
        state.entries.insert(handle, Arc::new(Entry { byte_len, memory, invalidated }));
        Resource::Resident(handle)
    }

    /// The memory behind `resource`, whatever its bytes are worth: for uploads.
    pub(crate) fn pin(&self, resource: &Resource) -> Result<Pinned<M>, BackendError> {
        let Resource::Resident(handle) = resource else {
            return Err(BackendError::BadHandle { handle: 0, cause: HandleFault::NotResident });
        };
        let state = self.lock();
        match state.entries.get(handle) {
            Some(entry) => Ok(Pinned { handle: *handle, entry: Arc::clone(entry) }),
            None => Err(BackendError::BadHandle { handle: *handle, cause: self.fault(&state, *handle) }),
        }
    }

    /// The memory behind `resource`, for dispatches and downloads: its bytes must be defined.
    pub(crate) fn pin_defined(&self, resource: &Resource) -> Result<Pinned<M>, BackendError> {
        let pinned = self.pin(resource)?;
        pinned.check_defined()?;
        Ok(pinned)
    }

    /// Takes memory out of the table.
    pub(crate) fn remove(&self, resource: &Resource) -> Result<(), BackendError> {
        let Resource::Resident(handle) = resource else {
            return Err(BackendError::BadHandle { handle: 0, cause: HandleFault::NotResident });
        };
        let mut state = self.lock();
        let Some(entry) = state.entries.get(handle) else {
            return Err(BackendError::BadHandle { handle: *handle, cause: self.fault(&state, *handle) });
        };
        // Pins are only made under this lock, so a count of one cannot grow before the removal.
        if Arc::strong_count(entry) > 1 {
            return Err(BackendError::BadHandle { handle: *handle, cause: HandleFault::InUse });
        }
        state.entries.remove(handle);
        Ok(())
    }

    /// Forgets everything, as a lost device must. What is pinned lives until it is let go.
    pub(crate) fn lose_all(&self) {
        let mut state = self.lock();
        state.entries.clear();
        state.lost_below = state.next_serial;
    }

    /// How many allocations there are, and their bytes.
    #[must_use]
    pub(crate) fn usage(&self) -> (u64, u64) {
        let state = self.lock();
        let bytes = state.entries.values().map(|entry| entry.byte_len as u64).sum();
        (state.entries.len() as u64, bytes)
    }

    /// A typed handle for the same memory.
    pub(crate) fn device_buffer(&self, resource: &Resource) -> Result<Box<dyn DeviceBuffer>, BackendError> {
        let pinned = self.pin(resource)?;
        Ok(Box::new(TableBuffer {
            backend: self.backend,
            resource: Resource::Resident(pinned.handle),
            byte_len: pinned.byte_len(),
        }))
    }

    /// The resource behind a typed handle of this backend.
    pub(crate) fn resource_of<'a>(&self, buffer: &'a dyn DeviceBuffer) -> Result<&'a Resource, BackendError> {
        match buffer.as_any().downcast_ref::<TableBuffer>() {
            Some(buffer) => Ok(&buffer.resource),
            None => Err(BackendError::BadHandle { handle: 0, cause: HandleFault::Foreign }),
        }
    }

    /// The resources behind typed handles, in one list by ascending binding. A missing buffer leaves it short, which
    /// admission reports.
    pub(crate) fn resources_of(
        &self,
        program: &ValidProgram,
        inputs: &[&dyn DeviceBuffer],
        outputs: &[&mut dyn DeviceBuffer],
    ) -> Result<Vec<Resource>, BackendError> {
        let inputs: Result<Vec<_>, _> = inputs.iter().map(|buffer| self.resource_of(*buffer)).collect();
        let outputs: Result<Vec<_>, _> = outputs.iter().map(|buffer| self.resource_of(&**buffer)).collect();
        let (mut inputs, mut outputs) = (inputs?.into_iter().cloned(), outputs?.into_iter().cloned());
        let bound = &program.facts().bound;
        let mut resources = Vec::with_capacity(bound.len());
        for id in bound {
            let from = if program.parts().buffer(*id).is_output() { &mut outputs } else { &mut inputs };
            resources.extend(from.next());
        }
        resources.extend(inputs.chain(outputs));
        Ok(resources)
    }

    fn fault(&self, state: &State<M>, handle: u64) -> HandleFault {
        let serial = handle & ((1 << SERIAL_BITS) - 1);
        if handle >> SERIAL_BITS != self.owner >> SERIAL_BITS {
            HandleFault::Foreign
        } else if serial == 0 || serial >= state.next_serial {
            HandleFault::Unknown
        } else if serial < state.lost_below {
            HandleFault::Lost
        } else {
            HandleFault::Freed
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        // Nothing panics while the lock is held half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that memory which a dispatch may write is bound once. `writes` says of each resource whether it may.
pub(crate) fn check_aliases(
    resources: &[Resource],
    writes: impl IntoIterator<Item = bool>,
) -> Result<(), BackendError> {
    for (resource, written) in resources.iter().zip(writes) {
        let Resource::Resident(handle) = resource else { continue };
        if written && resources.iter().filter(|other| *other == resource).count() > 1 {
            return Err(BackendError::BadHandle { handle: *handle, cause: HandleFault::BoundTwice });
        }
    }
    Ok(())
}

/// Checks that ranges to read have outputs to go to, one each.
pub(crate) fn check_range_count(ranges: usize, outputs: usize) -> Result<(), BackendError> {
    if ranges == outputs {
        return Ok(());
    }
    Err(BackendError::InvalidLaunch {
        message: format!("{ranges} ranges to read and {outputs} outputs to put them in"),
        fix: "pass one output for each range".to_owned(),
    })
}

/// The typed handle over a table's entry.
struct TableBuffer {
    backend: &'static str,
    resource: Resource,
    byte_len: usize,
}

impl DeviceBuffer for TableBuffer {
    fn backend_id(&self) -> &'static str {
        self.backend
    }

    fn byte_len(&self) -> usize {
        self.byte_len
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault<T>(result: Result<T, BackendError>) -> HandleFault {
        match result {
            Err(BackendError::BadHandle { cause, .. }) => cause,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("the handle was good"),
        }
    }

    #[test]
    fn each_bad_handle_is_named_for_what_it_is() {
        let table = ResidentTable::new("a");
        let other = ResidentTable::<()>::new("b");
        let kept = table.insert(8, ());
        let freed = table.insert(8, ());
        table.remove(&freed).unwrap();
        let Resource::Resident(number) = kept else { unreachable!() };

        assert_eq!(fault(table.pin(&freed)), HandleFault::Freed);
        assert_eq!(fault(table.remove(&freed)), HandleFault::Freed);
        assert_eq!(fault(other.pin(&kept)), HandleFault::Foreign);
        assert_eq!(fault(table.pin(&Resource::Resident(number + 100))), HandleFault::Unknown);
        assert_eq!(fault(table.pin(&Resource::Resident(0))), HandleFault::Foreign);
        assert_eq!(fault(table.pin(&Resource::Borrowed(vec![]))), HandleFault::NotResident);

        let pinned = table.pin(&kept).unwrap();
        assert_eq!(fault(table.remove(&kept)), HandleFault::InUse);
        pinned.invalidate();
        assert_eq!(fault(table.pin_defined(&kept)), HandleFault::Invalidated);
        pinned.revalidate();
        assert!(table.pin_defined(&kept).is_ok());

        table.lose_all();
        assert_eq!(fault(table.pin(&kept)), HandleFault::Lost);
        drop(pinned);
        assert_eq!(table.usage(), (0, 0));
    }

    #[test]
    fn ranges_end_inside() {
        let table = ResidentTable::new("a");
        let pinned = table.pin(&table.insert(8, ())).unwrap();
        assert!(pinned.check_range(8, 0).is_ok());
        assert!(pinned.check_range(4, 4).is_ok());
        assert!(pinned.check_range(4, 5).is_err());
        assert!(pinned.check_range(usize::MAX, 2).is_err());
        assert!(pinned.check_full(8).is_ok());
        assert!(pinned.check_full(7).is_err());
    }

    #[test]
    fn typed_handles_name_the_same_memory() {
        let table = ResidentTable::new("a");
        let resource = table.insert(8, ());
        let buffer = table.device_buffer(&resource).unwrap();
        assert_eq!((buffer.backend_id(), buffer.byte_len()), ("a", 8));
        assert_eq!(table.resource_of(&*buffer).unwrap(), &resource);
    }
}
