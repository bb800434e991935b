//! What [`QueueBackend`] makes of calls, on a device that counts what it is told and has times of its own.
//!
//! The fake device runs one kernel whatever the program says: it adds 1 to the words of every buffer, as many as the grid
//! has workgroups. So its bytes tell how often and with which grid it was launched. What real devices share is in the
//! tests of the reference backend and in the conformance suite.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vyre_driver::observability::{DispatchTelemetry, snapshot_dispatch_telemetry};
use vyre_driver::queue::{About, Launch, Queue, QueueBackend, Read, Stop, Times, Work};
use vyre_driver::{
    BackendError, DeviceProfile, DispatchConfig, ResidentDispatchStep, ResidentReadRange, Resource,
    VyreBackend, grid_sync,
};
use vyre_foundation::ir::Program;
use vyre_foundation::text;
use vyre_foundation::validate::ValidProgram;

/// How many workgroups of a cooperative launch the device holds at once.
const RESIDENT_GROUPS: u64 = 8;
const LAUNCH_NS: u64 = 100;
const ENQUEUE: Duration = Duration::from_nanos(10);

#[derive(Default)]
struct Fake {
    compilations: AtomicU64,
    submissions: AtomicU64,
    launches: AtomicU64,
    lost: AtomicBool,
}

impl Fake {
    fn launch(&self, launch: &Launch<'_, Fake>) {
        self.launches.fetch_add(1, Ordering::Relaxed);
        let groups: u64 = launch.admission.workgroups();
        for memory in launch.memories() {
            for word in memory.lock().unwrap().chunks_exact_mut(4).take(groups as usize) {
                let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                word.copy_from_slice(&value.wrapping_add(1).to_le_bytes());
            }
        }
    }
}

impl Queue for Fake {
    type Memory = Mutex<Vec<u8>>;
    type Kernel = ();

    fn about(&self) -> About {
        About {
            id: "fake",
            version: "7",
            device: "fake device".to_owned(),
            driver: "fake driver 1".to_owned(),
            workgroups_max: 1_000,
            async_compute: false,
            grid_sync: true,
            resident_workgroups_max: u64::MAX,
            stoppable_apart: false,
            profile: DeviceProfile {
                max_workgroup_size: [1024, 1024, 64],
                max_invocations_per_workgroup: 1024,
                max_storage_buffer_binding_size: 4096,
                ..DeviceProfile::unknown("fake")
            },
        }
    }

    fn allocate(&self, byte_len: usize) -> Result<Self::Memory, BackendError> {
        Ok(Mutex::new(vec![0xff; byte_len]))
    }

    fn compile(&self, _: &ValidProgram, _: &Stop) -> Result<(), BackendError> {
        self.compilations.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn submit(&self, work: Work<'_, Fake>, _: &Stop) -> Result<Times, BackendError> {
        self.submissions.fetch_add(1, Ordering::Relaxed);
        work.clears.iter().for_each(|memory| memory.lock().unwrap().fill(0));
        for (memory, offset, bytes) in &work.uploads {
            memory.lock().unwrap()[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        let before = self.launches.load(Ordering::Relaxed);
        work.launches.iter().for_each(|launch| self.launch(launch));
        (0..work.repeat_count).flat_map(|_| &work.repeated).for_each(|launch| self.launch(launch));
        for Read { memory, offset, byte_len, out } in work.reads {
            out.extend_from_slice(&memory.lock().unwrap()[offset..offset + byte_len]);
        }
        let device_ns = (self.launches.load(Ordering::Relaxed) - before) * LAUNCH_NS;
        Ok(Times { device_ns: Some(device_ns), enqueue: ENQUEUE })
    }

    fn resident_workgroups(&self, (): &(), _: u64) -> Result<u64, BackendError> {
        Ok(RESIDENT_GROUPS)
    }

    fn metrics(&self) -> Vec<(&'static str, u64)> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("compilations", count(&self.compilations)),
            ("submissions", count(&self.submissions)),
            ("launches", count(&self.launches)),
        ]
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    fn reopen(&self) -> Result<Fake, BackendError> {
        Ok(Fake::default())
    }
}

/// Telemetry is counted for the whole process, so every test takes its turn.
fn turn() -> (QueueBackend<Fake>, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    (QueueBackend::default(), TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A program with these lines; `name` makes the digest differ.
fn program(name: &str, lines: &str) -> Program {
    let source = format!(
        "program @{name} workgroup(1, 1, 1) {{
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          {lines}
          store.u32 @y[%i], 1
        }}"
    );
    text::parse(&source).unwrap_or_else(|findings| panic!("{findings:?}")).program
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn config() -> DispatchConfig {
    DispatchConfig::default()
}

fn metrics<const N: usize>(backend: &QueueBackend<Fake>, wanted: [&str; N]) -> [u64; N] {
    let all = backend.backend_metric_snapshot();
    wanted.map(|wanted| all.iter().find(|(name, _)| *name == wanted).expect("it is published").1)
}

/// Resident words, uploaded.
fn resident(backend: &QueueBackend<Fake>, values: &[u32]) -> Resource {
    let resource = backend.allocate_resident(values.len() * 4).unwrap();
    backend.upload_resident(&resource, &words(values)).unwrap();
    resource
}

#[test]
fn a_timed_dispatch_reports_the_devices_own_times() {
    let (backend, _turn) = turn();
    let timed = backend.dispatch_borrowed_timed(&program("t", ""), &[&words(&[4, 5])], &config()).unwrap();
    assert_eq!(timed.outputs, [words(&[5, 6])]);
    assert_eq!((timed.device_ns, timed.enqueue_ns), (Some(LAUNCH_NS), Some(10)));
    assert_eq!(timed.wait_ns, Some(timed.wall_ns - 10), "the rest of the time is waiting");
}

#[test]
fn dispatches_count_as_the_defaults_do() {
    let (backend, _turn) = turn();
    let program = program("counted", "");
    let before = snapshot_dispatch_telemetry();
    let roomy = Vec::with_capacity(100);
    let storage = roomy.as_ptr();
    let mut outputs = vec![roomy, vec![1], vec![2]];
    backend.dispatch_borrowed_into(&program, &[&words(&[1, 2])], &config(), &mut outputs).unwrap();
    assert_eq!(outputs, [words(&[2, 3])], "stale slots are gone");
    assert_eq!(outputs[0].as_ptr(), storage, "the slot kept its storage");
    backend.dispatch_borrowed_into(&program, &[&words(&[1; 50])], &config(), &mut outputs).unwrap();
    assert_ne!(outputs[0].as_ptr(), storage, "the result did not fit and was moved in");
    backend.dispatch_borrowed_into(&program, &[&words(&[9])], &config(), &mut Vec::new()).unwrap();
    backend.dispatch(&program, &[words(&[7])], &config()).unwrap();
    assert!(backend.dispatch(&program, &[], &config()).is_err(), "and this one counts nowhere");
    let expected = DispatchTelemetry {
        launches: before.launches + 4,
        input_bytes: before.input_bytes + 8 + 200 + 4 + 4,
        output_bytes: before.output_bytes + 8 + 200 + 4 + 4,
        output_slots: before.output_slots + 3,
        output_slots_reused: before.output_slots_reused + 1,
        output_slots_moved: before.output_slots_moved + 1,
        output_slots_appended: before.output_slots_appended + 1,
    };
    assert_eq!(snapshot_dispatch_telemetry(), expected);
    assert_eq!(metrics(&backend, ["dispatches", "launches", "compilations"]), [4, 4, 1]);
}

#[test]
fn a_sequence_is_one_submission() {
    let (backend, _turn) = turn();
    let (first, second) = (program("a", ""), program("b", ""));
    let (x, y) = ([resident(&backend, &[0; 4])], [resident(&backend, &[10; 4])]);
    let [before] = metrics(&backend, ["submissions"]);
    let step = |program, resources, count| ResidentDispatchStep {
        program,
        resources,
        grid_override: Some([count, 1, 1]),
    };
    let steps = [step(&first, &x[..], 4), step(&second, &y[..], 1), step(&first, &x[..], 2)];
    let range = |resource, byte_offset, byte_len| ResidentReadRange { resource, byte_offset, byte_len };
    let ranges = [range(&x[0], 0, 16), range(&x[0], 4, 4), range(&y[0], 0, 8)];
    let mut outs = [vec![1; 64], Vec::new(), Vec::new()];
    let storage = outs[0].as_ptr();
    let mut slots: Vec<&mut Vec<u8>> = outs.iter_mut().collect();
    let timing =
        backend.dispatch_resident_sequence_read_ranges_timed_into(&steps, &ranges, &mut slots).unwrap();
    assert_eq!((timing.device_ns, timing.enqueue_ns), (Some(3 * LAUNCH_NS), Some(10)));
    assert_eq!(outs, [words(&[2, 2, 1, 1]), words(&[2]), words(&[11, 10])]);
    assert_eq!(outs[0].as_ptr(), storage, "readback reuses the caller's storage");
    assert_eq!(
        metrics(&backend, ["submissions", "compilations"]),
        [before + 1, 2],
        "two programs, three steps"
    );
}

#[test]
fn a_repeated_sequence_is_one_submission_however_often_it_runs() {
    for count in [0, 3, 3_000] {
        let (backend, _turn) = turn();
        let program = program("repeated", "");
        let y = [resident(&backend, &[0, 0])];
        let [before] = metrics(&backend, ["submissions"]);
        let one = ResidentDispatchStep { program: &program, resources: &y, grid_override: Some([1, 1, 1]) };
        let both = ResidentDispatchStep { grid_override: None, ..one };
        let range = ResidentReadRange { resource: &y[0], byte_offset: 0, byte_len: 8 };
        let mut out = Vec::new();
        let (prefix, repeated, outs) = ([both], [one, both], &mut [&mut out]);
        backend
            .dispatch_resident_repeated_sequence_read_ranges_into(&prefix, &repeated, count, &[range], outs)
            .unwrap();
        assert_eq!(out, words(&[1 + 2 * count, 1 + count]));
        let counted = metrics(&backend, ["launches", "submissions", "compilations"]);
        assert_eq!(counted, [1 + 2 * u64::from(count), before + 1, 1]);
    }
}

#[test]
fn grid_barriers_run_natively_where_they_fit_and_else_as_parts() {
    let program = program("barriers", "store.u32 @y[%i], 2\ngrid_barrier\nstore.u32 @y[%i], 3\ngrid_barrier");
    for (groups, launches) in [(8, 1), (9, 3)] {
        let (backend, _turn) = turn();
        let input = words(&vec![0; groups]);
        let fits = backend.cooperative_grid_sync_fits(&program, &[&input], &config()).unwrap();
        assert_eq!(fits, launches == 1);
        grid_sync::dispatch(&backend, &program, &[&input], &config()).unwrap();
        let left = metrics(&backend, ["launches", "resident_allocations"]);
        assert_eq!(left, [launches, 0], "{groups} workgroups");
    }
}
