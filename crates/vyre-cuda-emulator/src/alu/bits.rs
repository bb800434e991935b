//! Counting, finding and moving bits, and bit fields.
//!
//! Positions and lengths are 32-bit operands whatever the instruction's type, and results of counting are 32 bits wide.

use super::syntax::Reader;
use super::{Scalar, Type};

const WORDS: [Type; 2] = [Type::B32, Type::B64];
const INTEGERS: [Type; 4] = [Type::U32, Type::U64, Type::S32, Type::S64];
/// What a search gives that finds nothing.
const NONE: u64 = 0xffff_ffff;

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    match reader.opcode {
        "popc" => {
            let ty = reader.ty(&WORDS)?;
            Ok(Scalar::plain(one!(|a| a.count_ones().into()), Type::U32, &[ty]))
        }
        "clz" => {
            let ty = reader.ty(&WORDS)?;
            let fun = with_integer!(ty, |_T, U, _W| one!(|a| (a as U).leading_zeros() as u64));
            Ok(Scalar::plain(fun, Type::U32, &[ty]))
        }
        "brev" => {
            let ty = reader.ty(&WORDS)?;
            let fun = with_integer!(ty, |_T, U, _W| one!(|a| (a as U).reverse_bits() as u64));
            Ok(Scalar::plain(fun, ty, &[ty]))
        }
        "bfind" => find(reader),
        "fns" => {
            reader.needs("fns", 60, 30)?;
            let ty = reader.ty(&[Type::B32])?;
            let fun = lane!(|mask, base, offset| find_nth(mask as u32, base as u32, offset as i32));
            Ok(Scalar::plain(fun, ty, &[Type::B32, Type::B32, Type::S32]))
        }
        "bfe" => {
            let ty = reader.ty(&INTEGERS)?;
            let fun = match ty {
                Type::U32 => three!(|a, b, c| extract::<32, false>(a, b, c)),
                Type::S32 => three!(|a, b, c| extract::<32, true>(a, b, c)),
                Type::U64 => three!(|a, b, c| extract::<64, false>(a, b, c)),
                _ => three!(|a, b, c| extract::<64, true>(a, b, c)),
            };
            Ok(Scalar::plain(fun, ty, &[ty, Type::U32, Type::U32]))
        }
        "bfi" => {
            let ty = reader.ty(&WORDS)?;
            let fun = if ty == Type::B32 {
                lane!(|a, b, position, length| insert::<32>(a, b, position, length))
            } else {
                lane!(|a, b, position, length| insert::<64>(a, b, position, length))
            };
            Ok(Scalar::plain(fun, ty, &[ty, ty, Type::U32, Type::U32]))
        }
        _ => mask_or_extend(reader),
    }
}

/// `bfind`: the highest bit that is not the sign, or how far it is from the top.
fn find(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let shift_amount = reader.flag("shiftamt");
    let ty = reader.ty(&INTEGERS)?;
    let fun = with_flag!(
        shift_amount,
        SHIFT,
        with_integer!(ty, |T, U, _W| one!(|a| {
            // A negative number is searched for its highest zero. The shift of an unsigned number gives 0.
            let sign = if T::MIN == 0 { 0 } else { ((a as T) >> (T::BITS - 1)) as U };
            let zeros = (a as U ^ sign).leading_zeros();
            match zeros {
                U::BITS => NONE,
                _ if SHIFT => zeros.into(),
                _ => (U::BITS - 1 - zeros).into(),
            }
        }))
    );
    Ok(Scalar::plain(fun, Type::U32, &[ty]))
}

/// The position of the nth set bit from `base`, upward or downward. PTX leaves a base above 31 open; nothing is found there.
fn find_nth(mask: u32, base: u32, offset: i32) -> u64 {
    let set = |position: &u32| mask >> position & 1 == 1;
    let nth = offset.unsigned_abs().saturating_sub(1) as usize;
    let found = match offset {
        _ if base > 31 => None,
        0 => Some(base).filter(set),
        1.. => (base..32).filter(set).nth(nth),
        _ => (0..=base).rev().filter(set).nth(nth),
    };
    found.map_or(NONE, u64::from)
}

/// The field of `length` bits at `position`, extended. What is beyond the top is filled with the top bit if signed.
fn extract<const BITS: u32, const SIGNED: bool>(a: u64, position: u64, length: u64) -> u64 {
    let (position, length) = (position as u32 & 0xff, length as u32 & 0xff);
    if length == 0 {
        return 0;
    }
    let top = (position + length - 1).min(BITS - 1);
    let negative = SIGNED && a >> top & 1 == 1;
    let kept = (BITS - position.min(BITS)).min(length);
    let field = a.checked_shr(position).unwrap_or(0) & low(kept);
    if negative { field | low(BITS) & !low(kept) } else { field }
}

/// `length` ones.
fn low(length: u32) -> u64 {
    if length >= 64 { !0 } else { (1 << length) - 1 }
}

fn insert<const BITS: u32>(a: u64, b: u64, position: u64, length: u64) -> u64 {
    let (position, length) = (position as u32 & 0xff, length as u32 & 0xff);
    let field = low(length).checked_shl(position).unwrap_or(0) & low(BITS);
    (b & !field) | (a.checked_shl(position).unwrap_or(0) & field)
}

fn mask_or_extend(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    reader.needs(reader.opcode, 76, 70)?;
    let clamp = reader.required("One of .clamp and .wrap", &[("clamp", true), ("wrap", false)])?;
    if reader.opcode == "bmsk" {
        let ty = reader.ty(&[Type::B32])?;
        let fun = with_flag!(clamp, CLAMP, two!(|a, b| ones_at::<CLAMP>(a as u32, b as u32).into()));
        return Ok(Scalar::plain(fun, ty, &[Type::U32, Type::U32]));
    }
    let ty = reader.ty(&[Type::U32, Type::S32])?;
    let fun = with_flag!(
        ty == Type::S32,
        SIGNED,
        with_flag!(clamp, CLAMP, two!(|a, b| extend::<SIGNED, CLAMP>(a as u32, b as u32).into()))
    );
    Ok(Scalar::plain(fun, ty, &[ty, Type::U32]))
}

/// The low `length` bits of `a`, extended to 32.
fn extend<const SIGNED: bool, const CLAMP: bool>(a: u32, length: u32) -> u32 {
    let length = if CLAMP { length.min(32) } else { length & 31 };
    if length == 0 {
        return 0;
    }
    let top = a << (32 - length);
    if SIGNED { (top as i32 >> (32 - length)) as u32 } else { top >> (32 - length) }
}

/// `length` ones from `position` on.
fn ones_at<const CLAMP: bool>(position: u32, length: u32) -> u32 {
    let (position, length) =
        if CLAMP { (position.min(32), length.min(32)) } else { (position & 31, length & 31) };
    ((low(length) << position) & 0xffff_ffff) as u32
}
