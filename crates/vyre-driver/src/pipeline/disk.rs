//! The cache on disk, for backends that have binaries worth keeping.
//!
//! One file a key, named by the key's digest. A file is written whole under another name and then renamed, so readers
//! see all of it or nothing; it carries the digests of its key and its content, so damage is found and the file dropped:
//! nothing waits for the disk.
//! The cache is a convenience: a failed write is an error for the caller to log, never a failed dispatch.

use super::PipelineKey;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MAGIC: &[u8; 8] = b"VYREPIPE";
const HEADER_BYTES: usize = 8 + 32 + 32;
/// A file under its temporary name for longer than this was left by a process that died.
const WRITING_MAX: Duration = Duration::from_secs(3600);

/// How often the directory is looked over while as many bytes are written as it may hold.
const TRIMS_OF_A_FILL: u64 = 16;

/// A directory of compiled programs, bounded in bytes; about a sixteenth more may lie there for a while.
pub struct DiskCache {
    dir: PathBuf,
    bytes_max: u64,
    corrupt: AtomicU64,
}

/// Where a backend keeps what it compiled: in `VYRE_CACHE`, or in the user's directory for caches. An empty `VYRE_CACHE` is
/// nowhere.
#[must_use]
pub fn cache_dir(backend: &str) -> Option<PathBuf> {
    let home = || {
        let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        xdg.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
    };
    let cache = match std::env::var_os("VYRE_CACHE") {
        Some(dir) => Some(PathBuf::from(dir)).filter(|dir| !dir.as_os_str().is_empty()),
        None => home().map(|dir| dir.join("vyre")),
    };
    cache.map(|dir| dir.join(backend))
}

impl DiskCache {
    /// A cache in `dir`, made if it is missing, that drops its oldest files beyond `bytes_max`.
    pub fn open(dir: impl Into<PathBuf>, bytes_max: u64) -> io::Result<DiskCache> {
        let dir = dir.into();
        fs::create_dir_all(&dir)?;
        Ok(DiskCache { dir, bytes_max, corrupt: AtomicU64::new(0) })
    }

    /// The binary for `key`. A damaged file is removed and counts as absent.
    #[must_use]
    pub fn get(&self, key: &PipelineKey) -> Option<Vec<u8>> {
        let path = self.path(key);
        let mut bytes = fs::read(&path).ok()?;
        if !is_intact(&bytes, key) {
            self.corrupt.fetch_add(1, Ordering::Relaxed);
            // Another process may have removed it already.
            let _ = fs::remove_file(&path);
            return None;
        }
        bytes.drain(..HEADER_BYTES);
        Some(bytes)
    }

    /// Keeps the binary for `key`.
    pub fn put(&self, key: &PipelineKey, binary: &[u8]) -> io::Result<()> {
        // Random, because processes in different containers may share both the directory and a process id.
        let name = RandomState::new().hash_one(std::process::id());
        let temporary = self.dir.join(format!("{name:016x}.tmp"));
        let written =
            write_file(&temporary, key, binary).and_then(|()| fs::rename(&temporary, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        // To look at every file costs more than a write when there are thousands. So one write in many does, more likely
        // the larger it is: processes that each write little share the duty, and know nothing of each other.
        let bytes_between = (self.bytes_max / TRIMS_OF_A_FILL).max(1);
        if name % bytes_between < (HEADER_BYTES + binary.len()) as u64 { self.trim() } else { Ok(()) }
    }

    /// How many damaged files were dropped.
    #[must_use]
    pub fn corrupt_entries(&self) -> u64 {
        self.corrupt.load(Ordering::Relaxed)
    }

    fn path(&self, key: &PipelineKey) -> PathBuf {
        self.dir.join(format!("{}.pipeline", key.digest()))
    }

    /// Removes the oldest files until the rest fit. Those that vanish meanwhile are someone else's trimming, and those
    /// under a temporary name someone else's writing.
    fn trim(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Ok(meta) = entry.metadata() else { continue };
            let (path, modified) = (entry.path(), meta.modified()?);
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("pipeline") => files.push((modified, meta.len(), path)),
                Some("tmp") if modified.elapsed().is_ok_and(|age| age > WRITING_MAX) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if total <= self.bytes_max {
                break;
            }
            let _ = fs::remove_file(path);
            total -= bytes;
        }
        Ok(())
    }
}

fn write_file(path: &Path, key: &PipelineKey, binary: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create_new(path)?;
    file.write_all(MAGIC)?;
    file.write_all(&key.digest().0)?;
    file.write_all(blake3::hash(binary).as_bytes())?;
    file.write_all(binary)
}

fn is_intact(bytes: &[u8], key: &PipelineKey) -> bool {
    bytes.len() >= HEADER_BYTES
        && &bytes[..8] == MAGIC
        && bytes[8..40] == key.digest().0
        && bytes[40..72] == *blake3::hash(&bytes[HEADER_BYTES..]).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vyre_foundation::ir::Digest;

    fn key(n: u8) -> PipelineKey {
        PipelineKey { program: Digest([n; 32]), backend: "test", version: "1", variant: 0 }
    }

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("vyre-disk-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    #[test]
    fn every_damaged_byte_and_every_cut_is_found_and_the_file_dropped() {
        let dir = scratch("damage");
        let cache = DiskCache::open(&dir, 1 << 20).unwrap();
        cache.put(&key(1), b"binary").unwrap();
        assert_eq!(cache.get(&key(1)).as_deref(), Some(&b"binary"[..]));
        assert_eq!(cache.get(&key(2)), None);
        let path = cache.path(&key(1));
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            for bytes in [&damaged[..], &whole[..at]] {
                fs::write(&path, bytes).unwrap();
                assert_eq!(cache.get(&key(1)), None, "byte {at}");
                assert!(!path.exists(), "byte {at}");
            }
        }
        assert_eq!(cache.corrupt_entries(), 2 * whole.len() as u64);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn trimming_spares_what_others_write_and_drops_what_the_dead_left() {
        let dir = scratch("temporary");
        let cache = DiskCache::open(&dir, 0).unwrap();
        let (fresh, stale, foreign) = (dir.join("1.tmp"), dir.join("2.tmp"), dir.join("notes.txt"));
        for path in [&fresh, &stale, &foreign] {
            fs::write(path, [0; 100]).unwrap();
        }
        let long_ago = std::time::SystemTime::now() - 2 * WRITING_MAX;
        fs::File::options().write(true).open(&stale).unwrap().set_modified(long_ago).unwrap();
        cache.put(&key(1), b"over the limit").unwrap();
        assert_eq!(cache.get(&key(1)), None);
        assert!(fresh.exists() && foreign.exists() && !stale.exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn many_small_files_are_looked_over_now_and_then() {
        let dir = scratch("seldom");
        let bytes_max = 100 * (HEADER_BYTES as u64 + 28);
        let cache = DiskCache::open(&dir, bytes_max).unwrap();
        let mut seldom_over = 0;
        for n in 0..1000u32 {
            let program = Digest(*blake3::hash(&n.to_le_bytes()).as_bytes());
            cache.put(&PipelineKey { program, ..key(0) }, &[0; 28]).unwrap();
            let held = fs::read_dir(&dir).unwrap().count() as u64 * (HEADER_BYTES as u64 + 28);
            // One write in six looks; that a hundred in a row do not has a chance of 3 in 100 million.
            assert!(held <= 2 * bytes_max, "{n}: {held}");
            seldom_over += u32::from(held > bytes_max);
        }
        assert!(seldom_over > 0, "some writes look at nothing");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn stays_within_its_bytes() {
        let dir = scratch("trim");
        let cache = DiskCache::open(&dir, 3 * (HEADER_BYTES as u64 + 100)).unwrap();
        for n in 0..10 {
            cache.put(&key(n), &[n; 100]).unwrap();
        }
        let held = (0..10).filter(|n| cache.get(&key(*n)).is_some()).count();
        assert_eq!(held, 3);
        fs::remove_dir_all(dir).unwrap();
    }
}
