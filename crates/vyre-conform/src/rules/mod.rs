//! Typical mistakes of backends, as rules that can be executed.
//!
//! A rule is a name, a cause and a change. `int` and `float` change what one row of the op table computes, `rewrite`
//! changes the program. The reference interpreter can run a change. If its result is exactly what a
//! backend returned, the rule names the backend's mistake (`diagnose`). Every rule on every row that it changes is also a
//! wrong backend that the suite must find (`tests/unit/mutants`).
//!
//! Not here: mistakes that only a whole backend can make, such as returning results of an earlier dispatch.

mod float;
mod int;
mod rewrite;

pub(crate) use rewrite::{Place, Rewrite, rewrites};

use rewrite::Change;

use crate::batch::{Content, Step};
use crate::failure::Cause;
use crate::judge::{self, Answer};
use std::cell::{Cell, RefCell};
use vyre_foundation::ir::{ComputeOp, DataType, Node, Operand, ProgramParts, value_types, walk};
use vyre_foundation::scalar::{Meaning, meaning};
use vyre_foundation::validate::ValidProgram;
use vyre_reference::{Options, RunError, Schedule};

/// A row of the op table under one suffix and one type of the first operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) op: ComputeOp,
    pub(crate) ty: DataType,
    /// The operand's type for `cast` and `bitcast`; the suffix for all else.
    pub(crate) source: DataType,
}

impl Row {
    pub(crate) fn new(op: ComputeOp, ty: DataType, source: DataType) -> Row {
        let pairs = matches!(op, ComputeOp::Cast | ComputeOp::Bitcast);
        Row { op, ty, source: if pairs { source } else { ty } }
    }

    /// The result that the language gives.
    pub(crate) fn right(&self, x: &[u64; 4]) -> u64 {
        meaning(self.op, self.ty, self.source).expect("rows have a meaning")(x)
    }

    /// The type of operand `at`.
    pub(crate) fn operand(&self, at: usize) -> DataType {
        self.op.info().args[at].under(self.ty).unwrap_or(self.source)
    }

    pub(crate) fn operands(&self) -> impl Iterator<Item = DataType> {
        (0..self.op.info().args.len()).map(|at| self.operand(at))
    }

    pub(crate) fn result(&self) -> DataType {
        self.op.info().result.under(self.ty).expect("computing ops give a value")
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.op.info().name, self.ty)?;
        if self.source != self.ty { write!(f, ".{}", self.source) } else { Ok(()) }
    }
}

/// The result of a row under a rule; `None` if the rule does not change it.
type Wrong = fn(&Row, &[u64; 4]) -> Option<u64>;

/// A typical mistake in a computing op.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) cause: Cause,
    wrong: Wrong,
}

impl Rule {
    const fn new(name: &'static str, cause: Cause, wrong: Wrong) -> Rule {
        Rule { name, cause, wrong }
    }

    /// Whether the rule may change a row.
    pub(crate) fn speaks_of(&self, row: &Row) -> bool {
        [[0; 4], [1; 4]].iter().any(|x| self.apply(row, x).is_some())
    }

    /// The wrong result; `None` where the rule leaves the row, or these operands, as they are.
    pub(crate) fn apply(&self, row: &Row, x: &[u64; 4]) -> Option<u64> {
        (self.wrong)(row, x)
    }
}

/// Every rule for computing ops, the likelier explanation first.
pub(crate) fn rules() -> impl Iterator<Item = &'static Rule> {
    float::RULES.iter().chain(int::RULES)
}

/// The result of `op` under another suffix, if the op table has that.
fn other(op: ComputeOp, ty: DataType, x: &[u64; 4]) -> Option<u64> {
    meaning(op, ty, ty).map(|run| run(x))
}

/// A change to what a program means.
#[derive(Clone, Copy)]
pub(crate) enum Mutation {
    /// A rule on one row.
    Row(&'static Rule, Row),
    /// A rule on every row of the program that it speaks of.
    Rows(&'static Rule),
    /// A change of the program at one place.
    Program(&'static Rewrite, Place),
    /// A change of the program at all of its places.
    Everywhere(&'static Rewrite),
}

impl Mutation {
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Mutation::Row(rule, _) | Mutation::Rows(rule) => rule.cause,
            Mutation::Program(rewrite, _) | Mutation::Everywhere(rewrite) => rewrite.cause,
        }
    }

    /// The same change at every place where a program allows it.
    pub(crate) fn everywhere(&self) -> Mutation {
        match *self {
            Mutation::Row(rule, _) | Mutation::Rows(rule) => Mutation::Rows(rule),
            Mutation::Program(rewrite, _) | Mutation::Everywhere(rewrite) => Mutation::Everywhere(rewrite),
        }
    }

    /// The name in lists: what is wrong, and where.
    pub(crate) fn name(&self) -> String {
        match self {
            Mutation::Row(rule, row) => format!("{row} {}", rule.name),
            Mutation::Rows(rule) => format!("all {}", rule.name),
            Mutation::Program(rewrite, place) => format!("{place} {}", rewrite.name),
            Mutation::Everywhere(rewrite) => format!("all {}", rewrite.name),
        }
    }

    /// The result of the changed program; `None` if there is nothing to change, or the result is not a valid program.
    pub(crate) fn run(&self, program: &ValidProgram, step: &Step) -> Option<Result<Answer, RunError>> {
        match self {
            Mutation::Row(rule, row) => rows_of(program.parts())
                .contains(row)
                .then(|| run(program, step, vec![(*rule, *row)], Schedule::Forward)),
            Mutation::Rows(rule) => {
                let mut rows = rows_of(program.parts());
                rows.retain(|row| rule.speaks_of(row));
                let changes: Vec<_> = rows.into_iter().map(|row| (*rule, row)).collect();
                (!changes.is_empty()).then(|| run(program, step, changes, Schedule::Forward))
            }
            Mutation::Program(rewrite, place) => run_change(rewrite.apply(program.program(), *place)?, step),
            Mutation::Everywhere(rewrite) => run_change(rewrite.apply_everywhere(program.program())?, step),
        }
    }
}

/// Runs a changed program; `None` if it is not valid.
fn run_change(change: Change, step: &Step) -> Option<Result<Answer, RunError>> {
    let valid = judge::valid(&change.program).ok()?;
    let grid = change.grid.map_or(step.grid, |grid| grid(step.grid));
    let mut step = Step { grid, ..step.clone() };
    step.contents.extend(change.scratch.iter().map(|len| Content::Zeros(*len)));
    let bitcasts = rows_of(valid.parts()).into_iter().filter(|row| row.op == ComputeOp::Bitcast);
    let changes = change.bitcast.map(|rule| bitcasts.map(|row| (rule, row)).collect());
    Some(run(&valid, &step, changes.unwrap_or_default(), change.schedule))
}

/// The rows that a program's lines have.
pub(crate) fn rows_of(parts: &ProgramParts) -> Vec<Row> {
    let mut rows = Vec::new();
    let functions = parts.functions.iter().map(|function| (&function.body, Some(function)));
    for (body, function) in functions.chain([(&parts.body, None)]) {
        let types = value_types(body, function, &parts.functions);
        walk(&body.block, |_, _, node| {
            if let Node::Compute { op, ty, args, .. } = node {
                let source = match args.first() {
                    Some(Operand::Value(value)) => types[value.index()].unwrap_or(*ty),
                    Some(Operand::Literal(literal)) => literal.ty(),
                    None => *ty,
                };
                rows.push(Row::new(*op, *ty, source));
            }
        });
    }
    rows.sort();
    rows.dedup();
    rows
}

thread_local! {
    /// The changes of the run on this thread: a meaning is a bare function, so it finds its row here.
    static ACTIVE: RefCell<Vec<(&'static Rule, Row)>> = const { RefCell::new(Vec::new()) };
}

/// Questions whether to stop, one in 65,536 lines, before a changed program counts as endless.
const POLLS_MAX: u32 = 400;

/// Runs with some rows changed.
fn run(
    program: &ValidProgram,
    step: &Step,
    changes: Vec<(&'static Rule, Row)>,
    schedule: Schedule,
) -> Result<Answer, RunError> {
    ACTIVE.set(changes);
    let polls = Cell::new(0);
    let stop = || polls.replace(polls.get() + 1) > POLLS_MAX;
    let options = Options { instead: Some(instead), schedule, stop: Some(&stop), ..Options::default() };
    judge::expected_under(program, step, &options)
}

/// The meaning of change number `I`.
fn active<const I: usize>(x: &[u64; 4]) -> u64 {
    let (rule, row) = ACTIVE.with_borrow(|changes| changes[I]);
    rule.apply(&row, x).unwrap_or_else(|| row.right(x))
}

macro_rules! meanings {
    ($($at:literal)*) => { [$( active::<$at>, )*] };
}

/// One function for each change that a run may have at once; what goes beyond stays right.
const MEANINGS: [Meaning; 48] = meanings!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
    24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
);

fn instead(op: ComputeOp, ty: DataType, source: DataType) -> Option<Meaning> {
    let row = Row::new(op, ty, source);
    let at = ACTIVE.with_borrow(|changes| changes.iter().position(|(_, other)| *other == row))?;
    MEANINGS.get(at).copied()
}
