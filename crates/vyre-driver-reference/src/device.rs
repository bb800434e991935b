//! The interpreter as a device: opening it, what it can do, and how it is lost.

use crate::ID;
use crate::compile::Kernel;
use crate::memory::Memory;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vyre_driver::queue::{About, Queue, Stop, Times, Work};
use vyre_driver::{BackendError, DeviceProfile};
use vyre_foundation::limits;
use vyre_foundation::validate::ValidProgram;

/// A device of its own.
#[derive(Default)]
pub struct Interpreter {
    lost: AtomicBool,
    pub(crate) lane_instructions: AtomicU64,
}

pub(crate) fn lost() -> BackendError {
    BackendError::DeviceLost {
        backend: ID.to_owned(),
        cause: "the interpreter's device was reset".to_owned(),
    }
}

impl Queue for Interpreter {
    type Memory = Memory;
    type Kernel = Kernel;

    fn about(&self) -> About {
        About {
            id: ID,
            version: env!("CARGO_PKG_VERSION"),
            device: "the host's processor, interpreting".to_owned(),
            driver: "none".to_owned(),
            workgroups_max: u32::MAX,
            async_compute: true,
            grid_sync: true,
            resident_workgroups_max: u64::MAX,
            stoppable_apart: false,
            profile: DeviceProfile {
                supports_indirect_dispatch: true,
                supports_trap_propagation: true,
                max_native_int_width: 64,
                max_workgroup_size: limits::WORKGROUP_AXIS_MAX,
                max_invocations_per_workgroup: limits::WORKGROUP_LANES_MAX,
                max_shared_memory_bytes: limits::WORKGROUP_BYTES_MAX as u32,
                max_storage_buffer_binding_size: u64::from(u32::MAX) * 8,
                compute_units: 1,
                ..DeviceProfile::unknown(ID)
            },
        }
    }

    fn allocate(&self, byte_len: usize) -> Result<Memory, BackendError> {
        Memory::zeroed(byte_len)
    }

    fn compile(&self, _: &ValidProgram, _: &Stop) -> Result<Kernel, BackendError> {
        Ok(Kernel)
    }

    fn submit(&self, work: Work<'_, Interpreter>, stop: &Stop) -> Result<Times, BackendError> {
        self.run(work, stop)
    }

    /// Every workgroup's state is kept in memory, so any grid fits that the interpreter can run at all.
    fn resident_workgroups(&self, _: &Kernel, _: u64) -> Result<u64, BackendError> {
        Ok(u64::MAX)
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        vec![("lane_instructions", self.lane_instructions.load(Ordering::Relaxed))]
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    fn reopen(&self) -> Result<Interpreter, BackendError> {
        // Whatever still runs on the old device ends in an error.
        self.lose();
        let lane_instructions = AtomicU64::new(self.lane_instructions.load(Ordering::Relaxed));
        Ok(Interpreter { lost: AtomicBool::new(false), lane_instructions })
    }
}
