//! Ops on bools and integers. Integers have no sign but in ops; 64-bit ones may be pairs of words.

use super::body::{Emit, Kept};
use super::words::{Arg, Id};
use crate::bindings::ZERO_WORDS;
use spirv::{GlslStd450Op as Glsl, Op};
use vyre_foundation::ir::{ComputeOp, DataType, Operand};

impl Emit<'_, '_> {
    pub(super) fn compute(&mut self, op: ComputeOp, ty: DataType, args: &[Operand]) -> Id {
        let source = self.type_of(args[0]);
        let ids: Vec<Id> = args.iter().map(|arg| self.operand(*arg)).collect();
        match op {
            ComputeOp::Cast => self.cast(ty, source, ids[0]),
            ComputeOp::Bitcast => self.bitcast(ty, source, ids[0]),
            ComputeOp::Select => self.select(ty, ids[0], ids[1], ids[2]),
            _ if ty == DataType::Bool => self.boolean(op, &ids),
            _ if ty.is_float() => self.float(op, ty, &ids, args),
            _ => self.integer(op, ty, &ids),
        }
    }

    /// An op of two operands of its own type.
    pub(super) fn binary(&mut self, op: ComputeOp, ty: DataType, a: Id, b: Id) -> Id {
        match ty {
            DataType::Bool => self.boolean(op, &[a, b]),
            _ if ty.is_float() => self.float(op, ty, &[a, b], &[]),
            _ => self.integer(op, ty, &[a, b]),
        }
    }

    /// Whether values of a type are two words.
    pub(super) fn is_pair(&self, ty: DataType) -> bool {
        ty.is_integer() && ty.bits() == 64 && !self.module.options.features.int64
    }

    pub(super) fn select(&mut self, ty: DataType, cond: Id, yes: Id, no: Id) -> Id {
        let cond = match self.is_pair(ty) {
            false => cond,
            true => {
                let one = self.module.words.boolean();
                let two = self.module.words.vector(one, 2);
                self.op(Op::CompositeConstruct, two, &[cond, cond])
            }
        };
        let ty = self.ty(ty);
        self.op(Op::Select, ty, &[cond, yes, no])
    }

    fn boolean(&mut self, op: ComputeOp, args: &[Id]) -> Id {
        let op = match op {
            ComputeOp::And => Op::LogicalAnd,
            ComputeOp::Or => Op::LogicalOr,
            ComputeOp::Xor | ComputeOp::Ne => Op::LogicalNotEqual,
            ComputeOp::Eq => Op::LogicalEqual,
            ComputeOp::Not => Op::LogicalNot,
            other => unreachable!("validated: {other:?} is not of bool"),
        };
        self.bool_op(op, args)
    }

    pub(super) fn integer(&mut self, op: ComputeOp, ty: DataType, args: &[Id]) -> Id {
        if self.is_pair(ty) {
            return self.pair(op, ty, args);
        }
        let id = self.ty(ty);
        if let Some(op) = comparison(op, ty) {
            return self.bool_op(op, args);
        }
        let (signed, wide) = (ty.is_signed(), ty.bits() == 64);
        match op {
            ComputeOp::Add => self.op(Op::IAdd, id, args),
            ComputeOp::Sub => self.op(Op::ISub, id, args),
            ComputeOp::Mul => self.op(Op::IMul, id, args),
            ComputeOp::And => self.op(Op::BitwiseAnd, id, args),
            ComputeOp::Or => self.op(Op::BitwiseOr, id, args),
            ComputeOp::Xor => self.op(Op::BitwiseXor, id, args),
            ComputeOp::Neg => self.op(Op::SNegate, id, args),
            ComputeOp::Div => self.divide(ty, args[0], args[1]),
            ComputeOp::Rem if signed => {
                // Some devices leave the remainder of negative numbers open.
                let divisor = self.divisor(ty, args[0], args[1]);
                let quotient = self.op(Op::SDiv, id, &[args[0], divisor]);
                let product = self.op(Op::IMul, id, &[quotient, divisor]);
                self.op(Op::ISub, id, &[args[0], product])
            }
            ComputeOp::Rem => {
                let divisor = self.divisor(ty, args[0], args[1]);
                self.op(Op::UMod, id, &[args[0], divisor])
            }
            ComputeOp::Min | ComputeOp::Max if !wide => {
                let op = match (op, signed) {
                    (ComputeOp::Min, true) => Glsl::SMin,
                    (ComputeOp::Min, false) => Glsl::UMin,
                    (_, true) => Glsl::SMax,
                    (_, false) => Glsl::UMax,
                };
                self.glsl(op, id, args)
            }
            ComputeOp::Shl | ComputeOp::Shr => {
                let mut amount = self.amount(ty, args[1]);
                if wide && op == ComputeOp::Shl && amount == self.word(31) {
                    // NVIDIA's compiler multiplies what was a signed word by 2^31 instead, and takes that for negative.
                    amount = self.hide_bits(DataType::U32, amount);
                }
                let op = match (op, signed) {
                    (ComputeOp::Shl, _) => Op::ShiftLeftLogical,
                    (_, true) => Op::ShiftRightArithmetic,
                    (_, false) => Op::ShiftRightLogical,
                };
                self.op(op, id, &[args[0], amount])
            }
            ComputeOp::Popcount if !wide => self.op(Op::BitCount, id, args),
            ComputeOp::ReverseBits if !wide => self.op(Op::BitReverse, id, args),
            ComputeOp::Clz if !wide => {
                // There is no highest bit of zero: the instruction gives -1.
                let (top, last) = (self.glsl(Glsl::FindUMsb, id, args), self.word(31));
                self.op(Op::ISub, id, &[last, top])
            }
            ComputeOp::Ctz if !wide => {
                let (low, width) = (self.glsl(Glsl::FindILsb, id, args), self.word(32));
                self.glsl(Glsl::UMin, id, &[low, width])
            }
            ComputeOp::MulHi if !wide => {
                let both = self.module.words.intern(Op::TypeStruct, None, [id.into(), id.into()], "product");
                let op = if signed { Op::SMulExtended } else { Op::UMulExtended };
                let product = self.op(op, both, args);
                self.op_with(Op::CompositeExtract, id, [product.into(), Arg::Word(1)])
            }
            ComputeOp::Extract if !wide => {
                let [offset, count] = self.field(32, args[1], args[2]);
                let op = if signed { Op::BitFieldSExtract } else { Op::BitFieldUExtract };
                self.op(op, id, &[args[0], offset, count])
            }
            ComputeOp::Insert if !wide => {
                let [offset, count] = self.field(32, args[2], args[3]);
                self.op(Op::BitFieldInsert, id, &[args[0], args[1], offset, count])
            }
            ComputeOp::Dot4 => self.dot4(signed, args),
            other => self.any_width(other, ty, args),
        }
    }

    /// Ops made of others, for native integers and pairs alike.
    pub(super) fn any_width(&mut self, op: ComputeOp, ty: DataType, args: &[Id]) -> Id {
        match op {
            ComputeOp::Not => {
                let ones = self.ones(ty);
                self.integer(ComputeOp::Xor, ty, &[args[0], ones])
            }
            ComputeOp::Abs => {
                // By the sign's bits. NVIDIA's compiler drops the one of two maxima that makes a magnitude.
                let top = self.word(ty.bits() - 1);
                let signs = self.integer(ComputeOp::Shr, ty, &[args[0], top]);
                let flipped = self.integer(ComputeOp::Xor, ty, &[args[0], signs]);
                self.integer(ComputeOp::Sub, ty, &[flipped, signs])
            }
            ComputeOp::Min => {
                let less = self.integer(ComputeOp::Lt, ty, args);
                self.select(ty, less, args[0], args[1])
            }
            ComputeOp::Max => {
                let less = self.integer(ComputeOp::Lt, ty, args);
                self.select(ty, less, args[1], args[0])
            }
            ComputeOp::AddSat | ComputeOp::SubSat if ty.is_signed() => {
                self.saturate_signed(ty, args[0], args[1], op == ComputeOp::AddSat)
            }
            ComputeOp::AddSat => {
                let sum = self.integer(ComputeOp::Add, ty, args);
                let over = self.integer(ComputeOp::Lt, ty, &[sum, args[0]]);
                let most = match ty.bits() {
                    // NVIDIA's compiler knows this pattern, and gets the upper half wrong.
                    64 => self.ones(ty),
                    _ => self.bits(ty, u64::MAX),
                };
                self.select(ty, over, most, sum)
            }
            ComputeOp::SubSat if ty.bits() == 64 => {
                // The same pattern with a known zero.
                let difference = self.integer(ComputeOp::Sub, ty, args);
                let under = self.integer(ComputeOp::Lt, ty, args);
                let zero = self.launch_word(ZERO_WORDS[0]);
                let least = self.join(ty, [zero, zero]);
                self.select(ty, under, least, difference)
            }
            ComputeOp::SubSat => {
                let least = self.integer(ComputeOp::Min, ty, args);
                self.integer(ComputeOp::Sub, ty, &[args[0], least])
            }
            ComputeOp::Rotl | ComputeOp::Rotr => self.rotate(ty, args, op == ComputeOp::Rotl),
            ComputeOp::Popcount | ComputeOp::Clz | ComputeOp::Ctz | ComputeOp::ReverseBits => {
                self.count_wide(op, ty, args[0])
            }
            ComputeOp::MulHi => self.mul_hi_wide(ty, args[0], args[1]),
            ComputeOp::Extract => self.extract_wide(ty, args),
            ComputeOp::Insert => self.insert_wide(ty, args),
            other => unreachable!("validated: {other:?} is not of {ty}, or has an arm elsewhere"),
        }
    }

    /// All ones. Compilers have been seen to forget an inversion of what they know to be zero, so they do not see these.
    fn ones(&mut self, ty: DataType) -> Id {
        let word = self.keep(Kept::Ones, |emit| {
            let (ones, zero) = (emit.word(u32::MAX), emit.launch_word(ZERO_WORDS[0]));
            emit.word_op(Op::BitwiseXor, &[ones, zero])
        });
        if ty.bits() == 64 { self.join(ty, [word, word]) } else { word }
    }

    /// A shift's amount modulo the width.
    fn amount(&mut self, ty: DataType, amount: Id) -> Id {
        let last = ty.bits() - 1;
        if let Some(amount) = self.module.words.constant(amount) {
            return self.word(amount as u32 & last);
        }
        let mask = self.word(last);
        self.word_op(Op::BitwiseAnd, &[amount, mask])
    }

    /// A divisor that gives the quotient which is asked for where the quotient has none of its own.
    fn divisor(&mut self, ty: DataType, a: Id, b: Id) -> Id {
        let is_open = |b: u64| b == 0 || (ty.is_signed() && b == ty.mask());
        if self.module.words.constant(b).is_some_and(|b| !is_open(b)) {
            return b;
        }
        let [zero, one] = [0, 1].map(|bits| self.bits(ty, bits));
        let mut open = self.bool_op(Op::IEqual, &[b, zero]);
        if ty.is_signed() {
            let least = self.bits(ty, 1 << (ty.bits() - 1));
            let minus_one = self.bits(ty, u64::MAX);
            let is_least = self.bool_op(Op::IEqual, &[a, least]);
            let is_minus_one = self.bool_op(Op::IEqual, &[b, minus_one]);
            let over = self.bool_op(Op::LogicalAnd, &[is_least, is_minus_one]);
            open = self.bool_op(Op::LogicalOr, &[open, over]);
        }
        self.select(ty, open, one, b)
    }

    fn divide(&mut self, ty: DataType, a: Id, b: Id) -> Id {
        let divisor = self.divisor(ty, a, b);
        let id = self.ty(ty);
        self.op(if ty.is_signed() { Op::SDiv } else { Op::UDiv }, id, &[a, divisor])
    }

    /// Signed sums and differences overflow where the result's sign is not what the operands' signs allow.
    fn saturate_signed(&mut self, ty: DataType, a: Id, b: Id, adds: bool) -> Id {
        let result = self.integer(if adds { ComputeOp::Add } else { ComputeOp::Sub }, ty, &[a, b]);
        let by_a = self.integer(ComputeOp::Xor, ty, &[a, result]);
        let by_b = self.integer(ComputeOp::Xor, ty, &[if adds { result } else { a }, b]);
        let over = self.integer(ComputeOp::And, ty, &[by_a, by_b]);
        let zero = self.bits(ty, 0);
        let over = self.integer(ComputeOp::Lt, ty, &[over, zero]);
        let last = self.word(ty.bits() - 1);
        let sign = self.integer(ComputeOp::Shr, ty, &[a, last]);
        let most = self.bits(ty, ty.mask() >> 1);
        let limit = self.integer(ComputeOp::Xor, ty, &[sign, most]);
        self.select(ty, over, limit, result)
    }

    fn rotate(&mut self, ty: DataType, args: &[Id], left: bool) -> Id {
        let plain = unsigned(ty);
        // Mesa 25 makes another number of a u64 that is rotated by 32 where it sees the 32.
        let known = self.module.words.constant(args[1]).filter(|_| ty.bits() == 64);
        let by = known.map_or(args[1], |by| self.hidden_count(by as u32));
        let args = [args[0], by];
        // Shifts take their amounts modulo the width, so the other one needs no care at 0.
        let other = self.word_op(Op::SNegate, &[args[1]]);
        let (up, down) = if left { (args[1], other) } else { (other, args[1]) };
        let high = self.integer(ComputeOp::Shl, plain, &[args[0], up]);
        let low = self.integer(ComputeOp::Shr, plain, &[args[0], down]);
        self.integer(ComputeOp::Or, plain, &[high, low])
    }

    /// The offset clamped to the width, and the count clamped to what is left of it.
    fn field(&mut self, bits: u32, offset: Id, count: Id) -> [Id; 2] {
        let known = [offset, count].map(|id| self.module.words.constant(id));
        if let [Some(offset), Some(count)] = known {
            let offset = (offset as u32).min(bits);
            return [offset, (count as u32).min(bits - offset)].map(|word| self.word(word));
        }
        let (width, word) = (self.word(bits), self.module.words.uint(32));
        let offset = self.glsl(Glsl::UMin, word, &[offset, width]);
        let left = self.word_op(Op::ISub, &[width, offset]);
        [offset, self.glsl(Glsl::UMin, word, &[count, left])]
    }

    /// Shifts up until the field touches the top, then down.
    fn extract_wide(&mut self, ty: DataType, args: &[Id]) -> Id {
        let [offset, count] = self.field(64, args[1], args[2]);
        let width = self.word(64);
        let above = self.word_op(Op::ISub, &[width, count]);
        let up = self.word_op(Op::ISub, &[above, offset]);
        let top = self.integer(ComputeOp::Shl, ty, &[args[0], up]);
        let field = self.integer(ComputeOp::Shr, ty, &[top, above]);
        self.unless_empty(ty, count, field, None)
    }

    fn insert_wide(&mut self, ty: DataType, args: &[Id]) -> Id {
        let plain = unsigned(ty);
        let [offset, count] = self.field(64, args[2], args[3]);
        let width = self.word(64);
        let above = self.word_op(Op::ISub, &[width, count]);
        let ones = self.bits(plain, u64::MAX);
        let low = self.integer(ComputeOp::Shr, plain, &[ones, above]);
        let mask = self.integer(ComputeOp::Shl, plain, &[low, offset]);
        let field = self.integer(ComputeOp::Shl, plain, &[args[1], offset]);
        // x ^ ((x ^ field) & mask) takes the field where the mask is set.
        let differ = self.integer(ComputeOp::Xor, plain, &[args[0], field]);
        let differ = self.integer(ComputeOp::And, plain, &[differ, mask]);
        let both = self.integer(ComputeOp::Xor, plain, &[args[0], differ]);
        self.unless_empty(plain, count, both, Some(args[0]))
    }

    /// `field`, or where nothing was asked for `empty` or zero: a shift by the width is one by 0.
    fn unless_empty(&mut self, ty: DataType, count: Id, field: Id, empty: Option<Id>) -> Id {
        let zero = self.word(0);
        let is_empty = self.bool_op(Op::IEqual, &[count, zero]);
        let empty = empty.unwrap_or_else(|| self.bits(ty, 0));
        self.select(ty, is_empty, empty, field)
    }

    fn dot4(&mut self, signed: bool, args: &[Id]) -> Id {
        let op = if signed { Op::BitFieldSExtract } else { Op::BitFieldUExtract };
        let eight = self.word(8);
        (0..4).fold(args[2], |sum, byte| {
            let at = self.word(8 * byte);
            let [a, b] = [args[0], args[1]].map(|x| self.word_op(op, &[x, at, eight]));
            let product = self.word_op(Op::IMul, &[a, b]);
            self.word_op(Op::IAdd, &[sum, product])
        })
    }
}

/// The unsigned type of that width.
pub(super) const fn unsigned(ty: DataType) -> DataType {
    if ty.bits() == 64 { DataType::U64 } else { DataType::U32 }
}

/// The instruction of a comparison of native integers.
pub(super) const fn comparison(op: ComputeOp, ty: DataType) -> Option<Op> {
    Some(match (op, ty.is_signed()) {
        (ComputeOp::Eq, _) => Op::IEqual,
        (ComputeOp::Ne, _) => Op::INotEqual,
        (ComputeOp::Lt, true) => Op::SLessThan,
        (ComputeOp::Lt, false) => Op::ULessThan,
        (ComputeOp::Le, true) => Op::SLessThanEqual,
        (ComputeOp::Le, false) => Op::ULessThanEqual,
        (ComputeOp::Gt, true) => Op::SGreaterThan,
        (ComputeOp::Gt, false) => Op::UGreaterThan,
        (ComputeOp::Ge, true) => Op::SGreaterThanEqual,
        (ComputeOp::Ge, false) => Op::UGreaterThanEqual,
        _ => return None,
    })
}
