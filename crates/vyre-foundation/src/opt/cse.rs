//! Uses a value that is already there instead of computing it again.
//!
//! One walk with a table of what has been computed in the blocks that are open. Two lines are the same if op, type and
//! operands are; operands of commutative ops in either order. A load is the same if its buffer has not been written and
//! no lanes have met in between: buffers do not alias, because a resource that is bound for writing is bound once.
//!
//! A value stays as uniform as it was, because its op and operands are the same. Atomics are never merged. Subgroup
//! ops are: all lanes take part in both, with the same operands.

use super::algebra::is_commutative;
use super::edit::{LoopChanges, Replacements, Surroundings, each_body, ends_in_jump, loop_changes};
use super::versions::{Slot, Versions};
use crate::ir::{Block, Body, DataType, Effect, Literal, Node, Operand, ProgramParts, Value};
use rustc_hash::FxHashMap;

pub(super) fn run(parts: &mut ProgramParts) {
    each_body(parts, |around, body| {
        let mut cse = Cse::new(around, body);
        // The outermost block's values need not be forgotten one by one.
        body.block.retain_mut(|node| cse.line(node));
    });
}

/// What makes two lines the same. Small, because there is one for every line.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    op: u8,
    ty: DataType,
    /// The buffer or the axis.
    of: u32,
    /// The buffer's version.
    version: u64,
    /// The operands, as `Cse::word` numbers them.
    args: [u32; 4],
}

struct Cse {
    replaced: Replacements,
    /// Numbers for the literals seen so far.
    literals: FxHashMap<Literal, u32>,
    known: FxHashMap<Key, Value>,
    /// The keys in the order of their entry, to be forgotten where their block ends.
    log: Vec<Key>,
    versions: Versions,
    loops: FxHashMap<Value, LoopChanges>,
}

impl Cse {
    fn new(around: &Surroundings<'_>, body: &Body) -> Cse {
        Cse {
            replaced: Replacements::new(body),
            literals: FxHashMap::default(),
            known: FxHashMap::with_capacity_and_hasher(body.values.len(), Default::default()),
            log: Vec::new(),
            versions: Versions::new(around, body),
            loops: loop_changes(body),
        }
    }

    fn block(&mut self, block: &mut Block) {
        let mark = self.log.len();
        block.retain_mut(|node| self.line(node));
        for key in self.log.drain(mark..) {
            self.known.remove(&key);
        }
    }

    /// Says whether the line stays.
    fn line(&mut self, node: &mut Node) -> bool {
        self.replaced.apply(node);
        match node {
            Node::If { then, otherwise, .. } => self.branches(then, otherwise),
            Node::For { counter, body, .. } => self.loop_(*counter, body),
            other => {
                self.versions.follow(other);
                if let (Some(result), Some(key)) = (other.result(), self.key(other)) {
                    if let Some(value) = self.known.get(&key) {
                        self.replaced.put(result, Operand::Value(*value));
                        return false;
                    }
                    self.log.push(key);
                    self.known.insert(key, result);
                }
            }
        }
        true
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

    /// A number for an operand: values from below, literals from above.
    fn word(&mut self, operand: Operand) -> u32 {
        match operand {
            Operand::Value(value) => value.0,
            Operand::Literal(literal) => {
                let next = u32::MAX - self.literals.len() as u32;
                *self.literals.entry(literal).or_insert(next)
            }
        }
    }

    fn key(&mut self, node: &Node) -> Option<Key> {
        // No line has a number so high: `NODES_MAX` values and literals stay far apart.
        const NO_OPERAND: u32 = 1 << 31;
        let mut args = [NO_OPERAND; 4];
        let version = match node.effect() {
            Effect::Pure | Effect::Exchanges => 0,
            Effect::Reads => node.buffer().map_or(0, |buffer| self.versions.of(Slot::Buffer(buffer))),
            Effect::Writes
            | Effect::Gets
            | Effect::Sets
            | Effect::Orders
            | Effect::OrdersAndWrites
            | Effect::Controls
            | Effect::Calls
            | Effect::Launches
            | Effect::Traps => return None,
        };
        let mut words = args.iter_mut();
        node.for_each_operand(|operand| {
            if let Some(word) = words.next() {
                *word = self.word(operand);
            }
        });
        if let Node::Compute { op, .. } = node
            && is_commutative(*op)
            && args[0] > args[1]
        {
            args.swap(0, 1);
        }
        let of = match node {
            Node::Builtin { axis, .. } => axis.map_or(0, |axis| axis.index() as u32),
            other => other.buffer().map_or(0, |buffer| buffer.0),
        };
        let ty = node.suffix().unwrap_or(DataType::U32);
        Some(Key { op: node.op().info().tag, ty, of, version, args })
    }
}
