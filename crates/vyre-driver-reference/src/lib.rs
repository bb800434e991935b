//! The reference interpreter as a backend: id `reference`.
//!
//! The slowest backend and the measure of all others. It offers the whole driver contract, so that everything built
//! on the contract can be tried on any machine. Name the crate (`use vyre_driver_reference as _;`) to link it.
//!
//! `device` is the interpreter as the [`Queue`](vyre_driver::queue::Queue) under the driver layer, `memory` is the host's,
//! `launch` runs a submission, and `compile` has nothing to do.

mod compile;
mod device;
mod launch;
mod memory;

pub use device::Interpreter;

/// The reference interpreter as a backend. Clones are handles to one device.
pub type ReferenceBackend = vyre_driver::queue::QueueBackend<Interpreter>;

/// The id in the registry.
const ID: &str = "reference";

vyre_driver::register_backend! {
    id: ID,
    precedence: 1,
    description: "the reference interpreter, on one core of this machine",
    open: || Ok(std::sync::Arc::new(ReferenceBackend::default())),
}
