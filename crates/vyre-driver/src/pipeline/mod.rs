//! Compiled pipelines: the caches that backends call, and the wrapper for backends that compile nothing.
//!
//! A key names everything that decides the compiled bytes, so a hit can be used without looking inside. The framework
//! does not look up by itself: a backend asks its own cache in `compile_native` and `dispatch`.

mod disk;
mod memory;

pub use disk::{DiskCache, cache_dir};
pub use memory::PipelineCache;

use crate::backend::VyreBackend;
use crate::config::DispatchConfig;
use crate::error::BackendError;
use crate::types::{CompiledPipeline, OutputBuffers};
use std::sync::Arc;
use vyre_foundation::ir::{Digest, Program};

/// What a pipeline cache counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineCacheSnapshot {
    /// Lookups that found a pipeline.
    pub hits: u64,
    /// Lookups that had to compile.
    pub misses: u64,
    /// Pipelines dropped to stay within the bound.
    pub evictions: u64,
    /// Pipelines held now.
    pub entries: u64,
}

/// What decides the bytes of a compiled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PipelineKey {
    /// The program's content digest.
    pub program: Digest,
    /// The backend's id.
    pub backend: &'static str,
    /// The backend's version.
    pub version: &'static str,
    /// The backend's own choices, device and options included, in 64 bits.
    pub variant: u64,
}

impl PipelineKey {
    /// A digest of the key: the name of its file on disk.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.program.0);
        for text in [self.backend, self.version] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(&self.variant.to_le_bytes());
        Digest(*hasher.finalize().as_bytes())
    }
}

/// A pipeline for any backend: its own where it compiles, else one that dispatches through it each time.
pub fn compile(
    backend: &Arc<dyn VyreBackend>,
    program: &Program,
    config: &DispatchConfig,
) -> Result<Arc<dyn CompiledPipeline>, BackendError> {
    match backend.compile_native_shared(Arc::new(program.clone()), config)? {
        Some(pipeline) => Ok(pipeline),
        None => Ok(Arc::new(Passthrough { backend: Arc::clone(backend), program: program.clone() })),
    }
}

/// The pipeline of a backend that compiles nothing.
struct Passthrough {
    backend: Arc<dyn VyreBackend>,
    program: Program,
}

impl CompiledPipeline for Passthrough {
    fn program(&self) -> &Program {
        &self.program
    }

    fn dispatch(&self, inputs: &[&[u8]], config: &DispatchConfig) -> Result<OutputBuffers, BackendError> {
        self.backend.dispatch_borrowed(&self.program, inputs, config)
    }
}
