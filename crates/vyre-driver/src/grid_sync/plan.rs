//! Splits a program at its grid barriers into segments and a host plan.
//!
//! The idea: lines between two grid-wide steps become programs of their own, and control flow around grid-wide steps
//! moves to the host, which can follow it because the validator proved its conditions grid-uniform. Whatever lives
//! across a split (values, locals, private arrays, workgroup memory, loop counters, conditions) travels in one extra
//! buffer of words, `@vyre.state`:
//!
//! ```text
//! | grid words | group words of group 0 | group 1 | ... | lane word 0 of every lane | lane word 1 | ... | workgroup memory of group 0 | ...
//! | <------- copied to @vyre.uniform ------------> |
//! ```
//!
//! What is uniform must still be uniform when it is loaded again, or barriers under it would be refused. So the first
//! two stretches are loaded from `@vyre.uniform`, a read-only copy that the host makes before each launch. Grid words
//! also carry conditions and loop bounds to the host and loop counters from it. Builtins and lengths are computed again
//! rather than kept.
//!
//! Not here: running the plan. See [`super`].

use super::emit::Emitter;
use rustc_hash::{FxHashMap, FxHashSet};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{
    Block, BufferId, BufferKind, DataType, FunctionId, Local, MemoryOrdering, Node, Operand, Program,
    ProgramError, ProgramParts, Value, value_types, walk,
};
use vyre_foundation::validate::uniformity::{BodyUniformity, Level, analyse};

/// Where the state keeps a value, a local or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) level: Level,
    pub(super) ty: DataType,
    /// The first word, counted within the class.
    pub(super) word: u32,
}

/// A step of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Launches the segment of that number.
    Launch(usize),
    /// Takes one of two branches by a condition.
    Branch { cond: Scalar, then: Vec<Step>, otherwise: Vec<Step> },
    /// Counts; the counter's grid word is set before each trip.
    Loop { counter_word: u32, lo: Scalar, hi: Scalar, step: u32, body: Vec<Step> },
    /// Leaves the innermost loop.
    Break,
    /// Goes on with the innermost loop's next trip.
    Continue,
}

/// A number that the host needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    /// Known from the program's text.
    Known(u32),
    /// In a grid word, once the launches before it have ended.
    Word(u32),
}

/// A program split at its grid barriers.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is launched. Each binds the original's buffers that it uses under their bindings, and the state.
    pub segments: Vec<Program>,
    /// What the host does.
    pub(super) steps: Vec<Step>,
    /// How large the state is.
    pub(super) layout: Layout,
    /// The binding of the uniform copy; the state's is the next one.
    pub(super) first_binding: u32,
    /// For each segment, its traps' sites and their places in the original.
    pub(super) traps: Vec<Vec<(u32, Place)>>,
}

/// What the state buffer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) grid_words: u32,
    pub(super) group_words: u32,
    pub(super) lane_words: u32,
    pub(super) group_memory_words: u32,
}

impl Layout {
    /// The words that are copied for uniform loads.
    pub(super) fn uniform_words(&self, groups: u64) -> u64 {
        u64::from(self.grid_words) + u64::from(self.group_words) * groups
    }

    /// The words of the whole state.
    pub(super) fn words(&self, lanes: u64, groups: u64) -> u64 {
        self.uniform_words(groups)
            + u64::from(self.lane_words) * lanes
            + u64::from(self.group_memory_words) * groups
    }
}

fn contains_sync(block: &Block) -> bool {
    block.iter().any(|node| node.op().is_grid_wide() || node.blocks().any(contains_sync))
}

/// Whether `block`, inside a loop the host runs, leaves or continues that loop.
fn leaves_loop(block: &Block) -> bool {
    block.iter().any(|node| match node {
        Node::Break | Node::Continue => true,
        Node::For { .. } => false,
        other => other.blocks().any(leaves_loop),
    })
}

/// The places of a program's traps, in the order they have once functions are inlined.
pub(super) fn trap_places(parts: &ProgramParts) -> Vec<Place> {
    fn go(parts: &ProgramParts, function: Option<FunctionId>, out: &mut Vec<Place>) {
        let body = function.map_or(&parts.body, |function| &parts.functions[function.index()].body);
        walk(&body.block, |site, _, node| {
            if let Node::Trap { .. } = node {
                out.push(Place::Line { function, site });
            } else if let Node::Call { function, .. } = node {
                go(parts, Some(*function), out);
            }
        });
    }
    let mut out = Vec::new();
    go(parts, None, &mut out);
    out
}

/// The segments' traps with their original places: splitting keeps their order.
fn place_traps(segments: &[Program], places: &[Place]) -> Vec<Vec<(u32, Place)>> {
    let mut places = places.iter();
    let of = |segment: &Program| {
        let mut traps = Vec::new();
        walk(&segment.parts().body.block, |site, _, node| {
            if matches!(node, Node::Trap { .. }) {
                traps.extend(places.next().map(|place| (site, *place)));
            }
        });
        traps
    };
    segments.iter().map(of).collect()
}

/// Splits a valid program without calls, whose traps have the places `traps` in the original.
pub(super) fn split(parts: &ProgramParts, traps: &[Place]) -> Result<Plan, ProgramError> {
    let mut splitter = Splitter::new(parts);
    let mut block = parts.body.block.as_slice();
    if let Some(Node::IndirectDispatch { .. }) = block.first() {
        // The host reads the grid before the first launch.
        block = &block[1..];
    }
    let outline = splitter.outline(block, false);
    splitter.assign_words();
    let mut segments = Vec::new();
    let steps = splitter.emit(&outline, &mut segments)?;
    let traps = place_traps(&segments, traps);
    Ok(Plan { segments, steps, layout: splitter.layout, first_binding: splitter.first_binding, traps })
}

/// The program's lines, sorted into what segments run and what the host follows.
enum Item {
    Region(usize),
    Branch {
        cond: Operand,
        then: Vec<Item>,
        otherwise: Vec<Item>,
    },
    Loop {
        counter: Value,
        lo: Operand,
        hi: Operand,
        step: u32,
        body: Vec<Item>,
    },
    Break,
    Continue,
    /// A collective: within one rank, a copy from `src` to `dst`.
    Copy {
        dst: BufferId,
        src: BufferId,
        ty: DataType,
    },
}

/// Lines that one segment runs.
#[derive(Default)]
struct Region<'a> {
    nodes: Vec<&'a Node>,
    /// Values that the host or a later segment needs of this one.
    keeps: Vec<Value>,
    /// Values that the host needs, assigned here or not.
    shows: Vec<Value>,
    declares: FxHashSet<Local>,
}

struct Splitter<'a> {
    parts: &'a ProgramParts,
    levels: BodyUniformity,
    types: Vec<Option<DataType>>,
    regions: Vec<Region<'a>>,
    /// The region at whose top a value is assigned.
    defined_in: FxHashMap<Value, usize>,
    /// Values that can be computed again anywhere.
    cheap: FxHashMap<Value, &'a Node>,
    arrays: FxHashMap<Local, (DataType, Option<u32>)>,
    value_slots: FxHashMap<Value, Slot>,
    local_slots: FxHashMap<Local, Slot>,
    /// First word of each workgroup buffer in a workgroup's stretch.
    buffer_words: FxHashMap<BufferId, u32>,
    layout: Layout,
    first_binding: u32,
}

impl<'a> Splitter<'a> {
    fn new(parts: &'a ProgramParts) -> Splitter<'a> {
        let highest = parts.buffers.iter().filter_map(|buffer| buffer.binding()).max();
        Splitter {
            parts,
            levels: analyse(parts).body,
            types: value_types(&parts.body, None, &parts.functions),
            regions: Vec::new(),
            defined_in: FxHashMap::default(),
            cheap: FxHashMap::default(),
            arrays: FxHashMap::default(),
            value_slots: FxHashMap::default(),
            local_slots: FxHashMap::default(),
            buffer_words: FxHashMap::default(),
            layout: Layout::default(),
            first_binding: highest.map_or(0, |binding| binding + 1),
        }
    }

    /// Sorts the lines of a block. `in_loop`: the host runs the loop around it.
    fn outline(&mut self, block: &'a [Node], in_loop: bool) -> Vec<Item> {
        let mut items = Vec::new();
        let mut open = None;
        for node in block {
            let leaves = in_loop && matches!(node, Node::If { .. }) && node.blocks().any(leaves_loop);
            let host_follows = leaves || node.blocks().any(contains_sync);
            match node {
                Node::If { cond, then, otherwise } if host_follows => {
                    self.show(*cond, &mut open, &mut items);
                    let then = self.outline(then, in_loop);
                    let otherwise = self.outline(otherwise, in_loop);
                    items.push(Item::Branch { cond: *cond, then, otherwise });
                    open = None;
                }
                Node::For { counter, lo, hi, step, body } if host_follows => {
                    self.show(*lo, &mut open, &mut items);
                    self.show(*hi, &mut open, &mut items);
                    self.value_slot(*counter);
                    let body = self.outline(body, true);
                    items.push(Item::Loop { counter: *counter, lo: *lo, hi: *hi, step: *step, body });
                    open = None;
                }
                Node::Break if in_loop => items.push(Item::Break),
                Node::Continue if in_loop => items.push(Item::Continue),
                Node::Barrier { ordering: MemoryOrdering::GridSync } => open = None,
                Node::AllReduce { ty, dst, src, .. }
                | Node::AllGather { ty, dst, src }
                | Node::ReduceScatter { ty, dst, src, .. }
                | Node::Broadcast { ty, dst, src, .. } => {
                    items.push(Item::Copy { dst: *dst, src: *src, ty: *ty });
                    open = None;
                }
                line => {
                    let region = self.region(&mut open, &mut items);
                    self.place(line, region);
                }
            }
        }
        items
    }

    fn region(&mut self, open: &mut Option<usize>, items: &mut Vec<Item>) -> usize {
        *open.get_or_insert_with(|| {
            self.regions.push(Region::default());
            items.push(Item::Region(self.regions.len() - 1));
            self.regions.len() - 1
        })
    }

    fn place(&mut self, line: &'a Node, region: usize) {
        self.regions[region].nodes.push(line);
        if let Some(result) = line.result() {
            self.defined_in.insert(result, region);
            if matches!(line, Node::Builtin { .. } | Node::Len { .. }) {
                self.cheap.insert(result, line);
            }
        }
        if let Node::Var { local, ty, len, .. } = line {
            self.arrays.insert(*local, (*ty, *len));
            self.regions[region].declares.insert(*local);
        }
    }

    /// Makes the region before a host step write the number that the step needs.
    fn show(&mut self, operand: Operand, open: &mut Option<usize>, items: &mut Vec<Item>) {
        let Operand::Value(value) = operand else { return };
        let region = self.region(open, items);
        self.value_slot(value);
        self.regions[region].shows.push(value);
    }

    /// Gives slots to the values and locals that more than one region touches, and words to the workgroup memory
    /// that any region touches.
    fn assign_words(&mut self) {
        let mut local_home = FxHashMap::default();
        for region in 0..self.regions.len() {
            let touched = Touched::of(&self.regions[region]);
            for value in touched.values {
                let elsewhere = self.defined_in.get(&value).is_some_and(|home| *home != region);
                if elsewhere && !self.cheap.contains_key(&value) {
                    self.value_slot(value);
                }
            }
            for local in touched.locals {
                let home = *local_home.entry(local).or_insert(region);
                // A local declared inside one of the region's own blocks has no home at its top.
                if home != region && self.arrays.contains_key(&local) {
                    self.local_slot(local);
                }
            }
            for buffer in touched.buffers {
                self.workgroup_word(buffer);
            }
        }
        let mut kept: Vec<_> = self.value_slots.keys().copied().collect();
        kept.sort();
        for value in kept {
            if let Some(region) = self.defined_in.get(&value) {
                self.regions[*region].keeps.push(value);
            }
        }
    }

    fn value_slot(&mut self, value: Value) {
        if !self.value_slots.contains_key(&value) {
            let ty = self.types[value.index()].unwrap_or(DataType::U32);
            let slot = self.new_slot(self.levels.value(value), ty, 1);
            self.value_slots.insert(value, slot);
        }
    }

    fn local_slot(&mut self, local: Local) {
        if !self.local_slots.contains_key(&local) {
            let (ty, len) = self.arrays[&local];
            let slot = self.new_slot(self.levels.local(local), ty, len.unwrap_or(1));
            self.local_slots.insert(local, slot);
        }
    }

    fn new_slot(&mut self, level: Level, ty: DataType, len: u32) -> Slot {
        let words = match level {
            Level::Grid => &mut self.layout.grid_words,
            Level::Workgroup => &mut self.layout.group_words,
            Level::Varying => &mut self.layout.lane_words,
        };
        let word = *words;
        *words += words_of(ty) * len;
        Slot { level, ty, word }
    }

    fn workgroup_word(&mut self, id: BufferId) {
        let buffer = self.parts.buffer(id);
        if !matches!(buffer.kind, BufferKind::Workgroup) || self.buffer_words.contains_key(&id) {
            return;
        }
        self.buffer_words.insert(id, self.layout.group_memory_words);
        self.layout.group_memory_words += words_of(buffer.ty) * buffer.len.unwrap_or(0);
    }

    fn emit(&self, items: &[Item], segments: &mut Vec<Program>) -> Result<Vec<Step>, ProgramError> {
        let mut steps = Vec::with_capacity(items.len());
        for item in items {
            steps.push(match item {
                Item::Region(region) => {
                    segments.push(self.segment(&self.regions[*region], *region, segments.len())?);
                    Step::Launch(segments.len() - 1)
                }
                Item::Copy { dst, src, ty } => {
                    let mut emit = self.emitter();
                    emit.copy(*dst, *src, *ty);
                    segments.push(emit.finish(&self.segment_name(segments.len()))?);
                    Step::Launch(segments.len() - 1)
                }
                Item::Branch { cond, then, otherwise } => Step::Branch {
                    cond: self.scalar(*cond),
                    then: self.emit(then, segments)?,
                    otherwise: self.emit(otherwise, segments)?,
                },
                Item::Loop { counter, lo, hi, step, body } => Step::Loop {
                    counter_word: self.value_slots[counter].word,
                    lo: self.scalar(*lo),
                    hi: self.scalar(*hi),
                    step: *step,
                    body: self.emit(body, segments)?,
                },
                Item::Break => Step::Break,
                Item::Continue => Step::Continue,
            });
        }
        Ok(steps)
    }

    fn scalar(&self, operand: Operand) -> Scalar {
        match operand {
            Operand::Literal(literal) => Scalar::Known(literal.bits() as u32),
            Operand::Value(value) => Scalar::Word(self.value_slots[&value].word),
        }
    }

    fn segment(&self, lines: &Region<'a>, region: usize, number: usize) -> Result<Program, ProgramError> {
        let touched = Touched::of(lines);
        let mut emit = self.emitter();
        for value in touched.values.iter().filter(|value| self.defined_in.get(value) != Some(&region)) {
            match (self.cheap.get(value), self.value_slots.get(value)) {
                (Some(line), _) => emit.push(line),
                (None, Some(slot)) => emit.load_value(*value, *slot),
                // Assigned inside one of the region's own blocks.
                (None, None) => {}
            }
        }
        let locals: Vec<_> = touched.locals.iter().filter_map(|local| self.kept_local(*local)).collect();
        for local in locals.iter().filter(|local| !lines.declares.contains(&local.local)) {
            emit.load_local(local);
        }
        let shared: Vec<_> = touched.buffers.iter().filter_map(|id| self.kept_buffer(*id)).collect();
        emit.load_workgroup(&shared);
        lines.nodes.iter().for_each(|node| emit.push(node));
        emit.store_workgroup(&shared);
        for value in lines.keeps.iter().chain(&lines.shows) {
            emit.store_value(*value, self.value_slots[value]);
        }
        locals.iter().for_each(|local| emit.store_local(local));
        emit.finish(&self.segment_name(number))
    }

    fn segment_name(&self, number: usize) -> String {
        let name = &self.parts.name;
        // Names have a limit, and the number must stay.
        format!("{}.part{number}", name[..name.len().min(100)].trim_end_matches('.'))
    }

    fn kept_local(&self, local: Local) -> Option<KeptLocal> {
        let slot = *self.local_slots.get(&local)?;
        Some(KeptLocal { local, len: self.arrays[&local].1, slot })
    }

    fn kept_buffer(&self, buffer: BufferId) -> Option<KeptBuffer> {
        let word = *self.buffer_words.get(&buffer)?;
        let declared = self.parts.buffer(buffer);
        Some(KeptBuffer { buffer, ty: declared.ty, len: declared.len.unwrap_or(0), word })
    }

    fn emitter(&self) -> Emitter<'a> {
        Emitter::new(self.parts, self.layout, self.first_binding)
    }
}

/// A local that lives across segments.
pub(super) struct KeptLocal {
    pub(super) local: Local,
    pub(super) len: Option<u32>,
    pub(super) slot: Slot,
}

/// A workgroup buffer; all of them live across segments.
pub(super) struct KeptBuffer {
    pub(super) buffer: BufferId,
    pub(super) ty: DataType,
    pub(super) len: u32,
    pub(super) word: u32,
}

/// Words that an element of a type takes in the state.
pub(super) const fn words_of(ty: DataType) -> u32 {
    if ty.bits() == 64 { 2 } else { 1 }
}

/// What a region's lines name, each once, in order of appearance.
struct Touched {
    values: Vec<Value>,
    locals: Vec<Local>,
    buffers: Vec<BufferId>,
}

impl Touched {
    fn of(region: &Region<'_>) -> Touched {
        let mut touched = Touched { values: Vec::new(), locals: Vec::new(), buffers: Vec::new() };
        let mut seen = Seen::default();
        for value in region.nodes.iter().flat_map(|node| operands(node)).chain(region.shows.iter().copied()) {
            if seen.values.insert(value, ()).is_none() {
                touched.values.push(value);
            }
        }
        region.nodes.iter().for_each(|node| touched.memory(node, &mut seen));
        touched
    }

    fn memory(&mut self, node: &Node, seen: &mut Seen) {
        if let Some(local) = node.local()
            && seen.locals.insert(local, ()).is_none()
        {
            self.locals.push(local);
        }
        node.for_each_buffer(|buffer| {
            if seen.buffers.insert(buffer, ()).is_none() {
                self.buffers.push(buffer);
            }
        });
        node.blocks().flatten().for_each(|inner| self.memory(inner, seen));
    }
}

#[derive(Default)]
struct Seen {
    values: FxHashMap<Value, ()>,
    locals: FxHashMap<Local, ()>,
    buffers: FxHashMap<BufferId, ()>,
}

/// The values that a line and its blocks read.
fn operands(node: &Node) -> Vec<Value> {
    fn go(node: &Node, out: &mut Vec<Value>) {
        node.for_each_operand(|operand| out.extend(operand.value()));
        node.blocks().flatten().for_each(|inner| go(inner, out));
    }
    let mut out = Vec::new();
    go(node, &mut out);
    out
}
