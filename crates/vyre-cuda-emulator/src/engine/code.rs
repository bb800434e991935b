//! The form that the interpreter runs: one operation for each instruction, on numbered registers.
//!
//! Constants and addresses of variables are registers too: they get their values before a warp begins, and nothing writes
//! them. So every operand is a row.

use crate::alu::Fun;
use crate::tensor::{Ldmatrix, Mma, Stmatrix, Wgmma};

/// A register's place among a warp's rows.
pub(super) type Slot = u32;

/// In place of a destination that the text leaves out.
pub(super) const NOWHERE: Slot = Slot::MAX;

/// An instruction.
pub(super) struct Op {
    pub(super) line: u32,
    /// Runs where this predicate is set; or, if the second is true, where it is not.
    pub(super) guard: Option<(Slot, bool)>,
    pub(super) dests: Vec<Slot>,
    pub(super) sources: Vec<Slot>,
    pub(super) kind: Kind,
    /// Whether some source may hold what nothing has written, so that it is looked at each time.
    pub(super) checks: bool,
}

/// What an instruction does. Its operands are in `Op`, in the order of the text.
pub(super) enum Kind {
    Alu {
        fun: Fun,
        /// What gives the second result, where `fun` does not give both.
        second: Option<Fun>,
        reads_carry: bool,
        writes_carry: bool,
    },
    Move,
    Special(Special),
    /// Sources of so many bits each become one value.
    Pack(u32),
    /// One value becomes parts of so many bits.
    Unpack(u32),
    /// Bytes of the parameters, from an offset.
    Param {
        offset: u32,
        access: Access,
    },
    Load {
        space: Space,
        offset: i64,
        access: Access,
        strength: Strength,
    },
    Store {
        space: Space,
        offset: i64,
        access: Access,
        strength: Strength,
    },
    Atomic {
        space: Space,
        offset: i64,
        action: Action,
        ty: Number,
        strength: Strength,
    },
    /// To a generic address, or from one.
    ToGeneric(Space),
    FromGeneric(Space),
    IsSpace(Space),
    Branch(u32),
    Exit,
    Trap,
    /// A barrier of the block: the first source is its number, the second the number of threads.
    Barrier {
        aligned: bool,
        counted: bool,
        step: BarrierStep,
    },
    /// Lanes named by the last source wait for each other.
    Warp(WarpOp),
    /// All lanes of a warp together.
    Aligned(AlignedOp),
    ActiveMask,
    Fence(Fence),
    CpAsync {
        offsets: [i64; 2],
        bytes: u32,
        /// Whether a source says how many bytes are read; the rest is zero.
        sized: bool,
    },
    CpCommit,
    /// Waits until so many groups at most are under way; `None` for everything.
    CpWait(Option<u64>),
    /// Advice, or time that passes.
    Nothing,
}

/// How a load or store moves elements.
#[derive(Clone, Copy)]
pub(super) struct Access {
    /// Bytes of one element: 1, 2, 4 or 8.
    pub(super) bytes: u32,
    /// Elements: 1, 2 or 4.
    pub(super) count: u32,
    /// Whether an element is extended by its sign, to the width of its register in bits.
    pub(super) signed: bool,
    pub(super) register_bits: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Generic,
    Global,
    Const,
    Shared,
    Local,
    Param,
}

/// What an access says of order; it matters to the detection of races.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Weak,
    /// Loads of memory that nothing writes while the kernel runs (`.nc`).
    Constant,
    /// `.volatile` and `.relaxed`: never part of a race with its like.
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

/// An access's order, and to whom it is a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strength {
    pub(super) order: Order,
    /// Whether the scope is the block alone (`.cta`).
    pub(super) block_only: bool,
}

impl Strength {
    pub(super) const WEAK: Strength = Strength { order: Order::Weak, block_only: false };

    pub(super) const fn is_strong(self) -> bool {
        !matches!(self.order, Order::Weak | Order::Constant)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
    Exchange,
    CompareExchange,
}

/// What an atomic counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Bits(u32),
    Unsigned(u32),
    Signed(u32),
    F32,
    F64,
}

impl Number {
    pub(super) const fn bytes(self) -> u32 {
        match self {
            Number::Bits(bits) | Number::Unsigned(bits) | Number::Signed(bits) => bits / 8,
            Number::F32 => 4,
            Number::F64 => 8,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BarrierStep {
    Sync,
    Arrive,
    And,
    Or,
    Popc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WarpOp {
    Sync,
    Shuffle(Shuffle),
    VoteAll,
    VoteAny,
    VoteUni,
    Ballot,
    MatchAny,
    MatchAll,
    Redux(Redux),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redux {
    Add,
    MinSigned,
    MinUnsigned,
    MaxSigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
}

pub(super) enum AlignedOp {
    Ldmatrix { matrix: Ldmatrix, offset: i64 },
    Stmatrix { matrix: Stmatrix, offset: i64 },
    Mma(Mma),
    Wgmma(Box<Wgmma>),
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fence {
    /// Of a block's threads.
    Block,
    /// Of the device's, or the system's.
    Device,
    /// Between the proxies that access shared memory.
    ProxyAsync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    LaneId,
    WarpId,
    WarpCount,
    SmId,
    SmCount,
    GridId,
    MaskEq,
    MaskLt,
    MaskLe,
    MaskGt,
    MaskGe,
    /// The low 32 bits of a counter.
    Clock,
    Clock64,
    GlobalTimer,
    DynamicShared,
    TotalShared,
}

/// Where a constant row's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Constant {
    Value(u64),
    /// The address of a module's variable, and bytes beyond it.
    Global(usize, i64),
}

/// A kernel's operations, and what a warp needs to run them.
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    /// Rows of a warp.
    pub(super) slots: u32,
    /// Rows that hold constants.
    pub(super) constants: Vec<(Slot, Constant)>,
    /// By slot, whether it may be read before it is written.
    pub(super) tracked: Vec<bool>,
    pub(super) uses_wgmma: bool,
    pub(super) uses_cp_async: bool,
}
