//! Hard cases: f32 arguments whose result in f64 lies on the wrong side of a rounding boundary, found by trying all 2^32.
//!
//! A pair is the bits of the argument and of the correctly rounded result. `vyre-math check --hard` writes this list.

/// The hard cases of every function that has some.
pub(super) const HARD: &[(&str, &[[u32; 2]])] = &[];
