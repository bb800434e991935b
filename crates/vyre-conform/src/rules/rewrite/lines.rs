//! Writes the lines that replace another.

use vyre_foundation::ir::{
    Args, Axis, Block, Body, BufferId, BuiltinOp, ComputeOp, DataType, Literal, Local, Name, Node, Operand,
    ProgramParts, SubgroupOp, Value, walk,
};

/// The lines that replace a line so far, with access to its surroundings.
pub(crate) struct Lines<'a> {
    pub(crate) parts: &'a ProgramParts,
    /// Every line of the body that assigns a value.
    assigned: &'a [Option<Node>],
    /// Every private array's length, by local.
    arrays: &'a [Option<u32>],
    names: &'a mut Vec<Name>,
    out: Block,
}

/// A u32.
pub(crate) fn n(value: u32) -> Operand {
    Literal::u32(value).into()
}

/// A literal of any type.
pub(crate) fn bits(ty: DataType, bits: u64) -> Operand {
    Literal::from_bits(ty, bits).into()
}

impl Lines<'_> {
    /// Adds a line, given the value that it assigns.
    pub(crate) fn value_of(&mut self, line: impl FnOnce(Value) -> Node) -> Operand {
        self.names.push("m".into());
        let result = Value(self.names.len() as u32 - 1);
        self.push(line(result));
        result.into()
    }

    pub(crate) fn push(&mut self, node: Node) {
        self.out.push(node);
    }

    /// The elements of a private array.
    pub(crate) fn array_len(&self, local: Local) -> Option<u32> {
        self.arrays.get(local.index()).copied().flatten()
    }

    /// The line that assigns an operand.
    pub(crate) fn line_of(&self, operand: Operand) -> Option<&Node> {
        self.assigned.get(operand.value()?.index())?.as_ref()
    }

    pub(crate) fn give<const N: usize>(
        &mut self,
        result: Value,
        op: ComputeOp,
        ty: DataType,
        args: [Operand; N],
    ) {
        self.push(Node::Compute { result, op, ty, args: Args::from_slice(&args) });
    }

    pub(crate) fn compute<const N: usize>(
        &mut self,
        op: ComputeOp,
        ty: DataType,
        args: [Operand; N],
    ) -> Operand {
        self.value_of(|result| Node::Compute { result, op, ty, args: Args::from_slice(&args) })
    }

    /// On u32, the type of indices.
    pub(crate) fn index(&mut self, op: ComputeOp, a: Operand, b: Operand) -> Operand {
        self.compute(op, DataType::U32, [a, b])
    }

    /// `result = operand`.
    pub(crate) fn copy(&mut self, result: Value, ty: DataType, operand: Operand) {
        self.give(result, ComputeOp::Select, ty, [Literal::bool(true).into(), operand, operand]);
    }

    pub(crate) fn builtin(&mut self, op: BuiltinOp, axis: Option<Axis>) -> Operand {
        self.value_of(|result| Node::Builtin { result, op, axis })
    }

    pub(crate) fn len(&mut self, buffer: BufferId) -> Operand {
        self.value_of(|result| Node::Len { result, buffer })
    }

    pub(crate) fn load(&mut self, buffer: BufferId, index: Operand) -> Operand {
        let ty = self.parts.buffer(buffer).ty;
        self.value_of(|result| Node::Load { result, ty, buffer, index })
    }

    pub(crate) fn store(&mut self, buffer: BufferId, index: Operand, value: Operand) {
        self.push(Node::Store { ty: self.parts.buffer(buffer).ty, buffer, index, value });
    }

    pub(crate) fn subgroup<const N: usize>(
        &mut self,
        op: SubgroupOp,
        ty: DataType,
        args: [Operand; N],
    ) -> Operand {
        self.value_of(|result| Node::Subgroup { result, op, ty, args: Args::from_slice(&args) })
    }

    /// The lines of `then` under a condition.
    pub(crate) fn when(&mut self, cond: Operand, then: impl FnOnce(&mut Self)) {
        let then = self.block_of(then);
        self.push(Node::If { cond, then, otherwise: Vec::new() });
    }

    /// The lines that `write` adds, as a block of their own.
    pub(crate) fn block_of(&mut self, write: impl FnOnce(&mut Self)) -> Block {
        let before = std::mem::take(&mut self.out);
        write(self);
        std::mem::replace(&mut self.out, before)
    }
}

/// Which lines to edit.
type Wanted<'f> = &'f dyn Fn(&ProgramParts, &Node) -> bool;
/// See [`super::Edit`].
type Edit<'f> = &'f dyn Fn(&mut Lines<'_>, &Node) -> Option<()>;

/// Edits lines; whether any changed.
pub(super) fn edit(parts: &mut ProgramParts, wanted: Wanted<'_>, edit: Edit<'_>) -> bool {
    let before = parts.clone();
    let mut changed = false;
    for function in &mut parts.functions {
        changed |= edit_body(&before, &mut function.body, wanted, edit);
    }
    changed | edit_body(&before, &mut parts.body, wanted, edit)
}

fn edit_body(before: &ProgramParts, body: &mut Body, wanted: Wanted<'_>, edit: Edit<'_>) -> bool {
    let mut assigned = vec![None; body.values.len()];
    let mut arrays = vec![None; body.locals.len()];
    walk(&body.block, |_, _, node| {
        if let Some(result) = node.result().filter(|_| node.blocks().next().is_none()) {
            assigned[result.index()] = Some(node.clone());
        }
        if let Node::Var { local, len, .. } = node {
            arrays[local.index()] = *len;
        }
    });
    let names = &mut body.values;
    let mut lines = Lines { parts: before, assigned: &assigned, arrays: &arrays, names, out: Vec::new() };
    lines.block(&mut body.block, wanted, edit)
}

impl Lines<'_> {
    fn block(&mut self, block: &mut Block, wanted: Wanted<'_>, edit: Edit<'_>) -> bool {
        let mut changed = false;
        let nodes = std::mem::take(block);
        *block = self.block_of(|lines| {
            for mut node in nodes {
                for inner in node.blocks_mut() {
                    changed |= lines.block(inner, wanted, edit);
                }
                let before = lines.out.len();
                if wanted(lines.parts, &node) && edit(lines, &node).is_some() {
                    changed = true;
                } else {
                    lines.out.truncate(before);
                    lines.push(node);
                }
            }
        });
        changed
    }
}

/// Writes lines above a body.
pub(super) fn prologue(parts: &mut ProgramParts, write: impl FnOnce(&mut Lines<'_>)) -> Block {
    let before = parts.clone();
    let mut lines =
        Lines { parts: &before, assigned: &[], arrays: &[], names: &mut parts.body.values, out: Vec::new() };
    lines.block_of(write)
}
