//! A run's journal: what passed so far, so that a run can be interrupted and resumed, or split and merged.
//!
//! One line of JSON says what is run: backend, size, nonce. Every group that passes adds a line. Lines are only ever added, so
//! what an interruption can spoil is the last one; it is dropped and its group runs again. Failures are not kept: a failed
//! group runs again too.
//!
//! Not here: protection from whoever writes the file. A journal is as good as the machine it lies on.

use crate::batch::{Level, Plan, Track};
use crate::cases;
use crate::certificate::{Entry, Hex, Identity, Tool};
use crate::report::{GroupReport, Report};
use crate::suite::{Catalogue, Size};
use crate::time::{is_utc, millis, utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// The most bytes that are read: more than a thousand times what a full run writes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What a journal is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    tool: Tool,
    pub(crate) target: Identity,
    pub(crate) size: Size,
    pub(crate) nonce: Hex,
}

impl Header {
    pub(crate) fn new(target: Identity, size: Size, nonce: [u8; 32]) -> Header {
        Header { tool: Tool::this(), target, size, nonce: Hex(nonce) }
    }

    /// What of two headers differs, if anything does.
    fn difference(&self, other: &Header) -> Option<&'static str> {
        let parts = [
            (self.tool != other.tool, "version of the suite"),
            (self.target != other.target, "backend, device, driver, limits or features"),
            (self.size != other.size, "size"),
            (self.nonce != other.nonce, "nonce"),
        ];
        parts.into_iter().find(|(differs, _)| *differs).map(|(_, what)| what)
    }
}

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    journal: Header,
    started: String,
}

/// Every other line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passed {
    passed: Entry,
    ms: u64,
}

/// Why a journal cannot be used.
#[derive(Debug)]
pub(crate) enum JournalError {
    /// The file cannot be read or written.
    Io(std::io::Error),
    /// It is no journal, or one of something else: what, and what to do.
    Wrong(String, &'static str),
}

impl From<std::io::Error> for JournalError {
    fn from(error: std::io::Error) -> JournalError {
        JournalError::Io(error)
    }
}

/// What a journal holds.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) header: Header,
    pub(crate) started: String,
    pub(crate) groups: Vec<GroupReport>,
    /// How long its groups took together.
    pub(crate) worked: Duration,
    /// Up to where its lines are whole.
    bytes: u64,
}

/// Reads a journal. A last line that was cut is not counted.
pub(crate) fn read(path: &Path) -> Result<Recorded, JournalError> {
    let wrong = |why: String| {
        JournalError::Wrong(format!("no journal: {why}"), "name a file that `--journal` wrote, or a new one")
    };
    let size = std::fs::metadata(path)?.len();
    if size > FILE_BYTES_MAX {
        return Err(wrong(format!("{size} bytes are more than any journal has")));
    }
    let bytes = std::fs::read(path)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().ok_or_else(|| wrong("it has no whole line".into()))?;
    let First { journal, started } =
        serde_json::from_slice(first).map_err(|error| wrong(format!("line 1: {error}")))?;
    if !is_utc(&started) {
        return Err(wrong("line 1: its start is no time".into()));
    }
    let mut recorded = Recorded {
        header: journal,
        started,
        groups: Vec::new(),
        worked: Duration::ZERO,
        bytes: whole as u64,
    };
    for (at, line) in (2..).zip(lines) {
        let Passed { passed, ms } =
            serde_json::from_slice(line).map_err(|error| wrong(format!("line {at}: {error}")))?;
        recorded.worked = recorded.worked.saturating_add(Duration::from_millis(ms));
        recorded.groups.push(GroupReport::from(&passed));
    }
    Ok(recorded)
}

/// A journal that a run writes to.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    /// When the last line was written.
    last: Instant,
}

impl Journal {
    /// Starts a journal, or goes on with one of the same run; then also what it holds.
    pub(crate) fn open(path: &Path, header: &Header) -> Result<(Journal, Option<Recorded>), JournalError> {
        let mut file =
            OpenOptions::new().create(true).append(false).write(true).truncate(false).open(path)?;
        if file.metadata()?.len() == 0 {
            let first = First { journal: header.clone(), started: utc(SystemTime::now()) };
            write_line(&mut file, &first)?;
            return Ok((Journal { file, last: Instant::now() }, None));
        }
        let recorded = read(path)?;
        if let Some(what) = header.difference(&recorded.header) {
            return Err(JournalError::Wrong(
                format!("the journal is of another run: its {what} differs"),
                "go on with the same backend, size and nonce, or name a new file",
            ));
        }
        file.set_len(recorded.bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok((Journal { file, last: Instant::now() }, Some(recorded)))
    }

    /// Adds a group that passed.
    pub(crate) fn add(&mut self, group: &GroupReport) -> std::io::Result<()> {
        let now = Instant::now();
        let ms = millis(now - std::mem::replace(&mut self.last, now));
        write_line(&mut self.file, &Passed { passed: Entry::from(group), ms })
    }
}

/// Writes a line at once, so that an interruption leaves whole lines before it.
fn write_line(file: &mut File, line: &impl Serialize) -> std::io::Result<()> {
    let mut json = serde_json::to_vec(line).expect("a line has a JSON form");
    json.push(b'\n');
    file.write_all(&json)
}

/// The report of a run whose groups stand in several journals, as if it had been one.
pub(crate) fn merge(
    journals: Vec<Recorded>,
    level: Level,
    track: Option<Track>,
    catalogue: Catalogue,
) -> Result<Report, JournalError> {
    let mut groups: BTreeMap<String, GroupReport> = BTreeMap::new();
    let (mut started, mut elapsed) = (None::<String>, Duration::ZERO);
    let mut header: Option<Header> = None;
    for journal in journals {
        let first = header.get_or_insert_with(|| journal.header.clone());
        if let Some(what) = first.difference(&journal.header) {
            let fix = "merge journals of shards that had the same backend, size and `--nonce`";
            return Err(JournalError::Wrong(
                format!("journals are of different runs: their {what} differs"),
                fix,
            ));
        }
        for group in journal.groups {
            let known = groups.entry(group.name.clone()).or_insert_with(|| group.clone());
            if *known != group {
                let what = format!("journals disagree on group `{}`", group.name);
                return Err(JournalError::Wrong(what, "run the shards again with new journals"));
            }
        }
        started = Some(started.map_or(journal.started.clone(), |other| other.min(journal.started)));
        elapsed = elapsed.saturating_add(journal.worked);
    }
    let (Some(header), Some(started)) = (header, started) else {
        return Err(JournalError::Wrong(
            "there is no journal to merge".into(),
            "name one with `--merge FILE`",
        ));
    };
    let Header { target, size, nonce, .. } = header;
    let profile = target.profile();
    let planned = catalogue(target.is_driver());
    let wanted = |level_: Level, track_: Track| level_ <= level && track.is_none_or(|only| only == track_);
    let plan = Plan::new(&target.id, &profile, target.is_driver(), size, &nonce.0);
    Ok(Report {
        coverage: cases::coverage(&plan),
        driver: target.is_driver(),
        backend: target.id,
        size,
        level,
        track,
        nonce: nonce.0,
        planned: planned.into_iter().map(|group| (group.name, group.level, group.track)).collect(),
        groups: groups.into_values().filter(|group| wanted(group.level, group.track)).collect(),
        failures: Vec::new(),
        complete: true,
        started,
        elapsed,
        profile,
    })
}
