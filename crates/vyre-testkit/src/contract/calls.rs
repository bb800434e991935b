//! Dispatches: grids, limits, traps, time, many at once, pipelines.

use super::{Subject, code, increment, parse, words, works};
use std::time::{Duration, Instant};
use vyre_driver::{BackendError, CancelToken, DispatchConfig, ErrorCode};
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{FunctionId, Program};
use vyre_foundation::limits;

/// The grid is larger than one launch of some devices may be, along each axis.
///
/// # Panics
/// If the backend breaks the contract.
pub fn grids_beyond_one_launch_are_launched_in_pieces(backend: &Subject) {
    // Every workgroup marks its place, and one in the middle says where it is.
    let program = parse(
        "program @places workgroup(1, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          %i = workgroup_index
          %x = workgroup_id x
          %y = workgroup_id y
          %z = workgroup_id z
          %a = mul.u32 %y, 3
          %b = mul.u32 %z, 5
          %c = add.u32 %x, %a
          %d = add.u32 %c, %b
          store.u32 @y[%i], %d
        }",
    );
    for grid in [[70_000, 1, 1], [1, 70_000, 1], [2, 1, 65_536]] {
        let [wide, high, deep] = grid;
        let count = wide * high * deep;
        let config = DispatchConfig {
            grid_override: Some(grid),
            output_sizes: vec![count as usize * 4],
            ..DispatchConfig::default()
        };
        let place = |i: u32| i % wide + 3 * (i / wide % high) + 5 * (i / (wide * high));
        let found = backend.dispatch(&program, &[], &config).expect("it runs");
        assert!(found == [words((0..count).map(place))], "{grid:?}");
    }
}

/// Counts trips of this many nested loops.
fn nested(depth: usize) -> Program {
    let open: String = (0..depth).map(|at| format!("for %k{at} in 0..%n {{\n")).collect();
    parse(&format!(
        "program @nested workgroup(64, 1, 1) {{
          buffer @y : read_write u32[64] binding 0 output
          %i = local_id x
          %n = load.u32 @y[%i]
          var $s : u32 = 0
          {open} %g = get.u32 $s
          %h = add.u32 %g, 1
          set.u32 $s, %h
          {close}
          %r = get.u32 $s
          store.u32 @y[%i], %r
        }}",
        close = "}\n".repeat(depth)
    ))
}

/// For devices whose driver compiles the blocks: deep ones are right, or refused as beyond a limit.
///
/// # Panics
/// If the backend breaks the contract.
pub fn blocks_that_nest_deep_are_right_or_refused(backend: &Subject) {
    for depth in [1, 60, 72, 73, 80, 81, 100, 120, 126] {
        let input = words([1; 64]);
        match backend.dispatch_borrowed(&nested(depth), &[&input], &DispatchConfig::default()) {
            Ok(found) => assert_eq!(found, [words([1; 64])], "{depth} deep"),
            Err(error) => {
                assert!(depth > 60, "{depth} deep: {error}");
                assert_eq!(code::<()>(Err(error)), ErrorCode::LimitExceeded);
            }
        }
    }
}

/// Sums the lanes' own elements of workgroup memory, by `line`; `bytes` of it in all.
fn shares(bytes: u32, line: &str) -> Program {
    parse(&format!(
        "program @shares workgroup(64, 1, 1) subgroup(32) {{
          buffer @y : read_write u32[64] binding 0 output
          buffer @m : workgroup u32[{}]
          %i = local_index
          %last = sub.u32 {}, %i
          store.u32 @m[%last], %i
          barrier
          %v = load.u32 @m[%last]
          {line}
          store.u32 @y[%i], %r
        }}",
        bytes / 4,
        bytes / 4 - 1
    ))
}

/// What the profile publishes can be used, and not a word more.
///
/// # Panics
/// If the backend breaks the contract.
pub fn all_of_the_workgroup_memory_can_be_had(backend: &Subject) {
    let bytes_max = backend.device_profile().max_shared_memory_bytes;
    let run = |bytes, line| {
        let inputs: &[&[u8]] = &[&[0; 256]];
        backend.dispatch_borrowed(&shares(bytes, line), inputs, &DispatchConfig::default())
    };
    let (own, shared) = ("%r = add.u32 %v, 1", "%r = subgroup_broadcast.u32 %v, 3");
    let broadcast = [words((0..64).map(|lane| lane / 32 * 32 + 3))];
    assert_eq!(run(bytes_max, own).expect("that much is there"), [words(1..65)]);
    let beyond = match u64::from(bytes_max) < limits::WORKGROUP_BYTES_MAX {
        true => ErrorCode::LimitExceeded,
        false => ErrorCode::InvalidProgram,
    };
    assert_eq!(code(run(bytes_max + 4, own)), beyond);
    // Where lanes exchange through it there is a little less.
    match run(bytes_max, shared) {
        Ok(found) => assert_eq!(found, broadcast),
        Err(error) => assert_eq!(code::<()>(Err(error)), ErrorCode::LimitExceeded),
    }
    assert_eq!(run(bytes_max - 1024, shared).expect("that much is there"), broadcast);
}

/// Buffers and allocations beyond what there is are errors of their own kind, and the device goes on.
///
/// # Panics
/// If the backend breaks the contract.
pub fn limits_are_named(backend: &Subject) {
    let bytes_max = backend.max_storage_buffer_bytes();
    // Zero means not reported, and larger buffers have more elements than an index counts.
    if (1..1 << 34).contains(&bytes_max) {
        let config = DispatchConfig {
            output_sizes: vec![bytes_max as usize + 4],
            grid_override: Some([1, 1, 1]),
            ..DispatchConfig::default()
        };
        assert_eq!(code(backend.dispatch(&increment(), &[], &config)), ErrorCode::LimitExceeded);
    }
    for byte_len in [1 << 50, usize::MAX / 2, usize::MAX - 3, usize::MAX] {
        let refused = code(backend.allocate_resident(byte_len));
        assert!(
            [ErrorCode::LimitExceeded, ErrorCode::OutOfMemory].contains(&refused),
            "{byte_len}: {refused}"
        );
        assert!(!backend.device_lost(), "{byte_len}");
    }
    works(&**backend);
}

/// Of the traps of all lanes, the one that comes back is the first in the program.
///
/// # Panics
/// If the backend breaks the contract.
pub fn a_trap_is_the_first_of_the_program_as_written(backend: &Subject) {
    let program = parse(
        "program @traps workgroup(64, 1, 1) {
          fn @check(%v : u32) {
            %bad = eq.u32 %v, 40
            if %bad {
              trap 9
            }
          }
          %i = local_id x
          for %k in 0..2 {
            %late = eq.u32 %k, 1
            if %late {
              call @check(%i)
            }
            trap 5
          }
        }",
    );
    for _ in 0..2 {
        let error = backend.dispatch(&program, &[], &DispatchConfig::default()).expect_err("it traps");
        let BackendError::Trap { code, place, .. } = error else { panic!("{error}") };
        assert_eq!((code, place), (9, Place::Line { function: Some(FunctionId(0)), site: 2 }));
        assert!(!backend.device_lost());
        // Nothing of the trap is left for the next.
        works(&**backend);
    }
}

/// Changes 64 elements in a loop within a loop. `%n` is many trips, another number for each lane.
pub fn churn(outer_trips: &str, inner_trips: &str) -> Program {
    parse(&format!(
        "program @churn workgroup(64, 1, 1) {{
          buffer @y : read_write u32[64] binding 0 output
          %i = local_id x
          %n = sub.u32 4294967295, %i
          for %j in 0..{outer_trips} {{
            for %k in 0..{inner_trips} {{
              %a = load.u32 @y[%i]
              %b = mul.u32 %a, 3
              %c = xor.u32 %b, %k
              store.u32 @y[%i], %c
            }}
          }}
        }}"
    ))
}

fn timeout(limit: Duration) -> DispatchConfig {
    DispatchConfig { timeout: Some(limit), ..DispatchConfig::default() }
}

/// A timeout takes the dispatch, and neither the device nor the memory that the late one had.
///
/// # Panics
/// If the backend breaks the contract.
pub fn a_kernel_that_ends_late_leaves_the_device_as_it_was(backend: &Subject) {
    let late = churn("1", "3000000");
    let input = words(0..64);
    // Compiled before, for kernels that can be stopped, so that it is the kernel that takes the time.
    backend.compile_native(&late, &timeout(Duration::from_secs(600))).expect("it compiles");
    let brief = timeout(Duration::from_millis(2));
    assert_eq!(code(backend.dispatch_borrowed(&late, &[&input], &brief)), ErrorCode::Timeout);
    assert!(!backend.device_lost());
    for _ in 0..3 {
        let found = backend.dispatch_borrowed(&increment(), &[&input], &timeout(Duration::from_secs(600)));
        assert_eq!(found.expect("it runs"), [words(1..65)]);
    }
}

/// For devices that stop a kernel within its loops: it ends at its timeout or when cancelled, and the device goes on.
///
/// # Panics
/// If the backend breaks the contract.
pub fn what_hangs_ends_at_its_timeout_or_when_cancelled(backend: &Subject) {
    let limit = Duration::from_millis(30);
    let start = Instant::now();
    for (endless, workgroups) in
        [(churn("4294967295", "64"), 1), (churn("%n", "%n"), 1), (churn("2", "%n"), 64)]
    {
        let config = DispatchConfig { grid_override: Some([workgroups, 1, 1]), ..timeout(limit) };
        assert_eq!(code(backend.dispatch(&endless, &[], &config)), ErrorCode::Timeout);
        works(&**backend);
    }
    let endless = churn("%n", "%n");
    let cancel = CancelToken::new();
    let config = DispatchConfig { cancel: Some(cancel.clone()), ..DispatchConfig::default() };
    // Several in flight, and none is ready.
    let start_one =
        |config: &DispatchConfig| backend.dispatch_async(&endless, &[], config).expect("it starts");
    let pending = [start_one(&config), start_one(&config), start_one(&config)];
    std::thread::sleep(Duration::from_millis(20));
    assert!(pending.iter().all(|one| !one.is_ready()));
    works(&**backend);
    cancel.cancel();
    pending.into_iter().for_each(|one| assert_eq!(code(one.await_result()), ErrorCode::Cancelled));
    let one = start_one(&DispatchConfig::default());
    one.cancel();
    assert_eq!(code(one.await_result()), ErrorCode::Cancelled);
    assert_eq!(code(start_one(&DispatchConfig::default()).await_timeout(limit)), ErrorCode::Timeout);
    assert!(!backend.device_lost());
    works(&**backend);
    // Ten dispatches with seconds each: the time of what waits for the end of all trips is beyond that by far.
    assert!(start.elapsed() < Duration::from_secs(100), "{:?}", start.elapsed());
}

/// Dispatches that were started and not awaited keep their bytes apart, may end in any order, and may be dropped.
///
/// # Panics
/// If the backend breaks the contract.
pub fn dispatches_in_flight_keep_their_own_bytes(backend: &Subject) {
    let (program, config) = (increment(), DispatchConfig::default());
    let input = |at: u32| words(at * 1000..at * 1000 + 300);
    let start = |at: u32| backend.dispatch_async(&program, &[input(at)], &config).expect("it starts");
    let pending: Vec<_> = (0..20).map(start).collect();
    for (at, one) in pending.into_iter().enumerate().rev() {
        let at = at as u32;
        assert_eq!(one.await_result().expect("it runs"), [words(at * 1000 + 1..at * 1000 + 301)]);
    }
    let one = start(1);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !one.is_ready() {
        assert!(Instant::now() < deadline, "it is never ready");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(one.await_result().expect("it runs"), [words(1001..1301)]);
    let borrowed = {
        let bytes = input(2);
        backend.dispatch_borrowed_async(&program, &[&bytes], &config).expect("it starts")
    };
    assert_eq!(borrowed.await_result().expect("its input is gone by now"), [words(2001..2301)]);
    // Those that are dropped in flight release all their memory.
    (0..10).for_each(|at| drop(start(at)));
    for at in 0..10 {
        assert_eq!(start(at).await_result().expect("it runs"), [words(at * 1000 + 1..at * 1000 + 301)]);
    }
    let refused = backend.dispatch_async(&program, &[], &config).and_then(|one| one.await_result());
    assert_eq!(code(refused), ErrorCode::InvalidLaunch);
    backend.flush().expect("it flushes");
}

/// Threads that dispatch at once, each with its own bytes and sizes.
///
/// # Panics
/// If the backend breaks the contract.
pub fn many_callers_get_their_own_answers(backend: &Subject) {
    let program = parse(
        "program @weigh workgroup(64, 1, 1) {
          buffer @x : read       u32[] binding 0
          buffer @y : read_write u32[] binding 1 output
          %i = global_id x
          %v = load.u32 @x[%i]
          %w = mul.u32 %v, 3
          store.u32 @y[%i], %w
        }",
    );
    std::thread::scope(|scope| {
        for caller in 0..16 {
            let program = &program;
            scope.spawn(move || {
                for turn in 0..8 {
                    let count = 100 + 37 * caller + turn;
                    let (first, len) = (caller * 1_000_000 + turn, count as usize * 4);
                    let config = DispatchConfig { output_sizes: vec![len], ..DispatchConfig::default() };
                    let inputs: &[&[u8]] = &[&words(first..first + count)];
                    let found = backend.dispatch_borrowed(program, inputs, &config).expect("it runs");
                    let expected = words((first..first + count).map(|v| v.wrapping_mul(3)));
                    assert!(found == [expected], "caller {caller}, turn {turn}");
                }
            });
        }
    });
}

/// A program is compiled for its first dispatch, and not again.
///
/// # Panics
/// If the backend breaks the contract.
pub fn pipelines_are_compiled_once(backend: &Subject) {
    let counts = || {
        let snapshot = backend.pipeline_cache_snapshot().expect("they are counted");
        (snapshot.hits, snapshot.misses, snapshot.entries)
    };
    assert_eq!(counts(), (0, 0, 0));
    works(&**backend);
    assert_eq!(counts(), (0, 1, 1));
    works(&**backend);
    let pipeline = backend.compile_native(&increment(), &DispatchConfig::default()).expect("it compiles");
    assert_eq!(counts(), (2, 1, 1));
    let pipeline = pipeline.expect("there is something to keep");
    let inputs: &[&[u8]] = &[&words([4])];
    assert_eq!(pipeline.dispatch(inputs, &DispatchConfig::default()).expect("it runs"), [words([5])]);
    assert_eq!(counts().1, 1);
    // Another workgroup is another program.
    let config = DispatchConfig { workgroup_override: Some([32, 1, 1]), ..DispatchConfig::default() };
    assert_eq!(backend.dispatch_borrowed(&increment(), inputs, &config).expect("it runs"), [words([5])]);
    assert_eq!(counts().1, 2);
}

/// A grid that is launched in pieces along one axis knows the places along another.
///
/// # Panics
/// If the backend breaks the contract.
pub fn grids_in_pieces_know_their_places_along_two_axes(backend: &Subject) {
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

/// Workgroups along each axis up to the published limits, and not beyond.
///
/// # Panics
/// If the backend breaks the contract.
pub fn workgroups_of_every_shape_that_the_device_publishes_run(backend: &Subject) {
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
    works(&**backend);
}

/// For devices that stop a kernel within its loops: others that run beside it are right.
///
/// # Panics
/// If the backend breaks the contract.
pub fn one_kernel_that_is_stopped_leaves_others_alone(backend: &Subject) {
    std::thread::scope(|scope| {
        for outer in ["%n", "4294967295"] {
            scope.spawn(move || {
                for _ in 0..3 {
                    let late =
                        backend.dispatch(&churn(outer, "%n"), &[], &timeout(Duration::from_millis(100)));
                    assert_eq!(code(late), ErrorCode::Timeout);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| (0..100).for_each(|_| works(&**backend)));
        }
    });
    assert!(!backend.device_lost());
}

/// For devices that stop a kernel within its loops: what it may have written is refused, what it only reads is not.
///
/// # Panics
/// If the backend breaks the contract.
pub fn a_timeout_leaves_resident_memory_undefined_until_it_is_filled(backend: &Subject) {
    let [written, read] = [256, 64].map(|bytes| backend.allocate_resident(bytes).expect("it fits"));
    backend.upload_resident(&read, &[9; 64]).expect("it uploads");
    let start = Instant::now();
    let memory = std::slice::from_ref(&written);
    let late =
        backend.dispatch_resident_timed(&churn("%n", "%n"), memory, &timeout(Duration::from_millis(20)));
    assert_eq!(code(late), ErrorCode::Timeout);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(code(backend.download_resident(&written)), ErrorCode::BadHandle);
    assert_eq!(backend.download_resident(&read).expect("it was not written"), [9; 64]);
    backend.upload_resident(&written, &words(0..64)).expect("it uploads");
    backend.dispatch_resident_timed(&increment(), memory, &DispatchConfig::default()).expect("it runs");
    assert_eq!(backend.download_resident(&written).expect("it is defined"), words(1..65));
}

/// Admission refuses what no device may see.
///
/// # Panics
/// If the backend breaks the contract.
pub fn what_is_wrong_is_refused_before_any_launch(backend: &Subject) {
    let invalid = parse("program @bad workgroup(1, 1, 1) {\n  break\n}\n");
    assert_eq!(code(backend.dispatch(&invalid, &[], &DispatchConfig::default())), ErrorCode::InvalidProgram);
    let huge = DispatchConfig { grid_override: Some([u32::MAX, 2, 1]), ..DispatchConfig::default() };
    let inputs = [words([1])];
    assert_eq!(code(backend.dispatch(&increment(), &inputs, &huge)), ErrorCode::InvalidLaunch);
    let wide = DispatchConfig { workgroup_override: Some([2048, 1, 1]), ..DispatchConfig::default() };
    assert_eq!(code(backend.dispatch(&increment(), &inputs, &wide)), ErrorCode::InvalidProgram);
    assert_eq!(backend.backend_metric_snapshot()[0], ("dispatches", 0));
}

/// For devices that stop a kernel within its loops: a caller that waits for memory ends at its timeout too.
///
/// # Panics
/// If the backend breaks the contract.
pub fn a_timeout_also_ends_the_wait_for_a_buffer_that_another_dispatch_holds(backend: &Subject) {
    let (program, y) = (churn("%n", "%n"), [backend.allocate_resident(256).expect("it fits")]);
    let token = CancelToken::new();
    let cancellable = DispatchConfig { cancel: Some(token.clone()), ..DispatchConfig::default() };
    let limit = Duration::from_millis(50);
    let impatient = DispatchConfig { timeout: Some(limit), ..DispatchConfig::default() };
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| backend.dispatch_resident_timed(&program, &y, &cancellable));
        std::thread::sleep(Duration::from_millis(20));
        let waited = backend.dispatch_resident_timed(&program, &y, &impatient);
        assert_eq!(waited.expect_err("it is late"), BackendError::Timeout { limit });
        token.cancel();
        // If the holder came too late to hold it, it finds what the other left.
        let held = code(holder.join().expect("it does not panic"));
        assert!([ErrorCode::Cancelled, ErrorCode::BadHandle].contains(&held), "{held}");
    });
    assert_eq!(code(backend.download_resident(&y[0])), ErrorCode::BadHandle, "its bytes are undefined now");
}
