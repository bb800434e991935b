//! `vyre check`: reports every finding of every file.

use crate::args::Files;
use crate::load;
use crate::report::{DIM, FINDINGS, Failure, OK, Report, paint};
use serde_json::{Value, json};
use std::path::Path;
use vyre::validate::ValidProgram;

pub(crate) fn run(args: &Files, report: &Report) -> Result<u8, Failure> {
    let mut exit = OK;
    let mut results = Vec::new();
    for (file, found) in load::expand(&args.files, &["vyre", "vyreb"]) {
        let checked = found.and_then(|()| load::program(&file)).and_then(|loaded| loaded.valid());
        let (result, failure) = told(&file, checked);
        if let Some(failure) = failure {
            // Findings are an answer about the file; only worse things have another exit code.
            exit = exit.max(failure.exit());
            if !report.is_json() {
                report.note(&failure.text());
            }
        } else {
            report.text(&format!("{} {}\n", load::shown(&file), paint(DIM, "ok")));
        }
        results.push(result);
    }
    debug_assert!(exit == OK || exit >= FINDINGS);
    report.json(|| json!({ "files": results }));
    Ok(exit)
}

fn told(file: &Path, checked: Result<ValidProgram, Failure>) -> (Value, Option<Failure>) {
    match checked {
        Ok(program) => {
            let digest = program.program().digest().to_string();
            let program = program.program().name();
            (json!({ "file": load::shown(file), "ok": true, "program": program, "digest": digest }), None)
        }
        Err(failure) => {
            (json!({ "file": load::shown(file), "ok": false, "error": failure.json() }), Some(failure))
        }
    }
}
