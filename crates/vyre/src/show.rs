//! Shows findings, traps and races at their lines of a source.

use crate::host::{Error, ErrorKind};
use vyre_foundation::diagnostic::{Diagnostic, Place};
use vyre_foundation::text::{self, SourceMap};
use vyre_reference::{Finding, FindingKind};

/// A program's text, by which what is wrong with it is shown.
#[derive(Clone, Copy)]
pub struct Source<'s> {
    /// The file's name.
    pub name: &'s str,
    /// Its contents.
    pub text: &'s str,
    /// The places of the program's lines.
    pub map: &'s SourceMap,
}

impl Source<'_> {
    /// A finding of parser or validator.
    pub fn diagnostic(&self, finding: &Diagnostic) -> String {
        text::render(finding, self.name, self.text, self.map)
    }

    /// Findings one below the other.
    pub fn diagnostics(&self, findings: &[Diagnostic]) -> String {
        findings.iter().map(|finding| self.diagnostic(finding)).collect()
    }

    /// Why a run has no result.
    pub fn error(&self, error: &Error) -> String {
        match trap(error) {
            Some(finding) => self.diagnostic(&finding),
            None => error.to_string(),
        }
    }

    /// What the checks of a run found, with both lines of a race.
    pub fn finding(&self, finding: &Finding) -> String {
        let level = match finding.kind {
            FindingKind::Race => "error",
            // These have a meaning, though seldom the intended one.
            FindingKind::OutOfBounds { .. } | FindingKind::UnwrittenRead => "warning",
        };
        format!("{level}: {}\n", finding.render(self.name, self.text, self.map))
    }

    /// The line of a finding.
    pub fn line(&self, finding: &Diagnostic) -> u32 {
        match finding.place {
            Place::Source(span) => span.line,
            place @ (Place::Program | Place::Buffer(_) | Place::Function(_) | Place::Line { .. }) => {
                self.map.span(place).map_or(1, |span| span.line)
            }
        }
    }
}

/// A trap as a finding at its line.
pub fn trap(error: &Error) -> Option<Diagnostic> {
    match &error.kind {
        ErrorKind::Trap { code, place, lane } => {
            let (by, fix) = match lane {
                Some([x, y, z]) => (
                    format!(", by lane ({x}, {y}, {z})"),
                    format!("add `--trace-lane {x},{y},{z}` to the command to see what led there"),
                ),
                None => (
                    String::new(),
                    "run it with `--check-races` to learn a lane, then trace it with `--trace-lane`".into(),
                ),
            };
            Some(Diagnostic { code: "trap", place: *place, message: format!("trap {code}{by}"), fix })
        }
        ErrorKind::Program
        | ErrorKind::Launch
        | ErrorKind::Timeout
        | ErrorKind::Memory
        | ErrorKind::Device => None,
    }
}

/// What the checks of a run found as a finding at the line of its first access: code `race`, `bounds` or `unwritten`.
pub fn observation(finding: &Finding) -> Diagnostic {
    let code = match finding.kind {
        FindingKind::Race => "race",
        FindingKind::OutOfBounds { .. } => "bounds",
        FindingKind::UnwrittenRead => "unwritten",
    };
    Diagnostic {
        code,
        place: finding.first.location.line,
        message: finding.headline(),
        fix: finding.fix().to_owned(),
    }
}
