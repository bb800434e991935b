//! Does the work that the driver layer hands over.
#![allow(unsafe_code)]

use crate::ID;
use crate::compile::{self, Kernel};
use crate::context::Context;
use crate::lane::{GRACE, Lane};
use crate::memory::{Block, Pool};
use crate::transfer;
use cudarc::driver::result;
use cudarc::driver::sys;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vyre_driver::pipeline::{DiskCache, cache_dir};
use vyre_driver::queue::{About, Launch, Queue, Read, Stop, Times, Work};
use vyre_driver::{BackendError, DeviceProfile, DeviceTimingQuality};
use vyre_foundation::limits;
use vyre_foundation::validate::ValidProgram;

/// Rounds of a repeated sequence in one graph: few enough to prepare at once, enough that launching the graph costs little.
const GRAPH_ROUNDS: u32 = 16;
/// Workgroups that a launch may have along y and along z, on every device.
const AXIS_MAX: u32 = 65_535;
const CACHE_BYTES_MAX: u64 = 256 << 20;

/// How a device is opened.
#[derive(Clone, Debug, Default)]
pub struct CudaConfig {
    /// Which device, as CUDA numbers them.
    pub ordinal: u32,
    /// Where compiled kernels are kept between processes; `None` keeps none.
    pub cache: Option<PathBuf>,
}

impl CudaConfig {
    /// The device that `VYRE_CUDA_DEVICE` numbers, or the first; `none` is none at all. Kernels are kept in `VYRE_CACHE`,
    /// or in the user's directory for caches. An empty `VYRE_CACHE` keeps none.
    pub fn from_env() -> Result<CudaConfig, BackendError> {
        let ordinal = match std::env::var("VYRE_CUDA_DEVICE").as_deref() {
            Err(_) => 0,
            Ok("none") => {
                return Err(BackendError::Unavailable {
                    backend: ID.into(),
                    reason: "VYRE_CUDA_DEVICE is `none`".into(),
                    fix: "unset VYRE_CUDA_DEVICE".into(),
                });
            }
            Ok(text) => text.parse().map_err(|_| {
                BackendError::other(
                    format!("VYRE_CUDA_DEVICE is `{}`", text.escape_debug()),
                    "set it to a device's number, as `nvidia-smi` lists them",
                )
            })?,
        };
        Ok(CudaConfig { ordinal, cache: cache_dir(ID) })
    }
}

/// An NVIDIA device that takes work.
pub struct Cuda {
    context: Arc<Context>,
    pool: Arc<Pool>,
    /// Lanes that no submission uses now.
    lanes: Mutex<Vec<Lane>>,
    cache: Option<DiskCache>,
    config: CudaConfig,
}

/// Memory of a device.
pub struct Memory(Block);

impl Cuda {
    pub(crate) fn open(config: &CudaConfig) -> Result<Cuda, BackendError> {
        let context = Arc::new(Context::open(config.ordinal)?);
        let cache = config.cache.as_ref().and_then(|dir| match DiskCache::open(dir, CACHE_BYTES_MAX) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(%error, dir = %dir.display(), "kernels are not kept on disk. Fix: set VYRE_CACHE to a folder that you may write to");
                None
            }
        });
        let pool = Pool::new(Arc::clone(&context));
        Ok(Cuda { context, pool, lanes: Mutex::default(), cache, config: config.clone() })
    }

    fn lanes(&self) -> std::sync::MutexGuard<'_, Vec<Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue for Cuda {
    type Memory = Memory;
    type Kernel = Kernel;

    fn about(&self) -> About {
        let facts = &self.context.facts;
        let axes = [0, 1, 2].map(|axis| facts.axes_max[axis].min(limits::WORKGROUP_AXIS_MAX[axis]));
        About {
            id: ID,
            version: env!("CARGO_PKG_VERSION"),
            device: facts.name.clone(),
            driver: facts.driver.clone(),
            workgroups_max: i32::MAX as u32,
            async_compute: true,
            grid_sync: facts.cooperative,
            profile: DeviceProfile {
                supports_subgroup_ops: true,
                supports_indirect_dispatch: true,
                supports_f16: true,
                supports_bf16: facts.sm >= 80,
                supports_tensor_cores: facts.sm >= 80,
                supports_trap_propagation: true,
                has_mul_high: true,
                has_subgroup_shuffle: true,
                has_shared_memory: true,
                max_native_int_width: 64,
                max_workgroup_size: axes,
                max_invocations_per_workgroup: facts.lanes_max.min(limits::WORKGROUP_LANES_MAX),
                max_shared_memory_bytes: facts.shared_bytes_max,
                max_storage_buffer_binding_size: facts.memory_bytes,
                subgroup_size: 32,
                compute_units: facts.compute_units,
                regs_per_thread_max: facts.registers_max,
                l2_cache_bytes: facts.l2_bytes,
                timing_quality: DeviceTimingQuality::DeviceEvents,
                supports_device_timestamps: true,
                shared_memory_bank_count: 32,
                shared_memory_bank_width_bytes: 4,
                ..DeviceProfile::unknown(ID)
            },
        }
    }

    fn allocate(&self, byte_len: usize) -> Result<Memory, BackendError> {
        self.pool.allocate(byte_len).map(Memory)
    }

    fn compile(&self, program: &ValidProgram, stoppable: bool) -> Result<Kernel, BackendError> {
        compile::compile(&self.context, self.cache.as_ref(), program, stoppable)
    }

    fn submit(&self, work: Work<'_, Cuda>, stop: &Stop<'_>) -> Result<Times, BackendError> {
        self.context.enter()?;
        let lane = self.lanes().pop();
        let mut lane = match lane {
            Some(lane) => lane,
            None => Lane::new(&self.context, &self.pool)?,
        };
        let result = run(&mut lane, work, stop);
        // What failed half-way may still be on the stream, and memory must not be reused under it. A kernel that does not
        // end is not waited for: it lost the device, and its memory with it.
        if result.is_ok() || !self.is_lost() && lane.wait().and_then(|()| lane.reset()).is_ok() {
            self.lanes().push(lane);
        }
        result
    }

    fn resident_workgroups(&self, kernel: &Kernel, lanes: u64) -> Result<u64, BackendError> {
        if !self.context.facts.cooperative {
            return Ok(0);
        }
        self.context.enter()?;
        // SAFETY: the function belongs to a module that lives.
        let of_each = unsafe {
            result::occupancy::max_active_block_per_multiprocessor(
                kernel.function,
                lanes as i32,
                kernel.shared_bytes as usize,
            )
        };
        let of_each = of_each.map_err(|error| self.context.fault(error, "the occupancy"))?;
        Ok(of_each.max(0) as u64 * u64::from(self.context.facts.compute_units))
    }

    fn is_lost(&self) -> bool {
        self.context.is_lost()
    }

    fn lose(&self) {
        self.context.lose();
    }

    fn reopen(&self) -> Result<Cuda, BackendError> {
        Cuda::open(&self.config)
    }
}

fn run(lane: &mut Lane, mut work: Work<'_, Cuda>, stop: &Stop<'_>) -> Result<Times, BackendError> {
    let start = Instant::now();
    for Memory(block) in &work.clears {
        // SAFETY: the block has that many bytes.
        unsafe { result::memset_d8_async(block.address, 0, block.byte_len, lane.stream) }
            .map_err(|error| lane.fault(error, "clearing memory"))?;
    }
    for (Memory(block), offset, bytes) in &work.uploads {
        assert!(offset + bytes.len() <= block.byte_len, "the driver layer checks ranges");
        let to = block.address + *offset as u64;
        transfer::upload(&lane.context, lane.stream, &mut lane.staging, to, bytes)?;
    }
    let launches = !work.launches.is_empty() || !work.repeated.is_empty() && work.repeat_count > 0;
    let mut times = Times::default();
    if launches {
        if work.timed {
            lane.begin.record(lane.stream)?;
        }
        work.launches.iter().try_for_each(|one| launch(lane, one))?;
        repeat(lane, &work.repeated, work.repeat_count)?;
        if work.timed || stop.is_possible() {
            lane.end.record(lane.stream)?;
        }
        times.enqueue = start.elapsed();
        if stop.is_possible() {
            wait(lane, stop)?;
        }
    }
    let traps = work.launches.iter().chain(&work.repeated).any(|one| !one.kernel.traps.is_empty());
    if traps {
        lane.fetch_trap()?;
    }
    read(lane, &mut work.reads)?;
    if traps && let Some(error) = trap(lane, &work) {
        return Err(error);
    }
    if launches && work.timed {
        times.device_ns = lane.begin.nanoseconds_to(&lane.end);
    }
    Ok(times)
}

/// Launches a kernel: in pieces where the grid has more workgroups along y or z than the device takes at once. No program
/// with grid barriers has, because its workgroups are all on the device together.
fn launch(lane: &Lane, one: &Launch<'_, Cuda>) -> Result<(), BackendError> {
    let admission = one.admission;
    let mut arguments: Vec<u64> = Vec::with_capacity(2 * one.buffers.len() + 9);
    for (Memory(block), elements) in one.buffers.iter().zip(admission.bound_lens()) {
        arguments.extend([block.address, u64::from(elements)]);
    }
    let [trap, sync] = lane.state();
    let [x, y, z] = admission.grid;
    arguments.extend([trap, lane.cancel_address(), sync, 0, 0, u64::from(x), u64::from(y), u64::from(z), 0]);
    let first = arguments.len() - 6;
    if one.kernel.cooperative {
        lane.reset_barrier()?;
    }
    let lanes = u64::from(x) * u64::from(admission.parts().workgroup[0]);
    let x = lanes.div_ceil(u64::from(one.kernel.block_lanes)) as u32;
    for first_z in (0..z).step_by(AXIS_MAX as usize) {
        for first_y in (0..y).step_by(AXIS_MAX as usize) {
            (arguments[first], arguments[first + 1]) = (u64::from(first_y), u64::from(first_z));
            let grid = (x, (y - first_y).min(AXIS_MAX), (z - first_z).min(AXIS_MAX));
            launch_piece(lane, one, grid, &arguments)?;
        }
    }
    Ok(())
}

fn launch_piece(
    lane: &Lane,
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
    unsafe { launch(kernel.function, grid, (x, y, z), kernel.shared_bytes, lane.stream, &mut pointers) }
        .map_err(|error| lane.fault(error, "a launch"))
}

/// Launches again and again, many rounds at once as a graph.
fn repeat(lane: &Lane, launches: &[Launch<'_, Cuda>], count: u32) -> Result<(), BackendError> {
    if launches.is_empty() {
        return Ok(());
    }
    let rounds =
        |count: u32| (0..count).try_for_each(|_| launches.iter().try_for_each(|one| launch(lane, one)));
    if count >= 2 * GRAPH_ROUNDS {
        let graph = Graph::record(lane, || rounds(GRAPH_ROUNDS))?;
        for _ in 0..count / GRAPH_ROUNDS {
            graph.launch(lane)?;
        }
        rounds(count % GRAPH_ROUNDS)?;
        // The graph must live until it has run.
        return lane.wait();
    }
    rounds(count)
}

struct Graph {
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

impl Graph {
    /// What `enqueue` puts on the lane's stream, as a graph.
    fn record(
        lane: &Lane,
        enqueue: impl FnOnce() -> Result<(), BackendError>,
    ) -> Result<Graph, BackendError> {
        let fault = |error| lane.fault(error, "a graph");
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and captures nothing yet; the capture ends whatever happens in between.
        let (enqueued, captured) = unsafe {
            result::stream::begin_capture(lane.stream, mode).map_err(fault)?;
            (enqueue(), result::stream::end_capture(lane.stream))
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

    fn launch(&self, lane: &Lane) -> Result<(), BackendError> {
        // SAFETY: the graph and the stream are alive.
        unsafe { result::graph::launch(self.executable, lane.stream) }
            .map_err(|error| lane.fault(error, "a graph"))
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
fn wait(lane: &Lane, stop: &Stop<'_>) -> Result<(), BackendError> {
    let mut stopped: Option<(BackendError, Instant)> = None;
    let mut rounds = 0u32;
    while !lane.end.happened()? {
        if let Some((error, since)) = &stopped {
            if since.elapsed() > GRACE {
                lane.context.abandon();
                let cause = format!("a kernel did not end after it was cancelled: {error}");
                return Err(BackendError::DeviceLost { backend: ID.into(), cause });
            }
        } else if let Some(reason) = stop.reason() {
            if let Err(error) = lane.cancel() {
                lane.context.abandon();
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
fn read(lane: &mut Lane, reads: &mut [Read<'_, Cuda>]) -> Result<(), BackendError> {
    let mut small = Vec::new();
    let mut end = 0usize;
    for Read { memory: Memory(block), offset, byte_len, out } in reads.iter_mut() {
        assert!(*offset + *byte_len <= block.byte_len, "the driver layer checks ranges");
        let from = block.address + *offset as u64;
        let at = end.next_multiple_of(16);
        if at + *byte_len <= Lane::READS_BYTES {
            lane.fetch_read(from, at, *byte_len)?;
            end = at + *byte_len;
            small.push((at, *byte_len, out));
        } else {
            let room = &mut out.spare_capacity_mut()[..*byte_len];
            transfer::download(&lane.context, lane.stream, &mut lane.staging, from, room)?;
            // SAFETY: the download has written that many bytes behind those that were there.
            unsafe { out.set_len(out.len() + *byte_len) };
        }
    }
    lane.wait()?;
    small.into_iter().for_each(|(at, byte_len, out)| lane.take_read(at, byte_len, out));
    Ok(())
}

/// The error of the first trap, if there was one.
fn trap(lane: &Lane, work: &Work<'_, Cuda>) -> Option<BackendError> {
    let number = lane.trap()?;
    // Sequences of several launches have no traps, so there is one kernel that can have recorded it.
    let mut kernels = work.launches.iter().chain(&work.repeated).map(|one| &one.kernel);
    let kernel = kernels.find(|kernel| !kernel.traps.is_empty())?;
    let (code, place) = *kernel.traps.get(number as usize)?;
    Some(BackendError::Trap { code, place, lane: None })
}
