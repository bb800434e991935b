//! Elementary functions: every op of their table, `math/NAME`, with every type.
//!
//! The functions are programs over ops that the levels below have shown to be exact, so what fails here is a compiler that
//! treats long programs otherwise than short ones: a table, a branch for few lanes, an f64 or a u64 among many. They are
//! long, and some devices compile them for a second each; a quick run takes each function with one type.

use super::operands::{Row, edges, value};
use super::ops::lanes;
use super::rows::Kernel;
use crate::batch::{Batch, Group, Level, Track};
use vyre_foundation::ir::DataType;
use vyre_foundation::math::{MathOp, OPS};
use vyre_generate::source::Seeded;

pub(crate) fn groups() -> Vec<Group> {
    OPS.iter().enumerate().map(|(at, op)| group(at, op)).collect()
}

fn group(at: usize, op: &'static MathOp) -> Group {
    Group::fixed(format!("math/{}", op.name), Level::Math, Track::Float, move |plan| {
        let types: Vec<DataType> = op.types.iter().collect();
        let types = plan.pick(&types[at % types.len()..][..1], &types[..]);
        let count = plan.pick(61, 2039);
        types.iter().map(|ty| batch(at, op, *ty, count, plan.pick(16, 64))).collect()
    })
}

/// One function with one type, for edge values and `count` random ones.
fn batch(at: usize, op: &MathOp, ty: DataType, count: usize, paired: usize) -> Batch {
    let kernel = Kernel {
        lanes: lanes(at),
        inputs: vec![ty; op.operands],
        lines: format!("    %y = {}.{ty} {}\n", op.name, ["%a", "%a, %b"][op.operands - 1]),
        outputs: vec![("y".into(), ty)],
    };
    let mut random = Seeded::new(at as u64);
    let drawn = (0..count).map(|_| [value(ty, &mut random), value(ty, &mut random), 0, 0]);
    let rows: Vec<Row> = edge(op, ty, paired).into_iter().chain(drawn).collect();
    kernel.batch(format!("math/{}:{ty}", op.name), &rows)
}

/// Edge values; for two operands some of them in all pairs.
fn edge(op: &MathOp, ty: DataType, paired: usize) -> Vec<Row> {
    let values = edges(ty);
    let step = values.len().div_ceil(paired);
    let some = || values.iter().step_by(step);
    match op.operands {
        1 => values.iter().map(|x| [*x, 0, 0, 0]).collect(),
        _ => some().flat_map(|x| some().map(|y| [*x, *y, 0, 0])).collect(),
    }
}
