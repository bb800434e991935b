//! Random programs, made from the run's own seed.
//!
//! No backend can know them in advance: the seed is drawn after the backend has reported its name. Programs of the float track
//! have floats and those of the integer track none; most of both have control flow, memory and barriers.

use super::fixture::{init, track_of};
use crate::batch::{Batch, Content, Group, Level, Plan, Step, Track};
use crate::contract::{Feature, OutputInit};
use vyre_foundation::ir::{BufferKind, OpId, ProgramParts};
use vyre_foundation::launch::{admit_buffers, bound_buffers};
use vyre_generate::{Case, Config, Stats};

/// Groups of each track; programs are spread over them.
const GROUPS: u64 = 8;

/// The workgroup memory that a program may use of the floor's 16 KiB: lowering needs some of its own.
pub(super) const SHARED_BYTES_MAX: u64 = 12 << 10;

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
    (0..plan.pick(13, 130)).map(|at| batch(plan, track, group, seed.wrapping_add(at << 32))).collect()
}

/// The configuration of a track's programs, small and large ones in turn.
pub(crate) fn config(plan: &Plan<'_>, track: Track, at: u64) -> Config {
    let grid = plan.driver;
    let (lines, workgroup_lanes_max, workgroups_max) = match at % 4 {
        0 => (25, 256, 3),
        1 => (40, 64, 3),
        2 => (60, 16, 4),
        _ => (120, 8, 2),
    };
    Config {
        lines,
        workgroup_lanes_max,
        workgroups_max,
        floats: track == Track::Float,
        grid_barriers: grid,
        collectives: grid,
        atomic_min_max_64: plan.profile.features.contains(&Feature::AtomicMinMax64),
        // A few end in a trap, which must come back as one.
        traps: at % 16 == 5,
        ..Config::default()
    }
}

/// The first of a seed's programs that the track wants: three of four have control flow, memory and barriers.
fn case(plan: &Plan<'_>, track: Track, seed: u64) -> Case {
    let at = seed >> 32;
    let config = config(plan, track, at);
    for attempt in 0.. {
        let case = vyre_generate::seeded(seed.wrapping_add(attempt), &config);
        let rich = || {
            let mut stats = Stats::default();
            stats.add(&case.program);
            stats.with_all == 1
        };
        let parts = case.program.parts();
        if track_of(parts) == track && shared_bytes(parts) <= SHARED_BYTES_MAX && (at % 4 == 3 || rich()) {
            return case;
        }
    }
    unreachable!("most programs have all of it")
}

/// Bytes of workgroup memory.
pub(super) fn shared_bytes(parts: &ProgramParts) -> u64 {
    let shared = parts.buffers.iter().filter(|buffer| matches!(buffer.kind, BufferKind::Workgroup));
    shared.map(|buffer| u64::from(buffer.len.unwrap_or(0)) * buffer.ty.bytes() as u64).sum()
}

fn batch(plan: &Plan<'_>, track: Track, group: u64, seed: u64) -> Batch {
    let case = case(plan, track, seed);
    let parts = case.program.parts();
    let grid = admit_buffers(&case.valid().expect("generated programs are valid"), case.grid, &case.buffers)
        .expect("generated launches are admitted")
        .grid;
    let init = init((seed >> 32) as usize);
    // Where the output memory starts at zero, so does what programs write: then the grid is launched as it is.
    let bound = bound_buffers(parts).into_iter().zip(case.buffers);
    let contents =
        bound.map(|(id, bytes)| match parts.buffer(id).is_writable() && init == OutputInit::Zero {
            true => Content::Zeros(bytes.len()),
            false => Content::Bytes(bytes),
        });
    let step = Step { grid, contents: contents.collect(), init, cases: 1 };
    Batch::new(format!("random/{track}/{group}:seed={seed:#018x}"), case.program, step)
}

/// The contents of the programs, counted.
pub(super) fn stats(plan: &Plan<'_>) -> Stats {
    let mut stats = Stats::default();
    for track in Track::ALL {
        for group in 0..GROUPS {
            batches(plan, track, group).iter().for_each(|batch| stats.add(&batch.program));
        }
    }
    stats
}

/// The contents of the programs, as text.
pub(crate) fn coverage(plan: &Plan<'_>) -> String {
    let stats = stats(plan);
    let programs = stats.programs.max(1) as f64;
    format!(
        "{} random programs, {:.0} lines each and {} at most, {} of {} ops; {:.0} % have control flow, memory and barriers",
        stats.programs,
        stats.lines as f64 / programs,
        stats.lines_max,
        stats.ops.len(),
        OpId::all().count(),
        100.0 * stats.with_all as f64 / programs,
    )
}
