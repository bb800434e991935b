//! What admission lets through, and with what plan; what it refuses, and why.

use std::collections::HashSet;
use vyre_driver::admission::{admit, admit_resident, valid};
use vyre_driver::backend::private::Sealed;
use vyre_driver::{
    BackendError, DeviceProfile, DispatchConfig, ErrorCode, VyreBackend, default_supported_ops,
};
use vyre_foundation::ir::{OpId, Program};
use vyre_foundation::launch::Admission;
use vyre_foundation::text;
use vyre_foundation::validate::is_decided;

/// A backend that is nothing but limits.
#[derive(Clone)]
struct Limits {
    ops: HashSet<OpId>,
    workgroup: [u32; 3],
    invocations: u32,
    groups: u32,
    storage: u64,
    shared: u32,
    splits: bool,
}

const ROOMY: [u32; 3] = [1024, 1024, 64];

fn limits() -> Limits {
    let ops = default_supported_ops().clone();
    Limits { ops, workgroup: ROOMY, invocations: 1024, groups: 65_535, storage: 0, shared: 0, splits: true }
}

fn without(op: &str) -> Limits {
    let mut limits = limits();
    assert!(limits.ops.remove(&OpId::from_name(op).expect("an op")));
    limits
}

impl Sealed for Limits {}

impl VyreBackend for Limits {
    fn id(&self) -> &'static str {
        "limits"
    }
    fn dispatch(&self, _: &Program, _: &[Vec<u8>], _: &DispatchConfig) -> Result<Vec<Vec<u8>>, BackendError> {
        panic!("admission launches nothing")
    }
    fn supported_ops(&self) -> &HashSet<OpId> {
        &self.ops
    }
    fn max_workgroup_size(&self) -> [u32; 3] {
        self.workgroup
    }
    fn max_compute_invocations_per_workgroup(&self) -> u32 {
        self.invocations
    }
    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        self.groups
    }
    fn max_storage_buffer_bytes(&self) -> u64 {
        self.storage
    }
    fn allows_host_grid_sync_split(&self) -> bool {
        self.splits
    }
    fn device_profile(&self) -> DeviceProfile {
        DeviceProfile { max_shared_memory_bytes: self.shared, ..DeviceProfile::unknown("limits") }
    }
}

fn parse(source: &str) -> Program {
    text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program
}

/// Bindings out of textual order; outputs at 4 (declared length) and 9 (any length).
const MIXED: &str = "program @mixed workgroup(8, 4, 2) {
  buffer @out  : read_write u16[]  binding 9 output
  buffer @k    : uniform    f32[2] binding 1
  buffer @work : read_write u64[]  binding 3
  buffer @sum  : read_write u32[3] binding 4 output
  buffer @tile : workgroup  f32[64]
  %i = local_index
  %k = load.f32 @k[0]
  store.f32 @tile[%i], %k
}
";

const INDIRECT: &str = "program @indirect workgroup(1, 1, 1) {
  buffer @args : read       u32[] binding 0
  buffer @y    : read_write u32[] binding 1 output
  indirect @args[1]
  %i = global_index
  store.u32 @y[%i], 1
}
";

const BARRIER: &str = "program @synced workgroup(1, 1, 1) {
  buffer @y : read_write u32[] binding 0 output
  grid_barrier
  %i = global_id x
  store.u32 @y[%i], 1
}
";

fn try_admit(
    backend: &Limits,
    source: &str,
    sizes: &[usize],
    config: &DispatchConfig,
) -> Result<Admission, BackendError> {
    let inputs: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
    let borrowed: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    admit(backend, &parse(source), &borrowed, config)
}

fn sizes(output_sizes: &[usize]) -> DispatchConfig {
    DispatchConfig { output_sizes: output_sizes.to_vec(), ..DispatchConfig::default() }
}

fn grid(grid: [u32; 3]) -> DispatchConfig {
    DispatchConfig { grid_override: Some(grid), ..DispatchConfig::default() }
}

fn workgroup(size: [u32; 3]) -> DispatchConfig {
    DispatchConfig { workgroup_override: Some(size), ..DispatchConfig::default() }
}

/// `(byte_len, input, output)` of each bound buffer.
type Plan = Vec<(usize, Option<usize>, Option<usize>)>;

fn plan(admission: &Admission) -> Plan {
    admission.bindings.iter().map(|plan| (plan.byte_len, plan.input, plan.output)).collect()
}

#[test]
fn bindings_are_planned_in_binding_order() {
    // k, work, sum, out.
    let none = DispatchConfig::default();
    let cases: [(&[usize], DispatchConfig, Plan); 4] = [
        (
            &[8, 16, 12, 6],
            none,
            vec![(8, Some(0), None), (16, Some(1), None), (12, Some(2), Some(0)), (6, Some(3), Some(1))],
        ),
        // Without the outputs, whose sizes come from the config.
        (
            &[8, 16],
            sizes(&[12, 130]),
            vec![(8, Some(0), None), (16, Some(1), None), (12, None, Some(0)), (130, None, Some(1))],
        ),
        // An empty input where the size is known otherwise stands for none.
        (
            &[8, 16, 0, 0],
            sizes(&[12, 2]),
            vec![(8, Some(0), None), (16, Some(1), None), (12, None, Some(0)), (2, None, Some(1))],
        ),
        (
            &[8, 0, 12, 6],
            sizes(&[12, 6]),
            vec![(8, Some(0), None), (0, Some(1), None), (12, Some(2), Some(0)), (6, Some(3), Some(1))],
        ),
    ];
    for (given, config, expected) in cases {
        let admission = try_admit(&limits(), MIXED, given, &config).unwrap();
        assert_eq!(plan(&admission), expected, "{given:?}");
    }
}

#[test]
fn the_grid_covers_the_first_output_unless_given_or_read() {
    // The first output by binding is @sum: 3 elements for 64 lanes.
    let derived = try_admit(&limits(), MIXED, &[8, 16], &sizes(&[12, 1_000])).unwrap();
    assert_eq!(derived.grid, [1, 1, 1]);
    let smaller = DispatchConfig { workgroup_override: Some([2, 1, 1]), ..sizes(&[12, 1_000]) };
    assert_eq!(try_admit(&limits(), MIXED, &[8, 16], &smaller).unwrap().grid, [2, 1, 1]);
    let given = DispatchConfig { grid_override: Some([5, 0, 7]), ..sizes(&[12, 1_000]) };
    assert_eq!(try_admit(&limits(), MIXED, &[8, 16], &given).unwrap().grid, [5, 0, 7]);

    let args: Vec<u8> = [9u32, 2, 3, 4].iter().flat_map(|word| word.to_le_bytes()).collect();
    let read = admit(&limits(), &parse(INDIRECT), &[&args, &[0; 4]], &DispatchConfig::default()).unwrap();
    assert_eq!(read.grid, [2, 3, 4]);
    let mut asked = None;
    let resident =
        admit_resident(&limits(), &parse(INDIRECT), &[16, 4], &DispatchConfig::default(), |at, offset| {
            asked = Some((at, offset));
            Ok([6, 5, 4])
        });
    assert_eq!((resident.unwrap().grid, asked), ([6, 5, 4], Some((0, 1))));
}

#[test]
fn resident_buffers_are_all_inputs() {
    let admission =
        admit_resident(&limits(), &parse(MIXED), &[8, 16, 12, 6], &DispatchConfig::default(), |_, _| {
            panic!("not an indirect program")
        });
    let expected =
        vec![(8, Some(0), None), (16, Some(1), None), (12, Some(2), Some(0)), (6, Some(3), Some(1))];
    assert_eq!(plan(&admission.unwrap()), expected);
}

#[test]
fn a_workgroup_override_makes_a_new_program() {
    let program = parse(MIXED);
    let plain = valid(&program, None).unwrap();
    let other = valid(&program, Some([4, 1, 1])).unwrap();
    assert_eq!((plain.parts().workgroup, other.parts().workgroup), ([8, 4, 2], [4, 1, 1]));
    assert_ne!(plain.program().digest(), other.program().digest());
    assert_eq!(plain.facts().workgroup_bytes, 256);
}

#[test]
fn a_program_is_validated_once() {
    let program = parse(MIXED);
    let clone = program.clone();
    assert!(!is_decided(&program));
    let checked = valid(&program, None).unwrap();
    assert!(is_decided(&clone), "clones share the verdict");
    assert!(std::ptr::eq(checked.facts(), valid(&clone, None).unwrap().facts()), "and the facts");
    let [first, second] = [0, 1].map(|_| valid(&program, Some([4, 1, 1])).unwrap());
    assert!(std::ptr::eq(first.facts(), second.facts()), "the last workgroup override is kept");
    // What is invalid stays so.
    let invalid = parse("program @bad workgroup(1, 1, 1) {\n  break\n}\n");
    for _ in 0..2 {
        assert_eq!(valid(&invalid, None).unwrap_err().code(), ErrorCode::InvalidProgram);
    }
}

#[test]
fn launches_that_do_not_fit_the_program_are_refused() {
    let good = [8, 16, 12, 6];
    let cases: [(&str, &[usize], DispatchConfig, &str); 11] = [
        (MIXED, &[8], DispatchConfig::default(), "1 inputs for the 4 bindings"),
        (
            MIXED,
            &[8, 16, 12],
            DispatchConfig::default(),
            "@k, @work, @sum, @out, or 2 without the outputs: @k, @work",
        ),
        (MIXED, &[8, 16], DispatchConfig::default(), "the size of output `@out` is not known"),
        (MIXED, &[8, 16], sizes(&[12]), "1 output sizes for 2 outputs"),
        (MIXED, &good, sizes(&[12, 8]), "`@out` has an input of 6 bytes and an output size of 8"),
        (MIXED, &[8, 16], sizes(&[16, 6]), "`@sum` is declared u32[3]"),
        (MIXED, &[8, 12, 12, 6], DispatchConfig::default(), "`@work` is bound with 12 bytes"),
        (MIXED, &[4, 16, 12, 6], DispatchConfig::default(), "`@k` is declared f32[2]"),
        (MIXED, &good, grid([u32::MAX, 1, 1]), "lanes"),
        (INDIRECT, &[16, 4], grid([1, 1, 1]), "reads its grid from `@args`"),
        (BARRIER, &[4, 4], DispatchConfig::default(), "2 inputs for the 1 bindings"),
    ];
    for (source, given, config, text) in cases {
        let error = try_admit(&limits(), source, given, &config).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidLaunch, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.to_string().matches("Fix:").count(), 1, "{error}");
    }
    let few =
        admit_resident(&limits(), &parse(MIXED), &[8, 16], &DispatchConfig::default(), |_, _| Ok([1; 3]));
    assert_eq!(few.unwrap_err().code(), ErrorCode::InvalidLaunch, "resident buffers are bound one each");
}

#[test]
fn each_published_limit_holds_and_is_named() {
    let good = [8, 16, 12, 6];
    let none = DispatchConfig::default();
    let cases: [(Limits, DispatchConfig, &str, u64, u64); 9] = [
        (Limits { workgroup: [7, 4, 2], ..limits() }, none.clone(), "workgroup size along x", 8, 7),
        (Limits { workgroup: [8, 3, 2], ..limits() }, none.clone(), "workgroup size along y", 4, 3),
        (Limits { workgroup: [8, 4, 1], ..limits() }, none.clone(), "workgroup size along z", 2, 1),
        (Limits { invocations: 63, ..limits() }, none.clone(), "lanes of a workgroup", 64, 63),
        (Limits { groups: 5, ..limits() }, grid([1, 6, 1]), "workgroups along y", 6, 5),
        (Limits { groups: 0, ..limits() }, none.clone(), "workgroups along x", 1, 0),
        (Limits { storage: 15, ..limits() }, none.clone(), "`@work` in bytes", 16, 15),
        (Limits { shared: 255, ..limits() }, none, "workgroup memory in bytes", 256, 255),
        // An override is held to the limits in the program's place.
        (Limits { workgroup: [8, 4, 2], ..limits() }, workgroup([9, 1, 1]), "workgroup size along x", 9, 8),
    ];
    for (backend, config, text, want_asked, want_limit) in cases {
        match try_admit(&backend, MIXED, &good, &config) {
            Err(BackendError::LimitExceeded { what, asked, limit, backend }) => {
                assert!(what.contains(text), "{what}");
                assert_eq!((asked, limit, backend.as_str()), (want_asked, want_limit, "limits"), "{what}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    // Exactly at every limit is within it.
    let exact =
        Limits { workgroup: [8, 4, 2], invocations: 64, groups: 1, storage: 16, shared: 256, ..limits() };
    assert!(try_admit(&exact, MIXED, &good, &DispatchConfig::default()).is_ok());
    assert_eq!(
        try_admit(&limits(), MIXED, &good, &workgroup([2048, 1, 1])).unwrap_err().code(),
        ErrorCode::InvalidProgram,
        "beyond the language's own limit no backend is asked"
    );
}

#[test]
fn ops_that_a_backend_lacks_are_refused_by_name() {
    let refuse = |backend: &Limits, source, given: &[usize]| match try_admit(
        backend,
        source,
        given,
        &DispatchConfig::default(),
    ) {
        Err(BackendError::UnsupportedFeature { name, backend }) => {
            assert_eq!(backend, "limits");
            name
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(refuse(&without("local_index"), MIXED, &[8, 16, 12, 6]), "the op `local_index`");
    assert_eq!(refuse(&without("indirect"), INDIRECT, &[16, 4]), "the op `indirect`");
    assert!(try_admit(&without("sqrt"), MIXED, &[8, 16, 12, 6], &DispatchConfig::default()).is_ok());

    // Grid barriers are split away, unless the backend forbids it.
    let splitting = without("grid_barrier");
    assert!(try_admit(&splitting, BARRIER, &[4], &DispatchConfig::default()).is_ok());
    let strict = Limits { splits: false, ..splitting };
    assert_eq!(refuse(&strict, BARRIER, &[4]), "the op `grid_barrier`");
}

#[test]
fn half_floats_and_subgroups_run_everywhere() {
    let program = "program @half workgroup(32, 1, 1) subgroup(32) {
      buffer @y : read_write f16[] binding 0 output
      %i = global_id x
      %v = load.f16 @y[%i]
      %s = subgroup_reduce_add.f16 %v
      store.f16 @y[%i], %s
    }";
    // It claims neither natively, and is not refused.
    assert!(!limits().supports_f16() && !limits().supports_subgroup_ops());
    assert!(try_admit(&limits(), program, &[64], &DispatchConfig::default()).is_ok());
}
