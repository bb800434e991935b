//! Turns a short `if` that only computes and assigns locals into `select`s.
//!
//! Both blocks run then, so they may hold only what is total and unseen: pure ops, `get`s, loads from memory that
//! nothing writes. Stores, atomics, traps and everything that meets other lanes keep their branch; so does a load of
//! writable memory, which could race where it did not run before.
//!
//! A local assigned under a condition is as uniform as the condition and the values, and so is the `select`.

use super::edit::{Replacements, Surroundings, each_body, reads_constant};
use crate::ir::{Block, Body, ComputeOp, DataType, Effect, Local, Node, Operand, ProgramParts};
use smallvec::{SmallVec, smallvec};

/// Lines that both blocks may have together: about what a divergent branch costs.
const LINES_MAX: usize = 8;

pub(super) fn run(parts: &mut ProgramParts) {
    each_body(parts, |around, body| {
        // Only assignments of locals become selects.
        if body.locals.is_empty() {
            return;
        }
        let mut convert = Convert { around, replaced: Replacements::new(body) };
        let mut block = std::mem::take(&mut body.block);
        convert.block(&mut block, body);
        body.block = block;
    });
}

/// A local that a block assigns, and what it holds after the block.
struct Assigned {
    local: Local,
    ty: DataType,
    value: Operand,
}

type Assignments = SmallVec<[Assigned; 4]>;

struct Convert<'a> {
    around: &'a Surroundings<'a>,
    replaced: Replacements,
}

impl Convert<'_> {
    fn block(&mut self, block: &mut Block, body: &mut Body) {
        for node in &mut *block {
            self.replaced.apply(node);
            node.blocks_mut().for_each(|inner| self.block(inner, body));
        }
        let fits =
            |node: &Node| matches!(node, Node::If { then, otherwise, .. } if self.fits(then, otherwise));
        if !block.iter().any(fits) {
            return;
        }
        let mut out = Vec::with_capacity(block.len());
        for node in std::mem::take(block) {
            match node {
                Node::If { cond, then, otherwise } if self.fits(&then, &otherwise) => {
                    self.convert(cond, [then, otherwise], &mut out, body);
                }
                other => out.push(other),
            }
        }
        *block = out;
    }

    fn fits(&self, then: &Block, otherwise: &Block) -> bool {
        let lines = then.len() + otherwise.len();
        let assigns = |node: &Node| matches!(node, Node::Set { .. });
        lines <= LINES_MAX
            && then.iter().chain(otherwise).any(assigns)
            && then.iter().chain(otherwise).all(|node| self.may_run_anyway(node))
    }

    /// Whether a line may run where the program would have skipped it; assignments become selects.
    fn may_run_anyway(&self, node: &Node) -> bool {
        match node.effect() {
            Effect::Pure | Effect::Gets => true,
            Effect::Sets => matches!(node, Node::Set { index: None, .. }),
            Effect::Reads => reads_constant(node, self.around),
            Effect::Writes
            | Effect::Exchanges
            | Effect::Orders
            | Effect::OrdersAndWrites
            | Effect::Controls
            | Effect::Calls
            | Effect::Launches
            | Effect::Traps => false,
        }
    }

    fn convert(&mut self, cond: Operand, blocks: [Block; 2], out: &mut Block, body: &mut Body) {
        let [then, otherwise] = blocks.map(|block| self.flatten(block, out));
        let mut sets = Vec::new();
        let only_otherwise = otherwise.iter().filter(|set| then.iter().all(|other| other.local != set.local));
        for &Assigned { local, ty, .. } in then.iter().chain(only_otherwise) {
            let mut after = |assigned: &Assignments| {
                if let Some(set) = assigned.iter().find(|set| set.local == local) {
                    return set.value;
                }
                let result = body.new_value("before");
                out.push(Node::Get { result, ty, local, index: None });
                Operand::Value(result)
            };
            let (a, b) = (after(&then), after(&otherwise));
            let result = body.new_value("chosen");
            out.push(Node::Compute { result, op: ComputeOp::Select, ty, args: smallvec![cond, a, b] });
            sets.push(Node::Set { ty, local, index: None, value: result.into() });
        }
        out.append(&mut sets);
    }

    /// Puts a block's lines into `out`, all but the assignments. A `get` after one in the same block reads its value.
    fn flatten(&mut self, block: Block, out: &mut Block) -> Assignments {
        let mut assigned = Assignments::new();
        for mut node in block {
            self.replaced.apply(&mut node);
            match node {
                Node::Set { ty, local, value, .. } => {
                    match assigned.iter_mut().find(|set| set.local == local) {
                        Some(set) => set.value = value,
                        None => assigned.push(Assigned { local, ty, value }),
                    }
                }
                Node::Get { result, local, index: None, .. }
                    if assigned.iter().any(|set| set.local == local) =>
                {
                    let set = assigned.iter().find(|set| set.local == local);
                    let value = set.expect("found by the guard").value;
                    self.replaced.put(result, value);
                }
                other => out.push(other),
            }
        }
        assigned
    }
}
