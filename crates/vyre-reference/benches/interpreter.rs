//! How many lines the interpreter runs in a second on one core: `cargo bench -p vyre-reference`.
//!
//! The items that divan counts are lane-instructions, so its `item/s` column is the number to read.

use divan::Bencher;
use divan::counter::ItemsCount;
use vyre_foundation::text::parse;
use vyre_foundation::validate::{ValidProgram, validate};
use vyre_reference::{Launch, Options, run};

fn main() {
    divan::main();
}

/// 64 rounds of an integer hash on every element.
const MIX: &str = "program @mix workgroup(64, 1, 1) {
  buffer @y : read_write u32[] binding 0 output
  %i = global_id x
  %x = load.u32 @y[%i]
  var $h : u32 = %x
  for %r in 0..64 {
    %a = get.u32 $h
    %b = shr.u32 %a, 16
    %c = xor.u32 %a, %b
    %d = mul.u32 %c, 0x85ebca6b
    %e = rotl.u32 %d, 13
    %f = add.u32 %e, %r
    set.u32 $h, %f
  }
  %h = get.u32 $h
  store.u32 @y[%i], %h
}";

/// A few instructions for each of many lanes.
const SAXPY: &str = "program @saxpy workgroup(64, 1, 1) {
  buffer @a : uniform    f32[1] binding 0
  buffer @x : read       f32[]  binding 1
  buffer @y : read_write f32[]  binding 2 output
  %i    = global_id x
  %n    = len @y
  %live = lt.u32 %i, %n
  if %live {
    %ai = load.f32 @a[0]
    %xi = load.f32 @x[%i]
    %yi = load.f32 @y[%i]
    %r  = fma.f32 %ai, %xi, %yi
    store.f32 @y[%i], %r
  }
}";

/// A tree reduction: lanes wait for each other at every step.
const REDUCE: &str = "program @reduce workgroup(256, 1, 1) {
  buffer @x : read       u32[] binding 0
  buffer @s : read_write u32[] binding 1 output
  buffer @t : workgroup  u32[256]
  %g = global_id x
  %i = local_id x
  %x = load.u32 @x[%g]
  store.u32 @t[%i], %x
  barrier
  for %k in 0..8 {
    %s = shr.u32 128, %k
    %low = lt.u32 %i, %s
    if %low {
      %j = add.u32 %i, %s
      %a = load.u32 @t[%i]
      %b = load.u32 @t[%j]
      %c = add.u32 %a, %b
      store.u32 @t[%i], %c
    }
    barrier
  }
  %first = eq.u32 %i, 0
  if %first {
    %w = workgroup_id x
    %r = load.u32 @t[0]
    store.u32 @s[%w], %r
  }
}";

fn program(source: &str) -> ValidProgram {
    let parsed = parse(source).expect("the kernel parses");
    validate(&parsed.program).expect("the kernel is valid")
}

fn bench(bencher: Bencher<'_, '_>, source: &str, sizes: &[usize], grid: u32, check: bool) {
    let program = program(source);
    let options = Options { check, ..Options::default() };
    let launch = || Launch {
        grid: Some([grid, 1, 1]),
        buffers: sizes.iter().map(|bytes| (0..*bytes).map(|i| (i * 7) as u8).collect()).collect(),
    };
    let outcome = run(&program, launch(), &options).expect("the kernel runs");
    bencher
        .counter(ItemsCount::new(outcome.lane_instructions))
        .with_inputs(launch)
        .bench_local_values(|launch| run(&program, launch, &options));
}

#[divan::bench(args = [false, true])]
fn mix_64_rounds(bencher: Bencher<'_, '_>, check: bool) {
    bench(bencher, MIX, &[16384 * 4], 256, check);
}

#[divan::bench(args = [false, true])]
fn saxpy(bencher: Bencher<'_, '_>, check: bool) {
    bench(bencher, SAXPY, &[4, 65536 * 4, 65536 * 4], 1024, check);
}

#[divan::bench(args = [false, true])]
fn tree_reduce(bencher: Bencher<'_, '_>, check: bool) {
    bench(bencher, REDUCE, &[65536 * 4, 256 * 4], 256, check);
}

/// One workgroup of a program with so many lines: compiling counts, and registers must be used again.
#[divan::bench(args = [10_000, 100_000, 1_000_000])]
fn long_program(bencher: Bencher<'_, '_>, lines: usize) {
    let mut source = String::from(
        "program @long workgroup(64, 1, 1) {\n  buffer @y : read_write u32[] binding 0 output\n  %v0 = global_id x\n",
    );
    for line in 1..lines {
        source += &format!("  %v{line} = add.u32 %v{}, {line}\n", line - 1);
        if line % 1000 == 0 {
            source += "  barrier\n";
        }
    }
    source += &format!("  store.u32 @y[0], %v{}\n}}", lines - 1);
    bench(bencher, &source, &[256], 1, false);
}
