//! Every file of `tests/parse` gives exactly the errors that its comments announce, line by line; and the page on the
//! grammar lists the parser's codes as they are.

use std::path::Path;
use vyre_foundation::diagnostic::Place;
use vyre_foundation::text::{RULES, SourceMap, parse, render};

/// The errors announced by `//~ error[CODE]`, as lines and codes.
fn announced(source: &str) -> Vec<(u32, String)> {
    let on_line = |(at, line): (usize, &str)| {
        let (_, announcement) = line.split_once("//~ error[")?;
        Some((at as u32 + 1, announcement.split_once(']')?.0.to_string()))
    };
    source.lines().enumerate().filter_map(on_line).collect()
}

fn found(source: &str) -> Vec<(u32, String)> {
    let errors = parse(source).expect_err("a file of parse errors parses");
    let place = |place: Place| match place {
        Place::Source(span) => span.line,
        other => panic!("{other:?} is not a place in the source"),
    };
    errors.iter().map(|error| (place(error.place), error.code.to_string())).collect()
}

#[test]
fn files_give_the_errors_they_announce() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parse");
    let mut shown: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the folder exists") {
        let path = entry.expect("the folder can be listed").path();
        let source = std::fs::read_to_string(&path).expect("a text file");
        let (found, announced) = (found(&source), announced(&source));
        let errors = parse(&source).unwrap_err();
        let name = path.display().to_string();
        let rendered = errors.iter().map(|error| render(error, &name, &source, &SourceMap::default()));
        assert_eq!(found, announced, "{}", rendered.collect::<String>());
        shown.extend(found.into_iter().map(|(_, code)| code));
    }
    for rule in RULES {
        assert!(shown.iter().any(|code| code == rule.code), "no file shows {}", rule.code);
    }
}

#[test]
fn the_grammar_page_lists_the_codes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grammar.md");
    let page = std::fs::read_to_string(page).expect("docs/grammar.md");
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| P")).collect();
    let rows: Vec<String> = RULES.iter().map(|rule| format!("| {} | {} |", rule.code, rule.title)).collect();
    assert_eq!(listed, rows);
}
