//! Integer arithmetic.
//!
//! Everything wraps at the type's width unless `.sat` says otherwise.
//! Not here: the carry flag (`carry`), bits and bit fields (`bits`).

use super::syntax::Reader;
use super::{Fun, Scalar, Type};

pub(super) const INTEGERS: [Type; 6] = [Type::U16, Type::U32, Type::U64, Type::S16, Type::S32, Type::S64];
const SIGNED: [Type; 3] = [Type::S16, Type::S32, Type::S64];
const WORDS: [Type; 2] = [Type::U32, Type::S32];

/// Which bits of a product are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Lo,
    Hi,
    Wide,
}

pub(super) const PARTS: [(&str, Part); 3] = [("lo", Part::Lo), ("hi", Part::Hi), ("wide", Part::Wide)];

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    match reader.opcode {
        "add" | "sub" => sum(reader),
        "mul" | "mad" => product(reader),
        "mul24" | "mad24" => product_24(reader),
        "sad" => {
            let ty = reader.ty(&INTEGERS)?;
            let fun = with_integer!(ty, |T, U, _W| three!(|a, b, c| (c as U)
                .wrapping_add((a as T).abs_diff(b as T))
                as u64));
            Ok(Scalar::plain(fun, ty, &[ty; 3]))
        }
        "div" | "rem" => quotient(reader),
        "abs" | "neg" => {
            let ty = reader.ty(&SIGNED)?;
            let fun = match (ty, reader.opcode) {
                (Type::S16, "abs") => one!(|a| (a as i16).unsigned_abs().into()),
                (Type::S32, "abs") => one!(|a| (a as i32).unsigned_abs().into()),
                (_, "abs") => one!(|a| (a as i64).unsigned_abs()),
                _ => with_integer!(ty, |_T, U, _W| one!(|a| (a as U).wrapping_neg() as u64)),
            };
            Ok(Scalar::plain(fun, ty, &[ty]))
        }
        "min" | "max" => extremum(reader),
        _ => dot(reader),
    }
}

fn sum(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let saturates = reader.flag("sat");
    let add = reader.opcode == "add";
    let ty = match (saturates, add) {
        (true, _) => reader.ty(&[Type::S32])?,
        (false, true) => reader.ty(&[&INTEGERS[..], &[Type::U16x2, Type::S16x2]].concat())?,
        (false, false) => reader.ty(&INTEGERS)?,
    };
    let fun = match (ty, saturates, add) {
        (Type::S32, true, true) => two!(|a, b| (a as i32).saturating_add(b as i32) as u32 as u64),
        (Type::S32, true, false) => two!(|a, b| (a as i32).saturating_sub(b as i32) as u32 as u64),
        (Type::U16x2 | Type::S16x2, ..) => {
            reader.needs("add.{u16x2, s16x2}", 80, 90)?;
            two!(|a, b| halves(a, b, u16::wrapping_add))
        }
        (_, _, true) => with_integer!(ty, |_T, U, _W| two!(|a, b| (a as U).wrapping_add(b as U) as u64)),
        _ => with_integer!(ty, |_T, U, _W| two!(|a, b| (a as U).wrapping_sub(b as U) as u64)),
    };
    Ok(Scalar::plain(fun, ty, &[ty; 2]))
}

/// A function of both halves of 32 bits.
fn halves(a: u64, b: u64, f: impl Fn(u16, u16) -> u16) -> u64 {
    u64::from(f(a as u16, b as u16)) | u64::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 { !0 } else { (1 << bits) - 1 }
}

fn product(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let part = reader.required("One of .lo, .hi and .wide", &PARTS)?;
    let saturates = reader.opcode == "mad" && part == Part::Hi && reader.flag("sat");
    let ty = match part {
        _ if saturates => reader.ty(&[Type::S32])?,
        Part::Wide => reader.ty(&[Type::U16, Type::S16, Type::U32, Type::S32])?,
        Part::Lo | Part::Hi => reader.ty(&INTEGERS)?,
    };
    let dest = if part == Part::Wide { twice(ty) } else { ty };
    if reader.opcode == "mul" {
        return Ok(Scalar::plain(mul(part, ty), dest, &[ty; 2]));
    }
    let fun = if saturates {
        three!(|a, b, c| {
            let high = (i64::from(a as i32) * i64::from(b as i32)) >> 32;
            (high as i32).saturating_add(c as i32) as u32 as u64
        })
    } else {
        mad(part, ty)
    };
    Ok(Scalar::plain(fun, dest, &[ty, ty, dest]))
}

fn twice(ty: Type) -> Type {
    match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        _ => Type::S64,
    }
}

fn mul(part: Part, ty: Type) -> Fun {
    match part {
        Part::Lo => with_integer!(ty, |_T, U, _W| two!(|a, b| (a as U).wrapping_mul(b as U) as u64)),
        Part::Hi => with_integer!(ty, |T, U, W| two!(|a, b| {
            ((W::from(a as T) * W::from(b as T)) >> T::BITS) as U as u64
        })),
        Part::Wide => with_integer!(ty, |T, _U, W| two!(|a, b| {
            (W::from(a as T) * W::from(b as T)) as u64 & mask(W::BITS)
        })),
    }
}

fn mad(part: Part, ty: Type) -> Fun {
    match part {
        Part::Lo => with_integer!(ty, |_T, U, _W| three!(|a, b, c| {
            (a as U).wrapping_mul(b as U).wrapping_add(c as U) as u64
        })),
        Part::Hi => with_integer!(ty, |T, U, W| three!(|a, b, c| {
            let high = (W::from(a as T) * W::from(b as T)) >> T::BITS;
            (high as U).wrapping_add(c as U) as u64
        })),
        Part::Wide => with_integer!(ty, |T, _U, W| three!(|a, b, c| {
            ((W::from(a as T) * W::from(b as T)) as u64).wrapping_add(c) & mask(W::BITS)
        })),
    }
}

/// The product of the low 24 bits, 48 bits wide: `.lo` are its bits 0 to 31, `.hi` are 16 to 47.
fn product_24(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let part = reader.required("One of .lo and .hi", &PARTS[..2])?;
    let saturates = reader.opcode == "mad24" && part == Part::Hi && reader.flag("sat");
    let ty = if saturates { reader.ty(&[Type::S32])? } else { reader.ty(&WORDS)? };
    let (hi, signed) = (part == Part::Hi, ty == Type::S32);
    if reader.opcode == "mul24" {
        let fun = with_flag!(hi, HI, with_flag!(signed, S, two!(|a, b| mul_24::<HI, S>(a, b).into())));
        return Ok(Scalar::plain(fun, ty, &[ty; 2]));
    }
    let fun = if saturates {
        three!(|a, b, c| (mul_24::<true, true>(a, b) as i32).saturating_add(c as i32) as u32 as u64)
    } else {
        with_flag!(
            hi,
            HI,
            with_flag!(signed, S, three!(|a, b, c| mul_24::<HI, S>(a, b).wrapping_add(c as u32).into()))
        )
    };
    Ok(Scalar::plain(fun, ty, &[ty; 3]))
}

fn mul_24<const HI: bool, const SIGNED: bool>(a: u64, b: u64) -> u32 {
    let low = |x: u64| {
        let top = (x as u32) << 8;
        if SIGNED { i64::from(top as i32 >> 8) } else { i64::from(top >> 8) }
    };
    ((low(a) * low(b)) >> if HI { 16 } else { 0 }) as u32
}

/// The quotient is rounded toward zero, and the remainder has the dividend's sign. PTX leaves division by zero open;
/// hardware gives all ones for both.
fn quotient(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let ty = reader.ty(&INTEGERS)?;
    let fun = if reader.opcode == "div" {
        with_integer!(ty, |T, U, _W| two!(|a, b| {
            if b as U == 0 { U::MAX as u64 } else { (a as T).wrapping_div(b as T) as U as u64 }
        }))
    } else {
        with_integer!(ty, |T, U, _W| two!(|a, b| {
            if b as U == 0 { U::MAX as u64 } else { (a as T).wrapping_rem(b as T) as U as u64 }
        }))
    };
    Ok(Scalar::plain(fun, ty, &[ty; 2]))
}

fn extremum(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let relu = reader.flag("relu");
    let ty = if relu {
        reader.ty(&[Type::S32, Type::S16x2])?
    } else {
        reader.ty(&[&INTEGERS[..], &[Type::U16x2, Type::S16x2]].concat())?
    };
    if relu || matches!(ty, Type::U16x2 | Type::S16x2) {
        reader.needs("min/max with .relu or of 16x2 types", 80, 90)?;
    }
    let fun = match (reader.opcode, ty, relu) {
        ("min", Type::U16x2, _) => two!(|a, b| halves(a, b, Ord::min)),
        (_, Type::U16x2, _) => two!(|a, b| halves(a, b, Ord::max)),
        ("min", Type::S16x2, false) => two!(|a, b| halves(a, b, |x, y| (x as i16).min(y as i16) as u16)),
        ("min", Type::S16x2, true) => {
            two!(|a, b| halves(a, b, |x, y| (x as i16).min(y as i16).max(0) as u16))
        }
        (_, Type::S16x2, false) => two!(|a, b| halves(a, b, |x, y| (x as i16).max(y as i16) as u16)),
        (_, Type::S16x2, true) => two!(|a, b| halves(a, b, |x, y| (x as i16).max(y as i16).max(0) as u16)),
        ("min", _, true) => two!(|a, b| (a as i32).min(b as i32).max(0) as u64),
        (_, _, true) => two!(|a, b| (a as i32).max(b as i32).max(0) as u64),
        ("min", ..) => with_integer!(ty, |T, U, _W| two!(|a, b| (a as T).min(b as T) as U as u64)),
        _ => with_integer!(ty, |T, U, _W| two!(|a, b| (a as T).max(b as T) as U as u64)),
    };
    Ok(Scalar::plain(fun, ty, &[ty; 2]))
}

/// `dp4a` and `dp2a`: sums of products of bytes, or of halves with two of the bytes.
fn dot(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    reader.needs(reader.opcode, 50, 61)?;
    let four = reader.opcode == "dp4a";
    let high = !four && reader.required("One of .lo and .hi", &[("lo", false), ("hi", true)])?;
    let (a_type, b_type) = (reader.ty(&WORDS)?, reader.ty(&WORDS)?);
    let signed = (a_type == Type::S32, b_type == Type::S32);
    let fun = with_flag!(
        signed.0,
        A,
        with_flag!(
            signed.1,
            B,
            match (four, high) {
                (true, _) => three!(|a, b, c| dot_of::<A, B, 4>(a, b, 0, c)),
                (false, false) => three!(|a, b, c| dot_of::<A, B, 2>(a, b, 0, c)),
                (false, true) => three!(|a, b, c| dot_of::<A, B, 2>(a, b, 2, c)),
            }
        )
    );
    let dest = if signed == (false, false) { Type::U32 } else { Type::S32 };
    Ok(Scalar::plain(fun, dest, &[a_type, b_type, dest]))
}

fn dot_of<const A: bool, const B: bool, const PARTS: u32>(a: u64, b: u64, first: u32, c: u64) -> u64 {
    let part = |x: u64, index: u32, bits: u32, signed: bool| {
        let top = ((x as u32) >> (index * bits)) << (32 - bits);
        if signed { (top as i32 >> (32 - bits)) as u32 } else { top >> (32 - bits) }
    };
    let products = (0..PARTS).map(|i| part(a, i, 32 / PARTS, A).wrapping_mul(part(b, first + i, 8, B)));
    products.fold(c as u32, u32::wrapping_add).into()
}
