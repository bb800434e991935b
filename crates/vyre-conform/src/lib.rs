//! The conformance suite: runs a backend and checks that it returns the reference's bytes.
//!
//! A vendor implements [`VyreBackend`] and calls [`ConformanceSuite::run`]. It returns [`ParityFailure`]s, each
//! with the smallest program that still fails, the bytes on both sides and the likely cause. Drivers, ours and others,
//! go through [`ConformanceSuite::run_driver`], which tests the driver contract as well.
//!
//! `contract` is the trait that vendors implement, `target` gives vendors' backends and drivers one interface, `cases` has the
//! groups of cases, `suite` runs them, `judge` compares, `reduce`, `cause` and `diagnose` explain failures by the typical
//! mistakes in `rules`, `report` counts, and `certificate` states and signs the result.
//!
//! Not here: any concrete driver, and the meaning of programs. Expected bytes always come from the reference interpreter.
//! How the commands print is in `vyre-terminal`.

mod batch;
mod cases;
mod cause;
mod certificate;
mod check;
#[cfg(feature = "cli")]
pub mod command;
mod contract;
mod diagnose;
mod failure;
mod html;
#[cfg(feature = "cli")]
mod journal;
mod judge;
mod junit;
#[cfg(test)]
#[path = "../tests/unit/mutants/mod.rs"]
mod mutants;
mod reduce;
mod report;
mod rules;
mod show;
#[cfg(test)]
#[path = "../tests/unit/small.rs"]
mod small;
mod suite;
mod target;
mod time;

pub use batch::{Level, Track};
pub use certificate::{Certificate, CertificateError, PublicKey, Sample, SecretKey, Trust, Verified};
pub use check::{RandomReport, check_program, check_random};
#[cfg(feature = "cli")]
pub use command::main;
pub use contract::{Convention, DispatchConfig, Feature, OutputInit, Profile, VyreBackend};
pub use failure::{Cause, Difference, ParityFailure};
pub use report::{GroupReport, LevelState, Report, Standing};
pub use suite::{ConformanceSuite, Progress, Size};
pub use target::ReferenceBackend;

// The example of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
