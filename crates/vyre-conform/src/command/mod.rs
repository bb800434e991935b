//! The commands `certify`, `verify`, `replay` and `keygen`, for the `vyre` command and for a vendor's own.
//!
//! `args` has the options; each command has one file. A command returns its result as text and as JSON, and the caller
//! prints one of them; only progress is printed during a run, on standard error.
//!
//! Not here: how results are printed, colours and exit codes; `vyre-terminal` has those for every command line.

mod args;
mod certify;
mod file;
mod keygen;
mod progress;
mod replay;
mod vendor;
mod verify;

use crate::contract::VyreBackend;
use crate::target::{DriverTarget, Target, VendorTarget};
pub use args::Command;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
pub use vendor::main;
use vyre_driver::{VyreBackend as DriverBackend, registry};
use vyre_terminal::{Answer, Failure, exit, table};

/// Opens a vendor's backend.
type Open<'a> = &'a dyn Fn() -> Result<Box<dyn VyreBackend>, String>;

/// Which backends a binary has.
#[derive(Clone, Copy)]
pub enum Backends<'a> {
    /// Every driver that is linked and registered.
    Registered,
    /// One, which implements the vendor's trait.
    Vendor(Open<'a>),
}

/// The binary that runs a command.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Its name, in the commands that it tells people to run.
    pub program: &'a str,
    /// The backends it has.
    pub backends: Backends<'a>,
    /// Whether it prints nothing until the command ends.
    pub quiet: bool,
}

/// Runs a command.
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
    /// Opens the backend with this id, or the only one.
    fn open(&self, id: Option<&str>) -> Result<Opened, Failure> {
        match self.backends {
            Backends::Vendor(open) => {
                let vendor = open().map_err(not_opened)?;
                match id {
                    Some(id) if id != vendor.name() => Err(Failure::usage(
                        format!("there is no backend `{}` here", id.escape_debug()),
                        format!("leave `--backend` out: the only backend is `{}`", vendor.name()),
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
                let opened = registry::open(id).map(Opened::Driver);
                opened.map_err(|error| Failure::new(exit::RUN, error.message(), error.fix()))
            }
        }
    }
}

/// A vendor's own text, which has its `Fix:` inside.
fn not_opened(text: String) -> Failure {
    let fix = match text.contains("Fix:") {
        true => "do what the backend's message says",
        false => "see the backend's documentation",
    };
    Failure::new(exit::RUN, text, fix)
}

/// The most bytes of a key file.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// The text of a key file, up to the limit: an endless device does not fill the memory.
fn read_text(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(KEY_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| Failure::io("read", path, &error, "check the file's name"))?;
    Ok(text)
}

fn plural(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", table::grouped(count as u64), if count == 1 { "" } else { "s" })
}
