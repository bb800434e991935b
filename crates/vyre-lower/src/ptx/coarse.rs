//! Several lanes in one thread.
//!
//! A thread that runs four neighbours along x reads and writes 16 bytes at once and has four chains of arithmetic in
//! flight. Lanes that never meet may run in any order, also line by line beside each other, so a program without barriers,
//! subgroups and workgroup memory can be run so. Where a condition on the lanes' places (`id < len`, most often) divides
//! them, the thread starts again and takes them one by one, which is why such a condition may only stand before everything
//! that has an effect. Where their data divide them, each takes its own way in turn, as far as the branch goes.
//!
//! Not here: lanes whose data divide them for long or with effects, by loops and stores. They stay one to a thread, as the
//! hardware wants them.

use crate::index::{Multiples, grows_along_x, stride};
use smallvec::SmallVec;
use vyre_foundation::ir::{
    Axis, Block, BufferKind, BuiltinOp, ComputeOp, DataType, Effect, Node, Operand, ProgramParts, Value, walk,
};

/// Lines that a thread's lanes may have together: beyond, registers run out. Measured with elementary functions on an H200.
const LINES_MAX: usize = 360;
/// What a quotient and a root in f64 count for, and a branch that lanes take apart: over it nothing of the next lane begins.
const QUOTIENT_LINES: usize = 32;
const ROOT_LINES: usize = 37;
const BRANCH_LINES: usize = 16;
/// Trips of a loop that lanes may take one after the other.
const TRIPS_MAX: u64 = 64;
/// Threads of a workgroup on the device.
const THREADS: u32 = 256;

/// How a value differs among the lanes of a thread, from the least to the most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Shape {
    /// Not at all.
    Uniform,
    /// One more for each lane.
    Linear,
    /// By the lane's place.
    Placed,
    /// By what the lane read.
    Data,
}

/// What a thread of several lanes must know.
pub(super) struct Coarse {
    /// Lanes of a thread.
    pub(super) lanes: u32,
    /// Threads of a workgroup on the device, along x, y and z.
    pub(super) block: [u32; 3],
    shapes: Vec<Shape>,
    /// What divides values in the first lane.
    multiples: Option<Multiples>,
    locals: Vec<bool>,
}

impl Coarse {
    /// One lane to a thread.
    pub(super) fn none(parts: &ProgramParts) -> Coarse {
        let (values, locals) = (parts.body.values.len(), parts.body.locals.len());
        Coarse {
            lanes: 1,
            block: parts.workgroup,
            shapes: vec![Shape::Uniform; values],
            multiples: None,
            locals: vec![false; locals],
        }
    }

    /// The plan for a program, where one pays.
    pub(super) fn plan(parts: &ProgramParts) -> Option<Coarse> {
        let widest = wide_access(parts)?;
        let apart = parts.buffers.iter().any(|buffer| matches!(buffer.kind, BufferKind::Workgroup));
        if apart || parts.subgroup.is_some() {
            return None;
        }
        [4, 2].into_iter().filter(|lanes| lanes * widest <= 16).find_map(|lanes| Coarse::of(parts, lanes))
    }

    /// The plan with so many lanes in a thread.
    fn of(parts: &ProgramParts, lanes: u32) -> Option<Coarse> {
        let ([x, y, z], block) = (parts.workgroup, &parts.body.block);
        let mut plan =
            Coarse { lanes, multiples: Some(Multiples::find(parts, lanes)), ..Coarse::none(parts) };
        while plan.spread(block, false) {}
        let fits = x.is_multiple_of(lanes) && plan.lines(block) * lanes as usize <= LINES_MAX;
        if !fits || !plan.has_wide_access(block) || !plan.is_possible(block, 0, &mut false) {
            return None;
        }
        // Whole workgroups of the program, side by side along x.
        let together = (THREADS * lanes / parts.workgroup_lanes() as u32).max(1);
        plan.block = [x * together / lanes, y, z];
        Some(plan)
    }

    pub(super) fn shape(&self, operand: Operand) -> Shape {
        operand.value().map_or(Shape::Uniform, |value| self.shapes[value.index()])
    }

    /// Whether a value is a multiple of `lanes` in the first lane.
    pub(super) fn is_aligned(&self, operand: Operand) -> bool {
        self.multiples.as_ref().is_some_and(|multiples| multiples.of(operand) >= self.lanes)
    }

    /// Whether lanes have different values in the local.
    pub(super) fn is_spread(&self, local: usize) -> bool {
        self.locals[local]
    }

    /// Whether a line is emitted once for each lane of a thread.
    pub(super) fn is_repeated(&self, node: &Node) -> bool {
        match node {
            Node::Store { .. } | Node::Atomic { .. } => true,
            Node::Var { local, .. } | Node::Set { local, .. } => self.is_spread(local.index()),
            other => other.result().is_some_and(|value| self.shapes[value.index()] != Shape::Uniform),
        }
    }

    fn raise(&mut self, value: Value, shape: Shape) -> bool {
        let old = &mut self.shapes[value.index()];
        let raised = shape > *old;
        *old = shape.max(*old);
        raised
    }

    /// Lines that a thread's lanes have beside each other.
    fn lines(&self, block: &Block) -> usize {
        let of = |node: &Node| match node {
            Node::If { cond, .. } if self.shape(*cond) == Shape::Data => BRANCH_LINES,
            Node::Compute { op: ComputeOp::Div, ty: DataType::F64, .. } => QUOTIENT_LINES,
            Node::Compute { op: ComputeOp::Sqrt, ty: DataType::F64, .. } => ROOT_LINES,
            other => 1 + other.blocks().map(|inner| self.lines(inner)).sum::<usize>(),
        };
        block.iter().map(of).sum()
    }

    /// One walk that finds more values and locals to differ; false once there are none. `apart` where lanes go their own ways.
    fn spread(&mut self, block: &Block, apart: bool) -> bool {
        let mut changed = false;
        for node in block {
            changed |= match node {
                Node::Compute { result, op, ty, args } => {
                    let shape = self.computed(*op, *ty, args);
                    self.raise(*result, shape)
                }
                Node::Builtin { result, op, axis } => {
                    let shape = place(*op, *axis);
                    self.raise(*result, shape)
                }
                Node::Load { result, index, .. } => {
                    let uniform = self.shape(*index) == Shape::Uniform;
                    self.raise(*result, if uniform { Shape::Uniform } else { Shape::Data })
                }
                Node::Atomic { result: Some(result), .. } => self.raise(*result, Shape::Data),
                Node::Get { result, local, .. } if self.is_spread(local.index()) => {
                    self.raise(*result, Shape::Data)
                }
                Node::Var { local, init: value, .. } | Node::Set { local, value, .. } => {
                    let differs = apart || self.shape(*value) != Shape::Uniform;
                    let spread = differs && !self.is_spread(local.index());
                    self.locals[local.index()] |= spread;
                    spread
                }
                other => {
                    let apart =
                        apart || matches!(other, Node::If { cond, .. } if self.shape(*cond) == Shape::Data);
                    other.blocks().filter(|inner| self.spread(inner, apart)).count() > 0
                }
            };
        }
        changed
    }

    fn computed(&self, op: ComputeOp, ty: DataType, args: &[Operand]) -> Shape {
        let most = args.iter().map(|arg| self.shape(*arg)).max().unwrap_or(Shape::Uniform);
        if most != Shape::Linear {
            return most;
        }
        let strides: SmallVec<[u32; 4]> = args.iter().map(|arg| self.shape(*arg) as u32).collect();
        let constant = |at: usize| args[at].literal().map(|literal| literal.bits() as u32);
        let narrow = matches!(ty, DataType::U32 | DataType::I32);
        match stride(op, &strides, constant).filter(|_| narrow) {
            Some(1) => Shape::Linear,
            Some(_) | None => Shape::Placed,
        }
    }

    /// Whether flow can be shared: `effect` tells whether something before may have had one.
    fn is_possible(&self, block: &Block, depth: usize, effect: &mut bool) -> bool {
        block.iter().all(|node| match node {
            Node::If { cond, then, otherwise } if self.shape(*cond) == Shape::Data => {
                [then, otherwise].iter().all(|arm| arm.iter().all(is_quick))
            }
            Node::If { cond, then, otherwise } => {
                let shared = match self.shape(*cond) {
                    Shape::Uniform => true,
                    Shape::Linear | Shape::Placed => depth == 0 && !*effect,
                    Shape::Data => unreachable!("the case before"),
                };
                // Both arms start from the same past; what follows has both behind it.
                let mut in_else = *effect;
                let possible = shared
                    && self.is_possible(then, depth, effect)
                    && self.is_possible(otherwise, depth, &mut in_else);
                *effect |= in_else;
                possible
            }
            Node::For { lo, hi, body, .. } => {
                let uniform = [lo, hi].iter().all(|bound| self.shape(**bound) == Shape::Uniform);
                uniform && self.is_possible(body, depth + 1, effect)
            }
            Node::Var { len: Some(_), .. } => false,
            other => match other.effect() {
                Effect::Writes | Effect::Traps => {
                    *effect = true;
                    true
                }
                Effect::Exchanges | Effect::Orders | Effect::OrdersAndWrites | Effect::Calls => false,
                Effect::Pure
                | Effect::Reads
                | Effect::Gets
                | Effect::Sets
                | Effect::Controls
                | Effect::Launches => true,
            },
        })
    }

    /// Whether some access is of neighbours.
    fn has_wide_access(&self, block: &Block) -> bool {
        let mut found = false;
        walk(block, |_, _, node| {
            if let Node::Load { index, .. } | Node::Store { index, .. } = node {
                found |= self.shape(*index) == Shape::Linear;
            }
        });
        found
    }
}

/// Whether lanes may do it one after the other: without effects, and without long loops, in which they would wait for each
/// other.
fn is_quick(node: &Node) -> bool {
    match node {
        Node::If { then, otherwise, .. } => [then, otherwise].iter().all(|arm| arm.iter().all(is_quick)),
        Node::For { lo, hi, body, .. } => {
            let trips = lo.literal().zip(hi.literal()).map(|(lo, hi)| hi.bits().saturating_sub(lo.bits()));
            trips.is_some_and(|trips| trips <= TRIPS_MAX) && body.iter().all(is_quick)
        }
        Node::Var { len, .. } => len.is_none(),
        Node::Get { index, .. } | Node::Set { index, .. } => index.is_none(),
        other => matches!(other.effect(), Effect::Pure | Effect::Reads),
    }
}

/// How a place in the grid differs along a thread's lanes.
fn place(op: BuiltinOp, axis: Option<Axis>) -> Shape {
    match op {
        _ if grows_along_x(op, axis) => Shape::Linear,
        BuiltinOp::SubgroupLane | BuiltinOp::SubgroupIndex => Shape::Placed,
        _ => Shape::Uniform,
    }
}

/// Bytes of the widest element that lines read from or write to storage, if there are such lines.
fn wide_access(parts: &ProgramParts) -> Option<u32> {
    let mut widest = None;
    walk(&parts.body.block, |_, _, node| {
        if let Node::Load { buffer, .. } | Node::Store { buffer, .. } = node
            && !matches!(parts.buffer(*buffer).kind, BufferKind::Table { .. })
        {
            widest = widest.max(Some(parts.buffer(*buffer).ty.bytes() as u32));
        }
    });
    widest
}
