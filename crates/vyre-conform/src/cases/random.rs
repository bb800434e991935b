//! Random programs, made from the run's own seed.

use crate::batch::{Batch, Content, Group, Level, Plan, Step, Track};
use crate::contract::OutputInit;
use vyre_foundation::launch::admit;
use vyre_generate::{Config, Stats};

/// Groups of each track; programs are spread over them.
const GROUPS: u64 = 8;

pub(crate) fn groups() -> Vec<Group> {
    let group = |track: Track, at: u64| {
        Group::seeded(format!("random/{track}/{at}"), Level::Random, track, move |plan| {
            batches(plan, track, at)
        })
    };
    Track::ALL.into_iter().flat_map(|track| (0..GROUPS).map(move |at| group(track, at))).collect()
}

fn batches(plan: &Plan<'_>, track: Track, group: u64) -> Vec<Batch> {
    let seed = plan.seed(&format!("random/{track}/{group}"));
    (0..plan.pick(8, 128)).map(|at| batch(plan, track, group, seed.wrapping_add(at))).collect()
}

fn config(plan: &Plan<'_>, track: Track) -> Config {
    let grid = plan.driver;
    Config { floats: track == Track::Float, grid_barriers: grid, collectives: grid, ..Config::default() }
}

fn batch(plan: &Plan<'_>, track: Track, group: u64, seed: u64) -> Batch {
    let case = vyre_generate::seeded(seed, &config(plan, track));
    let admission = admit(case.program.parts(), case.grid, &case.buffers);
    let step = Step {
        grid: admission.expect("generated launches are admitted").grid,
        contents: case.buffers.into_iter().map(Content::Bytes).collect(),
        init: OutputInit::Uninitialized,
        cases: 1,
    };
    Batch::new(format!("random/{track}/{group}:seed={seed:#018x}"), case.program, step)
}

/// What the programs contain, counted.
pub(crate) fn coverage(plan: &Plan<'_>) -> String {
    let mut stats = Stats::default();
    for track in Track::ALL {
        for group in 0..GROUPS {
            batches(plan, track, group).iter().for_each(|batch| stats.add(&batch.program));
        }
    }
    stats.to_string()
}
