//! Single float ops as functions over integers, the others left as they are.
//!
//! For a device that has exact float arithmetic but for some ops. Around each call the floats are bitcast to their bits
//! and back, so types elsewhere stay.

use super::{Calls, Routine, Soft, SoftenError, in_register, library, named_apart, renumber};
use smallvec::smallvec;
use vyre_foundation::ir::{
    Block, Body, ComputeOp, DataType, Function, Node, Operand, Program, ProgramParts, Value,
};
use vyre_foundation::validate::{ValidProgram, validate};

/// The same program with the float ops that `soft` names as calls of functions over integers.
///
/// It changes `div`, `rem`, `fma`, `sqrt`, `add`, `mul` and the roundings to integers; others stay, whatever `soft` says.
pub fn soften_only(
    program: &ValidProgram,
    soft: &dyn Fn(ComputeOp, DataType) -> bool,
) -> Result<ValidProgram, SoftenError> {
    let parts = program.parts();
    let mut calls = Calls { own: parts.functions.len(), softs: Vec::new() };
    let mut functions: Vec<Function> = parts.functions.clone();
    let mut body = parts.body.clone();
    functions.iter_mut().for_each(|function| rewrite(&mut function.body, &mut calls, soft));
    rewrite(&mut body, &mut calls, soft);
    if calls.softs.is_empty() {
        return Ok(program.clone());
    }
    let library = library(&calls.softs);
    let ids = calls.ids(&library);
    let bodies = functions.iter_mut().map(|function| &mut function.body);
    bodies.chain([&mut body]).for_each(|body| renumber(&mut body.block, &ids));
    let softened = ProgramParts {
        functions: named_apart(library, parts).into_iter().chain(functions).collect(),
        body,
        ..ProgramParts::clone(parts)
    };
    let sealed = Program::new(softened).map_err(|error| SoftenError { message: error.message })?;
    validate(&sealed).map_err(|findings| SoftenError { message: findings[0].message.clone() })
}

const fn routine(op: ComputeOp) -> Option<Routine> {
    Some(match op {
        ComputeOp::Add => Routine::Add,
        ComputeOp::Mul => Routine::Mul,
        ComputeOp::Div => Routine::Div,
        ComputeOp::Rem => Routine::Rem,
        ComputeOp::Fma => Routine::Fma,
        ComputeOp::Sqrt => Routine::Sqrt,
        ComputeOp::Floor => Routine::Floor,
        ComputeOp::Ceil => Routine::Ceil,
        ComputeOp::Trunc => Routine::Trunc,
        ComputeOp::Round => Routine::Round,
        _ => return None,
    })
}

fn rewrite(body: &mut Body, calls: &mut Calls, soft: &dyn Fn(ComputeOp, DataType) -> bool) {
    let block = std::mem::take(&mut body.block);
    body.block = rewrite_block(block, body, calls, soft);
}

fn rewrite_block(
    block: Block,
    body: &mut Body,
    calls: &mut Calls,
    soft: &dyn Fn(ComputeOp, DataType) -> bool,
) -> Block {
    let mut out = Block::with_capacity(block.len());
    for mut node in block {
        for inner in node.blocks_mut() {
            *inner = rewrite_block(std::mem::take(inner), body, calls, soft);
        }
        match node {
            Node::Compute { result, op, ty, args }
                if ty.is_float() && soft(op, ty) && routine(op).is_some() =>
            {
                let routine = routine(op).expect("asked above");
                let bits_type = in_register(ty);
                let args = args.iter().map(|arg| bits(*arg, bits_type, body, &mut out)).collect();
                let value = body.new_value("soft");
                let function = calls.id(Soft { routine, ty });
                out.push(Node::Call { result: Some(value), function, args });
                out.push(bitcast(result, ty, value.into()));
            }
            other => out.push(other),
        }
    }
    out
}

fn bits(arg: Operand, ty: DataType, body: &mut Body, out: &mut Block) -> Operand {
    let value = body.new_value("bits");
    out.push(bitcast(value, ty, arg));
    value.into()
}

fn bitcast(result: Value, ty: DataType, arg: Operand) -> Node {
    Node::Compute { result, op: ComputeOp::Bitcast, ty, args: smallvec![arg] }
}
