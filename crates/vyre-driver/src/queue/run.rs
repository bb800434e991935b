//! From calls of the contract to submissions.

use super::backend::{QueueBackend, Resident};
use super::{Launch, Queue, Read, Stop, Times, Work};
use crate::admission::{admit, admit_resident, valid};
use crate::config::DispatchConfig;
use crate::defaults;
use crate::error::BackendError;
use crate::grid_sync;
use crate::observability::{record_launch, record_resident_launches};
use crate::resident::{Pinned, check_aliases, check_range_count};
use crate::types::{
    OutputBuffers, ResidentDispatchStep, ResidentReadRange, ResidentSequenceTiming, Resource,
    TimedDispatchResult, unsupported,
};
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::{Admission, indirect, indirect_grid};

/// Runs a program on host bytes. Results go to storage of `slots` where it is large enough, which is taken from there.
pub(super) fn dispatch<Q: Queue>(
    backend: &QueueBackend<Q>,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
    timed: bool,
    slots: &mut OutputBuffers,
) -> Result<TimedDispatchResult, BackendError> {
    let start = Instant::now();
    let (queue, _) = backend.begin()?;
    let admission = admit(backend, program, inputs, config)?;
    let kernel = backend.kernel(&queue, &admission.program, config)?;
    if admission.program.facts().has_grid_sync && !fits(&*queue, &kernel, &admission)? {
        return grid_sync::dispatch(backend, program, inputs, config);
    }
    let host = Host { admission: &admission, inputs, config };
    dispatch_kernel(backend, &queue, kernel, &host, timed, slots, start)
}

/// A launch on host bytes.
pub(super) struct Host<'a> {
    pub(super) admission: &'a Admission,
    pub(super) inputs: &'a [&'a [u8]],
    pub(super) config: &'a DispatchConfig,
}

/// Runs a compiled program on host bytes, in one submission.
pub(super) fn dispatch_kernel<Q: Queue>(
    backend: &QueueBackend<Q>,
    queue: &Q,
    kernel: Arc<Q::Kernel>,
    &Host { admission, inputs, config }: &Host<'_>,
    timed: bool,
    slots: &mut OutputBuffers,
    start: Instant,
) -> Result<TimedDispatchResult, BackendError> {
    let memories: Result<Vec<_>, _> =
        admission.bindings.iter().map(|plan| queue.allocate(plan.byte_len)).collect();
    let memories = memories?;
    let mut outputs = OutputBuffers::new();
    for plan in admission.bindings.iter().filter(|plan| plan.output.is_some()) {
        let slot = slots.get_mut(outputs.len()).filter(|slot| slot.capacity() >= plan.byte_len);
        let mut bytes = slot.map(std::mem::take).unwrap_or_default();
        make_room(&mut bytes, plan.byte_len, "an output")?;
        outputs.push(bytes);
    }
    let mut work = Work { timed, ..Work::none() };
    let mut slots = outputs.iter_mut();
    for (plan, memory) in admission.bindings.iter().zip(&memories) {
        match plan.input {
            None => work.clears.push(memory),
            Some(input) => work.uploads.push((memory, 0, inputs[input])),
        }
        if plan.output.is_some() {
            let out = slots.next().expect("one slot for each output");
            work.reads.push(Read { memory, offset: 0, byte_len: plan.byte_len, out });
        }
    }
    work.launches.extend(launch_of(kernel, admission, memories.iter().collect()));
    let times = queue.submit(work, &Stop::new(config, start))?;
    backend.count(1);
    let input_bytes = inputs.iter().map(|input| input.len() as u64).sum();
    record_launch(input_bytes, outputs.iter().map(|output| output.len() as u64).sum());
    with_times(outputs, start, times)
}

/// Empties what a readback goes to, and gives it the room.
fn make_room(out: &mut Vec<u8>, byte_len: usize, what: &str) -> Result<(), BackendError> {
    out.clear();
    out.try_reserve_exact(byte_len)
        .map_err(|_| BackendError::OutOfMemory { what: what.to_owned(), requested_bytes: byte_len as u64 })
}

/// The launch, unless its grid is empty.
fn launch_of<'a, Q: Queue>(
    kernel: Arc<Q::Kernel>,
    admission: &'a Admission,
    buffers: Vec<&'a Q::Memory>,
) -> Option<Launch<'a, Q>> {
    (!admission.grid.contains(&0)).then(|| Launch { kernel, admission, buffers })
}

/// Whether all workgroups can be on the device at once.
pub(super) fn fits<Q: Queue>(
    queue: &Q,
    kernel: &Q::Kernel,
    admission: &Admission,
) -> Result<bool, BackendError> {
    Ok(admission.workgroups() <= queue.resident_workgroups(kernel, admission.parts().workgroup_lanes())?)
}

fn with_times(
    outputs: OutputBuffers,
    start: Instant,
    times: Times,
) -> Result<TimedDispatchResult, BackendError> {
    let wall = start.elapsed();
    let ns = |time: Duration, what: &str| {
        u64::try_from(time.as_nanos()).map_err(|_| BackendError::ClockOverflow { what: what.to_owned() })
    };
    Ok(TimedDispatchResult {
        outputs,
        wall_ns: ns(wall, "the wall time")?,
        device_ns: times.device_ns,
        enqueue_ns: Some(ns(times.enqueue, "the enqueue time")?),
        wait_ns: Some(ns(wall.saturating_sub(times.enqueue), "the wait time")?),
    })
}

/// A step on resident memory, checked and compiled.
struct Step<Q: Queue> {
    admission: Admission,
    kernel: Arc<Q::Kernel>,
    /// What is bound, by ascending binding.
    bound: Vec<Bound<Q>>,
}

enum Bound<Q: Queue> {
    Resident(Pinned<Resident<Q>>),
    /// Bytes that travel with the call and are not written back.
    Travelling(Q::Memory, Vec<u8>),
}

impl<Q: Queue> Bound<Q> {
    fn memory(&self) -> &Q::Memory {
        match self {
            Bound::Resident(pinned) => &pinned.memory().memory,
            Bound::Travelling(memory, _) => memory,
        }
    }
}

impl<Q: Queue> Step<Q> {
    fn new(
        backend: &QueueBackend<Q>,
        queue: &Q,
        program: &Program,
        resources: &[Resource],
        config: &DispatchConfig,
        stop: &Stop<'_>,
    ) -> Result<Step<Q>, BackendError> {
        let mut bound = Vec::with_capacity(resources.len());
        for resource in resources {
            bound.push(match resource {
                Resource::Resident(_) => Bound::Resident(backend.resident().pin_defined(resource)?),
                Resource::Borrowed(bytes) => Bound::Travelling(queue.allocate(bytes.len())?, bytes.clone()),
            });
        }
        let byte_lens: Vec<usize> = bound
            .iter()
            .map(|bound| match bound {
                Bound::Resident(pinned) => pinned.byte_len(),
                Bound::Travelling(_, bytes) => bytes.len(),
            })
            .collect();
        let admission =
            admit_resident(backend, program, &byte_lens, config, |at, offset| match &bound[at] {
                Bound::Travelling(_, bytes) => Ok(indirect_grid(offset, bytes)),
                Bound::Resident(pinned) => {
                    let start = (offset as usize).saturating_mul(4).min(byte_lens[at]);
                    let byte_len = (byte_lens[at] - start).min(12);
                    let mut bytes = Vec::with_capacity(byte_len);
                    let _lock = Locks::take([(pinned, false)].into_iter(), stop)?;
                    let mut work = Work::none();
                    let memory = &pinned.memory().memory;
                    work.reads.push(Read { memory, offset: start, byte_len, out: &mut bytes });
                    queue.submit(work, stop)?;
                    Ok(indirect_grid(0, &bytes))
                }
            })?;
        let parts = admission.parts();
        let writes = admission.bindings.iter().map(|plan| parts.buffer(plan.buffer).is_writable());
        check_aliases(resources, writes)?;
        let kernel = backend.kernel(queue, &admission.program, config)?;
        if admission.program.facts().has_grid_sync && !fits(queue, &kernel, &admission)? {
            if !backend.about().grid_sync {
                return unsupported(backend, "grid barriers in one resident dispatch");
            }
            let resident = queue.resident_workgroups(&kernel, admission.parts().workgroup_lanes())?;
            let workgroups = admission.workgroups();
            return Err(BackendError::CooperativeResidencyExceeded { workgroups, resident });
        }
        Ok(Step { admission, kernel, bound })
    }

    fn launch(&self) -> Option<Launch<'_, Q>> {
        let buffers = self.bound.iter().map(Bound::memory).collect();
        launch_of(Arc::clone(&self.kernel), &self.admission, buffers)
    }

    /// The resident memory, and whether the step may write it.
    fn pins(&self) -> impl Iterator<Item = (&Pinned<Resident<Q>>, bool)> {
        let parts = self.admission.parts();
        self.bound.iter().zip(&self.admission.bindings).filter_map(move |(bound, plan)| match bound {
            Bound::Resident(pinned) => Some((pinned, parts.buffer(plan.buffer).is_writable())),
            Bound::Travelling(..) => None,
        })
    }

    fn travelling(&self) -> impl Iterator<Item = (&Q::Memory, usize, &[u8])> {
        self.bound.iter().filter_map(|bound| match bound {
            Bound::Resident(_) => None,
            Bound::Travelling(memory, bytes) => Some((memory, 0, bytes.as_slice())),
        })
    }
}

/// The locks of resident memory: many may read it, or one may write it.
#[allow(dead_code)] // Held, not looked at.
pub(super) enum Lock<'a> {
    Read(RwLockReadGuard<'a, ()>),
    Write(RwLockWriteGuard<'a, ()>),
}

pub(super) struct Locks;

impl Locks {
    /// Locks in ascending order of handles, so that nobody waits in a circle; what is to be read must be defined then.
    pub(super) fn take<'a, Q: Queue>(
        pins: impl Iterator<Item = (&'a Pinned<Resident<Q>>, bool)>,
        stop: &Stop<'_>,
    ) -> Result<Vec<Lock<'a>>, BackendError> {
        let mut wanted: Vec<(&Pinned<Resident<Q>>, bool)> = pins.collect();
        // Those that are written come first, and stand for all of the same handle.
        wanted.sort_unstable_by_key(|(pinned, writes)| (pinned.handle(), !writes));
        wanted.dedup_by_key(|(pinned, _)| pinned.handle());
        wanted.into_iter().map(|(pinned, writes)| lock(pinned, writes, stop)).collect()
    }
}

fn lock<'a, Q: Queue>(
    pinned: &'a Pinned<Resident<Q>>,
    writes: bool,
    stop: &Stop<'_>,
) -> Result<Lock<'a>, BackendError> {
    let using = &pinned.memory().using;
    loop {
        // Nothing is behind the lock that a panic could have left half done.
        let taken = match writes {
            true => match using.try_write() {
                Ok(guard) => Some(Lock::Write(guard)),
                Err(TryLockError::Poisoned(guard)) => Some(Lock::Write(guard.into_inner())),
                Err(TryLockError::WouldBlock) => None,
            },
            false => match using.try_read() {
                Ok(guard) => Some(Lock::Read(guard)),
                Err(TryLockError::Poisoned(guard)) => Some(Lock::Read(guard.into_inner())),
                Err(TryLockError::WouldBlock) => None,
            },
        };
        if let Some(lock) = taken {
            return Ok(lock);
        }
        if let Some(reason) = stop.reason() {
            return Err(reason);
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// Runs a program on resident memory.
pub(super) fn dispatch_resident<Q: Queue>(
    backend: &QueueBackend<Q>,
    program: &Program,
    resources: &[Resource],
    config: &DispatchConfig,
    timed: bool,
) -> Result<TimedDispatchResult, BackendError> {
    let start = Instant::now();
    let stop = Stop::new(config, start);
    let (queue, generation) = backend.begin()?;
    let times = Step::new(backend, &queue, program, resources, config, &stop)
        .and_then(|step| run(backend, &queue, [&[step], &[]], 0, Vec::new(), &stop, timed))
        .map_err(|error| backend.cause(generation, error))?;
    backend.still(generation)?;
    with_times(OutputBuffers::new(), start, times)
}

/// A range that is read back into all of its slice.
type ReadBack<'a, 'r, Q> = (&'a Pinned<Resident<Q>>, &'a ResidentReadRange<'r>, &'a mut Vec<u8>);

/// Submits steps. If they fail, what they may have written is undefined.
fn run<'a, Q: Queue>(
    backend: &QueueBackend<Q>,
    queue: &Q,
    [steps, repeated]: [&'a [Step<Q>]; 2],
    repeat_count: u32,
    reads: Vec<ReadBack<'a, '_, Q>>,
    stop: &Stop<'_>,
    timed: bool,
) -> Result<Times, BackendError> {
    let all = || steps.iter().chain(repeated);
    let read_pins = reads.iter().map(|(pinned, ..)| (*pinned, false));
    let _locks = Locks::take(all().flat_map(Step::pins).chain(read_pins), stop)?;
    // A dispatch that held them until now may have failed.
    for (pinned, _) in all().flat_map(Step::pins).chain(reads.iter().map(|(pinned, ..)| (*pinned, false))) {
        pinned.check_defined()?;
    }
    let launched = steps.len() as u64 + repeated.len() as u64 * u64::from(repeat_count);
    let work = Work {
        clears: Vec::new(),
        uploads: all().flat_map(Step::travelling).collect(),
        launches: steps.iter().filter_map(Step::launch).collect(),
        repeated: repeated.iter().filter_map(Step::launch).collect(),
        repeat_count,
        timed,
        reads: reads
            .into_iter()
            .map(|(pinned, &ResidentReadRange { byte_offset, byte_len, .. }, out)| Read {
                memory: &pinned.memory().memory,
                offset: byte_offset,
                byte_len,
                out,
            })
            .collect(),
    };
    let result = queue.submit(work, stop);
    match &result {
        Ok(_) => {
            backend.count(launched);
            record_resident_launches(launched);
        }
        Err(_) => {
            all()
                .flat_map(Step::pins)
                .filter(|(_, writes)| *writes)
                .for_each(|(pinned, _)| pinned.invalidate());
        }
    }
    result
}

/// Runs steps, then others again and again, and reads ranges: in one submission where no step needs the host's attention.
pub(super) fn sequence<Q: Queue>(
    backend: &QueueBackend<Q>,
    [prefix, repeated]: [&[ResidentDispatchStep<'_>]; 2],
    repeat_count: u32,
    ranges: &[ResidentReadRange<'_>],
    outputs: &mut [&mut Vec<u8>],
    timed: bool,
) -> Result<ResidentSequenceTiming, BackendError> {
    check_range_count(ranges.len(), outputs.len())?;
    let start = Instant::now();
    let repeated = if repeat_count == 0 { &[] } else { repeated };
    if prefix.iter().chain(repeated).any(needs_host) {
        return step_by_step(backend, [prefix, repeated], repeat_count, ranges, outputs);
    }
    let (queue, generation) = backend.begin()?;
    let times = sequence_on(backend, &queue, [prefix, repeated], repeat_count, ranges, outputs, timed)
        .map_err(|error| backend.cause(generation, error))?;
    backend.still(generation)?;
    let times = with_times(OutputBuffers::new(), start, times)?;
    let TimedDispatchResult { wall_ns, device_ns, enqueue_ns, wait_ns, .. } = times;
    Ok(ResidentSequenceTiming { wall_ns, device_ns, enqueue_ns, wait_ns })
}

fn sequence_on<Q: Queue>(
    backend: &QueueBackend<Q>,
    queue: &Q,
    [prefix, repeated]: [&[ResidentDispatchStep<'_>]; 2],
    repeat_count: u32,
    ranges: &[ResidentReadRange<'_>],
    outputs: &mut [&mut Vec<u8>],
    timed: bool,
) -> Result<Times, BackendError> {
    let stop = Stop::never();
    let prepare = |step: &ResidentDispatchStep<'_>| {
        let config = DispatchConfig { grid_override: step.grid_override, ..DispatchConfig::default() };
        Step::new(backend, queue, step.program, step.resources, &config, &stop)
    };
    let prefix: Result<Vec<_>, _> = prefix.iter().map(prepare).collect();
    let repeated: Result<Vec<_>, _> = repeated.iter().map(prepare).collect();
    let (prefix, repeated) = (prefix?, repeated?);
    let mut pins = Vec::with_capacity(ranges.len());
    for (range, out) in ranges.iter().zip(outputs.iter_mut()) {
        let pinned = backend.resident().pin_defined(range.resource)?;
        pinned.check_range(range.byte_offset, range.byte_len)?;
        make_room(out, range.byte_len, "a readback")?;
        pins.push(pinned);
    }
    let reads = pins.iter().zip(ranges).zip(outputs.iter_mut());
    let reads = reads.map(|((pinned, range), out)| (pinned, range, &mut **out)).collect();
    run(backend, queue, [&prefix, &repeated], repeat_count, reads, &stop, timed)
}

/// A trap must end the sequence, an indirect grid is read when its step's turn has come, and bytes that travel are fresh
/// for each turn.
fn needs_host(step: &ResidentDispatchStep<'_>) -> bool {
    // What is not valid is refused either way.
    valid(step.program, None).is_ok_and(|program| program.facts().traps)
        || indirect(step.program.parts()).is_some()
        || step.resources.iter().any(|resource| matches!(resource, Resource::Borrowed(_)))
}

fn step_by_step<Q: Queue>(
    backend: &QueueBackend<Q>,
    [prefix, repeated]: [&[ResidentDispatchStep<'_>]; 2],
    repeat_count: u32,
    ranges: &[ResidentReadRange<'_>],
    outputs: &mut [&mut Vec<u8>],
) -> Result<ResidentSequenceTiming, BackendError> {
    let turns = prefix.iter().chain((0..repeat_count).flat_map(|_| repeated));
    defaults::steps_read_ranges_timed_into(backend, turns, ranges, outputs)
}
