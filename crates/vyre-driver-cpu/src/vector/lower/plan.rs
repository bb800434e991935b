//! What the lowering knows about a program before it writes any code.
//!
//! One walk numbers the lines and finds which of them stand at *group level*: lines that the lanes of a workgroup take
//! together, because they hold a barrier or leave a loop that does. Between those lie *runs*, each of which becomes one
//! loop over the workgroup's lanes. A value that is the same for all lanes is kept in one register; any other value that is
//! used in a later run lives in memory between them, or is computed again where that is cheap.

use super::Shape;
use vyre_foundation::ir::{
    Block, BufferId, BufferKind, BuiltinOp, ComputeOp, DataType, Exchange, MemoryOrdering, Node, Operand,
    ProgramParts, Sweep, Value, value_types, walk,
};
use vyre_foundation::opt::range::AccessFacts;
use vyre_foundation::validate::ValidProgram;
use vyre_foundation::validate::uniformity::{self, BodyUniformity, Level};

/// Lines of a program without loops that has two vectors in flight.
const STRAIGHT_LINES_MAX: u32 = 32;
/// Lines of a program that has no more vectors in flight than it needs. It has enough to do without them, and what is alive
/// for long is what makes compiling slow: with a few lanes in flight values wait in memory at barriers.
const LONG_LINES_MIN: usize = 8000;

/// A mutable local or private array.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalInfo {
    pub(super) ty: DataType,
    /// The elements of an array.
    pub(super) len: Option<u32>,
    /// Whether one register holds it for all lanes.
    pub(super) uniform: bool,
    /// Whether it must outlast a run.
    pub(super) crosses: bool,
}

/// What is known about a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineInfo {
    /// Lines of the subtree, this one counted.
    pub(super) size: u32,
    /// The site of the first line of the `else` block.
    pub(super) else_site: u32,
    /// Whether the lanes of a workgroup take it together.
    pub(super) at_group: bool,
    /// Whether the subtree has a `break` or `continue` of a loop around it.
    pub(super) leaves: bool,
    /// For a loop: whether every `break` and `continue` of it stands under uniform conditions only.
    pub(super) uniform_jumps: bool,
    /// For a loop: whether it has a `continue`.
    pub(super) continues: bool,
    /// Whether the subtree has a loop below this line.
    pub(super) nested_loop: bool,
}

/// The analyses of a program.
pub(super) struct Plan<'a> {
    pub(super) parts: &'a ProgramParts,
    pub(super) types: Vec<DataType>,
    pub(super) levels: BodyUniformity,
    pub(super) facts: &'a AccessFacts,
    pub(super) lines: Vec<LineInfo>,
    pub(super) locals: Vec<LocalInfo>,
    /// The line that assigns each value.
    pub(super) defs: Vec<Option<&'a Node>>,
    /// The site of that line.
    pub(super) sites: Vec<u32>,
    /// Whether one register holds a value for all lanes.
    pub(super) uniform: Vec<bool>,
    /// Whether a value is kept in memory from the run that assigns it to those that use it.
    pub(super) crosses: Vec<bool>,
    /// Whether a value is computed again where it is used in another run.
    pub(super) again: Vec<bool>,
    /// Whether any vector of 64-bit lanes is needed.
    pub(super) wide: bool,
    /// Whether there are fewer lanes of 64 bits: a vector of those then has one value in all it has.
    pub(super) few_wide: bool,
    /// Lanes of a vector.
    pub(super) lanes: u32,
    /// Vectors in flight.
    pub(super) vectors: u32,
}

impl<'a> Plan<'a> {
    /// Analyses a program for a machine.
    pub(super) fn new(program: &'a ValidProgram, facts: &'a AccessFacts, shape: Shape) -> Plan<'a> {
        let parts = program.parts();
        let body = &parts.body;
        let types = value_types(body, None, &parts.functions);
        let mut plan = Plan {
            parts,
            types: types.into_iter().map(|ty| ty.unwrap_or(DataType::U32)).collect(),
            levels: uniformity::analyse(parts).body,
            facts,
            lines: Vec::with_capacity(2 * body.values.len()),
            locals: vec![
                LocalInfo { ty: DataType::U32, len: None, uniform: false, crosses: false };
                body.locals.len()
            ],
            defs: vec![None; body.values.len()],
            sites: vec![0; body.values.len()],
            uniform: Vec::new(),
            crosses: vec![false; body.values.len()],
            again: vec![false; body.values.len()],
            wide: false,
            few_wide: false,
            lanes: 0,
            vectors: 0,
        };
        plan.measure(&body.block);
        plan.find_uniform();
        plan.wide = plan.needs_wide();
        plan.find_cheap();
        plan.lanes = if plan.wide { shape.lanes_wide } else { shape.lanes };
        plan.few_wide = plan.lanes > shape.lanes_wide;
        plan.vectors = plan.choose_vectors(shape);
        // Where all lanes of a workgroup are in flight at once, nothing splits.
        if parts.workgroup_lanes() > u64::from(plan.vectors * plan.lanes) {
            plan.mark_group_level(&body.block, 0, &mut Vec::new());
            plan.mark_row_loops(&body.block, 0);
            // Group-level loops have a uniform counter, whatever their bounds look like.
            if plan.lines.iter().any(|line| line.at_group && line.size > 1) {
                plan.find_uniform();
                plan.find_cheap();
            }
        }
        plan.find_jumps(&body.block, 0, &mut Vec::new(), true);
        plan.find_crossings();
        plan
    }

    pub(super) fn is_uniform(&self, operand: Operand) -> bool {
        operand.value().is_none_or(|value| self.uniform[value.index()])
    }

    pub(super) fn ty(&self, operand: Operand) -> DataType {
        match operand {
            Operand::Value(value) => self.types[value.index()],
            Operand::Literal(literal) => literal.ty(),
        }
    }

    /// Whether an operand is a lane's number in its workgroup.
    pub(super) fn is_lane(&self, operand: Operand) -> bool {
        let [_, y, z] = self.parts.workgroup;
        match operand.value().and_then(|value| self.defs[value.index()]) {
            Some(Node::Builtin { op: BuiltinOp::LocalIndex, .. }) => true,
            Some(Node::Builtin { op: BuiltinOp::LocalId, axis: Some(axis), .. }) => {
                axis.index() == 0 && y == 1 && z == 1
            }
            _ => false,
        }
    }

    /// Whether every lane writes its own element of the buffer before anything else happens to it, and there are no others:
    /// what it starts from does not matter.
    pub(super) fn is_written_first(&self, buffer: BufferId) -> bool {
        let touches = |node: &Node| {
            let mut any = false;
            node.for_each_buffer(|id| any |= id == buffer);
            any
        };
        let mut first = None;
        walk(&self.parts.body.block, |_, depth, node| {
            if touches(node) {
                first.get_or_insert((depth, node));
            }
        });
        let whole =
            self.parts.buffer(buffer).len.is_some_and(|len| u64::from(len) <= self.parts.workgroup_lanes());
        match first {
            Some((0, Node::Store { index, .. })) => whole && self.is_lane(*index),
            _ => false,
        }
    }

    /// By buffer: whether lines do nothing with it, which launches see, but store to it.
    pub(super) fn written_only(&self) -> Vec<bool> {
        let mut stored = vec![false; self.parts.buffers.len()];
        let mut other: Vec<bool> =
            self.parts.buffers.iter().map(|buffer| buffer.binding().is_none()).collect();
        walk(&self.parts.body.block, |_, _, node| match node {
            Node::Store { buffer, .. } => stored[buffer.index()] = true,
            Node::Len { .. } => {}
            _ => node.for_each_buffer(|id| other[id.index()] = true),
        });
        stored.iter().zip(other).map(|(stored, other)| *stored && !other).collect()
    }

    /// Whether no lane writes the buffer.
    pub(super) fn is_constant(&self, buffer: BufferId) -> bool {
        !self.parts.buffer(buffer).is_writable()
    }

    /// Whether a loop holds another.
    pub(super) fn has_loop_inside(&self, site: u32) -> bool {
        self.lines[site as usize].nested_loop
    }

    fn measure(&mut self, block: &'a [Node]) -> u32 {
        let mut total = 0;
        for node in block {
            let site = self.lines.len();
            self.lines.push(LineInfo::default());
            if let Some(result) = node.result() {
                self.defs[result.index()] = Some(node);
                self.sites[result.index()] = site as u32;
            }
            if let Node::Var { local, ty, len, .. } = node {
                self.locals[local.index()] = LocalInfo { ty: *ty, len: *len, ..self.locals[local.index()] };
            }
            let mut size = 1;
            for (at, inner) in node.blocks().enumerate() {
                if at == 1 {
                    self.lines[site].else_site = self.lines.len() as u32;
                }
                let from = self.lines.len();
                size += self.measure(inner);
                let mut nested = inner.iter().any(|node| matches!(node, Node::For { .. }));
                nested |= self.lines[from..].iter().any(|line| line.nested_loop);
                self.lines[site].nested_loop |= nested;
            }
            self.lines[site].size = size;
            total += size;
        }
        total
    }

    /// Decides what one register holds: what the language calls uniform, less what comes out of memory that lanes write
    /// or out of private arrays, which are per lane here even where all lanes agree. What a subgroup reduces to is the same
    /// for all lanes too where there is one subgroup.
    fn find_uniform(&mut self) {
        let one_subgroup = self.parts.subgroup.map(u64::from) == Some(self.parts.workgroup_lanes());
        self.uniform = vec![true; self.types.len()];
        for at in 0..self.locals.len() {
            let local = vyre_foundation::ir::Local(at as u32);
            self.locals[at].uniform =
                self.locals[at].len.is_none() && self.levels.local(local) != Level::Varying;
        }
        loop {
            let mut changed = false;
            let (uniform, locals, lines) = (&mut self.uniform, &mut self.locals, &self.lines);
            let (levels, parts) = (&self.levels, self.parts);
            walk(&parts.body.block, |site, _, node| {
                let mut operands = true;
                node.for_each_operand(|operand| {
                    operands &= operand.value().is_none_or(|value| uniform[value.index()]);
                });
                let holds = match node {
                    Node::Compute { .. } | Node::Len { .. } | Node::UniformLoad { .. } => {
                        matches!(node, Node::UniformLoad { .. }) || operands
                    }
                    Node::Builtin { result, .. } => levels.value(*result) != Level::Varying,
                    Node::Subgroup { op, .. } => {
                        one_subgroup && matches!(op.exchange(), Exchange::Fold(Sweep::Reduce, _))
                    }
                    Node::Load { buffer, .. } => operands && !parts.buffer(*buffer).is_writable(),
                    Node::Get { local, index: None, .. } => locals[local.index()].uniform,
                    Node::For { lo, .. } => {
                        let known = lo.value().is_none_or(|value| uniform[value.index()]);
                        known || lines[site as usize].at_group
                    }
                    Node::Var { local, len: None, .. } | Node::Set { local, index: None, .. } => {
                        let keeps = locals[local.index()].uniform && operands;
                        changed |= keeps != locals[local.index()].uniform;
                        locals[local.index()].uniform = keeps;
                        true
                    }
                    _ => false,
                };
                if let Some(result) = node.result()
                    && uniform[result.index()] != holds
                {
                    // Values only ever fall.
                    changed |= !holds;
                    uniform[result.index()] &= holds;
                }
            });
            if !changed {
                return;
            }
        }
    }

    /// About how many varying values are alive at once: those between their line and their last use, which in a loop is the
    /// loop's end for what comes from outside it. Places count nothing, as they are computed from scalars.
    pub(super) fn pressure(&self) -> u32 {
        let mut ends = vec![0u32; self.types.len()];
        let mut starts = vec![u32::MAX; self.types.len()];
        let mut local_spans = vec![(u32::MAX, 0u32); self.locals.len()];
        let mut loops: Vec<(u32, u32)> = Vec::new();
        walk(&self.parts.body.block, |site, _, node| {
            loops.retain(|(_, end)| *end > site);
            // The end of the outermost loop around this line that starts behind `from`.
            let until =
                |from: u32| loops.iter().find(|(start, _)| *start > from).map_or(site, |(_, end)| *end);
            node.for_each_operand(|operand| {
                if let Some(value) = operand.value() {
                    let at = value.index();
                    ends[at] = ends[at].max(until(starts[at]));
                }
            });
            if let Some(result) = node.result() {
                starts[result.index()] = site;
            }
            if let Some(local) = node.local() {
                let span = &mut local_spans[local.index()];
                span.0 = span.0.min(site);
                span.1 = span.1.max(until(span.0));
            }
            if matches!(node, Node::For { .. }) {
                loops.push((site, site + self.lines[site as usize].size));
            }
        });
        let values = (0..self.types.len())
            .filter(|at| !self.uniform[*at] && !self.again[*at] && starts[*at] < ends[*at])
            .map(|at| (starts[at], ends[at]));
        let locals = (0..self.locals.len())
            .filter(|at| !self.locals[*at].uniform && self.locals[*at].len.is_none())
            .map(|at| local_spans[at])
            .filter(|(start, end)| start < end);
        let mut changes = vec![0i32; self.lines.len() + 1];
        for (start, end) in values.chain(locals) {
            changes[start as usize] += 1;
            changes[end as usize] -= 1;
        }
        let alive = changes.iter().scan(0, |alive, change| {
            *alive += change;
            Some(*alive)
        });
        alive.max().unwrap_or(0) as u32
    }

    /// Whether some vector has 64-bit lanes: 64-bit values that are not scalars, and what is computed in f64.
    fn needs_wide(&self) -> bool {
        let is_wide = |ty: DataType| ty.bits() == 64;
        let vector = |ty: DataType, uniform: bool| is_wide(ty) && (ty.is_float() || !uniform);
        let mut wide = self.locals.iter().any(|local| vector(local.ty, local.uniform));
        walk(&self.parts.body.block, |_, _, node| {
            if self.is_wide_once(node) {
                return;
            }
            if let Some(result) = node.result() {
                wide |= vector(self.types[result.index()], self.uniform[result.index()]);
            }
            wide |= match node {
                Node::Compute { op: ComputeOp::Fma, ty: DataType::BF16, .. } => true,
                // Casts of literals and of uniform integers go through vectors.
                Node::Compute { op: ComputeOp::Cast, ty, args, .. } => {
                    let source = self.ty(args[0]);
                    is_wide(source) && ty.is_float() || is_wide(*ty) && source.is_float()
                }
                Node::Compute { ty, .. } => is_wide(*ty) && ty.is_float(),
                Node::Store { ty, .. } | Node::Atomic { ty, .. } | Node::Subgroup { ty, .. } => is_wide(*ty),
                _ => false,
            };
            node.for_each_operand(|operand| wide |= vector(self.ty(operand), self.is_uniform(operand)));
        });
        wide
    }

    /// Whether a line computes with one f64 for all lanes what is as good in a few lanes: `rsqrt` and others go through
    /// f64, and what they are asked for is often the same for all lanes.
    fn is_wide_once(&self, node: &Node) -> bool {
        let Node::Compute { result, op, ty, args } = node else { return false };
        let fits = match op {
            ComputeOp::Add | ComputeOp::Sub | ComputeOp::Mul | ComputeOp::Div | ComputeOp::Sqrt => {
                *ty == DataType::F64
            }
            ComputeOp::Cast => {
                matches!(
                    (self.ty(args[0]), ty),
                    (DataType::F32, DataType::F64) | (DataType::F64, DataType::F32)
                )
            }
            _ => false,
        };
        fits && self.uniform[result.index()]
    }

    /// Marks the lines that synchronise a workgroup, and what encloses them.
    fn mark_group_level(&mut self, block: &[Node], first: u32, loops: &mut Vec<u32>) -> bool {
        let mut any = false;
        let mut site = first;
        for node in block {
            let info = self.lines[site as usize];
            let mut marked = meets(node);
            if matches!(node, Node::For { .. }) {
                loops.push(site);
            }
            for (at, inner) in node.blocks().enumerate() {
                let start = if at == 0 { site + 1 } else { info.else_site };
                marked |= self.mark_group_level(inner, start, loops);
            }
            if matches!(node, Node::For { .. }) {
                loops.pop();
                if marked {
                    self.mark_jumps(node, site);
                }
            }
            self.lines[site as usize].at_group |= marked;
            any |= marked;
            site += info.size;
        }
        any
    }

    /// Marks loops between barriers that hand nothing from trip to trip but what is the same for all lanes: with the loop
    /// outside and the lanes inside, neighbours in memory are visited one after the other.
    fn mark_row_loops(&mut self, block: &'a [Node], first: u32) {
        let mut site = first;
        for node in block {
            let info = self.lines[site as usize];
            if info.at_group {
                for (at, inner) in node.blocks().enumerate() {
                    let start = if at == 0 { site + 1 } else { info.else_site };
                    self.mark_row_loops(inner, start);
                }
            } else if let Node::For { lo, hi, body, .. } = node {
                let uniform = self.is_uniform(*lo) && self.is_uniform(*hi);
                self.lines[site as usize].at_group = uniform && self.keeps_nothing(body, site);
            }
            site += info.size;
        }
    }

    /// Whether a loop's lines touch no varying local from outside, use no varying value from there that is not as cheap to
    /// compute again, and do not leave the loop.
    fn keeps_nothing(&self, body: &Block, site: u32) -> bool {
        let (mut own, mut holds) = (Vec::new(), true);
        let outside = |value: Value| self.sites[value.index()] < site;
        walk(body, |_, _, node| {
            if let Node::Var { local, .. } = node {
                own.push(*local);
            }
            holds &=
                node.local().is_none_or(|local| own.contains(&local) || self.locals[local.index()].uniform);
            holds &= !matches!(node, Node::Break | Node::Continue);
            node.for_each_operand(|operand| {
                holds &= operand.value().is_none_or(|value| {
                    !outside(value) || self.uniform[value.index()] || self.again[value.index()]
                });
            });
        });
        holds
    }

    /// Marks what leaves a group-level loop: each such line, and the `if`s around it.
    fn mark_jumps(&mut self, node: &Node, site: u32) -> bool {
        let info = self.lines[site as usize];
        let mut any = false;
        for (at, inner) in node.blocks().enumerate() {
            let mut inner_site = if at == 0 { site + 1 } else { info.else_site };
            for line in inner {
                let marked = match line {
                    Node::Break | Node::Continue => true,
                    Node::If { .. } => self.mark_jumps(line, inner_site),
                    _ => false,
                };
                self.lines[inner_site as usize].at_group |= marked;
                any |= marked;
                inner_site += self.lines[inner_site as usize].size;
            }
        }
        any
    }

    /// Finds which subtrees leave a loop around them, and which loops are left uniformly.
    fn find_jumps(&mut self, block: &[Node], first: u32, loops: &mut Vec<u32>, uniform: bool) -> bool {
        let mut leaves = false;
        let mut site = first;
        for node in block {
            let info = self.lines[site as usize];
            let this = match node {
                Node::Break | Node::Continue => {
                    if let Some(target) = loops.last() {
                        let target = &mut self.lines[*target as usize];
                        target.uniform_jumps &= uniform;
                        target.continues |= matches!(node, Node::Continue);
                    }
                    true
                }
                Node::If { cond, then, otherwise } => {
                    let under = uniform && self.is_uniform(*cond);
                    let then = self.find_jumps(then, site + 1, loops, under);
                    self.find_jumps(otherwise, info.else_site, loops, under) || then
                }
                Node::For { body, .. } => {
                    self.lines[site as usize].uniform_jumps = true;
                    loops.push(site);
                    self.find_jumps(body, site + 1, loops, true);
                    loops.pop();
                    false
                }
                _ => false,
            };
            self.lines[site as usize].leaves = this;
            leaves |= this;
            site += info.size;
        }
        leaves
    }

    /// Gives every run a number, and finds what is used outside the run it comes from.
    fn find_crossings(&mut self) {
        let mut runs = vec![0; self.lines.len()];
        number_runs(&self.lines, &self.parts.body.block, 0, &mut 0, &mut runs);
        let mut homes = vec![0; self.types.len()];
        let mut local_runs: Vec<Option<u32>> = vec![None; self.locals.len()];
        let parts = self.parts;
        walk(&parts.body.block, |site, _, node| {
            let run = runs[site as usize];
            if let Some(result) = node.result() {
                homes[result.index()] = run;
            }
            if let Some(local) = node.local() {
                let first = *local_runs[local.index()].get_or_insert(run);
                self.locals[local.index()].crosses |= first != run;
            }
        });
        walk(&parts.body.block, |site, _, node| {
            let run = runs[site as usize];
            node.for_each_operand(|operand| {
                let Some(value) = operand.value() else { return };
                let at = value.index();
                self.crosses[at] |= !self.uniform[at] && !self.again[at] && homes[at] != run;
            });
        });
        for local in &mut self.locals {
            local.crosses &= !local.uniform;
        }
    }

    fn find_cheap(&mut self) {
        let parts = self.parts;
        walk(&parts.body.block, |_, _, node| {
            if let Some(result) = node.result() {
                self.again[result.index()] = self.is_cheap(node);
            }
        });
    }

    /// How many vectors are in flight: enough for a subgroup to fit, and no more than registers hold or the workgroup's
    /// lanes have use for. Rows of lanes should not break inside a vector: then neighbours in memory are neighbours there.
    fn choose_vectors(&self, shape: Shape) -> u32 {
        let needed = self.parts.subgroup.unwrap_or(1).div_ceil(self.lanes).max(1);
        let (mut exchanges, mut loops, mut lines) = (false, false, 0);
        walk(&self.parts.body.block, |_, _, node| {
            exchanges |= matches!(node, Node::Subgroup { .. });
            loops |= matches!(node, Node::For { .. });
            let once = |value: Value| self.uniform[value.index()] || self.again[value.index()];
            lines += u32::from(!node.result().is_some_and(once));
        });
        let (row, all) = (self.parts.workgroup[0], self.parts.workgroup_lanes() as u32);
        let pressure = self.pressure().max(1);
        let fits = |vectors: u32| {
            let unbroken = row.is_multiple_of(self.lanes) || row == all;
            let used = all.is_multiple_of(vectors * self.lanes);
            // Without loops one group of lanes does not wait for another, and the processor has several under way by itself.
            let short = loops || vectors <= 2 && lines <= STRAIGHT_LINES_MAX;
            // Two hide each other's waits even where some of them must be spilled.
            let room = vectors <= 2 || vectors * pressure <= shape.registers;
            unbroken && used && short && room
        };
        // Subgroups mostly have stretches of memory of their own, and processors fetch one stretch ahead better than two.
        let most = match exchanges {
            _ if self.lines.len() >= LONG_LINES_MIN => 1,
            true => shape.vectors_max.min(needed.max(2)),
            false => shape.vectors_max,
        };
        let mut vectors = most.max(1);
        while vectors > 1 && !fits(vectors) {
            vectors /= 2;
        }
        vectors.max(needed)
    }

    /// Whether a value is as cheap to compute again as to load: places, and sums over them.
    fn is_cheap(&self, node: &Node) -> bool {
        match node {
            Node::Builtin { result, .. } => !self.uniform[result.index()],
            Node::Compute { op, ty, args, result } => {
                let simple = matches!(
                    op,
                    ComputeOp::Add
                        | ComputeOp::Sub
                        | ComputeOp::Mul
                        | ComputeOp::And
                        | ComputeOp::Or
                        | ComputeOp::Xor
                        | ComputeOp::Shl
                        | ComputeOp::Shr
                        | ComputeOp::Eq
                        | ComputeOp::Ne
                        | ComputeOp::Lt
                        | ComputeOp::Le
                        | ComputeOp::Gt
                        | ComputeOp::Ge
                ) && matches!(ty, DataType::U32 | DataType::I32);
                let known = |arg: &Operand| {
                    arg.value().is_none_or(|v: Value| self.uniform[v.index()] || self.again[v.index()])
                };
                simple && !self.uniform[result.index()] && args.iter().all(known)
            }
            _ => false,
        }
    }
}

/// Whether the lanes of a workgroup meet at this line. Subgroups are smaller than the vectors in flight, so their ops
/// and barriers need no meeting.
fn meets(node: &Node) -> bool {
    node.together().is_some_and(|lanes| lanes != MemoryOrdering::Subgroup)
}

/// Numbers runs in textual order; a group-level line has a number of its own.
fn number_runs(lines: &[LineInfo], block: &[Node], first: u32, next: &mut u32, runs: &mut [u32]) {
    let mut site = first;
    *next += 1;
    for node in block {
        let info = lines[site as usize];
        if info.at_group {
            *next += 1;
            runs[site as usize] = *next;
            for (at, inner) in node.blocks().enumerate() {
                let start = if at == 0 { site + 1 } else { info.else_site };
                number_runs(lines, inner, start, next, runs);
            }
            *next += 1;
        } else {
            runs[site as usize..(site + info.size) as usize].fill(*next);
        }
        site += info.size;
    }
}

/// The kind of buffer that a launch's table of addresses does not list: memory of the workgroup.
pub(super) fn is_workgroup(kind: &BufferKind) -> bool {
    matches!(kind, BufferKind::Workgroup)
}
