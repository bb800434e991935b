//! One submission, from its encoder to its bytes.

use crate::kernel::Kernel;
use crate::memory::{Kind, Mapped, Memory};
use crate::submit::{Bound, Clock, TIMES_BYTES, Wgpu};
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::time::Instant;
use vyre_driver::BackendError;
use vyre_driver::queue::{Launch, Read, Stop, Times, Work};
use wgpu::MapMode;

/// Launches in one command buffer. More go in several, each waited for.
const LAUNCHES_MAX: usize = 4096;
/// Uploads of so many bytes at most go through memory that is kept for that. For more, wgpu allocates each time.
const STAGED_BYTES_MAX: usize = 256 << 20;
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

/// Where the host finds bytes.
struct Place<'a> {
    /// The memory that has them, if the host maps that; else they are copied to memory for it.
    mapped: Option<&'a Memory>,
    offset: usize,
}

/// What the host will look at.
struct Readback<'a> {
    /// What is copied, with the whole words around it.
    copy: Option<Memory>,
    trap: Option<Place<'a>>,
    times: Option<Place<'a>>,
    ranges: Vec<Place<'a>>,
}

impl<'a> Readback<'a> {
    /// Everything that the host maps.
    fn memories<'b>(&'b self) -> impl Iterator<Item = &'b Memory> + use<'a, 'b> {
        let places = self.ranges.iter().chain(&self.trap);
        places.filter_map(|place| place.mapped).chain(&self.copy)
    }

    fn memory<'b>(&'b self, place: &Place<'b>) -> &'b Memory {
        place.mapped.or(self.copy.as_ref()).expect("it is copied if it is not mapped")
    }
}

/// The whole words around a range of bytes: where they begin, and how many bytes they have.
fn around(offset: usize, byte_len: usize) -> (usize, usize) {
    let first = offset / WORD * WORD;
    (first, (offset + byte_len).next_multiple_of(WORD) - first)
}

impl<'a> Submission<'a> {
    pub(crate) fn run(&self, mut work: Work<'a, Wgpu>, stop: &Stop<'_>) -> Result<Times, BackendError> {
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
        self.keep(staged)?;
        let Some(readback) = readback else {
            self.queue.wait(&index, None, stop)?;
            return Ok(Times { device_ns: None, enqueue });
        };
        let mapped = Mapped::ask(device, MapMode::Read, readback.memories())?;
        self.queue.wait(&index, Some(&mapped.awaited), stop)?;
        let kernels = once.iter().chain(&again).map(|one| one.kernel);
        let taken = self.take(&readback, &mapped, &mut work.reads, kernels);
        drop(mapped);
        if let Some(copy) = readback.copy {
            copy.keep();
        }
        Ok(Times { device_ns: taken?, enqueue })
    }

    fn prepare<'b>(&self, launches: &'b [Launch<'_, Wgpu>]) -> Result<Vec<Prepared<'b>>, BackendError> {
        let prepare = |launch: &'b Launch<'_, Wgpu>| {
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
    fn launch<'b>(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        launches: impl Iterator<Item = &'b Prepared<'b>>,
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

    /// The memory that only this work uses, which is what it writes: others may launch kernels that read the rest, and no
    /// submission may use what is mapped.
    fn own(&self, work: &Work<'a, Wgpu>) -> FxHashSet<u64> {
        let is_looked_at = self.status.is_some() || !work.reads.is_empty();
        if self.queue.device.staged.is_some() || !is_looked_at {
            return FxHashSet::default();
        }
        let launches = work.launches.iter().chain(&work.repeated);
        let bound = launches.flat_map(|launch| launch.buffers.iter().zip(&launch.kernel.bindings.buffers));
        let written = bound.filter(|(_, (_, writable))| *writable).map(|(memory, _)| *memory);
        let given = work.clears.iter().copied().chain(work.uploads.iter().map(|(memory, ..)| *memory));
        written.chain(given).chain(self.status).map(|memory| memory.buffer().id).collect()
    }

    /// What the host will look at, if anything.
    fn readback(&self, work: &Work<'a, Wgpu>) -> Result<Option<Readback<'a>>, BackendError> {
        let (mut end, own) = (0, self.own(work));
        let mut place = |memory: Option<&'a Memory>, offset: usize, byte_len: usize| {
            let mapped = memory.filter(|memory| own.contains(&memory.buffer().id));
            if mapped.is_some() {
                return Place { mapped, offset };
            }
            let (first, byte_len) = around(offset, byte_len);
            end += byte_len;
            Place { mapped, offset: end - byte_len + offset - first }
        };
        let times = self.clock.map(|_| place(None, 0, TIMES_BYTES as usize));
        let trap = self.status.map(|status| place(Some(status), 0, WORD));
        let ranges = work.reads.iter().map(|read| place(Some(read.memory), read.offset, read.byte_len));
        let ranges: Vec<_> = ranges.collect();
        let copy = (end > 0).then(|| self.queue.pool.allocate(Kind::Readback, end)).transpose()?;
        let readback = Readback { copy, trap, times, ranges };
        let is_empty = readback.memories().next().is_none();
        Ok((!is_empty).then_some(readback))
    }

    /// Copies what the host does not map where it is.
    fn fetch(&self, encoder: &mut wgpu::CommandEncoder, work: &Work<'_, Wgpu>, readback: &Readback<'_>) {
        let Some(to) = readback.copy.as_ref().map(Memory::raw) else { return };
        let mut copy = |from: &Memory, offset: usize, byte_len: usize, place: &Place<'_>| {
            let (first, byte_len) = around(offset, byte_len);
            if byte_len > 0 && place.mapped.is_none() {
                let at = (place.offset - (offset - first)) as u64;
                encoder.copy_buffer_to_buffer(from.raw(), first as u64, to, at, byte_len as u64);
            }
        };
        if let (Some(status), Some(place)) = (self.status, &readback.trap) {
            copy(status, 0, WORD, place);
        }
        for (Read { memory, offset, byte_len, .. }, place) in work.reads.iter().zip(&readback.ranges) {
            copy(memory, *offset, *byte_len, place);
        }
        if let (Some(clock), Some(place)) = (self.clock, &readback.times) {
            encoder.resolve_query_set(&clock.queries, 0..2, &clock.resolved, 0);
            encoder.copy_buffer_to_buffer(&clock.resolved, 0, to, place.offset as u64, TIMES_BYTES);
        }
    }

    /// Keeps what was uploaded from, once the host has it again.
    fn keep(&self, staged: Option<Memory>) -> Result<(), BackendError> {
        let Some(staged) = staged else { return Ok(()) };
        let raw = staged.raw().clone();
        self.queue.device.watched("an upload", || {
            raw.map_async(MapMode::Write, .., move |mapped| {
                if mapped.is_ok() {
                    staged.keep();
                }
            });
        })
    }

    /// Takes out what arrived: bytes, times, and the first trap, which is an error.
    fn take<'b>(
        &self,
        readback: &Readback<'_>,
        mapped: &Mapped<'_>,
        reads: &mut [Read<'_, Wgpu>],
        mut kernels: impl Iterator<Item = &'b Kernel>,
    ) -> Result<Option<u64>, BackendError> {
        let words = |place: &Place<'_>, count: usize| {
            let view = mapped.view(readback.memory(place))?;
            let words = view[place.offset..place.offset + count * WORD].chunks_exact(WORD);
            let words = words.map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
            Ok::<Vec<u32>, BackendError>(words.collect())
        };
        let trap = readback.trap.as_ref().map(|place| words(place, 1)).transpose()?;
        if let Some(trap) = trap.map(|words| words[0]).filter(|trap| *trap != 0) {
            // Sequences of several launches have no traps, so there is one kernel that can have recorded it.
            let kernel = kernels.find(|kernel| !kernel.traps.is_empty());
            let found = kernel.and_then(|kernel| kernel.traps.get(!trap as usize));
            let (code, place) = *found.ok_or_else(|| {
                BackendError::other(
                    format!("the device recorded trap {trap:#x}, which the program does not have"),
                    "report it with the program",
                )
            })?;
            return Err(BackendError::Trap { code, place, lane: None });
        }
        for (Read { byte_len, out, .. }, place) in reads.iter_mut().zip(&readback.ranges) {
            if *byte_len > 0 {
                let view = mapped.view(readback.memory(place))?;
                out.extend_from_slice(&view[place.offset..place.offset + *byte_len]);
            }
        }
        let Some(times) = &readback.times else { return Ok(None) };
        let words = words(times, 4)?;
        let ticks = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
        let period = f64::from(self.queue.device.queue.get_timestamp_period());
        Ok(Some((ticks(2).saturating_sub(ticks(0)) as f64 * period) as u64))
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
    /// copied from there; or, if none is, they are where they go, or wgpu has them and writes them before the next submission.
    fn upload(&self, uploads: &[(&Memory, usize, &[u8])]) -> Result<Option<Memory>, BackendError> {
        if self.device.staged.is_none() {
            self.upload_in_place(uploads)?;
            return Ok(None);
        }
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

    /// Writes bytes where they go: nobody else uses what is uploaded to.
    fn upload_in_place(&self, uploads: &[(&Memory, usize, &[u8])]) -> Result<(), BackendError> {
        let some = || uploads.iter().filter(|(.., bytes)| !bytes.is_empty());
        let mapped = Mapped::ask(&self.device, MapMode::Write, some().map(|(memory, ..)| *memory))?;
        self.arrive(&mapped.awaited)?;
        for (memory, offset, bytes) in some() {
            mapped.view_mut(memory)?.slice(*offset..*offset + bytes.len()).copy_from_slice(bytes);
        }
        Ok(())
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
