//! Runs kernels, and waits for them.
#![allow(unsafe_code)]

use crate::compile::{Kernel, kernel};
use crate::device::{CudaBackend, Device};
use crate::memory::Memory;
use cudarc::driver::result;
use cudarc::driver::sys;
use std::ffi::c_void;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use vyre_driver::admission::{Admission, admit, admit_resident};
use vyre_driver::observability::record_launch;
use vyre_driver::resident::Pinned;
use vyre_driver::{BackendError, DispatchConfig, HandleFault, Resource, TimedDispatchResult};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::Program;
use vyre_foundation::launch::indirect_grid;

/// How long a cancelled kernel may take to notice before the device counts as lost.
const GRACE: Duration = Duration::from_secs(10);

/// Runs a program on host bytes.
pub(crate) fn dispatch(
    backend: &CudaBackend,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<TimedDispatchResult, BackendError> {
    let start = Instant::now();
    let device = &*backend.device;
    let admission = admit(backend, program, inputs, config)?;
    device.enter()?;
    let turn = device.turn.lock().unwrap_or_else(PoisonError::into_inner);
    let kernel = kernel(device, &admission.program, polls(config))?;
    let mut buffers = Vec::with_capacity(admission.bindings.len());
    for plan in &admission.bindings {
        buffers.push(match plan.input {
            None => Memory::zeroed(device, plan.byte_len)?,
            Some(input) => {
                let memory = Memory::new(device, plan.byte_len)?;
                memory.write(device, 0, inputs[input])?;
                memory
            }
        });
    }
    let addresses: Vec<(u64, usize)> =
        buffers.iter().map(|buffer| (buffer.address, buffer.byte_len)).collect();
    let enqueued = start.elapsed();
    let device_time = launch(device, &kernel, &admission, &addresses, config, start)?;
    let mut outputs = Vec::new();
    for (plan, buffer) in admission.bindings.iter().zip(&buffers) {
        if plan.output.is_some() {
            let mut bytes = vec![0; plan.byte_len];
            buffer.read(device, 0, &mut bytes)?;
            outputs.push(bytes);
        }
    }
    drop(turn);
    let input_bytes = inputs.iter().map(|input| input.len() as u64).sum();
    record_launch(input_bytes, outputs.iter().map(|output| output.len() as u64).sum());
    timed(outputs, start.elapsed(), device_time, enqueued)
}

/// Runs a program on resident memory, or on bytes that travel with the call and are not written back.
pub(crate) fn dispatch_resident(
    backend: &CudaBackend,
    program: &Program,
    resources: &[Resource],
    config: &DispatchConfig,
) -> Result<TimedDispatchResult, BackendError> {
    let start = Instant::now();
    let device = &*backend.device;
    device.enter()?;
    let mut held = Vec::with_capacity(resources.len());
    for resource in resources {
        held.push(match resource {
            Resource::Resident(_) => Held::Resident(device.resident.pin_defined(resource)?),
            Resource::Borrowed(bytes) => {
                let memory = Memory::new(device, bytes.len())?;
                memory.write(device, 0, bytes)?;
                Held::Own(memory)
            }
        });
    }
    let byte_lens: Vec<usize> = held.iter().map(|held| held.memory().byte_len).collect();
    let admission = admit_resident(backend, program, &byte_lens, config, |at, offset| {
        let memory = held[at].memory();
        let mut bytes = vec![0; memory.byte_len];
        memory.read(device, 0, &mut bytes)?;
        Ok(indirect_grid(offset, &bytes))
    })?;
    check_aliases(&admission, resources)?;
    let _turn = device.turn.lock().unwrap_or_else(PoisonError::into_inner);
    let kernel = kernel(device, &admission.program, polls(config))?;
    let addresses: Vec<(u64, usize)> =
        held.iter().map(|held| (held.memory().address, held.memory().byte_len)).collect();
    let enqueued = start.elapsed();
    let result = launch(device, &kernel, &admission, &addresses, config, start);
    if result.is_err() {
        for (held, plan) in held.iter().zip(&admission.bindings) {
            if let Held::Resident(pinned) = held
                && admission.program.parts().buffer(plan.buffer).is_writable()
            {
                pinned.invalidate();
            }
        }
    }
    let device_time = result?;
    record_launch(0, 0);
    timed(Vec::new(), start.elapsed(), device_time, enqueued)
}

/// What a resource of a dispatch lies in.
enum Held {
    Resident(Pinned<Memory>),
    Own(Memory),
}

impl Held {
    fn memory(&self) -> &Memory {
        match self {
            Held::Resident(pinned) => pinned.memory(),
            Held::Own(memory) => memory,
        }
    }
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

/// Whether the kernel must look out for being cancelled.
fn polls(config: &DispatchConfig) -> bool {
    config.timeout.is_some() || config.cancel.is_some()
}

/// The cancel word, in host memory that the device sees.
struct CancelWord {
    host: *mut c_void,
    device: sys::CUdeviceptr,
}

impl CancelWord {
    fn new(device: &Device) -> Result<CancelWord, BackendError> {
        let fault = |error| device.fault(error, "the cancel word");
        // SAFETY: one word, mapped into the device's addresses.
        let host = unsafe { result::malloc_host(4, sys::CU_MEMHOSTALLOC_DEVICEMAP) }.map_err(fault)?;
        let mut word = CancelWord { host, device: 0 };
        // SAFETY: `host` is a mapped allocation of a word.
        unsafe {
            sys::cuMemHostGetDevicePointer_v2(&mut word.device, host, 0).result().map_err(fault)?;
            host.cast::<u32>().write(0);
        }
        Ok(word)
    }

    fn set(&self) {
        // SAFETY: the allocation lives as long as `self`, and is aligned; the device only reads it.
        unsafe { AtomicU32::from_ptr(self.host.cast()) }.store(1, Ordering::Release);
    }
}

impl Drop for CancelWord {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `malloc_host`, and the kernel that read it has ended or its device is lost.
        let _ = unsafe { result::free_host(self.host) };
    }
}

/// The trap word and the grid barrier's counter behind it, in device memory.
const STATE: [u8; 16] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const SYNC_AT: u64 = 8;

/// Launches a kernel and waits for it; how long it ran on the device.
fn launch(
    device: &Device,
    kernel: &Kernel,
    admission: &Admission,
    buffers: &[(u64, usize)],
    config: &DispatchConfig,
    start: Instant,
) -> Result<Option<u64>, BackendError> {
    let parts = admission.program.parts();
    let _span = tracing::trace_span!("launch", program = &*parts.name, grid = ?admission.grid).entered();
    if admission.grid.contains(&0) {
        return Ok(None);
    }
    let cancel = if polls(config) { Some(CancelWord::new(device)?) } else { None };
    let state = if kernel.cooperative || !kernel.traps.is_empty() {
        let state = Memory::new(device, STATE.len())?;
        state.write(device, 0, &STATE)?;
        Some(state)
    } else {
        None
    };
    let mut arguments = Vec::with_capacity(2 * buffers.len() + 3);
    for ((address, byte_len), plan) in buffers.iter().zip(&admission.bindings) {
        let elements = byte_len / parts.buffer(plan.buffer).ty.bytes();
        arguments.extend([*address, elements as u64]);
    }
    // What a kernel has no use for it does not read.
    let at = state.as_ref().map_or(0, |state| state.address);
    arguments.extend([at, cancel.as_ref().map_or(0, |cancel| cancel.device), at + SYNC_AT]);
    let mut pointers: Vec<*mut c_void> =
        arguments.iter().map(|argument| std::ptr::from_ref(argument).cast_mut().cast()).collect();
    let [grid, block] = [admission.grid, parts.workgroup].map(|[x, y, z]| (x, y, z));
    let begin = Event::recorded(device)?;
    let launch = if kernel.cooperative { result::launch_cooperative_kernel } else { result::launch_kernel };
    // SAFETY: the arguments are those the kernel declares, in order; buffers are alive until the kernel has ended, and
    // every access in it is within their bounds.
    unsafe { launch(kernel.function, grid, block, kernel.shared_bytes, device.stream, &mut pointers) }
        .map_err(|error| device.fault(error, "a launch"))?;
    let end = Event::recorded(device)?;
    let stopped = wait(device, &end, cancel.as_ref(), config, start)?;
    device.dispatches.fetch_add(1, Ordering::Relaxed);
    if let Some(error) = stopped {
        return Err(error);
    }
    if let (Some(state), false) = (&state, kernel.traps.is_empty())
        && let site = trap_site(device, state)?
        && site != u32::MAX
    {
        let code = kernel.traps.iter().find(|(at, _)| *at == site).map_or(0, |(_, code)| *code);
        return Err(BackendError::Trap { code, place: Place::Program, lane: None });
    }
    // SAFETY: both events were recorded on the stream and have happened.
    let elapsed = unsafe { result::event::elapsed(begin.0, end.0) };
    Ok(elapsed.ok().map(|milliseconds| (f64::from(milliseconds) * 1e6) as u64))
}

fn trap_site(device: &Device, state: &Memory) -> Result<u32, BackendError> {
    let mut word = [0; 4];
    state.read(device, 0, &mut word)?;
    Ok(u32::from_le_bytes(word))
}

/// An event that was recorded on the device's stream.
struct Event(sys::CUevent);

impl Event {
    fn recorded(device: &Device) -> Result<Event, BackendError> {
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(|error| device.fault(error, "an event"))?;
        let event = Event(event);
        // SAFETY: the event was just made, and the stream belongs to the same context.
        unsafe { result::event::record(event.0, device.stream) }
            .map_err(|error| device.fault(error, "an event"))?;
        Ok(event)
    }

    /// Whether it has happened.
    fn happened(&self, device: &Device) -> Result<bool, BackendError> {
        // SAFETY: the event is alive.
        match unsafe { result::event::query(self.0) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(device.fault(error, "a kernel")),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is destroyed once.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}

/// Waits for a kernel. Past its deadline or when cancelled it is told to end; the reason comes back.
fn wait(
    device: &Device,
    end: &Event,
    word: Option<&CancelWord>,
    config: &DispatchConfig,
    start: Instant,
) -> Result<Option<BackendError>, BackendError> {
    let Some(word) = word else {
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(device.stream) }
            .map_err(|error| device.fault(error, "a kernel"))?;
        return Ok(None);
    };
    let deadline = config.timeout.and_then(|limit| start.checked_add(limit));
    let mut stopped: Option<(BackendError, Instant)> = None;
    let mut rounds = 0u32;
    while !end.happened(device)? {
        let now = Instant::now();
        let cancelled = config.cancel.as_ref().is_some_and(vyre_driver::CancelToken::is_cancelled);
        if let Some((error, since)) = &stopped {
            if now.duration_since(*since) > GRACE {
                return Err(BackendError::DeviceLost {
                    backend: crate::device::ID.into(),
                    cause: format!("a kernel did not end when told to: {error}"),
                });
            }
        } else if cancelled || deadline.is_some_and(|deadline| now >= deadline) {
            word.set();
            let limit = config.timeout.unwrap_or(Duration::ZERO);
            let error = if cancelled { BackendError::Cancelled } else { BackendError::Timeout { limit } };
            stopped = Some((error, now));
        }
        rounds += 1;
        // Short kernels are met by spinning, long ones by sleeping.
        if rounds > 1000 { std::thread::sleep(Duration::from_micros(50)) } else { std::hint::spin_loop() }
    }
    Ok(stopped.map(|(error, _)| error))
}

fn timed(
    outputs: Vec<Vec<u8>>,
    wall: Duration,
    device_ns: Option<u64>,
    enqueue: Duration,
) -> Result<TimedDispatchResult, BackendError> {
    let ns = |time: Duration, what: &str| {
        u64::try_from(time.as_nanos()).map_err(|_| BackendError::ClockOverflow { what: what.to_owned() })
    };
    Ok(TimedDispatchResult {
        outputs,
        wall_ns: ns(wall, "the wall time")?,
        device_ns,
        enqueue_ns: Some(ns(enqueue, "the enqueue time")?),
        wait_ns: Some(ns(wall.saturating_sub(enqueue), "the wait time")?),
    })
}

/// Whether all workgroups of a launch can be on the device at once.
pub(crate) fn fits(
    backend: &CudaBackend,
    admission: &Admission,
    config: &DispatchConfig,
) -> Result<bool, BackendError> {
    let device = &*backend.device;
    device.enter()?;
    let kernel = kernel(device, &admission.program, polls(config))?;
    let lanes = admission.program.parts().workgroup_lanes() as u32;
    // SAFETY: the function belongs to a module that lives.
    let resident = unsafe {
        result::occupancy::max_active_block_per_multiprocessor(
            kernel.function,
            lanes as i32,
            kernel.shared_bytes as usize,
        )
    };
    let resident = resident.map_err(|error| device.fault(error, "the occupancy"))?;
    let groups = admission.grid.iter().fold(1u64, |product, count| product.saturating_mul(u64::from(*count)));
    Ok(groups <= resident.max(0) as u64 * u64::from(device.facts.compute_units))
}
