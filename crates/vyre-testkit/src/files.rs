//! Runs the file tests of folders on backends, and compares their bytes with the reference's.

use crate::{compare, repo};
use std::path::Path;
use vyre::spec::{Expect, Run, directives};
use vyre_driver::{BackendError, DispatchConfig, VyreBackend};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::{text, validate};
use vyre_generate::Case;

/// Runs every directive of the programs below `folders` that expects no race, on each backend. Returns how many ran.
///
/// # Panics
/// If some are wrong, after all have run.
pub fn check(folders: &[&str], backends: &[(String, &dyn VyreBackend)]) -> usize {
    let (mut ran, mut wrong) = (0, Vec::new());
    for (place, case) in cases(folders) {
        let expected = compare::expected(&case).expect("the reference runs it");
        for (name, backend) in backends {
            ran += 1;
            if let Err(message) = agrees(*backend, &case, &expected) {
                wrong.push(format!("{place} by {name}: {message}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {ran} runs are wrong:\n{}", wrong.len(), wrong.join("\n"));
    ran
}

/// The launch of every directive of the programs below `folders` that expects no race, with the directive's place.
pub fn cases(folders: &[&str]) -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    for path in folders.iter().flat_map(|folder| repo::files(folder, "vyre")) {
        let source = repo::read(&path).expect("listed files can be read");
        let Ok(parsed) = text::parse(&source) else { continue };
        if validate::validate(&parsed.program).is_err() {
            continue;
        }
        for run in directives(&source).0.runs.iter().filter(|run| run.expect != Expect::Race) {
            let folder = path.parent().expect("files are in folders");
            let place = || format!("{}:{}", repo::name(&path), run.line);
            cases.extend(case_of(&parsed.program, run, folder).map(|case| (place(), case)));
        }
    }
    cases
}

/// The launch that a directive describes; `None` where it leaves something out.
fn case_of(program: &Program, run: &Run, folder: &Path) -> Option<Case> {
    let parts = program.parts();
    let buffers = bound_buffers(parts).into_iter().map(|id| {
        let buffer = parts.buffer(id);
        if let Some((_, spec)) = run.inputs.iter().find(|(name, _)| **name == *buffer.name) {
            return spec.bytes_for(buffer, folder).ok();
        }
        let size = run.sizes.iter().find(|(name, _)| **name == *buffer.name).map(|(_, count)| *count);
        Some(vec![0; size.or(buffer.len.map(u64::from))? as usize * buffer.ty.bytes()])
    });
    Some(Case { program: program.clone(), grid: run.grid, buffers: buffers.collect::<Option<_>>()? })
}

/// Whether a backend gives the expected bytes, or the expected trap.
pub fn agrees(backend: &dyn VyreBackend, case: &Case, expected: &compare::Bytes) -> Result<(), String> {
    let config = DispatchConfig { grid_override: case.grid, ..DispatchConfig::default() };
    let found = backend.dispatch(&case.program, &case.buffers, &config);
    let (expected, found) = match (expected, found) {
        (Ok(expected), Ok(found)) => (expected, found),
        (Err(expected), Err(BackendError::Trap { code, .. })) if code == *expected => return Ok(()),
        (Ok(_), Err(error)) => return Err(format!("failed: {error}")),
        (Err(trap), found) => return Err(format!("trap {trap} is expected, and it gave {:?}", found.err())),
    };
    let parts = case.program.parts();
    let outputs =
        bound_buffers(parts).into_iter().zip(expected).filter(|(id, _)| parts.buffer(*id).is_output());
    for ((id, expected), found) in outputs.zip(found) {
        if let Some(difference) = vyre::filetest::difference(parts.buffer(id), expected, &found) {
            return Err(difference);
        }
    }
    Ok(())
}
