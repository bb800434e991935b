//! The page on the grammar lists the parser's codes as they are.

use std::path::Path;
use vyre_foundation::text::RULES;

#[test]
fn the_grammar_page_lists_the_codes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grammar.md");
    let page = std::fs::read_to_string(page).expect("docs/grammar.md");
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| P")).collect();
    let rows: Vec<String> = RULES.iter().map(|rule| format!("| {} | {} |", rule.code, rule.title)).collect();
    assert_eq!(listed, rows);
}
