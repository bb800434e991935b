//! Where the tests of this backend find devices: whatever `libcuda` the loader finds. On a machine without hardware that is the
//! emulator, which `scripts/emulated-cuda cargo test -p vyre-driver-cuda` puts on the loader's path. Without either every test
//! prints `SKIP` and why.
#![allow(dead_code)] // No test program uses all of it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use vyre_driver::{BackendError, VyreBackend};
use vyre_driver_cuda::{CudaBackend, CudaConfig};
use vyre_testkit::contract::{LIMIT, Subject, in_own_process, is_own_process};

/// The device that the environment chooses, with nothing kept on disk: what an earlier build compiled is not what is tested.
fn config() -> Result<CudaConfig, BackendError> {
    CudaConfig::from_env().map(|config| CudaConfig { cache: None, ..config })
}

/// A device, or a line that says why there is none.
pub(crate) fn backend(test: &str) -> Option<CudaBackend> {
    match config().and_then(|config| vyre_driver_cuda::open(&config)) {
        Ok(backend) => Some(backend),
        Err(error) => {
            // Where devices are emulated there is one, or something is wrong.
            assert!(std::env::var_os("VYRE_DEVICE_EXPECTED").is_none(), "{test}: {error}");
            eprintln!("SKIP {test} on cuda: {error}");
            None
        }
    }
}

/// Where the tests run that all backends share.
pub(crate) fn subjects(test: &str) -> Vec<Subject> {
    backend(test).into_iter().map(subject).collect()
}

pub(crate) fn subject(backend: CudaBackend) -> Subject {
    Subject::new(backend, CudaBackend::lose_device)
}

/// The device of [`backend`], with kernels kept in that folder.
pub(crate) fn with_cache(dir: &Path) -> CudaBackend {
    let config = config().map(|config| CudaConfig { cache: Some(dir.into()), ..config });
    config.and_then(|config| vyre_driver_cuda::open(&config)).expect("it opened before")
}

/// A device by its number.
pub(crate) fn numbered(ordinal: u32) -> Result<CudaBackend, BackendError> {
    vyre_driver_cuda::open(&CudaConfig { ordinal, cache: None })
}

/// Whether the calling test is in a process of its own in which these devices are emulated and meet these faults, one a line. In
/// the process that started it, that one has passed, or the devices are no emulated ones and a line says so.
pub(crate) fn on_emulated(test: &str, devices: &str, faults: &str) -> bool {
    on_emulated_within(test, devices, faults, LIMIT)
}

/// [`on_emulated`] for tests that take long.
pub(crate) fn on_emulated_within(test: &str, devices: &str, faults: &str, limit: Duration) -> bool {
    // The process of the test's own has the devices that were asked for, or the test fails.
    if is_own_process(test) {
        return true;
    }
    let Some(backend) = backend(test) else { return false };
    if !backend.device_name().starts_with("vyre emulated") {
        eprintln!("SKIP {test} on cuda: {} is not emulated", backend.device_name());
        return false;
    }
    let mut variables = vec![("VYRE_EMULATED_DEVICES", devices), ("VYRE_CUDA_DEVICE", "0")];
    if faults.is_empty() {
        return in_own_process(test, &variables, limit);
    }
    // The child is given the file by name, and finds it there: only the process that wrote it removes it.
    let file = scratch(test);
    std::fs::write(&file, faults).expect("the temporary folder can be written");
    variables.push(("VYRE_EMULATED_FAULTS", file.to_str().expect("the temporary folder's name is text")));
    let alone = in_own_process(test, &variables, limit);
    let _ = std::fs::remove_file(&file);
    alone
}

/// A path of this process and test alone.
pub(crate) fn scratch(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("vyre-cuda-{test}-{}", std::process::id()))
}
