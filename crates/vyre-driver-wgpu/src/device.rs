//! An open device: what it can do, how its errors reach us, and how it is lost.
//!
//! wgpu reports errors through a handler that runs on the thread whose call caused them, so each thread keeps its own last
//! one. What hangs can neither be stopped nor torn down: wgpu's objects are in [`Kept`], which leaks them once the device
//! is abandoned.

use crate::ID;
use crate::adapter::{self, Adapter, MemoryChoice, WgpuConfig};
use crate::memory::Kind;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use vyre_driver::BackendError;
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

    /// Gives up on a kernel that does not end.
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
