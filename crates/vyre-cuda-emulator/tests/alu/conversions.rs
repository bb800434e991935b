//! `cvt`: between floats and integers.

use crate::cases::{integers, near_midpoints, of_floats};
use crate::soft::{FORMATS, Post, ROUNDINGS, Ty, compute, convert, flushed, is_nan, nan, shown};
use crate::{Case, Tally};
use softfloat_wrapper::{F16, F32, F64, Float, RoundingMode};

/// Integer types with their bits and whether they are signed.
const INTEGERS: [(&str, u32, bool); 8] = [
    ("u8", 8, false),
    ("u16", 16, false),
    ("u32", 32, false),
    ("u64", 64, false),
    ("s8", 8, true),
    ("s16", 16, true),
    ("s32", 32, true),
    ("s64", 64, true),
];

fn value(bits: u64, width: u32, signed: bool) -> i128 {
    crate::integers::value(bits, width, signed)
}

fn limits(width: u32, signed: bool) -> (i128, i128) {
    if signed { (-1 << (width - 1), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) }
}

#[test]
fn among_integers() {
    let mut tally = Tally::default();
    for (source, from, from_signed) in INTEGERS {
        let cases = integers(from, 1, source);
        for (dest, to, to_signed) in INTEGERS {
            let mask = !0 >> (64 - to);
            let of = |case: &Case| value(case[0], from, from_signed);
            tally.check(&format!("cvt.{dest}.{source}"), &cases, |case| of(case) as u64 & mask);
            let ((least, most), (low, high)) = (limits(from, from_signed), limits(to, to_signed));
            if least < low || most > high {
                let text = format!("cvt.sat.{dest}.{source}");
                tally.check(&text, &cases, |case| of(case).clamp(low, high) as u64 & mask);
            }
        }
    }
    tally.report("cvt among integers");
}

#[test]
fn from_integers() {
    let mut tally = Tally::default();
    for (source, from, signed) in INTEGERS {
        let cases = integers(from, 1, source);
        // `ptxas` has no conversions between 8 bits and bf16.
        for ty in FORMATS.into_iter().filter(|ty| *ty != Ty::Bf16 || from > 8) {
            for (rounding, mode) in ROUNDINGS {
                let raw = |case: &Case| {
                    let x = value(case[0], from, signed);
                    if signed { from_i64(ty, x as i64, mode) } else { from_u64(ty, x as u64, mode) }
                };
                tally.check(&format!("cvt.{rounding}.{}.{source}", ty.name()), &cases, raw);
                if ty != Ty::Bf16 {
                    let text = format!("cvt.{rounding}.sat.{}.{source}", ty.name());
                    tally.check(&text, &cases, |case| shown(ty, raw(case), 0, false, Post::Sat));
                }
            }
        }
    }
    tally.report("cvt of integers to floats");
}

fn from_i64(ty: Ty, x: i64, mode: RoundingMode) -> u64 {
    convert(ty, mode, |r| F16::from_i64(x, r), |r| F32::from_i64(x, r), |r| F64::from_i64(x, r))
}

fn from_u64(ty: Ty, x: u64, mode: RoundingMode) -> u64 {
    convert(ty, mode, |r| F16::from_u64(x, r), |r| F32::from_u64(x, r), |r| F64::from_u64(x, r))
}

#[test]
fn to_integers() {
    let mut tally = Tally::default();
    for ty in FORMATS {
        let cases = of_floats(ty.layout(), 1, "to integers");
        for (dest, to, signed) in INTEGERS.into_iter().filter(|(_, to, _)| ty != Ty::Bf16 || *to > 8) {
            for (rounding, mode) in ROUNDINGS {
                for ftz in [false, true] {
                    if ftz && ty != Ty::F32 {
                        continue;
                    }
                    let text =
                        format!("cvt.{rounding}i{}.{dest}.{}", if ftz { ".ftz" } else { "" }, ty.name());
                    tally.check(&text, &cases, |case| {
                        let a = if ftz { flushed(ty, case[0]) } else { case[0] };
                        integer(ty, a, to, signed, mode)
                    });
                    if ty != Ty::Bf16 && !ftz {
                        let text = format!("cvt.{rounding}i.sat.{dest}.{}", ty.name());
                        tally.check(&text, &cases, |case| integer(ty, case[0], to, signed, mode));
                    }
                }
            }
        }
    }
    tally.report("cvt of floats to integers");
}

/// SoftFloat rounds to a whole float, which the language then converts and clamps.
fn integer(ty: Ty, bits: u64, to: u32, signed: bool, mode: RoundingMode) -> u64 {
    if is_nan(ty, bits) {
        return if ty == Ty::F64 || to == 64 { 1 << (to - 1) } else { 0 };
    }
    let (low, high) = limits(to, signed);
    let whole = ty.value(compute(ty, "rint", [bits, 0, 0], mode));
    (whole as i128).clamp(low, high) as u64 & (!0 >> (64 - to))
}

#[test]
fn to_whole_floats() {
    let mut tally = Tally::default();
    for ty in FORMATS {
        let cases = of_floats(ty.layout(), 1, "whole");
        for (rounding, mode) in ROUNDINGS {
            for (ftz, post) in
                [(false, Post::Plain), (true, Post::Plain), (false, Post::Sat), (true, Post::Sat)]
            {
                if ftz && ty != Ty::F32 || post == Post::Sat && ty == Ty::Bf16 {
                    continue;
                }
                let flags = format!("{}{}", if ftz { ".ftz" } else { "" }, post.text());
                tally.check(&format!("cvt.{rounding}i{flags}.{0}.{0}", ty.name()), &cases, |case| {
                    let a = if ftz { flushed(ty, case[0]) } else { case[0] };
                    shown(ty, compute(ty, "rint", [a, 0, 0], mode), nan(ty, &[a]), ftz, post)
                });
            }
        }
    }
    tally.report("cvt of floats to whole ones");
}

/// Bits of one format rounded to another.
fn rounded(dest: Ty, source: Ty, bits: u64, mode: RoundingMode) -> u64 {
    dest.rounded(source.value(bits).to_bits(), mode)
}

/// The NaN that a NaN of another format becomes: an f64 has its sign and payload.
fn nan_of(dest: Ty, source: Ty, bits: u64) -> u64 {
    if dest != Ty::F64 {
        return nan(dest, &[]);
    }
    let layout = source.layout();
    let (sign, fraction) = (bits >> (layout.width - 1), bits & ((1 << layout.fraction) - 1));
    sign << 63 | 0x7ff8 << 48 | fraction << (52 - layout.fraction)
}

#[test]
fn among_floats() {
    let mut tally = Tally::default();
    for source in FORMATS {
        for dest in FORMATS {
            let narrows = dest != Ty::F64 && dest != source && (dest != Ty::F32 || source == Ty::F64);
            let cases = if narrows {
                near_midpoints(source.layout(), dest.layout(), "narrow")
            } else {
                of_floats(source.layout(), 1, "widen")
            };
            for (rounding, mode) in if narrows { &ROUNDINGS[..] } else { &ROUNDINGS[..1] } {
                let rounding = if narrows { format!(".{rounding}") } else { String::new() };
                check_pair(&mut tally, dest, source, &rounding, *mode, &cases);
            }
        }
    }
    tally.report("cvt among floats");
}

fn check_pair(tally: &mut Tally, dest: Ty, source: Ty, rounding: &str, mode: RoundingMode, cases: &[Case]) {
    let relu = source == Ty::F32 && matches!(dest, Ty::F16 | Ty::Bf16) && matches!(rounding, ".rn" | ".rz");
    for ftz in [false, true] {
        for post in [Post::Plain, Post::Sat, Post::Relu] {
            let illegal = match post {
                Post::Plain => false,
                Post::Sat => dest == Ty::Bf16 || source == Ty::Bf16,
                Post::Relu => !relu || ftz,
            };
            if illegal || ftz && dest != Ty::F32 && source != Ty::F32 {
                continue;
            }
            let flags = format!("{rounding}{}{}", if ftz { ".ftz" } else { "" }, post.text());
            let one = |bits: u64| {
                let a = if ftz && source == Ty::F32 { flushed(source, bits) } else { bits };
                let result = rounded(dest, source, a, mode);
                shown(dest, result, nan_of(dest, source, a), ftz && dest == Ty::F32, post)
            };
            tally.check(&format!("cvt{flags}.{}.{}", dest.name(), source.name()), cases, |case| one(case[0]));
            if relu && !ftz && post != Post::Sat {
                let mut pairs = cases.to_vec();
                pairs.iter_mut().zip(cases.iter().rev()).for_each(|(pair, other)| pair[1] = other[0]);
                let text = format!("cvt{flags}.{}x2.f32", dest.name());
                tally.check(&text, &pairs, |case| one(case[0]) << 16 | one(case[1]));
            }
        }
    }
}

/// SoftFloat has no TensorFloat-32. The language's f64 does: it divides by the last place exactly, and rounds to whole numbers.
#[test]
fn to_tf32() {
    let mut tally = Tally::default();
    let mut cases = near_midpoints(Ty::F32.layout(), Ty::F16.layout(), "tf32");
    cases.extend(of_floats(Ty::F32.layout(), 1, "tf32"));
    let oracle = |bits: u64, away: bool, mode: RoundingMode| {
        if is_nan(Ty::F32, bits) {
            return 0x7fff_ffff;
        }
        let x = Ty::F32.value(bits);
        if x.is_infinite() {
            return bits;
        }
        let exponent = ((bits >> 23 & 0xff) as i32).max(1) - 127;
        let last = 2f64.powi(exponent - 10);
        let scaled = x / last;
        let whole = match mode {
            _ if away => scaled.round(),
            RoundingMode::TiesToEven => scaled.round_ties_even(),
            _ => scaled.trunc(),
        };
        ((whole * last) as f32).to_bits().into()
    };
    let nearest = RoundingMode::TiesToEven;
    tally.check("cvt.rna.tf32.f32", &cases, |case| oracle(case[0], true, nearest));
    for (rounding, mode) in &ROUNDINGS[..2] {
        tally.check(&format!("cvt.{rounding}.tf32.f32"), &cases, |case| oracle(case[0], false, *mode));
        tally.check(&format!("cvt.{rounding}.relu.tf32.f32"), &cases, |case| {
            shown(Ty::F32, oracle(case[0], false, *mode), 0x7fff_ffff, false, Post::Relu)
        });
    }
    tally.report("cvt to tf32");
}

#[test]
fn packs() {
    let mut tally = Tally::default();
    let cases = integers(32, 3, "pack");
    for (ty, bits, signed) in [
        ("u16", 16, false),
        ("s16", 16, true),
        ("u8", 8, false),
        ("s8", 8, true),
        ("u4", 4, false),
        ("s4", 4, true),
        ("u2", 2, false),
        ("s2", 2, true),
    ] {
        let (low, high) = limits(bits, signed);
        let clamped = |x: u64| value(x, 32, true).clamp(low, high) as u64 & ((1 << bits) - 1);
        let tail = if bits == 16 { "" } else { ".b32" };
        tally.check(&format!("cvt.pack.sat.{ty}.s32{tail}"), &cases, |case| {
            let above = if bits == 16 { 0 } else { case[2] << (2 * bits) };
            (above | clamped(case[0]) << bits | clamped(case[1])) & 0xffff_ffff
        });
    }
    tally.report("cvt.pack");
}
