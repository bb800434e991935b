//! The device: opening it, what it can do, how it is lost, and how it takes the driver layer's work.

use crate::compile::{self, Compiler, Kernel};
use crate::launch::{self, Watch};
use crate::memory::{self, Memory};
use crate::pool::Pool;
use crate::watch::Watcher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vyre_driver::queue::{About, Queue, Stop, Task, Times, Work};
use vyre_driver::{BackendError, DeviceProfile};
use vyre_foundation::limits;
use vyre_foundation::validate::ValidProgram;

/// The id in the registry.
pub(crate) const ID: &str = "cpu";

/// This host's processor as a device that takes work.
///
/// Only the driver layer has one, and it lets nothing else use memory that a submission writes. Launches rely on that.
pub struct Processor {
    pub(crate) shared: Arc<Shared>,
    /// Set when this life of the device is over. What still runs ends in an error.
    pub(crate) lost: Arc<AtomicBool>,
}

/// What outlives a loss of the device.
pub(crate) struct Shared {
    pub(crate) compiler: Compiler,
    pub(crate) pool: Pool,
    pub(crate) watcher: Watcher,
    /// Launches that more threads than the caller's could take part in.
    pub(crate) shared_launches: AtomicU64,
    /// The processor's name and how many threads run workgroups.
    name: String,
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
    /// use vyre_driver_cpu::CpuConfig;
    ///
    /// let backend = vyre_driver_cpu::open(&CpuConfig::from_env()?)?;
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

impl Processor {
    /// A device with its own threads.
    pub(crate) fn open(config: &CpuConfig) -> Result<Processor, BackendError> {
        let threads = match config.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let shared = Shared {
            compiler: Compiler::new(*config)?,
            pool: Pool::new(threads),
            watcher: Watcher::new(),
            shared_launches: AtomicU64::new(0),
            name: format!("{}, {threads} thread{}", processor(), if threads == 1 { "" } else { "s" }),
        };
        Ok(Processor { shared: Arc::new(shared), lost: Arc::default() })
    }
}

impl Queue for Processor {
    type Memory = Memory;
    type Kernel = Kernel;
    const IN_PLACE: bool = true;

    fn about(&self) -> About {
        let Shared { compiler, pool, name, .. } = &*self.shared;
        About {
            id: ID,
            version: env!("CARGO_PKG_VERSION"),
            device: name.clone(),
            driver: compiler.name().to_owned(),
            workgroups_max: u32::MAX,
            async_compute: true,
            grid_sync: true,
            resident_workgroups_max: u64::MAX,
            stoppable_apart: false,
            profile: DeviceProfile {
                supports_indirect_dispatch: true,
                supports_trap_propagation: true,
                max_native_int_width: 64,
                max_workgroup_size: limits::WORKGROUP_AXIS_MAX,
                max_invocations_per_workgroup: limits::WORKGROUP_LANES_MAX,
                max_shared_memory_bytes: limits::WORKGROUP_BYTES_MAX as u32,
                max_storage_buffer_binding_size: u64::from(u32::MAX) * 8,
                compute_units: pool.threads() as u32,
                ideal_vector_pack_bits: compiler.vector_bits(),
                ..DeviceProfile::unknown(ID)
            },
        }
    }

    fn allocate(&self, byte_len: usize) -> Result<Memory, BackendError> {
        Memory::zeroed(byte_len)
    }

    fn allocate_zeroed(&self, byte_len: usize) -> Result<Memory, BackendError> {
        Memory::zeroed(byte_len)
    }

    fn zeroed(&self, byte_len: usize) -> Result<Vec<u8>, BackendError> {
        memory::zeroed(byte_len, "a buffer")
    }

    fn compile(&self, program: &ValidProgram, stop: &Stop) -> Result<Kernel, BackendError> {
        compile::compile(&self.shared, program, &Watch::new(self, stop))
    }

    fn submit(&self, work: Work<'_, Processor>, stop: &Stop) -> Result<Times, BackendError> {
        launch::submit(self, work, stop)
    }

    /// Between grid barriers a workgroup's state is in memory, so any grid fits.
    fn resident_workgroups(&self, _: &Kernel, _: u64) -> Result<u64, BackendError> {
        Ok(u64::MAX)
    }

    fn spawn(&self, task: Task) -> Result<(), BackendError> {
        if let Err(task) = self.shared.pool.spawn(task) {
            // There is no thread for it, so the caller runs it.
            task();
        }
        Ok(())
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        vec![("shared_dispatches", self.shared.shared_launches.load(Ordering::Relaxed))]
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    fn reopen(&self) -> Result<Processor, BackendError> {
        // Whatever still runs on the old device ends in an error.
        self.lose();
        Ok(Processor { shared: Arc::clone(&self.shared), lost: Arc::default() })
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

#[cfg(test)]
mod tests {
    use super::*;

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
