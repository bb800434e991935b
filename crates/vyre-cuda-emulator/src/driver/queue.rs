//! Streams: each has a thread of its own that does its operations in order.
//!
//! A `Mark` is a place in a stream: it is reached when everything up to there is done. Whatever is ordered across streams
//! (events, the rules of the legacy stream) is a mark that an operation waits for first. Marks name only what was
//! submitted before, so waiting for them always ends.
//! In a context that was poisoned or destroyed, operations are dropped: their marks are reached without them.

use super::capture::Joined;
use super::context::Context;
use super::faults::Effect;
use super::operation::Operation;
use super::{ON_STREAM, lock};
use crate::fault::{Code, Fault};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a stream that waits for another looks whether its own context was given up.
const LOOK_EVERY: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The stream of handle 0: it waits for blocking streams, and they for it.
    Legacy,
    Blocking,
    NonBlocking,
}

pub(super) struct Stream {
    pub(super) handle: usize,
    pub(super) context: Arc<Context>,
    pub(super) kind: Kind,
    pub(super) priority: i32,
    /// Set while what is put on the stream goes to a graph.
    pub(super) capture: Mutex<Option<Joined>>,
    queue: Mutex<Queue>,
    changed: Condvar,
    worker: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Queued>,
    submitted: u64,
    completed: u64,
    /// No more operations come: the thread ends after those that are here.
    closed: bool,
    started: bool,
}

struct Queued {
    operation: Operation,
    after: Vec<Mark>,
    effect: Option<Effect>,
}

/// A place in a stream.
#[derive(Clone)]
pub(super) struct Mark {
    stream: Arc<Stream>,
    position: u64,
}

impl Mark {
    pub(super) fn is_reached(&self) -> bool {
        lock(&self.stream.queue).completed >= self.position
    }

    /// Waits until everything up to here is done, or was dropped because its context failed.
    pub(super) fn wait(&self) {
        let waits = |queue: &mut Queue| queue.completed < self.position;
        let queue = lock(&self.stream.queue);
        drop(self.stream.changed.wait_while(queue, waits).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits, but no longer than `context` can be used.
    fn wait_within(&self, context: &Context) {
        let mut queue = lock(&self.stream.queue);
        while queue.completed < self.position && !context.is_stopped() {
            let waited = self.stream.changed.wait_timeout(queue, LOOK_EVERY);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Stream {
    pub(super) fn new(handle: usize, context: Arc<Context>, kind: Kind, priority: i32) -> Stream {
        Stream {
            handle,
            context,
            kind,
            priority,
            capture: Mutex::default(),
            queue: Mutex::default(),
            changed: Condvar::new(),
            worker: Mutex::default(),
        }
    }

    /// The place behind everything that was submitted so far.
    pub(super) fn mark(self: &Arc<Stream>) -> Mark {
        Mark { stream: Arc::clone(self), position: lock(&self.queue).submitted }
    }

    pub(super) fn is_idle(&self) -> bool {
        let queue = lock(&self.queue);
        queue.completed == queue.submitted
    }

    pub(super) fn is_gone(&self) -> bool {
        let queue = lock(&self.queue);
        queue.closed && queue.completed == queue.submitted
    }

    /// Puts an operation behind all others, and behind the marks. What the legacy stream orders is added here.
    pub(super) fn submit(
        self: &Arc<Stream>,
        operation: Operation,
        mut after: Vec<Mark>,
        effect: Option<Effect>,
    ) -> Mark {
        let _order = lock(&self.context.submitting);
        after.extend(self.context.ordered_before(self));
        after.retain(|mark| !mark.is_reached());
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(Queued { operation, after, effect });
        queue.submitted += 1;
        if !queue.started {
            queue.started = true;
            self.start();
        }
        self.changed.notify_all();
        Mark { stream: Arc::clone(self), position: queue.submitted }
    }

    fn start(self: &Arc<Stream>) {
        let stream = Arc::clone(self);
        let thread = std::thread::Builder::new().name("emulated stream".into());
        let worker = thread.spawn(move || stream.work()).expect("the system has room for a thread");
        *lock(&self.worker) = Some(worker);
    }

    /// Does operations until the stream is closed.
    fn work(self: Arc<Stream>) {
        ON_STREAM.set(true);
        while let Some(queued) = self.next() {
            for mark in &queued.after {
                mark.wait_within(&self.context);
            }
            self.run(queued);
            lock(&self.queue).completed += 1;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Queued> {
        let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closed;
        let mut queue =
            self.changed.wait_while(lock(&self.queue), idle).unwrap_or_else(PoisonError::into_inner);
        queue.waiting.pop_front()
    }

    fn run(&self, queued: Queued) {
        let context = &self.context;
        if context.is_stopped() {
            return queued.operation.drop_in(context);
        }
        let Queued { operation, effect, .. } = queued;
        let run = || match effect {
            None => operation.run(context),
            Some(Effect::Fail(fault)) => Err(fault),
            Some(Effect::Hang) => {
                context.pause(None);
                Ok(())
            }
        };
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            let message = "the emulator panicked. Fix: report it with the program that ran";
            Err(Fault::new(Code::Unknown, message))
        });
        if let Err(fault) = result {
            context.poison(fault);
        }
    }

    /// Ends the stream's thread after what is on it.
    pub(super) fn close(&self) {
        lock(&self.queue).closed = true;
        self.changed.notify_all();
    }

    /// Waits for the end of the stream's thread.
    pub(super) fn join(&self) {
        let worker = lock(&self.worker).take();
        if let Some(worker) = worker {
            // A panic of the thread was reported by the panic hook, and there is nothing left to do with it.
            let _ = worker.join();
        }
    }
}
