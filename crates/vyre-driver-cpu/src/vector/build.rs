//! Makes vector code, block by block.
//!
//! A builder stands at the end of one open block. It gives each op a register of the kind the op has, uses the register
//! again where the same pure op on the same operands was already asked for in this block or one that surely ran before, and
//! computes what is constant.
//! The order of blocks in the finished function is that in which they were begun, so begin what dominates first.

use super::code::{Block, BlockId, Function, Inst, IntCond, IntOp, Kind, Num, Op, Reg, ShiftOp, Term};
use super::verify;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

/// Registers, blocks and instructions of one of these in a small function: for as many there is room from the start.
const REGS_LIKELY: usize = 512;
const BLOCKS_LIKELY: usize = 64;
const INSTS_LIKELY: usize = 128;

/// What is known at some place: that of the registers below this number which is not forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Known(u32);

/// Something that a register holds. The register tells when it was computed.
#[derive(Clone, Copy)]
struct Computed {
    op: Op,
    kind: Kind,
    reg: Reg,
    hash: u64,
}

/// A function under construction.
pub struct Builder {
    lanes: u32,
    kinds: Vec<Kind>,
    /// The constants among the registers.
    constants: Vec<Option<u64>>,
    blocks: Vec<Option<Block>>,
    /// The order in which blocks were begun.
    order: Vec<BlockId>,
    current: Option<BlockId>,
    params: Vec<Reg>,
    insts: Vec<Inst>,
    /// What this block, and what surely ran before it, has computed, in that order; no loads.
    log: Vec<Computed>,
    /// Where something is in the log.
    known: HashTable<u32>,
    /// What the entry block has computed: it runs before all others.
    entry_known: Known,
    /// By block: whether jumps go there.
    targets: Vec<bool>,
    cold: bool,
    cold_regions: u32,
    site: u32,
}

impl Builder {
    /// A function of `lanes` lanes, its entry block open, and that block's four parameters.
    pub fn new(lanes: u32) -> (Builder, [Reg; 4]) {
        let mut builder = Builder {
            lanes,
            kinds: Vec::with_capacity(REGS_LIKELY),
            constants: Vec::with_capacity(REGS_LIKELY),
            blocks: Vec::with_capacity(BLOCKS_LIKELY),
            order: Vec::with_capacity(BLOCKS_LIKELY),
            current: None,
            params: Vec::new(),
            insts: Vec::with_capacity(INSTS_LIKELY),
            log: Vec::with_capacity(REGS_LIKELY),
            known: HashTable::with_capacity(REGS_LIKELY),
            entry_known: Known(0),
            targets: Vec::with_capacity(BLOCKS_LIKELY),
            cold: false,
            cold_regions: 0,
            site: u32::MAX,
        };
        let entry = builder.new_block();
        builder.begin(entry);
        let params = [(); 4].map(|()| builder.param(Kind::S64));
        (builder, params)
    }

    /// The line that the next instructions come from.
    pub fn set_site(&mut self, site: u32) {
        self.site = site;
    }

    /// A block to jump to, not begun yet.
    pub fn new_block(&mut self) -> BlockId {
        self.blocks.push(None);
        self.targets.push(false);
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// Opens a block; the one before must be ended.
    pub fn begin(&mut self, block: BlockId) {
        self.begin_behind(block, self.entry_known);
    }

    /// What is known here: for blocks that only run after this place.
    pub fn known(&self) -> Known {
        Known(self.kinds.len() as u32)
    }

    /// Opens a block that only runs after the place where `known` was taken.
    pub fn begin_behind(&mut self, block: BlockId, known: Known) {
        assert!(self.current.is_none(), "b{} is still open", self.order.last().map_or(0, |b| b.0));
        self.order.push(block);
        self.current = Some(block);
        self.cold = self.cold_regions > 0;
        while let Some(forgotten) = self.log.pop_if(|computed| computed.reg.0 >= known.0) {
            let place = self.log.len() as u32;
            if let Ok(found) = self.known.find_entry(forgotten.hash, |at| *at == place) {
                found.remove();
            }
        }
    }

    /// Whether any block that was ended goes there.
    pub fn is_target(&self, block: BlockId) -> bool {
        self.targets[block.index()]
    }

    /// Says that the open block hardly ever runs.
    pub fn set_cold(&mut self) {
        self.cold = true;
    }

    /// Whether the open block hardly ever runs.
    pub fn is_cold(&self) -> bool {
        self.cold
    }

    /// Says that the open block, and all that are begun until [`Builder::leave_cold`], hardly ever run.
    pub fn enter_cold(&mut self) {
        self.cold = true;
        self.cold_regions += 1;
    }

    /// Ends what [`Builder::enter_cold`] began.
    pub fn leave_cold(&mut self) {
        self.cold_regions -= 1;
    }

    /// Whether a block is open.
    pub fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// A parameter of the open block, which has no instructions yet.
    pub fn param(&mut self, kind: Kind) -> Reg {
        let reg = self.reg(kind, None);
        self.params.push(reg);
        reg
    }

    /// A register's kind.
    pub fn kind(&self, reg: Reg) -> Kind {
        self.kinds[reg.index()]
    }

    /// A register's bits, if it is a constant.
    pub fn constant(&self, reg: Reg) -> Option<u64> {
        self.constants[reg.index()]
    }

    /// How many registers there are so far.
    pub fn reg_count(&self) -> usize {
        self.kinds.len()
    }

    /// `W`.
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// A constant.
    pub fn const_(&mut self, kind: Kind, bits: u64) -> Reg {
        let lanes_mask = u64::MAX >> (64 - self.lanes);
        let bits = match kind {
            Kind::S32 | Kind::V32 => bits & 0xffff_ffff,
            Kind::S64 | Kind::V64 => bits,
            Kind::Mask => bits & lanes_mask,
        };
        self.push_known(Op::Const(bits), kind)
    }

    /// The result of an op that has one.
    pub fn emit(&mut self, op: Op) -> Reg {
        if let Some(folded) = self.fold(&op) {
            return folded;
        }
        let kind = self.result_kind(&op).unwrap_or_else(|| panic!("{op:?} has no result"));
        match op {
            // Memory may have changed between two equal loads.
            op if op.is_pure() && !op.is_load() => self.push_known(op, kind),
            op => self.push(op, kind),
        }
    }

    /// An op without a result.
    pub fn effect(&mut self, op: Op) {
        let none = self.result_kind(&op);
        assert!(none.is_none(), "{op:?} has a result");
        self.insts.push(Inst { op, result: None, site: self.site });
    }

    /// Two integers.
    pub fn int(&mut self, op: IntOp, a: Reg, b: Reg) -> Reg {
        self.emit(Op::Int(op, a, b))
    }

    /// An integer and a constant.
    pub fn int_const(&mut self, op: IntOp, a: Reg, b: u64) -> Reg {
        let b = self.const_(self.kind(a), b);
        self.int(op, a, b)
    }

    /// A shift by a constant, reduced to the width.
    pub fn shift_const(&mut self, op: ShiftOp, a: Reg, n: u32) -> Reg {
        let n = n % self.kind(a).bits();
        if n == 0 { a } else { self.emit(Op::ShiftImm(op, a, n as u8)) }
    }

    /// A comparison of integers.
    pub fn cmp(&mut self, cond: IntCond, a: Reg, b: Reg) -> Reg {
        self.emit(Op::IntCmp(cond, a, b))
    }

    /// A conversion.
    pub fn convert(&mut self, from: Num, to: Num, value: Reg) -> Reg {
        self.emit(Op::Convert { from, to, value })
    }

    /// Ends the open block with a jump.
    pub fn jump(&mut self, to: BlockId, args: &[Reg]) {
        self.end(Term::Jump(to, args.into()));
    }

    /// Ends the open block with a branch.
    pub fn branch(&mut self, cond: Reg, then: BlockId, otherwise: BlockId) {
        self.end(Term::Branch { cond, then, otherwise });
    }

    /// Ends the open block and the function.
    pub fn ret(&mut self) {
        self.end(Term::Return);
    }

    /// The function; every block that was begun is ended, and every block that was made was begun.
    pub fn finish(mut self, scratch_bytes: u64) -> Function {
        assert!(self.current.is_none(), "a block is open");
        let mut places = vec![u32::MAX; self.blocks.len()];
        for (place, block) in self.order.iter().enumerate() {
            places[block.index()] = place as u32;
        }
        let mut blocks = Vec::with_capacity(self.order.len());
        for id in &self.order {
            let mut block = self.blocks[id.index()].take().expect("a block is begun once and ended");
            match &mut block.term {
                Term::Jump(to, _) => to.0 = places[to.index()],
                Term::Branch { then, otherwise, .. } => {
                    then.0 = places[then.index()];
                    otherwise.0 = places[otherwise.index()];
                }
                Term::Return => {}
            }
            blocks.push(block);
        }
        let mut function = Function { lanes: self.lanes, kinds: self.kinds, blocks, scratch_bytes };
        super::prune::prune(&mut function);
        super::sink::sink(&mut function);
        verify::assert_valid(&function);
        function
    }

    fn end(&mut self, term: Term) {
        let current = self.current.take().expect("a block is open");
        if current.0 == 0 {
            self.entry_known = self.known();
        }
        term.for_each_target(|to| self.targets[to.index()] = true);
        let insts = self.insts.clone();
        self.insts.clear();
        let params = std::mem::take(&mut self.params);
        self.blocks[current.index()] = Some(Block { params, insts, term, cold: self.cold });
    }

    fn reg(&mut self, kind: Kind, constant: Option<u64>) -> Reg {
        self.kinds.push(kind);
        self.constants.push(constant);
        Reg(self.kinds.len() as u32 - 1)
    }

    fn push(&mut self, op: Op, kind: Kind) -> Reg {
        let constant = if let Op::Const(bits) = op { Some(bits) } else { None };
        let reg = self.reg(kind, constant);
        self.insts.push(Inst { op, result: Some(reg), site: self.site });
        reg
    }

    fn push_known(&mut self, op: Op, kind: Kind) -> Reg {
        let hash = FxBuildHasher.hash_one((op, kind));
        let same = |at: &u32| {
            let computed = &self.log[*at as usize];
            computed.op == op && computed.kind == kind
        };
        match self.known.entry(hash, same, |at| self.log[*at as usize].hash) {
            Entry::Occupied(found) => self.log[*found.get() as usize].reg,
            Entry::Vacant(place) => {
                place.insert(self.log.len() as u32);
                let reg = self.push(op, kind);
                self.log.push(Computed { op, kind, reg, hash });
                reg
            }
        }
    }

    fn result_kind(&self, op: &Op) -> Option<Kind> {
        let kind = |reg: Reg| self.kinds[reg.index()];
        verify::result_kind(op, self.lanes, None, kind).unwrap_or_else(|message| panic!("{message}"))
    }

    /// What the op gives where that is a constant or one of its operands.
    fn fold(&mut self, op: &Op) -> Option<Reg> {
        match *op {
            Op::Int(int, a, b) => self.fold_int(int, a, b),
            Op::ShiftImm(shift, a, n) => {
                let (kind, value) = (self.kind(a), self.constant(a)?);
                Some(self.const_(kind, shift_constant(shift, kind, value, n)))
            }
            Op::Convert { from, to, value } if !from.is_float() && !to.is_float() => {
                let bits = self.constant(value)?;
                let bits = if from == Num::I32 { bits as i32 as i64 as u64 } else { bits };
                let kind = match (self.kind(value).is_scalar(), to.is_wide()) {
                    (true, true) => Kind::S64,
                    (true, false) => Kind::S32,
                    (false, true) => Kind::V64,
                    (false, false) => Kind::V32,
                };
                Some(self.const_(kind, bits))
            }
            Op::Splat(a) => {
                let kind = if self.kind(a) == Kind::S64 { Kind::V64 } else { Kind::V32 };
                let bits = self.constant(a)?;
                Some(self.const_(kind, bits))
            }
            Op::Mask(mask, a, b) => self.fold_mask(mask, a, b),
            Op::MaskNot(a) => {
                let bits = self.constant(a)?;
                Some(self.const_(Kind::Mask, !bits))
            }
            Op::IntCmp(cond, a, b) => self.fold_cmp(cond, a, b),
            Op::Select(_, a, b) if a == b => Some(a),
            Op::Select(cond, a, b) => match self.constant(cond)? {
                0 => Some(b),
                // A mask must be full to choose one side.
                bits if self.kind(cond) == Kind::S32 || bits == u64::MAX >> (64 - self.lanes) => Some(a),
                _ => None,
            },
            _ => None,
        }
    }

    fn fold_int(&mut self, op: IntOp, a: Reg, b: Reg) -> Option<Reg> {
        let kind = self.kind(a);
        let ones = u64::MAX >> (64 - kind.bits());
        match (op, self.constant(a), self.constant(b)) {
            (IntOp::Add, Some(x), Some(y)) => Some(self.const_(kind, x.wrapping_add(y))),
            (IntOp::Sub, Some(x), Some(y)) => Some(self.const_(kind, x.wrapping_sub(y))),
            (IntOp::Mul, Some(x), Some(y)) => Some(self.const_(kind, x.wrapping_mul(y))),
            (IntOp::And, Some(x), Some(y)) => Some(self.const_(kind, x & y)),
            (IntOp::Or, Some(x), Some(y)) => Some(self.const_(kind, x | y)),
            (IntOp::Xor, Some(x), Some(y)) => Some(self.const_(kind, x ^ y)),
            (IntOp::MinU, Some(x), Some(y)) => Some(self.const_(kind, x.min(y))),
            (IntOp::MaxU, Some(x), Some(y)) => Some(self.const_(kind, x.max(y))),
            (IntOp::MinU | IntOp::MaxU | IntOp::And | IntOp::Or, ..) if a == b => Some(a),
            (IntOp::Add | IntOp::Or | IntOp::Xor, Some(0), _) => Some(b),
            (IntOp::Add | IntOp::Sub | IntOp::Or | IntOp::Xor | IntOp::AndNot, _, Some(0)) => Some(a),
            (IntOp::Mul, Some(1), _) => Some(b),
            (IntOp::Mul | IntOp::DivU | IntOp::DivS, _, Some(1)) => Some(a),
            (IntOp::Mul | IntOp::And, Some(0), _) => Some(a),
            (IntOp::Mul | IntOp::And, _, Some(0)) => Some(b),
            (IntOp::And, Some(x), _) if x == ones => Some(b),
            (IntOp::And, _, Some(y)) if y == ones => Some(a),
            (IntOp::Mul, _, Some(y)) if y.is_power_of_two() => {
                Some(self.shift_const(ShiftOp::Shl, a, y.trailing_zeros()))
            }
            (IntOp::Mul, Some(x), _) if x.is_power_of_two() => {
                Some(self.shift_const(ShiftOp::Shl, b, x.trailing_zeros()))
            }
            (IntOp::DivU, _, Some(y)) if y.is_power_of_two() => {
                Some(self.shift_const(ShiftOp::ShrU, a, y.trailing_zeros()))
            }
            (IntOp::RemU, _, Some(y)) if y.is_power_of_two() => Some(self.int_const(IntOp::And, a, y - 1)),
            _ => None,
        }
    }

    fn fold_mask(&mut self, op: super::code::MaskOp, a: Reg, b: Reg) -> Option<Reg> {
        use super::code::MaskOp;
        let all = u64::MAX >> (64 - self.lanes);
        match (op, self.constant(a), self.constant(b)) {
            (MaskOp::And, Some(x), _) if x == all => Some(b),
            (MaskOp::And, _, Some(y)) if y == all => Some(a),
            (MaskOp::And | MaskOp::AndNot, Some(0), _) => Some(a),
            (MaskOp::And, _, Some(0)) => Some(b),
            (MaskOp::Or | MaskOp::Xor, Some(0), _) => Some(b),
            (MaskOp::Or | MaskOp::Xor | MaskOp::AndNot, _, Some(0)) => Some(a),
            (MaskOp::And | MaskOp::Or, _, _) if a == b => Some(a),
            (MaskOp::AndNot, Some(x), _) if x == all => Some(self.emit(Op::MaskNot(b))),
            (MaskOp::AndNot, _, Some(y)) if y == all => Some(self.const_(Kind::Mask, 0)),
            _ => None,
        }
    }

    /// Comparisons of two constants, as loops of few trips have them.
    fn fold_cmp(&mut self, cond: IntCond, a: Reg, b: Reg) -> Option<Reg> {
        let kind = self.kind(a);
        let (x, y) = (self.constant(a)?, self.constant(b)?);
        let sign = |bits: u64| if kind.bits() == 32 { i64::from(bits as i32) } else { bits as i64 };
        let holds = match cond {
            IntCond::Eq => x == y,
            IntCond::Ne => x != y,
            IntCond::LtU => x < y,
            IntCond::LeU => x <= y,
            IntCond::LtS => sign(x) < sign(y),
            IntCond::LeS => sign(x) <= sign(y),
        };
        Some(match kind.is_scalar() {
            true => self.const_(Kind::S32, u64::from(holds)),
            false => self.const_(Kind::Mask, if holds { u64::MAX } else { 0 }),
        })
    }
}

fn shift_constant(op: ShiftOp, kind: Kind, bits: u64, n: u8) -> u64 {
    let narrow = kind.bits() == 32;
    match op {
        ShiftOp::Shl => bits << n,
        ShiftOp::ShrU => bits >> n,
        ShiftOp::ShrS if narrow => (bits as i32 >> n) as u64,
        ShiftOp::ShrS => (bits as i64 >> n) as u64,
        ShiftOp::RotL if narrow => (bits as u32).rotate_left(n.into()).into(),
        ShiftOp::RotL => bits.rotate_left(n.into()),
    }
}
