//! Small functions of vector code, run and compared lane by lane.
//!
//! A function here loads its operands from memory, does one op and stores the result, once with operands in registers and
//! once under a choice of constants. What is expected is computed by Rust's own numbers.
#![allow(unsafe_code)]

use super::asm::{Level, Width};
use super::{compile, rows};
use crate::executable::Executable;
use crate::vector::build::Builder;
use crate::vector::code::{
    Address, BitOp, Elem, Float, FloatCond, FloatOp, FloatUnOp, Function, Indexed, IntCond, IntOp, Kind,
    MaskOp, Num, Op, Reg, Rmw, ShiftOp,
};
use iced_x86::Code;

/// The emitters that this host can run, with every number of lanes each has.
fn targets() -> Vec<(Level, u32)> {
    let all = [(Level::Avx512, 16), (Level::Avx512, 8), (Level::Avx2, 8), (Level::Avx2, 4)];
    let (here, missing): (Vec<_>, Vec<_>) = all.into_iter().partition(|(level, _)| level.is_there());
    for (level, lanes) in missing {
        eprintln!("SKIP {level:?} with {lanes} lanes: this processor does not have it");
    }
    here
}

fn executable(function: &Function, level: Level) -> Executable {
    let code = compile(function, level).unwrap_or_else(|message| panic!("{level:?}: {message}\n{function}"));
    Executable::new(&code).expect("memory for code")
}

/// Runs a function on memory.
fn run(function: &Function, level: Level, memory: &mut [u64]) {
    execute(&executable(function, level), memory);
}

fn execute(code: &Executable, memory: &mut [u64]) {
    let scratch = [0u64; 8];
    // SAFETY: the functions here access `memory` within its length, and no scratch memory.
    unsafe { code.run(memory.as_mut_ptr() as u64, scratch.as_ptr() as u64, 0, 0) };
}

/// The bytes from the base to each of four areas.
const AREA: i32 = 256;

fn area(base: Reg, at: i32) -> Address {
    Address { base, index: None, disp: at * AREA }
}

/// What fills lanes: what is special about integers and floats of both widths, and some more.
fn samples(wide: bool) -> Vec<u64> {
    let narrow = [
        0,
        1,
        2,
        7,
        0x1f,
        0x7f,
        0xff,
        0x8000,
        0xffff,
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        0xffff_fffe,
        0xffff_ffff,
        0x3f80_0000,
        0xbf80_0000,
        0x4f00_0000,
        0x4f80_0000,
        0xcf00_0000,
        0x5f00_0000,
        0x5f80_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x7fa0_0000,
        0x0080_0000,
        0x807f_ffff,
        0x4049_0fdb,
        0xc020_0000,
        0x3f00_0000,
        0x1234_5678,
        0x9e37_79b9,
    ];
    if !wide {
        return narrow.to_vec();
    }
    let floats =
        [0.0, -0.0, 1.5, -2.5, 3e9, -3e9, 1e19, 2e19, -1e19, 1e300, f64::INFINITY, f64::NAN, 5e-324, 9.2e18];
    let mixed = narrow.iter().zip(narrow.iter().rev()).map(|(a, b)| a << 32 | b);
    let signalling = [0x7ff4_0000_0000_0000, 0xfff0_0000_0000_0000, u64::MAX, 1 << 63, (1 << 63) - 1, 63];
    narrow.iter().copied().chain(mixed).chain(floats.map(f64::to_bits)).chain(signalling).collect()
}

/// One op and what it gives on each lane.
struct Case<'a> {
    operands: &'a [Kind],
    result: Kind,
    op: &'a dyn Fn(&[Reg]) -> Op,
    expect: &'a dyn Fn(&[u64]) -> u64,
    /// Whether the result is a float, whose NaN is any.
    float: bool,
}

/// The result, loaded operands or constants in the places that `constant` names.
fn build(case: &Case<'_>, lanes: u32, constant: &dyn Fn(usize) -> Option<u64>) -> Function {
    let (mut b, [memory, ..]) = Builder::new(lanes);
    let mut operands = Vec::new();
    for (at, kind) in case.operands.iter().enumerate() {
        let from = area(memory, at as i32);
        operands.push(match (kind, constant(at)) {
            (Kind::V32 | Kind::V64, Some(bits)) => b.const_(*kind, bits),
            (Kind::V32, None) => b.emit(Op::LoadV(Elem::B32, from, None)),
            (Kind::V64, None) => b.emit(Op::LoadV(Elem::B64, from, None)),
            (Kind::S32, None) => b.emit(Op::LoadS(Elem::B32, from)),
            (Kind::S64, None) => b.emit(Op::LoadS(Elem::B64, from)),
            (Kind::S32 | Kind::S64, Some(bits)) => b.const_(*kind, bits),
            (Kind::Mask, _) => {
                let bits = b.emit(Op::LoadS(Elem::B32, from));
                b.emit(Op::BitsToMask(bits))
            }
        });
    }
    let result = b.emit((case.op)(&operands));
    let to = area(memory, 3);
    match b.kind(result) {
        Kind::V32 => b.effect(Op::StoreV(Elem::B32, to, result, None)),
        Kind::V64 => b.effect(Op::StoreV(Elem::B64, to, result, None)),
        Kind::S32 => b.effect(Op::StoreS(Elem::B32, to, result)),
        Kind::S64 => b.effect(Op::StoreS(Elem::B64, to, result)),
        Kind::Mask => {
            let bits = b.emit(Op::MaskToBits(result));
            b.effect(Op::StoreS(Elem::B32, to, bits));
        }
    }
    b.ret();
    b.finish(0)
}

fn put(memory: &mut [u64], at: usize, kind: Kind, lane: usize, bits: u64) {
    let start = at * AREA as usize / 8;
    match kind {
        Kind::V64 => memory[start + lane] = bits,
        Kind::S64 => memory[start] = bits,
        Kind::S32 => memory[start] = bits & 0xffff_ffff,
        Kind::Mask => memory[start] |= (bits & 1) << lane,
        Kind::V32 => {
            let word = &mut memory[start + lane / 2];
            let shift = lane % 2 * 32;
            *word = *word & !(0xffff_ffff << shift) | (bits & 0xffff_ffff) << shift;
        }
    }
}

fn get(memory: &[u64], at: usize, kind: Kind, lane: usize) -> u64 {
    let start = at * AREA as usize / 8;
    match kind {
        Kind::V64 => memory[start + lane],
        Kind::S64 => memory[start],
        Kind::S32 => memory[start] & 0xffff_ffff,
        Kind::Mask => memory[start] >> lane & 1,
        Kind::V32 => memory[start + lane / 2] >> (lane % 2 * 32) & 0xffff_ffff,
    }
}

fn is_nan(kind: Kind, bits: u64) -> bool {
    if kind == Kind::V64 { f64::from_bits(bits).is_nan() } else { f32::from_bits(bits as u32).is_nan() }
}

/// Every pair of samples through the op, in every lane.
fn check(name: &str, case: &Case<'_>) {
    check_with(name, case, u64::MAX);
}

/// The same, with only those bits of the second operand.
fn check_with(name: &str, case: &Case<'_>, second: u64) {
    let wide = case.operands.iter().any(|kind| kind.bits() == 64) || case.result == Kind::V64;
    for (level, lanes) in targets() {
        if lanes == level.shape().lanes && (case.operands.contains(&Kind::V64) || case.result == Kind::V64) {
            continue;
        }
        let plain = build(case, lanes, &|_| None);
        let code = executable(&plain, level);
        let samples = samples(wide);
        let scalar = case.operands.iter().all(|kind| kind.is_scalar());
        let mut values = vec![[0u64; 3]; lanes as usize];
        for (round, step) in
            (0..samples.len()).flat_map(|round| (0..samples.len()).map(move |step| (round, step)))
        {
            // Vectors take many pairs at once, scalars one.
            if !scalar && !step.is_multiple_of(lanes as usize) {
                continue;
            }
            for (lane, value) in values.iter_mut().enumerate() {
                let pick = |at: usize| samples[at % samples.len()];
                *value = [
                    pick(step + lane),
                    pick(step + lane + round) & second,
                    pick(step + lane * 5 + round * 3),
                ];
            }
            run_case(name, case, &plain, &code, &values);
            let some = step == 0 && round % 8 == 0 && case.operands.len() > 1;
            for at in (0..case.operands.len()).filter(|_| some) {
                let bits = values[0][at];
                values.iter_mut().for_each(|value| value[at] = bits);
                let folded = build(case, lanes, &|place| (place == at).then_some(bits));
                run_case(name, case, &folded, &executable(&folded, level), &values);
            }
        }
    }
}

fn run_case(name: &str, case: &Case<'_>, function: &Function, code: &Executable, values: &[[u64; 3]]) {
    let mut memory = vec![0u64; 4 * AREA as usize / 8];
    let lanes = function.lanes as usize;
    for (at, kind) in case.operands.iter().enumerate() {
        (0..lanes).for_each(|lane| put(&mut memory, at, *kind, lane, values[lane][at]));
    }
    let before = memory.clone();
    execute(code, &mut memory);
    for lane in 0..lanes {
        let inputs: Vec<u64> =
            case.operands.iter().enumerate().map(|(at, kind)| get(&before, at, *kind, lane)).collect();
        let (found, expected) = (get(&memory, 3, case.result, lane), (case.expect)(&inputs));
        let nan = case.float && is_nan(case.result, found) && is_nan(case.result, expected);
        assert!(
            nan || found == expected,
            "{name} with {lanes} lanes, lane {lane} of {inputs:x?}: {found:#x}, not {expected:#x}\n{function}"
        );
    }
}

#[test]
fn rows_are_numbered_by_width() {
    for (name, row) in rows::ALL {
        for level in [Level::Avx2, Level::Avx512] {
            let mnemonic = |width| row.code(level, width).ok().map(Code::mnemonic);
            let Some(first) = mnemonic(Width::X) else { continue };
            assert_eq!(mnemonic(Width::Y), Some(first), "{name}");
            if level == Level::Avx512 {
                assert_eq!(mnemonic(Width::Z), Some(first), "{name}");
            }
        }
    }
}

/// Kinds of integers, with the op on their bits.
fn int_kinds() -> [Kind; 4] {
    [Kind::S32, Kind::S64, Kind::V32, Kind::V64]
}

fn sext(kind: Kind, bits: u64) -> i64 {
    if kind.bits() == 32 { i64::from(bits as i32) } else { bits as i64 }
}

fn cut(kind: Kind, bits: u64) -> u64 {
    if kind.bits() == 32 { bits & 0xffff_ffff } else { bits }
}

#[test]
fn integers() {
    use IntOp::*;
    for kind in int_kinds() {
        let expect = |op: IntOp, a: u64, b: u64| {
            let (x, y) = (sext(kind, a), sext(kind, b));
            let high = |wide: i128| (wide >> kind.bits()) as u64;
            let bits = match op {
                Add => a.wrapping_add(b),
                Sub => a.wrapping_sub(b),
                Mul => a.wrapping_mul(b),
                MulHiU => ((u128::from(a) * u128::from(b)) >> kind.bits()) as u64,
                MulHiS => high(i128::from(x) * i128::from(y)),
                DivU => a.checked_div(b).unwrap_or(a),
                DivS => {
                    if y == 0 {
                        a
                    } else {
                        x.wrapping_div(y) as u64
                    }
                }
                RemU => a.checked_rem(b).unwrap_or(0),
                RemS => {
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_rem(y) as u64
                    }
                }
                And => a & b,
                Or => a | b,
                Xor => a ^ b,
                AndNot => a & !b,
                MinU => a.min(b),
                MinS => x.min(y) as u64,
                MaxU => a.max(b),
                MaxS => x.max(y) as u64,
            };
            cut(kind, bits)
        };
        for op in [
            Add, Sub, Mul, MulHiU, MulHiS, DivU, DivS, RemU, RemS, And, Or, Xor, AndNot, MinU, MinS, MaxU,
            MaxS,
        ] {
            check(
                &format!("{op:?}.{kind}"),
                &Case {
                    operands: &[kind, kind],
                    result: kind,
                    op: &|r| Op::Int(op, r[0], r[1]),
                    expect: &|v| expect(op, v[0], v[1]),
                    float: false,
                },
            );
        }
    }
}

#[test]
fn comparisons_and_choices() {
    use IntCond::*;
    for kind in int_kinds() {
        let result = if kind.is_scalar() { Kind::S32 } else { Kind::Mask };
        for cond in [Eq, Ne, LtU, LeU, LtS, LeS] {
            check(
                &format!("{cond:?}.{kind}"),
                &Case {
                    operands: &[kind, kind],
                    result,
                    op: &|r| Op::IntCmp(cond, r[0], r[1]),
                    expect: &|v| {
                        let (x, y) = (sext(kind, v[0]), sext(kind, v[1]));
                        u64::from(match cond {
                            Eq => x == y,
                            Ne => x != y,
                            LtU => v[0] < v[1],
                            LeU => v[0] <= v[1],
                            LtS => x < y,
                            LeS => x <= y,
                        })
                    },
                    float: false,
                },
            );
        }
        check(
            &format!("select.{kind}"),
            &Case {
                operands: &[Kind::S32, kind, kind],
                result: kind,
                op: &|r| Op::Select(r[0], r[1], r[2]),
                expect: &|v| if v[0] != 0 { v[1] } else { v[2] },
                float: false,
            },
        );
        if kind.is_vector() {
            check(
                &format!("blend.{kind}"),
                &Case {
                    operands: &[Kind::Mask, kind, kind],
                    result: kind,
                    op: &|r| Op::Select(r[0], r[1], r[2]),
                    expect: &|v| if v[0] != 0 { v[1] } else { v[2] },
                    float: false,
                },
            );
        }
    }
}

#[test]
fn shifts_and_bits() {
    use ShiftOp::*;
    for kind in int_kinds() {
        let shift = |op: ShiftOp, a: u64, n: u64| {
            let n = (n % u64::from(kind.bits())) as u32;
            cut(
                kind,
                match op {
                    Shl => a << n,
                    ShrU => a >> n,
                    ShrS => (sext(kind, a) >> n) as u64,
                    RotL if kind.bits() == 32 => (a as u32).rotate_left(n).into(),
                    RotL => a.rotate_left(n),
                },
            )
        };
        for op in [Shl, ShrU, ShrS, RotL] {
            // Greater amounts give any bits, so they are not looked at.
            check_with(
                &format!("{op:?}.{kind}"),
                &Case {
                    operands: &[kind, kind],
                    result: kind,
                    op: &|r| Op::Shift(op, r[0], r[1]),
                    expect: &|v| shift(op, v[0], v[1]),
                    float: false,
                },
                u64::from(kind.bits()) - 1,
            );
            for n in [1, 7, 31, 33, 63] {
                if n < kind.bits() as u8 {
                    check(
                        &format!("{op:?}.{kind} by {n}"),
                        &Case {
                            operands: &[kind],
                            result: kind,
                            op: &|r| Op::ShiftImm(op, r[0], n),
                            expect: &|v| shift(op, v[0], n.into()),
                            float: false,
                        },
                    );
                }
            }
        }
        for op in [BitOp::Popcount, BitOp::Clz, BitOp::Ctz] {
            if op == BitOp::Ctz && kind.is_vector() {
                continue;
            }
            check(
                &format!("{op:?}.{kind}"),
                &Case {
                    operands: &[kind],
                    result: kind,
                    op: &|r| Op::Bit(op, r[0]),
                    expect: &|v| {
                        u64::from(match (op, kind.bits()) {
                            (BitOp::Popcount, _) => v[0].count_ones(),
                            (BitOp::Clz, bits) => v[0].leading_zeros() - (64 - bits),
                            (BitOp::Ctz, bits) => v[0].trailing_zeros().min(bits),
                        })
                    },
                    float: false,
                },
            );
        }
    }
}

/// Float ops through f64 functions and f32 functions alike.
macro_rules! float_ops {
    ($ty:ident, $bits:ident, $float:expr) => {{
        let kind = $float.kind();
        let of = |bits: u64| $ty::from_bits(bits as $bits);
        let back = |value: $ty| u64::from(value.to_bits());
        let least = |a: $ty, b: $ty| match (a.is_nan(), b.is_nan()) {
            (true, _) => b,
            (_, true) => a,
            _ if a == b => $ty::from_bits(a.to_bits() | b.to_bits()),
            _ => {
                if a < b {
                    a
                } else {
                    b
                }
            }
        };
        let most = |a: $ty, b: $ty| -least(-a, -b);
        for op in
            [FloatOp::Add, FloatOp::Sub, FloatOp::Mul, FloatOp::Div, FloatOp::Rem, FloatOp::Min, FloatOp::Max]
        {
            check(
                &format!("{op:?}.{:?}", $float),
                &Case {
                    operands: &[kind, kind],
                    result: kind,
                    op: &|r| Op::Float(op, $float, r[0], r[1]),
                    expect: &|v| {
                        let (a, b) = (of(v[0]), of(v[1]));
                        back(match op {
                            FloatOp::Add => a + b,
                            FloatOp::Sub => a - b,
                            FloatOp::Mul => a * b,
                            FloatOp::Div => a / b,
                            FloatOp::Rem => a % b,
                            FloatOp::Min => least(a, b),
                            FloatOp::Max => most(a, b),
                        })
                    },
                    float: true,
                },
            );
        }
        for op in [FloatUnOp::Sqrt, FloatUnOp::Floor, FloatUnOp::Ceil, FloatUnOp::Trunc, FloatUnOp::Round] {
            check(
                &format!("{op:?}.{:?}", $float),
                &Case {
                    operands: &[kind],
                    result: kind,
                    op: &|r| Op::FloatUn(op, $float, r[0]),
                    expect: &|v| {
                        let a = of(v[0]);
                        back(match op {
                            FloatUnOp::Sqrt => a.sqrt(),
                            FloatUnOp::Floor => a.floor(),
                            FloatUnOp::Ceil => a.ceil(),
                            FloatUnOp::Trunc => a.trunc(),
                            FloatUnOp::Round => a.round_ties_even(),
                        })
                    },
                    float: true,
                },
            );
        }
        check(
            &format!("fma.{:?}", $float),
            &Case {
                operands: &[kind, kind, kind],
                result: kind,
                op: &|r| Op::Fma($float, r[0], r[1], r[2]),
                expect: &|v| back(of(v[0]).mul_add(of(v[1]), of(v[2]))),
                float: true,
            },
        );
        for cond in [FloatCond::Eq, FloatCond::Lt, FloatCond::Le, FloatCond::Ne, FloatCond::Unordered] {
            check(
                &format!("{cond:?}.{:?}", $float),
                &Case {
                    operands: &[kind, kind],
                    result: Kind::Mask,
                    op: &|r| Op::FloatCmp(cond, $float, r[0], r[1]),
                    expect: &|v| {
                        let (a, b) = (of(v[0]), of(v[1]));
                        u64::from(match cond {
                            FloatCond::Eq => a == b,
                            FloatCond::Lt => a < b,
                            FloatCond::Le => a <= b,
                            FloatCond::Ne => a != b,
                            FloatCond::Unordered => a.is_nan() || b.is_nan(),
                        })
                    },
                    float: false,
                },
            );
        }
    }};
}

#[test]
fn floats() {
    float_ops!(f32, u32, Float::F32);
    float_ops!(f64, u64, Float::F64);
}

#[test]
fn conversions() {
    let nums = [Num::U32, Num::I32, Num::U64, Num::I64, Num::F32, Num::F64];
    for (from, to) in nums.into_iter().flat_map(|from| nums.map(|to| (from, to))) {
        let integers = !from.is_float() && !to.is_float();
        if from == to || integers && from.is_wide() == to.is_wide() {
            continue;
        }
        let pick = |num: Num, scalar: bool| match (num.is_wide(), scalar) {
            (true, true) => Kind::S64,
            (true, false) => Kind::V64,
            (false, true) => Kind::S32,
            (false, false) => Kind::V32,
        };
        macro_rules! to {
            ($value:expr) => {
                match to {
                    Num::U32 => u64::from($value as u32),
                    Num::I32 => u64::from($value as i32 as u32),
                    Num::U64 => $value as u64,
                    Num::I64 => $value as i64 as u64,
                    Num::F32 => u64::from(($value as f32).to_bits()),
                    Num::F64 => ($value as f64).to_bits(),
                }
            };
        }
        for scalar in [true, false] {
            if scalar && !integers {
                continue;
            }
            check(
                &format!("{from:?} to {to:?}"),
                &Case {
                    operands: &[pick(from, scalar)],
                    result: pick(to, scalar),
                    op: &|r| Op::Convert { from, to, value: r[0] },
                    expect: &|v| match from {
                        Num::U32 => to!(v[0] as u32),
                        Num::I32 => to!(v[0] as i32),
                        Num::U64 => to!(v[0]),
                        Num::I64 => to!(v[0] as i64),
                        Num::F32 => to!(f32::from_bits(v[0] as u32)),
                        Num::F64 => to!(f64::from_bits(v[0])),
                    },
                    float: to.is_float(),
                },
            );
        }
    }
}

#[test]
fn masks() {
    for op in [MaskOp::And, MaskOp::Or, MaskOp::Xor, MaskOp::AndNot] {
        check(
            &format!("{op:?}"),
            &Case {
                operands: &[Kind::Mask, Kind::Mask],
                result: Kind::Mask,
                op: &|r| Op::Mask(op, r[0], r[1]),
                expect: &|v| match op {
                    MaskOp::And => v[0] & v[1],
                    MaskOp::Or => v[0] | v[1],
                    MaskOp::Xor => v[0] ^ v[1],
                    MaskOp::AndNot => v[0] & !v[1],
                },
                float: false,
            },
        );
    }
    check(
        "not",
        &Case {
            operands: &[Kind::Mask],
            result: Kind::Mask,
            op: &|r| Op::MaskNot(r[0]),
            expect: &|v| 1 - v[0],
            float: false,
        },
    );
}

/// One function with everything about lanes: their numbers, the first of them, spreading, taking out, exchanging.
#[test]
fn lanes() {
    for (level, lanes) in targets() {
        for n in [0, 1, 3, lanes, lanes + 1, u32::MAX] {
            let (mut b, [memory, ..]) = Builder::new(lanes);
            let n_reg = b.emit(Op::LoadS(Elem::B32, area(memory, 0)));
            let first = b.emit(Op::MaskFirst(n_reg));
            let bits = b.emit(Op::MaskToBits(first));
            b.effect(Op::StoreS(Elem::B32, area(memory, 1), bits));
            let index = b.emit(Op::LaneIndex);
            let spread = b.emit(Op::Splat(n_reg));
            let turned = b.int(IntOp::Sub, spread, index);
            let values = b.emit(Op::LoadV(Elem::B32, area(memory, 2), None));
            let permuted = b.emit(Op::Permute(values, turned));
            b.effect(Op::StoreV(Elem::B32, area(memory, 3), permuted, None));
            let last = b.emit(Op::Extract(permuted, lanes as u8 - 1));
            let second = b.emit(Op::Extract(permuted, 1));
            let both = b.int(IntOp::Sub, last, second);
            b.effect(Op::StoreS(Elem::B32, Address { base: memory, index: None, disp: AREA + 8 }, both));
            b.ret();
            let function = b.finish(0);
            let mut data = vec![0u64; 4 * AREA as usize / 8];
            data[0] = n.into();
            for lane in 0..lanes as usize {
                put(&mut data, 2, Kind::V32, lane, 1000 + lane as u64 * 3);
            }
            run(&function, level, &mut data);
            let all = u64::MAX >> (64 - lanes);
            let expected = if n >= lanes { all } else { (1 << n) - 1 };
            assert_eq!(data[32], expected, "{level:?} first {n}");
            let at = |lane: u32| u64::from(1000 + (n.wrapping_sub(lane) % lanes) * 3);
            for lane in 0..lanes {
                assert_eq!(get(&data, 3, Kind::V32, lane as usize), at(lane), "{level:?} {n} lane {lane}");
            }
            let difference = (at(lanes - 1) as u32).wrapping_sub(at(1) as u32);
            assert_eq!(data[33] as u32, difference);
        }
    }
}

/// Rows, gathers and scatters of every element under every kind of mask.
#[test]
fn memory() {
    for (level, lanes) in targets() {
        for elem in [Elem::U8, Elem::I8, Elem::U16, Elem::I16, Elem::B32, Elem::B64] {
            if elem == Elem::B64 && lanes == level.shape().lanes {
                continue;
            }
            for (mask, small) in
                [(None, true), (Some(0xa5a6u32), true), (Some(0), false), (None, false), (Some(0x137), false)]
            {
                accesses(level, lanes, elem, mask, small);
            }
        }
    }
}

fn accesses(level: Level, lanes: u32, elem: Elem, mask: Option<u32>, small: bool) {
    let (mut b, [memory, ..]) = Builder::new(lanes);
    let masked = mask.map(|_| {
        let bits = b.emit(Op::LoadS(Elem::B32, area(memory, 0)));
        b.emit(Op::BitsToMask(bits))
    });
    let at = |disp: i32| Address { base: memory, index: None, disp };
    let index = b.emit(Op::LoadV(Elem::B32, at(8), None));
    let row = b.emit(Op::LoadV(elem, at(AREA + 1), masked));
    b.effect(Op::StoreV(elem, at(2 * AREA + 3), row, masked));
    let base = b.int_const(IntOp::Add, memory, AREA as u64 + 1);
    let (scale, mask_reg) = (elem.bytes() as u8, masked);
    let gathered = b.emit(Op::Gather(elem, Indexed { base, index, scale, small, mask: mask_reg }));
    let whole = if elem == Elem::B64 { Elem::B64 } else { Elem::B32 };
    b.effect(Op::StoreV(whole, at(3 * AREA), gathered, None));
    let base = b.int_const(IntOp::Add, memory, 4 * AREA as u64 + 5);
    b.effect(Op::Scatter(elem, Indexed { base, index, scale, small, mask: mask_reg }, gathered));
    b.ret();
    let function = b.finish(0);
    let size = elem.bytes() as usize;
    let area = AREA as usize;
    let mut bytes: Vec<u8> = (0..5 * area + 64).map(|at| (at * 37 % 251) as u8).collect();
    bytes[..4].copy_from_slice(&mask.unwrap_or(0).to_le_bytes());
    let indices: Vec<usize> = (0..lanes as usize).map(|lane| lane * 7 % lanes as usize / 2).collect();
    for (lane, index) in indices.iter().enumerate() {
        bytes[8 + lane * 4..][..4].copy_from_slice(&(*index as u32).to_le_bytes());
    }
    let mut expected = bytes.clone();
    for lane in 0..lanes as usize {
        let on = mask.is_none_or(|mask| mask >> lane & 1 == 1);
        let (source, wide) = (area + 1 + indices[lane] * size, if size == 8 { 8 } else { 4 });
        let mut value = [0; 8];
        if on {
            let (from, to) = (area + 1 + lane * size, 2 * area + 3 + lane * size);
            expected.copy_within(from..from + size, to);
            value[..size].copy_from_slice(&bytes[source..source + size]);
            if matches!(elem, Elem::I8 | Elem::I16) && value[size - 1] > 127 {
                value[size..].fill(255);
            }
            expected.copy_within(source..source + size, 4 * area + 5 + indices[lane] * size);
        }
        expected[3 * area + lane * wide..][..wide].copy_from_slice(&value[..wide]);
    }
    let mut words: Vec<u64> =
        bytes.chunks_exact(8).map(|eight| u64::from_le_bytes(eight.try_into().expect("eight"))).collect();
    run(&function, level, &mut words);
    let found: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!(wrong, None, "{level:?} {lanes} {elem:?} {mask:x?} small {small}\n{function}");
}

#[test]
fn atomics() {
    for (level, lanes) in targets() {
        let ops = [
            Rmw::Add,
            Rmw::Sub,
            Rmw::And,
            Rmw::Or,
            Rmw::Xor,
            Rmw::MinU,
            Rmw::MinS,
            Rmw::MaxU,
            Rmw::MaxS,
            Rmw::Exchange,
        ];
        for (op, shared) in ops.into_iter().flat_map(|op| [(op, true), (op, false)]) {
            for elem in [Elem::B32, Elem::B64] {
                let kind = elem.scalar();
                for (old, value) in [(5u64, 7u64), (7, 5), (u64::MAX, 1), (1 << 31, 3), (1 << 63, 9)] {
                    let (old, value) = (cut(kind, old), cut(kind, value));
                    let (x, y) = (sext(kind, old), sext(kind, value));
                    let new = cut(
                        kind,
                        match op {
                            Rmw::Add => old.wrapping_add(value),
                            Rmw::Sub => old.wrapping_sub(value),
                            Rmw::And => old & value,
                            Rmw::Or => old | value,
                            Rmw::Xor => old ^ value,
                            Rmw::MinU => old.min(value),
                            Rmw::MaxU => old.max(value),
                            Rmw::MinS => x.min(y) as u64,
                            Rmw::MaxS => x.max(y) as u64,
                            Rmw::Exchange => value,
                        },
                    );
                    for constant in [true, false] {
                        let (mut b, [memory, ..]) = Builder::new(lanes);
                        let operand = match constant {
                            true => b.const_(kind, value),
                            false => b.emit(Op::LoadS(elem, area(memory, 0))),
                        };
                        let at = area(memory, 1);
                        let found = b.emit(Op::Rmw { op, elem, at, value: operand, shared });
                        b.effect(Op::StoreS(elem, area(memory, 2), found));
                        let (at, expected) = (area(memory, 3), operand);
                        let found = b.emit(Op::CompareExchange { elem, at, expected, value: found, shared });
                        b.effect(Op::StoreS(elem, area(memory, 1).behind(8), found));
                        b.ret();
                        let mut data = vec![0u64; 4 * AREA as usize / 8];
                        (data[0], data[32], data[96]) = (value, old, value);
                        run(&b.finish(0), level, &mut data);
                        let name = format!("{level:?} {op:?} {elem:?} shared {shared} of {old:x}, {value:x}");
                        assert_eq!((data[32], data[64]), (new, old), "{name}");
                        assert_eq!((data[96], data[33]), (old, value), "{name}: exchanged");
                    }
                }
            }
        }
    }
}

impl Address {
    fn behind(self, bytes: i32) -> Address {
        Address { disp: self.disp + bytes, ..self }
    }
}

/// More values at once than there are registers, of every kind, through a loop and a call.
#[test]
fn values_are_spilled() {
    for (level, lanes) in targets() {
        let (mut b, [memory, ..]) = Builder::new(lanes);
        let (head, body, exit) = (b.new_block(), b.new_block(), b.new_block());
        let vectors: Vec<Reg> = (0..40)
            .map(|at| {
                let all = b.emit(Op::LoadV(Elem::B32, area(memory, 0), None));
                let own = b.const_(Kind::V32, at);
                b.int(IntOp::Add, all, own)
            })
            .collect();
        let zero = b.const_(Kind::V32, 3);
        let masks: Vec<Reg> = vectors[..12].iter().map(|vector| b.cmp(IntCond::LtU, *vector, zero)).collect();
        let scalars: Vec<Reg> =
            (0..20).map(|at| b.emit(Op::LoadS(Elem::B32, area(memory, 1).behind(at * 4)))).collect();
        let start = b.const_(Kind::S32, 0);
        let sum = b.const_(Kind::V32, 0);
        b.jump(head, &[start, sum]);
        b.begin(head);
        let (i, sum) = (b.param(Kind::S32), b.param(Kind::V32));
        let end = b.const_(Kind::S32, 3);
        let more = b.cmp(IntCond::LtU, i, end);
        b.branch(more, body, exit);
        b.begin(body);
        let mut total = sum;
        for vector in &vectors {
            total = b.int(IntOp::Add, total, *vector);
        }
        let seven = b.const_(Kind::V32, 7);
        let part = b.int(IntOp::DivU, total, seven);
        for mask in &masks {
            let with = b.int(IntOp::Add, total, part);
            total = b.emit(Op::Select(*mask, with, total));
        }
        for scalar in &scalars {
            let spread = b.emit(Op::Splat(*scalar));
            total = b.int(IntOp::Xor, total, spread);
        }
        let next = b.int_const(IntOp::Add, i, 1);
        b.jump(head, &[next, total]);
        b.begin(exit);
        b.effect(Op::StoreV(Elem::B32, area(memory, 3), sum, None));
        b.ret();
        let mut data = vec![0u64; 4 * AREA as usize / 8];
        for lane in 0..lanes as usize {
            put(&mut data, 0, Kind::V32, lane, lane as u64);
        }
        for at in 0..20 {
            put(&mut data, 1, Kind::V32, at, 0x0101 * at as u64);
        }
        run(&b.finish(0), level, &mut data);
        for lane in 0..lanes {
            let mut total = 0u32;
            for _ in 0..3 {
                (0..40).for_each(|at| total = total.wrapping_add(lane + at));
                let part = total / 7;
                (0..12).filter(|at| lane + at < 3).for_each(|_| total = total.wrapping_add(part));
                (0..20).for_each(|at| total ^= 0x0101 * at);
            }
            assert_eq!(get(&data, 3, Kind::V32, lane as usize) as u32, total, "{level:?} lane {lane}");
        }
    }
}
