//! One submission, from its encoder to its bytes.

use crate::device::Kept;
use crate::kernel::Kernel;
use crate::memory::{Kind, Memory};
use crate::submit::{Clock, TIMES_BYTES, Wgpu, Words};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use vyre_driver::BackendError;
use vyre_driver::queue::{Launch, Read, Stop, Times, Work};

/// Launches in one command buffer. More go in several, each waited for.
const LAUNCHES_MAX: usize = 4096;
/// How long another thread may take to call back.
const LOOK: Duration = Duration::from_millis(10);
/// Copies go by whole words.
pub(crate) const WORD: usize = 4;

/// What a submission has beside its work.
pub(crate) struct Submission<'a> {
    pub(crate) queue: &'a Wgpu,
    pub(crate) status: Option<&'a Memory>,
    pub(crate) clock: Option<&'a Clock>,
    pub(crate) start: Instant,
}

/// A launch with everything that it binds.
struct Prepared<'a> {
    kernel: &'a Kernel,
    /// One for each piece of the grid.
    groups: Vec<Arc<Kept<wgpu::BindGroup>>>,
    words: Arc<Words>,
}

/// Where things lie in the buffer that the host reads, in bytes.
struct Readback {
    memory: Memory,
    trap_at: Option<usize>,
    times_at: Option<usize>,
    /// Each range, from its first whole word on.
    ranges_at: Vec<usize>,
}

/// The whole words around a range of bytes: where they begin, and how many bytes they have.
fn around(offset: usize, byte_len: usize) -> (usize, usize) {
    let first = offset / WORD * WORD;
    (first, (offset + byte_len).next_multiple_of(WORD) - first)
}

impl Submission<'_> {
    pub(crate) fn run(&self, mut work: Work<'_, Wgpu>, stop: &Stop<'_>) -> Result<Times, BackendError> {
        let once = self.prepare(&work.launches)?;
        let again = self.prepare(&work.repeated)?;
        let turns = std::iter::repeat_n(&again, work.repeat_count as usize).flatten();
        let mut launches = once.iter().chain(turns).peekable();
        let readback = self.readback(&work)?;
        let device = &self.queue.device;
        let mut is_first = true;
        let index = loop {
            let encoded = device.watched("a submission", || {
                let mut encoder =
                    device.raw.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                if is_first {
                    self.clear(&mut encoder, &work);
                }
                self.launch(&mut encoder, &mut launches, is_first);
                if let (None, Some(readback)) = (launches.peek(), &readback) {
                    self.fetch(&mut encoder, &work, readback);
                }
                device.queue.submit([encoder.finish()])
            })?;
            is_first = false;
            if launches.peek().is_none() {
                break encoded;
            }
            self.queue.wait(&encoded, stop)?;
        };
        let enqueue = self.start.elapsed();
        let arrived = readback.as_ref().map(|readback| self.map(readback)).transpose()?;
        let waited = self.queue.wait(&index, stop);
        if let (Err(_), Some(readback), false) = (&waited, &readback, device.is_lost()) {
            // It ended too late. Its memory goes to another submission, which must not find it mapped.
            device.watched("a readback", || readback.memory.raw().unmap())?;
        }
        waited?;
        let mut times = Times { device_ns: None, enqueue };
        if let (Some(readback), Some(arrived)) = (&readback, arrived) {
            // Another thread's look at the device may be the one that calls back.
            while arrived.recv_timeout(LOOK).is_err() {
                device.look()?;
            }
            let kernels = || once.iter().chain(&again).map(|one| one.kernel);
            times.device_ns = self.take(readback, &mut work.reads, kernels())?;
        }
        Ok(times)
    }

    fn prepare<'a>(&self, launches: &'a [Launch<'_, Wgpu>]) -> Result<Vec<Prepared<'a>>, BackendError> {
        let prepare = |launch: &'a Launch<'_, Wgpu>| {
            let words = self.queue.words(launch)?;
            let pieces = 0..words.pieces.len();
            let groups = pieces.map(|piece| self.queue.group(launch, &words, piece, self.status));
            Ok(Prepared { kernel: &launch.kernel, groups: groups.collect::<Result<_, _>>()?, words })
        };
        launches.iter().map(prepare).collect()
    }

    fn clear(&self, encoder: &mut wgpu::CommandEncoder, work: &Work<'_, Wgpu>) {
        let status = self.status.filter(|_| work.launches.len() + work.repeated.len() > 0);
        for memory in work.clears.iter().copied().chain(status) {
            encoder.clear_buffer(memory.raw(), 0, None);
        }
    }

    /// One pass, of as many launches as a command buffer takes.
    fn launch<'a>(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        launches: &mut std::iter::Peekable<impl Iterator<Item = &'a Prepared<'a>>>,
        is_first: bool,
    ) {
        if launches.peek().is_none() {
            return;
        }
        let mut taken: Vec<&Prepared<'_>> = Vec::new();
        while let Some(one) = launches.next_if(|_| taken.len() < LAUNCHES_MAX) {
            taken.push(one);
        }
        let is_last = launches.peek().is_none();
        let timestamp_writes =
            self.clock.filter(|_| is_first || is_last).map(|clock| wgpu::ComputePassTimestampWrites {
                query_set: &clock.queries,
                beginning_of_pass_write_index: is_first.then_some(0),
                end_of_pass_write_index: is_last.then_some(1),
            });
        let mut pass =
            encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
        let (mut kernel, mut bound): (Option<u64>, Option<&Arc<_>>) = (None, None);
        for one in taken {
            if kernel.replace(one.kernel.id) != Some(one.kernel.id) {
                pass.set_pipeline(&one.kernel.pipeline);
            }
            for (group, [x, y, z]) in one.groups.iter().zip(&one.words.pieces) {
                if bound.replace(group).is_none_or(|bound| !Arc::ptr_eq(bound, group)) {
                    pass.set_bind_group(0, &***group, &[]);
                }
                pass.dispatch_workgroups(*x, *y, *z);
            }
        }
    }

    /// What the host will look at, if anything.
    fn readback(&self, work: &Work<'_, Wgpu>) -> Result<Option<Readback>, BackendError> {
        let mut end = 0;
        let mut place = |byte_len: usize| {
            end += byte_len;
            end - byte_len
        };
        let times_at = self.clock.map(|_| place(TIMES_BYTES as usize));
        let trap_at = self.status.map(|_| place(WORD));
        let ranges = work.reads.iter().map(|read| place(around(read.offset, read.byte_len).1));
        let ranges_at = ranges.collect();
        if end == 0 {
            return Ok(None);
        }
        let memory = self.queue.pool.allocate(Kind::Readback, end)?;
        Ok(Some(Readback { memory, trap_at, times_at, ranges_at }))
    }

    fn fetch(&self, encoder: &mut wgpu::CommandEncoder, work: &Work<'_, Wgpu>, readback: &Readback) {
        let to = readback.memory.raw();
        let mut copy = |from: &wgpu::Buffer, first: usize, at: usize, byte_len: usize| {
            if byte_len > 0 {
                encoder.copy_buffer_to_buffer(from, first as u64, to, at as u64, byte_len as u64);
            }
        };
        if let (Some(status), Some(at)) = (self.status, readback.trap_at) {
            copy(status.raw(), 0, at, WORD);
        }
        for (Read { memory, offset, byte_len, .. }, at) in work.reads.iter().zip(&readback.ranges_at) {
            let (first, byte_len) = around(*offset, *byte_len);
            copy(memory.raw(), first, *at, byte_len);
        }
        if let (Some(clock), Some(at)) = (self.clock, readback.times_at) {
            encoder.resolve_query_set(&clock.queries, 0..2, &clock.resolved, 0);
            encoder.copy_buffer_to_buffer(&clock.resolved, 0, to, at as u64, TIMES_BYTES);
        }
    }

    /// Asks for the host's view of a readback.
    fn map(
        &self,
        readback: &Readback,
    ) -> Result<mpsc::Receiver<Result<(), wgpu::BufferAsyncError>>, BackendError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.queue.device.watched("a readback", || {
            readback.memory.raw().map_async(wgpu::MapMode::Read, .., move |mapped| {
                // Nobody asks any more if the device was lost meanwhile.
                let _ = sender.send(mapped);
            });
        })?;
        Ok(receiver)
    }

    /// Takes out what arrived: bytes, times, and the first trap, which is an error.
    fn take<'a>(
        &self,
        readback: &Readback,
        reads: &mut [Read<'_, Wgpu>],
        mut kernels: impl Iterator<Item = &'a Kernel>,
    ) -> Result<Option<u64>, BackendError> {
        let device = &self.queue.device;
        let view = device.watched("a readback", || readback.memory.raw().get_mapped_range(..))?;
        let Ok(view) = view else {
            device.lose("a readback could not be mapped");
            return Err(device.lost());
        };
        let word = |at: usize| u32::from_le_bytes(view[at..at + WORD].try_into().expect("four bytes"));
        let trap = readback.trap_at.map(word).filter(|trap| *trap != 0);
        if trap.is_none() {
            for (Read { offset, byte_len, out, .. }, at) in reads.iter_mut().zip(&readback.ranges_at) {
                let at = at + *offset % WORD;
                out.extend_from_slice(&view[at..at + *byte_len]);
            }
        }
        let ticks = |at: usize| u64::from(word(at)) | u64::from(word(at + WORD)) << 32;
        let period = f64::from(device.queue.get_timestamp_period());
        let device_ns = readback
            .times_at
            .map(|at| (ticks(at + 2 * WORD).saturating_sub(ticks(at)) as f64 * period) as u64);
        drop(view);
        device.watched("a readback", || readback.memory.raw().unmap())?;
        match trap {
            None => Ok(device_ns),
            Some(trap) => {
                // Sequences of several launches have no traps, so there is one kernel that can have recorded it.
                let kernel = kernels.find(|kernel| !kernel.traps.is_empty());
                let found = kernel.and_then(|kernel| kernel.traps.get(!trap as usize));
                let (code, place) = *found.ok_or_else(|| {
                    BackendError::new(format!(
                        "the device recorded trap {trap:#x}, which the program does not have. Fix: report it"
                    ))
                })?;
                Err(BackendError::Trap { code, place, lane: None })
            }
        }
    }
}

impl Wgpu {
    /// Hands bytes over, which are written before the next submission.
    pub(crate) fn upload(&self, memory: &Memory, offset: usize, bytes: &[u8]) -> Result<(), BackendError> {
        let (first, byte_len) = around(offset, bytes.len());
        let write = |at: usize, bytes: &[u8]| {
            self.device
                .watched("an upload", || self.device.queue.write_buffer(memory.raw(), at as u64, bytes))
        };
        let is_tail = offset + bytes.len() == memory.byte_len;
        if offset == first && (is_tail || bytes.len() == byte_len) {
            let (whole, rest) = bytes.split_at(bytes.len() / WORD * WORD);
            write(first, whole)?;
            if rest.is_empty() {
                return Ok(());
            }
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            return write(first + whole.len(), &last);
        }
        // Bytes in a word with others: those are read first.
        let mut words = Vec::with_capacity(byte_len);
        let mut work = Work::none();
        work.reads.push(Read { memory, offset: first, byte_len, out: &mut words });
        Submission { queue: self, status: None, clock: None, start: Instant::now() }
            .run(work, &Stop::never())?;
        words[offset - first..][..bytes.len()].copy_from_slice(bytes);
        write(first, &words)
    }
}
