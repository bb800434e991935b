//! CUDA's driver API without a GPU: PTX is interpreted on the processor, and what it does is checked.
//!
//! A test tool. It shares no code with the rest of the project, because it is a second opinion on the PTX that the project
//! emits and on how the project calls CUDA.

pub mod alu;
mod choices;
pub mod driver;
mod elements;
pub mod engine;
pub mod executor;
pub mod fault;
pub mod faults;
pub mod memory;
pub mod model;
pub mod ptx;
pub mod tensor;
