//! The program form that everything else reads: types, the op table, nodes, programs and the builder.

pub mod builder;
mod class;
mod field;
mod node;
mod op;
mod program;
mod types;
mod walk;

pub use class::{collective, control, int_or_bool};
pub(crate) use node::lines;
pub use node::{
    Args, Axis, Block, BufferId, FunctionId, Literal, Local, MemoryOrdering, Node, Operand, ReduceOp, Tile,
    Value,
};
pub use op::{
    ArgType, AtomicOp, BuiltinOp, ComputeOp, ControlOp, Effect, Exchange, OpId, OpInfo, ReadOp, ResultType,
    SubgroupOp, Sweep, SyncOp, WriteOp,
};
pub use program::{
    Body, Buffer, BufferKind, Digest, Function, Name, Program, ProgramError, ProgramParts, is_name,
};
pub use types::{DataType, TypeSet};
pub use walk::{value_types, walk};
