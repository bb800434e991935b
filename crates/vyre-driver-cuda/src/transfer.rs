//! Copies between host and device.
//!
//! The device reads pinned host memory at the bus's speed and any other at a fraction of it. So large copies go through
//! a ring of pinned chunks. One chunk is one transfer on the bus, and each costs it a pause of some microseconds: chunks
//! are large. Threads fill or empty them piece by piece, each taking the next free one.
#![allow(unsafe_code)]

use crate::device::Context;
use crate::memory::Pinned;
use crate::stream::Event;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdeviceptr};
use std::mem::MaybeUninit;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use vyre_driver::BackendError;

/// Copies up to this size the driver stages itself at least as fast.
const LARGE_MIN: usize = 1 << 20;
/// What a thread copies at a time.
const PIECE_BYTES: usize = 512 << 10;
const CHUNK_BYTES_MAX: usize = 8 << 20;
const CHUNKS: usize = 4;
const THREADS_MAX: usize = 12;

/// The ring of pinned chunks of a stream, allocated when it is first needed.
#[derive(Default)]
pub(crate) struct Staging(Vec<Chunk>);

struct Chunk {
    memory: Pinned,
    /// The device's last transfer from or to it.
    done: Event,
}

impl Staging {
    /// A ring whose chunks have at least that size.
    fn ring(&mut self, context: &Arc<Context>, chunk_bytes: usize) -> Result<&[Chunk], BackendError> {
        if self.0.first().is_none_or(|chunk| chunk.memory.byte_len() < chunk_bytes) {
            for chunk in self.0.drain(..) {
                chunk.done.wait()?;
            }
            let chunk =
                |_| Ok(Chunk { memory: Pinned::new(context, chunk_bytes)?, done: Event::new(context)? });
            self.0 = (0..CHUNKS).map(chunk).collect::<Result<_, BackendError>>()?;
        }
        Ok(&self.0)
    }
}

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
    let plan = Plan::new(bytes.len());
    let ring = staging.ring(context, plan.chunk_bytes)?;
    let send = |at: usize, chunk: &Chunk, stream| {
        // SAFETY: the chunk is filled, and its part of `to` is as long as that of `bytes`.
        unsafe {
            let to = to + (at * plan.chunk_bytes) as u64;
            sys::cuMemcpyHtoDAsync_v2(to, chunk.memory.at(0).cast(), plan.len_of(at), stream)
        }
        .result()
        .map_err(fault)?;
        chunk.done.record(stream)
    };
    let fill = |piece: &[u8], place: *mut u8| {
        // SAFETY: the place has room for the piece, the device is done with it, and it is this thread's.
        unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), place, piece.len()) }
    };
    Turns::new(context, stream, ring, &plan).run(bytes.chunks(PIECE_BYTES), fill, send)
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
    let plan = Plan::new(out.len());
    let ring = staging.ring(context, plan.chunk_bytes)?;
    let fetch = |at: usize, chunk: &Chunk, stream| {
        if at >= plan.chunks() {
            return Ok(());
        }
        // SAFETY: the chunk is emptied and has room, and the range is inside `from` as it is inside `out`.
        unsafe {
            let from = from + (at * plan.chunk_bytes) as u64;
            sys::cuMemcpyDtoHAsync_v2(chunk.memory.at(0).cast(), from, plan.len_of(at), stream)
        }
        .result()
        .map_err(fault)?;
        chunk.done.record(stream)
    };
    for (at, chunk) in ring.iter().enumerate() {
        fetch(at, chunk, stream)?;
    }
    let empty = |piece: &mut [MaybeUninit<u8>], place: *mut u8| {
        // SAFETY: the device has written the place, which has as many bytes as the piece.
        unsafe { std::ptr::copy_nonoverlapping(place, piece.as_mut_ptr().cast(), piece.len()) }
    };
    Turns::new(context, stream, ring, &plan)
        .run(out.chunks_mut(PIECE_BYTES), empty, |at, chunk, stream| fetch(at + CHUNKS, chunk, stream))
}

/// How a copy is cut into chunks.
struct Plan {
    byte_len: usize,
    /// A multiple of a piece.
    chunk_bytes: usize,
}

impl Plan {
    fn new(byte_len: usize) -> Plan {
        // Some rounds of the ring, or the bus waits while the first chunks are filled and the last are emptied.
        let chunk_bytes = (byte_len / 16).next_multiple_of(PIECE_BYTES).min(CHUNK_BYTES_MAX);
        Plan { byte_len, chunk_bytes }
    }

    fn chunks(&self) -> usize {
        self.byte_len.div_ceil(self.chunk_bytes)
    }

    fn len_of(&self, chunk: usize) -> usize {
        self.chunk_bytes.min(self.byte_len - chunk * self.chunk_bytes)
    }

    fn pieces_of(&self, chunk: usize) -> usize {
        self.len_of(chunk).div_ceil(PIECE_BYTES)
    }
}

/// Who may use the ring's chunks: each is for one chunk of the copy at a time.
struct Turns<'a> {
    context: &'a Arc<Context>,
    stream: sys::CUstream,
    ring: &'a [Chunk],
    plan: &'a Plan,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The chunk of the copy that each of the ring is for, and how many pieces of it are left.
    turns: Vec<(usize, usize)>,
    failed: bool,
}

// SAFETY: streams are handles that any thread may use; all else is shared by its own rules.
unsafe impl Sync for Turns<'_> {}

impl<'a> Turns<'a> {
    fn new(context: &'a Arc<Context>, stream: sys::CUstream, ring: &'a [Chunk], plan: &'a Plan) -> Turns<'a> {
        let turns = (0..CHUNKS.min(plan.chunks())).map(|at| (at, plan.pieces_of(at))).collect();
        let state = Mutex::new(State { turns, failed: false });
        Turns { context, stream, ring, plan, state, changed: Condvar::new() }
    }

    /// Copies every piece from or to its place in the ring; behind a chunk's last piece, `next` uses the bus.
    fn run<Piece: Send>(
        &self,
        pieces: impl Iterator<Item = Piece> + Send,
        copy: impl Fn(Piece, *mut u8) + Sync,
        next: impl Fn(usize, &Chunk, sys::CUstream) -> Result<(), BackendError> + Sync,
    ) -> Result<(), BackendError> {
        let count = self.plan.byte_len.div_ceil(PIECE_BYTES);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pieces = Mutex::new(pieces.enumerate());
        let work = || {
            let result = self.context.enter().and_then(|()| self.work(&pieces, &copy, &next));
            if result.is_err() {
                self.state().failed = true;
                self.changed.notify_all();
            }
            result
        };
        std::thread::scope(|scope| {
            // With fewer threads than asked for, those there are do all the same.
            let others: Vec<_> = (1..count.min(cores).min(THREADS_MAX))
                .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            let result = work();
            others.into_iter().fold(result, |result, other| {
                result.and(
                    other.join().unwrap_or_else(|_| {
                        Err(BackendError::other("a copy's thread panicked", "report it"))
                    }),
                )
            })
        })
    }

    fn work<Piece>(
        &self,
        pieces: &Mutex<impl Iterator<Item = (usize, Piece)>>,
        copy: impl Fn(Piece, *mut u8),
        next: impl Fn(usize, &Chunk, sys::CUstream) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let pieces_of_chunk = self.plan.chunk_bytes / PIECE_BYTES;
        loop {
            let piece = pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, piece)) = piece else { return Ok(()) };
            let (at, slot) = (number / pieces_of_chunk, number / pieces_of_chunk % CHUNKS);
            let chunk = &self.ring[slot];
            // Pieces are taken in order, so those that the turn waits for are in other threads' hands.
            let waits = |state: &mut State| state.turns[slot].0 != at && !state.failed;
            let state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
            if state.failed {
                return Ok(());
            }
            drop(state);
            // An event that was never recorded has happened.
            chunk.done.wait()?;
            copy(piece, chunk.memory.at(number % pieces_of_chunk * PIECE_BYTES));
            let left = {
                let left = &mut self.state().turns[slot].1;
                *left -= 1;
                *left
            };
            if left == 0 {
                next(at, chunk, self.stream)?;
                let to_come = at + CHUNKS;
                if to_come < self.plan.chunks() {
                    self.state().turns[slot] = (to_come, self.plan.pieces_of(to_come));
                    self.changed.notify_all();
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
