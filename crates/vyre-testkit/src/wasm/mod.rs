//! The WebAssembly test suite as rows: a function, its parameters, and the result that its authors expect.
//!
//! `suite` reads the files, `lower` turns their functions into lists of the language's ops, `rules` translates expectations where
//! the language's rules differ, and `path` writes programs for the rows.

pub mod lower;
pub mod path;
pub mod rules;
pub mod suite;
