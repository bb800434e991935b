//! Validating programs of 10k, 100k and 1M lines: time must grow with the size and no faster, whatever the shape.

use divan::Bencher;
use divan::counter::ItemsCount;
use vyre_foundation::ir::{
    BuiltinOp, ComputeOp, DataType, Literal, Local, MemoryOrdering, Node, Program, ProgramParts,
};
use vyre_foundation::validate::validate;

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];

fn main() {
    divan::main();
}

/// A chain of adds, and a barrier so that uniformity is looked at.
fn chain(lines: usize) -> Program {
    let mut parts = ProgramParts::new("chain", [64, 1, 1]);
    let mut last = parts.body.new_value("i");
    parts.body.block.push(Node::Builtin { result: last, op: BuiltinOp::GlobalIndex, axis: None });
    for line in 2..lines {
        let result = parts.body.new_value(&format!("x{line}"));
        let args = [last.into(), Literal::u32(line as u32).into()].into_iter().collect();
        parts.body.block.push(Node::Compute { result, op: ComputeOp::Add, ty: DataType::U32, args });
        last = result;
    }
    parts.body.block.push(Node::Barrier { ordering: MemoryOrdering::Workgroup });
    Program::new(parts).expect("the chain seals")
}

/// Locals that each take the value of the one before, in the wrong order and a hundred loops deep: a value needs a trip
/// of the loop for every step, and a checker that walks in circles needs a walk for each.
fn carried(lines: usize) -> Program {
    let mut parts = ProgramParts::new("carried", [64, 1, 1]);
    let body = &mut parts.body;
    let count = (lines / 3) as u32;
    let lane = body.new_value("i");
    let mut top = vec![Node::Builtin { result: lane, op: BuiltinOp::LocalIndex, axis: None }];
    let mut inner = Vec::new();
    for at in 0..count {
        let local = body.new_local(&format!("x{at}"));
        let init = Literal::u32(0).into();
        top.push(Node::Var { local, ty: DataType::U32, len: None, init });
    }
    for at in (1..count).rev() {
        let result = body.new_value(&format!("v{at}"));
        inner.push(Node::Get { result, ty: DataType::U32, local: Local(at - 1), index: None });
        inner.push(Node::Set { ty: DataType::U32, local: Local(at), index: None, value: result.into() });
    }
    inner.push(Node::Set { ty: DataType::U32, local: Local(0), index: None, value: lane.into() });
    inner.push(Node::Barrier { ordering: MemoryOrdering::Workgroup });
    for at in 0..100 {
        let counter = body.new_value(&format!("j{at}"));
        let (lo, hi) = (Literal::u32(0).into(), Literal::u32(2).into());
        inner = vec![Node::For { counter, lo, hi, step: 1, body: inner }];
    }
    top.extend(inner);
    body.block = top;
    Program::new(parts).expect("seals")
}

/// Divergent barriers everywhere: the cost of finding and explaining.
fn wrong(lines: usize) -> Program {
    let mut parts = ProgramParts::new("wrong", [64, 1, 1]);
    let mut last = parts.body.new_value("i");
    parts.body.block.push(Node::Builtin { result: last, op: BuiltinOp::LocalIndex, axis: None });
    for line in 0..lines / 4 {
        let result = parts.body.new_value(&format!("x{line}"));
        let cond = parts.body.new_value(&format!("c{line}"));
        let one = Literal::u32(1).into();
        let args = [last.into(), one].into_iter().collect();
        parts.body.block.push(Node::Compute { result, op: ComputeOp::Add, ty: DataType::U32, args });
        let args = [result.into(), one].into_iter().collect();
        parts.body.block.push(Node::Compute { result: cond, op: ComputeOp::Eq, ty: DataType::U32, args });
        let then = vec![Node::Barrier { ordering: MemoryOrdering::Workgroup }];
        parts.body.block.push(Node::If { cond: cond.into(), then, otherwise: Vec::new() });
        last = result;
    }
    Program::new(parts).expect("seals")
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn straight(bencher: Bencher<'_, '_>, lines: usize) {
    let program = chain(lines);
    bencher.counter(ItemsCount::new(lines)).bench_local(|| validate(&program).expect("valid"));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn loop_carried(bencher: Bencher<'_, '_>, lines: usize) {
    let program = carried(lines);
    bencher.counter(ItemsCount::new(lines)).bench_local(|| validate(&program).expect("valid"));
}

#[divan::bench(args = SIZES, sample_count = 10)]
fn divergent(bencher: Bencher<'_, '_>, lines: usize) {
    let program = wrong(lines);
    bencher.counter(ItemsCount::new(lines)).bench_local(|| validate(&program).expect_err("divergent").len());
}
