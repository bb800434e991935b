//! `//@ run` directives and `//~ error` expectations: what makes a program file a test.
//!
//! ```text
//! //@ run NAME=SPEC... [size NAME=COUNT]... [grid=(X,Y,Z)] => NAME=SPEC...
//! //@ run NAME=SPEC... => trap CODE
//! //@ run NAME=SPEC... => race
//! //@ run NAME=SPEC...
//! //@+ ... continues the directive on the line above
//! //@ opt PASS...     (or `all`, or `bounds`)
//!
//!   store.f32 @y[%i], %u   //~ error[V014]
//!   //~^ error[V020] error[V021]      (each `^` points one line up)
//! ```
//! A `run` without `=>` only has to succeed. `size` gives the elements of a buffer that has no input; it starts at zero. `opt` compares
//! what passes make of the program with the file of the same name that ends with `.expected`.

use super::scan::{Scanner, grid, number, shorten};
use super::{Spec, SpecError};
use vyre_foundation::diagnostic::{Diagnostic, Place, Rule, Span};

/// The rule behind the code of a directive's error.
pub const RULE: Rule = Rule {
    code: "D001",
    title: "a directive cannot be read",
    text: "A line that starts with `//@` is a directive: `//@ run NAME=SPEC... [size NAME=COUNT]... [grid=(X,Y,Z)] => \
        NAME=SPEC...`, where `trap CODE` or `race` may stand behind the arrow, and `//@+` continues the line above. `//@ opt PASS...` \
        compares what passes make of the program with the `.expected` file beside it. \
        `//~ error[CODE]` names a finding that its line must have; each `^` behind the `~` points one line up.",
    wrong: "//@ run y=1\nprogram @one workgroup(1, 1, 1) {\n  buffer @y : read_write u32[] binding 0 output\n}\n",
    right: "//@ run y=[1]\nprogram @one workgroup(1, 1, 1) {\n  buffer @y : read_write u32[] binding 0 output\n}\n",
};

/// What a run must give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing but success.
    Success,
    /// These buffers' contents.
    Buffers(Vec<(String, Spec)>),
    /// A trap with this code.
    Trap(u32),
    /// A data race.
    Race,
}

/// A `//@ run` directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The line it starts on.
    pub line: u32,
    /// Buffers with their contents.
    pub inputs: Vec<(String, Spec)>,
    /// Buffers that start at zero, with their elements.
    pub sizes: Vec<(String, u64)>,
    /// The grid, if it says one.
    pub grid: Option<[u32; 3]>,
    /// What it must give.
    pub expect: Expect,
}

/// A `//~ error[CODE]`: a finding that a line must have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpectedError {
    /// The line that is wrong.
    pub line: u32,
    /// The finding's code.
    pub code: String,
}

/// A `//@ opt` directive: what passes make of the program is in the `.expected` file beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opt {
    /// Its line.
    pub line: u32,
    /// The passes to run, or the one word `all` or `bounds`.
    pub passes: Vec<String>,
}

/// All directives of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// The `//@ run` directives in order.
    pub runs: Vec<Run>,
    /// The `//@ opt` directives in order.
    pub opts: Vec<Opt>,
    /// The `//~ error[...]` expectations in order.
    pub errors: Vec<ExpectedError>,
}

/// The directives of a source that can be read, and all that is wrong with the others (code `D001`).
pub fn directives(source: &str) -> (Directives, Vec<Diagnostic>) {
    let mut found = Directives::default();
    let mut wrong = Vec::new();
    let mut pending: Option<Pending> = None;
    for (number, text) in (1..).zip(source.lines()) {
        let trimmed = text.trim_start();
        let column = (text.len() - trimmed.len()) as u32 + 1;
        if let Some(more) = trimmed.strip_prefix("//@+") {
            match &mut pending {
                Some(pending) => pending.push(more),
                None => wrong.push(diagnostic(
                    number,
                    column,
                    4,
                    SpecError::new(
                        "`//@+` continues no directive",
                        "put it right below a line that starts with `//@`",
                    ),
                )),
            }
            continue;
        }
        flush(&mut pending, &mut found, &mut wrong);
        if let Some(directive) = trimmed.strip_prefix("//@") {
            pending = Some(Pending { line: number, column: column + 3, text: directive.to_owned() });
        } else if let Some(word) = mistyped(trimmed) {
            let error = SpecError::new(
                format!("this comment looks like `//@ {word}`, and is none: a directive starts with `//@`"),
                format!("write `//@ {word}` without a space before the `@`, or reword the comment"),
            );
            wrong.push(diagnostic(number, column, trimmed.trim_end().len() as u32, error));
        } else if let Some(at) = text.find("//~") {
            let span = (number, at as u32 + 1);
            match expected_errors(number, &text[at + 3..]) {
                Ok(errors) => found.errors.extend(errors),
                Err(error) => wrong.push(diagnostic(span.0, span.1, 3, error)),
            }
        }
    }
    flush(&mut pending, &mut found, &mut wrong);
    (found, wrong)
}

/// The directive that a comment such as `// @run` was meant to be.
fn mistyped(line: &str) -> Option<&'static str> {
    let text = line.strip_prefix("//")?.trim_start().strip_prefix('@')?;
    let mut scanner = Scanner::new(text);
    ["run", "opt"].into_iter().find(|word| scanner.eat_word(word))
}

/// A directive whose last line may not have come yet.
struct Pending {
    line: u32,
    column: u32,
    text: String,
}

impl Pending {
    fn push(&mut self, more: &str) {
        self.text.push(' ');
        self.text.push_str(more);
    }
}

fn flush(pending: &mut Option<Pending>, found: &mut Directives, wrong: &mut Vec<Diagnostic>) {
    let Some(Pending { line, column, text }) = pending.take() else { return };
    let mut scanner = Scanner::new(&text);
    if scanner.eat_word("opt") {
        let passes: Vec<String> = scanner.rest().split_whitespace().map(str::to_owned).collect();
        match passes.is_empty() {
            false => found.opts.push(Opt { line, passes }),
            true => wrong.push(diagnostic(
                line,
                column + scanner.at as u32,
                1,
                SpecError::new("`//@ opt` names no pass", "name the passes to run, or `all`"),
            )),
        }
        return;
    }
    match run(&mut scanner, line) {
        Ok(run) => found.runs.push(run),
        Err(error) => wrong.push(diagnostic(line, column + scanner.at as u32, 1, error)),
    }
}

fn diagnostic(line: u32, column: u32, columns: u32, error: SpecError) -> Diagnostic {
    let place = Place::Source(Span { line, column, columns });
    Diagnostic { code: RULE.code, place, message: error.message, fix: error.fix }
}

fn run(scanner: &mut Scanner<'_>, line: u32) -> Result<Run, SpecError> {
    if !scanner.eat_word("run") {
        return Err(SpecError::new(
            format!("`//@ {}` is not a directive", scanner.shown()),
            "write `//@ run NAME=SPEC... => NAME=SPEC...` or `//@ opt PASS...`",
        ));
    }
    let mut run = Run { line, inputs: Vec::new(), sizes: Vec::new(), grid: None, expect: Expect::Success };
    while !scanner.is_empty() {
        if scanner.eat("=>") {
            scanner.skip_space();
            run.expect = expect(scanner)?;
            return Ok(run);
        }
        if scanner.rest().starts_with("->") {
            return Err(SpecError::new("`->` does not start what is expected", "write `=>` here"));
        }
        if scanner.rest().starts_with("size ") && scanner.eat_word("size") {
            let name = binding(scanner)?;
            let count = number("count", scanner.until_space())?;
            run.sizes.push((name, count));
        } else {
            let name = binding(scanner)?;
            let bare = scanner.rest().starts_with(|c: char| c.is_ascii_digit());
            if name == "grid" && scanner.eat("(") {
                let counts = scanner.until(')', "the grid")?;
                run.grid = Some(grid(counts).map_err(|_| grid_error(counts))?);
            } else if name == "grid" && bare {
                return Err(grid_error(scanner.word()));
            } else if name == "size" && bare {
                let fix = format!("name the buffer: `size y={}`", scanner.shown());
                return Err(SpecError::new("`size` says of no buffer how many elements it has", fix));
            } else {
                run.inputs.push((name, Spec::scan(scanner)?));
            }
        }
        scanner.skip_space();
    }
    Ok(run)
}

/// The error for a grid that is not `X,Y,Z`; axes that are missing have one workgroup.
fn grid_error(text: &str) -> SpecError {
    let mut counts: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_count = |text: &&str| text.parse::<u32>().is_ok();
    if !counts.iter().all(is_count) || counts.len() > 3 {
        counts = vec!["16"];
    }
    counts.resize(3, "1");
    SpecError::new(
        format!("`{}` is not a grid, which is three counts of workgroups in parentheses", shorten(text)),
        format!("write `grid=({})`", counts.join(",")),
    )
}

/// `NAME=`
fn binding(scanner: &mut Scanner<'_>) -> Result<String, SpecError> {
    let before = scanner.at;
    let name = scanner.name();
    if !name.is_empty() && scanner.eat("=") && !scanner.rest().starts_with('>') {
        return Ok(name.to_owned());
    }
    scanner.at = before;
    let fix = match scanner.rest().as_bytes().first() {
        Some(b',') => "separate buffers by a space, without a comma",
        Some(b'@' | b'%' | b'$') => "write the buffer's name without a sigil: `x=[1.0, 2.0]`",
        _ => "write a buffer's name, `=` and its contents without a space between: `x=[1.0, 2.0]`",
    };
    Err(SpecError::new(format!("expected `NAME=SPEC`, found `{}`", scanner.shown()), fix))
}

fn expect(scanner: &mut Scanner<'_>) -> Result<Expect, SpecError> {
    let expect = if scanner.eat_word("trap") {
        let code = scanner.until_space();
        let wrong = || SpecError::new(format!("`{}` is not a trap code", shorten(code)), "write `=> trap 7`");
        Expect::Trap(code.parse().map_err(|_| wrong())?)
    } else if scanner.eat_word("race") {
        Expect::Race
    } else {
        let mut buffers = Vec::new();
        while !scanner.is_empty() {
            before_arrow(scanner)?;
            buffers.push((binding(scanner)?, Spec::scan(scanner)?));
            scanner.skip_space();
        }
        if buffers.is_empty() {
            return Err(SpecError::new(
                "nothing follows `=>`",
                "write `NAME=SPEC`, `trap CODE` or `race` after it, or leave it out",
            ));
        }
        Expect::Buffers(buffers)
    };
    scanner.skip_space();
    if !scanner.is_empty() {
        before_arrow(scanner)?;
        return Err(SpecError::new(
            format!("`{}` follows what is expected", scanner.shown()),
            "expect one thing after `=>`: buffers, `trap CODE` or `race`",
        ));
    }
    Ok(expect)
}

/// Reports what follows `=>` and belongs before it.
fn before_arrow(scanner: &Scanner<'_>) -> Result<(), SpecError> {
    let rest = scanner.rest();
    let (what, form) = if rest.starts_with("size ") || rest.starts_with("size=") {
        ("size", "size NAME=COUNT")
    } else if rest.starts_with("grid=(") || rest.starts_with("grid=") && !rest.starts_with("grid=[") {
        ("grid", "grid=(X,Y,Z)")
    } else if rest.starts_with("=>") {
        return Err(SpecError::new("a second `=>`", "write everything expected after one `=>`"));
    } else {
        return Ok(());
    };
    Err(SpecError::new(
        format!("`{what}` follows `=>`, after which only expected results belong"),
        format!("move `{form}` before `=>`"),
    ))
}

/// What follows a `//~` on line `line`.
fn expected_errors(line: u32, text: &str) -> Result<Vec<ExpectedError>, SpecError> {
    let up = text.bytes().take_while(|byte| *byte == b'^').count() as u32;
    let wrong = || {
        SpecError::new(
            format!("`//~{}` is not an expectation", shorten(text)),
            "write `//~ error[V014]` on the line that is wrong, or `//~^ error[V014]` on the line below",
        )
    };
    let line = line.checked_sub(up).filter(|line| *line > 0).ok_or_else(wrong)?;
    let mut errors = Vec::new();
    for word in text[up as usize..].split_whitespace() {
        let code = word.strip_prefix("error[").and_then(|rest| rest.strip_suffix(']')).ok_or_else(wrong)?;
        errors.push(ExpectedError { line, code: code.to_owned() });
    }
    if errors.is_empty() { Err(wrong()) } else { Ok(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read_in_full() {
        let source = "//@ run a=[2.0] x=rand(seed=1, count=3) size y=3 grid=(1, 2,3) => y=[1, 2] z=hex\"00\"\n\
            program @p workgroup(1, 1, 1) {\n  //@ run grid=[1]\n  //@+ => trap 7\n  bad //~ error[V001] error[V002]\n\
            //~^^ error[P003]\n}\n//@ run => race\n//@ opt fold dce\n";
        let (found, wrong) = directives(source);
        assert_eq!(wrong, []);
        let first = &found.runs[0];
        assert_eq!(first.inputs[0], ("a".into(), Spec::List(vec!["2.0".into()])));
        assert_eq!(first.inputs[1].1, Spec::Rand { seed: 1, count: Some(3) });
        assert_eq!(first.sizes, [("y".into(), 3)]);
        assert_eq!(first.grid, Some([1, 2, 3]));
        let Expect::Buffers(buffers) = &first.expect else { panic!("{first:?}") };
        assert_eq!(buffers[1], ("z".into(), Spec::Hex(vec![0])));
        assert_eq!(found.runs[1].inputs[0].0, "grid", "a buffer may be called grid");
        assert_eq!(found.runs[1].line, 3);
        assert_eq!(found.runs[1].expect, Expect::Trap(7));
        assert_eq!(found.runs[2].expect, Expect::Race);
        assert_eq!(found.opts, [Opt { line: 9, passes: vec!["fold".into(), "dce".into()] }]);
        let errors: Vec<_> = found.errors.iter().map(|error| (error.line, error.code.as_str())).collect();
        assert_eq!(errors, [(5, "V001"), (5, "V002"), (4, "P003")]);
    }

    #[test]
    fn the_rule_has_a_wrong_and_a_right_example() {
        assert_eq!(directives(RULE.wrong).1[0].code, RULE.code);
        assert_eq!(directives(RULE.right).0.runs.len(), 1);
    }

    #[test]
    fn mangled_directives_are_errors_at_worst() {
        let good = "//@ run a=[2.0, -1] x=rand(seed=1, count=3) size y=3 grid=(1, 2,3) => y=hex\"0f\" z=@f.bin\n\
            //@+ => trap 7\n//@ run => race\n  bad //~^ error[V001]\n";
        let noise: Vec<char> = "=[](){};,\"@ ~^/0\u{e9}\u{1f600}\n".chars().collect();
        let mut state = 1u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut chars: Vec<char> = good.chars().collect();
            for _ in 0..1 + below(4) {
                let at = below(chars.len());
                match below(3) {
                    0 => drop(chars.remove(at)),
                    1 => chars[at] = noise[below(noise.len())],
                    _ => chars.insert(at, noise[below(noise.len())]),
                }
            }
            let mangled: String = chars.into_iter().collect();
            let wrong = directives(&mangled).1;
            refused += usize::from(!wrong.is_empty());
            assert!(wrong.iter().all(|finding| !finding.fix.is_empty()), "{mangled}");
        }
        assert!(refused > 10_000, "{refused} of 20000 are refused");
    }

    #[test]
    fn wrong_directives_point_at_the_place() {
        let cases = [
            ("//@ rnu x=[1]", 5, "not a directive"),
            ("//@ opt  ", 10, "names no pass"),
            ("//@ run x", 9, "NAME=SPEC"),
            ("//@ run x=[1] => ", 18, "nothing follows"),
            ("//@ run x=5 => y=[1]", 11, "not an input"),
            ("//@ run size x=many", 20, "not a count"),
            ("//@ run => trap seven", 22, "not a trap code"),
            ("//@ run => race y=[1]", 17, "follows what is expected"),
            ("//@ run grid=(1,2)", 19, "not a grid"),
            ("//@ run grid=(1,2,4294967296)", 30, "not a grid"),
            ("//@+ x=[1]", 1, "continues no directive"),
            ("  //~ errors", 3, "not an expectation"),
            ("//~^ error[V001]", 1, "not an expectation"),
        ];
        for (source, column, message) in cases {
            let wrong = directives(source).1;
            assert!(wrong[0].message.contains(message), "{source}: {}", wrong[0]);
            let Place::Source(span) = wrong[0].place else { panic!("{source}") };
            assert_eq!((span.line, span.column), (1, column), "{source}");
        }
    }

    #[test]
    fn errors_of_wrong_directives_have_the_right_spelling() {
        let cases = [
            ("//@ run x=[1] grid=2 => y=[1]", "`2` is not a grid", "`grid=(2,1,1)`"),
            ("//@ run x=[1] grid=16,1,1 => y=[1]", "`16,1,1` is not a grid", "`grid=(16,1,1)`"),
            ("//@ run x=[1] grid=(1,1) => y=[1]", "`1,1` is not a grid", "`grid=(1,1,1)`"),
            ("//@ run x=[1] size=1 => y=[1]", "`size`", "`size y=1`"),
            ("//@ run x=[1] => y=[1] size y=1", "`size` follows", "`size NAME=COUNT` before `=>`"),
            ("//@ run x=[1] => y=[1] grid=(1,1,1)", "`grid` follows", "`grid=(X,Y,Z)` before `=>`"),
            ("//@ run x=[1] => trap 7 grid=(1,1,1)", "`grid` follows", "before `=>`"),
            ("//@ run x=[1] => y=[1] => z=[1]", "a second `=>`", "one `=>`"),
            ("//@ run x=[1] -> y=[1]", "`->`", "write `=>`"),
            ("//@ run x=1 => y=[1]", "`1` is not an input", "`[1]`"),
            ("//@ run x=[1], y=[2]", "found `,`", "without a comma"),
            ("//@ run @x=[1]", "found `@x=[1]`", "without a sigil"),
            ("// @run x=[1]", "looks like `//@ run`", "`//@ run`"),
            ("  // @ opt all", "looks like `//@ opt`", "`//@ opt`"),
        ];
        for (source, message, fix) in cases {
            let wrong = directives(source).1;
            assert_eq!(wrong.len(), 1, "{source}");
            assert!(
                wrong[0].message.contains(message) && wrong[0].fix.contains(fix),
                "{source}: {}",
                wrong[0]
            );
        }
        let (found, wrong) = directives("//@ run grid=2\n//@ run x=[1]\n//@run x=[2]\n// a comment @run\n");
        assert_eq!((found.runs.len(), wrong.len()), (2, 1), "a wrong directive leaves the others");
    }
}
