//! `vyre lower`: what a program becomes on its way to a device.

use crate::args::Lower;
use crate::load;
use crate::report::{Failure, OK, Report};
use serde_json::json;
use vyre::cpu::{CpuBackend, CpuConfig};
use vyre::host::Error;
use vyre::lower::{ptx, wgsl};
use vyre::validate::ValidProgram;

type Target = (&'static str, fn(&ValidProgram) -> Result<String, Failure>);

const TARGETS: [Target; 3] = [("asm", asm), ("ptx", ptx), ("wgsl", wgsl)];

pub(crate) fn run(args: &Lower, report: &Report) -> Result<u8, Failure> {
    let Some((target, lower)) = TARGETS.iter().find(|(name, _)| *name == args.target) else {
        return Err(Failure::usage(
            format!("there is no target `{}`", args.target.escape_debug()),
            format!("choose among: {}", TARGETS.map(|(name, _)| name).join(", ")),
        ));
    };
    let loaded = load::program(&args.file)?;
    let program = loaded.valid()?;
    let text = lower(&program)?;
    if let Some(path) = &args.output {
        std::fs::write(path, &text).map_err(|error| {
            Failure::io(format!("cannot write {}: {error}", path.display()), "name a place you may write to")
        })?;
    }
    report.json(|| {
        let digest = program.program().digest().to_string();
        json!({ "target": target, "program": program.program().name(), "digest": digest, "text": text })
    });
    if args.output.is_none() {
        report.text(&text);
    }
    Ok(OK)
}

fn asm(program: &ValidProgram) -> Result<String, Failure> {
    let open = || CpuBackend::new(CpuConfig::from_env()?)?.listing(program.program());
    open().map_err(|error| Failure::from(Error::from(error)))
}

fn ptx(program: &ValidProgram) -> Result<String, Failure> {
    Ok(ptx::lower(program, &ptx::Options::default()).map_err(|error| refused(&error))?.source)
}

fn wgsl(program: &ValidProgram) -> Result<String, Failure> {
    let options = wgsl::Options { form: wgsl::Form::Driver, lookup_binding: None };
    Ok(wgsl::lower(program, &options).map_err(|error| refused(&error))?.source)
}

/// A program that a target has no form for.
fn refused(error: &dyn std::error::Error) -> Failure {
    let text = error.to_string();
    let (message, fix) = text.split_once(" Fix: ").unwrap_or((&text, "choose another target"));
    Failure::usage(message.trim_end_matches('.'), fix)
}
