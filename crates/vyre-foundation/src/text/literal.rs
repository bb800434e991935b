//! Constants in text: exact both ways.
//!
//! A literal's type is what its position expects, or the suffix behind it. Floats print as the shortest decimal that
//! reads back as the same bits; decimals round once, ties to even, in the literal's own type. NaNs other than the
//! canonical one are written with all their bits.

use crate::ir::{DataType, Literal, int_or_bool};
use rustc_apfloat::{Float, ieee};
use std::fmt::Write;

/// No exact decimal of a float needs more; a longer one is refused, so that reading takes bounded time.
const NUMBER_BYTES_MAX: usize = 2048;

/// What a position expects of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// This type, unless a suffix says otherwise.
    Type(DataType),
    /// Nothing: the literal must say its type.
    Suffix,
    /// Unknown because of another error, so a missing type is not reported again.
    Unknown,
}

impl Want {
    pub(super) fn of(ty: Option<DataType>) -> Want {
        ty.map_or(Want::Suffix, Want::Type)
    }
}

/// Why a literal cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}. Fix: {fix}")]
pub struct LiteralError {
    pub(super) code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

fn error(code: &'static str, message: String, fix: impl Into<String>) -> LiteralError {
    LiteralError { code, message, fix: fix.into() }
}

/// The literal that `text` writes where `ty` is expected.
///
/// ```
/// use vyre_foundation::{ir::DataType, text::parse_literal};
/// assert_eq!(parse_literal("1.5", DataType::F32).unwrap().bits(), 0x3fc0_0000);
/// assert!(parse_literal("256", DataType::U8).unwrap_err().fix.contains("255"));
/// ```
pub fn parse_literal(text: &str, ty: DataType) -> Result<Literal, LiteralError> {
    match parse(text, Want::Type(ty)) {
        Ok(literal) if literal.ty() == ty => Ok(literal),
        Ok(literal) => {
            let message = format!("`{}` is {}, and {ty} is expected here", clip(text), literal.ty());
            Err(error("P016", message, format!("write a literal of type {ty}")))
        }
        Err(error) => Err(error),
    }
}

/// How a constant is written where its type is expected.
///
/// ```
/// use vyre_foundation::{ir::{DataType, Literal}, text::print_literal};
/// assert_eq!(print_literal(Literal::from_bits(DataType::F32, 0x3dcc_cccd)), "0.1");
/// ```
pub fn print_literal(literal: Literal) -> String {
    let mut out = String::new();
    print(&mut out, literal);
    out
}

/// Writes a constant without its type.
pub(super) fn print(out: &mut String, literal: Literal) {
    let (ty, bits) = (literal.ty(), literal.bits());
    match ty {
        DataType::Bool => out.push_str(if bits == 0 { "false" } else { "true" }),
        DataType::U8 | DataType::U16 | DataType::U32 | DataType::U64 => print_integer(out, bits),
        DataType::I8 | DataType::I16 | DataType::I32 | DataType::I64 => {
            let unused = 64 - ty.bits();
            let value = ((bits << unused) as i64) >> unused;
            if value < 0 {
                out.push('-');
            }
            print_integer(out, value.unsigned_abs());
        }
        DataType::F16 | DataType::BF16 | DataType::F32 | DataType::F64 => print_float(out, ty, bits),
    }
}

/// Writes a constant with its type; a bool shows its type by itself.
pub(super) fn print_typed(out: &mut String, literal: Literal) {
    print(out, literal);
    let ty = literal.ty();
    if ty == DataType::Bool {
        return;
    }
    // `inf_f32`, but `1.5f32`.
    if ty.is_float() && !out.ends_with(|c: char| c.is_ascii_digit()) {
        out.push('_');
    }
    out.push_str(ty.name());
}

fn print_integer(out: &mut String, value: u64) {
    // Small numbers are by far the most frequent ones.
    if value < 10 {
        out.push((b'0' + value as u8) as char);
    } else {
        let _ = write!(out, "{value}");
    }
}

fn print_float(out: &mut String, ty: DataType, bits: u64) {
    let value = to_f64(ty, bits);
    if value.is_nan() {
        let _ = match ty.canonical_nan() == Some(bits) {
            true => write!(out, "nan"),
            false => write!(out, "nan(0x{bits:x})"),
        };
    } else if value.is_infinite() {
        out.push_str(if value < 0.0 { "-inf" } else { "inf" });
    } else if ty == DataType::F64 {
        let _ = write!(out, "{value:?}");
    } else if ty == DataType::F32 {
        let _ = write!(out, "{:?}", value as f32);
    } else {
        let _ = write!(out, "{:?}", shortest_half(ty, bits, value));
    }
}

/// The exact value of a float; NaNs stay NaNs.
fn to_f64(ty: DataType, bits: u64) -> f64 {
    match ty {
        DataType::F16 => half::f16::from_bits(bits as u16).to_f64(),
        DataType::BF16 => half::bf16::from_bits(bits as u16).to_f64(),
        DataType::F32 => f64::from(f32::from_bits(bits as u32)),
        DataType::F64 => f64::from_bits(bits),
        int_or_bool!() => unreachable!("only floats are printed as floats"),
    }
}

/// The f64 nearest to the shortest decimal that reads back as `bits`: printing it gives that decimal, since a handful of
/// digits survives the way through f64.
fn shortest_half(ty: DataType, bits: u64, value: f64) -> f64 {
    let negative = value.is_sign_negative();
    for digits in 0..5 {
        let text = format!("{:.digits$e}", value.abs());
        let (mantissa, exponent) = text.split_once('e').expect("the format asks for an exponent");
        let mantissa: i64 = mantissa.replace('.', "").parse().expect("a handful of digits");
        let exponent: i64 = exponent.parse().expect("a small exponent");
        // At a power of two the interval that rounds to `bits` is lopsided, and the nearest decimal of this length can
        // lie outside while its neighbour lies inside.
        for mantissa in [mantissa, mantissa + 1, mantissa - 1] {
            let candidate = format!("{mantissa}e{}", exponent - digits as i64);
            if decimal_bits(ty, &candidate) == Some(bits & 0x7fff) {
                let candidate: f64 = candidate.parse().expect("written above");
                return if negative { -candidate } else { candidate };
            }
        }
    }
    value
}

/// The bits of a decimal without sign, rounded once; `None` if it is too large.
fn decimal_bits(ty: DataType, text: &str) -> Option<u64> {
    let value: f64 = text.parse().ok()?;
    let round_once = |text: &str| match ty {
        DataType::F16 => text.parse::<ieee::Half>().map(|half| half.to_bits()).ok(),
        _ => text.parse::<ieee::BFloat>().map(|bfloat| bfloat.to_bits()).ok(),
    };
    let bits = match ty {
        DataType::F64 => value.to_bits(),
        DataType::F32 => u64::from(text.parse::<f32>().ok()?.to_bits()),
        // Far outside the range of both types the answer is plain, and exponents stay small enough for apfloat.
        _ if value > 1e40 => return None,
        _ if value < 1e-60 => 0,
        _ => round_once(text)? as u64,
    };
    to_f64(ty, bits).is_finite().then_some(bits)
}

/// A literal's parts: `-`, `1.5`, `f32`.
struct Parts<'a> {
    text: &'a str,
    negative: bool,
    number: &'a str,
    ty: DataType,
}

/// Reads a literal.
pub(super) fn parse(text: &str, want: Want) -> Result<Literal, LiteralError> {
    if let "true" | "false" = text {
        return Ok(Literal::bool(text == "true"));
    }
    // Single digits are by far the most frequent literals.
    if let (&[digit @ b'0'..=b'9'], Want::Type(ty)) = (text.as_bytes(), want)
        && ty.is_integer()
    {
        return Ok(Literal::from_bits(ty, u64::from(digit - b'0')));
    }
    if text.len() > NUMBER_BYTES_MAX {
        return Err(error(
            "P016",
            format!("a number of {} bytes", text.len()),
            format!("write it with at most {NUMBER_BYTES_MAX} bytes"),
        ));
    }
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (number, suffix) = split_suffix(unsigned);
    let ty = match (suffix, want) {
        ("", Want::Type(ty)) => ty,
        ("", Want::Unknown) => return Ok(Literal::u32(0)),
        ("", Want::Suffix) => {
            let example = if is_float_form(number) { "f32" } else { "u32" };
            return Err(error(
                "P015",
                format!("nothing here says which type `{}` has", clip(text)),
                format!("write the type after it, such as `{}{example}`", clip(text)),
            ));
        }
        (suffix, _) => DataType::from_name(suffix).ok_or_else(|| {
            error(
                "P005",
                format!("`{}` after `{}` is not a type", clip(suffix), clip(number)),
                super::suggest::fix_type(suffix),
            )
        })?,
    };
    let parts = Parts { text, negative, number, ty };
    let bits = if ty == DataType::Bool {
        return Err(error(
            "P014",
            format!("`{text}` is a number, and a bool is expected here"),
            "write `true` or `false`, or compare with `ne`",
        ));
    } else if ty.is_float() {
        parse_float(&parts)?
    } else {
        parse_integer(&parts)?
    };
    Ok(Literal::from_bits(ty, bits))
}

/// Splits `1.5f32` into `1.5` and `f32`. A `_` before the type belongs to neither.
fn split_suffix(text: &str) -> (&str, &str) {
    let at = if let Some(hex) = text.strip_prefix("0x") {
        hex.find(|c: char| !c.is_ascii_hexdigit() && c != '_').map_or(text.len(), |at| at + 2)
    } else if text.starts_with("inf") {
        3
    } else if text.starts_with("nan(") {
        text.find(')').map_or(text.len(), |at| at + 1)
    } else if text.starts_with("nan") {
        3
    } else {
        text.find(['u', 'i', 'f', 'b']).unwrap_or(text.len())
    };
    let (number, suffix) = text.split_at(at);
    if suffix.is_empty() {
        return (number, suffix);
    }
    match number.strip_suffix('_') {
        Some(number) => (number, suffix),
        None => (number, suffix.strip_prefix('_').unwrap_or(suffix)),
    }
}

fn is_float_form(number: &str) -> bool {
    !number.starts_with("0x") && (number.starts_with(['i', 'n']) || number.contains(['.', 'e', 'E']))
}

/// The number without its underscores; `None` if one does not stand between two digits.
fn without_underscores(number: &str) -> Option<std::borrow::Cow<'_, str>> {
    if !number.contains('_') {
        return Some(number.into());
    }
    let bytes = number.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let stands_well = |at: usize| at > 0 && is_digit(at - 1) && is_digit(at + 1);
    let fine = (0..bytes.len()).filter(|at| bytes[*at] == b'_').all(stands_well);
    fine.then(|| number.replace('_', "").into())
}

fn malformed(parts: &Parts<'_>) -> LiteralError {
    error(
        "P016",
        format!("`{}` is not a number", clip(parts.text)),
        "write digits, with a point and digits or an exponent for floats, or `0x` and hex digits for integers",
    )
}

/// A text cut to what fits in a message.
pub(super) fn clip(text: &str) -> std::borrow::Cow<'_, str> {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]).into(),
        None => text.into(),
    }
}

fn parse_integer(parts: &Parts<'_>) -> Result<u64, LiteralError> {
    let &Parts { text, negative, number, ty } = parts;
    if is_float_form(number) {
        let whole = number.split(['.', 'e', 'E']).next().unwrap_or("");
        let fix = match whole.bytes().all(|b| b.is_ascii_digit()) && !whole.is_empty() {
            true => format!(
                "write an integer such as `{}{whole}`, or a float type such as f32 instead of {ty}",
                if negative { "-" } else { "" }
            ),
            false => format!("write an integer, or a float type such as f32 instead of {ty}"),
        };
        return Err(error("P014", format!("`{}` is a float, and {ty} is an integer type", clip(text)), fix));
    }
    let number = without_underscores(number).ok_or_else(|| malformed(parts))?;
    let (digits, radix) = number.strip_prefix("0x").map_or((&*number, 10), |hex| (hex, 16));
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) || (radix == 16 && negative) {
        return Err(malformed(parts));
    }
    let fits = |value: &u64| match (radix, negative) {
        (16, _) => *value <= ty.mask(),
        (_, false) if ty.is_signed() => *value <= ty.mask() >> 1,
        (_, false) => *value <= ty.mask(),
        (_, true) if ty.is_signed() => *value <= (ty.mask() >> 1) + 1,
        (_, true) => *value == 0,
    };
    match u64::from_str_radix(digits, radix).ok().filter(fits) {
        Some(value) if negative => Ok(value.wrapping_neg() & ty.mask()),
        Some(value) => Ok(value),
        None => Err(out_of_range(parts)),
    }
}

fn out_of_range(parts: &Parts<'_>) -> LiteralError {
    let &Parts { text, negative, number, ty } = parts;
    let message = format!("`{}` is outside the range of {ty}", clip(text));
    if ty.is_float() {
        let infinity = if negative { "-inf" } else { "inf" };
        let greatest = print_literal(Literal::from_bits(ty, infinity_bits(ty) - 1));
        let wider = if ty == DataType::F64 { "" } else { ", or use a wider type" };
        let fix = format!("write a number from -{greatest} to {greatest}, or `{infinity}`{wider}");
        return error("P013", message, fix);
    }
    let (least, greatest) = match ty.is_signed() {
        true => (-1 - (ty.mask() >> 1) as i128, (ty.mask() >> 1) as i128),
        false => (0, ty.mask() as i128),
    };
    // Bits that the type has can be written, whatever the number.
    let most = if negative { (ty.mask() >> 1) + 1 } else { ty.mask() };
    let bits = number.parse().is_ok_and(|value: u64| value <= most);
    let hex = if bits { ", or its bits in hex" } else { "" };
    error("P013", message, format!("write a number from {least} to {greatest}{hex}"))
}

fn parse_float(parts: &Parts<'_>) -> Result<u64, LiteralError> {
    let &Parts { text, negative, number, ty } = parts;
    let sign = u64::from(negative) << (ty.bits() - 1);
    if number == "inf" {
        return Ok(sign | infinity_bits(ty));
    }
    if number.starts_with("nan") {
        return parse_nan(parts);
    }
    if !is_float_form(number) {
        let fix = match number.bytes().all(|b| b.is_ascii_digit()) {
            true => format!("write `{}.0`", clip(&text[..number.len() + usize::from(negative)])),
            false => format!("write it with a point, or load the bits with `bitcast.{ty}`"),
        };
        return Err(error("P014", format!("`{}` is an integer, and {ty} is a float type", clip(text)), fix));
    }
    let number = without_underscores(number).ok_or_else(|| malformed(parts))?;
    if !is_decimal(&number) {
        return Err(malformed(parts));
    }
    match decimal_bits(ty, &number) {
        Some(bits) => Ok(sign | bits),
        None => Err(out_of_range(parts)),
    }
}

/// `12.5`, `1e9`, `1.5e-3`: digits on both sides of a point, an exponent of at least one digit.
fn is_decimal(text: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        None => (text, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    is_digits(whole) && is_digits(fraction) && is_digits(exponent)
}

/// The bits of infinity: the canonical NaN without its quiet bit.
fn infinity_bits(ty: DataType) -> u64 {
    match ty {
        DataType::F16 => 0x7c00,
        DataType::BF16 => 0x7f80,
        DataType::F32 => 0x7f80_0000,
        _ => 0x7ff0_0000_0000_0000,
    }
}

fn parse_nan(parts: &Parts<'_>) -> Result<u64, LiteralError> {
    let &Parts { text, negative, number, ty } = parts;
    let canonical = ty.canonical_nan().expect("the caller parses a float");
    if number == "nan" && !negative {
        return Ok(canonical);
    }
    let digits = number.strip_prefix("nan(0x").and_then(|rest| rest.strip_suffix(')')).unwrap_or("");
    let bits = u64::from_str_radix(digits, 16).ok().filter(|bits| bits & !ty.mask() == 0);
    match bits {
        Some(bits) if !negative && to_f64(ty, bits).is_nan() => Ok(bits),
        _ => Err(error(
            "P016",
            format!("`{}` does not write a NaN of type {ty}", clip(text)),
            format!("write `nan`, or all bits of a NaN such as `nan(0x{:x})`", canonical | 1),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

    #[test]
    fn literals_have_these_bits() {
        let table: &[(&str, DataType, u64)] = &[
            ("true", Bool, 1),
            ("false", Bool, 0),
            ("255", U8, 255),
            ("0xff", I8, 255),
            ("-128", I8, 128),
            ("-1", I16, 0xffff),
            ("-0", U32, 0),
            ("65_535", U16, 65535),
            ("0xDEAD_beef", U32, 0xdead_beef),
            ("7u32", U32, 7),
            ("7_u32", U32, 7),
            ("0x7_i32", I32, 7),
            ("-2147483648", I32, 0x8000_0000),
            ("18446744073709551615", U64, u64::MAX),
            ("-9223372036854775808i64", I64, 1 << 63),
            ("0.0", F32, 0),
            ("-0.0", F32, 0x8000_0000),
            ("1_000.5", F32, 0x447a_2000),
            ("1e0", F32, 0x3f80_0000),
            ("1E+0", F32, 0x3f80_0000),
            ("1.5f32", F32, 0x3fc0_0000),
            ("inf", F32, 0x7f80_0000),
            ("-inf_f64", F64, 0xfff0_0000_0000_0000),
            ("nan", BF16, 0x7fc0),
            ("nan_f16", F16, 0x7e00),
            ("nan(0xfe01)_f16", F16, 0xfe01),
            ("nan(0x7f800001)", F32, 0x7f80_0001),
            ("1e-45", F32, 1),
            ("1e-46", F32, 0),
            ("5e-324", F64, 1),
            ("3.4028235677973366e38", F32, 0x7f7f_ffff),
            // Halfway between 2048 and 2050, then a little more: rounding through f32 or f64 would lose the difference.
            ("2049.0", F16, 0x6800),
            ("2049.00000000000000000000000000000000000001", F16, 0x6801),
            ("257.0", BF16, 0x4380),
            ("257.00000000000000000000000000000000000001", BF16, 0x4381),
            ("65504.0", F16, 0x7bff),
            ("65519.99", F16, 0x7bff),
            ("6e-8", F16, 1),
            ("2e-8", F16, 0),
            ("1e-999999", BF16, 0),
        ];
        for (text, ty, bits) in table {
            let literal = parse_literal(text, *ty).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((literal.ty(), literal.bits()), (*ty, *bits), "{text}");
        }
    }

    #[test]
    fn wrong_literals_name_their_rule() {
        let table: &[(&str, Want, &str)] = &[
            ("1", Want::Type(F32), "P014"),
            ("1", Want::Type(Bool), "P014"),
            ("0x1", Want::Type(F32), "P014"),
            ("1.0", Want::Type(U32), "P014"),
            ("inf", Want::Type(U32), "P014"),
            ("256", Want::Type(U8), "P013"),
            ("-1", Want::Type(U64), "P013"),
            ("65520.0", Want::Type(F16), "P013"),
            ("3.4028236e38", Want::Type(F32), "P013"),
            ("1e999999999999999999999", Want::Type(BF16), "P013"),
            ("1", Want::Suffix, "P015"),
            ("1x32", Want::Type(U32), "P016"),
            ("1u33", Want::Type(U32), "P005"),
            ("", Want::Type(U32), "P016"),
            ("-", Want::Type(F32), "P014"),
            ("_1", Want::Type(U32), "P016"),
            ("1_", Want::Type(U32), "P016"),
            ("0x_1", Want::Type(U32), "P016"),
            ("1e5_", Want::Type(F64), "P016"),
            ("é", Want::Type(U32), "P016"),
        ];
        for (text, want, code) in table {
            assert_eq!(parse(text, *want).map_err(|error| error.code), Err(*code), "{text}");
        }
        assert!(parse_literal("1.0f64", F32).unwrap_err().message.contains("f64"));
    }

    /// Decimals of `digits` digits just below and just above the magnitude of a half.
    fn neighbours(value: f64, digits: usize) -> [String; 2] {
        let text = format!("{:.60e}", value.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap();
        let below: u64 = mantissa.replace('.', "")[..digits].parse().unwrap();
        let exponent = exponent.parse::<i64>().unwrap() - (digits as i64 - 1);
        [below, below + 1].map(|mantissa| format!("{mantissa}e{exponent}"))
    }

    #[test]
    fn all_halves_print_shortest_and_exactly() {
        for ty in [F16, BF16] {
            for bits in 0..=u64::from(u16::MAX) {
                let text = print_literal(Literal::from_bits(ty, bits));
                assert_eq!(parse_literal(&text, ty).unwrap().bits(), bits, "{text}");
                let value = to_f64(ty, bits);
                let digits = text.split('e').next().unwrap().chars().filter(char::is_ascii_digit);
                let digits = digits.collect::<String>().trim_matches('0').len();
                if value.is_finite() && digits > 1 {
                    for shorter in neighbours(value, digits - 1) {
                        assert_ne!(
                            decimal_bits(ty, &shorter),
                            Some(bits & 0x7fff),
                            "{text} could be {shorter}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn floats_print_exactly() {
        // A walk over both types' bits with a large odd stride meets every exponent.
        for at in 0..200_000u64 {
            let bits = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for ty in [F32, F64] {
                let literal = Literal::from_bits(ty, bits);
                let mut text = String::new();
                print_typed(&mut text, literal);
                assert_eq!(parse(&text, Want::Suffix), Ok(literal), "{text}");
                assert_eq!(parse_literal(&print_literal(literal), ty), Ok(literal));
            }
        }
    }
}
