//! Loads, stores and private arrays.
//!
//! An index that grows by one from lane to lane is one check for all lanes in flight and plain vector accesses behind it; if
//! the check fails, lanes look for themselves. A uniform index is one scalar access. Any other index gathers or scatters
//! under a mask. Out of bounds a load gives 0 and a store does nothing.

use super::{Bases, Lanes, Linear, Lower, Val, context, varying_kind};
use crate::vector::code::{
    Address, BitOp, BlockId, Elem, Float, FloatCond, Indexed, IntCond, IntOp, Kind, MaskOp, Num, Op, Reg,
    ShiftOp,
};
use smallvec::SmallVec;
use vyre_foundation::ir::{BufferId, DataType, Local, Operand};

/// Where a buffer is.
#[derive(Clone, Copy)]
pub(super) struct BufferRegs {
    /// Its address, an `S64`.
    pub(super) base: Reg,
    /// Its elements, an `S32`.
    pub(super) len: Reg,
    /// An index below this leaves room for all lanes in flight, an `S32`.
    pub(super) whole: Reg,
    /// An index below this leaves room for the lanes of one vector, an `S32`.
    pub(super) whole_vector: Reg,
    /// Whether it is worth storing past the caches, an `S32`, where that may be.
    pub(super) stream: Option<Reg>,
    /// For workgroup memory: how far behind the start of scratch memory.
    pub(super) offset: Option<u64>,
}

/// Private arrays of more elements are filled by a loop.
const UNROLLED_FILL_MAX: u32 = 8;

pub(super) fn elem(ty: DataType) -> Elem {
    match ty {
        DataType::U8 => Elem::U8,
        DataType::I8 => Elem::I8,
        DataType::U16 | DataType::F16 | DataType::BF16 => Elem::U16,
        DataType::I16 => Elem::I16,
        DataType::U32 | DataType::I32 | DataType::F32 | DataType::Bool => Elem::B32,
        DataType::U64 | DataType::I64 | DataType::F64 => Elem::B64,
    }
}

impl Lower<'_> {
    /// An element of memory as a register holds it.
    fn after_load(&mut self, ty: DataType, raw: Reg) -> Reg {
        match ty {
            DataType::F16 => self.b.emit(Op::HalfToFloat(raw)),
            DataType::BF16 => self.b.shift_const(ShiftOp::Shl, raw, 16),
            _ => raw,
        }
    }

    /// A vector as memory holds it; storage buffers show a NaN as the canonical one.
    fn before_store(&mut self, ty: DataType, storage: bool, reg: Reg) -> Reg {
        match ty {
            DataType::F16 => {
                let half = self.b.emit(Op::FloatToHalf(reg));
                if !storage {
                    return half;
                }
                let nan = self.b.emit(Op::FloatCmp(FloatCond::Unordered, Float::F32, reg, reg));
                let quiet = self.const_like(reg, 0x7e00);
                self.choose(nan, quiet, half)
            }
            DataType::BF16 => {
                // Also in workgroup memory: a NaN's upper half alone could be an infinity.
                let seen = self.observe(Float::F32, reg);
                self.b.shift_const(ShiftOp::ShrU, seen, 16)
            }
            DataType::F32 if storage => self.observe(Float::F32, reg),
            DataType::F64 if storage => self.observe(Float::F64, reg),
            _ => reg,
        }
    }

    /// Whether indices into a buffer stay below 2^31.
    fn is_small(&self, buffer: BufferId) -> bool {
        self.plan.parts.buffer(buffer).len.is_some_and(|len| len < 1 << 31)
    }

    /// Whether a line reads words of a buffer of bytes.
    fn reads_words(&self, ty: DataType, buffer: BufferId) -> bool {
        ty == DataType::U32 && self.plan.parts.buffer(buffer).ty == DataType::U8
    }

    /// Whether a line's element is known to be there. The proof holds for lanes that run, so it is good for a scalar
    /// access only where no mask can be empty.
    pub(super) fn is_proven(&self, site: u32) -> bool {
        self.plan.facts.in_bounds(None, site) || self.is_assumed(site)
    }

    /// Whether the code at hand only runs where the line's elements are there, for lanes that run and others.
    fn is_assumed(&self, site: u32) -> bool {
        self.assumed.iter().any(|assumed| assumed.site == site)
    }

    // Uniform accesses.

    /// A load at a uniform index whose result is uniform.
    pub(super) fn load_uniform(&mut self, ty: DataType, buffer: BufferId, index: Operand) -> Reg {
        let index = self.scalar(index);
        self.load_some(ty, buffer, &[index], ty.is_float())[0]
    }

    /// The elements at uniform indices as uniform registers, or as vectors of equal lanes.
    fn load_some(&mut self, ty: DataType, buffer: BufferId, indices: &[Reg], spread: bool) -> Lanes {
        if self.reads_words(ty, buffer) {
            let words: Lanes = indices.iter().map(|index| self.load_word(buffer, *index)).collect();
            return if spread {
                words.iter().map(|word| self.b.emit(Op::Splat(*word))).collect()
            } else {
                words
            };
        }
        let raw = self.load_elements(buffer, elem(ty), indices, spread);
        raw.into_iter().map(|raw| self.after_load(ty, raw)).collect()
    }

    /// Elements at uniform indices, each or 0: scalars, or vectors of equal lanes.
    fn load_elements(&mut self, buffer: BufferId, elem: Elem, indices: &[Reg], spread: bool) -> Lanes {
        let regs = self.buffer(buffer);
        let load = |from| if spread { Op::LoadSplat(elem, from) } else { Op::LoadS(elem, from) };
        let direct = |this: &mut Self| -> Lanes {
            let wide: Lanes =
                indices.iter().map(|index| this.b.convert(Num::U32, Num::U64, *index)).collect();
            let size = elem.bytes() as u8;
            let from = |index: &Reg| Address { base: regs.base, index: Some((*index, size)), disp: 0 };
            this.load_each(wide.iter().map(|index| load(from(index))))
        };
        if let Some(addresses) = self.assumed_addresses(self.site, elem) {
            return self.load_each(addresses[..indices.len()].iter().map(|from| load(*from)));
        }
        // A proof holds for lanes that run, so it is good only where some do.
        let proven = self.is_proven(self.site) && self.exec.masks.is_none() && !self.speculative;
        if proven || self.is_assumed(self.site) {
            return direct(self);
        }
        let there: Lanes = indices.iter().map(|index| self.b.cmp(IntCond::LtU, *index, regs.len)).collect();
        if there.iter().all(|there| self.b.constant(*there).is_some_and(|there| there != 0)) {
            return direct(self);
        }
        let checked = |this: &mut Self| -> Lanes {
            indices
                .iter()
                .zip(&there)
                .map(|(at, there)| {
                    let base = this.place_or_zero(regs, elem, *at, *there);
                    this.b.emit(load(Address { base, index: None, disp: 0 }))
                })
                .collect()
        };
        if self.speculative {
            return checked(self);
        }
        let kind = if spread { elem.vector() } else { elem.scalar() };
        self.two_ways(&there, kind, direct, checked)
    }

    /// The address of the element at a uniform index if it is `there`, or of a zero, without a branch.
    fn place_or_zero(&mut self, regs: BufferRegs, elem: Elem, index: Reg, there: Reg) -> Reg {
        let wide = self.b.convert(Num::U32, Num::U64, index);
        let shift = elem.bytes().trailing_zeros();
        let bytes = self.b.shift_const(ShiftOp::Shl, wide, shift);
        let inside = self.b.int(IntOp::Add, regs.base, bytes);
        let zero = self.b.int_const(IntOp::Add, self.context, context::ZERO as u64);
        self.b.emit(Op::Select(there, inside, zero))
    }

    /// Four bytes from a uniform index on, those out of bounds 0.
    fn load_word(&mut self, buffer: BufferId, index: Reg) -> Reg {
        let mut word = self.b.const_(Kind::S32, 0);
        for byte in 0..4 {
            // An index that wraps is out of bounds, not at the start.
            let at = self.b.int_const(IntOp::Add, index, byte);
            let wrapped = self.b.cmp(IntCond::LtU, at, index);
            let beyond = self.b.const_(Kind::S32, u32::MAX.into());
            let at = self.b.emit(Op::Select(wrapped, beyond, at));
            let regs = self.buffer(buffer);
            let there = self.b.cmp(IntCond::LtU, at, regs.len);
            let base = self.place_or_zero(regs, Elem::U8, at, there);
            let found = self.b.emit(Op::LoadS(Elem::U8, Address { base, index: None, disp: 0 }));
            let placed = self.b.shift_const(ShiftOp::Shl, found, 8 * byte as u32);
            word = self.b.int(IntOp::Or, word, placed);
        }
        word
    }

    // Accesses by lanes.

    pub(super) fn load(&mut self, ty: DataType, buffer: BufferId, index: Operand, site: u32) -> Val {
        if let Some(index) = self.flat(index) {
            let reg = self.load_some(ty, buffer, &[index], true)[0];
            return Val::Varying(Lanes::from_elem(reg, self.vectors), None);
        }
        if let Some(indices) = self.steady(index) {
            return Val::Varying(self.load_some(ty, buffer, &indices, true), None);
        }
        let raw = if self.reads_words(ty, buffer) {
            self.load_words(buffer, index)
        } else {
            self.load_lanes(elem(ty), buffer, index, site)
        };
        Val::Varying(raw.into_iter().map(|reg| self.after_load(ty, reg)).collect(), None)
    }

    fn load_lanes(&mut self, elem: Elem, buffer: BufferId, index: Operand, site: u32) -> Lanes {
        let regs = self.buffer(buffer);
        let proven = self.is_proven(site);
        let line = self.line_of(index).filter(|line| line.stride == 1);
        let indices = self.vectors(index);
        let Some(line) = line else {
            return self.gather(elem, buffer, &indices, proven);
        };
        let row = |this: &mut Self| -> Lanes {
            let addresses = this.row(regs, elem, &line, site);
            this.load_each(addresses.into_iter().map(|from| Op::LoadV(elem, from, None)))
        };
        if proven && self.exec.masks.is_none() || self.is_assumed(site) {
            return row(self);
        }
        let fits = self.fits(regs, &line);
        self.two_ways(&fits, elem.vector(), row, |this| this.gather(elem, buffer, &indices, proven))
    }

    /// Loads, each once: vectors that are rows of their own may share columns, and those of one row what is its own.
    fn load_each(&mut self, loads: impl Iterator<Item = Op>) -> Lanes {
        let loads: Vec<Op> = loads.collect();
        let mut found = Lanes::new();
        for (at, load) in loads.iter().enumerate() {
            let again = loads[..at].iter().position(|earlier| earlier == load);
            let reg = again.map_or_else(|| self.b.emit(*load), |again| found[again]);
            found.push(reg);
        }
        found
    }

    /// Registers from one of two ways: if all conditions hold, which is what mostly happens, or not.
    fn two_ways(
        &mut self,
        conds: &[Reg],
        kind: Kind,
        then: impl FnOnce(&mut Self) -> Lanes,
        otherwise: impl FnOnce(&mut Self) -> Lanes,
    ) -> Lanes {
        match self.is_decided(conds) {
            Some(true) => return then(self),
            Some(false) => return otherwise(self),
            None => {}
        }
        let (yes, no, join) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let known = self.b.known();
        self.branch_every(conds, yes, no);
        self.b.begin_behind(yes, known);
        let regs = self.deciding(conds, true, then);
        self.b.jump(join, &regs);
        self.b.begin_behind(no, known);
        self.b.set_cold();
        let regs = self.deciding(conds, false, otherwise);
        self.b.jump(join, &regs);
        self.b.begin_behind(join, known);
        regs.iter().map(|_| self.b.param(kind)).collect()
    }

    /// Goes to `yes` if all conditions hold, or else to `no`, which is rare.
    pub(super) fn branch_every(&mut self, conds: &[Reg], yes: BlockId, no: BlockId) {
        let mut left: Lanes = SmallVec::new();
        for (at, cond) in conds.iter().enumerate() {
            // One must be left, or `no` could not be reached.
            let holds = self.b.constant(*cond) == Some(1) && at + 1 < conds.len();
            if !holds && !left.contains(cond) {
                left.push(*cond);
            }
        }
        let Some((last, others)) = left.split_last() else { return self.b.jump(yes, &[]) };
        if others.is_empty() {
            return self.b.branch(*last, yes, no);
        }
        let known = self.b.known();
        for (at, cond) in left.iter().enumerate() {
            let next = if at + 1 == left.len() { yes } else { self.b.new_block() };
            let miss = self.b.new_block();
            self.b.branch(*cond, next, miss);
            self.b.begin_behind(miss, known);
            self.b.set_cold();
            self.b.jump(no, &[]);
            if next != yes {
                self.b.begin_behind(next, known);
            }
        }
    }

    /// Whether all elements of a line that grows by one are there: `S32`s that must all hold.
    fn fits(&mut self, regs: BufferRegs, line: &Linear) -> Lanes {
        match &line.bases {
            Bases::Row(base) => {
                let whole = if self.vectors == 1 { regs.whole_vector } else { regs.whole };
                Lanes::from_elem(self.b.cmp(IntCond::LtU, *base, whole), 1)
            }
            Bases::Each(bases) => {
                bases.iter().map(|base| self.b.cmp(IntCond::LtU, *base, regs.whole_vector)).collect()
            }
        }
    }

    /// The addresses of the elements of a line that grows by one, one for each vector in flight.
    fn row(&mut self, regs: BufferRegs, elem: Elem, line: &Linear, site: u32) -> Vec<Address> {
        if let Some(addresses) = self.assumed_addresses(site, elem) {
            return addresses;
        }
        let vector = (self.lanes_per_vector() * elem.bytes()) as i32;
        let (base, disp) = match regs.offset {
            Some(offset) => (self.scratch, offset as i32),
            None => (regs.base, 0),
        };
        let at = |this: &mut Self, start: Reg, ahead: i32| {
            let start = this.b.convert(Num::U32, Num::U64, start);
            Address { base, index: Some((start, elem.bytes() as u8)), disp: disp + ahead }
        };
        match &line.bases {
            Bases::Row(start) => {
                (0..self.vectors as i32).map(|number| at(self, *start, number * vector)).collect()
            }
            Bases::Each(starts) => starts.iter().map(|start| at(self, *start, 0)).collect(),
        }
    }

    /// The lanes that run and whose element is there; `None` for all.
    fn in_bounds(&mut self, buffer: BufferId, indices: &[Reg], proven: bool) -> Option<Lanes> {
        if proven {
            return self.exec.masks.clone();
        }
        let len = self.buffer(buffer).len;
        let len = self.b.emit(Op::Splat(len));
        let inside: Lanes = indices.iter().map(|index| self.b.cmp(IntCond::LtU, *index, len)).collect();
        Some(self.running(&inside))
    }

    fn gather(&mut self, elem: Elem, buffer: BufferId, indices: &[Reg], proven: bool) -> Lanes {
        let masks = self.in_bounds(buffer, indices, proven);
        let (base, small) = (self.buffer(buffer).base, self.is_small(buffer));
        let scale = elem.bytes() as u8;
        (0..indices.len())
            .map(|at| {
                let mask = masks.as_ref().map(|masks| masks[at]);
                self.b.emit(Op::Gather(elem, Indexed { base, index: indices[at], scale, small, mask }))
            })
            .collect()
    }

    /// Four bytes from each lane's index on, those out of bounds 0.
    fn load_words(&mut self, buffer: BufferId, index: Operand) -> Lanes {
        let indices = self.vectors(index);
        let exec = self.exec_masks();
        let regs = self.buffer(buffer);
        // All four are there if the index is at most `len - 4`, and `len` is at least 4.
        let four = self.b.const_(Kind::S32, 4);
        let long = self.b.cmp(IntCond::LeU, four, regs.len);
        let last = self.b.int(IntOp::Sub, regs.len, four);
        let last = self.b.emit(Op::Splat(last));
        let long = self.spread_reg(long, DataType::Bool);
        let whole: Lanes = indices
            .iter()
            .map(|index| {
                let inside = self.b.cmp(IntCond::LeU, *index, last);
                self.b.emit(Op::Mask(MaskOp::And, inside, long))
            })
            .collect();
        let broken = self.zip_masks(MaskOp::AndNot, &exec, &whole);
        let masks = self.zip_masks(MaskOp::And, &exec, &whole);
        let small = self.is_small(buffer);
        let any_broken = self.any(&broken);
        let broken_bits = self.b.emit(Op::MaskToBits(any_broken));
        let zero = self.b.const_(Kind::S32, 0);
        let fits = self.b.cmp(IntCond::Eq, broken_bits, zero);
        let word = |this: &mut Self, at: usize| {
            let mask = Some(masks[at]);
            this.b.emit(Op::Gather(
                Elem::B32,
                Indexed { base: regs.base, index: indices[at], scale: 1, small, mask },
            ))
        };
        let count = indices.len();
        self.two_ways(
            &[fits],
            Kind::V32,
            |this| (0..count).map(|at| word(this, at)).collect(),
            |this| (0..count).map(|at| this.bytes_of(buffer, indices[at], exec[at])).collect(),
        )
    }

    fn bytes_of(&mut self, buffer: BufferId, index: Reg, exec: Reg) -> Reg {
        let (regs, small) = (self.buffer(buffer), self.is_small(buffer));
        let len = self.b.emit(Op::Splat(regs.len));
        let mut word = self.b.const_(Kind::V32, 0);
        for byte in 0..4 {
            let at = self.b.int_const(IntOp::Add, index, byte);
            let inside = self.b.cmp(IntCond::LtU, at, len);
            let ahead = self.b.cmp(IntCond::LeU, index, at);
            let mask = self.b.emit(Op::Mask(MaskOp::And, inside, ahead));
            let mask = self.b.emit(Op::Mask(MaskOp::And, mask, exec));
            let from = Indexed { base: regs.base, index: at, scale: 1, small, mask: Some(mask) };
            let found = self.b.emit(Op::Gather(Elem::U8, from));
            let placed = self.b.shift_const(ShiftOp::Shl, found, 8 * byte as u32);
            word = self.b.int(IntOp::Or, word, placed);
        }
        word
    }

    pub(super) fn store(
        &mut self,
        ty: DataType,
        buffer: BufferId,
        index: Operand,
        value: Operand,
        site: u32,
    ) {
        let storage = self.plan.parts.buffer(buffer).binding().is_some();
        let values = self.vectors(value);
        let values: Lanes = values.into_iter().map(|reg| self.before_store(ty, storage, reg)).collect();
        let (elem, regs, proven) = (elem(ty), self.buffer(buffer), self.is_proven(site));
        if let Some(index) = self.flat(index) {
            return self.store_one(elem, regs, index, &values, proven);
        }
        let line = self.line_of(index).filter(|line| line.stride == 1);
        let indices = self.vectors(index);
        let Some(line) = line else {
            return self.scatter(elem, buffer, &indices, &values, proven);
        };
        let masks = self.exec.masks.clone();
        let row = |this: &mut Self| {
            let addresses = this.row(regs, elem, &line, site);
            if masks.is_none() && elem.bytes() >= 4 && regs.stream.is_some() {
                return this.store_stream(regs, elem, &line, &addresses, &values);
            }
            for (at, to) in addresses.into_iter().enumerate() {
                let (mut value, mut mask) = (values[at], masks.as_ref().map(|masks| masks[at]));
                // Only this thread sees the workgroup's memory, so lanes that are off may write what is there: a later load
                // gets a whole vector sooner than one from parts.
                if let (Some(on), Some(_)) = (mask, regs.offset) {
                    let old = this.b.emit(Op::LoadV(elem, to, None));
                    (value, mask) = (this.b.emit(Op::Select(on, value, old)), None);
                }
                this.b.effect(Op::StoreV(elem, to, value, mask));
            }
        };
        if proven && self.exec.masks.is_none() || self.is_assumed(site) {
            return row(self);
        }
        let fits = self.fits(regs, &line);
        self.two_ways(
            &fits,
            Kind::V32,
            |this| {
                row(this);
                Lanes::new()
            },
            |this| {
                this.scatter(elem, buffer, &indices, &values, proven);
                Lanes::new()
            },
        );
    }

    /// A store to a buffer that nobody reads meanwhile: past the caches if it is larger than they are and vectors are aligned,
    /// for then memory need not be read before it is written.
    fn store_stream(
        &mut self,
        regs: BufferRegs,
        elem: Elem,
        line: &Linear,
        addresses: &[Address],
        values: &[Reg],
    ) {
        let starts: Lanes = match &line.bases {
            Bases::Row(start) => Lanes::from_elem(*start, 1),
            Bases::Each(starts) => starts.clone(),
        };
        let all = starts[1..].iter().fold(starts[0], |all, start| self.b.int(IntOp::Or, all, *start));
        let within = self.b.int_const(IntOp::And, all, u64::from(self.lanes_per_vector()) - 1);
        let zero = self.b.const_(Kind::S32, 0);
        let aligned = self.b.cmp(IntCond::Eq, within, zero);
        let large = regs.stream.unwrap_or(zero);
        let stores = || addresses.iter().copied().zip(values.iter().copied());
        self.fork_every(
            &[large, aligned],
            &[],
            |this| stores().for_each(|(to, value)| this.b.effect(Op::StoreStream(elem, to, value))),
            |this| stores().for_each(|(to, value)| this.b.effect(Op::StoreV(elem, to, value, None))),
        );
    }

    /// A store of all lanes to one element: the last lane that runs has its way.
    fn store_one(&mut self, elem: Elem, regs: BufferRegs, index: Reg, values: &[Reg], proven: bool) {
        let wide = self.b.convert(Num::U32, Num::U64, index);
        let to = Address { base: regs.base, index: Some((wide, elem.bytes() as u8)), disp: 0 };
        let yes = self.b.const_(Kind::S32, 1);
        let there = if proven { yes } else { self.b.cmp(IntCond::LtU, index, regs.len) };
        let Some(masks) = self.exec.masks.clone() else {
            let last = values[values.len() - 1];
            let put = |this: &mut Self| {
                let value = this.b.emit(Op::Extract(last, this.lanes_per_vector() as u8 - 1));
                this.b.effect(Op::StoreS(elem, to, value));
            };
            return if proven { put(self) } else { self.fork(there, &[], put, |_| {}) };
        };
        let any = self.any(&masks);
        self.fork_every(
            &[there, any],
            &[],
            |this| {
                let value = this.running_lane(elem, values, &masks, true);
                this.b.effect(Op::StoreS(elem, to, value));
            },
            |_| {},
        );
    }

    /// What the first or last lane that runs holds, through memory: a scalar.
    pub(super) fn running_lane(&mut self, elem: Elem, values: &[Reg], masks: &[Reg], last: bool) -> Reg {
        let (lanes, zero) = (u64::from(self.lanes_per_vector()), self.b.const_(Kind::S32, 0));
        let mut found = zero;
        let order: Vec<usize> =
            if last { (0..masks.len()).collect() } else { (0..masks.len()).rev().collect() };
        for vector in order {
            let bits = self.b.emit(Op::MaskToBits(masks[vector]));
            let lane = if last {
                let above = self.b.emit(Op::Bit(BitOp::Clz, bits));
                self.b.int_const(IntOp::Xor, above, 31)
            } else {
                self.b.emit(Op::Bit(BitOp::Ctz, bits))
            };
            let lane = self.b.int_const(IntOp::Add, lane, vector as u64 * lanes);
            let any = self.b.cmp(IntCond::Ne, bits, zero);
            found = if masks.len() == 1 { lane } else { self.b.emit(Op::Select(any, lane, found)) };
        }
        let whole = if elem == Elem::B64 { Elem::B64 } else { Elem::B32 };
        let row = self.scratch_at(self.exchange);
        self.put_row(whole, row, values);
        let index = self.b.convert(Num::U32, Num::U64, found);
        self.b.emit(Op::LoadS(whole, Address { index: Some((index, whole.bytes() as u8)), ..row }))
    }

    fn scatter(&mut self, elem: Elem, buffer: BufferId, indices: &[Reg], values: &[Reg], proven: bool) {
        let masks = self.in_bounds(buffer, indices, proven);
        let (base, small) = (self.buffer(buffer).base, self.is_small(buffer));
        let scale = elem.bytes() as u8;
        for at in 0..indices.len() {
            let mask = masks.as_ref().map(|masks| masks[at]);
            let to = Indexed { base, index: indices[at], scale, small, mask };
            self.b.effect(Op::Scatter(elem, to, values[at]));
        }
    }

    // Private arrays: elements stand in rows of all lanes in flight, as registers hold them.

    fn array_elem(&self, ty: DataType) -> Elem {
        if ty.bits() == 64 { Elem::B64 } else { Elem::B32 }
    }

    /// The address of an array's first element, for the lanes at hand.
    fn array_base(&mut self, local: Local) -> Reg {
        let array = self.arrays[local.index()].unwrap_or_else(|| unreachable!("${} has memory", local.0));
        let start = self.b.int_const(IntOp::Add, self.scratch, array.offset);
        let Some(group) = self.group.filter(|_| array.group_bytes > 0) else { return start };
        // The base counts lanes, `stride` of them a group.
        let per_lane = array.group_bytes / u64::from(self.stride());
        let ahead = self.b.int_const(IntOp::Mul, group.base_wide, per_lane);
        self.b.int(IntOp::Add, start, ahead)
    }

    fn array_address(&self, base: Reg, elem: Elem, index: Option<Reg>, vector: usize) -> Address {
        let disp = vector as i32 * (self.lanes_per_vector() * elem.bytes()) as i32;
        Address { base, index: index.map(|index| (index, 1)), disp }
    }

    /// How far the row of a uniform index lies behind the first, an `S64`.
    fn array_row(&mut self, elem: Elem, index: Reg) -> Reg {
        let wide = self.b.convert(Num::U32, Num::U64, index);
        self.b.int_const(IntOp::Mul, wide, u64::from(self.stride() * elem.bytes()))
    }

    pub(super) fn array_fill(&mut self, local: Local, ty: DataType, len: u32, init: Operand) {
        let elem = self.array_elem(ty);
        let init = self.vectors(init);
        let init: Lanes = init.into_iter().map(|reg| self.bits_of(reg)).collect();
        let base = self.array_base(local);
        let put = |this: &mut Self, index: Reg| {
            let row = this.array_row(elem, index);
            for (at, reg) in init.iter().enumerate() {
                let to = this.array_address(base, elem, Some(row), at);
                this.b.effect(Op::StoreV(elem, to, *reg, None));
            }
        };
        if len <= UNROLLED_FILL_MAX {
            for index in 0..len {
                let index = self.b.const_(Kind::S32, index.into());
                put(self, index);
            }
            return;
        }
        self.count_to(len, &[], |this, index, _| {
            put(this, index);
            Vec::new()
        });
    }

    pub(super) fn array_get(&mut self, local: Local, ty: DataType, index: Operand, _site: u32) -> Val {
        let elem = self.array_elem(ty);
        let len = self.plan.locals[local.index()].len.unwrap_or(0);
        let base = self.array_base(local);
        let lanes: Lanes = if self.plan.is_uniform(index) {
            let index = self.scalar(index);
            let (there, row) = self.array_place(elem, index, len);
            (0..self.vectors)
                .map(|at| {
                    let from = self.array_address(base, elem, Some(row), at);
                    let found = self.b.emit(Op::LoadV(elem, from, None));
                    let zero = self.const_like(found, 0);
                    self.choose(there, found, zero)
                })
                .collect()
        } else {
            let indices = self.vectors(index);
            (0..self.vectors)
                .map(|at| {
                    let from = self.array_lanes(base, elem, indices[at], len, at);
                    self.b.emit(Op::Gather(elem, from))
                })
                .collect()
        };
        let lanes = lanes.into_iter().map(|reg| self.truth_of(ty, reg)).collect();
        Val::Varying(lanes, None)
    }

    /// 0 and 1 as a mask where the type is bool.
    pub(super) fn truth_of(&mut self, ty: DataType, reg: Reg) -> Reg {
        if varying_kind(ty) != Kind::Mask {
            return reg;
        }
        let zero = self.const_like(reg, 0);
        self.b.cmp(IntCond::Ne, reg, zero)
    }

    /// Whether a uniform index is in bounds, and its row, or the first.
    fn array_place(&mut self, elem: Elem, index: Reg, len: u32) -> (Reg, Reg) {
        let (limit, zero) = (self.b.const_(Kind::S32, len.into()), self.b.const_(Kind::S32, 0));
        let there = self.b.cmp(IntCond::LtU, index, limit);
        let index = self.b.emit(Op::Select(there, index, zero));
        (there, self.array_row(elem, index))
    }

    /// Where the lanes of one vector find their own indices' elements.
    fn array_lanes(&mut self, base: Reg, elem: Elem, index: Reg, len: u32, vector: usize) -> Indexed {
        let limit = self.b.const_(Kind::V32, len.into());
        let there = self.b.cmp(IntCond::LtU, index, limit);
        let mask = match self.exec.masks.clone() {
            None => there,
            Some(masks) => self.b.emit(Op::Mask(MaskOp::And, there, masks[vector])),
        };
        let rows = self.b.int_const(IntOp::Mul, index, self.stride().into());
        let lane = self.b.emit(Op::LaneIndex);
        let place = self.b.int_const(IntOp::Add, lane, vector as u64 * u64::from(self.lanes_per_vector()));
        let index = self.b.int(IntOp::Add, rows, place);
        Indexed { base, index, scale: elem.bytes() as u8, small: true, mask: Some(mask) }
    }

    pub(super) fn array_set(
        &mut self,
        local: Local,
        ty: DataType,
        index: Operand,
        value: Operand,
        _site: u32,
    ) {
        let elem = self.array_elem(ty);
        let len = self.plan.locals[local.index()].len.unwrap_or(0);
        let values = self.vectors(value);
        let values: Lanes = values.into_iter().map(|reg| self.bits_of(reg)).collect();
        let base = self.array_base(local);
        if !self.plan.is_uniform(index) {
            let indices = self.vectors(index);
            for (at, value) in values.into_iter().enumerate() {
                let to = self.array_lanes(base, elem, indices[at], len, at);
                self.b.effect(Op::Scatter(elem, to, value));
            }
            return;
        }
        let index = self.scalar(index);
        let (there, row) = self.array_place(elem, index, len);
        let known = self.b.constant(there).is_some_and(|there| there != 0);
        let masks = match (self.exec.masks.clone(), known) {
            (masks, true) => masks,
            (masks, false) => {
                let there = self.spread_reg(there, DataType::Bool);
                let exec = masks.unwrap_or_else(|| self.exec_masks());
                Some(exec.into_iter().map(|mask| self.b.emit(Op::Mask(MaskOp::And, mask, there))).collect())
            }
        };
        for (at, value) in values.into_iter().enumerate() {
            let to = self.array_address(base, elem, Some(row), at);
            let mask = masks.as_ref().map(|masks: &Lanes| masks[at]);
            self.b.effect(Op::StoreV(elem, to, value, mask));
        }
    }

    // Loops of the lowering's own.

    /// Runs `body` for 0, 1, ... below `count`, which is not 0, and hands its registers from trip to trip.
    pub(super) fn count_to(
        &mut self,
        count: u32,
        start: &[Reg],
        body: impl FnOnce(&mut Self, Reg, &[Reg]) -> Vec<Reg>,
    ) -> Vec<Reg> {
        self.count_by(1, count, start, body)
    }

    /// The same for 0, `step`, twice that, ... below `count`.
    pub(super) fn count_by(
        &mut self,
        step: u32,
        count: u32,
        start: &[Reg],
        body: impl FnOnce(&mut Self, Reg, &[Reg]) -> Vec<Reg>,
    ) -> Vec<Reg> {
        let (head, again, exit) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let mut args = vec![self.b.const_(Kind::S32, 0)];
        args.extend(start);
        self.b.jump(head, &args);
        self.b.begin(head);
        let index = self.b.param(Kind::S32);
        let carried: Vec<Reg> = start.iter().map(|reg| self.b.param(self.b.kind(*reg))).collect();
        let results = body(self, index, &carried);
        let next = self.b.int_const(IntOp::Add, index, step.into());
        let limit = self.b.const_(Kind::S32, count.into());
        let more = self.b.cmp(IntCond::LtU, next, limit);
        self.b.branch(more, again, exit);
        self.b.begin(again);
        let mut args = vec![next];
        args.extend(&results);
        self.b.jump(head, &args);
        self.b.begin(exit);
        results
    }
}
