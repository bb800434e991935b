//! Properties of the generators and, over what they make, of the language.
//!
//! `vyre_testkit::property` says how to run more cases and how to see a failure again.

use vyre_foundation::diagnostic::Diagnostic;
use vyre_foundation::ir::{Block, ComputeOp, Node, Program, walk};
use vyre_foundation::text;
use vyre_foundation::validate::validate;
use vyre_generate::source::{Draw, Seeded, Source};
use vyre_generate::{Case, Config, Stats};
use vyre_testkit::any;
use vyre_testkit::compare;
use vyre_testkit::fuzz;
use vyre_testkit::property::{cases, check};

fn show(program: &Program) -> String {
    text::print(program)
}

fn join(findings: Vec<Diagnostic>) -> String {
    findings.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n")
}

fn default_case(source: &mut dyn Source) -> Case {
    vyre_generate::case(source, &Config { math: true, ..Config::default() })
}

#[test]
fn generated_programs_cover_the_language() {
    let mut stats = Stats::default();
    for seed in 0..4000 {
        stats.add(&vyre_generate::seeded(seed, &Config { traps: true, ..Config::default() }).program);
    }
    assert_eq!(stats.missing_ops(), [""; 0]);
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
        stats.add(&vyre_generate::seeded(seed, &config).program);
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
    assert_eq!(stats.missing_ops(), [""; 0]);
}

#[test]
fn generated_programs_are_valid() {
    check(1000, default_case, |case| case.valid().map(drop), compare::show);
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

/// A program's text with a few pieces deleted, doubled, moved or replaced.
fn mistyped(source: &mut dyn Source) -> String {
    let printed = text::print(&any::program(source));
    let mut draw = Draw::new(source);
    let mut pieces: Vec<&str> =
        printed.split_inclusive([' ', '\n', ',', '.', '[', '(', '%', '@', '$']).collect();
    for _ in 0..draw.between(1, 6) {
        let count = pieces.len() as u32;
        let (at, other) = (draw.below(count) as usize, draw.below(count) as usize);
        match draw.below(5) {
            0 if count > 1 => drop(pieces.remove(at)),
            1 => pieces.insert(at, pieces[other]),
            2 => pieces.swap(at, other),
            3 => {
                pieces[at] = draw.pick(&[
                    "}", "{", "//", "\u{e9}", "0x", "-", "nan(", "1e999", "..", "=", "\r", "\0", "if",
                ])
            }
            _ => pieces.truncate(at.max(1)),
        }
    }
    pieces.concat()
}

#[test]
fn mistyped_programs_are_read_or_refused_with_a_fix() {
    let holds = |source: &String| {
        fuzz::text(source.as_bytes());
        fuzz::validate(source.as_bytes());
        Ok(())
    };
    check(2000, mistyped, holds, String::clone);
}

#[test]
fn changed_certificates_are_read_or_refused_with_a_fix() {
    let make = |source: &mut dyn Source| {
        let mut draw = Draw::new(source);
        (0..4 * (1 + draw.below(4))).map(|_| draw.below(256) as u8).collect::<Vec<u8>>()
    };
    let holds = |bytes: &Vec<u8>| {
        fuzz::certificate(bytes);
        Ok(())
    };
    check(2000, make, holds, |bytes| format!("{bytes:?}"));
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

#[test]
fn generated_programs_have_one_result() {
    check(300, default_case, |case| compare::settled(case).map(drop), compare::show);
}

#[test]
fn traps_are_the_same_under_every_schedule() {
    let make =
        |source: &mut dyn Source| vyre_generate::case(source, &Config { traps: true, ..Config::default() });
    check(100, make, |case| compare::settled(case).map(drop), compare::show);
}

fn without_barriers(block: &mut Block) {
    block.retain(|node| !matches!(node, Node::Barrier { .. }));
    block.iter_mut().flat_map(Node::blocks_mut).for_each(without_barriers);
}

/// The phases mean something: without the barriers between them many programs race.
#[test]
fn generated_programs_need_their_barriers() {
    let (mut with_barriers, mut racy) = (0, 0);
    for seed in 0..300 {
        let mut case = vyre_generate::seeded(seed, &Config::default());
        let bare = compare::changed(&case, |parts| without_barriers(&mut parts.body.block)).unwrap();
        if *bare.program() != case.program {
            with_barriers += 1;
            case.program = bare.program().clone();
            racy += u32::from(compare::settled(&case).is_err());
        }
    }
    eprintln!("{racy} of {with_barriers} programs race without their barriers");
    assert!(racy * 3 > with_barriers, "{racy} of {with_barriers} programs race without their barriers");
}

/// Calls `f` with every line of a block, for change.
fn each_line(block: &mut Block, f: &mut dyn FnMut(&mut Node)) {
    for node in block {
        f(node);
        node.blocks_mut().for_each(|inner| each_line(inner, f));
    }
}

/// The outputs depend on what is computed: another op anywhere is mostly seen.
#[test]
fn a_wrong_op_shows_in_the_outputs() {
    let (mut wrong, mut seen) = (0, 0);
    for seed in 0..300 {
        let case = vyre_generate::seeded(seed, &Config::default());
        let mut lines = 0;
        walk(&case.program.parts().body.block, |_, _, _| lines += 1);
        // The first line from there on that another op of the same shape can replace.
        let mut skip = Seeded::new(seed).next_u64() % lines;
        let mut mutated = false;
        let changed = compare::changed(&case, |parts| {
            each_line(&mut parts.body.block, &mut |node| {
                skip = skip.saturating_sub(1);
                mutated = mutated || (skip == 0 && mutate(node));
            });
        });
        if mutated {
            wrong += 1;
            seen += u32::from(
                changed.and_then(|changed| compare::same_outputs(&case, &changed, |code| code)).is_err(),
            );
        }
    }
    eprintln!("{seen} of {wrong} wrong ops are seen in the outputs");
    assert!(seen * 10 > wrong * 6, "{seen} of {wrong} wrong ops are seen in the outputs");
}

/// Replaces a computing op by one that nearly always gives another result. Not the remainder: it keeps loops short.
fn mutate(node: &mut Node) -> bool {
    const OTHERS: [(ComputeOp, ComputeOp); 10] = [
        (ComputeOp::Add, ComputeOp::Sub),
        (ComputeOp::Sub, ComputeOp::Add),
        (ComputeOp::Mul, ComputeOp::Add),
        (ComputeOp::Div, ComputeOp::Add),
        (ComputeOp::Xor, ComputeOp::Or),
        (ComputeOp::Rotl, ComputeOp::Rotr),
        (ComputeOp::Lt, ComputeOp::Ge),
        (ComputeOp::Eq, ComputeOp::Ne),
        (ComputeOp::Min, ComputeOp::Max),
        (ComputeOp::Floor, ComputeOp::Ceil),
    ];
    let Node::Compute { op, .. } = node else { return false };
    let other = OTHERS.iter().find(|(from, _)| from == op);
    if let Some((_, to)) = other {
        *op = *to;
    }
    other.is_some()
}
