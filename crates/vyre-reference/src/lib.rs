//! The interpreter that defines the language.
//!
//! [`run`] takes a valid program and the contents of its buffers and returns the bytes that every backend must return. It
//! is written plainly and shares no fast path with a backend: `compile` flattens the program, `lane` runs one lane,
//! `machine` runs them one after the other, `sync` holds the steps that lanes take together, `memory` the buffers.
//!
//! Two modes watch a run. With [`Options::check`] races, out-of-bounds accesses and reads of unwritten workgroup memory
//! are found (`check`); with [`Options::trace`] one lane reports every line it runs (`trace`).
//!
//! The result depends on nothing but program, grid and input. [`Schedule`] changes the order in which lanes and
//! workgroups run; a program without races gives the same bytes under all of them.
//!
//! Not here: what an op computes. That is `vyre_foundation::scalar`, which constant folding shares.

mod check;
mod code;
mod compile;
mod lane;
mod machine;
mod memory;
mod slots;
mod sync;
#[cfg(test)]
#[path = "../tests/unit/interpreter.rs"]
mod tests;
mod trace;

pub use check::{Access, FINDINGS_MAX, Finding, FindingKind, Party, Target};
pub use code::Location;
pub use trace::{Flow, NamedValue, Touch, Trace, TraceEvent};

use vyre_foundation::ir::{ComputeOp, DataType};
use vyre_foundation::launch::{Admission, LaunchError, admit_buffers};
use vyre_foundation::scalar::Meaning;
use vyre_foundation::validate::ValidProgram;

/// The inputs of a run.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Workgroups along x, y and z; `None` derives them as [`vyre_foundation::launch::default_grid`] says.
    pub grid: Option<[u32; 3]>,
    /// The contents of every bound buffer, by ascending binding. An output without input is zeros.
    pub buffers: Vec<Vec<u8>>,
}

/// The order in which lanes, and workgroups, run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// By ascending index.
    #[default]
    Forward,
    /// By descending index.
    Reverse,
    /// In an order that the seed decides, a new one after each barrier.
    Shuffle(u64),
}

/// Another meaning of an op under a suffix, for a first operand of the second type; `None` leaves it unchanged.
pub type Instead = fn(ComputeOp, DataType, DataType) -> Option<Meaning>;

/// How to run.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Whether to look for races, out-of-bounds accesses and reads of unwritten workgroup memory.
    pub check: bool,
    /// The order of lanes and workgroups.
    pub schedule: Schedule,
    /// A lane to trace.
    pub trace: Option<Trace<'a>>,
    /// Asked about every 65,536 instructions; a `true` ends the run with [`RunError::Stopped`].
    pub stop: Option<&'a dyn Fn() -> bool>,
    /// The most bytes the interpreter may allocate beside the buffers it is given.
    pub memory_bytes_max: u64,
    /// Gives lines that compute another meaning, so that tests of backends can be tested by wrong ones.
    pub instead: Option<Instead>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            check: false,
            schedule: Schedule::Forward,
            trace: None,
            stop: None,
            memory_bytes_max: 4 << 30,
            instead: None,
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The contents of every bound buffer after the run, by ascending binding.
    pub buffers: Vec<Vec<u8>>,
    /// What the check found, in the order of finding; empty without [`Options::check`].
    pub findings: Vec<Finding>,
    /// How many lines the lanes ran, all together.
    pub lane_instructions: u64,
    /// The grid that was launched.
    pub grid: [u32; 3],
}

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}\n  Fix: {}", self.message(), self.fix())]
pub enum RunError {
    /// The launch is refused.
    Launch(#[from] LaunchError),
    /// A lane trapped.
    Trap {
        /// The code of the trap that comes first in the program.
        code: u32,
        /// Its line.
        location: Location,
        /// A lane that recorded it, by `global_id`.
        lane: [u32; 3],
    },
    /// [`Options::stop`] said so.
    Stopped,
    /// The run needs more memory than it may have.
    Memory {
        /// Bytes it would need so far.
        needed: u64,
        /// Bytes it may have.
        max: u64,
    },
    /// Lanes reached a barrier at different lines, which validation excludes.
    Diverged {
        /// Where one of them was.
        location: Location,
    },
}

impl RunError {
    /// What is wrong, without the fix.
    pub fn message(&self) -> String {
        match self {
            RunError::Launch(error) => error.message.clone(),
            RunError::Trap { code, location, lane: [x, y, z] } => {
                format!("trap {code} at {location}, by lane ({x}, {y}, {z})")
            }
            RunError::Stopped => "the run was stopped before its end".into(),
            RunError::Memory { needed, max } => {
                format!("the run needs {needed} bytes for registers and workgroup state, and may have {max}")
            }
            RunError::Diverged { location } => {
                format!("lanes of a workgroup reached a barrier at different lines, one at {location}")
            }
        }
    }

    /// What to do about it.
    pub fn fix(&self) -> &str {
        match self {
            RunError::Launch(error) => &error.fix,
            RunError::Trap { .. } => "trace that lane to see what led to the trap",
            RunError::Stopped => "allow more time, launch fewer lanes, or shorten the loops",
            RunError::Memory { .. } => "raise `memory_bytes_max`, or launch fewer workgroups at once",
            RunError::Diverged { .. } => "report this program; the validator should have refused it",
        }
    }
}

/// The result of a run beside its bytes.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the check found, in the order of finding; empty without [`Options::check`].
    pub findings: Vec<Finding>,
    /// How many lines the lanes ran, all together.
    pub lane_instructions: u64,
}

/// Runs a program.
pub fn run(program: &ValidProgram, launch: Launch, options: &Options<'_>) -> Result<Outcome, RunError> {
    let Launch { grid, mut buffers } = launch;
    let admission = admit_buffers(program, grid, &buffers)?;
    let Report { findings, lane_instructions } = run_in_place(&admission, &mut buffers, options)?;
    Ok(Outcome { buffers, findings, lane_instructions, grid: admission.grid })
}

/// Runs an admitted launch on buffers that the caller keeps, whether it ends well or not: after an error, those that the
/// program may write hold whatever it had written.
///
/// # Panics
/// If the buffers are not those that were admitted.
pub fn run_in_place(
    admission: &Admission,
    buffers: &mut [Vec<u8>],
    options: &Options<'_>,
) -> Result<Report, RunError> {
    let given = buffers.iter().map(Vec::len);
    assert!(
        given.eq(admission.bindings.iter().map(|binding| binding.byte_len)),
        "these buffers were admitted"
    );
    machine::run(admission, buffers, options)
}

// The example of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
