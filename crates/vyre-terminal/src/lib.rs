//! What every command line of this project prints and returns: exit codes, styles, tables, errors, JSON.
//!
//! The `vyre` command and a vendor's own binary (`vyre_conform::main`) print through [`Report`], so they look and end alike.
//! Colour appears only on terminals (`anstream` decides, and honours `NO_COLOR`).
//!
//! Not here: any command, and what a command reports.

mod report;
pub mod style;
pub mod table;

use clap::error::ErrorKind;
pub use report::Report;
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;

/// The exit codes.
pub mod exit {
    /// Success.
    pub const OK: u8 = 0;
    /// Findings: errors in a program, failed tests, differences, races; a backend that fails, a certificate that is rejected.
    pub const FINDINGS: u8 = 1;
    /// Wrong usage.
    pub const USAGE: u8 = 2;
    /// A run failed; of `verify`, the certificate is consistent and its key not trusted.
    pub const RUN: u8 = 3;
    /// A file could not be read or written.
    pub const IO: u8 = 4;
    /// Interrupted by the user.
    pub const INTERRUPTED: u8 = 130;

    /// The name of an exit code in JSON.
    pub fn kind(exit: u8) -> &'static str {
        ["ok", "findings", "usage", "run", "io"].get(usize::from(exit)).unwrap_or(&"run")
    }
}

/// The result of a command.
#[derive(Debug)]
pub struct Answer {
    /// The exit code.
    pub exit: u8,
    /// For people; styled, for a writer that strips styles where they are not wanted.
    pub text: String,
    /// For programs.
    pub json: Value,
}

/// Why a command has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: u8,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl Failure {
    /// A failure whose texts may quote others; what moves the cursor is replaced.
    pub fn new(exit: u8, message: impl Into<String>, fix: impl Into<String>) -> Failure {
        Failure { exit, message: printable(&message.into()), fix: printable(&fix.into()) }
    }

    /// Wrong usage.
    pub fn usage(message: impl Into<String>, fix: impl Into<String>) -> Failure {
        Failure::new(exit::USAGE, message, fix)
    }

    /// A file that cannot be read or written; `verb` says what was tried.
    pub fn io(verb: &str, path: &Path, error: &std::io::Error, fix: &str) -> Failure {
        Failure::new(exit::IO, format!("cannot {verb} {}: {error}", path.display()), fix)
    }

    /// A command line that could not be parsed: prints the help that was asked for, or says what is wrong.
    pub fn from_usage(error: &clap::Error) -> Result<u8, Failure> {
        if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            let _ = error.print();
            return Ok(if error.use_stderr() { exit::USAGE } else { exit::OK });
        }
        let text = error.render().to_string();
        let words = text.split("\n\n").next().unwrap_or_default().split_whitespace();
        let message = words.collect::<Vec<_>>().join(" ");
        let message = message.trim_start_matches("error: ");
        if let Some(value) = error.source().and_then(|source| source.downcast_ref::<ValueError>()) {
            return Err(Failure::usage(message, &value.fix));
        }
        let line = |start: &str| text.lines().find_map(|line| line.trim_start().strip_prefix(start));
        let (message, values) = match message.split_once(" [possible values: ") {
            Some((message, values)) => (message, Some(values.trim_end_matches(']'))),
            None => (message, None),
        };
        let fix = match (line("tip: ").filter(|tip| tip.contains("similar")), values, line("Usage: ")) {
            (Some(tip), _, _) => tip.to_owned(),
            (None, Some(values), _) => format!("write one of: {values}"),
            (None, None, Some(usage)) => format!("write `{usage}`; `--help` says more"),
            (None, None, None) => "see `--help`".into(),
        };
        Err(Failure::usage(message, fix))
    }

    /// The JSON form.
    pub fn json(&self) -> Value {
        json!({ "kind": exit::kind(self.exit), "message": self.message, "fix": self.fix })
    }
}

/// A value on the command line that an option does not take. Value parsers return it, and [`Failure::from_usage`] reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValueError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl ValueError {
    /// Both texts.
    pub fn new(message: impl Into<String>, fix: impl Into<String>) -> ValueError {
        ValueError { message: message.into(), fix: fix.into() }
    }
}

/// A text of several lines that may quote others, without what moves the cursor.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_cannot_move_the_cursor() {
        let failure = Failure::new(1, "no field `\x1b[2J`\nat all", "\rdo it");
        assert_eq!(
            (failure.message.as_str(), failure.fix.as_str()),
            ("no field `\u{fffd}[2J`\nat all", "\u{fffd}do it")
        );
    }

    #[test]
    fn the_fix_of_a_value_reaches_the_failure() {
        fn parse(_: &str) -> Result<u32, ValueError> {
            Err(ValueError::new("not a count", "write a number"))
        }
        let command = clap::Command::new("c").arg(clap::Arg::new("n").value_parser(parse));
        let error = command.try_get_matches_from(["c", "x"]).unwrap_err();
        let failure = Failure::from_usage(&error).unwrap_err();
        assert_eq!(failure, Failure::usage("invalid value 'x' for '[n]': not a count", "write a number"));
    }
}

// The example of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
