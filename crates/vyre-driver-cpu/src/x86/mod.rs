//! Machine code for x86-64 with AVX-512 or AVX2.
//!
//! [`allocate`] says what each step wants of registers, in the terms of `regalloc2`, whose checker looks over [`fit`] in debug
//! builds: that one allocates, spilling included. [`encode`] encodes as `iced-x86` does. [`ops`] has the table from ops to
//! instructions, [`lanes`] those on vectors and [`memory`] accesses; [`rows`] lists the vector instructions, [`helpers`]
//! what rare ops call instead. A vector is one register of 128, 256 or 512 bits; masks are mask registers, or vectors on AVX2.
//!
//! Not here: other calling conventions than that of Unix.

mod allocate;
mod asm;
mod emit;
mod encode;
mod fit;
mod helpers;
mod lanes;
mod memory;
mod ops;
mod rows;
#[cfg(test)]
#[path = "../../tests/unit/x86.rs"]
mod tests;

pub(crate) use asm::Level;

use crate::executable::MachineCode;
use crate::vector::code::{FloatOp, FloatUnOp, Function, Kind, Num, Op};
use crate::vector::lower::Shape;

impl Level {
    /// The best of this processor; `None` if it has neither.
    pub(crate) fn detect() -> Option<Level> {
        let has = |level: &Level| level.is_there();
        [Level::Avx512, Level::Avx2].into_iter().find(has)
    }

    /// Whether this processor has all of it.
    pub(crate) fn is_there(self) -> bool {
        let old = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("lzcnt")
            && std::is_x86_feature_detected!("popcnt")
            && std::is_x86_feature_detected!("f16c");
        let new = || {
            std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512dq")
                && std::is_x86_feature_detected!("avx512vl")
                && std::is_x86_feature_detected!("avx512cd")
        };
        old && (self == Level::Avx2 || new())
    }

    /// The vectors this emitter wants.
    pub(crate) const fn shape(self) -> Shape {
        match self {
            Level::Avx512 => Shape { lanes: 16, lanes_wide: 8, vectors_max: 4, registers: 30 },
            Level::Avx2 => Shape { lanes: 8, lanes_wide: 4, vectors_max: 4, registers: 16 },
        }
    }
}

/// Machine code of a function; `Err` says why there is none. Made for [`Level::shape`].
pub(crate) fn compile(function: &Function, level: Level) -> Result<MachineCode, String> {
    let shape = level.shape();
    let wide = function.kinds.contains(&Kind::V64);
    let fits = function.lanes == shape.lanes_wide
        || function.lanes == shape.lanes && (!wide || has_same_lanes(function));
    if !fits {
        return Err(format!("{level:?} has no vectors of {} lanes", function.lanes));
    }
    emit::emit(function, level)
}

/// Whether all that a function does with 64-bit lanes is as good with half of them, which hold the same.
fn has_same_lanes(function: &Function) -> bool {
    let mut insts = function.blocks.iter().flat_map(|block| &block.insts);
    insts.all(|inst| {
        let mut wide = inst.result.is_some_and(|result| function.kind(result) == Kind::V64);
        inst.op.for_each_operand(|reg| wide |= function.kind(reg) == Kind::V64);
        let each_lane = matches!(
            inst.op,
            Op::Const(_)
                | Op::Float(FloatOp::Add | FloatOp::Sub | FloatOp::Mul | FloatOp::Div, ..)
                | Op::FloatUn(FloatUnOp::Sqrt, ..)
                | Op::Convert { from: Num::F32, to: Num::F64, .. }
                | Op::Convert { from: Num::F64, to: Num::F32, .. }
        );
        !wide || each_lane
    })
}
