//! The reference's answer, and whether a target's answer equals it.

use crate::batch::{Batch, Step};
use crate::target::{Fault, Job, Target};
use std::cell::Cell;
use vyre_foundation::ir::{Digest, Program, ProgramParts};
use vyre_foundation::launch::{bound_buffers, indirect};
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_reference::{FindingKind, Launch, Options, RunError};

/// The result of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The output buffers, by ascending binding.
    Outputs(Vec<Vec<u8>>),
    /// The code of the first trap in program order.
    Trap(u32),
}

/// A batch with what the reference says of each of its steps.
pub(crate) struct Prepared {
    pub(crate) batch: Batch,
    pub(crate) expected: Vec<Answer>,
}

impl Prepared {
    /// Asks the reference.
    ///
    /// # Panics
    /// If the reference refuses the batch: the suite sends only programs that are valid and run.
    pub(crate) fn new(batch: Batch) -> Prepared {
        let valid = valid(&batch.program)
            .unwrap_or_else(|findings| panic!("the suite's own `{}` is not valid: {findings}", batch.name));
        let expected = batch.steps.iter().map(|step| {
            expected(&valid, step)
                .unwrap_or_else(|error| panic!("the suite's own `{}` does not run: {error}", batch.name))
        });
        Prepared { expected: expected.collect(), batch }
    }

    /// The leaf that a right backend gives.
    pub(crate) fn leaf(&self) -> Digest {
        let mut leaf = Leaf::new(&self.batch);
        self.expected.iter().for_each(|answer| leaf.add(answer));
        leaf.finish()
    }
}

/// The program, validated, or what is wrong with it.
pub(crate) fn valid(program: &Program) -> Result<ValidProgram, String> {
    validate(program)
        .map_err(|findings| findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// The reference's result of one launch.
pub(crate) fn expected(program: &ValidProgram, step: &Step) -> Result<Answer, RunError> {
    expected_under(program, step, &Options::default())
}

/// The reference's result of one launch under other options.
pub(crate) fn expected_under(
    program: &ValidProgram,
    step: &Step,
    options: &Options<'_>,
) -> Result<Answer, RunError> {
    let parts = program.parts();
    let launch = Launch {
        grid: indirect(parts).is_none().then_some(step.grid),
        buffers: step.contents.iter().map(crate::batch::Content::to_bytes).collect(),
    };
    match vyre_reference::run(program, launch, options) {
        Err(RunError::Trap { code, .. }) => Ok(Answer::Trap(code)),
        Err(error) => Err(error),
        Ok(outcome) => Ok(Answer::Outputs(outputs(parts, outcome.buffers))),
    }
}

/// Checks for a stop, one in 65,536 lines, after which a generated launch counts as too slow.
const POLLS_MAX: u32 = 64;

/// The reference's answer for a generated launch: `None` unless the program is valid, the launch admitted, not
/// too slow, and free of races.
pub(crate) fn checked(program: &Program, step: &Step) -> Option<Answer> {
    let valid = valid(program).ok()?;
    let parts = program.parts();
    let launch = Launch {
        grid: indirect(parts).is_none().then_some(step.grid),
        buffers: step.contents.iter().map(crate::batch::Content::to_bytes).collect(),
    };
    let polls = Cell::new(0);
    let stop = || polls.replace(polls.get() + 1) > POLLS_MAX;
    let options = Options { check: true, stop: Some(&stop), ..Options::default() };
    match vyre_reference::run(&valid, launch, &options) {
        Err(RunError::Trap { code, .. }) => Some(Answer::Trap(code)),
        Err(_) => None,
        Ok(outcome) if outcome.findings.iter().any(|finding| finding.kind == FindingKind::Race) => None,
        Ok(outcome) => Some(Answer::Outputs(outputs(parts, outcome.buffers))),
    }
}

/// The buffers that return, out of all that are bound.
fn outputs(parts: &ProgramParts, buffers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let bound = bound_buffers(parts).into_iter().zip(buffers);
    bound.filter(|(id, _)| parts.buffer(*id).is_output()).map(|(_, bytes)| bytes).collect()
}

/// A step whose answer is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Miss {
    /// Which step of the batch.
    pub(crate) step: usize,
    pub(crate) expected: Answer,
    pub(crate) actual: Result<Answer, Fault>,
}

/// Runs a batch's steps in order, up to the first wrong answer. The digest covers what the target really gave.
pub(crate) fn run(target: &dyn Target, prepared: &Prepared) -> Result<Digest, Miss> {
    let Prepared { batch, expected } = prepared;
    let mut leaf = Leaf::new(batch);
    // All steps are made from one allocation for each buffer, where their sizes allow.
    let mut contents = Vec::new();
    for (at, (step, expected)) in batch.steps.iter().zip(expected).enumerate() {
        refill(&mut contents, step);
        let job = Job {
            program: &batch.program,
            grid: step.grid,
            contents: &contents,
            init: step.init,
            lookup: batch.lookup,
        };
        let actual = target.run(&job);
        if !is_right(&actual, expected) {
            return Err(Miss { step: at, expected: expected.clone(), actual });
        }
        leaf.add(expected);
    }
    Ok(leaf.finish())
}

/// Whether an answer is the expected one; a trap may also be reported in an error's text.
pub(crate) fn is_right(actual: &Result<Answer, Fault>, expected: &Answer) -> bool {
    actual.as_ref() == Ok(expected)
        || matches!((actual, expected), (Err(Fault::Error(text)), Answer::Trap(code)) if says_trap(text, *code))
}

/// What a transcript has for one batch: a digest over its name, its content and what came out.
pub(crate) struct Leaf(blake3::Hasher);

impl Leaf {
    pub(crate) fn new(batch: &Batch) -> Leaf {
        let mut hasher = leaf_hasher();
        hasher.update(batch.name.as_bytes()).update(&batch.digest().0);
        Leaf(hasher)
    }

    /// Adds what the next step gave.
    pub(crate) fn add(&mut self, answer: &Answer) {
        match answer {
            Answer::Outputs(outputs) => {
                for bytes in outputs {
                    self.0.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
                }
            }
            Answer::Trap(code) => {
                self.0.update(b"trap").update(&code.to_le_bytes());
            }
        }
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

/// The leaf of a procedure that held. It covers no bytes: what a driver answers is compared in the procedure itself.
pub(crate) fn procedure_leaf(name: &str) -> Digest {
    Digest(*leaf_hasher().update(name.as_bytes()).finalize().as_bytes())
}

fn leaf_hasher() -> blake3::Hasher {
    blake3::Hasher::new_derive_key("vyre conformance leaf v1")
}

/// Whether an error's text reports that trap and says what to do.
fn says_trap(text: &str, code: u32) -> bool {
    let after = text.split("trap ").skip(1);
    let said = |rest: &str| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse() == Ok(code)
    };
    text.contains("Fix:") && after.map(said).next() == Some(true)
}

/// Puts a step's contents where the last step's were.
fn refill(contents: &mut Vec<crate::batch::Content>, step: &Step) {
    use crate::batch::Content;
    contents.resize(step.contents.len(), Content::Zeros(0));
    for (old, new) in contents.iter_mut().zip(&step.contents) {
        match (old, new) {
            (Content::Bytes(old), Content::Bytes(new)) => {
                old.clear();
                old.extend_from_slice(new);
            }
            (old, new) => *old = new.clone(),
        }
    }
}
