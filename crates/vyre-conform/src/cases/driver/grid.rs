//! Grids: barriers over all of it, and grids that a buffer holds.

use super::{Check, Probe, Sample, answer, parse, problem, scale, words};
use crate::batch::{Plan, Track};
use crate::judge::Answer;
use vyre_driver::grid_sync::{
    Fixpoint, dispatch, dispatch_resident_grid_sync_fixpoint_into, dispatch_with_grid_sync_split_into,
};
use vyre_driver::{
    BackendError, DispatchConfig, ErrorCode, OutputBuffers, ResidentReadRange, Resource, VyreBackend,
};
use vyre_foundation::ir::Program;
use vyre_foundation::launch::bound_buffers;

/// A program, its grid and its inputs.
type Launch = (Program, Option<[u32; 3]>, Vec<Vec<u8>>);

/// A sum over the grid that every lane sees, then a trip around a ring with locals and workgroup memory kept.
const TOTAL: &str = "program @total workgroup(4, 1, 1) {
  buffer @trips : uniform    u32[1] binding 0
  buffer @x     : read       u32[]  binding 1
  buffer @sum   : read_write u32[1] binding 2
  buffer @ring  : read_write u32[]  binding 3
  buffer @y     : read_write u32[]  binding 4 output
  buffer @tile  : workgroup  u32[4]
  %i = global_id x
  %l = local_index
  %groups = num_workgroups x
  %lanes = mul.u32 %groups, 4
  %v = load.u32 @x[%i]
  atomic_add.u32 @sum[0], %v
  store.u32 @tile[%l], %v
  store.u32 @ring[%i], %v
  var $keep : u32 = %i
  grid_barrier
  %total = load.u32 @sum[0]
  %trips = load.u32 @trips[0]
  for %t in 0..%trips {
    %on = add.u32 %i, 1
    %near = rem.u32 %on, %lanes
    %n = load.u32 @ring[%near]
    grid_barrier
    %m = mul.u32 %n, 3
    %k = get.u32 $keep
    %s = add.u32 %m, %k
    set.u32 $keep, %s
    store.u32 @ring[%i], %s
    grid_barrier
  }
  %k = get.u32 $keep
  %peer = xor.u32 %l, 1
  %tile = load.u32 @tile[%peer]
  %a = add.u32 %k, %tile
  %b = sub.u32 %total, %a
  store.u32 @y[%i], %b
}";

/// Native, resident or split, a grid barrier orders all lanes; where no strategy is available it is refused.
pub(super) fn barriers(driver: &dyn VyreBackend, plan: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let total = parse(TOTAL);
    let mut launches: Vec<Launch> = Vec::new();
    for (trips, groups) in [(0, 1), (3, 3), (2, 5)] {
        let lanes = groups * 4;
        let x: Vec<u32> = (0..lanes as u32).map(|i| i * i + 7).collect();
        let inputs =
            vec![words(&[trips]), words(&x), words(&[0]), words(&vec![0; lanes]), words(&vec![0; lanes])];
        launches.push((total.clone(), Some([groups as u32, 1, 1]), inputs));
    }
    launches.extend(random_launches(plan));
    for (program, grid, inputs) in &launches {
        every_way(&mut probe, program, *grid, inputs)?;
    }
    let flat = Sample::new(&scale(), None, &[words(&[2]), words(&[4, 5]), words(&[1, 1])]);
    let fits = driver.cooperative_grid_sync_fits(&flat.program, &flat.borrowed(), &flat.config());
    let fits = probe.done("cooperative_grid_sync_fits", fits)?;
    probe.holds(!fits, || "a program without a grid barrier `fits` for one".into())?;
    Ok(())
}

/// Random programs with grid barriers or collectives.
fn random_launches(plan: &Plan<'_>) -> Vec<Launch> {
    let config =
        vyre_generate::Config { indirect: false, ..super::super::random::config(plan, Track::Float, 1) };
    let cases = (0..).map(|seed| vyre_generate::seeded(seed, &config));
    let synced = cases.filter(|case| case.valid().is_ok_and(|valid| valid.facts().has_grid_sync));
    synced.take(plan.pick(6, 60)).map(|case| (case.program, case.grid, case.buffers)).collect()
}

fn every_way(probe: &mut Probe<'_>, program: &Program, grid: Option<[u32; 3]>, inputs: &[Vec<u8>]) -> Check {
    let driver = probe.driver;
    let Answer::Outputs(expected) = answer(program, grid, inputs) else { return Ok(()) };
    let config = DispatchConfig { grid_override: grid, ..DispatchConfig::default() };
    let borrowed: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let routed = dispatch(driver, program, &borrowed, &config).map(|timed| timed.outputs);
    let (resident, split) = (driver.supports_resident_dispatch(), driver.allows_host_grid_sync_split());
    match routed {
        Err(BackendError::UnsupportedFeature { .. }) if !resident && !split => {}
        other => probe.outputs(&format!("@{} by the best way", program.name()), other, &expected)?,
    }
    if driver.supports_grid_sync() {
        let fits = driver.cooperative_grid_sync_fits(program, &borrowed, &config);
        if probe.done("cooperative_grid_sync_fits", fits)? {
            let native = driver.dispatch_borrowed(program, &borrowed, &config);
            probe.outputs(&format!("@{} natively", program.name()), native, &expected)?;
        }
    }
    if split {
        let mut outputs = OutputBuffers::new();
        let done = dispatch_with_grid_sync_split_into(driver, program, &borrowed, &config, &mut outputs);
        probe.outputs(
            &format!("@{} split by the host", program.name()),
            done.map(|()| outputs),
            &expected,
        )?;
    }
    if resident { on_resident(probe, program, &config, inputs, &expected) } else { Ok(()) }
}

fn on_resident(
    probe: &mut Probe<'_>,
    program: &Program,
    config: &DispatchConfig,
    inputs: &[Vec<u8>],
    expected: &[Vec<u8>],
) -> Check {
    let driver = probe.driver;
    let mut resources: Vec<Resource> = Vec::new();
    for input in inputs {
        let resource = probe.done("allocate_resident", driver.allocate_resident(input.len()))?;
        probe.done("upload_resident", driver.upload_resident(&resource, input))?;
        resources.push(resource);
    }
    let parts = program.parts();
    let bound = bound_buffers(parts).into_iter().zip(resources.iter().zip(inputs));
    let wanted: Vec<_> = bound
        .filter(|(id, _)| parts.buffer(*id).is_output())
        .map(|(_, (resource, input))| ResidentReadRange { resource, byte_offset: 0, byte_len: input.len() })
        .collect();
    let mut outputs = vec![Vec::new(); wanted.len()];
    let mut slots: Vec<&mut Vec<u8>> = outputs.iter_mut().collect();
    let once = Fixpoint::ONCE;
    let done = dispatch_resident_grid_sync_fixpoint_into(
        driver, program, &resources, config, once, &wanted, &mut slots,
    );
    probe.outputs(
        &format!("@{} split on resident memory", program.name()),
        done.map(|_| outputs),
        expected,
    )?;
    resources.into_iter().try_for_each(|one| probe.done("free_resident", driver.free_resident(one)))
}

/// The grid is read from its buffer before the launch, wherever the buffer is stored.
pub(super) fn indirect(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let program = parse(
        "program @indirect workgroup(1, 1, 1) {
          buffer @args : read       u32[] binding 0
          buffer @y    : read_write u32[] binding 1 output
          indirect @args[1]
          %i = global_index
          %n = num_workgroups y
          store.u32 @y[%i], %n
        }",
    );
    let config = DispatchConfig::default();
    for args in [&[9, 2, 3, 1][..], &[9, 2, 0, 1], &[9, 1, 1, 8], &[9, 4, 1], &[], &[9, 2, 3, 1]] {
        let inputs = [words(args), words(&[7; 8])];
        let Answer::Outputs(expected) = answer(&program, None, &inputs) else {
            return Err(problem("the program has no trap".into()));
        };
        probe.outputs(
            &format!("a grid of {args:?}"),
            driver.dispatch(&program, &inputs, &config),
            &expected,
        )?;
        on_resident_memory(&mut probe, &program, &inputs, &expected[0])?;
    }
    let launch = &[ErrorCode::InvalidLaunch, ErrorCode::LimitExceeded];
    let huge = driver.dispatch(&program, &[words(&[9, u32::MAX, u32::MAX, 1]), words(&[0; 8])], &config);
    probe.refused("a grid of more lanes than an index counts", huge, launch)?;
    let given = DispatchConfig { grid_override: Some([1, 1, 1]), ..DispatchConfig::default() };
    let both = driver.dispatch(&program, &[words(&[9, 2, 3, 1]), words(&[0; 8])], &given);
    probe.refused("a grid beside that of the program", both, launch)?;
    Ok(())
}

fn on_resident_memory(
    probe: &mut Probe<'_>,
    program: &Program,
    inputs: &[Vec<u8>; 2],
    expected: &[u8],
) -> Check {
    let driver = probe.driver;
    // Some drivers allocate nothing of length zero.
    if !driver.supports_resident_dispatch() || inputs[0].is_empty() {
        return Ok(());
    }
    let mut resources = Vec::new();
    for input in inputs {
        let resource = probe.done("allocate_resident", driver.allocate_resident(input.len()))?;
        probe.done("upload_resident", driver.upload_resident(&resource, input))?;
        resources.push(resource);
    }
    let run = driver.dispatch_resident_timed(program, &resources, &DispatchConfig::default());
    probe.done("a grid in resident memory", run)?;
    probe.bytes("a grid in resident memory", driver.download_resident(&resources[1]), expected)?;
    resources.into_iter().try_for_each(|one| probe.done("free_resident", driver.free_resident(one)))
}
