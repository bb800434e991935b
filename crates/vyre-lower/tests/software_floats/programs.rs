//! Whole programs.

use crate::{INTEGERS, cases_or, check, outcome, without_floats};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::limits::FUNCTIONS_MAX;
use vyre_foundation::opt::optimise;
use vyre_foundation::text;
use vyre_foundation::validate::validate;
use vyre_generate::{Config, edge, seeded};
use vyre_lower::prepare::prepare;

#[test]
fn generated_programs_keep_their_bytes() {
    for seed in 0..cases_or(300) {
        let config = Config { traps: seed % 4 == 0, ..Config::default() };
        let case = seeded(seed, &config);
        check(&case.valid().expect("generated programs are valid"), case.grid, &case.buffers);
    }
}

#[test]
fn optimised_programs_keep_their_bytes_before_and_after() {
    for seed in 0..cases_or(300) / 10 {
        let case = seeded(seed, &Config::default());
        let program = case.valid().expect("generated programs are valid");
        let expected = outcome(&program, case.grid, &case.buffers);
        for (what, soft) in
            [("before", without_floats(&optimise(&program))), ("after", optimise(&without_floats(&program)))]
        {
            let actual = outcome(&soft, case.grid, &case.buffers);
            assert!(expected == actual, "optimised {what}:\n{}", text::print(program.program()));
        }
    }
}

/// Programs that say one thing each, run on elements rich in edge values.
#[test]
fn single_facts_hold() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/software_floats");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "vyre")).collect();
    assert!(!files.is_empty());
    for path in files {
        let source = &std::fs::read_to_string(path).unwrap();
        let parsed = text::parse(source).unwrap_or_else(|findings| panic!("{findings:?}\n{source}"));
        let program = validate(&parsed.program).unwrap_or_else(|findings| panic!("{findings:?}\n{source}"));
        let parts = program.parts();
        for seed in 0..20 {
            let contents = bound_buffers(parts).into_iter().map(|id| {
                let buffer = parts.buffer(id);
                edge::data(buffer.ty, buffer.len.expect("a length") as usize, seed + u64::from(id.0))
            });
            check(&program, Some([1, 1, 1]), &contents.collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_passes_a_limit_is_refused() {
    let functions: String = (0..FUNCTIONS_MAX).map(|at| format!("  fn @f{at}() {{\n  }}\n")).collect();
    let source = format!("program @full workgroup(1, 1, 1) {{\n{functions}  %a = add.f32 1.0, 2.0\n}}");
    let program = validate(&text::parse(&source).unwrap().program).unwrap();
    let error = prepare(&program, &INTEGERS).err().expect("it is too large").to_string();
    assert!(error.contains("4098 functions") && error.contains("\n  Fix: "), "{error}");
}
