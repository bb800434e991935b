//! Deletes assignments of scalar locals that are overwritten before anyone reads them. A part of `dce`.
//!
//! One walk against textual order with the set of locals that may still be read. A loop's body may run again, so
//! where it ends everything that the loop reads counts as read later. In a loop with jumps no assignment ends the need
//! for an earlier one, because a jump between the two may lead to a reader; so the set at a jump is always contained in
//! the set in hand. Arrays are left alone: an assignment of one element says nothing about the others.

use crate::ir::{Block, Body, Local, Node, Value};
use rustc_hash::FxHashMap;

/// Deletes the assignments of scalar locals that nothing reads.
pub(super) fn delete_overwritten(body: &mut Body) {
    let mut survey = Survey {
        loops: FxHashMap::default(),
        depths: vec![0; body.locals.len()],
        seen: vec![u32::MAX; body.locals.len()],
    };
    survey.block(&body.block, u32::MAX - 1, 0, &mut LoopReads::default());
    let mut liveness = Liveness {
        live: vec![false; body.locals.len()],
        log: Vec::new(),
        loops: survey.loops,
        depths: survey.depths,
        depth: 0,
        pin: 0,
    };
    liveness.block(&mut body.block);
}

#[derive(Default)]
struct LoopReads {
    /// The locals that the loop reads, nested loops included.
    locals: Vec<Local>,
    /// Whether one of its own jumps stands in it.
    jumps: bool,
}

/// Gathers what each loop reads, and how many loops stand around each declaration.
struct Survey {
    loops: FxHashMap<Value, LoopReads>,
    depths: Vec<u32>,
    /// The last loop that lists a local, so that no list has doubles.
    seen: Vec<u32>,
}

impl Survey {
    fn add(&mut self, local: Local, stamp: u32, to: &mut LoopReads) {
        if std::mem::replace(&mut self.seen[local.index()], stamp) != stamp {
            to.locals.push(local);
        }
    }

    fn block(&mut self, block: &Block, stamp: u32, depth: u32, to: &mut LoopReads) {
        for node in block {
            match node {
                Node::Var { local, .. } => self.depths[local.index()] = depth,
                Node::Get { local, .. } => self.add(*local, stamp, to),
                Node::Break | Node::Continue => to.jumps = true,
                Node::For { counter, body, .. } => {
                    let mut inner = LoopReads::default();
                    self.block(body, counter.0, depth + 1, &mut inner);
                    inner.locals.iter().for_each(|local| self.add(*local, stamp, to));
                    self.loops.insert(*counter, inner);
                }
                other => other.blocks().for_each(|inner| self.block(inner, stamp, depth, to)),
            }
        }
    }
}

struct Liveness {
    live: Vec<bool>,
    /// Changes of `live`, each with the state before, so that a block's changes can be undone or joined.
    log: Vec<(Local, bool)>,
    loops: FxHashMap<Value, LoopReads>,
    /// Loops around each local's declaration.
    depths: Vec<u32>,
    /// Loops around the line in hand.
    depth: u32,
    /// Locals declared under fewer loops than this are needed by a jump: no assignment makes them unneeded.
    pin: u32,
}

impl Liveness {
    fn put(&mut self, local: Local, live: bool) {
        let before = std::mem::replace(&mut self.live[local.index()], live);
        if before != live {
            self.log.push((local, before));
        }
    }

    fn block(&mut self, block: &mut Block) {
        let mut needed = vec![true; block.len()];
        for (node, needed) in block.iter_mut().zip(&mut needed).rev() {
            if let Node::Get { local, .. } = node {
                self.put(*local, true);
            } else if let Node::Set { local, index: None, .. } = node {
                *needed = self.live[local.index()];
                if self.depths[local.index()] >= self.pin {
                    self.put(*local, false);
                }
            } else if let Node::If { then, otherwise, .. } = node {
                self.branches(then, otherwise);
            } else if let Node::For { counter, body, .. } = node {
                self.loop_(*counter, body);
            }
        }
        let mut needed = needed.into_iter();
        block.retain(|_| needed.next().unwrap_or(true));
    }

    /// A local is needed before an `if` if either block needs it.
    fn branches(&mut self, then: &mut Block, otherwise: &mut Block) {
        let mark = self.log.len();
        self.block(then);
        let after_then: FxHashMap<Local, bool> =
            self.log[mark..].iter().map(|(local, _)| (*local, self.live[local.index()])).collect();
        while self.log.len() > mark {
            let (local, before) = self.log.pop().expect("longer than the mark");
            self.live[local.index()] = before;
        }
        self.block(otherwise);
        // A local that only the second block changed has, for the first, the state before: the first logged one.
        let mut unchanged: FxHashMap<Local, bool> = FxHashMap::default();
        for (local, before) in &self.log[mark..] {
            unchanged.entry(*local).or_insert(*before);
        }
        for (local, live) in unchanged.into_iter().chain(after_then.clone()) {
            let live_first = after_then.get(&local).copied().unwrap_or(live);
            if live_first {
                self.put(local, true);
            }
        }
    }

    fn loop_(&mut self, counter: Value, body: &mut Block) {
        let LoopReads { locals, jumps } = self.loops.remove(&counter).expect("every loop was surveyed");
        let mark = self.log.len();
        for local in locals {
            // A local declared in the body is a new one on every trip.
            if self.depths[local.index()] <= self.depth {
                self.put(local, true);
            }
        }
        let pin = self.pin;
        self.depth += 1;
        if jumps {
            self.pin = self.depth;
        }
        self.block(body);
        self.depth -= 1;
        self.pin = pin;
        // The body may not run at all, so what was needed after the loop is needed before it.
        for at in mark..self.log.len() {
            let (local, before) = self.log[at];
            if before {
                self.put(local, true);
            }
        }
    }
}
