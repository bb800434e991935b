//! Runs compiled programs.
//!
//! A lane runs until it reaches a step that lanes take together; then the next lane of the schedule runs. When all
//! lanes of the workgroup have reached it, `sync` takes the step. Workgroups run one after the other, each up to its end or
//! to the next grid barrier. Lanes share one register file, which is copied out and in around such steps; a program
//! without them never copies.

use crate::check::Checker;
use crate::code::{Code, Instr};
use crate::compile::{Setup, compile};
use crate::lane::{Lane, POLL_INSTRUCTIONS, Trapped};
use crate::memory::{Budget, Memory};
use crate::trace::Tracer;
use crate::{Options, Report, RunError, Schedule};
use vyre_foundation::ir::{BufferKind, ProgramParts};
use vyre_foundation::launch::Admission;
use vyre_foundation::random::word;

/// The state of a workgroup while it waits.
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

/// A program in the course of its run.
pub(crate) struct Machine<'a> {
    pub(crate) parts: &'a ProgramParts,
    pub(crate) code: &'a Code,
    pub(crate) memory: Memory,
    pub(crate) checker: Option<Checker>,
    pub(crate) tracer: Option<Tracer<'a>>,
    pub(crate) grid: [u32; 3],
    pub(crate) options: &'a Options<'a>,
    workgroup_buffers: Vec<usize>,
    pub(crate) trapped: Option<Trapped>,
    /// Instructions run up to the last question whether to stop, and what is left until the next.
    pub(crate) polled: u64,
    pub(crate) left: u32,
    /// Those among them that are no lines of the program.
    pub(crate) uncounted: u64,
    sweeps: u64,
}

/// Runs an admitted launch.
pub(crate) fn run(
    admission: &Admission,
    buffers: &mut [Vec<u8>],
    options: &Options<'_>,
) -> Result<Report, RunError> {
    let (parts, memory_bytes_max) = (admission.parts(), options.memory_bytes_max);
    let notes = options.trace.is_some();
    let setup = Setup { parts, admission, notes, memory_bytes_max, instead: options.instead };
    let code = compile(&setup)?;
    let mut budget = Budget::new(memory_bytes_max);
    let is_workgroup = |at: &usize| matches!(parts.buffers[*at].kind, BufferKind::Workgroup);
    let checker = match options.check {
        true => Some(Checker::new(parts, &admission.lens, admission.grid, &mut budget)?),
        false => None,
    };
    // Nothing fails between here and where the buffers go back.
    let memory = Memory::new(admission, buffers, &mut budget)?;
    let mut machine = Machine {
        parts,
        code: &code,
        memory,
        checker,
        tracer: options.trace.map(|trace| Tracer::new(admission.program.program(), trace)),
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
    machine.memory.give_back(admission, buffers);
    ended?;
    let executed = machine.polled + u64::from(POLL_INSTRUCTIONS - machine.left);
    let lane_instructions = executed - machine.uncounted;
    let findings = machine.checker.map_or_else(Vec::new, |checker| checker.finish(&code));
    Ok(Report { findings, lane_instructions })
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

    /// The common part of a grid barrier and the end of a run: a recorded trap fails the run.
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

    /// The lane with that place in that workgroup.
    pub(crate) fn lane(&self, group_index: u32, group: [u32; 3], local_index: u32) -> Lane {
        let local = place_of(local_index, self.parts.workgroup);
        let global = [0, 1, 2].map(|axis| group[axis] * self.parts.workgroup[axis] + local[axis]);
        Lane { local, local_index, group, group_index, global }
    }

    /// `0..count` in the order of the schedule.
    fn order(&mut self, count: u32) -> impl Iterator<Item = u32> + use<> {
        let count = u64::from(count);
        let (step, mut at) = match self.options.schedule {
            Schedule::Forward => (1, 0),
            Schedule::Reverse => (count.saturating_sub(1), count.saturating_sub(1)),
            Schedule::Shuffle(seed) => {
                self.sweeps += 1;
                shuffle(word(seed ^ word(self.sweeps)), count)
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
    (step, word(random) % count)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

pub(crate) fn place_of(index: u32, extent: [u32; 3]) -> [u32; 3] {
    [index % extent[0], index / extent[0] % extent[1], index / extent[0] / extent[1]]
}
