//! One submission on a stream: clears, uploads, launches, readbacks, and the wait for all of it.
#![allow(unsafe_code)]

use crate::ID;
use crate::device::Cuda;
use crate::memory::Memory;
use crate::stream::{GRACE, Stream};
use crate::transfer;
use cudarc::driver::result;
use cudarc::driver::sys;
use std::ffi::c_void;
use std::time::{Duration, Instant};
use vyre_driver::BackendError;
use vyre_driver::queue::{Launch, Read, Stop, Times, Work};

/// Rounds of a repeated sequence in one graph: few enough to prepare at once, enough that launching the graph costs little.
const GRAPH_ROUNDS: u32 = 16;
/// Workgroups that a launch may have along y and along z, on every device.
const AXIS_MAX: u32 = 65_535;

/// Does the work of one submission, in order, and returns when all of it is done.
pub(crate) fn submit(
    stream: &mut Stream,
    mut work: Work<'_, Cuda>,
    stop: &Stop,
) -> Result<Times, BackendError> {
    let start = Instant::now();
    for Memory(block) in &work.clears {
        // SAFETY: the block has that many bytes.
        unsafe { result::memset_d8_async(block.address, 0, block.byte_len, stream.raw) }
            .map_err(|error| stream.fault(error, "clearing memory"))?;
    }
    for (Memory(block), offset, bytes) in &work.uploads {
        assert!(offset + bytes.len() <= block.byte_len, "the driver layer checks ranges");
        let to = block.address + *offset as u64;
        transfer::upload(&stream.context, stream.raw, &mut stream.staging, to, bytes)?;
    }
    let launches = !work.launches.is_empty() || !work.repeated.is_empty() && work.repeat_count > 0;
    let mut times = Times::default();
    if launches {
        if work.timed {
            stream.begin.record(stream.raw)?;
        }
        work.launches.iter().try_for_each(|one| launch(stream, one))?;
        repeat(stream, &work.repeated, work.repeat_count)?;
        if work.timed || stop.is_possible() {
            stream.end.record(stream.raw)?;
        }
        times.enqueue = start.elapsed();
        if stop.is_possible() {
            wait(stream, stop)?;
        }
    }
    let traps = work.launches.iter().chain(&work.repeated).any(|one| !one.kernel.traps.is_empty());
    if traps {
        stream.fetch_trap()?;
    }
    read(stream, &mut work.reads)?;
    if traps && let Some(error) = trap(stream, &work) {
        return Err(error);
    }
    if launches && work.timed {
        times.device_ns = stream.begin.nanoseconds_to(&stream.end);
    }
    Ok(times)
}

/// Launches a kernel: in pieces where the grid has more workgroups along y or z than the device takes at once. No program
/// with grid barriers has, because its workgroups are all on the device together.
fn launch(stream: &Stream, one: &Launch<'_, Cuda>) -> Result<(), BackendError> {
    let admission = one.admission;
    let mut arguments: Vec<u64> = Vec::with_capacity(2 * one.buffers.len() + 9);
    for (Memory(block), elements) in one.memories().zip(admission.bound_lens()) {
        arguments.extend([block.address, u64::from(elements)]);
    }
    let [trap, sync] = stream.state();
    let [x, y, z] = admission.grid;
    arguments.extend([
        trap,
        stream.cancel_address(),
        sync,
        0,
        0,
        u64::from(x),
        u64::from(y),
        u64::from(z),
        0,
    ]);
    let first = arguments.len() - 6;
    if one.kernel.cooperative {
        stream.reset_barrier()?;
    }
    let lanes = u64::from(x) * u64::from(admission.parts().workgroup[0]);
    let x = lanes.div_ceil(u64::from(one.kernel.block_lanes)) as u32;
    for first_z in (0..z).step_by(AXIS_MAX as usize) {
        for first_y in (0..y).step_by(AXIS_MAX as usize) {
            (arguments[first], arguments[first + 1]) = (u64::from(first_y), u64::from(first_z));
            let grid = (x, (y - first_y).min(AXIS_MAX), (z - first_z).min(AXIS_MAX));
            launch_piece(stream, one, grid, &arguments)?;
        }
    }
    Ok(())
}

fn launch_piece(
    stream: &Stream,
    one: &Launch<'_, Cuda>,
    grid: (u32, u32, u32),
    arguments: &[u64],
) -> Result<(), BackendError> {
    let mut pointers: Vec<*mut c_void> =
        arguments.iter().map(|argument| std::ptr::from_ref(argument).cast_mut().cast()).collect();
    let kernel = &one.kernel;
    let [x, y, z] = kernel.block;
    let launch = if kernel.cooperative { result::launch_cooperative_kernel } else { result::launch_kernel };
    // SAFETY: the arguments are those that the kernel declares, in order, the narrow ones in the low half of theirs;
    // buffers are alive until the stream was waited for, and every access in the kernel is within their bounds.
    unsafe { launch(kernel.function, grid, (x, y, z), kernel.shared_bytes, stream.raw, &mut pointers) }
        .map_err(|error| stream.fault(error, "a launch"))
}

/// Launches again and again, many rounds at once as a graph.
fn repeat(stream: &Stream, launches: &[Launch<'_, Cuda>], count: u32) -> Result<(), BackendError> {
    if launches.is_empty() {
        return Ok(());
    }
    let rounds =
        |count: u32| (0..count).try_for_each(|_| launches.iter().try_for_each(|one| launch(stream, one)));
    if count >= 2 * GRAPH_ROUNDS {
        let graph = Graph::record(stream, || rounds(GRAPH_ROUNDS))?;
        for _ in 0..count / GRAPH_ROUNDS {
            graph.launch(stream)?;
        }
        rounds(count % GRAPH_ROUNDS)?;
        // The graph must live until it has run.
        return stream.wait();
    }
    rounds(count)
}

struct Graph {
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

impl Graph {
    /// What `enqueue` puts on the stream, as a graph.
    fn record(
        stream: &Stream,
        enqueue: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<Graph, BackendError> {
        let fault = |error| stream.fault(error, "a graph");
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and captures nothing yet; the capture ends whatever happens in between.
        let (enqueued, captured) = unsafe {
            result::stream::begin_capture(stream.raw, mode).map_err(fault)?;
            (enqueue(), result::stream::end_capture(stream.raw))
        };
        // Made before the errors are looked at, so that what was captured is destroyed whatever came of it.
        let captured = captured.map(|graph| Graph { graph, executable: std::ptr::null_mut() });
        enqueued?;
        let mut graph = captured.map_err(fault)?;
        // SAFETY: the graph was just captured.
        graph.executable =
            unsafe { result::graph::instantiate(graph.graph, sys::CUgraphInstantiate_flags(0)) }
                .map_err(fault)?;
        Ok(graph)
    }

    fn launch(&self, stream: &Stream) -> Result<(), BackendError> {
        // SAFETY: the graph and the stream are alive.
        unsafe { result::graph::launch(self.executable, stream.raw) }
            .map_err(|error| stream.fault(error, "a graph"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: each is destroyed once, after it has run.
        unsafe {
            if !self.executable.is_null() {
                let _ = result::graph::exec_destroy(self.executable);
            }
            let _ = result::graph::destroy(self.graph);
        }
    }
}

/// Waits for the launches. When they should end they are cancelled, and the reason comes back.
fn wait(stream: &Stream, stop: &Stop) -> Result<(), BackendError> {
    let mut stopped: Option<(BackendError, Instant)> = None;
    let mut rounds = 0u32;
    while !stream.end.happened()? {
        if let Some((error, since)) = &stopped {
            if since.elapsed() > GRACE {
                stream.context.abandon();
                let cause = format!("a kernel did not end after it was cancelled: {error}");
                return Err(BackendError::DeviceLost { backend: ID.into(), cause });
            }
        } else if let Some(reason) = stop.reason() {
            if let Err(error) = stream.cancel() {
                stream.context.abandon();
                let cause = format!("a kernel could not be cancelled: {error}");
                return Err(BackendError::DeviceLost { backend: ID.into(), cause });
            }
            stopped = Some((reason, Instant::now()));
        }
        rounds += 1;
        // Short kernels are met by spinning, long ones by sleeping.
        if rounds > 1000 { std::thread::sleep(Duration::from_micros(50)) } else { std::hint::spin_loop() }
    }
    stopped.map_or(Ok(()), |(error, _)| Err(error))
}

/// Reads ranges back and waits for the stream: small ones together, large ones each through the staging chunks.
fn read(stream: &mut Stream, reads: &mut [Read<'_, Cuda>]) -> Result<(), BackendError> {
    let mut small = Vec::new();
    let mut end = 0usize;
    for Read { memory: Memory(block), offset, byte_len, out } in reads.iter_mut() {
        assert!(*offset + *byte_len <= block.byte_len, "the driver layer checks ranges");
        let from = block.address + *offset as u64;
        let at = end.next_multiple_of(16);
        if at + *byte_len <= Stream::READS_BYTES {
            stream.fetch_read(from, at, *byte_len)?;
            end = at + *byte_len;
            small.push((at, *byte_len, out));
        } else {
            let room = &mut out.spare_capacity_mut()[..*byte_len];
            transfer::download(&stream.context, stream.raw, &mut stream.staging, from, room)?;
            // SAFETY: the download has written that many bytes behind those that were there.
            unsafe { out.set_len(out.len() + *byte_len) };
        }
    }
    stream.wait()?;
    small.into_iter().for_each(|(at, byte_len, out)| stream.take_read(at, byte_len, out));
    Ok(())
}

/// The error of the first trap, if there was one.
fn trap(stream: &Stream, work: &Work<'_, Cuda>) -> Option<BackendError> {
    let number = stream.trap()?;
    // Sequences of several launches have no traps, so there is one kernel that can have recorded it.
    let mut kernels = work.launches.iter().chain(&work.repeated).map(|one| &one.kernel);
    let kernel = kernels.find(|kernel| !kernel.traps.is_empty())?;
    let (code, place) = *kernel.traps.get(number as usize)?;
    Some(BackendError::Trap { code, place, lane: None })
}
