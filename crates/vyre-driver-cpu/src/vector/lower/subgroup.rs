//! Exchanges among the lanes of a logical subgroup.
//!
//! The lanes in flight hold whole subgroups, so everything happens in registers: within a vector by a permutation, between
//! vectors by taking another one. Only where lanes of a wider subgroup name another lane do they go through memory.

use super::cast::one;
use super::{Lanes, Lower, Val};
use crate::vector::code::{Elem, Indexed, IntCond, IntOp, Kind, Op, Reg, ShiftOp};
use smallvec::SmallVec;
use vyre_foundation::ir::{Args, DataType, Exchange, ReduceOp, SubgroupOp, Sweep};

impl Lower<'_> {
    fn width(&self) -> u32 {
        self.plan.parts.subgroup.unwrap_or(1)
    }

    pub(super) fn subgroup(&mut self, op: SubgroupOp, ty: DataType, args: &Args) -> Val {
        let operand_ty = self.plan.ty(args[0]);
        let x = self.vectors(args[0]);
        let lanes = match op.exchange() {
            Exchange::Ballot => self.ballot(&x),
            Exchange::Any => {
                let bits = self.ballot(&x);
                let zero = self.b.const_(Kind::V32, 0);
                bits.into_iter().map(|bits| self.b.cmp(IntCond::Ne, bits, zero)).collect()
            }
            Exchange::All => {
                let bits = self.ballot(&x);
                let full = self.b.const_(Kind::V32, u64::MAX >> (64 - self.width()));
                bits.into_iter().map(|bits| self.b.cmp(IntCond::Eq, bits, full)).collect()
            }
            Exchange::Take => {
                let from = self.vectors(args[1]);
                self.shuffle(operand_ty, &x, &from)
            }
            Exchange::Match => self.match_lanes(operand_ty, &x),
            Exchange::Fold(Sweep::Reduce, fold) => self.reduce(fold, ty, x),
            Exchange::Fold(Sweep::Inclusive, fold) => self.inclusive(fold, ty, x),
            Exchange::Fold(Sweep::Exclusive, fold) => self.exclusive(fold, ty, x),
        };
        Val::Varying(lanes, None)
    }

    /// A reduction over a workgroup that is one subgroup, as one register for all lanes.
    pub(super) fn reduce_all(&mut self, op: SubgroupOp, ty: DataType, args: &Args) -> Reg {
        let (_, fold) = op.fold().expect("only reductions are the same for all lanes");
        let lanes = self.vectors(args[0]);
        let first = self.reduce(fold, ty, lanes)[0];
        let reg = self.join_reg(first, ty);
        // The other lanes of a vector that is wider than the workgroup are nobody's.
        if self.width() < self.lanes_per_vector() { self.equal_lanes(reg, ty) } else { reg }
    }

    /// The places of a vector's lanes among the lanes in flight.
    fn places(&mut self, vector: usize) -> Reg {
        let lane = self.b.emit(Op::LaneIndex);
        self.b.int_const(IntOp::Add, lane, vector as u64 * u64::from(self.lanes_per_vector()))
    }

    /// The bits of each lane's subgroup.
    fn ballot(&mut self, masks: &[Reg]) -> Lanes {
        let (width, lanes) = (self.width(), self.lanes_per_vector());
        let bits: Vec<Reg> = masks.iter().map(|mask| self.b.emit(Op::MaskToBits(*mask))).collect();
        if width >= lanes {
            let span = (width / lanes) as usize;
            let mut result = Lanes::new();
            for group in bits.chunks(span) {
                let mut word = group[0];
                for (at, more) in group.iter().enumerate().skip(1) {
                    let placed = self.b.shift_const(ShiftOp::Shl, *more, at as u32 * lanes);
                    word = self.b.int(IntOp::Or, word, placed);
                }
                let word = self.b.emit(Op::Splat(word));
                result.extend(std::iter::repeat_n(word, group.len()));
            }
            return result;
        }
        let lane = self.b.emit(Op::LaneIndex);
        let first = self.b.int_const(IntOp::And, lane, !u64::from(width - 1));
        bits.into_iter()
            .map(|bits| {
                let all = self.b.emit(Op::Splat(bits));
                let own = self.b.emit(Op::Shift(ShiftOp::ShrU, all, first));
                self.b.int_const(IntOp::And, own, u64::MAX >> (64 - width))
            })
            .collect()
    }

    /// Puts vectors into memory; the address of the first lane.
    fn put(&mut self, ty: DataType, x: &[Reg]) -> (Elem, Reg) {
        let elem = if ty.bits() == 64 { Elem::B64 } else { Elem::B32 };
        let vector = u64::from(self.lanes_per_vector() * elem.bytes());
        for (at, reg) in x.iter().enumerate() {
            let reg = self.bits_of(*reg);
            let to = self.scratch_at(self.exchange + at as u64 * vector);
            self.b.effect(Op::StoreV(elem, to, reg, None));
        }
        (elem, self.b.int_const(IntOp::Add, self.scratch, self.exchange))
    }

    /// What stands in memory at a place of this lane's subgroup, modulo the width.
    fn pick(&mut self, elem: Elem, base: Reg, vector: usize, from: Reg) -> Reg {
        let width = u64::from(self.width());
        let place = self.places(vector);
        let first = self.b.int_const(IntOp::And, place, !(width - 1));
        let from = self.b.int_const(IntOp::And, from, width - 1);
        let index = self.b.int(IntOp::Add, first, from);
        let scale = elem.bytes() as u8;
        self.b.emit(Op::Gather(elem, Indexed { base, index, scale, small: true, mask: None }))
    }

    fn shuffle(&mut self, ty: DataType, x: &[Reg], from: &[Reg]) -> Lanes {
        let (width, lanes) = (self.width(), self.lanes_per_vector());
        if let Some(lane) = self.b.constant(from[0]).filter(|_| from.iter().all(|reg| *reg == from[0])) {
            let lane = lane as u32 % width;
            let x: Lanes = x.iter().map(|reg| self.bits_of(*reg)).collect();
            // A subgroup's vectors stand behind each other; a vector's subgroups count from their first lanes.
            let span = (width / lanes).max(1) as usize;
            let index = self.b.const_(Kind::V32, u64::from(lane % lanes));
            let index = self.in_subgroup(index);
            return (0..x.len())
                .map(|at| {
                    let source = at / span * span + (lane / lanes) as usize;
                    let found = self.b.emit(Op::Permute(x[source], index));
                    self.truth_of(ty, found)
                })
                .collect();
        }
        if width <= lanes {
            return (0..x.len())
                .map(|at| {
                    let reg = self.bits_of(x[at]);
                    let index = self.in_subgroup(from[at]);
                    let found = self.b.emit(Op::Permute(reg, index));
                    self.truth_of(ty, found)
                })
                .collect();
        }
        let (elem, base) = self.put(ty, x);
        (0..x.len())
            .map(|at| {
                let found = self.pick(elem, base, at, from[at]);
                self.truth_of(ty, found)
            })
            .collect()
    }

    /// Lane numbers within a subgroup as lane numbers within a vector, where a vector holds whole subgroups.
    fn in_subgroup(&mut self, index: Reg) -> Reg {
        let width = u64::from(self.width());
        if width >= u64::from(self.lanes_per_vector()) {
            return index;
        }
        let lane = self.b.emit(Op::LaneIndex);
        let first = self.b.int_const(IntOp::And, lane, !(width - 1));
        let index = self.b.int_const(IntOp::And, index, width - 1);
        self.b.int(IntOp::Or, first, index)
    }

    fn match_lanes(&mut self, ty: DataType, x: &[Reg]) -> Lanes {
        let (elem, base) = self.put(ty, x);
        let zero = self.b.const_(Kind::V32, 0);
        let start = vec![zero; x.len()];
        let found = self.count_to(self.width(), &start, |this, lane, found| {
            let lane = this.b.emit(Op::Splat(lane));
            let one = this.b.const_(Kind::V32, 1);
            let bit = this.b.emit(Op::Shift(ShiftOp::Shl, one, lane));
            (0..x.len())
                .map(|at| {
                    let other = this.pick(elem, base, at, lane);
                    let equal = this.b.cmp(IntCond::Eq, other, x[at]);
                    let zero = this.b.const_(Kind::V32, 0);
                    let bit = this.b.emit(Op::Select(equal, bit, zero));
                    this.b.int(IntOp::Or, found[at], bit)
                })
                .collect()
        });
        found.into()
    }

    pub(super) fn fold(&mut self, fold: ReduceOp, ty: DataType, a: Reg, b: Reg) -> Reg {
        self.compute(fold.op(), ty, ty, &[a, b])
    }

    /// `x = x op xor_shuffle(x, d)` for d = 1, 2, 4, ...
    ///
    /// Once lanes `d` apart are equal, one of them can stand for a second vector of the subgroup: so two vectors become one
    /// at each step, as long as there are two, and what lies vectors apart is then found that many lanes apart.
    fn reduce(&mut self, fold: ReduceOp, ty: DataType, mut x: Lanes) -> Lanes {
        let (lanes, width, count) = (self.lanes_per_vector(), self.width(), x.len());
        // The vectors of a subgroup, and how many of those have become one.
        let (span, mut packed) = ((width / lanes).max(1), 1);
        let mut distance = 1;
        while distance < width {
            let vectors = distance / lanes;
            let across: Lanes = if vectors < packed {
                let lane = self.b.emit(Op::LaneIndex);
                let index = self.b.int_const(
                    IntOp::Xor,
                    lane,
                    (if vectors == 0 { distance } else { vectors }).into(),
                );
                x.iter().map(|reg| self.b.emit(Op::Permute(*reg, index))).collect()
            } else {
                (0..x.len()).map(|at| x[at ^ (vectors / packed) as usize]).collect()
            };
            x = (0..x.len()).map(|at| self.fold(fold, ty, x[at], across[at])).collect();
            if distance < lanes && packed < span {
                let second = self.lanes_where(|lane| lane & distance != 0);
                x = x.chunks(2).map(|two| self.b.emit(Op::Select(second, two[1], two[0]))).collect();
                packed *= 2;
            }
            distance *= 2;
        }
        let times = count / x.len();
        x.iter().flat_map(|reg| std::iter::repeat_n(*reg, times)).collect()
    }

    /// What `distance` lanes below holds, where that is the same subgroup.
    fn up(&mut self, x: &[Reg], distance: u32) -> Lanes {
        let lanes = self.lanes_per_vector();
        if distance >= lanes {
            let back = (distance / lanes) as usize;
            return (0..x.len()).map(|at| x[at.saturating_sub(back)]).collect();
        }
        let turned = self.turn(x, distance);
        let inside = self.lanes_where(|lane| lane >= distance);
        let span = (self.width() / lanes).max(1) as usize;
        (0..x.len())
            .map(|at| match at % span {
                // Below its first lanes there is nothing.
                0 => turned[at],
                _ => self.b.emit(Op::Select(inside, turned[at], turned[at - 1])),
            })
            .collect()
    }

    /// A constant mask.
    fn lanes_where(&mut self, holds: impl Fn(u32) -> bool) -> Reg {
        let lanes = (0..self.lanes_per_vector()).filter(|lane| holds(*lane));
        let bits = lanes.fold(0, |bits, lane| bits | 1 << lane);
        self.b.const_(Kind::Mask, bits)
    }

    /// Which lanes of a vector are at least `distance` into their subgroup.
    fn reaches(&mut self, vector: usize, distance: u32) -> Reg {
        let (width, first) = (self.width(), vector as u32 * self.lanes_per_vector());
        self.lanes_where(|lane| (first + lane) % width >= distance)
    }

    /// `x = up(x, d) op x` where lane >= d, for d = 1, 2, 4, ...
    fn inclusive(&mut self, fold: ReduceOp, ty: DataType, mut x: Lanes) -> Lanes {
        let lanes = self.lanes_per_vector();
        // Integers may be folded in any order: first each vector, then from vector to vector.
        let short = !ty.is_float() && self.width() > lanes;
        let width = if short { lanes } else { self.width() };
        let mut distance = 1;
        while distance < width {
            let below = if short { self.turn(&x, distance) } else { self.up(&x, distance) };
            x = (0..x.len())
                .map(|at| {
                    let folded = self.fold(fold, ty, below[at], x[at]);
                    let reaches = if short {
                        self.lanes_where(|lane| lane >= distance)
                    } else {
                        self.reaches(at, distance)
                    };
                    self.choose(reaches, folded, x[at])
                })
                .collect();
            distance *= 2;
        }
        if short {
            let last = self.b.const_(Kind::V32, u64::from(lanes) - 1);
            let span = (self.width() / lanes) as usize;
            for at in (0..x.len()).filter(|at| at % span > 0) {
                let before = self.b.emit(Op::Permute(x[at - 1], last));
                x[at] = self.fold(fold, ty, before, x[at]);
            }
        }
        x
    }

    /// What `distance` lanes below in the vector holds; the lowest get the highest.
    fn turn(&mut self, x: &[Reg], distance: u32) -> Lanes {
        let lane = self.b.emit(Op::LaneIndex);
        let index = self.b.int_const(IntOp::Add, lane, u64::from(self.lanes_per_vector() - distance));
        x.iter().map(|reg| self.b.emit(Op::Permute(*reg, index))).collect()
    }

    /// The inclusive scan of the lane below; lane 0 gets the identity.
    fn exclusive(&mut self, fold: ReduceOp, ty: DataType, x: Lanes) -> Lanes {
        let start = self.b.const_(super::varying_kind(ty), identity(fold, ty));
        if self.width() == 1 {
            return SmallVec::from_elem(start, x.len());
        }
        let x = self.inclusive(fold, ty, x);
        let below = self.up(&x, 1);
        (0..x.len())
            .map(|at| {
                let reaches = self.reaches(at, 1);
                self.choose(reaches, below[at], start)
            })
            .collect()
    }
}

/// What a fold starts from, as registers hold it.
pub(super) fn identity(fold: ReduceOp, ty: DataType) -> u64 {
    let (all, sign) = (ty.mask(), ty.mask() ^ ty.mask() >> 1);
    // Floats of 16 bits are f32 in registers.
    let wide = ty == DataType::F64;
    let (infinity, float_sign) = if wide { (0x7ff0_0000_0000_0000, 1 << 63) } else { (0x7f80_0000, 1 << 31) };
    match (fold, ty.is_float()) {
        (ReduceOp::Add | ReduceOp::Or | ReduceOp::Xor, _) => 0,
        (ReduceOp::And, _) => all,
        (ReduceOp::Mul, _) => one(ty),
        (ReduceOp::Min, true) => infinity,
        (ReduceOp::Max, true) => infinity | float_sign,
        (ReduceOp::Min, false) => {
            if ty.is_signed() {
                all ^ sign
            } else {
                all
            }
        }
        (ReduceOp::Max, false) => {
            if ty.is_signed() {
                sign
            } else {
                0
            }
        }
    }
}
