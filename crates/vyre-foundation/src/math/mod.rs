//! Elementary functions: `exp.f32 %x` and the rest, as functions of the language over its exact ops.
//!
//! A line with one of these ops is a call of a library function. Parser and builder put the function, and what it calls
//! and reads, into the program when they first meet it, so validation, interpreter, optimiser, wire form and every
//! backend see nothing but calls of ordinary functions. The printer leaves library functions out and writes their calls
//! as ops wherever the text reads back as the same program. A wire form carries the functions with it: a program keeps
//! its meaning and its digest whatever a later library does.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `table` | the list of ops: name, operands, types, accuracy |
//! | `library` | the functions' text, read once |
//! | `hard` | the arguments that need to be known |
//! | `declare` | library functions in programs |
//! | `library.vyre` | the functions, each with its error argument; `scripts/math/derive.py` writes it |
//!
//! f16, bf16 and f32 are correctly rounded. They share one function from f32 to f64, `@math.NAME.wide`, whose error is a few
//! units of f64's last place, and round its result once; the sign of an odd function is that of its argument. f32 arguments for which that result lies so near to a rounding
//! boundary that its error decides (a handful of all 2^32 for each function, found by trying all) are listed beside the
//! function, and a branch that is almost never taken looks them up.

mod declare;
mod hard;
mod library;
mod table;

pub(crate) use declare::elided;
pub use declare::{NameTaken, declare};
pub use library::LIBRARY;
pub(crate) use table::math_ops;
pub use table::{MathOp, OPS, Parity};

#[cfg(test)]
#[path = "../../tests/unit/math.rs"]
mod tests;
