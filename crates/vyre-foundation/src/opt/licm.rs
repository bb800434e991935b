//! Moves lines whose value no trip of a loop changes to where the loop starts.
//!
//! Pure ops, ids, lengths, loads from memory that nothing writes, and `get`s of locals that the loop does not assign.
//! All of them are total, so running one that the loop might have skipped does no harm; a load of writable memory
//! could, because one that did not happen before may be a race now, so those stay. Nothing that meets other lanes or
//! traps moves.
//!
//! One walk: a line goes straight to the outermost loop that it does not depend on. It keeps its op and operands, so
//! its value stays as uniform as it was.

use super::edit::{LoopChanges, Surroundings, each_body, loop_changes, reads_constant};
use crate::ir::{Block, Body, Effect, Node, Operand, ProgramParts, Value};
use rustc_hash::FxHashMap;

pub(super) fn run(parts: &mut ProgramParts) {
    each_body(parts, |around, body| {
        let mut licm = Licm::new(around, body);
        licm.block(&mut body.block);
    });
}

struct Licm<'a> {
    around: &'a Surroundings<'a>,
    loops: FxHashMap<Value, LoopChanges>,
    /// How many loops stand around the line that assigns a value, once moved.
    value_depths: Vec<u32>,
    /// The innermost loop around which a local's contents are the same: the most of the loops that stand around its
    /// declaration and around its assignments in the loops that are open.
    local_depths: Vec<u32>,
    /// The lines moved before each open loop, outermost first.
    moved: Vec<Block>,
}

impl<'a> Licm<'a> {
    fn new(around: &'a Surroundings<'a>, body: &Body) -> Licm<'a> {
        Licm {
            around,
            loops: loop_changes(body),
            value_depths: vec![0; body.values.len()],
            local_depths: vec![0; body.locals.len()],
            moved: Vec::new(),
        }
    }

    fn block(&mut self, block: &mut Block) {
        let mut out = Vec::with_capacity(block.len());
        for mut node in std::mem::take(block) {
            let depth = self.moved.len();
            if let Node::For { counter, body, .. } = &mut node {
                self.loop_(*counter, body, &mut out);
                out.push(node);
                continue;
            }
            node.blocks_mut().for_each(|inner| self.block(inner));
            if let Node::Var { local, .. } = &node {
                self.local_depths[local.index()] = depth as u32;
            }
            let wanted = self.depth_needed(&node).unwrap_or(depth).min(depth);
            if let Some(result) = node.result() {
                self.value_depths[result.index()] = wanted as u32;
            }
            match self.moved.get_mut(wanted) {
                Some(before_loop) => before_loop.push(node),
                None => out.push(node),
            }
        }
        *block = out;
    }

    fn loop_(&mut self, counter: Value, body: &mut Block, out: &mut Block) {
        let changes = self.loops.remove(&counter).unwrap_or_default();
        self.moved.push(Vec::new());
        let depth = self.moved.len() as u32;
        self.value_depths[counter.index()] = depth;
        let mut before = Vec::with_capacity(changes.locals.len());
        for local in &changes.locals {
            before.push(std::mem::replace(&mut self.local_depths[local.index()], depth));
        }
        self.block(body);
        for (local, before) in changes.locals.iter().zip(before) {
            self.local_depths[local.index()] = before;
        }
        out.append(&mut self.moved.pop().expect("pushed above"));
    }

    /// The least number of loops that must stand around a line, if it may move at all.
    fn depth_needed(&self, node: &Node) -> Option<usize> {
        let of_operands = || {
            let mut depth = 0;
            node.for_each_operand(|operand| {
                if let Operand::Value(value) = operand {
                    depth = depth.max(self.value_depths[value.index()]);
                }
            });
            depth
        };
        let depth = match node.effect() {
            Effect::Pure => of_operands(),
            Effect::Reads if reads_constant(node, self.around) => of_operands(),
            Effect::Gets => {
                node.local().map_or(0, |local| of_operands().max(self.local_depths[local.index()]))
            }
            Effect::Reads
            | Effect::Writes
            | Effect::Sets
            | Effect::Exchanges
            | Effect::Orders
            | Effect::OrdersAndWrites
            | Effect::Controls
            | Effect::Calls
            | Effect::Launches
            | Effect::Traps => return None,
        };
        Some(depth as usize)
    }
}
