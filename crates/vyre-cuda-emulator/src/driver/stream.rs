//! The API's functions on streams.
#![allow(unsafe_code)]

use super::capture::{forbid, forbid_implicit};
use super::context::Context;
use super::faults::Effect;
use super::ffi::{Callback, HostFunction, Out};
use super::operation::Operation;
use super::queue::{Kind, Mark, Stream};
use super::state::Driver;
use super::{Call, invalid, lock, with_context};
use crate::fault::{Code, Fault};
use std::sync::Arc;

/// Handles of the streams that every context has: the legacy stream, also as 0, and each thread's own.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;
/// The most urgent priority. Priorities change nothing here.
pub(super) const GREATEST_PRIORITY: i32 = -5;

/// The stream of a handle, which is one of this context.
pub(super) fn stream_of(context: &Arc<Context>, handle: usize) -> Call<Arc<Stream>> {
    let driver = Driver::get()?;
    match handle {
        0 | LEGACY => {
            forbid_implicit(context)?;
            Ok(context.legacy_stream())
        }
        PER_THREAD => Ok(context.thread_stream(driver)),
        _ => {
            let stream = driver.streams.get(handle)?;
            if stream.context.handle != context.handle {
                return Err(Fault::new(Code::InvalidHandle, "the stream is of another context"));
            }
            Ok(stream)
        }
    }
}

impl Driver {
    /// What the file of faults has in store for an operation that is put on a stream.
    pub(super) fn effect_on(&self, operation: &Operation) -> Call<Option<Effect>> {
        match operation {
            Operation::Launch(..) => self.hooks.launch(),
            copy if copy.is_copy() => self.hooks.copy(),
            _ => Ok(None),
        }
    }
}

/// Puts an operation on a stream, or into the graph that it is captured to. Only the former has a mark.
pub(super) fn enqueue(stream: &Arc<Stream>, operation: Operation) -> Call<Option<Mark>> {
    let mut joined = lock(&stream.capture);
    if let Some(joined) = &mut *joined {
        return joined.push(operation).map(|()| None);
    }
    let effect = Driver::get()?.effect_on(&operation)?;
    Ok(Some(stream.submit(operation, Vec::new(), effect)))
}

/// Puts an operation on a stream and waits for it.
pub(super) fn enqueue_and_wait(stream: &Arc<Stream>, operation: Operation) -> Call {
    if let Some(mark) = enqueue(stream, operation)? {
        mark.wait();
    }
    stream.context.check()
}

fn create(out: Out<usize>, flags: u32, priority: i32) -> u32 {
    with_context(|context| {
        let kind = match flags {
            0 => Kind::Blocking,
            1 => Kind::NonBlocking,
            _ => return Err(invalid("a flag of the stream does not exist")),
        };
        out.wanted()?;
        let priority = priority.clamp(GREATEST_PRIORITY, 0);
        out.set(context.add_stream(Driver::get()?, kind, priority).handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(out: Out<usize>, flags: u32) -> u32 {
    create(out, flags, 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreateWithPriority(out: Out<usize>, flags: u32, priority: i32) -> u32 {
    create(out, flags, priority)
}

/// Returns at once; the stream's thread ends after what is on it.
#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: usize) -> u32 {
    with_context(|context| {
        if stream <= PER_THREAD {
            return Err(Fault::new(Code::InvalidHandle, "a default stream cannot be destroyed"));
        }
        let stream = stream_of(context, stream)?;
        stream.forbid_captured()?;
        Driver::get()?.streams.remove(stream.handle)?;
        stream.close();
        Ok(())
    })
}

/// A stream that the host looks at or waits for.
fn observed(context: &Arc<Context>, handle: usize) -> Call<Arc<Stream>> {
    let stream = stream_of(context, handle)?;
    stream.forbid_captured()?;
    forbid(context)?;
    Ok(stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: usize) -> u32 {
    with_context(|context| {
        let stream = observed(context, stream)?;
        // The legacy stream stands for all that it waits for.
        match stream.kind {
            Kind::Legacy => stream.submit(Operation::Nothing, Vec::new(), None).wait(),
            Kind::Blocking | Kind::NonBlocking => stream.mark().wait(),
        }
        context.check()
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(stream: usize) -> u32 {
    with_context(|context| {
        let stream = observed(context, stream)?;
        let idle = stream.mark().is_reached()
            && (stream.kind != Kind::Legacy
                || context.ordered_before(&stream).iter().all(super::queue::Mark::is_reached));
        context.check()?;
        if idle { Ok(()) } else { Err(Fault::new(Code::NotReady, "the stream has work")) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetFlags(stream: usize, out: Out<u32>) -> u32 {
    with_context(|context| out.set(u32::from(stream_of(context, stream)?.kind == Kind::NonBlocking)))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetPriority(stream: usize, out: Out<i32>) -> u32 {
    with_context(|context| out.set(stream_of(context, stream)?.priority))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetCtx(stream: usize, out: Out<usize>) -> u32 {
    with_context(|context| out.set(stream_of(context, stream)?.context.handle))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetDevice(stream: usize, out: Out<i32>) -> u32 {
    with_context(|context| out.set(stream_of(context, stream)?.context.device.ordinal as i32))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamGetId(stream: usize, out: Out<u64>) -> u32 {
    with_context(|context| out.set(stream_of(context, stream)?.handle as u64))
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchHostFunc(stream: usize, function: HostFunction, data: usize) -> u32 {
    with_context(|context| {
        if function.is_null() {
            return Err(invalid("the function is null"));
        }
        enqueue(&stream_of(context, stream)?, Operation::Function { function, data }).map(|_| ())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamAddCallback(stream: usize, callback: Callback, data: usize, flags: u32) -> u32 {
    with_context(|context| {
        if callback.is_null() || flags != 0 {
            return Err(invalid("the callback is null, or has flags"));
        }
        let found = stream_of(context, stream)?;
        found.forbid_captured()?;
        enqueue(&found, Operation::Callback { callback, stream, data }).map(|_| ())
    })
}
