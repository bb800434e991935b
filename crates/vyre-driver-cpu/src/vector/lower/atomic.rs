//! Read-modify-writes: lanes one after the other, or folded into one where they share an element.

use super::subgroup::identity;
use super::{Lanes, Lower};
use crate::vector::code::{Address, BitOp, Elem, IntCond, IntOp, Kind, Num, Op, Reg, Rmw, ShiftOp};
use vyre_foundation::ir::{Args, AtomicOp, BufferId, DataType, Node, Operand, ReduceOp};

/// Lanes of a line that are taken at once.
const AT_ONCE: u32 = 16;
/// Lines whose lanes are taken together.
const ROWS_MAX: usize = 4;
/// Lanes of a vector from which on it is cheap to store them in 16 bits each.
const NARROW_LANES_MIN: u32 = 8;

/// An atomic line.
#[derive(Clone, Copy)]
pub(super) struct Atomic<'a> {
    pub(super) op: AtomicOp,
    pub(super) ty: DataType,
    pub(super) buffer: BufferId,
    pub(super) index: Operand,
    pub(super) args: &'a Args,
}

impl Lower<'_> {
    /// What was there before, if it is asked for.
    pub(super) fn atomic(&mut self, line: Atomic<'_>, wanted: bool, site: u32) -> Option<Lanes> {
        let Atomic { ty, buffer, index, args, .. } = line;
        let elem = super::memory::elem(ty);
        if let (false, Some(fold), Some(index)) = (wanted, line.op.fold(), self.flat(index)) {
            self.atomic_one(&line, elem, fold, index, site);
            return None;
        }
        if !wanted && self.exec.masks.is_none() && self.is_proven(site) {
            self.atomic_rows(&[line]);
            return None;
        }
        let indices = self.vectors(index);
        let operands: Vec<Lanes> = args.iter().map(|arg| self.vectors(*arg)).collect();
        let len = self.buffer(buffer).len;
        let len = self.b.emit(Op::Splat(len));
        let inside: Lanes = indices.iter().map(|index| self.b.cmp(IntCond::LtU, *index, len)).collect();
        let masks = self.running(&inside);
        let mut old = Lanes::new();
        for at in 0..self.vectors {
            let values: Vec<Reg> = operands.iter().map(|operand| operand[at]).collect();
            old.extend(self.atomic_vector(&line, elem, indices[at], &values, masks[at], wanted));
        }
        wanted.then_some(old)
    }

    /// All lanes that run change one element, and nobody asks what was: they are folded first, those that do not run as what
    /// changes nothing.
    fn atomic_one(&mut self, line: &Atomic<'_>, elem: Elem, fold: ReduceOp, index: Reg, site: u32) {
        let ty = line.ty;
        let mut values = self.vectors(line.args[0]);
        if let Some(masks) = self.exec.masks.clone() {
            let nothing = self.b.const_(elem.vector(), identity(fold, ty));
            values = (0..values.len()).map(|at| self.choose(masks[at], values[at], nothing)).collect();
        }
        let first = values[0];
        let mut all = values[1..].iter().fold(first, |all, value| self.fold(fold, ty, all, *value));
        let mut distance = self.lanes_per_vector() / 2;
        while distance > 0 {
            let lane = self.b.emit(Op::LaneIndex);
            let other = self.b.int_const(IntOp::Add, lane, distance.into());
            let turned = self.b.emit(Op::Permute(all, other));
            all = self.fold(fold, ty, all, turned);
            distance /= 2;
        }
        let value = self.b.emit(Op::Extract(all, 0));
        let regs = self.buffer(line.buffer);
        let change = |this: &mut Self| {
            let wide = this.b.convert(Num::U32, Num::U64, index);
            let at = Address { base: regs.base, index: Some((wide, elem.bytes() as u8)), disp: 0 };
            this.rmw(line.op, ty, elem, at, [value; 2], regs.offset.is_none());
        };
        // A proof holds for lanes that run, and there may be none.
        if self.is_proven(site) && self.exec.masks.is_none() {
            return change(self);
        }
        let there = self.b.cmp(IntCond::LtU, index, regs.len);
        self.fork(there, &[], change, |_| {});
    }

    /// Lines from the first on that do the same to memory, in any order, with the same value for all lanes: they are
    /// done here, and their number is given. 0 and 1 leave it to others.
    pub(super) fn atomics_together(&mut self, lines: &[Node], first: u32) -> usize {
        let mut found: Vec<Atomic<'_>> = Vec::new();
        for (site, node) in (first..).zip(lines) {
            let Node::Atomic { result: None, op, ty, buffer, index, args } = node else { break };
            let apart = matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange)
                || found.first().is_some_and(|first| (first.op, first.ty) != (*op, *ty));
            let fits = self.exec.masks.is_none()
                && self.flat(*index).is_none()
                && self.is_proven(site)
                && self.plan.is_uniform(args[0])
                && found.len() < ROWS_MAX;
            if apart || !fits {
                break;
            }
            found.push(Atomic { op: *op, ty: *ty, buffer: *buffer, index: *index, args });
        }
        if found.len() > 1 {
            self.atomic_rows(&found);
        }
        found.len()
    }

    /// All lanes run, all elements are there, and nobody asks what was: one lane after the other, a few at a time. A
    /// processor learns for a few instructions, not for many, that a load may be of what was just stored. Several lines
    /// have the same value for all lanes.
    fn atomic_rows(&mut self, lines: &[Atomic<'_>]) {
        let all = u64::from(self.stride());
        let Atomic { op, ty, args, .. } = lines[0];
        let elem = super::memory::elem(ty);
        // Indices of each line; or of one line, then values of 8 bytes at most, in rows of all lanes in flight.
        let packed = self.packed(lines);
        let row = |this: &Self, line: usize| this.scratch_at(this.exchange + 4 * all * line as u64);
        for (at, line) in lines.iter().enumerate() {
            let indices = self.vectors(line.index);
            self.put_row(packed, row(self, at), &indices);
        }
        let value_rows = [4 * all, 12 * all].map(|before| self.scratch_at(self.exchange + before));
        let mut same: Vec<Vec<Option<Reg>>> = Vec::new();
        for line in lines {
            let scalars = line.args.iter().map(|arg| self.plan.is_uniform(*arg).then(|| self.scalar(*arg)));
            same.push(scalars.collect());
        }
        for (at, arg) in args.iter().enumerate().filter(|(at, _)| same[0][*at].is_none()) {
            let values = self.vectors(*arg);
            self.put_row(elem, value_rows[at], &values);
        }
        let at_once = AT_ONCE.min(self.stride());
        self.count_by(at_once, self.stride(), &[], |this, first, _| {
            let first = this.b.convert(Num::U32, Num::U64, first);
            let place = |row: Address, elem: Elem, lane: u32| {
                let disp = row.disp + (lane * elem.bytes()) as i32;
                Address { index: Some((first, elem.bytes() as u8)), disp, ..row }
            };
            let words = (0..at_once).step_by(8 / packed.bytes() as usize);
            for (number, start) in (0..lines.len()).flat_map(|line| words.clone().map(move |at| (line, at))) {
                let indices = this.unpack(packed, place(row(this, number), packed, start));
                for (lane, index) in (start..).zip(indices) {
                    let load = |this: &mut Self, arg: usize| {
                        this.b.emit(Op::LoadS(elem, place(value_rows[arg], elem, lane)))
                    };
                    let values: Vec<Reg> = (0..args.len())
                        .map(|arg| same[number][arg].unwrap_or_else(|| load(this, arg)))
                        .collect();
                    let regs = this.buffer(lines[number].buffer);
                    let at = Address { base: regs.base, index: Some((index, elem.bytes() as u8)), disp: 0 };
                    this.rmw(op, ty, elem, at, [values[0], values[values.len() - 1]], regs.offset.is_none());
                }
            }
            Vec::new()
        });
    }

    /// How indices lie in memory: in 16 bits where that is enough for the elements of all lines.
    fn packed(&self, lines: &[Atomic<'_>]) -> Elem {
        let few = |line: &Atomic<'_>| {
            self.plan.parts.buffer(line.buffer).len.is_some_and(|len| len <= 1 + u32::from(u16::MAX))
        };
        let narrow = self.lanes_per_vector() >= NARROW_LANES_MIN && lines.iter().all(few);
        if narrow { Elem::U16 } else { Elem::B32 }
    }

    /// Indices of lanes that lie side by side, as `S64`s: as many as 8 bytes hold. Accesses to memory are what limits rows of
    /// atomics, so one of them reads several.
    fn unpack(&mut self, packed: Elem, from: Address) -> Lanes {
        let mut word = self.b.emit(Op::LoadS(Elem::B64, from));
        let mut indices = Lanes::new();
        for _ in 1..8 / packed.bytes() {
            indices.push(if packed == Elem::B32 {
                let low = self.b.convert(Num::U64, Num::U32, word);
                self.b.convert(Num::U32, Num::U64, low)
            } else {
                self.b.int_const(IntOp::And, word, u16::MAX.into())
            });
            word = self.b.shift_const(ShiftOp::ShrU, word, 8 * packed.bytes());
        }
        indices.push(word);
        indices
    }

    pub(super) fn put_row(&mut self, elem: Elem, row: Address, vectors: &[Reg]) {
        let vector = (self.lanes_per_vector() * elem.bytes()) as i32;
        for (at, reg) in (0..).zip(vectors) {
            self.b.effect(Op::StoreV(elem, Address { disp: row.disp + at * vector, ..row }, *reg, None));
        }
    }

    fn rmw(
        &mut self,
        op: AtomicOp,
        ty: DataType,
        elem: Elem,
        at: Address,
        [value, second]: [Reg; 2],
        shared: bool,
    ) -> Reg {
        self.b.emit(match op {
            AtomicOp::CompareExchange => {
                Op::CompareExchange { elem, at, expected: value, value: second, shared }
            }
            op => Op::Rmw { op: rmw(op, ty), elem, at, value, shared },
        })
    }

    fn atomic_vector(
        &mut self,
        line: &Atomic<'_>,
        elem: Elem,
        index: Reg,
        values: &[Reg],
        mask: Reg,
        wanted: bool,
    ) -> Option<Reg> {
        let Atomic { op, ty, buffer, .. } = *line;
        // The lanes go through memory: indices, values, what is expected, and back what was there.
        let part = 8 * u64::from(self.lanes_per_vector());
        let [index_at, value_at, second_at, old_at] =
            [0, 1, 2, 3].map(|at| self.scratch_at(self.exchange + at * part));
        self.b.effect(Op::StoreV(Elem::B32, index_at, index, None));
        for (to, value) in [value_at, second_at].into_iter().zip(values) {
            self.b.effect(Op::StoreV(elem, to, *value, None));
        }
        if wanted {
            let zero = self.b.const_(elem.vector(), 0);
            self.b.effect(Op::StoreV(elem, old_at, zero, None));
        }
        let regs = self.buffer(buffer);
        let shared = regs.offset.is_none();
        let size = elem.bytes() as u8;
        self.each_lane(mask, |this, lane| {
            let index = Address { index: Some((lane, 4)), ..index_at };
            let index = this.b.emit(Op::LoadS(Elem::B32, index));
            let index = this.b.convert(Num::U32, Num::U64, index);
            let at = Address { base: regs.base, index: Some((index, size)), disp: 0 };
            let [first, second] =
                [value_at, second_at].map(|from| Address { index: Some((lane, size)), ..from });
            let first = this.b.emit(Op::LoadS(elem, first));
            let two = op == AtomicOp::CompareExchange;
            let second = if two { this.b.emit(Op::LoadS(elem, second)) } else { first };
            let old = this.rmw(op, ty, elem, at, [first, second], shared);
            if wanted {
                let to = Address { index: Some((lane, size)), ..old_at };
                this.b.effect(Op::StoreS(elem, to, old));
            }
        });
        wanted.then(|| self.b.emit(Op::LoadV(elem, old_at, None)))
    }

    /// Runs `body` for each lane that is on, with its number as an `S64`.
    fn each_lane(&mut self, mask: Reg, body: impl FnOnce(&mut Self, Reg)) {
        let (head, next, exit) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let all = self.b.emit(Op::MaskToBits(mask));
        self.b.jump(head, &[all]);
        self.b.begin(head);
        let bits = self.b.param(Kind::S32);
        self.b.branch(bits, next, exit);
        self.b.begin(next);
        let lane = self.b.emit(Op::Bit(BitOp::Ctz, bits));
        let lane = self.b.convert(Num::U32, Num::U64, lane);
        body(self, lane);
        let below = self.b.int_const(IntOp::Sub, bits, 1);
        let rest = self.b.int(IntOp::And, bits, below);
        self.b.jump(head, &[rest]);
        self.b.begin(exit);
    }
}

fn rmw(op: AtomicOp, ty: DataType) -> Rmw {
    match (op, ty.is_signed()) {
        (AtomicOp::Add, _) => Rmw::Add,
        (AtomicOp::Sub, _) => Rmw::Sub,
        (AtomicOp::And, _) => Rmw::And,
        (AtomicOp::Or, _) => Rmw::Or,
        (AtomicOp::Xor, _) => Rmw::Xor,
        (AtomicOp::Min, false) => Rmw::MinU,
        (AtomicOp::Min, true) => Rmw::MinS,
        (AtomicOp::Max, false) => Rmw::MaxU,
        (AtomicOp::Max, true) => Rmw::MaxS,
        (AtomicOp::Exchange | AtomicOp::CompareExchange, _) => Rmw::Exchange,
    }
}
