//! Finds races, out-of-bounds accesses and reads of workgroup memory that no lane wrote.
//!
//! **When two accesses are ordered.** A clock ticks at every barrier and at the start of every workgroup's turn. All
//! lanes of a workgroup pass its barriers together, so an access needs only its lane and its time. Against an access
//! that happens now, an older one by another lane is ordered if a grid barrier came after it, or, in the same workgroup,
//! a `barrier`, or, in the same subgroup, a `subgroup_barrier`. In workgroup memory the start of the turn counts as a
//! grid barrier, because the memory is another one.
//!
//! **Why few records an element are enough.** For every kind of access the element keeps at most three records, and
//! still, whenever some earlier access of that kind races with the present one, a kept record does too. Within one grid
//! epoch a workgroup has one turn, so later accesses come from this workgroup or from workgroups that have not run yet:
//! - Of the workgroups that have run, one record is enough: each of them races with every later access.
//! - Of this workgroup, only accesses after its last barrier matter to its own lanes. If two subgroups made some, a record
//!   of each is enough, because any lane is outside one of them. If one subgroup did, accesses before its last subgroup
//!   barrier matter to other subgroups only, for which a newer record serves as well; of the newer ones, those of two lanes are
//!   enough, because any lane differs from one of them.
//! - A lane's newer access replaces its older ones: what is unordered to the old is unordered to the new.
//!
//! So every element that races in an epoch is found, with a pair of lines for each pair of kinds. Not every pair of lanes
//! is listed; equal pairs of lines are counted together.

use crate::RunError;
use crate::code::{Code, Location};
use crate::lane::Lane;
use crate::machine::place_of;
use crate::memory::Budget;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::fmt;
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{BufferId, BufferKind, Name, ProgramParts};
use vyre_foundation::text::SourceMap;

/// How many different findings of each kind are kept; those of one kind never crowd out another's.
pub const FINDINGS_MAX: usize = 1000;

/// A kind of access. Two accesses of one element by unordered lanes race unless both read, or both are result-less
/// atomics of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An atomic whose result is used, `atomic_exchange` or `atomic_compare_exchange`.
    ReadWrite,
    /// `atomic_add` or `atomic_sub` without a result.
    AddSub,
    /// `atomic_min` without a result.
    Min,
    /// `atomic_max` without a result.
    Max,
    /// `atomic_and` without a result.
    And,
    /// `atomic_or` without a result.
    Or,
    /// `atomic_xor` without a result.
    Xor,
}

impl Access {
    /// Whether two unordered accesses of one element race.
    fn races_with(self, other: Access) -> bool {
        self != other || matches!(self, Access::Write | Access::ReadWrite)
    }

    /// The access as a noun phrase.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::ReadWrite => "read and write",
            Access::AddSub => "atomic add",
            Access::Min => "atomic min",
            Access::Max => "atomic max",
            Access::And => "atomic and",
            Access::Or => "atomic or",
            Access::Xor => "atomic xor",
        }
    }
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// Two unordered accesses of one element by different lanes, at least one of which writes.
    Race,
    /// An access beyond the last element. It is defined, but rarely intended.
    OutOfBounds {
        /// How many elements there are.
        len: u32,
    },
    /// A load from workgroup memory that no lane has written. It reads 0.
    UnwrittenRead,
}

/// Where an access goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To a buffer or table.
    Buffer {
        /// Which one.
        id: BufferId,
        /// Its name without the `@`.
        name: Name,
    },
    /// To a private array.
    PrivateArray,
}

/// One of the accesses of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// The line.
    pub location: Location,
    /// The lane, by `global_id`.
    pub lane: [u32; 3],
    /// Its access.
    pub access: Access,
}

/// Something the check found. The parties and the index are those of the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The accessed memory.
    pub target: Target,
    /// Which element.
    pub index: u64,
    /// The lane that accessed it.
    pub first: Party,
    /// The other lane, for a race.
    pub second: Option<Party>,
    /// How often the same lines did the same.
    pub count: u64,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.lane;
        write!(f, "{} at {} by lane ({x}, {y}, {z})", self.access.name(), self.location)
    }
}

impl Finding {
    /// The finding in one line, without lanes and places.
    pub fn headline(&self) -> String {
        let element = match &self.target {
            Target::Buffer { name, .. } => format!("`@{name}[{}]`", self.index),
            Target::PrivateArray => format!("element {} of a private array", self.index),
        };
        let what = match self.kind {
            FindingKind::Race => format!("race on {element}: two accesses that nothing orders"),
            FindingKind::OutOfBounds { len } => format!("out of bounds: {element}, where {len} elements are"),
            FindingKind::UnwrittenRead => format!("unwritten: {element} is 0 because no lane wrote it"),
        };
        if self.count > 1 { format!("{what} ({} times)", self.count) } else { what }
    }

    /// What the reader can do about it.
    pub const fn fix(&self) -> &'static str {
        match self.kind {
            FindingKind::Race => {
                "put a barrier between the two, let one lane own the element, or use atomics without results"
            }
            FindingKind::OutOfBounds { .. } => "compare the index with the length first",
            FindingKind::UnwrittenRead => "store to the element first, and put a barrier between",
        }
    }

    /// The finding with the lines of `source`, which `map` belongs to.
    pub fn render(&self, file_name: &str, source: &str, map: &SourceMap) -> String {
        let line = |place: Place| map.span(place).map_or(0, |span| span.line);
        let mut text = self.headline();
        for party in std::iter::once(&self.first).chain(&self.second) {
            let number = line(party.location.line);
            let [x, y, z] = party.lane;
            text += &format!("\n  {file_name}:{number}: {} by lane ({x}, {y}, {z})", party.access.name());
            for call in party.location.calls.iter().rev() {
                text += &format!(", called at line {}", line(*call));
            }
            let shown = source.lines().nth((number as usize).wrapping_sub(1)).unwrap_or_default();
            text += &format!("\n    | {}", shown.trim());
        }
        text + "\n  Fix: " + self.fix()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.headline(), self.first)?;
        self.second.iter().try_for_each(|second| write!(f, ", and {second}"))?;
        write!(f, "\n  Fix: {}", self.fix())
    }
}

/// An access that is kept.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// The lane's number, workgroup after workgroup.
    lane: u32,
    pc: u32,
    time: u64,
    access: Access,
}

/// The accesses that an element keeps.
type Records = SmallVec<[Record; 1]>;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    kind: u8,
    pcs: [u32; 2],
}

/// A finding before its lines are looked up.
struct Found {
    kind: FindingKind,
    buffer: Option<usize>,
    index: u64,
    first: Record,
    second: Option<Record>,
    count: u64,
}

/// The records of a buffer.
struct Watched {
    len: u32,
    is_workgroup: bool,
    /// By element; empty for buffers without writes.
    records: Vec<Records>,
}

/// Watches the accesses of a run.
pub(crate) struct Checker {
    parts_workgroup: [u32; 3],
    grid: [u32; 3],
    names: Vec<Name>,
    buffers: Vec<Watched>,
    /// By workgroup buffer: which elements this workgroup wrote.
    written: Vec<Vec<bool>>,
    /// A workgroup buffer's place in `written`, by buffer.
    written_at: Vec<usize>,
    order: Order,
    found: Vec<Found>,
    found_at: FxHashMap<Key, usize>,
    /// How many are kept, by kind.
    kept: [usize; 3],
}

/// The clock, and when the last barriers were.
#[derive(Clone, Copy)]
struct Order {
    group_lanes: u32,
    subgroup_width: u32,
    now: u64,
    grid_start: u64,
    group_start: u64,
    subgroup_start: u64,
}

impl Order {
    fn group(&self, record: &Record) -> u32 {
        record.lane / self.group_lanes
    }

    fn subgroup(&self, record: &Record) -> u32 {
        // The width divides the workgroup size, so subgroups count through the grid.
        record.lane / self.subgroup_width
    }

    /// Whether nothing orders an older access before the present one.
    fn unordered(&self, old: &Record, new: &Record, horizon: u64) -> bool {
        if old.lane == new.lane || old.time < horizon {
            return false;
        }
        let same_group = self.group(old) == self.group(new);
        let same_subgroup = self.subgroup(old) == self.subgroup(new);
        let ordered =
            (same_group && old.time < self.group_start) || (same_subgroup && old.time < self.subgroup_start);
        !ordered
    }
}

impl Checker {
    pub(crate) fn new(
        parts: &ProgramParts,
        lens: &[u32],
        grid: [u32; 3],
        budget: &mut Budget,
    ) -> Result<Checker, RunError> {
        let mut buffers = Vec::new();
        let mut written = Vec::new();
        let mut written_at = Vec::new();
        for (buffer, len) in parts.buffers.iter().zip(lens) {
            let is_workgroup = matches!(buffer.kind, BufferKind::Workgroup);
            let records = budget.filled(if buffer.is_writable() { *len as usize } else { 0 })?;
            buffers.push(Watched { len: *len, is_workgroup, records });
            written_at.push(written.len());
            if is_workgroup {
                written.push(budget.filled(*len as usize)?);
            }
        }
        let group_lanes = parts.workgroup_lanes() as u32;
        Ok(Checker {
            parts_workgroup: parts.workgroup,
            grid,
            names: parts.buffers.iter().map(|buffer| buffer.name.clone()).collect(),
            buffers,
            written,
            written_at,
            order: Order {
                group_lanes,
                subgroup_width: parts.subgroup.unwrap_or(group_lanes),
                now: 0,
                grid_start: 0,
                group_start: 0,
                subgroup_start: 0,
            },
            found: Vec::new(),
            found_at: FxHashMap::default(),
            kept: [0; 3],
        })
    }

    /// A workgroup's turn starts.
    pub(crate) fn begin_group(&mut self) {
        self.barrier();
    }

    /// New workgroup memory: nothing is written.
    pub(crate) fn forget_workgroup(&mut self) {
        self.written.iter_mut().for_each(|written| written.fill(false));
    }

    /// Exchanges what is written with what another workgroup keeps.
    pub(crate) fn swap_written(&mut self, kept: &mut [Vec<bool>]) {
        self.written.iter_mut().zip(kept).for_each(|(written, kept)| std::mem::swap(written, kept));
    }

    pub(crate) fn grid_barrier(&mut self) {
        self.barrier();
        self.order.grid_start = self.order.now;
    }

    pub(crate) fn barrier(&mut self) {
        self.subgroup_barrier();
        self.order.group_start = self.order.now;
    }

    pub(crate) fn subgroup_barrier(&mut self) {
        self.order.now += 1;
        self.order.subgroup_start = self.order.now;
    }

    /// An access of an element, which may be out of bounds.
    pub(crate) fn access(&mut self, pc: u32, lane: &Lane, buffer: usize, index: u64, access: Access) {
        let order = self.order;
        let lane = lane.group_index * order.group_lanes + lane.local_index;
        let new = Record { lane, pc, time: order.now, access };
        let watched = &mut self.buffers[buffer];
        if index >= u64::from(watched.len) {
            let kind = FindingKind::OutOfBounds { len: watched.len };
            return self.add(Found { kind, buffer: Some(buffer), index, first: new, second: None, count: 1 });
        }
        let unwritten = watched.is_workgroup && {
            let written = &mut self.written[self.written_at[buffer]][index as usize];
            // An atomic on fresh memory is how counters start, so only loads are reported.
            let unwritten = access == Access::Read && !*written;
            *written |= access != Access::Read;
            unwritten
        };
        let horizon = if watched.is_workgroup { order.group_start } else { order.grid_start };
        let mut rivals: SmallVec<[Record; 2]> = SmallVec::new();
        if let Some(records) = watched.records.get_mut(index as usize) {
            let races = |old: &&Record| old.access.races_with(access) && order.unordered(old, &new, horizon);
            rivals.extend(records.iter().filter(races).copied());
            keep(records, new, &order, horizon);
        }
        for old in rivals {
            let kind = FindingKind::Race;
            self.add(Found { kind, buffer: Some(buffer), index, first: old, second: Some(new), count: 1 });
        }
        if unwritten {
            let kind = FindingKind::UnwrittenRead;
            self.add(Found { kind, buffer: Some(buffer), index, first: new, second: None, count: 1 });
        }
    }

    /// An access beyond the end of a private array.
    pub(crate) fn out_of_array(&mut self, pc: u32, lane: &Lane, index: u64, len: u32, access: Access) {
        let lane = lane.group_index * self.order.group_lanes + lane.local_index;
        let first = Record { lane, pc, time: self.order.now, access };
        let kind = FindingKind::OutOfBounds { len };
        self.add(Found { kind, buffer: None, index, first, second: None, count: 1 });
    }

    fn add(&mut self, mut found: Found) {
        if let Some(second) = &mut found.second
            && (second.pc, second.lane) < (found.first.pc, found.first.lane)
        {
            std::mem::swap(second, &mut found.first);
        }
        let kind = match found.kind {
            FindingKind::Race => 0,
            FindingKind::OutOfBounds { .. } => 1,
            FindingKind::UnwrittenRead => 2,
        };
        let key = Key { kind, pcs: [found.first.pc, found.second.map_or(u32::MAX, |second| second.pc)] };
        match self.found_at.get(&key) {
            Some(at) => self.found[*at].count += 1,
            None if self.kept[usize::from(kind)] == FINDINGS_MAX => {}
            None => {
                self.kept[usize::from(kind)] += 1;
                self.found_at.insert(key, self.found.len());
                self.found.push(found);
            }
        }
    }

    /// The findings with their lines.
    pub(crate) fn finish(self, code: &Code) -> Vec<Finding> {
        let party = |record: &Record| {
            let (group, local) = (record.lane / self.order.group_lanes, record.lane % self.order.group_lanes);
            let (group, local) = (place_of(group, self.grid), place_of(local, self.parts_workgroup));
            let lane = [0, 1, 2].map(|axis| group[axis] * self.parts_workgroup[axis] + local[axis]);
            Party { location: code.location(record.pc), lane, access: record.access }
        };
        let target =
            |buffer: usize| Target::Buffer { id: BufferId(buffer as u32), name: self.names[buffer].clone() };
        let finding = |found: &Found| Finding {
            kind: found.kind,
            target: found.buffer.map_or(Target::PrivateArray, target),
            index: found.index,
            first: party(&found.first),
            second: found.second.as_ref().map(party),
            count: found.count,
        };
        self.found.iter().map(finding).collect()
    }
}

/// Adds an access to what an element keeps, and drops what it makes needless; the module says why that is enough.
fn keep(records: &mut Records, new: Record, order: &Order, horizon: u64) {
    if let [only] = records.as_mut_slice()
        && (only.lane, only.access) == (new.lane, new.access)
    {
        *only = new;
        return;
    }
    let outside = |old: &Record| order.group(old) != order.group(&new);
    let partner = records
        .iter()
        .filter(|old| old.access == new.access && !outside(old) && order.unordered(old, &new, horizon))
        .max_by_key(|old| order.subgroup(old) != order.subgroup(&new))
        .map(|old| (old.lane, old.time));
    let mut has_outside = false;
    records.retain(|old| {
        if old.time < horizon {
            return false;
        }
        if old.access != new.access {
            return true;
        }
        if outside(old) {
            return !std::mem::replace(&mut has_outside, true);
        }
        partner == Some((old.lane, old.time))
    });
    records.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use vyre_foundation::ir::{Buffer, DataType};

    const LANES: u32 = 6;
    const WIDTH: u32 = 2;
    const GROUPS: u32 = 3;
    const ELEMENTS: u32 = 2;

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 33) % u64::from(bound)) as u32
        }
    }

    /// An access with all that the rule speaks of, kept for ever.
    #[derive(Clone, Copy)]
    struct Naive {
        access: Access,
        element: u32,
        group: u32,
        lane: u32,
        grid_epoch: u32,
        group_epoch: u32,
        subgroup_epoch: u32,
    }

    fn races(a: &Naive, b: &Naive, workgroup_memory: bool) -> bool {
        let same_group = a.group == b.group;
        let same_subgroup = same_group && a.lane / WIDTH == b.lane / WIDTH;
        let ordered = a.grid_epoch != b.grid_epoch
            || (same_group && a.group_epoch != b.group_epoch)
            || (same_subgroup && a.subgroup_epoch != b.subgroup_epoch)
            || (same_group && a.lane == b.lane);
        let one_kind = a.access == b.access && !matches!(a.access, Access::Write | Access::ReadWrite);
        let same_memory = same_group || !workgroup_memory;
        same_memory && a.element == b.element && !ordered && !one_kind
    }

    /// Random accesses between random barriers: the checker speaks up exactly when the rule, applied to all earlier
    /// accesses, finds a race.
    fn compare(seed: u64, ways: &[Access], workgroup_memory: bool) -> (u32, u32) {
        let mut random = Random(seed);
        let mut parts = ProgramParts::new("p", [LANES, 1, 1]);
        parts.subgroup = Some(WIDTH);
        let kind = if workgroup_memory {
            BufferKind::Workgroup
        } else {
            BufferKind::ReadWrite { binding: 0, output: true }
        };
        parts.buffers = vec![Buffer { name: "b".into(), kind, ty: DataType::U32, len: Some(ELEMENTS) }];
        let mut budget = Budget::new(1 << 20);
        let mut checker = Checker::new(&parts, &[ELEMENTS], [GROUPS, 1, 1], &mut budget).unwrap();
        let mut all: Vec<Naive> = Vec::new();
        let (mut loud, mut quiet) = (0, 0);
        let mut epoch = 0;
        for grid_epoch in 0..2 {
            for group in 0..GROUPS {
                checker.begin_group();
                epoch += 1;
                let (mut group_epoch, mut subgroup_epoch) = (epoch, epoch);
                for _ in 0..4 {
                    for lane in 0..LANES {
                        for _ in 0..random.below(2) {
                            let access = ways[random.below(ways.len() as u32) as usize];
                            let element = random.below(ELEMENTS);
                            let new = Naive {
                                access,
                                element,
                                group,
                                lane,
                                grid_epoch,
                                group_epoch,
                                subgroup_epoch,
                            };
                            let expected = all.iter().any(|old| races(old, &new, workgroup_memory));
                            let who = Lane {
                                local: [lane, 0, 0],
                                local_index: lane,
                                group: [group, 0, 0],
                                group_index: group,
                                global: [group * LANES + lane, 0, 0],
                            };
                            let before: u64 = count(&checker);
                            checker.access(all.len() as u32, &who, 0, element.into(), access);
                            assert_eq!(
                                count(&checker) > before,
                                expected,
                                "seed {seed}, access {}",
                                all.len()
                            );
                            if expected {
                                loud += 1
                            } else {
                                quiet += 1
                            }
                            all.push(new);
                        }
                    }
                    epoch += 1;
                    match random.below(3) {
                        0 => {
                            checker.barrier();
                            (group_epoch, subgroup_epoch) = (epoch, epoch);
                        }
                        1 => {
                            checker.subgroup_barrier();
                            subgroup_epoch = epoch;
                        }
                        _ => {}
                    }
                }
            }
            checker.grid_barrier();
        }
        (loud, quiet)
    }

    fn count(checker: &Checker) -> u64 {
        checker.found.iter().filter(|found| found.kind == FindingKind::Race).map(|found| found.count).sum()
    }

    #[test]
    fn few_records_find_what_all_would() {
        let mixes: [&[Access]; 4] = [
            &[Access::Read, Access::Read, Access::Read, Access::Write],
            &[Access::AddSub, Access::AddSub, Access::AddSub, Access::Min, Access::Read],
            &[Access::Read, Access::Write, Access::ReadWrite, Access::AddSub, Access::Xor, Access::Or],
            &[Access::AddSub],
        ];
        let (mut loud, mut quiet) = (0, 0);
        for seed in 0..400 {
            for (at, ways) in mixes.iter().enumerate() {
                for workgroup_memory in [false, true] {
                    let counts = compare(seed * 31 + at as u64, ways, workgroup_memory);
                    loud += counts.0;
                    quiet += counts.1;
                }
            }
        }
        assert!(loud > 1000 && quiet > 1000, "the mix is one-sided: {loud} races, {quiet} without");
    }
}
