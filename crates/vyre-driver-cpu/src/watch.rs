//! Stops launches from outside: machine code looks at a word now and then, and a thread of the device sets it when a
//! launch is cancelled, runs out of time, or loses its device.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often launches are looked after.
pub(crate) const TICK: Duration = Duration::from_millis(1);
/// How long the thread stays awake after the last launch, so that the next one need not wake it.
const LINGER: Duration = Duration::from_millis(200);

/// A launch under way.
pub(crate) trait Watched: Send + Sync {
    /// Stops the launch if it must; called about every millisecond.
    fn look(&self);
}

/// The thread that looks after launches. It starts with the first of them.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    watched: Vec<Weak<dyn Watched>>,
    started: bool,
    asleep: bool,
    closed: bool,
}

impl Watcher {
    pub(crate) fn new() -> Watcher {
        Watcher { shared: Arc::default() }
    }

    /// Looks after a launch until its last handle is dropped.
    pub(crate) fn watch(&self, launch: Weak<dyn Watched>) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.watched.push(launch);
        if !state.started {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("vyre-cpu-watch".to_owned());
            // Without the thread a launch runs to its end, which every program has.
            state.started = thread.spawn(move || watch(&shared)).is_ok();
        } else if state.asleep {
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.wake.notify_one();
    }
}

fn watch(shared: &Shared) {
    let mut busy = Instant::now();
    let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    while !state.closed {
        state.watched.retain(|launch| match launch.upgrade() {
            Some(launch) => {
                launch.look();
                true
            }
            None => false,
        });
        if !state.watched.is_empty() {
            busy = Instant::now();
        }
        if busy.elapsed() > LINGER {
            state.asleep = true;
            state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.asleep = false;
            busy = Instant::now();
        } else {
            let waited = shared.wake.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
    }
}
