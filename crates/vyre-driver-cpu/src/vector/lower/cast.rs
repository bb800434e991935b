//! The ops between two types.
//!
//! Where a machine's conversion would round twice, the first step rounds to odd, or keeps a bit that says that something was
//! dropped: the second step then sees on which side of every midpoint the exact value lies.

use super::Lower;
use super::compute::{carrier, infinity};
use crate::vector::code::{Float, FloatCond, IntCond, IntOp, Kind, Num, Op, Reg, ShiftOp};
use vyre_foundation::ir::DataType;

/// The number's type in registers.
fn num(ty: DataType) -> Num {
    match ty {
        DataType::U32 | DataType::U8 | DataType::U16 | DataType::Bool => Num::U32,
        DataType::I32 | DataType::I8 | DataType::I16 => Num::I32,
        DataType::U64 => Num::U64,
        DataType::I64 => Num::I64,
        DataType::F16 | DataType::BF16 | DataType::F32 => Num::F32,
        DataType::F64 => Num::F64,
    }
}

/// One, as registers hold it.
pub(super) fn one(ty: DataType) -> u64 {
    match num(ty) {
        Num::F32 => 0x3f80_0000,
        Num::F64 => 0x3ff0_0000_0000_0000,
        Num::U32 | Num::I32 | Num::U64 | Num::I64 => 1,
    }
}

impl Lower<'_> {
    pub(super) fn cast(&mut self, from: DataType, to: DataType, a: Reg) -> Reg {
        if from == to {
            return a;
        }
        if from == DataType::Bool {
            let in_lanes = self.b.kind(a) == Kind::Mask;
            let kind = if in_lanes { super::varying_kind(to) } else { super::uniform_kind(to) };
            let (one, zero) = (self.b.const_(kind, one(to)), self.b.const_(kind, 0));
            return self.choose(a, one, zero);
        }
        if to == DataType::Bool {
            let zero = self.const_like(a, 0);
            return match from.is_float() {
                true => self.b.emit(Op::FloatCmp(FloatCond::Ne, carrier(from), a, zero)),
                false => self.b.cmp(IntCond::Ne, a, zero),
            };
        }
        match (from.is_float(), to.is_float()) {
            (false, false) if from.bits() == to.bits() => a,
            (false, false) => self.b.convert(num(from), num(to), a),
            (true, false) => self.b.convert(num(from), num(to), a),
            (false, true) => {
                // Floats are vectors, also where all lanes are equal.
                let a = self.spread_reg(a, from);
                self.int_to_float(from, to, a)
            }
            (true, true) => self.float_to_float(from, to, a),
        }
    }

    fn int_to_float(&mut self, from: DataType, to: DataType, a: Reg) -> Reg {
        match (to, from) {
            // Below 2^24 the f32 is exact; from there on the f16 is infinite either way.
            (DataType::F16, DataType::U32 | DataType::I32) => {
                let float = self.b.convert(num(from), Num::F32, a);
                self.round_to(to, float)
            }
            (DataType::F16, _) => {
                let limit = 1u64 << 20;
                let near = match from == DataType::I64 {
                    true => {
                        let above = self.b.int_const(IntOp::MaxS, a, limit.wrapping_neg());
                        self.b.int_const(IntOp::MinS, above, limit)
                    }
                    false => self.b.int_const(IntOp::MinU, a, limit),
                };
                let word = self.b.convert(Num::U64, Num::U32, near);
                let float = self.b.convert(Num::I32, Num::F32, word);
                self.round_to(to, float)
            }
            (DataType::BF16, _) => {
                // The sign apart: what is dropped below is dropped from the magnitude.
                let magnitude = if from.is_signed() {
                    let negative = self.negate(a);
                    self.b.int(IntOp::MaxS, a, negative)
                } else {
                    a
                };
                let rounded = if from.bits() == 32 {
                    let kept = self.keep_sticky(magnitude, 24, 8);
                    self.b.convert(Num::U32, Num::F32, kept)
                } else {
                    let kept = self.keep_sticky(magnitude, 53, 11);
                    let wide = self.b.convert(Num::U64, Num::F64, kept);
                    self.narrow_odd(wide)
                };
                let rounded = self.round_to(to, rounded);
                if !from.is_signed() {
                    return rounded;
                }
                let zero = self.const_like(a, 0);
                let negative = self.b.cmp(IntCond::LtS, a, zero);
                let flipped = self.b.int_const(IntOp::Xor, rounded, 1 << 31);
                self.choose(negative, flipped, rounded)
            }
            _ => self.b.convert(num(from), num(to), a),
        }
    }

    /// A magnitude of which at most `digits` bits are left from its top: where there are more, the lowest `drop` bits
    /// become one bit above them that says whether any was set. (`digits + drop` is the width.)
    fn keep_sticky(&mut self, a: Reg, digits: u32, drop: u32) -> Reg {
        let low = self.b.int_const(IntOp::And, a, (1 << drop) - 1);
        let sticky = self.b.int_const(IntOp::MinU, low, 1);
        let sticky = self.b.shift_const(ShiftOp::Shl, sticky, drop);
        let high = self.b.int(IntOp::Xor, a, low);
        let cut = self.b.int(IntOp::Or, high, sticky);
        let limit = self.const_like(a, 1 << digits);
        let short = self.b.cmp(IntCond::LtU, a, limit);
        self.choose(short, a, cut)
    }

    fn float_to_float(&mut self, from: DataType, to: DataType, a: Reg) -> Reg {
        match (from, to) {
            (DataType::F64, DataType::F32) => self.b.convert(Num::F64, Num::F32, a),
            (DataType::F64, _) => {
                let narrow = self.narrow_odd(a);
                self.round_to(to, narrow)
            }
            (_, DataType::F64) => self.b.convert(Num::F32, Num::F64, a),
            // From 16 bits to f32, and between the 16-bit types, registers hold the exact value.
            _ => self.round_to(to, a),
        }
    }

    /// An f64 as f32, rounded to odd: toward zero, and the last bit set if that was inexact.
    pub(super) fn narrow_odd(&mut self, a: Reg) -> Reg {
        let near = self.b.convert(Num::F64, Num::F32, a);
        let back = self.b.convert(Num::F32, Num::F64, near);
        let [size, back_size] = [a, back].map(|reg| self.b.int_const(IntOp::And, reg, u64::MAX >> 1));
        // Magnitudes compare like their bits.
        let too_far = self.b.cmp(IntCond::LtU, size, back_size);
        let inexact = self.b.emit(Op::FloatCmp(FloatCond::Ne, Float::F64, a, back));
        let less = self.b.int_const(IntOp::Sub, near, 1);
        let toward_zero = self.choose(too_far, less, near);
        let odd = self.b.int_const(IntOp::Or, toward_zero, 1);
        let result = self.choose(inexact, odd, near);
        // A NaN is no number to step from.
        let nan = self.b.emit(Op::FloatCmp(FloatCond::Unordered, Float::F64, a, a));
        self.choose(nan, near, result)
    }

    /// An f32 on the grid of a 16-bit type, rounded to nearest even; for wider types as it is.
    pub(super) fn round_to(&mut self, ty: DataType, a: Reg) -> Reg {
        match ty {
            DataType::F16 => {
                let half = self.b.emit(Op::FloatToHalf(a));
                self.b.emit(Op::HalfToFloat(half))
            }
            DataType::BF16 => {
                let above = self.b.shift_const(ShiftOp::ShrU, a, 16);
                let last = self.b.int_const(IntOp::And, above, 1);
                let half = self.b.int_const(IntOp::Add, last, 0x7fff);
                let sum = self.b.int(IntOp::Add, a, half);
                let rounded = self.b.int_const(IntOp::And, sum, 0xffff_0000);
                let nan = self.b.emit(Op::FloatCmp(FloatCond::Unordered, Float::F32, a, a));
                let quiet = self.const_like(a, 0x7fc0_0000);
                self.choose(nan, quiet, rounded)
            }
            _ => a,
        }
    }

    /// A NaN's canonical bits, anything else as it is.
    pub(super) fn observe(&mut self, float: Float, a: Reg) -> Reg {
        let nan = self.b.emit(Op::FloatCmp(FloatCond::Unordered, float, a, a));
        // The first bit behind the exponent makes it quiet.
        let quiet = self.const_like(a, infinity(float) | infinity(float) >> 1 & !infinity(float));
        self.choose(nan, quiet, a)
    }

    pub(super) fn bitcast(&mut self, from: DataType, to: DataType, a: Reg) -> Reg {
        let bits = match from {
            DataType::F16 => {
                let half = self.b.emit(Op::FloatToHalf(a));
                let nan = self.b.emit(Op::FloatCmp(FloatCond::Unordered, Float::F32, a, a));
                let quiet = self.const_like(a, 0x7e00);
                self.choose(nan, quiet, half)
            }
            DataType::BF16 => {
                let seen = self.observe(Float::F32, a);
                self.b.shift_const(ShiftOp::ShrU, seen, 16)
            }
            DataType::F32 | DataType::F64 => self.observe(carrier(from), a),
            _ => a,
        };
        if !to.is_float() {
            return bits;
        }
        let bits = self.spread_reg(bits, from);
        match to {
            DataType::F16 => self.b.emit(Op::HalfToFloat(bits)),
            DataType::BF16 => self.b.shift_const(ShiftOp::Shl, bits, 16),
            _ => bits,
        }
    }
}
