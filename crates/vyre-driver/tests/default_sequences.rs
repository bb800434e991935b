//! The default sequences over a backend that has only single resident dispatches and ranged downloads: order, configs,
//! sums of known times, and what the wall time covers.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use vyre_driver::backend::private::Sealed;
use vyre_driver::{
    BackendError, DispatchConfig, ErrorCode, ResidentDispatchStep, ResidentReadRange, Resource,
    TimedDispatchResult, VyreBackend,
};
use vyre_foundation::ir::{Program, ProgramParts};

type Times = (Option<u64>, Option<u64>, Option<u64>);
const KNOWN: Times = (Some(100), Some(10), Some(1));

/// Writes down every call and gives out the times it was told to.
#[derive(Default)]
struct Scripted {
    calls: Mutex<Vec<String>>,
    times: Mutex<VecDeque<Times>>,
    download_takes: Duration,
}

impl Scripted {
    fn with_times(times: &[Times]) -> Scripted {
        Scripted { times: Mutex::new(times.iter().copied().collect()), ..Scripted::default() }
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

impl Sealed for Scripted {}

impl VyreBackend for Scripted {
    fn id(&self) -> &'static str {
        "scripted"
    }

    fn dispatch(&self, _: &Program, _: &[Vec<u8>], _: &DispatchConfig) -> Result<Vec<Vec<u8>>, BackendError> {
        panic!("a resident sequence must not come through host dispatch")
    }

    fn download_resident_range_into(
        &self,
        resource: &Resource,
        byte_offset: usize,
        byte_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), BackendError> {
        std::thread::sleep(self.download_takes);
        self.calls.lock().unwrap().push(format!("read {resource:?} {byte_offset}+{byte_len}"));
        out.clear();
        out.resize(byte_len, 7);
        Ok(())
    }

    fn dispatch_resident_timed(
        &self,
        program: &Program,
        resources: &[Resource],
        config: &DispatchConfig,
    ) -> Result<TimedDispatchResult, BackendError> {
        let DispatchConfig { grid_override, workgroup_override, timeout, output_sizes, label, cancel } =
            config;
        assert!(workgroup_override.is_none() && timeout.is_none() && output_sizes.is_empty());
        assert!(label.is_none() && cancel.is_none());
        self.calls.lock().unwrap().push(format!("{} {resources:?} {grid_override:?}", program.name()));
        if program.name() == "fails" {
            return Err(BackendError::Cancelled);
        }
        let (device_ns, enqueue_ns, wait_ns) = self.times.lock().unwrap().pop_front().unwrap_or(KNOWN);
        Ok(TimedDispatchResult { outputs: Vec::new(), wall_ns: 1, device_ns, enqueue_ns, wait_ns })
    }
}

fn named(name: &str) -> Program {
    Program::new(ProgramParts::new(name, [1, 1, 1])).unwrap()
}

/// The sums that a sequence of steps with these times reports.
fn sums(times: &[Times]) -> Result<Times, ErrorCode> {
    let backend = Scripted::with_times(times);
    let program = named("step");
    let steps =
        vec![ResidentDispatchStep { program: &program, resources: &[], grid_override: None }; times.len()];
    backend
        .dispatch_resident_sequence_read_ranges_timed_into(&steps, &[], &mut [])
        .map(|timing| (timing.device_ns, timing.enqueue_ns, timing.wait_ns))
        .map_err(|error| error.code())
}

#[test]
fn times_are_summed_with_checked_adds_and_unknown_if_any_step_is() {
    const MAX: Option<u64> = Some(u64::MAX);
    let cases: [(&[Times], Result<Times, ErrorCode>); 8] = [
        (&[], Ok((Some(0), Some(0), Some(0)))),
        (&[KNOWN, KNOWN, (Some(1), Some(2), Some(3))], Ok((Some(201), Some(22), Some(5)))),
        (&[KNOWN, (None, Some(10), Some(1)), KNOWN], Ok((None, Some(30), Some(3)))),
        (&[(None, None, None), KNOWN], Ok((None, None, None))),
        (&[(MAX, Some(0), Some(0)), (Some(0), Some(0), MAX)], Ok((MAX, Some(0), MAX))),
        (&[(MAX, Some(0), Some(0)), KNOWN], Err(ErrorCode::ClockOverflow)),
        (&[KNOWN, (Some(0), Some(0), MAX)], Err(ErrorCode::ClockOverflow)),
        // A sum that is already unknown cannot overflow.
        (
            &[(None, Some(0), Some(0)), (MAX, Some(0), Some(0)), (MAX, Some(0), Some(0))],
            Ok((None, Some(0), Some(0))),
        ),
    ];
    for (times, expected) in cases {
        assert_eq!(sums(times), expected, "{times:?}");
    }
}

#[test]
fn untimed_sequences_do_not_care_about_times() {
    let huge = (Some(u64::MAX), Some(u64::MAX), Some(u64::MAX));
    let backend = Scripted::with_times(&[huge; 8]);
    let program = named("step");
    let step = ResidentDispatchStep { program: &program, resources: &[], grid_override: None };
    backend.dispatch_resident_sequence_read_ranges_into(&[step, step], &[], &mut []).unwrap();
    backend.dispatch_resident_repeated_sequence_read_ranges_into(&[step], &[step], 3, &[], &mut []).unwrap();
    assert_eq!(backend.calls().len(), 6);
}

#[test]
fn the_prefix_runs_once_the_rest_repeats_and_the_ranges_come_last() {
    let backend = Scripted::default();
    let (a, b) = (named("a"), named("b"));
    let (x, y) = (Resource::Resident(1), Resource::Resident(2));
    let (on_x, on_y) = ([x.clone()], [y.clone()]);
    let prefix = ResidentDispatchStep { program: &a, resources: &on_x, grid_override: None };
    let repeated = ResidentDispatchStep { program: &b, resources: &on_y, grid_override: Some([4, 5, 6]) };
    let ranges = [
        ResidentReadRange { resource: &x, byte_offset: 8, byte_len: 4 },
        ResidentReadRange { resource: &y, byte_offset: 0, byte_len: 2 },
    ];
    let (mut first, mut second) = (vec![1; 100], Vec::new());
    let storage = first.as_ptr();
    backend
        .dispatch_resident_repeated_sequence_read_ranges_into(
            &[prefix],
            &[repeated],
            2,
            &ranges,
            &mut [&mut first, &mut second],
        )
        .unwrap();
    let expected = [
        "a [Resident(1)] None",
        "b [Resident(2)] Some([4, 5, 6])",
        "b [Resident(2)] Some([4, 5, 6])",
        "read Resident(1) 8+4",
        "read Resident(2) 0+2",
    ];
    assert_eq!(backend.calls(), expected);
    assert_eq!((first.as_slice(), second.as_slice()), (&[7; 4][..], &[7; 2][..]));
    assert_eq!(first.as_ptr(), storage, "the caller's storage is reused");
}

#[test]
fn a_step_that_fails_ends_the_sequence_before_any_readback() {
    let (good, bad) = (named("good"), named("fails"));
    let step = |program| ResidentDispatchStep { program, resources: &[], grid_override: None };
    let resource = Resource::Resident(1);
    let range = ResidentReadRange { resource: &resource, byte_offset: 0, byte_len: 4 };
    let backend = Scripted::default();
    let mut out = vec![9];
    let steps = [step(&good), step(&bad), step(&good)];
    let timed = backend.dispatch_resident_sequence_read_ranges_timed_into(&steps, &[range], &mut [&mut out]);
    assert_eq!(timed.unwrap_err(), BackendError::Cancelled);
    assert_eq!(backend.calls(), ["good [] None", "fails [] None"]);
    assert_eq!(out, [9], "outputs are untouched");
}

#[test]
fn the_wall_time_covers_the_readbacks() {
    let backend = Scripted { download_takes: Duration::from_millis(3), ..Scripted::default() };
    let resource = Resource::Resident(1);
    let range = ResidentReadRange { resource: &resource, byte_offset: 0, byte_len: 4 };
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let timing = backend
        .dispatch_resident_sequence_read_ranges_timed_into(&[], &[range, range], &mut [&mut a, &mut b])
        .unwrap();
    assert!(timing.wall_ns >= 6_000_000, "{timing:?}");
    assert_eq!(timing.device_ns, Some(0));
}
