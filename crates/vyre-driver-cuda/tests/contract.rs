//! The driver contract on a device, and what is this backend's own in it: kernels that stop within their loops, forks, the cache
//! on disk, times on its clock.

mod common;

use common::{backend, scratch, subjects, with_cache};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use vyre_driver::{DispatchConfig, ErrorCode, VyreBackend};
use vyre_driver_cuda::CudaConfig;
use vyre_foundation::ir::Program;
use vyre_testkit::contract::{self, churn, code, increment, words, works};

vyre_testkit::contract_tests!(
    subjects,
    what_hangs_ends_at_its_timeout_or_when_cancelled,
    one_kernel_that_is_stopped_leaves_others_alone,
    a_timeout_leaves_resident_memory_undefined_until_it_is_filled,
    a_timeout_also_ends_the_wait_for_a_buffer_that_another_dispatch_holds,
    blocks_that_nest_deep_are_right_or_refused,
);

#[test]
fn a_forked_child_gets_an_error() {
    if contract::in_own_process("a_forked_child_gets_an_error", &[], contract::LIMIT) {
        subjects("a_forked_child_gets_an_error").iter().for_each(contract::a_forked_child_gets_an_error);
    }
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let error = common::numbered(1000).err().expect("no machine has so many");
    assert_eq!(error.code(), ErrorCode::Unavailable);
    assert!(error.to_string().contains("Fix:"), "{error}");
}

#[test]
fn the_environment_chooses_the_device() {
    let test = "the_environment_chooses_the_device";
    for value in ["none", "-1", "x"] {
        if contract::in_own_process(test, &[("VYRE_CUDA_DEVICE", value)], contract::LIMIT) {
            let value = std::env::var("VYRE_CUDA_DEVICE").expect("it is set");
            let expected = if value == "none" { ErrorCode::Unavailable } else { ErrorCode::Other };
            return assert_eq!(code(CudaConfig::from_env()), expected, "{value}");
        }
    }
}

fn within(milliseconds: u64) -> DispatchConfig {
    DispatchConfig { timeout: Some(Duration::from_millis(milliseconds)), ..DispatchConfig::default() }
}

/// The cache's files, with what changes when one is written anew.
fn files(dir: &Path) -> Vec<(PathBuf, SystemTime, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).expect("the cache is a folder").flatten();
    let mut files: Vec<_> = entries
        .map(|entry| {
            let (path, meta) = (entry.path(), entry.metadata().expect("it is there"));
            let bytes = std::fs::read(&path).expect("it can be read");
            (path, meta.modified().expect("there is a clock"), bytes)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn kernels_are_kept_on_disk_and_damage_is_found() {
    let test = "kernels_are_kept_on_disk_and_damage_is_found";
    let dir = scratch(test);
    let Some(_) = backend(test) else { return };
    let run = |program: &Program, config: &DispatchConfig| {
        let inputs: &[&[u8]] = &[&words(0..64)];
        let backend = with_cache(&dir);
        backend.dispatch_borrowed(program, inputs, config).expect("it runs")
    };
    let plain = DispatchConfig::default();
    assert_eq!(run(&increment(), &plain), [words(1..65)]);
    let kept = files(&dir);
    assert_eq!(kept.len(), 1, "one kernel");
    assert_eq!(run(&increment(), &plain), [words(1..65)]);
    assert_eq!(files(&dir), kept, "what is kept is not written again");
    // Another program has a file of its own, and so has the same one with loops that can be stopped.
    let counted = [run(&churn("2", "300"), &plain), run(&churn("2", "300"), &within(600_000))];
    assert_eq!(counted[0], counted[1]);
    assert_eq!(files(&dir).len(), 3);
    let (path, _, whole) = &kept[0];
    for damage in [0, 8, 40, 72, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[damage] ^= 1;
        std::fs::write(path, &bytes).expect("it can be written");
        assert_eq!(run(&increment(), &plain), [words(1..65)], "byte {damage}");
        assert!(std::fs::read(path).expect("it is there") == *whole, "byte {damage} was not replaced");
    }
    std::fs::remove_dir_all(&dir).expect("it is a folder of ours");
}

#[test]
fn a_cache_that_cannot_be_written_is_none() {
    let test = "a_cache_that_cannot_be_written_is_none";
    let Some(_) = backend(test) else { return };
    // A file where the folder should be.
    let file = scratch(test);
    std::fs::write(&file, "no folder").expect("the temporary folder can be written");
    works(&with_cache(&file.join("cache")));
    std::fs::remove_file(&file).expect("it is a file of ours");
}

#[test]
fn stoppable_kernels_are_others_than_those_that_are_not() {
    let Some(backend) = backend("stoppable kernels") else { return };
    let misses = || backend.pipeline_cache_snapshot().expect("they are counted").misses;
    for (config, expected) in [(DispatchConfig::default(), 1), (within(600_000), 2), (within(600_000), 2)] {
        let inputs: &[&[u8]] = &[&words(0..64)];
        assert_eq!(
            backend.dispatch_borrowed(&increment(), inputs, &config).expect("it runs"),
            [words(1..65)]
        );
        assert_eq!(misses(), expected);
    }
}

#[test]
fn times_on_the_devices_clock_are_within_those_of_the_host() {
    let Some(backend) = backend("times") else { return };
    let inputs: &[&[u8]] = &[&words(0..100_000)];
    let timed = backend.dispatch_borrowed_timed(&increment(), inputs, &DispatchConfig::default());
    let timed = timed.expect("it runs");
    let device = timed.device_ns.expect("events measure it");
    assert!(0 < device && device <= timed.wall_ns, "{device} of {}", timed.wall_ns);
    let enqueue = timed.enqueue_ns.expect("the host measures it");
    assert!(0 < enqueue && enqueue <= timed.wall_ns, "{enqueue} of {}", timed.wall_ns);
}
