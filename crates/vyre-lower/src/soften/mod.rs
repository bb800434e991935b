//! Programs without float types that give the same bytes.
//!
//! [`soften`] replaces floats by their bits. In registers f32, f16 and bf16 become u32 and f64 becomes u64; in memory
//! f16 and bf16 become u16. Ops that only move, compare or change bits become a few lines in place; the others become
//! calls of functions over integers, which are built here once for all formats and put above the program's own. What
//! comes out is an ordinary program: the reference runs it, so it can be checked bit by bit, and an emitter for a
//! device whose float arithmetic nobody has proved needs no floats at all.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `body` | the lines of a program, rewritten |
//! | `format` | a float in integers: taking it apart, rounding, packing |
//! | `arithmetic` | sums, products, quotients, roots, remainders, comparisons, for any format |
//! | `convert` | casts |
//!
//! f16 and bf16 are computed in their own formats and not through f32, so nothing rounds twice.
//!
//! Not here: several ranks. A collective on floats becomes what it is on one, a copy between two grid barriers.

mod arithmetic;
mod body;
mod convert;
mod format;

use body::Softener;
use convert::Formats;
use std::collections::HashSet;
use vyre_foundation::ir::{
    Block, Buffer, ComputeOp, DataType, Function, FunctionId, Name, Node, Program, ProgramParts,
};
use vyre_foundation::opt::BrokenProgram;
use vyre_foundation::validate::{ValidProgram, validate};

/// A program has no form without floats within the limits of the language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  Fix: {fix}")]
pub struct SoftenError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: &'static str,
}

impl SoftenError {
    /// The rewritten program is over a limit of the language.
    pub(crate) fn limit(limit: String) -> SoftenError {
        SoftenError {
            message: format!("lowered, the program passes a limit: {limit}"),
            fix: "split it into several dispatches, or let it have fewer functions, float lines or nested blocks",
        }
    }
}

/// What to do where a device has no 64-bit atomics and no lock can be taken instead.
pub(crate) const WIDE_ATOMIC_FIX: &str = "use 32-bit elements, or use the old value if each element has one lane; 64-bit \
    minima and maxima are an optional feature";

impl From<BrokenProgram> for SoftenError {
    fn from(broken: BrokenProgram) -> SoftenError {
        let BrokenProgram { pass, message, fix } = broken;
        SoftenError { message: format!("pass `{pass}` broke the program: {message}"), fix }
    }
}

/// The same program over integers and bools alone: for every launch it gives the same bytes, or the same trap.
///
/// It fails only for programs close to the limits of the language, because a float op becomes many lines.
///
/// ```
/// use vyre_foundation::{text, validate::validate};
///
/// let source = "
///   program @scale workgroup(64, 1, 1) {
///     buffer @y : read_write f32[] binding 0 output
///     %i = global_id x
///     %x = load.f32 @y[%i]
///     %r = mul.f32 %x, 2.5
///     store.f32 @y[%i], %r
///   }";
/// let program = validate(&text::parse(source).unwrap().program).unwrap();
/// let soft = vyre_lower::soften::soften(&program).unwrap();
/// let printed = text::print(soft.program());
/// assert!(printed.contains("%r   = call @soft.mul.f32(%x, 1075838976)"), "{printed}");
/// assert!(!printed.contains("mul.f32 %x") && !printed.contains("store.f32"));
/// ```
pub fn soften(program: &ValidProgram) -> Result<ValidProgram, SoftenError> {
    softened(program).map(|(program, _)| program)
}

/// The same, and what each function of the result stands for, if it stands for an op.
pub(crate) fn softened(program: &ValidProgram) -> Result<(ValidProgram, Vec<Option<Soft>>), SoftenError> {
    rewritten(program, &What { types: &|_| true, ops: &|_, _, _| false })
}

/// The same program with only the float types that `types` names as integers, and of the others the ops that `ops` names
/// by op, type and operand type: for a device that has exact floats but for some. Around a soft op of a type that stays,
/// floats are bitcast to their bits and back.
pub fn soften_where(
    program: &ValidProgram,
    types: &dyn Fn(DataType) -> bool,
    ops: &dyn Fn(ComputeOp, DataType, DataType) -> bool,
) -> Result<ValidProgram, SoftenError> {
    rewritten(program, &What { types, ops }).map(|(program, _)| program)
}

fn rewritten(
    program: &ValidProgram,
    what: &What<'_>,
) -> Result<(ValidProgram, Vec<Option<Soft>>), SoftenError> {
    let parts = program.parts();
    let mut calls = Calls { own: parts.functions.len(), softs: Vec::new() };
    let mut functions: Vec<Function> =
        parts.functions.iter().map(|function| soft_function(parts, what, function, &mut calls)).collect();
    let mut body = Softener::new(parts, what, None, &mut calls).body();
    let buffers: Vec<Buffer> = parts.buffers.iter().map(|buffer| soft_buffer(buffer, what)).collect();
    if calls.softs.is_empty()
        && buffers == parts.buffers
        && body == parts.body
        && functions == parts.functions
    {
        return Ok((program.clone(), vec![None; functions.len()]));
    }
    let library = library(&calls.softs);
    let stands_for = |function: &Function| {
        let soft = calls.softs.iter().find(|soft| *soft.name() == *function.name);
        soft.copied()
    };
    let softs = library.iter().map(stands_for).chain(functions.iter().map(|_| None)).collect();
    let ids = calls.ids(&library);
    let bodies = functions.iter_mut().map(|function| &mut function.body);
    bodies.chain([&mut body]).for_each(|body| renumber(&mut body.block, &ids));
    let softened = ProgramParts {
        buffers,
        functions: named_apart(library, parts).into_iter().chain(functions).collect(),
        body,
        ..ProgramParts::clone(parts)
    };
    let sealed = Program::new(softened).map_err(|error| SoftenError::limit(error.message))?;
    let valid = validate(&sealed).map_err(|findings| {
        let limits = ["V010", "V041", "V042"];
        let broken = findings.iter().find(|finding| !limits.contains(&finding.code));
        debug_assert!(broken.is_none(), "integer emulation broke the program: {broken:?}");
        SoftenError::limit(findings[0].message.clone())
    })?;
    Ok((valid, softs))
}

/// What is to become integers.
struct What<'a> {
    types: &'a dyn Fn(DataType) -> bool,
    ops: &'a dyn Fn(ComputeOp, DataType, DataType) -> bool,
}

impl What<'_> {
    fn is_soft(&self, ty: DataType) -> bool {
        ty.is_float() && (self.types)(ty)
    }

    fn is_soft_op(&self, op: ComputeOp, ty: DataType, source: DataType) -> bool {
        (ty.is_float() || source.is_float()) && (self.ops)(op, ty, source)
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
pub(crate) struct Soft {
    pub(crate) routine: Routine,
    pub(crate) ty: DataType,
}

impl Soft {
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
    softs: Vec<Soft>,
}

impl Calls {
    fn id(&mut self, soft: Soft) -> FunctionId {
        let at = self.softs.iter().position(|known| *known == soft).unwrap_or_else(|| {
            self.softs.push(soft);
            self.softs.len() - 1
        });
        FunctionId((self.own + at) as u32)
    }

    /// Where each function stands once the library is above the program's own.
    fn ids(&self, library: &[Function]) -> Vec<FunctionId> {
        let place = |soft: &Soft| library.iter().position(|function| *function.name == *soft.name());
        let softs = self.softs.iter().map(|soft| place(soft).expect("the library has what it was asked for"));
        let own = (0..self.own).map(|id| library.len() + id);
        own.chain(softs).map(|id| FunctionId(id as u32)).collect()
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
fn library(softs: &[Soft]) -> Vec<Function> {
    let built = Program::build("soft", [1, 1, 1], |k| {
        let formats = Formats::new(k);
        for soft in softs {
            let name = soft.name();
            match (soft.routine, soft.ty) {
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
        body: Softener::new(parts, what, Some(function), calls).body(),
    }
}
