//! What the suite runs: batches of cases, in groups.
//!
//! A batch is one program with the launches it gets; a launch checks many cases at once, one an element where that is how
//! the program is written. A group is the batches that one line of a report counts (`op/f32/div`), and what
//! passes or fails towards a level. Batches are made when their group runs, so memory never holds a full suite.

use crate::contract::{OutputInit, Profile};
use crate::suite::Size;
use std::fmt;
use vyre_driver::VyreBackend as DriverBackend;
use vyre_foundation::ir::{Digest, Program};
use vyre_foundation::launch::bound_buffers;
use vyre_lower::convention::Contents;

/// How much a backend has shown. Each level includes all below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Every op gives the right bits for edge values, hard cases and random operands.
    Ops,
    /// Laws between ops hold, and small domains are right without exception.
    Laws,
    /// Whole programs: control flow, memory, barriers, atomics, subgroups, limits, known kernels.
    Programs,
    /// Programs that are new in each run, tests against cheats and, for drivers, the driver contract.
    Random,
    /// Elementary functions; on the float track alone.
    Math,
}

impl Level {
    /// The levels, weakest first.
    pub const ALL: [Level; 5] = [Level::Ops, Level::Laws, Level::Programs, Level::Random, Level::Math];

    /// The name in reports and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Ops => "ops",
            Level::Laws => "laws",
            Level::Programs => "programs",
            Level::Random => "random",
            Level::Math => "math",
        }
    }

    /// The level with that name.
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of numbers in a group. A backend without exact floats can still conform on the integer track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Track {
    /// No float type in any of its programs.
    Integer,
    /// Some float type.
    Float,
}

impl Track {
    /// Both.
    pub const ALL: [Track; 2] = [Track::Integer, Track::Float];

    /// The name in reports and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Track::Integer => "integer",
            Track::Float => "float",
        }
    }

    /// The track with that name.
    pub fn from_name(name: &str) -> Option<Track> {
        Track::ALL.into_iter().find(|track| track.name() == name)
    }
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The initial contents of a bound buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Those bytes.
    Bytes(Vec<u8>),
    /// This many zeros, which the backend provides: only for read_write buffers.
    Zeros(usize),
}

impl Content {
    pub(crate) fn len(&self) -> usize {
        match self {
            Content::Bytes(bytes) => bytes.len(),
            Content::Zeros(len) => *len,
        }
    }

    /// The zeros that it is, or nothing.
    pub(crate) fn zeros(&self) -> Vec<u8> {
        match self {
            Content::Bytes(_) => Vec::new(),
            Content::Zeros(len) => vec![0; *len],
        }
    }

    pub(crate) fn as_contents(&self) -> Contents<'_> {
        match self {
            Content::Bytes(bytes) => Contents::Bytes(bytes),
            Content::Zeros(len) => Contents::Zeros(*len),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Content::Bytes(bytes) => bytes.clone(),
            Content::Zeros(len) => vec![0; *len],
        }
    }
}

impl From<&Contents<'_>> for Content {
    fn from(contents: &Contents<'_>) -> Content {
        match contents {
            Contents::Bytes(bytes) => Content::Bytes(bytes.to_vec()),
            Contents::Zeros(len) => Content::Zeros(*len),
        }
    }
}

/// One launch of a batch's program.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Workgroups along x, y and z, as launched; for an `indirect` program what it reads.
    pub(crate) grid: [u32; 3],
    /// The initial contents of every bound buffer, by ascending binding.
    pub(crate) contents: Vec<Content>,
    /// The contents of the output memory before the launch.
    pub(crate) init: OutputInit,
    /// How many cases this launch checks.
    pub(crate) cases: u32,
}

/// One program and its launches, in order. Launches with contents of equal sizes are made from the same memory, so a
/// backend that remembers results by address is found out.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// The name within the suite: the group's, then `:` and what is special, as `op/f32/div:special:wg=64`.
    pub(crate) name: String,
    /// The program: valid, and free of races under every step.
    pub(crate) program: Program,
    /// Its launches.
    pub(crate) steps: Vec<Step>,
    /// Whether to send the `read` buffer with the highest binding as lookup data, where the backend has `Convention::V2`.
    pub(crate) lookup: bool,
}

impl Batch {
    /// A batch of one launch.
    pub(crate) fn new(name: String, program: Program, step: Step) -> Batch {
        Batch { name, program, steps: vec![step], lookup: false }
    }

    /// How many cases its launches check.
    pub(crate) fn cases(&self) -> u64 {
        self.steps.iter().map(|step| u64::from(step.cases)).sum()
    }

    /// The content digest: program, grids and inputs.
    pub(crate) fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new_derive_key("vyre conformance batch v1");
        hasher.update(&self.program.digest().0);
        hasher.update(&[u8::from(self.lookup)]);
        for step in &self.steps {
            for count in step.grid {
                hasher.update(&count.to_le_bytes());
            }
            for content in &step.contents {
                let (kind, bytes): (u8, &[u8]) = match content {
                    Content::Bytes(bytes) => (0, bytes),
                    Content::Zeros(_) => (1, &[]),
                };
                hasher.update(&[kind]).update(&(content.len() as u64).to_le_bytes()).update(bytes);
            }
        }
        Digest(*hasher.finalize().as_bytes())
    }

    /// Whether a backend with those limits and features must run it.
    pub(crate) fn within(&self, profile: &Profile) -> bool {
        let parts = self.program.parts();
        let outputs = bound_buffers(parts).into_iter().map(|id| parts.buffer(id).is_writable());
        let writable: Vec<bool> = outputs.collect();
        let fits = |step: &Step| {
            let bytes = |side: bool| -> u64 {
                let lens = step.contents.iter().zip(&writable).filter(|(_, writable)| **writable == side);
                lens.map(|(content, _)| content.len() as u64 + 64).sum()
            };
            step.grid.iter().all(|count| *count <= profile.workgroups_max)
                && bytes(false) + bytes(true) <= profile.buffer_bytes_max
        };
        parts.workgroup_lanes() <= u64::from(profile.invocations_max) && self.steps.iter().all(fits)
    }
}

/// The inputs that batches may depend on.
pub(crate) struct Plan<'a> {
    pub(crate) size: Size,
    /// The backend's profile: larger limits and features bring more cases. A limit may be as large as its type allows.
    pub(crate) profile: &'a Profile,
    /// Whether the target is a driver: conventions carry no grid barriers or collectives over several workgroups.
    pub(crate) driver: bool,
    /// The seed of the run. It is drawn after the backend is named, so a backend cannot know it in advance.
    pub(crate) seed: [u8; 32],
}

impl<'a> Plan<'a> {
    /// The plan of a run on a backend with this name and profile.
    pub(crate) fn new(
        name: &str,
        profile: &'a Profile,
        driver: bool,
        size: Size,
        nonce: &[u8; 32],
    ) -> Plan<'a> {
        let mut hasher = blake3::Hasher::new_derive_key("vyre conformance run v1");
        hasher.update(nonce);
        for text in [name, &profile.version, &profile.device, &profile.driver] {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        // What it published before the run cannot be written larger or smaller afterwards.
        hasher.update(&profile.invocations_max.to_le_bytes());
        hasher.update(&profile.workgroup_bytes_max.to_le_bytes());
        hasher.update(&profile.buffer_bytes_max.to_le_bytes());
        hasher.update(&profile.workgroups_max.to_le_bytes());
        for feature in &profile.features {
            hasher.update(feature.name().as_bytes()).update(&[0]);
        }
        Plan { size, profile, driver, seed: *hasher.finalize().as_bytes() }
    }

    /// A number that is unknown before the run, for the purpose that `label` names.
    pub(crate) fn seed(&self, label: &str) -> u64 {
        let hash = blake3::keyed_hash(&self.seed, label.as_bytes());
        u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
    }

    /// `quick` in a quick run, `full` in a full one.
    pub(crate) fn pick<T>(&self, quick: T, full: T) -> T {
        match self.size {
            Size::Quick => quick,
            Size::Full => full,
        }
    }
}

/// Steps on a driver, and what went wrong in them.
pub(crate) type Procedure = fn(&dyn DriverBackend, &Plan<'_>) -> Result<(), Problem>;

/// A problem that a procedure found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) cause: crate::Cause,
    /// The call, the expected result and the actual one.
    pub(crate) message: String,
}

/// Makes a group's batches.
type Make = Box<dyn Fn(&Plan<'_>) -> Vec<Batch> + Send + Sync>;

/// How a group's cases are made.
pub(crate) enum Work {
    /// Programs whose bytes the reference knows.
    Batches(Make),
    /// Steps on a driver, for what bytes of one program cannot show.
    Procedure(Procedure),
}

/// Batches that a report counts together.
pub(crate) struct Group {
    /// The prefix of names: `op/f32/div`.
    pub(crate) name: String,
    pub(crate) level: Level,
    pub(crate) track: Track,
    /// Whether its batches depend on the run's seed. The suite's digest covers those that do not.
    pub(crate) seeded: bool,
    pub(crate) work: Work,
}

impl Group {
    /// A group of batches that are the same in every run of that size.
    pub(crate) fn fixed(
        name: impl Into<String>,
        level: Level,
        track: Track,
        make: impl Fn(&Plan<'_>) -> Vec<Batch> + Send + Sync + 'static,
    ) -> Group {
        Group { name: name.into(), level, track, seeded: false, work: Work::Batches(Box::new(make)) }
    }

    /// A group of batches that the run's seed decides.
    pub(crate) fn seeded(
        name: impl Into<String>,
        level: Level,
        track: Track,
        make: impl Fn(&Plan<'_>) -> Vec<Batch> + Send + Sync + 'static,
    ) -> Group {
        Group { seeded: true, ..Group::fixed(name, level, track, make) }
    }
}
