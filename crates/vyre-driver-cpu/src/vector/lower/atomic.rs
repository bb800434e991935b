//! Read-modify-writes: lanes one after the other.

use super::{Lanes, Lower};
use crate::vector::code::{Address, BitOp, Elem, IntOp, Kind, Num, Op, Reg, Rmw};
use vyre_foundation::ir::{Args, AtomicOp, BufferId, DataType, Operand};

impl Lower<'_> {
    /// What was there before, if it is asked for.
    pub(super) fn atomic(
        &mut self,
        op: AtomicOp,
        ty: DataType,
        buffer: BufferId,
        index: Operand,
        args: &Args,
        wanted: bool,
    ) -> Option<Lanes> {
        let elem = super::memory::elem(ty);
        let indices = self.vectors(index);
        let operands: Vec<Lanes> = args.iter().map(|arg| self.vectors(*arg)).collect();
        let len = self.buffer(buffer).len;
        let len = self.b.emit(Op::Splat(len));
        let inside: Lanes =
            indices.iter().map(|index| self.b.cmp(crate::vector::code::IntCond::LtU, *index, len)).collect();
        let masks = self.running(&inside);
        let mut old = Lanes::new();
        for at in 0..self.vectors {
            let values: Vec<Reg> = operands.iter().map(|operand| operand[at]).collect();
            old.extend(self.atomic_vector(op, ty, elem, buffer, indices[at], &values, masks[at], wanted));
        }
        wanted.then_some(old)
    }

    #[allow(clippy::too_many_arguments)] // One vector's share of the line above.
    fn atomic_vector(
        &mut self,
        op: AtomicOp,
        ty: DataType,
        elem: Elem,
        buffer: BufferId,
        index: Reg,
        values: &[Reg],
        mask: Reg,
        wanted: bool,
    ) -> Option<Reg> {
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
            let old = if op == AtomicOp::CompareExchange {
                let value = this.b.emit(Op::LoadS(elem, second));
                this.b.emit(Op::CompareExchange { elem, at, expected: first, value, shared })
            } else {
                this.b.emit(Op::Rmw { op: rmw(op, ty), elem, at, value: first, shared })
            };
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
