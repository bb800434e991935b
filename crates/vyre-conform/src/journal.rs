//! A run's journal: the groups that have passed, so that a run can be interrupted and resumed, or split and merged.
//!
//! One line of JSON says what is run: backend, size, nonce. Every group that passes adds a line. Lines are only ever added, so
//! what an interruption can spoil is the last one; it is dropped and its group runs again. Failures are not kept: a failed
//! group runs again too.
//!
//! Not here: protection against a forged file. A journal is as trustworthy as the machine that stores it.

use crate::batch::{Level, Plan, Track};
use crate::cases;
use crate::certificate::{Entry, Hex, Identity, Tool};
use crate::report::{GroupReport, Report};
use crate::suite::{Catalogue, Size, unrun};
use crate::time::{is_utc, millis, utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// The most bytes that are read: more than a thousand times what a full run writes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The most cases of a group: sums over all groups stay far below 2^64.
const COUNT_MAX: u64 = 1 << 40;

/// The run that a journal belongs to.
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

    /// The first difference of two headers.
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

/// The contents of a journal.
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
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong(format!("more than {FILE_BYTES_MAX} bytes are more than any journal has")));
    }
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().ok_or_else(|| wrong("it has no whole line".into()))?;
    let First { journal, started } =
        serde_json::from_slice(first).map_err(|error| wrong(format!("line 1: {error}")))?;
    if !is_utc(&started) {
        return Err(wrong("line 1: its start is no time".into()));
    }
    let (mut groups, mut worked) = (BTreeMap::new(), Duration::ZERO);
    for (at, line) in (2..).zip(lines) {
        let Passed { passed, ms } =
            serde_json::from_slice(line).map_err(|error| wrong(format!("line {at}: {error}")))?;
        if passed.cases.max(passed.dispatches) > COUNT_MAX {
            return Err(wrong(format!("line {at}: no group has so many cases")));
        }
        worked = worked.saturating_add(Duration::from_millis(ms));
        let group = GroupReport::from(&passed);
        if *groups.entry(group.name.clone()).or_insert_with(|| group.clone()) != group {
            return Err(wrong(format!("line {at}: it says otherwise than a line before")));
        }
    }
    let groups = groups.into_values().collect();
    Ok(Recorded { header: journal, started, groups, worked, bytes: whole as u64 })
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
        // Opening a pipe would wait for a reader, and a device keeps nothing.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(JournalError::Wrong("it is not a file".into(), "name a file you may read and write"));
        }
        let mut file =
            OpenOptions::new().create(true).append(false).write(true).truncate(false).open(path)?;
        if file.try_lock().is_err() {
            return Err(JournalError::Wrong(
                "another run is writing this journal".into(),
                "wait for it, or name a new file",
            ));
        }
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

/// The report of a run whose groups are in several journals, as of one run.
pub(crate) fn merge(
    journals: Vec<Recorded>,
    level: Level,
    track: Option<Track>,
    catalogue: Catalogue,
) -> Result<Report, (String, &'static str)> {
    let mut groups: BTreeMap<String, GroupReport> = BTreeMap::new();
    let (mut started, mut elapsed) = (None::<String>, Duration::ZERO);
    let mut header: Option<Header> = None;
    for journal in journals {
        let first = header.get_or_insert_with(|| journal.header.clone());
        if let Some(what) = first.difference(&journal.header) {
            let fix = "merge journals of shards that had the same backend, size and `--nonce`";
            return Err((format!("journals are of different runs: their {what} differs"), fix));
        }
        for group in journal.groups {
            let known = groups.entry(group.name.clone()).or_insert_with(|| group.clone());
            if *known != group {
                let what = format!("journals disagree on group `{}`", group.name);
                return Err((what, "run the shards again with new journals"));
            }
        }
        started = Some(started.map_or(journal.started.clone(), |other| other.min(journal.started)));
        elapsed = elapsed.saturating_add(journal.worked);
    }
    let (Some(header), Some(started)) = (header, started) else {
        return Err(("there is no journal to merge".into(), "name one with `--merge FILE`"));
    };
    if header.tool != Tool::this() {
        let fix = "merge them with that version, or run the shards again with this one";
        return Err(("another version of the suite wrote the journals".into(), fix));
    }
    let Header { target, size, nonce, .. } = header;
    let profile = target.profile();
    let planned = catalogue(target.is_driver());
    let wanted = |level_: Level, track_: Track| level_ <= level && track.is_none_or(|only| only == track_);
    let plan = Plan::new(&target.id, &profile, target.is_driver(), size, &nonce.0);
    let groups: Vec<GroupReport> =
        groups.into_values().filter(|group| wanted(group.level, group.track)).collect();
    let asked = planned.iter().filter(|group| wanted(group.level, group.track));
    let unrun = unrun(asked.map(|group| group.name.clone()), &groups);
    Ok(Report {
        coverage: cases::coverage(&plan),
        driver: target.is_driver(),
        backend: target.id,
        size,
        level,
        track,
        nonce: nonce.0,
        planned: planned.into_iter().map(|group| (group.name, group.level, group.track)).collect(),
        groups,
        failures: Vec::new(),
        complete: unrun.is_empty(),
        unrun,
        started,
        elapsed,
        profile,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Certificate;
    use crate::contract::VyreBackend;
    use crate::{ConformanceSuite, ReferenceBackend, small};
    use std::cell::RefCell;
    use std::path::PathBuf;
    use vyre_driver::CancelToken;

    fn path(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("vyre-journal-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder.join("run.jsonl")
    }

    fn suite<'a>() -> ConformanceSuite<'a> {
        ConformanceSuite::quick().catalogue(small::groups).nonce([3; 32])
    }

    fn header() -> Header {
        let target = crate::target::VendorTarget::new(&ReferenceBackend);
        let target = Identity::new(ReferenceBackend.name(), false, crate::target::Target::profile(&target));
        Header::new(target, Size::Quick, [3; 32])
    }

    fn whole() -> Certificate {
        suite().certify(&ReferenceBackend).expect("the reference conforms").without_times()
    }

    fn certified(report: Report) -> Certificate {
        report.certificate().expect("it is complete").without_times()
    }

    /// Runs with a journal, up to so many groups.
    fn run(path: &Path, suite: ConformanceSuite<'_>, groups_max: usize) -> Report {
        let (journal, recorded) = Journal::open(path, &header()).unwrap();
        let (journal, cancel) = (RefCell::new(journal), CancelToken::new());
        let recorded = recorded.map(|recorded| recorded.groups).unwrap_or_default();
        let suite = suite.recorded(recorded).cancelled_by(cancel.clone());
        let watch = |progress: &crate::Progress<'_>| {
            journal.borrow_mut().add(progress.last).unwrap();
            if progress.groups_done >= groups_max {
                cancel.cancel();
            }
        };
        suite.watch(watch).report(&ReferenceBackend)
    }

    #[test]
    fn an_interrupted_run_goes_on_to_the_same_certificate() {
        let path = path("resume");
        let _ = std::fs::remove_file(&path);
        let part = run(&path, suite(), 7);
        assert!((7..30).contains(&part.groups.len()) && !part.complete);
        // The machine stopped in the middle of a line.
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 20]).unwrap();
        let recorded = read(&path).unwrap();
        assert_eq!(recorded.groups.len(), part.groups.len() - 1);
        assert_eq!(certified(run(&path, suite(), usize::MAX)), whole());
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!((lines, read(&path).unwrap().groups.len()), (31, 30));
        // A run that is done runs nothing, and has the same certificate again.
        assert_eq!(certified(run(&path, suite(), 0)), whole());
    }

    #[test]
    fn shards_merge_to_the_same_certificate() {
        let journals: Vec<Recorded> = (0..3)
            .map(|at| {
                let path = path(&format!("shard{at}"));
                let _ = std::fs::remove_file(&path);
                assert!(
                    run(&path, suite().shard(at, 3), usize::MAX).certificate().is_err(),
                    "a part is no whole"
                );
                read(&path).unwrap()
            })
            .collect();
        let counts: Vec<usize> = journals.iter().map(|journal| journal.groups.len()).collect();
        assert!(counts.iter().sum::<usize>() == 30 && counts.iter().all(|count| *count < 30), "{counts:?}");
        let merged = merge(journals, Level::Math, None, small::groups).unwrap();
        assert_eq!(certified(merged), whole());
    }

    #[test]
    fn a_missing_shard_is_missed() {
        let path = path("missing");
        let _ = std::fs::remove_file(&path);
        run(&path, suite().shard(0, 2), usize::MAX);
        let merged = merge(vec![read(&path).unwrap()], Level::Random, None, small::groups).unwrap();
        assert!(merged.certificate().unwrap_err()[0].message.contains("not complete"));
    }

    fn refused<T: std::fmt::Debug>(result: Result<T, JournalError>) -> String {
        match result {
            Err(JournalError::Wrong(message, fix)) if !fix.is_empty() => message,
            other => panic!("{other:?} is no refusal"),
        }
    }

    #[test]
    fn another_run_does_not_go_on_with_a_journal() {
        let path = path("other");
        let _ = std::fs::remove_file(&path);
        run(&path, suite(), 1);
        type Change = fn(&mut Header);
        let changes: [(&str, Change); 4] = [
            ("version of the suite", |header| header.tool.version.push('9')),
            ("nonce", |header| header.nonce.0[0] ^= 1),
            ("size", |header| header.size = Size::Full),
            ("backend, device", |header| header.target.device.push('x')),
        ];
        for (says, change) in changes {
            let mut other = header();
            change(&mut other);
            assert!(refused(Journal::open(&path, &other)).contains(says), "{says}");
            let mut second = read(&path).unwrap();
            second.header = other;
            let both = merge(vec![read(&path).unwrap(), second], Level::Random, None, small::groups);
            assert!(both.unwrap_err().0.contains(says), "{says}");
        }
        // All of one other version is no better.
        let mut old = read(&path).unwrap();
        old.header.tool.version.push('9');
        let merged = merge(vec![old], Level::Random, None, small::groups);
        assert!(merged.unwrap_err().0.contains("another version"));
        let mut liar = read(&path).unwrap();
        liar.groups[0].root.0[0] ^= 1;
        let both = merge(vec![read(&path).unwrap(), liar], Level::Random, None, small::groups);
        assert!(both.unwrap_err().0.contains("disagree"));
    }

    #[test]
    fn a_journal_has_one_writer() {
        let path = path("lock");
        let _ = std::fs::remove_file(&path);
        let (first, _) = Journal::open(&path, &header()).unwrap();
        assert!(refused(Journal::open(&path, &header())).contains("another run"));
        drop(first);
        assert!(Journal::open(&path, &header()).is_ok());
    }

    #[test]
    fn what_is_no_journal_is_refused() {
        let path = path("wrong");
        let _ = std::fs::remove_file(&path);
        run(&path, suite(), 3);
        // A group that took longer than time is long is no reason to stop.
        let slow = std::fs::read_to_string(&path).unwrap().replace("\"ms\":", "\"ms\":184467440737095");
        std::fs::write(&path, slow).unwrap();
        let merged =
            merge(vec![read(&path).unwrap(), read(&path).unwrap()], Level::Random, None, small::groups);
        assert!(merged.is_ok_and(|report| !report.to_junit().is_empty() && !report.complete));
        std::fs::remove_file(&path).unwrap();
        run(&path, suite(), 3);
        let good = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = good.lines().collect();
        let broken = format!("{}\n{{\n{}\n", lines[0], lines[1]);
        let huge = good.replacen("\"cases\":", "\"cases\":9999999999999", 1);
        let endless = format!("{}\n{}", lines[0], "[".repeat(1 << 20) + "\n");
        let month = good.replacen("\"started\":\"2", "\"started\":\"x", 1);
        let bad = ["no", "no\n", "{}\n", "\n", &broken, &huge, &endless, &month, &good[lines[0].len() + 1..]];
        for text in bad {
            std::fs::write(&path, text).unwrap();
            assert!(refused(read(&path)).contains("no journal"), "{text}");
            assert!(refused(Journal::open(&path, &header())).contains("no journal"), "{text}");
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                *text,
                "a file that is no journal stays as it is"
            );
        }
    }
}
