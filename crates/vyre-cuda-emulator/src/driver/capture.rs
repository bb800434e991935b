//! Stream capture: what is put on a capturing stream becomes nodes of a graph instead of running.
//!
//! A capture begins on one stream; others join it by waiting for an event of it, and must be joined back before it ends.
//! A call that a capture does not permit fails and invalidates the capture, which `cuStreamEndCapture` then reports.

use super::Call;
use super::context::Context;
use super::ffi::Out;
use super::graph::Graph;
use super::operation::Operation;
use super::queue::{Kind, Stream};
use super::state::Driver;
use super::stream::stream_of;
use super::{invalid, lock, with_context};
use crate::fault::{Code, Fault};
use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

thread_local! {
    /// Which captures forbid unsafe calls to this thread, as `cuThreadExchangeStreamCaptureMode` sets it.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    fn of(number: u32) -> Call<Mode> {
        match number {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => Err(invalid("there is no such mode of capture")),
        }
    }
}

/// One operation of a graph, and the nodes that come before it.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) operation: Operation,
    pub(super) after: Vec<usize>,
}

pub(super) struct Capture {
    /// The stream that it began on.
    origin: usize,
    pub(super) context: usize,
    mode: Mode,
    thread: ThreadId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: Vec<Node>,
    invalid: bool,
}

/// That a stream is part of a capture, and which nodes its next one comes after.
#[derive(Clone)]
pub(super) struct Joined {
    pub(super) capture: Arc<Capture>,
    pub(super) tail: Vec<usize>,
}

impl Capture {
    fn invalidate(&self) {
        lock(&self.state).invalid = true;
    }

    fn check(&self) -> Call {
        if lock(&self.state).invalid {
            return Err(Fault::new(
                Code::StreamCaptureInvalidated,
                "a call that it forbids invalidated the capture",
            ));
        }
        Ok(())
    }

    /// A failure that also invalidates the capture.
    pub(super) fn fail(&self, code: Code, message: &str) -> Fault {
        self.invalidate();
        Fault::new(code, message)
    }
}

impl Joined {
    pub(super) fn push(&mut self, operation: Operation) -> Call {
        self.capture.check()?;
        let mut state = lock(&self.capture.state);
        let after = std::mem::replace(&mut self.tail, vec![state.nodes.len()]);
        state.nodes.push(Node { operation, after });
        Ok(())
    }
}

impl Stream {
    /// Has a stream wait for an event that was recorded in a capture, so that it becomes part of it.
    pub(super) fn join_capture(&self, event: &Joined) -> Call {
        event.capture.check()?;
        if self.kind == Kind::Legacy {
            return Err(event
                .capture
                .fail(Code::StreamCaptureImplicit, "the legacy stream cannot be captured"));
        }
        let mut joined = lock(&self.capture);
        match &mut *joined {
            None if !self.is_idle() => Err(event
                .capture
                .fail(Code::StreamCaptureIsolation, "the stream has work that is not part of the capture")),
            None => {
                *joined = Some(event.clone());
                Ok(())
            }
            Some(own) if Arc::ptr_eq(&own.capture, &event.capture) => {
                own.tail.extend(&event.tail);
                Ok(())
            }
            Some(own) => {
                own.capture.invalidate();
                Err(event.capture.fail(Code::StreamCaptureMerge, "two captures cannot be joined"))
            }
        }
    }

    /// Fails where the stream is captured: a call that needs what is on it to be done cannot be part of a graph.
    pub(super) fn forbid_captured(&self) -> Call {
        match &*lock(&self.capture) {
            Some(joined) => {
                Err(joined.capture.fail(Code::StreamCaptureUnsupported, "the stream is being captured"))
            }
            None => Ok(()),
        }
    }
}

/// Fails a call that is unsafe while a capture is under way that forbids such calls to this thread.
pub(super) fn forbid(_: &Context) -> Call {
    let captures = lock(&Driver::get()?.captures).clone();
    let own = |capture: &Capture| capture.thread == std::thread::current().id();
    let forbids = |capture: &&Arc<Capture>| match (MODE.get(), capture.mode) {
        (Mode::Relaxed, _) | (_, Mode::Relaxed) => false,
        (Mode::Global, Mode::Global) => true,
        (Mode::ThreadLocal, _) | (_, Mode::ThreadLocal) => own(capture),
    };
    match captures.iter().find(forbids) {
        Some(capture) => Err(capture.fail(
            Code::StreamCaptureUnsupported,
            "the call is unsafe while a stream is being captured in this mode",
        )),
        None => Ok(()),
    }
}

/// Fails a use of the legacy stream while a stream is captured that it would wait for.
pub(super) fn forbid_implicit(context: &Context) -> Call {
    for stream in context.streams().iter().filter(|stream| stream.kind == Kind::Blocking) {
        if let Some(joined) = &*lock(&stream.capture) {
            return Err(joined.capture.fail(
                Code::StreamCaptureImplicit,
                "the legacy stream waits for a stream that is being captured",
            ));
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
#[allow(unsafe_code)]
extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: u32) -> u32 {
    with_context(|context| {
        let driver = Driver::get()?;
        let mode = Mode::of(mode)?;
        if stream <= 1 {
            return Err(Fault::new(Code::StreamCaptureUnsupported, "the legacy stream cannot be captured"));
        }
        let stream = stream_of(context, stream)?;
        let mut joined = lock(&stream.capture);
        if joined.is_some() {
            return Err(Fault::new(Code::IllegalState, "the stream is being captured already"));
        }
        let (thread, state) = (std::thread::current().id(), Mutex::default());
        let capture =
            Arc::new(Capture { origin: stream.handle, context: context.handle, mode, thread, state });
        lock(&driver.captures).push(Arc::clone(&capture));
        *joined = Some(Joined { capture, tail: Vec::new() });
        Ok(())
    })
}

#[unsafe(no_mangle)]
#[allow(unsafe_code)]
extern "C" fn cuStreamEndCapture(stream: usize, out: Out<usize>) -> u32 {
    with_context(|context| {
        let driver = Driver::get()?;
        let stream = stream_of(context, stream)?;
        let joined = lock(&stream.capture).clone();
        let joined =
            joined.ok_or_else(|| Fault::new(Code::IllegalState, "the stream is not being captured"))?;
        let capture = &joined.capture;
        if capture.origin != stream.handle {
            return Err(capture.fail(Code::StreamCaptureUnmatched, "the capture began on another stream"));
        }
        if capture.mode != Mode::Relaxed && capture.thread != std::thread::current().id() {
            return Err(capture.fail(Code::StreamCaptureWrongThread, "the capture began on another thread"));
        }
        out.set(0)?;
        let unjoined = release_streams(driver, capture, &joined.tail);
        lock(&driver.captures).retain(|other| !Arc::ptr_eq(other, capture));
        capture.check()?;
        if unjoined {
            let message = "a stream that joined the capture was not joined back";
            return Err(Fault::new(Code::StreamCaptureUnjoined, message));
        }
        let nodes = std::mem::take(&mut lock(&capture.state).nodes);
        out.set(driver.graphs.insert(|handle| Graph::new(handle, nodes)).handle)
    })
}

/// Ends the capture on all of its streams; whether one of them has nodes that the origin's last ones do not come after.
fn release_streams(driver: &Driver, capture: &Arc<Capture>, tail: &[usize]) -> bool {
    let state = lock(&capture.state);
    let mut reached = vec![false; state.nodes.len()];
    let mut to_visit = tail.to_vec();
    while let Some(node) = to_visit.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            to_visit.extend(&state.nodes[node].after);
        }
    }
    for stream in driver.streams.all() {
        stream.capture_ends(capture);
    }
    reached.contains(&false)
}

impl Stream {
    fn capture_ends(&self, capture: &Arc<Capture>) {
        let mut joined = lock(&self.capture);
        if joined.as_ref().is_some_and(|joined| Arc::ptr_eq(&joined.capture, capture)) {
            *joined = None;
        }
    }

    /// `CU_STREAM_CAPTURE_STATUS_*`, and a number of the capture.
    fn capture_status(&self) -> (u32, u64) {
        match &*lock(&self.capture) {
            None => (0, 0),
            Some(joined) => {
                (if joined.capture.check().is_ok() { 1 } else { 2 }, Arc::as_ptr(&joined.capture) as u64)
            }
        }
    }
}

#[unsafe(no_mangle)]
#[allow(unsafe_code)]
extern "C" fn cuStreamIsCapturing(stream: usize, out: Out<u32>) -> u32 {
    with_context(|context| out.set(stream_of(context, stream)?.capture_status().0))
}

/// The graph and its dependencies are not given out: none can be changed while it is captured.
#[unsafe(no_mangle)]
#[allow(unsafe_code)]
extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: usize,
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<usize>,
    dependencies: Out<usize>,
    dependency_count: Out<usize>,
) -> u32 {
    with_context(|context| {
        let (state, number) = stream_of(context, stream)?.capture_status();
        id.set_if_asked(number);
        graph.set_if_asked(0);
        dependencies.set_if_asked(0);
        dependency_count.set_if_asked(0);
        status.set(state)
    })
}

#[unsafe(no_mangle)]
#[allow(unsafe_code)]
extern "C" fn cuThreadExchangeStreamCaptureMode(mode: Out<u32>) -> u32 {
    with_context(|_| {
        let old = MODE.replace(Mode::of(mode.get()?)?);
        mode.set(old as u32)
    })
}
