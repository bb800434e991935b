//! A function's arguments in chunks: computed, compared, and recorded.
//!
//! Every core takes a chunk from the launch to its digest, so that the device, the transfers and the oracle work at once. A
//! chunk that is done is in the state file with its digest, and a resumed sweep skips it. The digest of a
//! sweep is that of its chunks' digests.

use crate::check::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::HashMap;
use std::io::Write;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Wrong results that are shown for a function.
const SHOWN_MAX: usize = 400;

/// A wrong result: the bits of the arguments, of the result, and of the right one.
pub(crate) struct Wrong {
    pub(crate) args: Vec<u32>,
    pub(crate) got: u32,
    pub(crate) right: u32,
}

/// What is swept: a name in the state file, and how many chunks.
pub(crate) struct Sweep<'s> {
    pub(crate) name: &'s str,
    pub(crate) key: String,
    pub(crate) chunks: u32,
}

/// What a sweep found.
pub(crate) struct Swept {
    pub(crate) wrong: usize,
    pub(crate) digest: String,
}

/// A chunk that was run: the digest of its results, and how many are wrong.
#[derive(Clone)]
struct Done {
    digest: String,
    wrong: usize,
}

impl Sweep<'_> {
    /// Runs what is not done yet. `compute` gives a chunk's arguments and results; `judge` the wrong ones among them.
    pub(crate) fn run<A>(
        &self,
        args: &Args,
        compute: impl Fn(u32) -> Result<(A, Vec<u8>), String> + Sync,
        judge: impl Fn(&A, &[u8]) -> Vec<Wrong> + Sync,
    ) -> Result<Swept, String> {
        let state = State::open(args.state.as_deref(), &self.key)?;
        let bar = progress(self.name, u64::from(self.chunks));
        let todo: Vec<u32> = (0..self.chunks).filter(|chunk| !state.done.contains_key(chunk)).collect();
        bar.inc((self.chunks as usize - todo.len()) as u64);
        let (state, next) = (Mutex::new(state), AtomicUsize::new(0));
        let worker = || {
            while let Some(chunk) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (arguments, results) = compute(*chunk)?;
                let wrong = judge(&arguments, &results);
                let digest = blake3::hash(&results).to_hex().to_string();
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let left = SHOWN_MAX.saturating_sub(state.wrong());
                bar.suspend(|| wrong.iter().take(left).for_each(show));
                state.add(*chunk, Done { digest, wrong: wrong.len() })?;
                bar.set_message(format!("{} wrong", state.wrong()));
                bar.inc(1);
            }
            Ok::<(), String>(())
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(todo.len());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
            let mut ended = workers.into_iter().map(|worker| worker.join());
            ended.try_for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
        })?;
        bar.finish_and_clear();
        let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let digests: String = (0..self.chunks).map(|chunk| state.done[&chunk].digest.as_str()).collect();
        let digest = blake3::hash(digests.as_bytes()).to_hex()[..32].to_string();
        Ok(Swept { wrong: state.wrong(), digest })
    }
}

fn show(Wrong { args, got, right }: &Wrong) {
    let words: Vec<String> = args.iter().map(|bits| format!("{bits:#010x}")).collect();
    let values: Vec<String> = args.iter().map(|bits| format!("{:e}", f32::from_bits(*bits))).collect();
    let (words, values, got) = (words.join(", "), values.join(", "), f32::from_bits(*got));
    anstream::println!("  [{words}, {right:#010x}],  // {values} gives {got:e}");
}

pub(crate) fn progress(name: &str, len: u64) -> ProgressBar {
    let bar = ProgressBar::new(len);
    if let Ok(style) = ProgressStyle::with_template("{prefix:9} {wide_bar} {pos}/{len} {eta} {msg}") {
        bar.set_style(style);
    }
    bar.set_prefix(name.to_string());
    bar
}

/// Adds a line to a file.
pub(crate) fn append(path: &Path, line: &str) -> Result<(), String> {
    let failed =
        |error: std::io::Error| format!("{}: {error}\n  Fix: name a file you may write", path.display());
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    writeln!(file, "{line}").map_err(failed)
}

/// The state file: a line for each chunk that is done.
struct State {
    path: Option<PathBuf>,
    key: String,
    done: HashMap<u32, Done>,
}

impl State {
    fn open(path: Option<&Path>, key: &str) -> Result<State, String> {
        let text = match path.filter(|path| path.exists()) {
            Some(path) => {
                std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?
            }
            None => String::new(),
        };
        let rest = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        let done = rest.filter_map(|line| {
            let mut words = line.split(' ');
            let chunk = words.next()?.parse().ok()?;
            let wrong = words.next()?.parse().ok()?;
            // The last line may be cut off.
            let digest = words.next().filter(|digest| digest.len() == 64)?.to_string();
            Some((chunk, Done { digest, wrong }))
        });
        Ok(State { path: path.map(Path::to_path_buf), key: key.to_string(), done: done.collect() })
    }

    fn add(&mut self, chunk: u32, done: Done) -> Result<(), String> {
        if let Some(path) = &self.path {
            append(path, &format!("{} {chunk} {} {}", self.key, done.wrong, done.digest))?;
        }
        self.done.insert(chunk, done);
        Ok(())
    }

    fn wrong(&self) -> usize {
        self.done.values().map(|done| done.wrong).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(state: &Path) -> Args {
        use clap::Parser;
        #[derive(Parser)]
        struct Command {
            #[command(flatten)]
            args: Args,
        }
        Command::parse_from(["check", "--state", &state.to_string_lossy()]).args
    }

    #[test]
    fn a_sweep_that_was_stopped_goes_on_and_has_the_same_digest() {
        let path = std::env::temp_dir().join(format!("vyre-math-state-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let args = args(&path);
        let sweep = Sweep { name: "f", key: "f cpu 1".into(), chunks: 5 };
        let bytes = |chunk: u32| Ok((chunk, chunk.to_le_bytes().repeat(1000)));
        let wrong_in_two = |chunk: &u32, _: &[u8]| match chunk {
            2 => vec![Wrong { args: vec![1], got: 2, right: 3 }],
            _ => Vec::new(),
        };
        let stopped =
            |chunk: u32| if chunk == 3 { Err("the power is out".to_string()) } else { bytes(chunk) };
        assert!(sweep.run(&args, stopped, wrong_in_two).is_err());
        // Another line was being written.
        append(&path, "f cpu 1 3 0 abc").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let later = |chunk: u32| match text.contains(&format!("f cpu 1 {chunk} ")) && chunk != 3 {
            true => Err(format!("{chunk} was done")),
            false => bytes(chunk),
        };
        let resumed = sweep.run(&args, later, wrong_in_two).unwrap();
        std::fs::remove_file(&path).unwrap();
        let whole = sweep.run(&args, bytes, wrong_in_two).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((resumed.wrong, resumed.digest), (whole.wrong, whole.digest));
        assert_eq!(whole.wrong, 1);
    }
}
