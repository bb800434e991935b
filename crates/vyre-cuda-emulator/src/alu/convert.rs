//! `cvt`: between integers and floats of all widths.
//!
//! A float becomes an integer by a rounding to integers, clamped to the type's range. NaN becomes 0, or the value with only
//! the top bit set where either type has 64 bits. A NaN among floats becomes the canonical one; PTX leaves an f64's payload
//! open, and here it is what fits of the operand's payload.
//! Results have the type's width. The caller extends them where the register is wider.
//! Not here: formats of 8 bits and fewer, `.satfinite`, `.rs`.

use super::exact::{self, Finite, Format, Rounding, Value};
use super::float::{Bf16, F16, F32, F64, PLAIN, RELU, SAT, finish, flush, is_float};
use super::syntax::Reader;
use super::{Fun, Scalar, Type};

const INTEGERS: [Type; 8] =
    [Type::U8, Type::U16, Type::U32, Type::U64, Type::S8, Type::S16, Type::S32, Type::S64];
const FLOATS: [Type; 4] = [Type::F16, Type::BF16, Type::F32, Type::F64];

/// TensorFloat-32 without the 13 low bits that its register has.
struct Tf32;

impl Format for Tf32 {
    const WIDTH: u32 = 19;
    const FRACTION: u32 = 10;
    const NAN: u64 = 0x3ffff;
}

/// The modifiers before the types.
struct Modifiers {
    integer: Option<Rounding>,
    float: Option<Rounding>,
    away: bool,
    ftz: bool,
    post: u8,
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    if reader.flag("pack") {
        return pack_integers(reader);
    }
    let modifiers = Modifiers {
        integer: reader.integer_rounding(),
        float: reader.rounding(),
        away: reader.flag("rna"),
        ftz: reader.flag("ftz"),
        post: reader.one_of(&[("sat", SAT), ("relu", RELU)]).unwrap_or(PLAIN),
    };
    let all = [&INTEGERS[..], &FLOATS, &[Type::F16x2, Type::BF16x2, Type::TF32]].concat();
    let dest = reader.ty(&all)?;
    let source = reader.ty(&all[..12])?;
    if modifiers.away && dest != Type::TF32 {
        return reader.illegal(".rna");
    }
    match (dest, is_float(dest), is_float(source)) {
        (Type::TF32, ..) => to_tf32(reader, &modifiers, source),
        (Type::F16x2 | Type::BF16x2, ..) => pack_floats(reader, &modifiers, dest, source),
        (_, false, false) => between_integers(reader, &modifiers, dest, source),
        (_, true, false) => from_integer(reader, &modifiers, dest, source),
        (_, false, true) => to_integer(reader, &modifiers, dest, source),
        (_, true, true) => between_floats(reader, &modifiers, dest, source),
    }
}

/// Binds a name to the integer type.
macro_rules! with_int {
    ($ty:expr, |$T:ident, $U:ident| $fun:expr) => {
        with_int!(@ $ty, $T, $U, $fun, (U8 u8 u8) (U16 u16 u16) (U32 u32 u32) (U64 u64 u64)
            (S8 i8 u8) (S16 i16 u16) (S32 i32 u32) (S64 i64 u64))
    };
    (@ $ty:expr, $T:ident, $U:ident, $fun:expr, $(($name:ident $t:ident $u:ident))*) => {
        match $ty {
            $(Type::$name => {
                #[allow(dead_code)]
                type $T = $t;
                #[allow(dead_code)]
                type $U = $u;
                $fun
            })*
            other => unreachable!("{other:?} is no integer"),
        }
    };
}

/// Binds a name to the format of a float type.
macro_rules! with_format {
    ($ty:expr, |$F:ident| $fun:expr) => {
        match $ty {
            Type::F16 => {
                type $F = F16;
                $fun
            }
            Type::BF16 => {
                type $F = Bf16;
                $fun
            }
            Type::F32 => {
                type $F = F32;
                $fun
            }
            _ => {
                type $F = F64;
                $fun
            }
        }
    };
}

/// Binds a name to each rounding.
macro_rules! with_rounding {
    ($rounding:expr, $R:ident, $fun:expr) => {
        with_constant!($rounding, $R: Rounding in
            [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up], $fun)
    };
}

fn between_integers(
    reader: &Reader<'_>,
    modifiers: &Modifiers,
    dest: Type,
    source: Type,
) -> Result<Scalar, String> {
    if modifiers.integer.is_some() || modifiers.float.is_some() {
        return reader.illegal("rounding");
    }
    if modifiers.ftz || modifiers.post == RELU {
        return reader.illegal(".ftz or .relu");
    }
    if modifiers.post == SAT && contains(dest, source) {
        return reader.illegal(".sat");
    }
    let fun = if modifiers.post == SAT {
        with_int!(source, |T, _U| with_int!(dest, |D, V| one!(|a| {
            i128::from(a as T).clamp(D::MIN.into(), D::MAX.into()) as V as u64
        })))
    } else {
        // The sign extension is the source's, the width is the destination's.
        with_int!(source, |T, _U| with_int!(dest, |_D, V| one!(|a| a as T as V as u64)))
    };
    Ok(Scalar::plain(fun, dest, &[source]))
}

/// Whether an integer type has every value of another, so that there is nothing to clamp.
fn contains(dest: Type, source: Type) -> bool {
    let range = |ty| -> (i128, i128) { with_int!(ty, |T, _U| (T::MIN.into(), T::MAX.into())) };
    let (outer, inner) = (range(dest), range(source));
    outer.0 <= inner.0 && inner.1 <= outer.1
}

/// Checks that bf16 is known and not clamped, and that `.ftz` has an f32 to act on.
fn check_floats(reader: &Reader<'_>, modifiers: &Modifiers, dest: Type, source: Type) -> Result<(), String> {
    if modifiers.ftz && dest != Type::F32 && source != Type::F32 {
        return reader.illegal(".ftz");
    }
    if modifiers.post == SAT && (dest == Type::BF16 || source == Type::BF16) {
        return reader.illegal(".sat");
    }
    match (dest, source) {
        (Type::BF16, Type::U8 | Type::S8) | (Type::U8 | Type::S8, Type::BF16) => {
            Err("Arguments mismatch for instruction 'cvt': 8 bits and .bf16".into())
        }
        (Type::BF16, Type::F32) => reader.needs("cvt.bf16.f32", 70, 80),
        (Type::F32, Type::BF16) if modifiers.ftz => reader.needs("cvt with .f32.bf16.ftz", 78, 90),
        (Type::F32, Type::BF16) => reader.needs("cvt.f32.bf16", 71, 80),
        (Type::BF16, _) | (_, Type::BF16) => reader.needs("cvt with .bf16", 78, 90),
        (Type::F16, _) | (_, Type::F16) => reader.needs(".f16", 42, 53),
        _ => Ok(()),
    }
}

fn from_integer(
    reader: &Reader<'_>,
    modifiers: &Modifiers,
    dest: Type,
    source: Type,
) -> Result<Scalar, String> {
    let Some(rounding) = modifiers.float else {
        return Err("Rounding modifier required for instruction 'cvt'".into());
    };
    if modifiers.integer.is_some() || modifiers.post == RELU {
        return reader.illegal("rounding to an integer or .relu");
    }
    check_floats(reader, modifiers, dest, source)?;
    let sat = modifiers.post == SAT;
    let fun = with_format!(dest, |F| with_rounding!(
        rounding,
        R,
        with_flag!(
            sat,
            CLAMP,
            match source {
                Type::S8 => one!(|a| float_of::<F, CLAMP>((a as i8).into(), R)),
                Type::S16 => one!(|a| float_of::<F, CLAMP>((a as i16).into(), R)),
                Type::S32 => one!(|a| float_of::<F, CLAMP>((a as i32).into(), R)),
                Type::S64 => one!(|a| float_of::<F, CLAMP>((a as i64).into(), R)),
                _ => one!(|a| float_of::<F, CLAMP>(a.into(), R)),
            }
        )
    ));
    Ok(Scalar::plain(fun, dest, &[source]))
}

#[inline(never)]
fn float_of<F: Format, const CLAMP: bool>(a: i128, rounding: Rounding) -> u64 {
    let x = Finite { negative: a < 0, mantissa: a.unsigned_abs(), exponent: 0 };
    let result = exact::round::<F>(x, rounding);
    if CLAMP { finish::<F, false, SAT>(result, F::NAN) } else { result }
}

fn to_integer(
    reader: &Reader<'_>,
    modifiers: &Modifiers,
    dest: Type,
    source: Type,
) -> Result<Scalar, String> {
    let Some(rounding) = modifiers.integer else {
        return Err("Integer rounding modifier required for instruction 'cvt'".into());
    };
    if modifiers.float.is_some() || modifiers.post == RELU {
        return reader.illegal("rounding of floats or .relu");
    }
    check_floats(reader, modifiers, dest, source)?;
    // The clamp that `.sat` asks for is there without it.
    let fun = with_rounding!(
        rounding,
        R,
        with_int!(dest, |T, U| match (source, modifiers.ftz) {
            (Type::F16, _) => one!(|a| integer_of::<F16>(a, R, T::MIN.into(), T::MAX.into()) as U as u64),
            (Type::BF16, _) => one!(|a| integer_of::<Bf16>(a, R, T::MIN.into(), T::MAX.into()) as U as u64),
            (Type::F64, _) => one!(|a| integer_of::<F64>(a, R, T::MIN.into(), T::MAX.into()) as U as u64),
            (_, false) => one!(|a| integer_of::<F32>(a, R, T::MIN.into(), T::MAX.into()) as U as u64),
            (_, true) =>
                one!(|a| integer_of::<F32>(flush::<F32>(a), R, T::MIN.into(), T::MAX.into()) as U as u64),
        })
    );
    Ok(Scalar::plain(fun, dest, &[source]))
}

#[inline(never)]
fn integer_of<F: Format>(a: u64, rounding: Rounding, min: i128, max: i128) -> i128 {
    match exact::unpack::<F>(a) {
        // The top bit of the integer type, whether that is its sign or not.
        Value::Nan if F::WIDTH == 64 || max > i128::from(u32::MAX) => {
            if min == 0 {
                (max + 1) / 2
            } else {
                min
            }
        }
        Value::Nan => 0,
        Value::Infinite(negative) => {
            if negative {
                min
            } else {
                max
            }
        }
        Value::Finite(x) => {
            let magnitude = x.integral(rounding).min(1 << 100) as i128;
            (if x.negative { -magnitude } else { magnitude }).clamp(min, max)
        }
    }
}

fn between_floats(
    reader: &Reader<'_>,
    modifiers: &Modifiers,
    dest: Type,
    source: Type,
) -> Result<Scalar, String> {
    check_floats(reader, modifiers, dest, source)?;
    if modifiers.post == RELU {
        if source != Type::F32 || !matches!(dest, Type::F16 | Type::BF16) || modifiers.ftz {
            return reader.illegal(".relu");
        }
        if !matches!(modifiers.float, Some(Rounding::Nearest | Rounding::Zero)) {
            return reader.illegal("rounding");
        }
        reader.needs("cvt.relu", 70, 80)?;
    }
    let fun = match (modifiers.integer, modifiers.float) {
        (Some(_), Some(_)) => return reader.illegal("a second rounding"),
        (Some(rounding), None) if dest == source => to_integral(modifiers, dest, rounding),
        (Some(_), None) => return reader.illegal("rounding to an integer"),
        (None, rounding) => match (narrows(dest, source), rounding) {
            (true, None) => return Err("Rounding modifier required for instruction 'cvt'".into()),
            (false, Some(_)) => return reader.illegal("rounding"),
            (true, Some(rounding)) => narrowed(modifiers, dest, source, rounding),
            (false, None) => widened(modifiers, dest, source),
        },
    };
    Ok(Scalar::plain(fun, dest, &[source]))
}

/// Whether a conversion between floats may be inexact.
fn narrows(dest: Type, source: Type) -> bool {
    match (dest, source) {
        (Type::F64, _) => false,
        (Type::F32, source) => source == Type::F64,
        (dest, source) => dest != source,
    }
}

fn to_integral(modifiers: &Modifiers, ty: Type, rounding: Rounding) -> Fun {
    let sat = modifiers.post == SAT;
    let ftz = modifiers.ftz;
    with_rounding!(
        rounding,
        R,
        with_flag!(
            sat,
            CLAMP,
            match (ty, ftz) {
                (Type::F16, _) => one!(|a| integral::<F16, false, CLAMP>(a, R)),
                (Type::BF16, _) => one!(|a| integral::<Bf16, false, CLAMP>(a, R)),
                (Type::F64, _) => one!(|a| integral::<F64, false, CLAMP>(a, R)),
                (_, false) => one!(|a| integral::<F32, false, CLAMP>(a, R)),
                (_, true) => one!(|a| integral::<F32, true, CLAMP>(a, R)),
            }
        )
    )
}

/// The integer next to a float, as a float. A zero keeps its sign.
fn integral<F: Format, const FTZ: bool, const CLAMP: bool>(a: u64, rounding: Rounding) -> u64 {
    let a = if FTZ { flush::<F>(a) } else { a };
    let result = match exact::unpack::<F>(a) {
        Value::Finite(x) if x.exponent < 0 => {
            let whole = Finite { mantissa: x.integral(rounding), exponent: 0, ..x };
            exact::round::<F>(whole, Rounding::Zero)
        }
        _ => a,
    };
    let nan = super::float::nan_of::<F>(&[a]);
    if CLAMP { finish::<F, false, SAT>(result, nan) } else { finish::<F, false, PLAIN>(result, nan) }
}

fn narrowed(modifiers: &Modifiers, dest: Type, source: Type, rounding: Rounding) -> Fun {
    macro_rules! to {
        ($D:ident, $A:ident) => {
            with_rounding!(rounding, R, with_flag!(modifiers.ftz, FTZ,
                with_constant!(modifiers.post, POST: u8 in [PLAIN, SAT, RELU],
                    one!(|a| converted::<$D, $A, FTZ, POST>(a, R)))))
        };
    }
    match (dest, source) {
        (Type::F32, _) => to!(F32, F64),
        (Type::F16, Type::F64) => to!(F16, F64),
        (Type::F16, Type::F32) => to!(F16, F32),
        (Type::F16, _) => to!(F16, Bf16),
        (_, Type::F64) => to!(Bf16, F64),
        (_, Type::F32) => to!(Bf16, F32),
        _ => to!(Bf16, F16),
    }
}

fn widened(modifiers: &Modifiers, dest: Type, source: Type) -> Fun {
    macro_rules! to {
        ($D:ident, $A:ident) => {
            with_flag!(modifiers.ftz, FTZ, with_constant!(modifiers.post, POST: u8 in [PLAIN, SAT],
                one!(|a| converted::<$D, $A, FTZ, POST>(a, Rounding::Nearest))))
        };
    }
    match (dest, source) {
        (Type::F64, Type::F32) => to!(F64, F32),
        (Type::F64, Type::F16) => to!(F64, F16),
        (Type::F64, Type::BF16) => to!(F64, Bf16),
        (Type::F64, _) => to!(F64, F64),
        (Type::F32, Type::F16) => to!(F32, F16),
        (Type::F32, Type::BF16) => to!(F32, Bf16),
        (Type::F32, _) => to!(F32, F32),
        (Type::F16, _) => to!(F16, F16),
        _ => to!(Bf16, Bf16),
    }
}

/// A float of one format as another. `.ftz` acts on f32 alone.
fn converted<D: Format, A: Format, const FTZ: bool, const POST: u8>(a: u64, rounding: Rounding) -> u64 {
    let a = if FTZ && A::WIDTH == 32 { flush::<A>(a) } else { a };
    let (result, nan) = match exact::unpack::<A>(a) {
        Value::Nan => (D::NAN, nan_from::<D, A>(a)),
        Value::Infinite(negative) => (D::INFINITY | if negative { D::SIGN } else { 0 }, D::NAN),
        Value::Finite(x) => (exact::round::<D>(x, rounding), D::NAN),
    };
    if D::WIDTH == 32 { finish::<D, FTZ, POST>(result, nan) } else { finish::<D, false, POST>(result, nan) }
}

/// A NaN's sign and payload in a wider format that keeps them.
fn nan_from<D: Format, A: Format>(a: u64) -> u64 {
    if !D::KEEPS_NAN {
        return D::NAN;
    }
    let sign = if a & A::SIGN != 0 { D::SIGN } else { 0 };
    let payload = (a & ((1 << A::FRACTION) - 1)) << (D::FRACTION - A::FRACTION);
    sign | D::INFINITY | payload | 1 << (D::FRACTION - 1)
}

/// Two floats become the halves of one register, the first the upper.
fn pack_floats(
    reader: &Reader<'_>,
    modifiers: &Modifiers,
    dest: Type,
    source: Type,
) -> Result<Scalar, String> {
    let Some(rounding @ (Rounding::Nearest | Rounding::Zero)) = modifiers.float else {
        return Err("Rounding modifier required for instruction 'cvt'".into());
    };
    if source != Type::F32 || modifiers.integer.is_some() || modifiers.ftz || modifiers.post == SAT {
        return reader.illegal("combination");
    }
    reader.needs("cvt to .f16x2 or .bf16x2", 70, 80)?;
    let fun = with_rounding!(
        rounding,
        R,
        with_constant!(modifiers.post, POST: u8 in [PLAIN, RELU], match dest {
            Type::F16x2 => two!(|a, b| {
                converted::<F16, F32, false, POST>(a, R) << 16 | converted::<F16, F32, false, POST>(b, R)
            }),
            _ => two!(|a, b| {
                converted::<Bf16, F32, false, POST>(a, R) << 16 | converted::<Bf16, F32, false, POST>(b, R)
            }),
        })
    );
    Ok(Scalar::plain(fun, dest, &[source; 2]))
}

fn to_tf32(reader: &Reader<'_>, modifiers: &Modifiers, source: Type) -> Result<Scalar, String> {
    if source != Type::F32 || modifiers.integer.is_some() || modifiers.ftz || modifiers.post == SAT {
        return reader.illegal("combination");
    }
    let fun = match (modifiers.away, modifiers.float) {
        (true, None) if modifiers.post == PLAIN => {
            reader.needs("cvt.rna.tf32", 70, 80)?;
            one!(|a| away_from_zero(a))
        }
        (false, Some(rounding @ (Rounding::Nearest | Rounding::Zero))) => {
            reader.needs("cvt.{rn, rz}.tf32", 78, 90)?;
            with_rounding!(
                rounding,
                R,
                with_constant!(modifiers.post, POST: u8 in [PLAIN, RELU],
                one!(|a| tf32::<POST>(a, R)))
            )
        }
        _ => return Err("Rounding modifier required for instruction 'cvt'".into()),
    };
    Ok(Scalar::plain(fun, Type::TF32, &[source]))
}

/// The 13 bits below the fraction are zero, except in a NaN, which is the canonical one of f32.
fn tf32<const POST: u8>(a: u64, rounding: Rounding) -> u64 {
    match converted::<Tf32, F32, false, POST>(a, rounding) {
        Tf32::NAN => F32::NAN,
        result => result << 13,
    }
}

fn away_from_zero(a: u64) -> u64 {
    if super::float::is_nan::<F32>(a) { F32::NAN } else { (a + 0x1000) & !0x1fff }
}

/// `cvt.pack`: two integers, clamped, below the low bits of a third.
fn pack_integers(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    reader.needs("cvt.pack", 65, 72)?;
    if !reader.flag("sat") {
        return Err("Modifier '.sat' required for instruction 'cvt.pack'".into());
    }
    let narrow = [
        ("u16", (16, false)),
        ("s16", (16, true)),
        ("u8", (8, false)),
        ("s8", (8, true)),
        ("u4", (4, false)),
        ("s4", (4, true)),
        ("u2", (2, false)),
        ("s2", (2, true)),
    ];
    let (bits, signed) = reader.required("Type modifier", &narrow)?;
    reader.ty(&[Type::S32])?;
    if bits == 16 {
        let fun = with_flag!(signed, SIGNED, two!(|a, b| packed::<16, SIGNED>(a, b, 0)));
        return Ok(Scalar::plain(fun, Type::B32, &[Type::S32; 2]));
    }
    if bits < 8 {
        reader.needs("cvt.pack to 2 or 4 bits", 65, 75)?;
    }
    reader.ty(&[Type::B32])?;
    let fun = with_constant!(bits, BITS: u32 in [2, 4, 8], with_flag!(signed, SIGNED,
        three!(|a, b, c| packed::<BITS, SIGNED>(a, b, c))));
    Ok(Scalar::plain(fun, Type::B32, &[Type::S32, Type::S32, Type::B32]))
}

fn packed<const BITS: u32, const SIGNED: bool>(a: u64, b: u64, c: u64) -> u64 {
    let (min, max) = if SIGNED { (-1 << (BITS - 1), (1 << (BITS - 1)) - 1) } else { (0, (1 << BITS) - 1) };
    let clamped = |x: u64| ((x as i32).clamp(min, max) as u32 & (u32::MAX >> (32 - BITS))) as u64;
    (c << (2 * BITS) | clamped(a) << BITS | clamped(b)) & 0xffff_ffff
}
