//! Computes what does not depend on the launch: ops on literals, declared lengths, elements of tables, and the
//! branches and loops that these decide.
//!
//! Exact because `scalar::meaning` is the one definition of every op, the interpreter's too. A NaN may fold to other
//! bits than a backend would compute, and no program can tell: NaN bits are free until a store or a bitcast makes
//! them canonical.

use super::edit::{Replacements, Surroundings, each_body, is_jump, literal};
use crate::ir::{
    Args, Block, Buffer, BufferKind, BuiltinOp, ComputeOp, DataType, Node, Operand, ProgramParts,
};
use crate::scalar;

pub(super) fn run(parts: &mut ProgramParts) {
    each_body(parts, |around, body| {
        let mut fold = Fold { around, replaced: Replacements::new(body) };
        fold.block(&mut body.block);
    });
}

struct Fold<'a> {
    around: &'a Surroundings<'a>,
    replaced: Replacements,
}

impl Fold<'_> {
    fn block(&mut self, block: &mut Block) {
        let mut out = Vec::with_capacity(block.len());
        self.lines(std::mem::take(block), &mut out);
        *block = out;
    }

    fn lines(&mut self, lines: Block, out: &mut Block) {
        for mut node in lines {
            if out.last().is_some_and(is_jump) {
                return;
            }
            self.replaced.apply(&mut node);
            if let (Some(result), Some(operand)) = (node.result(), self.constant(&node)) {
                self.replaced.put(result, operand);
                continue;
            }
            match node {
                Node::If { cond: Operand::Literal(cond), then, otherwise } => {
                    self.lines(if cond.bits() != 0 { then } else { otherwise }, out);
                }
                Node::For { lo: Operand::Literal(lo), hi: Operand::Literal(hi), .. }
                    if lo.bits() >= hi.bits() => {}
                mut other => {
                    other.blocks_mut().for_each(|inner| self.block(inner));
                    out.push(other);
                }
            }
        }
    }

    /// What a line gives, where that is known now.
    fn constant(&self, node: &Node) -> Option<Operand> {
        let number = |value: u32| literal(DataType::U32, u64::from(value));
        match node {
            Node::Compute { op, ty, args, .. } => compute(*op, *ty, args),
            Node::Builtin { op, axis, .. } => self.builtin(*op, axis.map(|axis| axis.index())).map(number),
            Node::Len { buffer, .. } => self.around.buffer(*buffer).len.map(number),
            Node::Load { ty, buffer, index, .. } => {
                table_element(self.around.buffer(*buffer), *ty, index.literal()?.bits())
            }
            // Of other lines nothing is known, whatever they are.
            _ => None,
        }
    }

    fn builtin(&self, op: BuiltinOp, axis: Option<usize>) -> Option<u32> {
        let lanes_of_axis = axis.map(|axis| self.around.workgroup[axis]);
        let lanes = self.around.lanes();
        let zero_if = |is_zero: bool| is_zero.then_some(0);
        match op {
            BuiltinOp::WorkgroupSize => lanes_of_axis,
            BuiltinOp::LocalId => zero_if(lanes_of_axis == Some(1)),
            BuiltinOp::LocalIndex => zero_if(lanes == 1),
            BuiltinOp::SubgroupLane => zero_if(self.around.subgroup == Some(1)),
            BuiltinOp::SubgroupIndex => zero_if(self.around.subgroup.map(u64::from) == Some(lanes)),
            BuiltinOp::GlobalId
            | BuiltinOp::WorkgroupId
            | BuiltinOp::NumWorkgroups
            | BuiltinOp::GlobalIndex
            | BuiltinOp::WorkgroupIndex => None,
        }
    }
}

/// An op's result, where all its operands are literals.
pub(super) fn compute(op: ComputeOp, ty: DataType, args: &Args) -> Option<Operand> {
    let mut bits = [0; 4];
    for (slot, arg) in bits.iter_mut().zip(args) {
        *slot = arg.literal()?.bits();
    }
    let source = match op {
        ComputeOp::Cast | ComputeOp::Bitcast => args.first()?.literal()?.ty(),
        _ => ty,
    };
    let meaning = scalar::meaning(op, ty, source)?;
    let result = op.info().result.under(ty)?;
    Some(literal(result, meaning(&bits)))
}

/// What a load of a table's element gives.
fn table_element(table: &Buffer, ty: DataType, index: u64) -> Option<Operand> {
    let BufferKind::Table { data } = &table.kind else { return None };
    let element = |at: u64| data.get(at as usize).copied().unwrap_or(0);
    if ty == DataType::U32 && table.ty == DataType::U8 {
        let bytes = (0..4).map(|byte| element(index + byte) << (8 * byte)).sum();
        return Some(literal(ty, bytes));
    }
    Some(widen(ty, element(index)))
}

/// The element with those bits as a load gives it: small integers widen by their signedness.
pub(super) fn widen(ty: DataType, bits: u64) -> Operand {
    let wide = match ty {
        DataType::I8 => bits as u8 as i8 as u64,
        DataType::I16 => bits as u16 as i16 as u64,
        DataType::U8 | DataType::U16 => bits & ty.mask(),
        DataType::Bool
        | DataType::U32
        | DataType::I32
        | DataType::U64
        | DataType::I64
        | DataType::F16
        | DataType::BF16
        | DataType::F32
        | DataType::F64 => bits,
    };
    literal(ty.computes_as(), wide)
}
