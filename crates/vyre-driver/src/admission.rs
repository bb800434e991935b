//! What is checked before any launch, once for every backend.
//!
//! [`admit`] validates the program (once for its digest), checks it against what the backend published, decides which
//! input fills which buffer and which buffers come back, and derives the grid. Routing and our own drivers call it first;
//! what it refuses never reaches a device.
//!
//! Inputs and outputs are in binding order. There is one input for every bound buffer, or one for every bound buffer that
//! is not an output; outputs without input start at zero, with the size that `DispatchConfig::output_sizes` or the
//! declaration gives.

use crate::backend::VyreBackend;
use crate::config::DispatchConfig;
use crate::error::BackendError;
use crate::grid_sync::has_grid_sync;
use crate::types::{default_supported_ops, unsupported};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, PoisonError};
use vyre_foundation::ir::{BufferId, BufferKind, Digest, Node, OpId, Program, ProgramParts, SyncOp, walk};
use vyre_foundation::launch::{self, LaunchError};
use vyre_foundation::validate::{ValidProgram, validate};

/// A launch that may go ahead.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The program, valid; with a workgroup override, the program that makes.
    pub program: Arc<CheckedProgram>,
    /// Workgroups along x, y and z. A zero launches nothing.
    pub grid: [u32; 3],
    /// What happens to each bound buffer, by ascending binding.
    pub bindings: Vec<BindingPlan>,
}

/// What happens to one bound buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingPlan {
    /// The buffer.
    pub buffer: BufferId,
    /// Its size.
    pub byte_len: usize,
    /// The input that fills it; `None` starts it at zero.
    pub input: Option<usize>,
    /// The output slot that it comes back in.
    pub output: Option<usize>,
}

/// A valid program with the facts that every dispatch asks for.
#[derive(Debug)]
pub struct CheckedProgram {
    /// The program.
    pub valid: ValidProgram,
    /// The bound buffers, by ascending binding.
    pub bound: Vec<BufferId>,
    /// The ops it uses, each once.
    pub ops: Vec<OpId>,
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u64,
    /// Whether it has a grid barrier or collective.
    pub has_grid_sync: bool,
    /// Whether it may trap.
    pub traps: bool,
    /// Whether no grid can be derived for it.
    pub needs_grid: bool,
    /// Its lines.
    pub lines: usize,
}

impl CheckedProgram {
    fn new(valid: ValidProgram) -> CheckedProgram {
        let parts = valid.parts();
        let mut ops = Vec::new();
        let bodies = parts.functions.iter().map(|function| &function.body).chain([&parts.body]);
        let mut seen = [false; 256];
        let (mut lines, mut traps) = (0, false);
        for body in bodies {
            walk(&body.block, |_, _, node| {
                lines += 1;
                traps |= matches!(node, Node::Trap { .. });
                let op = node.op();
                if !std::mem::replace(&mut seen[usize::from(op.info().tag)], true) {
                    ops.push(op);
                }
            });
        }
        let shared = parts.buffers.iter().filter(|buffer| matches!(buffer.kind, BufferKind::Workgroup));
        let workgroup_bytes =
            shared.map(|buffer| u64::from(buffer.len.unwrap_or(0)) * buffer.ty.bytes() as u64).sum();
        CheckedProgram {
            bound: launch::bound_buffers(parts),
            ops,
            workgroup_bytes,
            has_grid_sync: has_grid_sync(parts),
            traps,
            needs_grid: launch::needs_grid(parts),
            lines,
            valid,
        }
    }

    /// What the program consists of.
    #[must_use]
    pub fn parts(&self) -> &ProgramParts {
        self.valid.parts()
    }
}

/// Admits or refuses a dispatch of host bytes.
pub fn admit(
    backend: &(impl VyreBackend + ?Sized),
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<Admission, BackendError> {
    let _span = tracing::trace_span!("admit", program = program.name()).entered();
    let checked = check(program, config.workgroup_override)?;
    check_backend(backend, &checked)?;
    let bindings = plan_host(&checked, inputs, &config.output_sizes)?;
    finish(backend, checked, bindings, config, |plan, _, offset| {
        let contents = plan.input.map_or(&[][..], |input| inputs[input]);
        Ok(launch::indirect_grid(offset, contents))
    })
}

/// Admits or refuses a dispatch of resident buffers, `byte_lens` by ascending binding. `read_grid` reads the grid of an
/// indirect dispatch from the bound buffer of that place, at that element.
pub fn admit_resident(
    backend: &(impl VyreBackend + ?Sized),
    program: &Program,
    byte_lens: &[usize],
    config: &DispatchConfig,
    read_grid: impl FnOnce(usize, u32) -> Result<[u32; 3], BackendError>,
) -> Result<Admission, BackendError> {
    let _span = tracing::trace_span!("admit", program = program.name()).entered();
    let checked = check(program, config.workgroup_override)?;
    check_backend(backend, &checked)?;
    if byte_lens.len() != checked.bound.len() {
        return Err(wrong_count("resources", byte_lens.len(), &checked));
    }
    let mut outputs = 0..;
    let bindings =
        checked.bound.iter().zip(byte_lens).enumerate().map(|(at, (buffer, byte_len))| BindingPlan {
            buffer: *buffer,
            byte_len: *byte_len,
            input: Some(at),
            output: checked.parts().buffer(*buffer).is_output().then(|| outputs.next()).flatten(),
        });
    let bindings = bindings.collect();
    finish(backend, checked, bindings, config, |_, at, offset| read_grid(at, offset))
}

/// The program, validated once for its digest and workgroup.
pub fn check(program: &Program, workgroup: Option<[u32; 3]>) -> Result<Arc<CheckedProgram>, BackendError> {
    static CACHE: Mutex<Option<CheckedCache>> = Mutex::new(None);
    let key = (program.digest(), workgroup);
    let lock = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = lock().get_or_insert_default().entries.get(&key) {
        return Ok(Arc::clone(found));
    }
    let checked = Arc::new(CheckedProgram::new(validated(program, workgroup)?));
    lock().get_or_insert_default().keep(key, Arc::clone(&checked));
    Ok(checked)
}

/// The programs found valid, bounded in number and in lines. Dropping all at once keeps the lookup one hash.
#[derive(Default)]
struct CheckedCache {
    entries: FxHashMap<(Digest, Option<[u32; 3]>), Arc<CheckedProgram>>,
    lines: usize,
}

impl CheckedCache {
    /// Enough for any real working set.
    const ENTRIES_MAX: usize = 4096;
    /// A few hundred megabytes of programs.
    const LINES_MAX: usize = 4_000_000;

    fn keep(&mut self, key: (Digest, Option<[u32; 3]>), checked: Arc<CheckedProgram>) {
        if self.entries.len() >= Self::ENTRIES_MAX || self.lines + checked.lines > Self::LINES_MAX {
            self.entries.clear();
            self.lines = 0;
        }
        self.lines += checked.lines;
        if let Some(earlier) = self.entries.insert(key, checked) {
            // Another thread checked the same program meanwhile.
            self.lines -= earlier.lines;
        }
    }
}

fn validated(program: &Program, workgroup: Option<[u32; 3]>) -> Result<ValidProgram, BackendError> {
    let overridden = workgroup.map(|workgroup| {
        let parts = ProgramParts { workgroup, ..program.parts().clone() };
        Program::new(parts).map_err(|error| BackendError::InvalidProgram { fix: error.to_string() })
    });
    let program = overridden.transpose()?.unwrap_or_else(|| program.clone());
    validate(&program).map_err(|findings| {
        let lines: Vec<String> = findings.iter().take(10).map(ToString::to_string).collect();
        let more = findings.len() - lines.len();
        let more = if more == 0 { String::new() } else { format!("\nand {more} more") };
        BackendError::InvalidProgram {
            fix: format!("mend what validation found:\n{}{more}", lines.join("\n")),
        }
    })
}

fn check_backend(
    backend: &(impl VyreBackend + ?Sized),
    checked: &CheckedProgram,
) -> Result<(), BackendError> {
    check_ops(backend, checked)?;
    let parts = checked.parts();
    let sizes = parts.workgroup.iter().zip(backend.max_workgroup_size());
    for ((asked, limit), axis) in sizes.zip(["x", "y", "z"]) {
        let what = || format!("the workgroup size along {axis}");
        check_limit(backend, what, u64::from(*asked), u64::from(limit))?;
    }
    let lanes_max = u64::from(backend.max_compute_invocations_per_workgroup());
    let what = || "the number of lanes of a workgroup".to_owned();
    check_limit(backend, what, parts.workgroup_lanes(), lanes_max)?;
    if checked.workgroup_bytes == 0 {
        return Ok(());
    }
    // Zero stands for not known.
    match backend.device_profile().max_shared_memory_bytes {
        0 => Ok(()),
        limit => {
            let what = || "the workgroup memory in bytes".to_owned();
            check_limit(backend, what, checked.workgroup_bytes, u64::from(limit))
        }
    }
}

fn check_ops(backend: &(impl VyreBackend + ?Sized), checked: &CheckedProgram) -> Result<(), BackendError> {
    let supported = backend.supported_ops();
    // The core set has every op, so most dispatches look up none.
    if std::ptr::eq(supported, default_supported_ops()) {
        return Ok(());
    }
    // A backend without grid-wide steps still runs the parts between them.
    let splits = backend.supports_resident_dispatch() || backend.allows_host_grid_sync_split();
    let runs = |op: &OpId| supported.contains(op) || (splits && is_grid_wide(*op));
    match checked.ops.iter().find(|op| !runs(op)) {
        None => Ok(()),
        Some(op) => unsupported(backend, &format!("the op `{op}`")),
    }
}

fn is_grid_wide(op: OpId) -> bool {
    match op {
        OpId::SyncOp(op) => match op {
            SyncOp::GridBarrier
            | SyncOp::AllReduce
            | SyncOp::AllGather
            | SyncOp::ReduceScatter
            | SyncOp::Broadcast => true,
            SyncOp::Barrier | SyncOp::SubgroupBarrier | SyncOp::UniformLoad | SyncOp::Mma => false,
        },
        _ => false,
    }
}

fn check_limit(
    backend: &(impl VyreBackend + ?Sized),
    what: impl FnOnce() -> String,
    asked: u64,
    limit: u64,
) -> Result<(), BackendError> {
    if asked <= limit {
        return Ok(());
    }
    Err(BackendError::LimitExceeded { what: what(), asked, limit, backend: backend.id().to_owned() })
}

fn plan_host(
    checked: &CheckedProgram,
    inputs: &[&[u8]],
    output_sizes: &[usize],
) -> Result<Vec<BindingPlan>, BackendError> {
    let parts = checked.parts();
    let outputs = checked.bound.iter().filter(|id| parts.buffer(**id).is_output()).count();
    let all = inputs.len() == checked.bound.len();
    if !all && inputs.len() != checked.bound.len() - outputs {
        return Err(wrong_count("inputs", inputs.len(), checked));
    }
    if !output_sizes.is_empty() && output_sizes.len() != outputs {
        return Err(BackendError::InvalidLaunch {
            message: format!("{} output sizes for {outputs} outputs", output_sizes.len()),
            fix: "give one size for each output in binding order, or none".to_owned(),
        });
    }
    let (mut next_input, mut next_output) = (0, 0);
    checked
        .bound
        .iter()
        .map(|id| {
            let buffer = parts.buffer(*id);
            let output = buffer.is_output().then_some(next_output);
            next_output += usize::from(output.is_some());
            let input = (all || output.is_none()).then_some(next_input);
            next_input += usize::from(input.is_some());
            let size = output.and_then(|output| output_sizes.get(output)).copied();
            let declared = buffer.len.map(|len| len as usize * buffer.ty.bytes());
            let given = input.map(|input| inputs[input].len());
            match (given, size.or(declared)) {
                // An empty input for an output whose size is known stands for none.
                (Some(0), Some(size)) if output.is_some() && size > 0 => Ok((None, size)),
                (Some(given), Some(size)) if output.is_some() && given != size => {
                    Err(size_clash(&buffer.name, given, size))
                }
                (Some(given), _) => Ok((input, given)),
                (None, Some(size)) => Ok((None, size)),
                (None, None) => Err(size_unknown(&buffer.name)),
            }
            .map(|(input, byte_len)| BindingPlan { buffer: *id, byte_len, input, output })
        })
        .collect()
}

fn size_clash(name: &str, given: usize, size: usize) -> BackendError {
    BackendError::InvalidLaunch {
        message: format!("`@{name}` has an input of {given} bytes and an output size of {size}"),
        fix: "leave the size out, or make both equal".to_owned(),
    }
}

fn size_unknown(name: &str) -> BackendError {
    BackendError::InvalidLaunch {
        message: format!("the size of output `@{name}` is not known: it has no input and no declared length"),
        fix: "set `DispatchConfig::output_sizes`, pass an input for it, or declare its length".to_owned(),
    }
}

fn wrong_count(what: &str, given: usize, checked: &CheckedProgram) -> BackendError {
    let parts = checked.parts();
    let name = |id: &BufferId| format!("@{}", parts.buffer(*id).name);
    let all: Vec<String> = checked.bound.iter().map(name).collect();
    let needed: Vec<String> =
        checked.bound.iter().filter(|id| !parts.buffer(**id).is_output()).map(name).collect();
    let without_outputs = match needed.len() == all.len() {
        true => String::new(),
        false => format!(", or {} without the outputs: {}", needed.len(), needed.join(", ")),
    };
    BackendError::InvalidLaunch {
        message: format!("{given} {what} for the {} bindings of `@{}`", all.len(), parts.name),
        fix: format!("pass {} in this order: {}{without_outputs}", all.len(), all.join(", ")),
    }
}

fn finish(
    backend: &(impl VyreBackend + ?Sized),
    program: Arc<CheckedProgram>,
    bindings: Vec<BindingPlan>,
    config: &DispatchConfig,
    read_grid: impl FnOnce(&BindingPlan, usize, u32) -> Result<[u32; 3], BackendError>,
) -> Result<Admission, BackendError> {
    let parts = program.parts();
    let storage_max = backend.max_storage_buffer_bytes();
    for plan in &bindings {
        let buffer = parts.buffer(plan.buffer);
        launch::element_count(buffer, plan.byte_len as u64)?;
        if storage_max > 0 {
            let what = || format!("the size of `@{}` in bytes", buffer.name);
            check_limit(backend, what, plan.byte_len as u64, storage_max)?;
        }
    }
    let grid = match (launch::indirect(parts), config.grid_override) {
        (Some((buffer, offset)), None) => match program.bound.iter().position(|id| *id == buffer) {
            Some(at) => read_grid(&bindings[at], at, offset)?,
            None => [0; 3],
        },
        (Some((buffer, _)), Some(_)) => {
            return Err(BackendError::InvalidLaunch {
                message: format!(
                    "a grid is given, and the program reads its grid from `@{}`",
                    parts.buffer(buffer).name
                ),
                fix: "leave the grid out, or put it into that buffer".to_owned(),
            });
        }
        (None, Some(grid)) => grid,
        (None, None) if program.needs_grid => return Err(launch::grid_missing(parts).into()),
        (None, None) => derived_grid(parts, &bindings)?,
    };
    launch::check_grid(parts, grid)?;
    let groups_max = u64::from(backend.max_compute_workgroups_per_dimension());
    // An empty grid launches nothing, which every device can.
    let launches = !grid.contains(&0);
    for (count, axis) in grid.iter().zip(["x", "y", "z"]).filter(|_| launches) {
        let what = || format!("the number of workgroups along {axis}");
        check_limit(backend, what, u64::from(*count), groups_max)?;
    }
    Ok(Admission { program, grid, bindings })
}

fn derived_grid(parts: &ProgramParts, bindings: &[BindingPlan]) -> Result<[u32; 3], LaunchError> {
    let mut lens: Vec<u32> = parts.buffers.iter().map(|buffer| buffer.len.unwrap_or(0)).collect();
    for plan in bindings {
        lens[plan.buffer.index()] = launch::element_count(parts.buffer(plan.buffer), plan.byte_len as u64)?;
    }
    Ok(launch::default_grid(parts, &lens))
}

impl From<LaunchError> for BackendError {
    fn from(error: LaunchError) -> BackendError {
        BackendError::InvalidLaunch { message: error.message, fix: error.fix }
    }
}
