//! The whole contract for devices that take work in submissions.
//!
//! A driver knows memory, kernels and queues. [`Queue`] asks it for those alone, and [`QueueBackend`] makes the driver
//! contract of them, once for every device: admission, resident memory, sequences, pipelines, recovery.
//!
//! Everything that a caller asks for becomes one [`Work`]: clear, upload, launch, repeat, read back, in that order and with
//! one wait at the end. A dispatch of host bytes, a sequence of resident steps and a plain upload differ only in what
//! their work contains. A device that works in the host's memory ([`Queue::IN_PLACE`]) gets the caller's bytes as operands of
//! the launch, so nothing is uploaded or read back.

mod backend;
mod pending;
mod run;

pub use backend::QueueBackend;

use crate::config::{CancelToken, DispatchConfig};
use crate::error::BackendError;
use crate::profile::DeviceProfile;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vyre_foundation::launch::Admission;
use vyre_foundation::validate::ValidProgram;

/// A device that takes work in submissions. Any thread may call any method at any time.
pub trait Queue: Send + Sync + Sized + 'static {
    /// Memory on the device. Dropping it frees it once nothing submitted uses it.
    type Memory: Send + Sync + 'static;
    /// A compiled program. It holds its machine code, so that nothing compiles it again.
    type Kernel: Send + Sync + 'static;

    /// Whether launches run in the host's memory. Then they get host bytes where they are: see [`Operand`].
    const IN_PLACE: bool = false;

    /// What the device is. It stays the same for as long as the device is open.
    fn about(&self) -> About;

    /// Memory that holds anything.
    fn allocate(&self, byte_len: usize) -> Result<Self::Memory, BackendError>;

    /// Memory that holds zeros.
    fn allocate_zeroed(&self, byte_len: usize) -> Result<Self::Memory, BackendError> {
        let memory = self.allocate(byte_len)?;
        let mut work = Work::none();
        work.clears.push(&memory);
        self.submit(work, &Stop::never())?;
        Ok(memory)
    }

    /// Zeros in the host's memory, for what launches in place write.
    fn zeroed(&self, byte_len: usize) -> Result<Vec<u8>, BackendError> {
        let mut bytes = Vec::new();
        run::make_room(&mut bytes, byte_len, "a buffer")?;
        bytes.resize(byte_len, 0);
        Ok(bytes)
    }

    /// Compiles a program. A launch of it can be ended while it runs if `stop` has a reason to, and so may the compilation.
    fn compile(&self, program: &ValidProgram, stop: &Stop) -> Result<Self::Kernel, BackendError>;

    /// Does the work, in order, and returns when all of it is done. A trap in a launch is an error, and so are `stop`'s
    /// reasons to end.
    fn submit(&self, work: Work<'_, Self>, stop: &Stop) -> Result<Times, BackendError>;

    /// How many workgroups can be on the device at once, for programs with grid barriers; zero without grid barriers.
    fn resident_workgroups(&self, kernel: &Self::Kernel, lanes: u64) -> Result<u64, BackendError>;

    /// Runs a task on a thread that nothing waits for.
    fn spawn(&self, task: Task) -> Result<(), BackendError> {
        let thread = std::thread::Builder::new().name("vyre-dispatch".to_owned());
        thread.spawn(task).map(drop).map_err(|error| BackendError::OutOfMemory {
            what: format!("a thread ({error})"),
            requested_bytes: 0,
        })
    }

    /// Counters of the device's own, by name.
    fn metrics(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Further facts about the device for people: a name for each, and its text.
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

/// Something that a thread does later.
pub type Task = Box<dyn FnOnce() + Send>;

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
    /// Workgroups that can be on the device at once, whatever the kernel: a program with grid barriers and a larger grid is
    /// split without being compiled as a whole.
    pub resident_workgroups_max: u64,
    /// Whether a kernel that can be stopped is another one than the kernel that runs to its end.
    pub stoppable_apart: bool,
}

/// What a device is to do, in the order of the fields. Until all of it is done, no other
/// work uses what this one clears, uploads to or lets launches write; what it only reads others may read meanwhile.
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
    /// Whether the caller wants the time on the device's clock. Where that costs nothing it may be reported anyway.
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
    pub buffers: Vec<Operand<'a, Q>>,
}

impl<'a, Q: Queue> Launch<'a, Q> {
    /// The bound buffers of a device that does not run in place.
    pub fn memories(&self) -> impl ExactSizeIterator<Item = &'a Q::Memory> {
        self.buffers.iter().map(|operand| match operand {
            Operand::Memory(memory) => *memory,
            Operand::Read(_) | Operand::Write(_) => unreachable!("only for devices with `Queue::IN_PLACE`"),
        })
    }
}

/// A buffer that a launch binds.
pub enum Operand<'a, Q: Queue> {
    /// Memory of the device.
    Memory(&'a Q::Memory),
    /// The caller's bytes, which the program only reads. For devices with [`Queue::IN_PLACE`].
    Read(&'a [u8]),
    /// Bytes of the dispatch, which the program may write. For devices with [`Queue::IN_PLACE`].
    Write(&'a [Cell<u8>]),
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
#[derive(Clone, Debug, Default)]
pub struct Stop {
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    cancel: Option<CancelToken>,
}

impl Stop {
    /// The limits of a dispatch that began at `start`.
    #[must_use]
    pub fn new(config: &DispatchConfig, start: Instant) -> Stop {
        let DispatchConfig { timeout, cancel, .. } = config;
        // A limit beyond what the clock can count is none.
        let deadline = timeout.and_then(|limit| start.checked_add(limit));
        Stop { timeout: *timeout, deadline, cancel: cancel.clone() }
    }

    /// Nothing does.
    #[must_use]
    pub const fn never() -> Stop {
        Stop { timeout: None, deadline: None, cancel: None }
    }

    /// Whether anything may.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.deadline.is_some() || self.cancel.is_some()
    }

    /// Whether time may.
    #[must_use]
    pub fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// Why the work should end now, if it should.
    #[must_use]
    pub fn reason(&self) -> Option<BackendError> {
        if self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return Some(BackendError::Cancelled);
        }
        let limit = self.timeout?;
        self.deadline.filter(|deadline| Instant::now() >= *deadline).map(|_| BackendError::Timeout { limit })
    }
}
