//! The quick suite, prepared once for all mutants.

use crate::batch::{Group, Plan};
use crate::contract::VyreBackend;
use crate::judge::Prepared;
use crate::suite::{ConformanceSuite, Size, prepare};
use crate::{ReferenceBackend, cases};
use rayon::prelude::*;
use std::sync::OnceLock;

/// What every test run is seeded with, so that it fails or passes each time alike.
pub(super) const NONCE: [u8; 32] = *b"the nonce of the mutation tests.";

/// The groups of a vendor's quick suite with their batches and what the reference says of them, in the order of a run.
pub(super) fn quick() -> &'static [(Group, Vec<Prepared>)] {
    static QUICK: OnceLock<Vec<(Group, Vec<Prepared>)>> = OnceLock::new();
    QUICK.get_or_init(|| {
        let profile = ReferenceBackend.profile();
        prepared(&Plan::new(ReferenceBackend.name(), &profile, false, Size::Quick, &NONCE))
    })
}

pub(super) fn prepared(plan: &Plan<'_>) -> Vec<(Group, Vec<Prepared>)> {
    let (groups, _) = ConformanceSuite::quick().choose(cases::groups(plan.driver), plan);
    let with_batches = |group: Group| {
        let prepared = prepare(&group, plan, None);
        (group, prepared)
    };
    groups.into_par_iter().map(with_batches).collect()
}
