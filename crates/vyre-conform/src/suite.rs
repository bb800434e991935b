//! Runs the suite: chooses groups, shuffles them, runs the reference and the target, and collects differences.

use crate::batch::{Batch, Group, Level, Plan, Track, Work};
use crate::cases;
use crate::certificate::Certificate;
use crate::contract::VyreBackend;
use crate::diagnose::{self, Effort};
use crate::failure::{Cause, ParityFailure};
use crate::judge::{self, Miss, Prepared};
use crate::report::{GroupReport, Report};
use crate::target::{DriverTarget, Target, VendorTarget};
use crate::time::utc;
use rayon::prelude::*;
use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime};
use vyre_driver::{CancelToken, VyreBackend as DriverBackend};
use vyre_foundation::ir::Digest;
use vyre_generate::source::Seeded;

/// How much a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Seconds on the reference: enough to catch every wrong backend we know of.
    Quick,
    /// All of it.
    Full,
}

impl Size {
    /// Both.
    pub const ALL: [Size; 2] = [Size::Quick, Size::Full];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Size::Quick => "quick",
            Size::Full => "full",
        }
    }
}

/// The progress of a run.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Groups done, those of an earlier run included.
    pub groups_done: usize,
    /// Groups in all.
    pub groups: usize,
    /// Cases run so far.
    pub cases: u64,
    /// Batches that failed so far.
    pub failed: u64,
    /// The group that just ended.
    pub last: &'a GroupReport,
}

type Watch<'a> = Box<dyn Fn(&Progress<'_>) + 'a>;

/// Where groups come from, for drivers and for others.
pub(crate) type Catalogue = fn(bool) -> Vec<Group>;

/// Which cases are asked for by a name: a group's or a batch's or the start of one, or a case's.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    name: String,
    /// The number after the batch's name; one that cannot be a case's selects nothing.
    pub(crate) element: Option<u64>,
}

impl Filter {
    pub(crate) fn new(name: &str) -> Filter {
        let (name, number) = name.split_once('#').map_or((name, None), |(name, number)| (name, Some(number)));
        Filter { name: name.into(), element: number.map(|number| number.parse().unwrap_or(u64::MAX)) }
    }

    /// Whether a group may have what is asked for.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        let inside = |name: &str| name.strip_prefix(group).is_some_and(|rest| rest.starts_with(':'));
        group.starts_with(&self.name) || inside(&self.name)
    }

    pub(crate) fn has_batch(&self, batch: &Batch) -> bool {
        match self.element {
            None => batch.name.starts_with(&self.name),
            Some(number) => batch.name == self.name && number < batch.cases(),
        }
    }
}

/// The suite, and how to run it.
///
/// ```no_run
/// # fn backend() -> impl vyre_conform::VyreBackend { vyre_conform::ReferenceBackend::default() }
/// use vyre_conform::ConformanceSuite;
///
/// let failures = ConformanceSuite::new().run(&backend());
/// failures.iter().for_each(|failure| println!("{failure}"));
/// ```
pub struct ConformanceSuite<'a> {
    size: Size,
    level: Level,
    track: Option<Track>,
    filter: Option<Filter>,
    shard: Option<(u32, u32)>,
    nonce: Option<[u8; 32]>,
    first_failure: bool,
    recorded: Vec<GroupReport>,
    watch: Option<Watch<'a>>,
    cancel: CancelToken,
    program: Option<String>,
    catalogue: Catalogue,
}

impl Default for ConformanceSuite<'_> {
    fn default() -> Self {
        ConformanceSuite {
            size: Size::Full,
            level: Level::Math,
            track: None,
            filter: None,
            shard: None,
            nonce: None,
            first_failure: false,
            recorded: Vec::new(),
            watch: None,
            cancel: CancelToken::new(),
            program: None,
            catalogue: cases::groups,
        }
    }
}

/// Failures of one group that are reduced and explained; the others are counted.
const EXPLAINED_PER_GROUP: usize = 1;
/// Failures of a run that are reduced: reducing runs the backend hundreds of times.
const REDUCED_MAX: usize = 12;
/// After this much time spent on explanations, further failures are only reported; replaying one explains it.
const EXPLAIN_TIME_MAX: Duration = Duration::from_secs(30);
/// Groups whose expected bytes are computed at once, on all cores.
const CHUNK: usize = 16;

impl<'a> ConformanceSuite<'a> {
    /// The full suite.
    pub fn new() -> Self {
        Self::default()
    }

    /// The quick suite.
    pub fn quick() -> Self {
        ConformanceSuite { size: Size::Quick, ..Self::default() }
    }

    /// Runs no level above this one.
    pub fn up_to(self, level: Level) -> Self {
        ConformanceSuite { level, ..self }
    }

    /// Runs only this track.
    pub fn only(self, track: Track) -> Self {
        ConformanceSuite { track: Some(track), ..self }
    }

    /// Runs only batches whose name starts like this, or the one that has the case of this name (`#` and a number).
    pub fn matching(self, name: &str) -> Self {
        ConformanceSuite { filter: Some(Filter::new(name)), ..self }
    }

    /// Runs the groups of shard `index` out of `count`. All shards of a run need the same nonce.
    pub fn shard(self, index: u32, count: u32) -> Self {
        ConformanceSuite { shard: Some((index, count.max(1))), ..self }
    }

    /// Seeds the run with this instead of a number that is drawn when it starts.
    pub fn nonce(self, nonce: [u8; 32]) -> Self {
        ConformanceSuite { nonce: Some(nonce), ..self }
    }

    /// Ends the run at its first failure.
    pub fn stop_at_first_failure(self) -> Self {
        ConformanceSuite { first_failure: true, ..self }
    }

    /// Takes groups that an earlier run with the same nonce recorded as passed, and does not run them again.
    pub fn recorded(self, groups: Vec<GroupReport>) -> Self {
        ConformanceSuite { recorded: groups, ..self }
    }

    /// Calls `watch` after each group.
    pub fn watch(self, watch: impl Fn(&Progress<'_>) + 'a) -> Self {
        ConformanceSuite { watch: Some(Box::new(watch)), ..self }
    }

    /// Ends the run, between two dispatches, when the token is cancelled.
    pub fn cancelled_by(self, cancel: CancelToken) -> Self {
        ConformanceSuite { cancel, ..self }
    }

    /// The name of the program that runs this, for the command that replays a failure. That
    /// program has the command `certify`.
    pub fn program(self, name: &str) -> Self {
        ConformanceSuite { program: Some(name.into()), ..self }
    }

    /// Takes groups from this catalogue.
    #[cfg(test)]
    pub(crate) fn catalogue(self, catalogue: Catalogue) -> Self {
        ConformanceSuite { catalogue, ..self }
    }

    /// Runs a vendor's backend. An empty list means that it conforms.
    pub fn run(&self, backend: &dyn VyreBackend) -> Vec<ParityFailure> {
        self.report(backend).failures
    }

    /// Runs a vendor's backend, and returns the whole report.
    pub fn report(&self, backend: &dyn VyreBackend) -> Report {
        self.run_target(&VendorTarget::new(backend))
    }

    /// Runs a driver, and returns the whole report.
    pub fn run_driver(&self, backend: &dyn DriverBackend) -> Report {
        self.run_target(&DriverTarget::new(backend))
    }

    /// Runs a vendor's backend, and certifies it if nothing fails.
    ///
    /// ```no_run
    /// # fn backend() -> impl vyre_conform::VyreBackend { vyre_conform::ReferenceBackend::default() }
    /// use vyre_conform::{ConformanceSuite, SecretKey};
    ///
    /// # fn certify() -> Result<(), Box<dyn std::error::Error>> {
    /// let key = SecretKey::from_pem(&std::fs::read_to_string("key.pem")?)?;
    /// match ConformanceSuite::new().certify(&backend()) {
    ///     Ok(certificate) => std::fs::write("backend.json", certificate.sign(&key).to_json())?,
    ///     Err(failures) => failures.iter().for_each(|failure| eprintln!("{failure}")),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn certify(&self, backend: &dyn VyreBackend) -> Result<Certificate, Vec<ParityFailure>> {
        self.report(backend).certificate()
    }

    pub(crate) fn run_target(&self, target: &dyn Target) -> Report {
        let (start, started) = (Instant::now(), utc(SystemTime::now()));
        let nonce = self.nonce.unwrap_or_else(draw_nonce);
        let plan = Plan::new(target.name(), target.profile(), target.driver().is_some(), self.size, &nonce);
        let all = (self.catalogue)(plan.driver);
        let planned = all.iter().map(|group| (group.name.clone(), group.level, group.track)).collect();
        let (chosen, recorded) = self.choose(all, &plan);
        let mut run = Run::new(self, target, &plan, &nonce, chosen.len() + recorded.len());
        run.groups = recorded;
        run.floor();
        run.all(&chosen);
        let Run { mut groups, failures, .. } = run;
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        let unrun = unrun(chosen.into_iter().map(|group| group.name), &groups);
        let coverage = match groups.iter().any(|group| cases::is_random(&group.name)) {
            true => cases::coverage(&plan),
            false => String::new(),
        };
        Report {
            backend: target.name().into(),
            profile: target.profile().clone(),
            driver: plan.driver,
            size: self.size,
            level: self.level,
            track: self.track,
            nonce,
            planned,
            groups,
            failures,
            coverage,
            complete: unrun.is_empty() && self.filter.is_none() && self.shard.is_none(),
            unrun,
            started,
            elapsed: start.elapsed(),
        }
    }

    /// Runs groups that were prepared before, in their order: what tests of many targets share.
    #[cfg(test)]
    pub(crate) fn run_prepared(
        &self,
        target: &dyn Target,
        nonce: &[u8; 32],
        groups: &[(Group, Vec<Prepared>)],
    ) -> Vec<ParityFailure> {
        let plan = Plan::new(target.name(), target.profile(), target.driver().is_some(), self.size, nonce);
        let mut run = Run::new(self, target, &plan, nonce, groups.len());
        run.floor();
        for (group, prepared) in groups {
            if run.over() {
                break;
            }
            run.group(group, prepared);
        }
        run.failures
    }

    /// The groups to run, shuffled, and those already recorded.
    pub(crate) fn choose(&self, all: Vec<Group>, plan: &Plan<'_>) -> (Vec<Group>, Vec<GroupReport>) {
        let wanted = |name: &str, level: Level, track: Track| {
            let shard = self.shard.is_none_or(|(index, count)| shard_of(name, count) == index);
            let named = self.filter.as_ref().is_none_or(|filter| filter.has_group(name));
            level <= self.level && self.track.is_none_or(|only| only == track) && shard && named
        };
        let passed =
            |group: &&GroupReport| group.failed == 0 && wanted(&group.name, group.level, group.track);
        let recorded: Vec<GroupReport> = self.recorded.iter().filter(passed).cloned().collect();
        let done: HashSet<&str> = recorded.iter().map(|group| group.name.as_str()).collect();
        let mut groups: Vec<Group> = all
            .into_iter()
            .filter(|group| {
                wanted(&group.name, group.level, group.track) && !done.contains(group.name.as_str())
            })
            .collect();
        let mut random = Seeded::new(plan.seed("order"));
        for at in (1..groups.len()).rev() {
            groups.swap(at, (random.next_u64() % (at as u64 + 1)) as usize);
        }
        (groups, recorded)
    }
}

/// Which of `count` shards a group belongs to.
fn shard_of(name: &str, count: u32) -> u32 {
    let hash = blake3::hash(name.as_bytes());
    u32::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes")) % count
}

pub(crate) fn draw_nonce() -> [u8; 32] {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).expect("the system has random numbers");
    nonce
}

/// The names that no report has, in order; reports are sorted by name.
pub(crate) fn unrun(names: impl Iterator<Item = String>, reports: &[GroupReport]) -> Vec<String> {
    let ran = |name: &String| reports.binary_search_by(|group| group.name.cmp(name)).is_ok();
    let mut unrun: Vec<String> = names.filter(|name| !ran(name)).collect();
    unrun.sort_unstable();
    unrun
}

/// A run in progress.
struct Run<'r, 's> {
    suite: &'r ConformanceSuite<'s>,
    target: &'r dyn Target,
    plan: &'r Plan<'r>,
    nonce: &'r [u8; 32],
    total: usize,
    groups: Vec<GroupReport>,
    failures: Vec<ParityFailure>,
    /// Time spent on explaining failures.
    explaining: Duration,
}

impl<'r, 's> Run<'r, 's> {
    fn new(
        suite: &'r ConformanceSuite<'s>,
        target: &'r dyn Target,
        plan: &'r Plan<'r>,
        nonce: &'r [u8; 32],
        total: usize,
    ) -> Run<'r, 's> {
        let (groups, failures) = (Vec::new(), Vec::new());
        Run { suite, target, plan, nonce, total, groups, failures, explaining: Duration::ZERO }
    }

    /// A limit below the floor fails by itself, before anything runs.
    fn floor(&mut self) {
        for message in self.target.profile().below_floor() {
            self.fail("limits/floor", (Level::Ops, Track::Integer), Cause::BelowFloor, message);
        }
    }

    /// Records a failure that no program shows.
    fn fail(&mut self, case: &str, place: (Level, Track), cause: Cause, message: String) {
        let again = self.again(case, false);
        self.failures.push(ParityFailure::without_program(case, place, cause, message, again));
    }

    /// How to run just one case again: the command of the program that runs this, or else the call.
    fn again(&self, case: &str, seeded: bool) -> String {
        let ConformanceSuite { program, size, .. } = self.suite;
        let driver = self.target.driver().is_some();
        match program {
            Some(program) => {
                let backend =
                    if driver { format!(" --backend {}", self.target.name()) } else { String::new() };
                let quick = if *size == Size::Quick { " --quick" } else { "" };
                let nonce = if seeded { format!(" --nonce {}", Digest(*self.nonce)) } else { String::new() };
                format!("{program} certify{backend}{quick} --case '{case}'{nonce}")
            }
            None => {
                let suite = if *size == Size::Quick { "quick" } else { "new" };
                let nonce = if seeded { format!(".nonce({:?})", self.nonce) } else { String::new() };
                let run = if driver { "run_driver" } else { "run" };
                format!("ConformanceSuite::{suite}().matching({case:?}){nonce}.{run}(&backend)")
            }
        }
    }

    fn all(&mut self, groups: &[Group]) {
        let (plan, cancel, filter) = (self.plan, &self.suite.cancel, self.suite.filter.as_ref());
        for chunk in groups.chunks(CHUNK) {
            // A cancelled run does not wait for what it will not use.
            let prepare = |group| match cancel.is_cancelled() {
                true => Vec::new(),
                false => prepare(group, plan, filter),
            };
            let prepared: Vec<Vec<Prepared>> = chunk.par_iter().map(prepare).collect();
            for (group, prepared) in chunk.iter().zip(&prepared) {
                if self.over() {
                    return;
                }
                if let Some(report) = self.group(group, prepared) {
                    self.groups.push(report);
                    self.tell();
                }
            }
        }
    }

    fn over(&self) -> bool {
        self.suite.cancel.is_cancelled() || self.suite.first_failure && !self.failures.is_empty()
    }

    fn tell(&self) {
        let Some(watch) = &self.suite.watch else { return };
        let last = self.groups.last().expect("a group just ended");
        watch(&Progress {
            groups_done: self.groups.len(),
            groups: self.total,
            cases: self.groups.iter().map(|group| group.cases).sum(),
            failed: self.groups.iter().map(|group| group.failed).sum(),
            last,
        });
    }

    /// Runs one group; `None` if the run was cancelled in it.
    fn group(&mut self, group: &Group, prepared: &[Prepared]) -> Option<GroupReport> {
        let mut report = GroupReport {
            name: group.name.clone(),
            level: group.level,
            track: group.track,
            seeded: group.seeded,
            dispatches: 0,
            cases: 0,
            failed: 0,
            content: content_digest(prepared.iter().map(|prepared| &prepared.batch)),
            root: Digest([0; 32]),
        };
        let mut leaves = Vec::with_capacity(prepared.len());
        if let Work::Procedure(_) = group.work {
            leaves.extend(self.procedure(group, &mut report));
        }
        for prepared in prepared {
            if self.over() {
                return (!self.suite.cancel.is_cancelled()).then_some(report);
            }
            report.dispatches += prepared.batch.steps.len() as u64;
            report.cases += prepared.batch.cases();
            match judge::run(self.target, prepared) {
                Ok(leaf) => leaves.push(leaf),
                Err(miss) => {
                    report.failed += 1;
                    if report.failed as usize <= EXPLAINED_PER_GROUP {
                        self.explain(group, prepared, miss);
                    }
                }
            }
        }
        report.root = merkle_root(leaves);
        Some(report)
    }

    /// Records a failure, explained as well as the time for that allows.
    fn explain(&mut self, group: &Group, prepared: &Prepared, miss: Miss) {
        let effort = match self.failures.len() {
            _ if self.explaining >= EXPLAIN_TIME_MAX => Effort::Tell,
            ..REDUCED_MAX => Effort::Reduce,
            REDUCED_MAX.. => Effort::Explain,
        };
        let again = self.again(&prepared.batch.name, group.seeded);
        let start = Instant::now();
        self.failures.push(diagnose::explain(
            self.target,
            (group.level, group.track),
            prepared,
            miss,
            effort,
            again,
        ));
        self.explaining += start.elapsed();
    }

    /// Runs a procedure on the driver, and gives its leaf if it holds.
    fn procedure(&mut self, group: &Group, report: &mut GroupReport) -> Option<Digest> {
        let (Work::Procedure(procedure), Some(driver)) = (&group.work, self.target.driver()) else {
            return None;
        };
        report.dispatches = 1;
        report.cases = 1;
        match crate::target::guarded_procedure(|| procedure(driver, self.plan)) {
            Ok(()) => Some(judge::procedure_leaf(&group.name)),
            Err(problem) => {
                report.failed = 1;
                self.fail(&group.name, (group.level, group.track), problem.cause, problem.message);
                None
            }
        }
    }
}

/// A group's batches that are asked for, with what the reference says.
pub(crate) fn prepare(group: &Group, plan: &Plan<'_>, filter: Option<&Filter>) -> Vec<Prepared> {
    let named = |batch: &Batch| filter.is_none_or(|filter| filter.has_batch(batch));
    batches(group, plan).into_iter().filter(named).map(Prepared::new).collect()
}

/// A group's batches, those beyond the target's limits left out.
pub(crate) fn batches(group: &Group, plan: &Plan<'_>) -> Vec<Batch> {
    match &group.work {
        Work::Procedure(_) => Vec::new(),
        Work::Batches(make) => make(plan).into_iter().filter(|batch| batch.within(plan.profile)).collect(),
    }
}

/// Over the batches' content digests and names.
pub(crate) fn content_digest<'b>(batches: impl IntoIterator<Item = &'b Batch>) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("vyre conformance group v1");
    for batch in batches {
        hasher.update(batch.name.as_bytes()).update(&[0]).update(&batch.digest().0);
    }
    Digest(*hasher.finalize().as_bytes())
}

/// The root of a binary tree over the leaves in order; an odd one moves up as it is.
pub(crate) fn merkle_root(mut nodes: Vec<Digest>) -> Digest {
    while nodes.len() > 1 {
        nodes = nodes
            .chunks(2)
            .map(|pair| match pair {
                [left, right] => {
                    let mut hasher = blake3::Hasher::new_derive_key("vyre conformance node v1");
                    Digest(*hasher.update(&left.0).update(&right.0).finalize().as_bytes())
                }
                _ => pair[0],
            })
            .collect();
    }
    nodes.pop().unwrap_or(Digest([0; 32]))
}
