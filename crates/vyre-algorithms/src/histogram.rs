//! Counts bytes by value.

use crate::plan::{Plan, Role, count, grid};
use crate::programs::parsed;
use vyre_driver::BackendError;

/// Bytes that a workgroup counts, and one on a processor.
const TILE: u32 = 1 << 16;
const TILE_ON_PROCESSORS: u32 = 1 << 18;

impl Plan {
    /// How often each of the 256 values is among `byte_len` bytes: an input of as many bytes, filled up to whole words,
    /// and an output of 256 counts in u32.
    pub fn histogram(byte_len: usize) -> Result<Plan, BackendError> {
        let count = count(byte_len)?;
        let mut plan = Plan::default();
        let bytes = plan.buffer(byte_len.next_multiple_of(4), Role::Input);
        let counts = plan.buffer(256 * 4, Role::Output);
        let size = plan.constant(&[count]);
        plan.clear(counts);
        let program = parsed(include_str!("../kernels/histogram.vyre"));
        plan.step(&program, grid(count.div_ceil(TILE)), &[size, bytes, counts]);
        let program = parsed(include_str!("../kernels/histogram_rows.vyre"));
        plan.on_processors(&program, grid(count.div_ceil(TILE_ON_PROCESSORS)));
        Ok(plan)
    }
}
