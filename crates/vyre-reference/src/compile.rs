//! Turns a valid program into lane bytecode.
//!
//! One walk inlines functions and turns blocks into jumps; arguments and results of calls are other names of the same
//! registers, because values are assigned once. Counts and lengths are constants, because the launch is known.
//! `slots` then packs the registers. The walk keeps its own stack, so that no program can overflow the host's.

use crate::code::{Act, Array, Code, Frame, Instr, NONE, Origin, Slot};
use crate::slots::{self, CONSTANT};
use crate::trace::Note;
use crate::{Instead, RunError};
use rustc_hash::FxHashMap;
use vyre_foundation::ir::{
    AtomicOp, Axis, Block, BufferId, BuiltinOp, ComputeOp, DataType, FunctionId, Local, MemoryOrdering, Node,
    Operand, ProgramParts, Tile, Value, control, value_types,
};
use vyre_foundation::launch::Admission;
use vyre_foundation::scalar::{Meaning, meaning};

/// The launch and options that compiling depends on.
pub(crate) struct Setup<'a> {
    pub(crate) parts: &'a ProgramParts,
    pub(crate) admission: &'a Admission,
    /// Whether to keep what a trace shows.
    pub(crate) notes: bool,
    pub(crate) memory_bytes_max: u64,
    pub(crate) instead: Option<Instead>,
}

/// Compiles for one launch.
pub(crate) fn compile(setup: &Setup<'_>) -> Result<Code, RunError> {
    let parts = setup.parts;
    let functions = &parts.functions;
    let mut compiler = Compiler {
        setup,
        types: functions.iter().map(|f| value_types(&f.body, Some(f), functions)).collect(),
        body_types: value_types(&parts.body, None, functions),
        instrs: Vec::new(),
        origins: Vec::new(),
        notes: Vec::new(),
        frames: vec![Frame { function: None, caller: None }],
        scopes: vec![Scope::new(0, parts.body.values.len(), parts.body.locals.len())],
        loops: Vec::new(),
        open: vec![Open::lines(&parts.body.block, 0)],
        virtuals: 0,
        constants: Vec::new(),
        constant_of: FxHashMap::default(),
        array_top: 0,
        array_words: 0,
    };
    while let Some(open) = compiler.open.pop() {
        compiler.advance(open)?;
    }
    compiler.emit(Instr::End, Origin { frame: 0, site: u32::MAX })?;
    Ok(compiler.finish())
}

/// The blocks that are still to be compiled, the innermost last.
enum Open<'a> {
    /// The rest of a block, and where private arrays end when it is done.
    Lines {
        rest: std::slice::Iter<'a, Node>,
        array_top: u32,
    },
    /// A `then` block is done; `jump` goes past it.
    Then {
        jump: usize,
        otherwise: &'a Block,
        origin: Origin,
    },
    /// An `else` block is done; `jump` goes past it.
    Else {
        jump: usize,
    },
    For {
        enter: usize,
        origin: Origin,
        counter: Slot,
        hi: Slot,
        step: u32,
    },
    Call {
        result: Option<Value>,
    },
}

impl<'a> Open<'a> {
    fn lines(block: &'a Block, array_top: u32) -> Open<'a> {
        Open::Lines { rest: block.iter(), array_top }
    }
}

/// A body being inlined.
struct Scope {
    frame: u32,
    next_site: u32,
    values: Vec<Slot>,
    locals: Vec<Storage>,
    returned: Slot,
}

impl Scope {
    fn new(frame: u32, values: usize, locals: usize) -> Scope {
        Scope {
            frame,
            next_site: 0,
            values: vec![NONE; values],
            locals: vec![Storage::Register(NONE); locals],
            returned: NONE,
        }
    }
}

/// Where a mutable local lives.
#[derive(Clone, Copy)]
enum Storage {
    Register(Slot),
    Array(Array),
}

/// The jumps of a loop that wait for their targets.
#[derive(Default)]
struct Loop {
    breaks: Vec<usize>,
    continues: Vec<usize>,
}

struct Compiler<'a> {
    setup: &'a Setup<'a>,
    types: Vec<Vec<Option<DataType>>>,
    body_types: Vec<Option<DataType>>,
    instrs: Vec<Instr>,
    origins: Vec<Origin>,
    notes: Vec<Note>,
    frames: Vec<Frame>,
    scopes: Vec<Scope>,
    loops: Vec<Loop>,
    open: Vec<Open<'a>>,
    virtuals: u32,
    constants: Vec<u64>,
    constant_of: FxHashMap<u64, Slot>,
    array_top: u32,
    array_words: u32,
}

impl<'a> Compiler<'a> {
    fn finish(mut self) -> Code {
        let slots = slots::allocate(&mut self.instrs, &mut self.notes, self.virtuals);
        Code {
            synchronises: self.instrs.iter().any(Instr::synchronises),
            synchronises_grid: self.instrs.iter().any(Instr::synchronises_grid),
            instrs: self.instrs,
            origins: self.origins,
            notes: self.notes,
            frames: self.frames,
            slots,
            constants: self.constants,
            array_words: self.array_words,
        }
    }

    fn advance(&mut self, open: Open<'a>) -> Result<(), RunError> {
        match open {
            Open::Lines { mut rest, array_top } => match rest.next() {
                None => self.array_top = array_top,
                Some(node) => {
                    self.open.push(Open::Lines { rest, array_top });
                    let scope = self.scope();
                    let origin = Origin { frame: scope.frame, site: scope.next_site };
                    scope.next_site += 1;
                    self.node(node, origin)?;
                }
            },
            Open::Then { jump, otherwise, .. } if otherwise.is_empty() => self.land(jump),
            Open::Then { jump, otherwise, origin } => {
                let past = self.emit(Instr::Skip { to: 0 }, origin)?;
                self.land(jump);
                self.open.push(Open::Else { jump: past });
                self.open.push(Open::lines(otherwise, self.array_top));
            }
            Open::Else { jump } => self.land(jump),
            Open::For { enter, origin, counter, hi, step } => {
                let done = self.loops.pop().expect("a loop is open");
                done.continues.into_iter().for_each(|jump| self.land(jump));
                let next = Instr::ForNext { counter, hi, step, body: enter as u32 + 1 };
                self.emit(next, origin)?;
                self.land(enter);
                done.breaks.into_iter().for_each(|jump| self.land(jump));
            }
            Open::Call { result } => {
                let callee = self.scopes.pop().expect("the callee's scope is open");
                if let Some(result) = result {
                    self.scope().values[result.index()] = callee.returned;
                }
            }
        }
        Ok(())
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("the main body's scope is open")
    }

    /// Lets the jump at `at` go to the next instruction.
    fn land(&mut self, at: usize) {
        let here = self.instrs.len() as u32;
        match &mut self.instrs[at] {
            Instr::Jump { to }
            | Instr::Skip { to }
            | Instr::JumpUnless { to, .. }
            | Instr::ForEnter { exit: to, .. } => *to = here,
            other => unreachable!("{other:?} does not jump"),
        }
    }

    fn emit(&mut self, instr: Instr, origin: Origin) -> Result<usize, RunError> {
        let at = self.instrs.len();
        if at == self.instrs.capacity() {
            let bytes = 2 * at as u64 * (size_of::<Instr>() + size_of::<Origin>()) as u64;
            if bytes > self.setup.memory_bytes_max || self.instrs.try_reserve(at + 64).is_err() {
                return Err(RunError::Memory { needed: bytes, max: self.setup.memory_bytes_max });
            }
        }
        self.instrs.push(instr);
        self.origins.push(origin);
        if self.setup.notes {
            self.notes.push(Note::default());
        }
        Ok(at)
    }

    fn constant(&mut self, bits: u64) -> Slot {
        *self.constant_of.entry(bits).or_insert_with(|| {
            self.constants.push(bits);
            CONSTANT | (self.constants.len() - 1) as u32
        })
    }

    fn new_slot(&mut self) -> Slot {
        self.virtuals += 1;
        self.virtuals - 1
    }

    fn slot(&mut self, operand: Operand) -> Slot {
        match operand {
            Operand::Value(value) => self.scope().values[value.index()],
            Operand::Literal(literal) => self.constant(literal.bits()),
        }
    }

    fn define(&mut self, value: Value) -> Slot {
        let slot = self.new_slot();
        self.scope().values[value.index()] = slot;
        slot
    }

    fn type_of(&mut self, operand: Operand) -> DataType {
        let value = match operand {
            Operand::Literal(literal) => return literal.ty(),
            Operand::Value(value) => value,
        };
        let frame = self.scope().frame;
        let types = match self.frames[frame as usize].function {
            None => &self.body_types,
            Some(function) => &self.types[function.index()],
        };
        types[value.index()].expect("validated: values have types")
    }

    fn node(&mut self, node: &'a Node, origin: Origin) -> Result<(), RunError> {
        let at = self.instrs.len();
        let reads = if self.setup.notes { self.operands(node) } else { Vec::new() };
        match node {
            Node::If { cond, then, otherwise } => {
                let cond = self.slot(*cond);
                let jump = self.emit(Instr::JumpUnless { cond, to: 0 }, origin)?;
                self.open.push(Open::Then { jump, otherwise, origin });
                self.open.push(Open::lines(then, self.array_top));
            }
            Node::For { counter, lo, hi, step, body } => {
                let (lo, hi) = (self.slot(*lo), self.slot(*hi));
                let counter = self.define(*counter);
                let enter = self.emit(Instr::ForEnter { counter, lo, hi, exit: 0 }, origin)?;
                self.loops.push(Loop::default());
                self.open.push(Open::For { enter, origin, counter, hi, step: *step });
                self.open.push(Open::lines(body, self.array_top));
            }
            Node::Break | Node::Continue => {
                let jump = self.emit(Instr::Jump { to: 0 }, origin)?;
                let open = self.loops.last_mut().expect("validated: breaks stand in loops");
                let list = if matches!(node, Node::Break) { &mut open.breaks } else { &mut open.continues };
                list.push(jump);
            }
            Node::Call { result, function, args } => {
                if self.setup.notes {
                    self.emit(Instr::Mark, origin)?;
                }
                self.call(*result, *function, args, origin);
            }
            Node::Return { value } => {
                if self.setup.notes {
                    self.emit(Instr::Mark, origin)?;
                }
                if let Some(value) = value {
                    let returned = self.slot(*value);
                    self.scope().returned = returned;
                }
            }
            Node::IndirectDispatch { .. } => {}
            other => {
                let instr = self.instr(other);
                self.emit(instr, origin)?;
            }
        }
        self.note(node, at, reads);
        Ok(())
    }

    /// Keeps for a trace what the line at `at` reads and what it gives. A call gives its result at its return.
    fn note(&mut self, node: &Node, at: usize, reads: Vec<(Value, Slot)>) {
        if !self.setup.notes || at == self.instrs.len() {
            return;
        }
        let result = match node {
            Node::Call { .. } => None,
            other => other.result().map(|result| (result, self.scope().values[result.index()])),
        };
        self.notes[at] = Note { shown: true, reads, result };
    }

    fn operands(&mut self, node: &Node) -> Vec<(Value, Slot)> {
        let mut reads = Vec::new();
        node.for_each_operand(|operand| {
            if let Operand::Value(value) = operand
                && !reads.iter().any(|(read, _)| *read == value)
            {
                reads.push((value, self.slot(operand)));
            }
        });
        reads
    }

    fn call(&mut self, result: Option<Value>, function: FunctionId, args: &[Operand], origin: Origin) {
        let callee = &self.setup.parts.functions[function.index()];
        let frame = self.frames.len() as u32;
        self.frames.push(Frame { function: Some(function), caller: Some((origin.frame, origin.site)) });
        let mut scope = Scope::new(frame, callee.body.values.len(), callee.body.locals.len());
        for ((param, _), arg) in callee.params.iter().zip(args) {
            scope.values[param.index()] = self.slot(*arg);
        }
        self.scopes.push(scope);
        self.open.push(Open::Call { result });
        self.open.push(Open::lines(&callee.body.block, self.array_top));
    }

    /// The instruction of a line that is a single one.
    fn instr(&mut self, node: &Node) -> Instr {
        match node {
            Node::Compute { result, op, ty, args } => self.compute(*result, *op, *ty, args),
            Node::Builtin { result, op, axis } => self.builtin(*result, *op, axis.unwrap_or(Axis::X)),
            Node::Subgroup { result, op, ty, args } => {
                let zero = self.constant(0);
                let mut slots = [zero; 2];
                slots.iter_mut().zip(args).for_each(|(slot, arg)| *slot = self.slot(*arg));
                Instr::Subgroup { op: *op, ty: *ty, dst: self.define(*result), args: slots }
            }
            Node::Load { result, ty, buffer, index } => {
                let (index, of) = (self.slot(*index), self.setup.parts.buffer(*buffer).ty);
                let (dst, buffer) = (self.define(*result), index_of(*buffer));
                match (ty, of) {
                    (DataType::U32, DataType::U8) => Instr::LoadBytes { dst, buffer, index },
                    _ => Instr::Load { dst, ty: of, buffer, index },
                }
            }
            Node::UniformLoad { result, ty, buffer, index } => {
                let index = self.slot(*index);
                Instr::UniformLoad { dst: self.define(*result), ty: *ty, buffer: index_of(*buffer), index }
            }
            Node::Store { ty, buffer, index, value } => {
                let (index, value) = (self.slot(*index), self.slot(*value));
                Instr::Store { ty: *ty, buffer: index_of(*buffer), index, value }
            }
            Node::Len { result, buffer } => {
                let src = self.constant(self.setup.admission.lens[buffer.index()].into());
                Instr::Copy { dst: self.define(*result), src }
            }
            Node::Atomic { .. } => self.atomic(node),
            Node::Var { local, len, init, .. } => self.var(*local, *len, *init),
            Node::Get { result, local, index, .. } => {
                let index = index.map(|index| self.slot(index));
                let storage = self.scope().locals[local.index()];
                let dst = self.define(*result);
                match (storage, index) {
                    (Storage::Array(array), Some(index)) => Instr::ArrayGet { dst, array, index },
                    (Storage::Register(src), _) => Instr::Copy { dst, src },
                    (Storage::Array(_), None) => unreachable!("validated: arrays are indexed"),
                }
            }
            Node::Set { local, index, value, .. } => {
                let (index, value) = (index.map(|index| self.slot(index)), self.slot(*value));
                match (self.scope().locals[local.index()], index) {
                    (Storage::Array(array), Some(index)) => Instr::ArraySet { array, index, value },
                    (Storage::Register(dst), _) => Instr::Copy { dst, src: value },
                    (Storage::Array(_), None) => unreachable!("validated: arrays are indexed"),
                }
            }
            Node::Mma { m, n, k, c, a, b } => self.mma([*m, *n, *k], [c, a, b]),
            Node::Barrier { ordering } => match ordering {
                MemoryOrdering::Subgroup => Instr::SubgroupBarrier,
                MemoryOrdering::Workgroup => Instr::Barrier,
                MemoryOrdering::GridSync => Instr::GridBarrier,
            },
            Node::AllReduce { dst, src, .. }
            | Node::AllGather { dst, src, .. }
            | Node::ReduceScatter { dst, src, .. }
            | Node::Broadcast { dst, src, .. } => {
                Instr::Collective { dst: index_of(*dst), src: index_of(*src) }
            }
            Node::Trap { code } => Instr::Trap { code: *code },
            Node::IndirectDispatch { .. } | control!() => {
                unreachable!("control flow is no single instruction")
            }
        }
    }

    fn compute(&mut self, result: Value, op: ComputeOp, ty: DataType, args: &[Operand]) -> Instr {
        let source = args.first().map_or(ty, |arg| self.type_of(*arg));
        let instead = self.setup.instead.and_then(|instead| instead(op, ty, source));
        let f = instead.or_else(|| meaning(op, ty, source)).expect("validated: the op exists for its types");
        let mut slots = [self.constant(0); 4];
        slots.iter_mut().zip(args).for_each(|(slot, arg)| *slot = self.slot(*arg));
        let dst = self.define(result);
        match args.len() {
            0..=2 => Instr::Compute2 { f, dst, args: [slots[0], slots[1]] },
            _ => Instr::Compute4 { f, dst, args: slots },
        }
    }

    fn builtin(&mut self, result: Value, op: BuiltinOp, axis: Axis) -> Instr {
        let constant = match op {
            BuiltinOp::NumWorkgroups => Some(self.setup.admission.grid[axis.index()]),
            BuiltinOp::WorkgroupSize => Some(self.setup.parts.workgroup[axis.index()]),
            BuiltinOp::GlobalId
            | BuiltinOp::LocalId
            | BuiltinOp::WorkgroupId
            | BuiltinOp::GlobalIndex
            | BuiltinOp::LocalIndex
            | BuiltinOp::WorkgroupIndex
            | BuiltinOp::SubgroupLane
            | BuiltinOp::SubgroupIndex => None,
        };
        let src = constant.map(|count| self.constant(count.into()));
        let dst = self.define(result);
        src.map_or(Instr::Builtin { dst, op, axis }, |src| Instr::Copy { dst, src })
    }

    fn atomic(&mut self, node: &Node) -> Instr {
        let Node::Atomic { result, op, ty, buffer, index, args } = node else {
            unreachable!("only atomics come here")
        };
        let act = match op {
            AtomicOp::Add | AtomicOp::Sub => Act::AddSub,
            AtomicOp::Min => Act::Min,
            AtomicOp::Max => Act::Max,
            AtomicOp::And => Act::And,
            AtomicOp::Or => Act::Or,
            AtomicOp::Xor => Act::Xor,
            AtomicOp::Exchange => Act::Exchange,
            AtomicOp::CompareExchange => Act::CompareExchange,
        };
        let fold: Option<Meaning> =
            op.op().map(|op| meaning(op, *ty, *ty).expect("validated: atomics are of integers"));
        // With one argument it is the value; with two, what is expected comes first.
        let (first, last) = (args[0], args[args.len() - 1]);
        let slots = [self.slot(*index), self.slot(first), self.slot(last)];
        let dst = result.map_or(NONE, |result| self.define(result));
        Instr::Atomic { act, fold, ty: *ty, buffer: index_of(*buffer), dst, args: slots }
    }

    fn var(&mut self, local: Local, len: Option<u32>, init: Operand) -> Instr {
        let init = self.slot(init);
        let (storage, instr) = match len {
            None => {
                let dst = self.new_slot();
                (Storage::Register(dst), Instr::Copy { dst, src: init })
            }
            Some(len) => {
                let array = Array { base: self.array_top, len };
                self.array_top += len;
                self.array_words = self.array_words.max(self.array_top);
                (Storage::Array(array), Instr::ArrayFill { array, init })
            }
        };
        self.scope().locals[local.index()] = storage;
        instr
    }

    fn mma(&mut self, extent: [u32; 3], tiles: [&Tile; 3]) -> Instr {
        Instr::Mma {
            extent: extent.map(|extent| extent as u16),
            buffers: tiles.map(|tile| index_of(tile.buffer)),
            offsets: tiles.map(|tile| self.slot(tile.offset)),
        }
    }
}

fn index_of(buffer: BufferId) -> u16 {
    buffer.0 as u16
}
