//! Vector code as Cranelift's own form, block by block and op by op.

use crate::runtime;
use crate::vector::code::{
    Address, BitOp, BlockId, Elem, Float, FloatCond, FloatOp, FloatUnOp, Function, IntCond, IntOp, Kind,
    MaskOp, Num, Op, Reg, Rmw, ShiftOp, Term,
};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F32X4, F64, F64X2, I8X16, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{
    self, AbiParam, AtomicRmwOp, BlockArg, Endianness, InstBuilder, MemFlagsData, Signature, StackSlotData,
    StackSlotKind, Type, Value,
};
use cranelift_codegen::isa::TargetIsa;
use smallvec::{SmallVec, smallvec};

/// The registers of one register of vector code: two for 64-bit lanes, else one.
pub(super) type Values = SmallVec<[Value; 2]>;

/// Four addresses.
pub(super) fn signature(isa: &dyn TargetIsa) -> Signature {
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params = vec![AbiParam::new(I64); 4];
    signature
}

/// Writes `function` into `out`, which is empty.
pub(super) fn emit(function: &Function, out: &mut ir::Function, isa: &dyn TargetIsa, has_fma: bool) {
    assert_eq!(function.lanes, 4, "this emitter has vectors of four lanes");
    let slot = |out: &mut ir::Function, bytes| {
        out.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4))
    };
    let (zeros, sink, spread) = (slot(out, 16), slot(out, 16), slot(out, 32));
    let blocks: Vec<ir::Block> = function.blocks.iter().map(|_| out.dfg.make_block()).collect();
    let mut emitter = Emit {
        function,
        c: FuncCursor::new(out),
        values: vec![Values::new(); function.kinds.len()],
        blocks,
        zeros,
        sink,
        spread,
        has_fma,
        call_conv: isa.default_call_conv(),
    };
    for at in 0..function.blocks.len() {
        emitter.block(at);
    }
}

pub(super) struct Emit<'a> {
    function: &'a Function,
    pub(super) c: FuncCursor<'a>,
    values: Vec<Values>,
    blocks: Vec<ir::Block>,
    /// 16 bytes of zeros, for lanes that read nothing.
    pub(super) zeros: ir::StackSlot,
    /// 16 bytes for lanes that write nothing.
    pub(super) sink: ir::StackSlot,
    /// 32 bytes for permutations.
    pub(super) spread: ir::StackSlot,
    has_fma: bool,
    call_conv: cranelift_codegen::isa::CallConv,
}

/// Accesses that cannot fault, of any alignment.
pub(super) fn flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_endianness(Endianness::Little)
}

/// Accesses of atomics.
fn aligned() -> MemFlagsData {
    flags().with_aligned()
}

impl<'a> Emit<'a> {
    fn block(&mut self, at: usize) {
        let block = &self.function.blocks[at];
        let here = self.blocks[at];
        self.c.insert_block(here);
        if block.cold {
            self.c.func.layout.set_cold(here);
        }
        for param in &block.params {
            let types: &[Type] = match self.function.kind(*param) {
                Kind::S32 => &[I32],
                Kind::S64 => &[I64],
                Kind::V32 | Kind::Mask => &[I32X4],
                Kind::V64 => &[I64X2, I64X2],
            };
            self.values[param.index()] =
                types.iter().map(|ty| self.c.func.dfg.append_block_param(here, *ty)).collect();
        }
        if at == 0 {
            let zero = self.vector(&[0; 4]);
            let to = self.c.ins().stack_addr(I64, self.zeros, 0);
            self.c.ins().store(flags(), zero, to, 0);
        }
        for inst in &block.insts {
            self.c.set_srcloc(ir::SourceLoc::new(inst.site));
            let values = self.op(&inst.op, inst.result);
            if let Some(result) = inst.result {
                self.values[result.index()] = values;
            }
        }
        self.term(&block.term);
    }

    fn term(&mut self, term: &Term) {
        match term {
            Term::Return => {
                self.c.ins().return_(&[]);
            }
            Term::Jump(to, args) => {
                let args: Vec<BlockArg> = args
                    .iter()
                    .flat_map(|arg| self.values[arg.index()].iter().map(|value| BlockArg::Value(*value)))
                    .collect();
                let to = self.target(*to);
                self.c.ins().jump(to, &args);
            }
            Term::Branch { cond, then, otherwise } => {
                let value = self.one(*cond);
                let value = match self.function.kind(*cond) {
                    Kind::Mask => self.c.ins().vhigh_bits(I32, value),
                    _ => value,
                };
                let (then, otherwise) = (self.target(*then), self.target(*otherwise));
                self.c.ins().brif(value, then, [], otherwise, []);
            }
        }
    }

    fn target(&self, block: BlockId) -> ir::Block {
        self.blocks[block.index()]
    }

    pub(super) fn kind(&self, reg: Reg) -> Kind {
        self.function.kind(reg)
    }

    /// The one value of a register that has one.
    pub(super) fn one(&self, reg: Reg) -> Value {
        self.values[reg.index()][0]
    }

    pub(super) fn all(&self, reg: Reg) -> Values {
        self.values[reg.index()].clone()
    }

    // Constants.

    pub(super) fn vector(&mut self, lanes: &[u32; 4]) -> Value {
        let bytes: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect();
        let constant = self.c.func.dfg.constants.insert(bytes.into());
        self.c.ins().vconst(I32X4, constant)
    }

    pub(super) fn splat32(&mut self, bits: u32) -> Value {
        self.vector(&[bits; 4])
    }

    fn splat64(&mut self, bits: u64) -> Value {
        let [low, high] = [bits as u32, (bits >> 32) as u32];
        let vector = self.vector(&[low, high, low, high]);
        self.cast(I64X2, vector)
    }

    /// The same bits as another type.
    pub(super) fn cast(&mut self, ty: Type, value: Value) -> Value {
        if self.c.func.dfg.value_type(value) == ty {
            return value;
        }
        self.c.ins().bitcast(ty, MemFlagsData::new().with_endianness(Endianness::Little), value)
    }

    fn constant(&mut self, kind: Kind, bits: u64) -> Values {
        match kind {
            Kind::S32 => smallvec![self.c.ins().iconst(I32, i64::from(bits as u32))],
            Kind::S64 => smallvec![self.c.ins().iconst(I64, bits as i64)],
            Kind::V32 => smallvec![self.splat32(bits as u32)],
            Kind::V64 => {
                let half = self.splat64(bits);
                smallvec![half, half]
            }
            Kind::Mask => {
                let lanes = [0, 1, 2, 3].map(|lane| if bits >> lane & 1 == 1 { u32::MAX } else { 0 });
                smallvec![self.vector(&lanes)]
            }
        }
    }

    // Ops.

    fn op(&mut self, op: &Op, result: Option<Reg>) -> Values {
        match op {
            Op::Const(bits) => {
                let kind = result.map_or(Kind::S32, |result| self.kind(result));
                self.constant(kind, *bits)
            }
            Op::LaneIndex => smallvec![self.vector(&[0, 1, 2, 3])],
            Op::Int(op, a, b) => self.int(*op, *a, *b),
            Op::Shift(op, a, b) => self.shift(*op, *a, *b),
            Op::ShiftImm(op, a, n) => self.each(*a, |this, x| this.shift_by(*op, x, u32::from(*n))),
            Op::Bit(op, a) => self.bit(*op, *a),
            Op::IntCmp(cond, a, b) => self.int_cmp(*cond, *a, *b),
            Op::Float(op, float, a, b) => self.float(*op, *float, *a, *b),
            Op::FloatUn(op, float, a) => {
                let ty = float_vector(*float);
                self.each(*a, |this, x| {
                    let x = this.cast(ty, x);
                    let y = match op {
                        FloatUnOp::Sqrt => this.c.ins().sqrt(x),
                        FloatUnOp::Floor => this.c.ins().floor(x),
                        FloatUnOp::Ceil => this.c.ins().ceil(x),
                        FloatUnOp::Trunc => this.c.ins().trunc(x),
                        FloatUnOp::Round => this.c.ins().nearest(x),
                    };
                    this.cast(int_vector(*float), y)
                })
            }
            Op::Fma(float, a, b, c) => self.fma(*float, [*a, *b, *c]),
            Op::FloatCmp(cond, float, a, b) => self.float_cmp(*cond, *float, *a, *b),
            Op::Select(cond, a, b) => self.select(*cond, *a, *b),
            Op::Convert { from, to, value } => self.convert(*from, *to, *value),
            Op::HalfToFloat(a) => smallvec![self.half_to_float(*a)],
            Op::FloatToHalf(a) => smallvec![self.float_to_half(*a)],
            Op::Mask(op, a, b) => {
                let (a, b) = (self.one(*a), self.one(*b));
                smallvec![match op {
                    MaskOp::And => self.c.ins().band(a, b),
                    MaskOp::Or => self.c.ins().bor(a, b),
                    MaskOp::Xor => self.c.ins().bxor(a, b),
                    MaskOp::AndNot => self.c.ins().band_not(a, b),
                }]
            }
            Op::MaskNot(a) => {
                let a = self.one(*a);
                smallvec![self.c.ins().bnot(a)]
            }
            Op::MaskFirst(n) => {
                let n = self.one(*n);
                let n = self.c.ins().splat(I32X4, n);
                let lanes = self.vector(&[0, 1, 2, 3]);
                smallvec![self.c.ins().icmp(IntCC::UnsignedLessThan, lanes, n)]
            }
            Op::MaskToBits(a) => {
                let a = self.one(*a);
                smallvec![self.c.ins().vhigh_bits(I32, a)]
            }
            Op::BitsToMask(a) => {
                let a = self.one(*a);
                let all = self.c.ins().splat(I32X4, a);
                let bits = self.vector(&[1, 2, 4, 8]);
                let own = self.c.ins().band(all, bits);
                smallvec![self.c.ins().icmp(IntCC::Equal, own, bits)]
            }
            Op::Splat(a) => {
                let value = self.one(*a);
                self.splat(value, self.kind(*a) == Kind::S64)
            }
            Op::Extract(a, lane) => smallvec![self.extract(*a, *lane)],
            Op::Permute(a, index) => self.permute(*a, *index),
            Op::LoadS(elem, at) => {
                let (base, offset) = self.address(at);
                smallvec![self.load_element(*elem, base, offset)]
            }
            Op::LoadSplat(elem, at) => {
                let (base, offset) = self.address(at);
                let value = self.load_element(*elem, base, offset);
                self.splat(value, *elem == Elem::B64)
            }
            Op::StoreS(elem, at, value) => {
                let (base, offset) = self.address(at);
                let value = self.one(*value);
                self.store_element(*elem, value, base, offset);
                Values::new()
            }
            Op::LoadV(elem, at, mask) => self.load_vector(*elem, at, *mask),
            Op::StoreV(elem, at, value, mask) => {
                self.store_vector(*elem, at, *value, *mask);
                Values::new()
            }
            Op::StoreStream(elem, at, value) => {
                self.store_vector(*elem, at, *value, None);
                Values::new()
            }
            Op::Gather(elem, at) => self.gather(*elem, at),
            Op::Scatter(elem, at, value) => {
                self.scatter(*elem, at, *value);
                Values::new()
            }
            Op::Rmw { op, elem, at, value, shared } => {
                let value = self.one(*value);
                smallvec![self.rmw(*op, *elem, at, value, *shared)]
            }
            Op::CompareExchange { elem, at, expected, value, shared } => {
                let (expected, value) = (self.one(*expected), self.one(*value));
                smallvec![self.compare_exchange(*elem, at, [expected, value], *shared)]
            }
            Op::Poll(at) => {
                let at = self.whole_address(at);
                smallvec![self.c.ins().atomic_load(I32, aligned(), at)]
            }
        }
    }

    fn splat(&mut self, value: Value, wide: bool) -> Values {
        let part = self.c.ins().splat(if wide { I64X2 } else { I32X4 }, value);
        if wide { smallvec![part, part] } else { smallvec![part] }
    }

    /// An op on each of a register's values.
    pub(super) fn each(&mut self, a: Reg, f: impl Fn(&mut Self, Value) -> Value) -> Values {
        self.all(a).into_iter().map(|x| f(self, x)).collect()
    }

    /// An op on each pair of two registers' values.
    fn pairs(&mut self, a: Reg, b: Reg, f: impl Fn(&mut Self, Value, Value) -> Value) -> Values {
        self.all(a).into_iter().zip(self.all(b)).map(|(x, y)| f(self, x, y)).collect()
    }

    fn int(&mut self, op: IntOp, a: Reg, b: Reg) -> Values {
        let vector = self.kind(a).is_vector();
        match op {
            IntOp::DivU | IntOp::DivS | IntOp::RemU | IntOp::RemS | IntOp::MulHiU | IntOp::MulHiS
                if vector =>
            {
                return self.by_lane(a, Some(b), |this, x, y| this.int_pair(op, x, y));
            }
            IntOp::MinU | IntOp::MinS | IntOp::MaxU | IntOp::MaxS if self.kind(a) == Kind::V64 => {
                return self.pairs(a, b, |this, x, y| {
                    let signed = matches!(op, IntOp::MinS | IntOp::MaxS);
                    let less = this.less_64(x, y, signed);
                    match op {
                        IntOp::MinU | IntOp::MinS => this.c.ins().bitselect(less, x, y),
                        _ => this.c.ins().bitselect(less, y, x),
                    }
                });
            }
            _ => {}
        }
        self.pairs(a, b, |this, x, y| this.int_pair(op, x, y))
    }

    fn int_pair(&mut self, op: IntOp, x: Value, y: Value) -> Value {
        match op {
            IntOp::Add => self.c.ins().iadd(x, y),
            IntOp::Sub => self.c.ins().isub(x, y),
            IntOp::Mul => self.c.ins().imul(x, y),
            IntOp::MulHiU => self.c.ins().umulhi(x, y),
            IntOp::MulHiS => self.c.ins().smulhi(x, y),
            IntOp::And => self.c.ins().band(x, y),
            IntOp::Or => self.c.ins().bor(x, y),
            IntOp::Xor => self.c.ins().bxor(x, y),
            IntOp::AndNot => self.c.ins().band_not(x, y),
            IntOp::MinU => self.c.ins().umin(x, y),
            IntOp::MinS => self.c.ins().smin(x, y),
            IntOp::MaxU => self.c.ins().umax(x, y),
            IntOp::MaxS => self.c.ins().smax(x, y),
            IntOp::DivU | IntOp::RemU | IntOp::DivS | IntOp::RemS => self.divide(op, x, y),
        }
    }

    /// Division that never faults: by 1 in place of 0 and of -1.
    fn divide(&mut self, op: IntOp, x: Value, y: Value) -> Value {
        let ty = self.c.func.dfg.value_type(x);
        let one = self.c.ins().iconst(ty, 1);
        let zero = self.c.ins().iconst(ty, 0);
        let is_zero = self.c.ins().icmp(IntCC::Equal, y, zero);
        let safe = self.c.ins().select(is_zero, one, y);
        if op == IntOp::DivU {
            return self.c.ins().udiv(x, safe);
        }
        if op == IntOp::RemU {
            return self.c.ins().urem(x, safe);
        }
        let ones = self.c.ins().iconst(ty, if ty == I32 { 0xffff_ffff } else { -1 });
        let is_ones = self.c.ins().icmp(IntCC::Equal, y, ones);
        let safe = self.c.ins().select(is_ones, one, safe);
        if op == IntOp::RemS {
            return self.c.ins().srem(x, safe);
        }
        let quotient = self.c.ins().sdiv(x, safe);
        let negative = self.c.ins().ineg(x);
        self.c.ins().select(is_ones, negative, quotient)
    }

    fn shift(&mut self, op: ShiftOp, a: Reg, b: Reg) -> Values {
        if self.kind(a).is_vector() {
            return self.by_lane(a, Some(b), |this, x, y| this.shift_value(op, x, y));
        }
        let (x, y) = (self.one(a), self.one(b));
        smallvec![self.shift_value(op, x, y)]
    }

    fn shift_value(&mut self, op: ShiftOp, x: Value, y: Value) -> Value {
        match op {
            ShiftOp::Shl => self.c.ins().ishl(x, y),
            ShiftOp::ShrU => self.c.ins().ushr(x, y),
            ShiftOp::ShrS => self.c.ins().sshr(x, y),
            ShiftOp::RotL => self.c.ins().rotl(x, y),
        }
    }

    pub(super) fn shift_by(&mut self, op: ShiftOp, x: Value, n: u32) -> Value {
        let ty = self.c.func.dfg.value_type(x);
        let amount = self.c.ins().iconst(I32, i64::from(n));
        if op == ShiftOp::RotL && ty.is_vector() {
            let back = self.c.ins().iconst(I32, i64::from(ty.lane_bits() - n));
            let (high, low) = (self.c.ins().ishl(x, amount), self.c.ins().ushr(x, back));
            return self.c.ins().bor(high, low);
        }
        self.shift_value(op, x, amount)
    }

    fn bit(&mut self, op: BitOp, a: Reg) -> Values {
        let count = |this: &mut Self, x: Value| match op {
            BitOp::Popcount => this.c.ins().popcnt(x),
            BitOp::Clz => this.c.ins().clz(x),
            BitOp::Ctz => this.c.ins().ctz(x),
        };
        if self.kind(a).is_vector() {
            return self.by_lane(a, None, |this, x, _| count(this, x));
        }
        self.each(a, count)
    }

    /// `x < y` on 64-bit lanes. Processors compare signed; unsigned is that with the sign bits flipped.
    fn less_64(&mut self, x: Value, y: Value, signed: bool) -> Value {
        if signed {
            return self.c.ins().icmp(IntCC::SignedLessThan, x, y);
        }
        let sign = self.splat64(1 << 63);
        let (x, y) = (self.c.ins().bxor(x, sign), self.c.ins().bxor(y, sign));
        self.c.ins().icmp(IntCC::SignedLessThan, x, y)
    }

    fn int_cmp(&mut self, cond: IntCond, a: Reg, b: Reg) -> Values {
        let code = match cond {
            IntCond::Eq => IntCC::Equal,
            IntCond::Ne => IntCC::NotEqual,
            IntCond::LtU => IntCC::UnsignedLessThan,
            IntCond::LeU => IntCC::UnsignedLessThanOrEqual,
            IntCond::LtS => IntCC::SignedLessThan,
            IntCond::LeS => IntCC::SignedLessThanOrEqual,
        };
        match self.kind(a) {
            Kind::V64 => {
                let halves = self.pairs(a, b, |this, x, y| match cond {
                    IntCond::Eq | IntCond::Ne => this.c.ins().icmp(code, x, y),
                    IntCond::LtU => this.less_64(x, y, false),
                    IntCond::LtS => this.less_64(x, y, true),
                    IntCond::LeU | IntCond::LeS => {
                        let more = this.less_64(y, x, cond == IntCond::LeS);
                        this.c.ins().bnot(more)
                    }
                });
                smallvec![self.pack(&halves)]
            }
            Kind::S32 | Kind::S64 => {
                let (x, y) = (self.one(a), self.one(b));
                let holds = self.c.ins().icmp(code, x, y);
                smallvec![self.c.ins().uextend(I32, holds)]
            }
            Kind::V32 | Kind::Mask => {
                let (x, y) = (self.one(a), self.one(b));
                smallvec![self.c.ins().icmp(code, x, y)]
            }
        }
    }

    // Floats.

    fn float(&mut self, op: FloatOp, float: Float, a: Reg, b: Reg) -> Values {
        if op == FloatOp::Rem {
            let ty = float_scalar(float);
            let function = match float {
                Float::F32 => runtime::rem_f32 as extern "C" fn(f32, f32) -> f32 as usize,
                Float::F64 => runtime::rem_f64 as extern "C" fn(f64, f64) -> f64 as usize,
            };
            return self.by_lane(a, Some(b), |this, x, y| {
                let (x, y) = (this.cast(ty, x), this.cast(ty, y));
                let found = this.call(function, ty, &[x, y]);
                this.cast(int_scalar(float), found)
            });
        }
        self.pairs(a, b, |this, x, y| {
            let (x, y) = (this.cast(float_vector(float), x), this.cast(float_vector(float), y));
            let z = match op {
                FloatOp::Add => this.c.ins().fadd(x, y),
                FloatOp::Sub => this.c.ins().fsub(x, y),
                FloatOp::Mul => this.c.ins().fmul(x, y),
                FloatOp::Div => this.c.ins().fdiv(x, y),
                FloatOp::Min | FloatOp::Max => this.extreme(op, float, x, y),
                FloatOp::Rem => unreachable!("done by lane"),
            };
            this.cast(int_vector(float), z)
        })
    }

    /// The lesser or greater: a number rather than NaN, zeros ordered by their sign.
    fn extreme(&mut self, op: FloatOp, float: Float, x: Value, y: Value) -> Value {
        let ty = int_vector(float);
        let bits = self.cast(ty, x);
        let shift = self.c.ins().iconst(I32, i64::from(ty.lane_bits() - 1));
        let negative = self.c.ins().sshr(bits, shift);
        let equal = self.c.ins().fcmp(FloatCC::Equal, x, y);
        let (first, tie) = match op {
            FloatOp::Min => (self.c.ins().fcmp(FloatCC::LessThan, x, y), self.c.ins().band(equal, negative)),
            _ => (self.c.ins().fcmp(FloatCC::GreaterThan, x, y), self.c.ins().band_not(equal, negative)),
        };
        let nan = self.c.ins().fcmp(FloatCC::Unordered, y, y);
        let first = self.c.ins().bor(first, tie);
        let first = self.c.ins().bor(first, nan);
        let (x, y) = (bits, self.cast(ty, y));
        self.c.ins().bitselect(first, x, y)
    }

    fn fma(&mut self, float: Float, [a, b, c]: [Reg; 3]) -> Values {
        let (ty, bits) = (float_vector(float), int_vector(float));
        let (a, b, c) = (self.all(a), self.all(b), self.all(c));
        (0..a.len())
            .map(|at| {
                let [x, y, z] = [a[at], b[at], c[at]].map(|value| self.cast(ty, value));
                let sum =
                    if self.has_fma { self.c.ins().fma(x, y, z) } else { self.fma_call(float, [x, y, z]) };
                self.cast(bits, sum)
            })
            .collect()
    }

    fn fma_call(&mut self, float: Float, operands: [Value; 3]) -> Value {
        let ty = float_scalar(float);
        let function = match float {
            Float::F32 => runtime::fma_f32 as extern "C" fn(f32, f32, f32) -> f32 as usize,
            Float::F64 => runtime::fma_f64 as extern "C" fn(f64, f64, f64) -> f64 as usize,
        };
        let mut result = operands[0];
        for lane in 0..float_vector(float).lane_count() as u8 {
            let args = operands.map(|operand| self.c.ins().extractlane(operand, lane));
            let found = self.call(function, ty, &args);
            result = self.c.ins().insertlane(result, found, lane);
        }
        result
    }

    /// A call of a function of this process that takes and gives values of one type.
    fn call(&mut self, function: usize, ty: Type, args: &[Value]) -> Value {
        let mut signature = Signature::new(self.call_conv);
        signature.params = vec![AbiParam::new(ty); args.len()];
        signature.returns = vec![AbiParam::new(ty)];
        let signature = self.c.func.import_signature(signature);
        let callee = self.c.ins().iconst(I64, function as i64);
        let call = self.c.ins().call_indirect(signature, callee, args);
        self.c.func.dfg.first_result(call)
    }

    fn float_cmp(&mut self, cond: FloatCond, float: Float, a: Reg, b: Reg) -> Values {
        let code = match cond {
            FloatCond::Eq => FloatCC::Equal,
            FloatCond::Lt => FloatCC::LessThan,
            FloatCond::Le => FloatCC::LessThanOrEqual,
            FloatCond::Ne => FloatCC::NotEqual,
            FloatCond::Unordered => FloatCC::Unordered,
        };
        let ty = float_vector(float);
        let masks = self.pairs(a, b, |this, x, y| {
            let (x, y) = (this.cast(ty, x), this.cast(ty, y));
            this.c.ins().fcmp(code, x, y)
        });
        match float {
            Float::F32 => masks,
            Float::F64 => smallvec![self.pack(&masks)],
        }
    }

    fn select(&mut self, cond: Reg, a: Reg, b: Reg) -> Values {
        let chosen = self.one(cond);
        if self.kind(cond) != Kind::Mask {
            return self.pairs(a, b, |this, x, y| this.c.ins().select(chosen, x, y));
        }
        let masks = if self.kind(a) == Kind::V64 { self.unpack(chosen) } else { [chosen, chosen] };
        let (a, b) = (self.all(a), self.all(b));
        (0..a.len()).map(|at| self.c.ins().bitselect(masks[at], a[at], b[at])).collect()
    }

    /// Two vectors of 64-bit lanes as one of their low halves.
    pub(super) fn pack(&mut self, halves: &[Value]) -> Value {
        let picked = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27];
        let found = self.shuffle(halves[0], halves[1], picked);
        self.cast(I32X4, found)
    }

    /// A mask as two masks of 64-bit lanes.
    fn unpack(&mut self, mask: Value) -> [Value; 2] {
        let low = [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7];
        [low, low.map(|byte| byte + 8)].map(|picked| {
            let found = self.shuffle(mask, mask, picked);
            self.cast(I64X2, found)
        })
    }

    fn shuffle(&mut self, a: Value, b: Value, picked: [u8; 16]) -> Value {
        let (a, b) = (self.cast(I8X16, a), self.cast(I8X16, b));
        let picked = self.c.func.dfg.immediates.push(picked.to_vec().into());
        self.c.ins().shuffle(a, b, picked)
    }

    fn extract(&mut self, a: Reg, lane: u8) -> Value {
        let values = self.all(a);
        match self.kind(a) {
            Kind::V64 => self.c.ins().extractlane(values[usize::from(lane / 2)], lane % 2),
            _ => self.c.ins().extractlane(values[0], lane),
        }
    }

    // Conversions.

    fn convert(&mut self, from: Num, to: Num, value: Reg) -> Values {
        let kind = self.kind(value);
        if kind.is_scalar() {
            let value = self.one(value);
            return smallvec![match (from, to.is_wide()) {
                (Num::U32, true) => self.c.ins().uextend(I64, value),
                (Num::I32, true) => self.c.ins().sextend(I64, value),
                _ => self.c.ins().ireduce(I32, value),
            }];
        }
        let x = self.one(value);
        match (from, to) {
            (Num::I32, Num::U64 | Num::I64) => {
                smallvec![self.c.ins().swiden_low(x), self.c.ins().swiden_high(x)]
            }
            (Num::U32, Num::U64 | Num::I64) => {
                smallvec![self.c.ins().uwiden_low(x), self.c.ins().uwiden_high(x)]
            }
            (Num::U64 | Num::I64, Num::U32 | Num::I32) => {
                let halves = self.all(value);
                smallvec![self.pack(&halves)]
            }
            (Num::I32, Num::F32) => {
                let y = self.c.ins().fcvt_from_sint(F32X4, x);
                smallvec![self.cast(I32X4, y)]
            }
            (Num::U32, Num::F32) => {
                let y = self.c.ins().fcvt_from_uint(F32X4, x);
                smallvec![self.cast(I32X4, y)]
            }
            (Num::F32, Num::I32) => {
                let x = self.cast(F32X4, x);
                smallvec![self.c.ins().fcvt_to_sint_sat(I32X4, x)]
            }
            (Num::F32, Num::U32) => {
                let x = self.cast(F32X4, x);
                smallvec![self.c.ins().fcvt_to_uint_sat(I32X4, x)]
            }
            _ => self.convert_lanes(from, to, value),
        }
    }

    /// One lane's conversion; integers and floats in registers of their own.
    pub(super) fn convert_lane(&mut self, from: Num, to: Num, x: Value) -> Value {
        let (source, target) = (num_scalar(from), num_scalar(to));
        let x = self.cast(source, x);
        let y = match (from, to) {
            (Num::U32 | Num::U64, Num::F32 | Num::F64) => self.c.ins().fcvt_from_uint(target, x),
            (Num::I32 | Num::I64, Num::F32 | Num::F64) => self.c.ins().fcvt_from_sint(target, x),
            (Num::F32 | Num::F64, Num::U32 | Num::U64) => self.c.ins().fcvt_to_uint_sat(target, x),
            (Num::F32 | Num::F64, Num::I32 | Num::I64) => self.c.ins().fcvt_to_sint_sat(target, x),
            (Num::F32, Num::F64) => self.c.ins().fpromote(F64, x),
            (Num::F64, Num::F32) => self.c.ins().fdemote(F32, x),
            _ => unreachable!("integers are not converted by lane"),
        };
        self.cast(if to.is_wide() { I64 } else { I32 }, y)
    }

    // Memory.

    /// An address without its constant part, and that.
    pub(super) fn address(&mut self, at: &Address) -> (Value, i32) {
        let mut base = self.one(at.base);
        if let Some((index, scale)) = at.index {
            let index = self.one(index);
            let ahead = self.c.ins().ishl_imm_u(index, i64::from(scale.trailing_zeros()));
            base = self.c.ins().iadd(base, ahead);
        }
        (base, at.disp)
    }

    pub(super) fn whole_address(&mut self, at: &Address) -> Value {
        let (base, offset) = self.address(at);
        if offset == 0 {
            return base;
        }
        let offset = self.c.ins().iconst(I64, i64::from(offset));
        self.c.ins().iadd(base, offset)
    }

    pub(super) fn load_element(&mut self, elem: Elem, base: Value, offset: i32) -> Value {
        match elem {
            Elem::U8 => self.c.ins().uload8(I32, flags(), base, offset),
            Elem::I8 => self.c.ins().sload8(I32, flags(), base, offset),
            Elem::U16 => self.c.ins().uload16(I32, flags(), base, offset),
            Elem::I16 => self.c.ins().sload16(I32, flags(), base, offset),
            Elem::B32 => self.c.ins().load(I32, flags(), base, offset),
            Elem::B64 => self.c.ins().load(I64, flags(), base, offset),
        }
    }

    pub(super) fn store_element(&mut self, elem: Elem, value: Value, base: Value, offset: i32) {
        match elem {
            Elem::U8 | Elem::I8 => self.c.ins().istore8(flags(), value, base, offset),
            Elem::U16 | Elem::I16 => self.c.ins().istore16(flags(), value, base, offset),
            Elem::B32 | Elem::B64 => self.c.ins().store(flags(), value, base, offset),
        };
    }

    fn rmw(&mut self, op: Rmw, elem: Elem, at: &Address, value: Value, shared: bool) -> Value {
        let ty = if elem == Elem::B64 { I64 } else { I32 };
        let at = self.whole_address(at);
        if shared {
            let op = match op {
                Rmw::Add => AtomicRmwOp::Add,
                Rmw::Sub => AtomicRmwOp::Sub,
                Rmw::And => AtomicRmwOp::And,
                Rmw::Or => AtomicRmwOp::Or,
                Rmw::Xor => AtomicRmwOp::Xor,
                Rmw::MinU => AtomicRmwOp::Umin,
                Rmw::MinS => AtomicRmwOp::Smin,
                Rmw::MaxU => AtomicRmwOp::Umax,
                Rmw::MaxS => AtomicRmwOp::Smax,
                Rmw::Exchange => AtomicRmwOp::Xchg,
            };
            return self.c.ins().atomic_rmw(ty, aligned(), op, at, value);
        }
        let old = self.c.ins().load(ty, flags(), at, 0);
        let new = match op {
            Rmw::Add => self.c.ins().iadd(old, value),
            Rmw::Sub => self.c.ins().isub(old, value),
            Rmw::And => self.c.ins().band(old, value),
            Rmw::Or => self.c.ins().bor(old, value),
            Rmw::Xor => self.c.ins().bxor(old, value),
            Rmw::MinU => self.c.ins().umin(old, value),
            Rmw::MinS => self.c.ins().smin(old, value),
            Rmw::MaxU => self.c.ins().umax(old, value),
            Rmw::MaxS => self.c.ins().smax(old, value),
            Rmw::Exchange => value,
        };
        self.c.ins().store(flags(), new, at, 0);
        old
    }

    fn compare_exchange(
        &mut self,
        elem: Elem,
        at: &Address,
        [expected, value]: [Value; 2],
        shared: bool,
    ) -> Value {
        let ty = if elem == Elem::B64 { I64 } else { I32 };
        let at = self.whole_address(at);
        if shared {
            return self.c.ins().atomic_cas(aligned(), at, expected, value);
        }
        let old = self.c.ins().load(ty, flags(), at, 0);
        let equal = self.c.ins().icmp(IntCC::Equal, old, expected);
        let new = self.c.ins().select(equal, value, old);
        self.c.ins().store(flags(), new, at, 0);
        old
    }
}

fn float_vector(float: Float) -> Type {
    match float {
        Float::F32 => F32X4,
        Float::F64 => F64X2,
    }
}

fn int_vector(float: Float) -> Type {
    match float {
        Float::F32 => I32X4,
        Float::F64 => I64X2,
    }
}

fn float_scalar(float: Float) -> Type {
    match float {
        Float::F32 => F32,
        Float::F64 => F64,
    }
}

fn int_scalar(float: Float) -> Type {
    match float {
        Float::F32 => I32,
        Float::F64 => I64,
    }
}

fn num_scalar(num: Num) -> Type {
    match num {
        Num::U32 | Num::I32 => I32,
        Num::U64 | Num::I64 => I64,
        Num::F32 => F32,
        Num::F64 => F64,
    }
}
