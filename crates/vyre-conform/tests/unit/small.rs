//! A suite of thirty groups, for tests that are about certificates and not about cases.

use crate::batch::{Batch, Content, Group, Level, Plan, Step, Track, Work};
use crate::contract::OutputInit;
use vyre_foundation::launch::admit_buffers;
use vyre_generate::{Config, seeded};

/// Three groups for each level and track; those of the level `random` depend on the nonce. Drivers have a procedure too.
pub(crate) fn groups(driver: bool) -> Vec<Group> {
    let places = Level::ALL.into_iter().flat_map(|level| Track::ALL.map(|track| (level, track)));
    let groups = places.flat_map(|place| (0..3).map(move |at| (place, at)));
    let batches = groups.map(|((level, track), at)| group(level, track, at));
    let (level, track) = (Level::Random, Track::Integer);
    let work = Work::Procedure(|_, _| Ok(()));
    let procedure = Group { name: "driver/small".into(), level, track, seeded: false, work };
    batches.chain(driver.then_some(procedure)).collect()
}

fn group(level: Level, track: Track, at: u64) -> Group {
    let name = format!("{level}/{track}/{at}");
    let start = move |plan: &Plan<'_>, name: &str| match level {
        Level::Random => plan.seed(name),
        Level::Ops | Level::Laws | Level::Programs | Level::Math => at + 100 * level as u64,
    };
    let own = name.clone();
    let make = move |plan: &Plan<'_>| {
        let first = start(plan, &own);
        (0..2).map(|at| batch(&own, track, first.wrapping_add(at))).collect()
    };
    match level {
        Level::Random => Group::seeded(name, level, track, make),
        Level::Ops | Level::Laws | Level::Programs | Level::Math => Group::fixed(name, level, track, make),
    }
}

fn batch(group: &str, track: Track, seed: u64) -> Batch {
    let config = Config {
        floats: track == Track::Float,
        grid_barriers: false,
        collectives: false,
        ..Config::default()
    };
    let case = seeded(seed, &config);
    let grid = admit_buffers(&case.valid().expect("generated programs are valid"), case.grid, &case.buffers)
        .expect("generated launches run")
        .grid;
    let contents = case.buffers.into_iter().map(Content::Bytes).collect();
    let step = Step { grid, contents, init: OutputInit::Zero, cases: 1 };
    Batch::new(format!("{group}:{seed:x}"), case.program, step)
}
