//! Copies to the factors of tile products that go on beside them.
//!
//! Sixteen bytes that are loaded and then stored to a factor's buffer need no register in between: `cp.async` moves them, and
//! fills with zeros what does not exist. The load is emitted all the same, and `ptxas` drops it where nothing else asks for
//! it. Copies to one buffer are a group. The tile product that reads a buffer waits for its group and those before it;
//! later ones, for later products, stay in flight. Whatever else could observe that a copy has not happened yet waits for all.
//!
//! Copies have no order among themselves, so two of the same lane that may overlap are never in flight together.

use super::body::{Emit, Reg, Width};
use crate::index::Affine;
use std::collections::HashMap;
use vyre_foundation::ir::BufferId;

/// Four words that were loaded from neighbours.
struct Origin {
    words: Vec<Reg>,
    buffer: BufferId,
    first: Reg,
    /// Whether some may not exist.
    conditional: bool,
}

/// Copies that may be in flight, of this lane.
#[derive(Default)]
pub(super) struct Copies {
    /// By the first word.
    origins: HashMap<Reg, Origin>,
    /// The buffers of groups, the oldest first.
    groups: Vec<BufferId>,
    /// The group that has no end yet, and where it writes.
    open: Option<(BufferId, Vec<Affine>)>,
    /// The groups at the start of each trip of the loop that holds a tile product.
    at_start: Vec<BufferId>,
}

impl Copies {
    pub(super) fn write(&self, buffer: BufferId) -> bool {
        self.groups.contains(&buffer) || self.open.as_ref().is_some_and(|(open, _)| *open == buffer)
    }
}

impl Emit<'_> {
    /// Remembers where words came from.
    pub(super) fn loaded(&mut self, words: &[Reg], buffer: BufferId, first: &str, conditional: bool) {
        if self.options.sm >= 80 && self.layout.has_exchanged() && words.len() == 4 {
            let origin = Origin { words: words.to_vec(), buffer, first: first.to_owned(), conditional };
            self.copies.origins.insert(words[0].clone(), origin);
        }
    }

    /// Stores words by a copy, if they are as they were loaded.
    pub(super) fn copy(&mut self, buffer: BufferId, address: &str, line: Affine, words: &[Reg]) -> bool {
        let origin = self.copies.origins.get(&words[0]);
        let Some(origin) = origin.filter(|origin| origin.words == words && self.layout.is_exchanged(buffer))
        else {
            return false;
        };
        let (from, first, conditional) = (origin.buffer, origin.first.clone(), origin.conditional);
        let overlaps = match &self.copies.open {
            Some((open, lines)) if *open == buffer => !lines.iter().all(|other| line.is_apart_from(other)),
            _ => self.copies.groups.contains(&buffer),
        };
        if overlaps {
            self.finish_copies();
        }
        if self.copies.open.as_ref().is_none_or(|(open, _)| *open != buffer) {
            self.close_group();
            self.copies.open = Some((buffer, Vec::new()));
        }
        let source = self.address(from, &first);
        let size = if conditional {
            let len = self.lens[from.index()].clone();
            let below = self.op(Width::B32, "min.u32", &[&first, &len]);
            let left = self.op(Width::B32, "sub.u32", &[&len, &below]);
            let words = self.op(Width::B32, "min.u32", &[&left, "4"]);
            format!(", {}", self.op(Width::B32, "shl.b32", &[&words, "2"]))
        } else {
            String::new()
        };
        self.line(&format!("cp.async.cg.shared.global [{address}], [{source}], 16{size};"));
        if let Some((_, lines)) = &mut self.copies.open {
            lines.push(line);
        }
        true
    }

    /// A store that is no copy follows.
    pub(super) fn begin_store(&mut self, buffer: BufferId) {
        if self.copies.write(buffer) {
            self.finish_copies();
        }
        self.needs_proxy_fence |= self.layout.is_exchanged(buffer);
    }

    fn close_group(&mut self) {
        if let Some((buffer, _)) = self.copies.open.take() {
            self.line("cp.async.commit_group;");
            self.copies.groups.push(buffer);
        }
    }

    /// Waits for the copies to some buffers.
    pub(super) fn await_copies(&mut self, buffers: [BufferId; 2]) {
        self.close_group();
        let groups = &mut self.copies.groups;
        if let Some(last) = groups.iter().rposition(|group| buffers.contains(group)) {
            groups.drain(..=last);
            let later = groups.len();
            self.line(&format!("cp.async.wait_group {later};"));
            self.needs_proxy_fence = true;
        }
    }

    /// Waits for all copies.
    pub(super) fn finish_copies(&mut self) {
        if self.copies.open.take().is_some() || !self.copies.groups.is_empty() {
            self.line("cp.async.wait_all;");
            self.copies.groups.clear();
            self.needs_proxy_fence = true;
        }
    }

    /// The loop begins whose trips all begin with the same groups.
    pub(super) fn hold_copies(&mut self) {
        self.close_group();
        self.copies.at_start = self.copies.groups.clone();
    }

    /// The next trip begins: its groups are those that it is emitted for, or empty ones in their place.
    pub(super) fn hand_copies_over(&mut self) {
        self.close_group();
        if self.copies.groups != self.copies.at_start {
            self.finish_copies();
            for _ in 0..self.copies.at_start.len() {
                self.line("cp.async.commit_group;");
            }
            self.copies.groups.clone_from(&self.copies.at_start);
        }
    }
}
