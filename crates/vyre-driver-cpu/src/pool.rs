//! Threads that run workgroups.
//!
//! A launch is posted while its caller already works on it, and idle threads take part, as long as fewer threads work than
//! the pool has; when more come, helpers leave. So many callers get no help, and do not become more threads. Work is taken in
//! chunks from one counter: no thread waits for a slow one while there is work. A caller never waits for a helper to come, only
//! for those that came to finish. The same threads run the dispatches that are not awaited yet, in the order they came.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use vyre_driver::queue::Task;

/// Something that several threads can work on at once.
pub(crate) trait Job: Send + Sync {
    /// Takes work until there is none or `leave` says so, which is asked before each piece. Whether there was none.
    fn work(&self, leave: &dyn Fn() -> bool) -> bool;
}

/// The threads of a device.
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    threads: usize,
    /// Threads at work on jobs: callers and helpers. Changed under the lock.
    working: AtomicUsize,
    state: Mutex<State>,
    /// Wakes helpers for new work.
    posted: Condvar,
    /// Wakes callers when a helper has left.
    left: Condvar,
}

#[derive(Default)]
struct State {
    jobs: Vec<Arc<Posted>>,
    tasks: VecDeque<Task>,
    idle: usize,
    started: usize,
    closed: bool,
}

struct Posted {
    work: Arc<dyn Job>,
    helpers: AtomicUsize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; if something did, the lists are still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// A pool of `threads`, callers counted among them. They start when there is work for them.
    pub(crate) fn new(threads: usize) -> Pool {
        let (state, posted, left) = Default::default();
        let (threads, working) = (threads.max(1), AtomicUsize::new(0));
        Pool { shared: Arc::new(Shared { threads, working, state, posted, left }) }
    }

    pub(crate) fn threads(&self) -> usize {
        self.shared.threads
    }

    /// Works on the calling thread and lets idle ones help. Returns when all work is done and no thread is at it.
    pub(crate) fn run(&self, work: Arc<dyn Job>) {
        let job = Arc::new(Posted { work, helpers: AtomicUsize::new(0) });
        let mut state = self.shared.lock();
        let working = self.shared.working.fetch_add(1, Ordering::AcqRel) + 1;
        state.jobs.push(Arc::clone(&job));
        let wanted = self.threads().saturating_sub(working);
        if state.idle < wanted {
            self.start(&mut state, self.threads() - 1);
        }
        drop(state);
        if wanted > 0 {
            self.shared.posted.notify_all();
        }
        job.work.work(&|| false);
        let mut state = self.shared.lock();
        self.shared.working.fetch_sub(1, Ordering::AcqRel);
        state.jobs.retain(|other| !Arc::ptr_eq(other, &job));
        if !state.jobs.is_empty() {
            // Another caller's job may have help now.
            self.shared.posted.notify_one();
        }
        while job.helpers.load(Ordering::Acquire) > 0 {
            state = self.shared.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Has a thread do the task later; gives it back if there is no thread to do it.
    pub(crate) fn spawn(&self, task: Task) -> Result<(), Task> {
        let mut state = self.shared.lock();
        if state.idle <= state.tasks.len() {
            self.start(&mut state, self.threads());
        }
        if state.started == 0 {
            return Err(task);
        }
        state.tasks.push_back(task);
        self.shared.posted.notify_one();
        Ok(())
    }

    /// Starts helpers until there are `count`. A thread that does not start is one helper less.
    fn start(&self, state: &mut State, count: usize) {
        while state.started < count {
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
    while !state.closed {
        let room = shared.working.load(Ordering::Acquire) < shared.threads;
        let job = state.jobs.first().filter(|_| room).cloned();
        if let Some(job) = job {
            job.helpers.fetch_add(1, Ordering::AcqRel);
            shared.working.fetch_add(1, Ordering::AcqRel);
            drop(state);
            let done = job.work.work(&|| shared.working.load(Ordering::Acquire) > shared.threads);
            state = shared.lock();
            shared.working.fetch_sub(1, Ordering::AcqRel);
            if done {
                // No other thread need look.
                state.jobs.retain(|other| !Arc::ptr_eq(other, &job));
            }
            if job.helpers.fetch_sub(1, Ordering::AcqRel) == 1 {
                shared.left.notify_all();
            }
        } else if let Some(task) = state.tasks.pop_front() {
            drop(state);
            // Its channel reports a panic to the caller; the thread has more to do.
            let _ = catch_unwind(AssertUnwindSafe(task));
            state = shared.lock();
        } else {
            state.idle += 1;
            state = shared.posted.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Pieces of work, and how many of them helpers did.
    struct Noted {
        left: AtomicUsize,
        helped: Arc<AtomicUsize>,
    }

    impl Job for Noted {
        fn work(&self, leave: &dyn Fn() -> bool) -> bool {
            let is_helper = std::thread::current().name() == Some("vyre-cpu-helper");
            while !leave() {
                let took =
                    self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                if took.is_err() {
                    return true;
                }
                std::thread::sleep(Duration::from_millis(1));
                self.helped.fetch_add(usize::from(is_helper), Ordering::SeqCst);
            }
            false
        }
    }

    /// The percentage of work that helpers of a pool of three do for so many callers.
    fn percent_helped(callers: usize) -> usize {
        let (pool, helped, pieces) = (Pool::new(3), Arc::new(AtomicUsize::new(0)), 200);
        std::thread::scope(|scope| {
            for _ in 0..callers {
                let (left, helped) = (AtomicUsize::new(pieces), Arc::clone(&helped));
                scope.spawn(|| pool.run(Arc::new(Noted { left, helped })));
            }
        });
        helped.load(Ordering::SeqCst) * 100 / (callers * pieces)
    }

    #[test]
    fn helpers_come_to_few_callers_and_stay_away_from_many() {
        assert!(percent_helped(1) > 40);
        assert!(percent_helped(6) < 20);
    }

    #[test]
    fn tasks_run_in_their_order_and_outlive_a_panic() {
        let pool = Pool::new(1);
        let (sender, receiver) = std::sync::mpsc::channel();
        for number in 0..100 {
            let sender = sender.clone();
            let task: Task = Box::new(move || {
                assert!(number != 7, "the panic that this test is about");
                sender.send(number).expect("the test waits");
            });
            assert!(pool.spawn(task).is_ok());
        }
        drop(sender);
        let expected: Vec<i32> = (0..100).filter(|number| *number != 7).collect();
        assert_eq!(receiver.iter().collect::<Vec<_>>(), expected);
    }
}
