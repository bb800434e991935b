//! `vyre devices`: the backends of this machine, their capabilities, and why one is unavailable.

use crate::report::{BOLD, Failure, OK, Report, paint};
use serde_json::{Value, json};
use vyre::VyreBackend;
use vyre::driver::registry::{self, BackendRegistration};
use vyre_terminal::table::{Align, columns, grouped};

/// The meaning of the rows `native` and `not native`.
const NATIVE: &str = "Native is what the device does itself. The rest is emulated with the same bytes, or refused before the run.";

pub(crate) fn run(report: &Report) -> Result<u8, Failure> {
    let all = registry::registrations();
    report.json(|| json!({ "backends": all.iter().map(|one| as_json(one)).collect::<Vec<_>>() }));
    if !report.is_json() {
        report.text(&all.iter().map(|one| as_text(one)).collect::<Vec<_>>().join("\n"));
        report.text(&format!("\n{NATIVE}\n"));
    }
    Ok(OK)
}

/// The native features that a backend reports, in the order of the contract.
fn capabilities(backend: &dyn VyreBackend) -> Vec<(&'static str, bool)> {
    vec![
        ("subgroup ops", backend.supports_subgroup_ops()),
        ("f16", backend.supports_f16()),
        ("bf16", backend.supports_bf16()),
        ("tensor cores", backend.supports_tensor_cores()),
        ("async compute", backend.supports_async_compute()),
        ("indirect dispatch", backend.supports_indirect_dispatch()),
        ("speculation", backend.supports_speculation()),
        ("persistent threads", backend.supports_persistent_thread_dispatch()),
        ("grid sync", backend.supports_grid_sync()),
        ("resident dispatch", backend.supports_resident_dispatch()),
        ("distributed", backend.is_distributed()),
        ("distributed collectives", backend.supports_distributed_collectives()),
    ]
}

fn as_json(registration: &BackendRegistration) -> Value {
    let mut value = json!({
        "id": registration.id,
        "precedence": registration.precedence,
        "description": registration.description,
    });
    match registry::open(registration.id) {
        Ok(backend) => {
            let named = capabilities(&*backend).into_iter();
            value["available"] = json!(true);
            value["version"] = json!(backend.version());
            value["device"] = json!(backend.device_name());
            value["driver"] = json!(backend.driver_name());
            value["healthy"] = json!(!backend.device_lost());
            value["notes"] = backend
                .notes()
                .into_iter()
                .map(|(name, text)| (name.to_owned(), json!(text)))
                .collect::<serde_json::Map<_, _>>()
                .into();
            value["capabilities"] = named
                .map(|(name, has)| (name.replace(' ', "_"), json!(has)))
                .collect::<serde_json::Map<_, _>>()
                .into();
            value["limits"] = json!({
                "workgroup_size": backend.max_workgroup_size(),
                "invocations_per_workgroup": backend.max_compute_invocations_per_workgroup(),
                "workgroups_per_dimension": backend.max_compute_workgroups_per_dimension(),
                "storage_buffer_bytes": backend.max_storage_buffer_bytes(),
                "subgroup_size": backend.subgroup_size(),
            });
        }
        Err(error) => {
            value["available"] = json!(false);
            value["reason"] = json!(error.to_string());
            value["fix"] = json!(error.fix());
        }
    }
    value
}

fn as_text(registration: &BackendRegistration) -> String {
    let mut rows = vec![("precedence", registration.precedence.to_string())];
    match registry::open(registration.id) {
        Ok(backend) => {
            let state = if backend.device_lost() { "lost its device" } else { "ready" };
            rows.push(("state", format!("{state}, version {}", backend.version())));
            rows.push(("device", format!("{}, driver {}", backend.device_name(), backend.driver_name())));
            let (native, other): (Vec<_>, Vec<_>) =
                capabilities(&*backend).into_iter().partition(|(_, has)| *has);
            let names = |list: Vec<(&str, bool)>| match list.is_empty() {
                true => "none".to_owned(),
                false => list.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
            };
            rows.extend(backend.notes());
            rows.push(("native", names(native)));
            rows.push(("not native", names(other)));
            let [x, y, z] = backend.max_workgroup_size();
            let lanes = backend.max_compute_invocations_per_workgroup();
            rows.push(("workgroup", format!("{x} x {y} x {z}, {lanes} lanes together")));
            let groups = u64::from(backend.max_compute_workgroups_per_dimension());
            rows.push(("workgroups", format!("{} along each axis", grouped(groups))));
            rows.push((
                "storage buffer",
                match backend.max_storage_buffer_bytes() {
                    0 => "not reported".to_owned(),
                    bytes => format!("{} bytes", grouped(bytes)),
                },
            ));
        }
        Err(error) => rows.push(("not available", error.to_string())),
    }
    let mut lines: Vec<Vec<String>> = Vec::new();
    for (key, value) in &rows {
        let keys = [*key].into_iter().chain(std::iter::repeat(""));
        lines.extend(keys.zip(value.lines()).map(|(key, line)| vec![format!("  {key}"), line.to_owned()]));
    }
    let head = format!("{}  {}", paint(BOLD, registration.id), registration.description);
    format!("{head}\n{}", columns(&[Align::Left; 2], &lines))
}
