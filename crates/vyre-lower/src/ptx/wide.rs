//! Accesses of several elements at once.
//!
//! Neighbours are read or written in one instruction, if they exist and lie at a multiple of its size. They come from two
//! sides: the lanes of one thread, each with its element, and lines of one lane that name elements next to each other.
//! What is not known of bounds and alignment is asked while the program runs; where the answer is no, each element
//! has its own access.

use super::body::{Emit, Reg, Width};
use super::coarse::Shape;
use super::memory::loaded_as;
use super::{Space, space};
use crate::index::{Distances, Place};
use vyre_foundation::ir::{
    BufferId, ComputeOp, DataType, Effect, Literal, Node, Operand, ProgramParts, Value, value_types, walk,
};

/// Bytes of the widest access.
const BYTES_MAX: u32 = 16;
/// Lines between two that are put together.
const REACH: usize = 256;

/// What is known of indices and of bytes that are stored.
pub(super) struct Neighbours {
    pub(super) distances: Distances,
    /// By value, whose byte its lowest one is, and which.
    low: Vec<(Operand, u32)>,
    types: Vec<Option<DataType>>,
}

impl Neighbours {
    pub(super) fn find(parts: &ProgramParts) -> Neighbours {
        let count = parts.body.values.len() as u32;
        let mut found = Neighbours {
            distances: Distances::find(parts),
            low: (0..count).map(|value| (Operand::Value(Value(value)), 0)).collect(),
            types: value_types(&parts.body, None, &[]),
        };
        walk(&parts.body.block, |_, _, node| {
            if let Node::Compute { result, op, ty: DataType::U32 | DataType::I32, args } = node
                && let Some(low) = found.low_byte(*op, args)
            {
                found.low[result.index()] = low;
            }
        });
        found
    }

    /// Where the lowest byte of a result comes from, if it is only moved.
    fn low_byte(&self, op: ComputeOp, args: &[Operand]) -> Option<(Operand, u32)> {
        let value = args[0].value()?;
        // A float's bits may change where they are seen.
        if !matches!(self.types[value.index()], Some(DataType::U32 | DataType::I32)) {
            return None;
        }
        let (word, byte) = self.low[value.index()];
        let by =
            || args[1].literal().map(|by| by.bits() as u32).filter(|by| by.is_multiple_of(8) && *by < 32);
        match op {
            ComputeOp::Bitcast => Some((word, byte)),
            // The byte above is the next one only of the word itself.
            ComputeOp::Shr | ComputeOp::Extract if byte == 0 => {
                let whole = op == ComputeOp::Shr || args[2].literal().is_some_and(|count| count.bits() >= 8);
                by().filter(|_| whole).map(|by| (args[0], by / 8))
            }
            _ => None,
        }
    }
}

/// The buffer, index and type of a plain access.
fn access(node: &Node) -> Option<(BufferId, Operand, DataType)> {
    match node {
        Node::Load { buffer, index, ty, .. } | Node::Store { buffer, index, ty, .. } => {
            Some((*buffer, *index, *ty))
        }
        _ => None,
    }
}

/// Whether accesses of the buffer before and after this line may change places.
fn is_crossed(node: &Node, buffer: BufferId, stores: bool) -> bool {
    match node.effect() {
        Effect::Reads => stores && node.buffer() == Some(buffer),
        Effect::Writes => node.buffer() == Some(buffer),
        Effect::Pure | Effect::Gets | Effect::Sets | Effect::Exchanges => false,
        Effect::Orders
        | Effect::OrdersAndWrites
        | Effect::Controls
        | Effect::Calls
        | Effect::Launches
        | Effect::Traps => true,
    }
}

impl Emit<'_> {
    /// Emits the access that begins `rest` together with later ones of its neighbours. Loads move up to the first of them,
    /// stores down to the last.
    pub(super) fn together(&mut self, rest: &[Node]) -> bool {
        let Some((buffer, _, ty)) = access(&rest[0]) else { return false };
        let size = self.buffer_type(buffer).bytes() as u32;
        if space(self.parts, buffer) == Space::Table {
            return [4, 2].iter().any(|count| size * count <= BYTES_MAX && self.entry(rest, *count));
        }
        if self.coarse.lanes != 1 {
            return false;
        }
        if ty == DataType::U32 && size == 1 {
            return [4, 2, 1].iter().any(|count| self.words_together(rest, *count));
        }
        // Bytes travel as words.
        let counts = if size == 1 { [BYTES_MAX, 4] } else { [(BYTES_MAX / size).min(4), 2] };
        counts.iter().any(|count| self.group(rest, *count))
    }

    fn group(&mut self, rest: &[Node], count: u32) -> bool {
        let Some(members) = self.members_of(rest, count, 1) else { return false };
        let sites: Vec<u32> = members.iter().map(|at| self.site + *at as u32).collect();
        self.taken.extend(sites.iter().filter(|site| **site != self.site));
        if let Node::Load { buffer, ty, .. } = &rest[0] {
            self.load_together(rest, &members, &sites, *buffer, *ty);
        } else {
            // By the last one all values are there.
            let last = sites.iter().copied().max().unwrap_or(self.site);
            self.taken.remove(&last);
            let nodes = members.iter().map(|at| rest[*at].clone()).collect();
            self.stores.insert(last, (nodes, sites));
        }
        true
    }

    /// Neighbours in a table, by each lane that reads some. Lanes look up one entry here and one there, which costs by how many
    /// places they ask for.
    fn entry(&mut self, rest: &[Node], count: u32) -> bool {
        let (Some(members), Node::Load { buffer, ty, .. }) = (self.members_of(rest, count, 1), &rest[0])
        else {
            return false;
        };
        let sites: Vec<u32> = members.iter().map(|at| self.site + *at as u32).collect();
        if ty.bits() < 32 || !sites.iter().all(|site| self.facts.in_bounds(None, *site)) {
            return false;
        }
        self.taken.extend(sites.iter().filter(|site| **site != self.site));
        let own = self.lane;
        for lane in self.lanes_of(&rest[0]) {
            self.lane = lane;
            let first = self.first_index(&rest[members[0]]);
            let address = self.address(*buffer, &first);
            let zero = Literal::from_bits(*ty, 0);
            let loaded: Vec<Reg> = members.iter().map(|_| self.constant(zero)).collect();
            let name = format!("{}.v{count}.{}", self.load_from(*buffer), loaded_as(*ty));
            self.line(&format!("{name} {}, [{address}];", list(&loaded)));
            for (member, reg) in members.iter().zip(loaded) {
                if let Node::Load { result, .. } = &rest[*member] {
                    self.bind(*result, reg);
                }
            }
        }
        self.lane = own;
        true
    }

    /// Words at a multiple of four in a buffer of bytes. The bytes are asked for one by one only where some do not exist.
    fn words_together(&mut self, rest: &[Node], count: u32) -> bool {
        let (Some(members), Some((buffer, ..))) = (self.members_of(rest, count, 4), access(&rest[0])) else {
            return false;
        };
        let sites: Vec<u32> = members.iter().map(|at| self.site + *at as u32).collect();
        self.taken.extend(sites.iter().filter(|site| **site != self.site));
        let (narrow, done) = (self.new_label(), self.new_label());
        let words: Vec<Reg> = members.iter().map(|_| self.constant(Literal::u32(0))).collect();
        let first = self.first_index(&rest[members[0]]);
        let len = self.lens[buffer.index()].clone();
        let last = self.op(Width::B32, "add.u32", &[&first, &(4 * count - 1).to_string()]);
        let beyond = self.op(Width::Pred, "setp.ge.u32", &[&last, &len]);
        self.line(&format!("@{beyond} bra $L{narrow};"));
        let address = self.address(buffer, &first);
        let name = format!("{}{}.b32", self.load_from(buffer), vector(words.len()));
        self.line(&format!("{name} {}, [{address}];", list(&words)));
        self.line(&format!("bra $L{done};"));
        self.label(narrow);
        for (at, word) in words.iter().enumerate() {
            let index = self.op(Width::B32, "add.u32", &[&first, &(4 * at).to_string()]);
            let bytes = self.load_bytes(buffer, &index);
            self.line(&format!("mov.b32 {word}, {bytes};"));
        }
        self.label(done);
        for (member, word) in members.iter().zip(words) {
            if let Node::Load { result, .. } = &rest[*member] {
                self.bind(*result, word);
            }
        }
        true
    }

    /// Where in `rest` the accesses are whose elements lie from an aligned one on, each `unit` elements from the one
    /// before; the first line is one.
    fn members_of(&self, rest: &[Node], count: u32, unit: u32) -> Option<Vec<usize>> {
        let (buffer, index, ty) = access(&rest[0])?;
        let stores = matches!(rest[0], Node::Store { .. });
        let distances = &self.neighbours.distances;
        let first = distances.place(index);
        let all = count * unit;
        let start = first.offset & !(all - 1);
        if distances.root_multiple(first) < all || !(first.offset - start).is_multiple_of(unit) {
            return None;
        }
        let mut members = vec![None; count as usize];
        members[((first.offset - start) / unit) as usize] = Some(0);
        for (at, node) in rest.iter().enumerate().take(REACH).skip(1) {
            let same = access(node).filter(|other| {
                other.0 == buffer && other.2 == ty && stores == matches!(node, Node::Store { .. })
            });
            let place = same.map(|(_, index, _)| distances.place(index));
            match place.filter(|place| place.root == first.root) {
                Some(place) if place.offset & !(all - 1) == start => {
                    if !(place.offset - start).is_multiple_of(unit) {
                        return None;
                    }
                    let member = &mut members[((place.offset - start) / unit) as usize];
                    // The same element again is another access.
                    if member.replace(at).is_some() || self.taken.contains(&(self.site + at as u32)) {
                        return None;
                    }
                }
                // Another element, whatever the root is.
                Some(_) => {}
                None if is_crossed(node, buffer, stores) => break,
                None => {}
            }
            if members.iter().all(Option::is_some) {
                break;
            }
        }
        members.into_iter().collect()
    }

    /// The index of the first element, and a branch to `narrow` if some do not exist; false if all are known to.
    fn first_of(&mut self, node: &Node, sites: &[u32], narrow: u32) -> (Reg, bool) {
        let (buffer, ..) = access(node).expect("members are accesses");
        let first = self.first_index(node);
        let proven = sites.iter().all(|site| self.facts.in_bounds(None, *site));
        if !proven {
            let len = self.lens[buffer.index()].clone();
            // The first is a multiple of their number, so the last does not wrap.
            let last = self.op(Width::B32, "add.u32", &[&first, &(sites.len() - 1).to_string()]);
            let beyond = self.op(Width::Pred, "setp.ge.u32", &[&last, &len]);
            self.line(&format!("@{beyond} bra $L{narrow};"));
        }
        (first, !proven)
    }

    /// The index of an access, from its root, which is there before the line that adds to it.
    fn first_index(&mut self, node: &Node) -> Reg {
        let (_, index, _) = access(node).expect("members are accesses");
        let Place { root, offset } = self.neighbours.distances.place(index);
        match root {
            None => self.constant(Literal::u32(offset)),
            Some(root) => {
                let root = self.operand(root.into());
                if offset == 0 { root } else { self.op(Width::B32, "add.u32", &[&root, &offset.to_string()]) }
            }
        }
    }

    fn load_together(
        &mut self,
        rest: &[Node],
        members: &[usize],
        sites: &[u32],
        buffer: BufferId,
        ty: DataType,
    ) {
        let (narrow, done) = (self.new_label(), self.new_label());
        if ty.bits() == 8 {
            return self.load_words(rest, members, sites, buffer);
        }
        let zero = Literal::from_bits(ty.computes_as(), 0);
        let loaded: Vec<Reg> = members.iter().map(|_| self.constant(zero)).collect();
        let (first, conditional) = self.first_of(&rest[members[0]], sites, narrow);
        let address = self.address(buffer, &first);
        let name = format!("{}.v{}.{}", self.load_from(buffer), members.len(), loaded_as(ty));
        self.line(&format!("{name} {{{}}}, [{address}];", loaded.join(", ")));
        if ty == DataType::U32 && space(self.parts, buffer) == Space::ReadOnly {
            self.loaded(&loaded, buffer, &first, conditional);
        }
        if conditional {
            self.line(&format!("bra $L{done};"));
            self.label(narrow);
            for (at, to) in loaded.iter().enumerate() {
                let index = self.op(Width::B32, "add.u32", &[&first, &at.to_string()]);
                let len = self.lens[buffer.index()].clone();
                let inside = self.op(Width::Pred, "setp.lt.u32", &[&index, &len]);
                let address = self.address(buffer, &index);
                let name = format!("{}.{}", self.load_from(buffer), loaded_as(ty));
                self.line(&format!("@{inside} {name} {to}, [{address}];"));
            }
            self.label(done);
        }
        for (member, reg) in members.iter().zip(loaded) {
            if let Node::Load { result, .. } = &rest[*member] {
                self.bind(*result, reg);
            }
        }
    }

    /// Bytes, four to a word. They stay there until something asks for one.
    fn load_words(&mut self, rest: &[Node], members: &[usize], sites: &[u32], buffer: BufferId) {
        let (narrow, done) = (self.new_label(), self.new_label());
        let words: Vec<Reg> = members.chunks(4).map(|_| self.constant(Literal::u32(0))).collect();
        let (first, conditional) = self.first_of(&rest[members[0]], sites, narrow);
        let address = self.address(buffer, &first);
        let name = format!("{}{}.b32", self.load_from(buffer), vector(words.len()));
        self.line(&format!("{name} {}, [{address}];", list(&words)));
        if conditional {
            self.line(&format!("bra $L{done};"));
            self.label(narrow);
            for at in 0..members.len() {
                let index = self.op(Width::B32, "add.u32", &[&first, &at.to_string()]);
                let len = self.lens[buffer.index()].clone();
                let inside = self.op(Width::Pred, "setp.lt.u32", &[&index, &len]);
                let address = self.address(buffer, &index);
                let byte = self.constant(Literal::u32(0));
                self.line(&format!("@{inside} {}.u8 {byte}, [{address}];", self.load_from(buffer)));
                let byte = self.op(Width::B32, "shl.b32", &[&byte, &(8 * (at % 4)).to_string()]);
                let word = &words[at / 4];
                self.line(&format!("or.b32 {word}, {word}, {byte};"));
            }
            self.label(done);
        }
        for (at, member) in members.iter().enumerate() {
            if let Node::Load { result, .. } = &rest[*member] {
                self.pieces[result.index()] = Some((words[at / 4].clone(), at as u32 % 4));
            }
        }
    }

    /// Four bytes as one word, which they may come from.
    fn packed(&mut self, values: &[Operand]) -> Reg {
        let piece = |operand: &Operand| operand.value().and_then(|value| self.pieces[value.index()].clone());
        let pieces: Vec<Option<(Reg, u32)>> = values.iter().map(piece).collect();
        if let Some((word, 0)) = &pieces[0]
            && pieces.iter().enumerate().all(|(at, piece)| *piece == Some((word.clone(), at as u32)))
        {
            return word.clone();
        }
        let low = |operand: &Operand| operand.value().map(|value| self.neighbours.low[value.index()]);
        if let Some((word, 0)) = low(&values[0])
            && word != values[0]
            && values.iter().enumerate().all(|(at, value)| low(value) == Some((word, at as u32)))
        {
            return self.operand(word);
        }
        let mut word = self.constant(Literal::u32(0));
        for (at, value) in values.iter().enumerate() {
            let byte = self.operand(*value);
            let byte = self.op(Width::B32, "and.b32", &[&byte, "0xff"]);
            let byte = self.op(Width::B32, "shl.b32", &[&byte, &(8 * at).to_string()]);
            word = self.op(Width::B32, "or.b32", &[&word, &byte]);
        }
        word
    }

    /// Emits stores to neighbours, by element.
    pub(super) fn store_together(&mut self, nodes: &[Node], sites: &[u32]) {
        let (narrow, done) = (self.new_label(), self.new_label());
        let (first, conditional) = self.first_of(&nodes[0], sites, narrow);
        let (buffer, _, ty) = access(&nodes[0]).expect("members are accesses");
        let address = self.address(buffer, &first);
        let values: Vec<Operand> = nodes
            .iter()
            .filter_map(|node| if let Node::Store { value, .. } = node { Some(*value) } else { None })
            .collect();
        let (values, bits): (Vec<Reg>, u32) = if ty.bits() == 8 {
            (values.chunks(4).map(|four| self.packed(four)).collect(), 32)
        } else {
            (values.into_iter().map(|value| self.stored(ty, buffer, value)).collect(), ty.bits())
        };
        let (_, index, _) = access(&nodes[0]).expect("members are accesses");
        let line = self.neighbours.distances.affine(index);
        if values.len() == 4 && !conditional && self.copy(buffer, &address, line, &values) {
            return;
        }
        self.begin_store(buffer);
        let name = format!("{}{}.b{bits}", self.store_to(buffer), vector(values.len()));
        self.line(&format!("{name} [{address}], {};", list(&values)));
        if conditional {
            self.line(&format!("bra $L{done};"));
            self.label(narrow);
            let site = self.site;
            for (node, own) in nodes.iter().zip(sites) {
                self.site = *own;
                self.node(node);
            }
            self.site = site;
            self.label(done);
        }
    }

    /// Emits a line for all lanes of the thread at once, if it is an access of neighbours.
    pub(super) fn wide(&mut self, node: &Node) -> bool {
        let (buffer, index, ty) = match node {
            Node::Load { buffer, index, ty, .. } | Node::Store { buffer, index, ty, .. } => {
                (*buffer, *index, *ty)
            }
            _ => return false,
        };
        // A word of single bytes may lie anywhere, and what lanes look up in a table lies side by side too seldom to ask.
        let bytes = ty == DataType::U32 && self.buffer_type(buffer) == DataType::U8;
        if self.coarse.shape(index) != Shape::Linear || bytes || space(self.parts, buffer) == Space::Table {
            return false;
        }
        let (narrow, done) = (self.new_label(), self.new_label());
        let zero = Literal::from_bits(ty.computes_as(), 0);
        let lanes = 0..self.coarse.lanes as usize;
        let loaded: Vec<Reg> = match node {
            Node::Load { .. } => lanes.clone().map(|_| self.constant(zero)).collect(),
            _ => Vec::new(),
        };
        let conditional = self.unless_neighbours(buffer, index, narrow);
        let first = self.operand(index);
        let address = self.address(buffer, &first);
        match node {
            Node::Load { result, .. } => {
                let name = format!("{}.v{}.{}", self.load_from(buffer), lanes.len(), loaded_as(ty));
                self.line(&format!("{name} {{{}}}, [{address}];", loaded.join(", ")));
                for lane in lanes.clone() {
                    self.lane = lane;
                    self.bind(*result, loaded[lane].clone());
                }
            }
            Node::Store { value, .. } => {
                let values: Vec<Reg> = lanes
                    .clone()
                    .map(|lane| {
                        self.lane = lane;
                        self.stored(ty, buffer, *value)
                    })
                    .collect();
                let name = format!("{}.v{}.b{}", self.store_to(buffer), lanes.len(), ty.bits());
                self.line(&format!("{name} [{address}], {{{}}};", values.join(", ")));
            }
            _ => unreachable!("only accesses come here"),
        }
        self.lane = 0;
        if conditional {
            self.line(&format!("bra $L{done};"));
            self.label(narrow);
            for lane in lanes {
                self.lane = lane;
                self.one(node, loaded.get(lane).map(String::as_str));
            }
            self.lane = 0;
            self.label(done);
        }
        true
    }

    /// Goes to `narrow` unless the elements exist and are aligned; false if both are known.
    fn unless_neighbours(&mut self, buffer: BufferId, index: Operand, narrow: u32) -> bool {
        let first = self.operand(index);
        let lanes = self.coarse.lanes;
        let proven = self.is_proven();
        if !proven {
            let len = self.lens[buffer.index()].clone();
            let last = self.op(Width::B32, "add.u32", &[&first, &(lanes - 1).to_string()]);
            let beyond = self.op(Width::Pred, "setp.ge.u32", &[&last, &len]);
            let wrapped = self.op(Width::Pred, "setp.lt.u32", &[&last, &first]);
            let outside = self.op(Width::Pred, "or.pred", &[&beyond, &wrapped]);
            self.line(&format!("@{outside} bra $L{narrow};"));
        }
        let aligned = self.coarse.is_aligned(index);
        if !aligned {
            let rest = self.op(Width::B32, "and.b32", &[&first, &(lanes - 1).to_string()]);
            let crooked = self.op(Width::Pred, "setp.ne.u32", &[&rest, "0"]);
            self.line(&format!("@{crooked} bra $L{narrow};"));
        }
        !(proven && aligned)
    }

    /// One lane's access; a load goes to `to`.
    fn one(&mut self, node: &Node, to: Option<&str>) {
        match node {
            Node::Load { buffer, index, ty, .. } => {
                let index = self.operand(*index);
                let guard = self.guard(*buffer, &index);
                let address = self.address(*buffer, &index);
                let name = format!("{}.{}", self.load_from(*buffer), loaded_as(*ty));
                let to = to.expect("a load has a register");
                self.line(&format!("{guard}{name} {to}, [{address}];"));
            }
            Node::Store { buffer, index, ty, value } => self.store(*ty, *buffer, *index, *value),
            _ => unreachable!("only accesses come here"),
        }
    }
}

/// The part of an instruction's name that says how many registers it moves.
fn vector(count: usize) -> String {
    if count == 1 { String::new() } else { format!(".v{count}") }
}

/// Registers as an instruction lists them.
fn list(registers: &[Reg]) -> String {
    match registers {
        [one] => one.clone(),
        several => format!("{{{}}}", several.join(", ")),
    }
}
