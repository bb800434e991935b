//! Single float ops, one after the other in a loop: the cost of each exact op.
//!
//! Every lane runs a chain on a value near 1, with operands that are opaque to compilers. Every other operand is the reciprocal
//! of the one before, so that products and quotients stay near 1 however often the chain continues: subnormal
//! and infinite numbers take other branches. The plain baseline does the same ops in the same order.

use super::{floats, floats_mut};
use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, Written, groups};
use rayon::prelude::*;
use std::fmt::Write;

/// Trips of the loop, and ops in one.
const TRIPS: u32 = 64;
const COPIES: u32 = 8;

/// An op on the chain's value `%v` and an operand `%b`, giving `%w`.
struct Op {
    name: &'static str,
    about: &'static str,
    /// One line, or two with `%u` between them.
    lines: &'static [&'static str],
    apply: fn(f32, f32) -> f32,
}

const fn op(
    name: &'static str,
    about: &'static str,
    lines: &'static [&'static str],
    apply: fn(f32, f32) -> f32,
) -> Op {
    Op { name, about, lines, apply }
}

const TABLE: [Op; 8] = [
    op("f32_add", "sums of f32, one after the other", &["%w = add.f32 %v, %b"], |v, b| v + b),
    op("f32_mul", "products of f32", &["%w = mul.f32 %v, %b"], |v, b| v * b),
    op("f32_div", "quotients of f32", &["%w = div.f32 %v, %b"], |v, b| v / b),
    op("f32_sqrt", "square roots of f32", &["%w = sqrt.f32 %v"], |v, _| v.sqrt()),
    op("f32_fma", "fused products and sums of f32", &["%w = fma.f32 %v, %b, %b"], |v, b| v.mul_add(b, b)),
    op("f32_max", "maxima of f32", &["%w = max.f32 %v, %b"], f32::max),
    op("f32_floor", "floors and sums of f32", &["%u = floor.f32 %v", "%w = add.f32 %u, %b"], |v, b| {
        v.floor() + b
    }),
    op(
        "f32_cast",
        "f32 to i32 and back, and a sum",
        &["%u = cast.i32 %v", "%x = cast.f32 %u", "%w = add.f32 %x, %b"],
        |v, b| v as i32 as f32 + b,
    ),
];

/// The float ops, which are measured where they are named.
pub static OPS: [Benchmark; TABLE.len()] = [
    benchmark::<0>(),
    benchmark::<1>(),
    benchmark::<2>(),
    benchmark::<3>(),
    benchmark::<4>(),
    benchmark::<5>(),
    benchmark::<6>(),
    benchmark::<7>(),
];

const fn benchmark<const AT: usize>() -> Benchmark {
    Benchmark {
        name: TABLE[AT].name,
        about: TABLE[AT].about,
        unit: "lanes",
        size: 1 << 20,
        tiny: 67,
        size_min: 1,
        size_max: 1 << 30,
        power: 1,
        make: make::<AT>,
        ops: |size, _| TABLE[AT].lines.len() as u64 * u64::from(TRIPS * COPIES) * u64::from(size),
        kind: OpKind::F32,
        baselines: &[Baseline { label: PLAIN, run: plain::<AT> }],
    }
}

fn make<const AT: usize>(size: u32) -> Case {
    let mut loads = String::new();
    let mut copies = String::new();
    for copy in 0..COPIES {
        let _ = writeln!(loads, "    %b{copy} = load.f32 @b[{copy}]");
        for line in TABLE[AT].lines {
            let line = line.replace("%w", &format!("%v{}", copy + 1)).replace("%v,", &format!("%v{copy},"));
            let line = if line.ends_with("%v") { format!("{line}{copy}") } else { line };
            let line = ["%b", "%u", "%x"]
                .iter()
                .fold(line, |line, name| line.replace(name, &format!("{name}{copy}")));
            let _ = writeln!(copies, "      {line}");
        }
    }
    let source = format!(
        "program @op workgroup(64, 1, 1) {{
  buffer @b : read f32[{COPIES}] binding 0
  buffer @y : read_write f32[] binding 1 output
  %i = global_id x
  %n = len @y
  %live = lt.u32 %i, %n
  if %live {{
{loads}    %a = load.f32 @y[%i]
    var $v : f32 = %a
    for %t in 0..{TRIPS} {{
      %v0 = get.f32 $v
{copies}      set.f32 $v, %v{COPIES}
    }}
    %r = get.f32 $v
    store.f32 @y[%i], %r
  }}
}}"
    );
    let near_one = |at: u32| 1.0 + at as f32 / 1024.0;
    let operand = |copy: u32| if copy.is_multiple_of(2) { near_one(copy + 1) } else { 1.0 / near_one(copy) };
    let operands = (0..COPIES).map(|copy| operand(copy).to_bits()).collect();
    let start = (0..size).map(|at| near_one(at % 1024).to_bits()).collect();
    Case::single(&source, vec![operands], Written::update(start), [groups(size, 64), 1, 1])
}

fn plain<const AT: usize>(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let operands = floats(&read[0]);
    floats_mut(&mut write[0]).par_iter_mut().for_each(|y| {
        for _ in 0..TRIPS {
            *y = operands.iter().fold(*y, |v, b| (TABLE[AT].apply)(v, *b));
        }
    });
}
