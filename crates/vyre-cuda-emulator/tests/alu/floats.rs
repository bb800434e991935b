//! Arithmetic on floats.

use crate::cases::of_floats;
use crate::soft::{FORMATS, Post, ROUNDINGS, Ty, compute, flushed, is_nan, nan, shown};
use crate::{Case, Tally};
use softfloat_wrapper::RoundingMode;

/// The modifiers that an operation has with a type: roundings, `.ftz`, and clamps.
fn variants(op: &str, ty: Ty) -> Vec<(&'static str, RoundingMode, bool, Post)> {
    let half = matches!(ty, Ty::F16 | Ty::Bf16);
    let wide_only = matches!(op, "div" | "rcp" | "sqrt" | "mad");
    let mut all = Vec::new();
    for (rounding, mode) in ROUNDINGS {
        for ftz in [false, true] {
            for post in [Post::Plain, Post::Sat, Post::Relu] {
                let legal = !(half && (wide_only || rounding != "rn"))
                    && !(ftz && matches!(ty, Ty::Bf16 | Ty::F64))
                    && match post {
                        Post::Plain => true,
                        Post::Sat => matches!(ty, Ty::F16 | Ty::F32) && (op == "mad" || !wide_only),
                        Post::Relu => half && op == "fma",
                    };
                if legal {
                    all.push((rounding, mode, ftz, post));
                }
            }
        }
    }
    all
}

fn check(op: &str, operands: usize) {
    for ty in FORMATS {
        let mut tally = Tally::default();
        let cases = of_floats(ty.layout(), operands, op);
        for (rounding, mode, ftz, post) in variants(op, ty) {
            let modifiers = format!("{op}.{rounding}{}{}", if ftz { ".ftz" } else { "" }, post.text());
            let one = |x: [u64; 3]| {
                let x = if ftz { x.map(|bits| flushed(ty, bits)) } else { x };
                shown(ty, compute(ty, op, x, mode), nan(ty, &x[..operands]), ftz, post)
            };
            tally.check(&format!("{modifiers}.{}", ty.name()), &cases, |case| {
                one([case[0], case[1], case[2]])
            });
            if rounding == "rn" && post != Post::Relu && !matches!(op, "fma" | "mad" | "div" | "rcp" | "sqrt")
            {
                let text = format!("{modifiers}.{}", ty.name()).replacen(".rn", "", 1);
                tally.check(&text, &cases, |case| one([case[0], case[1], case[2]]));
            }
            if matches!(ty, Ty::F16 | Ty::Bf16) {
                let pairs = pairs(&cases);
                tally.check(&format!("{modifiers}.{}x2", ty.name()), &pairs, |case| {
                    let [low, high] = [0, 16].map(|shift| [0, 1, 2].map(|i| case[i] >> shift & 0xffff));
                    one(low) | one(high) << 16
                });
            }
        }
        if tally.cases > 0 {
            tally.report(&format!("{op} of {}", ty.name()));
        }
    }
}

/// Each case in the lower halves, with another in the upper.
pub(crate) fn pairs(cases: &[Case]) -> Vec<Case> {
    let upper = cases.iter().rev();
    cases.iter().zip(upper).map(|(low, high)| std::array::from_fn(|i| low[i] | high[i] << 16)).collect()
}

#[test]
fn sums_and_products() {
    for op in ["add", "sub", "mul"] {
        check(op, 2);
    }
}

#[test]
fn fused() {
    for op in ["fma", "mad"] {
        check(op, 3);
    }
}

#[test]
fn quotients_and_roots() {
    check("div", 2);
    check("rcp", 1);
    check("sqrt", 1);
}

#[test]
fn signs() {
    let mut tally = Tally::default();
    for ty in FORMATS {
        let sign = 1 << (ty.layout().width - 1);
        let cases = of_floats(ty.layout(), 1, "signs");
        // A NaN is made canonical, or quiet where it is an f64, as by other arithmetic.
        let of = |a: u64, result: u64| if is_nan(ty, a) { nan(ty, &[a]) } else { result };
        tally.check(&format!("abs.{}", ty.name()), &cases, |case| of(case[0], case[0] & !sign));
        tally.check(&format!("neg.{}", ty.name()), &cases, |case| of(case[0], case[0] ^ sign));
        if matches!(ty, Ty::F16 | Ty::F32) {
            tally.check(&format!("abs.ftz.{}", ty.name()), &cases, |case| {
                of(case[0], flushed(ty, case[0]) & !sign)
            });
            tally.check(&format!("neg.ftz.{}", ty.name()), &cases, |case| {
                of(case[0], flushed(ty, case[0]) ^ sign)
            });
        }
    }
    let cases = of_floats(Ty::F32.layout(), 2, "copysign");
    tally.check("copysign.f32", &cases, |case| {
        f32::from_bits(case[1] as u32).copysign(f32::from_bits(case[0] as u32)).to_bits().into()
    });
    let cases = of_floats(Ty::F64.layout(), 2, "copysign");
    tally.check("copysign.f64", &cases, |case| {
        f64::from_bits(case[1]).copysign(f64::from_bits(case[0])).to_bits()
    });
    tally.report("abs, neg, copysign");
}

#[test]
fn properties() {
    let mut tally = Tally::default();
    let singles = of_floats(Ty::F32.layout(), 1, "testp");
    let doubles = of_floats(Ty::F64.layout(), 1, "testp");
    macro_rules! property {
        ($name:literal, |$x:ident| $holds:expr) => {
            tally.check(concat!("testp.", $name, ".f32"), &singles, |case| {
                let $x = f32::from_bits(case[0] as u32);
                $holds.into()
            });
            tally.check(concat!("testp.", $name, ".f64"), &doubles, |case| {
                let $x = f64::from_bits(case[0]);
                $holds.into()
            });
        };
    }
    property!("finite", |x| x.is_finite());
    property!("infinite", |x| x.is_infinite());
    property!("number", |x| !x.is_nan());
    property!("notanumber", |x| x.is_nan());
    // The ISA counts both zeros among the normal numbers.
    property!("normal", |x| x.is_normal() || x == 0.0);
    property!("subnormal", |x| x.is_subnormal());
    tally.report("testp");
}
