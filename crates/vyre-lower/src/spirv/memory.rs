//! Loads, stores, atomics and private arrays, with the bounds that the language gives.
//!
//! A load out of bounds reads the first element and drops it: cheaper than a branch, and there is always a first cell.
//! But not from memory that the program writes. NVIDIA's compiler takes a load from a selected place for one that no
//! store reaches, and moves it over stores and atomics on the same element. There a load is behind a branch and has
//! the index of the stores. For the same reason words with atomics are loaded and stored by atomics alone.
//!
//! Elements smaller than a word are stored by flipping their bits in it, which leaves the neighbours to their lanes.

use super::body::{Emit, Place};
use super::float::word_of;
use super::integer::unsigned;
use super::module::{Cell, Space};
use super::words::{Arg, Id};
use crate::bindings::ELEMENTS_WORD;
use spirv::{MemoryAccess, Op, Scope, StorageClass};
use vyre_foundation::ir::{AtomicOp, BufferId, BufferKind, ComputeOp, DataType, Literal, Local, Operand};

impl Emit<'_, '_> {
    fn space(&self, buffer: BufferId) -> Space {
        self.module.spaces[buffer.index()]
    }

    pub(super) fn len(&mut self, buffer: BufferId) -> Id {
        match self.module.parts.buffer(buffer).len {
            Some(len) => self.word(len),
            None => {
                let binding = self.module.bindings.of(buffer).expect("only bound buffers have no length");
                self.launch_word(ELEMENTS_WORD + binding)
            }
        }
    }

    /// A pointer to a cell.
    fn cell(&mut self, buffer: BufferId, at: Id) -> Id {
        let space = self.space(buffer);
        let element = self.module.cell_type(space.cell);
        let ty = self.module.words.pointer(space.class, element);
        let at = match space.first {
            0 => at,
            first => {
                let first = self.word(first);
                self.word_op(Op::IAdd, &[at, first])
            }
        };
        match space.class {
            StorageClass::StorageBuffer => {
                let zero = self.word(0);
                self.op(Op::AccessChain, ty, &[space.variable, zero, at])
            }
            _ => self.op(Op::AccessChain, ty, &[space.variable, at]),
        }
    }

    fn load_cell(&mut self, buffer: BufferId, at: Id) -> Id {
        let pointer = self.cell(buffer, at);
        let space = self.space(buffer);
        if space.is_atomic {
            let [scope, order] = self.scope(buffer);
            return self.word_op(Op::AtomicLoad, &[pointer, scope, order]);
        }
        let ty = self.module.cell_type(space.cell);
        let volatile = self.volatile(space);
        self.op_with(Op::Load, ty, [pointer.into()].into_iter().chain(volatile))
    }

    /// What a load or store says of memory that the program writes, for compilers that need it.
    fn volatile(&self, space: Space) -> Option<Arg> {
        let access = MemoryAccess::VOLATILE;
        let is_volatile = self.module.options.is_volatile && space.is_written;
        is_volatile.then(|| Arg::Named(access.bits(), "Volatile".into()))
    }

    fn is_inside(&mut self, buffer: BufferId, index: Id) -> Id {
        let len = self.len(buffer);
        self.bool_op(Op::ULessThan, &[index, len])
    }

    pub(super) fn load(&mut self, ty: DataType, buffer: BufferId, index: Id, proven: bool) -> Id {
        let element = self.module.parts.buffer(buffer).ty;
        if ty == DataType::U32 && element == DataType::U8 {
            return self.load_bytes(buffer, index);
        }
        let value = ty.computes_as();
        if proven {
            return self.load_inside(ty, buffer, index);
        }
        let inside = self.is_inside(buffer, index);
        let zero = Operand::from(Literal::from_bits(value, 0));
        if self.space(buffer).is_written {
            let zero = self.operand(zero);
            return self.unless(value, inside, zero, |emit| emit.load_inside(ty, buffer, index));
        }
        let first = self.word(0);
        let index = self.word_op(Op::Select, &[inside, index, first]);
        let loaded = self.load_inside(ty, buffer, index);
        let zero = self.operand(zero);
        self.select(value, inside, loaded, zero)
    }

    /// An element that exists.
    fn load_inside(&mut self, ty: DataType, buffer: BufferId, index: Id) -> Id {
        let bits = self.load_bits(ty, buffer, index);
        let is_known = self.space(buffer).class == StorageClass::Private;
        let bits = if is_known && ty.is_float() { self.hide_bits(ty, bits) } else { bits };
        self.float_of(ty, bits)
    }

    fn load_bits(&mut self, ty: DataType, buffer: BufferId, index: Id) -> Id {
        let cell = self.space(buffer).cell;
        match (cell, ty.bits()) {
            (Cell::Half, _) => {
                let half = self.load_cell(buffer, index);
                if ty.is_signed() {
                    return self.word_op(Op::SConvert, &[half]);
                }
                // NVIDIA's compiler counts the bits of a number of 16 as one that was extended by its sign. A mask that it
                // does not know keeps it from working on 16.
                let wide = self.word_op(Op::UConvert, &[half]);
                let mask = self.word(0xffff);
                let mask = self.hide_bits(DataType::U32, mask);
                self.word_op(Op::BitwiseAnd, &[wide, mask])
            }
            (Cell::Pair, _) => {
                let pair = self.load_cell(buffer, index);
                self.of_pair(DataType::U64, pair)
            }
            (Cell::Wide, _) => {
                let wide = self.load_cell(buffer, index);
                if self.is_pair(DataType::U64) { self.wide_to_pair(wide) } else { wide }
            }
            (Cell::Word, 64) => {
                let cells = self.word_places(index);
                let halves = cells.map(|at| self.load_cell(buffer, at));
                self.join(DataType::U64, halves)
            }
            (Cell::Word, 32) => self.load_cell(buffer, index),
            (Cell::Word, bits) => {
                let [at, place] = self.small_place(bits, index);
                let word = self.load_cell(buffer, at);
                let count = self.word(bits);
                let op = if ty.is_signed() { Op::BitFieldSExtract } else { Op::BitFieldUExtract };
                self.word_op(op, &[word, place, count])
            }
        }
    }

    /// A native 64-bit integer as a pair, where those that compute are pairs.
    fn wide_to_pair(&mut self, wide: Id) -> Id {
        let pair = self.module.cell_type(Cell::Pair);
        self.op(Op::Bitcast, pair, &[wide])
    }

    /// The two words of a 64-bit element.
    fn word_places(&mut self, index: Id) -> [Id; 2] {
        let one = self.word(1);
        let low = self.word_op(Op::ShiftLeftLogical, &[index, one]);
        [low, self.word_op(Op::BitwiseOr, &[low, one])]
    }

    /// The word of a small element, and its first bit there.
    fn small_place(&mut self, bits: u32, index: Id) -> [Id; 2] {
        let (shift, mask, size) = (
            self.word(5 - bits.trailing_zeros()),
            self.word(32 / bits - 1),
            self.word(bits.trailing_zeros()),
        );
        let at = self.word_op(Op::ShiftRightLogical, &[index, shift]);
        let place = self.word_op(Op::BitwiseAnd, &[index, mask]);
        [at, self.word_op(Op::ShiftLeftLogical, &[place, size])]
    }

    /// Little-endian bytes i to i + 3; those out of bounds are 0.
    fn load_bytes(&mut self, buffer: BufferId, index: Id) -> Id {
        let (inside, zero) = (self.is_inside(buffer, index), self.word(0));
        if self.space(buffer).is_written {
            return self.unless(DataType::U32, inside, zero, |emit| emit.load_bytes_from(buffer, index));
        }
        let index = self.word_op(Op::Select, &[inside, index, zero]);
        let word = self.load_bytes_from(buffer, index);
        self.word_op(Op::Select, &[inside, word, zero])
    }

    /// The same from the two words that hold them, where the first exists or the buffer is empty.
    fn load_bytes_from(&mut self, buffer: BufferId, index: Id) -> Id {
        let len = self.len(buffer);
        let (zero, one, four, width) = (self.word(0), self.word(1), self.word(4), self.word(32));
        let [at, place] = self.small_place(8, index);
        let low = self.load_cell(buffer, at);
        // There may be no next word; then its bytes are out of bounds.
        let last = self.word_op(Op::ISub, &[len, one]);
        let [last, _] = self.small_place(8, last);
        let next = self.word_op(Op::IAdd, &[at, one]);
        let next = self.integer(ComputeOp::Min, DataType::U32, &[next, last]);
        let is_empty = self.bool_op(Op::IEqual, &[len, zero]);
        let next = self.word_op(Op::Select, &[is_empty, zero, next]);
        let high = self.load_cell(buffer, next);
        let below = self.word_op(Op::ShiftRightLogical, &[low, place]);
        let rest = self.word_op(Op::ISub, &[width, place]);
        let above = self.integer(ComputeOp::Shl, DataType::U32, &[high, rest]);
        let both = self.word_op(Op::BitwiseOr, &[below, above]);
        let aligned = self.bool_op(Op::IEqual, &[place, zero]);
        let word = self.word_op(Op::Select, &[aligned, low, both]);
        // The bytes that exist.
        let left = self.word_op(Op::ISub, &[len, index]);
        let left = self.integer(ComputeOp::Min, DataType::U32, &[left, four]);
        let eight = self.word(8);
        let bits = self.word_op(Op::IMul, &[left, eight]);
        self.word_op(Op::BitFieldUExtract, &[word, zero, bits])
    }

    /// A value as a store puts it: its bits, in storage buffers with canonical NaNs.
    pub(super) fn observed(&mut self, value: Operand, ty: DataType, buffer: BufferId) -> Id {
        if let (true, Operand::Literal(literal)) = (ty.is_float(), value) {
            let canonical = (literal.bits() & (ty.mask() >> 1) > super::float::infinity(ty))
                .then(|| ty.canonical_nan().unwrap_or_default());
            return self.bits(word_of(ty), canonical.unwrap_or(literal.bits()));
        }
        let value = self.operand(value);
        // The bits in workgroup memory are observed by its own lanes alone, as those in registers.
        match self.module.parts.buffer(buffer).kind {
            BufferKind::Workgroup => self.bits_of(ty, value),
            _ => self.observe(ty, value),
        }
    }

    /// Stores bits.
    pub(super) fn store(&mut self, ty: DataType, buffer: BufferId, index: Id, bits: Id, proven: bool) {
        if proven {
            return self.store_inside(ty, buffer, index, bits);
        }
        let inside = self.is_inside(buffer, index);
        self.when(inside, |emit| emit.store_inside(ty, buffer, index, bits));
    }

    fn store_inside(&mut self, ty: DataType, buffer: BufferId, index: Id, bits: Id) {
        let cell = self.space(buffer).cell;
        match (cell, ty.bits()) {
            (Cell::Half, _) => {
                let half = self.module.cell_type(Cell::Half);
                let half = self.op(Op::UConvert, half, &[bits]);
                self.store_cell(buffer, index, half);
            }
            (Cell::Pair, _) => {
                let pair = self.as_pair(bits);
                self.store_cell(buffer, index, pair);
            }
            (Cell::Wide, _) => {
                let wide = self.module.cell_type(Cell::Wide);
                let wide =
                    if self.is_pair(DataType::U64) { self.op(Op::Bitcast, wide, &[bits]) } else { bits };
                self.store_cell(buffer, index, wide);
            }
            (Cell::Word, 64) => {
                let (cells, halves) = (self.word_places(index), self.halves(bits));
                cells.into_iter().zip(halves).for_each(|(at, half)| self.store_cell(buffer, at, half));
            }
            (Cell::Word, 32) => self.store_cell(buffer, index, bits),
            (Cell::Word, small) => {
                let [at, place] = self.small_place(small, index);
                let pointer = self.cell(buffer, at);
                let [scope, order] = self.scope(buffer);
                let old = self.word_op(Op::AtomicLoad, &[pointer, scope, order]);
                let count = self.word(small);
                let new = self.word_op(Op::BitFieldInsert, &[old, bits, place, count]);
                let flip = self.word_op(Op::BitwiseXor, &[old, new]);
                self.word_op(Op::AtomicXor, &[pointer, scope, order, flip]);
            }
        }
    }

    fn store_cell(&mut self, buffer: BufferId, at: Id, cell: Id) {
        let pointer = self.cell(buffer, at);
        let space = self.space(buffer);
        if space.is_atomic {
            let [scope, order] = self.scope(buffer);
            return self.effect(Op::AtomicStore, &[pointer, scope, order, cell]);
        }
        let args = [pointer, cell].map(Arg::Id).into_iter().chain(self.volatile(space));
        self.effect_with(Op::Store, args);
    }

    /// The scope of atomics, which order nothing.
    fn scope(&mut self, buffer: BufferId) -> [Id; 2] {
        let scope = match self.space(buffer).class {
            StorageClass::Workgroup => Scope::Workgroup,
            _ => Scope::Device,
        };
        [self.word(scope as u32), self.word(0)]
    }

    /// Gives the old value, where it is wanted; 0 out of bounds.
    pub(super) fn atomic(
        &mut self,
        op: AtomicOp,
        ty: DataType,
        buffer: BufferId,
        index: Operand,
        args: &[Operand],
        (wanted, proven): (bool, bool),
    ) -> Id {
        let index = self.operand(index);
        let args: Vec<Id> = args.iter().map(|arg| self.operand(*arg)).collect();
        if proven {
            return self.atomic_inside(op, ty, buffer, index, &args, wanted);
        }
        let id = self.ty(ty);
        let old = wanted.then(|| {
            let (variable, zero) = (self.variable(id), self.bits(ty, 0));
            self.effect(Op::Store, &[variable, zero]);
            variable
        });
        let inside = self.is_inside(buffer, index);
        self.when(inside, |emit| {
            let value = emit.atomic_inside(op, ty, buffer, index, &args, wanted);
            if let Some(variable) = old {
                emit.effect(Op::Store, &[variable, value]);
            }
        });
        old.map_or(0, |variable| self.op(Op::Load, id, &[variable]))
    }

    fn atomic_inside(
        &mut self,
        op: AtomicOp,
        ty: DataType,
        buffer: BufferId,
        index: Id,
        args: &[Id],
        wanted: bool,
    ) -> Id {
        match (self.space(buffer).cell, ty.bits()) {
            (Cell::Word, 64) if !wanted && split(op) => {
                self.atomic_halves(op, buffer, index, args[0]);
                0
            }
            (Cell::Word, 64) => self.exchange_plainly(op, ty, buffer, index, args),
            (cell, _) => {
                let wide = cell == Cell::Wide;
                let own = self.ty(ty);
                let id = self.module.cell_type(cell);
                let converts = wide && own != id;
                let args: Vec<Id> = args
                    .iter()
                    .map(|x| if converts { self.op(Op::Bitcast, id, &[*x]) } else { *x })
                    .collect();
                let pointer = self.cell(buffer, index);
                let old = self.atomic_cell(op, ty, buffer, pointer, id, &args);
                if converts { self.wide_to_pair(old) } else { old }
            }
        }
    }

    fn atomic_cell(
        &mut self,
        op: AtomicOp,
        ty: DataType,
        buffer: BufferId,
        pointer: Id,
        id: Id,
        args: &[Id],
    ) -> Id {
        let [scope, order] = self.scope(buffer);
        let name = match (op, ty.is_signed()) {
            (AtomicOp::Add, _) => Op::AtomicIAdd,
            (AtomicOp::Sub, _) => Op::AtomicISub,
            (AtomicOp::Min, true) => Op::AtomicSMin,
            (AtomicOp::Min, false) => Op::AtomicUMin,
            (AtomicOp::Max, true) => Op::AtomicSMax,
            (AtomicOp::Max, false) => Op::AtomicUMax,
            (AtomicOp::And, _) => Op::AtomicAnd,
            (AtomicOp::Or, _) => Op::AtomicOr,
            (AtomicOp::Xor, _) => Op::AtomicXor,
            (AtomicOp::Exchange, _) => Op::AtomicExchange,
            (AtomicOp::CompareExchange, _) => {
                let args = [pointer, scope, order, order, args[1], args[0]];
                return self.op(Op::AtomicCompareExchange, id, &args);
            }
        };
        self.op(name, id, &[pointer, scope, order, args[0]])
    }

    /// A 64-bit fold without a result, as two of words. A carry goes up in an atomic of its own: the sum
    /// is right when all have added.
    fn atomic_halves(&mut self, op: AtomicOp, buffer: BufferId, index: Id, value: Id) {
        let value = match op {
            AtomicOp::Sub => self.integer(ComputeOp::Neg, DataType::I64, &[value]),
            _ => value,
        };
        let (cells, [low, mut high]) = (self.word_places(index), self.halves(value));
        let [scope, order] = self.scope(buffer);
        let name = match op {
            AtomicOp::Add | AtomicOp::Sub => Op::AtomicIAdd,
            AtomicOp::And => Op::AtomicAnd,
            AtomicOp::Or => Op::AtomicOr,
            _ => Op::AtomicXor,
        };
        let pointer = self.cell(buffer, cells[0]);
        let before = self.word_op(name, &[pointer, scope, order, low]);
        if name == Op::AtomicIAdd {
            let sum = self.word_op(Op::IAdd, &[before, low]);
            let carries = self.bool_op(Op::ULessThan, &[sum, before]);
            let (zero, one) = (self.word(0), self.word(1));
            let carry = self.word_op(Op::Select, &[carries, one, zero]);
            high = self.word_op(Op::IAdd, &[high, carry]);
        }
        let pointer = self.cell(buffer, cells[1]);
        self.word_op(name, &[pointer, scope, order, high]);
    }

    /// A 64-bit read-modify-write that no other lane may run into.
    fn exchange_plainly(
        &mut self,
        op: AtomicOp,
        ty: DataType,
        buffer: BufferId,
        index: Id,
        args: &[Id],
    ) -> Id {
        let old = self.load_bits(ty, buffer, index);
        let new = match op.op() {
            Some(fold) => self.integer(fold, ty, &[old, args[0]]),
            None if op == AtomicOp::Exchange => args[0],
            None => {
                let same = self.integer(ComputeOp::Eq, unsigned(ty), &[old, args[0]]);
                self.select(ty, same, args[1], old)
            }
        };
        self.store_inside(ty, buffer, index, new);
        old
    }

    pub(super) fn array_pointer(&mut self, variable: Id, ty: DataType, index: Id) -> Id {
        let ty = self.ty(ty);
        let pointer = self.module.words.pointer(StorageClass::Function, ty);
        self.op(Op::AccessChain, pointer, &[variable, index])
    }

    fn place(&self, local: Local) -> Place {
        self.locals[local.index()].expect("validated: declared above")
    }

    pub(super) fn get(&mut self, local: Local, index: Option<Operand>, proven: bool) -> Id {
        let Place { variable, ty, len } = self.place(local);
        let id = self.ty(ty);
        let (Some(index), Some(len)) = (index, len) else { return self.op(Op::Load, id, &[variable]) };
        let index = self.operand(index);
        if proven {
            let pointer = self.array_pointer(variable, ty, index);
            return self.op(Op::Load, id, &[pointer]);
        }
        let len = self.word(len);
        let inside = self.bool_op(Op::ULessThan, &[index, len]);
        let zero = self.operand(Literal::from_bits(ty, 0).into());
        self.unless(ty, inside, zero, |emit| {
            let pointer = emit.array_pointer(variable, ty, index);
            emit.op(Op::Load, id, &[pointer])
        })
    }

    pub(super) fn set(&mut self, local: Local, index: Option<Operand>, value: Operand, proven: bool) {
        let Place { variable, ty, len } = self.place(local);
        let value = self.operand(value);
        let (Some(index), Some(len)) = (index, len) else {
            return self.effect(Op::Store, &[variable, value]);
        };
        let index = self.operand(index);
        let put = |emit: &mut Self| {
            let pointer = emit.array_pointer(variable, ty, index);
            emit.effect(Op::Store, &[pointer, value]);
        };
        if proven {
            return put(self);
        }
        let len = self.word(len);
        let inside = self.bool_op(Op::ULessThan, &[index, len]);
        self.when(inside, put);
    }
}

/// Whether a fold of 64 bits is one of each word, but for a carry.
const fn split(op: AtomicOp) -> bool {
    matches!(op, AtomicOp::Add | AtomicOp::Sub | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor)
}
