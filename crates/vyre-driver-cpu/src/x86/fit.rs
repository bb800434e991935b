//! Register allocation for functions of any length, in time that grows linearly with the length.
//!
//! A live range is a set of points, two for each step: before it and after it. Values that jumps pass to block parameters are
//! coalesced with those parameters where the ranges do not overlap. The longest range chooses first. A range that finds no free
//! register evicts the ranges whose spill is cheapest, or is spilled itself. A spilled value is stored after its assignment;
//! instructions read spilled vectors from the stack, scalars and masks are reloaded for each use. Registers that a helper call
//! clobbers are saved around it.
//!
//! Why not the allocators of `regalloc2`: compiling is part of a first dispatch, and on small functions this allocator takes a fifth
//! of their time (measured when it replaced them there). Its first version left long functions and spills in loops to
//! `regalloc2`, because each live range was a row of bits as long as the function. Now a range is a list of points and a spilled
//! vector is a memory operand, so this one serves functions of all lengths, and there is one allocator to test. `regalloc2`'s
//! checker still verifies every allocation in debug builds.
//!
//! Not here: live range splitting. A range is in one register, or on the stack, for its whole life.

use super::allocate::{Plan, scratch};
use regalloc2::{
    Allocation, Edit, Function as _, Inst, InstRange, MachineEnv, Operand, OperandConstraint, OperandKind,
    OperandPos, Output, PReg, PRegSet, ProgPoint, RegClass, SpillSlot, VReg,
};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The points of a value that only the next step uses: two for each step.
const SHORT: u32 = 4;
/// The spill weight of a point of such a value: its instruction needs a register, so a spill frees nothing there.
const SHORT_WEIGHT: f32 = 1e30;
/// How much more often a loop's body runs than the code around it.
const LOOP_FACTOR: f32 = 8.0;
/// How often cold code runs.
const COLD_FACTOR: f32 = 1.0 / 64.0;
/// What a register that is saved around a call costs: a store and a load.
const SAVE_COST: f32 = 2.0;
const NONE: u32 = u32::MAX;

/// Points from the first to the last.
type Piece = (u32, u32);

/// The words of a row of bits that a piece is in, and its bits there.
fn words((first, last): Piece) -> impl Iterator<Item = (usize, u64)> {
    // A range without its end in it takes fewer steps to walk.
    (first / 64..last / 64 + 1).map(move |word| {
        let low = if word == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
        let high = if word == last / 64 { u64::MAX >> (63 - last % 64) } else { u64::MAX };
        (word as usize, low & high)
    })
}

/// Where a range is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    Nowhere,
    /// One of [`Fit::registers`].
    Register(u8),
    /// On the stack, in units of 8 bytes; [`NONE`] until that is decided.
    Slot(u32),
}

/// The live range of a value and of those coalesced with it, or one use of a spilled value.
#[derive(Clone, Copy)]
struct Range {
    class: RegClass,
    home: Home,
    /// The cost of a spill; a use that needs a register costs more than anything.
    cost: f32,
    /// The same for each point where it is alive: what is alive for long and seldom used leaves first.
    weight: f32,
    /// Where its pieces are among [`Fit::pieces`], in ascending order and apart.
    pieces: (u32, u32),
    /// A value that it is moved from or to.
    near: u32,
    /// The register that it comes in.
    fixed: Option<PReg>,
    /// Whether it outlives a call.
    crosses: bool,
    /// The last value joined with this one, in a circle.
    next: u32,
}

impl Range {
    const NEW: Range = Range {
        class: RegClass::Int,
        home: Home::Nowhere,
        cost: 0.0,
        weight: 0.0,
        pieces: (0, 0),
        near: NONE,
        fixed: None,
        crosses: false,
        next: NONE,
    };
}

/// Where a value is assigned, and the last of its uses.
#[derive(Clone, Copy)]
struct Value {
    block: u32,
    point: u32,
    /// The operand that assigns it; [`NONE`] for parameters.
    operand: u32,
    uses: u32,
}

#[derive(Clone, Copy)]
struct Use {
    block: u32,
    point: u32,
    /// [`NONE`] where a jump hands it on.
    operand: u32,
    /// The use before it.
    next: u32,
}

/// The points of one word at which a range has a register.
#[derive(Clone, Copy)]
struct Owner {
    bits: u64,
    range: u32,
    next: u32,
}

struct Fit<'a> {
    plan: &'a Plan<'a>,
    values: Vec<Value>,
    uses: Vec<Use>,
    pieces: Vec<Piece>,
    ranges: Vec<Range>,
    /// By value: the range that it is part of.
    groups: Vec<u32>,
    /// By operand: the range of this use alone.
    alone: Vec<u32>,
    /// By value: where it is, once that is decided.
    homes: Vec<Allocation>,
    registers: SmallVec<[PReg; 64]>,
    /// By class: its registers among them.
    classes: [std::ops::Range<usize>; 3],
    /// By block: its first and its last point.
    blocks: Vec<Piece>,
    /// Words of a row of points.
    words: usize,
    /// By register, rows of points: when it is taken, and when steps destroy it.
    busy: Vec<u64>,
    destroyed: Vec<u64>,
    /// By register and word: the first of those in it.
    heads: Vec<u32>,
    owners: Vec<Owner>,
    /// Owners that are no more.
    unused: Vec<u32>,
    /// The words that the range in hand has points in, each once, and its points there.
    outline: Vec<(usize, u64)>,
    /// By range: the last look that found it in the way.
    seen: Vec<u32>,
    looks: u32,
    /// By class: places on the stack for registers around calls.
    saves: [Vec<SpillSlot>; 3],
    /// Uses of values in memory that have no registers yet.
    work: Vec<u32>,
    output: Output,
}

/// Registers for a function; `None` where it is too long.
pub(super) fn allocate(plan: &Plan<'_>, env: &MachineEnv) -> Option<Output> {
    if plan.vregs >= VReg::MAX || plan.steps.len() >= 1 << 30 {
        return None;
    }
    let mut registers: SmallVec<[PReg; 64]> = SmallVec::new();
    let classes = env.preferred_regs_by_class.map(|class| {
        let first = registers.len();
        registers.extend(class);
        first..registers.len()
    });
    let words = (2 * plan.steps.len()).div_ceil(64);
    let rows = registers.len() * words;
    // Room for the uses of values in memory too.
    let mut ranges = Vec::with_capacity(2 * plan.vregs);
    ranges.resize(plan.vregs, Range::NEW);
    let block = |insts: &InstRange| (2 * insts.first().index() as u32, 2 * insts.last().index() as u32 + 1);
    let nowhere = Value { block: NONE, point: 0, operand: NONE, uses: NONE };
    let mut fit = Fit {
        plan,
        values: vec![nowhere; plan.vregs],
        uses: Vec::with_capacity(plan.operands.len()),
        pieces: Vec::with_capacity(4 * plan.vregs),
        ranges,
        groups: (0..plan.vregs as u32).collect(),
        alone: vec![NONE; plan.operands.len()],
        homes: Vec::new(),
        registers,
        classes,
        blocks: plan.ranges.iter().map(block).collect(),
        words,
        busy: Vec::new(),
        destroyed: vec![0; rows],
        heads: vec![NONE; rows],
        owners: Vec::with_capacity(4 * plan.vregs),
        unused: Vec::new(),
        outline: Vec::new(),
        seen: Vec::new(),
        looks: 0,
        saves: [const { Vec::new() }; 3],
        work: Vec::new(),
        output: Output::default(),
    };
    let depths = plan.function.loop_depths();
    fit.find_values(&depths);
    fit.find_pieces();
    fit.join(&depths);
    fit.reserve(&depths);
    fit.place_all()?;
    fit.give_slots();
    fit.write();
    Some(fit.output)
}

impl Fit<'_> {
    fn operands(&self, step: usize) -> std::ops::Range<usize> {
        let start = if step == 0 { 0 } else { self.plan.ends[step - 1] as usize };
        start..self.plan.ends[step] as usize
    }

    fn often(&self, block: usize, depths: &[u32]) -> f32 {
        let cold = if self.plan.function.blocks[block].cold { COLD_FACTOR } else { 1.0 };
        LOOP_FACTOR.powi(depths[block].min(8) as i32) * cold
    }

    // Lives.

    /// Where each value is assigned and used, and what it would cost in memory.
    fn find_values(&mut self, depths: &[u32]) {
        let plan = self.plan;
        for (at, insts) in plan.ranges.iter().enumerate() {
            let (often, block) = (self.often(at, depths), at as u32);
            let (first, last) = self.blocks[at];
            for param in &plan.params[at] {
                self.define(*param, block, first, NONE, often);
            }
            for step in insts.iter().map(Inst::index) {
                for place in self.operands(step) {
                    let operand = plan.operands[place];
                    let (first, last) = points(step, &operand);
                    match operand.kind() {
                        OperandKind::Def => self.define(operand.vreg(), block, first, place as u32, often),
                        OperandKind::Use => self.use_(operand.vreg(), block, last, place as u32, often),
                    }
                    if let OperandConstraint::FixedReg(reg) = operand.constraint() {
                        self.ranges[operand.vreg().vreg()].fixed = Some(reg);
                    }
                }
            }
            for arg in &plan.args[at] {
                self.use_(*arg, block, last, NONE, often);
            }
        }
    }

    fn define(&mut self, value: VReg, block: u32, point: u32, operand: u32, often: f32) {
        let at = value.vreg();
        self.values[at] = Value { block, point, operand, uses: self.values[at].uses };
        self.ranges[at].class = value.class();
        self.ranges[at].cost += often;
    }

    fn use_(&mut self, value: VReg, block: u32, point: u32, operand: u32, often: f32) {
        let at = value.vreg();
        let next = std::mem::replace(&mut self.values[at].uses, self.uses.len() as u32);
        self.uses.push(Use { block, point, operand, next });
        self.ranges[at].cost += often;
    }

    /// When each value is alive: from its assignment to its uses, backward through the blocks between. Those stand behind
    /// the block that assigns it.
    fn find_pieces(&mut self) {
        // By block: the last value found alive where it starts, and until when.
        let mut marks = vec![(NONE, 0); self.blocks.len()];
        let mut work: Vec<u32> = Vec::new();
        for at in 0..self.values.len() {
            let Value { block: home, point, mut uses, .. } = self.values[at];
            if home == NONE {
                continue;
            }
            // A step that assigns has the register until it is done.
            let (value, mut end, mut last_block) = (at as u32, point | 1, home);
            let mut reach = |block: u32, last: u32, work: &mut Vec<u32>| {
                if block == home {
                    end = end.max(last);
                    return;
                }
                let mark = &mut marks[block as usize];
                if mark.0 == value {
                    mark.1 = mark.1.max(last);
                } else {
                    *mark = (value, last);
                    last_block = last_block.max(block);
                    work.push(block);
                }
            };
            while uses != NONE {
                let Use { block, point, next, .. } = self.uses[uses as usize];
                uses = next;
                reach(block, point, &mut work);
                while let Some(block) = work.pop() {
                    for before in &self.plan.preds[block as usize] {
                        reach(before.index() as u32, self.blocks[before.index()].1, &mut work);
                    }
                }
            }
            let start = self.pieces.len();
            self.pieces.push((point, end));
            for block in home + 1..=last_block {
                let (found, last) = marks[block as usize];
                if found == value {
                    self.add_piece((self.blocks[block as usize].0, last));
                }
            }
            self.ranges[at].pieces = (start as u32, self.pieces.len() as u32);
        }
    }

    /// Adds a piece behind the last one, or to it where they touch.
    fn add_piece(&mut self, (first, last): Piece) {
        match self.pieces.last_mut() {
            Some(before) if before.1 + 1 == first => before.1 = last,
            _ => self.pieces.push((first, last)),
        }
    }

    fn pieces(&self, range: usize) -> &[Piece] {
        let (start, end) = self.ranges[range].pieces;
        &self.pieces[start as usize..end as usize]
    }

    /// Joins what jumps hand on with the parameters that it becomes, where it happens most often first.
    fn join(&mut self, depths: &[u32]) {
        let plan = self.plan;
        let mut jumps: SmallVec<[usize; 64]> =
            (0..plan.args.len()).filter(|at| !plan.args[*at].is_empty()).collect();
        jumps.sort_by_key(|at| (plan.function.blocks[*at].cold, Reverse(depths[*at])));
        for at in jumps {
            let params = &plan.params[plan.succs[at][0].index()];
            for (arg, param) in plan.args[at].iter().zip(params) {
                self.join_two(arg.vreg(), param.vreg());
            }
        }
        for value in 0..plan.vregs {
            self.groups[value] = self.group(value);
        }
    }

    fn group(&mut self, value: usize) -> u32 {
        let mut at = value;
        while self.groups[at] as usize != at {
            let above = self.groups[self.groups[at] as usize];
            self.groups[at] = above;
            at = above as usize;
        }
        at as u32
    }

    fn join_two(&mut self, a: usize, b: usize) {
        let (a, b) = (self.group(a) as usize, self.group(b) as usize);
        if a == b {
            return;
        }
        if overlap(self.pieces(a), self.pieces(b)) {
            (self.ranges[a].near, self.ranges[b].near) = (b as u32, a as u32);
            return;
        }
        self.merge(a, b);
        self.groups[b] = a as u32;
        let other = self.ranges[b];
        let link = |range: &Range, own: usize| if range.next == NONE { own as u32 } else { range.next };
        let (after_a, after_b) = (link(&self.ranges[a], a), link(&other, b));
        (self.ranges[a].next, self.ranges[b].next) = (after_b, after_a);
        self.ranges[a].cost += other.cost;
        self.ranges[a].fixed = self.ranges[a].fixed.or(other.fixed);
    }

    /// Gives a range the pieces of another.
    fn merge(&mut self, a: usize, b: usize) {
        let start = self.pieces.len();
        let ((mut a_next, a_end), (mut b_next, b_end)) = (self.ranges[a].pieces, self.ranges[b].pieces);
        let first = |at: u32, end: u32| if at < end { self.pieces[at as usize].0 } else { NONE };
        let mut taken: SmallVec<[u32; 32]> = SmallVec::new();
        while a_next < a_end || b_next < b_end {
            let next = if first(a_next, a_end) < first(b_next, b_end) { &mut a_next } else { &mut b_next };
            taken.push(*next);
            *next += 1;
        }
        self.pieces.push(self.pieces[taken[0] as usize]);
        for piece in &taken[1..] {
            self.add_piece(self.pieces[*piece as usize]);
        }
        self.ranges[a].pieces = (start as u32, self.pieces.len() as u32);
    }

    /// Keeps ranges out of registers that are destroyed while they are alive, and counts what calls make registers cost.
    fn reserve(&mut self, depths: &[u32]) {
        let plan = self.plan;
        let clobbers = plan.clobbers.iter().enumerate();
        for (step, clobbers) in clobbers.filter(|(_, clobbers)| **clobbers != PRegSet::empty()) {
            if plan.calls.binary_search(&(step as u32)).is_ok() {
                continue;
            }
            for clobber in *clobbers {
                if let Some(at) = self.registers.iter().position(|reg| *reg == clobber) {
                    let point = 2 * step + 1;
                    self.destroyed[at * self.words + point / 64] |= 1 << (point % 64);
                }
            }
        }
        self.busy = self.destroyed.clone();
        if plan.calls.is_empty() {
            return;
        }
        // What all calls up to one would cost.
        let (mut sums, mut sum, mut block) = (vec![0.0], 0.0, 0);
        for call in &plan.calls {
            while plan.ranges[block].last().index() < *call as usize {
                block += 1;
            }
            sum += SAVE_COST * self.often(block, depths);
            sums.push(sum);
        }
        for range in 0..plan.vregs {
            let calls = |point: u32| plan.calls.partition_point(|call| 2 * call < point);
            let (mut cost, mut crosses) = (0.0, false);
            for (first, last) in self.pieces(range) {
                let (from, to) = (calls(*first), calls(*last));
                crosses |= from < to;
                cost += sums[to] - sums[from];
            }
            self.ranges[range].crosses = crosses;
            self.ranges[range].cost -= cost;
        }
    }

    // Homes.

    /// A register for every range that is not in memory.
    fn place_all(&mut self) -> Option<()> {
        // Lengths above the ranges' numbers: one number is sorted faster than two.
        let mut order: Vec<u64> = Vec::with_capacity(self.plan.vregs);
        for range in 0..self.plan.vregs {
            if self.groups[range] != range as u32 {
                continue;
            }
            let length: u32 = self.pieces(range).iter().map(|(first, last)| last - first + 1).sum();
            let known = &mut self.ranges[range];
            known.weight = if length <= SHORT { SHORT_WEIGHT } else { known.cost / length as f32 };
            if length > 0 {
                order.push(u64::from(length) << 32 | range as u64);
            }
        }
        order.sort_unstable();
        for range in order.into_iter().rev() {
            self.place(range as u32)?;
        }
        while let Some(range) = self.work.pop() {
            self.place(range)?;
        }
        Some(())
    }

    fn place(&mut self, range: u32) -> Option<()> {
        let Range { class, cost, weight, .. } = self.ranges[range as usize];
        if let Some(at) = self.free_register(range) {
            self.take(at, range);
            return Some(());
        }
        // What must leave for it, where that costs least.
        let (mut least, mut best) = (weight, None);
        for at in self.classes[class as usize].clone() {
            if self.meets(&self.destroyed, at) {
                continue;
            }
            if let Some((sum, others)) = self.in_the_way(at, range, least) {
                (least, best) = (sum, Some((at, others)));
            }
        }
        let Some((at, others)) = best else {
            if cost.is_infinite() {
                return None;
            }
            self.spill(range);
            return Some(());
        };
        others.iter().for_each(|other| self.leave(at, *other));
        self.take(at, range);
        for other in others {
            match self.free_register(other) {
                Some(at) => self.take(at, other),
                None => self.spill(other),
            }
        }
        Some(())
    }

    /// A register that nobody has while the range is alive, if it is worth one.
    fn free_register(&mut self, range: u32) -> Option<usize> {
        self.trace(range);
        let Range { class, cost, near, fixed, crosses, .. } = self.ranges[range as usize];
        if cost <= 0.0 {
            return None;
        }
        let near = self.groups.get(near as usize).map(|group| self.ranges[*group as usize].home);
        let near = if let Some(Home::Register(at)) = near { Some(usize::from(at)) } else { None };
        let fixed = fixed.and_then(|fixed| self.registers.iter().position(|reg| *reg == fixed));
        let mut all = self.classes[class as usize].clone();
        let is_free = |at: &usize| !self.meets(&self.busy, *at);
        if crosses {
            // Calls keep the last general registers.
            return all.rev().find(is_free);
        }
        fixed.into_iter().chain(near).find(is_free).or_else(|| all.find(is_free))
    }

    /// Takes a range in hand.
    fn trace(&mut self, range: u32) {
        self.outline.clear();
        let (start, end) = self.ranges[range as usize].pieces;
        for piece in &self.pieces[start as usize..end as usize] {
            for (word, bits) in words(*piece) {
                match self.outline.last_mut() {
                    Some(last) if last.0 == word => last.1 |= bits,
                    _ => self.outline.push((word, bits)),
                }
            }
        }
    }

    /// Whether a register's row has points of the range in hand.
    fn meets(&self, rows: &[u64], at: usize) -> bool {
        let row = &rows[at * self.words..(at + 1) * self.words];
        self.outline.iter().any(|(word, bits)| row[*word] & bits != 0)
    }

    /// The ranges in a register that meet another, and what they weigh if that is below `least`.
    fn in_the_way(&mut self, at: usize, range: u32, least: f32) -> Option<(f32, SmallVec<[u32; 8]>)> {
        self.looks += 1;
        self.seen.resize(self.ranges.len(), 0);
        let (mut sum, mut found) = (0.0, SmallVec::new());
        let (start, end) = self.ranges[range as usize].pieces;
        for piece in start..end {
            for (word, bits) in words(self.pieces[piece as usize]) {
                let mut next = self.heads[at * self.words + word];
                while next != NONE {
                    let owner = self.owners[next as usize];
                    next = owner.next;
                    let other = owner.range as usize;
                    if owner.bits & bits != 0
                        && std::mem::replace(&mut self.seen[other], self.looks) != self.looks
                    {
                        sum += self.ranges[other].weight;
                        found.push(owner.range);
                        if sum >= least {
                            return None;
                        }
                    }
                }
            }
        }
        (sum < least).then_some((sum, found))
    }

    /// Gives the range in hand a register.
    fn take(&mut self, at: usize, range: u32) {
        for (word, bits) in &self.outline {
            let place = at * self.words + word;
            self.busy[place] |= bits;
            let owner = Owner { bits: *bits, range, next: self.heads[place] };
            self.heads[place] = match self.unused.pop() {
                Some(free) => {
                    self.owners[free as usize] = owner;
                    free
                }
                None => {
                    self.owners.push(owner);
                    self.owners.len() as u32 - 1
                }
            };
        }
        self.ranges[range as usize].home = Home::Register(at as u8);
    }

    /// Takes a range out of its register.
    fn leave(&mut self, at: usize, range: u32) {
        let (start, end) = self.ranges[range as usize].pieces;
        for piece in start..end {
            for (word, bits) in words(self.pieces[piece as usize]) {
                let place = at * self.words + word;
                self.busy[place] &= !bits;
                let (mut before, mut next) = (NONE, self.heads[place]);
                while next != NONE {
                    let Owner { range: other, next: behind, .. } = self.owners[next as usize];
                    if other != range {
                        before = next;
                    } else {
                        match before {
                            NONE => self.heads[place] = behind,
                            before => self.owners[before as usize].next = behind,
                        }
                        self.unused.push(next);
                    }
                    next = behind;
                }
            }
        }
    }

    /// Puts a range into memory, and asks for a register for each use that cannot be there.
    fn spill(&mut self, range: u32) {
        self.ranges[range as usize].home = Home::Slot(NONE);
        let mut value = range;
        loop {
            let Value { operand, mut uses, .. } = self.values[value as usize];
            self.use_alone(operand);
            while uses != NONE {
                let Use { operand, next, .. } = self.uses[uses as usize];
                self.use_alone(operand);
                uses = next;
            }
            value = self.ranges[value as usize].next;
            if value == range || value == NONE {
                return;
            }
        }
    }

    /// The range of one operand, or that of another one of the step that reads the same.
    fn use_alone(&mut self, at: u32) {
        let Some(operand) = self.plan.operands.get(at as usize) else { return };
        if operand.constraint() != OperandConstraint::Reg {
            return;
        }
        let step = self.plan.ends.partition_point(|end| *end <= at);
        let same = |other: &usize| self.plan.operands[*other] == *operand && self.alone[*other] != NONE;
        self.alone[at as usize] = match self.operands(step).find(same) {
            Some(same) => self.alone[same],
            None => {
                let (start, cost) = (self.pieces.len() as u32, f32::INFINITY);
                self.pieces.push(points(step, operand));
                let pieces = (start, start + 1);
                self.ranges.push(Range { class: operand.class(), cost, weight: cost, pieces, ..Range::NEW });
                let alone = self.ranges.len() as u32 - 1;
                self.work.push(alone);
                alone
            }
        };
    }

    /// Places on the stack for what is in memory, each for one range after the other.
    fn give_slots(&mut self) {
        let hull = |range: &usize| {
            let pieces = self.pieces(*range);
            (pieces[0].0, pieces[pieces.len() - 1].1, *range)
        };
        let in_memory = |range: &usize| matches!(self.ranges[*range].home, Home::Slot(_));
        let mut order: Vec<(u32, u32, usize)> =
            (0..self.plan.vregs).filter(in_memory).map(|range| hull(&range)).collect();
        order.sort_unstable();
        let mut taken: [BinaryHeap<Reverse<(u32, u32)>>; 3] = Default::default();
        for (first, last, range) in order {
            let class = self.ranges[range].class;
            let slots = &mut taken[class as usize];
            let slot = match slots.peek() {
                Some(Reverse((end, slot))) if *end < first => {
                    let slot = *slot;
                    slots.pop();
                    slot
                }
                _ => new_slot(self.plan, &mut self.output, class).index() as u32,
            };
            slots.push(Reverse((last, slot)));
            self.ranges[range].home = Home::Slot(slot);
        }
    }

    // What comes out.

    fn home(&self, range: u32) -> Allocation {
        match self.ranges[range as usize].home {
            Home::Nowhere => Allocation::none(),
            Home::Register(at) => Allocation::reg(self.registers[usize::from(at)]),
            Home::Slot(at) => Allocation::stack(SpillSlot::new(at as usize)),
        }
    }

    fn home_of(&self, value: VReg) -> Allocation {
        self.homes[value.vreg()]
    }

    /// Writes down where operands are, and the moves.
    fn write(&mut self) {
        let plan = self.plan;
        self.homes = self.groups.iter().map(|group| self.home(*group)).collect();
        self.output.allocs.reserve(plan.operands.len());
        self.output.inst_alloc_offsets.reserve(plan.steps.len());
        let mut calls = plan.calls.iter().peekable();
        for (block, insts) in plan.ranges.iter().enumerate() {
            for inst in insts.iter() {
                let mut behind = Moves::new();
                if calls.next_if(|call| **call as usize == inst.index()).is_some() {
                    self.save(inst, &mut behind);
                }
                self.write_step(inst, &mut behind);
                // Mostly there are none.
                if !behind.is_empty() {
                    self.moves(ProgPoint::after(inst), behind);
                }
            }
            let Some(to) = plan.succs[block].first().filter(|_| !plan.args[block].is_empty()) else {
                continue;
            };
            let pairs = plan.args[block].iter().zip(&plan.params[to.index()]);
            let moves = pairs.map(|(arg, param)| (self.home_of(*arg), self.home_of(*param), arg.class()));
            self.moves(ProgPoint::before(insts.last()), moves.collect());
        }
    }

    /// Saves the registers that a call destroys and that somebody needs behind it.
    fn save(&mut self, inst: Inst, behind: &mut Moves) {
        let mut destroyed = self.plan.clobbers[inst.index()];
        let mut result = NONE;
        for operand in &self.plan.operands[self.operands(inst.index())] {
            if let OperandConstraint::FixedReg(reg) = operand.constraint() {
                destroyed.add(reg);
                result = self.groups[operand.vreg().vreg()];
            }
        }
        let (point, mut used) = (2 * inst.index(), [0; 3]);
        // Who is there before the call and behind it; both are points of one word.
        let both = 0b11 << (point % 64);
        for at in 0..self.registers.len() {
            let reg = self.registers[at];
            let mut next = self.heads[at * self.words + point / 64];
            while next != NONE && destroyed.contains(reg) {
                let owner = self.owners[next as usize];
                next = owner.next;
                if owner.bits & both != both || owner.range == result {
                    continue;
                }
                let class = reg.class() as usize;
                if self.saves[class].len() == used[class] {
                    self.saves[class].push(new_slot(self.plan, &mut self.output, reg.class()));
                }
                let (from, to) = (Allocation::reg(reg), Allocation::stack(self.saves[class][used[class]]));
                used[class] += 1;
                self.output.edits.push((ProgPoint::before(inst), Edit::Move { from, to }));
                behind.push((to, from, reg.class()));
            }
        }
    }

    fn write_step(&mut self, inst: Inst, behind: &mut Moves) {
        let start = self.output.allocs.len();
        self.output.inst_alloc_offsets.push(start as u32);
        for at in self.operands(inst.index()) {
            let operand = self.plan.operands[at];
            let (home, alone) = (self.home_of(operand.vreg()), self.alone[at]);
            let place = match operand.constraint() {
                OperandConstraint::FixedReg(reg) => {
                    behind.push((Allocation::reg(reg), home, operand.class()));
                    Allocation::reg(reg)
                }
                _ if alone == NONE => home,
                _ => self.home(alone),
            };
            let edit = |from, to| Edit::Move { from, to };
            match operand.kind() {
                OperandKind::Def if alone != NONE => behind.push((place, home, operand.class())),
                OperandKind::Use if alone != NONE && !self.output.allocs[start..].contains(&place) => {
                    self.output.edits.push((ProgPoint::before(inst), edit(home, place)));
                }
                OperandKind::Def | OperandKind::Use => {}
            }
            self.output.allocs.push(place);
        }
    }

    /// Moves that happen at once, one after the other.
    fn moves(&mut self, at: ProgPoint, mut moves: Moves) {
        moves.retain(|(from, to, _)| from != to);
        while !moves.is_empty() {
            let is_read = |place: Allocation| moves.iter().any(|(from, ..)| *from == place);
            let ready = moves.iter().position(|(_, to, _)| !is_read(*to));
            let (from, to, class) = moves[ready.unwrap_or(0)];
            let [aside, between] = scratch(class, self.plan.level).map(Allocation::reg);
            let mut edit = |from, to| self.output.edits.push((at, Edit::Move { from, to }));
            match ready {
                Some(ready) => {
                    if from.is_stack() && to.is_stack() {
                        edit(from, between);
                        edit(between, to);
                    } else {
                        edit(from, to);
                    }
                    moves.swap_remove(ready);
                }
                // A circle, which has an end then.
                None => {
                    edit(from, aside);
                    moves.iter_mut().filter(|one| one.0 == from).for_each(|one| one.0 = aside);
                }
            }
        }
    }
}

/// Moves between places of a class.
type Moves = SmallVec<[(Allocation, Allocation, RegClass); 8]>;

fn new_slot(plan: &Plan<'_>, output: &mut Output, class: RegClass) -> SpillSlot {
    let units = plan.spillslot_size(class);
    let start = output.num_spillslots.next_multiple_of(units);
    output.num_spillslots = start + units;
    SpillSlot::new(start)
}

/// Whether two lists of pieces have a point in common.
fn overlap(mut a: &[Piece], mut b: &[Piece]) -> bool {
    while let ([(first, last), rest_a @ ..], [(other_first, other_last), rest_b @ ..]) = (a, b) {
        if last < other_first {
            a = rest_a;
        } else if other_last < first {
            b = rest_b;
        } else {
            return true;
        }
    }
    false
}

/// The first and the last point at which an operand by itself needs a register.
fn points(step: usize, operand: &Operand) -> Piece {
    let (before, behind) = (2 * step as u32, 2 * step as u32 + 1);
    match (operand.kind(), operand.pos()) {
        (OperandKind::Use, OperandPos::Early) => (before, before),
        (OperandKind::Def, OperandPos::Late) => (behind, behind),
        (OperandKind::Use, OperandPos::Late) | (OperandKind::Def, OperandPos::Early) => (before, behind),
    }
}
