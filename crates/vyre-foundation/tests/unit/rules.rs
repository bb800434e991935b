//! Both programs of every rule.

use super::{RULES, explain};
use crate::text;
use crate::validate::validate;

fn codes(source: &str) -> Vec<&'static str> {
    let parsed = text::parse(source).unwrap_or_else(|errors| panic!("{source}\n{errors:#?}"));
    match validate(&parsed.program) {
        Ok(_) => Vec::new(),
        Err(findings) => findings.iter().map(|finding| finding.code).collect(),
    }
}

#[test]
fn the_wrong_program_breaks_its_rule_and_no_other_and_the_right_one_is_valid() {
    for rule in RULES {
        let wrong = codes(rule.wrong);
        assert!(!wrong.is_empty() && wrong.iter().all(|code| *code == rule.code), "{}: {wrong:?}", rule.code);
        assert_eq!(codes(rule.right), [""; 0], "{}: the right program", rule.code);
    }
}

#[test]
fn codes_ascend_without_gaps() {
    for (index, rule) in RULES.iter().enumerate() {
        assert_eq!(rule.code, format!("V{:03}", index + 1));
    }
}

#[test]
fn codes_of_parser_and_validator_are_explained() {
    assert_eq!(explain("V031").map(|rule| rule.code), Some("V031"));
    assert_eq!(explain(" v031\n").map(|rule| rule.code), Some("V031"));
    assert_eq!(explain("P001").map(|rule| rule.code), Some("P001"));
    assert_eq!(explain("V999"), None);
    assert_eq!(explain(""), None);
}

/// The pieces of code that a text names.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_right_program_takes_up_what_the_fix_proposes() {
    let mut proposing = 0;
    for rule in RULES {
        let parsed = text::parse(rule.wrong).expect("parses");
        let findings = validate(&parsed.program).expect_err("wrong");
        let fix = &findings[0].fix;
        // Forms with placeholders, and names that are to go, cannot be found again.
        let new: Vec<&str> = quoted(fix).filter(|piece| !rule.wrong.contains(piece)).collect();
        let concrete = new.iter().any(|piece| piece.contains(['.', '(', '[', ' ']) && !piece.contains("..."));
        if !concrete || rule.code == "V012" {
            continue;
        }
        proposing += 1;
        assert!(
            new.iter().any(|piece| rule.right.contains(piece)),
            "{}: `right` has nothing of the fix {fix:?}",
            rule.code
        );
    }
    assert!(proposing >= 15, "only {proposing} fixes propose code");
}
