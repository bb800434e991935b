//! Software floats: programs without float types, or without some of their ops, that give the same bytes.
//!
//! [`rewrite`] replaces floats by their bits. In registers f32, f16 and bf16 become u32 and f64 becomes u64; in memory
//! f16 and bf16 become u16. Ops that only move, compare or change bits become a few lines in place; the others become
//! calls of functions over integers, which are built here once for all formats and put above the program's own. The
//! result is an ordinary program: the reference runs it, so it can be checked bit by bit, and an emitter for a
//! device whose float arithmetic is not known to be exact needs no floats at all.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `body` | the lines of a program, rewritten |
//! | `format` | a float in integers: taking it apart, rounding, packing |
//! | `arithmetic` | sums, products, quotients, roots, remainders, comparisons, for any format |
//! | `convert` | casts |
//!
//! f16 and bf16 are computed in their own formats and not through f32, so nothing rounds twice.

mod arithmetic;
mod body;
mod convert;
mod format;

use super::{NativeFloats, PrepareError};
use body::Rewriter;
use convert::Formats;
use std::collections::HashSet;
use vyre_foundation::ir::{
    Block, Buffer, ComputeOp, DataType, Function, FunctionId, Name, Node, Program, ProgramParts,
};
use vyre_foundation::validate::{ValidProgram, validate};

/// A program, and what each of its functions computes, if it is one of the library.
type Rewritten = (ValidProgram, Vec<Option<LibraryFunction>>);

/// The same program without the floats that are not native: for every launch it gives the same bytes, or the same trap.
/// `None` where all are. Around a software op of a type that stays, floats are bitcast to their bits and back.
///
/// It fails only for programs close to the limits of the language, because a float op becomes many lines.
pub(super) fn rewrite(
    parts: &ProgramParts,
    native: NativeFloats<'_>,
) -> Result<Option<Rewritten>, PrepareError> {
    if matches!(native, NativeFloats::All) {
        return Ok(None);
    }
    let what = &What(native);
    let mut calls = Calls { own: parts.functions.len(), called: Vec::new() };
    let mut functions: Vec<Function> =
        parts.functions.iter().map(|function| soft_function(parts, what, function, &mut calls)).collect();
    let mut body = Rewriter::new(parts, what, None, &mut calls).body();
    let buffers: Vec<Buffer> = parts.buffers.iter().map(|buffer| soft_buffer(buffer, what)).collect();
    if calls.called.is_empty()
        && buffers == parts.buffers
        && body == parts.body
        && functions == parts.functions
    {
        return Ok(None);
    }
    let library = library(&calls.called);
    let computes = |function: &Function| {
        let called = calls.called.iter().find(|called| *called.name() == *function.name);
        called.copied()
    };
    let computed = library.iter().map(computes).chain(functions.iter().map(|_| None)).collect();
    let ids = calls.ids(&library);
    let bodies = functions.iter_mut().map(|function| &mut function.body);
    bodies.chain([&mut body]).for_each(|body| renumber(&mut body.block, &ids));
    let rewritten = ProgramParts {
        buffers,
        functions: named_apart(library, parts).into_iter().chain(functions).collect(),
        body,
        ..ProgramParts::clone(parts)
    };
    let sealed = Program::new(rewritten).map_err(|error| PrepareError::limit(error.message))?;
    let valid = validate(&sealed).map_err(|findings| {
        let limits = ["V010", "V041", "V042"];
        let broken = findings.iter().find(|finding| !limits.contains(&finding.code));
        debug_assert!(broken.is_none(), "software floats broke the program: {broken:?}");
        PrepareError::limit(findings[0].message.clone())
    })?;
    Ok(Some((valid, computed)))
}

/// What becomes integers.
struct What<'a>(NativeFloats<'a>);

impl What<'_> {
    fn is_soft(&self, ty: DataType) -> bool {
        ty.is_float() && !self.0.has_type(ty)
    }

    fn is_soft_op(&self, op: ComputeOp, ty: DataType, source: DataType) -> bool {
        (ty.is_float() || source.is_float()) && !self.0.has_op(op, ty, source)
    }

    fn in_register(&self, ty: DataType) -> DataType {
        if self.is_soft(ty) { in_register(ty) } else { ty }
    }

    fn in_memory(&self, ty: DataType) -> DataType {
        if self.is_soft(ty) { in_memory(ty) } else { ty }
    }
}

/// What a function of the library does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routine {
    Add,
    Mul,
    Div,
    Rem,
    Min,
    Max,
    Eq,
    Lt,
    Le,
    Fma,
    Sqrt,
    Floor,
    Ceil,
    Trunc,
    Round,
    Cast { from: DataType },
}

/// A function of the library: a routine of a type, for casts the type they give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LibraryFunction {
    pub(crate) routine: Routine,
    pub(crate) ty: DataType,
}

impl LibraryFunction {
    pub(crate) fn name(self) -> String {
        match self.routine {
            Routine::Cast { from } => format!("soft.cast.{}.from.{from}", self.ty),
            other => format!("soft.{other:?}.{}", self.ty).to_lowercase(),
        }
    }
}

/// The functions that rewritten lines call. Until all are known, the library's are numbered behind the program's own.
struct Calls {
    own: usize,
    called: Vec<LibraryFunction>,
}

impl Calls {
    fn id(&mut self, function: LibraryFunction) -> FunctionId {
        let at = self.called.iter().position(|known| *known == function).unwrap_or_else(|| {
            self.called.push(function);
            self.called.len() - 1
        });
        FunctionId((self.own + at) as u32)
    }

    /// Where each function is located once the library is above the program's own.
    fn ids(&self, library: &[Function]) -> Vec<FunctionId> {
        let place =
            |called: &LibraryFunction| library.iter().position(|function| *function.name == *called.name());
        let called =
            self.called.iter().map(|called| place(called).expect("the library has what it was asked for"));
        let own = (0..self.own).map(|id| library.len() + id);
        own.chain(called).map(|id| FunctionId(id as u32)).collect()
    }
}

fn renumber(block: &mut Block, ids: &[FunctionId]) {
    for node in block {
        if let Node::Call { function, .. } = node {
            *function = ids[function.index()];
        }
        node.blocks_mut().for_each(|inner| renumber(inner, ids));
    }
}

/// The functions asked for and those they call, each above its callers.
fn library(called: &[LibraryFunction]) -> Vec<Function> {
    let built = Program::build("soft", [1, 1, 1], |k| {
        let formats = Formats::new(k);
        for function in called {
            let name = function.name();
            match (function.routine, function.ty) {
                (Routine::Cast { from }, ty) => formats.declare_cast(ty, from, &name),
                (routine, DataType::F16) => arithmetic::declare(&formats.f16, routine, &name),
                (routine, DataType::BF16) => arithmetic::declare(&formats.bf16, routine, &name),
                (routine, DataType::F32) => arithmetic::declare(&formats.f32, routine, &name),
                (routine, DataType::F64) => arithmetic::declare(&formats.f64, routine, &name),
                (routine, other) => unreachable!("{routine:?} of {other}, which is no float"),
            }
        }
    });
    built.expect("the library's functions use their own values").parts().functions.clone()
}

/// The library's functions under names that the program does not use.
fn named_apart(mut library: Vec<Function>, parts: &ProgramParts) -> Vec<Function> {
    let buffers = parts.buffers.iter().map(|buffer| &buffer.name);
    let taken: HashSet<&Name> =
        buffers.chain(parts.functions.iter().map(|function| &function.name)).collect();
    for function in &mut library {
        let numbered = (2..).map(|number| format!("{}.{number}", function.name).into());
        let names = std::iter::once(function.name.clone()).chain(numbered);
        let free = names.into_iter().find(|name| !taken.contains(name));
        function.name = free.expect("there are more numbers than names");
    }
    library
}

/// The type that holds a value's bits in registers.
fn in_register(ty: DataType) -> DataType {
    match ty {
        DataType::F16 | DataType::BF16 | DataType::F32 => DataType::U32,
        DataType::F64 => DataType::U64,
        other => other,
    }
}

/// The type that holds an element's bits in memory.
fn in_memory(ty: DataType) -> DataType {
    match ty {
        DataType::F16 | DataType::BF16 => DataType::U16,
        other => in_register(other),
    }
}

fn soft_buffer(buffer: &Buffer, what: &What<'_>) -> Buffer {
    Buffer { ty: what.in_memory(buffer.ty), ..buffer.clone() }
}

fn soft_function(parts: &ProgramParts, what: &What<'_>, function: &Function, calls: &mut Calls) -> Function {
    let soft = |ty| what.in_register(ty);
    Function {
        name: function.name.clone(),
        params: function.params.iter().map(|(value, ty)| (*value, soft(*ty))).collect(),
        result: function.result.map(soft),
        body: Rewriter::new(parts, what, Some(function), calls).body(),
    }
}
