//! Tests in processes of their own, with a limit of time.

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Names the test that a child process is for.
const ALONE: &str = "VYRE_TEST_ALONE";
/// How long a test in a process of its own may take, if nothing else is asked for: none takes a tenth of it.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Runs the calling test, by its name, once more in a process of its own with those variables. There it returns true, and the
/// test goes on; in the process that started it, it returns false once the child has passed within the limit.
///
/// # Panics
/// If the child fails, crashes or does not end.
pub fn in_own_process(test: &str, variables: &[(&str, &str)], limit: Duration) -> bool {
    if is_own_process(test) {
        return true;
    }
    let program = std::env::current_exe().expect("this test has a program");
    let mut child = Command::new(program);
    child.args([test, "--exact", "--nocapture"]).env(ALONE, test).envs(variables.iter().copied());
    let ended = wait(child.spawn().expect("a test can be started"), limit);
    assert!(ended.success(), "{test} in a process of its own, with {variables:?}: {ended}");
    false
}

/// Whether this process is the one that [`in_own_process`] started for that test.
pub fn is_own_process(test: &str) -> bool {
    std::env::var(ALONE).is_ok_and(|alone| alone == test)
}

fn wait(mut child: Child, limit: Duration) -> ExitStatus {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(ended) = child.try_wait().expect("it is our child") {
            return ended;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it did not end within {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(unix)]
#[allow(unsafe_code)]
mod fork {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::{Duration, Instant};

    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
        fn kill(pid: i32, signal: i32) -> i32;
        fn _exit(code: i32) -> !;
    }

    const NO_HANG: i32 = 1;
    const KILL: i32 = 9;

    /// What a question says in a forked child.
    ///
    /// # Panics
    /// If the child hangs.
    pub(crate) fn forked(ask: impl Fn() -> bool) -> Option<bool> {
        // SAFETY: the child does nothing but this call, and ends without unwinding.
        let child = unsafe {
            match fork() {
                0 => _exit(i32::from(!catch_unwind(AssertUnwindSafe(&ask)).unwrap_or(false))),
                child => child,
            }
        };
        assert!(child > 0, "there is no room for a child");
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let mut status = -1;
            // SAFETY: the process is our child, and the status is one integer.
            if unsafe { waitpid(child, &mut status, NO_HANG) } == child {
                return Some(status == 0);
            }
            if Instant::now() > deadline {
                // SAFETY: as above; it was not waited for, so the number is still its own.
                unsafe {
                    kill(child, KILL);
                    waitpid(child, &mut status, 0);
                }
                panic!("the child hangs");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(unix)]
pub(crate) use fork::forked;

/// Processes do not fork here.
#[cfg(not(unix))]
pub(crate) fn forked(_: impl Fn() -> bool) -> Option<bool> {
    None
}
