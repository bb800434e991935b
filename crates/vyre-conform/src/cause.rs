//! Finds the likely cause of a wrong answer.
//!
//! Three kinds of evidence, in this order: whether the target gives the same answer again, what the bytes look like (what
//! was there before, the input, poison, another order), and which rule of `rules` gives exactly these bytes on the
//! reference. A small probe kernel distinguishes flaws of every launch from flaws of one program. At most a few dozen dispatches.

use crate::batch::{Batch, Content, Step};
use crate::contract::OutputInit;
use crate::failure::Cause;
use crate::judge::{self, Answer, Miss};
use crate::rules::{Mutation, rewrites, rows_of, rules};
use crate::target::{Fault, Job, OTHER_LENGTH, Target};
use std::time::{Duration, Instant};
use vyre_foundation::ir::{Axis, Program, ProgramParts};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::validate::ValidProgram;
use vyre_lower::convention::{self, Contents};

/// How long experiments take.
const LAB_TIME_MAX: Duration = Duration::from_secs(3);
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

/// What the answer, its bytes and experiments on the target say. Reducing changes what a target remembers, so this
/// comes first.
pub(crate) fn by_experiment(target: &dyn Target, batch: &Batch, miss: &Miss) -> Option<Found> {
    if let Some(cause) = plain(miss) {
        return Some(cause.into());
    }
    let case = Case::new(batch, miss)?;
    let lab = Lab { target, case, deadline: Instant::now() + LAB_TIME_MAX };
    let of_dispatches = lab.lookup().or_else(|| lab.state(miss.step)).map(Found::from);
    let found = of_dispatches.or_else(|| lab.probe());
    found.or_else(|| {
        let of_bytes = signature(&lab.case).or_else(|| lab.unwritten());
        of_bytes.or_else(|| lab.twins()).or_else(|| lab.cached()).map(Found::from)
    })
}

/// The cause by the rules. `reduced` is a smaller batch that fails too, if there is one.
pub(crate) fn by_rule(batch: &Batch, miss: &Miss, reduced: Option<(&Batch, &Miss)>) -> Found {
    let Some(case) = Case::new(batch, miss) else { return Cause::Unknown.into() };
    let reduced = reduced.and_then(|(batch, miss)| Case::new(batch, miss));
    let Ruled { sure, likely } = rule(&case, reduced.as_ref());
    let found = sure.or_else(|| vague(&case).map(Found::from)).or(likely);
    found.unwrap_or_else(|| match case.outputs() {
        None => Cause::Trap.into(),
        Some(_) => Cause::Unknown.into(),
    })
}

/// The cause without another run of the target.
pub(crate) fn at_sight(miss: &Miss) -> Found {
    plain(miss).unwrap_or(Cause::Unknown).into()
}

/// The cause, if the answer alone shows it.
fn plain(miss: &Miss) -> Option<Cause> {
    match (&miss.expected, &miss.actual) {
        (_, Err(Fault::Error(text))) if !text.contains("Fix:") => Some(Cause::NoFix),
        (_, Err(Fault::Error(text))) if text.contains("trap ") => Some(Cause::Trap),
        (_, Err(Fault::Error(text))) if text.starts_with(OTHER_LENGTH) => Some(Cause::WrongLength),
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
    /// `None` if there is no answer.
    fn new(batch: &'a Batch, miss: &'a Miss) -> Option<Case<'a>> {
        let actual = miss.actual.as_ref().ok()?;
        Some(Case { batch, step: batch.steps[miss.step].clone(), expected: &miss.expected, actual })
    }

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

    /// The contents of every output before the launch.
    fn before(&self) -> Vec<Vec<u8>> {
        let bound = bound_buffers(self.parts()).into_iter().zip(&self.step.contents);
        let outputs = bound.filter(|(id, _)| self.parts().buffer(*id).is_output());
        outputs.map(|(_, content)| content.to_bytes()).collect()
    }

    /// The same launch with other contents of the outputs.
    fn starting_with(&self, outputs: &[Vec<u8>]) -> Step {
        let mut step = self.step.clone();
        let mut outputs = outputs.iter();
        for (id, content) in bound_buffers(self.parts()).into_iter().zip(&mut step.contents) {
            if let Some(bytes) = self.parts().buffer(id).is_output().then(|| outputs.next()).flatten() {
                *content = Content::Bytes(bytes.clone());
            }
        }
        step
    }

    /// The same launch with a read-only input changed so that the result changes: all of it, or as little as possible.
    fn other_input(&self, all: bool) -> Option<(Step, Answer)> {
        let bound = bound_buffers(self.parts());
        let inputs = (0..bound.len()).rev().filter(|at| !self.parts().buffer(bound[*at]).is_writable());
        let extents = if all { [usize::MAX, 64, 1] } else { [1, 64, usize::MAX] };
        inputs.flat_map(|at| extents.map(|bytes| (at, bytes))).find_map(|(at, count)| {
            let mut step = self.step.clone();
            match &mut step.contents[at] {
                Content::Bytes(bytes) => bytes.iter_mut().rev().take(count).for_each(|byte| *byte ^= 0x14),
                Content::Zeros(_) => return None,
            }
            let expected = self.reference(&step).filter(|answer| answer != self.expected)?;
            Some((step, expected))
        })
    }

    /// The same launch with every writable buffer starting at zero.
    fn without_contents(&self) -> Step {
        let mut step = self.step.clone();
        for (id, content) in bound_buffers(self.parts()).into_iter().zip(&mut step.contents) {
            if self.parts().buffer(id).is_writable() {
                *content = Content::Zeros(content.len());
            }
        }
        step
    }

    fn reference(&self, step: &Step) -> Option<Answer> {
        judge::checked(&self.batch.program, step)
    }
}

/// Experiments on the target.
struct Lab<'a> {
    target: &'a dyn Target,
    case: Case<'a>,
    /// When experiments end: a slow device gives a vaguer cause, not a long wait.
    deadline: Instant,
}

impl Lab<'_> {
    fn run(&self, step: &Step) -> Option<Answer> {
        self.run_program(&self.case.batch.program, step, self.case.batch.lookup)
    }

    fn run_program(&self, program: &Program, step: &Step, lookup: bool) -> Option<Answer> {
        if Instant::now() > self.deadline {
            return None;
        }
        let Step { grid, contents, init, .. } = step;
        self.target.run(&Job { program, grid: *grid, contents, init: *init, lookup }).ok()
    }

    /// Whether the answer is wrong only with lookup data.
    fn lookup(&self) -> Option<Cause> {
        let Case { batch, step, expected, .. } = &self.case;
        if !batch.lookup {
            return None;
        }
        // Another dispatch's data first, in case that is what the target used.
        if let Some((other, _)) = self.case.other_input(true) {
            self.run(&other);
        }
        let (with, without) = (self.run(step), self.run_program(&batch.program, step, false));
        let only_with = with.as_ref() != Some(*expected) && without.as_ref() == Some(*expected);
        // A result that is kept may be another lookup's.
        only_with.then(|| self.keeps().unwrap_or(Cause::Lookup))
    }

    /// Whether the answer depends on more than the dispatch: what came before, or chance.
    fn state(&self, step_at: usize) -> Option<Cause> {
        let Case { batch, step, expected, actual } = &self.case;
        let again = self.run(step)?;
        if again == **actual {
            return None;
        }
        if self.memory_is_kept() {
            return Some(Cause::StateLeak);
        }
        if again != **expected {
            return Some(Cause::Nondeterminism);
        }
        if let Some(cause) = self.keeps() {
            return Some(cause);
        }
        let mut last = None;
        for step in &batch.steps[..=step_at] {
            last = self.run(step);
        }
        Some(if last.as_ref() == Some(*actual) { Cause::StateLeak } else { Cause::Nondeterminism })
    }

    /// Whether the answer is right once all memory comes with contents, and wrong again without, after a dispatch that
    /// leaves state for the next one.
    fn memory_is_kept(&self) -> bool {
        let mut step = self.case.step.clone();
        let mut any = false;
        for content in &mut step.contents {
            any |= matches!(content, Content::Zeros(_));
            *content = Content::Bytes(content.to_bytes());
        }
        let probe = probe_batch();
        let is_right = |step: &Step| {
            self.run_program(&probe.program, &probe.steps[0], false);
            self.run(step).as_ref() == Some(self.case.expected)
        };
        any && [true, false, false, true, false]
            .into_iter()
            .all(|filled| is_right(if filled { &step } else { &self.case.step }) == filled)
    }

    /// Whether results are kept from one dispatch to the next: that of the last, or the first of a kind.
    fn keeps(&self) -> Option<Cause> {
        let batch = probe_batch();
        let expected = judge::checked(&batch.program, &batch.steps[0])?;
        let mut step = batch.steps[0].clone();
        let program = &batch.program;
        let first = self.run_program(program, &step, false)?;
        let case = Case { batch: &batch, step: step.clone(), expected: &expected, actual: &first };
        let (other, other_expected) = case.other_input(true)?;
        let second = self.run_program(program, &other, false)?;
        if second == other_expected || is_constant(&second) {
            return None;
        }
        step.contents[0] = Content::Bytes(vec![7; step.contents[0].len()]);
        let third = self.run_program(program, &step, false)?;
        match (second == expected || second == first, third == second) {
            (true, true) => Some(Cause::CachedResult),
            (true, false) => Some(Cause::StaleOutput),
            (false, _) => None,
        }
    }

    /// Whether the answer stays when the input changes.
    fn cached(&self) -> Option<Cause> {
        if let Some((other, expected)) = self.case.other_input(true) {
            let answer = self.run(&other)?;
            return (answer == *self.case.actual && answer != expected).then_some(Cause::CachedResult);
        }
        self.keeps()
    }

    /// Whether the same work under other names gives the right bytes.
    fn twins(&self) -> Option<Cause> {
        let Case { batch, step, expected, .. } = &self.case;
        let mut parts = batch.program.parts().clone();
        parts.name = format!("{}_twin", parts.name).into();
        parts.buffers.iter_mut().for_each(|buffer| buffer.name = format!("{}_twin", buffer.name).into());
        let twin = Program::new(parts).ok()?;
        let run = |step| self.run_program(&twin, step, batch.lookup);
        if run(step).as_ref() != Some(*expected) {
            return None;
        }
        // A result that is kept by name or program shows when the twin's input changes.
        let kept = match self.case.other_input(false) {
            Some((other, other_expected)) => run(&other).as_ref() != Some(&other_expected),
            None => self.keeps().is_some(),
        };
        Some(if kept { Cause::CachedResult } else { Cause::SpecialCased })
    }

    /// What a kernel that stores only the ids of its lanes shows about every launch.
    fn probe(&self) -> Option<Found> {
        let batch = probe_batch();
        let step = batch.steps[0].clone();
        let expected = judge::checked(&batch.program, &step)?;
        let actual = self.run_program(&batch.program, &step, false)?;
        if actual == expected {
            return None;
        }
        let case = Case { batch: &batch, step, expected: &expected, actual: &actual };
        let before = case.before().concat();
        let untouched = matches!(&actual, Answer::Outputs(outputs) if outputs.concat() == before);
        if untouched || is_constant(&actual) {
            return Some(Cause::NotRun.into());
        }
        signature(&case).map(Found::from).or_else(|| rule(&case, None).sure)
    }

    /// Whether only elements that no lane writes are wrong: they show poison, or what was there before.
    fn unwritten(&self) -> Option<Cause> {
        let wrong = wrong_unwritten(&self.case)?;
        if self.memory_is_kept() {
            return Some(Cause::StateLeak);
        }
        let poison = wrong[0] != 0 && wrong.iter().all(|byte| *byte == wrong[0]);
        poison.then_some(Cause::UnwrittenOutput)
    }
}

fn is_constant(answer: &Answer) -> bool {
    match answer {
        Answer::Outputs(outputs) => {
            let bytes = outputs.concat();
            !bytes.is_empty() && bytes.iter().all(|byte| *byte == bytes[0])
        }
        Answer::Trap(_) => false,
    }
}

/// A kernel of 12 workgroups of 8 lanes, each of which stores its ids and an input, also where no code reads them.
fn probe_batch() -> Batch {
    let program = Program::build("probe", [4, 2, 1], |k| {
        let x = k.read::<u32>("x", 0);
        let y = k.read_write::<u32>("y", 1).output();
        let i = k.global_index();
        let places = k.global_id(Axis::X) + k.global_id(Axis::Y) * 256 + k.global_id(Axis::Z) * 65_536;
        k.read_write::<u32>("scratch", 2).put(i, x.at(i));
        y.put(i, places * 17 + x.at(i));
    });
    let words = |count: u32| (0..count).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let step = Step {
        grid: [3, 2, 2],
        contents: vec![Content::Bytes(words(101)), Content::Zeros(4 * 101), Content::Zeros(4 * 101)],
        init: OutputInit::Poison(0xc5),
        cases: 0,
    };
    Batch::new("probe".into(), program.expect("the builder keeps the limits"), step)
}

/// The cause that the bytes themselves show.
fn signature(case: &Case<'_>) -> Option<Cause> {
    let (expected, actual) = case.outputs()?;
    let (right, wrong) = (expected.concat(), actual.concat());
    if right.len() < 16 || right.len() != wrong.len() {
        return None;
    }
    if echoes(case, &wrong) {
        return Some(Cause::Echo);
    }
    let words = right.chunks(4).zip(wrong.chunks(4)).filter(|(a, b)| a != b).count();
    if words > 3 && is_reordered(case, expected, actual) {
        return Some(Cause::Layout);
    }
    if case.reference(&case.starting_with(expected)).as_ref() == Some(case.actual) {
        return Some(Cause::ExtraLanes);
    }
    if case.reference(&case.without_contents()).as_ref() == Some(case.actual) {
        return Some(Cause::UnwrittenOutput);
    }
    let whole = right.len() / 4 * 4;
    (right[..whole] == wrong[..whole]).then_some(Cause::WrongLength)
}

/// Whether the input, or one of its buffers, came back.
fn echoes(case: &Case<'_>, wrong: &[u8]) -> bool {
    let contents: Vec<Contents<'_>> = case.step.contents.iter().map(Content::as_contents).collect();
    let packed =
        [false, true].map(|lookup| convention::pack(case.parts(), case.step.grid, &contents, lookup));
    let mut inputs: Vec<Vec<u8>> = packed.into_iter().flatten().map(|packed| packed.input).collect();
    let bound = bound_buffers(case.parts()).into_iter().zip(&case.step.contents);
    inputs.extend(
        bound
            .filter(|(id, _)| !case.parts().buffer(*id).is_writable())
            .map(|(_, content)| content.to_bytes()),
    );
    inputs.iter().any(|input| {
        let shared = input.len().min(wrong.len());
        let varied = input.iter().take(shared).any(|byte| *byte != input[0]);
        shared >= 16
            && varied
            && input[..shared] == wrong[..shared]
            && wrong[shared..].iter().all(|byte| *byte == 0)
    })
}

/// Whether the right bytes came in another order: outputs exchanged or turned round, bytes of elements swapped.
fn is_reordered(case: &Case<'_>, expected: &[Vec<u8>], actual: &[Vec<u8>]) -> bool {
    let outputs = bound_buffers(case.parts()).into_iter().map(|id| case.parts().buffer(id));
    let sizes: Vec<usize> =
        outputs.filter(|buffer| buffer.is_output()).map(|buffer| buffer.ty.bytes()).collect();
    // All outputs at once, in units of a number of bytes or of their own elements.
    let all = |unit: Option<usize>, same: fn(&[u8], &[u8], usize) -> bool| {
        let pairs = expected.iter().zip(actual).zip(&sizes);
        pairs.into_iter().all(|((right, wrong), size)| same(right, wrong, unit.unwrap_or(*size)))
    };
    let exchanged: Vec<u8> = expected.iter().rev().flatten().copied().collect();
    let (right, wrong) = (expected.concat(), actual.concat());
    let shifted = |by: usize| {
        let kept = right.len().saturating_sub(by);
        kept > 3 * by && (right[..kept] == wrong[by..] || right[by..] == wrong[..kept])
    };
    [None, Some(4)].into_iter().any(|unit| all(unit, swapped) || all(unit, backwards))
        || all(Some(1), backwards)
        || expected.len() > 1 && exchanged == wrong
        || right.iter().rev().eq(&wrong)
        || [1, 4, 8, 16].into_iter().any(shifted)
}

/// Whether the bytes of each unit are turned round; a last part of a unit may be left as it is.
fn swapped(right: &[u8], wrong: &[u8], unit: usize) -> bool {
    let turned = right.chunks(unit).flat_map(|chunk| chunk.iter().rev());
    let whole = right.len() / unit * unit;
    turned.take(whole).eq(&wrong[..whole])
}

fn backwards(right: &[u8], wrong: &[u8], unit: usize) -> bool {
    right.chunks(unit).rev().eq(wrong.chunks(unit))
}

/// The bytes of the elements that are wrong, if no lane writes any of them.
fn wrong_unwritten(case: &Case<'_>) -> Option<Vec<u8>> {
    let (expected, actual) = case.outputs()?;
    let filled = |byte: u8| {
        let outputs: Vec<Vec<u8>> = expected.iter().map(|bytes| vec![byte; bytes.len()]).collect();
        match case.reference(&case.starting_with(&outputs))? {
            Answer::Outputs(outputs) => Some(outputs),
            Answer::Trap(_) => None,
        }
    };
    let (a, b, before) = (filled(0x5a)?, filled(0xa6)?, case.before());
    let outputs = bound_buffers(case.parts()).into_iter().map(|id| case.parts().buffer(id));
    let mut wrong = Vec::new();
    for (at, buffer) in outputs.filter(|buffer| buffer.is_output()).enumerate() {
        let size = buffer.ty.bytes();
        for start in (0..expected[at].len()).step_by(size) {
            let element = |outputs: &'_ [Vec<u8>]| outputs[at][start..start + size].to_vec();
            if element(expected) != element(actual) {
                let kept = element(&a) == vec![0x5a; size] && element(&b) == vec![0xa6; size];
                if !kept || element(expected) != element(&before) {
                    return None;
                }
                wrong.extend(element(actual));
            }
        }
    }
    (!wrong.is_empty()).then_some(wrong)
}

/// The cause by the rules.
struct Ruled {
    /// The first that gives exactly what the target gave.
    sure: Option<Found>,
    /// The first that gives exactly what the target gave for the smaller case, though not for the whole one.
    likely: Option<Found>,
}

/// Tries rules on the smaller case and then on the whole one.
fn rule(case: &Case<'_>, reduced: Option<&Case<'_>>) -> Ruled {
    let start = Instant::now();
    let mut ruled = Ruled { sure: None, likely: None };
    let smaller = reduced.unwrap_or(case);
    let valid = [smaller, case].map(|case| judge::valid(&case.batch.program));
    let [Ok(valid), Ok(whole)] = valid else { return ruled };
    for mutation in hypotheses(&valid) {
        if start.elapsed() > RULES_TIME_MAX {
            break;
        }
        if !gives(&mutation, &valid, smaller) {
            continue;
        }
        let found = Found { cause: mutation.cause(), rule: Some(mutation.name()) };
        let gives_whole = |mutation: &Mutation| gives(mutation, &whole, case);
        if reduced.is_none() || gives_whole(&mutation) || gives_whole(&mutation.everywhere()) {
            ruled.sure = Some(found);
            break;
        }
        ruled.likely.get_or_insert(found);
    }
    ruled
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

/// The cause that the bytes suggest where nothing explains them exactly.
fn vague(case: &Case<'_>) -> Option<Cause> {
    let (expected, actual) = case.outputs()?;
    let (right, wrong, before) = (expected.concat(), actual.concat(), case.before().concat());
    if before == wrong || is_constant(case.actual) && wrong.len() >= 16 {
        return Some(Cause::NotRun);
    }
    let first = right.iter().zip(&wrong).position(|(a, b)| a != b)?;
    let rest = wrong[first..] == before[first..] || wrong[first..].iter().all(|byte| *byte == 0);
    (first > 0 && rest && right.len() - first >= 16).then_some(Cause::MissingWorkgroups)
}
