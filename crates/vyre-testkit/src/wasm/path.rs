//! Rows through the whole path: text, parser, validator, optimiser, reference.
//!
//! A function's rows become two programs. In one, every lane loads a row's parameters from buffers; in the other, the
//! rows follow one another with their parameters as literals, which is what constant folding sees. Both run as
//! written and optimised.

use super::lower::{Function, Operand};
use std::fmt::Write;
use vyre_foundation::ir::{ComputeOp, DataType, Literal};
use vyre_foundation::opt::optimise;
use vyre_foundation::scalar::narrow;
use vyre_foundation::text::{parse, print_literal};
use vyre_foundation::validate::validate;
use vyre_reference::{Launch, Options, run};

/// What each of the four runs gives for each row, as bits.
pub fn results(function: &Function, rows: &[&[u64]]) -> [Vec<u64>; 4] {
    let by_lanes = run_text(&lanes(function), function, rows, true);
    let by_lines = run_text(&lines(function, rows), function, rows, false);
    let [a, b] = by_lanes;
    let [c, d] = by_lines;
    [a, b, c, d]
}

/// One program for all rows: lane i computes row i.
pub fn lanes(function: &Function) -> String {
    let mut text = String::from("program @rows workgroup(64, 1, 1) {\n");
    for (i, ty) in function.params.iter().enumerate() {
        let _ = writeln!(text, "  buffer @p{i} : read {ty}[] binding {i}");
    }
    let result = function.type_of(function.result);
    let _ = writeln!(text, "  buffer @r : read_write {result}[] binding {} output", function.params.len());
    text.push_str("  %i = global_id x\n  %n = len @r\n  %live = lt.u32 %i, %n\n  if %live {\n");
    for (i, ty) in function.params.iter().enumerate() {
        let _ = writeln!(text, "  %p{i} = load.{ty} @p{i}[%i]");
    }
    steps(&mut text, function, "", |i| format!("%p{i}"));
    let _ = writeln!(
        text,
        "  store.{result} @r[%i], {}",
        operand(function, function.result, "", false, &|i| format!("%p{i}"))
    );
    text.push_str("  }\n}\n");
    text
}

/// One program with every row written out.
fn lines(function: &Function, rows: &[&[u64]]) -> String {
    let result = function.type_of(function.result);
    let mut text = format!(
        "program @rows workgroup(1, 1, 1) {{\n  buffer @r : read_write {result}[] binding 0 output\n"
    );
    for (row, params) in rows.iter().enumerate() {
        let prefix = format!("r{row}_");
        let param = |i: usize| print_literal(Literal::from_bits(function.params[i], params[i]));
        steps(&mut text, function, &prefix, param);
        let value = operand(function, function.result, &prefix, false, &param);
        let _ = writeln!(text, "  store.{result} @r[{row}], {value}");
    }
    text.push_str("}\n");
    text
}

fn steps(text: &mut String, function: &Function, prefix: &str, param: impl Fn(usize) -> String) {
    for (i, step) in function.steps.iter().enumerate() {
        // Nothing gives the type of a literal there, so it needs a suffix.
        let suffixed = matches!(step.op, ComputeOp::Cast | ComputeOp::Bitcast);
        let args: Vec<_> =
            step.args.iter().map(|arg| operand(function, *arg, prefix, suffixed, &param)).collect();
        let _ = writeln!(text, "  %{prefix}s{i} = {}.{} {}", step.op.info().name, step.ty, args.join(", "));
    }
}

fn operand(
    function: &Function,
    operand: Operand,
    prefix: &str,
    suffixed: bool,
    param: &impl Fn(usize) -> String,
) -> String {
    let literal = match operand {
        Operand::Step(i) => return format!("%{prefix}s{i}"),
        Operand::Param(i) => param(i),
        Operand::Constant(ty, bits) => print_literal(Literal::from_bits(ty, bits)),
    };
    let ty = function.type_of(operand);
    match suffixed && !literal.starts_with('%') {
        false => literal,
        true if literal.ends_with(|c: char| c.is_ascii_digit()) => format!("{literal}{ty}"),
        true => format!("{literal}_{ty}"),
    }
}

/// Runs a program as written and optimised.
fn run_text(text: &str, function: &Function, rows: &[&[u64]], with_params: bool) -> [Vec<u64>; 2] {
    let parsed = parse(text).unwrap_or_else(|findings| panic!("{text}\n{}", findings[0]));
    let written = validate(&parsed.program).unwrap_or_else(|findings| panic!("{text}\n{}", findings[0]));
    let optimised = optimise(&written);
    let mut buffers = Vec::new();
    if with_params {
        for (i, ty) in function.params.iter().enumerate() {
            buffers.push(column(*ty, rows.iter().map(|row| row[i])));
        }
    }
    let result = function.type_of(function.result);
    buffers.push(column(result, rows.iter().map(|_| 0)));
    [&written, &optimised].map(|program| {
        let grid = Some([if with_params { rows.len().div_ceil(64) as u32 } else { 1 }, 1, 1]);
        let launch = Launch { grid, buffers: buffers.clone() };
        let options = Options { check: true, ..Options::default() };
        let outcome = run(program, launch, &options).unwrap_or_else(|error| panic!("{text}\n{error}"));
        assert!(outcome.findings.is_empty(), "{text}\n{:?}", outcome.findings);
        let bytes = outcome.buffers.last().expect("the output is bound last");
        bytes.chunks(result.bytes()).map(|chunk| vyre_foundation::scalar::widen(result, chunk)).collect()
    })
}

/// Values as the bytes of a buffer.
pub fn column(ty: DataType, values: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for bits in values {
        let at = bytes.len();
        bytes.resize(at + ty.bytes(), 0);
        narrow(ty, bits, &mut bytes[at..]);
    }
    bytes
}
