//! What can go wrong between a program and a device.
//!
//! A variant names the real cause, so that a caller can act on it without reading text. Every error has a
//! [`fix`](BackendError::fix) that the reader can do, and its text ends in it.

use std::fmt;
use std::time::Duration;
use vyre_foundation::diagnostic::Place;

/// Why a backend did not return bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Each variant's line says what its fields are.
pub enum BackendError {
    /// The program is not valid; `fix` says what to change and why.
    InvalidProgram { fix: String },
    /// The backend lacks a feature that the call needs.
    UnsupportedFeature { name: String, backend: String },
    /// The inputs, sizes or grid of a launch do not fit the program.
    InvalidLaunch { message: String, fix: String },
    /// The launch or program is larger than a limit the backend published.
    LimitExceeded { what: String, asked: u64, limit: u64, backend: String },
    /// Host or device memory ran out.
    OutOfMemory { what: String, requested_bytes: u64 },
    /// The device is gone; every handle and pipeline of it is invalid.
    DeviceLost { backend: String, cause: String },
    /// The dispatch outlived `DispatchConfig::timeout`.
    Timeout { limit: Duration },
    /// The caller cancelled the dispatch.
    Cancelled,
    /// A resident handle or device buffer cannot be used for this call.
    BadHandle { handle: u64, cause: HandleFault },
    /// A lane trapped; `place` is the line, of those that trapped the first in the program, and `lane` one that did.
    Trap { code: u32, place: Place, lane: Option<[u32; 3]> },
    /// The backend's compiler refused what we emitted.
    CompileFailed { backend: String, message: String, fix: String },
    /// A pipeline was compiled for a device that is gone.
    PipelineInvalidated { backend: String },
    /// A cooperative launch has more workgroups than can be resident at once.
    CooperativeResidencyExceeded { workgroups: u64, resident: u64 },
    /// A duration does not fit the 64 bits of its field.
    ClockOverflow { what: String },
    /// The backend was shut down.
    ShutDown { backend: String },
    /// No backend has that id, or it cannot run on this machine.
    Unavailable { backend: String, reason: String, fix: String },
    /// What a backend reported that no other variant names. `fix` is `None` where a backend outside this family gave one
    /// text, which has its `Fix:` inside.
    Other { message: String, fix: Option<String> },
}

/// What is wrong with a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandleFault {
    /// No allocation ever had this handle.
    Unknown,
    /// The allocation was freed.
    Freed,
    /// Its device was lost.
    Lost,
    /// Another backend made it.
    Foreign,
    /// A dispatch still uses it.
    InUse,
    /// A failed dispatch left its bytes undefined.
    Invalidated,
    /// It is bound twice, and at least once for writing.
    BoundTwice,
    /// Borrowed bytes were passed where a resident handle is needed.
    NotResident,
}

/// A stable name for each kind of error, for logs and for callers in other languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Named as the variants of `BackendError`.
pub enum ErrorCode {
    InvalidProgram,
    UnsupportedFeature,
    InvalidLaunch,
    LimitExceeded,
    OutOfMemory,
    DeviceLost,
    Timeout,
    Cancelled,
    BadHandle,
    Trap,
    CompileFailed,
    PipelineInvalidated,
    CooperativeResidencyExceeded,
    ClockOverflow,
    ShutDown,
    Unavailable,
    Other,
}

impl ErrorCode {
    /// The code as text; it never changes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ErrorCode::InvalidProgram => "InvalidProgram",
            ErrorCode::UnsupportedFeature => "UnsupportedFeature",
            ErrorCode::InvalidLaunch => "InvalidLaunch",
            ErrorCode::LimitExceeded => "LimitExceeded",
            ErrorCode::OutOfMemory => "OutOfMemory",
            ErrorCode::DeviceLost => "DeviceLost",
            ErrorCode::Timeout => "Timeout",
            ErrorCode::Cancelled => "Cancelled",
            ErrorCode::BadHandle => "BadHandle",
            ErrorCode::Trap => "Trap",
            ErrorCode::CompileFailed => "CompileFailed",
            ErrorCode::PipelineInvalidated => "PipelineInvalidated",
            ErrorCode::CooperativeResidencyExceeded => "CooperativeResidencyExceeded",
            ErrorCode::ClockOverflow => "ClockOverflow",
            ErrorCode::ShutDown => "ShutDown",
            ErrorCode::Unavailable => "Unavailable",
            ErrorCode::Other => "Other",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl BackendError {
    /// An error in a backend's own words, which should end in a `Fix:`.
    #[must_use]
    pub fn new(message: String) -> BackendError {
        BackendError::Other { message, fix: None }
    }

    /// An error that no other variant names, with what to do about it.
    #[must_use]
    pub fn other(message: impl Into<String>, fix: impl Into<String>) -> BackendError {
        BackendError::Other { message: message.into(), fix: Some(fix.into()) }
    }

    /// A valid program that the backend's compiler refused, which is a defect.
    #[must_use]
    pub fn compile_failed(backend: &str, message: impl Into<String>) -> BackendError {
        let fix = "report the program: a valid program must compile; another backend may run it meanwhile";
        BackendError::CompileFailed { backend: backend.into(), message: message.into(), fix: fix.into() }
    }

    /// The stable name of this kind of error.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            BackendError::InvalidProgram { .. } => ErrorCode::InvalidProgram,
            BackendError::UnsupportedFeature { .. } => ErrorCode::UnsupportedFeature,
            BackendError::InvalidLaunch { .. } => ErrorCode::InvalidLaunch,
            BackendError::LimitExceeded { .. } => ErrorCode::LimitExceeded,
            BackendError::OutOfMemory { .. } => ErrorCode::OutOfMemory,
            BackendError::DeviceLost { .. } => ErrorCode::DeviceLost,
            BackendError::Timeout { .. } => ErrorCode::Timeout,
            BackendError::Cancelled => ErrorCode::Cancelled,
            BackendError::BadHandle { .. } => ErrorCode::BadHandle,
            BackendError::Trap { .. } => ErrorCode::Trap,
            BackendError::CompileFailed { .. } => ErrorCode::CompileFailed,
            BackendError::PipelineInvalidated { .. } => ErrorCode::PipelineInvalidated,
            BackendError::CooperativeResidencyExceeded { .. } => ErrorCode::CooperativeResidencyExceeded,
            BackendError::ClockOverflow { .. } => ErrorCode::ClockOverflow,
            BackendError::ShutDown { .. } => ErrorCode::ShutDown,
            BackendError::Unavailable { .. } => ErrorCode::Unavailable,
            BackendError::Other { .. } => ErrorCode::Other,
        }
    }

    /// What is wrong, without the fix.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            BackendError::InvalidProgram { .. } => "the program is not valid".into(),
            BackendError::UnsupportedFeature { name, backend } => {
                format!("backend `{backend}` does not support {name}")
            }
            BackendError::InvalidLaunch { message, .. } => message.clone(),
            BackendError::LimitExceeded { what, asked, limit, backend } => {
                format!("{what} is {asked}, and backend `{backend}` allows {limit}")
            }
            BackendError::OutOfMemory { what, requested_bytes } => {
                format!("out of memory: {what} needs {requested_bytes} bytes")
            }
            BackendError::DeviceLost { backend, cause } => {
                format!("backend `{backend}` lost its device: {cause}")
            }
            BackendError::Timeout { limit } => {
                format!("the dispatch ran longer than its timeout of {limit:?}")
            }
            BackendError::Cancelled => "the dispatch was cancelled".into(),
            BackendError::BadHandle { handle, cause } => {
                format!("resident handle {handle:#x} {}", cause.message())
            }
            BackendError::Trap { code, place, .. } => match place {
                Place::Line { function: Some(function), site } => {
                    format!("trap {code} at line {site} of function {}", function.0)
                }
                Place::Line { function: None, site } => format!("trap {code} at line {site} of the body"),
                Place::Source(_) | Place::Program | Place::Buffer(_) | Place::Function(_) => {
                    format!("trap {code}")
                }
            },
            BackendError::CompileFailed { backend, message, .. } => {
                format!("backend `{backend}` could not compile the program: {message}")
            }
            BackendError::PipelineInvalidated { backend } => {
                format!("the pipeline belongs to a device that backend `{backend}` lost")
            }
            BackendError::CooperativeResidencyExceeded { workgroups, resident } => {
                format!(
                    "{workgroups} workgroups must be resident at once for a grid barrier, and {resident} fit"
                )
            }
            BackendError::ClockOverflow { what } => format!("{what} does not fit 64 bits of nanoseconds"),
            BackendError::ShutDown { backend } => format!("backend `{backend}` was shut down"),
            BackendError::Unavailable { backend, reason, .. } => {
                format!("backend `{backend}` is not available: {reason}")
            }
            BackendError::Other { message, .. } => message.clone(),
        }
    }

    /// What the reader can do about it.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            BackendError::InvalidProgram { fix }
            | BackendError::InvalidLaunch { fix, .. }
            | BackendError::CompileFailed { fix, .. }
            | BackendError::Other { fix: Some(fix), .. }
            | BackendError::Unavailable { fix, .. } => fix.clone(),
            BackendError::UnsupportedFeature { .. } => {
                "choose a backend that reports it (`vyre devices` lists them), or let routing choose".into()
            }
            BackendError::LimitExceeded { .. } => {
                "make the launch smaller, split it, or choose a backend with a higher limit".into()
            }
            BackendError::OutOfMemory { .. } => {
                "free resident buffers, dispatch in smaller pieces, or use a device with more memory".into()
            }
            BackendError::DeviceLost { .. } => {
                "call `try_recover`, then compile pipelines and upload resident buffers again".into()
            }
            BackendError::Timeout { .. } => {
                "allow more time (`DispatchConfig::timeout`, `--timeout`), or dispatch less work at once".into()
            }
            BackendError::Cancelled => "dispatch again if the result is still wanted".into(),
            BackendError::BadHandle { cause, .. } => cause.fix().into(),
            BackendError::Trap { .. } => {
                "correct the input that the trap guards against, and upload resident buffers the program writes again"
                    .into()
            }
            BackendError::PipelineInvalidated { .. } => "compile the program again after recovery".into(),
            BackendError::CooperativeResidencyExceeded { .. } => {
                "launch fewer workgroups, or let routing split the program at its grid barriers".into()
            }
            BackendError::ClockOverflow { .. } => "measure a shorter sequence".into(),
            BackendError::ShutDown { .. } => "open the backend again with `registry::reopen`".into(),
            BackendError::Other { fix: None, .. } if self.has_own_fix() => {
                "do what the backend's message says, or choose another backend".into()
            }
            BackendError::Other { fix: None, .. } => {
                "report this to the backend's author: its error names no fix".into()
            }
        }
    }

    /// Whether this is the one text of a backend outside this family, with a `Fix:` inside.
    fn has_own_fix(&self) -> bool {
        matches!(self, BackendError::Other { message, fix: None } if message.contains("Fix:"))
    }
}

impl HandleFault {
    const fn message(self) -> &'static str {
        match self {
            HandleFault::Unknown => "was never allocated",
            HandleFault::Freed => "was freed",
            HandleFault::Lost => "was lost with its device",
            HandleFault::Foreign => "belongs to another backend",
            HandleFault::InUse => "is used by a dispatch that has not ended",
            HandleFault::Invalidated => "holds undefined bytes since a dispatch that could write it failed",
            HandleFault::BoundTwice => "is bound twice in one dispatch, once of them for writing",
            HandleFault::NotResident => "is needed, and borrowed bytes were given",
        }
    }

    const fn fix(self) -> &'static str {
        match self {
            HandleFault::Unknown => "pass a handle that `allocate_resident` returned",
            HandleFault::Lost => "allocate it again on the recovered device and upload its bytes",
            HandleFault::Freed => "allocate it again, and drop copies of a handle when it is freed",
            HandleFault::Foreign => "use each handle with the backend that made it",
            HandleFault::InUse => "wait for the dispatch, then free",
            HandleFault::Invalidated => "upload the whole buffer again",
            HandleFault::BoundTwice => "bind two buffers, or one buffer once",
            HandleFault::NotResident => "allocate with `allocate_resident` and upload the bytes",
        }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.has_own_fix() {
            true => f.write_str(&self.message()),
            false => write!(f, "{}. Fix: {}", self.message(), self.fix()),
        }
    }
}

impl std::error::Error for BackendError {}
