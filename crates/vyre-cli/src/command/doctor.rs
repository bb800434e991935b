//! `vyre doctor`: tries what a run needs on this machine, and says how to mend what fails.

use crate::report::{BAD, FINDINGS, Failure, GOOD, OK, Report, paint};
use serde_json::json;
use vyre::driver::registry;
use vyre::host::Kernel;

/// One thing tried.
struct Check {
    name: String,
    result: Result<String, (String, String)>,
}

/// A kernel with what goes wrong first: rounding, subnormals, NaN bits, barriers, integer edge cases.
const PROBE: &str = include_str!("doctor.vyre");

pub(crate) fn run(report: &Report) -> Result<u8, Failure> {
    let mut checks = vec![cores(), scratch()];
    checks.extend(registry::registrations().iter().map(|registration| backend(registration.id)));
    let failed = checks.iter().filter(|check| check.result.is_err()).count();
    report.json(|| {
        let all = checks.iter().map(|check| match &check.result {
            Ok(detail) => json!({ "check": check.name, "ok": true, "detail": detail }),
            Err((problem, fix)) => {
                json!({ "check": check.name, "ok": false, "problem": problem, "fix": fix })
            }
        });
        json!({ "checks": all.collect::<Vec<_>>(), "failed": failed })
    });
    for check in &checks {
        report.text(&match &check.result {
            Ok(detail) => format!("  {}    {}: {detail}\n", paint(GOOD, "ok"), check.name),
            Err((problem, fix)) => {
                format!("  {}  {}: {problem}\n        Fix: {fix}\n", paint(BAD, "FAIL"), check.name)
            }
        });
    }
    Ok(if failed == 0 { OK } else { FINDINGS })
}

fn cores() -> Check {
    let result = match std::thread::available_parallelism() {
        Ok(cores) => Ok(format!("{cores} available")),
        Err(error) => {
            Err((format!("their number is not known: {error}"), "allow this process to ask for it".into()))
        }
    };
    Check { name: "processor cores".into(), result }
}

/// A place for traces and pipeline caches.
fn scratch() -> Check {
    let folder = std::env::temp_dir();
    let file = folder.join(format!("vyre-doctor-{}", std::process::id()));
    let written = std::fs::write(&file, b"vyre").and_then(|()| std::fs::remove_file(&file));
    let result = match written {
        Ok(()) => Ok(format!("{} can be written", folder.display())),
        Err(error) => Err((
            format!("{} cannot be written: {error}", folder.display()),
            "set TMPDIR to a folder you may write to".into(),
        )),
    };
    Check { name: "temporary files".into(), result }
}

/// Opens a backend and compares its bytes for the probe with those of the reference.
fn backend(id: &'static str) -> Check {
    let probe = || {
        let opened = registry::open(id)?;
        let kernel = Kernel::parse(PROBE)?;
        let expected = kernel.launch().check(true).run()?;
        let actual = kernel.launch().backend(id).run()?;
        let equal = expected.outputs().map(|(_, bytes)| bytes).eq(actual.outputs().map(|(_, bytes)| bytes));
        let driver = Some(opened.driver_name()).filter(|driver| *driver != "none");
        let about = [Some(opened.device_name()), driver].into_iter().flatten().collect::<Vec<_>>().join(", ");
        Ok::<_, vyre::host::Error>((format!("version {} on {about}", opened.version()), equal))
    };
    let result = match probe() {
        Ok((about, true)) => Ok(format!("{about}, gives the reference's bytes for the probe kernel")),
        Ok((_, false)) => Err((
            "the probe kernel gives other bytes than the reference".into(),
            format!(
                "do not use it; run `vyre compare` with a small kernel and report what differs on `{id}`"
            ),
        )),
        Err(error) => Err((error.message, error.fix)),
    };
    Check { name: format!("backend {id}"), result }
}
