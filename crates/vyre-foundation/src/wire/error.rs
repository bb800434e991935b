//! Why bytes are not a program.

use super::{MAGIC, VERSION};
use crate::ir::{Digest, ProgramError};
use std::fmt;

/// Why bytes are not a program. Offsets count from the first byte of the wire form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The first bytes are not those of a wire form.
    BadMagic,
    /// The layout is of a version that this release does not read.
    UnsupportedVersion {
        /// The version in the header.
        version: u32,
    },
    /// The bytes end early.
    Truncated {
        /// Where bytes are missing.
        offset: usize,
        /// How many at least.
        missing: usize,
    },
    /// Bytes follow the program.
    TrailingBytes {
        /// Where the program ends.
        offset: usize,
        /// How many follow.
        count: usize,
    },
    /// The payload is not the one the header was written for.
    DigestMismatch {
        /// The digest in the header.
        stated: Digest,
        /// The digest of the payload.
        found: Digest,
    },
    /// A tag without a meaning.
    UnknownTag {
        /// Where it is.
        offset: usize,
        /// What it should name.
        what: &'static str,
        /// The tag.
        tag: u8,
    },
    /// A count above its limit.
    OverLimit {
        /// Where it is.
        offset: usize,
        /// What it counts.
        what: &'static str,
        /// The count.
        count: u64,
        /// The limit.
        max: u64,
    },
    /// A number that is not in its shortest form, or too large for its field.
    BadNumber {
        /// Where it is.
        offset: usize,
        /// The greatest number the field holds.
        max: u64,
    },
    /// Bytes that are not a name.
    BadName {
        /// Where they are.
        offset: usize,
    },
    /// A reference to something that is not declared.
    Dangling {
        /// Where it is.
        offset: usize,
        /// What it refers to.
        what: &'static str,
        /// Its number.
        index: u64,
        /// How many there are.
        count: usize,
    },
    /// The parts cannot be sealed into a program.
    Program(ProgramError),
    /// The program has another, canonical encoding.
    NotCanonical {
        /// The digest of these bytes.
        stated: Digest,
        /// The digest of the program's canonical encoding.
        canonical: Digest,
    },
}

impl WireError {
    /// What the reader can do about it.
    #[must_use]
    pub fn fix(&self) -> &str {
        match self {
            WireError::BadMagic => "pass a file that `vyre convert` wrote; text programs go to the parser",
            WireError::UnsupportedVersion { .. } => {
                "read it with a newer release, or write it again with this one"
            }
            WireError::Truncated { .. } => "copy the whole file again",
            WireError::TrailingBytes { .. } => "cut the file at that offset, or write one program per file",
            WireError::DigestMismatch { .. } => {
                "the file was damaged or edited; write it again from its source"
            }
            WireError::UnknownTag { .. } => {
                "write the program with the same release that reads it, or read it with a newer one"
            }
            WireError::OverLimit { .. } => "split the program so that it keeps the limit",
            WireError::BadNumber { .. } => "write numbers as shortest LEB128; `Program::to_bytes` does",
            WireError::BadName { .. } => {
                "use ASCII letters, digits, `_` and single `.` between them, at most 128 bytes"
            }
            WireError::Dangling { .. } => "declare it before the lines that use it",
            WireError::Program(error) => &error.fix,
            WireError::NotCanonical { .. } => {
                "write the program with `Program::to_bytes`, which numbers and names values in order"
            }
        }
    }

    /// What is wrong, without the fix.
    #[must_use]
    pub fn message(&self) -> String {
        fmt::from_fn(|f| self.write(f)).to_string()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::BadMagic => {
                write!(f, "not a wire form: the first bytes are not `{}`", MAGIC.escape_ascii())
            }
            WireError::UnsupportedVersion { version } => {
                write!(f, "offset 8: wire version {version}, and this release reads version {VERSION}")
            }
            WireError::Truncated { offset, missing } => {
                write!(f, "offset {offset}: the bytes end early, at least {missing} are missing")
            }
            WireError::TrailingBytes { offset, count } => {
                write!(f, "offset {offset}: {count} bytes follow the program")
            }
            WireError::DigestMismatch { stated, found } => {
                write!(f, "offset 16: the header states digest {stated}, and the payload's is {found}")
            }
            WireError::UnknownTag { offset, what, tag } => {
                write!(f, "offset {offset}: {tag:#04x} is not the tag of {what}")
            }
            WireError::OverLimit { offset, what, count, max } => {
                write!(f, "offset {offset}: {count} {what}, and the limit is {max}")
            }
            WireError::BadNumber { offset, max } => {
                write!(f, "offset {offset}: not a number in its shortest form of at most {max}")
            }
            WireError::BadName { offset } => write!(f, "offset {offset}: these bytes are not a name"),
            WireError::Dangling { offset, what, index, count } => {
                write!(f, "offset {offset}: {what} number {index}, and {count} can be named here")
            }
            WireError::Program(error) => f.write_str(&error.message),
            WireError::NotCanonical { stated, canonical } => {
                write!(
                    f,
                    "the bytes with digest {stated} are not the canonical ones, whose digest is {canonical}"
                )
            }
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)?;
        write!(f, ". Fix: {}", self.fix())
    }
}

impl std::error::Error for WireError {}

impl From<WireError> for String {
    fn from(error: WireError) -> String {
        error.to_string()
    }
}
