//! The driver contract on a device, and what is this backend's own in it: kernels that stop within their loops, forks, the cache
//! on disk, limits of a launch, several ways of work at once.

mod common;

use common::{backend, scratch, subjects, with_cache};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use vyre_driver::{DispatchConfig, ErrorCode, VyreBackend};
use vyre_driver_cuda::CudaConfig;
use vyre_foundation::ir::Program;
use vyre_testkit::contract::{self, churn, code, increment, parse, words, works};

vyre_testkit::contract_tests!(
    subjects,
    what_hangs_ends_at_its_timeout_or_when_cancelled,
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
fn grids_in_pieces_know_their_places_along_two_axes() {
    let Some(backend) = backend("grids in pieces") else { return };
    // Beyond what one launch takes along y and z at once would be 2^32 workgroups; so each beside a second axis.
    let program = parse(
        "program @corner workgroup(1, 1, 1) {
          buffer @y : read_write u32[4] binding 0 output
          %x = workgroup_id x
          %y = workgroup_id y
          %z = workgroup_id z
          %w = num_workgroups x
          %h = num_workgroups y
          %d = num_workgroups z
          atomic_max.u32 @y[0], %y
          atomic_max.u32 @y[1], %z
          %s = add.u32 %h, %d
          %t = add.u32 %s, %w
          atomic_max.u32 @y[2], %t
          atomic_add.u32 @y[3], 1
        }",
    );
    for [w, h, d] in [[1, 65_535, 1], [1, 65_536, 2], [1, 2, 65_537], [1, 131_071, 1]] {
        let config = DispatchConfig { grid_override: Some([w, h, d]), ..DispatchConfig::default() };
        let found = backend.dispatch(&program, &[], &config).expect("it runs");
        assert_eq!(found, [words([h - 1, d - 1, w + h + d, w * h * d])], "{:?}", [w, h, d]);
    }
}

#[test]
fn workgroups_of_every_shape_that_the_device_publishes_run() {
    let Some(backend) = backend("workgroup shapes") else { return };
    let program = parse(
        "program @shape workgroup(1, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          %i = local_index
          %x = local_id x
          %y = local_id y
          %z = local_id z
          %a = mul.u32 %y, 3
          %b = mul.u32 %z, 5
          %c = add.u32 %x, %a
          %d = add.u32 %c, %b
          store.u32 @y[%i], %d
        }",
    );
    let lanes_max = backend.max_compute_invocations_per_workgroup();
    let [x_max, y_max, z_max] = backend.max_workgroup_size();
    for [x, y, z] in [
        [x_max.min(lanes_max), 1, 1],
        [1, y_max.min(lanes_max), 1],
        [1, 1, z_max.min(lanes_max)],
        [7, 5, 3],
        [33, 1, 1],
        [lanes_max / 64, 8, 8],
    ] {
        let count = x * y * z;
        let config = DispatchConfig {
            workgroup_override: Some([x, y, z]),
            grid_override: Some([1, 1, 1]),
            output_sizes: vec![count as usize * 4],
            ..DispatchConfig::default()
        };
        let place = |i: u32| i % x + 3 * (i / x % y) + 5 * (i / (x * y));
        let found = backend.dispatch(&program, &[], &config).expect("it runs");
        assert_eq!(found, [words((0..count).map(place))], "{:?}", [x, y, z]);
    }
    let beyond = DispatchConfig { workgroup_override: Some([1, 1, z_max + 1]), ..DispatchConfig::default() };
    let refused = code(backend.dispatch(&program, &[words([0; 64])], &beyond));
    assert!([ErrorCode::LimitExceeded, ErrorCode::InvalidProgram].contains(&refused), "{refused}");
    works(&backend);
}

#[test]
fn one_kernel_that_is_stopped_leaves_others_alone() {
    let Some(backend) = backend("stopped beside others") else { return };
    std::thread::scope(|scope| {
        for outer in ["%n", "4294967295"] {
            let backend = &backend;
            scope.spawn(move || {
                for _ in 0..3 {
                    let late = backend.dispatch(&churn(outer, "%n"), &[], &within(100));
                    assert_eq!(code(late), ErrorCode::Timeout);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| (0..100).for_each(|_| works(&backend)));
        }
    });
    assert!(!backend.device_lost());
}

#[test]
fn a_timeout_leaves_resident_memory_undefined_until_it_is_filled() {
    let Some(backend) = backend("a timeout on resident memory") else { return };
    let [written, read] = [256, 64].map(|bytes| backend.allocate_resident(bytes).expect("it fits"));
    backend.upload_resident(&read, &[9; 64]).expect("it uploads");
    let start = Instant::now();
    let memory = std::slice::from_ref(&written);
    let late = backend.dispatch_resident_timed(&churn("%n", "%n"), memory, &within(20));
    assert_eq!(code(late), ErrorCode::Timeout);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(code(backend.download_resident(&written)), ErrorCode::BadHandle);
    assert_eq!(backend.download_resident(&read).expect("it was not written"), [9; 64]);
    backend.upload_resident(&written, &words(0..64)).expect("it uploads");
    backend.dispatch_resident_timed(&increment(), memory, &DispatchConfig::default()).expect("it runs");
    assert_eq!(backend.download_resident(&written).expect("it is defined"), words(1..65));
}

#[test]
fn times_on_the_devices_clock_are_within_those_of_the_host() {
    let Some(backend) = backend("times") else { return };
    let inputs: &[&[u8]] = &[&words(0..100_000)];
    let timed = backend.dispatch_borrowed_timed(&increment(), inputs, &DispatchConfig::default());
    let timed = timed.expect("it runs");
    let device = timed.device_ns.expect("events measure it");
    assert!(0 < device && device <= timed.wall_ns, "{device} of {}", timed.wall_ns);
}
