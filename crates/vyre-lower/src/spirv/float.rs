//! Ops on floats. Arithmetic is made as [`Floats`](crate::floats::Floats) says; what no device gives exactly is made of bits.

use super::body::Emit;
use super::words::Id;
use crate::bindings::ZERO_WORDS;
use crate::floats::{FloatOp, How};
use spirv::{Decoration, GlslStd450Op as Glsl, Op};
use std::collections::HashSet;
use vyre_foundation::ir::{ComputeOp, DataType, Literal, Operand, ReduceOp};
use vyre_foundation::scalar::identity;

/// The integer type that holds a float's bits in a register.
pub(super) const fn word_of(ty: DataType) -> DataType {
    match ty {
        DataType::F64 => DataType::U64,
        DataType::F16 | DataType::BF16 | DataType::F32 => DataType::U32,
        other => other,
    }
}

/// The bits of a float type's infinity.
pub(super) const fn infinity(ty: DataType) -> u64 {
    identity(ReduceOp::Min, ty)
}

const fn is_half(ty: DataType) -> bool {
    ty.is_float() && ty.bits() == 16
}

/// A factor or the summand of an `fma` in a row.
#[derive(Clone, Copy)]
pub(super) enum Factor {
    Id(Id),
    /// A constant that is not subnormal.
    Known(Id),
    /// The result of that one of the row.
    Result(usize),
}

impl Emit<'_, '_> {
    /// A value's bits.
    pub(super) fn bits_of(&mut self, ty: DataType, x: Id) -> Id {
        match ty {
            DataType::F32 | DataType::F64 => {
                let word = self.ty(word_of(ty));
                self.op(Op::Bitcast, word, &[x])
            }
            _ => x,
        }
    }

    /// The float with those bits.
    pub(super) fn float_of(&mut self, ty: DataType, bits: Id) -> Id {
        match ty {
            DataType::F32 | DataType::F64 => {
                let ty = self.ty(ty);
                self.op(Op::Bitcast, ty, &[bits])
            }
            _ => bits,
        }
    }

    fn is_loose(&self) -> bool {
        self.module.options.floats.is_loose
    }

    /// The same bits of a float type, as ones that compilers do not know.
    pub(super) fn hide_bits(&mut self, ty: DataType, bits: Id) -> Id {
        if self.is_loose() {
            return bits;
        }
        let zeros = ZERO_WORDS.map(|at| self.launch_word(at));
        match word_of(ty) {
            DataType::U64 => {
                let zeros = self.join(DataType::U64, zeros);
                self.integer(ComputeOp::Xor, DataType::U64, &[bits, zeros])
            }
            _ => self.word_op(Op::BitwiseXor, &[bits, zeros[0]]),
        }
    }

    /// The same value, as one that compilers do not know.
    pub(super) fn hide(&mut self, ty: DataType, x: Id) -> Id {
        let bits = self.bits_of(ty, x);
        let bits = self.hide_bits(ty, bits);
        self.float_of(ty, bits)
    }

    /// An instruction of float arithmetic that is left as it is.
    pub(super) fn exact(&mut self, op: Op, ty: DataType, args: &[Id]) -> Id {
        let ty = self.ty(ty);
        let id = self.op(op, ty, args);
        self.as_it_is(id)
    }

    /// The same of the extended instructions.
    fn exact_glsl(&mut self, op: Glsl, ty: DataType, args: &[Id]) -> Id {
        let ty = self.ty(ty);
        let id = self.glsl(op, ty, args);
        self.as_it_is(id)
    }

    fn as_it_is(&mut self, id: Id) -> Id {
        if !self.is_loose() {
            self.module.words.decorate(id, Decoration::NoContraction, &[]);
        }
        id
    }

    /// An op on floats; `operands` are the line's own, where it has some.
    pub(super) fn float(&mut self, op: ComputeOp, ty: DataType, args: &[Id], operands: &[Operand]) -> Id {
        let number = |at: usize| {
            let literal = operands.get(at).and_then(|operand| operand.literal());
            literal.filter(|x| (x.bits() & (ty.mask() >> 1)) <= infinity(ty))
        };
        match op {
            ComputeOp::Neg | ComputeOp::Abs | ComputeOp::Copysign => self.signs(op, ty, args),
            ComputeOp::IsNan => {
                let bits = self.bits_of(ty, args[0]);
                self.is_nan(ty, bits)
            }
            ComputeOp::IsInf => {
                let word = word_of(ty);
                let magnitude = self.magnitude(ty, args[0]);
                let infinity = self.bits(word, infinity(ty));
                self.integer(ComputeOp::Eq, word, &[magnitude, infinity])
            }
            ComputeOp::Min | ComputeOp::Max => self.least(op, ty, [args[0], args[1]], number(1)),
            _ if is_half(ty) => self.half(op, ty, args),
            _ => self.arithmetic(op, ty, args),
        }
    }

    /// Ops of f32 and f64 that round or compare.
    fn arithmetic(&mut self, op: ComputeOp, ty: DataType, args: &[Id]) -> Id {
        let group = FloatOp::of(op)
            .unwrap_or_else(|| unreachable!("emulated by integers, or has an arm above: {op:?}"));
        let how = self.module.options.how(ty, group);
        let through = how == How::ThroughF64;
        match op {
            ComputeOp::Add => self.exact(Op::FAdd, ty, args),
            ComputeOp::Sub => self.exact(Op::FSub, ty, args),
            ComputeOp::Mul => self.exact(Op::FMul, ty, args),
            ComputeOp::Fma if through => self.fma_through(args),
            ComputeOp::Div | ComputeOp::Sqrt if through => {
                let wide: Vec<Id> =
                    args.iter().map(|x| self.exact(Op::FConvert, DataType::F64, &[*x])).collect();
                let result = match op {
                    ComputeOp::Div => self.exact(Op::FDiv, DataType::F64, &wide),
                    _ => self.exact_glsl(Glsl::Sqrt, DataType::F64, &wide),
                };
                self.exact(Op::FConvert, ty, &[result])
            }
            ComputeOp::Div => self.exact(Op::FDiv, ty, args),
            ComputeOp::Sqrt => self.exact_glsl(Glsl::Sqrt, ty, args),
            // Lines of a program come in rows; this one is alone.
            ComputeOp::Fma if how == How::Guarded => {
                self.fma_row(&[[Factor::Id(args[0]), Factor::Id(args[1]), Factor::Id(args[2])]])[0]
            }
            ComputeOp::Fma => self.exact_glsl(Glsl::Fma, ty, args),
            ComputeOp::Floor => self.integral(Glsl::Floor, ty, args[0]),
            ComputeOp::Ceil => self.integral(Glsl::Ceil, ty, args[0]),
            ComputeOp::Trunc => self.integral(Glsl::Trunc, ty, args[0]),
            ComputeOp::Round => self.integral(Glsl::RoundEven, ty, args[0]),
            ComputeOp::Eq => self.bool_op(Op::FOrdEqual, args),
            ComputeOp::Ne => self.bool_op(Op::FUnordNotEqual, args),
            ComputeOp::Lt => self.bool_op(Op::FOrdLessThan, args),
            ComputeOp::Le => self.bool_op(Op::FOrdLessThanEqual, args),
            ComputeOp::Gt => self.bool_op(Op::FOrdGreaterThan, args),
            ComputeOp::Ge => self.bool_op(Op::FOrdGreaterThanEqual, args),
            other => unreachable!("validated: {other:?} is not of floats, or has an arm above"),
        }
    }

    /// Several `fma` of f32 in a row, which may use results of those before. The device makes all of them first; where it may
    /// have flushed something, all are made again through f64. So there is one branch, however many they are.
    pub(super) fn fma_row(&mut self, row: &[[Factor; 3]]) -> Vec<Id> {
        let of = |made: &[Id], factor: &Factor| match *factor {
            Factor::Id(id) | Factor::Known(id) => id,
            Factor::Result(at) => made[at],
        };
        let mut usual = Vec::new();
        for factors in row {
            let args = factors.each_ref().map(|factor| of(&usual, factor));
            usual.push(self.exact_glsl(Glsl::Fma, DataType::F32, &args));
        }
        let rare = self.flushed(row, &usual);
        let before = self.here();
        let (mut long, mut there) = (Vec::new(), before);
        self.when(rare, |emit| {
            for factors in row {
                let args = factors.each_ref().map(|factor| of(&long, factor));
                long.push(emit.fma_through(&args));
            }
            there = emit.here();
        });
        let ty = self.ty(DataType::F32);
        let both = usual.into_iter().zip(long);
        let results: Vec<Id> =
            both.map(|(usual, long)| self.op(Op::Phi, ty, &[usual, before, long, there])).collect();
        results.iter().for_each(|result| self.note_guard(*result, rare));
        results
    }

    /// Whether something may have been flushed in a row of the device's own `fma`: an operand is subnormal, or a result is not
    /// above the least normal number.
    fn flushed(&mut self, row: &[[Factor; 3]], results: &[Id]) -> Id {
        let f32 = self.ty(DataType::F32);
        let sizes: Vec<Id> = results.iter().map(|x| self.glsl(Glsl::FAbs, f32, &[*x])).collect();
        // A NaN is what it should be, and no minimum.
        let least = sizes[1..].iter().fold(sizes[0], |least, x| self.glsl(Glsl::NMin, f32, &[least, *x]));
        let normal = self.literal(Literal::from_bits(DataType::F32, 1 << 23));
        let mut flags = vec![self.bool_op(Op::FUnordLessThanEqual, &[least, normal])];
        let (one, below) = (self.word(1), self.word((1 << 24) - 1));
        let mut seen = HashSet::new();
        for factor in row.iter().flatten() {
            let Factor::Id(x) = *factor else { continue };
            if !seen.insert(x) {
                continue;
            }
            // The result of a row before was seen to be normal there, or that row took the long way.
            let flag = self.guard_of(x).unwrap_or_else(|| {
                // Without its sign and less one, a subnormal is below all normal numbers, and zero above them.
                let bits = self.bits_of(DataType::F32, x);
                let doubled = self.word_op(Op::ShiftLeftLogical, &[bits, one]);
                let less = self.word_op(Op::ISub, &[doubled, one]);
                self.bool_op(Op::ULessThan, &[less, below])
            });
            if !flags.contains(&flag) {
                flags.push(flag);
            }
        }
        let first = flags[0];
        flags[1..].iter().fold(first, |any, flag| self.bool_op(Op::LogicalOr, &[any, *flag]))
    }

    /// The product is exact in f64, and the sum is rounded there first. Rounding it again is right unless it lies halfway
    /// between two f32; that, and results below the normal ones, take the long way.
    fn fma_through(&mut self, args: &[Id]) -> Id {
        let f64 = DataType::F64;
        let wide: Vec<Id> = args.iter().map(|x| self.exact(Op::FConvert, f64, &[*x])).collect();
        let product = self.exact(Op::FMul, f64, &wide[..2]);
        let sum = self.exact(Op::FAdd, f64, &[product, wide[2]]);
        let rounded = self.exact(Op::FConvert, DataType::F32, &[sum]);
        let bits = self.bits_of(f64, sum);
        let [low, high] = self.halves(bits);
        let [rest, half, magnitude, least, one] =
            [0x1fff_ffff, 0x1000_0000, 0x7fff_ffff, 0x380f_ffff, 1].map(|word| self.word(word));
        let rest = self.word_op(Op::BitwiseAnd, &[low, rest]);
        let halfway = self.bool_op(Op::IEqual, &[rest, half]);
        // Less one, zero is not below the normal numbers of f32.
        let top = self.word_op(Op::BitwiseAnd, &[high, magnitude]);
        let top = self.word_op(Op::ISub, &[top, one]);
        let tiny = self.bool_op(Op::ULessThan, &[top, least]);
        let rare = self.bool_op(Op::LogicalOr, &[halfway, tiny]);
        self.unless(DataType::F32, rare, rounded, |emit| {
            emit.sum_to_odd([product, wide[2]], sum, [low, high])
        })
    }

    /// A sum of f64 as f32. Its error says whether it is exact; if not it is rounded to odd, so that rounding it again is
    /// as good as rounding once.
    fn sum_to_odd(&mut self, [p, c]: [Id; 2], sum: Id, [low, high]: [Id; 2]) -> Id {
        let f64 = DataType::F64;
        // The exact error of a sum, by Knuth.
        let c_part = self.exact(Op::FSub, f64, &[sum, p]);
        let p_part = self.exact(Op::FSub, f64, &[sum, c_part]);
        let p_error = self.exact(Op::FSub, f64, &[p, p_part]);
        let c_error = self.exact(Op::FSub, f64, &[c, c_part]);
        let error = self.exact(Op::FAdd, f64, &[p_error, c_error]);
        let zero = self.hidden(Literal::from_bits(f64, 0));
        let [above, below] =
            [Op::FOrdGreaterThan, Op::FOrdLessThan].map(|op| self.bool_op(op, &[error, zero]));
        let inexact = self.bool_op(Op::LogicalOr, &[above, below]);
        // The other neighbour of the exact sum is the odd one, if this one is even: one unit toward the error.
        let (none, one) = (self.word(0), self.word(1));
        let last = self.word_op(Op::BitwiseAnd, &[low, one]);
        let even = self.bool_op(Op::IEqual, &[last, none]);
        let moves = self.bool_op(Op::LogicalAnd, &[inexact, even]);
        let negative = self.bool_op(Op::SLessThan, &[high, none]);
        let outward = self.bool_op(Op::LogicalNotEqual, &[above, negative]);
        let up = self.word_op(Op::BitwiseOr, &[low, one]);
        let down = self.word_op(Op::ISub, &[low, one]);
        let borrows = self.bool_op(Op::IEqual, &[low, none]);
        let less = self.word_op(Op::ISub, &[high, one]);
        let lent = self.word_op(Op::Select, &[borrows, less, high]);
        let odd_low = self.word_op(Op::Select, &[outward, up, down]);
        let odd_high = self.word_op(Op::Select, &[outward, high, lent]);
        let low = self.word_op(Op::Select, &[moves, odd_low, low]);
        let high = self.word_op(Op::Select, &[moves, odd_high, high]);
        let odd = self.join(DataType::U64, [low, high]);
        let odd = self.float_of(f64, odd);
        self.exact(Op::FConvert, DataType::F32, &[odd])
    }

    /// A rounding to an integer. It keeps the sign, which some devices forget on zero.
    fn integral(&mut self, op: Glsl, ty: DataType, x: Id) -> Id {
        let word = word_of(ty);
        let rounded = self.exact_glsl(op, ty, &[x]);
        if self.is_loose() {
            return rounded;
        }
        let (rounded, x) = (self.bits_of(ty, rounded), self.bits_of(ty, x));
        let sign = self.bits(word, 1 << (ty.bits() - 1));
        let sign = self.integer(ComputeOp::And, word, &[x, sign]);
        let signed = self.integer(ComputeOp::Or, word, &[rounded, sign]);
        self.float_of(ty, signed)
    }

    /// The bits without the sign.
    pub(super) fn magnitude(&mut self, ty: DataType, x: Id) -> Id {
        let word = word_of(ty);
        let (bits, mask) = (self.bits_of(ty, x), self.bits(word, ty.mask() >> 1));
        self.integer(ComputeOp::And, word, &[bits, mask])
    }

    fn signs(&mut self, op: ComputeOp, ty: DataType, args: &[Id]) -> Id {
        let word = word_of(ty);
        let sign = self.bits(word, 1 << (ty.bits() - 1));
        let result = match op {
            ComputeOp::Neg => {
                let bits = self.bits_of(ty, args[0]);
                self.integer(ComputeOp::Xor, word, &[bits, sign])
            }
            ComputeOp::Abs => self.magnitude(ty, args[0]),
            _ => {
                let (magnitude, other) = (self.magnitude(ty, args[0]), self.bits_of(ty, args[1]));
                let (nan, plus) = (self.is_nan(ty, other), self.bits(word, 0));
                // NVIDIA's compiler takes the sign of an unsigned number that became a float from the number's top bit.
                let sign = self.hide_bits(ty, sign);
                let sign = self.integer(ComputeOp::And, word, &[other, sign]);
                let sign = self.select(word, nan, plus, sign);
                self.integer(ComputeOp::Or, word, &[magnitude, sign])
            }
        };
        self.float_of(ty, result)
    }

    /// Whether bits are those of a NaN.
    pub(super) fn is_nan(&mut self, ty: DataType, bits: Id) -> Id {
        let word = word_of(ty);
        let [mask, infinity] = [ty.mask() >> 1, infinity(ty)].map(|bits| self.bits(word, bits));
        let magnitude = self.integer(ComputeOp::And, word, &[bits, mask]);
        self.integer(ComputeOp::Gt, word, &[magnitude, infinity])
    }

    /// The bits as storage and bitcasts show them: every NaN is the canonical one.
    pub(super) fn observe(&mut self, ty: DataType, x: Id) -> Id {
        let bits = self.bits_of(ty, x);
        let Some(canonical) = ty.canonical_nan().filter(|_| !self.is_loose()) else { return bits };
        let (nan, canonical) = (self.is_nan(ty, bits), self.bits(word_of(ty), canonical));
        self.select(word_of(ty), nan, canonical, bits)
    }

    /// `min` and `max`; `number` is the second operand, if it is known to be a number.
    fn least(&mut self, op: ComputeOp, ty: DataType, [a, b]: [Id; 2], number: Option<Literal>) -> Id {
        if is_half(ty) {
            return self.least_by_bits(op, ty, [a, b]);
        }
        let least = op == ComputeOp::Min;
        if self.is_loose() {
            return self.exact_glsl(if least { Glsl::FMin } else { Glsl::FMax }, ty, &[a, b]);
        }
        if let Some(number) = number {
            // A NaN compares false, and equal zeros give the first where the second has the wrong sign.
            let negative = number.bits() >> (ty.bits() - 1) == 1;
            let op = match (least, least == negative) {
                (true, true) => Op::FOrdLessThan,
                (true, false) => Op::FOrdLessThanEqual,
                (false, false) => Op::FOrdGreaterThanEqual,
                (false, true) => Op::FOrdGreaterThan,
            };
            let first = self.bool_op(op, &[a, b]);
            return self.select(ty, first, a, b);
        }
        let word = word_of(ty);
        let first = self.bool_op(if least { Op::FOrdLessThan } else { Op::FOrdGreaterThan }, &[a, b]);
        let result = self.select(ty, first, a, b);
        let bits = [a, b].map(|x| self.bits_of(ty, x));
        let nan = self.is_nan(ty, bits[1]);
        let result = self.select(ty, nan, a, result);
        // Of equal numbers only zeros have different bits.
        let equal = self.bool_op(Op::FOrdEqual, &[a, b]);
        let zero = self.integer(if least { ComputeOp::Or } else { ComputeOp::And }, word, &bits);
        let zero = self.float_of(ty, zero);
        self.select(ty, equal, zero, result)
    }

    /// `min` and `max` of f16 and bf16 by the order of bits.
    fn least_by_bits(&mut self, op: ComputeOp, ty: DataType, [a, b]: [Id; 2]) -> Id {
        // As integers, negative floats stand in opposite order; flipping all but their sign turns it.
        let (half, last, one) = (self.word(16), self.word(31), self.word(1));
        let keys = [a, b].map(|bits| {
            let top = self.word_op(Op::ShiftLeftLogical, &[bits, half]);
            let flip = self.word_op(Op::ShiftRightArithmetic, &[top, last]);
            let flip = self.word_op(Op::ShiftRightLogical, &[flip, one]);
            self.word_op(Op::BitwiseXor, &[top, flip])
        });
        let less = self.bool_op(Op::SLessThan, &keys);
        let result = match op {
            ComputeOp::Min => self.word_op(Op::Select, &[less, a, b]),
            _ => self.word_op(Op::Select, &[less, b, a]),
        };
        [(b, a), (a, b)].into_iter().fold(result, |result, (asked, other)| {
            let nan = self.is_nan(ty, asked);
            self.word_op(Op::Select, &[nan, other, result])
        })
    }

    /// f16 and bf16 in f32, and rounded once more, which f32 is wide enough for (24 bits are at least 2 * 11 + 2).
    fn half(&mut self, op: ComputeOp, ty: DataType, args: &[Id]) -> Id {
        let wide: Vec<Id> = args.iter().map(|x| self.widen(ty, *x)).collect();
        let result = self.arithmetic(op, DataType::F32, &wide);
        if FloatOp::of(op) == Some(FloatOp::Compare) { result } else { self.narrow(ty, result) }
    }

    /// f16 and bf16 as f32, exactly.
    pub(super) fn widen(&mut self, ty: DataType, x: Id) -> Id {
        let f32 = DataType::F32;
        if ty == DataType::BF16 {
            let half = self.word(16);
            let bits = self.word_op(Op::ShiftLeftLogical, &[x, half]);
            return self.float_of(f32, bits);
        }
        let [mask, up, bias, tiny, huge, sign, top] =
            [0x7fff, 13, 112 << 23, 1 << 23, 0x7c00 << 13, 0x8000, 16].map(|word| self.word(word));
        let magnitude = self.word_op(Op::BitwiseAnd, &[x, mask]);
        let digits = self.word_op(Op::ShiftLeftLogical, &[magnitude, up]);
        let normal = self.word_op(Op::IAdd, &[digits, bias]);
        // Infinity and NaN move to f32's greatest exponent.
        let special = self.word_op(Op::IAdd, &[normal, bias]);
        let is_special = self.bool_op(Op::UGreaterThanEqual, &[digits, huge]);
        let normal = self.word_op(Op::Select, &[is_special, special, normal]);
        // A subnormal counts units of 2^-24: below a leading one that is then taken away.
        let led = self.word(113 << 23);
        let led = self.word_op(Op::IAdd, &[digits, led]);
        let (led, one) = (self.float_of(f32, led), self.hidden(Literal::from_bits(f32, 113 << 23)));
        let subnormal = self.exact(Op::FSub, f32, &[led, one]);
        let subnormal = self.bits_of(f32, subnormal);
        let is_subnormal = self.bool_op(Op::ULessThan, &[digits, tiny]);
        let wide = self.word_op(Op::Select, &[is_subnormal, subnormal, normal]);
        let sign = self.word_op(Op::BitwiseAnd, &[x, sign]);
        let sign = self.word_op(Op::ShiftLeftLogical, &[sign, top]);
        let bits = self.word_op(Op::BitwiseOr, &[wide, sign]);
        self.float_of(f32, bits)
    }

    /// f32 rounded to f16 or bf16. Adding just under half a unit, and the last kept bit, rounds to nearest even.
    pub(super) fn narrow(&mut self, ty: DataType, x: Id) -> Id {
        let f32 = DataType::F32;
        let bits = self.bits_of(f32, x);
        let (nan, canonical) =
            (self.is_nan(f32, bits), self.word(ty.canonical_nan().unwrap_or_default() as u32));
        let (value, dropped) = match ty {
            DataType::BF16 => (bits, 16),
            _ => (self.magnitude(f32, x), 13),
        };
        let (shift, one, below) = (self.word(dropped), self.word(1), self.word((1 << (dropped - 1)) - 1));
        let last = self.word_op(Op::ShiftRightLogical, &[value, shift]);
        let last = self.word_op(Op::BitwiseAnd, &[last, one]);
        let sum = self.word_op(Op::IAdd, &[value, below]);
        let sum = self.word_op(Op::IAdd, &[sum, last]);
        if ty == DataType::BF16 {
            let rounded = self.word_op(Op::ShiftRightLogical, &[sum, shift]);
            return self.word_op(Op::Select, &[nan, canonical, rounded]);
        }
        let [bias, most, tiny, sign, top] =
            [112 << 23, 0x7c00, 113 << 23, 0x8000, 16].map(|word| self.word(word));
        let rounded = self.word_op(Op::ISub, &[sum, bias]);
        let rounded = self.word_op(Op::ShiftRightLogical, &[rounded, shift]);
        let rounded = self.integer(ComputeOp::Min, DataType::U32, &[rounded, most]);
        // Below the smallest normal the unit is 2^-24, which is that of 0.5: a sum with it rounds there.
        let half = 0x3f00_0000;
        let (unit, value) = (self.hidden(Literal::from_bits(f32, half)), self.float_of(f32, value));
        let counted = self.exact(Op::FAdd, f32, &[value, unit]);
        let (counted, half) = (self.bits_of(f32, counted), self.word(half as u32));
        let counted = self.word_op(Op::ISub, &[counted, half]);
        let value = self.bits_of(f32, value);
        let is_tiny = self.bool_op(Op::ULessThan, &[value, tiny]);
        let rounded = self.word_op(Op::Select, &[is_tiny, counted, rounded]);
        let upper = self.word_op(Op::ShiftRightLogical, &[bits, top]);
        let sign = self.word_op(Op::BitwiseAnd, &[upper, sign]);
        let signed = self.word_op(Op::BitwiseOr, &[rounded, sign]);
        self.word_op(Op::Select, &[nan, canonical, signed])
    }
}
