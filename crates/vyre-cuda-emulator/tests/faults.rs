//! The rules of `faults/`: each is found in PTX of its class, and changes what that computes.
//!
//! The examples are data: what is between a kernel's loads and its store, with `%x`, `%y` and `%z` as inputs and `%o` as the
//! result. `Machine` runs them; it knows as little PTX as they use.

mod machine;

use machine::Machine;
use vyre_cuda_emulator::faults::{Applied, CompilerFaults};
use vyre_cuda_emulator::ptx::{self, Module};

const PTXAS: &str = include_str!("../faults/ptxas.faults");
const PLANTED: &str = include_str!("../faults/planted.faults");
const EXAMPLES: &str = include_str!("faults/examples.ptx");

fn module(body: &str) -> Module {
    let text = format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry vyre_kernel() {{\n\
         .reg .pred %p<16>; .reg .b32 %r<32>; .reg .b64 %d<32>; .reg .b32 %x, %y, %z, %o; .reg .b64 %a;\n\
         .shared .b64 word;\n{body}\nret;\n}}\n"
    );
    ptx::parse(&text).unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

fn faults(text: &str) -> CompilerFaults {
    CompilerFaults::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn hits(applied: Applied) -> Vec<String> {
    let hits = match applied {
        Applied::Compiled(hits) => hits,
        Applied::Crash(hit) | Applied::Refuse(hit, _) => vec![hit],
    };
    hits.into_iter().map(|hit| hit.rule).collect()
}

/// The examples of `examples.ptx`: the rule's name, and the instructions.
fn examples() -> Vec<(&'static str, String)> {
    let sections = EXAMPLES.split("\n// ").skip(1);
    sections
        .map(|section| section.split_once('\n').map(|(name, body)| (name.trim(), body.into())).unwrap())
        .collect()
}

/// Numbers at which arithmetic breaks.
const INPUTS: [u64; 10] = [0, 1, 2, 77, 0x80, 0x8005, 0x12345678, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

fn results(module: &Module) -> Vec<u64> {
    let one = |x: u64| INPUTS.iter().map(move |y| (x, *y));
    INPUTS.into_iter().flat_map(one).map(|(x, y)| Machine::run(module, x, y, 3)).collect()
}

#[test]
fn every_rule_changes_its_example() {
    let examples = examples();
    for text in [PTXAS, PLANTED] {
        // Each rule alone, as the rest of the file could have changed the example before.
        for rule in text.split("\n\n").filter(|part| part.contains("match")) {
            let rule = faults(rule);
            let name = rule.names().next().unwrap().to_owned();
            let example = examples.iter().find(|(example, _)| *example == name);
            let (_, body) = example.unwrap_or_else(|| panic!("`{name}` has no example"));
            let before = module(body);
            let mut after = before.clone();
            let applied = rule.apply(&mut after, 90, 3);
            let crashed = matches!(applied, Applied::Crash(_));
            assert!(hits(applied).contains(&name), "`{name}` is not found in its example");
            if !crashed {
                assert_ne!(before, after, "`{name}`");
                ptx::parse(&ptx::print(&after)).unwrap_or_else(|error| panic!("`{name}`: {error:?}"));
            }
            if !crashed && !body.contains("// not run") {
                assert_ne!(
                    results(&before),
                    results(&after),
                    "`{name}` does not change what its example computes"
                );
            }
            // Level 0 is right.
            assert_eq!(hits(rule.apply(&mut module(body), 90, 0)), Vec::<String>::new(), "`{name}`");
        }
    }
}

#[test]
fn every_example_has_a_rule() {
    let rules: Vec<CompilerFaults> = vec![faults(PTXAS), faults(PLANTED)];
    let names: Vec<&str> = rules.iter().flat_map(CompilerFaults::names).collect();
    for (name, _) in examples() {
        assert!(names.contains(&name), "no rule is called `{name}`");
    }
}

/// The rule's lines, a kernel's, and the results for `%x` = 5 and `%y` = 7 without and with the rule.
fn check(rule: &str, body: &str, before: u64, after: u64) {
    let mut module = module(body);
    assert_eq!(Machine::run(&module, 5, 7, 3), before, "{body}");
    faults(&format!("miscompile \"rule\"\n{rule}")).apply(&mut module, 90, 3);
    assert_eq!(Machine::run(&module, 5, 7, 3), after, "{rule}\n{}", ptx::print(&module));
}

const NEGATED: &str =
    "  match\n    sub.T %n, 0, %a\n    and.b32 %r, %n, %b\n  replace\n    and.b32 %r, %a, %b\n";

#[test]
fn constants_are_seen_through_registers() {
    check(NEGATED, "sub.u32 %r1, 0, %x; and.b32 %o, %r1, %y;", 3, 5);
    check(NEGATED, "mov.b32 %r0, 0x0; sub.u32 %r1, %r0, %x; and.b32 %o, %r1, %y;", 3, 5);
    check(
        NEGATED,
        "mov.b32 %r0, 0x20; and.b32 %r2, %r0, 31; sub.u32 %r1, %r2, %x; and.b32 %o, %r1, %y;",
        3,
        5,
    );
    check(NEGATED, "mov.b32 %r0, 1; sub.u32 %r1, %r0, %x; and.b32 %o, %r1, %y;", 4, 4);
}

#[test]
fn links_go_through_copies_and_both_orders() {
    check(NEGATED, "sub.u32 %r1, 0, %x; mov.b32 %r2, %r1; and.b32 %o, %y, %r2;", 3, 5);
    check(NEGATED, "sub.u32 %r1, 0, %x; xor.b32 %r2, %r1, 1; and.b32 %o, %y, %r2;", 2, 2);
}

#[test]
fn a_register_with_several_writers_counts_only_in_its_block() {
    let same = "mov.b32 %r1, 9; sub.u32 %r1, 0, %x; and.b32 %o, %r1, %y;";
    check(NEGATED, same, 3, 5);
    let apart = "mov.b32 %r1, 9; sub.u32 %r1, 0, %x; here: and.b32 %o, %r1, %y;";
    check(NEGATED, apart, 3, 3);
    check(&format!("  anywhere\n{NEGATED}"), apart, 3, 5);
}

#[test]
fn a_replacement_reads_no_register_that_has_changed() {
    let gone = "mov.b32 %r2, %x; mov.b32 %r3, %x; sub.u32 %r1, 0, %r2; mov.b32 %r2, 0; and.b32 %o, %r1, %y;";
    check(NEGATED, gone, 3, 3);
    let same = "mov.b32 %r2, %x; sub.u32 %r1, 0, %r2; and.b32 %o, %r1, %y; mov.b32 %r2, 0;";
    check(NEGATED, same, 3, 5);
}

#[test]
fn names_are_the_same_wherever_they_stand() {
    let square = "  match\n    mul.lo.u32 %r, %a, %a\n  replace\n    mov.b32 %r, 1\n";
    check(square, "mul.lo.u32 %o, %x, %x;", 25, 1);
    check(square, "mul.lo.u32 %o, %x, %y;", 35, 35);
    let twice = "  match\n    add.T %b, %a, #k\n    add.T %r, %b, #k\n  replace\n    add.T %r, %a, -#k + 1\n";
    check(twice, "add.u32 %r0, %x, 3; add.u32 %o, %r0, 3;", 11, 3);
    check(twice, "add.u32 %r0, %x, 3; add.u32 %o, %r0, 4;", 12, 12);
    check(twice, "add.u32 %r0, %x, 3; add.s32 %o, %r0, 3;", 11, 11);
}

#[test]
fn conditions_decide() {
    let rule = |condition: &str| {
        format!("  where {condition}\n  match\n    add.T %r, %a, #k\n  replace\n    mov.b32 %r, 1\n")
    };
    let body = "add.u32 %o, %x, -2;";
    for condition in
        ["#k in -5..-1", "#k in 0xfffffff0..0xffffffff", "#k != 3", "T in s32, u32", "#k & 1 == 0"]
    {
        check(&rule(condition), body, 3, 1);
    }
    for condition in ["#k in 1..30", "#k == 3", "T in s32", "#k < 7"] {
        check(&rule(condition), body, 3, 3);
    }
}

#[test]
fn a_line_for_an_earlier_result_takes_its_place() {
    let rule = "  match\n    sub.u32 %n, 0, %a\n    and.b32 %r, %n, %b\n  replace\n    add.u32 %n, %a, 1\n    \
                and.b32 %r, %n, %b\n";
    check(rule, "sub.u32 %r0, 0, %x; and.b32 %r1, %r0, %y; add.u32 %o, %r0, %r1;", 0xfffffffe, 12);
}

#[test]
fn a_limit_is_for_the_module() {
    let body = "add.u32 %r0, %x, 1; add.u32 %r1, %r0, 1; add.u32 %o, %r1, 1;";
    let rule = "  match\n    add.u32 %r, %a, 1\n  replace\n    mov.b32 %r, %a\n";
    check(&format!("  once\n{rule}"), body, 8, 7);
    check(&format!("  first 2\n{rule}"), body, 8, 6);
    check(rule, body, 8, 5);
}

#[test]
fn levels_and_targets_decide() {
    let rule = |when: &str| faults(&format!("crash \"rule\"\n  {when}\n  match\n    add.u32 _, _, _\n"));
    let run = |when: &str, sm, opt| hits(rule(when).apply(&mut module("add.u32 %o, %x, %y;"), sm, opt)).len();
    assert_eq!([run("anywhere", 90, 1), run("anywhere", 90, 0)], [1, 0]);
    assert_eq!([run("only when opt >= 0", 90, 0), run("only when opt >= 3", 90, 2)], [1, 0]);
    assert_eq!([run("only for sm_90, sm_100", 100, 4), run("only for sm_90, sm_100", 80, 4)], [1, 0]);
}

#[test]
fn a_compiler_crashes_or_refuses() {
    let text = "# two\nlaunch 3 lost\n  of anything\ncrash \"a\"\n  match\n    mul.lo.u32 _, _, _\n\
                refuse \"b\": ptxas has no room\n  match\n    @_ add.* _, _, 7\n";
    let faults = faults(text);
    let run = |body: &str| faults.apply(&mut module(body), 90, 3);
    assert!(matches!(run("mul.lo.u32 %o, %x, 3;"), Applied::Crash(hit) if hit.rule == "a"));
    let refused = run("\n@%p0 add.u32 %o, %x, 7;");
    assert!(
        matches!(refused, Applied::Refuse(hit, message) if hit.line == 8 && message == "ptxas has no room")
    );
    assert_eq!(run("sub.u32 %o, %x, 7;"), Applied::Compiled(vec![]));
}

#[test]
fn a_wrong_file_is_refused_with_its_line_and_a_fix() {
    let miscompile = |body: &str| format!("miscompile \"m\"\n{body}");
    let pattern = |body: &str| miscompile(&format!("  match\n{body}"));
    let cases = [
        ("mess\n".to_owned(), 1, "begins no rule"),
        ("  once\n".into(), 1, "belongs to no rule"),
        (format!("crash \"a\"\n  where {}\n", "(".repeat(5000)), 2, "longer than"),
        ("crash\n".into(), 1, "expected `\"`"),
        ("crash \"a\n".into(), 1, "quote"),
        ("refuse \"a\"\n".into(), 1, "`:`"),
        ("refuse \"a\":\n".into(), 1, "says why"),
        ("crash \"a\"\n".into(), 1, "no pattern"),
        (miscompile("  twice\n"), 2, "not an option"),
        (miscompile("  first x\n"), 2, "a number"),
        (miscompile("  only for 90\n"), 2, "`sm_`"),
        (miscompile("  where #k ~ 3\n"), 2, "comparison"),
        (miscompile("  where #k == 3\n  match\n    ret\n  replace\n    ret\n"), 2, "does not bind #k"),
        (pattern("    add.u32 %a, %b\n"), 1, "what the compiler makes"),
        (pattern("    add..u32 %a, %b\n"), 3, "empty"),
        (pattern("    add.u32 %a, %b %c\n"), 3, "end of the line"),
        (pattern("    add.u32 %a, 0f12\n"), 3, "8 hexadecimal digits"),
        (pattern("    add.u32 %a, %b, #k + 1\n"), 3, "computed"),
        (pattern("    add.u32 %a, %b, 1\n    sub.u32 %c, %d, 1\n"), 3, "links"),
        (pattern("    add.u32 %a, %b, 1\n    sub.u32 %a, %a, 1\n"), 4, "defined twice"),
        (pattern("    add.u32 %a, %b, 1\n  replace\n    add.u32 %c, %b, 2\n"), 5, "defines %a"),
        (pattern("    add.u32 %a, %b, 1\n  replace\n    add.u32 %a, %c, 2\n"), 5, "%c has no value"),
        (pattern("    add.u32 %a, %b, 1\n  replace\n    add.u32 %a, %b, #k\n"), 5, "#k has no value"),
        (pattern("    add.u32 %a, %b, 1\n  replace\n    add.u32 %a, %a, 1\n"), 5, "%a has no value"),
        (pattern("    add.u32 %a, %b, 1\n  replace\n    add.u32 %a, %b, _\n"), 5, "no `_`"),
        (pattern("    ret\n  replace\n    mov %c, 1\n"), 5, "no type"),
    ];
    for (text, line, message) in cases {
        let error = CompilerFaults::parse(&text).expect_err(&text);
        let first = error.lines().next().unwrap();
        assert!(first.starts_with(&format!("line {line}: ")) && first.contains(message), "{text}\n{error}");
        assert!(error.lines().nth(1).unwrap().starts_with("  Fix: "), "{error}");
    }
    let two = CompilerFaults::parse("mess\nmore mess\n").unwrap_err();
    assert_eq!(two.lines().count(), 4, "{two}");
}

#[test]
fn the_examples_of_the_readme_are_read() {
    let readme = include_str!("../README.md");
    let examples: Vec<&str> =
        readme.split("```faults\n").skip(1).map(|part| part.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        faults(example);
    }
}
