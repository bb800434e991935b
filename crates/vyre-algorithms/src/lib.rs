//! Device-wide algorithms as programs: the same bytes on every backend, and fast where the device is.
//!
//! A [`Plan`] says how an algorithm runs at one size: the programs, the buffers between them and the dispatches in order.
//! [`Plan::run`] takes the host's bytes, [`Plan::prepare`] makes it ready for buffers on a device. The functions of this
//! crate do the first for slices:
//!
//! ```
//! use vyre_algorithms::{Fold, Scan};
//! # let backend = vyre_driver_reference::ReferenceBackend::default();
//! assert_eq!(vyre_algorithms::reduce(&backend, Fold::Max, &[3u32, 9, 4])?, 9);
//! assert_eq!(vyre_algorithms::scan(&backend, Scan::Inclusive, &[1u64, 2, 3])?, [1, 3, 6]);
//! # Ok::<(), vyre_driver::BackendError>(())
//! ```
//!
//! The order of float sums is part of each definition (`docs/algorithms.md`), so their bits are the same everywhere too. No
//! workgroup waits for another: what depends on all elements comes from an earlier dispatch.

mod compact;
mod dfa;
mod histogram;
mod host;
mod matmul;
mod matmul_i8;
mod plan;
mod programs;
mod reduce;
mod scan;
mod sha256;
mod sort;

pub use dfa::Dfa;
pub use host::{compact, dfa_matches, histogram, matmul, matmul_i8, reduce, scan, sha256, sort, sort_pairs};
pub use matmul::Shape;
pub use plan::{Buffer, Plan, Prepared, Role, Step};
pub use reduce::Fold;
pub use scan::Scan;
pub use sha256::{SHA256_ROUNDS, SHA256_START};

// The example of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
