//! One program of anyone's on a driver, against the reference.

use crate::batch::{Batch, Content, Level, Step, Track};
use crate::contract::OutputInit;
use crate::diagnose::{self, Effort};
use crate::failure::ParityFailure;
use crate::judge::{self, Prepared};
use crate::target::DriverTarget;
use vyre_driver::VyreBackend as DriverBackend;
use vyre_foundation::ir::Program;

/// Whether a driver gives the reference's bytes for a valid program, the contents of its bound buffers by ascending binding,
/// and a grid. What differs comes back as a failure of the suite does: cut down to the smallest program that still
/// differs, with the bytes on both sides and the likely cause.
///
/// # Panics
///
/// If the program is not valid, or the contents do not fit it.
pub fn check_program(
    backend: &dyn DriverBackend,
    program: &Program,
    grid: [u32; 3],
    contents: &[Vec<u8>],
) -> Result<(), Box<ParityFailure>> {
    let contents = contents.iter().cloned().map(Content::Bytes).collect();
    let step = Step { grid, contents, init: OutputInit::Zero, cases: 1 };
    let prepared = Prepared::new(Batch::new(program.name().to_string(), program.clone(), step));
    let target = DriverTarget::new(backend);
    let Err(miss) = judge::run(&target, &prepared) else { return Ok(()) };
    let floats = program.parts().buffers.iter().any(|buffer| buffer.ty.is_float());
    let place = (Level::Random, if floats { Track::Float } else { Track::Integer });
    let again = "the same program again".to_owned();
    Err(Box::new(diagnose::explain(&target, place, &prepared, miss, Effort::Reduce, again)))
}
