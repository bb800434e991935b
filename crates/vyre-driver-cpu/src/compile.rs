//! From programs to machine code.

use crate::device::{CpuConfig, Emitter, ID, Shared};
use crate::executable::{Executable, MachineCode};
use crate::launch::Watch;
use crate::portable::{self, Portable};
use crate::vector::code::Function;
use crate::vector::lower::{Shape, lower};
use crate::watch::TICK;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use vyre_driver::BackendError;
use vyre_driver::admission::valid;
use vyre_driver::grid_sync::{self, Plan};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{Buffer, BufferKind, Node, Program, ProgramParts, walk};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::validate::ValidProgram;
use vyre_lower::prepare::{PrepareError, Prepared, Target, prepare};

/// Makes machine code for this host.
pub(crate) struct Compiler {
    portable: Portable,
    native: Option<Native>,
    /// Whether that one is asked for by name.
    forced: bool,
    /// The most vectors in flight; 0 leaves it to the emitter.
    vectors: u32,
    /// Whether a thread compiles for a caller whose time is limited.
    aside: AtomicBool,
}

/// The emitter for this very processor.
#[cfg(all(target_arch = "x86_64", unix))]
type Native = crate::x86::Level;

/// Other processors have none.
#[cfg(not(all(target_arch = "x86_64", unix)))]
type Native = std::convert::Infallible;

/// A program as machine code.
pub(crate) struct Pipeline {
    pub(crate) code: Executable,
    /// Bytes of memory that each thread needs for itself.
    pub(crate) scratch_bytes: u64,
    /// How many buffers the program declares.
    pub(crate) buffers: usize,
    /// The bound ones by ascending binding: which they are, and their elements' bytes.
    pub(crate) bound: Vec<(usize, usize)>,
    pub(crate) tables: Vec<Table>,
    /// Lanes of a workgroup.
    pub(crate) group_lanes: u64,
    /// What the code records for a trap is its place here.
    pub(crate) traps: Vec<(u32, Place)>,
    /// Lines, with functions inlined: how much work a lane is.
    pub(crate) lines: u64,
    /// Whether it has loops, so that a lane's work is not known from its lines.
    pub(crate) loops: bool,
}

/// A constant table of a program.
pub(crate) struct Table {
    pub(crate) buffer: usize,
    /// Elements.
    pub(crate) len: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A compiled program.
pub struct Kernel(pub(crate) Code);

/// Its machine code.
pub(crate) enum Code {
    Whole(Arc<Pipeline>),
    /// One with grid barriers, as the parts between them.
    Parts {
        plan: Arc<Plan>,
        segments: Vec<Arc<Pipeline>>,
    },
}

impl Compiler {
    pub(crate) fn new(config: CpuConfig) -> Result<Compiler, BackendError> {
        let portable = Portable::new().map_err(|reason| BackendError::Unavailable {
            backend: ID.to_owned(),
            reason,
            fix: "use another backend: there is no code generator for this processor".to_owned(),
        })?;
        let forced = config.emitter != Emitter::Auto;
        let aside = AtomicBool::new(false);
        Ok(Compiler { portable, native: native(config.emitter)?, forced, vectors: config.vectors, aside })
    }

    /// What makes the machine code, and how wide its vectors are.
    pub(crate) fn name(&self) -> &'static str {
        self.native.map_or("Cranelift with 128-bit vectors", native_name)
    }

    pub(crate) fn vector_bits(&self) -> u32 {
        self.native.map_or(portable::SHAPE, native_shape).lanes * 32
    }

    /// A large program takes seconds, so compiling ends between steps if its dispatch has to.
    fn compile(&self, valid: &ValidProgram, watch: &Watch) -> Result<Pipeline, BackendError> {
        let parts = valid.parts();
        let prepared = prepare(valid, &Target::NATIVE).map_err(too_large)?;
        watch.check()?;
        let (mut lines, mut loops) = (0, false);
        walk(&prepared.program.parts().body.block, |_, _, node| {
            lines += 1;
            loops |= matches!(node, Node::For { .. });
        });
        let bound = bound_buffers(parts);
        let (code, scratch_bytes) = self.emit(&prepared, &|| watch.check())?;
        Ok(Pipeline {
            code: Executable::new(&code).map_err(|error| BackendError::compile_failed(ID, error))?,
            scratch_bytes,
            buffers: parts.buffers.len(),
            bound: bound.iter().map(|id| (id.index(), parts.buffer(*id).ty.bytes().max(1))).collect(),
            tables: tables(parts),
            group_lanes: parts.workgroup_lanes(),
            traps: prepared.traps,
            lines,
            loops,
        })
    }

    /// The machine code and the scratch memory it wants. What the processor's own emitter does not take, the portable one
    /// does, unless that one is asked for by name.
    pub(crate) fn emit(
        &self,
        prepared: &Prepared,
        check: &dyn Fn() -> Result<(), BackendError>,
    ) -> Result<(MachineCode, u64), BackendError> {
        let failed = |message: String| BackendError::compile_failed(ID, message);
        if let Some(native) = self.native {
            let function = self.lower(prepared, native_shape(native))?;
            check()?;
            match emit_native(native, &function) {
                Ok(code) => return Ok((code, function.scratch_bytes)),
                Err(reason) if self.forced => return Err(failed(reason)),
                Err(reason) => {
                    tracing::warn!(
                        program = prepared.program.parts().name.as_ref() as &str,
                        reason,
                        "compiled by the portable emitter"
                    );
                }
            }
        }
        let function = self.lower(prepared, portable::SHAPE)?;
        check()?;
        Ok((self.portable.compile(&function).map_err(failed)?, function.scratch_bytes))
    }

    fn lower(&self, prepared: &Prepared, mut shape: Shape) -> Result<Function, BackendError> {
        if self.vectors > 0 {
            // Asked for, so registers have no say.
            (shape.vectors_max, shape.registers) = (self.vectors.next_power_of_two().min(16), u32::MAX);
        }
        lower(prepared, shape)
            .map_err(|name| BackendError::UnsupportedFeature { name, backend: ID.to_owned() })
    }
}

pub(crate) fn too_large(error: PrepareError) -> BackendError {
    BackendError::CompileFailed { backend: ID.to_owned(), message: error.message, fix: error.fix.into() }
}

/// Compiles for a caller whose time may be limited. One step of a large program can take far longer than that, so a thread
/// compiles, and goes on alone where the time is up. There is one such thread; a caller who finds it busy waits for each step.
fn compile_in_time(
    shared: &Arc<Shared>,
    valid: &ValidProgram,
    watch: &Watch,
) -> Result<Pipeline, BackendError> {
    let compiler = &shared.compiler;
    if !watch.has_deadline() || compiler.aside.swap(true, Ordering::AcqRel) {
        return compiler.compile(valid, watch);
    }
    let (sender, receiver) = mpsc::channel();
    let (shared, valid, theirs) = (Arc::clone(shared), valid.clone(), watch.clone());
    let thread = std::thread::spawn(move || {
        let compiled = shared.compiler.compile(&valid, &theirs);
        shared.compiler.aside.store(false, Ordering::Release);
        // The caller may have gone.
        let _ = sender.send(compiled);
    });
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(compiled) => return compiled,
            Err(RecvTimeoutError::Timeout) => watch.check()?,
            Err(RecvTimeoutError::Disconnected) => {
                let panic = thread.join().expect_err("a thread that sends nothing has panicked");
                std::panic::resume_unwind(panic)
            }
        }
    }
}

/// The processor's own emitter, if it is asked for and there is one.
#[cfg(all(target_arch = "x86_64", unix))]
fn native(emitter: Emitter) -> Result<Option<Native>, BackendError> {
    let level = match emitter {
        Emitter::Auto => return Ok(Native::detect()),
        Emitter::Portable => return Ok(None),
        Emitter::Avx2 => Native::Avx2,
        Emitter::Avx512 => Native::Avx512,
    };
    if level.is_there() { Ok(Some(level)) } else { Err(not_here(emitter)) }
}

#[cfg(not(all(target_arch = "x86_64", unix)))]
fn native(emitter: Emitter) -> Result<Option<Native>, BackendError> {
    match emitter {
        Emitter::Auto | Emitter::Portable => Ok(None),
        Emitter::Avx2 | Emitter::Avx512 => Err(not_here(emitter)),
    }
}

fn not_here(emitter: Emitter) -> BackendError {
    BackendError::Unavailable {
        backend: ID.to_owned(),
        reason: format!("this processor does not run what {emitter:?} emits"),
        fix: "leave the emitter at `Emitter::Auto`, or unset VYRE_CPU_EMITTER".to_owned(),
    }
}

#[cfg(all(target_arch = "x86_64", unix))]
fn native_name(native: Native) -> &'static str {
    match native {
        Native::Avx2 => "AVX2 with 256-bit vectors",
        Native::Avx512 => "AVX-512 with 512-bit vectors",
    }
}

#[cfg(all(target_arch = "x86_64", unix))]
fn native_shape(native: Native) -> Shape {
    native.shape()
}

#[cfg(all(target_arch = "x86_64", unix))]
fn emit_native(native: Native, function: &Function) -> Result<MachineCode, String> {
    crate::x86::compile(function, native)
}

#[cfg(not(all(target_arch = "x86_64", unix)))]
fn native_name(native: Native) -> &'static str {
    match native {}
}

#[cfg(not(all(target_arch = "x86_64", unix)))]
fn native_shape(native: Native) -> Shape {
    match native {}
}

#[cfg(not(all(target_arch = "x86_64", unix)))]
fn emit_native(native: Native, _: &Function) -> Result<MachineCode, String> {
    match native {}
}

fn tables(parts: &ProgramParts) -> Vec<Table> {
    let table = |(buffer, declared): (usize, &Buffer)| match &declared.kind {
        BufferKind::Table { data } => {
            let bytes = data.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(declared.ty.bytes()));
            Some(Table { buffer, len: data.len() as u32, bytes: bytes.collect() })
        }
        BufferKind::Uniform { .. }
        | BufferKind::Read { .. }
        | BufferKind::ReadWrite { .. }
        | BufferKind::Workgroup => None,
    };
    parts.buffers.iter().enumerate().filter_map(table).collect()
}

/// Compiles a program; one with grid barriers as the parts between them.
pub(crate) fn compile(
    shared: &Arc<Shared>,
    program: &ValidProgram,
    watch: &Watch,
) -> Result<Kernel, BackendError> {
    let compile = |valid: &ValidProgram| compile_in_time(shared, valid, watch).map(Arc::new);
    if !program.facts().has_grid_sync {
        return compile(program).map(Code::Whole).map(Kernel);
    }
    let plan = grid_sync::plan(program)?;
    let segment = |segment: &Program| compile(&valid(segment, None)?);
    let segments = plan.segments.iter().map(segment).collect::<Result<_, _>>()?;
    Ok(Kernel(Code::Parts { plan, segments }))
}
