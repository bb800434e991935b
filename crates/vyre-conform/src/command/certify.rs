//! `certify`: runs the suite, prints the result, and writes the certificate and reports.

use super::args::Certify;
use super::file::{check_writable, is_plain, place, write_file};
use super::progress::Progress;
use super::{Host, plural};
use crate::batch::{Group, Level, Track};
use crate::cases;
use crate::certificate::{Certificate, Identity, Sample, SecretKey};
use crate::failure::ParityFailure;
use crate::journal::{self, Header, Journal, JournalError, Recorded};
use crate::report::{LevelState, Report};
use crate::show::{hex, line};
use crate::suite::{ConformanceSuite, Filter, Size, draw_nonce};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use vyre_driver::CancelToken;
use vyre_foundation::ir::Digest;
use vyre_terminal::style::{BAD, BOLD, DIM, GOOD, highlight, paint};
use vyre_terminal::table::{Align, columns, grouped};
use vyre_terminal::{Answer, Failure, exit, printable};

/// Failures that are shown in full; the next ones are listed, and the others counted.
const SHOWN_MAX: usize = 3;
const LISTED_MAX: usize = 40;
/// Groups whose outputs are computed again before the certificate of a run of this process is signed.
const OWN_SAMPLE: usize = 8;
/// Bytes of a failure's buffers that JSON has.
const JSON_BYTES_MAX: usize = 4096;

/// The groups that were run, or taken from journals.
struct Ran {
    report: Report,
    cancelled: bool,
    /// Whether some of it comes from a file that anyone may have edited.
    from_journal: bool,
}

pub(super) fn run(args: &Certify, host: &Host<'_>) -> Result<Answer, Failure> {
    // What would spoil the end of a long run is found at its start.
    let key = args.sign.as_deref().map(secret_key).transpose()?;
    check_paths(args)?;
    let ran = match args.merge.is_empty() {
        true => execute(args, host)?,
        false => merged(args)?,
    };
    let Ran { report, cancelled, .. } = &ran;
    let mut written = None;
    if let Some(path) = args.output.as_deref().filter(|_| report.failures.is_empty() && !cancelled) {
        write_file(path, &certificate(&ran, key.as_ref())?.to_json())?;
        written = Some(path);
    }
    if let Some(path) = &args.html {
        write_file(path, &report.to_html())?;
    }
    if let Some(path) = &args.junit {
        write_file(path, &report.to_junit())?;
    }
    let exit = match (cancelled, report.failures.is_empty()) {
        (true, _) => exit::INTERRUPTED,
        (false, true) => exit::OK,
        (false, false) => exit::FINDINGS,
    };
    let verdict = verdict(args, report, *cancelled, written);
    Ok(Answer { exit, text: as_text(report) + &verdict, json: as_json(report, *cancelled, written) })
}

/// The certificate of a run. It is verified before it is signed, as its readers will do.
fn certificate(ran: &Ran, key: Option<&SecretKey>) -> Result<Certificate, Failure> {
    let certificate = ran.report.certificate().map_err(|failures| missing(&failures))?;
    let sample = if ran.from_journal { Sample::All } else { Sample::Random(OWN_SAMPLE) };
    let again = Certificate::from_json(certificate.to_json().as_bytes());
    again.and_then(|again| again.verify(&[], sample)).map_err(|error| {
        Failure::new(exit::FINDINGS, error.message, "run the suite again with a new journal")
    })?;
    Ok(match key {
        Some(key) => certificate.sign(key),
        None => certificate,
    })
}

fn missing(failures: &[ParityFailure]) -> Failure {
    let message = failures.first().map(|failure| failure.message.clone()).unwrap_or_default();
    Failure::new(exit::FINDINGS, message, "run or merge every shard of the level, then write the certificate")
}

fn secret_key(path: &Path) -> Result<SecretKey, Failure> {
    let text = super::read_text(path)?;
    SecretKey::from_pem(&text)
        .map_err(|error| Failure::usage(format!("{}: {}", path.display(), error.message), error.fix))
}

/// Refuses outputs that would be written to the same file, or over an input.
fn check_paths(args: &Certify) -> Result<(), Failure> {
    let outputs: Vec<&PathBuf> = [&args.output, &args.html, &args.junit].into_iter().flatten().collect();
    let inputs = args.sign.iter().chain(&args.journal).chain(&args.merge);
    let mut taken: Vec<PathBuf> = inputs.map(|path| place(path)).collect();
    for path in outputs {
        let place = place(path);
        if taken.contains(&place) {
            return Err(Failure::usage(
                format!("{} is named twice, and writing it would destroy what is there", path.display()),
                "give the certificate, each report, the journal and the key files of their own",
            ));
        }
        taken.push(place);
        check_writable(path)?;
    }
    Ok(())
}

/// Removes what an earlier run wrote: a run that fails leaves no certificate that seems to be its own.
fn remove_old(args: &Certify) -> Result<(), Failure> {
    match args.output.as_deref().filter(|path| is_plain(path) && path.exists()) {
        Some(path) => std::fs::remove_file(path)
            .map_err(|error| Failure::io("replace", path, &error, "name a place you may write to")),
        None => Ok(()),
    }
}

fn journal_failure(path: &Path, error: JournalError) -> Failure {
    match error {
        JournalError::Io(error) => Failure::io("use", path, &error, "name a file you may read and write"),
        JournalError::Wrong(message, fix) => Failure::usage(format!("{}: {message}", path.display()), fix),
    }
}

/// The contents of several journals, which must be all of a run.
fn merged(args: &Certify) -> Result<Ran, Failure> {
    let read = |path: &PathBuf| journal::read(path).map_err(|error| journal_failure(path, error));
    let journals = args.merge.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let report = journal::merge(journals, args.level, args.track, cases::groups);
    let report = report.map_err(|(message, fix)| Failure::usage(message, fix))?;
    remove_old(args)?;
    match report.complete {
        true => Ok(Ran { report, cancelled: false, from_journal: true }),
        false => Err(missing(&report.certificate().err().unwrap_or_default())),
    }
}

/// Runs the suite.
fn execute(args: &Certify, host: &Host<'_>) -> Result<Ran, Failure> {
    let opened = host.open(args.backend.as_deref())?;
    let target = opened.target();
    let size = if args.quick { Size::Quick } else { Size::Full };
    let identity = Identity::new(target.name(), target.driver().is_some(), target.profile());
    let (nonce, journal, recorded) = start(args, &identity, size)?;
    remove_old(args)?;
    let from_journal = recorded.is_some();
    let cancel = interruptible();
    let progress = Progress::start(host.quiet);
    let (journal, unwritten) = (RefCell::new(journal), RefCell::new(None));
    let passed = recorded.as_ref().map(|recorded| recorded.groups.clone()).unwrap_or_default();
    let suite = suite(args).nonce(nonce).program(host.program).cancelled_by(cancel.clone()).recorded(passed);
    let suite = suite.watch(|standing| {
        progress.show(standing);
        let mut journal = journal.borrow_mut();
        let passed = journal.as_mut().filter(|_| standing.last.failed == 0);
        if let Some(Err(error)) = passed.map(|journal| journal.add(standing.last)) {
            *unwritten.borrow_mut() = Some(error);
            cancel.cancel();
        }
    });
    let mut report = suite.run_target(&*target);
    drop(suite);
    drop(progress);
    if let (Some(path), Some(error)) = (&args.journal, unwritten.take()) {
        return Err(journal_failure(path, JournalError::Io(error)));
    }
    if let Some(Recorded { started, worked, .. }) = recorded {
        report.started = started;
        report.elapsed = report.elapsed.saturating_add(worked);
    }
    if report.dispatches() == 0 && !cancel.is_cancelled() {
        return Err(nothing(args, report.driver));
    }
    // An interruption that came after the last group interrupted nothing.
    let cancelled = cancel.is_cancelled() && !report.unrun.is_empty();
    Ok(Ran { report, cancelled, from_journal })
}

/// The suite that is asked for.
fn suite<'a>(args: &Certify) -> ConformanceSuite<'a> {
    let suite = if args.quick { ConformanceSuite::quick() } else { ConformanceSuite::new() };
    let mut suite = suite.up_to(args.level);
    if let Some(track) = args.track {
        suite = suite.only(track);
    }
    if let Some(case) = &args.case {
        suite = suite.matching(case);
    }
    if let Some((index, count)) = args.shard {
        suite = suite.shard(index, count);
    }
    match args.stop_at_first {
        true => suite.stop_at_first_failure(),
        false => suite,
    }
}

/// Why no case was run.
fn nothing(args: &Certify, driver: bool) -> Failure {
    let Some(case) = &args.case else {
        return Failure::usage(
            "nothing was run",
            "ask for a level and track that has groups, or fewer shards",
        );
    };
    let filter = Filter::new(case);
    let left_out =
        |group: &Group| group.level > args.level || args.track.is_some_and(|only| only != group.track);
    let named = cases::groups(driver).into_iter().find(|group| filter.has_group(&group.name));
    match named.filter(left_out) {
        Some(Group { name, level, track, .. }) => Failure::usage(
            format!("`{name}` is of level {level} on the {track} track, and that was not asked for"),
            "leave `--level` and `--track` out",
        ),
        None => Failure::usage(
            format!("no case of this suite has the name `{}`, or one that starts so", case.escape_debug()),
            "take a name from a report, or the start of one: `op/f32`",
        ),
    }
}

type Started = ([u8; 32], Option<Journal>, Option<Recorded>);

/// The nonce of the run, and its journal with what is in it.
fn start(args: &Certify, identity: &Identity, size: Size) -> Result<Started, Failure> {
    let Some(path) = &args.journal else { return Ok((args.nonce.unwrap_or_else(draw_nonce), None, None)) };
    let wrong = |error| journal_failure(path, error);
    // A run that goes on has the nonce it began with.
    let begun = std::fs::metadata(path).is_ok_and(|file| file.len() > 0);
    let nonce = match args.nonce {
        Some(nonce) => nonce,
        None if begun => journal::read(path).map_err(wrong)?.header.nonce.0,
        None => draw_nonce(),
    };
    let header = Header::new(identity.clone(), size, nonce);
    let (journal, recorded) = Journal::open(path, &header).map_err(wrong)?;
    Ok((nonce, Some(journal), recorded))
}

/// A token that the first interruption cancels; the second ends the process.
fn interruptible() -> CancelToken {
    let cancel = CancelToken::new();
    let (token, again) = (cancel.clone(), AtomicBool::new(false));
    // Where there is a handler already, or signals are not known, the run cannot be interrupted cleanly; it still runs.
    let _ = ctrlc::set_handler(move || {
        if again.swap(true, Ordering::AcqRel) {
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
        token.cancel();
        let _ = writeln!(anstream::stderr(), "\n  ending after this dispatch; press again to end at once");
    });
    cancel
}

/// A summary of the run, as text.
fn as_text(report: &Report) -> String {
    let face = if report.driver { "driver" } else { "vendor's backend" };
    let profile = &report.profile;
    let rows = [
        (
            "backend",
            format!("{} {}, as a {face}", paint(BOLD, &line(&report.backend)), line(&profile.version)),
        ),
        ("device", line(&profile.device)),
        ("driver", line(&profile.driver)),
        ("suite", format!("{}, nonce {}", report.size.name(), Digest(report.nonce))),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(key, value)| vec![format!("  {key}"), value]).collect();
    let mut text = columns(&[Align::Left; 2], &rows) + "\n" + &family_table(report);
    text.push_str(&format!(
        "\n  {} in {} and {}, {} failed; {:.1} s\n",
        plural(report.cases() as usize, "case"),
        plural(report.dispatches() as usize, "dispatch").replace("dispatchs", "dispatches"),
        plural(report.groups.len(), "group"),
        grouped(report.groups.iter().map(|group| group.failed).sum()),
        report.elapsed.as_secs_f64()
    ));
    if report.groups.iter().any(|group| group.name.starts_with("random/")) {
        text.push_str(
            &report.coverage.trim_end().lines().map(|line| format!("  {line}\n")).collect::<String>(),
        );
    }
    text.push('\n');
    if report.complete {
        text.push_str(&badges(report));
    }
    text.push_str(&failures(report));
    text.push('\n');
    text
}

/// The groups that a line of the table sums up: `op/f32` for an op of a type, the first part of other names.
fn family(name: &str) -> &str {
    let parts = if name.starts_with("op/") { 2 } else { 1 };
    name.match_indices('/').nth(parts - 1).map_or(name, |(end, _)| &name[..end])
}

/// The groups of each family, summed up.
fn family_table(report: &Report) -> String {
    let mut families: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    for group in &report.groups {
        let sums = families.entry(family(&group.name)).or_default();
        for (sum, add) in sums.iter_mut().zip([1, group.cases, group.dispatches, group.failed]) {
            *sum += add;
        }
    }
    let mut rows = vec![["  group", "groups", "cases", "dispatches", "failed"].map(String::from).to_vec()];
    for (family, [groups, cases, dispatches, failed]) in families {
        let failed = if failed == 0 { "0".into() } else { paint(BAD, &grouped(failed)) };
        let sums = [groups, cases, dispatches].map(grouped);
        rows.push([vec![format!("  {family}")], sums.to_vec(), vec![failed]].concat());
    }
    let align = [Align::Left, Align::Right, Align::Right, Align::Right, Align::Left];
    let table = columns(&align, &rows);
    let (head, rest) = table.split_once('\n').unwrap_or((&table, ""));
    format!("{}\n{rest}", paint(BOLD, head))
}

/// One line for each track: its levels, each passed, failed or not run.
fn badges(report: &Report) -> String {
    let badge = |level: Level, track: Track| match report.level_state(level, track) {
        LevelState::Passed => paint(GOOD, &format!("[{level} ok]")),
        LevelState::Failed => paint(BAD, &format!("[{level} FAIL]")),
        LevelState::NotRun => paint(DIM, &format!("[{level} --]")),
    };
    let line = |track: Track| {
        let badges = Level::ALL.map(|level| badge(level, track)).join(" ");
        format!("  {:<8} {badges}\n", track.name())
    };
    Track::ALL.map(line).concat()
}

/// The first failures in full, then the names of the others.
fn failures(report: &Report) -> String {
    let mut text = String::new();
    for failure in report.failures.iter().take(SHOWN_MAX) {
        text.push_str(&format!("\n{}\n", highlight(&printable(&failure.to_string()))));
    }
    let others: Vec<Vec<String>> = report
        .failures
        .iter()
        .skip(SHOWN_MAX)
        .take(LISTED_MAX)
        .map(|failure| vec![format!("  {}", failure.case), failure.cause.to_string()])
        .collect();
    if !others.is_empty() {
        text.push_str(&format!("\n  and {}:\n", plural(report.failures.len() - SHOWN_MAX, "other failure")));
        text.push_str(&columns(&[Align::Left; 2], &others));
    }
    if report.failures.len() > SHOWN_MAX + LISTED_MAX {
        text.push_str("  ... `--html FILE` shows all\n");
    }
    text
}

/// The last line: what it all comes to.
fn verdict(args: &Certify, report: &Report, cancelled: bool, written: Option<&Path>) -> String {
    let ok = paint(GOOD, "ok");
    if cancelled {
        let next = match &args.journal {
            Some(path) => format!("run the same command again to go on from {}", path.display()),
            None => "with `--journal FILE` a run can go on where it was interrupted".into(),
        };
        return format!(
            "  {} after {}; {next}\n",
            paint(BAD, "interrupted"),
            plural(report.groups.len(), "group")
        );
    }
    if !report.failures.is_empty() {
        let text = format!("  {} no certificate: every case of the level must pass\n", paint(BAD, "FAIL"));
        let held = |track: Track| {
            report.standing(track).level.filter(|_| report.complete).map(|level| (track, level))
        };
        let less = Track::ALL.into_iter().filter_map(held).map(|(track, level)| {
            format!("  the {track} track holds `{level}`: `--track {track} --level {level}` certifies that\n")
        });
        return text + &less.collect::<String>();
    }
    if let Some((index, count)) = args.shard {
        return format!(
            "  {ok} part {} of {count} passed; `certify --merge A --merge B ...` joins the journals\n",
            index + 1
        );
    }
    match (written, report.complete) {
        (Some(path), _) => format!("  {ok} certificate written to {}\n", path.display()),
        (None, true) => format!("  {ok} nothing failed; `-o FILE` writes a certificate\n"),
        (None, false) => format!("  {ok} nothing failed\n"),
    }
}

fn as_json(report: &Report, cancelled: bool, written: Option<&Path>) -> Value {
    let groups: Vec<Value> = report
        .groups
        .iter()
        .map(|group| {
            json!({ "name": group.name, "level": group.level, "track": group.track, "cases": group.cases,
                "dispatches": group.dispatches, "failed": group.failed })
        })
        .collect();
    let held = |track| report.complete.then(|| report.standing(track).level).flatten();
    json!({
        "backend": Identity::new(&report.backend, report.driver, &report.profile),
        "size": report.size,
        "nonce": Digest(report.nonce).to_string(),
        "suite_digest": report.suite_digest().to_string(),
        "levels": { "integer": held(Track::Integer), "float": held(Track::Float) },
        "cases": report.cases(),
        "dispatches": report.dispatches(),
        "complete": report.complete,
        "interrupted": cancelled,
        "started": report.started,
        "wall_ns": u64::try_from(report.elapsed.as_nanos()).unwrap_or(u64::MAX),
        "certificate": written.map(|path| path.display().to_string()),
        "coverage": report.coverage,
        "groups": groups,
        "failures": report.failures.iter().map(failure_json).collect::<Vec<_>>(),
    })
}

fn failure_json(failure: &ParityFailure) -> Value {
    let bytes =
        |bytes: &[u8]| json!({ "bytes": bytes.len(), "hex": hex(&bytes[..bytes.len().min(JSON_BYTES_MAX)]) });
    let inputs: serde_json::Map<String, Value> =
        failure.inputs.iter().map(|(name, contents)| (name.clone(), bytes(contents))).collect();
    json!({
        "case": failure.case,
        "level": failure.level,
        "track": failure.track,
        "cause": failure.cause.code(),
        "message": failure.message,
        "fix": failure.fix(),
        "program": failure.program,
        "grid": failure.grid,
        "inputs": inputs,
        "expected": bytes(&failure.expected),
        "actual": bytes(&failure.actual),
        "difference": failure.difference.as_ref().map(|found| json!({
            "buffer": found.buffer, "element": found.element, "expected": found.expected,
            "actual": found.actual, "count": found.count,
        })),
        "replay": failure.replay,
    })
}
