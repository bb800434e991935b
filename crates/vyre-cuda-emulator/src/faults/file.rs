//! From the text of a faults file to its rules, and what a rule has to keep to.
//!
//! Every mistake is reported, not only the first, each with its line and what to do about it.

use super::pattern::{Condition, Line, Term, Word};
use super::text::{self, Cursor};
use super::{Effect, Rule, When};
use std::collections::HashSet;

/// Rules of the same file that devices keep, not the compiler: others read them.
const DEVICE_RULES: [&str; 4] = ["launch", "allocation", "copy", "call"];

/// Expressions nest no deeper than their line is long, so this bounds the stack that reading them needs.
const LINE_BYTES_MAX: usize = 1000;

/// A mistake: its line, what is wrong, and what to write instead.
struct Mistake(u32, String, String);

fn mistake<T>(line: u32, message: impl Into<String>, fix: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake(line, message.into(), fix.into()))
}

/// The compiler's rules of a file.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let (mut rules, mut mistakes) = (Vec::new(), Vec::new());
    for block in blocks(text, &mut mistakes) {
        match rule(&block) {
            Ok(rule) => rules.push(rule),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    if mistakes.is_empty() {
        return Ok(rules);
    }
    let shown = |Mistake(line, message, fix): &Mistake| format!("line {line}: {message}\n  Fix: {fix}");
    Err(mistakes.iter().map(shown).collect::<Vec<_>>().join("\n"))
}

/// A rule's first line and the indented ones below it, with their numbers.
type Block<'a> = Vec<(u32, &'a str)>;

fn blocks<'a>(text: &'a str, mistakes: &mut Vec<Mistake>) -> Vec<Block<'a>> {
    let mut blocks: Vec<Block<'a>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') || trimmed.starts_with("//") {
            continue;
        }
        if line.len() > LINE_BYTES_MAX {
            let message = format!("the line is longer than {LINE_BYTES_MAX} bytes");
            mistakes.push(Mistake(number, message, "bind what it computes in shorter lines".into()));
        } else if !line.starts_with([' ', '\t']) {
            blocks.push(vec![(number, trimmed)]);
        } else if let Some(block) = blocks.last_mut() {
            block.push((number, trimmed));
        } else {
            let fix = "begin with a line that is not indented, such as `miscompile \"name\"`";
            mistakes.push(Mistake(number, "an indented line belongs to no rule".into(), fix.into()));
        }
    }
    blocks.retain(|block| !DEVICE_RULES.contains(&block[0].1.split_whitespace().next().unwrap_or("")));
    blocks
}

/// Where the indented lines of a rule are put.
#[derive(Clone, Copy, PartialEq)]
enum Section {
    Options,
    Match,
    Replace,
}

fn rule(block: &Block<'_>) -> Result<Rule, Mistake> {
    let (number, header) = block[0];
    let mut rule = self::header(number, header)?;
    let (mut section, mut replacement) = (Section::Options, None::<Vec<Line>>);
    for (number, line) in &block[1..] {
        let line = line.split(" //").next().unwrap_or("").trim();
        match (line, section) {
            ("match", Section::Options) => section = Section::Match,
            ("replace", Section::Match) => {
                section = Section::Replace;
                replacement = Some(Vec::new());
            }
            (_, Section::Options) => option(&mut rule, *number, line)?,
            (_, Section::Match) => rule.pattern.push(instruction(*number, line)?),
            (_, Section::Replace) => replacement.get_or_insert_default().push(instruction(*number, line)?),
        }
    }
    check_pattern(&rule)?;
    check_conditions(&rule)?;
    match (&rule.effect, replacement) {
        (Effect::Rewrite(_), Some(lines)) => {
            check_replacement(&rule, &lines)?;
            rule.effect = Effect::Rewrite(lines);
        }
        (Effect::Rewrite(_), None) => {
            return mistake(
                rule.line,
                "a miscompile says what the compiler makes",
                "add `replace` and its lines",
            );
        }
        (Effect::Crash | Effect::Refuse(_), Some(_)) => {
            return mistake(rule.line, "only a miscompile has a `replace`", "remove it");
        }
        (Effect::Crash | Effect::Refuse(_), None) => {}
    }
    Ok(rule)
}

fn header(line: u32, text: &str) -> Result<Rule, Mistake> {
    let mut cursor = Cursor::new(text);
    let form = "write `crash \"name\"`, `refuse \"name\": message` or `miscompile \"name\"`";
    let kinds = ["crash", "refuse", "miscompile"];
    let Some(kind) = kinds.into_iter().find(|kind| cursor.take(kind)) else {
        return mistake(
            line,
            format!("`{text}` begins no rule"),
            format!("{form}, or one of the devices' rules"),
        );
    };
    let name = cursor.quoted().map_err(|message| Mistake(line, message, form.into()))?.to_owned();
    let effect = match kind {
        "crash" => Effect::Crash,
        "miscompile" => Effect::Rewrite(Vec::new()),
        _ => {
            cursor.expect(":").map_err(|message| Mistake(line, message, form.into()))?;
            let message = cursor.rest().to_owned();
            if message.is_empty() {
                return mistake(line, "a refusal says why", form);
            }
            cursor = Cursor::new("");
            Effect::Refuse(message)
        }
    };
    cursor.end().map_err(|message| Mistake(line, message, form.into()))?;
    Ok(Rule {
        name,
        line,
        effect,
        pattern: Vec::new(),
        conditions: Vec::new(),
        anywhere: false,
        limit: usize::MAX,
        // Level 0 is right on real compilers, so a rule is for the others unless it says so.
        when: When { opt: (">=".into(), 1), targets: Vec::new() },
    })
}

fn option(rule: &mut Rule, line: u32, text: &str) -> Result<(), Mistake> {
    let fix = "the options are `once`, `first N`, `anywhere`, `only when opt >= N`, `only for sm_90, sm_100` and \
               `where ...`; then comes `match`";
    let wrong = |message: String| Mistake(line, message, fix.into());
    let mut cursor = Cursor::new(text);
    if cursor.take("once") {
        rule.limit = 1;
    } else if cursor.take("first") {
        let number = cursor.number().map_err(wrong)?;
        rule.limit = usize::try_from(number).or_else(|_| mistake(line, "the number is too large", fix))?;
    } else if cursor.take("anywhere") {
        rule.anywhere = true;
    } else if cursor.take("only when opt") {
        let operators = ["==", ">=", "<=", "<", ">"];
        let Some(operator) = operators.into_iter().find(|operator| cursor.take(operator)) else {
            return mistake(line, cursor.unexpected("a comparison"), fix);
        };
        rule.when.opt = (operator.into(), cursor.number().map_err(wrong)?);
    } else if cursor.take("only for") {
        loop {
            cursor.expect("sm_").map_err(wrong)?;
            let number = cursor.number().map_err(wrong)?;
            rule.when
                .targets
                .push(u32::try_from(number).or_else(|_| mistake(line, "there is no such target", fix))?);
            if !cursor.take(",") {
                break;
            }
        }
    } else if cursor.take("where") {
        rule.conditions.push((line, text::condition(&mut cursor).map_err(wrong)?));
    } else {
        return mistake(line, format!("`{text}` is not an option"), fix);
    }
    cursor.end().map_err(wrong)
}

fn instruction(number: u32, text: &str) -> Result<Line, Mistake> {
    let fix = "write an instruction as in PTX, with `%name` for registers, `#name` for constants, `?name` or `_` for any \
               operand, and `T`, `*` or `**` for parts of its name";
    text::instruction(text, number).map_err(|message| Mistake(number, message, fix.into()))
}

fn check_pattern(rule: &Rule) -> Result<(), Mistake> {
    let Some(last) = rule.pattern.len().checked_sub(1) else {
        return mistake(
            rule.line,
            "the rule has no pattern",
            "add `match` and the instructions that it is about",
        );
    };
    let mut defined = HashSet::new();
    for line in &rule.pattern {
        for name in line.defined() {
            if !defined.insert(name) {
                let message = format!("%{name} is defined twice in the pattern");
                return mistake(line.number, message, "give the second result a name of its own");
            }
        }
        if line.operands.iter().any(is_computed) {
            return mistake(
                line.number,
                "a pattern has no computed numbers",
                "bind the constant, as `#b`, and add `where #b == ...` above `match`",
            );
        }
    }
    let mut linked = HashSet::from([last]);
    while let Some(next) = (0..last).find(|line| !linked.contains(line) && touches(rule, *line, &linked)) {
        linked.insert(next);
    }
    match (0..last).find(|line| !linked.contains(line)) {
        None => Ok(()),
        Some(line) => mistake(
            rule.pattern[line].number,
            "no register links this line to the others",
            "let it use a register of another line, or make two rules",
        ),
    }
}

/// Whether a line has a register in common with a linked one.
fn touches(rule: &Rule, line: usize, linked: &HashSet<usize>) -> bool {
    let registers = |line: usize| [rule.pattern[line].read(), rule.pattern[line].defined()].concat();
    let own = registers(line);
    linked.iter().any(|other| registers(*other).iter().any(|name| own.contains(name)))
}

fn is_computed(term: &Term) -> bool {
    match term {
        Term::Number(number) => !number.names().is_empty(),
        Term::Address(a, b) | Term::Pair(a, b) => is_computed(a) || is_computed(b),
        Term::Vector(parts) => parts.iter().any(is_computed),
        Term::Register(_) | Term::Special(_) | Term::Constant(_) | Term::Float(..) => false,
        Term::Any(_) | Term::Ignored | Term::Not(_) | Term::Symbol(_) => false,
    }
}

fn check_conditions(rule: &Rule) -> Result<(), Mistake> {
    let bound: HashSet<String> = rule.pattern.iter().flat_map(Line::names).collect();
    for (line, condition) in &rule.conditions {
        let numbers = match condition {
            Condition::Words(name, _) if !bound.contains(name) => Some(name.clone()),
            Condition::Words(..) => None,
            Condition::Range(a, b, c) => unbound(&bound, &[a, b, c]),
            Condition::Compared(_, a, b) => unbound(&bound, &[a, b]),
        };
        if let Some(name) = numbers {
            return mistake(
                *line,
                format!("the pattern does not bind {name}"),
                "use a name that the pattern has",
            );
        }
    }
    Ok(())
}

fn unbound(bound: &HashSet<String>, expressions: &[&super::expression::Expression]) -> Option<String> {
    let names = expressions.iter().flat_map(|expression| expression.names());
    names.map(|name| format!("#{name}")).find(|name| !bound.contains(name))
}

fn check_replacement(rule: &Rule, lines: &[Line]) -> Result<(), Mistake> {
    let last = &rule.pattern[rule.pattern.len() - 1];
    let mut bound: HashSet<String> = rule.pattern.iter().flat_map(Line::names).collect();
    for name in last.defined() {
        if !lines.iter().any(|line| line.defined().contains(&name)) {
            let message = format!(
                "nothing in the replacement defines %{name}, which the last line of the pattern does"
            );
            return mistake(
                lines.first().map_or(rule.line, |line| line.number),
                message,
                "add a line that does",
            );
        }
        // Until then the register has another value.
        bound.remove(&format!("%{name}"));
    }
    for line in lines {
        check_line(rule, line, &mut bound)?;
    }
    Ok(())
}

fn check_line(rule: &Rule, line: &Line, bound: &mut HashSet<String>) -> Result<(), Mistake> {
    let hole = |word: &Word| matches!(word, Word::One | Word::Many);
    if line.modifiers.iter().any(hole) || hole(&line.opcode) || line.operands.iter().any(is_ignored) {
        return mistake(
            line.number,
            "a replacement has no `*` and no `_`",
            "bind what it means, as `T` or `?x`",
        );
    }
    let defined: HashSet<String> = line.defined().into_iter().map(|name| format!("%{name}")).collect();
    let read: HashSet<String> = line.read().into_iter().map(|name| format!("%{name}")).collect();
    let known = |name: &String| bound.contains(name) || (defined.contains(name) && !read.contains(name));
    if let Some(name) = line.names().into_iter().find(|name| !known(name)) {
        let message = format!("{name} has no value here");
        return mistake(
            line.number,
            message,
            "use a name of the pattern, or define the register in a line above",
        );
    }
    let place = rule
        .pattern
        .iter()
        .position(|other| other.defined().iter().any(|name| line.defined().contains(name)));
    if let Some(place) = place.filter(|place| place + 1 < rule.pattern.len()) {
        let there: HashSet<String> = rule.pattern[..=place].iter().flat_map(Line::names).collect();
        if let Some(name) = read.iter().find(|name| !there.contains(*name)) {
            let message = format!("{name} has no value where line {} is", rule.pattern[place].number);
            return mistake(line.number, message, "give the result another name");
        }
    }
    let typed = |word: &Word| match word {
        Word::Literal(word) => word == "pred" || super::flow::type_of(word).is_some(),
        Word::Variable(_) => true,
        Word::One | Word::Many => false,
    };
    if defined.iter().any(|name| !bound.contains(name)) && !line.modifiers.iter().any(typed) {
        return mistake(line.number, "the instruction has no type for its result", "add one, as `.u32`");
    }
    bound.extend(defined);
    Ok(())
}

fn is_ignored(term: &Term) -> bool {
    match term {
        Term::Ignored => true,
        Term::Address(a, b) | Term::Pair(a, b) => is_ignored(a) || is_ignored(b),
        Term::Vector(parts) => parts.iter().any(is_ignored),
        Term::Register(_) | Term::Special(_) | Term::Constant(_) | Term::Float(..) => false,
        Term::Number(_) | Term::Any(_) | Term::Not(_) | Term::Symbol(_) => false,
    }
}
