//! vyre: one kernel, the same bytes on every device.
//!
//! This crate is the front door. [`host`] runs a kernel from Rust in five lines, [`ir`] has the program form and the
//! builder, [`spec`] the inputs that command lines and test files write, [`filetest`] the tests that `.vyre` files are,
//! [`algorithms`] what runs over a whole device, and `conform` the suite that any backend can be measured by.
//!
//! The features `cpu`, `cuda`, `wgpu` and `conform` are on by default. Each adds one backend, or the suite; the backend
//! `reference` is always there.
//!
//! ```
//! use vyre::host::Kernel;
//!
//! let kernel = Kernel::parse(include_str!("../../../examples/saxpy.vyre"))?;
//! let y = kernel.launch().input("a", &[2.0f32]).input("x", &[1.0f32, 2.0]).input("y", &[10.0f32, 10.0]).run()?;
//! assert_eq!(y.get::<f32>("y")?, [12.0, 14.0]);
//! # Ok::<(), vyre::host::Error>(())
//! ```

pub mod filetest;
pub mod host;
pub mod show;
pub mod spec;

pub use vyre_algorithms as algorithms;
#[cfg(feature = "conform")]
pub use vyre_conform as conform;
pub use vyre_driver as driver;
pub use vyre_driver::{BackendError, DispatchConfig, VyreBackend};
#[cfg(feature = "cpu")]
pub use vyre_driver_cpu as cpu;
#[cfg(feature = "wgpu")]
pub use vyre_driver_wgpu as wgpu;
pub use vyre_foundation::ir::Program;
pub use vyre_foundation::{diagnostic, ir, launch, limits, math, opt, text, validate, wire};
pub use vyre_lower as lower;
pub use vyre_reference as reference;

// Linking a driver registers its backend.
#[cfg(feature = "cuda")]
use vyre_driver_cuda as _;
use vyre_driver_reference as _;
use vyre_foundation::diagnostic::Rule;

/// The book's chapter on this API, whose examples are doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/host-api.md")]
struct HostApi;

/// The rule behind every diagnostic code: the parser's, the validator's and that of directives.
///
/// ```
/// let rule = vyre::rules().find(|rule| rule.code == "V031").unwrap();
/// assert!(!rule.wrong.is_empty() && !rule.right.is_empty());
/// ```
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    text::RULES.iter().chain(validate::RULES).chain([&spec::RULE])
}

// The example of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
