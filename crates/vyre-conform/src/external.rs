//! The rows of the WebAssembly test suite, through the suite's own path: packed for a vendor, and sent to a driver.
//!
//! What they must give was written by others. The reference's own test reads the same files.

// The other reader uses more of them.
#[allow(dead_code)]
#[path = "../../vyre-reference/tests/wasm/lower.rs"]
mod lower;
#[allow(dead_code)]
#[path = "../../vyre-reference/tests/wasm/path.rs"]
mod path;
#[allow(dead_code)]
#[path = "../../vyre-reference/tests/wasm/rules.rs"]
mod rules;
#[allow(dead_code)]
#[path = "../../vyre-reference/tests/wasm/suite.rs"]
mod suite;

use crate::batch::{Batch, Content, Group, Level, Step, Track};
use crate::contract::OutputInit;
use crate::judge::{Answer, Prepared};
use crate::{ConformanceSuite, ReferenceBackend, Report};
use suite::{Row, Suite, observed, suites};
// Linking a driver registers its backend.
use vyre_driver_reference as _;
use vyre_foundation::text::parse;

/// A function's rows as a batch, with the bytes that they must give.
fn batch(file: &str, suite: &Suite, function: usize) -> Option<(Batch, Vec<u8>)> {
    let (export, function_of) = &suite.functions[function];
    let rows: Vec<&Row> = suite.rows.iter().filter(|row| row.function == function).collect();
    let result = function_of.type_of(function_of.result);
    if rows.is_empty() {
        return None;
    }
    let program = parse(&path::lanes(function_of)).expect("functions have a text").program;
    let params = function_of.params.iter().enumerate();
    let mut contents: Vec<Content> = params
        .map(|(at, ty)| Content::Bytes(path::column(*ty, rows.iter().map(|row| row.params[at]))))
        .collect();
    contents.push(Content::Zeros(rows.len() * result.bytes()));
    let step = Step {
        grid: [rows.len().div_ceil(64) as u32, 1, 1],
        contents,
        init: [OutputInit::Zero, OutputInit::Poison(0xa5), OutputInit::Uninitialized][function % 3],
        cases: rows.len() as u32,
    };
    let expected = path::column(result, rows.iter().map(|row| observed(result, &row.expected)));
    Some((Batch::new(format!("external/{file}:{export}:{function}"), program, step), expected))
}

fn batches(file: &str, suite: &Suite) -> Vec<(Batch, Vec<u8>)> {
    (0..suite.functions.len()).filter_map(|function| batch(file, suite, function)).collect()
}

/// One group a file.
fn groups(_: bool) -> Vec<Group> {
    let group = |(file, suite): (&str, Suite)| {
        let batches: Vec<Batch> = batches(file, &suite).into_iter().map(|(batch, _)| batch).collect();
        Group::fixed(format!("external/{file}"), Level::Ops, Track::Float, move |_| batches.clone())
    };
    suites().into_iter().map(group).collect()
}

#[test]
fn external_rows_are_what_the_suite_expects() {
    for (file, suite) in suites() {
        for (batch, theirs) in batches(file, &suite) {
            let prepared = Prepared::new(batch);
            assert_eq!(prepared.expected, [Answer::Outputs(vec![theirs])], "{}", prepared.batch.name);
        }
    }
}

#[test]
fn external_rows_pass_through_both_faces() {
    let suite = ConformanceSuite::new().catalogue(groups);
    let driver = vyre_driver::registry::open("reference").expect("it is linked");
    let rows: usize = suites().iter().map(|(_, suite)| suite.rows.len()).sum();
    let check = |report: Report| {
        assert!(report.failures.is_empty(), "{}", report.failures[0]);
        assert_eq!(report.cases(), rows as u64);
    };
    check(suite.report(&ReferenceBackend));
    check(suite.run_driver(driver.as_ref()));
    eprintln!("{rows} external rows, packed for a vendor and sent to a driver");
    assert!(rows > 13_000, "only {rows} rows were taken");
}
