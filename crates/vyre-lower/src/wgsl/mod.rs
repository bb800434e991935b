//! WebGPU's shading language.
//!
//! [`lower`] writes a shader for the calling convention of [`crate::convention`], or for the [`bindings`] of our own
//! driver. Values are u32, i32 and bool alone: floats are softened first and 64-bit integers are pairs of words, so a
//! shader gives the right bytes wherever WGSL is implemented right. Functions of the program are inlined, which puts its
//! traps in order; those that softening adds stay functions, which keeps shaders small. A driver that has tried a device's
//! own f32 there can have them in those functions' place: [`Options::floats`].
//!
//! | file | what it writes |
//! | --- | --- |
//! | `module` | the shader around the bodies: bindings, variables, prologue, the library functions in use |
//! | `body` | the lines of a body |
//! | `compute` | the ops on a lane's own values |
//! | `native` | the device's own f32 in the place of softened ones |
//! | `together` | barriers, subgroup ops, `uniform_load` |
//! | `library` and the `.wgsl` files | functions that shaders may need |
//! | `names` | identifiers |
//!
//! Every line of a program is one `let`, so expressions do not nest. Nothing that WGSL would compute at compile time is
//! left to it, because it refuses there what the language gives an answer to.
//!
//! Shaders for our own driver are optimised, and what is proven to stay in bounds is not checked. Those of the convention
//! are the program as it is written. Subgroup ops use workgroup memory, not the device's subgroups, which no one promises.

mod body;
mod compute;
mod library;
mod module;
mod names;
mod native;
mod together;

use crate::bindings::{self, LongTables, WIDE_ATOMIC_FIX, needs_lock};
use crate::floats::{FloatOp, Floats, How};
use crate::nesting::nesting;
use crate::prepare::{NativeFloats, NativeProducts, PrepareError, Prepared, Target, prepare};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{DataType, Node, ProgramParts, walk};
use vyre_foundation::opt::Pass;
use vyre_foundation::validate::ValidProgram;

/// How workgroups of the program relate to those of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One for one. The output must start at zero, and no read_write buffer may have initial contents.
    Grid,
    /// A single workgroup is launched and takes the program's workgroups one after the other. It writes all of the
    /// output first, so what that held before does not matter.
    OneWorkgroup,
    /// One for one, for the [`bindings`] of our own driver. There is no lookup data.
    Driver,
}

impl Form {
    /// What is native in the form: no floats. For our own driver programs are optimised, but loops stay loops: a float op of
    /// a body that is written out becomes a software one each time, and those are long.
    pub const fn target(self) -> Target<'static> {
        const PASSES: [Pass; 9] = [
            Pass::Inline,
            Pass::Fold,
            Pass::Forward,
            Pass::IfConvert,
            Pass::Algebra,
            Pass::Range,
            Pass::Cse,
            Pass::Licm,
            Pass::Dce,
        ];
        let (numbers_traps, passes): (_, &[Pass]) = match self {
            Form::Driver => (true, &PASSES),
            Form::Grid | Form::OneWorkgroup => (false, &[Pass::Inline]),
        };
        Target {
            numbers_traps,
            passes,
            floats: NativeFloats::None,
            products: NativeProducts::None,
            exclusive_scans: false,
            tidy: &[],
        }
    }
}

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The form.
    pub form: Form,
    /// Where the convention binds lookup data, if it has some: 3 or higher.
    pub lookup_binding: Option<u32>,
    /// How ops of f32 are made in the driver's form, as far as there are such [`ways`]. In the others, and for the other types,
    /// they are made of integers.
    pub floats: Floats,
}

impl Options {
    /// For our own driver, with floats of integers.
    pub const DRIVER: Options = Options { form: Form::Driver, lookup_binding: None, floats: Floats::SOFT };
}

/// The ways to make an op of f32 or f64, the fastest first; the last is exact wherever integers are.
pub const fn ways(op: FloatOp, ty: DataType) -> &'static [How] {
    match (op, ty) {
        (_, DataType::F64) => &[How::Soft],
        (FloatOp::Div | FloatOp::Sqrt, _) => &[How::Native, How::Guarded, How::Corrected, How::Soft],
        (FloatOp::Add | FloatOp::Mul | FloatOp::Fma, _) => &[How::Native, How::Guarded, How::Soft],
        (FloatOp::Compare | FloatOp::Round | FloatOp::Cast, _) => &[How::Native, How::Soft],
    }
}

/// A shader and what its host must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// The text.
    pub source: String,
    /// The name of the entry point.
    pub entry_point: &'static str,
    /// Lanes of a workgroup along x, y and z, as the shader declares them.
    pub workgroup_size: [u32; 3],
    /// The program's traps in program order: the site that the trap word tells, and the code. In the driver's form the
    /// site is the trap's number.
    pub traps: Vec<(u32, u32)>,
    /// In the driver's form, where the traps are in the program as it was written, by number.
    pub places: Vec<Place>,
    /// Whether the program has grid barriers or collectives, and may run on a grid of one workgroup only.
    pub one_workgroup_only: bool,
    /// Bytes of workgroup memory that it takes: the program's own, and what lanes exchange.
    pub workgroup_bytes: u64,
    /// The blocks around its innermost line, functions counted where they are called.
    pub nesting: u32,
    /// In the driver's form, what the binding of the long tables holds; empty where there is no such binding.
    pub tables: Vec<u32>,
}

impl Shader {
    /// The code of the trap at a site in the trap word.
    pub fn trap_code(&self, site: u32) -> Option<u32> {
        self.traps.iter().find(|(other, _)| *other == site).map(|(_, code)| *code)
    }
}

/// Why a valid program has no shader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}. Fix: {}", self.message(), self.fix())]
pub enum LowerError {
    /// WGSL has 32-bit atomics only, and this one cannot be put together from them.
    WideAtomic {
        /// The op.
        op: &'static str,
        /// Its type.
        ty: DataType,
    },
    /// WGSL's limit on braces.
    Nesting {
        /// How deep.
        depth: usize,
    },
    /// The convention's own bindings.
    LookupBinding {
        /// The binding.
        binding: u32,
    },
    /// The program could not be brought into the form that is written.
    Rewrite(#[from] PrepareError),
}

impl LowerError {
    /// What is wrong, without the fix.
    pub fn message(&self) -> String {
        match self {
            LowerError::WideAtomic { op, ty } => {
                format!("`{op}.{ty}` without a result may be contended, and WGSL has no 64-bit atomics")
            }
            LowerError::Nesting { depth } => {
                format!("blocks nest {depth} deep, and shaders at most {DEPTH_MAX}")
            }
            LowerError::LookupBinding { binding } => {
                format!("lookup data at binding {binding} would hide input, output or params")
            }
            LowerError::Rewrite(error) => error.message.clone(),
        }
    }

    /// What to do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            LowerError::WideAtomic { .. } => WIDE_ATOMIC_FIX,
            LowerError::Nesting { .. } => "flatten the conditions, or split the program",
            LowerError::LookupBinding { .. } => "bind it at 3 or higher",
            LowerError::Rewrite(error) => error.fix,
        }
    }
}

/// The blocks that may nest in a program: WGSL's 127 braces less those around the body.
pub const DEPTH_MAX: usize = 120;

/// Writes the shader for a program.
///
/// ```
/// use vyre_foundation::{text, validate};
/// use vyre_lower::wgsl::{Options, lower};
///
/// let source = "program @double workgroup(64, 1, 1) {
///   buffer @y : read_write u32[] binding 0 output
///
///   %i = global_id x
///   %d = shl.u32 %i, 1
///   store.u32 @y[%i], %d
/// }";
/// let program = validate::validate(&text::parse(source).unwrap().program).unwrap();
/// let shader = lower(&program, &Options::DRIVER).unwrap();
/// assert!(shader.source.contains("let d = i << 1u;"), "{}", shader.source);
/// ```
pub fn lower(program: &ValidProgram, options: &Options) -> Result<Shader, LowerError> {
    if let Some(binding @ 0..=2) = options.lookup_binding {
        return Err(LowerError::LookupBinding { binding });
    }
    let Prepared { program: prepared, facts, traps, library } = prepare(program, &options.form.target())?;
    let natives = match options.form {
        Form::Driver => native::chosen(&library, &options.floats),
        Form::Grid | Form::OneWorkgroup => vec![None; library.len()],
    };
    let parts = prepared.parts();
    let tables = match options.form {
        Form::Driver => LongTables::new(parts),
        Form::Grid | Form::OneWorkgroup => LongTables::default(),
    };
    let mut shader = Shader {
        source: String::new(),
        entry_point: bindings::ENTRY_POINT,
        workgroup_size: parts.workgroup,
        traps: traps.iter().enumerate().map(|(number, (code, _))| (number as u32, *code)).collect(),
        places: traps.into_iter().map(|(_, place)| place).collect(),
        one_workgroup_only: false,
        workgroup_bytes: 0,
        nesting: nesting(parts),
        tables: Vec::new(),
    };
    let (mut refused, mut deepest) = (None, 0);
    walk(&parts.body.block, |site, depth, node| {
        deepest = deepest.max(depth);
        refused = refused.take().or(refusal(options.form, node));
        shader.one_workgroup_only |= node.op().is_grid_wide();
        if let (Node::Trap { code }, Form::Grid | Form::OneWorkgroup) = (node, options.form) {
            shader.traps.push((site, *code));
        }
    });
    match refused {
        _ if deepest > DEPTH_MAX => Err(LowerError::Nesting { depth: deepest }),
        Some(error) => Err(error),
        None => {
            (shader.source, shader.workgroup_bytes) =
                module::write(program, &prepared, &facts, &natives, options, &shader, &tables);
            shader.tables = tables.words;
            Ok(shader)
        }
    }
}

fn refusal(form: Form, node: &Node) -> Option<LowerError> {
    match node {
        // The driver has room for locks, the convention has none.
        Node::Atomic { op, ty, .. } if form != Form::Driver && needs_lock(node) => {
            Some(LowerError::WideAtomic { op: op.info().name, ty: *ty })
        }
        _ => None,
    }
}

/// The logical subgroup width; 1 where none is declared.
fn subgroup_width(parts: &ProgramParts) -> u32 {
    parts.subgroup.unwrap_or(1)
}
