//! Who may touch which element of a writable buffer, so that no two lanes race.
//!
//! A buffer is divided among teams (lanes, subgroups, workgroups, or all lanes at once), each with a region of its own.
//! Within a team a pattern says what its lanes may do until the next barrier that orders the team: touch only slots of
//! their own, all read, all update by one kind of result-less atomic, or leave everything to one of them. The division
//! itself changes only at barriers that order everyone who can reach the buffer.

use super::body::{Builder, literal_u32};
use smallvec::smallvec;
use vyre_foundation::ir::{
    AtomicOp, Buffer, BufferId, BufferKind, BuiltinOp, ComputeOp, DataType, Node, Operand,
};

/// Lanes that a barrier can order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Team {
    Lane,
    Subgroup,
    Workgroup,
    Grid,
}

/// How a lane's number in its team becomes the number of its slot; never two lanes to one slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Straight,
    Reversed { lanes: u32 },
    Xor(u32),
    Scaled(u32),
}

/// What the lanes of a team may do with their region until the next barrier.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern {
    /// Everything: the team is one lane, or the others keep away.
    All,
    /// Everything, in slots of their own.
    Own { shape: Shape, stride: u32 },
    /// Read.
    Read,
    /// Update by result-less atomics of this kind.
    Atomic(AtomicOp),
    /// The lane with this number may do everything, the others nothing.
    Single(u32),
}

/// A writable buffer and its state in the current phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) buffer: BufferId,
    pub(super) ty: DataType,
    pub(super) elements: u32,
    /// Whether it is workgroup memory.
    pub(super) shared: bool,
    team: Team,
    /// Elements of a team's region; `None` where one team has the whole buffer.
    region: Option<u32>,
    pub(super) pattern: Pattern,
    /// Lanes keep their own slots for the whole program, so functions may touch it.
    pub(super) pinned: bool,
}

impl Memory {
    /// The team that has all lanes which can reach the buffer.
    const fn everyone(&self) -> Team {
        if self.shared { Team::Workgroup } else { Team::Grid }
    }

    /// Lets every lane read every element; right after a barrier over everyone.
    pub(super) const fn open_for_reading(&mut self) {
        self.team = self.everyone();
        self.region = None;
        self.pattern = Pattern::Read;
    }

    pub(super) const fn can_read(&self) -> bool {
        matches!(self.pattern, Pattern::All | Pattern::Own { .. } | Pattern::Read)
    }

    pub(super) const fn can_write(&self) -> bool {
        matches!(self.pattern, Pattern::All | Pattern::Own { .. })
    }

    /// Whether every lane may read every element.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.pattern, Pattern::Read) && self.region.is_none()
    }
}

/// What a buffer holds at the start: edge data, with some bytes fixed.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    pub(super) elements: u32,
    pub(super) at: usize,
    pub(super) fixed: Vec<u8>,
}

const ATOMIC_KINDS: [AtomicOp; 6] =
    [AtomicOp::Add, AtomicOp::Min, AtomicOp::Max, AtomicOp::And, AtomicOp::Or, AtomicOp::Xor];

impl Builder<'_> {
    /// Declares the program's buffers and tables, for a launch of `workgroups`.
    pub(super) fn declare_buffers(&mut self, workgroups: u32) {
        let lanes_all = self.lanes() * workgroups;
        self.declare_pinned("out", DataType::U32, lanes_all);
        if self.config.wide {
            self.declare_pinned("out_wide", DataType::U64, lanes_all);
        }
        for _ in 0..self.draw.between(1, 4) {
            let elements = self.odd_length(lanes_all);
            let ty = self.stored_type();
            let id = self.declare("input", BufferKind::Read { binding: 0 }, ty, elements);
            self.readable.push(id);
        }
        if self.draw.chance(100) {
            let elements = self.draw.between(1, 5);
            let ty = self.stored_type();
            let id = self.declare("params", BufferKind::Uniform { binding: 0 }, ty, elements);
            self.readable.push(id);
        }
        for _ in 0..self.draw.below(3) {
            self.declare_table();
        }
        for _ in 0..self.draw.between(1, 3) {
            self.declare_storage(lanes_all);
        }
        if self.config.barriers {
            self.declare_workgroup_memory();
        }
    }

    fn declare(&mut self, name: &str, kind: BufferKind, ty: DataType, elements: u32) -> BufferId {
        let id = BufferId(self.parts.buffers.len() as u32);
        // Bindings need not follow the order of declaration; 251 is prime, so they stay different.
        let binding = (id.0 * 7 + 3) % 251;
        let mut len = Some(elements);
        let kind = match kind {
            BufferKind::Uniform { .. } => BufferKind::Uniform { binding },
            BufferKind::Read { .. } => {
                len = self.declared_length(elements);
                BufferKind::Read { binding }
            }
            BufferKind::ReadWrite { output, .. } => {
                len = self.declared_length(elements);
                BufferKind::ReadWrite { binding, output }
            }
            BufferKind::Workgroup | BufferKind::Table { .. } => kind,
        };
        self.parts.buffers.push(Buffer { name: format!("{name}{}", id.0).into(), kind, ty, len });
        self.contents.push(Contents { elements, at: 0, fixed: Vec::new() });
        id
    }

    fn declared_length(&mut self, elements: u32) -> Option<u32> {
        (elements > 0 && self.draw.chance(100)).then_some(elements)
    }

    /// An output in which every lane has one element of its own for good.
    fn declare_pinned(&mut self, name: &str, ty: DataType, elements: u32) {
        let buffer = self.declare(name, BufferKind::ReadWrite { binding: 0, output: true }, ty, elements);
        self.memory.push(Memory {
            buffer,
            ty,
            elements,
            shared: false,
            team: Team::Lane,
            region: Some(1),
            pattern: Pattern::All,
            pinned: true,
        });
    }

    fn declare_table(&mut self) {
        let ty = self.stored_type();
        let data: Vec<u64> =
            (0..self.draw.between(1, 6)).map(|_| crate::edge::literal(&mut self.draw, ty).bits()).collect();
        let elements = data.len() as u32;
        let id = self.declare("table", BufferKind::Table { data }, ty, elements);
        self.readable.push(id);
    }

    fn declare_storage(&mut self, lanes_all: u32) {
        let output = self.draw.chance(200);
        let ty = self.stored_type();
        let slots = self.draw.between(1, 3);
        let elements = self.odd_length(lanes_all * slots);
        let buffer = self.declare("data", BufferKind::ReadWrite { binding: 0, output }, ty, elements);
        self.declare_memory(buffer, ty, elements, false);
    }

    fn declare_workgroup_memory(&mut self) {
        let lanes = self.lanes();
        for _ in 0..self.draw.below(4) {
            let ty = self.stored_type();
            let elements = self.odd_length(lanes * 2).max(1);
            let buffer = self.declare("tile", BufferKind::Workgroup, ty, elements);
            self.declare_memory(buffer, ty, elements, true);
        }
        if self.config.mma && self.draw.chance(64) {
            for (name, ty) in [("a", DataType::I8), ("b", DataType::I8), ("c", DataType::I32)] {
                let elements = self.draw.between(1, 80);
                let buffer = self.declare(name, BufferKind::Workgroup, ty, elements);
                self.declare_memory(buffer, ty, elements, true);
            }
        }
    }

    fn declare_memory(&mut self, buffer: BufferId, ty: DataType, elements: u32, shared: bool) {
        let pattern = Pattern::All;
        let mut memory = Memory {
            buffer,
            ty,
            elements,
            shared,
            team: Team::Lane,
            region: Some(1),
            pattern,
            pinned: false,
        };
        self.divide(&mut memory);
        self.memory.push(memory);
    }

    /// A length near `wanted`, often not a round one.
    fn odd_length(&mut self, wanted: u32) -> u32 {
        match self.draw.below(16) {
            0..=7 => wanted,
            8 | 9 => wanted + 1,
            10 | 11 => wanted.saturating_sub(1).max(1),
            12 => wanted / 2 + 1,
            13 => 3,
            14 => wanted + 13,
            _ => u32::from(!self.draw.chance(64)),
        }
    }

    /// A type that memory can hold.
    pub(super) fn stored_type(&mut self) -> DataType {
        const SMALL: [DataType; 4] = [DataType::U8, DataType::I8, DataType::U16, DataType::I16];
        if self.draw.below(4) == 3 {
            return self.draw.pick(&SMALL);
        }
        match self.any_type() {
            DataType::Bool => DataType::U32,
            ty => ty,
        }
    }

    /// Makes the grid come from a buffer, sometimes. The main body must still be empty.
    pub(super) fn maybe_indirect(&mut self, counts: [u32; 3]) -> bool {
        if !self.config.indirect || !self.draw.chance(16) {
            return false;
        }
        let offset = self.draw.below(3);
        let buffer = self.declare("grid", BufferKind::Read { binding: 0 }, DataType::U32, offset + 3);
        self.readable.push(buffer);
        let nothing = self.draw.chance(20);
        let content = &mut self.contents[buffer.index()];
        content.at = offset as usize * 4;
        content.fixed =
            counts.iter().flat_map(|count| if nothing { [0; 4] } else { count.to_le_bytes() }).collect();
        self.emit(Node::IndirectDispatch { buffer, offset });
        true
    }

    /// Lets every buffer that a barrier over `team` orders take a new pattern.
    pub(super) fn new_phase(&mut self, team: Team) {
        for at in 0..self.memory.len() {
            let mut memory = self.memory[at];
            if memory.pinned {
                continue;
            }
            if team >= memory.everyone() && self.draw.chance(120) {
                self.divide(&mut memory);
            } else if team >= memory.team && memory.team != Team::Lane {
                self.choose_pattern(&mut memory);
            }
            self.memory[at] = memory;
        }
    }

    /// Divides a buffer among teams again.
    fn divide(&mut self, memory: &mut Memory) {
        let subgroup = u32::from(self.parts.subgroup.is_some());
        let sync = u32::from(self.config.barriers);
        let grid = u32::from(!memory.shared && self.config.grid_barriers);
        let everyone = memory.everyone();
        let teams = [
            (Team::Lane, 2),
            (Team::Subgroup, subgroup * sync),
            (Team::Workgroup, 3 * sync),
            (Team::Grid, 3 * grid),
        ];
        memory.team = self.draw.weighted(&teams).unwrap_or(Team::Lane);
        let stride = self.draw.pick(&[1, 1, 2, 3]);
        memory.region = match memory.team {
            team if team == everyone => None,
            Team::Lane => Some(stride),
            Team::Subgroup | Team::Workgroup | Team::Grid => {
                Some(self.team_lanes(memory.team).next_power_of_two() * stride)
            }
        };
        self.choose_pattern(memory);
    }

    fn choose_pattern(&mut self, memory: &mut Memory) {
        if memory.team == Team::Lane {
            memory.pattern = Pattern::All;
            return;
        }
        let was_written = !matches!(memory.pattern, Pattern::Read);
        let atomic = u32::from(self.config.atomics && is_atomic_type(memory.ty));
        let choices = [
            (Pattern::Own { shape: Shape::Straight, stride: 1 }, if was_written { 1 } else { 5 }),
            (Pattern::Read, if was_written { 6 } else { 1 }),
            (Pattern::Atomic(AtomicOp::Add), 3 * atomic),
            (Pattern::Single(0), u32::from(self.config.control)),
        ];
        memory.pattern = self.draw.weighted(&choices).unwrap_or(Pattern::Read);
        match &mut memory.pattern {
            Pattern::Own { shape, stride } => {
                let lanes = self.team_lanes(memory.team);
                let stride_max = memory.region.map_or(2, |region| region / lanes.next_power_of_two());
                *stride = self.draw.between(1, stride_max.max(1));
                *shape = self.choose_shape(memory.team, memory.region.is_none());
            }
            Pattern::Atomic(kind) => {
                *kind = self.draw.pick(&ATOMIC_KINDS);
                let bounds = matches!(*kind, AtomicOp::Min | AtomicOp::Max);
                if bounds && memory.ty.bits() == 64 && !self.config.atomic_min_max_64 {
                    *kind = AtomicOp::Add;
                }
            }
            Pattern::Single(lane) => *lane = self.draw.below(self.team_lanes(memory.team)),
            Pattern::All | Pattern::Read => {}
        }
    }

    fn choose_shape(&mut self, team: Team, unbounded: bool) -> Shape {
        let lanes = self.team_lanes(team);
        match self.draw.below(4) {
            1 if team != Team::Grid => Shape::Reversed { lanes },
            2 => Shape::Xor(self.draw.below(lanes.next_power_of_two())),
            3 if unbounded => Shape::Scaled(self.draw.pick(&[3, 5])),
            _ => Shape::Straight,
        }
    }

    /// Lanes of a team; a grid's depend on the launch, and a workgroup's are used where only the scale matters.
    fn team_lanes(&self, team: Team) -> u32 {
        match team {
            Team::Lane => 1,
            Team::Subgroup => self.parts.subgroup.unwrap_or(1),
            Team::Workgroup | Team::Grid => self.lanes(),
        }
    }

    /// The index of an element that the pattern of buffer `at` lets this lane touch.
    pub(super) fn element(&mut self, at: usize) -> Operand {
        let memory = self.memory[at];
        let index = match memory.pattern {
            Pattern::Own { shape, stride } => self.own_slot(&memory, shape, stride),
            Pattern::All | Pattern::Read | Pattern::Atomic(_) | Pattern::Single(_) => {
                self.anywhere(&memory, 0)
            }
        };
        if self.draw.chance(10) {
            // No buffer is so long: out of bounds on purpose, and no other lane's element.
            return self.index_op(ComputeOp::Or, index, 0x8000_0000);
        }
        index
    }

    /// The index of any element of this lane's region, with `extra` more elements after it.
    fn anywhere(&mut self, memory: &Memory, extra: u32) -> Operand {
        let Some(region) = memory.region else { return self.free_index(memory.elements) };
        let room = region - extra;
        let base = self.team_number(memory);
        let base = if region == 1 { base } else { self.index_op(ComputeOp::Mul, base, region) };
        if room == 1 {
            return base;
        }
        if self.draw.below(2) == 0 {
            let offset = self.draw.below(room);
            return self.index_op(ComputeOp::Add, base, offset);
        }
        let free = self.operand(DataType::U32);
        let offset = self.index_op(ComputeOp::Rem, free, room);
        self.compute(ComputeOp::Add, DataType::U32, smallvec![base, offset]).into()
    }

    /// The index of four bytes that this lane may read; `None` if the pattern does not allow it.
    pub(super) fn four_bytes(&mut self, at: usize) -> Option<Operand> {
        let memory = self.memory[at];
        if memory.is_open() {
            return Some(self.free_index(memory.elements));
        }
        let fits = memory.region.is_some_and(|region| region >= 4);
        let whole = matches!(memory.pattern, Pattern::All | Pattern::Read);
        (fits && whole).then(|| self.anywhere(&memory, 3))
    }

    fn own_slot(&mut self, memory: &Memory, shape: Shape, stride: u32) -> Operand {
        let member = match memory.team {
            Team::Lane | Team::Grid => self.id(BuiltinOp::GlobalIndex),
            Team::Subgroup => self.id(BuiltinOp::SubgroupLane),
            Team::Workgroup => self.id(BuiltinOp::LocalIndex),
        };
        let slot = match shape {
            Shape::Straight => member,
            Shape::Reversed { lanes } => {
                self.compute(ComputeOp::Sub, DataType::U32, smallvec![literal_u32(lanes - 1), member]).into()
            }
            Shape::Xor(mask) => self.index_op(ComputeOp::Xor, member, mask),
            Shape::Scaled(factor) => self.index_op(ComputeOp::Mul, member, factor),
        };
        let mut index = slot;
        if stride > 1 {
            index = self.index_op(ComputeOp::Mul, index, stride);
            let offset = self.draw.below(stride);
            index = self.index_op(ComputeOp::Add, index, offset);
        }
        let Some(region) = memory.region else { return index };
        let team = self.team_number(memory);
        let base = self.index_op(ComputeOp::Mul, team, region);
        self.compute(ComputeOp::Add, DataType::U32, smallvec![base, index]).into()
    }

    /// The number of this lane's team among the teams that share the buffer.
    fn team_number(&mut self, memory: &Memory) -> Operand {
        match (memory.team, memory.shared) {
            (Team::Lane, true) => self.id(BuiltinOp::LocalIndex),
            (Team::Lane, false) => self.id(BuiltinOp::GlobalIndex),
            (Team::Subgroup, true) => self.id(BuiltinOp::SubgroupIndex),
            (Team::Subgroup, false) => {
                let subgroups = self.lanes() / self.team_lanes(Team::Subgroup);
                let workgroup = self.id(BuiltinOp::WorkgroupIndex);
                let first = self.index_op(ComputeOp::Mul, workgroup, subgroups);
                let subgroup = self.id(BuiltinOp::SubgroupIndex);
                self.compute(ComputeOp::Add, DataType::U32, smallvec![first, subgroup]).into()
            }
            (Team::Workgroup | Team::Grid, _) => self.id(BuiltinOp::WorkgroupIndex),
        }
    }

    /// This lane's number in the team of buffer `at`.
    pub(super) fn member(&mut self, at: usize) -> Operand {
        match self.memory[at].team {
            Team::Lane => literal_u32(0),
            Team::Subgroup => self.id(BuiltinOp::SubgroupLane),
            Team::Workgroup => self.id(BuiltinOp::LocalIndex),
            Team::Grid => self.id(BuiltinOp::GlobalIndex),
        }
    }

    /// Any index at all: mostly in bounds of `elements`, sometimes far outside.
    pub(super) fn free_index(&mut self, elements: u32) -> Operand {
        match self.draw.below(8) {
            0 | 1 => literal_u32(self.draw.below(elements.saturating_add(2))),
            2..=5 => {
                let free = self.operand(DataType::U32);
                self.index_op(ComputeOp::Rem, free, elements)
            }
            6 => self.operand(DataType::U32),
            _ => literal_u32(self.draw.pick(&[elements, u32::MAX, u32::MAX - 2, 0x8000_0000])),
        }
    }
}

/// Whether atomics take this element type.
pub(super) fn is_atomic_type(ty: DataType) -> bool {
    AtomicOp::Add.info().types.contains(ty)
}
