//! The module around the bodies: capabilities and modes, variables of buffers and tables, the entry point.
//!
//! A buffer is an array of **cells**: words, pairs of words for 64-bit elements, or what a feature offers. Smaller elements
//! are stored in words. Buffers that lanes both write and read across barriers are coherent; others may be cached at will.

use super::Options;
use super::body::Emit;
use super::words::{Arg, Id, Inst, Words};
use crate::bindings::{Bindings, ENTRY_POINT, LongTables, table_words};
use spirv::{
    AddressingModel, BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel, MemoryModel, Op,
    StorageClass,
};
use vyre_foundation::ir::{Buffer, BufferId, BufferKind, DataType, FunctionId, Node, ProgramParts, walk};
use vyre_foundation::opt::range::AccessFacts;

/// What an array of memory consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// A word: an element, or several small ones.
    Word,
    /// Two words: a 64-bit element.
    Pair,
    /// A native 64-bit integer, for native atomics.
    Wide,
    /// A native 16-bit integer.
    Half,
}

/// Where a buffer or table is stored.
#[derive(Clone, Copy)]
pub(super) struct Space {
    pub(super) variable: Id,
    pub(super) class: StorageClass,
    pub(super) cell: Cell,
    /// Its first cell, in storage that several share.
    pub(super) first: u32,
    /// Whether lanes write it.
    pub(super) is_written: bool,
    /// Whether its words are loaded and stored by atomics, because there are other atomics on them.
    pub(super) is_atomic: bool,
}

/// What the lines of a program do with a buffer.
#[derive(Default)]
struct Uses {
    reads: bool,
    writes: bool,
    atomics: bool,
    /// Whether there are barriers, which order both.
    barriers: bool,
}

/// What a module is made for.
pub(super) struct Around<'p> {
    pub(super) parts: &'p ProgramParts,
    pub(super) facts: &'p AccessFacts,
    pub(super) options: &'p Options,
    pub(super) bindings: &'p Bindings,
    pub(super) tables: &'p LongTables,
    /// Consecutive lanes in each of the device's subgroups, if it was tried.
    pub(super) subgroup_lanes: u32,
}

pub(super) struct Module<'p> {
    pub(super) words: Words,
    pub(super) parts: &'p ProgramParts,
    pub(super) facts: &'p AccessFacts,
    pub(super) options: &'p Options,
    pub(super) bindings: &'p Bindings,
    tables: &'p LongTables,
    pub(super) subgroup_lanes: u32,
    pub(super) spaces: Vec<Space>,
    pub(super) functions: Vec<Id>,
    pub(super) launch: Id,
    pub(super) status: Option<Id>,
    /// A variable that says whether an earlier stretch between grid barriers has trapped, where that can be.
    pub(super) stopped: Option<Id>,
    /// Where lanes exchange values: a word, or two for 64-bit types.
    pub(super) exchange: [Option<Id>; 2],
    /// The long tables as words, and as pairs of them.
    table_cells: [Option<Id>; 2],
    inputs: Vec<(BuiltIn, Id)>,
    workgroup_bytes: u64,
}

/// A module that is complete: capabilities to execution modes, and the rest.
#[derive(Clone, Debug)]
pub(super) struct Written {
    head: Vec<Inst>,
    words: Words,
    pub(super) workgroup_bytes: u64,
}

impl Written {
    pub(super) fn encode(&self) -> Vec<u32> {
        self.words.encode(&self.head)
    }

    pub(super) fn text(&self) -> String {
        self.words.text(&self.head)
    }
}

pub(super) fn write(around: &Around<'_>, keeps_first_trap: bool) -> Written {
    let Around { parts, facts, options, bindings, tables, subgroup_lanes } = *around;
    let mut module = Module {
        words: Words::new(),
        parts,
        facts,
        options,
        bindings,
        tables,
        subgroup_lanes,
        spaces: Vec::new(),
        functions: Vec::new(),
        launch: 0,
        status: None,
        stopped: None,
        exchange: [None; 2],
        table_cells: [None; 2],
        inputs: Vec::new(),
        workgroup_bytes: 0,
    };
    module.declare(keeps_first_trap);
    for at in 0..parts.functions.len() {
        let id = module.functions[at];
        Emit::new(&mut module, Some(FunctionId(at as u32))).write(id);
    }
    let main = module.words.id();
    module.words.call(main, ENTRY_POINT, true);
    Emit::new(&mut module, None).write(main);
    let head = module.head(main);
    Written { head, words: module.words, workgroup_bytes: module.workgroup_bytes }
}

impl Module<'_> {
    fn declare(&mut self, keeps_first_trap: bool) {
        let word = self.words.uint(32);
        let vector = self.words.vector(word, 4);
        let vectors = self.words.array(vector, self.bindings.launch_vectors() as u32);
        self.words.decorate(vectors, Decoration::ArrayStride, &[16]);
        self.launch = self.bound(vectors, StorageClass::Uniform, self.bindings.launch(), "launch", false);
        if let Some(binding) = self.bindings.status() {
            let words = self.runtime_array(Cell::Word);
            self.status = Some(self.bound(words, StorageClass::StorageBuffer, binding, "status", true));
        }
        if keeps_first_trap {
            let ty = self.words.boolean();
            let no = self.words.truth(false);
            self.stopped = Some(self.module_variable(StorageClass::Private, ty, Some(no), "has_stopped"));
        }
        for at in 0..self.parts.buffers.len() {
            let space = self.space(BufferId(at as u32));
            self.spaces.push(space);
        }
        for function in &self.parts.functions {
            let id = self.words.id();
            self.words.call(id, &function.name, true);
            self.functions.push(id);
        }
    }

    /// A variable of the module.
    fn module_variable(&mut self, class: StorageClass, ty: Id, init: Option<Id>, name: &str) -> Id {
        let pointer = self.words.pointer(class, ty);
        let args = [Arg::storage(class)].into_iter().chain(init.map(Arg::Id));
        let id = self.words.id();
        self.words.add_global(Inst::new(Op::Variable, Some(pointer), Some(id), args));
        self.words.call(id, name, true);
        id
    }

    pub(super) fn cell_type(&mut self, cell: Cell) -> Id {
        match cell {
            Cell::Word => self.words.uint(32),
            Cell::Pair => {
                let word = self.words.uint(32);
                self.words.vector(word, 2)
            }
            Cell::Wide => self.words.uint(64),
            Cell::Half => self.words.uint(16),
        }
    }

    fn runtime_array(&mut self, cell: Cell) -> Id {
        let (ty, stride) = (self.cell_type(cell), cell_bytes(cell));
        let (id, is_new) =
            self.words.intern_new(Op::TypeRuntimeArray, [ty.into()], &format!("cells_{stride}"));
        if is_new {
            self.words.decorate(id, Decoration::ArrayStride, &[stride]);
        }
        id
    }

    /// A bound block with one member.
    fn bound(&mut self, member: Id, class: StorageClass, binding: u32, name: &str, writes: bool) -> Id {
        let (block, is_new) = self.words.intern_new(Op::TypeStruct, [member.into()], "block");
        if is_new {
            self.words.decorate(block, Decoration::Block, &[]);
            self.words.place_member(block);
        }
        let id = self.module_variable(class, block, None, name);
        self.words.decorate(id, Decoration::DescriptorSet, &[0]);
        self.words.decorate(id, Decoration::Binding, &[binding]);
        if !writes && class == StorageClass::StorageBuffer {
            self.words.decorate(id, Decoration::NonWritable, &[]);
        }
        id
    }

    fn space(&mut self, id: BufferId) -> Space {
        let parts = self.parts;
        let buffer = parts.buffer(id);
        match &buffer.kind {
            BufferKind::Uniform { .. } | BufferKind::Read { .. } | BufferKind::ReadWrite { .. } => {
                self.storage(id, buffer)
            }
            BufferKind::Workgroup => {
                let cell = self.cell(id, buffer);
                let bytes = u64::from(buffer.len.unwrap_or(1).max(1)) * buffer.ty.bytes() as u64;
                let cells = bytes.div_ceil(u64::from(cell_bytes(cell))) as u32;
                let class = StorageClass::Workgroup;
                let variable = self.shared(cell, cells, &buffer.name);
                let is_atomic = self.is_atomic(id, buffer, cell);
                Space { variable, class, cell, first: 0, is_written: true, is_atomic }
            }
            BufferKind::Table { data } => match self.tables.first(id) {
                Some(first) => self.long_table(buffer, first),
                None => self.short_table(buffer, data),
            },
        }
    }

    fn storage(&mut self, id: BufferId, buffer: &Buffer) -> Space {
        let class = StorageClass::StorageBuffer;
        let cell = match self.cell(id, buffer) {
            Cell::Word if buffer.ty.bits() == 16 && self.options.features.storage16 => Cell::Half,
            cell => cell,
        };
        let binding = self.bindings.of(id).expect("it is bound");
        let cells = self.runtime_array(cell);
        let variable = self.bound(cells, class, binding, &buffer.name, buffer.is_writable());
        let uses = self.uses(id);
        if uses.writes && uses.reads && uses.barriers {
            self.words.decorate(variable, Decoration::Coherent, &[]);
        } else {
            self.words.decorate(variable, Decoration::Restrict, &[]);
        }
        if uses.writes && self.options.is_volatile {
            self.words.decorate(variable, Decoration::Volatile, &[]);
        }
        let is_atomic = self.is_atomic(id, buffer, cell);
        Space { variable, class, cell, first: 0, is_written: uses.writes, is_atomic }
    }

    /// Whether the words of a buffer have atomics; small elements are stored by them.
    fn is_atomic(&self, id: BufferId, buffer: &Buffer, cell: Cell) -> bool {
        let uses = self.uses(id);
        cell == Cell::Word && (uses.atomics || uses.writes && buffer.ty.bits() < 32)
    }

    /// Workgroup memory of so many cells.
    pub(super) fn shared(&mut self, cell: Cell, cells: u32, name: &str) -> Id {
        let element = self.cell_type(cell);
        let ty = self.words.array(element, cells);
        self.workgroup_bytes += u64::from(cells) * u64::from(cell_bytes(cell));
        self.module_variable(StorageClass::Workgroup, ty, None, name)
    }

    fn cell(&self, id: BufferId, buffer: &Buffer) -> Cell {
        if buffer.ty.bits() != 64 {
            return Cell::Word;
        }
        match self.uses(id).atomics {
            false => Cell::Pair,
            true if self.options.features.int64_atomics => Cell::Wide,
            true => Cell::Word,
        }
    }

    fn uses(&self, id: BufferId) -> Uses {
        let mut uses = Uses::default();
        walk(&self.parts.body.block, |_, _, node| {
            uses.barriers |= node.op().is_grid_wide();
            match node {
                Node::Load { buffer, .. } => uses.reads |= *buffer == id,
                Node::Store { buffer, .. } => uses.writes |= *buffer == id,
                Node::Atomic { buffer, .. } if *buffer == id => {
                    (uses.writes, uses.atomics) = (true, true);
                }
                Node::UniformLoad { buffer, .. } => {
                    (uses.reads, uses.barriers) = (uses.reads || *buffer == id, true);
                }
                Node::AllReduce { dst, src, .. }
                | Node::AllGather { dst, src, .. }
                | Node::ReduceScatter { dst, src, .. }
                | Node::Broadcast { dst, src, .. } => {
                    uses.writes |= *dst == id;
                    uses.reads |= *src == id;
                }
                other => uses.barriers |= matches!(other, Node::Barrier { .. } | Node::Mma { .. }),
            }
        });
        uses
    }

    /// Those of one cell share a variable. Both variables have the same memory, which nothing writes.
    fn long_table(&mut self, buffer: &Buffer, first: u32) -> Space {
        let class = StorageClass::StorageBuffer;
        let cell = if buffer.ty.bits() == 64 { Cell::Pair } else { Cell::Word };
        let known = self.table_cells[usize::from(cell == Cell::Pair)];
        let variable = known.unwrap_or_else(|| {
            let cells = self.runtime_array(cell);
            self.bound(cells, class, self.bindings.tables(), "tables", false)
        });
        self.table_cells[usize::from(cell == Cell::Pair)] = Some(variable);
        let first = first * 4 / cell_bytes(cell);
        Space { variable, class, cell, first, is_written: false, is_atomic: false }
    }

    fn short_table(&mut self, buffer: &Buffer, data: &[u64]) -> Space {
        let mut words = table_words(buffer.ty, data);
        words.resize(words.len().max(1), 0);
        let ids: Vec<Id> = words.iter().map(|word| self.words.word(*word)).collect();
        let element = self.words.uint(32);
        let ty = self.words.array(element, ids.len() as u32);
        let init = self.words.composite(ty, &ids, &format!("{}_elements", buffer.name));
        let class = StorageClass::Private;
        let variable = self.module_variable(class, ty, Some(init), &buffer.name);
        Space { variable, class, cell: Cell::Word, first: 0, is_written: false, is_atomic: false }
    }

    /// The variable of a builtin.
    pub(super) fn input(&mut self, builtin: BuiltIn) -> Id {
        if let Some((_, id)) = self.inputs.iter().find(|(other, _)| *other == builtin) {
            return *id;
        }
        let word = self.words.uint(32);
        let ty = if builtin == BuiltIn::LocalInvocationIndex { word } else { self.words.vector(word, 3) };
        let id = self.module_variable(StorageClass::Input, ty, None, &format!("{builtin:?}"));
        self.words.decorate(id, Decoration::BuiltIn, &[builtin as u32]);
        self.inputs.push((builtin, id));
        id
    }

    /// Where lanes exchange values of one or two words.
    pub(super) fn exchange(&mut self, is_wide: bool) -> Id {
        if let Some(id) = self.exchange[usize::from(is_wide)] {
            return id;
        }
        let cell = if is_wide { Cell::Pair } else { Cell::Word };
        let id = self.shared(cell, self.parts.workgroup_lanes() as u32, "exchanged");
        self.exchange[usize::from(is_wide)] = Some(id);
        id
    }

    /// Capabilities to execution modes.
    fn head(&self, main: Id) -> Vec<Inst> {
        let one = |op, arg| Inst::new(op, None, None, [arg]);
        let floats = [DataType::F32, DataType::F64].into_iter().filter(|ty| self.words.has_float(*ty));
        let floats: Vec<u32> = floats.map(DataType::bits).collect();
        let wide_atomics = self.spaces.iter().any(|space| space.cell == Cell::Wide);
        let is_controlled = !floats.is_empty() && !self.options.floats.is_loose;
        let modes = [
            (Capability::DenormPreserve, ExecutionMode::DenormPreserve),
            (Capability::SignedZeroInfNanPreserve, ExecutionMode::SignedZeroInfNanPreserve),
            (Capability::RoundingModeRTE, ExecutionMode::RoundingModeRTE),
        ];
        let [shuffles, votes] =
            [Op::GroupNonUniformShuffle, Op::GroupNonUniformBallot].map(|op| self.words.has_code(op));
        let mut capabilities = vec![Capability::Shader];
        let optional = [
            (Capability::Int64, self.words.has_uint(64)),
            (Capability::Int64Atomics, wide_atomics),
            (Capability::Float64, floats.contains(&64)),
            (Capability::StorageBuffer16BitAccess, self.words.has_uint(16)),
            (Capability::GroupNonUniform, shuffles || votes),
            (Capability::GroupNonUniformShuffle, shuffles),
            (Capability::GroupNonUniformBallot, votes),
        ];
        capabilities.extend(optional.into_iter().filter(|(_, used)| *used).map(|(capability, _)| capability));
        if is_controlled {
            capabilities.extend(modes.iter().map(|(capability, _)| *capability));
        }
        let mut head: Vec<Inst> = capabilities
            .into_iter()
            .map(|capability| one(Op::Capability, Arg::named(capability as u32, capability)))
            .collect();
        if is_controlled {
            head.push(one(Op::Extension, Arg::Text("SPV_KHR_float_controls".into())));
        }
        let glsl = [Arg::Text("GLSL.std.450".into())];
        head.push(Inst::new(Op::ExtInstImport, None, Some(super::words::GLSL), glsl));
        let (addressing, memory) = (AddressingModel::Logical, MemoryModel::GLSL450);
        let model = [Arg::named(addressing as u32, addressing), Arg::named(memory as u32, memory)];
        head.push(Inst::new(Op::MemoryModel, None, None, model));
        let stage = ExecutionModel::GLCompute;
        let entry = [Arg::named(stage as u32, stage), Arg::Id(main), Arg::Text(ENTRY_POINT.into())];
        let inputs = self.inputs.iter().map(|(_, id)| Arg::Id(*id));
        head.push(Inst::new(Op::EntryPoint, None, None, entry.into_iter().chain(inputs)));
        let mode = |mode: ExecutionMode, words: &[u32]| {
            let args = [Arg::Id(main), Arg::named(mode as u32, mode)];
            let words = words.iter().map(|word| Arg::Word(*word));
            Inst::new(Op::ExecutionMode, None, None, args.into_iter().chain(words))
        };
        head.push(mode(ExecutionMode::LocalSize, &self.parts.workgroup));
        for bits in floats.iter().filter(|_| is_controlled) {
            head.extend(modes.iter().map(|(_, float)| mode(*float, &[*bits])));
        }
        head
    }
}

pub(super) const fn cell_bytes(cell: Cell) -> u32 {
    match cell {
        Cell::Half => 2,
        Cell::Word => 4,
        Cell::Pair | Cell::Wide => 8,
    }
}
