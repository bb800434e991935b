//! Properties that hold for any input bytes: one function per fuzz target.
//!
//! The targets under `fuzz/` call these, and so does the test `regress`, which replays the inputs that once broke one.
//! A function returns when its property holds and panics when it does not.

use crate::any;
use base64ct::{Base64, Encoding};
use std::cell::Cell;
use vyre_foundation::diagnostic::Diagnostic;
use vyre_foundation::ir::{Digest, Program};
use vyre_foundation::launch;
use vyre_foundation::opt;
use vyre_foundation::text::{self, SourceMap};
use vyre_foundation::validate::{ValidProgram, validate as judge};
use vyre_foundation::wire::{self, MAGIC, VERSION};
use vyre_generate::Case;
use vyre_generate::edge;
use vyre_reference::{FINDINGS_MAX, FindingKind, Launch, Options, Outcome, RunError, Schedule, run};

/// A fuzz target: its name and what it checks.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("text", text),
    ("wire", wire),
    ("roundtrip", roundtrip),
    ("validate", validate),
    ("optimise", optimise),
    ("certificate", certificate),
];

/// Any source text: parsing ends with a program or with errors that have a fix, and a program survives printing and
/// formatting.
pub fn text(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let program = match text::parse(source) {
        Ok(parsed) => parsed.program,
        Err(findings) => return check_findings(&findings, source, &SourceMap::default()),
    };
    check_text(&program);
    let formatted = text::format(source).expect("what parses can be formatted");
    let again = text::parse(&formatted).expect("what was formatted parses").program;
    assert_eq!(text::print(&again), text::print(&program), "formatting changes the program");
    assert_eq!(text::format(&formatted).as_ref(), Ok(&formatted), "formatting twice changes the text");
}

/// Any bytes: decoding ends with a program or an error that has a fix, and a program has the bytes it was read from.
///
/// The digest in the header would stop nearly every mutation, so the bytes are read as a payload too, after a header
/// that fits them.
pub fn wire(data: &[u8]) {
    check_decoding(data);
    check_decoding(&with_header(data));
}

/// A generated program, valid or not: both forms carry it.
pub fn roundtrip(data: &[u8]) {
    let valid = vyre_generate::from_bytes(data, &vyre_generate::Config::default()).program;
    for program in [any::from_bytes(data), valid] {
        check_text(&program);
        let bytes = program.to_bytes();
        assert_eq!(Program::from_bytes(&bytes).as_ref(), Ok(&program), "the wire form changes the program");
    }
}

/// Any program: validation ends, with a fix for everything it finds; a valid program runs, and without a race its bytes
/// are the same in every order of lanes.
///
/// Bytes that are neither text nor a payload draw a program from the generator of arbitrary ones.
pub fn validate(data: &[u8]) {
    let program = read(data).unwrap_or_else(|| any::from_bytes(data));
    let (source, map) = text::print_with_map(&program);
    let valid = match judge(&program) {
        Ok(valid) => valid,
        Err(findings) => return check_findings(&findings, &source, &map),
    };
    let Some(launch) = small_launch(&valid) else { return };
    let Some(settled @ Ok(_)) = race_free(&valid, &launch) else { return };
    for schedule in [Schedule::Reverse, Schedule::Shuffle(data.len() as u64)] {
        if let Some(other) = finish(&valid, &launch, schedule, false) {
            assert_eq!(bytes(other), settled, "{schedule:?} gives other bytes\n{source}");
        }
    }
}

/// A valid program, generated or read: a pass alone and all of them together keep its bytes.
pub fn optimise(data: &[u8]) {
    let read = read(data);
    let generated = read.is_none();
    let (valid, launch) = match read {
        Some(program) => {
            let Ok(valid) = judge(&program) else { return };
            let Some(launch) = small_launch(&valid) else { return };
            (valid, launch)
        }
        None => {
            let config = vyre_generate::Config { traps: true, ..vyre_generate::Config::default() };
            let Case { program, grid, buffers } = vyre_generate::from_bytes(data, &config);
            let valid = judge(&program).expect("generated programs are valid");
            (valid, Launch { grid, buffers })
        }
    };
    let Some(settled) = race_free(&valid, &launch) else { return };
    if settled.is_err() && !generated {
        return;
    }
    // One pass alone, a different one for different inputs, shows what later passes would hide.
    let pass =
        opt::Pass::ALL[data.iter().map(|byte| usize::from(*byte)).sum::<usize>() % opt::Pass::ALL.len()];
    let alone =
        opt::optimise_with(&valid, &[pass], &mut |_, _| {}).unwrap_or_else(|broken| panic!("{broken}"));
    for (name, changed) in [(pass.name(), alone), ("all passes", opt::optimise(&valid))] {
        if let Some(other) = finish(&changed, &launch, Schedule::Forward, false) {
            let show = |program: &ValidProgram| text::print(program.program());
            assert_eq!(bytes(other), settled, "{name} turns\n{}\ninto\n{}", show(&valid), show(&changed));
        }
    }
}

/// Any bytes: reading a certificate ends with one whose file they are, or with an error that has a fix.
///
/// Few mutations of a file get past its envelope, so the bytes are also read as the statement in one, and as changes
/// to the statement of a right certificate: each four bytes are a place, how much goes there, and what comes.
pub fn certificate(data: &[u8]) {
    check_certificate(data);
    check_certificate(&in_envelope(data));
    let mut statement = statement();
    for change in data.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % (statement.len() + 1);
        let end = (at + usize::from(change[2] % 8)).min(statement.len());
        statement.splice(at..end, (change[2] >= 128).then_some(change[3]));
    }
    check_certificate(&in_envelope(&statement));
}

fn check_certificate(file: &[u8]) {
    match vyre_conform::Certificate::from_json(file) {
        Ok(certificate) => assert_eq!(certificate.to_json().as_bytes(), file, "a certificate has one form"),
        Err(error) => assert!(!error.message.is_empty() && !error.fix.is_empty(), "{error:?}"),
    }
}

/// An unsigned envelope around a statement.
fn in_envelope(statement: &[u8]) -> Vec<u8> {
    let payload = Base64::encode_string(statement);
    format!(
        "{{\"payloadType\":\"application/vnd.in-toto+json\",\"payload\":\"{payload}\",\"signatures\":[]}}\n"
    )
    .into_bytes()
}

/// The statement of a run of two groups.
fn statement() -> Vec<u8> {
    use vyre_conform::{GroupReport, Level, Profile, Report, Size, Track};
    let groups = Track::ALL.map(|track| GroupReport {
        name: format!("op/{track}"),
        level: Level::Ops,
        track,
        seeded: false,
        dispatches: 1,
        cases: 2,
        failed: 0,
        content: Digest([1; 32]),
        root: Digest([2; 32]),
    });
    let mut groups = groups.to_vec();
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    let report = Report {
        backend: "fuzz".into(),
        profile: Profile::floor(),
        driver: false,
        size: Size::Quick,
        level: Level::Ops,
        track: None,
        nonce: [3; 32],
        planned: groups.iter().map(|group| (group.name.clone(), group.level, group.track)).collect(),
        groups,
        unrun: Vec::new(),
        failures: Vec::new(),
        coverage: String::new(),
        complete: true,
        started: "2025-01-31T12:00:00Z".into(),
        elapsed: std::time::Duration::from_secs(1),
    };
    let file = report.certificate().expect("nothing failed").to_json();
    let payload = file.split('"').nth(7).expect("the payload is the second field");
    Base64::decode_vec(payload).expect("a payload is base64")
}

/// The program that bytes are, as text or as a payload.
fn read(data: &[u8]) -> Option<Program> {
    let parsed = std::str::from_utf8(data).ok().and_then(|source| text::parse(source).ok());
    parsed.map(|parsed| parsed.program).or_else(|| wire::decode(&with_header(data)).ok())
}

/// Elements bound where the dispatch decides, and the most that are bound at all.
const ELEMENTS: u32 = 37;
const ELEMENTS_MAX: u32 = 1 << 16;
/// How often a run is asked whether to stop; the reference asks every 65,536 instructions.
const STOP_AFTER: u32 = 8;

/// A launch of two workgroups on edge values; `None` if the buffers would be large.
fn small_launch(valid: &ValidProgram) -> Option<Launch> {
    let parts = valid.parts();
    let mut buffers = Vec::new();
    for id in launch::bound_buffers(parts) {
        let buffer = parts.buffer(id);
        let count = buffer.len.unwrap_or(ELEMENTS);
        if count > ELEMENTS_MAX {
            return None;
        }
        let indirect = launch::indirect(parts).is_some_and(|(args, _)| args == id);
        buffers.push(match indirect {
            true => 1_u32.to_le_bytes().repeat(count as usize),
            false => edge::data(buffer.ty, count as usize, u64::from(id.0)),
        });
    }
    let grid = launch::indirect(parts).is_none().then_some([2, 1, 1]);
    Some(Launch { grid, buffers })
}

/// What a run ends with: outputs, or the code of a trap.
fn bytes(ended: Result<Outcome, u32>) -> Result<Vec<Vec<u8>>, u32> {
    ended.map(|outcome| outcome.buffers)
}

/// The bytes of a run, unless it races or takes too long. A trap hides races.
fn race_free(valid: &ValidProgram, launch: &Launch) -> Option<Result<Vec<Vec<u8>>, u32>> {
    let checked = finish(valid, launch, Schedule::Forward, true)?;
    let racy = |outcome: &Outcome| {
        let races = outcome.findings.iter().any(|finding| matches!(finding.kind, FindingKind::Race));
        races || outcome.findings.len() >= FINDINGS_MAX
    };
    match checked {
        Ok(outcome) if racy(&outcome) => None,
        Ok(outcome) => Some(Ok(outcome.buffers)),
        Err(code) => Some(Err(code)),
    }
}

/// Runs to the end; `None` if that takes too long or too much memory.
fn finish(
    valid: &ValidProgram,
    launch: &Launch,
    schedule: Schedule,
    check: bool,
) -> Option<Result<Outcome, u32>> {
    let asked = Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > STOP_AFTER
    };
    let memory_bytes_max = 256 << 20;
    let options = Options { check, schedule, stop: Some(&stop), memory_bytes_max, ..Options::default() };
    match run(valid, launch.clone(), &options) {
        Ok(outcome) => Some(Ok(outcome)),
        Err(RunError::Trap { code, .. }) => Some(Err(code)),
        Err(RunError::Stopped | RunError::Memory { .. } | RunError::Launch(_)) => None,
        Err(RunError::Diverged { .. }) => panic!("{}", text::print(valid.program())),
    }
}

fn with_header(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    let digest = blake3::hash(payload);
    [&MAGIC[..], &VERSION.to_le_bytes(), &length, digest.as_bytes(), payload].concat()
}

fn check_decoding(bytes: &[u8]) {
    match wire::decode(bytes) {
        Ok(program) => assert_eq!(wire::encode(&program), bytes, "a program has one encoding"),
        Err(error) => assert!(error.to_string().contains("Fix: "), "{error}"),
    }
}

fn check_text(program: &Program) {
    let printed = text::print(program);
    let parsed = text::parse(&printed).unwrap_or_else(|findings| panic!("{findings:?}\n{printed}"));
    assert_eq!(text::print(&parsed.program), printed);
    assert_eq!(parsed.program, *program, "the text form changes the program");
    assert_eq!(text::format(&printed).as_ref(), Ok(&printed), "printed text is formatted");
}

fn check_findings(findings: &[Diagnostic], source: &str, map: &SourceMap) {
    assert!(!findings.is_empty(), "a refusal has a reason");
    for finding in findings {
        assert!(!finding.fix.is_empty() && !finding.message.is_empty(), "{finding:?}");
        assert!(text::render(finding, "input.vyre", source, map).contains("Fix: "), "{finding:?}");
    }
}
