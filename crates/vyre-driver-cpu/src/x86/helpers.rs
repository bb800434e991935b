//! What machine code calls for ops that no instruction does: on vectors in memory, a lane at a time.
//!
//! Not here: `vyre_foundation::scalar`. Backends are compared with it, so they compute on their own.
#![allow(unsafe_code)]

use crate::vector::code::{BitOp, Float, FloatOp, IntOp, Kind, Num, Op, Reg};

/// The type of helpers on vectors: `lanes` elements from `a` and `b` to `out`.
type Helper<A, R> = unsafe extern "sysv64" fn(a: *const A, b: *const A, out: *mut R, lanes: u64);

/// A helper's address, from an op on numbers. An op of one operand ignores the second.
macro_rules! helper {
    ($from:ty, $to:ty, $op:expr) => {{
        unsafe extern "sysv64" fn helper(a: *const $from, b: *const $from, out: *mut $to, lanes: u64) {
            let op: fn($from, $from) -> $to = $op;
            for lane in 0..lanes as usize {
                // SAFETY: machine code passes addresses of areas on its stack that have room for `lanes` elements each,
                // aligned to 64.
                unsafe { out.add(lane).write(op(a.add(lane).read(), b.add(lane).read())) };
            }
        }
        let function: Helper<$from, $to> = helper;
        function as usize as u64
    }};
}

/// A helper's address, the op's operands, and what results; `None` where the op has no helper.
pub(super) fn of(op: &Op, kind: impl Fn(Reg) -> Kind) -> Option<(u64, [Option<Reg>; 2], Kind)> {
    let (address, operands, result) = match *op {
        Op::Int(op, a, b) => (int(op, kind(a) == Kind::V64)?, [Some(a), Some(b)], kind(a)),
        Op::Float(FloatOp::Rem, Float::F32, a, b) => {
            (helper!(f32, f32, |a, b| a % b), [Some(a), Some(b)], Kind::V32)
        }
        Op::Float(FloatOp::Rem, Float::F64, a, b) => {
            (helper!(f64, f64, |a, b| a % b), [Some(a), Some(b)], Kind::V64)
        }
        Op::Bit(BitOp::Clz, a) => {
            let address = match kind(a) {
                Kind::V64 => helper!(u64, u64, |a, _| a.leading_zeros().into()),
                _ => helper!(u32, u32, |a, _| a.leading_zeros()),
            };
            (address, [Some(a), None], kind(a))
        }
        Op::Convert { from, to, value } => {
            let result = if to.is_wide() { Kind::V64 } else { Kind::V32 };
            (convert(from, to)?, [Some(value), None], result)
        }
        _ => return None,
    };
    Some((address, operands, result))
}

fn int(op: IntOp, wide: bool) -> Option<u64> {
    Some(match (op, wide) {
        (IntOp::DivU, false) => helper!(u32, u32, |a, b| a.checked_div(b).unwrap_or(a)),
        (IntOp::DivU, true) => helper!(u64, u64, |a, b| a.checked_div(b).unwrap_or(a)),
        (IntOp::DivS, false) => helper!(i32, i32, |a, b| if b == 0 { a } else { a.wrapping_div(b) }),
        (IntOp::DivS, true) => helper!(i64, i64, |a, b| if b == 0 { a } else { a.wrapping_div(b) }),
        (IntOp::RemU, false) => helper!(u32, u32, |a, b| a.checked_rem(b).unwrap_or(0)),
        (IntOp::RemU, true) => helper!(u64, u64, |a, b| a.checked_rem(b).unwrap_or(0)),
        (IntOp::RemS, false) => helper!(i32, i32, |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }),
        (IntOp::RemS, true) => helper!(i64, i64, |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }),
        (IntOp::MulHiU, true) => helper!(u64, u64, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64),
        (IntOp::MulHiS, true) => helper!(i64, i64, |a, b| ((i128::from(a) * i128::from(b)) >> 64) as i64),
        _ => return None,
    })
}

/// Rust's casts are what the code wants: rounded once, saturating, NaN to 0.
fn convert(from: Num, to: Num) -> Option<u64> {
    Some(match (from, to) {
        (Num::U32, Num::F32) => helper!(u32, f32, |a, _| a as f32),
        (Num::U32, Num::F64) => helper!(u32, f64, |a, _| f64::from(a)),
        (Num::U64, Num::F32) => helper!(u64, f32, |a, _| a as f32),
        (Num::U64, Num::F64) => helper!(u64, f64, |a, _| a as f64),
        (Num::I64, Num::F32) => helper!(i64, f32, |a, _| a as f32),
        (Num::I64, Num::F64) => helper!(i64, f64, |a, _| a as f64),
        (Num::F32, Num::U32) => helper!(f32, u32, |a, _| a as u32),
        (Num::F32, Num::I32) => helper!(f32, i32, |a, _| a as i32),
        (Num::F32, Num::U64) => helper!(f32, u64, |a, _| a as u64),
        (Num::F32, Num::I64) => helper!(f32, i64, |a, _| a as i64),
        (Num::F64, Num::U32) => helper!(f64, u32, |a, _| a as u32),
        (Num::F64, Num::I32) => helper!(f64, i32, |a, _| a as i32),
        (Num::F64, Num::U64) => helper!(f64, u64, |a, _| a as u64),
        (Num::F64, Num::I64) => helper!(f64, i64, |a, _| a as i64),
        _ => return None,
    })
}
