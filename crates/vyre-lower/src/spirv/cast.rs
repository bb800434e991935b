//! Ops between types: one rounding from the exact value. Casts that would take two are soft, and do not come here.

use super::body::Emit;
use super::float::{infinity, word_of};
use super::words::Id;
use spirv::Op;
use vyre_foundation::ir::{ComputeOp, DataType, Literal, ReduceOp};
use vyre_foundation::scalar::identity;

impl Emit<'_, '_> {
    pub(super) fn cast(&mut self, to: DataType, from: DataType, x: Id) -> Id {
        match (to, from) {
            _ if to == from => x,
            (DataType::Bool, _) => {
                // NaN has a magnitude too.
                let word = word_of(from);
                let bits = if from.is_float() { self.magnitude(from, x) } else { x };
                let zero = self.bits(word, 0);
                self.integer(ComputeOp::Ne, word, &[bits, zero])
            }
            (_, DataType::Bool) => {
                let one = identity(ReduceOp::Mul, to);
                let [one, zero] = [one, 0].map(|bits| match to.is_float() {
                    true => self.hidden(Literal::from_bits(to, bits)),
                    false => self.bits(to, bits),
                });
                self.select(to, x, one, zero)
            }
            _ if to.is_float() && from.is_float() => self.float_to_float(to, from, x),
            _ if to.is_float() => {
                let op = if from.is_signed() { Op::ConvertSToF } else { Op::ConvertUToF };
                let float = self.exact(op, to, &[x]);
                // A compiler may know the integer, as that of an unrolled loop.
                self.hide(to, float)
            }
            _ if from.is_float() => self.float_to_integer(to, from, x),
            _ => self.integer_to_integer(to, from, x),
        }
    }

    fn integer_to_integer(&mut self, to: DataType, from: DataType, x: Id) -> Id {
        match (to.bits(), from.bits()) {
            (64, 32) if self.is_pair(to) => {
                let last = self.word(31);
                let high = match from.is_signed() {
                    true => self.word_op(Op::ShiftRightArithmetic, &[x, last]),
                    false => self.word(0),
                };
                self.join(to, [x, high])
            }
            (32, 64) if self.is_pair(from) => self.halves(x)[0],
            (64, 32) => {
                let ty = self.ty(to);
                self.op(if from.is_signed() { Op::SConvert } else { Op::UConvert }, ty, &[x])
            }
            (32, 64) => self.word_op(Op::UConvert, &[x]),
            _ => x,
        }
    }

    fn float_to_float(&mut self, to: DataType, from: DataType, x: Id) -> Id {
        match (to, from) {
            (DataType::F32 | DataType::F64, DataType::F32 | DataType::F64) => {
                self.exact(Op::FConvert, to, &[x])
            }
            (_, DataType::F16 | DataType::BF16) => {
                let wide = self.widen(from, x);
                self.cast(to, DataType::F32, wide)
            }
            _ => self.narrow(to, x),
        }
    }

    /// Saturates; NaN gives 0. Out of range the instruction may give anything, so it gets a zero there.
    fn float_to_integer(&mut self, to: DataType, from: DataType, x: Id) -> Id {
        if from.bits() == 16 {
            let wide = self.widen(from, x);
            return self.float_to_integer(to, DataType::F32, wide);
        }
        let word = word_of(from);
        let magnitude = self.magnitude(from, x);
        let [infinity, zero] = [infinity(from), 0].map(|bits| self.bits(word, bits));
        let number = self.integer(ComputeOp::Le, word, &[magnitude, infinity]);
        // The first power of two that is too large.
        let bits = to.bits() - u32::from(to.is_signed());
        let (bias, fraction) = if from == DataType::F64 { (1023, 52) } else { (127, 23) };
        let limit = self.bits(word, (bias + u64::from(bits)) << fraction);
        let inside = self.integer(ComputeOp::Lt, word, &[magnitude, limit]);
        let raw = self.bits_of(from, x);
        let signed = if word == DataType::U64 { DataType::I64 } else { DataType::I32 };
        let negative = self.integer(ComputeOp::Lt, signed, &[raw, zero]);
        let converts = match to.is_signed() {
            true => inside,
            false => {
                let plus = self.bool_op(Op::LogicalNot, &[negative]);
                self.bool_op(Op::LogicalAnd, &[inside, plus])
            }
        };
        let safe = self.select(word, converts, raw, zero);
        let safe = self.float_of(from, safe);
        let ty = self.ty(to);
        let converted = self.op(if to.is_signed() { Op::ConvertFToS } else { Op::ConvertFToU }, ty, &[safe]);
        let [least, most] = [ReduceOp::Max, ReduceOp::Min].map(|fold| self.bits(to, identity(fold, to)));
        let bound = self.select(to, negative, least, most);
        let outside = self.bool_op(Op::LogicalNot, &[inside]);
        let saturates = self.bool_op(Op::LogicalAnd, &[outside, number]);
        self.select(to, saturates, bound, converted)
    }

    pub(super) fn bitcast(&mut self, to: DataType, from: DataType, x: Id) -> Id {
        let bits = self.observe(from, x);
        // A compiler may know the integer, as that of a load out of bounds.
        let bits = if to.is_float() && !from.is_float() { self.hide_bits(to, bits) } else { bits };
        match to {
            DataType::F16 | DataType::BF16 if from.bits() == 32 => {
                let mask = self.word(0xffff);
                self.word_op(Op::BitwiseAnd, &[bits, mask])
            }
            _ => self.float_of(to, bits),
        }
    }
}
