//! The conformance suite on a device, and random programs by seed.
//!
//! The quick suite runs as a whole on the device that the environment chooses, and all but its random programs on emulated
//! devices whose PTX differs. `VYRE_CONFORM=full` runs the full suite instead, `VYRE_CONFORM=PREFIX` the quick cases whose names
//! begin so, and `VYRE_CONFORM=models` the quick suite on every model that can be emulated. `VYRE_CASES` and `VYRE_SEED` say how
//! many random programs run and where they start, and `VYRE_SECONDS` for how long at most.

mod common;

use common::{backend, on_emulated_within};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vyre_conform::{ConformanceSuite, Level, Report, check_random};
use vyre_driver::VyreBackend;
use vyre_generate::Config;
use vyre_testkit::contract::{LIMIT, in_own_process};

/// For runs that are asked for.
const HOURS: Duration = Duration::from_secs(4 * 3600);

/// Runs a suite in parts, each on a thread and a context of its own, up to its first failure; `vyre certify` has all of them.
fn check(test: &str, suite: impl Fn() -> ConformanceSuite<'static> + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(8)) as u32;
    let part = |at| {
        let backend = backend(test)?;
        Some(suite().stop_at_first_failure().shard(at, threads).run_driver(&backend))
    };
    let reports: Vec<_> = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|at| scope.spawn(move || part(at))).collect();
        parts.into_iter().filter_map(|part| part.join().expect("no part panics")).collect()
    });
    let failures: Vec<_> = reports.iter().flat_map(|report| &report.failures).collect();
    let sum = |count: fn(&Report) -> u64| reports.iter().map(count).sum::<u64>();
    let longest = reports.iter().map(|report| report.elapsed).max().unwrap_or_default();
    eprintln!(
        "{test}: {} cases, {} dispatches, {longest:?}",
        sum(|one| one.cases()),
        sum(|one| one.dispatches())
    );
    let texts: Vec<String> = failures.iter().take(10).map(ToString::to_string).collect();
    assert!(texts.is_empty(), "{test}: {} failures:\n{}", failures.len(), texts.join("\n\n"));
}

/// What the run asks for in place of the usual cases.
fn asked() -> Option<String> {
    std::env::var("VYRE_CONFORM").ok()
}

#[test]
fn the_quick_suite_is_right() {
    if asked().is_none() {
        check("the_quick_suite_is_right", ConformanceSuite::quick);
    }
}

#[test]
fn what_is_asked_for_is_right() {
    match asked().as_deref() {
        None | Some("models") => {}
        Some("full") => check("the full suite", ConformanceSuite::new),
        Some(prefix) => check(prefix, || ConformanceSuite::quick().matching(prefix)),
    }
}

/// Runs what differs between models on one: ops, laws, programs and functions, or the quick suite if models are asked for.
fn check_model(test: &str, model: &str) {
    let (all, limit) = match asked().as_deref() {
        None => (false, LIMIT),
        Some("models") => (true, HOURS),
        Some(_) => return,
    };
    if on_emulated_within(test, model, "", limit) {
        if all {
            return check(model, ConformanceSuite::quick);
        }
        check(model, || ConformanceSuite::quick().up_to(Level::Programs));
        check(model, || ConformanceSuite::quick().matching("math/"));
    }
}

#[test]
fn ops_laws_programs_and_functions_are_right_on_sm_70() {
    check_model("ops_laws_programs_and_functions_are_right_on_sm_70", "sm_70");
}

#[test]
fn ops_laws_programs_and_functions_are_right_on_sm_80() {
    check_model("ops_laws_programs_and_functions_are_right_on_sm_80", "sm_80");
}

#[test]
fn ops_laws_programs_and_functions_are_right_on_sm_120() {
    check_model("ops_laws_programs_and_functions_are_right_on_sm_120", "sm_120");
}

/// Models whose PTX is that of one above but for its target. They run if models are asked for.
fn check_further_model(test: &str, model: &str) {
    if asked().as_deref() == Some("models") {
        check_model(test, model);
    }
}

#[test]
fn the_quick_suite_is_right_on_sm_75() {
    check_further_model("the_quick_suite_is_right_on_sm_75", "sm_75");
}

#[test]
fn the_quick_suite_is_right_on_sm_86() {
    check_further_model("the_quick_suite_is_right_on_sm_86", "sm_86");
}

#[test]
fn the_quick_suite_is_right_on_sm_89() {
    check_further_model("the_quick_suite_is_right_on_sm_89", "sm_89");
}

#[test]
fn the_quick_suite_is_right_on_sm_90() {
    check_further_model("the_quick_suite_is_right_on_sm_90", "sm_90");
}

#[test]
fn the_quick_suite_is_right_on_sm_100() {
    check_further_model("the_quick_suite_is_right_on_sm_100", "sm_100");
}

/// Every third program is short and its lanes never meet: such ones may share threads.
fn config(seed: u64) -> Config {
    let meets = !seed.is_multiple_of(3);
    Config {
        lines: if meets { 40 } else { 8 },
        barriers: meets,
        grid_barriers: meets,
        subgroups: meets,
        mma: meets,
        collectives: meets,
        math: seed.is_multiple_of(5),
        traps: seed.is_multiple_of(8),
        ..Config::default()
    }
}

/// Groups whose lanes share memory, and random programs: the emulated device looks for accesses that nothing orders. Bytes alone
/// would not show a fence that is missing.
#[test]
fn lanes_share_memory_in_order() {
    let test = "lanes_share_memory_in_order";
    let Some(backend) = backend(test) else { return };
    if asked().is_some() {
        return;
    }
    if !backend.device_name().starts_with("vyre emulated") {
        return eprintln!("SKIP {test} on cuda: {} is not emulated", backend.device_name());
    }
    if in_own_process(test, &[("VYRE_EMULATED_CHECKS", "races")], LIMIT) {
        for group in ["barrier/", "grid/", "tile/", "subgroup/", "memory/", "atomic/", "output/"] {
            check(group, || ConformanceSuite::quick().matching(group));
        }
        let report = check_random(&backend, 0..60, LIMIT, config);
        assert!(report.wrong == 0 && !report.device_lost, "{report}");
    }
}

/// In a process of its own, because a compiler that crashes takes its process with it: the seeds are printed before.
#[test]
fn random_programs_are_right() {
    let test = "random_programs_are_right";
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if asked().is_some() || backend(test).is_none() {
        return;
    }
    // Others each time, far apart, and small enough to be typed.
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    let first = number("VYRE_SEED").unwrap_or(clock.as_secs() % 1_000_000 * 1_000_000);
    let limit = Duration::from_secs(number("VYRE_SECONDS").unwrap_or(30));
    if in_own_process(test, &[("VYRE_SEED", &first.to_string())], limit + LIMIT) {
        let count = number("VYRE_CASES").unwrap_or(200);
        eprintln!("random programs of VYRE_SEED={first} VYRE_CASES={count}");
        let Some(backend) = backend(test) else { return };
        let report = check_random(&backend, first..first + count, limit, config);
        eprintln!("{report}");
        assert!(report.wrong == 0 && !report.device_lost, "VYRE_SEED={first}: {report}");
    }
}
