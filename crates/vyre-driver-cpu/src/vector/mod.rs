//! The vector code: what emitters read.
//!
//! [`code`] defines the form and every op's meaning, [`build`] makes it, its `Display` shows it, [`verify`] holds it to its
//! rules.

pub mod build;
pub mod code;
pub mod lower;
mod print;
mod prune;
mod sink;
pub mod verify;

#[cfg(test)]
#[path = "../../tests/unit/vector.rs"]
mod tests;
