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

/// Runs the commands of `tests/cli/NAME.txt` one after the other in `folder`, and compares what they show with what stands
/// behind each there. Files that they need stand before them, between `+++ FILE` and `+++`. `UPDATE_EXPECT=1` writes what
/// is shown.
fn transcript(name: &str, folder: &Path) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cli/{name}.txt"));
    let script = std::fs::read_to_string(&path).unwrap();
    let start = script.find("$ vyre ").expect("a command");
    let (files, commands) = script.split_at(start);
    for file in files.split("+++ ").skip(1) {
        let (name, text) = file.split_once('\n').expect("a name");
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.split("+++").next().unwrap()).unwrap();
    }
    let mut all = files.to_owned();
    for command in commands.lines().filter_map(|line| line.strip_prefix("$ vyre ")) {
        // What stands between quotes is one argument; other arguments have none.
        let pieces = command.split('\'').enumerate().flat_map(|(at, piece)| match at % 2 {
            0 => piece.split_whitespace().collect(),
            _ => vec![piece],
        });
        let shown = shown(&execute(folder, &pieces.collect::<Vec<_>>(), b""));
        all.push_str(&format!("$ vyre {command}\n{shown}\n"));
    }
    expect_file![path].assert_eq(&all);
}

#[test]
fn transcripts() {
    for name in ["run", "fails", "wrong_inputs", "check", "names", "conform", "bench"] {
        transcript(name, &folder(name));
    }
}

#[test]
fn help_of_every_command() {
    transcript("help", &root());
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
    let elements: Vec<String> = (0..65).map(|element| element.to_string()).collect();
    let list = elements.join(", ");
    let source = format!(
        "program @p workgroup(1, 1, 1) {{\n  buffer @y : read_write u32[] binding 0 output\n  \
         const @t : u32[65] = [{list}]\n  %i = global_id x\n  %v = load.u32 @t[%i]\n  store.u32 @y[%i], %v\n}}\n"
    );
    std::fs::write(folder.join("table.vyre"), source).unwrap();
    for target in ["spirv", "wgsl"] {
        let shown = json(&folder, &["lower", "table.vyre", "--target", target, "--json"]);
        assert_eq!(shown["tables"].to_string(), format!("[{list}]").replace(' ', ""));
    }
    let fma = |target, way| {
        let args = ["lower", "saxpy.vyre", "--target", target, "--floats", way, "--json"];
        json(&folder, &args)["text"].to_string()
    };
    assert!(
        fma("wgsl", "native").contains("native_fma_f32(") && fma("spirv", "native").contains("%glsl Fma")
    );
    assert!(fma("wgsl", "integers").contains("soft_fma_f32(") && !fma("spirv", "integers").contains("Fma"));
    transcript("lower", &folder);
}

#[test]
fn lower_shows_ptx_for_a_device_and_for_a_dispatch_that_can_be_cancelled() {
    let folder = folder("lower_ptx");
    // Short loops do not poll.
    let source = "program @p workgroup(1, 1, 1) {\n  buffer @y : read_write u32[] binding 0 output\n  \
        %n = load.u32 @y[0]\n  for %i in 0..%n {\n    store.u32 @y[%i], %i\n  }\n}\n";
    std::fs::write(folder.join("loop.vyre"), source).unwrap();
    let ptx = |options: &[&str]| {
        let shown = json(&folder, &[&["lower", "loop.vyre", "--target", "ptx", "--json"], options].concat());
        shown["text"].as_str().expect("a text").to_owned()
    };
    let targets = [("70", "sm_70"), ("120", "sm_120"), ("130", "sm_121")];
    for (sm, target) in targets {
        assert!(ptx(&["--sm", sm]).contains(&format!(".target {target}\n")), "{sm}");
    }
    assert_eq!(ptx(&[]), ptx(&["--sm", "70"]));
    assert!(!ptx(&[]).contains("[cancel]") && ptx(&["--poll"]).contains("[cancel]"));
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
    transcript("backends", &folder);
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
    let folder = folder("bench_right");
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

/// What a run does to its program, by the spans of its trace.
#[test]
fn a_run_validates_once_and_admits_and_compiles_once_for_each_backend() {
    let folder = folder("steps");
    let counts = |backend: &str| {
        let args = ["run", "saxpy.vyre", "--backend", backend, "--trace", "spans.json"];
        assert!(execute(&folder, &args, b"").status.success());
        let trace: serde_json::Value =
            serde_json::from_slice(&std::fs::read(folder.join("spans.json")).unwrap()).unwrap();
        let events = trace.as_array().unwrap();
        let count =
            |name: &str| events.iter().filter(|event| event["name"] == name && event["ph"] == "B").count();
        ["validate", "admit", "compile", "launch"].map(count)
    };
    assert_eq!(counts("cpu"), [1, 1, 1, 1]);
    assert_eq!(counts("reference"), [1, 1, 1, 1]);
    // The reference runs beside the processor.
    assert_eq!(counts("auto"), [1, 2, 2, 2]);
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

#[test]
fn files_that_are_no_programs() {
    let folder = folder("no_programs");
    std::fs::write(folder.join("latin1.vyre"), b"program @caf\xe9").unwrap();
    std::fs::write(folder.join("cut.vyreb"), b"\x89VYRE\r\n\x1a\x01\0\0\0").unwrap();
    transcript("no_programs", &folder);
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
fn fmt_keeps_comments_and_says_what_it_would_change() {
    let folder = folder("fmt");
    let ugly = "program @p   workgroup(1,1,1) { // a program\nbuffer @y:read_write u32[1] binding 0 output\n\n\n\
        // the answer\nstore.u32 @y[0],42\n}";
    let neat = "program @p workgroup(1, 1, 1) {  // a program\n  buffer @y : read_write u32[1] binding 0 output\n\n  \
        // the answer\n  store.u32 @y[0], 42\n}\n";
    std::fs::write(folder.join("ugly.vyre"), ugly).unwrap();
    transcript("fmt", &folder);
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
    transcript("opt", &folder);
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
    transcript("convert", &folder);
    let again = execute(&folder, &["convert", "again.vyre", "-"], b"");
    assert_eq!(again.stdout, std::fs::read(folder.join("saxpy.vyreb")).unwrap());
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
