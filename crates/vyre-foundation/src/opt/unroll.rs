//! Writes short loops with a known number of trips out, one copy of the body a trip.
//!
//! The counter becomes a literal in every copy, which lets the other passes compute indices and forward locals.
//! Left as they are:
//! - loops with a jump of their own, because a copy has no place to jump to,
//! - bodies with two traps: the error names the first site in program order, and copies would put the second site of
//!   one trip before the first site of the next,
//! - bodies that declare private arrays, whose bytes a program has few of, or call functions.
//!
//! What a loop and all loops together may add is bounded, so the program grows by a constant factor at most.

use super::edit::{base_name, each_body, is_jump, line_count, literal};
use crate::ir::{Block, Body, DataType, Local, Name, Node, Operand, ProgramParts, Value};
use rustc_hash::FxHashMap;

/// Trips of a loop that is written out.
const TRIPS_MAX: u64 = 32;
/// Lines that a loop may become.
const LINES_MAX: u64 = 256;
/// Lines that a body may grow by, whatever its size.
const GROWTH_MIN: u64 = 4096;

pub(super) fn run(parts: &mut ProgramParts) {
    each_body(parts, |_, body| {
        let mut block = std::mem::take(&mut body.block);
        let growth_left = GROWTH_MIN.max(line_count(&block) as u64);
        Unroll { body, growth_left }.block(&mut block);
        body.block = block;
    });
}

struct Unroll<'a> {
    body: &'a mut Body,
    growth_left: u64,
}

/// What of a loop's body decides whether it may be copied.
#[derive(Default)]
struct Contents {
    lines: u64,
    traps: u64,
    /// A jump of the loop itself.
    jumps: bool,
    /// A private array or a call.
    single: bool,
}

impl Contents {
    fn add(&mut self, block: &Block, own: bool) {
        for node in block {
            self.lines += 1;
            self.traps += u64::from(matches!(node, Node::Trap { .. }));
            self.jumps |= own && is_jump(node);
            self.single |= matches!(node, Node::Var { len: Some(_), .. } | Node::Call { .. });
            // Enough is known; a long body is not looked through once per loop around it.
            if self.lines > LINES_MAX {
                return;
            }
            let own = own && !matches!(node, Node::For { .. });
            node.blocks().for_each(|inner| self.add(inner, own));
        }
    }
}

impl Unroll<'_> {
    fn block(&mut self, block: &mut Block) {
        let mut out = Vec::with_capacity(block.len());
        for mut node in std::mem::take(block) {
            node.blocks_mut().for_each(|inner| self.block(inner));
            match node {
                Node::For { counter, lo: Operand::Literal(lo), hi: Operand::Literal(hi), step, body } => {
                    let (first, end) = (lo.bits(), hi.bits());
                    let trips = end.saturating_sub(first).div_ceil(u64::from(step.max(1)));
                    if self.fits(trips, &body) {
                        for trip in 0..trips {
                            let at = literal(DataType::U32, first + trip * u64::from(step));
                            self.copy(&body, counter, at, &mut out);
                        }
                    } else {
                        out.push(Node::For { counter, lo: lo.into(), hi: hi.into(), step, body });
                    }
                }
                other => out.push(other),
            }
        }
        *block = out;
    }

    fn fits(&mut self, trips: u64, body: &Block) -> bool {
        let mut contents = Contents::default();
        contents.add(body, true);
        let lines = contents.lines.saturating_mul(trips);
        let once = trips <= 1 && contents.lines <= LINES_MAX;
        let copies = trips <= TRIPS_MAX
            && lines <= LINES_MAX.min(self.growth_left)
            && contents.traps <= 1
            && !contents.single;
        let fits = !contents.jumps && (once || copies);
        if fits && trips > 1 {
            self.growth_left -= lines;
        }
        fits
    }

    fn copy(&mut self, block: &Block, counter: Value, at: Operand, out: &mut Block) {
        let mut copier = Copier {
            body: self.body,
            values: FxHashMap::from_iter([(counter, at)]),
            locals: FxHashMap::default(),
        };
        out.extend(block.iter().map(|node| copier.node(node)));
    }
}

/// Copies lines with values and locals of their own.
struct Copier<'a> {
    body: &'a mut Body,
    values: FxHashMap<Value, Operand>,
    locals: FxHashMap<Local, Local>,
}

impl Copier<'_> {
    fn node(&mut self, node: &Node) -> Node {
        let mut copy = match node {
            Node::If { cond, .. } => Node::If { cond: *cond, then: Vec::new(), otherwise: Vec::new() },
            Node::For { counter, lo, hi, step, .. } => {
                Node::For { counter: *counter, lo: *lo, hi: *hi, step: *step, body: Vec::new() }
            }
            other => other.clone(),
        };
        copy.for_each_operand_mut(|operand| {
            if let Operand::Value(value) = operand {
                *operand = self.values.get(value).copied().unwrap_or(*operand);
            }
        });
        if let Some(result) = copy.result_mut() {
            let name: Name = base_name(&self.body.values[result.index()]).into();
            let new = self.body.new_value(&name);
            self.values.insert(*result, Operand::Value(new));
            *result = new;
        }
        if let Node::Var { local, .. } = copy {
            let name: Name = base_name(&self.body.locals[local.index()]).into();
            let new = self.body.new_local(&name);
            self.locals.insert(local, new);
        }
        if let Some(local) = copy.local_mut() {
            *local = self.locals.get(local).copied().unwrap_or(*local);
        }
        for (to, from) in copy.blocks_mut().zip(node.blocks()) {
            to.extend(from.iter().map(|inner| self.node(inner)));
        }
        copy
    }
}
