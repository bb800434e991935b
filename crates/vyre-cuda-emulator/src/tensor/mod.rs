//! The instructions that a whole warp, or four warps, carry out on matrices, and the asynchronous copies that feed them.
//!
//! Each instruction has a type. `of` decides from the modifiers and the target whether the form is legal, and methods then
//! compute on rows of registers and on the bytes of shared memory, without any memory of their own: the engine asks which
//! addresses an instruction touches, checks them, and gives the bytes to the method that computes.
//!
//! Legality follows the text of the PTX ISA. `ptxas` is laxer in places: it takes `ldmatrix` with `.x8`, and `wgmma`
//! without `.aligned`. Such forms are errors here.
//!
//! Not here: products of floats, whose order of accumulation and rounding the ISA leaves open; products of single bits;
//! sparse and scaled products; `wmma`, `tcgen05`, bulk copies; the shapes of `ldmatrix` other than 8 by 8.

mod cp_async;
mod descriptor;
mod groups;
mod ldmatrix;
mod mma;
mod modifiers;
mod wgmma;

pub use cp_async::CpAsync;
pub use groups::{CopyGroups, WgmmaGroups, groups_under_way};
pub use ldmatrix::{Ldmatrix, Stmatrix};
pub use mma::Mma;
pub use wgmma::Wgmma;
