//! The pipeline caches under many hands: threads on the one in memory, threads and processes on the one on disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vyre_driver::pipeline::{DiskCache, PipelineCache, PipelineKey};
use vyre_foundation::ir::Digest;

fn key(n: u8) -> PipelineKey {
    PipelineKey { program: Digest([n; 32]), backend: "test", version: "1", variant: 0 }
}

#[test]
fn threads_share_the_cache_in_memory_and_nothing_old_survives_a_clear() {
    const THREADS: u64 = 8;
    const LOOKUPS: u64 = 5_000;
    let cache = PipelineCache::<(u8, u64)>::new(8);
    // The device's life, and the last life whose beginning cleared the cache.
    let (life, cleared) = (AtomicU64::new(0), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (cache, life, cleared) = (&cache, &life, &cleared);
                scope.spawn(move || {
                    for round in 0..LOOKUPS {
                        let n = ((round * 7 + thread * 3) % 24) as u8;
                        let known = cleared.load(Ordering::SeqCst);
                        let compiled = cache.get_or_compile(key(n), || {
                            let made_in = life.load(Ordering::SeqCst);
                            std::thread::yield_now();
                            Ok((n, made_in))
                        });
                        let (got, made_in) = *compiled.unwrap();
                        assert_eq!(got, n);
                        assert!(made_in >= known, "a pipeline of life {made_in} after the clear of {known}");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let next = life.fetch_add(1, Ordering::SeqCst) + 1;
                cache.clear();
                cleared.store(next, Ordering::SeqCst);
                assert!(cache.snapshot().entries <= 8);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    let counts = cache.snapshot();
    assert_eq!(counts.hits + counts.misses, THREADS * LOOKUPS, "every lookup is one or the other");
    assert!(counts.misses >= 24 && counts.evictions > 0 && counts.entries <= 8, "{counts:?}");
}

fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

/// A binary that is recognisably whole: a length and a filling that belong together.
fn binary(n: u8) -> Vec<u8> {
    vec![n; 1 + usize::from(n) * 997]
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|n| bytes == binary(*n))
}

/// Writes and reads the two keys until the time is up; returns how often a read found something.
fn hammer(dir: &Path, seed: u8, time: Duration) -> u64 {
    let cache = DiskCache::open(dir, 1 << 20).unwrap();
    let (start, mut found, mut n) = (Instant::now(), 0, seed);
    while start.elapsed() < time {
        n = n.wrapping_mul(5).wrapping_add(17);
        cache.put(&key(n % 2), &binary(n)).unwrap();
        if let Some(bytes) = cache.get(&key(n / 2 % 2)) {
            assert!(is_whole(&bytes), "{} bytes of {}", bytes.len(), bytes[0]);
            found += 1;
        }
    }
    assert_eq!(cache.corrupt_entries(), 0, "a reader sees all of a file or nothing");
    found
}

fn leftovers(dir: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.ends_with(".pipeline")).collect()
}

#[test]
fn threads_write_one_key_on_disk() {
    let dir = scratch("threads");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u8)
            .map(|seed| {
                let dir = &dir;
                scope.spawn(move || hammer(dir, seed, Duration::from_millis(300)))
            })
            .collect();
        for thread in threads {
            assert!(thread.join().unwrap() > 0);
        }
    });
    assert_eq!(leftovers(&dir), [""; 0]);
    std::fs::remove_dir_all(dir).unwrap();
}

/// Runs itself twice more as the writers.
#[test]
fn processes_write_one_key_on_disk() {
    const ROLE: &str = "VYRE_TEST_DISK_WRITER";
    if let Some(dir) = std::env::var_os(ROLE) {
        assert!(hammer(Path::new(&dir), std::process::id() as u8, Duration::from_millis(300)) > 0);
        return;
    }
    let dir = scratch("processes");
    let writer = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes_write_one_key_on_disk"]).env(ROLE, &dir);
        command.spawn().unwrap()
    };
    let writers = [writer(), writer()];
    let found = hammer(&dir, 1, Duration::from_millis(300));
    assert!(found > 0);
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    assert_eq!(leftovers(&dir), [""; 0]);
    std::fs::remove_dir_all(dir).unwrap();
}
