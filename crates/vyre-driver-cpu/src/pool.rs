//! Threads that help with launches.
//!
//! A launch is posted while its caller already works on it, and whoever is idle takes part. Work is taken in chunks from one
//! counter, so nobody waits for a slow thread while there is work. A caller never waits for a helper to come, only for those
//! that came to finish; so a busy pool slows nobody down, and callers that are many do not become more threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Something that several threads can work on at once.
pub(crate) trait Work: Send + Sync {
    /// Works until nothing is left to take.
    fn work(&self);
}

/// The threads of a device.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: usize,
}

struct Shared {
    state: Mutex<State>,
    /// Tells helpers of new work.
    posted: Condvar,
    /// Tells callers that a helper has left.
    left: Condvar,
}

#[derive(Default)]
struct State {
    jobs: Vec<Arc<Job>>,
    idle: usize,
    started: usize,
    closed: bool,
}

struct Job {
    work: Arc<dyn Work>,
    helpers: AtomicUsize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; if something did, the lists are still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// A pool of `threads`, callers counted as one of them. They start when there is work for them.
    pub(crate) fn new(threads: usize) -> Pool {
        let shared = Shared { state: Mutex::default(), posted: Condvar::new(), left: Condvar::new() };
        Pool { shared: Arc::new(shared), threads: threads.max(1) }
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Works on the calling thread and lets idle ones help. Returns when all work is done and nobody is at it.
    pub(crate) fn run(&self, work: Arc<dyn Work>) {
        let job = Arc::new(Job { work, helpers: AtomicUsize::new(0) });
        let mut state = self.shared.lock();
        state.jobs.push(Arc::clone(&job));
        if state.idle == 0 && state.started + 1 < self.threads {
            self.start(&mut state);
        }
        drop(state);
        self.shared.posted.notify_all();
        job.work.work();
        let mut state = self.shared.lock();
        state.jobs.retain(|other| !Arc::ptr_eq(other, &job));
        while job.helpers.load(Ordering::Acquire) > 0 {
            state = self.shared.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Starts all helpers. A thread that does not start is one helper less.
    fn start(&self, state: &mut State) {
        while state.started + 1 < self.threads {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("vyre-cpu-helper".to_owned());
            if thread.spawn(move || help(&shared)).is_err() {
                return;
            }
            state.started += 1;
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.posted.notify_all();
    }
}

fn help(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        if state.closed {
            return;
        }
        let Some(job) = state.jobs.first().cloned() else {
            state.idle += 1;
            state = shared.posted.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            continue;
        };
        job.helpers.fetch_add(1, Ordering::AcqRel);
        drop(state);
        job.work.work();
        state = shared.lock();
        // Nothing is left of it; nobody else need look.
        state.jobs.retain(|other| !Arc::ptr_eq(other, &job));
        if job.helpers.fetch_sub(1, Ordering::AcqRel) == 1 {
            shared.left.notify_all();
        }
    }
}
