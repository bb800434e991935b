//! Runs compiled programs.
//!
//! A lane runs until it reaches a step that lanes take together; then the next lane of the schedule runs. When all
//! lanes of the workgroup stand there, `sync` takes the step. Workgroups run one after the other, each up to its end or
//! to the next grid barrier. Lanes share one register file, which is copied out and in around such steps; a program
//! without them never copies.

use crate::check::Checker;
use crate::code::{Act, Array, Code, Instr, NONE};
use crate::compile::{Setup, compile};
use crate::memory::{Budget, Memory};
use crate::trace::Tracer;
use crate::{Access, Options, Report, RunError, Schedule};
use vyre_foundation::ir::{Axis, BufferKind, BuiltinOp, Program, ProgramParts};
use vyre_foundation::launch::Admission;
use vyre_foundation::scalar::Meaning;

/// How many instructions run between two questions whether to stop.
const POLL_INSTRUCTIONS: u32 = 1 << 16;

/// Who runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) local: [u32; 3],
    pub(crate) local_index: u32,
    pub(crate) group: [u32; 3],
    pub(crate) group_index: u32,
    /// By `global_id`.
    pub(crate) global: [u32; 3],
}

/// What a workgroup keeps while it waits.
#[derive(Clone, Default)]
pub(crate) struct Group {
    /// Where its lanes go on.
    pc: usize,
    /// The registers of every lane, one lane after the other; empty if lanes never wait.
    pub(crate) registers: Vec<u64>,
    /// The private arrays of every lane that waits, or of the one that runs.
    arrays: Vec<u64>,
    /// The workgroup buffers, while another workgroup runs.
    memory: Vec<Vec<u8>>,
    /// Which elements of them were written, while another workgroup runs.
    written: Vec<Vec<bool>>,
}

struct Trapped {
    pc: u32,
    lane_index: u64,
    lane: [u32; 3],
    code: u32,
}

/// A program in the course of its run.
pub(crate) struct Machine<'a> {
    pub(crate) parts: &'a ProgramParts,
    pub(crate) code: &'a Code,
    pub(crate) memory: Memory,
    pub(crate) checker: Option<Checker>,
    tracer: Option<Tracer<'a>>,
    pub(crate) grid: [u32; 3],
    options: &'a Options<'a>,
    workgroup_buffers: Vec<usize>,
    trapped: Option<Trapped>,
    /// Instructions run up to the last question whether to stop, and what is left until the next.
    polled: u64,
    left: u32,
    /// Those among them that are no lines of the program.
    uncounted: u64,
    sweeps: u64,
}

/// Runs an admitted launch.
pub(crate) fn run(
    program: &Program,
    admission: &Admission,
    buffers: &mut [Vec<u8>],
    options: &Options<'_>,
) -> Result<Report, RunError> {
    let (parts, memory_bytes_max) = (program.parts(), options.memory_bytes_max);
    let setup = Setup { parts, admission, notes: options.trace.is_some(), memory_bytes_max };
    let code = compile(&setup)?;
    let mut budget = Budget::new(memory_bytes_max);
    let is_workgroup = |at: &usize| matches!(parts.buffers[*at].kind, BufferKind::Workgroup);
    let checker = match options.check {
        true => Some(Checker::new(parts, &admission.lens, admission.grid, &mut budget)?),
        false => None,
    };
    // Nothing fails between here and where the buffers go back.
    let memory = Memory::new(parts, admission, buffers, &mut budget)?;
    let mut machine = Machine {
        parts,
        code: &code,
        memory,
        checker,
        tracer: options.trace.map(|trace| Tracer::new(program, trace)),
        grid: admission.grid,
        options,
        workgroup_buffers: (0..parts.buffers.len()).filter(is_workgroup).collect(),
        trapped: None,
        polled: 0,
        left: POLL_INSTRUCTIONS,
        uncounted: 0,
        sweeps: 0,
    };
    let ended = match machine.checker.is_some() || machine.tracer.is_some() {
        true => machine.dispatch::<true>(&mut budget),
        false => machine.dispatch::<false>(&mut budget),
    };
    if let Some(tracer) = &mut machine.tracer {
        tracer.finish();
    }
    machine.memory.give_back(parts, buffers);
    ended?;
    let executed = machine.polled + u64::from(POLL_INSTRUCTIONS - machine.left);
    let lane_instructions = executed - machine.uncounted;
    let findings = machine.checker.map_or_else(Vec::new, |checker| checker.finish(&code));
    Ok(Report { findings, lane_instructions, grid: admission.grid })
}

impl Machine<'_> {
    fn dispatch<const WATCH: bool>(&mut self, budget: &mut Budget) -> Result<(), RunError> {
        // A launch has at most 2^32 - 1 lanes, so its workgroups count in 32 bits.
        let groups = if self.grid.contains(&0) { 0 } else { self.grid.iter().product::<u32>() };
        let mut registers = budget.filled(self.code.slots as usize + self.code.constants.len())?;
        registers[self.code.slots as usize..].copy_from_slice(&self.code.constants);
        if self.code.synchronises_grid {
            return self.dispatch_together::<WATCH>(budget, &mut registers, groups);
        }
        let mut group = self.new_group(budget)?;
        for index in self.order(groups) {
            group.pc = 0;
            self.memory.clear_workgroup(&self.workgroup_buffers);
            if let Some(checker) = &mut self.checker {
                checker.forget_workgroup();
            }
            self.run_group::<WATCH>(&mut registers, &mut group, index)?;
        }
        self.end_epoch()
    }

    /// Runs all workgroups from grid barrier to grid barrier.
    fn dispatch_together<const WATCH: bool>(
        &mut self,
        budget: &mut Budget,
        registers: &mut [u64],
        groups: u32,
    ) -> Result<(), RunError> {
        let mut waiting: Vec<Group> = budget.filled(groups as usize)?;
        for group in &mut waiting {
            *group = self.new_group(budget)?;
            for at in &self.workgroup_buffers {
                let buffer = &self.parts.buffers[*at];
                let len = buffer.len.unwrap_or(0) as usize;
                group.memory.push(budget.filled(len * buffer.ty.bytes())?);
                group.written.push(budget.filled(if self.checker.is_some() { len } else { 0 })?);
            }
        }
        loop {
            let mut met = None;
            for index in self.order(groups) {
                let group = &mut waiting[index as usize];
                self.exchange(group);
                let at = self.run_group::<WATCH>(registers, group, index)?;
                self.exchange(group);
                if *met.get_or_insert(at) != at {
                    return Err(RunError::Diverged { location: self.code.location(at as u32) });
                }
            }
            self.end_epoch()?;
            match met.map(|at| self.code.instrs[at]) {
                Some(Instr::Collective { dst, src }) => self.memory.copy(dst.into(), src.into()),
                Some(Instr::GridBarrier) => {}
                _ => return Ok(()),
            }
        }
    }

    /// Puts a workgroup's memory in place, or what is in place back.
    fn exchange(&mut self, group: &mut Group) {
        self.memory.swap_workgroup(&self.workgroup_buffers, &mut group.memory);
        if let Some(checker) = &mut self.checker {
            checker.swap_written(&mut group.written);
        }
    }

    /// What a grid barrier and the end have in common: a recorded trap fails the run.
    fn end_epoch(&mut self) -> Result<(), RunError> {
        if let Some(checker) = &mut self.checker {
            checker.grid_barrier();
        }
        match self.trapped.take() {
            None => Ok(()),
            Some(Trapped { pc, lane, code, .. }) => {
                Err(RunError::Trap { code, location: self.code.location(pc), lane })
            }
        }
    }

    fn new_group(&self, budget: &mut Budget) -> Result<Group, RunError> {
        let lanes = if self.code.synchronises { self.parts.workgroup_lanes() as usize } else { 1 };
        let kept = if self.code.synchronises { lanes * self.code.slots as usize } else { 0 };
        let arrays = budget.filled(lanes * self.code.array_words as usize)?;
        Ok(Group { registers: budget.filled(kept)?, arrays, ..Group::default() })
    }

    /// Runs a workgroup to its end or to the next grid barrier, and gives the place.
    fn run_group<const WATCH: bool>(
        &mut self,
        registers: &mut [u64],
        group: &mut Group,
        index: u32,
    ) -> Result<usize, RunError> {
        if let Some(checker) = &mut self.checker {
            checker.begin_group();
        }
        let (slots, words) = (self.code.slots as usize, self.code.array_words as usize);
        let place = place_of(index, self.grid);
        loop {
            let mut met = None;
            for local_index in self.order(self.parts.workgroup_lanes() as u32) {
                let lane = self.lane(index, place, local_index);
                let at = if self.code.synchronises {
                    let kept = local_index as usize * slots..(local_index as usize + 1) * slots;
                    let arrays = &mut group.arrays[local_index as usize * words..][..words];
                    registers[..slots].copy_from_slice(&group.registers[kept.clone()]);
                    let at = self.run_lane::<WATCH>(registers, arrays, &lane, group.pc)?;
                    group.registers[kept].copy_from_slice(&registers[..slots]);
                    at
                } else {
                    self.run_lane::<WATCH>(registers, &mut group.arrays, &lane, group.pc)?
                };
                if *met.get_or_insert(at) != at {
                    return Err(RunError::Diverged { location: self.code.location(at as u32) });
                }
            }
            let at = met.expect("a workgroup has lanes");
            group.pc = at + 1;
            if matches!(self.code.instrs[at], Instr::End) || self.code.instrs[at].synchronises_grid() {
                return Ok(at);
            }
            self.step_together(group, at, index);
        }
    }

    /// Runs one lane from `pc` to the next step that lanes take together, and gives its place.
    fn run_lane<const WATCH: bool>(
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
                let fold: Meaning = fold.expect("folds have a meaning");
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

    /// The lane with that place in that workgroup.
    pub(crate) fn lane(&self, group_index: u32, group: [u32; 3], local_index: u32) -> Lane {
        let local = place_of(local_index, self.parts.workgroup);
        let global = [0, 1, 2].map(|axis| group[axis] * self.parts.workgroup[axis] + local[axis]);
        Lane { local, local_index, group, group_index, global }
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

    /// Tells whoever watches about an access to an element that may be out of bounds.
    pub(crate) fn watch(&mut self, pc: usize, lane: &Lane, buffer: usize, index: u64, access: Access) {
        let len = self.memory.regions[buffer].len;
        if let Some(checker) = &mut self.checker {
            checker.access(pc as u32, lane, buffer, index, access);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.touch(lane, buffer, index, len, access);
        }
    }

    fn watch_array(&mut self, pc: usize, lane: &Lane, index: u64, array: Array, access: Access) {
        if let Some(checker) = &mut self.checker
            && index >= u64::from(array.len)
        {
            checker.out_of_array(pc as u32, lane, index, array.len, access);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.touch_array(lane, index, array.len, access);
        }
    }

    /// `0..count` in the order of the schedule.
    fn order(&mut self, count: u32) -> impl Iterator<Item = u32> + use<> {
        let count = u64::from(count);
        let (step, mut at) = match self.options.schedule {
            Schedule::Forward => (1, 0),
            Schedule::Reverse => (count.saturating_sub(1), count.saturating_sub(1)),
            Schedule::Shuffle(seed) => {
                self.sweeps += 1;
                shuffle(mix(seed ^ mix(self.sweeps)), count)
            }
        };
        (0..count).map(move |_| {
            let this = at as u32;
            at += step;
            if at >= count {
                at -= count;
            }
            this
        })
    }
}

/// A step that walks through all of `0..count`, and where to start.
fn shuffle(random: u64, count: u64) -> (u64, u64) {
    if count < 2 {
        return (1, 0);
    }
    let mut step = random % count;
    while gcd(step, count) != 1 {
        step = (step + 1) % count;
    }
    (step, mix(random) % count)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Scrambles bits: the finaliser of SplitMix64.
fn mix(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn cells(arrays: &mut [u64], array: Array) -> &mut [u64] {
    &mut arrays[array.base as usize..][..array.len as usize]
}

pub(crate) fn place_of(index: u32, extent: [u32; 3]) -> [u32; 3] {
    [index % extent[0], index / extent[0] % extent[1], index / extent[0] / extent[1]]
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
