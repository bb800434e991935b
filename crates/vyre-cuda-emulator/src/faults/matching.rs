//! Finding a pattern in a kernel.
//!
//! The pattern's last line is tried at each instruction. From there the others are found through the registers that link
//! them: a value's definition is looked up, a value's user is searched for.

use super::flow::{Flow, masked, signed, type_of};
use super::pattern::{Condition, Guard, Line, Term, Word};
use crate::ptx::{Instruction, Operand};
use std::collections::HashMap;

/// Where a pattern was found, and what its names stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Found<'a> {
    /// The statement of each line; the last one is always there.
    pub(super) at: Vec<Option<usize>>,
    /// Registers, and the position at which each has that value.
    pub(super) registers: HashMap<String, (&'a str, usize)>,
    /// Constants: unsigned, and their width.
    pub(super) constants: HashMap<String, i128>,
    widths: HashMap<String, u32>,
    /// Any operands, with their positions.
    pub(super) operands: HashMap<String, (&'a Operand, usize)>,
    /// Opcodes and modifiers.
    pub(super) words: HashMap<String, &'a str>,
    /// Reads of registers that a line of the pattern defines.
    uses: Vec<(String, &'a str, usize)>,
}

/// What is looked for, and where.
pub(super) struct Matcher<'a, 'b> {
    pub(super) flow: &'b Flow<'a>,
    pub(super) lines: &'b [Line],
    pub(super) conditions: &'b [Condition],
    /// Whether a register's definitions count wherever they are.
    pub(super) anywhere: bool,
}

impl<'a> Matcher<'a, '_> {
    /// The pattern with its last line at that statement.
    pub(super) fn find(&self, last: usize) -> Option<Found<'a>> {
        let start = Found { at: vec![None; self.lines.len()], ..Found::default() };
        self.with(start, self.lines.len() - 1, last)
    }

    /// Puts one more line at a statement, and then the rest.
    fn with(&self, found: Found<'a>, line: usize, at: usize) -> Option<Found<'a>> {
        let instruction = self.flow.instruction(at)?;
        if found.at.contains(&Some(at)) || !could_be(&self.lines[line], instruction) {
            return None;
        }
        orders(instruction).iter().find_map(|order| {
            let mut next = found.clone();
            next.at[line] = Some(at);
            let there = self.line(&mut next, line, at, instruction, order) && self.linked(&next);
            there.then(|| self.rest(next)).flatten()
        })
    }

    /// Matches the lines that have no place yet.
    fn rest(&self, found: Found<'a>) -> Option<Found<'a>> {
        let open = |line: &usize| found.at[*line].is_none();
        let Some(_) = (0..self.lines.len()).find(open) else {
            return self.conditions.iter().all(|condition| holds(condition, &found)).then_some(found);
        };
        for line in (0..self.lines.len()).rev().filter(open) {
            let defined = self.lines[line].defined();
            if let Some((_, register, at)) =
                found.uses.iter().find(|(name, ..)| defined.contains(&name.as_str()))
            {
                let sources = self.chain(register, *at);
                return sources.into_iter().find_map(|at| self.with(found.clone(), line, at));
            }
        }
        // The pattern is connected, so another line reads what one that was found has defined or read.
        let line = (0..self.lines.len()).rev().filter(open).find(|line| {
            let bound = |name: &&str| found.registers.contains_key(*name);
            self.lines[*line].read().iter().any(bound)
        })?;
        self.flow.positions().find_map(|at| self.with(found.clone(), line, at))
    }

    /// The statements that can have computed what a register holds: its definitions, and what they copy.
    fn chain(&self, register: &'a str, at: usize) -> Vec<usize> {
        let mut all = self.flow.definitions(register, at, self.anywhere);
        let mut next = 0;
        while let Some(at) = all.get(next).copied() {
            next += 1;
            if let Some(source) = self.flow.copied(at) {
                for definition in self.flow.definitions(source, at, self.anywhere) {
                    if !all.contains(&definition) {
                        all.push(definition);
                    }
                }
            }
        }
        all
    }

    /// Whether each read of a register that a line defines gets it from that line's place.
    fn linked(&self, found: &Found<'a>) -> bool {
        found.uses.iter().all(|(name, register, at)| {
            let line = self.lines.iter().position(|line| line.defined().contains(&name.as_str()));
            line.and_then(|line| found.at[line])
                .is_none_or(|place| self.chain(register, *at).contains(&place))
        })
    }

    fn line(
        &self,
        found: &mut Found<'a>,
        line: usize,
        at: usize,
        instruction: &'a Instruction,
        order: &[usize],
    ) -> bool {
        let pattern = &self.lines[line];
        let destinations = pattern.destinations();
        if !self.words(found, pattern, instruction) || !self.guard(found, &pattern.guard, instruction, at) {
            return false;
        }
        let width =
            instruction.modifiers.iter().rev().find_map(|m| type_of(m)).map_or(64, |(_, width)| width);
        let own = pattern.defined();
        (0..pattern.operands.len()).all(|i| {
            let (term, operand) = (&pattern.operands[i], &instruction.operands[order[i]]);
            if i < destinations {
                return defines(found, term, operand, at);
            }
            // `add.u32 %i, %i, 1` counts: the same register, not the same value.
            if let (Term::Register(name), Operand::Register(register)) = (term, operand)
                && own.contains(&name.as_str())
            {
                return found.registers.get(name).is_some_and(|(bound, _)| bound == register);
            }
            self.term(found, term, operand, at, width)
        })
    }

    fn words(&self, found: &mut Found<'a>, pattern: &Line, instruction: &'a Instruction) -> bool {
        let opcode = std::slice::from_ref(&instruction.opcode);
        let mut words = found.words.clone();
        let same = word_list(&mut words, std::slice::from_ref(&pattern.opcode), opcode)
            && word_list(&mut words, &pattern.modifiers, &instruction.modifiers);
        found.words = words;
        same
    }

    fn guard(&self, found: &mut Found<'a>, guard: &Guard, instruction: &'a Instruction, at: usize) -> bool {
        match (guard, &instruction.guard) {
            (Guard::Any, _) | (Guard::None, None) => true,
            (Guard::Register(name, negated), Some((register, is_negated))) => {
                negated == is_negated && self.register(found, name, register, at)
            }
            (Guard::None, Some(_)) | (Guard::Register(..), None) => false,
        }
    }

    fn term(&self, found: &mut Found<'a>, term: &Term, operand: &'a Operand, at: usize, width: u32) -> bool {
        match (term, operand) {
            (Term::Ignored, _) => true,
            (Term::Register(name), Operand::Register(register))
            | (Term::Not(name), Operand::Not(register)) => self.register(found, name, register, at),
            (Term::Special(name), Operand::Register(register)) => name == register,
            (Term::Symbol(name), Operand::Symbol(symbol)) => name == symbol,
            (Term::Number(number), _) => {
                let value = masked(number.value(&HashMap::new()), width);
                self.flow.constant(operand, at, width) == Some(value)
            }
            (Term::Float(bits, _), _) => self.flow.constant(operand, at, width) == Some(i128::from(*bits)),
            (Term::Constant(name), _) => {
                let value = self.flow.constant(operand, at, width);
                value.is_some_and(|value| bind_constant(found, name, value, width))
            }
            (Term::Any(name), _) => self.any(found, name, operand, at),
            (Term::Address(base, offset), Operand::Address(of, bytes)) => {
                self.address(found, base, offset, of, *bytes, at)
            }
            (Term::Vector(terms), Operand::Vector(parts)) => {
                let same = terms.len() == parts.len();
                same && terms.iter().zip(parts).all(|(term, part)| self.term(found, term, part, at, width))
            }
            (Term::Pair(a, b), Operand::Pair(c, d)) => {
                self.term(found, a, c, at, width) && self.term(found, b, d, at, width)
            }
            _ => false,
        }
    }

    fn address(
        &self,
        found: &mut Found<'a>,
        base: &Term,
        offset: &Term,
        of: &'a Operand,
        bytes: i64,
        at: usize,
    ) -> bool {
        let same = match offset {
            Term::Ignored => true,
            Term::Constant(name) => bind_constant(found, name, masked(i128::from(bytes), 64), 64),
            Term::Number(number) => number.value(&HashMap::new()) == i128::from(bytes),
            _ => unreachable!("the file's parser makes no other offsets"),
        };
        same && self.term(found, base, of, at, 64)
    }

    /// Binds a register that is read, or compares it with what the name stands for.
    fn register(&self, found: &mut Found<'a>, name: &str, register: &'a str, at: usize) -> bool {
        if self.lines.iter().any(|line| line.defined().contains(&name)) {
            found.uses.push((name.into(), register, at));
            return true;
        }
        let Some((bound, bound_at)) = found.registers.get(name).copied() else {
            found.registers.insert(name.into(), (register, at));
            return true;
        };
        self.same(bound, bound_at, register, at)
    }

    /// Whether two reads give the same value, also by way of copies.
    fn same(&self, a: &'a str, a_at: usize, b: &'a str, b_at: usize) -> bool {
        let ((a, a_at), (b, b_at)) = (self.flow.origin(a, a_at), self.flow.origin(b, b_at));
        a == b && (self.anywhere || self.flow.same_value(a, a_at.min(b_at), a_at.max(b_at)))
    }

    fn any(&self, found: &mut Found<'a>, name: &str, operand: &'a Operand, at: usize) -> bool {
        match (found.operands.get(name).copied(), operand) {
            (None, _) => found.operands.insert(name.into(), (operand, at)).is_none(),
            (Some((Operand::Register(a), a_at)), Operand::Register(b)) => self.same(a, a_at, b, at),
            (Some((bound, _)), _) => bound == operand,
        }
    }
}

/// A cheap test before the bindings are copied.
fn could_be(line: &Line, instruction: &Instruction) -> bool {
    let opcode = !matches!(&line.opcode, Word::Literal(opcode) if *opcode != instruction.opcode);
    opcode && line.operands.len() == instruction.operands.len()
}

/// The orders of operands to try: both, where the first two sources commute.
fn orders(instruction: &Instruction) -> Vec<Vec<usize>> {
    let mut same: Vec<usize> = (0..instruction.operands.len()).collect();
    let mut orders = vec![same.clone()];
    if same.len() >= 3 && commutes(instruction) {
        same.swap(1, 2);
        orders.push(same);
    }
    orders
}

fn commutes(instruction: &Instruction) -> bool {
    let has = |name: &str| instruction.modifiers.iter().any(|modifier| modifier == name);
    match instruction.opcode.as_str() {
        "add" | "addc" | "mul" | "mad" | "fma" | "and" | "or" | "xor" | "min" | "max" => true,
        "setp" | "set" => has("eq") || has("ne"),
        _ => false,
    }
}

fn word_list<'a>(words: &mut HashMap<String, &'a str>, pattern: &[Word], actual: &'a [String]) -> bool {
    let Some((first, others)) = pattern.split_first() else { return actual.is_empty() };
    if *first == Word::Many {
        return (0..=actual.len()).any(|skipped| {
            let mut copy = words.clone();
            let same = word_list(&mut copy, others, &actual[skipped..]);
            if same {
                *words = copy;
            }
            same
        });
    }
    let Some((word, rest)) = actual.split_first() else { return false };
    let same = match first {
        Word::Literal(literal) => literal == word,
        Word::Variable(name) => *words.entry(name.clone()).or_insert(word) == word,
        Word::One | Word::Many => true,
    };
    same && word_list(words, others, rest)
}

fn defines<'a>(found: &mut Found<'a>, term: &Term, operand: &'a Operand, at: usize) -> bool {
    match (term, operand) {
        (Term::Ignored, _) => true,
        (Term::Register(name), Operand::Register(register)) => {
            found.registers.insert(name.clone(), (register, at));
            true
        }
        (Term::Vector(terms), Operand::Vector(parts)) if terms.len() == parts.len() => {
            terms.iter().zip(parts).all(|(term, part)| defines(found, term, part, at))
        }
        (Term::Pair(a, b), Operand::Pair(c, d)) => defines(found, a, c, at) && defines(found, b, d, at),
        _ => false,
    }
}

/// Two constants are the same if they are at the narrower one's width.
fn bind_constant(found: &mut Found<'_>, name: &str, value: i128, width: u32) -> bool {
    let Some(bound) = found.constants.get(name).copied() else {
        found.constants.insert(name.into(), value);
        found.widths.insert(name.into(), width);
        return true;
    };
    let width = width.min(found.widths[name]);
    masked(bound, width) == masked(value, width)
}

fn holds(condition: &Condition, found: &Found<'_>) -> bool {
    let value = |expression: &super::expression::Expression| expression.value(&found.constants);
    match condition {
        Condition::Words(name, allowed) => {
            found.words.get(name).is_some_and(|word| allowed.iter().any(|a| a == word))
        }
        Condition::Range(of, first, last) => {
            let range = value(first)..=value(last);
            // A constant has no sign: -1 and 0xffffffff are the same. Either reading may be meant.
            let width = of.names().iter().filter_map(|name| found.widths.get(*name)).max().copied();
            let value = value(of);
            range.contains(&value) || width.is_some_and(|width| range.contains(&signed(value, width)))
        }
        Condition::Compared(operator, a, b) => {
            let (a, b) = (value(a), value(b));
            match *operator {
                "==" => a == b,
                "!=" => a != b,
                "<=" => a <= b,
                ">=" => a >= b,
                "<" => a < b,
                ">" => a > b,
                _ => unreachable!("an operator that the file's parser knows"),
            }
        }
    }
}
