//! What the fields of lines are, for code that does not ask which line it has.
//!
//! A field's type says it: a [`Value`] is assigned, an [`Operand`] is read, a [`BufferId`] is named. What a type does not say
//! here, its fields are not.

use super::node::{Args, Axis, Block, BufferId, FunctionId, Local, Operand, ReduceOp, Tile, Value};
use super::types::DataType;

/// The type of a line's field.
pub(super) trait Field {
    fn result(&self) -> Option<Value> {
        None
    }
    fn result_mut(&mut self) -> Option<&mut Value> {
        None
    }
    fn local(&self) -> Option<Local> {
        None
    }
    fn local_mut(&mut self) -> Option<&mut Local> {
        None
    }
    fn ty(&self) -> Option<DataType> {
        None
    }
    fn operands(&self, _: &mut impl FnMut(Operand)) {}
    fn operands_mut(&mut self, _: &mut impl FnMut(&mut Operand)) {}
    fn buffers(&self, _: &mut impl FnMut(BufferId)) {}
    fn buffers_mut(&mut self, _: &mut impl FnMut(&mut BufferId)) {}
}

impl Field for Value {
    fn result(&self) -> Option<Value> {
        Some(*self)
    }
    fn result_mut(&mut self) -> Option<&mut Value> {
        Some(self)
    }
}

impl Field for Option<Value> {
    fn result(&self) -> Option<Value> {
        *self
    }
    fn result_mut(&mut self) -> Option<&mut Value> {
        self.as_mut()
    }
}

impl Field for Local {
    fn local(&self) -> Option<Local> {
        Some(*self)
    }
    fn local_mut(&mut self) -> Option<&mut Local> {
        Some(self)
    }
}

impl Field for DataType {
    fn ty(&self) -> Option<DataType> {
        Some(*self)
    }
}

impl Field for Operand {
    fn operands(&self, f: &mut impl FnMut(Operand)) {
        f(*self);
    }
    fn operands_mut(&mut self, f: &mut impl FnMut(&mut Operand)) {
        f(self);
    }
}

macro_rules! several_operands {
    ($($ty:ty),*) => { $(
        impl Field for $ty {
            fn operands(&self, f: &mut impl FnMut(Operand)) {
                self.iter().for_each(|operand| f(*operand));
            }
            fn operands_mut(&mut self, f: &mut impl FnMut(&mut Operand)) {
                self.iter_mut().for_each(f);
            }
        }
    )* };
}

several_operands!(Option<Operand>, Args, Vec<Operand>);

impl Field for BufferId {
    fn buffers(&self, f: &mut impl FnMut(BufferId)) {
        f(*self);
    }
    fn buffers_mut(&mut self, f: &mut impl FnMut(&mut BufferId)) {
        f(self);
    }
}

impl Field for Tile {
    fn operands(&self, f: &mut impl FnMut(Operand)) {
        f(self.offset);
    }
    fn operands_mut(&mut self, f: &mut impl FnMut(&mut Operand)) {
        f(&mut self.offset);
    }
    fn buffers(&self, f: &mut impl FnMut(BufferId)) {
        f(self.buffer);
    }
    fn buffers_mut(&mut self, f: &mut impl FnMut(&mut BufferId)) {
        f(&mut self.buffer);
    }
}

impl Field for u32 {}
impl Field for Option<u32> {}
impl Field for Option<Axis> {}
impl Field for ReduceOp {}
impl Field for FunctionId {}
impl Field for Block {}
