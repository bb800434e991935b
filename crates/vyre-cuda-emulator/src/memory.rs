//! Device memory.

use crate::fault::Fault;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// One allocation. It lives as long as somebody has it, so that a kernel that runs when it is freed touches nothing else.
pub struct Block {
    /// Its first address on the device, a multiple of 256.
    pub address: u64,
    /// How many bytes were asked for.
    pub byte_len: u64,
    /// The bytes, in words.
    pub words: Box<[AtomicU64]>,
    /// One bit for each byte: whether something wrote it.
    pub written: Box<[AtomicU64]>,
}

/// All memory of one device.
pub struct Heap {
    _todo: (),
}

impl Heap {
    /// A device's memory of that size, whose addresses begin at `base`.
    pub fn new(_base: u64, _byte_len: u64) -> Heap {
        Heap { _todo: () }
    }
    /// Memory that nothing has written; `Code::OutOfMemory` where the device has no room.
    pub fn allocate(&self, _byte_len: u64) -> Result<Arc<Block>, Fault> {
        unimplemented!()
    }
    /// Frees what `allocate` returned; `Code::InvalidValue` for any other address.
    pub fn free(&self, _address: u64) -> Result<(), Fault> {
        unimplemented!()
    }
    /// The allocation that has all of `byte_len` bytes from `address`.
    pub fn find(&self, _address: u64, _byte_len: u64) -> Option<Arc<Block>> {
        unimplemented!()
    }
    /// Bytes that no allocation has.
    pub fn free_bytes(&self) -> u64 {
        unimplemented!()
    }
}

impl Block {
    /// Copies bytes in from the host, and marks them as written. The range is inside.
    pub fn write(&self, _offset: u64, _bytes: &[u8]) {
        unimplemented!()
    }
    /// Sets bytes.
    pub fn fill(&self, _offset: u64, _byte_len: u64, _value: u8) {
        unimplemented!()
    }
    /// Copies bytes out to the host. The range is inside.
    pub fn read(&self, _offset: u64, _out: &mut [u8]) {
        unimplemented!()
    }
}
