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
    /// The type suffixes it takes.
    pub types: TypeSet,
    /// How many floats away from the correctly rounded one an f64 result may be; 0 where that is not measured.
    pub f64_off_max: u64,
    /// What it means, in a sentence.
    pub doc: &'static str,
}

/// The ops, given to a macro: name, operands, types, how far f64 results may be off, doc line.
macro_rules! math_ops {
    ($with:ident) => {
        $with! {
            exp (x) FLOAT 1, "e to the power of `x`.";
            exp2 (x) FLOAT 1, "2 to the power of `x`.";
            exp10 (x) FLOAT 1, "10 to the power of `x`.";
            expm1 (x) FLOAT 2, "`exp(x) - 1`, without the loss near 0.";
            log (x) FLOAT 1, "The natural logarithm; -inf at 0, NaN below.";
            log2 (x) FLOAT 1, "The logarithm to base 2.";
            log10 (x) FLOAT 1, "The logarithm to base 10.";
            log1p (x) FLOAT 1, "`log(1 + x)`, without the loss near 0.";
            sin (x) FLOAT 1, "The sine of `x` radians, for arguments of any size.";
            cos (x) FLOAT 1, "The cosine of `x` radians, for arguments of any size.";
            tan (x) FLOAT 2, "The tangent of `x` radians, for arguments of any size.";
            sinpi (x) FLOAT 1, "The sine of `x` half turns; a zero has the sign of `x`.";
            cospi (x) FLOAT 1, "The cosine of `x` half turns; a zero is positive.";
            asin (x) FLOAT 1, "The angle between -pi/2 and pi/2 whose sine is `x`.";
            acos (x) FLOAT 1, "The angle between 0 and pi whose cosine is `x`.";
            atan (x) FLOAT 1, "The angle between -pi/2 and pi/2 whose tangent is `x`.";
            sinh (x) FLOAT 4, "The hyperbolic sine.";
            cosh (x) FLOAT 2, "The hyperbolic cosine.";
            tanh (x) FLOAT 4, "The hyperbolic tangent.";
            asinh (x) FLOAT 2, "The inverse of `sinh`.";
            acosh (x) FLOAT 2, "The inverse of `cosh`; NaN below 1.";
            atanh (x) FLOAT 3, "The inverse of `tanh`; infinite at -1 and 1.";
            cbrt (x) FLOAT 1, "The cube root.";
            rsqrt (x) FLOAT 1, "One over the square root.";
            atan2 (y x) FLOAT 1, "The angle of the point (`x`, `y`), between -pi and pi; `y` comes first.";
            pow (x y) FLOAT 1, "`x` to the power of `y`, with IEEE 754's special cases.";
            hypot (x y) FLOAT 1, "`sqrt(x * x + y * y)` with one rounding; an infinity wins over NaN.";
            erf (x) FLOAT 5, "The error function.";
            erfc (x) FLOAT 6, "`1 - erf(x)`, without the loss for large `x`.";
            sigmoid (x) FLOAT 0, "`1 / (1 + exp(-x))`.";
            silu (x) FLOAT 0, "`x * sigmoid(x)`.";
            gelu (x) FLOAT 0, "`x / 2 * (1 + erf(x / sqrt(2)))`.";
            softplus (x) FLOAT 0, "`log(1 + exp(x))`.";
            logaddexp (x y) FLOAT 0, "`log(exp(x) + exp(y))`.";
        }
    };
}

pub(crate) use math_ops;

macro_rules! rows {
    ($( $name:ident ($($operand:ident)*) $types:ident $off:literal, $doc:literal; )*) => {
        /// Every op.
        pub const OPS: &[MathOp] = &[$(
            MathOp {
                name: stringify!($name),
                operands: [$(stringify!($operand)),*].len(),
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
