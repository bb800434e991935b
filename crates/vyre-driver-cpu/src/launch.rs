//! Runs programs: lays out a launch's context, shares its workgroups among threads, and reads what came of it.
#![allow(unsafe_code)]

use crate::compile::{Pipeline, lookup};
use crate::device::{CpuBackend, Device, lost};
use crate::memory::{Scratch, bytes_unless, zeroed};
use crate::pool::Work;
use crate::vector::lower::context;
use crate::watch::Watched;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vyre_driver::admission::{Admission, admit, admit_resident};
use vyre_driver::observability::record_launch;
use vyre_driver::{BackendError, DispatchConfig, HandleFault, Resource, TimedDispatchResult, grid_sync};
use vyre_foundation::ir::{BufferKind, Program};
use vyre_foundation::launch::indirect_grid;

/// Lines times lanes below which a launch is not worth a second thread.
const SHARED_WORK_MIN: u64 = 200_000;

/// Runs a program on host bytes.
pub(crate) fn dispatch(
    backend: &CpuBackend,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<TimedDispatchResult, BackendError> {
    let start = Instant::now();
    let device = &backend.device;
    let watch = Watch::new(device, config, start)?;
    let admission = admit(backend, program, inputs, config)?;
    if admission.program.has_grid_sync {
        return grid_sync::dispatch(backend, program, inputs, config);
    }
    let pipeline = lookup(device, program, config)?;
    let mut buffers = upload(&admission, inputs)?;
    let enqueued = start.elapsed();
    let regions: Vec<Region> = buffers.iter_mut().map(Buffer::region).collect();
    launch(&watch, &admission, pipeline, &regions)?;
    let waited = start.elapsed() - enqueued;
    let _span = tracing::trace_span!("readback").entered();
    let outputs: Vec<Vec<u8>> = admission
        .bindings
        .iter()
        .zip(buffers)
        .filter(|(binding, _)| binding.output.is_some())
        .map(|(_, buffer)| buffer.into_bytes())
        .collect();
    let input_bytes = inputs.iter().map(|input| input.len() as u64).sum();
    record_launch(input_bytes, outputs.iter().map(|output| output.len() as u64).sum());
    timed(outputs, start.elapsed(), enqueued, waited)
}

/// What is bound for one dispatch.
enum Buffer<'a> {
    /// The caller's bytes, only read.
    Borrowed(&'a [u8]),
    /// Bytes of the dispatch's own.
    Owned(Vec<u8>),
}

/// Where a bound buffer lies.
#[derive(Clone, Copy)]
struct Region {
    address: u64,
    byte_len: usize,
}

impl Region {
    fn of(bytes: &mut [u8]) -> Region {
        Region { address: bytes.as_mut_ptr() as u64, byte_len: bytes.len() }
    }
}

impl Buffer<'_> {
    fn region(&mut self) -> Region {
        match self {
            // Code for this buffer only reads: the program may not write it.
            Buffer::Borrowed(bytes) => Region { address: bytes.as_ptr() as u64, byte_len: bytes.len() },
            Buffer::Owned(bytes) => Region::of(bytes),
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Buffer::Borrowed(bytes) => bytes.to_vec(),
            Buffer::Owned(bytes) => bytes,
        }
    }
}

fn upload<'a>(admission: &Admission, inputs: &[&'a [u8]]) -> Result<Vec<Buffer<'a>>, BackendError> {
    let _span = tracing::trace_span!("upload").entered();
    let parts = admission.program.parts();
    admission
        .bindings
        .iter()
        .map(|plan| {
            let input = plan.input.map(|input| inputs[input]);
            match input {
                Some(bytes) if !parts.buffer(plan.buffer).is_writable() => Ok(Buffer::Borrowed(bytes)),
                Some(bytes) => {
                    let mut copy = Vec::new();
                    copy.try_reserve_exact(bytes.len()).map_err(|_| BackendError::OutOfMemory {
                        what: "a buffer".to_owned(),
                        requested_bytes: bytes.len() as u64,
                    })?;
                    copy.extend_from_slice(bytes);
                    Ok(Buffer::Owned(copy))
                }
                None => Ok(Buffer::Owned(zeroed(plan.byte_len, "a buffer")?)),
            }
        })
        .collect()
}

/// Runs a program on resident buffers, or on bytes that travel with the call and are not written back.
pub(crate) fn dispatch_resident(
    backend: &CpuBackend,
    program: &Program,
    resources: &[Resource],
    config: &DispatchConfig,
) -> Result<TimedDispatchResult, BackendError> {
    let start = Instant::now();
    let device = &backend.device;
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
    if admission.program.has_grid_sync {
        return Err(BackendError::UnsupportedFeature {
            name: "grid barriers in one resident dispatch".to_owned(),
            backend: crate::device::ID.to_owned(),
        });
    }
    let pipeline = lookup(device, program, config)?;
    check_aliases(&admission, resources)?;
    // Handles are locked in ascending order, so that dispatches which share buffers cannot wait for each other in a
    // circle.
    let mut locked = BTreeMap::new();
    for (handle, pinned) in &pins {
        locked.insert(*handle, bytes_unless(pinned, &stop).ok_or_else(|| watch.error())?);
        pinned.check_defined().map_err(|error| device.cause(watch.generation, error))?;
    }
    let mut travelling: Vec<Vec<u8>> = resources
        .iter()
        .map(|resource| match resource {
            Resource::Borrowed(bytes) => bytes.clone(),
            Resource::Resident(_) => Vec::new(),
        })
        .collect();
    let regions: Vec<Region> = resources
        .iter()
        .zip(&mut travelling)
        .map(|(resource, bytes)| match resource {
            Resource::Resident(handle) => Region::of(locked.get_mut(handle).expect("pinned above")),
            Resource::Borrowed(_) => Region::of(bytes),
        })
        .collect();
    let enqueued = start.elapsed();
    let result = launch(&watch, &admission, pipeline, &regions);
    let waited = start.elapsed() - enqueued;
    if result.is_err() {
        for (resource, plan) in resources.iter().zip(&admission.bindings) {
            let Resource::Resident(handle) = resource else { continue };
            if admission.program.parts().buffer(plan.buffer).is_writable() {
                pins[handle].invalidate();
            }
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

/// What ends a dispatch early: a lost device, its caller, its timeout.
struct Watch {
    device: Arc<Device>,
    /// The device's life that the dispatch began in.
    generation: u64,
    config: DispatchConfig,
    deadline: Option<Instant>,
}

impl Watch {
    fn new(
        device: &Arc<Device>,
        config: &DispatchConfig,
        start: Instant,
    ) -> Result<Arc<Watch>, BackendError> {
        let generation = device.ready()?;
        // A limit beyond what the clock can count is none.
        let deadline = config.timeout.and_then(|limit| start.checked_add(limit));
        Ok(Arc::new(Watch { device: Arc::clone(device), generation, config: config.clone(), deadline }))
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

/// A launch under way: code, context, and the workgroups that nobody has taken yet.
struct Launch {
    pipeline: Arc<Pipeline>,
    /// What `vector::lower::context` lays out, in words of 4 bytes.
    context: Box<[AtomicU32]>,
    next: AtomicU64,
    end: u64,
    /// Workgroups to take at once.
    chunk: u64,
    out_of_memory: AtomicBool,
    watch: Arc<Watch>,
}

/// No trap was recorded.
const NO_TRAP: u32 = u32::MAX;

impl Launch {
    fn new(
        watch: &Arc<Watch>,
        admission: &Admission,
        pipeline: Arc<Pipeline>,
        regions: &[Region],
        threads: usize,
    ) -> Launch {
        let parts = admission.program.parts();
        let bytes = context::BUFFERS + context::BUFFER_BYTES * parts.buffers.len() as i32;
        // An even number of words more, so that eight-byte entries can be aligned.
        let words: Vec<AtomicU32> = (0..bytes / 4 + 2).map(|_| AtomicU32::new(0)).collect();
        let context: Box<[AtomicU32]> = words.into();
        let put = |at: i32, word: u32| context[(at / 4) as usize].store(word, Ordering::Relaxed);
        put(context::TRAP, NO_TRAP);
        for (axis, count) in admission.grid.iter().enumerate() {
            put(context::GRID + 4 * axis as i32, *count);
        }
        let entry = |buffer: usize, address: u64, len: u32| {
            let at = context::BUFFERS + context::BUFFER_BYTES * buffer as i32;
            put(at, address as u32);
            put(at + 4, (address >> 32) as u32);
            put(at + 8, len);
        };
        for (plan, region) in admission.bindings.iter().zip(regions) {
            let size = parts.buffer(plan.buffer).ty.bytes().max(1);
            entry(plan.buffer.index(), region.address, (region.byte_len / size) as u32);
        }
        for (at, buffer) in parts.buffers.iter().enumerate() {
            if let BufferKind::Table { data } = &buffer.kind {
                entry(at, pipeline.tables[at].as_ptr() as u64, data.len() as u32);
            }
        }
        let end: u64 = admission.grid.iter().map(|count| u64::from(*count)).product();
        // A few chunks for each thread, so that the last ones are small against the whole.
        let chunk = (end / (threads as u64 * 8)).clamp(1, 1 << 16);
        let (next, out_of_memory) = (AtomicU64::new(0), AtomicBool::new(false));
        Launch { pipeline, context, next, end, chunk, out_of_memory, watch: Arc::clone(watch) }
    }

    fn word(&self, at: i32) -> u32 {
        self.context[(at / 4) as usize].load(Ordering::Acquire)
    }

    fn stop(&self) {
        self.context[(context::STOP / 4) as usize].store(1, Ordering::Release);
    }
}

impl Work for Launch {
    fn work(&self) {
        Scratch::with(self.pipeline.scratch_bytes, |scratch| {
            let Some(scratch) = scratch else {
                self.out_of_memory.store(true, Ordering::Release);
                return self.stop();
            };
            while self.word(context::STOP) == 0 {
                let first = self.next.fetch_add(self.chunk, Ordering::AcqRel);
                if first >= self.end {
                    return;
                }
                let end = self.end.min(first + self.chunk);
                let context = self.context.as_ptr() as u64;
                // SAFETY: the pipeline's code is an emitter's. The context lists buffers that `launch`'s caller keeps
                // alive and that nobody else touches until it returns, which it does only when no thread is in here;
                // tables live as long as the pipeline. Only atomics of the context are written. The scratch memory is
                // this thread's, of the size the code asked for.
                unsafe { self.pipeline.code.run(context, scratch, first, end) }
            }
        });
    }
}

impl Watched for Launch {
    fn look(&self) {
        if self.watch.stop() {
            self.stop();
        }
    }
}

/// Runs a launch whose buffers lie at `regions`, one for each binding. They must stay there, and be nobody else's, until
/// this returns.
fn launch(
    watch: &Arc<Watch>,
    admission: &Admission,
    pipeline: Arc<Pipeline>,
    regions: &[Region],
) -> Result<(), BackendError> {
    let device = &watch.device;
    let program = &admission.program;
    let _span =
        tracing::trace_span!("launch", program = program.valid.program().name(), grid = ?admission.grid)
            .entered();
    let lanes: u64 = admission.grid.iter().map(|count| u64::from(*count)).product::<u64>()
        * program.parts().workgroup_lanes();
    let small = !pipeline.loops && lanes.saturating_mul(pipeline.lines) < SHARED_WORK_MIN;
    let alone = small || admission.grid.iter().product::<u32>() <= 1 || device.pool.threads() == 1;
    let threads = if alone { 1 } else { device.pool.threads() };
    if watch.stop() {
        return Err(watch.error());
    }
    let launch = Arc::new(Launch::new(watch, admission, pipeline, regions, threads));
    if !small {
        let watched: Weak<Launch> = Arc::downgrade(&launch);
        device.watcher.watch(watched);
    }
    match alone {
        true => launch.work(),
        false => device.pool.run(Arc::clone(&launch) as Arc<dyn Work>),
    }
    device.dispatches.fetch_add(1, Ordering::Relaxed);
    if launch.out_of_memory.load(Ordering::Acquire) {
        return Err(BackendError::OutOfMemory {
            what: "a thread's working memory".to_owned(),
            requested_bytes: launch.pipeline.scratch_bytes,
        });
    }
    if launch.word(context::STOP) != 0 {
        return Err(watch.error());
    }
    match launch.word(context::TRAP) {
        NO_TRAP => Ok(()),
        number => {
            let (code, place) = launch.pipeline.traps[number as usize];
            Err(BackendError::Trap { code, place, lane: None })
        }
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
        // The processor that runs the program is the host's, and so is its clock.
        device_ns: None,
        enqueue_ns: Some(ns(enqueue, "the enqueue time")?),
        wait_ns: Some(ns(wait, "the wait time")?),
    })
}
