//! `vyre explain`: a rule with a wrong and a right example.

use crate::args::Explain;
use crate::report::{BAD, BOLD, Failure, GOOD, OK, Report, paint};
use serde_json::{Value, json};
use vyre::diagnostic::Rule;
use vyre::rules;
use vyre_terminal::table::{Align, columns};

pub(crate) fn run(args: &Explain, report: &Report) -> Result<u8, Failure> {
    let Some(asked) = &args.code else {
        report.json(|| json!({ "rules": rules().map(brief).collect::<Vec<_>>() }));
        let rows: Vec<Vec<String>> =
            rules().map(|rule| vec![rule.code.to_owned(), rule.title.to_owned()]).collect();
        report.text(&columns(&[Align::Left; 2], &rows));
        return Ok(OK);
    };
    // People copy `error[V031]` with the brackets.
    let asked = asked.trim_start_matches("error[").trim_end_matches(']');
    let code = asked.to_ascii_uppercase();
    let Some(rule) = rules().find(|rule| rule.code == code) else {
        return Err(Failure::usage(
            format!("there is no finding `{}`", asked.escape_debug()),
            match with_all_digits(&code) {
                Some(near) => format!("did you mean `{near}`? `vyre explain` lists every code"),
                None => "`vyre explain` lists every code".into(),
            },
        ));
    };
    report.json(|| full(rule));
    report.text(&format!("{} {}\n\n{}\n", paint(BOLD, rule.code), paint(BOLD, rule.title), wrap(rule.text)));
    for (style, what, source) in [(BAD, "Wrong:", rule.wrong), (GOOD, "Right:", rule.right)] {
        if !source.is_empty() {
            report.text(&format!("\n{}\n{}", paint(style, what), indent(source)));
        }
    }
    Ok(OK)
}

/// The code that differs in leading zeros alone: `V031` for `V31`.
fn with_all_digits(code: &str) -> Option<&'static str> {
    let number = |code: &str| code.get(1..)?.parse::<u32>().ok();
    let same = |rule: &&Rule| rule.code.get(..1) == code.get(..1) && number(rule.code) == number(code);
    number(code)?;
    rules().find(same).map(|rule| rule.code)
}

fn brief(rule: &Rule) -> Value {
    json!({ "code": rule.code, "title": rule.title })
}

fn full(rule: &Rule) -> Value {
    let Rule { code, title, text, wrong, right } = rule;
    json!({ "code": code, "title": title, "text": text, "wrong": wrong, "right": right })
}

/// A paragraph on lines of at most 96 characters.
fn wrap(text: &str) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let chars = word.chars().count();
        if used > 0 && used + 1 + chars > 96 {
            out.push('\n');
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += chars;
    }
    out
}

fn indent(source: &str) -> String {
    source.trim_end().lines().map(|line| format!("  {line}\n").replace("  \n", "\n")).collect()
}
