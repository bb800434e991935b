//! How a program is to be dispatched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The caller's wishes for one dispatch. The default asks for nothing.
#[derive(Clone, Debug, Default)]
pub struct DispatchConfig {
    /// Workgroups along x, y and z; `None` derives them by
    /// [`default_grid`](vyre_foundation::launch::default_grid).
    pub grid_override: Option<[u32; 3]>,
    /// Lanes of a workgroup along x, y and z in place of the program's: a new program, validated as such.
    pub workgroup_override: Option<[u32; 3]>,
    /// How long the dispatch may take before it ends in an error.
    pub timeout: Option<Duration>,
    /// Bytes of each output in binding order, for outputs that have no input; empty where inputs or declared
    /// lengths already say.
    pub output_sizes: Vec<usize>,
    /// A name for logs and traces.
    pub label: Option<String>,
    /// Ends the dispatch from another thread.
    pub cancel: Option<CancelToken>,
}

/// Ends the dispatches whose configs carry a clone of it.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Asks the dispatches to end with [`BackendError::Cancelled`](crate::BackendError::Cancelled).
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether [`cancel`](CancelToken::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
