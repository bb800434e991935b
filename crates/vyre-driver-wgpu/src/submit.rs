//! Does the work that the driver layer hands over: one encoder, one submission, one wait.
//!
//! What a launch needs beside its buffers is made once and kept: the launch words by their contents, bind groups by the
//! launch and its buffers. So the same dispatch again prepares nothing.

use crate::ID;
use crate::adapter::{ShaderChoice, WgpuConfig, adapters, unavailable};
use crate::device::{Device, Kept};
use crate::kernel::{self, Kernel, Shaders};
use crate::memory::{Kind, Memory, Pool};
use crate::probe::{self, Verdict};
use crate::run::Submission;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vyre_driver::pipeline::DiskCache;
use vyre_driver::queue::{About, Launch, Queue, Stop, Times, Work};
use vyre_driver::{BackendError, DeviceProfile, DeviceTimingQuality};
use vyre_foundation::ir::DataType;
use vyre_foundation::limits;
use vyre_foundation::validate::ValidProgram;
use vyre_lower::bindings::STATUS_WORDS;
use vyre_lower::floats::{FloatOp, Floats, How};
use vyre_lower::spirv;
use wgpu::{BufferUsages, Features};

/// How long a kernel that should end may still take to end by itself: there is no way to stop one, and some drivers compile
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
const CACHE_BYTES_MAX: u64 = 256 << 20;
/// Bytes of two timestamps, and where a query set may be resolved to.
pub(crate) const TIMES_BYTES: u64 = 16;

/// A device behind wgpu that takes work.
pub struct Wgpu {
    pub(crate) device: Arc<Device>,
    pub(crate) pool: Arc<Pool>,
    /// Clocks that no submission uses now.
    clocks: Mutex<Vec<Clock>>,
    words: Mutex<WordsKept>,
    bound: Mutex<FxHashMap<Vec<u64>, Arc<Bound>>>,
    verdict: Verdict,
    pub(crate) cache: Option<DiskCache>,
    pub(crate) config: WgpuConfig,
}

/// What a launch binds.
pub(crate) struct Bound {
    /// A bind group for each piece of the grid.
    groups: Vec<Kept<wgpu::BindGroup>>,
    words: Arc<Words>,
}

impl Bound {
    /// The pieces of the grid: the bind group of each, and its workgroups.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (&wgpu::BindGroup, [u32; 3])> {
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
struct WordsKept {
    all: FxHashMap<Vec<u32>, Arc<Words>>,
    buffer: Option<Arc<Kept<wgpu::Buffer>>>,
    used_bytes: u64,
}

/// What measures a submission.
pub(crate) struct Clock {
    pub(crate) queries: Kept<wgpu::QuerySet>,
    pub(crate) resolved: Kept<wgpu::Buffer>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while a lock is held half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wgpu {
    /// Opens the device that is asked for.
    pub fn open(config: &WgpuConfig) -> Result<Wgpu, BackendError> {
        let device = Arc::new(Device::open(config)?);
        let cache = config.cache.as_ref().and_then(|dir| match DiskCache::open(dir, CACHE_BYTES_MAX) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(%error, dir = %dir.display(), "kernels are not kept on disk. Fix: set VYRE_CACHE to a folder that you may write to");
                None
            }
        });
        let features = opened_features(&device);
        let mut opened = Wgpu {
            pool: Pool::new(Arc::clone(&device)),
            clocks: Mutex::default(),
            words: Mutex::default(),
            bound: Mutex::default(),
            device,
            verdict: Verdict { shaders: Shaders::Wgsl(Floats::SOFT), rejected: Vec::new() },
            cache,
            config: config.clone(),
        };
        opened.verdict = opened.decide(features)?;
        Ok(opened)
    }

    /// How SPIR-V for the device is made, and the lanes of its subgroups, if it gets SPIR-V: for comparisons with other
    /// ways to run the same shader.
    #[must_use]
    pub fn emission(&self) -> Option<(spirv::Options, u32)> {
        match self.verdict.shaders {
            Shaders::Wgsl(_) => None,
            Shaders::SpirV(options, lanes) => Some((options, lanes)),
        }
    }

    fn decide(&self, features: Result<spirv::Features, &'static str>) -> Result<Verdict, BackendError> {
        let refused = |reasons: String| {
            let fix = "unset VYRE_WGPU_SHADERS, or choose another device with VYRE_WGPU_ADAPTER";
            unavailable(format!("{} has no exact SPIR-V: {reasons}", self.device.adapter), fix)
        };
        match self.config.shaders {
            ShaderChoice::Fastest => probe::verdict(self, features),
            ShaderChoice::Wgsl => probe::verdict(self, Err("WGSL is asked for")),
            ShaderChoice::Integers => probe::verdict(self, Err("WGSL of integers is asked for")),
            ShaderChoice::SpirV | ShaderChoice::Volatile => {
                let found = probe::verdict(self, features)?;
                match found.shaders {
                    Shaders::Wgsl(_) => Err(refused(found.rejected.join("; "))),
                    Shaders::SpirV(..) => Ok(found),
                }
            }
            ShaderChoice::Loose => {
                let features = features.map_err(|reason| refused(reason.to_owned()))?;
                let options = spirv::Options { features, floats: Floats::LOOSE, is_volatile: false };
                let shaders = Shaders::SpirV(options, self.device.subgroup_lanes);
                Ok(Verdict { shaders, rejected: Vec::new() })
            }
        }
    }

    /// Compiles a program with shaders made in that way.
    pub(crate) fn compile_as(
        &self,
        program: &ValidProgram,
        shaders: &Shaders,
    ) -> Result<Kernel, BackendError> {
        kernel::compile(&self.device, self.cache.as_ref(), program, shaders)
    }

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
    pub(crate) fn bound(
        &self,
        launch: &Launch<'_, Wgpu>,
        status: Option<&Memory>,
    ) -> Result<Arc<Bound>, BackendError> {
        let status = status.filter(|_| launch.kernel.bindings.has_status);
        // Ids of memory are behind the four words of the launch, each second word.
        let mut key = Vec::with_capacity(4 + 2 * launch.buffers.len() + 1);
        key.push(launch.kernel.id);
        key.extend(launch.admission.grid.map(u64::from));
        let byte_lens = launch.admission.bindings.iter().map(|binding| binding.byte_len as u64);
        key.extend(launch.buffers.iter().zip(byte_lens).flat_map(|(memory, len)| [memory.buffer().id, len]));
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
        let memories = launch.buffers.iter().map(|memory| memory.raw());
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

    fn clock(&self) -> Result<Option<Clock>, BackendError> {
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
    pub(crate) fn arrive(&self, awaited: &AtomicUsize) -> Result<(), BackendError> {
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
    pub(crate) fn wait(
        &self,
        index: &wgpu::SubmissionIndex,
        awaited: Option<&Arc<AtomicUsize>>,
        stop: &Stop<'_>,
    ) -> Result<(), BackendError> {
        if self.ends_soon(awaited)? {
            return stop.reason().map_or(Ok(()), Err);
        }
        if !stop.is_possible() {
            self.device.wait(index)?;
            return awaited.map_or(Ok(()), |awaited| self.arrive(awaited));
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

/// What SPIR-V may use here, or why the driver does not get any.
fn opened_features(device: &Device) -> Result<spirv::Features, &'static str> {
    let has = |feature| device.has(feature);
    if device.adapter.api != "vulkan" {
        return Err("it is for Vulkan drivers");
    }
    if !has(Features::PASSTHROUGH_SHADERS) {
        return Err("wgpu does not offer to pass it to this driver (PASSTHROUGH_SHADERS)");
    }
    Ok(spirv::Features {
        int64: has(Features::SHADER_INT64),
        int64_atomics: has(Features::SHADER_INT64_ATOMIC_ALL_OPS),
        float64: has(Features::SHADER_F64),
        storage16: has(Features::SHADER_F16),
    })
}

/// How floats are made, for people.
fn describe(shaders: &Shaders) -> String {
    let (floats, language, has_f64) = match shaders {
        Shaders::Wgsl(floats) => (floats, "WGSL", false),
        Shaders::SpirV(spirv::Options { floats, is_volatile: false, features }, _) => {
            (floats, "SPIR-V", features.float64)
        }
        Shaders::SpirV(spirv::Options { floats, features, .. }, _) => {
            (floats, "SPIR-V, memory volatile", features.float64)
        }
    };
    if *floats == Floats::LOOSE {
        return "as the device has them, which is not exact".to_owned();
    }
    let of = |ty: DataType| {
        let how = |op: FloatOp| {
            let how = Some(floats.how(ty, op)).filter(|how| *how != How::Native)?;
            Some(format!("{op:?} {how}").to_lowercase())
        };
        let others: Vec<String> = FloatOp::ALL.into_iter().filter_map(how).collect();
        match others.len() {
            0 => format!("{ty} native"),
            _ if ty == DataType::F64 && !has_f64 => format!("{ty} as integers"),
            count if count == FloatOp::ALL.len() => format!("{ty} as integers"),
            _ => format!("{ty} native but {}", others.join(", ")),
        }
    };
    format!("{}; {}; in {language}, probed", of(DataType::F32), of(DataType::F64))
}

/// The pieces of a grid that one launch takes: the first workgroup of each, and how many it has.
fn cut(grid: [u32; 3], axis_max: u32) -> impl Iterator<Item = ([u32; 3], [u32; 3])> {
    let steps = move |axis: usize| (0..grid[axis]).step_by(axis_max as usize);
    let firsts = steps(2).flat_map(move |z| steps(1).flat_map(move |y| steps(0).map(move |x| [x, y, z])));
    firsts.map(move |first| (first, [0, 1, 2].map(|axis| (grid[axis] - first[axis]).min(axis_max))))
}

impl Queue for Wgpu {
    type Memory = Memory;
    type Kernel = Kernel;

    fn about(&self) -> About {
        let limits = &self.device.limits;
        let axes = [
            limits.max_compute_workgroup_size_x,
            limits.max_compute_workgroup_size_y,
            limits.max_compute_workgroup_size_z,
        ];
        let axes = [0, 1, 2].map(|axis| axes[axis].min(limits::WORKGROUP_AXIS_MAX[axis]));
        let lanes = limits.max_compute_invocations_per_workgroup.min(limits::WORKGROUP_LANES_MAX);
        let timestamps = self.device.has(Features::TIMESTAMP_QUERY);
        let subgroup_size = self.emission().map_or(0, |(_, lanes)| lanes);
        About {
            id: ID,
            version: env!("CARGO_PKG_VERSION"),
            device: self.device.adapter.name.clone(),
            driver: format!("{} ({})", self.device.adapter.driver, self.device.adapter.api),
            workgroups_max: i32::MAX as u32,
            async_compute: true,
            grid_sync: false,
            profile: DeviceProfile {
                supports_indirect_dispatch: true,
                supports_trap_propagation: true,
                has_shared_memory: true,
                supports_subgroup_ops: subgroup_size > 0,
                has_subgroup_shuffle: subgroup_size > 0,
                subgroup_size,
                max_workgroup_size: axes,
                max_invocations_per_workgroup: lanes,
                // Exchanges between lanes may take two words of each and two more, which a kernel's compilation asks for.
                max_shared_memory_bytes: limits.max_compute_workgroup_storage_size,
                max_storage_buffer_binding_size: limits
                    .max_storage_buffer_binding_size
                    .min(limits.max_buffer_size)
                    & !3,
                timing_quality: match timestamps {
                    true => DeviceTimingQuality::DeviceEvents,
                    false => DeviceTimingQuality::HostOnly,
                },
                supports_device_timestamps: timestamps,
                ..DeviceProfile::unknown(ID)
            },
        }
    }

    fn allocate(&self, byte_len: usize) -> Result<Memory, BackendError> {
        self.device.check()?;
        self.pool.allocate(Kind::Storage, byte_len)
    }

    fn compile(&self, program: &ValidProgram, _: bool) -> Result<Kernel, BackendError> {
        self.compile_as(program, &self.verdict.shaders)
    }

    fn submit(&self, work: Work<'_, Wgpu>, stop: &Stop<'_>) -> Result<Times, BackendError> {
        if let Some(reason) = stop.reason() {
            return Err(reason);
        }
        self.device.check()?;
        let start = Instant::now();
        let has_status = work.launches.iter().chain(&work.repeated).any(|one| one.kernel.bindings.has_status);
        let status = has_status.then(|| self.pool.allocate(Kind::Storage, STATUS_WORDS as usize * 4));
        let status = status.transpose()?;
        let launches = work.launches.len() + work.repeated.len();
        // Timestamps cost a readback of their own.
        let clock = if work.timed && launches > 0 { self.clock()? } else { None };
        let result =
            Submission { queue: self, status: status.as_ref(), clock: clock.as_ref(), start }.run(work, stop);
        // What did not end is abandoned with the device; all else has been waited for.
        lock(&self.clocks).extend(clock);
        result
    }

    /// One workgroup is alone, so its own barrier does; nothing promises that two run at the same time.
    fn resident_workgroups(&self, _: &Kernel, _: u64) -> Result<u64, BackendError> {
        Ok(1)
    }

    fn notes(&self) -> Vec<(&'static str, String)> {
        let listed = adapters().into_iter().enumerate();
        let listed = listed.map(|(number, adapter)| {
            let used = if adapter == self.device.adapter { ", in use" } else { "" };
            format!("{number}: {adapter}{used}")
        });
        let mut notes = vec![
            ("adapters", listed.collect::<Vec<_>>().join("\n")),
            ("floats", describe(&self.verdict.shaders)),
            (
                "memory",
                match self.device.staged {
                    None => "mapped by the host".to_owned(),
                    Some(reason) => format!("staged: {reason}"),
                },
            ),
        ];
        if !self.verdict.rejected.is_empty() {
            notes.push(("rejected", self.verdict.rejected.join("\n")));
        }
        notes
    }

    fn is_lost(&self) -> bool {
        self.device.is_lost()
    }

    fn lose(&self) {
        self.device.lose("it was given up on purpose");
    }

    fn reopen(&self) -> Result<Wgpu, BackendError> {
        Wgpu::open(&self.config)
    }
}
