//! Comparisons and selections.
//!
//! Two operands are less, equal, greater or unordered. A comparison is the set of outcomes for which it holds, so its
//! complement, the second result of `setp`, is another comparison.

use super::exact::Format;
use super::float::{Bf16, F16, F32, F64, flush, is_nan};
use super::syntax::Reader;
use super::{Fun, Out, Scalar, Type};
use std::marker::PhantomData;

const LESS: u8 = 1;
const EQUAL: u8 = 2;
const GREATER: u8 = 4;
const UNORDERED: u8 = 8;
const ORDERED: u8 = LESS | EQUAL | GREATER;

/// What a comparison's outcome is combined with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    Nothing,
    And,
    Or,
    Xor,
}

/// How two operands compare.
trait Order {
    fn outcome(a: u64, b: u64) -> u8;

    fn holds<const MASK: u8>(a: u64, b: u64) -> u64 {
        u64::from(Self::outcome(a, b) & MASK != 0)
    }
}

struct Unsigned;
struct Signed<T>(PhantomData<T>);
struct Float<F, const FTZ: bool>(PhantomData<F>);

impl Order for Unsigned {
    fn outcome(a: u64, b: u64) -> u8 {
        of(a, b)
    }
}

impl Order for Signed<i16> {
    fn outcome(a: u64, b: u64) -> u8 {
        of(a as i16, b as i16)
    }
}

impl Order for Signed<i32> {
    fn outcome(a: u64, b: u64) -> u8 {
        of(a as i32, b as i32)
    }
}

impl Order for Signed<i64> {
    fn outcome(a: u64, b: u64) -> u8 {
        of(a as i64, b as i64)
    }
}

impl<F: Format, const FTZ: bool> Order for Float<F, FTZ> {
    fn outcome(a: u64, b: u64) -> u8 {
        let (a, b) = if FTZ { (flush::<F>(a), flush::<F>(b)) } else { (a, b) };
        // Both zeros have the key 0.
        let key = |x: u64| {
            let magnitude = (x & (F::SIGN - 1)) as i64;
            if x & F::SIGN == 0 { magnitude } else { -magnitude }
        };
        if is_nan::<F>(a) || is_nan::<F>(b) { UNORDERED } else { of(key(a), key(b)) }
    }
}

fn of<T: Ord>(a: T, b: T) -> u8 {
    u8::from(a < b) | u8::from(a == b) << 1 | u8::from(a > b) << 2
}

/// Binds names to how a type compares and to a set of outcomes.
macro_rules! with_order {
    ($comparison:expr, |$C:ident, $MASK:ident| $fun:expr) => {
        match ($comparison.ty, $comparison.ftz) {
            (Type::S16, _) => with_order!(@integer $comparison, $C = Signed<i16>, $MASK, $fun),
            (Type::S32, _) => with_order!(@integer $comparison, $C = Signed<i32>, $MASK, $fun),
            (Type::S64, _) => with_order!(@integer $comparison, $C = Signed<i64>, $MASK, $fun),
            (Type::F16, false) => with_order!(@float $comparison, $C = Float<F16, false>, $MASK, $fun),
            (Type::F16, true) => with_order!(@float $comparison, $C = Float<F16, true>, $MASK, $fun),
            (Type::BF16, _) => with_order!(@float $comparison, $C = Float<Bf16, false>, $MASK, $fun),
            (Type::F32, false) => with_order!(@float $comparison, $C = Float<F32, false>, $MASK, $fun),
            (Type::F32, true) => with_order!(@float $comparison, $C = Float<F32, true>, $MASK, $fun),
            (Type::F64, _) => with_order!(@float $comparison, $C = Float<F64, false>, $MASK, $fun),
            _ => with_order!(@integer $comparison, $C = Unsigned, $MASK, $fun),
        }
    };
    (@integer $comparison:expr, $C:ident = $order:ty, $MASK:ident, $fun:expr) => {{
        type $C = $order;
        with_constant!($comparison.mask, $MASK: u8 in [1, 2, 3, 4, 5, 6], $fun)
    }};
    (@float $comparison:expr, $C:ident = $order:ty, $MASK:ident, $fun:expr) => {{
        type $C = $order;
        with_constant!($comparison.mask, $MASK: u8 in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], $fun)
    }};
}

/// Like `with_order`, for pairs of 16-bit floats.
macro_rules! with_pair_order {
    ($comparison:expr, |$C:ident, $MASK:ident| $fun:expr) => {
        match ($comparison.ty, $comparison.ftz) {
            (Type::F16x2, false) => with_order!(@float $comparison, $C = Float<F16, false>, $MASK, $fun),
            (Type::F16x2, true) => with_order!(@float $comparison, $C = Float<F16, true>, $MASK, $fun),
            _ => with_order!(@float $comparison, $C = Float<Bf16, false>, $MASK, $fun),
        }
    };
}

/// What `set` and `setp` compare, and how.
#[derive(Clone, Copy)]
struct Comparison {
    ty: Type,
    ftz: bool,
    mask: u8,
    combine: Combine,
}

impl Comparison {
    fn sources(self) -> Vec<Type> {
        let mut sources = vec![self.ty; 2];
        if self.combine != Combine::Nothing {
            sources.push(Type::Pred);
        }
        sources
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    match reader.opcode {
        "set" => set(reader),
        "setp" => setp(reader),
        "selp" => {
            let ty = selectable(reader)?;
            Ok(Scalar::plain(three!(|a, b, c| if c != 0 { a } else { b }), ty, &[ty, ty, Type::Pred]))
        }
        _ => {
            let ftz = reader.flag("ftz");
            let ty = selectable(reader)?;
            let by = reader.ty(if ftz { &[Type::F32] } else { &[Type::S32, Type::F32] })?;
            let fun = match by {
                Type::S32 => three!(|a, b, c| if c as i32 >= 0 { a } else { b }),
                // -0 is as good as +0, with `.ftz` also a negative subnormal; a NaN is not.
                _ if ftz => three!(|a, b, c| if Float::<F32, true>::holds::<6>(c, 0) != 0 { a } else { b }),
                _ => three!(|a, b, c| if Float::<F32, false>::holds::<6>(c, 0) != 0 { a } else { b }),
            };
            Ok(Scalar::plain(fun, ty, &[ty, ty, by]))
        }
    }
}

fn selectable(reader: &mut Reader<'_>) -> Result<Type, String> {
    use Type::{B16, B32, B64, F32, F64, S16, S32, S64, U16, U32, U64};
    reader.ty(&[B16, B32, B64, U16, U32, U64, S16, S32, S64, F32, F64])
}

/// Reads the comparison and what it is combined with, and `.ftz`. The type, which comes last, decides what is legal.
fn comparison(reader: &mut Reader<'_>) -> Result<Comparison, String> {
    let Some(ty) = reader.last_type() else {
        return Err(format!("Type modifier required for instruction '{}'", reader.opcode));
    };
    let order = [("lt", 1), ("le", 3), ("gt", 4), ("ge", 6)];
    let equality = [("eq", 2), ("ne", 5)];
    let unsigned = [("lo", 1), ("ls", 3), ("hi", 4), ("hs", 6)];
    let unordered =
        [("equ", 10), ("neu", 13), ("ltu", 9), ("leu", 11), ("gtu", 12), ("geu", 14), ("num", 7), ("nan", 8)];
    let table = match ty {
        Type::B16 | Type::B32 | Type::B64 => equality.to_vec(),
        Type::S16 | Type::S32 | Type::S64 => [&equality[..], &order].concat(),
        Type::U16 | Type::U32 | Type::U64 => [&equality[..], &order, &unsigned].concat(),
        _ => [&equality[..], &order, &unordered].concat(),
    };
    let mask = reader.required("Comparison", &table)?;
    let combine = reader.one_of(&[("and", Combine::And), ("or", Combine::Or), ("xor", Combine::Xor)]);
    let ftz = reader.flag("ftz");
    if ftz && !matches!(ty, Type::F16 | Type::F16x2 | Type::F32) {
        return reader.illegal(".ftz");
    }
    Ok(Comparison { ty, ftz, mask, combine: combine.unwrap_or(Combine::Nothing) })
}

/// Takes the type that was compared, with what it needs.
fn compared(reader: &mut Reader<'_>) -> Result<Type, String> {
    use Type::{B16, B32, B64, BF16, BF16x2, F16, F16x2, F32, F64, S16, S32, S64, U16, U32, U64};
    let ty = reader.ty(&[B16, B32, B64, U16, U32, U64, S16, S32, S64, F16, F16x2, BF16, BF16x2, F32, F64])?;
    match ty {
        F16 | F16x2 => reader.needs(".f16", 42, 53)?,
        BF16 | BF16x2 => reader.needs(".bf16", 78, 90)?,
        _ => {}
    }
    Ok(ty)
}

fn setp(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let comparison = comparison(reader)?;
    let ty = compared(reader)?;
    let dests = vec![Type::Pred; 2];
    if matches!(ty, Type::F16x2 | Type::BF16x2) {
        let plain = Scalar::plain(halves(comparison), Type::Pred, &comparison.sources());
        return Ok(Scalar { dests, ..plain });
    }
    let outcomes = if super::float::is_float(ty) { ORDERED | UNORDERED } else { ORDERED };
    let second = predicate(Comparison { mask: outcomes & !comparison.mask, ..comparison });
    let plain = Scalar::plain(predicate(comparison), Type::Pred, &comparison.sources());
    Ok(Scalar { second: Some(second), dests, ..plain })
}

fn predicate(comparison: Comparison) -> Fun {
    with_order!(comparison, |C, MASK| match comparison.combine {
        Combine::Nothing => two!(|a, b| C::holds::<MASK>(a, b)),
        Combine::And => three!(|a, b, c| C::holds::<MASK>(a, b) & c),
        Combine::Or => three!(|a, b, c| C::holds::<MASK>(a, b) | c),
        Combine::Xor => three!(|a, b, c| C::holds::<MASK>(a, b) ^ c),
    })
}

/// `setp` of pairs: the first result is of the lower halves, the second of the upper.
fn halves(comparison: Comparison) -> Fun {
    with_pair_order!(comparison, |C, MASK| match comparison.combine {
        Combine::Nothing => Fun::Lane(|x, _| of_halves(x, C::holds::<MASK>, |holds, _| holds)),
        Combine::And => Fun::Lane(|x, _| of_halves(x, C::holds::<MASK>, |holds, c| holds & c)),
        Combine::Or => Fun::Lane(|x, _| of_halves(x, C::holds::<MASK>, |holds, c| holds | c)),
        Combine::Xor => Fun::Lane(|x, _| of_halves(x, C::holds::<MASK>, |holds, c| holds ^ c)),
    })
}

fn of_halves(x: &[u64], holds: fn(u64, u64) -> u64, combine: fn(u64, u64) -> u64) -> Out {
    let other = x.get(2).copied().unwrap_or_default();
    let half = |shift: u32| combine(holds(x[0] >> shift & 0xffff, x[1] >> shift & 0xffff), other);
    Out { values: [half(0), half(16)], carry: false }
}

/// `set`: a comparison as a number, all ones for integers and 1.0 for floats.
fn set(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    use Type::{BF16, BF16x2, F16, F16x2, F32, S16, S32, U16, U32};
    let comparison = comparison(reader)?;
    let allowed: &[Type] = match comparison.ty {
        F16 => &[F16, U16, S16, U32, S32],
        BF16 => &[BF16, U16, S16, U32, S32],
        F16x2 => &[F16x2, U32, S32],
        BF16x2 => &[BF16x2, U32, S32],
        _ => &[U32, S32, F32, F16, BF16],
    };
    let dest = reader.ty(allowed)?;
    match dest {
        F16 | F16x2 => reader.needs(".f16", 42, 53)?,
        BF16 | BF16x2 => reader.needs(".bf16", 78, 90)?,
        _ => {}
    }
    let ty = compared(reader)?;
    let fun = if matches!(ty, F16x2 | BF16x2) {
        with_constant!(one_of_half(dest), ONE: u64 in [0xffff, 0x3c00, 0x3f80], set_halves::<ONE>(comparison))
    } else {
        with_constant!(one_of(dest), ONE: u64 in [0xffff_ffff, 0xffff, 0x3f80_0000, 0x3c00, 0x3f80],
            number::<ONE>(comparison))
    };
    Ok(Scalar::plain(fun, dest, &comparison.sources()))
}

/// What `set` gives where the comparison holds.
fn one_of(ty: Type) -> u64 {
    match ty {
        Type::U16 | Type::S16 => 0xffff,
        Type::F16 => 0x3c00,
        Type::BF16 => 0x3f80,
        Type::F32 => 0x3f80_0000,
        _ => 0xffff_ffff,
    }
}

fn one_of_half(ty: Type) -> u64 {
    match ty {
        Type::F16x2 => 0x3c00,
        Type::BF16x2 => 0x3f80,
        _ => 0xffff,
    }
}

fn number<const ONE: u64>(comparison: Comparison) -> Fun {
    with_order!(comparison, |C, MASK| match comparison.combine {
        Combine::Nothing => lane!(|a, b| C::holds::<MASK>(a, b) * ONE),
        Combine::And => lane!(|a, b, c| (C::holds::<MASK>(a, b) & c) * ONE),
        Combine::Or => lane!(|a, b, c| (C::holds::<MASK>(a, b) | c) * ONE),
        Combine::Xor => lane!(|a, b, c| (C::holds::<MASK>(a, b) ^ c) * ONE),
    })
}

fn set_halves<const ONE: u64>(comparison: Comparison) -> Fun {
    with_pair_order!(comparison, |C, MASK| match comparison.combine {
        Combine::Nothing => Fun::Lane(|x, _| joined::<ONE>(of_halves(x, C::holds::<MASK>, |holds, _| holds))),
        Combine::And => Fun::Lane(|x, _| joined::<ONE>(of_halves(x, C::holds::<MASK>, |holds, c| holds & c))),
        Combine::Or => Fun::Lane(|x, _| joined::<ONE>(of_halves(x, C::holds::<MASK>, |holds, c| holds | c))),
        Combine::Xor => Fun::Lane(|x, _| joined::<ONE>(of_halves(x, C::holds::<MASK>, |holds, c| holds ^ c))),
    })
}

fn joined<const ONE: u64>(out: Out) -> Out {
    Out { values: [(out.values[0] * ONE) | (out.values[1] * ONE) << 16, 0], carry: false }
}
