//! Integer arithmetic, bits and bit fields, in 128 bits or bit by bit.

use crate::cases::integers;
use crate::{Case, Tally, find};
use vyre_cuda_emulator::alu::Fun;

/// Types with their bits and whether they are signed.
pub(crate) const TYPES: [(&str, u32, bool); 6] = [
    ("u16", 16, false),
    ("u32", 32, false),
    ("u64", 64, false),
    ("s16", 16, true),
    ("s32", 32, true),
    ("s64", 64, true),
];

/// The number that bits stand for.
pub(crate) fn value(bits: u64, width: u32, signed: bool) -> i128 {
    let x = i128::from(bits) & ((1 << width) - 1);
    if signed && x >> (width - 1) == 1 { x - (1 << width) } else { x }
}

/// The low bits of a number.
fn wrapped(x: i128, width: u32) -> u64 {
    x.rem_euclid(1 << width) as u64
}

#[test]
fn arithmetic() {
    let mut tally = Tally::default();
    for (ty, bits, signed) in TYPES {
        let cases = integers(bits, 3, ty);
        let of = |case: &Case| [0, 1, 2].map(|i| value(case[i], bits, signed));
        let mut check = |op: &str, f: &dyn Fn([i128; 3]) -> i128| {
            tally.check(&format!("{op}.{ty}"), &cases, |case| wrapped(f(of(case)), bits));
        };
        check("add", &|[a, b, _]| a + b);
        check("sub", &|[a, b, _]| a - b);
        check("mul.lo", &|[a, b, _]| a.wrapping_mul(b));
        check("mad.lo", &|[a, b, c]| a.wrapping_mul(b).wrapping_add(c) & ((1 << bits) - 1));
        check("mul.hi", &|[a, b, _]| high(a, b, bits));
        check("mad.hi", &|[a, b, c]| high(a, b, bits) + c);
        check("sad", &|[a, b, c]| c + (if a < b { b - a } else { a - b }));
        // Division by zero gives all ones, as on hardware.
        check("div", &|[a, b, _]| if b == 0 { -1 } else { a / b });
        check("rem", &|[a, b, _]| if b == 0 { -1 } else { a % b });
        if signed {
            check("abs", &|[a, ..]| a.abs());
            check("neg", &|[a, ..]| -a);
        }
        if bits < 64 {
            tally.check(&format!("mul.wide.{ty}"), &cases, |case| {
                wrapped(of(case)[0] * of(case)[1], 2 * bits)
            });
            let addend = integers(2 * bits, 3, "wide");
            tally.check(&format!("mad.wide.{ty}"), &addend, |case| {
                let [a, b, _] = of(case);
                wrapped(a * b + value(case[2], 2 * bits, signed), 2 * bits)
            });
        }
    }
    tally.report("integer arithmetic");
}

/// `a * b / 2^bits`, rounded down, from products of halves: the whole product does not always fit into 128 bits.
fn high(a: i128, b: i128, bits: u32) -> i128 {
    let (upper, lower) = (b >> (bits / 2), b & ((1 << (bits / 2)) - 1));
    let half = bits / 2;
    let (top, bottom) = (a * upper, a * lower);
    (top + (bottom >> half)) >> half
}

#[test]
fn saturation_and_small_products() {
    let mut tally = Tally::default();
    let cases = integers(32, 3, "saturation");
    let (low, high) = (i128::from(i32::MIN), i128::from(i32::MAX));
    let of = |case: &Case| [0, 1, 2].map(|i| value(case[i], 32, true));
    let mut check = |op: &str, f: &dyn Fn([i128; 3]) -> i128| {
        tally.check(op, &cases, |case| wrapped(f(of(case)), 32));
    };
    check("add.sat.s32", &|[a, b, _]| (a + b).clamp(low, high));
    check("sub.sat.s32", &|[a, b, _]| (a - b).clamp(low, high));
    check("mad.hi.sat.s32", &|[a, b, c]| (a * b).div_euclid(1 << 32).saturating_add(c).clamp(low, high));
    check("min.relu.s32", &|[a, b, _]| a.min(b).max(0));
    check("max.relu.s32", &|[a, b, _]| a.max(b).max(0));
    for (ty, signed) in [("u32", false), ("s32", true)] {
        let low24 = |x: i128| value(wrapped(x, 24), 24, signed);
        let product = |a, b| low24(a) * low24(b);
        check(&format!("mul24.lo.{ty}"), &|[a, b, _]| product(a, b));
        check(&format!("mul24.hi.{ty}"), &|[a, b, _]| product(a, b).div_euclid(1 << 16));
        check(&format!("mad24.lo.{ty}"), &|[a, b, c]| product(a, b) + c);
        check(&format!("mad24.hi.{ty}"), &|[a, b, c]| product(a, b).div_euclid(1 << 16) + c);
        if signed {
            check("mad24.hi.sat.s32", &|[a, b, c]| {
                let high_part = value(wrapped(product(a, b).div_euclid(1 << 16), 32), 32, true);
                (high_part + c).clamp(low, high)
            });
        }
    }
    for (a_type, a_signed) in [("u32", false), ("s32", true)] {
        for (b_type, b_signed) in [("u32", false), ("s32", true)] {
            let part = |x: i128, i: u32, bits: u32, signed| value(wrapped(x, 32) >> (i * bits), bits, signed);
            check(&format!("dp4a.{a_type}.{b_type}"), &|[a, b, c]| {
                c + (0..4).map(|i| part(a, i, 8, a_signed) * part(b, i, 8, b_signed)).sum::<i128>()
            });
            for (name, first) in [("lo", 0), ("hi", 2)] {
                check(&format!("dp2a.{name}.{a_type}.{b_type}"), &|[a, b, c]| {
                    c + (0..2)
                        .map(|i| part(a, i, 16, a_signed) * part(b, first + i, 8, b_signed))
                        .sum::<i128>()
                });
            }
        }
    }
    for (ty, signed) in [("u16x2", false), ("s16x2", true)] {
        let both = |f: &dyn Fn(i128, i128) -> i128, case: &Case| {
            let half =
                |shift: u32| f(value(case[0] >> shift, 16, signed), value(case[1] >> shift, 16, signed));
            wrapped(half(0), 16) | wrapped(half(16), 16) << 16
        };
        tally.check(&format!("add.{ty}"), &cases, |case| both(&|a, b| a + b, case));
        tally.check(&format!("min.{ty}"), &cases, |case| both(&|a, b| a.min(b), case));
        tally.check(&format!("max.{ty}"), &cases, |case| both(&|a, b| a.max(b), case));
        if signed {
            tally.check("min.relu.s16x2", &cases, |case| both(&|a, b| a.min(b).max(0), case));
            tally.check("max.relu.s16x2", &cases, |case| both(&|a, b| a.max(b).max(0), case));
        }
    }
    tally.report("saturation, small products");
}

/// A number of three words, added and subtracted word by word, is right if its value is.
#[test]
fn carries() {
    let mut tally = Tally::default();
    for (ty, bits) in [("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)] {
        let cases = integers(bits, 3, ty);
        for (text, operands) in [
            ("add.cc", 2),
            ("addc", 2),
            ("addc.cc", 2),
            ("sub.cc", 2),
            ("subc", 2),
            ("subc.cc", 2),
            ("mad.lo.cc", 3),
            ("madc.lo", 3),
            ("madc.lo.cc", 3),
            ("mad.hi.cc", 3),
            ("madc.hi", 3),
            ("madc.hi.cc", 3),
        ] {
            check_carry(&mut tally, &format!("{text}.{ty}"), operands, bits, ty.starts_with('s'), &cases);
        }
    }
    tally.report("carry flag");
}

fn check_carry(tally: &mut Tally, text: &str, operands: usize, bits: u32, signed: bool, cases: &[Case]) {
    let scalar = find(text, operands + 1);
    let Fun::Lane(f) = scalar.fun else { panic!("{text} has no flag") };
    let reads = text.contains("addc") || text.contains("subc") || text.contains("madc");
    assert_eq!((scalar.reads_carry, scalar.writes_carry), (reads, text.contains(".cc")), "{text}");
    let modulus = 1i128 << bits;
    for (i, case) in cases.iter().enumerate() {
        let flag = i % 2 == 1;
        let carry_in = i128::from(flag && reads);
        let [a, b, c] = [0, 1, 2].map(|i| i128::from(case[i]));
        let (x, y) = (value(case[0], bits, signed), value(case[1], bits, signed));
        let sum = match &text[..3] {
            "add" => a + b + carry_in,
            "sub" => a - b - carry_in,
            _ if text.contains("lo") => i128::from(wrapped(x.wrapping_mul(y), bits)) + c + carry_in,
            _ => i128::from(wrapped(high(x, y, bits), bits)) + c + carry_in,
        };
        let out = f(&case[..operands], flag);
        if (out.values[0], out.carry) != (wrapped(sum, bits), sum < 0 || sum >= modulus) {
            tally.differences += 1;
        }
        tally.cases += 1;
    }
    tally.instructions += 1;
}

/// The bits that a rule sets, one by one.
fn built(width: u32, rule: impl Fn(u32) -> bool) -> u64 {
    (0..width).filter(|i| rule(*i)).fold(0, |bits, i| bits | 1 << i)
}

fn bit(x: u64, i: u32) -> bool {
    x >> i & 1 == 1
}

#[test]
fn logic_and_shifts() {
    let mut tally = Tally::default();
    for (ty, bits) in [("b16", 16), ("b32", 32), ("b64", 64), ("pred", 1)] {
        let cases =
            if bits == 1 { (0..4).map(|i| [i & 1, i >> 1, 0, 0]).collect() } else { integers(bits, 2, ty) };
        let bits_of = |f: fn(bool, bool) -> bool| {
            move |case: &Case| built(bits, |i| f(bit(case[0], i), bit(case[1], i)))
        };
        tally.check(&format!("and.{ty}"), &cases, bits_of(|a, b| a && b));
        tally.check(&format!("or.{ty}"), &cases, bits_of(|a, b| a || b));
        tally.check(&format!("xor.{ty}"), &cases, bits_of(|a, b| a != b));
        tally.check(&format!("not.{ty}"), &cases, bits_of(|a, _| !a));
        if bits > 1 {
            tally.check(&format!("cnot.{ty}"), &cases, |case| if case[0] == 0 { 1 } else { 0 });
        }
    }
    for (ty, bits, signed) in TYPES {
        let mut cases = integers(bits, 2, ty);
        cases.iter_mut().enumerate().for_each(|(i, case)| {
            // Half of the amounts near the width, half of any size.
            case[1] = if i % 2 == 0 { case[1] % (u64::from(bits) + 4) } else { case[1] & 0xffff_ffff };
        });
        let shifted =
            |case: &Case| built(bits, |i| u64::from(i) >= case[1] && bit(case[0], i - case[1] as u32));
        tally.check(&format!("shl.b{bits}"), &cases, shifted);
        tally.check(&format!("shr.{ty}"), &cases, |case| {
            wrapped(value(case[0], bits, signed) >> case[1].min(100), bits)
        });
    }
    tally.report("logic, shifts");
}

#[test]
fn funnels_tables_and_bytes() {
    let mut tally = Tally::default();
    let mut cases = integers(32, 3, "funnel");
    cases
        .iter_mut()
        .enumerate()
        .for_each(|(i, case)| case[2] = if i % 2 == 0 { case[2] % 36 } else { case[2] });
    for (mode, clamp) in [("clamp", true), ("wrap", false)] {
        let amount = move |case: &Case| if clamp { case[2].min(32) as u32 } else { case[2] as u32 % 32 };
        let at = |case: &Case, i: u32| bit(case[usize::from(i >= 32)], i % 32);
        tally.check(&format!("shf.l.{mode}.b32"), &cases, |case| {
            built(32, |i| at(case, i + 32 - amount(case)))
        });
        tally.check(&format!("shf.r.{mode}.b32"), &cases, |case| {
            built(32, |i| i + amount(case) < 64 && at(case, i + amount(case)))
        });
    }
    let mut tables = integers(32, 3, "lop3");
    tables.iter_mut().enumerate().for_each(|(i, case)| case[3] = i as u64 % 256);
    tally.check("lop3.b32", &tables, |case| built(32, |i| looked_up(case, i)));
    check_lop3_predicates(&mut tally, &tables);
    // The digits of the selector that each mode stands for.
    let modes = [
        ("f4e", [0x3210, 0x4321, 0x5432, 0x6543]),
        ("b4e", [0x5670, 0x6701, 0x7012, 0x0123]),
        ("rc8", [0x0000, 0x1111, 0x2222, 0x3333]),
        ("ecl", [0x3210, 0x3211, 0x3222, 0x3333]),
        ("ecr", [0x0000, 0x1110, 0x2210, 0x3210]),
        ("rc16", [0x1010, 0x3232, 0x1010, 0x3232]),
    ];
    let cases = integers(32, 3, "prmt");
    let byte = |case: &Case, i: u32| (case[usize::from(i >= 4)] >> (8 * (i % 4))) & 0xff;
    for (mode, table) in modes {
        tally.check(&format!("prmt.b32.{mode}"), &cases, |case| {
            (0..4).map(|i| byte(case, table[case[2] as usize % 4] >> (4 * i) & 7) << (8 * i)).sum()
        });
    }
    tally.check("prmt.b32", &cases, |case| {
        let chosen = |i: u32| {
            let digit = (case[2] >> (4 * i)) as u32 % 16;
            let byte = byte(case, digit % 8);
            if digit < 8 {
                byte
            } else if byte >= 0x80 {
                0xff
            } else {
                0
            }
        };
        (0..4).map(|i| chosen(i) << (8 * i)).sum()
    });
    tally.report("shf, lop3, prmt");
}

fn looked_up(case: &Case, i: u32) -> bool {
    let row = u32::from(bit(case[0], i)) * 4 + u32::from(bit(case[1], i)) * 2 + u32::from(bit(case[2], i));
    bit(case[3], row)
}

fn check_lop3_predicates(tally: &mut Tally, cases: &[Case]) {
    for (name, and) in [("and", true), ("or", false)] {
        let scalar = find(&format!("lop3.{name}.b32"), 6);
        let Fun::Lane(f) = scalar.fun else { panic!("lop3 with a predicate has two results") };
        for (i, case) in cases.iter().enumerate() {
            let other = i as u64 / 3 % 2;
            let wanted = built(32, |i| looked_up(case, i));
            let found = if and { wanted != 0 && other == 1 } else { wanted != 0 || other == 1 };
            let [a, b, c, table] = *case;
            if f(&[a, b, c, table, other], false).values != [wanted, found.into()] {
                tally.differences += 1;
            }
            tally.cases += 1;
        }
        tally.instructions += 1;
    }
}

#[test]
fn bits_and_fields() {
    let mut tally = Tally::default();
    for (ty, bits) in [("b32", 32), ("b64", 64)] {
        let cases = integers(bits, 2, ty);
        let count = |case: &Case| (0..bits).filter(|i| bit(case[0], *i)).count() as u64;
        let highest = |x: u64| (0..bits).rev().find(|i| bit(x, *i));
        tally.check(&format!("popc.{ty}"), &cases, count);
        tally.check(&format!("clz.{ty}"), &cases, |case| {
            highest(case[0]).map_or(bits.into(), |i| (bits - 1 - i).into())
        });
        tally.check(&format!("brev.{ty}"), &cases, |case| built(bits, |i| bit(case[0], bits - 1 - i)));
        for signed in [false, true] {
            let kind = format!("{}{bits}", if signed { "s" } else { "u" });
            let found = |case: &Case| {
                let negative = signed && bit(case[0], bits - 1);
                highest(if negative { !case[0] } else { case[0] })
            };
            tally.check(&format!("bfind.{kind}"), &cases, |case| found(case).map_or(0xffff_ffff, u64::from));
            tally.check(&format!("bfind.shiftamt.{kind}"), &cases, |case| {
                found(case).map_or(0xffff_ffff, |i| (bits - 1 - i).into())
            });
            check_extract(&mut tally, &kind, bits, signed);
        }
        check_insert(&mut tally, ty, bits);
    }
    check_masks(&mut tally);
    check_nth(&mut tally);
    tally.report("bits, bit fields");
}

/// Cases with a position and a length at two places, mostly near the width and sometimes with high bits that do not count.
fn fields(bits: u32, first: usize, seed: &str) -> Vec<Case> {
    let mut cases = integers(bits, 4, seed);
    for (i, case) in cases.iter_mut().enumerate() {
        let beyond = [0, 0x100, 0xffff_ff00][i % 3];
        case[first] = (case[first] % (u64::from(bits) + 6)) | beyond;
        case[first + 1] = (case[first + 1] % (u64::from(bits) + 6)) | beyond;
    }
    cases
}

fn check_extract(tally: &mut Tally, kind: &str, bits: u32, signed: bool) {
    tally.check(&format!("bfe.{kind}"), &fields(bits, 1, kind), |case| {
        let (position, length) = (case[1] as u32 & 0xff, case[2] as u32 & 0xff);
        let negative = signed && length > 0 && bit(case[0], (position + length - 1).min(bits - 1));
        built(bits, |i| if i < length && position + i < bits { bit(case[0], position + i) } else { negative })
    });
}

fn check_insert(tally: &mut Tally, ty: &str, bits: u32) {
    tally.check(&format!("bfi.{ty}"), &fields(bits, 2, ty), |case| {
        let (position, length) = (case[2] as u32 & 0xff, case[3] as u32 & 0xff);
        built(bits, |i| {
            if i >= position && i - position < length { bit(case[0], i - position) } else { bit(case[1], i) }
        })
    });
}

fn check_masks(tally: &mut Tally) {
    let cases = fields(32, 0, "bmsk");
    for (mode, clamp) in [("clamp", true), ("wrap", false)] {
        let limited = |x: u64| if clamp { x.min(32) as u32 } else { x as u32 % 32 };
        tally.check(&format!("bmsk.{mode}.b32"), &cases, |case| {
            let (from, length) = (limited(case[0]), limited(case[1]));
            built(32, |i| i >= from && i < from + length)
        });
        for (ty, signed) in [("u32", false), ("s32", true)] {
            tally.check(&format!("szext.{mode}.{ty}"), &fields(32, 1, ty), |case| {
                let length = limited(case[1]);
                let negative = signed && length > 0 && bit(case[0], length - 1);
                built(32, |i| if i < length { bit(case[0], i) } else { negative })
            });
        }
    }
}

fn check_nth(tally: &mut Tally) {
    let mut cases = integers(32, 2, "fns");
    cases.iter_mut().enumerate().for_each(|(i, case)| {
        case[1] %= 32;
        case[2] = (i as i32 % 12 - 6) as u32 as u64;
    });
    tally.check("fns.b32", &cases, |case| {
        let (mut position, offset) = (case[1] as i32, case[2] as i32);
        let mut left = offset.abs().max(1);
        while (0..32).contains(&position) {
            left -= i32::from(bit(case[0], position as u32));
            if left == 0 {
                return position as u64;
            }
            if offset == 0 {
                break;
            }
            position += offset.signum();
        }
        0xffff_ffff
    });
}
