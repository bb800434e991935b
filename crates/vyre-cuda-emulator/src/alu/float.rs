//! Floating-point arithmetic.
//!
//! Subnormals are numbers unless `.ftz` says otherwise, which flushes operands and results to zeros of their sign. A NaN
//! result is the canonical NaN of f16, bf16 and f32. PTX leaves an f64's payload open; as on an H200, the last NaN operand
//! is kept and made quiet, and an invalid operation gives `0xfff8_0000_0000_0000`.
//! Without a rounding modifier `add`, `sub` and `mul` are rounded to nearest. `ptxas` may contract those into `fma`, so a
//! program whose bytes matter does not use them; here they are never contracted.
//! Not here: comparisons (`compare`), conversions (`convert`).

use super::exact::{self, Format, Rounding};
use super::syntax::Reader;
use super::{Scalar, Type};
use std::marker::PhantomData;

/// IEEE half.
pub(super) struct F16;
/// The upper half of an f32.
pub(super) struct Bf16;
/// IEEE single.
pub(super) struct F32;
/// IEEE double.
pub(super) struct F64;

impl Format for F16 {
    const WIDTH: u32 = 16;
    const FRACTION: u32 = 10;
    const NAN: u64 = 0x7fff;
}

impl Format for Bf16 {
    const WIDTH: u32 = 16;
    const FRACTION: u32 = 7;
    const NAN: u64 = 0x7fff;
}

/// A format that the processor has: its operators round to nearest, ties to even.
macro_rules! native {
    ($format:ident, $float:ident, $bits:ident, $fraction:literal, $nan:literal, $keeps_nan:literal) => {
        impl Format for $format {
            const WIDTH: u32 = $bits::BITS;
            const FRACTION: u32 = $fraction;
            const NAN: u64 = $nan;
            const KEEPS_NAN: bool = $keeps_nan;

            fn add(a: u64, b: u64) -> u64 {
                ($float::from_bits(a as $bits) + $float::from_bits(b as $bits)).to_bits().into()
            }

            fn mul(a: u64, b: u64) -> u64 {
                ($float::from_bits(a as $bits) * $float::from_bits(b as $bits)).to_bits().into()
            }

            fn div(a: u64, b: u64) -> u64 {
                ($float::from_bits(a as $bits) / $float::from_bits(b as $bits)).to_bits().into()
            }

            fn sqrt(a: u64) -> u64 {
                $float::from_bits(a as $bits).sqrt().to_bits().into()
            }

            fn fma(a: u64, b: u64, c: u64) -> u64 {
                let [a, b, c] = [a, b, c].map(|bits| $float::from_bits(bits as $bits));
                a.mul_add(b, c).to_bits().into()
            }
        }
    };
}

native!(F32, f32, u32, 23, 0x7fff_ffff, false);
native!(F64, f64, u64, 52, 0xfff8_0000_0000_0000, true);

/// How a register holds floats of a format: one, or two halves.
pub(super) trait Shape {
    /// The format.
    type F: Format;
    /// Applies a function to each float.
    fn map<const N: usize>(x: [u64; N], f: impl Fn([u64; N]) -> u64) -> u64;
}

/// One float.
pub(super) struct Single<F>(PhantomData<F>);
/// Two of 16 bits.
pub(super) struct Pair<F>(PhantomData<F>);

impl<F: Format> Shape for Single<F> {
    type F = F;

    fn map<const N: usize>(x: [u64; N], f: impl Fn([u64; N]) -> u64) -> u64 {
        f(x)
    }
}

impl<F: Format> Shape for Pair<F> {
    type F = F;

    fn map<const N: usize>(x: [u64; N], f: impl Fn([u64; N]) -> u64) -> u64 {
        f(x.map(|pair| pair & 0xffff)) | f(x.map(|pair| pair >> 16 & 0xffff)) << 16
    }
}

/// What is done to a result: nothing.
pub(super) const PLAIN: u8 = 0;
/// It is clamped to 0 to 1, and NaN to 0.
pub(super) const SAT: u8 = 1;
/// Negative results become 0.
pub(super) const RELU: u8 = 2;

/// Whether a type is one of floats, packed ones included.
pub(super) fn is_float(ty: Type) -> bool {
    use Type::{BF16, BF16x2, F16, F16x2, F32, F64};
    matches!(ty, F16 | F16x2 | BF16 | BF16x2 | F32 | F64)
}

pub(super) fn is_nan<F: Format>(bits: u64) -> bool {
    bits & (F::SIGN - 1) > F::INFINITY
}

/// A subnormal becomes a zero of its sign.
pub(super) fn flush<F: Format>(bits: u64) -> u64 {
    if bits & F::INFINITY == 0 { bits & F::SIGN } else { bits }
}

/// The NaN that an operation on these operands gives.
pub(super) fn nan_of<F: Format>(operands: &[u64]) -> u64 {
    let last = operands.iter().rfind(|x| F::KEEPS_NAN && is_nan::<F>(**x));
    last.map_or(F::NAN, |nan| nan | 1 << (F::FRACTION - 1))
}

/// Applies `.ftz`, `.sat` or `.relu` to a result that is not NaN, or to the NaN that it gets.
pub(super) fn finish<F: Format, const FTZ: bool, const POST: u8>(result: u64, nan: u64) -> u64 {
    if is_nan::<F>(result) {
        return if POST == SAT { 0 } else { nan };
    }
    let result = if FTZ { flush::<F>(result) } else { result };
    let one = F::INFINITY >> (F::FRACTION + 1) << F::FRACTION;
    match POST {
        SAT | RELU if result & F::SIGN != 0 => 0,
        SAT => result.min(one),
        _ => result,
    }
}

/// An operation on each float of the operands. Whether a result is subnormal is decided after its rounding.
fn arithmetic<S: Shape, const FTZ: bool, const POST: u8, const N: usize>(
    x: [u64; N],
    f: impl Fn([u64; N]) -> u64,
) -> u64 {
    S::map(x, |x| {
        let x = if FTZ { x.map(flush::<S::F>) } else { x };
        finish::<S::F, FTZ, POST>(f(x), nan_of::<S::F>(&x))
    })
}

/// The modifiers of an arithmetic instruction.
#[derive(Clone, Copy)]
struct Mode {
    ty: Type,
    rounding: Rounding,
    ftz: bool,
    post: u8,
}

/// Binds names to the shape, rounding, `.ftz` and the clamp of a mode. Only combinations that the readers let through exist.
macro_rules! with_mode {
    ($mode:expr, |$S:ident, $R:ident, $FTZ:ident, $POST:ident| $fun:expr) => {
        match $mode.ty {
            Type::F16 => with_mode!(@half $mode, $S = Single<F16>, $R, $FTZ, $POST, $fun),
            Type::F16x2 => with_mode!(@half $mode, $S = Pair<F16>, $R, $FTZ, $POST, $fun),
            Type::BF16 => with_mode!(@brain $mode, $S = Single<Bf16>, $R, $FTZ, $POST, $fun),
            Type::BF16x2 => with_mode!(@brain $mode, $S = Pair<Bf16>, $R, $FTZ, $POST, $fun),
            Type::F64 => {
                type $S = Single<F64>;
                const $FTZ: bool = false;
                const $POST: u8 = PLAIN;
                with_mode!(@rounding $mode, $R, $fun)
            }
            _ => {
                type $S = Single<F32>;
                with_flag!($mode.ftz, $FTZ, with_constant!($mode.post, $POST: u8 in [PLAIN, SAT],
                    with_mode!(@rounding $mode, $R, $fun)))
            }
        }
    };
    (@half $mode:expr, $S:ident = $shape:ty, $R:ident, $FTZ:ident, $POST:ident, $fun:expr) => {{
        type $S = $shape;
        const $R: Rounding = Rounding::Nearest;
        with_flag!($mode.ftz, $FTZ, with_constant!($mode.post, $POST: u8 in [PLAIN, SAT, RELU], $fun))
    }};
    (@brain $mode:expr, $S:ident = $shape:ty, $R:ident, $FTZ:ident, $POST:ident, $fun:expr) => {{
        type $S = $shape;
        const $R: Rounding = Rounding::Nearest;
        const $FTZ: bool = false;
        with_constant!($mode.post, $POST: u8 in [PLAIN, RELU], $fun)
    }};
    (@rounding $mode:expr, $R:ident, $fun:expr) => {
        with_constant!($mode.rounding, $R: Rounding in
            [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up], $fun)
    };
}

/// Binds names to the shape, rounding and `.ftz` of an operation that only f32 and f64 have.
macro_rules! with_wide {
    ($mode:expr, |$S:ident, $R:ident, $FTZ:ident| $fun:expr) => {
        if $mode.ty == Type::F64 {
            type $S = Single<F64>;
            const $FTZ: bool = false;
            with_mode!(@rounding $mode, $R, $fun)
        } else {
            type $S = Single<F32>;
            with_flag!($mode.ftz, $FTZ, with_mode!(@rounding $mode, $R, $fun))
        }
    };
}

/// Binds names to the shape and `.ftz` of an operation that does not round.
macro_rules! with_shape {
    ($ty:expr, $ftz:expr, |$S:ident, $FTZ:ident| $fun:expr) => {
        match $ty {
            Type::F16 => with_shape!(@flush $ftz, $S = Single<F16>, $FTZ, $fun),
            Type::F16x2 => with_shape!(@flush $ftz, $S = Pair<F16>, $FTZ, $fun),
            Type::F32 => with_shape!(@flush $ftz, $S = Single<F32>, $FTZ, $fun),
            Type::BF16 => with_shape!(@keep $S = Single<Bf16>, $FTZ, $fun),
            Type::BF16x2 => with_shape!(@keep $S = Pair<Bf16>, $FTZ, $fun),
            _ => with_shape!(@keep $S = Single<F64>, $FTZ, $fun),
        }
    };
    (@flush $ftz:expr, $S:ident = $shape:ty, $FTZ:ident, $fun:expr) => {{
        type $S = $shape;
        with_flag!($ftz, $FTZ, $fun)
    }};
    (@keep $S:ident = $shape:ty, $FTZ:ident, $fun:expr) => {{
        type $S = $shape;
        const $FTZ: bool = false;
        $fun
    }};
}

/// An operation of the format where that rounds to nearest, or the exact one.
macro_rules! rounded {
    ($S:ident, $R:ident, $op:ident($($x:expr),*)) => {
        match $R {
            Rounding::Nearest => <$S as Shape>::F::$op($($x),*),
            _ => exact::$op::<<$S as Shape>::F>($($x,)* $R),
        }
    };
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    match reader.opcode {
        "add" | "sub" | "mul" => sum_or_product(reader),
        "fma" | "mad" => fused(reader),
        "div" | "rcp" | "sqrt" => quotient_or_root(reader),
        "abs" | "neg" => sign(reader),
        "min" | "max" => extremum(reader),
        "copysign" => {
            let ty = reader.ty(&[Type::F32, Type::F64])?;
            // The sign is the first operand's.
            let fun = if ty == Type::F32 {
                two!(|a, b| (a & F32::SIGN) | (b & !F32::SIGN))
            } else {
                two!(|a, b| (a & F64::SIGN) | (b & !F64::SIGN))
            };
            Ok(Scalar::plain(fun, ty, &[ty; 2]))
        }
        _ => test(reader),
    }
}

fn sum_or_product(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let rounding = reader.rounding();
    let (ftz, sat) = (reader.flag("ftz"), reader.flag("sat"));
    let ty = reader.ty(&[Type::F16, Type::F16x2, Type::BF16, Type::BF16x2, Type::F32, Type::F64])?;
    check(reader, ty, rounding.unwrap_or(Rounding::Nearest), ftz)?;
    if sat && matches!(ty, Type::BF16 | Type::BF16x2 | Type::F64) {
        return reader.illegal(".sat");
    }
    match ty {
        Type::F16 | Type::F16x2 => reader.needs(".f16", 42, 53)?,
        Type::BF16 | Type::BF16x2 => reader.needs(".bf16", 78, 90)?,
        _ => {}
    }
    let post = if sat { SAT } else { PLAIN };
    let mode = Mode { ty, rounding: rounding.unwrap_or(Rounding::Nearest), ftz, post };
    let fun = match reader.opcode {
        "add" => with_mode!(mode, |S, R, FTZ, POST| two!(|a, b| {
            arithmetic::<S, FTZ, POST, 2>([a, b], |[a, b]| rounded!(S, R, add(a, b)))
        })),
        "sub" => with_mode!(mode, |S, R, FTZ, POST| two!(|a, b| {
            arithmetic::<S, FTZ, POST, 2>([a, b], |[a, b]| rounded!(S, R, add(a, b ^ <S as Shape>::F::SIGN)))
        })),
        _ => with_mode!(mode, |S, R, FTZ, POST| two!(|a, b| {
            arithmetic::<S, FTZ, POST, 2>([a, b], |[a, b]| rounded!(S, R, mul(a, b)))
        })),
    };
    Ok(Scalar::plain(fun, ty, &[ty; 2]))
}

/// Refuses a directed rounding of 16-bit types, and `.ftz` of types that have none.
fn check(reader: &Reader<'_>, ty: Type, rounding: Rounding, ftz: bool) -> Result<(), String> {
    let wide = matches!(ty, Type::F32 | Type::F64);
    if !wide && rounding != Rounding::Nearest {
        return reader.illegal(".rz, .rm or .rp");
    }
    if ftz && matches!(ty, Type::BF16 | Type::BF16x2 | Type::F64) {
        return reader.illegal(".ftz");
    }
    Ok(())
}

fn fused(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let rounding = reader.required_rounding()?;
    let ftz = reader.flag("ftz");
    let post = reader.one_of(&[("sat", SAT), ("relu", RELU)]).unwrap_or(PLAIN);
    let wide = [Type::F32, Type::F64];
    let ty = if reader.opcode == "mad" {
        reader.ty(&wide)?
    } else {
        reader.ty(&[Type::F16, Type::F16x2, Type::BF16, Type::BF16x2, Type::F32, Type::F64])?
    };
    check(reader, ty, rounding, ftz)?;
    match (ty, post) {
        (Type::F64, SAT) | (Type::BF16 | Type::BF16x2, SAT) => return reader.illegal(".sat"),
        (Type::F32 | Type::F64, RELU) => return reader.illegal(".relu"),
        (Type::F16 | Type::F16x2, RELU) => reader.needs("fma.relu", 70, 80)?,
        (Type::F16 | Type::F16x2, _) => reader.needs(".f16", 42, 53)?,
        (Type::BF16 | Type::BF16x2, _) => reader.needs(".bf16", 70, 80)?,
        _ => {}
    }
    let mode = Mode { ty, rounding, ftz, post };
    let fun = with_mode!(mode, |S, R, FTZ, POST| three!(|a, b, c| {
        arithmetic::<S, FTZ, POST, 3>([a, b, c], |[a, b, c]| rounded!(S, R, fma(a, b, c)))
    }));
    Ok(Scalar::plain(fun, ty, &[ty; 3]))
}

fn quotient_or_root(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let rounding = reader.required_rounding()?;
    let ftz = reader.flag("ftz");
    let ty = reader.ty(&[Type::F32, Type::F64])?;
    check(reader, ty, rounding, ftz)?;
    let mode = Mode { ty, rounding, ftz, post: PLAIN };
    let fun = match reader.opcode {
        "div" => with_wide!(mode, |S, R, FTZ| two!(|a, b| {
            arithmetic::<S, FTZ, PLAIN, 2>([a, b], |[a, b]| rounded!(S, R, div(a, b)))
        })),
        "rcp" => with_wide!(mode, |S, R, FTZ| one!(|a| {
            arithmetic::<S, FTZ, PLAIN, 1>([a], |[a]| rounded!(S, R, div(one_of::<S>(), a)))
        })),
        _ => with_wide!(mode, |S, R, FTZ| one!(|a| {
            arithmetic::<S, FTZ, PLAIN, 1>([a], |[a]| rounded!(S, R, sqrt(a)))
        })),
    };
    let sources = vec![ty; if reader.opcode == "div" { 2 } else { 1 }];
    Ok(Scalar::plain(fun, ty, &sources))
}

fn one_of<S: Shape>() -> u64 {
    S::F::INFINITY >> (S::F::FRACTION + 1) << S::F::FRACTION
}

/// `abs` and `neg` change the sign's bit. PTX leaves open what they make of a NaN; an H200 gives what its additions give.
fn sign(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let ftz = reader.flag("ftz");
    let ty = reader.ty(&[Type::F16, Type::F16x2, Type::BF16, Type::BF16x2, Type::F32, Type::F64])?;
    check(reader, ty, Rounding::Nearest, ftz)?;
    match ty {
        Type::F16 | Type::F16x2 if reader.opcode == "abs" => reader.needs(".f16", 65, 53)?,
        Type::F16 | Type::F16x2 => reader.needs(".f16", 60, 53)?,
        Type::BF16 | Type::BF16x2 => reader.needs(".bf16", 70, 80)?,
        _ => {}
    }
    let fun = if reader.opcode == "abs" {
        with_shape!(ty, ftz, |S, FTZ| one!(|a| S::map([a], |[a]| {
            let result = (if FTZ { flush::<<S as Shape>::F>(a) } else { a }) & !<S as Shape>::F::SIGN;
            finish::<<S as Shape>::F, false, PLAIN>(result, nan_of::<<S as Shape>::F>(&[a]))
        })))
    } else {
        with_shape!(ty, ftz, |S, FTZ| one!(|a| S::map([a], |[a]| {
            let result = (if FTZ { flush::<<S as Shape>::F>(a) } else { a }) ^ <S as Shape>::F::SIGN;
            finish::<<S as Shape>::F, false, PLAIN>(result, nan_of::<<S as Shape>::F>(&[a]))
        })))
    };
    Ok(Scalar::plain(fun, ty, &[ty]))
}

fn extremum(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let ftz = reader.flag("ftz");
    let nan = reader.flag("NaN");
    let xorsign = reader.flag("xorsign");
    if xorsign && !reader.flag("abs") {
        return reader.illegal(".xorsign");
    }
    let ty = reader.ty(&[Type::F16, Type::F16x2, Type::BF16, Type::BF16x2, Type::F32, Type::F64])?;
    check(reader, ty, Rounding::Nearest, ftz)?;
    if ty == Type::F64 && (nan || xorsign) {
        return reader.illegal(if nan { ".NaN" } else { ".xorsign.abs" });
    }
    if !matches!(ty, Type::F32 | Type::F64) || nan {
        reader.needs("min/max of 16-bit types or with .NaN", 70, 80)?;
    }
    if xorsign {
        reader.needs(".xorsign", 72, 86)?;
    }
    let fun = with_flag!(
        reader.opcode == "max",
        MAX,
        with_flag!(
            nan,
            NAN,
            with_flag!(xorsign, XOR, {
                with_shape!(ty, ftz, |S, FTZ| two!(|a, b| S::map([a, b], |[a, b]| {
                    extremum_of::<<S as Shape>::F, FTZ, MAX, NAN, XOR>(a, b)
                })))
            })
        )
    );
    Ok(Scalar::plain(fun, ty, &[ty; 2]))
}

/// The lesser or greater: a number rather than a NaN unless `.NaN` says otherwise, and -0 is less than +0.
fn extremum_of<F: Format, const FTZ: bool, const MAX: bool, const NAN: bool, const XOR: bool>(
    a: u64,
    b: u64,
) -> u64 {
    let (a, b) = if FTZ { (flush::<F>(a), flush::<F>(b)) } else { (a, b) };
    let sign = (a ^ b) & F::SIGN;
    let (a, b) = if XOR { (a & !F::SIGN, b & !F::SIGN) } else { (a, b) };
    // Magnitudes of negative numbers run backward, and below all others.
    let key = |x: u64| if x & F::SIGN == 0 { x as i64 } else { -((x & !F::SIGN) as i64) - 1 };
    let result = match (is_nan::<F>(a), is_nan::<F>(b)) {
        (false, false) if (key(a) < key(b)) != MAX => a,
        (false, true) if !NAN => a,
        (false, false) => b,
        (true, false) if !NAN => b,
        _ => return nan_of::<F>(&[a, b]),
    };
    if XOR { result | sign } else { result }
}

/// `testp`: properties of one float.
fn test(reader: &mut Reader<'_>) -> Result<Scalar, String> {
    let property = reader.required(
        "Property",
        &[
            ("finite", 0u8),
            ("infinite", 1),
            ("number", 2),
            ("notanumber", 3),
            ("normal", 4),
            ("subnormal", 5),
        ],
    )?;
    let ty = reader.ty(&[Type::F32, Type::F64])?;
    let fun = with_constant!(property, PROPERTY: u8 in [0, 1, 2, 3, 4, 5], match ty {
        Type::F32 => one!(|a| has_property::<F32, PROPERTY>(a).into()),
        _ => one!(|a| has_property::<F64, PROPERTY>(a).into()),
    });
    Ok(Scalar::plain(fun, Type::Pred, &[ty]))
}

fn has_property<F: Format, const PROPERTY: u8>(a: u64) -> bool {
    let (magnitude, smallest_normal) = (a & (F::SIGN - 1), 1 << F::FRACTION);
    match PROPERTY {
        0 => magnitude < F::INFINITY,
        1 => magnitude == F::INFINITY,
        2 => magnitude <= F::INFINITY,
        3 => magnitude > F::INFINITY,
        // The ISA counts both zeros among the normal numbers.
        4 => (magnitude == 0 || magnitude >= smallest_normal) && magnitude < F::INFINITY,
        _ => magnitude != 0 && magnitude < smallest_normal,
    }
}
