//! Runs the file tests of the optimiser: `tests/opt/PASS/*.vyre` at the root of the repository.
//!
//! A file has a line `//@ opt fold dce` that names the passes to run (`//@ opt all` is the whole optimiser), and the
//! printed result stands in a file beside it that ends in `.expected`. With UPDATE_EXPECT=1 in the environment the
//! expected files are written instead of compared.

use std::fs;
use std::path::{Path, PathBuf};
use vyre_foundation::opt::{Pass, optimise, optimise_with, range};
use vyre_foundation::text;
use vyre_foundation::validate::{ValidProgram, validate};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder of file tests exists") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "vyre") {
            found.push(path);
        }
    }
    found.sort();
}

fn read(source: &str) -> Result<ValidProgram, String> {
    let parsed = text::parse(source).map_err(|findings| format!("{findings:?}"))?;
    validate(&parsed.program).map_err(|findings| format!("{findings:?}"))
}

/// What the file's directive makes of the file's program.
fn run(source: &str) -> Result<String, String> {
    let line = source.lines().find_map(|line| line.trim().strip_prefix("//@ opt "));
    let names = line.ok_or("a line `//@ opt PASS...` is missing")?;
    let program = read(source)?;
    if names.trim() == "all" {
        return Ok(text::print(optimise(&program).program()));
    }
    if names.trim() == "bounds" {
        return Ok(bounds(&program));
    }
    let pass = |name: &str| Pass::from_name(name).copied().ok_or(format!("no pass is named `{name}`"));
    let passes: Vec<Pass> = names.split_whitespace().map(pass).collect::<Result<_, _>>()?;
    let result = optimise_with(&program, &passes, &mut |_, _| {}).map_err(|broken| broken.to_string())?;
    Ok(text::print(result.program()))
}

/// The printed program with a mark at every access that is proven in bounds.
fn bounds(program: &ValidProgram) -> String {
    let facts = range::analyse(program);
    let (printed, map) = text::print_with_map(program.program());
    let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
    vyre_foundation::ir::walk(&program.parts().body.block, |site, _, _| {
        if facts.in_bounds(None, site) {
            let place = vyre_foundation::diagnostic::Place::Line { function: None, site };
            let span = map.span(place).expect("every line has a place");
            lines[span.line as usize - 1].push_str("  // in bounds");
        }
    });
    lines.join("\n") + "\n"
}

#[test]
fn every_file_gives_what_is_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/opt");
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut found = Vec::new();
    files(&root, &mut found);
    assert!(found.len() >= 50, "only {} file tests found", found.len());
    let mut wrong = Vec::new();
    for path in &found {
        let name = path.strip_prefix(&root).unwrap_or(path).display().to_string();
        let source = fs::read_to_string(path).expect("a readable file");
        let expected_path = path.with_extension("expected");
        match run(&source) {
            Err(message) => wrong.push(format!("{name}: {message}")),
            Ok(actual) if update => fs::write(&expected_path, actual).expect("a writable file"),
            Ok(actual) => {
                let expected = fs::read_to_string(&expected_path).unwrap_or_default();
                if actual != expected {
                    wrong.push(format!("{name}: expected\n{expected}\nactual\n{actual}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), found.len(), wrong.join("\n"));
}
