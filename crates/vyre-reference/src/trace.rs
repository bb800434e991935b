//! Tells what one lane does, line by line: the debugger that GPUs lack.
//!
//! While a program is compiled for a trace, every instruction gets a [`Note`] of the values its line reads and gives.
//! The [`Tracer`] looks at the registers before and after, and hands a [`TraceEvent`] to the caller's sink.

use crate::Access;
use crate::code::{Code, Slot};
use crate::machine::Lane;
use vyre_foundation::ir::{ProgramParts, Value};

/// A lane to trace, and who is told.
#[derive(Clone, Copy)]
pub struct Trace<'a> {
    /// The lane, by `global_id`.
    pub lane: [u32; 3],
    /// Called for every line the lane runs, in order.
    pub sink: &'a dyn Fn(&TraceEvent),
}

/// A line that the traced lane ran.
#[derive(Clone, Debug)]
pub struct TraceEvent {}

/// What a trace shows of an instruction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note {
    /// Whether the instruction is a line of the program.
    pub(crate) shown: bool,
    pub(crate) reads: Vec<(Value, Slot)>,
    pub(crate) result: Option<(Value, Slot)>,
}

impl Note {
    /// Calls `f` with every slot it shows.
    pub(crate) fn for_each_slot(&mut self, mut f: impl FnMut(&mut Slot, bool)) {
        self.reads.iter_mut().for_each(|(_, slot)| f(slot, false));
        self.result.iter_mut().for_each(|(_, slot)| f(slot, true));
    }
}

pub(crate) struct Tracer<'a> {
    trace: Trace<'a>,
}

impl<'a> Tracer<'a> {
    pub(crate) fn new(_parts: &ProgramParts, trace: Trace<'a>) -> Tracer<'a> {
        Tracer { trace }
    }

    pub(crate) fn step(&mut self, _code: &Code, _pc: usize, _registers: &[u64], lane: &Lane) {
        if lane.global == self.trace.lane {
            (self.trace.sink)(&TraceEvent {});
        }
    }

    pub(crate) fn touch(&mut self, _lane: &Lane, _buffer: usize, _index: u64, _len: u32, _access: Access) {}

    pub(crate) fn touch_array(&mut self, _lane: &Lane, _index: u64, _len: u32, _access: Access) {}
}
