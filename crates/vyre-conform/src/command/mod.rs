//! The commands `certify`, `verify`, `replay` and `keygen`, for the `vyre` command and for a vendor's own.
//!
//! `args` says what can be asked; one file for each command answers. A command returns what it has to say, as text and
//! as JSON, and whoever called it prints one of them; only progress is shown on the way, on standard error.

mod args;
mod certify;
mod file;
mod keygen;
mod progress;
mod replay;
pub mod table;
mod vendor;
mod verify;

use crate::contract::VyreBackend;
use crate::show::lines;
use crate::target::{DriverTarget, Target, VendorTarget};
pub use args::Command;
use clap::error::ErrorKind;
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use style::{BAD, BOLD, DIM, GOOD, WARN, paint};
pub use vendor::main;
use vyre_driver::{BackendError, VyreBackend as DriverBackend, registry};

/// How a command ends.
pub mod exit {
    /// All is well.
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
}

/// How words look on terminals.
pub mod style {
    use anstyle::{AnsiColor, Style};

    /// Names and heads.
    pub const BOLD: Style = Style::new().bold();
    /// What matters less.
    pub const DIM: Style = Style::new().dimmed();
    /// What is wrong.
    pub const BAD: Style = AnsiColor::Red.on_default().bold();
    /// What may be wrong.
    pub const WARN: Style = AnsiColor::Yellow.on_default().bold();
    /// What is right, or what to do.
    pub const GOOD: Style = AnsiColor::Green.on_default().bold();

    /// `text` in a style; the writer strips it where colour is not wanted.
    pub fn paint(style: Style, text: &str) -> String {
        format!("{style}{text}{style:#}")
    }
}

/// What a command has to say.
#[derive(Debug)]
pub struct Answer {
    /// The exit code.
    pub exit: u8,
    /// For people; styled, for a writer that strips styles where they are not wanted.
    pub text: String,
    /// For programs.
    pub json: Value,
}

/// Why a command has no answer.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: u8,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl Failure {
    fn new(exit: u8, message: impl Into<String>, fix: impl Into<String>) -> Failure {
        Failure { exit, message: lines(&message.into()), fix: lines(&fix.into()) }
    }

    fn usage(message: impl Into<String>, fix: impl Into<String>) -> Failure {
        Failure::new(exit::USAGE, message, fix)
    }

    /// A command line that could not be read: prints the help that was asked for, or says what is wrong.
    pub fn from_usage(error: &clap::Error) -> Result<u8, Failure> {
        if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            let _ = error.print();
            return Ok(if error.use_stderr() { exit::USAGE } else { exit::OK });
        }
        let text = error.render().to_string();
        let words = text.split("\n\n").next().unwrap_or_default().split_whitespace();
        let message = words.collect::<Vec<_>>().join(" ");
        let message = message.trim_start_matches("error: ");
        if let Some((message, fix)) = message.split_once("Fix: ") {
            return Err(Failure::usage(message.trim_end_matches(['.', ' ']), fix));
        }
        let line = |start: &str| text.lines().find_map(|line| line.trim_start().strip_prefix(start));
        let (message, values) = match message.split_once(" [possible values: ") {
            Some((message, values)) => (message, Some(values.trim_end_matches(']'))),
            None => (message, None),
        };
        let fix = match (line("tip: ").filter(|tip| tip.contains("similar")), values, line("Usage: ")) {
            (Some(tip), _, _) => tip.to_owned(),
            (None, Some(values), _) => format!("write one of: {values}"),
            (None, None, Some(usage)) => format!("write `{usage}`; `--help` tells more"),
            (None, None, None) => "see `--help`".into(),
        };
        Err(Failure::usage(message, fix))
    }

    fn io(verb: &str, path: &Path, error: &std::io::Error, fix: &str) -> Failure {
        Failure::new(exit::IO, format!("cannot {verb} {}: {error}", path.display()), fix)
    }

    /// From a text that has its fix in it.
    fn with_fix(exit: u8, text: &str) -> Failure {
        match text.split_once("Fix: ") {
            Some((message, fix)) => Failure::new(exit, message.trim_end_matches(['.', ' ', '\n']), fix),
            None => Failure::new(exit, text, "see the backend's documentation"),
        }
    }
}

/// Opens a vendor's backend.
type Open<'a> = &'a dyn Fn() -> Result<Box<dyn VyreBackend>, String>;

/// Which backends a binary has.
#[derive(Clone, Copy)]
pub enum Backends<'a> {
    /// Every driver that is linked and registered.
    Registered,
    /// One, behind the vendor's trait.
    Vendor(Open<'a>),
}

/// The binary that answers.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// What it is called, in the commands it tells people to run.
    pub program: &'a str,
    /// The backends it has.
    pub backends: Backends<'a>,
    /// Whether it is silent until it answers.
    pub quiet: bool,
}

/// Answers a command.
pub fn run(command: &Command, host: &Host<'_>) -> Result<Answer, Failure> {
    match command {
        Command::Certify(args) => certify::run(args, host),
        Command::Verify(args) => verify::run(args),
        Command::Replay(args) => replay::run(args, host),
        Command::Keygen(args) => keygen::run(args),
    }
}

/// A backend, ready to run.
enum Opened {
    Driver(Arc<dyn DriverBackend>),
    Vendor(Box<dyn VyreBackend>),
}

impl Opened {
    fn target(&self) -> Box<dyn Target + '_> {
        match self {
            Opened::Driver(driver) => Box::new(DriverTarget::new(&**driver)),
            Opened::Vendor(vendor) => Box::new(VendorTarget::new(&**vendor)),
        }
    }
}

impl Host<'_> {
    /// Opens the backend that is asked for: by its id, or the only one there is.
    fn open(&self, id: Option<&str>) -> Result<Opened, Failure> {
        match self.backends {
            Backends::Vendor(open) => {
                let vendor = open().map_err(|error| Failure::with_fix(exit::RUN, &error))?;
                match id {
                    Some(id) if id != vendor.name() => Err(Failure::usage(
                        format!("there is no backend `{}` here", id.escape_debug()),
                        format!("leave `--backend` out: this command has only `{}`", vendor.name()),
                    )),
                    Some(_) | None => Ok(Opened::Vendor(vendor)),
                }
            }
            Backends::Registered => {
                let known: Vec<&str> = registry::registrations().iter().map(|one| one.id).collect();
                let Some(id) = id else {
                    return Err(Failure::usage(
                        "no backend is named",
                        format!("add `--backend ID` with one of: {}", known.join(", ")),
                    ));
                };
                if !known.contains(&id) {
                    return Err(Failure::usage(
                        format!("there is no backend `{}`", id.escape_debug()),
                        format!("choose among: {}", known.join(", ")),
                    ));
                }
                let failed = |error: BackendError| Failure::with_fix(exit::RUN, &error.to_string());
                registry::open(id).map(Opened::Driver).map_err(failed)
            }
        }
    }
}

/// The most bytes of a key file.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// A key's file, as far as any key reaches: a device that never ends does not fill the memory.
fn read_text(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(KEY_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| Failure::io("read", path, &error, "check the file's name"))?;
    Ok(text)
}

fn plural(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", table::grouped(count as u64), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::Failure;

    #[test]
    fn a_strangers_words_do_not_reach_the_terminal_as_they_are() {
        let failure = Failure::new(1, "no field `\x1b[2J`\nat all", "\rdo it");
        assert_eq!(
            (failure.message.as_str(), failure.fix.as_str()),
            ("no field `\u{fffd}[2J`\nat all", "\u{fffd}do it")
        );
    }
}
