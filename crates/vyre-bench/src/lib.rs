//! Benchmarks: kernels, the same work in Rust, and an honest clock over both.
//!
//! [`BENCHMARKS`] lists them, [`OPS`] those of single float ops and [`MATH`] those of elementary functions; [`run`] measures
//! some of them on some backends. Every contender must give the reference
//! interpreter's results at a tiny size and the plain baseline's at the measured one, bit for bit, before and after
//! the clock ran. Inputs are made outside the clock, rounds are interleaved, figures are medians, and the limits of
//! memory and arithmetic are measured in the same run.
//!
//! Not here: how a table looks and what a command line means; that is the command's.

mod case;
mod check;
mod contender;
mod external;
mod limits;
mod measure;
mod plot;
mod report;
mod run;
mod suite;

pub use case::{Benchmark, OpKind};
pub use contender::Mode;
pub use limits::{Bound, Limits};
pub use measure::{Spread, Times};
pub use plot::plot;
pub use report::{Figures, Group, Machine, Outcome, Report, Row, size_text};
pub use run::{Baselines, Options, run};
pub use suite::{BENCHMARKS, MATH, OPS};
