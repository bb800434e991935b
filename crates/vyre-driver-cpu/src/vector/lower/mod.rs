//! From an optimised program to vector code.
//!
//! The function runs workgroups one after the other. In a workgroup, group-level lines (see `plan`) are ordinary scalar
//! control flow, and each run of lines between them becomes a loop over the workgroup's lanes, `vectors * lanes` at a time.
//! A value that varies is one register for each of those vectors; a value that does not is one register in all.
//!
//! - `plan`: what is uniform, what splits, what must outlast a run.
//! - `group`: workgroups and the lines they take together.
//! - `lane`: control flow among lanes, by masks. `hoist`: checks of accesses that loops need not make.
//! - `compute`, `cast`: the ops on a lane's own values. `memory`, `atomic`, `subgroup`, `tile`: the others.
//!
//! Not here: what any of it looks like in machine code.

mod atomic;
mod cast;
mod compute;
mod group;
mod hoist;
mod lane;
mod memory;
mod plan;
mod subgroup;
mod tile;

use super::build::Builder;
use super::code::{Address, Elem, Function, IntOp, Kind, Op, Reg};
use plan::Plan;
use smallvec::SmallVec;
use vyre_foundation::ir::{DataType, Literal, Local, Node, Operand, Value, int_or_bool};
use vyre_lower::prepare::Prepared;

/// How wide a machine's vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Lanes of 32 bits, where no 64-bit lanes occur.
    pub lanes: u32,
    /// Lanes where 64-bit lanes occur too.
    pub lanes_wide: u32,
    /// The most vectors in flight, a power of two.
    pub vectors_max: u32,
    /// Vector registers.
    pub registers: u32,
}

/// The launch as the code sees it: words at fixed places, little-endian.
///
/// Behind these stand 16 bytes for each buffer of the program, by its id: the address (8 bytes), the elements (4 bytes), 4
/// bytes of nothing. Workgroup memory is not listed: it lies in scratch memory.
pub mod context {
    /// 4 bytes: not 0 asks the code to return.
    pub const STOP: i32 = 0;
    /// 4 bytes: the least code of a trap that was recorded; all ones for none.
    pub const TRAP: i32 = 4;
    /// 12 bytes: workgroups along x, y and z.
    pub const GRID: i32 = 8;
    /// 8 bytes that are always 0, for loads out of bounds. Nothing writes them.
    pub const ZERO: i32 = 24;
    /// Where the buffers start.
    pub const BUFFERS: i32 = 32;
    /// Bytes of a buffer's entry.
    pub const BUFFER_BYTES: i32 = 16;
}

/// The vector code of a program without functions and grid barriers, prepared for a target on which everything is native;
/// `Err` names what is unsupported.
///
/// A trap records its code, and of several codes the least is kept.
pub fn lower(prepared: &Prepared, shape: Shape) -> Result<Function, String> {
    let plan = Plan::new(&prepared.program, &prepared.facts, shape);
    group::lower(&plan, plan.lanes, plan.vectors)
}

/// The registers of a varying value, one for each vector in flight.
type Lanes = SmallVec<[Reg; 4]>;

/// A u32 or i32 that grows by a constant from lane to lane of a vector, wrapping.
#[derive(Clone, Debug)]
struct Linear {
    bases: Bases,
    stride: u32,
}

/// Where the vectors of a line start.
#[derive(Clone, Debug)]
enum Bases {
    /// Each where the one before ends, the first at this `S32`.
    Row(Reg),
    /// Each at an `S32` of its own.
    Each(Lanes),
}

impl Linear {
    /// The one register that all lanes in flight share, if they do.
    fn flat(&self) -> Option<Reg> {
        match self.bases {
            Bases::Row(base) if self.stride == 0 => Some(base),
            Bases::Row(_) | Bases::Each(_) => None,
        }
    }
}

/// Where a value is.
#[derive(Clone, Debug)]
enum Val {
    /// The same for all lanes: `S32`, `S64`; floats in a vector whose lanes are equal.
    Uniform(Reg),
    /// A register for each vector in flight.
    Varying(Lanes, Option<Linear>),
}

/// What an earlier state of the environment was, to go back to it.
enum Undo {
    Value(Value, Option<Val>),
    Local(Local, Option<Val>),
}

/// The lanes that run.
#[derive(Clone, Debug)]
struct Exec {
    /// A mask for each vector in flight; `None` for all lanes.
    masks: Option<Lanes>,
    /// Equal numbers mean equal masks.
    version: u32,
}

/// Something that control flow may change and merges must carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Var {
    Local(Local),
    /// The lanes that run.
    Exec,
    /// The lanes that wait for the innermost loop's next trip.
    Continued,
}

/// Where `break` and `continue` of a loop go.
enum Loop {
    /// All lanes leave together: blocks, and what they take.
    Together { exit: super::code::BlockId, next: Option<super::code::BlockId>, vars: Vec<Var> },
    /// Lanes leave one by one; some may wait for the next trip.
    Apart { continues: bool },
}

/// The lanes at hand, inside a loop over a workgroup's lanes.
#[derive(Clone, Copy)]
struct Group {
    /// The first lane, an `S32`.
    base: Reg,
    /// The same, an `S64`.
    base_wide: Reg,
}

/// A private array's memory.
#[derive(Clone, Copy)]
struct Array {
    /// Behind the start of scratch memory.
    offset: u64,
    /// Bytes from one group of lanes to the next; 0 if they take turns.
    group_bytes: u64,
}

/// Memory that a value or local has between runs.
#[derive(Clone, Copy)]
struct Slot {
    offset: u64,
}

struct Lower<'a> {
    b: Builder,
    plan: &'a Plan<'a>,
    /// Vectors in flight.
    vectors: usize,
    context: Reg,
    scratch: Reg,
    scratch_bytes: u64,
    buffers: Vec<memory::BufferRegs>,
    place: group::Place,
    values: Vec<Option<Val>>,
    locals: Vec<Option<Val>>,
    /// The mask that each local was declared under.
    local_versions: Vec<u32>,
    value_slots: Vec<Option<Slot>>,
    local_slots: Vec<Option<Slot>>,
    arrays: Vec<Option<Array>>,
    trail: Vec<Undo>,
    group: Option<Group>,
    exec: Exec,
    versions: u32,
    continued: Lanes,
    loops: Vec<Loop>,
    /// The conditions of branches that the code at hand is behind, and how they came out.
    decided: Vec<(Reg, bool)>,
    /// The locals assigned in the run at hand that have memory.
    dirty: Vec<Local>,
    /// How often lines at hand stand there with masks too.
    copies: u32,
    /// The lines whose elements are there whenever the code at hand runs.
    assumed: Vec<hoist::Assumed>,
    /// Whether lines run that the program might not reach.
    speculative: bool,
    /// The line at hand.
    site: u32,
    /// Scratch memory for lanes to be taken one by one.
    exchange: u64,
}

impl<'a> Lower<'a> {
    fn lanes_per_vector(&self) -> u32 {
        self.b.lanes()
    }

    /// Lanes in flight.
    fn stride(&self) -> u32 {
        self.vectors as u32 * self.b.lanes()
    }

    fn set_site(&mut self, site: u32) {
        self.site = site;
        self.b.set_site(site);
    }

    // The environment.

    fn set_value(&mut self, value: Value, val: Val) {
        let old = self.values[value.index()].replace(val);
        self.trail.push(Undo::Value(value, old));
    }

    fn set_local(&mut self, local: Local, val: Val) {
        let old = self.locals[local.index()].replace(val);
        self.trail.push(Undo::Local(local, old));
    }

    fn mark(&self) -> usize {
        self.trail.len()
    }

    /// Forgets everything that was found out since `mark`.
    fn back_to(&mut self, mark: usize) {
        while self.trail.len() > mark {
            match self.trail.pop() {
                Some(Undo::Value(value, old)) => self.values[value.index()] = old,
                Some(Undo::Local(local, old)) => self.locals[local.index()] = old,
                None => return,
            }
        }
    }

    /// Forgets the varying values found out since `mark`: the loop over lanes that they belong to is at its end.
    fn forget_varying(&mut self, mark: usize) {
        for undo in &self.trail[mark..] {
            let place = match undo {
                Undo::Value(value, _) => &mut self.values[value.index()],
                Undo::Local(local, _) => &mut self.locals[local.index()],
            };
            if matches!(place, Some(Val::Varying(..))) {
                *place = None;
            }
        }
    }

    // Constants.

    /// A uniform constant, in the register a uniform value of its type has.
    fn literal(&mut self, literal: Literal) -> Reg {
        let kind = uniform_kind(literal.ty());
        self.b.const_(kind, register_bits(literal.ty(), literal.bits()))
    }

    /// A constant vector, or for a bool a constant mask.
    fn literal_lanes(&mut self, literal: Literal) -> Reg {
        let kind = varying_kind(literal.ty());
        let bits = register_bits(literal.ty(), literal.bits());
        let bits = if kind == Kind::Mask && bits != 0 { u64::MAX } else { bits };
        self.b.const_(kind, bits)
    }

    fn mask_none(&mut self) -> Reg {
        self.b.const_(Kind::Mask, 0)
    }

    fn mask_all(&mut self) -> Reg {
        self.b.const_(Kind::Mask, u64::MAX)
    }

    // Operands.

    /// Where a value is now: as computed, computed again, or loaded from its memory.
    fn value(&mut self, value: Value) -> Val {
        if let Some(val) = &self.values[value.index()] {
            return val.clone();
        }
        let val = if self.plan.again[value.index()] {
            let node = self.plan.defs[value.index()].unwrap_or_else(|| unreachable!("values are assigned"));
            match node {
                Node::Builtin { op, axis, .. } => self.builtin(*op, *axis),
                Node::Compute { result, op, ty, args } => self.compute_line(*result, *op, *ty, args),
                _ => unreachable!("only cheap lines are run again"),
            }
        } else {
            let slot = self.value_slots[value.index()]
                .unwrap_or_else(|| unreachable!("%{} is used where it is not known", value.0));
            self.load_slot(slot, self.plan.types[value.index()])
        };
        self.set_value(value, val.clone());
        val
    }

    /// An operand that is the same for all lanes, in one register. One that only the language knows to be the same is
    /// taken from a lane.
    fn scalar(&mut self, operand: Operand) -> Reg {
        let value = match operand {
            Operand::Literal(literal) => return self.literal(literal),
            Operand::Value(value) => value,
        };
        let ty = self.plan.types[value.index()];
        if self.group.is_none() && !self.plan.uniform[value.index()] && self.values[value.index()].is_none() {
            return self.first_of_slot(value, ty);
        }
        match self.value(value) {
            Val::Uniform(reg) => reg,
            Val::Varying(lanes, _) => self.first_lane(&lanes, ty),
        }
    }

    /// An operand as vectors, or as masks if it is a bool.
    fn vectors(&mut self, operand: Operand) -> Lanes {
        match operand {
            Operand::Literal(literal) => {
                let reg = self.literal_lanes(literal);
                SmallVec::from_elem(reg, self.vectors)
            }
            Operand::Value(value) => {
                let val = self.value(value);
                let ty = self.plan.types[value.index()];
                self.spread(&val, ty)
            }
        }
    }

    fn spread(&mut self, val: &Val, ty: DataType) -> Lanes {
        match val {
            Val::Varying(lanes, _) => Lanes::from_slice(lanes),
            Val::Uniform(reg) => {
                let reg = self.spread_reg(*reg, ty);
                SmallVec::from_elem(reg, self.vectors)
            }
        }
    }

    /// A uniform register as a vector or mask.
    fn spread_reg(&mut self, reg: Reg, ty: DataType) -> Reg {
        match self.b.kind(reg) {
            Kind::S32 if ty == DataType::Bool => {
                if let Some(bits) = self.b.constant(reg) {
                    return self.b.const_(Kind::Mask, if bits != 0 { u64::MAX } else { 0 });
                }
                let (all, none) = (self.mask_all(), self.mask_none());
                self.b.emit(Op::Select(reg, all, none))
            }
            Kind::S32 | Kind::S64 => self.b.emit(Op::Splat(reg)),
            Kind::V32 | Kind::V64 | Kind::Mask => reg,
        }
    }

    /// A vector or mask whose lanes are equal, as a uniform register.
    fn join_reg(&mut self, reg: Reg, ty: DataType) -> Reg {
        match self.b.kind(reg) {
            Kind::Mask => {
                let bits = self.b.emit(Op::MaskToBits(reg));
                self.b.int_const(IntOp::And, bits, 1)
            }
            Kind::V32 | Kind::V64 if !ty.is_float() => self.b.emit(Op::Extract(reg, 0)),
            Kind::S32 | Kind::S64 | Kind::V32 | Kind::V64 => reg,
        }
    }

    /// The value of a lane that runs, for all.
    fn first_lane(&mut self, lanes: &[Reg], ty: DataType) -> Reg {
        let Some(masks) = self.exec.masks.clone() else {
            let first = self.join_reg(lanes[0], ty);
            return self.equal_lanes(first, ty);
        };
        let elem = if ty.bits() == 64 { Elem::B64 } else { Elem::B32 };
        let lanes: Lanes = lanes.iter().map(|reg| self.bits_of(*reg)).collect();
        let found = self.running_lane(elem, &lanes, &masks, false);
        if ty.is_float() { self.b.emit(Op::Splat(found)) } else { found }
    }

    /// A float vector of which only lane 0 counts, in all lanes.
    fn equal_lanes(&mut self, reg: Reg, ty: DataType) -> Reg {
        if !ty.is_float() {
            return reg;
        }
        let first = self.b.emit(Op::Extract(reg, 0));
        self.b.emit(Op::Splat(first))
    }

    /// A mask as 0 and 1 in 32-bit lanes; other vectors as they are.
    fn bits_of(&mut self, reg: Reg) -> Reg {
        if self.b.kind(reg) != Kind::Mask {
            return reg;
        }
        let (one, zero) = (self.b.const_(Kind::V32, 1), self.b.const_(Kind::V32, 0));
        self.b.emit(Op::Select(reg, one, zero))
    }

    /// An address in scratch memory.
    fn scratch_at(&self, offset: u64) -> Address {
        Address { base: self.scratch, index: None, disp: offset as i32 }
    }

    /// Takes scratch memory.
    fn take_scratch(&mut self, bytes: u64) -> u64 {
        let at = self.scratch_bytes;
        self.scratch_bytes = (at + bytes).next_multiple_of(64);
        at
    }

    // Values between runs.

    fn load_slot(&mut self, slot: Slot, ty: DataType) -> Val {
        let mut lanes = Lanes::new();
        for at in 0..self.vectors {
            lanes.push(if ty == DataType::Bool {
                let bits = self.b.emit(Op::LoadS(Elem::B32, self.mask_slot(slot, at)));
                self.b.emit(Op::BitsToMask(bits))
            } else {
                let (elem, from) = self.vector_slot(slot, ty, at);
                self.b.emit(Op::LoadV(elem, from, None))
            });
        }
        Val::Varying(lanes, None)
    }

    fn store_slot(&mut self, slot: Slot, ty: DataType, val: &Val) {
        let lanes = self.spread(val, ty);
        for (at, reg) in lanes.into_iter().enumerate() {
            if ty == DataType::Bool {
                let bits = self.b.emit(Op::MaskToBits(reg));
                let to = self.mask_slot(slot, at);
                self.b.effect(Op::StoreS(Elem::B32, to, bits));
            } else {
                let (elem, to) = self.vector_slot(slot, ty, at);
                self.b.effect(Op::StoreV(elem, to, reg, None));
            }
        }
    }

    fn vector_slot(&self, slot: Slot, ty: DataType, vector: usize) -> (Elem, Address) {
        let elem = if ty.bits() == 64 { Elem::B64 } else { Elem::B32 };
        let disp = slot.offset + vector as u64 * u64::from(self.lanes_per_vector() * elem.bytes());
        let index = self.group.map(|group| (group.base_wide, elem.bytes() as u8));
        (elem, Address { index, ..self.scratch_at(disp) })
    }

    /// A mask takes 4 bytes, where the first lane's word would be.
    fn mask_slot(&self, slot: Slot, vector: usize) -> Address {
        let offset = slot.offset + vector as u64 * u64::from(4 * self.lanes_per_vector());
        let Some(group) = self.group else { return self.scratch_at(offset) };
        Address { index: Some((group.base_wide, 4)), ..self.scratch_at(offset) }
    }

    /// The first lane's value of a workgroup, from its memory.
    fn first_of_slot(&mut self, value: Value, ty: DataType) -> Reg {
        let slot = self.value_slots[value.index()]
            .unwrap_or_else(|| unreachable!("%{} is used where it is not known", value.0));
        let elem = if ty.bits() == 64 { Elem::B64 } else { Elem::B32 };
        let found = self.b.emit(Op::LoadS(elem, self.scratch_at(slot.offset)));
        match ty {
            DataType::Bool => self.b.int_const(IntOp::And, found, 1),
            ty if ty.is_float() => self.b.emit(Op::Splat(found)),
            _ => found,
        }
    }
}

/// The kind of register that a uniform value has.
fn uniform_kind(ty: DataType) -> Kind {
    match ty {
        DataType::F16 | DataType::BF16 | DataType::F32 => Kind::V32,
        DataType::F64 => Kind::V64,
        DataType::U64 | DataType::I64 => Kind::S64,
        DataType::Bool
        | DataType::U8
        | DataType::I8
        | DataType::U16
        | DataType::I16
        | DataType::U32
        | DataType::I32 => Kind::S32,
    }
}

/// The kind of register that a varying value has.
fn varying_kind(ty: DataType) -> Kind {
    match ty {
        DataType::Bool => Kind::Mask,
        ty if ty.bits() == 64 => Kind::V64,
        _ => Kind::V32,
    }
}

/// A literal's bits as registers hold them: floats of 16 bits as the f32 of that value.
fn register_bits(ty: DataType, bits: u64) -> u64 {
    match ty {
        DataType::BF16 => bits << 16,
        DataType::F16 => half_bits(bits as u16).into(),
        DataType::F32 | DataType::F64 | int_or_bool!() => bits,
    }
}

/// The f32 bits of an f16, exactly.
fn half_bits(half: u16) -> u32 {
    let (sign, exponent, fraction) =
        (u32::from(half >> 15) << 31, half >> 10 & 0x1f, u32::from(half & 0x3ff));
    match exponent {
        // Subnormals count in units of 2^-24, a power of two, so the product is exact.
        0 => sign | (fraction as f32 / 16_777_216.0).to_bits(),
        0x1f => sign | 0x7f80_0000 | fraction << 13,
        _ => sign | (u32::from(exponent) + 127 - 15) << 23 | fraction << 13,
    }
}
