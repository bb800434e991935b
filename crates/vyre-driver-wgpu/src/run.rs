//! One submission, from its encoder to its bytes.

use crate::kernel::Kernel;
use crate::memory::{Kind, Memory};
use crate::submit::{Bound, Clock, TIMES_BYTES, Wgpu};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use vyre_driver::BackendError;
use vyre_driver::queue::{Launch, Read, Stop, Times, Work};

/// Launches in one command buffer. More go in several, each waited for.
const LAUNCHES_MAX: usize = 4096;
/// Uploads of so many bytes at most go through memory that is kept for that. For more, wgpu allocates each time.
const STAGED_BYTES_MAX: usize = 16 << 20;
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
    bound: Arc<Bound>,
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
        let mut launches = once.iter().chain(turns);
        let mut left = once.len() + again.len() * work.repeat_count as usize;
        let readback = self.readback(&work)?;
        let staged = self.queue.upload(&work.uploads)?;
        let device = &self.queue.device;
        let mut is_first = true;
        let index = loop {
            let count = left.min(LAUNCHES_MAX);
            left -= count;
            let encoded = device.watched("a submission", || {
                let mut encoder =
                    device.raw.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                if is_first {
                    self.clear(&mut encoder, &work);
                    copy_staged(&mut encoder, &work, staged.as_ref());
                }
                if count > 0 {
                    self.launch(&mut encoder, launches.by_ref().take(count), is_first, left == 0);
                }
                if let (0, Some(readback)) = (left, &readback) {
                    self.fetch(&mut encoder, &work, readback);
                }
                device.queue.submit([encoder.finish()])
            })?;
            is_first = false;
            if left == 0 {
                break encoded;
            }
            self.queue.wait(&encoded, None, stop)?;
        };
        let enqueue = self.start.elapsed();
        let arrived = self.map(readback.as_ref(), staged)?;
        self.queue.wait(&index, arrived.as_ref(), stop)?;
        let mut times = Times { device_ns: None, enqueue };
        if let Some(readback) = readback {
            let kernels = || once.iter().chain(&again).map(|one| one.kernel);
            times.device_ns = self.take(readback, &mut work.reads, kernels())?;
        }
        Ok(times)
    }

    fn prepare<'a>(&self, launches: &'a [Launch<'_, Wgpu>]) -> Result<Vec<Prepared<'a>>, BackendError> {
        let prepare = |launch: &'a Launch<'_, Wgpu>| {
            Ok(Prepared { kernel: &launch.kernel, bound: self.queue.bound(launch, self.status)? })
        };
        launches.iter().map(prepare).collect()
    }

    fn clear(&self, encoder: &mut wgpu::CommandEncoder, work: &Work<'_, Wgpu>) {
        let status = self.status.filter(|_| work.launches.len() + work.repeated.len() > 0);
        for memory in work.clears.iter().copied().chain(status) {
            encoder.clear_buffer(memory.raw(), 0, None);
        }
    }

    /// One pass. The first and the last of a submission take the time.
    fn launch<'a>(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        launches: impl Iterator<Item = &'a Prepared<'a>>,
        is_first: bool,
        is_last: bool,
    ) {
        let timestamp_writes =
            self.clock.filter(|_| is_first || is_last).map(|clock| wgpu::ComputePassTimestampWrites {
                query_set: &clock.queries,
                beginning_of_pass_write_index: is_first.then_some(0),
                end_of_pass_write_index: is_last.then_some(1),
            });
        let mut pass =
            encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
        let (mut kernel, mut bound): (Option<u64>, Option<&wgpu::BindGroup>) = (None, None);
        for one in launches {
            if kernel.replace(one.kernel.id) != Some(one.kernel.id) {
                pass.set_pipeline(&one.kernel.pipeline);
            }
            for (group, [x, y, z]) in one.bound.pieces() {
                if bound.replace(group).is_none_or(|bound| !std::ptr::eq(bound, group)) {
                    pass.set_bind_group(0, group, &[]);
                }
                pass.dispatch_workgroups(x, y, z);
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

    /// Asks for the host's views: of what was uploaded from, which is then kept, and of what is read back, which is then
    /// said to have arrived.
    fn map(
        &self,
        readback: Option<&Readback>,
        staged: Option<Memory>,
    ) -> Result<Option<Arc<AtomicBool>>, BackendError> {
        self.queue.device.watched("a readback", || {
            if let Some(staged) = staged {
                let raw = staged.raw().clone();
                raw.map_async(wgpu::MapMode::Write, .., move |mapped| {
                    if mapped.is_ok() {
                        staged.keep();
                    }
                });
            }
            readback.map(|readback| {
                let arrived = Arc::new(AtomicBool::new(false));
                let told = Arc::clone(&arrived);
                let tell = move |_| told.store(true, Ordering::Release);
                readback.memory.raw().map_async(wgpu::MapMode::Read, .., tell);
                arrived
            })
        })
    }

    /// Takes out what arrived: bytes, times, and the first trap, which is an error.
    fn take<'a>(
        &self,
        readback: Readback,
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
        readback.memory.keep();
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

/// Whole words of their own: what is behind the end of memory is nobody's.
fn is_whole(&(memory, offset, bytes): &(&Memory, usize, &[u8])) -> bool {
    let (first, byte_len) = around(offset, bytes.len());
    offset == first && (bytes.len() == byte_len || offset + bytes.len() == memory.byte_len)
}

/// Copies what was staged to where it goes.
fn copy_staged(encoder: &mut wgpu::CommandEncoder, work: &Work<'_, Wgpu>, staged: Option<&Memory>) {
    let Some(staged) = staged else { return };
    let mut at = 0;
    for (memory, offset, bytes) in &work.uploads {
        let byte_len = bytes.len().next_multiple_of(WORD) as u64;
        if byte_len > 0 {
            encoder.copy_buffer_to_buffer(staged.raw(), at, memory.raw(), *offset as u64, byte_len);
        }
        at += byte_len;
    }
}

impl Wgpu {
    /// Hands bytes over. They are in the memory that is returned, one upload's whole words behind the other's, and must be
    /// copied from there; or, if none is, wgpu has them and writes them before the next submission.
    fn upload(&self, uploads: &[(&Memory, usize, &[u8])]) -> Result<Option<Memory>, BackendError> {
        let byte_len: usize = uploads.iter().map(|(.., bytes)| bytes.len().next_multiple_of(WORD)).sum();
        if byte_len == 0 || byte_len > STAGED_BYTES_MAX || !uploads.iter().all(is_whole) {
            uploads.iter().try_for_each(|upload| self.write(upload))?;
            return Ok(None);
        }
        let staged = self.pool.allocate(Kind::Upload, byte_len)?;
        let view = self.device.watched("an upload", || staged.raw().get_mapped_range_mut(..))?;
        let Ok(mut view) = view else {
            self.device.lose("memory for uploads is not mapped");
            return Err(self.device.lost());
        };
        let mut at = 0;
        for (.., bytes) in uploads {
            view.slice(at..at + bytes.len()).copy_from_slice(bytes);
            let end = (at + bytes.len()).next_multiple_of(WORD);
            view.slice(at + bytes.len()..end).fill(0);
            at = end;
        }
        drop(view);
        self.device.watched("an upload", || staged.raw().unmap())?;
        Ok(Some(staged))
    }

    fn write(&self, upload: &(&Memory, usize, &[u8])) -> Result<(), BackendError> {
        let &(memory, offset, bytes) = upload;
        let write = |at: usize, bytes: &[u8]| {
            self.device
                .watched("an upload", || self.device.queue.write_buffer(memory.raw(), at as u64, bytes))
        };
        if is_whole(upload) {
            let (whole, rest) = bytes.split_at(bytes.len() / WORD * WORD);
            write(offset, whole)?;
            if rest.is_empty() {
                return Ok(());
            }
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            return write(offset + whole.len(), &last);
        }
        // Bytes in a word with others: those are read first.
        let (first, byte_len) = around(offset, bytes.len());
        let mut words = Vec::with_capacity(byte_len);
        let mut work = Work::none();
        work.reads.push(Read { memory, offset: first, byte_len, out: &mut words });
        Submission { queue: self, status: None, clock: None, start: Instant::now() }
            .run(work, &Stop::never())?;
        words[offset - first..][..bytes.len()].copy_from_slice(bytes);
        write(first, &words)
    }
}
