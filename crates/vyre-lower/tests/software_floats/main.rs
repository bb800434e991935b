//! Programs with software floats against the originals, both on the reference: the same bytes, or the same trap.
//!
//! One-op programs cover every float row of the op table: all 65,536 operands of one-operand ops on 16-bit floats, all
//! pairs of edge values, and shaped random operands near midpoints, limits and cancellation. Generated programs cover
//! everything between. The counts are printed. `VYRE_CASES` sets the number of random operands an op, and of
//! generated programs: `VYRE_CASES=8000000 cargo test --release -p vyre-lower --test software_floats ops` takes ten minutes.

mod ops;
mod programs;

use vyre_foundation::ir::{DataType, Node, ProgramParts, value_types, walk};
use vyre_foundation::launch::{admit_buffers, indirect};
use vyre_foundation::text;
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_lower::prepare::{NativeFloats, Target, prepare};
use vyre_reference::{Launch, Options, RunError, run};

/// How many random cases to try: `VYRE_CASES`, or `default`.
fn cases_or(default: u64) -> u64 {
    std::env::var("VYRE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

/// No floats, and nothing else changed.
const INTEGERS: Target<'static> =
    Target { passes: &[], floats: NativeFloats::None, tidy: &[], numbers_traps: false, ..Target::NATIVE };

/// The program on integers, which must have no float type anywhere.
fn without_floats(program: &ValidProgram) -> ValidProgram {
    let soft = prepare(program, &INTEGERS)
        .unwrap_or_else(|error| panic!("{error}\n{}", text::print(program.program())))
        .program;
    if let Some(left) = float_left(soft.parts()) {
        panic!("{left} is left in\n{}", text::print(soft.program()));
    }
    soft
}

/// Something in a program that has a float type.
fn float_left(parts: &ProgramParts) -> Option<String> {
    let mut left = None;
    let mut see = |what: &str, ty: Option<DataType>| {
        if ty.is_some_and(DataType::is_float) {
            left = Some(what.to_owned());
        }
    };
    parts.buffers.iter().for_each(|buffer| see(&buffer.name, Some(buffer.ty)));
    let functions = parts.functions.iter().map(|function| (Some(function), &function.body));
    for (function, body) in functions.chain([(None, &parts.body)]) {
        if let Some(function) = function {
            see(&function.name, function.result);
        }
        for (name, ty) in body.values.iter().zip(value_types(body, function, &parts.functions)) {
            see(name, ty);
        }
        walk(&body.block, |_, _, node| {
            see("a suffix", node.suffix());
            if let Node::Var { ty, .. } = node {
                see("a local", Some(*ty));
            }
            node.for_each_operand(|operand| see("a literal", operand.literal().map(|literal| literal.ty())));
        });
    }
    left
}

/// What a run gives that the language promises: the buffers, or a trap's code and lane.
fn outcome(
    program: &ValidProgram,
    grid: Option<[u32; 3]>,
    buffers: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, String> {
    let launch = Launch { grid, buffers: buffers.to_vec() };
    match run(program, launch, &Options::default()) {
        Ok(outcome) => Ok(outcome.buffers),
        Err(RunError::Trap { code, lane, .. }) => Err(format!("trap {code} of lane {lane:?}")),
        Err(other) => panic!("{other}"),
    }
}

/// Runs both and fails at the first difference.
fn check(program: &ValidProgram, grid: Option<[u32; 3]>, buffers: &[Vec<u8>]) {
    let soft = without_floats(program);
    let expected = outcome(program, grid, buffers);
    // A program without collectives may ask for the size of the grid, and then derives none.
    let derives = grid.is_none() && indirect(program.parts()).is_none();
    let grid =
        if derives { admit_buffers(program, None, buffers).ok().map(|launch| launch.grid) } else { grid };
    let actual = outcome(&soft, grid, buffers);
    assert!(
        expected == actual,
        "{}\nbecame\n{}\nand gives {:02x?}\n   instead of {:02x?}",
        text::print(program.program()),
        text::print(soft.program()),
        actual,
        expected,
    );
}

#[test]
fn a_program_without_floats_stays_as_it_is() {
    let source = "program @p workgroup(1, 1, 1) {\n  %a = add.u32 1, 2\n  trap 3\n}";
    let program = validate(&text::parse(source).unwrap().program).unwrap();
    assert_eq!(without_floats(&program), program);
}
