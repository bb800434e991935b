//! The lane bytecode: a flat list that one lane runs from the top to the end.
//!
//! Functions are inlined and blocks are jumps, so a position in the list is a place in the inlined program's order. A
//! [`Slot`] names a register of the lane, or a constant after the last register.

use crate::trace::Note;
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{Axis, BuiltinOp, DataType, FunctionId, SubgroupOp};
use vyre_foundation::scalar::Meaning;

/// A register or constant.
pub(crate) type Slot = u32;

/// No register: an atomic without a result.
pub(crate) const NONE: Slot = u32::MAX;

/// A private array: words of a lane's array memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    pub(crate) base: u32,
    pub(crate) len: u32,
}

/// One step of a lane. Buffers are named by their ids, of which there are at most 256.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Instr {
    /// `dst = f(a, b)`: most ops.
    Compute2 { f: Meaning, dst: Slot, args: [Slot; 2] },
    /// `dst = f(a, b, c, d)`.
    Compute4 { f: Meaning, dst: Slot, args: [Slot; 4] },
    /// `dst = src`: locals, counts, lengths.
    Copy { dst: Slot, src: Slot },
    /// Where the lane is.
    Builtin { dst: Slot, op: BuiltinOp, axis: Axis },
    /// An element of the buffer's type `ty`.
    Load { dst: Slot, ty: DataType, buffer: u16, index: Slot },
    /// Four bytes of a u8 buffer.
    LoadBytes { dst: Slot, buffer: u16, index: Slot },
    /// An element of the buffer's type `ty`.
    Store { ty: DataType, buffer: u16, index: Slot, value: Slot },
    /// `fold` is there for the acts that are folds; `args` are the index, what is expected, and the value.
    Atomic { act: Act, fold: Option<Meaning>, ty: DataType, buffer: u16, dst: Slot, args: [Slot; 3] },
    /// Every element of a private array.
    ArrayFill { array: Array, init: Slot },
    /// An element of a private array.
    ArrayGet { dst: Slot, array: Array, index: Slot },
    /// An element of a private array.
    ArraySet { array: Array, index: Slot, value: Slot },
    /// A `break` or `continue`.
    Jump { to: u32 },
    /// Past the `else` block; no line of the program.
    Skip { to: u32 },
    /// An `if`: past its block unless the condition holds.
    JumpUnless { cond: Slot, to: u32 },
    /// Starts a loop, or goes past it.
    ForEnter { counter: Slot, lo: Slot, hi: Slot, exit: u32 },
    /// The next trip, or on to the next instruction.
    ForNext { counter: Slot, hi: Slot, step: u32, body: u32 },
    /// Records a code.
    Trap { code: u32 },
    /// A line that only a trace shows: calls, returns.
    Mark,
    /// From here on, steps that lanes take together. This one is by subgroup.
    Subgroup { op: SubgroupOp, ty: DataType, dst: Slot, args: [Slot; 2] },
    /// One element of workgroup memory for every lane.
    UniformLoad { dst: Slot, ty: DataType, buffer: u16, index: Slot },
    /// Extents m, n, k; tiles c, a, b.
    Mma { extent: [u16; 3], buffers: [u16; 3], offsets: [Slot; 3] },
    /// All lanes of the workgroup.
    Barrier,
    /// The lanes of each subgroup.
    SubgroupBarrier,
    /// All lanes of the grid.
    GridBarrier,
    /// A collective; that of a single rank copies.
    Collective { dst: u16, src: u16 },
    /// The end of the program.
    End,
}

/// The update of an atomic. The folds are also the kinds of the race rule: add and sub are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    AddSub,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareExchange,
}

impl Instr {
    /// Whether lanes stop here for others.
    pub(crate) fn synchronises(&self) -> bool {
        matches!(
            self,
            Instr::Subgroup { .. }
                | Instr::UniformLoad { .. }
                | Instr::Mma { .. }
                | Instr::Barrier
                | Instr::SubgroupBarrier
        ) || self.synchronises_grid()
    }

    /// Whether all lanes of the grid stop here.
    pub(crate) fn synchronises_grid(&self) -> bool {
        matches!(self, Instr::GridBarrier | Instr::Collective { .. })
    }

    /// Calls `f` with every slot that is read, then with those that are written and `true`.
    pub(crate) fn for_each_slot(&mut self, mut f: impl FnMut(&mut Slot, bool)) {
        let mut reads = |slots: &mut [Slot]| slots.iter_mut().for_each(|slot| f(slot, false));
        let written = match self {
            Instr::Compute2 { dst, args, .. } | Instr::Subgroup { dst, args, .. } => {
                reads(args);
                Some(dst)
            }
            Instr::Compute4 { dst, args, .. } => {
                reads(args);
                Some(dst)
            }
            Instr::Copy { dst, src } => {
                reads(std::slice::from_mut(src));
                Some(dst)
            }
            Instr::Builtin { dst, .. } => Some(dst),
            Instr::Load { dst, index, .. }
            | Instr::LoadBytes { dst, index, .. }
            | Instr::UniformLoad { dst, index, .. }
            | Instr::ArrayGet { dst, index, .. } => {
                reads(std::slice::from_mut(index));
                Some(dst)
            }
            Instr::Store { index, value, .. } | Instr::ArraySet { index, value, .. } => {
                reads(std::slice::from_mut(index));
                reads(std::slice::from_mut(value));
                None
            }
            Instr::Atomic { dst, args, .. } => {
                reads(args);
                (*dst != NONE).then_some(dst)
            }
            Instr::ArrayFill { init, .. } => {
                reads(std::slice::from_mut(init));
                None
            }
            Instr::JumpUnless { cond, .. } => {
                reads(std::slice::from_mut(cond));
                None
            }
            Instr::ForEnter { counter, lo, hi, .. } => {
                reads(std::slice::from_mut(lo));
                reads(std::slice::from_mut(hi));
                Some(counter)
            }
            Instr::ForNext { counter, hi, .. } => {
                reads(std::slice::from_mut(hi));
                Some(counter)
            }
            Instr::Mma { offsets, .. } => {
                reads(offsets);
                None
            }
            Instr::Jump { .. }
            | Instr::Skip { .. }
            | Instr::Trap { .. }
            | Instr::Mark
            | Instr::Barrier
            | Instr::SubgroupBarrier
            | Instr::GridBarrier
            | Instr::Collective { .. }
            | Instr::End => None,
        };
        if let Some(slot) = written {
            f(slot, true);
        }
    }
}

/// Where a body is inlined: the main body is frame 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) function: Option<FunctionId>,
    /// The frame and line of the call.
    pub(crate) caller: Option<(u32, u32)>,
}

/// A line of the inlined program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) frame: u32,
    pub(crate) site: u32,
}

/// A compiled program.
pub(crate) struct Code {
    pub(crate) instrs: Vec<Instr>,
    /// By instruction.
    pub(crate) origins: Vec<Origin>,
    /// By instruction if a lane is traced, else none.
    pub(crate) notes: Vec<Note>,
    pub(crate) frames: Vec<Frame>,
    /// Registers of a lane.
    pub(crate) slots: u32,
    /// The constants after a lane's registers.
    pub(crate) constants: Vec<u64>,
    /// Words of a lane's private arrays.
    pub(crate) array_words: u32,
    pub(crate) synchronises: bool,
    pub(crate) synchronises_grid: bool,
}

/// A line of the program, with the calls that led to it, the innermost last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The line itself, in the body it was written in.
    pub line: Place,
    /// The lines of the calls through which it was inlined, from the main body inwards.
    pub calls: Vec<Place>,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut line = |place: &Place| match place {
            Place::Line { function: None, site } => write!(f, "line {site} of the body"),
            Place::Line { function: Some(function), site } => {
                write!(f, "line {site} of function {}", function.0)
            }
            other => unreachable!("locations are lines, not {other:?}"),
        };
        line(&self.line)
    }
}

impl Code {
    /// The place of the instruction at `pc` in the program as written.
    pub(crate) fn location(&self, pc: u32) -> Location {
        let mut origin = self.origins[pc as usize];
        let place = |origin: Origin| Place::Line {
            function: self.frames[origin.frame as usize].function,
            site: origin.site,
        };
        let line = place(origin);
        let mut calls = Vec::new();
        while let Some((frame, site)) = self.frames[origin.frame as usize].caller {
            origin = Origin { frame, site };
            calls.push(place(origin));
        }
        calls.reverse();
        Location { line, calls }
    }
}
