//! From valid programs to what devices compile.
//!
//! [`soften`] rewrites a program so that it computes on integers alone: floats become their bits, and float ops become
//! calls of functions that are themselves programs. What comes out is an ordinary valid program that gives the same
//! bytes, so the reference interpreter can check it, and every emitter can use it.
//! [`ptx`] writes NVIDIA's assembly, [`wgsl`] writes WebGPU's shading language, for the calling convention that
//! [`convention`] defines and for the bindings of our own driver, which [`bindings`] defines; [`spirv`] writes SPIR-V for
//! those. [`floats`] says how float ops are made in both. [`traps`] gives traps the numbers that devices record.
//!
//! Not here: devices. A driver compiles and runs what these modules write.

pub mod bindings;
pub mod convention;
pub mod floats;
mod nesting;
pub mod ptx;
pub mod soften;
pub mod spirv;
pub mod traps;
pub mod wgsl;

// The example of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
