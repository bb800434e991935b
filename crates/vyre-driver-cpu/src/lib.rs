//! Programs as machine code for this host's own processor.
//!
//! A program becomes *vector code*: a small machine-independent form in which one register holds a value of several
//! lanes. An emitter turns that into machine code. [`vector`] holds the form and the way into it.
//!
//! Not here: the meaning of ops. `vyre_foundation::scalar` has that, and this crate is compared with it, never built
//! on it.

pub mod vector;
