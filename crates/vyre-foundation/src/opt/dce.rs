//! Deletes lines that nothing needs.
//!
//! A line is needed if it can be seen from outside (it writes memory, meets other lanes or traps), or if a needed line
//! reads what it gives. A needed `get` needs all assignments of its local; a needed line needs the blocks around it,
//! and a needed loop its jumps. Everything else goes: unused values, locals nobody reads (also those that only feed
//! themselves), `if`s and loops in which nothing is needed. Loops always end, so deleting one is not seen.
//!
//! Loads are deleted too: they are total, and a load less cannot make a race. A store of a value to where it came from
//! stays, because on floats it makes NaN canonical. A second walk, backwards, deletes assignments that are overwritten
//! before any `get`.

use super::edit::{each_body, ends_in_jump, is_jump};
use crate::ir::{Block, Body, Effect, Local, Node, Operand, ProgramParts, Value, walk};

const NONE: u32 = u32::MAX;

pub(super) fn run(parts: &mut ProgramParts) {
    each_body(parts, |_, body| {
        cut_unreachable(&mut body.block);
        if !body.locals.is_empty() {
            super::liveness::delete_overwritten(body);
        }
        let needed = Needs::of(body).find();
        let mut site = 0;
        sweep(&mut body.block, &needed, &mut site);
        drop_unread_results(body);
    });
}

/// Cuts every block after a line that always jumps. Says whether this block always jumps.
fn cut_unreachable(block: &mut Block) -> bool {
    for at in 0..block.len() {
        let jumps = match &mut block[at] {
            Node::If { then, otherwise, .. } => cut_unreachable(then) & cut_unreachable(otherwise),
            Node::For { body, .. } => {
                cut_unreachable(body);
                // A `continue` at the end of a body goes where the body goes anyway.
                if matches!(body.last(), Some(Node::Continue)) {
                    body.pop();
                }
                false
            }
            other => is_jump(other),
        };
        if jumps {
            block.truncate(at + 1);
            return true;
        }
    }
    debug_assert!(!ends_in_jump(block));
    false
}

/// The lines of a body by site, with who needs whom.
struct Needs<'a> {
    nodes: Vec<&'a Node>,
    /// The `if` or `for` around a line.
    parents: Vec<u32>,
    /// The line that assigns a value.
    definitions: Vec<u32>,
    /// The line that declares a local.
    declarations: Vec<u32>,
    /// The first of a local's assignments; `next` has the others.
    assignments: Vec<u32>,
    /// The first of a loop's jumps, by the loop's site; `next` has the others.
    jumps: Vec<u32>,
    next: Vec<u32>,
    needed: Vec<bool>,
    work: Vec<u32>,
}

impl<'a> Needs<'a> {
    fn of(body: &'a Body) -> Needs<'a> {
        let likely = 2 * body.values.len();
        let mut needs = Needs {
            nodes: Vec::with_capacity(likely),
            parents: Vec::with_capacity(likely),
            definitions: vec![NONE; body.values.len()],
            declarations: vec![NONE; body.locals.len()],
            assignments: vec![NONE; body.locals.len()],
            jumps: Vec::with_capacity(likely),
            next: Vec::with_capacity(likely),
            needed: Vec::new(),
            work: Vec::new(),
        };
        needs.block(&body.block, NONE, NONE);
        needs.needed = vec![false; needs.nodes.len()];
        needs
    }

    fn block(&mut self, block: &'a Block, parent: u32, around: u32) {
        for node in block {
            let site = self.nodes.len() as u32;
            self.nodes.push(node);
            self.parents.push(parent);
            self.jumps.push(NONE);
            self.next.push(NONE);
            if let Some(value) = node.result() {
                self.definitions[value.index()] = site;
            }
            if let Node::Var { local, .. } = node {
                self.declarations[local.index()] = site;
            } else if let Node::Set { local, .. } = node {
                let first = std::mem::replace(&mut self.assignments[local.index()], site);
                self.next[site as usize] = first;
            } else if is_jump(node) && around != NONE {
                let first = std::mem::replace(&mut self.jumps[around as usize], site);
                self.next[site as usize] = first;
            }
            let around = if matches!(node, Node::For { .. }) { site } else { around };
            node.blocks().for_each(|inner| self.block(inner, site, around));
        }
    }

    fn find(mut self) -> Vec<bool> {
        for site in 0..self.nodes.len() as u32 {
            if is_seen_outside(self.nodes[site as usize]) {
                self.need(site);
            }
        }
        while let Some(site) = self.work.pop() {
            self.need_inputs(site);
        }
        self.needed
    }

    fn need(&mut self, site: u32) {
        if site != NONE && !std::mem::replace(&mut self.needed[site as usize], true) {
            self.work.push(site);
        }
    }

    fn need_chain(&mut self, first: u32) {
        let mut site = first;
        while site != NONE {
            self.need(site);
            site = self.next[site as usize];
        }
    }

    fn need_inputs(&mut self, site: u32) {
        self.need(self.parents[site as usize]);
        let node = self.nodes[site as usize];
        node.for_each_operand(|operand| {
            if let Operand::Value(Value(value)) = operand {
                self.need(self.definitions[value as usize]);
            }
        });
        if let Node::Get { local: Local(local), .. } = node {
            let local = *local as usize;
            // The chain is walked once: a declaration that is already needed has had its turn.
            if !self.needed[self.declarations[local] as usize] {
                self.need(self.declarations[local]);
                self.need_chain(self.assignments[local]);
            }
        }
        self.need_chain(self.jumps[site as usize]);
    }
}

/// Whether a line does something that others can see. Lanes that exchange values do not order memory by it.
const fn is_seen_outside(node: &Node) -> bool {
    match node.effect() {
        Effect::Writes
        | Effect::Orders
        | Effect::OrdersAndWrites
        | Effect::Calls
        | Effect::Launches
        | Effect::Traps => true,
        Effect::Pure | Effect::Reads | Effect::Gets | Effect::Sets | Effect::Exchanges | Effect::Controls => {
            false
        }
    }
}

fn sweep(block: &mut Block, needed: &[bool], site: &mut usize) {
    block.retain_mut(|node| {
        let keep = needed[*site];
        *site += 1;
        node.blocks_mut().for_each(|inner| sweep(inner, needed, site));
        keep
    });
}

/// An atomic or a call whose result nobody reads needs none; result-less atomics may also race less.
fn drop_unread_results(body: &mut Body) {
    let mut read = vec![false; body.values.len()];
    walk(&body.block, |_, _, node| {
        node.for_each_operand(|operand| {
            if let Operand::Value(value) = operand {
                read[value.index()] = true;
            }
        });
    });
    fn go(block: &mut Block, read: &[bool]) {
        for node in block {
            if let Node::Atomic { result, .. } | Node::Call { result, .. } = node {
                *result = result.filter(|value| read[value.index()]);
            }
            node.blocks_mut().for_each(|inner| go(inner, read));
        }
    }
    go(&mut body.block, &read);
}
