//! A vendor's binary: this test links two backends of its own and is the `vyre` command with them, as `vyre_cli::main`
//! promises. One backend is right and one drops the last element of its outputs.

use libtest_mimic::{Arguments, Trial};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use vyre::driver::backend::private::Sealed;
use vyre::driver::{register_backend, registry};
use vyre::{BackendError, DispatchConfig, Program, VyreBackend};

/// Set for the process that is the command.
const AS_COMMAND: &str = "VYRE_TEST_AS_COMMAND";

fn main() -> ExitCode {
    if std::env::var_os(AS_COMMAND).is_some() {
        return vyre_cli::main();
    }
    let tests = vec![
        Trial::test("equal_bytes_are_said_to_be_equal", equal),
        Trial::test("the_first_differing_element_is_shown", different),
        Trial::test("a_missing_device_is_skipped_with_its_reason", missing),
        Trial::test("auto_takes_the_best_and_says_what_it_passed_over", auto),
        Trial::test("the_doctor_finds_the_wrong_backend", doctor),
        #[cfg(feature = "bench")]
        Trial::test("wrong_results_have_no_figures", bench),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// Asks the reference, and spoils its answer if it is the wrong one.
struct Vendor {
    id: &'static str,
    spoils: bool,
}

impl Sealed for Vendor {}

impl VyreBackend for Vendor {
    fn id(&self) -> &'static str {
        self.id
    }

    fn dispatch(
        &self,
        program: &Program,
        inputs: &[Vec<u8>],
        config: &DispatchConfig,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let mut outputs = registry::open("reference")?.dispatch(program, inputs, config)?;
        if self.spoils {
            for output in &mut outputs {
                let last = output.len().saturating_sub(4);
                output[last..].fill(0);
            }
        }
        Ok(outputs)
    }

    fn max_workgroup_size(&self) -> [u32; 3] {
        [256, 256, 64]
    }

    fn max_compute_workgroups_per_dimension(&self) -> u32 {
        65_535
    }
}

register_backend! {
    id: "vendor", precedence: 60, description: "gives the reference's bytes",
    open: || Ok(Arc::new(Vendor { id: "vendor", spoils: false })),
}
register_backend! {
    id: "wrong", precedence: 0, description: "forgets the last element",
    open: || Ok(Arc::new(Vendor { id: "wrong", spoils: true })),
}
register_backend! {
    id: "missing", precedence: 90, description: "has no device here",
    open: || Err(BackendError::Unavailable {
        backend: "missing".into(), reason: "no such device".into(), fix: "plug one in".into(),
    }),
}

/// The exit code and standard output of the command.
fn vyre(args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(std::env::current_exe().expect("this test's own path"));
    command.args(args).env(AS_COMMAND, "1").current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let output = command.output().expect("this test runs itself");
    (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
}

fn expect(args: &[&str], exit: i32, says: &[&str]) -> Result<(), libtest_mimic::Failed> {
    let (code, out) = vyre(args);
    let missing: Vec<&&str> = says.iter().filter(|text| !out.contains(**text)).collect();
    match code == Some(exit) && missing.is_empty() {
        true => Ok(()),
        false => Err(format!("exit {code:?}, lacks {missing:?}:\n{out}").into()),
    }
}

const SAXPY: &str = "examples/saxpy.vyre";

fn equal() -> Result<(), libtest_mimic::Failed> {
    let args = ["compare", SAXPY, "--backends", "reference,vendor"];
    expect(&args, 0, &["ok the same bytes on 2 backends", "374006dd741da831"])
}

fn different() -> Result<(), libtest_mimic::Failed> {
    let args = ["compare", SAXPY, "--backends", "reference,vendor,wrong"];
    let says = "`@y` differs first at element 2: 16.0 (0x41800000) on `reference`, 0.0 (0x00000000) on `wrong`; 1 elements differ";
    expect(&args, 1, &[says])
}

fn missing() -> Result<(), libtest_mimic::Failed> {
    expect(
        &["compare", SAXPY],
        1,
        &["SKIP missing: backend `missing` is not available: no such device", "Fix: plug one in"],
    )?;
    expect(&["compare", SAXPY, "--backends", "reference,missing"], 3, &["SKIP missing"])?;
    expect(&["devices"], 0, &["no such device. Fix: plug one in"])
}

fn auto() -> Result<(), libtest_mimic::Failed> {
    expect(&["run", SAXPY], 0, &["  vendor     374006dd741da831"])?;
    expect(&["run", SAXPY, "--json"], 0, &["backend `missing` is not available"])?;
    expect(&["run", SAXPY, "--backend", "missing"], 3, &[])?;
    // More workgroups than the vendor allows, so the processor runs it.
    let large = ["run", SAXPY, "--grid", "65536,1,1"];
    expect(&large, 0, &["  cpu  ", "passed over  vendor: the number of workgroups along x is 65536"])
}

fn doctor() -> Result<(), libtest_mimic::Failed> {
    let says = [
        "FAIL  backend wrong: the probe kernel gives other bytes than the reference",
        "none  backend missing",
    ];
    expect(&["doctor"], 1, &says)
}

#[cfg(feature = "bench")]
fn bench() -> Result<(), libtest_mimic::Failed> {
    let says = [
        "WRONG",
        "wrong saxpy 4099 on wrong host: at the tiny size, against the reference: word 4098 is 0x00000000 instead of",
        "note: backend `missing` is not available: no such device",
    ];
    expect(&["bench", "saxpy", "--quick"], 1, &says)?;
    expect(&["bench", "saxpy", "--quick", "--backend", "vendor"], 0, &["vendor host"])
}
