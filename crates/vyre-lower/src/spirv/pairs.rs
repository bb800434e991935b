//! 64-bit integers as pairs of words, the low one first, where a device has no others; and ops that Vulkan has for words
//! alone, on either.

use super::body::Emit;
use super::integer::{comparison, unsigned};
use super::words::{Arg, Id};
use spirv::Op;
use vyre_foundation::ir::{ComputeOp, DataType};

impl Emit<'_, '_> {
    /// The low and the high word of a 64-bit integer.
    pub(super) fn halves(&mut self, x: Id) -> [Id; 2] {
        let word = self.module.words.uint(32);
        let pair = self.as_pair(x);
        [0, 1].map(|at| self.op_with(Op::CompositeExtract, word, [pair.into(), Arg::Word(at)]))
    }

    /// A 64-bit integer as two words.
    pub(super) fn as_pair(&mut self, x: Id) -> Id {
        match self.module.options.features.int64 {
            false => x,
            true => {
                let word = self.module.words.uint(32);
                let two = self.module.words.vector(word, 2);
                self.op(Op::Bitcast, two, &[x])
            }
        }
    }

    /// The 64-bit integer that two words in a vector hold.
    pub(super) fn of_pair(&mut self, ty: DataType, pair: Id) -> Id {
        match self.is_pair(ty) {
            true => pair,
            false => {
                let ty = self.ty(ty);
                self.op(Op::Bitcast, ty, &[pair])
            }
        }
    }

    /// The 64-bit integer of two words.
    pub(super) fn join(&mut self, ty: DataType, halves: [Id; 2]) -> Id {
        let word = self.module.words.uint(32);
        let two = self.module.words.vector(word, 2);
        let pair = self.op(Op::CompositeConstruct, two, &halves);
        self.of_pair(ty, pair)
    }

    fn words_op(&mut self, op: ComputeOp, args: [Id; 2]) -> Id {
        self.integer(op, DataType::U32, &args)
    }

    fn carry(&mut self, cond: Id) -> Id {
        let (zero, one) = (self.word(0), self.word(1));
        self.word_op(Op::Select, &[cond, one, zero])
    }

    /// An op on pairs.
    pub(super) fn pair(&mut self, op: ComputeOp, ty: DataType, args: &[Id]) -> Id {
        if comparison(op, ty).is_some() {
            return self.compare_pairs(op, ty, args[0], args[1]);
        }
        let id = self.ty(ty);
        match op {
            ComputeOp::And => self.op(Op::BitwiseAnd, id, args),
            ComputeOp::Or => self.op(Op::BitwiseOr, id, args),
            ComputeOp::Xor => self.op(Op::BitwiseXor, id, args),
            ComputeOp::Add | ComputeOp::Sub => {
                let ([a0, a1], [b0, b1]) = (self.halves(args[0]), self.halves(args[1]));
                let low = self.words_op(op, [a0, b0]);
                let lost = match op {
                    ComputeOp::Add => self.words_op(ComputeOp::Lt, [low, a0]),
                    _ => self.words_op(ComputeOp::Lt, [a0, b0]),
                };
                let carry = self.carry(lost);
                let high = self.words_op(op, [a1, b1]);
                let high = self.words_op(op, [high, carry]);
                self.join(ty, [low, high])
            }
            ComputeOp::Neg => {
                let zero = self.bits(ty, 0);
                self.pair(ComputeOp::Sub, ty, &[zero, args[0]])
            }
            ComputeOp::Mul => {
                let ([a0, a1], [b0, b1]) = (self.halves(args[0]), self.halves(args[1]));
                let upper = self.words_op(ComputeOp::MulHi, [a0, b0]);
                let low = self.words_op(ComputeOp::Mul, [a0, b0]);
                let cross = [[a0, b1], [a1, b0]].map(|pair| self.words_op(ComputeOp::Mul, pair));
                let high = cross.into_iter().fold(upper, |sum, x| self.words_op(ComputeOp::Add, [sum, x]));
                self.join(ty, [low, high])
            }
            ComputeOp::Shl | ComputeOp::Shr => self.shift_pair(op, ty, args[0], args[1]),
            ComputeOp::Div | ComputeOp::Rem => self.divide_pairs(op, ty, args[0], args[1]),
            other => self.any_width(other, ty, args),
        }
    }

    fn compare_pairs(&mut self, op: ComputeOp, ty: DataType, a: Id, b: Id) -> Id {
        let ([a0, a1], [b0, b1]) = (self.halves(a), self.halves(b));
        let [low, high] = [[a0, b0], [a1, b1]].map(|pair| self.words_op(ComputeOp::Eq, pair));
        let both = self.bool_op(Op::LogicalAnd, &[low, high]);
        match op {
            ComputeOp::Eq => both,
            ComputeOp::Ne => self.bool_op(Op::LogicalNot, &[both]),
            _ => {
                let half = if ty.is_signed() { DataType::I32 } else { DataType::U32 };
                // The low words decide, without a sign, where the high ones are equal.
                let below = self.words_op(op, [a0, b0]);
                let above = self.integer(op, half, &[a1, b1]);
                self.bool_op(Op::Select, &[high, below, above])
            }
        }
    }

    fn shift_pair(&mut self, op: ComputeOp, ty: DataType, x: Id, amount: Id) -> Id {
        let [low, high] = self.halves(x);
        let (bit, zero, one, last) = (self.word(32), self.word(0), self.word(1), self.word(31));
        let far = self.words_op(ComputeOp::And, [amount, bit]);
        let far = self.words_op(ComputeOp::Ne, [far, zero]);
        let rest = self.words_op(ComputeOp::And, [amount, last]);
        let rest = self.words_op(ComputeOp::Sub, [last, rest]);
        // What crosses into the other word, in two shifts so that none is by 32.
        let (from, to, back, first) = match op {
            ComputeOp::Shl => (low, high, ComputeOp::Shr, DataType::U32),
            _ => (high, low, ComputeOp::Shl, if ty.is_signed() { DataType::I32 } else { DataType::U32 }),
        };
        let moved = self.integer(op, first, &[from, amount]);
        let crossed = self.words_op(back, [from, one]);
        let crossed = self.words_op(back, [crossed, rest]);
        let near = self.words_op(op, [to, amount]);
        let near = self.words_op(ComputeOp::Or, [near, crossed]);
        let fill = match (op, ty.is_signed()) {
            (ComputeOp::Shr, true) => self.integer(ComputeOp::Shr, DataType::I32, &[from, last]),
            _ => zero,
        };
        let outer = self.word_op(Op::Select, &[far, moved, near]);
        let inner = self.word_op(Op::Select, &[far, fill, moved]);
        self.join(ty, if op == ComputeOp::Shl { [inner, outer] } else { [outer, inner] })
    }

    /// Quotient and remainder bit by bit. Over zero they are the dividend and zero.
    fn divide_pairs(&mut self, op: ComputeOp, ty: DataType, a: Id, b: Id) -> Id {
        let plain = unsigned(ty);
        let zero = self.bits(plain, 0);
        let (mut x, mut y, mut negative) = (a, b, None);
        if ty.is_signed() {
            [x, y] = [a, b].map(|x| self.integer(ComputeOp::Abs, ty, &[x]));
            let [a, b] = [a, b].map(|x| self.integer(ComputeOp::Lt, ty, &[x, zero]));
            negative =
                Some(if op == ComputeOp::Rem { a } else { self.bool_op(Op::LogicalNotEqual, &[a, b]) });
        }
        let id = self.ty(plain);
        let [quotient, rest] = [x, zero].map(|start| {
            let variable = self.variable(id);
            self.effect(Op::Store, &[variable, start]);
            variable
        });
        let divides = self.integer(ComputeOp::Ne, plain, &[y, zero]);
        let (none, all, one) = (self.word(0), self.word(64), self.word(1));
        let bits = self.word_op(Op::Select, &[divides, all, none]);
        self.counted([none, bits], 1, false, |emit, _| {
            let [q, r] = [quotient, rest].map(|variable| emit.op(Op::Load, id, &[variable]));
            let last = emit.word(63);
            let [top, over] = [q, r].map(|x| emit.integer(ComputeOp::Shr, plain, &[x, last]));
            let [q, r] = [q, r].map(|x| emit.integer(ComputeOp::Shl, plain, &[x, one]));
            let r = emit.integer(ComputeOp::Or, plain, &[r, top]);
            let over = emit.integer(ComputeOp::Ne, plain, &[over, zero]);
            let fits = emit.integer(ComputeOp::Ge, plain, &[r, y]);
            let fits = emit.bool_op(Op::LogicalOr, &[over, fits]);
            let less = emit.integer(ComputeOp::Sub, plain, &[r, y]);
            let bit = emit.bits(plain, 1);
            let set = emit.integer(ComputeOp::Or, plain, &[q, bit]);
            let (q, r) = (emit.select(plain, fits, set, q), emit.select(plain, fits, less, r));
            emit.effect(Op::Store, &[quotient, q]);
            emit.effect(Op::Store, &[rest, r]);
        });
        let wanted = if op == ComputeOp::Rem { rest } else { quotient };
        let result = self.op(Op::Load, id, &[wanted]);
        match negative {
            None => result,
            Some(negative) => {
                let negated = self.integer(ComputeOp::Neg, ty, &[result]);
                // Over zero the quotient is the dividend itself.
                let result = self.select(ty, negative, negated, result);
                let whole = if op == ComputeOp::Rem { zero } else { a };
                self.select(ty, divides, result, whole)
            }
        }
    }

    /// Counts and reversals, by words.
    pub(super) fn count_wide(&mut self, op: ComputeOp, ty: DataType, x: Id) -> Id {
        let [low, high] = self.halves(x);
        let [a, b] = [low, high].map(|x| self.integer(op, DataType::U32, &[x]));
        let (zero, width) = (self.word(0), self.word(32));
        let count = match op {
            ComputeOp::ReverseBits => return self.join(ty, [b, a]),
            ComputeOp::Popcount => self.words_op(ComputeOp::Add, [a, b]),
            _ => {
                let (first, second, holds) = if op == ComputeOp::Clz { (b, a, high) } else { (a, b, low) };
                let past = self.words_op(ComputeOp::Add, [second, width]);
                let empty = self.words_op(ComputeOp::Eq, [holds, zero]);
                self.word_op(Op::Select, &[empty, past, first])
            }
        };
        self.join(ty, [count, zero])
    }

    /// The upper half of a product of 64-bit integers, from products of words.
    pub(super) fn mul_hi_wide(&mut self, ty: DataType, a: Id, b: Id) -> Id {
        let plain = unsigned(ty);
        let ([a0, a1], [b0, b1]) = (self.halves(a), self.halves(b));
        let zero = self.word(0);
        let mut product = |x, y| {
            let [low, high] = [ComputeOp::Mul, ComputeOp::MulHi].map(|op| self.words_op(op, [x, y]));
            self.join(plain, [low, high])
        };
        let [p00, p01, p10, p11] = [(a0, b0), (a0, b1), (a1, b0), (a1, b1)].map(|(x, y)| product(x, y));
        let [_, up] = self.halves(p00);
        let up = self.join(plain, [up, zero]);
        let middle = self.integer(ComputeOp::Add, plain, &[p01, up]);
        let [low, high] = self.halves(middle).map(|word| self.join(plain, [word, zero]));
        let other = self.integer(ComputeOp::Add, plain, &[p10, low]);
        let [_, up] = self.halves(other);
        let up = self.join(plain, [up, zero]);
        let sum = self.integer(ComputeOp::Add, plain, &[p11, high]);
        let sum = self.integer(ComputeOp::Add, plain, &[sum, up]);
        if !ty.is_signed() {
            return sum;
        }
        // A negative factor is 2^64 less than its bits as an unsigned number.
        let nothing = self.bits(ty, 0);
        [(a, b), (b, a)].into_iter().fold(sum, |sum, (factor, other)| {
            let negative = self.integer(ComputeOp::Lt, ty, &[factor, nothing]);
            let less = self.select(ty, negative, other, nothing);
            self.integer(ComputeOp::Sub, ty, &[sum, less])
        })
    }
}
