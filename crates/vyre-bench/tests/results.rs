//! Every contender of every benchmark has the same results, bit for bit, at sizes that fit no block, tile or vector.

use vyre_bench::{BENCHMARKS, Baselines, Benchmark, MATH, OPS, Options, Outcome, run};

/// Runs one benchmark on the reference at one size. The tiny size is checked too, races included.
fn check(benchmark: &'static Benchmark, size: u32) {
    let options = Options {
        benchmarks: vec![benchmark],
        backends: vec!["reference".into()],
        sizes: vec![(benchmark.name, size)],
        baselines: Baselines::All,
        rounds: Some(1),
        quick: true,
    };
    let report = run(&options, &mut |_| ()).unwrap_or_else(|error| panic!("{}: {error}", benchmark.name));
    let [group] = report.groups.as_slice() else { panic!("{}: not one group", benchmark.name) };
    assert!(group.rows.len() >= 3, "{}: baselines and two modes", benchmark.name);
    for row in &group.rows {
        let place = format!("{} {size}: {}", benchmark.name, row.contender);
        match &row.outcome {
            Outcome::Measured(figures) => assert!(figures.times.wall.median_ns > 0.0, "{place}"),
            Outcome::Wrong(what) => panic!("{place}: {what}"),
            Outcome::Failed(error) => panic!("{place}: {error}"),
        }
    }
}

#[test]
fn elementary_functions() {
    MATH.iter().for_each(|benchmark| check(benchmark, 515));
}

#[test]
fn at_the_least_sizes() {
    for benchmark in BENCHMARKS.into_iter().chain(&OPS) {
        for size in benchmark.size_min..benchmark.size_min + 3 {
            check(benchmark, size);
        }
    }
}

#[test]
fn at_sizes_beyond_one_block() {
    let sizes = [
        ("mandelbrot", 65),
        ("matmul", 67),
        ("matmul", 64),
        ("matmul_tiled", 136),
        ("histogram", 1 << 18),
        ("tree", 65_537),
        ("sum", 4097),
        ("matmul_i8", 192),
        ("scan", 20_000),
        ("compact", 8193),
        ("sort", 8193),
        ("sha256", 129),
        ("dfa", 4000),
        ("stencil", 130),
    ];
    for (name, size) in sizes {
        let benchmark = BENCHMARKS.iter().find(|benchmark| benchmark.name == name).expect(name);
        check(benchmark, size);
    }
}
