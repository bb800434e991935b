//! One op, many operands.

use crate::{cases_or, outcome, without_floats};
use std::io::Write;
use vyre_foundation::ir::{
    Args, Axis, Buffer, BufferId, BufferKind, BuiltinOp, ComputeOp, DataType, Literal, Node, Operand,
    Program, ProgramParts, TypeSet,
};
use vyre_foundation::scalar::meaning;
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_generate::operands;
use vyre_generate::source::Seeded;

/// An op under a suffix, and the operand's type for casts.
#[derive(Clone, Copy, Debug)]
struct Row {
    op: ComputeOp,
    ty: DataType,
    source: DataType,
}

impl Row {
    fn arg_types(self) -> Vec<DataType> {
        self.op.info().args.iter().map(|arg| arg.under(self.ty).unwrap_or(self.source)).collect()
    }

    fn result(self) -> DataType {
        self.op.info().result.under(self.ty).expect("computing ops have results")
    }

    /// A program that reads operands from a buffer each and writes the results to the last. Bools are words.
    fn program(self) -> ValidProgram {
        let mut parts = ProgramParts::new("one_op", [64, 1, 1]);
        let in_buffer = |ty| if ty == DataType::Bool { DataType::U32 } else { ty };
        let types = self.arg_types();
        for (at, ty) in types.iter().chain([&self.result()]).enumerate() {
            let binding = at as u32;
            let kind = match at == types.len() {
                true => BufferKind::ReadWrite { binding, output: true },
                false => BufferKind::Read { binding },
            };
            parts.buffers.push(Buffer { name: format!("b{at}").into(), kind, ty: in_buffer(*ty), len: None });
        }
        let body = &mut parts.body;
        let index = body.new_value("i");
        body.block.push(Node::Builtin { result: index, op: BuiltinOp::GlobalId, axis: Some(Axis::X) });
        let mut args = Args::new();
        for (at, ty) in types.iter().enumerate() {
            let (result, buffer) = (body.new_value("x"), BufferId(at as u32));
            body.block.push(Node::Load { result, ty: in_buffer(*ty), buffer, index: index.into() });
            args.push(result.into());
            if *ty == DataType::Bool {
                let (word, result) = (args.pop().unwrap(), body.new_value("c"));
                let args_of_cast = Args::from_slice(&[word]);
                body.block.push(Node::Compute { result, op: ComputeOp::Cast, ty: *ty, args: args_of_cast });
                args.push(result.into());
            }
        }
        let mut result = body.new_value("r");
        body.block.push(Node::Compute { result, op: self.op, ty: self.ty, args });
        let ty = in_buffer(self.result());
        if self.result() == DataType::Bool {
            let bool_result = Operand::Value(result);
            let [one, zero] = [1, 0].map(|bit| Operand::Literal(Literal::u32(bit)));
            result = body.new_value("w");
            let args = Args::from_slice(&[bool_result, one, zero]);
            body.block.push(Node::Compute { result, op: ComputeOp::Select, ty, args });
        }
        let buffer = BufferId(types.len() as u32);
        body.block.push(Node::Store { ty, buffer, index: index.into(), value: result.into() });
        validate(&Program::new(parts).expect("sealable")).expect("valid")
    }

    /// Compares the op with its software form on all operands.
    fn compare(self, mut operands: impl Iterator<Item = [u64; 3]>) {
        let original = self.program();
        let soft = without_floats(&original);
        let types = self.arg_types();
        let mut count = 0;
        loop {
            let operands: Vec<[u64; 3]> = operands.by_ref().take(1 << 18).collect();
            if operands.is_empty() {
                break;
            }
            count += operands.len();
            let bytes_of = |ty: DataType| if ty == DataType::Bool { 4 } else { ty.bytes() };
            let column = |at: usize| {
                let width = bytes_of(types[at]);
                operands.iter().flat_map(|x| x[at].to_le_bytes().into_iter().take(width)).collect()
            };
            let mut buffers: Vec<Vec<u8>> = (0..types.len()).map(column).collect();
            let width = bytes_of(self.result());
            buffers.push(vec![0; operands.len() * width]);
            let results = [&original, &soft].map(|program| {
                outcome(program, None, &buffers).expect("no traps").pop().expect("a result buffer")
            });
            let [expected, actual] = results.each_ref().map(|bytes| bytes.chunks(width));
            if let Some((at, (expected, actual))) =
                expected.zip(actual).enumerate().find(|(_, (expected, actual))| expected != actual)
            {
                let hex = |bytes: &[u8]| bytes.iter().rev().map(|b| format!("{b:02x}")).collect::<String>();
                let (expected, actual) = (hex(expected), hex(actual));
                panic!("{self:?} of {:x?}: {actual} instead of {expected}", operands[at]);
            }
        }
        let from = if self.source == self.ty { String::new() } else { format!(" of {}", self.source) };
        // Past the test harness's capture, so that the counts show in every run.
        let _ = writeln!(
            std::io::stderr(),
            "{:<9} {:<4}{from:<8} {count:>8} operands, 0 mismatches",
            self.op.info().name,
            self.ty.name(),
        );
    }
}

/// Every row of the op table on or from floats.
fn rows() -> impl Iterator<Item = Row> {
    ComputeOp::ALL.iter().flat_map(|op| {
        op.info().types.iter().flat_map(move |ty| {
            let pairs = matches!(op, ComputeOp::Cast | ComputeOp::Bitcast);
            TypeSet::ANY
                .iter()
                .filter(move |source| if pairs { meaning(*op, ty, *source).is_some() } else { *source == ty })
                .filter(move |source| ty.is_float() || source.is_float())
                .map(move |source| Row { op: *op, ty, source })
        })
    })
}

/// The values of `ty` that are tried in all pairs.
fn edges(ty: DataType) -> Vec<u64> {
    match ty {
        DataType::Bool => vec![0, 1],
        _ if ty.is_float() => operands::edges(ty),
        _ => operands::integers(ty, 0).collect(),
    }
}

fn exhaustive(row: Row) -> Vec<[u64; 3]> {
    match row.arg_types()[..] {
        [ty] if ty.bits() == 16 => (0..1 << 16).map(|a| [a, 0, 0]).collect(),
        [ty] => edges(ty).into_iter().map(|a| [a, 0, 0]).collect(),
        [left, right] => {
            let right = edges(right);
            edges(left).into_iter().flat_map(|a| right.iter().map(move |b| [a, *b, 0])).collect()
        }
        [first, second, third] => {
            let (second, third) = (edges(second), edges(third));
            let mut triples = Vec::new();
            for (i, a) in edges(first).into_iter().enumerate() {
                for (j, b) in second.iter().enumerate() {
                    // Not every triple: another eleventh of the edges for each pair.
                    let some = third.iter().skip((3 * i + j) % 11).step_by(11);
                    triples.extend(some.map(|c| [a, *b, *c]));
                }
            }
            triples
        }
        _ => unreachable!("float ops have one to three operands"),
    }
}

/// The op's answer on bits.
fn answer(op: ComputeOp, ty: DataType, a: u64, b: u64) -> u64 {
    meaning(op, ty, ty).expect("a float op")(&[a, b, 0, 0])
}

/// Random operands, most of them shaped so that the result is hard to round.
fn random(row: Row, random: &mut Seeded) -> [u64; 3] {
    let Row { op, ty, source } = row;
    if op == ComputeOp::Cast || op == ComputeOp::Bitcast {
        let narrows = source.is_float() && ty.is_float() && source.bits() > ty.bits();
        return match random.below(2) {
            0 if narrows => [operands::near_midpoint(random, source, ty), 0, 0],
            0 if source.is_float() => [operands::one(random, source), 0, 0],
            _ => [(random.next_u64() >> random.below(u64::from(source.bits()))) & source.mask(), 0, 0],
        };
    }
    let (mut a, mut b) = operands::shaped(random, op, ty);
    let mut third = operands::addend(random, ty, a, b);
    if random.below(3) == 0 {
        // Operands for which the exact result is about `a` and a step beside it, whatever the op's digits do.
        let near =
            |bits: u64, random: &mut Seeded| (bits.wrapping_add(random.below(3)).wrapping_sub(1)) & ty.mask();
        match op {
            ComputeOp::Add | ComputeOp::Sub => b = near(answer(ComputeOp::Sub, ty, a, b), random),
            ComputeOp::Mul => b = near(answer(ComputeOp::Div, ty, a, b), random),
            ComputeOp::Div => a = near(answer(ComputeOp::Mul, ty, a, b), random),
            ComputeOp::Rem => {
                let count = answer(ComputeOp::Trunc, ty, operands::one(random, ty), 0);
                a = near(answer(ComputeOp::Mul, ty, b, count), random);
            }
            ComputeOp::Sqrt => a = near(answer(ComputeOp::Mul, ty, a, a), random),
            ComputeOp::Fma => {
                let product = answer(ComputeOp::Mul, ty, a, b);
                third = near(answer(ComputeOp::Sub, ty, operands::one(random, ty), product), random);
            }
            _ => b = near(a, random),
        }
    }
    match op {
        ComputeOp::Select => [random.below(2), a, b],
        ComputeOp::Rem if random.below(16) == 0 => [operands::one(random, ty), operands::one(random, ty), 0],
        _ => [a, b, third],
    }
}

#[test]
fn every_op_keeps_its_bits() {
    let count = cases_or(4_000);
    for row in rows() {
        let mut seeded = Seeded::new(0x50f7 ^ u64::from(row.op as u8) << 16 ^ u64::from(row.ty.tag()) << 8);
        let shaped = (0..count).map(|_| random(row, &mut seeded));
        row.compare(exhaustive(row).into_iter().chain(shaped));
    }
}
