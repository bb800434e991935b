//! A program prepared for a target is a program: on the reference it gives the same bytes, or the same trap.
//!
//! For every target of an emitter, over generated programs and the runs of the file tests. `VYRE_CASES` sets the number of
//! generated programs: `VYRE_CASES=20000 cargo test --release -p vyre-testkit --test prepare`.

use vyre_foundation::ir::DataType;
use vyre_generate::{Case, Config};
use vyre_lower::floats::{FloatOp, Floats, How};
use vyre_lower::prepare::{Target, prepare};
use vyre_lower::{ptx, spirv, wgsl};
use vyre_testkit::property::check;
use vyre_testkit::{compare, files};

const ALL: spirv::Options = spirv::Options {
    features: spirv::Features::ALL,
    floats: Floats::NATIVE.with(DataType::F32, FloatOp::Fma, How::Guarded),
    is_volatile: false,
};
const NONE: spirv::Options = spirv::Options {
    features: spirv::Features { int64: false, int64_atomics: false, float64: false, storage16: false },
    floats: Floats::SOFT,
    is_volatile: false,
};

/// The targets of all emitters.
fn targets() -> [(&'static str, Target<'static>); 7] {
    [
        ("the CPU", Target::NATIVE),
        ("PTX sm_70", ptx::Options { sm: 70, poll: false }.target()),
        ("PTX sm_90", ptx::Options { sm: 90, poll: true }.target()),
        ("SPIR-V with all features", ALL.target()),
        ("SPIR-V with none", NONE.target()),
        ("WGSL for our driver", wgsl::Form::Driver.target()),
        ("WGSL for the convention", wgsl::Form::Grid.target()),
    ]
}

/// Whether a case gives the same after it is prepared for each target.
fn keeps_results(case: &Case) -> Result<(), String> {
    let program = case.valid()?;
    for (name, target) in targets() {
        let prepared = prepare(&program, &target).map_err(|error| format!("{name}: {error}"))?;
        let code = |number: u32| match target.numbers_traps {
            true => prepared.traps[number as usize].0,
            false => number,
        };
        compare::same_outputs(case, &prepared.program, code).map_err(|difference| {
            let text = vyre_foundation::text::print(prepared.program.program());
            format!("prepared for {name}: {difference}\n{text}")
        })?;
    }
    Ok(())
}

#[test]
fn generated_programs_keep_their_bytes() {
    let config = Config::default();
    check(100, |source| vyre_generate::case(source, &config), keeps_results, compare::show);
}

#[test]
fn generated_programs_keep_their_first_trap() {
    let config = Config { traps: true, ..Config::default() };
    check(50, |source| vyre_generate::case(source, &config), keeps_results, compare::show);
}

#[test]
fn the_runs_of_files_keep_their_bytes() {
    let cases = files::cases(&["tests/ops", "tests/semantics", "examples"]);
    for (place, case) in &cases {
        keeps_results(case).unwrap_or_else(|difference| panic!("{place}: {difference}"));
    }
    assert!(cases.len() > 200, "only {} runs", cases.len());
}
