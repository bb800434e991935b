//! What is known of a kernel's registers before it runs: which may be read unwritten, and which can share a row.
//!
//! A register that every path writes before it reads it needs no check when it runs, and its row can be another's when it
//! is not alive. One that some path leaves unwritten has a row of its own and is checked at each read. Both facts hold for
//! each lane by itself, because a lane takes one path.

use super::code::{AlignedOp, Code, Constant, Kind, NOWHERE, Op, Slot};
use super::decode::bits;
use super::layout::Frame;
use crate::alu::Type;
use std::collections::BTreeSet;

/// A kernel as it was decoded: registers have the numbers of the text, constants follow.
pub(super) struct Body {
    pub(super) ops: Vec<Op>,
    pub(super) types: Vec<Type>,
    pub(super) constants: Vec<(Slot, Constant)>,
    pub(super) frame: Frame,
}

/// A set of registers.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn empty(len: usize) -> Set {
        Set(vec![0; len.div_ceil(64)])
    }

    fn full(len: usize) -> Set {
        Set(vec![u64::MAX; len.div_ceil(64)])
    }

    fn has(&self, at: Slot) -> bool {
        self.0[at as usize / 64] >> (at % 64) & 1 != 0
    }

    fn insert(&mut self, at: Slot) {
        self.0[at as usize / 64] |= 1 << (at % 64);
    }

    fn remove(&mut self, at: Slot) {
        self.0[at as usize / 64] &= !(1 << (at % 64));
    }

    /// Keeps what both have; returns whether that is less.
    fn intersect(&mut self, other: &Set) -> bool {
        let mut changed = false;
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            changed |= *own & other != *own;
            *own &= other;
        }
        changed
    }

    /// Takes what the other has; returns whether that is more.
    fn unite(&mut self, other: &Set) -> bool {
        let mut changed = false;
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            changed |= *own | other != *own;
            *own |= other;
        }
        changed
    }

    fn each(&self) -> impl Iterator<Item = Slot> + '_ {
        let bits = |(word, bits): (usize, &u64)| {
            let bits = *bits;
            (0..64).filter(move |at| bits >> at & 1 != 0).map(move |at| (word * 64 + at) as Slot)
        };
        self.0.iter().enumerate().filter(|(_, bits)| **bits != 0).flat_map(bits)
    }
}

/// Straight runs of operations.
struct Blocks {
    /// The first operation of each, and the end.
    starts: Vec<usize>,
    successors: Vec<Vec<usize>>,
}

impl Blocks {
    fn of(ops: &[Op]) -> Blocks {
        let mut leads = vec![false; ops.len() + 1];
        (leads[0], leads[ops.len()]) = (true, true);
        for (at, op) in ops.iter().enumerate() {
            match op.kind {
                Kind::Branch(target) => {
                    leads[target as usize] = true;
                    leads[at + 1] = true;
                }
                Kind::Exit | Kind::Trap => leads[at + 1] = true,
                _ => {}
            }
        }
        let starts: Vec<usize> = (0..=ops.len()).filter(|at| leads[*at]).collect();
        let block_at = |op: usize| starts.binary_search(&op).expect("branches lead to starts");
        let successors = starts.windows(2).map(|ends| {
            let last = &ops[ends[1] - 1];
            let mut next = Vec::new();
            if let Kind::Branch(target) = last.kind {
                next.push(block_at(target as usize));
            }
            let ends_here =
                last.guard.is_none() && matches!(last.kind, Kind::Branch(_) | Kind::Exit | Kind::Trap);
            if !ends_here && ends[1] < ops.len() {
                next.push(block_at(ends[1]));
            }
            next
        });
        let successors = successors.collect();
        Blocks { starts, successors }
    }

    fn count(&self) -> usize {
        self.successors.len()
    }

    fn range(&self, block: usize) -> std::ops::Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }
}

fn reads(op: &Op) -> impl Iterator<Item = Slot> + '_ {
    op.sources.iter().copied().chain(op.guard.map(|(slot, _)| slot))
}

fn writes(op: &Op) -> impl Iterator<Item = Slot> + '_ {
    op.dests.iter().copied().filter(|slot| *slot != NOWHERE)
}

/// Registers that some path reads before it writes them.
fn unwritten(body: &Body, blocks: &Blocks) -> Set {
    let len = body.types.len();
    let mut entry = Set::empty(len);
    body.constants.iter().for_each(|(slot, _)| entry.insert(*slot));
    let mut at_start = vec![Set::full(len); blocks.count()];
    at_start[0] = entry;
    // In the order of the text, most blocks are looked at once.
    let mut work = BTreeSet::from([0]);
    let mut reached = vec![false; blocks.count()];
    while let Some(block) = work.pop_first() {
        reached[block] = true;
        let mut written = at_start[block].clone();
        for op in &body.ops[blocks.range(block)] {
            // Where the guard is not set nothing is written.
            if op.guard.is_none() {
                writes(op).for_each(|slot| written.insert(slot));
            }
        }
        for next in &blocks.successors[block] {
            if at_start[*next].intersect(&written) || !reached[*next] {
                work.insert(*next);
            }
        }
    }
    let mut found = Set::empty(len);
    for block in (0..blocks.count()).filter(|block| reached[*block]) {
        let mut written = at_start[block].clone();
        for op in &body.ops[blocks.range(block)] {
            reads(op).filter(|slot| !written.has(*slot)).for_each(|slot| found.insert(slot));
            if op.guard.is_none() {
                writes(op).for_each(|slot| written.insert(slot));
            }
        }
    }
    found
}

/// Registers that are read later, at the end of each block.
fn alive_at_end(body: &Body, blocks: &Blocks) -> Vec<Set> {
    let len = body.types.len();
    let mut before = vec![Set::empty(len); blocks.count()];
    let mut at_end = vec![Set::empty(len); blocks.count()];
    let mut predecessors = vec![Vec::new(); blocks.count()];
    for (block, successors) in blocks.successors.iter().enumerate() {
        successors.iter().for_each(|next| predecessors[*next].push(block));
    }
    let mut work: BTreeSet<usize> = (0..blocks.count()).collect();
    while let Some(block) = work.pop_last() {
        let mut alive = at_end[block].clone();
        for op in body.ops[blocks.range(block)].iter().rev() {
            if op.guard.is_none() {
                writes(op).for_each(|slot| alive.remove(slot));
            }
            reads(op).for_each(|slot| alive.insert(slot));
        }
        if before[block].unite(&alive) {
            for earlier in &predecessors[block] {
                if at_end[*earlier].unite(&before[block]) {
                    work.insert(*earlier);
                }
            }
        }
    }
    at_end
}

/// The first and the last operation at which each register holds something that is read, or is written.
fn spans(body: &Body, blocks: &Blocks) -> Vec<Option<[usize; 2]>> {
    let mut spans: Vec<Option<[usize; 2]>> = vec![None; body.types.len()];
    let mut touch = |slot: Slot, at: usize| {
        let span = spans[slot as usize].get_or_insert([at, at]);
        *span = [span[0].min(at), span[1].max(at)];
    };
    let at_end = alive_at_end(body, blocks);
    for (block, alive) in at_end.iter().enumerate() {
        let range = blocks.range(block);
        alive.each().for_each(|slot| touch(slot, range.end - 1));
        for at in range.clone() {
            reads(&body.ops[at]).chain(writes(&body.ops[at])).for_each(|slot| touch(slot, at));
        }
        // What lives at the start of a block lives at the end of those before it.
        for next in &blocks.successors[block] {
            let start = blocks.starts[*next];
            alive.each().for_each(|slot| touch(slot, start));
        }
    }
    spans
}

impl Body {
    /// Numbers the rows, and says which reads are checked. The second number is an estimate of a thread's registers.
    pub(super) fn finish(mut self) -> (Code, u32, Frame) {
        let blocks = Blocks::of(&self.ops);
        let tracked = unwritten(&self, &blocks);
        let spans = spans(&self, &blocks);
        let mut own = tracked.clone();
        self.constants.iter().for_each(|(slot, _)| own.insert(*slot));
        // What is written while the thread goes on must not be another's.
        for op in &self.ops {
            if let Kind::Aligned(AlignedOp::Wgmma(_)) = op.kind {
                writes(op).for_each(|slot| own.insert(slot));
            }
        }
        let (rows, slots) = share(&spans, &own);
        let registers = self.pressure(&spans);
        for op in &mut self.ops {
            op.checks =
                op.sources.iter().chain(op.guard.iter().map(|(slot, _)| slot)).any(|slot| tracked.has(*slot));
            let slots =
                op.dests.iter_mut().chain(&mut op.sources).chain(op.guard.iter_mut().map(|(slot, _)| slot));
            slots.filter(|slot| **slot != NOWHERE).for_each(|slot| *slot = rows[*slot as usize]);
        }
        let mut by_row = vec![false; slots as usize];
        tracked.each().for_each(|slot| by_row[rows[slot as usize] as usize] = true);
        let constants =
            self.constants.iter().map(|(slot, constant)| (rows[*slot as usize], *constant)).collect();
        let uses_wgmma = self.ops.iter().any(|op| matches!(op.kind, Kind::Aligned(AlignedOp::Wgmma(_))));
        let uses_cp_async = self.ops.iter().any(|op| matches!(op.kind, Kind::CpAsync { .. }));
        let code = Code { ops: self.ops, slots, constants, tracked: by_row, uses_wgmma, uses_cp_async };
        (code, registers, self.frame)
    }

    /// How many 32-bit registers are alive at once, at most, and some for addresses that hardware computes in.
    fn pressure(&self, spans: &[Option<[usize; 2]>]) -> u32 {
        let constants: std::collections::HashSet<Slot> =
            self.constants.iter().map(|(slot, _)| *slot).collect();
        let mut changes = vec![0i64; self.ops.len() + 1];
        for (slot, span) in spans.iter().enumerate() {
            let Some([first, last]) = span else { continue };
            let words = match bits(self.types[slot]) {
                1 => 0,
                64 => 2,
                _ => 1,
            };
            if !constants.contains(&(slot as Slot)) {
                changes[*first] += words;
                changes[*last] -= words;
            }
        }
        let mut alive = 0;
        let most = changes.iter().map(|change| {
            alive += change;
            alive
        });
        (most.max().unwrap_or(0) as u32 + 8).clamp(16, 255)
    }
}

/// Rows by register: those of `own` get one each, the others the first that is free when they begin.
fn share(spans: &[Option<[usize; 2]>], own: &Set) -> (Vec<Slot>, Slot) {
    let mut rows = vec![0; spans.len()];
    let mut count = 0;
    let mut order: Vec<(usize, usize, usize)> = Vec::new();
    for (slot, span) in spans.iter().enumerate() {
        match span {
            _ if own.has(slot as Slot) => {
                rows[slot] = count;
                count += 1;
            }
            Some([first, last]) => order.push((*first, *last, slot)),
            None => {}
        }
    }
    order.sort_unstable();
    let mut busy = std::collections::BinaryHeap::new();
    let mut free: Vec<Slot> = Vec::new();
    for (first, last, slot) in order {
        while let Some(std::cmp::Reverse((end, row))) = busy.peek().copied() {
            // A destination may be the same as a source that ends there: sources are read before.
            if end >= first {
                break;
            }
            busy.pop();
            free.push(row);
        }
        let row = free.pop().unwrap_or_else(|| {
            count += 1;
            count - 1
        });
        rows[slot] = row;
        busy.push(std::cmp::Reverse((last, row)));
    }
    (rows, count)
}
