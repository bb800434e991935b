//! Prefix sums.
//!
//! The up-sweep reduces each tile of 4096 elements to its sum, level by level, until one tile is left. In the down-sweep each
//! workgroup scans its tile, starting from the sum of all before it. So the elements are read twice and written once.

use crate::plan::{Plan, Role, count, grid};
use crate::programs::{ROW, built, four, row_start};
use crate::reduce::{Fold, TILE};
use vyre_driver::BackendError;
use vyre_foundation::ir::Program;
use vyre_foundation::ir::builder::Number;

/// Which elements a prefix sum has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// All up to the element itself.
    Inclusive,
    /// All before it; the first sum is 0.
    Exclusive,
}

impl Scan {
    fn name(self) -> &'static str {
        match self {
            Scan::Inclusive => "inclusive",
            Scan::Exclusive => "exclusive",
        }
    }
}

/// The down-sweep: a subgroup has 512 elements as four rows of 128, a lane four of each row. The sum before a lane's four is
/// that of the tiles before, of the subgroups before in order, of the rows before in order, and of the lanes below.
fn down<T: Number>(scan: Scan) -> Program {
    built(&format!("scan_{}_{}", scan.name(), T::TYPE), [256, 1, 1], |k| {
        k.subgroup(32);
        let x = k.read::<T>("x", 0);
        let offsets = k.read::<T>("offsets", 1);
        let y = k.read_write::<T>("y", 2).output();
        let parts = k.workgroup::<T>("parts", 8);

        let group = k.workgroup_index();
        let subgroup = k.subgroup_index();
        let lane = k.subgroup_lane();
        let base = group * TILE + subgroup * 512 + lane * 4;
        let rows: Vec<_> = (0..4).map(|row| base + row * 128).collect();
        let elements: Vec<_> = rows.iter().map(|row| four(x, *row)).collect();
        let sums: Vec<_> =
            elements.iter().map(|[a, b, c, d]| (((*a + *b) + *c) + *d).subgroup_inclusive_add()).collect();
        let totals: Vec<_> = sums.iter().map(|sum| sum.subgroup_broadcast(31)).collect();
        let mut before = Vec::new();
        for sum in &sums {
            before.push(lane.eq(0).select(T::from_bits(0), sum.subgroup_shuffle(lane - 1)));
        }
        let all = totals.iter().copied().reduce(|a, b| a + b).expect("there are four");
        k.if_(lane.eq(0), || parts.put(subgroup, all));
        k.barrier();

        let mut carry = offsets.at(group);
        for part in 0..8 {
            carry = subgroup.gt(part).select(carry + parts.at(part), carry);
        }
        for (row, elements) in elements.iter().enumerate() {
            let mut sum = carry + before[row];
            let mut results = Vec::new();
            for element in elements {
                let next = sum + *element;
                results.push(if scan == Scan::Inclusive { next } else { sum });
                sum = next;
            }
            for (at, result) in (0u32..).zip(results) {
                y.put(rows[row] + at, result);
            }
            carry = carry + totals[row];
        }
    })
}

/// The same for processors, where order does not show: a workgroup goes through its tile row by row.
fn down_by_rows<T: Number>(scan: Scan) -> Program {
    built(&format!("scan_rows_{}_{}", scan.name(), T::TYPE), [ROW, 1, 1], |k| {
        k.subgroup(ROW);
        let x = k.read::<T>("x", 0);
        let offsets = k.read::<T>("offsets", 1);
        let y = k.read_write::<T>("y", 2).output();
        let first = row_start(k);
        let carry = k.var(offsets.at(k.workgroup_index()));
        k.for_(0..TILE / ROW, |row| {
            let at = first + row * ROW;
            let (element, before) = (x.at(at), carry.get());
            let sums = element.subgroup_inclusive_add();
            let sum = before + sums;
            y.put(at, if scan == Scan::Inclusive { sum } else { sum - element });
            carry.set(before + sums.subgroup_broadcast(ROW - 1));
        });
    })
}

impl Plan {
    /// The prefix sums of `len` elements: an input and an output of `len`.
    pub fn scan<T: Number>(scan: Scan, len: usize) -> Result<Plan, BackendError> {
        let mut plan = Plan::default();
        let count = count(len)?;
        let from = plan.buffer(len * T::TYPE.bytes(), Role::Input);
        let to = plan.buffer(len * T::TYPE.bytes(), Role::Output);
        plan.add_scan::<T>(scan, count, from, to);
        Ok(plan)
    }

    /// The steps of a scan between two buffers.
    pub(crate) fn add_scan<T: Number>(&mut self, scan: Scan, count: u32, from: usize, to: usize) {
        let tiles = count.div_ceil(TILE).max(1);
        let offsets = if tiles == 1 {
            self.constant(&vec![0; T::TYPE.bytes().div_ceil(4)])
        } else {
            let size = tiles as usize * T::TYPE.bytes();
            let [sums, offsets] = [(); 2].map(|()| self.buffer(size, Role::Scratch));
            self.add_level::<T>(Fold::Add, tiles, [from, sums]);
            self.add_scan::<T>(Scan::Exclusive, tiles, sums, offsets);
            offsets
        };
        self.step(&down::<T>(scan), grid(tiles), &[from, offsets, to]);
        if !T::TYPE.is_float() {
            self.on_processors(&down_by_rows::<T>(scan), grid(tiles));
        }
    }
}
