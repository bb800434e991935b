//! A complete backend outside vyre's workspace: two required methods, honest limits, registration at link time.
//!
//! Where this one asks vyre's interpreter for the bytes, a vendor lowers the program to their device.

use std::sync::Arc;
use vyre_driver::admission::admit;
use vyre_driver::backend::private::Sealed;
use vyre_driver::{BackendError, DispatchConfig, VyreBackend};
use vyre_foundation::ir::Program;
use vyre_reference::{Options, RunError, run_in_place};

/// The backend. A vendor's holds their device.
pub struct ExampleBackend;

// Says: this type means to be a backend.
impl Sealed for ExampleBackend {}

impl VyreBackend for ExampleBackend {
    fn id(&self) -> &'static str {
        "example"
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
        // Admission checks the program, the inputs and our limits, and says what goes where.
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let admission = admit(self, program, &inputs, config)?;
        let contents = admission.bindings.iter().map(|binding| match binding.input {
            Some(input) => inputs[input].to_vec(),
            None => vec![0; binding.byte_len],
        });
        let mut buffers: Vec<Vec<u8>> = contents.collect();
        run_in_place(&admission, &mut buffers, &Options::default()).map_err(|error| match error {
            RunError::Trap { code, location, lane } => {
                BackendError::Trap { code, place: location.line, lane: Some(lane) }
            }
            other => BackendError::other(other.message(), other.fix()),
        })?;
        let results = admission.bindings.iter().zip(buffers);
        Ok(results.filter(|(binding, _)| binding.output.is_some()).map(|(_, bytes)| bytes).collect())
    }

    // Limits: what they say no to never reaches `dispatch`.
    fn max_workgroup_size(&self) -> [u32; 3] {
        [256, 256, 64]
    }

    fn max_compute_invocations_per_workgroup(&self) -> u32 {
        256
    }

    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        65_535
    }

    fn max_storage_buffer_bytes(&self) -> u64 {
        1 << 30
    }
}

fn open() -> Result<Arc<dyn VyreBackend>, BackendError> {
    Ok(Arc::new(ExampleBackend))
}

vyre_driver::register_backend! {
    id: "example",
    precedence: 5,
    description: "an example of a backend outside vyre's workspace",
    open: open,
}
