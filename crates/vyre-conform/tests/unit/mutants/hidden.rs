//! Mistakes hidden in long random programs are cut out, and told in a form that a person can act on.

use super::bank::Mutant;
use crate::batch::{Batch, Content, Group, Level, Step, Track, Work};
use crate::contract::{OutputInit, Profile};
use crate::diagnose::{self, Effort};
use crate::failure::ParityFailure;
use crate::judge::{self, Prepared};
use crate::rules::{Mutation, Place, Row, rewrites, rows_of, rules};
use vyre_foundation::ir::{ComputeOp, DataType, OpId, walk};
use vyre_foundation::launch::admit_buffers;
use vyre_generate::Config;

/// A random program of at least a hundred lines that shows the mutation, with the mutant's failure.
fn hidden(mutation: Mutation) -> ParityFailure {
    let config =
        Config { lines: 120, grid_barriers: false, collectives: false, indirect: false, ..Config::default() };
    for seed in 0.. {
        let case = vyre_generate::seeded(seed, &config);
        let mut lines = 0;
        walk(&case.program.parts().body.block, |_, _, _| lines += 1);
        let concerned = match mutation {
            Mutation::Row(_, row) => rows_of(case.program.parts()).contains(&row),
            Mutation::Program(rewrite, place) => rewrite.concerns(case.program.parts(), place),
            Mutation::Rows(_) | Mutation::Everywhere(_) => true,
        };
        if lines < 100 || !concerned {
            continue;
        }
        let grid =
            admit_buffers(&case.valid().expect("generated programs are valid"), case.grid, &case.buffers)
                .expect("generated launches are admitted")
                .grid;
        let contents = case.buffers.into_iter().map(Content::Bytes).collect();
        let step = Step { grid, contents, init: OutputInit::Zero, cases: 1 };
        let prepared = Prepared::new(Batch::new("hidden".into(), case.program, step));
        let mutant = Mutant { mutation, program: None, profile: Profile::floor() };
        if let Err(miss) = judge::run(&mutant, &prepared) {
            let work = Work::Batches(Box::new(|_| Vec::new()));
            let group = Group {
                name: "hidden".into(),
                level: Level::Random,
                track: Track::Float,
                seeded: true,
                work,
            };
            return diagnose::explain(
                &mutant,
                (group.level, group.track),
                &prepared,
                miss,
                Effort::Reduce,
                String::new(),
            );
        }
    }
    unreachable!("some seed has it")
}

fn on_row(rule: &str, op: ComputeOp, ty: DataType) -> Mutation {
    let rule = rules().find(|known| known.name == rule).expect("the rule has that name");
    Mutation::Row(rule, Row::new(op, ty, ty))
}

fn on_lines(rewrite: &str, op: &str, ty: DataType) -> Mutation {
    let op = OpId::from_name(op).expect("it is an op");
    let place = Place::Typed(op, ty);
    let rewrite = rewrites().find(|known| known.name == rewrite && (known.places)().contains(&place));
    Mutation::Program(rewrite.expect("the rewrite has that name and place"), place)
}

#[test]
fn a_mistake_in_a_hundred_lines_is_cut_down_to_a_few() {
    let mistakes = [
        on_row("past-the-width-is-zero", ComputeOp::Rotl, DataType::U32),
        on_row("subnormals-flushed", ComputeOp::Mul, DataType::F32),
        on_row("halves-apart", ComputeOp::Sub, DataType::U64),
        on_row("unfused", ComputeOp::Fma, DataType::F64),
        on_row("boundary", ComputeOp::Lt, DataType::I32),
        on_lines("other-signedness", "load", DataType::I16),
        on_lines("left-to-right", "subgroup_reduce_add", DataType::F32),
        on_lines("gives-the-new-value", "atomic_max", DataType::U32),
        on_lines("starts-at-zero", "var", DataType::U32),
    ];
    for mutation in mistakes {
        let failure = hidden(mutation);
        let name = mutation.name();
        let lines = failure
            .program
            .lines()
            .filter(|line| line.starts_with("  ") && !line.contains("buffer @"))
            .count();
        assert!(lines <= 8, "{name} left {lines} lines:\n{failure}");
        assert_eq!(failure.cause, mutation.cause(), "{name}:\n{failure}");
        let bytes: usize = failure.inputs.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes <= 256, "{name} left {bytes} bytes of inputs:\n{failure}");
    }
}
