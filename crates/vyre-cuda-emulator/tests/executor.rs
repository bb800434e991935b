//! The executor's protocol, with a small executor of our own (`executor/small.py`).

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};
use vyre_cuda_emulator::executor::{Compilation, Compiled, Executor, Launched};
use vyre_cuda_emulator::fault::{Code, Fault};

const COMMAND: &str =
    concat!("python3 '", env!("CARGO_MANIFEST_DIR"), "/tests/executor/small.py' \"an argument\"");

fn executor(seconds: u64) -> Executor {
    Executor::new(COMMAND, Duration::from_secs(seconds)).unwrap()
}

/// Whether there is no `python3`, which the small executor needs.
fn skipped() -> bool {
    let missing = std::process::Command::new("python3").arg("--version").output().is_err();
    if missing {
        eprintln!("SKIP: the small executor needs python3");
    }
    missing
}

fn compile(executor: &Executor, ptx: &str) -> Result<Compilation, Fault> {
    executor.compile(ptx, &["vyre_kernel"], 3)
}

fn compiled(executor: &Executor, ptx: &str) -> Compiled {
    match compile(executor, ptx) {
        Ok(Compilation::Compiled(compiled)) => compiled,
        other => panic!("{other:?}"),
    }
}

fn launch(executor: &Executor, kernel: &Compiled, memory: &mut [(u64, Vec<u8>)]) -> Result<Launched, Fault> {
    executor.launch(kernel, [3, 1, 1], [32, 1, 2], &[vec![0; 8], vec![4, 1, 0, 0]], memory)
}

#[test]
fn a_launch_changes_memory() {
    if skipped() {
        return;
    }
    let executor = executor(60);
    let kernel = compiled(&executor, "// right");
    let mut memory = vec![(0x7f00, vec![1, 2, 3]), (1 << 32, vec![200]), (2 << 32, vec![])];
    assert_eq!(launch(&executor, &kernel, &mut memory), Ok(Launched::Done));
    // Twice the byte, the parameter 0x104, 3 blocks, 2 threads in z, and the address's upper half.
    assert_eq!(memory, [(0x7f00, vec![11, 13, 15]), (1 << 32, vec![154]), (2 << 32, vec![])]);
    assert_eq!(launch(&executor, &kernel, &mut memory), Ok(Launched::Done));
    assert_eq!(memory[0].1, [31, 35, 39]);
}

#[test]
fn what_is_not_covered_is_reported_and_changes_nothing() {
    if skipped() {
        return;
    }
    let executor = executor(60);
    assert!(matches!(compile(&executor, "// not covered"), Ok(Compilation::NotCovered(_))));
    let others = executor.compile("// right", &["another_name"], 3);
    assert!(matches!(others, Ok(Compilation::NotCovered(_))));
    let two = executor.compile("// right", &["vyre_kernel", "vyre_kernel_2"], 3);
    assert!(matches!(two, Ok(Compilation::NotCovered(_))));
    let kernel = compiled(&executor, "// partly");
    let mut memory = vec![(256, vec![5])];
    assert!(matches!(launch(&executor, &kernel, &mut memory), Ok(Launched::NotCovered(_))));
    assert_eq!(memory, [(256, vec![5])]);
}

#[test]
fn refusals_and_faults_have_their_text() {
    if skipped() {
        return;
    }
    let executor = executor(60);
    let refused = compile(&executor, "// refuse");
    assert!(matches!(refused, Ok(Compilation::Refused(log)) if log == "line 3: a refusal"));
    let kernel = compiled(&executor, "// fault");
    let fault = launch(&executor, &kernel, &mut [(256, vec![5])]).unwrap_err();
    assert_eq!(fault, Fault::new(Code::LaunchFailed, "fault: an address that nothing has"));
    let mess = compile(&executor, "// mess").unwrap_err();
    assert!(mess.code == Code::Unknown && mess.message.contains('7'), "{mess}");
    let short = launch(&executor, &compiled(&executor, "// short"), &mut [(256, vec![5, 6])]).unwrap_err();
    assert!(short.message.contains("1 bytes of 2"), "{short}");
}

#[test]
fn an_executor_that_is_missing_or_slow_is_an_error() {
    let missing = Executor::new("/no/such/executor", Duration::from_secs(1)).unwrap();
    assert!(compile(&missing, "").unwrap_err().message.contains("cannot be started"));
    assert!(Executor::new(" ", Duration::from_secs(1)).is_err());
    assert!(Executor::new("'a", Duration::from_secs(1)).is_err());
    if skipped() {
        return;
    }
    let start = Instant::now();
    let slow = compile(&executor(1), "// hang").unwrap_err();
    assert!(slow.message.contains("longer than 1 s"), "{slow}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn the_same_kernel_is_compiled_once_while_it_is_used() {
    if skipped() {
        return;
    }
    let executor = executor(60);
    let count = || {
        let own = format!("vyre-executor-{}-", std::process::id());
        let folders = std::fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().path());
        let ours = folders.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&own));
        ours.filter(|path| {
            std::fs::read_to_string(path.join("kernel.ptx")).is_ok_and(|ptx| ptx == "// counted")
        })
        .count()
    };
    let first = compiled(&executor, "// counted");
    let second = compiled(&executor, "// counted");
    assert_eq!(count(), 1);
    let other = executor.compile("// counted", &["vyre_kernel"], 0);
    assert_eq!(count(), 2);
    drop((first, other));
    assert_eq!(count(), 1);
    drop(second);
    assert_eq!(count(), 0);
}

const MARK: &str = "VYRE_EXECUTOR_TEST_CHILD";

/// Runs a test again, as a process of its own that has this command in its environment.
fn child(test: &str, command: &str) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--test-threads=1"])
        .envs([(MARK, "1"), ("VYRE_EMULATED_EXECUTOR", command)])
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

#[test]
fn a_crashed_compiler_takes_the_process_along() {
    if skipped() {
        return;
    }
    if is_child() {
        let executor = Executor::from_env().unwrap().expect("a command in the environment");
        let _ = compile(&executor, "// crash");
        std::process::exit(0);
    }
    // A shell between the two reports the signal by its exit code.
    let by_shell = format!("sh -c '\"$@\"; exit $?' sh {COMMAND}");
    for command in [COMMAND, &by_shell] {
        let status = child("a_crashed_compiler_takes_the_process_along", command).wait().unwrap();
        assert_eq!(status.signal(), Some(11), "{command}: {status:?}");
    }
}

#[test]
fn a_process_that_ends_leaves_no_files() {
    if skipped() {
        return;
    }
    if is_child() {
        let executor = Executor::from_env().unwrap().expect("a command in the environment");
        std::mem::forget(compiled(&executor, "// kept"));
        std::process::exit(0);
    }
    let mut child = child("a_process_that_ends_leaves_no_files", COMMAND);
    let folder = std::env::temp_dir().join(format!("vyre-executor-{}-0", child.id()));
    let mut seen = false;
    while child.try_wait().unwrap().is_none() {
        seen |= folder.exists();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(seen && !folder.exists(), "{seen}");
}
