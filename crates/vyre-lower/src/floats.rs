//! The strategies for float ops, so that a driver can try which are exact on a device *as emitted*, and take the fastest.
//!
//! The languages differ in the strategies that they have: [`crate::spirv::strategies`], [`crate::wgsl::strategies`].

use vyre_foundation::ir::{ComputeOp, DataType};

/// A strategy for a float op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatStrategy {
    /// The device's instruction.
    Native,
    /// The device's instruction where nothing is or may become subnormal, and the next strategy elsewhere.
    Guarded,
    /// The device's instruction, and integers that find how far it is off: for quotients and roots.
    Corrected,
    /// An f32 op in f64, rounded once more; `fma` rounds to odd first.
    ThroughF64,
    /// Integers.
    Soft,
}

impl std::fmt::Display for FloatStrategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FloatStrategy::Native => "native",
            FloatStrategy::Guarded => "native where nothing is subnormal",
            FloatStrategy::Corrected => "native and corrected",
            FloatStrategy::ThroughF64 => "through f64",
            FloatStrategy::Soft => "as integers",
        })
    }
}

/// Float ops that are made alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum FloatOp {
    /// `add` and `sub`.
    Add,
    /// `mul`.
    Mul,
    /// `div`.
    Div,
    /// `sqrt`.
    Sqrt,
    /// `fma`.
    Fma,
    /// Comparisons, `min`, `max` and `clamp`.
    Compare,
    /// `floor`, `ceil`, `trunc` and `round`.
    Round,
    /// `cast` from and to integers, and for f64 from and to f32.
    Cast,
}

impl FloatOp {
    /// All of them.
    pub const ALL: [FloatOp; 8] = [
        FloatOp::Add,
        FloatOp::Mul,
        FloatOp::Div,
        FloatOp::Sqrt,
        FloatOp::Fma,
        FloatOp::Compare,
        FloatOp::Round,
        FloatOp::Cast,
    ];

    /// What an op belongs to, if there is a choice how it is made.
    pub const fn of(op: ComputeOp) -> Option<FloatOp> {
        Some(match op {
            ComputeOp::Add | ComputeOp::Sub => FloatOp::Add,
            ComputeOp::Mul => FloatOp::Mul,
            ComputeOp::Div => FloatOp::Div,
            ComputeOp::Sqrt => FloatOp::Sqrt,
            ComputeOp::Fma => FloatOp::Fma,
            ComputeOp::Eq | ComputeOp::Ne | ComputeOp::Lt | ComputeOp::Le | ComputeOp::Gt | ComputeOp::Ge => {
                FloatOp::Compare
            }
            ComputeOp::Min | ComputeOp::Max | ComputeOp::Clamp => FloatOp::Compare,
            ComputeOp::Floor | ComputeOp::Ceil | ComputeOp::Trunc | ComputeOp::Round => FloatOp::Round,
            ComputeOp::Cast => FloatOp::Cast,
            _ => return None,
        })
    }
}

/// How each float op is made. f16 and bf16 follow f32, in which they are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Floats {
    f32: [FloatStrategy; FloatOp::ALL.len()],
    pub(crate) f64: [FloatStrategy; FloatOp::ALL.len()],
    pub(crate) is_loose: bool,
}

impl Floats {
    /// Everything in integers: right wherever integers are.
    pub const SOFT: Floats = Floats::all(FloatStrategy::Soft);
    /// The device's own instructions for everything.
    pub const NATIVE: Floats = Floats::all(FloatStrategy::Native);

    /// What plain WGSL comes to: the device's own instructions, which its compiler may fuse, reorder and fold, with NaNs and
    /// signed zeros as they come. Never exact; for measuring what exactness costs.
    pub const LOOSE: Floats = Floats { is_loose: true, ..Floats::NATIVE };

    const fn all(strategy: FloatStrategy) -> Floats {
        Floats { f32: [strategy; FloatOp::ALL.len()], f64: [strategy; FloatOp::ALL.len()], is_loose: false }
    }

    /// How an op of f32 or f64 is made.
    pub const fn strategy(&self, ty: DataType, op: FloatOp) -> FloatStrategy {
        match ty {
            DataType::F64 => self.f64[op as usize],
            _ => self.f32[op as usize],
        }
    }

    /// The same but for one op of f32 or f64.
    pub const fn with(mut self, ty: DataType, op: FloatOp, strategy: FloatStrategy) -> Floats {
        match ty {
            DataType::F64 => self.f64[op as usize] = strategy,
            _ => self.f32[op as usize] = strategy,
        }
        self
    }
}

impl Default for Floats {
    /// What was exact on every device that was tried: `sqrt` and `fma` of f32 through f64, the others native.
    fn default() -> Floats {
        let through = |floats: Floats, op| floats.with(DataType::F32, op, FloatStrategy::ThroughF64);
        let f32 = through(through(Floats::NATIVE, FloatOp::Sqrt), FloatOp::Fma);
        f32.with(DataType::F64, FloatOp::Sqrt, FloatStrategy::Soft).with(
            DataType::F64,
            FloatOp::Fma,
            FloatStrategy::Soft,
        )
    }
}
