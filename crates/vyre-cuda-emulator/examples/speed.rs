//! Prints how many thread instructions a second the interpreter runs, for kernels of several kinds.
#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use vyre_cuda_emulator::engine::{Launch, Loaded, Options, Order, Program, Schedule};
use vyre_cuda_emulator::memory::Heap;
use vyre_cuda_emulator::model::Model;

const BLOCKS: u32 = 64;
const THREADS: u32 = 128;
const ROUNDS: u32 = 500;

/// A name, the body of a loop, and how many instructions a thread runs of it on average.
const LOOPS: [(&str, &str, f64); 5] = [
    (
        "integers",
        "mad.lo.u32 %r4, %r4, 1664525, 1013904223; xor.b32 %r4, %r4, %r3; shr.u32 %r6, %r4, 7; add.u32 %r4, %r4, %r6;
         and.b32 %r7, %r4, 255; or.b32 %r8, %r7, %r4; sub.u32 %r4, %r8, %r7; shf.l.wrap.b32 %r4, %r4, %r4, 3;",
        8.0,
    ),
    (
        "floats",
        "fma.rn.f32 %f0, %f0, %f1, %f2; add.rn.f32 %f0, %f0, %f1; mul.rn.f32 %f0, %f0, %f2; min.f32 %f0, %f0, %f1;",
        4.0,
    ),
    (
        "memory",
        "ld.global.u32 %r6, [%d2]; add.u32 %r6, %r6, 1; st.global.u32 [%d2], %r6; st.shared.u32 [%r10], %r6;
         ld.shared.u32 %r7, [%r10]; add.u32 %r4, %r4, %r7;",
        6.0,
    ),
    (
        "divergent",
        "and.b32 %r6, %r1, 3; setp.eq.u32 %p1, %r6, 0; @%p1 bra $odd;
         add.u32 %r4, %r4, 1; xor.b32 %r4, %r4, %r3; bra $join;
         $odd: sub.u32 %r4, %r4, 7; shl.b32 %r4, %r4, 1; $join: add.u32 %r4, %r4, %r1;",
        6.75,
    ),
    ("barriers", "bar.sync 0; add.u32 %r4, %r4, 1; shfl.sync.bfly.b32 %r4, %r4, 1, 31, -1;", 3.0),
];

fn source(body: &str) -> String {
    format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n.shared .b32 s[{THREADS}];
        .visible .entry k(.param .u64 p)\n{{
        .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<8>; .reg .f32 %f<4>;
        ld.param.u64 %d0, [p]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %r2, %r0, {THREADS}, %r1;
        mov.u32 %r10, s; mad.lo.u32 %r10, %r1, 4, %r10; mov.b32 %r3, 0; mov.b32 %r4, %r2;
        mov.b32 %f0, 0f3F800000; mov.b32 %f1, 0f3F800001; mov.b32 %f2, 0f3F7FFFFF;
        mul.wide.u32 %d1, %r2, 4; add.u64 %d2, %d0, %d1; st.global.u32 [%d2], 0;
        $loop: {body}
        add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, {ROUNDS}; @%p0 bra $loop;
        st.global.u32 [%d2], %r4;\n}}"
    )
}

fn main() {
    let model = Model::of(90).expect("it is a model");
    let heap = Heap::new(Heap::base_of(1), 1 << 30);
    let output = heap.allocate(u64::from(4 * BLOCKS * THREADS)).expect("it fits");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores; millions of thread instructions a second and core");
    for (name, body, instructions) in LOOPS {
        let program = Program::compile(&source(body), &model).unwrap_or_else(|fault| panic!("{fault}"));
        let module = Arc::new(Loaded::new(Arc::new(program), &heap).expect("it fits"));
        let params = output.address.to_le_bytes().to_vec();
        let (grid, block) = ([BLOCKS, 1, 1], [THREADS, 1, 1]);
        let launch = Launch { module, kernel: 0, grid, block, shared_bytes: 0, params, cooperative: false };
        for order in [Order::Lockstep, Order::Ahead, Order::RoundRobin, Order::Random] {
            let options = Options { schedule: Schedule { order, seed: 1 }, races: false, watchdog: None };
            let start = Instant::now();
            launch.run_with(options, &heap, &model, &AtomicBool::new(false)).expect("it has no fault");
            let seconds = start.elapsed().as_secs_f64() * cores as f64;
            let count = f64::from(BLOCKS * THREADS * ROUNDS) * (instructions + 3.0);
            println!("{name:10} {:10} {:6.0}", format!("{order:?}"), count / seconds / 1e6);
        }
    }
}
