//! Modules are valid SPIR-V: `spirv-val` accepts them where it is on the PATH, and the text says the same as the words.
//!
//! Every file test and example and a number of generated programs, for devices with all features and with none, and with
//! floats made in every way. What the modules compute is tested where there is a device.
//!
//! The code of every op and of every example stands in `tests/spirv`, to be read: `UPDATE_EXPECT=1` writes it anew.

mod common;

use common::{example_files, files, ops_text, parsed};
use expect_test::expect_file;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use vyre_foundation::ir::DataType;
use vyre_foundation::validate::ValidProgram;
use vyre_generate::{Config, seeded};
use vyre_lower::floats::{FloatOp, FloatStrategy, Floats};
use vyre_lower::spirv::{Features, LowerError, Options, Shader, lower, lower_for_subgroups};

/// All that modules are asked for, and the lanes of subgroups.
fn options() -> [(Options, u32); 6] {
    let none = Features::default();
    let guarded = Floats::default().with(DataType::F32, FloatOp::Fma, FloatStrategy::Guarded);
    [
        (Options::default(), 0),
        (Options { features: none, floats: Floats::default(), is_volatile: true }, 0),
        (Options { features: Features::ALL, floats: Floats::SOFT, is_volatile: false }, 0),
        (
            Options {
                features: Features { int64_atomics: false, ..Features::ALL },
                floats: Floats::NATIVE,
                is_volatile: true,
            },
            32,
        ),
        (Options { features: Features::ALL, floats: guarded, is_volatile: false }, 8),
        (Options { features: Features::ALL, floats: Floats::LOOSE, is_volatile: false }, 0),
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

#[test]
fn every_file_has_modules() {
    let paths = ["tests/ops", "tests/semantics", "examples"].into_iter().flat_map(files);
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("readable");
    check_all("files", paths.map(|path| (path.display().to_string(), parsed(&read(&path)))));
}

#[test]
fn generated_programs_have_modules() {
    let config = Config { traps: true, ..Config::default() };
    // Each has six modules, so there are fewer than of cases that only run.
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
fn long_tables_lie_in_storage() {
    let elements: Vec<String> = (0..10_000u32).map(|x| x.wrapping_mul(x).to_string()).collect();
    let list = elements.join(", ");
    let source = format!(
        "program @p workgroup(4, 1, 1) {{\n  buffer @y : read_write u64[] binding 0 output\n  \
         const @a : u32[9999] = [{}]\n  const @b : u64[10000] = [{list}]\n  const @c : u32[2] = [5, 6]\n  \
         const @d : u64[10000] = [{list}]\n\n  %i = global_id x\n  %a = load.u32 @a[%i]\n  \
         %w = cast.u64 %a\n  %b = load.u64 @b[%i]\n  %c = load.u32 @c[%i]\n  %v = cast.u64 %c\n  \
         %d = load.u64 @d[%i]\n  %s = add.u64 %w, %b\n  %t = add.u64 %s, %v\n  %u = add.u64 %t, %d\n  \
         store.u64 @y[%i], %u\n}}\n",
        elements[1..].join(", ")
    );
    let program = parsed(&source);
    for shader in modules("long tables", &program) {
        let starts = [0, 10_000, 10_002, 30_000].map(|at| shader.tables[at]);
        assert_eq!(
            (shader.tables.len(), starts),
            (50_000, [1, 0, 1, 0]),
            "each begins at a multiple of 4 words"
        );
        assert!(shader.words.len() < 2000, "{} words of code", shader.words.len());
    }
    check_all("tables", [("long tables".to_owned(), program)].into_iter());
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
    expect_file!["spirv/ops.txt"].assert_eq(&ops_text(code_of_op));
}

#[test]
fn every_example_reads_well() {
    for (name, program) in example_files() {
        let shader = lower(&program, &Options::default()).expect("it has a module");
        let path = format!("{}/tests/spirv/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        expect_file![path].assert_eq(&shown(&shader));
    }
}

/// What is read of a module: names, decorations, types and constants say what the code does.
fn shown(shader: &Shader) -> String {
    let is_head = |line: &&str| line.starts_with("OpCapability") || line.starts_with("OpExecutionMode");
    let text = shader.text();
    let head = text.lines().filter(is_head);
    let code = text.lines().skip_while(|line| !line.contains(" = OpFunction "));
    head.chain(code).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn a_row_of_fma_has_one_guard() {
    let program = parsed(
        "program @row workgroup(64, 1, 1) {
           buffer @x : read f32[] binding 0
           buffer @y : read_write f32[] binding 1 output
           %i = global_id x
           %a = load.f32 @x[%i]
           %b = load.f32 @y[%i]
           %p = fma.f32 %a, %b, 1.5
           %q = fma.f32 %p, %b, %a
           %s = add.f32 %p, %q
           %r = fma.f32 %q, %s, %p
           store.f32 @y[%i], %r
         }",
    );
    let floats = Floats::default().with(DataType::F32, FloatOp::Fma, FloatStrategy::Guarded);
    let shader = lower(&program, &Options { floats, ..Options::default() }).expect("it has a module");
    expect_file!["spirv/row.txt"].assert_eq(&shown(&shader));
    // Two rows, each with one look at its results.
    assert_eq!(shader.text().matches("OpFUnordLessThanEqual").count(), 2);
    check_all("row", [("a row".to_owned(), program)].into_iter());
}
