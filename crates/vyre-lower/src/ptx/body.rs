//! Walks the lines of the body, and hands each to where it is emitted.

use super::{ENTRY, Options, parameter_of, suffix};
use std::fmt::Write;
use vyre_foundation::ir::{
    Axis, Block, BufferId, BufferKind, BuiltinOp, DataType, Literal, Local, MemoryOrdering, Node, Operand,
    ProgramParts, Value, value_types,
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
    types: Vec<Option<DataType>>,
    values: Vec<Reg>,
    pub(super) locals: Vec<Place>,
    /// The address and the number of elements of each bound buffer, by buffer.
    pub(super) bases: Vec<Reg>,
    pub(super) lens: Vec<Reg>,
    loops: Vec<(u32, u32)>,
    pub(super) has_traps: bool,
    /// The line being emitted.
    pub(super) site: u32,
    out: String,
    arrays: String,
    array_count: usize,
    counts: [u32; 4],
    labels: u32,
}

impl<'a> Emit<'a> {
    pub(super) fn new(
        parts: &'a ProgramParts,
        facts: &'a AccessFacts,
        options: &'a Options,
        shared: &'a [u32],
    ) -> Emit<'a> {
        Emit {
            parts,
            facts,
            options,
            shared,
            types: value_types(&parts.body, None, &[]),
            values: vec![Reg::new(); parts.body.values.len()],
            locals: vec![Place::Nowhere; parts.body.locals.len()],
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
        }
    }

    /// Emits the whole kernel.
    pub(super) fn kernel(&mut self) {
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
        self.zero_shared();
        self.block(&self.parts.body.block);
        self.label_text("$exit");
        self.line("ret;");
    }

    /// Writes what was emitted behind the module's header.
    pub(super) fn finish(self, source: &mut String) {
        let mut params: Vec<String> = Vec::new();
        for at in 0..bound_buffers(self.parts).len() {
            params.push(format!("  .param .u64 b{at}, .param .u64 n{at}"));
        }
        params.push("  .param .u64 trap, .param .u64 cancel, .param .u64 sync".into());
        params.push("  .param .u32 first_y, .param .u32 first_z, .param .u32 count_y".into());
        params.push("  .param .u32 count_z, .param .u32 zero".into());
        let [x, y, z] = self.parts.workgroup;
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
            Operand::Value(value) => self.values[value.index()].clone(),
            Operand::Literal(literal) => self.constant(literal),
        }
    }

    pub(super) fn type_of(&self, operand: Operand) -> DataType {
        match operand {
            Operand::Value(value) => self.types[value.index()].expect("validated: a value has a type"),
            Operand::Literal(literal) => literal.ty(),
        }
    }

    pub(super) fn bind(&mut self, value: Value, reg: Reg) {
        self.values[value.index()] = reg;
    }

    fn block(&mut self, block: &Block) {
        for node in block {
            self.node(node);
            self.site += u32::from(!matches!(node, Node::If { .. } | Node::For { .. }));
        }
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Compute { result, op, ty, args } => {
                let reg = self.compute(*op, *ty, args);
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
            Node::Mma { m, n, k, c, a, b } => self.mma([*m, *n, *k], [*c, *a, *b]),
            Node::If { cond, then, otherwise } => self.branch(*cond, then, otherwise),
            Node::For { counter, lo, hi, step, body } => self.repeat(*counter, [*lo, *hi], *step, body),
            Node::Break => {
                let (_, end) = *self.loops.last().expect("validated: inside a loop");
                self.line(&format!("bra $L{end};"));
            }
            Node::Continue => {
                let (next, _) = *self.loops.last().expect("validated: inside a loop");
                self.line(&format!("bra $L{next};"));
            }
            Node::Call { .. } | Node::Return { .. } => unreachable!("inlined"),
            Node::Barrier { ordering: MemoryOrdering::Workgroup } => self.barrier(),
            Node::Barrier { ordering: MemoryOrdering::Subgroup } => self.subgroup_barrier(),
            Node::Barrier { ordering: MemoryOrdering::GridSync } => self.grid_barrier(),
            // The driver has read the grid.
            Node::IndirectDispatch { .. } => {}
            Node::AllReduce { dst, src, .. }
            | Node::AllGather { dst, src, .. }
            | Node::ReduceScatter { dst, src, .. }
            | Node::Broadcast { dst, src, .. } => self.collective(*dst, *src),
            Node::Trap { code } => self.trap(*code),
        }
    }

    fn branch(&mut self, cond: Operand, then: &Block, otherwise: &Block) {
        let cond = self.operand(cond);
        let (no, end) = (self.new_label(), self.new_label());
        self.site += 1;
        self.line(&format!("@!{cond} bra $L{no};"));
        self.block(then);
        if !otherwise.is_empty() {
            self.line(&format!("bra $L{end};"));
        }
        self.label(no);
        self.block(otherwise);
        self.label(end);
    }

    fn repeat(&mut self, counter: Value, [lo, hi]: [Operand; 2], step: u32, body: &Block) {
        let (lo, hi) = (self.operand(lo), self.operand(hi));
        let (head, next, end) = (self.new_label(), self.new_label(), self.new_label());
        let i = self.assign(Width::B32, &format!("mov.b32 {{}}, {lo}"));
        let over = self.op(Width::Pred, "setp.ge.u32", &[&i, &hi]);
        self.line(&format!("@{over} bra $L{end};"));
        self.bind(counter, i.clone());
        self.label(head);
        self.site += 1;
        self.loops.push((next, end));
        self.block(body);
        self.loops.pop();
        self.label(next);
        if self.options.poll {
            self.poll();
        }
        if step == 1 {
            // Below `hi`, one more cannot wrap.
            self.line(&format!("add.u32 {i}, {i}, 1;"));
            let more = self.op(Width::Pred, "setp.lt.u32", &[&i, &hi]);
            self.line(&format!("@{more} bra $L{head};"));
        } else {
            // `hi - i` counts what is left, so the counter never passes `hi` and never wraps.
            let left = self.op(Width::B32, "sub.u32", &[&hi, &i]);
            let over = self.op(Width::Pred, "setp.le.u32", &[&left, &step.to_string()]);
            self.line(&format!("@{over} bra $L{end};"));
            self.line(&format!("add.u32 {i}, {i}, {step};"));
            self.line(&format!("bra $L{head};"));
        }
        self.label(end);
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
        let letter = ["x", "y", "z"][axis];
        match op {
            BuiltinOp::GlobalId => self.global_id(axis),
            BuiltinOp::LocalId => self.assign(Width::B32, &format!("mov.u32 {{}}, %tid.{letter}")),
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
                let width = self.parts.subgroup.unwrap_or(1);
                self.op(Width::B32, "and.b32", &[&index, &(width - 1).to_string()])
            }
            BuiltinOp::SubgroupIndex => {
                let index = self.local_index();
                let width = self.parts.subgroup.unwrap_or(1);
                self.op(Width::B32, "shr.u32", &[&index, &width.trailing_zeros().to_string()])
            }
        }
    }

    /// Devices take few workgroups along y and z, so a launch may be one of several that make up the grid.
    fn workgroup_id(&mut self, axis: usize) -> Reg {
        let letter = ["x", "y", "z"][axis];
        let id = self.assign(Width::B32, &format!("mov.u32 {{}}, %ctaid.{letter}"));
        if axis == 0 {
            return id;
        }
        let first = self.assign(Width::B32, &format!("ld.param.u32 {{}}, [first_{letter}]"));
        self.op(Width::B32, "add.u32", &[&id, &first])
    }

    fn num_workgroups(&mut self, axis: usize) -> Reg {
        match axis {
            0 => self.assign(Width::B32, "mov.u32 {}, %nctaid.x"),
            1 => self.assign(Width::B32, "ld.param.u32 {}, [count_y]"),
            _ => self.assign(Width::B32, "ld.param.u32 {}, [count_z]"),
        }
    }

    fn global_id(&mut self, axis: usize) -> Reg {
        let letter = ["x", "y", "z"][axis];
        let group = self.workgroup_id(axis);
        let local = self.assign(Width::B32, &format!("mov.u32 {{}}, %tid.{letter}"));
        let size = self.parts.workgroup[axis].to_string();
        self.op(Width::B32, "mad.lo.u32", &[&group, &size, &local])
    }

    /// `x + w * (y + h * z)`.
    fn linear(&mut self, [x, y, z]: &[Reg; 3], [w, h]: [&str; 2]) -> Reg {
        let rest = self.op(Width::B32, "mad.lo.u32", &[h, z, y]);
        self.op(Width::B32, "mad.lo.u32", &[w, &rest, x])
    }

    pub(super) fn local_index(&mut self) -> Reg {
        let ids = ["x", "y", "z"].map(|l| self.assign(Width::B32, &format!("mov.u32 {{}}, %tid.{l}")));
        let [w, h, _] = self.parts.workgroup.map(|size| size.to_string());
        self.linear(&ids, [&w, &h])
    }

    fn declare(&mut self, local: Local, ty: DataType, len: Option<u32>, init: Operand) {
        let value = self.operand(init);
        let width = Width::of(ty);
        let Some(len) = len else {
            let reg = self.assign(width, &format!("mov.{} {{}}, {value}", width.bits()));
            self.locals[local.index()] = Place::Register(reg);
            return;
        };
        let number = self.array_count;
        self.array_count += 1;
        let bytes = u64::from(len.max(1)) * u64::from(array_element_bytes(ty));
        let _ = writeln!(self.arrays, "  .local .align 8 .b8 array{number}[{bytes}];");
        self.locals[local.index()] = Place::Array { number, ty, len };
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
