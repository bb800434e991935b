//! Properties of the generators and, over what they make, of the language.
//!
//! `VYRE_CASES` sets the number of cases, `VYRE_SEED` the first seed. A failure names its seed.

use vyre_testkit::generate::{self, Config, Stats};
use vyre_testkit::{any, cases};

#[test]
fn generated_programs_cover_the_language() {
    let mut stats = Stats::default();
    for seed in 0..3000 {
        stats.add(&generate::seeded(seed, &Config { traps: true, ..Config::default() }).program);
    }
    eprintln!("{stats}");
    assert_eq!(stats.missing_ops(), []);
    assert!(stats.with_all * 2 > stats.programs, "{stats}");
    assert!(stats.values_live * 10 > stats.values * 8, "{stats}");
}

#[test]
fn any_programs_can_be_made() {
    let mut stats = Stats::default();
    cases(3000).for_each(|seed| stats.add(&any::seeded(seed)));
    assert_eq!(stats.missing_ops(), []);
}

#[test]
fn generated_programs_are_valid() {
    for seed in cases(1000) {
        let case = generate::seeded(seed, &Config::default());
        if let Err(findings) = vyre_foundation::validate::validate(&case.program) {
            panic!("seed {seed}: {:#?}", findings);
        }
    }
}

#[test]
fn any_programs_are_judged_without_a_panic() {
    for seed in cases(3000) {
        let _ = vyre_foundation::validate::validate(&any::seeded(seed));
    }
}
