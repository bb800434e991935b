//! Every step from text to optimised program on 10k, 100k and 1M lines: the time per line must not grow.
//!
//! Shapes of program: `mixed` has what kernels have (loops, branches, locals, loads, stores, a barrier), `chain` is one
//! long block in which each line reads the one before, `loops` is one loop after the other, `carried` has locals whose
//! values need many trips to arrive, and `divergent` is wrong everywhere.

use divan::Bencher;
use divan::counter::ItemsCount;
use std::fmt::Write;
use vyre_foundation::ir::Program;
use vyre_foundation::opt::{optimise, range};
use vyre_foundation::text;
use vyre_foundation::validate::{ValidProgram, validate};

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];

fn main() {
    divan::main();
}

const HEADER: &str = "program @big workgroup(64, 1, 1) {
  buffer @x : read f32[] binding 0
  buffer @y : read_write f32[] binding 1 output
  buffer @v : read_write u32[] binding 2 output
  buffer @w : workgroup u32[64]
  %g = global_id x
  %l = local_id x
  %n = len @y
  var $acc : f32 = 0.0
  var $sum : u32 = 0
";

/// 25 lines that kernels have.
fn kernel_lines(text: &mut String, k: usize) {
    write!(
        text,
        "  %i{k} = add.u32 %g, {k}
  %ok{k} = lt.u32 %i{k}, %n
  if %ok{k} {{
    %x{k} = load.f32 @x[%i{k}]
    %y{k} = load.f32 @y[%i{k}]
    %m{k} = fma.f32 %x{k}, %y{k}, 0.5
    %a{k} = get.f32 $acc
    %b{k} = add.f32 %a{k}, %m{k}
    set.f32 $acc, %b{k}
    store.f32 @y[%i{k}], %b{k}
  }}
  for %j{k} in 0..%n {{
    %p{k} = mul.u32 %g, 8
    %q{k} = add.u32 %p{k}, %j{k}
    %s{k} = get.u32 $sum
    %t{k} = xor.u32 %s{k}, %q{k}
    set.u32 $sum, %t{k}
    %e{k} = eq.u32 %t{k}, {k}
    if %e{k} {{
      break
    }}
  }}
  %r{k} = get.u32 $sum
  store.u32 @w[%l], %r{k}
  barrier
  %z{k} = load.u32 @w[0]
  store.u32 @v[%i{k}], %z{k}
  barrier
"
    )
    .expect("writing to a string");
}

fn mixed(lines: usize) -> String {
    let mut text = HEADER.to_string();
    (0..lines / 25).for_each(|k| kernel_lines(&mut text, k));
    text + "}\n"
}

fn chain(lines: usize) -> String {
    let mut text = HEADER.to_string();
    text.push_str("  %c0 = add.u32 %g, 1\n");
    for k in 1..lines {
        let op = ["add", "xor", "mul", "min"][k % 4];
        writeln!(text, "  %c{k} = {op}.u32 %c{}, {}", k - 1, k % 97 + 2).expect("writing to a string");
    }
    writeln!(text, "  store.u32 @v[%g], %c{}\n}}", lines - 1).expect("writing to a string");
    text
}

fn loops(lines: usize) -> String {
    let mut text = HEADER.to_string();
    for k in 0..lines / 4 {
        write!(
            text,
            "  for %j{k} in 0..%n {{
    %d{k} = mul.u32 %g, {k}
    %e{k} = add.u32 %d{k}, %j{k}
    store.u32 @v[%e{k}], %g
  }}
"
        )
        .expect("writing to a string");
    }
    text + "}\n"
}

/// Locals that each take the value of the one before, in the wrong order and a hundred loops deep: a value needs a trip
/// of the loop for every step, and a checker that walks in circles needs a walk for each.
fn carried(lines: usize) -> String {
    let count = lines / 3;
    let declared = (0..count).map(|k| format!("  var $x{k} : u32 = 0\n"));
    let loops = (0..100).map(|k| format!("  for %j{k} in 0..2 {{\n"));
    let carried =
        (1..count).rev().map(|k| format!("  %v{k} = get.u32 $x{}\n  set.u32 $x{k}, %v{k}\n", k - 1));
    let end = format!("  set.u32 $x0, %l\n  barrier\n{}}}\n", "  }\n".repeat(100));
    HEADER.to_string() + &declared.chain(loops).chain(carried).collect::<String>() + &end
}

/// Barriers in divergent flow everywhere: the cost of finding and explaining.
fn divergent(lines: usize) -> String {
    let line = |k: usize| format!("  %c{k} = eq.u32 %l, {k}\n  if %c{k} {{\n    barrier\n  }}\n");
    HEADER.to_string() + &(0..lines / 3).map(line).collect::<String>() + "}\n"
}

fn owned(source: &str) -> String {
    source.to_owned()
}

fn parsed(source: &str) -> Program {
    text::parse(source).unwrap_or_else(|findings| panic!("{}", findings[0])).program
}

fn encoded(source: &str) -> Vec<u8> {
    parsed(source).to_bytes()
}

fn valid(source: &str) -> ValidProgram {
    validate(&parsed(source)).unwrap_or_else(|findings| panic!("{}", findings[0]))
}

/// `name: what is made ready from a shape, what is measured on it;`
macro_rules! steps {
    ($($name:ident: $ready:ident($shape:ident), $step:expr;)*) => {$(
        #[divan::bench(args = SIZES, max_time = 2)]
        fn $name(bencher: Bencher<'_, '_>, lines: usize) {
            let ready = $ready(&$shape(lines));
            bencher.counter(ItemsCount::new(lines)).bench_local(|| $step(&ready));
        }
    )*};
}

steps! {
    parse: owned(mixed), |source: &String| text::parse(source).expect("it parses");
    format: owned(mixed), |source: &String| text::format(source).expect("it parses");
    print: parsed(mixed), text::print;
    encode: parsed(mixed), Program::to_bytes;
    decode: encoded(mixed), |bytes: &Vec<u8>| Program::from_bytes(bytes).expect("it decodes");
    validate_mixed: parsed(mixed), |program: &Program| validate(program).expect("it is valid");
    validate_chain: parsed(chain), |program: &Program| validate(program).expect("it is valid");
    validate_carried: parsed(carried), |program: &Program| validate(program).expect("it is valid");
    validate_divergent: parsed(divergent), |program: &Program| validate(program).expect_err("divergent").len();
    optimise_mixed: valid(mixed), optimise;
    optimise_chain: valid(chain), optimise;
    optimise_loops: valid(loops), optimise;
    analyse_bounds: valid(mixed), range::analyse;
}
