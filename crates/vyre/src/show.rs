//! Shows findings, traps and races at their lines of a source.

use crate::host::{Error, ErrorKind};
use vyre_foundation::diagnostic::{Diagnostic, Place};
use vyre_foundation::text::{self, SourceMap};
use vyre_reference::{Finding, FindingKind, Party, Target};

/// A program's text, by which what is wrong with it is shown.
#[derive(Clone, Copy)]
pub struct Source<'s> {
    /// The file's name.
    pub name: &'s str,
    /// What stands in it.
    pub text: &'s str,
    /// Where the program's lines stand.
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

    /// What the checks of a run found.
    pub fn finding(&self, finding: &Finding) -> String {
        let shown = self.diagnostic(&self.as_diagnostic(finding));
        match finding.kind {
            FindingKind::Race => shown,
            // These have a meaning, though seldom the intended one.
            FindingKind::OutOfBounds { .. } | FindingKind::UnwrittenRead => {
                shown.replacen("error", "warning", 1)
            }
        }
    }

    /// A race, an access out of bounds or a read of unwritten memory as a finding at its line.
    pub fn as_diagnostic(&self, finding: &Finding) -> Diagnostic {
        let element = match &finding.target {
            Target::Buffer { name, .. } => format!("`@{name}[{}]`", finding.index),
            Target::PrivateArray => format!("element {} of a private array", finding.index),
        };
        let first = format!("a {} of {element} by {}", finding.first.access.name(), lane(&finding.first));
        let (code, mut message) = match (finding.kind, &finding.second) {
            (FindingKind::Race, Some(second)) => {
                let other =
                    format!("a {} by {} at {}", second.access.name(), lane(second), self.place(second));
                ("race", format!("{first} races with {other}"))
            }
            (FindingKind::Race, None) => ("race", format!("{first} races with another")),
            (FindingKind::OutOfBounds { len }, _) => {
                ("bounds", format!("{first} is out of bounds: there are {len} elements"))
            }
            (FindingKind::UnwrittenRead, _) => ("unwritten", format!("{first} gives 0: nobody wrote there")),
        };
        if finding.count > 1 {
            message.push_str(&format!(" ({} times)", finding.count));
        }
        let text = finding.to_string();
        let fix = text.split_once("Fix: ").map_or("", |(_, fix)| fix).to_owned();
        Diagnostic { code, place: finding.first.location.line, message, fix }
    }

    /// Where an access stands.
    fn place(&self, party: &Party) -> String {
        match self.map.span(party.location.line) {
            Some(span) => format!("{}:{}:{}", self.name, span.line, span.column),
            None => party.location.to_string(),
        }
    }

    /// The line that a finding stands on.
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
        ErrorKind::Trap { code, place, lane: [x, y, z] } => Some(Diagnostic {
            code: "trap",
            place: *place,
            message: format!("trap {code}, by lane ({x}, {y}, {z})"),
            fix: format!("see what led there with `vyre run --trace-lane {x},{y},{z}`"),
        }),
        ErrorKind::Program
        | ErrorKind::Launch
        | ErrorKind::Timeout
        | ErrorKind::Memory
        | ErrorKind::Internal => None,
    }
}

fn lane(party: &Party) -> String {
    let [x, y, z] = party.lane;
    format!("lane ({x}, {y}, {z})")
}
