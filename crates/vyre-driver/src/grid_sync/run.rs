//! Runs a split program: the host follows the plan, and the parts run as dispatches.

use super::plan::{Layout, Plan, Scalar, Step, split, trap_places};
use crate::admission::{admit, admit_resident, valid};
use crate::backend::VyreBackend;
use crate::config::DispatchConfig;
use crate::defaults::elapsed_ns;
use crate::error::BackendError;
use crate::observability::fill_output_slots;
use crate::pipeline::{PipelineCache, PipelineKey};
use crate::resident::check_range_count;
use crate::types::{
    CompiledPipeline, OutputBuffers, ResidentReadRange, Resource, TimedDispatchResult, unsupported,
};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::Program;
use vyre_foundation::launch::{self, Admission};
use vyre_foundation::opt::Pass;
use vyre_foundation::validate::ValidProgram;

/// Runs a program by the best strategy that the backend has for its grid barriers.
pub fn dispatch(
    backend: &dyn VyreBackend,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<TimedDispatchResult, BackendError> {
    if is_native(backend, program, inputs, config)? {
        return backend.dispatch_borrowed_timed(program, inputs, config);
    }
    let admission = admit(backend, program, inputs, config)?;
    let plan = plan(&admission.program)?;
    dispatch_parts(backend, &plan, &admission, inputs, config)
}

/// Whether the backend runs a program as a whole: it has no grid barriers, or native ones serve this launch.
fn is_native(
    backend: &dyn VyreBackend,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<bool, BackendError> {
    let has_grid_sync = valid(program, config.workgroup_override)?.facts().has_grid_sync;
    Ok(!has_grid_sync
        || backend.supports_grid_sync() && backend.cooperative_grid_sync_fits(program, inputs, config)?)
}

/// An admitted launch, compiled for its backend.
pub enum Compiled {
    /// As a whole. `None` where the backend has no pipelines.
    Whole(Option<Arc<dyn CompiledPipeline>>),
    /// As the parts between the grid barriers. The pipelines hold what was compiled.
    Parts(Arc<Plan>, Vec<Option<Arc<dyn CompiledPipeline>>>),
}

/// Compiles an admitted launch: as a whole, or as parts where the backend has no native grid barriers for it.
pub fn compile(
    backend: &dyn VyreBackend,
    admission: &Admission,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<Compiled, BackendError> {
    let program = admission.program.program();
    let config = DispatchConfig { workgroup_override: None, ..config.clone() };
    if is_native(backend, program, inputs, &config)? {
        return backend.compile_native(program, &config).map(Compiled::Whole);
    }
    let plan = plan(&admission.program)?;
    let compile = |segment: &Program| backend.compile_native(segment, &config);
    let pipelines = plan.segments.iter().map(compile).collect::<Result<_, _>>()?;
    Ok(Compiled::Parts(plan, pipelines))
}

impl Compiled {
    /// Runs the launch that was compiled.
    pub fn dispatch(
        &self,
        backend: &dyn VyreBackend,
        admission: &Admission,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        match self {
            Compiled::Whole(Some(pipeline)) => {
                let config = DispatchConfig { workgroup_override: None, ..config.clone() };
                pipeline.dispatch_admitted(admission, inputs, &config)
            }
            Compiled::Whole(None) => {
                backend.dispatch_borrowed_timed(admission.program.program(), inputs, config)
            }
            Compiled::Parts(plan, _) => dispatch_parts(backend, plan, admission, inputs, config),
        }
    }
}

fn dispatch_parts(
    backend: &dyn VyreBackend,
    plan: &Plan,
    admission: &Admission,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<TimedDispatchResult, BackendError> {
    let start = Instant::now();
    let outputs = if backend.supports_resident_dispatch() {
        through_resident(backend, plan, admission, inputs, config)?
    } else if backend.allows_host_grid_sync_split() {
        through_host(backend, plan, admission, inputs, config)?
    } else {
        return unsupported(backend, "grid barriers (natively, resident, or split by the host)");
    };
    // Several launches share the time, so only the wall's is known.
    Ok(TimedDispatchResult { outputs, wall_ns: elapsed_ns(start)?, ..TimedDispatchResult::default() })
}

/// Runs a program as parts between its grid barriers, each an ordinary dispatch; buffers go to and fro.
pub fn dispatch_with_grid_sync_split_into(
    backend: &dyn VyreBackend,
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
    outputs: &mut OutputBuffers,
) -> Result<(), BackendError> {
    let admission = admit(backend, program, inputs, config)?;
    let plan = plan(&admission.program)?;
    fill_output_slots(through_host(backend, &plan, &admission, inputs, config)?, outputs);
    Ok(())
}

fn through_host(
    backend: &dyn VyreBackend,
    plan: &Plan,
    admission: &Admission,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<OutputBuffers, BackendError> {
    let mut buffers = Vec::with_capacity(admission.bindings.len());
    for binding in &admission.bindings {
        let mut bytes = zeroed(binding.byte_len, "a buffer of the split program")?;
        if let Some(input) = binding.input {
            bytes.copy_from_slice(inputs[input]);
        }
        buffers.push(bytes);
    }
    let sizes = plan.state_sizes(admission)?;
    let mut parts = HostParts {
        launcher: Launcher { backend, plan, admission, pace: Pace::new(config) },
        buffers,
        state: zeroed(sizes.state, "the state of the split program")?,
        uniform: zeroed(sizes.uniform, "the state of the split program")?,
        uniform_bytes: sizes.copied,
    };
    plan.run(admission.grid, &mut parts)?;
    let results = admission.bindings.iter().zip(parts.buffers);
    Ok(results.filter(|(binding, _)| binding.output.is_some()).map(|(_, bytes)| bytes).collect())
}

/// How often a program runs over the same resident buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixpoint {
    /// Passes at most.
    pub passes_max: u32,
    /// A u32 that the program sets to nonzero when it changed something: its resource's place and byte offset.
    /// It is set to zero before each pass, and a pass that leaves it zero is the last. `None` runs every pass.
    pub changed: Option<(usize, usize)>,
}

impl Fixpoint {
    /// One pass.
    pub const ONCE: Fixpoint = Fixpoint { passes_max: 1, changed: None };
}

/// Runs a program, split at its grid barriers, on buffers that stay on the device, until it changes nothing more; then
/// reads ranges. Returns the number of passes.
pub fn dispatch_resident_grid_sync_fixpoint_into(
    backend: &dyn VyreBackend,
    program: &Program,
    resources: &[Resource],
    config: &DispatchConfig,
    fixpoint: Fixpoint,
    read_ranges: &[ResidentReadRange<'_>],
    outputs: &mut [&mut Vec<u8>],
) -> Result<u32, BackendError> {
    check_range_count(read_ranges.len(), outputs.len())?;
    let byte_lens: Result<Vec<_>, _> =
        resources.iter().map(|resource| backend.resident_byte_len(resource)).collect();
    let admission = admit_resident(backend, program, &byte_lens?, config, |at, offset| {
        // Elements out of bounds read 0.
        let byte_len = backend.resident_byte_len(&resources[at])?;
        let start = (offset as usize).saturating_mul(4).min(byte_len);
        let bytes = backend.download_resident_range(&resources[at], start, (byte_len - start).min(12))?;
        Ok(launch::indirect_grid(0, &bytes))
    })?;
    let plan = plan(&admission.program)?;
    let reads = Reads { ranges: read_ranges, outputs };
    run_fixpoint(backend, &plan, &admission, resources, config, fixpoint, reads)
}

/// What is read when a fixpoint is reached.
struct Reads<'a, 'r, 'o> {
    ranges: &'a [ResidentReadRange<'r>],
    outputs: &'a mut [&'o mut Vec<u8>],
}

fn run_fixpoint(
    backend: &dyn VyreBackend,
    plan: &Plan,
    admission: &Admission,
    resources: &[Resource],
    config: &DispatchConfig,
    fixpoint: Fixpoint,
    reads: Reads<'_, '_, '_>,
) -> Result<u32, BackendError> {
    let sizes = plan.state_sizes(admission)?;
    let state = Allocation::new(backend, sizes.state)?;
    let uniform = Allocation::new(backend, sizes.uniform)?;
    let mut parts = ResidentParts {
        launcher: Launcher { backend, plan, admission, pace: Pace::new(config) },
        resources,
        state: &state.resource,
        uniform: &uniform.resource,
        uniform_bytes: sizes.copied,
    };
    let flag = match fixpoint.changed {
        Some((at, offset)) => Some((resource_at(resources, at)?, offset)),
        None => None,
    };
    let mut passes = 0;
    while passes < fixpoint.passes_max {
        if let Some((resource, offset)) = flag {
            backend.upload_resident_at(resource, offset, &[0; 4])?;
        }
        if passes > 0 && plan.layout.group_memory_words > 0 {
            // Workgroup memory starts each pass at zero.
            backend.upload_resident(&state.resource, &zeroed(sizes.state, "a cleared state")?)?;
        }
        plan.run(admission.grid, &mut parts).inspect_err(|_| invalidate(backend, admission, resources))?;
        passes += 1;
        if let Some((resource, offset)) = flag
            && backend.download_resident_range(resource, offset, 4)? == [0; 4]
        {
            break;
        }
    }
    let ranges = reads.ranges.iter().map(|range| (range.resource, range.byte_offset, range.byte_len));
    let ranges: Vec<_> = ranges.collect();
    backend.download_resident_ranges_into(&ranges, reads.outputs)?;
    state.free()?;
    uniform.free()?;
    Ok(passes)
}

/// A program that failed leaves nothing it could write defined, whichever of its parts wrote it.
fn invalidate(backend: &dyn VyreBackend, admission: &Admission, resources: &[Resource]) {
    let parts = admission.parts();
    for (plan, resource) in admission.bindings.iter().zip(resources) {
        if parts.buffer(plan.buffer).is_writable() {
            // The run's own error is returned; a second one could only hide it.
            let _ = backend.invalidate_resident(resource);
        }
    }
}

fn resource_at(resources: &[Resource], at: usize) -> Result<&Resource, BackendError> {
    resources.get(at).ok_or_else(|| BackendError::InvalidLaunch {
        message: format!("the fixpoint's flag is in resource {at} of {}", resources.len()),
        fix: "name one of the bound resources by its place".to_owned(),
    })
}

/// The whole detour through resident memory for a caller who has host bytes.
fn through_resident(
    backend: &dyn VyreBackend,
    plan: &Plan,
    admission: &Admission,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<OutputBuffers, BackendError> {
    let mut buffers = Vec::with_capacity(admission.bindings.len());
    for binding in &admission.bindings {
        let buffer = Allocation::new(backend, binding.byte_len)?;
        if let Some(input) = binding.input {
            backend.upload_resident(&buffer.resource, inputs[input])?;
        }
        buffers.push(buffer);
    }
    let resources: Vec<Resource> = buffers.iter().map(|buffer| buffer.resource.clone()).collect();
    let wanted: Vec<_> = admission
        .bindings
        .iter()
        .zip(&resources)
        .filter(|(binding, _)| binding.output.is_some())
        .map(|(binding, resource)| ResidentReadRange { resource, byte_offset: 0, byte_len: binding.byte_len })
        .collect();
    let mut results = vec![Vec::new(); wanted.len()];
    let mut slots: Vec<&mut Vec<u8>> = results.iter_mut().collect();
    let reads = Reads { ranges: &wanted, outputs: &mut slots };
    run_fixpoint(backend, plan, admission, &resources, config, Fixpoint::ONCE, reads)?;
    buffers.into_iter().try_for_each(Allocation::free)?;
    Ok(results)
}

/// The plan of a program with grid barriers, made once for its digest.
pub fn plan(valid: &ValidProgram) -> Result<Arc<Plan>, BackendError> {
    static PLANS: LazyLock<PipelineCache<Plan>> = LazyLock::new(|| PipelineCache::new(256));
    let program = valid.program();
    let key = PipelineKey { program: program.digest(), backend: "grid sync", version: "1", variant: 0 };
    PLANS.get_or_compile(key, || {
        let _span = tracing::trace_span!("split", program = program.name()).entered();
        let mut parts = program.parts().clone();
        Pass::Inline.run(&mut parts);
        split(&parts, &trap_places(program.parts()))
            .map_err(|error| BackendError::InvalidProgram { fix: error.to_string() })
    })
}

/// What can be done to the parts of a split program.
pub trait Parts {
    /// Runs the segment of that number over the whole grid, then copies the uniform words of the state.
    fn launch(&mut self, segment: usize) -> Result<(), BackendError>;
    /// Reads a word of the state.
    fn read_word(&mut self, word: u32) -> Result<u32, BackendError>;
    /// Writes a word of the state and of its uniform copy.
    fn write_word(&mut self, word: u32, value: u32) -> Result<(), BackendError>;
    /// Whether to go on: a loop of the host may launch nothing that would notice a timeout.
    fn check(&self) -> Result<(), BackendError>;
}

impl Plan {
    /// Runs the program as its parts; an empty grid runs nothing.
    pub fn run(&self, grid: [u32; 3], parts: &mut dyn Parts) -> Result<(), BackendError> {
        if !grid.contains(&0) {
            run_steps(&self.steps, parts)?;
        }
        Ok(())
    }

    /// How large the state is for a launch.
    pub fn state_sizes(&self, admission: &Admission) -> Result<StateSizes, BackendError> {
        StateSizes::of(&self.layout, admission)
    }

    /// What a segment's bound buffers are, by ascending binding, and whether each is written.
    #[must_use]
    pub fn bound_of(&self, segment: usize, admission: &Admission) -> Vec<(Bound, bool)> {
        let parts = self.segments[segment].parts();
        let original = admission.parts();
        let place = |binding: Option<u32>| {
            admission.bindings.iter().position(|plan| original.buffer(plan.buffer).binding() == binding)
        };
        let bound = launch::bound_buffers(parts).into_iter().map(|id| {
            let buffer = parts.buffer(id);
            let bound = match buffer.binding() {
                Some(binding) if binding == self.first_binding => Bound::Uniform,
                Some(binding) if binding == self.first_binding + 1 => Bound::State,
                binding => Bound::Original(place(binding).expect("segments bind what the original binds")),
            };
            (bound, buffer.is_output())
        });
        bound.collect()
    }

    /// An error of a segment as one of the whole program: a trap is where the program as written has it.
    #[must_use]
    pub fn whole(&self, segment: usize, error: BackendError) -> BackendError {
        match error {
            BackendError::Trap { code, place: Place::Line { function: None, site }, lane } => {
                let found = self.traps[segment].iter().find(|(at, _)| *at == site);
                let place = found.map_or(Place::Line { function: None, site }, |(_, original)| *original);
                BackendError::Trap { code, place, lane }
            }
            error => error,
        }
    }
}

/// How a run of steps ended.
#[derive(PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

fn run_steps(steps: &[Step], parts: &mut dyn Parts) -> Result<Flow, BackendError> {
    for step in steps {
        let flow = match step {
            Step::Launch(segment) => {
                parts.launch(*segment)?;
                Flow::Next
            }
            Step::Branch { cond, then, otherwise } => {
                let taken = if read(*cond, parts)? != 0 { then } else { otherwise };
                run_steps(taken, parts)?
            }
            Step::Loop { counter_word, lo, hi, step, body } => {
                let (lo, hi) = (u64::from(read(*lo, parts)?), u64::from(read(*hi, parts)?));
                // In 64 bits the counter cannot wrap.
                for counter in (lo..hi).step_by(*step as usize) {
                    parts.check()?;
                    parts.write_word(*counter_word, counter as u32)?;
                    if run_steps(body, parts)? == Flow::Break {
                        break;
                    }
                }
                Flow::Next
            }
            Step::Break => Flow::Break,
            Step::Continue => Flow::Continue,
        };
        if flow != Flow::Next {
            return Ok(flow);
        }
    }
    Ok(Flow::Next)
}

fn read(scalar: Scalar, parts: &mut dyn Parts) -> Result<u32, BackendError> {
    match scalar {
        Scalar::Known(value) => Ok(value),
        Scalar::Word(word) => parts.read_word(word),
    }
}

/// Sizes of the state in bytes. Buffers are never empty, so that every backend can bind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSizes {
    /// The state.
    pub state: usize,
    /// Its uniform copy.
    pub uniform: usize,
    /// How much of the state is copied there after each part.
    pub copied: usize,
}

impl StateSizes {
    fn of(layout: &Layout, admission: &Admission) -> Result<StateSizes, BackendError> {
        let groups = admission.workgroups();
        let lanes = groups * admission.parts().workgroup_lanes();
        let words = layout.words(lanes, groups);
        let copied = layout.uniform_words(groups) as usize * 4;
        match u32::try_from(words) {
            Ok(words) => {
                Ok(StateSizes { state: (words as usize).max(1) * 4, uniform: copied.max(4), copied })
            }
            Err(_) => Err(BackendError::LimitExceeded {
                what: "the state that lives across grid barriers, in words,".to_owned(),
                asked: words,
                limit: u64::from(u32::MAX),
                backend: "grid sync".to_owned(),
            }),
        }
    }
}

/// Keeps the whole run within its timeout and lets it be cancelled between parts.
struct Pace<'a> {
    config: &'a DispatchConfig,
    start: Instant,
}

impl<'a> Pace<'a> {
    fn new(config: &'a DispatchConfig) -> Pace<'a> {
        Pace { config, start: Instant::now() }
    }

    /// Whether the whole may go on; what time is left for it.
    fn left(&self) -> Result<Option<Duration>, BackendError> {
        if self.config.cancel.as_ref().is_some_and(crate::CancelToken::is_cancelled) {
            return Err(BackendError::Cancelled);
        }
        let left = self.config.timeout.map(|limit| limit.saturating_sub(self.start.elapsed()));
        if let (Some(limit), Some(left)) = (self.config.timeout, left)
            && left.is_zero()
        {
            return Err(BackendError::Timeout { limit });
        }
        Ok(left)
    }

    /// The config for the next part.
    fn next(&self, grid: [u32; 3]) -> Result<DispatchConfig, BackendError> {
        Ok(DispatchConfig {
            grid_override: Some(grid),
            timeout: self.left()?,
            label: self.config.label.clone(),
            cancel: self.config.cancel.clone(),
            ..DispatchConfig::default()
        })
    }

    /// A part that ran out of what was left ran out of the whole.
    fn whole(&self, error: BackendError) -> BackendError {
        match (error, self.config.timeout) {
            (BackendError::Timeout { .. }, Some(limit)) => BackendError::Timeout { limit },
            (error, _) => error,
        }
    }
}

/// What both strategies of running the parts share.
struct Launcher<'a> {
    backend: &'a dyn VyreBackend,
    plan: &'a Plan,
    admission: &'a Admission,
    pace: Pace<'a>,
}

/// What a segment binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The original's bound buffer of that place.
    Original(usize),
    /// The uniform copy of the state's first words.
    Uniform,
    /// The state.
    State,
}

impl Launcher<'_> {
    /// An error of a part as one of the whole program.
    fn whole(&self, segment: usize, error: BackendError) -> BackendError {
        self.pace.whole(self.plan.whole(segment, error))
    }
}

/// The parts as dispatches of host bytes.
struct HostParts<'a> {
    launcher: Launcher<'a>,
    /// The program's bound buffers, by ascending binding.
    buffers: Vec<Vec<u8>>,
    state: Vec<u8>,
    uniform: Vec<u8>,
    uniform_bytes: usize,
}

impl Parts for HostParts<'_> {
    fn launch(&mut self, segment: usize) -> Result<(), BackendError> {
        let Launcher { backend, plan, admission, pace } = &self.launcher;
        let bound = self.launcher.plan.bound_of(segment, self.launcher.admission);
        let config = pace.next(admission.grid)?;
        let inputs: Vec<&[u8]> = bound
            .iter()
            .map(|(bound, _)| match bound {
                Bound::Original(at) => &self.buffers[*at][..],
                Bound::Uniform => &self.uniform[..],
                Bound::State => &self.state[..],
            })
            .collect();
        let program = &plan.segments[segment];
        let whole = |segment, error| self.launcher.whole(segment, error);
        let results =
            backend.dispatch_borrowed(program, &inputs, &config).map_err(|error| whole(segment, error))?;
        let written = inputs.iter().zip(&bound).filter(|(_, (_, written))| *written);
        let sizes: Vec<usize> = written.map(|(input, _)| input.len()).collect();
        check_results(*backend, &results, &sizes)?;
        let written = bound.into_iter().filter(|(_, written)| *written);
        for ((bound, _), bytes) in written.zip(results) {
            match bound {
                Bound::Original(at) => self.buffers[at] = bytes,
                Bound::State => self.state = bytes,
                Bound::Uniform => unreachable!("segments only read it"),
            }
        }
        self.uniform[..self.uniform_bytes].copy_from_slice(&self.state[..self.uniform_bytes]);
        Ok(())
    }

    fn check(&self) -> Result<(), BackendError> {
        self.launcher.pace.left().map(|_| ())
    }

    fn read_word(&mut self, word: u32) -> Result<u32, BackendError> {
        let at = word as usize * 4;
        Ok(u32::from_le_bytes(self.state[at..at + 4].try_into().expect("four bytes")))
    }

    fn write_word(&mut self, word: u32, value: u32) -> Result<(), BackendError> {
        let at = word as usize * 4;
        for buffer in [&mut self.state, &mut self.uniform] {
            buffer[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    }
}

/// The next part takes these bytes as they are, so a backend that returned others is stopped here.
fn check_results(
    backend: &dyn VyreBackend,
    results: &OutputBuffers,
    sizes: &[usize],
) -> Result<(), BackendError> {
    let returned: Vec<usize> = results.iter().map(Vec::len).collect();
    if returned == sizes {
        return Ok(());
    }
    Err(BackendError::other(
        format!("backend `{}` returned outputs of {returned:?} bytes for buffers of {sizes:?}", backend.id()),
        "return every output buffer in binding order, with the length it was bound with",
    ))
}

/// The parts as dispatches on resident buffers.
struct ResidentParts<'a> {
    launcher: Launcher<'a>,
    resources: &'a [Resource],
    state: &'a Resource,
    uniform: &'a Resource,
    uniform_bytes: usize,
}

impl Parts for ResidentParts<'_> {
    fn launch(&mut self, segment: usize) -> Result<(), BackendError> {
        let Launcher { backend, plan, admission, pace } = &self.launcher;
        let resources: Vec<Resource> = plan
            .bound_of(segment, admission)
            .into_iter()
            .map(|(bound, _)| match bound {
                Bound::Original(at) => self.resources[at].clone(),
                Bound::Uniform => self.uniform.clone(),
                Bound::State => self.state.clone(),
            })
            .collect();
        let config = pace.next(admission.grid)?;
        backend
            .dispatch_resident_timed(&plan.segments[segment], &resources, &config)
            .map_err(|error| self.launcher.whole(segment, error))?;
        if self.uniform_bytes > 0 {
            let words = backend.download_resident_range(self.state, 0, self.uniform_bytes)?;
            backend.upload_resident_at(self.uniform, 0, &words)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), BackendError> {
        self.launcher.pace.left().map(|_| ())
    }

    fn read_word(&mut self, word: u32) -> Result<u32, BackendError> {
        let backend = self.launcher.backend;
        let bytes = backend.download_resident_range(self.state, word as usize * 4, 4)?;
        match <[u8; 4]>::try_from(bytes.as_slice()) {
            Ok(bytes) => Ok(u32::from_le_bytes(bytes)),
            Err(_) => Err(BackendError::other(
                format!("backend `{}` returned {} bytes for a range of 4", backend.id(), bytes.len()),
                "return exactly the range asked for",
            )),
        }
    }

    fn write_word(&mut self, word: u32, value: u32) -> Result<(), BackendError> {
        for resource in [self.state, self.uniform] {
            self.launcher.backend.upload_resident_at(resource, word as usize * 4, &value.to_le_bytes())?;
        }
        Ok(())
    }
}

/// Resident memory that is freed on every path.
struct Allocation<'a> {
    backend: &'a dyn VyreBackend,
    resource: Resource,
    freed: bool,
}

impl<'a> Allocation<'a> {
    fn new(backend: &'a dyn VyreBackend, byte_len: usize) -> Result<Allocation<'a>, BackendError> {
        Ok(Allocation { backend, resource: backend.allocate_resident(byte_len)?, freed: false })
    }

    fn free(mut self) -> Result<(), BackendError> {
        self.freed = true;
        self.backend.free_resident(self.resource.clone())
    }
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        if !self.freed {
            // An error is being returned already; a second one could only hide it.
            let _ = self.backend.free_resident(self.resource.clone());
        }
    }
}

fn zeroed(byte_len: usize, what: &str) -> Result<Vec<u8>, BackendError> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(byte_len)
        .map_err(|_| BackendError::OutOfMemory { what: what.to_owned(), requested_bytes: byte_len as u64 })?;
    bytes.resize(byte_len, 0);
    Ok(bytes)
}
