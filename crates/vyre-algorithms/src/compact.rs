//! Stream compaction: moves the elements that a flag keeps together, in their order.
//!
//! Each tile of 4096 elements counts what it keeps, the counts are scanned, and each workgroup moves its tile's elements to
//! their places.

use crate::plan::{Plan, Role, count, grid};
use crate::programs::{ROW, built, four, row_start};
use crate::reduce::TILE;
use crate::scan::Scan;
use vyre_driver::BackendError;
use vyre_foundation::ir::Program;
use vyre_foundation::ir::builder::{Number, Val};

/// Bit 0 of each byte that is not zero.
fn nonzero(word: Val<'_, u32>) -> Val<'_, u32> {
    let nibbles = word | (word >> 4);
    let pairs = nibbles | (nibbles >> 2);
    (pairs | (pairs >> 1)) & 0x0101_0101
}

/// How many elements each tile keeps.
fn counts() -> Program {
    built("compact_counts", [256, 1, 1], |k| {
        k.subgroup(32);
        let keep = k.read::<u8>("keep", 0);
        let counts = k.read_write::<u32>("counts", 1).output();
        let parts = k.workgroup::<u32>("parts", 8);

        let group = k.workgroup_index();
        let base = group * TILE + k.local_index() * 4;
        // Four flags a word; beyond the end they are 0.
        let rows = (0..4).map(|row| nonzero(keep.word_at(base + row * 1024)).popcount());
        let own = rows.reduce(|a, b| a + b).expect("there are four");
        let part = own.subgroup_reduce_add();
        k.if_(k.subgroup_lane().eq(0), || parts.put(k.subgroup_index(), part));
        k.barrier();
        k.if_(k.local_index().eq(0), || {
            let sum = (0..8).map(|part| parts.at(part)).reduce(|a, b| a + b);
            counts.put(group, sum.expect("there are eight"));
        });
    })
}

/// Moves what is kept. A subgroup has 512 elements as four rows of 128, a lane four of each row: the four counts of a lane
/// fit a word, so one scan serves all rows.
fn moves<T: Number>() -> Program {
    built(&format!("compact_{}", T::TYPE), [256, 1, 1], |k| {
        k.subgroup(32);
        let keep = k.read::<u8>("keep", 0);
        let x = k.read::<T>("x", 1);
        let offsets = k.read::<u32>("offsets", 2);
        let y = k.read_write::<T>("y", 3).output();
        let kept = k.read_write::<u32>("kept", 4).sized(1).output();
        let parts = k.workgroup::<u32>("parts", 8);

        let group = k.workgroup_index();
        let (subgroup, lane) = (k.subgroup_index(), k.subgroup_lane());
        let base = group * TILE + subgroup * 512 + lane * 4;
        let rows: Vec<_> = (0..4).map(|row| base + row * 128).collect();
        let flags: Vec<_> = rows.iter().map(|row| nonzero(keep.word_at(*row))).collect();
        let elements: Vec<_> = rows.iter().map(|row| four(x, *row)).collect();
        let counts = (0u32..).zip(&flags).map(|(row, flags)| flags.popcount() << (8 * row));
        let counts = counts.reduce(|a, b| a | b).expect("there are four");
        let sums = counts.subgroup_inclusive_add();
        let before = sums - counts;
        let totals = sums.subgroup_broadcast(31);
        let total = |row: u32| totals.extract(8 * row, 8);
        let all = (0..4).map(total).reduce(|a, b| a + b).expect("there are four");
        k.if_(lane.eq(0), || parts.put(subgroup, all));
        k.barrier();

        let offset = offsets.at(group);
        let mut carry = offset;
        let mut end = offset;
        for part in 0..8 {
            let part_sum = parts.at(part);
            carry = carry + subgroup.gt(part).select(part_sum, 0);
            end = end + part_sum;
        }
        for row in 0..4u32 {
            let (elements, flags) = (elements[row as usize], flags[row as usize]);
            let first = carry + before.extract(8 * row, 8);
            for (at, element) in (0u32..).zip(elements) {
                k.if_(flags.extract(8 * at, 8).ne(0), || {
                    let below = (flags & ((1 << (8 * at)) - 1)).popcount();
                    y.put(first + below, element);
                });
            }
            carry = carry + total(row);
        }
        let last = (keep.len().max(1) - 1) / TILE;
        k.if_(group.eq(last) & k.local_index().eq(0), || kept.put(0, end));
    })
}

/// [`counts`] for processors: a workgroup goes through its tile row by row.
fn counts_by_rows() -> Program {
    built("compact_rows_counts", [ROW, 1, 1], |k| {
        k.subgroup(ROW);
        let keep = k.read::<u8>("keep", 0);
        let counts = k.read_write::<u32>("counts", 1).output();
        let first = row_start(k);
        let own = k.var(0u32);
        k.for_(0..TILE / ROW, |row| own.update(|own| own + keep.at(first + row * ROW).min(1)));
        let all = own.get().subgroup_reduce_add();
        k.if_(k.subgroup_lane().eq(0), || counts.put(k.workgroup_index(), all));
    })
}

/// [`moves`] for processors.
fn moves_by_rows<T: Number>() -> Program {
    built(&format!("compact_rows_{}", T::TYPE), [ROW, 1, 1], |k| {
        k.subgroup(ROW);
        let keep = k.read::<u8>("keep", 0);
        let x = k.read::<T>("x", 1);
        let offsets = k.read::<u32>("offsets", 2);
        let y = k.read_write::<T>("y", 3).output();
        let kept = k.read_write::<u32>("kept", 4).sized(1).output();
        let (group, lane, first) = (k.workgroup_index(), k.subgroup_lane(), row_start(k));
        let lower = (k.val(1u32) << lane) - 1;
        let carry = k.var(offsets.at(group));
        k.for_(0..TILE / ROW, |row| {
            let at = first + row * ROW;
            let (flag, element, before) = (keep.at(at).ne(0), x.at(at), carry.get());
            let flags = flag.subgroup_ballot();
            k.if_(flag, || y.put(before + (flags & lower).popcount(), element));
            carry.set(before + flags.popcount());
        });
        let last = (keep.len().max(1) - 1) / TILE;
        k.if_(group.eq(last) & lane.eq(0), || kept.put(0, carry.get()));
    })
}

impl Plan {
    /// The elements whose flag is not 0, in their order. Inputs are `len` elements and as many flags of one byte; outputs
    /// `len` elements, of which those after the kept ones stay unchanged, and the number of kept ones in u32.
    pub fn compact<T: Number>(len: usize) -> Result<Plan, BackendError> {
        let tiles = count(len)?.div_ceil(TILE).max(1);
        let mut plan = Plan::default();
        let x = plan.buffer(len * T::TYPE.bytes(), Role::Input);
        let keep = plan.buffer(len, Role::Input);
        let y = plan.buffer(len * T::TYPE.bytes(), Role::Output);
        let kept = plan.buffer(4, Role::Output);
        let [counted, offsets] = [(); 2].map(|()| plan.buffer(tiles as usize * 4, Role::Scratch));
        plan.step(&counts(), grid(tiles), &[keep, counted]);
        plan.on_processors(&counts_by_rows(), grid(tiles));
        plan.add_scan::<u32>(Scan::Exclusive, tiles, counted, offsets);
        plan.step(&moves::<T>(), grid(tiles), &[keep, x, offsets, y, kept]);
        plan.on_processors(&moves_by_rows::<T>(), grid(tiles));
        Ok(plan)
    }
}
