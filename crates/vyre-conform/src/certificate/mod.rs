//! Certificates: the result of a run without failures, in a file that anyone can verify.
//!
//! `statement` is the content, `envelope` the file around it, `key` signs and checks signatures, and `verify` recomputes what a
//! certificate states. A [`Certificate`] in memory is always consistent and, if signed, has a valid signature: reading
//! refuses everything else.
//!
//! Not here: proof that a device computed the bytes. The holder of the key vouches for that; see `docs/conformance.md`.

mod envelope;
mod key;
mod statement;
#[cfg(test)]
#[path = "../../tests/unit/certificate.rs"]
mod tests;
mod verify;

use crate::batch::{Level, Track};
use crate::failure::{Cause, ParityFailure};
use crate::report::Report;
use crate::show::line;
#[cfg(feature = "cli")]
pub(crate) use envelope::FILE_BYTES_MAX;
pub use key::{PublicKey, SecretKey};
pub(crate) use statement::Predicate;
#[cfg(feature = "cli")]
pub(crate) use statement::{Entry, Hex, Identity, Tool, parse_hex};
use statement::{Statement, VERSION};
pub use verify::{Sample, Trust, Verified};

/// A run without failures, as stated and perhaps signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    statement: Statement,
    signature: Option<[u8; 64]>,
}

/// Why a certificate or a key is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  Fix: {fix}")]
pub struct CertificateError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl CertificateError {
    fn form(message: String) -> CertificateError {
        let fix = "get the file again, byte for byte as `certify` wrote it".into();
        CertificateError { message: format!("no certificate: {message}"), fix }
    }

    fn signature(why: &str) -> CertificateError {
        let fix = "do not rely on it: the file was changed, or was never signed as it says".into();
        CertificateError { message: format!("wrong signature: {why}"), fix }
    }

    fn inconsistent(why: &str) -> CertificateError {
        let fix = "do not rely on it; ask its maker for one that `certify` of this version made".into();
        CertificateError { message: format!("it contradicts itself or this suite: {why}"), fix }
    }

    fn differs(group: &str, what: &str) -> CertificateError {
        CertificateError::inconsistent(&format!("group `{group}` has {what}"))
    }

    fn other_suite(version: &str) -> CertificateError {
        CertificateError {
            message: format!("the suite of version {} made it, and this is version {VERSION}", line(version)),
            fix: format!("verify it with version {}, or run `certify` again with this one", line(version)),
        }
    }
}

impl Certificate {
    /// Signs it with a key, in place of any signature it has.
    pub fn sign(mut self, key: &SecretKey) -> Certificate {
        self.statement.predicate.signer = Some(key.public().hex());
        self.signature = Some(envelope::sign(&self.statement, key));
        self
    }

    /// Its file: one line of JSON, the same bytes each time.
    pub fn to_json(&self) -> String {
        envelope::write(&self.statement, self.signature.as_ref())
    }

    /// Reads a file that [`to_json`](Certificate::to_json) gave. Any other form of it, a wrong signature and whatever
    /// contradicts itself are refused.
    pub fn from_json(file: &[u8]) -> Result<Certificate, CertificateError> {
        let (statement, signature) = envelope::read(file)?;
        Ok(Certificate { statement, signature })
    }

    /// The highest level that it claims on a track.
    pub fn level(&self, track: Track) -> Option<Level> {
        self.predicate().levels.of(track)
    }

    /// The key that it is signed with.
    pub fn signer(&self) -> Option<PublicKey> {
        self.predicate().signer.and_then(PublicKey::from_hex)
    }

    /// Whether this version of the suite made it: another has other cases.
    pub(crate) fn check_version(&self) -> Result<(), CertificateError> {
        match &self.predicate().tool.version {
            version if version == VERSION => Ok(()),
            version => Err(CertificateError::other_suite(version)),
        }
    }

    /// Without what differs between two runs of the same.
    #[cfg(test)]
    pub(crate) fn without_times(mut self) -> Certificate {
        self.statement.predicate.started = String::new();
        self.statement.predicate.duration_ms = 0;
        self
    }

    pub(crate) fn predicate(&self) -> &Predicate {
        &self.statement.predicate
    }
}

impl Report {
    /// The certificate of a run in which all that was asked for ran and passed; otherwise what failed.
    pub fn certificate(&self) -> Result<Certificate, Vec<ParityFailure>> {
        if !self.failures.is_empty() {
            return Err(self.failures.clone());
        }
        let asked = |track: &Track| self.track.is_none_or(|only| only == *track);
        let missing = Track::ALL
            .into_iter()
            .filter(asked)
            .find(|track| !self.complete || !self.holds_what_is_asked(*track));
        match missing {
            None => Ok(Certificate { statement: Statement::new(self), signature: None }),
            Some(track) => {
                let ran = self.groups.len();
                let message =
                    format!("the run is not complete: {ran} groups ran, and level {} needs more", self.level);
                let place = (self.level, track);
                let again = String::new();
                Err(vec![ParityFailure::without_program("run", place, Cause::Incomplete, message, again)])
            }
        }
    }

    /// Whether a track holds the run's level, or the highest one below it that has groups there.
    fn holds_what_is_asked(&self, track: Track) -> bool {
        let here = self.planned.iter().filter(|(_, level, on)| *on == track && *level <= self.level);
        let asked = here.map(|(_, level, _)| *level).max();
        asked.is_some() && self.standing(track).level == asked
    }
}
