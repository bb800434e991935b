//! Knows between which limits values lie, decides comparisons by it, and proves accesses in bounds.
//!
//! One walk in textual order: every value has an interval and perhaps bounds like "at most `len(@y) - 1`"; a branch
//! adds what its condition says while its blocks are walked, and a branch that jumps away leaves the opposite for the
//! lines below it. Loop counters lie between their bounds. Locals are not followed: `forward` has turned most of them
//! into values.
//!
//! The pass uses values that can only be one number as that number, takes branches so decided, and drops `min`,
//! `max`, `rem` and `and` that cannot change their operand. [`analyse`] lists the accesses that never leave their
//! buffer, so that backends can drop the check; what an access out of bounds means stays the language's business.

mod env;
mod interval;

use super::edit::{Replacements, Surroundings, each_body, ends_in_jump, is_jump, literal};
use crate::ir::{Block, Body, ComputeOp, DataType, FunctionId, Node, Operand, ProgramParts};
use crate::validate::ValidProgram;
use env::Env;

/// Lines of one body, by site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    words: Vec<u64>,
}

impl Sites {
    /// Whether the line at `site` is one of them.
    pub fn contains(&self, site: u32) -> bool {
        self.words.get(site as usize / 64).is_some_and(|word| word >> (site % 64) & 1 == 1)
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn insert(&mut self, site: u32) {
        let word = site as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (site % 64);
    }
}

/// The accesses of a program that are proven to stay in bounds, whatever the launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessFacts {
    /// Those of the main body.
    pub body: Sites,
    /// Those of the functions, by their ids.
    pub functions: Vec<Sites>,
}

impl AccessFacts {
    /// Whether every element that the line names exists. False for lines that access no memory.
    pub fn in_bounds(&self, function: Option<FunctionId>, site: u32) -> bool {
        match function {
            None => self.body.contains(site),
            Some(function) => self.functions[function.index()].contains(site),
        }
    }
}

/// Finds the accesses (loads, stores, atomics, tile products, elements of private arrays) that stay in bounds.
pub fn analyse(program: &ValidProgram) -> AccessFacts {
    let parts = program.parts();
    let functions = parts.functions.iter().enumerate();
    AccessFacts {
        body: body_facts(&Surroundings::of(parts, None), &parts.body),
        functions: functions
            .map(|(index, function)| body_facts(&Surroundings::of(parts, Some(index)), &function.body))
            .collect(),
    }
}

/// The accesses of one body that stay in bounds.
pub(super) fn body_facts(around: &Surroundings<'_>, body: &Body) -> Sites {
    let mut analysis = Analysis { around, env: Env::new(around, body), proven: Sites::default(), site: 0 };
    analysis.block(&body.block);
    analysis.proven
}

struct Analysis<'a> {
    around: &'a Surroundings<'a>,
    env: Env<'a>,
    proven: Sites,
    site: u32,
}

impl Analysis<'_> {
    fn block(&mut self, block: &Block) {
        let mark = self.env.mark();
        for node in block {
            if self.stays_in_bounds(node) {
                self.proven.insert(self.site);
            }
            self.site += 1;
            self.env.define(node);
            let Node::If { cond, then, otherwise } = node else {
                node.blocks().for_each(|inner| self.block(inner));
                continue;
            };
            for (inner, truth) in [(then, true), (otherwise, false)] {
                let mark = self.env.mark();
                self.env.assume(*cond, truth);
                self.block(inner);
                self.env.back_to(mark);
            }
            assume_rest(&mut self.env, *cond, then, otherwise);
        }
        self.env.back_to(mark);
    }

    /// Whether a line has accesses, and all of them are inside.
    fn stays_in_bounds(&self, node: &Node) -> bool {
        if let (Some(local), Some(index)) = (node.local(), node.local_index()) {
            return self.env.in_array(local, index);
        }
        let mut counts = [1; 3];
        if let Node::Mma { m, n, k, .. } = node {
            let [m, n, k] = [m, n, k].map(|extent| u64::from(*extent));
            counts = [m * n, m * k, n * k];
        } else if let Node::Load { ty: DataType::U32, buffer, .. } = node
            && self.around.buffer(*buffer).ty == DataType::U8
        {
            counts[0] = 4;
        }
        let (mut counts, mut inside) = (counts.into_iter(), None);
        node.for_each_element(|buffer, index| {
            let here = counts.next().is_some_and(|count| self.env.in_buffer(buffer, index, count));
            inside = Some(inside.unwrap_or(true) && here);
        });
        inside.unwrap_or(false)
    }
}

/// Below an `if` of which one block jumps away, its condition has the other truth.
fn assume_rest(env: &mut Env<'_>, cond: Operand, then: &Block, otherwise: &Block) {
    match (ends_in_jump(then), ends_in_jump(otherwise)) {
        (true, false) => env.assume(cond, false),
        (false, true) => env.assume(cond, true),
        (true, true) | (false, false) => {}
    }
}

pub(super) fn run(parts: &mut ProgramParts) {
    each_body(parts, |around, body| {
        let mut rewrite = Rewrite { env: Env::new(around, body), replaced: Replacements::new(body) };
        rewrite.block(&mut body.block);
    });
}

struct Rewrite<'a> {
    env: Env<'a>,
    replaced: Replacements,
}

impl Rewrite<'_> {
    fn block(&mut self, block: &mut Block) {
        let mark = self.env.mark();
        let mut out = Vec::with_capacity(block.len());
        self.lines(std::mem::take(block), &mut out);
        *block = out;
        self.env.back_to(mark);
    }

    fn lines(&mut self, lines: Block, out: &mut Block) {
        for mut node in lines {
            if out.last().is_some_and(is_jump) {
                return;
            }
            node.for_each_operand_mut(|operand| {
                *operand = self.replaced.get(*operand);
                if let Some(constant) = self.env.constant(*operand) {
                    *operand = constant.into();
                }
            });
            self.env.define(&node);
            match node {
                Node::If { cond: Operand::Literal(cond), then, otherwise } => {
                    self.lines(if cond.bits() != 0 { then } else { otherwise }, out);
                }
                Node::If { cond, then, otherwise } => out.push(self.branches(cond, then, otherwise)),
                Node::For { lo, hi, .. } if self.env.interval(lo).lo >= self.env.interval(hi).hi => {}
                Node::For { counter, lo, hi, step, mut body } => {
                    self.block(&mut body);
                    out.push(Node::For { counter, lo, hi, step, body });
                }
                Node::Compute { result, op, ty, args } => match self.unchanged(op, ty, &args) {
                    Some(operand) => self.replaced.put(result, operand),
                    None => out.push(Node::Compute { result, op, ty, args }),
                },
                other => out.push(other),
            }
        }
    }

    fn branches(&mut self, cond: Operand, mut then: Block, mut otherwise: Block) -> Node {
        for (inner, truth) in [(&mut then, true), (&mut otherwise, false)] {
            let mark = self.env.mark();
            self.env.assume(cond, truth);
            self.block(inner);
            self.env.back_to(mark);
        }
        assume_rest(&mut self.env, cond, &then, &otherwise);
        Node::If { cond, then, otherwise }
    }

    /// The operand that an op gives back whatever it is.
    fn unchanged(&self, op: ComputeOp, ty: DataType, args: &[Operand]) -> Option<Operand> {
        if ty.is_float() || ty == DataType::Bool || args.len() != 2 {
            return None;
        }
        let (a, b) = (self.env.interval(args[0]), self.env.interval(args[1]));
        let (first, second) = (Some(args[0]), Some(args[1]));
        match op {
            ComputeOp::Min if a.hi <= b.lo => first,
            ComputeOp::Min if b.hi <= a.lo => second,
            ComputeOp::Max if a.lo >= b.hi => first,
            ComputeOp::Max if b.lo >= a.hi => second,
            ComputeOp::Rem if a.lo >= 0 && a.hi < b.lo => first,
            ComputeOp::Div if a.lo >= 0 && a.hi < b.lo => Some(literal(ty, 0)),
            ComputeOp::And if a.lo >= 0 => {
                let mask = b.single().filter(|mask| *mask >= a.hi && (mask + 1) & mask == 0)?;
                (mask >= 0).then_some(args[0])
            }
            _ => None,
        }
    }
}
