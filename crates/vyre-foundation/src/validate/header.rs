//! The rules about what stands before the lines: the workgroup, the buffers and the functions' signatures.

use super::Findings;
use crate::diagnostic::Place;
use crate::ir::{Buffer, BufferId, BufferKind, DataType, FunctionId, ProgramParts};
use crate::limits;
use rustc_hash::{FxHashMap, FxHashSet};

/// Checks a program's header and declarations.
pub(super) fn check(parts: &ProgramParts, findings: &mut Findings) {
    workgroup(parts, findings);
    subgroup(parts, findings);
    bindings(parts, findings);
    for (index, buffer) in parts.buffers.iter().enumerate() {
        one_buffer(BufferId(index as u32), buffer, findings);
    }
    workgroup_bytes(parts, findings);
    signatures(parts, findings);
}

fn workgroup(parts: &ProgramParts, findings: &mut Findings) {
    let [x, y, z] = parts.workgroup;
    let max = limits::WORKGROUP_AXIS_MAX;
    let within = |lanes: u32, axis: usize| lanes.clamp(1, max[axis]);
    let fits = [within(x, 0), within(y, 1), within(z, 2)];
    if fits != parts.workgroup {
        findings.report(
            "V001",
            Place::Program,
            format!(
                "a workgroup of ({x}, {y}, {z}) lanes, where each axis has at least 1 and at most \
                 ({}, {}, {})",
                max[0], max[1], max[2]
            ),
            format!("write `workgroup({}, 1, 1)`", fits[0]),
        );
    } else if parts.workgroup_lanes() > u64::from(limits::WORKGROUP_LANES_MAX) {
        findings.report(
            "V001",
            Place::Program,
            format!(
                "a workgroup of ({x}, {y}, {z}) is {} lanes, and it has at most {}",
                parts.workgroup_lanes(),
                limits::WORKGROUP_LANES_MAX
            ),
            format!("write `workgroup({x}, 1, 1)`, or another size with at most 1024 lanes"),
        );
    }
}

fn subgroup(parts: &ProgramParts, findings: &mut Findings) {
    let Some(width) = parts.subgroup else { return };
    let lanes = parts.workgroup_lanes();
    if width == 0 || !width.is_power_of_two() || width > limits::SUBGROUP_WIDTH_MAX {
        findings.report(
            "V002",
            Place::Program,
            format!(
                "a subgroup width of {width}, which is not a power of two from 1 to {}",
                limits::SUBGROUP_WIDTH_MAX
            ),
            format!("write `subgroup({})`", widest_subgroup(lanes)),
        );
    } else if !lanes.is_multiple_of(u64::from(width)) {
        findings.report(
            "V002",
            Place::Program,
            format!("a subgroup width of {width} does not divide the workgroup's {lanes} lanes"),
            format!("write `subgroup({})`", widest_subgroup(lanes)),
        );
    }
}

/// The widest subgroup that divides so many lanes.
pub(super) fn widest_subgroup(lanes: u64) -> u64 {
    let width = u64::from(limits::SUBGROUP_WIDTH_MAX);
    if lanes == 0 { width } else { (1 << lanes.trailing_zeros()).min(width) }
}

fn bindings(parts: &ProgramParts, findings: &mut Findings) {
    let mut taken: FxHashMap<u32, &Buffer> = FxHashMap::default();
    let used: FxHashSet<u32> = parts.buffers.iter().filter_map(Buffer::binding).collect();
    let mut free = (0..=limits::BINDING_MAX).filter(|binding| !used.contains(binding));
    for (index, buffer) in parts.buffers.iter().enumerate() {
        let Some(binding) = buffer.binding() else { continue };
        let place = Place::Buffer(BufferId(index as u32));
        let name = &buffer.name;
        let mut fix = || match free.next() {
            Some(free) => format!("give `@{name}` a binding of its own, `binding {free}`"),
            None => "merge buffers that are used together, so that fewer bindings are needed".to_string(),
        };
        if binding > limits::BINDING_MAX {
            let message =
                format!("`@{name}` has binding {binding}, and the highest is {}", limits::BINDING_MAX);
            findings.report("V004", place, message, fix());
        } else if let Some(first) = taken.get(&binding) {
            let message = format!("`@{name}` has binding {binding}, which `@{}` has already", first.name);
            findings.report("V003", place, message, fix());
        } else {
            taken.insert(binding, buffer);
        }
    }
}

fn one_buffer(id: BufferId, buffer: &Buffer, findings: &mut Findings) {
    let place = Place::Buffer(id);
    let name = &buffer.name;
    if !buffer.ty.stores() {
        findings.report(
            "V005",
            place,
            format!("`@{name}` has elements of type {}, which cannot be stored in memory", buffer.ty),
            format!("declare `@{name}` as u32 and keep 1 for true and 0 for false"),
        );
    }
    match buffer.len {
        Some(0) => findings.report(
            "V006",
            place,
            format!("`@{name}` has no elements, so it could never be accessed"),
            match buffer.kind {
                BufferKind::Table { .. } => format!("give `@{name}` at least one element, or delete it"),
                BufferKind::Uniform { .. } | BufferKind::Workgroup => {
                    format!("declare `@{name}` as {}[1] or longer", buffer.ty)
                }
                BufferKind::Read { .. } | BufferKind::ReadWrite { .. } => {
                    format!("declare `@{name}` as {}[], so that the launch decides its length", buffer.ty)
                }
            },
        ),
        None => needs_length(place, buffer, findings),
        Some(len) => uniform_bytes(place, buffer, len, findings),
    }
}

fn needs_length(place: Place, buffer: &Buffer, findings: &mut Findings) {
    let (name, ty) = (&buffer.name, buffer.ty);
    match buffer.kind {
        BufferKind::Workgroup => findings.report(
            "V007",
            place,
            format!("`@{name}` is workgroup memory without a length, and no caller binds it"),
            format!("declare its length, as in `{ty}[64]`"),
        ),
        BufferKind::Uniform { .. } => findings.report(
            "V007",
            place,
            format!("`@{name}` is a uniform buffer without a length"),
            format!("declare its length, as in `{ty}[1]`, or declare it as `read`"),
        ),
        BufferKind::Read { .. } | BufferKind::ReadWrite { .. } | BufferKind::Table { .. } => {}
    }
}

fn uniform_bytes(place: Place, buffer: &Buffer, len: u32, findings: &mut Findings) {
    let bytes = u64::from(len) * buffer.ty.bytes() as u64;
    if matches!(buffer.kind, BufferKind::Uniform { .. }) && bytes > limits::UNIFORM_BYTES_MAX {
        let name = &buffer.name;
        findings.report(
            "V009",
            place,
            format!(
                "`@{name}` is a uniform buffer of {bytes} bytes, and one has at most {}",
                limits::UNIFORM_BYTES_MAX
            ),
            format!("declare `@{name}` as `read`"),
        );
    }
}

fn workgroup_bytes(parts: &ProgramParts, findings: &mut Findings) {
    let mut total: u64 = 0;
    for (index, buffer) in parts.buffers.iter().enumerate() {
        if !matches!(buffer.kind, BufferKind::Workgroup) {
            continue;
        }
        let before = total;
        let bytes = u64::from(buffer.len.unwrap_or(0)) * buffer.ty.bytes() as u64;
        total = total.saturating_add(bytes);
        if before <= limits::WORKGROUP_BYTES_MAX && total > limits::WORKGROUP_BYTES_MAX {
            let room = (limits::WORKGROUP_BYTES_MAX - before) / buffer.ty.bytes() as u64;
            findings.report(
                "V008",
                Place::Buffer(BufferId(index as u32)),
                format!(
                    "with `@{}` the workgroup memory is {total} bytes, and it has at most {}",
                    buffer.name,
                    limits::WORKGROUP_BYTES_MAX
                ),
                match room {
                    0 => format!("make the workgroup buffers above `@{}` shorter", buffer.name),
                    _ => format!("declare `@{}` as {}[{room}] or shorter", buffer.name, buffer.ty),
                },
            );
        }
    }
}

fn signatures(parts: &ProgramParts, findings: &mut Findings) {
    for (index, function) in parts.functions.iter().enumerate() {
        let place = Place::Function(FunctionId(index as u32));
        for (param, ty) in &function.params {
            if !ty.computes() {
                let name = &function.body.values[param.index()];
                let (message, fix) = storage_type(&format!("parameter `%{name}`"), *ty);
                findings.report("V023", place, message, fix);
            }
        }
        if let Some(ty) = function.result.filter(|ty| !ty.computes()) {
            let (message, fix) = storage_type(&format!("the result of `@{}`", function.name), ty);
            findings.report("V023", place, message, fix);
        }
    }
}

/// Message and fix for something in registers that is declared with a storage type.
pub(super) fn storage_type(what: &str, ty: DataType) -> (String, String) {
    (
        format!("{what} has type {ty}, which exists only in memory"),
        format!("declare it as {}, the type that a loaded {ty} has", ty.computes_as()),
    )
}
