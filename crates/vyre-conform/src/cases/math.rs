//! Elementary functions: every op of their table with every type, `math/TYPE/NAME`.
//!
//! The functions are programs over ops that the levels below have shown to be exact, so what fails here is a compiler that
//! treats long programs otherwise than short ones: a table, a branch for few lanes, an f64 or a u64 among many.

use super::operands::{Row, edges, value};
use super::ops::{lanes, track};
use super::rows::Kernel;
use crate::batch::{Group, Level};
use vyre_foundation::ir::DataType;
use vyre_foundation::math::{MathOp, OPS};
use vyre_generate::source::Seeded;

pub(crate) fn groups() -> Vec<Group> {
    let typed = |op: &'static MathOp| op.types.iter().map(move |ty| (op, ty));
    OPS.iter().flat_map(typed).enumerate().map(|(at, (op, ty))| group(at, op, ty)).collect()
}

fn group(at: usize, op: &'static MathOp, ty: DataType) -> Group {
    let name = format!("math/{ty}/{}", op.name);
    Group::fixed(name.clone(), Level::Math, track(&[ty]), move |plan| {
        let kernel = Kernel {
            lanes: lanes(at),
            inputs: vec![ty; op.operands],
            lines: format!("    %y = {}.{ty} {}\n", op.name, ["%a", "%a, %b"][op.operands - 1]),
            outputs: vec![("y".into(), ty)],
        };
        let mut random = Seeded::new(at as u64);
        let drawn = (0..plan.pick(61, 2039)).map(|_| [value(ty, &mut random), value(ty, &mut random), 0, 0]);
        let rows: Vec<Row> = edge(op, ty, plan.pick(16, 64)).into_iter().chain(drawn).collect();
        vec![kernel.batch(name.clone(), &rows)]
    })
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
