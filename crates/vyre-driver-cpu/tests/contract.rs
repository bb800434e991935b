//! What is this backend's own in the driver contract: programs that hang, many callers, a device that is lost.

use std::time::{Duration, Instant};
use vyre_driver::{BackendError, CancelToken, DispatchConfig, ErrorCode, VyreBackend};
use vyre_driver_cpu::{CpuBackend, CpuConfig};
use vyre_foundation::ir::Program;
use vyre_foundation::text;

fn backend() -> CpuBackend {
    CpuBackend::new(CpuConfig { threads: 2, ..CpuConfig::default() }).expect("this host has an emitter")
}

fn parse(source: &str) -> Program {
    text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program
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

fn code<T: std::fmt::Debug>(result: Result<T, BackendError>) -> ErrorCode {
    let error = result.expect_err("must fail");
    assert!(error.to_string().contains("Fix:"), "{error}");
    error.code()
}

#[test]
fn what_hangs_ends_at_its_timeout_or_when_cancelled() {
    let backend = backend();
    for (varying, workgroups) in [(false, 1), (true, 1), (true, 64)] {
        let grid_override = Some([workgroups, 1, 1]);
        let config = DispatchConfig {
            timeout: Some(Duration::from_millis(30)),
            grid_override,
            ..DispatchConfig::default()
        };
        let start = Instant::now();
        assert_eq!(code(backend.dispatch(&endless(varying), &[], &config)), ErrorCode::Timeout);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
    let cancel = CancelToken::new();
    let config = DispatchConfig { cancel: Some(cancel.clone()), ..DispatchConfig::default() };
    let pending = backend.dispatch_async(&endless(false), &[], &config).expect("it starts");
    cancel.cancel();
    assert_eq!(code(pending.await_result()), ErrorCode::Cancelled);
    let pending = backend.dispatch_async(&endless(true), &[], &DispatchConfig::default()).expect("it starts");
    backend.lose_device();
    assert_eq!(code(pending.await_result()), ErrorCode::DeviceLost);
    backend.try_recover().expect("it recovers");
}

#[test]
fn many_callers_get_their_own_answers() {
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

#[test]
fn a_trap_is_the_first_of_the_program_as_written() {
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
    let error = backend().dispatch(&program, &[], &DispatchConfig::default()).expect_err("it traps");
    let BackendError::Trap { code, place, .. } = error else { panic!("{error}") };
    let line = vyre_foundation::diagnostic::Place::Line {
        function: Some(vyre_foundation::ir::FunctionId(0)),
        site: 2,
    };
    assert_eq!((code, place), (9, line));
}
