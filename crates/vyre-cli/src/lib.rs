//! The `vyre` command, for any binary that links backends of its own.
//!
//! A vendor's `main` is one line, `fn main() -> ExitCode { vyre_cli::main() }`: with their driver crate linked, every
//! command knows their backend.
//!
//! `args` has the options, `command` one file for each subcommand, `load` reads programs, `plan` collects the inputs of a run,
//! and `report` has the errors; `vyre-terminal` prints.
//!
//! Not here: what programs mean. Everything that is printed comes from the library.

mod args;
mod command;
mod load;
mod plan;
mod progress;
mod report;
mod spans;

use clap::Parser;
use std::process::ExitCode;
use vyre_terminal::{Failure, Report};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let json = std::env::args_os().any(|arg| arg == "--json");
            return ExitCode::from(match Failure::from_usage(&error) {
                Ok(exit) => exit,
                Err(failure) => Report::new(json).failure(&failure),
            });
        }
    };
    let report = Report::new(args.json);
    let exit = match command::run(args.command, &report) {
        Ok(exit) => exit,
        Err(failure) => report::print_failure(&report, &failure),
    };
    ExitCode::from(report.finish(exit))
}
