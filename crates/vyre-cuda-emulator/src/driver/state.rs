//! What the library knows in one process: devices, and tables of everything that has a handle.

use super::capture::Capture;
use super::compiler::Compiler;
use super::context::{Context, Primary};
use super::event::Event;
use super::faults::Hooks;
use super::function::Function;
use super::graph::{Exec, Graph};
use super::link::Link;
use super::module::{Module, Programs};
use super::queue::Stream;
use super::{Call, complain, lock};
use crate::engine::Options;
use crate::fault::{Code, Fault};
use crate::memory::{Block, Budget};
use crate::model::Model;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Handles are numbers of all tables together, so that one of another kind is found in none.
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(0x1_0000);

/// Everything of one kind that has a handle.
pub(super) struct Table<T>(Mutex<HashMap<usize, Arc<T>>>);

impl<T> Table<T> {
    fn new() -> Table<T> {
        Table(Mutex::default())
    }

    /// Puts in what `make` makes of its handle.
    pub(super) fn insert(&self, make: impl FnOnce(usize) -> T) -> Arc<T> {
        let handle = NEXT_HANDLE.fetch_add(16, Ordering::Relaxed);
        let value = Arc::new(make(handle));
        lock(&self.0).insert(handle, Arc::clone(&value));
        value
    }

    pub(super) fn find(&self, handle: usize) -> Option<Arc<T>> {
        lock(&self.0).get(&handle).cloned()
    }

    pub(super) fn get(&self, handle: usize) -> Call<Arc<T>> {
        self.find(handle).ok_or_else(|| unknown(handle))
    }

    pub(super) fn remove(&self, handle: usize) -> Call<Arc<T>> {
        lock(&self.0).remove(&handle).ok_or_else(|| unknown(handle))
    }

    pub(super) fn retain(&self, keep: impl Fn(&T) -> bool) {
        let mut gone = Vec::new();
        lock(&self.0).retain(|_, value| {
            let keeps = keep(value);
            if !keeps {
                gone.push(Arc::clone(value));
            }
            keeps
        });
    }

    pub(super) fn all(&self) -> Vec<Arc<T>> {
        lock(&self.0).values().cloned().collect()
    }
}

fn unknown(handle: usize) -> Fault {
    Fault::new(Code::InvalidHandle, format!("{handle:#x} is no handle of this kind, or was destroyed"))
}

/// A device of the process.
pub(super) struct Device {
    pub(super) ordinal: usize,
    pub(super) model: Model,
    pub(super) budget: Arc<Budget>,
    pub(super) primary: Mutex<Primary>,
}

/// Host memory that the device knows.
#[derive(Clone)]
pub(super) struct Pinned {
    pub(super) byte_len: usize,
    pub(super) flags: u32,
    pub(super) context: usize,
    /// The memory, if it was allocated here; `None` where the caller registered its own.
    pub(super) block: Option<Arc<Block>>,
}

/// What the library knows.
pub(super) struct Driver {
    process: u32,
    pub(super) devices: Vec<Arc<Device>>,
    pub(super) contexts: Table<Context>,
    pub(super) streams: Table<Stream>,
    pub(super) events: Table<Event>,
    pub(super) modules: Table<Module>,
    pub(super) functions: Table<Function>,
    pub(super) links: Table<Link>,
    pub(super) graphs: Table<Graph>,
    pub(super) execs: Table<Exec>,
    pub(super) captures: Mutex<Vec<Arc<Capture>>>,
    /// By address.
    pub(super) pinned: Mutex<BTreeMap<usize, Pinned>>,
    pub(super) programs: Programs,
    pub(super) compiler: Compiler,
    pub(super) hooks: Hooks,
    /// What small delays are drawn from.
    pub(super) seed: u64,
}

impl Driver {
    /// The library's state, if this process initialized it. What a forked child inherits cannot be used: the threads of
    /// its streams are not there.
    pub(super) fn get() -> Call<&'static Driver> {
        match DRIVER.get() {
            Some(driver) if driver.process == std::process::id() => Ok(driver),
            Some(_) => Err(Fault::new(
                Code::NotInitialized,
                "the process was forked after cuInit, and the child cannot use CUDA",
            )),
            None => Err(Fault::new(Code::NotInitialized, "cuInit was not called")),
        }
    }

    pub(super) fn initialize() -> Call {
        static STARTING: Mutex<()> = Mutex::new(());
        if DRIVER.get().is_none() {
            let _starting = lock(&STARTING);
            if DRIVER.get().is_none() {
                let driver = Driver::from_env().inspect_err(|fault| complain(&fault.message))?;
                DRIVER.get_or_init(|| driver);
            }
        }
        Driver::get().map(|_| ())
    }

    fn from_env() -> Call<Driver> {
        let text = std::env::var("VYRE_EMULATED_DEVICES").unwrap_or_default();
        let text = if text.trim().is_empty() { "sm_90" } else { &text };
        let models = Model::parse_list(text)
            .map_err(|error| Fault::new(Code::InvalidValue, format!("VYRE_EMULATED_DEVICES: {error}")))?;
        Options::check_environment().map_err(|error| Fault::new(Code::InvalidValue, error))?;
        let device = |(ordinal, model): (usize, Model)| {
            let budget = Budget::new(model.memory_bytes);
            Arc::new(Device { ordinal, model, budget, primary: Mutex::default() })
        };
        Ok(Driver {
            process: std::process::id(),
            devices: models.into_iter().enumerate().map(device).collect(),
            contexts: Table::new(),
            streams: Table::new(),
            events: Table::new(),
            modules: Table::new(),
            functions: Table::new(),
            links: Table::new(),
            graphs: Table::new(),
            execs: Table::new(),
            captures: Mutex::default(),
            pinned: Mutex::default(),
            programs: Programs::default(),
            compiler: Compiler::from_env()?,
            hooks: Hooks::from_env()?,
            seed: seed_from_env(),
        })
    }

    pub(super) fn device(&self, ordinal: i32) -> Call<&Arc<Device>> {
        let device = usize::try_from(ordinal).ok().and_then(|ordinal| self.devices.get(ordinal));
        device.ok_or_else(|| Fault::new(Code::InvalidDevice, format!("there is no device {ordinal}")))
    }

    /// The known host memory that has all of a range.
    pub(super) fn pinned(&self, address: usize, byte_len: usize) -> Option<(usize, Pinned)> {
        let pinned = lock(&self.pinned);
        let (start, memory) = pinned.range(..=address).next_back()?;
        let end = address.checked_add(byte_len)?;
        (end <= start + memory.byte_len).then(|| (*start, memory.clone()))
    }

    /// The device memory that has all of a range, in whichever context.
    pub(super) fn find_memory(&self, first: &Context, address: u64, byte_len: u64) -> Option<Arc<Block>> {
        first
            .heap
            .find(address, byte_len)
            .or_else(|| self.contexts.all().iter().find_map(|context| context.heap.find(address, byte_len)))
    }
}

/// The number in `VYRE_EMULATED_SCHEDULE=random:7`. The engine reads the rest.
fn seed_from_env() -> u64 {
    let text = std::env::var("VYRE_EMULATED_SCHEDULE").unwrap_or_default();
    text.rsplit_once(':').and_then(|(_, seed)| seed.parse().ok()).unwrap_or(1)
}
