//! The lines of a body, control flow, and where a lane is.

use super::float::Factor;
use super::module::Module;
use super::words::{Arg, Id, Inst};
use crate::floats::{FloatOp, How};
use spirv::{BuiltIn, GlslStd450Op as Glsl, Op, StorageClass};
use std::collections::HashMap;
use vyre_foundation::ir::{
    Axis, Block, Body, BuiltinOp, ComputeOp, DataType, Function, FunctionId, Literal, Local, MemoryOrdering,
    Node, Operand, ProgramParts, Value, collective, value_types, walk,
};

/// Trips of a loop that a driver may take at once.
const TRIPS_AHEAD: u64 = 256;

/// Something computed once, before the first line.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kept {
    Launch(u32),
    Hidden(Literal),
    Builtin(BuiltIn, u32),
    Group(usize),
    Ones,
}

/// Where a mutable local lives: its variable, the type of an element, and the length of an array.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) variable: Id,
    pub(super) ty: DataType,
    pub(super) len: Option<u32>,
}

/// A body being written.
pub(super) struct Emit<'m, 'p> {
    pub(super) module: &'m mut Module<'p>,
    function: Option<FunctionId>,
    types: Vec<Option<DataType>>,
    values: Vec<Id>,
    pub(super) locals: Vec<Option<Place>>,
    variables: Vec<Inst>,
    /// Lines before the first one, and whether they are being written.
    entry: Vec<Inst>,
    at_entry: bool,
    kept: HashMap<Kept, Id>,
    code: Vec<Inst>,
    /// The block being written, and whether it has not ended.
    here: Id,
    open: bool,
    loops: Vec<(Id, Id)>,
    site: u32,
    /// For results of guarded `fma`: what says that they may be subnormal.
    guards: HashMap<Id, Id>,
}

/// A result and its operands.
type Fma = (Value, [Operand; 3]);

/// The `fma` that one branch guards, at most.
const ROW_MAX: usize = 64;

impl<'m, 'p> Emit<'m, 'p> {
    pub(super) fn new(module: &'m mut Module<'p>, function: Option<FunctionId>) -> Emit<'m, 'p> {
        let parts: &ProgramParts = module.parts;
        let of = function.map(|id| &parts.functions[id.index()]);
        let body: &Body = of.map_or(&parts.body, |function: &Function| &function.body);
        Emit {
            function,
            types: value_types(body, of, &parts.functions),
            values: vec![0; body.values.len()],
            locals: vec![None; body.locals.len()],
            variables: Vec::new(),
            entry: Vec::new(),
            at_entry: false,
            kept: HashMap::new(),
            code: Vec::new(),
            here: 0,
            open: true,
            loops: Vec::new(),
            site: 0,
            guards: HashMap::new(),
            module,
        }
    }

    /// Writes the whole function under that id.
    pub(super) fn write(mut self, id: Id) {
        let parts: &'p ProgramParts = self.module.parts;
        let of = self.function.map(|id| &parts.functions[id.index()]);
        let params: Vec<(Value, DataType)> = of.map_or(Vec::new(), |function| function.params.clone());
        let result = match of.and_then(|function| function.result) {
            Some(ty) => self.ty(ty),
            None => self.module.words.void(),
        };
        let types: Vec<Id> = params.iter().map(|(_, ty)| self.ty(*ty)).collect();
        let signature = [result].into_iter().chain(types.iter().copied()).map(Arg::Id);
        let ty = self.module.words.intern(Op::TypeFunction, None, signature, "function");
        let mut head =
            vec![Inst::new(Op::Function, Some(result), Some(id), [Arg::Named(0, "None".into()), ty.into()])];
        for ((value, _), ty) in params.iter().zip(types) {
            let id = self.module.words.id();
            head.push(Inst::new(Op::FunctionParameter, Some(ty), Some(id), []));
            self.values[value.index()] = id;
        }
        let (entry, first) = (self.module.words.id(), self.module.words.id());
        self.label(first);
        if self.function.is_none() {
            self.zero_workgroup_memory();
        }
        self.block(of.map_or(&parts.body.block, |function| &function.body.block));
        if self.open {
            self.code.push(Inst::new(Op::Return, None, None, []));
        }
        let words = &mut self.module.words;
        head.push(Inst::new(Op::Label, None, Some(entry), []));
        let jump = Inst::new(Op::Branch, None, None, [first.into()]);
        let end = Inst::new(Op::FunctionEnd, None, None, []);
        let parts = [head, self.variables, self.entry, vec![jump], self.code, vec![end]];
        parts.into_iter().flatten().for_each(|inst| words.push(inst));
    }

    /// The type that values of `ty` have.
    pub(super) fn ty(&mut self, ty: DataType) -> Id {
        let words = &mut self.module.words;
        match ty {
            DataType::Bool => words.boolean(),
            DataType::U64 | DataType::I64 if self.module.options.features.int64 => words.uint(64),
            DataType::U64 | DataType::I64 => {
                let word = words.uint(32);
                words.vector(word, 2)
            }
            DataType::F32 | DataType::F64 => words.float(ty.bits()),
            // Halves are their bits.
            DataType::F16 | DataType::BF16 => words.uint(32),
            DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 | DataType::U32 | DataType::I32 => {
                words.uint(32)
            }
        }
    }

    /// An instruction with a result.
    pub(super) fn op(&mut self, op: Op, ty: Id, args: &[Id]) -> Id {
        self.op_with(op, ty, args.iter().map(|id| Arg::Id(*id)))
    }

    pub(super) fn op_with(&mut self, op: Op, ty: Id, args: impl IntoIterator<Item = Arg>) -> Id {
        let id = self.module.words.id();
        self.code.push(Inst::new(op, Some(ty), Some(id), args));
        id
    }

    /// An instruction with a result that is a word.
    pub(super) fn word_op(&mut self, op: Op, args: &[Id]) -> Id {
        let ty = self.module.words.uint(32);
        self.op(op, ty, args)
    }

    /// An instruction with a result that is a truth value.
    pub(super) fn bool_op(&mut self, op: Op, args: &[Id]) -> Id {
        let ty = self.module.words.boolean();
        self.op(op, ty, args)
    }

    pub(super) fn glsl(&mut self, op: Glsl, ty: Id, args: &[Id]) -> Id {
        let set = [Arg::Id(super::words::GLSL), Arg::named(op as u32, op)];
        self.op_with(Op::ExtInst, ty, set.into_iter().chain(args.iter().map(|id| Arg::Id(*id))))
    }

    /// An instruction without a result.
    pub(super) fn effect(&mut self, op: Op, args: &[Id]) {
        self.effect_with(op, args.iter().map(|id| Arg::Id(*id)));
    }

    pub(super) fn effect_with(&mut self, op: Op, args: impl IntoIterator<Item = Arg>) {
        self.code.push(Inst::new(op, None, None, args));
    }

    pub(super) fn word(&mut self, word: u32) -> Id {
        self.module.words.word(word)
    }

    /// What `make` computes, once and before the first line.
    pub(super) fn keep(&mut self, key: Kept, make: impl FnOnce(&mut Self) -> Id) -> Id {
        if let Some(id) = self.kept.get(&key) {
            return *id;
        }
        let outer = self.at_entry;
        if !outer {
            std::mem::swap(&mut self.code, &mut self.entry);
        }
        self.at_entry = true;
        let id = make(self);
        self.at_entry = outer;
        if !outer {
            std::mem::swap(&mut self.code, &mut self.entry);
        }
        self.kept.insert(key, id);
        id
    }

    /// A word of the launch.
    pub(super) fn launch_word(&mut self, at: u32) -> Id {
        self.keep(Kept::Launch(at), |emit| {
            let (zero, vector, lane) = (emit.word(0), emit.word(at / 4), emit.word(at % 4));
            let word = emit.module.words.uint(32);
            let ty = emit.module.words.pointer(StorageClass::Uniform, word);
            let launch = emit.module.launch;
            let pointer = emit.op(Op::AccessChain, ty, &[launch, zero, vector, lane]);
            emit.op(Op::Load, word, &[pointer])
        })
    }

    /// A constant that compilers see.
    pub(super) fn literal(&mut self, literal: Literal) -> Id {
        let (ty, bits) = (literal.ty(), literal.bits());
        match ty {
            DataType::Bool => self.module.words.truth(bits != 0),
            DataType::U64 | DataType::I64 if self.module.options.features.int64 => {
                self.module.words.wide(bits)
            }
            DataType::U64 | DataType::I64 => {
                let [low, high] = [bits as u32, (bits >> 32) as u32].map(|word| self.word(word));
                let ty = self.ty(ty);
                self.module.words.composite(ty, &[low, high], &format!("u32x2_{bits}"))
            }
            DataType::F32 | DataType::F64 => {
                let words = [bits as u32, (bits >> 32) as u32];
                let args = words.into_iter().take(ty.bytes() / 4).map(Arg::Word);
                let id = self.ty(ty);
                self.module.words.intern(Op::Constant, Some(id), args, &format!("{ty}_{bits:x}"))
            }
            _ => self.word(bits as u32),
        }
    }

    pub(super) fn bits(&mut self, ty: DataType, bits: u64) -> Id {
        self.literal(Literal::from_bits(ty, bits))
    }

    pub(super) fn operand(&mut self, operand: Operand) -> Id {
        match operand {
            Operand::Value(value) => self.values[value.index()],
            Operand::Literal(literal) if literal.ty().is_float() => self.hidden(literal),
            Operand::Literal(literal) => self.literal(literal),
        }
    }

    /// A float constant that compilers do not see.
    pub(super) fn hidden(&mut self, literal: Literal) -> Id {
        self.keep(Kept::Hidden(literal), |emit| {
            let shown = Literal::from_bits(super::float::word_of(literal.ty()), literal.bits());
            let shown = emit.literal(shown);
            let bits = emit.hide_bits(literal.ty(), shown);
            emit.float_of(literal.ty(), bits)
        })
    }

    pub(super) fn type_of(&self, operand: Operand) -> DataType {
        match operand {
            Operand::Value(value) => self.types[value.index()].expect("validated: a value has a type"),
            Operand::Literal(literal) => literal.ty(),
        }
    }

    pub(super) fn bind(&mut self, value: Value, id: Id) {
        self.values[value.index()] = id;
        if self.function.is_none() && !self.module.words.has_name(id) {
            let parts: &'p ProgramParts = self.module.parts;
            self.module.words.call(id, &parts.body.values[value.index()], true);
        }
    }

    /// A variable of this lane.
    pub(super) fn variable(&mut self, ty: Id) -> Id {
        let pointer = self.module.words.pointer(StorageClass::Function, ty);
        let id = self.module.words.id();
        let class = [Arg::storage(StorageClass::Function)];
        self.variables.push(Inst::new(Op::Variable, Some(pointer), Some(id), class));
        id
    }

    pub(super) fn label(&mut self, id: Id) {
        self.code.push(Inst::new(Op::Label, None, Some(id), []));
        self.here = id;
        self.open = true;
    }

    fn jump(&mut self, to: Id) {
        if self.open {
            self.effect(Op::Branch, &[to]);
        }
        self.open = false;
    }

    fn merge(&mut self, op: Op, ids: &[Id]) {
        let args = ids.iter().map(|id| Arg::Id(*id)).chain([Arg::Named(0, "None".into())]);
        self.code.push(Inst::new(op, None, None, args));
    }

    /// `then` where `cond`.
    pub(super) fn when(&mut self, cond: Id, then: impl FnOnce(&mut Self)) {
        self.either(cond, then, None::<fn(&mut Self)>);
    }

    fn either(&mut self, cond: Id, then: impl FnOnce(&mut Self), otherwise: Option<impl FnOnce(&mut Self)>) {
        let [yes, no, end] = [(); 3].map(|()| self.module.words.id());
        let no = if otherwise.is_some() { no } else { end };
        self.merge(Op::SelectionMerge, &[end]);
        self.effect(Op::BranchConditional, &[cond, yes, no]);
        self.label(yes);
        then(self);
        let mut reached = self.open || otherwise.is_none();
        self.jump(end);
        if let Some(otherwise) = otherwise {
            self.label(no);
            otherwise(self);
            reached |= self.open;
            self.jump(end);
        }
        self.label(end);
        if !reached {
            self.effect(Op::Unreachable, &[]);
            self.open = false;
        }
    }

    /// `usual`, or what `rare` makes where `cond`.
    pub(super) fn unless(
        &mut self,
        ty: DataType,
        cond: Id,
        usual: Id,
        rare: impl FnOnce(&mut Self) -> Id,
    ) -> Id {
        let before = self.here;
        let (mut other, mut there) = (usual, before);
        self.when(cond, |emit| {
            other = rare(emit);
            there = emit.here;
        });
        let ty = self.ty(ty);
        self.op(Op::Phi, ty, &[usual, before, other, there])
    }

    /// Runs `body` for every counter. `may_wrap` if a step can pass 2^31.
    pub(super) fn counted(
        &mut self,
        [lo, hi]: [Id; 2],
        step: u32,
        may_wrap: bool,
        body: impl FnOnce(&mut Self, Id),
    ) {
        let [head, test, inner, next, end] = [(); 5].map(|()| self.module.words.id());
        let [later, still] = [(); 2].map(|()| self.module.words.id());
        let first = if may_wrap { Some(self.bool_op(Op::ULessThan, &[lo, hi])) } else { None };
        let before = self.here;
        self.jump(head);
        self.label(head);
        let i = self.word_op(Op::Phi, &[lo, before, later, next]);
        let more = first.map(|first| self.bool_op(Op::Phi, &[first, before, still, next]));
        self.merge(Op::LoopMerge, &[end, next]);
        self.jump(test);
        self.label(test);
        let more = more.unwrap_or_else(|| self.bool_op(Op::ULessThan, &[i, hi]));
        self.effect(Op::BranchConditional, &[more, inner, end]);
        self.label(inner);
        self.loops.push((next, end));
        body(self, i);
        self.loops.pop();
        self.jump(next);
        self.label(next);
        let step = self.word(step);
        if may_wrap {
            // What is left says whether there is another trip, so a counter that wraps is never used.
            let left = self.word_op(Op::ISub, &[hi, i]);
            let ty = self.module.words.boolean();
            let args = [left, step].map(Arg::Id);
            self.code.push(Inst::new(Op::UGreaterThan, Some(ty), Some(still), args));
        }
        let ty = self.module.words.uint(32);
        self.code.push(Inst::new(Op::IAdd, Some(ty), Some(later), [i, step].map(Arg::Id)));
        self.jump(head);
        self.label(end);
    }

    fn block(&mut self, block: &Block) {
        let mut nodes = &block[..];
        while let Some((node, rest)) = nodes.split_first() {
            nodes = rest;
            if !self.open {
                // Nothing comes here, and lines are counted all the same.
                self.site += 1;
                node.blocks().for_each(|inner| walk(inner, |_, _, _| self.site += 1));
            } else if let Some(first) = self.guarded_fma(node) {
                let more = rest.iter().map_while(|node| self.guarded_fma(node));
                let row: Vec<Fma> = [first].into_iter().chain(more).take(ROW_MAX).collect();
                nodes = &rest[row.len() - 1..];
                self.site += row.len() as u32;
                self.fmas(&row);
            } else {
                self.node(node);
            }
        }
    }

    /// An `fma` of f32 that a guard stands around.
    fn guarded_fma(&self, node: &Node) -> Option<Fma> {
        let Node::Compute { result, op: ComputeOp::Fma, ty: DataType::F32, args } = node else { return None };
        let how = self.module.options.how(DataType::F32, FloatOp::Fma);
        (how == How::Guarded).then(|| (*result, [args[0], args[1], args[2]]))
    }

    fn fmas(&mut self, row: &[Fma]) {
        let factor = |emit: &mut Self, operand: Operand| match operand {
            Operand::Value(value) => match row.iter().position(|(result, _)| *result == value) {
                Some(at) => Factor::Result(at),
                None => Factor::Id(emit.operand(operand)),
            },
            Operand::Literal(number) => {
                let id = emit.operand(operand);
                let is_subnormal = (1..1 << 23).contains(&(number.bits() & 0x7fff_ffff));
                if is_subnormal { Factor::Id(id) } else { Factor::Known(id) }
            }
        };
        let factors: Vec<[Factor; 3]> =
            row.iter().map(|(_, args)| args.map(|operand| factor(self, operand))).collect();
        let made = self.fma_row(&factors);
        row.iter().zip(made).for_each(|((result, _), id)| self.bind(*result, id));
    }

    /// The block that is being written.
    pub(super) fn here(&self) -> Id {
        self.here
    }

    /// Remembers what says that a value may be subnormal; it is known wherever the value is.
    pub(super) fn note_guard(&mut self, value: Id, guard: Id) {
        self.guards.insert(value, guard);
    }

    pub(super) fn guard_of(&self, value: Id) -> Option<Id> {
        self.guards.get(&value).copied()
    }

    fn node(&mut self, node: &Node) {
        let site = self.site;
        self.site += 1;
        let proven = self.module.facts.in_bounds(self.function, site);
        match node {
            Node::Compute { result, op, ty, args } => {
                let id = self.compute(*op, *ty, args);
                self.bind(*result, id);
            }
            Node::Builtin { result, op, axis } => {
                let id = self.builtin(*op, *axis);
                self.bind(*result, id);
            }
            Node::Load { result, ty, buffer, index } => {
                let index = self.operand(*index);
                let id = self.load(*ty, *buffer, index, proven);
                self.bind(*result, id);
            }
            Node::UniformLoad { result, ty, buffer, index } => {
                let index = self.operand(*index);
                self.barrier();
                let id = self.load(*ty, *buffer, index, proven);
                self.barrier();
                self.bind(*result, id);
            }
            Node::Store { ty, buffer, index, value } => {
                let (index, value) = (self.operand(*index), self.shown(*value, *ty, *buffer));
                self.store(*ty, *buffer, index, value, proven);
            }
            Node::Len { result, buffer } => {
                let len = self.len(*buffer);
                self.bind(*result, len);
            }
            Node::Atomic { result, op, ty, buffer, index, args } => {
                let old = self.atomic(*op, *ty, *buffer, *index, args, (result.is_some(), proven));
                if let Some(result) = result {
                    self.bind(*result, old);
                }
            }
            Node::Var { local, ty, len, init } => self.declare(*local, *ty, *len, *init),
            Node::Get { result, local, index, .. } => {
                let id = self.get(*local, *index, proven);
                self.bind(*result, id);
            }
            Node::Set { local, index, value, .. } => self.set(*local, *index, *value, proven),
            Node::If { cond, then, otherwise } => {
                let cond = self.operand(*cond);
                let no = (!otherwise.is_empty()).then_some(|emit: &mut Self| emit.block(otherwise));
                self.either(cond, |emit| emit.block(then), no);
            }
            Node::For { counter, lo, hi, step, body } => self.repeat(*counter, [*lo, *hi], *step, body),
            Node::Break => {
                let (_, end) = *self.loops.last().expect("validated: inside a loop");
                self.jump(end);
            }
            Node::Continue => {
                let (next, _) = *self.loops.last().expect("validated: inside a loop");
                self.jump(next);
            }
            Node::Call { result, function, args } => self.call(*result, *function, args),
            Node::Return { value: Some(value) } => {
                let value = self.operand(*value);
                self.effect(Op::ReturnValue, &[value]);
                self.open = false;
            }
            Node::Return { value: None } => {}
            // The driver has read the grid.
            Node::IndirectDispatch { .. } => {}
            Node::Trap { code } => self.trap(*code),
            Node::Barrier { ordering: MemoryOrdering::Subgroup | MemoryOrdering::Workgroup } => {
                self.barrier();
            }
            Node::Barrier { ordering: MemoryOrdering::GridSync } => self.grid_barrier(),
            Node::Subgroup { result, op, ty, args } => {
                let id = self.subgroup(*op, *ty, args);
                self.bind(*result, id);
            }
            Node::Mma { .. } | collective!() => unreachable!("legalised: loops of loads and stores"),
        }
    }

    fn call(&mut self, result: Option<Value>, function: FunctionId, args: &[Operand]) {
        let parts: &'p ProgramParts = self.module.parts;
        let ty = match parts.functions[function.index()].result {
            Some(ty) => self.ty(ty),
            None => self.module.words.void(),
        };
        let mut ids = vec![self.module.functions[function.index()]];
        ids.extend(args.iter().map(|arg| self.operand(*arg)));
        let id = self.op(Op::FunctionCall, ty, &ids);
        if let Some(result) = result {
            self.bind(result, id);
        }
    }

    fn repeat(&mut self, counter: Value, [lo, hi]: [Operand; 2], step: u32, body: &Block) {
        // Drivers look trips ahead: NVIDIA's does so with a sign, and asks for several trips at once whether the last one is there.
        let may_wrap = match hi {
            Operand::Literal(hi) => hi.bits() + TRIPS_AHEAD * u64::from(step) > i32::MAX as u64,
            Operand::Value(_) => step != 1,
        };
        let bounds = [lo, hi].map(|bound| self.operand(bound));
        self.counted(bounds, step, may_wrap, |emit, i| {
            emit.bind(counter, i);
            emit.block(body);
        });
    }

    /// Records the first trap in program order, which has the greatest complement; the lane goes on.
    fn trap(&mut self, number: u32) {
        let status = self.module.status.expect("a program with traps has status words");
        let record = |emit: &mut Self| {
            let (zero, site) = (emit.word(0), emit.word(!number));
            let word = emit.module.words.uint(32);
            let ty = emit.module.words.pointer(StorageClass::StorageBuffer, word);
            let pointer = emit.op(Op::AccessChain, ty, &[status, zero, zero]);
            let scope = emit.word(spirv::Scope::Device as u32);
            emit.word_op(Op::AtomicUMax, &[pointer, scope, zero, site]);
        };
        match self.module.stopped {
            None => record(self),
            Some(stopped) => {
                let ty = self.module.words.boolean();
                let stopped = self.op(Op::Load, ty, &[stopped]);
                let runs = self.op(Op::LogicalNot, ty, &[stopped]);
                self.when(runs, record);
            }
        }
    }

    fn input(&mut self, builtin: BuiltIn, axis: u32) -> Id {
        self.keep(Kept::Builtin(builtin, axis), |emit| {
            let variable = emit.module.input(builtin);
            let word = emit.module.words.uint(32);
            if builtin == BuiltIn::LocalInvocationIndex {
                return emit.op(Op::Load, word, &[variable]);
            }
            let vector = emit.module.words.vector(word, 3);
            let all = emit.op(Op::Load, vector, &[variable]);
            emit.op_with(Op::CompositeExtract, word, [all.into(), Arg::Word(axis)])
        })
    }

    pub(super) fn local_index(&mut self) -> Id {
        self.input(BuiltIn::LocalInvocationIndex, 0)
    }

    fn local_id(&mut self, axis: usize) -> Id {
        match self.module.parts.workgroup[axis] {
            1 => self.word(0),
            _ => self.input(BuiltIn::LocalInvocationId, axis as u32),
        }
    }

    /// A launch may be one of several that make up the grid.
    fn workgroup_id(&mut self, axis: usize) -> Id {
        self.keep(Kept::Group(axis), |emit| {
            let id = emit.input(BuiltIn::WorkgroupId, axis as u32);
            let first = emit.launch_word(4 + axis as u32);
            emit.word_op(Op::IAdd, &[id, first])
        })
    }

    fn global_id(&mut self, axis: usize) -> Id {
        let (group, local) = (self.workgroup_id(axis), self.local_id(axis));
        let size = self.word(self.module.parts.workgroup[axis]);
        let start = self.word_op(Op::IMul, &[group, size]);
        self.word_op(Op::IAdd, &[start, local])
    }

    /// `x + w * (y + h * z)`.
    fn linear(&mut self, [x, y, z]: [Id; 3], [w, h]: [Id; 2]) -> Id {
        let plane = self.word_op(Op::IMul, &[h, z]);
        let rest = self.word_op(Op::IAdd, &[y, plane]);
        let rows = self.word_op(Op::IMul, &[w, rest]);
        self.word_op(Op::IAdd, &[x, rows])
    }

    pub(super) fn subgroup_width(&self) -> u32 {
        self.module.parts.subgroup.unwrap_or(1)
    }

    pub(super) fn builtin(&mut self, op: BuiltinOp, axis: Option<Axis>) -> Id {
        let workgroup = self.module.parts.workgroup;
        let axis = axis.map_or(0, Axis::index);
        match op {
            BuiltinOp::GlobalId => self.global_id(axis),
            BuiltinOp::LocalId => self.local_id(axis),
            BuiltinOp::WorkgroupId => self.workgroup_id(axis),
            BuiltinOp::NumWorkgroups => self.launch_word(axis as u32),
            BuiltinOp::WorkgroupSize => self.word(workgroup[axis]),
            BuiltinOp::GlobalIndex => {
                let ids = [0, 1, 2].map(|axis| self.global_id(axis));
                let counts = [0, 1].map(|axis| {
                    let (count, size) = (self.launch_word(axis), self.word(workgroup[axis as usize]));
                    self.word_op(Op::IMul, &[count, size])
                });
                self.linear(ids, counts)
            }
            BuiltinOp::LocalIndex => self.local_index(),
            BuiltinOp::WorkgroupIndex => {
                let ids = [0, 1, 2].map(|axis| self.workgroup_id(axis));
                let counts = [0, 1].map(|axis| self.launch_word(axis));
                self.linear(ids, counts)
            }
            BuiltinOp::SubgroupLane => {
                let (index, mask) = (self.local_index(), self.word(self.subgroup_width() - 1));
                self.word_op(Op::BitwiseAnd, &[index, mask])
            }
            BuiltinOp::SubgroupIndex => {
                let (index, shift) = (self.local_index(), self.word(self.subgroup_width().trailing_zeros()));
                self.word_op(Op::ShiftRightLogical, &[index, shift])
            }
        }
    }

    fn declare(&mut self, local: Local, ty: DataType, len: Option<u32>, init: Operand) {
        let value = self.operand(init);
        let element = self.ty(ty);
        let whole = len.map_or(element, |len| self.module.words.array(element, len.max(1)));
        let variable = self.variable(whole);
        if self.function.is_none() {
            let parts: &'p ProgramParts = self.module.parts;
            self.module.words.call(variable, &parts.body.locals[local.index()], true);
        }
        self.locals[local.index()] = Some(Place { variable, ty, len });
        match len {
            None => self.effect(Op::Store, &[variable, value]),
            Some(len) => {
                let (zero, len) = (self.word(0), self.word(len));
                self.counted([zero, len], 1, false, |emit, i| {
                    let pointer = emit.array_pointer(variable, ty, i);
                    emit.effect(Op::Store, &[pointer, value]);
                });
            }
        }
    }
}
