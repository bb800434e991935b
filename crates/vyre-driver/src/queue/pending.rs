//! Dispatches that run on a thread of their own.

use crate::config::{CancelToken, DispatchConfig};
use crate::error::BackendError;
use crate::types::{OutputBuffers, PendingDispatch};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

struct Running {
    result: mpsc::Receiver<Result<OutputBuffers, BackendError>>,
    done: Arc<AtomicBool>,
    cancel: CancelToken,
}

/// Runs a dispatch on a thread, with a config whose token the handle can cancel.
pub fn in_background(
    config: &DispatchConfig,
    dispatch: impl FnOnce(&DispatchConfig) -> Result<OutputBuffers, BackendError> + Send + 'static,
) -> Result<Box<dyn PendingDispatch>, BackendError> {
    let mut config = config.clone();
    let cancel = config.cancel.get_or_insert_default().clone();
    let done = Arc::new(AtomicBool::new(false));
    let finished = Finished(Arc::clone(&done));
    let (sender, result) = mpsc::sync_channel(1);
    let run = move || {
        // Nobody listens any more if the handle was dropped.
        let _ = sender.send(dispatch(&config));
        drop(finished);
    };
    match std::thread::Builder::new().name("vyre-dispatch".to_owned()).spawn(run) {
        Ok(_) => Ok(Box::new(Running { result, done, cancel })),
        Err(error) => {
            Err(BackendError::OutOfMemory { what: format!("a thread ({error})"), requested_bytes: 0 })
        }
    }
}

/// Says that the thread is done, also when it panics, so that nobody polls for ever.
struct Finished(Arc<AtomicBool>);

impl Drop for Finished {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl PendingDispatch for Running {
    fn is_ready(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    fn await_result(self: Box<Self>) -> Result<Vec<Vec<u8>>, BackendError> {
        self.result.recv().unwrap_or_else(|_| Err(died()))
    }

    fn await_timeout(self: Box<Self>, limit: Duration) -> Result<Vec<Vec<u8>>, BackendError> {
        match self.result.recv_timeout(limit) {
            Ok(result) => result,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.cancel.cancel();
                Err(BackendError::Timeout { limit })
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(died()),
        }
    }

    fn cancel(&self) {
        self.cancel.cancel();
    }
}

fn died() -> BackendError {
    BackendError::other("the dispatch's thread panicked", "report the program; it must not panic")
}
