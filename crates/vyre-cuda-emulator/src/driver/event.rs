//! Events: places in a stream that the host and other streams wait for.
//!
//! An event that was never recorded is complete. Waiting for one means the place where it was recorded last before the
//! call. One that was recorded in a capture only orders nodes of the graph.
#![allow(unsafe_code)]

use super::capture::{Joined, forbid};
use super::context::Context;
use super::ffi::Out;
use super::operation::Operation;
use super::queue::Mark;
use super::state::Driver;
use super::stream::stream_of;
use super::{Call, invalid, lock, with_context};
use crate::fault::{Code, Fault};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

const DISABLE_TIMING: u32 = 2;

pub(super) struct Event {
    handle: usize,
    pub(super) context: usize,
    flags: u32,
    last: Mutex<Last>,
}

/// Where an event was recorded last.
#[derive(Clone, Default)]
enum Last {
    #[default]
    Never,
    Stream(Mark, Arc<OnceLock<Instant>>),
    Capture(Joined),
}

fn find(handle: usize) -> Call<Arc<Event>> {
    Driver::get()?.events.get(handle)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(out: Out<usize>, flags: u32) -> u32 {
    with_context(|context| {
        // Events of other processes are not supported, so their flag (4) is none.
        if flags > 3 {
            return Err(invalid("a flag of the event does not exist"));
        }
        out.wanted()?;
        let make = |handle| Event { handle, context: context.handle, flags, last: Mutex::default() };
        out.set(Driver::get()?.events.insert(make).handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: usize) -> u32 {
    with_context(|_| Driver::get()?.events.remove(event).map(|_| ()))
}

fn record(context: &Arc<Context>, event: usize, stream: usize) -> Call {
    let event = find(event)?;
    if event.context != context.handle {
        return Err(Fault::new(Code::InvalidHandle, "the event is of another context"));
    }
    let stream = stream_of(context, stream)?;
    let joined = lock(&stream.capture);
    *lock(&event.last) = match &*joined {
        Some(joined) => Last::Capture(joined.clone()),
        None => {
            let time = Arc::default();
            let record = Operation::Record(Arc::clone(&time));
            Last::Stream(stream.submit(record, Vec::new(), None), time)
        }
    };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: usize, stream: usize) -> u32 {
    with_context(|context| record(context, event, stream))
}

/// Records that become nodes of a graph are not supported.
#[unsafe(no_mangle)]
extern "C" fn cuEventRecordWithFlags(event: usize, stream: usize, flags: u32) -> u32 {
    with_context(|context| match flags {
        0 => record(context, event, stream),
        _ => Err(Fault::new(Code::NotSupported, "an event that is recorded as a graph's node")),
    })
}

/// Where an event was recorded on a stream; `None` if never.
fn place(event: &Event) -> Call<Option<(Mark, Arc<OnceLock<Instant>>)>> {
    match &*lock(&event.last) {
        Last::Never => Ok(None),
        Last::Stream(mark, time) => Ok(Some((mark.clone(), Arc::clone(time)))),
        Last::Capture(joined) => {
            Err(joined.capture.fail(Code::CapturedEvent, "the event was recorded in a capture"))
        }
    }
}

/// The state of the context that an event is of, which need not be the current one.
fn check(event: &Event) -> Call {
    Driver::get()?.contexts.find(event.context).map_or(Ok(()), |context| context.check())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: usize) -> u32 {
    with_context(|context| {
        let event = find(event)?;
        let place = place(&event)?;
        forbid(context)?;
        let reached = place.is_none_or(|(mark, _)| mark.is_reached());
        check(&event)?;
        if reached { Ok(()) } else { Err(Fault::new(Code::NotReady, "the event is yet to happen")) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: usize) -> u32 {
    with_context(|context| {
        let event = find(event)?;
        let place = place(&event)?;
        forbid(context)?;
        if let Some((mark, _)) = place {
            mark.wait();
        }
        check(&event)
    })
}

/// When an event happened.
fn time_of(event: &Event) -> Call<Instant> {
    let wrong = |message| Fault::new(Code::InvalidHandle, message);
    if event.flags & DISABLE_TIMING != 0 {
        return Err(wrong("the event was made without timing"));
    }
    let (mark, time) = place(event)?.ok_or_else(|| wrong("the event was never recorded"))?;
    let pending = || Fault::new(Code::NotReady, "the event is yet to happen");
    if mark.is_reached() { time.get().copied().ok_or_else(pending) } else { Err(pending()) }
}

fn elapsed(out: Out<f32>, start: usize, end: usize) -> u32 {
    with_context(|_| {
        let (start, end) = (find(start)?, find(end)?);
        let (from, to) = (time_of(&start)?, time_of(&end)?);
        let seconds = match to.checked_duration_since(from) {
            Some(time) => time.as_secs_f64(),
            None => -from.duration_since(to).as_secs_f64(),
        };
        out.set((seconds * 1e3) as f32)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(out: Out<f32>, start: usize, end: usize) -> u32 {
    elapsed(out, start, end)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime_v2(out: Out<f32>, start: usize, end: usize) -> u32 {
    elapsed(out, start, end)
}

/// The event may be of another context or device.
#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, flags: u32) -> u32 {
    with_context(|context| {
        if flags != 0 {
            return Err(Fault::new(Code::NotSupported, "an event that is waited for as a graph's node"));
        }
        let (stream, event) = (stream_of(context, stream)?, find(event)?);
        let last = lock(&event.last).clone();
        match last {
            Last::Capture(joined) => stream.join_capture(&joined),
            Last::Never => Ok(()),
            Last::Stream(mark, _) => {
                if let Some(joined) = &*lock(&stream.capture) {
                    let message = "the event is not part of the stream's capture";
                    return Err(joined.capture.fail(Code::StreamCaptureIsolation, message));
                }
                stream.submit(Operation::Nothing, vec![mark], None);
                Ok(())
            }
        }
    })
}
