//! `vyre completions`: a completion script for a shell.

use crate::args::{Args, Completions};
use crate::report::{Failure, OK, Report};
use clap::CommandFactory;
use serde_json::json;

pub(crate) fn run(args: &Completions, report: &Report) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "vyre", &mut script);
    report.json(|| json!({ "shell": args.shell.to_string(), "script": String::from_utf8_lossy(&script) }));
    if !report.is_json() {
        report.raw(&script);
    }
    Ok(OK)
}
