//! One submission: uploads, launches by the interpreter, readbacks.

use crate::device::{Interpreter, lost};
use crate::memory::Memory;
use std::sync::atomic::Ordering;
use std::time::Instant;
use vyre_driver::BackendError;
use vyre_driver::queue::{KernelLaunch, Queue, Read, Stop, Times, Work};
use vyre_reference::{Options, RunError, run_in_place};

impl Interpreter {
    /// Does the work of one submission, in order.
    pub(crate) fn run(&self, work: Work<'_, Interpreter>, stop: &Stop) -> Result<Times, BackendError> {
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

    fn launch(&self, launch: &KernelLaunch<'_, Interpreter>, stop: &Stop) -> Result<(), BackendError> {
        let admission = launch.admission;
        let name = admission.program.program().name();
        let _span = tracing::trace_span!("launch", program = name, grid = ?admission.grid).entered();
        let memories: Vec<&Memory> = launch.memories().collect();
        let mut buffers = Vec::with_capacity(memories.len());
        for (memory, plan) in memories.iter().zip(&admission.bindings) {
            // Other dispatches may read what this one only reads, so that is copied. What is written is bound once.
            buffers.push(match admission.parts().buffer(plan.buffer).is_writable() {
                true => std::mem::take(&mut *memory.bytes()),
                false => memory.bytes().clone(),
            });
        }
        let reason = || if self.is_lost() { Some(lost()) } else { stop.reason() };
        let must_stop = || reason().is_some();
        let options = Options { stop: Some(&must_stop), ..Options::default() };
        let result = run_in_place(admission, &mut buffers, &options);
        for ((memory, plan), bytes) in memories.iter().zip(&admission.bindings).zip(buffers) {
            if admission.parts().buffer(plan.buffer).is_writable() {
                *memory.bytes() = bytes;
            }
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
