//! From PTX to what runs, and running it.

use crate::fault::Fault;
use crate::memory::Heap;
use crate::model::Model;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A module that was compiled for a device.
pub struct Program {
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// Its `.global` and `.const` variables: name and size in bytes.
    pub globals: Vec<(String, u64)>,
}

/// A kernel.
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Offset and size in bytes of each parameter.
    pub params: Vec<(u32, u32)>,
    /// Statically declared shared memory in bytes.
    pub shared_bytes: u32,
    /// Local memory of a thread in bytes.
    pub local_bytes: u32,
    /// Constant memory in bytes.
    pub const_bytes: u32,
    /// 32-bit registers of a thread, as estimated.
    pub registers: u32,
    /// The most threads of a block, by the device and the kernel's directives.
    pub threads_max: u32,
    /// `.reqntid`: the block's exact size.
    pub block: Option<[u32; 3]>,
}

impl Program {
    /// Compiles PTX for a device. The error is what `ptxas` would print: one line each, with the line's number.
    pub fn compile(_source: &str, _model: &Model) -> Result<Program, Fault> {
        unimplemented!()
    }
}

/// A program whose variables are in a device's memory.
pub struct Loaded {
    /// What was loaded.
    pub program: Arc<Program>,
    /// The addresses of its variables.
    pub addresses: Vec<u64>,
}

impl Loaded {
    /// Puts the variables into the device's memory, with their initial values.
    pub fn new(_program: Arc<Program>, _heap: &Heap) -> Result<Loaded, Fault> {
        unimplemented!()
    }
}

/// One launch.
pub struct Launch {
    /// The module.
    pub module: Arc<Loaded>,
    /// Which of its kernels.
    pub kernel: usize,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// The parameters' bytes, as the kernel lays them out.
    pub params: Vec<u8>,
    /// Whether all blocks must be on the device together. The caller has checked that they fit.
    pub cooperative: bool,
}

impl Launch {
    /// Runs it to its end on this thread and others of its own; returns early with an error where `stop` is set.
    pub fn run(&self, _heap: &Heap, _model: &Model, _stop: &AtomicBool) -> Result<(), Fault> {
        unimplemented!()
    }
}
