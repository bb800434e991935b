//! The backend and its life: opening, losing, recovering, shutting down.

use crate::compile::{Compiler, Pipeline};
use crate::pool::Pool;
use crate::watch::Watcher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
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
    pub(crate) resident: ResidentTable<Mutex<Vec<u8>>>,
    pub(crate) pipelines: PipelineCache<Arc<Pipeline>>,
    /// Counts recoveries; what was made under an earlier number is invalid.
    generation: AtomicU64,
    lost: AtomicBool,
    shut_down: AtomicBool,
    pub(crate) dispatches: AtomicU64,
    pub(crate) compiler: Compiler,
    pub(crate) pool: Pool,
    pub(crate) watcher: Watcher,
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
                dispatches: AtomicU64::new(0),
                compiler: Compiler::new(config)?,
                pool: Pool::new(threads),
                watcher: Watcher::new(),
            }),
        })
    }

    /// Loses the device, as a driver's reset would: resident memory is gone, dispatches under way end in an error, and
    /// nothing works until `try_recover`. For tests of what is built on recovery.
    pub fn lose_device(&self) {
        self.device.lost.store(true, Ordering::Release);
    }
}

impl Device {
    /// The generation, if the device can be used.
    pub(crate) fn ready(&self) -> Result<u64, BackendError> {
        if self.shut_down.load(Ordering::Acquire) {
            return Err(BackendError::ShutDown { backend: ID.to_owned() });
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

pub(crate) fn open() -> Result<Arc<dyn vyre_driver::VyreBackend>, BackendError> {
    Ok(Arc::new(CpuBackend::new(CpuConfig::default())?))
}
