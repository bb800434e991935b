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
