//! Wrong backends that the suite must find: the measure of the suite itself.
//!
//! `bank` has the op mutants, every rule of `rules` on every row of the op table that it changes. Their list is a file; a
//! mutant is never taken out of it. `suite` prepares the quick suite once for all of them.

mod bank;
mod suite;
mod witness;
