//! What is this backend's own in the driver contract: programs that hang, many callers, a device that is lost, grid barriers
//! within a dispatch, who runs what, memory that runs out.

use std::time::Duration;
use vyre_driver::{CancelToken, DispatchConfig, ErrorCode, VyreBackend};
use vyre_driver_cpu::{CpuBackend, CpuConfig, Emitter};
use vyre_foundation::ir::Program;
use vyre_testkit::contract::{self, Subject, code, parse, words};

fn backend() -> CpuBackend {
    vyre_driver_cpu::open(&CpuConfig { threads: 2, ..CpuConfig::default() })
        .expect("this host has an emitter")
}

/// Where the tests run that all backends share.
fn subjects(_: &str) -> [Subject; 1] {
    [Subject::new(backend(), CpuBackend::lose_device)]
}

vyre_testkit::contract_tests!(
    subjects,
    what_hangs_ends_at_its_timeout_or_when_cancelled,
    one_kernel_that_is_stopped_leaves_others_alone,
    a_timeout_leaves_resident_memory_undefined_until_it_is_filled,
    a_timeout_also_ends_the_wait_for_a_buffer_that_another_dispatch_holds,
);

#[test]
fn a_forked_child_gets_an_error() {
    if contract::in_own_process("a_forked_child_gets_an_error", &[], contract::LIMIT) {
        subjects("a fork").iter().for_each(contract::a_forked_child_gets_an_error);
    }
}

/// Loops 2^32 - 1 times in each lane, with a bound that lanes share or have for themselves.
fn endless(varying: bool) -> Program {
    let bound = if varying { "%n" } else { "4294967295" };
    parse(&format!(
        "program @endless workgroup(64, 1, 1) {{
          buffer @y : read_write u32[64] binding 0 output
          var $a : u32 = 1
          %i = local_id x
          %n = sub.u32 4294967295, %i
          for %k in 0..{bound} {{
            %a = get.u32 $a
            %b = mul.u32 %a, 3
            %c = xor.u32 %b, %k
            set.u32 $a, %c
          }}
          %r = get.u32 $a
          store.u32 @y[%i], %r
        }}"
    ))
}

#[test]
fn what_hangs_between_launches_or_while_the_device_is_lost_ends() {
    let backend = backend();
    // Its loop launches nothing.
    let meetings = parse(
        "program @meetings workgroup(1, 1, 1) {
          buffer @y : read_write u32[1] binding 0 output
          for %a in 0..0xffffffff {
            grid_barrier
          }
        }",
    );
    let config = DispatchConfig { timeout: Some(Duration::from_millis(30)), ..DispatchConfig::default() };
    assert_eq!(code(backend.dispatch(&meetings, &[], &config)), ErrorCode::Timeout);
    let pending = backend.dispatch_async(&endless(true), &[], &DispatchConfig::default()).expect("it starts");
    backend.lose_device();
    assert_eq!(code(pending.await_result()), ErrorCode::DeviceLost);
    backend.try_recover().expect("it recovers");
}

#[test]
fn a_thousand_callers_get_their_own_answers() {
    const CALLERS: u32 = 1000;
    let backend = backend();
    let program = parse(
        "program @sum workgroup(64, 1, 1) {
          buffer @x : read       u32[] binding 0
          buffer @y : read_write u32[] binding 1 output
          %i = global_id x
          var $s : u32 = 0
          for %k in 0..100 {
            %at = add.u32 %i, %k
            %v = load.u32 @x[%at]
            %s = get.u32 $s
            %t = add.u32 %s, %v
            set.u32 $s, %t
          }
          %r = get.u32 $s
          store.u32 @y[%i], %r
        }",
    );
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (backend, program) = (&backend, &program);
            scope.spawn(move || {
                let x: Vec<u32> = (0..300).map(|i: u32| i.wrapping_mul(caller)).collect();
                let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
                let sum = |i: usize| x.iter().skip(i).take(100).fold(0u32, |s, x| s.wrapping_add(*x));
                let expected: Vec<u8> = (0..200).flat_map(|i| sum(i).to_le_bytes()).collect();
                let config = DispatchConfig { output_sizes: vec![800], ..DispatchConfig::default() };
                let found = backend.dispatch_borrowed(program, &[&bytes], &config).expect("it runs");
                assert!(found == [expected], "caller {caller}");
            });
        }
    });
}

fn metric(backend: &CpuBackend, name: &str) -> u64 {
    let found = backend.backend_metric_snapshot().into_iter().find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("{name} is not counted")).1
}

/// Rounds of `y[i] = y[i + 1] + y[i + 2]` around a ring: each needs all of the one before, from other workgroups too.
const RING: &str = "program @ring workgroup(32, 1, 1) {
  buffer @n : uniform    u32[1] binding 0
  buffer @y : read_write u32[]  binding 1 output
  %i = global_id x
  %len = len @y
  %a1 = add.u32 %i, 1
  %a2 = add.u32 %i, 2
  %a = rem.u32 %a1, %len
  %b = rem.u32 %a2, %len
  %rounds = load.u32 @n[0]
  for %k in 0..%rounds {
    %x = load.u32 @y[%a]
    %z = load.u32 @y[%b]
    %s = add.u32 %x, %z
    grid_barrier
    store.u32 @y[%i], %s
    %last = eq.u32 %k, 6
    grid_barrier
    if %last {
      break
    }
  }
}";

fn ring(mut y: Vec<u32>, rounds: u32) -> Vec<u32> {
    for _ in 0..rounds.min(7) {
        let len = y.len();
        y = (0..len).map(|i| y[(i + 1) % len].wrapping_add(y[(i + 2) % len])).collect();
    }
    y
}

#[test]
fn grid_barriers_hold_within_one_dispatch() {
    let (backend, program) = (backend(), parse(RING));
    assert!(backend.supports_grid_sync());
    // Enough workgroups for all threads, and many more.
    for (len, rounds) in [(32, 3), (32 * 700, 5), (32 * 700, 9)] {
        let start: Vec<u32> = (0..len).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
        let expected = words(ring(start.clone(), rounds));
        let (n, y) = (words([rounds]), words(start));
        let config = DispatchConfig::default();
        assert_eq!(backend.cooperative_grid_sync_fits(&program, &[&n, &y], &config), Ok(true));
        let pipelines = backend.pipeline_cache_snapshot().expect("they are counted");
        assert!(
            backend.dispatch_borrowed(&program, &[&n, &y], &config).expect("it runs") == [expected.clone()]
        );
        let more = backend.pipeline_cache_snapshot().expect("they are counted");
        assert!(
            more.hits + more.misses - pipelines.hits - pipelines.misses == 1,
            "one dispatch, one pipeline"
        );

        let resident = [4, y.len()].map(|bytes| backend.allocate_resident(bytes).expect("memory"));
        backend.upload_resident_many(&[(&resident[0], &n), (&resident[1], &y)]).expect("it uploads");
        backend.dispatch_resident_timed(&program, &resident, &config).expect("it runs");
        assert!(backend.download_resident(&resident[1]).expect("it downloads") == expected);
        assert_eq!(
            metric(&backend, "resident_allocations"),
            2,
            "what lives across barriers is the dispatch's own"
        );
        resident.into_iter().for_each(|resource| backend.free_resident(resource).expect("it is ours"));
    }
    let without = parse("program @empty workgroup(1, 1, 1) {\n}\n");
    assert_eq!(backend.cooperative_grid_sync_fits(&without, &[], &DispatchConfig::default()), Ok(false));
}

#[test]
fn small_grids_stay_on_the_calling_thread() {
    let (backend, program) = (backend(), parse(RING));
    for (len, shared) in [(64u32, false), (1 << 20, true)] {
        let (n, y) = (words([1]), vec![0; len as usize * 4]);
        let before = metric(&backend, "shared_dispatches");
        backend.dispatch_borrowed(&program, &[&n, &y], &DispatchConfig::default()).expect("it runs");
        assert_eq!(metric(&backend, "shared_dispatches") > before, shared, "{len} elements");
    }
}

#[test]
fn dispatches_that_are_not_awaited_run_in_turn() {
    let (backend, program) = (backend(), parse(RING));
    let start: Vec<u32> = (0..320).collect();
    let inputs = [words([4]), words(start.clone())];
    let expected = words(ring(start, 4));
    let pending: Vec<_> = (0..500)
        .map(|_| backend.dispatch_async(&program, &inputs, &DispatchConfig::default()).expect("it starts"))
        .collect();
    // One that is given up takes no other with it.
    let hang = backend.dispatch_async(&endless(false), &[], &DispatchConfig::default()).expect("it starts");
    assert_eq!(code(hang.await_timeout(Duration::from_millis(20))), ErrorCode::Timeout);
    for one in pending {
        assert!(one.await_result().expect("it runs") == [expected.clone()]);
    }
    // Nor does one whose turn does not come wait longer than it may.
    let stop = CancelToken::new();
    let config = DispatchConfig { cancel: Some(stop.clone()), ..DispatchConfig::default() };
    let start = || backend.dispatch_async(&endless(true), &[], &config).expect("it starts");
    let hanging: Vec<_> = (0..8).map(|_| start()).collect();
    let timeout = Some(Duration::from_millis(20));
    let brief = DispatchConfig { timeout, ..DispatchConfig::default() };
    let behind = backend.dispatch_async(&program, &inputs, &brief).expect("it starts");
    assert_eq!(code(behind.await_result()), ErrorCode::Timeout);
    stop.cancel();
    hanging.into_iter().for_each(|one| assert_eq!(code(one.await_result()), ErrorCode::Cancelled));
    backend.shutdown().expect("it shuts down");
    let late = backend.dispatch_async(&program, &inputs, &DispatchConfig::default()).expect("it starts");
    assert_eq!(code(late.await_result()), ErrorCode::ShutDown);
    assert_eq!(code(backend.allocate_resident(4)), ErrorCode::ShutDown);
    assert_eq!(code(backend.try_recover()), ErrorCode::ShutDown);
}

#[cfg(unix)]
#[test]
fn memory_that_runs_out_is_an_error() {
    const CHILD: &str = "VYRE_TEST_LITTLE_MEMORY";
    if std::env::var_os(CHILD).is_none() {
        // In a process of its own that may have two gigabytes of addresses.
        let limited = "ulimit -v 2000000; exec \"$0\" --exact memory_that_runs_out_is_an_error --nocapture";
        let own = std::env::current_exe().expect("this is one");
        let output = std::process::Command::new("sh").args(["-c", limited]).arg(own).env(CHILD, "1").output();
        let output = output.expect("there is a shell");
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let (backend, program) = (backend(), parse(RING));
    assert_eq!(code(backend.allocate_resident(usize::MAX / 2)), ErrorCode::OutOfMemory);
    assert_eq!(code(backend.allocate_resident(4 << 30)), ErrorCode::OutOfMemory);
    let config = |bytes| DispatchConfig { output_sizes: vec![bytes], ..DispatchConfig::default() };
    let n = words([1]);
    assert_eq!(code(backend.dispatch_borrowed(&program, &[&n], &config(4 << 30))), ErrorCode::OutOfMemory);
    // The buffer fits, and what lives across the barriers does not.
    assert_eq!(code(backend.dispatch_borrowed(&program, &[&n], &config(900 << 20))), ErrorCode::OutOfMemory);
    let y = backend.dispatch_borrowed(&program, &[&n], &config(1 << 20)).expect("there is memory for that");
    assert!(y == [vec![0; 1 << 20]]);
}

/// Stores past the caches, at the start of vectors and beside it, up to the last element.
#[test]
fn large_outputs_are_whole() {
    const COUNT: u32 = (32 << 20) / 4 + 77;
    let source = |ahead: u32| {
        format!(
            "program @large workgroup(64, 1, 1) {{
              buffer @y : read_write u32[] binding 0 output
              %i  = global_id x
              %at = add.u32 %i, {ahead}
              %v  = mul.u32 %i, 3
              store.u32 @y[%at], %v
            }}"
        )
    };
    for emitter in [Emitter::Portable, Emitter::Avx2, Emitter::Avx512] {
        let config = CpuConfig { emitter, threads: 2, ..CpuConfig::default() };
        let Ok(backend) = vyre_driver_cpu::open(&config) else {
            eprintln!("SKIP {emitter:?}: this processor does not have it");
            continue;
        };
        for ahead in [0, 16, 5] {
            let y = backend.allocate_resident(COUNT as usize * 4).expect("memory");
            let grid_override = Some([COUNT.div_ceil(64), 1, 1]);
            let config = DispatchConfig { grid_override, ..DispatchConfig::default() };
            let program = parse(&source(ahead));
            backend.dispatch_resident_timed(&program, std::slice::from_ref(&y), &config).expect("it runs");
            let found = backend.download_resident(&y).expect("it is there");
            let expected = (0..COUNT).map(|at| at.checked_sub(ahead).map_or(0, |i| i.wrapping_mul(3)));
            let same = found.chunks_exact(4).zip(expected).all(|(found, word)| found == word.to_le_bytes());
            assert!(same, "{emitter:?}, {ahead} ahead");
            backend.free_resident(y).expect("it is freed");
        }
    }
}

#[test]
fn compiling_ends_at_its_timeout() {
    let program = parse(
        "program @late workgroup(1, 1, 1) {
          buffer @y : read_write u32[1] binding 0 output
          store.u32 @y[0], 7
        }",
    );
    let backend = vyre_driver_cpu::open(&CpuConfig::default()).expect("it opens");
    let config = |timeout| DispatchConfig { timeout, ..DispatchConfig::default() };
    let error = backend.compile_native(&program, &config(Some(Duration::ZERO))).err().expect("it is late");
    assert_eq!(error.code(), ErrorCode::Timeout);
    assert!(backend.compile_native(&program, &config(None)).is_ok_and(|pipeline| pipeline.is_some()));
}
