//! Float ops and casts of `scalar` against two independent implementations of IEEE 754.
//!
//! `rustc_apfloat` (LLVM's APFloat) answers for all four formats; Berkeley SoftFloat answers for f16, f32 and f64
//! directly and for bf16 through f32 rounded to odd. Every 16-bit operand of one-operand ops is tried, all pairs of
//! edge values, and random operands shaped to fall near midpoints and limits. The counts are printed.

mod apfloat;
mod softfloat;

use std::io::Write;
use vyre_foundation::ir::{ComputeOp, DataType, TypeSet};
use vyre_foundation::scalar::{meaning, observe};
use vyre_generate::operands::{self, edges, shaped};
use vyre_generate::source::Seeded;

/// An op under a suffix, and the operand's type for casts.
#[derive(Clone, Copy, Debug)]
struct Case {
    op: ComputeOp,
    ty: DataType,
    source: DataType,
}

/// An implementation to compare with: the result's bits, or `None` where it has no such op.
type Oracle = fn(Case, &[u64; 4]) -> Option<u64>;

const ORACLES: [(&str, Oracle); 2] = [("rustc_apfloat", apfloat::answer), ("softfloat", softfloat::answer)];

/// Compares one op with every oracle and counts what each answered.
struct Check {
    case: Case,
    run: fn(&[u64; 4]) -> u64,
    answered: [u64; 2],
}

impl Check {
    fn new(op: ComputeOp, ty: DataType, source: DataType) -> Check {
        let run = meaning(op, ty, source).unwrap_or_else(|| panic!("{op:?} {ty} {source}"));
        Check { case: Case { op, ty, source }, run, answered: [0; 2] }
    }

    fn compare(&mut self, x: [u64; 4]) {
        let Case { op, ty, source } = self.case;
        let result = op.info().result.under(ty).unwrap();
        let ours = observe(result, (self.run)(&x));
        for (count, (name, oracle)) in self.answered.iter_mut().zip(ORACLES) {
            let Some(theirs) = oracle(self.case, &x) else { continue };
            let theirs = observe(result, theirs);
            assert_eq!(
                ours,
                theirs,
                "{}.{ty} of {source} {x:x?}: {ours:#x} here, {theirs:#x} by {name}",
                op.info().name
            );
            *count += 1;
        }
    }

    /// Prints how much each oracle answered, and fails if none did.
    fn report(&self) {
        let Case { op, ty, source } = self.case;
        let from = if source == ty { String::new() } else { format!(" of {source}") };
        let [ap, soft] = self.answered;
        assert!(ap + soft > 0, "{}.{ty}{from} has no oracle", op.info().name);
        // Past the test harness's capture, so that the counts show in every run.
        let _ = writeln!(
            std::io::stderr(),
            "{:<9} {ty:<4}{from:<8} {ap:>8} rustc_apfloat {soft:>8} softfloat, 0 mismatches",
            op.info().name
        );
    }
}

const ARITHMETIC: [ComputeOp; 5] =
    [ComputeOp::Add, ComputeOp::Sub, ComputeOp::Mul, ComputeOp::Div, ComputeOp::Rem];
const UNARY: [ComputeOp; 9] = [
    ComputeOp::Neg,
    ComputeOp::Abs,
    ComputeOp::Sqrt,
    ComputeOp::Floor,
    ComputeOp::Ceil,
    ComputeOp::Trunc,
    ComputeOp::Round,
    ComputeOp::IsNan,
    ComputeOp::IsInf,
];
const PICKS: [ComputeOp; 9] = [
    ComputeOp::Min,
    ComputeOp::Max,
    ComputeOp::Copysign,
    ComputeOp::Eq,
    ComputeOp::Ne,
    ComputeOp::Lt,
    ComputeOp::Le,
    ComputeOp::Gt,
    ComputeOp::Ge,
];

fn floats() -> impl Iterator<Item = DataType> {
    TypeSet::FLOAT.iter()
}

/// All 65,536 operands where the type has no more, else edges and random ones.
fn each_operand(ty: DataType, random_count: u32, mut visit: impl FnMut(u64)) {
    if ty.bits() == 16 {
        return (0..1 << 16).for_each(visit);
    }
    edges(ty).into_iter().for_each(&mut visit);
    let mut random = Seeded::new(ty.bits().into());
    for _ in 0..random_count {
        visit(operands::one(&mut random, ty));
    }
}

#[test]
fn one_operand() {
    for ty in floats() {
        for op in UNARY {
            let mut check = Check::new(op, ty, ty);
            each_operand(ty, 450_000, |a| check.compare([a, 0, 0, 0]));
            check.report();
        }
    }
}

#[test]
fn two_operands() {
    for ty in floats() {
        for op in ARITHMETIC.into_iter().chain(PICKS) {
            let mut check = Check::new(op, ty, ty);
            for a in edges(ty) {
                for b in edges(ty) {
                    check.compare([a, b, 0, 0]);
                }
            }
            let mut random = Seeded::new(op as u64);
            for _ in 0..250_000 {
                let (a, b) = shaped(&mut random, op, ty);
                check.compare([a, b, 0, 0]);
            }
            check.report();
        }
    }
}

#[test]
fn three_operands() {
    for ty in floats() {
        for op in [ComputeOp::Fma, ComputeOp::Clamp] {
            let mut check = Check::new(op, ty, ty);
            let all = edges(ty);
            for (i, a) in all.iter().enumerate() {
                for b in &all {
                    // Not every triple: a third of the edges, another third for each `a`.
                    for c in all.iter().skip(i % 3).step_by(3) {
                        check.compare([*a, *b, *c, 0]);
                    }
                }
            }
            let mut random = Seeded::new(op as u64);
            for _ in 0..250_000 {
                let (a, b) = shaped(&mut random, ComputeOp::Mul, ty);
                check.compare([a, b, operands::addend(&mut random, ty, a, b), 0]);
            }
            check.report();
        }
    }
}

#[test]
fn casts() {
    for source in TypeSet::NUM.iter() {
        for ty in TypeSet::NUM.iter().filter(|ty| ty.is_float() || source.is_float()) {
            let mut check = Check::new(ComputeOp::Cast, ty, source);
            if source.is_float() {
                each_operand(source, 100_000, |a| check.compare([a, 0, 0, 0]));
            } else {
                operands::integers(source, 100_000).for_each(|a| check.compare([a, 0, 0, 0]));
            }
            if source.is_float() && source.bits() > ty.bits() && ty.is_float() {
                let mut random = Seeded::new(7);
                (0..100_000)
                    .for_each(|_| check.compare([operands::near_midpoint(&mut random, source, ty), 0, 0, 0]));
            }
            check.report();
        }
    }
}
