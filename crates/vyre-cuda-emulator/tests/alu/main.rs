//! The emulator's arithmetic against implementations that share nothing with it.
//!
//! Berkeley SoftFloat answers for floats in all four roundings, and the language's own 128-bit integers for integers. Each
//! test prints how many cases every instruction passed. `VYRE_CASES` sets how many random cases each has.
//! Not here: which instructions are legal, which is `ptxas`'s to say.

mod cases;
mod comparisons;
mod conversions;
mod floats;
mod integers;
mod soft;

use std::io::Write;
use vyre_cuda_emulator::alu::{Fun, Row, Scalar, Target, lookup};

/// Operands of one case; an instruction uses the first few.
type Case = [u64; 4];

/// Random cases of each instruction.
fn random_count() -> usize {
    std::env::var("VYRE_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(1000)
}

/// Finds `add.rn.f32` for a target that has everything.
fn find(text: &str, operands: usize) -> Scalar {
    let parts: Vec<&str> = text.split('.').collect();
    let target = Target { version: 90, sm: 90, specific: false };
    lookup(parts[0], &parts[1..], operands, target).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Both results of every case, by whole warps where the instruction works on those.
fn results(scalar: &Scalar, cases: &[Case]) -> Vec<[u64; 2]> {
    if let Fun::Lane(f) = scalar.fun {
        return cases.iter().map(|case| f(&case[..scalar.sources.len()], false).values).collect();
    }
    let warps = cases.chunks(32).flat_map(|chunk| {
        let row = |operand: usize| -> Row {
            std::array::from_fn(|lane| chunk.get(lane).map_or(0, |case| case[operand]))
        };
        let rows = [row(0), row(1), row(2)];
        let first = apply(scalar.fun, &rows);
        let second = scalar.second.map_or([0; 32], |fun| apply(fun, &rows));
        (0..chunk.len()).map(move |lane| [first[lane], second[lane]]).collect::<Vec<_>>()
    });
    warps.collect()
}

fn apply(fun: Fun, [a, b, c]: &[Row; 3]) -> Row {
    match fun {
        Fun::One(f) => f(a),
        Fun::Two(f) => f(a, b),
        Fun::Three(f) => f(a, b, c),
        Fun::Lane(_) => unreachable!("lane by lane"),
    }
}

/// Counts cases and differences.
#[derive(Default)]
struct Tally {
    instructions: u64,
    cases: u64,
    differences: u64,
}

impl Tally {
    /// Compares an instruction's first result.
    fn check(&mut self, text: &str, cases: &[Case], expected: impl Fn(&Case) -> u64) {
        self.compare(text, cases, 1, |case| [expected(case), 0]);
    }

    /// Compares its first results, one or two.
    fn compare(&mut self, text: &str, cases: &[Case], dests: usize, expected: impl Fn(&Case) -> [u64; 2]) {
        let operands = 1 + sources(text);
        let scalar = find(text, operands);
        let mut differences = 0;
        for (case, got) in cases.iter().zip(results(&scalar, cases)) {
            let wanted = expected(case);
            if got[..dests] != wanted[..dests] {
                differences += 1;
                if differences <= 5 {
                    let used = &case[..scalar.sources.len()];
                    let _ = writeln!(std::io::stderr(), "{text} {used:x?}: {got:x?}, expected {wanted:x?}");
                }
            }
        }
        self.instructions += 1;
        self.cases += cases.len() as u64;
        self.differences += differences;
    }

    /// Prints the counts, and fails if anything differed.
    fn report(self, name: &str) {
        let Tally { instructions, cases, differences } = self;
        // Past the test harness's capture, so that the counts show in every run.
        let _ = writeln!(
            std::io::stderr(),
            "{name:<28} {instructions:>4} instructions {cases:>11} cases {differences:>3} differences"
        );
        assert_eq!(differences, 0, "{name}");
    }
}

/// How many sources an instruction has, which `lookup` checks against its own count.
fn sources(text: &str) -> usize {
    let (opcode, modifiers) = text.split_once('.').unwrap_or((text, ""));
    let has = |name: &str| modifiers.split('.').any(|modifier| modifier == name);
    match opcode {
        "abs" | "neg" | "not" | "cnot" | "popc" | "clz" | "brev" | "bfind" | "rcp" | "sqrt" | "testp" => 1,
        "cvt" if has("pack") => 2 + usize::from(has("b32")),
        "cvt" if modifiers.contains("f16x2") => 2,
        "cvt" => 1,
        "set" | "setp" => 2 + usize::from(has("and") || has("or") || has("xor")),
        "bfi" | "lop3" => 4 + usize::from(has("and") || has("or")),
        "mad" | "mad24" | "madc" | "fma" | "sad" | "bfe" | "fns" | "dp4a" | "dp2a" | "selp" | "slct"
        | "prmt" | "shf" => 3,
        _ => 2,
    }
}
