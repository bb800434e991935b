//! Walks the lines of the body, and hands each to where it is emitted.

use super::coarse::{Coarse, Shape};
use super::copies::Copies;
use super::tensor::{Held, Layout};
use super::wide::Neighbours;
use super::{ENTRY, Options, parameter_of, suffix};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ops::Range;
use vyre_foundation::ir::{
    Axis, Block, BufferId, BufferKind, BuiltinOp, DataType, Literal, Local, MemoryOrdering, Node, Operand,
    ProgramParts, Value, collective, value_types, walk,
};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::opt::range::AccessFacts;

/// A register's name.
pub(super) type Reg = String;

/// How wide a register is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Pred,
    B16,
    B32,
    B64,
}

impl Width {
    pub(super) const fn of(ty: DataType) -> Width {
        match ty {
            DataType::Bool => Width::Pred,
            DataType::F16 | DataType::BF16 => Width::B16,
            DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 => Width::B32,
            DataType::U32 | DataType::I32 | DataType::F32 => Width::B32,
            DataType::U64 | DataType::I64 | DataType::F64 => Width::B64,
        }
    }

    /// The untyped suffix of moves and selections.
    pub(super) const fn bits(self) -> &'static str {
        match self {
            Width::Pred => "pred",
            Width::B16 => "b16",
            Width::B32 => "b32",
            Width::B64 => "b64",
        }
    }

    const fn letter(self) -> char {
        match self {
            Width::Pred => 'p',
            Width::B16 => 'h',
            Width::B32 => 'r',
            Width::B64 => 'd',
        }
    }
}

/// Where a mutable local lives.
#[derive(Clone)]
pub(super) enum Place {
    Nowhere,
    Register(Reg),
    /// A private array in local memory: its number, element type and length.
    Array {
        number: usize,
        ty: DataType,
        len: u32,
    },
}

/// A kernel being written.
pub(super) struct Emit<'a> {
    pub(super) parts: &'a ProgramParts,
    pub(super) facts: &'a AccessFacts,
    pub(super) options: &'a Options,
    /// Where workgroup buffers start in shared memory, by buffer.
    pub(super) shared: &'a [u32],
    /// Bytes of shared memory.
    pub(super) shared_bytes: u32,
    types: Vec<Option<DataType>>,
    /// How many lanes a thread runs, and which values they share.
    pub(super) coarse: &'a Coarse,
    /// The lane of this thread that is being emitted.
    pub(super) lane: usize,
    /// Whether this lane goes its own way.
    alone: bool,
    /// By lane. What lanes share stands with the first.
    pub(super) values: Vec<Vec<Reg>>,
    locals: Vec<Vec<Place>>,
    /// The place along x of the thread's first lane in the grid, where it is not the thread's own.
    first_x: Option<Reg>,
    /// The address and the number of elements of each bound buffer, by buffer.
    pub(super) bases: Vec<Reg>,
    pub(super) lens: Vec<Reg>,
    pub(super) loops: Vec<(u32, u32)>,
    pub(super) has_traps: bool,
    /// The line being emitted.
    pub(super) site: u32,
    out: String,
    arrays: String,
    array_count: usize,
    counts: [u32; 4],
    labels: u32,
    /// What a value is above its register: not zero for counters of unrolled loops alone.
    pub(super) counters: Vec<u32>,
    /// Values that are a byte of a word: its register, and which byte.
    pub(super) pieces: Vec<Option<(Reg, u32)>>,
    /// Integers that are surely no choice between 1 and 0.
    pub(super) solid: Vec<bool>,
    /// Registers of f64 that are NaN where one of f32 is, which is asked at twice the rate.
    pub(super) widened: HashMap<Reg, Reg>,
    /// The part of a tile product that is in registers.
    pub(super) held: Option<Held>,
    /// Whether a tile product may be under way.
    pub(super) pending: bool,
    /// The factors of those that may be, the oldest first.
    pub(super) reading: Vec<[BufferId; 2]>,
    /// Copies that may be under way.
    pub(super) copies: Copies,
    /// Whether this lane stored to shared memory what tile products of four warps may not see yet.
    pub(super) unshown: bool,
    /// How tile products use shared memory.
    pub(super) layout: &'a Layout,
    /// Which neighbours are accessed together.
    pub(super) neighbours: &'a Neighbours,
    /// Lines that are part of an access elsewhere.
    pub(super) taken: HashSet<u32>,
    /// Stores that wait for the last of them, with their lines.
    pub(super) stores: HashMap<u32, (Vec<Node>, Vec<u32>)>,
    /// Whether locals get a new register with each value.
    pub(super) renames: bool,
    /// Lines that unrolling has added.
    pub(super) unrolled: usize,
}

impl<'a> Emit<'a> {
    pub(super) fn new(
        parts: &'a ProgramParts,
        facts: &'a AccessFacts,
        options: &'a Options,
        layout: &'a Layout,
        (shared, shared_bytes): (&'a [u32], u32),
        coarse: &'a Coarse,
        neighbours: &'a Neighbours,
    ) -> Emit<'a> {
        let lanes = coarse.lanes as usize;
        Emit {
            parts,
            facts,
            options,
            shared,
            shared_bytes,
            types: value_types(&parts.body, None, &[]),
            coarse,
            lane: 0,
            alone: false,
            values: vec![vec![Reg::new(); parts.body.values.len()]; lanes],
            locals: vec![vec![Place::Nowhere; parts.body.locals.len()]; lanes],
            first_x: None,
            bases: vec![Reg::new(); parts.buffers.len()],
            lens: vec![Reg::new(); parts.buffers.len()],
            loops: Vec::new(),
            has_traps: false,
            site: 0,
            out: String::new(),
            arrays: String::new(),
            array_count: 0,
            counts: [0; 4],
            labels: 0,
            counters: vec![0; parts.body.values.len()],
            pieces: vec![None; parts.body.values.len()],
            solid: vec![false; parts.body.values.len()],
            widened: HashMap::new(),
            held: None,
            pending: false,
            reading: Vec::new(),
            copies: Copies::default(),
            unshown: true,
            layout,
            neighbours,
            taken: HashSet::new(),
            stores: HashMap::new(),
            renames: false,
            unrolled: 0,
        }
    }

    /// Emits the whole kernel. `alone` is the plan of one lane at a time, for the lanes of a thread that part.
    pub(super) fn kernel(&mut self, alone: &'a Coarse) {
        for id in bound_buffers(self.parts) {
            let at = parameter_of(self.parts, id);
            let (base, wide, len) =
                (self.register(Width::B64), self.register(Width::B64), self.register(Width::B32));
            self.line(&format!("ld.param.u64 {base}, [b{at}];"));
            self.line(&format!("cvta.to.global.u64 {base}, {base};"));
            self.line(&format!("ld.param.u64 {wide}, [n{at}];"));
            self.line(&format!("cvt.u32.u64 {len}, {wide};"));
            self.bases[id.index()] = base;
            self.lens[id.index()] = len;
        }
        for (at, buffer) in self.parts.buffers.iter().enumerate() {
            if let (BufferKind::Workgroup | BufferKind::Table { .. }, Some(len)) = (&buffer.kind, buffer.len)
            {
                self.lens[at] = self.constant(Literal::u32(len));
            }
        }
        let mut loops = false;
        walk(&self.parts.body.block, |_, _, node| loops |= matches!(node, Node::For { .. }));
        if self.options.poll && loops {
            // Workgroups whose loops are short end too where they have not begun.
            self.poll();
        }
        self.zero_shared();
        if self.coarse.lanes == 1 {
            self.block(&self.parts.body.block);
        } else {
            self.neighbours(alone);
        }
        self.label_text("$exit");
        self.line("ret;");
    }

    /// Emits the body for all lanes of a thread beside each other, and once more for one lane at a time.
    fn neighbours(&mut self, alone: &'a Coarse) {
        let (lanes, [block, ..]) = (self.coarse.lanes.to_string(), self.coarse.block);
        let thread = self.thread_place(block);
        let first = self.op(Width::B64, "mul.wide.u32", &[&thread, &lanes]);
        let count = self.num_workgroups(0);
        let end = self.op(Width::B64, "mul.wide.u32", &[&count, &self.parts.workgroup[0].to_string()]);
        // The last block of the launch may reach beyond the grid.
        let beyond = self.op(Width::Pred, "setp.ge.u64", &[&first, &end]);
        self.line(&format!("@{beyond} bra $exit;"));
        let first = self.op(Width::B32, "cvt.u32.u64", &[&first]);
        self.first_x = Some(first.clone());
        self.block(&self.parts.body.block);
        self.line("bra $exit;");
        self.label_text("$apart");
        (self.coarse, self.site) = (alone, 0);
        let next = self.constant(Literal::u32(0));
        let head = self.new_label();
        self.label(head);
        self.line(".pragma \"nounroll\";");
        self.first_x = Some(self.op(Width::B32, "add.u32", &[&first, &next]));
        self.block(&self.parts.body.block);
        self.line(&format!("add.u32 {next}, {next}, 1;"));
        let more = self.op(Width::Pred, "setp.lt.u32", &[&next, &lanes]);
        self.line(&format!("@{more} bra $L{head};"));
    }

    /// The thread's place along x in the launch.
    fn thread_place(&mut self, block: u32) -> Reg {
        let group = self.assign(Width::B32, "mov.u32 {}, %ctaid.x");
        let thread = self.assign(Width::B32, "mov.u32 {}, %tid.x");
        self.op(Width::B32, "mad.lo.u32", &[&group, &block.to_string(), &thread])
    }

    /// Writes what was emitted behind the module's header.
    pub(super) fn finish(self, source: &mut String, [x, y, z]: [u32; 3]) {
        let mut params: Vec<String> = Vec::new();
        for at in 0..bound_buffers(self.parts).len() {
            params.push(format!("  .param .u64 b{at}, .param .u64 n{at}"));
        }
        params.push("  .param .u64 trap, .param .u64 cancel, .param .u64 sync".into());
        params.push("  .param .u32 first_y, .param .u32 first_z".into());
        params
            .push("  .param .u32 count_x, .param .u32 count_y, .param .u32 count_z, .param .u32 zero".into());
        let _ = write!(
            source,
            ".visible .entry {ENTRY}(\n{}\n)\n.reqntid {x}, {y}, {z}\n{{\n",
            params.join(",\n")
        );
        for (width, count) in [Width::Pred, Width::B16, Width::B32, Width::B64].into_iter().zip(self.counts) {
            if count > 0 {
                let _ = writeln!(source, "  .reg .{} %{}<{count}>;", width.bits(), width.letter());
            }
        }
        source.push_str(&self.arrays);
        source.push_str(&self.out);
        source.push_str("}\n");
    }

    pub(super) fn line(&mut self, text: &str) {
        let indent = 1 + self.loops.len().min(20);
        for _ in 0..indent {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// Whether the last line is this one.
    pub(super) fn ends_with(&self, text: &str) -> bool {
        self.out.trim_end().ends_with(text)
    }

    fn label_text(&mut self, label: &str) {
        let _ = writeln!(self.out, "{label}:");
    }

    pub(super) fn new_label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    pub(super) fn label(&mut self, label: u32) {
        self.label_text(&format!("$L{label}"));
    }

    pub(super) fn register(&mut self, width: Width) -> Reg {
        let count = &mut self.counts[width as usize];
        *count += 1;
        format!("%{}{}", width.letter(), *count - 1)
    }

    /// A new register of `width` that `text` assigns; `{}` in it stands for the register.
    pub(super) fn assign(&mut self, width: Width, text: &str) -> Reg {
        let reg = self.register(width);
        self.line(&format!("{};", text.replacen("{}", &reg, 1)));
        reg
    }

    /// `op dst, args` with a new register.
    pub(super) fn op(&mut self, width: Width, op: &str, args: &[&str]) -> Reg {
        let reg = self.register(width);
        self.line(&format!("{op} {reg}, {};", args.join(", ")));
        reg
    }

    /// `selp`: `a` where `p`, else `b`, for registers of that width.
    pub(super) fn select(&mut self, width: Width, p: &str, a: &str, b: &str) -> Reg {
        if width == Width::Pred {
            let yes = self.op(width, "and.pred", &[p, a]);
            let no = self.op(width, "not.pred", &[p]);
            let no = self.op(width, "and.pred", &[&no, b]);
            return self.op(width, "or.pred", &[&yes, &no]);
        }
        self.op(width, &format!("selp.{}", width.bits()), &[a, b, p])
    }

    pub(super) fn constant(&mut self, literal: Literal) -> Reg {
        let (width, bits) = (Width::of(literal.ty()), literal.bits());
        if width == Width::Pred {
            let word = self.assign(Width::B32, &format!("mov.b32 {{}}, {bits}"));
            return self.op(Width::Pred, "setp.ne.u32", &[&word, "0"]);
        }
        self.assign(width, &format!("mov.{} {{}}, {bits:#x}", width.bits()))
    }

    pub(super) fn operand(&mut self, operand: Operand) -> Reg {
        match operand {
            Operand::Value(value) => {
                if let Some((word, byte)) = self.pieces[value.index()].clone() {
                    let name = typed("bfe", self.type_of(operand));
                    return self.op(Width::B32, &name, &[&word, &(8 * byte).to_string(), "8"]);
                }
                let reg = self.values[self.lane_of(operand)][value.index()].clone();
                match self.counters[value.index()] {
                    0 => reg,
                    ahead => self.op(Width::B32, "add.u32", &[&reg, &ahead.to_string()]),
                }
            }
            // `ptxas` takes a choice between these bits and zero for an integer, also where a float is asked for.
            Operand::Literal(literal) if literal.ty().is_float() && literal.bits() == 1 => {
                let constant = self.constant(literal);
                self.opaque(literal.ty(), &constant)
            }
            Operand::Literal(literal) => self.constant(literal),
        }
    }

    pub(super) fn type_of(&self, operand: Operand) -> DataType {
        match operand {
            Operand::Value(value) => self.types[value.index()].expect("validated: a value has a type"),
            Operand::Literal(literal) => literal.ty(),
        }
    }

    /// The lane that an operand stands with.
    fn lane_of(&self, operand: Operand) -> usize {
        if self.coarse.shape(operand) == Shape::Uniform { 0 } else { self.lane }
    }

    pub(super) fn bind(&mut self, value: Value, reg: Reg) {
        let lane = self.lane_of(value.into());
        self.values[lane][value.index()] = reg;
        self.pieces[value.index()] = None;
    }

    pub(super) fn local(&mut self, local: Local) -> &mut Place {
        let lane = if self.coarse.is_spread(local.index()) { self.lane } else { 0 };
        &mut self.locals[lane][local.index()]
    }

    pub(super) fn block(&mut self, block: &Block) {
        for (at, node) in block.iter().enumerate() {
            self.settle_before(node);
            if let Some((nodes, sites)) = self.stores.remove(&self.site) {
                self.store_together(&nodes, &sites);
            } else if !self.taken.remove(&self.site) && !self.together(&block[at..]) {
                self.lanes(node);
            }
            self.site += u32::from(!matches!(node, Node::If { .. } | Node::For { .. }));
        }
        // Where blocks meet, nothing is left to show.
        self.show();
    }

    /// The lanes of this thread for which a line is emitted: all, or one where they share it or go their own ways.
    pub(super) fn lanes_of(&self, node: &Node) -> Range<usize> {
        let all = !self.alone && self.coarse.is_repeated(node);
        if all { 0..self.coarse.lanes as usize } else { self.lane..self.lane + 1 }
    }

    fn lanes(&mut self, node: &Node) {
        let (own, lanes) = (self.lane, self.lanes_of(node));
        if lanes.len() > 1 && self.wide(node) {
            return;
        }
        for lane in lanes {
            self.lane = lane;
            self.node(node);
        }
        self.lane = own;
    }

    pub(super) fn node(&mut self, node: &Node) {
        match node {
            Node::Compute { result, op, ty, args } => {
                let reg = self.compute(*op, *ty, args);
                self.solid[result.index()] = self.is_solid(*op, args);
                self.bind(*result, reg);
            }
            Node::Builtin { result, op, axis } => {
                let reg = self.builtin(*op, *axis);
                self.bind(*result, reg);
            }
            Node::Subgroup { result, op, ty, args } => {
                let reg = self.subgroup(*op, *ty, args);
                self.bind(*result, reg);
            }
            Node::Load { result, ty, buffer, index } => {
                let reg = self.load(*ty, *buffer, *index);
                self.solid[result.index()] = true;
                self.bind(*result, reg);
            }
            Node::UniformLoad { result, ty, buffer, index } => {
                self.barrier();
                let reg = self.load(*ty, *buffer, *index);
                self.barrier();
                self.bind(*result, reg);
            }
            Node::Store { ty, buffer, index, value } => self.store(*ty, *buffer, *index, *value),
            Node::Len { result, buffer } => {
                let len = self.lens[buffer.index()].clone();
                self.bind(*result, len);
            }
            Node::Atomic { result, op, ty, buffer, index, args } => {
                let reg = self.atomic(*op, *ty, *buffer, *index, args, result.is_some());
                if let Some(result) = result {
                    self.bind(*result, reg);
                }
            }
            Node::Var { local, ty, len, init } => self.declare(*local, *ty, *len, *init),
            Node::Get { result, ty, local, index } => {
                let reg = self.get(*ty, *local, *index);
                self.bind(*result, reg);
            }
            Node::Set { ty, local, index, value } => self.set(*ty, *local, *index, *value),
            Node::Mma { .. } => {
                let plan = self.plan_of(node).expect("legalised: tensor cores do it");
                self.tensor(plan);
            }
            Node::If { cond, then, otherwise } => self.branch(*cond, then, otherwise),
            Node::For { counter, lo, hi, step, body } => self.repeat(*counter, [*lo, *hi], *step, body),
            Node::Break => {
                let (_, end) = *self.loops.last().expect("validated: inside a loop");
                self.line(&format!("bra $L{end};"));
            }
            Node::Continue => {
                let (next, _) = *self.loops.last().expect("validated: inside a loop");
                self.end_trip(self.loops.len() - 1);
                self.line(&format!("bra $L{next};"));
            }
            Node::Call { .. } | Node::Return { .. } => unreachable!("inlined"),
            Node::Barrier { ordering: MemoryOrdering::Workgroup } => self.barrier(),
            Node::Barrier { ordering: MemoryOrdering::Subgroup } => self.subgroup_barrier(),
            Node::Barrier { ordering: MemoryOrdering::GridSync } => self.grid_barrier(),
            // The driver has read the grid.
            Node::IndirectDispatch { .. } => {}
            collective!() => unreachable!("legalised: copies between grid barriers"),
            Node::Trap { code } => self.trap(*code),
        }
    }

    fn branch(&mut self, cond: Operand, then: &Block, otherwise: &Block) {
        if self.coarse.lanes > 1 && !self.alone && self.coarse.shape(cond) == Shape::Data {
            return self.own_ways(cond, then, otherwise);
        }
        let cond = self.agreed(cond);
        let (no, end) = (self.new_label(), self.new_label());
        self.site += 1;
        self.line(&format!("@!{cond} bra $L{no};"));
        self.block(then);
        self.finish_copies();
        if !otherwise.is_empty() {
            self.line(&format!("bra $L{end};"));
        }
        self.label(no);
        self.block(otherwise);
        self.finish_copies();
        self.label(end);
    }

    /// A branch that each lane takes as its data say, one after the other.
    fn own_ways(&mut self, cond: Operand, then: &Block, otherwise: &Block) {
        let (end, site) = (self.new_label(), self.site);
        let own: Vec<Reg> = (0..self.coarse.lanes as usize)
            .map(|lane| {
                self.lane = lane;
                self.operand(cond)
            })
            .collect();
        if otherwise.is_empty() {
            // Most often none of them has to.
            let any = own[1..]
                .iter()
                .fold(own[0].clone(), |any, own| self.op(Width::Pred, "or.pred", &[&any, own]));
            self.line(&format!("@!{any} bra $L{end};"));
        }
        self.alone = true;
        for lane in 0..own.len() {
            (self.lane, self.site) = (lane, site);
            self.branch(cond, then, otherwise);
        }
        (self.lane, self.alone) = (0, false);
        self.label(end);
    }

    /// A condition that all lanes of the thread agree on. Where they do not, the thread starts again with one at a time.
    fn agreed(&mut self, cond: Operand) -> Reg {
        let mut all = self.operand(cond);
        if self.alone || self.coarse.shape(cond) == Shape::Uniform {
            return all;
        }
        let mut any = all.clone();
        for lane in 1..self.coarse.lanes as usize {
            self.lane = lane;
            let own = self.operand(cond);
            all = self.op(Width::Pred, "and.pred", &[&all, &own]);
            any = self.op(Width::Pred, "or.pred", &[&any, &own]);
        }
        self.lane = 0;
        let parted = self.op(Width::Pred, "xor.pred", &[&all, &any]);
        self.line(&format!("@{parted} bra $apart;"));
        all
    }

    pub(super) fn poll(&mut self) {
        let address = self.assign(Width::B64, "ld.param.u64 {}, [cancel]");
        let word = self.assign(Width::B32, &format!("ld.volatile.global.u32 {{}}, [{address}]"));
        let cancelled = self.op(Width::Pred, "setp.ne.u32", &[&word, "0"]);
        self.line(&format!("@{cancelled} bra $exit;"));
    }

    /// Records the least trap's number; the lane goes on.
    fn trap(&mut self, number: u32) {
        let address = self.assign(Width::B64, "ld.param.u64 {}, [trap]");
        self.line(&format!("red.global.min.u32 [{address}], {number};"));
    }

    pub(super) fn builtin(&mut self, op: BuiltinOp, axis: Option<Axis>) -> Reg {
        let workgroup = self.parts.workgroup;
        let axis = axis.map_or(0, Axis::index);
        match op {
            BuiltinOp::GlobalId => self.global_id(axis),
            BuiltinOp::LocalId => self.local_id(axis),
            BuiltinOp::WorkgroupId => self.workgroup_id(axis),
            BuiltinOp::NumWorkgroups => self.num_workgroups(axis),
            BuiltinOp::WorkgroupSize => self.constant(Literal::u32(workgroup[axis])),
            BuiltinOp::GlobalIndex => {
                let ids = [0, 1, 2].map(|axis| self.global_id(axis));
                let counts = [0, 1].map(|axis| {
                    let count = self.num_workgroups(axis);
                    self.op(Width::B32, "mul.lo.u32", &[&count, &workgroup[axis].to_string()])
                });
                self.linear(&ids, [&counts[0], &counts[1]])
            }
            BuiltinOp::LocalIndex => self.local_index(),
            BuiltinOp::WorkgroupIndex => {
                let ids = [0, 1, 2].map(|axis| self.workgroup_id(axis));
                let counts = [0, 1].map(|axis| self.num_workgroups(axis));
                self.linear(&ids, [&counts[0], &counts[1]])
            }
            BuiltinOp::SubgroupLane => {
                let index = self.local_index();
                let width = self.width();
                self.op(Width::B32, "and.b32", &[&index, &(width - 1).to_string()])
            }
            BuiltinOp::SubgroupIndex => {
                let index = self.local_index();
                let width = self.width();
                self.op(Width::B32, "shr.u32", &[&index, &width.trailing_zeros().to_string()])
            }
        }
    }

    /// Devices take few workgroups along y and z, so a launch may be one of several that make up the grid.
    fn workgroup_id(&mut self, axis: usize) -> Reg {
        if axis == 0 && self.first_x.is_some() {
            let place = self.global_id(0);
            return self.op(Width::B32, "div.u32", &[&place, &self.parts.workgroup[0].to_string()]);
        }
        let letter = ["x", "y", "z"][axis];
        let id = self.assign(Width::B32, &format!("mov.u32 {{}}, %ctaid.{letter}"));
        if axis == 0 {
            return id;
        }
        let first = self.assign(Width::B32, &format!("ld.param.u32 {{}}, [first_{letter}]"));
        self.op(Width::B32, "add.u32", &[&id, &first])
    }

    fn num_workgroups(&mut self, axis: usize) -> Reg {
        self.assign(Width::B32, &format!("ld.param.u32 {{}}, [count_{}]", ["x", "y", "z"][axis]))
    }

    fn local_id(&mut self, axis: usize) -> Reg {
        if axis == 0 && self.first_x.is_some() {
            let place = self.global_id(0);
            return self.op(Width::B32, "rem.u32", &[&place, &self.parts.workgroup[0].to_string()]);
        }
        self.assign(Width::B32, &format!("mov.u32 {{}}, %tid.{}", ["x", "y", "z"][axis]))
    }

    fn global_id(&mut self, axis: usize) -> Reg {
        if let (0, Some(first)) = (axis, self.first_x.clone()) {
            return self.op(Width::B32, "add.u32", &[&first, &self.lane.to_string()]);
        }
        let group = self.workgroup_id(axis);
        let local = self.local_id(axis);
        let size = self.parts.workgroup[axis].to_string();
        self.op(Width::B32, "mad.lo.u32", &[&group, &size, &local])
    }

    /// `x + w * (y + h * z)`.
    fn linear(&mut self, [x, y, z]: &[Reg; 3], [w, h]: [&str; 2]) -> Reg {
        let rest = self.op(Width::B32, "mad.lo.u32", &[h, z, y]);
        self.op(Width::B32, "mad.lo.u32", &[w, &rest, x])
    }

    pub(super) fn local_index(&mut self) -> Reg {
        let ids = [0, 1, 2].map(|axis| self.local_id(axis));
        let [w, h, _] = self.parts.workgroup.map(|size| size.to_string());
        self.linear(&ids, [&w, &h])
    }

    fn declare(&mut self, local: Local, ty: DataType, len: Option<u32>, init: Operand) {
        let value = self.operand(init);
        let width = Width::of(ty);
        let Some(len) = len else {
            let reg = self.assign(width, &format!("mov.{} {{}}, {value}", width.bits()));
            *self.local(local) = Place::Register(reg);
            return;
        };
        let number = self.array_count;
        self.array_count += 1;
        let bytes = u64::from(len.max(1)) * u64::from(array_element_bytes(ty));
        let _ = writeln!(self.arrays, "  .local .align 8 .b8 array{number}[{bytes}];");
        *self.local(local) = Place::Array { number, ty, len };
        self.fill_array(number, ty, len, &value);
    }

    pub(super) fn is_proven(&self) -> bool {
        self.facts.in_bounds(None, self.site)
    }

    pub(super) fn buffer_type(&self, id: BufferId) -> DataType {
        self.parts.buffer(id).ty
    }
}

/// Bytes of a private array's element: truth values take a word.
pub(super) const fn array_element_bytes(ty: DataType) -> u32 {
    match Width::of(ty) {
        Width::B16 => 2,
        Width::Pred | Width::B32 => 4,
        Width::B64 => 8,
    }
}

/// An instruction's name with its type.
pub(super) fn typed(op: &str, ty: DataType) -> String {
    format!("{op}.{}", suffix(ty))
}
