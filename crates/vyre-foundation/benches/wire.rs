//! Encoding and decoding programs of 10k, 100k and 1M lines: time must grow with the size and no faster.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use vyre_foundation::ir::{BuiltinOp, ComputeOp, DataType, Literal, Node, Program, ProgramParts};
use vyre_foundation::wire;

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];

fn main() {
    divan::main();
}

/// A chain of adds, each line with a name of its own.
fn program(lines: usize) -> Program {
    let mut parts = ProgramParts::new("chain", [64, 1, 1]);
    let mut last = parts.body.new_value("i");
    parts.body.block.push(Node::Builtin { result: last, op: BuiltinOp::GlobalIndex, axis: None });
    for line in 1..lines {
        let result = parts.body.new_value(&format!("x{line}"));
        let args = [last.into(), Literal::u32(line as u32).into()].into_iter().collect();
        parts.body.block.push(Node::Compute { result, op: ComputeOp::Add, ty: DataType::U32, args });
        last = result;
    }
    Program::new(parts).expect("the chain seals")
}

#[divan::bench(args = SIZES)]
fn encode(bencher: Bencher<'_, '_>, lines: usize) {
    let program = program(lines);
    let bytes = wire::encode(&program).len();
    bencher
        .counter(ItemsCount::new(lines))
        .counter(BytesCount::new(bytes))
        .bench_local(|| wire::encode(&program));
}

#[divan::bench(args = SIZES)]
fn decode(bencher: Bencher<'_, '_>, lines: usize) {
    let bytes = wire::encode(&program(lines));
    bencher
        .counter(ItemsCount::new(lines))
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| wire::decode(&bytes).expect("decodes"));
}
