//! Lines without blocks: computing, memory, locals, and the folding of loose values into the accumulators.

use super::body::{Builder, Known, KnownLocal, Level, literal_u32};
use super::memory::{Pattern, is_atomic_type};
use smallvec::smallvec;
use vyre_foundation::ir::{
    Args, AtomicOp, Axis, BufferId, BuiltinOp, ComputeOp, DataType, Literal, Node, Operand,
};
use vyre_foundation::math::{self, OPS};

/// What kind of line comes next.
#[derive(Clone, Copy)]
enum Kind {
    Compute,
    Builtin,
    Load,
    Store,
    Len,
    Atomic,
    Local,
    If,
    For,
    Single,
    Call,
    Barrier,
    UniformLoad,
    Subgroup,
    Mma,
    Collective,
    Trap,
}

impl Builder<'_> {
    /// Up to `count` lines, fewer if the budget or the source is used up.
    pub(super) fn lines(&mut self, count: u32) {
        for _ in 0..count {
            if self.frame.lines_left == 0 || self.draw.is_spent() {
                return;
            }
            self.line();
        }
    }

    fn line(&mut self) {
        let config = self.config;
        let in_main = self.frame.is_main;
        let deep = self.frame.depth() > 3;
        let on = |allowed: bool, weight: u32| if allowed { weight } else { 0 };
        let together = in_main && self.frame.flow <= Level::Workgroup;
        let whole_grid = in_main && self.frame.flow == Level::Grid;
        let subgroup = together && self.parts.subgroup.is_some();
        let kinds = [
            (Kind::Compute, 36),
            (Kind::Builtin, 5),
            (Kind::Load, 12),
            (Kind::Store, 10),
            (Kind::Len, 2),
            (Kind::Atomic, on(config.atomics, 8)),
            (Kind::Local, 9),
            (Kind::If, on(config.control && !deep, 6)),
            (Kind::For, on(config.control && !deep && self.frame.trips < 12, 5)),
            (Kind::Single, on(config.control && in_main && !deep, 3)),
            (Kind::Call, on(!self.parts.functions.is_empty(), 5)),
            (Kind::Barrier, on(config.barriers && together, 4)),
            (Kind::UniformLoad, on(config.barriers && together, 3)),
            (Kind::Subgroup, on(subgroup, 14)),
            (Kind::Mma, on(config.mma && together, 2)),
            (
                Kind::Collective,
                on(config.collectives && whole_grid && !self.collective_pairs().is_empty(), 5),
            ),
            (Kind::Trap, on(config.traps, 1)),
        ];
        match self.draw.weighted(&kinds).unwrap_or(Kind::Compute) {
            Kind::Compute => self.any_compute(),
            Kind::Builtin => self.any_builtin(),
            Kind::Load => self.load(),
            Kind::Store => self.store(),
            Kind::Len => self.len(),
            Kind::Atomic => self.atomic(),
            Kind::Local => self.local(),
            Kind::If => self.branch(),
            Kind::For => self.repeat(),
            Kind::Single => self.single(),
            Kind::Call => self.call(),
            Kind::Barrier => self.any_barrier(),
            Kind::UniformLoad => self.uniform_load(),
            Kind::Subgroup => self.subgroup(),
            Kind::Mma => self.mma(),
            Kind::Collective => self.collective(),
            Kind::Trap => {
                let code = self.draw.below(100);
                self.emit(Node::Trap { code });
            }
        }
    }

    /// An elementary function. They are long, so they are rare.
    fn math(&mut self) {
        let op = &OPS[self.draw.below(OPS.len() as u32) as usize];
        let Some(ty) = self.type_of(op.types) else { return };
        let Ok(function) = math::declare(&mut self.parts, op, ty) else { return };
        let args: Vec<Operand> = (0..op.operands).map(|_| self.operand(ty)).collect();
        self.assign(ty, Level::Varying, |result| Node::Call { result: Some(result), function, args });
    }

    fn any_compute(&mut self) {
        if self.config.math && self.config.floats && self.config.wide && self.draw.chance(1) {
            return self.math();
        }
        let op = self.draw.pick(ComputeOp::ALL);
        if op == ComputeOp::Bitcast {
            return self.bitcast();
        }
        let Some(ty) = self.type_of(op.info().types) else { return };
        let mut args = Args::new();
        for arg in op.info().args {
            let arg_ty = match arg.under(ty) {
                Some(arg_ty) => arg_ty,
                None => self.any_type(),
            };
            args.push(self.operand_unlike(arg_ty, Level::Varying, &args));
        }
        self.compute(op, ty, args);
    }

    fn bitcast(&mut self) {
        const PAIRS: [(DataType, DataType); 16] = [
            (DataType::U32, DataType::I32),
            (DataType::I32, DataType::U32),
            (DataType::U32, DataType::F32),
            (DataType::F32, DataType::U32),
            (DataType::I32, DataType::F32),
            (DataType::F32, DataType::I32),
            (DataType::U64, DataType::I64),
            (DataType::I64, DataType::U64),
            (DataType::U64, DataType::F64),
            (DataType::F64, DataType::U64),
            (DataType::I64, DataType::F64),
            (DataType::F64, DataType::I64),
            (DataType::U32, DataType::F16),
            (DataType::F16, DataType::U32),
            (DataType::U32, DataType::BF16),
            (DataType::BF16, DataType::U32),
        ];
        let (from, to) = self.draw.pick(&PAIRS);
        if self.allows(from) && self.allows(to) {
            let value = self.operand(from);
            self.compute(ComputeOp::Bitcast, to, smallvec![value]);
        }
    }

    fn any_builtin(&mut self) {
        let op = self.draw.pick(BuiltinOp::ALL);
        let needs_subgroup = matches!(op, BuiltinOp::SubgroupLane | BuiltinOp::SubgroupIndex);
        if !needs_subgroup || self.parts.subgroup.is_some() {
            self.builtin(op);
        }
    }

    fn builtin(&mut self, op: BuiltinOp) -> Operand {
        let axis = op.has_axis().then(|| self.draw.pick(&Axis::ALL));
        let level = match op {
            BuiltinOp::NumWorkgroups | BuiltinOp::WorkgroupSize => Level::Grid,
            BuiltinOp::WorkgroupId | BuiltinOp::WorkgroupIndex => Level::Workgroup,
            BuiltinOp::GlobalId
            | BuiltinOp::LocalId
            | BuiltinOp::GlobalIndex
            | BuiltinOp::LocalIndex
            | BuiltinOp::SubgroupLane
            | BuiltinOp::SubgroupIndex => Level::Varying,
        };
        self.assign(DataType::U32, level, |result| Node::Builtin { result, op, axis }).into()
    }

    /// A lane's or team's number: the one from the body's start, or once more.
    pub(super) fn id(&mut self, op: BuiltinOp) -> Operand {
        match self.frame.ids.iter().find(|(known, _)| *known == op) {
            Some((_, value)) if !self.draw.chance(40) => (*value).into(),
            _ => self.builtin(op),
        }
    }

    /// The numbers that indices are made of, at the start of a body.
    pub(super) fn declare_ids(&mut self) {
        let subgroup = self.parts.subgroup.is_some() && self.frame.is_main;
        let ops = [
            (BuiltinOp::GlobalIndex, true),
            (BuiltinOp::LocalIndex, self.frame.is_main),
            (BuiltinOp::WorkgroupIndex, self.frame.is_main),
            (BuiltinOp::SubgroupIndex, subgroup),
            (BuiltinOp::SubgroupLane, subgroup),
        ];
        for (op, _) in ops.into_iter().filter(|(_, wanted)| *wanted) {
            if let Operand::Value(value) = self.builtin(op) {
                self.frame.ids.push((op, value));
            }
        }
    }

    fn len(&mut self) {
        let buffer = BufferId(self.draw.below(self.parts.buffers.len() as u32));
        self.assign(DataType::U32, Level::Grid, |result| Node::Len { result, buffer });
    }

    /// The writable buffers that this body may touch now and for which `allowed` holds.
    pub(super) fn reachable(&self, allowed: impl Fn(&super::memory::Memory) -> bool) -> Vec<usize> {
        let in_main = self.frame.is_main;
        let fits = |at: &usize| (in_main || self.memory[*at].pinned) && allowed(&self.memory[*at]);
        (0..self.memory.len()).filter(fits).collect()
    }

    fn load(&mut self) {
        let writable = self.reachable(|memory| memory.can_read());
        let choice = self.draw.below((self.readable.len() + 2 * writable.len()) as u32) as usize;
        if choice < self.readable.len() {
            return self.load_read_only(self.readable[choice]);
        }
        self.load_from(writable[(choice - self.readable.len()) / 2]);
    }

    fn load_from(&mut self, at: usize) {
        let memory = self.memory[at];
        let mut ty = memory.ty;
        let mut index = None;
        if ty == DataType::U8 && self.draw.chance(128) {
            index = self.four_bytes(at);
            ty = if index.is_some() { DataType::U32 } else { ty };
        }
        let index = match index {
            Some(index) => index,
            None => self.element(at),
        };
        let buffer = memory.buffer;
        self.assign(ty.computes_as(), Level::Varying, |result| Node::Load { result, ty, buffer, index });
    }

    fn load_read_only(&mut self, buffer: BufferId) {
        let declared = self.parts.buffer(buffer).ty;
        let four_bytes = declared == DataType::U8 && self.draw.chance(150);
        let ty = if four_bytes { DataType::U32 } else { declared };
        let elements = self.contents[buffer.index()].elements;
        let index = self.free_index(elements);
        let level = self.level_of(index);
        self.assign(ty.computes_as(), level, |result| Node::Load { result, ty, buffer, index });
    }

    fn store(&mut self) {
        let writable = self.reachable(|memory| memory.can_write());
        if writable.is_empty() {
            return;
        }
        let at = self.draw.pick(&writable);
        self.store_to(at);
    }

    fn store_to(&mut self, at: usize) {
        let (ty, buffer) = (self.memory[at].ty, self.memory[at].buffer);
        let value = self.operand(ty.computes_as());
        let index = self.element(at);
        self.emit(Node::Store { ty, buffer, index, value });
    }

    fn atomic(&mut self) {
        let fits = |memory: &super::memory::Memory| {
            is_atomic_type(memory.ty) && (memory.can_write() || matches!(memory.pattern, Pattern::Atomic(_)))
        };
        let writable = self.reachable(fits);
        if writable.is_empty() {
            return self.store();
        }
        let at = self.draw.pick(&writable);
        self.atomic_on(at);
    }

    fn atomic_on(&mut self, at: usize) {
        let (ty, buffer, pattern) = (self.memory[at].ty, self.memory[at].buffer, self.memory[at].pattern);
        let (op, with_result) = match pattern {
            // Adds and subs are one kind.
            Pattern::Atomic(AtomicOp::Add) => (self.draw.pick(&[AtomicOp::Add, AtomicOp::Sub]), false),
            Pattern::Atomic(kind) => (kind, false),
            Pattern::All | Pattern::Own { .. } | Pattern::Read | Pattern::Single(_) => {
                (self.draw.pick(AtomicOp::ALL), self.draw.chance(200))
            }
        };
        let optional = matches!(op, AtomicOp::Min | AtomicOp::Max) && ty.bits() == 64;
        let with_result = with_result || optional && !self.config.atomic_min_max_64;
        // The first operand of the row is the index.
        let args: Args = op.info().args[1..].iter().map(|_| self.operand(ty)).collect();
        let index = self.element(at);
        if with_result {
            self.assign(ty, Level::Varying, |result| Node::Atomic {
                result: Some(result),
                op,
                ty,
                buffer,
                index,
                args,
            });
        } else {
            self.emit(Node::Atomic { result: None, op, ty, buffer, index, args });
        }
    }

    /// Uses some buffers as their new patterns allow, so that what one phase writes the next one reads.
    pub(super) fn traffic(&mut self) {
        for at in self.reachable(|memory| !memory.pinned) {
            if self.draw.is_spent() || !self.draw.chance(140) {
                continue;
            }
            match self.memory[at].pattern {
                Pattern::All | Pattern::Own { .. } => self.store_to(at),
                Pattern::Read => self.load_from(at),
                Pattern::Atomic(_) => self.atomic_on(at),
                Pattern::Single(_) => {}
            }
        }
    }

    /// An element of each input for this lane, so that there is data to compute with from the start.
    pub(super) fn load_inputs(&mut self) {
        for buffer in self.readable.clone() {
            let ty = self.parts.buffer(buffer).ty;
            if !self.draw.is_spent() && !self.draw.chance(64) {
                let index = self.id(BuiltinOp::GlobalIndex);
                self.assign(ty.computes_as(), Level::Varying, |result| Node::Load {
                    result,
                    ty,
                    buffer,
                    index,
                });
            }
        }
    }

    fn local(&mut self) {
        if self.frame.locals.is_empty() || self.draw.below(4) == 0 {
            return self.declare_local();
        }
        let known = self.frame.locals[self.draw.below(self.frame.locals.len() as u32) as usize];
        if self.draw.chance(110) || self.frame.flow > known.level {
            return self.get(known);
        }
        let index = known.len.map(|len| self.local_index(len, known.level));
        let value = self.operand_at(known.ty, known.level);
        self.emit(Node::Set { ty: known.ty, local: known.local, index, value });
    }

    fn declare_local(&mut self) {
        let ty = self.any_type();
        let len = self.draw.chance(90).then(|| self.draw.between(1, 9));
        // Flow that diverges here would make a uniform local's very presence vary.
        let level = if self.frame.flow < Level::Varying && len.is_none() && self.draw.chance(80) {
            self.frame.flow
        } else {
            Level::Varying
        };
        let init = self.operand_at(ty, level);
        let local = self.frame.new_local();
        self.emit(Node::Var { local, ty, len, init });
        self.frame.locals.push(KnownLocal { local, ty, len, level });
    }

    fn get(&mut self, known: KnownLocal) {
        let KnownLocal { local, ty, len, level } = known;
        let index = len.map(|len| self.local_index(len, Level::Varying));
        self.assign(ty, level, |result| Node::Get { result, ty, local, index });
    }

    fn local_index(&mut self, len: u32, level: Level) -> Operand {
        match self.draw.below(8) {
            0..=3 => literal_u32(self.draw.below(len + 1)),
            4..=6 => {
                let free = self.operand_at(DataType::U32, level);
                self.index_op(ComputeOp::Rem, free, len)
            }
            _ => self.operand_at(DataType::U32, level),
        }
    }

    /// Declares the accumulators of a body.
    pub(super) fn declare_folds(&mut self) {
        let folds = [DataType::U32, DataType::U64].map(|ty| {
            let local = self.frame.new_local();
            if ty == DataType::U32 || self.config.wide {
                // Not zero, which rotations would not change.
                let init = Literal::from_bits(ty, self.draw.bits() | 1).into();
                self.emit(Node::Var { local, ty, len: None, init });
            }
            local
        });
        self.frame.folds = Some(folds);
    }

    /// Folds the values of the innermost block that nothing reads into the accumulators, all but a few.
    pub(super) fn fold_loose_values(&mut self, first: usize) {
        let Some(folds) = self.frame.folds else { return };
        let lines_left = self.frame.lines_left;
        let loose: Vec<Known> = self.frame.values[first..].to_vec();
        let mut bits = [Vec::new(), Vec::new()];
        for known in loose.into_iter().filter(|known| !self.frame.is_used(known.value)).collect::<Vec<_>>() {
            // Some stay dead, for the optimiser to find.
            if !self.draw.chance(12) {
                let wide = known.ty.bits() == 64;
                bits[usize::from(wide)].push(self.as_bits(known));
            }
        }
        for (at, ty) in [DataType::U32, DataType::U64].into_iter().enumerate() {
            if !bits[at].is_empty() {
                let local = folds[at];
                let mut sum =
                    self.assign(ty, Level::Varying, |result| Node::Get { result, ty, local, index: None });
                let turn = literal_u32(self.draw.between(1, 31));
                sum = self.compute(ComputeOp::Rotl, ty, smallvec![sum.into(), turn]);
                for term in &bits[at] {
                    // Each can be undone, so no term is lost.
                    let op = self.draw.pick(&[ComputeOp::Xor, ComputeOp::Add, ComputeOp::Sub]);
                    sum = self.compute(op, ty, smallvec![sum.into(), *term]);
                }
                self.emit(Node::Set { ty, local, index: None, value: sum.into() });
            }
        }
        self.frame.lines_left = lines_left;
    }

    /// All bits of a value as a u32 or u64.
    fn as_bits(&mut self, known: Known) -> Operand {
        let wide = known.ty.bits() == 64;
        let ty = if wide { DataType::U64 } else { DataType::U32 };
        let value = known.value.into();
        match known.ty {
            DataType::U32 | DataType::U64 => value,
            DataType::Bool if self.draw.below(2) == 0 => {
                let (yes, no) = (Literal::u32(0x9e37_79b9).into(), Literal::u32(1).into());
                self.compute(ComputeOp::Select, ty, smallvec![value, yes, no]).into()
            }
            DataType::Bool => self.compute(ComputeOp::Cast, ty, smallvec![value]).into(),
            DataType::U8
            | DataType::I8
            | DataType::U16
            | DataType::I16
            | DataType::I32
            | DataType::I64
            | DataType::F16
            | DataType::BF16
            | DataType::F32
            | DataType::F64 => self.compute(ComputeOp::Bitcast, ty, smallvec![value]).into(),
        }
    }
}
