//! The reference page of ops, `docs/ops.md`, written from the op table.
//!
//! The table is the only place where an op is described; this module formats it for reading. A tidy test keeps the page in
//! the tree equal to what this module writes.

use std::fmt::Write as _;
use vyre_foundation::ir::{OpId, TypeSet};

/// The page.
pub fn ops_page() -> String {
    let mut page = String::from(INTRODUCTION);
    for (name, set) in TypeSet::NAMED {
        let _ = writeln!(page, "| {name} | {set} |");
    }
    let mut current = "";
    for op in OpId::all() {
        let (title, text) = section(op);
        if title != current {
            current = title;
            let _ = write!(page, "\n## {title}\n\n{text}\n\n| line | T | meaning |\n| --- | --- | --- |\n");
        }
        let info = op.info();
        // A bar would end the table's cell.
        let syntax = info.syntax.replace("  |  ", "` or `");
        let _ = writeln!(page, "| `{syntax}` | {} | {} |", info.types.name(), info.doc);
    }
    page
}

const INTRODUCTION: &str = "\
<!-- Written from the op table by `UPDATE_EXPECT=1 cargo test -p vyre-testkit --test tidy`; edits here are lost. -->

# Ops

Every line of a program is one op. `%` names a value, `$` a mutable local, `@` a buffer, table or function. `T` is the type
suffix; where an op takes several types, this page names the set:

| set | types |
| --- | --- |
";

/// The section of an op. Computing ops are split by what they are about, as their tags are.
fn section(op: OpId) -> (&'static str, &'static str) {
    match op {
        OpId::ComputeOp(_) => match op.info().tag {
            0x00..=0x0f => (
                "Arithmetic",
                "On integers and floats. No op traps, and each has one answer for every operand.",
            ),
            0x10..=0x1f => ("Bits", "Amounts, offsets and counts are u32, whatever the type."),
            0x20..=0x2f => ("Comparison and conversion", "Comparisons give a bool."),
            _ => ("Floats", "IEEE 754, round to nearest even, subnormals kept, never contracted."),
        },
        OpId::BuiltinOp(_) => (
            "Ids and counts",
            "Where a lane is, and how large the launch is. All u32; axes are `x`, `y` and `z`.",
        ),
        OpId::AtomicOp(_) => (
            "Atomics",
            "Read-modify-writes of one element of a read_write or workgroup buffer. The old value is the result, if one is named. Out of bounds they give 0 and do nothing.",
        ),
        OpId::SubgroupOp(_) => (
            "Subgroups",
            "Exchanges among the lanes of a logical subgroup, whose width the program declares. They need flow that is uniform over the workgroup.",
        ),
        OpId::ReadOp(_) => ("Reading", "Buffers, tables and locals."),
        OpId::WriteOp(_) => ("Writing", "Buffers and locals, and traps."),
        OpId::SyncOp(_) => (
            "Steps taken together",
            "All lanes of a subgroup, workgroup or grid take these together, so they occur in uniform flow of the main body.",
        ),
        OpId::ControlOp(_) => ("Control flow", "Structured, and bounded: every program ends."),
    }
}
