//! Runs a property over many generated cases with `proptest`, which shrinks what breaks it.
//!
//! A case is drawn from bytes, so shrinking the bytes shrinks the case, whatever it is. `VYRE_CASES` sets how many cases
//! a property gets and `VYRE_SEED` where they start, so the long run of all of them is
//! `VYRE_CASES=1000000 cargo test --release -p vyre-testkit --test properties`.

use proptest::collection::vec;
use proptest::num::u8::ANY;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use vyre_generate::source::{Bytes, Source};

/// The seeds of a property test: `default` many, or as the environment says.
pub fn cases(default: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("VYRE_SEED").unwrap_or(0);
    first..first.saturating_add(number("VYRE_CASES").unwrap_or(default))
}

/// How often a failing case is tried again, smaller.
const SHRINK_TRIES: u32 = 4000;
/// The most bytes a case is drawn from: more than all but the largest generated programs ask for.
const BYTES_MAX: usize = 4096;

/// Checks that what `make` draws has the property, for `default` cases or as the environment says.
///
/// # Panics
/// If some case breaks the property or panics: with the smallest case found that fails as well, shown by `show`.
pub fn check<T>(
    default: u64,
    make: impl Fn(&mut dyn Source) -> T,
    holds: impl Fn(&T) -> Result<(), String>,
    show: impl Fn(&T) -> String,
) {
    let Range { start, end } = cases(default);
    let config = Config {
        cases: u32::try_from(end - start).unwrap_or(u32::MAX),
        max_shrink_iters: SHRINK_TRIES,
        failure_persistence: None,
        ..Config::default()
    };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&start.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let drawn = |bytes: &[u8]| make(&mut Bytes::new(bytes));
    let result = runner.run(&vec(ANY, 0..=BYTES_MAX), |bytes| {
        let judged = catch_unwind(AssertUnwindSafe(|| holds(&drawn(&bytes))));
        judged.unwrap_or_else(|panic| Err(panic_text(panic.as_ref()))).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, bytes)) => {
            panic!("the least case found that breaks it: {}\n{}", reason.message(), show(&drawn(&bytes)))
        }
        Err(TestError::Abort(reason)) => panic!("{}", reason.message()),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    format!(
        "panicked: {}",
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use vyre_generate::source::Draw;

    #[test]
    fn a_broken_property_is_shrunk() {
        let make = |source: &mut dyn Source| {
            let mut draw = Draw::new(source);
            (0..draw.below(50)).map(|_| draw.below(16)).collect::<Vec<_>>()
        };
        let holds = |case: &Vec<u32>| if case.contains(&9) { Err("nine".into()) } else { Ok(()) };
        let run = || check(1000, make, holds, |case| format!("{case:?}"));
        let panic = catch_unwind(run).expect_err("some list has a nine");
        let text = panic_text(panic.as_ref());
        assert!(text.contains("breaks it: nine\n[9]"), "{text}");
    }
}
