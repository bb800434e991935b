//! Shows on a terminal that a long run is still in progress.

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

/// A line on standard error that says what goes on, until it is dropped; never where standard error is not a terminal.
#[cfg(feature = "bench")]
pub(crate) struct Status {
    shown: bool,
}

#[cfg(feature = "bench")]
impl Status {
    /// Columns of the line: what is longer is cut.
    const WIDTH: usize = 70;

    pub(crate) fn start() -> Status {
        Status { shown: std::io::stderr().is_terminal() }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.shown {
            let text: String = text.chars().take(Status::WIDTH).collect();
            let _ = write!(anstream::stderr(), "\r  {text:width$}", width = Status::WIDTH);
        }
    }
}

#[cfg(feature = "bench")]
impl Drop for Status {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(anstream::stderr(), "\r{:width$}\r", "", width = Status::WIDTH + 2);
        }
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
