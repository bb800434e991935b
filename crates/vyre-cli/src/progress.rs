//! Says on a terminal that long work still goes on.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A line on standard error that counts seconds until it is dropped. It appears after the first second, and never where
/// standard error is not a terminal.
pub(crate) struct Progress {
    /// Dropping it ends the thread.
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    pub(crate) fn start() -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress { done: None, thread: None };
        }
        let (done, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut seconds = 0;
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                seconds += 1;
                let _ = write!(anstream::stderr(), "\r  running for {seconds} s ");
            }
            if seconds > 0 {
                let _ = write!(anstream::stderr(), "\r{:30}\r", "");
            }
        });
        Progress { done: Some(done), thread: Some(thread) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
