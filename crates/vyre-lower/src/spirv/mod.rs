//! SPIR-V, which Vulkan drivers compile: for the bindings of [`crate::bindings`], with floats that are exact.
//!
//! Every float op is `NoContraction`, and the module asks for round-to-nearest-even, kept subnormals, signed zeros and
//! NaNs. Compilers still rewrite what they know too well, so float constants are hidden from them: XORed with a word that
//! is zero at run time. Where an instruction is exact on no device (minima, saturating casts, signs of zeros), the bits
//! are worked on as integers. [`Floats`] says how each other op is made. [`Features`] says what the device has:
//! with none, 64-bit integers are pairs of words, and f64 is soft.
//!
//! | file | what it writes |
//! | --- | --- |
//! | `words` | instructions as words and as text |
//! | `module` | the module around the bodies: capabilities, variables, prologue |
//! | `body` | the lines of a body, control flow, builtins |
//! | `integer`, `pairs` | ops on integers; those on 64 bits without native ones |
//! | `float`, `cast` | ops on floats, and between types |
//! | `memory` | loads, stores, atomics, private arrays, with the bounds that the language gives |
//! | `together` | barriers, subgroup ops, tile products, collectives |
//!
//! f16 and bf16 are computed in f32, which is wide enough that rounding twice changes nothing, and stored by their bits.
//! A subgroup op exchanges through workgroup memory, because Vulkan promises no mapping of lanes to subgroups; a driver
//! that has tried it can have shuffles.
//!
//! Not here: running it, and choosing the strategies, which are the driver's; grid barriers of several workgroups, which
//! the driver splits.

mod body;
mod cast;
mod float;
mod integer;
mod memory;
mod module;
mod pairs;
mod together;
mod words;

use crate::bindings::{Bindings, LongTables, WIDE_ATOMIC_FIX};
use crate::floats::{FloatOp, Floats, How};
use crate::nesting::nesting;
use crate::prepare::{NativeFloats, NativeProducts, PrepareError, Prepared, Target, prepare};
use module::Written;
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{AtomicOp, ComputeOp, DataType, Node, walk};
use vyre_foundation::opt::Pass;
use vyre_foundation::validate::ValidProgram;

/// What a device has beyond 32-bit integers and floats. Drivers must have it switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// 64-bit integers.
    pub int64: bool,
    /// 64-bit atomics, on storage and workgroup memory.
    pub int64_atomics: bool,
    /// 64-bit floats.
    pub float64: bool,
    /// 16-bit elements of storage buffers.
    pub storage16: bool,
}

impl Features {
    /// All of them.
    pub const ALL: Features = Features { int64: true, int64_atomics: true, float64: true, storage16: true };
}

/// The ways to make an op of f32 or f64, the fastest first; the last is exact wherever integers are.
pub const fn ways(op: FloatOp, ty: DataType) -> &'static [How] {
    match (op, ty) {
        (FloatOp::Fma, DataType::F32) => &[How::Native, How::Guarded, How::ThroughF64, How::Soft],
        (FloatOp::Div | FloatOp::Sqrt, DataType::F32) => &[How::Native, How::ThroughF64, How::Soft],
        _ => &[How::Native, How::Soft],
    }
}

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// What the device has.
    pub features: Features,
    /// How floats are made.
    pub floats: Floats,
    /// Whether memory that the program writes is accessed as volatile: for compilers that move loads over stores.
    pub is_volatile: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { features: Features::ALL, floats: Floats::default(), is_volatile: false }
    }
}

impl Options {
    /// What is native on the device. Functions of software floats stay functions: inlined they would be many times the
    /// program.
    pub const fn target(&self) -> Target<'_> {
        const TIDY: [Pass; 5] = [Pass::Fold, Pass::Algebra, Pass::Range, Pass::Cse, Pass::Dce];
        Target {
            floats: NativeFloats::Spirv(self),
            products: NativeProducts::None,
            exclusive_scans: false,
            tidy: &TIDY,
            ..Target::NATIVE
        }
    }

    /// Whether values of a float type are their bits.
    pub(crate) fn is_software_type(&self, ty: DataType) -> bool {
        ty == DataType::F64 && (!self.features.float64 || self.floats.f64 == Floats::SOFT.f64)
    }

    /// How an op is made, as far as the device has it.
    fn how(&self, ty: DataType, op: FloatOp) -> How {
        match self.floats.how(ty, op) {
            How::Guarded | How::ThroughF64 if ty == DataType::F64 || !self.features.float64 => How::Soft,
            How::Guarded if op != FloatOp::Fma => How::Soft,
            How::Corrected => How::Soft,
            how => how,
        }
    }

    /// Whether an op of another float type is made of integers. `source` is the operand's type.
    pub(crate) fn is_software_op(&self, op: ComputeOp, ty: DataType, source: DataType) -> bool {
        let is_half = |ty: DataType| ty.is_float() && ty.bits() == 16;
        let of_floats = ty.is_float() || (op == ComputeOp::Cast && source.is_float());
        if !of_floats {
            return false;
        }
        match (op, FloatOp::of(op)) {
            // No device has an exact remainder.
            (ComputeOp::Rem, _) => true,
            (ComputeOp::Cast, _) => self.is_software_cast(ty, source),
            // f32 cannot tell a product of f16 and a sum from it in one rounding.
            (ComputeOp::Fma, _) if is_half(ty) => true,
            (_, Some(group)) if is_half(ty) => {
                self.how(DataType::F32, group) == How::Soft
                    || self.how(DataType::F32, FloatOp::Add) != How::Native
            }
            (_, Some(group)) => self.how(ty, group) == How::Soft,
            (_, None) => false,
        }
    }

    fn is_software_cast(&self, ty: DataType, source: DataType) -> bool {
        let is_half = |ty: DataType| ty.is_float() && ty.bits() == 16;
        let native = |ty| self.how(ty, FloatOp::Cast) == How::Native;
        let halves = self.how(DataType::F32, FloatOp::Add) == How::Native;
        match (ty, source) {
            // These move bits.
            (DataType::Bool, _) | (_, DataType::Bool) => false,
            _ if ty == source => false,
            (DataType::F32, DataType::BF16) => false,
            // From f32 there is one rounding; from anything wider there would be two.
            _ if is_half(ty) && !(is_half(source) || source == DataType::F32) => true,
            _ if is_half(ty) => !halves || !native(DataType::F32),
            _ if is_half(source) => {
                !halves || !native(DataType::F32) || !native(DataType::F64) || wide(ty, self)
            }
            (DataType::F64, _) | (_, DataType::F64) => {
                !native(DataType::F64) || wide(ty, self) || wide(source, self)
            }
            _ => !native(DataType::F32) || wide(ty, self) || wide(source, self),
        }
    }
}

/// Whether a type is of 64-bit integers that the device lacks.
fn wide(ty: DataType, options: &Options) -> bool {
    ty.is_integer() && ty.bits() == 64 && !options.features.int64
}

/// A module with one kernel, `main`.
#[derive(Clone, Debug)]
pub struct Shader {
    /// The module.
    pub words: Vec<u32>,
    /// The code and place of each trap, by the site that the trap word tells.
    pub traps: Vec<(u32, Place)>,
    /// Whether the program has grid barriers or collectives, and may run on a grid of one workgroup only.
    pub one_workgroup_only: bool,
    /// Bytes of workgroup memory that it takes.
    pub workgroup_bytes: u64,
    /// The blocks around its innermost line, functions counted where they are called.
    pub nesting: u32,
    /// What the binding of the long tables holds; empty where there is no such binding.
    pub tables: Vec<u32>,
    module: Written,
}

impl Shader {
    /// The module as `spirv-as` reads it, with the program's names.
    pub fn text(&self) -> String {
        self.module.text()
    }
}

/// Why a valid program has no module.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}. Fix: {}", self.message(), self.fix())]
pub enum LowerError {
    /// It needs 64-bit atomics, and the device has none.
    WideAtomic {
        /// The op.
        op: &'static str,
        /// Its type.
        ty: DataType,
    },
    /// The program could not be brought into the form that is written.
    Rewrite(#[from] PrepareError),
}

impl LowerError {
    /// What is wrong, without the fix.
    pub fn message(&self) -> String {
        match self {
            LowerError::WideAtomic { op, ty } => {
                format!("`{op}.{ty}` without a result may be contended, and the device has no 64-bit atomics")
            }
            LowerError::Rewrite(error) => error.message.clone(),
        }
    }

    /// What to do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            LowerError::WideAtomic { .. } => WIDE_ATOMIC_FIX,
            LowerError::Rewrite(error) => error.fix,
        }
    }
}

/// Writes the module for a program.
///
/// ```
/// use vyre_foundation::{text, validate};
/// use vyre_lower::spirv::{Options, lower};
///
/// let source = "program @double workgroup(64, 1, 1) {
///   buffer @y : read_write f32[] binding 0 output
///
///   %i = global_id x
///   %x = load.f32 @y[%i]
///   %d = add.f32 %x, %x
///   store.f32 @y[%i], %d
/// }";
/// let program = validate::validate(&text::parse(source).unwrap().program).unwrap();
/// let shader = lower(&program, &Options::default()).unwrap();
/// assert!(shader.text().contains("%d = OpFAdd %f32 %x %x"), "{}", shader.text());
/// ```
pub fn lower(program: &ValidProgram, options: &Options) -> Result<Shader, LowerError> {
    lower_for_subgroups(program, options, 0)
}

/// The same for a device each of whose subgroups holds so many consecutive lanes of a workgroup in their order, whatever
/// the workgroup's shape: subgroup ops of that width and below are shuffles. Vulkan promises no such order, so a driver
/// must have tried it.
pub fn lower_for_subgroups(
    program: &ValidProgram,
    options: &Options,
    subgroup_lanes: u32,
) -> Result<Shader, LowerError> {
    let bindings = Bindings::new(program.parts());
    let Prepared { program, facts, traps, .. } = prepare(program, &options.target())?;
    let parts = program.parts();
    let (mut refused, mut one_workgroup_only) = (None, false);
    walk(&parts.body.block, |_, _, node| {
        refused = refused.take().or(refusal(node, options));
        one_workgroup_only |= node.op().is_grid_wide();
    });
    if let Some(error) = refused {
        return Err(error);
    }
    let keeps_first_trap = one_workgroup_only && !traps.is_empty();
    let tables = LongTables::new(parts);
    let around = module::Around {
        parts,
        facts: &facts,
        options,
        bindings: &bindings,
        tables: &tables,
        subgroup_lanes,
    };
    let module = module::write(&around, keeps_first_trap);
    let (words, workgroup_bytes) = (module.encode(), module.workgroup_bytes);
    let nesting = nesting(parts);
    Ok(Shader { words, traps, one_workgroup_only, workgroup_bytes, nesting, tables: tables.words, module })
}

fn refusal(node: &Node, options: &Options) -> Option<LowerError> {
    match node {
        Node::Atomic { result: None, op: op @ (AtomicOp::Min | AtomicOp::Max), ty, .. }
            if ty.bits() == 64 && !options.features.int64_atomics =>
        {
            Some(LowerError::WideAtomic { op: op.info().name, ty: *ty })
        }
        _ => None,
    }
}
