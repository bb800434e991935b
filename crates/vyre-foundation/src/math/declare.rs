//! Library functions in programs: putting them in, and telling whether text can leave them out.

use super::library;
use super::table::MathOp;
use crate::ir::{Block, Body, BufferId, DataType, Function, FunctionId, Name, Node, ProgramParts, walk};
use rustc_hash::FxHashMap;

/// A program has something else under the name of a library function or table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTaken(pub Name);

/// Puts the function of `op` for `ty` into a program, with what it calls and reads, and gives its number.
///
/// What is there already is not added again. `ty` is one of the op's types.
///
/// ```
/// use vyre_foundation::ir::{DataType, ProgramParts};
/// use vyre_foundation::math::{MathOp, declare};
///
/// let mut parts = ProgramParts::new("p", [1, 1, 1]);
/// let exp = declare(&mut parts, MathOp::from_name("exp").unwrap(), DataType::F32).unwrap();
/// assert_eq!(*parts.functions[exp.index()].name, *"math.exp.f32");
/// ```
pub fn declare(parts: &mut ProgramParts, op: &'static MathOp, ty: DataType) -> Result<FunctionId, NameTaken> {
    let id = library::find(&format!("math.{}.{ty}", op.name)).expect("the library has every op of its table");
    add(parts, id)
}

/// Adds a library function behind those it calls; they chain a few calls deep at most.
fn add(parts: &mut ProgramParts, id: FunctionId) -> Result<FunctionId, NameTaken> {
    let source = library::parts();
    let function = &source.functions[id.index()];
    let (mut callees, mut tables) = (Vec::new(), Vec::new());
    walk(&function.body.block, |_, _, node| {
        if let Node::Call { function, .. } = node {
            callees.push(*function);
        }
        node.for_each_buffer(|buffer| tables.push(buffer));
    });
    let mut functions = FxHashMap::default();
    for callee in callees {
        functions.insert(callee, add(parts, callee)?);
    }
    let mut buffers = FxHashMap::default();
    for table in tables {
        buffers.insert(table, add_table(parts, table)?);
    }
    let mut body = function.body.clone();
    renumber(&mut body.block, &functions, &buffers);
    let function = Function {
        name: function.name.clone(),
        params: function.params.clone(),
        result: function.result,
        body,
    };
    if let Some(at) = parts.functions.iter().position(|known| known.name == function.name) {
        return if parts.functions[at] == function {
            Ok(FunctionId(at as u32))
        } else {
            Err(NameTaken(function.name))
        };
    }
    if parts.buffers.iter().any(|buffer| buffer.name == function.name) {
        return Err(NameTaken(function.name));
    }
    parts.functions.push(function);
    Ok(FunctionId(parts.functions.len() as u32 - 1))
}

fn add_table(parts: &mut ProgramParts, id: BufferId) -> Result<BufferId, NameTaken> {
    let table = library::parts().buffer(id);
    if parts.functions.iter().any(|function| function.name == table.name) {
        return Err(NameTaken(table.name.clone()));
    }
    match parts.buffers.iter().position(|known| known.name == table.name) {
        Some(at) if parts.buffers[at] == *table => Ok(BufferId(at as u32)),
        Some(_) => Err(NameTaken(table.name.clone())),
        None => {
            parts.buffers.push(table.clone());
            Ok(BufferId(parts.buffers.len() as u32 - 1))
        }
    }
}

fn renumber(
    block: &mut Block,
    functions: &FxHashMap<FunctionId, FunctionId>,
    buffers: &FxHashMap<BufferId, BufferId>,
) {
    for node in block {
        if let Node::Call { function, .. } = node {
            *function = functions[function];
        }
        node.for_each_buffer_mut(|buffer| *buffer = buffers[buffer]);
        node.blocks_mut().for_each(|inner| renumber(inner, functions, buffers));
    }
}

/// The op that a function of a program is by its name.
pub(crate) fn op_of(name: &str) -> Option<(&'static MathOp, DataType)> {
    let (op, ty) = name.strip_prefix("math.")?.split_once('.')?;
    let (op, ty) = (MathOp::from_name(op)?, DataType::from_name(ty)?);
    op.types.contains(ty).then_some((op, ty))
}

/// For every function and every buffer, whether the program's text can leave it out: reading the rest, with calls of
/// library functions written as ops, puts it back where it is. `None` if the text has to say everything.
pub(crate) fn elided(parts: &ProgramParts) -> Option<(Vec<bool>, Vec<bool>)> {
    if !parts.functions.iter().any(|function| op_of(&function.name).is_some()) {
        return None;
    }
    let functions: Vec<bool> =
        parts.functions.iter().map(|function| library::find(&function.name).is_some()).collect();
    let buffers: Vec<bool> = parts.buffers.iter().map(|buffer| library::has_table(&buffer.name)).collect();
    let mut read = ProgramParts::new(&parts.name, parts.workgroup);
    let own = parts.buffers.iter().zip(&buffers).filter(|(_, elided)| !**elided);
    read.buffers = own.map(|(buffer, _)| buffer.clone()).collect();
    for (function, _) in parts.functions.iter().zip(&functions).filter(|(_, elided)| !**elided) {
        declare_callees(&mut read, parts, &function.body)?;
        read.functions.push(function.clone());
    }
    declare_callees(&mut read, parts, &parts.body)?;
    (read.functions == parts.functions && read.buffers == parts.buffers).then_some((functions, buffers))
}

/// Adds what the parser would add for a body's calls, in its order; `None` if the body names something of the library that
/// has no op.
fn declare_callees(read: &mut ProgramParts, parts: &ProgramParts, body: &Body) -> Option<()> {
    let mut done = Some(());
    walk(&body.block, |_, _, node| {
        node.for_each_buffer(|buffer| {
            if library::has_table(&parts.buffer(buffer).name) {
                done = None;
            }
        });
        let Node::Call { function, result, args } = node else { return };
        let name = &parts.functions[function.index()].name;
        let written = match op_of(name) {
            Some((op, ty)) => result.is_some() && args.len() == op.operands && declare(read, op, ty).is_ok(),
            None => library::find(name).is_none(),
        };
        if !written {
            done = None;
        }
    });
    done
}
