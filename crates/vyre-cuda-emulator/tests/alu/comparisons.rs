//! Comparisons, selections, and the lesser and greater of two.

use crate::cases::{integers, of_floats};
use crate::floats::pairs;
use crate::soft::{FORMATS, Ty, flushed, is_nan, nan};
use crate::{Case, Tally};
use softfloat_wrapper::{F64, Float};

/// Whether a comparison holds, by SoftFloat on the exact values.
fn holds(op: &str, a: f64, b: f64) -> bool {
    let (a, b) = (F64::from_bits(a.to_bits()), F64::from_bits(b.to_bits()));
    let unordered = a.is_nan() || b.is_nan();
    let (lt, le, eq) = (a.lt_quiet(b), a.le_quiet(b), a.eq(b));
    match op {
        "eq" => eq,
        "ne" => !unordered && !eq,
        "lt" => lt,
        "le" => le,
        "gt" => b.lt_quiet(a),
        "ge" => b.le_quiet(a),
        "num" => !unordered,
        "nan" => unordered,
        _ => unordered || holds(&op[..2], f64::from_bits(a.to_bits()), f64::from_bits(b.to_bits())),
    }
}

const FLOAT_OPS: [&str; 14] =
    ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
const COMBINATIONS: [&str; 4] = ["", ".and", ".or", ".xor"];

fn combined(combination: &str, holds: bool, other: u64) -> u64 {
    match combination {
        ".and" => u64::from(holds) & other,
        ".or" => u64::from(holds) | other,
        ".xor" => u64::from(holds) ^ other,
        _ => holds.into(),
    }
}

/// The third operand is a predicate.
fn with_predicate(mut cases: Vec<Case>) -> Vec<Case> {
    cases.iter_mut().enumerate().for_each(|(i, case)| case[2] = (i as u64 % 3) & 1);
    cases
}

#[test]
fn floats() {
    let mut tally = Tally::default();
    for ty in FORMATS {
        let cases = with_predicate(of_floats(ty.layout(), 2, "setp"));
        for ftz in [false, true] {
            if ftz && matches!(ty, Ty::Bf16 | Ty::F64) {
                continue;
            }
            for op in FLOAT_OPS {
                check_float(&mut tally, ty, ftz, op, &cases);
            }
        }
    }
    tally.report("set, setp of floats");
}

fn check_float(tally: &mut Tally, ty: Ty, ftz: bool, op: &str, cases: &[Case]) {
    let half = matches!(ty, Ty::F16 | Ty::Bf16);
    let flag = if ftz { ".ftz" } else { "" };
    let outcome = |a: u64, b: u64| {
        let (a, b) = if ftz { (flushed(ty, a), flushed(ty, b)) } else { (a, b) };
        holds(op, ty.value(a), ty.value(b))
    };
    for combination in COMBINATIONS {
        let text = format!("{op}{combination}{flag}");
        // 16-bit types have no second result.
        tally.compare(&format!("setp.{text}.{}", ty.name()), cases, if half { 1 } else { 2 }, |case| {
            let t = outcome(case[0], case[1]);
            [combined(combination, t, case[2]), combined(combination, !t, case[2])]
        });
        for (dest, one) in [("u32", 0xffff_ffff), if half { ("s16", 0xffff) } else { ("f32", 0x3f80_0000) }] {
            tally.check(&format!("set.{text}.{dest}.{}", ty.name()), cases, |case| {
                combined(combination, outcome(case[0], case[1]), case[2]) * one
            });
        }
        if half {
            let mut pairs = pairs(cases);
            pairs.iter_mut().for_each(|case| case[2] &= 1);
            let both = |case: &Case| {
                [0, 16].map(|shift| {
                    let t = outcome(case[0] >> shift & 0xffff, case[1] >> shift & 0xffff);
                    combined(combination, t, case[2])
                })
            };
            tally.compare(&format!("setp.{text}.{}x2", ty.name()), &pairs, 2, both);
            for (dest, one) in [(format!("{}x2", ty.name()), ty.bits(1.0)), ("u32".into(), 0xffff)] {
                tally.check(&format!("set.{text}.{dest}.{}x2", ty.name()), &pairs, |case| {
                    (both(case)[0] | both(case)[1] << 16) * one
                });
            }
        }
    }
}

#[test]
fn whole_numbers() {
    let mut tally = Tally::default();
    for (ty, bits, signed) in crate::integers::TYPES {
        let cases = with_predicate(integers(bits, 2, ty));
        let value = |bits_of: u64| crate::integers::value(bits_of, bits, signed);
        let unsigned: &[&str] = if signed { &[] } else { &["lo", "ls", "hi", "hs"] };
        for op in ["eq", "ne", "lt", "le", "gt", "ge"].iter().chain(unsigned) {
            let outcome = |case: &Case| {
                let (a, b) = (value(case[0]), value(case[1]));
                match *op {
                    "eq" => a == b,
                    "ne" => a != b,
                    "lt" | "lo" => a < b,
                    "le" | "ls" => a <= b,
                    "gt" | "hi" => a > b,
                    _ => a >= b,
                }
            };
            for combination in COMBINATIONS {
                tally.compare(&format!("setp.{op}{combination}.{ty}"), &cases, 2, |case| {
                    let t = outcome(case);
                    [combined(combination, t, case[2]), combined(combination, !t, case[2])]
                });
                tally.check(&format!("set.{op}{combination}.f32.{ty}"), &cases, |case| {
                    combined(combination, outcome(case), case[2]) * 0x3f80_0000
                });
            }
        }
        tally.check(&format!("min.{ty}"), &cases, |case| {
            if value(case[0]) < value(case[1]) { case[0] } else { case[1] }
        });
        tally.check(&format!("max.{ty}"), &cases, |case| {
            if value(case[0]) > value(case[1]) { case[0] } else { case[1] }
        });
        tally.check(&format!("selp.{ty}"), &cases, |case| case[1 - case[2] as usize]);
    }
    tally.report("set, setp, selp of integers");
}

#[test]
fn selections() {
    let mut tally = Tally::default();
    let by_float = of_floats(Ty::F32.layout(), 3, "slct");
    tally.check("slct.b64.f32", &by_float, |case| {
        if f32::from_bits(case[2] as u32) >= 0.0 { case[0] } else { case[1] }
    });
    tally.check("slct.ftz.u32.f32", &by_float, |case| {
        if f32::from_bits(flushed(Ty::F32, case[2]) as u32) >= 0.0 { case[0] } else { case[1] }
    });
    tally.check("slct.s16.s32", &integers(32, 3, "slct"), |case| case[usize::from(case[2] >> 31 == 1)]);
    tally.report("slct");
}

#[test]
fn extremes_of_floats() {
    let mut tally = Tally::default();
    for ty in FORMATS {
        let cases = of_floats(ty.layout(), 2, "min");
        for flags in 0..16 {
            let [max, ftz, keeps_nan, xorsign] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
            if ftz && matches!(ty, Ty::Bf16 | Ty::F64) || (keeps_nan || xorsign) && ty == Ty::F64 {
                continue;
            }
            let mut text = String::from(if max { "max" } else { "min" });
            for (flag, name) in [(ftz, ".ftz"), (keeps_nan, ".NaN"), (xorsign, ".xorsign.abs")] {
                text += if flag { name } else { "" };
            }
            let one = |a: u64, b: u64| {
                let (a, b) = if ftz { (flushed(ty, a), flushed(ty, b)) } else { (a, b) };
                let sign = 1 << (ty.layout().width - 1);
                let product_sign = if xorsign { (a ^ b) & sign } else { 0 };
                let (a, b) = if xorsign { (a & !sign, b & !sign) } else { (a, b) };
                match (is_nan(ty, a), is_nan(ty, b)) {
                    (true, true) => nan(ty, &[a, b]),
                    (true, _) | (_, true) if keeps_nan => nan(ty, &[a, b]),
                    (true, false) => b | product_sign,
                    (false, true) => a | product_sign,
                    // Equal numbers differ only as zeros, of which -0 is the lesser.
                    _ if ty.value(a) == ty.value(b) => (if max { a & b } else { a | b }) | product_sign,
                    _ => (if holds("lt", ty.value(a), ty.value(b)) != max { a } else { b }) | product_sign,
                }
            };
            tally.check(&format!("{text}.{}", ty.name()), &cases, |case| one(case[0], case[1]));
            if matches!(ty, Ty::F16 | Ty::Bf16) {
                tally.check(&format!("{text}.{}x2", ty.name()), &pairs(&cases), |case| {
                    one(case[0] & 0xffff, case[1] & 0xffff) | one(case[0] >> 16, case[1] >> 16) << 16
                });
            }
        }
    }
    tally.report("min, max of floats");
}
