//! Contexts: making and destroying them, which one is current, and how one is poisoned.
//!
//! A fault of a kernel poisons its context: what is on its streams is dropped, kernels that run are stopped, and every
//! later call in it returns that fault's code. Other contexts go on, those of the same device too.
#![allow(unsafe_code)]

use super::ffi::{In, Out};
use super::queue::{Kind, Mark, Stream};
use super::state::{Device, Driver};
use super::{Call, LAST_FAULT, anytime, complain, invalid, lock, with_context, with_driver};
use crate::engine::schedule;
use crate::fault::{Code, Fault};
use crate::memory::Heap;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;

thread_local! {
    /// The handles of this thread's contexts; the last is current.
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// How many contexts this process has made: each has addresses of its own.
static CONTEXTS: AtomicU64 = AtomicU64::new(0);

/// `CU_LIMIT_*`, as a device begins with.
const LIMITS: [usize; 7] = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0];
/// The version of the API that contexts report.
const API_VERSION: u32 = 3020;

pub(super) struct Context {
    pub(super) handle: usize,
    pub(super) device: Arc<Device>,
    pub(super) heap: Heap,
    /// First addresses of what the caller allocated, as opposed to modules' variables.
    pub(super) allocations: Mutex<HashSet<u64>>,
    /// Held while an operation is put on a stream, so that the legacy stream's rules see one order.
    pub(super) submitting: Mutex<()>,
    flags: Mutex<u32>,
    limits: Mutex<[usize; 7]>,
    /// All that may have work; the first is the legacy stream.
    streams: Mutex<Vec<Arc<Stream>>>,
    per_thread: Mutex<HashMap<ThreadId, Arc<Stream>>>,
    fault: OnceLock<Fault>,
    /// Set where kernels must end: after a fault, and when the context is destroyed.
    pub(super) stop: AtomicBool,
    stopped: (Mutex<()>, Condvar),
}

/// A device's primary context, and how many have retained it.
#[derive(Default)]
pub(super) struct Primary {
    context: Option<Arc<Context>>,
    users: u32,
    flags: u32,
}

impl Context {
    fn make(driver: &Driver, device: &Arc<Device>, flags: u32) -> Arc<Context> {
        let number = CONTEXTS.fetch_add(1, Ordering::Relaxed);
        let context = driver.contexts.insert(|handle| Context {
            handle,
            device: Arc::clone(device),
            heap: Heap::within(Heap::base_of(number), Arc::clone(&device.budget)),
            allocations: Mutex::default(),
            submitting: Mutex::default(),
            flags: Mutex::new(flags),
            limits: Mutex::new(LIMITS),
            streams: Mutex::default(),
            per_thread: Mutex::default(),
            fault: OnceLock::new(),
            stop: AtomicBool::new(false),
            stopped: Default::default(),
        });
        context.add_stream(driver, Kind::Legacy, 0);
        context
    }

    pub(super) fn add_stream(self: &Arc<Context>, driver: &Driver, kind: Kind, priority: i32) -> Arc<Stream> {
        let stream = driver.streams.insert(|handle| Stream::new(handle, Arc::clone(self), kind, priority));
        let mut streams = lock(&self.streams);
        streams.retain(|stream| !stream.is_gone());
        streams.push(Arc::clone(&stream));
        stream
    }

    /// The stream of handle 0.
    pub(super) fn legacy_stream(&self) -> Arc<Stream> {
        Arc::clone(&lock(&self.streams)[0])
    }

    /// The default stream of this thread alone.
    pub(super) fn thread_stream(self: &Arc<Context>, driver: &Driver) -> Arc<Stream> {
        let mut streams = lock(&self.per_thread);
        let make = || self.add_stream(driver, Kind::Blocking, 0);
        Arc::clone(streams.entry(std::thread::current().id()).or_insert_with(make))
    }

    pub(super) fn streams(&self) -> Vec<Arc<Stream>> {
        lock(&self.streams).clone()
    }

    /// What the legacy stream's rules put before the next operation of a stream.
    pub(super) fn ordered_before(&self, stream: &Arc<Stream>) -> Vec<Mark> {
        let streams = lock(&self.streams);
        match stream.kind {
            Kind::NonBlocking => Vec::new(),
            Kind::Blocking => streams.first().map(Stream::mark).into_iter().collect(),
            Kind::Legacy => {
                streams.iter().filter(|other| other.kind == Kind::Blocking).map(Stream::mark).collect()
            }
        }
    }

    /// Waits for everything on every stream.
    pub(super) fn synchronize(&self) -> Call {
        self.streams().iter().for_each(|stream| stream.mark().wait());
        self.check()
    }

    /// Fails where a fault has poisoned the context, or it is destroyed.
    pub(super) fn check(&self) -> Call {
        match self.fault.get() {
            Some(fault) => Err(fault.clone()),
            None if self.is_stopped() => Err(destroyed()),
            None => Ok(()),
        }
    }

    pub(super) fn fault(&self) -> Option<&Fault> {
        self.fault.get()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn stop(&self) {
        let _held = lock(&self.stopped.0);
        self.stop.store(true, Ordering::Release);
        self.stopped.1.notify_all();
    }

    /// Waits until the context is given up, or for a time.
    pub(super) fn pause(&self, time: Option<Duration>) {
        let goes_on = |_: &mut ()| !self.is_stopped();
        let held = lock(&self.stopped.0);
        match time {
            None => drop(self.stopped.1.wait_while(held, goes_on)),
            Some(time) => drop(self.stopped.1.wait_timeout_while(held, time, goes_on)),
        }
    }

    /// Poisons the context. The first fault counts; what kernels report once they were stopped is its consequence.
    pub(super) fn poison(&self, fault: Fault) {
        if self.is_stopped() {
            return;
        }
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = lock(&ONE_AT_A_TIME);
        if self.fault.get().is_none() {
            // Who sees the fault may end the process, so it is reported before.
            complain(&format!("device {}: {fault}", self.device.ordinal));
            *lock(&LAST_FAULT) = fault.to_string();
            let _ = self.fault.set(fault);
        }
        self.stop();
    }

    /// Ends the process if `VYRE_EMULATED_CHECKS=leaks` and the program did not destroy what it made in the context. Memory does
    /// not count: who destroys a context frees it, and pools rely on that. Graphs have no context, so they count for the last one.
    fn report_leaks(&self, driver: &Driver) {
        // What is no check is an error at each launch.
        if !schedule::asks_for("leaks").unwrap_or(false) {
            return;
        }
        let is_last = driver.contexts.all().iter().all(|other| other.handle == self.handle);
        let graphs = if is_last { driver.graphs.all().len() + driver.execs.all().len() } else { 0 };
        // The legacy stream is the context's own.
        let is_left =
            |stream: &Stream| stream.context.handle == self.handle && !matches!(stream.kind, Kind::Legacy);
        let left = [
            ("events", driver.events.all().iter().filter(|event| event.context == self.handle).count()),
            ("modules", driver.modules.all().iter().filter(|module| module.context == self.handle).count()),
            ("streams", driver.streams.all().iter().filter(|stream| is_left(stream)).count()),
            ("graphs", graphs),
        ];
        let left: Vec<_> =
            left.iter().filter(|(_, count)| *count > 0).map(|(what, n)| format!("{n} {what}")).collect();
        if !left.is_empty() {
            complain(&format!("leaks: a context is destroyed, and these are left: {}", left.join(", ")));
            std::process::abort();
        }
    }

    /// Takes everything out of the tables that is part of the context, and ends its threads.
    fn destroy(&self, driver: &Driver) {
        if self.fault.get().is_none() {
            self.report_leaks(driver);
        }
        self.stop();
        driver.events.retain(|event| event.context != self.handle);
        driver.functions.retain(|function| function.module.context != self.handle);
        driver.modules.retain(|module| module.context != self.handle);
        driver.links.retain(|link| link.context != self.handle);
        driver.streams.retain(|stream| stream.context.handle != self.handle);
        lock(&driver.captures).retain(|capture| capture.context != self.handle);
        lock(&driver.pinned).retain(|_, memory| memory.context != self.handle);
        lock(&self.per_thread).clear();
        let streams = std::mem::take(&mut *lock(&self.streams));
        streams.iter().for_each(|stream| stream.close());
        streams.iter().for_each(|stream| stream.join());
        let pinned = |address: u64| address < Heap::base_of(0);
        for block in self.heap.snapshot().iter().filter(|block| !pinned(block.address)) {
            // It is in the snapshot, and no call can free it any more.
            let _ = self.heap.free(block.address);
        }
    }
}

fn destroyed() -> Fault {
    Fault::new(Code::ContextIsDestroyed, "the current context was destroyed")
}

fn top() -> Option<usize> {
    // A thread's own values may be gone while it ends.
    STACK.try_with(|stack| stack.borrow().last().copied()).ok().flatten()
}

/// The current context, even if it is poisoned.
pub(super) fn current(driver: &Driver) -> Call<Arc<Context>> {
    let handle = top().ok_or_else(|| Fault::new(Code::InvalidContext, "no context is current"))?;
    driver.contexts.find(handle).ok_or_else(destroyed)
}

fn find(driver: &Driver, handle: usize) -> Call<Arc<Context>> {
    let unknown = || Fault::new(Code::InvalidContext, format!("{handle:#x} is no context, or was destroyed"));
    driver.contexts.find(handle).ok_or_else(unknown)
}

fn push(handle: usize) {
    STACK.with(|stack| stack.borrow_mut().push(handle));
}

fn create(out: Out<usize>, flags: u32, device: i32) -> u32 {
    with_driver(|driver| {
        let device = driver.device(device)?;
        out.wanted()?;
        if flags & !0x7f != 0 || flags & 7 > 4 {
            return Err(invalid("a flag of the context does not exist"));
        }
        let context = Context::make(driver, device, flags);
        out.set(context.handle)?;
        push(context.handle);
        Ok(())
    })
}

/// Makes a context and makes it current.
#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v2(out: Out<usize>, flags: u32, device: i32) -> u32 {
    create(out, flags, device)
}

/// Makes a context; limits on multiprocessors are not supported.
#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v3(out: Out<usize>, _: In<u8>, count: i32, flags: u32, device: i32) -> u32 {
    if count != 0 { Code::NotSupported as u32 } else { create(out, flags, device) }
}

/// Makes a context; parameters beyond the flags are not supported.
#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v4(out: Out<usize>, parameters: In<u8>, flags: u32, device: i32) -> u32 {
    if parameters.is_null() { create(out, flags, device) } else { Code::NotSupported as u32 }
}

/// Destroys a context. Kernels that run are stopped.
#[unsafe(no_mangle)]
extern "C" fn cuCtxDestroy_v2(handle: usize) -> u32 {
    with_driver(|driver| {
        let context = find(driver, handle)?;
        if is_primary(&context) {
            return Err(Fault::new(Code::InvalidContext, "a primary context is released, not destroyed"));
        }
        driver.contexts.remove(handle)?;
        STACK.with(|stack| stack.borrow_mut().pop_if(|top| *top == handle));
        context.destroy(driver);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(handle: usize) -> u32 {
    with_driver(|driver| {
        if handle != 0 {
            find(driver, handle)?;
        }
        STACK.with(|stack| {
            let mut stack = stack.borrow_mut();
            stack.pop();
            stack.extend((handle != 0).then_some(handle));
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(out: Out<usize>) -> u32 {
    with_driver(|_| out.set(top().unwrap_or(0)))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(handle: usize) -> u32 {
    with_driver(|driver| {
        find(driver, handle)?;
        push(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPopCurrent_v2(out: Out<usize>) -> u32 {
    with_driver(|_| {
        let popped = STACK.with(|stack| stack.borrow_mut().pop());
        out.set_if_asked(popped.ok_or_else(|| Fault::new(Code::InvalidContext, "no context is current"))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> u32 {
    with_context(|context| {
        super::capture::forbid(context)?;
        context.synchronize()
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(out: Out<i32>) -> u32 {
    with_context(|context| out.set(context.device.ordinal as i32))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetFlags(out: Out<u32>) -> u32 {
    with_context(|context| out.set(*lock(&context.flags)))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetFlags(flags: u32) -> u32 {
    with_context(|context| {
        *lock(&context.flags) = flags;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetApiVersion(handle: usize, out: Out<u32>) -> u32 {
    with_driver(|driver| {
        if handle == 0 {
            current(driver)?;
        } else {
            find(driver, handle)?;
        }
        out.set(API_VERSION)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetId(handle: usize, out: Out<u64>) -> u32 {
    with_driver(|driver| {
        let context = if handle == 0 { current(driver)? } else { find(driver, handle)? };
        out.set(context.handle as u64)
    })
}

fn limit(number: u32) -> Call<usize> {
    let unknown = || Fault::new(Code::UnsupportedLimit, format!("there is no limit {number}"));
    usize::try_from(number).ok().filter(|number| *number < LIMITS.len()).ok_or_else(unknown)
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetLimit(out: Out<usize>, number: u32) -> u32 {
    with_context(|context| out.set(lock(&context.limits)[limit(number)?]))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetLimit(number: u32, value: usize) -> u32 {
    with_context(|context| {
        lock(&context.limits)[limit(number)?] = value;
        Ok(())
    })
}

/// Caches are not emulated: there is no preference.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCacheConfig(out: Out<u32>) -> u32 {
    with_context(|_| out.set(0))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCacheConfig(config: u32) -> u32 {
    with_context(|_| if config <= 3 { Ok(()) } else { Err(invalid("there is no such cache preference")) })
}

/// Streams have one priority more than the default.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> u32 {
    with_context(|_| {
        least.set_if_asked(0);
        greatest.set_if_asked(super::stream::GREATEST_PRIORITY);
        Ok(())
    })
}

fn is_primary(context: &Arc<Context>) -> bool {
    lock(&context.device.primary).context.as_ref().is_some_and(|primary| Arc::ptr_eq(primary, context))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(out: Out<usize>, device: i32) -> u32 {
    with_driver(|driver| {
        let device = driver.device(device)?;
        out.wanted()?;
        let mut primary = lock(&device.primary);
        let flags = primary.flags;
        let context = primary.context.get_or_insert_with(|| Context::make(driver, device, flags)).handle;
        out.set(context)?;
        primary.users += 1;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> u32 {
    with_driver(|driver| {
        let mut primary = lock(&driver.device(device)?.primary);
        if primary.users == 0 {
            return Err(Fault::new(Code::InvalidContext, "the primary context is not retained"));
        }
        primary.users -= 1;
        let unused = (primary.users == 0).then(|| primary.context.take()).flatten();
        drop(primary);
        give_up(driver, unused)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxReset_v2(device: i32) -> u32 {
    with_driver(|driver| {
        let context = lock(&driver.device(device)?.primary).context.take();
        give_up(driver, context)
    })
}

fn give_up(driver: &Driver, context: Option<Arc<Context>>) -> Call {
    if let Some(context) = context {
        driver.contexts.remove(context.handle)?;
        context.destroy(driver);
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) -> u32 {
    with_driver(|driver| {
        let mut primary = lock(&driver.device(device)?.primary);
        primary.flags = flags;
        if let Some(context) = &primary.context {
            *lock(&context.flags) = flags;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) -> u32 {
    with_driver(|driver| {
        let primary = lock(&driver.device(device)?.primary);
        flags.set_if_asked(primary.flags);
        active.set_if_asked(i32::from(primary.context.is_some()));
        Ok(())
    })
}

/// Not part of CUDA: copies what the last fault of a kernel was, as text with a zero byte at its end, and returns how
/// many bytes the text has.
#[unsafe(no_mangle)]
extern "C" fn vyreEmulatedLastFault(out: Out<u8>, byte_len: usize) -> usize {
    let text = lock(&LAST_FAULT).clone();
    if byte_len > 0 {
        // A null buffer is the caller's way to ask for the length alone.
        let _ = anytime(|| out.set_text(&text, byte_len));
    }
    text.len()
}
