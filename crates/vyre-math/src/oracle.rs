//! The correct results, from `core-math`.

/// An oracle of one or two arguments.
#[derive(Clone, Copy)]
pub enum Oracle {
    /// In f32 and in f64.
    One(fn(f32) -> f32, fn(f64) -> f64),
    /// In f32 and in f64.
    Two(fn(f32, f32) -> f32, fn(f64, f64) -> f64),
}

macro_rules! oracles {
    ($( $name:literal $kind:ident $narrow:ident $wide:ident; )*) => {
        /// The ops that have an oracle.
        pub const ORACLES: &[(&str, Oracle)] =
            &[$( ($name, Oracle::$kind(core_math::$narrow, core_math::$wide)), )*];
    };
}

oracles! {
    "exp" One expf exp;
    "exp2" One exp2f exp2;
    "exp10" One exp10f exp10;
    "expm1" One expm1f expm1;
    "log" One logf log;
    "log2" One log2f log2;
    "log10" One log10f log10;
    "log1p" One log1pf log1p;
    "sin" One sinf sin;
    "cos" One cosf cos;
    "tan" One tanf tan;
    "sinpi" One sinpif sinpi;
    "cospi" One cospif cospi;
    "asin" One asinf asin;
    "acos" One acosf acos;
    "atan" One atanf atan;
    "sinh" One sinhf sinh;
    "cosh" One coshf cosh;
    "tanh" One tanhf tanh;
    "asinh" One asinhf asinh;
    "acosh" One acoshf acosh;
    "atanh" One atanhf atanh;
    "cbrt" One cbrtf cbrt;
    "rsqrt" One rsqrtf rsqrt;
    "erf" One erff erf;
    "erfc" One erfcf erfc;
    "atan2" Two atan2f atan2;
    "pow" Two powf pow;
    "hypot" Two hypotf hypot;
}

/// The oracle of an op, if it has one.
pub fn oracle(op: &str) -> Option<Oracle> {
    ORACLES.iter().find(|(name, _)| *name == op).map(|(_, oracle)| *oracle)
}
