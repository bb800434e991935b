//! The conformance suite: whether a backend gives the reference's bytes, found out by running it.
//!
//! A vendor implements [`VyreBackend`] and calls [`ConformanceSuite::run`]; what comes back are [`ParityFailure`]s, each
//! with the smallest program that still fails, the bytes on both sides and the likely cause. Our own drivers and anyone
//! else's go through [`ConformanceSuite::run_driver`], which tests the driver contract as well.
//!
//! `contract` is what vendors implement, `target` makes both kinds of backend look alike, `cases` has what is run in
//! groups, `suite` runs it, `judge` compares, `reduce`, `cause` and `diagnose` explain by the `rules` of what goes
//! wrong, `report` counts, `certificate` vouches.
//!
//! Not here: any concrete driver, and what programs mean. Expected bytes always come from the reference interpreter.

mod batch;
mod cases;
mod cause;
mod certificate;
mod check;
#[cfg(feature = "cli")]
pub mod command;
mod contract;
mod diagnose;
#[cfg(test)]
mod external;
mod failure;
mod html;
#[cfg(feature = "cli")]
mod journal;
mod judge;
mod junit;
#[cfg(test)]
mod mutants;
mod reduce;
mod report;
mod rules;
mod show;
#[cfg(test)]
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
