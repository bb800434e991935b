//! The interpreter: the lanes of a warp, together where they are at one instruction and apart where they are not.
//!
//! Lanes that are at the same instruction are a group. Which group runs, and for how long, is the schedule's choice: PTX
//! promises nothing but that lanes which may go on do so in the end.

use super::block::{Arrival, Common, Fold};
use super::code::{AlignedOp, BarrierStep, Kind, NOWHERE, Op, Slot, Special};
use super::launch::Run;
use super::meeting::Meeting;
use super::schedule::Order;
use super::together::Products;
use crate::alu::{Fun, Row};
use crate::choices::Choices;
use crate::fault::{Code, Fault};

/// Instructions of a group before another group's turn.
const GROUP_TURN: u32 = 512;

/// Lanes that are at one instruction.
#[derive(Clone, Copy, Debug)]
struct Group {
    pc: u32,
    mask: u32,
}

/// A copy by `cp.async`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) lane: u32,
    /// The byte in shared memory, and the address in the global space.
    pub(super) to: usize,
    pub(super) from: u64,
    pub(super) bytes: u32,
    pub(super) read: u32,
    /// The number of its group; `None` before it is committed.
    pub(super) group: Option<u32>,
}

pub(super) struct Warp {
    pub(super) index: u32,
    /// Lanes that exist.
    pub(super) lanes: u32,
    /// By lane, its thread's place in the block.
    pub(super) threads: [[u32; 3]; 32],
    pub(super) rows: Vec<Row>,
    /// By row, the lanes that have written it; kept up for rows that are checked.
    defined: Vec<u32>,
    carry: u32,
    groups: Vec<Group>,
    pub(super) meetings: Vec<Meeting>,
    pub(super) exited: u32,
    /// Local memory, a lane's after another's, and which bytes were written.
    pub(super) local: Vec<u8>,
    pub(super) local_written: Vec<bool>,
    pub(super) copies: Vec<Copy>,
    /// By lane, how many groups of copies it has committed.
    pub(super) committed: [u32; 32],
    pub(super) products: Products,
    /// By lane, the block's clock at the last barrier it passed.
    pub(super) passed: [u64; 32],
    /// The allocation that was found last.
    pub(super) found: usize,
    choices: Choices,
    turns: u32,
    /// Instructions that it has run.
    pub(super) executed: u64,
    /// The lane that goes ahead, where one does, as a mask.
    leader: u32,
    /// The lane that had the last turn, where each has one.
    next: u32,
    line: u32,
}

/// Each lane of a mask.
pub(super) fn each(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let lane = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}

impl Warp {
    pub(super) fn new(run: &Run<'_>, index: u32) -> Warp {
        let code = &run.kernel.code;
        let [x, y, z] = run.launch.block;
        let threads = x * y * z;
        let lanes = (threads - 32 * index).min(32);
        let place = |lane: usize| {
            let thread = 32 * index + lane as u32;
            [thread % x, thread / x % y, thread / x / y]
        };
        let local = run.kernel.local_bytes as usize * 32;
        let mut warp = Warp {
            index,
            lanes: u32::MAX >> (32 - lanes),
            threads: std::array::from_fn(place),
            rows: vec![[0; 32]; code.slots as usize],
            defined: vec![0; code.slots as usize],
            carry: 0,
            groups: Vec::new(),
            meetings: Vec::new(),
            exited: 0,
            local: vec![0; local],
            local_written: vec![false; local],
            copies: Vec::new(),
            committed: [0; 32],
            products: Products::new(code),
            passed: [0; 32],
            found: 0,
            choices: Choices::new(0),
            turns: 0,
            executed: 0,
            leader: 0,
            next: 0,
            line: 0,
        };
        for (slot, value) in &run.constants {
            warp.rows[*slot as usize] = [*value; 32];
            warp.defined[*slot as usize] = u32::MAX;
        }
        warp
    }

    /// Puts its lanes at the kernel's start.
    pub(super) fn begin(&mut self, run: &Run<'_>, seed: u64) {
        for (defined, tracked) in self.defined.iter_mut().zip(&run.kernel.code.tracked) {
            if *tracked {
                *defined = 0;
            }
        }
        self.groups = vec![Group { pc: 0, mask: self.lanes }];
        self.meetings.clear();
        self.exited = !self.lanes;
        self.local.fill(0xd7);
        self.local_written.fill(false);
        self.copies.clear();
        self.committed = [0; 32];
        self.products.begin();
        self.passed = [0; 32];
        self.carry = 0;
        self.choices = Choices::new(seed);
        self.leader = 1 << self.choices.below(self.lanes.count_ones() as usize);
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.groups.is_empty()
    }

    pub(super) fn last_line(&self) -> u32 {
        self.line
    }

    pub(super) fn products(&self) -> u64 {
        self.products.digest()
    }

    pub(super) fn synced(&mut self, mask: u32, clock: u64) {
        each(mask).for_each(|lane| self.passed[lane] = clock);
    }

    /// Lanes may run from an instruction on.
    pub(super) fn resume(&mut self, pc: u32, mask: u32) {
        if mask == 0 {
            return;
        }
        match self.groups.iter_mut().find(|group| group.pc == pc) {
            Some(group) => group.mask |= mask,
            None => self.groups.push(Group { pc, mask }),
        }
    }

    /// A fault of a lane.
    pub(super) fn fault(
        &self,
        run: &Run<'_>,
        common: &Common,
        code: Code,
        line: u32,
        lane: u32,
        what: &str,
    ) -> Fault {
        run.fault(code, line, self.threads[lane as usize % 32], common.id, what)
    }

    /// The group that runs now, the instruction at which it meets another, and how long it runs.
    fn pick(&mut self, order: Order) -> (Group, u32, u32) {
        self.turns = self.turns.wrapping_add(1);
        if self.groups.len() == 1 && matches!(order, Order::Lockstep) {
            return (self.groups.swap_remove(0), u32::MAX, u32::MAX);
        }
        // A group that spins must not keep others from what it waits for.
        let fair = self.turns.is_multiple_of(8);
        let any = if fair { self.choices.below(self.groups.len()) } else { 0 };
        match order {
            Order::Lockstep => {
                let behind = (0..self.groups.len()).min_by_key(|at| self.groups[*at].pc).unwrap_or(0);
                let group = self.groups.swap_remove(if fair { any } else { behind });
                let meets = self.groups.iter().map(|other| other.pc).filter(|pc| *pc > group.pc).min();
                (group, meets.unwrap_or(u32::MAX), GROUP_TURN)
            }
            Order::Ahead => {
                let leads = self.groups.iter().position(|group| group.mask & self.leader != 0);
                let at = leads.filter(|_| !fair).unwrap_or(any);
                (self.part(at, self.leader), u32::MAX, GROUP_TURN)
            }
            Order::RoundRobin => {
                let ready = self.groups.iter().fold(0, |ready, group| ready | group.mask);
                // The first lane that is ready from the next one on.
                self.next = (self.next + 1 + ready.rotate_right(self.next + 1).trailing_zeros()) % 32;
                let lane = 1 << self.next;
                let at = self.groups.iter().position(|group| group.mask & lane != 0).unwrap_or(0);
                (self.part(at, lane), u32::MAX, 1)
            }
            Order::Random => {
                let at = self.choices.below(self.groups.len());
                let some = if self.choices.below(4) == 0 { self.choices.next() as u32 } else { u32::MAX };
                let turn = 1 + self.choices.below(48) as u32;
                (self.part(at, some), u32::MAX, turn)
            }
        }
    }

    /// Takes those lanes out of a group; all of them if none of those is in it.
    fn part(&mut self, at: usize, some: u32) -> Group {
        let group = self.groups[at];
        let taken = group.mask & some;
        if taken == 0 || taken == group.mask {
            return self.groups.swap_remove(at);
        }
        self.groups[at].mask &= !taken;
        Group { mask: taken, ..group }
    }

    /// Runs up to so many instructions, while some lane may go on; returns how many.
    pub(super) fn run(&mut self, run: &Run<'_>, common: &mut Common, turn: u32) -> Result<u32, Fault> {
        let mut used = 0;
        while used < turn && !self.groups.is_empty() {
            let (group, meets, most) = self.pick(run.schedule.order);
            used += self.run_group(run, common, group, meets, most.min(turn - used))?;
        }
        self.executed += u64::from(used);
        self.check_late(run, common)?;
        Ok(used)
    }

    fn run_group(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        Group { mut pc, mut mask }: Group,
        meets: u32,
        turn: u32,
    ) -> Result<u32, Fault> {
        let ops = &run.kernel.code.ops;
        let mut used = 0;
        while used < turn {
            let op = &ops[pc as usize];
            used += 1;
            if op.checks {
                self.check(run, common, op, mask)?;
            }
            let active = self.guarded(op, mask);
            match op.kind {
                Kind::Branch(target) if active == mask => pc = target,
                Kind::Branch(_) if active == 0 => pc += 1,
                Kind::Branch(target) => {
                    self.resume(target, active);
                    self.resume(pc + 1, mask & !active);
                    return Ok(used);
                }
                _ if active == 0 => pc += 1,
                Kind::Exit => {
                    self.exit(run, common, op, active)?;
                    mask &= !active;
                    pc += 1;
                    if mask == 0 {
                        return Ok(used);
                    }
                }
                Kind::Barrier { .. } | Kind::Warp(_) | Kind::Aligned(_) => {
                    self.resume(pc + 1, mask & !active);
                    self.meet(run, common, pc, active)?;
                    return Ok(used);
                }
                _ => {
                    self.execute(run, common, op, active)?;
                    pc += 1;
                }
            }
            if pc >= meets {
                break;
            }
        }
        self.resume(pc, mask);
        Ok(used)
    }

    /// The lanes of `mask` in which an instruction runs.
    fn guarded(&self, op: &Op, mask: u32) -> u32 {
        match op.guard {
            None => mask,
            Some((slot, negated)) => {
                let set = self.set(slot);
                mask & if negated { !set } else { set }
            }
        }
    }

    /// The lanes in which a predicate is set.
    pub(super) fn set(&self, slot: Slot) -> u32 {
        let row = &self.rows[slot as usize];
        row.iter().enumerate().fold(0, |set, (lane, value)| set | (*value as u32 & 1) << lane)
    }

    /// Whether lanes read what nothing has written. The guard is read by all, the rest where it is set.
    fn check(&self, run: &Run<'_>, common: &Common, op: &Op, mask: u32) -> Result<(), Fault> {
        let tracked = &run.kernel.code.tracked;
        let unwritten = |slot: Slot, mask: u32| match tracked[slot as usize] {
            true => mask & !self.defined[slot as usize],
            false => 0,
        };
        let found = |missing: u32, what: String| {
            let lane = missing.trailing_zeros();
            Err(self.fault(run, common, Code::LaunchFailed, op.line, lane, &what))
        };
        if let Some((slot, _)) = op.guard {
            let missing = unwritten(slot, mask);
            if missing != 0 {
                return found(missing, "its guard is a register that nothing has written".into());
            }
        }
        let active = self.guarded(op, mask);
        for (at, slot) in self.read_sources(op).iter().enumerate() {
            let missing = unwritten(*slot, active);
            if missing != 0 {
                return found(missing, format!("source {} is a register that nothing has written", at + 1));
            }
        }
        Ok(())
    }

    /// The sources that an instruction reads now: a product that replaces its accumulators does not read them.
    fn read_sources<'a>(&self, op: &'a Op) -> &'a [Slot] {
        if let Kind::Aligned(AlignedOp::Wgmma(_)) = op.kind {
            let before = op.sources.len() - op.dests.len();
            if self.set(op.sources[before - 1]) == 0 {
                return &op.sources[..before];
            }
        }
        &op.sources
    }

    /// Writes a register in some lanes.
    pub(super) fn write(&mut self, slot: Slot, values: &Row, mask: u32) {
        if slot == NOWHERE {
            return;
        }
        let row = &mut self.rows[slot as usize];
        if mask == u32::MAX {
            *row = *values;
        } else {
            for lane in each(mask) {
                row[lane] = values[lane];
            }
        }
        self.defined[slot as usize] |= mask;
    }

    pub(super) fn write_lane(&mut self, slot: Slot, lane: usize, value: u64) {
        if slot != NOWHERE {
            self.rows[slot as usize][lane] = value;
            self.defined[slot as usize] |= 1 << lane;
        }
    }

    fn exit(&mut self, run: &Run<'_>, common: &mut Common, op: &Op, mask: u32) -> Result<(), Fault> {
        self.line = op.line;
        self.finish_copies(run, common, mask, 0)?;
        self.exited |= mask;
        let lane = mask.trailing_zeros();
        common
            .exit(mask.count_ones())
            .map_err(|what| self.fault(run, common, Code::LaunchFailed, op.line, lane, &what))?;
        common.completed(run);
        // Those who waited for these lanes do so no longer.
        for at in (0..self.meetings.len()).rev() {
            self.try_meeting(run, common, at)?;
        }
        Ok(())
    }

    /// Lanes come to a barrier of the block.
    pub(super) fn arrive(
        &mut self,
        run: &Run<'_>,
        common: &mut Common,
        pc: u32,
        mask: u32,
    ) -> Result<(), Fault> {
        let op = &run.kernel.code.ops[pc as usize];
        let Kind::Barrier { aligned, counted, step } = op.kind else {
            unreachable!("only barriers come here")
        };
        let first = mask.trailing_zeros() as usize;
        let value = |at: usize| self.rows[op.sources[at] as usize][first];
        let uniform =
            |at: usize| each(mask).all(|lane| self.rows[op.sources[at] as usize][lane] == value(at));
        if !uniform(0) || counted && !uniform(1) {
            let what = "lanes that arrive together name different barriers";
            return Err(self.fault(run, common, Code::LaunchFailed, op.line, first as u32, what));
        }
        let fold = match step {
            BarrierStep::And => Some(Fold::And),
            BarrierStep::Or => Some(Fold::Or),
            BarrierStep::Popc => Some(Fold::Popc),
            BarrierStep::Sync | BarrierStep::Arrive => None,
        };
        let set = self.set(op.sources[op.sources.len() - 1]);
        let waits = step != BarrierStep::Arrive;
        let arrival = Arrival {
            warp: self.index as usize,
            pc: pc + 1,
            line: op.line,
            mask,
            // A warp counts whole where its threads are counted.
            threads: if aligned && counted { 32 } else { mask.count_ones() },
            number: value(0),
            expected: counted.then(|| value(1) as u32),
            waits,
            fold: fold.map(|fold| (op.dests[0], fold, set)),
        };
        if let Some(races) = &run.races {
            races.arrive(common.number, self.index, mask, arrival.number, waits);
        }
        let result = common.arrive(&arrival);
        result.map_err(|what| self.fault(run, common, Code::LaunchFailed, op.line, first as u32, &what))?;
        common.completed(run);
        if !waits {
            self.resume(pc + 1, mask);
        }
        Ok(())
    }

    fn execute(&mut self, run: &Run<'_>, common: &mut Common, op: &Op, mask: u32) -> Result<(), Fault> {
        if run.kernel.code.uses_wgmma {
            self.check_products(run, common, op, mask)?;
        }
        match &op.kind {
            Kind::Alu { fun, second, reads_carry, writes_carry } => {
                self.compute(op, mask, *fun, *second, *reads_carry, *writes_carry);
            }
            Kind::Move => {
                let row = self.rows[op.sources[0] as usize];
                self.write(op.dests[0], &row, mask);
            }
            Kind::Special(special) => {
                let row = self.special(run, common, *special);
                self.write(op.dests[0], &row, mask);
            }
            Kind::Pack(bits) => {
                let mut row = [0; 32];
                for (at, source) in op.sources.iter().enumerate() {
                    let part = &self.rows[*source as usize];
                    (0..32).for_each(|lane| row[lane] |= part[lane] << (at as u32 * bits));
                }
                self.write(op.dests[0], &row, mask);
            }
            Kind::Unpack(bits) => {
                let whole = self.rows[op.sources[0] as usize];
                for (at, dest) in op.dests.iter().enumerate() {
                    let part = whole.map(|value| value >> (at as u32 * bits) & (u64::MAX >> (64 - bits)));
                    self.write(*dest, &part, mask);
                }
            }
            Kind::ActiveMask => self.write(op.dests[0], &[u64::from(mask); 32], mask),
            Kind::Trap => {
                let what = "the program traps";
                return Err(self.fault(
                    run,
                    common,
                    Code::IllegalInstruction,
                    op.line,
                    mask.trailing_zeros(),
                    what,
                ));
            }
            Kind::Nothing => {}
            _ => return self.access(run, common, op, mask),
        }
        Ok(())
    }

    fn compute(
        &mut self,
        op: &Op,
        mask: u32,
        fun: Fun,
        second: Option<Fun>,
        reads_carry: bool,
        writes_carry: bool,
    ) {
        let Fun::Lane(by_lane) = fun else {
            let result = self.apply(op, fun);
            // Both results are of the same sources, which the first may replace.
            let other = second.map(|second| self.apply(op, second));
            self.write(op.dests[0], &result, mask);
            if let (Some(other), Some(dest)) = (other, op.dests.get(1)) {
                self.write(*dest, &other, mask);
            }
            return;
        };
        let mut sources = [0; 8];
        for lane in each(mask) {
            for (value, slot) in sources.iter_mut().zip(&op.sources) {
                *value = self.rows[*slot as usize][lane];
            }
            let carry = reads_carry && self.carry >> lane & 1 != 0;
            let out = by_lane(&sources[..op.sources.len()], carry);
            for (dest, value) in op.dests.iter().zip(out.values) {
                self.write_lane(*dest, lane, value);
            }
            if writes_carry {
                self.carry = self.carry & !(1 << lane) | u32::from(out.carry) << lane;
            }
        }
    }

    fn apply(&self, op: &Op, fun: Fun) -> Row {
        let row = |at: usize| &self.rows[op.sources[at] as usize];
        match fun {
            Fun::One(fun) => fun(row(0)),
            Fun::Two(fun) => fun(row(0), row(1)),
            Fun::Three(fun) => fun(row(0), row(1), row(2)),
            Fun::Lane(_) => unreachable!("computed lane by lane"),
        }
    }

    fn special(&self, run: &Run<'_>, common: &Common, special: Special) -> Row {
        let (launch, model) = (run.launch, run.model);
        let [block, grid] = [launch.block, launch.grid];
        let by_lane = |value: fn(u32) -> u32| std::array::from_fn(|lane| u64::from(value(lane as u32)));
        let same = |value: u64| [value; 32];
        match special {
            Special::Tid(axis) => self.threads.map(|thread| u64::from(thread[axis])),
            Special::Ntid(axis) => same(u64::from(block[axis])),
            Special::Ctaid(axis) => same(u64::from(common.id[axis])),
            Special::Nctaid(axis) => same(u64::from(grid[axis])),
            Special::LaneId => by_lane(|lane| lane),
            Special::WarpId => same(u64::from(self.index)),
            Special::WarpCount => same(u64::from(model.threads_per_multiprocessor / 32)),
            Special::SmId => same(common.number % u64::from(model.multiprocessors)),
            Special::SmCount => same(u64::from(model.multiprocessors)),
            Special::GridId => same(run.schedule.seed),
            Special::MaskEq => by_lane(|lane| 1 << lane),
            Special::MaskLt => by_lane(|lane| (1 << lane) - 1),
            Special::MaskLe => by_lane(|lane| u32::MAX >> (31 - lane)),
            Special::MaskGt => by_lane(|lane| !(u32::MAX >> (31 - lane))),
            Special::MaskGe => by_lane(|lane| !((1 << lane) - 1)),
            Special::Clock => same(u64::from(run.start.elapsed().as_nanos() as u32)),
            Special::Clock64 | Special::GlobalTimer => same(run.start.elapsed().as_nanos() as u64),
            Special::DynamicShared => same(u64::from(launch.shared_bytes)),
            Special::TotalShared => same(u64::from(launch.shared_bytes + run.kernel.shared_bytes)),
        }
    }
}
