//! Wire files that must decode for ever.
//!
//! `tests/wire/vN/NAME.vyreb` was written by the release that introduced version N, `NAME.vyre` is the same program in
//! text. A golden file is never changed: with `UPDATE_EXPECT=1` a text is formatted and gets a golden file if it has none.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use vyre_foundation::ir::{DataType, OpId, Program, walk};
use vyre_foundation::{text, wire};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/wire").join("v1")
}

/// The stems of the files with that extension.
fn stems(extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory()).expect("the golden files' directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let with_extension = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    let mut stems: Vec<PathBuf> = with_extension.map(|path| path.with_extension("")).collect();
    stems.sort();
    stems
}

fn parse(stem: &Path) -> Program {
    let path = stem.with_extension("vyre");
    let shown = path.display();
    let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{shown}: {error}"));
    let formatted = text::format(&source).unwrap_or_else(|errors| panic!("{shown}: {errors:#?}"));
    if source != formatted && updates() {
        std::fs::write(&path, &formatted).expect("the text can be written");
    } else {
        assert_eq!(source, formatted, "{shown} is formatted");
    }
    text::parse(&formatted).unwrap_or_else(|errors| panic!("{shown}: {errors:#?}")).program
}

fn updates() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some()
}

fn decode(stem: &Path) -> (Vec<u8>, Program) {
    let path = stem.with_extension("vyreb");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}. Fix: run this test with UPDATE_EXPECT=1 and commit the new file", path.display())
    });
    let program = wire::decode(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (bytes, program)
}

#[test]
fn golden_files_decode_to_their_texts() {
    for stem in stems("vyre") {
        let program = parse(&stem);
        let path = stem.with_extension("vyreb");
        if !path.exists() && wire::VERSION == 1 && updates() {
            std::fs::write(&path, program.to_bytes()).expect("the golden file can be written");
        }
        let (bytes, decoded) = decode(&stem);
        assert_eq!(text::print(&decoded), text::print(&program), "{}", path.display());
        assert_eq!(decoded, program, "{}", path.display());
        assert_eq!(decoded.digest().0, bytes[16..48], "{}", path.display());
        assert_eq!(decoded.to_bytes(), bytes, "{}", path.display());
    }
    assert_eq!(stems("vyre"), stems("vyreb"), "each golden file has its text");
}

#[test]
fn golden_files_have_every_op_and_type() {
    let (mut ops, mut literals, mut elements) = (HashSet::new(), HashSet::new(), HashSet::new());
    for stem in stems("vyreb") {
        let (_, program) = decode(&stem);
        let parts = program.parts();
        elements.extend(parts.buffers.iter().map(|buffer| buffer.ty));
        for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
            walk(&body.block, |_, _, node| {
                ops.insert(node.op());
                node.for_each_operand(|operand| {
                    literals.extend(operand.literal().map(|literal| literal.ty()))
                });
            });
        }
    }
    let missing: Vec<OpId> = OpId::all().filter(|op| !ops.contains(op)).collect();
    assert!(missing.is_empty(), "no golden file has {missing:?}. Fix: add a text in tests/wire/v1");
    assert_eq!(literals, HashSet::from(DataType::ALL), "constants of every type");
    assert_eq!(elements, HashSet::from(DataType::ALL), "elements of every type");
}
