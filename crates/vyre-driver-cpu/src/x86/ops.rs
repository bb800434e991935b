//! What each op is in instructions: scalars, masks, moves between them, and the table over all ops.
//!
//! Where an op's result may share a register with an operand (see `allocate`), the result is written last.

use super::allocate::{GP_SCRATCH, K_SCRATCH, RAX, RDX, is_call};
use super::asm::{Arg, Level, Mem, Width, gp8, gp16, gp32, gp64, kreg, vec};
use super::emit::{Emit, Loc, codes, imm32};
use super::rows;
use crate::vector::code::{
    Address, BitOp, Elem, Inst, IntCond, IntOp, Kind, MaskOp, Num, Op, Reg, Rmw, ShiftOp,
};
use iced_x86::Code;
use smallvec::SmallVec;

impl Emit<'_> {
    pub(super) fn op(&mut self, inst: &Inst) {
        let kinds = &self.function.kinds;
        if is_call(&inst.op, self.level, |reg| kinds[reg.index()]) {
            return self.call(&inst.op);
        }
        match inst.op {
            Op::Const(bits) => {
                let d = self.d_gp();
                self.load_imm(d, bits);
            }
            Op::LaneIndex => self.asm.fail("lane numbers in a register"),
            Op::Int(op, a, b) if self.is_scalar(a) => self.int_scalar(op, a, b),
            Op::Int(op, a, b) => self.int_vector(op, a, b),
            Op::Shift(op, a, n) if self.is_scalar(a) => self.shift_scalar(op, a, n),
            Op::Shift(op, a, n) => self.shift_vector(op, a, n),
            Op::ShiftImm(op, a, n) if self.is_scalar(a) => self.shift_scalar_imm(op, a, n),
            Op::ShiftImm(op, a, n) => self.shift_vector_imm(op, a, n),
            Op::Bit(op, a) if self.is_scalar(a) => self.bit_scalar(op, a),
            Op::Bit(op, a) => self.bit_vector(op, a),
            Op::IntCmp(cond, a, b) if self.is_scalar(a) => self.compare_scalar(cond, a, b),
            Op::IntCmp(cond, a, b) => self.compare_vector(cond, a, b),
            Op::Float(op, ty, a, b) => self.float(op, ty, a, b),
            Op::FloatUn(op, ty, a) => self.float_un(op, ty, a),
            Op::Fma(ty, a, b, c) => self.fma(ty, a, b, c),
            Op::FloatCmp(cond, ty, a, b) => self.float_compare(cond, ty, a, b),
            Op::Select(cond, a, b) if self.kind(cond) == Kind::Mask => self.blend(cond, a, b),
            Op::Select(cond, a, b) if self.is_scalar(a) => self.select_scalar(cond, a, b),
            Op::Select(cond, a, b) => self.select_whole(cond, a, b),
            Op::Convert { from, to, value } if self.is_scalar(value) => self.convert_scalar(from, to, value),
            Op::Convert { from, to, value } => self.convert(from, to, value),
            Op::HalfToFloat(a) => self.half_to_float(a),
            Op::FloatToHalf(a) => self.float_to_half(a),
            Op::Mask(op, a, b) => self.mask_op(op, a, b),
            Op::MaskNot(a) => self.mask_not(a),
            Op::MaskFirst(n) => self.mask_first(n),
            Op::MaskToBits(a) => {
                let d = self.d_gp();
                self.mask_bits(Some(a), d);
            }
            Op::BitsToMask(a) => self.bits_to_mask(a),
            Op::Splat(a) => self.splat(a),
            Op::Extract(a, lane) => self.extract(a, lane),
            Op::Permute(a, index) => self.permute(a, index),
            Op::LoadS(elem, at) => self.load_scalar(elem, &at),
            Op::LoadSplat(elem, at) => self.load_splat(elem, &at),
            Op::Poll(at) => self.load_scalar(Elem::B32, &at),
            Op::StoreS(elem, at, value) => self.store_scalar(elem, &at, value),
            Op::LoadV(elem, at, mask) => self.load_vector(elem, &at, mask),
            Op::StoreV(elem, at, value, mask) => self.store_vector(elem, &at, value, mask),
            Op::StoreStream(elem, at, value) => self.store_stream(elem, &at, value),
            Op::Gather(elem, at) => self.gather(elem, &at),
            Op::Scatter(elem, at, value) => self.scatter(elem, &at, value),
            Op::Rmw { op, elem, at, value, shared } => self.rmw(op, elem, &at, value, shared),
            Op::CompareExchange { elem, at, expected, value, shared } => {
                self.compare_exchange(elem, &at, [expected, value], shared);
            }
        }
    }

    fn is_scalar(&self, reg: Reg) -> bool {
        self.kind(reg).is_scalar()
    }

    fn int_scalar(&mut self, op: IntOp, a: Reg, b: Reg) {
        let wide = self.kind(a) == Kind::S64;
        match op {
            IntOp::Add => self.add_scalar(a, b, wide),
            IntOp::Sub => self.two_operands(Code::Sub_r32_rm32, Code::Sub_rm32_imm32, a, b),
            IntOp::And if self.loc(b) == Loc::Imm(0xffff) => {
                let (d, x) = (self.d_gp(), self.gp(a, GP_SCRATCH[0]));
                self.asm.ins(Code::Movzx_r32_rm16, &[Arg::Reg(gp32(d)), Arg::Reg(gp16(x))]);
            }
            IntOp::And => self.two_operands(Code::And_r32_rm32, Code::And_rm32_imm32, a, b),
            IntOp::Or => self.two_operands(Code::Or_r32_rm32, Code::Or_rm32_imm32, a, b),
            IntOp::Xor => self.two_operands(Code::Xor_r32_rm32, Code::Xor_rm32_imm32, a, b),
            IntOp::Mul if matches!(self.loc(a), Loc::Imm(_)) && self.loc(b) != self.loc(a) => {
                self.int_scalar(op, b, a)
            }
            IntOp::Mul => match self.loc(b) {
                Loc::Imm(bits) => {
                    let (d, x) = (self.d_gp(), self.gp(a, GP_SCRATCH[0]));
                    let (d, x) = (self.reg(d, wide), self.reg(x, wide));
                    self.scalar(Code::Imul_r32_rm32_imm32, wide, &[d, x, imm32(bits, wide)]);
                }
                // There is no form with an immediate on the other side; the second code is never asked for.
                _ => self.two_operands(Code::Imul_r32_rm32, Code::INVALID, a, b),
            },
            IntOp::AndNot => {
                let (x, y) = (self.gp(a, GP_SCRATCH[0]), self.gp(b, GP_SCRATCH[1]));
                let d = self.d_gp();
                let (d, x, y) = (self.reg(d, wide), self.reg(x, wide), self.reg(y, wide));
                self.scalar(Code::VEX_Andn_r32_r32_rm32, wide, &[d, y, x]);
            }
            IntOp::MinU => self.min_max(Code::Cmovb_r32_rm32, a, b),
            IntOp::MinS => self.min_max(Code::Cmovl_r32_rm32, a, b),
            IntOp::MaxU => self.min_max(Code::Cmova_r32_rm32, a, b),
            IntOp::MaxS => self.min_max(Code::Cmovg_r32_rm32, a, b),
            IntOp::MulHiU => self.mul_high(Code::Mul_rm32, a, b),
            IntOp::MulHiS => self.mul_high(Code::Imul_rm32, a, b),
            IntOp::DivU => self.divide(false, RAX, a, b),
            IntOp::DivS => self.divide(true, RAX, a, b),
            IntOp::RemU => self.divide(false, RDX, a, b),
            IntOp::RemS => self.divide(true, RDX, a, b),
        }
    }

    fn add_scalar(&mut self, a: Reg, b: Reg, wide: bool) {
        let (a, b) = if matches!(self.loc(a), Loc::Imm(_)) { (b, a) } else { (a, b) };
        let mut mem = Mem::at(gp64(self.gp(a, GP_SCRATCH[0])), 0);
        match self.loc(b) {
            Loc::Imm(bits) => mem.disp = (bits as i32).into(),
            _ => mem.index = gp64(self.gp(b, GP_SCRATCH[1])),
        }
        let d = self.d_gp();
        let d = self.reg(d, wide);
        self.scalar(Code::Lea_r32_m, wide, &[d, Arg::Mem(mem)]);
    }

    /// An op that overwrites its first operand: with a register, or with an immediate.
    fn two_operands(&mut self, with_reg: Code, with_imm: Code, a: Reg, b: Reg) {
        let wide = self.kind(a) == Kind::S64;
        let d = self.d_gp();
        let turns = with_reg != Code::Sub_r32_rm32;
        let (a, b) = if turns && self.loc(b) == Loc::Gp(d) { (b, a) } else { (a, b) };
        let d_arg = self.reg(d, wide);
        if let Loc::Imm(bits) = self.loc(b) {
            self.mov_value(d, a);
            return self.scalar(with_imm, wide, &[d_arg, imm32(bits, wide)]);
        }
        let mut y = self.gp(b, GP_SCRATCH[1]);
        if y == d && self.loc(a) != Loc::Gp(d) {
            self.mov(GP_SCRATCH[1], y, wide);
            y = GP_SCRATCH[1];
        }
        self.mov_value(d, a);
        let y = self.reg(y, wide);
        self.scalar(with_reg, wide, &[d_arg, y]);
    }

    /// The one of two that a conditional move takes if it holds for `a` and `b`.
    fn min_max(&mut self, take: Code, a: Reg, b: Reg) {
        let wide = self.kind(a) == Kind::S64;
        self.mov_value(GP_SCRATCH[1], b);
        let x = self.gp(a, GP_SCRATCH[0]);
        let (x, y) = (self.reg(x, wide), self.reg(GP_SCRATCH[1], wide));
        self.scalar(Code::Cmp_r32_rm32, wide, &[x, y]);
        self.scalar(take, wide, &[y, x]);
        let d = self.d_gp();
        self.mov(d, GP_SCRATCH[1], wide);
    }

    fn mul_high(&mut self, code: Code, a: Reg, b: Reg) {
        let wide = self.kind(a) == Kind::S64;
        self.mov_value(GP_SCRATCH[1], b);
        self.mov_value(RAX, a);
        let y = self.reg(GP_SCRATCH[1], wide);
        self.scalar(code, wide, &[y]);
        let d = self.d_gp();
        self.mov(d, RDX, wide);
    }

    /// Division; the quotient is in rax, the remainder in rdx.
    fn divide(&mut self, signed: bool, result: u8, a: Reg, b: Reg) {
        let wide = self.kind(a) == Kind::S64;
        self.mov_value(GP_SCRATCH[1], b);
        self.mov_value(RAX, a);
        let (y, rax) = (self.reg(GP_SCRATCH[1], wide), self.reg(RAX, wide));
        let done = self.asm.label();
        // By 0: the quotient is the dividend, which is there, and the remainder 0.
        self.load_imm(RDX, 0);
        self.scalar(Code::Test_rm32_r32, wide, &[y, y]);
        self.asm.branch(Code::Je_rel32_64, done);
        if signed {
            let negate = self.asm.label();
            self.scalar(Code::Cmp_rm32_imm32, wide, &[y, imm32(u64::MAX, wide)]);
            self.asm.branch(Code::Je_rel32_64, negate);
            self.scalar(Code::Cdq, wide, &[]);
            self.scalar(Code::Idiv_rm32, wide, &[y]);
            self.asm.branch(Code::Jmp_rel32_64, done);
            // By -1: the instruction would fault on the least number.
            self.asm.bind(negate);
            self.scalar(Code::Neg_rm32, wide, &[rax]);
        } else {
            self.scalar(Code::Div_rm32, wide, &[y]);
        }
        self.asm.bind(done);
        let d = self.d_gp();
        self.mov(d, result, wide);
    }

    fn shift_scalar(&mut self, op: ShiftOp, a: Reg, n: Reg) {
        let wide = self.kind(a) == Kind::S64;
        let d = self.d_gp();
        let code = match op {
            ShiftOp::Shl => Code::VEX_Shlx_r32_rm32_r32,
            ShiftOp::ShrU => Code::VEX_Shrx_r32_rm32_r32,
            ShiftOp::ShrS => Code::VEX_Sarx_r32_rm32_r32,
            ShiftOp::RotL => {
                // The result's register is none of the operands'.
                self.mov_value(d, a);
                self.mov_value(GP_SCRATCH[1], n);
                let [r10, r11, d] = [GP_SCRATCH[0], GP_SCRATCH[1], d].map(|number| self.reg(number, wide));
                self.scalar(Code::VEX_Shlx_r32_rm32_r32, wide, &[r10, d, r11]);
                self.scalar(Code::Neg_rm32, wide, &[r11]);
                self.scalar(Code::VEX_Shrx_r32_rm32_r32, wide, &[d, d, r11]);
                return self.scalar(Code::Or_r32_rm32, wide, &[d, r10]);
            }
        };
        let (x, n) = (self.gp(a, GP_SCRATCH[0]), self.gp(n, GP_SCRATCH[1]));
        let (d, x, n) = (self.reg(d, wide), self.reg(x, wide), self.reg(n, wide));
        self.scalar(code, wide, &[d, x, n]);
    }

    fn shift_scalar_imm(&mut self, op: ShiftOp, a: Reg, n: u8) {
        let wide = self.kind(a) == Kind::S64;
        let d = self.d_gp();
        let code = match op {
            ShiftOp::Shl => Code::Shl_rm32_imm8,
            ShiftOp::ShrU => Code::Shr_rm32_imm8,
            ShiftOp::ShrS => Code::Sar_rm32_imm8,
            ShiftOp::RotL => Code::Rol_rm32_imm8,
        };
        self.mov_value(d, a);
        let d = self.reg(d, wide);
        self.scalar(code, wide, &[d, Arg::Imm8(n)]);
    }

    fn bit_scalar(&mut self, op: BitOp, a: Reg) {
        let wide = self.kind(a) == Kind::S64;
        let code = match op {
            BitOp::Popcount => Code::Popcnt_r32_rm32,
            BitOp::Clz => Code::Lzcnt_r32_rm32,
            BitOp::Ctz => Code::Tzcnt_r32_rm32,
        };
        let (x, d) = (self.gp(a, GP_SCRATCH[0]), self.d_gp());
        let (x, d) = (self.reg(x, wide), self.reg(d, wide));
        self.scalar(code, wide, &[d, x]);
    }

    fn compare_scalar(&mut self, cond: IntCond, a: Reg, b: Reg) {
        let (_, set) = codes(self.compare(cond, a, b));
        let (d, byte) = (self.d_gp(), Arg::Reg(gp8(GP_SCRATCH[1])));
        self.asm.ins(set, &[byte]);
        self.asm.ins(Code::Movzx_r32_rm8, &[Arg::Reg(gp32(d)), byte]);
    }

    fn select_scalar(&mut self, cond: Reg, a: Reg, b: Reg) {
        let wide = self.kind(a) == Kind::S64;
        let c = Arg::Reg(gp32(self.gp(cond, GP_SCRATCH[0])));
        self.asm.ins(Code::Test_rm32_r32, &[c, c]);
        self.mov_value(GP_SCRATCH[1], b);
        let x = self.gp(a, GP_SCRATCH[0]);
        let (x, y) = (self.reg(x, wide), self.reg(GP_SCRATCH[1], wide));
        self.scalar(Code::Cmovne_r32_rm32, wide, &[y, x]);
        let d = self.d_gp();
        self.mov(d, GP_SCRATCH[1], wide);
    }

    /// A whole vector or mask, by a uniform condition. The result's register is none of the operands'.
    fn select_whole(&mut self, cond: Reg, a: Reg, b: Reg) {
        let c = Arg::Reg(gp32(self.gp(cond, GP_SCRATCH[0])));
        self.asm.ins(Code::Test_rm32_r32, &[c, c]);
        let done = self.asm.label();
        self.copy_whole(a);
        self.asm.branch(Code::Jne_rel32_64, done);
        self.copy_whole(b);
        self.asm.bind(done);
    }

    /// A vector or mask into the result. Flags stay as they are.
    fn copy_whole(&mut self, from: Reg) {
        if self.kind(from) == Kind::Mask && self.level == Level::Avx512 {
            let (k, d) = (self.mask(from), self.d_mask());
            return self.asm.ins(Code::VEX_Kmovq_kr_km64, &[Arg::Reg(kreg(d)), Arg::Reg(kreg(k))]);
        }
        let width = if self.level == Level::Avx512 { Width::Z } else { Width::Y };
        let (d, x) = (self.d_vec(), self.src(from, width));
        self.row(rows::MOVDQU, width, &[Arg::Reg(vec(width, d)), x]);
    }

    fn convert_scalar(&mut self, from: Num, to: Num, value: Reg) {
        let (d, x) = (self.d_gp(), self.gp(value, GP_SCRATCH[0]));
        if from == Num::I32 && to.is_wide() {
            self.asm.ins(Code::Movsxd_r64_rm32, &[Arg::Reg(gp64(d)), Arg::Reg(gp32(x))]);
        } else {
            // Not left out where the registers are one: it clears the upper half, as all that gives 32 bits must.
            self.asm.ins(Code::Mov_r32_rm32, &[Arg::Reg(gp32(d)), Arg::Reg(gp32(x))]);
        }
    }

    /// An instruction on masks, named by its form for 16 lanes.
    fn mask_ins(&mut self, code: Code, args: &[u8]) {
        // Forms follow in the order of 16, 64, 8 and 32 lanes.
        let code = match self.function.lanes {
            8 => Code::try_from(code as usize + 2).unwrap_or(code),
            _ => code,
        };
        let args: SmallVec<[Arg; 3]> = args.iter().map(|number| Arg::Reg(kreg(*number))).collect();
        self.asm.ins(code, &args);
    }

    fn mask_op(&mut self, op: MaskOp, a: Reg, b: Reg) {
        if self.level == Level::Avx2 {
            let (row, a, b) = match op {
                MaskOp::And => (rows::PAND, a, b),
                MaskOp::Or => (rows::POR, a, b),
                MaskOp::Xor => (rows::PXOR, a, b),
                MaskOp::AndNot => (rows::PANDN, b, a),
            };
            let width = self.mask_width();
            return self.three(row, width, a, b);
        }
        if let (Loc::Bits(x), Loc::Bits(y)) = (self.loc(a), self.loc(b)) {
            let bits = match op {
                MaskOp::And => x & y,
                MaskOp::Or => x | y,
                MaskOp::Xor => x ^ y,
                MaskOp::AndNot => x & !y,
            };
            self.load_imm(GP_SCRATCH[1], bits);
            let d = self.d_mask();
            let from = Arg::Reg(gp32(GP_SCRATCH[1]));
            return self.asm.ins(Code::VEX_Kmovw_kr_r32, &[Arg::Reg(kreg(d)), from]);
        }
        let (x, y, d) = (self.mask(a), self.mask(b), self.d_mask());
        match op {
            MaskOp::And => self.mask_ins(Code::VEX_Kandw_kr_kr_kr, &[d, x, y]),
            MaskOp::Or => self.mask_ins(Code::VEX_Korw_kr_kr_kr, &[d, x, y]),
            MaskOp::Xor => self.mask_ins(Code::VEX_Kxorw_kr_kr_kr, &[d, x, y]),
            MaskOp::AndNot => self.mask_ins(Code::VEX_Kandnw_kr_kr_kr, &[d, y, x]),
        }
    }

    fn mask_not(&mut self, a: Reg) {
        if self.level == Level::Avx512 {
            let (x, d) = (self.mask(a), self.d_mask());
            return self.mask_ins(Code::VEX_Knotw_kr_kr, &[d, x]);
        }
        let width = self.mask_width();
        let (x, d, ones) = (self.vec(a, self.s0()), self.d_vec(), self.splat32(u32::MAX));
        self.row(rows::PXOR, width, &[Arg::Reg(vec(width, d)), Arg::Reg(vec(width, x)), Arg::Mem(ones)]);
    }

    fn mask_first(&mut self, n: Reg) {
        let (width, lanes) = (self.mask_width(), self.lanes32(|lane| lane));
        let s0 = Arg::Reg(vec(width, self.s0()));
        if self.level == Level::Avx512 {
            let (n, d) = (self.gp(n, GP_SCRATCH[0]), self.d_mask());
            self.row(rows::BROADCASTD_GP, width, &[s0, Arg::Reg(gp32(n))]);
            // Greater than the lane, unsigned.
            return self.row(rows::PCMPUD, width, &[Arg::Reg(kreg(d)), s0, Arg::Mem(lanes), Arg::Imm8(6)]);
        }
        // The comparison is signed, so the number is cut to the lanes first.
        let (r10, r11) = (Arg::Reg(gp32(GP_SCRATCH[0])), Arg::Reg(gp32(GP_SCRATCH[1])));
        self.mov_value(GP_SCRATCH[1], n);
        self.load_imm(GP_SCRATCH[0], self.function.lanes.into());
        self.asm.ins(Code::Cmp_r32_rm32, &[r11, r10]);
        self.asm.ins(Code::Cmova_r32_rm32, &[r11, r10]);
        self.broadcast32(r11, width);
        let d = self.d_vec();
        self.row(rows::PCMPGTD, width, &[Arg::Reg(vec(width, d)), s0, Arg::Mem(lanes)]);
    }

    /// A general register into every lane of the first scratch vector, where only vectors can be spread.
    fn broadcast32(&mut self, from: Arg, width: Width) {
        let low = Arg::Reg(vec(Width::X, self.s0()));
        self.asm.ins(Code::VEX_Vmovd_xmm_rm32, &[low, from]);
        self.row(rows::BROADCASTD, width, &[Arg::Reg(vec(width, self.s0())), low]);
    }

    /// A mask as bits in a general register; all lanes for none.
    pub(super) fn mask_bits(&mut self, mask: Option<Reg>, to: u8) {
        let all = u64::MAX >> (64 - self.function.lanes);
        let Some(mask) = mask else { return self.load_imm(to, all) };
        let to = Arg::Reg(gp32(to));
        match self.level {
            Level::Avx512 => {
                let k = Arg::Reg(kreg(self.mask(mask)));
                self.asm.ins(Code::VEX_Kmovw_r32_kr, &[to, k]);
            }
            Level::Avx2 => {
                let width = self.mask_width();
                let code =
                    if width == Width::Y { Code::VEX_Vmovmskps_r32_ymm } else { Code::VEX_Vmovmskps_r32_xmm };
                let mask = Arg::Reg(vec(width, self.vec(mask, self.s0())));
                self.asm.ins(code, &[to, mask]);
            }
        }
    }

    fn bits_to_mask(&mut self, a: Reg) {
        let bits = self.gp(a, GP_SCRATCH[0]);
        if self.level == Level::Avx512 {
            let d = self.d_mask();
            let code = if self.function.lanes == 8 { Code::VEX_Kmovb_kr_r32 } else { Code::VEX_Kmovw_kr_r32 };
            return self.asm.ins(code, &[Arg::Reg(kreg(d)), Arg::Reg(gp32(bits))]);
        }
        let width = self.mask_width();
        self.broadcast32(Arg::Reg(gp32(bits)), width);
        let (s0, own) = (Arg::Reg(vec(width, self.s0())), self.lanes32(|lane| 1 << (lane % 32)));
        self.row(rows::PAND, width, &[s0, s0, Arg::Mem(own)]);
        let d = self.d_vec();
        self.row(rows::PCMPEQD, width, &[Arg::Reg(vec(width, d)), s0, Arg::Mem(own)]);
    }

    fn splat(&mut self, a: Reg) {
        let x = self.gp(a, GP_SCRATCH[0]);
        self.splat_gp(x, self.kind(a) == Kind::S64);
    }

    /// A general register into every lane of the result.
    fn splat_gp(&mut self, from: u8, wide: bool) {
        let width = self.width_of(if wide { 64 } else { 32 });
        let (x, d) = (self.reg(from, wide), Arg::Reg(vec(width, self.d_vec())));
        if self.level == Level::Avx512 {
            let row = if wide { rows::BROADCASTQ_GP } else { rows::BROADCASTD_GP };
            return self.row(row, width, &[d, x]);
        }
        let low = Arg::Reg(vec(Width::X, self.s0()));
        let (code, row) = match wide {
            true => (Code::VEX_Vmovq_xmm_rm64, rows::BROADCASTQ),
            false => (Code::VEX_Vmovd_xmm_rm32, rows::BROADCASTD),
        };
        self.asm.ins(code, &[low, x]);
        self.row(row, width, &[d, low]);
    }

    fn extract(&mut self, a: Reg, lane: u8) {
        let wide = self.kind(a) == Kind::V64;
        let width = self.width(self.kind(a));
        let (x, d) = (self.vec(a, self.s0()), self.d_gp());
        let lanes = if wide { 2 } else { 4 };
        let (quarter, place) = (lane / lanes, lane % lanes);
        let mut low = vec(Width::X, x);
        if quarter > 0 {
            let code = match (self.level, width) {
                (Level::Avx2, _) => Code::VEX_Vextracti128_xmmm128_ymm_imm8,
                (Level::Avx512, Width::Z) => Code::EVEX_Vextracti32x4_xmmm128_k1z_zmm_imm8,
                (Level::Avx512, _) => Code::EVEX_Vextracti32x4_xmmm128_k1z_ymm_imm8,
            };
            low = vec(Width::X, self.s0());
            self.asm.ins(code, &[Arg::Reg(low), Arg::Reg(vec(width, x)), Arg::Imm8(quarter)]);
        }
        let new = self.level == Level::Avx512;
        let d = self.reg(d, wide);
        match (place, wide, new) {
            (0, false, false) => self.asm.ins(Code::VEX_Vmovd_rm32_xmm, &[d, Arg::Reg(low)]),
            (0, false, true) => self.asm.ins(Code::EVEX_Vmovd_rm32_xmm, &[d, Arg::Reg(low)]),
            (0, true, false) => self.asm.ins(Code::VEX_Vmovq_rm64_xmm, &[d, Arg::Reg(low)]),
            (0, true, true) => self.asm.ins(Code::EVEX_Vmovq_rm64_xmm, &[d, Arg::Reg(low)]),
            (_, false, false) => {
                self.asm.ins(Code::VEX_Vpextrd_rm32_xmm_imm8, &[d, Arg::Reg(low), Arg::Imm8(place)]);
            }
            (_, false, true) => {
                self.asm.ins(Code::EVEX_Vpextrd_rm32_xmm_imm8, &[d, Arg::Reg(low), Arg::Imm8(place)]);
            }
            (_, true, false) => {
                self.asm.ins(Code::VEX_Vpextrq_rm64_xmm_imm8, &[d, Arg::Reg(low), Arg::Imm8(place)]);
            }
            (_, true, true) => {
                self.asm.ins(Code::EVEX_Vpextrq_rm64_xmm_imm8, &[d, Arg::Reg(low), Arg::Imm8(place)]);
            }
        }
    }

    fn load_scalar(&mut self, elem: Elem, at: &Address) {
        let (mem, d) = (self.address(at), self.d_gp());
        self.load_element(elem, d, mem);
    }

    fn load_splat(&mut self, elem: Elem, at: &Address) {
        let (mem, wide) = (self.address(at), elem == Elem::B64);
        if elem.bytes() < 4 {
            self.load_element(elem, GP_SCRATCH[1], mem);
            return self.splat_gp(GP_SCRATCH[1], false);
        }
        let width = self.width(elem.vector());
        let row = if wide { rows::BROADCASTQ } else { rows::BROADCASTD };
        let d = Arg::Reg(vec(width, self.d_vec()));
        self.row(row, width, &[d, Arg::Mem(mem)]);
    }

    fn store_scalar(&mut self, elem: Elem, at: &Address, value: Reg) {
        let mem = self.address(at);
        let value = self.gp(value, GP_SCRATCH[0]);
        self.store_element(elem, mem, value);
    }

    /// An element into a general register.
    pub(super) fn load_element(&mut self, elem: Elem, to: u8, from: Mem) {
        let (code, to) = match elem {
            Elem::U8 => (Code::Movzx_r32_rm8, gp32(to)),
            Elem::I8 => (Code::Movsx_r32_rm8, gp32(to)),
            Elem::U16 => (Code::Movzx_r32_rm16, gp32(to)),
            Elem::I16 => (Code::Movsx_r32_rm16, gp32(to)),
            Elem::B32 => (Code::Mov_r32_rm32, gp32(to)),
            Elem::B64 => (Code::Mov_r64_rm64, gp64(to)),
        };
        self.asm.ins(code, &[Arg::Reg(to), Arg::Mem(from)]);
    }

    /// An element from a general register.
    pub(super) fn store_element(&mut self, elem: Elem, to: Mem, from: u8) {
        let (code, from) = match elem {
            Elem::U8 | Elem::I8 => (Code::Mov_rm8_r8, gp8(from)),
            Elem::U16 | Elem::I16 => (Code::Mov_rm16_r16, gp16(from)),
            Elem::B32 => (Code::Mov_rm32_r32, gp32(from)),
            Elem::B64 => (Code::Mov_rm64_r64, gp64(from)),
        };
        self.asm.ins(code, &[Arg::Mem(to), Arg::Reg(from)]);
    }

    /// A read-modify-write. The old value is in the second scratch register, or in rax in a loop.
    fn rmw(&mut self, op: Rmw, elem: Elem, at: &Address, value: Reg, shared: bool) {
        let wide = elem == Elem::B64;
        let mem = Arg::Mem(self.address(at));
        if self.def.is_none() {
            return self.rmw_silent(op, wide, mem, value, shared);
        }
        let (r10, r11) = (self.reg(GP_SCRATCH[0], wide), self.reg(GP_SCRATCH[1], wide));
        let d = self.d_gp();
        if op == Rmw::Exchange && shared {
            self.mov_value(GP_SCRATCH[1], value);
            // The instruction locks by itself.
            self.scalar(Code::Xchg_rm32_r32, wide, &[mem, r11]);
        } else if matches!(op, Rmw::Add | Rmw::Sub) && shared {
            self.mov_value(GP_SCRATCH[1], value);
            if op == Rmw::Sub {
                self.scalar(Code::Neg_rm32, wide, &[r11]);
            }
            self.scalar_locked(Code::Xadd_rm32_r32, wide, &[mem, r11]);
        } else if shared {
            let rax = self.reg(RAX, wide);
            self.scalar(Code::Mov_r32_rm32, wide, &[rax, mem]);
            let again = self.asm.label();
            self.asm.bind(again);
            self.scalar(Code::Mov_r32_rm32, wide, &[r11, rax]);
            self.combine(op, GP_SCRATCH[1], GP_SCRATCH[0], value, wide);
            self.scalar_locked(Code::Cmpxchg_rm32_r32, wide, &[mem, r11]);
            self.asm.branch(Code::Jne_rel32_64, again);
            return self.mov(d, RAX, wide);
        } else {
            self.scalar(Code::Mov_r32_rm32, wide, &[r11, mem]);
            self.scalar(Code::Mov_r32_rm32, wide, &[r10, r11]);
            self.combine(op, GP_SCRATCH[0], d, value, wide);
            self.scalar(Code::Mov_rm32_r32, wide, &[mem, r10]);
        }
        self.mov(d, GP_SCRATCH[1], wide);
    }

    /// A read-modify-write whose old value nobody reads, of those that are one instruction then.
    fn rmw_silent(&mut self, op: Rmw, wide: bool, mem: Arg, value: Reg, shared: bool) {
        let (with_reg, with_imm) = match op {
            Rmw::Add => (Code::Add_rm32_r32, Code::Add_rm32_imm32),
            Rmw::Sub => (Code::Sub_rm32_r32, Code::Sub_rm32_imm32),
            Rmw::And => (Code::And_rm32_r32, Code::And_rm32_imm32),
            Rmw::Or => (Code::Or_rm32_r32, Code::Or_rm32_imm32),
            Rmw::Xor => (Code::Xor_rm32_r32, Code::Xor_rm32_imm32),
            other => return self.asm.fail(format!("{other:?} without a result")),
        };
        let (code, value) = match self.loc(value) {
            Loc::Imm(bits) => (with_imm, imm32(bits, wide)),
            _ => {
                let value = self.gp(value, GP_SCRATCH[0]);
                (with_reg, self.reg(value, wide))
            }
        };
        if shared {
            self.scalar_locked(code, wide, &[mem, value]);
        } else {
            self.scalar(code, wide, &[mem, value]);
        }
    }

    /// Puts `to op value` into `to`; `spare` is free for a constant.
    fn combine(&mut self, op: Rmw, to: u8, spare: u8, value: Reg, wide: bool) {
        // Where there is a constant, nothing else is in `spare`: it may be the result's register.
        let spare = if matches!(self.loc(value), Loc::Imm(_)) { spare } else { to };
        let y = self.gp(value, spare);
        let (x, y) = (self.reg(to, wide), self.reg(y, wide));
        let take = match op {
            Rmw::Add => return self.scalar(Code::Add_r32_rm32, wide, &[x, y]),
            Rmw::Sub => return self.scalar(Code::Sub_r32_rm32, wide, &[x, y]),
            Rmw::And => return self.scalar(Code::And_r32_rm32, wide, &[x, y]),
            Rmw::Or => return self.scalar(Code::Or_r32_rm32, wide, &[x, y]),
            Rmw::Xor => return self.scalar(Code::Xor_r32_rm32, wide, &[x, y]),
            Rmw::Exchange => return self.scalar(Code::Mov_r32_rm32, wide, &[x, y]),
            Rmw::MinU => Code::Cmova_r32_rm32,
            Rmw::MinS => Code::Cmovg_r32_rm32,
            Rmw::MaxU => Code::Cmovb_r32_rm32,
            Rmw::MaxS => Code::Cmovl_r32_rm32,
        };
        self.scalar(Code::Cmp_r32_rm32, wide, &[x, y]);
        self.scalar(take, wide, &[x, y]);
    }

    fn compare_exchange(&mut self, elem: Elem, at: &Address, [expected, value]: [Reg; 2], shared: bool) {
        let wide = elem == Elem::B64;
        let mem = Arg::Mem(self.address(at));
        self.mov_value(RAX, expected);
        let value = self.gp(value, GP_SCRATCH[1]);
        let value = self.reg(value, wide);
        if shared {
            self.scalar_locked(Code::Cmpxchg_rm32_r32, wide, &[mem, value]);
        } else {
            self.scalar(Code::Cmpxchg_rm32_r32, wide, &[mem, value]);
        }
        let d = self.d_gp();
        self.mov(d, RAX, wide);
    }

    /// The emitter's own predicate holding a mask, or all lanes: instructions that clear their mask get this.
    pub(super) fn own_mask(&mut self, mask: Option<Reg>) {
        let Some(mask) = mask else {
            self.load_imm(GP_SCRATCH[1], u64::MAX >> (64 - self.function.lanes));
            let from = Arg::Reg(gp32(GP_SCRATCH[1]));
            return self.asm.ins(Code::VEX_Kmovw_kr_r32, &[Arg::Reg(kreg(K_SCRATCH)), from]);
        };
        let k = self.mask(mask);
        if k != K_SCRATCH {
            self.asm.ins(Code::VEX_Kmovq_kr_km64, &[Arg::Reg(kreg(K_SCRATCH)), Arg::Reg(kreg(k))]);
        }
    }
}
