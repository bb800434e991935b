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
//! A pass works on the open parts of a program, which a [`Draft`] keeps. In debug builds the result of every pass is sealed
//! and validated; a pass that breaks a program is a mistake of ours and panics with the pass's name. Release builds trust the
//! passes: validating what they made would take a twentieth of the time that a small program takes to compile.
//! Every pass is linear in the program's size and what it may add is bounded.
//!
//! Kept: the bytes of all outputs, the first trap in program order, the meaning of accesses out of bounds, freedom from
//! races, and uniformity. Not kept: the number of loads, values that nothing uses, and bits of NaNs in registers.

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Puts functions where they are called.
    Inline,
    /// Computes constants, and takes the branches they decide.
    Fold,
    /// Writes short loops with known trips out.
    Unroll,
    /// Reads locals and memory from what was last written there.
    Forward,
    /// Turns short branches into selects.
    IfConvert,
    /// Rewrites ops by rules that keep every bit.
    Algebra,
    /// Decides comparisons and branches by what values can be.
    Range,
    /// Computes equal values once, loads equal elements once.
    Cse,
    /// Moves what no trip changes out of loops.
    Licm,
    /// Deletes what nothing needs and what cannot run.
    Dce,
}

impl Pass {
    /// The passes, each once, in the order in which the optimiser runs them.
    pub const ALL: [Pass; 10] = [
        Pass::Inline,
        Pass::Fold,
        Pass::Unroll,
        Pass::Forward,
        Pass::IfConvert,
        Pass::Algebra,
        Pass::Range,
        Pass::Cse,
        Pass::Licm,
        Pass::Dce,
    ];

    /// The pass with that name.
    pub fn from_name(name: &str) -> Option<Pass> {
        Pass::ALL.into_iter().find(|pass| pass.name() == name)
    }

    /// The name, as commands and test files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Pass::Inline => "inline",
            Pass::Fold => "fold",
            Pass::Unroll => "unroll",
            Pass::Forward => "forward",
            Pass::IfConvert => "if_convert",
            Pass::Algebra => "algebra",
            Pass::Range => "range",
            Pass::Cse => "cse",
            Pass::Licm => "licm",
            Pass::Dce => "dce",
        }
    }

    /// Changes a program that is valid into one that is.
    pub fn run(self, parts: &mut ProgramParts) {
        match self {
            Pass::Inline => inline::run(parts),
            Pass::Fold => fold::run(parts),
            Pass::Unroll => unroll::run(parts),
            Pass::Forward => forward::run(parts),
            Pass::IfConvert => if_convert::run(parts),
            Pass::Algebra => algebra::run(parts),
            Pass::Range => range::run(parts),
            Pass::Cse => cse::run(parts),
            Pass::Licm => licm::run(parts),
            Pass::Dce => dce::run(parts),
        }
    }

    /// Whether the other passes can give it new work.
    const fn runs_again(self) -> bool {
        !matches!(self, Pass::Inline | Pass::Unroll)
    }
}

/// What the optimiser runs: the passes in order, and then again those to which the others have given new work.
pub fn schedule() -> Vec<Pass> {
    let again = Pass::ALL.into_iter().filter(|pass| pass.runs_again());
    Pass::ALL.into_iter().chain(again).collect()
}

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

/// A valid program on its way through passes and other rewrites that keep it valid.
pub struct Draft<'a> {
    source: &'a ValidProgram,
    /// `None` until something changes.
    parts: Option<ProgramParts>,
}

impl<'a> Draft<'a> {
    /// A draft that nothing has changed.
    pub const fn new(source: &'a ValidProgram) -> Draft<'a> {
        Draft { source, parts: None }
    }

    /// What the program consists of now.
    pub fn parts(&self) -> &ProgramParts {
        self.parts.as_ref().unwrap_or(self.source.parts())
    }

    /// The same, to be changed into another valid program.
    pub fn parts_mut(&mut self) -> &mut ProgramParts {
        self.parts.get_or_insert_with(|| self.source.parts().clone())
    }

    /// Runs the passes in order, and then again those to which the others have given new work.
    ///
    /// # Panics
    /// In debug builds, if a pass breaks the program, which is a mistake in the pass.
    pub fn optimise(&mut self, passes: &[Pass]) {
        // What the first round begins with: the program without calls.
        let mut first: Cow<'a, Block> = match &self.parts {
            None => Cow::Borrowed(&self.source.parts().body.block),
            Some(parts) => Cow::Owned(parts.body.block.clone()),
        };
        // What the first round's `Algebra` left, as long as the passes behind it leave it so.
        let mut settled: Option<Block> = None;
        for pass in passes {
            let has_calls = !self.parts().functions.is_empty();
            self.run(*pass);
            let block = &self.parts().body.block;
            if *pass == Pass::Inline && has_calls {
                first = Cow::Owned(block.clone());
            } else if *pass == Pass::Algebra && *block != *first {
                settled = Some(block.clone());
            }
        }
        // The passes that run again have nothing to do if the first round did nothing, and those behind `Algebra` not if
        // they did nothing with this very program.
        let block = &self.parts().body.block;
        if *block == *first {
            return;
        }
        settled = settled.filter(|settled| settled == block);
        for pass in passes.iter().filter(|pass| pass.runs_again()) {
            if *pass == Pass::Range && settled.as_ref() == Some(&self.parts().body.block) {
                break;
            }
            self.run(*pass);
        }
    }

    /// Runs the passes in order, each once.
    ///
    /// # Panics
    /// As [`Draft::optimise`].
    pub fn run_once(&mut self, passes: &[Pass]) {
        passes.iter().for_each(|pass| self.run(*pass));
    }

    fn run(&mut self, pass: Pass) {
        pass.run(self.parts_mut());
        self.check(pass.name());
    }

    /// In debug builds, validates what `step` has made.
    ///
    /// # Panics
    /// If it is not valid.
    pub fn check(&self, step: &'static str) {
        if cfg!(debug_assertions) {
            seal(step, self.parts().clone()).unwrap_or_else(|broken| panic!("{broken}"));
        }
    }

    /// The program.
    ///
    /// # Panics
    /// If a pass broke the program so that it cannot be sealed.
    pub fn finish(self) -> ValidProgram {
        let Some(parts) = self.parts else { return self.source.clone() };
        match Program::made_by_passes(parts) {
            Ok(program) => ValidProgram::made_by_passes(program),
            Err(error) => panic!("{}", BrokenProgram::new("optimise", error.to_string())),
        }
    }
}

/// The same program, faster: what [`schedule`] lists, less what would change nothing.
///
/// # Panics
/// If a pass breaks the program, which is a mistake in the pass.
pub fn optimise(program: &ValidProgram) -> ValidProgram {
    let mut draft = Draft::new(program);
    draft.optimise(&Pass::ALL);
    draft.finish()
}

/// Runs `passes` in order and shows the program after each to `observer`.
pub fn optimise_with(
    program: &ValidProgram,
    passes: &[Pass],
    observer: &mut dyn FnMut(Pass, &Program),
) -> Result<ValidProgram, BrokenProgram> {
    let mut valid = program.clone();
    let mut parts = program.parts().clone();
    for pass in passes {
        pass.run(&mut parts);
        valid = seal(pass.name(), parts.clone())?;
        observer(*pass, valid.program());
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
