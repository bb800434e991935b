//! The plain data that crosses the trait.

use crate::backend::VyreBackend;
use crate::config::DispatchConfig;
use crate::defaults::elapsed_ns;
use crate::error::BackendError;
use std::any::Any;
use std::time::Duration;
use vyre_foundation::ir::Program;
use vyre_foundation::launch::Admission;

/// Output bytes, one slot an output in binding order.
pub type OutputBuffers = Vec<Vec<u8>>;

/// What a resident dispatch binds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Memory on the device: a handle that only the backend that made it understands.
    Resident(u64),
    /// Bytes that travel with the call.
    Borrowed(Vec<u8>),
}

/// Outputs with the times it took to make them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimedDispatchResult {
    /// The outputs.
    pub outputs: OutputBuffers,
    /// From call to return, on the host's clock.
    pub wall_ns: u64,
    /// On the device's own clock, if it has one.
    pub device_ns: Option<u64>,
    /// Until the work was handed to the device.
    pub enqueue_ns: Option<u64>,
    /// Waiting for the device.
    pub wait_ns: Option<u64>,
}

/// The times of a sequence; a sum is `None` if any of its steps' is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResidentSequenceTiming {
    /// From call to return, readbacks included.
    pub wall_ns: u64,
    /// Sum over the steps.
    pub device_ns: Option<u64>,
    /// Sum over the steps.
    pub enqueue_ns: Option<u64>,
    /// Sum over the steps.
    pub wait_ns: Option<u64>,
}

/// One dispatch of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct ResidentDispatchStep<'a> {
    /// What runs.
    pub program: &'a Program,
    /// What is bound, in binding order.
    pub resources: &'a [Resource],
    /// Workgroups, if not derived.
    pub grid_override: Option<[u32; 3]>,
}

/// A stretch of a resident buffer to read back.
#[derive(Clone, Copy, Debug)]
pub struct ResidentReadRange<'a> {
    /// The buffer.
    pub resource: &'a Resource,
    /// Where the stretch starts.
    pub byte_offset: usize,
    /// How long it is.
    pub byte_len: usize,
}

/// A dispatch under way. It owns what it needs: the inputs may be dropped.
pub trait PendingDispatch: Send {
    /// Whether [`await_result`](PendingDispatch::await_result) would return at once.
    fn is_ready(&self) -> bool;

    /// Waits for the outputs.
    fn await_result(self: Box<Self>) -> Result<Vec<Vec<u8>>, BackendError>;

    /// Waits up to `limit`; then the dispatch is cancelled and [`BackendError::Timeout`] returned.
    ///
    /// The default asks [`is_ready`](PendingDispatch::is_ready) until the limit.
    fn await_timeout(self: Box<Self>, limit: Duration) -> Result<Vec<Vec<u8>>, BackendError> {
        let start = std::time::Instant::now();
        let mut pause = Duration::from_micros(5);
        while !self.is_ready() {
            let waited = start.elapsed();
            if waited >= limit {
                self.cancel();
                return Err(BackendError::Timeout { limit });
            }
            std::thread::sleep(pause.min(limit - waited));
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        self.await_result()
    }

    /// Asks the dispatch to end early; the result is then [`BackendError::Cancelled`] unless it was ready before.
    ///
    /// The default does nothing: such a dispatch runs to its end.
    fn cancel(&self) {}
}

/// A dispatch that had ended before its handle was made.
pub(crate) struct ReadyDispatch(pub(crate) OutputBuffers);

impl PendingDispatch for ReadyDispatch {
    fn is_ready(&self) -> bool {
        true
    }

    fn await_result(self: Box<Self>) -> Result<Vec<Vec<u8>>, BackendError> {
        Ok(self.0)
    }
}

/// A typed handle for memory on a device. Freeing is explicit, by the backend that made it.
pub trait DeviceBuffer: Send + Sync {
    /// The id of the backend that made it.
    fn backend_id(&self) -> &'static str;

    /// How many bytes it holds.
    fn byte_len(&self) -> usize;

    /// The backend's own type behind it.
    fn as_any(&self) -> &dyn Any;
}

/// A program made ready for one backend: the same bytes as repeated `dispatch`, without repeated preparation.
pub trait CompiledPipeline: Send + Sync {
    /// The program it came from.
    fn program(&self) -> &Program;

    /// Whether its device still exists. After recovery every earlier pipeline says `false` and refuses to dispatch.
    fn is_valid(&self) -> bool {
        true
    }

    /// Dispatches once.
    fn dispatch(&self, inputs: &[&[u8]], config: &DispatchConfig) -> Result<OutputBuffers, BackendError>;

    /// Dispatches once what was already admitted on this pipeline's backend, for `inputs` and this config, and reports the times.
    ///
    /// The default dispatches as usual, and knows the wall's time alone.
    fn dispatch_admitted(
        &self,
        admission: &Admission,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        let _ = admission;
        let start = std::time::Instant::now();
        let outputs = self.dispatch(inputs, config)?;
        Ok(TimedDispatchResult { outputs, wall_ns: elapsed_ns(start)?, ..TimedDispatchResult::default() })
    }

    /// Dispatches once for each set of inputs, in order; the first error ends the batch.
    fn dispatch_batch(
        &self,
        batch: &[&[&[u8]]],
        config: &DispatchConfig,
    ) -> Result<Vec<OutputBuffers>, BackendError> {
        batch.iter().map(|inputs| self.dispatch(inputs, config)).collect()
    }
}

/// The core op set: every op of the table.
#[must_use]
pub fn default_supported_ops() -> &'static std::collections::HashSet<vyre_foundation::ir::OpId> {
    static OPS: std::sync::OnceLock<std::collections::HashSet<vyre_foundation::ir::OpId>> =
        std::sync::OnceLock::new();
    OPS.get_or_init(|| vyre_foundation::ir::OpId::all().collect())
}

/// The error for a feature that `backend` lacks.
pub(crate) fn unsupported<T>(backend: &(impl VyreBackend + ?Sized), name: &str) -> Result<T, BackendError> {
    Err(BackendError::UnsupportedFeature { name: name.to_owned(), backend: backend.id().to_owned() })
}
