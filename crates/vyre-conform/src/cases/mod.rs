//! The groups of cases. Each file makes the groups of one subject.

mod cheats;
mod driver;
mod exhaustive;
mod expression;
mod fixture;
mod kernels;
mod laws;
mod math;
mod operands;
mod ops;
mod programs;
mod random;
mod rows;
mod script;

use crate::batch::{Group, Plan};

/// Every group of the suite; the driver contract's only for drivers.
pub(crate) fn groups(driver: bool) -> Vec<Group> {
    let mut groups = ops::groups();
    groups.extend(laws::groups());
    groups.extend(exhaustive::groups());
    groups.extend(programs::groups());
    groups.extend(kernels::groups());
    groups.extend(random::groups());
    groups.extend(math::groups());
    groups.extend(cheats::groups());
    if driver {
        groups.extend(driver::groups());
    }
    groups
}

/// Whether that group has random programs.
pub(crate) fn is_random(group: &str) -> bool {
    group.starts_with("random/")
}

/// A summary of the contents of the run's random programs.
pub(crate) fn coverage(plan: &Plan<'_>) -> String {
    random::coverage(plan)
}

#[cfg(test)]
#[path = "../../tests/unit/cases.rs"]
mod tests;
