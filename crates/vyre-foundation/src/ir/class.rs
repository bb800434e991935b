//! Alternatives that go together, as patterns: `collective!() => ...`. They keep complete matches short.
//!
//! A new line or type joins the class that it belongs to, and the build shows every match that must say more.

/// Lines that all ranks run together, as a pattern.
#[macro_export]
#[doc(hidden)]
macro_rules! collective {
    () => {
        $crate::ir::Node::AllReduce { .. }
            | $crate::ir::Node::AllGather { .. }
            | $crate::ir::Node::ReduceScatter { .. }
            | $crate::ir::Node::Broadcast { .. }
    };
}

/// Lines that say which line comes next, as a pattern.
#[macro_export]
#[doc(hidden)]
macro_rules! control {
    () => {
        $crate::ir::Node::If { .. }
            | $crate::ir::Node::For { .. }
            | $crate::ir::Node::Break
            | $crate::ir::Node::Continue
            | $crate::ir::Node::Call { .. }
            | $crate::ir::Node::Return { .. }
    };
}

/// Types that are no floats, as a pattern.
#[macro_export]
#[doc(hidden)]
macro_rules! int_or_bool {
    () => {
        $crate::ir::DataType::Bool
            | $crate::ir::DataType::U8
            | $crate::ir::DataType::I8
            | $crate::ir::DataType::U16
            | $crate::ir::DataType::I16
            | $crate::ir::DataType::U32
            | $crate::ir::DataType::I32
            | $crate::ir::DataType::U64
            | $crate::ir::DataType::I64
    };
}

pub use crate::{collective, control, int_or_bool};
