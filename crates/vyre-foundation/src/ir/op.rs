//! The op table: every op is declared once, here.
//!
//! A row gives an op's name, wire tag, the type suffixes it takes, its operands, its result, its effect, the lanes that
//! take part together, and a doc line. Enum, printer, parser, wire form, validator, passes, builder and the reference
//! page all read this table, so a new op is a new row plus its meaning in `scalar` (for computing ops) or in the
//! reference interpreter, and an arm in each emitter. What subgroup ops and atomics fold is stated here too.
//!
//! Tags are part of the wire format: they are never changed or reused.

use super::node::{MemoryOrdering, ReduceOp};
use super::types::{DataType, TypeSet};

/// What an operand of an op must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgType {
    /// The type of the op's suffix.
    Same,
    /// u32, whatever the suffix.
    U32,
    /// bool, whatever the suffix.
    Bool,
    /// Any type that computes; the op says which pairs it accepts.
    Any,
}

impl ArgType {
    /// The type an operand must have under suffix `ty`; `None` if that depends on the operand itself.
    pub const fn under(self, ty: DataType) -> Option<DataType> {
        match self {
            ArgType::Same => Some(ty.computes_as()),
            ArgType::U32 => Some(DataType::U32),
            ArgType::Bool => Some(DataType::Bool),
            ArgType::Any => None,
        }
    }
}

/// What an op gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// Nothing.
    None,
    /// The type of the op's suffix, widened if it is a storage type.
    Same,
    /// u32.
    U32,
    /// bool.
    Bool,
}

impl ResultType {
    /// The type of the result under suffix `ty`.
    pub const fn under(self, ty: DataType) -> Option<DataType> {
        match self {
            ResultType::None => None,
            ResultType::Same => Some(ty.computes_as()),
            ResultType::U32 => Some(DataType::U32),
            ResultType::Bool => Some(DataType::Bool),
        }
    }
}

/// What an op does besides giving its result. What a line names is among its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: equal operands give equal results, and an unused result can be deleted.
    Pure,
    /// Reads the buffer it names.
    Reads,
    /// Writes the buffer it names.
    Writes,
    /// Reads a local.
    Gets,
    /// Declares or assigns a local.
    Sets,
    /// Exchanges values among the lanes of a logical subgroup, and orders no memory.
    Exchanges,
    /// Orders memory among the lanes that take part.
    Orders,
    /// Orders memory, and writes the first buffer it names in between.
    OrdersAndWrites,
    /// Directs control flow within its body.
    Controls,
    /// Enters a function or leaves one.
    Calls,
    /// Says how the program is launched.
    Launches,
    /// Records a code that the host reports.
    Traps,
}

/// How a fold runs over the lanes of a logical subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// All lanes, and each gets the result.
    Reduce,
    /// The lanes up to this one.
    Inclusive,
    /// The lanes below this one.
    Exclusive,
}

/// What the lanes of a logical subgroup do with each other's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The lanes whose operand is true, as bits.
    Ballot,
    /// Whether some lane's operand is true.
    Any,
    /// Whether every lane's operand is true.
    All,
    /// The value of the lane that the second operand names.
    Take,
    /// The lanes with this lane's value, as bits.
    Match,
    /// A fold of values.
    Fold(Sweep, ReduceOp),
}

/// One row of the op table.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// The name in text, without its suffix.
    pub name: &'static str,
    /// The byte on the wire; unique over all ops.
    pub tag: u8,
    /// The type suffixes it takes; empty if it takes none.
    pub types: TypeSet,
    /// Its value operands in order.
    pub args: &'static [ArgType],
    /// Its result.
    pub result: ResultType,
    /// What it does besides.
    pub effect: Effect,
    /// The lanes that take part together; `None` where each lane is by itself.
    pub together: Option<MemoryOrdering>,
    /// How a line with it looks; `T` stands for a type suffix.
    pub syntax: &'static str,
    /// What it means, in a sentence or two.
    pub doc: &'static str,
}

/// The effect of a row: its own, or else its group's.
macro_rules! effect {
    ($effect:ident $($group:ident)?) => {
        Effect::$effect
    };
}

/// The lanes that take part: those of the row, or else those of its group.
macro_rules! lanes {
    (Each $($group:ident)?) => {
        None
    };
    ($lanes:ident $($group:ident)?) => {
        Some(MemoryOrdering::$lanes)
    };
}

macro_rules! ops {
    ($( $(#[$meta:meta])* $group:ident : $effects:ident by $takers:ident {
        $( $variant:ident = $tag:literal $name:literal $types:ident ($($arg:ident),*) -> $result:ident
           $(: $effect:ident by $taker:ident)?, $syntax:literal, $doc:literal; )*
    } )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
            #[repr(u8)]
            pub enum $group { $( #[doc = $doc] $variant = $tag, )* }

            impl $group {
                /// Every op of the group, in table order.
                pub const ALL: &'static [$group] = &[$( $group::$variant, )*];

                /// The op's row of the table.
                #[inline]
                pub const fn info(self) -> &'static OpInfo {
                    match self {
                        $( $group::$variant => {
                            const ROW: OpInfo = OpInfo {
                                name: $name,
                                tag: $tag,
                                types: TypeSet::$types,
                                args: &[$( ArgType::$arg ),*],
                                result: ResultType::$result,
                                effect: effect!($($effect)? $effects),
                                together: lanes!($($taker)? $takers),
                                syntax: $syntax,
                                doc: $doc,
                            };
                            &ROW
                        } )*
                    }
                }
            }
        )*

        /// The name of any op, whichever group it belongs to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum OpId { $( $(#[$meta])* $group($group), )* }

        impl OpId {
            /// The op's row of the table.
            #[inline]
            pub const fn info(self) -> &'static OpInfo {
                match self { $( OpId::$group(op) => op.info(), )* }
            }

            /// Every op, in table order.
            pub fn all() -> impl Iterator<Item = OpId> {
                std::iter::empty() $( .chain($group::ALL.iter().map(|op| OpId::$group(*op))) )*
            }

            /// The op with that wire tag.
            pub const fn from_tag(tag: u8) -> Option<OpId> {
                match tag { $( $( $tag => Some(OpId::$group($group::$variant)), )* )* _ => None }
            }

            /// The op with that name in text.
            pub fn from_name(name: &str) -> Option<OpId> {
                match name { $( $( $name => Some(OpId::$group($group::$variant)), )* )* _ => None }
            }
        }
    };
}

impl OpId {
    /// Whether all lanes of the grid take part: a grid barrier or a collective.
    pub const fn is_grid_wide(self) -> bool {
        matches!(self.info().together, Some(MemoryOrdering::GridSync))
    }
}

ops! {
    /// Ops on a lane's own values: no memory, no other lane.
    ComputeOp: Pure by Each {
        Add = 0x01 "add" NUM (Same, Same) -> Same, "%r = add.T %a, %b",
            "Sum. Integers wrap; floats round once, ties to even.";
        Sub = 0x02 "sub" NUM (Same, Same) -> Same, "%r = sub.T %a, %b",
            "Difference. Integers wrap.";
        Mul = 0x03 "mul" NUM (Same, Same) -> Same, "%r = mul.T %a, %b",
            "Product. Integers keep the low bits.";
        Div = 0x04 "div" NUM (Same, Same) -> Same, "%r = div.T %a, %b",
            "Quotient. Integers truncate toward zero, `x / 0 = x` and `MIN / -1 = MIN`; floats are IEEE division.";
        Rem = 0x05 "rem" NUM (Same, Same) -> Same, "%r = rem.T %a, %b",
            "Remainder with the dividend's sign. Integers: `x % 0 = 0`, `MIN % -1 = 0`; floats: exact fmod.";
        Neg = 0x06 "neg" SIGNED (Same) -> Same, "%r = neg.T %a",
            "Negation. `neg(MIN) = MIN`; floats flip the sign bit.";
        Abs = 0x07 "abs" SIGNED (Same) -> Same, "%r = abs.T %a",
            "Magnitude. `abs(MIN) = MIN`; floats clear the sign bit.";
        Min = 0x08 "min" NUM (Same, Same) -> Same, "%r = min.T %a, %b",
            "The lesser. Floats prefer a number over NaN and order -0 below +0.";
        Max = 0x09 "max" NUM (Same, Same) -> Same, "%r = max.T %a, %b",
            "The greater. Floats prefer a number over NaN and order -0 below +0.";
        Clamp = 0x0a "clamp" NUM (Same, Same, Same) -> Same, "%r = clamp.T %x, %lo, %hi",
            "`min(max(x, lo), hi)`, also where `lo > hi`.";
        MulHi = 0x0b "mul_hi" INT (Same, Same) -> Same, "%r = mul_hi.T %a, %b",
            "The upper half of the double-width product.";
        AddSat = 0x0c "add_sat" INT (Same, Same) -> Same, "%r = add_sat.T %a, %b",
            "Sum, held at the type's limits.";
        SubSat = 0x0d "sub_sat" INT (Same, Same) -> Same, "%r = sub_sat.T %a, %b",
            "Difference, held at the type's limits.";
        And = 0x10 "and" LOGIC (Same, Same) -> Same, "%r = and.T %a, %b", "Bitwise and.";
        Or = 0x11 "or" LOGIC (Same, Same) -> Same, "%r = or.T %a, %b", "Bitwise or.";
        Xor = 0x12 "xor" LOGIC (Same, Same) -> Same, "%r = xor.T %a, %b", "Bitwise exclusive or.";
        Not = 0x13 "not" LOGIC (Same) -> Same, "%r = not.T %a", "Bitwise complement.";
        Shl = 0x14 "shl" INT (Same, U32) -> Same, "%r = shl.T %a, %n",
            "Left shift by `n` modulo the width.";
        Shr = 0x15 "shr" INT (Same, U32) -> Same, "%r = shr.T %a, %n",
            "Right shift by `n` modulo the width; signed types copy the sign bit in.";
        Rotl = 0x16 "rotl" INT (Same, U32) -> Same, "%r = rotl.T %a, %n",
            "Left rotation by `n` modulo the width.";
        Rotr = 0x17 "rotr" INT (Same, U32) -> Same, "%r = rotr.T %a, %n",
            "Right rotation by `n` modulo the width.";
        Popcount = 0x18 "popcount" INT (Same) -> Same, "%r = popcount.T %a", "The number of one bits.";
        Clz = 0x19 "clz" INT (Same) -> Same, "%r = clz.T %a",
            "The number of zero bits above the highest one; the width for 0.";
        Ctz = 0x1a "ctz" INT (Same) -> Same, "%r = ctz.T %a",
            "The number of zero bits below the lowest one; the width for 0.";
        ReverseBits = 0x1b "reverse_bits" INT (Same) -> Same, "%r = reverse_bits.T %a",
            "The bits in opposite order.";
        Extract = 0x1c "extract" INT (Same, U32, U32) -> Same, "%r = extract.T %x, %offset, %count",
            "`count` bits of `x` from `offset` up, sign-extended for signed types; offset, then count, clamp to the width.";
        Insert = 0x1d "insert" INT (Same, Same, U32, U32) -> Same, "%r = insert.T %x, %bits, %offset, %count",
            "`x` with `count` bits from `offset` up replaced by the low bits of `bits`; offset, then count, clamp to the width.";
        Dot4 = 0x1e "dot4" INT32 (U32, U32, Same) -> Same, "%r = dot4.T %a, %b, %acc",
            "`acc` plus the dot product of the four bytes of the u32 words `a` and `b`, read as T's signedness says; wraps.";
        Eq = 0x20 "eq" ANY (Same, Same) -> Bool, "%r = eq.T %a, %b", "Equal. False if either is NaN.";
        Ne = 0x21 "ne" ANY (Same, Same) -> Bool, "%r = ne.T %a, %b", "Not equal. True if either is NaN.";
        Lt = 0x22 "lt" NUM (Same, Same) -> Bool, "%r = lt.T %a, %b", "Less. False if either is NaN.";
        Le = 0x23 "le" NUM (Same, Same) -> Bool, "%r = le.T %a, %b", "Less or equal. False if either is NaN.";
        Gt = 0x24 "gt" NUM (Same, Same) -> Bool, "%r = gt.T %a, %b", "Greater. False if either is NaN.";
        Ge = 0x25 "ge" NUM (Same, Same) -> Bool, "%r = ge.T %a, %b", "Greater or equal. False if either is NaN.";
        Select = 0x26 "select" ANY (Bool, Same, Same) -> Same, "%r = select.T %c, %a, %b",
            "`a` if `c`, else `b`; both are evaluated.";
        Cast = 0x28 "cast" ANY (Any) -> Same, "%r = cast.T %a",
            "The value in another type, rounded once. Float to integer saturates and NaN gives 0; integer to integer truncates or extends by the source's signedness; to bool is `!= 0`.";
        Bitcast = 0x29 "bitcast" NUM (Any) -> Same, "%r = bitcast.T %a",
            "The same bits in another type of equal width; f16 and bf16 pair with the low 16 bits of a u32. NaN becomes canonical.";
        Fma = 0x30 "fma" FLOAT (Same, Same, Same) -> Same, "%r = fma.T %a, %b, %c", "`a * b + c`, rounded once.";
        Sqrt = 0x31 "sqrt" FLOAT (Same) -> Same, "%r = sqrt.T %a", "Square root, correctly rounded.";
        Floor = 0x32 "floor" FLOAT (Same) -> Same, "%r = floor.T %a", "The nearest integer not above.";
        Ceil = 0x33 "ceil" FLOAT (Same) -> Same, "%r = ceil.T %a", "The nearest integer not below.";
        Trunc = 0x34 "trunc" FLOAT (Same) -> Same, "%r = trunc.T %a", "The nearest integer toward zero.";
        Round = 0x35 "round" FLOAT (Same) -> Same, "%r = round.T %a", "The nearest integer, ties to even.";
        Copysign = 0x36 "copysign" FLOAT (Same, Same) -> Same, "%r = copysign.T %a, %b",
            "The magnitude of `a` with the sign of `b`; a NaN's sign reads as plus.";
        IsNan = 0x37 "is_nan" FLOAT (Same) -> Bool, "%r = is_nan.T %a", "Whether `a` is NaN.";
        IsInf = 0x38 "is_inf" FLOAT (Same) -> Bool, "%r = is_inf.T %a", "Whether `a` is an infinity.";
    }

    /// Where a lane is, and how large the launch is.
    BuiltinOp: Pure by Each {
        GlobalId = 0x40 "global_id" NONE () -> U32, "%r = global_id x",
            "This lane's position in the grid along an axis: `workgroup_id * workgroup_size + local_id`.";
        LocalId = 0x41 "local_id" NONE () -> U32, "%r = local_id x",
            "This lane's position in its workgroup along an axis.";
        WorkgroupId = 0x42 "workgroup_id" NONE () -> U32, "%r = workgroup_id x",
            "This workgroup's position in the grid along an axis.";
        NumWorkgroups = 0x43 "num_workgroups" NONE () -> U32, "%r = num_workgroups x",
            "The number of workgroups launched along an axis.";
        WorkgroupSize = 0x44 "workgroup_size" NONE () -> U32, "%r = workgroup_size x",
            "The number of lanes of a workgroup along an axis.";
        GlobalIndex = 0x45 "global_index" NONE () -> U32, "%r = global_index",
            "This lane's linear position in the grid: x first, then y, then z of `global_id`.";
        LocalIndex = 0x46 "local_index" NONE () -> U32, "%r = local_index",
            "This lane's linear position in its workgroup: x first, then y, then z of `local_id`.";
        WorkgroupIndex = 0x47 "workgroup_index" NONE () -> U32, "%r = workgroup_index",
            "This workgroup's linear position in the grid: x first, then y, then z of `workgroup_id`.";
        SubgroupLane = 0x48 "subgroup_lane" NONE () -> U32, "%r = subgroup_lane",
            "This lane's position in its logical subgroup: `local_index` modulo the declared width.";
        SubgroupIndex = 0x49 "subgroup_index" NONE () -> U32, "%r = subgroup_index",
            "The logical subgroup's position in its workgroup: `local_index` over the declared width.";
    }

    /// Read-modify-writes of one element of a read_write or workgroup buffer.
    AtomicOp: Writes by Each {
        Add = 0x50 "atomic_add" INT (U32, Same) -> Same, "[%old =] atomic_add.T @b[%i], %v",
            "Adds, wrapping. Without a result, adds and subs to one element do not race.";
        Sub = 0x51 "atomic_sub" INT (U32, Same) -> Same, "[%old =] atomic_sub.T @b[%i], %v",
            "Subtracts, wrapping.";
        Min = 0x52 "atomic_min" INT (U32, Same) -> Same, "[%old =] atomic_min.T @b[%i], %v", "Keeps the lesser.";
        Max = 0x53 "atomic_max" INT (U32, Same) -> Same, "[%old =] atomic_max.T @b[%i], %v", "Keeps the greater.";
        And = 0x54 "atomic_and" INT (U32, Same) -> Same, "[%old =] atomic_and.T @b[%i], %v", "Bitwise and.";
        Or = 0x55 "atomic_or" INT (U32, Same) -> Same, "[%old =] atomic_or.T @b[%i], %v", "Bitwise or.";
        Xor = 0x56 "atomic_xor" INT (U32, Same) -> Same, "[%old =] atomic_xor.T @b[%i], %v",
            "Bitwise exclusive or.";
        Exchange = 0x57 "atomic_exchange" INT (U32, Same) -> Same, "[%old =] atomic_exchange.T @b[%i], %v",
            "Puts a new value. A plain read-modify-write for the race rule.";
        CompareExchange = 0x58 "atomic_compare_exchange" INT (U32, Same, Same) -> Same,
            "[%old =] atomic_compare_exchange.T @b[%i], %expected, %v",
            "Puts a new value if the old one is `expected`; never fails spuriously. A plain read-modify-write for the race rule.";
    }

    /// Exchanges among the lanes of a logical subgroup. All lanes of the workgroup take part.
    SubgroupOp: Exchanges by Subgroup {
        Ballot = 0x60 "subgroup_ballot" NONE (Bool) -> U32, "%r = subgroup_ballot %c",
            "Bit `i` is set if lane `i`'s operand is true.";
        Any = 0x61 "subgroup_any" NONE (Bool) -> Bool, "%r = subgroup_any %c", "Whether any lane's operand is true.";
        All = 0x62 "subgroup_all" NONE (Bool) -> Bool, "%r = subgroup_all %c", "Whether every lane's operand is true.";
        Broadcast = 0x63 "subgroup_broadcast" ANY (Same, U32) -> Same, "%r = subgroup_broadcast.T %v, %lane",
            "Lane `lane`'s value, modulo the width; `lane` is uniform over the workgroup.";
        Shuffle = 0x64 "subgroup_shuffle" ANY (Same, U32) -> Same, "%r = subgroup_shuffle.T %v, %lane",
            "The value of the lane that this lane names, modulo the width.";
        Match = 0x65 "subgroup_match" INT (Same) -> U32, "%r = subgroup_match.T %v",
            "Bit `i` is set if lane `i`'s value equals this lane's.";
        ReduceAdd = 0x68 "subgroup_reduce_add" NUM (Same) -> Same, "%r = subgroup_reduce_add.T %v",
            "Sum over the subgroup, by xor-shuffles of 1, 2, 4, ...";
        ReduceMul = 0x69 "subgroup_reduce_mul" NUM (Same) -> Same, "%r = subgroup_reduce_mul.T %v",
            "Product over the subgroup, in the same order.";
        ReduceMin = 0x6a "subgroup_reduce_min" NUM (Same) -> Same, "%r = subgroup_reduce_min.T %v",
            "The least over the subgroup.";
        ReduceMax = 0x6b "subgroup_reduce_max" NUM (Same) -> Same, "%r = subgroup_reduce_max.T %v",
            "The greatest over the subgroup.";
        ReduceAnd = 0x6c "subgroup_reduce_and" INT (Same) -> Same, "%r = subgroup_reduce_and.T %v",
            "Bitwise and over the subgroup.";
        ReduceOr = 0x6d "subgroup_reduce_or" INT (Same) -> Same, "%r = subgroup_reduce_or.T %v",
            "Bitwise or over the subgroup.";
        ReduceXor = 0x6e "subgroup_reduce_xor" INT (Same) -> Same, "%r = subgroup_reduce_xor.T %v",
            "Bitwise exclusive or over the subgroup.";
        InclusiveAdd = 0x70 "subgroup_inclusive_add" NUM (Same) -> Same, "%r = subgroup_inclusive_add.T %v",
            "Prefix sum up to this lane: `x = up(x, d) + x` where lane >= d, for d = 1, 2, 4, ...";
        InclusiveMul = 0x71 "subgroup_inclusive_mul" NUM (Same) -> Same, "%r = subgroup_inclusive_mul.T %v",
            "Prefix product, in the same order.";
        InclusiveMin = 0x72 "subgroup_inclusive_min" NUM (Same) -> Same, "%r = subgroup_inclusive_min.T %v",
            "Prefix minimum.";
        InclusiveMax = 0x73 "subgroup_inclusive_max" NUM (Same) -> Same, "%r = subgroup_inclusive_max.T %v",
            "Prefix maximum.";
        InclusiveAnd = 0x74 "subgroup_inclusive_and" INT (Same) -> Same, "%r = subgroup_inclusive_and.T %v",
            "Prefix bitwise and.";
        InclusiveOr = 0x75 "subgroup_inclusive_or" INT (Same) -> Same, "%r = subgroup_inclusive_or.T %v",
            "Prefix bitwise or.";
        InclusiveXor = 0x76 "subgroup_inclusive_xor" INT (Same) -> Same, "%r = subgroup_inclusive_xor.T %v",
            "Prefix bitwise exclusive or.";
        ExclusiveAdd = 0x78 "subgroup_exclusive_add" NUM (Same) -> Same, "%r = subgroup_exclusive_add.T %v",
            "The inclusive scan of the lane below; lane 0 gets 0 (+0.0 for floats).";
        ExclusiveMul = 0x79 "subgroup_exclusive_mul" NUM (Same) -> Same, "%r = subgroup_exclusive_mul.T %v",
            "The inclusive scan of the lane below; lane 0 gets 1.";
        ExclusiveMin = 0x7a "subgroup_exclusive_min" NUM (Same) -> Same, "%r = subgroup_exclusive_min.T %v",
            "The inclusive scan of the lane below; lane 0 gets the type's greatest value (infinity for floats).";
        ExclusiveMax = 0x7b "subgroup_exclusive_max" NUM (Same) -> Same, "%r = subgroup_exclusive_max.T %v",
            "The inclusive scan of the lane below; lane 0 gets the type's least value (-infinity for floats).";
        ExclusiveAnd = 0x7c "subgroup_exclusive_and" INT (Same) -> Same, "%r = subgroup_exclusive_and.T %v",
            "The inclusive scan of the lane below; lane 0 gets all ones.";
        ExclusiveOr = 0x7d "subgroup_exclusive_or" INT (Same) -> Same, "%r = subgroup_exclusive_or.T %v",
            "The inclusive scan of the lane below; lane 0 gets 0.";
        ExclusiveXor = 0x7e "subgroup_exclusive_xor" INT (Same) -> Same, "%r = subgroup_exclusive_xor.T %v",
            "The inclusive scan of the lane below; lane 0 gets 0.";
    }

    /// Reads of buffers, tables and locals.
    ReadOp: Reads by Each {
        Load = 0x80 "load" STORED (U32) -> Same, "%r = load.T @b[%i]",
            "An element; 0 out of bounds. Small integers widen by their signedness. `load.u32` on u8 elements reads little-endian bytes i..i+3, those out of bounds as 0.";
        Len = 0x81 "len" NONE () -> U32: Pure by Each, "%r = len @b", "The number of elements of a buffer or table.";
        Get = 0x82 "get" ANY () -> Same: Gets by Each, "%r = get.T $v  |  %r = get.T $a[%i]",
            "A mutable local's value, or an element of a private array; 0 out of bounds.";
    }

    /// Writes of buffers and locals.
    WriteOp: Writes by Each {
        Store = 0x88 "store" STORED (U32, Same) -> None, "store.T @b[%i], %v",
            "Puts an element; nothing out of bounds. Small integers truncate; NaN becomes canonical in storage buffers.";
        Var = 0x89 "var" ANY (Same) -> None: Sets by Each, "var $v : T = %init  |  var $a : T[n] = %init",
            "Declares a mutable local or a private array, every element set to `init`.";
        Set = 0x8a "set" ANY (Same) -> None: Sets by Each, "set.T $v, %x  |  set.T $a[%i], %x",
            "Assigns a mutable local, or an element of a private array; nothing out of bounds.";
        Trap = 0x8b "trap" NONE () -> None: Traps by Each, "trap 7",
            "Records a literal code and goes on; the dispatch fails at the next grid barrier or its end.";
    }

    /// Steps that all lanes of a subgroup, workgroup or grid take together.
    SyncOp: Orders by Workgroup {
        Barrier = 0x90 "barrier" NONE () -> None, "barrier",
            "Orders workgroup and storage memory among the lanes of a workgroup.";
        SubgroupBarrier = 0x91 "subgroup_barrier" NONE () -> None: Orders by Subgroup, "subgroup_barrier",
            "Orders workgroup and storage memory among the lanes of a logical subgroup.";
        GridBarrier = 0x92 "grid_barrier" NONE () -> None: Orders by GridSync, "grid_barrier",
            "Orders storage memory among all lanes of the grid; locals and workgroup memory survive it.";
        UniformLoad = 0x93 "uniform_load" STORED (U32) -> Same, "%r = uniform_load.T @w[%i]",
            "A barrier, a load from workgroup memory at a uniform index, a barrier. Its result is uniform.";
        Mma = 0x94 "mma" NONE (U32, U32, U32) -> None: OrdersAndWrites by Workgroup, "mma.i32.i8 m, n, k, @c[%ic], @a[%ia], @b[%ib]",
            "Between two barriers, `c[ic + i*n + j] += sum over l of a[ia + i*k + l] * b[ib + j*k + l]` for all i < m, j < n, l < k: workgroup tiles of i8 (a by rows, b by columns) accumulated in i32, wrapping.";
        AllReduce = 0x98 "all_reduce" NUM () -> None: OrdersAndWrites by GridSync, "all_reduce.T add, @dst, @src",
            "Between two grid barriers, every rank's `dst[i]` becomes the fold of all ranks' `src[i]`, left to right.";
        AllGather = 0x99 "all_gather" STORED () -> None: OrdersAndWrites by GridSync, "all_gather.T @dst, @src",
            "Between two grid barriers, `dst` becomes the ranks' `src` one after the other.";
        ReduceScatter = 0x9a "reduce_scatter" NUM () -> None: OrdersAndWrites by GridSync, "reduce_scatter.T add, @dst, @src",
            "Between two grid barriers, rank r's `dst[i]` becomes the fold of all ranks' `src[r * len(dst) + i]`.";
        Broadcast = 0x9b "broadcast" STORED () -> None: OrdersAndWrites by GridSync, "broadcast.T @dst, @src, 0",
            "Between two grid barriers, every rank's `dst` becomes the root rank's `src`; the root counts modulo the ranks.";
    }

    /// Structured control flow, calls and the launch.
    ControlOp: Controls by Each {
        If = 0xa0 "if" NONE (Bool) -> None, "if %c { ... } else { ... }", "Runs one block or the other.";
        For = 0xa1 "for" NONE (U32, U32) -> None, "for %i in %lo..%hi step 4 { ... }",
            "Runs its block for i = lo, lo + step, ... while i < hi; the bounds are read once and the counter never wraps.";
        Break = 0xa2 "break" NONE () -> None, "break", "Leaves the innermost loop.";
        Continue = 0xa3 "continue" NONE () -> None, "continue", "Goes on with the innermost loop's next trip.";
        Call = 0xa4 "call" NONE () -> Same: Calls by Each, "[%r =] call @f(%a, %b)", "Runs a function declared above; always inlined.";
        Return = 0xa5 "return" NONE () -> None: Calls by Each, "return %r", "Ends a function with its result, as its last line.";
        IndirectDispatch = 0xa6 "indirect" NONE () -> None: Launches by Each, "indirect @args[0]",
            "The grid is three u32 read before launch from a buffer this program does not write; the program's first line.";
    }
}

impl OpId {
    /// The name in text.
    pub const fn name(self) -> &'static str {
        self.info().name
    }
}

impl std::fmt::Display for OpId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl AtomicOp {
    /// The op that makes the new value out of the old one and the operand; `None` for exchanges.
    pub const fn op(self) -> Option<ComputeOp> {
        Some(match self {
            AtomicOp::Add => ComputeOp::Add,
            AtomicOp::Sub => ComputeOp::Sub,
            AtomicOp::Min => ComputeOp::Min,
            AtomicOp::Max => ComputeOp::Max,
            AtomicOp::And => ComputeOp::And,
            AtomicOp::Or => ComputeOp::Or,
            AtomicOp::Xor => ComputeOp::Xor,
            AtomicOp::Exchange | AtomicOp::CompareExchange => return None,
        })
    }

    /// The fold that joins operands of several lanes into one; `None` for exchanges. Two differences are one of the sum.
    pub const fn fold(self) -> Option<ReduceOp> {
        Some(match self {
            AtomicOp::Add | AtomicOp::Sub => ReduceOp::Add,
            AtomicOp::Min => ReduceOp::Min,
            AtomicOp::Max => ReduceOp::Max,
            AtomicOp::And => ReduceOp::And,
            AtomicOp::Or => ReduceOp::Or,
            AtomicOp::Xor => ReduceOp::Xor,
            AtomicOp::Exchange | AtomicOp::CompareExchange => return None,
        })
    }
}

impl SubgroupOp {
    /// What the lanes do with each other's values.
    pub const fn exchange(self) -> Exchange {
        use {Exchange::Fold, Sweep::*};
        match self {
            SubgroupOp::Ballot => Exchange::Ballot,
            SubgroupOp::Any => Exchange::Any,
            SubgroupOp::All => Exchange::All,
            SubgroupOp::Broadcast | SubgroupOp::Shuffle => Exchange::Take,
            SubgroupOp::Match => Exchange::Match,
            SubgroupOp::ReduceAdd => Fold(Reduce, ReduceOp::Add),
            SubgroupOp::ReduceMul => Fold(Reduce, ReduceOp::Mul),
            SubgroupOp::ReduceMin => Fold(Reduce, ReduceOp::Min),
            SubgroupOp::ReduceMax => Fold(Reduce, ReduceOp::Max),
            SubgroupOp::ReduceAnd => Fold(Reduce, ReduceOp::And),
            SubgroupOp::ReduceOr => Fold(Reduce, ReduceOp::Or),
            SubgroupOp::ReduceXor => Fold(Reduce, ReduceOp::Xor),
            SubgroupOp::InclusiveAdd => Fold(Inclusive, ReduceOp::Add),
            SubgroupOp::InclusiveMul => Fold(Inclusive, ReduceOp::Mul),
            SubgroupOp::InclusiveMin => Fold(Inclusive, ReduceOp::Min),
            SubgroupOp::InclusiveMax => Fold(Inclusive, ReduceOp::Max),
            SubgroupOp::InclusiveAnd => Fold(Inclusive, ReduceOp::And),
            SubgroupOp::InclusiveOr => Fold(Inclusive, ReduceOp::Or),
            SubgroupOp::InclusiveXor => Fold(Inclusive, ReduceOp::Xor),
            SubgroupOp::ExclusiveAdd => Fold(Exclusive, ReduceOp::Add),
            SubgroupOp::ExclusiveMul => Fold(Exclusive, ReduceOp::Mul),
            SubgroupOp::ExclusiveMin => Fold(Exclusive, ReduceOp::Min),
            SubgroupOp::ExclusiveMax => Fold(Exclusive, ReduceOp::Max),
            SubgroupOp::ExclusiveAnd => Fold(Exclusive, ReduceOp::And),
            SubgroupOp::ExclusiveOr => Fold(Exclusive, ReduceOp::Or),
            SubgroupOp::ExclusiveXor => Fold(Exclusive, ReduceOp::Xor),
        }
    }

    /// How it folds, and with what; `None` for those that fold nothing.
    pub const fn fold(self) -> Option<(Sweep, ReduceOp)> {
        match self.exchange() {
            Exchange::Fold(sweep, fold) => Some((sweep, fold)),
            Exchange::Ballot | Exchange::Any | Exchange::All | Exchange::Take | Exchange::Match => None,
        }
    }
}

impl BuiltinOp {
    /// Whether the op is asked for along one axis.
    pub const fn has_axis(self) -> bool {
        match self {
            BuiltinOp::GlobalId
            | BuiltinOp::LocalId
            | BuiltinOp::WorkgroupId
            | BuiltinOp::NumWorkgroups
            | BuiltinOp::WorkgroupSize => true,
            BuiltinOp::GlobalIndex
            | BuiltinOp::LocalIndex
            | BuiltinOp::WorkgroupIndex
            | BuiltinOp::SubgroupLane
            | BuiltinOp::SubgroupIndex => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_tags_are_unique_and_found_again() {
        let mut names = HashSet::new();
        let mut tags = HashSet::new();
        for op in OpId::all() {
            assert!(names.insert(op.name()), "name {op} stands twice");
            assert!(tags.insert(op.info().tag), "tag of {op} stands twice");
            assert_eq!(OpId::from_name(op.name()), Some(op));
            assert_eq!(OpId::from_tag(op.info().tag), Some(op));
        }
    }
}
