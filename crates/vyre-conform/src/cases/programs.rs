//! Whole programs.

use crate::batch::{Batch, Content, Group, Level, Step, Track};
use crate::contract::OutputInit;
use vyre_foundation::ir::{Axis, Program};

pub(crate) fn groups() -> Vec<Group> {
    vec![Group::fixed("kernel/double", Level::Programs, Track::Integer, |_| {
        let program = Program::build("double", [64, 1, 1], |k| {
            let y = k.read_write::<u32>("y", 0).output();
            let i = k.global_id(Axis::X);
            y.put(i, y.at(i) * 2);
        });
        let contents = vec![Content::Bytes((0..400u16).map(|i| i as u8).collect())];
        let step = Step { grid: [2, 1, 1], contents, init: OutputInit::Poison(0xa5), cases: 100 };
        vec![Batch::new("kernel/double:n=100".into(), program.expect("the builder keeps the limits"), step)]
    })]
}
