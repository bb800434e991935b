//! Runs a kernel's body on the emulated device, under every schedule.
//!
//! A body finds registers of all types declared, and its parameters read:
//!
//! | register | value |
//! | --- | --- |
//! | `%d0`, `%d1` | the output and the input, which are buffers in global memory |
//! | `%r0`, `%r1`, `%r2` | the thread, the block and the block's threads |
//! | `%r3`, `%d2` | the thread's number in the grid, and its word of the output |
//!
//! A body ends with `ret` of its own accord.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vyre_cuda_emulator::engine::{Launch, Loaded, Options, Order, Program, Schedule};
use vyre_cuda_emulator::fault::{Code, Fault};
use vyre_cuda_emulator::memory::{Block, Heap};
use vyre_cuda_emulator::model::Model;

const ORDERS: [Order; 4] = [Order::Lockstep, Order::Ahead, Order::RoundRobin, Order::Random];
const SEEDS: u64 = 3;

/// A kernel, and how it is launched.
#[derive(Clone)]
pub(crate) struct Case<'a> {
    pub(crate) sm: u32,
    /// What follows `.target`, where that is not the device.
    pub(crate) target: &'a str,
    /// Declarations before the kernel.
    pub(crate) module: &'a str,
    pub(crate) body: &'a str,
    pub(crate) grid: u32,
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) input: Vec<u8>,
    /// Words of the output.
    pub(crate) words: usize,
    /// Whether the output begins as zeros, and not as memory that nothing has written.
    pub(crate) zeroed: bool,
    pub(crate) races: bool,
    /// How long it may take.
    pub(crate) patience: Duration,
}

/// One block of a warp on sm_90.
pub(crate) fn case(body: &str) -> Case<'_> {
    Case {
        sm: 90,
        target: "sm_90a",
        module: "",
        body,
        grid: 1,
        block: [32, 1, 1],
        shared_bytes: 0,
        input: Vec::new(),
        words: 32,
        zeroed: true,
        races: false,
        patience: Duration::from_secs(60),
    }
}

pub(crate) fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

impl Case<'_> {
    pub(crate) fn source(&self) -> String {
        format!(
            ".version 8.4\n.target {}\n.address_size 64\n{}\n\
             .visible .entry k(.param .u64 out, .param .u64 input)\n{{\n\
             .reg .pred %p<16>; .reg .b8 %c<8>; .reg .b16 %h<16>; .reg .b32 %r<100>; .reg .b64 %d<40>;\n\
             .reg .f32 %f<16>; .reg .f64 %e<8>;\n\
             ld.param.u64 %d0, [out]; ld.param.u64 %d1, [input];\n\
             mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n\
             mad.lo.u32 %r3, %r1, %r2, %r0; mad.wide.u32 %d2, %r3, 4, %d0;\n{}\n}}\n",
            self.target, self.module, self.body
        )
    }

    /// The output, after one launch.
    pub(crate) fn run(&self, schedule: Schedule) -> Result<Vec<u8>, Fault> {
        let model = Model::of(self.sm).expect("it is a model");
        let heap = Heap::new(Heap::base_of(1), 1 << 30);
        let output = heap.allocate(4 * self.words as u64)?;
        if self.zeroed {
            output.fill(0, output.byte_len, 0);
        }
        let input = heap.allocate(self.input.len().max(1) as u64)?;
        input.write(0, &self.input);
        let program = Arc::new(Program::compile(&self.source(), &model)?);
        let module = Arc::new(Loaded::new(program, &heap)?);
        let params = [output.address, input.address].iter().flat_map(|at| at.to_le_bytes()).collect();
        let launch = Launch {
            module,
            kernel: 0,
            grid: [self.grid, 1, 1],
            block: self.block,
            shared_bytes: self.shared_bytes,
            params,
            cooperative: false,
        };
        let options = Options { schedule, races: self.races, watchdog: None };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (done, waits) = std::sync::mpsc::channel();
            let stop = &stop;
            // A launch that hangs ends with a fault of its own, which no test expects.
            scope.spawn(move || {
                if waits.recv_timeout(self.patience).is_err() {
                    stop.store(true, std::sync::atomic::Ordering::Relaxed);
                }
            });
            let result = launch.run_with(options, &heap, &model, stop);
            done.send(()).expect("the watcher waits");
            result.map(|()| bytes(&output))
        })
    }
}

fn bytes(block: &Block) -> Vec<u8> {
    let mut bytes = vec![0; block.byte_len as usize];
    block.read(0, &mut bytes);
    bytes
}

/// All schedules that tests use.
pub(crate) fn schedules() -> impl Iterator<Item = Schedule> {
    ORDERS.into_iter().flat_map(|order| (0..SEEDS).map(move |seed| Schedule { order, seed }))
}

/// The words that a kernel writes, under any schedule.
pub(crate) fn outputs(case: &Case<'_>) -> impl Iterator<Item = (Schedule, Vec<u32>)> {
    schedules().map(move |schedule| match case.run(schedule) {
        Ok(bytes) => {
            (schedule, bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
        }
        Err(fault) => panic!("{schedule:?}: {fault}\n{}", case.source()),
    })
}

/// A kernel whose output is the same under every schedule: word `i` is `expected(i)`.
#[track_caller]
pub(crate) fn check(case: &Case<'_>, expected: impl Fn(u32) -> u32) {
    for (schedule, words) in outputs(case) {
        for (at, word) in (0u32..).zip(words) {
            let expected = expected(at);
            assert!(
                word == expected,
                "{schedule:?}: word {at} is {word:#x}, not {expected:#x}\n{}",
                case.source()
            );
        }
    }
}

/// A kernel that runs without a finding, whatever it writes.
#[track_caller]
pub(crate) fn accepted(case: &Case<'_>) {
    assert!(outputs(case).count() > 0);
}

/// A kernel that is stopped under every schedule, in the line that the comment `// here` marks; the message says `what`.
#[track_caller]
pub(crate) fn refused(case: &Case<'_>, code: Code, what: &[&str]) {
    let source = case.source();
    let marked: Vec<usize> =
        source.lines().zip(1..).filter(|(line, _)| line.contains("// here")).map(|(_, at)| at).collect();
    for schedule in schedules() {
        let fault = match case.run(schedule) {
            Err(fault) => fault,
            Ok(_) => panic!("{schedule:?}: it ran\n{source}"),
        };
        assert_eq!(fault.code, code, "{schedule:?}: {fault}\n{source}");
        let in_line = marked.iter().any(|line| fault.message.contains(&format!("line {line} ")));
        assert!(in_line, "{schedule:?}: the lines are {marked:?}: {fault}\n{source}");
        assert!(fault.message.contains("thread ("), "{fault}");
        for word in what {
            assert!(fault.message.contains(word), "{schedule:?}: without `{word}`: {fault}\n{source}");
        }
    }
}
