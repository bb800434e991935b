//! This host's own processor as a backend: id `cpu`.
//!
//! A program becomes *vector code*: a small machine-independent form in which one register holds a value of several
//! lanes. An emitter turns that into machine code, and threads run its workgroups. [`vector`] holds the form and the way into
//! it, `portable` and `x86` are emitters; `compile`, `launch`, `memory`, `device` and `backend` are the driver around them.
//!
//! Not here: the meaning of ops. `vyre_foundation::scalar` has that, and this crate is compared with it, never built
//! on it.

mod backend;
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

pub use device::{CpuBackend, CpuConfig, Emitter};

vyre_driver::register_backend! {
    id: device::ID,
    precedence: 10,
    description: "machine code for this host's processor",
    open: device::open,
}
