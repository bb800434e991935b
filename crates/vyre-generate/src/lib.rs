//! Random programs that are valid and free of races, with a launch to run them.
//!
//! The main body is a row of phases with a barrier between any two. In each phase every writable buffer has a pattern
//! that says which lane may access which element (see `memory`), and patterns change only where a barrier orders all lanes
//! concerned. Values carry how uniform they are, so that barriers, subgroup ops and the like occur only where the
//! validator must accept them. Whatever a block computes and does not use is folded into an accumulator that ends in
//! an output, so wrong bits anywhere show.
//!
//! Not here: programs with more than one right answer (used results of contended atomics are the obvious case), and
//! long-running ones: loops make a few trips.

mod body;
mod control;
pub mod edge;
mod lines;
mod memory;
pub mod operands;
pub mod source;
mod stats;
mod sync;

pub use stats::Stats;

use crate::source::{Bytes, Draw, Seeded, Source};
use body::{Builder, Frame};
use vyre_foundation::ir::{DataType, Program, ProgramParts};
use vyre_foundation::launch;
use vyre_foundation::validate::{ValidProgram, validate};

/// What generated programs may contain.
#[derive(Clone, Debug)]
pub struct Config {
    /// About how many lines the main body has before values are folded into the outputs.
    pub lines: u32,
    /// The most lanes of a workgroup.
    pub workgroup_lanes_max: u32,
    /// The most workgroups of a launch.
    pub workgroups_max: u32,
    /// Float types.
    pub floats: bool,
    /// f16 and bf16, if floats are on.
    pub half_floats: bool,
    /// 64-bit types.
    pub wide: bool,
    /// Elementary functions, if floats and 64-bit types are on.
    pub math: bool,
    /// `if`, `for`, `break` and `continue`.
    pub control: bool,
    /// Functions and calls.
    pub functions: bool,
    /// Workgroup memory, `uniform_load`, and the barriers of workgroups and subgroups.
    pub barriers: bool,
    /// Grid barriers.
    pub grid_barriers: bool,
    /// Subgroup ops.
    pub subgroups: bool,
    /// Atomics.
    pub atomics: bool,
    /// `atomic_min` and `atomic_max` without a result on 64-bit elements, if atomics are on: not every device has them.
    pub atomic_min_max_64: bool,
    /// The tile product.
    pub mma: bool,
    /// Collectives, meant for a single rank.
    pub collectives: bool,
    /// Grids read from a buffer.
    pub indirect: bool,
    /// Traps. Their programs fail with a code instead of giving outputs.
    pub traps: bool,
}

impl Default for Config {
    /// Everything but traps and elementary functions, at a size that the reference runs in about a millisecond.
    fn default() -> Config {
        Config {
            lines: 40,
            workgroup_lanes_max: 64,
            workgroups_max: 4,
            floats: true,
            half_floats: true,
            wide: true,
            math: false,
            control: true,
            functions: true,
            barriers: true,
            grid_barriers: true,
            subgroups: true,
            atomics: true,
            atomic_min_max_64: true,
            mma: true,
            collectives: true,
            indirect: true,
            traps: false,
        }
    }
}

impl Config {
    /// The types that compute under this configuration, with how often to choose them.
    fn types(&self) -> Vec<(DataType, u32)> {
        let half = if self.floats && self.half_floats { 2 } else { 0 };
        let wide = if self.wide { 2 } else { 0 };
        let all = [
            (DataType::U32, 6),
            (DataType::I32, 3),
            (DataType::F32, if self.floats { 4 } else { 0 }),
            (DataType::Bool, 2),
            (DataType::U64, wide),
            (DataType::I64, wide),
            (DataType::F64, if self.floats { wide } else { 0 }),
            (DataType::F16, half),
            (DataType::BF16, half),
        ];
        all.into_iter().filter(|(_, weight)| *weight > 0).collect()
    }
}

/// A program and what to launch it with.
#[derive(Clone, Debug)]
pub struct Case {
    /// The program: valid, and free of races under this launch.
    pub program: Program,
    /// Workgroups along x, y and z; `None` if the program or the default decides.
    pub grid: Option<[u32; 3]>,
    /// The contents of each bound buffer, by ascending binding.
    pub buffers: Vec<Vec<u8>>,
}

impl Case {
    /// The program, validated.
    pub fn valid(&self) -> Result<ValidProgram, String> {
        validate(&self.program)
            .map_err(|findings| findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }
}

/// The case that `source` draws.
pub fn case(source: &mut dyn Source, config: &Config) -> Case {
    let mut builder = Builder::new(Draw::new(source), config);
    let grid = builder.plan();
    builder.functions();
    builder.main_body();
    builder.finish(grid)
}

/// The case of a seed.
pub fn seeded(seed: u64, config: &Config) -> Case {
    case(&mut Seeded::new(seed), config)
}

/// The case of a fuzzer's bytes.
pub fn from_bytes(bytes: &[u8], config: &Config) -> Case {
    case(&mut Bytes::new(bytes), config)
}

/// The shape of the launch that a program is made for.
#[derive(Clone, Copy, Debug)]
struct Grid {
    counts: [u32; 3],
    /// Whether the launch says so; otherwise the default or a buffer does.
    explicit: bool,
}

impl<'a> Builder<'a> {
    fn new(draw: Draw<'a>, config: &'a Config) -> Builder<'a> {
        Builder {
            draw,
            config,
            types: config.types(),
            parts: ProgramParts::new("generated", [1, 1, 1]),
            frame: Frame::new(true),
            readable: Vec::new(),
            memory: Vec::new(),
            contents: Vec::new(),
        }
    }

    /// Chooses the launch, the workgroup's shape and the buffers.
    fn plan(&mut self) -> Grid {
        self.parts.workgroup = self.workgroup_shape();
        let lanes = self.lanes();
        if self.config.subgroups && self.draw.chance(180) {
            let widths: Vec<u32> =
                [1, 2, 4, 8, 16, 32].into_iter().filter(|width| lanes.is_multiple_of(*width)).collect();
            self.parts.subgroup = Some(self.draw.pick(&widths));
        }
        let counts = self.grid_counts();
        self.declare_buffers(counts.iter().product::<u32>());
        let explicit = !self.maybe_indirect(counts) && !self.draw.chance(24);
        Grid { counts, explicit }
    }

    fn workgroup_shape(&mut self) -> [u32; 3] {
        const SHAPES: [[u32; 3]; 21] = [
            [1, 1, 1],
            [4, 1, 1],
            [8, 1, 1],
            [16, 1, 1],
            [32, 1, 1],
            [64, 1, 1],
            [2, 2, 2],
            [4, 4, 1],
            [3, 1, 1],
            [5, 3, 1],
            [1, 7, 1],
            [33, 1, 1],
            [8, 2, 4],
            [2, 1, 6],
            [16, 2, 1],
            [1, 1, 16],
            [96, 1, 1],
            [128, 1, 1],
            [8, 8, 4],
            [16, 16, 1],
            [256, 1, 1],
        ];
        let max = self.config.workgroup_lanes_max.max(1);
        let fitting: Vec<[u32; 3]> =
            SHAPES.into_iter().filter(|shape| shape.iter().product::<u32>() <= max).collect();
        self.draw.pick(&fitting)
    }

    fn grid_counts(&mut self) -> [u32; 3] {
        const COUNTS: [[u32; 3]; 8] =
            [[1, 1, 1], [2, 1, 1], [3, 1, 1], [2, 2, 1], [1, 3, 1], [1, 1, 2], [4, 1, 1], [1, 2, 2]];
        let max = self.config.workgroups_max.max(1);
        let fitting: Vec<[u32; 3]> =
            COUNTS.into_iter().filter(|counts| counts.iter().product::<u32>() <= max).collect();
        self.draw.pick(&fitting)
    }

    /// Seals the program and fills its buffers.
    fn finish(mut self, grid: Grid) -> Case {
        self.parts.body = self.frame.finish();
        let seed = self.draw.bits();
        let mut bound: Vec<(u32, Vec<u8>)> = Vec::new();
        for (at, (buffer, content)) in self.parts.buffers.iter().zip(&self.contents).enumerate() {
            let Some(binding) = buffer.binding() else { continue };
            let mut bytes = edge::data(buffer.ty, content.elements as usize, seed.wrapping_add(at as u64));
            bytes[content.at..content.at + content.fixed.len()].copy_from_slice(&content.fixed);
            bound.push((binding, bytes));
        }
        bound.sort_by_key(|(binding, _)| *binding);
        let program = Program::new(self.parts).expect("the generator keeps the limits and its references");
        let buffers = bound.into_iter().map(|(_, bytes)| bytes).collect();
        let mut case = Case { grid: None, program, buffers };
        let needs_grid = case.valid().is_ok_and(|valid| valid.facts().needs_grid);
        let explicit = grid.explicit || needs_grid && launch::indirect(case.program.parts()).is_none();
        case.grid = explicit.then_some(grid.counts);
        case
    }
}

// The example of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
