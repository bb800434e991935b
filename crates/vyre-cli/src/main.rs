//! The `vyre` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    vyre_cli::main()
}
