//! What the file tests under `tests/` cannot express: findings, traces, limits, and schedules against each other.

use crate::{FindingKind, Launch, Options, Outcome, RunError, Schedule, run};
use vyre_foundation::text::parse;
use vyre_foundation::validate::{ValidProgram, validate};

fn program(source: &str) -> ValidProgram {
    let parsed = parse(source).unwrap_or_else(|errors| panic!("{errors:#?}"));
    validate(&parsed.program).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn launch(grid: u32, buffers: &[&[u32]]) -> Launch {
    Launch { grid: Some([grid, 1, 1]), buffers: buffers.iter().map(|words| bytes(words)).collect() }
}

/// Runs under every schedule with the check on and off; all must agree.
fn run_all(source: &str, launch: &Launch) -> Result<Outcome, RunError> {
    let program = program(source);
    let schedules = [Schedule::Forward, Schedule::Reverse, Schedule::Shuffle(1), Schedule::Shuffle(2)];
    let mut results = schedules.into_iter().flat_map(|schedule| {
        [false, true]
            .map(|check| run(&program, launch.clone(), &Options { check, schedule, ..Options::default() }))
    });
    let first = results.next().unwrap();
    let mut checked = None;
    for result in results {
        match (&first, result) {
            (Ok(first), Ok(other)) => {
                assert_eq!(first.buffers, other.buffers);
                assert_eq!(first.lane_instructions, other.lane_instructions);
                checked = checked.or(Some(Ok(other)));
            }
            (Err(first), Err(other)) => assert_eq!(*first, other),
            (first, other) => panic!("schedules differ: {first:?} and {other:?}"),
        }
    }
    checked.unwrap_or(first)
}

fn body(lines: &str) -> String {
    format!(
        "program @p workgroup(4, 1, 1) subgroup(2) {{
  buffer @y : read_write u32[] binding 0 output
  buffer @w : workgroup u32[8]
  %i = local_index
  %g = global_id x
{lines}
}}"
    )
}

fn findings(lines: &str, grid: u32) -> Vec<(FindingKind, u32, Option<u32>)> {
    let program = program(&body(lines));
    let options = Options { check: true, ..Options::default() };
    let outcome = run(&program, launch(grid, &[&[0; 8]]), &options).unwrap();
    let site = |party: &crate::Party| match party.location.line {
        vyre_foundation::diagnostic::Place::Line { site, .. } => site,
        ref other => panic!("{other:?}"),
    };
    let finding = |f: &crate::Finding| (f.kind, site(&f.first), f.second.as_ref().map(site));
    outcome.findings.iter().map(finding).collect()
}

#[test]
fn a_saxpy_runs() {
    let source = "program @saxpy workgroup(2, 1, 1) {
  buffer @a : uniform u32[1] binding 0
  buffer @x : read u32[] binding 1
  buffer @y : read_write u32[] binding 2 output
  fn @axpy(%a : u32, %x : u32, %y : u32) -> u32 {
    %p = mul.u32 %a, %x
    %s = add.u32 %p, %y
    return %s
  }
  %i = global_id x
  %n = len @y
  %live = lt.u32 %i, %n
  if %live {
    %a = load.u32 @a[0]
    %x = load.u32 @x[%i]
    %y = load.u32 @y[%i]
    %r = call @axpy(%a, %x, %y)
    store.u32 @y[%i], %r
  }
}";
    let outcome = run_all(source, &launch(2, &[&[2], &[1, 2, 3], &[10, 10, 10]])).unwrap();
    assert_eq!(words(&outcome.buffers[2]), [12, 14, 16]);
    assert_eq!(outcome.findings, []);
    assert_eq!(outcome.lane_instructions, 3 * 10 + 4);
}

#[test]
fn registers_are_used_again() {
    let mut lines = String::from("  %v0 = add.u32 %g, 0\n");
    for i in 1..1000 {
        lines += &format!("  %v{i} = add.u32 %v{}, {i}\n  barrier\n", i - 1);
    }
    lines += "  store.u32 @y[%g], %v999\n";
    let program = program(&body(&lines));
    let admission = vyre_foundation::launch::admit_buffers(&program, None, &[vec![0u8; 32]]).unwrap();
    let setup = crate::compile::Setup {
        parts: program.parts(),
        admission: &admission,
        notes: false,
        memory_bytes_max: 1 << 30,
        instead: None,
    };
    assert!(crate::compile::compile(&setup).unwrap().slots <= 4);
    let outcome = run_all(&body(&lines), &launch(2, &[&[0; 8]])).unwrap();
    assert_eq!(words(&outcome.buffers[0]), (0..8).map(|i| i + 499_500).collect::<Vec<_>>());
}

#[test]
fn races_are_found_with_both_lines() {
    let race = FindingKind::Race;
    // Two stores of one line, equal values.
    assert_eq!(findings("  store.u32 @y[0], 1", 1), [(race, 2, Some(2))]);
    // A store and a load of the neighbour's element.
    let lines = "  %j = xor.u32 %i, 1\n  store.u32 @y[%g], 1\n  %v = load.u32 @y[%j]";
    assert_eq!(findings(lines, 1), [(race, 3, Some(4))]);
    // A barrier orders them; a subgroup barrier too, because the neighbour is in the subgroup.
    for barrier in ["barrier", "subgroup_barrier", "grid_barrier"] {
        let lines =
            format!("  %j = xor.u32 %i, 1\n  store.u32 @y[%g], 1\n  {barrier}\n  %v = load.u32 @y[%j]");
        assert_eq!(findings(&lines, 1), []);
    }
    // The lane in the other subgroup is not ordered by a subgroup barrier.
    let lines = "  %j = xor.u32 %i, 2\n  store.u32 @y[%g], 1\n  subgroup_barrier\n  %v = load.u32 @y[%j]";
    assert_eq!(findings(lines, 1), [(race, 3, Some(5))]);
    // Another workgroup is ordered by a grid barrier only.
    let lines = "  %j = xor.u32 %g, 4\n  store.u32 @y[%g], 1\n  barrier\n  %v = load.u32 @y[%j]";
    assert_eq!(findings(lines, 2), [(race, 3, Some(5))]);
    let lines = "  %j = xor.u32 %g, 4\n  store.u32 @y[%g], 1\n  grid_barrier\n  %v = load.u32 @y[%j]";
    assert_eq!(findings(lines, 2), []);
}

#[test]
fn atomics_race_by_their_kind() {
    let race = FindingKind::Race;
    assert_eq!(findings("  atomic_add.u32 @y[0], 1\n  atomic_sub.u32 @y[0], 2", 2), []);
    assert_eq!(findings("  atomic_add.u32 @y[0], 1\n  atomic_min.u32 @y[0], 2", 1), [(race, 2, Some(3))]);
    assert_eq!(findings("  %o = atomic_add.u32 @y[0], 1", 1), [(race, 2, Some(2))]);
    assert_eq!(findings("  atomic_exchange.u32 @y[0], 1", 1), [(race, 2, Some(2))]);
    assert_eq!(findings("  atomic_add.u32 @w[0], 1\n  %o = load.u32 @w[0]", 1), [(race, 2, Some(3))]);
    assert_eq!(findings("  atomic_add.u32 @w[0], 1\n  barrier\n  %o = load.u32 @w[0]", 2), []);
}

#[test]
fn out_of_bounds_and_unwritten_accesses_are_found() {
    let bounds = |len| FindingKind::OutOfBounds { len };
    let lines = "  %j = add.u32 %g, 5\n  store.u32 @y[%j], 1";
    assert_eq!(findings(lines, 1), [(bounds(8), 3, None)]);
    let lines = "  var $a : u32[3] = 0\n  set.u32 $a[%i], 1\n  %v = get.u32 $a[%i]";
    assert_eq!(findings(lines, 1), [(bounds(3), 3, None), (bounds(3), 4, None)]);
    assert_eq!(findings("  %v = load.u32 @w[%i]", 2), [(FindingKind::UnwrittenRead, 2, None)]);
    assert_eq!(findings("  store.u32 @w[%i], 1\n  grid_barrier\n  %v = load.u32 @w[%i]", 2), []);
}

#[test]
fn the_first_trap_in_program_order_fails_the_run() {
    let lines = "  %late = eq.u32 %g, 0
  if %late {
    for %k in 0..2 {
      trap 9
    }
  }
  %odd = eq.u32 %g, 3
  if %odd {
    trap 7
  }
  store.u32 @y[%g], 1";
    match run_all(&body(lines), &launch(2, &[&[0; 8]])) {
        Err(RunError::Trap { code: 9, lane: [0, 0, 0], location }) => {
            assert_eq!(location.to_string(), "line 5 of the body");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_can_be_stopped_and_its_memory_limited() {
    let endless = body("  for %a in 0..0xffffffff {\n    for %b in 0..0xffffffff {\n    }\n  }");
    let calls = std::cell::Cell::new(0);
    let stop = || {
        calls.set(calls.get() + 1);
        calls.get() == 3
    };
    let options = Options { stop: Some(&stop), ..Options::default() };
    let result = run(&program(&endless), launch(1, &[&[0; 8]]), &options);
    assert_eq!(result.map(|_| ()), Err(RunError::Stopped));

    // Lanes without a line count too, or a large grid of them could not be stopped.
    let nothing = program("program @nothing workgroup(1, 1, 1) {\n}");
    let options = Options { stop: Some(&|| true), ..Options::default() };
    let launch_all = Launch { grid: Some([u32::MAX, 1, 1]), buffers: Vec::new() };
    assert_eq!(run(&nothing, launch_all, &options).map(|_| ()), Err(RunError::Stopped));

    let options = Options { memory_bytes_max: 1 << 20, ..Options::default() };
    let result = run(&program(&body("  grid_barrier")), launch(1 << 20, &[&[0; 8]]), &options);
    assert!(matches!(result, Err(RunError::Memory { max: 0x10_0000, .. })), "{result:?}");
}

#[test]
fn an_indirect_grid_keeps_the_limit() {
    let source = "program @p workgroup(4, 1, 1) {
  buffer @args : read u32[3] binding 0
  indirect @args[0]
}";
    let launch = |grid: [u32; 3]| Launch { grid: None, buffers: vec![bytes(&grid)] };
    let options = Options::default();
    let most = run(&program(source), launch([0x4000_0000, 1, 1]), &options);
    assert!(matches!(most, Err(RunError::Launch(_))), "{most:?}");
    assert_eq!(run(&program(source), launch([3, 2, 1]), &options).unwrap().grid, [3, 2, 1]);
    assert_eq!(
        run(&program(source), launch([u32::MAX, u32::MAX, 0]), &options).unwrap().lane_instructions,
        0
    );
}

#[test]
fn a_trace_shows_lines_values_and_flow() {
    let source = "program @t workgroup(2, 1, 1) {
  buffer @x : read f32[] binding 0
  buffer @y : read_write f32[] binding 1 output
  buffer @w : workgroup f32[2]
  fn @twice(%v : f32) -> f32 {
    %d = add.f32 %v, %v
    return %d
  }
  %i = global_id x
  var $sum : f32 = 0.0
  for %k in 0..2 {
    %at = add.u32 %i, %k
    %x = load.f32 @x[%at]
    %odd = eq.u32 %k, 1
    if %odd {
      set.f32 $sum, %x
    } else {
      %t = call @twice(%x)
      set.f32 $sum, %t
    }
  }
  %s = get.f32 $sum
  store.f32 @w[%i], %s
  %u = uniform_load.f32 @w[1]
  store.f32 @y[%i], %u
}";
    let lines = std::cell::RefCell::new(format!("{}\n", crate::TraceEvent::HEADER));
    let map = vyre_foundation::text::parse(source).unwrap().map;
    let sink = |event: &crate::TraceEvent| *lines.borrow_mut() += &format!("{}\n", event.row(&map));
    let options =
        Options { trace: Some(crate::Trace { lane: [1, 0, 0], sink: &sink }), ..Options::default() };
    let launch = Launch { grid: None, buffers: vec![bytes(&[0x3f80_0000, 0x4000_0000]), bytes(&[0, 0])] };
    run(&program(source), launch, &options).unwrap();
    expect_test::expect![[r#"
        step     line  runs                                      gives                           because
             1      9  %i = global_id x                          %i = 1
             2     10  var $sum : f32 = 0.0
             3     11  for %k in 0..2 {                          %k = 0                          trip 1
             4     12    %at  = add.u32 %i, %k                   %at = 1                         %i = 1, %k = 0
             5     13    %x   = load.f32 @x[%at]                 %x = 2.0                        %at = 1; reads @x[1] of 2
             6     14    %odd = eq.u32 %k, 1                     %odd = false                    %k = 0
             7     15    if %odd {                                                               %odd = false; goes past this block
             8     18      %t = call @twice(%x)                                                  %x = 2.0
             9      6        %d = add.f32 %v, %v                 %d = 4.0                        %v = 2.0
            10      7        return %d                                                           %d = 4.0
            11     19      set.f32 $sum, %t                                                      %t = 4.0
            12     11  for %k in 0..2 {                          %k = 1                          trip 2
            13     12    %at  = add.u32 %i, %k                   %at = 2                         %i = 1, %k = 1
            14     13    %x   = load.f32 @x[%at]                 %x = 0.0                        %at = 2; reads @x[2], OUT OF BOUNDS of 2
            15     14    %odd = eq.u32 %k, 1                     %odd = true                     %k = 1
            16     15    if %odd {                                                               %odd = true; takes this block
            17     16      set.f32 $sum, %x                                                      %x = 0.0
            18     11  for %k in 0..2 {                                                          ends after 2 trips
            19     22  %s = get.f32 $sum                         %s = 0.0
            20     23  store.f32 @w[%i], %s                                                      %i = 1, %s = 0.0; writes @w[1] of 2
            21     24  %u = uniform_load.f32 @w[1]               %u = 0.0                        waits for the other lanes
            22     25  store.f32 @y[%i], %u                                                      %i = 1, %u = 0.0; writes @y[1] of 2
    "#]].assert_eq(&lines.borrow());
}
