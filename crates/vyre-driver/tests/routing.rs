//! Routing among the backends of this test binary: who is taken, who is passed over and why, and what is never hidden.
//!
//! By precedence: one that panics, one whose device is missing, one that has lost its device, an id registered twice, one
//! with small limits, one without an op, one without grid barriers, and two that run everything.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use vyre_driver::backend::private::Sealed;
use vyre_driver::routing::{Choice, dispatch, route};
use vyre_driver::{
    BackendError, DispatchConfig, ErrorCode, VyreBackend, default_supported_ops, register_backend, registry,
};
use vyre_foundation::ir::{ComputeOp, OpId, Program};
use vyre_foundation::text;

/// What sets a test backend apart.
#[derive(Clone, Copy)]
struct Kind {
    id: &'static str,
    groups: u32,
    lost: bool,
    divides: bool,
    grid_barriers: bool,
}

const PLAIN: Kind = Kind { id: "", groups: 100, lost: false, divides: true, grid_barriers: true };

/// Returns its id as the only output.
struct Test(Kind);

impl Sealed for Test {}

impl VyreBackend for Test {
    fn id(&self) -> &'static str {
        self.0.id
    }
    fn dispatch(&self, _: &Program, _: &[Vec<u8>], _: &DispatchConfig) -> Result<Vec<Vec<u8>>, BackendError> {
        if self.0.id == "small" {
            // What a dispatch runs into is the caller's to see: nobody else is tried.
            return Err(BackendError::OutOfMemory { what: "a tile".to_owned(), requested_bytes: 1 });
        }
        Ok(vec![self.0.id.as_bytes().to_vec()])
    }
    fn supported_ops(&self) -> &HashSet<OpId> {
        static WITHOUT: LazyLock<HashSet<OpId>> =
            LazyLock::new(|| OpId::all().filter(|op| *op != OpId::ComputeOp(ComputeOp::Div)).collect());
        if self.0.divides { default_supported_ops() } else { &WITHOUT }
    }
    fn max_workgroup_size(&self) -> [u32; 3] {
        [64, 1, 1]
    }
    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        self.0.groups
    }
    fn device_lost(&self) -> bool {
        self.0.lost
    }
    fn supports_grid_sync(&self) -> bool {
        self.0.grid_barriers
    }
    fn cooperative_grid_sync_fits(
        &self,
        _: &Program,
        _: &[&[u8]],
        _: &DispatchConfig,
    ) -> Result<bool, BackendError> {
        Ok(self.0.grid_barriers)
    }
    fn allows_host_grid_sync_split(&self) -> bool {
        self.0.grid_barriers
    }
}

type Opened = Result<Arc<dyn VyreBackend>, BackendError>;

fn opened(kind: Kind) -> Opened {
    Ok(Arc::new(Test(kind)))
}

static OPENED: AtomicU64 = AtomicU64::new(0);

fn panics() -> Opened {
    panic!("libvendor.so.1 is not here")
}
fn absent() -> Opened {
    // Even a misleading error of opening is a reason to pass over, not a verdict on the launch.
    Err(BackendError::InvalidLaunch { message: "no such device".into(), fix: "plug one in".into() })
}
fn lost() -> Opened {
    opened(Kind { id: "lost", lost: true, ..PLAIN })
}
fn twin() -> Opened {
    opened(Kind { id: "twin", ..PLAIN })
}
fn small() -> Opened {
    opened(Kind { id: "small", groups: 1, ..PLAIN })
}
fn divideless() -> Opened {
    opened(Kind { id: "divideless", divides: false, ..PLAIN })
}
fn barrierless() -> Opened {
    opened(Kind { id: "barrierless", grid_barriers: false, ..PLAIN })
}
fn best() -> Opened {
    OPENED.fetch_add(1, Ordering::SeqCst);
    std::thread::sleep(std::time::Duration::from_millis(20));
    opened(Kind { id: "best", ..PLAIN })
}
fn layered() -> Opened {
    // A backend built on another one opens it.
    registry::open("spare")?;
    opened(Kind { id: "layered", ..PLAIN })
}
fn spare() -> Opened {
    opened(Kind { id: "spare", ..PLAIN })
}

// Not in the order of their precedence.
register_backend! { id: "spare", precedence: 10, description: "", open: spare }
register_backend! { id: "best", precedence: 30, description: "", open: best }
register_backend! { id: "panics", precedence: 100, description: "", open: panics }
register_backend! { id: "small", precedence: 60, description: "", open: small }
register_backend! { id: "twin", precedence: 70, description: "", open: twin }
register_backend! { id: "twin", precedence: 70, description: "", open: twin }
register_backend! { id: "barrierless", precedence: 40, description: "", open: barrierless }
register_backend! { id: "divideless", precedence: 50, description: "", open: divideless }
register_backend! { id: "absent", precedence: 90, description: "", open: absent }
register_backend! { id: "lost", precedence: 80, description: "", open: lost }
register_backend! { id: "layered", precedence: 10, description: "", open: layered }

fn program(line: &str, workgroup: u32) -> Program {
    let source = format!(
        "program @p workgroup({workgroup}, 1, 1) {{
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          {line}
          store.u32 @y[%i], %i
        }}"
    );
    text::parse(&source).unwrap_or_else(|findings| panic!("{findings:?}")).program
}

const UNAVAILABLE: [(&str, ErrorCode); 5] = [
    ("panics", ErrorCode::Unavailable),
    ("absent", ErrorCode::InvalidLaunch),
    ("lost", ErrorCode::DeviceLost),
    ("twin", ErrorCode::Unavailable),
    ("twin", ErrorCode::Unavailable),
];

/// Who runs a launch of `groups` workgroups, and who was passed over beyond [`UNAVAILABLE`].
fn auto(program: &Program, groups: u32) -> (&'static str, Vec<(&'static str, ErrorCode)>) {
    let config = DispatchConfig { grid_override: Some([groups, 1, 1]), ..DispatchConfig::default() };
    let route = route(Choice::Auto, program, &[&[0; 8]], &config).unwrap_or_else(|error| panic!("{error}"));
    let passed: Vec<_> = route.passed_over.iter().map(|passed| (passed.id, passed.reason.code())).collect();
    assert_eq!(passed[..5], UNAVAILABLE);
    (route.backend.id(), passed[5..].to_vec())
}

#[test]
fn registrations_come_by_precedence_then_by_id() {
    let ids: Vec<_> = registry::registrations().iter().map(|registration| registration.id).collect();
    let expected = [
        "panics",
        "absent",
        "lost",
        "twin",
        "twin",
        "small",
        "divideless",
        "barrierless",
        "best",
        "layered",
        "spare",
    ];
    assert_eq!(ids, expected);
}

#[test]
fn auto_takes_the_first_that_can_and_says_why_it_passed_the_others_over() {
    let (plain, divides, barrier) =
        (program("", 1), program("%d = div.u32 %i, 3", 1), program("grid_barrier", 1));
    let over = ("small", ErrorCode::LimitExceeded);
    let no_div = ("divideless", ErrorCode::UnsupportedFeature);
    let no_barrier = ("barrierless", ErrorCode::UnsupportedFeature);
    assert_eq!(auto(&plain, 1), ("small", vec![]));
    assert_eq!(auto(&plain, 2), ("divideless", vec![over]));
    assert_eq!(auto(&divides, 2), ("barrierless", vec![over, no_div]));
    assert_eq!(auto(&barrier, 2), ("divideless", vec![over]));
    let both = program("%d = div.u32 %i, 3\n grid_barrier", 1);
    assert_eq!(auto(&both, 2), ("best", vec![over, no_div, no_barrier]));
}

#[test]
fn when_no_backend_can_every_reason_is_reported() {
    let Err(error) = route(Choice::Auto, &program("", 65), &[&[0; 8]], &DispatchConfig::default()) else {
        panic!("no backend has 65 lanes")
    };
    assert_eq!(error.code(), ErrorCode::Unavailable);
    let text = error.to_string();
    for reason in
        ["panicked: libvendor.so.1 is not here", "no such device", "lost its device", "register this id"]
    {
        assert!(text.contains(reason), "{reason}: {text}");
    }
    for id in ["small", "divideless", "barrierless", "best", "layered", "spare"] {
        assert!(text.contains(&format!("`{id}`: the workgroup size along x is 65")), "{id}: {text}");
    }
}

#[test]
fn an_explicit_choice_is_never_replaced() {
    let plain = program("", 1);
    let two = DispatchConfig { grid_override: Some([2, 1, 1]), ..DispatchConfig::default() };
    let cases = [
        ("panics", ErrorCode::Unavailable),
        ("absent", ErrorCode::InvalidLaunch),
        ("lost", ErrorCode::DeviceLost),
        ("twin", ErrorCode::Unavailable),
        ("small", ErrorCode::LimitExceeded),
        ("nobody", ErrorCode::Unavailable),
    ];
    for (id, code) in cases {
        // Twice: a failure to open is not remembered as something else.
        for _ in 0..2 {
            match dispatch(Choice::Id(id), &plain, &[&[0; 8]], &two) {
                Err(error) => assert_eq!(error.code(), code, "{id}: {error}"),
                Ok((timed, _)) => panic!("{id} ran: {timed:?}"),
            }
        }
    }
    let (timed, taken) = dispatch(Choice::Id("spare"), &plain, &[&[0; 8]], &two).unwrap();
    assert_eq!((timed.outputs, taken.backend.id()), (vec![b"spare".to_vec()], "spare"));
    assert!(taken.passed_over.is_empty());
    let Err(error) = route(Choice::Id("nobody"), &plain, &[&[0; 8]], &two) else { panic!() };
    assert!(error.to_string().contains("spare"), "the fix lists who there is: {error}");
}

#[test]
fn errors_of_the_launch_itself_are_not_masked() {
    let invalid = program("break", 1);
    let wrong = |program: &Program, inputs: &[&[u8]], config: &DispatchConfig| {
        route(Choice::Auto, program, inputs, config).err().map(|error| error.code())
    };
    let config = DispatchConfig::default();
    assert_eq!(wrong(&invalid, &[&[0; 8]], &config), Some(ErrorCode::InvalidProgram));
    assert_eq!(wrong(&program("", 1), &[&[0; 7]], &config), Some(ErrorCode::InvalidLaunch));
    assert_eq!(wrong(&program("", 1), &[&[0; 8], &[]], &config), Some(ErrorCode::InvalidLaunch));
    let huge = DispatchConfig { workgroup_override: Some([4096, 1, 1]), ..config };
    assert_eq!(wrong(&program("", 1), &[&[0; 8]], &huge), Some(ErrorCode::InvalidProgram));
    // And one that the taken backend runs into is no reason to try the next.
    let one = DispatchConfig { grid_override: Some([1, 1, 1]), ..DispatchConfig::default() };
    let ran = dispatch(Choice::Auto, &program("", 1), &[&[0; 8]], &one);
    assert_eq!(ran.err().map(|error| error.code()), Some(ErrorCode::OutOfMemory));
}

#[test]
fn a_backend_is_opened_once_and_anew_on_request() {
    let all: Vec<Arc<dyn VyreBackend>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| registry::open("best").unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|backend| Arc::ptr_eq(backend, &all[0])));
    assert_eq!(OPENED.load(Ordering::SeqCst), 1);
    let anew = registry::reopen("best").unwrap();
    assert!(!Arc::ptr_eq(&anew, &all[0]) && Arc::ptr_eq(&anew, &registry::open("best").unwrap()));
    assert_eq!(OPENED.load(Ordering::SeqCst), 2);
}

#[test]
fn opening_a_backend_may_open_another() {
    assert_eq!(registry::open("layered").unwrap().id(), "layered");
}
