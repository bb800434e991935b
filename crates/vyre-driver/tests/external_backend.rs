//! The example backend outside the workspace builds and runs with nothing but what it declares.
//!
//! It has its own target folder, so that the cargo that runs this test and the one it starts do not wait for each other.

use std::path::Path;
use std::process::Command;

#[test]
fn the_example_outside_the_workspace_builds_and_runs() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/external-backend/Cargo.toml");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("external-backend");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(&manifest);
    command.arg("--target-dir").arg(&target);
    let ran = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIP the_example_outside_the_workspace_builds_and_runs: cargo is not on this machine");
            return;
        }
        ran => ran.unwrap(),
    };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(
        ran.status.success(),
        "{err}\nFix: if the lock file is out of date, run `cargo update --workspace --manifest-path \
         examples/external-backend/Cargo.toml` and commit its Cargo.lock"
    );
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert_eq!(lines[0], "double on `example`: [2, 4, 6]");
    let refusal = "the number of workgroups along x is 65536, and backend `example` allows 65535. Fix: ";
    assert!(lines[1].starts_with(refusal), "{out}");
}
