//! A fake device: memory, a clock that only moves when something is done, and counters of what was done.
//!
//! It runs one kernel whatever the program says: add 1 to the words of every output buffer, as many as the grid has
//! workgroups. So its bytes tell how often and with which grid it was launched.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vyre_driver::admission::{Admission, CheckedProgram, check};
use vyre_driver::pipeline::{PipelineCache, PipelineKey};
use vyre_driver::resident::{Pinned, ResidentTable};
use vyre_driver::{BackendError, DispatchConfig, HandleFault, Resource};
use vyre_foundation::ir::Program;

pub(crate) const ID: &str = "full";
/// What every launch takes, unless a test says otherwise.
pub(crate) const TIMES: Times = Times { device: Some(100), enqueue: Some(10), wait: Some(5) };
pub(crate) const PREPARE_NS: u64 = 1_000;
pub(crate) const SYNCHRONIZE_NS: u64 = 50;

/// The times of one launch.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) device: Option<u64>,
    pub(crate) enqueue: Option<u64>,
    pub(crate) wait: Option<u64>,
}

pub(crate) type Memory = Mutex<Vec<u8>>;

pub(crate) struct Device {
    pub(crate) table: ResidentTable<Memory>,
    pub(crate) pipelines: PipelineCache<Arc<CheckedProgram>>,
    pub(crate) now_ns: AtomicU64,
    pub(crate) preparations: AtomicU64,
    pub(crate) launches: AtomicU64,
    pub(crate) synchronizations: AtomicU64,
    pub(crate) generation: AtomicU64,
    pub(crate) lost: AtomicBool,
    pub(crate) shut_down: AtomicBool,
    /// Times of the next launches; when it is empty, [`TIMES`].
    pub(crate) script: Mutex<VecDeque<Times>>,
}

impl Device {
    pub(crate) fn new() -> Device {
        Device {
            table: ResidentTable::new(ID),
            pipelines: PipelineCache::new(4),
            now_ns: AtomicU64::new(0),
            preparations: AtomicU64::new(0),
            launches: AtomicU64::new(0),
            synchronizations: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            shut_down: AtomicBool::new(false),
            script: Mutex::new(VecDeque::new()),
        }
    }

    pub(crate) fn ready(&self) -> Result<u64, BackendError> {
        if self.shut_down.load(Ordering::Acquire) {
            return Err(BackendError::ShutDown { backend: ID.to_owned() });
        }
        if self.lost.load(Ordering::Acquire) {
            return Err(BackendError::DeviceLost {
                backend: ID.to_owned(),
                cause: "a test said so".to_owned(),
            });
        }
        Ok(self.generation.load(Ordering::Acquire))
    }

    pub(crate) fn now(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn spend(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(crate) fn synchronize(&self) {
        self.synchronizations.fetch_add(1, Ordering::Relaxed);
        self.spend(SYNCHRONIZE_NS);
    }

    /// What stands between a program and its first launch.
    pub(crate) fn prepare_launch(
        &self,
        program: &Program,
        config: &DispatchConfig,
    ) -> Result<(), BackendError> {
        self.ready()?;
        self.preparations.fetch_add(1, Ordering::Relaxed);
        self.spend(PREPARE_NS);
        let variant = config.workgroup_override.map_or(0, |size| 1 + u64::from(size[0]));
        let key = PipelineKey { program: program.digest(), backend: ID, version: "7", variant };
        self.pipelines.get_or_compile(key, || check(program, config.workgroup_override)).map(drop)
    }

    /// Runs the kernel and takes its time.
    pub(crate) fn launch(&self, admission: &Admission, buffers: &mut [&mut Vec<u8>]) -> Times {
        let words: u64 = admission.grid.iter().map(|count| u64::from(*count)).product();
        for (plan, buffer) in admission.bindings.iter().zip(buffers) {
            if plan.output.is_some() {
                for word in buffer.chunks_exact_mut(4).take(words as usize) {
                    let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                    word.copy_from_slice(&value.wrapping_add(1).to_le_bytes());
                }
            }
        }
        self.launches.fetch_add(1, Ordering::Relaxed);
        let times = self.script.lock().unwrap().pop_front().unwrap_or(TIMES);
        self.spend(times.device.unwrap_or(0) + times.enqueue.unwrap_or(0));
        times
    }

    pub(crate) fn pin_all(&self, resources: &[Resource]) -> Result<Vec<Pinned<Memory>>, BackendError> {
        self.ready()?;
        let pins: Result<Vec<_>, _> =
            resources.iter().map(|resource| self.table.pin_defined(resource)).collect();
        let pins = pins?;
        for (at, pinned) in pins.iter().enumerate() {
            if pins[..at].iter().any(|other| other.handle() == pinned.handle()) {
                let cause = HandleFault::BoundTwice;
                return Err(BackendError::BadHandle { handle: pinned.handle(), cause });
            }
        }
        Ok(pins)
    }

    pub(crate) fn read(
        &self,
        range: (&Resource, usize, usize),
        out: &mut Vec<u8>,
    ) -> Result<(), BackendError> {
        let (resource, offset, len) = range;
        let pinned = self.table.pin_defined(resource)?;
        pinned.check_range(offset, len)?;
        out.clear();
        out.extend_from_slice(&pinned.memory().lock().unwrap()[offset..offset + len]);
        Ok(())
    }
}
