//! Dispatches of host bytes: every form of the call, sizes, refusals, time, threads, pipelines.

use super::{Check, Probe, Sample, parse, problem, samples, scale, words};
use crate::Cause;
use crate::batch::{Plan, Problem};
use std::sync::Arc;
use std::time::Duration;
use vyre_driver::{BackendError, CancelToken, DispatchConfig, ErrorCode, OutputBuffers, VyreBackend};
use vyre_foundation::ir::Program;

/// The codes that may refuse a bad launch or program.
const REFUSED: &[ErrorCode] =
    &[ErrorCode::InvalidLaunch, ErrorCode::InvalidProgram, ErrorCode::LimitExceeded];

/// Every form of dispatch returns the same bytes, also when repeated.
pub(super) fn forms(driver: &dyn VyreBackend, plan: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    for sample in samples(plan) {
        let Sample { program, inputs, outputs, .. } = &sample;
        let (config, borrowed, name) = (sample.config(), sample.borrowed(), sample.name());
        for _ in 0..2 {
            probe.outputs(
                &format!("dispatch of @{name}"),
                driver.dispatch(program, inputs, &config),
                outputs,
            )?;
            let result = driver.dispatch_borrowed(program, &borrowed, &config);
            probe.outputs(&format!("dispatch_borrowed of @{name}"), result, outputs)?;
            let what = format!("dispatch_borrowed_timed of @{name}");
            let timed = probe.done(&what, driver.dispatch_borrowed_timed(program, &borrowed, &config))?;
            let parts = [timed.enqueue_ns, timed.wait_ns];
            let within = parts.iter().flatten().all(|part| *part <= timed.wall_ns);
            probe.holds(within, || format!("{what}: a part of the time is longer than the whole"))?;
            probe.outputs(&what, Ok(timed.outputs), outputs)?;
            let pending = driver.dispatch_async(program, inputs, &config);
            let pending = probe.done(&format!("dispatch_async of @{name}"), pending)?;
            probe.outputs(&format!("awaiting @{name}"), pending.await_result(), outputs)?;
            let pending = {
                // The inputs are gone before the result is asked for.
                let copies: Vec<Vec<u8>> = inputs.clone();
                let copies: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
                driver.dispatch_borrowed_async(program, &copies, &config)
            };
            let pending = probe.done(&format!("dispatch_borrowed_async of @{name}"), pending)?;
            let result = pending.await_timeout(Duration::from_secs(100));
            probe.outputs(&format!("awaiting borrowed @{name}"), result, outputs)?;
        }
    }
    Ok(())
}

/// Outputs go into the caller's slots: exact lengths, no stale bytes, storage kept where it is large enough.
pub(super) fn slots(driver: &dyn VyreBackend, plan: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let mut slots: OutputBuffers = vec![vec![0xee; 4096], vec![], vec![7; 3], vec![1; 100_000], vec![2; 9]];
    for sample in samples(plan) {
        let (config, name) = (sample.config(), sample.name());
        let what = format!("dispatch_borrowed_into of @{name}");
        let fits =
            slots.first().zip(sample.outputs.first()).filter(|(slot, out)| slot.capacity() >= out.len());
        let storage = fits.map(|(slot, _)| slot.as_ptr());
        let result = driver.dispatch_borrowed_into(&sample.program, &sample.borrowed(), &config, &mut slots);
        probe.done(&what, result)?;
        probe.outputs(&what, Ok(slots.clone()), &sample.outputs)?;
        let kept = storage.is_none_or(|storage| storage == slots[0].as_ptr());
        probe.holds(kept, || format!("{what}: the slot had room, and its storage was replaced"))?;
    }
    Ok(())
}

/// An output's size comes from its input, the config or its declaration; one without input starts at zero.
pub(super) fn sizes(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let program = scale();
    let (k, x) = (words(&[3]), words(&[1, 2, 3]));
    let sized = DispatchConfig { output_sizes: vec![12], ..DispatchConfig::default() };
    let plain = DispatchConfig::default();
    let zero = words(&[3, 6, 9]);
    let full = words(&[103, 106, 109]);
    let rows = [
        ("the config's size", vec![k.clone(), x.clone()], &sized, &zero),
        ("the input's size", vec![k.clone(), x.clone(), words(&[0; 3])], &plain, &zero),
        ("an empty input and the config's size", vec![k.clone(), x.clone(), vec![]], &sized, &zero),
        ("the input's bytes", vec![k.clone(), x.clone(), words(&[100; 3])], &plain, &full),
    ];
    for (what, inputs, config, expected) in rows {
        let expected = std::slice::from_ref(expected);
        probe.outputs(what, driver.dispatch(&program, &inputs, config), expected)?;
    }
    let declared = parse(
        "program @declared workgroup(1, 1, 1) {
          buffer @y : read_write u16[5] binding 2 output
          store.u16 @y[3], 77
        }",
    );
    let expected = [vec![0, 0, 0, 0, 0, 0, 77, 0, 0, 0]];
    let result = driver.dispatch(&declared, &[], &DispatchConfig { grid_override: Some([1, 1, 1]), ..plain });
    probe.outputs("the declared size", result, &expected)?;
    Ok(())
}

/// Launches that do not fit are refused with a reason, whatever came before, and the next dispatch works.
pub(super) fn refusals(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let program = scale();
    let (k, x) = (words(&[3]), words(&[1, 2, 3]));
    let plain = DispatchConfig::default();
    let sized = |sizes: Vec<usize>| DispatchConfig { output_sizes: sizes, ..DispatchConfig::default() };
    let gridded = |grid| DispatchConfig { grid_override: Some(grid), ..DispatchConfig::default() };
    let shaped = |lanes| DispatchConfig { workgroup_override: Some(lanes), ..DispatchConfig::default() };
    let all = [k.clone(), x.clone(), words(&[0; 3])];
    let invalid = parse("program @bad workgroup(1, 1, 1) {\n  break\n}\n");
    let mut bad = |what: &str, program: &Program, inputs: &[&Vec<u8>], config: &DispatchConfig| -> Check {
        let inputs: Vec<Vec<u8>> = inputs.iter().map(|input| (*input).clone()).collect();
        probe.refused(what, driver.dispatch(program, &inputs, config), REFUSED)?;
        let after = format!("a dispatch after {what}");
        probe.outputs(&after, driver.dispatch(&scale(), &all, &plain), &[words(&[3, 6, 9])])
    };
    let every = [&all[0], &all[1], &all[2]];
    bad("no inputs", &program, &[], &plain)?;
    bad("one input of three", &program, &[&k], &plain)?;
    bad("too many inputs", &program, &[&k, &x, &x, &x], &plain)?;
    bad("an output of unknown size", &program, &[&k, &x], &plain)?;
    bad("two sizes for one output", &program, &[&k, &x], &sized(vec![12, 12]))?;
    bad("a size that is not the input's", &program, &every, &sized(vec![8]))?;
    bad("part of an element", &program, &[&k, &vec![1, 2, 3], &x], &plain)?;
    bad("part of an output's element", &program, &[&k, &x], &sized(vec![7]))?;
    bad("three elements where one is declared", &program, &[&x, &x, &x], &plain)?;
    bad("more lanes than an index counts", &program, &every, &gridded([u32::MAX, 2, 1]))?;
    bad("more lanes than a workgroup may have", &program, &every, &shaped([2048, 1, 1]))?;
    bad("a program that is not valid", &invalid, &[], &plain)?;
    let groups_max = driver.max_compute_workgroups_per_dimension();
    if let Some(beyond) = groups_max.checked_add(1).filter(|beyond| *beyond < 1 << 29) {
        // A driver may do more than it says.
        let what = "more workgroups than published";
        match driver.dispatch(&program, &all, &gridded([beyond, 1, 1])) {
            Ok(outputs) => probe.outputs(what, Ok(outputs), &[words(&[3, 6, 9])])?,
            refused => probe.refused(what, refused, REFUSED)?,
        }
    }
    // An asynchronous form may return the error immediately or when awaited.
    let result = driver.dispatch_async(&program, &[], &plain).and_then(|pending| pending.await_result());
    probe.refused("no inputs, asynchronously", result, REFUSED)?;
    Ok(())
}

/// A workgroup override makes a new program; the old one stays what it was.
pub(super) fn workgroup_override(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let program = parse(
        "program @size workgroup(4, 1, 1) {
          buffer @y : read_write u32[] binding 0 output
          %i = global_id x
          %s = workgroup_size x
          store.u32 @y[%i], %s
        }",
    );
    for lanes in [4, 2, 4, 8, 1] {
        let config = DispatchConfig { workgroup_override: Some([lanes, 1, 1]), ..DispatchConfig::default() };
        let result = driver.dispatch(&program, &[words(&[0; 5])], &config);
        probe.outputs(&format!("workgroups of {lanes}"), result, &[words(&[lanes; 5])])?;
    }
    let result = driver.dispatch(&program, &[words(&[0; 5])], &DispatchConfig::default());
    probe.outputs("workgroups as declared", result, &[words(&[4; 5])])?;
    Ok(())
}

/// A trap is an error with its code, and does not affect later dispatches.
pub(super) fn traps(driver: &dyn VyreBackend, _: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let program = guard();
    let config = DispatchConfig::default();
    for (x, code) in [
        ([1, 2, 3], None),
        ([1, 0, 3], Some(7)),
        ([5, 6, 7], None),
        ([0, 9, 0], Some(7)),
        ([1, 9, 1], Some(9)),
    ] {
        let result = driver.dispatch(&program, &[words(&x), words(&[0; 3])], &config);
        match (result, code) {
            (result, None) => probe.outputs("a guard that lets through", result, &[words(&[1; 3])])?,
            (Err(BackendError::Trap { code, .. }), Some(wanted)) => {
                probe.holds(code == wanted, || format!("expected trap {wanted}, and trap {code} came"))?;
            }
            (other, Some(wanted)) => {
                return Err(problem(format!("expected trap {wanted}, and {other:?} came")));
            }
        }
    }
    Ok(())
}

/// Traps with 7 where an input is 0, and further down with 9 where it is 9.
pub(super) fn guard() -> Program {
    parse(
        "program @guard workgroup(2, 1, 1) {
          buffer @x : read       u32[] binding 0
          buffer @y : read_write u32[] binding 1 output
          %i = global_id x
          %n = len @x
          %live = lt.u32 %i, %n
          if %live {
            store.u32 @y[%i], 1
            %v = load.u32 @x[%i]
            %z = eq.u32 %v, 0
            if %z {
              trap 7
            }
            %m = eq.u32 %v, 9
            if %m {
              trap 9
            }
          }
        }",
    )
}

/// Ended by time or by the caller, a dispatch is an error or complete; it is never a part of a result.
pub(super) fn limits_of_time(driver: &dyn VyreBackend, plan: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    let program = parse(
        "program @busy workgroup(1, 1, 1) {
          buffer @n : read       u32[1] binding 0
          buffer @y : read_write u32[1] binding 1 output
          %n = load.u32 @n[0]
          var $a : u32 = 1
          for %i in 0..%n {
            %a = get.u32 $a
            %b = mul.u32 %a, 3
            %c = add.u32 %b, %i
            set.u32 $a, %c
            store.u32 @y[0], %c
          }
        }",
    );
    let busy = Sample::new(&program, None, &[words(&[plan.pick(300_000, 3_000_000)]), words(&[5])]);
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let timeout = |limit| DispatchConfig { timeout: Some(limit), ..DispatchConfig::default() };
    let rows = [
        ("no time at all", timeout(Duration::ZERO), ErrorCode::Timeout),
        ("a microsecond", timeout(Duration::from_micros(1)), ErrorCode::Timeout),
        ("more time than clocks count", timeout(Duration::MAX), ErrorCode::Timeout),
        (
            "a token cancelled before",
            DispatchConfig { cancel: Some(cancelled), ..DispatchConfig::default() },
            ErrorCode::Cancelled,
        ),
    ];
    for (what, config, code) in rows {
        let result = driver.dispatch(&busy.program, &busy.inputs, &config);
        match result {
            Err(_) if config.timeout == Some(Duration::MAX) => probe.outputs(what, result, &busy.outputs)?,
            Err(_) => probe.refused(what, result, &[code])?,
            Ok(_) => probe.outputs(what, result, &busy.outputs)?,
        }
    }
    let result = driver.dispatch(&busy.program, &busy.inputs, &DispatchConfig::default());
    probe.outputs("all the time it needs", result, &busy.outputs)?;
    Ok(())
}

/// Dispatches from many threads at once do not mix.
pub(super) fn threads(driver: &dyn VyreBackend, plan: &Plan<'_>) -> Check {
    let samples = samples(plan);
    let rounds = plan.pick(6, 40);
    let one = |thread: usize| -> Check {
        for round in 0..rounds {
            let sample = &samples[(thread * 5 + round * 3) % samples.len()];
            let mut inputs = sample.inputs.clone();
            let mut expected = &sample.outputs;
            let shifted;
            if sample.name() == "scale" {
                // Everyone has numbers of its own.
                inputs[1] = words(&[(thread * 1000 + round) as u32]);
                shifted = Sample::new(&sample.program, sample.grid, &inputs);
                expected = &shifted.outputs;
            }
            let mut probe = Probe::new(driver);
            let what = format!("thread {thread}, round {round}, @{}", sample.name());
            let result = driver.dispatch(&sample.program, &inputs, &sample.config());
            let checked = probe.outputs(&what, result, expected);
            checked.map_err(|problem| Problem { cause: Cause::ThreadSafety, ..problem })?;
        }
        Ok(())
    };
    let results: Vec<Check> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..8).map(|thread| scope.spawn(move || one(thread))).collect();
        let panicked =
            || Problem { cause: Cause::Panicked, message: "a dispatch panicked on its thread".into() };
        handles.into_iter().map(|handle| handle.join().unwrap_or_else(|_| Err(panicked()))).collect()
    });
    results.into_iter().collect()
}

/// A compiled pipeline gives what repeated dispatches give, for any inputs and grids.
pub(super) fn pipelines(driver: &dyn VyreBackend, plan: &Plan<'_>) -> Check {
    let mut probe = Probe::new(driver);
    for sample in samples(plan) {
        let (config, borrowed, name) = (sample.config(), sample.borrowed(), sample.name());
        let compiled = [
            driver.compile_native(&sample.program, &DispatchConfig::default()),
            driver.compile_native_shared(Arc::new(sample.program.clone()), &config),
        ];
        for compiled in compiled {
            // A backend without pipelines of its own gets one around `dispatch_borrowed`.
            let Some(pipeline) = probe.done(&format!("compiling @{name}"), compiled)? else { continue };
            let what = format!("the pipeline of @{name}");
            probe.holds(pipeline.is_valid(), || format!("{what} is not valid"))?;
            let same = pipeline.program().digest() == sample.program.digest();
            probe.holds(same, || format!("{what} came from another program"))?;
            for _ in 0..2 {
                probe.outputs(&what, pipeline.dispatch(&borrowed, &config), &sample.outputs)?;
            }
            let batch = pipeline.dispatch_batch(&[&borrowed, &borrowed, &borrowed], &config);
            let batch = probe.done(&what, batch)?;
            probe.holds(batch.len() == 3, || format!("{what}: {} results of a batch of 3", batch.len()))?;
            for outputs in batch {
                probe.outputs(&what, Ok(outputs), &sample.outputs)?;
            }
            let none = DispatchConfig { grid_override: Some([0, 1, 1]), ..DispatchConfig::default() };
            let untouched = Sample::new(&sample.program, none.grid_override, &sample.inputs);
            probe.outputs(&what, pipeline.dispatch(&borrowed, &none), &untouched.outputs)?;
            probe.refused(&what, pipeline.dispatch(&[], &config), REFUSED)?;
        }
    }
    Ok(())
}
