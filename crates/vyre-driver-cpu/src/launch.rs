//! Runs programs: lays out a launch's context, shares its workgroups among threads, and reads what came of it.
//!
//! A program with grid barriers runs as its parts, one after the other over the whole grid, within one dispatch: what lives
//! across a barrier waits in memory of the dispatch's own, and the threads meet between the parts.
#![allow(unsafe_code)]

use crate::compile::{Pipeline, Ready, lookup};
use crate::device::{Call, CpuBackend, Device, lost};
use crate::memory::{Bytes, Memory, Scratch, bytes_unless, zeroed};
use crate::pool::Work;
use crate::vector::lower::context;
use crate::watch::Watched;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::{Duration, Instant};
use vyre_driver::admission::{admit, admit_resident, valid};
use vyre_driver::grid_sync::{Bound, Parts, Plan, StateSizes};
use vyre_driver::observability::record_launch;
use vyre_driver::resident::{Pinned, check_aliases};
use vyre_driver::{
    BackendError, CancelToken, DispatchConfig, OutputBuffers, ResidentDispatchStep, Resource,
    TimedDispatchResult,
};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::{Admission, Binding, indirect, indirect_grid};

/// Lines times lanes below which a launch is not worth a second thread.
const SHARED_WORK_MIN: u64 = 200_000;
/// What atomics on elements of every type want.
const ALIGNMENT: u64 = 8;

/// Runs a program on host bytes. Outputs take the storage of the slots that are large enough for them, which are empty then.
pub(crate) fn dispatch(
    backend: &CpuBackend,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
    call: Call,
    slots: &mut OutputBuffers,
) -> Result<TimedDispatchResult, BackendError> {
    let watch = Watch::new(&backend.device, config, call);
    let admission = admit(backend, program, inputs, config)?;
    let ready = lookup(&watch, &admission.program)?;
    dispatch_ready(&watch, &admission, &ready, inputs, call, slots)
}

/// Runs a compiled program on host bytes.
pub(crate) fn dispatch_ready(
    watch: &Arc<Watch>,
    admission: &Admission,
    ready: &Ready,
    inputs: &[&[u8]],
    call: Call,
    slots: &mut OutputBuffers,
) -> Result<TimedDispatchResult, BackendError> {
    let mut buffers = upload(admission, inputs, slots)?;
    let enqueued = call.start.elapsed();
    let regions: Vec<Region> = buffers.iter_mut().map(Buffer::region).collect::<Result<_, _>>()?;
    if let Err(error) = run(watch, admission, ready, &regions) {
        give_back(admission, buffers, slots);
        return Err(error);
    }
    let waited = call.start.elapsed() - enqueued;
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
    timed(outputs, Times { wall: call.start.elapsed(), enqueued, waited })
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
    /// Bytes that programs may write.
    fn of(bytes: &mut [u8]) -> Result<Region, BackendError> {
        let address = bytes.as_mut_ptr() as u64;
        if !bytes.is_empty() && !address.is_multiple_of(ALIGNMENT) {
            return Err(BackendError::other(
                format!(
                    "this process's allocator returned memory that is not aligned to {ALIGNMENT} bytes, which atomics need"
                ),
                "use an allocator that aligns large blocks, as the system's does",
            ));
        }
        Ok(Region { address, byte_len: bytes.len() })
    }

    /// Bytes that code only reads, without atomics: any place will do.
    fn read(bytes: &[u8]) -> Region {
        Region { address: bytes.as_ptr() as u64, byte_len: bytes.len() }
    }
}

impl Buffer<'_> {
    fn region(&mut self) -> Result<Region, BackendError> {
        match self {
            Buffer::Borrowed(bytes) => Ok(Region::read(bytes)),
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

fn upload<'a>(
    admission: &Admission,
    inputs: &[&'a [u8]],
    slots: &mut OutputBuffers,
) -> Result<Vec<Buffer<'a>>, BackendError> {
    let _span = tracing::trace_span!("upload").entered();
    let parts = admission.parts();
    let buffer = |plan: &Binding| {
        let slot = plan.output.and_then(|at| slots.get_mut(at));
        let mut storage =
            slot.filter(|slot| slot.capacity() >= plan.byte_len).map(std::mem::take).unwrap_or_default();
        storage.clear();
        match plan.input.map(|input| inputs[input]) {
            Some(bytes) if !parts.buffer(plan.buffer).is_writable() => Ok(Buffer::Borrowed(bytes)),
            Some(bytes) => copy_to(storage, bytes).map(Buffer::Owned),
            None if storage.capacity() > 0 => {
                storage.resize(plan.byte_len, 0);
                Ok(Buffer::Owned(storage))
            }
            None => zeroed(plan.byte_len, "a buffer").map(Buffer::Owned),
        }
    };
    admission.bindings.iter().map(buffer).collect()
}

/// Gives the slots of a dispatch that failed their storage again, empty.
fn give_back(admission: &Admission, buffers: Vec<Buffer<'_>>, slots: &mut OutputBuffers) {
    for (plan, buffer) in admission.bindings.iter().zip(buffers) {
        if let (Some(slot), Buffer::Owned(mut bytes)) = (plan.output.and_then(|at| slots.get_mut(at)), buffer)
            && slot.capacity() == 0
        {
            bytes.clear();
            *slot = bytes;
        }
    }
}

/// The bytes in `copy`, which is empty.
fn copy_to(mut copy: Vec<u8>, bytes: &[u8]) -> Result<Vec<u8>, BackendError> {
    copy.try_reserve_exact(bytes.len()).map_err(|_| BackendError::OutOfMemory {
        what: "a buffer".to_owned(),
        requested_bytes: bytes.len() as u64,
    })?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// How long the parts of a call took.
pub(crate) struct Times {
    pub(crate) wall: Duration,
    pub(crate) enqueued: Duration,
    pub(crate) waited: Duration,
}

/// Resident dispatches to be run one after the other, the second list several times.
pub(crate) struct Sequence<'s> {
    pub(crate) prefix: &'s [ResidentDispatchStep<'s>],
    pub(crate) repeated: &'s [ResidentDispatchStep<'s>],
    pub(crate) count: u32,
}

type Pins = BTreeMap<u64, Pinned<Memory>>;

/// Runs programs on resident buffers, or on bytes that travel with the call and are not written back. What does not change
/// from one launch to the next is done once: pins, locks, admission, pipelines.
pub(crate) fn dispatch_resident(
    backend: &CpuBackend,
    sequence: &Sequence<'_>,
    config: &DispatchConfig,
) -> Result<Times, BackendError> {
    let device = &backend.device;
    let call = device.call()?;
    let watch = Watch::new(device, config, call);
    let steps = || sequence.prefix.iter().chain(sequence.repeated);
    let mut pins = Pins::new();
    for resource in steps().flat_map(|step| step.resources) {
        if let Resource::Resident(handle) = resource
            && !pins.contains_key(handle)
        {
            pins.insert(*handle, device.pin_defined(resource, call.generation)?);
        }
    }
    let ready: Vec<Step<'_>> =
        steps().map(|step| Step::new(backend, step, &pins, config, &watch)).collect::<Result<_, _>>()?;
    // Handles are locked in ascending order, so that dispatches which share buffers cannot wait for each other in a
    // circle.
    let stop = || watch.stop();
    let mut locked = BTreeMap::new();
    for (handle, pinned) in &pins {
        locked.insert(*handle, bytes_unless(pinned, &stop).ok_or_else(|| watch.error())?);
        pinned.check_defined().map_err(|error| device.cause(call.generation, error))?;
    }
    let enqueued = call.start.elapsed();
    let (prefix, repeated) = ready.split_at(sequence.prefix.len());
    let mut launch = |step: &Step<'_>| {
        step.run(backend, &watch, &pins, &mut locked)?;
        record_launch(0, 0);
        Ok::<(), BackendError>(())
    };
    prefix.iter().try_for_each(&mut launch)?;
    if !repeated.is_empty() {
        for _ in 0..sequence.count {
            repeated.iter().try_for_each(&mut launch)?;
        }
    }
    let waited = call.start.elapsed() - enqueued;
    // What was written to a device that is gone is gone too.
    device.still(call.generation)?;
    Ok(Times { wall: call.start.elapsed(), enqueued, waited })
}

/// A resident dispatch made ready.
struct Step<'s> {
    program: &'s Program,
    resources: &'s [Resource],
    config: DispatchConfig,
    byte_lens: Vec<usize>,
    ready: Arc<Ready>,
    /// `None` where the grid comes from a buffer, which an earlier launch may write.
    admission: Option<Admission>,
    /// By binding, whether the program may write it.
    writes: Vec<bool>,
}

type Locked<'p> = BTreeMap<u64, MutexGuard<'p, Bytes>>;

impl<'s> Step<'s> {
    fn new(
        backend: &CpuBackend,
        step: &ResidentDispatchStep<'s>,
        pins: &Pins,
        config: &DispatchConfig,
        watch: &Arc<Watch>,
    ) -> Result<Step<'s>, BackendError> {
        let ResidentDispatchStep { program, resources, grid_override } = *step;
        let config = DispatchConfig { grid_override, ..config.clone() };
        let valid = valid(program, config.workgroup_override)?;
        let byte_len = |resource: &Resource| match resource {
            Resource::Resident(handle) => pins[handle].byte_len(),
            Resource::Borrowed(bytes) => bytes.len(),
        };
        let byte_lens: Vec<usize> = resources.iter().map(byte_len).collect();
        let admission = match indirect(valid.parts()) {
            Some(_) => None,
            None => Some(admit_resident(backend, program, &byte_lens, &config, |_, _| Ok([0; 3]))?),
        };
        let bound = valid.facts().bound.iter();
        let writes: Vec<bool> = bound.map(|id| valid.parts().buffer(*id).is_writable()).collect();
        check_aliases(resources, writes.iter().copied())?;
        let ready = lookup(watch, &valid)?;
        Ok(Step { program, resources, config, byte_lens, ready, admission, writes })
    }

    fn run(
        &self,
        backend: &CpuBackend,
        watch: &Arc<Watch>,
        pins: &Pins,
        locked: &mut Locked<'_>,
    ) -> Result<(), BackendError> {
        let read_now;
        let admission = match &self.admission {
            Some(admission) => admission,
            None => {
                let grid = |at: usize, offset| match &self.resources[at] {
                    Resource::Resident(handle) => Ok(indirect_grid(offset, &locked[handle])),
                    Resource::Borrowed(bytes) => Ok(indirect_grid(offset, bytes)),
                };
                read_now = admit_resident(backend, self.program, &self.byte_lens, &self.config, grid)?;
                &read_now
            }
        };
        let mut travelling = Vec::new();
        for (resource, _) in self.bound().filter(|(_, written)| *written) {
            if let Resource::Borrowed(bytes) = resource {
                travelling.push(copy_to(Vec::new(), bytes)?);
            }
        }
        let mut copies = travelling.iter_mut();
        let mut regions = Vec::with_capacity(self.resources.len());
        for (resource, written) in self.bound() {
            regions.push(match resource {
                Resource::Resident(handle) => Region::of(locked.get_mut(handle).expect("locked above"))?,
                Resource::Borrowed(_) if written => Region::of(copies.next().expect("copied above"))?,
                Resource::Borrowed(bytes) => Region::read(bytes),
            });
        }
        run(watch, admission, &self.ready, &regions).inspect_err(|_| {
            for (resource, written) in self.bound() {
                if let (Resource::Resident(handle), true) = (resource, written) {
                    pins[handle].invalidate();
                }
            }
        })
    }

    /// The resources, and whether the program may write them.
    fn bound(&self) -> impl Iterator<Item = (&'s Resource, bool)> {
        self.resources.iter().zip(self.writes.iter().copied())
    }
}

/// What ends a dispatch early: a lost device, its caller, its timeout.
pub(crate) struct Watch {
    device: Arc<Device>,
    /// The device's life that the dispatch began in.
    generation: u64,
    timeout: Option<Duration>,
    cancel: Option<CancelToken>,
    deadline: Option<Instant>,
}

impl Watch {
    pub(crate) fn new(device: &Arc<Device>, config: &DispatchConfig, call: Call) -> Arc<Watch> {
        let DispatchConfig { timeout, cancel, .. } = config;
        // A limit beyond what the clock can count is none.
        let deadline = timeout.and_then(|limit| call.start.checked_add(limit));
        let (device, cancel) = (Arc::clone(device), cancel.clone());
        Arc::new(Watch { device, generation: call.generation, timeout: *timeout, cancel, deadline })
    }

    fn lost(&self) -> bool {
        !self.device.is_current(self.generation)
    }

    fn cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    pub(crate) fn stop(&self) -> bool {
        self.lost() || self.cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    pub(crate) fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// An error if the call is to end.
    pub(crate) fn check(&self) -> Result<(), BackendError> {
        if self.stop() { Err(self.error()) } else { Ok(()) }
    }

    /// Why [`stop`](Watch::stop) said so.
    pub(crate) fn error(&self) -> BackendError {
        if self.lost() {
            lost()
        } else if self.cancelled() {
            BackendError::Cancelled
        } else {
            BackendError::Timeout { limit: self.timeout.unwrap_or(Duration::ZERO) }
        }
    }
}

/// Runs a program whose buffers lie at `regions`, one for each binding. They must stay there, and be nobody else's, until
/// this returns.
fn run(
    watch: &Arc<Watch>,
    admission: &Admission,
    ready: &Ready,
    regions: &[Region],
) -> Result<(), BackendError> {
    let (plan, segments) = match ready {
        Ready::Whole(pipeline) => return launch(watch, admission.grid, pipeline, regions),
        Ready::Parts { plan, segments } => (plan, segments),
    };
    let sizes = plan.state_sizes(admission)?;
    let what = "what lives across grid barriers";
    let (state, uniform) = (zeroed(sizes.state, what)?, zeroed(sizes.uniform, what)?);
    let mut phases = Phases { watch, admission, plan, segments, regions, sizes, state, uniform };
    plan.run(admission.grid, &mut phases)
}

/// A dispatch of a program with grid barriers: its parts, and what lives across them.
struct Phases<'a> {
    watch: &'a Arc<Watch>,
    admission: &'a Admission,
    plan: &'a Plan,
    segments: &'a [Arc<Pipeline>],
    regions: &'a [Region],
    sizes: StateSizes,
    state: Vec<u8>,
    uniform: Vec<u8>,
}

impl Parts for Phases<'_> {
    fn check(&self) -> Result<(), BackendError> {
        self.watch.check()
    }

    fn launch(&mut self, segment: usize) -> Result<(), BackendError> {
        let mut regions = Vec::new();
        for (bound, _) in self.plan.bound_of(segment, self.admission) {
            regions.push(match bound {
                Bound::Original(at) => self.regions[at],
                Bound::Uniform => Region::read(&self.uniform),
                Bound::State => Region::of(&mut self.state)?,
            });
        }
        launch(self.watch, self.admission.grid, &self.segments[segment], &regions)
            .map_err(|error| self.plan.whole(segment, error))?;
        self.uniform[..self.sizes.copied].copy_from_slice(&self.state[..self.sizes.copied]);
        Ok(())
    }

    fn read_word(&mut self, word: u32) -> Result<u32, BackendError> {
        let bytes = &self.state[word as usize * 4..][..4];
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    fn write_word(&mut self, word: u32, value: u32) -> Result<(), BackendError> {
        for buffer in [&mut self.state, &mut self.uniform] {
            buffer[word as usize * 4..][..4].copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
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
        grid: [u32; 3],
        pipeline: &Arc<Pipeline>,
        regions: &[Region],
        threads: usize,
    ) -> Launch {
        let bytes = context::BUFFERS + context::BUFFER_BYTES * pipeline.buffers as i32;
        // An even number of words more, so that eight-byte entries can be aligned.
        let words: Vec<AtomicU32> = (0..bytes / 4 + 2).map(|_| AtomicU32::new(0)).collect();
        let context: Box<[AtomicU32]> = words.into();
        let put = |at: i32, word: u32| context[(at / 4) as usize].store(word, Ordering::Relaxed);
        put(context::TRAP, NO_TRAP);
        for (axis, count) in grid.iter().enumerate() {
            put(context::GRID + 4 * axis as i32, *count);
        }
        let entry = |buffer: usize, address: u64, len: u32| {
            let at = context::BUFFERS + context::BUFFER_BYTES * buffer as i32;
            put(at, address as u32);
            put(at + 4, (address >> 32) as u32);
            put(at + 8, len);
        };
        for ((buffer, size), region) in pipeline.bound.iter().zip(regions) {
            entry(*buffer, region.address, (region.byte_len / size) as u32);
        }
        for table in &pipeline.tables {
            entry(table.buffer, table.bytes.as_ptr() as u64, table.len);
        }
        let end: u64 = grid.iter().map(|count| u64::from(*count)).product();
        // Many chunks for each thread: the last ones are small against the whole, and threads stay near each other in memory.
        let chunk = (end / (threads as u64 * 64)).clamp(1, 1 << 16);
        let (next, out_of_memory) = (AtomicU64::new(0), AtomicBool::new(false));
        let (pipeline, watch) = (Arc::clone(pipeline), Arc::clone(watch));
        Launch { pipeline, context, next, end, chunk, out_of_memory, watch }
    }

    fn word(&self, at: i32) -> u32 {
        self.context[(at / 4) as usize].load(Ordering::Acquire)
    }

    fn stop(&self) {
        self.context[(context::STOP / 4) as usize].store(1, Ordering::Release);
    }
}

impl Work for Launch {
    fn work(&self, leave: &dyn Fn() -> bool) -> bool {
        Scratch::with(self.pipeline.scratch_bytes, |scratch| {
            let Some(scratch) = scratch else {
                self.out_of_memory.store(true, Ordering::Release);
                self.stop();
                return true;
            };
            while !leave() {
                let first = self.next.fetch_add(self.chunk, Ordering::AcqRel);
                if first >= self.end || self.word(context::STOP) != 0 {
                    return true;
                }
                let end = self.end.min(first + self.chunk);
                let context = self.context.as_ptr() as u64;
                // SAFETY: the pipeline's code is an emitter's. The context lists buffers that `launch`'s caller keeps
                // alive and that nobody else touches until it returns, which it does only when no thread is in here;
                // tables live as long as the pipeline. Only atomics of the context are written. The scratch memory is
                // this thread's, of the size the code asked for.
                unsafe { self.pipeline.code.run(context, scratch, first, end) }
            }
            false
        })
    }
}

impl Watched for Launch {
    fn look(&self) {
        if self.watch.stop() {
            self.stop();
        }
    }
}

/// Runs one launch. As for [`run`].
fn launch(
    watch: &Arc<Watch>,
    grid: [u32; 3],
    pipeline: &Arc<Pipeline>,
    regions: &[Region],
) -> Result<(), BackendError> {
    let device = &watch.device;
    let _span = tracing::trace_span!("launch", ?grid).entered();
    if pipeline.lines == 0 {
        return watch.check();
    }
    let groups: u64 = grid.iter().map(|count| u64::from(*count)).product();
    let lanes = groups * pipeline.group_lanes;
    let small = !pipeline.loops && lanes.saturating_mul(pipeline.lines) < SHARED_WORK_MIN;
    let alone = small || groups <= 1 || device.pool.threads() == 1;
    let threads = if alone { 1 } else { device.pool.threads() };
    watch.check()?;
    let launch = Arc::new(Launch::new(watch, grid, pipeline, regions, threads));
    if !small {
        let watched: Weak<Launch> = Arc::downgrade(&launch);
        device.watcher.watch(watched);
    }
    if alone {
        launch.work(&|| false);
    } else {
        device.pool.run(Arc::clone(&launch) as Arc<dyn Work>);
    }
    device.launches.fetch_add(1, Ordering::Relaxed);
    device.shared_launches.fetch_add(u64::from(!alone), Ordering::Relaxed);
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

/// Outputs with their times.
pub(crate) fn timed(outputs: Vec<Vec<u8>>, times: Times) -> Result<TimedDispatchResult, BackendError> {
    let ns = |time: Duration, what: &str| {
        u64::try_from(time.as_nanos()).map_err(|_| BackendError::ClockOverflow { what: what.to_owned() })
    };
    Ok(TimedDispatchResult {
        outputs,
        wall_ns: ns(times.wall, "the wall time")?,
        // The processor that runs the program is the host's, and so is its clock.
        device_ns: None,
        enqueue_ns: Some(ns(times.enqueued, "the enqueue time")?),
        wait_ns: Some(ns(times.waited, "the wait time")?),
    })
}
