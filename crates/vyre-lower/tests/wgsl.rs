//! Shaders are WGSL: naga accepts them, and tint where it is on the PATH.
//!
//! Every file test and example and a number of generated programs, in all forms, with lookup data and without. What
//! the shaders compute is tested where there is a device: see `examples/vendor`.
//!
//! The code of every op and of every example stands in `tests/wgsl`, to be read: `UPDATE_EXPECT=1` writes it anew.

mod common;

use common::{example_files, files, ops_text, parsed};
use expect_test::expect_file;
use std::fmt::Write as _;
use std::io::Write;
use std::process::{Command, Stdio};
use vyre_foundation::ir::DataType;
use vyre_foundation::text;
use vyre_foundation::validate::ValidProgram;
use vyre_generate::{Config, seeded};
use vyre_lower::floats::{FloatOp, FloatStrategy, Floats};
use vyre_lower::wgsl::{Form, LowerError, Options, lower};

/// All that shaders are asked for.
const OPTIONS: [Options; 7] = [
    Options { form: Form::Grid, lookup_binding: None, floats: Floats::SOFT },
    Options { form: Form::OneWorkgroup, lookup_binding: None, floats: Floats::SOFT },
    Options { form: Form::Grid, lookup_binding: Some(3), floats: Floats::SOFT },
    Options { form: Form::OneWorkgroup, lookup_binding: Some(7), floats: Floats::SOFT },
    Options::DRIVER,
    Options { floats: Floats::NATIVE, ..Options::DRIVER },
    Options { floats: GUARDED, ..Options::DRIVER },
];

/// The device's own f32 with everything that can be put around it.
const GUARDED: Floats = {
    let f32 = DataType::F32;
    let floats = Floats::NATIVE.with(f32, FloatOp::Add, FloatStrategy::Guarded).with(
        f32,
        FloatOp::Mul,
        FloatStrategy::Guarded,
    );
    let floats = floats.with(f32, FloatOp::Fma, FloatStrategy::Guarded).with(
        f32,
        FloatOp::Div,
        FloatStrategy::Corrected,
    );
    floats.with(f32, FloatOp::Sqrt, FloatStrategy::Corrected)
};

/// The shader, if naga takes it; `None` for a program that WGSL has no shader for.
fn checked(name: &str, program: &ValidProgram, options: &Options) -> Option<String> {
    let shader = match lower(program, options) {
        Ok(shader) => shader,
        Err(LowerError::WideAtomic { .. }) => return None,
        Err(error) => panic!("{name}: {error}"),
    };
    let source = shader.source;
    let module = naga::front::wgsl::parse_str(&source)
        .unwrap_or_else(|error| panic!("{name}: {}\n{source}", error.emit_to_string(&source)));
    let capabilities = naga::valid::Capabilities::empty();
    naga::valid::Validator::new(naga::valid::ValidationFlags::all(), capabilities)
        .validate(&module)
        .unwrap_or_else(|error| panic!("{name}: {}\n{source}", error.emit_to_string(&source)));
    Some(source)
}

/// What tint says against a shader, if it says something; `Err` if there is no tint.
fn tint(name: &str, source: &str) -> std::io::Result<Option<String>> {
    let path = std::env::temp_dir().join(format!("vyre-{}-{name}.wgsl", std::process::id()));
    std::fs::File::create(&path)?.write_all(source.as_bytes())?;
    let ran = Command::new("tint").args(["--format", "wgsl"]).arg(&path).stdout(Stdio::null()).output();
    std::fs::remove_file(&path)?;
    let ran = ran?;
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    Ok((!ran.status.success()).then(|| format!("{said}\n{source}")))
}

fn check_all(test: &str, programs: impl Iterator<Item = (String, ValidProgram)>) {
    let (mut checked_by_tint, mut count, mut refused) = (true, 0, 0);
    for (name, program) in programs {
        for options in &OPTIONS {
            let Some(source) = checked(&name, &program, options) else {
                refused += 1;
                continue;
            };
            count += 1;
            if checked_by_tint {
                match tint(test, &source) {
                    Ok(None) => {}
                    Ok(Some(said)) => panic!("{name}: {said}"),
                    Err(_) => checked_by_tint = false,
                }
            }
        }
    }
    if !checked_by_tint {
        eprintln!("SKIP {test} with tint: it is not on the PATH");
    }
    eprintln!("{test}: {count} shaders, {refused} refused for 64-bit minima or maxima");
    assert!(count > 4 * refused, "almost nothing was tested");
}

#[test]
fn every_file_has_shaders() {
    let paths = ["tests/ops", "tests/semantics", "examples"].into_iter().flat_map(files);
    check_all(
        "files",
        paths.map(|path| {
            let source = std::fs::read_to_string(&path).expect("readable");
            (path.display().to_string(), parsed(&source))
        }),
    );
}

#[test]
fn generated_programs_have_shaders() {
    let config = Config { traps: true, ..Config::default() };
    // Each has seven shaders and two readers, so there are fewer than of cases that only run.
    let count: u64 =
        std::env::var("VYRE_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(1000) / 10;
    let cases = (0..count).map(|seed| seeded(seed, &config));
    check_all(
        "generated",
        cases.enumerate().map(|(seed, case)| (format!("seed {seed}"), case.valid().expect("generated"))),
    );
}

#[test]
fn blocks_nest_as_deep_as_wgsl_allows() {
    let program = |depth: usize| {
        let head = "program @p workgroup(4, 1, 1) subgroup(4) {\n  buffer @y : read_write u32[] binding 0 output\n\n";
        let [open, close] = ["if true {\n", "}\n"].map(|line| line.repeat(depth));
        let inner = "%r = subgroup_inclusive_add.u32 7\nstore.u32 @y[0], %r\n";
        parsed(&format!("{head}{open}{inner}{close}}}\n"))
    };
    // Tint counts a block and what opens it, so it takes half of what WGSL asks for.
    check_all("nested", [("58 deep".to_owned(), program(58))].into_iter());
    for options in &OPTIONS {
        checked("120 deep", &program(120), options);
    }
    let refused = lower(&program(121), &OPTIONS[0]).expect_err("too deep");
    assert_eq!(refused, LowerError::Nesting { depth: 121 });
    assert!(refused.to_string().contains("Fix:"));
}

#[test]
fn long_tables_are_split_or_in_storage() {
    let elements: Vec<String> = (0..2500u32).map(|x| x.wrapping_mul(x).to_string()).collect();
    let source = format!(
        "program @p workgroup(4, 1, 1) {{\n  buffer @k_at1 : read_write u32[] binding 0 output\n  \
         const @k : u32[2500] = [{}]\n\n  %i = global_id x\n  %v = load.u32 @k[%i]\n  store.u32 @k_at1[%i], %v\n}}\n",
        elements.join(", ")
    );
    let program = parsed(&source);
    let shader = lower(&program, &Options::DRIVER).expect("it has a shader");
    assert_eq!(shader.tables.len(), 2500);
    assert!(shader.source.contains("@binding(2) var<storage, read> tables"), "{}", shader.source);
    check_all("tables", [("a long table".to_owned(), program)].into_iter());
}

/// The lines of the op alone, behind those of its operands. What they call is the library's.
fn code_of_op(source: &str, operands: usize) -> String {
    let shader = lower(&parsed(source), &Options::DRIVER).expect("it has a shader");
    let last = format!("let {} = ", ["a", "b", "c", "d"][operands - 1]);
    let lines = shader.source.lines().map(str::trim);
    let mut code = String::new();
    for line in lines.skip_while(|line| !line.starts_with(&last)).skip(1) {
        let _ = writeln!(code, "  {line}");
        if line.starts_with("let r = ") {
            return code;
        }
    }
    panic!("no line gives the result:\n{}", shader.source)
}

#[test]
fn every_op_reads_well() {
    expect_file!["wgsl/ops.txt"].assert_eq(&ops_text(code_of_op));
}

#[test]
fn every_example_reads_well() {
    for (name, program) in example_files() {
        let source = lower(&program, &Options::DRIVER).expect("it has a shader").source;
        // Softened floats are the same in all, and tested by themselves.
        let shown = source.split("\n\n").filter(|part| !part.starts_with("fn soft_"));
        let shown = shown.collect::<Vec<_>>().join("\n\n");
        expect_file![format!("{}/tests/wgsl/{name}.wgsl", env!("CARGO_MANIFEST_DIR"))].assert_eq(&shown);
    }
}

#[test]
fn the_devices_own_floats_read_well() {
    let program = parsed(
        "program @own workgroup(64, 1, 1) {
           buffer @x : read f32[] binding 0
           buffer @y : read_write f32[] binding 1 output
           %i = global_id x
           %a = load.f32 @x[%i]
           %b = load.f32 @y[%i]
           %s = add.f32 %a, %b
           %p = mul.f32 %s, %a
           %q = div.f32 %p, %b
           %f = fma.f32 %q, %a, 1.5
           %g = sqrt.f32 %f
           %h = floor.f32 %g
           %c = lt.f32 %h, %g
           %n = cast.f32 %i
           %r = select.f32 %c, %n, %h
           store.f32 @y[%i], %r
         }",
    );
    let shader =
        |floats| lower(&program, &Options { floats, ..Options::DRIVER }).expect("it has a shader").source;
    // Whatever buffers are called, the functions still find what they call.
    for name in ["sqrt", "fma", "floor", "near", "divisor", "native_add_f32", "soft_add_f32", "is_ordinary"] {
        let renamed = text::print(program.program()).replace("@x", &format!("@{name}"));
        check_all(name, [(name.to_owned(), parsed(&renamed))].into_iter());
    }
    let native = shader(Floats::NATIVE);
    assert!(!native.contains("soft_"), "nothing is left of the softened functions: {native}");
    let guarded = shader(GUARDED);
    let shown = guarded.split("\n\n").filter(|part| !part.starts_with("fn soft_"));
    expect_file!["wgsl/native.wgsl"].assert_eq(&shown.collect::<Vec<_>>().join("\n\n"));
}
