//! Pipelines: a program admitted once, dispatched often.

use crate::device::{Device, ID, ReferenceBackend};
use crate::launch;
use std::sync::Arc;
use vyre_driver::admission::{CheckedProgram, check};
use vyre_driver::pipeline::PipelineKey;
use vyre_driver::{BackendError, CompiledPipeline, DispatchConfig, OutputBuffers};
use vyre_foundation::ir::Program;

/// What the cache keeps: the interpreter has no machine code, only the validated program.
pub(crate) type Checked = Arc<CheckedProgram>;

/// A program made ready.
pub(crate) struct ReferencePipeline {
    device: Arc<Device>,
    generation: u64,
    program: Program,
}

impl CompiledPipeline for ReferencePipeline {
    fn program(&self) -> &Program {
        &self.program
    }

    fn is_valid(&self) -> bool {
        self.device.is_current(self.generation)
    }

    fn dispatch(&self, inputs: &[&[u8]], config: &DispatchConfig) -> Result<OutputBuffers, BackendError> {
        self.device.ready()?;
        if !self.is_valid() {
            return Err(BackendError::PipelineInvalidated { backend: ID.to_owned() });
        }
        let backend = ReferenceBackend { device: Arc::clone(&self.device) };
        launch::dispatch(&backend, &self.program, inputs, config).map(|timed| timed.outputs)
    }
}

/// Makes a program ready, asking the cache first.
pub(crate) fn compile(
    backend: &ReferenceBackend,
    program: &Program,
    config: &DispatchConfig,
) -> Result<Arc<dyn CompiledPipeline>, BackendError> {
    let device = &backend.device;
    let generation = device.ready()?;
    lookup(device, program, config)?;
    Ok(Arc::new(ReferencePipeline { device: Arc::clone(device), generation, program: program.clone() }))
}

/// Counts a lookup of the program; the misses validate.
pub(crate) fn lookup(
    device: &Device,
    program: &Program,
    config: &DispatchConfig,
) -> Result<Checked, BackendError> {
    let variant = match config.workgroup_override {
        None => 0,
        // Three sizes of at most 1024 lanes; larger ones are refused whatever their key.
        Some([x, y, z]) => 1 | u64::from(x) << 1 | u64::from(y) << 22 | u64::from(z) << 43,
    };
    let version = env!("CARGO_PKG_VERSION");
    let key = PipelineKey { program: program.digest(), backend: ID, version, variant };
    device
        .pipelines
        .get_or_compile(key, || {
            let _span = tracing::trace_span!("compile", program = program.name()).entered();
            check(program, config.workgroup_override)
        })
        .map(|checked| Arc::clone(&*checked))
}
