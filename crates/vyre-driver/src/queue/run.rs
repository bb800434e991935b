//! From calls of the contract to submissions.

use super::backend::{QueueBackend, Resident};
use super::{About, Launch, Operand, Queue, Read, Stop, Times, Work};
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
use std::cell::Cell;
use std::sync::{Arc, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::{Admission, Binding, indirect, indirect_grid};

/// Runs a program on host bytes. Results go to storage of `slots` where it is large enough, which is taken from there.
pub(super) fn dispatch<Q: Queue>(
    backend: &QueueBackend<Q>,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
    (start, timed): (Instant, bool),
    slots: &mut OutputBuffers,
) -> Result<TimedDispatchResult, BackendError> {
    let (queue, _) = backend.begin()?;
    let admission = admit(backend, program, inputs, config)?;
    let stop = Stop::new(config, start);
    let host = Host { admission: &admission, inputs, timed, start, stop: &stop };
    let compile = || backend.kernel(&queue, &admission.program, &stop);
    match whole(backend, &*queue, &admission, compile)? {
        Some(kernel) => dispatch_kernel(backend, &queue, kernel, &host, slots),
        None => grid_sync::dispatch(backend, program, inputs, config),
    }
}

/// A launch on host bytes.
pub(super) struct Host<'a> {
    pub(super) admission: &'a Admission,
    pub(super) inputs: &'a [&'a [u8]],
    pub(super) timed: bool,
    pub(super) start: Instant,
    pub(super) stop: &'a Stop,
}

/// Runs a compiled program on host bytes, in one submission.
pub(super) fn dispatch_kernel<Q: Queue>(
    backend: &QueueBackend<Q>,
    queue: &Q,
    kernel: Arc<Q::Kernel>,
    host: &Host<'_>,
    slots: &mut OutputBuffers,
) -> Result<TimedDispatchResult, BackendError> {
    let (outputs, times) = match Q::IN_PLACE {
        true => in_place(queue, kernel, host, slots)?,
        false => by_copies(queue, kernel, host, slots)?,
    };
    backend.count(1);
    let input_bytes = host.inputs.iter().map(|input| input.len() as u64).sum();
    record_launch(input_bytes, outputs.iter().map(|output| output.len() as u64).sum());
    with_times(outputs, host.start, times)
}

/// Uploads the inputs, launches, and reads the outputs back.
fn by_copies<Q: Queue>(
    queue: &Q,
    kernel: Arc<Q::Kernel>,
    &Host { admission, inputs, timed, stop, .. }: &Host<'_>,
    slots: &mut OutputBuffers,
) -> Result<(OutputBuffers, Times), BackendError> {
    let memories: Result<Vec<_>, _> =
        admission.bindings.iter().map(|plan| queue.allocate(plan.byte_len)).collect();
    let memories = memories?;
    let mut outputs = OutputBuffers::new();
    for plan in &admission.bindings {
        if plan.output.is_some() {
            let mut bytes = take_slot(plan, slots);
            make_room(&mut bytes, plan.byte_len, "an output")?;
            outputs.push(bytes);
        }
    }
    let mut work = Work { timed, ..Work::none() };
    let mut to = outputs.iter_mut();
    for (plan, memory) in admission.bindings.iter().zip(&memories) {
        match plan.input {
            None => work.clears.push(memory),
            Some(input) => work.uploads.push((memory, 0, inputs[input])),
        }
        if plan.output.is_some() {
            let out = to.next().expect("one slot for each output");
            work.reads.push(Read { memory, offset: 0, byte_len: plan.byte_len, out });
        }
    }
    work.launches.extend(launch_of(kernel, admission, memories.iter().map(Operand::Memory).collect()));
    match queue.submit(work, stop) {
        Ok(times) => Ok((outputs, times)),
        Err(error) => {
            give_back(outputs, slots);
            Err(error)
        }
    }
}

/// Launches on the caller's bytes where they are. Only what the program may write is copied, to where the outputs are wanted.
fn in_place<Q: Queue>(
    queue: &Q,
    kernel: Arc<Q::Kernel>,
    &Host { admission, inputs, timed, start, stop }: &Host<'_>,
    slots: &mut OutputBuffers,
) -> Result<(OutputBuffers, Times), BackendError> {
    let parts = admission.parts();
    // By binding: bytes of the dispatch's own, or nothing where the caller's are only read.
    let mut own = Vec::with_capacity(admission.bindings.len());
    let span = tracing::trace_span!("upload").entered();
    for plan in &admission.bindings {
        let input = plan.input.map(|input| inputs[input]);
        let is_read = input.is_some() && !parts.buffer(plan.buffer).is_writable();
        own.push(if is_read { None } else { Some(own_bytes(queue, plan, input, slots)?) });
    }
    drop(span);
    let enqueue = start.elapsed();
    let mut buffers = Vec::with_capacity(own.len());
    for (bytes, plan) in own.iter_mut().zip(&admission.bindings) {
        buffers.push(match (bytes, plan.input) {
            (Some(bytes), _) => Operand::Write(Cell::from_mut(&mut bytes[..]).as_slice_of_cells()),
            (None, input) => Operand::Read(inputs[input.expect("what is read has an input")]),
        });
    }
    let mut work = Work { timed, ..Work::none() };
    work.launches.extend(launch_of(kernel, admission, buffers));
    let result = queue.submit(work, stop);
    let _span = tracing::trace_span!("readback").entered();
    let own = own.into_iter().zip(&admission.bindings).filter(|(_, plan)| plan.output.is_some());
    let outputs = own.map(|(bytes, _)| bytes.expect("outputs are written"));
    match result {
        Ok(times) => Ok((outputs.collect(), Times { enqueue, ..times })),
        Err(error) => {
            give_back(outputs, slots);
            Err(error)
        }
    }
}

/// Gives the slots their storage again, empty.
fn give_back(outputs: impl IntoIterator<Item = Vec<u8>>, slots: &mut OutputBuffers) {
    for (mut bytes, slot) in outputs.into_iter().zip(slots) {
        if slot.capacity() == 0 {
            bytes.clear();
            *slot = bytes;
        }
    }
}

/// Bytes that the program may write: a copy of the input, or zeros; in storage of the output's slot if that is large enough.
fn own_bytes<Q: Queue>(
    queue: &Q,
    plan: &Binding,
    input: Option<&[u8]>,
    slots: &mut OutputBuffers,
) -> Result<Vec<u8>, BackendError> {
    let mut bytes = take_slot(plan, slots);
    match input {
        Some(input) => {
            make_room(&mut bytes, input.len(), "a buffer")?;
            bytes.extend_from_slice(input);
        }
        None if bytes.capacity() == 0 => return queue.zeroed(plan.byte_len),
        None => {
            bytes.clear();
            bytes.resize(plan.byte_len, 0);
        }
    }
    Ok(bytes)
}

/// The storage of an output's slot, if it is large enough.
fn take_slot(plan: &Binding, slots: &mut OutputBuffers) -> Vec<u8> {
    let slot = plan.output.and_then(|at| slots.get_mut(at));
    slot.filter(|slot| slot.capacity() >= plan.byte_len).map(std::mem::take).unwrap_or_default()
}

/// Empties what a readback goes to, and gives it the room.
pub(super) fn make_room(out: &mut Vec<u8>, byte_len: usize, what: &str) -> Result<(), BackendError> {
    out.clear();
    out.try_reserve_exact(byte_len)
        .map_err(|_| BackendError::OutOfMemory { what: what.to_owned(), requested_bytes: byte_len as u64 })
}

/// The launch, unless its grid is empty.
fn launch_of<'a, Q: Queue>(
    kernel: Arc<Q::Kernel>,
    admission: &'a Admission,
    buffers: Vec<Operand<'a, Q>>,
) -> Option<Launch<'a, Q>> {
    (!admission.grid.contains(&0)).then(|| Launch { kernel, admission, buffers })
}

/// The kernel of a launch that runs as a whole; `None` if it has grid barriers, and not all of its workgroups can be on the
/// device at once.
pub(super) fn whole<Q: Queue>(
    backend: &QueueBackend<Q>,
    queue: &Q,
    admission: &Admission,
    compile: impl FnOnce() -> Result<Arc<Q::Kernel>, BackendError>,
) -> Result<Option<Arc<Q::Kernel>>, BackendError> {
    if !admission.program.facts().has_grid_sync {
        return compile().map(Some);
    }
    let workgroups = admission.workgroups();
    // No kernel of this device has room for more, so it is not compiled to find that out.
    if workgroups > backend.about().resident_workgroups_max {
        return Ok(None);
    }
    let kernel = compile()?;
    let resident = queue.resident_workgroups(&kernel, admission.parts().workgroup_lanes())?;
    Ok((workgroups <= resident).then_some(kernel))
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
struct Step<'s, Q: Queue> {
    admission: Admission,
    kernel: Arc<Q::Kernel>,
    /// What is bound, by ascending binding.
    bound: Vec<Bound<'s, Q>>,
}

enum Bound<'s, Q: Queue> {
    Resident(Pinned<Resident<Q>>),
    /// Bytes that travel with the call and are not written back.
    Travelling(Q::Memory, &'s [u8]),
    /// Such bytes where they are: the step only reads them.
    InPlace(&'s [u8]),
}

impl<Q: Queue> Bound<'_, Q> {
    fn operand(&self) -> Operand<'_, Q> {
        match self {
            Bound::Resident(pinned) => Operand::Memory(&pinned.memory().memory),
            Bound::Travelling(memory, _) => Operand::Memory(memory),
            Bound::InPlace(bytes) => Operand::Read(bytes),
        }
    }

    fn byte_len(&self) -> usize {
        match self {
            Bound::Resident(pinned) => pinned.byte_len(),
            Bound::Travelling(_, bytes) | Bound::InPlace(bytes) => bytes.len(),
        }
    }
}

impl<'s, Q: Queue> Step<'s, Q> {
    fn new(
        backend: &QueueBackend<Q>,
        queue: &Q,
        program: &Program,
        resources: &'s [Resource],
        config: &DispatchConfig,
        stop: &Stop,
    ) -> Result<Step<'s, Q>, BackendError> {
        let mut bound = Vec::with_capacity(resources.len());
        for (at, resource) in resources.iter().enumerate() {
            bound.push(match resource {
                Resource::Resident(_) => Bound::Resident(backend.resident().pin_defined(resource)?),
                Resource::Borrowed(bytes) if Q::IN_PLACE && !writes(program, config, at) => {
                    Bound::InPlace(bytes)
                }
                Resource::Borrowed(bytes) => Bound::Travelling(queue.allocate(bytes.len())?, bytes),
            });
        }
        let byte_lens: Vec<usize> = bound.iter().map(Bound::byte_len).collect();
        let admission =
            admit_resident(backend, program, &byte_lens, config, |at, offset| match &bound[at] {
                Bound::Travelling(_, bytes) | Bound::InPlace(bytes) => Ok(indirect_grid(offset, bytes)),
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
        let compile = || backend.kernel(queue, &admission.program, stop);
        let Some(kernel) = whole(backend, queue, &admission, compile)? else {
            let About { grid_sync, resident_workgroups_max, .. } = backend.about();
            if !grid_sync {
                return unsupported(backend, "grid barriers in one resident dispatch");
            }
            let kernel = backend.kernel(queue, &admission.program, stop)?;
            let resident = queue.resident_workgroups(&kernel, admission.parts().workgroup_lanes())?;
            let (workgroups, resident) = (admission.workgroups(), resident.min(*resident_workgroups_max));
            return Err(BackendError::CooperativeResidencyExceeded { workgroups, resident });
        };
        Ok(Step { admission, kernel, bound })
    }

    fn launch(&self) -> Option<Launch<'_, Q>> {
        let buffers = self.bound.iter().map(Bound::operand).collect();
        launch_of(Arc::clone(&self.kernel), &self.admission, buffers)
    }

    /// The resident memory, and whether the step may write it.
    fn pins(&self) -> impl Iterator<Item = (&Pinned<Resident<Q>>, bool)> {
        let parts = self.admission.parts();
        self.bound.iter().zip(&self.admission.bindings).filter_map(move |(bound, plan)| match bound {
            Bound::Resident(pinned) => Some((pinned, parts.buffer(plan.buffer).is_writable())),
            Bound::Travelling(..) | Bound::InPlace(_) => None,
        })
    }

    fn travelling(&self) -> impl Iterator<Item = (&Q::Memory, usize, &[u8])> {
        self.bound.iter().filter_map(|bound| match bound {
            Bound::Resident(_) | Bound::InPlace(_) => None,
            Bound::Travelling(memory, bytes) => Some((memory, 0, *bytes)),
        })
    }
}

/// Whether a program may write the buffer that is bound at a place. Admission refuses what is not valid.
fn writes(program: &Program, config: &DispatchConfig, at: usize) -> bool {
    let Ok(valid) = valid(program, config.workgroup_override) else { return true };
    valid.facts().bound.get(at).is_none_or(|id| valid.parts().buffer(*id).is_writable())
}

/// The locks of resident memory: many may read it, or one may write it.
#[allow(dead_code)] // Held, not looked at.
pub(super) enum Lock<'a> {
    Read(RwLockReadGuard<'a, ()>),
    Write(RwLockWriteGuard<'a, ()>),
}

pub(super) struct Locks;

impl Locks {
    /// Locks in ascending order of handles, so that no two callers wait for each other; what is to be read must be defined then.
    pub(super) fn take<'a, Q: Queue>(
        pins: impl Iterator<Item = (&'a Pinned<Resident<Q>>, bool)>,
        stop: &Stop,
    ) -> Result<Vec<Lock<'a>>, BackendError> {
        let mut wanted: Vec<(&Pinned<Resident<Q>>, bool)> = pins.collect();
        // Those that are written come first, and each replaces the others of its handle.
        wanted.sort_unstable_by_key(|(pinned, writes)| (pinned.handle(), !writes));
        wanted.dedup_by_key(|(pinned, _)| pinned.handle());
        wanted.into_iter().map(|(pinned, writes)| lock(pinned, writes, stop)).collect()
    }
}

fn lock<'a, Q: Queue>(
    pinned: &'a Pinned<Resident<Q>>,
    writes: bool,
    stop: &Stop,
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
    [steps, repeated]: [&'a [Step<'_, Q>]; 2],
    repeat_count: u32,
    reads: Vec<ReadBack<'a, '_, Q>>,
    stop: &Stop,
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

fn sequence_on<'s, Q: Queue>(
    backend: &QueueBackend<Q>,
    queue: &Q,
    [prefix, repeated]: [&[ResidentDispatchStep<'s>]; 2],
    repeat_count: u32,
    ranges: &[ResidentReadRange<'_>],
    outputs: &mut [&mut Vec<u8>],
    timed: bool,
) -> Result<Times, BackendError> {
    let stop = Stop::never();
    let prepare = |step: &ResidentDispatchStep<'s>| {
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
    // Both paths refuse what is not valid.
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
