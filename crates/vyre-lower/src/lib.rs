//! From valid programs to what devices compile.
//!
//! [`prepare`] brings a program into the form that an emitter takes, by what is native on its target: it numbers traps,
//! optimises, and replaces floats that the target lacks by integers. The result is an ordinary valid program that gives
//! the same bytes, so the reference interpreter can check it. Every emitter begins with it.
//! [`ptx`] writes NVIDIA's assembly, [`wgsl`] writes WebGPU's shading language, for the calling convention that
//! [`convention`] defines and for the bindings of our own driver, which [`bindings`] defines; [`spirv`] writes SPIR-V for
//! those. [`floats`] names the strategies for float ops in both.
//!
//! Not here: devices. A driver compiles and runs what these modules write.

pub mod bindings;
pub mod convention;
pub mod floats;
pub mod index;
mod nesting;
pub mod prepare;
pub mod ptx;
pub mod spirv;
pub mod wgsl;

// The example of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
