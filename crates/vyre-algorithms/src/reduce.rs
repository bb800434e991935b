//! Reduces all elements to one value.
//!
//! Levels of tiles of 4096 elements: a workgroup leaves one value for each tile, and the next level takes those, until one
//! is left. A lane folds 16 elements in memory order, four adjacent ones at a time; then lanes fold by
//! subgroup, and subgroups from left to right.

use crate::plan::{Plan, Role, count, grid, refused};
use crate::programs::{ROW, built, row_start};
use vyre_driver::BackendError;
use vyre_foundation::ir::Program;
use vyre_foundation::ir::builder::{Number, Val};

/// How elements are folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Sums. Integers wrap; floats in the order of the definition, as if +0.0 filled the last tile up.
    Add,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

impl Fold {
    fn name(self) -> &'static str {
        match self {
            Fold::Add => "add",
            Fold::Min => "min",
            Fold::Max => "max",
        }
    }

    fn of<'k, T: Number>(self, a: Val<'k, T>, b: Val<'k, T>) -> Val<'k, T> {
        match self {
            Fold::Add => a + b,
            Fold::Min => a.min(b),
            Fold::Max => a.max(b),
        }
    }

    fn subgroup<T: Number>(self, a: Val<'_, T>) -> Val<'_, T> {
        match self {
            Fold::Add => a.subgroup_reduce_add(),
            Fold::Min => a.subgroup_reduce_min(),
            Fold::Max => a.subgroup_reduce_max(),
        }
    }
}

/// Elements of a tile.
pub(crate) const TILE: u32 = 4096;

/// One level: `x` by tiles into `folded`.
fn level<T: Number>(fold: Fold) -> Program {
    built(&format!("reduce_{}_{}", fold.name(), T::TYPE), [256, 1, 1], |k| {
        k.subgroup(32);
        let x = k.read::<T>("x", 0);
        let folded = k.read_write::<T>("folded", 1).output();
        let parts = k.workgroup::<T>("parts", 8);

        let l = k.local_index();
        let group = k.workgroup_index();
        let base = group * TILE + l * 4;
        let own = k.var(T::from_bits(0));
        let take = |last: Option<Val<'_, u32>>| {
            let rows = (0..4).map(|row| base + row * 1024);
            let places = rows.flat_map(|row| [row, row + 1, row + 2, row + 3]);
            let elements: Vec<_> = places.map(|at| x.at(last.map_or(at, |last| at.min(last)))).collect();
            own.set(elements.into_iter().reduce(|a, b| fold.of(a, b)).expect("a lane has elements"));
        };
        match fold {
            // Beyond the end a load gives 0.
            Fold::Add => take(None),
            // The last element once more changes nothing.
            Fold::Min | Fold::Max => {
                let last = x.len() - 1;
                k.if_else((group * TILE + (TILE - 1)).le(last), || take(None), || take(Some(last)));
            }
        }
        let part = fold.subgroup(own.get());
        k.if_(k.subgroup_lane().eq(0), || parts.put(k.subgroup_index(), part));
        k.barrier();
        k.if_(l.eq(0), || {
            let all = (0..8).map(|part| parts.at(part)).collect::<Vec<_>>();
            folded.put(group, all.into_iter().reduce(|a, b| fold.of(a, b)).expect("there are eight"));
        });
    })
}

/// The same for processors, where order does not show: a tile is rows of neighbours.
fn level_by_rows<T: Number>(fold: Fold) -> Program {
    built(&format!("reduce_rows_{}_{}", fold.name(), T::TYPE), [ROW, 1, 1], |k| {
        k.subgroup(ROW);
        let x = k.read::<T>("x", 0);
        let folded = k.read_write::<T>("folded", 1).output();
        let first = row_start(k);
        let last = x.len() - 1;
        // Beyond the end a load gives 0; the last element once more is neither less nor greater.
        let start = if fold == Fold::Add { k.val(T::from_bits(0)) } else { x.at(first.min(last)) };
        let own = k.var(start);
        let take = |clamped: bool| {
            k.for_(0..TILE / ROW, |row| {
                let at = first + row * ROW;
                own.update(|own| fold.of(own, x.at(if clamped { at.min(last) } else { at })));
            });
        };
        match fold {
            Fold::Add => take(false),
            Fold::Min | Fold::Max => {
                let whole = (k.workgroup_index() * TILE + (TILE - 1)).le(last);
                k.if_else(whole, || take(false), || take(true));
            }
        }
        let all = fold.subgroup(own.get());
        k.if_(k.subgroup_lane().eq(0), || folded.put(k.workgroup_index(), all));
    })
}

impl Plan {
    /// The step of one level.
    pub(crate) fn add_level<T: Number>(&mut self, fold: Fold, tiles: u32, [from, to]: [usize; 2]) {
        self.step(&level::<T>(fold), grid(tiles), &[from, to]);
        if fold != Fold::Add || !T::TYPE.is_float() {
            self.on_processors(&level_by_rows::<T>(fold), grid(tiles));
        }
    }

    /// One value from `len` elements: an input of `len`, an output of one.
    pub fn reduce<T: Number>(fold: Fold, len: usize) -> Result<Plan, BackendError> {
        if len == 0 && fold != Fold::Add {
            return refused(
                format!("there is no {} of no elements", fold.name()),
                "give at least one element",
            );
        }
        let size = T::TYPE.bytes();
        let mut count = count(len)?;
        let mut plan = Plan::default();
        let mut from = plan.buffer(len * size, Role::Input);
        loop {
            count = count.div_ceil(TILE).max(1);
            let role = if count == 1 { Role::Output } else { Role::Scratch };
            let to = plan.buffer(count as usize * size, role);
            plan.add_level::<T>(fold, count, [from, to]);
            if count == 1 {
                return Ok(plan);
            }
            from = to;
        }
    }
}
