//! What is known about values at one point of a body.
//!
//! Beside its interval a value may have symbolic bounds: `value <= len(@b) + offset`. They come from `len`, from
//! dominating comparisons and from loop counters, and they are what proves an access to a buffer whose length only the
//! launch knows. Facts that a condition adds are undone where its block ends; facts about a value's own line hold
//! wherever the value can be read.

use super::interval::{Interval, compute, decide};
use crate::ir::{
    Args, Body, BufferId, BufferKind, BuiltinOp, ComputeOp, DataType, Literal, Local, Node, Operand, Value,
};
use crate::opt::edit::Surroundings;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// `value <= len(buffer) + offset`, as mathematical integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    buffer: BufferId,
    offset: i64,
}

type Bounds = SmallVec<[Bound; 2]>;

/// Bounds kept of one value; more would make long chains of `min` expensive.
const BOUNDS_MAX: usize = 4;
/// Parts of a condition that are looked into.
const CONDITION_PARTS_MAX: u32 = 32;

enum Undo {
    Interval(Value, Interval),
    Bounds(Value, Bounds),
    Length(BufferId, Interval),
}

pub(super) struct Env<'a> {
    around: &'a Surroundings<'a>,
    intervals: Vec<Interval>,
    pub(super) types: Vec<Option<DataType>>,
    bounds: FxHashMap<Value, Bounds>,
    /// Values that are a buffer's length.
    lengths_named: FxHashMap<Value, BufferId>,
    /// What is known of every buffer's length.
    lengths: Vec<Interval>,
    /// What the elements of every table are between, once asked.
    tables: Vec<Option<Interval>>,
    /// The comparisons and their connectives, to be looked into when a branch takes one side.
    conditions: FxHashMap<Value, (ComputeOp, DataType, Args)>,
    arrays: Vec<Option<u32>>,
    log: Vec<Undo>,
}

impl<'a> Env<'a> {
    pub(super) fn new(around: &'a Surroundings<'a>, body: &Body) -> Env<'a> {
        let length = |len: Option<u32>| match len {
            Some(len) => Interval::only(i128::from(len)),
            None => Interval::full(DataType::U32),
        };
        let mut env = Env {
            around,
            intervals: vec![Interval::ANY; body.values.len()],
            types: vec![None; body.values.len()],
            bounds: FxHashMap::default(),
            lengths_named: FxHashMap::default(),
            lengths: around.buffers.iter().map(|buffer| length(buffer.len)).collect(),
            tables: vec![None; around.buffers.len()],
            conditions: FxHashMap::default(),
            arrays: vec![None; body.locals.len()],
            log: Vec::new(),
        };
        for (param, ty) in around.function.iter().flat_map(|function| &function.params) {
            env.intervals[param.index()] = Interval::full(*ty);
            env.types[param.index()] = Some(*ty);
        }
        env
    }

    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Forgets what conditions have added since the mark.
    pub(super) fn back_to(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop().expect("longer than the mark") {
                Undo::Interval(value, before) => self.intervals[value.index()] = before,
                Undo::Bounds(value, before) => {
                    self.bounds.insert(value, before);
                }
                Undo::Length(buffer, before) => self.lengths[buffer.index()] = before,
            }
        }
    }

    pub(super) fn interval(&self, operand: Operand) -> Interval {
        match operand {
            Operand::Value(value) => self.intervals[value.index()],
            Operand::Literal(literal) => Interval::literal(literal),
        }
    }

    /// The literal that an operand certainly is.
    pub(super) fn constant(&self, operand: Operand) -> Option<Literal> {
        let value = operand.value()?;
        let ty = self.types[value.index()]?;
        let only = self.intervals[value.index()].single()?;
        Some(Literal::from_bits(ty, only as u64))
    }

    fn bounds_of(&self, operand: Operand) -> Bounds {
        operand.value().and_then(|value| self.bounds.get(&value)).cloned().unwrap_or_default()
    }

    /// Notes what a line says about the value it assigns.
    pub(super) fn define(&mut self, node: &Node) {
        if let Node::Var { local, len, .. } = node {
            self.arrays[local.index()] = *len;
        }
        let Some(result) = node.result() else { return };
        let ty = self.around.result_type(node);
        self.types[result.index()] = ty;
        let interval = self.result_interval(node);
        self.intervals[result.index()] = interval;
        let mut bounds = Bounds::new();
        if let Node::Compute { op, ty, args, .. } = node {
            if *ty == DataType::Bool || op.info().result.under(*ty) == Some(DataType::Bool) {
                self.conditions.insert(result, (*op, *ty, args.clone()));
            }
            bounds = self.computed_bounds(*op, *ty, args);
        } else if let Node::Len { buffer, .. } = node {
            self.lengths_named.insert(result, *buffer);
            bounds.push(Bound { buffer: *buffer, offset: 0 });
        } else if let Node::For { hi, .. } = node {
            // In the body the counter is below the bound.
            bounds = shifted(&self.bounds_of(*hi), -1);
        }
        if !bounds.is_empty() {
            self.bounds.insert(result, bounds);
        }
    }

    fn result_interval(&mut self, node: &Node) -> Interval {
        match node {
            Node::Compute { op, ty, args, .. } => self.computed(*op, *ty, args),
            Node::Builtin { op, axis, .. } => self.builtin(*op, axis.map(|axis| axis.index())),
            Node::Len { buffer, .. } => self.lengths[buffer.index()],
            Node::Load { ty, buffer, .. } => self.loaded(*ty, *buffer),
            Node::For { lo, hi, .. } => {
                let (lo, hi) = (self.interval(*lo), self.interval(*hi));
                Interval::new(lo.lo, (hi.hi - 1).max(lo.lo))
            }
            Node::UniformLoad { ty, .. } => Interval::full(*ty),
            // Nothing is known of what other lines give but its type.
            other => self.around.result_type(other).map_or(Interval::ANY, Interval::full),
        }
    }

    fn computed(&self, op: ComputeOp, ty: DataType, args: &Args) -> Interval {
        let intervals: SmallVec<[Interval; 4]> = args.iter().map(|arg| self.interval(*arg)).collect();
        match op {
            ComputeOp::Eq | ComputeOp::Ne | ComputeOp::Lt | ComputeOp::Le | ComputeOp::Gt | ComputeOp::Ge => {
                let decided = match ty.is_float() {
                    true => None,
                    false => decide(op, intervals[0], intervals[1])
                        .or_else(|| self.decide_by_bounds(op, args[0], args[1])),
                };
                decided.map_or(Interval::full(DataType::Bool), |holds| Interval::only(i128::from(holds)))
            }
            ComputeOp::IsNan | ComputeOp::IsInf => Interval::full(DataType::Bool),
            _ => compute(op, ty, &intervals),
        }
    }

    /// Decides a comparison with a buffer's length.
    fn decide_by_bounds(&self, op: ComputeOp, a: Operand, b: Operand) -> Option<bool> {
        let at_most = |x: Operand, len: Operand, offset: i64| {
            let Some(buffer) = len.value().and_then(|len| self.lengths_named.get(&len)) else { return false };
            self.bounds_of(x).iter().any(|bound| bound.buffer == *buffer && bound.offset <= offset)
        };
        match op {
            ComputeOp::Lt if at_most(a, b, -1) => Some(true),
            ComputeOp::Ge if at_most(a, b, -1) => Some(false),
            ComputeOp::Le if at_most(a, b, 0) => Some(true),
            ComputeOp::Gt if at_most(a, b, 0) => Some(false),
            ComputeOp::Gt if at_most(b, a, -1) => Some(true),
            ComputeOp::Le if at_most(b, a, -1) => Some(false),
            ComputeOp::Ge if at_most(b, a, 0) => Some(true),
            ComputeOp::Lt if at_most(b, a, 0) => Some(false),
            _ => None,
        }
    }

    fn builtin(&self, op: BuiltinOp, axis: Option<usize>) -> Interval {
        let below = |count: u64| Interval::new(0, i128::from(count.max(1)) - 1);
        let lanes = self.around.lanes();
        let of_axis = axis.map_or(1, |axis| self.around.workgroup[axis]);
        // A launch has at most 2^32 - 1 lanes, so the last one is at 2^32 - 2.
        let position = below((1 << 32) - 1);
        match op {
            BuiltinOp::WorkgroupSize => Interval::only(i128::from(of_axis)),
            BuiltinOp::LocalId => below(u64::from(of_axis)),
            BuiltinOp::LocalIndex => below(lanes),
            BuiltinOp::SubgroupLane => self.around.subgroup.map_or(position, |width| below(u64::from(width))),
            BuiltinOp::SubgroupIndex => match self.around.subgroup {
                Some(width) if width > 0 => below(lanes / u64::from(width)),
                _ => position,
            },
            BuiltinOp::NumWorkgroups => Interval::new(1, (1 << 32) - 1),
            BuiltinOp::GlobalId
            | BuiltinOp::WorkgroupId
            | BuiltinOp::GlobalIndex
            | BuiltinOp::WorkgroupIndex => position,
        }
    }

    /// What a load may give: what the element type holds, or the elements of a table and 0.
    fn loaded(&mut self, ty: DataType, buffer: BufferId) -> Interval {
        let declared = self.around.buffer(buffer);
        let BufferKind::Table { data } = &declared.kind else { return Interval::full(ty) };
        if ty != declared.ty || ty.is_float() {
            return Interval::full(ty);
        }
        *self.tables[buffer.index()].get_or_insert_with(|| {
            let elements = data.iter().map(|bits| Interval::literal(Literal::from_bits(ty, *bits)));
            elements.fold(Interval::only(0), Interval::hull)
        })
    }

    fn computed_bounds(&self, op: ComputeOp, ty: DataType, args: &Args) -> Bounds {
        if ty.is_float() || self.bounds.is_empty() {
            return Bounds::new();
        }
        let interval = |at: usize| self.interval(args[at]);
        let of = |at: usize| self.bounds_of(args[at]);
        match op {
            ComputeOp::Add if sum(interval(0), interval(1)).fits(ty) => {
                both(shifted(&of(0), interval(1).hi), shifted(&of(1), interval(0).hi))
            }
            ComputeOp::Sub if difference(interval(0), interval(1)).fits(ty) => {
                shifted(&of(0), -interval(1).lo)
            }
            // None of these exceeds its first operand, if that is not negative.
            ComputeOp::Shr | ComputeOp::Div | ComputeOp::SubSat if !ty.is_signed() => of(0),
            ComputeOp::Rem if !ty.is_signed() && interval(1).lo >= 1 => both(of(0), shifted(&of(1), -1)),
            ComputeOp::Rem if !ty.is_signed() => of(0),
            ComputeOp::And if !ty.is_signed() => both(of(0), of(1)),
            ComputeOp::Min => both(of(0), of(1)),
            ComputeOp::Clamp => of(2),
            ComputeOp::Max => either(&of(0), &of(1)),
            ComputeOp::Select => either(&of(1), &of(2)),
            ComputeOp::Cast | ComputeOp::Bitcast if interval(0).fits(ty) => of(0),
            _ => Bounds::new(),
        }
    }

    /// Adds what follows from a condition having that truth, until `back_to`.
    pub(super) fn assume(&mut self, cond: Operand, truth: bool) {
        let mut parts_left = CONDITION_PARTS_MAX;
        self.assume_part(cond, truth, &mut parts_left);
    }

    fn assume_part(&mut self, cond: Operand, truth: bool, parts_left: &mut u32) {
        let Operand::Value(value) = cond else { return };
        if *parts_left == 0 {
            return;
        }
        *parts_left -= 1;
        self.narrow(cond, Interval::only(i128::from(truth)));
        let Some((op, ty, args)) = self.conditions.get(&value).cloned() else { return };
        match (op, truth) {
            (ComputeOp::Not, _) => self.assume_part(args[0], !truth, parts_left),
            (ComputeOp::And, true) | (ComputeOp::Or, false) => {
                self.assume_part(args[0], truth, parts_left);
                self.assume_part(args[1], truth, parts_left);
            }
            _ if ty.is_float() || ty == DataType::Bool => {}
            (ComputeOp::Lt, true) | (ComputeOp::Ge, false) => self.assume_less(args[0], args[1], 1),
            (ComputeOp::Gt, true) | (ComputeOp::Le, false) => self.assume_less(args[1], args[0], 1),
            (ComputeOp::Le, true) | (ComputeOp::Gt, false) => self.assume_less(args[0], args[1], 0),
            (ComputeOp::Ge, true) | (ComputeOp::Lt, false) => self.assume_less(args[1], args[0], 0),
            (ComputeOp::Eq, true) | (ComputeOp::Ne, false) => {
                self.assume_less(args[0], args[1], 0);
                self.assume_less(args[1], args[0], 0);
            }
            (ComputeOp::Ne, true) | (ComputeOp::Eq, false) => {
                self.assume_unequal(args[0], args[1]);
                self.assume_unequal(args[1], args[0]);
            }
            _ => {}
        }
    }

    /// `a + gap <= b`.
    fn assume_less(&mut self, a: Operand, b: Operand, gap: i128) {
        let (low, high) = (self.interval(a), self.interval(b));
        self.narrow(a, Interval::new(low.lo, high.hi - gap));
        self.narrow(b, Interval::new(low.lo + gap, high.hi));
        let more = shifted(&self.bounds_of(b), -gap);
        if let (Operand::Value(value), false) = (a, more.is_empty()) {
            let before = self.bounds_of(a);
            self.bounds.insert(value, both(more, before.clone()));
            self.log.push(Undo::Bounds(value, before));
        }
    }

    fn assume_unequal(&mut self, a: Operand, b: Operand) {
        let Some(other) = self.interval(b).single() else { return };
        let Interval { lo, hi } = self.interval(a);
        self.narrow(a, Interval::new(lo + i128::from(lo == other), hi - i128::from(hi == other)));
    }

    fn narrow(&mut self, operand: Operand, to: Interval) {
        let Operand::Value(value) = operand else { return };
        let before = self.intervals[value.index()];
        // Nothing left means that this line never runs; then every fact is as good as another.
        let Some(narrowed) = before.meet(to).filter(|narrowed| *narrowed != before) else { return };
        self.intervals[value.index()] = narrowed;
        self.log.push(Undo::Interval(value, before));
        if let Some(&buffer) = self.lengths_named.get(&value) {
            let length = self.lengths[buffer.index()];
            if let Some(narrowed) = length.meet(to) {
                self.lengths[buffer.index()] = narrowed;
                self.log.push(Undo::Length(buffer, length));
            }
        }
    }

    /// Whether `count` elements from `index` on certainly lie in the buffer.
    pub(super) fn in_buffer(&self, buffer: BufferId, index: Operand, count: u64) -> bool {
        let count = i128::from(count);
        self.interval(index).hi + count <= self.lengths[buffer.index()].lo
            || (self.bounds_of(index).iter())
                .any(|bound| bound.buffer == buffer && i128::from(bound.offset) + count <= 0)
    }

    /// Whether an element of a private array certainly exists.
    pub(super) fn in_array(&self, local: Local, index: Operand) -> bool {
        self.arrays[local.index()].is_some_and(|len| self.interval(index).hi < i128::from(len))
    }
}

fn sum(a: Interval, b: Interval) -> Interval {
    Interval::new(a.lo + b.lo, a.hi + b.hi)
}

fn difference(a: Interval, b: Interval) -> Interval {
    Interval::new(a.lo - b.hi, a.hi - b.lo)
}

/// The bounds of a value that is greater by at most `by`.
fn shifted(bounds: &Bounds, by: i128) -> Bounds {
    let Ok(by) = i64::try_from(by) else { return Bounds::new() };
    let shift = |bound: &Bound| {
        // Far offsets prove nothing and would only overflow.
        let offset = bound.offset.checked_add(by).filter(|offset| offset.unsigned_abs() < 1 << 40)?;
        Some(Bound { buffer: bound.buffer, offset })
    };
    bounds.iter().filter_map(shift).collect()
}

/// The bounds of a value that keeps both lists: the tighter where they speak of one buffer.
fn both(a: Bounds, b: Bounds) -> Bounds {
    let mut all = a;
    for bound in b {
        match all.iter().position(|known| known.buffer == bound.buffer) {
            Some(at) => all[at].offset = all[at].offset.min(bound.offset),
            None if all.len() < BOUNDS_MAX => all.push(bound),
            None => {}
        }
    }
    all
}

/// The bounds of a value that keeps one list or the other: the looser where both speak of one buffer.
fn either(a: &Bounds, b: &Bounds) -> Bounds {
    let pair = |bound: &Bound| {
        let other = b.iter().find(|other| other.buffer == bound.buffer)?;
        Some(Bound { buffer: bound.buffer, offset: bound.offset.max(other.offset) })
    };
    a.iter().filter_map(pair).collect()
}
