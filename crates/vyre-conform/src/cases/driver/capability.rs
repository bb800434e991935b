//! What a driver says of itself, and its life between dispatches.

use super::{Check, Probe, Sample, problem, scale, words};
use crate::batch::Plan;
use vyre_driver::observability::snapshot_dispatch_telemetry;
use vyre_driver::{DispatchConfig, VyreBackend};
use vyre_foundation::ir::OpId;

/// The id is a word, and the same each time.
pub(super) fn identity(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let id = driver.id();
    let is_word = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if !is_word || id != driver.id() {
        return Err(problem(format!(
            "the id is `{id}`, and ids are letters, digits, `-` and `_`, and never change"
        )));
    }
    if driver.version().is_empty() || driver.version() != driver.version() {
        return Err(problem("the version is empty or changes".into()));
    }
    Ok(())
}

/// The profile says what the single queries say, and no answer changes.
pub(super) fn profile(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let profile = driver.device_profile();
    probe.holds(profile == driver.device_profile(), || "two device profiles differ".into())?;
    let same = [
        ("backend", profile.backend == driver.id()),
        ("supports_subgroup_ops", profile.supports_subgroup_ops == driver.supports_subgroup_ops()),
        ("has_subgroup_shuffle", profile.has_subgroup_shuffle == driver.supports_subgroup_ops()),
        (
            "supports_indirect_dispatch",
            profile.supports_indirect_dispatch == driver.supports_indirect_dispatch(),
        ),
        (
            "supports_distributed_collectives",
            profile.supports_distributed_collectives == driver.supports_distributed_collectives(),
        ),
        ("supports_f16", profile.supports_f16 == driver.supports_f16()),
        ("supports_bf16", profile.supports_bf16 == driver.supports_bf16()),
        ("supports_tensor_cores", profile.supports_tensor_cores == driver.supports_tensor_cores()),
        ("max_workgroup_size", profile.max_workgroup_size == driver.max_workgroup_size()),
        (
            "max_invocations_per_workgroup",
            profile.max_invocations_per_workgroup == driver.max_compute_invocations_per_workgroup(),
        ),
        (
            "max_storage_buffer_binding_size",
            profile.max_storage_buffer_binding_size == driver.max_storage_buffer_bytes(),
        ),
        ("subgroup_size", profile.subgroup_size == driver.subgroup_size().unwrap_or(0)),
    ];
    for (field, same) in same {
        probe.holds(same, || format!("`device_profile().{field}` is not what the method says"))?;
    }
    let lanes: u128 = driver.max_workgroup_size().iter().map(|axis| u128::from(*axis)).product();
    let within = u128::from(driver.max_compute_invocations_per_workgroup()) <= lanes;
    probe.holds(within, || "more lanes than the axes of a workgroup allow".into())?;
    let width = driver.subgroup_size().unwrap_or(1);
    probe.holds(width.is_power_of_two(), || format!("a subgroup of {width} lanes"))?;
    probe.holds(!driver.supports_distributed_collectives() || driver.is_distributed(), || {
        "collectives among ranks, and only one node".into()
    })?;
    let missing = OpId::all().find(|op| !driver.supported_ops().contains(op));
    let splits = driver.supports_resident_dispatch() || driver.allows_host_grid_sync_split();
    if let Some(op) = missing.filter(|op| !(splits && op.is_grid_wide())) {
        return Err(problem(format!("`supported_ops` lacks `{op}`, and every op is mandatory")));
    }
    Ok(())
}

/// `prepare` and `flush` may be called at any time.
pub(super) fn lifecycle(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let sample = Sample::new(&scale(), None, &[words(&[2]), words(&[4, 5]), words(&[1, 1])]);
    for _ in 0..2 {
        probe.done("prepare", driver.prepare())?;
        let pending = driver.dispatch_async(&sample.program, &sample.inputs, &sample.config());
        let pending = probe.done("dispatch_async", pending)?;
        probe.done("flush", driver.flush())?;
        probe.outputs("a dispatch around `flush`", pending.await_result(), &sample.outputs)?;
        probe.done("flush", driver.flush())?;
        probe.holds(!driver.device_lost(), || "the device is lost, and nothing happened to it".into())?;
    }
    Ok(())
}

/// Counters count what happens and never go back.
pub(super) fn telemetry(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let sample = Sample::new(&scale(), None, &[words(&[2]), words(&[4, 5]), words(&[1, 1])]);
    let before = snapshot_dispatch_telemetry();
    let own_before = driver.backend_metric_snapshot();
    let cache_before = driver.pipeline_cache_snapshot();
    let mut slots = Vec::new();
    for _ in 0..2 {
        let config = DispatchConfig::default();
        let result = driver.dispatch_borrowed_into(&sample.program, &sample.borrowed(), &config, &mut slots);
        probe.done("dispatch_borrowed_into", result)?;
    }
    let after = snapshot_dispatch_telemetry();
    // Other dispatches of this process may count too.
    let counted = after.launches >= before.launches + 2
        && after.input_bytes >= before.input_bytes + 40
        && after.output_bytes >= before.output_bytes + 16
        && after.output_slots >= before.output_slots + 2;
    probe.holds(counted, || format!("two dispatches are not counted: {before:?}, then {after:?}"))?;
    let own_after = driver.backend_metric_snapshot();
    let names = |metrics: &[(&'static str, u64)]| metrics.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let stable = names(&own_before) == names(&own_after);
    probe.holds(stable, || "the names of the backend's counters change".into())?;
    let ascii =
        names(&own_after).iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    probe.holds(ascii, || "a counter's name is not an ASCII identifier".into())?;
    let counts =
        |cache: Option<vyre_driver::PipelineCacheSnapshot>| cache.map(|cache| cache.hits + cache.misses);
    let grows = counts(cache_before) <= counts(driver.pipeline_cache_snapshot());
    probe.holds(grows, || "the pipeline cache's counters go back".into())?;
    Ok(())
}
