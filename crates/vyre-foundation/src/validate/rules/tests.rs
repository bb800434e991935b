//! Both programs of every rule, and the docs page that shows them.

use super::RULES;
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
