//! A trace changes nothing, and what it says is consistent: every value a line reads is the one that a line above gave.
//!
//! The second part also holds the interpreter's registers to account, which are used again as soon as they are free.

use std::cell::RefCell;
use std::collections::HashMap;
use vyre_foundation::ir::Literal;
use vyre_foundation::validate::validate;
use vyre_generate::source::Source;
use vyre_generate::{Case, Config};
use vyre_reference::{Launch, Options, Outcome, RunError, Trace, TraceEvent, run};
use vyre_testkit::property::{cases, check};

/// What is known of the lane's values.
#[derive(Default)]
struct Known {
    /// By the calls that led to a line, its function, and a name.
    values: HashMap<String, Literal>,
    compared: u64,
    wrong: Option<String>,
}

impl Known {
    fn hear(&mut self, event: &TraceEvent) {
        let body = match event.location.line {
            vyre_foundation::diagnostic::Place::Line { function, .. } => function,
            ref other => panic!("an event stands on a line, not at {other:?}"),
        };
        let key = |name: &str| format!("{:?} {body:?} {name}", event.location.calls);
        for read in &event.reads {
            // Parameters and results of calls are given by no line.
            let Some(given) = self.values.get(&key(&read.name)) else { continue };
            self.compared += 1;
            if *given != read.value && self.wrong.is_none() {
                self.wrong =
                    Some(format!("{} was given {given:?}, and line `{}` reads it", read.name, event.text));
            }
        }
        if let Some(result) = &event.result {
            self.values.insert(key(&result.name), result.value);
        }
    }
}

fn launch(case: &Case, options: &Options<'_>) -> Result<Outcome, RunError> {
    let program = validate(&case.program).expect("generated programs are valid");
    run(&program, Launch { grid: case.grid, buffers: case.buffers.clone() }, options)
}

fn traced(case: &Case) -> Result<u64, String> {
    let known = RefCell::new(Known::default());
    let sink = |event: &TraceEvent| known.borrow_mut().hear(event);
    let plain = launch(case, &Options::default()).map_err(|error| error.to_string())?;
    let mut compared = 0;
    for lane in [[0, 0, 0], [1, 0, 0], [5, 0, 0]] {
        let options = Options { trace: Some(Trace { lane, sink: &sink }), ..Options::default() };
        let outcome = launch(case, &options).map_err(|error| error.to_string())?;
        if outcome.buffers != plain.buffers || outcome.lane_instructions != plain.lane_instructions {
            return Err(format!("a trace of lane {lane:?} changes the result"));
        }
        let known = known.take();
        compared += known.compared;
        if let Some(wrong) = known.wrong {
            return Err(format!("lane {lane:?}: {wrong}"));
        }
    }
    Ok(compared)
}

#[test]
fn traces_change_nothing_and_agree_with_themselves() {
    let compared = RefCell::new(0);
    let make = |source: &mut dyn Source| vyre_generate::case(source, &Config::default());
    check(
        150,
        make,
        |case| traced(case).map(|count| *compared.borrow_mut() += count),
        vyre_testkit::compare::show,
    );
    let (compared, cases) = (compared.into_inner(), cases(150).count() as u64);
    assert!(compared > cases, "only {compared} reads were compared in {cases} cases");
}
