//! Writes the lines of one segment: what it takes from the state, the original lines, what it leaves in the state.

use super::plan::{KeptBuffer, KeptLocal, Layout, Slot, words_of};
use rustc_hash::FxHashMap;
use vyre_foundation::ir::{
    Axis, Block, Body, Buffer, BufferId, BufferKind, BuiltinOp, ComputeOp, DataType, Literal, Local,
    MemoryOrdering, Node, Operand, Program, ProgramError, ProgramParts, Value,
};
use vyre_foundation::validate::uniformity::Level;

/// The buffer that segments write.
pub(super) const STATE: &str = "vyre.state";
/// The read-only copy of the state's uniform part, so that what is loaded from it stays uniform.
pub(super) const UNIFORM: &str = "vyre.uniform";

/// Builds one segment.
pub(super) struct Emitter<'a> {
    original: &'a ProgramParts,
    body: Body,
    buffers: Vec<Buffer>,
    values: FxHashMap<Value, Operand>,
    locals: FxHashMap<Local, Local>,
    buffer_ids: FxHashMap<BufferId, BufferId>,
    layout: Layout,
    state: BufferId,
    uniform: BufferId,
    at: Option<Position>,
}

/// Where the lane is, computed once at the segment's head.
#[derive(Clone, Copy)]
struct Position {
    lane: Operand,
    lanes: Operand,
    group: Operand,
    /// First word of the lane words, and of the workgroup memory.
    lane_words: Operand,
    group_memory: Operand,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(original: &'a ProgramParts, layout: Layout, first_binding: u32) -> Emitter<'a> {
        let words = |name: &str, kind| Buffer { name: name.into(), kind, ty: DataType::U32, len: None };
        let buffers = vec![
            words(UNIFORM, BufferKind::Read { binding: first_binding }),
            words(STATE, BufferKind::ReadWrite { binding: first_binding + 1, output: true }),
        ];
        Emitter {
            original,
            body: Body::default(),
            buffers,
            values: FxHashMap::default(),
            locals: FxHashMap::default(),
            buffer_ids: FxHashMap::default(),
            layout,
            uniform: BufferId(0),
            state: BufferId(1),
            at: None,
        }
    }

    /// Takes over a line of the original.
    pub(super) fn push(&mut self, line: &Node) {
        let line = self.translate(line);
        self.body.block.push(line);
    }

    fn translate(&mut self, line: &Node) -> Node {
        let mut line = line.clone();
        line.for_each_operand_mut(|operand| {
            if let Operand::Value(value) = operand {
                *operand = self.values.get(value).copied().unwrap_or(*operand);
            }
        });
        line.for_each_buffer_mut(|buffer| *buffer = self.buffer(*buffer));
        if let Some(local) = line.local_mut() {
            *local = self.local(*local);
        }
        if let Some(result) = line.result_mut() {
            let original = *result;
            *result = self.body.new_value(&self.original.body.values[original.index()]);
            self.values.insert(original, Operand::Value(*result));
        }
        for block in line.blocks_mut() {
            *block = block.iter().map(|inner| self.translate(inner)).collect();
        }
        line
    }

    fn buffer(&mut self, original: BufferId) -> BufferId {
        if let Some(id) = self.buffer_ids.get(&original) {
            return *id;
        }
        let id = BufferId(self.buffers.len() as u32);
        let mut buffer = self.original.buffer(original).clone();
        if let BufferKind::ReadWrite { output, .. } = &mut buffer.kind {
            // What a segment writes must reach the next one.
            *output = true;
        }
        self.buffers.push(buffer);
        self.buffer_ids.insert(original, id);
        id
    }

    fn local(&mut self, original: Local) -> Local {
        if let Some(local) = self.locals.get(&original) {
            return *local;
        }
        let local = self.body.new_local(&self.original.body.locals[original.index()]);
        self.locals.insert(original, local);
        local
    }

    /// Takes a value from the state.
    pub(super) fn load_value(&mut self, value: Value, slot: Slot) {
        let loaded = self.load_slot(slot, None);
        self.values.insert(value, loaded);
    }

    /// Leaves a value in the state.
    pub(super) fn store_value(&mut self, value: Value, slot: Slot) {
        let operand = self.values.get(&value).copied().unwrap_or(Operand::Value(value));
        self.store_slot(slot, None, operand);
    }

    /// Declares a local with what the state holds of it.
    pub(super) fn load_local(&mut self, kept: &KeptLocal) {
        let local = self.local(kept.local);
        let ty = kept.slot.ty;
        let Some(len) = kept.len else {
            let init = self.load_slot(kept.slot, None);
            self.body.block.push(Node::Var { local, ty, len: None, init });
            return;
        };
        let init = Operand::Literal(Literal::from_bits(ty, 0));
        self.body.block.push(Node::Var { local, ty, len: Some(len), init });
        self.for_each(Operand::Literal(Literal::u32(0)), len, 1, |emit, element| {
            let value = emit.load_slot(kept.slot, Some(element));
            emit.body.block.push(Node::Set { ty, local, index: Some(element), value });
        });
    }

    /// Leaves a local in the state.
    pub(super) fn store_local(&mut self, kept: &KeptLocal) {
        let local = self.local(kept.local);
        let ty = kept.slot.ty;
        let get = |emit: &mut Emitter<'a>, index| {
            let result = emit.body.new_value("kept");
            emit.body.block.push(Node::Get { result, ty, local, index });
            Operand::Value(result)
        };
        let Some(len) = kept.len else {
            let value = get(self, None);
            self.store_slot(kept.slot, None, value);
            return;
        };
        self.for_each(Operand::Literal(Literal::u32(0)), len, 1, |emit, element| {
            let value = get(emit, Some(element));
            emit.store_slot(kept.slot, Some(element), value);
        });
    }

    /// Fills workgroup memory from the state.
    pub(super) fn load_workgroup(&mut self, kept: &[KeptBuffer]) {
        for shared in kept {
            self.for_each_shared(shared, |emit, buffer, element| {
                let address = emit.group_memory_address(shared, element);
                let value = emit.load_words(emit.state, shared.ty.computes_as(), address, literal(1));
                emit.body.block.push(Node::Store { ty: shared.ty, buffer, index: element, value });
            });
        }
        if !kept.is_empty() {
            self.body.block.push(Node::Barrier { ordering: MemoryOrdering::Workgroup });
        }
    }

    /// Leaves workgroup memory in the state.
    pub(super) fn store_workgroup(&mut self, kept: &[KeptBuffer]) {
        if !kept.is_empty() {
            self.body.block.push(Node::Barrier { ordering: MemoryOrdering::Workgroup });
        }
        for shared in kept {
            self.for_each_shared(shared, |emit, buffer, element| {
                let result = emit.body.new_value("kept");
                emit.body.block.push(Node::Load { result, ty: shared.ty, buffer, index: element });
                let address = emit.group_memory_address(shared, element);
                emit.store_words(shared.ty.computes_as(), address, literal(1), Operand::Value(result));
            });
        }
    }

    /// A collective within one rank: copies elements as values.
    pub(super) fn copy(&mut self, dst: BufferId, src: BufferId, ty: DataType) {
        let (dst, src) = (self.buffer(dst), self.buffer(src));
        let lane = self.position().lane;
        let lanes = self.position().lanes;
        let to = self.len(dst);
        let from = self.len(src);
        let count = self.compute(ComputeOp::Min, DataType::U32, &[to, from]);
        // A loop's step is a literal, so the stride is explicit: trip t copies element t * lanes + lane.
        let above = self.compute(ComputeOp::Sub, DataType::U32, &[count, literal(1)]);
        let full = self.compute(ComputeOp::Div, DataType::U32, &[above, lanes]);
        let trips = self.compute(ComputeOp::Add, DataType::U32, &[full, literal(1)]);
        let none = self.compute(ComputeOp::Eq, DataType::U32, &[count, literal(0)]);
        let trips = self.compute(ComputeOp::Select, DataType::U32, &[none, literal(0), trips]);
        self.for_range(literal(0), trips, 1, |emit, trip| {
            let base = emit.compute(ComputeOp::Mul, DataType::U32, &[trip, lanes]);
            let element = emit.compute(ComputeOp::Add, DataType::U32, &[base, lane]);
            let inside = emit.compute(ComputeOp::Lt, DataType::U32, &[element, count]);
            // The last trip may step over 2^32 and come round.
            let ahead = emit.compute(ComputeOp::Ge, DataType::U32, &[element, base]);
            let inside = emit.compute(ComputeOp::And, DataType::Bool, &[inside, ahead]);
            emit.when(inside, |emit| {
                let result = emit.body.new_value("moved");
                emit.body.block.push(Node::Load { result, ty, buffer: src, index: element });
                let value = Operand::Value(result);
                emit.body.block.push(Node::Store { ty, buffer: dst, index: element, value });
            });
        });
    }

    pub(super) fn finish(self, name: &str) -> Result<Program, ProgramError> {
        Program::new(ProgramParts {
            name: name.into(),
            workgroup: self.original.workgroup,
            subgroup: self.original.subgroup,
            buffers: self.buffers,
            functions: Vec::new(),
            body: self.body,
        })
    }

    // State access

    fn load_slot(&mut self, slot: Slot, element: Option<Operand>) -> Operand {
        let (address, stride) = self.slot_address(slot, element);
        let buffer = match slot.level {
            Level::Grid | Level::Workgroup => self.uniform,
            Level::Varying => self.state,
        };
        self.load_words(buffer, slot.ty, address, stride)
    }

    /// Writes a slot: one lane for what is the same for all, every lane for what is its own.
    fn store_slot(&mut self, slot: Slot, element: Option<Operand>, value: Operand) {
        let who = match slot.level {
            Level::Grid => Some(self.builtin(BuiltinOp::GlobalIndex, None)),
            Level::Workgroup => Some(self.builtin(BuiltinOp::LocalIndex, None)),
            Level::Varying => None,
        };
        let store = |emit: &mut Emitter<'a>| {
            let (address, stride) = emit.slot_address(slot, element);
            emit.store_words(slot.ty, address, stride, value);
        };
        match who {
            None => store(self),
            Some(who) => {
                let first = self.compute(ComputeOp::Eq, DataType::U32, &[who, literal(0)]);
                self.when(first, store);
            }
        }
    }

    /// The first word of a slot, and how far its next word is.
    fn slot_address(&mut self, slot: Slot, element: Option<Operand>) -> (Operand, Operand) {
        let word = match element {
            None => literal(slot.word),
            Some(element) => {
                let words = literal(words_of(slot.ty));
                let scaled = self.compute(ComputeOp::Mul, DataType::U32, &[element, words]);
                self.compute(ComputeOp::Add, DataType::U32, &[scaled, literal(slot.word)])
            }
        };
        match slot.level {
            Level::Grid => (word, literal(1)),
            Level::Workgroup => {
                let group = self.position().group;
                let base =
                    self.compute(ComputeOp::Mul, DataType::U32, &[group, literal(self.layout.group_words)]);
                let base =
                    self.compute(ComputeOp::Add, DataType::U32, &[base, literal(self.layout.grid_words)]);
                (self.compute(ComputeOp::Add, DataType::U32, &[base, word]), literal(1))
            }
            Level::Varying => {
                let Position { lane, lanes, lane_words, .. } = self.position();
                let row = self.compute(ComputeOp::Mul, DataType::U32, &[word, lanes]);
                let row = self.compute(ComputeOp::Add, DataType::U32, &[row, lane_words]);
                (self.compute(ComputeOp::Add, DataType::U32, &[row, lane]), lanes)
            }
        }
    }

    fn group_memory_address(&mut self, shared: &KeptBuffer, element: Operand) -> Operand {
        let Position { group, group_memory, .. } = self.position();
        let base =
            self.compute(ComputeOp::Mul, DataType::U32, &[group, literal(self.layout.group_memory_words)]);
        let base = self.compute(ComputeOp::Add, DataType::U32, &[base, group_memory]);
        let words = literal(words_of(shared.ty));
        let offset = self.compute(ComputeOp::Mul, DataType::U32, &[element, words]);
        let offset = self.compute(ComputeOp::Add, DataType::U32, &[offset, literal(shared.word)]);
        self.compute(ComputeOp::Add, DataType::U32, &[base, offset])
    }

    fn load_words(&mut self, buffer: BufferId, ty: DataType, address: Operand, stride: Operand) -> Operand {
        let low = self.load_word(buffer, address);
        match ty {
            DataType::U32 => low,
            DataType::Bool => self.compute(ComputeOp::Ne, DataType::U32, &[low, literal(0)]),
            DataType::I32 | DataType::F32 | DataType::F16 | DataType::BF16 => {
                self.compute(ComputeOp::Bitcast, ty, &[low])
            }
            DataType::U64 | DataType::I64 | DataType::F64 => {
                let next = self.compute(ComputeOp::Add, DataType::U32, &[address, stride]);
                let high = self.load_word(buffer, next);
                let low = self.compute(ComputeOp::Cast, DataType::U64, &[low]);
                let high = self.compute(ComputeOp::Cast, DataType::U64, &[high]);
                let high = self.compute(ComputeOp::Shl, DataType::U64, &[high, literal(32)]);
                let wide = self.compute(ComputeOp::Or, DataType::U64, &[low, high]);
                if ty == DataType::U64 { wide } else { self.compute(ComputeOp::Bitcast, ty, &[wide]) }
            }
            DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 => {
                unreachable!("storage types have no values")
            }
        }
    }

    fn store_words(&mut self, ty: DataType, address: Operand, stride: Operand, value: Operand) {
        let low = match ty {
            DataType::U32 => value,
            DataType::Bool => self.compute(ComputeOp::Cast, DataType::U32, &[value]),
            DataType::I32 | DataType::F32 | DataType::F16 | DataType::BF16 => {
                self.compute(ComputeOp::Bitcast, DataType::U32, &[value])
            }
            DataType::U64 | DataType::I64 | DataType::F64 => {
                let wide = match ty {
                    DataType::U64 => value,
                    _ => self.compute(ComputeOp::Bitcast, DataType::U64, &[value]),
                };
                let high = self.compute(ComputeOp::Shr, DataType::U64, &[wide, literal(32)]);
                let high = self.compute(ComputeOp::Cast, DataType::U32, &[high]);
                let next = self.compute(ComputeOp::Add, DataType::U32, &[address, stride]);
                self.store_word(next, high);
                self.compute(ComputeOp::Cast, DataType::U32, &[wide])
            }
            DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 => {
                unreachable!("storage types have no values")
            }
        };
        self.store_word(address, low);
    }

    fn load_word(&mut self, buffer: BufferId, index: Operand) -> Operand {
        let result = self.body.new_value("word");
        self.body.block.push(Node::Load { result, ty: DataType::U32, buffer, index });
        Operand::Value(result)
    }

    fn store_word(&mut self, index: Operand, value: Operand) {
        self.body.block.push(Node::Store { ty: DataType::U32, buffer: self.state, index, value });
    }

    /// Where the lane is. The lines are at the segment's head, where every block can use them.
    fn position(&mut self) -> Position {
        if let Some(at) = self.at {
            return at;
        }
        let outer = std::mem::take(&mut self.body.block);
        let lane = self.builtin(BuiltinOp::GlobalIndex, None);
        let group = self.builtin(BuiltinOp::WorkgroupIndex, None);
        let groups = Axis::ALL.map(|axis| self.builtin(BuiltinOp::NumWorkgroups, Some(axis)));
        let groups_xy = self.compute(ComputeOp::Mul, DataType::U32, &groups[..2]);
        let groups = self.compute(ComputeOp::Mul, DataType::U32, &[groups_xy, groups[2]]);
        let per_group = literal(self.original.workgroup_lanes() as u32);
        let lanes = self.compute(ComputeOp::Mul, DataType::U32, &[groups, per_group]);
        let mul_add = |emit: &mut Emitter<'a>, count, words: u32, base| {
            let scaled = emit.compute(ComputeOp::Mul, DataType::U32, &[count, literal(words)]);
            emit.compute(ComputeOp::Add, DataType::U32, &[scaled, base])
        };
        let lane_words = mul_add(self, groups, self.layout.group_words, literal(self.layout.grid_words));
        let group_memory = mul_add(self, lanes, self.layout.lane_words, lane_words);
        let at = Position { lane, lanes, group, lane_words, group_memory };
        self.at = Some(at);
        self.body.block.extend(outer);
        at
    }

    // Lines

    fn compute(&mut self, op: ComputeOp, ty: DataType, args: &[Operand]) -> Operand {
        let result = self.body.new_value("at");
        self.body.block.push(Node::Compute { result, op, ty, args: args.into() });
        Operand::Value(result)
    }

    fn builtin(&mut self, op: BuiltinOp, axis: Option<Axis>) -> Operand {
        let result = self.body.new_value(op.info().name);
        self.body.block.push(Node::Builtin { result, op, axis });
        Operand::Value(result)
    }

    fn len(&mut self, buffer: BufferId) -> Operand {
        let result = self.body.new_value("len");
        self.body.block.push(Node::Len { result, buffer });
        Operand::Value(result)
    }

    fn when(&mut self, cond: Operand, inner: impl FnOnce(&mut Emitter<'a>)) {
        let then = self.nested(inner);
        self.body.block.push(Node::If { cond, then, otherwise: Block::new() });
    }

    fn for_each(&mut self, lo: Operand, len: u32, step: u32, inner: impl FnOnce(&mut Emitter<'a>, Operand)) {
        self.for_range(lo, literal(len), step, inner);
    }

    fn for_range(
        &mut self,
        lo: Operand,
        hi: Operand,
        step: u32,
        inner: impl FnOnce(&mut Emitter<'a>, Operand),
    ) {
        let counter = self.body.new_value("e");
        let body = self.nested(|emit| inner(emit, Operand::Value(counter)));
        self.body.block.push(Node::For { counter, lo, hi, step, body });
    }

    /// Runs over a workgroup buffer with all lanes of the workgroup.
    fn for_each_shared(
        &mut self,
        shared: &KeptBuffer,
        inner: impl FnOnce(&mut Emitter<'a>, BufferId, Operand),
    ) {
        let buffer = self.buffer(shared.buffer);
        let lane = self.builtin(BuiltinOp::LocalIndex, None);
        let step = self.original.workgroup_lanes() as u32;
        self.for_each(lane, shared.len, step, |emit, element| inner(emit, buffer, element));
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Emitter<'a>)) -> Block {
        // The position must be computed outside the block, whichever block needs it first.
        self.position();
        let outer = std::mem::take(&mut self.body.block);
        inner(self);
        std::mem::replace(&mut self.body.block, outer)
    }
}

const fn literal(value: u32) -> Operand {
    Operand::Literal(Literal::u32(value))
}
