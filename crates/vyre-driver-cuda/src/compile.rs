//! From programs to kernels on the device.
#![allow(unsafe_code)]

use crate::ID;
use crate::device::Context;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUfunction_attribute as Attribute, CUjit_option as Jit};
use std::ffi::{CString, c_void};
use std::sync::Arc;
use vyre_driver::BackendError;
use vyre_driver::pipeline::{DiskCache, PipelineKey};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::Digest;
use vyre_foundation::validate::ValidProgram;
use vyre_lower::ptx;

/// A loaded kernel.
pub struct Kernel {
    module: sys::CUmodule,
    pub(crate) function: sys::CUfunction,
    /// Threads of a block.
    pub(crate) block: [u32; 3],
    /// Lanes of the program along x in one block.
    pub(crate) block_lanes: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) cooperative: bool,
    /// The code and place of each trap, by number.
    pub(crate) traps: Vec<(u32, Place)>,
    context: Arc<Context>,
}

// SAFETY: modules and functions are handles that any thread may use while their context is current.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.context.can_tidy() {
            // SAFETY: this is the only handle to the module, and no launch of it runs: those hold the kernel.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}

/// Lowers, compiles and loads a program. Its long loops look at the cancel word if `poll`.
pub(crate) fn compile(
    context: &Arc<Context>,
    cache: Option<&DiskCache>,
    program: &ValidProgram,
    poll: bool,
) -> Result<Kernel, BackendError> {
    context.enter()?;
    let options = ptx::Options { sm: context.facts.sm, poll };
    let lowered = ptx::lower(program, &options).map_err(|error| BackendError::CompileFailed {
        backend: ID.into(),
        message: error.message,
        fix: error.fix.into(),
    })?;
    let binary = binary(context, cache, &lowered.source)?;
    // SAFETY: the driver made the binary, or the cache found it undamaged.
    let module = unsafe { result::module::load_data(binary.as_ptr().cast()) }
        .map_err(|error| context.fault(error, "loading a kernel"))?;
    let name = CString::new(lowered.entry).expect("the name has no zero bytes");
    // SAFETY: the module was just loaded.
    let function = unsafe { result::module::get_function(module, name) };
    // A module without its kernel is unloaded like one with it.
    let mut kernel = Kernel {
        module,
        function: std::ptr::null_mut(),
        block: lowered.block,
        block_lanes: lowered.block_lanes,
        shared_bytes: lowered.shared_bytes,
        cooperative: lowered.cooperative,
        traps: lowered.traps,
        context: Arc::clone(context),
    };
    kernel.function = function.map_err(|error| context.fault(error, "the kernel"))?;
    let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function belongs to the module, which lives.
    unsafe {
        result::function::set_function_attribute(kernel.function, attribute, kernel.shared_bytes as i32)
    }
    .map_err(|error| context.fault(error, "the kernel's shared memory"))?;
    // SAFETY: as above.
    let get = |attribute| unsafe { result::function::get_function_attribute(kernel.function, attribute) };
    tracing::debug!(
        program = program.program().name(),
        registers = get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS).unwrap_or(0),
        spilled_bytes = get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES).unwrap_or(0),
        shared_bytes = kernel.shared_bytes,
        "compiled"
    );
    Ok(kernel)
}

/// The machine code of PTX, from the cache on disk or from the driver's compiler. What is kept is named by the text, the
/// device and the driver, which decide it together.
fn binary(context: &Context, cache: Option<&DiskCache>, source: &str) -> Result<Vec<u8>, BackendError> {
    let mut hasher = blake3::Hasher::new();
    for text in [source, &context.facts.driver, &context.facts.name] {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    let program = Digest(*hasher.finalize().as_bytes());
    let key = PipelineKey { program, backend: ID, version: env!("CARGO_PKG_VERSION"), variant: 0 };
    if let Some(binary) = cache.and_then(|cache| cache.get(&key)) {
        return Ok(binary);
    }
    let binary = link(context, source)?;
    if let Some(cache) = cache
        && let Err(error) = cache.put(&key, &binary)
    {
        tracing::warn!(%error, "a compiled kernel could not be kept on disk. Fix: set VYRE_CACHE to a folder with room that you may write to");
    }
    Ok(binary)
}

/// Compiles PTX, and reports the log of the driver's compiler if it refuses.
fn link(context: &Context, source: &str) -> Result<Vec<u8>, BackendError> {
    const LOG_BYTES: usize = 8192;
    let mut log = vec![0u8; LOG_BYTES];
    let mut keys = [Jit::CU_JIT_ERROR_LOG_BUFFER, Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), LOG_BYTES as *mut c_void];
    let source = CString::new(source).expect("PTX has no zero bytes");
    let bytes = source.as_bytes_with_nul();
    let mut state = std::ptr::null_mut();
    let (mut start, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: the options describe `log`, which outlives the state; the text ends in a zero byte; what comes out belongs
    // to the state, and is copied before that is destroyed.
    let linked = unsafe {
        let made = sys::cuLinkCreate_v2(2, keys.as_mut_ptr(), values.as_mut_ptr(), &mut state).result();
        let linked = made.and_then(|()| {
            sys::cuLinkAddData_v2(
                state,
                sys::CUjitInputType::CU_JIT_INPUT_PTX,
                bytes.as_ptr().cast_mut().cast(),
                bytes.len(),
                c"kernel.ptx".as_ptr(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
            .result()?;
            sys::cuLinkComplete(state, &mut start, &mut len).result()?;
            Ok(std::slice::from_raw_parts(start.cast::<u8>(), len).to_vec())
        });
        if !state.is_null() {
            let _ = sys::cuLinkDestroy(state);
        }
        linked
    };
    linked.map_err(|error| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).into_owned();
        match log.is_empty() {
            true => context.fault(error, "compiling PTX"),
            false => BackendError::compile_failed(ID, log),
        }
    })
}
