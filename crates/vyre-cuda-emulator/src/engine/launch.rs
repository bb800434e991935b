//! One launch: its blocks on the host's threads.
//!
//! A block runs for a while and is then put behind the others, so that blocks which wait for each other all go on, as they
//! do while they are on the device together. As many are begun as the device holds at once.

use super::block::{Cta, THREADS_MAX};
use super::code::Constant;
use super::races::Races;
use super::schedule::{Options, Schedule};
use super::{Kernel, Loaded};
use crate::fault::{Code, Fault};
use crate::memory::{Block, Heap};
use crate::model::Model;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// One launch.
pub struct Launch {
    /// The module.
    pub module: Arc<Loaded>,
    /// Which of its kernels.
    pub kernel: usize,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// The parameters' bytes, as the kernel lays them out.
    pub params: Vec<u8>,
    /// Whether all blocks must be on the device together. The caller has checked that they fit.
    pub cooperative: bool,
}

/// How long one thread works alone before others help it: most launches are over by then.
const ALONE: Duration = Duration::from_micros(300);

/// What blocks of a launch share.
pub(super) struct Run<'a> {
    pub(super) launch: &'a Launch,
    pub(super) kernel: &'a Kernel,
    pub(super) model: &'a Model,
    /// The device's allocations, by address.
    pub(super) blocks: Arc<Vec<Arc<Block>>>,
    /// The values of constant rows.
    pub(super) constants: Vec<(u32, u64)>,
    pub(super) schedule: Schedule,
    pub(super) races: Option<Races>,
    pub(super) start: Instant,
    watchdog: Option<Duration>,
    stop: &'a AtomicBool,
    queue: Mutex<Queue>,
}

struct Queue {
    /// Blocks that have begun and wait for their turn.
    begun: VecDeque<Cta>,
    /// Blocks that have ended, whose memory others can use.
    spare: Vec<Cta>,
    next: u64,
    /// How many have begun and not ended.
    alive: u64,
    fault: Option<Fault>,
}

impl Launch {
    fn kernel(&self) -> &Kernel {
        &self.module.program.kernels[self.kernel]
    }

    /// That the launch is one that hardware could begin. The driver refuses most others before, with codes of its own.
    fn check(&self, model: &Model) -> Result<(), Fault> {
        let wrong = |what: &str| Err(Fault::new(Code::InvalidValue, what));
        let Some(kernel) = self.module.program.kernels.get(self.kernel) else {
            return wrong("the module has no such kernel");
        };
        let fits = |size: [u32; 3], most: [u32; 3]| {
            size.iter().zip(most).all(|(size, most)| (1..=most).contains(size))
        };
        if !fits(self.grid, [i32::MAX as u32, 65_535, 65_535]) {
            return wrong("the grid has no blocks, or too many");
        }
        let threads_fit =
            fits(self.block, [1024, 1024, 64]) && self.block.iter().product::<u32>() <= THREADS_MAX;
        if !threads_fit {
            return wrong("the block has no threads, or too many");
        }
        if kernel.shared_bytes.saturating_add(self.shared_bytes) > model.shared_per_block_optin {
            return wrong("the block needs more shared memory than the device has");
        }
        let param_bytes = kernel.params.last().map_or(0, |(offset, len)| offset + len);
        if self.params.len() < param_bytes as usize {
            return wrong("the kernel has more parameters than the launch gives it");
        }
        Ok(())
    }

    fn block_count(&self) -> u64 {
        self.grid.iter().map(|axis| u64::from(*axis)).product()
    }

    /// Runs it to its end on this thread and others of its own; returns early with an error where `stop` is set.
    pub fn run(&self, heap: &Heap, model: &Model, stop: &AtomicBool) -> Result<(), Fault> {
        self.run_with(Options::from_environment(), heap, model, stop)
    }

    /// Runs it as `run` does, with a schedule and checks of the caller's choice.
    pub fn run_with(
        &self,
        options: Options,
        heap: &Heap,
        model: &Model,
        stop: &AtomicBool,
    ) -> Result<(), Fault> {
        self.check(model)?;
        let kernel = self.kernel();
        let value = |constant: &Constant| match constant {
            Constant::Value(value) => *value,
            Constant::Global(at, offset) => self.module.addresses[*at].wrapping_add_signed(*offset),
        };
        let run = Run {
            launch: self,
            kernel,
            model,
            blocks: heap.snapshot(),
            constants: kernel
                .code
                .constants
                .iter()
                .map(|(slot, constant)| (*slot, value(constant)))
                .collect(),
            schedule: options.schedule,
            races: options.races.then(|| Races::new(self.block.iter().product::<u32>() as usize)),
            start: Instant::now(),
            watchdog: options.watchdog,
            stop,
            queue: Mutex::new(Queue {
                begun: VecDeque::new(),
                spare: Vec::new(),
                next: 0,
                alive: 0,
                fault: None,
            }),
        };
        run.all(self.block_count())
    }
}

fn host_threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

impl Run<'_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn all(&self, count: u64) -> Result<(), Fault> {
        let alive_max = if self.launch.cooperative { count } else { self.resident() };
        let helpers = AtomicUsize::new(0);
        // The order of accesses is one order where races are looked for.
        let threads = if self.races.is_some() { 1 } else { host_threads().min(count as usize) };
        std::thread::scope(|scope| {
            let since = Instant::now();
            self.work(count, alive_max, &mut || {
                let helped = helpers.load(Ordering::Relaxed);
                if helped + 1 < threads && since.elapsed() > ALONE {
                    for _ in helped + 1..threads {
                        helpers.fetch_add(1, Ordering::Relaxed);
                        let help = || self.work(count, alive_max, &mut || {});
                        // Without another thread this one does all.
                        let _ = std::thread::Builder::new().spawn_scoped(scope, help);
                    }
                }
            });
        });
        match self.queue().fault.take() {
            Some(fault) => Err(fault),
            None if self.is_stopped() => Err(Fault::new(Code::LaunchFailed, "the context was destroyed")),
            None => Ok(()),
        }
    }

    /// How many blocks the device holds at once.
    fn resident(&self) -> u64 {
        let model = self.model;
        let threads = self.launch.block.iter().product::<u32>().max(1);
        let by_threads = model.threads_per_multiprocessor / threads;
        let shared = self.kernel.shared_bytes + self.launch.shared_bytes + model.shared_reserved;
        let by_shared = model.shared_per_multiprocessor / shared.max(1);
        let each = by_threads.min(by_shared).clamp(1, model.blocks_per_multiprocessor);
        u64::from(each) * u64::from(model.multiprocessors)
    }

    /// Takes blocks and runs them until none is left.
    fn work(&self, count: u64, alive_max: u64, between: &mut dyn FnMut()) {
        loop {
            let Some(mut cta) = self.take(count, alive_max) else { return };
            let ended = cta.run(self).and_then(|ended| self.watch().map(|()| ended));
            let mut queue = self.queue();
            match ended {
                Ok(true) => {
                    queue.alive -= 1;
                    queue.spare.push(cta);
                }
                Ok(false) => queue.begun.push_back(cta),
                Err(fault) => {
                    // The first fault is the launch's.
                    queue.fault.get_or_insert(fault);
                    queue.next = count;
                    queue.begun.clear();
                    return;
                }
            }
            drop(queue);
            between();
        }
    }

    /// An error where the kernel has run for longer than the watchdog lets it.
    fn watch(&self) -> Result<(), Fault> {
        match self.watchdog {
            Some(limit) if self.start.elapsed() > limit => {
                let kernel = &self.kernel.name;
                Err(Fault::new(
                    Code::LaunchTimeout,
                    format!("{kernel} runs for more than {} s", limit.as_secs()),
                ))
            }
            _ => Ok(()),
        }
    }

    /// The next block to run: a new one while the device has room, else one that has waited.
    fn take(&self, count: u64, alive_max: u64) -> Option<Cta> {
        let mut queue = self.queue();
        if queue.fault.is_some() || self.is_stopped() {
            return None;
        }
        if queue.next < count && queue.alive < alive_max {
            let number = queue.next;
            queue.next += 1;
            queue.alive += 1;
            let spare = queue.spare.pop();
            drop(queue);
            let mut cta = spare.unwrap_or_else(|| Cta::new(self));
            cta.begin(self, number);
            return Some(cta);
        }
        queue.begun.pop_front()
    }

    /// A fault at a line, with the thread's place.
    pub(super) fn fault(
        &self,
        code: Code,
        line: u32,
        thread: [u32; 3],
        block: [u32; 3],
        what: &str,
    ) -> Fault {
        let [tx, ty, tz] = thread;
        let [bx, by, bz] = block;
        let text = self.launch.module.program.line(line);
        let kernel = &self.kernel.name;
        Fault::new(
            code,
            format!(
                "{kernel}, line {line} `{text}`, thread ({tx}, {ty}, {tz}) of block ({bx}, {by}, {bz}): {what}"
            ),
        )
    }
}
