//! Every step from text to optimised program on 10k, 100k and 1M lines: the time per line must not grow.
//!
//! Three shapes of program: `mixed` has what kernels have (loops, branches, locals, loads, stores, a barrier), `chain` is
//! one long block in which each line reads the one before, and `loops` is one loop after the other.

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

fn parsed(source: &str) -> Program {
    text::parse(source).unwrap_or_else(|findings| panic!("{}", findings[0])).program
}

fn valid(source: &str) -> ValidProgram {
    validate(&parsed(source)).unwrap_or_else(|findings| panic!("{}", findings[0]))
}

#[divan::bench(args = SIZES, max_time = 2)]
fn parse(bencher: Bencher<'_, '_>, lines: usize) {
    let source = mixed(lines);
    bencher.counter(ItemsCount::new(lines)).bench_local(|| text::parse(&source).expect("it parses"));
}

#[divan::bench(args = SIZES, max_time = 2)]
fn check(bencher: Bencher<'_, '_>, lines: usize) {
    let program = parsed(&mixed(lines));
    bencher.counter(ItemsCount::new(lines)).bench_local(|| validate(&program).expect("it is valid"));
}

#[divan::bench(args = SIZES, max_time = 2)]
fn optimise_mixed(bencher: Bencher<'_, '_>, lines: usize) {
    let program = valid(&mixed(lines));
    bencher.counter(ItemsCount::new(lines)).bench_local(|| optimise(&program));
}

#[divan::bench(args = SIZES, max_time = 2)]
fn optimise_chain(bencher: Bencher<'_, '_>, lines: usize) {
    let program = valid(&chain(lines));
    bencher.counter(ItemsCount::new(lines)).bench_local(|| optimise(&program));
}

#[divan::bench(args = SIZES, max_time = 2)]
fn optimise_loops(bencher: Bencher<'_, '_>, lines: usize) {
    let program = valid(&loops(lines));
    bencher.counter(ItemsCount::new(lines)).bench_local(|| optimise(&program));
}

#[divan::bench(args = SIZES, max_time = 2)]
fn analyse_bounds(bencher: Bencher<'_, '_>, lines: usize) {
    let program = valid(&mixed(lines));
    bencher.counter(ItemsCount::new(lines)).bench_local(|| range::analyse(&program));
}

#[divan::bench(args = SIZES, max_time = 2)]
fn print(bencher: Bencher<'_, '_>, lines: usize) {
    let program = parsed(&mixed(lines));
    bencher.counter(ItemsCount::new(lines)).bench_local(|| text::print(&program));
}

#[divan::bench(args = SIZES, max_time = 2)]
fn encode(bencher: Bencher<'_, '_>, lines: usize) {
    let program = parsed(&mixed(lines));
    bencher.counter(ItemsCount::new(lines)).bench_local(|| program.to_bytes());
}

#[divan::bench(args = SIZES, max_time = 2)]
fn decode(bencher: Bencher<'_, '_>, lines: usize) {
    let bytes = parsed(&mixed(lines)).to_bytes();
    bencher.counter(ItemsCount::new(lines)).bench_local(|| Program::from_bytes(&bytes).expect("it decodes"));
}
