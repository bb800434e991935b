//! Properties of the generators and, over what they make, of the language.
//!
//! `vyre_testkit::property` says how to run more cases and how to see a failure again.

use vyre_foundation::diagnostic::Diagnostic;
use vyre_foundation::ir::Program;
use vyre_foundation::text;
use vyre_foundation::validate::validate;
use vyre_testkit::any;
use vyre_testkit::generate::{self, Case, Config, Stats};
use vyre_testkit::property::{cases, check};
use vyre_testkit::source::{Draw, Source};

fn show(program: &Program) -> String {
    text::print(program)
}

fn join(findings: Vec<Diagnostic>) -> String {
    findings.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n")
}

fn default_case(source: &mut dyn Source) -> Case {
    generate::case(source, &Config::default())
}

#[test]
fn generated_programs_cover_the_language() {
    let mut stats = Stats::default();
    for seed in 0..3000 {
        stats.add(&generate::seeded(seed, &Config { traps: true, ..Config::default() }).program);
    }
    assert_eq!(stats.missing_ops(), []);
    assert!(stats.with_all * 2 > stats.programs, "{stats}");
    assert!(stats.values_live * 10 > stats.values * 8, "{stats}");
}

#[test]
fn switched_off_features_stay_away() {
    let config = Config {
        floats: false,
        wide: false,
        control: false,
        functions: false,
        barriers: false,
        grid_barriers: false,
        subgroups: false,
        atomics: false,
        mma: false,
        collectives: false,
        indirect: false,
        ..Config::default()
    };
    let mut stats = Stats::default();
    for seed in 0..500 {
        stats.add(&generate::seeded(seed, &config).program);
    }
    let left: Vec<&str> = stats.ops.keys().map(|op| op.name()).collect();
    for gone in [
        "if",
        "for",
        "call",
        "barrier",
        "grid_barrier",
        "atomic_add",
        "fma",
        "mma",
        "subgroup_any",
        "indirect",
    ] {
        assert!(!left.contains(&gone), "{gone} is switched off");
    }
    assert!(left.contains(&"store") && left.contains(&"mul"));
}

#[test]
fn any_programs_cover_the_language() {
    let mut stats = Stats::default();
    cases(3000).for_each(|seed| stats.add(&any::seeded(seed)));
    assert_eq!(stats.missing_ops(), []);
}

#[test]
fn generated_programs_are_valid() {
    let valid = |case: &Case| validate(&case.program).map(drop).map_err(join);
    check(1000, default_case, valid, |case| show(&case.program));
}

#[test]
fn any_program_is_judged_without_a_panic() {
    let judged = |program: &Program| {
        let _ = validate(program);
        Ok(())
    };
    check(3000, any::program, judged, show);
}

#[test]
fn wire_carries_any_program() {
    let same = |program: &Program| {
        let bytes = program.to_bytes();
        let back = Program::from_bytes(&bytes).map_err(|error| error.to_string())?;
        if back == *program && back.to_bytes() == bytes {
            Ok(())
        } else {
            Err("the wire form changes it".into())
        }
    };
    check(3000, any::program, same, show);
}

#[test]
fn text_carries_any_program() {
    let same = |program: &Program| {
        let printed = text::print(program);
        let parsed = text::parse(&printed).map_err(join)?;
        if parsed.program != *program {
            return Err(format!("the text form changes it to\n{}", text::print(&parsed.program)));
        }
        let (again, map) = text::print_with_map(&parsed.program);
        if again != printed || map != parsed.map {
            return Err("printer and parser disagree on the layout or the source map".into());
        }
        Ok(())
    };
    check(3000, any::program, same, show);
}

#[test]
fn formatting_keeps_what_is_printed() {
    let stays = |program: &Program| {
        let printed = text::print(program);
        let formatted = text::format(&printed).map_err(join)?;
        if formatted == printed { Ok(()) } else { Err(format!("formatted:\n{formatted}")) }
    };
    check(2000, any::program, stays, show);
}

/// A program's text with its layout spoilt and comments strewn in.
struct Untidy {
    program: Program,
    source: String,
    comments: usize,
}

fn untidy(source: &mut dyn Source) -> Untidy {
    let program = any::program(source);
    let mut draw = Draw::new(source);
    let mut comments = 0;
    let mut comment = |out: &mut String| {
        comments += 1;
        out.push_str(&format!("// comment {comments} /* é }} */"));
    };
    let mut out = String::new();
    for line in text::print(&program).lines() {
        for _ in 0..draw.below(3) {
            if draw.chance(60) {
                out.push_str(["", "  ", "\t"][draw.below(3) as usize]);
                comment(&mut out);
            }
            out.push_str(if draw.chance(20) { "\r\n" } else { "\n" });
        }
        out.push_str(&" ".repeat(draw.below(5) as usize));
        out.push_str(line.trim_start());
        out.push_str(["", " ", "   "][draw.below(3) as usize]);
        if draw.chance(50) {
            comment(&mut out);
        }
        out.push('\n');
    }
    if draw.chance(60) {
        comment(&mut out);
    }
    Untidy { program, source: out, comments }
}

#[test]
fn formatting_is_idempotent_and_keeps_program_and_comments() {
    let holds = |case: &Untidy| {
        let once = text::format(&case.source).map_err(join)?;
        let twice = text::format(&once).map_err(join)?;
        if once != twice {
            return Err(format!("once:\n{once}\ntwice:\n{twice}"));
        }
        if text::parse(&once).map_err(join)?.program != case.program {
            return Err(format!("another program:\n{once}"));
        }
        let lost = (1..=case.comments).find(|at| !once.contains(&format!("// comment {at} ")));
        lost.map_or(Ok(()), |at| Err(format!("comment {at} is lost:\n{once}")))
    };
    check(1500, untidy, holds, |case| case.source.clone());
}
