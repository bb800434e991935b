//! Compilers that are wrong on demand: rules over PTX, read from a text file.
//!
//! A rule is a pattern of instructions, linked by the registers that they define and use, and what the compiler does where it
//! finds it: it ends the process, refuses, or makes something else. The form of the file is in the crate's README. Not here:
//! rules of devices (launches, allocations, copies), which are in the same file and are skipped.

mod expression;
mod file;
mod flow;
mod matching;
mod pattern;
mod rewrite;
mod text;

use crate::ptx::{Entry, Module, Statement};
use flow::Flow;
use matching::Matcher;
use pattern::{Condition, Line};
use rewrite::Edits;

/// The compiler's rules of a faults file.
#[derive(Clone, Debug, Default)]
pub struct CompilerFaults {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    name: String,
    /// Its line in the file.
    line: u32,
    effect: Effect,
    pattern: Vec<Line>,
    /// With their lines in the file.
    conditions: Vec<(u32, Condition)>,
    /// Whether a register's definitions are followed across branches.
    anywhere: bool,
    /// The most matches in one module.
    limit: usize,
    when: When,
}

#[derive(Clone, Debug)]
enum Effect {
    Crash,
    Refuse(String),
    Rewrite(Vec<Line>),
}

/// The compilers that a rule is for.
#[derive(Clone, Debug)]
struct When {
    /// A comparison and the level to compare with.
    opt: (String, i128),
    /// `sm_` numbers; none for all.
    targets: Vec<u32>,
}

impl When {
    fn holds(&self, sm: u32, opt_level: u32) -> bool {
        let (level, (operator, limit)) = (i128::from(opt_level), &self.opt);
        let opt = match operator.as_str() {
            "==" => level == *limit,
            ">=" => level >= *limit,
            "<=" => level <= *limit,
            "<" => level < *limit,
            ">" => level > *limit,
            _ => unreachable!("an operator that the file's parser knows"),
        };
        opt && (self.targets.is_empty() || self.targets.contains(&sm))
    }
}

/// Where a rule was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The rule's name.
    pub rule: String,
    /// The PTX line of the pattern's last instruction.
    pub line: u32,
}

/// What the compiler did to a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It ended the process. The module is as it was left by the rules before.
    Crash(Hit),
    /// It refused, with this message.
    Refuse(Hit, String),
    /// It compiled the module, which now says what it made. Each place where that is wrong.
    Compiled(Vec<Hit>),
}

impl CompilerFaults {
    /// Reads a faults file. The error has a line for each mistake, and below it what to do.
    pub fn parse(text: &str) -> Result<CompilerFaults, String> {
        file::parse(text).map(|rules| CompilerFaults { rules })
    }

    /// The names of the rules, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.name.as_str())
    }

    /// Does to a module what a compiler with these faults does, for `sm_{sm}` and an optimisation level. Rules run in their
    /// order, and see what those before have made.
    pub fn apply(&self, module: &mut Module, sm: u32, opt_level: u32) -> Applied {
        let mut hits = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.when.holds(sm, opt_level)) {
            let found = rule.run(module);
            match (&rule.effect, found.first()) {
                (Effect::Crash, Some(hit)) => return Applied::Crash(hit.clone()),
                (Effect::Refuse(message), Some(hit)) => return Applied::Refuse(hit.clone(), message.clone()),
                (Effect::Crash | Effect::Refuse(_), None) => {}
                (Effect::Rewrite(_), _) => hits.extend(found),
            }
        }
        Applied::Compiled(hits)
    }
}

impl Rule {
    fn run(&self, module: &mut Module) -> Vec<Hit> {
        let mut hits = Vec::new();
        for entry in &mut module.entries {
            let edits = self.edits(entry, &mut hits);
            if !edits.is_empty() {
                edits.apply(entry);
            }
        }
        hits
    }

    fn edits(&self, entry: &Entry, hits: &mut Vec<Hit>) -> Edits {
        let mut edits = Edits::default();
        if !self.could_match(entry) {
            return edits;
        }
        let flow = Flow::new(&entry.body);
        let conditions: Vec<Condition> =
            self.conditions.iter().map(|(_, condition)| condition.clone()).collect();
        let matcher =
            Matcher { flow: &flow, lines: &self.pattern, conditions: &conditions, anywhere: self.anywhere };
        for last in flow.positions() {
            if hits.len() >= self.limit {
                break;
            }
            let Some(found) = matcher.find(last) else { continue };
            let changed = match &self.effect {
                Effect::Rewrite(lines) => edits.add(&self.pattern, lines, &found, &flow, entry),
                Effect::Crash | Effect::Refuse(_) => true,
            };
            if let (true, Some(instruction)) = (changed, flow.instruction(last)) {
                hits.push(Hit { rule: self.name.clone(), line: instruction.line });
            }
        }
        edits
    }

    /// A cheap test before the kernel is analysed: whether it has all opcodes of the pattern.
    fn could_match(&self, entry: &Entry) -> bool {
        let has = |opcode: &String| {
            entry.body.iter().any(|s| matches!(s, Statement::Instruction(found) if found.opcode == *opcode))
        };
        self.pattern.iter().all(|line| match &line.opcode {
            pattern::Word::Literal(opcode) => has(opcode),
            _ => true,
        })
    }
}
