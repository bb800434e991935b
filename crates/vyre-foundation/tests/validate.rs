//! Runs the validator over `tests/validate`: files named for their mistake, with `//~ error[V...]` on the lines where
//! findings are due, and files under `ok` that must be accepted.

use std::fs;
use std::path::{Path, PathBuf};
use vyre_foundation::text;
use vyre_foundation::validate::{RULES, validate};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/validate").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "vyre"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Lines with the codes due on them.
fn expected(source: &str) -> Vec<(u32, String)> {
    let mut due = Vec::new();
    for (line, text) in (1..).zip(source.lines()) {
        let Some((_, notes)) = text.split_once("//~") else { continue };
        for note in notes.split("error[").skip(1) {
            let (code, _) = note.split_once(']').expect("a closed bracket");
            due.push((line, code.to_string()));
        }
    }
    due
}

fn found(source: &str, path: &Path) -> (Vec<(u32, String)>, String) {
    let parsed = match text::parse(source) {
        Ok(parsed) => parsed,
        Err(errors) => return (Vec::new(), format!("{}: {errors:#?}\n", path.display())),
    };
    let Err(findings) = validate(&parsed.program) else { return (Vec::new(), String::new()) };
    let line = |place| parsed.map.span(place).expect("every place has a line").line;
    let mut shown = String::new();
    for finding in &findings {
        assert!(!finding.fix.is_empty() && finding.fix != finding.message);
        shown += &text::render(finding, &path.display().to_string(), source, &parsed.map);
    }
    let mut found: Vec<_> =
        findings.iter().map(|finding| (line(finding.place), finding.code.to_string())).collect();
    found.sort();
    (found, shown)
}

#[test]
fn every_file_gives_the_findings_it_names() {
    let mut wrong = String::new();
    for path in files("") {
        let source = fs::read_to_string(&path).expect("readable");
        let due = expected(&source);
        assert!(!due.is_empty(), "{}: no `//~ error[...]`", path.display());
        let (found, shown) = found(&source, &path);
        if found != due {
            wrong += &format!("{}:\n  due   {due:?}\n  found {found:?}\n{shown}\n", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn valid_files_are_accepted() {
    let mut wrong = String::new();
    for path in files("ok") {
        let source = fs::read_to_string(&path).expect("readable");
        wrong += &found(&source, &path).1;
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_rule_has_a_file() {
    let tested: Vec<String> = files("")
        .iter()
        .flat_map(|path| expected(&fs::read_to_string(path).expect("readable")))
        .map(|(_, code)| code)
        .collect();
    for rule in RULES {
        assert!(
            tested.iter().any(|code| code == rule.code),
            "no file in tests/validate expects {}",
            rule.code
        );
    }
}
