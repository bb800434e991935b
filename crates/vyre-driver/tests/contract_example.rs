//! The example of the driver contract, as a vendor would paste it: it must compile with the line that opens the seal.
//!
//! The example calls a vendor's library and reads `self.context`; both are stood in for below, outside of it.

#[allow(unused_imports)] // The example names all four.
use vyre_driver::{BackendError, CompiledPipeline, DispatchConfig, VyreBackend};
use vyre_foundation::ir::Program;

/// The example's.
pub struct MyBackend {
    state: BackendState,
    caps: MyCaps,
}

impl vyre_driver::backend::private::Sealed for MyBackend {}

impl VyreBackend for MyBackend {
    fn id(&self) -> &'static str {
        "my-backend"
    }
    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    fn dispatch(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        cuda::launch(&self.context, program, inputs, config)
            .map_err(|error| BackendError::new(format!("Fix: cuda dispatch failed: {error}")))
    }

    fn supports_subgroup_ops(&self) -> bool {
        self.caps.warp_ops
    }
    fn supports_f16(&self) -> bool {
        self.caps.f16
    }
    fn supports_tensor_cores(&self) -> bool {
        self.caps.tensor_cores
    }
    fn supports_async_compute(&self) -> bool {
        true
    }
    fn supports_indirect_dispatch(&self) -> bool {
        true
    }
    fn max_workgroup_size(&self) -> [u32; 3] {
        self.caps.max_workgroup
    }
    fn max_storage_buffer_bytes(&self) -> u64 {
        self.caps.max_buffer
    }

    fn prepare(&self) -> Result<(), BackendError> {
        cuda::warm(&self.context).map_err(map_cuda_error)?;
        Ok(())
    }
    fn flush(&self) -> Result<(), BackendError> {
        cuda::sync(&self.context).map_err(map_cuda_error)?;
        Ok(())
    }
    fn shutdown(&self) -> Result<(), BackendError> {
        cuda::destroy(&self.context).map_err(map_cuda_error)?;
        Ok(())
    }
    fn device_lost(&self) -> bool {
        cuda::check_device(&self.context).is_err()
    }
}

/// The vendor's own.
pub struct BackendState {
    context: cuda::Context,
}

impl std::ops::Deref for MyBackend {
    type Target = BackendState;

    fn deref(&self) -> &BackendState {
        &self.state
    }
}

/// What was probed.
pub struct MyCaps {
    warp_ops: bool,
    f16: bool,
    tensor_cores: bool,
    max_workgroup: [u32; 3],
    max_buffer: u64,
}

fn map_cuda_error(error: cuda::Error) -> BackendError {
    BackendError::new(format!("the vendor's library says {error}. Fix: read its manual"))
}

/// Stands in for the vendor's library: a context is healthy or not.
mod cuda {
    use super::{DispatchConfig, Program};

    pub(crate) struct Context {
        pub(crate) healthy: bool,
    }

    pub(crate) type Error = &'static str;

    pub(crate) fn launch(
        context: &Context,
        _: &Program,
        inputs: &[Vec<u8>],
        _: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, Error> {
        sync(context).map(|()| inputs.to_vec())
    }

    pub(crate) fn sync(context: &Context) -> Result<(), Error> {
        if context.healthy { Ok(()) } else { Err("error 700") }
    }

    pub(crate) use sync as warm;
    pub(crate) use sync as destroy;
    pub(crate) use sync as check_device;
}

fn backend(healthy: bool) -> MyBackend {
    let caps =
        MyCaps { warp_ops: true, f16: false, tensor_cores: true, max_workgroup: [8, 4, 2], max_buffer: 99 };
    MyBackend { state: BackendState { context: cuda::Context { healthy } }, caps }
}

#[test]
fn the_example_runs_and_its_reports_reach_the_defaults() {
    let good = backend(true);
    let mut outputs = Vec::new();
    let config = DispatchConfig::default();
    good.dispatch_borrowed_into(&Program::empty(), &[&[1, 2]], &config, &mut outputs).unwrap();
    assert_eq!(outputs, [[1, 2]]);
    assert!(good.prepare().is_ok() && good.flush().is_ok() && good.shutdown().is_ok() && !good.device_lost());
    let profile = good.device_profile();
    assert_eq!(profile.backend, "my-backend");
    assert!(profile.supports_subgroup_ops && profile.supports_tensor_cores && !profile.supports_f16);
    assert_eq!((profile.max_invocations_per_workgroup, profile.max_storage_buffer_binding_size), (64, 99));
}

#[test]
fn the_examples_errors_carry_one_fix() {
    let bad = backend(false);
    assert!(bad.device_lost());
    let failed = bad.dispatch_borrowed(&Program::empty(), &[], &DispatchConfig::default()).map(drop);
    for error in [failed, bad.prepare(), bad.flush(), bad.shutdown()].map(Result::unwrap_err) {
        assert_eq!(error.to_string().matches("Fix:").count(), 1, "{error}");
        assert!(error.to_string().contains("error 700"), "{error}");
    }
}
