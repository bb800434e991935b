//! The one place that writes: text for people, JSON for programs.
//!
//! Colour appears only on terminals (`anstream` decides, and honours `NO_COLOR`). A closed pipe ends the output, not the
//! program: what a reader no longer wants is dropped silently.

use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{self, Write};
use vyre::diagnostic::Diagnostic;
use vyre::host::{Error, ErrorKind};
use vyre::spec::{SpecError, SpecErrorKind};
use vyre::text::{self, SourceMap};

pub(crate) use vyre_conform::command::exit::{FINDINGS, IO, OK, RUN, USAGE};
use vyre_conform::command::style::WARN;
pub(crate) use vyre_conform::command::style::{BAD, BOLD, DIM, GOOD, paint};

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

/// Why a command has no answer.
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
                let kind = ["ok", "findings", "usage", "run", "io"][usize::from(*exit)];
                json!({ "kind": kind, "message": message, "fix": fix })
            }
        }
    }

    /// What a person reads.
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

impl From<vyre_conform::command::Failure> for Failure {
    fn from(failure: vyre_conform::command::Failure) -> Failure {
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

/// Colours the words that a reader looks for.
pub(crate) fn highlight(rendered: &str) -> String {
    let mut out = String::with_capacity(rendered.len() + 64);
    for line in rendered.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        if body.starts_with("error") || body.starts_with("warning") {
            let head = body.find([' ', ':']).unwrap_or(body.len());
            let style = if body.starts_with("error") { BAD } else { WARN };
            out.push_str(&paint(style, &body[..head]));
            out.push_str(&body[head..]);
        } else if let Some(fix) = body.strip_prefix("  Fix:") {
            out.push_str("  ");
            out.push_str(&paint(GOOD, "Fix:"));
            out.push_str(fix);
        } else if body.starts_with("  |") {
            out.push_str(&paint(DIM, body));
        } else {
            out.push_str(body);
        }
        out.push_str(end);
    }
    out
}

/// How the command answers.
pub(crate) struct Report {
    json: bool,
    /// Why something could not be written, if the reader did not simply go away.
    unwritten: RefCell<Option<io::Error>>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Report {
        Report { json, unwritten: RefCell::new(None) }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Text for a person; nothing where JSON is asked for.
    pub(crate) fn text(&self, text: &str) {
        if !self.json {
            self.keep(anstream::stdout().lock().write_all(text.as_bytes()));
        }
    }

    /// Text for a person on standard error.
    pub(crate) fn note(&self, text: &str) {
        // Nothing else can be told to anyone if this fails.
        let _ = anstream::stderr().lock().write_all(text.as_bytes());
    }

    /// Bytes as they are.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        let mut out = io::stdout().lock();
        self.keep(out.write_all(bytes).and_then(|()| out.flush()));
    }

    /// The one JSON object, where it is asked for.
    pub(crate) fn json(&self, value: impl FnOnce() -> Value) {
        if self.json {
            let text = serde_json::to_string_pretty(&value()).expect("a JSON value can be written");
            self.raw(format!("{text}\n").as_bytes());
        }
    }

    /// The exit code of an answer, once all of it is written: a full disk is an error, a closed pipe is not.
    pub(crate) fn finish(&self, exit: u8) -> u8 {
        self.keep(io::stdout().flush());
        match self.unwritten.take() {
            None => exit,
            Some(error) => {
                let message = format!("cannot write to standard output: {error}");
                self.note(&Failure::io(message, "make room for the output, or send it elsewhere").text());
                IO
            }
        }
    }

    /// Remembers that something could not be written. A closed pipe only means that nobody reads on.
    fn keep(&self, written: io::Result<()>) {
        if let Err(error) = written
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.unwritten.borrow_mut().get_or_insert(error);
        }
    }

    /// A failure, and the exit code it means.
    pub(crate) fn failure(&self, failure: &Failure) -> u8 {
        self.json(|| json!({ "error": failure.json() }));
        if !self.json {
            self.note(&failure.text());
        }
        failure.exit()
    }
}
