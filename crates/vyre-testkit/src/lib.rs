//! Tools that the tests of every crate share.
//!
//! - [`generate`] makes valid, race-free programs with their launch from a seed or from a fuzzer's bytes.
//! - [`any`] makes programs that need not be valid, for round trips of the text and wire forms.
//! - [`source`] is where both draw their choices from, with a shrinker for what fails.
//! - [`edge`] has the values and input data that break things.
//!
//! The tests of this crate run over the whole workspace: file tests, property tests, bad input and tidiness.

pub mod any;
pub mod edge;
pub mod generate;
pub mod source;

/// The seeds of a property test: `default` many, or as the environment says.
///
/// `VYRE_CASES` sets how many there are and `VYRE_SEED` the first one, so a long run is
/// `VYRE_CASES=1000000 cargo test --release -p vyre-testkit`, and a failure is seen again with its seed and one case.
pub fn cases(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("VYRE_SEED").unwrap_or(0);
    first..first.saturating_add(number("VYRE_CASES").unwrap_or(default))
}
