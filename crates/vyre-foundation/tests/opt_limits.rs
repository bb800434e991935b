//! Programs at the limits of the language go through the optimiser, and it gives the same with and without an observer.

use std::fmt::Write;
use vyre_foundation::ir::walk;
use vyre_foundation::limits;
use vyre_foundation::opt::{optimise, optimise_with, schedule};
use vyre_foundation::text;
use vyre_foundation::validate::{ValidProgram, validate};

const HEADER: &str = "program @big workgroup(64, 1, 1) {\n  buffer @v : read_write u32[] binding 0 output\n";

fn valid(source: &str) -> ValidProgram {
    let parsed = text::parse(source).unwrap_or_else(|findings| panic!("{}", findings[0]));
    validate(&parsed.program).unwrap_or_else(|findings| panic!("{}", findings[0]))
}

/// Optimises both ways and gives the result.
fn check(source: &str) -> ValidProgram {
    let program = valid(source);
    let optimised = optimise(&program);
    let watched =
        optimise_with(&program, &schedule(), &mut |_, _| {}).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(optimised.program(), watched.program());
    optimised
}

fn lines(program: &ValidProgram) -> usize {
    let mut lines = 0;
    walk(&program.parts().body.block, |_, _, _| lines += 1);
    lines
}

#[test]
fn a_chain_of_functions_is_inlined_without_recursion() {
    let mut source = format!("{HEADER}  fn @f0(%x : u32) -> u32 {{\n    return %x\n  }}\n");
    for at in 1..limits::FUNCTIONS_MAX {
        writeln!(
            source,
            "  fn @f{at}(%x : u32) -> u32 {{\n    %a = call @f{}(%x)\n    %b = mul.u32 %a, %x\n    return %b\n  }}",
            at - 1
        )
        .expect("writing to a string");
    }
    writeln!(source, "  %g = global_id x\n  %r = call @f{}(%g)", limits::FUNCTIONS_MAX - 1)
        .expect("writing to a string");
    source.push_str("  store.u32 @v[%g], %r\n}\n");
    let optimised = check(&source);
    assert!(optimised.parts().functions.is_empty());
    assert_eq!(lines(&optimised), limits::FUNCTIONS_MAX + 1);
}

#[test]
fn doubling_calls_are_inlined() {
    let mut source =
        format!("{HEADER}  fn @f0(%x : u32) -> u32 {{\n    %y = mul.u32 %x, 3\n    return %y\n  }}\n");
    for at in 1..=12 {
        let below = at - 1;
        writeln!(
            source,
            "  fn @f{at}(%x : u32) -> u32 {{\n    %a = call @f{below}(%x)\n    %b = call @f{below}(%a)\n    return %b\n  }}"
        )
        .expect("writing to a string");
    }
    source.push_str("  %g = global_id x\n  %r = call @f12(%g)\n  store.u32 @v[%g], %r\n}\n");
    // 4096 multiplications by 3 are one by 3^4096.
    assert_eq!(lines(&check(&source)), 3);
}

#[test]
fn blocks_nest_to_the_limit() {
    let mut source = format!("{HEADER}  %n = len @v\n  var $s : u32 = 0\n");
    for at in 0..limits::NESTING_MAX {
        let line = match at % 3 {
            0 => format!("  for %k{at} in 0..%n {{\n  %t{at} = mul.u32 %n, {at}\n"),
            1 => format!("  %c{at} = gt.u32 %k{}, {at}\n  if %c{at} {{\n", at - 1),
            _ => format!("  if %c{} {{\n  }} else {{\n", at - 1),
        };
        source.push_str(&line);
    }
    source.push_str("  %a = get.u32 $s\n  %b = add.u32 %a, %k0\n  set.u32 $s, %b\n  store.u32 @v[%b], %t3\n");
    source.push_str(&"}\n".repeat(limits::NESTING_MAX + 1));
    check(&source);
}

#[test]
fn many_loops_and_branches_with_shared_locals() {
    let mut source = format!("{HEADER}  %g = global_id x\n  %n = len @v\n  var $s : u32 = 0\n");
    for at in 0..5000 {
        write!(
            source,
            "  for %k{at} in 0..%n {{
    %a{at} = get.u32 $s
    %c{at} = gt.u32 %a{at}, {at}
    if %c{at} {{
      set.u32 $s, %k{at}
      break
    }}
    store.u32 @v[%k{at}], %a{at}
  }}
"
        )
        .expect("writing to a string");
    }
    source.push_str("  %r = get.u32 $s\n  store.u32 @v[%g], %r\n}\n");
    check(&source);
}

#[test]
fn unrolling_is_bounded() {
    let mut source = format!("{HEADER}  %g = global_id x\n");
    for at in 0..2000 {
        writeln!(source, "  for %k{at} in 0..32 {{\n    store.u32 @v[%k{at}], %g\n  }}")
            .expect("writing to a string");
    }
    let before = lines(&valid(&format!("{source}}}\n")));
    let after = lines(&check(&format!("{source}}}\n")));
    assert!(after > before && after <= 2 * before + 4096, "{before} lines became {after}");
}
