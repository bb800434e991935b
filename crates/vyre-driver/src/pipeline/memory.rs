//! The cache in memory: bounded, least recently used out first. What someone still holds is found all the same, so that no
//! held pipeline is compiled again.

use super::{PipelineCacheSnapshot, PipelineKey};
use crate::error::BackendError;
use lru::LruCache;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A bounded cache of compiled programs with counters.
pub struct PipelineCache<P> {
    state: Mutex<State<P>>,
}

struct State<P> {
    entries: LruCache<PipelineKey, Arc<P>, FxBuildHasher>,
    /// What was dropped while others held it.
    held: FxHashMap<PipelineKey, Weak<P>>,
    /// Counts [`clear`](PipelineCache::clear)s: what was begun under an earlier number is not kept.
    epoch: u64,
    counts: PipelineCacheSnapshot,
}

impl<P> PipelineCache<P> {
    /// A cache of at most `capacity` pipelines, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> PipelineCache<P> {
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        // With a bound from the start it would have room for all.
        let mut entries = LruCache::unbounded_with_hasher(FxBuildHasher);
        entries.resize(capacity);
        let state =
            State { entries, held: FxHashMap::default(), epoch: 0, counts: PipelineCacheSnapshot::default() };
        PipelineCache { state: Mutex::new(state) }
    }

    /// The pipeline for `key`, compiled if it is not there. Errors are not kept: the next call compiles again.
    ///
    /// No lock is held while compiling. Threads that miss the same key at once each compile, and the first result is
    /// kept. A pipeline that was being compiled while the cache was cleared goes to its caller and is not kept: it may
    /// belong to the device that was lost.
    pub fn get_or_compile(
        &self,
        key: PipelineKey,
        compile: impl FnOnce() -> Result<P, BackendError>,
    ) -> Result<Arc<P>, BackendError> {
        let epoch = match self.lookup(&key) {
            Ok(pipeline) => return Ok(pipeline),
            Err(epoch) => epoch,
        };
        let pipeline = Arc::new(compile()?);
        Ok(self.insert(key, pipeline, epoch))
    }

    /// Drops every pipeline, as recovery must. Counters go on.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.entries.clear();
        state.held.clear();
        state.epoch += 1;
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> PipelineCacheSnapshot {
        let state = self.lock();
        PipelineCacheSnapshot { entries: state.entries.len() as u64, ..state.counts }
    }

    /// The pipeline, or the epoch in which it was missing.
    fn lookup(&self, key: &PipelineKey) -> Result<Arc<P>, u64> {
        let mut state = self.lock();
        let found = state.entries.get(key).map(Arc::clone);
        let found = found.or_else(|| state.held.get(key).and_then(Weak::upgrade));
        match found {
            Some(_) => state.counts.hits += 1,
            None => state.counts.misses += 1,
        }
        found.ok_or(state.epoch)
    }

    fn insert(&self, key: PipelineKey, pipeline: Arc<P>, epoch: u64) -> Arc<P> {
        let mut state = self.lock();
        if state.epoch != epoch {
            return pipeline;
        }
        if let Some(earlier) = state.entries.get(&key) {
            return Arc::clone(earlier);
        }
        let oldest = state.entries.push(key, Arc::clone(&pipeline));
        state.counts.evictions += u64::from(oldest.is_some());
        if let Some((key, oldest)) = oldest.as_ref().filter(|(_, oldest)| Arc::strong_count(oldest) > 1) {
            state.held.retain(|_, held| held.strong_count() > 0);
            state.held.insert(*key, Arc::downgrade(oldest));
        }
        // The lock is released first, because dropping a pipeline takes time.
        drop(state);
        drop(oldest);
        pipeline
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        // Nothing panics while the lock is held half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vyre_foundation::ir::Digest;

    fn key(n: u8) -> PipelineKey {
        PipelineKey { program: Digest([n; 32]), backend: "test", version: "1", variant: 0 }
    }

    #[test]
    fn counts_hits_misses_and_evictions_and_keeps_what_was_used_last() {
        let cache = PipelineCache::new(2);
        for n in [1, 2, 1, 3] {
            assert_eq!(*cache.get_or_compile(key(n), || Ok(n)).unwrap(), n);
        }
        // 2 was wanted least recently, so 3 took its place.
        assert_eq!(*cache.get_or_compile(key(1), || unreachable!("1 is kept")).unwrap(), 1);
        let mut compiled = false;
        cache
            .get_or_compile(key(2), || {
                compiled = true;
                Ok(2)
            })
            .unwrap();
        assert!(compiled, "2 was dropped");
        let counts = cache.snapshot();
        assert_eq!((counts.hits, counts.misses, counts.evictions, counts.entries), (2, 4, 2, 2));
    }

    #[test]
    fn what_is_held_is_not_compiled_again() {
        let cache = PipelineCache::new(1);
        let held = cache.get_or_compile(key(1), || Ok(1)).unwrap();
        for n in 2..5 {
            cache.get_or_compile(key(n), || Ok(n)).unwrap();
        }
        let again = cache.get_or_compile(key(1), || unreachable!("1 is held")).unwrap();
        assert!(Arc::ptr_eq(&held, &again));
        drop((held, again));
        assert_eq!(*cache.get_or_compile(key(1), || Ok(7)).unwrap(), 7, "no holder is left");
        assert_eq!(cache.snapshot().entries, 1);
    }

    #[test]
    fn errors_are_not_kept() {
        let cache = PipelineCache::<u8>::new(2);
        assert_eq!(
            cache.get_or_compile(key(1), || Err(BackendError::Cancelled)),
            Err(BackendError::Cancelled)
        );
        assert_eq!(*cache.get_or_compile(key(1), || Ok(7)).unwrap(), 7);
    }

    #[test]
    fn what_was_being_compiled_when_the_cache_was_cleared_is_not_kept() {
        let cache = PipelineCache::new(2);
        let stale = cache.get_or_compile(key(1), || {
            cache.clear();
            Ok("lost device")
        });
        assert_eq!(*stale.unwrap(), "lost device");
        assert_eq!(*cache.get_or_compile(key(1), || Ok("new device")).unwrap(), "new device");
    }

    #[test]
    fn keys_differ_in_every_field() {
        let base = key(1);
        let others = [
            PipelineKey { program: Digest([2; 32]), ..base },
            PipelineKey { backend: "tes", version: "t1", ..base },
            PipelineKey { version: "2", ..base },
            PipelineKey { variant: 1, ..base },
        ];
        for other in others {
            assert_ne!(base.digest(), other.digest(), "{other:?}");
        }
    }
}
