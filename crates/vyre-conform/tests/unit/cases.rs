//! The suite's own programs keep the rules that the suite holds backends to.

use super::fixture::track_of;
use super::{groups, random};
use crate::batch::{Batch, Content, Group, Level, Plan, Work};
use crate::contract::{Feature, Profile};
use crate::judge;
use crate::suite::{Size, content_digest};
use rayon::prelude::*;
use std::collections::{BTreeSet, HashSet};
use std::io::Write;
use vyre_foundation::ir::{DataType, Digest, OpId};
use vyre_foundation::launch::{bound_buffers, indirect};
use vyre_generate::Stats;
use vyre_lower::wgsl;
use vyre_reference::{FindingKind, Launch, Options, RunError, Schedule};

/// What the floor publishes, with every feature.
fn profile() -> Profile {
    Profile { features: Feature::ALL.into_iter().collect(), ..Profile::floor() }
}

fn plan(profile: &Profile, driver: bool) -> Plan<'_> {
    Plan { size: Size::Quick, profile, driver, seed: [7; 32] }
}

/// The batches of a quick run, with their groups.
fn batches(driver: bool) -> Vec<(Group, Vec<Batch>)> {
    let profile = profile();
    let plan = plan(&profile, driver);
    groups(driver)
        .into_iter()
        .map(|group| {
            let batches = match &group.work {
                Work::Batches(make) => make(&plan),
                Work::Procedure(_) => Vec::new(),
            };
            (group, batches)
        })
        .collect()
}

#[test]
fn names_are_unique_and_start_with_their_groups() {
    let mut seen = HashSet::new();
    for (group, batches) in batches(true) {
        assert!(seen.insert(group.name.clone()), "{}", group.name);
        for batch in batches {
            assert!(batch.name.starts_with(&format!("{}:", group.name)), "{} in {}", batch.name, group.name);
            assert!(seen.insert(batch.name.clone()), "{}", batch.name);
        }
    }
}

#[test]
fn programs_fit_the_floor_and_their_track() {
    let profile = profile();
    for (group, batches) in batches(false) {
        for batch in batches {
            let parts = batch.program.parts();
            assert!(batch.within(&profile), "{} exceeds the floor", batch.name);
            let bytes = random::shared_bytes(parts);
            assert!(
                bytes <= random::SHARED_BYTES_MAX,
                "{} has {bytes} bytes of workgroup memory",
                batch.name
            );
            assert_eq!(track_of(parts), group.track, "{}", batch.name);
            let grids = judge::valid(&batch.program).is_ok_and(|valid| valid.facts().has_grid_sync);
            let single = batch.steps.iter().all(|step| step.grid == [1, 1, 1]);
            assert!(!grids || single, "{}: the convention has no grid barriers", batch.name);
        }
    }
}

/// Runs every step in another order of lanes with the race check on.
fn race_free(batch: &Batch) {
    let valid = judge::valid(&batch.program).unwrap_or_else(|findings| panic!("{}: {findings}", batch.name));
    let parts = batch.program.parts();
    for (at, step) in batch.steps.iter().enumerate() {
        let expected =
            judge::expected(&valid, step).unwrap_or_else(|error| panic!("{}: {error}", batch.name));
        let launch = || Launch {
            grid: indirect(parts).is_none().then_some(step.grid),
            buffers: step.contents.iter().map(Content::to_bytes).collect(),
        };
        let options = Options { check: true, schedule: Schedule::Reverse, ..Options::default() };
        match vyre_reference::run(&valid, launch(), &options) {
            Err(RunError::Trap { code, .. }) => assert_eq!(judge::Answer::Trap(code), expected),
            Err(error) => panic!("{} step {at}: {error}", batch.name),
            Ok(outcome) => {
                let race = outcome.findings.iter().find(|finding| finding.kind == FindingKind::Race);
                assert!(
                    race.is_none(),
                    "{} step {at}: {}",
                    batch.name,
                    race.map_or(String::new(), |r| r.headline())
                );
                assert_eq!(outcome.grid, step.grid, "{} step {at}", batch.name);
                let outputs = bound_buffers(parts).into_iter().zip(outcome.buffers);
                let outputs = outputs.filter(|(id, _)| parts.buffer(*id).is_output()).map(|(_, bytes)| bytes);
                assert_eq!(judge::Answer::Outputs(outputs.collect()), expected, "{} step {at}", batch.name);
            }
        }
    }
}

#[test]
fn programs_are_valid_and_free_of_races() {
    let fixed: Vec<Batch> = batches(false).into_iter().flat_map(|(_, batches)| batches).collect();
    let only_drivers = batches(true).into_iter().flat_map(|(_, batches)| batches);
    let names: BTreeSet<String> = fixed.iter().map(|batch| batch.name.clone()).collect();
    let all: Vec<Batch> = only_drivers.filter(|batch| !names.contains(&batch.name)).chain(fixed).collect();
    // Wide grids take the check minutes, and their lanes meet in atomics only.
    all.par_iter().filter(|batch| !batch.name.contains("wide_grid")).for_each(race_free);
}

#[test]
fn random_programs_have_most_ops_and_half_of_them_all_of_it() {
    let profile = profile();
    let stats = random::stats(&plan(&profile, false));
    assert!(stats.programs >= 150, "{}", stats.programs);
    assert!(stats.with_all * 2 >= stats.programs, "{} of {}", stats.with_all, stats.programs);
    let without_grids = vyre_foundation::ir::OpId::all().count() - 5;
    assert!(stats.ops.len() * 20 >= without_grids * 19, "{} of {without_grids} ops", stats.ops.len());
}

#[test]
fn every_op_has_a_group_for_every_type() {
    let mut groups = batches(false);
    groups.retain(|(group, _)| group.level == Level::Ops);
    let mut missing = Vec::new();
    for op in OpId::all() {
        let types = op.info().types;
        let suffixes = types.iter().map(Some).chain(types.is_empty().then_some(None));
        for suffix in suffixes {
            let named = |name: &str| match suffix {
                None => name == format!("op/{op}"),
                Some(ty) => name == format!("op/{ty}/{op}") || name.ends_with(&format!("/{op}.{ty}")),
            };
            let mut stats = Stats::default();
            let own = groups.iter().filter(|(group, _)| named(&group.name)).flat_map(|(_, batches)| batches);
            own.for_each(|batch| stats.add(&batch.program));
            let present = match suffix {
                None => stats.ops.contains_key(&op),
                Some(ty) => stats.typed_ops.contains_key(&(op, ty)),
            };
            if !present {
                missing.push(suffix.map_or(op.to_string(), |ty: DataType| format!("{op}.{ty}")));
            }
        }
    }
    assert!(missing.is_empty(), "no group for {missing:?}");
}

#[test]
fn every_workgroup_size_occurs_in_a_quick_run() {
    let lanes = |(_, batches): (Group, Vec<Batch>)| {
        batches.into_iter().map(|batch| batch.program.parts().workgroup_lanes()).collect::<Vec<_>>()
    };
    let sizes: BTreeSet<u64> = batches(false).into_iter().flat_map(lanes).collect();
    let missing: Vec<u64> = (1..=256).filter(|size| !sizes.contains(size)).collect();
    assert!(missing.is_empty(), "no workgroup of {missing:?} lanes");
}

/// What a run has, for people.
#[test]
fn a_run_is_counted() {
    let mut out = std::io::stderr();
    let profile = profile();
    for (size, cases_min) in [(Size::Quick, 100_000), (Size::Full, 250_000)] {
        let plan = Plan { size, ..plan(&profile, false) };
        let mut total = 0;
        for level in Level::ALL {
            let own = groups(false).into_iter().filter(|group| group.level == level);
            let own: Vec<Group> = own.collect();
            let make = |group: &Group| match &group.work {
                Work::Batches(make) => make(&plan).iter().map(|b| (b.program.digest(), b.cases())).collect(),
                Work::Procedure(_) => Vec::new(),
            };
            let batches: Vec<_> = own.par_iter().flat_map_iter(make).collect();
            let programs: HashSet<_> = batches.iter().map(|(digest, _)| digest).collect();
            let cases: u64 = batches.iter().map(|(_, cases)| cases).sum();
            let _ = writeln!(
                out,
                "{} {level:<9} {:>4} groups {:>5} batches {:>5} programs {cases:>9} cases",
                size.name(),
                own.len(),
                batches.len(),
                programs.len(),
            );
            total += cases;
        }
        assert!(total >= cases_min, "{} has {total} cases", size.name());
    }
}

/// What a vendor without optional features gets can be written in WGSL, in both forms.
#[test]
fn every_program_has_a_shader() {
    let floor = Profile::floor();
    let plan = plan(&floor, false);
    let make = |group: &Group| match &group.work {
        Work::Batches(make) => make(&plan),
        Work::Procedure(_) => Vec::new(),
    };
    let all: Vec<Batch> = groups(false).par_iter().flat_map_iter(make).collect();
    let mut seen = HashSet::new();
    let distinct: Vec<&Batch> = all.iter().filter(|batch| seen.insert(batch.program.digest())).collect();
    distinct.par_iter().for_each(|batch| {
        let valid = judge::valid(&batch.program).unwrap_or_else(|findings| panic!("{findings}"));
        for form in [wgsl::Form::Grid, wgsl::Form::OneWorkgroup] {
            let options = wgsl::Options { form, ..wgsl::Options::DRIVER };
            if let Err(error) = wgsl::lower(&valid, &options) {
                panic!("{}: {error}", batch.name);
            }
        }
    });
}

/// The suite's digest covers what is the same in every run, and nothing else depends on the seed.
#[test]
fn the_seed_decides_seeded_groups_only() {
    let profile = profile();
    let digests = |seed: u8| -> Vec<(String, bool, Digest)> {
        let plan = Plan { seed: [seed; 32], ..plan(&profile, false) };
        let digest = |group: &Group| match &group.work {
            Work::Batches(make) => content_digest(make(&plan).iter()),
            Work::Procedure(_) => Digest([seed; 32]),
        };
        groups(false).par_iter().map(|group| (group.name.clone(), group.seeded, digest(group))).collect()
    };
    for ((name, seeded, one), (_, _, other)) in digests(1).into_iter().zip(digests(2)) {
        assert_eq!(one != other, seeded, "{name}");
    }
}
