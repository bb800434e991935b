//! Vector code: a program as its emitters see it.
//!
//! A function runs a range of workgroups on one thread. It is in SSA form with block parameters. A register is either
//! uniform (`S32`, `S64`: one integer in a general register) or holds `W` lanes (`V32`, `V64`, `Mask`). `W` is one power
//! of two for the whole function, at least 2 and at most 32, chosen so that the widest vector of the function fits one
//! machine register (see [`Function::lanes`]). Registers have no signedness and no float type: ops say how they read bits.
//!
//! What the front of the compiler has already done, so that emitters need not: out-of-bounds rules, NaN made canonical,
//! types of 16 bits (they live as f32 values), masks of divergent control flow, traps, polling, subgroups, loops over lanes.
//! Several vectors in flight are several registers here.
//!
//! # Rules that hold everywhere
//! - **Nothing faults.** Integer division is total. An access touches only bytes that the code names, and the lowering
//!   has checked them; masked-off lanes are not touched at all.
//! - **Floats are IEEE 754**, to nearest even, subnormals kept, nothing fused or reordered. The bits of a NaN that an op
//!   makes or passes on are free, except through the ops that only move bits (`Select`, `Splat`, `Permute`, loads, stores,
//!   block arguments and integer ops), which keep every bit.
//! - **No alignment** is promised for any address, except that atomics are aligned to their size.
//! - **Memory** is read and written in the order of the code; a load may not be moved over a store it could alias, and
//!   [`Op::Poll`] is read anew each time. Lanes of one vector store are written in ascending order, so the highest wins.
//! - **Edges**: a `Branch` goes to two different blocks that have no parameters and no other predecessor. So no edge is
//!   critical, and only `Jump` carries arguments.
//! - The entry block is block 0 and has the parameters of [`Function`]; nothing jumps to it.
//! - Blocks are listed so that every block but the entry follows all of its dominators. Every block can be reached.

use smallvec::SmallVec;

/// A register: assigned once, by an instruction or as a block's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

impl Reg {
    /// The register's place in [`Function::kinds`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A block: an index into [`Function::blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The block's place in [`Function::blocks`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One 32-bit integer, the same for all lanes. A uniform truth value is an `S32` of 0 or 1.
    S32,
    /// One 64-bit integer: addresses, and uniform values of 64 bits.
    S64,
    /// `W` lanes of 32 bits: u32, i32, f32 (f16 and bf16 as f32), uniform floats with all lanes equal.
    V32,
    /// `W` lanes of 64 bits: u64, i64, f64.
    V64,
    /// `W` truth values.
    Mask,
}

impl Kind {
    /// Whether it holds lanes of bits.
    pub const fn is_vector(self) -> bool {
        matches!(self, Kind::V32 | Kind::V64)
    }

    /// Whether it is one integer.
    pub const fn is_scalar(self) -> bool {
        matches!(self, Kind::S32 | Kind::S64)
    }

    /// Bits of the integer or of a lane; a mask has one.
    pub const fn bits(self) -> u32 {
        match self {
            Kind::S32 | Kind::V32 => 32,
            Kind::S64 | Kind::V64 => 64,
            Kind::Mask => 1,
        }
    }
}

/// Integer ops of two operands of one kind (`S32`, `S64`, `V32`, `V64`), which is the result's. All wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// The low half of the product.
    Mul,
    /// The upper half of the unsigned double-width product.
    MulHiU,
    /// The upper half of the signed double-width product.
    MulHiS,
    /// Unsigned quotient; `x / 0 = x`.
    DivU,
    /// Signed quotient toward zero; `x / 0 = x`, `MIN / -1 = MIN`.
    DivS,
    /// Unsigned remainder; `x % 0 = 0`.
    RemU,
    /// Signed remainder with the dividend's sign; `x % 0 = 0`, `MIN % -1 = 0`.
    RemS,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// The first and not the second: `a & !b`.
    AndNot,
    /// The lesser, unsigned.
    MinU,
    /// The lesser, signed.
    MinS,
    /// The greater, unsigned.
    MaxU,
    /// The greater, signed.
    MaxS,
}

/// Shifts. The amount is below the width of the shifted kind: the lowering has reduced it. A greater one gives any bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShiftOp {
    /// Left, zeros come in.
    Shl,
    /// Right, zeros come in.
    ShrU,
    /// Right, the sign comes in.
    ShrS,
    /// Left rotation.
    RotL,
}

/// Integer ops of one operand; the result has its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitOp {
    /// The number of one bits. Scalars and vectors.
    Popcount,
    /// Zero bits above the highest one; the width for 0. Scalars and vectors.
    Clz,
    /// Zero bits below the lowest one; the width for 0. Scalars only.
    Ctz,
}

/// Comparisons of integers. Greater is less with the operands exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntCond {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less, unsigned.
    LtU,
    /// Less or equal, unsigned.
    LeU,
    /// Less, signed.
    LtS,
    /// Less or equal, signed.
    LeS,
}

/// The float type as which an op reads lanes: `F32` on `V32`, `F64` on `V64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Float {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl Float {
    /// The vectors it stands in.
    pub const fn kind(self) -> Kind {
        match self {
            Float::F32 => Kind::V32,
            Float::F64 => Kind::V64,
        }
    }
}

/// Float ops of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatOp {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Quotient.
    Div,
    /// C's `fmod`, exact. Rare: a call per lane will do.
    Rem,
    /// The lesser; a number rather than any NaN (signalling ones too), -0 rather than +0.
    Min,
    /// The greater; a number rather than any NaN, +0 rather than -0.
    Max,
}

/// Float ops of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatUnOp {
    /// Square root, correctly rounded.
    Sqrt,
    /// To an integer, down. The sign of a zero result is the operand's; so in the next three.
    Floor,
    /// To an integer, up.
    Ceil,
    /// To an integer, toward zero.
    Trunc,
    /// To the nearest integer, ties to even.
    Round,
}

/// Comparisons of floats. All but the last two are false if either operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatCond {
    /// Equal; -0 equals +0.
    Eq,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Not equal, or either is NaN.
    Ne,
    /// Either is NaN.
    Unordered,
}

/// A number's type, for conversions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // They are their names.
pub enum Num {
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

impl Num {
    /// Whether it is a float.
    pub const fn is_float(self) -> bool {
        matches!(self, Num::F32 | Num::F64)
    }

    /// Whether it has 64 bits.
    pub const fn is_wide(self) -> bool {
        matches!(self, Num::U64 | Num::I64 | Num::F64)
    }
}

/// Ops of two masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaskOp {
    /// Both.
    And,
    /// Either.
    Or,
    /// One of them.
    Xor,
    /// The first and not the second.
    AndNot,
}

/// What an element in memory is, and what it becomes in a register. Little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// A byte; loads extend it by zeros to 32 bits, stores take the low byte of 32 bits.
    U8,
    /// A byte; loads extend it by its sign to 32 bits.
    I8,
    /// Two bytes; loads extend them by zeros to 32 bits.
    U16,
    /// Two bytes; loads extend them by their sign to 32 bits.
    I16,
    /// Four bytes: `S32`, `V32`.
    B32,
    /// Eight bytes: `S64`, `V64`.
    B64,
}

impl Elem {
    /// Its size.
    pub const fn bytes(self) -> u32 {
        match self {
            Elem::U8 | Elem::I8 => 1,
            Elem::U16 | Elem::I16 => 2,
            Elem::B32 => 4,
            Elem::B64 => 8,
        }
    }

    /// The uniform kind it loads into.
    pub const fn scalar(self) -> Kind {
        if matches!(self, Elem::B64) { Kind::S64 } else { Kind::S32 }
    }

    /// The vector kind it loads into.
    pub const fn vector(self) -> Kind {
        if matches!(self, Elem::B64) { Kind::V64 } else { Kind::V32 }
    }
}

/// An address: `base + index * scale + disp`, in 64 bits, as the x86 addressing mode has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// An `S64`.
    pub base: Reg,
    /// An `S64` and what it counts in: 1, 2, 4 or 8 bytes.
    pub index: Option<(Reg, u8)>,
    /// A constant number of bytes.
    pub disp: i32,
}

/// What a read-modify-write does; all but `CompareExchange` put `old op value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // They are the language's.
pub enum Rmw {
    Add,
    Sub,
    And,
    Or,
    Xor,
    MinU,
    MinS,
    MaxU,
    MaxS,
    Exchange,
}

/// What an instruction does. A result's kind is said with each op; `V` stands for `V32` or `V64`, `S` for `S32` or `S64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A constant of the result's kind. `S`: the low bits. `V`: every lane the low bits. `Mask`: lane i is bit i.
    Const(u64),
    /// `V32`: lane i holds i.
    LaneIndex,
    /// Any kind but `Mask`; operands and result of one kind.
    Int(IntOp, Reg, Reg),
    /// Any kind but `Mask`: the value, then the amount, of one kind.
    Shift(ShiftOp, Reg, Reg),
    /// Any kind but `Mask`, by a constant below the width.
    ShiftImm(ShiftOp, Reg, u8),
    /// Any kind but `Mask`; see [`BitOp`] for which has what.
    Bit(BitOp, Reg),
    /// Operands of one kind. `S` gives `S32` 0 or 1; `V` gives `Mask`.
    IntCmp(IntCond, Reg, Reg),
    /// Operands and result in [`Float::kind`].
    Float(FloatOp, Float, Reg, Reg),
    /// Operand and result in [`Float::kind`].
    FloatUn(FloatUnOp, Float, Reg),
    /// `a * b + c`, rounded once. Operands and result in [`Float::kind`].
    Fma(Float, Reg, Reg, Reg),
    /// Operands in [`Float::kind`], result `Mask`.
    FloatCmp(FloatCond, Float, Reg, Reg),
    /// The condition, then what it gives, then else. Condition `Mask`: `V`, lane by lane. Condition `S32`: `S`, `V` or
    /// `Mask` as a whole, the first if it is not 0.
    Select(Reg, Reg, Reg),
    /// A number in another type, rounded once: float to integer toward zero, saturating, NaN to 0; integer to integer
    /// extends by the source's signedness or truncates. `from` and `to` differ, and are not two integers of one width.
    /// Vectors have all of them, scalars those between integers; operand and result are both scalars or both vectors.
    Convert {
        /// The operand's type.
        from: Num,
        /// The result's type.
        to: Num,
        /// The operand.
        value: Reg,
    },
    /// `V32`: the low 16 bits of each lane, read as f16, as an f32. Exact; the upper bits are not looked at.
    HalfToFloat(Reg),
    /// `V32`: each f32 rounded to f16 (to nearest even, subnormals kept), in the low 16 bits; the upper ones are 0.
    FloatToHalf(Reg),
    /// `Mask`.
    Mask(MaskOp, Reg, Reg),
    /// `Mask`.
    MaskNot(Reg),
    /// `Mask` of an `S32`: lane i is set if `i < n`, unsigned.
    MaskFirst(Reg),
    /// `S32` of a mask: bit i is lane i; bits from `W` up are 0.
    MaskToBits(Reg),
    /// `Mask` of an `S32`: lane i is bit i; bits from `W` up are not looked at.
    BitsToMask(Reg),
    /// `S32` to `V32`, `S64` to `V64`: every lane the same.
    Splat(Reg),
    /// `V32` to `S32`, `V64` to `S64`: one lane.
    Extract(Reg, u8),
    /// `V` and a `V32` of lane numbers to `V`: lane i gets the value of lane `index[i] mod W`.
    Permute(Reg, Reg),
    /// `S` by [`Elem::scalar`].
    LoadS(Elem, Address),
    /// One element in every lane: a `V` by [`Elem::vector`].
    LoadSplat(Elem, Address),
    /// The value is an `S` by [`Elem::scalar`]. No result.
    StoreS(Elem, Address, Reg),
    /// `W` elements one behind the other, into a `V` by [`Elem::vector`]. Under a mask, lanes that are off are not
    /// touched and give 0.
    LoadV(Elem, Address, Option<Reg>),
    /// `W` elements one behind the other, from a `V` by [`Elem::vector`]; lanes that are off are not touched. No result.
    StoreV(Elem, Address, Reg, Option<Reg>),
    /// [`Op::StoreV`] of a `B32` or `B64` to an address that is a multiple of the vector's size, past the caches: nothing
    /// will read it soon. It is seen by others at the latest when the function has returned.
    StoreStream(Elem, Address, Reg),
    /// An element each lane: a `V` by [`Elem::vector`]. Lanes that are off are not touched and give 0.
    Gather(Elem, Indexed),
    /// An element each lane, from a `V` by [`Elem::vector`]. Lanes that are off are not touched. No result.
    Scatter(Elem, Indexed, Reg),
    /// A read-modify-write of a `B32` or `B64`: the address, the value; the old value results. Sequentially consistent if
    /// `shared`; else no other thread sees the element, and plain loads and stores do.
    Rmw {
        /// What it does.
        op: Rmw,
        /// `B32` or `B64`.
        elem: Elem,
        /// Where, aligned to the element's size.
        at: Address,
        /// An `S` by [`Elem::scalar`].
        value: Reg,
        /// Whether other threads may access the element at the same time.
        shared: bool,
    },
    /// A compare-exchange of a `B32` or `B64`: puts `value` if the element is `expected`; the old value results.
    CompareExchange {
        /// `B32` or `B64`.
        elem: Elem,
        /// Where, aligned to the element's size.
        at: Address,
        /// An `S` by [`Elem::scalar`].
        expected: Reg,
        /// An `S` by [`Elem::scalar`].
        value: Reg,
        /// Whether other threads may access the element at the same time.
        shared: bool,
    },
    /// `S32`: a word that another thread may change at any time, read anew (a relaxed atomic load).
    Poll(Address),
}

/// Where the lanes of a gather or scatter go: lane i to `base + zext(index[i]) * scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Indexed {
    /// An `S64`.
    pub base: Reg,
    /// A `V32`, read as unsigned.
    pub index: Reg,
    /// 1, 2, 4 or 8 bytes, independent of the element's size.
    pub scale: u8,
    /// Whether every index of a lane that is on is below 2^31, so that sign extension is as good as zero extension.
    pub small: bool,
    /// The lanes that are on; `None` for all.
    pub mask: Option<Reg>,
}

/// One step: its op, its result and the line of the program that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// What it assigns; `None` for stores.
    pub result: Option<Reg>,
    /// The site of the line it came from, for listings; `u32::MAX` for none.
    pub site: u32,
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// To a block, with one argument for each of its parameters.
    Jump(BlockId, SmallVec<[Reg; 4]>),
    /// On an `S32`: to `then` if it is not 0. On a `Mask`: to `then` if any lane is set.
    Branch {
        /// An `S32` or a `Mask`.
        cond: Reg,
        /// Where to go if it holds.
        then: BlockId,
        /// Where to go else.
        otherwise: BlockId,
    },
    /// The end of the function.
    Return,
}

/// A straight stretch of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What its predecessors pass.
    pub params: Vec<Reg>,
    /// What it does, in order.
    pub insts: Vec<Inst>,
    /// How it ends.
    pub term: Term,
    /// Whether it hardly ever runs: emitters may put it out of the way.
    pub cold: bool,
}

/// A function: what runs a range of workgroups on one thread.
///
/// The entry block takes four `S64`: the address of the launch's context, the address of this thread's scratch memory
/// ([`Function::scratch_bytes`], aligned to 64), the first workgroup, and the one behind the last. As a C function it is
/// `extern "C" fn(context: u64, scratch: u64, first: u64, end: u64)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// `W`: lanes of every vector register. It may be twice what a register has of 64-bit lanes. Then a `V64` has only the
    /// first half of the lanes, and so has what is converted from one: the same value in each, for ops on f64 alone and
    /// for conversions between f32 and f64.
    pub lanes: u32,
    /// The kind of every register.
    pub kinds: Vec<Kind>,
    /// The blocks; the first is the entry.
    pub blocks: Vec<Block>,
    /// Bytes of scratch memory that the code uses.
    pub scratch_bytes: u64,
}

impl Function {
    /// A register's kind.
    pub fn kind(&self, reg: Reg) -> Kind {
        self.kinds[reg.index()]
    }

    /// In how many loops each block is. A loop is what stands from its head to the last block that jumps back there.
    pub fn loop_depths(&self) -> Vec<u32> {
        let mut ends = vec![0; self.blocks.len()];
        for (at, block) in self.blocks.iter().enumerate() {
            if let Term::Jump(to, _) = &block.term
                && to.index() <= at
            {
                ends[to.index()] = ends[to.index()].max(at + 1);
            }
        }
        let mut open: Vec<usize> = Vec::new();
        let depth = |(at, end): (usize, &usize)| {
            open.retain(|end| *end > at);
            open.extend((*end > at).then_some(*end));
            open.len() as u32
        };
        ends.iter().enumerate().map(depth).collect()
    }
}

impl Op {
    /// Calls `f` with every register the op reads, in the order of its fields.
    #[inline]
    pub fn for_each_operand(&self, mut f: impl FnMut(Reg)) {
        // An op is a few words, and one walk serves both.
        let mut copy = *self;
        copy.for_each_operand_mut(|reg| f(*reg));
    }

    /// Calls `f` with every register the op reads, for change, in the order of its fields.
    #[inline]
    pub fn for_each_operand_mut(&mut self, mut f: impl FnMut(&mut Reg)) {
        fn address(at: &mut Address, f: &mut impl FnMut(&mut Reg)) {
            f(&mut at.base);
            at.index.iter_mut().for_each(|(index, _)| f(index));
        }
        fn indexed(at: &mut Indexed, f: &mut impl FnMut(&mut Reg)) {
            f(&mut at.base);
            f(&mut at.index);
            at.mask.iter_mut().for_each(f);
        }
        match self {
            Op::Const(_) | Op::LaneIndex => {}
            Op::Int(_, a, b)
            | Op::Shift(_, a, b)
            | Op::IntCmp(_, a, b)
            | Op::Float(_, _, a, b)
            | Op::FloatCmp(_, _, a, b)
            | Op::Mask(_, a, b)
            | Op::Permute(a, b) => {
                f(a);
                f(b);
            }
            Op::ShiftImm(_, a, _)
            | Op::Bit(_, a)
            | Op::FloatUn(_, _, a)
            | Op::Convert { value: a, .. }
            | Op::HalfToFloat(a)
            | Op::FloatToHalf(a)
            | Op::MaskNot(a)
            | Op::MaskFirst(a)
            | Op::MaskToBits(a)
            | Op::BitsToMask(a)
            | Op::Splat(a)
            | Op::Extract(a, _) => f(a),
            Op::Fma(_, a, b, c) | Op::Select(a, b, c) => {
                f(a);
                f(b);
                f(c);
            }
            Op::LoadS(_, at) | Op::LoadSplat(_, at) | Op::Poll(at) => address(at, &mut f),
            Op::StoreS(_, at, value) | Op::StoreStream(_, at, value) => {
                address(at, &mut f);
                f(value);
            }
            Op::LoadV(_, at, mask) => {
                address(at, &mut f);
                mask.iter_mut().for_each(f);
            }
            Op::StoreV(_, at, value, mask) => {
                address(at, &mut f);
                f(value);
                mask.iter_mut().for_each(f);
            }
            Op::Gather(_, at) => indexed(at, &mut f),
            Op::Scatter(_, at, value) => {
                indexed(at, &mut f);
                f(value);
            }
            Op::Rmw { at, value, .. } => {
                address(at, &mut f);
                f(value);
            }
            Op::CompareExchange { at, expected, value, .. } => {
                address(at, &mut f);
                f(expected);
                f(value);
            }
        }
    }

    /// Whether the op reads memory, so that its place among stores matters.
    pub const fn is_load(&self) -> bool {
        matches!(self, Op::LoadS(..) | Op::LoadSplat(..) | Op::LoadV(..) | Op::Gather(..))
    }

    /// Whether the op does nothing but give its result, so that it may go if nobody reads that.
    pub const fn is_pure(&self) -> bool {
        !matches!(
            self,
            Op::StoreS(..)
                | Op::StoreV(..)
                | Op::StoreStream(..)
                | Op::Scatter(..)
                | Op::Rmw { .. }
                | Op::CompareExchange { .. }
                | Op::Poll(_)
        )
    }
}

impl Term {
    /// Calls `f` with every block this may go to.
    pub fn for_each_target(&self, mut f: impl FnMut(BlockId)) {
        match self {
            Term::Jump(to, _) => f(*to),
            Term::Branch { then, otherwise, .. } => {
                f(*then);
                f(*otherwise);
            }
            Term::Return => {}
        }
    }

    /// Calls `f` with every register this reads.
    pub fn for_each_operand(&self, mut f: impl FnMut(Reg)) {
        match self {
            Term::Jump(_, args) => args.iter().for_each(|arg| f(*arg)),
            Term::Branch { cond, .. } => f(*cond),
            Term::Return => {}
        }
    }

    /// Calls `f` with every register this reads, for change.
    pub fn for_each_operand_mut(&mut self, mut f: impl FnMut(&mut Reg)) {
        match self {
            Term::Jump(_, args) => args.iter_mut().for_each(f),
            Term::Branch { cond, .. } => f(cond),
            Term::Return => {}
        }
    }
}
