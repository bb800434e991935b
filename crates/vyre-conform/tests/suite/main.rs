//! The suite from outside: it never fails the reference, and finds drivers with faults.

mod control;
mod drivers;
mod external;

// Linking a driver registers its backend.
use vyre_driver_reference as _;
