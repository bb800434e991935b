//! Registers for small functions, found in a tenth of the time that `regalloc2` takes.
//!
//! A live range is a row of bits, two for each step (before it and behind it), so a few words tell whether two ranges
//! meet. Values that jumps hand on are joined with the parameters they become where nothing overlaps. The longest range
//! chooses first. One that finds no register takes it from those that cost least in memory, or goes to memory itself: what is
//! there is loaded into a register for each use and stored after each assignment.
//!
//! Not here: ranges in registers for part of their life. Long functions, those that call helpers, and those that would have
//! values in memory that loops need are left to `regalloc2`, which splits ranges.

use super::allocate::Plan;
use regalloc2::{
    Allocation, Edit, Function as _, Inst, MachineEnv, Operand, OperandConstraint, OperandKind, OperandPos,
    Output, PReg, PRegSet, ProgPoint, RegClass, SpillSlot, VReg,
};
use smallvec::SmallVec;

/// Steps of the longest function that is tried: rows of bits grow with it, and so does their number.
const STEPS_MAX: usize = 512;
/// Points of a value that the next step uses: two for each step.
const SHORT: u32 = 4;
/// How much more often a loop's lines run than those around it.
const LOOP_FACTOR: f32 = 8.0;
/// How often cold lines run.
const COLD_FACTOR: f32 = 1.0 / 64.0;
/// What a vector in memory may cost: about one use on a way that is taken once in a launch.
const MEMORY_COST_MAX: f32 = 1.0;
const NONE: u32 = u32::MAX;

/// Rows of bits.
struct Rows {
    words: usize,
    bits: Vec<u64>,
}

impl Rows {
    fn new(rows: usize, columns: usize) -> Rows {
        let words = columns.div_ceil(64);
        Rows { words, bits: vec![0; rows * words] }
    }

    fn row(&self, at: usize) -> &[u64] {
        &self.bits[at * self.words..(at + 1) * self.words]
    }

    fn row_mut(&mut self, at: usize) -> &mut [u64] {
        &mut self.bits[at * self.words..(at + 1) * self.words]
    }

    fn set(&mut self, row: usize, column: usize) {
        self.bits[row * self.words + column / 64] |= 1 << (column % 64);
    }

    /// Sets the columns from `first` to `last`.
    fn fill(&mut self, row: usize, first: usize, last: usize) {
        let (low, high) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
        let words = &mut self.row_mut(row)[first / 64..=last / 64];
        match words {
            [one] => *one |= low & high,
            [start, middle @ .., end] => {
                *start |= low;
                middle.fill(u64::MAX);
                *end |= high;
            }
            [] => {}
        }
    }

    fn push_row(&mut self) -> usize {
        self.bits.resize(self.bits.len() + self.words, 0);
        self.bits.len() / self.words - 1
    }
}

/// The words that have bits: the first, and the end of the last.
fn span(row: &[u64]) -> (u16, u16) {
    let first = row.iter().position(|word| *word != 0).unwrap_or(0);
    (first as u16, row.iter().rposition(|word| *word != 0).map_or(first, |last| last + 1) as u16)
}

fn ones(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(at, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(at * 64 + bit)
        })
    })
}

/// Where a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    Nowhere,
    /// One of [`Fit::registers`].
    Register(u8),
    /// One of [`Fit::slots`].
    Slot(u32),
}

/// The whole life of a value and those joined with it, or one use of a value in memory.
#[derive(Clone, Copy)]
struct Range {
    class: RegClass,
    home: Home,
    /// What it costs in memory; a use that must be in a register costs more than anything.
    cost: f32,
    /// The same for each point where it is alive: what is alive for long and seldom used leaves first.
    weight: f32,
    /// The words of its row that have bits.
    words: (u16, u16),
    /// A value that it is moved from or to.
    near: u32,
    /// The register that it comes in.
    fixed: Option<PReg>,
}

impl Range {
    const NEW: Range = Range {
        class: RegClass::Int,
        home: Home::Nowhere,
        cost: 0.0,
        weight: 0.0,
        words: (0, 0),
        near: NONE,
        fixed: None,
    };
}

struct Fit<'a> {
    plan: &'a Plan<'a>,
    /// By range: when it is alive.
    live: Rows,
    ranges: Vec<Range>,
    /// By value: the range that it is part of.
    groups: Vec<u32>,
    /// By operand: the range of this use alone.
    alone: Vec<u32>,
    registers: SmallVec<[PReg; 64]>,
    /// By class: its registers among them.
    classes: [std::ops::Range<usize>; 3],
    /// By register: when it is taken, when steps destroy it, and the ranges in it.
    busy: Rows,
    destroyed: Rows,
    owners: Vec<SmallVec<[u32; 8]>>,
    /// Memory on the stack: in units of 8 bytes, and when it is taken.
    slots: Vec<(RegClass, usize)>,
    slots_busy: Rows,
    /// Whether more went to memory since its uses were looked for.
    spilled: bool,
    /// Uses of values in memory that have no registers yet.
    work: Vec<u32>,
    output: Output,
}

/// Registers for a function, or `None` where `regalloc2` is the better choice.
pub(super) fn allocate(plan: &Plan<'_>, env: &MachineEnv) -> Option<Output> {
    if plan.steps.len() > STEPS_MAX || plan.calls {
        return None;
    }
    let points = 2 * plan.steps.len();
    let mut registers: SmallVec<[PReg; 64]> = SmallVec::new();
    let classes = env.preferred_regs_by_class.map(|class| {
        let first = registers.len();
        registers.extend(class);
        first..registers.len()
    });
    let mut fit = Fit {
        plan,
        live: Rows::new(plan.vregs, points),
        ranges: vec![Range::NEW; plan.vregs],
        groups: (0..plan.vregs as u32).collect(),
        alone: vec![NONE; plan.operands.len()],
        busy: Rows::new(registers.len(), points),
        destroyed: Rows::new(registers.len(), points),
        owners: std::iter::repeat_with(SmallVec::new).take(registers.len()).collect(),
        registers,
        classes,
        slots: Vec::new(),
        slots_busy: Rows::new(0, points),
        spilled: false,
        work: Vec::new(),
        output: Output::default(),
    };
    let depths = plan.function.loop_depths();
    fit.find_ranges(&depths);
    fit.reserve();
    fit.join(&depths);
    fit.place_all()?;
    fit.write(env)?;
    Some(fit.output)
}

impl Fit<'_> {
    fn operands(&self, step: usize) -> std::ops::Range<usize> {
        let start = if step == 0 { 0 } else { self.plan.ends[step - 1] as usize };
        start..self.plan.ends[step] as usize
    }

    /// When each value is alive, and what it would cost in memory.
    fn find_ranges(&mut self, depths: &[u32]) {
        let plan = self.plan;
        let (live_in, live_out) = liveness(plan);
        // The last point where a value is needed that is alive at the step at hand.
        let mut ends = vec![NONE; plan.vregs];
        for (at, insts) in plan.ranges.iter().enumerate() {
            let (first, last) = (insts.first().index(), insts.last().index());
            let cold = if plan.function.blocks[at].cold { COLD_FACTOR } else { 1.0 };
            let often = LOOP_FACTOR.powi(depths[at].min(8) as i32) * cold;
            ones(live_out.row(at)).for_each(|value| ends[value] = 2 * last as u32 + 1);
            for arg in &plan.args[at] {
                ends[arg.vreg()] = 2 * last as u32 + 1;
                self.note(*arg, often);
            }
            for step in (first..=last).rev() {
                // The result stands behind the operands.
                for operand in plan.operands[self.operands(step)].iter().rev() {
                    self.note(operand.vreg(), often);
                    let (first, last) = points(step, operand);
                    let end = &mut ends[operand.vreg().vreg()];
                    match operand.kind() {
                        OperandKind::Use if *end == NONE => *end = last as u32,
                        OperandKind::Use => {}
                        OperandKind::Def => {
                            let end = if *end == NONE { 2 * step + 1 } else { *end as usize };
                            ends[operand.vreg().vreg()] = NONE;
                            self.live.fill(operand.vreg().vreg(), first, end);
                        }
                    }
                }
            }
            plan.params[at].iter().for_each(|param| self.note(*param, often));
            let params = plan.params[at].iter().map(|param| param.vreg());
            for value in ones(live_in.row(at)).chain(params) {
                let end = std::mem::replace(&mut ends[value], NONE);
                let end = if end == NONE { 2 * first } else { end as usize };
                self.live.fill(value, 2 * first, end);
            }
        }
    }

    fn note(&mut self, value: VReg, often: f32) {
        let range = &mut self.ranges[value.vreg()];
        range.class = value.class();
        range.cost += often;
    }

    /// Keeps values out of registers that are destroyed while they are alive, and finds what the function comes with.
    fn reserve(&mut self) {
        let clobbers = self.plan.clobbers.iter().enumerate();
        for (step, clobbers) in clobbers.filter(|(_, clobbers)| **clobbers != PRegSet::empty()) {
            for clobber in *clobbers {
                if let Some(at) = self.registers.iter().position(|reg| *reg == clobber) {
                    self.destroyed.set(at, 2 * step + 1);
                }
            }
        }
        self.busy.bits.copy_from_slice(&self.destroyed.bits);
        for operand in &self.plan.operands[self.operands(0)] {
            if let OperandConstraint::FixedReg(reg) = operand.constraint() {
                self.ranges[operand.vreg().vreg()].fixed = Some(reg);
            }
        }
    }

    /// Joins what jumps hand on with the parameters that it becomes, where it happens most often first.
    fn join(&mut self, depths: &[u32]) {
        let plan = self.plan;
        let mut jumps: SmallVec<[usize; 64]> =
            (0..plan.args.len()).filter(|at| !plan.args[*at].is_empty()).collect();
        jumps.sort_by_key(|at| (plan.function.blocks[*at].cold, std::cmp::Reverse(depths[*at])));
        for at in jumps {
            let params = &plan.params[plan.succs[at][0].index()];
            for (arg, param) in plan.args[at].iter().zip(params) {
                self.join_two(arg.vreg(), param.vreg());
            }
        }
        for value in 0..plan.vregs {
            self.groups[value] = self.group(value);
            if self.groups[value] == value as u32 {
                self.ranges[value].words = span(self.live.row(value));
            }
        }
    }

    fn group(&self, value: usize) -> u32 {
        let mut group = value as u32;
        while self.groups[group as usize] != group {
            group = self.groups[group as usize];
        }
        group
    }

    fn join_two(&mut self, a: usize, b: usize) {
        let (a, b) = (self.group(a) as usize, self.group(b) as usize);
        if a == b {
            return;
        }
        if self.live.row(a).iter().zip(self.live.row(b)).any(|(a, b)| a & b != 0) {
            (self.ranges[a].near, self.ranges[b].near) = (b as u32, a as u32);
            return;
        }
        for word in 0..self.live.words {
            self.live.bits[a * self.live.words + word] |= self.live.bits[b * self.live.words + word];
        }
        self.groups[b] = a as u32;
        self.ranges[a].cost += self.ranges[b].cost;
        self.ranges[a].fixed = self.ranges[a].fixed.or(self.ranges[b].fixed);
    }

    /// A register for every range that is not in memory.
    fn place_all(&mut self) -> Option<()> {
        let length = |value: usize| {
            let (first, end) = self.ranges[value].words;
            let words = &self.live.row(value)[usize::from(first)..usize::from(end)];
            words.iter().map(|word| word.count_ones()).sum::<u32>()
        };
        let mut order: Vec<(u32, u32)> = (0..self.plan.vregs)
            .filter(|value| self.groups[*value] == *value as u32)
            .map(|value| (length(value), value as u32))
            .filter(|(length, _)| *length > 0)
            .collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        for (length, range) in &order {
            let range = &mut self.ranges[*range as usize];
            // Memory has no room to give between a value and its use in the next step.
            range.weight = if *length <= SHORT { f32::MAX } else { range.cost / *length as f32 };
        }
        for (_, range) in order {
            self.place(range)?;
        }
        while std::mem::take(&mut self.spilled) {
            self.find_uses();
            while let Some(range) = self.work.pop() {
                self.place(range)?;
            }
        }
        Some(())
    }

    fn place(&mut self, range: u32) -> Option<()> {
        let Range { class, cost, weight, near, fixed, .. } = self.ranges[range as usize];
        let near = self.groups.get(near as usize).map(|group| self.ranges[*group as usize].home);
        let near = if let Some(Home::Register(at)) = near { Some(usize::from(at)) } else { None };
        let fixed = fixed.and_then(|fixed| self.registers.iter().position(|reg| *reg == fixed));
        let all = || self.classes[class as usize].clone();
        let is_free = |at: &usize| !self.meets(self.busy.row(*at), range);
        if let Some(at) = fixed.into_iter().chain(near).chain(all()).find(is_free) {
            self.take(at, range);
            return Some(());
        }
        // What must leave for it, where that costs least.
        let (mut least, mut best) = (weight, None);
        for at in all().filter(|at| !self.meets(self.destroyed.row(*at), range)) {
            let sum: f32 = self.in_the_way(at, range).map(|other| self.ranges[other as usize].weight).sum();
            if sum < least {
                (least, best) = (sum, Some(at));
            }
        }
        let Some(at) = best else {
            return if cost.is_infinite() { None } else { self.spill(range) };
        };
        for other in self.in_the_way(at, range).collect::<SmallVec<[u32; 8]>>() {
            self.owners[at].retain(|owner| *owner != other);
            let (live, busy) = (self.live.row(other as usize), self.busy.row_mut(at));
            busy.iter_mut().zip(live).for_each(|(busy, live)| *busy &= !live);
            self.spill(other)?;
        }
        self.take(at, range);
        Some(())
    }

    /// The ranges in a register that meet another.
    fn in_the_way(&self, at: usize, range: u32) -> impl Iterator<Item = u32> {
        let owners = self.owners[at].iter().copied();
        owners.filter(move |other| self.meets(self.live.row(*other as usize), range))
    }

    fn meets(&self, row: &[u64], range: u32) -> bool {
        let (first, end) = self.ranges[range as usize].words;
        let words = usize::from(first)..usize::from(end);
        row[words.clone()].iter().zip(&self.live.row(range as usize)[words]).any(|(a, b)| a & b != 0)
    }

    fn take(&mut self, at: usize, range: u32) {
        let live = self.live.row(range as usize);
        self.busy.row_mut(at).iter_mut().zip(live).for_each(|(busy, live)| *busy |= live);
        self.owners[at].push(range);
        self.ranges[range as usize].home = Home::Register(at as u8);
    }

    /// Puts a range into memory.
    fn spill(&mut self, range: u32) -> Option<()> {
        let Range { class, cost, .. } = self.ranges[range as usize];
        if class == RegClass::Float && cost > MEMORY_COST_MAX {
            return None;
        }
        let free = |at: &usize| self.slots[*at].0 == class && !self.meets(self.slots_busy.row(*at), range);
        let slot = (0..self.slots.len()).find(free).unwrap_or_else(|| self.new_slot(class));
        let live = self.live.row(range as usize);
        self.slots_busy.row_mut(slot).iter_mut().zip(live).for_each(|(busy, live)| *busy |= live);
        self.ranges[range as usize].home = Home::Slot(slot as u32);
        self.spilled = true;
        Some(())
    }

    /// Asks for a register for each use of what is in memory.
    fn find_uses(&mut self) {
        for step in 0..self.plan.steps.len() {
            for at in self.operands(step) {
                let operand = self.plan.operands[at];
                let home = self.ranges[self.groups[operand.vreg().vreg()] as usize].home;
                let in_memory =
                    matches!(home, Home::Slot(_)) && operand.constraint() == OperandConstraint::Reg;
                if in_memory && self.alone[at] == NONE {
                    self.alone[at] = self.use_alone(step, at);
                }
            }
        }
    }

    fn new_slot(&mut self, class: RegClass) -> usize {
        let units = self.plan.spillslot_size(class);
        let start = self.output.num_spillslots.next_multiple_of(units);
        self.output.num_spillslots = start + units;
        self.slots.push((class, start));
        self.slots_busy.push_row()
    }

    /// The range of one operand, or of an earlier one of the step that reads the same.
    fn use_alone(&mut self, step: usize, at: usize) -> u32 {
        let operand = self.plan.operands[at];
        if let Some(same) =
            (self.operands(step).start..at).find(|other| self.plan.operands[*other] == operand)
        {
            return self.alone[same];
        }
        let row = self.live.push_row();
        let (first, last) = points(step, &operand);
        self.live.fill(row, first, last);
        let words = span(self.live.row(row));
        let cost = f32::INFINITY;
        self.ranges.push(Range { class: operand.class(), cost, weight: cost, words, ..Range::NEW });
        self.work.push(row as u32);
        row as u32
    }

    fn home(&self, range: u32) -> Allocation {
        match self.ranges[range as usize].home {
            Home::Nowhere => Allocation::none(),
            Home::Register(at) => Allocation::reg(self.registers[usize::from(at)]),
            Home::Slot(at) => Allocation::stack(SpillSlot::new(self.slots[at as usize].1)),
        }
    }

    fn home_of(&self, value: VReg) -> Allocation {
        self.home(self.groups[value.vreg()])
    }

    /// Writes down where operands are, and the moves.
    fn write(&mut self, env: &MachineEnv) -> Option<()> {
        let plan = self.plan;
        self.output.allocs.reserve(plan.operands.len());
        self.output.inst_alloc_offsets.reserve(plan.steps.len());
        for (block, insts) in plan.ranges.iter().enumerate() {
            for inst in insts.iter() {
                self.write_step(inst, env)?;
            }
            let Some(to) = plan.succs[block].first().filter(|_| !plan.args[block].is_empty()) else {
                continue;
            };
            let pairs = plan.args[block].iter().zip(&plan.params[to.index()]);
            let moves = pairs.map(|(arg, param)| (self.home_of(*arg), self.home_of(*param), arg.class()));
            self.moves(ProgPoint::before(insts.last()), moves.collect(), env)?;
        }
        Some(())
    }

    fn write_step(&mut self, inst: Inst, env: &MachineEnv) -> Option<()> {
        let (start, mut arrived) = (self.output.allocs.len(), Moves::new());
        self.output.inst_alloc_offsets.push(start as u32);
        for at in self.operands(inst.index()) {
            let operand = self.plan.operands[at];
            let (home, alone) = (self.home_of(operand.vreg()), self.alone[at]);
            let place = match operand.constraint() {
                OperandConstraint::FixedReg(reg) => {
                    arrived.push((Allocation::reg(reg), home, operand.class()));
                    Allocation::reg(reg)
                }
                _ if alone == NONE => home,
                _ => self.home(alone),
            };
            let edit = |from, to| Edit::Move { from, to };
            match operand.kind() {
                OperandKind::Def if alone != NONE => {
                    self.output.edits.push((ProgPoint::after(inst), edit(place, home)));
                }
                OperandKind::Use if alone != NONE && !self.output.allocs[start..].contains(&place) => {
                    self.output.edits.push((ProgPoint::before(inst), edit(home, place)));
                }
                OperandKind::Def | OperandKind::Use => {}
            }
            self.output.allocs.push(place);
        }
        self.moves(ProgPoint::after(inst), arrived, env)
    }

    /// Moves that happen at once, one after the other.
    fn moves(&mut self, at: ProgPoint, mut moves: Moves, env: &MachineEnv) -> Option<()> {
        moves.retain(|(from, to, _)| from != to);
        while !moves.is_empty() {
            let is_read = |place: Allocation| moves.iter().any(|(from, ..)| *from == place);
            let ready = moves.iter().position(|(_, to, _)| !is_read(*to));
            let (from, to, class) = moves[ready.unwrap_or(0)];
            let scratch = Allocation::reg(env.scratch_by_class[class as usize]?);
            let through = ready.is_none() || from.is_stack() && to.is_stack();
            if through && is_read(scratch) {
                return None;
            }
            let mut edit = |from, to| self.output.edits.push((at, Edit::Move { from, to }));
            if through {
                edit(from, scratch);
            }
            match ready {
                Some(ready) => {
                    edit(if through { scratch } else { from }, to);
                    moves.swap_remove(ready);
                }
                // A circle, which has an end now.
                None => moves.iter_mut().filter(|one| one.0 == from).for_each(|one| one.0 = scratch),
            }
        }
        Some(())
    }
}

/// Moves between places of a class.
type Moves = SmallVec<[(Allocation, Allocation, RegClass); 8]>;

/// The first and the last point at which an operand by itself needs a register.
fn points(step: usize, operand: &Operand) -> (usize, usize) {
    let (before, behind) = (2 * step, 2 * step + 1);
    match (operand.kind(), operand.pos()) {
        (OperandKind::Use, OperandPos::Early) => (before, before),
        (OperandKind::Def, OperandPos::Late) => (behind, behind),
        (OperandKind::Use, OperandPos::Late) | (OperandKind::Def, OperandPos::Early) => (before, behind),
    }
}

/// The values that are alive where blocks start and where they end, without what jumps hand on.
fn liveness(plan: &Plan<'_>) -> (Rows, Rows) {
    let blocks = plan.ranges.len();
    let mut live_in = Rows::new(blocks, plan.vregs);
    let (mut assigned, mut live_out) = (Rows::new(blocks, plan.vregs), Rows::new(blocks, plan.vregs));
    for (at, insts) in plan.ranges.iter().enumerate() {
        let start = insts.first().index().checked_sub(1).map_or(0, |step| plan.ends[step]);
        // Values are assigned once and before they are read, so what a block assigns it does not take from elsewhere.
        for operand in &plan.operands[start as usize..plan.ends[insts.last().index()] as usize] {
            match operand.kind() {
                OperandKind::Use => live_in.set(at, operand.vreg().vreg()),
                OperandKind::Def => assigned.set(at, operand.vreg().vreg()),
            }
        }
        plan.args[at].iter().for_each(|arg| live_in.set(at, arg.vreg()));
        plan.params[at].iter().for_each(|param| assigned.set(at, param.vreg()));
        let own = live_in.row_mut(at).iter_mut().zip(assigned.row(at));
        own.for_each(|(used, assigned)| *used &= !assigned);
    }
    let (words, mut changed) = (live_in.words, true);
    while changed {
        changed = false;
        for at in (0..blocks).rev() {
            for word in 0..words {
                let mut out = 0;
                for next in &plan.succs[at] {
                    out |= live_in.bits[next.index() * words + word];
                }
                let place = at * words + word;
                live_out.bits[place] = out;
                let more = live_in.bits[place] | out & !assigned.bits[place];
                changed |= more != live_in.bits[place];
                live_in.bits[place] = more;
            }
        }
    }
    (live_in, live_out)
}
