//! The names of one body: each distinct name is one number, and every name must be assigned somewhere.

use crate::ir::{Body, DataType, Local, Name, Value};
use crate::text::lex::Token;
use crate::text::source_map::Lines;
use rustc_hash::FxHashMap;

/// The names with one sigil.
#[derive(Default)]
pub(super) struct Names<'s> {
    ids: FxHashMap<&'s str, u32>,
    /// The names by number, each with the first use that came before any assignment.
    known: Vec<(&'s str, State)>,
}

#[derive(Clone, Copy)]
enum State {
    Assigned,
    Used(Token),
}

impl<'s> Names<'s> {
    fn id(&mut self, name: &'s str, state: State) -> u32 {
        let next = self.known.len() as u32;
        let id = *self.ids.entry(name).or_insert(next);
        if id == next {
            self.known.push((name, state));
        }
        id
    }

    /// The number of a name that is read at `token`.
    pub(super) fn read(&mut self, name: &'s str, token: Token) -> u32 {
        self.id(name, State::Used(token))
    }

    /// The number of a name that is assigned.
    pub(super) fn assign(&mut self, name: &'s str) -> u32 {
        let id = self.id(name, State::Assigned);
        self.known[id as usize].1 = State::Assigned;
        id
    }

    /// The names that nothing assigns, each with its first use.
    pub(super) fn unassigned(&self) -> impl Iterator<Item = (&'s str, Token)> {
        self.known.iter().filter_map(|(name, state)| match state {
            State::Assigned => None,
            State::Used(token) => Some((*name, *token)),
        })
    }

    /// Whether something assigns the name.
    pub(super) fn is_assigned(&self, name: &str) -> bool {
        self.ids.get(name).is_some_and(|id| matches!(self.known[*id as usize].1, State::Assigned))
    }

    /// The names that something assigns.
    pub(super) fn assigned(&self) -> impl Iterator<Item = &'s str> {
        self.known.iter().filter(|(_, state)| matches!(state, State::Assigned)).map(|(name, _)| *name)
    }

    fn into_names(self) -> Vec<Name> {
        self.known.into_iter().map(|(name, _)| name.into()).collect()
    }
}

/// The names of one body, and where its lines stand.
#[derive(Default)]
pub(super) struct Scope<'s> {
    pub(super) values: Names<'s>,
    pub(super) locals: Names<'s>,
    /// The types of the locals that are declared; only fixes ask for them.
    pub(super) local_types: FxHashMap<&'s str, DataType>,
    pub(super) lines: Lines,
}

impl<'s> Scope<'s> {
    pub(super) fn assign_value(&mut self, name: &'s str) -> Value {
        Value(self.values.assign(name))
    }

    pub(super) fn assign_local(&mut self, name: &'s str) -> Local {
        Local(self.locals.assign(name))
    }

    /// The body that these names and `block` make, and its lines' places.
    pub(super) fn into_body(self, block: crate::ir::Block) -> (Body, Lines) {
        let body = Body { block, values: self.values.into_names(), locals: self.locals.into_names() };
        (body, self.lines)
    }
}
