//! Rules that change the program: the effect of a wrong lowering, launch or memory access, written as lines of the language.
//!
//! A rewrite replaces the lines at a place (every `atomic_add.u32`, every load from a uniform buffer) by others, or wraps
//! the whole body. The interpreter runs lanes one after the other, so a wrong atomic is a load, an op and a store.
//! A rewrite may make a program that is not valid; then it does not apply to that program.

mod launch;
mod lines;
mod memory;
mod sync;

pub(crate) use lines::Lines;

use super::Rule;
use crate::failure::Cause;
use std::fmt;
use vyre_foundation::ir::{
    Axis, BufferId, BufferKind, BuiltinOp, DataType, Node, OpId, Program, ProgramParts,
};
use vyre_reference::Schedule;

/// Where a rewrite changes lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// The program as a whole.
    Program,
    /// Lines with that op.
    Op(OpId),
    /// Lines with that op and type; for loads, stores and atomics the type of the buffer's elements.
    Typed(OpId, DataType),
    /// Ids and counts along an axis.
    Axis(BuiltinOp, Axis),
    /// Accesses of a kind of memory.
    Memory(OpId, Memory),
    /// `load.u32` on a buffer of bytes.
    Bytes,
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Memory {
    Uniform,
    Read,
    ReadWrite,
    Workgroup,
    Table,
}

impl Memory {
    fn of(parts: &ProgramParts, buffer: BufferId) -> Memory {
        match parts.buffer(buffer).kind {
            BufferKind::Uniform { .. } => Memory::Uniform,
            BufferKind::Read { .. } => Memory::Read,
            BufferKind::ReadWrite { .. } => Memory::ReadWrite,
            BufferKind::Workgroup => Memory::Workgroup,
            BufferKind::Table { .. } => Memory::Table,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Program => write!(f, "program"),
            Place::Op(op) => write!(f, "{op}"),
            Place::Typed(op, ty) => write!(f, "{op}.{ty}"),
            Place::Axis(op, axis) => write!(f, "{}.{}", op.info().name, axis.name()),
            Place::Memory(op, memory) => write!(f, "{op}.{}", format!("{memory:?}").to_lowercase()),
            Place::Bytes => write!(f, "load.u32.u8"),
        }
    }
}

impl Place {
    /// Whether a line is at this place.
    fn has(self, parts: &ProgramParts, node: &Node) -> bool {
        let bytes = matches!(node, Node::Load { ty: DataType::U32, buffer, .. } if parts.buffer(*buffer).ty == DataType::U8);
        match self {
            Place::Program => false,
            Place::Op(op) => node.op() == op,
            Place::Typed(op, ty) => node.op() == op && node.suffix() == Some(ty) && !bytes,
            Place::Axis(of, along) => {
                matches!(node, Node::Builtin { op, axis: Some(axis), .. } if (*op, *axis) == (of, along))
            }
            Place::Memory(op, memory) => {
                let mut touches = false;
                node.for_each_buffer(|buffer| touches |= Memory::of(parts, buffer) == memory);
                node.op() == op && touches && !bytes
            }
            Place::Bytes => bytes,
        }
    }
}

/// Replaces a line: pushes others; `None` keeps the line as it is.
type Edit = fn(&mut Lines<'_>, &Node) -> Option<()>;

/// A typical mistake in lowering or launching a program.
pub(crate) struct Rewrite {
    pub(crate) name: &'static str,
    pub(crate) cause: Cause,
    /// Where it is tried.
    pub(crate) places: fn() -> Vec<Place>,
    edit: Edit,
    /// Changes the program as a whole; `None` leaves it.
    whole: fn(&mut ProgramParts, Place) -> Option<()>,
    grid: Option<fn([u32; 3]) -> [u32; 3]>,
    schedule: Schedule,
    /// The meaning of bitcasts in the changed program.
    bitcast: Option<&'static Rule>,
}

/// A changed program, and how to run it.
pub(crate) struct Change {
    pub(crate) program: Program,
    pub(crate) grid: Option<fn([u32; 3]) -> [u32; 3]>,
    /// Bytes of buffers that the launch binds after its own.
    pub(crate) scratch: Vec<usize>,
    pub(crate) schedule: Schedule,
    pub(crate) bitcast: Option<&'static Rule>,
}

impl Rewrite {
    const fn lines(name: &'static str, cause: Cause, places: fn() -> Vec<Place>, edit: Edit) -> Rewrite {
        let whole: fn(&mut ProgramParts, Place) -> Option<()> = |_, _| None;
        Rewrite { name, cause, places, edit, whole, grid: None, schedule: Schedule::Forward, bitcast: None }
    }

    const fn whole(
        name: &'static str,
        cause: Cause,
        whole: fn(&mut ProgramParts, Place) -> Option<()>,
    ) -> Rewrite {
        Rewrite { whole, ..Rewrite::lines(name, cause, || vec![Place::Program], |_, _| None) }
    }

    const fn grid(name: &'static str, cause: Cause, grid: fn([u32; 3]) -> [u32; 3]) -> Rewrite {
        Rewrite { grid: Some(grid), ..Rewrite::whole(name, cause, |_, _| Some(())) }
    }

    /// The same, with lanes and workgroups in descending order.
    const fn reversed(self) -> Rewrite {
        Rewrite { schedule: Schedule::Reverse, ..self }
    }

    /// Whether the program has something at the place.
    pub(crate) fn concerns(&self, parts: &ProgramParts, place: Place) -> bool {
        let mut found = place == Place::Program;
        for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
            vyre_foundation::ir::walk(&body.block, |_, _, node| found |= place.has(parts, node));
        }
        found
    }

    /// The changed program; `None` if nothing changes.
    pub(crate) fn apply(&self, program: &Program, place: Place) -> Option<Change> {
        if !self.concerns(program.parts(), place) {
            return None;
        }
        let mut parts = program.parts().clone();
        let mut changed = lines::edit(&mut parts, &|parts, node| place.has(parts, node), &self.edit);
        changed |= (self.whole)(&mut parts, place).is_some();
        if !changed {
            return None;
        }
        let pairs = program.parts().buffers.iter().zip(&parts.buffers);
        let bound = pairs.filter(|(before, after)| before.binding().is_none() && after.binding().is_some());
        let scratch = bound.map(|(_, buffer)| buffer.len.unwrap_or(0) as usize * buffer.ty.bytes()).collect();
        let (grid, schedule, bitcast) = (self.grid, self.schedule, self.bitcast);
        Some(Change { program: Program::new(parts).ok()?, grid, scratch, schedule, bitcast })
    }

    /// The program changed at every place where that leaves it valid; `None` if nothing changes.
    pub(crate) fn apply_everywhere(&self, program: &Program) -> Option<Change> {
        let mut all: Option<Change> = None;
        for place in (self.places)() {
            let before = all.as_ref().map_or(program, |change| &change.program);
            let change = self.apply(before, place);
            if let Some(change) = change.filter(|change| crate::judge::valid(&change.program).is_ok()) {
                all = Some(change);
            }
        }
        all
    }
}

/// Every rewrite, the likelier explanation first.
pub(crate) fn rewrites() -> impl Iterator<Item = &'static Rewrite> {
    launch::REWRITES.iter().chain(sync::REWRITES).chain(memory::REWRITES)
}

const INTEGERS: [DataType; 4] = [DataType::U32, DataType::I32, DataType::U64, DataType::I64];
const WIDE: [DataType; 2] = [DataType::U64, DataType::I64];
const SMALL: [DataType; 6] =
    [DataType::U8, DataType::I8, DataType::U16, DataType::I16, DataType::F16, DataType::BF16];
const FLOATS: [DataType; 4] = [DataType::F16, DataType::BF16, DataType::F32, DataType::F64];

/// One place for every type an op takes among `types`.
fn typed(op: OpId, types: &[DataType]) -> Vec<Place> {
    types.iter().filter(|ty| op.info().types.contains(**ty)).map(|ty| Place::Typed(op, *ty)).collect()
}

fn stored() -> Vec<DataType> {
    DataType::ALL.into_iter().filter(|ty| ty.stores()).collect()
}

fn computing() -> Vec<DataType> {
    DataType::ALL.into_iter().filter(|ty| ty.computes()).collect()
}
