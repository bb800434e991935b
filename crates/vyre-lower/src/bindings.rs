//! How a program's buffers are bound for shaders that our own driver runs: WGSL and SPIR-V alike.
//!
//! Everything is in group 0, descriptor set 0. With n bound buffers:
//!
//! ```text
//! 0 .. n   the buffers by ascending binding of the program: storage, arrays of u32, read-only unless the program declares
//!          them read_write. Whole words, and at least one; what lies behind the last element in its word is nobody's.
//! n        the launch words: uniform, an array of vec4<u32> (stride 16), constant for the launch
//!            0   the whole grid: x, y, z           then a zero
//!            1   the launch's first workgroup: x, y, z   then another zero
//!            2.. the elements of the buffers in order, four in each, zeros behind the last
//! n + 1    the status words, where the program has traps or 64-bit minima or maxima: storage, read_write, an array of u32
//!            0   the trap word: the greatest complement of the sites that trapped (by atomic max), 0 if none
//!            1 .. 1024   locks, 0 when nobody has them, for shaders that have no 64-bit atomics
//! behind   the long tables, where the shader has some: storage, read-only, an array of u32
//! ```
//!
//! A grid of more workgroups along an axis than a launch takes is launched in pieces, so a workgroup's place is the
//! builtin plus the launch's first. The two zeros are for compilers that must not know an operand: they are never anything
//! else, and no compiler can tell. Elements are those of the program's types, so `len` needs no division.
//!
//! The entry point is `main`. Shaders check bounds themselves, and zero workgroup memory where the host's API does not.
//! A program with grid barriers or collectives runs on a grid of one workgroup only; its driver splits others.

use vyre_foundation::ir::{AtomicOp, BufferId, BufferKind, DataType, Node, ProgramParts, walk};
use vyre_foundation::launch::bound_buffers;

/// What to do where a device has no 64-bit atomics and no lock can be taken instead.
pub(crate) const WIDE_ATOMIC_FIX: &str = "use 32-bit elements, or use the old value if each element has one lane; 64-bit \
    minima and maxima are an optional feature";

/// The entry point's name.
pub const ENTRY_POINT: &str = "main";
/// The words of one element of the launch words.
const VECTOR: usize = 4;
/// How many status words there are; all are 0 before the launch.
pub const STATUS_WORDS: u32 = 1024;
/// The word of the first zero, and of the other.
pub const ZERO_WORDS: [u32; 2] = [3, 7];
/// The word of the first buffer's elements.
pub const ELEMENTS_WORD: u32 = 8;
/// The words of a table that the shader itself holds, at most. Compilers write longer constants out element by element:
/// Mesa's takes a minute for five thousand.
const SHORT_TABLE_WORDS: usize = 64;
/// Tables in storage begin at multiples of so many words, for loads of several.
const TABLE_ALIGN: usize = 4;

/// The bindings of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bindings {
    /// The bound buffers, whose places here are their bindings, and whether the shader may write them.
    pub buffers: Vec<(BufferId, bool)>,
    /// Whether there are status words.
    pub has_status: bool,
}

impl Bindings {
    /// Those of a program as it was written, whatever is left of it when it is optimised. Lines of its functions count, whether they are called or not.
    pub fn new(parts: &ProgramParts) -> Bindings {
        let bound = bound_buffers(parts).into_iter();
        let mut has_status = false;
        let bodies = parts.functions.iter().map(|function| &function.body).chain([&parts.body]);
        bodies.for_each(|body| {
            walk(&body.block, |_, _, node| has_status |= needs_status(node));
        });
        Bindings { buffers: bound.map(|id| (id, parts.buffer(id).is_writable())).collect(), has_status }
    }

    /// The binding of the launch words.
    pub fn launch(&self) -> u32 {
        self.buffers.len() as u32
    }

    /// The binding of the status words, where there are some.
    pub fn status(&self) -> Option<u32> {
        self.has_status.then_some(self.launch() + 1)
    }

    /// The binding of the long tables, where the shader has some.
    pub fn tables(&self) -> u32 {
        self.launch() + 1 + u32::from(self.has_status)
    }

    /// The binding of a buffer.
    pub fn of(&self, id: BufferId) -> Option<u32> {
        self.buffers.iter().position(|(other, _)| *other == id).map(|at| at as u32)
    }

    /// How many vectors the launch words have.
    pub fn launch_vectors(&self) -> usize {
        (ELEMENTS_WORD as usize + self.buffers.len()).div_ceil(VECTOR)
    }

    /// The launch words of a launch from workgroup `first` on, with so many elements in each buffer.
    pub fn launch_words(&self, grid: [u32; 3], first: [u32; 3], elements: &[u32]) -> Vec<u32> {
        let ([x, y, z], [first_x, first_y, first_z]) = (grid, first);
        let mut words = vec![x, y, z, 0, first_x, first_y, first_z, 0];
        words.extend_from_slice(elements);
        words.resize(self.launch_vectors() * VECTOR, 0);
        words
    }
}

/// The tables that a shader reads from storage, because they are long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LongTables {
    /// What their binding holds: one behind the other.
    pub(crate) words: Vec<u32>,
    /// Their first words.
    firsts: Vec<(BufferId, u32)>,
}

impl LongTables {
    /// Those of a program as it is written out.
    pub(crate) fn new(parts: &ProgramParts) -> LongTables {
        let mut tables = LongTables::default();
        for (at, buffer) in parts.buffers.iter().enumerate() {
            if let BufferKind::Table { data } = &buffer.kind
                && data.len() * buffer.ty.bytes() > 4 * SHORT_TABLE_WORDS
            {
                tables.words.resize(tables.words.len().next_multiple_of(TABLE_ALIGN), 0);
                tables.firsts.push((BufferId(at as u32), tables.words.len() as u32));
                tables.words.extend(table_words(buffer.ty, data));
            }
        }
        tables
    }

    /// The first word of a table, if it is one of them.
    pub(crate) fn first(&self, id: BufferId) -> Option<u32> {
        self.firsts.iter().find(|(other, _)| *other == id).map(|(_, first)| *first)
    }
}

/// A table's elements as memory holds them.
pub(crate) fn table_words(ty: DataType, data: &[u64]) -> Vec<u32> {
    let bytes = |bits: &u64| bits.to_le_bytes().into_iter().take(ty.bytes());
    let bytes: Vec<u8> = data.iter().flat_map(bytes).collect();
    let word = |four: &[u8]| four.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    bytes.chunks(4).map(word).collect()
}

fn needs_status(node: &Node) -> bool {
    // A result that nobody uses may be dropped.
    matches!(node, Node::Trap { .. })
        || matches!(node, Node::Atomic { op: AtomicOp::Min | AtomicOp::Max, ty, .. } if ty.bits() == 64)
}

/// Whether a line is an atomic that cannot be put together from those on words.
pub(crate) fn needs_lock(node: &Node) -> bool {
    matches!(node, Node::Atomic { result: None, op: AtomicOp::Min | AtomicOp::Max, ty, .. } if ty.bits() == 64)
}
