//! Host memory.

use std::sync::{Mutex, MutexGuard, PoisonError};
use vyre_driver::BackendError;

/// Host memory. A panic elsewhere cannot leave it half-written in a way that matters: it is only bytes.
pub struct Memory(Mutex<Vec<u8>>);

impl Memory {
    pub(crate) fn zeroed(byte_len: usize) -> Result<Memory, BackendError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(byte_len).map_err(|_| BackendError::OutOfMemory {
            what: "a buffer".to_owned(),
            requested_bytes: byte_len as u64,
        })?;
        bytes.resize(byte_len, 0);
        Ok(Memory(Mutex::new(bytes)))
    }

    pub(crate) fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
