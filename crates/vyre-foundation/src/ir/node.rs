//! The body of a program: a tree of blocks whose lines are nodes.
//!
//! One node is one line of text and one error location; textual order is evaluation order. Values are assigned once,
//! locals are mutable, and both are numbered per body: the main one and each function have their own.

use super::op::{
    AtomicOp, BuiltinOp, ComputeOp, ControlOp, Effect, OpId, ReadOp, SubgroupOp, SyncOp, WriteOp,
};
use super::types::DataType;
use super::{collective, control};
use smallvec::SmallVec;

/// A value assigned once, `%name` in text: an index into its body's value names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// A mutable local, `$name` in text: an index into its body's local names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Local(pub u32);

/// A buffer or constant table, `@name` in text: an index into the program's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A function, `@name` in text: an index into the program's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

impl Value {
    /// The value's place in tables indexed by value.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Local {
    /// The local's place in tables indexed by local.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl BufferId {
    /// The buffer's place in [`ProgramParts::buffers`](super::ProgramParts).
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl FunctionId {
    /// The function's place in [`ProgramParts::functions`](super::ProgramParts).
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A constant: a type and its bits, the unused upper ones zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Literal {
    ty: DataType,
    bits: u64,
}

impl Literal {
    /// The constant with those bits; bits beyond the type's width are dropped.
    pub const fn from_bits(ty: DataType, bits: u64) -> Literal {
        Literal { ty, bits: bits & ty.mask() }
    }

    /// A u32, the type of indices and counts.
    pub const fn u32(value: u32) -> Literal {
        Literal { ty: DataType::U32, bits: value as u64 }
    }

    /// A truth value.
    pub const fn bool(value: bool) -> Literal {
        Literal { ty: DataType::Bool, bits: value as u64 }
    }

    /// The constant's type.
    pub const fn ty(self) -> DataType {
        self.ty
    }

    /// The constant's bits.
    pub const fn bits(self) -> u64 {
        self.bits
    }
}

/// What an instruction reads: a value, or a constant written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A value of the same body.
    Value(Value),
    /// A constant.
    Literal(Literal),
}

impl Operand {
    /// The value, if it is one.
    pub const fn value(self) -> Option<Value> {
        match self {
            Operand::Value(value) => Some(value),
            Operand::Literal(_) => None,
        }
    }

    /// The constant, if it is one.
    pub const fn literal(self) -> Option<Literal> {
        match self {
            Operand::Value(_) => None,
            Operand::Literal(literal) => Some(literal),
        }
    }
}

impl From<Value> for Operand {
    fn from(value: Value) -> Operand {
        Operand::Value(value)
    }
}

impl From<Literal> for Operand {
    fn from(literal: Literal) -> Operand {
        Operand::Literal(literal)
    }
}

/// The operands of an op, without a heap allocation up to three.
pub type Args = SmallVec<[Operand; 3]>;

/// An axis of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Axis {
    /// The fastest one.
    X = 0,
    /// The middle one.
    Y = 1,
    /// The slowest one.
    Z = 2,
}

impl Axis {
    /// The axes in order.
    pub const ALL: [Axis; 3] = [Axis::X, Axis::Y, Axis::Z];

    /// The name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Axis::X => "x",
            Axis::Y => "y",
            Axis::Z => "z",
        }
    }

    /// The axis's place in `[x, y, z]`.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Which lanes a barrier orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryOrdering {
    /// The lanes of a logical subgroup.
    Subgroup,
    /// The lanes of a workgroup.
    Workgroup,
    /// All lanes of the grid.
    GridSync,
}

impl MemoryOrdering {
    /// The barrier's op.
    pub const fn op(self) -> SyncOp {
        match self {
            MemoryOrdering::Subgroup => SyncOp::SubgroupBarrier,
            MemoryOrdering::Workgroup => SyncOp::Barrier,
            MemoryOrdering::GridSync => SyncOp::GridBarrier,
        }
    }
}

/// How a collective folds the ranks' elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReduceOp {
    /// Sum.
    Add = 0,
    /// Product.
    Mul = 1,
    /// Minimum.
    Min = 2,
    /// Maximum.
    Max = 3,
    /// Bitwise and.
    And = 4,
    /// Bitwise or.
    Or = 5,
    /// Bitwise exclusive or.
    Xor = 6,
}

impl ReduceOp {
    /// Every fold, in wire-tag order.
    pub const ALL: [ReduceOp; 7] = [
        ReduceOp::Add,
        ReduceOp::Mul,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::And,
        ReduceOp::Or,
        ReduceOp::Xor,
    ];

    /// The two-operand op that folds.
    pub const fn op(self) -> ComputeOp {
        match self {
            ReduceOp::Add => ComputeOp::Add,
            ReduceOp::Mul => ComputeOp::Mul,
            ReduceOp::Min => ComputeOp::Min,
            ReduceOp::Max => ComputeOp::Max,
            ReduceOp::And => ComputeOp::And,
            ReduceOp::Or => ComputeOp::Or,
            ReduceOp::Xor => ComputeOp::Xor,
        }
    }

    /// The name in text.
    pub const fn name(self) -> &'static str {
        self.op().info().name
    }
}

/// An element of a buffer where a tile starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// The buffer.
    pub buffer: BufferId,
    /// The tile's first element.
    pub offset: Operand,
}

/// The lines between two braces.
pub type Block = Vec<Node>;

/// One line of a body. The op table says what each means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The line shown at each variant names its fields.
pub enum Node {
    /// `%r = add.f32 %a, %b`
    Compute { result: Value, op: ComputeOp, ty: DataType, args: Args },
    /// `%r = global_id x`, `%r = local_index`
    Builtin { result: Value, op: BuiltinOp, axis: Option<Axis> },
    /// `%r = subgroup_reduce_add.f32 %v`; `ty` is the result's type for ops without a suffix.
    Subgroup { result: Value, op: SubgroupOp, ty: DataType, args: Args },
    /// `%r = load.f32 @b[%i]`
    Load { result: Value, ty: DataType, buffer: BufferId, index: Operand },
    /// `%r = uniform_load.f32 @w[%i]`
    UniformLoad { result: Value, ty: DataType, buffer: BufferId, index: Operand },
    /// `store.f32 @b[%i], %v`
    Store { ty: DataType, buffer: BufferId, index: Operand, value: Operand },
    /// `%r = len @b`
    Len { result: Value, buffer: BufferId },
    /// `%old = atomic_add.u32 @b[%i], %v`; `args` is the value, or what is expected and the value.
    Atomic { result: Option<Value>, op: AtomicOp, ty: DataType, buffer: BufferId, index: Operand, args: Args },
    /// `var $v : f32 = %init`, or with a length a private array
    Var { local: Local, ty: DataType, len: Option<u32>, init: Operand },
    /// `%r = get.f32 $v`, `%r = get.f32 $a[%i]`
    Get { result: Value, ty: DataType, local: Local, index: Option<Operand> },
    /// `set.f32 $v, %x`, `set.f32 $a[%i], %x`
    Set { ty: DataType, local: Local, index: Option<Operand>, value: Operand },
    /// `mma.i32.i8 m, n, k, @c[0], @a[0], @b[0]`
    Mma { m: u32, n: u32, k: u32, c: Tile, a: Tile, b: Tile },
    /// `if %c { ... } else { ... }`; an empty `otherwise` is no `else`.
    If { cond: Operand, then: Block, otherwise: Block },
    /// `for %i in lo..hi step s { ... }`
    For { counter: Value, lo: Operand, hi: Operand, step: u32, body: Block },
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `%r = call @f(%a)`
    Call { result: Option<Value>, function: FunctionId, args: Vec<Operand> },
    /// `return %r`
    Return { value: Option<Operand> },
    /// `barrier`, `subgroup_barrier`, `grid_barrier`
    Barrier { ordering: MemoryOrdering },
    /// `indirect @args[0]`
    IndirectDispatch { buffer: BufferId, offset: u32 },
    /// `all_reduce.f32 add, @dst, @src`
    AllReduce { op: ReduceOp, ty: DataType, dst: BufferId, src: BufferId },
    /// `all_gather.f32 @dst, @src`
    AllGather { ty: DataType, dst: BufferId, src: BufferId },
    /// `reduce_scatter.f32 add, @dst, @src`
    ReduceScatter { op: ReduceOp, ty: DataType, dst: BufferId, src: BufferId },
    /// `broadcast.f32 @dst, @src, 0`
    Broadcast { ty: DataType, dst: BufferId, src: BufferId, root: u32 },
    /// `trap 7`
    Trap { code: u32 },
}

impl Node {
    /// The op of the table that this line is.
    pub const fn op(&self) -> OpId {
        match self {
            Node::Compute { op, .. } => OpId::ComputeOp(*op),
            Node::Builtin { op, .. } => OpId::BuiltinOp(*op),
            Node::Subgroup { op, .. } => OpId::SubgroupOp(*op),
            Node::Load { .. } => OpId::ReadOp(ReadOp::Load),
            Node::UniformLoad { .. } => OpId::SyncOp(SyncOp::UniformLoad),
            Node::Store { .. } => OpId::WriteOp(WriteOp::Store),
            Node::Len { .. } => OpId::ReadOp(ReadOp::Len),
            Node::Atomic { op, .. } => OpId::AtomicOp(*op),
            Node::Var { .. } => OpId::WriteOp(WriteOp::Var),
            Node::Get { .. } => OpId::ReadOp(ReadOp::Get),
            Node::Set { .. } => OpId::WriteOp(WriteOp::Set),
            Node::Mma { .. } => OpId::SyncOp(SyncOp::Mma),
            Node::If { .. } => OpId::ControlOp(ControlOp::If),
            Node::For { .. } => OpId::ControlOp(ControlOp::For),
            Node::Break => OpId::ControlOp(ControlOp::Break),
            Node::Continue => OpId::ControlOp(ControlOp::Continue),
            Node::Call { .. } => OpId::ControlOp(ControlOp::Call),
            Node::Return { .. } => OpId::ControlOp(ControlOp::Return),
            Node::Barrier { ordering } => OpId::SyncOp(ordering.op()),
            Node::IndirectDispatch { .. } => OpId::ControlOp(ControlOp::IndirectDispatch),
            Node::AllReduce { .. } => OpId::SyncOp(SyncOp::AllReduce),
            Node::AllGather { .. } => OpId::SyncOp(SyncOp::AllGather),
            Node::ReduceScatter { .. } => OpId::SyncOp(SyncOp::ReduceScatter),
            Node::Broadcast { .. } => OpId::SyncOp(SyncOp::Broadcast),
            Node::Trap { .. } => OpId::WriteOp(WriteOp::Trap),
        }
    }

    /// What the line does besides giving its result.
    #[inline]
    pub const fn effect(&self) -> Effect {
        self.op().info().effect
    }

    /// The lanes that take part in the line together; `None` where each is by itself.
    #[inline]
    pub const fn together(&self) -> Option<MemoryOrdering> {
        self.op().info().together
    }

    /// The value this line assigns. A loop's counter is assigned for its block, not for the lines after it.
    pub fn result(&self) -> Option<Value> {
        self.result_ref().copied()
    }

    /// The type of the value this line assigns; `None` for none, and for calls, whose type the callee declares.
    pub fn result_type(&self) -> Option<DataType> {
        match self {
            Node::Compute { op, ty, .. } => op.info().result.under(*ty),
            Node::Subgroup { op, ty, .. } => op.info().result.under(*ty),
            Node::Load { ty, .. } | Node::UniformLoad { ty, .. } => Some(ty.computes_as()),
            Node::Get { ty, .. } => Some(*ty),
            Node::Atomic { result, ty, .. } => result.map(|_| *ty),
            Node::Builtin { .. } | Node::Len { .. } | Node::For { .. } => Some(DataType::U32),
            Node::Call { .. }
            | Node::Store { .. }
            | Node::Var { .. }
            | Node::Set { .. }
            | Node::Mma { .. }
            | Node::If { .. }
            | Node::Break
            | Node::Continue
            | Node::Return { .. }
            | Node::Barrier { .. }
            | Node::IndirectDispatch { .. }
            | Node::Trap { .. }
            | collective!() => None,
        }
    }

    /// Calls `f` with every operand of this line, in textual order; not those of nested blocks.
    pub fn for_each_operand(&self, mut f: impl FnMut(Operand)) {
        self.for_each_operand_ref(|operand| f(*operand));
    }

    /// The local this line declares, reads or assigns.
    pub fn local(&self) -> Option<Local> {
        self.local_ref().copied()
    }

    /// The buffer this line names, the first of several: the one that it writes, if it writes any.
    pub fn buffer(&self) -> Option<BufferId> {
        let mut first = None;
        self.for_each_buffer(|buffer| first = first.or(Some(buffer)));
        first
    }

    /// The buffer whose elements this line may change.
    pub fn written(&self) -> Option<BufferId> {
        let writes = matches!(self.effect(), Effect::Writes | Effect::OrdersAndWrites);
        if writes { self.buffer() } else { None }
    }

    /// Calls `f` with every buffer this line names, in textual order.
    pub fn for_each_buffer(&self, mut f: impl FnMut(BufferId)) {
        self.for_each_buffer_ref(|buffer| f(*buffer));
    }
}

/// What lines consist of, to look at and to change.
macro_rules! accessors {
    ($vis:vis, [$($mut:tt)?], $iter:ident, $as_option:ident, $result:ident, $local:ident, $operands:ident, $buffers:ident, $blocks:ident) => {
        impl Node {
            /// The assigned value.
            $vis fn $result(&$($mut)? self) -> Option<&$($mut)? Value> {
                match self {
                    Node::Compute { result, .. }
                    | Node::Builtin { result, .. }
                    | Node::Subgroup { result, .. }
                    | Node::Load { result, .. }
                    | Node::UniformLoad { result, .. }
                    | Node::Len { result, .. }
                    | Node::Get { result, .. } => Some(result),
                    Node::For { counter, .. } => Some(counter),
                    Node::Atomic { result, .. } | Node::Call { result, .. } => result.$as_option(),
                    Node::Store { .. } | Node::Var { .. } | Node::Set { .. } | Node::Mma { .. } | Node::If { .. } => None,
                    Node::Break | Node::Continue | Node::Return { .. } | Node::Barrier { .. } => None,
                    Node::IndirectDispatch { .. } | Node::Trap { .. } | collective!() => None,
                }
            }

            /// The local that is declared, read or assigned.
            $vis fn $local(&$($mut)? self) -> Option<&$($mut)? Local> {
                match self {
                    Node::Var { local, .. } | Node::Get { local, .. } | Node::Set { local, .. } => Some(local),
                    Node::Compute { .. } | Node::Builtin { .. } | Node::Subgroup { .. } | Node::Load { .. } => None,
                    Node::UniformLoad { .. } | Node::Store { .. } | Node::Len { .. } | Node::Atomic { .. } => None,
                    Node::Mma { .. } | Node::Barrier { .. } | Node::IndirectDispatch { .. } | Node::Trap { .. } => None,
                    control!() | collective!() => None,
                }
            }

            /// Calls `f` with every operand of this line, in textual order; not those of nested blocks.
            $vis fn $operands(&$($mut)? self, mut f: impl FnMut(&$($mut)? Operand)) {
                match self {
                    Node::Compute { args, .. } | Node::Subgroup { args, .. } => args.$iter().for_each(f),
                    Node::Load { index, .. } | Node::UniformLoad { index, .. } => f(index),
                    Node::Store { index, value, .. } => {
                        f(index);
                        f(value);
                    }
                    Node::Atomic { index, args, .. } => {
                        f(index);
                        args.$iter().for_each(f);
                    }
                    Node::Var { init, .. } => f(init),
                    Node::Get { index, .. } => index.$iter().for_each(f),
                    Node::Set { index, value, .. } => {
                        index.$iter().for_each(&mut f);
                        f(value);
                    }
                    Node::Mma { c, a, b, .. } => [c, a, b].into_iter().for_each(|tile| f(&$($mut)? tile.offset)),
                    Node::If { cond, .. } => f(cond),
                    Node::For { lo, hi, .. } => {
                        f(lo);
                        f(hi);
                    }
                    Node::Call { args, .. } => args.$iter().for_each(f),
                    Node::Return { value } => value.$iter().for_each(f),
                    Node::Builtin { .. } | Node::Len { .. } | Node::Break | Node::Continue | Node::Barrier { .. } => {}
                    Node::IndirectDispatch { .. } | Node::Trap { .. } | collective!() => {}
                }
            }

            /// Calls `f` with every buffer this line names, in textual order.
            $vis fn $buffers(&$($mut)? self, mut f: impl FnMut(&$($mut)? BufferId)) {
                match self {
                    Node::Load { buffer, .. }
                    | Node::UniformLoad { buffer, .. }
                    | Node::Store { buffer, .. }
                    | Node::Len { buffer, .. }
                    | Node::Atomic { buffer, .. }
                    | Node::IndirectDispatch { buffer, .. } => f(buffer),
                    Node::Mma { c, a, b, .. } => [c, a, b].into_iter().for_each(|tile| f(&$($mut)? tile.buffer)),
                    Node::AllReduce { dst, src, .. }
                    | Node::AllGather { dst, src, .. }
                    | Node::ReduceScatter { dst, src, .. }
                    | Node::Broadcast { dst, src, .. } => {
                        f(dst);
                        f(src);
                    }
                    Node::Compute { .. } | Node::Builtin { .. } | Node::Subgroup { .. } | Node::Var { .. } => {}
                    Node::Get { .. } | Node::Set { .. } | Node::Barrier { .. } | Node::Trap { .. } | control!() => {}
                }
            }

            /// The blocks nested in this line, in textual order.
            #[inline]
            pub fn $blocks(&$($mut)? self) -> impl Iterator<Item = &$($mut)? Block> {
                let (first, second) = match self {
                    Node::If { then, otherwise, .. } => (Some(then), Some(otherwise)),
                    Node::For { body, .. } => (Some(body), None),
                    _ => (None, None),
                };
                first.into_iter().chain(second)
            }
        }
    };
}

accessors!(, [], iter, as_ref, result_ref, local_ref, for_each_operand_ref, for_each_buffer_ref, blocks);
accessors!(pub, [mut], iter_mut, as_mut, result_mut, local_mut, for_each_operand_mut, for_each_buffer_mut, blocks_mut);
