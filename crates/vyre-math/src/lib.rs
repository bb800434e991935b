//! Tests the elementary functions: an oracle for each, kernels that run them on a backend, and the
//! comparison of all 2^32 arguments.
//!
//! The oracle is `core-math`, whose functions are proved to round correctly. The functions themselves are programs of the
//! language, in `vyre_foundation::math`; nothing here is needed to run them.

pub mod kernel;
pub mod narrow;
pub mod oracle;
pub mod special;
pub mod ulp;

/// The bits of a result as storage shows them: a NaN is the canonical one.
pub fn canonical(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}
