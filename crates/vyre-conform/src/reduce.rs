//! Makes a failing program and its input smaller while it still fails.
//!
//! Every attempt must stay a valid program that the reference runs without a race, and must still fail on the target
//! with the same kind of failure: other bytes, or an error. Attempts go from coarse to fine: one launch instead of several, one
//! element instead of all, a small grid, then lines (halves of the program first, single lines last), blocks, buffers and
//! contents. The number of dispatches and the time are bounded, so a slow device gives a larger program, not a long wait.

use crate::batch::{Batch, Content, Step};
use crate::judge::{self, Answer, Miss};
use crate::target::{Fault, Job, Target};
use std::time::{Duration, Instant};
use vyre_foundation::ir::{
    Block, BufferId, BufferKind, Literal, Node, Operand, Program, ProgramParts, Value, value_types, walk,
};
use vyre_foundation::launch::{bound_buffers, indirect};
use vyre_foundation::opt::Pass;

/// Dispatches to the target.
const DISPATCHES_MAX: u32 = 300;
/// Dispatches to a target that panics: every panic is printed to the terminal.
const PANICS_MAX: u32 = 40;
/// Attempts, most of which the reference refuses or finds right.
const ATTEMPTS_MAX: u32 = 3000;
const TIME_MAX: Duration = Duration::from_secs(3);

/// The smallest batch found that fails on the target, with how.
pub(crate) fn reduce(target: &dyn Target, batch: &Batch, miss: Miss) -> (Batch, Miss) {
    let candidate = Candidate { parts: batch.program.parts().clone(), step: batch.steps[miss.step].clone() };
    let mut reducer = Reducer {
        target,
        lookup: batch.lookup,
        kind: kind(&miss.actual),
        best: candidate.clone(),
        miss: None,
        dispatches: 0,
        attempts: 0,
        deadline: Instant::now() + TIME_MAX,
    };
    // What needs the launches before it, or luck, is shown as it was.
    if !reducer.attempt(candidate) {
        return (batch.clone(), miss);
    }
    reducer.all();
    let Reducer { best: Candidate { parts, step }, miss, .. } = reducer;
    let program = Program::new(parts).expect("it was a program when it was tried");
    let smaller = Batch { name: batch.name.clone(), program, steps: vec![step], lookup: batch.lookup };
    (smaller, miss.expect("the first attempt failed"))
}

/// How an answer is wrong, so that a reduced program shows the same.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Answer,
    Error,
    Length,
    Panic,
}

fn kind(actual: &Result<Answer, Fault>) -> Kind {
    match actual {
        Ok(_) => Kind::Answer,
        Err(Fault::Error(_)) => Kind::Error,
        Err(Fault::Length { .. }) => Kind::Length,
        Err(Fault::Panic(_)) => Kind::Panic,
    }
}

#[derive(Clone)]
struct Candidate {
    parts: ProgramParts,
    step: Step,
}

struct Reducer<'a> {
    target: &'a dyn Target,
    lookup: bool,
    kind: Kind,
    best: Candidate,
    miss: Option<Miss>,
    dispatches: u32,
    attempts: u32,
    deadline: Instant,
}

impl Reducer<'_> {
    fn over(&self) -> bool {
        let dispatches_max = if self.kind == Kind::Panic { PANICS_MAX } else { DISPATCHES_MAX };
        self.dispatches >= dispatches_max || self.attempts >= ATTEMPTS_MAX || Instant::now() > self.deadline
    }

    /// Takes the candidate if it still fails.
    fn attempt(&mut self, candidate: Candidate) -> bool {
        if self.over() {
            return false;
        }
        self.attempts += 1;
        let Ok(program) = Program::new(candidate.parts.clone()) else { return false };
        let Some(expected) = judge::checked(&program, &candidate.step) else { return false };
        self.dispatches += 1;
        let Step { grid, contents, init, .. } = &candidate.step;
        let job = Job { program: &program, grid: *grid, contents, init: *init, lookup: self.lookup };
        let actual = self.target.run(&job);
        if judge::is_right(&actual, &expected) || kind(&actual) != self.kind {
            return false;
        }
        self.best = Candidate { parts: program.parts().clone(), step: candidate.step };
        self.miss = Some(Miss { step: 0, expected, actual });
        true
    }

    /// Tries the best candidate with a change; a change that gives `None` has nothing to do.
    fn change(&mut self, change: impl FnOnce(&mut Candidate) -> Option<()>) -> bool {
        let mut candidate = self.best.clone();
        change(&mut candidate).is_some() && self.attempt(candidate)
    }

    fn all(&mut self) {
        self.change(|candidate| run_pass(candidate, Pass::Inline));
        loop {
            let before = size(&self.best);
            self.one_element();
            self.launch();
            self.lines();
            for pass in [Pass::Forward, Pass::Fold, Pass::Algebra, Pass::Dce] {
                self.change(|candidate| run_pass(candidate, pass));
            }
            self.blocks();
            self.bypasses();
            self.buffers();
            self.operands();
            self.contents();
            if self.over() || size(&self.best) >= before {
                return;
            }
        }
    }

    /// Keeps one element of every buffer that has as many as the output that differs, if that still fails.
    fn one_element(&mut self) {
        let Some((output, element)) = self.miss.as_ref().and_then(|miss| first_difference(&self.best, miss))
        else {
            return;
        };
        let bound = bound_buffers(&self.best.parts);
        let size = |candidate: &Candidate, at: usize| candidate.parts.buffer(bound[at]).ty.bytes();
        let count = self.best.step.contents[output].len() / size(&self.best, output);
        for window in [1, 16, 64, 256] {
            let first = element / window * window;
            let cut = self.change(|candidate| {
                let mut any = false;
                for (at, id) in bound.iter().enumerate() {
                    let (bytes, declared) = (size(candidate, at), candidate.parts.buffer(*id).len);
                    let content = &mut candidate.step.contents[at];
                    if declared.is_none() && content.len() == count * bytes && count > window {
                        *content = slice(content, first * bytes, window * bytes);
                        any = true;
                    }
                }
                let lanes = candidate.parts.workgroup_lanes().max(1) as usize;
                candidate.step.grid = [window.div_ceil(lanes) as u32, 1, 1];
                (any && indirect(&candidate.parts).is_none()).then_some(())
            });
            if cut {
                return;
            }
        }
    }

    /// Fewer workgroups, fewer lanes, no subgroups.
    fn launch(&mut self) {
        if indirect(&self.best.parts).is_none() {
            self.change(|candidate| shrink(&mut candidate.step.grid, [1, 1, 1]));
            for axis in 0..3 {
                while self.change(|candidate| {
                    let mut to = candidate.step.grid;
                    to[axis] = to[axis].div_ceil(2);
                    shrink(&mut candidate.step.grid, to)
                }) {}
            }
        }
        self.change(|candidate| candidate.parts.subgroup.take().map(|_| ()));
        self.change(|candidate| shrink(&mut candidate.parts.workgroup, [1, 1, 1]));
        for axis in 0..3 {
            while self.change(|candidate| {
                let mut to = candidate.parts.workgroup;
                to[axis] = to[axis].div_ceil(2);
                shrink(&mut candidate.parts.workgroup, to)
            }) {}
        }
    }

    /// Deletes lines: large stretches first.
    fn lines(&mut self) {
        let mut stretch = line_count(&self.best.parts.body.block).div_ceil(2);
        while stretch > 0 && !self.over() {
            // From the end, where what is deleted has fewer users.
            let mut end = line_count(&self.best.parts.body.block);
            while end > 0 && !self.over() {
                let start = end.saturating_sub(stretch);
                self.change(|candidate| {
                    delete_lines(&mut candidate.parts, start as u32..end as u32);
                    Some(())
                });
                end = start.min(line_count(&self.best.parts.body.block));
            }
            stretch /= 2;
        }
    }

    /// Replaces a block by its lines.
    fn blocks(&mut self) {
        let mut site = 0;
        while site < line_count(&self.best.parts.body.block) as u32 && !self.over() {
            let unwrapped =
                (0..2).any(|which| self.change(|candidate| unwrap(&mut candidate.parts, site, which)));
            if !unwrapped {
                site += 1;
            }
        }
    }

    /// Lets what used a line's result use one of its operands instead.
    fn bypasses(&mut self) {
        let mut site = line_count(&self.best.parts.body.block) as u32;
        while site > 0 && !self.over() {
            site -= 1;
            let _ =
                (0..3).any(|operand| self.change(|candidate| bypass(&mut candidate.parts, site, operand)));
        }
    }

    /// Deletes buffers that no line names, and lengths that need not be declared.
    fn buffers(&mut self) {
        for at in 0..self.best.parts.buffers.len() {
            self.change(|candidate| {
                let buffer = &mut candidate.parts.buffers[at];
                let free = matches!(buffer.kind, BufferKind::Read { .. } | BufferKind::ReadWrite { .. });
                buffer.len.take_if(|_| free).map(|_| ())
            });
        }
        let mut at = 0;
        while at < self.best.parts.buffers.len() {
            if !self.change(|candidate| delete_buffer(candidate, BufferId(at as u32))) {
                at += 1;
            }
        }
    }

    /// Replaces values by constants.
    fn operands(&mut self) {
        let lines = line_count(&self.best.parts.body.block);
        if lines > 24 {
            return;
        }
        for site in 0..lines as u32 {
            for place in 0..4 {
                for bits in [0, 1] {
                    if self.change(|candidate| constant(&mut candidate.parts, site, place, bits)) {
                        break;
                    }
                }
            }
        }
    }

    /// Shorter and emptier contents.
    fn contents(&mut self) {
        for at in 0..self.best.step.contents.len() {
            // One by one only where that takes few dispatches.
            let lengths: [fn(usize) -> usize; 3] =
                [|_| 1, |count| count / 2, |count| if count > 16 { count } else { count - 1 }];
            while lengths.iter().any(|kept| self.change(|candidate| shorten(candidate, at, *kept))) {}
            if !self.change(|candidate| clear(candidate, at, 0, usize::MAX)) {
                let mut stretch = self.best.step.contents[at].len().div_ceil(2);
                while stretch > 0 && !self.over() {
                    for start in (0..self.best.step.contents[at].len()).step_by(stretch) {
                        self.change(|candidate| clear(candidate, at, start, stretch));
                    }
                    stretch /= 4;
                }
            }
        }
    }
}

/// How large a candidate is: lines, lanes, bytes.
fn size(candidate: &Candidate) -> (usize, u64, usize) {
    let groups: u64 = candidate.step.grid.iter().map(|count| u64::from(*count)).product();
    let bytes = candidate.step.contents.iter().map(Content::len).sum();
    (line_count(&candidate.parts.body.block), groups * candidate.parts.workgroup_lanes(), bytes)
}

fn line_count(block: &Block) -> usize {
    let mut count = 0;
    walk(block, |_, _, _| count += 1);
    count
}

fn run_pass(candidate: &mut Candidate, pass: Pass) -> Option<()> {
    let before = candidate.parts.clone();
    pass.run(&mut candidate.parts);
    if pass == Pass::Inline {
        candidate.parts.functions.clear();
    }
    (candidate.parts != before).then_some(())
}

/// Sets an extent to a smaller one.
fn shrink(extent: &mut [u32; 3], to: [u32; 3]) -> Option<()> {
    let smaller = extent.iter().zip(&to).all(|(from, to)| to <= from) && *extent != to;
    smaller.then(|| *extent = to)
}

/// The output that differs first, by its place among the bound buffers, and the element.
fn first_difference(candidate: &Candidate, miss: &Miss) -> Option<(usize, usize)> {
    let (Answer::Outputs(expected), Ok(Answer::Outputs(actual))) = (&miss.expected, &miss.actual) else {
        return None;
    };
    let bound = bound_buffers(&candidate.parts);
    let outputs = (0..bound.len()).filter(|at| candidate.parts.buffer(bound[*at]).is_output());
    outputs.zip(expected.iter().zip(actual)).find_map(|(at, (expected, actual))| {
        let byte = expected.iter().zip(actual).position(|(a, b)| a != b)?;
        Some((at, byte / candidate.parts.buffer(bound[at]).ty.bytes()))
    })
}

fn slice(content: &Content, from: usize, len: usize) -> Content {
    match content {
        Content::Zeros(all) => Content::Zeros(len.min(all.saturating_sub(from))),
        Content::Bytes(bytes) => {
            let from = from.min(bytes.len());
            Content::Bytes(bytes[from..bytes.len().min(from + len)].to_vec())
        }
    }
}

/// Keeps the first elements of a buffer; how many, `kept` says of how many there are.
fn shorten(candidate: &mut Candidate, at: usize, kept: fn(usize) -> usize) -> Option<()> {
    let id = bound_buffers(&candidate.parts)[at];
    let buffer = candidate.parts.buffer(id);
    let elements = candidate.step.contents[at].len() / buffer.ty.bytes();
    if buffer.len.is_some() || elements < 2 || kept(elements) == elements {
        return None;
    }
    let bytes = kept(elements) * buffer.ty.bytes();
    candidate.step.contents[at] = slice(&candidate.step.contents[at], 0, bytes);
    Some(())
}

fn clear(candidate: &mut Candidate, at: usize, start: usize, len: usize) -> Option<()> {
    let Content::Bytes(bytes) = &mut candidate.step.contents[at] else { return None };
    let end = start.saturating_add(len).min(bytes.len());
    let stretch = bytes.get_mut(start..end)?;
    stretch.iter().any(|byte| *byte != 0).then(|| stretch.fill(0))
}

/// Deletes lines of the main body by their numbers; what used their values reads zero.
fn delete_lines(parts: &mut ProgramParts, sites: std::ops::Range<u32>) {
    let types = value_types(&parts.body, None, &parts.functions);
    let mut gone: Vec<bool> = vec![false; parts.body.values.len()];
    let mut locals: Vec<bool> = vec![false; parts.body.locals.len()];
    let mut site = 0;
    let block = std::mem::take(&mut parts.body.block);
    let mut block = filter(block, &mut |node| {
        let here = site;
        site += 1;
        let deleted = sites.contains(&here);
        let unknown =
            !matches!(node, Node::Var { .. }) && node.local().is_some_and(|local| locals[local.index()]);
        if let (true, Node::Var { local, .. }) = (deleted, node) {
            locals[local.index()] = true;
        }
        if deleted || unknown {
            // The lines of its blocks are not asked about, but they have numbers.
            walk(node.blocks().next().unwrap_or(&Vec::new()), |_, _, _| site += 1);
            walk(node.blocks().nth(1).unwrap_or(&Vec::new()), |_, _, _| site += 1);
            if let Some(result) = node.result() {
                gone[result.index()] = true;
            }
        }
        !(deleted || unknown)
    });
    let zero = |value: Value| types[value.index()].map(|ty| Operand::Literal(Literal::from_bits(ty, 0)));
    for_each_line(&mut block, &mut |node| {
        node.for_each_operand_mut(|operand| {
            if let Operand::Value(value) = *operand
                && gone[value.index()]
            {
                *operand = zero(value).unwrap_or(*operand);
            }
        });
    });
    parts.body.block = block;
}

/// The lines that are kept, in order; the blocks of a line come after it.
fn filter(block: Block, keep: &mut dyn FnMut(&Node) -> bool) -> Block {
    let mut kept = Vec::with_capacity(block.len());
    for mut node in block {
        if keep(&node) {
            for inner in node.blocks_mut() {
                *inner = filter(std::mem::take(inner), keep);
            }
            kept.push(node);
        }
    }
    kept
}

fn for_each_line(block: &mut Block, f: &mut dyn FnMut(&mut Node)) {
    for node in block {
        f(node);
        node.blocks_mut().for_each(|inner| for_each_line(inner, f));
    }
}

/// Replaces the `if` or loop at a site by one of its blocks.
fn unwrap(parts: &mut ProgramParts, site: u32, which: usize) -> Option<()> {
    fn go(block: &mut Block, at: &mut u32, site: u32, which: usize) -> Option<(Option<Value>, Operand)> {
        for place in 0..block.len() {
            let here = *at;
            *at += 1;
            if here == site {
                let counter = match &block[place] {
                    Node::For { counter, lo, .. } => Some((Some(*counter), *lo)),
                    Node::If { cond, .. } => Some((None, *cond)),
                    _ => None,
                }?;
                let inner = block[place].blocks().nth(which)?.clone();
                block.splice(place..=place, inner);
                return Some(counter);
            }
            for inner in block[place].blocks_mut() {
                if let Some(found) = go(inner, at, site, which) {
                    return Some(found);
                }
            }
        }
        None
    }
    let (counter, first) = go(&mut parts.body.block, &mut 0, site, which)?;
    if let Some(counter) = counter {
        for_each_line(&mut parts.body.block, &mut |node| {
            node.for_each_operand_mut(|operand| {
                if *operand == Operand::Value(counter) {
                    *operand = first;
                }
            });
        });
    }
    Some(())
}

/// Deletes the line at a site and replaces its result by one of its operands, of the same type.
fn bypass(parts: &mut ProgramParts, site: u32, which: usize) -> Option<()> {
    let types = value_types(&parts.body, None, &parts.functions);
    let mut found = None;
    walk(&parts.body.block, |at, _, node| {
        if at == site && node.blocks().next().is_none() {
            let mut operands = Vec::new();
            node.for_each_operand(|operand| operands.push(operand));
            found = node.result().zip(operands.get(which).copied());
        }
    });
    let (result, operand) = found?;
    let ty = match operand {
        Operand::Value(value) => types[value.index()],
        Operand::Literal(literal) => Some(literal.ty()),
    };
    if ty != types[result.index()] {
        return None;
    }
    for_each_line(&mut parts.body.block, &mut |node| {
        node.for_each_operand_mut(|used| {
            if *used == Operand::Value(result) {
                *used = operand;
            }
        });
    });
    delete_lines(parts, site..site + 1);
    Some(())
}

/// Puts a constant in the place of a line's operand.
fn constant(parts: &mut ProgramParts, site: u32, place: usize, bits: u64) -> Option<()> {
    let types = value_types(&parts.body, None, &parts.functions);
    let (mut at, mut done) = (0, None);
    for_each_line(&mut parts.body.block, &mut |node| {
        if at == site {
            let mut operand_at = 0;
            node.for_each_operand_mut(|operand| {
                if let (Operand::Value(value), true) = (*operand, operand_at == place)
                    && let Some(ty) = types[value.index()]
                {
                    *operand = Operand::Literal(Literal::from_bits(ty, bits));
                    done = Some(());
                }
                operand_at += 1;
            });
        }
        at += 1;
    });
    done
}

/// Deletes a buffer that no line names.
fn delete_buffer(candidate: &mut Candidate, id: BufferId) -> Option<()> {
    let parts = &mut candidate.parts;
    let mut named = false;
    for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
        walk(&body.block, |_, _, node| node.for_each_buffer(|buffer| named |= buffer == id));
    }
    if named {
        return None;
    }
    if let Some(at) = bound_buffers(parts).iter().position(|bound| *bound == id) {
        candidate.step.contents.remove(at);
    }
    parts.buffers.remove(id.index());
    let bodies = parts.functions.iter_mut().map(|function| &mut function.body).chain([&mut parts.body]);
    for body in bodies {
        for_each_line(&mut body.block, &mut |node| {
            node.for_each_buffer_mut(|buffer| buffer.0 -= u32::from(buffer.0 > id.0));
        });
    }
    Some(())
}
