//! The op mutants: every rule on every row and at every place that it changes.
//!
//! A rule on a row is taken where operands are found on which it can be seen, looked for without the suite's cases. So
//! no mutant is the right meaning under another name, and one that survives is a missing case.

use super::suite::quick;
use super::witness::witness;
use crate::batch::Step;
use crate::contract::Profile;
use crate::judge::{self, Answer, Prepared};
use crate::rules::{Mutation, Row, rewrites, rows_of, rules};
use crate::target::{Fault, Job, Target};
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::time::Instant;
use vyre_driver::VyreBackend as DriverBackend;
use vyre_foundation::ir::{ComputeOp, DataType};
use vyre_foundation::scalar::meaning;
use vyre_foundation::validate::ValidProgram;

/// Every row of the op table that computes.
fn rows() -> Vec<Row> {
    let types = || DataType::ALL.into_iter();
    let mut rows: Vec<Row> = ComputeOp::ALL
        .iter()
        .flat_map(|op| types().flat_map(move |ty| types().map(move |source| Row::new(*op, ty, source))))
        .filter(|row| meaning(row.op, row.ty, row.source).is_some())
        .collect();
    rows.sort();
    rows.dedup();
    rows
}

/// Every op mutant.
pub(super) fn bank() -> Vec<Mutation> {
    let rows = rows();
    let scalar = rows.par_iter().flat_map_iter(|row| {
        let seen = rules().filter(|rule| witness(rule, row).is_some());
        seen.map(|rule| Mutation::Row(rule, *row)).collect::<Vec<_>>()
    });
    let mut bank: Vec<Mutation> = scalar.collect();
    for rewrite in rewrites() {
        bank.extend((rewrite.places)().into_iter().map(|place| Mutation::Program(rewrite, place)));
    }
    bank
}

/// The reference with one mutation.
pub(super) struct Mutant<'a> {
    pub(super) mutation: Mutation,
    /// The only program that it gets, if that was validated before.
    pub(super) program: Option<&'a ValidProgram>,
    pub(super) profile: Profile,
}

impl Target for Mutant<'_> {
    fn name(&self) -> &str {
        "mutant"
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn driver(&self) -> Option<&dyn DriverBackend> {
        None
    }

    fn run(&self, job: &Job<'_>) -> Result<Answer, Fault> {
        let step = Step { grid: job.grid, contents: job.contents.to_vec(), init: job.init, cases: 0 };
        let valid =
            self.program.cloned().map_or_else(|| judge::valid(job.program), Ok).map_err(Fault::Error)?;
        let mutated = self.mutation.run(&valid, &step);
        let answer = mutated.unwrap_or_else(|| judge::expected(&valid, &step));
        answer.map_err(|error| Fault::Error(error.to_string()))
    }
}

/// The suite's batches, and which of them a mutation can change.
struct Index {
    batches: Vec<(&'static Prepared, ValidProgram)>,
    by_row: HashMap<Row, Vec<usize>>,
}

impl Index {
    fn new() -> Index {
        let batches: Vec<_> = quick().iter().flat_map(|(_, prepared)| prepared).collect();
        let batches: Vec<_> = batches
            .into_iter()
            .map(|prepared| {
                (prepared, judge::valid(&prepared.batch.program).expect("the suite's programs are valid"))
            })
            .collect();
        let mut by_row: HashMap<Row, Vec<usize>> = HashMap::new();
        for (at, (_, valid)) in batches.iter().enumerate() {
            rows_of(valid.parts()).into_iter().for_each(|row| by_row.entry(row).or_default().push(at));
        }
        Index { batches, by_row }
    }

    /// The batches whose program has what the mutation changes. On all others it gives the expected bytes.
    fn concerned(&self, mutation: &Mutation) -> Vec<usize> {
        match mutation {
            Mutation::Row(_, row) => self.by_row.get(row).cloned().unwrap_or_default(),
            Mutation::Rows(_) | Mutation::Everywhere(_) => (0..self.batches.len()).collect(),
            Mutation::Program(rewrite, place) => (0..self.batches.len())
                .filter(|at| rewrite.concerns(self.batches[*at].1.parts(), *place))
                .collect(),
        }
    }

    /// The name of the first batch that shows the mutation.
    fn kill(&self, mutation: &Mutation) -> Option<&'static str> {
        self.concerned(mutation).into_iter().find_map(|at| {
            let (prepared, program) = &self.batches[at];
            let mutant = Mutant { mutation: *mutation, program: Some(program), profile: Profile::floor() };
            judge::run(&mutant, prepared).is_err().then_some(prepared.batch.name.as_str())
        })
    }
}

#[test]
fn the_bank_is_the_committed_list() {
    let names: Vec<String> = bank().iter().map(Mutation::name).collect();
    let distinct: HashSet<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(distinct.len(), names.len(), "two mutants have one name");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/unit/mutants/list.txt");
        std::fs::write(path, names.join("\n") + "\n").expect("the source tree is writable");
        return;
    }
    let committed: HashSet<&str> = include_str!("list.txt").lines().collect();
    let missing: Vec<&&str> = committed.iter().filter(|name| !distinct.contains(**name)).collect();
    assert!(missing.is_empty(), "a mutant is never taken out: {missing:?}");
    let new: Vec<&&str> = distinct.iter().filter(|name| !committed.contains(**name)).collect();
    assert!(new.is_empty(), "Fix: add new mutants to the list with UPDATE_EXPECT=1: {new:?}");
    assert!(names.len() >= 1000, "{} mutants", names.len());
}

#[test]
fn the_quick_run_kills_every_op_mutant() {
    let bank = bank();
    let start = Instant::now();
    let index = Index::new();
    let prepared = start.elapsed();
    let survivors: Vec<String> =
        bank.par_iter().filter(|mutation| index.kill(mutation).is_none()).map(Mutation::name).collect();
    eprintln!(
        "{} op mutants: {} killed, {} survive; {:.1} s to prepare {} batches, {:.1} s in all",
        bank.len(),
        bank.len() - survivors.len(),
        survivors.len(),
        prepared.as_secs_f64(),
        index.batches.len(),
        start.elapsed().as_secs_f64(),
    );
    assert!(survivors.is_empty(), "survivors, each a missing case:\n{}", survivors.join("\n"));
}
