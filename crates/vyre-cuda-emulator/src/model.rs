//! The devices that can be emulated: their published limits.

/// What a device is. One for each `sm_` that the emulator knows, with the figures of a real model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The compute capability times ten: 70, 75, 80, 86, 89, 90, 100, 120.
    pub sm: u32,
    /// `vyre emulated sm_90`.
    pub name: String,
    /// The hardware whose figures these are.
    pub figures_of: &'static str,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Threads that one multiprocessor holds at once.
    pub threads_per_multiprocessor: u32,
    /// Blocks that one multiprocessor holds at once.
    pub blocks_per_multiprocessor: u32,
    /// 32-bit registers of one multiprocessor, and the most that one block may have.
    pub registers_per_multiprocessor: u32,
    /// Shared memory of one multiprocessor in bytes.
    pub shared_per_multiprocessor: u32,
    /// Shared memory that a block may have without asking, and the most when it asks.
    pub shared_per_block: u32,
    /// The most shared memory of a block that set its function's attribute.
    pub shared_per_block_optin: u32,
    /// Shared memory that the system takes of each block.
    pub shared_reserved: u32,
    /// The second-level cache in bytes.
    pub l2_bytes: u32,
    /// Bytes a second that copies take; `None` as fast as the processor copies.
    pub copy_bytes_per_second: Option<u64>,
}
