//! Ops that a target lacks, as lines of ops that it has.
//!
//! | op | becomes | where |
//! | --- | --- | --- |
//! | `clamp` | `max` and `min` | everywhere |
//! | `mma` | loops over the elements | where [`Target::products`] has no instruction for it |
//! | `subgroup_reduce_*`, `subgroup_inclusive_*`, `subgroup_exclusive_*` of floats | shuffles and the op that they fold with | where that op is a software float |
//! | `subgroup_exclusive_*` | the inclusive scan and a shuffle | where [`Target::exclusive_scans`] is not set |
//! | `all_reduce`, `all_gather`, `reduce_scatter`, `broadcast` | copies between two grid barriers | everywhere: a device is one rank |
//!
//! Not here, but in the emitters: ops whose expansion needs what a program cannot say. Saturation, bit fields and 64-bit
//! integers hide constants from the compilers below, which miscompile the patterns; other subgroup ops exchange through
//! workgroup memory in loops that those compilers must not unroll.

use super::Target;
use vyre_foundation::ir::{
    Args, Axis, Block, Body, BufferId, BuiltinOp, ComputeOp, DataType, Literal, MemoryOrdering, Node,
    Operand, ProgramParts, ReduceOp, SubgroupOp, Sweep, Tile, Value, collective, walk,
};
use vyre_foundation::opt::Draft;
use vyre_foundation::scalar::identity;

/// Rewrites the ops that the target lacks. Whether there is something to tidy: all but `clamp` leaves it.
pub(super) fn legalise(draft: &mut Draft<'_>, target: &Target<'_>) -> bool {
    let parts = draft.parts();
    let legaliser = |body: &Body| Legaliser {
        parts,
        target,
        out: Body { block: Block::new(), values: body.values.clone(), locals: body.locals.clone() },
        untidy: false,
    };
    let mut untidy = false;
    let mut rewrite = |body: &Body| {
        if !has_illegal(&body.block, parts, target) {
            return None;
        }
        let mut legaliser = legaliser(body);
        legaliser.out.block = legaliser.block(&body.block);
        untidy |= legaliser.untidy;
        Some(legaliser.out)
    };
    let body = rewrite(&parts.body);
    let functions: Vec<Option<Body>> =
        parts.functions.iter().map(|function| rewrite(&function.body)).collect();
    if body.is_none() && functions.iter().all(Option::is_none) {
        return false;
    }
    let parts = draft.parts_mut();
    for (function, body) in parts.functions.iter_mut().zip(functions) {
        if let Some(body) = body {
            function.body = body;
        }
    }
    if let Some(body) = body {
        parts.body = body;
    }
    draft.check("legalise");
    untidy
}

fn has_illegal(block: &Block, parts: &ProgramParts, target: &Target<'_>) -> bool {
    let mut found = false;
    walk(block, |_, _, node| {
        found = found
            || match node {
                Node::Compute { op, .. } => *op == ComputeOp::Clamp,
                Node::Mma { .. } => !target.products.has(parts, node),
                Node::Subgroup { op, ty, .. } => sweep_to_expand(*op, *ty, target).is_some(),
                collective!() => true,
                _ => false,
            };
    });
    found
}

/// What a subgroup op folds with, and how far, if the target lacks it.
fn sweep_to_expand(op: SubgroupOp, ty: DataType, target: &Target<'_>) -> Option<(Sweep, ReduceOp)> {
    let (sweep, fold) = op.fold()?;
    let native = !ty.is_float() || target.floats.has_type(ty) && target.floats.has_op(fold.op(), ty, ty);
    (!native || sweep == Sweep::Exclusive && !target.exclusive_scans).then_some((sweep, fold))
}

struct Legaliser<'a> {
    parts: &'a ProgramParts,
    target: &'a Target<'a>,
    /// The rewritten body; its block is the one being written.
    out: Body,
    untidy: bool,
}

const U32: DataType = DataType::U32;

const fn word(bits: u32) -> Operand {
    Operand::Literal(Literal::u32(bits))
}

impl Legaliser<'_> {
    fn block(&mut self, block: &Block) -> Block {
        self.nested(|this| block.iter().for_each(|node| this.node(node)))
    }

    /// The lines that `write` writes.
    fn nested(&mut self, write: impl FnOnce(&mut Self)) -> Block {
        let outer = std::mem::take(&mut self.out.block);
        write(self);
        std::mem::replace(&mut self.out.block, outer)
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Compute { result, op: ComputeOp::Clamp, ty, args } => {
                let raised = self.op(ComputeOp::Max, *ty, [args[0], args[1]]);
                let args = Args::from_slice(&[raised, args[2]]);
                self.push(Node::Compute { result: *result, op: ComputeOp::Min, ty: *ty, args });
            }
            Node::Mma { m, n, k, c, a, b } if !self.target.products.has(self.parts, node) => {
                self.untidy = true;
                self.product([*m, *n, *k], [*c, *a, *b]);
            }
            Node::Subgroup { result, op, ty, args } => match sweep_to_expand(*op, *ty, self.target) {
                Some((sweep, fold)) => {
                    self.untidy = true;
                    self.fold(*result, (sweep, fold), *ty, args[0]);
                }
                None => self.push(node.clone()),
            },
            Node::AllReduce { ty, dst, src, .. }
            | Node::AllGather { ty, dst, src }
            | Node::ReduceScatter { ty, dst, src, .. }
            | Node::Broadcast { ty, dst, src, .. } => {
                self.untidy = true;
                self.copy(*ty, *dst, *src);
            }
            Node::If { cond, then, otherwise } => {
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                self.push(Node::If { cond: *cond, then, otherwise });
            }
            Node::For { counter, lo, hi, step, body } => {
                let body = self.block(body);
                self.push(Node::For { counter: *counter, lo: *lo, hi: *hi, step: *step, body });
            }
            other => self.push(other.clone()),
        }
    }

    fn push(&mut self, node: Node) {
        self.out.block.push(node);
    }

    /// Writes a line with a new value, and gives the value.
    fn assign(&mut self, name: &str, line: impl FnOnce(Value) -> Node) -> Operand {
        let result = self.out.new_value(name);
        self.push(line(result));
        result.into()
    }

    fn op<const N: usize>(&mut self, op: ComputeOp, ty: DataType, args: [Operand; N]) -> Operand {
        self.assign("t", |result| Node::Compute { result, op, ty, args: args.into_iter().collect() })
    }

    fn builtin(&mut self, op: BuiltinOp, axis: Option<Axis>) -> Operand {
        self.assign("at", |result| Node::Builtin { result, op, axis })
    }

    fn len(&mut self, buffer: BufferId) -> Operand {
        self.assign("len", |result| Node::Len { result, buffer })
    }

    fn load(&mut self, ty: DataType, buffer: BufferId, index: Operand) -> Operand {
        self.assign("x", |result| Node::Load { result, ty, buffer, index })
    }

    fn repeat(&mut self, [lo, hi]: [Operand; 2], step: u32, body: impl FnOnce(&mut Self, Operand)) {
        let counter = self.out.new_value("each");
        let body = self.nested(|this| body(this, counter.into()));
        self.push(Node::For { counter, lo, hi, step, body });
    }

    fn lanes(&self) -> u32 {
        self.parts.workgroup_lanes() as u32
    }

    /// Each lane computes every nth element of the tile, where n is the number of lanes.
    fn product(&mut self, [m, n, k]: [u32; 3], [c, a, b]: [Tile; 3]) {
        let (lane, step) = (self.builtin(BuiltinOp::LocalIndex, None), self.lanes());
        self.push(Node::Barrier { ordering: MemoryOrdering::Workgroup });
        self.repeat([lane, word(m * n)], step, |this, each| {
            let row = this.op(ComputeOp::Div, U32, [each, word(n)]);
            let column = this.op(ComputeOp::Rem, U32, [each, word(n)]);
            let [row, column] = [row, column].map(|at| this.op(ComputeOp::Mul, U32, [at, word(k)]));
            let to = this.index(c.offset, each, m * n);
            let start = this.load(DataType::I32, c.buffer, to);
            let local = this.out.new_local("sum");
            let ty = DataType::I32;
            this.push(Node::Var { local, ty, len: None, init: start });
            this.repeat([word(0), word(k)], 1, |this, l| {
                let [x, y] = [(a, row, m), (b, column, n)].map(|(tile, first, rows)| {
                    let at = this.op(ComputeOp::Add, U32, [first, l]);
                    let at = this.index(tile.offset, at, rows * k);
                    this.load(DataType::I8, tile.buffer, at)
                });
                let product = this.op(ComputeOp::Mul, ty, [x, y]);
                let before = this.assign("sum", |result| Node::Get { result, ty, local, index: None });
                let value = this.op(ComputeOp::Add, ty, [before, product]);
                this.push(Node::Set { ty, local, index: None, value });
            });
            let value = this.assign("sum", |result| Node::Get { result, ty, local, index: None });
            this.push(Node::Store { ty, buffer: c.buffer, index: to, value });
        });
        self.push(Node::Barrier { ordering: MemoryOrdering::Workgroup });
    }

    /// The index of a tile's element, which is below `size`. Beyond the last index it stays out of bounds.
    fn index(&mut self, offset: Operand, element: Operand, size: u32) -> Operand {
        let literal = offset.literal().map(|offset| offset.bits() as u32);
        if literal == Some(0) {
            return element;
        }
        let sum = self.op(ComputeOp::Add, U32, [offset, element]);
        if literal.is_some_and(|offset| offset.checked_add(size).is_some()) {
            return sum;
        }
        let wraps = self.op(ComputeOp::Lt, U32, [sum, offset]);
        self.op(ComputeOp::Select, U32, [wraps, word(u32::MAX), sum])
    }

    /// Reduces by `x = x op xor_shuffle(x, d)`, scans by `x = up(x, d) op x` where lane >= d, for d = 1, 2, 4, ...
    fn fold(&mut self, result: Value, (sweep, fold): (Sweep, ReduceOp), ty: DataType, mut x: Operand) {
        let width = self.parts.subgroup.expect("validated: subgroup ops have a declared width");
        let lane = self.builtin(BuiltinOp::SubgroupLane, None);
        let native = sweep_to_expand(inclusive(fold), ty, self.target).is_none();
        let distances = std::iter::successors(Some(1), |d| Some(2 * d)).take_while(|d| *d < width);
        if sweep == Sweep::Exclusive && native {
            let args = Args::from_slice(&[x]);
            x = self.assign("t", |result| Node::Subgroup { result, op: inclusive(fold), ty, args });
        } else {
            for distance in distances.map(word) {
                if sweep == Sweep::Reduce {
                    let other = self.shuffled(ty, x, ComputeOp::Xor, lane, distance);
                    x = self.op(fold.op(), ty, [x, other]);
                } else {
                    let below = self.shuffled(ty, x, ComputeOp::Sub, lane, distance);
                    let folded = self.op(fold.op(), ty, [below, x]);
                    let reached = self.op(ComputeOp::Ge, U32, [lane, distance]);
                    x = self.op(ComputeOp::Select, ty, [reached, folded, x]);
                }
            }
        }
        if sweep == Sweep::Exclusive {
            let below = self.shuffled(ty, x, ComputeOp::Sub, lane, word(1));
            let first = self.op(ComputeOp::Eq, U32, [lane, word(0)]);
            let identity = Operand::Literal(Literal::from_bits(ty, identity(fold, ty)));
            x = self.op(ComputeOp::Select, ty, [first, identity, below]);
        }
        self.bind(result, ty, x);
    }

    /// `x` of the lane that `op` makes of this lane's number and a distance.
    fn shuffled(
        &mut self,
        ty: DataType,
        x: Operand,
        op: ComputeOp,
        lane: Operand,
        distance: Operand,
    ) -> Operand {
        let other = self.op(op, U32, [lane, distance]);
        let args = Args::from_slice(&[x, other]);
        self.assign("t", |result| Node::Subgroup { result, op: SubgroupOp::Shuffle, ty, args })
    }

    /// Lets the last line, which made `x`, assign `result` instead.
    fn bind(&mut self, result: Value, ty: DataType, x: Operand) {
        match self.out.block.last_mut().and_then(Node::result_mut) {
            Some(last) if Operand::Value(*last) == x => *last = result,
            // A subgroup of one lane has no such line.
            _ => {
                let args = Args::from_slice(&[x, word(0)]);
                self.push(Node::Subgroup { result, op: SubgroupOp::Shuffle, ty, args });
            }
        }
    }

    /// A collective of one rank: the grid's lanes copy what both buffers have.
    fn copy(&mut self, ty: DataType, dst: BufferId, src: BufferId) {
        self.push(Node::Barrier { ordering: MemoryOrdering::GridSync });
        let lens = [dst, src].map(|buffer| self.len(buffer));
        let len = self.op(ComputeOp::Min, U32, lens);
        let [x, y, z] =
            [Axis::X, Axis::Y, Axis::Z].map(|axis| self.builtin(BuiltinOp::NumWorkgroups, Some(axis)));
        let plane = self.op(ComputeOp::Mul, U32, [x, y]);
        let groups = self.op(ComputeOp::Mul, U32, [plane, z]);
        let lanes = self.op(ComputeOp::Mul, U32, [groups, word(self.lanes())]);
        // A loop's step is a literal, so the trips are counted.
        let whole = self.op(ComputeOp::Div, U32, [len, lanes]);
        let rest = self.op(ComputeOp::Rem, U32, [len, lanes]);
        let one = self.op(ComputeOp::Min, U32, [rest, word(1)]);
        let trips = self.op(ComputeOp::Add, U32, [whole, one]);
        let lane = self.builtin(BuiltinOp::GlobalIndex, None);
        self.repeat([word(0), trips], 1, |this, trip| {
            let done = this.op(ComputeOp::Mul, U32, [trip, lanes]);
            let left = this.op(ComputeOp::Sub, U32, [len, done]);
            let cond = this.op(ComputeOp::Lt, U32, [lane, left]);
            let then = this.nested(|this| {
                let index = this.op(ComputeOp::Add, U32, [done, lane]);
                let value = this.load(ty, src, index);
                this.push(Node::Store { ty, buffer: dst, index, value });
            });
            this.push(Node::If { cond, then, otherwise: Block::new() });
        });
        self.push(Node::Barrier { ordering: MemoryOrdering::GridSync });
    }
}

/// The inclusive scan with an op.
const fn inclusive(fold: ReduceOp) -> SubgroupOp {
    match fold {
        ReduceOp::Add => SubgroupOp::InclusiveAdd,
        ReduceOp::Mul => SubgroupOp::InclusiveMul,
        ReduceOp::Min => SubgroupOp::InclusiveMin,
        ReduceOp::Max => SubgroupOp::InclusiveMax,
        ReduceOp::And => SubgroupOp::InclusiveAnd,
        ReduceOp::Or => SubgroupOp::InclusiveOr,
        ReduceOp::Xor => SubgroupOp::InclusiveXor,
    }
}
