//! Compares programs on a driver with the reference: one given program, or many random ones.

use crate::batch::{Batch, Content, Level, Step, Track};
use crate::contract::OutputInit;
use crate::diagnose::{self, Effort};
use crate::failure::ParityFailure;
use crate::judge::{self, Prepared};
use crate::target::DriverTarget;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vyre_driver::VyreBackend as DriverBackend;
use vyre_foundation::ir::Program;
use vyre_foundation::launch::{bound_buffers, default_grid};
use vyre_generate::{Case, Config, Stats};

/// Whether a driver gives the reference's bytes for a valid program, the contents of its bound buffers by ascending binding,
/// and a grid. What differs comes back as a failure of the suite does: cut down to the smallest program that still
/// differs, with the bytes on both sides and the likely cause.
///
/// # Panics
///
/// If the program is not valid, or the contents do not fit it.
pub fn check_program(
    backend: &dyn DriverBackend,
    program: &Program,
    grid: [u32; 3],
    contents: &[Vec<u8>],
) -> Result<(), Box<ParityFailure>> {
    let contents = contents.iter().cloned().map(Content::Bytes).collect();
    let step = Step { grid, contents, init: OutputInit::Zero, cases: 1 };
    let prepared = Prepared::new(Batch::new(program.name().to_string(), program.clone(), step));
    let target = DriverTarget::new(backend);
    let Err(miss) = judge::run(&target, &prepared) else { return Ok(()) };
    let floats = program.parts().buffers.iter().any(|buffer| buffer.ty.is_float());
    let place = (Level::Random, if floats { Track::Float } else { Track::Integer });
    let again = "the same program again".to_owned();
    Err(Box::new(diagnose::explain(&target, place, &prepared, miss, Effort::Reduce, again)))
}

/// The results of random programs.
#[derive(Debug, Default)]
pub struct RandomReport {
    /// How many differ.
    pub wrong: u64,
    /// The first that differ, each with its seed.
    pub failures: Vec<(u64, Box<ParityFailure>)>,
    /// The contents of the programs, and their number.
    pub stats: Stats,
    /// Whether the driver lost its device, which ends the run.
    pub device_lost: bool,
}

/// Failures that are cut down and kept.
const FAILURES_MAX: usize = 5;

/// Runs the programs of these seeds until the time is over. They are made, compiled and interpreted on all cores.
pub fn check_random(
    backend: &dyn DriverBackend,
    seeds: Range<u64>,
    limit: Duration,
    config: impl Fn(u64) -> Config + Sync,
) -> RandomReport {
    let deadline = Instant::now() + limit;
    let next = AtomicU64::new(seeds.start);
    let report = Mutex::new(RandomReport::default());
    let work = || {
        while Instant::now() < deadline && !backend.device_lost() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let case = vyre_generate::seeded(seed, &config(seed));
            let checked = check_program(backend, &case.program, grid(&case), &case.buffers);
            let mut report = report.lock().expect("no thread panics with it");
            report.stats.add(&case.program);
            if let Err(failure) = checked {
                report.wrong += 1;
                if report.failures.len() < FAILURES_MAX {
                    report.failures.push((seed, failure));
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut report = report.into_inner().expect("no thread panicked");
    report.device_lost = backend.device_lost();
    report
}

fn grid(case: &Case) -> [u32; 3] {
    case.grid.unwrap_or_else(|| {
        let valid = case.valid().expect("generated programs are valid");
        let parts = valid.parts();
        let mut lens: Vec<u32> = parts.buffers.iter().map(|buffer| buffer.len.unwrap_or(0)).collect();
        for (id, bytes) in bound_buffers(parts).into_iter().zip(&case.buffers) {
            lens[id.index()] = (bytes.len() / parts.buffer(id).ty.bytes()) as u32;
        }
        default_grid(&valid, &lens)
    })
}

impl fmt::Display for RandomReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (seed, failure) in &self.failures {
            writeln!(f, "seed {seed} differs: {failure}")?;
        }
        if self.device_lost {
            writeln!(f, "the device is lost")?;
        }
        write!(f, "{} programs, {} differ\n{}", self.stats.programs, self.wrong, self.stats)
    }
}
