//! The command as its users meet it: the real binary, its output and exit code.
//!
//! Each snapshot is what a terminal without colour would show. Times differ from run to run and are masked.

use expect_test::expect_file;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A folder of its own for one test, with a program in it.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["saxpy.vyre", "reduce.vyre"] {
        std::fs::copy(root().join("examples").join(name), folder.join(name)).unwrap();
    }
    folder
}

fn execute(folder: &Path, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vyre"))
        .args(args)
        .current_dir(folder)
        .env("COLUMNS", "100")
        // Transcripts are the same with and without a device.
        .env("VYRE_CUDA_DEVICE", "none")
        .env("VYRE_WGPU_ADAPTER", "none")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input closes it early.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// What was shown, and how the command ended.
fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut shown = format!("exit {}\n", output.status.code().expect("it ended by itself"));
    for (name, text) in [("stdout", text(&output.stdout)), ("stderr", text(&output.stderr))] {
        if text.is_empty() {
            continue;
        }
        shown.push_str(&format!("--- {name}\n"));
        for line in text.lines() {
            shown.push_str(&format!("{}\n", mask(line)));
        }
    }
    shown
}

/// A line without what differs from run to run or from machine to machine: times of rows and tables, JSON's nanoseconds,
/// the names of processors.
fn mask(line: &str) -> String {
    let rows = ["  enqueue ", "  wait ", "  device          "];
    if let Some(row) = rows.iter().find(|row| line.starts_with(**row) && !line.contains("not known")) {
        return format!("{row}(masked)");
    }
    // Tables with times have columns as wide as those.
    let words: Vec<&str> = line.split_whitespace().collect();
    let times =
        words.windows(2).any(|pair| pair[0].parse::<f64>().is_ok() && ["us", "ms", "s"].contains(&pair[1]));
    if times && line.starts_with("  ") || line.starts_with("  backend ") {
        let is_time = |at: usize| words.get(at + 1).is_some_and(|unit| ["us", "ms", "s"].contains(unit));
        let cell = |(at, word): (usize, &&str)| match word.parse::<f64>() {
            Ok(_) if is_time(at) => "(time)".to_owned(),
            _ => (*word).to_owned(),
        };
        let cells = words.iter().enumerate().filter(|(_, word)| !["us", "ms", "s"].contains(word)).map(cell);
        return format!("  {}", cells.collect::<Vec<_>>().join("  "));
    }
    match line.split_once("_ns\": ") {
        Some((key, value)) if value.starts_with(|c: char| c.is_ascii_digit()) => {
            let comma = if value.ends_with(',') { "," } else { "" };
            format!("{key}_ns\": (masked){comma}")
        }
        _ => line.to_owned(),
    }
}

/// Runs one command after the other and compares what they show with `tests/cli/NAME.txt`.
/// `UPDATE_EXPECT=1` writes the file.
fn transcript(name: &str, folder: &Path, commands: &[&[&str]]) {
    let mut all = String::new();
    for args in commands {
        all.push_str(&format!("$ vyre {}\n{}\n", args.join(" "), shown(&execute(folder, args, b""))));
    }
    expect_file![format!("cli/{name}.txt")].assert_eq(&all);
}

#[test]
fn help_of_every_command() {
    let commands = [
        "check",
        "fmt",
        "run",
        "compare",
        "devices",
        "doctor",
        "test",
        "bench",
        "opt",
        "lower",
        "convert",
        "explain",
        "ops",
        "certify",
        "verify",
        "replay",
        "keygen",
        "completions",
    ];
    let commands: Vec<[&str; 2]> = commands.into_iter().map(|command| [command, "--help"]).collect();
    let mut all: Vec<&[&str]> = vec![&["--help"]];
    all.extend(commands.iter().map(|command| command.as_slice()));
    transcript("help", &root(), &all);
}

#[test]
fn run_shows_the_result() {
    transcript(
        "run",
        &folder("run"),
        &[
            &["run", "saxpy.vyre"],
            &["run", "saxpy.vyre", "--json"],
            &["run", "saxpy.vyre", "--timing", "--backend", "reference"],
            &["run", "saxpy.vyre", "--in", "x=[1.0; 12]", "--size", "y=12", "--show", "10"],
            &["run", "saxpy.vyre", "--show", "all"],
            &["run", "saxpy.vyre", "--trace-lane", "1,0,0"],
            &["run", "saxpy.vyre", "--trace-lane", "99,0,0"],
            &["run", "saxpy.vyre", "--trace-lane", "3,0,0", "--json"],
            &[
                "run",
                "reduce.vyre",
                "--in",
                "x=[1; 100]",
                "--size",
                "sums=3",
                "--grid",
                "3,1,1",
                "--check-races",
            ],
        ],
    );
}

#[test]
fn lower_shows_every_target_under_its_lines() {
    let folder = folder("lower");
    let targets = [
        ("asm", "= global_id x"),
        ("ptx", ".visible .entry"),
        ("spirv", "OpEntryPoint GLCompute"),
        ("wgsl", "@compute"),
    ];
    for (target, marks) in targets {
        let args = ["lower", "saxpy.vyre", "--target", target, "-o", "out.txt"];
        assert_eq!(shown(&execute(&folder, &args, b"")), "exit 0\n");
        let text = std::fs::read_to_string(folder.join("out.txt")).unwrap();
        assert!(text.contains(marks), "{text}");
        assert_eq!(json(&folder, &["lower", "saxpy.vyre", "--target", target, "--json"])["text"], text);
    }
    let args = ["lower", "saxpy.vyre", "--target", "spirv", "-o", "out.spv"];
    assert_eq!(shown(&execute(&folder, &args, b"")), "exit 0\n");
    assert_eq!(std::fs::read(folder.join("out.spv")).unwrap()[..4], 0x0723_0203_u32.to_le_bytes());
    transcript(
        "lower",
        &folder,
        &[&["lower", "saxpy.vyre", "--target", "abacus"], &["lower", "missing.vyre", "--target", "asm"]],
    );
}

fn json(folder: &Path, args: &[&str]) -> serde_json::Value {
    let output = execute(folder, args, b"");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown(&output)))
}

#[test]
fn compare_devices_and_doctor_speak_of_every_backend() {
    let folder = folder("backends");
    let devices = json(&folder, &["devices", "--json"]);
    let ids: Vec<&str> =
        devices["backends"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"reference"), "{ids:?}");
    let compared = json(&folder, &["compare", "saxpy.vyre", "--json"]);
    assert_eq!(compared["backends"].as_array().unwrap().len(), ids.len());
    assert_eq!(compared["equal"], true);
    let doctor = json(&folder, &["doctor", "--json"]);
    assert_eq!(doctor["failed"], 0, "{doctor}");
    for id in ids {
        let name = format!("backend {id}");
        assert!(doctor["checks"].as_array().unwrap().iter().any(|check| check["check"] == name.as_str()));
    }
    transcript(
        "backends",
        &folder,
        &[
            &["devices"],
            &["compare", "saxpy.vyre", "--backends", "reference,abacus"],
            &["compare", "saxpy.vyre", "--in", "q=[1]"],
            &["compare", "saxpy.vyre", "--backends", "cpu,reference,cpu"],
            &["bench", "saxpy", "--quick", "--backend", "cpu,cpu"],
            // A backend that is not there has one exit code, whoever asks for it.
            &["run", "saxpy.vyre", "--backend", "cuda"],
            &["compare", "saxpy.vyre", "--backends", "cuda"],
            &["compare", "saxpy.vyre", "--backends", "cuda,reference"],
            &["bench", "saxpy", "--quick", "--backend", "cuda"],
            &["certify", "--backend", "cuda", "--quick"],
        ],
    );
}

/// `examples/ml/compare` shows the same to people.
#[test]
fn softmax_layer_norm_and_gelu_give_the_same_bytes_on_every_backend() {
    let folder = root().join("examples/ml");
    let launches = std::fs::read_to_string(folder.join("digests.txt")).unwrap();
    for launch in launches.lines() {
        let words: Vec<&str> = launch.split(' ').collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vyre"));
        let command = command.args(["compare", words[0], "--json"]).args(&words[2..]).current_dir(&folder);
        let compared: serde_json::Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        for backend in compared["backends"].as_array().unwrap() {
            let id = backend["backend"].as_str().unwrap();
            if backend["ran"] == false {
                eprintln!("SKIP {} on {id}: {}", words[0], backend["reason"]);
                assert!(!["reference", "cpu"].contains(&id), "{backend}");
                continue;
            }
            let digest = backend["outputs"][0]["blake3"].as_str().unwrap();
            assert!(digest.starts_with(words[1]), "{launch} on {id} gives {digest}");
        }
    }
}

#[test]
fn bench_finds_every_result_right() {
    let folder = folder("bench");
    let listed = json(&folder, &["bench", "--list", "--json"]);
    let kernels = listed["kernels"].as_array().unwrap().iter();
    let kernels: Vec<&str> = kernels.map(|one| one["kernel"].as_str().unwrap()).collect();
    let how = ["bench", "--quick", "--backend", "reference,cpu", "--plot", "bench.svg", "--json"];
    let found = json(&folder, &[&how[..], &kernels].concat());
    let groups = found["groups"].as_array().unwrap();
    assert_eq!(groups.len(), kernels.len());
    for group in groups {
        let contenders = group["contenders"].as_array().unwrap();
        assert!(contenders.iter().any(|one| one["mode"] == "resident"), "{group}");
        for contender in contenders {
            // The C library's functions do not round correctly.
            let right = if contender["contender"] == "libc" {
                contender["result"] != "wrong"
            } else {
                contender["result"] == "right"
            };
            assert!(right, "{} {contender}", group["kernel"]);
        }
    }
    let plot = std::fs::read_to_string(folder.join("bench.svg")).unwrap();
    assert!(groups.iter().all(|group| plot.contains(group["kernel"].as_str().unwrap())));
}

#[test]
fn bench_refuses_what_it_cannot_measure() {
    transcript(
        "bench",
        &folder("bench_refuses"),
        &[
            &["bench", "--list"],
            &["bench", "sexpy"],
            &["bench", "saxpy", "--backend", "abacus"],
            &["bench", "saxpy", "--size", "many"],
            &["bench", "saxpy", "--size", "0"],
            &["bench", "saxpy", "--size", "matmul=64M"],
            &["bench", "--size", "sexpy=4", "--json"],
            &["bench", "saxpy", "--rounds", "0"],
            &["bench", "saxpy", "--baseline", "fast"],
            &["bench", "saxpy", "--quick", "--backend", "reference", "--plot", "missing/bench.svg"],
        ],
    );
}

#[test]
fn a_trace_shows_the_steps_of_a_dispatch() {
    let folder = folder("spans");
    let args = ["run", "saxpy.vyre", "--trace", "spans.json"];
    assert_eq!(execute(&folder, &args, b"").status.code(), Some(0));
    let trace: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("spans.json")).unwrap()).unwrap();
    let names: Vec<&str> =
        trace.as_array().unwrap().iter().filter_map(|event| event["name"].as_str()).collect();
    for step in ["admit", "upload", "launch"] {
        assert!(names.contains(&step), "no {step} among {names:?}");
    }
}

#[test]
fn run_writes_raw_bytes_and_reads_them_again() {
    let folder = folder("raw");
    let args = ["run", "saxpy.vyre", "--out", "y=y.bin", "--json"];
    assert_eq!(execute(&folder, &args, b"").status.code(), Some(0));
    let bytes = std::fs::read(folder.join("y.bin")).unwrap();
    assert_eq!(bytes, [12.0f32, 14.0, 16.0].map(f32::to_le_bytes).concat());
    let again =
        ["run", "saxpy.vyre", "--in", "a=[1.0]", "--in", "x=@y.bin", "--in", "y=@y.bin", "--out", "y=z.bin"];
    assert_eq!(execute(&folder, &again, b"").status.code(), Some(0));
    let bytes = std::fs::read(folder.join("z.bin")).unwrap();
    assert_eq!(bytes, [24.0f32, 28.0, 32.0].map(f32::to_le_bytes).concat());
}

#[test]
fn run_gives_the_same_bytes_under_every_schedule() {
    let folder = folder("schedules");
    let digest = |schedule: &str| {
        let output = execute(&folder, &["run", "reduce.vyre", "--schedule", schedule, "--json"], b"");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        value["outputs"][0]["blake3"].as_str().unwrap().to_owned()
    };
    assert_eq!(digest("forward"), digest("reverse"));
    assert_eq!(digest("forward"), digest("shuffle:9"));
}

const RACE: &str = "\
program @race workgroup(4, 1, 1) {
  buffer @y : read_write u32[4] binding 0 output

  %l = local_index
  store.u32 @y[0], %l
}
";

const TRAP: &str = "\
//@ run => trap 7
program @guard workgroup(4, 1, 1) {
  buffer @y : read_write u32[4] binding 0 output

  %l   = local_index
  %bad = gt.u32 %l, 2
  if %bad {
    trap 7
  }
}
";

const LONG: &str = "\
program @long workgroup(1, 1, 1) {
  buffer @y : read_write u32[1] binding 0 output

  for %i in 0..4000000000 {
    store.u32 @y[0], %i
  }
}
";

/// A folder with programs that fail in various ways beside the good ones.
fn failing(test: &str) -> PathBuf {
    let folder = folder(test);
    let saxpy = std::fs::read_to_string(folder.join("saxpy.vyre")).unwrap();
    let files = [
        ("race.vyre", format!("//@ run\n{RACE}")),
        ("trap.vyre", TRAP.into()),
        ("long.vyre", LONG.into()),
        ("wrong.vyre", saxpy.replace("=> y=[12.0", "=> y=[12.5")),
        ("errors.vyre", TRAP.replace("//@ run => trap 7\n", "").replace("trap 7", "barrier //~ error[V099]")),
        ("directive.vyre", format!("//@ run y=1\n{LONG}")),
    ];
    for (name, source) in files {
        std::fs::write(folder.join(name), source).unwrap();
    }
    folder
}

#[test]
fn runs_that_fail() {
    transcript(
        "fails",
        &failing("fails"),
        &[
            &["run", "race.vyre", "--check-races"],
            &["run", "race.vyre", "--check-races", "--json"],
            &["run", "trap.vyre"],
            &["run", "trap.vyre", "--json"],
            &["compare", "trap.vyre", "--backends", "cpu,reference"],
            &["compare", "long.vyre", "--timeout", "50ms", "--backends", "reference"],
            &["run", "long.vyre", "--timeout", "50ms"],
            &["run", "wrong.vyre"],
            &["run", "directive.vyre"],
        ],
    );
}

#[test]
fn test_counts_what_passed_and_failed() {
    transcript("test", &failing("test"), &[&["test", "."], &["test", "saxpy.vyre", "wrong.vyre", "--json"]]);
}

#[test]
fn wrong_inputs_are_refused_with_a_fix() {
    let cases: &[&[&str]] = &[
        &["--in", "z=[1]"],
        &["--in", "a=[2]"],
        &["--in", "a=[2.0"],
        &["--in", "a"],
        &["--in", "=[2.0]"],
        &["--in", "a=2.0"],
        &["--in", "x=1.0, 2.5"],
        &["--in", "a=3"],
        &["--in", "a=three"],
        &["--in", "a=@missing.bin"],
        &["--in", "a=[0.0; 4000000000]"],
        &["--in", "a=[2.0]", "--in", "a=[2.0]"],
        &["--in", "a=[2.0, 1.0]", "--in", "x=[1.0]", "--size", "y=1"],
        &["--in", "a=hex\"00\"", "--in", "x=[1.0]", "--size", "y=1"],
        &["--size", "a=2"],
        &["--size", "y=4000000000"],
        &["--size", "y=many"],
        &["--size", "y=-1"],
        &["--backend", "abacus"],
        &["--grid", "4294967295,2,1"],
        &["--grid", "1,2"],
        &["--timeout", "5"],
        &["--schedule", "sideways"],
        &["--show", "some"],
        &["--show", "-1"],
        &["--grid", "-1,1,1"],
        &["--grid", "4294967296,1,1"],
        &["--timeout", "-1s"],
        &["--trace-lane", "-1,0,0"],
        &["--schedule", "shuffle:-1"],
        &["--in", "a=[1e400]"],
        &["--in", "a=[-1e39]"],
        &["--in", "a=rand(seed=-1)"],
        &["--in", "a=[1.0; -1]"],
        &["--out", "x=x.bin"],
        &["--out", "y=missing/y.bin"],
    ];
    let commands: Vec<Vec<&str>> =
        cases.iter().map(|args| [&["run", "saxpy.vyre"], *args].concat()).collect();
    let mut commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
    let folder = folder("wrong_inputs");
    // Without a directive nothing fills in what the command line leaves out.
    let source = std::fs::read_to_string(folder.join("saxpy.vyre")).unwrap();
    let bare: Vec<&str> = source.lines().filter(|line| !line.starts_with("//@")).collect();
    std::fs::write(folder.join("bare.vyre"), bare.join("\n")).unwrap();
    commands.push(&["run", "bare.vyre", "--in", "a=[2.0]"]);
    commands.push(&["run", "bare.vyre", "--in", "a=[2.0]", "--in", "x=[1.0]"]);
    let plane = "program @plane workgroup(1, 1, 1) {\n  buffer @y : read_write u32[4] binding 0 output\n\n  \
        %i = global_id y\n  store.u32 @y[%i], %i\n}\n";
    std::fs::write(folder.join("plane.vyre"), plane).unwrap();
    commands.push(&["run", "plane.vyre"]);
    std::fs::write(folder.join("plane_test.vyre"), format!("//@ run\n{plane}")).unwrap();
    commands.push(&["test", "plane_test.vyre"]);
    commands.push(&["run", "plane.vyre", "--in", "y=[-1]"]);
    commands.push(&["lower", "plane.vyre", "--target", "ptx", "--sm", "-1"]);
    commands.push(&["lower", "plane.vyre", "--target", "ptx", "--sm", "300"]);
    let bytes = "program @bytes workgroup(1, 1, 1) {\n  const @t : u8[2] = [300, -1]\n  const @f : f16[2] = [65520.0, -1e9]\n  \
        const @d : f64[1] = [1e400]\n  const @i : i8[2] = [128, -129]\n}\n";
    std::fs::write(folder.join("bytes.vyre"), bytes).unwrap();
    commands.push(&["check", "bytes.vyre"]);
    // Usage errors are JSON too where that is asked for.
    commands.push(&["run", "saxpy.vyre", "--grid", "1,2", "--json"]);
    commands.push(&["rnu", "--json"]);
    transcript("wrong_inputs", &folder, &commands);
}

#[test]
fn files_that_are_no_programs() {
    let folder = folder("no_programs");
    std::fs::write(folder.join("empty.vyre"), "").unwrap();
    std::fs::write(folder.join("latin1.vyre"), b"program @caf\xe9").unwrap();
    std::fs::write(folder.join("cut.vyreb"), b"\x89VYRE\r\n\x1a\x01\0\0\0").unwrap();
    std::fs::write(
        folder.join("bad.vyre"),
        TRAP.replace("gt.u32", "gt.f32").replace("local_index", "locl_index"),
    )
    .unwrap();
    transcript(
        "no_programs",
        &folder,
        &[
            &["check", "empty.vyre"],
            &["run", "latin1.vyre"],
            &["run", "cut.vyreb"],
            &["opt", "bad.vyre"],
            &["run", "missing.vyre"],
            &["run", "."],
            &["test", "missing.vyre"],
        ],
    );
}

#[test]
fn one_huge_token_is_an_error_and_not_shown_whole() {
    let folder = folder("huge");
    std::fs::write(folder.join("huge.vyre"), vec![b'a'; 10_000_000]).unwrap();
    let output = execute(&folder, &["check", "huge.vyre"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.len() < 1000, "{} bytes", output.stderr.len());
}

#[test]
fn check_reports_every_file() {
    let folder = folder("check");
    std::fs::write(folder.join("bad.vyre"), TRAP.replace("gt.u32", "gt.f32")).unwrap();
    std::fs::create_dir_all(folder.join("empty")).unwrap();
    transcript(
        "check",
        &folder,
        &[
            &["check", "."],
            &["check", "bad.vyre", "saxpy.vyre", "--json"],
            // What is wrong with one argument hides nothing of the others.
            &["check", "empty", "missing.vyre", "bad.vyre", "saxpy.vyre"],
            &["test", "empty", "bad.vyre", "saxpy.vyre"],
            &["fmt", "--check", "empty", "bad.vyre"],
        ],
    );
}

#[test]
fn fmt_keeps_comments_and_says_what_it_would_change() {
    let folder = folder("fmt");
    let ugly = "program @p   workgroup(1,1,1) { // a program\nbuffer @y:read_write u32[1] binding 0 output\n\n\n\
        // the answer\nstore.u32 @y[0],42\n}";
    let neat = "program @p workgroup(1, 1, 1) {  // a program\n  buffer @y : read_write u32[1] binding 0 output\n\n  \
        // the answer\n  store.u32 @y[0], 42\n}\n";
    std::fs::write(folder.join("ugly.vyre"), ugly).unwrap();
    transcript("fmt", &folder, &[&["fmt", "--check", "ugly.vyre", "saxpy.vyre"]]);
    let piped = execute(&folder, &["fmt", "-"], ugly.as_bytes());
    assert_eq!(String::from_utf8_lossy(&piped.stdout), neat);
    assert_eq!(execute(&folder, &["fmt", "ugly.vyre"], b"").status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(folder.join("ugly.vyre")).unwrap(), neat);
    assert_eq!(execute(&folder, &["fmt", "--check", "ugly.vyre"], b"").status.code(), Some(0));
}

#[test]
fn opt_prints_dumps_and_proves() {
    let folder = folder("opt");
    let dump: &[&str] = &["opt", "saxpy.vyre", "--passes", "cse,dce", "--dump-passes", "steps"];
    let commands: &[&[&str]] = &[
        dump,
        &["opt", "saxpy.vyre", "--ranges"],
        &["opt", "reduce.vyre", "--ranges", "--passes", "none"],
        &["opt", "saxpy.vyre", "--passes", "", "--json"],
        &["opt", "saxpy.vyre", "--passes", "fold,magic"],
    ];
    transcript("opt", &folder, commands);
    let marked = execute(&folder, &["opt", "saxpy.vyre", "--ranges"], b"").stdout;
    assert_eq!(execute(&folder, &["check", "-"], &marked).status.code(), Some(0), "marks are comments");
    let mut steps: Vec<String> = std::fs::read_dir(folder.join("steps"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    steps.sort();
    assert_eq!(steps, ["00-start.vyre", "01-cse.vyre", "02-dce.vyre"]);
    assert_eq!(std::fs::read(folder.join("steps/02-dce.vyre")).unwrap(), execute(&folder, dump, b"").stdout);
}

#[test]
fn convert_goes_both_ways() {
    let folder = folder("convert");
    transcript(
        "convert",
        &folder,
        &[
            &["convert", "saxpy.vyre", "saxpy.vyreb"],
            &["convert", "saxpy.vyreb", "again.vyre", "--json"],
            &["check", "saxpy.vyreb"],
            &["convert", "saxpy.vyre", "saxpy.txt"],
            &["fmt", "saxpy.vyreb"],
        ],
    );
    let again = execute(&folder, &["convert", "again.vyre", "-"], b"");
    assert_eq!(again.stdout, std::fs::read(folder.join("saxpy.vyreb")).unwrap());
}

#[test]
fn explain_and_ops_answer_by_name() {
    transcript(
        "names",
        &folder("names"),
        &[
            &["explain", "error[d001]"],
            &["explain", "V999"],
            &["explain", "foo"],
            &["explain", "v31"],
            &["ops", "fma.f32"],
            &["ops", "fma", "--json"],
            &["ops", "atomc"],
        ],
    );
}

#[test]
fn wrong_wishes_of_the_suite_are_refused_with_a_fix() {
    let folder = folder("conform");
    std::fs::write(folder.join("no.json"), "{\"payloadType\":1}\n").unwrap();
    std::fs::write(folder.join("no.pem"), "no key\n").unwrap();
    let certify = |more: &[&'static str]| [&["certify", "--backend", "reference"], more].concat();
    let commands = [
        vec!["certify"],
        vec!["certify", "--backend", "abacus"],
        certify(&["--level", "all"]),
        certify(&["--case", "op/f31"]),
        certify(&["--case", "op/f32", "-o", "c.json"]),
        certify(&["--shard", "1/2"]),
        certify(&["--shard", "0/2", "--json"]),
        certify(&["--nonce", "12"]),
        certify(&["--sign", "key.pem"]),
        certify(&["--sign", "missing.pem", "-o", "c.json"]),
        certify(&["--sign", "no.pem", "-o", "c.json"]),
        certify(&["-o", "missing/c.json"]),
        certify(&["--journal", "no.json"]),
        vec!["certify", "--merge", "missing.jsonl"],
        vec!["verify", "missing.json"],
        vec!["verify", "no.json"],
        vec!["verify", "no.json", "--trusted-key", "no.pem"],
        vec!["replay", "no.json", "--case", "op"],
        vec!["keygen", "-o", "missing/key.pem"],
    ];
    transcript("conform", &folder, &commands.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn every_code_and_every_op_can_be_asked_for() {
    let names = |args: &[&str], list: &str, key: &str| -> Vec<String> {
        let output = execute(&root(), args, b"");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let items = value[list].as_array().unwrap();
        items.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
    };
    let codes = names(&["explain", "--json"], "rules", "code");
    let ops = names(&["ops", "--json"], "ops", "name");
    assert!(codes.len() > 50 && ops.len() > 100, "{} codes, {} ops", codes.len(), ops.len());
    for (command, name) in codes.iter().map(|code| ("explain", code)).chain(ops.iter().map(|op| ("ops", op)))
    {
        assert_eq!(execute(&root(), &[command, name], b"").status.code(), Some(0), "{command} {name}");
    }
}

#[test]
fn the_examples_pass_their_own_tests() {
    let output = execute(&root(), &["test", "examples"], b"");
    assert!(output.status.success(), "{}", shown(&output));
    let output = execute(&root(), &["fmt", "--check", "examples"], b"");
    assert!(output.status.success(), "{}", shown(&output));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vyre"))
        .arg("ops")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(shown(&output), "exit 0\n");
}

#[test]
fn a_pipe_gets_no_colour() {
    for args in [["ops", "add"], ["run", "missing.vyre"]] {
        let output = execute(&root(), &args, b"");
        assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "{args:?}");
    }
}
