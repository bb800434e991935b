//! Dispatches that nothing waits for yet.
//!
//! The device decides which thread runs one, so its turn may come late. Its time counts from the call, and it can be
//! cancelled while it waits for its turn.

use super::backend::QueueBackend;
use super::{Queue, Stop, run};
use crate::config::{CancelToken, DispatchConfig};
use crate::error::BackendError;
use crate::types::{OutputBuffers, PendingDispatch};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use vyre_foundation::ir::Program;

/// How often a caller that waits looks whether its dispatch should still begin.
const TICK: Duration = Duration::from_millis(5);

struct Running {
    result: mpsc::Receiver<Result<OutputBuffers, BackendError>>,
    state: Arc<State>,
    cancel: CancelToken,
    stop: Stop,
}

#[derive(Default)]
struct State {
    begun: AtomicBool,
    done: AtomicBool,
}

/// Starts a dispatch, with a token that the handle can cancel.
pub(super) fn start<Q: Queue>(
    backend: &QueueBackend<Q>,
    program: &Program,
    inputs: Vec<Vec<u8>>,
    config: &DispatchConfig,
) -> Result<Box<dyn PendingDispatch>, BackendError> {
    let (start, mut config) = (Instant::now(), config.clone());
    let cancel = config.cancel.get_or_insert_default().clone();
    let (stop, state) = (Stop::new(&config, start), Arc::<State>::default());
    let (sender, result) = mpsc::sync_channel(1);
    let finished = Finished(Arc::clone(&state));
    match backend.queue() {
        Err(error) => {
            // The channel has room for it, and its receiver is here.
            let _ = sender.send(Err(error));
            drop(finished);
        }
        Ok(queue) => {
            let (backend, program) = (backend.clone(), program.clone());
            queue.spawn(Box::new(move || {
                finished.0.begun.store(true, Ordering::Release);
                let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                let slots = &mut OutputBuffers::new();
                let result = run::dispatch(&backend, &program, &inputs, &config, (start, false), slots);
                // The receiver is gone if the handle was dropped.
                let _ = sender.send(result.map(|timed| timed.outputs));
                drop(finished);
            }))?;
        }
    }
    Ok(Box::new(Running { result, state, cancel, stop }))
}

/// Marks the dispatch as done, also when it panics, so that no caller polls for ever.
struct Finished(Arc<State>);

impl Drop for Finished {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::Release);
    }
}

impl PendingDispatch for Running {
    fn is_ready(&self) -> bool {
        self.state.done.load(Ordering::Acquire) || self.given_up().is_some()
    }

    fn await_result(self: Box<Self>) -> Result<Vec<Vec<u8>>, BackendError> {
        self.wait(Duration::MAX)
    }

    fn await_timeout(self: Box<Self>, limit: Duration) -> Result<Vec<Vec<u8>>, BackendError> {
        self.wait(limit)
    }

    fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Running {
    /// Why the dispatch ends without having begun, if it does. One that has begun ends by itself.
    fn given_up(&self) -> Option<BackendError> {
        if self.state.begun.load(Ordering::Acquire) { None } else { self.stop.reason() }
    }

    fn wait(&self, limit: Duration) -> Result<Vec<Vec<u8>>, BackendError> {
        let start = Instant::now();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let has_begun = self.state.begun.load(Ordering::Acquire);
            match self.result.recv_timeout(if has_begun { left } else { left.min(TICK) }) {
                Ok(result) => return result,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let fix = "report the program; it must not panic";
                    return Err(BackendError::other("the dispatch's thread panicked", fix));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if has_begun || left <= TICK => {
                    self.cancel.cancel();
                    return Err(BackendError::Timeout { limit });
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if let Some(error) = self.given_up() {
                return self.result.try_recv().unwrap_or(Err(error));
            }
        }
    }
}
