//! A benchmark: kernels, sizes, inputs, and the same work in plain Rust.
//!
//! Every buffer is a list of 32-bit words, floats by their bits, so that one description serves devices, baselines and
//! checks alike. A benchmark of several dispatches is a list of steps over one set of buffers.

use bytemuck::cast_slice;
use vyre::algorithms::{Plan, Role, Step as PlanStep};
use vyre::{Program, VyreBackend};
use vyre_foundation::random::word_at;

/// One benchmark.
pub struct Benchmark {
    /// Its name on the command line.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// The unit of its size.
    pub unit: &'static str,
    /// The size that is measured by default.
    pub size: u32,
    /// A size that the reference interpreter runs in moments.
    pub tiny: u32,
    /// The least size that makes sense.
    pub size_min: u32,
    /// The greatest size whose buffers stay below 4 GiB each.
    pub size_max: u32,
    /// The work grows with this power of the size.
    pub(crate) power: i32,
    pub(crate) make: fn(u32) -> Case,
    /// How many operations the work has, given the size and the results.
    pub(crate) ops: fn(u32, &[Vec<u32>]) -> u64,
    pub(crate) kind: OpKind,
    /// The same work in Rust, the plain one first.
    pub(crate) baselines: &'static [Baseline],
}

/// Which peak a benchmark's operations are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// 32-bit integer operations.
    U32,
    /// f32 additions and multiplications, not fused.
    F32,
}

impl OpKind {
    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::U32 => "u32",
            OpKind::F32 => "f32",
        }
    }
}

/// The same work without a backend.
pub(crate) struct Baseline {
    pub(crate) label: &'static str,
    /// From the buffers that are only read to those that are written, both in the order of the case.
    pub(crate) run: fn(&[Vec<u32>], &mut [Vec<u32>]),
}

impl Benchmark {
    /// The label of the baseline that ratios are to.
    pub fn plain(&self) -> &'static str {
        self.baselines[0].label
    }
}

/// The label of plain Rust.
pub(crate) const PLAIN: &str = "rust";

/// The label of the C library, whose elementary functions have bits of their own.
pub(crate) const LIBC: &str = "libc";

/// A benchmark at one size: the data and the dispatches over it.
pub(crate) struct Case {
    pub(crate) programs: Vec<Program>,
    pub(crate) reads: Vec<Vec<u32>>,
    pub(crate) writes: Vec<Written>,
    pub(crate) steps: Vec<Step>,
    /// Bytes that must travel between memory and processor: each input once, each result once.
    pub(crate) bytes: u64,
}

/// A buffer that steps write.
pub(crate) struct Written {
    pub(crate) start: Vec<u32>,
    /// Whether its start is an input, rather than zeros.
    pub(crate) given: bool,
    /// Whether it is compared, rather than a place for results in between.
    pub(crate) result: bool,
}

impl Written {
    /// Results that start as an input.
    pub(crate) fn update(start: Vec<u32>) -> Written {
        Written { start, given: true, result: true }
    }

    /// Results that start at zero.
    pub(crate) fn result(words: usize) -> Written {
        Written { start: vec![0; words], given: false, result: true }
    }

    /// An intermediate buffer between steps.
    pub(crate) fn between(words: usize) -> Written {
        Written { start: vec![0; words], given: false, result: false }
    }
}

/// One dispatch.
pub(crate) struct Step {
    /// Which of the case's programs.
    pub(crate) program: usize,
    pub(crate) grid: [u32; 3],
    /// The bound buffers, in binding order.
    pub(crate) binds: Vec<Bind>,
    /// The step of the plan that it is, if it is of one: with programs for devices that have less.
    pub(crate) planned: Option<PlanStep>,
}

impl Step {
    /// The program and the grid for a backend.
    pub(crate) fn fitting<'p>(&self, case: &'p Case, backend: &dyn VyreBackend) -> (&'p Program, [u32; 3]) {
        match &self.planned {
            Some(step) => step.fitting(&case.programs, backend),
            None => (&case.programs[self.program], self.grid),
        }
    }
}

/// A buffer of the case.
#[derive(Clone, Copy)]
pub(crate) enum Bind {
    Read(usize),
    Write(usize),
}

impl Case {
    /// A case of one dispatch of a program in text: what is read is bound first, then what is written.
    pub(crate) fn single(source: &str, reads: Vec<Vec<u32>>, written: Written, grid: [u32; 3]) -> Case {
        let binds = (0..reads.len()).map(Bind::Read).chain([Bind::Write(0)]).collect();
        let bytes = reads.iter().map(|words| words.len()).sum::<usize>()
            + written.start.len() * if written.given { 2 } else { 1 };
        let steps = vec![Step { program: 0, grid, binds, planned: None }];
        Case { programs: vec![program(source)], reads, writes: vec![written], steps, bytes: bytes as u64 * 4 }
    }

    /// A plan's dispatches. It reads its inputs, then its constants; it writes its outputs, then its intermediate buffers.
    pub(crate) fn of(plan: Plan, inputs: Vec<Vec<u32>>) -> Case {
        let (mut reads, mut writes) = (inputs, Vec::new());
        let mut binds = vec![Bind::Read(0); plan.buffers.len()];
        let mut next_input = 0;
        let mut bytes = 0;
        for (at, buffer) in plan.buffers.iter().enumerate() {
            bytes += if matches!(buffer.role, Role::Input | Role::Output) { buffer.byte_len } else { 0 };
            match &buffer.role {
                Role::Input => {
                    binds[at] = Bind::Read(next_input);
                    next_input += 1;
                }
                Role::Constant(bytes) => {
                    binds[at] = Bind::Read(reads.len());
                    reads.push(words(bytes));
                }
                Role::Output => {
                    binds[at] = Bind::Write(writes.len());
                    writes.push(Written::result(buffer.byte_len.div_ceil(4)));
                }
                Role::Scratch => {}
            }
        }
        for (at, buffer) in plan.buffers.iter().enumerate().filter(|(_, buffer)| buffer.role == Role::Scratch)
        {
            binds[at] = Bind::Write(writes.len());
            writes.push(Written::between(buffer.byte_len.div_ceil(4)));
        }
        let step = |step: &PlanStep| Step {
            program: step.program,
            grid: step.grid,
            binds: step.buffers.iter().map(|at| binds[*at]).collect(),
            planned: Some(step.clone()),
        };
        let steps = plan.steps.iter().map(step).collect();
        Case { programs: plan.programs, reads, writes, steps, bytes: bytes as u64 }
    }

    /// The buffers that are written, as they start.
    pub(crate) fn start(&self) -> Vec<Vec<u32>> {
        self.writes.iter().map(|written| written.start.clone()).collect()
    }

    /// Of all written buffers the results.
    pub(crate) fn results<'b>(&self, written: &'b [Vec<u32>]) -> Vec<&'b [u32]> {
        let all = self.writes.iter().zip(written);
        all.filter(|(buffer, _)| buffer.result).map(|(_, words)| words.as_slice()).collect()
    }
}

/// The program of one of this crate's files.
pub(crate) fn program(source: &str) -> Program {
    vyre::text::parse(source).expect("the crate's files parse").program
}

/// The digest of results, as people compare them.
pub(crate) fn digest(results: &[&[u32]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for words in results {
        hasher.update(cast_slice(words));
    }
    hasher.finalize().to_hex().to_string()
}

/// Bytes as words; zeros fill the last one up.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    let mut words = vec![0; bytes.len().div_ceil(4)];
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}

/// Workgroups that cover `count` elements.
pub(crate) fn groups(count: u32, each: u32) -> u32 {
    count.div_ceil(each)
}

/// Random word number `at`.
pub(crate) fn random(seed: u64, at: usize) -> u64 {
    word_at(seed, at as u64)
}

/// Words of which every value is as likely.
pub(crate) fn random_words(seed: u64, count: usize) -> Vec<u32> {
    (0..count).map(|at| random(seed, at) as u32).collect()
}

/// The bits of floats between -1 and 1, each a multiple of 2^-23.
pub(crate) fn random_floats(seed: u64, count: usize) -> Vec<u32> {
    let float = |at| ((random(seed, at) >> 40) as f32) * (1.0 / (1 << 23) as f32) - 1.0;
    (0..count).map(|at| float(at).to_bits()).collect()
}
