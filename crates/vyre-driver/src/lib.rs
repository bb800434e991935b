//! The layer between programs and devices: frontends do not know which backend runs them, backends do not know who
//! made the program.

pub mod admission;
pub mod backend;
mod config;
mod defaults;
mod error;
pub mod grid_sync;
pub mod observability;
pub mod pipeline;
mod profile;
pub mod queue;
pub mod registry;
mod resident;
pub mod routing;
mod types;

pub use backend::{DEVICE_BUFFER_FEATURE, VyreBackend};
pub use config::{CancelToken, DispatchConfig};
pub use error::{BackendError, ErrorCode, HandleFault};
pub use pipeline::PipelineCacheSnapshot;
pub use profile::{DeviceProfile, DeviceTimingQuality};
pub use types::{
    CompiledPipeline, DeviceBuffer, OutputBuffers, PendingDispatch, ResidentDispatchStep, ResidentReadRange,
    ResidentSequenceTiming, Resource, TimedDispatchResult, default_supported_ops,
};

// The example of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
