//! What ops on lanes are in instructions: integers, floats, conversions, blends.
//!
//! The two scratch vectors are free within an op. Where an op's result may share a register with an operand, the result is
//! written last. On AVX2 a mask is a vector of 32-bit lanes of all ones or zeros.

use super::allocate::K_SCRATCH;
use super::asm::{Arg, Level, Mem, Width, kreg, vec};
use super::emit::{Emit, Loc};
use super::rows::{self, Row};
use crate::vector::code::{
    BitOp, Float, FloatCond, FloatOp, FloatUnOp, IntCond, IntOp, Kind, Num, Reg, ShiftOp,
};
use iced_x86::{Code, Register};

const SIGN32: u32 = 1 << 31;
const SIGN64: u64 = 1 << 63;
/// Predicates of float comparisons that are quiet about NaN.
const UNORDERED: u8 = 3;
const ORDERED: u8 = 7;
const GREATER_EQUAL: u8 = 0x1d;

impl Emit<'_> {
    /// `d = a op b` by one instruction; only `b` may be in memory.
    pub(super) fn three(&mut self, row: Row, width: Width, a: Reg, b: Reg) {
        let (x, y, d) = (self.vec(a, self.s0()), self.src(b, width), self.d_vec());
        self.row(row, width, &[Arg::Reg(vec(width, d)), Arg::Reg(vec(width, x)), y]);
    }

    /// The same where the order of operands does not matter, so that a constant comes second.
    fn three_any(&mut self, row: Row, width: Width, a: Reg, b: Reg) {
        if matches!(self.loc(a), Loc::Memory(_)) {
            self.three(row, width, b, a)
        } else {
            self.three(row, width, a, b)
        }
    }

    pub(super) fn int_vector(&mut self, op: IntOp, a: Reg, b: Reg) {
        let wide = self.kind(a) == Kind::V64;
        let width = self.width(self.kind(a));
        let pick = |narrow, other| if wide { other } else { narrow };
        let old = self.level == Level::Avx2;
        match op {
            IntOp::Add => self.three_any(pick(rows::PADDD, rows::PADDQ), width, a, b),
            IntOp::Sub => self.three(pick(rows::PSUBD, rows::PSUBQ), width, a, b),
            IntOp::Mul if wide && old => self.mul_wide(width, a, b),
            IntOp::Mul => self.three_any(pick(rows::PMULLD, rows::PMULLQ), width, a, b),
            IntOp::MulHiU => self.mul_high_vector(rows::PMULUDQ, width, a, b),
            IntOp::MulHiS => self.mul_high_vector(rows::PMULDQ, width, a, b),
            IntOp::And => self.three_any(rows::PAND, width, a, b),
            IntOp::Or => self.three_any(rows::POR, width, a, b),
            IntOp::Xor => self.three_any(rows::PXOR, width, a, b),
            IntOp::AndNot => self.three(rows::PANDN, width, b, a),
            IntOp::MinU | IntOp::MinS | IntOp::MaxU | IntOp::MaxS if wide && old => {
                self.min_max_wide(op, a, b)
            }
            IntOp::MinU => self.three_any(pick(rows::PMINUD, rows::PMINUQ), width, a, b),
            IntOp::MinS => self.three_any(pick(rows::PMINSD, rows::PMINSQ), width, a, b),
            IntOp::MaxU => self.three_any(pick(rows::PMAXUD, rows::PMAXUQ), width, a, b),
            IntOp::MaxS => self.three_any(pick(rows::PMAXSD, rows::PMAXSQ), width, a, b),
            IntOp::DivU | IntOp::RemU => self.divide_vector(width, false, op == IntOp::RemU, a, b),
            IntOp::DivS | IntOp::RemS => self.divide_vector(width, true, op == IntOp::RemS, a, b),
        }
    }

    /// Division of 32-bit integers in f64, which holds them exactly. A quotient below an integer is so by 2^-32 of it at least,
    /// and rounding moves it by 2^-53: it never reaches that integer. The least number by -1 does not fit, and the
    /// instruction gives the least number then, as it should. The result's register is no operand's.
    fn divide_vector(&mut self, width: Width, signed: bool, remainder: bool, a: Reg, b: Reg) {
        let (n0, n1, number) = (self.s0(), self.s1(), self.d_vec());
        let (s0, s1, d) = (Arg::Reg(vec(width, n0)), Arg::Reg(vec(width, n1)), Arg::Reg(vec(width, number)));
        let (x, y) = (self.src(a, width), self.src(b, width));
        self.quotients(number, signed, [x, y], 0);
        if width == Width::Z {
            self.quotients(n0, signed, [x, y], 1);
            let args = [d, d, Arg::Reg(vec(Width::Y, n0)), Arg::Imm8(1)];
            self.asm.ins(Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8, &args);
        }
        let (k, zero) = (Arg::Reg(kreg(K_SCRATCH)), Arg::Mem(self.splat32(0)));
        self.row(rows::MOVDQU, width, &[s1, y]);
        if remainder {
            self.row(rows::PMULLD, width, &[s1, s1, d]);
            self.row(rows::MOVDQU, width, &[s0, x]);
            self.row(rows::PSUBD, width, &[d, s0, s1]);
            // By 0 it is 0.
            self.row(rows::MOVDQU, width, &[s1, y]);
            self.row(rows::PCMPD, width, &[k, s1, zero, Arg::Imm8(4)]);
            self.row_masked(rows::MOVDQU, width, &[d, d], K_SCRATCH, true);
        } else {
            // By 0 it is the dividend.
            self.row(rows::PCMPD, width, &[k, s1, zero, Arg::Imm8(0)]);
            self.row_masked(rows::MOVDQU, width, &[d, x], K_SCRATCH, false);
        }
    }

    /// The quotients of eight lanes, the first or the second eight, in 256 bits.
    fn quotients(&mut self, to: u8, signed: bool, operands: [Arg; 2], half: u8) {
        let (widen, back) = match signed {
            true => (rows::CVTDQ2PD, rows::CVTTPD2DQ),
            false => (rows::CVTUDQ2PD, rows::CVTTPD2UDQ),
        };
        let scratch = [self.s0(), self.s1()];
        for (operand, number) in operands.into_iter().zip(scratch) {
            let part = Arg::Reg(vec(Width::Y, number));
            let source = match operand {
                Arg::Mem(mem) => Arg::Mem(Mem { disp: mem.disp + i64::from(half) * 32, ..mem }),
                whole if half == 1 => {
                    let code = Code::EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8;
                    self.asm.ins(code, &[part, whole, Arg::Imm8(1)]);
                    part
                }
                Arg::Reg(reg) => Arg::Reg(vec(Width::Y, reg_number(reg))),
                other => other,
            };
            self.row(widen, Width::Z, &[Arg::Reg(vec(Width::Z, number)), source]);
        }
        let [s0, s1] = scratch.map(|number| Arg::Reg(vec(Width::Z, number)));
        self.row(rows::DIVPD, Width::Z, &[s0, s0, s1]);
        self.row(back, Width::Z, &[Arg::Reg(vec(Width::Y, to)), s0]);
    }

    /// The low half of a 64-bit product from 32-bit ones.
    fn mul_wide(&mut self, width: Width, a: Reg, b: Reg) {
        let (a, b) = if matches!(self.loc(a), Loc::Memory(_)) { (b, a) } else { (a, b) };
        let (s0, s1) = (Arg::Reg(vec(width, self.s0())), Arg::Reg(vec(width, self.s1())));
        // Two constants leave the result's register free until the end.
        let number = self.d_vec();
        let (x, d) = (Arg::Reg(vec(width, self.vec(a, number))), Arg::Reg(vec(width, number)));
        let y = self.src(b, width);
        // The crossed products: low by high, high by low.
        self.row(rows::PSHUFD, width, &[s0, y, Arg::Imm8(0xb1)]);
        self.row(rows::PMULLD, width, &[s0, s0, x]);
        self.row(rows::PSRLQ, width, &[s1, s0, Arg::Imm8(32)]);
        self.row(rows::PADDD, width, &[s0, s0, s1]);
        self.row(rows::PSLLQ, width, &[s0, s0, Arg::Imm8(32)]);
        self.row(rows::PMULUDQ, width, &[s1, x, y]);
        self.row(rows::PADDQ, width, &[d, s0, s1]);
    }

    /// The upper halves of 32-bit products: of even lanes, and of odd ones. The result's register is no operand's.
    fn mul_high_vector(&mut self, row: Row, width: Width, a: Reg, b: Reg) {
        let (s0, s1) = (Arg::Reg(vec(width, self.s0())), Arg::Reg(vec(width, self.s1())));
        let d = Arg::Reg(vec(width, self.d_vec()));
        let (x, y) = (self.vec(a, self.s0()), self.vec(b, self.s1()));
        let (x, y) = (Arg::Reg(vec(width, x)), Arg::Reg(vec(width, y)));
        self.row(row, width, &[d, x, y]);
        self.row(rows::PSRLQ, width, &[s0, x, Arg::Imm8(32)]);
        self.row(rows::PSRLQ, width, &[s1, y, Arg::Imm8(32)]);
        self.row(row, width, &[s0, s0, s1]);
        self.row(rows::PSRLQ, width, &[d, d, Arg::Imm8(32)]);
        let odd = Arg::Mem(self.splat64(0xffff_ffff_0000_0000));
        self.row(rows::PAND, width, &[s0, s0, odd]);
        self.row(rows::POR, width, &[d, d, s0]);
    }

    /// The lesser or greater of 64-bit integers by comparing and choosing.
    fn min_max_wide(&mut self, op: IntOp, a: Reg, b: Reg) {
        let width = self.width(Kind::V64);
        let s0 = Arg::Reg(vec(width, self.s0()));
        let unsigned = matches!(op, IntOp::MinU | IntOp::MaxU);
        self.greater_wide(a, b, unsigned);
        let (first, second) = if matches!(op, IntOp::MinU | IntOp::MinS) { (a, b) } else { (b, a) };
        let (x, y) = (self.vec(first, self.s1()), self.src(second, width));
        let d = self.d_vec();
        self.row(rows::BLENDVPD, width, &[Arg::Reg(vec(width, d)), Arg::Reg(vec(width, x)), y, s0]);
    }

    /// Whether `a > b` on 64-bit lanes, as a vector in the first scratch register. AVX2 only has signed ones.
    fn greater_wide(&mut self, a: Reg, b: Reg, unsigned: bool) {
        let width = self.width(Kind::V64);
        let (s0, s1) = (Arg::Reg(vec(width, self.s0())), Arg::Reg(vec(width, self.s1())));
        let x = Arg::Reg(vec(width, self.vec(a, self.s0())));
        if unsigned {
            let sign = Arg::Mem(self.splat64(SIGN64));
            let y = Arg::Reg(vec(width, self.vec(b, self.s1())));
            self.row(rows::PXOR, width, &[s1, y, sign]);
            self.row(rows::PXOR, width, &[s0, x, sign]);
            self.row(rows::PCMPGTQ, width, &[s0, s0, s1]);
        } else {
            let y = self.src(b, width);
            self.row(rows::PCMPGTQ, width, &[s0, x, y]);
        }
    }

    pub(super) fn shift_vector(&mut self, op: ShiftOp, a: Reg, n: Reg) {
        let wide = self.kind(a) == Kind::V64;
        let width = self.width(self.kind(a));
        let pick = |narrow, other| if wide { other } else { narrow };
        let old = self.level == Level::Avx2;
        let (left, right) = (pick(rows::PSLLVD, rows::PSLLVQ), pick(rows::PSRLVD, rows::PSRLVQ));
        let (s0, s1) = (Arg::Reg(vec(width, self.s0())), Arg::Reg(vec(width, self.s1())));
        match op {
            ShiftOp::Shl => self.three(left, width, a, n),
            ShiftOp::ShrU => self.three(right, width, a, n),
            ShiftOp::ShrS if wide && old => {
                // The sign comes in by adding and subtracting the place where it went.
                let x = Arg::Reg(vec(width, self.vec(a, self.s0())));
                let (y, d, sign) = (self.src(n, width), self.d_vec(), Arg::Mem(self.splat64(SIGN64)));
                self.row(right, width, &[s0, x, y]);
                self.row(rows::MOVDQU, width, &[s1, sign]);
                self.row(right, width, &[s1, s1, y]);
                self.row(rows::PXOR, width, &[s0, s0, s1]);
                self.row(rows::PSUBQ, width, &[Arg::Reg(vec(width, d)), s0, s1]);
            }
            ShiftOp::ShrS => self.three(pick(rows::PSRAVD, rows::PSRAVQ), width, a, n),
            ShiftOp::RotL if old => {
                // The result's register is no operand's. Shifts by the width or more give 0.
                let d = Arg::Reg(vec(width, self.d_vec()));
                let x = Arg::Reg(vec(width, self.vec(a, self.s0())));
                let y = self.src(n, width);
                let bits = if wide { self.splat64(64) } else { self.splat32(32) };
                self.row(left, width, &[d, x, y]);
                self.row(rows::MOVDQU, width, &[s1, Arg::Mem(bits)]);
                self.row(pick(rows::PSUBD, rows::PSUBQ), width, &[s1, s1, y]);
                self.row(right, width, &[s0, x, s1]);
                self.row(rows::POR, width, &[d, d, s0]);
            }
            ShiftOp::RotL => self.three(pick(rows::PROLVD, rows::PROLVQ), width, a, n),
        }
    }

    pub(super) fn shift_vector_imm(&mut self, op: ShiftOp, a: Reg, n: u8) {
        let wide = self.kind(a) == Kind::V64;
        let width = self.width(self.kind(a));
        let pick = |narrow, other| if wide { other } else { narrow };
        let old = self.level == Level::Avx2;
        let (left, right) = (pick(rows::PSLLD, rows::PSLLQ), pick(rows::PSRLD, rows::PSRLQ));
        let s0 = Arg::Reg(vec(width, self.s0()));
        let x = Arg::Reg(vec(width, self.vec(a, self.s1())));
        let d = Arg::Reg(vec(width, self.d_vec()));
        match op {
            ShiftOp::Shl => self.row(left, width, &[d, x, Arg::Imm8(n)]),
            ShiftOp::ShrU => self.row(right, width, &[d, x, Arg::Imm8(n)]),
            ShiftOp::ShrS if wide && old => {
                let sign = Arg::Mem(self.splat64(SIGN64 >> n));
                self.row(right, width, &[s0, x, Arg::Imm8(n)]);
                self.row(rows::PXOR, width, &[s0, s0, sign]);
                self.row(rows::PSUBQ, width, &[d, s0, sign]);
            }
            ShiftOp::ShrS => self.row(pick(rows::PSRAD, rows::PSRAQ), width, &[d, x, Arg::Imm8(n)]),
            ShiftOp::RotL if old => {
                let s1 = Arg::Reg(vec(width, self.s1()));
                let bits = if wide { 64 } else { 32 };
                self.row(left, width, &[s0, x, Arg::Imm8(n)]);
                self.row(right, width, &[s1, x, Arg::Imm8(bits - n)]);
                self.row(rows::POR, width, &[d, s0, s1]);
            }
            ShiftOp::RotL => self.row(pick(rows::PROLD, rows::PROLQ), width, &[d, x, Arg::Imm8(n)]),
        }
    }

    pub(super) fn bit_vector(&mut self, op: BitOp, a: Reg) {
        let wide = self.kind(a) == Kind::V64;
        let width = self.width(self.kind(a));
        match op {
            BitOp::Clz => {
                let (x, d) = (self.src(a, width), self.d_vec());
                let row = if wide { rows::PLZCNTQ } else { rows::PLZCNTD };
                self.row(row, width, &[Arg::Reg(vec(width, d)), x]);
            }
            BitOp::Popcount => self.popcount(width, wide, a),
            BitOp::Ctz => self.asm.fail("vectors have no ctz"),
        }
    }

    /// Counts by halves of bytes in a table, then sums bytes. The result's register is not the operand's.
    fn popcount(&mut self, width: Width, wide: bool, a: Reg) {
        let (s0, s1) = (Arg::Reg(vec(width, self.s0())), Arg::Reg(vec(width, self.s1())));
        let d = Arg::Reg(vec(width, self.d_vec()));
        let x = Arg::Reg(vec(width, self.vec(a, self.s0())));
        let byte = |first: u32| (0..4).fold(0, |word, at| word | (first + at).count_ones() << (at * 8));
        let table = Arg::Mem(self.lanes32(|lane| byte(lane % 4 * 4)));
        let low = Arg::Mem(self.splat32(0x0f0f_0f0f));
        self.row(rows::PSRLD, width, &[s1, x, Arg::Imm8(4)]);
        self.row(rows::PAND, width, &[s1, s1, low]);
        self.row(rows::PAND, width, &[s0, x, low]);
        self.row(rows::MOVDQU, width, &[d, table]);
        self.row(rows::PSHUFB, width, &[s0, d, s0]);
        self.row(rows::PSHUFB, width, &[s1, d, s1]);
        self.row(rows::PADDB, width, &[s0, s0, s1]);
        if wide {
            let zero = Arg::Mem(self.splat32(0));
            self.row(rows::PSADBW, width, &[d, s0, zero]);
        } else {
            let (ones8, ones16) = (Arg::Mem(self.splat32(0x0101_0101)), Arg::Mem(self.splat32(0x0001_0001)));
            self.row(rows::PMADDUBSW, width, &[s0, s0, ones8]);
            self.row(rows::PMADDWD, width, &[d, s0, ones16]);
        }
    }

    pub(super) fn compare_vector(&mut self, cond: IntCond, a: Reg, b: Reg) {
        let wide = self.kind(a) == Kind::V64;
        let width = self.width(self.kind(a));
        if self.level == Level::Avx2 {
            return if wide { self.compare_old_wide(cond, a, b) } else { self.compare_old(cond, a, b) };
        }
        // Predicates: equal, less, less or equal, -, not equal, not less, greater.
        let swap = matches!(self.loc(a), Loc::Memory(_));
        let (predicate, swapped, unsigned) = match cond {
            IntCond::Eq => (0, 0, false),
            IntCond::Ne => (4, 4, false),
            IntCond::LtU => (1, 6, true),
            IntCond::LeU => (2, 5, true),
            IntCond::LtS => (1, 6, false),
            IntCond::LeS => (2, 5, false),
        };
        let (a, b, predicate) = if swap { (b, a, swapped) } else { (a, b, predicate) };
        let row = match (wide, unsigned) {
            (false, false) => rows::PCMPD,
            (false, true) => rows::PCMPUD,
            (true, false) => rows::PCMPQ,
            (true, true) => rows::PCMPUQ,
        };
        let (x, y, d) = (self.vec(a, self.s0()), self.src(b, width), self.d_mask());
        self.row(row, width, &[Arg::Reg(kreg(d)), Arg::Reg(vec(width, x)), y, Arg::Imm8(predicate)]);
    }

    fn compare_old(&mut self, cond: IntCond, a: Reg, b: Reg) {
        let width = self.width(Kind::V32);
        let s0 = Arg::Reg(vec(width, self.s0()));
        let ones = Arg::Mem(self.splat32(u32::MAX));
        let (x, y) = (self.vec(a, self.s0()), self.vec(b, self.s1()));
        let (x, y) = (Arg::Reg(vec(width, x)), Arg::Reg(vec(width, y)));
        let d = Arg::Reg(vec(width, self.d_vec()));
        match cond {
            IntCond::Eq => self.row(rows::PCMPEQD, width, &[d, x, y]),
            IntCond::Ne => {
                self.row(rows::PCMPEQD, width, &[s0, x, y]);
                self.row(rows::PXOR, width, &[d, s0, ones]);
            }
            IntCond::LtS => self.row(rows::PCMPGTD, width, &[d, y, x]),
            IntCond::LeS => {
                self.row(rows::PCMPGTD, width, &[s0, x, y]);
                self.row(rows::PXOR, width, &[d, s0, ones]);
            }
            // The lesser one is the first: less or equal.
            IntCond::LeU => {
                let s = if x == s0 { Arg::Reg(vec(width, self.s1())) } else { s0 };
                self.row(rows::PMINUD, width, &[s, x, y]);
                self.row(rows::PCMPEQD, width, &[d, s, x]);
            }
            // The lesser one is not the second.
            IntCond::LtU => {
                self.row(rows::PMINUD, width, &[s0, x, y]);
                self.row(rows::PCMPEQD, width, &[s0, s0, y]);
                self.row(rows::PXOR, width, &[d, s0, ones]);
            }
        }
    }

    fn compare_old_wide(&mut self, cond: IntCond, a: Reg, b: Reg) {
        let width = self.width(Kind::V64);
        let s0 = Arg::Reg(vec(width, self.s0()));
        let negate = match cond {
            IntCond::Eq | IntCond::Ne => {
                let (x, y) = (self.vec(a, self.s0()), self.src(b, width));
                self.row(rows::PCMPEQQ, width, &[s0, Arg::Reg(vec(width, x)), y]);
                cond == IntCond::Ne
            }
            IntCond::LtU | IntCond::LtS => {
                self.greater_wide(b, a, cond == IntCond::LtU);
                false
            }
            IntCond::LeU | IntCond::LeS => {
                self.greater_wide(a, b, cond == IntCond::LeU);
                true
            }
        };
        if negate {
            let ones = Arg::Mem(self.splat32(u32::MAX));
            self.row(rows::PXOR, width, &[s0, s0, ones]);
        }
        let d = self.d_vec();
        self.narrow(d, self.s0());
    }

    /// The low halves of the 64-bit lanes of a vector of 256 bits, where no instruction does it.
    fn narrow(&mut self, d: u8, x: u8) {
        let high = Arg::Reg(vec(Width::X, self.s1()));
        let code = Code::VEX_Vextracti128_xmmm128_ymm_imm8;
        self.asm.ins(code, &[high, Arg::Reg(vec(Width::Y, x)), Arg::Imm8(1)]);
        let (d, low) = (Arg::Reg(vec(Width::X, d)), Arg::Reg(vec(Width::X, x)));
        self.row(rows::SHUFPS, Width::X, &[d, low, high, Arg::Imm8(0x88)]);
    }

    pub(super) fn float(&mut self, op: FloatOp, ty: Float, a: Reg, b: Reg) {
        let width = self.width(ty.kind());
        let pick = |narrow, wide| if ty == Float::F64 { wide } else { narrow };
        match op {
            FloatOp::Add => self.three_any(pick(rows::ADDPS, rows::ADDPD), width, a, b),
            FloatOp::Sub => self.three(pick(rows::SUBPS, rows::SUBPD), width, a, b),
            FloatOp::Mul => self.three_any(pick(rows::MULPS, rows::MULPD), width, a, b),
            FloatOp::Div => self.three(pick(rows::DIVPS, rows::DIVPD), width, a, b),
            FloatOp::Min => self.float_min_max(ty, pick(rows::MINPS, rows::MINPD), rows::POR, a, b),
            FloatOp::Max => self.float_min_max(ty, pick(rows::MAXPS, rows::MAXPD), rows::PAND, a, b),
            FloatOp::Rem => self.asm.fail("a float remainder is a call"),
        }
    }

    /// The instruction gives its second operand for zeros of two signs and for NaN. Both orders joined give the right zero;
    /// where one operand is NaN the other is taken.
    fn float_min_max(&mut self, ty: Float, row: Row, join: Row, a: Reg, b: Reg) {
        let width = self.width(ty.kind());
        let (n0, n1) = (self.s0(), self.s1());
        let (s0, s1) = (Arg::Reg(vec(width, n0)), Arg::Reg(vec(width, n1)));
        let (a, b) = if matches!(self.loc(a), Loc::Memory(_)) { (b, a) } else { (a, b) };
        // Two constants leave the result's register free until the end.
        let spare = self.d_vec();
        let x = Arg::Reg(vec(width, self.vec(a, spare)));
        let y = self.src(b, width);
        let d = Arg::Reg(vec(width, self.d_vec()));
        let compare = if ty == Float::F64 { rows::CMPPD } else { rows::CMPPS };
        self.row(rows::MOVDQU, width, &[s1, y]);
        self.row(row, width, &[s0, x, s1]);
        self.row(row, width, &[s1, s1, x]);
        self.row(join, width, &[s0, s0, s1]);
        if self.level == Level::Avx512 {
            let k = Arg::Reg(kreg(K_SCRATCH));
            let copy = if ty == Float::F64 { rows::MOVDQU64 } else { rows::MOVDQU };
            self.row(compare, width, &[k, x, x, Arg::Imm8(UNORDERED)]);
            self.row_masked(copy, width, &[s0, y], K_SCRATCH, false);
            self.row(rows::MOVDQU, width, &[s1, y]);
            self.row(compare, width, &[k, s1, s1, Arg::Imm8(UNORDERED)]);
            self.row_masked(copy, width, &[s0, x], K_SCRATCH, false);
            return self.row(rows::MOVDQU, width, &[d, s0]);
        }
        let choose = if ty == Float::F64 { rows::BLENDVPD } else { rows::BLENDVPS };
        self.row(compare, width, &[s1, x, x, Arg::Imm8(UNORDERED)]);
        self.row(choose, width, &[s0, s0, y, s1]);
        self.row(rows::MOVDQU, width, &[s1, y]);
        self.row(compare, width, &[s1, s1, s1, Arg::Imm8(UNORDERED)]);
        self.row(choose, width, &[d, s0, x, s1]);
    }

    pub(super) fn float_un(&mut self, op: FloatUnOp, ty: Float, a: Reg) {
        let width = self.width(ty.kind());
        let pick = |narrow, wide| if ty == Float::F64 { wide } else { narrow };
        let (x, d) = (self.src(a, width), self.d_vec());
        let d = Arg::Reg(vec(width, d));
        let mode = match op {
            FloatUnOp::Sqrt => return self.row(pick(rows::SQRTPS, rows::SQRTPD), width, &[d, x]),
            FloatUnOp::Round => 0,
            FloatUnOp::Floor => 1,
            FloatUnOp::Ceil => 2,
            FloatUnOp::Trunc => 3,
        };
        self.row(pick(rows::ROUNDPS, rows::ROUNDPD), width, &[d, x, Arg::Imm8(8 | mode)]);
    }

    /// The instruction overwrites one of its operands, so its form depends on whose register the result has.
    pub(super) fn fma(&mut self, ty: Float, a: Reg, b: Reg, c: Reg) {
        let width = self.width(ty.kind());
        let wide = ty == Float::F64;
        let onto_factor = if wide { rows::FMADD213PD } else { rows::FMADD213PS };
        let onto_sum = if wide { rows::FMADD231PD } else { rows::FMADD231PS };
        let number = self.d_vec();
        let d = Arg::Reg(vec(width, number));
        // A constant factor comes second.
        let (a, b) = if matches!(self.loc(a), Loc::Memory(_)) { (b, a) } else { (a, b) };
        if self.loc(c) == Loc::Vec(number) {
            let (x, y) = (self.vec(a, self.s0()), self.src(b, width));
            return self.row(onto_sum, width, &[d, Arg::Reg(vec(width, x)), y]);
        }
        let (a, b) = if self.loc(b) == Loc::Vec(number) { (b, a) } else { (a, b) };
        let y = self.vec(b, self.s1());
        let (x, z) = (self.src(a, width), self.src(c, width));
        if x != d {
            self.row(rows::MOVDQU, width, &[d, x]);
        }
        self.row(onto_factor, width, &[d, Arg::Reg(vec(width, y)), z]);
    }

    pub(super) fn float_compare(&mut self, cond: FloatCond, ty: Float, a: Reg, b: Reg) {
        let width = self.width(ty.kind());
        let wide = ty == Float::F64;
        let predicate = match cond {
            FloatCond::Eq => 0,
            FloatCond::Lt => 0x11,
            FloatCond::Le => 0x12,
            FloatCond::Ne => 4,
            FloatCond::Unordered => UNORDERED,
        };
        let row = if wide { rows::CMPPD } else { rows::CMPPS };
        let (x, y) = (self.vec(a, self.s0()), self.src(b, width));
        let x = Arg::Reg(vec(width, x));
        if self.level == Level::Avx512 {
            let d = self.d_mask();
            return self.row(row, width, &[Arg::Reg(kreg(d)), x, y, Arg::Imm8(predicate)]);
        }
        let d = self.d_vec();
        let to = if wide { self.s0() } else { d };
        self.row(row, width, &[Arg::Reg(vec(width, to)), x, y, Arg::Imm8(predicate)]);
        if wide {
            self.narrow(d, to);
        }
    }

    /// Lane by lane, by a mask.
    pub(super) fn blend(&mut self, cond: Reg, a: Reg, b: Reg) {
        let kind = self.kind(a);
        let (width, wide) = (self.width(kind), kind == Kind::V64);
        if self.level == Level::Avx512 {
            let row = if wide { rows::PBLENDMQ } else { rows::PBLENDMD };
            let (k, x, y, d) = (self.mask(cond), self.src(a, width), self.vec(b, self.s0()), self.d_vec());
            let args = [Arg::Reg(vec(width, d)), Arg::Reg(vec(width, y)), x];
            return self.row_masked(row, width, &args, k, false);
        }
        let mask = Arg::Reg(vec(width, self.mask_for(cond, wide)));
        let row = if wide { rows::BLENDVPD } else { rows::BLENDVPS };
        let (x, y, d) = (self.src(a, width), self.vec(b, self.s0()), self.d_vec());
        self.row(row, width, &[Arg::Reg(vec(width, d)), Arg::Reg(vec(width, y)), x, mask]);
    }

    /// The register with a mask as a vector; one of 64-bit lanes is made in the second scratch register.
    pub(super) fn mask_for(&mut self, mask: Reg, wide: bool) -> u8 {
        let narrow = self.vec(mask, self.s1());
        if !wide {
            return narrow;
        }
        let width = self.width(Kind::V64);
        let args = [Arg::Reg(vec(width, self.s1())), Arg::Reg(vec(width.half(), narrow))];
        self.row(rows::PMOVSXDQ, width, &args);
        self.s1()
    }

    pub(super) fn convert(&mut self, from: Num, to: Num, value: Reg) {
        let wide = self.width(Kind::V64);
        // Of the narrow side only as many lanes count as the wide one has.
        let narrow = if from.is_wide() == to.is_wide() { self.width(Kind::V32) } else { wide.half() };
        let width = |num: Num| if num.is_wide() { wide } else { narrow };
        // A row's form is that of the wider side.
        let both = width(from).max(width(to));
        let row = match (from, to) {
            (Num::U32, Num::U64 | Num::I64) => rows::PMOVZXDQ,
            (Num::I32, Num::U64 | Num::I64) => rows::PMOVSXDQ,
            (Num::U64 | Num::I64, Num::U32 | Num::I32) => return self.truncate(value),
            (Num::I32, Num::F32) => rows::CVTDQ2PS,
            (Num::I32, Num::F64) => rows::CVTDQ2PD,
            (Num::U32, Num::F32) => rows::CVTUDQ2PS,
            (Num::U32, Num::F64) => rows::CVTUDQ2PD,
            (Num::I64, Num::F32) => rows::CVTQQ2PS,
            (Num::I64, Num::F64) => rows::CVTQQ2PD,
            (Num::U64, Num::F32) => rows::CVTUQQ2PS,
            (Num::U64, Num::F64) => rows::CVTUQQ2PD,
            (Num::F32, Num::F64) => rows::CVTPS2PD,
            (Num::F64, Num::F32) => rows::CVTPD2PS,
            (Num::F32 | Num::F64, Num::U32 | Num::U64) => return self.convert_to_unsigned(from, to, value),
            (Num::F32 | Num::F64, Num::I32 | Num::I64) => return self.convert_to_signed(from, to, value),
            (Num::U32 | Num::I32, Num::U32 | Num::I32)
            | (Num::U64 | Num::I64, Num::U64 | Num::I64)
            | (Num::F32, Num::F32)
            | (Num::F64, Num::F64) => return self.asm.fail("a conversion of nothing"),
        };
        let (x, d) = (self.src(value, width(from)), self.d_vec());
        self.row(row, both, &[Arg::Reg(vec(width(to), d)), x]);
    }

    fn truncate(&mut self, value: Reg) {
        let width = self.width(Kind::V64);
        let (x, d) = (self.vec(value, self.s0()), self.d_vec());
        match self.level {
            Level::Avx512 => {
                self.row(rows::PMOVQD, width, &[Arg::Reg(vec(width.half(), d)), Arg::Reg(vec(width, x))]);
            }
            Level::Avx2 => self.narrow(d, x),
        }
    }

    /// The instruction gives the greatest number for what is too great; negative ones and NaN become 0 before.
    fn convert_to_unsigned(&mut self, from: Num, to: Num, value: Reg) {
        let (narrow, wide) = (self.width(Kind::V32), self.width(Kind::V64));
        let width = |num: Num| if num.is_wide() { wide } else { narrow };
        let (max, row) = match (from, to) {
            (Num::F32, Num::U32) => (rows::MAXPS, rows::CVTTPS2UDQ),
            (Num::F32, _) => (rows::MAXPS, rows::CVTTPS2UQQ),
            (_, Num::U32) => (rows::MAXPD, rows::CVTTPD2UDQ),
            (_, _) => (rows::MAXPD, rows::CVTTPD2UQQ),
        };
        let s0 = Arg::Reg(vec(width(from), self.s0()));
        let x = Arg::Reg(vec(width(from), self.vec(value, self.s1())));
        let (zero, d) = (Arg::Mem(self.splat32(0)), self.d_vec());
        self.row(max, width(from), &[s0, x, zero]);
        self.row(row, width(from).max(width(to)), &[Arg::Reg(vec(width(to), d)), s0]);
    }

    /// The instruction gives the least number for all that does not fit: what is too great and NaN are put right.
    fn convert_to_signed(&mut self, from: Num, to: Num, value: Reg) {
        let (narrow, wide) = (self.width(Kind::V32), self.width(Kind::V64));
        let width = |num: Num| if num.is_wide() { wide } else { narrow };
        let (row, compare) = match (from, to) {
            (Num::F32, Num::I32) => (rows::CVTTPS2DQ, rows::CMPPS),
            (Num::F32, _) => (rows::CVTTPS2QQ, rows::CMPPS),
            (_, Num::I32) => (rows::CVTTPD2DQ, rows::CMPPD),
            (_, _) => (rows::CVTTPD2QQ, rows::CMPPD),
        };
        let limit = match (from, to.is_wide()) {
            (Num::F32, false) => self.splat32(2f32.powi(31).to_bits()),
            (Num::F32, true) => self.splat32(2f32.powi(63).to_bits()),
            (_, false) => self.splat64(2f64.powi(31).to_bits()),
            (_, true) => self.splat64(2f64.powi(63).to_bits()),
        };
        let (copy, most) = match to.is_wide() {
            true => (rows::MOVDQU64, self.splat64(SIGN64 - 1)),
            false => (rows::MOVDQU, self.splat32(SIGN32 - 1)),
        };
        let k = Arg::Reg(kreg(K_SCRATCH));
        let s0 = Arg::Reg(vec(width(to), self.s0()));
        let x = Arg::Reg(vec(width(from), self.vec(value, self.s1())));
        let d = Arg::Reg(vec(width(to), self.d_vec()));
        self.row(row, width(from).max(width(to)), &[s0, x]);
        self.row(compare, width(from), &[k, x, Arg::Mem(limit), Arg::Imm8(GREATER_EQUAL)]);
        self.row_masked(copy, width(to), &[s0, Arg::Mem(most)], K_SCRATCH, false);
        self.row(compare, width(from), &[k, x, x, Arg::Imm8(ORDERED)]);
        self.row_masked(copy, width(to), &[d, s0], K_SCRATCH, true);
    }

    pub(super) fn half_to_float(&mut self, a: Reg) {
        let width = self.width(Kind::V32);
        let x = self.vec(a, self.s0());
        let d = Arg::Reg(vec(width, self.d_vec()));
        let half = vec(width.half(), self.s0());
        if self.level == Level::Avx512 {
            self.row(rows::PMOVDW, width, &[Arg::Reg(half), Arg::Reg(vec(width, x))]);
            return self.row(rows::CVTPH2PS, width, &[d, Arg::Reg(half)]);
        }
        let (s0, low) = (Arg::Reg(vec(width, self.s0())), Arg::Mem(self.splat32(0xffff)));
        self.row(rows::PAND, width, &[s0, Arg::Reg(vec(width, x)), low]);
        let (s0, s1) = (Arg::Reg(vec(Width::X, self.s0())), Arg::Reg(vec(Width::X, self.s1())));
        let high = if width == Width::Y {
            let whole = Arg::Reg(vec(Width::Y, self.s0()));
            self.asm.ins(Code::VEX_Vextracti128_xmmm128_ymm_imm8, &[s1, whole, Arg::Imm8(1)]);
            s1
        } else {
            s0
        };
        self.row(rows::PACKUSDW, Width::X, &[s0, s0, high]);
        self.row(rows::CVTPH2PS, width, &[d, s0]);
    }

    pub(super) fn float_to_half(&mut self, a: Reg) {
        let width = self.width(Kind::V32);
        let (x, d) = (self.vec(a, self.s0()), self.d_vec());
        let half = Arg::Reg(vec(width.half(), self.s0()));
        // To nearest even, whatever the modes say.
        self.row(rows::CVTPS2PH, width, &[half, Arg::Reg(vec(width, x)), Arg::Imm8(0)]);
        self.row(rows::PMOVZXWD, width, &[Arg::Reg(vec(width, d)), half]);
    }

    /// Lane i gets lane `index[i] mod W`; the instructions look at no more bits of an index than that.
    pub(super) fn permute(&mut self, a: Reg, index: Reg) {
        let kind = self.kind(a);
        let width = self.width(kind);
        let d = Arg::Reg(vec(width, self.d_vec()));
        let new = self.level == Level::Avx512;
        if kind == Kind::V32 && width == Width::X {
            let (x, by) = (self.vec(a, self.s0()), self.src(index, width));
            return self.row(rows::PERMILPS, width, &[d, Arg::Reg(vec(width, x)), by]);
        }
        let by = self.vec(index, self.s0());
        let (s0, s1) = (Arg::Reg(vec(width, self.s0())), Arg::Reg(vec(width, self.s1())));
        let x = self.src(a, width);
        let (code, by) = match (kind == Kind::V64, new, width) {
            (false, true, Width::Z) => (Code::EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32, Arg::Reg(vec(width, by))),
            (false, true, _) => (Code::EVEX_Vpermd_ymm_k1z_ymm_ymmm256b32, Arg::Reg(vec(width, by))),
            (false, false, _) => (Code::VEX_Vpermd_ymm_ymm_ymmm256, Arg::Reg(vec(width, by))),
            (true, _, _) => {
                self.row(rows::PMOVZXDQ, width, &[s0, Arg::Reg(vec(width.half(), by))]);
                if new {
                    (Code::EVEX_Vpermq_zmm_k1z_zmm_zmmm512b64, s0)
                } else {
                    // Pairs of 32-bit lanes: 2i and 2i + 1.
                    let odd = Arg::Mem(self.lanes32(|lane| lane % 2));
                    self.row(rows::PADDD, width, &[s0, s0, s0]);
                    self.row(rows::PSLLQ, width, &[s1, s0, Arg::Imm8(32)]);
                    self.row(rows::POR, width, &[s0, s0, s1]);
                    self.row(rows::PADDD, width, &[s0, s0, odd]);
                    (Code::VEX_Vpermd_ymm_ymm_ymmm256, s0)
                }
            }
        };
        self.asm.ins(code, &[d, by, x]);
    }
}

/// The number of a vector register.
fn reg_number(reg: Register) -> u8 {
    let first = match reg {
        reg if reg >= Register::ZMM0 => Register::ZMM0,
        reg if reg >= Register::YMM0 => Register::YMM0,
        _ => Register::XMM0,
    };
    (reg as u32 - first as u32) as u8
}
