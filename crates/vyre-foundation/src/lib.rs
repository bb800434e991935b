//! The language: its program form, its text and wire forms, its validator and its optimiser.
//!
//! No IO, no unsafe, no clock, no globals. Data flows one way, and each step is a function:
//!
//! ```text
//! text --parse--\
//! wire --decode--> Program --validate--> ValidProgram --optimise--> ValidProgram
//! builder ------/
//! ```

pub mod diagnostic;
pub mod ir;
pub mod launch;
pub mod limits;
pub mod math;
pub mod opt;
pub mod random;
pub mod scalar;
pub mod text;
pub mod validate;
pub mod wire;

// The example of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
