//! The wrong backends as a whole: the quick run fails each, and names the cause that it declares.

use super::suite::{NONCE, quick};
use super::vendors::vendors;
use crate::failure::{Cause, ParityFailure};
use crate::suite::ConformanceSuite;
use crate::target::VendorTarget;
use crate::{ReferenceBackend, VyreBackend};
use rayon::prelude::*;
use std::time::Instant;

/// A wrong backend with what was said of it.
struct Verdict {
    name: String,
    declared: Cause,
    failure: Option<ParityFailure>,
    seconds: f64,
}

impl Verdict {
    fn is_right(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.cause == self.declared)
    }

    fn line(&self) -> String {
        let (found, case) =
            self.failure.as_ref().map_or(("SURVIVES", ""), |failure| (failure.cause.code(), &failure.case));
        let mark = if self.is_right() { ' ' } else { '!' };
        let (name, declared) = (&self.name, self.declared.code());
        format!("{mark} {name:<48} {declared:<26} {found:<26} {:5.1} s  {case}", self.seconds)
    }
}

fn first_failure(backend: &dyn VyreBackend) -> Option<ParityFailure> {
    let suite = ConformanceSuite::quick().stop_at_first_failure();
    suite.run_prepared(&VendorTarget::new(backend), &NONCE, quick()).into_iter().next()
}

/// Holds a table of verdicts to what is promised of them.
fn check(kind: &str, start: Instant, mut verdicts: Vec<Verdict>) {
    verdicts.sort_by(|a, b| a.name.cmp(&b.name));
    let survivors = verdicts.iter().filter(|verdict| verdict.failure.is_none()).count();
    let right = verdicts.iter().filter(|verdict| verdict.is_right()).count();
    let table: Vec<String> = verdicts.iter().map(Verdict::line).collect();
    eprintln!(
        "{}\n{} {kind}: {} failed, {survivors} survive, {right} causes right; {:.1} s",
        table.join("\n"),
        verdicts.len(),
        verdicts.len() - survivors,
        start.elapsed().as_secs_f64(),
    );
    assert_eq!(survivors, 0, "every wrong backend fails");
    assert!(right * 10 >= verdicts.len() * 9, "{right} causes of {} are right", verdicts.len());
}

#[test]
fn the_control_is_never_failed() {
    assert_eq!(first_failure(&ReferenceBackend), None);
}

#[test]
fn the_quick_run_fails_every_wrong_backend_and_says_why() {
    quick();
    let start = Instant::now();
    let names: Vec<&str> = vendors().iter().map(|vendor| vendor.name).collect();
    let verdicts: Vec<Verdict> = names
        .into_par_iter()
        .map(|name| {
            let vendor = vendors().into_iter().find(|vendor| vendor.name == name).expect("it was listed");
            let start = Instant::now();
            let failure = first_failure(&vendor);
            Verdict {
                name: name.into(),
                declared: vendor.cause,
                failure,
                seconds: start.elapsed().as_secs_f64(),
            }
        })
        .collect();
    assert!(verdicts.len() >= 64);
    check("wrong backends", start, verdicts);
}
