//! Runs one lane, from a step that lanes take together to the next.

use crate::code::{Act, Array, Instr, NONE};
use crate::machine::Machine;
use crate::{Access, RunError};
use vyre_foundation::ir::{Axis, BuiltinOp};

/// How many instructions run between two questions whether to stop.
pub(crate) const POLL_INSTRUCTIONS: u32 = 1 << 16;

/// The ids of the running lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) local: [u32; 3],
    pub(crate) local_index: u32,
    pub(crate) group: [u32; 3],
    pub(crate) group_index: u32,
    /// By `global_id`.
    pub(crate) global: [u32; 3],
}

/// A trap that a lane recorded.
pub(crate) struct Trapped {
    pub(crate) pc: u32,
    pub(crate) lane_index: u64,
    pub(crate) lane: [u32; 3],
    pub(crate) code: u32,
}

impl Machine<'_> {
    /// Runs one lane from `pc` to the next step that lanes take together, and gives its place.
    pub(crate) fn run_lane<const WATCH: bool>(
        &mut self,
        r: &mut [u64],
        arrays: &mut [u64],
        lane: &Lane,
        mut pc: usize,
    ) -> Result<usize, RunError> {
        let instrs = &self.code.instrs[..];
        let mut left = self.left;
        loop {
            if WATCH {
                self.watch_step(pc, r, lane);
            }
            left -= 1;
            if left == 0 {
                self.poll()?;
                left = POLL_INSTRUCTIONS;
            }
            let mut next = pc + 1;
            match instrs[pc] {
                Instr::Compute2 { f, dst, args: [a, b] } => {
                    r[dst as usize] = f(&[r[a as usize], r[b as usize], 0, 0]);
                }
                Instr::Compute4 { f, dst, args } => r[dst as usize] = f(&args.map(|arg| r[arg as usize])),
                Instr::Copy { dst, src } => r[dst as usize] = r[src as usize],
                Instr::Builtin { dst, op, axis } => r[dst as usize] = self.builtin(op, axis, lane).into(),
                Instr::Load { .. }
                | Instr::LoadBytes { .. }
                | Instr::Store { .. }
                | Instr::Atomic { .. }
                | Instr::ArrayFill { .. }
                | Instr::ArrayGet { .. }
                | Instr::ArraySet { .. } => self.touch::<WATCH>(pc, r, arrays, lane),
                Instr::Jump { to } => next = to as usize,
                Instr::Skip { to } => {
                    self.uncounted += 1;
                    next = to as usize;
                }
                Instr::JumpUnless { cond, to } => {
                    if r[cond as usize] == 0 {
                        next = to as usize;
                    }
                }
                Instr::ForEnter { counter, lo, hi, exit } => {
                    let lo = r[lo as usize];
                    if lo < r[hi as usize] {
                        r[counter as usize] = lo;
                    } else {
                        next = exit as usize;
                    }
                }
                Instr::ForNext { counter, hi, step, body } => {
                    // In 64 bits the counter cannot wrap.
                    let count = r[counter as usize] + u64::from(step);
                    if count < r[hi as usize] {
                        r[counter as usize] = count;
                        next = body as usize;
                    }
                }
                Instr::Trap { code } => self.trap(pc as u32, code, lane),
                Instr::Mark => self.uncounted += 1,
                Instr::Subgroup { .. }
                | Instr::UniformLoad { .. }
                | Instr::Mma { .. }
                | Instr::Barrier
                | Instr::SubgroupBarrier
                | Instr::GridBarrier
                | Instr::Collective { .. } => {
                    self.left = left;
                    return Ok(pc);
                }
                Instr::End => {
                    self.uncounted += 1;
                    self.left = left;
                    return Ok(pc);
                }
            }
            pc = next;
        }
    }

    #[cold]
    fn poll(&mut self) -> Result<(), RunError> {
        self.polled += u64::from(POLL_INSTRUCTIONS);
        match self.options.stop {
            Some(stop) if stop() => Err(RunError::Stopped),
            _ => Ok(()),
        }
    }

    /// Runs the instruction at `pc`, which reads or writes memory or a private array.
    #[inline]
    fn touch<const WATCH: bool>(&mut self, pc: usize, r: &mut [u64], arrays: &mut [u64], lane: &Lane) {
        match self.code.instrs[pc] {
            Instr::Load { dst, ty, buffer, index } => {
                let index = r[index as usize];
                let loaded = self.memory.regions[usize::from(buffer)].load(ty, index);
                if WATCH {
                    self.watch(pc, lane, buffer.into(), index, Access::Read);
                }
                r[dst as usize] = loaded.unwrap_or(0);
            }
            Instr::LoadBytes { dst, buffer, index } => {
                let index = r[index as usize];
                if WATCH {
                    (0..4).for_each(|i| self.watch(pc, lane, buffer.into(), index + i, Access::Read));
                }
                r[dst as usize] = self.memory.regions[usize::from(buffer)].load_bytes(index);
            }
            Instr::Store { ty, buffer, index, value } => {
                let index = r[index as usize];
                self.memory.regions[usize::from(buffer)].store(ty, index, r[value as usize]);
                if WATCH {
                    self.watch(pc, lane, buffer.into(), index, Access::Write);
                }
            }
            Instr::Atomic { .. } => self.atomic::<WATCH>(pc, r, lane),
            Instr::ArrayFill { array, init } => cells(arrays, array).fill(r[init as usize]),
            Instr::ArrayGet { dst, array, index } => {
                let index = r[index as usize];
                if WATCH {
                    self.watch_array(pc, lane, index, array, Access::Read);
                }
                r[dst as usize] = cells(arrays, array).get(index as usize).copied().unwrap_or(0);
            }
            Instr::ArraySet { array, index, value } => {
                let index = r[index as usize];
                if WATCH {
                    self.watch_array(pc, lane, index, array, Access::Write);
                }
                if let Some(cell) = cells(arrays, array).get_mut(index as usize) {
                    *cell = r[value as usize];
                }
            }
            other => unreachable!("{other:?} touches no memory"),
        }
    }

    fn atomic<const WATCH: bool>(&mut self, pc: usize, r: &mut [u64], lane: &Lane) {
        let Instr::Atomic { act, fold, ty, buffer, dst, args } = self.code.instrs[pc] else {
            unreachable!("only atomics come here")
        };
        let [index, expected, value] = args.map(|arg| r[arg as usize]);
        let region = &mut self.memory.regions[usize::from(buffer)];
        let old = region.load(ty, index).unwrap_or(0);
        match act {
            Act::CompareExchange if old != expected => {}
            Act::CompareExchange | Act::Exchange => {
                region.store(ty, index, value);
            }
            Act::AddSub | Act::Min | Act::Max | Act::And | Act::Or | Act::Xor => {
                let fold = fold.expect("folds have a meaning");
                region.store(ty, index, fold(&[old, value, 0, 0]));
            }
        }
        if WATCH {
            self.watch(pc, lane, buffer.into(), index, access_of(act, dst != NONE));
        }
        if dst != NONE {
            r[dst as usize] = old;
        }
    }

    fn trap(&mut self, pc: u32, code: u32, lane: &Lane) {
        let lane_index = self.lane_index(lane);
        let first = self.trapped.as_ref().is_none_or(|first| (pc, lane_index) < (first.pc, first.lane_index));
        if first {
            self.trapped = Some(Trapped { pc, lane_index, lane: lane.global, code });
        }
    }

    fn builtin(&self, op: BuiltinOp, axis: Axis, lane: &Lane) -> u32 {
        let width = self.parts.subgroup.unwrap_or(1);
        match op {
            BuiltinOp::GlobalId => lane.global[axis.index()],
            BuiltinOp::LocalId => lane.local[axis.index()],
            BuiltinOp::WorkgroupId => lane.group[axis.index()],
            BuiltinOp::NumWorkgroups => self.grid[axis.index()],
            BuiltinOp::WorkgroupSize => self.parts.workgroup[axis.index()],
            BuiltinOp::GlobalIndex => {
                let [wide, high] = [0, 1].map(|axis| self.grid[axis] * self.parts.workgroup[axis]);
                lane.global[0] + wide * (lane.global[1] + high * lane.global[2])
            }
            BuiltinOp::LocalIndex => lane.local_index,
            BuiltinOp::WorkgroupIndex => lane.group_index,
            BuiltinOp::SubgroupLane => lane.local_index % width,
            BuiltinOp::SubgroupIndex => lane.local_index / width,
        }
    }

    /// A lane's number when workgroups are counted one after the other.
    fn lane_index(&self, lane: &Lane) -> u64 {
        u64::from(lane.group_index) * self.parts.workgroup_lanes() + u64::from(lane.local_index)
    }

    fn watch_step(&mut self, pc: usize, registers: &[u64], lane: &Lane) {
        if let Some(tracer) = &mut self.tracer {
            tracer.step(self.code, pc, registers, lane);
        }
    }

    /// Reports an access, perhaps out of bounds, to the watcher.
    pub(crate) fn watch(&mut self, pc: usize, lane: &Lane, buffer: usize, index: u64, access: Access) {
        let len = self.memory.regions[buffer].len;
        if let Some(checker) = &mut self.checker {
            checker.access(pc as u32, lane, buffer, index, access);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.touch(lane, Some(buffer), index, len, access);
        }
    }

    fn watch_array(&mut self, pc: usize, lane: &Lane, index: u64, array: Array, access: Access) {
        if let Some(checker) = &mut self.checker
            && index >= u64::from(array.len)
        {
            checker.out_of_array(pc as u32, lane, index, array.len, access);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.touch(lane, None, index, array.len, access);
        }
    }
}

fn cells(arrays: &mut [u64], array: Array) -> &mut [u64] {
    &mut arrays[array.base as usize..][..array.len as usize]
}

/// An atomic without a result is its kind to the race rule; any other reads and writes.
fn access_of(act: Act, has_result: bool) -> Access {
    match act {
        Act::Exchange | Act::CompareExchange => Access::ReadWrite,
        _ if has_result => Access::ReadWrite,
        Act::AddSub => Access::AddSub,
        Act::Min => Access::Min,
        Act::Max => Access::Max,
        Act::And => Access::And,
        Act::Or => Access::Or,
        Act::Xor => Access::Xor,
    }
}
