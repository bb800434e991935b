//! Radix sort of u32 keys, least significant digit first: four passes of eight bits, each stable.
//!
//! In each pass every tile of 4096 keys counts its digits; a scan of all counts, digit by digit and within a digit tile by
//! tile, gives the place of each tile's keys of each digit; and each workgroup sorts its tile by the digit in its own memory, so
//! that its stores are to adjacent elements.

use crate::plan::{Plan, Role, count, grid};
use crate::programs::{built, four};
use crate::scan::Scan;
use vyre_driver::BackendError;
use vyre_foundation::ir::Program;
use vyre_foundation::ir::builder::{Kernel, Mem, ReadOnly, Shared, Val};

/// Digits, lanes of a workgroup and keys of a lane.
const DIGITS: u32 = 256;
const LANES: u32 = 256;
const EACH: u32 = 16;
const TILE: u32 = LANES * EACH;
const SUBGROUPS: u32 = LANES / 32;

/// How often each tile has each digit, all tiles of digit 0 first.
fn counts() -> Program {
    built("sort_counts", [LANES, 1, 1], |k| {
        let shift = k.uniform::<u32>("shift", 0).sized(1);
        let keys = k.read::<u32>("keys", 1);
        let counts = k.read_write::<u32>("counts", 2).output();
        let bins = k.workgroup::<u32>("bins", DIGITS);

        let shift = shift.at(0);
        let (group, l) = (k.workgroup_index(), k.local_index());
        let (first, n) = (group * TILE, keys.len());
        let add = |key: Val<'_, u32>| bins.atomic_add(key.extract(shift, 8), 1);
        k.if_else(
            (first + (TILE - 1)).lt(n),
            || {
                let rows = (0..EACH / 4).map(|row| four(keys, first + l * 4 + row * (4 * LANES)));
                rows.collect::<Vec<_>>().concat().into_iter().for_each(add);
            },
            || {
                for row in 0..EACH {
                    let at = first + l + row * LANES;
                    k.if_(at.lt(n), || add(keys.at(at)));
                }
            },
        );
        k.barrier();
        let tiles = counts.len() / DIGITS;
        k.if_(group.lt(tiles), || counts.put(l * tiles + group, bins.at(l)));
    })
}

/// A key during the sort of a tile.
struct Key<'k> {
    key: Val<'k, u32>,
    digit: Val<'k, u32>,
    /// How many keys of its digit come before it in its subgroup.
    rank: Val<'k, u32>,
}

/// The lanes of a subgroup whose digit is this lane's: eight votes, one a bit.
fn peers<'k>(k: &'k Kernel, digit: Val<'k, u32>) -> Val<'k, u32> {
    (0..8).fold(k.val(u32::MAX), |peers, bit| {
        let set = ((digit >> bit) & 1).ne(0);
        let votes = set.subgroup_ballot();
        peers & set.select(votes, !votes)
    })
}

/// Ranks a subgroup's keys row by row. The count of a digit so far is `counters[subgroup * 256 + digit]`.
fn ranks<'k>(
    k: &'k Kernel,
    counters: Mem<'k, u32, Shared>,
    keys: Vec<Val<'k, u32>>,
    shift: Val<'k, u32>,
) -> Vec<Key<'k>> {
    let counter0 = k.subgroup_index() * DIGITS;
    let lower = (k.val(1u32) << k.subgroup_lane()) - 1;
    let rank = |key: Val<'k, u32>| {
        let digit = key.extract(shift, 8);
        let peers = peers(k, digit);
        let below = (peers & lower).popcount();
        let counter = counter0 + digit;
        let so_far = counters.at(counter);
        // All have read before the first of them writes, and it has written before the next row reads.
        k.subgroup_barrier();
        k.if_(below.eq(0), || counters.put(counter, so_far + peers.popcount()));
        k.subgroup_barrier();
        Key { key, digit, rank: so_far + below }
    };
    keys.into_iter().map(rank).collect()
}

/// Makes of the subgroups' counts their places in the sorted tile. The result, for lane d, is where digit d starts there.
fn starts<'k>(k: &'k Kernel, counters: Mem<'k, u32, Shared>) -> Val<'k, u32> {
    let parts = k.workgroup::<u32>("parts", SUBGROUPS);
    let (l, subgroup) = (k.local_index(), k.subgroup_index());
    let mut before = vec![k.val(0u32)];
    for of in 0..SUBGROUPS {
        before.push(before[of as usize] + counters.at(l + of * DIGITS));
    }
    let all = before[SUBGROUPS as usize];
    let sums = all.subgroup_inclusive_add();
    k.if_(k.subgroup_lane().eq(31), || parts.put(subgroup, sums));
    k.barrier();
    let mut start = sums - all;
    for of in 0..SUBGROUPS {
        start = start + subgroup.gt(of).select(parts.at(of), 0);
    }
    for of in 0..SUBGROUPS {
        counters.put(l + of * DIGITS, start + before[of as usize]);
    }
    start
}

/// A lane's elements: from `at` on, every 32nd.
fn strided<'k>(from: Mem<'k, u32, ReadOnly>, at: Val<'k, u32>) -> Vec<Val<'k, u32>> {
    (0..EACH).map(|row| from.at(at + row * 32)).collect()
}

/// Sorts each tile by one digit and stores its keys, and their values if there are any, where they belong.
fn moves(pairs: bool) -> Program {
    built(if pairs { "sort_moves_pairs" } else { "sort_moves" }, [LANES, 1, 1], |k| {
        k.subgroup(32);
        let shift = k.uniform::<u32>("shift", 0).sized(1);
        let offsets = k.read::<u32>("offsets", 1);
        let keys = k.read::<u32>("keys", 2);
        let to = k.read_write::<u32>("to", 3).output();
        let values =
            pairs.then(|| (k.read::<u32>("values", 4), k.read_write::<u32>("values_to", 5).output()));
        let counters = k.workgroup::<u32>("counters", SUBGROUPS * DIGITS);
        let places = k.workgroup::<u32>("places", DIGITS);
        let staged = k.workgroup::<u32>("staged", TILE);

        let shift = shift.at(0);
        let (group, l) = (k.workgroup_index(), k.local_index());
        let (first, n) = (group * TILE, keys.len());
        let base = first + k.subgroup_index() * (32 * EACH) + k.subgroup_lane();
        // The last keys are padded with the greatest: these sort after all others, and are not stored.
        let mut own = strided(keys, base);
        for (row, key) in (0u32..).zip(&mut own) {
            *key = (base + row * 32).lt(n).select(*key, u32::MAX);
        }
        let own_values = values.map(|(from, _)| strided(from, base));
        let own = ranks(k, counters, own, shift);
        k.barrier();
        let start = starts(k, counters);
        places.put(l, offsets.at(l * (offsets.len() / DIGITS) + group) - start);
        k.barrier();

        let counter0 = k.subgroup_index() * DIGITS;
        let sorted: Vec<_> = own.iter().map(|own| counters.at(counter0 + own.digit) + own.rank).collect();
        sorted.iter().zip(&own).for_each(|(at, own)| staged.put(*at, own.key));
        k.barrier();
        let live = n.max(first) - first;
        let mut targets = Vec::new();
        for row in 0..EACH {
            let at = l + row * LANES;
            let key = staged.at(at);
            let target = places.at(key.extract(shift, 8)) + at;
            k.if_(at.lt(live), || to.put(target, key));
            targets.push(target);
        }
        if let (Some((_, to)), Some(own)) = (values, own_values) {
            k.barrier();
            sorted.iter().zip(own).for_each(|(at, value)| staged.put(*at, value));
            k.barrier();
            for (row, target) in (0u32..).zip(targets) {
                let at = l + row * LANES;
                let value = staged.at(at);
                k.if_(at.lt(live), || to.put(target, value));
            }
        }
    })
}

impl Plan {
    /// Sorts `len` keys of u32, equal ones in their order: an input and an output of `len`. With `pairs` a value of u32
    /// goes with each key: a second input and output.
    pub fn sort(len: usize, pairs: bool) -> Result<Plan, BackendError> {
        let tiles = count(len)?.div_ceil(TILE).max(1);
        let columns = 1 + usize::from(pairs);
        let mut plan = Plan::default();
        let mut buffers =
            |role: Role| -> Vec<usize> { (0..columns).map(|_| plan.buffer(len * 4, role.clone())).collect() };
        let (given, sorted, other) = (buffers(Role::Input), buffers(Role::Output), buffers(Role::Scratch));
        let cells = tiles * DIGITS;
        let [counted, offsets] = [(); 2].map(|()| plan.buffer(cells as usize * 4, Role::Scratch));
        for (pass, from, to) in
            [(0, &given, &other), (1, &other, &sorted), (2, &sorted, &other), (3, &other, &sorted)]
        {
            let shift = plan.constant(&[8 * pass]);
            plan.step(&counts(), grid(tiles), &[shift, from[0], counted]);
            plan.add_scan::<u32>(Scan::Exclusive, cells, counted, offsets);
            let ends = from.iter().zip(to).flat_map(|(from, to)| [*from, *to]);
            let bound: Vec<usize> = [shift, offsets].into_iter().chain(ends).collect();
            plan.step(&moves(pairs), grid(tiles), &bound);
        }
        Ok(plan)
    }
}
