//! What the driver layer itself costs a warm dispatch: admission hit, binding plan, pipeline lookup, telemetry, slots,
//! and routing. The backend under it does nothing.
//!
//! A program of 100,000 lines must cost what one of 10 costs, in time and in allocations, and less than 2 us. Times are
//! the best of many batches, so that other work on the machine does not count. Fails if a bound does not hold.

#![allow(unsafe_code, clippy::print_stdout)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use vyre_driver::admission::{admit, valid};
use vyre_driver::backend::private::Sealed;
use vyre_driver::observability::record_launch;
use vyre_driver::pipeline::{PipelineCache, PipelineKey};
use vyre_driver::routing::{Choice, dispatch};
use vyre_driver::{BackendError, DispatchConfig, OutputBuffers, VyreBackend, registry};
use vyre_foundation::ir::{
    Axis, Buffer, BufferId, BufferKind, BuiltinOp, ComputeOp, DataType, Literal, Node, OpId, Program,
    ProgramParts,
};
use vyre_foundation::validate::ValidProgram;

const BOUND_NS: f64 = 2_000.0;

/// Counts what the system's allocator is asked for.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED_BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator with its arguments unchanged, which keeps the trait's promises.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED_BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Does for a dispatch what every driver does before and after its device's work, and no work.
struct Null {
    pipelines: PipelineCache<ValidProgram>,
    ops: &'static HashSet<OpId>,
}

impl Null {
    /// One whose ops are not the core set, so that admission looks each of the program's up.
    fn new() -> Null {
        static OPS: LazyLock<HashSet<OpId>> = LazyLock::new(|| OpId::all().collect());
        Null { pipelines: PipelineCache::new(64), ops: &OPS }
    }
}

impl Sealed for Null {}

impl VyreBackend for Null {
    fn id(&self) -> &'static str {
        "null"
    }

    fn dispatch(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        self.dispatch_borrowed(program, &inputs, config)
    }

    fn dispatch_borrowed(
        &self,
        program: &Program,
        inputs: &[&[u8]],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let admission = admit(self, program, inputs, config)?;
        let key = PipelineKey { program: program.digest(), backend: "null", version: "1", variant: 0 };
        black_box(self.pipelines.get_or_compile(key, || valid(program, None))?);
        record_launch(inputs.iter().map(|input| input.len() as u64).sum(), 4);
        black_box(admission);
        Ok(vec![vec![0; 4]])
    }

    fn supported_ops(&self) -> &HashSet<OpId> {
        self.ops
    }

    fn max_workgroup_size(&self) -> [u32; 3] {
        [1024, 1024, 64]
    }

    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        65_535
    }

    fn max_storage_buffer_bytes(&self) -> u64 {
        1 << 30
    }
}

fn open() -> Result<Arc<dyn VyreBackend>, BackendError> {
    Ok(Arc::new(Null::new()))
}

vyre_driver::register_backend! { id: "null", precedence: 100, description: "does nothing", open: open }

/// A chain of `lines` lines over two buffers, with fifteen ops where it is long enough.
fn chain(lines: usize) -> Program {
    let mut parts = ProgramParts::new("chain", [64, 1, 1]);
    let buffer = |name: &str, kind| Buffer { name: name.into(), kind, ty: DataType::U32, len: None };
    parts.buffers = vec![
        buffer("x", BufferKind::Read { binding: 0 }),
        buffer("y", BufferKind::ReadWrite { binding: 1, output: true }),
    ];
    let body = &mut parts.body;
    let lane = body.new_value("i");
    body.block.push(Node::Builtin { result: lane, op: BuiltinOp::GlobalId, axis: Some(Axis::X) });
    use ComputeOp::{Add, And, Div, Max, Min, Mul, Or, Rem, Shl, Shr, Sub, Xor};
    let ops = [Add, Sub, Mul, Div, Rem, And, Or, Xor, Min, Max, Shl, Shr];
    let mut last = lane;
    for line in 2..lines {
        let result = body.new_value(&format!("v{line}"));
        let args = [last.into(), Literal::u32(line as u32).into()].into_iter().collect();
        body.block.push(Node::Compute { result, op: ops[line % ops.len()], ty: DataType::U32, args });
        last = result;
    }
    body.block.push(Node::Store {
        ty: DataType::U32,
        buffer: BufferId(1),
        index: lane.into(),
        value: last.into(),
    });
    Program::new(parts).expect("the chain seals")
}

/// What one call costs.
struct Cost {
    ns: f64,
    allocations: u64,
    bytes: u64,
}

fn measure(batches: u32, mut call: impl FnMut()) -> Cost {
    const CALLS: u32 = 200;
    for _ in 0..CALLS {
        call();
    }
    let before = (ALLOCATIONS.load(Ordering::Relaxed), ALLOCATED_BYTES.load(Ordering::Relaxed));
    call();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before.0;
    let bytes = ALLOCATED_BYTES.load(Ordering::Relaxed) - before.1;
    let batch = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    let ns = (0..batches).map(batch).fold(f64::INFINITY, f64::min);
    Cost { ns, allocations, bytes }
}

/// The ways into the layer, from the barest to the whole.
fn costs(program: &Program, batches: u32) -> [(&'static str, Cost); 4] {
    let backend = Null::new();
    let core = Null { ops: vyre_driver::default_supported_ops(), ..Null::new() };
    let config = DispatchConfig { output_sizes: vec![4], ..DispatchConfig::default() };
    let inputs: [&[u8]; 1] = [&[0; 4096]];
    let mut outputs = OutputBuffers::new();
    let mut into = |backend: &Null| {
        backend.dispatch_borrowed_into(program, &inputs, &config, &mut outputs).expect("admitted");
    };
    [
        (
            "admit",
            measure(batches, || {
                drop(black_box(admit(&backend, program, &inputs, &config).expect("admitted")))
            }),
        ),
        ("dispatch into slots", measure(batches, || into(&core))),
        ("same, own op set", measure(batches, || into(&backend))),
        (
            "routed by id",
            measure(batches, || {
                black_box(dispatch(Choice::Id("null"), program, &inputs, &config).expect("runs"));
            }),
        ),
    ]
}

fn main() {
    // `cargo test` runs it too, without this argument: then allocations are checked and times are not.
    let timed = std::env::args().any(|arg| arg == "--bench");
    registry::open("null").expect("opens");
    println!("{:<22}{:>10}{:>12}{:>8}{:>10}", "warm, per call", "lines", "ns", "allocs", "bytes");
    let mut wrong = Vec::new();
    let mut small: Option<[(&str, Cost); 4]> = None;
    for lines in [10, 1_000, 100_000] {
        let all = costs(&chain(lines), if timed { 500 } else { 1 });
        for (at, (way, cost)) in all.iter().enumerate() {
            println!("{way:<22}{lines:>10}{:>12.0}{:>8}{:>10}", cost.ns, cost.allocations, cost.bytes);
            if timed && cost.ns >= BOUND_NS {
                wrong.push(format!("{way} of {lines} lines takes {:.0} ns", cost.ns));
            }
            let Some((_, first)) = small.as_ref().map(|small| &small[at]) else { continue };
            if (cost.allocations, cost.bytes) != (first.allocations, first.bytes) {
                wrong.push(format!("{way} allocates with the program's length"));
            }
            if timed && cost.ns > first.ns * 2.0 {
                wrong.push(format!("{way} slows down with the program's length"));
            }
        }
        small.get_or_insert(all);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
