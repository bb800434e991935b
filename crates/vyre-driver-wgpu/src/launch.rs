//! One submission, from its encoder to its bytes: one encoder, one submission, one wait.
//!
//! What a launch needs beside its buffers is made once and kept: the launch words by their contents, bind groups by the
//! launch and its buffers. So the same dispatch again prepares nothing.

use crate::compile::Kernel;
use crate::device::{Kept, Wgpu};
use crate::memory::{Kind, Mapped, Memory};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vyre_driver::BackendError;
use vyre_driver::queue::{Launch, Read, Stop, Times, Work};
use wgpu::{BufferUsages, Features, MapMode};

/// How long a kernel that should end may still take to end by itself: one cannot be stopped, and some drivers compile
/// it only now.
const GRACE: Duration = Duration::from_secs(10);
/// Between looks at a device whose work someone may want to end.
const PAUSE_MIN: Duration = Duration::from_micros(10);
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// How long to look again and again at a device before sleeping: to be woken takes as long as a small dispatch. A software
/// device computes on the core that this would take.
const SPIN: Duration = Duration::from_micros(100);
/// Launches whose bind groups are kept.
const KEPT_MAX: usize = 1024;
/// Launch words that are kept, those of a thousand launches or so.
const WORDS_BYTES: u64 = 256 << 10;
/// Launches in one command buffer. More go in several, each waited for.
const LAUNCHES_MAX: usize = 4096;
/// Uploads of so many bytes at most go through memory that is kept for that. For more, wgpu allocates each time.
const STAGED_BYTES_MAX: usize = 256 << 20;
/// Copies go by whole words.
const WORD: usize = 4;

/// Bytes of two timestamps, and where a query set may be resolved to.
const TIMES_BYTES: u64 = 16;

/// What a launch binds.
pub(crate) struct Bound {
    /// A bind group for each piece of the grid.
    groups: Vec<Kept<wgpu::BindGroup>>,
    words: Arc<Words>,
}

impl Bound {
    /// The pieces of the grid: the bind group of each, and its workgroups.
    fn pieces(&self) -> impl Iterator<Item = (&wgpu::BindGroup, [u32; 3])> {
        self.groups.iter().map(|group| &**group).zip(self.words.pieces.iter().copied())
    }
}

/// The launch words of a launch, those of one piece behind those of the other.
struct Words {
    buffer: Arc<Kept<wgpu::Buffer>>,
    /// Where those of the first piece are.
    offset: u64,
    byte_len: u64,
    /// The first words of each piece lie so far apart.
    stride: u64,
    /// Workgroups of each piece.
    pieces: Vec<[u32; 3]>,
}

/// The launch words that are kept, by those of the first piece. Many share a buffer: what wgpu does for each pass grows with
/// the number of buffers that the device has.
#[derive(Default)]
pub(crate) struct WordsKept {
    all: FxHashMap<Vec<u32>, Arc<Words>>,
    buffer: Option<Arc<Kept<wgpu::Buffer>>>,
    used_bytes: u64,
}

/// What measures a submission.
pub(crate) struct Clock {
    pub(crate) queries: Kept<wgpu::QuerySet>,
    pub(crate) resolved: Kept<wgpu::Buffer>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while a lock is held half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    pub(crate) fn run(&self, mut work: Work<'a, Wgpu>, stop: &Stop) -> Result<Times, BackendError> {
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
        let bound = launches.flat_map(|launch| launch.memories().zip(&launch.kernel.bindings.buffers));
        let written = bound.filter(|(_, (_, writable))| *writable).map(|(memory, _)| memory);
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

/// Whole words of their own: what is behind the end of memory is not used.
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

    /// Writes bytes where they go: no other work uses what is uploaded to.
    fn upload_in_place(&self, uploads: &[(&Memory, usize, &[u8])]) -> Result<(), BackendError> {
        let some = || uploads.iter().filter(|(.., bytes)| !bytes.is_empty());
        let mapped = Mapped::ask(&self.device, MapMode::Write, some().map(|(memory, ..)| *memory))?;
        self.await_mapping(&mapped.awaited)?;
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

impl Wgpu {
    /// The launch words of a launch, kept or made now.
    fn words(&self, launch: &Launch<'_, Wgpu>) -> Result<Arc<Words>, BackendError> {
        let elements: Vec<u32> = launch.admission.bound_lens().collect();
        let key = launch.kernel.bindings.launch_words(launch.admission.grid, [0; 3], &elements);
        let mut kept = lock(&self.words);
        if let Some(words) = kept.all.get(&key) {
            return Ok(Arc::clone(words));
        }
        let words = Arc::new(self.new_words(launch, &elements, &mut kept)?);
        kept.all.insert(key, Arc::clone(&words));
        Ok(words)
    }

    fn new_words(
        &self,
        launch: &Launch<'_, Wgpu>,
        elements: &[u32],
        kept: &mut WordsKept,
    ) -> Result<Words, BackendError> {
        let bindings = &launch.kernel.bindings;
        let byte_len = bindings.launch_vectors() as u64 * 16;
        let stride =
            byte_len.next_multiple_of(u64::from(self.device.limits.min_uniform_buffer_offset_alignment));
        let (mut pieces, mut bytes) = (Vec::new(), Vec::new());
        for (first, piece) in
            cut(launch.admission.grid, self.device.limits.max_compute_workgroups_per_dimension)
        {
            let words = bindings.launch_words(launch.admission.grid, first, elements);
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            pieces.push(piece);
            bytes.resize(pieces.len() * stride as usize, 0);
        }
        let used_bytes = bytes.len() as u64;
        let room = kept.buffer.take().filter(|buffer| kept.used_bytes + used_bytes <= buffer.size());
        let buffer = match room {
            Some(buffer) => buffer,
            None => {
                // What is bound still has the one before.
                (kept.all, kept.used_bytes) = (FxHashMap::default(), 0);
                let wanted = wgpu::BufferDescriptor {
                    label: None,
                    size: used_bytes.max(WORDS_BYTES),
                    usage: BufferUsages::UNIFORM | BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                };
                let made = self.device.watched("launch words", || self.device.raw.create_buffer(&wanted))?;
                Arc::new(self.device.kept(made))
            }
        };
        let offset = kept.used_bytes;
        self.device.watched("launch words", || self.device.queue.write_buffer(&buffer, offset, &bytes))?;
        kept.used_bytes += used_bytes;
        kept.buffer = Some(Arc::clone(&buffer));
        Ok(Words { buffer, offset, byte_len, stride, pieces })
    }

    /// What a launch binds, kept or made now.
    fn bound(&self, launch: &Launch<'_, Wgpu>, status: Option<&Memory>) -> Result<Arc<Bound>, BackendError> {
        let status = status.filter(|_| launch.kernel.bindings.has_status);
        // Ids of memory are behind the four words of the launch, each second word.
        let mut key = Vec::with_capacity(4 + 2 * launch.buffers.len() + 1);
        key.push(launch.kernel.id);
        key.extend(launch.admission.grid.map(u64::from));
        let byte_lens = launch.admission.bindings.iter().map(|binding| binding.byte_len as u64);
        key.extend(launch.memories().zip(byte_lens).flat_map(|(memory, len)| [memory.buffer().id, len]));
        key.extend(status.map(|status| status.buffer().id));
        let mut kept = lock(&self.bound);
        let gone = self.pool.gone();
        if !gone.is_empty() {
            kept.retain(|key, _| !key[4..].iter().step_by(2).any(|id| gone.contains(id)));
        }
        if let Some(bound) = kept.get(&key) {
            return Ok(Arc::clone(bound));
        }
        let words = self.words(launch)?;
        let groups = (0..words.pieces.len()).map(|piece| self.group(launch, &words, piece, status));
        let bound = Arc::new(Bound { groups: groups.collect::<Result<_, _>>()?, words });
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&bound));
        Ok(bound)
    }

    fn group(
        &self,
        launch: &Launch<'_, Wgpu>,
        words: &Words,
        piece: usize,
        status: Option<&Memory>,
    ) -> Result<Kept<wgpu::BindGroup>, BackendError> {
        let launch_words = wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: &words.buffer,
            offset: words.offset + piece as u64 * words.stride,
            size: wgpu::BufferSize::new(words.byte_len),
        });
        let memories = launch.memories().map(Memory::raw);
        let others = status.map(Memory::raw).into_iter().chain(launch.kernel.tables.as_deref());
        let whole = wgpu::Buffer::as_entire_binding;
        let resources = memories.map(whole).chain([launch_words]).chain(others.map(whole));
        let entry = |(binding, resource)| wgpu::BindGroupEntry { binding: binding as u32, resource };
        let entries: Vec<_> = resources.enumerate().map(entry).collect();
        let layout = &launch.kernel.layout;
        let wanted = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        let group = self.device.watched("a bind group", || self.device.raw.create_bind_group(&wanted))?;
        Ok(self.device.kept(group))
    }

    pub(crate) fn clock(&self) -> Result<Option<Clock>, BackendError> {
        if !self.device.has(Features::TIMESTAMP_QUERY) {
            return Ok(None);
        }
        if let Some(clock) = lock(&self.clocks).pop() {
            return Ok(Some(clock));
        }
        let (queries, resolved) = self.device.watched("timestamps", || {
            let queries = self.device.raw.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            });
            let resolved = self.device.raw.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: TIMES_BYTES,
                usage: BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            });
            (queries, resolved)
        })?;
        Ok(Some(Clock { queries: self.device.kept(queries), resolved: self.device.kept(resolved) }))
    }

    /// Looks at a submission for a moment, and says whether it has ended.
    fn ends_soon(&self, awaited: Option<&Arc<AtomicUsize>>) -> Result<bool, BackendError> {
        let start = Instant::now();
        while !self.device.adapter.is_software && start.elapsed() < SPIN {
            let is_idle = self.device.look()?;
            if awaited.map_or(is_idle, |awaited| awaited.load(Ordering::Acquire) == 0) {
                return Ok(true);
            }
            // A look takes locks that other threads submit under.
            (0..16).for_each(|_| std::hint::spin_loop());
        }
        Ok(false)
    }

    /// Waits for the host to get memory that nothing on the device uses.
    fn await_mapping(&self, awaited: &AtomicUsize) -> Result<(), BackendError> {
        while awaited.load(Ordering::Acquire) > 0 {
            self.device.look()?;
            // Another thread's look at the device may be the one that calls back.
            if awaited.load(Ordering::Acquire) > 0 {
                std::thread::sleep(PAUSE_MIN);
            }
        }
        Ok(())
    }

    /// Waits for a submission, and for what the host maps of it where something is awaited. What should end and does not is
    /// abandoned.
    fn wait(
        &self,
        index: &wgpu::SubmissionIndex,
        awaited: Option<&Arc<AtomicUsize>>,
        stop: &Stop,
    ) -> Result<(), BackendError> {
        if self.ends_soon(awaited)? {
            return stop.reason().map_or(Ok(()), Err);
        }
        if !stop.is_possible() {
            self.device.wait(index)?;
            return awaited.map_or(Ok(()), |awaited| self.await_mapping(awaited));
        }
        let left = awaited.cloned().unwrap_or_else(|| Arc::new(AtomicUsize::new(1)));
        if awaited.is_none() {
            let left = Arc::clone(&left);
            self.device.watched("a submission", || {
                self.device.queue.on_submitted_work_done(move || left.store(0, Ordering::Release));
            })?;
        }
        let mut stopped: Option<(BackendError, Instant)> = None;
        let mut pause = PAUSE_MIN;
        loop {
            self.device.look()?;
            if left.load(Ordering::Acquire) == 0 {
                // Ended, but perhaps too late.
                return stopped.map(|(reason, _)| reason).or_else(|| stop.reason()).map_or(Ok(()), Err);
            }
            match &stopped {
                None => stopped = stop.reason().map(|reason| (reason, Instant::now())),
                Some((reason, since)) if since.elapsed() > GRACE => {
                    self.device.abandon(&format!("a kernel would not end: {reason}"));
                    return Err(reason.clone());
                }
                Some(_) => {}
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// The pieces of a grid that one launch takes: the first workgroup of each, and how many it has.
fn cut(grid: [u32; 3], axis_max: u32) -> impl Iterator<Item = ([u32; 3], [u32; 3])> {
    let steps = move |axis: usize| (0..grid[axis]).step_by(axis_max as usize);
    let firsts = steps(2).flat_map(move |z| steps(1).flat_map(move |y| steps(0).map(move |x| [x, y, z])));
    firsts.map(move |first| (first, [0, 1, 2].map(|axis| (grid[axis] - first[axis]).min(axis_max))))
}
