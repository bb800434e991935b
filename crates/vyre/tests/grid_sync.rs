//! Programs with grid barriers give the same bytes whichever way they run: natively, split on resident buffers, or split
//! by the host.

use std::path::Path;
use vyre::spec::Expect;
use vyre_driver::grid_sync::{
    Fixpoint, dispatch, dispatch_resident_grid_sync_fixpoint_into, dispatch_with_grid_sync_split_into,
};
use vyre_driver::{BackendError, DispatchConfig, ErrorCode, OutputBuffers, ResidentReadRange, VyreBackend};
use vyre_driver_reference::ReferenceBackend;
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{FunctionId, Program};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::text;
use vyre_foundation::validate::validate;
use vyre_generate::Config;
use vyre_testkit::{property, repo};

fn parse(source: &str) -> Program {
    text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}")).program
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Runs a program in all three ways and compares.
fn check(
    program: &Program,
    inputs: &[Vec<u8>],
    config: &DispatchConfig,
) -> Result<OutputBuffers, BackendError> {
    let backend = ReferenceBackend::default();
    let borrowed: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let native = backend.dispatch_borrowed(program, &borrowed, config);
    let mut host = OutputBuffers::new();
    let split = dispatch_with_grid_sync_split_into(&backend, program, &borrowed, config, &mut host);
    let shown = || text::print(program);
    match (&native, split) {
        (Ok(native), Ok(())) => assert_eq!(native, &host, "host split of\n{}", shown()),
        (Err(native), Err(split)) => assert_eq!(essence(native), essence(&split), "{}", shown()),
        (native, split) => panic!("native {native:?}, host split {split:?}\n{}", shown()),
    }
    let resident = run_resident(&backend, program, inputs, config);
    match (&native, resident) {
        (Ok(native), Ok(resident)) => assert_eq!(native, &resident, "resident split of\n{}", shown()),
        (Err(native), Err(resident)) => assert_eq!(essence(native), essence(&resident), "{}", shown()),
        (native, resident) => panic!("native {native:?}, resident split {resident:?}\n{}", shown()),
    }
    let metrics = backend.backend_metric_snapshot();
    let leaked = metrics.iter().find(|(name, _)| *name == "resident_allocations").unwrap().1;
    assert_eq!(leaked, bound_buffers(program.parts()).len() as u64, "only the caller's buffers stay");
    native
}

/// What all ways of running agree on in an error: for a trap also its place, but not which lane was seen first.
fn essence(error: &BackendError) -> (ErrorCode, Option<(u32, Place)>) {
    match error {
        BackendError::Trap { code, place, .. } => (error.code(), Some((*code, *place))),
        other => (other.code(), None),
    }
}

fn run_resident(
    backend: &ReferenceBackend,
    program: &Program,
    inputs: &[Vec<u8>],
    config: &DispatchConfig,
) -> Result<OutputBuffers, BackendError> {
    let resources: Vec<_> = inputs
        .iter()
        .map(|input| {
            let resource = backend.allocate_resident(input.len()).unwrap();
            backend.upload_resident(&resource, input).unwrap();
            resource
        })
        .collect();
    let parts = program.parts();
    let wanted: Vec<_> = bound_buffers(parts)
        .iter()
        .zip(resources.iter().zip(inputs))
        .filter(|(id, _)| parts.buffer(**id).is_output())
        .map(|(_, (resource, input))| ResidentReadRange { resource, byte_offset: 0, byte_len: input.len() })
        .collect();
    let mut outputs = vec![Vec::new(); wanted.len()];
    let mut slots: Vec<&mut Vec<u8>> = outputs.iter_mut().collect();
    dispatch_resident_grid_sync_fixpoint_into(
        backend,
        program,
        &resources,
        config,
        Fixpoint::ONCE,
        &wanted,
        &mut slots,
    )?;
    Ok(outputs)
}

/// Whether a program is valid and has a grid-wide step.
fn has_grid_sync(program: &Program) -> bool {
    validate(program).is_ok_and(|valid| valid.facts().has_grid_sync)
}

/// Whether the results are right is what the test of these files tells.
#[test]
fn files_with_grid_barriers_give_the_same_whichever_way_they_run() {
    let mut runs = 0;
    for path in repo::files("tests", "vyre") {
        let source = repo::read(&path).unwrap();
        let Ok(text::Parsed { program, .. }) = text::parse(&source) else { continue };
        if !has_grid_sync(&program) {
            continue;
        }
        let parts = program.parts();
        let directives = vyre::spec::directives(&source).0.runs;
        for run in directives.iter().filter(|run| run.expect != Expect::Race) {
            let contents = bound_buffers(parts).into_iter().map(|id| {
                let buffer = parts.buffer(id);
                let given = run.inputs.iter().find(|(name, _)| **name == *buffer.name);
                let size = run.sizes.iter().find(|(name, _)| **name == *buffer.name).map(|(_, count)| *count);
                match given {
                    Some((_, spec)) => spec.bytes_for(buffer, Path::new("")).unwrap(),
                    None => {
                        let count = size.or(buffer.len.map(u64::from)).unwrap();
                        vec![0; count as usize * buffer.ty.bytes()]
                    }
                }
            });
            let config = DispatchConfig { grid_override: run.grid, ..DispatchConfig::default() };
            // A trap is the same for all ways too.
            let _ = check(&program, &contents.collect::<Vec<_>>(), &config);
            runs += 1;
        }
    }
    assert!(runs > 15, "only {runs} runs have a grid barrier");
}

#[test]
fn a_trap_is_placed_in_the_whole_program() {
    let program = parse(
        "program @placed workgroup(1, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          fn @guard(%v : u32, %n : u32) {
            %hit = eq.u32 %v, %n
            if %hit {
              trap 5
            }
          }
          %i = global_id x
          %v = load.u32 @y[%i]
          call @guard(%v, 1)
          grid_barrier
          %two = eq.u32 %v, 2
          if %two {
            trap 6
          }
          grid_barrier
          call @guard(%v, 3)
        }",
    );
    let config = DispatchConfig::default();
    let function = Some(FunctionId(0));
    let expected = [
        (1, 5, Place::Line { function, site: 2 }),
        (2, 6, Place::Line { function: None, site: 6 }),
        (3, 5, Place::Line { function, site: 2 }),
    ];
    for (input, trap, at) in expected {
        match check(&program, &[words(&[0, input])], &config) {
            Err(BackendError::Trap { code, place, .. }) => assert_eq!((code, place), (trap, at)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_part_that_fails_leaves_nothing_written_defined() {
    // The first part writes `@early`, and the second one traps without touching it.
    let program = parse(
        "program @late workgroup(1, 1, 1) {
          buffer @early : read_write u32[1] binding 0 output
          buffer @other : read_write u32[1] binding 1 output
          store.u32 @early[0], 1
          grid_barrier
          store.u32 @other[0], 2
          trap 5
        }",
    );
    let backend = ReferenceBackend::default();
    let resources = [4, 4].map(|bytes| backend.allocate_resident(bytes).unwrap());
    let run = || {
        dispatch_resident_grid_sync_fixpoint_into(
            &backend,
            &program,
            &resources,
            &DispatchConfig::default(),
            Fixpoint::ONCE,
            &[],
            &mut [],
        )
    };
    assert!(matches!(run().unwrap_err(), BackendError::Trap { code: 5, .. }));
    for resource in &resources {
        assert_eq!(backend.download_resident(resource).unwrap_err().code(), ErrorCode::BadHandle);
        backend.upload_resident(resource, &[0; 4]).unwrap();
    }
    assert!(
        matches!(run().unwrap_err(), BackendError::Trap { code: 5, .. }),
        "an upload makes them usable again"
    );
}

#[test]
fn a_fixpoint_ends_with_the_first_pass_that_changes_nothing() {
    // Each pass moves the maximum one element further; the flag says whether anything moved.
    let program = parse(
        "program @spread workgroup(1, 1, 1) {
          buffer @x       : read_write u32[]  binding 0 output
          buffer @changed : read_write u32[1] binding 1
          %i = global_id x
          %n = len @x
          %j = add.u32 %i, 1
          %inside = lt.u32 %j, %n
          %mine  = load.u32 @x[%i]
          %right = load.u32 @x[%j]
          %new   = max.u32 %mine, %right
          grid_barrier
          store.u32 @x[%i], %new
          %moved = ne.u32 %mine, %new
          if %moved {
            atomic_or.u32 @changed[0], 1
          }
        }",
    );
    let backend = ReferenceBackend::default();
    let x = backend.allocate_resident(16).unwrap();
    let changed = backend.allocate_resident(4).unwrap();
    backend.upload_resident(&x, &words(&[1, 2, 3, 9])).unwrap();
    let run = |passes_max| {
        let mut out = Vec::new();
        let passes = dispatch_resident_grid_sync_fixpoint_into(
            &backend,
            &program,
            &[x.clone(), changed.clone()],
            &DispatchConfig::default(),
            Fixpoint { passes_max, changed: Some((1, 0)) },
            &[ResidentReadRange { resource: &x, byte_offset: 0, byte_len: 16 }],
            &mut [&mut out],
        );
        passes.map(|passes| (passes, out))
    };
    assert_eq!(run(2).unwrap(), (2, words(&[3, 9, 9, 9])));
    assert_eq!(run(100).unwrap(), (2, words(&[9, 9, 9, 9])));
}

/// The reference without its grid barriers, or without anything that could replace them.
struct Limited {
    inner: ReferenceBackend,
    resident: bool,
    split: bool,
}

impl vyre_driver::backend::private::Sealed for Limited {}

impl VyreBackend for Limited {
    fn id(&self) -> &'static str {
        "limited"
    }
    fn dispatch(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        assert!(!has_grid_sync(program), "a grid barrier reached a backend without them");
        self.inner.dispatch(program, inputs, config)
    }
    fn supports_resident_dispatch(&self) -> bool {
        self.resident
    }
    fn allows_host_grid_sync_split(&self) -> bool {
        self.split
    }
    fn max_workgroup_size(&self) -> [u32; 3] {
        self.inner.max_workgroup_size()
    }
    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        65_535
    }
}

#[test]
fn without_native_resident_or_split_a_grid_barrier_is_refused() {
    let program = parse(
        "program @two workgroup(1, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          store.u32 @y[%i], %i
          grid_barrier
          %v = load.u32 @y[0]
          %w = add.u32 %v, 7
          grid_barrier
          store.u32 @y[%i], %w
        }",
    );
    let y = words(&[0; 3]);
    let config = DispatchConfig::default();
    let splits = Limited { inner: ReferenceBackend::default(), resident: false, split: true };
    assert_eq!(dispatch(&splits, &program, &[&y], &config).unwrap().outputs, [words(&[7; 3])]);
    let refuses = Limited { inner: ReferenceBackend::default(), resident: false, split: false };
    let error = dispatch(&refuses, &program, &[&y], &config).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UnsupportedFeature, "{error}");
}

#[test]
fn generated_programs_split_to_the_same_bytes() {
    let config = Config { indirect: false, ..Config::default() };
    let mut split = 0;
    for seed in property::cases(400) {
        let case = vyre_generate::seeded(seed, &config);
        if !has_grid_sync(&case.program) {
            continue;
        }
        split += 1;
        let dispatch = DispatchConfig { grid_override: case.grid, ..DispatchConfig::default() };
        check(&case.program, &case.buffers, &dispatch).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(split > 20, "only {split} generated programs had a grid barrier");
}
