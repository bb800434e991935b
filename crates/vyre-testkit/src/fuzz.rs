//! What must hold for any bytes at all: one function per fuzz target.
//!
//! The targets under `fuzz/` call these, and so does the test `regress`, which replays the inputs that once broke one.
//! A function returns when its property holds and panics when it does not.

use crate::{any, generate};
use vyre_foundation::diagnostic::Diagnostic;
use vyre_foundation::ir::Program;
use vyre_foundation::text::{self, SourceMap};
use vyre_foundation::validate::validate as judge;
use vyre_foundation::wire::{self, MAGIC, VERSION};

/// A fuzz target: its name and what it checks.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] =
    &[("text", text), ("wire", wire), ("roundtrip", roundtrip), ("validate", validate)];

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
/// The digest in the header would stop nearly every mutation, so the bytes are read as a payload too, behind a header
/// that fits them.
pub fn wire(data: &[u8]) {
    check_decoding(data);
    check_decoding(&with_header(data));
}

/// A generated program, valid or not: both forms carry it.
pub fn roundtrip(data: &[u8]) {
    let valid = generate::from_bytes(data, &generate::Config::default()).program;
    for program in [any::from_bytes(data), valid] {
        check_text(&program);
        let bytes = program.to_bytes();
        assert_eq!(Program::from_bytes(&bytes).as_ref(), Ok(&program), "the wire form changes the program");
    }
}

/// Any program: validation ends, with a fix for everything it finds.
///
/// Bytes that are neither text nor a payload draw a program from the generator of arbitrary ones.
pub fn validate(data: &[u8]) {
    let parsed = std::str::from_utf8(data).ok().and_then(|source| text::parse(source).ok());
    let program = match parsed.map(|parsed| parsed.program) {
        Some(program) => program,
        None => wire::decode(&with_header(data)).unwrap_or_else(|_| any::from_bytes(data)),
    };
    let (source, map) = text::print_with_map(&program);
    if let Err(findings) = judge(&program) {
        check_findings(&findings, &source, &map);
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
