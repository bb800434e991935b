//! Runs a property over many seeds, and shrinks what breaks it.
//!
//! `VYRE_CASES` sets how many seeds a property gets and `VYRE_SEED` the first one, so the long run of all of them is
//! `VYRE_CASES=1000000 cargo test --release -p vyre-testkit --test properties`, and one failure is seen again with
//! `VYRE_SEED=41 VYRE_CASES=1`.

use crate::source::{Bytes, Recorded, Seeded, Source, shrink};
use std::fmt::Display;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The seeds of a property test: `default` many, or as the environment says.
pub fn cases(default: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("VYRE_SEED").unwrap_or(0);
    first..first.saturating_add(number("VYRE_CASES").unwrap_or(default))
}

/// How often a failing case is tried again, smaller.
const SHRINK_TRIES: usize = 2000;

/// Checks that what `make` draws has the property, for `default` seeds or as the environment says.
///
/// # Panics
/// If some case breaks the property or panics: with its seed, and the smallest case found that fails as well, shown
/// by `show`.
pub fn check<T>(
    default: u64,
    make: impl Fn(&mut dyn Source) -> T,
    holds: impl Fn(&T) -> Result<(), String>,
    show: impl Fn(&T) -> String,
) {
    let holds = |case: &T| match catch_unwind(AssertUnwindSafe(|| holds(case))) {
        Ok(result) => result,
        Err(panic) => Err(panic_text(panic.as_ref())),
    };
    for seed in cases(default) {
        let mut source = Recorded::new(Seeded::new(seed));
        let case = make(&mut source);
        let Err(first) = holds(&case) else { continue };
        let fails = |bytes: &[u8]| holds(&make(&mut Bytes::new(bytes))).is_err();
        let bytes = shrink(&source.into_drawn(), SHRINK_TRIES, fails);
        let least = make(&mut Bytes::new(&bytes));
        // Cut off at the end of the recording a case can differ from the seed's and hold.
        let (least, message) = match holds(&least) {
            Err(message) => (least, message),
            Ok(()) => (case, first),
        };
        panic!("{}", Failure { seed, message, shown: show(&least) });
    }
}

struct Failure {
    seed: u64,
    message: String,
    shown: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { seed, message, shown } = self;
        write!(
            f,
            "seed {seed}, shrunk: {message}\n{shown}\nFix: VYRE_SEED={seed} VYRE_CASES=1 shows it again"
        )
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
    use crate::source::Draw;

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
        assert!(text.contains("shrunk: nine\n[9]"), "{text}");
    }
}
