//! The frame of the emitter: blocks, branches, moves, the stack, and where operands are.
//!
//! The stack: 256 bytes at the stack pointer for calls of helpers, 64 for the caller's float modes, then spilled registers. The
//! stack pointer is a multiple of 64, so vectors on the stack are aligned. Code runs with the default float modes (nearest
//! even, subnormals kept, no exceptions), whatever the caller's are, and puts those back.

use super::allocate::{
    Constant, GP_SCRATCH, K_SCRATCH, Plan, RBP, RBX, RDI, RSP, Step, machine, vec_scratch,
};
use super::asm::{Arg, Asm, CONSTANT_WORDS, Label, Level, Mem, Width, gp32, gp64, kreg, vec};
use super::fit;
use super::rows::{MOVDQU, Row, STORE};
use crate::executable::MachineCode;
use crate::vector::code::{Address, Function, IntCond, Kind, Op, Reg, Term};
use iced_x86::Code;
use regalloc2::{Allocation, Edit, InstOrEdit, MachineEnv, Output, PReg, RegClass};
use smallvec::SmallVec;

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loc {
    /// A general register.
    Gp(u8),
    /// A vector register.
    Vec(u8),
    /// A mask register.
    Mask(u8),
    /// A scalar constant, which an immediate of 32 bits holds.
    Imm(u64),
    /// A vector in memory, or a mask where masks are vectors: a constant, or one that has no register.
    Memory(Mem),
    /// A constant mask for a mask register.
    Bits(u64),
}

/// The area for helpers: up to three vectors, then words.
pub(super) const AREA_BYTES: i64 = 256;
/// Where words for helpers stand.
pub(super) const WORDS: i64 = 192;
const MODES: i64 = AREA_BYTES;
const SPILLS: i64 = AREA_BYTES + 64;
/// More would not fit a thread's stack.
const FRAME_MAX: i64 = 256 << 10;
const PAGE: i64 = 4096;
/// The default of the float modes: all exceptions masked, to nearest even, subnormals kept.
const DEFAULT_MODES: u32 = 0x1f80;

pub(super) struct Emit<'a> {
    pub(super) asm: Asm,
    pub(super) function: &'a Function,
    pub(super) level: Level,
    constants: &'a [Constant],
    vectors: &'a [[u32; 16]],
    labels: Vec<Label>,
    /// Where a jump to a block ends up: blocks that do nothing but jump on are left out.
    ends: Vec<usize>,
    /// Whether stores go past the caches: they must be waited for at the end.
    streams: bool,
    /// Where the function returns, once there is such a place.
    leave: Option<Label>,
    /// Where the operands of this op are.
    here: SmallVec<[(Reg, Loc); 8]>,
    /// Where the result of this op goes.
    pub(super) def: Option<Loc>,
}

/// Machine code of a function, and where it starts.
pub(super) fn emit(function: &Function, level: Level) -> Result<MachineCode, String> {
    let plan = Plan::new(function, level);
    let env = machine(level);
    let output = fit::allocate(&plan, &env).ok_or("too long a function for registers")?;
    check(&plan, &env, &output);
    assemble(function, &plan, &output)
}

/// Panics where a value is not where a step reads it, in builds with debug assertions.
fn check(plan: &Plan<'_>, env: &MachineEnv, output: &Output) {
    if cfg!(debug_assertions) {
        let mut checker = regalloc2::checker::Checker::new(plan, env);
        checker.prepare(output);
        if let Err(errors) = checker.run() {
            panic!("registers: {errors:?}\n{}", plan.function);
        }
    }
}

fn assemble(function: &Function, plan: &Plan<'_>, output: &Output) -> Result<MachineCode, String> {
    let level = plan.level;
    let mut asm = Asm::new();
    let labels = function.blocks.iter().map(|_| asm.label()).collect();
    let (constants, vectors) = (&plan.constants[..], &plan.vectors[..]);
    let ends = ends(function, plan, output);
    let streams = function
        .blocks
        .iter()
        .flat_map(|block| &block.insts)
        .any(|inst| matches!(inst.op, Op::StoreStream(..)));
    let mut emit = Emit {
        asm,
        function,
        level,
        constants,
        vectors,
        labels,
        ends,
        streams,
        leave: None,
        here: SmallVec::new(),
        def: None,
    };
    emit.prologue(output)?;
    // Blocks that hardly ever run stand behind the others.
    let blocks = || function.blocks.iter().enumerate();
    let order: Vec<usize> = blocks()
        .filter(|(_, block)| !block.cold)
        .chain(blocks().filter(|(_, block)| block.cold))
        .map(|(at, _)| at)
        .filter(|at| emit.ends[*at] == *at)
        .collect();
    for (place, at) in order.iter().enumerate() {
        emit.block(*at, order.get(place + 1).copied(), plan, output);
    }
    emit.asm.finish()
}

/// The block where code goes on that jumps to each block.
fn ends(function: &Function, plan: &Plan<'_>, output: &Output) -> Vec<usize> {
    let mut ends: Vec<usize> = (0..function.blocks.len()).collect();
    for at in (0..ends.len()).rev() {
        let mut items = output.block_insts_and_edits(plan, regalloc2::Block::new(at));
        let empty = matches!(items.next(), Some(InstOrEdit::Inst(_))) && items.next().is_none();
        if let (true, Term::Jump(to, _)) = (empty, &function.blocks[at].term) {
            // Chains forward are known already; a jump back is followed one step.
            ends[at] = if to.index() > at { ends[to.index()] } else { to.index() };
        }
    }
    // A jump back may lead to a block that is itself left out, but never in a circle: loops have branches.
    for at in 0..ends.len() {
        while ends[ends[at]] != ends[at] {
            ends[at] = ends[ends[at]];
        }
    }
    ends
}

/// The 64-bit form of a scalar instruction stands behind its 32-bit form.
fn form(code: Code, wide: bool) -> Code {
    if wide { Code::try_from(code as usize + 1).unwrap_or(code) } else { code }
}

impl Emit<'_> {
    fn prologue(&mut self, output: &Output) -> Result<(), String> {
        let frame = (SPILLS + output.num_spillslots as i64 * 8 + 63) & !63;
        if frame > FRAME_MAX {
            return Err(format!("{frame} bytes of stack"));
        }
        self.asm.ins(Code::Push_r64, &[Arg::Reg(gp64(RBP))]);
        self.mov64(RBP, RSP);
        for saved in [RBX, 12, 13, 14, 15] {
            self.asm.ins(Code::Push_r64, &[Arg::Reg(gp64(saved))]);
        }
        self.asm.ins(Code::And_rm64_imm32, &[Arg::Reg(gp64(RSP)), Arg::Imm32To64(-64)]);
        // Page by page, so that a stack that ends is noticed where its guard is.
        let mut left = frame;
        while left > 0 {
            let step = left.min(PAGE);
            self.asm.ins(Code::Sub_rm64_imm32, &[Arg::Reg(gp64(RSP)), Arg::Imm32To64(step as i32)]);
            if frame > PAGE {
                let top = Arg::Mem(Mem::at(gp64(RSP), 0));
                self.asm.ins(Code::Mov_rm64_r64, &[top, Arg::Reg(gp64(RDI))]);
            }
            left -= step;
        }
        let modes = self.splat32(DEFAULT_MODES);
        self.asm.ins(Code::VEX_Vstmxcsr_m32, &[Arg::Mem(self.stack(MODES))]);
        self.asm.ins(Code::VEX_Vldmxcsr_m32, &[Arg::Mem(modes)]);
        Ok(())
    }

    /// Returns. That is many instructions, and functions return in many places, so it stands there once.
    fn epilogue(&mut self) {
        if let Some(leave) = self.leave {
            return self.asm.branch(Code::Jmp_rel32_64, leave);
        }
        let leave = self.asm.label();
        self.asm.bind(leave);
        self.leave = Some(leave);
        if self.streams {
            self.asm.ins(Code::Sfence, &[]);
        }
        self.asm.ins(Code::VEX_Vldmxcsr_m32, &[Arg::Mem(self.stack(MODES))]);
        self.asm.ins(Code::VEX_Vzeroupper, &[]);
        let saved = Arg::Mem(Mem::at(gp64(RBP), -40));
        self.asm.ins(Code::Lea_r64_m, &[Arg::Reg(gp64(RSP)), saved]);
        for saved in [15, 14, 13, 12, RBX, RBP] {
            self.asm.ins(Code::Pop_r64, &[Arg::Reg(gp64(saved))]);
        }
        self.asm.ins(Code::Retnq, &[]);
    }

    fn block(&mut self, at: usize, next: Option<usize>, plan: &Plan<'_>, output: &Output) {
        self.asm.bind(self.labels[at]);
        for item in output.block_insts_and_edits(plan, regalloc2::Block::new(at)) {
            match item {
                InstOrEdit::Edit(Edit::Move { from, to }) => self.transfer(*from, *to),
                InstOrEdit::Inst(inst) => {
                    self.step(&plan.steps[inst.index()], output.inst_allocs(inst), next);
                }
            }
        }
    }

    fn step(&mut self, step: &Step, allocations: &[Allocation], next: Option<usize>) {
        let mut allocations = allocations.iter();
        self.here.clear();
        self.def = None;
        match step {
            Step::Args => {}
            Step::Op(inst) => {
                self.asm.mark(inst.site);
                self.find(&inst.op, &mut allocations);
                self.def = inst.result.and(allocations.next()).map(|place| self.place(*place));
                self.op(inst);
            }
            Step::Argument(reg) => {
                self.def = allocations.next().map(|place| self.place(*place));
                self.materialise(*reg);
            }
            Step::Copy => {
                if let (Some(from), Some(to)) = (allocations.next(), allocations.next()) {
                    self.transfer(*from, *to);
                }
            }
            Step::End(block, fused) => {
                match (fused, &self.function.blocks[*block as usize].term) {
                    (Some(op), _) => self.find(op, &mut allocations),
                    (None, Term::Branch { cond, .. }) => self.find_one(*cond, &mut allocations),
                    (None, Term::Jump(..) | Term::Return) => {}
                }
                self.end(*block as usize, *fused, next);
            }
        }
    }

    fn find(&mut self, op: &Op, allocations: &mut std::slice::Iter<'_, Allocation>) {
        op.for_each_operand(|reg| self.find_one(reg, allocations));
    }

    fn find_one(&mut self, reg: Reg, allocations: &mut std::slice::Iter<'_, Allocation>) {
        let place = match self.constants[reg.index()] {
            Constant::No => match allocations.next() {
                Some(place) => self.place(*place),
                None => return self.asm.fail("an operand without a register"),
            },
            Constant::Bits(bits) => match self.kind(reg) {
                Kind::S32 => Loc::Imm(bits & 0xffff_ffff),
                Kind::S64 => Loc::Imm(bits),
                Kind::V32 => Loc::Memory(self.splat32(bits as u32)),
                Kind::V64 => Loc::Memory(self.splat64(bits)),
                Kind::Mask if self.level == Level::Avx512 => {
                    Loc::Bits(bits & (u64::MAX >> (64 - self.function.lanes)))
                }
                Kind::Mask => {
                    Loc::Memory(self.lanes32(|lane| if bits >> lane & 1 == 1 { u32::MAX } else { 0 }))
                }
            },
            Constant::Vector(at) => {
                let lanes = self.vectors[at as usize];
                Loc::Memory(self.asm.constant(lanes))
            }
        };
        self.here.push((reg, place));
    }

    /// Puts a constant into the result's register.
    fn materialise(&mut self, reg: Reg) {
        self.find_one(reg, &mut [].iter());
        match (self.loc(reg), self.def) {
            (Loc::Imm(bits), Some(Loc::Gp(d))) => self.load_imm(d, bits),
            (Loc::Memory(mem), Some(Loc::Vec(d))) => self.load_full(d, mem),
            (Loc::Bits(bits), Some(Loc::Mask(d))) => self.load_bits(d, bits),
            other => self.asm.fail(format!("a constant into {other:?}")),
        }
    }

    fn end(&mut self, at: usize, fused: Option<Op>, next: Option<usize>) {
        match &self.function.blocks[at].term {
            Term::Return => self.epilogue(),
            Term::Jump(to, _) => self.go(self.ends[to.index()], next),
            Term::Branch { cond, then, otherwise } => {
                let (then, otherwise) = (self.ends[then.index()], self.ends[otherwise.index()]);
                let (yes, no) = match fused {
                    Some(Op::IntCmp(cond, a, b)) => {
                        let cond = self.compare(cond, a, b);
                        (codes(cond).0, codes(cond.opposite()).0)
                    }
                    _ => {
                        self.test(*cond);
                        (Code::Jne_rel32_64, Code::Je_rel32_64)
                    }
                };
                if next == Some(then) {
                    self.asm.branch(no, self.labels[otherwise]);
                } else {
                    self.asm.branch(yes, self.labels[then]);
                    self.go(otherwise, next);
                }
            }
        }
    }

    fn go(&mut self, to: usize, next: Option<usize>) {
        if next != Some(to) {
            self.asm.branch(Code::Jmp_rel32_64, self.labels[to]);
        }
    }

    /// Sets the zero flag if a condition does not hold.
    fn test(&mut self, cond: Reg) {
        if self.kind(cond) == Kind::S32 {
            let cond = self.gp(cond, GP_SCRATCH[0]);
            return self.asm.ins(Code::Test_rm32_r32, &[Arg::Reg(gp32(cond)), Arg::Reg(gp32(cond))]);
        }
        match self.level {
            Level::Avx512 => {
                let k = Arg::Reg(kreg(self.mask(cond)));
                let code = if self.function.lanes == 8 {
                    Code::VEX_Kortestb_kr_kr
                } else {
                    Code::VEX_Kortestw_kr_kr
                };
                self.asm.ins(code, &[k, k]);
            }
            Level::Avx2 => {
                let width = self.mask_width();
                let mask = Arg::Reg(vec(width, self.vec(cond, self.s0())));
                self.row(super::rows::PTEST, width, &[mask, mask]);
            }
        }
    }

    /// Compares two integers; the condition to ask for then.
    pub(super) fn compare(&mut self, cond: IntCond, a: Reg, b: Reg) -> Cond {
        let wide = self.kind(a) == Kind::S64;
        if let (Loc::Imm(_), Loc::Gp(_)) = (self.loc(a), self.loc(b)) {
            // An immediate comes second.
            self.compare(IntCond::Eq, b, a);
            return match cond {
                IntCond::Eq | IntCond::Ne => Cond::Is(cond),
                IntCond::LtU => Cond::IsNot(IntCond::LeU),
                IntCond::LeU => Cond::IsNot(IntCond::LtU),
                IntCond::LtS => Cond::IsNot(IntCond::LeS),
                IntCond::LeS => Cond::IsNot(IntCond::LtS),
            };
        }
        let x = self.gp(a, GP_SCRATCH[0]);
        match self.loc(b) {
            // The flags are those of a comparison with 0.
            Loc::Imm(0) => {
                let x = self.reg(x, wide);
                self.scalar(Code::Test_rm32_r32, wide, &[x, x]);
            }
            Loc::Imm(bits) => {
                let x = self.reg(x, wide);
                self.scalar(Code::Cmp_rm32_imm32, wide, &[x, imm32(bits, wide)]);
            }
            _ => {
                let y = self.gp(b, GP_SCRATCH[1]);
                let (x, y) = (self.reg(x, wide), self.reg(y, wide));
                self.scalar(Code::Cmp_r32_rm32, wide, &[x, y]);
            }
        }
        Cond::Is(cond)
    }

    /// A move between two places of the allocator's.
    fn transfer(&mut self, from: Allocation, to: Allocation) {
        let slot = |place: Allocation| place.as_stack().map(|_| Arg::Mem(self.slot(place)));
        let reg = |place: Allocation| place.as_reg();
        let (class, load, target, source) = match (reg(from), reg(to)) {
            (Some(from), Some(to)) => {
                (from.class(), true, Some(arg(to, self.level)), Some(arg(from, self.level)))
            }
            (None, Some(to)) => (to.class(), true, Some(arg(to, self.level)), slot(from)),
            (Some(from), None) => (from.class(), false, slot(to), Some(arg(from, self.level))),
            (None, None) => return self.asm.fail("a move from stack to stack"),
        };
        let (Some(target), Some(source)) = (target, source) else {
            return self.asm.fail("a move from nowhere");
        };
        let width = if self.level == Level::Avx512 { Width::Z } else { Width::Y };
        match (class, load) {
            (RegClass::Int, true) => self.asm.ins(Code::Mov_r64_rm64, &[target, source]),
            (RegClass::Int, false) => self.asm.ins(Code::Mov_rm64_r64, &[target, source]),
            (RegClass::Float, true) => self.row(MOVDQU, width, &[target, source]),
            (RegClass::Float, false) => self.row(STORE, width, &[target, source]),
            (RegClass::Vector, true) => self.asm.ins(Code::VEX_Kmovq_kr_km64, &[target, source]),
            (RegClass::Vector, false) => self.asm.ins(Code::VEX_Kmovq_m64_kr, &[target, source]),
        }
    }

    /// Where the allocator put an operand. Only vectors may be on the stack, as constants are in memory.
    fn place(&self, place: Allocation) -> Loc {
        let Some(reg) = place.as_reg() else { return Loc::Memory(self.slot(place)) };
        let number = reg.hw_enc() as u8;
        match reg.class() {
            RegClass::Int => Loc::Gp(number),
            RegClass::Float => Loc::Vec(number),
            RegClass::Vector => Loc::Mask(number),
        }
    }

    fn slot(&self, place: Allocation) -> Mem {
        self.stack(SPILLS + place.index() as i64 * 8)
    }

    // What ops are made of.

    pub(super) fn kind(&self, reg: Reg) -> Kind {
        self.function.kind(reg)
    }

    /// The width of a vector of lanes of so many bits, as many as fit a register.
    pub(super) fn width_of(&self, bits: u32) -> Width {
        match self.function.lanes * bits {
            0..=128 => Width::X,
            129..=256 => Width::Y,
            _ if self.level == Level::Avx2 => Width::Y,
            _ => Width::Z,
        }
    }

    /// The width of a kind of vector.
    pub(super) fn width(&self, kind: Kind) -> Width {
        self.width_of(if kind == Kind::V64 { 64 } else { 32 })
    }

    /// The width of masks where they are vectors.
    pub(super) fn mask_width(&self) -> Width {
        self.width_of(32)
    }

    pub(super) fn s0(&self) -> u8 {
        vec_scratch(self.level)[0]
    }

    pub(super) fn s1(&self) -> u8 {
        vec_scratch(self.level)[1]
    }

    pub(super) fn loc(&mut self, reg: Reg) -> Loc {
        match self.here.iter().find(|(found, _)| *found == reg) {
            Some((_, place)) => *place,
            None => {
                self.asm.fail(format!("{reg} is nowhere"));
                Loc::Imm(0)
            }
        }
    }

    /// The general register with a value; a constant comes into `scratch`.
    pub(super) fn gp(&mut self, reg: Reg, scratch: u8) -> u8 {
        match self.loc(reg) {
            Loc::Gp(number) => number,
            Loc::Imm(bits) => {
                self.load_imm(scratch, bits);
                scratch
            }
            other => {
                self.asm.fail(format!("{reg} is {other:?}, not a general register"));
                scratch
            }
        }
    }

    /// The vector register with a value; a constant comes into `scratch`.
    pub(super) fn vec(&mut self, reg: Reg, scratch: u8) -> u8 {
        match self.loc(reg) {
            Loc::Vec(number) => number,
            Loc::Memory(mem) => {
                self.load_full(scratch, mem);
                scratch
            }
            other => {
                self.asm.fail(format!("{reg} is {other:?}, not a vector register"));
                scratch
            }
        }
    }

    /// A vector as an operand: its register, or the constant's address.
    pub(super) fn src(&mut self, reg: Reg, width: Width) -> Arg {
        match self.loc(reg) {
            Loc::Vec(number) => Arg::Reg(vec(width, number)),
            Loc::Memory(mem) => Arg::Mem(mem),
            other => {
                self.asm.fail(format!("{reg} is {other:?}, not a vector"));
                Arg::Reg(vec(width, 0))
            }
        }
    }

    /// The mask register with a value; a constant comes into the emitter's own.
    pub(super) fn mask(&mut self, reg: Reg) -> u8 {
        match self.loc(reg) {
            Loc::Mask(number) => number,
            Loc::Bits(bits) => {
                self.load_bits(K_SCRATCH, bits);
                K_SCRATCH
            }
            other => {
                self.asm.fail(format!("{reg} is {other:?}, not a mask"));
                K_SCRATCH
            }
        }
    }

    /// The result's general register.
    pub(super) fn d_gp(&mut self) -> u8 {
        match self.def {
            Some(Loc::Gp(number)) => number,
            other => {
                self.asm.fail(format!("a result in {other:?}"));
                GP_SCRATCH[0]
            }
        }
    }

    /// The result's vector register.
    pub(super) fn d_vec(&mut self) -> u8 {
        match self.def {
            Some(Loc::Vec(number)) => number,
            other => {
                self.asm.fail(format!("a result in {other:?}"));
                0
            }
        }
    }

    /// The result's mask register.
    pub(super) fn d_mask(&mut self) -> u8 {
        match self.def {
            Some(Loc::Mask(number)) => number,
            other => {
                self.asm.fail(format!("a result in {other:?}"));
                K_SCRATCH
            }
        }
    }

    /// A vector instruction.
    pub(super) fn row(&mut self, row: Row, width: Width, args: &[Arg]) {
        match row.code(self.level, width) {
            Ok(code) => self.asm.ins(code, args),
            Err(message) => self.asm.fail(message),
        }
    }

    /// A vector instruction under a mask.
    pub(super) fn row_masked(&mut self, row: Row, width: Width, args: &[Arg], mask: u8, zero: bool) {
        match row.code(self.level, width) {
            Ok(code) => self.asm.masked(code, args, mask, zero),
            Err(message) => self.asm.fail(message),
        }
    }

    /// A scalar instruction, named by its 32-bit form.
    pub(super) fn scalar(&mut self, code: Code, wide: bool, args: &[Arg]) {
        self.asm.ins(form(code, wide), args);
    }

    pub(super) fn scalar_locked(&mut self, code: Code, wide: bool, args: &[Arg]) {
        self.asm.locked(form(code, wide), args);
    }

    /// A general register as an operand.
    pub(super) fn reg(&self, number: u8, wide: bool) -> Arg {
        Arg::Reg(if wide { gp64(number) } else { gp32(number) })
    }

    pub(super) fn mov(&mut self, to: u8, from: u8, wide: bool) {
        if to != from {
            let (to, from) = (self.reg(to, wide), self.reg(from, wide));
            self.scalar(Code::Mov_r32_rm32, wide, &[to, from]);
        }
    }

    pub(super) fn mov64(&mut self, to: u8, from: u8) {
        self.mov(to, from, true);
    }

    /// A scalar value into a register that is not one of the other operands.
    pub(super) fn mov_value(&mut self, to: u8, reg: Reg) {
        let wide = self.kind(reg) == Kind::S64;
        let from = self.gp(reg, to);
        self.mov(to, from, wide);
    }

    /// A constant into a general register. Flags stay as they are.
    pub(super) fn load_imm(&mut self, to: u8, bits: u64) {
        match (u32::try_from(bits), i32::try_from(bits as i64)) {
            (Ok(bits), _) => self.asm.ins(Code::Mov_r32_imm32, &[Arg::Reg(gp32(to)), Arg::Imm32(bits)]),
            (_, Ok(bits)) => self.asm.ins(Code::Mov_rm64_imm32, &[Arg::Reg(gp64(to)), Arg::Imm32To64(bits)]),
            _ => self.asm.ins(Code::Mov_r64_imm64, &[Arg::Reg(gp64(to)), Arg::Imm64(bits)]),
        }
    }

    fn load_full(&mut self, to: u8, mem: Mem) {
        let width = if self.level == Level::Avx512 { Width::Z } else { Width::Y };
        self.row(MOVDQU, width, &[Arg::Reg(vec(width, to)), Arg::Mem(mem)]);
    }

    fn load_bits(&mut self, to: u8, bits: u64) {
        self.load_imm(GP_SCRATCH[1], bits);
        let from = Arg::Reg(gp32(GP_SCRATCH[1]));
        self.asm.ins(Code::VEX_Kmovw_kr_r32, &[Arg::Reg(kreg(to)), from]);
    }

    /// A place on the stack.
    pub(super) fn stack(&self, at: i64) -> Mem {
        Mem::at(gp64(RSP), at)
    }

    /// An address. It uses no scratch register.
    pub(super) fn address(&mut self, at: &Address) -> Mem {
        if matches!(self.loc(at.base), Loc::Imm(_)) {
            self.asm.fail("an address without a base");
        }
        let base = gp64(self.gp(at.base, GP_SCRATCH[0]));
        let mut mem = Mem::at(base, at.disp.into());
        if let Some((index, scale)) = at.index {
            match self.loc(index) {
                Loc::Imm(bits) => mem.disp += bits as i64 * i64::from(scale),
                _ => {
                    mem.index = gp64(self.gp(index, GP_SCRATCH[0]));
                    mem.scale = scale.into();
                }
            }
        }
        if i32::try_from(mem.disp).is_err() {
            self.asm.fail("an address too far from its base");
        }
        mem
    }

    /// A constant of 32-bit lanes that are all the same, for any width.
    pub(super) fn splat32(&mut self, bits: u32) -> Mem {
        self.asm.constant([bits; CONSTANT_WORDS])
    }

    /// A constant of 64-bit lanes that are all the same, for any width.
    pub(super) fn splat64(&mut self, bits: u64) -> Mem {
        self.lanes32(|lane| (bits >> (lane % 2 * 32)) as u32)
    }

    /// A constant of 32-bit lanes.
    pub(super) fn lanes32(&mut self, lane: impl Fn(u32) -> u32) -> Mem {
        self.asm.constant(std::array::from_fn(|at| lane(at as u32)))
    }
}

/// What flags are asked for.
#[derive(Clone, Copy)]
pub(super) enum Cond {
    Is(IntCond),
    IsNot(IntCond),
}

impl Cond {
    fn opposite(self) -> Cond {
        match self {
            Cond::Is(cond) => Cond::IsNot(cond),
            Cond::IsNot(cond) => Cond::Is(cond),
        }
    }
}

/// The jump on a condition, and the instruction that sets a byte by it.
pub(super) fn codes(cond: Cond) -> (Code, Code) {
    match cond {
        Cond::Is(IntCond::Eq) | Cond::IsNot(IntCond::Ne) => (Code::Je_rel32_64, Code::Sete_rm8),
        Cond::Is(IntCond::Ne) | Cond::IsNot(IntCond::Eq) => (Code::Jne_rel32_64, Code::Setne_rm8),
        Cond::Is(IntCond::LtU) => (Code::Jb_rel32_64, Code::Setb_rm8),
        Cond::IsNot(IntCond::LtU) => (Code::Jae_rel32_64, Code::Setae_rm8),
        Cond::Is(IntCond::LeU) => (Code::Jbe_rel32_64, Code::Setbe_rm8),
        Cond::IsNot(IntCond::LeU) => (Code::Ja_rel32_64, Code::Seta_rm8),
        Cond::Is(IntCond::LtS) => (Code::Jl_rel32_64, Code::Setl_rm8),
        Cond::IsNot(IntCond::LtS) => (Code::Jge_rel32_64, Code::Setge_rm8),
        Cond::Is(IntCond::LeS) => (Code::Jle_rel32_64, Code::Setle_rm8),
        Cond::IsNot(IntCond::LeS) => (Code::Jg_rel32_64, Code::Setg_rm8),
    }
}

/// A scalar constant as an immediate operand.
pub(super) fn imm32(bits: u64, wide: bool) -> Arg {
    if wide { Arg::Imm32To64(bits as i32) } else { Arg::Imm32(bits as u32) }
}

/// A whole register as an operand of a move.
fn arg(reg: PReg, level: Level) -> Arg {
    let number = reg.hw_enc() as u8;
    Arg::Reg(match reg.class() {
        RegClass::Int => gp64(number),
        RegClass::Float if level == Level::Avx512 => vec(Width::Z, number),
        RegClass::Float => vec(Width::Y, number),
        RegClass::Vector => kreg(number),
    })
}
