//! Vector loads and stores, gathers and scatters, and calls of helpers.

use super::allocate::{GP_SCRATCH, K_SCRATCH, RAX, RCX, RDI, RDX, RSI};
use super::asm::{Arg, Level, Mem, gp32, gp64, vec};
use super::emit::{Emit, WORDS};
use super::helpers;
use super::rows::{self, Row};
use crate::vector::code::{Address, Elem, Indexed, Kind, Op, Reg};
use iced_x86::Code;

/// The instruction that loads a vector of elements, and the one that stores it where there is one.
fn access(elem: Elem, level: Level) -> (Row, Option<Row>) {
    match (elem, level) {
        (Elem::U8, Level::Avx512) => (rows::PMOVZXBD, Some(rows::PMOVDB)),
        (Elem::I8, Level::Avx512) => (rows::PMOVSXBD, Some(rows::PMOVDB)),
        (Elem::U16, Level::Avx512) => (rows::PMOVZXWD, Some(rows::PMOVDW)),
        (Elem::I16, Level::Avx512) => (rows::PMOVSXWD, Some(rows::PMOVDW)),
        (Elem::U8, Level::Avx2) => (rows::PMOVZXBD, None),
        (Elem::I8, Level::Avx2) => (rows::PMOVSXBD, None),
        (Elem::U16, Level::Avx2) => (rows::PMOVZXWD, None),
        (Elem::I16, Level::Avx2) => (rows::PMOVSXWD, None),
        (Elem::B64, Level::Avx512) => (rows::MOVDQU64, Some(rows::STORE64)),
        (Elem::B32, _) | (Elem::B64, Level::Avx2) => (rows::MOVDQU, Some(rows::STORE)),
    }
}

/// Words on the stack of accesses lane by lane: the mask, the address for lanes that are off, where those store.
const MASK: i64 = WORDS;
const ELSEWHERE: i64 = WORDS + 8;
const SINK: i64 = WORDS + 16;

/// Accesses lane by lane.
struct Lanes {
    base: Mem,
    place: Place,
    /// Bytes from one element to the next.
    scale: u8,
    mask: Option<Reg>,
}

/// Where lanes go.
#[derive(Clone, Copy)]
enum Place {
    /// One behind the other.
    Row,
    /// To a place each.
    Indices(Reg),
}

impl Emit<'_> {
    pub(super) fn load_vector(&mut self, elem: Elem, at: &Address, mask: Option<Reg>) {
        let width = self.width(elem.vector());
        if self.level == Level::Avx2 && elem.bytes() < 4 && mask.is_some() {
            let lanes = self.row_lanes(elem, at, mask);
            return self.load_lanes(elem, &lanes);
        }
        let mem = Arg::Mem(self.address(at));
        let d = Arg::Reg(vec(width, self.d_vec()));
        let (row, _) = access(elem, self.level);
        match (mask, self.level) {
            (None, _) => self.row(row, width, &[d, mem]),
            (Some(mask), Level::Avx512) => {
                let k = self.mask(mask);
                self.row_masked(row, width, &[d, mem], k, true);
            }
            (Some(mask), Level::Avx2) => {
                let wide = elem == Elem::B64;
                let mask = Arg::Reg(vec(width, self.mask_for(mask, wide)));
                self.row(if wide { rows::PMASKLOADQ } else { rows::PMASKLOADD }, width, &[d, mask, mem]);
            }
        }
    }

    pub(super) fn store_vector(&mut self, elem: Elem, at: &Address, value: Reg, mask: Option<Reg>) {
        let width = self.width(elem.vector());
        let (_, Some(row)) = access(elem, self.level) else {
            let lanes = self.row_lanes(elem, at, mask);
            return self.store_lanes(elem, &lanes, value);
        };
        let mem = Arg::Mem(self.address(at));
        let value = Arg::Reg(vec(width, self.vec(value, self.s0())));
        match (mask, self.level) {
            (None, _) => self.row(row, width, &[mem, value]),
            (Some(mask), Level::Avx512) => {
                let k = self.mask(mask);
                self.row_masked(row, width, &[mem, value], k, false);
            }
            (Some(mask), Level::Avx2) => {
                let wide = elem == Elem::B64;
                let mask = Arg::Reg(vec(width, self.mask_for(mask, wide)));
                self.row(
                    if wide { rows::PMASKSTOREQ } else { rows::PMASKSTORED },
                    width,
                    &[mem, mask, value],
                );
            }
        }
    }

    pub(super) fn store_stream(&mut self, elem: Elem, at: &Address, value: Reg) {
        let width = self.width(elem.vector());
        let mem = Arg::Mem(self.address(at));
        let value = Arg::Reg(vec(width, self.vec(value, self.s0())));
        self.row(rows::STREAM, width, &[mem, value]);
    }

    fn row_lanes(&mut self, elem: Elem, at: &Address, mask: Option<Reg>) -> Lanes {
        Lanes { base: self.address(at), place: Place::Row, scale: elem.bytes() as u8, mask }
    }

    fn indexed_lanes(&mut self, at: &Indexed) -> Lanes {
        let base = Mem::at(gp64(self.gp(at.base, GP_SCRATCH[0])), 0);
        Lanes { base, place: Place::Indices(at.index), scale: at.scale, mask: at.mask }
    }

    /// The address of a gather or scatter. The instructions extend indices by their sign; where that is wrong, indices get
    /// 2^31 subtracted and the base as many elements added.
    fn lanes_address(&mut self, at: &Indexed) -> Mem {
        let width = self.width(Kind::V32);
        let base = self.gp(at.base, GP_SCRATCH[0]);
        let index = self.vec(at.index, self.s0());
        let mut mem = Mem { base: gp64(base), index: vec(width, index), scale: at.scale.into(), disp: 0 };
        if !at.small {
            let half = Arg::Mem(self.splat32(1 << 31));
            let s0 = vec(width, self.s0());
            self.row(rows::PXOR, width, &[Arg::Reg(s0), Arg::Reg(vec(width, index)), half]);
            self.load_imm(GP_SCRATCH[1], u64::from(at.scale) << 31);
            let sum = Mem { base: gp64(base), index: gp64(GP_SCRATCH[1]), scale: 1, disp: 0 };
            self.asm.ins(Code::Lea_r64_m, &[Arg::Reg(gp64(GP_SCRATCH[0])), Arg::Mem(sum)]);
            mem.base = gp64(GP_SCRATCH[0]);
            mem.index = s0;
        }
        mem
    }

    /// The result's register is no operand's: the instruction wants three different ones.
    pub(super) fn gather(&mut self, elem: Elem, at: &Indexed) {
        if elem.bytes() < 4 {
            let lanes = self.indexed_lanes(at);
            return self.load_lanes(elem, &lanes);
        }
        let wide = elem == Elem::B64;
        let width = self.width(elem.vector());
        let row = if wide { rows::PGATHERDQ } else { rows::PGATHERDD };
        let mem = Arg::Mem(self.lanes_address(at));
        let d = Arg::Reg(vec(width, self.d_vec()));
        self.row(rows::PXOR, width, &[d, d, d]);
        if self.level == Level::Avx512 {
            self.own_mask(at.mask);
            return self.row_masked(row, width, &[d, mem], K_SCRATCH, false);
        }
        let s1 = Arg::Reg(vec(width, self.s1()));
        match at.mask {
            None => self.row(rows::PCMPEQD, width, &[s1, s1, s1]),
            Some(mask) => {
                let mask = self.mask_for(mask, wide);
                if mask != self.s1() {
                    self.row(rows::MOVDQU, width, &[s1, Arg::Reg(vec(width, mask))]);
                }
            }
        }
        self.row(row, width, &[d, mem, s1]);
    }

    pub(super) fn scatter(&mut self, elem: Elem, at: &Indexed, value: Reg) {
        if elem.bytes() < 4 || self.level == Level::Avx2 {
            let lanes = self.indexed_lanes(at);
            return self.store_lanes(elem, &lanes, value);
        }
        let width = self.width(elem.vector());
        let row = if elem == Elem::B64 { rows::PSCATTERDQ } else { rows::PSCATTERDD };
        let mem = Arg::Mem(self.lanes_address(at));
        let value = Arg::Reg(vec(width, self.vec(value, self.s1())));
        self.own_mask(at.mask);
        self.row_masked(row, width, &[mem, value], K_SCRATCH, false);
    }

    /// What has no instruction: operands go to the stack, a helper is called, and its result comes back from there.
    pub(super) fn call(&mut self, op: &Op) {
        let function = self.function;
        let Some((address, operands, kind)) = helpers::of(op, |reg| function.kind(reg)) else {
            return self.asm.fail(format!("no helper for {op:?}"));
        };
        for (place, operand) in (0..).zip(operands.into_iter().flatten()) {
            self.put(operand, place);
        }
        let areas = [0, 1, 2].map(|place| self.stack(place * 64));
        for (to, area) in [RDI, RSI, RDX].into_iter().zip(areas) {
            self.asm.ins(Code::Lea_r64_m, &[Arg::Reg(gp64(to)), Arg::Mem(area)]);
        }
        self.load_imm(RCX, self.function.lanes.into());
        self.asm.ins(Code::VEX_Vzeroupper, &[]);
        self.load_imm(RAX, address);
        self.asm.ins(Code::Call_rm64, &[Arg::Reg(gp64(RAX))]);
        self.take(kind);
    }

    /// A vector to one of the three places for it on the stack.
    fn put(&mut self, value: Reg, place: i64) {
        let width = self.width(self.kind(value));
        let from = Arg::Reg(vec(width, self.vec(value, self.s0())));
        self.row(rows::STORE, width, &[Arg::Mem(self.stack(place * 64)), from]);
    }

    /// The result, from the third place.
    fn take(&mut self, kind: Kind) {
        let width = self.width(kind);
        let d = Arg::Reg(vec(width, self.d_vec()));
        self.row(rows::MOVDQU, width, &[d, Arg::Mem(self.stack(128))]);
    }

    /// Loads lane by lane. A lane that is off loads zeros from elsewhere.
    fn load_lanes(&mut self, elem: Elem, lanes: &Lanes) {
        let zero = self.splat32(0);
        self.begin_lanes(lanes, zero);
        let r11 = GP_SCRATCH[1];
        for lane in 0..i64::from(self.function.lanes) {
            self.lane_address(lanes, lane);
            self.load_element(elem, r11, Mem::at(gp64(r11), 0));
            let (code, reg, bytes) = match elem {
                Elem::B64 => (Code::Mov_rm64_r64, gp64(r11), 8),
                Elem::U8 | Elem::I8 | Elem::U16 | Elem::I16 | Elem::B32 => (Code::Mov_rm32_r32, gp32(r11), 4),
            };
            self.asm.ins(code, &[Arg::Mem(self.stack(128 + lane * bytes)), Arg::Reg(reg)]);
        }
        self.take(elem.vector());
    }

    /// Stores lane by lane, in ascending order. A lane that is off stores elsewhere.
    fn store_lanes(&mut self, elem: Elem, lanes: &Lanes, value: Reg) {
        self.put(value, 2);
        self.begin_lanes(lanes, self.stack(SINK));
        let [r10, r11] = GP_SCRATCH;
        let whole = if elem == Elem::B64 { Elem::B64 } else { Elem::B32 };
        for lane in 0..i64::from(self.function.lanes) {
            self.lane_address(lanes, lane);
            self.load_element(whole, r10, self.stack(128 + lane * i64::from(whole.bytes())));
            self.store_element(elem, Mem::at(gp64(r11), 0), r10);
        }
    }

    /// Puts indices, the mask and the address for lanes that are off on the stack.
    fn begin_lanes(&mut self, lanes: &Lanes, elsewhere: Mem) {
        if let Place::Indices(index) = lanes.place {
            self.put(index, 0);
        }
        if lanes.mask.is_some() {
            let r11 = GP_SCRATCH[1];
            self.mask_bits(lanes.mask, r11);
            self.asm.ins(Code::Mov_rm32_r32, &[Arg::Mem(self.stack(MASK)), Arg::Reg(gp32(r11))]);
            self.asm.ins(Code::Lea_r64_m, &[Arg::Reg(gp64(r11)), Arg::Mem(elsewhere)]);
            self.asm.ins(Code::Mov_rm64_r64, &[Arg::Mem(self.stack(ELSEWHERE)), Arg::Reg(gp64(r11))]);
        }
    }

    /// The address of one lane, in the second scratch register.
    fn lane_address(&mut self, lanes: &Lanes, lane: i64) {
        let r11 = GP_SCRATCH[1];
        let mut mem = lanes.base;
        match lanes.place {
            Place::Row => mem.disp += lane * i64::from(lanes.scale),
            Place::Indices(_) => {
                let index = Arg::Mem(self.stack(lane * 4));
                self.asm.ins(Code::Mov_r32_rm32, &[Arg::Reg(gp32(r11)), index]);
                (mem.index, mem.scale) = (gp64(r11), lanes.scale.into());
            }
        }
        self.asm.ins(Code::Lea_r64_m, &[Arg::Reg(gp64(r11)), Arg::Mem(mem)]);
        if lanes.mask.is_some() {
            self.asm.ins(Code::Bt_rm32_imm8, &[Arg::Mem(self.stack(MASK)), Arg::Imm8(lane as u8)]);
            let elsewhere = Arg::Mem(self.stack(ELSEWHERE));
            self.asm.ins(Code::Cmovae_r64_rm64, &[Arg::Reg(gp64(r11)), elsewhere]);
        }
    }
}
