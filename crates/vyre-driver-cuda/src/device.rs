//! A device: opening it, what it can do, and how it is lost.
#![allow(unsafe_code)]

use crate::compile::Kernel;
use crate::memory::Memory;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vyre_driver::BackendError;
use vyre_driver::pipeline::PipelineCache;
use vyre_driver::resident::ResidentTable;

/// The id in the registry.
pub(crate) const ID: &str = "cuda";

/// An NVIDIA device as a backend. Clones are handles to one device.
#[derive(Clone)]
pub struct CudaBackend {
    pub(crate) device: Arc<Device>,
}

/// What all handles share.
pub(crate) struct Device {
    context: sys::CUcontext,
    pub(crate) stream: sys::CUstream,
    pub(crate) facts: Facts,
    pub(crate) resident: ResidentTable<Memory>,
    pub(crate) kernels: PipelineCache<Kernel>,
    /// One launch at a time: they share the stream.
    pub(crate) turn: Mutex<()>,
    lost: AtomicBool,
    shut_down: AtomicBool,
    pub(crate) dispatches: AtomicU64,
}

// SAFETY: a context and a stream are handles that any thread may use once the context is current on it, which
// `Device::enter` sees to; the driver's own functions are thread-safe.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// What the device says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) name: String,
    #[allow(dead_code)]
    pub(crate) driver: String,
    /// The compute capability times ten.
    pub(crate) sm: u32,
    pub(crate) lanes_max: u32,
    pub(crate) axes_max: [u32; 3],
    pub(crate) shared_bytes_max: u32,
    pub(crate) compute_units: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) l2_bytes: u32,
}

pub(crate) fn open() -> Result<Arc<dyn vyre_driver::VyreBackend>, BackendError> {
    Ok(Arc::new(CudaBackend::open(0)?))
}

fn unavailable(reason: impl Into<String>, fix: &str) -> BackendError {
    BackendError::Unavailable { backend: ID.into(), reason: reason.into(), fix: fix.into() }
}

impl CudaBackend {
    /// Opens the device with that number.
    pub fn open(ordinal: u32) -> Result<CudaBackend, BackendError> {
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
        if ordinal as i32 >= count {
            return Err(unavailable(
                format!("there are {count} devices, and number {ordinal} was asked for"),
                "choose a lower number",
            ));
        }
        let device = result::device::get(ordinal as i32).map_err(failed)?;
        // SAFETY: `device` was just given by the driver.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(failed)?;
        // SAFETY: the context was just retained and stays so until the device is dropped.
        unsafe { result::ctx::set_current(context) }.map_err(failed)?;
        let facts = Facts::read(device).map_err(failed)?;
        if facts.sm < 70 {
            return Err(unavailable(
                format!("{} has compute capability {}.{}", facts.name, facts.sm / 10, facts.sm % 10),
                "use a device of compute capability 7.0 or above",
            ));
        }
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(failed)?;
        keep_pool(device);
        Ok(CudaBackend {
            device: Arc::new(Device {
                context,
                stream,
                facts,
                resident: ResidentTable::new(ID),
                kernels: PipelineCache::new(1024),
                turn: Mutex::new(()),
                lost: AtomicBool::new(false),
                shut_down: AtomicBool::new(false),
                dispatches: AtomicU64::new(0),
            }),
        })
    }
}

/// Lets the memory pool keep what is freed, so that the next dispatch finds it. Without it everything still works.
fn keep_pool(device: sys::CUdevice) {
    let threshold = u64::MAX;
    // SAFETY: the attribute is a u64, and the pool belongs to a device that exists.
    unsafe {
        if let Ok(pool) = result::device::get_default_mem_pool(device) {
            let value = std::ptr::from_ref(&threshold).cast_mut().cast();
            let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            let _ = result::mem_pool::set_attribute(pool, attribute, value);
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
            compute_units: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            // SAFETY: as above.
            memory_bytes: unsafe { result::device::total_mem(device)? } as u64,
            l2_bytes: number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        })
    }
}

impl Device {
    /// Makes the context current on this thread, if the device can be used.
    pub(crate) fn enter(&self) -> Result<(), BackendError> {
        if self.shut_down.load(Ordering::Acquire) {
            return Err(BackendError::ShutDown { backend: ID.into() });
        }
        if self.is_lost() {
            return Err(BackendError::DeviceLost {
                backend: ID.into(),
                cause: "an earlier launch failed".into(),
            });
        }
        // SAFETY: the context is retained for as long as `self` lives.
        unsafe { result::ctx::set_current(self.context) }.map_err(|error| self.fault(error, "the context"))
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(crate) fn shut_down(&self) {
        self.shut_down.store(true, Ordering::Release);
        self.resident.lose_all();
        self.kernels.clear();
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
            | Code::CUDA_ERROR_INVALID_IMAGE => {
                BackendError::CompileFailed { backend: ID.into(), message: describe(error) }
            }
            Code::CUDA_ERROR_ILLEGAL_ADDRESS
            | Code::CUDA_ERROR_LAUNCH_FAILED
            | Code::CUDA_ERROR_LAUNCH_TIMEOUT
            | Code::CUDA_ERROR_MISALIGNED_ADDRESS
            | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | Code::CUDA_ERROR_ASSERT
            | Code::CUDA_ERROR_ECC_UNCORRECTABLE
            | Code::CUDA_ERROR_HARDWARE_STACK_ERROR => {
                self.lost.store(true, Ordering::Release);
                BackendError::DeviceLost { backend: ID.into(), cause: format!("{what}: {}", describe(error)) }
            }
            _ => BackendError::new(format!(
                "CUDA failed at {what}: {}. Fix: look the code up in CUDA's documentation, and report it with the program",
                describe(error)
            )),
        }
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
