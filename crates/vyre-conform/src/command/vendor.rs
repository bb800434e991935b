//! A vendor's ready-made `main`.

use super::{Answer, BAD, Backends, Command, Failure, GOOD, Host, exit, paint, run};
use crate::contract::VyreBackend;
use clap::{CommandFactory, FromArgMatches, Parser};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

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
    let (json, result) = match parse(&program) {
        Ok(Args { json, command }) => {
            let host = Host { program: &program, backends: Backends::Vendor(&open), quiet: json };
            (json, run(&command, &host))
        }
        Err(error) => match Failure::from_usage(&error) {
            Ok(exit) => return ExitCode::from(exit),
            Err(failure) => (std::env::args_os().any(|arg| arg == "--json"), Err(failure)),
        },
    };
    let (exit, out, err) = match result {
        Ok(Answer { exit, json: value, .. }) if json => (exit, format!("{value:#}\n"), String::new()),
        Ok(Answer { exit, text, .. }) => (exit, text, String::new()),
        Err(Failure { exit, message, fix }) if json => {
            let kind = ["ok", "findings", "usage", "run", "io"].get(usize::from(exit)).unwrap_or(&"run");
            let value = json!({ "error": { "kind": kind, "message": message, "fix": fix } });
            (exit, format!("{value:#}\n"), String::new())
        }
        Err(Failure { exit, message, fix }) => {
            let text = format!("{} {message}\n  {} {fix}\n", paint(BAD, "error:"), paint(GOOD, "Fix:"));
            (exit, String::new(), text)
        }
    };
    let _ = anstream::stderr().lock().write_all(err.as_bytes());
    match anstream::stdout().lock().write_all(out.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let fix = "make room for the output, or send it elsewhere";
            let _ =
                writeln!(anstream::stderr(), "error: cannot write to standard output: {error}\n  Fix: {fix}");
            ExitCode::from(exit::IO)
        }
        Ok(()) | Err(_) => ExitCode::from(exit),
    }
}

/// What this binary was started as.
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
