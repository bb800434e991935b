//! `vyre fmt`: canonical layout, comments kept.

use crate::args::Fmt;
use crate::load::{self, Contents};
use crate::report::{FINDINGS, Failure, Found, OK, Report};
use serde_json::json;
use std::path::Path;
use vyre::text::{self, SourceMap};

pub(crate) fn run(args: &Fmt, report: &Report) -> Result<u8, Failure> {
    let mut exit = OK;
    let mut results = Vec::new();
    for (file, found) in load::expand(&args.files.files, &["vyre"]) {
        match found.and_then(|()| format(&file, args.check, report)) {
            Ok(Formatted { changed, text }) => {
                if changed && args.check {
                    exit = exit.max(FINDINGS);
                }
                let mut result = json!({ "file": load::shown(&file), "changed": changed });
                if load::is_stdin(&file) && !args.check {
                    // There is no file to find it in.
                    result["text"] = json!(text);
                }
                results.push(result);
            }
            Err(failure) => {
                exit = exit.max(failure.exit());
                if !report.is_json() {
                    report.note(&failure.text());
                }
                results.push(json!({ "file": load::shown(&file), "error": failure.json() }));
            }
        }
    }
    report.json(|| json!({ "files": results }));
    Ok(exit)
}

/// A file in canonical layout.
struct Formatted {
    changed: bool,
    text: String,
}

/// Formats one file.
fn format(file: &Path, check: bool, report: &Report) -> Result<Formatted, Failure> {
    let name = load::shown(file);
    let source = match load::contents(file)? {
        Contents::Text(source) => source,
        Contents::Wire(_) => {
            return Err(Failure::usage(
                format!("{name} is in wire form, which has no layout"),
                "convert it to text first: `vyre convert IN.vyreb OUT.vyre`",
            ));
        }
    };
    let formatted = text::format(&source).map_err(|findings| {
        let map = SourceMap::default();
        let findings = findings.iter().map(|finding| Found::new(finding, &name, &source, &map)).collect();
        Failure::Findings { file: name.clone(), findings }
    })?;
    let changed = formatted != source;
    match (load::is_stdin(file), check) {
        (true, false) => report.text(&formatted),
        (false, false) if changed => write(file, &formatted)?,
        (_, true) if changed => report.text(&format!("{name} is not formatted\n")),
        (_, true) | (false, false) => {}
    }
    Ok(Formatted { changed, text: formatted })
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| {
        Failure::io(format!("cannot write {}: {error}", file.display()), "make the file writable")
    })
}
