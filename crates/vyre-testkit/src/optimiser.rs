//! The property of every pass: the reference computes the same bytes before and after.
//!
//! A pass may change how often memory is read and whatever is not observable, so only outputs, the first trap and freedom from
//! races are compared. The accesses that `range` proves in bounds must never be found out of bounds in a run.

use vyre_foundation::diagnostic::Place;
use vyre_foundation::opt::{Pass, optimise, optimise_with, range};
use vyre_foundation::text;
use vyre_foundation::validate::ValidProgram;
use vyre_generate::Case;
use vyre_reference::{FindingKind, Options, Outcome, RunError, Target, run};

/// What of a run others can see.
type Seen = Result<Vec<Vec<u8>>, u32>;

fn launch(program: &ValidProgram, case: &Case, check: bool) -> Result<Result<Outcome, u32>, String> {
    match run(program, crate::compare::launch(case), &Options { check, ..Options::default() }) {
        Ok(outcome) => Ok(Ok(outcome)),
        Err(RunError::Trap { code, .. }) => Ok(Err(code)),
        Err(error) => Err(error.to_string()),
    }
}

fn seen(run: Result<Outcome, u32>) -> Seen {
    run.map(|outcome| outcome.buffers)
}

/// Checks every pass alone, on the program and on the program with its functions inlined, and all of them together.
pub fn keeps_results(case: &Case) -> Result<(), String> {
    let program = case.valid()?;
    let before = launch(&program, case, true)?;
    check_facts(&program, &before)?;
    let races = has_race(&before);
    let before = seen(before);
    let inlined = apply(&program, &[Pass::Inline])?;
    for pass in Pass::ALL {
        for (start, what) in [(&program, "alone"), (&inlined, "after `inline`")] {
            let after = apply(start, &[pass])?;
            let result = seen(launch(&after, case, false)?);
            compare(&before, &result, &after, &format!("`{}` {what}", pass.name()))?;
        }
    }
    let after = optimise(&program);
    let result = launch(&after, case, true)?;
    check_facts(&after, &result)?;
    if has_race(&result) && !races {
        return Err(format!("the optimiser makes a race:\n{}", text::print(after.program())));
    }
    compare(&before, &seen(result), &after, "the whole optimiser")
}

fn apply(program: &ValidProgram, passes: &[Pass]) -> Result<ValidProgram, String> {
    optimise_with(program, passes, &mut |_, _| {}).map_err(|broken| broken.to_string())
}

fn compare(before: &Seen, after: &Seen, program: &ValidProgram, what: &str) -> Result<(), String> {
    if before == after {
        return Ok(());
    }
    let difference = match (before, after) {
        (Ok(before), Ok(after)) => {
            let at = before.iter().zip(after).position(|(before, after)| before != after);
            format!("buffer {at:?} differs")
        }
        (before, after) => {
            format!("trap {:?} became {:?}", before.as_ref().err(), after.as_ref().err())
        }
    };
    Err(format!("{what}: {difference}; it gives\n{}", text::print(program.program())))
}

fn has_race(run: &Result<Outcome, u32>) -> bool {
    (run.iter()).any(|run| run.findings.iter().any(|finding| finding.kind == FindingKind::Race))
}

fn check_facts(program: &ValidProgram, run: &Result<Outcome, u32>) -> Result<(), String> {
    let Ok(run) = run else { return Ok(()) };
    let facts = range::analyse(program);
    for finding in &run.findings {
        let FindingKind::OutOfBounds { .. } = finding.kind else { continue };
        let Place::Line { function, site } = finding.first.location.line else { continue };
        if facts.in_bounds(function, site) {
            let what = match &finding.target {
                Target::Buffer { name, .. } => name,
                Target::PrivateArray => "a private array",
            };
            return Err(format!("`range` proves line {site} in bounds of {what}, and it is not"));
        }
    }
    Ok(())
}
