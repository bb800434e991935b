//! The scalar rows of the WebAssembly test suite, through `scalar::meaning` and through the whole path.
//!
//! A row is an `assert_return` or `assert_trap` on an exported function. The function becomes a list of the
//! language's ops (`lower`), and the row's expectation is kept, or translated where the language's rules differ
//! (`rules`). Nothing is skipped silently: rows taken, translated by rule, and left out by reason are printed and
//! held by the test.
//!
//! The tests of the conformance suite send the same rows through its own path.

use std::io::Write;
use vyre_foundation::scalar::observe;
use vyre_testkit::wasm::lower::value_of;
use vyre_testkit::wasm::path;
use vyre_testkit::wasm::rules::Rule;
use vyre_testkit::wasm::suite::{Counts, observed, suites};

#[test]
fn rows_agree() {
    let mut out = std::io::stderr();
    let mut total = Counts::default();
    let mut mismatches = Vec::new();
    for (name, suite) in suites() {
        for row in &suite.rows {
            let (export, function) = &suite.functions[row.function];
            let values = function.run(&row.params);
            let ty = function.type_of(function.result);
            let ours = observe(ty, value_of(function.result, &row.params, &values));
            let theirs = observed(ty, &row.expected);
            if ours != theirs {
                mismatches.push(format!("{} {export} {:x?}: {ours:#x}, not {theirs:#x}", row.at, row.params));
            }
        }
        let counts = suite.counts;
        let translated: u64 = counts.translated.values().sum();
        let left_out: u64 = counts.left_out.values().sum();
        let _ = writeln!(
            out,
            "{name:<18} {:>5} rows taken, {translated:>3} of them translated, {left_out:>3} left out",
            counts.taken
        );
        total.taken += counts.taken;
        counts.translated.into_iter().for_each(|(rule, n)| *total.translated.entry(rule).or_default() += n);
        counts.left_out.into_iter().for_each(|(reason, n)| *total.left_out.entry(reason).or_default() += n);
    }
    let _ = writeln!(out, "total {} rows taken, {} mismatches", total.taken, mismatches.len());
    for (rule, n) in &total.translated {
        let _ = writeln!(out, "  translated {n:>4}: {rule}");
    }
    for (reason, n) in &total.left_out {
        let _ = writeln!(out, "  left out   {n:>4}: {reason}");
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
    // A suite that no longer matches what is looked for must not read as a pass.
    assert!(total.taken > 13_000, "only {} rows were taken", total.taken);
    for rule in Rule::ALL {
        assert!(total.translated.contains_key(&rule), "no row shows: {rule}");
    }
}

/// The same rows as text programs, from the parser to the reference, as written and optimised.
#[test]
fn rows_agree_through_text_and_reference() {
    const RUNS: [&str; 4] = ["buffers", "buffers, optimised", "literals", "literals, optimised"];
    let mut compared = [0; 4];
    let mut mismatches = Vec::new();
    for (_, suite) in suites() {
        for (index, (export, function)) in suite.functions.iter().enumerate() {
            let rows: Vec<_> = suite.rows.iter().filter(|row| row.function == index).collect();
            if rows.is_empty() {
                continue;
            }
            let ty = function.type_of(function.result);
            let params: Vec<&[u64]> = rows.iter().map(|row| row.params.as_slice()).collect();
            for (run, results) in path::results(function, &params).into_iter().enumerate() {
                assert_eq!(results.len(), rows.len());
                for (row, ours) in rows.iter().zip(results) {
                    compared[run] += 1;
                    let theirs = observed(ty, &row.expected);
                    if ours != theirs {
                        let at = format!("{} {export} {:x?} ({})", row.at, row.params, RUNS[run]);
                        mismatches.push(format!("{at}: {ours:#x}, not {theirs:#x}"));
                    }
                }
            }
        }
    }
    for (run, count) in RUNS.iter().zip(compared) {
        let _ = writeln!(std::io::stderr(), "{run:<20} {count} rows compared");
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}
