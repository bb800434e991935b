//! The expected result of a case: the reference interpreter's, with its checks on.

use crate::case::{Bind, Case, words};
use bytemuck::cast_slice;
use vyre::host::{Error, ErrorKind, Kernel};
use vyre::launch::admit_buffers;
use vyre::reference::{self, FindingKind, Options, RunError};

/// The written buffers after all steps. A race in a kernel is an error: its results would mean nothing.
pub(crate) fn reference(case: &Case) -> Result<Vec<Vec<u32>>, Error> {
    let mut written: Vec<Vec<u8>> =
        case.writes.iter().map(|written| cast_slice(&written.start).to_vec()).collect();
    for step in &case.steps {
        let bytes = |bind: &Bind| match bind {
            Bind::Read(at) => cast_slice(&case.reads[*at]).to_vec(),
            Bind::Write(at) => written[*at].clone(),
        };
        let mut buffers: Vec<Vec<u8>> = step.binds.iter().map(bytes).collect();
        let kernel = Kernel::new(&case.programs[step.program])?;
        let program = kernel.program();
        let options = Options { check: true, ..Options::default() };
        let admission = admit_buffers(program, Some(step.grid), &buffers).map_err(RunError::from)?;
        let report = reference::run_in_place(&admission, &mut buffers, &options)?;
        if let Some(finding) = report.findings.iter().find(|finding| finding.kind == FindingKind::Race) {
            return Err(Error {
                kind: ErrorKind::Program,
                message: format!("lanes of `@{}` race: {finding:?}", program.parts().name),
                fix: "correct the kernel: `vyre run --check-races` shows both lines".into(),
            });
        }
        for (bind, bytes) in step.binds.iter().zip(buffers) {
            if let Bind::Write(at) = bind {
                written[*at] = bytes;
            }
        }
    }
    Ok(written.iter().map(|bytes| words(bytes)).collect())
}
