//! The interpreter as a device: host memory, and programs that need no compiling.

use crate::ID;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use vyre_driver::queue::{About, Launch, Queue, Read, Stop, Times, Work};
use vyre_driver::{BackendError, DeviceProfile};
use vyre_foundation::limits;
use vyre_foundation::validate::ValidProgram;
use vyre_reference::{Options, RunError, run_in_place};

/// A device of its own.
#[derive(Default)]
pub struct Interpreter {
    lost: AtomicBool,
    lane_instructions: AtomicU64,
}

/// Host memory. A panic elsewhere cannot leave it half-written in a way that matters: it is only bytes.
pub struct Memory(Mutex<Vec<u8>>);

impl Memory {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost() -> BackendError {
    BackendError::DeviceLost {
        backend: ID.to_owned(),
        cause: "the interpreter's device was reset".to_owned(),
    }
}

impl Queue for Interpreter {
    type Memory = Memory;
    /// The interpreter runs programs as they are.
    type Kernel = ();

    fn about(&self) -> About {
        About {
            id: ID,
            version: env!("CARGO_PKG_VERSION"),
            device: "the host's processor, interpreting".to_owned(),
            driver: "none".to_owned(),
            workgroups_max: u32::MAX,
            async_compute: true,
            grid_sync: true,
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
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(byte_len).map_err(|_| BackendError::OutOfMemory {
            what: "a buffer".to_owned(),
            requested_bytes: byte_len as u64,
        })?;
        bytes.resize(byte_len, 0);
        Ok(Memory(Mutex::new(bytes)))
    }

    fn compile(&self, _: &ValidProgram, _: bool) -> Result<(), BackendError> {
        Ok(())
    }

    fn submit(&self, work: Work<'_, Interpreter>, stop: &Stop<'_>) -> Result<Times, BackendError> {
        let start = Instant::now();
        work.clears.iter().for_each(|memory| memory.bytes().fill(0));
        if !work.uploads.is_empty() {
            let _span = tracing::trace_span!("upload").entered();
            for (memory, offset, bytes) in &work.uploads {
                memory.bytes()[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
        }
        let enqueue = start.elapsed();
        work.launches.iter().try_for_each(|launch| self.launch(launch, stop))?;
        for _ in 0..work.repeat_count {
            work.repeated.iter().try_for_each(|launch| self.launch(launch, stop))?;
        }
        if !work.reads.is_empty() {
            let _span = tracing::trace_span!("readback").entered();
            for Read { memory, offset, byte_len, out } in work.reads {
                out.extend_from_slice(&memory.bytes()[offset..offset + byte_len]);
            }
        }
        // The interpreter runs on the host and has no clock of its own.
        Ok(Times { device_ns: None, enqueue })
    }

    /// Every workgroup's state is kept in memory, so any grid fits that the interpreter can run at all.
    fn resident_workgroups(&self, (): &(), _: u64) -> Result<u64, BackendError> {
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

impl Interpreter {
    fn launch(&self, launch: &Launch<'_, Interpreter>, stop: &Stop<'_>) -> Result<(), BackendError> {
        let admission = launch.admission;
        let name = admission.program.program().name();
        let _span = tracing::trace_span!("launch", program = name, grid = ?admission.grid).entered();
        let same = |a: &Memory, b: &Memory| std::ptr::eq(a, b);
        let mut buffers = Vec::with_capacity(launch.buffers.len());
        for (at, memory) in launch.buffers.iter().enumerate() {
            // Memory that is only read may be bound twice: all but its last use are copies.
            let again = launch.buffers[at + 1..].iter().any(|other| same(other, memory));
            buffers.push(if again { memory.bytes().clone() } else { std::mem::take(&mut *memory.bytes()) });
        }
        let reason = || if self.is_lost() { Some(lost()) } else { stop.reason() };
        let must_stop = || reason().is_some();
        let options = Options { stop: Some(&must_stop), ..Options::default() };
        let result = run_in_place(admission, &mut buffers, &options);
        for (memory, bytes) in launch.buffers.iter().zip(buffers) {
            *memory.bytes() = bytes;
        }
        let stats = result.map_err(|error| match error {
            RunError::Stopped => reason().unwrap_or(BackendError::Cancelled),
            other => translate(other),
        })?;
        self.lane_instructions.fetch_add(stats.lane_instructions, Ordering::Relaxed);
        Ok(())
    }
}

fn translate(error: RunError) -> BackendError {
    match error {
        RunError::Launch(error) => error.into(),
        RunError::Trap { code, location, lane } => {
            BackendError::Trap { code, place: location.line, lane: Some(lane) }
        }
        RunError::Memory { needed, .. } => BackendError::OutOfMemory {
            what: "the interpreter's registers and workgroup state".to_owned(),
            requested_bytes: needed,
        },
        RunError::Stopped | RunError::Diverged { .. } => BackendError::other(error.message(), error.fix()),
    }
}
