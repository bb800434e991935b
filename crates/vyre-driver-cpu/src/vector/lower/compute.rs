//! The ops on a lane's own values.
//!
//! Every helper works on whatever kind of register it is given: integers in scalars or vectors, truth values in `S32` or
//! masks. Floats are always vectors, those of 16 bits as f32 that lie on the narrow type's grid: add, sub, mul, div and sqrt
//! in f32 and then rounded give the correctly rounded narrow result, because 24 >= 2 * 11 + 2. `fma` is the exception.

use super::{Bases, Lanes, Linear, Lower, Val};
use crate::vector::code::{
    BitOp, Float, FloatCond, FloatOp, FloatUnOp, IntCond, IntOp, Kind, MaskOp, Num, Op, Reg, ShiftOp,
};
use smallvec::SmallVec;
use vyre_foundation::ir::{Args, ComputeOp, DataType, Operand, Value};
use vyre_lower::index::stride;

/// How a float type computes.
pub(super) const fn carrier(ty: DataType) -> Float {
    if matches!(ty, DataType::F64) { Float::F64 } else { Float::F32 }
}

impl Lower<'_> {
    /// One line of computing.
    pub(super) fn compute_line(&mut self, result: Value, op: ComputeOp, ty: DataType, args: &Args) -> Val {
        let source = args.first().map_or(ty, |arg| self.plan.ty(*arg));
        let result_ty = op.info().result.under(ty).unwrap_or(ty);
        if self.plan.uniform[result.index()] {
            let regs: Lanes = args.iter().map(|arg| self.scalar(*arg)).collect();
            let reg = self.compute(op, ty, source, &regs);
            let few = self.plan.few_wide && source == DataType::F64 && ty == DataType::F32;
            let reg = if few { self.equal_lanes(reg, ty) } else { reg };
            return Val::Uniform(self.join_reg(reg, result_ty));
        }
        if let Some(line) = self.line(op, ty, source, args) {
            return self.linear(line);
        }
        let operands: SmallVec<[Lanes; 3]> = args.iter().map(|arg| self.vectors(*arg)).collect();
        let mut lanes = Lanes::new();
        for at in 0..self.vectors {
            let mut regs = Lanes::new();
            operands.iter().for_each(|operand| regs.push(operand[at]));
            lanes.push(self.compute(op, ty, source, &regs));
        }
        Val::Varying(lanes, None)
    }

    /// The line that an operand is, if it is one.
    pub(super) fn line_of(&mut self, operand: Operand) -> Option<Linear> {
        let value = operand.value()?;
        if self.values[value.index()].is_none() && !self.plan.again[value.index()] {
            return None;
        }
        match self.value(value) {
            Val::Varying(_, line) => line,
            Val::Uniform(_) => None,
        }
    }

    /// An operand of 32 bits that is the same for the lanes in flight: uniform, or a line that does not grow.
    pub(super) fn flat(&mut self, operand: Operand) -> Option<Reg> {
        if !matches!(self.plan.ty(operand), DataType::U32 | DataType::I32) {
            return None;
        }
        if self.plan.is_uniform(operand) {
            return Some(self.scalar(operand));
        }
        self.line_of(operand)?.flat()
    }

    /// The line that an op on lines gives.
    fn line(&mut self, op: ComputeOp, ty: DataType, source: DataType, args: &Args) -> Option<Linear> {
        let narrow = |ty| matches!(ty, DataType::U32 | DataType::I32);
        if !narrow(op.info().result.under(ty).unwrap_or(ty)) || !narrow(source) {
            return None;
        }
        let lines: SmallVec<[Option<Linear>; 4]> = args.iter().map(|arg| self.line_of(*arg)).collect();
        if lines.iter().all(Option::is_none) {
            return None;
        }
        // Something uniform is a line that does not grow.
        let mut all: SmallVec<[Linear; 4]> = SmallVec::new();
        for (arg, line) in args.iter().zip(lines) {
            all.push(match line {
                Some(line) => line,
                None => Linear { bases: Bases::Row(self.flat(*arg)?), stride: 0 },
            });
        }
        let strides: SmallVec<[u32; 4]> = all.iter().map(|line| line.stride).collect();
        let constant =
            |at: usize| all[at].flat().and_then(|reg| self.b.constant(reg)).map(|bits| bits as u32);
        let stride = stride(op, &strides, constant)?;
        if stride != 0 && matches!(op, ComputeOp::Bitcast | ComputeOp::Cast) {
            return Some(all[0].clone());
        }
        let row: Option<Lanes> = all
            .iter()
            .map(|line| if let Bases::Row(base) = line.bases { Some(base) } else { None })
            .collect();
        if let Some(row) = row {
            return Some(Linear { bases: Bases::Row(self.compute(op, ty, source, &row)), stride });
        }
        let starts: Vec<Lanes> = all.iter().map(|line| self.bases(line)).collect();
        let bases = (0..self.vectors)
            .map(|at| {
                let regs: Lanes = starts.iter().map(|starts| starts[at]).collect();
                self.compute(op, ty, source, &regs)
            })
            .collect();
        Some(Linear { bases: Bases::Each(bases), stride })
    }

    /// An operand of 32 bits that is the same for the lanes of each vector: one register a vector.
    pub(super) fn steady(&mut self, operand: Operand) -> Option<Lanes> {
        if let Some(reg) = self.flat(operand) {
            return Some(SmallVec::from_elem(reg, self.vectors));
        }
        match self.line_of(operand)? {
            Linear { bases: Bases::Each(bases), stride: 0 } => Some(bases),
            Linear { .. } => None,
        }
    }

    /// An op on registers.
    pub(super) fn compute(&mut self, op: ComputeOp, ty: DataType, source: DataType, x: &[Reg]) -> Reg {
        match op {
            ComputeOp::Select => return self.choose(x[0], x[1], x[2]),
            ComputeOp::Cast => return self.cast(source, ty, x[0]),
            ComputeOp::Bitcast => return self.bitcast(source, ty, x[0]),
            _ => {}
        }
        match ty {
            DataType::Bool => self.bool_op(op, x),
            ty if ty.is_float() => self.float_op(op, ty, x),
            ty => self.int_op(op, ty.is_signed(), x),
        }
    }

    // Truth values.

    /// `a` where `cond` holds, else `b`; also of masks.
    pub(super) fn choose(&mut self, cond: Reg, a: Reg, b: Reg) -> Reg {
        if self.b.kind(cond) == Kind::Mask && self.b.kind(a) == Kind::Mask {
            let yes = self.b.emit(Op::Mask(MaskOp::And, cond, a));
            let no = self.b.emit(Op::Mask(MaskOp::AndNot, b, cond));
            return self.b.emit(Op::Mask(MaskOp::Or, yes, no));
        }
        self.b.emit(Op::Select(cond, a, b))
    }

    pub(super) fn not(&mut self, cond: Reg) -> Reg {
        match self.b.kind(cond) {
            Kind::Mask => self.b.emit(Op::MaskNot(cond)),
            _ => self.b.int_const(IntOp::Xor, cond, 1),
        }
    }

    pub(super) fn both(&mut self, op: MaskOp, a: Reg, b: Reg) -> Reg {
        if self.b.kind(a) == Kind::Mask {
            return self.b.emit(Op::Mask(op, a, b));
        }
        let int = match op {
            MaskOp::And => IntOp::And,
            MaskOp::Or => IntOp::Or,
            MaskOp::Xor => IntOp::Xor,
            MaskOp::AndNot => IntOp::AndNot,
        };
        self.b.int(int, a, b)
    }

    fn bool_op(&mut self, op: ComputeOp, x: &[Reg]) -> Reg {
        match op {
            ComputeOp::And => self.both(MaskOp::And, x[0], x[1]),
            ComputeOp::Or => self.both(MaskOp::Or, x[0], x[1]),
            ComputeOp::Xor | ComputeOp::Ne => self.both(MaskOp::Xor, x[0], x[1]),
            ComputeOp::Not => self.not(x[0]),
            ComputeOp::Eq => {
                let differ = self.both(MaskOp::Xor, x[0], x[1]);
                self.not(differ)
            }
            other => unreachable!("the op table has no {} of bool", other.info().name),
        }
    }

    // Integers.

    pub(super) fn const_like(&mut self, like: Reg, bits: u64) -> Reg {
        self.b.const_(self.b.kind(like), bits)
    }

    fn bits(&self, reg: Reg) -> u32 {
        self.b.kind(reg).bits()
    }

    /// A shift by a register of 32 bits that is below the width.
    fn shift(&mut self, op: ShiftOp, a: Reg, amount: Reg) -> Reg {
        if let Some(amount) = self.b.constant(amount) {
            return self.b.shift_const(op, a, amount as u32);
        }
        let amount = if self.bits(a) == 64 { self.b.convert(Num::U32, Num::U64, amount) } else { amount };
        self.b.emit(Op::Shift(op, a, amount))
    }

    /// A shift by a register of 32 bits, modulo the width.
    fn shift_modulo(&mut self, op: ShiftOp, a: Reg, amount: Reg) -> Reg {
        let amount = self.b.int_const(IntOp::And, amount, u64::from(self.bits(a)) - 1);
        self.shift(op, a, amount)
    }

    fn int_op(&mut self, op: ComputeOp, signed: bool, x: &[Reg]) -> Reg {
        let (a, b) = (x[0], x.get(1).copied().unwrap_or(x[0]));
        let shr = by_sign(signed, ShiftOp::ShrU, ShiftOp::ShrS);
        let (min, max) =
            (by_sign(signed, IntOp::MinU, IntOp::MinS), by_sign(signed, IntOp::MaxU, IntOp::MaxS));
        let (lt, le) =
            (by_sign(signed, IntCond::LtU, IntCond::LtS), by_sign(signed, IntCond::LeU, IntCond::LeS));
        match op {
            ComputeOp::Add => self.b.int(IntOp::Add, a, b),
            ComputeOp::Sub => self.b.int(IntOp::Sub, a, b),
            ComputeOp::Mul => self.b.int(IntOp::Mul, a, b),
            ComputeOp::Div => self.b.int(by_sign(signed, IntOp::DivU, IntOp::DivS), a, b),
            ComputeOp::Rem => self.b.int(by_sign(signed, IntOp::RemU, IntOp::RemS), a, b),
            ComputeOp::MulHi => self.b.int(by_sign(signed, IntOp::MulHiU, IntOp::MulHiS), a, b),
            ComputeOp::And => self.b.int(IntOp::And, a, b),
            ComputeOp::Or => self.b.int(IntOp::Or, a, b),
            ComputeOp::Xor => self.b.int(IntOp::Xor, a, b),
            ComputeOp::Not => self.b.int_const(IntOp::Xor, a, u64::MAX),
            ComputeOp::Neg => self.negate(a),
            ComputeOp::Abs => {
                let negative = self.negate(a);
                self.b.int(IntOp::MaxS, a, negative)
            }
            ComputeOp::Min => self.b.int(min, a, b),
            ComputeOp::Max => self.b.int(max, a, b),
            ComputeOp::AddSat | ComputeOp::SubSat => self.saturating(op, signed, a, b),
            ComputeOp::Shl => self.shift_modulo(ShiftOp::Shl, a, b),
            ComputeOp::Shr => self.shift_modulo(shr, a, b),
            ComputeOp::Rotl => self.shift_modulo(ShiftOp::RotL, a, b),
            ComputeOp::Rotr => {
                let back = self.negate(b);
                self.shift_modulo(ShiftOp::RotL, a, back)
            }
            ComputeOp::Popcount => self.b.emit(Op::Bit(BitOp::Popcount, a)),
            ComputeOp::Clz => self.b.emit(Op::Bit(BitOp::Clz, a)),
            ComputeOp::Ctz if self.b.kind(a).is_scalar() => self.b.emit(Op::Bit(BitOp::Ctz, a)),
            ComputeOp::Ctz => {
                // The bits below the lowest one, counted; all of them for 0.
                let before = self.b.int_const(IntOp::Sub, a, 1);
                let below = self.b.int(IntOp::AndNot, before, a);
                self.b.emit(Op::Bit(BitOp::Popcount, below))
            }
            ComputeOp::ReverseBits => self.reverse(a),
            ComputeOp::Extract => self.extract(signed, a, b, x[2]),
            ComputeOp::Insert => self.insert(a, b, x[2], x[3]),
            ComputeOp::Dot4 => self.dot4(shr, a, b, x[2]),
            ComputeOp::Eq => self.b.cmp(IntCond::Eq, a, b),
            ComputeOp::Ne => self.b.cmp(IntCond::Ne, a, b),
            ComputeOp::Lt => self.b.cmp(lt, a, b),
            ComputeOp::Le => self.b.cmp(le, a, b),
            ComputeOp::Gt => self.b.cmp(lt, b, a),
            ComputeOp::Ge => self.b.cmp(le, b, a),
            other => unreachable!("prepared: no {} of integers", other.info().name),
        }
    }

    pub(super) fn negate(&mut self, a: Reg) -> Reg {
        let zero = self.const_like(a, 0);
        self.b.int(IntOp::Sub, zero, a)
    }

    fn saturating(&mut self, op: ComputeOp, signed: bool, a: Reg, b: Reg) -> Reg {
        let add = op == ComputeOp::AddSat;
        if !signed && !add {
            let more = self.b.int(IntOp::MaxU, a, b);
            return self.b.int(IntOp::Sub, more, b);
        }
        let result = self.b.int(if add { IntOp::Add } else { IntOp::Sub }, a, b);
        if !signed {
            let wrapped = self.b.cmp(IntCond::LtU, result, a);
            let most = self.const_like(a, u64::MAX);
            return self.choose(wrapped, most, result);
        }
        // A sum overflows if both operands' signs differ from its own; a difference if the operands' differ.
        let first = self.b.int(IntOp::Xor, a, result);
        let other = if add { result } else { a };
        let second = self.b.int(IntOp::Xor, b, other);
        let wrong = self.b.int(IntOp::And, first, second);
        let zero = self.const_like(a, 0);
        let overflows = self.b.cmp(IntCond::LtS, wrong, zero);
        let width = self.bits(a);
        let sign = self.b.shift_const(ShiftOp::ShrS, a, width - 1);
        let limit = self.b.int_const(IntOp::Xor, sign, u64::MAX >> (65 - width));
        self.choose(overflows, limit, result)
    }

    fn reverse(&mut self, a: Reg) -> Reg {
        let width = self.bits(a);
        let mut bits = a;
        let mut distance = 1;
        while distance < width {
            // The lower of each pair of stretches of `distance` bits.
            let lower = (0..64).filter(|bit| bit / distance % 2 == 0).map(|bit| 1u64 << bit).sum();
            if distance * 2 == width {
                return self.b.shift_const(ShiftOp::RotL, bits, distance);
            }
            let up = self.b.int_const(IntOp::And, bits, lower);
            let up = self.b.shift_const(ShiftOp::Shl, up, distance);
            let down = self.b.shift_const(ShiftOp::ShrU, bits, distance);
            let down = self.b.int_const(IntOp::And, down, lower);
            bits = self.b.int(IntOp::Or, up, down);
            distance *= 2;
        }
        bits
    }

    /// A bit field's offset and count, clamped to the width in that order.
    fn field(&mut self, width: u32, offset: Reg, count: Reg) -> (Reg, Reg) {
        let offset = self.b.int_const(IntOp::MinU, offset, width.into());
        let whole = self.const_like(offset, width.into());
        let room = self.b.int(IntOp::Sub, whole, offset);
        (offset, self.b.int(IntOp::MinU, count, room))
    }

    /// `reg` unless `count` is 0, then 0.
    fn unless_empty(&mut self, reg: Reg, count: Reg) -> Reg {
        let zero_count = self.const_like(count, 0);
        let zero = self.const_like(reg, 0);
        let empty = self.b.cmp(IntCond::Eq, count, zero_count);
        self.choose(empty, zero, reg)
    }

    fn extract(&mut self, signed: bool, a: Reg, offset: Reg, count: Reg) -> Reg {
        let width = self.bits(a);
        let (offset, count) = self.field(width, offset, count);
        let whole = self.const_like(count, width.into());
        let back = self.b.int(IntOp::Sub, whole, count);
        let top = self.b.int(IntOp::Sub, back, offset);
        let high = self.shift_modulo(ShiftOp::Shl, a, top);
        let low = self.shift_modulo(if signed { ShiftOp::ShrS } else { ShiftOp::ShrU }, high, back);
        self.unless_empty(low, count)
    }

    fn insert(&mut self, a: Reg, bits: Reg, offset: Reg, count: Reg) -> Reg {
        let width = self.bits(a);
        let (offset, count) = self.field(width, offset, count);
        let whole = self.const_like(count, width.into());
        let back = self.b.int(IntOp::Sub, whole, count);
        let ones = self.const_like(a, u64::MAX);
        let mask = self.shift_modulo(ShiftOp::ShrU, ones, back);
        let mask = self.shift_modulo(ShiftOp::Shl, mask, offset);
        let mask = self.unless_empty(mask, count);
        let kept = self.b.int(IntOp::AndNot, a, mask);
        let moved = self.shift_modulo(ShiftOp::Shl, bits, offset);
        let put = self.b.int(IntOp::And, moved, mask);
        self.b.int(IntOp::Or, kept, put)
    }

    fn dot4(&mut self, shr: ShiftOp, a: Reg, b: Reg, sum: Reg) -> Reg {
        (0..4).fold(sum, |sum, byte| {
            let [a, b] = [a, b].map(|word| {
                let high = self.b.shift_const(ShiftOp::Shl, word, 24 - 8 * byte);
                self.b.shift_const(shr, high, 24)
            });
            let product = self.b.int(IntOp::Mul, a, b);
            self.b.int(IntOp::Add, sum, product)
        })
    }

    // Floats.

    fn float_op(&mut self, op: ComputeOp, ty: DataType, x: &[Reg]) -> Reg {
        let float = carrier(ty);
        let (a, b) = (x[0], x.get(1).copied().unwrap_or(x[0]));
        let exact = |this: &mut Self, op, a, b| this.b.emit(Op::Float(op, float, a, b));
        let rounded = |this: &mut Self, op| {
            let result = exact(this, op, a, b);
            this.round_to(ty, result)
        };
        let compare = |this: &mut Self, cond, a, b| this.b.emit(Op::FloatCmp(cond, float, a, b));
        let whole = |this: &mut Self, op| this.b.emit(Op::FloatUn(op, float, a));
        let sign = 1u64 << (float.kind().bits() - 1);
        match op {
            ComputeOp::Add => rounded(self, FloatOp::Add),
            ComputeOp::Sub => rounded(self, FloatOp::Sub),
            ComputeOp::Mul => rounded(self, FloatOp::Mul),
            ComputeOp::Div => rounded(self, FloatOp::Div),
            ComputeOp::Rem => exact(self, FloatOp::Rem, a, b),
            ComputeOp::Min => exact(self, FloatOp::Min, a, b),
            ComputeOp::Max => exact(self, FloatOp::Max, a, b),
            ComputeOp::Neg => self.b.int_const(IntOp::Xor, a, sign),
            ComputeOp::Abs => self.b.int_const(IntOp::And, a, sign - 1),
            ComputeOp::Copysign => {
                let magnitude = self.b.int_const(IntOp::And, a, sign - 1);
                let bit = self.b.int_const(IntOp::And, b, sign);
                let nan = compare(self, FloatCond::Unordered, b, b);
                let plus = self.const_like(b, 0);
                let bit = self.choose(nan, plus, bit);
                self.b.int(IntOp::Or, magnitude, bit)
            }
            ComputeOp::Fma => match ty {
                DataType::F16 => {
                    let sum = self.fma_odd(Float::F32, a, b, x[2]);
                    self.round_to(ty, sum)
                }
                DataType::BF16 => {
                    let wide = [a, b, x[2]].map(|reg| self.b.convert(Num::F32, Num::F64, reg));
                    let sum = self.fma_odd(Float::F64, wide[0], wide[1], wide[2]);
                    let narrow = self.narrow_odd(sum);
                    self.round_to(ty, narrow)
                }
                _ => self.b.emit(Op::Fma(float, a, b, x[2])),
            },
            ComputeOp::Sqrt => {
                let root = whole(self, FloatUnOp::Sqrt);
                self.round_to(ty, root)
            }
            ComputeOp::Floor => whole(self, FloatUnOp::Floor),
            ComputeOp::Ceil => whole(self, FloatUnOp::Ceil),
            ComputeOp::Trunc => whole(self, FloatUnOp::Trunc),
            ComputeOp::Round => whole(self, FloatUnOp::Round),
            ComputeOp::IsNan => compare(self, FloatCond::Unordered, a, a),
            ComputeOp::IsInf => {
                let magnitude = self.b.int_const(IntOp::And, a, sign - 1);
                let infinity = self.const_like(a, infinity(float));
                self.b.cmp(IntCond::Eq, magnitude, infinity)
            }
            ComputeOp::Eq => compare(self, FloatCond::Eq, a, b),
            ComputeOp::Ne => compare(self, FloatCond::Ne, a, b),
            ComputeOp::Lt => compare(self, FloatCond::Lt, a, b),
            ComputeOp::Le => compare(self, FloatCond::Le, a, b),
            ComputeOp::Gt => compare(self, FloatCond::Lt, b, a),
            ComputeOp::Ge => compare(self, FloatCond::Le, b, a),
            other => unreachable!("prepared: no {} of floats", other.info().name),
        }
    }

    /// `a * b + c` rounded to odd, where the product is exact in `float`: an inexact result gets that of its two
    /// neighbours whose last bit is set, so that rounding it once more gives the exact sum rounded once.
    fn fma_odd(&mut self, float: Float, a: Reg, b: Reg, c: Reg) -> Reg {
        let op = |this: &mut Self, op, a, b| this.b.emit(Op::Float(op, float, a, b));
        let product = op(self, FloatOp::Mul, a, b);
        let sum = op(self, FloatOp::Add, product, c);
        // Knuth's TwoSum: `sum + error` is `product + c` exactly.
        let c_part = op(self, FloatOp::Sub, sum, product);
        let p_part = op(self, FloatOp::Sub, sum, c_part);
        let p_error = op(self, FloatOp::Sub, product, p_part);
        let c_error = op(self, FloatOp::Sub, c, c_part);
        let error = op(self, FloatOp::Add, p_error, c_error);

        let zero = self.const_like(sum, 0);
        let positive = self.b.emit(Op::FloatCmp(FloatCond::Lt, float, zero, sum));
        let upward = self.b.emit(Op::FloatCmp(FloatCond::Lt, float, zero, error));
        let toward_zero = self.both(MaskOp::Xor, positive, upward);
        let (more, less) = (self.const_like(sum, 1), self.const_like(sum, u64::MAX));
        let step = self.choose(toward_zero, less, more);
        let odd = self.b.int(IntOp::Add, sum, step);

        // Exact, odd already, infinite or NaN: as it is. An error that is NaN is one of the latter.
        let exact = self.b.emit(Op::FloatCmp(FloatCond::Eq, float, error, zero));
        let last = self.b.int_const(IntOp::And, sum, 1);
        let one = self.const_like(sum, 1);
        let is_odd = self.b.cmp(IntCond::Eq, last, one);
        let sign = 1u64 << (float.kind().bits() - 1);
        let magnitude = self.b.int_const(IntOp::And, sum, sign - 1);
        let limit = self.const_like(sum, infinity(float));
        let unbounded = self.b.cmp(IntCond::LeU, limit, magnitude);
        let keep = self.both(MaskOp::Or, exact, is_odd);
        let keep = self.both(MaskOp::Or, keep, unbounded);
        self.choose(keep, sum, odd)
    }
}

fn by_sign<T>(signed: bool, unsigned: T, with_sign: T) -> T {
    if signed { with_sign } else { unsigned }
}

/// The bits of infinity.
pub(super) const fn infinity(float: Float) -> u64 {
    match float {
        Float::F32 => 0x7f80_0000,
        Float::F64 => 0x7ff0_0000_0000_0000,
    }
}
