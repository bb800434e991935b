//! The conformance suite on this machine's device, the driver contract included.
//!
//! All of it, but of the random programs those of the quick suite: a software device compiles each for a second or more.
//! `VYRE_CONFORM=full` runs them too, `VYRE_CONFORM=PREFIX` the quick cases whose names begin so.

use std::process::Command;
use vyre_conform::{ConformanceSuite, Level};
use vyre_driver_wgpu::{MemoryChoice, ShaderChoice, WgpuConfig};

/// Runs a suite on the device, opened as it is by itself but for a change.
fn check_with(suite: &ConformanceSuite<'_>, change: impl FnOnce(WgpuConfig) -> WgpuConfig) {
    let backend = match WgpuConfig::from_env().and_then(|config| vyre_driver_wgpu::open(&change(config))) {
        Ok(backend) => backend,
        Err(error) => return eprintln!("SKIP the suite on wgpu: {error}"),
    };
    let report = suite.run_driver(&backend);
    let failures: Vec<String> = report.failures.iter().take(10).map(ToString::to_string).collect();
    let (cases, dispatches) = (report.cases(), report.dispatches());
    eprintln!("{cases} cases, {dispatches} dispatches, {:?}", report.elapsed);
    assert!(failures.is_empty(), "{} failures:\n{}", report.failures.len(), failures.join("\n\n"));
}

fn check(suite: &ConformanceSuite<'_>) {
    check_with(suite, |config| config);
}

#[test]
fn the_driver_contract_holds_where_memory_is_staged() {
    let staged = |config| WgpuConfig { memory: MemoryChoice::Staged, ..config };
    check_with(&ConformanceSuite::quick().matching("driver/"), staged);
}

#[test]
fn the_devices_own_floats_are_right_in_wgsl() {
    for prefix in ["op/f32/", "law/"] {
        let wgsl = |config| WgpuConfig { shaders: ShaderChoice::Wgsl, ..config };
        check_with(&ConformanceSuite::quick().matching(prefix), wgsl);
    }
}

/// Runs suites unless the run asks for other cases.
fn check_all<'a>(suites: impl IntoIterator<Item = ConformanceSuite<'a>>) {
    if std::env::var_os("VYRE_CONFORM").is_none() {
        suites.into_iter().for_each(|suite| check(&suite));
    }
}

// Side by side, because a software device compiles on one core.

#[test]
fn every_op_law_and_program_is_right() {
    check_all([ConformanceSuite::new().up_to(Level::Programs)]);
}

#[test]
fn every_function_trick_and_contract_is_right() {
    check_all(["math/", "cheat/", "driver/"].map(|prefix| ConformanceSuite::new().matching(prefix)));
}

/// Says to a process of [`random_programs_are_right`] which ones to run.
const SEED: &str = "VYRE_TEST_RANDOM_SEED";

/// In a process of its own, because a driver that crashes takes its process with it. Debian's LLVM 15 did so with one random
/// program in thousands, and not when it got the same one again (`docs/wgpu.md`): so a crash is told, and may not come back.
#[test]
fn random_programs_are_right() {
    let suite = ConformanceSuite::quick().matching("random/");
    if let Ok(seed) = std::env::var(SEED) {
        return check(&suite.nonce(*blake3::hash(seed.as_bytes()).as_bytes()));
    }
    if std::env::var_os("VYRE_CONFORM").is_some() {
        return;
    }
    let seed = format!("{:?} {}", std::time::SystemTime::now(), std::process::id());
    let run = || {
        let program = std::env::current_exe().expect("this test has a program");
        let mut child = Command::new(program);
        child.args(["random_programs_are_right", "--exact", "--nocapture"]).env(SEED, &seed);
        child.status().expect("a test can be started")
    };
    let mut ended = run();
    if ended.code().is_none() {
        eprintln!(
            "the driver crashed ({ended}) with the random programs of seed `{seed}`: they run once more"
        );
        ended = run();
    }
    assert!(ended.success(), "random programs of seed `{seed}`: {ended}");
}

#[test]
fn what_is_asked_for_is_right() {
    match std::env::var("VYRE_CONFORM").as_deref() {
        Ok("full") => check(&ConformanceSuite::new()),
        Ok(prefix) => check(&ConformanceSuite::quick().matching(prefix)),
        Err(_) => {}
    }
}
