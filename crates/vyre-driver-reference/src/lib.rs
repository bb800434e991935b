//! The reference interpreter as a backend: id `reference`.
//!
//! The slowest backend and the measure of all others. It offers the whole driver contract, so that everything built
//! on the contract can be tried on any machine. Name the crate (`use vyre_driver_reference as _;`) to link it.
//!
//! `device` holds the backend and its life, `launch` runs programs, `memory` keeps resident buffers, `compile` makes
//! pipelines.

mod backend;
mod compile;
mod device;
mod launch;
mod memory;

pub use device::ReferenceBackend;

vyre_driver::register_backend! {
    id: device::ID,
    precedence: 1,
    description: "the reference interpreter, on one core of this machine",
    open: device::open,
}
