//! Gives a read what was written, where both are known to mean the same place and nothing was written in between.
//!
//! - Locals: a `get` after a `set` (or the `var`, or another `get`) is that value.
//! - Private arrays: the same, element by element, at literal indices in bounds; two `get`s at one index always.
//! - Buffers: a load after a store at the same index is the stored value. The access must be proven in bounds, because
//!   a store out of bounds does nothing and a load there gives 0. Small integers are cut to their width on the way.
//!
//! Floats may be forwarded although a storage buffer makes NaN canonical: NaN bits are free in registers, and whatever
//! makes them visible makes them canonical again. Stores themselves always stay, `y[i] = y[i]` too.
//!
//! Other lanes cannot interfere: a write of theirs to the same element with no barrier in between is a race.

use super::edit::{
    LoopChanges, MemoryEffect, Replacements, Surroundings, each_body, ends_in_jump, literal, loop_changes,
    memory_effect,
};
use super::fold::widen;
use super::range;
use super::versions::{Slot, Versions};
use crate::ir::{
    Block, Body, BufferId, ComputeOp, DataType, Local, Node, Operand, ProgramParts, Value, walk,
};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

pub(super) fn run(parts: &mut ProgramParts) {
    each_body(parts, |around, body| {
        let reads_stores = reads_stores(body);
        // Then nothing reads what a line of the body writes.
        if body.locals.is_empty() && !reads_stores {
            return;
        }
        let mut forward = Forward {
            around,
            replaced: Replacements::new(body),
            in_bounds: if reads_stores { range::body_facts(around, body) } else { range::Sites::default() },
            lengths: vec![None; body.locals.len()],
            known: FxHashMap::default(),
            log: Vec::new(),
            versions: Versions::new(around, body),
            loops: loop_changes(body),
            site: 0,
        };
        forward.block(&mut body.block);
    });
}

/// Whether a line may load what one above it has stored, with no fence between: only then bounds matter.
fn reads_stores(body: &Body) -> bool {
    let (mut stored, mut reads) = (SmallVec::<[BufferId; 8]>::new(), false);
    walk(&body.block, |_, _, node| match node {
        Node::Load { buffer, .. } => reads |= stored.contains(buffer),
        Node::Store { buffer, .. } => stored.push(*buffer),
        other => {
            if matches!(memory_effect(other), MemoryEffect::Fence) {
                stored.clear();
            }
        }
    });
    reads
}

/// A place whose contents may be known.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Local(Local),
    /// Every element of an array that no other entry tells about.
    Rest(Local),
    Element(Local, Operand),
    Memory(BufferId, Operand),
}

#[derive(Clone, Copy)]
struct Known {
    version: u64,
    contents: Operand,
}

struct Forward<'a> {
    around: &'a Surroundings<'a>,
    replaced: Replacements,
    in_bounds: range::Sites,
    /// The lengths of the private arrays.
    lengths: Vec<Option<u32>>,
    known: FxHashMap<Place, Known>,
    /// What the entries were before, to be restored where a block ends.
    log: Vec<(Place, Option<Known>)>,
    versions: Versions,
    loops: FxHashMap<Value, LoopChanges>,
    site: u32,
}

impl Forward<'_> {
    fn block(&mut self, block: &mut Block) {
        let mark = self.log.len();
        block.retain_mut(|node| {
            self.replaced.apply(node);
            let site = self.site;
            self.site += 1;
            self.line(node, site)
        });
        while self.log.len() > mark {
            match self.log.pop().expect("longer than the mark") {
                (place, Some(known)) => self.known.insert(place, known),
                (place, None) => self.known.remove(&place),
            };
        }
    }

    /// Says whether the line stays.
    fn line(&mut self, node: &mut Node, site: u32) -> bool {
        match node {
            Node::If { then, otherwise, .. } => self.branches(then, otherwise),
            Node::For { counter, body, .. } => self.loop_(*counter, body),
            Node::Var { local, len, init, .. } => self.declare(*local, *len, *init),
            Node::Set { local, index, value, .. } => self.assign(*local, *index, *value),
            Node::Get { result, ty, local, index } => {
                let (result, ty) = (*result, *ty);
                let place = match index {
                    None => Place::Local(*local),
                    Some(index) => Place::Element(*local, *index),
                };
                let Some(contents) = self.read_local(place, ty) else {
                    self.learn(place, Operand::Value(result));
                    return true;
                };
                self.replaced.put(result, contents);
                return false;
            }
            Node::Load { .. } => return self.load(node),
            Node::Store { ty, buffer, index, value } => {
                self.versions.change(Slot::Buffer(*buffer));
                // What a byte buffer holds is only forwarded to loads of bytes.
                debug_assert_eq!(self.around.buffer(*buffer).ty, *ty);
                if self.in_bounds.contains(site) {
                    self.learn(Place::Memory(*buffer, *index), *value);
                }
            }
            other => self.versions.follow(other),
        }
        true
    }

    fn slot(place: Place) -> Slot {
        match place {
            Place::Local(local) | Place::Rest(local) | Place::Element(local, Operand::Literal(_)) => {
                Slot::Local(local)
            }
            // An element at an unknown index may be any that is assigned.
            Place::Element(local, Operand::Value(_)) => Slot::Elements(local),
            Place::Memory(buffer, _) => Slot::Buffer(buffer),
        }
    }

    fn learn(&mut self, place: Place, contents: Operand) {
        let known = Known { version: self.versions.of(Self::slot(place)), contents };
        let before = self.known.insert(place, known);
        self.log.push((place, before));
    }

    fn contents(&self, place: Place) -> Option<Operand> {
        let known = self.known.get(&place)?;
        (known.version == self.versions.of(Self::slot(place))).then_some(known.contents)
    }

    fn declare(&mut self, local: Local, len: Option<u32>, init: Operand) {
        self.lengths[local.index()] = len;
        self.versions.change(Slot::Local(local));
        self.versions.change(Slot::Elements(local));
        match len {
            None => self.learn(Place::Local(local), init),
            Some(_) => self.learn(Place::Rest(local), init),
        }
    }

    fn assign(&mut self, local: Local, index: Option<Operand>, value: Operand) {
        match index {
            None => {
                self.versions.change(Slot::Local(local));
                self.learn(Place::Local(local), value);
            }
            Some(index @ Operand::Literal(at)) => {
                if u64::from(self.lengths[local.index()].unwrap_or(0)) > at.bits() {
                    self.versions.change(Slot::Elements(local));
                    self.learn(Place::Element(local, index), value);
                }
            }
            Some(Operand::Value(_)) => {
                self.versions.change(Slot::Local(local));
                self.versions.change(Slot::Elements(local));
            }
        }
    }

    fn read_local(&self, place: Place, ty: DataType) -> Option<Operand> {
        let contents = self.contents(place);
        match place {
            Place::Element(local, Operand::Literal(at)) => {
                let len = self.lengths[local.index()]?;
                if at.bits() >= u64::from(len) {
                    return Some(literal(ty, 0));
                }
                contents.or_else(|| self.contents(Place::Rest(local)))
            }
            Place::Local(_) | Place::Rest(_) | Place::Element(..) | Place::Memory(..) => contents,
        }
    }

    /// Turns a load into what was stored, where that is known. Says whether the line stays.
    fn load(&mut self, node: &mut Node) -> bool {
        let Node::Load { result, ty, buffer, index } = &*node else { return true };
        let (result, ty) = (*result, *ty);
        let Some(stored) = self.contents(Place::Memory(*buffer, *index)) else { return true };
        if ty != self.around.buffer(*buffer).ty {
            return true;
        }
        let small = matches!(ty, DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16);
        match stored {
            Operand::Literal(stored) => self.replaced.put(result, widen(ty, stored.bits() & ty.mask())),
            Operand::Value(_) if !small => self.replaced.put(result, stored),
            Operand::Value(_) => {
                let count = literal(DataType::U32, u64::from(ty.bits()));
                *node = Node::Compute {
                    result,
                    op: ComputeOp::Extract,
                    ty: ty.computes_as(),
                    args: smallvec![stored, literal(DataType::U32, 0), count],
                };
                return true;
            }
        }
        false
    }

    fn branches(&mut self, then: &mut Block, otherwise: &mut Block) {
        let mark = self.versions.mark();
        let mut changed = Vec::new();
        for block in [then, otherwise] {
            self.block(block);
            let slots = self.versions.back_to(mark);
            // A block that jumps away does not reach the lines below.
            if !ends_in_jump(block) {
                changed.extend(slots);
            }
        }
        self.versions.join(&changed);
    }

    fn loop_(&mut self, counter: Value, body: &mut Block) {
        let changes = self.loops.remove(&counter).unwrap_or_default();
        let mark = self.versions.mark();
        self.versions.follow_loop(&changes);
        self.block(body);
        self.versions.back_to(mark);
        self.versions.follow_loop(&changes);
    }
}
