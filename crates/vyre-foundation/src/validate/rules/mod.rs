//! What each code stands for, with a program that breaks the rule and the same program mended.
//!
//! `vyre explain` and `docs/diagnostics.md` show this table; a test validates both programs of every rule, so the
//! page cannot claim what the validator does not do.

mod declarations;
mod flow;
mod types;

#[cfg(test)]
mod tests;

use crate::diagnostic::Rule;
use crate::text;

/// The validator's rules, by ascending code.
pub const RULES: &[Rule] = &join::<{ declarations::RULES.len() + types::RULES.len() + flow::RULES.len() }>([
    &declarations::RULES,
    &types::RULES,
    &flow::RULES,
]);

/// The rule that a code of the parser or the validator stands for.
pub fn explain(code: &str) -> Option<&'static Rule> {
    let code = code.trim();
    text::RULES.iter().chain(RULES).find(|rule| rule.code.eq_ignore_ascii_case(code))
}

const fn join<const N: usize>(tables: [&[Rule]; 3]) -> [Rule; N] {
    let mut all = [declarations::RULES[0]; N];
    let (mut table, mut to) = (0, 0);
    while table < tables.len() {
        let mut from = 0;
        while from < tables[table].len() {
            all[to] = tables[table][from];
            (from, to) = (from + 1, to + 1);
        }
        table += 1;
    }
    all
}
