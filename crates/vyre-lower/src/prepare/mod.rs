//! From a valid program to the program that an emitter sees.
//!
//! [`prepare`] is the only way there, for every emitter, and it takes these steps in this order:
//!
//! | step | what it does | who asks for it |
//! | --- | --- | --- |
//! | number | traps get numbers in program order, which devices record; functions are inlined if there are traps | [`Target::numbers_traps`] |
//! | optimise | the passes of `vyre_foundation::opt` | [`Target::passes`] |
//! | legalise | ops that the device lacks become lines of others | [`Target::products`], [`Target::exclusive_scans`] |
//! | software floats | floats that the device lacks become their bits, and their ops calls of functions over integers | [`Target::floats`] |
//! | tidy | passes over what the two steps before have written, if they have written anything | [`Target::tidy`] |
//! | facts | the accesses that are proven to stay in bounds | |
//!
//! After each step the program is an ordinary valid program that gives the same bytes, or the same trap, so the reference
//! interpreter can check all of it.

mod legalise;
mod software_floats;
mod traps;

use crate::{ptx, spirv};
pub(crate) use software_floats::{LibraryFunction, Routine};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{ComputeOp, DataType, Node, ProgramParts};
use vyre_foundation::opt::range::{self, AccessFacts};
use vyre_foundation::opt::{Draft, Pass};
use vyre_foundation::validate::ValidProgram;

/// What is native on a device, and how programs are improved for its emitter.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Whether a device records the numbers of traps. Otherwise traps keep their codes.
    pub numbers_traps: bool,
    /// The passes that optimise the program as it was written.
    pub passes: &'a [Pass],
    /// The floats that the emitter takes.
    pub floats: NativeFloats<'a>,
    /// Tile products that the emitter takes.
    pub products: NativeProducts<'a>,
    /// Whether the emitter takes exclusive scans of subgroups. It always takes inclusive ones.
    pub exclusive_scans: bool,
    /// The passes over a program with legalised ops or software floats.
    pub tidy: &'a [Pass],
}

impl Target<'_> {
    /// Everything is native, and all passes are run.
    pub const NATIVE: Target<'static> = Target {
        numbers_traps: true,
        passes: &Pass::ALL,
        floats: NativeFloats::All,
        products: NativeProducts::All,
        exclusive_scans: true,
        tidy: &Pass::ALL,
    };
}

/// Tile products that an emitter takes.
#[derive(Clone, Copy, Debug)]
pub enum NativeProducts<'a> {
    /// All of them.
    All,
    /// Those that tensor cores do.
    TensorCores(&'a ptx::Options),
    /// None.
    None,
}

impl NativeProducts<'_> {
    /// Whether the line, a tile product of the program, is taken.
    fn has(self, parts: &ProgramParts, product: &Node) -> bool {
        match self {
            NativeProducts::All => true,
            NativeProducts::TensorCores(options) => options.has_product(parts, product),
            NativeProducts::None => false,
        }
    }
}

/// Float ops that an emitter takes.
#[derive(Clone, Copy, Debug)]
pub enum NativeFloats<'a> {
    /// All of them.
    All,
    /// All but the exact remainder.
    AllButRem,
    /// Those that SPIR-V has an exact strategy for.
    Spirv(&'a spirv::Options),
    /// None: values are integers and bools alone.
    None,
}

impl NativeFloats<'_> {
    /// Whether a float type is a type of its own. Otherwise its values are their bits.
    fn has_type(self, ty: DataType) -> bool {
        match self {
            NativeFloats::All | NativeFloats::AllButRem => true,
            NativeFloats::Spirv(options) => !options.is_software_type(ty),
            NativeFloats::None => false,
        }
    }

    /// Whether an op of such a type is taken. `source` is the operand's type.
    fn has_op(self, op: ComputeOp, ty: DataType, source: DataType) -> bool {
        match self {
            NativeFloats::All | NativeFloats::None => true,
            NativeFloats::AllButRem => op != ComputeOp::Rem,
            NativeFloats::Spirv(options) => !options.is_software_op(op, ty, source),
        }
    }
}

/// A program has no form for the target within the limits of the language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  Fix: {fix}")]
pub struct PrepareError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: &'static str,
}

impl PrepareError {
    fn limit(limit: String) -> PrepareError {
        PrepareError {
            message: format!("lowered, the program passes a limit: {limit}"),
            fix: "split it into several dispatches, or let it have fewer functions, float lines or nested blocks",
        }
    }
}

/// What an emitter sees.
pub struct Prepared {
    /// The program.
    pub program: ValidProgram,
    /// The accesses that are proven to stay in bounds.
    pub facts: AccessFacts,
    /// The code and place of each trap in the program as it was written, by number; empty if the target does not number them.
    pub traps: Vec<(u32, Place)>,
    /// What each function of the program computes, if it is one of the software floats.
    pub(crate) library: Vec<Option<LibraryFunction>>,
}

/// Brings a program into the form that an emitter takes.
///
/// It fails only for programs close to the limits of the language, because a float op can become many lines.
///
/// ```
/// use vyre_foundation::{text, validate::validate};
/// use vyre_lower::prepare::{NativeFloats, Target, prepare};
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
/// let target = Target { floats: NativeFloats::None, tidy: &[], ..Target::NATIVE };
/// let printed = text::print(prepare(&program, &target).unwrap().program.program());
/// assert!(printed.contains("%r   = call @soft.mul.f32(%x, 1075838976)"), "{printed}");
/// assert!(!printed.contains("mul.f32 %x") && !printed.contains("store.f32"));
/// ```
pub fn prepare(program: &ValidProgram, target: &Target<'_>) -> Result<Prepared, PrepareError> {
    let mut draft = Draft::new(program);
    let traps = if target.numbers_traps { traps::number(&mut draft) } else { Vec::new() };
    if !target.passes.is_empty() {
        draft.optimise(target.passes);
    }
    let mut untidy = legalise::legalise(&mut draft, target);
    let mut program = draft.finish();
    let mut library = vec![None; program.parts().functions.len()];
    if let Some(rewritten) = software_floats::rewrite(program.parts(), target.floats)? {
        ((program, library), untidy) = (rewritten, true);
    }
    if untidy && !target.tidy.is_empty() {
        let mut draft = Draft::new(&program);
        draft.optimise(target.tidy);
        program = draft.finish();
        if program.parts().functions.is_empty() {
            library.clear();
        }
    }
    let facts = range::analyse(&program);
    Ok(Prepared { program, facts, traps, library })
}
