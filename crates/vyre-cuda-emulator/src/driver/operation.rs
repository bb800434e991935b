//! What a stream's thread does: copies, fills, kernels, graphs and functions of the host.
//!
//! Device memory is looked up again when an operation runs, because a graph keeps addresses of memory that may be freed
//! by then. Small seeded delays before copies make it visible when a program does not wait for them.

use super::Call;
use super::capture::Node;
use super::context::Context;
use super::faults::Effect;
use super::ffi::{Callback, HostFunction, move_host, read_host, write_host};
use super::state::Driver;
use crate::choices::Choices;
use crate::engine::Launch;
use crate::executor::Compiled;
use crate::fault::{Code, Fault};
use crate::memory::{Block, STALE};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Host memory is copied in pieces of this size.
const PIECE: usize = 1 << 16;
/// How much of the destination of a download is overwritten while it is under way.
const SCRIBBLED_MAX: usize = 4096;

/// Host memory that a copy reads.
#[derive(Clone)]
pub(super) enum Source {
    /// Read while the call was made.
    Staged(Arc<[u8]>),
    /// Read when the stream gets there.
    Address(usize),
}

#[derive(Clone)]
pub(super) enum Operation {
    Nothing,
    /// A kernel, and what a program outside made of it.
    Launch(Arc<Launch>, Option<Compiled>),
    Upload {
        from: Source,
        to: u64,
        byte_len: usize,
    },
    Download {
        from: u64,
        to: usize,
        byte_len: usize,
    },
    Move {
        from: u64,
        to: u64,
        byte_len: usize,
    },
    HostMove {
        from: usize,
        to: usize,
        byte_len: usize,
    },
    Fill {
        to: u64,
        pattern: [u8; 4],
        width: usize,
        count: usize,
    },
    /// Where an event takes its time.
    Record(Arc<OnceLock<Instant>>),
    Function {
        function: HostFunction,
        data: usize,
    },
    Callback {
        callback: Callback,
        stream: usize,
        data: usize,
    },
    Graph {
        nodes: Arc<[Node]>,
        effects: Arc<[Option<Effect>]>,
    },
}

impl Operation {
    pub(super) fn run(&self, context: &Context) -> Call {
        match self {
            Operation::Nothing => Ok(()),
            Operation::Launch(launch, outside) => {
                if let Some(compiled) = outside
                    && Driver::get()?.compiler.launch_outside(context, launch, compiled)?
                {
                    return Ok(());
                }
                launch.run(&context.heap, &context.device.model, &context.stop)
            }
            Operation::Upload { from, to, byte_len } => {
                let block = find(context, *to, *byte_len)?;
                begin_copy(context, *byte_len);
                upload(&block, *to, from, *byte_len);
                Ok(())
            }
            Operation::Download { from, to, byte_len } => {
                let block = find(context, *from, *byte_len)?;
                // What is there meanwhile is undefined: who looks too early must not see the bytes of last time.
                write_host(*to, &[STALE; SCRIBBLED_MAX][..(*byte_len).min(SCRIBBLED_MAX)]);
                begin_copy(context, *byte_len);
                download(&block, *from, *to, *byte_len);
                Ok(())
            }
            Operation::Move { from, to, byte_len } => {
                let (source, dest) = (find(context, *from, *byte_len)?, find(context, *to, *byte_len)?);
                begin_copy(context, *byte_len);
                dest.copy_from(*to - dest.address, &source, *from - source.address, *byte_len as u64);
                Ok(())
            }
            Operation::HostMove { from, to, byte_len } => {
                move_host(*from, *to, *byte_len);
                Ok(())
            }
            Operation::Fill { to, pattern, width, count } => {
                begin_copy(context, 0);
                fill(&*find(context, *to, width * count)?, *to, &pattern[..*width], *count);
                Ok(())
            }
            Operation::Record(time) => {
                // A graph's record is set again each time, and the first time is as good as any.
                let _ = time.set(Instant::now());
                Ok(())
            }
            Operation::Function { function, data } => {
                function.call(*data);
                Ok(())
            }
            Operation::Callback { callback, stream, data } => {
                callback.call(*stream, 0, *data);
                Ok(())
            }
            Operation::Graph { nodes, effects } => run_graph(context, nodes, effects),
        }
    }

    /// What happens in place of the operation once its context has failed.
    pub(super) fn drop_in(&self, context: &Context) {
        if let (Operation::Callback { callback, stream, data }, Some(fault)) = (self, context.fault()) {
            callback.call(*stream, fault.code as u32, *data);
        }
    }

    pub(super) fn is_copy(&self) -> bool {
        matches!(self, Operation::Upload { .. } | Operation::Download { .. } | Operation::Move { .. })
    }
}

fn find(context: &Context, address: u64, byte_len: usize) -> Call<Arc<Block>> {
    let gone = || {
        let message =
            format!("an operation of a stream reaches {address:#x}, whose memory was freed before it ran");
        Fault::new(Code::IllegalAddress, message)
    };
    Driver::get()?.find_memory(context, address, byte_len as u64).ok_or_else(gone)
}

/// Takes the time that the device's copies take, and now and then a little more.
fn begin_copy(context: &Context, byte_len: usize) {
    let mut time = small_delay();
    if let Some(rate) = context.device.model.copy_bytes_per_second {
        time += Duration::from_secs_f64(byte_len as f64 / rate as f64);
    }
    if !time.is_zero() {
        context.pause(Some(time));
    }
}

/// Nothing for half of all operations, tens of microseconds for the others.
fn small_delay() -> Duration {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let seed = Driver::get().map_or(1, |driver| driver.seed);
    let number = Choices::new(seed).at(DRAWN.fetch_add(1, Ordering::Relaxed));
    if number & 1 == 0 { Duration::ZERO } else { Duration::from_micros(number >> 1 & 63) }
}

fn upload(block: &Block, to: u64, from: &Source, byte_len: usize) {
    let offset = to - block.address;
    match from {
        Source::Staged(bytes) => block.write(offset, bytes),
        Source::Address(address) => {
            let mut buffer = vec![0; byte_len.min(PIECE)];
            for at in (0..byte_len).step_by(PIECE) {
                let piece = &mut buffer[..(byte_len - at).min(PIECE)];
                read_host(address + at, piece);
                block.write(offset + at as u64, piece);
            }
        }
    }
}

fn download(block: &Block, from: u64, to: usize, byte_len: usize) {
    let mut buffer = vec![0; byte_len.min(PIECE)];
    for at in (0..byte_len).step_by(PIECE) {
        let piece = &mut buffer[..(byte_len - at).min(PIECE)];
        block.read(from - block.address + at as u64, piece);
        write_host(to + at, piece);
    }
}

fn fill(block: &Block, to: u64, pattern: &[u8], count: usize) {
    let repeated = pattern.repeat((PIECE / pattern.len()).min(count));
    let byte_len = pattern.len() * count;
    for at in (0..byte_len).step_by(repeated.len().max(1)) {
        let len = (byte_len - at).min(repeated.len());
        block.write(to - block.address + at as u64, &repeated[..len]);
    }
}

/// Runs nodes one after another, in an order that their dependencies allow and the seed draws.
fn run_graph(context: &Context, nodes: &[Node], effects: &[Option<Effect>]) -> Call {
    static LAUNCHES: AtomicU64 = AtomicU64::new(0);
    let seed = Driver::get()?.seed ^ Choices::new(0).at(LAUNCHES.fetch_add(1, Ordering::Relaxed));
    let mut done = vec![false; nodes.len()];
    for step in 0..nodes.len() {
        let ready: Vec<usize> = (0..nodes.len())
            .filter(|at| !done[*at] && nodes[*at].after.iter().all(|dep| done[*dep]))
            .collect();
        let at = ready[Choices::new(seed).at(step as u64) as usize % ready.len()];
        if context.is_stopped() {
            return Ok(());
        }
        match effects.get(at).cloned().flatten() {
            None => nodes[at].operation.run(context)?,
            Some(Effect::Fail(fault)) => return Err(fault),
            Some(Effect::Hang) => context.pause(None),
        }
        done[at] = true;
    }
    Ok(())
}
