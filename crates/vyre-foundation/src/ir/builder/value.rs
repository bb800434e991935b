//! Values: operators and methods for every op that computes, and for those among the lanes of a subgroup.

use super::types::{BitcastTo, Computes, Float, Int32, Integer, Logic, Number, Signed};
use super::{Kernel, Scalar};
use crate::ir::{Args, ComputeOp, DataType, Node, Operand, SubgroupOp};
use crate::math::math_ops;
use half::{bf16, f16};
use smallvec::smallvec;
use std::marker::PhantomData;
use std::ops;

/// A value of a kernel being built, or a constant in its place.
pub struct Val<'k, T> {
    pub(super) kernel: &'k Kernel,
    operand: Operand,
    body: u32,
    ty: PhantomData<T>,
}

impl<T> Clone for Val<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Val<'_, T> {}

/// What can stand where a `T` is read: a handle, or a Rust constant.
pub trait Arg<'k, T> {
    /// What the emitted line reads.
    fn operand(self, kernel: &'k Kernel) -> Operand;
}

impl<'k, T: Computes> Arg<'k, T> for Val<'k, T> {
    fn operand(self, kernel: &'k Kernel) -> Operand {
        match self.operand {
            Operand::Value(_) if !kernel.admits("value", self.kernel, Some(self.body)) => {
                T::from_bits(0).literal().into()
            }
            operand => operand,
        }
    }
}

macro_rules! constants {
    ($( $ty:ty )*) => {
        $(
            impl<'k> Arg<'k, $ty> for $ty {
                fn operand(self, _: &'k Kernel) -> Operand {
                    self.literal().into()
                }
            }
        )*
    };
}

constants!(bool u32 i32 u64 i64 f16 bf16 f32 f64);

impl<'k, T: Computes> Val<'k, T> {
    pub(super) fn new(kernel: &'k Kernel, operand: Operand, body: u32) -> Val<'k, T> {
        Val { kernel, operand, body, ty: PhantomData }
    }

    fn compute<R: Computes>(self, op: ComputeOp, ty: DataType, args: Args) -> Val<'k, R> {
        self.kernel.assign(|result| Node::Compute { result, op, ty, args })
    }

    fn unary<R: Computes>(self, op: ComputeOp) -> Val<'k, R> {
        let a = self.operand(self.kernel);
        self.compute(op, T::TYPE, smallvec![a])
    }

    fn binary<U: Computes, R: Computes>(self, op: ComputeOp, b: impl Arg<'k, U>) -> Val<'k, R> {
        let (a, b) = (self.operand(self.kernel), b.operand(self.kernel));
        self.compute(op, T::TYPE, smallvec![a, b])
    }

    fn subgroup_op<R: Computes>(self, op: SubgroupOp, lane: Option<Operand>) -> Val<'k, R> {
        let args = std::iter::once(self.operand(self.kernel)).chain(lane).collect();
        self.kernel.assign(|result| Node::Subgroup { result, op, ty: T::TYPE, args })
    }

    /// Names the value, for the reader of the printed program. A constant has no name.
    pub fn named(self, name: &str) -> Val<'k, T> {
        if let Operand::Value(value) = self.operand(self.kernel) {
            self.kernel.state.borrow_mut().frame().body.values[value.index()] = name.into();
        }
        self
    }

    /// Whether both are equal; false if either is NaN.
    pub fn eq(self, b: impl Arg<'k, T>) -> Val<'k, bool> {
        self.binary(ComputeOp::Eq, b)
    }

    /// Whether they differ; true if either is NaN.
    pub fn ne(self, b: impl Arg<'k, T>) -> Val<'k, bool> {
        self.binary(ComputeOp::Ne, b)
    }

    /// The value in another type, rounded once.
    pub fn cast<U: Computes>(self) -> Val<'k, U> {
        let a = self.operand(self.kernel);
        self.compute(ComputeOp::Cast, U::TYPE, smallvec![a])
    }

    /// The value of subgroup lane `lane`, the same for the whole workgroup.
    pub fn subgroup_broadcast(self, lane: impl Arg<'k, u32>) -> Val<'k, T> {
        let lane = lane.operand(self.kernel);
        self.subgroup_op(SubgroupOp::Broadcast, Some(lane))
    }

    /// The value of the subgroup lane that this lane names.
    pub fn subgroup_shuffle(self, lane: impl Arg<'k, u32>) -> Val<'k, T> {
        let lane = lane.operand(self.kernel);
        self.subgroup_op(SubgroupOp::Shuffle, Some(lane))
    }
}

impl<'k> Val<'k, bool> {
    /// `a` where this is true, else `b`; both are evaluated.
    pub fn select<T: Computes>(self, a: impl Arg<'k, T>, b: impl Arg<'k, T>) -> Val<'k, T> {
        let args = smallvec![self.operand(self.kernel), a.operand(self.kernel), b.operand(self.kernel)];
        self.compute(ComputeOp::Select, T::TYPE, args)
    }

    /// A mask with bit `i` set where subgroup lane `i` has true.
    pub fn subgroup_ballot(self) -> Val<'k, u32> {
        self.subgroup_op(SubgroupOp::Ballot, None)
    }

    /// Whether any lane of the subgroup has true.
    pub fn subgroup_any(self) -> Val<'k, bool> {
        self.subgroup_op(SubgroupOp::Any, None)
    }

    /// Whether every lane of the subgroup has true.
    pub fn subgroup_all(self) -> Val<'k, bool> {
        self.subgroup_op(SubgroupOp::All, None)
    }
}

impl<'k, T: Number> Val<'k, T> {
    /// `min(max(self, lo), hi)`.
    pub fn clamp(self, lo: impl Arg<'k, T>, hi: impl Arg<'k, T>) -> Val<'k, T> {
        let args = smallvec![self.operand(self.kernel), lo.operand(self.kernel), hi.operand(self.kernel)];
        self.compute(ComputeOp::Clamp, T::TYPE, args)
    }

    /// The same bits in another type.
    pub fn bitcast<U: Number>(self) -> Val<'k, U>
    where
        T: BitcastTo<U>,
    {
        let a = self.operand(self.kernel);
        self.compute(ComputeOp::Bitcast, U::TYPE, smallvec![a])
    }
}

impl<'k, T: Integer> Val<'k, T> {
    /// `count` bits from `offset` up, sign-extended for signed types.
    pub fn extract(self, offset: impl Arg<'k, u32>, count: impl Arg<'k, u32>) -> Val<'k, T> {
        let k = self.kernel;
        let args = smallvec![self.operand(k), offset.operand(k), count.operand(k)];
        self.compute(ComputeOp::Extract, T::TYPE, args)
    }

    /// This with `count` bits from `offset` up replaced by the low bits of `bits`.
    pub fn insert(
        self,
        bits: impl Arg<'k, T>,
        offset: impl Arg<'k, u32>,
        count: impl Arg<'k, u32>,
    ) -> Val<'k, T> {
        let k = self.kernel;
        let args = smallvec![self.operand(k), bits.operand(k), offset.operand(k), count.operand(k)];
        self.compute(ComputeOp::Insert, T::TYPE, args)
    }

    /// A mask with bit `i` set where subgroup lane `i` has this value.
    pub fn subgroup_match(self) -> Val<'k, u32> {
        self.subgroup_op(SubgroupOp::Match, None)
    }
}

impl<'k> Val<'k, u32> {
    /// `acc` plus the dot product of the four bytes of both, read as `acc`'s signedness says.
    pub fn dot4<T: Int32>(self, b: impl Arg<'k, u32>, acc: impl Arg<'k, T>) -> Val<'k, T> {
        let args = smallvec![self.operand(self.kernel), b.operand(self.kernel), acc.operand(self.kernel)];
        self.compute(ComputeOp::Dot4, T::TYPE, args)
    }
}

impl<'k, T: Float> Val<'k, T> {
    /// `self * b + c`, rounded once.
    pub fn fma(self, b: impl Arg<'k, T>, c: impl Arg<'k, T>) -> Val<'k, T> {
        let args = smallvec![self.operand(self.kernel), b.operand(self.kernel), c.operand(self.kernel)];
        self.compute(ComputeOp::Fma, T::TYPE, args)
    }
}

/// Methods that are one op each: the bound on `T`, the method, its other operand, its result, its doc line.
macro_rules! methods {
    ($( $bound:ident { $( $method:ident $op:ident ($($arg:ty)?) -> $result:ty, $doc:literal; )* } )*) => {
        $( impl<'k, T: $bound> Val<'k, T> { $( methods!(@one $method $op ($($arg)?) $result, $doc); )* } )*
    };
    (@one $method:ident $op:ident () $result:ty, $doc:literal) => {
        #[doc = $doc]
        pub fn $method(self) -> Val<'k, $result> {
            self.unary(ComputeOp::$op)
        }
    };
    (@one $method:ident $op:ident ($arg:ty) $result:ty, $doc:literal) => {
        #[doc = $doc]
        pub fn $method(self, b: impl Arg<'k, $arg>) -> Val<'k, $result> {
            self.binary(ComputeOp::$op, b)
        }
    };
}

methods! {
    Number {
        min Min (T) -> T, "The lesser; a number is preferred over NaN.";
        max Max (T) -> T, "The greater; a number is preferred over NaN.";
        lt Lt (T) -> bool, "Whether this is less than `b`.";
        le Le (T) -> bool, "Whether this is at most `b`.";
        gt Gt (T) -> bool, "Whether this is greater than `b`.";
        ge Ge (T) -> bool, "Whether this is at least `b`.";
    }
    Signed {
        abs Abs () -> T, "The magnitude.";
    }
    Integer {
        mul_hi MulHi (T) -> T, "The upper half of the double-width product.";
        add_sat AddSat (T) -> T, "The sum, held at the type's limits.";
        sub_sat SubSat (T) -> T, "The difference, held at the type's limits.";
        rotl Rotl (u32) -> T, "Left rotation, by the amount modulo the width.";
        rotr Rotr (u32) -> T, "Right rotation, by the amount modulo the width.";
        popcount Popcount () -> T, "The number of one bits.";
        clz Clz () -> T, "The number of zero bits above the highest one.";
        ctz Ctz () -> T, "The number of zero bits below the lowest one.";
        reverse_bits ReverseBits () -> T, "The bits in opposite order.";
    }
    Float {
        sqrt Sqrt () -> T, "The square root, correctly rounded.";
        floor Floor () -> T, "The nearest integer not above.";
        ceil Ceil () -> T, "The nearest integer not below.";
        trunc Trunc () -> T, "The nearest integer toward zero.";
        round Round () -> T, "The nearest integer, ties to even.";
        copysign Copysign (T) -> T, "This magnitude with the sign of `b`.";
        is_nan IsNan () -> bool, "Whether this is NaN.";
        is_inf IsInf () -> bool, "Whether this is an infinity.";
    }
}

/// Methods that are one elementary function each.
macro_rules! math_methods {
    ($( $name:ident ($x:ident $($y:ident)?) $parity:ident $types:ident $off:literal, $doc:literal; )*) => {
        impl<'k, T: Float> Val<'k, T> {
            $(
                #[doc = $doc]
                pub fn $name(self $(, $y: impl Arg<'k, T>)?) -> Val<'k, T> {
                    let args = vec![self.operand(self.kernel) $(, $y.operand(self.kernel))?];
                    self.kernel.math(stringify!($name), args)
                }
            )*
        }
    };
}

math_ops!(math_methods);

macro_rules! subgroup_methods {
    ($( $bound:ident { $( $method:ident $op:ident; )* } )*) => {
        $(
            impl<'k, T: $bound> Val<'k, T> {
                $(
                    #[doc = concat!("`", stringify!($method), "` over the logical subgroup.")]
                    pub fn $method(self) -> Val<'k, T> {
                        self.subgroup_op(SubgroupOp::$op, None)
                    }
                )*
            }
        )*
    };
}

subgroup_methods! {
    Number {
        subgroup_reduce_add ReduceAdd;
        subgroup_reduce_mul ReduceMul;
        subgroup_reduce_min ReduceMin;
        subgroup_reduce_max ReduceMax;
        subgroup_inclusive_add InclusiveAdd;
        subgroup_inclusive_mul InclusiveMul;
        subgroup_inclusive_min InclusiveMin;
        subgroup_inclusive_max InclusiveMax;
        subgroup_exclusive_add ExclusiveAdd;
        subgroup_exclusive_mul ExclusiveMul;
        subgroup_exclusive_min ExclusiveMin;
        subgroup_exclusive_max ExclusiveMax;
    }
    Integer {
        subgroup_reduce_and ReduceAnd;
        subgroup_reduce_or ReduceOr;
        subgroup_reduce_xor ReduceXor;
        subgroup_inclusive_and InclusiveAnd;
        subgroup_inclusive_or InclusiveOr;
        subgroup_inclusive_xor InclusiveXor;
        subgroup_exclusive_and ExclusiveAnd;
        subgroup_exclusive_or ExclusiveOr;
        subgroup_exclusive_xor ExclusiveXor;
    }
}

/// Operators between a handle and a handle or constant, and between a constant and a handle.
macro_rules! operators {
    ($( $trait:ident $method:ident $op:ident $bound:ident: $($ty:ty)*; )*) => {
        $(
            impl<'k, T: $bound, B: Arg<'k, T>> ops::$trait<B> for Val<'k, T> {
                type Output = Val<'k, T>;

                fn $method(self, b: B) -> Val<'k, T> {
                    self.binary(ComputeOp::$op, b)
                }
            }
            $(
                impl<'k> ops::$trait<Val<'k, $ty>> for $ty {
                    type Output = Val<'k, $ty>;

                    fn $method(self, b: Val<'k, $ty>) -> Val<'k, $ty> {
                        b.kernel.val(self).binary(ComputeOp::$op, b)
                    }
                }
            )*
        )*
    };
}

operators! {
    Add add Add Number: u32 i32 u64 i64 f16 bf16 f32 f64;
    Sub sub Sub Number: u32 i32 u64 i64 f16 bf16 f32 f64;
    Mul mul Mul Number: u32 i32 u64 i64 f16 bf16 f32 f64;
    Div div Div Number: u32 i32 u64 i64 f16 bf16 f32 f64;
    Rem rem Rem Number: u32 i32 u64 i64 f16 bf16 f32 f64;
    BitAnd bitand And Logic: bool u32 i32 u64 i64;
    BitOr bitor Or Logic: bool u32 i32 u64 i64;
    BitXor bitxor Xor Logic: bool u32 i32 u64 i64;
}

impl<'k, T: Integer, B: Arg<'k, u32>> ops::Shl<B> for Val<'k, T> {
    type Output = Val<'k, T>;

    fn shl(self, amount: B) -> Val<'k, T> {
        self.binary(ComputeOp::Shl, amount)
    }
}

impl<'k, T: Integer, B: Arg<'k, u32>> ops::Shr<B> for Val<'k, T> {
    type Output = Val<'k, T>;

    fn shr(self, amount: B) -> Val<'k, T> {
        self.binary(ComputeOp::Shr, amount)
    }
}

impl<'k, T: Signed> ops::Neg for Val<'k, T> {
    type Output = Val<'k, T>;

    fn neg(self) -> Val<'k, T> {
        self.unary(ComputeOp::Neg)
    }
}

impl<'k, T: Logic> ops::Not for Val<'k, T> {
    type Output = Val<'k, T>;

    fn not(self) -> Val<'k, T> {
        self.unary(ComputeOp::Not)
    }
}
