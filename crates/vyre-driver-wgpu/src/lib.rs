//! The backend `wgpu`: any device with a Vulkan, Metal or DX12 driver.
//!
//! `device` opens a device and is the [`Queue`](vyre_driver::queue::Queue) under the driver layer, `compile` makes kernels of
//! programs, `memory` has the pool, and `launch` runs a submission. Beside them `adapter` finds devices and chooses one, and
//! `probe`, with the programs of `battery` and `order`, finds out at opening what the driver's compiler can be trusted with.
//!
//! Nothing panics where wgpu would: its errors are taken per thread and become ours. A kernel that does not end cannot be
//! stopped, so its device is abandoned with everything on it, and a fresh one is opened by `try_recover`.
//!
//! Every `unsafe` block hands wgpu something that it does not check: a shader of ours, or a file that the cache found
//! undamaged.

mod adapter;
mod battery;
mod compile;
mod device;
mod launch;
mod memory;
mod order;
mod probe;

pub use adapter::{Adapter, MemoryChoice, Selection, ShaderChoice, WgpuConfig, adapters};
pub use device::Wgpu;

/// A device behind wgpu as a backend.
pub type WgpuBackend = vyre_driver::queue::QueueBackend<Wgpu>;

/// The id in the registry.
const ID: &str = "wgpu";

/// Opens the device that is asked for.
pub fn open(config: &WgpuConfig) -> Result<WgpuBackend, vyre_driver::BackendError> {
    Wgpu::open(config).map(WgpuBackend::new)
}

vyre_driver::register_backend! {
    id: ID, precedence: 60, description: "any device with a Vulkan, Metal or DX12 driver",
    open: || Ok(std::sync::Arc::new(open(&WgpuConfig::from_env()?)?)),
    last_resort: adapter::is_last_resort,
}
