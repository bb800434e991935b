//! The wire form. (Being written.)
use crate::ir::{Digest, Program, ProgramParts};

/// The content digest of parts in canonical form.
pub fn digest(parts: &ProgramParts) -> Digest {
    Digest(*blake3::hash(format!("{parts:?}").as_bytes()).as_bytes())
}

/// The wire form of a program.
pub fn encode(_program: &Program) -> Vec<u8> {
    Vec::new()
}

/// The program that a wire form stands for.
pub fn decode(_bytes: &[u8]) -> Result<Program, WireError> {
    Err(WireError)
}

/// Why bytes are not a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not yet")]
pub struct WireError;
