//! Tools that the tests of every crate share.
//!
//! - [`any`] makes programs that need not be valid, for round trips of the text and wire forms.
//! - [`compare`] runs generated programs on the reference and compares bytes.
//! - [`dense`] makes small valid programs that are all control flow, locals and memory.
//! - [`contract`] has the tests that every backend runs, and what they are made of.
//! - [`property`] runs a property over many seeds.
//! - `files` runs file tests on backends.
//! - [`repo`] finds the files of the repository, [`book`] reads the pages of the book, and [`ops_page`] writes one of them.
//! - [`optimiser`] checks that passes keep results.
//! - `wasm` has the rows of the WebAssembly test suite.
//! - [`words`] has the words that texts for people avoid.
//! - [`fuzz`] has the property of each fuzz target.
//!
//! The tests of this crate run over the whole workspace: file tests, property tests, bad input and tidiness.

pub mod any;
pub mod book;
pub mod compare;
pub mod contract;
pub mod dense;
#[cfg(feature = "files")]
pub mod files;
pub mod fuzz;
pub mod math_page;
pub mod ops_page;
pub mod optimiser;
pub mod property;
pub mod repo;
#[cfg(feature = "wasm")]
pub mod wasm;
pub mod words;
