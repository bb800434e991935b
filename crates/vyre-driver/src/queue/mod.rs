//! The whole contract for devices that take work in submissions.
//!
//! A GPU driver knows memory, kernels and queues. [`Queue`] asks it for those alone, and [`QueueBackend`] makes the driver
//! contract of them, once for every such device: admission, resident memory, sequences, pipelines, recovery.
//!
//! Everything that a caller asks for becomes one [`Work`]: clear, upload, launch, repeat, read back, in that order and with
//! one wait at the end. A dispatch of host bytes, a sequence of resident steps and a plain upload differ only in what
//! their work contains.
//!
//! Not here: what runs on the host itself. It reads its caller's bytes where they lie, and so has no use for a queue.

mod backend;
mod pending;
mod run;

pub use backend::QueueBackend;
pub use pending::in_background;

use crate::config::DispatchConfig;
use crate::error::BackendError;
use crate::profile::DeviceProfile;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vyre_foundation::launch::Admission;
use vyre_foundation::validate::ValidProgram;

/// A device that takes work in submissions. Any thread may call any method at any time.
pub trait Queue: Send + Sync + Sized + 'static {
    /// Memory on the device. Dropping it frees it once nothing submitted uses it.
    type Memory: Send + Sync + 'static;
    /// A compiled program.
    type Kernel: Send + Sync + 'static;

    /// What the device is. It stays the same for as long as the device is open.
    fn about(&self) -> About;

    /// Memory that holds anything.
    fn allocate(&self, byte_len: usize) -> Result<Self::Memory, BackendError>;

    /// Compiles a program. If `stoppable`, a launch of it can be ended while it runs.
    fn compile(&self, program: &ValidProgram, stoppable: bool) -> Result<Self::Kernel, BackendError>;

    /// Does the work, in order, and returns when all of it is done. A trap in a launch is an error, and so are `stop`'s
    /// reasons to end.
    fn submit(&self, work: Work<'_, Self>, stop: &Stop<'_>) -> Result<Times, BackendError>;

    /// How many workgroups can be on the device at once, for programs with grid barriers; zero if it has none.
    fn resident_workgroups(&self, kernel: &Self::Kernel, lanes: u64) -> Result<u64, BackendError>;

    /// Counters of the device's own, by name.
    fn metrics(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What else there is to say of the device, for people: a word for what, and the text.
    fn notes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Whether an earlier failure left the device unusable.
    fn is_lost(&self) -> bool;

    /// Makes the device unusable, as a driver's reset would.
    fn lose(&self);

    /// Opens the same device anew.
    fn reopen(&self) -> Result<Self, BackendError>;
}

/// What a device says of itself.
#[derive(Clone, Debug)]
pub struct About {
    /// The backend's id.
    pub id: &'static str,
    /// The backend's version.
    pub version: &'static str,
    /// The device's name.
    pub device: String,
    /// The driver's name and version.
    pub driver: String,
    /// Features and limits.
    pub profile: DeviceProfile,
    /// Workgroups along one axis of a grid.
    pub workgroups_max: u32,
    /// Whether transfers overlap with launches of other dispatches.
    pub async_compute: bool,
    /// Whether grid barriers are native.
    pub grid_sync: bool,
}

/// What a device is to do, in the order of the fields. Nobody else uses what it clears, uploads to or lets launches write until
/// all of it is done; what it only reads others may read meanwhile.
pub struct Work<'a, Q: Queue> {
    /// Memory that is set to zero. Nothing is uploaded to it.
    pub clears: Vec<&'a Q::Memory>,
    /// Bytes that go to memory, at an offset.
    pub uploads: Vec<(&'a Q::Memory, usize, &'a [u8])>,
    /// Launches, one after the other: each sees what those before it wrote.
    pub launches: Vec<Launch<'a, Q>>,
    /// Launches that are repeated as a whole.
    pub repeated: Vec<Launch<'a, Q>>,
    /// How often.
    pub repeat_count: u32,
    /// Whether someone wants to know the time on the device's clock. Where that costs nothing it may be told anyway.
    pub timed: bool,
    /// Ranges that are read back.
    pub reads: Vec<Read<'a, Q>>,
}

/// A range that is read back.
pub struct Read<'a, Q: Queue> {
    /// Where from.
    pub memory: &'a Q::Memory,
    /// Where the range begins, in bytes.
    pub offset: usize,
    /// How long it is.
    pub byte_len: usize,
    /// Where to: empty, and with room for them, so that nothing need be written twice.
    pub out: &'a mut Vec<u8>,
}

impl<Q: Queue> Work<'_, Q> {
    /// Nothing to do.
    #[must_use]
    pub fn none() -> Self {
        Work {
            clears: Vec::new(),
            uploads: Vec::new(),
            launches: Vec::new(),
            repeated: Vec::new(),
            repeat_count: 0,
            timed: false,
            reads: Vec::new(),
        }
    }
}

/// One launch of a kernel. Its grid has no zeros.
pub struct Launch<'a, Q: Queue> {
    /// What runs.
    pub kernel: Arc<Q::Kernel>,
    /// The program that the kernel was compiled from, its grid, and the sizes of its buffers.
    pub admission: &'a Admission,
    /// The bound buffers by ascending binding.
    pub buffers: Vec<&'a Q::Memory>,
}

/// The times of a submission.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// The launches, on the device's clock.
    pub device_ns: Option<u64>,
    /// Until everything was handed over.
    pub enqueue: Duration,
}

/// What may end a submission early.
pub struct Stop<'a> {
    config: Option<&'a DispatchConfig>,
    deadline: Option<Instant>,
}

impl<'a> Stop<'a> {
    /// The wishes of a dispatch that began at `start`.
    #[must_use]
    pub fn new(config: &'a DispatchConfig, start: Instant) -> Stop<'a> {
        // A limit beyond what the clock can count is none.
        let deadline = config.timeout.and_then(|limit| start.checked_add(limit));
        Stop { config: Some(config), deadline }
    }

    /// Nothing does.
    #[must_use]
    pub const fn never() -> Stop<'a> {
        Stop { config: None, deadline: None }
    }

    /// Whether anything may.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.deadline.is_some() || self.config.is_some_and(|config| config.cancel.is_some())
    }

    /// Why the work should end now, if it should.
    #[must_use]
    pub fn reason(&self) -> Option<BackendError> {
        let config = self.config?;
        if config.cancel.as_ref().is_some_and(crate::CancelToken::is_cancelled) {
            return Some(BackendError::Cancelled);
        }
        let limit = config.timeout?;
        self.deadline.filter(|deadline| Instant::now() >= *deadline).map(|_| BackendError::Timeout { limit })
    }
}
