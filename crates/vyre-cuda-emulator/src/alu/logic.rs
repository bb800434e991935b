//! Logic on bits, shifts and permutations of bytes.
//!
//! Shifts clamp their amount at the width; `shf.wrap` takes it modulo 32.

use super::syntax::Reader;
use super::{Fun, Out, Scalar, Type};

const UNTYPED: [Type; 3] = [Type::B16, Type::B32, Type::B64];
const WITH_PREDICATE: [Type; 4] = [Type::Pred, Type::B16, Type::B32, Type::B64];

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    match reader.opcode {
        "and" | "or" | "xor" => {
            let ty = reader.ty(&WITH_PREDICATE)?;
            let fun = match reader.opcode {
                "and" => two!(|a, b| a & b),
                "or" => two!(|a, b| a | b),
                _ => two!(|a, b| a ^ b),
            };
            Ok(Scalar::plain(fun, ty, &[ty; 2]))
        }
        "not" => {
            let ty = reader.ty(&WITH_PREDICATE)?;
            let fun = match ty {
                Type::Pred => one!(|a| a ^ 1),
                _ => with_integer!(ty, |_T, U, _W| one!(|a| !(a as U) as u64)),
            };
            Ok(Scalar::plain(fun, ty, &[ty]))
        }
        "cnot" => {
            let ty = reader.ty(&UNTYPED)?;
            Ok(Scalar::plain(one!(|a| u64::from(a == 0)), ty, &[ty]))
        }
        "shl" | "shr" => shift(reader),
        "shf" => funnel(reader),
        "lop3" => any_of_three(reader),
        _ => permute(reader),
    }
}

fn shift(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    if reader.opcode == "shl" {
        let ty = reader.ty(&UNTYPED)?;
        let fun = with_integer!(ty, |_T, U, _W| two!(|a, b| {
            if b >= U::BITS.into() { 0 } else { ((a as U) << b) as u64 }
        }));
        return Ok(Scalar::plain(fun, ty, &[ty, Type::U32]));
    }
    let integers = [Type::U16, Type::U32, Type::U64, Type::S16, Type::S32, Type::S64];
    let ty = reader.ty(&[&UNTYPED[..], &integers].concat())?;
    let fun = with_integer!(ty, |T, U, _W| two!(|a, b| {
        // A signed number fills up with its sign, as the shift by all but one bit already does.
        let (amount, beyond) =
            if b >= U::BITS.into() { (T::BITS - 1, T::MIN == 0) } else { (b as u32, false) };
        if beyond { 0 } else { ((a as T) >> amount) as U as u64 }
    }));
    Ok(Scalar::plain(fun, ty, &[ty, Type::U32]))
}

/// `shf`: 64 bits, of which the first operand is the lower half, shifted by up to 32.
fn funnel(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let left = reader.required("One of .l and .r", &[("l", true), ("r", false)])?;
    let clamp = reader.required("One of .clamp and .wrap", &[("clamp", true), ("wrap", false)])?;
    let ty = reader.ty(&[Type::B32])?;
    let fun = with_flag!(
        left,
        LEFT,
        with_flag!(
            clamp,
            CLAMP,
            three!(|a, b, c| {
                let both = b << 32 | (a & 0xffff_ffff);
                let amount = if CLAMP { c.min(32) } else { c & 31 };
                if LEFT { both << amount >> 32 } else { both >> amount & 0xffff_ffff }
            })
        )
    );
    Ok(Scalar::plain(fun, ty, &[ty, ty, Type::U32]))
}

/// `lop3`: the table has the result for each combination of three bits, the first operand's being the highest.
fn any_of_three(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let combine = reader.one_of(&[("and", 1), ("or", 2)]);
    let ty = reader.ty(&[Type::B32])?;
    let Some(combine) = combine else {
        let fun = lane!(|a, b, c, table| look_up(a, b, c, table));
        return Ok(Scalar::plain(fun, ty, &[ty, ty, ty, Type::U32]));
    };
    reader.needs("lop3 with .BoolOp", 82, 70)?;
    let fun: fn(&[u64], bool) -> Out = if combine == 1 {
        |x, _| with_predicate(x, |found, other| found & other)
    } else {
        |x, _| with_predicate(x, |found, other| found | other)
    };
    Ok(Scalar {
        dests: vec![ty, Type::Pred],
        ..Scalar::plain(Fun::Lane(fun), ty, &[ty, ty, ty, Type::U32, Type::Pred])
    })
}

fn look_up(a: u64, b: u64, c: u64, table: u64) -> u64 {
    let of = |bit: u32, x: u64| if bit == 0 { !x } else { x };
    let rows = (0..8).filter(|row| table >> row & 1 == 1);
    let all =
        rows.map(|row: u32| of(row & 4, a) & of(row & 2, b) & of(row & 1, c)).fold(0, |all, row| all | row);
    all & 0xffff_ffff
}

fn with_predicate(x: &[u64], combine: fn(u64, u64) -> u64) -> Out {
    let value = look_up(x[0], x[1], x[2], x[3]);
    Out { values: [value, combine(u64::from(value != 0), x[4])], carry: false }
}

/// `prmt`: bytes 0 to 3 of the first operand and 4 to 7 of the second.
fn permute(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let ty = reader.ty(&[Type::B32])?;
    let mode = reader.one_of(&[("f4e", 1), ("b4e", 2), ("rc8", 3), ("ecl", 4), ("ecr", 5), ("rc16", 6)]);
    let fun = match mode {
        // Each of four digits picks a byte; its top bit asks for the byte's sign in all eight places.
        None => three!(|a, b, c| pick(a, b, |i| (c >> (4 * i)) as u32 & 15)),
        // Bytes from one on, upward.
        Some(1) => three!(|a, b, c| pick(a, b, |i| (c as u32 & 3) + i)),
        // Downward, around the end of the eight.
        Some(2) => three!(|a, b, c| pick(a, b, |i| (c as u32 & 3).wrapping_sub(i) & 7)),
        // One byte four times.
        Some(3) => three!(|a, b, c| pick(a, b, |_| c as u32 & 3)),
        // The byte's index, but never below one.
        Some(4) => three!(|a, b, c| pick(a, b, |i| (c as u32 & 3).max(i))),
        // Never above it.
        Some(5) => three!(|a, b, c| pick(a, b, |i| (c as u32 & 3).min(i))),
        // One half twice.
        Some(_) => three!(|a, b, c| pick(a, b, |i| (c as u32 & 1) * 2 + (i & 1))),
    };
    Ok(Scalar::plain(fun, ty, &[ty, ty, Type::U32]))
}

fn pick(a: u64, b: u64, digit: impl Fn(u32) -> u32) -> u64 {
    let all = b << 32 | (a & 0xffff_ffff);
    (0..4).fold(0, |result, i| {
        let digit = digit(i);
        let byte = (all >> (8 * (digit & 7))) as u8;
        let byte = if digit & 8 != 0 { (byte as i8 >> 7) as u8 } else { byte };
        result | u64::from(byte) << (8 * i)
    })
}
