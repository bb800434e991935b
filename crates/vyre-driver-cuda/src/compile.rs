//! From programs to kernels on the device.
#![allow(unsafe_code)]

use crate::device::{Device, ID};
use cudarc::driver::result;
use cudarc::driver::sys;
use std::ffi::{CString, c_void};
use std::sync::Arc;
use vyre_driver::BackendError;
use vyre_driver::admission::CheckedProgram;
use vyre_driver::pipeline::PipelineKey;
use vyre_lower::ptx;

/// A loaded kernel.
pub(crate) struct Kernel {
    module: sys::CUmodule,
    pub(crate) function: sys::CUfunction,
    pub(crate) shared_bytes: u32,
    pub(crate) cooperative: bool,
    /// The codes of the traps, by site.
    pub(crate) traps: Vec<(u32, u32)>,
}

// SAFETY: modules and functions are handles that any thread may use while their context is current.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: nobody else has the module. If its context is gone, the call fails, and there is nothing to unload.
        let _ = unsafe { result::module::unload(self.module) };
    }
}

/// The kernel of a program, from the cache or new. With `poll`, its loops can be cancelled.
pub(crate) fn kernel(
    device: &Device,
    program: &CheckedProgram,
    poll: bool,
) -> Result<Arc<Kernel>, BackendError> {
    let key = PipelineKey {
        program: program.valid.program().digest(),
        backend: ID,
        version: env!("CARGO_PKG_VERSION"),
        variant: u64::from(poll),
    };
    device.kernels.get_or_compile(key, || build(device, program, poll))
}

fn build(device: &Device, program: &CheckedProgram, poll: bool) -> Result<Kernel, BackendError> {
    let _span = tracing::trace_span!("compile", program = program.valid.program().name()).entered();
    let options = ptx::Options { sm: device.facts.sm, poll };
    let lowered = ptx::lower(&program.valid, &options)
        .map_err(|error| BackendError::CompileFailed { backend: ID.into(), message: error.to_string() })?;
    let source = CString::new(lowered.source).expect("PTX has no zero bytes");
    let module = load(device, &source)?;
    let name = CString::new(lowered.entry).expect("the name has no zero bytes");
    // SAFETY: the module was just loaded.
    let function = unsafe { result::module::get_function(module, name) };
    let kernel = Kernel {
        module,
        function: function.map_err(|error| device.fault(error, "the kernel"))?,
        shared_bytes: lowered.shared_bytes,
        cooperative: lowered.cooperative,
        traps: lowered.traps,
    };
    let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function belongs to the module, which lives.
    unsafe {
        result::function::set_function_attribute(kernel.function, attribute, kernel.shared_bytes as i32)
    }
    .map_err(|error| device.fault(error, "the kernel's shared memory"))?;
    Ok(kernel)
}

/// Loads PTX, and tells what the driver's compiler said if it refuses.
fn load(device: &Device, source: &CString) -> Result<sys::CUmodule, BackendError> {
    const LOG_BYTES: usize = 8192;
    let mut log = vec![0u8; LOG_BYTES];
    let mut keys =
        [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), LOG_BYTES as *mut c_void];
    let mut module = std::ptr::null_mut();
    // SAFETY: the source ends in a zero byte, and the options describe `log`, which outlives the call.
    let code = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            source.as_ptr().cast(),
            2,
            keys.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    code.result().map_err(|error| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).into_owned();
        match log.is_empty() {
            true => device.fault(error, "loading PTX"),
            false => BackendError::CompileFailed { backend: ID.into(), message: log },
        }
    })?;
    Ok(module)
}
