//! What the fields of lines are, for code that does not ask which line it has.
//!
//! A field's type says it: a [`Value`] is assigned, an [`Operand`] is read, a [`BufferId`] is named. What a type does not say
//! here, its fields are not.

use super::node::{Args, Axis, Block, BufferId, FunctionId, Local, Operand, ReduceOp, Tile, Value};
use super::types::DataType;

/// The type of a line's field.
pub(super) trait Field {
    #[inline]
    fn result(&self) -> Option<Value> {
        None
    }
    #[inline]
    fn result_mut(&mut self) -> Option<&mut Value> {
        None
    }
    #[inline]
    fn local(&self) -> Option<Local> {
        None
    }
    #[inline]
    fn local_mut(&mut self) -> Option<&mut Local> {
        None
    }
    #[inline]
    fn ty(&self) -> Option<DataType> {
        None
    }
    #[inline]
    fn operands(&self, _: &mut impl FnMut(Operand)) {}
    #[inline]
    fn operands_mut(&mut self, _: &mut impl FnMut(&mut Operand)) {}
    #[inline]
    fn buffers(&self, _: &mut impl FnMut(BufferId)) {}
    #[inline]
    fn buffers_mut(&mut self, _: &mut impl FnMut(&mut BufferId)) {}
    /// An operand behind a buffer is its index; `named` is the buffer before this field.
    #[inline]
    fn elements(&self, _named: &mut Option<BufferId>, _: &mut impl FnMut(BufferId, Operand)) {}
}

impl Field for Value {
    #[inline]
    fn result(&self) -> Option<Value> {
        Some(*self)
    }
    #[inline]
    fn result_mut(&mut self) -> Option<&mut Value> {
        Some(self)
    }
}

impl Field for Option<Value> {
    #[inline]
    fn result(&self) -> Option<Value> {
        *self
    }
    #[inline]
    fn result_mut(&mut self) -> Option<&mut Value> {
        self.as_mut()
    }
}

impl Field for Local {
    #[inline]
    fn local(&self) -> Option<Local> {
        Some(*self)
    }
    #[inline]
    fn local_mut(&mut self) -> Option<&mut Local> {
        Some(self)
    }
}

impl Field for DataType {
    #[inline]
    fn ty(&self) -> Option<DataType> {
        Some(*self)
    }
}

impl Field for Operand {
    #[inline]
    fn operands(&self, f: &mut impl FnMut(Operand)) {
        f(*self);
    }
    #[inline]
    fn operands_mut(&mut self, f: &mut impl FnMut(&mut Operand)) {
        f(self);
    }
    #[inline]
    fn elements(&self, named: &mut Option<BufferId>, f: &mut impl FnMut(BufferId, Operand)) {
        if let Some(buffer) = named.take() {
            f(buffer, *self);
        }
    }
}

macro_rules! several_operands {
    ($($ty:ty),*) => { $(
        impl Field for $ty {
            #[inline]
            fn operands(&self, f: &mut impl FnMut(Operand)) {
                self.iter().for_each(|operand| f(*operand));
            }
            #[inline]
            fn operands_mut(&mut self, f: &mut impl FnMut(&mut Operand)) {
                self.iter_mut().for_each(f);
            }
        }
    )* };
}

several_operands!(Option<Operand>, Args, Vec<Operand>);

impl Field for BufferId {
    #[inline]
    fn buffers(&self, f: &mut impl FnMut(BufferId)) {
        f(*self);
    }
    #[inline]
    fn buffers_mut(&mut self, f: &mut impl FnMut(&mut BufferId)) {
        f(self);
    }
    #[inline]
    fn elements(&self, named: &mut Option<BufferId>, _: &mut impl FnMut(BufferId, Operand)) {
        *named = Some(*self);
    }
}

impl Field for Tile {
    #[inline]
    fn operands(&self, f: &mut impl FnMut(Operand)) {
        f(self.offset);
    }
    #[inline]
    fn operands_mut(&mut self, f: &mut impl FnMut(&mut Operand)) {
        f(&mut self.offset);
    }
    #[inline]
    fn buffers(&self, f: &mut impl FnMut(BufferId)) {
        f(self.buffer);
    }
    #[inline]
    fn buffers_mut(&mut self, f: &mut impl FnMut(&mut BufferId)) {
        f(&mut self.buffer);
    }
    #[inline]
    fn elements(&self, _: &mut Option<BufferId>, f: &mut impl FnMut(BufferId, Operand)) {
        f(self.buffer, self.offset);
    }
}

impl Field for u32 {}
impl Field for Option<u32> {}
impl Field for Option<Axis> {}
impl Field for ReduceOp {}
impl Field for FunctionId {}
impl Field for Block {}
