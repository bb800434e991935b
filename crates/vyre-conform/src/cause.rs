//! From a wrong answer to its likely cause.
//!
//! Three kinds of evidence, in this order: whether the target gives the same answer again, what the bytes look like (what
//! was there before, the input, poison, another order), and which rule of `rules` gives exactly these bytes on the
//! reference. A small probe kernel tells flaws of every launch from flaws of one program. At most a few dozen dispatches.

use crate::batch::{Batch, Content, Step};
use crate::contract::OutputInit;
use crate::failure::Cause;
use crate::judge::{self, Answer, Miss};
use crate::rules::{Mutation, rewrites, rows_of, rules};
use crate::target::{Fault, Job, Target};
use std::time::{Duration, Instant};
use vyre_foundation::ir::{Axis, Program, ProgramParts};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::validate::ValidProgram;
use vyre_lower::convention::{self, Contents};

/// How long rules are tried.
const RULES_TIME_MAX: Duration = Duration::from_secs(2);

/// A cause, and the rule that gives the same bytes.
pub(crate) struct Found {
    pub(crate) cause: Cause,
    pub(crate) rule: Option<String>,
}

impl From<Cause> for Found {
    fn from(cause: Cause) -> Found {
        Found { cause, rule: None }
    }
}

/// The likely cause of a miss. `reduced` is a smaller batch that fails too, if there is one.
pub(crate) fn find(
    target: &dyn Target,
    batch: &Batch,
    miss: &Miss,
    reduced: Option<(&Batch, &Miss)>,
) -> Found {
    if let Some(cause) = plain(miss) {
        return cause.into();
    }
    let Ok(actual) = &miss.actual else { return Cause::Unknown.into() };
    let case = Case { batch, step: batch.steps[miss.step].clone(), expected: &miss.expected, actual };
    let lab = Lab { target, case };
    if let Some(cause) = lab.state(miss.step) {
        return cause.into();
    }
    if let Some(found) = lab.probe() {
        return found;
    }
    if let Some(cause) = signature(&lab.case).or_else(|| lab.cached()).or_else(|| lab.twins()) {
        return cause.into();
    }
    let reduced = reduced.and_then(|(batch, miss)| {
        let actual = miss.actual.as_ref().ok()?;
        Some(Case { batch, step: batch.steps[miss.step].clone(), expected: &miss.expected, actual })
    });
    if let Some(found) = rule(&lab.case, reduced.as_ref()) {
        return found;
    }
    match (&miss.expected, actual) {
        (Answer::Trap(_), _) | (_, Answer::Trap(_)) => Cause::Trap.into(),
        (Answer::Outputs(_), Answer::Outputs(_)) => vague(&lab.case).unwrap_or(Cause::Unknown).into(),
    }
}

/// What can be said without running the target again.
pub(crate) fn at_sight(miss: &Miss) -> Found {
    plain(miss).unwrap_or(Cause::Unknown).into()
}

/// What needs no evidence but the answer itself.
fn plain(miss: &Miss) -> Option<Cause> {
    match (&miss.expected, &miss.actual) {
        (_, Err(Fault::Error(text))) if !text.contains("Fix:") => Some(Cause::NoFix),
        (_, Err(Fault::Error(text))) if text.contains("trap ") => Some(Cause::Trap),
        (_, Err(Fault::Error(_))) => Some(Cause::Refused),
        (_, Err(Fault::Panic(_))) => Some(Cause::Panicked),
        (_, Err(Fault::Length { .. })) => Some(Cause::WrongLength),
        (Answer::Trap(_), Ok(_)) => Some(Cause::Trap),
        (Answer::Outputs(_), Ok(_)) => None,
    }
}

/// The outputs that are expected, and those that came.
type Sides<'a> = (&'a [Vec<u8>], &'a [Vec<u8>]);

/// A launch with what it should give and what it gave.
struct Case<'a> {
    batch: &'a Batch,
    step: Step,
    expected: &'a Answer,
    actual: &'a Answer,
}

impl<'a> Case<'a> {
    fn parts(&self) -> &'a ProgramParts {
        self.batch.program.parts()
    }

    /// Both sides' outputs.
    fn outputs(&self) -> Option<Sides<'a>> {
        match (self.expected, self.actual) {
            (Answer::Outputs(expected), Answer::Outputs(actual)) => Some((expected, actual)),
            _ => None,
        }
    }

    /// What every output held before the launch.
    fn before(&self) -> Vec<Vec<u8>> {
        let bound = bound_buffers(self.parts()).into_iter().zip(&self.step.contents);
        let outputs = bound.filter(|(id, _)| self.parts().buffer(*id).is_output());
        outputs.map(|(_, content)| content.to_bytes()).collect()
    }

    /// The same launch with other contents of the outputs.
    fn starting_with(&self, outputs: &[Vec<u8>]) -> Step {
        let mut step = self.step.clone();
        let mut outputs = outputs.iter();
        for (at, id) in bound_buffers(self.parts()).into_iter().enumerate() {
            if let Some(bytes) = self.parts().buffer(id).is_output().then(|| outputs.next()).flatten() {
                step.contents[at] = Content::Bytes(bytes.clone());
            }
        }
        step
    }

    fn reference(&self, step: &Step) -> Option<Answer> {
        judge::expected(&judge::valid(&self.batch.program).ok()?, step).ok()
    }
}

/// Experiments on the target.
struct Lab<'a> {
    target: &'a dyn Target,
    case: Case<'a>,
}

impl Lab<'_> {
    fn run(&self, step: &Step) -> Option<Answer> {
        self.run_program(&self.case.batch.program, step, self.case.batch.lookup)
    }

    fn run_program(&self, program: &Program, step: &Step, lookup: bool) -> Option<Answer> {
        let Step { grid, contents, init, .. } = step;
        self.target.run(&Job { program, grid: *grid, contents, init: *init, lookup }).ok()
    }

    /// Whether the answer depends on more than the dispatch: what came before, or chance.
    fn state(&self, step_at: usize) -> Option<Cause> {
        let Case { batch, step, expected, actual } = &self.case;
        let again = self.run(step)?;
        if again == **actual {
            return None;
        }
        if again != **expected {
            // Whether it ran on what the last dispatch had left.
            let Answer::Outputs(left) = actual else { return Some(Cause::Nondeterminism) };
            let on_top = self.case.reference(&self.case.starting_with(left));
            return Some(if on_top == Some(again) { Cause::StateLeak } else { Cause::Nondeterminism });
        }
        if let Some((other, _)) = self.other_input()
            && self.run(&other).as_ref() == Some(*expected)
        {
            return Some(Cause::StaleOutput);
        }
        let mut last = None;
        for step in &batch.steps[..=step_at] {
            last = self.run(step);
        }
        Some(if last.as_ref() == Some(*actual) { Cause::StateLeak } else { Cause::Nondeterminism })
    }

    /// The same launch with one input changed, where that changes the result.
    fn other_input(&self) -> Option<(Step, Answer)> {
        let inputs = (0..self.case.step.contents.len()).rev();
        inputs
            .filter_map(|at| {
                let mut step = self.case.step.clone();
                match &mut step.contents[at] {
                    Content::Bytes(bytes) if !bytes.is_empty() => {
                        bytes.iter_mut().for_each(|byte| *byte ^= 0x15)
                    }
                    Content::Bytes(_) | Content::Zeros(_) => return None,
                }
                let expected = self.case.reference(&step).filter(|answer| answer != self.case.expected)?;
                Some((step, expected))
            })
            .next()
    }

    /// Whether the answer stays when the input changes.
    fn cached(&self) -> Option<Cause> {
        let (other, expected) = self.other_input()?;
        let answer = self.run(&other)?;
        (answer == *self.case.actual && answer != expected).then_some(Cause::CachedResult)
    }

    /// Whether the same work under other names, or without lookup data, gives the right bytes.
    fn twins(&self) -> Option<Cause> {
        let Case { batch, step, expected, .. } = &self.case;
        if batch.lookup && self.run_program(&batch.program, step, false).as_ref() == Some(*expected) {
            return Some(Cause::Lookup);
        }
        let mut parts = batch.program.parts().clone();
        parts.name = format!("{}_twin", parts.name).into();
        parts.buffers.iter_mut().for_each(|buffer| buffer.name = format!("{}_twin", buffer.name).into());
        let twin = Program::new(parts).ok()?;
        let answer = self.run_program(&twin, step, batch.lookup);
        (answer.as_ref() == Some(*expected)).then_some(Cause::SpecialCased)
    }

    /// What a kernel that only tells where its lanes are says about every launch.
    fn probe(&self) -> Option<Found> {
        let batch = probe_batch();
        let step = batch.steps[0].clone();
        let expected = judge::expected(&judge::valid(&batch.program).ok()?, &step).ok()?;
        let actual = self.run_program(&batch.program, &step, false)?;
        if actual == expected {
            return None;
        }
        let case = Case { batch: &batch, step, expected: &expected, actual: &actual };
        signature(&case).map(Found::from).or_else(|| rule(&case, None))
    }
}

/// A kernel of 12 workgroups of 8 lanes, each of which stores its place and an input.
fn probe_batch() -> Batch {
    let program = Program::build("probe", [4, 2, 1], |k| {
        let x = k.read::<u32>("x", 0);
        let y = k.read_write::<u32>("y", 1).output();
        let i = k.global_index();
        let places = k.global_id(Axis::X) + k.global_id(Axis::Y) * 256 + k.global_id(Axis::Z) * 65_536;
        y.put(i, places * 17 + x.at(i));
    });
    let words = |count: u32| (0..count).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let step = Step {
        grid: [3, 2, 2],
        contents: vec![Content::Bytes(words(101)), Content::Zeros(4 * 101)],
        init: OutputInit::Poison(0xc5),
        cases: 0,
    };
    Batch::new("probe".into(), program.expect("the builder keeps the limits"), step)
}

/// What the bytes themselves show.
fn signature(case: &Case<'_>) -> Option<Cause> {
    let (expected, actual) = case.outputs()?;
    let (right, wrong) = (expected.concat(), actual.concat());
    if right.len() < 16 || right.len() != wrong.len() {
        return None;
    }
    let before = case.before();
    if wrong.iter().all(|byte| *byte == wrong[0]) || before.concat() == wrong {
        return Some(Cause::NotRun);
    }
    if echoes(case, &wrong) {
        return Some(Cause::Echo);
    }
    if is_reordered(case, expected, actual) {
        return Some(Cause::Layout);
    }
    unwritten(case, &right, &wrong)
}

/// Whether the input, or one of its buffers, came back.
fn echoes(case: &Case<'_>, wrong: &[u8]) -> bool {
    let contents: Vec<Contents<'_>> = case.step.contents.iter().map(Content::as_contents).collect();
    let packed =
        [false, true].map(|lookup| convention::pack(case.parts(), case.step.grid, &contents, lookup));
    let mut inputs: Vec<Vec<u8>> = packed.into_iter().flatten().map(|packed| packed.input).collect();
    inputs.extend(case.step.contents.iter().map(Content::to_bytes));
    inputs.iter().any(|input| {
        let shared = input.len().min(wrong.len());
        shared >= 16 && input[..shared] == wrong[..shared] && wrong[shared..].iter().all(|byte| *byte == 0)
    })
}

/// Whether the right bytes came in another order: outputs exchanged or turned round, bytes of elements swapped.
fn is_reordered(case: &Case<'_>, expected: &[Vec<u8>], actual: &[Vec<u8>]) -> bool {
    let bound = bound_buffers(case.parts()).into_iter().filter(|id| case.parts().buffer(*id).is_output());
    let sizes: Vec<usize> = bound.map(|id| case.parts().buffer(id).ty.bytes()).collect();
    let turned = |bytes: &[u8], size: usize| {
        bytes.chunks(size).flat_map(|chunk| chunk.iter().rev().copied()).collect::<Vec<u8>>()
    };
    let swapped = |size: Option<usize>| {
        let pairs = expected.iter().zip(actual).zip(&sizes);
        pairs.into_iter().all(|((right, wrong), own)| turned(right, size.unwrap_or(*own)) == *wrong)
    };
    let reversed =
        |right: &Vec<u8>, wrong: &Vec<u8>, size: usize| right.chunks(size).rev().eq(wrong.chunks(size));
    let backwards =
        |size: usize| expected.iter().zip(actual).all(|(right, wrong)| reversed(right, wrong, size));
    let mut exchanged: Vec<&Vec<u8>> = expected.iter().collect();
    exchanged.reverse();
    let shifted = |by: usize| {
        let (right, wrong) = (expected.concat(), actual.concat());
        right.len() > 2 * by && right[..right.len() - by] == wrong[by..]
            || right[by.min(right.len())..] == wrong[..right.len() - by.min(right.len())]
    };
    swapped(None)
        || swapped(Some(4))
        || [1, 4].into_iter().any(backwards)
        || sizes.iter().all(|size| backwards(*size))
        || expected.len() > 1 && exchanged.concat_bytes() == actual.concat()
        || [1, 4, 8, 16].into_iter().any(shifted)
}

trait ConcatBytes {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl ConcatBytes for Vec<&Vec<u8>> {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|bytes| bytes.iter().copied()).collect()
    }
}

/// Whether only bytes that no lane writes are wrong.
fn unwritten(case: &Case<'_>, right: &[u8], wrong: &[u8]) -> Option<Cause> {
    let filled = |byte: u8| {
        let outputs: Vec<Vec<u8>> = case.before().iter().map(|bytes| vec![byte; bytes.len()]).collect();
        match case.reference(&case.starting_with(&outputs))? {
            Answer::Outputs(outputs) => Some(outputs.concat()),
            Answer::Trap(_) => None,
        }
    };
    let (a, b) = (filled(0x5a)?, filled(0xa6)?);
    let differing: Vec<usize> = (0..right.len()).filter(|at| right[*at] != wrong[*at]).collect();
    if !differing.iter().all(|at| a[*at] == 0x5a && b[*at] == 0xa6) {
        return None;
    }
    let one_byte = differing.iter().all(|at| wrong[*at] == wrong[differing[0]]);
    Some(if one_byte { Cause::UnwrittenOutput } else { Cause::StaleOutput })
}

/// The first rule that gives exactly what the target gave, on the smaller case and then on the whole one.
fn rule(case: &Case<'_>, reduced: Option<&Case<'_>>) -> Option<Found> {
    let start = Instant::now();
    let smaller = reduced.unwrap_or(case);
    let valid = judge::valid(&smaller.batch.program).ok()?;
    let whole = judge::valid(&case.batch.program).ok()?;
    let mut likely: Option<Found> = None;
    for mutation in hypotheses(&valid) {
        if start.elapsed() > RULES_TIME_MAX {
            break;
        }
        if !gives(&mutation, &valid, smaller) {
            continue;
        }
        let found = Found { cause: mutation.cause(), rule: Some(mutation.name()) };
        if reduced.is_none() || gives(&mutation, &whole, case) {
            return Some(found);
        }
        likely.get_or_insert(found);
    }
    likely
}

fn gives(mutation: &Mutation, program: &ValidProgram, case: &Case<'_>) -> bool {
    mutation.run(program, &case.step).is_some_and(|answer| answer.as_ref() == Ok(case.actual))
}

/// Every change that a program allows.
fn hypotheses(program: &ValidProgram) -> Vec<Mutation> {
    let rows = rows_of(program.parts());
    let mut all: Vec<Mutation> = Vec::new();
    for rewrite in rewrites() {
        let mut places = (rewrite.places)();
        places.retain(|place| rewrite.concerns(program.parts(), *place));
        if places.len() > 1 {
            all.push(Mutation::Everywhere(rewrite));
        }
        all.extend(places.into_iter().map(|place| Mutation::Program(rewrite, place)));
    }
    for rule in rules() {
        all.extend(rows.iter().filter(|row| rule.speaks_of(row)).map(|row| Mutation::Row(rule, *row)));
        all.push(Mutation::Rows(rule));
    }
    all
}

/// What little the bytes of a small output show.
fn vague(case: &Case<'_>) -> Option<Cause> {
    let (expected, actual) = case.outputs()?;
    let (right, wrong) = (expected.concat(), actual.concat());
    if case.before().concat() == wrong {
        return Some(Cause::NotRun);
    }
    let last = right.len() - right.len() % 4;
    (right[..last] == wrong[..last]).then_some(Cause::WrongLength)
}
