//! What is wrong with a program, where, and what to do about it.
//!
//! Parser and validator both report [`Diagnostic`]s. A place is either in the source or in the program; the source map
//! that the parser and the printer make turns the second into the first.

use crate::ir::{BufferId, FunctionId};
use std::fmt;

/// A stretch of source on one line, counted from 1; columns count bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The line.
    pub line: u32,
    /// The first column.
    pub column: u32,
    /// How many columns, at least one.
    pub columns: u32,
}

/// Where in a program something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In the source text, before there is a program.
    Source(Span),
    /// The program as a whole: its header.
    Program,
    /// A buffer's or table's declaration.
    Buffer(BufferId),
    /// A function's header.
    Function(FunctionId),
    /// A line.
    Line {
        /// The function it stands in; `None` for the main body.
        function: Option<FunctionId>,
        /// Its site, as [`walk`](crate::ir::walk) counts.
        site: u32,
    },
}

/// What a code stands for, shown by `vyre explain` and in `docs/diagnostics.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The stable code.
    pub code: &'static str,
    /// The rule in a few words.
    pub title: &'static str,
    /// Why the rule is there and what it covers, in plain sentences.
    pub text: &'static str,
    /// A small program that breaks the rule, and no other.
    pub wrong: &'static str,
    /// The same program corrected as the finding's fix says.
    pub right: &'static str,
}

/// One finding. The fix is a field, so that it cannot be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable code: `P...` from the parser, `V...` from the validator.
    pub code: &'static str,
    /// Where it is.
    pub place: Place,
    /// What is wrong and why, in one sentence without a full stop.
    pub message: String,
    /// What the reader can do about it.
    pub fix: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]", self.code)?;
        match self.place {
            Place::Source(span) => write!(f, " {}:{}", span.line, span.column)?,
            Place::Program => {}
            Place::Buffer(buffer) => write!(f, " buffer {}", buffer.0)?,
            Place::Function(function) => write!(f, " function {}", function.0)?,
            Place::Line { function: None, site } => write!(f, " line {site} of the body")?,
            Place::Line { function: Some(function), site } => {
                write!(f, " line {site} of function {}", function.0)?;
            }
        }
        write!(f, ": {}\n  Fix: {}", self.message, self.fix)
    }
}
