//! A device: opening it, what it can do, how it is lost, and how it takes the driver layer's work.
#![allow(unsafe_code)]

use crate::ID;
use crate::compile::{self, Kernel};
use crate::launch;
use crate::memory::{Memory, Pool};
use crate::stream::Stream;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vyre_driver::pipeline::{DiskCache, cache_dir};
use vyre_driver::queue::{About, Queue, Stop, Times, Work};
use vyre_driver::{BackendError, DeviceProfile, DeviceTimingQuality};
use vyre_foundation::limits;
use vyre_foundation::validate::ValidProgram;

const CACHE_BYTES_MAX: u64 = 256 << 20;

/// A context of our own: losing and reopening it leaves other users of CUDA in the process alone.
pub(crate) struct Context {
    raw: sys::CUcontext,
    pub(crate) facts: Facts,
    lost: AtomicBool,
    /// Set where a kernel would not end: destroying the context would wait for it.
    abandoned: AtomicBool,
    process: u32,
}

// SAFETY: a context is a handle that any thread may make current; the driver's own functions are thread-safe.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What the device says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) driver: String,
    /// The compute capability times ten.
    pub(crate) sm: u32,
    pub(crate) lanes_max: u32,
    pub(crate) axes_max: [u32; 3],
    pub(crate) shared_bytes_max: u32,
    pub(crate) registers_max: u32,
    pub(crate) compute_units: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) l2_bytes: u32,
    pub(crate) cooperative: bool,
}

fn unavailable(reason: impl Into<String>, fix: &str) -> BackendError {
    BackendError::Unavailable { backend: ID.into(), reason: reason.into(), fix: fix.into() }
}

impl Context {
    pub(crate) fn open(ordinal: u32) -> Result<Context, BackendError> {
        // SAFETY: it only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(unavailable(
                "the CUDA driver (libcuda) is not installed",
                "install NVIDIA's driver, or choose another backend",
            ));
        }
        let failed =
            |error: DriverError| unavailable(describe(error), "check that `nvidia-smi` sees the device");
        result::init().map_err(failed)?;
        let count = result::device::get_count().map_err(failed)?;
        if i64::from(ordinal) >= i64::from(count) {
            return Err(unavailable(
                format!("there are {count} devices, and number {ordinal} was asked for"),
                "choose a lower number in VYRE_CUDA_DEVICE",
            ));
        }
        let device = result::device::get(ordinal as i32).map_err(failed)?;
        let facts = Facts::read(device).map_err(failed)?;
        if facts.sm < 70 {
            return Err(unavailable(
                format!("{} has compute capability {}.{}", facts.name, facts.sm / 10, facts.sm % 10),
                "use a device of compute capability 7.0 or above",
            ));
        }
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUctx_flags::CU_CTX_MAP_HOST as u32;
        // SAFETY: `device` was given by the driver, and `raw` takes the context.
        unsafe { sys::cuCtxCreate_v2(&mut raw, flags, device) }.result().map_err(failed)?;
        let process = std::process::id();
        let (lost, abandoned) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Context { raw, facts, lost, abandoned, process })
    }

    /// Makes the context current on this thread, if the device can be used.
    pub(crate) fn enter(&self) -> Result<(), BackendError> {
        if self.is_lost() {
            let cause = "an earlier launch failed".into();
            return Err(BackendError::DeviceLost { backend: ID.into(), cause });
        }
        // SAFETY: the context lives as long as `self`.
        unsafe { result::ctx::set_current(self.raw) }.map_err(|error| self.fault(error, "the context"))
    }

    /// Whether calls that only tidy up make sense: not in a forked child, and not on a device that is gone.
    pub(crate) fn can_tidy(&self) -> bool {
        !self.is_lost() && std::process::id() == self.process && self.enter().is_ok()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Abandons a kernel that does not end.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
        self.lose();
    }

    /// What a failed call means. Errors that poison the context lose the device.
    pub(crate) fn fault(&self, error: DriverError, what: &str) -> BackendError {
        use sys::CUresult as Code;
        match error.0 {
            Code::CUDA_ERROR_OUT_OF_MEMORY => {
                BackendError::OutOfMemory { what: what.into(), requested_bytes: 0 }
            }
            Code::CUDA_ERROR_INVALID_PTX
            | Code::CUDA_ERROR_NO_BINARY_FOR_GPU
            | Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | Code::CUDA_ERROR_INVALID_IMAGE => BackendError::compile_failed(ID, describe(error)),
            Code::CUDA_ERROR_ILLEGAL_ADDRESS
            | Code::CUDA_ERROR_LAUNCH_FAILED
            | Code::CUDA_ERROR_LAUNCH_TIMEOUT
            | Code::CUDA_ERROR_MISALIGNED_ADDRESS
            | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | Code::CUDA_ERROR_INVALID_PC
            | Code::CUDA_ERROR_ASSERT
            | Code::CUDA_ERROR_ECC_UNCORRECTABLE
            | Code::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | Code::CUDA_ERROR_EXTERNAL_DEVICE
            | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
            | Code::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | Code::CUDA_ERROR_UNKNOWN => {
                self.lose();
                BackendError::DeviceLost { backend: ID.into(), cause: format!("{what}: {}", describe(error)) }
            }
            _ => BackendError::other(
                format!("CUDA failed at {what}: {}", describe(error)),
                "look the code up in CUDA's documentation, and report it with the program",
            ),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.abandoned.load(Ordering::Acquire) && std::process::id() == self.process {
            // SAFETY: whatever was made in the context holds a reference to `self`, so nothing is left of it. After an
            // error that poisoned it the call fails, and there is nothing more to do.
            let _ = unsafe { sys::cuCtxDestroy_v2(self.raw) };
        }
    }
}

impl Facts {
    fn read(device: sys::CUdevice) -> Result<Facts, DriverError> {
        // SAFETY: `device` was given by the driver.
        let get = |attribute| unsafe { result::device::get_attribute(device, attribute) };
        let number = |attribute| get(attribute).map(|value| value.max(0) as u32);
        let mut version = 0;
        // SAFETY: it writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
        Ok(Facts {
            name: result::device::get_name(device)?,
            driver: format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
            sm: number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
                + number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            lanes_max: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            axes_max: [
                number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ],
            shared_bytes_max: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            registers_max: 255,
            compute_units: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            // SAFETY: as above.
            memory_bytes: unsafe { result::device::total_mem(device)? } as u64,
            l2_bytes: number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            cooperative: number(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? > 0,
        })
    }
}

/// How a device is opened.
#[derive(Clone, Debug, Default)]
pub struct CudaConfig {
    /// Which device, as CUDA numbers them.
    pub ordinal: u32,
    /// Where compiled kernels are kept between processes; `None` keeps none.
    pub cache: Option<PathBuf>,
}

impl CudaConfig {
    /// The device that `VYRE_CUDA_DEVICE` numbers, or the first; `none` is none at all. Kernels are kept in `VYRE_CACHE`,
    /// or in the user's directory for caches. An empty `VYRE_CACHE` keeps none.
    pub fn from_env() -> Result<CudaConfig, BackendError> {
        let ordinal = match std::env::var("VYRE_CUDA_DEVICE").as_deref() {
            Err(_) => 0,
            Ok("none") => {
                return Err(BackendError::Unavailable {
                    backend: ID.into(),
                    reason: "VYRE_CUDA_DEVICE is `none`".into(),
                    fix: "unset VYRE_CUDA_DEVICE".into(),
                });
            }
            Ok(text) => text.parse().map_err(|_| {
                BackendError::other(
                    format!("VYRE_CUDA_DEVICE is `{}`", text.escape_debug()),
                    "set it to a device's number, as `nvidia-smi` lists them",
                )
            })?,
        };
        Ok(CudaConfig { ordinal, cache: cache_dir(ID) })
    }
}

/// An NVIDIA device that takes work.
pub struct Cuda {
    context: Arc<Context>,
    pool: Arc<Pool>,
    /// Streams that no submission uses now.
    streams: Mutex<Vec<Stream>>,
    cache: Option<DiskCache>,
    config: CudaConfig,
}

impl Cuda {
    pub(crate) fn open(config: &CudaConfig) -> Result<Cuda, BackendError> {
        let context = Arc::new(Context::open(config.ordinal)?);
        let cache = config.cache.as_ref().and_then(|dir| match DiskCache::open(dir, CACHE_BYTES_MAX) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(%error, dir = %dir.display(), "kernels are not kept on disk. Fix: set VYRE_CACHE to a folder that you may write to");
                None
            }
        });
        let pool = Pool::new(Arc::clone(&context));
        Ok(Cuda { context, pool, streams: Mutex::default(), cache, config: config.clone() })
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue for Cuda {
    type Memory = Memory;
    type Kernel = Kernel;

    fn about(&self) -> About {
        let facts = &self.context.facts;
        let axes = [0, 1, 2].map(|axis| facts.axes_max[axis].min(limits::WORKGROUP_AXIS_MAX[axis]));
        About {
            id: ID,
            version: env!("CARGO_PKG_VERSION"),
            device: facts.name.clone(),
            driver: facts.driver.clone(),
            workgroups_max: i32::MAX as u32,
            async_compute: true,
            grid_sync: facts.cooperative,
            // No multiprocessor of any compute capability holds more.
            resident_workgroups_max: match facts.cooperative {
                true => u64::from(facts.compute_units) * 32,
                false => 0,
            },
            stoppable_apart: true,
            profile: DeviceProfile {
                supports_subgroup_ops: true,
                supports_indirect_dispatch: true,
                supports_f16: true,
                supports_bf16: facts.sm >= 80,
                supports_tensor_cores: facts.sm >= 80,
                supports_trap_propagation: true,
                has_mul_high: true,
                has_subgroup_shuffle: true,
                has_shared_memory: true,
                max_native_int_width: 64,
                max_workgroup_size: axes,
                max_invocations_per_workgroup: facts.lanes_max.min(limits::WORKGROUP_LANES_MAX),
                max_shared_memory_bytes: facts.shared_bytes_max,
                max_storage_buffer_binding_size: facts.memory_bytes,
                subgroup_size: 32,
                compute_units: facts.compute_units,
                regs_per_thread_max: facts.registers_max,
                l2_cache_bytes: facts.l2_bytes,
                timing_quality: DeviceTimingQuality::DeviceEvents,
                supports_device_timestamps: true,
                shared_memory_bank_count: 32,
                shared_memory_bank_width_bytes: 4,
                ..DeviceProfile::unknown(ID)
            },
        }
    }

    fn allocate(&self, byte_len: usize) -> Result<Memory, BackendError> {
        self.pool.allocate(byte_len).map(Memory)
    }

    fn compile(&self, program: &ValidProgram, stop: &Stop) -> Result<Kernel, BackendError> {
        compile::compile(&self.context, self.cache.as_ref(), program, stop.is_possible())
    }

    fn submit(&self, work: Work<'_, Cuda>, stop: &Stop) -> Result<Times, BackendError> {
        self.context.enter()?;
        let kept = self.streams().pop();
        let mut stream = match kept {
            Some(stream) => stream,
            None => Stream::new(&self.context, &self.pool)?,
        };
        let result = launch::submit(&mut stream, work, stop);
        // What failed half-way may still be on the stream, and memory must not be reused under it. A kernel that does not
        // end is not waited for: it lost the device, and its memory with it.
        if result.is_ok() || !self.is_lost() && stream.wait().and_then(|()| stream.reset()).is_ok() {
            self.streams().push(stream);
        }
        result
    }

    fn resident_workgroups(&self, kernel: &Kernel, lanes: u64) -> Result<u64, BackendError> {
        if !self.context.facts.cooperative {
            return Ok(0);
        }
        self.context.enter()?;
        // SAFETY: the function belongs to a module that lives.
        let of_each = unsafe {
            result::occupancy::max_active_block_per_multiprocessor(
                kernel.function,
                lanes as i32,
                kernel.shared_bytes as usize,
            )
        };
        let of_each = of_each.map_err(|error| self.context.fault(error, "the occupancy"))?;
        Ok(of_each.max(0) as u64 * u64::from(self.context.facts.compute_units))
    }

    fn is_lost(&self) -> bool {
        self.context.is_lost()
    }

    fn lose(&self) {
        self.context.lose();
    }

    fn reopen(&self) -> Result<Cuda, BackendError> {
        Cuda::open(&self.config)
    }
}

fn describe(error: DriverError) -> String {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    match (name, text) {
        (Ok(name), Ok(text)) => format!("{name} ({text})"),
        _ => format!("{:?}", error.0),
    }
}
