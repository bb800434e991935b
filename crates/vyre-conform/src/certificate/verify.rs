//! Verifies a certificate without the backend: its contents must agree with this suite and the reference.
//!
//! The programs and inputs of every group are made again, from the certificate's nonce where they are random, and their
//! digests and counts compared. The output bytes of a random sample are computed by the reference: their digests must be
//! the roots in the certificate. Not here: the signature and the form, which reading a certificate checks.

use super::statement::{Entry, Predicate};
use super::{Certificate, CertificateError, PublicKey};
use crate::batch::{Batch, Group, Plan, Work};
use crate::judge::{Prepared, procedure_leaf};
use crate::suite::{self, Catalogue};
use rayon::prelude::*;
use std::collections::BTreeSet;
use vyre_generate::source::Seeded;

/// Which groups' outputs are computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// This many, drawn at random each time.
    Random(usize),
    /// Every one.
    All,
}

impl Default for Sample {
    /// Enough that a certificate with a tenth of its groups made up passes once in a hundred times.
    fn default() -> Sample {
        Sample::Random(44)
    }
}

/// Whose word a certificate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Signed by one of the trusted keys.
    Trusted,
    /// Signed by another key.
    Untrusted,
    /// Not signed.
    Unsigned,
}

/// The checks that a correct certificate passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Whose word it is.
    pub trust: Trust,
    /// Groups whose programs and inputs are this suite's.
    pub groups: usize,
    /// Of these, groups whose outputs the reference computed again.
    pub recomputed: usize,
    /// Groups of the driver contract, which have no output bytes: that they held is the signer's word.
    pub procedures: usize,
}

impl Certificate {
    /// Compares the certificate with this suite and the reference, and its key with the trusted ones.
    pub fn verify(&self, trusted: &[PublicKey], sample: Sample) -> Result<Verified, CertificateError> {
        self.verify_with(crate::cases::groups, trusted, sample)
    }

    pub(crate) fn verify_with(
        &self,
        catalogue: Catalogue,
        trusted: &[PublicKey],
        sample: Sample,
    ) -> Result<Verified, CertificateError> {
        self.check_version()?;
        let Predicate { target, groups: entries, levels, .. } = self.predicate();
        let mut groups = catalogue(target.is_driver());
        groups.retain(|group| levels.cover(group.level, group.track));
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        let names = |entry: &Entry| (entry.name.clone(), entry.level, entry.track, entry.seeded);
        let planned = groups.iter().map(|group| (group.name.clone(), group.level, group.track, group.seeded));
        if !planned.eq(entries.iter().map(names)) {
            return Err(CertificateError::inconsistent(
                "its groups are not those of this suite at the levels it claims",
            ));
        }
        let procedures = groups.iter().filter(|group| matches!(group.work, Work::Procedure(_))).count();
        let sampled = draw(&groups, sample);
        let profile = target.profile();
        let plan = self.plan(&profile);
        let checks = groups.par_iter().zip(entries).enumerate();
        checks.try_for_each(|(at, (group, entry))| check(group, entry, &plan, sampled.contains(&at)))?;
        let trust = match self.signer() {
            None => Trust::Unsigned,
            Some(key) if trusted.contains(&key) => Trust::Trusted,
            Some(_) => Trust::Untrusted,
        };
        Ok(Verified { trust, groups: groups.len(), recomputed: sampled.len(), procedures })
    }

    /// Whether what the certificate says of a group is what this suite and the reference say.
    #[cfg(feature = "cli")]
    pub(crate) fn check_group(&self, group: &Group, plan: &Plan<'_>) -> Result<(), CertificateError> {
        match self.predicate().groups.iter().find(|entry| entry.name == group.name) {
            Some(entry) => check(group, entry, plan, true),
            None => Err(CertificateError::inconsistent(&format!("it lacks the group `{}`", group.name))),
        }
    }

    /// The plan that made the run's batches.
    pub(crate) fn plan<'p>(&self, profile: &'p crate::Profile) -> Plan<'p> {
        let Predicate { target, suite, nonce, .. } = self.predicate();
        Plan::new(&target.id, profile, target.is_driver(), suite.size, &nonce.0)
    }
}

/// The groups to compute again, by their place: never a procedure, whose answer only a driver has.
fn draw(groups: &[Group], sample: Sample) -> BTreeSet<usize> {
    let is_procedure = |at: &usize| matches!(groups[*at].work, Work::Procedure(_));
    let mut places: Vec<usize> = (0..groups.len()).filter(|at| !is_procedure(at)).collect();
    let Sample::Random(count) = sample else { return places.into_iter().collect() };
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).expect("the system has random numbers");
    let mut random = Seeded::new(u64::from_le_bytes(seed));
    for at in 0..count.min(places.len()) {
        let other = at + (random.next_u64() % (places.len() - at) as u64) as usize;
        places.swap(at, other);
    }
    places.into_iter().take(count).collect()
}

/// Whether an entry is what this suite says of its group.
fn check(group: &Group, entry: &Entry, plan: &Plan<'_>, outputs: bool) -> Result<(), CertificateError> {
    let differs = |what: &str| Err(CertificateError::differs(&group.name, what));
    let batches = suite::batches(group, plan);
    if suite::content_digest(&batches).0 != entry.content.0 {
        return differs("other programs or inputs than this suite makes");
    }
    let (dispatches, cases) = match group.work {
        // A procedure counts as one.
        Work::Procedure(_) => (1, 1),
        Work::Batches(_) => {
            let steps = batches.iter().map(|batch| batch.steps.len() as u64).sum();
            (steps, batches.iter().map(Batch::cases).sum())
        }
    };
    if (dispatches, cases) != (entry.dispatches, entry.cases) {
        return differs("other counts than this suite runs");
    }
    let leaves = match group.work {
        Work::Procedure(_) => vec![procedure_leaf(&group.name)],
        Work::Batches(_) if !outputs => return Ok(()),
        Work::Batches(_) => batches.into_iter().map(|batch| Prepared::new(batch).leaf()).collect(),
    };
    match suite::merkle_root(leaves).0 == entry.root.0 {
        true => Ok(()),
        false => differs("other output bytes than the reference gives"),
    }
}
