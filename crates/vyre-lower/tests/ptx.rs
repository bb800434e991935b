//! PTX says how it rounds, on every line where that matters, and reads as it should.
//!
//! The code of every op and of every example is in `tests/ptx`, to be read, beside programs that reach what these do not. `UPDATE_EXPECT=1` writes it anew.
//!
//! Whether PTX assembles is tested in `ptxas.rs`. What the kernels compute is tested where there is a device: see the tests of
//! `vyre-driver-cuda`, which run these programs too.

mod common;

use common::{example_files, files, ops_text, parsed};
use expect_test::expect_file;
use vyre_foundation::text;
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_generate::{Config, seeded};
use vyre_lower::ptx::{Options, lower};

/// Why a line of PTX may round otherwise than the language says; `None` if it cannot.
fn inexact(line: &str) -> Option<&'static str> {
    let mut words = line.split_whitespace().filter(|word| !word.starts_with('@'));
    let name = words.next().unwrap_or_default();
    let rounds =
        ["add", "sub", "mul", "div", "fma", "sqrt"].iter().any(|stem| name.split('.').next() == Some(*stem));
    let is_float = [".f16", ".bf16", ".f32", ".f64"].iter().any(|ty| name.ends_with(ty));
    match name {
        _ if name.contains(".ftz") => Some("flushes subnormals"),
        _ if name.contains(".approx") || name.contains(".full") => Some("approximates"),
        _ if rounds && is_float && ![".rn", ".rz", ".rm", ".rp"].iter().any(|mode| name.contains(mode)) => {
            Some("may be contracted")
        }
        _ => None,
    }
}

/// A loop that can be stopped looks at the cancel word only where it may be long: it waits for the answer each time. A kernel
/// with loops looks once at its start.
#[test]
fn long_loops_look_whether_they_are_cancelled_and_short_ones_do_not() {
    let looks = |body: &str| {
        let source = format!(
            "program @p workgroup(64, 1, 1) {{
               buffer @y : read_write u32[] binding 0 output
               %i = global_id x
               %n = load.u32 @y[%i]
               {body}
             }}"
        );
        let program = validate(&text::parse(&source).expect("it parses").program).expect("it is valid");
        let module = lower(&program, &Options { sm: 90, poll: true }).expect("it is small");
        module.source.matches("[cancel]").count()
    };
    let store = "store.u32 @y[%j], %i";
    let many = "store.u32 @y[%j], %i\n".repeat(600);
    assert_eq!(looks("store.u32 @y[%i], %i"), 0);
    assert_eq!(looks(&format!("for %j in 0..64 {{\n{store}\n}}")), 1);
    assert_eq!(looks(&format!("for %j in 0..65000 {{\n{store}\n}}")), 2);
    assert_eq!(looks(&format!("for %j in 0..%n {{\n{store}\n}}")), 2);
    assert_eq!(looks(&format!("for %j in 0..64 {{\n{many}\n}}")), 2);
    // What the inner loops may leave out, the outer one does.
    assert_eq!(looks(&format!("for %k in 0..5000 {{\nfor %j in 0..64 {{\n{store}\n}}\n}}")), 2);
}

#[test]
fn every_device_has_a_target() {
    let header = |sm| {
        let source = "program @p workgroup(1, 1, 1) {\n  buffer @y : read_write u32[1] binding 0 output\n}";
        let program = validate(&text::parse(source).expect("it parses").program).expect("it is valid");
        let module = lower(&program, &Options { sm, poll: false }).expect("it is small");
        let lines: Vec<&str> = module.source.lines().skip(1).take(2).collect();
        lines.join(" ")
    };
    assert_eq!(header(90), ".version 7.8 .target sm_90");
    assert_eq!(header(120), ".version 8.7 .target sm_120");
    // Devices without a target of their own: one that has had two numbers, and one of the future.
    assert_eq!(header(101), ".version 8.6 .target sm_100");
    assert_eq!(header(130), ".version 8.8 .target sm_121");
}

#[test]
fn no_line_leaves_rounding_open() {
    let mut lines = 0;
    for seed in 0..300 {
        let case = seeded(seed, &Config { traps: seed % 4 == 0, ..Config::default() });
        let program = case.valid().expect("generated programs are valid");
        for sm in [70, 90] {
            let module = lower(&program, &Options { sm, poll: seed % 2 == 0 }).expect("the program is small");
            let declared = |name: &str| {
                let name = format!(" {name}");
                module.source.split(&name).skip(1).any(|rest| rest.starts_with([',', '\n']))
            };
            for line in module.source.lines() {
                assert_eq!(inexact(line), None, "{line}");
                let parameter = line.contains("ld.param").then(|| line.split(['[', ']']).nth(1)).flatten();
                assert!(parameter.is_none_or(declared), "no such parameter: {line}");
                lines += 1;
            }
        }
    }
    assert!(lines > 100_000, "almost nothing was tested: {lines} lines");
}

#[test]
fn what_is_inexact_is_found() {
    assert!(inexact("  add.f32 %r1, %r2, %r3;").is_some());
    assert!(inexact("  @%p1 fma.rn.ftz.f32 %r1, %r2, %r3, %r4;").is_some());
    assert!(inexact("  div.full.f32 %r1, %r2, %r3;").is_some());
    assert!(inexact("  add.rn.f32 %r1, %r2, %r3;").is_none());
    assert!(inexact("  add.u32 %r1, %r2, %r3;").is_none());
}

/// What the backend calls native is an instruction of the device.
#[test]
fn native_features_are_instructions() {
    let line = |header: &str, text: &str| {
        format!(
            "program @p workgroup(32, 1, 1){header} {{
               buffer @y : read_write u32[] binding 0 output
               %i = global_id x
               {text}
             }}"
        )
    };
    let reduce = "%r = subgroup_reduce_add.u32 %i\nstore.u32 @y[%i], %r";
    let half = |ty: &str, op: &str| {
        format!("%a = cast.{ty} %i\n%b = {op}.{ty} %a, %a, %a\n%r = cast.u32 %b\nstore.u32 @y[%i], %r")
    };
    let table = "%h = and.u32 %i, 1\n%at = shl.u32 %h, 1\n%next = add.u32 %at, 1\n%a = load.f64 @t[%at]\n\
                 %b = load.f64 @t[%next]\n%s = add.f64 %a, %b\n%r = cast.u32 %s\nstore.u32 @y[%i], %r";
    let declared = "const @t : f64[4] = [1.0, 2.0, 3.0, 4.0]\n%i = global_id x";
    let add = "%a = cast.f16 %i\n%b = add.f16 %a, %a\n%r = cast.u32 %b\nstore.u32 @y[%i], %r";
    let cases = [
        (line(" subgroup(32)", reduce), "shfl.sync.bfly.b32"),
        (line("", add), "add.rn.f16"),
        (line("", &half("f16", "fma")), "fma.rn.f16"),
        (line("", &half("bf16", "fma")), "fma.rn.bf16"),
        (line("", "barrier"), "barrier.sync"),
        (line("", table).replace("%i = global_id x", declared), "ld.global.nc.v2.b64"),
    ];
    for (source, instruction) in cases {
        let program = text::parse(&source).unwrap_or_else(|findings| panic!("{findings:?}")).program;
        let program = validate(&program).unwrap_or_else(|findings| panic!("{findings:?}"));
        for sm in [80, 90] {
            let module = lower(&program, &Options { sm, poll: false }).expect("it is small");
            assert!(module.source.contains(instruction), "no {instruction} in {}", module.source);
        }
    }
}

/// Lanes that never meet: what may share a thread.
fn apart(lines: u32) -> Config {
    Config {
        lines,
        barriers: false,
        grid_barriers: false,
        subgroups: false,
        mma: false,
        collectives: false,
        ..Config::default()
    }
}

#[test]
fn neighbours_share_threads_in_generated_programs() {
    let coarse = |seed| {
        let program = seeded(seed, &apart(8)).valid().expect("generated programs are valid");
        let module = lower(&program, &Options::default()).expect("the program is small");
        module.block_lanes > module.block[0]
    };
    let count = (0..400).filter(|seed| coarse(*seed)).count();
    assert!(count > 40, "only {count} of 400");
}

/// The instructions of the op alone, behind those of its operands.
fn code_of_op(source: &str, sm: u32) -> String {
    // Lanes that meet have a thread each.
    let source = source.replace("  store.", "  barrier\n  store.");
    let module = lower(&parsed(&source), &Options { sm, poll: false }).expect("it is small");
    let lines: Vec<&str> = module.source.lines().collect();
    let first = lines.iter().rposition(|line| line.contains("ld.global")).expect("it has operands");
    let code = lines[first + 1..].iter().take_while(|line| !line.contains("bar"));
    code.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn every_op_reads_well() {
    expect_file!["ptx/ops.txt"].assert_eq(&ops_text(|source, _| code_of_op(source, 90)));
}

/// What older devices compute otherwise: bf16 before sm_80.
#[test]
fn ops_of_bf16_read_well() {
    let mut text = String::new();
    for sm in [70, 80] {
        for (op, args) in [("add", "%a, %b"), ("fma", "%a, %b, %c")] {
            text += &format!(
                "{op}.bf16 on sm_{sm}\n{}\n",
                code_of_op(&on_bf16(&format!("{op}.bf16 {args}"), "bf16"), sm)
            );
        }
        for from in ["u32", "i32", "u64", "i64", "f16", "f32", "f64"] {
            text += &format!(
                "cast.bf16 of {from} on sm_{sm}\n{}\n",
                code_of_op(&on_bf16("cast.bf16 %a", from), sm)
            );
        }
    }
    expect_file!["ptx/ops_of_bf16.txt"].assert_eq(&text);
}

/// A program that computes one value of bf16 from one of another type.
fn on_bf16(op: &str, from: &str) -> String {
    format!(
        "program @p workgroup(64, 1, 1) {{
           buffer @x : read       {from}[] binding 0
           buffer @y : read_write bf16[]   binding 1 output
           %i = global_id x
           %a = load.{from} @x[%i]
           %j = shl.u32 %i, 1
           %b = load.{from} @x[%j]
           %k = shl.u32 %j, 1
           %c = load.{from} @x[%k]
           %r = {op}
           store.bf16 @y[%i], %r
         }}"
    )
}

fn check_module(name: &str, program: &ValidProgram, options: &Options) {
    let module = lower(program, options).expect("it is small");
    let poll = if options.poll { "_poll" } else { "" };
    let path = format!("{}/tests/ptx/{name}.sm_{}{poll}.ptx", env!("CARGO_MANIFEST_DIR"), options.sm);
    expect_file![path].assert_eq(&module.source);
}

#[test]
fn every_example_reads_well() {
    for (name, program) in example_files() {
        check_module(&name, &program, &Options { sm: 90, poll: true });
    }
}

#[test]
fn programs_read_well() {
    let paths = files("crates/vyre-lower/tests/ptx");
    for path in &paths {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("it has a name");
        let program = parsed(&std::fs::read_to_string(path).expect("readable"));
        // Products in the shapes of one warp are sm_80's.
        let devices: &[u32] = match name {
            "products" => &[80],
            "copied" => &[80, 90],
            _ => &[90],
        };
        for sm in devices {
            check_module(name, &program, &Options { sm: *sm, poll: name == "stops" });
        }
    }
    assert!(paths.len() > 10);
}
