//! Numbers for the states that changing things have had, so that "nothing was written in between" is one comparison.
//!
//! Every slot (a buffer, a local) has a version that a write makes new. Versions are never given twice. The two blocks
//! of an `if` start from the same versions; after it, what either has written gets a new one. Both `cse` and `forward`
//! remember a fact with the version it was learned at.

use super::edit::{LoopChanges, MemoryEffect, Surroundings, is_constant, memory_effect};
use crate::ir::{Body, BufferId, Local, Node};

/// A thing that can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    /// All writable buffers at once: a point where lanes met.
    Memory,
    /// One buffer.
    Buffer(BufferId),
    /// A local as a whole.
    Local(Local),
    /// Some element of a private array.
    Elements(Local),
}

/// The versions of all slots of a body.
pub(super) struct Versions {
    versions: Vec<u64>,
    constant: Vec<bool>,
    locals: usize,
    latest: u64,
    log: Vec<(Slot, u64)>,
}

impl Versions {
    pub(super) fn new(around: &Surroundings<'_>, body: &Body) -> Versions {
        let slots = 1 + 2 * body.locals.len() + around.buffers.len();
        Versions {
            versions: vec![0; slots],
            constant: around.buffers.iter().map(is_constant).collect(),
            locals: body.locals.len(),
            latest: 0,
            log: Vec::new(),
        }
    }

    fn place(&self, slot: Slot) -> usize {
        match slot {
            Slot::Memory => 0,
            Slot::Local(local) => 1 + local.index(),
            Slot::Elements(local) => 1 + self.locals + local.index(),
            Slot::Buffer(buffer) => 1 + 2 * self.locals + buffer.index(),
        }
    }

    /// The version of a slot now. A buffer's also changes where lanes meet, unless it is constant.
    pub(super) fn of(&self, slot: Slot) -> u64 {
        let own = self.versions[self.place(slot)];
        match slot {
            Slot::Buffer(buffer) if !self.constant[buffer.index()] => own.max(self.versions[0]),
            Slot::Buffer(_) | Slot::Memory | Slot::Local(_) | Slot::Elements(_) => own,
        }
    }

    /// Gives a slot a new version.
    pub(super) fn change(&mut self, slot: Slot) {
        let place = self.place(slot);
        self.latest += 1;
        self.log.push((slot, self.versions[place]));
        self.versions[place] = self.latest;
    }

    /// Follows what one line itself does to memory.
    pub(super) fn follow(&mut self, node: &Node) {
        match memory_effect(node) {
            MemoryEffect::None => {}
            MemoryEffect::Writes(buffer) => self.change(Slot::Buffer(buffer)),
            MemoryEffect::Fence => self.change(Slot::Memory),
        }
    }

    /// Makes everything that a loop changes new: where its body starts, and where it has ended.
    pub(super) fn follow_loop(&mut self, changes: &LoopChanges) {
        for buffer in &changes.buffers {
            self.change(Slot::Buffer(*buffer));
        }
        for local in &changes.locals {
            self.change(Slot::Local(*local));
            self.change(Slot::Elements(*local));
        }
        if changes.fence {
            self.change(Slot::Memory);
        }
    }

    /// A point to come back to.
    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Goes back to a mark; gives the slots changed since, some more than once.
    pub(super) fn back_to(&mut self, mark: usize) -> Vec<Slot> {
        let mut changed = Vec::with_capacity(self.log.len() - mark);
        while self.log.len() > mark {
            let (slot, before) = self.log.pop().expect("longer than the mark");
            let place = self.place(slot);
            self.versions[place] = before;
            if changed.last() != Some(&slot) {
                changed.push(slot);
            }
        }
        changed
    }

    /// Makes the slots that a block has changed new, once both ways meet again.
    pub(super) fn join(&mut self, changed: &[Slot]) {
        for slot in changed {
            self.change(*slot);
            if let Slot::Elements(local) = slot {
                self.change(Slot::Local(*local));
            }
        }
    }
}
