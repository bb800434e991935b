//! What a dispatch costs beside the CUDA driver used by hand, in one process: `latency [ROUNDS]`.
//!
//! The hand-written side launches the same PTX with everything made before the clock starts. Rounds of both sides alternate;
//! the table has medians. Not here: how fast kernels are, which `vyre bench` measures.
#![allow(clippy::print_stdout, unsafe_code)]

use cudarc::driver::{result, sys};
use std::ffi::{CString, c_void};
use std::time::{Duration, Instant};
use vyre_driver::{DispatchConfig, ResidentDispatchStep, Resource, VyreBackend};
use vyre_driver_cuda::{CudaBackend, CudaConfig};
use vyre_foundation::ir::Program;
use vyre_foundation::{text, validate};
use vyre_lower::ptx;

/// Launches in a row.
const TURNS: usize = 1000;
/// Bytes of the large transfers.
const LARGE: usize = 1 << 30;

/// A small kernel; `salt` makes it one that no cache has seen.
fn small(salt: u32) -> Program {
    let source = format!(
        "program @small workgroup(256, 1, 1) {{
           buffer @y : read_write u32[] binding 0 output
           %i = global_id x
           %v = load.u32 @y[%i]
           %w = add.u32 %v, {salt}
           store.u32 @y[%i], %w
         }}"
    );
    text::parse(&source).expect("it parses").program
}

/// A loop that does little in a trip, so that a look at the cancel word weighs.
fn looping() -> Program {
    let source = "program @looping workgroup(256, 1, 1) {
       buffer @y : read_write u32[] binding 0 output
       %i = global_id x
       %end = load.u32 @y[%i]
       var $x : u32 = %i
       for %j in 0..%end {
         %a = get.u32 $x
         %b = mul.u32 %a, 1664525
         %c = add.u32 %b, %j
         set.u32 $x, %c
       }
       %r = get.u32 $x
       store.u32 @y[%i], %r
     }";
    text::parse(source).expect("it parses").program
}

/// The driver by hand: a context, a stream, and the small kernel with its memory.
struct Raw {
    context: sys::CUcontext,
    stream: sys::CUstream,
    function: sys::CUfunction,
    block: [u32; 3],
    arguments: Vec<u64>,
}

impl Raw {
    fn open(sm: u32) -> Raw {
        result::init().expect("the driver is there");
        let device = result::device::get(0).expect("there is a device");
        let valid = validate::validate(&small(1)).expect("it is valid");
        let module = ptx::lower(&valid, &ptx::Options { sm, poll: false }).expect("it is small");
        let source = CString::new(module.source).expect("PTX has no zero bytes");
        let name = CString::new(module.entry).expect("the name has no zero bytes");
        // SAFETY: each handle is used while it lives, and the kernel's memory is large enough.
        unsafe {
            let context = result::primary_ctx::retain(device).expect("a context");
            result::ctx::set_current(context).expect("a context");
            let loaded = result::module::load_data(source.as_ptr().cast()).expect("the driver takes it");
            let function = result::module::get_function(loaded, name).expect("it has the kernel");
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking).expect("a stream");
            let memory = result::malloc_sync(1024).expect("memory");
            // The buffer and its elements; no trap, cancel and barrier words; first and count along the axes.
            let arguments = vec![memory, 256, 0, 0, 0, 0, 0, 1, 1, 1, 0];
            Raw { context, stream, function, block: module.block, arguments }
        }
    }

    fn enter(&self) {
        // SAFETY: the context lives.
        unsafe { result::ctx::set_current(self.context) }.expect("a context");
    }

    fn launch(&self) {
        let mut pointers: Vec<*mut c_void> =
            self.arguments.iter().map(|argument| std::ptr::from_ref(argument).cast_mut().cast()).collect();
        let [x, y, z] = self.block;
        // SAFETY: the arguments are those that the kernel declares.
        unsafe { result::launch_kernel(self.function, (1, 1, 1), (x, y, z), 0, self.stream, &mut pointers) }
            .expect("it launches");
    }

    fn wait(&self) {
        // SAFETY: the stream lives.
        unsafe { result::stream::synchronize(self.stream) }.expect("it ends");
    }

    /// How long pinned memory takes to the device and back.
    fn transfers(&self, rounds: usize) -> [Duration; 2] {
        self.enter();
        // SAFETY: both allocations have that many bytes.
        unsafe {
            let host = result::malloc_host(LARGE, 0).expect("pinned memory");
            host.cast::<u8>().write_bytes(1, LARGE);
            let device = result::malloc_sync(LARGE).expect("memory");
            let up = || {
                sys::cuMemcpyHtoDAsync_v2(device, host, LARGE, self.stream).result().expect("it copies");
                self.wait();
            };
            let down = || {
                sys::cuMemcpyDtoHAsync_v2(host, device, LARGE, self.stream).result().expect("it copies");
                self.wait();
            };
            let times = [median(rounds, up), median(rounds, down)];
            result::free_host(host).expect("it was allocated");
            result::free_sync(device).expect("it was allocated");
            times
        }
    }
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn median(rounds: usize, mut run: impl FnMut()) -> Duration {
    run();
    middle((0..rounds).map(|_| timed(&mut run)).collect())
}

/// The medians of two sides whose rounds alternate, ten runs of each in a row.
fn beside(rounds: usize, mut a: impl FnMut(), mut b: impl FnMut()) -> [Duration; 2] {
    let mut times = [Vec::new(), Vec::new()];
    let ten = |times: &mut Vec<Duration>, run: &mut dyn FnMut()| {
        run();
        times.extend((0..10).map(|_| timed(&mut *run)));
    };
    for _ in 0..rounds.div_ceil(10) {
        ten(&mut times[0], &mut a);
        ten(&mut times[1], &mut b);
    }
    times.map(middle)
}

fn row(what: &str, ours: Duration, theirs: Option<Duration>, goal: &str) {
    let us = |time: Duration| format!("{:.2} us", time.as_secs_f64() * 1e6);
    let ratio = theirs.map(|theirs| format!("{:.2}", ours.as_secs_f64() / theirs.as_secs_f64()));
    let [theirs, ratio] = [theirs.map(us), ratio].map(|text| text.unwrap_or_else(|| "-".into()));
    println!("{what:<34} {:>14} {theirs:>14} {ratio:>6}  {goal}", us(ours));
}

/// One dispatch and the wait for it; then many before one wait.
fn launches(backend: &CudaBackend, raw: &Raw, rounds: usize) {
    let (program, config) = (small(1), DispatchConfig::default());
    let memory = backend.allocate_resident(1024).expect("memory");
    let bound = [memory];
    backend.upload_resident(&bound[0], &[0; 1024]).expect("it uploads");
    let step = ResidentDispatchStep { program: &program, resources: &bound, grid_override: Some([1, 1, 1]) };
    let one = || backend.dispatch_resident_sequence_read_ranges_into(&[step], &[], &mut []).expect("it runs");
    let by_hand = || {
        raw.enter();
        raw.launch();
        raw.wait();
    };
    let [ours, theirs] = beside(rounds, one, by_hand);
    row("dispatch on resident memory", ours, Some(theirs), "<= 1.3");
    let clocked = || drop(backend.dispatch_resident_timed(&program, &bound, &config).expect("it runs"));
    let [ours, theirs] = beside(rounds, clocked, by_hand);
    row("the same with the device's time", ours, Some(theirs), "");

    let steps = vec![step; TURNS];
    let many = || backend.dispatch_resident_sequence_read_ranges_into(&steps, &[], &mut []).expect("it runs");
    let by_hand = || {
        raw.enter();
        (0..TURNS).for_each(|_| raw.launch());
        raw.wait();
    };
    let [ours, theirs] = beside(rounds / 10, many, by_hand).map(|time| time / TURNS as u32);
    row("one of 1000 dispatches in a row", ours, Some(theirs), "<= 1.5");
    let repeated = || {
        let step = [steps[0]];
        backend
            .dispatch_resident_repeated_sequence_read_ranges_into(&[], &step, TURNS as u32, &[], &mut [])
            .expect("it runs");
    };
    row("one of 1000 repeated (graph)", median(rounds / 10, repeated) / TURNS as u32, Some(theirs), "");
}

fn transfers(backend: &CudaBackend, raw: &Raw, rounds: usize) {
    let [up, down] = raw.transfers(rounds);
    let (program, config) = (small(1), DispatchConfig::default());
    let bytes = vec![1u8; LARGE];
    let mut out = vec![vec![0u8; LARGE]];
    let run = || {
        backend.dispatch_borrowed_into(&program, &[&bytes], &config, &mut out).expect("it runs");
    };
    row("dispatch of 1 GiB, in and out", median(rounds, run), Some(up + down), "<= 1.2");
    let memory: Resource = backend.allocate_resident(LARGE).expect("memory");
    let upload = || backend.upload_resident(&memory, &bytes).expect("it uploads");
    row("upload of 1 GiB", median(rounds, upload), Some(up), "");
    backend.free_resident(memory).expect("it was allocated");
}

/// Kernels that were never seen, and the same from the disk's cache in a backend that has not seen them.
fn compiles(rounds: usize) {
    let cache = std::env::temp_dir().join(format!("vyre-latency-{}", std::process::id()));
    let config = CudaConfig { cache: Some(cache.clone()), ..CudaConfig::default() };
    let compile = |backend: &CudaBackend, salt: usize| {
        let program = small(1000 + salt as u32);
        timed(|| drop(backend.compile_native(&program, &DispatchConfig::default()).expect("it compiles")))
    };
    let open = || vyre_driver_cuda::open(&config).unwrap_or_else(|error| panic!("{error}"));
    let (first, second) = (open(), open());
    compile(&first, rounds);
    let cold = (0..rounds).map(|salt| compile(&first, salt)).collect();
    row("compile of a small kernel", middle(cold), None, "< 60000 us");
    let warm = (0..rounds).map(|salt| compile(&second, salt)).collect();
    row("the same from the disk's cache", middle(warm), None, "< 5000 us");
    let _ = std::fs::remove_dir_all(cache);
}

/// What loops that can be stopped cost.
fn polls(backend: &CudaBackend, rounds: usize) {
    const LANES: usize = 1 << 20;
    let program = looping();
    let memory = backend.allocate_resident(LANES * 4).expect("memory");
    let bound = [memory];
    let trips: Vec<u8> = std::iter::repeat_n(4096u32.to_le_bytes(), LANES).flatten().collect();
    let device_ns = |timeout| {
        let config = DispatchConfig { timeout, ..DispatchConfig::default() };
        let mut times: Vec<Duration> = (0..rounds)
            .map(|_| {
                backend.upload_resident(&bound[0], &trips).expect("it uploads");
                let timing = backend.dispatch_resident_timed(&program, &bound, &config).expect("it runs");
                Duration::from_nanos(timing.device_ns.unwrap_or(0))
            })
            .collect();
        times.remove(0);
        middle(times)
    };
    let (without, with) = (device_ns(None), device_ns(Some(Duration::from_secs(60))));
    row("4096 short trips with a timeout", with, Some(without), "beside the same without");
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    let config = CudaConfig { cache: None, ..CudaConfig::default() };
    let backend = vyre_driver_cuda::open(&config).unwrap_or_else(|error| panic!("{error}"));
    let raw = Raw::open(70);
    println!("{:<34} {:>14} {:>14} {:>6}  goal", "what", "time", "by hand", "ratio");
    launches(&backend, &raw, rounds);
    transfers(&backend, &raw, 5);
    compiles(20);
    polls(&backend, 6);
}
