//! The backend `cuda`: NVIDIA devices through the CUDA driver, which is loaded when the backend is opened.
//!
//! `device` opens a device and is the [`Queue`](vyre_driver::queue::Queue) under the driver layer, `compile` makes kernels of
//! programs, `memory` has the pool, and `launch` runs a submission. Beside them `stream` is a CUDA stream with what a
//! submission needs, and `transfer` copies large buffers. Nothing here is linked against CUDA: a machine without its driver
//! gets an error that says so.
//!
//! Every `unsafe` block is a call into the CUDA driver, or a copy to memory that it gave; a comment beside it says why it is
//! sound.

mod compile;
mod device;
mod launch;
mod memory;
mod stream;
mod transfer;

pub use device::{Cuda, CudaConfig};

/// An NVIDIA device as a backend.
pub type CudaBackend = vyre_driver::queue::QueueBackend<Cuda>;

/// The id in the registry.
const ID: &str = "cuda";

/// Opens the device with that number.
pub fn open(config: &CudaConfig) -> Result<CudaBackend, vyre_driver::BackendError> {
    Cuda::open(config).map(CudaBackend::new)
}

vyre_driver::register_backend! {
    id: ID, precedence: 80, description: "NVIDIA devices through the CUDA driver",
    open: || Ok(std::sync::Arc::new(open(&CudaConfig::from_env()?)?)),
}
