//! The body of a program: a tree of blocks whose lines are nodes.
//!
//! One node is one line of text and one error location; textual order is evaluation order. Values are assigned once,
//! locals are mutable, and both are numbered per body: the main one and each function have their own.

use super::field::Field;
use super::op::{
    AtomicOp, BuiltinOp, ComputeOp, ControlOp, Effect, OpId, ReadOp, SubgroupOp, SyncOp, WriteOp,
};
use super::types::DataType;
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

impl From<SyncOp> for MemoryOrdering {
    fn from(op: SyncOp) -> MemoryOrdering {
        op.info().together.unwrap_or(MemoryOrdering::Workgroup)
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

/// The table of lines, which `lines!(reader)` hands to the macro `reader`.
///
/// A row is a line's name, its op, and its fields in the order in which the wire form has them. Where a line is a group of ops,
/// the field in brackets says which. Where that field is no group of the table, `from` is the pattern that finds it again. What
/// a field is to the line follows from its type: see [`Field`].
macro_rules! lines {
    ($reader:ident) => {
        $reader! {
            /// `%r = add.f32 %a, %b`
            Compute [OpId::ComputeOp(op)] { [op: ComputeOp] ty: DataType, result: Value, args: Args };
            /// `%r = global_id x`, `%r = local_index`
            Builtin [OpId::BuiltinOp(op)] { [op: BuiltinOp] result: Value, axis: Option<Axis> };
            /// `%r = subgroup_reduce_add.f32 %v`; `ty` is the result's type for ops without a suffix.
            Subgroup [OpId::SubgroupOp(op)] { [op: SubgroupOp] ty: DataType, result: Value, args: Args };
            /// `%r = load.f32 @b[%i]`
            Load [OpId::ReadOp(ReadOp::Load)] {
                ty: DataType, result: Value, buffer: BufferId, index: Operand
            };
            /// `%r = uniform_load.f32 @w[%i]`
            UniformLoad [OpId::SyncOp(SyncOp::UniformLoad)] {
                ty: DataType, result: Value, buffer: BufferId, index: Operand
            };
            /// `store.f32 @b[%i], %v`
            Store [OpId::WriteOp(WriteOp::Store)] {
                ty: DataType, buffer: BufferId, index: Operand, value: Operand
            };
            /// `%r = len @b`
            Len [OpId::ReadOp(ReadOp::Len)] { result: Value, buffer: BufferId };
            /// `%old = atomic_add.u32 @b[%i], %v`; `args` is the value, or what is expected and the value.
            Atomic [OpId::AtomicOp(op)] {
                [op: AtomicOp] ty: DataType, result: Option<Value>, buffer: BufferId, index: Operand, args: Args
            };
            /// `var $v : f32 = %init`, or with a length a private array
            Var [OpId::WriteOp(WriteOp::Var)] {
                ty: DataType, local: Local, len: Option<u32>, init: Operand
            };
            /// `%r = get.f32 $v`, `%r = get.f32 $a[%i]`
            Get [OpId::ReadOp(ReadOp::Get)] {
                ty: DataType, result: Value, local: Local, index: Option<Operand>
            };
            /// `set.f32 $v, %x`, `set.f32 $a[%i], %x`
            Set [OpId::WriteOp(WriteOp::Set)] {
                ty: DataType, local: Local, index: Option<Operand>, value: Operand
            };
            /// `mma.i32.i8 m, n, k, @c[0], @a[0], @b[0]`
            Mma [OpId::SyncOp(SyncOp::Mma)] { m: u32, n: u32, k: u32, c: Tile, a: Tile, b: Tile };
            /// `if %c { ... } else { ... }`; an empty `otherwise` is no `else`.
            If [OpId::ControlOp(ControlOp::If)] { cond: Operand, then: Block, otherwise: Block };
            /// `for %i in lo..hi step s { ... }`
            For [OpId::ControlOp(ControlOp::For)] {
                counter: Value, lo: Operand, hi: Operand, step: u32, body: Block
            };
            /// `break`
            Break [OpId::ControlOp(ControlOp::Break)];
            /// `continue`
            Continue [OpId::ControlOp(ControlOp::Continue)];
            /// `%r = call @f(%a)`
            Call [OpId::ControlOp(ControlOp::Call)] {
                result: Option<Value>, function: FunctionId, args: Vec<Operand>
            };
            /// `return %r`
            Return [OpId::ControlOp(ControlOp::Return)] { value: Option<Operand> };
            /// `barrier`, `subgroup_barrier`, `grid_barrier`
            Barrier [OpId::SyncOp(ordering.op())]
                from [OpId::SyncOp(ordering @ (SyncOp::Barrier | SyncOp::SubgroupBarrier | SyncOp::GridBarrier))]
                { [ordering: MemoryOrdering] };
            /// `indirect @args[0]`
            IndirectDispatch [OpId::ControlOp(ControlOp::IndirectDispatch)] { buffer: BufferId, offset: u32 };
            /// `all_reduce.f32 add, @dst, @src`
            AllReduce [OpId::SyncOp(SyncOp::AllReduce)] {
                ty: DataType, op: ReduceOp, dst: BufferId, src: BufferId
            };
            /// `all_gather.f32 @dst, @src`
            AllGather [OpId::SyncOp(SyncOp::AllGather)] { ty: DataType, dst: BufferId, src: BufferId };
            /// `reduce_scatter.f32 add, @dst, @src`
            ReduceScatter [OpId::SyncOp(SyncOp::ReduceScatter)] {
                ty: DataType, op: ReduceOp, dst: BufferId, src: BufferId
            };
            /// `broadcast.f32 @dst, @src, 0`
            Broadcast [OpId::SyncOp(SyncOp::Broadcast)] {
                ty: DataType, dst: BufferId, src: BufferId, root: u32
            };
            /// `trap 7`
            Trap [OpId::WriteOp(WriteOp::Trap)] { code: u32 };
        }
    };
}

macro_rules! declare {
    ($(
        $(#[$doc:meta])* $line:ident [$($id:tt)*] $(from [$($from:tt)*])?
        $({ $([$op:ident : $group:ty])? $($field:ident : $ty:ty),* })?;
    )*) => {
        /// One line of a body. The op table says what each means.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // The line shown at each variant names its fields.
        pub enum Node {
            $( $(#[$doc])* $line $({ $($op: $group,)? $($field: $ty,)* })?, )*
        }

        impl Node {
            /// The op of the table that this line is.
            #[inline]
            pub const fn op(&self) -> OpId {
                match *self {
                    $( Node::$line $({ $($op,)? .. })? => $($id)*, )*
                }
            }

            /// The value this line assigns. A loop's counter is assigned for its block, not for the lines after it.
            #[inline]
            pub fn result(&self) -> Option<Value> {
                match self {
                    $( Node::$line $({ $($field,)* .. })? => None$($(.or($field.result()))*)?, )*
                }
            }

            /// The assigned value.
            #[inline]
            pub fn result_mut(&mut self) -> Option<&mut Value> {
                match self {
                    $( Node::$line $({ $($field,)* .. })? => None$($(.or($field.result_mut()))*)?, )*
                }
            }

            /// The local this line declares, reads or assigns.
            #[inline]
            pub fn local(&self) -> Option<Local> {
                match self {
                    $( Node::$line $({ $($field,)* .. })? => None$($(.or($field.local()))*)?, )*
                }
            }

            /// The local that is declared, read or assigned.
            #[inline]
            pub fn local_mut(&mut self) -> Option<&mut Local> {
                match self {
                    $( Node::$line $({ $($field,)* .. })? => None$($(.or($field.local_mut()))*)?, )*
                }
            }

            #[inline]
            fn ty(&self) -> Option<DataType> {
                match self {
                    $( Node::$line $({ $($field,)* .. })? => None$($(.or($field.ty()))*)?, )*
                }
            }

            /// Calls `f` with every operand of this line, in textual order; not those of nested blocks.
            #[inline]
            pub fn for_each_operand(&self, mut f: impl FnMut(Operand)) {
                match self {
                    $( Node::$line $({ $($field,)* .. })? => { $($($field.operands(&mut f);)*)? } )*
                }
            }

            /// Calls `f` with every operand of this line, in textual order; not those of nested blocks.
            #[inline]
            pub fn for_each_operand_mut(&mut self, mut f: impl FnMut(&mut Operand)) {
                match self {
                    $( Node::$line $({ $($field,)* .. })? => { $($($field.operands_mut(&mut f);)*)? } )*
                }
            }

            /// Calls `f` with every buffer this line names, in textual order.
            #[inline]
            pub fn for_each_buffer(&self, mut f: impl FnMut(BufferId)) {
                match self {
                    $( Node::$line $({ $($field,)* .. })? => { $($($field.buffers(&mut f);)*)? } )*
                }
            }

            /// Calls `f` with every buffer this line names, in textual order.
            #[inline]
            pub fn for_each_buffer_mut(&mut self, mut f: impl FnMut(&mut BufferId)) {
                match self {
                    $( Node::$line $({ $($field,)* .. })? => { $($($field.buffers_mut(&mut f);)*)? } )*
                }
            }
        }
    };
}

lines!(declare);
pub(crate) use lines;

impl Node {
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

    /// The type suffix of the line's op, or the type that a `var` declares; `None` where the op takes none.
    #[inline]
    pub fn suffix(&self) -> Option<DataType> {
        if self.op().info().types.is_empty() { None } else { self.ty() }
    }

    /// The type of the value this line assigns; `None` for none, and for calls, whose type the callee declares.
    #[inline]
    pub fn result_type(&self) -> Option<DataType> {
        match self {
            Node::Call { .. } => None,
            Node::For { .. } => Some(DataType::U32),
            // Without a suffix the result does not depend on it.
            other => {
                let ty = other.ty().unwrap_or(DataType::U32);
                other.result().and_then(|_| other.op().info().result.under(ty))
            }
        }
    }

    /// The index of the private array's element that this line reads or assigns.
    pub const fn local_index(&self) -> Option<Operand> {
        match self {
            Node::Get { index, .. } | Node::Set { index, .. } => *index,
            _ => None,
        }
    }

    /// Calls `f` with every element this line reads or writes, a buffer and its index, in textual order.
    #[inline]
    pub fn for_each_element(&self, mut f: impl FnMut(BufferId, Operand)) {
        // Indices are the first operands, in the order of their buffers. Who names a buffer as a whole has no operands.
        let mut indices = SmallVec::<[Operand; 4]>::new();
        self.for_each_operand(|operand| indices.push(operand));
        let mut indices = indices.into_iter();
        self.for_each_buffer(|buffer| {
            if let Some(index) = indices.next() {
                f(buffer, index);
            }
        });
    }

    /// The buffer this line names, the first of several: the one that it writes, if it writes any.
    #[inline]
    pub fn buffer(&self) -> Option<BufferId> {
        let mut first = None;
        self.for_each_buffer(|buffer| first = first.or(Some(buffer)));
        first
    }

    /// The buffer whose elements this line may change.
    #[inline]
    pub fn written(&self) -> Option<BufferId> {
        let writes = matches!(self.effect(), Effect::Writes | Effect::OrdersAndWrites);
        if writes { self.buffer() } else { None }
    }

    /// The blocks nested in this line, in textual order.
    #[inline]
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        let (first, second) = match self {
            Node::If { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Node::For { body, .. } => (Some(body), None),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The blocks nested in this line, in textual order.
    #[inline]
    pub fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Block> {
        let (first, second) = match self {
            Node::If { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Node::For { body, .. } => (Some(body), None),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }
}
