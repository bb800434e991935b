//! Runs programs on the interpreter.

use crate::compile::lookup;
use crate::device::{Device, ReferenceBackend, lost};
use crate::memory::{bytes_unless, zeroed};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vyre_driver::admission::{Admission, admit, admit_resident};
use vyre_driver::observability::record_launch;
use vyre_driver::{BackendError, DispatchConfig, HandleFault, Resource, TimedDispatchResult};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::indirect_grid;
use vyre_reference::{Options, RunError, run_in_place};

/// Runs a program on host bytes.
pub(crate) fn dispatch(
    backend: &ReferenceBackend,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<TimedDispatchResult, BackendError> {
    let start = Instant::now();
    let device = &*backend.device;
    let watch = Watch::new(device, config, start)?;
    let admission = admit(backend, program, inputs, config)?;
    lookup(device, program, config)?;
    let mut buffers = upload(&admission, inputs)?;
    let enqueued = start.elapsed();
    launch(&watch, &admission, &mut buffers)?;
    let waited = start.elapsed() - enqueued;
    let _span = tracing::trace_span!("readback").entered();
    let bindings = admission.bindings.iter().zip(buffers);
    let outputs: Vec<Vec<u8>> =
        bindings.filter(|(binding, _)| binding.output.is_some()).map(|(_, bytes)| bytes).collect();
    let input_bytes = inputs.iter().map(|input| input.len() as u64).sum();
    record_launch(input_bytes, outputs.iter().map(|output| output.len() as u64).sum());
    timed(outputs, start.elapsed(), enqueued, waited)
}

/// Runs a program on resident buffers, or on bytes that travel with the call and are not written back.
pub(crate) fn dispatch_resident(
    backend: &ReferenceBackend,
    program: &Program,
    resources: &[Resource],
    config: &DispatchConfig,
) -> Result<TimedDispatchResult, BackendError> {
    let start = Instant::now();
    let device = &*backend.device;
    let watch = Watch::new(device, config, start)?;
    let stop = || watch.stop();
    let mut pins = BTreeMap::new();
    let mut byte_lens = Vec::with_capacity(resources.len());
    for resource in resources {
        byte_lens.push(match resource {
            Resource::Resident(handle) => {
                let pinned = device.pin_defined(resource, watch.generation)?;
                let byte_len = pinned.byte_len();
                pins.insert(*handle, pinned);
                byte_len
            }
            Resource::Borrowed(bytes) => bytes.len(),
        });
    }
    let admission =
        admit_resident(backend, program, &byte_lens, config, |at, offset| match &resources[at] {
            Resource::Resident(handle) => {
                let args = bytes_unless(&pins[handle], &stop).ok_or_else(|| watch.error())?;
                Ok(indirect_grid(offset, &args))
            }
            Resource::Borrowed(bytes) => Ok(indirect_grid(offset, bytes)),
        })?;
    lookup(device, program, config)?;
    check_aliases(&admission, resources)?;
    // Handles are locked in ascending order, so that dispatches which share buffers cannot wait for each other in a
    // circle.
    let mut locked = BTreeMap::new();
    for (handle, pinned) in &pins {
        locked.insert(*handle, bytes_unless(pinned, &stop).ok_or_else(|| watch.error())?);
        pinned.check_defined().map_err(|error| device.cause(watch.generation, error))?;
    }
    let mut buffers = Vec::with_capacity(resources.len());
    for (at, resource) in resources.iter().enumerate() {
        buffers.push(match resource {
            // A read-only buffer may be bound twice: all but its last use are copies.
            Resource::Resident(handle) if resources[at + 1..].contains(resource) => locked[handle].clone(),
            Resource::Resident(handle) => {
                std::mem::take(&mut **locked.get_mut(handle).expect("pinned above"))
            }
            Resource::Borrowed(bytes) => bytes.clone(),
        });
    }
    let enqueued = start.elapsed();
    let result = launch(&watch, &admission, &mut buffers);
    let waited = start.elapsed() - enqueued;
    for ((resource, contents), plan) in resources.iter().zip(buffers).zip(&admission.bindings) {
        let Resource::Resident(handle) = resource else { continue };
        **locked.get_mut(handle).expect("pinned above") = contents;
        if result.is_err() && admission.program.parts().buffer(plan.buffer).is_writable() {
            pins[handle].invalidate();
        }
    }
    result?;
    // What was written to a device that is gone is gone too.
    device.still(watch.generation)?;
    record_launch(0, 0);
    timed(Vec::new(), start.elapsed(), enqueued, waited)
}

/// A buffer that the program may write is bound once.
fn check_aliases(admission: &Admission, resources: &[Resource]) -> Result<(), BackendError> {
    let parts = admission.program.parts();
    for (plan, resource) in admission.bindings.iter().zip(resources) {
        let Resource::Resident(handle) = resource else { continue };
        let uses = resources.iter().filter(|other| *other == resource).count();
        if uses > 1 && parts.buffer(plan.buffer).is_writable() {
            return Err(BackendError::BadHandle { handle: *handle, cause: HandleFault::BoundTwice });
        }
    }
    Ok(())
}

fn upload(admission: &Admission, inputs: &[&[u8]]) -> Result<Vec<Vec<u8>>, BackendError> {
    let _span = tracing::trace_span!("upload").entered();
    admission
        .bindings
        .iter()
        .map(|plan| {
            let mut buffer = zeroed(plan.byte_len, "a buffer")?;
            if let Some(input) = plan.input {
                buffer.copy_from_slice(inputs[input]);
            }
            Ok(buffer)
        })
        .collect()
}

/// What ends a dispatch early: a lost device, its caller, its timeout.
struct Watch<'a> {
    device: &'a Device,
    /// The device's life that the dispatch began in.
    generation: u64,
    config: &'a DispatchConfig,
    deadline: Option<Instant>,
}

impl<'a> Watch<'a> {
    fn new(
        device: &'a Device,
        config: &'a DispatchConfig,
        start: Instant,
    ) -> Result<Watch<'a>, BackendError> {
        let generation = device.ready()?;
        // A limit beyond what the clock can count is none.
        let deadline = config.timeout.and_then(|limit| start.checked_add(limit));
        Ok(Watch { device, generation, config, deadline })
    }

    fn lost(&self) -> bool {
        !self.device.is_current(self.generation)
    }

    fn cancelled(&self) -> bool {
        self.config.cancel.as_ref().is_some_and(vyre_driver::CancelToken::is_cancelled)
    }

    fn stop(&self) -> bool {
        self.lost() || self.cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Why [`stop`](Watch::stop) said so.
    fn error(&self) -> BackendError {
        if self.lost() {
            lost()
        } else if self.cancelled() {
            BackendError::Cancelled
        } else {
            BackendError::Timeout { limit: self.config.timeout.unwrap_or(Duration::ZERO) }
        }
    }
}

fn launch(watch: &Watch<'_>, admission: &Admission, buffers: &mut [Vec<u8>]) -> Result<(), BackendError> {
    let program = &admission.program.valid;
    let _span =
        tracing::trace_span!("launch", program = program.program().name(), grid = ?admission.grid).entered();
    let stop = || watch.stop();
    let options = Options { stop: Some(&stop), ..Options::default() };
    // An indirect program reads the same grid again from its buffer.
    let grid = if vyre_foundation::launch::indirect(program.parts()).is_some() {
        None
    } else {
        Some(admission.grid)
    };
    let stats = run_in_place(program, grid, buffers, &options).map_err(|error| match error {
        RunError::Stopped => watch.error(),
        other => translate(other),
    })?;
    watch.device.dispatches.fetch_add(1, Ordering::Relaxed);
    watch.device.lane_instructions.fetch_add(stats.lane_instructions, Ordering::Relaxed);
    Ok(())
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
        RunError::Stopped | RunError::Diverged { .. } => BackendError::new(error.to_string()),
    }
}

fn timed(
    outputs: Vec<Vec<u8>>,
    wall: Duration,
    enqueue: Duration,
    wait: Duration,
) -> Result<TimedDispatchResult, BackendError> {
    let ns = |time: Duration, what: &str| {
        u64::try_from(time.as_nanos()).map_err(|_| BackendError::ClockOverflow { what: what.to_owned() })
    };
    Ok(TimedDispatchResult {
        outputs,
        wall_ns: ns(wall, "the wall time")?,
        // The interpreter runs on the host and has no clock of its own.
        device_ns: None,
        enqueue_ns: Some(ns(enqueue, "the enqueue time")?),
        wait_ns: Some(ns(wait, "the wait time")?),
    })
}
