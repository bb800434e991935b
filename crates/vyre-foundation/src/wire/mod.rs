//! The wire form: a program as bytes, one encoding each.
//!
//! A fixed header (magic, version, payload length, BLAKE3 digest of the payload) and the payload, which writes the
//! sealed parts in the order of their declaration. Numbers are minimal LEB128, names stand once per body, a line
//! begins with its op's tag from the op table. `docs/wire.md` describes every byte.
//!
//! Decoding trusts nothing: every count is checked against the limits and against the bytes that are left before
//! anything is allocated, blocks open on an explicit stack, and a program whose bytes are not the ones [`encode`]
//! gives is refused. So equal programs are equal bytes, and the digest names the program.
//!
//! Not here: compression, and streams of several programs. A file is one program.

mod decode;
mod encode;
mod error;
mod line;
#[cfg(test)]
#[path = "../../tests/unit/wire.rs"]
mod tests;

pub use error::WireError;

use crate::ir::{Digest, Program, ProgramParts};
use crate::limits;
use decode::Reader;

/// The first bytes of every wire form. Not text in any encoding, and broken by newline conversion, so that a damaged
/// transfer shows at once.
pub const MAGIC: [u8; 8] = *b"\x89VYRE\r\n\x1a";
/// The version of the layout that [`encode`] writes.
pub const VERSION: u32 = 1;
/// Bytes before the payload: magic, version, payload length, digest.
pub const HEADER_BYTES: usize = 48;
/// Bytes of the longest payload.
pub(crate) const PAYLOAD_BYTES_MAX: usize = limits::SOURCE_BYTES_MAX - HEADER_BYTES;

/// Everything behind the header: the parts, which are in canonical form.
pub(crate) fn payload(parts: &ProgramParts) -> Vec<u8> {
    encode::payload(parts)
}

/// The content digest of a payload.
pub(crate) fn digest(payload: &[u8]) -> Digest {
    Digest(*blake3::hash(payload).as_bytes())
}

/// The wire form of a program.
pub fn encode(program: &Program) -> Vec<u8> {
    let payload = payload(program.parts());
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    // Sealing keeps payloads within `PAYLOAD_BYTES_MAX`, which is below 2^32.
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&program.digest().0);
    bytes.extend_from_slice(&payload);
    bytes
}

/// The program that a wire form stands for.
pub fn decode(bytes: &[u8]) -> Result<Program, WireError> {
    let (payload, stated) = open(bytes)?;
    let found = digest(payload);
    if found != stated {
        return Err(WireError::DigestMismatch { stated, found });
    }
    let parts = Reader::new(payload, HEADER_BYTES).program()?;
    let program = Program::new(parts).map_err(WireError::Program)?;
    if program.digest() != stated {
        return Err(WireError::NotCanonical { stated, canonical: program.digest() });
    }
    Ok(program)
}

/// Checks the header; gives the payload and the digest that the header states for it.
fn open(bytes: &[u8]) -> Result<(&[u8], Digest), WireError> {
    let start = &bytes[..bytes.len().min(MAGIC.len())];
    if !MAGIC.starts_with(start) {
        return Err(WireError::BadMagic);
    }
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(WireError::Truncated { offset: bytes.len(), missing: HEADER_BYTES - bytes.len() });
    };
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if word(8) != VERSION {
        return Err(WireError::UnsupportedVersion { version: word(8) });
    }
    let length = word(12) as usize;
    if length > PAYLOAD_BYTES_MAX {
        let (count, max) = (length as u64, PAYLOAD_BYTES_MAX as u64);
        return Err(WireError::OverLimit { offset: 12, what: "payload bytes", count, max });
    }
    if length > rest.len() {
        return Err(WireError::Truncated { offset: bytes.len(), missing: length - rest.len() });
    }
    if length < rest.len() {
        return Err(WireError::TrailingBytes { offset: HEADER_BYTES + length, count: rest.len() - length });
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(&header[16..]);
    Ok((rest, Digest(digest)))
}
