//! The list of elementary functions.

use super::hard::HARD;
use crate::ir::TypeSet;

/// An elementary function that is written as an op.
#[derive(Debug, PartialEq, Eq)]
pub struct MathOp {
    /// The name in text, without its suffix.
    pub name: &'static str,
    /// How many operands it takes, all of the suffix's type.
    pub operands: usize,
    /// What it gives for `-x`.
    pub parity: Parity,
    /// The type suffixes it takes.
    pub types: TypeSet,
    /// How many floats away from the correctly rounded one an f64 result may be; 0 where that is not measured.
    pub f64_off_max: u64,
    /// What it means, in a sentence.
    pub doc: &'static str,
}

/// What a function gives for `-x`, its first operand. A function in f64 of one that is odd or even has the magnitude of `x`
/// for it; that of an odd one gives no negative result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// Nothing that is used.
    Neither,
    /// The same as for `x`.
    Even,
    /// The same as for `x`, with the other sign.
    Odd,
}

/// The ops, given to a macro: name, operands, parity, types, how far f64 results may be off, doc line.
macro_rules! math_ops {
    ($with:ident) => {
        $with! {
            exp (x) Neither FLOAT 1, "e to the power of `x`.";
            exp2 (x) Neither FLOAT 1, "2 to the power of `x`.";
            exp10 (x) Neither FLOAT 1, "10 to the power of `x`.";
            expm1 (x) Neither FLOAT 2, "`exp(x) - 1`, without the loss near 0.";
            log (x) Neither FLOAT 1, "The natural logarithm; -inf at 0, NaN below.";
            log2 (x) Neither FLOAT 1, "The logarithm to base 2.";
            log10 (x) Neither FLOAT 1, "The logarithm to base 10.";
            log1p (x) Neither FLOAT 1, "`log(1 + x)`, without the loss near 0.";
            sin (x) Neither FLOAT 1, "The sine of `x` radians, for arguments of any size.";
            cos (x) Even FLOAT 1, "The cosine of `x` radians, for arguments of any size.";
            tan (x) Neither FLOAT 2, "The tangent of `x` radians, for arguments of any size.";
            sinpi (x) Neither FLOAT 1, "The sine of `x` half turns; a zero has the sign of `x`.";
            cospi (x) Even FLOAT 1, "The cosine of `x` half turns; a zero is positive.";
            asin (x) Odd FLOAT 1, "The angle between -pi/2 and pi/2 whose sine is `x`.";
            acos (x) Neither FLOAT 1, "The angle between 0 and pi whose cosine is `x`.";
            atan (x) Odd FLOAT 1, "The angle between -pi/2 and pi/2 whose tangent is `x`.";
            sinh (x) Odd FLOAT 4, "The hyperbolic sine.";
            cosh (x) Even FLOAT 2, "The hyperbolic cosine.";
            tanh (x) Odd FLOAT 4, "The hyperbolic tangent.";
            asinh (x) Odd FLOAT 2, "The inverse of `sinh`.";
            acosh (x) Neither FLOAT 2, "The inverse of `cosh`; NaN below 1.";
            atanh (x) Odd FLOAT 3, "The inverse of `tanh`; infinite at -1 and 1.";
            cbrt (x) Odd FLOAT 1, "The cube root.";
            rsqrt (x) Neither FLOAT 1, "One over the square root.";
            atan2 (y x) Odd FLOAT 1, "The angle of the point (`x`, `y`), between -pi and pi; `y` comes first.";
            pow (x y) Neither FLOAT 1, "`x` to the power of `y`, with IEEE 754's special cases.";
            hypot (x y) Neither FLOAT 1, "`sqrt(x * x + y * y)` with one rounding; an infinity wins over NaN.";
            erf (x) Odd FLOAT 5, "The error function.";
            erfc (x) Neither FLOAT 6, "`1 - erf(x)`, without the loss for large `x`.";
            sigmoid (x) Neither FLOAT 0, "`1 / (1 + exp(-x))`.";
            silu (x) Neither FLOAT 0, "`x * sigmoid(x)`.";
            gelu (x) Neither FLOAT 0, "`x / 2 * (1 + erf(x / sqrt(2)))`.";
            softplus (x) Neither FLOAT 0, "`log(1 + exp(x))`.";
            logaddexp (x y) Neither FLOAT 0, "`log(exp(x) + exp(y))`.";
        }
    };
}

pub(crate) use math_ops;

macro_rules! rows {
    ($( $name:ident ($($operand:ident)*) $parity:ident $types:ident $off:literal, $doc:literal; )*) => {
        /// Every op.
        pub const OPS: &[MathOp] = &[$(
            MathOp {
                name: stringify!($name),
                operands: [$(stringify!($operand)),*].len(),
                parity: Parity::$parity,
                types: TypeSet::$types,
                f64_off_max: $off,
                doc: $doc,
            },
        )*];
    };
}

math_ops!(rows);

impl MathOp {
    /// The op with that name in text.
    pub fn from_name(name: &str) -> Option<&'static MathOp> {
        OPS.iter().find(|op| op.name == name)
    }

    /// How a line with the op looks; `T` stands for a type suffix.
    pub fn syntax(&self) -> String {
        format!("%r = {}.T {}", self.name, ["%x", "%x, %y"][self.operands - 1])
    }

    /// The f32 arguments that the function in f64 does not decide, each with the result's bits.
    pub(super) fn hard(&self) -> &'static [[u32; 2]] {
        HARD.iter().find(|(name, _)| *name == self.name).map_or(&[], |(_, cases)| cases)
    }
}
