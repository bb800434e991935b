//! What a certificate states: an in-toto statement whose predicate is a run of the suite.
//!
//! The types here are the JSON, field by field and in its order. Writing gives one form, without spaces, and reading
//! accepts no other. [`Statement::check`] finds whatever contradicts itself without running anything.

use super::CertificateError;
use crate::batch::{Level, Track};
use crate::contract::{Feature, Profile};
use crate::report::{self, GroupReport, Report};
use crate::suite::{Size, merkle_root};
use crate::time::{is_utc, millis};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeSet;
use vyre_foundation::ir::Digest;

/// The type of the statement, as in-toto names it.
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The type of the predicate.
pub(crate) const PREDICATE_TYPE: &str = "urn:vyre:conformance:v1";
/// The tool that makes certificates.
const TOOL: &str = "vyre-conform";
/// The version that makes and verifies them: another has another suite.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Enums that JSON has by their names.
macro_rules! by_name {
    ($($ty:ident),*) => { $(
        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $ty {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$ty, D::Error> {
                let name = String::deserialize(deserializer)?;
                let found = $ty::ALL.into_iter().find(|one| one.name() == name);
                found.ok_or_else(|| de::Error::custom(concat!("no such ", stringify!($ty))))
            }
        }
    )* };
}

by_name!(Level, Track, Size, Feature, Face);

/// 32 bytes, in JSON as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hex(pub(crate) [u8; 32]);

impl From<Digest> for Hex {
    fn from(digest: Digest) -> Hex {
        Hex(digest.0)
    }
}

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Digest(self.0).fmt(f)
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hex, D::Error> {
        parse_hex(&String::deserialize(deserializer)?)
            .map(Hex)
            .ok_or_else(|| de::Error::custom("not 64 hexadecimal digits"))
    }
}

/// The 32 bytes that 64 hexadecimal digits encode.
pub(crate) fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let digit = |at: usize| char::from(digits[at]).to_digit(16);
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::try_from(digit(at * 2)? << 4 | digit(at * 2 + 1)?).ok()?;
    }
    Some(bytes)
}

/// By which of its faces a backend was tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    /// The driver contract, with that contract's own surface.
    Driver,
    /// The vendor's trait.
    Vendor,
}

impl Face {
    pub(crate) const ALL: [Face; 2] = [Face::Driver, Face::Vendor];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Face::Driver => "driver",
            Face::Vendor => "vendor",
        }
    }

    pub(crate) const fn of(driver: bool) -> Face {
        if driver { Face::Driver } else { Face::Vendor }
    }
}

/// The JSON in the envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: [Subject; 1],
    predicate_type: String,
    pub(crate) predicate: Predicate,
}

/// The subject of the statement: a backend on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    name: String,
    digest: SubjectDigest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectDigest {
    blake3: Hex,
}

/// A run in which nothing failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Predicate {
    pub(crate) tool: Tool,
    pub(crate) target: Identity,
    pub(crate) suite: Suite,
    pub(crate) nonce: Hex,
    pub(crate) levels: Levels,
    pub(crate) counts: Counts,
    pub(crate) groups: Vec<Entry>,
    /// The root over the groups, and so over every output byte of the run.
    pub(crate) transcript: Hex,
    pub(crate) started: String,
    pub(crate) duration_ms: u64,
    /// The key that the certificate is signed with.
    pub(crate) signer: Option<Hex>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    name: String,
    pub(crate) version: String,
}

impl Tool {
    pub(crate) fn this() -> Tool {
        Tool { name: TOOL.into(), version: VERSION.into() }
    }
}

/// The tested backend, with all that it published before the run. Together with the nonce it determines the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Identity {
    pub(crate) id: String,
    pub(crate) version: String,
    pub(crate) device: String,
    pub(crate) driver: String,
    pub(crate) tested_as: Face,
    pub(crate) limits: Limits,
    pub(crate) features: BTreeSet<Feature>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Limits {
    invocations: u32,
    workgroup_bytes: u32,
    buffer_bytes: u64,
    workgroups: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Suite {
    pub(crate) size: Size,
    pub(crate) digest: Hex,
}

/// The highest level held on each track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Levels {
    integer: Option<Level>,
    float: Option<Level>,
}

/// The counts of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    pub(crate) groups: u64,
    pub(crate) dispatches: u64,
    pub(crate) cases: u64,
}

/// A group that passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) level: Level,
    pub(crate) track: Track,
    pub(crate) seeded: bool,
    pub(crate) dispatches: u64,
    pub(crate) cases: u64,
    pub(crate) content: Hex,
    pub(crate) root: Hex,
}

impl Identity {
    pub(crate) fn new(id: &str, driver: bool, profile: &Profile) -> Identity {
        Identity {
            id: id.into(),
            version: profile.version.clone(),
            device: profile.device.clone(),
            driver: profile.driver.clone(),
            tested_as: Face::of(driver),
            limits: Limits {
                invocations: profile.invocations_max,
                workgroup_bytes: profile.workgroup_bytes_max,
                buffer_bytes: profile.buffer_bytes_max,
                workgroups: profile.workgroups_max,
            },
            features: profile.features.clone(),
        }
    }

    /// The backend's profile.
    pub(crate) fn profile(&self) -> Profile {
        Profile {
            version: self.version.clone(),
            device: self.device.clone(),
            driver: self.driver.clone(),
            invocations_max: self.limits.invocations,
            workgroup_bytes_max: self.limits.workgroup_bytes,
            buffer_bytes_max: self.limits.buffer_bytes,
            workgroups_max: self.limits.workgroups,
            features: self.features.clone(),
        }
    }

    pub(crate) fn is_driver(&self) -> bool {
        self.tested_as == Face::Driver
    }

    /// Over its JSON.
    fn digest(&self) -> Hex {
        let json = serde_json::to_vec(self).expect("an identity has a JSON form");
        let mut hasher = blake3::Hasher::new_derive_key("vyre conformance subject v1");
        Hex(*hasher.update(&json).finalize().as_bytes())
    }
}

impl Levels {
    pub(crate) fn new(level: impl Fn(Track) -> Option<Level>) -> Levels {
        Levels { integer: level(Track::Integer), float: level(Track::Float) }
    }

    pub(crate) fn of(&self, track: Track) -> Option<Level> {
        match track {
            Track::Integer => self.integer,
            Track::Float => self.float,
        }
    }

    /// Whether a group of that level and track is part of what is held.
    pub(crate) fn cover(&self, level: Level, track: Track) -> bool {
        self.of(track).is_some_and(|held| level <= held)
    }
}

impl From<&GroupReport> for Entry {
    fn from(group: &GroupReport) -> Entry {
        Entry {
            name: group.name.clone(),
            level: group.level,
            track: group.track,
            seeded: group.seeded,
            dispatches: group.dispatches,
            cases: group.cases,
            content: group.content.into(),
            root: group.root.into(),
        }
    }
}

impl From<&Entry> for GroupReport {
    fn from(entry: &Entry) -> GroupReport {
        GroupReport {
            name: entry.name.clone(),
            level: entry.level,
            track: entry.track,
            seeded: entry.seeded,
            dispatches: entry.dispatches,
            cases: entry.cases,
            failed: 0,
            content: Digest(entry.content.0),
            root: Digest(entry.root.0),
        }
    }
}

/// The root over groups in order.
fn transcript(groups: &[Entry]) -> Hex {
    let leaf = |entry: &Entry| {
        let mut hasher = blake3::Hasher::new_derive_key("vyre conformance transcript v1");
        hasher.update(entry.name.as_bytes()).update(&[0]).update(&entry.content.0).update(&entry.root.0);
        Digest(*hasher.finalize().as_bytes())
    };
    merkle_root(groups.iter().map(leaf).collect()).into()
}

/// The sums over groups; `None` if they do not fit.
fn counts(groups: &[Entry]) -> Option<Counts> {
    let sum = |of: fn(&Entry) -> u64| groups.iter().map(of).try_fold(0u64, u64::checked_add);
    Some(Counts {
        groups: groups.len() as u64,
        dispatches: sum(|entry| entry.dispatches)?,
        cases: sum(|entry| entry.cases)?,
    })
}

/// Over the content of the groups that are the same in every run.
pub(crate) fn suite_digest(groups: &[Entry]) -> Hex {
    let fixed = groups.iter().filter(|entry| !entry.seeded);
    report::suite_digest(fixed.map(|entry| (entry.name.as_str(), entry.content.0))).into()
}

impl Statement {
    /// The statement of a run without failures. The caller has checked that there were none.
    pub(crate) fn new(report: &Report) -> Statement {
        let target = Identity::new(&report.backend, report.driver, &report.profile);
        let levels = Levels::new(|track| report.standing(track).level);
        let held = report.groups.iter().filter(|group| levels.cover(group.level, group.track));
        let groups: Vec<Entry> = held.map(Entry::from).collect();
        let predicate = Predicate {
            tool: Tool::this(),
            suite: Suite { size: report.size, digest: suite_digest(&groups) },
            nonce: Hex(report.nonce),
            levels,
            counts: counts(&groups).expect("a run's counts are far below 2^64"),
            transcript: transcript(&groups),
            groups,
            started: report.started.clone(),
            duration_ms: millis(report.elapsed),
            signer: None,
            target,
        };
        Statement {
            kind: STATEMENT_TYPE.into(),
            subject: [subject(&predicate.target)],
            predicate_type: PREDICATE_TYPE.into(),
            predicate,
        }
    }

    /// Its one form.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a statement has a JSON form")
    }

    /// Reads that form, and nothing else.
    pub(crate) fn from_json(json: &[u8]) -> Result<Statement, CertificateError> {
        let statement: Statement = serde_json::from_slice(json)
            .map_err(|error| CertificateError::form(format!("statement: {error}")))?;
        if statement.to_json() != json {
            return Err(CertificateError::form("the statement is not in its canonical form".into()));
        }
        statement.check()?;
        Ok(statement)
    }

    /// Whether all parts of it agree with each other.
    fn check(&self) -> Result<(), CertificateError> {
        let Predicate { target, groups, levels, .. } = &self.predicate;
        let sorted = groups.windows(2).all(|pair| pair[0].name < pair[1].name);
        let covered = groups.iter().all(|entry| levels.cover(entry.level, entry.track));
        let claims = Track::ALL.iter().any(|track| levels.of(*track).is_some());
        // That nothing is missing below a level is the suite's to say; that something is there can be seen here.
        let backed = |track: Track| {
            levels
                .of(track)
                .is_none_or(|held| groups.iter().any(|entry| (entry.level, entry.track) == (held, track)))
        };
        let checks = [
            (self.kind == STATEMENT_TYPE, "it is not an in-toto statement"),
            (self.predicate_type == PREDICATE_TYPE, "its predicate is of another kind"),
            (self.predicate.tool.name == TOOL, "another tool made it"),
            (self.subject == [subject(target)], "its subject is not its backend"),
            (target.profile().below_floor().is_empty(), "its limits are below the suite's floor"),
            (claims, "it claims no level"),
            (sorted, "its groups are not sorted by name"),
            (covered, "it has groups that no level it claims asks for"),
            (Track::ALL.into_iter().all(backed), "it claims a level without a group of it"),
            (counts(groups) == Some(self.predicate.counts), "its counts are not the sums over its groups"),
            (
                suite_digest(groups) == self.predicate.suite.digest,
                "its suite digest is not that of its groups",
            ),
            (
                transcript(groups) == self.predicate.transcript,
                "its transcript is not the root over its groups",
            ),
            (is_utc(&self.predicate.started), "its start is no time"),
        ];
        match checks.iter().find(|(holds, _)| !holds) {
            None => Ok(()),
            Some((_, why)) => Err(CertificateError::inconsistent(why)),
        }
    }
}

fn subject(target: &Identity) -> Subject {
    Subject { name: target.id.clone(), digest: SubjectDigest { blake3: target.digest() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_read_strictly() {
        assert_eq!(parse_hex(&"0f".repeat(32)), Some([15; 32]));
        for text in ["", "0f", &"0f".repeat(33), &"+f".repeat(32), &"é".repeat(32)] {
            assert_eq!(parse_hex(text), None, "{text}");
        }
    }
}
