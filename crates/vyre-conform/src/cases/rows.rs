//! Programs that compute one row of operands in each lane, and their launches.
//!
//! Operands come from read buffers, one a column, so that no compiler can fold them away; every result goes to a buffer
//! of its own. Most of the suite's cases are rows: a launch checks thousands of them, and an element that differs
//! names its row. All these programs have one name, so a backend learns nothing from it.

use crate::batch::{Batch, Content, Step};
use crate::contract::OutputInit;
use std::fmt::Write;
use vyre_foundation::ir::{DataType, Program};
use vyre_foundation::text::parse;

/// The bits of up to four operands.
pub(super) type Row = [u64; 4];

/// The names of a row's operands.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Rows of one launch. Even a workgroup of one lane then stays below the limit on workgroups.
const ROWS_MAX: usize = 32_768;

/// A program over rows.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// Lanes of a workgroup.
    pub(super) lanes: u32,
    /// The columns' types, which lane i has as `%a`, `%b`, `%c` and `%d`.
    pub(super) inputs: Vec<DataType>,
    /// The lines between loads and stores.
    pub(super) lines: String,
    /// The values that are stored, each in a buffer of its name.
    pub(super) outputs: Vec<(String, DataType)>,
}

impl Kernel {
    pub(super) fn program(&self) -> Program {
        let lanes = self.lanes;
        let mut text = format!("program @rows workgroup({lanes}, 1, 1) {{\n");
        for (binding, (name, ty)) in NAMES.iter().zip(&self.inputs).enumerate() {
            let _ = writeln!(text, "  buffer @{name} : read {}[] binding {binding}", stored(*ty));
        }
        for (at, (name, ty)) in self.outputs.iter().enumerate() {
            let binding = self.inputs.len() + at;
            let _ =
                writeln!(text, "  buffer @{name} : read_write {}[] binding {binding} output", stored(*ty));
        }
        text.push_str("  %i = global_id x\n  %n = len @a\n  %live = lt.u32 %i, %n\n  if %live {\n");
        for (name, ty) in NAMES.iter().zip(&self.inputs) {
            let _ = match ty {
                DataType::Bool => {
                    writeln!(
                        text,
                        "    %{name}.word = load.u32 @{name}[%i]\n    %{name} = ne.u32 %{name}.word, 0"
                    )
                }
                _ => writeln!(text, "    %{name} = load.{ty} @{name}[%i]"),
            };
        }
        text.push_str(&self.lines);
        for (name, ty) in &self.outputs {
            let _ = match ty {
                DataType::Bool => {
                    writeln!(
                        text,
                        "    %{name}.word = select.u32 %{name}, 1, 0\n    store.u32 @{name}[%i], %{name}.word"
                    )
                }
                _ => writeln!(text, "    store.{ty} @{name}[%i], %{name}"),
            };
        }
        text.push_str("  }\n}\n");
        program(&text)
    }

    /// A batch over those rows, which are not empty.
    pub(super) fn batch(&self, name: String, rows: &[Row]) -> Batch {
        let steps = rows.chunks(ROWS_MAX).map(|rows| self.step(rows)).collect();
        Batch { name: format!("{name}:wg={}", self.lanes), program: self.program(), steps, lookup: false }
    }

    fn step(&self, rows: &[Row]) -> Step {
        let columns = self.inputs.iter().enumerate();
        let mut contents: Vec<Content> =
            columns.map(|(at, ty)| Content::Bytes(column(*ty, rows.iter().map(|row| row[at])))).collect();
        for (_, ty) in &self.outputs {
            contents.push(Content::Zeros(rows.len() * stored(*ty).bytes()));
        }
        Step {
            grid: [(rows.len() as u32).div_ceil(self.lanes), 1, 1],
            contents,
            init: init(self.lanes),
            cases: (rows.len() * self.outputs.len()) as u32,
        }
    }
}

/// The initial output memory: one kind per workgroup size, so that a program is compiled for one of them.
pub(super) fn init(number: u32) -> OutputInit {
    match number % 4 {
        0 | 1 => OutputInit::Zero,
        2 => OutputInit::Poison((number * 85 + 0x5a) as u8),
        _ => OutputInit::Uninitialized,
    }
}

/// The program of a text of the suite's own.
pub(super) fn program(text: &str) -> Program {
    match parse(text) {
        Ok(parsed) => parsed.program,
        Err(findings) => unreachable!("the suite writes programs that parse: {}\n{text}", findings[0]),
    }
}

/// The type that stores `ty` in memory.
const fn stored(ty: DataType) -> DataType {
    match ty {
        DataType::Bool => DataType::U32,
        other => other,
    }
}

/// The bytes of a column.
pub(super) fn column(ty: DataType, values: impl Iterator<Item = u64>) -> Vec<u8> {
    let size = stored(ty).bytes();
    values.flat_map(|bits| bits.to_le_bytes().into_iter().take(size)).collect()
}
