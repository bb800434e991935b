//! The integer types of C99 that SoftFloat's bindings name.
//!
//! The crate of this name on the registry runs CMake to find them, and nothing else here needs CMake. Only tests use
//! this one, through `softfloat-wrapper`.

#![no_std]
#![allow(non_camel_case_types)]

/// At least 8 bits.
pub type uint_fast8_t = u8;

#[cfg(all(target_env = "gnu", target_os = "linux", target_pointer_width = "64"))]
mod fast {
    /// At least 32 bits; glibc has it as wide as a pointer.
    pub type int_fast32_t = i64;
    /// At least 32 bits; glibc has it as wide as a pointer.
    pub type uint_fast32_t = u64;
}

#[cfg(not(all(target_env = "gnu", target_os = "linux", target_pointer_width = "64")))]
mod fast {
    /// At least 32 bits.
    pub type int_fast32_t = i32;
    /// At least 32 bits.
    pub type uint_fast32_t = u32;
}

pub use fast::{int_fast32_t, uint_fast32_t};

/// At least 64 bits.
pub type int_fast64_t = i64;
/// At least 64 bits.
pub type uint_fast64_t = u64;
