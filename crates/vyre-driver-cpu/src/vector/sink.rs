//! Moves what is computed early and needed on one way only to that way: masks and addresses of lanes are mostly needed
//! where a whole group of lanes did not fit, which is rare.
//!
//! An instruction without effect goes to the block that all its uses have in common as nearest dominator, unless that is in a
//! loop that it is not in itself. A vector stays where that block runs as often: its operands would be alive for longer. One
//! that only cold blocks need is computed there, once in each cold region. Loads stay where they are.

use super::code::{Function, Inst, Op, Reg, Term};
use super::verify::{Predecessors, immediate_dominators, predecessors};
use rustc_hash::FxHashMap;

/// Cold regions that an instruction may be copied to.
const COPIES_MAX: usize = 6;

/// Moves instructions down to their uses.
pub(super) fn sink(function: &mut Function) {
    let Ok(predecessors) = predecessors(function) else { return };
    let Ok(dominators) = immediate_dominators(function, &predecessors) else { return };
    let regions = cold_regions(function, &dominators);
    let mut sink = Sink {
        depths: function.loop_depths(),
        uses: vec![Uses::default(); function.kinds.len()],
        moved: vec![Vec::new(); function.blocks.len()],
        copies: FxHashMap::default(),
        choices: choices(function, &predecessors, &dominators),
        dominators,
        regions,
    };
    for at in (0..function.blocks.len()).rev() {
        sink.block(function, at);
    }
    for (at, moved) in std::mem::take(&mut sink.moved).into_iter().enumerate() {
        // What came last is read by what came first.
        if !moved.is_empty() {
            function.blocks[at].insts.splice(0..0, moved.into_iter().rev());
        }
        if let (Some(region), false) = (sink.regions[at], sink.copies.is_empty()) {
            let rename = |reg: &mut Reg| {
                if let Some(copy) = sink.copies.get(&(region, *reg)) {
                    *reg = *copy;
                }
            };
            let block = &mut function.blocks[at];
            block.insts.iter_mut().for_each(|inst| inst.op.for_each_operand_mut(rename));
            block.term.for_each_operand_mut(rename);
        }
    }
}

/// Who reads a register.
#[derive(Clone, Copy, Default)]
struct Uses {
    /// The nearest block that dominates all of them.
    common: Option<u32>,
    /// The cold regions among them, as many as count.
    regions: [u32; COPIES_MAX + 1],
    count: usize,
    /// Whether any is not in a cold region.
    hot: bool,
}

struct Sink {
    dominators: Vec<u32>,
    depths: Vec<u32>,
    /// The branches that must go one way for a block to run.
    choices: Vec<u32>,
    /// The first block of the cold region that a block is in.
    regions: Vec<Option<u32>>,
    uses: Vec<Uses>,
    /// What goes to the start of each block, last first.
    moved: Vec<Vec<Inst>>,
    /// What a register is called in a cold region that has its own copy.
    copies: FxHashMap<(u32, Reg), Reg>,
}

impl Sink {
    fn block(&mut self, function: &mut Function, at: usize) {
        let here = at as u32;
        function.blocks[at].term.for_each_operand(|reg| self.use_in(reg, here));
        let mut insts = std::mem::take(&mut function.blocks[at].insts);
        // What stays moves together at the end.
        let mut end = insts.len();
        for place in (0..insts.len()).rev() {
            let inst = insts[place];
            let Some(result) = inst.result.filter(|_| can_move(&inst.op)) else {
                inst.op.for_each_operand(|reg| self.use_in(reg, here));
                end -= 1;
                insts[end] = inst;
                continue;
            };
            let uses = self.uses[result.index()];
            let several = (2..=COPIES_MAX).contains(&uses.count);
            if !uses.hot && self.regions[at].is_none() && several {
                for region in uses.regions.into_iter().take(uses.count) {
                    function.kinds.push(function.kind(result));
                    self.uses.push(Uses::default());
                    let copy = Reg(function.kinds.len() as u32 - 1);
                    self.copies.insert((region, result), copy);
                    self.moved[region as usize].push(Inst { result: Some(copy), ..inst });
                    inst.op.for_each_operand(|reg| self.use_in(reg, region));
                }
                continue;
            }
            let scalar = function.kind(result).is_scalar();
            let to = uses.common.filter(|to| self.may_go(here, *to, scalar)).unwrap_or(here);
            inst.op.for_each_operand(|reg| self.use_in(reg, to));
            if to == here {
                end -= 1;
                insts[end] = inst;
            } else {
                self.moved[to as usize].push(inst);
            }
        }
        insts.drain(..end);
        function.blocks[at].insts = insts;
    }

    /// Not from outside into a loop, except where that hardly ever runs.
    fn may_go(&self, from: u32, to: u32, scalar: bool) -> bool {
        let (from, to) = (from as usize, to as usize);
        let colder = self.regions[from].is_none() && self.regions[to].is_some();
        let rarer = scalar || self.choices[to] > self.choices[from];
        colder || rarer && self.depths[to] <= self.depths[from]
    }

    fn use_in(&mut self, reg: Reg, block: u32) {
        let uses = &mut self.uses[reg.index()];
        let (mut a, mut b) = (uses.common.unwrap_or(block), block);
        while a != b {
            if a > b { a = self.dominators[a as usize] } else { b = self.dominators[b as usize] }
        }
        uses.common = Some(a);
        match self.regions[block as usize] {
            None => uses.hot = true,
            Some(region) if uses.count <= COPIES_MAX && !uses.regions[..uses.count].contains(&region) => {
                uses.regions[uses.count] = region;
                uses.count += 1;
            }
            Some(_) => {}
        }
    }
}

fn can_move(op: &Op) -> bool {
    op.is_pure() && !op.is_load()
}

/// For each block, how many of the branches above it had to go one way. Where ways meet again it is as before they parted.
fn choices(function: &Function, predecessors: &[Predecessors], dominators: &[u32]) -> Vec<u32> {
    let mut choices: Vec<u32> = Vec::with_capacity(function.blocks.len());
    for (at, from) in predecessors.iter().enumerate() {
        let chosen =
            from.iter().any(|from| matches!(function.blocks[*from as usize].term, Term::Branch { .. }));
        choices.push(if at == 0 { 0 } else { choices[dominators[at] as usize] + u32::from(chosen) });
    }
    choices
}

/// The cold region of each block: the highest cold block that dominates it with only cold ones between.
fn cold_regions(function: &Function, dominators: &[u32]) -> Vec<Option<u32>> {
    let mut regions: Vec<Option<u32>> = Vec::with_capacity(function.blocks.len());
    for (at, block) in function.blocks.iter().enumerate() {
        let above = if at == 0 { None } else { regions[dominators[at] as usize] };
        regions.push(block.cold.then(|| above.unwrap_or(at as u32)));
    }
    regions
}
