//! `.version` and `.target`, as `ptxas` checks them.

use super::refusal;
use crate::alu::Target;
use crate::fault::{Code, Fault};
use crate::model::Model;
use crate::ptx::{Error, Module};

/// The newest `.version` that the emulated driver's compiler knows, as major * 10 + minor.
const VERSION_MAX: u32 = 90;

/// The least `.version` that knows a target.
const TARGETS: [(u32, u32); 21] = [
    (50, 40),
    (52, 41),
    (53, 42),
    (60, 50),
    (61, 50),
    (62, 50),
    (70, 60),
    (72, 61),
    (75, 63),
    (80, 70),
    (86, 71),
    (87, 74),
    (88, 90),
    (89, 78),
    (90, 78),
    (100, 86),
    (101, 86),
    (103, 88),
    (110, 90),
    (120, 87),
    (121, 88),
];

/// The least `.version` that knows the architecture-specific form: `sm_90a`.
const SPECIFIC: [(u32, u32); 7] =
    [(90, 80), (100, 86), (101, 86), (103, 88), (110, 90), (120, 87), (121, 88)];

/// What the module is for, if the device can run it.
pub(super) fn check(module: &Module, model: &Model) -> Result<Target, Fault> {
    let refused = |code, message: String| refusal(code, &Error { line: 0, message });
    let (major, minor) = module.version;
    let version = major * 10 + minor;
    if minor > 9 || version > VERSION_MAX {
        let (most, least) = (VERSION_MAX / 10, VERSION_MAX % 10);
        let message = format!("Unsupported .version {major}.{minor}; current version is '{most}.{least}'");
        return Err(refused(Code::UnsupportedPtxVersion, message));
    }
    let [name] = module.target.as_slice() else {
        return Err(refused(
            Code::InvalidPtx,
            "this emulator supports a .target of one architecture alone".into(),
        ));
    };
    let digits = name.strip_prefix("sm_").unwrap_or_default();
    let specific = digits.ends_with('a');
    let number = digits.strip_suffix('a').unwrap_or(digits).parse().unwrap_or(0);
    let table: &[(u32, u32)] = if specific { &SPECIFIC } else { &TARGETS };
    let Some((sm, least)) = table.iter().find(|(sm, _)| *sm == number) else {
        return Err(refused(Code::InvalidPtx, format!("Unknown target '{name}'")));
    };
    if version < *least {
        let message = format!("PTX .version {major}.{minor} does not support .target {name}");
        return Err(refused(Code::InvalidPtx, message));
    }
    if *sm > model.sm || specific && *sm != model.sm {
        let message = format!("the device is sm_{}, and the program is for {name}", model.sm);
        return Err(refused(Code::NoBinaryForGpu, message));
    }
    Ok(Target { version, sm: *sm, specific })
}
