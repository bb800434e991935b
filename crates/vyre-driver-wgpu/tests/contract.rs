//! The driver contract on a device, and what is this backend's own in it: kernels that hang and cannot be stopped, memory that
//! the host maps and memory that is staged, shaders in WGSL, several devices in one process.

use std::time::{Duration, Instant};
use vyre_driver::{DispatchConfig, ErrorCode, VyreBackend};
use vyre_driver_wgpu::{
    Adapter, MemoryChoice, Selection, ShaderChoice, WgpuBackend, WgpuConfig, adapters, open,
};
use vyre_testkit::contract::{self, Subject, churn, code, increment, words};

/// A device, or word that there is none.
fn backend(test: &str) -> Option<WgpuBackend> {
    match WgpuConfig::from_env().and_then(|config| open(&config)) {
        Ok(backend) => Some(backend),
        Err(error) => {
            eprintln!("SKIP {test} on wgpu: {error}");
            None
        }
    }
}

/// The device with its memory as it is by itself, and staged: where the tests run that all backends share.
fn subjects(test: &str) -> Vec<Subject> {
    both(test).into_iter().map(|backend| Subject::new(backend, WgpuBackend::lose_device)).collect()
}

vyre_testkit::contract_tests!(subjects, blocks_that_nest_deep_are_right_or_refused);

#[test]
fn a_forked_child_gets_an_error() {
    if contract::in_own_process("a_forked_child_gets_an_error", &[], contract::LIMIT) {
        subjects("a fork").iter().for_each(contract::a_forked_child_gets_an_error);
    }
}

/// The device with its memory as it is by itself, and staged.
fn both(test: &str) -> Vec<WgpuBackend> {
    let staged = WgpuConfig::from_env().map(|config| WgpuConfig { memory: MemoryChoice::Staged, ..config });
    let staged = || staged.and_then(|config| open(&config)).expect("it opened before");
    backend(test).map(|first| vec![first, staged()]).unwrap_or_default()
}

#[test]
fn a_kernel_that_hangs_ends_at_its_timeout_and_a_fresh_device_goes_on() {
    let Some(backend) = backend("a hang") else { return };
    let endless = churn("%n", "%n");
    let input = words(0..64);
    let pipeline = backend.compile_native(&increment(), &DispatchConfig::default()).expect("it compiles");
    let pipeline = pipeline.expect("there is something to keep");
    assert_eq!(pipeline.dispatch(&[&input], &DispatchConfig::default()).expect("it runs"), [words(1..65)]);
    // Compiled before, so that it is the kernel that takes the time.
    let config = DispatchConfig { timeout: Some(Duration::from_secs(1)), ..DispatchConfig::default() };
    backend.compile_native(&endless, &config).expect("it compiles");
    let start = Instant::now();
    assert_eq!(code(backend.dispatch(&endless, &[], &config)), ErrorCode::Timeout);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(backend.device_lost());
    assert_eq!(code(backend.dispatch_borrowed(&increment(), &[&input], &config)), ErrorCode::DeviceLost);
    backend.try_recover().expect("a fresh device opens beside the one that hangs");
    assert_eq!(
        code(pipeline.dispatch(&[&input], &DispatchConfig::default())),
        ErrorCode::PipelineInvalidated
    );
    let again = backend.dispatch(&increment(), &[input], &DispatchConfig::default()).expect("it runs");
    assert_eq!(again, [words(1..65)]);
}

#[test]
fn how_memory_is_reached_is_said() {
    let said = |backend: &WgpuBackend| {
        let note = backend.notes().into_iter().find(|(name, _)| *name == "memory");
        note.expect("it is said").1
    };
    let [first, staged] = &both("memory")[..] else { return };
    assert_eq!(said(staged), "staged: that is asked for");
    // A processor has no other memory than the host's.
    let is_software = |adapter: &Adapter| adapter.is_software && adapter.name == first.device_name();
    let is_free = WgpuConfig::from_env().is_ok_and(|config| config.memory == MemoryChoice::Fastest);
    match is_free && adapters().iter().any(is_software) {
        true => assert_eq!(said(first), "mapped by the host"),
        false => eprintln!("SKIP mapped memory on wgpu: it is {}", said(first)),
    }
}

/// A device that compiles WGSL, which has limits of its own.
fn wgsl(test: &str) -> Option<Subject> {
    backend(test)?;
    let config = WgpuConfig::from_env().map(|config| WgpuConfig { shaders: ShaderChoice::Wgsl, ..config });
    let backend = config.and_then(|config| open(&config)).expect("it opened before");
    Some(Subject::new(backend, WgpuBackend::lose_device))
}

#[test]
fn all_of_the_workgroup_memory_can_be_had_in_wgsl() {
    wgsl("workgroup memory in WGSL").iter().for_each(contract::all_of_the_workgroup_memory_can_be_had);
}

#[test]
fn blocks_that_nest_deep_are_right_or_refused_in_wgsl() {
    wgsl("nested blocks in WGSL").iter().for_each(contract::blocks_that_nest_deep_are_right_or_refused);
}

#[test]
fn devices_live_side_by_side() {
    let all = adapters();
    if all.is_empty() {
        return eprintln!("SKIP several devices on wgpu: there is none");
    }
    // Every device of the machine, and the first twice.
    let numbers = (0..all.len()).chain([0]);
    let Ok(WgpuConfig { cache, .. }) = WgpuConfig::from_env() else {
        return eprintln!("SKIP several devices on wgpu: VYRE_WGPU_ADAPTER is `none`");
    };
    let config = |number| WgpuConfig {
        adapter: Selection::Number(number),
        cache: cache.clone(),
        ..WgpuConfig::default()
    };
    let opened: Vec<_> = numbers.map(|number| open(&config(number))).collect();
    for (at, backend) in opened.iter().enumerate() {
        let Ok(backend) = backend else {
            eprintln!("SKIP device {at} on wgpu: {}", backend.as_ref().err().expect("it failed"));
            continue;
        };
        let found = backend.dispatch(&increment(), &[words([at as u32])], &DispatchConfig::default());
        assert_eq!(found.expect("it runs"), [words([at as u32 + 1])]);
    }
    if let [Ok(first), .., Ok(last)] = &opened[..] {
        let resource = first.allocate_resident(4).expect("it fits");
        assert_eq!(code(last.download_resident(&resource)), ErrorCode::BadHandle);
    }
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let config = |adapter| WgpuConfig { adapter, ..WgpuConfig::default() };
    for adapter in [Selection::Number(1000), Selection::Name("no such device".into())] {
        let Err(error) = open(&config(adapter)) else { panic!("it opened") };
        assert_eq!(error.code(), ErrorCode::Unavailable);
        assert!(error.to_string().contains("Fix:"), "{error}");
    }
}
