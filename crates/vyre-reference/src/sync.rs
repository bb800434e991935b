//! The steps that the lanes of a workgroup take together: barriers, subgroup ops, `uniform_load` and `mma`.
//!
//! All lanes are at the same instruction, their registers kept, so each step reads every lane before it writes any.

use crate::Access;
use crate::code::{Instr, Slot};
use crate::machine::{Group, Machine, place_of};
use vyre_foundation::ir::{DataType, Exchange, ReduceOp, SubgroupOp, Sweep};
use vyre_foundation::limits::SUBGROUP_WIDTH_MAX;
use vyre_foundation::scalar::{identity, meaning};

/// One value for each lane of a logical subgroup.
type Lanes = [u64; SUBGROUP_WIDTH_MAX as usize];

impl Machine<'_> {
    /// Takes the step at `pc` for all lanes of a workgroup.
    pub(crate) fn step_together(&mut self, group: &mut Group, pc: usize, index: u32) {
        match self.code.instrs[pc] {
            Instr::Subgroup { op, ty, dst, args } => self.subgroup(group, op, ty, dst, args),
            Instr::UniformLoad { dst, ty, buffer, index: at } => {
                let at = self.kept(group, 0, at);
                self.barrier();
                self.watch_together(pc, index, buffer, at, Access::Read);
                let loaded = self.memory.regions[usize::from(buffer)].load(ty, at).unwrap_or(0);
                self.barrier();
                for lane in 0..self.parts.workgroup_lanes() as usize {
                    *self.keep(group, lane, dst) = loaded;
                }
            }
            Instr::Mma { extent, buffers, offsets } => {
                let offsets = offsets.map(|offset| self.kept(group, 0, offset));
                self.barrier();
                self.mma(pc, index, extent.map(u64::from), buffers, offsets);
                self.barrier();
            }
            Instr::Barrier => self.barrier(),
            Instr::SubgroupBarrier => {
                if let Some(checker) = &mut self.checker {
                    checker.subgroup_barrier();
                }
            }
            other => unreachable!("{other:?} is no step of a workgroup"),
        }
    }

    /// Lanes run one after the other, so a barrier orders nothing that is not in order; only a check counts it.
    fn barrier(&mut self) {
        if let Some(checker) = &mut self.checker {
            checker.barrier();
        }
    }

    /// An access that the workgroup makes as one: its first lane is recorded.
    fn watch_together(&mut self, pc: usize, group: u32, buffer: u16, index: u64, access: Access) {
        let lane = self.lane(group, place_of(group, self.grid), 0);
        if let Some(checker) = &mut self.checker {
            checker.access(pc as u32, &lane, buffer.into(), index, access);
        }
    }

    fn kept(&self, group: &Group, lane: usize, slot: Slot) -> u64 {
        match slot.checked_sub(self.code.slots) {
            Some(constant) => self.code.constants[constant as usize],
            None => group.registers[lane * self.code.slots as usize + slot as usize],
        }
    }

    fn keep<'g>(&self, group: &'g mut Group, lane: usize, slot: Slot) -> &'g mut u64 {
        &mut group.registers[lane * self.code.slots as usize + slot as usize]
    }

    fn subgroup(&self, group: &mut Group, op: SubgroupOp, ty: DataType, dst: Slot, args: [Slot; 2]) {
        let width = self.parts.subgroup.expect("validated: subgroup ops have a declared width") as usize;
        let lanes = self.parts.workgroup_lanes() as usize;
        for first in (0..lanes).step_by(width) {
            let [mut a, mut b] = [[0; SUBGROUP_WIDTH_MAX as usize]; 2];
            for lane in 0..width {
                a[lane] = self.kept(group, first + lane, args[0]);
                b[lane] = self.kept(group, first + lane, args[1]);
            }
            let results = exchange(op, ty, width, &a, &b);
            for (lane, result) in results[..width].iter().enumerate() {
                *self.keep(group, first + lane, dst) = *result;
            }
        }
    }

    /// `c += a * b`, a by rows and b by columns. Indices are exact sums, so one that passes 2^32 is out of bounds.
    fn mma(&mut self, pc: usize, group: u32, extent: [u64; 3], buffers: [u16; 3], offsets: [u64; 3]) {
        let ([m, n, k], [c, a, b]) = (extent, buffers);
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let at = offsets[0] + i * n + j;
            self.watch_together(pc, group, c, at, Access::AddSub);
            let mut sum = self.memory.regions[usize::from(c)].load(DataType::I32, at).unwrap_or(0) as u32;
            for l in 0..k {
                let (at_a, at_b) = (offsets[1] + i * k + l, offsets[2] + j * k + l);
                self.watch_together(pc, group, a, at_a, Access::Read);
                self.watch_together(pc, group, b, at_b, Access::Read);
                let left = self.memory.regions[usize::from(a)].load(DataType::I8, at_a).unwrap_or(0) as u32;
                let right = self.memory.regions[usize::from(b)].load(DataType::I8, at_b).unwrap_or(0) as u32;
                sum = sum.wrapping_add(left.wrapping_mul(right));
            }
            self.memory.regions[usize::from(c)].store(DataType::I32, at, sum.into());
        }
    }
}

/// The result of a subgroup op in every lane.
fn exchange(op: SubgroupOp, ty: DataType, width: usize, a: &Lanes, b: &Lanes) -> Lanes {
    let mut r = *a;
    match op.exchange() {
        Exchange::Ballot => r.fill(mask(width, |lane| a[lane] != 0)),
        Exchange::Any => r.fill(a[..width].iter().any(|x| *x != 0).into()),
        Exchange::All => r.fill(a[..width].iter().all(|x| *x != 0).into()),
        // The width is a power of two, so this is modulo.
        Exchange::Take => (0..width).for_each(|lane| r[lane] = a[b[lane] as usize & (width - 1)]),
        Exchange::Match => (0..width).for_each(|lane| r[lane] = mask(width, |other| a[other] == a[lane])),
        Exchange::Fold(Sweep::Reduce, fold) => return reduce(fold, ty, width, a),
        Exchange::Fold(Sweep::Inclusive, fold) => return inclusive(fold, ty, width, a),
        Exchange::Fold(Sweep::Exclusive, fold) => return exclusive(fold, ty, width, a),
    }
    r
}

fn mask(width: usize, is_set: impl Fn(usize) -> bool) -> u64 {
    (0..width).map(|lane| u64::from(is_set(lane)) << lane).sum()
}

/// `x = x op xor_shuffle(x, d)` for d = 1, 2, 4, ...
fn reduce(fold: ReduceOp, ty: DataType, width: usize, x: &Lanes) -> Lanes {
    let mut x = *x;
    let mut distance = 1;
    while distance < width {
        let before = x;
        (0..width).for_each(|lane| x[lane] = apply(fold, ty, before[lane], before[lane ^ distance]));
        distance *= 2;
    }
    x
}

/// `x = up(x, d) op x` where lane >= d, for d = 1, 2, 4, ...
fn inclusive(fold: ReduceOp, ty: DataType, width: usize, x: &Lanes) -> Lanes {
    let mut x = *x;
    let mut distance = 1;
    while distance < width {
        let before = x;
        (distance..width).for_each(|lane| x[lane] = apply(fold, ty, before[lane - distance], before[lane]));
        distance *= 2;
    }
    x
}

/// The inclusive scan of the lane below; lane 0 gets the identity.
fn exclusive(fold: ReduceOp, ty: DataType, width: usize, x: &Lanes) -> Lanes {
    let mut x = inclusive(fold, ty, width, x);
    x[..width].rotate_right(1);
    x[0] = identity(fold, ty);
    x
}

fn apply(fold: ReduceOp, ty: DataType, a: u64, b: u64) -> u64 {
    let f = meaning(fold.op(), ty, ty).expect("validated: the fold exists for its type");
    f(&[a, b, 0, 0])
}
