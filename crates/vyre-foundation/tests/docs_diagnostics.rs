//! Writes `docs/diagnostics.md` from the rules of parser and validator, and fails while the page says anything else.
//!
//! `UPDATE_EXPECT=1 cargo test -p vyre-foundation --test docs_diagnostics` writes it anew.

use std::fmt::Write;
use std::path::Path;
use vyre_foundation::diagnostic::Rule;
use vyre_foundation::{text, validate};

const INTRODUCTION: &str = "\
<!-- Written by `UPDATE_EXPECT=1 cargo test -p vyre-foundation --test docs_diagnostics`; edits here are lost. -->

# Diagnostics

What each code stands for, why the rule is there, a program that breaks it, and the corrected program. Codes are stable:
one is never given another meaning. `P` codes come from the parser, `V` codes from the validator; a program is validated
once it parses. `vyre explain V031` shows one of these entries.
";

/// Examples of limits run to hundreds of lines; the page shows their beginning and their end.
const SHOWN_LINES_MAX: usize = 40;
/// And some lines are as long as the limit they break.
const SHOWN_COLUMNS_MAX: usize = 160;

fn example(page: &mut String, title: &str, source: &str) {
    let _ = write!(page, "\n{title}:\n```\n");
    let lines: Vec<&str> = source.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let from_end = lines.len() - at;
        if lines.len() <= SHOWN_LINES_MAX || at < 10 || from_end <= 10 {
            let shown: String = line.chars().take(SHOWN_COLUMNS_MAX).collect();
            let more = if shown.len() < line.len() { "..." } else { "" };
            let _ = writeln!(page, "{shown}{more}");
        } else if at == 10 {
            let _ = writeln!(page, "... {} lines ...", lines.len() - 20);
        }
    }
    let _ = writeln!(page, "```");
}

fn page() -> String {
    let mut page = INTRODUCTION.to_string();
    let all: [(&str, &[Rule]); 2] = [("Parser", text::RULES), ("Validator", validate::RULES)];
    for (part, rules) in all {
        let _ = write!(page, "\n## {part}\n\n| code | rule |\n| --- | --- |\n");
        for rule in rules {
            let _ = writeln!(page, "| [{}](#{}) | {} |", rule.code, rule.code.to_lowercase(), rule.title);
        }
        for rule in rules {
            let _ = write!(page, "\n### {}\n\n**{}.** {}\n", rule.code, sentence(rule.title), rule.text);
            example(&mut page, "Wrong", rule.wrong);
            example(&mut page, "Right", rule.right);
        }
    }
    page
}

/// With a capital letter.
fn sentence(title: &str) -> String {
    let mut chars = title.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[test]
fn the_page_shows_the_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnostics.md");
    let page = page();
    if std::env::var_os("UPDATE_EXPECT").is_some_and(|value| value != "0") {
        std::fs::write(&path, &page).expect("writable");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(written.lines()).position(|(due, is)| due != is);
    assert!(
        written == page,
        "docs/diagnostics.md differs from the rules at line {}; run with UPDATE_EXPECT=1 to write it anew",
        differs.map_or(page.lines().count().min(written.lines().count()), |at| at) + 1
    );
}
