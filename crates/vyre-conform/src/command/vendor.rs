//! A vendor's ready-made `main`.

use super::{Backends, Command, Host, run};
use crate::contract::VyreBackend;
use clap::{CommandFactory, FromArgMatches, Parser};
use std::process::ExitCode;
use vyre_terminal::{Failure, Report};

/// Runs the conformance suite on this backend.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Print one JSON object instead of text
    #[arg(long, global = true, display_order = 100)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

/// A whole command line for a vendor's backend: `certify`, `verify`, `replay` and `keygen`, as `vyre` has them.
///
/// ```no_run
/// # struct VendorBackend;
/// # impl vyre_conform::VyreBackend for VendorBackend {
/// #     fn name(&self) -> &str { "vendor" }
/// #     fn dispatch(&self, _: &str, _: &[u8], _: usize, _: vyre_conform::DispatchConfig) -> Result<Vec<u8>, String> { unreachable!() }
/// # }
/// # impl VendorBackend { fn open() -> Result<VendorBackend, String> { Ok(VendorBackend) } }
/// fn main() -> std::process::ExitCode {
///     vyre_conform::main(VendorBackend::open)
/// }
/// ```
///
/// `open` is called by the commands that run the backend. An error of it should have a `Fix:`.
pub fn main<B: VyreBackend + 'static>(open: impl Fn() -> Result<B, String>) -> ExitCode {
    let program = program_name();
    let open = || open().map(|backend| Box::new(backend) as Box<dyn VyreBackend>);
    let (report, result) = match parse(&program) {
        Ok(Args { json, command }) => {
            let host = Host { program: &program, backends: Backends::Vendor(&open), quiet: json };
            (Report::new(json), run(&command, &host))
        }
        Err(error) => match Failure::from_usage(&error) {
            Ok(exit) => return ExitCode::from(exit),
            Err(failure) => (Report::new(std::env::args_os().any(|arg| arg == "--json")), Err(failure)),
        },
    };
    let exit = match result {
        Ok(answer) => report.answer(answer),
        Err(failure) => report.failure(&failure),
    };
    ExitCode::from(report.finish(exit))
}

/// The name that this binary was started with.
fn program_name() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "conform".into())
}

/// Reads the command line. The help's examples are `vyre`'s; here they are this binary's.
fn parse(program: &str) -> Result<Args, clap::Error> {
    let command = Args::command().mut_subcommands(|command| {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let help = help.replace("  vyre ", &format!("  {program} "));
        let own =
            ["reference", "cpu"].iter().fold(help, |help, id| help.replace(&format!(" --backend {id}"), ""));
        command.after_help(own)
    });
    Args::from_arg_matches(&command.try_get_matches()?)
}
