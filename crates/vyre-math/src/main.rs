//! Checks the elementary functions of a backend against `core-math`. `vyre bench math` measures them.
//!
//! `check` runs every f32 argument of the one-argument functions, in chunks, and compares each result to the last bit.
//! The progress is kept in a state file, so a check that was stopped resumes where it was.

mod check;
mod hard;
mod pairs;
mod sweep;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "vyre-math", about = "Checks the elementary functions against core-math")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare functions with core-math on all 2^32 arguments, or on many pairs.
    Check(check::Args),
    /// Find the f32 arguments that a function in f64 does not decide.
    Hard(check::Args),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Check(args) => check::run(&args),
        Command::Hard(args) => hard::run(&args),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            anstream::eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
