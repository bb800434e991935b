//! Runs generated cases on the reference interpreter and compares results.
//!
//! [`settled`] is the test of the generator itself: no race, and the same bytes under every schedule. [`same_outputs`] is
//! the test of whatever rewrites programs. A backend compares its bytes with [`expected`].

use vyre_foundation::ir::Program;
use vyre_foundation::launch::{admit_buffers, bound_buffers, indirect};
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_generate::Case;
use vyre_reference::{FindingKind, Launch, Options, Outcome, RunError, Schedule, run};

/// The schedules under which a program without races gives the same bytes.
pub const SCHEDULES: [Schedule; 3] = [Schedule::Forward, Schedule::Reverse, Schedule::Shuffle(1)];

/// What a run gives: the bytes of all bound buffers by ascending binding, or the code of its trap.
pub type Bytes = Result<Vec<Vec<u8>>, u32>;

/// A case's launch, for the reference interpreter.
pub fn launch(case: &Case) -> Launch {
    Launch { grid: case.grid, buffers: case.buffers.clone() }
}

/// The bytes that every backend must give for a case.
pub fn expected(case: &Case) -> Result<Bytes, String> {
    bytes(run(&case.valid()?, launch(case), &Options::default()).map(|outcome| outcome.buffers))
}

fn bytes(result: Result<Vec<Vec<u8>>, RunError>) -> Result<Bytes, String> {
    match result {
        Ok(buffers) => Ok(Ok(buffers)),
        Err(RunError::Trap { code, .. }) => Ok(Err(code)),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether a case is valid, without races, and gives the same under every schedule; its bytes.
pub fn settled(case: &Case) -> Result<Bytes, String> {
    let valid = case.valid()?;
    let mut first: Option<Bytes> = None;
    for schedule in SCHEDULES {
        let options = Options { check: schedule == Schedule::Forward, schedule, ..Options::default() };
        let outcome = run(&valid, launch(case), &options);
        if let Ok(Outcome { findings, .. }) = &outcome
            && let Some(race) = findings.iter().find(|finding| finding.kind == FindingKind::Race)
        {
            return Err(format!("a race: {race}"));
        }
        let this = bytes(outcome.map(|outcome| outcome.buffers))?;
        match &first {
            Some(first) if *first != this => return Err(format!("{schedule:?} gives other bytes")),
            Some(_) => {}
            None => first = Some(this),
        }
    }
    first.ok_or_else(|| "no schedule ran".into())
}

/// Whether `changed` gives the same outputs, or the same trap, as the case's own program. `trap` is the code that a trap of
/// `changed` stands for.
pub fn same_outputs(case: &Case, changed: &ValidProgram, trap: impl Fn(u32) -> u32) -> Result<(), String> {
    let own = expected(case)?;
    let launch = Launch { grid: grid(case)?, ..launch(case) };
    let other = bytes(run(changed, launch, &Options::default()).map(|outcome| outcome.buffers))?;
    let other = other.map_err(trap);
    let (own, other) = match (own, other) {
        (Ok(own), Ok(other)) => (own, other),
        (Err(own), Err(other)) if own == other => return Ok(()),
        (own, other) => return Err(format!("{} before, {} after", ending(&own), ending(&other))),
    };
    let parts = case.program.parts();
    for (at, buffer) in bound_buffers(parts).into_iter().enumerate() {
        let buffer = parts.buffer(buffer);
        if buffer.is_output() && own[at] != other[at] {
            let byte = own[at].iter().zip(&other[at]).take_while(|(a, b)| a == b).count();
            let element = byte / buffer.ty.bytes();
            return Err(format!("`@{}` differs, first at element {element}", buffer.name));
        }
    }
    Ok(())
}

/// The grid that a case's own program has: a changed one may derive none, because it asks for the size of the grid.
fn grid(case: &Case) -> Result<Option<[u32; 3]>, String> {
    if case.grid.is_some() || indirect(case.program.parts()).is_some() {
        return Ok(case.grid);
    }
    let admission = admit_buffers(&case.valid()?, None, &case.buffers);
    admission.map(|admission| Some(admission.grid)).map_err(|error| error.to_string())
}

fn ending(bytes: &Bytes) -> String {
    match bytes {
        Ok(_) => "outputs".into(),
        Err(code) => format!("trap {code}"),
    }
}

/// A case as a person reads it: the program and what it was launched with.
pub fn show(case: &Case) -> String {
    let sizes: Vec<usize> = case.buffers.iter().map(Vec::len).collect();
    let text = vyre_foundation::text::print(&case.program);
    format!("{text}// grid {:?}, bytes of the bound buffers {sizes:?}\n", case.grid)
}

/// The program in a case, changed by `change` and validated again.
pub fn changed(
    case: &Case,
    change: impl FnOnce(&mut vyre_foundation::ir::ProgramParts),
) -> Result<ValidProgram, String> {
    let mut parts = case.program.parts().clone();
    change(&mut parts);
    let program = Program::new(parts).map_err(|error| error.to_string())?;
    validate(&program)
        .map_err(|findings| findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}
