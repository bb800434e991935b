//! The programs, each made once: parsed from the crate's text files, or built where they are generic or unrolled.

use crate::reduce::TILE;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use vyre_foundation::ir::Program;
use vyre_foundation::ir::builder::{Kernel, Mem, Number, Val};
use vyre_foundation::text;

/// Programs by name: plans of every size share them.
static MADE: Mutex<BTreeMap<String, Program>> = Mutex::new(BTreeMap::new());

fn made(name: &str, make: impl FnOnce() -> Program) -> Program {
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry(name.to_owned()).or_insert_with(make).clone()
}

/// The program of a text file.
pub(crate) fn parsed(source: &'static str) -> Program {
    // A file is its own name: no two are equal.
    made(source, || text::parse(source).expect("the crate's files parse").program)
}

/// The program that `build` describes. The name says all that it depends on.
pub(crate) fn built(name: &str, workgroup: [u32; 3], build: impl FnOnce(&Kernel)) -> Program {
    made(name, || Program::build(name, workgroup, build).expect("the crate's programs are well formed"))
}

/// Elements that the programs for processors take at a time, and lanes of their workgroups: neighbours in memory are
/// neighbours in vectors.
pub(crate) const ROW: u32 = 32;

/// A lane's first element where each workgroup takes a tile by rows.
pub(crate) fn row_start(k: &Kernel) -> Val<'_, u32> {
    k.workgroup_index() * TILE + k.subgroup_lane()
}

/// Four elements side by side, which compilers load at once where `at` is a multiple of four.
pub(crate) fn four<'k, T: Number, M>(from: Mem<'k, T, M>, at: Val<'k, u32>) -> [Val<'k, T>; 4] {
    [from.at(at), from.at(at + 1), from.at(at + 2), from.at(at + 3)]
}
