//! How long programs take to compile: `cargo bench -p vyre-driver-cpu --bench compile`.
//!
//! From a program that nobody has seen before to machine code in memory: its digest, validation, the optimiser, the emitter.
//! First the kernels of `examples`: of those with about 50 instructions none may take more than 0.2 ms. Then programs of 1,000 to
//! 100,000 lines, where the time a line should not grow: `straight` is arithmetic between loads and stores, `mixed` has
//! branches, loops and barriers besides, and in `alive` every value waits for long while others come. Exits with 1 where the
//! best emitter of this processor breaks the bound.
//! `-- NAME...` measures only these of the emitters and programs: `-- avx512 mixed`.
#![allow(clippy::print_stdout)] // The table.

use std::fmt::Write;
use std::time::{Duration, Instant};
use vyre_driver::{DispatchConfig, VyreBackend};
use vyre_driver_cpu::{CpuBackend, CpuConfig, Emitter};
use vyre_foundation::text;
use vyre_testkit::repo;

/// What a kernel of as many instructions may take.
const BOUND: Duration = Duration::from_micros(200);
const BOUND_LINES: std::ops::RangeInclusive<u32> = 35..=60;
const EMITTERS: [(&str, Emitter); 3] =
    [("avx512", Emitter::Avx512), ("avx2", Emitter::Avx2), ("portable", Emitter::Portable)];
const LARGE: [usize; 3] = [1_000, 10_000, 100_000];
/// Cranelift takes ten times as long, and half a minute is enough.
const LARGE_PORTABLE_MAX: usize = 10_000;

fn main() {
    // Cargo's own argument is `--bench`. Without it this is a test: each example once, and no clock.
    let timed = std::env::args().any(|arg| arg == "--bench");
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let (emitters, programs): (Vec<_>, Vec<_>) =
        named.into_iter().partition(|name| EMITTERS.iter().any(|(known, _)| known == name));
    let asked = |list: &[String], name: &str| list.is_empty() || list.iter().any(|one| one == name);
    let (mut broken, mut best) = (Vec::new(), None);
    println!(
        "{:9} {:12} {:>7} {:>12} {:>12} {:>10}",
        "emitter", "program", "lines", "median", "fastest", "a line"
    );
    for (emitter_name, emitter) in EMITTERS {
        if !asked(&emitters, emitter_name) {
            continue;
        }
        let Ok(backend) = vyre_driver_cpu::open(&CpuConfig { emitter, ..CpuConfig::default() }) else {
            println!("{:9} SKIP: not on this processor", emitter_name);
            continue;
        };
        let is_best = *best.get_or_insert(emitter) == emitter;
        for path in repo::files("examples", "vyre") {
            let source = repo::read(&path).expect("listed files can be read");
            let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
            if text::parse(&source).is_err() || !asked(&programs, &name) {
                continue;
            }
            let (median, lines) = row(emitter_name, &name, &backend, &source, if timed { 201 } else { 1 });
            if timed && is_best && BOUND_LINES.contains(&lines) && median > BOUND {
                broken.push(name);
            }
        }
        let largest = if emitter == Emitter::Portable { LARGE_PORTABLE_MAX } else { usize::MAX };
        for lines in LARGE.into_iter().filter(|lines| timed && *lines <= largest) {
            for (name, source) in
                [("straight", straight as fn(usize) -> String), ("mixed", mixed), ("alive", alive)]
            {
                if asked(&programs, name) {
                    row(emitter_name, name, &backend, &source(lines), 5);
                }
            }
        }
    }
    if !broken.is_empty() {
        println!("\nBROKEN: more than {BOUND:?} for {}", broken.join(", "));
        std::process::exit(1);
    }
}

/// Measures a program and prints its line; the median, and its lines.
fn row(emitter: &str, name: &str, backend: &CpuBackend, source: &str, runs: usize) -> (Duration, u32) {
    let (times, lines) = times(backend, source, runs);
    let (median, fastest) = (times[times.len() / 2], times[0]);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{:9} {name:12} {lines:7} {:>9.3} ms {:>9.3} ms {:>7.2} us",
        emitter,
        ms(median),
        ms(fastest),
        ms(median) * 1e3 / f64::from(lines.max(1))
    );
    (median, lines)
}

/// The times to compile a program in ascending order, and its lines. Each run has a program of its own name, so that no cache has it.
fn times(backend: &CpuBackend, source: &str, runs: usize) -> (Vec<Duration>, u32) {
    let program = |run: usize| {
        let named = source.replacen("program @", &format!("program @run{run}_"), 1);
        text::parse(&named).unwrap_or_else(|findings| panic!("{}", findings[0])).program
    };
    let mut times: Vec<Duration> = (0..runs)
        .map(|run| {
            let program = program(run);
            let start = Instant::now();
            backend.compile_native(&program, &DispatchConfig::default()).expect("it compiles");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let program = program(0);
    let parts = program.parts();
    let mut lines = 0;
    for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
        vyre_foundation::ir::walk(&body.block, |_, _, _| lines += 1);
    }
    (times, lines)
}

/// Arithmetic on what is loaded, stored now and then.
fn straight(lines: usize) -> String {
    let mut text = "program @straight workgroup(64, 1, 1) {
  buffer @x : read f32[] binding 0
  buffer @y : read_write f32[] binding 1 output
  %g = global_id x
  %c0 = load.f32 @x[%g]
"
    .to_owned();
    for k in 1..lines - 2 {
        let last = k - 1;
        match k % 20 {
            0 => write!(text, "  store.f32 @y[%g], %c{last}\n  %c{k} = load.f32 @x[%g]\n"),
            place => {
                let op = ["add", "mul", "sub", "min"][place % 4];
                writeln!(text, "  %c{k} = {op}.f32 %c{last}, {k}.5")
            }
        }
        .expect("writing to a string");
    }
    text + &format!("  store.f32 @y[%g], %c{}\n}}\n", lines - 3)
}

/// What kernels have: branches, loops, locals, loads, stores, barriers.
fn mixed(lines: usize) -> String {
    let mut text = "program @mixed workgroup(64, 1, 1) {
  buffer @x : read f32[] binding 0
  buffer @y : read_write f32[] binding 1 output
  buffer @w : workgroup u32[64]
  %g = global_id x
  %l = local_id x
  %n = len @y
  var $acc : f32 = 0.0
  var $sum : u32 = 0
"
    .to_owned();
    for k in 0..lines / 20 {
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
    %q{k} = add.u32 %i{k}, %j{k}
    %s{k} = get.u32 $sum
    %t{k} = xor.u32 %s{k}, %q{k}
    set.u32 $sum, %t{k}
  }}
  %r{k} = get.u32 $sum
  store.u32 @w[%l], %r{k}
  barrier
  %z{k} = load.u32 @w[{}]
  set.u32 $sum, %z{k}
",
            k % 64
        )
        .expect("writing to a string");
    }
    text + "}\n"
}

/// Values that are read long after they are assigned, so that most have no register.
fn alive(lines: usize) -> String {
    const WAITING: usize = 300;
    let mut text = "program @alive workgroup(64, 1, 1) {
  buffer @x : read f32[] binding 0
  buffer @y : read_write f32[] binding 1 output
  %g = global_id x
  %s0 = load.f32 @x[%g]
"
    .to_owned();
    let values = lines / 4;
    for k in 0..values {
        let earlier = if k < WAITING { format!("%s{k}") } else { format!("%v{}", k - WAITING) };
        write!(
            text,
            "  %i{k} = add.u32 %g, {k}
  %v{k} = load.f32 @x[%i{k}]
  %m{k} = mul.f32 %s{k}, 0.5
  %s{} = add.f32 %m{k}, {earlier}
",
            k + 1
        )
        .expect("writing to a string");
    }
    text + &format!("  store.f32 @y[%g], %s{values}\n}}\n")
}
