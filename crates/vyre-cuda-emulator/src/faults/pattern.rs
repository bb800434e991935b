//! What a pattern is: lines of PTX with holes.

use super::expression::Expression;
use super::flow::has_destination;

/// A part of an opcode or a modifier.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// As written.
    Literal(String),
    /// `T`: any, the same wherever it stands.
    Variable(String),
    /// `*`: any one.
    One,
    /// `**`: any number of them.
    Many,
}

/// An operand with holes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term {
    /// `%name`: a register.
    Register(String),
    /// `%tid.x`: itself.
    Special(String),
    /// A number; in a replacement also one that is computed from bound ones.
    Number(Expression),
    /// `#name`: any constant.
    Constant(String),
    /// `0f...` or `0d...`: bits and width.
    Float(u64, u32),
    /// `?name`: any operand.
    Any(String),
    /// `_`: any operand, not bound.
    Ignored,
    /// `!%p`.
    Not(String),
    /// A label or a variable.
    Symbol(String),
    /// `[base+offset]`. `[_]` is any address.
    Address(Box<Term>, Box<Term>),
    /// `{a, b}`.
    Vector(Vec<Term>),
    /// `a|b`.
    Pair(Box<Term>, Box<Term>),
}

/// What stands before an instruction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Guard {
    /// Nothing.
    None,
    /// `@_`: whatever is there.
    Any,
    /// `@%p` or `@!%p`.
    Register(String, bool),
}

/// One line of a pattern or a replacement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// Its line in the file.
    pub(super) number: u32,
    pub(super) guard: Guard,
    pub(super) opcode: Word,
    pub(super) modifiers: Vec<Word>,
    pub(super) operands: Vec<Term>,
}

impl Line {
    /// How many operands are destinations: 0 or 1.
    pub(super) fn destinations(&self) -> usize {
        let opcode = if let Word::Literal(opcode) = &self.opcode { opcode } else { "" };
        let has = |modifier: &str| self.modifiers.iter().any(|m| *m == Word::Literal(modifier.into()));
        let address = matches!(self.operands.first(), Some(Term::Address(..)) | None);
        usize::from(has_destination(opcode, has) && !address)
    }

    /// The registers it writes.
    pub(super) fn defined(&self) -> Vec<&str> {
        self.operands[..self.destinations()].iter().flat_map(Term::registers).collect()
    }

    /// The registers it reads, its guard among them.
    pub(super) fn read(&self) -> Vec<&str> {
        let guard = if let Guard::Register(name, _) = &self.guard { Some(name.as_str()) } else { None };
        let operands = self.operands[self.destinations()..].iter().flat_map(Term::registers);
        guard.into_iter().chain(operands).collect()
    }

    /// Every name of the line with its sign, as `#k`, `%x`, `?a`, `T`.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.operands.iter().flat_map(Term::names).collect();
        if let Guard::Register(name, _) = &self.guard {
            names.push(format!("%{name}"));
        }
        for word in self.modifiers.iter().chain([&self.opcode]) {
            if let Word::Variable(name) = word {
                names.push(name.clone());
            }
        }
        names
    }
}

impl Term {
    fn parts(&self) -> Vec<&Term> {
        match self {
            Term::Address(a, b) | Term::Pair(a, b) => vec![a, b],
            Term::Vector(parts) => parts.iter().collect(),
            Term::Register(_) | Term::Special(_) | Term::Number(_) | Term::Constant(_) | Term::Float(..) => {
                vec![]
            }
            Term::Any(_) | Term::Ignored | Term::Not(_) | Term::Symbol(_) => vec![],
        }
    }

    fn registers(&self) -> Vec<&str> {
        match self {
            Term::Register(name) | Term::Not(name) => vec![name],
            other => other.parts().into_iter().flat_map(Term::registers).collect(),
        }
    }

    fn names(&self) -> Vec<String> {
        match self {
            Term::Register(name) | Term::Not(name) => vec![format!("%{name}")],
            Term::Constant(name) => vec![format!("#{name}")],
            Term::Any(name) => vec![format!("?{name}")],
            Term::Number(number) => number.names().into_iter().map(|name| format!("#{name}")).collect(),
            other => other.parts().into_iter().flat_map(Term::names).collect(),
        }
    }
}

/// A condition on what a pattern binds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    /// `#k in 1..31`, both included.
    Range(Expression, Expression, Expression),
    /// `#a == #b + 1`.
    Compared(&'static str, Expression, Expression),
    /// `T in u32, s32`.
    Words(String, Vec<String>),
}
