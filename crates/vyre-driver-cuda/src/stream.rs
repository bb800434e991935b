//! A stream, with what a submission needs beside it. Each submission has one to itself, so those of several threads overlap.
#![allow(unsafe_code)]

use crate::ID;
use crate::device::Context;
use crate::memory::{Block, Pinned, Pool};
use crate::transfer::Staging;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vyre_driver::BackendError;

pub(crate) struct Stream {
    pub(crate) context: Arc<Context>,
    pub(crate) raw: sys::CUstream,
    /// Brings the cancel word while the other one is busy.
    aside: sys::CUstream,
    pub(crate) begin: Event,
    pub(crate) end: Event,
    /// The trap word, the grid barrier's counter and the cancel word: it is on the device because every workgroup looks at it.
    state: Block,
    /// The cancel word's two values, a copy of the trap word, and small readbacks.
    host: Pinned,
    pub(crate) staging: Staging,
}

// SAFETY: streams and events are handles that any thread may use while their context is current.
unsafe impl Send for Stream {}

/// How long a cancelled kernel, or a copy of a word, may take before the device counts as lost.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
const SYNC_AT: u64 = 8;
/// Away from words that launches write.
const CANCEL_AT: u64 = 128;
const STATE_BYTES: usize = 256;
/// In host memory: what the cancel word is for a kernel that may go on, and for one that must end.
const GO_ON_AT: usize = 0;
const END_AT: usize = 4;
const TRAP_AT: usize = 64;
const READS_AT: usize = 128;
const HOST_BYTES: usize = 64 << 10;
/// What the trap word holds while nothing trapped.
const NO_TRAP: u32 = u32::MAX;

impl Stream {
    pub(crate) fn new(context: &Arc<Context>, pool: &Arc<Pool>) -> Result<Stream, BackendError> {
        let fault = |error| context.fault(error, "a stream");
        let host = Pinned::new(context, HOST_BYTES)?;
        // SAFETY: the the word is in memory of this stream, aligned, and no other code has its address yet. All others are 0.
        unsafe { host.at(END_AT).cast::<u32>().write(1) };
        let create = || result::stream::create(result::stream::StreamKind::NonBlocking).map_err(fault);
        let stream = Stream {
            begin: Event::new(context)?,
            end: Event::new(context)?,
            state: pool.allocate(STATE_BYTES)?,
            staging: Staging::default(),
            raw: create()?,
            aside: create()?,
            host,
            context: Arc::clone(context),
        };
        stream.reset()?;
        Ok(stream)
    }

    /// Clears what traps and cancelled launches leave behind.
    pub(crate) fn reset(&self) -> Result<(), BackendError> {
        // A cancel word that arrived late would end the next launch, and one that arrived early would be lost.
        self.set_cancel_word(GO_ON_AT)?;
        self.await_cancel_word()?;
        // SAFETY: the stream is alive, and the word is inside the state.
        unsafe { result::memset_d8_async(self.state.address, 0xff, 4, self.raw) }
            .map_err(|error| self.fault(error, "the words of a launch"))
    }

    /// Waits until the cancel word is set. The copy takes microseconds; a device that does not end it is lost.
    fn await_cancel_word(&self) -> Result<(), BackendError> {
        let since = Instant::now();
        loop {
            // SAFETY: the stream is alive.
            match unsafe { sys::cuStreamQuery(self.aside) }.result() {
                Ok(()) => return Ok(()),
                Err(error) if error.0 != sys::CUresult::CUDA_ERROR_NOT_READY => {
                    return Err(self.fault(error, "the cancel word"));
                }
                Err(_) if since.elapsed() > GRACE => {
                    self.context.abandon();
                    let cause = format!("a copy of four bytes did not end within {} s", GRACE.as_secs());
                    return Err(BackendError::DeviceLost { backend: ID.into(), cause });
                }
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    pub(crate) fn fault(&self, error: DriverError, what: &str) -> BackendError {
        self.context.fault(error, what)
    }

    /// Asks the running kernel to end.
    pub(crate) fn cancel(&self) -> Result<(), BackendError> {
        self.set_cancel_word(END_AT)
    }

    /// A copy engine brings the word, so a kernel that fills the device need not make room for it.
    fn set_cancel_word(&self, value_at: usize) -> Result<(), BackendError> {
        let value = self.host.at(value_at).cast();
        // SAFETY: both words are inside their allocations, and the host's never changes.
        unsafe { sys::cuMemcpyHtoDAsync_v2(self.cancel_address(), value, 4, self.aside) }
            .result()
            .map_err(|error| self.fault(error, "the cancel word"))
    }

    pub(crate) fn cancel_address(&self) -> sys::CUdeviceptr {
        self.state.address + CANCEL_AT
    }

    /// The addresses of the trap word and of the grid barrier's counter.
    pub(crate) fn state(&self) -> [sys::CUdeviceptr; 2] {
        [self.state.address, self.state.address + SYNC_AT]
    }

    /// Sets the grid barrier's counter to zero.
    pub(crate) fn reset_barrier(&self) -> Result<(), BackendError> {
        // SAFETY: the counter's 8 bytes are inside the state.
        unsafe { result::memset_d8_async(self.state.address + SYNC_AT, 0, 8, self.raw) }
            .map_err(|error| self.fault(error, "the grid barrier"))
    }

    /// Copies the trap word to the host.
    pub(crate) fn fetch_trap(&self) -> Result<(), BackendError> {
        self.fetch(self.state.address, TRAP_AT, 4)
    }

    /// The recorded trap, once the copy has arrived.
    pub(crate) fn trap(&self) -> Option<u32> {
        // SAFETY: the word is in memory of this stream, aligned, and the device has written it.
        let word = unsafe { self.host.at(TRAP_AT).cast::<u32>().read_volatile() };
        (word != NO_TRAP).then_some(word)
    }

    /// How many bytes of small readbacks there is room for.
    pub(crate) const READS_BYTES: usize = HOST_BYTES - READS_AT;

    /// Copies bytes to the room for readbacks.
    pub(crate) fn fetch_read(
        &self,
        from: sys::CUdeviceptr,
        at: usize,
        byte_len: usize,
    ) -> Result<(), BackendError> {
        self.fetch(from, READS_AT + at, byte_len)
    }

    fn fetch(&self, from: sys::CUdeviceptr, at: usize, byte_len: usize) -> Result<(), BackendError> {
        assert!(at + byte_len <= self.host.byte_len(), "callers stay inside");
        // SAFETY: both ranges are inside their allocations, and the host's is not read before the stream is waited for.
        unsafe { sys::cuMemcpyDtoHAsync_v2(self.host.at(at).cast(), from, byte_len, self.raw) }
            .result()
            .map_err(|error| self.fault(error, "a readback"))
    }

    /// What arrived there.
    pub(crate) fn take_read(&self, at: usize, byte_len: usize, out: &mut Vec<u8>) {
        assert!(READS_AT + at + byte_len <= self.host.byte_len(), "callers stay inside");
        // SAFETY: the range is inside the allocation, and the device has written it and does nothing to it meanwhile.
        let arrived = unsafe { std::slice::from_raw_parts(self.host.at(READS_AT + at), byte_len) };
        out.extend_from_slice(arrived);
    }

    /// Waits for everything on the stream.
    pub(crate) fn wait(&self) -> Result<(), BackendError> {
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.raw) }.map_err(|error| self.fault(error, "a kernel"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.can_tidy() {
            for stream in [self.raw, self.aside] {
                // SAFETY: the stream is destroyed once; work on it has ended, or its context is lost.
                let _ = unsafe { result::stream::destroy(stream) };
            }
        }
    }
}

pub(crate) struct Event {
    raw: sys::CUevent,
    context: Arc<Context>,
}

// SAFETY: as for streams.
unsafe impl Send for Event {}
// SAFETY: as for streams; the driver's functions on events are thread-safe.
unsafe impl Sync for Event {}

impl Event {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Event, BackendError> {
        let raw = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(|error| context.fault(error, "an event"))?;
        Ok(Event { raw, context: Arc::clone(context) })
    }

    pub(crate) fn record(&self, stream: sys::CUstream) -> Result<(), BackendError> {
        // SAFETY: the event and the stream are alive and of the same context.
        unsafe { result::event::record(self.raw, stream) }
            .map_err(|error| self.context.fault(error, "an event"))
    }

    /// Whether it has happened.
    pub(crate) fn happened(&self) -> Result<bool, BackendError> {
        // SAFETY: the event is alive.
        match unsafe { result::event::query(self.raw) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(self.context.fault(error, "a kernel")),
        }
    }

    pub(crate) fn wait(&self) -> Result<(), BackendError> {
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.raw) }
            .map_err(|error| self.context.fault(error, "a transfer"))
    }

    /// The time from `self` to `end`, both of which have happened.
    pub(crate) fn nanoseconds_to(&self, end: &Event) -> Option<u64> {
        // SAFETY: both events are alive.
        let milliseconds = unsafe { result::event::elapsed(self.raw, end.raw) }.ok()?;
        Some((f64::from(milliseconds) * 1e6) as u64)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.can_tidy() {
            // SAFETY: the event is destroyed once.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}
