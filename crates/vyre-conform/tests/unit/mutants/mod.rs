//! Wrong backends that the suite must find: the measure of the suite itself.
//!
//! `bank` has the op mutants, every rule of `rules` on every row of the op table that it changes. Their list is a file; a
//! mutant is never taken out of it. `vendors` has the backends that are wrong as a whole, and `behaviour` holds them to the
//! causes that they declare. `suite` prepares the quick suite once for all.

mod bank;
mod behaviour;
mod hidden;
mod suite;
mod vendors;
mod witness;
