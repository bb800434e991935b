//! A device: opening it, what it can do, how its errors reach us, how it is lost, and how it takes the driver layer's work.
//!
//! wgpu reports errors through a handler that runs on the thread whose call caused them, so each thread keeps its own last
//! one. What hangs can neither be stopped nor torn down: wgpu's objects are in [`Kept`], which leaks them once the device
//! is abandoned.

use crate::ID;
use crate::adapter::{self, Adapter, MemoryChoice, ShaderChoice, WgpuConfig, adapters, unavailable};
use crate::compile::{self, Kernel, Shaders};
use crate::launch::{Bound, Clock, Submission, WordsKept, lock};
use crate::memory::{Kind, Memory, Pool};
use crate::probe::{self, Verdict};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use vyre_driver::pipeline::DiskCache;
use vyre_driver::queue::{About, Queue, Stop, Times, Work};
use vyre_driver::{BackendError, DeviceProfile, DeviceTimingQuality};
use vyre_foundation::ir::DataType;
use vyre_foundation::limits;
use vyre_foundation::validate::ValidProgram;
use vyre_lower::bindings::STATUS_WORDS;
use vyre_lower::floats::{FloatOp, Floats, How};
use vyre_lower::spirv;
use wgpu::{DeviceType, Features};

thread_local! {
    static LAST_ERROR: Cell<Option<wgpu::Error>> = const { Cell::new(None) };
}

/// What has become of a device.
#[derive(Default)]
pub(crate) struct State {
    lost: AtomicBool,
    /// Set where a kernel would not end: whatever touches the device again may wait for it.
    abandoned: AtomicBool,
    cause: Mutex<Option<String>>,
}

impl State {
    fn lose(&self, cause: String) {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(cause);
        self.lost.store(true, Ordering::Release);
    }
}

/// Something of wgpu's, which is leaked if its device is abandoned.
pub(crate) struct Kept<T> {
    value: ManuallyDrop<T>,
    state: Arc<State>,
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Kept<T> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if !self.state.abandoned.load(Ordering::Acquire) {
            // SAFETY: it is dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

pub(crate) struct Device {
    pub(crate) queue: Kept<wgpu::Queue>,
    pub(crate) raw: Kept<wgpu::Device>,
    pub(crate) adapter: Adapter,
    pub(crate) limits: wgpu::Limits,
    pub(crate) features: Features,
    /// Why the host does not map storage, if it does not.
    pub(crate) staged: Option<&'static str>,
    /// Lanes of its subgroups, if all have as many; else 0.
    pub(crate) subgroup_lanes: u32,
    state: Arc<State>,
    _instance: Kept<wgpu::Instance>,
}

/// Bytes that the host reads to see how fast it does: few enough for its caches.
const SAMPLE_BYTES: usize = 256 << 10;

/// What is used where a device has it.
const WANTED: [Features; 8] = [
    Features::TIMESTAMP_QUERY,
    Features::PIPELINE_CACHE,
    Features::PASSTHROUGH_SHADERS,
    Features::SHADER_INT64,
    Features::SHADER_INT64_ATOMIC_ALL_OPS,
    Features::SHADER_F64,
    Features::SHADER_F16,
    Features::SUBGROUP,
];

/// Why the host cannot map storage, or should not, if that is so.
fn staged(adapter: &wgpu::Adapter, choice: MemoryChoice) -> Option<&'static str> {
    let is_shared = match adapter.get_info().device_type {
        DeviceType::IntegratedGpu | DeviceType::Cpu => true,
        DeviceType::DiscreteGpu | DeviceType::VirtualGpu | DeviceType::Other => false,
    };
    match choice {
        MemoryChoice::Staged => Some("that is asked for"),
        MemoryChoice::Fastest if !is_shared => Some("the device has its own"),
        MemoryChoice::Fastest if !adapter.features().contains(Features::MAPPABLE_PRIMARY_BUFFERS) => {
            Some("wgpu does not map storage of this driver (MAPPABLE_PRIMARY_BUFFERS)")
        }
        MemoryChoice::Fastest => None,
    }
}

impl Device {
    pub(crate) fn open(config: &WgpuConfig) -> Result<Device, BackendError> {
        let instance = adapter::instance();
        let chosen = adapter::choose(&instance, &config.adapter)?;
        let (offered, limits) = (chosen.features(), chosen.limits());
        let staged = staged(&chosen, config.memory);
        let mapping = if staged.is_none() { Features::MAPPABLE_PRIMARY_BUFFERS } else { Features::empty() };
        let features = mapping | offered & WANTED.into_iter().fold(Features::empty(), |all, one| all | one);
        let wanted = wgpu::DeviceDescriptor {
            label: Some("vyre"),
            required_features: features,
            required_limits: limits.clone(),
            ..wgpu::DeviceDescriptor::default()
        };
        let adapter = Adapter::new(&chosen);
        let info = chosen.get_info();
        let is_fixed =
            features.contains(Features::SUBGROUP) && info.subgroup_min_size == info.subgroup_max_size;
        let subgroup_lanes = if is_fixed { info.subgroup_min_size } else { 0 };
        let (raw, queue) = pollster::block_on(chosen.request_device(&wanted)).map_err(|error| {
            adapter::unavailable(
                format!("{adapter} does not open: {error}"),
                "check the device's driver, or choose another device with VYRE_WGPU_ADAPTER",
            )
        })?;
        let state = Arc::new(State::default());
        raw.on_uncaptured_error(Arc::new(|error| LAST_ERROR.set(Some(error))));
        let seen = Arc::clone(&state);
        raw.set_device_lost_callback(move |_, cause| seen.lose(cause));
        let kept = |value| Kept { value: ManuallyDrop::new(value), state: Arc::clone(&state) };
        let mut device = Device {
            queue: Kept { value: ManuallyDrop::new(queue), state: Arc::clone(&state) },
            raw: Kept { value: ManuallyDrop::new(raw), state: Arc::clone(&state) },
            _instance: kept(instance),
            adapter,
            limits,
            features,
            staged,
            subgroup_lanes,
            state,
        };
        if device.staged.is_none() {
            device.staged = match device.reads_slowly() {
                Ok(false) => None,
                Ok(true) => Some("the host is slow to read what it maps of this driver's storage"),
                Err(_) => Some("storage that the host maps cannot be had from this driver"),
            };
        }
        Ok(device)
    }

    /// Whether the host reads storage that it maps much slower than memory of its own: what wgpu asks drivers for may be outside
    /// its caches.
    fn reads_slowly(&self) -> Result<bool, BackendError> {
        let wanted = wgpu::BufferDescriptor {
            label: None,
            size: SAMPLE_BYTES as u64,
            usage: Kind::Storage.usage(self),
            mapped_at_creation: true,
        };
        let (own, mut copy) = (vec![1; SAMPLE_BYTES], vec![0; SAMPLE_BYTES]);
        let mut fastest = |bytes: &[u8]| {
            let times = (0..8).map(|_| {
                let start = Instant::now();
                copy.copy_from_slice(bytes);
                std::hint::black_box(&mut copy);
                start.elapsed()
            });
            times.min().unwrap_or_default()
        };
        self.watched("storage that the host maps", || {
            let sample = self.raw.create_buffer(&wanted);
            let Ok(view) = sample.get_mapped_range(..) else { return true };
            fastest(&view) > 8 * fastest(&own)
        })
    }

    pub(crate) fn has(&self, feature: Features) -> bool {
        self.features.contains(feature)
    }

    pub(crate) fn kept<T>(&self, value: T) -> Kept<T> {
        Kept { value: ManuallyDrop::new(value), state: Arc::clone(&self.state) }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state.lost.load(Ordering::Acquire)
    }

    pub(crate) fn lose(&self, cause: &str) {
        self.state.lose(cause.to_owned());
    }

    /// Abandons a kernel that does not end.
    pub(crate) fn abandon(&self, cause: &str) {
        self.state.abandoned.store(true, Ordering::Release);
        self.lose(cause);
    }

    pub(crate) fn lost(&self) -> BackendError {
        let cause = self.state.cause.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let cause = cause.filter(|cause| !cause.is_empty());
        BackendError::DeviceLost {
            backend: ID.into(),
            cause: cause.unwrap_or_else(|| "an earlier dispatch failed".into()),
        }
    }

    /// Whether the device can be used.
    pub(crate) fn check(&self) -> Result<(), BackendError> {
        if self.is_lost() { Err(self.lost()) } else { Ok(()) }
    }

    /// Runs calls of wgpu, and makes what they report an error of ours.
    pub(crate) fn watched<T>(&self, what: &str, calls: impl FnOnce() -> T) -> Result<T, BackendError> {
        self.check()?;
        LAST_ERROR.take();
        // wgpu panics where it cannot go on. Nothing of ours is half done then: what the calls made is dropped.
        let result = catch_unwind(AssertUnwindSafe(calls));
        match (result, LAST_ERROR.take()) {
            (Ok(value), None) => Ok(value),
            (_, Some(error)) => Err(self.fault(what, &error)),
            (Err(_), None) => {
                self.lose("wgpu panicked");
                Err(self.lost())
            }
        }
    }

    fn fault(&self, what: &str, error: &wgpu::Error) -> BackendError {
        if self.is_lost() {
            return self.lost();
        }
        match error {
            wgpu::Error::OutOfMemory { .. } => {
                BackendError::OutOfMemory { what: what.into(), requested_bytes: 0 }
            }
            wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
                BackendError::other(
                    format!("wgpu refused {what}: {description}"),
                    "report it with the program, and choose another backend meanwhile",
                )
            }
        }
    }

    /// Waits until a submission has ended, however long that takes. With a time limit wgpu may panic where several threads
    /// wait, so there is none.
    pub(crate) fn wait(&self, index: &wgpu::SubmissionIndex) -> Result<(), BackendError> {
        self.poll(wgpu::PollType::Wait { submission_index: Some(index.clone()), timeout: None }).map(|_| ())
    }

    /// Lets wgpu call back for what has ended by now, and says whether that was everything.
    pub(crate) fn look(&self) -> Result<bool, BackendError> {
        self.poll(wgpu::PollType::Poll)
    }

    fn poll(&self, how: wgpu::PollType) -> Result<bool, BackendError> {
        match self.watched("a submission", || self.raw.poll(how))? {
            Ok(status) => Ok(status.is_queue_empty()),
            Err(error) => {
                self.lose(&error.to_string());
                Err(self.lost())
            }
        }
    }
}

const CACHE_BYTES_MAX: u64 = 256 << 20;

/// A device behind wgpu that takes work.
pub struct Wgpu {
    pub(crate) device: Arc<Device>,
    pub(crate) pool: Arc<Pool>,
    /// Clocks that no submission uses now.
    pub(crate) clocks: Mutex<Vec<Clock>>,
    pub(crate) words: Mutex<WordsKept>,
    pub(crate) bound: Mutex<FxHashMap<Vec<u64>, Arc<Bound>>>,
    verdict: Verdict,
    pub(crate) cache: Option<DiskCache>,
    pub(crate) config: WgpuConfig,
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
    /// runtimes of the same shader.
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

    /// Compiles a program with such shaders.
    pub(crate) fn compile_as(
        &self,
        program: &ValidProgram,
        shaders: &Shaders,
    ) -> Result<Kernel, BackendError> {
        compile::compile(&self.device, self.cache.as_ref(), program, shaders)
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
            // One workgroup is alone, so its own barrier does; nothing promises that two run at the same time.
            resident_workgroups_max: 1,
            stoppable_apart: false,
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

    fn compile(&self, program: &ValidProgram, _: &Stop) -> Result<Kernel, BackendError> {
        self.compile_as(program, &self.verdict.shaders)
    }

    fn submit(&self, work: Work<'_, Wgpu>, stop: &Stop) -> Result<Times, BackendError> {
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
