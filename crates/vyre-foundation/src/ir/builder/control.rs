//! Control flow, barriers, tile products, collectives and traps.

use super::memory::{Mem, Shared, Storage};
use super::types::{Element, Number};
use super::value::{Arg, Val};
use super::{Kernel, ReadOnly};
use crate::ir::{MemoryOrdering, Node, Operand, ReduceOp, Tile};
use std::ops::{Range, RangeTo};

/// The counts a loop runs through: `0..16`, `..n`, or `(lo, hi)` where only one of both is a Rust constant.
pub trait Bounds<'k>: Sized {
    /// The first count, the one past the last, and the step.
    fn bounds(self, kernel: &'k Kernel) -> (Operand, Operand, u32);

    /// The same counts, `step` apart.
    fn step(self, step: u32) -> Stepped<Self> {
        Stepped { bounds: self, step }
    }
}

/// Bounds with a step.
pub struct Stepped<B> {
    bounds: B,
    step: u32,
}

impl<'k, A: Arg<'k, u32>> Bounds<'k> for Range<A> {
    fn bounds(self, kernel: &'k Kernel) -> (Operand, Operand, u32) {
        (self.start.operand(kernel), self.end.operand(kernel), 1)
    }
}

impl<'k, A: Arg<'k, u32>> Bounds<'k> for RangeTo<A> {
    fn bounds(self, kernel: &'k Kernel) -> (Operand, Operand, u32) {
        (0u32.operand(kernel), self.end.operand(kernel), 1)
    }
}

impl<'k, A: Arg<'k, u32>, B: Arg<'k, u32>> Bounds<'k> for (A, B) {
    fn bounds(self, kernel: &'k Kernel) -> (Operand, Operand, u32) {
        (self.0.operand(kernel), self.1.operand(kernel), 1)
    }
}

impl<'k, B: Bounds<'k>> Bounds<'k> for Stepped<B> {
    fn bounds(self, kernel: &'k Kernel) -> (Operand, Operand, u32) {
        let (lo, hi, _) = self.bounds.bounds(kernel);
        (lo, hi, self.step)
    }
}

impl Kernel {
    /// Runs `then` where `cond` is true.
    pub fn if_<'k>(&'k self, cond: impl Arg<'k, bool>, then: impl FnOnce()) {
        self.if_else(cond, then, || ());
    }

    /// Runs `then` where `cond` is true, and `otherwise` elsewhere.
    pub fn if_else<'k>(&'k self, cond: impl Arg<'k, bool>, then: impl FnOnce(), otherwise: impl FnOnce()) {
        let cond = cond.operand(self);
        let then = self.block(then);
        let otherwise = self.block(otherwise);
        self.emit(Node::If { cond, then, otherwise });
    }

    /// Runs `body` for each count in turn.
    ///
    /// ```
    /// # use vyre_foundation::ir::{Program, builder::Bounds};
    /// # Program::build("loops", [1, 1, 1], |k| {
    /// # let y = k.read_write::<u32>("y", 0).output();
    /// let n = y.len();
    /// k.for_(0..16, |i| y.put(i, 0));
    /// k.for_(..n, |i| y.put(i, i));
    /// k.for_((1, n).step(2), |i| y.put(i, 1));
    /// # }).unwrap();
    /// ```
    pub fn for_<'k>(&'k self, bounds: impl Bounds<'k>, body: impl FnOnce(Val<'k, u32>)) {
        let (lo, hi, step) = bounds.bounds(self);
        let counter = self.new_value();
        let handle = self.handle(counter);
        let body = self.block(|| body(handle));
        self.emit(Node::For { counter, lo, hi, step, body });
    }

    /// Leaves the innermost loop.
    pub fn break_(&self) {
        self.emit(Node::Break);
    }

    /// Goes on with the innermost loop's next trip.
    pub fn continue_(&self) {
        self.emit(Node::Continue);
    }

    /// Orders workgroup and storage memory among the lanes of a workgroup.
    pub fn barrier(&self) {
        self.emit(Node::Barrier { ordering: MemoryOrdering::Workgroup });
    }

    /// Orders workgroup and storage memory among the lanes of a logical subgroup.
    pub fn subgroup_barrier(&self) {
        self.emit(Node::Barrier { ordering: MemoryOrdering::Subgroup });
    }

    /// Orders storage memory among all lanes of the grid.
    pub fn grid_barrier(&self) {
        self.emit(Node::Barrier { ordering: MemoryOrdering::GridSync });
    }

    /// Records a code; the dispatch fails with the first one in program order.
    pub fn trap(&self, code: u32) {
        self.emit(Node::Trap { code });
    }

    /// Takes the grid from three elements of a buffer. The program's first line.
    pub fn indirect<'k>(&'k self, args: Mem<'k, u32, ReadOnly>, offset: u32) {
        self.emit(Node::IndirectDispatch { buffer: args.id(self), offset });
    }

    /// Adds the product of an `m` by `k` and a `k` by `n` tile of bytes to an `m` by `n` tile. Each tile is a buffer
    /// and the element it starts at; `b` lies by columns.
    pub fn mma<'k, C: Arg<'k, u32>, A: Arg<'k, u32>, B: Arg<'k, u32>>(
        &'k self,
        [m, n, k]: [u32; 3],
        c: (Mem<'k, i32, Shared>, C),
        a: (Mem<'k, i8, Shared>, A),
        b: (Mem<'k, i8, Shared>, B),
    ) {
        let c = Tile { buffer: c.0.id(self), offset: c.1.operand(self) };
        let a = Tile { buffer: a.0.id(self), offset: a.1.operand(self) };
        let b = Tile { buffer: b.0.id(self), offset: b.1.operand(self) };
        self.emit(Node::Mma { m, n, k, c, a, b });
    }

    /// Every rank's `dst` becomes the fold of all ranks' `src`.
    pub fn all_reduce<'k, T: Number, M>(
        &'k self,
        op: ReduceOp,
        dst: Mem<'k, T, Storage>,
        src: Mem<'k, T, M>,
    ) {
        self.emit(Node::AllReduce { op, ty: T::TYPE, dst: dst.id(self), src: src.id(self) });
    }

    /// `dst` becomes the ranks' `src` one after the other.
    pub fn all_gather<'k, T: Element, M>(&'k self, dst: Mem<'k, T, Storage>, src: Mem<'k, T, M>) {
        self.emit(Node::AllGather { ty: T::TYPE, dst: dst.id(self), src: src.id(self) });
    }

    /// Each rank's `dst` becomes its part of the fold of all ranks' `src`.
    pub fn reduce_scatter<'k, T: Number, M>(
        &'k self,
        op: ReduceOp,
        dst: Mem<'k, T, Storage>,
        src: Mem<'k, T, M>,
    ) {
        self.emit(Node::ReduceScatter { op, ty: T::TYPE, dst: dst.id(self), src: src.id(self) });
    }

    /// Every rank's `dst` becomes the root rank's `src`.
    pub fn broadcast<'k, T: Element, M>(&'k self, dst: Mem<'k, T, Storage>, src: Mem<'k, T, M>, root: u32) {
        self.emit(Node::Broadcast { ty: T::TYPE, dst: dst.id(self), src: src.id(self), root });
    }
}
