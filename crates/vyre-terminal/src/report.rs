//! The one place that writes: text for people, JSON for programs.
//!
//! A closed pipe ends the output, not the program: what a reader no longer wants is dropped silently.

use super::style::highlight;
use super::{Answer, Failure, exit};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{self, Write};

/// How a command prints.
pub struct Report {
    json: bool,
    /// Why something could not be written, if the reader did not simply go away.
    unwritten: RefCell<Option<io::Error>>,
}

impl Report {
    /// Prints one JSON object, or text.
    pub fn new(json: bool) -> Report {
        Report { json, unwritten: RefCell::new(None) }
    }

    /// Whether JSON is asked for.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Text for a person; nothing where JSON is asked for.
    pub fn text(&self, text: &str) {
        if !self.json {
            self.keep(anstream::stdout().lock().write_all(text.as_bytes()));
        }
    }

    /// Text for a person on standard error.
    pub fn note(&self, text: &str) {
        // A failure here cannot be reported anywhere.
        let _ = anstream::stderr().lock().write_all(text.as_bytes());
    }

    /// Bytes as they are.
    pub fn raw(&self, bytes: &[u8]) {
        let mut out = io::stdout().lock();
        self.keep(out.write_all(bytes).and_then(|()| out.flush()));
    }

    /// The one JSON object, where it is asked for.
    pub fn json(&self, value: impl FnOnce() -> Value) {
        if self.json {
            self.raw(format!("{:#}\n", value()).as_bytes());
        }
    }

    /// The result of a command, and its exit code.
    pub fn answer(&self, answer: Answer) -> u8 {
        self.text(&answer.text);
        self.json(|| answer.json);
        answer.exit
    }

    /// A failure, and its exit code.
    pub fn failure(&self, failure: &Failure) -> u8 {
        let Failure { exit, message, fix } = failure;
        self.error(failure.json(), &highlight(&format!("error: {message}\n  Fix: {fix}\n")));
        *exit
    }

    /// An error in both forms; the text may be styled.
    pub fn error(&self, value: Value, text: &str) {
        match self.json {
            true => self.json(|| json!({ "error": value })),
            false => self.note(text),
        }
    }

    /// The exit code, once everything is written: a full disk is an error, a closed pipe is not.
    pub fn finish(&self, exit: u8) -> u8 {
        self.keep(io::stdout().flush());
        match self.unwritten.take() {
            None => exit,
            Some(error) => {
                let message = format!("error: cannot write to standard output: {error}");
                self.note(&highlight(&format!(
                    "{message}\n  Fix: make room for the output, or send it elsewhere\n"
                )));
                exit::IO
            }
        }
    }

    /// Remembers that something could not be written. A closed pipe only means that no reader is left.
    fn keep(&self, written: io::Result<()>) {
        if let Err(error) = written
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.unwritten.borrow_mut().get_or_insert(error);
        }
    }
}
