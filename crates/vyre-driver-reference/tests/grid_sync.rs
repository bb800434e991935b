//! Programs with grid barriers give the same bytes whichever way they run: natively, split on resident buffers, or split
//! by the host.

use vyre_driver::grid_sync::{
    Fixpoint, dispatch, dispatch_resident_grid_sync_fixpoint_into, dispatch_with_grid_sync_split_into,
    has_grid_sync,
};
use vyre_driver::{BackendError, DispatchConfig, ErrorCode, OutputBuffers, ResidentReadRange, VyreBackend};
use vyre_driver_reference::ReferenceBackend;
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{FunctionId, Program};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::text;
use vyre_generate::Config;
use vyre_testkit::property;

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

#[test]
fn a_sum_over_the_grid_is_seen_by_every_lane_after_the_barrier() {
    let program = parse(
        "program @total workgroup(4, 1, 1) {
          buffer @x   : read       u32[]  binding 0
          buffer @sum : read_write u32[1] binding 1
          buffer @y   : read_write u32[]  binding 2 output
          %i = global_id x
          %v = load.u32 @x[%i]
          atomic_add.u32 @sum[0], %v
          grid_barrier
          %s = load.u32 @sum[0]
          %r = sub.u32 %s, %v
          store.u32 @y[%i], %r
        }",
    );
    let x: Vec<u32> = (1..=10).collect();
    let outputs =
        check(&program, &[words(&x), words(&[0]), words(&[0; 10])], &DispatchConfig::default()).unwrap();
    let expected: Vec<u32> = x.iter().map(|v| 55 - v).collect();
    assert_eq!(outputs, [words(&expected)]);
}

#[test]
fn loops_around_barriers_carry_locals_arrays_and_workgroup_memory() {
    let program = parse(
        "program @steps workgroup(4, 1, 1) {
          buffer @n    : uniform    u32[1]  binding 0
          buffer @x    : read_write u32[]   binding 1
          buffer @y    : read_write u64[]   binding 2 output
          buffer @tile : workgroup  u16[8]
          %i     = global_id x
          %li    = local_index
          %total = num_workgroups x
          %trips = load.u32 @n[0]
          var $acc   : u64 = 1
          var $seen  : f16[3] = 0.5
          var $flag  : bool = false
          var $round : u32 = 0
          store.u16 @tile[%li], %i
          for %t in 0..%trips {
            %next  = add.u32 %i, 1
            %lanes = mul.u32 %total, 4
            %from  = rem.u32 %next, %lanes
            %other = load.u32 @x[%from]
            grid_barrier
            %mixed = mul.u32 %other, 3
            %put   = add.u32 %mixed, %t
            store.u32 @x[%i], %put
            %round = get.u32 $round
            %again = add.u32 %round, 1
            set.u32 $round, %again
            %small = lt.u32 %again, 4
            if %small {
              barrier
              %peer = xor.u32 %li, 1
              %near = load.u16 @tile[%peer]
              barrier
              %up = add.u32 %near, %t
              store.u16 @tile[%li], %up
            }
            %wide = cast.u64 %put
            %acc  = get.u64 $acc
            %more = mul.u64 %acc, 6364136223846793005
            %sum  = add.u64 %more, %wide
            set.u64 $acc, %sum
            %slot = rem.u32 %t, 3
            %h    = cast.f16 %t
            set.f16 $seen[%slot], %h
            %odd = and.u32 %put, 1
            %isodd = ne.u32 %odd, 0
            set.bool $flag, %isodd
            %last = ge.u32 %t, 6
            if %last {
              break
            }
            grid_barrier
          }
          %acc2 = get.u64 $acc
          %mine = load.u16 @tile[%li]
          %wm   = cast.u64 %mine
          %s0   = get.f16 $seen[0]
          %s2   = get.f16 $seen[2]
          %s    = add.f16 %s0, %s2
          %sw   = cast.u64 %s
          %f    = get.bool $flag
          %fw   = cast.u64 %f
          %r1   = add.u64 %acc2, %wm
          %r2   = add.u64 %r1, %sw
          %r3   = xor.u64 %r2, %fw
          store.u64 @y[%i], %r3
        }",
    );
    for trips in [0, 1, 5, 20] {
        let inputs = [words(&[trips]), words(&[7, 1, 2, 3, 4, 5, 6, 9]), vec![0; 64]];
        check(&program, &inputs, &DispatchConfig::default()).unwrap();
    }
}

#[test]
fn branches_of_the_host_take_one_side() {
    let program = parse(
        "program @sides workgroup(2, 1, 1) {
          buffer @n : uniform    u32[2] binding 0
          buffer @y : read_write u32[]  binding 1 output
          %i = global_id x
          %a = load.u32 @n[0]
          %b = load.u32 @n[1]
          %c = lt.u32 %a, %b
          if %c {
            store.u32 @y[%i], 1
            grid_barrier
            %j = xor.u32 %i, 1
            %v = load.u32 @y[%j]
            grid_barrier
            %w = add.u32 %v, %a
            store.u32 @y[%i], %w
          } else {
            %k = mul.u32 %b, 100
            store.u32 @y[%i], %k
            for %t in %b..%a step 3 {
              grid_barrier
              %skip = eq.u32 %t, 5
              if %skip {
                continue
              }
              %v = load.u32 @y[%i]
              %w = add.u32 %v, %t
              store.u32 @y[%i], %w
            }
          }
        }",
    );
    for n in [[1, 2], [9, 2], [4, 4]] {
        check(&program, &[words(&n), words(&[0; 4])], &DispatchConfig::default()).unwrap();
    }
}

#[test]
fn traps_and_empty_grids_end_the_same_way() {
    let program = parse(
        "program @trap workgroup(2, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          store.u32 @y[%i], 1
          %bad = eq.u32 %i, 3
          if %bad {
            trap 42
          }
          grid_barrier
          store.u32 @y[%i], 2
        }",
    );
    let config = DispatchConfig::default();
    check(&program, &[words(&[0; 2])], &config).unwrap();
    let error = check(&program, &[words(&[0; 4])], &config).unwrap_err();
    assert!(matches!(error, BackendError::Trap { code: 42, .. }), "{error}");
    let none = DispatchConfig { grid_override: Some([3, 0, 1]), ..DispatchConfig::default() };
    assert_eq!(check(&program, &[words(&[5, 6])], &none).unwrap(), [words(&[5, 6])]);
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
fn an_indirect_grid_reads_zero_out_of_bounds_whichever_way_it_runs() {
    let program = parse(
        "program @short workgroup(1, 1, 1) {
          buffer @args : read       u32[] binding 0
          buffer @y    : read_write u32[] binding 1 output
          indirect @args[1]
          %i = global_index
          store.u32 @y[%i], 1
          grid_barrier
          store.u32 @y[%i], 2
        }",
    );
    let run =
        |args: &[u32]| check(&program, &[words(args), words(&[0; 2])], &DispatchConfig::default()).unwrap();
    assert_eq!(run(&[9, 2, 1, 1]), [words(&[2, 2])]);
    assert_eq!(run(&[9, 2, 1]), [words(&[0, 0])], "the third count is out of bounds");
    assert_eq!(run(&[]), [words(&[0, 0])]);
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
        assert!(!has_grid_sync(program.parts()), "a grid barrier reached a backend without them");
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
        if !has_grid_sync(case.program.parts()) {
            continue;
        }
        split += 1;
        let dispatch = DispatchConfig { grid_override: case.grid, ..DispatchConfig::default() };
        check(&case.program, &case.buffers, &dispatch).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(split > 20, "only {split} generated programs had a grid barrier");
}
