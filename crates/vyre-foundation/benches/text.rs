//! Reading, printing and formatting programs of 10k, 100k and 1M lines: time must grow with the size and no faster.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use vyre_foundation::text;

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];

fn main() {
    divan::main();
}

/// Lines as kernels have them: loads, arithmetic, literals, blocks, each value with a name of its own.
fn source(lines: usize) -> String {
    let mut source =
        "program @long workgroup(64, 1, 1) {\n  buffer @x : read_write f32[] binding 0 output\n\n"
            .to_string();
    source.push_str("  %i = global_id x\n");
    for at in 0..lines / 10 {
        source.push_str(&format!(
            "  %a{at} = load.f32 @x[%i]\n  %b{at} = add.u32 %i, {at}\n  %c{at} = load.f32 @x[%b{at}]\n  \
             %d{at} = fma.f32 %a{at}, 0.5, %c{at}\n  %e{at} = lt.f32 %d{at}, {at}.25\n  if %e{at} {{\n    \
             %f{at} = mul.f32 %d{at}, %d{at}\n    store.f32 @x[%i], %f{at}\n  }}\n"
        ));
    }
    source.push_str("}\n");
    text::format(&source).expect("the source parses")
}

#[divan::bench(args = SIZES)]
fn parse(bencher: Bencher<'_, '_>, lines: usize) {
    let source = source(lines);
    bencher
        .counter(ItemsCount::new(source.lines().count()))
        .counter(BytesCount::new(source.len()))
        .bench_local(|| text::parse(&source).expect("the source parses"));
}

#[divan::bench(args = SIZES)]
fn print(bencher: Bencher<'_, '_>, lines: usize) {
    let source = source(lines);
    let program = text::parse(&source).expect("the source parses").program;
    bencher
        .counter(ItemsCount::new(source.lines().count()))
        .counter(BytesCount::new(source.len()))
        .bench_local(|| text::print(&program));
}

#[divan::bench(args = SIZES)]
fn format(bencher: Bencher<'_, '_>, lines: usize) {
    let source = source(lines);
    bencher
        .counter(ItemsCount::new(source.lines().count()))
        .counter(BytesCount::new(source.len()))
        .bench_local(|| text::format(&source).expect("the source parses"));
}
