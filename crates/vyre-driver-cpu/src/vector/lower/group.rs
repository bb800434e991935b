//! Workgroups, and the lines that their lanes take together.

use super::memory::BufferRegs;
use super::plan::{self, Plan};
use super::{Array, Bases, Exec, Group, Lanes, Linear, Loop, Lower, Slot, Val, Var, context};
use crate::vector::build::Builder;
use crate::vector::code::{Address, Elem, Function, IntCond, IntOp, Kind, Num, Op, Reg, ShiftOp};
use vyre_foundation::ir::{Axis, BufferId, BuiltinOp, ComputeOp, DataType, Local, Node, walk};
use vyre_foundation::validate::uniformity::Level;

/// The workgroup at hand and the grid.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Workgroups along each axis, `S32`.
    grid: [Reg; 3],
    /// The workgroup's place along each axis, `S32`.
    workgroup: [Reg; 3],
    /// The workgroup's number, `S32`.
    index: Reg,
}

/// Bytes of a buffer that no cache is likely to hold.
const STREAM_BYTES_MIN: u64 = 32 << 20;
/// Values of the whole grid that are kept from the start; more would only wait in memory.
const GRID_VALUES_MAX: u32 = 64;

/// Lowers a program.
pub(super) fn lower(plan: &Plan<'_>, lanes: u32, vectors: u32) -> Result<Function, String> {
    let (builder, [context, scratch, first, end]) = Builder::new(lanes);
    let (values, locals) = (plan.types.len(), plan.locals.len());
    let nothing = Place { grid: [context; 3], workgroup: [context; 3], index: context };
    let mut lower = Lower {
        b: builder,
        plan,
        vectors: vectors as usize,
        context,
        scratch,
        scratch_bytes: 0,
        buffers: Vec::new(),
        place: nothing,
        values: vec![None; values],
        locals: vec![None; locals],
        local_versions: vec![0; locals],
        value_slots: vec![None; values],
        local_slots: vec![None; locals],
        arrays: vec![None; locals],
        trail: Vec::with_capacity(values + locals),
        group: None,
        exec: Exec { masks: None, version: 0 },
        versions: 0,
        continued: Lanes::new(),
        loops: Vec::new(),
        decided: Vec::new(),
        dirty: Vec::new(),
        copies: 0,
        assumed: Vec::new(),
        speculative: false,
        site: 0,
        exchange: 0,
    };
    lower.check()?;
    let workgroup_bytes = lower.lay_out();
    lower.prologue();
    lower.workgroups(first, end, workgroup_bytes);
    let scratch_bytes = lower.scratch_bytes;
    Ok(lower.b.finish(scratch_bytes))
}

impl<'a> Lower<'a> {
    /// Refuses grid barriers, which split a program before.
    fn check(&self) -> Result<(), String> {
        let mut is_grid_wide = false;
        walk(&self.plan.parts.body.block, |_, _, node| is_grid_wide |= node.op().is_grid_wide());
        if is_grid_wide { Err("grid barriers".to_owned()) } else { Ok(()) }
    }

    /// Groups of lanes of a workgroup.
    fn groups(&self) -> u64 {
        self.plan.parts.workgroup_lanes().div_ceil(self.stride().into())
    }

    /// Lays out scratch memory; the bytes of workgroup memory that starts at zero, which comes first.
    fn lay_out(&mut self) -> u64 {
        let zero = self.b.const_(Kind::S64, 0);
        let regs =
            BufferRegs { base: zero, len: zero, whole: zero, whole_vector: zero, stream: None, offset: None };
        let parts = self.plan.parts;
        self.buffers = vec![regs; parts.buffers.len()];
        let mut workgroup_bytes = 0;
        for cleared in [true, false] {
            for (id, buffer) in (0..).map(BufferId).zip(&parts.buffers) {
                if plan::is_workgroup(&buffer.kind) && self.plan.is_written_first(id) != cleared {
                    let bytes = u64::from(buffer.len.unwrap_or(0)) * buffer.ty.bytes() as u64;
                    self.buffers[id.index()].offset = Some(self.take_scratch(bytes));
                }
            }
            if cleared {
                workgroup_bytes = self.scratch_bytes;
            }
        }
        let padded = self.groups() * u64::from(self.stride());
        for (at, ty) in self.plan.types.iter().enumerate() {
            if self.plan.crosses[at] {
                let offset = self.take_scratch(padded * if ty.bits() == 64 { 8 } else { 4 });
                self.value_slots[at] = Some(Slot { offset });
            }
        }
        for (at, info) in self.plan.locals.iter().enumerate() {
            let bytes = if info.ty.bits() == 64 { 8 } else { 4 };
            match info.len {
                None if info.crosses => {
                    let offset = self.take_scratch(padded * bytes);
                    self.local_slots[at] = Some(Slot { offset });
                }
                None => {}
                Some(len) => {
                    let one = u64::from(len) * u64::from(self.stride()) * bytes;
                    let group_bytes = if info.crosses { one } else { 0 };
                    let all = if info.crosses { one * self.groups() } else { one };
                    self.arrays[at] = Some(Array { offset: self.take_scratch(all), group_bytes });
                }
            }
        }
        self.exchange = self.take_scratch(4 * 8 * u64::from(self.stride()));
        workgroup_bytes
    }

    /// What is the same for the whole grid: buffers, sizes, and what is computed from them alone.
    fn prologue(&mut self) {
        let at = |disp| Address { base: self.context, index: None, disp };
        let (grid_at, buffer_at) = ([0, 1, 2].map(|axis| at(context::GRID + 4 * axis)), at(context::BUFFERS));
        self.place.grid = grid_at.map(|from| self.b.emit(Op::LoadS(Elem::B32, from)));
        for (id, written_only) in self.plan.written_only().into_iter().enumerate() {
            let regs = match self.buffers[id].offset {
                Some(offset) => {
                    let base = self.b.int_const(IntOp::Add, self.scratch, offset);
                    let len = self.plan.parts.buffers[id].len.unwrap_or(0);
                    BufferRegs { base, len: self.b.const_(Kind::S32, len.into()), ..self.buffers[id] }
                }
                None => {
                    let disp = buffer_at.disp + context::BUFFER_BYTES * id as i32;
                    let base = self.b.emit(Op::LoadS(Elem::B64, Address { disp, ..buffer_at }));
                    let len = match self.plan.parts.buffers[id].len {
                        // Admission has seen to it.
                        Some(len) => self.b.const_(Kind::S32, len.into()),
                        None => self.b.emit(Op::LoadS(Elem::B32, Address { disp: disp + 8, ..buffer_at })),
                    };
                    BufferRegs { base, len, ..self.buffers[id] }
                }
            };
            // A whole group of lanes fits from index i on if i is below this.
            let reach = self.b.const_(Kind::S32, u64::from(self.stride()) - 1);
            let more = self.b.int(IntOp::MaxU, regs.len, reach);
            let whole = self.b.int(IntOp::Sub, more, reach);
            let reach = self.b.const_(Kind::S32, u64::from(self.b.lanes()) - 1);
            let more = self.b.int(IntOp::MaxU, regs.len, reach);
            let whole_vector = self.b.int(IntOp::Sub, more, reach);
            let stream = written_only.then(|| self.streams(id, regs));
            self.buffers[id] = BufferRegs { whole, whole_vector, stream, ..regs };
        }
        // Every op has an answer for all operands and loads are checked, so lines under conditions may run too.
        let mut left = GRID_VALUES_MAX;
        self.speculative = true;
        let plan = self.plan;
        walk(&plan.parts.body.block, |site, _, node| {
            if left > 0 && self.is_grid_value(node) {
                self.set_site(site);
                self.uniform_line(node);
                left -= 1;
            }
        });
        self.speculative = false;
    }

    /// Whether a buffer is larger than caches and aligned to vectors.
    fn streams(&mut self, id: usize, regs: BufferRegs) -> Reg {
        let size = self.plan.parts.buffers[id].ty.bytes() as u64;
        let least = self.b.const_(Kind::S32, STREAM_BYTES_MIN / size);
        let large = self.b.cmp(IntCond::LeU, least, regs.len);
        let (low, zero) = (self.b.int_const(IntOp::And, regs.base, 63), self.b.const_(Kind::S64, 0));
        let aligned = self.b.cmp(IntCond::Eq, low, zero);
        self.b.int(IntOp::And, large, aligned)
    }

    /// Whether the line can be computed once for the grid, before any workgroup.
    fn is_grid_value(&self, node: &Node) -> bool {
        let Some(result) = node.result() else { return false };
        let pure = match node {
            Node::Compute { .. } | Node::Builtin { .. } | Node::Len { .. } => true,
            Node::Load { buffer, .. } => self.plan.is_constant(*buffer),
            _ => false,
        };
        pure && self.plan.uniform[result.index()]
            && self.plan.levels.value(result) == Level::Grid
            && self.knows_operands(node)
    }

    fn knows_operands(&self, node: &Node) -> bool {
        let mut known = true;
        node.for_each_operand(|operand| {
            known &= operand.value().is_none_or(|value| self.values[value.index()].is_some());
        });
        known
    }

    /// The loop over workgroups.
    fn workgroups(&mut self, first: Reg, end: Reg, workgroup_bytes: u64) {
        let [x, y, _] = self.place.grid;
        let start = self.b.convert(Num::U64, Num::U32, first);
        let (row, in_row) = (self.b.int(IntOp::DivU, start, x), self.b.int(IntOp::RemU, start, x));
        let (plane, in_plane) = (self.b.int(IntOp::DivU, row, y), self.b.int(IntOp::RemU, row, y));
        let (enter, head, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let some = self.b.cmp(IntCond::LtU, first, end);
        self.b.branch(some, enter, done);
        self.b.begin(enter);
        self.b.jump(head, &[first, in_row, in_plane, plane]);
        self.b.begin(head);
        let number = self.b.param(Kind::S64);
        let place = [(); 3].map(|()| self.b.param(Kind::S32));
        self.poll();
        self.place.index = self.b.convert(Num::U64, Num::U32, number);
        self.place.workgroup = place;
        self.clear(workgroup_bytes);
        let plan = self.plan;
        let mark = self.mark();
        self.group_block(&plan.parts.body.block, 0);
        self.back_to(mark);
        let next = self.b.int_const(IntOp::Add, number, 1);
        let (one, zero) = (self.b.const_(Kind::S32, 1), self.b.const_(Kind::S32, 0));
        let step = |this: &mut Self, count: Reg, limit: Reg, by: Reg| {
            let sum = this.b.int(IntOp::Add, count, by);
            let wraps = this.b.cmp(IntCond::Eq, sum, limit);
            (this.b.emit(Op::Select(wraps, zero, sum)), wraps)
        };
        let (next_x, carry) = step(self, place[0], x, one);
        let (next_y, carry) = step(self, place[1], y, carry);
        let next_z = self.b.int(IntOp::Add, place[2], carry);
        let (again, exit) = (self.b.new_block(), self.b.new_block());
        let more = self.b.cmp(IntCond::LtU, next, end);
        self.b.branch(more, again, exit);
        self.b.begin(again);
        self.b.jump(head, &[next, next_x, next_y, next_z]);
        self.b.begin(exit);
        self.b.ret();
        self.b.begin(done);
        self.b.ret();
    }

    /// Returns if the launch is to stop.
    pub(super) fn poll(&mut self) {
        let stop = self.b.emit(Op::Poll(Address { base: self.context, index: None, disp: context::STOP }));
        let (leave, stay, known) = (self.b.new_block(), self.b.new_block(), self.b.known());
        self.b.branch(stop, leave, stay);
        self.b.begin_behind(leave, known);
        self.b.set_cold();
        self.b.ret();
        self.b.begin_behind(stay, known);
    }

    /// Zeros the first `bytes` of scratch memory, a multiple of 64.
    fn clear(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let vector = u64::from(self.b.lanes() * 4);
        let at_once = (vector * 4).max(64).min(bytes.next_multiple_of(vector));
        let (head, again, exit) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let start = self.b.const_(Kind::S64, 0);
        self.b.jump(head, &[start]);
        self.b.begin(head);
        let at = self.b.param(Kind::S64);
        let zero = self.b.const_(Kind::V32, 0);
        for disp in (0..at_once).step_by(vector as usize) {
            let to = Address { base: self.scratch, index: Some((at, 1)), disp: disp as i32 };
            self.b.effect(Op::StoreV(Elem::B32, to, zero, None));
        }
        let next = self.b.int_const(IntOp::Add, at, at_once);
        let limit = self.b.const_(Kind::S64, bytes);
        let more = self.b.cmp(IntCond::LtU, next, limit);
        self.b.branch(more, again, exit);
        self.b.begin(again);
        self.b.jump(head, &[next]);
        self.b.begin(exit);
        // The last step may go past the end, into what needs no value yet.
        self.scratch_bytes = self.scratch_bytes.max(bytes.next_multiple_of(at_once));
    }

    /// The lines of a block that all lanes of the workgroup take.
    fn group_block(&mut self, block: &'a [Node], first: u32) {
        let (mut at, mut site) = (0, first);
        while at < block.len() {
            let info = self.plan.lines[site as usize];
            if info.at_group {
                self.set_site(site);
                self.group_line(&block[at], site);
                if !self.b.is_open() {
                    return;
                }
                (at, site) = (at + 1, site + info.size);
                continue;
            }
            let (start, start_site) = (at, site);
            while at < block.len() && !self.plan.lines[site as usize].at_group {
                (at, site) = (at + 1, site + self.plan.lines[site as usize].size);
            }
            self.run(&block[start..at], start_site);
        }
    }

    fn group_line(&mut self, node: &'a Node, site: u32) {
        match node {
            Node::If { cond, then, otherwise } => {
                let cond = self.scalar(*cond);
                let vars = self.assigned(&[then, otherwise], true);
                let else_site = self.plan.lines[site as usize].else_site;
                self.fork(
                    cond,
                    &vars,
                    |this| this.group_block(then, site + 1),
                    |this| this.group_block(otherwise, else_site),
                );
            }
            Node::For { counter, lo, hi, step, body } => {
                let (lo, hi) = (self.scalar(*lo), self.scalar(*hi));
                let vars = self.assigned(&[body], true);
                let looped = super::lane::Counted { counter: *counter, lo, hi, step: *step, site };
                self.loop_together(looped, &vars, |this| this.group_block(body, site + 1));
            }
            Node::Break => self.leave_together(false),
            Node::Continue => self.leave_together(true),
            Node::Barrier { .. } => {}
            Node::UniformLoad { .. } => self.uniform_line(node),
            Node::Mma { m, n, k, c, a, b } => self.mma([*m, *n, *k], [c, a, b]),
            other => unreachable!("{other:?} is no line of a workgroup"),
        }
    }

    /// One loop over the workgroup's lanes. Lines that are the same for all lanes run before it, where the others do not
    /// come between.
    fn run(&mut self, nodes: &'a [Node], first: u32) {
        let mut rest = Vec::new();
        let (mut read, mut written): (Vec<Local>, Vec<Local>) = (Vec::new(), Vec::new());
        let mut site = first;
        for node in nodes {
            let size = self.plan.lines[site as usize].size;
            let known = node.result().is_some_and(|result| self.values[result.index()].is_some());
            if known {
                site += size;
                continue;
            }
            let clash = node.local().is_some_and(|local| {
                let sets = !matches!(node, Node::Get { .. });
                written.contains(&local) || sets && read.contains(&local)
            });
            if self.groups() > 1 && !clash && self.is_uniform_line(node) {
                self.set_site(site);
                self.uniform_line(node);
            } else {
                rest.push((node, site));
                each_line(std::slice::from_ref(node), |inner| match inner {
                    Node::Get { local, .. } => read.push(*local),
                    Node::Set { local, .. } | Node::Var { local, .. } => {
                        read.push(*local);
                        written.push(*local);
                    }
                    _ => {}
                });
            }
            site += size;
        }
        let needed = rest.iter().any(|(node, _)| !matches!(node, Node::IndirectDispatch { .. }));
        if needed {
            self.lane_loop(&rest);
        }
    }

    /// Whether a line touches nothing that differs between lanes, and its operands are known.
    fn is_uniform_line(&self, node: &Node) -> bool {
        let uniform = match node {
            Node::Compute { result, .. } | Node::Builtin { result, .. } | Node::Len { result, .. } => {
                self.plan.uniform[result.index()]
            }
            Node::Load { result, buffer, .. } => {
                self.plan.is_constant(*buffer) && self.plan.uniform[result.index()]
            }
            Node::Get { local, index: None, .. } => {
                self.plan.locals[local.index()].uniform && self.locals[local.index()].is_some()
            }
            Node::Set { local, index: None, .. } | Node::Var { local, len: None, .. } => {
                self.plan.locals[local.index()].uniform
            }
            _ => false,
        };
        uniform && self.knows_operands(node)
    }

    fn lane_loop(&mut self, lines: &[(&'a Node, u32)]) {
        let total = self.plan.parts.workgroup_lanes() as u32;
        let vectors = self.vectors;
        let bound = if self.groups() > 1 { self.bound(lines) } else { None };
        if bound.is_some() {
            // Half the lanes, then a quarter: many in flight would mostly be off.
            self.vectors = 1;
        }
        let stride = self.stride();
        let blocks =
            (self.groups() > 1).then(|| (self.b.new_block(), self.b.new_block(), self.b.new_block()));
        let (zero, mut limit) = (self.b.const_(Kind::S32, 0), self.b.const_(Kind::S32, total.into()));
        let (mut base, known) = (zero, self.b.known());
        if let Some((head, _, exit)) = blocks {
            if let Some(bound) = bound {
                limit = self.b.int(IntOp::MinU, bound, limit);
                let (enter, skip) = (self.b.new_block(), self.b.new_block());
                self.b.branch(limit, enter, skip);
                self.b.begin_behind(skip, known);
                self.b.jump(exit, &[]);
                self.b.begin_behind(enter, known);
            }
            self.b.jump(head, &[zero]);
            self.b.begin_behind(head, known);
            base = self.b.param(Kind::S32);
        }
        let base_wide = self.b.convert(Num::U32, Num::U64, base);
        self.group = Some(Group { base, base_wide });
        self.versions += 1;
        self.exec = Exec { masks: None, version: self.versions };
        if !total.is_multiple_of(stride) {
            self.exec.masks = Some(self.tail(base, total));
        }
        let mark = self.mark();
        self.dirty.clear();
        for (node, site) in lines {
            self.lane_line(node, *site);
        }
        for local in std::mem::take(&mut self.dirty) {
            if let (Some(slot), Some(val)) =
                (self.local_slots[local.index()], self.locals[local.index()].clone())
            {
                self.store_slot(slot, self.plan.locals[local.index()].ty, &val);
            }
        }
        self.group = None;
        self.exec = Exec { masks: None, version: 0 };
        if let Some((head, again, exit)) = blocks {
            match bound {
                // Perhaps no lane has run.
                Some(_) => self.back_to(mark),
                None => self.forget_varying(mark),
            }
            let next = self.b.int_const(IntOp::Add, base, stride.into());
            let more = self.b.cmp(IntCond::LtU, next, limit);
            let last = if bound.is_some() { self.b.new_block() } else { exit };
            self.b.branch(more, again, last);
            self.b.begin(again);
            self.b.jump(head, &[next]);
            if bound.is_some() {
                self.b.begin(last);
                self.b.jump(exit, &[]);
            }
            self.b.begin_behind(exit, known);
        }
        self.vectors = vectors;
    }

    /// How many lanes, from the first on, do anything in a run, an `S32`: the run is `if l < n` or `if l == n` with `l` the
    /// lane and `n` the same for all.
    fn bound(&mut self, lines: &[(&'a Node, u32)]) -> Option<Reg> {
        let cheap = |node: &Node| node.result().is_some_and(|result| self.plan.again[result.index()]);
        let mut others = lines.iter().filter(|(node, _)| !cheap(node));
        let (Some((Node::If { cond, then, otherwise }, _)), None) = (others.next(), others.next()) else {
            return None;
        };
        // What is laid out by all lanes in flight needs all of them.
        let mut alone = otherwise.is_empty();
        each_line(then, |node| {
            alone &= !matches!(node, Node::Subgroup { .. } | Node::Mma { .. });
            alone &= node.local().is_none_or(|local| self.plan.locals[local.index()].len.is_none());
        });
        let Node::Compute { op, ty: DataType::U32, args, .. } = self.plan.defs[cond.value()?.index()]? else {
            return None;
        };
        let (lane, limit) = match op {
            ComputeOp::Lt | ComputeOp::Eq => (args[0], args[1]),
            ComputeOp::Gt => (args[1], args[0]),
            _ => return None,
        };
        let known = limit.value().is_none_or(|value| self.values[value.index()].is_some());
        if !alone || !known || !self.plan.is_lane(lane) || !self.plan.is_uniform(limit) {
            return None;
        }
        let limit = self.scalar(limit);
        Some(if *op == ComputeOp::Eq { self.b.int_const(IntOp::Add, limit, 1) } else { limit })
    }

    /// The lanes of this group that exist.
    fn tail(&mut self, base: Reg, total: u32) -> Lanes {
        let total = self.b.const_(Kind::S32, total.into());
        let left = self.b.int(IntOp::Sub, total, base);
        (0..self.vectors as u32)
            .map(|vector| {
                let before = self.b.const_(Kind::S32, u64::from(vector * self.b.lanes()));
                let more = self.b.int(IntOp::MaxU, left, before);
                let here = self.b.int(IntOp::Sub, more, before);
                self.b.emit(Op::MaskFirst(here))
            })
            .collect()
    }

    // Places.

    /// Where lanes are.
    pub(super) fn builtin(&mut self, op: BuiltinOp, axis: Option<Axis>) -> Val {
        let axis = axis.map_or(0, Axis::index);
        let sizes = self.plan.parts.workgroup;
        let width = u64::from(self.plan.parts.subgroup.unwrap_or(1));
        match op {
            BuiltinOp::NumWorkgroups => Val::Uniform(self.place.grid[axis]),
            BuiltinOp::WorkgroupSize => Val::Uniform(self.b.const_(Kind::S32, sizes[axis].into())),
            BuiltinOp::WorkgroupId => Val::Uniform(self.place.workgroup[axis]),
            BuiltinOp::WorkgroupIndex => Val::Uniform(self.place.index),
            BuiltinOp::LocalIndex => self.local_index(),
            BuiltinOp::LocalId => self.local_id(axis),
            BuiltinOp::GlobalId => self.global_id(axis),
            BuiltinOp::GlobalIndex => {
                let [x, y, z] = [0, 1, 2].map(|axis| self.global_id(axis));
                let [wide, high] = [0, 1]
                    .map(|axis| self.b.int_const(IntOp::Mul, self.place.grid[axis], sizes[axis].into()));
                let planes = self.times(z, high);
                let rows = self.plus(y, planes);
                let rows = self.times(rows, wide);
                self.plus(x, rows)
            }
            BuiltinOp::SubgroupLane if width == 1 => Val::Uniform(self.b.const_(Kind::S32, 0)),
            BuiltinOp::SubgroupIndex if width == self.plan.parts.workgroup_lanes() => {
                Val::Uniform(self.b.const_(Kind::S32, 0))
            }
            BuiltinOp::SubgroupLane if u64::from(self.lanes_per_vector()) <= width => {
                let bases = self.vector_starts(|this, start| this.b.int_const(IntOp::And, start, width - 1));
                self.linear(Linear { bases, stride: 1 })
            }
            BuiltinOp::SubgroupIndex if u64::from(self.lanes_per_vector()) <= width => {
                let shift = width.trailing_zeros();
                let bases = self.vector_starts(|this, start| this.b.shift_const(ShiftOp::ShrU, start, shift));
                self.linear(Linear { bases, stride: 0 })
            }
            BuiltinOp::SubgroupLane => {
                let index = self.local_index();
                self.map_place(index, |this, reg| this.b.int_const(IntOp::And, reg, width - 1))
            }
            BuiltinOp::SubgroupIndex => {
                let index = self.local_index();
                let shift = width.trailing_zeros();
                self.map_place(index, |this, reg| this.b.shift_const(ShiftOp::ShrU, reg, shift))
            }
        }
    }

    fn global_id(&mut self, axis: usize) -> Val {
        let size = self.plan.parts.workgroup[axis];
        let start = self.b.int_const(IntOp::Mul, self.place.workgroup[axis], size.into());
        let local = self.local_id(axis);
        self.plus(local, Val::Uniform(start))
    }

    fn local_index(&mut self) -> Val {
        match self.group {
            // A workgroup of one lane.
            None => Val::Uniform(self.b.const_(Kind::S32, 0)),
            Some(_) if self.plan.parts.workgroup_lanes() == 1 => Val::Uniform(self.b.const_(Kind::S32, 0)),
            Some(group) => self.linear(Linear { bases: Bases::Row(group.base), stride: 1 }),
        }
    }

    fn local_id(&mut self, axis: usize) -> Val {
        let [x, y, z] = self.plan.parts.workgroup;
        let (size, before) = [(x, 1), (y, x), (z, x * y)][axis];
        if size == 1 {
            return Val::Uniform(self.b.const_(Kind::S32, 0));
        }
        let index = self.local_index();
        let (Some(group), true) = (self.group, u64::from(size) < self.plan.parts.workgroup_lanes()) else {
            return index;
        };
        // The last axis of the workgroup needs no remainder.
        let last = u64::from(size) * u64::from(before) == self.plan.parts.workgroup_lanes();
        let place = |this: &mut Self, reg: Reg| {
            let over = this.b.int_const(IntOp::DivU, reg, before.into());
            if last { over } else { this.b.int_const(IntOp::RemU, over, size.into()) }
        };
        let (all, one) = (self.stride(), self.lanes_per_vector());
        // Within a row of lanes x grows and the others stay; a vector, or all of them, may lie in one.
        let grows = u32::from(before == 1);
        let within =
            |lanes: u32| if before == 1 { size.is_multiple_of(lanes) } else { before.is_multiple_of(lanes) };
        if within(all) {
            let base = place(self, group.base);
            return self.linear(Linear { bases: Bases::Row(base), stride: grows });
        }
        if within(one) && all.is_multiple_of(if before == 1 { size } else { before }) {
            // The lanes in flight are whole rows: places differ by constants, and vectors of one row share theirs.
            let over = self.b.int_const(IntOp::DivU, group.base, before.into());
            let bases = (0..self.vectors as u32).map(|vector| match before {
                1 => self.b.const_(Kind::S32, u64::from(vector * one % size)),
                _ => {
                    let here = self.b.int_const(IntOp::Add, over, u64::from(vector * one / before));
                    if last { here } else { self.b.int_const(IntOp::RemU, here, size.into()) }
                }
            });
            let bases = Bases::Each(bases.collect());
            return self.linear(Linear { bases, stride: grows });
        }
        if within(one) {
            let starts = self.bases(&Linear { bases: Bases::Row(group.base), stride: 1 });
            let bases = starts.into_iter().map(|start| place(self, start)).collect();
            return self.linear(Linear { bases: Bases::Each(bases), stride: grows });
        }
        self.map_place(index, place)
    }

    /// What is computed from the first lane of each vector; one for all where a subgroup is all lanes in flight.
    fn vector_starts(&mut self, f: impl Fn(&mut Self, Reg) -> Reg) -> Bases {
        let base = self.group.map_or_else(|| self.b.const_(Kind::S32, 0), |group| group.base);
        if self.plan.parts.subgroup == Some(self.stride()) {
            return Bases::Row(f(self, base));
        }
        let starts = self.bases(&Linear { bases: Bases::Row(base), stride: 1 });
        Bases::Each(starts.into_iter().map(|start| f(self, start)).collect())
    }

    fn map_place(&mut self, val: Val, f: impl Fn(&mut Self, Reg) -> Reg) -> Val {
        match val {
            Val::Uniform(reg) => Val::Uniform(f(self, reg)),
            Val::Varying(lanes, _) => Val::Varying(lanes.into_iter().map(|reg| f(self, reg)).collect(), None),
        }
    }

    fn times(&mut self, val: Val, by: Reg) -> Val {
        self.combine(IntOp::Mul, val, Val::Uniform(by))
    }

    pub(super) fn plus(&mut self, a: Val, b: Val) -> Val {
        self.combine(IntOp::Add, a, b)
    }

    /// The sum or product of two places: a line where that is one.
    fn combine(&mut self, op: IntOp, a: Val, b: Val) -> Val {
        if let (Val::Uniform(a), Val::Uniform(b)) = (&a, &b) {
            return Val::Uniform(self.b.int(op, *a, *b));
        }
        let line = |val: &Val| match val {
            Val::Uniform(reg) => Some(Linear { bases: Bases::Row(*reg), stride: 0 }),
            Val::Varying(_, line) => line.clone(),
        };
        if let (Some(x), Some(y)) = (line(&a), line(&b)) {
            let stride = match op {
                IntOp::Add => Some(x.stride.wrapping_add(y.stride)),
                _ if x.stride == 0 && y.stride == 0 => Some(0),
                _ => None,
            };
            if let Some(stride) = stride {
                let bases = self.zip_bases(&x, &y, |this, x, y| this.b.int(op, x, y));
                return self.linear(Linear { bases, stride });
            }
        }
        let (a, b) = (self.spread(&a, DataType::U32), self.spread(&b, DataType::U32));
        Val::Varying(a.iter().zip(&b).map(|(a, b)| self.b.int(op, *a, *b)).collect(), None)
    }

    /// Where each vector of a line starts.
    pub(super) fn bases(&mut self, line: &Linear) -> Lanes {
        match &line.bases {
            Bases::Each(bases) => bases.clone(),
            Bases::Row(base) => (0..self.vectors as u32)
                .map(|vector| {
                    let ahead = line.stride.wrapping_mul(vector * self.b.lanes());
                    self.b.int_const(IntOp::Add, *base, ahead.into())
                })
                .collect(),
        }
    }

    /// The starts that an op on two lines' starts gives: one where both are rows, which holds for what keeps rows.
    pub(super) fn zip_bases(
        &mut self,
        a: &Linear,
        b: &Linear,
        f: impl Fn(&mut Self, Reg, Reg) -> Reg,
    ) -> Bases {
        if let (Bases::Row(a), Bases::Row(b)) = (&a.bases, &b.bases) {
            return Bases::Row(f(self, *a, *b));
        }
        let (a, b) = (self.bases(a), self.bases(b));
        Bases::Each(a.into_iter().zip(b).map(|(a, b)| f(self, a, b)).collect())
    }

    /// The vectors of a line. What nobody reads goes again.
    pub(super) fn linear(&mut self, line: Linear) -> Val {
        let lane = self.b.emit(Op::LaneIndex);
        let steps = self.b.int_const(IntOp::Mul, lane, line.stride.into());
        let lanes: Lanes = match &line.bases {
            Bases::Row(base) => {
                let start = self.b.emit(Op::Splat(*base));
                let first = self.b.int(IntOp::Add, steps, start);
                (0..self.vectors as u32)
                    .map(|vector| {
                        let ahead = line.stride.wrapping_mul(vector * self.b.lanes());
                        self.b.int_const(IntOp::Add, first, ahead.into())
                    })
                    .collect()
            }
            Bases::Each(bases) => bases
                .iter()
                .map(|base| {
                    let start = self.b.emit(Op::Splat(*base));
                    self.b.int(IntOp::Add, steps, start)
                })
                .collect(),
        };
        Val::Varying(lanes, Some(line))
    }

    /// The locals from outside that blocks assign; at group level those in registers only, as the others are in memory.
    pub(super) fn assigned(&mut self, blocks: &[&'a Vec<Node>], at_group: bool) -> Vec<Var> {
        let (mut found, mut own) = (Vec::new(), Vec::new());
        for block in blocks {
            collect_assigned(block, &mut found, &mut own);
        }
        self.outer_locals(found, own, at_group)
    }

    /// The locals from outside that lines assign.
    pub(super) fn assigned_in(&mut self, lines: &'a [Node]) -> Vec<Var> {
        let (mut found, mut own) = (Vec::new(), Vec::new());
        collect_assigned(lines, &mut found, &mut own);
        self.outer_locals(found, own, false)
    }

    fn outer_locals(&mut self, mut found: Vec<Local>, mut own: Vec<Local>, at_group: bool) -> Vec<Var> {
        found.sort_unstable();
        found.dedup();
        own.sort_unstable();
        found.retain(|local| own.binary_search(local).is_err());
        found.retain(|local| !at_group || self.plan.locals[local.index()].uniform);
        for local in &found {
            // Merges need what it is before.
            self.local(*local);
        }
        found.into_iter().map(Var::Local).collect()
    }

    /// Where `break` or `continue` of a loop that all lanes leave together goes.
    pub(super) fn leave_together(&mut self, goes_on: bool) {
        let Some(Loop::Together { exit, next, vars }) = self.loops.last() else {
            unreachable!("validated: jumps stand in loops")
        };
        let to = if goes_on { next.unwrap_or(*exit) } else { *exit };
        let vars = vars.clone();
        let args = self.state(&vars);
        self.b.jump(to, &args);
    }

    /// A buffer's registers.
    pub(super) fn buffer(&self, id: BufferId) -> BufferRegs {
        self.buffers[id.index()]
    }
}

/// The locals that lines assign, and those that they declare.
fn collect_assigned(lines: &[Node], found: &mut Vec<Local>, own: &mut Vec<Local>) {
    each_line(lines, |node| match node {
        Node::Var { local, .. } => own.push(*local),
        Node::Set { local, index: None, .. } => found.push(*local),
        _ => {}
    });
}

/// Every line of a stretch, those of nested blocks too.
fn each_line<'n>(nodes: &'n [Node], mut f: impl FnMut(&'n Node)) {
    fn go<'n>(nodes: &'n [Node], f: &mut impl FnMut(&'n Node)) {
        for node in nodes {
            f(node);
            node.blocks().for_each(|inner| go(inner, f));
        }
    }
    go(nodes, &mut f);
}
