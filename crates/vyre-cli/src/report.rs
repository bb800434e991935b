//! Why a command fails, as text and as JSON.

use serde_json::{Value, json};
use vyre::diagnostic::Diagnostic;
use vyre::host::{Error, ErrorKind};
use vyre::spec::{SpecError, SpecErrorKind};
use vyre::text::{self, SourceMap};

pub(crate) use vyre_terminal::Report;
pub(crate) use vyre_terminal::exit::{self, FINDINGS, IO, OK, RUN, USAGE};
pub(crate) use vyre_terminal::style::{BAD, BOLD, DIM, GOOD, highlight, paint};

/// A finding with its place in a file.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) code: String,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    pub(crate) message: String,
    pub(crate) fix: String,
    pub(crate) rendered: String,
}

impl Found {
    pub(crate) fn new(finding: &Diagnostic, file: &str, source: &str, map: &SourceMap) -> Found {
        let span = map.span(finding.place);
        Found {
            code: finding.code.into(),
            line: span.map(|span| span.line),
            column: span.map(|span| span.column),
            message: text::as_written(&finding.message, source),
            fix: text::as_written(&finding.fix, source),
            rendered: text::render(finding, file, source, map),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let Found { code, line, column, message, fix, rendered: _ } = self;
        json!({ "code": code, "line": line, "column": column, "message": message, "fix": fix })
    }
}

/// Why a command has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A program has errors.
    Findings { file: String, findings: Vec<Found> },
    /// A run ended at a line.
    Trap { file: String, found: Box<Found> },
    /// Anything else.
    Message { exit: u8, message: String, fix: String },
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, fix: impl Into<String>) -> Failure {
        Failure::Message { exit: USAGE, message: message.into(), fix: fix.into() }
    }

    pub(crate) fn io(message: impl Into<String>, fix: impl Into<String>) -> Failure {
        Failure::Message { exit: IO, message: message.into(), fix: fix.into() }
    }

    pub(crate) fn exit(&self) -> u8 {
        match self {
            Failure::Findings { .. } => FINDINGS,
            Failure::Trap { .. } => RUN,
            Failure::Message { exit, .. } => *exit,
        }
    }

    pub(crate) fn json(&self) -> Value {
        match self {
            Failure::Findings { file, findings } => json!({ "kind": "findings", "file": file,
                "findings": findings.iter().map(Found::json).collect::<Vec<_>>() }),
            Failure::Trap { file, found } => {
                let Found { line, column, message, fix, .. } = &**found;
                json!({ "kind": "run", "file": file, "line": line, "column": column, "message": message, "fix": fix })
            }
            Failure::Message { exit, message, fix } => {
                json!({ "kind": exit::kind(*exit), "message": message, "fix": fix })
            }
        }
    }

    /// The text for people.
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Findings { findings, .. } => {
                findings.iter().map(|found| highlight(&found.rendered)).collect::<Vec<_>>().join("")
            }
            Failure::Trap { found, .. } => highlight(&found.rendered),
            Failure::Message { message, fix, .. } => highlight(&format!("error: {message}\n  Fix: {fix}\n")),
        }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Failure {
        let exit = match error.kind {
            SpecErrorKind::Spec => USAGE,
            SpecErrorKind::File => IO,
            SpecErrorKind::Memory => RUN,
        };
        Failure::Message { exit, message: error.message, fix: error.fix }
    }
}

impl From<vyre_terminal::Failure> for Failure {
    fn from(failure: vyre_terminal::Failure) -> Failure {
        Failure::Message { exit: failure.exit, message: failure.message, fix: failure.fix }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match error.kind {
            ErrorKind::Program => FINDINGS,
            ErrorKind::Launch => USAGE,
            ErrorKind::Trap { .. } | ErrorKind::Timeout | ErrorKind::Memory | ErrorKind::Device => RUN,
        };
        Failure::Message { exit, message: error.message, fix: error.fix }
    }
}

/// Prints a failure, and returns its exit code.
pub(crate) fn print_failure(report: &Report, failure: &Failure) -> u8 {
    report.error(failure.json(), &failure.text());
    failure.exit()
}
