//! CUDA's driver API: the functions that a program finds in `libcuda`.
//!
//! Handles are numbers that are looked up in tables, so that a wrong one is an error and never a crash. Every function
//! goes through `anytime`, `with_driver` or `with_context`, which check what must hold for all of them: the library is
//! initialized in this process, a context is current, it lives, and nothing has poisoned it. Work on a stream is done by
//! a thread of that stream (`queue`); the API's functions only put it there and wait.
//! Not here: what a kernel does (`engine`), and functions that no caller has needed (`names` exports them by name).

mod allocation;
mod capture;
mod compiler;
mod context;
mod copy;
mod device;
mod error;
mod event;
mod faults;
mod ffi;
mod function;
mod graph;
mod launch;
mod link;
mod module;
mod names;
mod operation;
mod queue;
mod state;
mod stream;

use crate::fault::{Code, Fault};
use context::Context;
use state::Driver;
use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a function of the API does: it fails with what its caller gets.
type Call<T = ()> = Result<T, Fault>;

thread_local! {
    /// Whether this is a stream's thread: what runs there of the caller's may not call the API.
    static ON_STREAM: Cell<bool> = const { Cell::new(false) };
}

/// The last fault of a kernel, for `vyreEmulatedLastFault`.
static LAST_FAULT: Mutex<String> = Mutex::new(String::new());

fn invalid(message: &str) -> Fault {
    Fault::new(Code::InvalidValue, message)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it has changed half of what a lock protects.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports to the person who runs the program.
fn complain(text: &str) {
    if std::env::var_os("VYRE_EMULATED_QUIET").is_none() {
        print(text);
    }
}

/// Prints a line at once, so that it stays whole where other threads print or end the process.
fn print(text: &str) {
    let _ = std::io::stderr().write_all(format!("vyre-cuda-emulator: {text}\n").as_bytes());
}

/// Reports to a person who wants to see every failed call.
fn log(text: &str) {
    if std::env::var_os("VYRE_EMULATED_LOG").is_some() {
        print(text);
    }
}

/// Runs a function of the API that needs nothing. No panic crosses into the caller.
fn anytime(body: impl FnOnce() -> Call) -> u32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Code::Success as u32,
        Ok(Err(fault)) => {
            if fault.code != Code::NotReady {
                log(&fault.to_string());
            }
            fault.code as u32
        }
        Err(_) => {
            complain(
                "a call panicked: an error of the emulator. Fix: report it with the program that made the call",
            );
            Code::Unknown as u32
        }
    }
}

/// Runs a function that needs the library to be initialized.
fn with_driver(body: impl FnOnce(&'static Driver) -> Call) -> u32 {
    anytime(|| {
        if ON_STREAM.get() {
            return Err(Fault::new(Code::NotPermitted, "a function on a stream must not call CUDA"));
        }
        body(Driver::get()?)
    })
}

/// Runs a function that needs a current context that can be used.
fn with_context(body: impl FnOnce(&Arc<Context>) -> Call) -> u32 {
    with_driver(|driver| {
        let context = context::current(driver)?;
        context.check()?;
        driver.hooks.call()?;
        body(&context)
    })
}
