//! A vendor's backend: a runtime for compute shaders, and the trait that the conformance suite asks for.
//!
//! [`VendorRuntime`] stands for what a vendor has already. [`VendorBackend`] is all that vyre needs on top of it.

mod runtime;

pub use runtime::{LOOKUP_BINDING, Mistake, VendorRuntime};

use vyre_conform::{Convention, DispatchConfig, OutputInit, Profile, VyreBackend};

/// The runtime, as the suite sees it.
pub struct VendorBackend {
    runtime: VendorRuntime,
}

impl VendorBackend {
    /// A backend over an open device.
    pub fn new(runtime: VendorRuntime) -> VendorBackend {
        VendorBackend { runtime }
    }
}

impl VyreBackend for VendorBackend {
    fn name(&self) -> &str {
        "vendor-example"
    }

    fn max_convention(&self) -> Convention {
        Convention::V2 { lookup_binding: LOOKUP_BINDING }
    }

    fn profile(&self) -> Profile {
        Profile {
            version: env!("CARGO_PKG_VERSION").into(),
            device: self.runtime.device_name().into(),
            driver: self.runtime.driver_name(),
            ..Profile::floor()
        }
    }

    fn dispatch(
        &self,
        wgsl: &str,
        input: &[u8],
        output_size: usize,
        config: DispatchConfig,
    ) -> Result<Vec<u8>, String> {
        let output_fill = match config.output_init {
            OutputInit::Poison(byte) => byte,
            OutputInit::Zero | OutputInit::Uninitialized => 0,
        };
        let lookup = match config.convention {
            Convention::V1 => None,
            Convention::V2 { .. } => config.lookup_data.as_deref(),
        };
        let output = self.runtime.run_compute_shader(
            wgsl,
            input,
            output_size,
            config.workgroup_size,
            config.workgroup_count,
            lookup,
            output_fill,
        );
        output.map_err(|error| {
            format!("vendor dispatch failed: {error}. Fix: report the shader and this message")
        })
    }
}
