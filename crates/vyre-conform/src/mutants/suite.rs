//! The quick suite, prepared once for all mutants.

use crate::batch::{Group, Plan};
use crate::judge::Prepared;
use crate::suite::{Size, prepare};
use crate::target::{Target, VendorTarget};
use crate::{ReferenceBackend, cases};
use rayon::prelude::*;
use std::sync::OnceLock;

/// What every test run is seeded with, so that it fails or passes each time alike.
pub(super) const NONCE: [u8; 32] = *b"the nonce of the mutation tests.";

/// The groups of the quick suite with their batches and what the reference says of them.
pub(super) fn quick() -> &'static [(Group, Vec<Prepared>)] {
    static QUICK: OnceLock<Vec<(Group, Vec<Prepared>)>> = OnceLock::new();
    QUICK.get_or_init(|| {
        let control = ReferenceBackend;
        let target = VendorTarget::new(&control);
        let plan = Plan::new(target.name(), target.profile(), false, Size::Quick, &NONCE);
        let groups: Vec<Group> = cases::groups(plan.driver);
        groups
            .into_par_iter()
            .map(|group| {
                let prepared = prepare(&group, &plan, None);
                (group, prepared)
            })
            .collect()
    })
}
