//! What is checked before any launch, once for every backend.
//!
//! [`admit`] validates the program, checks it against what the backend published, decides which input fills which buffer
//! and which buffers come back, and derives the grid. Routing and our own drivers call it first; what it refuses never
//! reaches a device. What has no meaning on any device is refused by [`vyre_foundation::launch`], whose [`Admission`] is
//! the result.

use crate::backend::VyreBackend;
use crate::config::DispatchConfig;
use crate::error::BackendError;
use crate::types::{default_supported_ops, unsupported};
use vyre_foundation::ir::{OpId, Program};
use vyre_foundation::launch::{self, Admission, Binding, LaunchError};
use vyre_foundation::validate::{self, ValidProgram};

/// Admits or refuses a dispatch of host bytes.
pub fn admit(
    backend: &(impl VyreBackend + ?Sized),
    program: &Program,
    inputs: &[&[u8]],
    config: &DispatchConfig,
) -> Result<Admission, BackendError> {
    let _span = tracing::trace_span!("admit", program = program.name()).entered();
    let valid = valid(program, config.workgroup_override)?;
    check_backend(backend, &valid)?;
    let input_lens: Vec<usize> = inputs.iter().map(|input| input.len()).collect();
    let bindings = launch::bind(&valid, &input_lens, &config.output_sizes)?;
    finish(backend, &valid, bindings, config, |input, offset| {
        Ok(launch::indirect_grid(offset, inputs[input]))
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
    let valid = valid(program, config.workgroup_override)?;
    check_backend(backend, &valid)?;
    finish(backend, &valid, launch::bind_all(&valid, byte_lens)?, config, read_grid)
}

/// The program, or the one that a workgroup override makes of it, validated. A program keeps its verdict.
pub fn valid(program: &Program, workgroup: Option<[u32; 3]>) -> Result<ValidProgram, BackendError> {
    let resized = workgroup.map(|workgroup| validate::resized(program, workgroup)).transpose();
    let resized = resized.map_err(|error| BackendError::InvalidProgram { fix: error.to_string() })?;
    let program = resized.as_ref().unwrap_or(program);
    let _span = (!validate::is_decided(program))
        .then(|| tracing::trace_span!("validate", program = program.name()).entered());
    validate::validate(program).map_err(|findings| {
        let lines: Vec<String> = findings.iter().take(10).map(ToString::to_string).collect();
        let more = findings.len() - lines.len();
        let more = if more == 0 { String::new() } else { format!("\nand {more} more") };
        BackendError::InvalidProgram {
            fix: format!("correct what validation found:\n{}{more}", lines.join("\n")),
        }
    })
}

fn check_backend(backend: &(impl VyreBackend + ?Sized), valid: &ValidProgram) -> Result<(), BackendError> {
    check_ops(backend, valid)?;
    let parts = valid.parts();
    let sizes = parts.workgroup.iter().zip(backend.max_workgroup_size());
    for ((asked, limit), axis) in sizes.zip(["x", "y", "z"]) {
        let what = || format!("the workgroup size along {axis}");
        check_limit(backend, what, u64::from(*asked), u64::from(limit))?;
    }
    let lanes_max = u64::from(backend.max_compute_invocations_per_workgroup());
    let what = || "the number of lanes of a workgroup".to_owned();
    check_limit(backend, what, parts.workgroup_lanes(), lanes_max)?;
    let workgroup_bytes = valid.facts().workgroup_bytes;
    if workgroup_bytes == 0 {
        return Ok(());
    }
    // Zero means unknown.
    match backend.device_profile().max_shared_memory_bytes {
        0 => Ok(()),
        limit => {
            let what = || "the workgroup memory in bytes".to_owned();
            check_limit(backend, what, workgroup_bytes, u64::from(limit))
        }
    }
}

fn check_ops(backend: &(impl VyreBackend + ?Sized), valid: &ValidProgram) -> Result<(), BackendError> {
    let supported = backend.supported_ops();
    // The core set has every op, so most dispatches look up none.
    if std::ptr::eq(supported, default_supported_ops()) {
        return Ok(());
    }
    // A backend without grid-wide steps still runs the parts between them.
    let splits = backend.supports_resident_dispatch() || backend.allows_host_grid_sync_split();
    let runs = |op: &OpId| supported.contains(op) || (splits && op.is_grid_wide());
    match valid.facts().ops.iter().find(|op| !runs(op)) {
        None => Ok(()),
        Some(op) => unsupported(backend, &format!("the op `{op}`")),
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

fn finish(
    backend: &(impl VyreBackend + ?Sized),
    valid: &ValidProgram,
    bindings: Vec<Binding>,
    config: &DispatchConfig,
    read_grid: impl FnOnce(usize, u32) -> Result<[u32; 3], BackendError>,
) -> Result<Admission, BackendError> {
    let admission = launch::admit(valid, bindings, config.grid_override, read_grid)?;
    let storage_max = backend.max_storage_buffer_bytes();
    for binding in admission.bindings.iter().filter(|_| storage_max > 0) {
        let what = || format!("the size of `@{}` in bytes", valid.parts().buffer(binding.buffer).name);
        check_limit(backend, what, binding.byte_len as u64, storage_max)?;
    }
    let groups_max = u64::from(backend.max_compute_workgroups_per_dimension());
    // An empty grid launches nothing, which every device can.
    let launches = !admission.grid.contains(&0);
    for (count, axis) in admission.grid.iter().zip(["x", "y", "z"]).filter(|_| launches) {
        let what = || format!("the number of workgroups along {axis}");
        check_limit(backend, what, u64::from(*count), groups_max)?;
    }
    Ok(admission)
}

impl From<LaunchError> for BackendError {
    fn from(error: LaunchError) -> BackendError {
        BackendError::InvalidLaunch { message: error.message, fix: error.fix }
    }
}
