//! What machine code calls for ops that no instruction does.
//!
//! Not here: `vyre_foundation::scalar`. Backends are compared with it, so they compute on their own.

/// C's `fmod` on f32. Rust's `%` is that, and exact.
pub(crate) extern "C" fn rem_f32(a: f32, b: f32) -> f32 {
    a % b
}

/// C's `fmod` on f64.
pub(crate) extern "C" fn rem_f64(a: f64, b: f64) -> f64 {
    a % b
}

/// `a * b + c` on f32, rounded once, for processors without the instruction.
pub(crate) extern "C" fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// `a * b + c` on f64, rounded once.
pub(crate) extern "C" fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}
