//! One file for each command. Each returns an exit code, or why the command failed.

#[cfg(feature = "bench")]
mod bench;
mod check;
mod compare;
mod completions;
mod convert;
mod devices;
mod doctor;
mod explain;
mod fmt;
mod lower;
mod ops;
mod opt;
mod run;
mod test;

use crate::args::Command;
use crate::report::{Failure, Report};
use crate::spans;
use vyre_conform::command as conform;

pub(crate) fn run(command: Command, report: &Report) -> Result<u8, Failure> {
    // A run that is recorded does it itself.
    if !matches!(&command, Command::Run(args) if args.trace.is_some()) {
        spans::listen();
    }
    match command {
        Command::Check(args) => check::run(&args, report),
        Command::Fmt(args) => fmt::run(&args, report),
        Command::Run(args) => run::run(&args, report),
        Command::Compare(args) => compare::run(&args, report),
        Command::Devices => devices::run(report),
        Command::Doctor => doctor::run(report),
        Command::Test(args) => test::run(&args, report),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(&args, report),
        Command::Opt(args) => opt::run(&args, report),
        Command::Lower(args) => lower::run(&args, report),
        Command::Convert(args) => convert::run(&args, report),
        Command::Explain(args) => explain::run(&args, report),
        Command::Ops(args) => ops::run(&args, report),
        Command::Conform(command) => conform(&command, report),
        Command::Completions(args) => completions::run(&args, report),
    }
}

/// The suite's own commands, which a vendor's binary has too.
fn conform(command: &conform::Command, report: &Report) -> Result<u8, Failure> {
    let host =
        conform::Host { program: "vyre", backends: conform::Backends::Registered, quiet: report.is_json() };
    Ok(report.answer(conform::run(command, &host)?))
}
