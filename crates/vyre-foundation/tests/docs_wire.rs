//! Holds `docs/wire.md` to the code: its table of lines to the op table, its sample bytes to the encoder.
//!
//! With `UPDATE_EXPECT=1` the table of lines is written anew. The annotated bytes are checked and never written: the
//! notes are prose.

use std::fmt::Write;
use std::path::PathBuf;
use vyre_foundation::ir::{ControlOp, DataType, OpId, Program, ReadOp, ReduceOp, SyncOp, WriteOp};
use vyre_foundation::text;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/wire.md")
}

fn read() -> String {
    std::fs::read_to_string(path()).expect("docs/wire.md")
}

/// What stands between two texts.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let after = text.split_once(start).unwrap_or_else(|| panic!("docs/wire.md lacks `{start}`")).1;
    after.split_once(end).unwrap_or_else(|| panic!("docs/wire.md lacks `{end}`")).0
}

/// The fields behind a line's tag.
fn fields(op: OpId) -> &'static str {
    match op {
        OpId::ComputeOp(_) => "`type`, result `value`, `operand*`",
        OpId::BuiltinOp(_) => "result `value`, axis",
        OpId::SubgroupOp(op) if op.info().types.is_empty() => "result `value`, `operand*`",
        OpId::SubgroupOp(_) => "`type`, result `value`, `operand*`",
        OpId::AtomicOp(_) => "`type`, result `opt`, `buffer`, index `operand`, `operand*`",
        OpId::ReadOp(ReadOp::Load) | OpId::SyncOp(SyncOp::UniformLoad) => {
            "`type`, result `value`, `buffer`, index `operand`"
        }
        OpId::ReadOp(ReadOp::Len) => "result `value`, `buffer`",
        OpId::ReadOp(ReadOp::Get) => "`type`, result `value`, `local`, index `operand?`",
        OpId::WriteOp(WriteOp::Store) => "`type`, `buffer`, index `operand`, value `operand`",
        OpId::WriteOp(WriteOp::Var) => "`type`, `local`, length `opt`, initial `operand`",
        OpId::WriteOp(WriteOp::Set) => "`type`, `local`, index `operand?`, value `operand`",
        OpId::WriteOp(WriteOp::Trap) => "code `num`",
        OpId::SyncOp(SyncOp::Barrier | SyncOp::SubgroupBarrier | SyncOp::GridBarrier) => "",
        OpId::SyncOp(SyncOp::Mma) => {
            "m, n, k `num`; c `buffer`, offset `operand`; a `buffer`, offset `operand`; b `buffer`, offset `operand`"
        }
        OpId::SyncOp(SyncOp::AllReduce | SyncOp::ReduceScatter) => "`type`, fold, dst `buffer`, src `buffer`",
        OpId::SyncOp(SyncOp::AllGather) => "`type`, dst `buffer`, src `buffer`",
        OpId::SyncOp(SyncOp::Broadcast) => "`type`, dst `buffer`, src `buffer`, root `num`",
        OpId::ControlOp(ControlOp::If) => "condition `operand`, then `lines`, else `lines`",
        OpId::ControlOp(ControlOp::For) => {
            "counter `value`, lo `operand`, hi `operand`, step `num`, body `lines`"
        }
        OpId::ControlOp(ControlOp::Break | ControlOp::Continue) => "",
        OpId::ControlOp(ControlOp::Call) => "result `opt`, `function`, `operand*`",
        OpId::ControlOp(ControlOp::Return) => "`operand?`",
        OpId::ControlOp(ControlOp::IndirectDispatch) => "`buffer`, offset `num`",
    }
}

/// One row per run of ops that have the same fields.
fn table_of_lines() -> String {
    let mut ops: Vec<OpId> = OpId::all().collect();
    ops.sort_by_key(|op| op.info().tag);
    let mut table = String::from("\n| fields after the tag | tags and ops |\n| --- | --- |\n");
    for run in ops.chunk_by(|a, b| fields(*a) == fields(*b)) {
        let names: Vec<String> =
            run.iter().map(|op| format!("`{:02x}` {}", op.info().tag, op.name())).collect();
        let shown = if fields(run[0]).is_empty() { "none" } else { fields(run[0]) };
        writeln!(table, "| {shown} | {} |", names.join(", ")).expect("a string takes it");
    }
    table
}

#[test]
fn the_table_of_lines_is_the_op_table() {
    const START: &str = "<!-- table of lines: written by the test `docs_wire` -->\n";
    const END: &str = "\n<!-- end of the table of lines -->";
    let doc = read();
    let (found, wanted) = (between(&doc, START, END), table_of_lines());
    if found != wanted && std::env::var_os("UPDATE_EXPECT").is_some() {
        let new = doc.replace(&format!("{START}{found}{END}"), &format!("{START}{wanted}{END}"));
        std::fs::write(path(), new).expect("docs/wire.md can be written");
        return;
    }
    assert_eq!(found, wanted, "run this test with UPDATE_EXPECT=1 and look at the difference");
}

#[test]
fn the_types_and_folds_are_those_of_the_code() {
    let doc = read();
    let names = DataType::ALL.map(|ty| ty.name()).join(" | ");
    assert!(doc.contains(&format!("| type | {names} |")), "the table of types");
    let folds: Vec<String> = ReduceOp::ALL.map(|op| format!("{} {}", op as u8, op.name())).to_vec();
    assert!(doc.contains(&format!("A fold is a `u8`: {}.", folds.join(", "))), "the list of folds");
}

#[test]
fn the_sample_bytes_are_those_of_the_encoder() {
    let doc = read();
    let section = doc.split_once("## A file, byte by byte").expect("the section").1;
    let program: Program =
        text::parse(between(section, "```vyre\n", "```")).expect("the sample parses").program;
    let mut bytes: Vec<u8> = Vec::new();
    for line in between(section, "```hexdump\n", "```").lines() {
        let (offset, rest) = line.split_once("  ").expect("offset, bytes, note");
        assert_eq!(offset, format!("{:04x}", bytes.len()), "the offset of `{line}`");
        let (hex, note) = rest.split_once("  ").expect("bytes, note");
        assert!(!note.trim().is_empty(), "`{line}` says what its bytes are");
        bytes.extend(hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("a byte in hex")));
    }
    assert_eq!(hex(&bytes), hex(&program.to_bytes()));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x} "))
}
