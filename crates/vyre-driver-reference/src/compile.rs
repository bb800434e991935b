//! Nothing is compiled: the interpreter runs programs as they are.

/// What the driver layer keeps of a program. The interpreter reads the program itself.
pub struct Kernel;
