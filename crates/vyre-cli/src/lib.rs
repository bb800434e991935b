//! The `vyre` command, for any binary that links backends of its own.
//!
//! A vendor's `main` is one line, `fn main() -> ExitCode { vyre_cli::main() }`: with their driver crate linked, every
//! command knows their backend.
//!
//! `args` says what can be asked, `command` has one file for each answer, `load` reads programs, `plan`
//! says what a run starts with, and `report` is the one place that writes: to people with colour on terminals, to programs as JSON.
//! Not here: any meaning. Everything it shows comes from the library.

mod args;
mod command;
mod load;
mod plan;
mod progress;
mod report;
mod spans;

use clap::Parser;
use std::process::ExitCode;

/// Answers the command line of this process.
pub fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let json = std::env::args_os().any(|arg| arg == "--json");
            return ExitCode::from(match vyre_conform::command::Failure::from_usage(&error) {
                Ok(exit) => exit,
                Err(failure) => report::Report::new(json).failure(&failure.into()),
            });
        }
    };
    let report = report::Report::new(args.json);
    let exit = match command::run(args.command, &report) {
        Ok(exit) => exit,
        Err(failure) => report.failure(&failure),
    };
    ExitCode::from(report.finish(exit))
}
