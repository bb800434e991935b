//! `vyre test`: runs the tests in program files.

use crate::args::Files;
use crate::load::{self, Contents};
use crate::report::{BAD, FINDINGS, Failure, GOOD, OK, Report, highlight, paint};
use serde_json::{Value, json};
use std::path::Path;
use vyre::filetest::{self, Case, CaseResult};

/// How often each result came.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

pub(crate) fn run(args: &Files, report: &Report) -> Result<u8, Failure> {
    let mut tally = Tally::default();
    let mut cases = Vec::new();
    let mut exit = OK;
    for (file, found) in load::expand(&args.files, &["vyre", "vyreb"]) {
        let name = load::shown(&file);
        let tested = match found.and_then(|()| test(&file, &name)) {
            Ok(tested) => tested,
            Err(failure) => {
                // A file that cannot be read is worse than one that is wrong.
                exit = exit.max(failure.exit());
                let what = if failure.exit() == FINDINGS { "check" } else { "read" };
                vec![Case { line: 1, what, result: CaseResult::Failed(plain(&failure)) }]
            }
        };
        for case in tested {
            cases.push(tell(&name, &case, &mut tally, report));
        }
    }
    let Tally { passed, failed, skipped } = tally;
    report.json(|| json!({ "passed": passed, "failed": failed, "skipped": skipped, "cases": cases }));
    let style = if failed == 0 { GOOD } else { BAD };
    let sum = format!("{passed} passed, {failed} failed, {skipped} skipped");
    report.text(&format!("{}\n", paint(style, &sum)));
    Ok(if failed > 0 { exit.max(FINDINGS) } else { exit })
}

fn test(file: &Path, name: &str) -> Result<Vec<Case>, Failure> {
    match load::contents(file)? {
        Contents::Text(source) => Ok(filetest::test(name, &source, &load::folder(file))),
        // A wire form has no directives, so all it can be is valid.
        Contents::Wire(_) => {
            load::program(file)?.valid()?;
            Ok(vec![Case { line: 1, what: "check", result: CaseResult::Passed }])
        }
    }
}

/// Shows and counts one case.
fn tell(name: &str, case: &Case, tally: &mut Tally, report: &Report) -> Value {
    let place = format!("{name}:{}", case.line);
    let what = case.what;
    let (result, message) = match &case.result {
        CaseResult::Passed => {
            tally.passed += 1;
            report.text(&format!("{} {what:<9} {place}\n", paint(GOOD, "ok  ")));
            ("passed", None)
        }
        CaseResult::Failed(message) => {
            tally.failed += 1;
            let message = message.trim_end();
            report.text(&format!("{} {what:<9} {place}\n", paint(BAD, "FAIL")));
            let indented: Vec<String> = message.lines().map(|line| format!("     {line}")).collect();
            report.text(&highlight(&format!("{}\n", indented.join("\n"))));
            ("failed", Some(message))
        }
    };
    json!({ "file": name, "line": case.line, "what": what, "result": result, "message": message })
}

/// A failure without colour.
fn plain(failure: &Failure) -> String {
    anstream::adapter::strip_str(&failure.text()).to_string()
}
