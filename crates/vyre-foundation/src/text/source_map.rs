//! Where in the source the parts of a program stand.

use crate::diagnostic::{Place, Span};

/// The spans of one body's lines, by site.
pub(super) type Lines = Vec<Span>;

/// Turns places of a program into places of its source. The parser makes one for the text it read, the printer one for
/// the text it wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    pub(super) program: Option<Span>,
    pub(super) buffers: Vec<Span>,
    pub(super) functions: Vec<(Span, Lines)>,
    pub(super) body: Lines,
}

impl SourceMap {
    /// Where `place` stands in the source; `None` for a place that the program does not have.
    pub fn span(&self, place: Place) -> Option<Span> {
        match place {
            Place::Source(span) => Some(span),
            Place::Program => self.program,
            Place::Buffer(buffer) => self.buffers.get(buffer.index()).copied(),
            Place::Function(function) => self.functions.get(function.index()).map(|(span, _)| *span),
            Place::Line { function: None, site } => self.body.get(site as usize).copied(),
            Place::Line { function: Some(function), site } => {
                self.functions.get(function.index())?.1.get(site as usize).copied()
            }
        }
    }
}
