//! Steps that lanes take together: barriers, subgroup ops and `uniform_load`.
//!
//! A shader has one workgroup's barriers and nothing wider, so grid barriers and collectives are right on a grid of one
//! workgroup only. Subgroup ops are exchanges in workgroup memory, in the order that the language gives.

use super::body::Body;
use super::compute::{from_words, to_words};
use super::subgroup_width;
use vyre_foundation::ir::{
    BufferId, ComputeOp, DataType, Exchange, MemoryOrdering, Node, Operand, ReduceOp, SubgroupOp, Sweep,
    Value,
};

impl Body<'_, '_> {
    pub(super) fn together(&mut self, node: &Node) {
        match node {
            Node::Barrier { ordering: MemoryOrdering::GridSync } => self.grid_barrier(),
            Node::Barrier { ordering: MemoryOrdering::Subgroup | MemoryOrdering::Workgroup } => {
                self.barrier()
            }
            Node::Subgroup { result, op, ty, args } => self.subgroup(*result, *op, *ty, args),
            Node::UniformLoad { result, ty, buffer, index } => {
                self.uniform_load(*result, *ty, *buffer, *index)
            }
            other => unreachable!("{other:?} is no step that lanes take together"),
        }
    }

    fn barrier(&mut self) {
        self.text.line("storageBarrier();");
        if self.module.has_workgroup_memory() {
            self.text.line("workgroupBarrier();");
        }
    }

    /// A barrier, behind which the traps before it are those that count.
    fn grid_barrier(&mut self) {
        self.barrier();
        if self.module.keeps_first_trap {
            let has_trapped = self.module.helper("has_trapped");
            self.text.line(format!("has_stopped = {has_trapped}();"));
            self.barrier();
        }
    }

    fn uniform_load(&mut self, result: Value, ty: DataType, buffer: BufferId, index: Operand) {
        let index = self.operand(index);
        self.barrier();
        self.text.open("if (local_index == 0u) {");
        let loaded = to_words(ty.computes_as(), &self.load(ty, buffer, &index));
        self.text.line(format!("staged = {loaded};"));
        self.text.close("}");
        let words = self.temporary("staged_words");
        self.text.line(format!("let {words} = workgroupUniformLoad(&staged);"));
        self.assign(result, &from_words(ty.computes_as(), &words));
    }

    fn subgroup(&mut self, result: Value, op: SubgroupOp, ty: DataType, args: &[Operand]) {
        let width = subgroup_width(self.module.parts);
        let value = self.operand(args[0]);
        let ty = if op.info().types.is_empty() { DataType::Bool } else { ty };
        let words = to_words(ty, &value);
        let voted = |body: &mut Self, wanted: &str| {
            format!("{}(local_index, {width}u, {words}, {wanted})", body.module.helper("same_lanes"))
        };
        let expression = match op.exchange() {
            Exchange::Ballot => voted(self, "vec2u(1u, 0u)"),
            Exchange::Any => format!("{} != 0u", voted(self, "vec2u(1u, 0u)")),
            Exchange::All => format!("{} == 0u", voted(self, "vec2u()")),
            Exchange::Match => voted(self, &words),
            Exchange::Take => {
                let lane = self.operand(args[1]);
                let other = format!("(local_index & {}u) + ({lane} & {}u)", !(width - 1), width - 1);
                self.taken(ty, &other, &words)
            }
            Exchange::Fold(Sweep::Reduce, fold) => self.reduce(fold, ty, &value),
            Exchange::Fold(Sweep::Inclusive, fold) => self.scan(fold, ty, &value),
            Exchange::Fold(Sweep::Exclusive, _) => unreachable!("legalised: an inclusive scan and a shuffle"),
        };
        self.assign(result, &expression);
    }

    /// The value that another lane gives.
    fn taken(&mut self, ty: DataType, other: &str, words: &str) -> String {
        let shuffle = self.module.helper("shuffle");
        from_words(ty, &format!("{shuffle}(local_index, {other}, {words})"))
    }

    /// `x = x op xor_shuffle(x, d)` for d = 1, 2, 4, ...
    fn reduce(&mut self, fold: ReduceOp, ty: DataType, value: &str) -> String {
        let (x, d) = self.fold_head(value);
        let other = self.taken(ty, &format!("local_index ^ {d}"), &to_words(ty, &x));
        let folded = self.apply(fold, ty, &x, &other);
        self.text.line(format!("{x} = {folded};"));
        self.text.close("}");
        x
    }

    /// `x = up(x, d) op x` where lane >= d, for d = 1, 2, 4, ...
    fn scan(&mut self, fold: ReduceOp, ty: DataType, value: &str) -> String {
        let width = subgroup_width(self.module.parts);
        let (x, d) = self.fold_head(value);
        let below = self.temporary("below");
        let other = self.taken(ty, &format!("max(local_index, {d}) - {d}"), &to_words(ty, &x));
        self.text.line(format!("let {below} = {other};"));
        self.text.open(format!("if (local_index % {width}u >= {d}) {{"));
        let folded = self.apply(fold, ty, &below, &x);
        self.text.line(format!("{x} = {folded};"));
        self.text.close("}");
        self.text.close("}");
        x
    }

    /// Opens the loop over distances; the names of what is folded and of the distance.
    fn fold_head(&mut self, value: &str) -> (String, String) {
        let width = subgroup_width(self.module.parts);
        let (x, d) = (self.temporary("folded"), self.temporary("distance"));
        self.text.line(format!("var {x} = {value};"));
        let count = self.module.helper("opaque_count");
        self.text.open(format!("for (var {d} = 1u; {d} < {count}({width}u); {d} *= 2u) {{"));
        (x, d)
    }

    fn apply(&mut self, fold: ReduceOp, ty: DataType, a: &str, b: &str) -> String {
        let op: ComputeOp = fold.op();
        self.compute(op, ty, &[a, b])
    }
}
