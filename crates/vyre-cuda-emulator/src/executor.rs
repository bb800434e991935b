//! A program outside that compiles and launches instead of the interpreter.
//!
//! `VYRE_EMULATED_EXECUTOR` names its command, with arguments. `COMMAND compile DIR` finds `DIR/kernel.ptx` and
//! `DIR/options.json`, and leaves there what it made. `COMMAND launch DIR` finds that and `DIR/launch.json` with memory as
//! files, which it changes in place. It exits with 0 when done, 1 when the compiler refused or the kernel did something wrong
//! (stderr says what), and 2 for what it does not cover; if a signal ends it, its compiler crashed. Not here: what is in the
//! caller's memory, and the interpreter that runs what is not covered.

use crate::fault::{Code, Fault};
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The one kernel that an executor knows.
const KERNEL: &str = "vyre_kernel";
const SECONDS_DEFAULT: u64 = 120;
/// The most of a log that is kept.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// A command that compiles and launches.
pub struct Executor {
    words: Vec<String>,
    limit: Duration,
    /// What was compiled and is still used, by PTX and level.
    compiled: Mutex<HashMap<(String, u32), Weak<Folder>>>,
}

/// What compiling gave.
#[derive(Debug)]
pub enum Compilation {
    /// A kernel.
    Compiled(Compiled),
    /// The executor does not cover it, for this reason: the PTX is to be interpreted.
    NotCovered(String),
    /// The compiler refused, with this log.
    Refused(String),
}

/// A compiled kernel. Its files are removed with the last copy of it.
#[derive(Clone, Debug)]
pub struct Compiled(Arc<Folder>);

/// What launching gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launched {
    /// The kernel has run; memory has what it wrote.
    Done,
    /// The executor does not cover it, for this reason, and memory is as it was.
    NotCovered(String),
}

impl Executor {
    /// The executor that the environment names: `VYRE_EMULATED_EXECUTOR`, and `VYRE_EMULATED_EXECUTOR_SECONDS` as the time
    /// limit of each call. None where it names none; the error says what is wrong with it.
    pub fn from_env() -> Result<Option<Executor>, Fault> {
        let Some(command) = std::env::var_os("VYRE_EMULATED_EXECUTOR").filter(|command| !command.is_empty())
        else {
            return Ok(None);
        };
        let seconds = match std::env::var("VYRE_EMULATED_EXECUTOR_SECONDS") {
            Ok(text) => text.parse().map_err(|_| unknown(format!("`{text}` is not a number of seconds")))?,
            Err(_) => SECONDS_DEFAULT,
        };
        Executor::new(&command.to_string_lossy(), Duration::from_secs(seconds)).map(Some)
    }

    /// An executor by its command: words apart by blanks, with quotes as a shell has them.
    pub fn new(command: &str, limit: Duration) -> Result<Executor, Fault> {
        let words =
            words(command).map_err(|message| unknown(format!("the executor's command: {message}")))?;
        if words.is_empty() {
            return Err(unknown("the executor's command is empty"));
        }
        Ok(Executor { words, limit, compiled: Mutex::default() })
    }

    /// Compiles PTX that has these kernels, at an optimisation level from 0 to 4. Ends the process where the compiler
    /// crashed, as it would within the driver.
    pub fn compile(&self, ptx: &str, kernels: &[&str], opt: u32) -> Result<Compilation, Fault> {
        if kernels != [KERNEL] {
            return Ok(Compilation::NotCovered(format!(
                "only modules with one kernel, `{KERNEL}`, are handed out"
            )));
        }
        let key = (ptx.to_owned(), opt);
        if let Some(folder) = self.compiled().get(&key).and_then(Weak::upgrade) {
            return Ok(Compilation::Compiled(Compiled(folder)));
        }
        let folder = Folder::new().map_err(|error| files(&error))?;
        folder.write("kernel.ptx", ptx.as_bytes())?;
        folder.write("options.json", json!({ "opt": opt }).to_string().as_bytes())?;
        let (status, log) = self.run("compile", &folder.path)?;
        match (crash(status), status.code()) {
            (Some(signal), _) => {
                drop(folder);
                end_process(signal)
            }
            (None, Some(0)) => {
                let folder = Arc::new(folder);
                self.compiled().insert(key, Arc::downgrade(&folder));
                Ok(Compilation::Compiled(Compiled(folder)))
            }
            (None, Some(1)) => Ok(Compilation::Refused(log)),
            (None, Some(2)) => Ok(Compilation::NotCovered(log)),
            (None, code) => Err(unexpected(code, &log)),
        }
    }

    /// Those that are still used. Not held while compiling: two threads may compile one kernel, which is right too.
    fn compiled(&self) -> MutexGuard<'_, HashMap<(String, u32), Weak<Folder>>> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.retain(|_, folder| folder.strong_count() > 0);
        compiled
    }

    /// Runs a kernel over memory, given by addresses. The parameters are bytes, one piece each.
    pub fn launch(
        &self,
        compiled: &Compiled,
        grid: [u32; 3],
        block: [u32; 3],
        params: &[Vec<u8>],
        memory: &mut [(u64, Vec<u8>)],
    ) -> Result<Launched, Fault> {
        // A kernel's files are one set, and launches of several streams write them.
        let _one = compiled.0.launching.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = &compiled.0;
        let mut parts = Vec::new();
        for (i, (address, bytes)) in memory.iter().enumerate() {
            let file = format!("{i}.bin");
            folder.write(&file, bytes)?;
            parts.push(json!({ "address": address, "file": file }));
        }
        let params: Vec<String> = params.iter().map(|bytes| hex(bytes)).collect();
        let launch = json!({ "grid": grid, "block": block, "params": params, "memory": parts });
        folder.write("launch.json", launch.to_string().as_bytes())?;
        let (status, log) = self.run("launch", &folder.path)?;
        match status.code() {
            Some(0) => {}
            Some(1) => return Err(Fault::new(Code::LaunchFailed, log)),
            Some(2) => return Ok(Launched::NotCovered(log)),
            // Only a compiler ends the process: hardware that fails ends the launch.
            None => {
                return Err(Fault::new(
                    Code::LaunchFailed,
                    format!("the executor ended with {status}: {log}"),
                ));
            }
            code => return Err(unexpected(code, &log)),
        }
        for (i, (_, bytes)) in memory.iter_mut().enumerate() {
            let changed = fs::read(folder.path.join(format!("{i}.bin"))).map_err(|error| files(&error))?;
            if changed.len() != bytes.len() {
                let message =
                    format!("the executor made {} bytes of {} bytes of memory", changed.len(), bytes.len());
                return Err(unknown(message));
            }
            *bytes = changed;
        }
        Ok(Launched::Done)
    }

    /// Runs the command within its time; how it ended, and its stderr.
    fn run(&self, verb: &str, folder: &Path) -> Result<(ExitStatus, String), Fault> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).arg(verb).arg(folder);
        // The emulated driver is found by the loader's path, and an executor wants none of it.
        command.env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD").env_remove("VYRE_EMULATED_EXECUTOR");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A group of its own, so that what it has started can be ended with it.
        command.process_group(0);
        let start = |error: std::io::Error| {
            unknown(format!("the executor `{}` cannot be started: {error}", self.words.join(" ")))
        };
        let mut child = command.spawn().map_err(start)?;
        let stderr = child.stderr.take();
        let log = std::thread::spawn(move || {
            let mut log = Vec::new();
            if let Some(mut stderr) = stderr {
                // What cannot be read of a log is left out of the log.
                let _ = stderr.by_ref().take(LOG_BYTES_MAX).read_to_end(&mut log);
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            }
            String::from_utf8_lossy(&log).trim().to_owned()
        });
        let status = self.wait(&mut child, verb)?;
        Ok((status, log.join().unwrap_or_default()))
    }

    fn wait(&self, child: &mut Child, verb: &str) -> Result<ExitStatus, Fault> {
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(|error| files(&error))? {
                return Ok(status);
            }
            if start.elapsed() >= self.limit {
                end_group(child);
                let code = if verb == "launch" { Code::LaunchTimeout } else { Code::Unknown };
                let limit = self.limit.as_secs();
                return Err(Fault::new(code, format!("the executor's `{verb}` took longer than {limit} s")));
            }
            // Short calls are not made slower than they are; long ones cost nothing.
            std::thread::sleep(
                Duration::from_micros(200).max(start.elapsed() / 20).min(Duration::from_millis(20)),
            );
        }
    }
}

/// The signal that ended a command. A shell between says it by its code.
fn crash(status: ExitStatus) -> Option<i32> {
    let by_shell = || status.code().filter(|code| (129..=159).contains(code)).map(|code| code - 128);
    status.signal().or_else(by_shell)
}

/// Ends this process by a signal, as a compiler inside the driver that crashes does.
#[allow(unsafe_code)]
pub fn end_process(signal: i32) -> ! {
    // SAFETY: `raise`, `signal`, `sigemptyset`, `sigaddset` and `pthread_sigmask` have no preconditions but a valid set,
    // which is made here.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        // The process's own handler first, as a fault would find it; should it return, the fault would come again.
        libc::raise(signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    std::process::abort()
}

#[allow(unsafe_code)]
fn end_group(child: &mut Child) {
    // SAFETY: the child is not waited for yet, so its number is its own, and it leads its group.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    let _ = child.wait();
}

/// A folder for one kernel's files, removed on drop.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    launching: Mutex<()>,
}

impl Folder {
    fn new() -> std::io::Result<Folder> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("vyre-executor-{}-{number}", std::process::id()));
            // Private, and never one that was there before.
            match std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700).create(&path) {
                Ok(()) => {
                    remove_at_exit(&path);
                    return Ok(Folder { path, launching: Mutex::new(()) });
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Fault> {
        fs::write(self.path.join(name), bytes).map_err(|error| files(&error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A temporary folder that stays is no failure of the program.
        let _ = fs::remove_dir_all(&self.path);
        folders().remove(&self.path);
    }
}

/// The folders of this process. Programs that end without unloading their modules drop none.
fn folders() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[allow(unsafe_code)]
fn remove_at_exit(path: &Path) {
    extern "C" fn remove() {
        // A forked child ends with its parent's folders in its list.
        let own = format!("vyre-executor-{}-", std::process::id());
        let is_own =
            |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own));
        for path in folders().iter().filter(is_own) {
            let _ = fs::remove_dir_all(path);
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function needs nothing but statics, which live as long as the process. If it is not taken, folders stay.
        let _ = unsafe { libc::atexit(remove) };
    });
    folders().insert(path.to_owned());
}

fn unknown(message: impl Into<String>) -> Fault {
    Fault::new(Code::Unknown, message)
}

fn files(error: &std::io::Error) -> Fault {
    unknown(format!("the executor's files: {error}"))
}

fn unexpected(code: Option<i32>, log: &str) -> Fault {
    unknown(format!("the executor ended with {code:?}, which means nothing: {log}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A command's words: blanks part them, `'...'` and `"..."` keep them together, `\` keeps the next character.
fn words(command: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                let next = rest.next().ok_or("a backslash ends it")?;
                word.get_or_insert_default().push(next);
            }
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".into());
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_command_is_split_as_a_shell_does() {
        let cases: [(&str, &[&str]); 5] = [
            ("  python3  execute.py ", &["python3", "execute.py"]),
            ("'a b' \"c 'd'\" e\\ f", &["a b", "c 'd'", "e f"]),
            ("a'b'\"c\"", &["abc"]),
            ("'' 'a\\b'", &["", "a\\b"]),
            ("", &[]),
        ];
        for (command, expected) in cases {
            assert_eq!(words(command).unwrap(), expected, "{command}");
        }
        assert!(words("'a").is_err() && words("a\\").is_err());
    }
}
