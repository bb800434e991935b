//! `vyre doctor`: tests what a run needs on this machine, and says how to fix what fails.

use crate::report::{BAD, FINDINGS, Failure, GOOD, OK, Report, paint};
use serde_json::json;
use vyre::driver::{ErrorCode, registry};
use vyre::host::{Error, Kernel};
use vyre::wgpu::{Adapter, Selection, WgpuConfig, adapters};

/// One thing tried.
struct Check {
    name: String,
    finding: Finding,
}

enum Finding {
    /// It works: what is known of it.
    Good(String),
    /// This machine has no such device: why, and what would change that.
    Absent(String, String),
    /// What is wrong, and how to fix it.
    Bad(String, String),
}

/// A kernel with what goes wrong first: rounding, subnormals, NaN bits, barriers, integer edge cases.
const PROBE: &str = include_str!("doctor.vyre");

pub(crate) fn run(report: &Report) -> Result<u8, Failure> {
    let mut checks = vec![cores(), scratch()];
    checks.extend(registry::registrations().iter().map(|registration| backend(registration.id)));
    checks.extend(other_adapters());
    let failed = checks.iter().filter(|check| matches!(check.finding, Finding::Bad(..))).count();
    report.json(|| {
        let all = checks.iter().map(|Check { name, finding }| match finding {
            Finding::Good(detail) => json!({ "check": name, "state": "ok", "detail": detail }),
            Finding::Absent(reason, fix) => {
                json!({ "check": name, "state": "absent", "problem": reason, "fix": fix })
            }
            Finding::Bad(problem, fix) => {
                json!({ "check": name, "state": "failed", "problem": problem, "fix": fix })
            }
        });
        json!({ "checks": all.collect::<Vec<_>>(), "failed": failed })
    });
    for Check { name, finding } in &checks {
        report.text(&match finding {
            Finding::Good(detail) => format!("  {}    {name}: {detail}\n", paint(GOOD, "ok")),
            Finding::Absent(reason, fix) => format!("  none  {name}: {reason}\n        Fix: {fix}\n"),
            Finding::Bad(problem, fix) => {
                format!("  {}  {name}: {problem}\n        Fix: {fix}\n", paint(BAD, "FAIL"))
            }
        });
    }
    Ok(if failed == 0 { OK } else { FINDINGS })
}

fn cores() -> Check {
    let finding = match std::thread::available_parallelism() {
        Ok(cores) => Finding::Good(format!("{cores} available")),
        Err(error) => Finding::Bad(
            format!("their number is not known: {error}"),
            "allow this process to ask for it".into(),
        ),
    };
    Check { name: "processor cores".into(), finding }
}

/// A place for traces and pipeline caches.
fn scratch() -> Check {
    let folder = std::env::temp_dir();
    let file = folder.join(format!("vyre-doctor-{}", std::process::id()));
    let written = std::fs::write(&file, b"vyre").and_then(|()| std::fs::remove_file(&file));
    let finding = match written {
        Ok(()) => Finding::Good(format!("{} can be written", folder.display())),
        Err(error) => Finding::Bad(
            format!("{} cannot be written: {error}", folder.display()),
            "set TMPDIR to a folder you may write to".into(),
        ),
    };
    Check { name: "temporary files".into(), finding }
}

/// Opens the devices of wgpu that the backend does not use.
fn other_adapters() -> Vec<Check> {
    let (Ok(config), Ok(used)) = (WgpuConfig::from_env(), registry::open("wgpu")) else { return Vec::new() };
    let others = adapters().into_iter().enumerate().filter(|(_, one)| one.name != used.device_name());
    let check = |(number, adapter): (usize, Adapter)| {
        let opened = vyre::wgpu::open(&WgpuConfig { adapter: Selection::Number(number), ..config.clone() });
        let finding = match opened.map_err(Error::from) {
            Ok(_) => Finding::Good(format!("{adapter}, opens and computes right")),
            Err(error) => Finding::Absent(error.message, error.fix),
        };
        Check { name: format!("wgpu device {number}"), finding }
    };
    others.map(check).collect()
}

/// Opens a backend and compares its bytes for the probe with those of the reference.
fn backend(id: &'static str) -> Check {
    let name = format!("backend {id}");
    let opened = match registry::open(id) {
        Ok(opened) => opened,
        Err(error) => {
            let make = if error.code() == ErrorCode::Unavailable { Finding::Absent } else { Finding::Bad };
            let error = Error::from(error);
            return Check { name, finding: make(error.message, error.fix) };
        }
    };
    let probe = || {
        let kernel = Kernel::parse(PROBE)?;
        let expected = kernel.launch().check(true).run()?;
        let actual = kernel.launch().backend(id).run()?;
        let equal = expected.outputs().map(|(_, bytes)| bytes).eq(actual.outputs().map(|(_, bytes)| bytes));
        let driver = Some(opened.driver_name()).filter(|driver| *driver != "none");
        let about = [Some(opened.device_name()), driver].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let note = |wanted| opened.notes().into_iter().find(|(name, _)| *name == wanted);
        let said = ["floats", "memory"].into_iter().filter_map(note);
        let said: String = said.map(|(name, text)| format!(", {name}: {text}")).collect();
        let rejected = note("rejected").map(|(_, text)| text).unwrap_or_default();
        let rejected: String = rejected.lines().map(|why| format!("\n        not taken: {why}")).collect();
        Ok::<_, Error>((format!("version {} on {about}{said}", opened.version()), rejected, equal))
    };
    let finding = match probe() {
        Ok((about, rejected, true)) => {
            Finding::Good(format!("{about}, gives the reference's bytes for the probe kernel{rejected}"))
        }
        Ok((.., false)) => Finding::Bad(
            "the probe kernel gives other bytes than the reference".into(),
            format!(
                "do not use it; run `vyre compare` with a small kernel and report what differs on `{id}`"
            ),
        ),
        Err(error) => Finding::Bad(error.message, error.fix),
    };
    Check { name, finding }
}
