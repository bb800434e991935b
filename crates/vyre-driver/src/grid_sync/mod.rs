//! Grid barriers on backends that have none: the program is split, and the host runs the parts.
//!
//! Three strategies give the same bytes. A backend that can keep every workgroup resident runs the program as it is; one
//! with resident memory runs the parts on buffers that stay on the device; any other runs them as ordinary dispatches,
//! with all buffers going to and fro. [`compile`] chooses, and [`dispatch`] does both in one call. A backend whose threads can go through the parts within one
//! launch of its own follows the [`Plan`] itself.

mod emit;
mod plan;
mod run;

pub use plan::Plan;
pub use run::{
    Bound, Compiled, Fixpoint, Parts, StateSizes, compile, dispatch,
    dispatch_resident_grid_sync_fixpoint_into, dispatch_with_grid_sync_split_into, plan,
};
