//! What the passes share: walking the bodies, replacing values, and knowing what a loop changes.
//!
//! Two facts of the program form keep the passes short. A value has one line that assigns it, and that line stands
//! above every use, so one walk in textual order sees definitions first. And control flow is structured, so what a
//! scope learned is forgotten where its block ends.

use crate::ir::{
    Block, Body, Buffer, BufferId, BufferKind, DataType, Effect, Function, Literal, Local, Node, Operand,
    ProgramParts, Value, walk,
};
use rustc_hash::FxHashMap;

/// What a pass may read while it changes one body: everything but the bodies.
pub(super) struct Surroundings<'a> {
    pub(super) workgroup: [u32; 3],
    pub(super) subgroup: Option<u32>,
    pub(super) buffers: &'a [Buffer],
    /// All functions; the body of the one in hand is taken out.
    pub(super) functions: &'a [Function],
    /// The function whose body is in hand; `None` for the main body.
    pub(super) function: Option<&'a Function>,
}

impl<'a> Surroundings<'a> {
    pub(super) fn of(parts: &'a ProgramParts, function: Option<usize>) -> Surroundings<'a> {
        Surroundings {
            workgroup: parts.workgroup,
            subgroup: parts.subgroup,
            buffers: &parts.buffers,
            functions: &parts.functions,
            function: function.map(|index| &parts.functions[index]),
        }
    }

    pub(super) fn lanes(&self) -> u64 {
        self.workgroup.iter().map(|lanes| u64::from(*lanes)).product()
    }

    pub(super) fn buffer(&self, id: BufferId) -> &'a Buffer {
        &self.buffers[id.index()]
    }

    /// The type of the value a line assigns.
    pub(super) fn result_type(&self, node: &Node) -> Option<DataType> {
        match node {
            Node::Call { function, .. } => self.functions[function.index()].result,
            other => other.result_type(),
        }
    }
}

/// Calls `f` for every body of a program, functions first.
pub(super) fn each_body(parts: &mut ProgramParts, mut f: impl FnMut(&Surroundings<'_>, &mut Body)) {
    for index in 0..parts.functions.len() {
        let mut body = std::mem::take(&mut parts.functions[index].body);
        f(&Surroundings::of(parts, Some(index)), &mut body);
        parts.functions[index].body = body;
    }
    let mut body = std::mem::take(&mut parts.body);
    f(&Surroundings::of(parts, None), &mut body);
    parts.body = body;
}

/// Operands that stand in for values whose lines are gone.
pub(super) struct Replacements {
    by: Vec<Option<Operand>>,
}

impl Replacements {
    pub(super) fn new(body: &Body) -> Replacements {
        Replacements { by: vec![None; body.values.len()] }
    }

    /// From here on `operand` stands for `value`. The operand itself must already be replaced.
    pub(super) fn put(&mut self, value: Value, operand: Operand) {
        if value.index() >= self.by.len() {
            self.by.resize(value.index() + 1, None);
        }
        self.by[value.index()] = Some(operand);
    }

    pub(super) fn get(&self, operand: Operand) -> Operand {
        match operand {
            Operand::Value(value) => self.by.get(value.index()).copied().flatten().unwrap_or(operand),
            Operand::Literal(_) => operand,
        }
    }

    /// Replaces the operands of one line, not those of its blocks.
    pub(super) fn apply(&self, node: &mut Node) {
        node.for_each_operand_mut(|operand| *operand = self.get(*operand));
    }
}

/// A literal as an operand.
pub(super) const fn literal(ty: DataType, bits: u64) -> Operand {
    Operand::Literal(Literal::from_bits(ty, bits))
}

/// Whether no line after this one in its block can run.
pub(super) const fn is_jump(node: &Node) -> bool {
    matches!(node, Node::Break | Node::Continue)
}

/// Whether a block's last line jumps, so that nothing after the block's `if` follows from it.
pub(super) fn ends_in_jump(block: &Block) -> bool {
    block.last().is_some_and(is_jump)
}

/// The number of lines of a block, nested ones included.
pub(super) fn line_count(block: &Block) -> usize {
    let mut count = 0;
    walk(block, |_, _, _| count += 1);
    count
}

/// The name without the number that sealing gave it, so that copies of copies keep short names.
pub(super) fn base_name(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((base, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

/// Whether a buffer's contents cannot change while the program runs.
pub(super) const fn is_constant(buffer: &Buffer) -> bool {
    match buffer.kind {
        BufferKind::Uniform { .. } | BufferKind::Read { .. } | BufferKind::Table { .. } => true,
        BufferKind::ReadWrite { .. } | BufferKind::Workgroup => false,
    }
}

/// Whether a line that reads a buffer reads one whose contents cannot change.
pub(super) fn reads_constant(node: &Node, around: &Surroundings<'_>) -> bool {
    node.buffer().is_some_and(|buffer| is_constant(around.buffer(buffer)))
}

/// What a line does to memory that loads can see.
pub(super) enum MemoryEffect {
    /// Nothing.
    None,
    /// Writes elements of one buffer.
    Writes(BufferId),
    /// Any writable buffer may differ afterwards: lanes met, or a function ran.
    Fence,
}

/// What one line itself does to memory, not its blocks.
pub(super) fn memory_effect(node: &Node) -> MemoryEffect {
    match node.effect() {
        Effect::Writes => node.buffer().map_or(MemoryEffect::None, MemoryEffect::Writes),
        Effect::Orders | Effect::OrdersAndWrites | Effect::Calls => MemoryEffect::Fence,
        Effect::Pure
        | Effect::Reads
        | Effect::Gets
        | Effect::Sets
        | Effect::Exchanges
        | Effect::Controls
        | Effect::Launches
        | Effect::Traps => MemoryEffect::None,
    }
}

/// What a loop's body may change, nested blocks included.
#[derive(Clone, Default)]
pub(super) struct LoopChanges {
    /// Buffers written, each once.
    pub(super) buffers: Vec<BufferId>,
    /// Whether any writable buffer may differ after a line of the body.
    pub(super) fence: bool,
    /// Locals assigned, each once.
    pub(super) locals: Vec<Local>,
}

/// What every loop of a body changes, by its counter: counters are unique.
pub(super) fn loop_changes(body: &Body) -> FxHashMap<Value, LoopChanges> {
    struct Gather {
        changes: FxHashMap<Value, LoopChanges>,
        /// For each local and buffer, the last loop that lists it, so that a list has no doubles.
        local_seen: Vec<u32>,
        buffer_seen: FxHashMap<BufferId, u32>,
    }
    impl Gather {
        fn add_local(&mut self, local: Local, stamp: u32, to: &mut LoopChanges) {
            if self.local_seen[local.index()] != stamp {
                self.local_seen[local.index()] = stamp;
                to.locals.push(local);
            }
        }
        fn add_buffer(&mut self, buffer: BufferId, stamp: u32, to: &mut LoopChanges) {
            if self.buffer_seen.insert(buffer, stamp) != Some(stamp) {
                to.buffers.push(buffer);
            }
        }
        fn block(&mut self, block: &Block, stamp: u32, to: &mut LoopChanges) {
            for node in block {
                match node {
                    Node::For { counter, body, .. } => {
                        let mut inner = LoopChanges::default();
                        self.block(body, counter.0, &mut inner);
                        for local in &inner.locals {
                            self.add_local(*local, stamp, to);
                        }
                        for buffer in &inner.buffers {
                            self.add_buffer(*buffer, stamp, to);
                        }
                        to.fence |= inner.fence;
                        self.changes.insert(*counter, inner);
                    }
                    Node::Set { local, .. } => self.add_local(*local, stamp, to),
                    other => {
                        match memory_effect(other) {
                            MemoryEffect::None => {}
                            MemoryEffect::Writes(buffer) => self.add_buffer(buffer, stamp, to),
                            MemoryEffect::Fence => to.fence = true,
                        }
                        other.blocks().for_each(|inner| self.block(inner, stamp, to));
                    }
                }
            }
        }
    }
    let mut gather = Gather {
        changes: FxHashMap::default(),
        local_seen: vec![u32::MAX; body.locals.len()],
        buffer_seen: FxHashMap::default(),
    };
    gather.block(&body.block, u32::MAX - 1, &mut LoopChanges::default());
    gather.changes
}
