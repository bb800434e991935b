//! The memory of programs: buffers of elements, with one defined result for every index.
//!
//! Out of bounds a load yields 0 and a store does nothing. NaN bits become canonical when stored to a storage
//! buffer; workgroup memory keeps them. Also here: the budget that keeps what the interpreter allocates for itself
//! within a limit.

use crate::RunError;
use vyre_foundation::ir::{BufferKind, DataType};
use vyre_foundation::launch::Admission;
use vyre_foundation::scalar::{narrow, observe, widen};

/// The bytes that may still be allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    left: u64,
    max: u64,
}

impl Budget {
    pub(crate) fn new(max: u64) -> Budget {
        Budget { left: max, max }
    }

    /// `count` default values, or an error instead of an abort.
    pub(crate) fn filled<T: Clone + Default>(&mut self, count: usize) -> Result<Vec<T>, RunError> {
        let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
        let refused =
            RunError::Memory { needed: (self.max - self.left).saturating_add(bytes), max: self.max };
        let mut filled = Vec::new();
        if bytes > self.left || filled.try_reserve_exact(count).is_err() {
            return Err(refused);
        }
        self.left -= bytes;
        filled.resize(count, T::default());
        Ok(filled)
    }
}

/// One buffer or table.
pub(crate) struct Region {
    bytes: Vec<u8>,
    ty: DataType,
    pub(crate) len: u32,
    /// Whether the host or other workgroups see it, so that NaN must be canonical.
    storage: bool,
}

impl Region {
    /// The element at `index` as a value; `None` out of bounds.
    #[inline]
    pub(crate) fn load(&self, ty: DataType, index: u64) -> Option<u64> {
        let at = (index as usize).checked_mul(ty.bytes())?;
        let bytes = self.bytes.get(at..at + ty.bytes())?;
        Some(widen(ty, bytes))
    }

    /// Four little-endian bytes from `index` on, those out of bounds 0.
    pub(crate) fn load_bytes(&self, index: u64) -> u64 {
        (0..4).map(|i| u64::from(self.bytes.get((index + i) as usize).copied().unwrap_or(0)) << (8 * i)).sum()
    }

    /// Puts a value; whether the index was in bounds.
    #[inline]
    pub(crate) fn store(&mut self, ty: DataType, index: u64, value: u64) -> bool {
        let value = if self.storage { observe(ty, value) } else { value };
        let at = index as usize * ty.bytes();
        match self.bytes.get_mut(at..at + ty.bytes()) {
            None => false,
            Some(bytes) => {
                narrow(ty, value, bytes);
                true
            }
        }
    }
}

/// All buffers and tables, by buffer id.
pub(crate) struct Memory {
    pub(crate) regions: Vec<Region>,
}

impl Memory {
    /// Takes the contents of bound buffers, lays out tables, and makes workgroup memory of zeros. Where it fails, the
    /// buffers keep their contents.
    pub(crate) fn new(
        admission: &Admission,
        buffers: &mut [Vec<u8>],
        budget: &mut Budget,
    ) -> Result<Memory, RunError> {
        let parts = admission.parts();
        let mut regions = Vec::with_capacity(parts.buffers.len());
        for (buffer, len) in parts.buffers.iter().zip(&admission.lens) {
            let bytes = match &buffer.kind {
                BufferKind::Workgroup => budget.filled(*len as usize * buffer.ty.bytes())?,
                BufferKind::Table { data } => {
                    let mut bytes = budget.filled(data.len() * buffer.ty.bytes())?;
                    let elements = bytes.chunks_exact_mut(buffer.ty.bytes());
                    elements.zip(data).for_each(|(element, bits)| narrow(buffer.ty, *bits, element));
                    bytes
                }
                BufferKind::Uniform { .. } | BufferKind::Read { .. } | BufferKind::ReadWrite { .. } => {
                    Vec::new()
                }
            };
            let storage = buffer.binding().is_some();
            regions.push(Region { bytes, ty: buffer.ty, len: *len, storage });
        }
        for (binding, contents) in admission.bindings.iter().zip(buffers) {
            regions[binding.buffer.index()].bytes = std::mem::take(contents);
        }
        Ok(Memory { regions })
    }

    /// Gives the contents of bound buffers back.
    pub(crate) fn give_back(mut self, admission: &Admission, buffers: &mut [Vec<u8>]) {
        for (binding, contents) in admission.bindings.iter().zip(buffers) {
            *contents = std::mem::take(&mut self.regions[binding.buffer.index()].bytes);
        }
    }

    /// Sets the workgroup memory back to zeros.
    pub(crate) fn clear_workgroup(&mut self, workgroup_buffers: &[usize]) {
        workgroup_buffers.iter().for_each(|at| self.regions[*at].bytes.fill(0));
    }

    /// Exchanges the workgroup memory with what another workgroup keeps.
    pub(crate) fn swap_workgroup(&mut self, workgroup_buffers: &[usize], kept: &mut [Vec<u8>]) {
        for (at, kept) in workgroup_buffers.iter().zip(kept) {
            std::mem::swap(&mut self.regions[*at].bytes, kept);
        }
    }

    /// Copies elements as far as both buffers reach: every collective of a single rank.
    pub(crate) fn copy(&mut self, dst: usize, src: usize) {
        let ty = self.regions[dst].ty;
        for index in 0..u64::from(self.regions[dst].len.min(self.regions[src].len)) {
            let value = self.regions[src].load(ty, index).unwrap_or(0);
            self.regions[dst].store(ty, index, value);
        }
    }
}
