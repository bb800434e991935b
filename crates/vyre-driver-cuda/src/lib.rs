//! The backend `cuda`: NVIDIA devices through the CUDA driver, which is loaded when the backend is opened.
//!
//! `context` opens a device and knows when it is lost, `memory` has its pool, `compile` makes kernels of programs, `lane` is
//! a stream with what a submission needs beside it, `transfer` moves many bytes, and `submit` does the work that the driver
//! layer's [`QueueBackend`](vyre_driver::queue::QueueBackend) hands over. Nothing here is linked against CUDA: a machine
//! without its driver gets an error that says so.
//!
//! Every `unsafe` block is a call into the CUDA driver, or a copy to memory that it gave; what makes it sound stands beside
//! it.

mod compile;
mod context;
mod lane;
mod memory;
mod submit;
mod transfer;

pub use submit::{Cuda, CudaConfig};

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
