//! Vector code as the register allocator sees it, and the register constraints of each op.
//!
//! Constants have no registers: they are immediates or are stored in memory, except large 64-bit integers and
//! arguments of jumps. A comparison that only the branch after it reads is part of the branch. Two general, two vector and
//! two mask registers are never allocated: the emitter uses them within one op, and moves use them between ops.
//!
//! The terms and types are those of `regalloc2`, because its checker verifies the allocation in debug builds; `fit` allocates, and
//! says why.

use super::asm::Level;
use crate::vector::code::{
    BitOp, FloatOp, Function, Inst, IntCond, IntOp, Kind, Num, Op, Reg, Rmw, ShiftOp, Term,
};
use regalloc2::{
    Block, InstRange, MachineEnv, Operand, OperandConstraint, OperandKind, OperandPos, PReg, PRegSet,
    RegClass, VReg,
};
use smallvec::SmallVec;

/// Numbers of general registers.
pub(super) const RAX: u8 = 0;
pub(super) const RCX: u8 = 1;
pub(super) const RDX: u8 = 2;
pub(super) const RBX: u8 = 3;
pub(super) const RSP: u8 = 4;
pub(super) const RBP: u8 = 5;
pub(super) const RSI: u8 = 6;
pub(super) const RDI: u8 = 7;
pub(super) const R8: u8 = 8;
pub(super) const R9: u8 = 9;
/// The emitter's own general registers.
pub(super) const GP_SCRATCH: [u8; 2] = [10, 11];
/// The emitter's own mask register that can be a predicate; 0 is its own too.
pub(super) const K_SCRATCH: u8 = 7;

/// The emitter's own vector registers.
pub(super) const fn vec_scratch(level: Level) -> [u8; 2] {
    match level {
        Level::Avx2 => [14, 15],
        Level::Avx512 => [30, 31],
    }
}

/// What a constant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Constant {
    /// Not a constant, or one in a register.
    No,
    /// As [`Op::Const`] has it.
    Bits(u64),
    /// Lanes of 32 bits that differ: one of [`Plan::vectors`].
    Vector(u32),
}

/// What is emitted at one place of the allocator's program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The function's parameters come in.
    Args,
    /// An instruction of a block.
    Op(Inst),
    /// A constant into a register, for a jump's argument.
    Argument(Reg),
    /// A value copied for an argument of a jump into or out of cold code. Without the copy both sides would share one
    /// register or slot, and register pressure on one side would spill the value on the other.
    Copy,
    /// The end of a block; with the comparison that it branches on, if that is part of it.
    End(u32, Option<Op>),
}

/// What an op destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clobber {
    Nothing,
    Rax,
    RaxRdx,
    /// A call of a helper.
    Call,
}

/// What an op wants of its registers besides having them.
#[derive(Clone, Copy, Debug)]
struct Needs {
    /// The result is written before all operands were read.
    early: bool,
    /// Operands are read after something was destroyed.
    late_uses: bool,
    clobber: Clobber,
}

/// The program of the allocator.
pub(super) struct Plan<'a> {
    pub(super) function: &'a Function,
    pub(super) level: Level,
    pub(super) constants: Vec<Constant>,
    pub(super) vectors: Vec<[u32; 16]>,
    pub(super) steps: Vec<Step>,
    /// By register: its number for the allocator, without gaps; that of another one where it is that extended by zeros.
    numbers: Vec<u32>,
    pub(super) operands: Vec<Operand>,
    /// By step: where its operands end.
    pub(super) ends: Vec<u32>,
    pub(super) clobbers: Vec<PRegSet>,
    pub(super) ranges: Vec<InstRange>,
    pub(super) succs: Vec<SmallVec<[Block; 2]>>,
    pub(super) preds: Vec<SmallVec<[Block; 2]>>,
    pub(super) params: Vec<SmallVec<[VReg; 4]>>,
    pub(super) args: Vec<SmallVec<[VReg; 4]>>,
    /// By register: whether it is assigned where code runs often.
    hot: Vec<bool>,
    /// By register: the comparison that it is, if branches do it themselves.
    compares: Vec<Option<Op>>,
    pub(super) vregs: usize,
    /// The steps that call helpers.
    pub(super) calls: Vec<u32>,
    none: Vec<VReg>,
}

/// Whether an op is a call of a helper: what is rare and has no instruction.
pub(super) fn is_call(op: &Op, level: Level, kind: impl Fn(Reg) -> Kind) -> bool {
    let old = level == Level::Avx2;
    match op {
        Op::Int(IntOp::DivU | IntOp::DivS | IntOp::RemU | IntOp::RemS, a, _) => {
            kind(*a) == Kind::V64 || old && kind(*a) == Kind::V32
        }
        Op::Int(IntOp::MulHiU | IntOp::MulHiS, a, _) => kind(*a) == Kind::V64,
        Op::Float(FloatOp::Rem, ..) => true,
        Op::Bit(BitOp::Clz, a) => old && kind(*a).is_vector(),
        Op::Convert { from, to, value } => {
            let native = matches!(
                (from, to),
                (Num::I32, Num::F32 | Num::F64) | (Num::F32, Num::F64) | (Num::F64, Num::F32)
            );
            old && kind(*value).is_vector() && (from.is_float() || to.is_float()) && !native
        }
        _ => false,
    }
}

fn needs(op: &Op, level: Level, kind: impl Fn(Reg) -> Kind) -> Needs {
    let plain = Needs { early: false, late_uses: false, clobber: Clobber::Nothing };
    let early = Needs { early: true, ..plain };
    if is_call(op, level, &kind) {
        return Needs { clobber: Clobber::Call, ..plain };
    }
    match op {
        Op::Int(
            IntOp::DivU | IntOp::DivS | IntOp::RemU | IntOp::RemS | IntOp::MulHiU | IntOp::MulHiS,
            a,
            _,
        ) if kind(*a).is_scalar() => Needs { clobber: Clobber::RaxRdx, ..plain },
        Op::Int(
            IntOp::MulHiU | IntOp::MulHiS | IntOp::DivU | IntOp::DivS | IntOp::RemU | IntOp::RemS,
            ..,
        )
        | Op::Shift(ShiftOp::RotL, ..)
        | Op::Gather(..) => early,
        Op::Bit(BitOp::Popcount, a) if kind(*a).is_vector() => early,
        Op::Select(cond, a, _) if kind(*cond) == Kind::S32 && !kind(*a).is_scalar() => early,
        Op::Rmw { op, shared: true, .. } if !matches!(op, Rmw::Add | Rmw::Sub | Rmw::Exchange) => {
            Needs { late_uses: true, clobber: Clobber::Rax, ..plain }
        }
        // The result's register may hold a constant meanwhile.
        Op::Rmw { shared: false, .. } => early,
        Op::CompareExchange { .. } => Needs { late_uses: true, clobber: Clobber::Rax, ..plain },
        _ => plain,
    }
}

fn gp(number: u8) -> PReg {
    PReg::new(number.into(), RegClass::Int)
}

fn gp_set(numbers: &[u8]) -> PRegSet {
    numbers.iter().fold(PRegSet::empty(), |set, number| set.with(gp(*number)))
}

fn vec_count(level: Level) -> usize {
    vec_scratch(level)[0].into()
}

fn class_set(class: RegClass, numbers: std::ops::Range<usize>) -> PRegSet {
    numbers.fold(PRegSet::empty(), |set, number| set.with(PReg::new(number, class)))
}

/// The registers that may be allocated.
pub(super) fn machine(level: Level) -> MachineEnv {
    let vectors = class_set(RegClass::Float, 0..vec_count(level));
    let masks = match level {
        Level::Avx2 => PRegSet::empty(),
        Level::Avx512 => class_set(RegClass::Vector, 1..usize::from(K_SCRATCH)),
    };
    let general = gp_set(&[RAX, RCX, RDX, RBX, RSI, RDI, R8, R9, 12, 13, 14, 15]);
    MachineEnv {
        preferred_regs_by_class: [general, vectors, masks],
        non_preferred_regs_by_class: [PRegSet::empty(); 3],
        scratch_by_class: [None; 3],
        fixed_stack_slots: Vec::new(),
    }
}

/// Registers for moves between ops, which are the emitter's within one.
pub(super) fn scratch(class: RegClass, level: Level) -> [PReg; 2] {
    let numbers = match class {
        RegClass::Int => GP_SCRATCH,
        RegClass::Float => vec_scratch(level),
        RegClass::Vector => [0, K_SCRATCH],
    };
    numbers.map(|number| PReg::new(number.into(), class))
}

impl<'a> Plan<'a> {
    pub(super) fn new(function: &'a Function, level: Level) -> Plan<'a> {
        let blocks = function.blocks.len();
        let (constants, vectors) = constants(function);
        let uses = count_uses(function);
        let compares = compares(function, &uses);
        let (numbers, vregs) = numbers(function, &constants, &compares);
        let steps = function.blocks.iter().map(|block| block.insts.len() + 2).sum();
        let mut plan = Plan {
            function,
            level,
            constants,
            vectors,
            steps: Vec::with_capacity(steps),
            numbers,
            operands: Vec::with_capacity(3 * steps),
            ends: Vec::with_capacity(steps),
            clobbers: Vec::with_capacity(steps),
            ranges: Vec::with_capacity(blocks),
            succs: empty(blocks),
            preds: empty(blocks),
            params: Vec::with_capacity(blocks),
            args: empty(blocks),
            hot: hot(function),
            compares,
            vregs,
            calls: Vec::new(),
            none: Vec::new(),
        };
        for at in 0..blocks {
            plan.block(at, &uses);
        }
        plan
    }

    fn block(&mut self, at: usize, uses: &[u32]) {
        let block = &self.function.blocks[at];
        let start = self.steps.len();
        if at == 0 {
            for (param, number) in block.params.iter().zip([RDI, RSI, RDX, RCX]) {
                self.operands.push(Operand::reg_fixed_def(self.vreg(*param), gp(number)));
            }
            self.close(Step::Args, PRegSet::empty());
            self.params.push(SmallVec::new());
        } else {
            self.params.push(block.params.iter().map(|param| self.vreg(*param)).collect());
        }
        let nothing = |reg: &Reg| uses[reg.index()] == 0;
        for inst in &block.insts {
            let folded = inst.result.is_some_and(|result| {
                self.constants[result.index()] != Constant::No || self.compares[result.index()].is_some()
            });
            if folded || is_alias(&inst.op, self.function) {
                continue;
            }
            let silent =
                matches!(inst.op, Op::Rmw { op: Rmw::Add | Rmw::Sub | Rmw::And | Rmw::Or | Rmw::Xor, .. })
                    && inst.result.as_ref().is_some_and(nothing);
            self.inst(&Inst { result: inst.result.filter(|_| !silent), ..*inst });
        }
        let fused = match &block.term {
            Term::Branch { cond, .. } => self.compares[cond.index()],
            Term::Jump(..) | Term::Return => None,
        };
        self.end(at, fused);
        self.ranges.push(InstRange::new(regalloc2::Inst::new(start), regalloc2::Inst::new(self.steps.len())));
    }

    fn inst(&mut self, inst: &Inst) {
        let kinds = &self.function.kinds;
        let needs = needs(&inst.op, self.level, |reg| kinds[reg.index()]);
        let pos = if needs.late_uses { OperandPos::Late } else { OperandPos::Early };
        self.uses(&inst.op, pos);
        let first = PReg::new(0, RegClass::Float);
        if let Some(result) = inst.result {
            let vreg = self.vreg(result);
            let (constraint, pos) = match (needs.clobber, needs.early) {
                (Clobber::Call, _) => (OperandConstraint::FixedReg(first), OperandPos::Late),
                (_, true) => (OperandConstraint::Reg, OperandPos::Early),
                (_, false) => (OperandConstraint::Reg, OperandPos::Late),
            };
            self.operands.push(Operand::new(vreg, constraint, OperandKind::Def, pos));
        }
        let clobbers = match needs.clobber {
            Clobber::Nothing => PRegSet::empty(),
            Clobber::Rax => gp_set(&[RAX]),
            Clobber::RaxRdx => gp_set(&[RAX, RDX]),
            Clobber::Call => {
                self.calls.push(self.steps.len() as u32);
                let env = machine(self.level);
                let [_, mut vectors, masks] = env.preferred_regs_by_class;
                if inst.result.is_some() {
                    vectors.remove(first);
                }
                let mut all = gp_set(&[RAX, RCX, RDX, RSI, RDI, R8, R9]);
                all.union_from(vectors);
                all.union_from(masks);
                all
            }
        };
        self.close(Step::Op(*inst), clobbers);
    }

    fn uses(&mut self, op: &Op, pos: OperandPos) {
        op.for_each_operand(|reg| {
            if self.constants[reg.index()] == Constant::No {
                self.operands.push(use_of(self.vreg(reg), pos));
            }
        });
    }

    fn end(&mut self, at: usize, fused: Option<Op>) {
        match &self.function.blocks[at].term {
            Term::Return => {}
            Term::Jump(to, args) => {
                let cold = self.function.blocks[at].cold;
                for arg in args {
                    let apart = cold && (!self.function.blocks[to.index()].cold || self.hot[arg.index()]);
                    let vreg = match self.constants[arg.index()] {
                        Constant::No if apart => self.copy(*arg),
                        Constant::No => self.vreg(*arg),
                        Constant::Bits(_) | Constant::Vector(_) => self.argument(*arg),
                    };
                    self.args[at].push(vreg);
                }
                self.edge(at, to.index());
            }
            Term::Branch { cond, then, otherwise } => {
                match &fused {
                    Some(op) => self.uses(op, OperandPos::Early),
                    None if self.constants[cond.index()] == Constant::No => {
                        self.operands.push(use_of(self.vreg(*cond), OperandPos::Early));
                    }
                    None => {}
                }
                self.edge(at, then.index());
                self.edge(at, otherwise.index());
            }
        }
        self.close(Step::End(at as u32, fused), PRegSet::empty());
    }

    /// A constant in a register of its own.
    fn argument(&mut self, reg: Reg) -> VReg {
        let vreg = VReg::new(self.vregs, self.class(reg));
        self.vregs += 1;
        self.operands.push(Operand::reg_def(vreg));
        self.close(Step::Argument(reg), PRegSet::empty());
        vreg
    }

    /// A value in another register.
    fn copy(&mut self, reg: Reg) -> VReg {
        let vreg = VReg::new(self.vregs, self.class(reg));
        self.vregs += 1;
        let from = self.vreg(reg);
        self.operands.push(Operand::new(from, OperandConstraint::Any, OperandKind::Use, OperandPos::Early));
        self.operands.push(Operand::reg_def(vreg));
        self.close(Step::Copy, PRegSet::empty());
        vreg
    }

    fn edge(&mut self, from: usize, to: usize) {
        self.succs[from].push(Block::new(to));
        self.preds[to].push(Block::new(from));
    }

    fn close(&mut self, step: Step, clobbers: PRegSet) {
        self.steps.push(step);
        self.ends.push(self.operands.len() as u32);
        self.clobbers.push(clobbers);
    }

    fn class(&self, reg: Reg) -> RegClass {
        match self.function.kind(reg) {
            Kind::S32 | Kind::S64 => RegClass::Int,
            Kind::V32 | Kind::V64 => RegClass::Float,
            Kind::Mask if self.level == Level::Avx512 => RegClass::Vector,
            Kind::Mask => RegClass::Float,
        }
    }

    fn vreg(&self, reg: Reg) -> VReg {
        VReg::new(self.numbers[reg.index()] as usize, self.class(reg))
    }
}

/// An operand that is read. Instructions read vectors from memory too.
fn use_of(vreg: VReg, pos: OperandPos) -> Operand {
    let constraint = match vreg.class() {
        RegClass::Float => OperandConstraint::Any,
        RegClass::Int | RegClass::Vector => OperandConstraint::Reg,
    };
    Operand::new(vreg, constraint, OperandKind::Use, pos)
}

/// A list for each block.
fn empty<T: smallvec::Array>(blocks: usize) -> Vec<SmallVec<T>> {
    std::iter::repeat_with(SmallVec::new).take(blocks).collect()
}

fn hot(function: &Function) -> Vec<bool> {
    let mut hot = vec![false; function.kinds.len()];
    for block in function.blocks.iter().filter(|block| !block.cold) {
        let results = block.insts.iter().filter_map(|inst| inst.result);
        block.params.iter().copied().chain(results).for_each(|reg| hot[reg.index()] = true);
    }
    hot
}

/// Whether an op gives its operand's own register: that of 32 bits has an empty upper half.
fn is_alias(op: &Op, function: &Function) -> bool {
    matches!(op, Op::Convert { from: Num::U32, to: Num::U64 | Num::I64, value } if function.kind(*value).is_scalar())
}

/// The allocator's numbers of registers, and how many. It keeps sets of them, which are small where numbers are; so what has
/// no register there has none.
fn numbers(function: &Function, constants: &[Constant], compares: &[Option<Op>]) -> (Vec<u32>, usize) {
    let (mut numbers, mut next) = (vec![0; function.kinds.len()], 0..);
    for block in &function.blocks {
        block.params.iter().zip(&mut next).for_each(|(param, number)| numbers[param.index()] = number);
        for inst in &block.insts {
            let Some(result) = inst.result.map(Reg::index) else { continue };
            match &inst.op {
                Op::Convert { value, .. } if is_alias(&inst.op, function) => {
                    numbers[result] = numbers[value.index()];
                }
                _ if constants[result] == Constant::No && compares[result].is_none() => {
                    numbers[result] = next.next().unwrap_or(0);
                }
                _ => {}
            }
        }
    }
    (numbers, next.start as usize)
}

/// The constants that need no registers, and those whose lanes differ.
fn constants(function: &Function) -> (Vec<Constant>, Vec<[u32; 16]>) {
    let mut constants = vec![Constant::No; function.kinds.len()];
    let mut vectors = vec![std::array::from_fn(|lane| lane as u32)];
    for inst in function.blocks.iter().flat_map(|block| &block.insts) {
        let Some(result) = inst.result else { continue };
        constants[result.index()] = match inst.op {
            // A constant index may be scaled by 8 and have more added.
            Op::Const(bits)
                if function.kind(result) == Kind::S64 && (bits as i64).unsigned_abs() >= 1 << 27 =>
            {
                Constant::No
            }
            Op::Const(bits) => Constant::Bits(bits),
            Op::LaneIndex => Constant::Vector(0),
            Op::Int(_, a, b) | Op::IntCmp(_, a, b) if function.kind(a) == Kind::V32 => {
                let known = |reg: Reg| match constants[reg.index()] {
                    Constant::No => None,
                    Constant::Bits(bits) => Some([bits as u32; 16]),
                    Constant::Vector(at) => Some(vectors[at as usize]),
                };
                match (known(a), known(b)) {
                    (Some(a), Some(b)) => fold(&inst.op, &a, &b, &mut vectors),
                    _ => Constant::No,
                }
            }
            _ => Constant::No,
        };
    }
    (constants, vectors)
}

/// An op on constants. Places of lanes in subgroups and the permutations among them are such.
fn fold(op: &Op, a: &[u32; 16], b: &[u32; 16], vectors: &mut Vec<[u32; 16]>) -> Constant {
    let each = |f: &dyn Fn(u32, u32) -> u32| std::array::from_fn(|lane| f(a[lane], b[lane]));
    let test = |f: &dyn Fn(u32, u32) -> bool| {
        Constant::Bits((0..16).filter(|lane| f(a[*lane], b[*lane])).fold(0, |bits, lane| bits | 1 << lane))
    };
    let lanes = match op {
        Op::Int(IntOp::Add, ..) => each(&u32::wrapping_add),
        Op::Int(IntOp::Sub, ..) => each(&u32::wrapping_sub),
        Op::Int(IntOp::Mul, ..) => each(&u32::wrapping_mul),
        Op::Int(IntOp::And, ..) => each(&|a, b| a & b),
        Op::Int(IntOp::Or, ..) => each(&|a, b| a | b),
        Op::Int(IntOp::Xor, ..) => each(&|a, b| a ^ b),
        Op::IntCmp(IntCond::LtU, ..) => return test(&|a, b| a < b),
        Op::IntCmp(IntCond::LeU, ..) => return test(&|a, b| a <= b),
        Op::IntCmp(IntCond::Eq, ..) => return test(&|a, b| a == b),
        _ => return Constant::No,
    };
    vectors.push(lanes);
    Constant::Vector(vectors.len() as u32 - 1)
}

fn count_uses(function: &Function) -> Vec<u32> {
    let mut uses = vec![0; function.kinds.len()];
    for block in &function.blocks {
        block.insts.iter().for_each(|inst| inst.op.for_each_operand(|reg| uses[reg.index()] += 1));
        block.term.for_each_operand(|reg| uses[reg.index()] += 1);
    }
    uses
}

/// The comparisons of integers that only branches read.
fn compares(function: &Function, uses: &[u32]) -> Vec<Option<Op>> {
    let mut left = uses.to_vec();
    for block in &function.blocks {
        if let Term::Branch { cond, .. } = &block.term {
            left[cond.index()] -= 1;
        }
    }
    let mut compares = vec![None; function.kinds.len()];
    for inst in function.blocks.iter().flat_map(|block| &block.insts) {
        if let (Op::IntCmp(..), Some(result)) = (inst.op, inst.result)
            && function.kind(result) == Kind::S32
            && left[result.index()] == 0
        {
            compares[result.index()] = Some(inst.op);
        }
    }
    compares
}

/// Bytes of a register on the stack.
pub(super) const fn spill_bytes(class: RegClass, level: Level) -> usize {
    match (class, level) {
        (RegClass::Int | RegClass::Vector, _) => 8,
        (RegClass::Float, Level::Avx2) => 32,
        (RegClass::Float, Level::Avx512) => 64,
    }
}

impl regalloc2::Function for Plan<'_> {
    fn num_insts(&self) -> usize {
        self.steps.len()
    }

    fn num_blocks(&self) -> usize {
        self.ranges.len()
    }

    fn entry_block(&self) -> Block {
        Block::new(0)
    }

    fn block_insns(&self, block: Block) -> InstRange {
        self.ranges[block.index()]
    }

    fn block_succs(&self, block: Block) -> &[Block] {
        &self.succs[block.index()]
    }

    fn block_preds(&self, block: Block) -> &[Block] {
        &self.preds[block.index()]
    }

    fn block_params(&self, block: Block) -> &[VReg] {
        &self.params[block.index()]
    }

    fn is_ret(&self, at: regalloc2::Inst) -> bool {
        self.ended(at).is_some_and(|block| self.succs[block].is_empty())
    }

    fn is_branch(&self, at: regalloc2::Inst) -> bool {
        self.ended(at).is_some_and(|block| !self.succs[block].is_empty())
    }

    fn branch_blockparams(&self, block: Block, _: regalloc2::Inst, _: usize) -> &[VReg] {
        // Only jumps carry arguments, and they have one successor.
        if self.succs[block.index()].len() == 1 { &self.args[block.index()] } else { &self.none }
    }

    fn inst_operands(&self, at: regalloc2::Inst) -> &[Operand] {
        let start = if at.index() == 0 { 0 } else { self.ends[at.index() - 1] as usize };
        &self.operands[start..self.ends[at.index()] as usize]
    }

    fn inst_clobbers(&self, at: regalloc2::Inst) -> PRegSet {
        self.clobbers[at.index()]
    }

    fn num_vregs(&self) -> usize {
        self.vregs
    }

    fn spillslot_size(&self, class: RegClass) -> usize {
        spill_bytes(class, self.level) / 8
    }
}

impl Plan<'_> {
    /// The block that ends here.
    fn ended(&self, at: regalloc2::Inst) -> Option<usize> {
        match self.steps[at.index()] {
            Step::End(block, _) => Some(block as usize),
            Step::Args | Step::Op(_) | Step::Argument(_) | Step::Copy => None,
        }
    }
}
