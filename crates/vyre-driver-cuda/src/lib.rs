//! The backend `cuda`: NVIDIA devices through the CUDA driver, which is loaded when the backend is opened.
//!
//! `device` opens a device and keeps it, `compile` makes kernels of programs, `memory` has device memory, `launch` runs, and
//! `backend` is the driver contract. Nothing here is linked against CUDA: a machine without its driver gets an error that
//! says so.
//!
//! Every `unsafe` block is a call into the CUDA driver; what makes it sound stands beside it.

mod backend;
mod compile;
mod device;
mod launch;
mod memory;

pub use device::CudaBackend;

vyre_driver::register_backend! {
    id: device::ID, precedence: 80, description: "NVIDIA devices through the CUDA driver",
    open: device::open,
}
