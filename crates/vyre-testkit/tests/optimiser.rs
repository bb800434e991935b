//! Every pass keeps the reference's bytes, over generated programs.
//!
//! The long run is `VYRE_CASES=20000 cargo test --release -p vyre-testkit --test optimiser`.

use vyre_generate::Config;
use vyre_testkit::compare;
use vyre_testkit::dense;
use vyre_testkit::optimiser::keeps_results;
use vyre_testkit::property::check;

fn over(default: u64, config: &Config) {
    check(default, |source| vyre_generate::case(source, config), keeps_results, compare::show);
}

#[test]
fn passes_keep_results() {
    over(150, &Config { math: true, ..Config::default() });
}

#[test]
fn passes_keep_the_first_trap() {
    over(150, &Config { traps: true, ..Config::default() });
}

#[test]
fn passes_keep_results_of_small_integer_programs() {
    // Without the rest more of the lines are control flow, locals and memory.
    let config =
        Config { lines: 25, floats: false, wide: false, mma: false, collectives: false, ..Config::default() };
    over(150, &config);
}

#[test]
fn passes_keep_results_of_dense_programs() {
    check(600, |source| dense::case(source, false), keeps_results, compare::show);
}

#[test]
fn passes_keep_the_first_trap_of_dense_programs() {
    check(600, |source| dense::case(source, true), keeps_results, compare::show);
}
