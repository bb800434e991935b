//! The algorithms against plain Rust, on the interpreter with its race checks and on the CPU.

mod common;
mod matmul;
mod moves;
mod plans;
mod sums;
mod text;
