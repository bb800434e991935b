//! What a run found, counted.

use crate::batch::{Level, Track};
use crate::contract::Profile;
use crate::failure::ParityFailure;
use crate::suite::Size;
use std::time::Duration;
use vyre_foundation::ir::Digest;

/// The result of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// The group's name, `op/f32/div`.
    pub name: String,
    /// The level it counts towards.
    pub level: Level,
    /// The track it counts towards.
    pub track: Track,
    /// Whether its batches depend on the run's seed.
    pub seeded: bool,
    /// Dispatches made.
    pub dispatches: u64,
    /// Cases run, many to a dispatch.
    pub cases: u64,
    /// Batches that failed.
    pub failed: u64,
    /// Over what was run: programs, grids, inputs.
    pub content: Digest,
    /// Over what the backend gave: the root of its batches' leaves.
    pub root: Digest,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The backend's name.
    pub backend: String,
    /// The profile that it published before the run.
    pub profile: Profile,
    /// Whether it was tested as a driver, with the driver contract.
    pub driver: bool,
    /// How much was run.
    pub size: Size,
    /// The highest level that was asked for.
    pub level: Level,
    /// The only track that was asked for; `None` means both.
    pub track: Option<Track>,
    /// The run's own random number.
    pub nonce: [u8; 32],
    /// Every group that a complete run of this suite has, whether it ran or not: name, level, track.
    pub planned: Vec<(String, Level, Track)>,
    /// The groups that ran, by name.
    pub groups: Vec<GroupReport>,
    /// The groups that were asked for and did not run, because the run ended before, by name.
    pub unrun: Vec<String>,
    /// The failures. Of each group, at least the first.
    pub failures: Vec<ParityFailure>,
    /// A summary of the contents of random programs.
    pub coverage: String,
    /// Whether all that was asked for ran: no filter, no shard, no cancellation.
    pub complete: bool,
    /// When it started, in UTC: `2025-01-31T12:00:00Z`.
    pub started: String,
    /// How long it took.
    pub elapsed: Duration,
}

/// How far a backend came on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The track.
    pub track: Track,
    /// The highest level it holds; `None` if not even the first.
    pub level: Option<Level>,
}

/// How one level of a track went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelState {
    /// Every group of it ran and passed.
    Passed,
    /// Something failed.
    Failed,
    /// Nothing failed, and not all of it ran.
    NotRun,
}

impl Report {
    /// How one level of a track went.
    pub fn level_state(&self, level: Level, track: Track) -> LevelState {
        let here = |l: Level, t: Track| (l, t) == (level, track);
        let failed = self.failures.iter().any(|failure| here(failure.level, failure.track))
            || self.groups.iter().any(|group| here(group.level, group.track) && group.failed > 0);
        let ran = |name: &String| self.groups.binary_search_by(|group| group.name.cmp(name)).is_ok();
        let mut planned = self.planned.iter().filter(|(_, l, t)| here(*l, *t)).peekable();
        match failed {
            true => LevelState::Failed,
            false if planned.peek().is_some() && planned.all(|(name, _, _)| ran(name)) => LevelState::Passed,
            false => LevelState::NotRun,
        }
    }

    /// The highest level of a track all of whose groups, and those of the levels below, ran and passed.
    pub fn standing(&self, track: Track) -> Standing {
        let passed = |level: &Level| self.level_state(*level, track) == LevelState::Passed;
        Standing { track, level: Level::ALL.into_iter().take_while(passed).last() }
    }

    /// Dispatches made.
    pub fn dispatches(&self) -> u64 {
        self.groups.iter().map(|group| group.dispatches).sum()
    }

    /// Cases run.
    pub fn cases(&self) -> u64 {
        self.groups.iter().map(|group| group.cases).sum()
    }

    /// Over the content of every group that is the same in all runs of this size.
    pub fn suite_digest(&self) -> Digest {
        let fixed = self.groups.iter().filter(|group| !group.seeded);
        suite_digest(fixed.map(|group| (group.name.as_str(), group.content.0)))
    }
}

/// Over groups' names and contents.
pub(crate) fn suite_digest<'g>(groups: impl Iterator<Item = (&'g str, [u8; 32])>) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("vyre conformance suite v1");
    for (name, content) in groups {
        hasher.update(name.as_bytes()).update(&[0]).update(&content);
    }
    Digest(*hasher.finalize().as_bytes())
}
