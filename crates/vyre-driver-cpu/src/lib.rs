//! This host's own processor as a backend: id `cpu`.
//!
//! A program becomes *vector code*: a small machine-independent form in which one register holds a value of several
//! lanes. An emitter turns that into machine code, and threads run its workgroups. [`vector`] holds the form and the way into
//! it, `portable` and `x86` are emitters. `device` is the processor as the [`Queue`](vyre_driver::queue::Queue) under the driver
//! layer, `compile` makes machine code, `memory` is the host's, and `launch` runs a submission in place: the caller's bytes are
//! neither uploaded nor read back. Beside them `pool` has the threads and `watch` stops launches.
//!
//! Not here: the meaning of ops. `vyre_foundation::scalar` has that, and this crate is compared with it, never built
//! on it.

mod compile;
mod device;
mod executable;
mod launch;
mod listing;
mod memory;
mod pool;
mod portable;
mod runtime;
pub mod vector;
mod watch;
#[cfg(all(target_arch = "x86_64", unix))]
mod x86;

pub use device::{CpuConfig, Emitter, Processor};
pub use listing::listing;

/// This host's processor as a backend. Clones are handles to one device.
pub type CpuBackend = vyre_driver::queue::QueueBackend<Processor>;

/// A device of its own, with its own threads, resident memory and pipelines.
pub fn open(config: &CpuConfig) -> Result<CpuBackend, vyre_driver::BackendError> {
    Processor::open(config).map(CpuBackend::new)
}

vyre_driver::register_backend! {
    id: device::ID,
    precedence: 10,
    description: "machine code for this host's processor",
    open: || Ok(std::sync::Arc::new(open(&CpuConfig::from_env()?)?)),
}
