//! The optimiser: a flat list of passes, each one file, each keeping every bit of every result.
//!
//! | pass | what it does |
//! | --- | --- |
//! | `inline` | puts functions where they are called |
//! | `fold` | computes constants, takes the branches they decide |
//! | `unroll` | writes short loops out |
//! | `forward` | reads locals and memory from what was last written |
//! | `if_convert` | turns short branches into selects |
//! | `algebra` | rewrites ops by exact rules |
//! | `range` | decides comparisons by what values can be; [`range::analyse`] proves accesses in bounds |
//! | `cse` | computes equal values once |
//! | `licm` | moves what no trip changes out of loops |
//! | `dce` | deletes what nothing needs |
//!
//! A pass works on the open parts of a program. In debug builds the result of every pass is sealed and validated; a
//! pass that breaks a program is a mistake of ours and panics with the pass's name. Other builds take the passes at
//! their word: validating what they made would take a twentieth of the time that a small program takes to compile.
//! Every pass is linear in the program's size and what it may add is bounded.
//!
//! Kept: the bytes of all outputs, the first trap in program order, the meaning of accesses out of bounds, freedom from
//! races, and uniformity. Not kept: the number of loads, values nobody sees, and bits of NaNs in registers.

mod algebra;
mod cse;
mod dce;
mod edit;
mod fold;
mod forward;
mod if_convert;
mod inline;
mod licm;
mod liveness;
pub mod range;
mod unroll;
mod versions;

use crate::diagnostic::Diagnostic;
use crate::ir::{Block, Program, ProgramError, ProgramParts};
use crate::validate::{ValidProgram, validate};
use std::borrow::Cow;

/// One step of the optimiser.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The name, as commands and test files write it.
    pub name: &'static str,
    /// What it does, in a few words.
    pub description: &'static str,
    /// Changes a program that is valid into one that is.
    pub run: fn(&mut ProgramParts),
}

impl Pass {
    /// The pass with that name.
    pub fn from_name(name: &str) -> Option<&'static Pass> {
        PASSES.iter().find(|pass| pass.name == name)
    }
}

/// The passes, each once.
pub const PASSES: &[Pass] = &[
    inline::PASS,
    fold::PASS,
    unroll::PASS,
    forward::PASS,
    if_convert::PASS,
    algebra::PASS,
    range::PASS,
    cse::PASS,
    licm::PASS,
    dce::PASS,
];

/// What [`optimise`] runs: the passes in order, and then again those to which the others have given new work.
pub const SCHEDULE: &[Pass] = &[
    inline::PASS,
    fold::PASS,
    unroll::PASS,
    forward::PASS,
    if_convert::PASS,
    algebra::PASS,
    range::PASS,
    cse::PASS,
    licm::PASS,
    dce::PASS,
    fold::PASS,
    forward::PASS,
    if_convert::PASS,
    algebra::PASS,
    range::PASS,
    cse::PASS,
    licm::PASS,
    dce::PASS,
];

/// A pass made something that is not a program, or not a valid one: a mistake in the pass.
#[derive(Clone, Debug, thiserror::Error)]
#[error("pass `{pass}` broke the program: {message}. Fix: {fix}")]
pub struct BrokenProgram {
    /// The pass.
    pub pass: &'static str,
    /// What is wrong with its result.
    pub message: String,
    /// What to do about it.
    pub fix: &'static str,
}

impl BrokenProgram {
    fn new(pass: &'static str, message: String) -> BrokenProgram {
        BrokenProgram { pass, message, fix: "report it with the program; leave the pass out meanwhile" }
    }
}

/// The same program, faster: runs [`SCHEDULE`].
///
/// # Panics
/// If a pass breaks the program, which is a mistake in the pass.
pub fn optimise(program: &ValidProgram) -> ValidProgram {
    let mut parts = program.parts().clone();
    // What the first round began with: the program without calls.
    let mut first = Cow::Borrowed(&program.parts().body.block);
    // What the first round's `algebra` left, as long as the passes behind it leave it so.
    let mut settled: Option<Block> = None;
    for (at, pass) in SCHEDULE.iter().enumerate() {
        let block = &parts.body.block;
        // The passes that run again have nothing to do if the first round did nothing, and those behind `algebra` not if
        // they did nothing with this very program.
        if at == PASSES.len() {
            if *block == *first {
                break;
            }
            settled = settled.filter(|settled| settled == block);
        } else if at > PASSES.len() && pass.name == range::PASS.name && settled.as_ref() == Some(block) {
            break;
        }
        (pass.run)(&mut parts);
        let block = &parts.body.block;
        if pass.name == inline::PASS.name && !program.parts().functions.is_empty() {
            first = Cow::Owned(block.clone());
        } else if at < PASSES.len() && pass.name == algebra::PASS.name && *block != *first {
            settled = Some(block.clone());
        }
        if cfg!(debug_assertions) {
            seal(pass.name, parts.clone()).unwrap_or_else(|broken| panic!("{broken}"));
        }
    }
    match Program::made_by_passes(parts) {
        Ok(program) => ValidProgram::made_by_passes(program),
        Err(error) => panic!("{}", BrokenProgram::new("optimise", error.to_string())),
    }
}

/// Runs `passes` in order and shows the program after each to `observer`.
pub fn optimise_with(
    program: &ValidProgram,
    passes: &[Pass],
    observer: &mut dyn FnMut(&Pass, &Program),
) -> Result<ValidProgram, BrokenProgram> {
    let mut valid = program.clone();
    let mut parts = program.parts().clone();
    for pass in passes {
        (pass.run)(&mut parts);
        valid = seal(pass.name, parts.clone())?;
        observer(pass, valid.program());
    }
    Ok(valid)
}

fn seal(pass: &'static str, parts: ProgramParts) -> Result<ValidProgram, BrokenProgram> {
    let unsealed = |error: ProgramError| BrokenProgram::new(pass, error.to_string());
    let invalid = |findings: Vec<Diagnostic>| {
        let first = findings.first().map_or_else(String::new, ToString::to_string);
        BrokenProgram::new(pass, first)
    };
    let sealed = Program::new(parts).map_err(unsealed)?;
    validate(&sealed).map_err(invalid)
}
