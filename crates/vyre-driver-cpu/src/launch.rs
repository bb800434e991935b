//! Runs programs: lays out a launch's context, shares its workgroups among threads, and reads what came of it.
//!
//! A program with grid barriers runs as its parts, one after the other over the whole grid, within one dispatch: what lives
//! across a barrier is in memory of the dispatch's own, and the threads wait for each other between the parts.
#![allow(unsafe_code)]

use crate::compile::{Code, Pipeline};
use crate::device::{Processor, Shared, lost};
use crate::memory::{Scratch, zeroed};
use crate::pool::Job;
use crate::vector::lower::context;
use crate::watch::Watched;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;
use vyre_driver::BackendError;
use vyre_driver::grid_sync::{Bound, Parts, Plan, StateSizes};
use vyre_driver::queue::{self, Operand, Read, Stop, Times, Work};
use vyre_foundation::launch::Admission;

/// Lines times lanes below which a launch is not worth a second thread.
const SHARED_WORK_MIN: u64 = 200_000;
/// What atomics on elements of every type want.
const ALIGNMENT: u64 = 8;

/// Does the work of one submission, in order, and returns when all of it is done.
pub(crate) fn submit(
    processor: &Processor,
    work: Work<'_, Processor>,
    stop: &Stop,
) -> Result<Times, BackendError> {
    let start = work.timed.then(Instant::now);
    work.clears.iter().for_each(|memory| memory.clear());
    if !work.uploads.is_empty() {
        let _span = tracing::trace_span!("upload").entered();
        work.uploads.iter().for_each(|(memory, offset, bytes)| memory.write(*offset, bytes));
    }
    let enqueue = start.map(|start| start.elapsed()).unwrap_or_default();
    if !work.launches.is_empty() || !work.repeated.is_empty() {
        let call = Call { shared: &processor.shared, watch: Watch::new(processor, stop) };
        let run = |one: &queue::Launch<'_, Processor>| call.run(one);
        work.launches.iter().try_for_each(run)?;
        for _ in 0..work.repeat_count {
            work.repeated.iter().try_for_each(run)?;
        }
    }
    if !work.reads.is_empty() {
        let _span = tracing::trace_span!("readback").entered();
        for Read { memory, offset, byte_len, out } in work.reads {
            out.extend_from_slice(memory.read(offset, byte_len));
        }
    }
    // The processor that runs programs is the host's, and so is its clock.
    Ok(Times { device_ns: None, enqueue })
}

/// Where a bound buffer is.
#[derive(Clone, Copy)]
struct Region {
    address: u64,
    byte_len: usize,
}

impl Region {
    fn of(operand: &Operand<'_, Processor>) -> Result<Region, BackendError> {
        match operand {
            Operand::Memory(memory) => Region::aligned(memory.address(), memory.byte_len()),
            Operand::Write(bytes) => Region::aligned(bytes.as_ptr() as u64, bytes.len()),
            // Code only reads it, without atomics, so any address will do.
            Operand::Read(bytes) => Ok(Region::read(bytes)),
        }
    }

    /// Bytes that programs may write.
    fn aligned(address: u64, byte_len: usize) -> Result<Region, BackendError> {
        if byte_len > 0 && !address.is_multiple_of(ALIGNMENT) {
            return Err(BackendError::other(
                format!(
                    "this process's allocator returned memory that is not aligned to {ALIGNMENT} bytes, which atomics need"
                ),
                "use an allocator that aligns large blocks, as the system's does",
            ));
        }
        Ok(Region { address, byte_len })
    }

    fn read(bytes: &[u8]) -> Region {
        Region { address: bytes.as_ptr() as u64, byte_len: bytes.len() }
    }
}

/// What ends a call early: a lost device, its caller, its timeout.
#[derive(Clone)]
pub(crate) struct Watch {
    lost: Arc<AtomicBool>,
    stop: Stop,
}

impl Watch {
    pub(crate) fn new(processor: &Processor, stop: &Stop) -> Watch {
        Watch { lost: Arc::clone(&processor.lost), stop: stop.clone() }
    }

    pub(crate) fn has_deadline(&self) -> bool {
        self.stop.has_deadline()
    }

    /// An error if the call is to end.
    pub(crate) fn check(&self) -> Result<(), BackendError> {
        if self.lost.load(Ordering::Acquire) {
            return Err(lost());
        }
        self.stop.reason().map_or(Ok(()), Err)
    }
}

/// A submission under way.
struct Call<'a> {
    shared: &'a Shared,
    watch: Watch,
}

impl Call<'_> {
    /// Runs one launch of the driver layer's, which may be several of ours.
    fn run(&self, one: &queue::Launch<'_, Processor>) -> Result<(), BackendError> {
        let regions: SmallVec<[Region; 8]> = one.buffers.iter().map(Region::of).collect::<Result<_, _>>()?;
        let (plan, segments) = match &one.kernel.0 {
            Code::Whole(pipeline) => return launch(self, one.admission.grid, pipeline, &regions),
            Code::Parts { plan, segments } => (plan, segments),
        };
        let sizes = plan.state_sizes(one.admission)?;
        let what = "what lives across grid barriers";
        let (state, uniform) = (zeroed(sizes.state, what)?, zeroed(sizes.uniform, what)?);
        let (admission, regions) = (one.admission, &regions[..]);
        let mut phases = Phases { call: self, admission, plan, segments, regions, sizes, state, uniform };
        plan.run(admission.grid, &mut phases)
    }
}

/// A dispatch of a program with grid barriers: its parts, and what lives across them.
struct Phases<'a> {
    call: &'a Call<'a>,
    admission: &'a Admission,
    plan: &'a Plan,
    segments: &'a [Arc<Pipeline>],
    regions: &'a [Region],
    sizes: StateSizes,
    state: Vec<u8>,
    uniform: Vec<u8>,
}

impl Parts for Phases<'_> {
    fn check(&self) -> Result<(), BackendError> {
        self.call.watch.check()
    }

    fn launch(&mut self, segment: usize) -> Result<(), BackendError> {
        let mut regions = Vec::new();
        for (bound, _) in self.plan.bound_of(segment, self.admission) {
            regions.push(match bound {
                Bound::Original(at) => self.regions[at],
                Bound::Uniform => Region::read(&self.uniform),
                Bound::State => Region::aligned(self.state.as_mut_ptr() as u64, self.state.len())?,
            });
        }
        launch(self.call, self.admission.grid, &self.segments[segment], &regions)
            .map_err(|error| self.plan.whole(segment, error))?;
        self.uniform[..self.sizes.copied].copy_from_slice(&self.state[..self.sizes.copied]);
        Ok(())
    }

    fn read_word(&mut self, word: u32) -> Result<u32, BackendError> {
        let bytes = &self.state[word as usize * 4..][..4];
        Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    fn write_word(&mut self, word: u32, value: u32) -> Result<(), BackendError> {
        for buffer in [&mut self.state, &mut self.uniform] {
            buffer[word as usize * 4..][..4].copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    }
}

/// A launch under way: code, context, and the workgroups that no thread has taken yet.
struct Launch {
    pipeline: Arc<Pipeline>,
    /// What `vector::lower::context` lays out, in words of 4 bytes.
    context: Box<[AtomicU32]>,
    next: AtomicU64,
    end: u64,
    /// Workgroups to take at once.
    chunk: u64,
    out_of_memory: AtomicBool,
    watch: Watch,
}

/// No trap was recorded.
const NO_TRAP: u32 = u32::MAX;

impl Launch {
    fn new(
        watch: &Watch,
        grid: [u32; 3],
        pipeline: &Arc<Pipeline>,
        regions: &[Region],
        threads: usize,
    ) -> Launch {
        let bytes = context::BUFFERS + context::BUFFER_BYTES * pipeline.buffers as i32;
        // An even number of words more, so that eight-byte entries can be aligned.
        let words: Vec<AtomicU32> = (0..bytes / 4 + 2).map(|_| AtomicU32::new(0)).collect();
        let context: Box<[AtomicU32]> = words.into();
        let put = |at: i32, word: u32| context[(at / 4) as usize].store(word, Ordering::Relaxed);
        put(context::TRAP, NO_TRAP);
        for (axis, count) in grid.iter().enumerate() {
            put(context::GRID + 4 * axis as i32, *count);
        }
        let entry = |buffer: usize, address: u64, len: u32| {
            let at = context::BUFFERS + context::BUFFER_BYTES * buffer as i32;
            put(at, address as u32);
            put(at + 4, (address >> 32) as u32);
            put(at + 8, len);
        };
        for ((buffer, size), region) in pipeline.bound.iter().zip(regions) {
            entry(*buffer, region.address, (region.byte_len / size) as u32);
        }
        for table in &pipeline.tables {
            entry(table.buffer, table.bytes.as_ptr() as u64, table.len);
        }
        let end: u64 = grid.iter().map(|count| u64::from(*count)).product();
        // Many chunks for each thread: the last ones are small against the whole, and threads stay near each other in memory.
        let chunk = (end / (threads as u64 * 64)).clamp(1, 1 << 16);
        let (next, out_of_memory) = (AtomicU64::new(0), AtomicBool::new(false));
        let (pipeline, watch) = (Arc::clone(pipeline), watch.clone());
        Launch { pipeline, context, next, end, chunk, out_of_memory, watch }
    }

    fn word(&self, at: i32) -> u32 {
        self.context[(at / 4) as usize].load(Ordering::Acquire)
    }

    fn stop(&self) {
        self.context[(context::STOP / 4) as usize].store(1, Ordering::Release);
    }

    /// What came of it.
    fn finish(&self) -> Result<(), BackendError> {
        if self.out_of_memory.load(Ordering::Acquire) {
            return Err(BackendError::OutOfMemory {
                what: "a thread's working memory".to_owned(),
                requested_bytes: self.pipeline.scratch_bytes,
            });
        }
        if self.word(context::STOP) != 0 {
            self.watch.check()?;
        }
        match self.word(context::TRAP) {
            NO_TRAP => Ok(()),
            number => {
                let (code, place) = self.pipeline.traps[number as usize];
                Err(BackendError::Trap { code, place, lane: None })
            }
        }
    }
}

impl Job for Launch {
    fn work(&self, leave: &dyn Fn() -> bool) -> bool {
        Scratch::with(self.pipeline.scratch_bytes, |scratch| {
            let Some(scratch) = scratch else {
                self.out_of_memory.store(true, Ordering::Release);
                self.stop();
                return true;
            };
            while !leave() {
                let first = self.next.fetch_add(self.chunk, Ordering::AcqRel);
                if first >= self.end || self.word(context::STOP) != 0 {
                    return true;
                }
                let end = self.end.min(first + self.chunk);
                let context = self.context.as_ptr() as u64;
                // SAFETY: the pipeline's code is an emitter's. The context lists buffers that `launch`'s caller keeps
                // alive and that nothing else writes until it returns, which it does only when no thread is in here;
                // tables live as long as the pipeline. Only atomics of the context are written. The scratch memory is
                // this thread's, of the size the code asked for.
                unsafe { self.pipeline.code.run(context, scratch, first, end) }
            }
            false
        })
    }
}

impl Watched for Launch {
    fn look(&self) {
        if self.watch.check().is_err() {
            self.stop();
        }
    }
}

/// Runs a pipeline on buffers, which nothing else writes until this returns.
fn launch(
    call: &Call<'_>,
    grid: [u32; 3],
    pipeline: &Arc<Pipeline>,
    regions: &[Region],
) -> Result<(), BackendError> {
    let Shared { pool, watcher, shared_launches, .. } = call.shared;
    let _span = tracing::trace_span!("launch", ?grid).entered();
    call.watch.check()?;
    if pipeline.lines == 0 {
        return Ok(());
    }
    let groups: u64 = grid.iter().map(|count| u64::from(*count)).product();
    let lanes = groups * pipeline.group_lanes;
    let small = !pipeline.loops && lanes.saturating_mul(pipeline.lines) < SHARED_WORK_MIN;
    if small {
        let launch = Launch::new(&call.watch, grid, pipeline, regions, 1);
        launch.work(&|| false);
        return launch.finish();
    }
    let alone = groups <= 1 || pool.threads() == 1;
    let threads = if alone { 1 } else { pool.threads() };
    let launch = Arc::new(Launch::new(&call.watch, grid, pipeline, regions, threads));
    let watched: Weak<Launch> = Arc::downgrade(&launch);
    watcher.watch(watched);
    if alone {
        launch.work(&|| false);
    } else {
        pool.run(Arc::clone(&launch) as Arc<dyn Job>);
        shared_launches.fetch_add(1, Ordering::Relaxed);
    }
    launch.finish()
}
