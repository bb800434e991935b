//! Berkeley SoftFloat, and what PTX adds to IEEE 754: canonical NaNs, `.ftz`, `.sat` and `.relu`.
//!
//! SoftFloat has no bf16 that rounds, so bf16 goes through f32, rounded to odd there and then to bf16, which is exact:
//! f32 has the same exponents and 16 more bits.

use crate::cases::Layout;
use softfloat_wrapper::{ExceptionFlags, F16, F32, F64, Float, RoundingMode};

/// A format's name in PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    F16,
    Bf16,
    F32,
    F64,
}

pub(crate) const FORMATS: [Ty; 4] = [Ty::F16, Ty::Bf16, Ty::F32, Ty::F64];

pub(crate) const ROUNDINGS: [(&str, RoundingMode); 4] = [
    ("rn", RoundingMode::TiesToEven),
    ("rz", RoundingMode::TowardZero),
    ("rm", RoundingMode::TowardNegative),
    ("rp", RoundingMode::TowardPositive),
];

impl Ty {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ty::F16 => "f16",
            Ty::Bf16 => "bf16",
            Ty::F32 => "f32",
            Ty::F64 => "f64",
        }
    }

    pub(crate) fn layout(self) -> Layout {
        match self {
            Ty::F16 => Layout { width: 16, fraction: 10 },
            Ty::Bf16 => Layout { width: 16, fraction: 7 },
            Ty::F32 => Layout { width: 32, fraction: 23 },
            Ty::F64 => Layout { width: 64, fraction: 52 },
        }
    }

    /// The value, which f64 holds exactly.
    pub(crate) fn value(self, bits: u64) -> f64 {
        match self {
            Ty::F16 => f64::from_bits(F16::from_bits(bits as u16).to_f64(RoundingMode::TiesToEven).to_bits()),
            Ty::Bf16 => f32::from_bits((bits as u32) << 16).into(),
            Ty::F32 => f32::from_bits(bits as u32).into(),
            Ty::F64 => f64::from_bits(bits),
        }
    }

    /// The format's bits of an exact value.
    pub(crate) fn bits(self, value: f64) -> u64 {
        self.rounded(value.to_bits(), RoundingMode::TiesToEven)
    }

    pub(crate) fn rounded(self, bits: u64, round: RoundingMode) -> u64 {
        let x = F64::from_bits(bits);
        convert(self, round, |r| x.to_f16(r), |r| x.to_f32(r), |_| x)
    }
}

/// What is done to a result, as a modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    Plain,
    Sat,
    Relu,
}

impl Post {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Post::Plain => "",
            Post::Sat => ".sat",
            Post::Relu => ".relu",
        }
    }
}

/// A conversion to any format; `to_f32` also serves bf16.
pub(crate) fn convert(
    ty: Ty,
    round: RoundingMode,
    to_f16: impl FnOnce(RoundingMode) -> F16,
    to_f32: impl FnOnce(RoundingMode) -> F32,
    to_f64: impl FnOnce(RoundingMode) -> F64,
) -> u64 {
    match ty {
        Ty::F16 => to_f16(round).to_bits().into(),
        Ty::F32 => to_f32(round).to_bits().into(),
        Ty::F64 => to_f64(round).to_bits(),
        Ty::Bf16 => through_f32(round, || to_f32(RoundingMode::TowardZero)),
    }
}

/// Runs something in f32 toward zero, and rounds what it gives to bf16.
fn through_f32(round: RoundingMode, run: impl FnOnce() -> F32) -> u64 {
    let mut flags = ExceptionFlags::default();
    flags.set();
    let result = run().to_bits();
    flags.get();
    let odd = result | u32::from(flags.is_inexact());
    if odd & 0x7fff_ffff > 0x7f80_0000 {
        return 0x7fff;
    }
    let (kept, rest, negative) = (odd >> 16, odd & 0xffff, odd >> 31 == 1);
    let up = match round {
        RoundingMode::TiesToEven => rest > 0x8000 || rest == 0x8000 && kept & 1 == 1,
        RoundingMode::TowardNegative => negative && rest != 0,
        RoundingMode::TowardPositive => !negative && rest != 0,
        _ => false,
    };
    u64::from(kept + u32::from(up))
}

/// An operation by its name in PTX.
pub(crate) fn compute(ty: Ty, op: &str, x: [u64; 3], round: RoundingMode) -> u64 {
    match ty {
        Ty::F16 => of(op, x.map(|bits| F16::from_bits(bits as u16)), round).to_bits().into(),
        Ty::F32 => of(op, x.map(|bits| F32::from_bits(bits as u32)), round).to_bits().into(),
        Ty::F64 => of(op, x.map(F64::from_bits), round).to_bits(),
        Ty::Bf16 => {
            let x = x.map(|bits| F32::from_bits((bits as u32) << 16));
            if op == "rint" {
                // A whole number beside a bf16 is a bf16.
                return through_f32(round, || of(op, x, round));
            }
            through_f32(round, || of(op, x, RoundingMode::TowardZero))
        }
    }
}

fn of<F: Float>(op: &str, [a, b, c]: [F; 3], round: RoundingMode) -> F {
    match op {
        "add" => a.add(b, round),
        "sub" => a.sub(b, round),
        "mul" => a.mul(b, round),
        "div" => a.div(b, round),
        "fma" | "mad" => a.fused_mul_add(b, c, round),
        "sqrt" => a.sqrt(round),
        "rcp" => F::from_u32(1, round).div(a, round),
        "rint" => a.round_to_integral(round),
        _ => unreachable!("{op}"),
    }
}

pub(crate) fn is_nan(ty: Ty, bits: u64) -> bool {
    ty.value(bits).is_nan()
}

/// A subnormal becomes a zero of its sign.
pub(crate) fn flushed(ty: Ty, bits: u64) -> u64 {
    let Layout { width, fraction } = ty.layout();
    let magnitude = bits & !(1 << (width - 1));
    if magnitude < 1 << fraction { bits - magnitude } else { bits }
}

/// The NaN that PTX, or for f64 hardware, gives for these operands.
pub(crate) fn nan(ty: Ty, operands: &[u64]) -> u64 {
    match ty {
        Ty::F16 | Ty::Bf16 => 0x7fff,
        Ty::F32 => 0x7fff_ffff,
        Ty::F64 => {
            // Of several an H200 keeps the last.
            let last = operands.iter().rfind(|bits| f64::from_bits(**bits).is_nan());
            last.map_or(0xfff8_0000_0000_0000, |bits| bits | 0x0008_0000_0000_0000)
        }
    }
}

/// A result as PTX shows it.
pub(crate) fn shown(ty: Ty, bits: u64, nan: u64, ftz: bool, post: Post) -> u64 {
    let value = ty.value(bits);
    match post {
        Post::Sat if value.is_nan() || value <= 0.0 => return 0,
        Post::Relu if value <= 0.0 => return 0,
        Post::Sat if value > 1.0 => return ty.bits(1.0),
        _ if value.is_nan() => return nan,
        _ => {}
    }
    if ftz { flushed(ty, bits) } else { bits }
}
