//! What a rule makes of the instructions that it found.
//!
//! The last instruction of the pattern gives way to the replacement. A line that defines what an earlier line of the pattern
//! defines takes that instruction's place; the other instructions stay, because others may use what they compute.

use super::flow::{Flow, masked, signed, type_of};
use super::matching::Found;
use super::pattern::{Guard, Line, Term, Word};
use crate::ptx::{Entry, Instruction, Operand, Statement};
use std::collections::{HashMap, HashSet};

/// Instructions to put in the place of some, by statement, and registers to declare.
#[derive(Default)]
pub(super) struct Edits {
    places: HashMap<usize, Vec<Instruction>>,
    /// Statements that a match rests on: no other match may change them, but several may rest on one.
    kept: HashSet<usize>,
    registers: Vec<(String, String)>,
}

impl Edits {
    /// Adds what a match changes. `false` if it overlaps with an earlier one, or if an operand's value is gone by then.
    pub(super) fn add(
        &mut self,
        pattern: &[Line],
        replacement: &[Line],
        found: &Found<'_>,
        flow: &Flow<'_>,
        entry: &Entry,
    ) -> bool {
        let statements: Vec<usize> = found.at.iter().flatten().copied().collect();
        let last = statements[statements.len() - 1];
        if statements.iter().any(|at| self.places.contains_key(at)) {
            return false;
        }
        let defined = pattern.iter().flat_map(Line::defined).collect();
        let mut builder = Builder { found, flow, defined, last, fresh: HashMap::new(), declared: Vec::new() };
        let mut places: HashMap<usize, Vec<Instruction>> = HashMap::from([(last, Vec::new())]);
        for line in replacement {
            let defines = |other: &Line| other.defined().iter().any(|name| line.defined().contains(name));
            let place = pattern.iter().position(defines).map_or(last, |earlier| statements[earlier]);
            builder.fresh_names(line, entry, self.registers.len());
            let Some(made) = builder.instruction(line, place) else { return false };
            places.entry(place).or_default().push(made);
        }
        if places.keys().any(|place| self.kept.contains(place)) {
            return false;
        }
        self.kept.extend(&statements);
        self.registers.extend(builder.declared);
        self.places.extend(places);
        true
    }

    /// Whether there is anything to change.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Changes the kernel.
    pub(super) fn apply(mut self, entry: &mut Entry) {
        entry.registers.append(&mut self.registers);
        let mut body = Vec::with_capacity(entry.body.len());
        for (at, statement) in std::mem::take(&mut entry.body).into_iter().enumerate() {
            match self.places.remove(&at) {
                Some(instructions) => body.extend(instructions.into_iter().map(Statement::Instruction)),
                None => body.push(statement),
            }
        }
        entry.body = body;
    }
}

struct Builder<'a, 'b> {
    found: &'b Found<'a>,
    flow: &'b Flow<'a>,
    /// What the pattern's lines define; other names are read only.
    defined: HashSet<&'b str>,
    last: usize,
    /// Registers of the replacement's own.
    fresh: HashMap<String, String>,
    declared: Vec<(String, String)>,
}

impl Builder<'_, '_> {
    /// Declares the registers that a line defines and the pattern does not have.
    fn fresh_names(&mut self, line: &Line, entry: &Entry, before: usize) {
        for name in line.defined() {
            if self.found.registers.contains_key(name) || self.fresh.contains_key(name) {
                continue;
            }
            let modifiers: Vec<String> = line.modifiers.iter().map(|word| self.word(word)).collect();
            let count = entry.registers.len() + before + self.declared.len();
            let register = format!("%fault{count}_{name}");
            self.declared.push((register.clone(), result_type(&self.word(&line.opcode), &modifiers)));
            self.fresh.insert(name.into(), register);
        }
    }

    fn word(&self, word: &Word) -> String {
        match word {
            Word::Literal(literal) => literal.clone(),
            Word::Variable(name) => self.found.words[name].into(),
            Word::One | Word::Many => unreachable!("the file's parser lets no replacement have them"),
        }
    }

    fn instruction(&self, line: &Line, place: usize) -> Option<Instruction> {
        let replaced = self.flow.instruction(place)?;
        let modifiers: Vec<String> = line.modifiers.iter().map(|word| self.word(word)).collect();
        let ty = modifiers.iter().rev().find_map(|modifier| type_of(modifier)).unwrap_or(("b", 64));
        let destinations = line.destinations();
        let guard = match &line.guard {
            Guard::None => None,
            Guard::Any => replaced.guard.clone(),
            Guard::Register(name, negated) => Some((self.read(name, place)?, *negated)),
        };
        let operands = line.operands.iter().enumerate().map(|(i, term)| {
            if i < destinations { self.destination(term) } else { self.operand(term, place, ty) }
        });
        let operands = operands.collect::<Option<Vec<Operand>>>()?;
        Some(Instruction { line: replaced.line, guard, opcode: self.word(&line.opcode), modifiers, operands })
    }

    fn destination(&self, term: &Term) -> Option<Operand> {
        let register = |name: &String| match self.found.registers.get(name) {
            Some((register, _)) => Some((*register).to_owned()),
            None => self.fresh.get(name).cloned(),
        };
        match term {
            Term::Register(name) => register(name).map(Operand::Register),
            Term::Vector(parts) => {
                parts.iter().map(|part| self.destination(part)).collect::<Option<_>>().map(Operand::Vector)
            }
            Term::Pair(a, b) => Some(Operand::Pair(self.destination(a)?.into(), self.destination(b)?.into())),
            _ => None,
        }
    }

    /// A register's name, if it still has there what the pattern bound.
    fn read(&self, name: &str, place: usize) -> Option<String> {
        if let Some(register) = self.fresh.get(name) {
            return Some(register.clone());
        }
        let (register, at) = self.found.registers.get(name)?;
        // What the last instruction defines, the replacement itself has defined before it reads it.
        let defined = self.defined.contains(name);
        let same = *at == self.last && defined || self.unchanged(register, *at + usize::from(defined), place);
        same.then(|| (*register).to_owned())
    }

    fn unchanged(&self, register: &str, at: usize, place: usize) -> bool {
        self.flow.same_value(register, at.min(place), at.max(place))
    }

    fn operand(&self, term: &Term, place: usize, ty: (&str, u32)) -> Option<Operand> {
        Some(match term {
            Term::Register(name) => Operand::Register(self.read(name, place)?),
            Term::Not(name) => Operand::Not(self.read(name, place)?),
            Term::Special(name) => Operand::Register(name.clone()),
            Term::Symbol(name) => Operand::Symbol(name.clone()),
            Term::Float(bits, width) => Operand::Float(*bits, *width),
            Term::Number(number) => literal(number.value(&self.found.constants), ty),
            Term::Constant(name) => literal(self.found.constants[name], ty),
            Term::Any(name) => {
                let (operand, at) = self.found.operands[name];
                if let Operand::Register(register) = operand
                    && !self.unchanged(register, at, place)
                {
                    return None;
                }
                operand.clone()
            }
            Term::Address(base, offset) => {
                let offset = match &**offset {
                    Term::Number(number) => number.value(&self.found.constants),
                    Term::Constant(name) => self.found.constants[name],
                    _ => return None,
                };
                Operand::Address(self.operand(base, place, ty)?.into(), offset as i64)
            }
            Term::Vector(parts) => {
                let parts = parts.iter().map(|part| self.operand(part, place, ty));
                Operand::Vector(parts.collect::<Option<_>>()?)
            }
            Term::Pair(a, b) => {
                Operand::Pair(self.operand(a, place, ty)?.into(), self.operand(b, place, ty)?.into())
            }
            Term::Ignored => return None,
        })
    }
}

/// A number as an operand of a type.
fn literal(number: i128, (letter, width): (&str, u32)) -> Operand {
    let bits = masked(number, width);
    match (letter, width) {
        ("f", 32 | 64) => Operand::Float(bits as u64, width),
        ("s", _) => Operand::Int(signed(bits, width)),
        _ => Operand::Int(bits),
    }
}

/// The type that a register needs for an instruction's result.
fn result_type(opcode: &str, modifiers: &[String]) -> String {
    if opcode == "setp" || modifiers.iter().any(|modifier| modifier == "pred") {
        return "pred".into();
    }
    let width = modifiers.iter().find_map(|modifier| type_of(modifier)).map_or(32, |(_, width)| width);
    let width = match opcode {
        "popc" | "clz" | "bfind" => 32,
        "mul" | "mad" if modifiers.iter().any(|modifier| modifier == "wide") => width * 2,
        // No register has 8 bits.
        _ => width.clamp(16, 64),
    };
    format!("b{width}")
}
