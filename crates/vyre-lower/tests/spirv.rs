//! Modules are valid SPIR-V: `spirv-val` accepts them where it is on the PATH, and the text says the same as the words.
//!
//! Every file test and example and a number of generated programs, for devices with all features and with none, and with
//! floats made in every way. What the modules compute is tested where there is a device.
//!
//! The code of every op and of every example stands in `tests/spirv`, to be read: `UPDATE_EXPECT=1` writes it anew.

use expect_test::expect_file;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vyre_foundation::ir::{ArgType, ComputeOp, DataType, OpInfo};
use vyre_foundation::text;
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_generate::{Config, seeded};
use vyre_lower::spirv::{
    Features, FloatOp, Floats, How, LowerError, Options, Shader, lower, lower_for_subgroups,
};

/// All that modules are asked for, and the lanes of subgroups.
fn options() -> [(Options, u32); 5] {
    let none = Features::default();
    let guarded = Floats::default().with(DataType::F32, FloatOp::Fma, How::Guarded);
    [
        (Options::default(), 0),
        (Options { features: none, floats: Floats::default() }, 0),
        (Options { features: Features::ALL, floats: Floats::SOFT }, 0),
        (
            Options { features: Features { int64_atomics: false, ..Features::ALL }, floats: Floats::NATIVE },
            32,
        ),
        (Options { features: Features::ALL, floats: guarded }, 8),
    ]
}

fn modules(name: &str, program: &ValidProgram) -> Vec<Shader> {
    let all = options();
    let lowered = all.iter().map(|(options, lanes)| match lower_for_subgroups(program, options, *lanes) {
        Ok(shader) => Some(shader),
        Err(LowerError::WideAtomic { .. }) => None,
        Err(error) => panic!("{name}: {error}"),
    });
    lowered.flatten().collect()
}

/// What a tool says of a module, if it refuses it; `Err` if there is no such tool.
fn asked(tool: &[&str], input: &[u8]) -> std::io::Result<Result<Vec<u8>, String>> {
    let mut child = Command::new(tool[0])
        .args(&tool[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let ran = child.wait_with_output()?;
    let written = writer.join().expect("it does not panic");
    match ran.status.success() {
        true => written.map(|()| Ok(ran.stdout)),
        false => Ok(Err(String::from_utf8_lossy(&ran.stderr).into_owned())),
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn check_all(test: &str, programs: impl Iterator<Item = (String, ValidProgram)>) {
    let (mut count, mut checked) = (0, 0);
    let mut has_tools = true;
    for (name, program) in programs {
        for shader in modules(&name, &program) {
            count += 1;
            if !has_tools {
                continue;
            }
            let module = bytes(&shader.words);
            match asked(&["spirv-val", "--target-env", "vulkan1.1", "-"], &module) {
                Ok(Ok(_)) => checked += 1,
                Ok(Err(said)) => panic!("{name}: {said}\n{}", shader.text()),
                Err(_) => has_tools = false,
            }
        }
    }
    if !has_tools {
        eprintln!("SKIP {test} with spirv-val: it is not on the PATH");
    }
    eprintln!("{test}: {count} modules, {checked} checked by spirv-val");
    assert!(count > 3, "nothing was tested");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join(folder)).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "vyre"));
    paths.sort();
    paths
}

fn parsed(source: &str) -> ValidProgram {
    validate(&text::parse(source).expect("it parses").program).expect("it is valid")
}

#[test]
fn every_file_has_modules() {
    let paths = ["tests/ops", "tests/semantics", "examples"].into_iter().flat_map(files);
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("readable");
    check_all("files", paths.map(|path| (path.display().to_string(), parsed(&read(&path)))));
}

#[test]
fn generated_programs_have_modules() {
    let config = Config { traps: true, ..Config::default() };
    // Each has five modules, so there are fewer than of cases that only run.
    let cases = std::env::var("VYRE_CASES").ok().and_then(|count| count.parse().ok());
    let cases = (0..cases.unwrap_or(1000) / 10).map(|seed| (seed, seeded(seed, &config)));
    check_all(
        "generated",
        cases.map(|(seed, case)| (format!("seed {seed}"), case.valid().expect("generated"))),
    );
}

#[test]
fn the_text_assembles_to_the_words() {
    for path in files("examples") {
        let program = parsed(&std::fs::read_to_string(&path).expect("readable"));
        let shader = lower(&program, &Options::default()).expect("it has a module");
        let tool = ["spirv-as", "--preserve-numeric-ids", "--target-env", "spv1.3", "-o", "-", "-"];
        let assembled = match asked(&tool, shader.text().as_bytes()) {
            Ok(assembled) => assembled.unwrap_or_else(|said| panic!("{said}\n{}", shader.text())),
            Err(_) => return eprintln!("SKIP the text: spirv-as is not on the PATH"),
        };
        // Assembling numbers ids anew, so the shapes are compared: the words less the ids.
        assert_eq!(assembled.len(), 4 * shader.words.len(), "{}", path.display());
    }
}

#[test]
fn long_tables_have_rows() {
    let elements: Vec<String> = (0..10_000u32).map(|x| x.wrapping_mul(x).to_string()).collect();
    let source = format!(
        "program @p workgroup(4, 1, 1) {{\n  buffer @y : read_write u32[] binding 0 output\n  \
         const @k : u32[10000] = [{}]\n\n  %i = global_id x\n  %v = load.u32 @k[%i]\n  store.u32 @y[%i], %v\n}}\n",
        elements.join(", ")
    );
    check_all("tables", [("a long table".to_owned(), parsed(&source))].into_iter());
}

/// What an op's operands are loaded as, and the lines of a program with it.
fn one_op(info: &OpInfo, ty: DataType, source: DataType) -> String {
    let operand = |arg: &ArgType| match arg {
        ArgType::Any => source,
        arg => arg.under(ty).expect("it has a type"),
    };
    let result = info.result.under(ty).expect("it computes");
    // Truth values are not stored, so they are compared or selected at both ends.
    let stored = |ty: DataType| if ty == DataType::Bool { DataType::U32 } else { ty };
    let (mut buffers, mut lines, mut args) = (String::new(), String::new(), Vec::new());
    for (at, arg) in info.args.iter().enumerate() {
        let (name, ty) = (["a", "b", "c", "d"][at], operand(arg));
        let _ = writeln!(buffers, "  buffer @{name}s : read {}[8] binding {at}", stored(ty));
        let value = if ty == DataType::Bool { format!("{name}_word") } else { name.to_owned() };
        let _ = writeln!(lines, "  %{value} = load.{} @{name}s[%i]", stored(ty));
        if ty == DataType::Bool {
            let _ = writeln!(lines, "  %{name} = ne.u32 %{value}, 0");
        }
        args.push(format!("%{name}"));
    }
    let (put, last) = match result {
        DataType::Bool => ("shown", "  %shown = select.u32 %r, 1, 0\n"),
        _ => ("r", ""),
    };
    format!(
        "program @op workgroup(8, 1, 1) {{\n{buffers}  buffer @rs : read_write {0}[8] binding 9 output\n\n  %i = local_id x\n{lines}  \
         %r = {1}.{ty} {2}\n{last}  store.{0} @rs[%i], %{put}\n}}\n",
        stored(result),
        info.name,
        args.join(", ")
    )
}

/// The instructions of the op alone, behind those of its operands.
fn code_of_op(source: &str, operands: usize) -> String {
    let shader = lower(&parsed(source), &Options::default()).expect("it has a module");
    let last = format!("%{} = ", ["a", "b", "c", "d"][operands - 1]);
    let text = shader.text();
    let body = text.lines().skip_while(|line| !line.starts_with(&last)).skip(1);
    let mut code = String::new();
    for line in body {
        let _ = writeln!(code, "  {line}");
        if line.starts_with("%r = ") {
            return code;
        }
    }
    panic!("no line gives the result:\n{}", shader.text())
}

#[test]
fn every_op_reads_well() {
    let mut text = String::new();
    for op in ComputeOp::ALL {
        let info = op.info();
        let casts =
            [(DataType::F32, DataType::I32), (DataType::I32, DataType::F32), (DataType::U64, DataType::F64)];
        let halves = [(DataType::F16, DataType::F32), (DataType::F32, DataType::F16)];
        let bits = [(DataType::U32, DataType::F32)];
        let types: Vec<(DataType, DataType)> = match op {
            ComputeOp::Cast => casts.into_iter().chain(halves).collect(),
            ComputeOp::Bitcast => bits.into(),
            // What is alike for all types stands once.
            ComputeOp::Add => info.types.iter().map(|ty| (ty, ty)).collect(),
            _ => {
                let types = [DataType::I32, DataType::F32].into_iter();
                types.filter(|ty| info.types.contains(*ty)).map(|ty| (ty, ty)).collect()
            }
        };
        for (ty, source) in types {
            let code = code_of_op(&one_op(info, ty, source), info.args.len());
            let _ = writeln!(text, "{}.{ty} of {source}\n{code}", info.name);
        }
    }
    expect_file!["spirv/ops.txt"].assert_eq(&text);
}

#[test]
fn every_example_reads_well() {
    for path in files("examples") {
        let program = parsed(&std::fs::read_to_string(&path).expect("readable"));
        let shader = lower(&program, &Options::default()).expect("it has a module");
        // Names, decorations, types and constants say what the code does.
        let is_head = |line: &&str| line.starts_with("OpCapability") || line.starts_with("OpExecutionMode");
        let text = shader.text();
        let head = text.lines().filter(is_head);
        let code = text.lines().skip_while(|line| !line.contains(" = OpFunction "));
        let shown: String = head.chain(code).flat_map(|line| [line, "\n"]).collect();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("it has a name");
        expect_file![format!("{}/tests/spirv/{name}.txt", env!("CARGO_MANIFEST_DIR"))].assert_eq(&shown);
    }
}
