//! The driver contract's own surface: behaviour that the bytes of one program cannot show.
//!
//! Every procedure calls the driver through the trait and compares with the reference. A driver may refuse a capability that it
//! does not have where the contract's default refuses it, and only as `UnsupportedFeature`; what it claims must work.
//!
//! Not here: device loss and shutdown. Other code may share the driver that the suite runs on.

mod calls;
mod capability;
mod grid;
mod resident;

use crate::Cause;
use crate::batch::{Content, Group, Level, Plan, Problem, Procedure, Step, Track, Work};
use crate::contract::OutputInit;
use crate::judge::{self, Answer};
use vyre_driver::{BackendError, DispatchConfig, ErrorCode, OutputBuffers, VyreBackend};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::{bound_buffers, indirect};
use vyre_foundation::text;

pub(crate) fn groups() -> Vec<Group> {
    const PROCEDURES: [(&str, Procedure); 19] = [
        ("identity", capability::identity),
        ("profile", capability::profile),
        ("lifecycle", capability::lifecycle),
        ("telemetry", capability::telemetry),
        ("dispatch", calls::forms),
        ("slots", calls::slots),
        ("sizes", calls::sizes),
        ("refusals", calls::refusals),
        ("workgroup-override", calls::workgroup_override),
        ("traps", calls::traps),
        ("limits-of-time", calls::limits_of_time),
        ("threads", calls::threads),
        ("pipelines", calls::pipelines),
        ("resident", resident::memory),
        ("resident-faults", resident::faults),
        ("sequences", resident::sequences),
        ("device-buffers", resident::device_buffers),
        ("grid-sync", grid::barriers),
        ("indirect", grid::indirect),
    ];
    let group = |(name, procedure): (&str, Procedure)| Group {
        name: format!("driver/{name}"),
        level: Level::Random,
        track: Track::Integer,
        seeded: false,
        work: Work::Procedure(procedure),
    };
    PROCEDURES.into_iter().map(group).collect()
}

type Check<T = ()> = Result<T, Problem>;

/// Asks a driver, and holds its answers to the contract.
struct Probe<'a> {
    driver: &'a dyn VyreBackend,
}

impl<'a> Probe<'a> {
    fn new(driver: &'a dyn VyreBackend) -> Probe<'a> {
        Probe { driver }
    }

    /// The call must succeed.
    fn done<T>(&mut self, what: &str, result: Result<T, BackendError>) -> Check<T> {
        result.map_err(|error| problem(format!("{what}: expected success, got an error: {error}")))
    }

    /// The call must succeed, or report the feature as unsupported.
    fn optional<T>(&mut self, what: &str, result: Result<T, BackendError>) -> Check<Option<T>> {
        match result {
            Err(error) if error.code() == ErrorCode::UnsupportedFeature => Ok(None),
            other => self.done(what, other).map(Some),
        }
    }

    /// The call must return these bytes.
    fn bytes(&mut self, what: &str, actual: Result<Vec<u8>, BackendError>, expected: &[u8]) -> Check {
        let actual = self.done(what, actual)?;
        self.holds(actual == expected, || format!("{what}: expected {expected:?}, got {actual:?}"))
    }

    /// The call must return these outputs.
    fn outputs(
        &mut self,
        what: &str,
        actual: Result<OutputBuffers, BackendError>,
        expected: &[Vec<u8>],
    ) -> Check {
        let actual = self.done(what, actual)?;
        let lens = |outputs: &[Vec<u8>]| outputs.iter().map(Vec::len).collect::<Vec<_>>();
        let sizes =
            || format!("{what}: expected outputs of {:?} bytes, got {:?}", lens(expected), lens(&actual));
        self.holds(lens(expected) == lens(&actual), sizes)?;
        self.bytes(what, Ok(actual.concat()), &expected.concat())
    }

    /// The call must fail with one of these codes, or with an error of the backend's own, and say what to do.
    fn refused<T>(&mut self, what: &str, result: Result<T, BackendError>, codes: &[ErrorCode]) -> Check {
        let Err(error) = result else {
            return Err(problem(format!("{what}: expected an error of {codes:?}, and the call succeeded")));
        };
        if matches!(&error, BackendError::Other { message, fix: None } if !message.contains("Fix:")) {
            return Err(Problem { cause: Cause::NoFix, message: format!("{what}: {error}") });
        }
        let accepted = error.code() == ErrorCode::Other || codes.contains(&error.code());
        self.holds(accepted, || {
            format!("{what}: expected an error of {codes:?}, got {}: {error}", error.code())
        })
    }

    fn holds(&mut self, right: bool, message: impl FnOnce() -> String) -> Check {
        if right { Ok(()) } else { Err(problem(message())) }
    }
}

fn problem(message: String) -> Problem {
    Problem { cause: Cause::DriverContract, message }
}

/// A program with inputs for all of its buffers, and what comes of it.
struct Sample {
    program: Program,
    grid: Option<[u32; 3]>,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

impl Sample {
    /// # Panics
    /// If the reference does not run it: it is the suite's own.
    fn new(program: &Program, grid: Option<[u32; 3]>, inputs: &[Vec<u8>]) -> Sample {
        match answer(program, grid, inputs) {
            Answer::Outputs(outputs) => {
                Sample { program: program.clone(), grid, inputs: inputs.to_vec(), outputs }
            }
            Answer::Trap(code) => panic!("the suite's own `@{}` traps with {code}", program.name()),
        }
    }

    fn config(&self) -> DispatchConfig {
        DispatchConfig { grid_override: self.grid, ..DispatchConfig::default() }
    }

    fn borrowed(&self) -> Vec<&[u8]> {
        self.inputs.iter().map(Vec::as_slice).collect()
    }

    fn name(&self) -> &str {
        self.program.name()
    }
}

/// The reference's result.
fn answer(program: &Program, grid: Option<[u32; 3]>, inputs: &[Vec<u8>]) -> Answer {
    let parts = program.parts();
    let valid = judge::valid(program).expect("the suite's own programs are valid");
    let grid = match indirect(parts) {
        Some(_) => [0; 3],
        None => {
            let admission = vyre_foundation::launch::admit_buffers(&valid, grid, inputs);
            admission.expect("the suite's own launches are admitted").grid
        }
    };
    let contents = inputs.iter().cloned().map(Content::Bytes).collect();
    let step = Step { grid, contents, init: OutputInit::Zero, cases: 1 };
    judge::expected(&valid, &step).expect("the suite's own programs run")
}

fn parse(source: &str) -> Program {
    match text::parse(source) {
        Ok(parsed) => parsed.program,
        Err(findings) => panic!("a program of the suite does not parse: {findings:?}\n{source}"),
    }
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `y[i] = x[i] * k + y[i]`, with bindings that have gaps.
fn scale() -> Program {
    parse(
        "program @scale workgroup(4, 1, 1) {
          buffer @k : uniform    u32[1] binding 0
          buffer @x : read       u32[]  binding 3
          buffer @y : read_write u32[]  binding 5 output
          %i = global_id x
          %k = load.u32 @k[0]
          %x = load.u32 @x[%i]
          %y = load.u32 @y[%i]
          %p = mul.u32 %k, %x
          %s = add.u32 %p, %y
          store.u32 @y[%i], %s
        }",
    )
}

/// Programs of several kinds with inputs: more than one output, scratch, workgroup memory, grids given and derived.
fn samples(plan: &Plan<'_>) -> Vec<Sample> {
    let mut all = vec![
        Sample::new(&scale(), None, &[words(&[3]), words(&[1, 2, 3, 4, 5]), words(&[9, 8, 7, 6, 5])]),
        Sample::new(&scale(), Some([1, 1, 1]), &[words(&[7]), words(&[1, 2]), words(&[0; 6])]),
    ];
    for batch in super::programs::samples(plan) {
        let parts = batch.program.parts();
        for step in &batch.steps {
            assert_eq!(bound_buffers(parts).len(), step.contents.len(), "{}", batch.name);
            let inputs: Vec<Vec<u8>> = step.contents.iter().map(Content::to_bytes).collect();
            all.push(Sample::new(&batch.program, Some(step.grid), &inputs));
        }
    }
    all
}
