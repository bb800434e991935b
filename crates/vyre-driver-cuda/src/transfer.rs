//! Copies between host and device.
//!
//! The device reads pinned host memory at the bus's speed and any other at a fraction of it. So large copies go through
//! pinned chunks, several threads filling or emptying them while others are on the bus.
#![allow(unsafe_code)]

use crate::context::Context;
use crate::lane::Event;
use crate::memory::Pinned;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdeviceptr};
use std::mem::MaybeUninit;
use std::sync::Arc;
use vyre_driver::BackendError;

/// Copies up to this size the driver stages itself at least as fast.
const LARGE_MIN: usize = 1 << 20;
const CHUNK_BYTES: usize = 2 << 20;
/// One fills or empties a chunk while the other is on the bus.
const CHUNKS_OF_THREAD: usize = 2;
const THREADS_MAX: usize = 8;

/// The pinned chunks of a lane, made when they are first needed.
#[derive(Default)]
pub(crate) struct Staging(Vec<[Chunk; CHUNKS_OF_THREAD]>);

struct Chunk {
    memory: Pinned,
    done: Event,
}

impl Staging {
    /// The chunks of as many threads as a copy of that size keeps busy.
    fn threads(
        &mut self,
        context: &Arc<Context>,
        byte_len: usize,
    ) -> Result<&[[Chunk; CHUNKS_OF_THREAD]], BackendError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = byte_len.div_ceil(CHUNK_BYTES).min(cores).min(THREADS_MAX);
        while self.0.len() < threads {
            let chunk = || -> Result<Chunk, BackendError> {
                Ok(Chunk { memory: Pinned::new(context, CHUNK_BYTES)?, done: Event::new(context)? })
            };
            self.0.push([chunk()?, chunk()?]);
        }
        Ok(&self.0[..threads])
    }
}

/// Where threads are told what to do. Streams are handles that any thread may use.
#[derive(Clone, Copy)]
struct Stream(sys::CUstream);

// SAFETY: as above.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// Copies bytes to the device; returns when they are read. `to` has room for them.
pub(crate) fn upload(
    context: &Arc<Context>,
    stream: sys::CUstream,
    staging: &mut Staging,
    to: CUdeviceptr,
    bytes: &[u8],
) -> Result<(), BackendError> {
    let fault = |error| context.fault(error, "an upload");
    if bytes.len() < LARGE_MIN {
        // SAFETY: the caller vouches for `to`, and host memory that is not pinned is staged before the call returns.
        return unsafe { result::memcpy_htod_async(to, bytes, stream) }.map_err(fault);
    }
    let threads = staging.threads(context, bytes.len())?;
    let stream = Stream(stream);
    let step = threads.len();
    share(threads, |first, chunks| {
        context.enter()?;
        let Stream(stream) = { stream };
        let pieces = bytes.chunks(CHUNK_BYTES).enumerate().skip(first).step_by(step);
        for (turn, (at, piece)) in pieces.enumerate() {
            let chunk = &chunks[turn % CHUNKS_OF_THREAD];
            // Also waits for an earlier copy's use of the chunk; an event that was never recorded has happened.
            chunk.done.wait()?;
            // SAFETY: the chunk has room, the device is done with it, and it belongs to this thread; the copy lies inside
            // `to`, as the piece inside `bytes`.
            unsafe {
                std::ptr::copy_nonoverlapping(piece.as_ptr(), chunk.memory.at(0), piece.len());
                let to = to + (at * CHUNK_BYTES) as u64;
                sys::cuMemcpyHtoDAsync_v2(to, chunk.memory.at(0).cast(), piece.len(), stream)
                    .result()
                    .map_err(|error| context.fault(error, "an upload"))?;
            }
            chunk.done.record(stream)?;
        }
        Ok(())
    })
}

/// Fills `out` with bytes from the device, behind what is on the stream; returns when they are there.
pub(crate) fn download(
    context: &Arc<Context>,
    stream: sys::CUstream,
    staging: &mut Staging,
    from: CUdeviceptr,
    out: &mut [MaybeUninit<u8>],
) -> Result<(), BackendError> {
    let fault = |error| context.fault(error, "a readback");
    if out.len() < LARGE_MIN {
        // SAFETY: the caller vouches for `from`, and the stream is waited for before `out` is looked at.
        return unsafe { result::memcpy_dtoh_async(out, from, stream) }
            .and_then(|()| unsafe { result::stream::synchronize(stream) })
            .map_err(fault);
    }
    let threads = staging.threads(context, out.len())?;
    let mut pieces: Vec<Vec<_>> = threads.iter().map(|_| Vec::new()).collect();
    for (at, piece) in out.chunks_mut(CHUNK_BYTES).enumerate() {
        pieces[at % threads.len()].push((at, piece));
    }
    let pieces: Vec<_> = pieces.into_iter().map(std::sync::Mutex::new).collect();
    let stream = Stream(stream);
    share(threads, |first, chunks| {
        context.enter()?;
        let Stream(stream) = { stream };
        let mut pieces = pieces[first].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let fetch = |turn: usize, at: usize, byte_len: usize| {
            let chunk = &chunks[turn % CHUNKS_OF_THREAD];
            // SAFETY: the chunk has room and belongs to this thread, which has emptied it; the range lies inside `from`.
            unsafe {
                let from = from + (at * CHUNK_BYTES) as u64;
                sys::cuMemcpyDtoHAsync_v2(chunk.memory.at(0).cast(), from, byte_len, stream)
            }
            .result()
            .map_err(|error| context.fault(error, "a readback"))?;
            chunk.done.record(stream)
        };
        for turn in 0..pieces.len().min(CHUNKS_OF_THREAD - 1) {
            fetch(turn, pieces[turn].0, pieces[turn].1.len())?;
        }
        for turn in 0..pieces.len() {
            if let Some((at, piece)) = pieces.get(turn + CHUNKS_OF_THREAD - 1) {
                fetch(turn + CHUNKS_OF_THREAD - 1, *at, piece.len())?;
            }
            let chunk = &chunks[turn % CHUNKS_OF_THREAD];
            chunk.done.wait()?;
            let piece = &mut *pieces[turn].1;
            // SAFETY: the device has written the chunk, and the piece is other memory of that length.
            unsafe {
                std::ptr::copy_nonoverlapping(chunk.memory.at(0), piece.as_mut_ptr().cast(), piece.len());
            }
        }
        Ok(())
    })
}

/// Runs the work of each thread, the first on this one.
fn share(
    threads: &[[Chunk; CHUNKS_OF_THREAD]],
    work: impl Fn(usize, &[Chunk; CHUNKS_OF_THREAD]) -> Result<(), BackendError> + Sync,
) -> Result<(), BackendError> {
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = threads[1..]
            .iter()
            .enumerate()
            .map(|(at, chunks)| std::thread::Builder::new().spawn_scoped(scope, move || work(at + 1, chunks)))
            .collect();
        let mut result = work(0, &threads[0]);
        for (at, other) in others.into_iter().enumerate() {
            let other = match other {
                Ok(handle) => handle.join().unwrap_or_else(|_| {
                    Err(BackendError::new("a copy's thread panicked. Fix: report it".to_owned()))
                }),
                // No more threads: its share is this one's.
                Err(_) => work(at + 1, &threads[at + 1]),
            };
            result = result.and(other);
        }
        result
    })
}
