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
    /// What it means, in a sentence.
    pub doc: &'static str,
}

/// The ops, given to a macro: name, operands, types, doc line.
macro_rules! math_ops {
    ($with:ident) => {
        $with! {
            exp (x) FLOAT, "e to the power of `x`.";
            exp2 (x) FLOAT, "2 to the power of `x`.";
            exp10 (x) FLOAT, "10 to the power of `x`.";
            expm1 (x) FLOAT, "`exp(x) - 1`, without the loss near 0.";
            log (x) FLOAT, "The natural logarithm; -inf at 0, NaN below.";
            log2 (x) FLOAT, "The logarithm to base 2.";
            log10 (x) FLOAT, "The logarithm to base 10.";
            log1p (x) FLOAT, "`log(1 + x)`, without the loss near 0.";
            sin (x) FLOAT, "The sine of `x` radians, for arguments of any size.";
            cos (x) FLOAT, "The cosine of `x` radians, for arguments of any size.";
            tan (x) FLOAT, "The tangent of `x` radians, for arguments of any size.";
            sinpi (x) FLOAT, "The sine of `x` half turns; a zero has the sign of `x`.";
            cospi (x) FLOAT, "The cosine of `x` half turns; a zero is positive.";
            asin (x) FLOAT, "The angle between -pi/2 and pi/2 whose sine is `x`.";
            acos (x) FLOAT, "The angle between 0 and pi whose cosine is `x`.";
            atan (x) FLOAT, "The angle between -pi/2 and pi/2 whose tangent is `x`.";
            sinh (x) FLOAT, "The hyperbolic sine.";
            cosh (x) FLOAT, "The hyperbolic cosine.";
            tanh (x) FLOAT, "The hyperbolic tangent.";
            asinh (x) FLOAT, "The inverse of `sinh`.";
            acosh (x) FLOAT, "The inverse of `cosh`; NaN below 1.";
            atanh (x) FLOAT, "The inverse of `tanh`; infinite at -1 and 1.";
            cbrt (x) FLOAT, "The cube root.";
            rsqrt (x) FLOAT, "One over the square root.";
            atan2 (y x) FLOAT, "The angle of the point (`x`, `y`), between -pi and pi; `y` comes first.";
            pow (x y) FLOAT, "`x` to the power of `y`, with IEEE 754's special cases.";
            hypot (x y) FLOAT, "`sqrt(x * x + y * y)` with one rounding; an infinity wins over NaN.";
            erf (x) FLOAT, "The error function.";
            erfc (x) FLOAT, "`1 - erf(x)`, without the loss for large `x`.";
            sigmoid (x) FLOAT, "`1 / (1 + exp(-x))`.";
            silu (x) FLOAT, "`x * sigmoid(x)`.";
            gelu (x) FLOAT, "`x / 2 * (1 + erf(x / sqrt(2)))`.";
            softplus (x) FLOAT, "`log(1 + exp(x))`.";
            logaddexp (x y) FLOAT, "`log(exp(x) + exp(y))`.";
        }
    };
}

pub(crate) use math_ops;

macro_rules! rows {
    ($( $name:ident ($($operand:ident)*) $types:ident, $doc:literal; )*) => {
        /// Every op.
        pub const OPS: &[MathOp] = &[$(
            MathOp {
                name: stringify!($name),
                operands: [$(stringify!($operand)),*].len(),
                types: TypeSet::$types,
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
