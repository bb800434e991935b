//! Lines as bytes, both ways: the table of lines says which fields follow a line's tag, and here each kind of field says how
//! it is written and read.

use super::decode::{Reader, Result};
use super::encode::Writer;
use crate::ir::{
    Args, Axis, Block, BufferId, ControlOp, DataType, FunctionId, Local, Node, OpId, Operand, ReadOp,
    ReduceOp, SyncOp, Tile, Value, WriteOp, lines,
};

/// A field of a line that is that op.
trait Field: Sized {
    fn write(&self, op: OpId, to: &mut Writer);
    fn read(op: OpId, from: &mut Reader<'_>) -> Result<Self>;
}

macro_rules! fields {
    ($($ty:ty: |$field:ident, $to:ident| $write:expr, |$from:ident| $read:expr;)*) => { $(
        impl Field for $ty {
            #[inline]
            fn write(&self, _: OpId, $to: &mut Writer) {
                let $field = self;
                $write;
            }
            #[inline]
            fn read(_: OpId, $from: &mut Reader<'_>) -> Result<Self> {
                $read
            }
        }
    )* };
}

fields! {
    u32: |number, to| to.u32(*number), |from| from.u32();
    Option<u32>: |number, to| to.option(*number), |from| from.option();
    Value: |value, to| to.u32(value.0), |from| from.value();
    Option<Value>: |value, to| to.option(value.map(|value| value.0)), |from| from.optional_value();
    Local: |local, to| to.u32(local.0), |from| from.local();
    BufferId: |buffer, to| to.u32(buffer.0), |from| from.buffer_id();
    FunctionId: |function, to| to.u32(function.0), |from| from.function_id();
    Option<Axis>: |axis, to| to.axis(*axis), |from| from.axis();
    ReduceOp: |fold, to| to.byte(*fold as u8), |from| from.reduce_op();
    Operand: |operand, to| to.operand(*operand), |from| from.operand();
    Option<Operand>: |operand, to| to.operands(operand.as_slice()), |from| from.optional_operand();
    Args: |operands, to| to.operands(operands), |from| from.args();
    Vec<Operand>: |operands, to| to.operands(operands), |from| from.operands();
    Tile: |tile, to| to.u32(tile.buffer.0).operand(tile.offset), |from| from.tile();
    // The lines follow behind the line that holds the block.
    Block: |block, to| to.count(block.len()), |from| from.announced();
}

/// Written where the op has a suffix in text; sealing has fixed the others.
impl Field for DataType {
    #[inline]
    fn write(&self, op: OpId, to: &mut Writer) {
        if op.has_suffix() {
            to.ty(*self);
        }
    }
    #[inline]
    fn read(op: OpId, from: &mut Reader<'_>) -> Result<DataType> {
        if op.has_suffix() {
            return from.ty();
        }
        Ok(op.info().result.under(DataType::U32).unwrap_or(DataType::U32))
    }
}

/// The pattern of an op that a line is.
macro_rules! pattern {
    ([$($id:tt)*]) => { $($id)* };
    ([$($id:tt)*] [$($from:tt)*]) => { $($from)* };
}

macro_rules! form {
    ($(
        $(#[$doc:meta])* $line:ident [$($id:tt)*] $(from [$($from:tt)*])?
        $({ $([$op:ident : $group:ty])? $($field:ident : $ty:ty),* })?;
    )*) => {
        /// Writes what follows a line's tag: its fields, and how many lines its blocks have.
        #[inline]
        pub(super) fn write(node: &Node, id: OpId, to: &mut Writer) {
            match node {
                $( Node::$line $({ $($field,)* .. })? => { $($($field.write(id, to);)*)? } )*
            }
        }

        /// Reads the fields of a line with that op. Its blocks are empty, and the reader knows how many lines they have.
        #[inline]
        #[allow(clippy::useless_conversion)] // Most groups of ops are their own field.
        pub(super) fn read(id: OpId, from: &mut Reader<'_>) -> Result<Node> {
            Ok(match id {
                $( pattern!([$($id)*] $([$($from)*])?) => Node::$line $({
                    $($op: $op.into(),)? $($field: Field::read(id, from)?,)*
                })?, )*
            })
        }
    };
}

lines!(form);
