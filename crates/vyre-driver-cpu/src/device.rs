//! The backend and its life: opening, losing, recovering, shutting down.

use crate::compile::{Compiler, Ready};
use crate::memory::Memory;
use crate::pool::Pool;
use crate::watch::Watcher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use vyre_driver::BackendError;
use vyre_driver::pipeline::PipelineCache;
use vyre_driver::resident::ResidentTable;

/// The id in the registry.
pub(crate) const ID: &str = "cpu";

/// This host's processor as a backend. Clones are handles to one device.
#[derive(Clone)]
pub struct CpuBackend {
    pub(crate) device: Arc<Device>,
}

/// What all handles share.
pub(crate) struct Device {
    pub(crate) resident: ResidentTable<Memory>,
    pub(crate) pipelines: PipelineCache<Ready>,
    /// Counts recoveries; what was made under an earlier number is invalid.
    generation: AtomicU64,
    lost: AtomicBool,
    shut_down: AtomicBool,
    /// The process that opened it. A fork of that has memory like it and none of its threads.
    process: u32,
    pub(crate) launches: AtomicU64,
    /// Those of the launches that more threads than the caller's could take part in.
    pub(crate) shared_launches: AtomicU64,
    pub(crate) compiler: Compiler,
    pub(crate) pool: Pool,
    pub(crate) watcher: Watcher,
    /// The processor's name and how many threads run workgroups.
    pub(crate) name: String,
}

/// How the backend is to work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuConfig {
    /// What makes the machine code.
    pub emitter: Emitter,
    /// Threads that run workgroups, the caller's counted; 0 for one on each core.
    pub threads: usize,
    /// The most vectors in flight; 0 leaves the choice to the backend.
    pub vectors: u32,
}

impl CpuConfig {
    /// What the environment asks for: `VYRE_CPU_EMITTER` (`auto`, or an emitter's name), `VYRE_CPU_THREADS` and
    /// `VYRE_CPU_VECTORS`. What is not set is left to the backend.
    ///
    /// ```
    /// use vyre_driver_cpu::{CpuBackend, CpuConfig};
    ///
    /// let backend = CpuBackend::new(CpuConfig::from_env()?)?;
    /// # Ok::<(), vyre_driver::BackendError>(())
    /// ```
    pub fn from_env() -> Result<CpuConfig, BackendError> {
        CpuConfig::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(get: impl Fn(&str) -> Option<String>) -> Result<CpuConfig, BackendError> {
        // The processor is present, so this is a mistake to report, and not an absent device.
        let wrong = |name: &str, value: &str, fix: String| {
            BackendError::other(format!("{name} is `{}`", value.escape_debug()), fix)
        };
        let count = |name: &str| match get(name) {
            None => Ok(0),
            Some(value) => value
                .trim()
                .parse::<u16>()
                .ok()
                .filter(|count| *count <= COUNT_MAX)
                .ok_or_else(|| wrong(name, &value, format!("set {name} to a number up to {COUNT_MAX}"))),
        };
        let name = "VYRE_CPU_EMITTER";
        let emitter = match get(name) {
            None => Emitter::Auto,
            Some(value) => {
                let named = EMITTERS.iter().find(|(name, _)| *name == value.trim());
                let known = EMITTERS.map(|(name, _)| name).join(", ");
                named.ok_or_else(|| wrong(name, &value, format!("set {name} to one of: {known}")))?.1
            }
        };
        let threads = usize::from(count("VYRE_CPU_THREADS")?);
        Ok(CpuConfig { emitter, threads, vectors: u32::from(count("VYRE_CPU_VECTORS")?) })
    }
}

/// The most threads, or vectors in flight, that the environment may ask for.
const COUNT_MAX: u16 = 1024;

/// The emitters by the names that `VYRE_CPU_EMITTER` knows.
const EMITTERS: [(&str, Emitter); 4] = [
    ("auto", Emitter::Auto),
    ("portable", Emitter::Portable),
    ("avx2", Emitter::Avx2),
    ("avx512", Emitter::Avx512),
];

/// What makes the machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emitter {
    /// The best for this processor.
    #[default]
    Auto,
    /// Cranelift, with vectors of 128 bits.
    Portable,
    /// Our own, with AVX2: vectors of 256 bits.
    Avx2,
    /// Our own, with AVX-512: vectors of 512 bits.
    Avx512,
}

impl CpuBackend {
    /// A device of its own, with its own threads, resident memory and pipelines.
    pub fn new(config: CpuConfig) -> Result<CpuBackend, BackendError> {
        let threads = match config.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        Ok(CpuBackend {
            device: Arc::new(Device {
                resident: ResidentTable::new(ID),
                pipelines: PipelineCache::new(256),
                generation: AtomicU64::new(0),
                lost: AtomicBool::new(false),
                shut_down: AtomicBool::new(false),
                process: std::process::id(),
                launches: AtomicU64::new(0),
                shared_launches: AtomicU64::new(0),
                compiler: Compiler::new(config)?,
                pool: Pool::new(threads),
                watcher: Watcher::new(),
                name: format!("{}, {threads} thread{}", processor(), if threads == 1 { "" } else { "s" }),
            }),
        })
    }

    /// Loses the device, as a driver's reset would: resident memory is gone, dispatches under way end in an error, and
    /// nothing works until `try_recover`. For tests of what is built on recovery.
    pub fn lose_device(&self) {
        self.device.lost.store(true, Ordering::Release);
    }
}

/// A call under way.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) start: Instant,
    /// The device's life that it began in.
    pub(crate) generation: u64,
}

impl Device {
    /// Begins a call, if the device can be used.
    pub(crate) fn call(&self) -> Result<Call, BackendError> {
        Ok(Call { start: Instant::now(), generation: self.ready()? })
    }

    /// The generation, if the device can be used.
    pub(crate) fn ready(&self) -> Result<u64, BackendError> {
        if self.shut_down.load(Ordering::Acquire) {
            return Err(BackendError::ShutDown { backend: ID.to_owned() });
        }
        if self.process != std::process::id() {
            return Err(BackendError::Unavailable {
                backend: ID.to_owned(),
                reason: "this process is a fork of the one that opened it, without its threads".to_owned(),
                fix: "open the backend again in this process, or start processes without forking".to_owned(),
            });
        }
        if self.is_lost() {
            return Err(lost());
        }
        Ok(self.generation.load(Ordering::Acquire))
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Whether what was made under `generation` is still good.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Acquire) == generation && !self.is_lost()
    }

    pub(crate) fn recover(&self) -> Result<(), BackendError> {
        if self.shut_down.load(Ordering::Acquire) {
            return Err(BackendError::ShutDown { backend: ID.to_owned() });
        }
        // Invalidate first: whoever sees the device healthy again also sees the new generation.
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.resident.lose_all();
        self.pipelines.clear();
        self.lost.store(false, Ordering::Release);
        Ok(())
    }

    pub(crate) fn shut_down(&self) {
        self.shut_down.store(true, Ordering::Release);
        self.resident.lose_all();
        self.pipelines.clear();
    }
}

pub(crate) fn lost() -> BackendError {
    BackendError::DeviceLost { backend: ID.to_owned(), cause: "the device was reset".to_owned() }
}

/// What the processor calls itself.
fn processor() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

pub(crate) fn open() -> Result<Arc<dyn vyre_driver::VyreBackend>, BackendError> {
    Ok(Arc::new(CpuBackend::new(CpuConfig::from_env()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_told_to_open_its_own() {
        let mut backend = CpuBackend::new(CpuConfig::default()).expect("it opens");
        assert_eq!(backend.device.ready(), Ok(0));
        Arc::get_mut(&mut backend.device).expect("one handle").process += 1;
        let error = backend.device.ready().expect_err("another process").to_string();
        assert!(error.contains("fork") && error.contains("Fix: open the backend again"), "{error}");
    }

    #[test]
    fn the_environment_chooses_emitter_threads_and_vectors() {
        let read = |pairs: &[(&str, &str)]| {
            CpuConfig::from_lookup(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(read(&[]), Ok(CpuConfig::default()));
        let all = [("VYRE_CPU_EMITTER", "portable"), ("VYRE_CPU_THREADS", "3"), ("VYRE_CPU_VECTORS", "2")];
        assert_eq!(read(&all), Ok(CpuConfig { emitter: Emitter::Portable, threads: 3, vectors: 2 }));
        for wrong in
            [("VYRE_CPU_EMITTER", "abacus"), ("VYRE_CPU_THREADS", "many"), ("VYRE_CPU_VECTORS", "-1")]
        {
            let error = read(&[wrong]).expect_err("it is refused").to_string();
            assert!(error.contains(wrong.0) && error.contains(wrong.1) && error.contains("Fix:"), "{error}");
        }
    }
}
