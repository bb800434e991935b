//! Bad input never panics: each kind gives a clear error with a fix, soon and in little memory.
//!
//! The command runs as a user runs it, under a limit on its address space and on its time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A run of the command on input that is wrong.
struct Case<'c> {
    /// What is wrong, also the file's name.
    name: &'c str,
    /// The program.
    source: String,
    /// The subcommand, then what follows the file.
    command: &'c str,
    arguments: &'c [&'c str],
    exit_code: i32,
    /// What the error says.
    says: &'c [&'c str],
}

/// Far more than an unoptimised build needs for any of these, far less than any buffer they ask for.
const MEMORY_KIB_MAX: u64 = 1 << 20;
const TIME_MAX: Duration = Duration::from_secs(20);

const OK: i32 = 0;
const FINDINGS: i32 = 1;
const USAGE: i32 = 2;
const FAILED: i32 = 3;
const FILES: i32 = 4;

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bad_input").join(name);
    fs::create_dir_all(&folder).expect("the build's own folder can be written");
    folder
}

/// Runs the command in `folder` under the limits; its exit code and all it prints.
fn run(folder: &Path, command: &str, arguments: &[&str]) -> (Option<i32>, String) {
    // The shell sets the limit, because doing so from here would need unsafe code.
    let script = format!("ulimit -v {MEMORY_KIB_MAX} 2>/dev/null; exec \"$0\" \"$@\"");
    // Files, unlike pipes, never fill up.
    let printed = [folder.join("stdout"), folder.join("stderr")];
    let [stdout, stderr] = printed.each_ref().map(|path| File::create(path).expect("a writable folder"));
    let mut child = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_vyre"), command])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .expect("a shell runs");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child can be asked") {
            break status;
        }
        if start.elapsed() > TIME_MAX {
            child.kill().expect("the child can be ended");
            panic!("`vyre {command} {arguments:?}` is not done after {TIME_MAX:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text: String =
        printed.iter().map(|path| fs::read_to_string(path).expect("it prints UTF-8")).collect();
    (status.code(), text)
}

fn check(case: &Case<'_>) {
    let folder = folder(case.name);
    fs::write(folder.join("k.vyre"), &case.source).expect("a writable folder");
    let arguments: Vec<&str> = ["k.vyre"].iter().chain(case.arguments).copied().collect();
    let (exit_code, text) = run(&folder, case.command, &arguments);
    let start: String = text.chars().take(2000).collect();
    let shown = format!("{} ({} {arguments:?}):\n{start}", case.name, case.command);
    assert_eq!(exit_code, Some(case.exit_code), "{shown}");
    assert!(!text.contains("panicked"), "{shown}");
    assert!(case.exit_code == OK || text.contains("Fix:"), "no fix in {shown}");
    for says in case.says {
        assert!(text.contains(says), "`{says}` is missing in {shown}");
    }
}

/// A file that is no valid program, whatever is done with it.
fn check_file(name: &str, source: &str, says: &[&str]) {
    for command in ["check", "run", "opt"] {
        let source = source.to_owned();
        check(&Case { name, source, command, arguments: &[], exit_code: FINDINGS, says });
    }
}

fn program(lines: &str) -> String {
    format!("program @k workgroup(64, 1, 1) {{\n{lines}}}\n")
}

#[test]
fn an_empty_file() {
    check_file("empty", "", &["error[P002]", "no program"]);
    check_file("blank", "\n \n// nothing\n", &["error[P002]"]);
}

#[test]
fn ten_megabytes_of_one_token() {
    check_file("letters", &"a".repeat(10_000_000), &["error[P002]"]);
    check_file("words", &"add ".repeat(2_500_000), &["error[P002]"]);
    check_file("open_braces", &"{".repeat(10_000_000), &["error[P002]"]);
    check_file("digits", &program(&format!("  %a = add.u32 {}, 1\n", "9".repeat(10_000_000))), &["error[P"]);
    check_file("name", &program(&format!("  %{} = global_id x\n", "n".repeat(10_000_000))), &["error[P"]);
    check_file("commas", &program(&format!("  %a = add.u32 {}\n", ",".repeat(10_000_000))), &["error[P"]);
    check_file("zero_bytes", &"\0".repeat(10_000_000), &["error[P"]);
}

#[test]
fn a_hundred_thousand_nested_blocks() {
    let (open, close) = ("if true {\n".repeat(100_000), "}\n".repeat(100_000));
    check_file("nested", &program(&format!("{open}{close}")), &["error[P019]", "128"]);
    check_file("never_closed", &program(&open), &["error[P018]"]);
    check_file("never_opened", &program(&close), &["error[P"]);
    let loops = "for %i in 0..2 {\n".repeat(100_000);
    check_file("nested_loops", &program(&format!("{loops}{close}")), &["error[P019]"]);
}

#[test]
fn four_billion_elements() {
    let storage =
        program("  buffer @y : read_write u32[4294967295] binding 0 output\n\n  store.u32 @y[0], 1\n");
    let case = |name, source, command, exit_code, says| Case {
        name,
        source,
        command,
        arguments: &[],
        exit_code,
        says,
    };
    // The declaration is valid; a device with that memory may run it.
    check(&case("huge_buffer_checked", storage.clone(), "check", OK, &["ok"]));
    check(&case("huge_buffer_run", storage, "run", USAGE, &["4294967295 elements", "limit"]));
    let more = program("  buffer @y : read_write u32[4294967296] binding 0 output\n");
    check_file("more_than_u32", &more, &["error[P013]", "4294967296"]);
    check_file(
        "huge_workgroup",
        &program("  buffer @w : workgroup u32[4294967295]\n"),
        &["error[V008]", "262144"],
    );
    check_file("huge_private", &program("  var $a : u32[4294967295] = 0\n"), &["error[V010]", "65536"]);
    check_file("huge_table", &program("  const @t : u32[4294967295] = [1]\n"), &["error[P"]);
}

#[test]
fn wrong_bindings() {
    let two = "  buffer @x : read u32[] binding 3\n  buffer @y : read_write u32[] binding 3 output\n";
    check_file("binding_twice", &program(two), &["error[V003]", "@x", "@y"]);
    let high = program("  buffer @y : read_write u32[] binding 4000000000 output\n");
    check_file("binding_too_high", &high, &["error[V004]", "255"]);
    let missing = program("  buffer @y : read_write u32[] output\n");
    check_file("binding_missing", &missing, &["error[P"]);
}

const COPY: &str = "  buffer @x : read f32[4] binding 0
  buffer @y : read_write f32[] binding 1 output

  %i = global_id x
  %v = load.f32 @x[%i]
  store.f32 @y[%i], %v
";

#[test]
fn missing_short_and_malformed_inputs() {
    fs::write(folder("inputs").join("three.bin"), "abc").expect("the build's own folder can be written");
    let cases: [(i32, &[&str], &[&str]); 22] = [
        (USAGE, &[], &["@x", "no input"]),
        (USAGE, &["--size", "y=4"], &["@x", "no input"]),
        (USAGE, &["--in", "x=[0.0; 4]"], &["@y", "--size y="]),
        (USAGE, &["--in", "x=[1.0]", "--size", "y=4"], &["@x", "f32[4]", "1 element"]),
        (USAGE, &["--in", "x=[0.0; 5]", "--size", "y=4"], &["@x", "5 elements"]),
        (USAGE, &["--in", "x=@three.bin", "--size", "y=4"], &["@x", "3 bytes"]),
        (FILES, &["--in", "x=@absent.bin", "--size", "y=4"], &["absent.bin"]),
        (USAGE, &["--in", "x=[0.0; 4]", "--in", "w=[1]", "--size", "y=4"], &["`w`", "@x, @y"]),
        (USAGE, &["--in", "x=[1.0, nope]", "--size", "y=4"], &["nope"]),
        (USAGE, &["--in", "x=[1, 2, 3, 4]", "--size", "y=4"], &["1"]),
        (USAGE, &["--in", "x=hex\"00f\"", "--size", "y=4"], &["odd number"]),
        (USAGE, &["--in", "x=[0.0; 99999999999999]", "--size", "y=4"], &["99999999999999 elements"]),
        (USAGE, &["--in", "x=rand(seed=1, count=4000000000)", "--size", "y=4"], &["4000000000 elements"]),
        (FAILED, &["--in", "x=rand(seed=1, count=268435456)", "--size", "y=4"], &["out of memory"]),
        (FAILED, &["--in", "x=[0.0; 268435456]", "--size", "y=4"], &["out of memory"]),
        (USAGE, &["--in", "x=[0.0; 4]", "--size", "y=4294967296"], &["4294967296 elements"]),
        (USAGE, &["--in", "x=[0.0; 4]", "--size", "y=-1"], &["-1"]),
        (USAGE, &["--in", "x=[0.0; 4]", "--size", "y=4", "--grid", "1,2"], &["1,2"]),
        (USAGE, &["--in", "x=[0.0; 4]", "--size", "y=4", "--grid", "4294967295,4294967295,1"], &["lanes"]),
        (USAGE, &["--in", "x=[0.0; 4]", "--size", "y=4", "--backend", "nope"], &["nope", "reference"]),
        (FILES, &["--in", "x=[0.0; 4]", "--size", "y=4", "--out", "y=no/such/folder"], &["no/such/folder"]),
        (OK, &["--in", "x=[0.0; 4]", "--size", "y=4"], &["y"]),
    ];
    for (exit_code, arguments, says) in cases {
        check(&Case { name: "inputs", source: program(COPY), command: "run", arguments, exit_code, says });
    }
}

#[test]
fn a_program_that_never_seems_to_end() {
    let lines = "  buffer @y : read_write u32[1] binding 0 output

  for %i in 0..4294967295 {
    for %j in 0..4294967295 {
      store.u32 @y[0], %j
    }
  }
";
    let arguments = &["--timeout", "200ms"];
    let (name, source) = ("endless", program(lines));
    check(&Case { name, source, command: "run", arguments, exit_code: FAILED, says: &["longer than 200"] });
}

/// Values that live long are many spills, over which register allocation takes minutes.
#[test]
fn a_program_that_compiles_longer_than_it_may_run() {
    let mut lines = "  buffer @y : read_write f32[] binding 0 output\n\n  %v0 = load.f32 @y[0]\n".to_owned();
    for at in 1..100_000 {
        let op = ["add", "mul", "sub", "max"][at % 4];
        lines.push_str(&format!("  %v{at} = {op}.f32 %v{}, %v{}\n", at - 1, at / 2));
    }
    lines.push_str("  store.f32 @y[0], %v99999\n");
    let arguments = &["--size", "y=1", "--backend", "cpu", "--timeout", "200ms"];
    let (name, source) = ("compiles_long", program(&lines));
    check(&Case { name, source, command: "run", arguments, exit_code: FAILED, says: &["longer than 200"] });
}

#[test]
fn files_that_are_no_programs() {
    let folder = folder("no_programs");
    fs::write(folder.join("bytes.vyre"), (0..=255).cycle().take(25_600).collect::<Vec<u8>>())
        .expect("writable");
    for (arguments, says) in [(["bytes.vyre"], "UTF-8"), (["absent.vyre"], "absent.vyre"), (["."], "")] {
        for command in ["check", "run", "fmt"] {
            let (exit_code, text) = run(&folder, command, &arguments);
            assert!(matches!(exit_code, Some(FINDINGS | USAGE | FILES)), "{command} {arguments:?}: {text}");
            assert!(
                text.contains(says) && text.contains("Fix:") && !text.contains("panicked"),
                "{command}: {text}"
            );
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for arguments in
        [&["ops"][..], &["ops", "--json"], &["opt", "examples/saxpy.vyre"], &["run", "examples/saxpy.vyre"]]
    {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vyre"));
        let output = command.args(arguments).current_dir(root).stdout(full()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(FILES), "{arguments:?}: {text}");
        assert!(text.contains("standard output") && text.contains("Fix:"), "{arguments:?}: {text}");
    }
    let folder = folder("full");
    let saxpy = format!("{root}/examples/saxpy.vyre");
    let (exit_code, text) = run(&folder, "run", &[&saxpy, "--trace", "/dev/full"]);
    assert_eq!(exit_code, Some(FILES), "{text}");
    assert!(text.contains("/dev/full") && !text.contains("panicked"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_as_input_is_read_up_to_the_limit() {
    let folder = folder("device");
    fs::write(folder.join("k.vyre"), program("  buffer @x : read u32[] binding 0\n")).expect("writable");
    let (exit_code, text) = run(&folder, "run", &["k.vyre", "--in", "x=@/dev/zero"]);
    assert!(matches!(exit_code, Some(USAGE | FILES)), "{text}");
    assert!(text.contains("/dev/zero") && text.contains("Fix:"), "{text}");
}
