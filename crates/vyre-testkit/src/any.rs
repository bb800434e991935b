//! Programs that need not be valid.
//!
//! Everything that [`Program::new`] accepts can come out: wrong arities and types, uses before assignments and outside
//! their scope, odd names, lengths, bindings and literals, `break` outside loops, code after `return`. Text and wire
//! must carry them all, and the validator must report on them without a panic.

use vyre_foundation::ir::{
    Args, AtomicOp, Axis, Block, Body, Buffer, BufferId, BufferKind, BuiltinOp, ComputeOp, DataType,
    Function, FunctionId, Literal, Local, MemoryOrdering, Node, Operand, Program, ProgramParts, ReduceOp,
    SubgroupOp, Tile, Value,
};
use vyre_generate::source::{Bytes, Draw, Seeded, Source};

/// Some program.
pub fn program(source: &mut dyn Source) -> Program {
    let mut maker = Maker { draw: Draw::new(source), buffers: 0, functions: 0, values: 0, locals: 0 };
    let parts = maker.parts();
    Program::new(parts).expect("every reference is declared, every name is one and every limit is kept")
}

/// The program of a seed.
pub fn seeded(seed: u64) -> Program {
    program(&mut Seeded::new(seed))
}

/// The program of a fuzzer's bytes.
pub fn from_bytes(bytes: &[u8]) -> Program {
    program(&mut Bytes::new(bytes))
}

struct Maker<'a> {
    draw: Draw<'a>,
    buffers: u32,
    functions: u32,
    /// Values and locals that the body under construction may name.
    values: u32,
    locals: u32,
}

impl Maker<'_> {
    fn parts(&mut self) -> ProgramParts {
        let name = self.name("p");
        let workgroup = [self.number(), self.number(), self.number()];
        let mut parts = ProgramParts::new(&name, workgroup);
        parts.subgroup = self.draw.chance(100).then(|| self.number());
        for at in 0..self.draw.below(5) {
            let buffer = self.buffer(at);
            parts.buffers.push(buffer);
        }
        self.buffers = parts.buffers.len() as u32;
        for at in 0..self.draw.below(4) {
            self.functions = at;
            let function = self.function(at);
            parts.functions.push(function);
        }
        self.functions = parts.functions.len() as u32;
        parts.body = self.body(0);
        parts
    }

    /// A name; those with a number are unlike all others with one.
    fn unique_name(&mut self, at: u32) -> String {
        match self.draw.below(4) {
            0 => format!("n{at}"),
            1 => format!("{at}.x"),
            2 => format!("_{}_{at}", "long".repeat(self.draw.below(25) as usize)),
            _ => format!("{}.{at}.{at}", self.draw.pick(&["if", "f32", "x", "buffer", "0x1f"])),
        }
    }

    /// Any name; namesakes and words of the language included.
    fn name(&mut self, plain: &str) -> String {
        const ODD: [&str; 24] = [
            "a", "a.1", "a.2", "a.1.1", "if", "for", "x", "in", "step", "true", "nan", "inf", "u32", "0",
            "1e5", "0x10", "_", "__", "binding", "output", "program", "fn", "const", "return",
        ];
        match self.draw.below(8) {
            0..=2 => plain.to_string(),
            3..=6 => self.draw.pick(&ODD).to_string(),
            _ => "w".repeat(self.draw.between(1, 128) as usize),
        }
    }

    /// A number, mostly small, sometimes at the end of the type.
    fn number(&mut self) -> u32 {
        match self.draw.below(8) {
            0..=3 => 1,
            4 | 5 => self.draw.below(70),
            6 => self.draw.pick(&[u32::MAX, 0x8000_0000, 1024, 65_536, 255, 256]),
            _ => self.draw.bits() as u32,
        }
    }

    fn ty(&mut self) -> DataType {
        self.draw.pick(&DataType::ALL)
    }

    fn buffer(&mut self, at: u32) -> Buffer {
        let name = self.unique_name(at).into();
        let ty = self.ty();
        let len = self.draw.chance(150).then(|| self.number());
        let binding = self.number();
        let kind = match self.draw.below(5) {
            0 => BufferKind::ReadWrite { binding, output: self.draw.chance(128) },
            1 => BufferKind::Read { binding },
            2 => BufferKind::Uniform { binding },
            3 => BufferKind::Workgroup,
            _ => BufferKind::Table {
                data: (0..self.draw.below(40)).map(|_| self.literal_of(ty).bits()).collect(),
            },
        };
        Buffer { name, kind, ty, len }
    }

    fn function(&mut self, at: u32) -> Function {
        let name = self.unique_name(100 + at).into();
        let params: Vec<(Value, DataType)> =
            (0..self.draw.below(5)).map(|param| (Value(param), self.ty())).collect();
        let result = self.draw.chance(128).then(|| self.ty());
        let body = self.body(params.len() as u32);
        Function { name, params, result, body }
    }

    /// A body whose first `params` values are assigned from the start.
    fn body(&mut self, params: u32) -> Body {
        self.values = params + self.draw.between(1, 12);
        self.locals = self.draw.between(1, 4);
        let mut body = Body::default();
        for at in 0..self.values {
            // Parameters of one name could not be distinguished in the function's header.
            let name = if at < params { self.unique_name(at) } else { self.name("v") };
            body.new_value(&name);
        }
        for _ in 0..self.locals {
            let name = self.name("l");
            body.new_local(&name);
        }
        let count = self.draw.below(12);
        body.block = self.block(count, 0);
        self.assign_the_rest(&mut body.block, params);
        body
    }

    /// Appends a line for whatever is read but never assigned: a program with such a name cannot be sealed.
    fn assign_the_rest(&mut self, block: &mut Block, params: u32) {
        let mut locals = vec![Use::default(); self.locals as usize];
        vyre_foundation::ir::walk(block, |_, _, node| {
            if let Some(local) = node.local() {
                locals[local.index()].read = true;
                locals[local.index()].assigned |= matches!(node, Node::Var { .. });
            }
        });
        for at in missing(&locals) {
            let (ty, init) = (self.ty(), self.operand());
            block.push(Node::Var { local: Local(at), ty, len: None, init });
        }
        let mut values = vec![Use::default(); self.values as usize];
        values[..params as usize].iter_mut().for_each(|param| param.assigned = true);
        vyre_foundation::ir::walk(block, |_, _, node| {
            node.for_each_operand(|operand| {
                if let Operand::Value(value) = operand {
                    values[value.index()].read = true;
                }
            });
            if let Some(result) = node.result() {
                values[result.index()].assigned = true;
            }
        });
        for at in missing(&values) {
            block.push(Node::Builtin { result: Value(at), op: BuiltinOp::LocalIndex, axis: None });
        }
    }

    fn block(&mut self, count: u32, depth: u32) -> Block {
        let mut block = Block::new();
        for _ in 0..count {
            if self.draw.is_spent() {
                break;
            }
            let node = self.node(depth);
            block.push(node);
        }
        block
    }

    fn node(&mut self, depth: u32) -> Node {
        match self.draw.below(4) {
            0 => self.plain_node(),
            1 => self.memory_node(),
            2 => self.local_node(),
            _ => self.control_node(depth),
        }
    }

    fn plain_node(&mut self) -> Node {
        let (result, ty) = (self.value(), self.ty());
        match self.draw.below(3) {
            0 => {
                let op = self.draw.pick(ComputeOp::ALL);
                Node::Compute { result, op, ty, args: self.args(op.info().args.len()) }
            }
            1 => {
                let op = self.draw.pick(SubgroupOp::ALL);
                Node::Subgroup { result, op, ty, args: self.args(op.info().args.len()) }
            }
            _ => {
                let op = self.draw.pick(BuiltinOp::ALL);
                let axis = op.has_axis() ^ self.draw.chance(8);
                Node::Builtin { result, op, axis: axis.then(|| self.draw.pick(&Axis::ALL)) }
            }
        }
    }

    fn memory_node(&mut self) -> Node {
        let (Some(buffer), Some(other)) = (self.any_buffer(), self.any_buffer()) else {
            return self.local_node();
        };
        let (result, ty, index) = (self.value(), self.ty(), self.operand());
        match self.draw.below(11) {
            0 => Node::Load { result, ty, buffer, index },
            1 => Node::UniformLoad { result, ty, buffer, index },
            2 => Node::Store { ty, buffer, index, value: self.operand() },
            3 => Node::Len { result, buffer },
            4 | 5 => {
                let op = self.draw.pick(AtomicOp::ALL);
                let args = self.args(op.info().args.len() - 1);
                Node::Atomic { result: self.draw.chance(128).then_some(result), op, ty, buffer, index, args }
            }
            6 => Node::Mma {
                m: self.number(),
                n: self.number(),
                k: self.number(),
                c: Tile { buffer, offset: index },
                a: Tile { buffer: other, offset: self.operand() },
                b: Tile { buffer, offset: self.operand() },
            },
            7 => Node::AllReduce { op: self.draw.pick(&ReduceOp::ALL), ty, dst: buffer, src: other },
            8 => Node::AllGather { ty, dst: buffer, src: other },
            9 => Node::ReduceScatter { op: self.draw.pick(&ReduceOp::ALL), ty, dst: buffer, src: other },
            _ => Node::Broadcast { ty, dst: buffer, src: other, root: self.number() },
        }
    }

    fn local_node(&mut self) -> Node {
        let (local, ty) = (Local(self.draw.below(self.locals)), self.ty());
        let index = self.draw.chance(80).then(|| self.operand());
        match self.draw.below(3) {
            0 => Node::Var {
                local,
                ty,
                len: self.draw.chance(80).then(|| self.number()),
                init: self.operand(),
            },
            1 => Node::Get { result: self.value(), ty, local, index },
            _ => Node::Set { ty, local, index, value: self.operand() },
        }
    }

    fn control_node(&mut self, depth: u32) -> Node {
        const ORDERINGS: [MemoryOrdering; 3] =
            [MemoryOrdering::Workgroup, MemoryOrdering::Subgroup, MemoryOrdering::GridSync];
        let inner = if depth < 4 { self.draw.below(4) } else { 0 };
        match self.draw.below(9) {
            0 | 1 => Node::If {
                cond: self.operand(),
                then: self.block(inner, depth + 1),
                otherwise: if self.draw.chance(100) { self.block(inner, depth + 1) } else { Block::new() },
            },
            2 => Node::For {
                counter: self.value(),
                lo: self.operand(),
                hi: self.operand(),
                step: self.number(),
                body: self.block(inner, depth + 1),
            },
            3 => Node::Break,
            4 => Node::Continue,
            5 if self.functions > 0 => Node::Call {
                result: self.draw.chance(128).then(|| self.value()),
                function: FunctionId(self.draw.below(self.functions)),
                args: self.args(1).to_vec(),
            },
            6 => Node::Return { value: self.draw.chance(128).then(|| self.operand()) },
            7 if self.buffers > 0 => Node::IndirectDispatch {
                buffer: BufferId(self.draw.below(self.buffers)),
                offset: self.number(),
            },
            8 => Node::Trap { code: self.number() },
            _ => Node::Barrier { ordering: self.draw.pick(&ORDERINGS) },
        }
    }

    fn any_buffer(&mut self) -> Option<BufferId> {
        (self.buffers > 0).then(|| BufferId(self.draw.below(self.buffers)))
    }

    fn value(&mut self) -> Value {
        Value(self.draw.below(self.values))
    }

    /// About `count` operands.
    fn args(&mut self, count: usize) -> Args {
        let count = if self.draw.chance(20) { self.draw.below(6) as usize } else { count };
        (0..count).map(|_| self.operand()).collect()
    }

    fn operand(&mut self) -> Operand {
        if self.draw.chance(140) {
            return self.value().into();
        }
        let ty = self.ty();
        self.literal_of(ty).into()
    }

    fn literal_of(&mut self, ty: DataType) -> Literal {
        vyre_generate::edge::literal(&mut self.draw, ty)
    }
}

/// What a body does with a value or local.
#[derive(Clone, Copy, Default)]
struct Use {
    read: bool,
    assigned: bool,
}

/// The numbers of those that are read but never assigned.
fn missing(uses: &[Use]) -> Vec<u32> {
    let is_missing = |(at, one): (usize, &Use)| (one.read && !one.assigned).then_some(at as u32);
    uses.iter().enumerate().filter_map(is_missing).collect()
}
