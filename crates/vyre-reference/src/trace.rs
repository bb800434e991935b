//! Reports what one lane does, line by line: the debugger that GPUs lack.
//!
//! While a program is compiled for a trace, every instruction gets a [`Note`] of the values its line reads and gives.
//! The [`Tracer`] looks at the registers before and after, and hands a [`TraceEvent`] to the caller's sink.
//! [`TraceEvent::row`] has five columns: the count of lines run, the line's number and text, its result, and the
//! values and elements it read.
//!
//! ```text
//! step  line  runs                           gives          because
//!    5    12  if %live {                                    %live = true; takes this block
//!    6    13    %yi = load.f32 @y[%i]        %yi = 10.0     %i = 1; reads @y[1] of 3
//!    7    14    store.f32 @y[%j], %yi                       %j = 9, %yi = 10.0; writes @y[9], OUT OF BOUNDS of 3
//! ```

use crate::Access;
use crate::code::{Code, Instr, Location, Slot};
use crate::lane::Lane;
use rustc_hash::FxHashMap;
use std::fmt;
use vyre_foundation::diagnostic::Place;
use vyre_foundation::ir::{DataType, Literal, Program, Value, value_types};
use vyre_foundation::text::{SourceMap, print_literal, print_with_map};

/// A lane to trace, and where its events go.
#[derive(Clone, Copy)]
pub struct Trace<'a> {
    /// The lane, by `global_id`.
    pub lane: [u32; 3],
    /// Called for every line the lane runs, in order.
    pub sink: &'a dyn Fn(&TraceEvent),
}

/// A value with the name it has in the program, sigil included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedValue {
    /// `%name`.
    pub name: String,
    /// The value.
    pub value: Literal,
}

/// An access of memory or of a private array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// `@name`, or nothing for a private array, whose name is in the line.
    pub name: String,
    /// The element.
    pub index: u64,
    /// How many elements there are; an index that is not below is out of bounds.
    pub len: u32,
    /// The kind of access.
    pub access: Access,
}

/// Where control goes from a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// An `if` whose condition holds.
    Then,
    /// An `if` whose condition does not hold.
    Else,
    /// A loop's trip starts, counted from 1.
    Trip(u64),
    /// A loop ends after so many trips.
    LoopEnds(u64),
    /// The lane waits for others.
    Waits,
}

/// A line that the traced lane ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// How many lines the lane has run, this one included.
    pub step: u64,
    /// The line.
    pub location: Location,
    /// How deep it is nested, calls included.
    pub depth: usize,
    /// Its text in canonical form.
    pub text: String,
    /// The values it reads, each once.
    pub reads: Vec<NamedValue>,
    /// The value it gives.
    pub result: Option<NamedValue>,
    /// The elements it touches.
    pub touches: Vec<Touch>,
    /// Where it leads, if that is a question.
    pub flow: Option<Flow>,
}

impl TraceEvent {
    /// The heads of the columns of [`TraceEvent::row`].
    pub const HEADER: &'static str =
        "step     line  runs                                      gives                           because";

    /// The event as a row of text. The line's number is that of the source which `map` belongs to.
    pub fn row(&self, map: &SourceMap) -> String {
        let line = map.span(self.location.line).map_or("-".to_owned(), |span| span.line.to_string());
        let text = format!("{:indent$}{}", "", self.text, indent = 2 * self.depth);
        let result = self.result.as_ref().map_or(String::new(), NamedValue::to_string);
        let list =
            |values: &[NamedValue]| values.iter().map(NamedValue::to_string).collect::<Vec<_>>().join(", ");
        let seen = [list(&self.reads)].into_iter().filter(|reads| !reads.is_empty());
        let seen = seen
            .chain(self.touches.iter().map(Touch::to_string))
            .chain(self.flow.map(|flow| flow.to_string()));
        let seen = seen.collect::<Vec<_>>().join("; ");
        let row = format!("{:>6}  {line:>5}  {text:<40}  {result:<30}  {seen}", self.step);
        row.trim_end().to_owned()
    }
}

impl fmt::Display for NamedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, print_literal(self.value))
    }
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.access {
            Access::Read => "reads",
            Access::Write => "writes",
            Access::ReadWrite
            | Access::AddSub
            | Access::Min
            | Access::Max
            | Access::And
            | Access::Or
            | Access::Xor => "updates",
        };
        let name = if self.name.is_empty() { "the array" } else { &self.name };
        write!(f, "{verb} {name}[{}]", self.index)?;
        if self.index < u64::from(self.len) {
            write!(f, " of {}", self.len)
        } else {
            write!(f, ", OUT OF BOUNDS of {}", self.len)
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flow::Then => f.write_str("takes this block"),
            Flow::Else => f.write_str("goes past this block"),
            Flow::Trip(trip) => write!(f, "trip {trip}"),
            Flow::LoopEnds(0) => f.write_str("no trip"),
            Flow::LoopEnds(1) => f.write_str("ends after 1 trip"),
            Flow::LoopEnds(trips) => write!(f, "ends after {trips} trips"),
            Flow::Waits => f.write_str("waits for the other lanes"),
        }
    }
}

/// The values of an instruction that a trace shows.
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

/// Follows the traced lane.
pub(crate) struct Tracer<'a> {
    trace: Trace<'a>,
    program: &'a Program,
    source: String,
    /// Where each line of `source` starts.
    line_starts: Vec<usize>,
    map: SourceMap,
    /// By function; the main body's last.
    types: Vec<Vec<Option<DataType>>>,
    steps: u64,
    /// The line that is running, with its place in the code.
    open: Option<(usize, TraceEvent)>,
    /// By a loop's first instruction.
    trips: FxHashMap<usize, u64>,
}

impl<'a> Tracer<'a> {
    pub(crate) fn new(program: &'a Program, trace: Trace<'a>) -> Tracer<'a> {
        let parts = program.parts();
        let (source, map) = print_with_map(program);
        let functions = parts.functions.iter();
        let mut types: Vec<_> = functions.map(|f| value_types(&f.body, Some(f), &parts.functions)).collect();
        types.push(value_types(&parts.body, None, &parts.functions));
        let starts = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Tracer {
            trace,
            program,
            line_starts: std::iter::once(0).chain(starts).collect(),
            source,
            map,
            types,
            steps: 0,
            open: None,
            trips: FxHashMap::default(),
        }
    }

    /// The lane is about to run the instruction at `pc`.
    pub(crate) fn step(&mut self, code: &Code, pc: usize, registers: &[u64], lane: &Lane) {
        if lane.global != self.trace.lane {
            return;
        }
        if let Some((at, mut event)) = self.open.take() {
            self.complete(code, at, pc, registers, &mut event);
            self.tell(event);
        }
        let note = &code.notes[pc];
        let next_trip = matches!(code.instrs[pc], Instr::ForNext { .. });
        if !note.shown && !next_trip {
            return;
        }
        let location = code.location(pc as u32);
        let (text, depth) = self.line(&location);
        let reads =
            note.reads.iter().map(|(value, slot)| self.named(&location, *value, registers[*slot as usize]));
        let reads = reads.collect();
        let flow = code.instrs[pc].synchronises().then_some(Flow::Waits);
        let event =
            TraceEvent { step: 0, location, depth, text, reads, result: None, touches: Vec::new(), flow };
        self.open = Some((pc, event));
    }

    /// A lane touches an element of a buffer, or of a private array.
    pub(crate) fn touch(&mut self, lane: &Lane, buffer: Option<usize>, index: u64, len: u32, access: Access) {
        if lane.global == self.trace.lane
            && let Some((_, event)) = &mut self.open
        {
            let name =
                buffer.map_or(String::new(), |at| format!("@{}", self.program.parts().buffers[at].name));
            event.touches.push(Touch { name, index, len, access });
        }
    }

    /// The run is over; reports the line that was still running.
    pub(crate) fn finish(&mut self) {
        if let Some((_, event)) = self.open.take() {
            self.tell(event);
        }
    }

    fn tell(&mut self, mut event: TraceEvent) {
        self.steps += 1;
        event.step = self.steps;
        (self.trace.sink)(&event);
    }

    /// Adds what is known once the line at `at` has run and the lane goes on at `next`.
    fn complete(&mut self, code: &Code, at: usize, next: usize, registers: &[u64], event: &mut TraceEvent) {
        let goes_on = next == at + 1;
        let mut note = &code.notes[at];
        match code.instrs[at] {
            Instr::JumpUnless { .. } => event.flow = Some(if goes_on { Flow::Then } else { Flow::Else }),
            Instr::ForEnter { .. } if goes_on => {
                self.trips.insert(next, 1);
                event.flow = Some(Flow::Trip(1));
            }
            Instr::ForEnter { .. } => {
                event.flow = Some(Flow::LoopEnds(0));
                return;
            }
            Instr::ForNext { body, .. } => {
                let trips = self.trips.entry(body as usize).or_insert(1);
                if next != body as usize {
                    event.flow = Some(Flow::LoopEnds(*trips));
                    return;
                }
                *trips += 1;
                event.flow = Some(Flow::Trip(*trips));
                // The loop's first instruction follows the line that names the counter.
                note = &code.notes[body as usize - 1];
            }
            _ => {}
        }
        event.result =
            note.result.map(|(value, slot)| self.named(&event.location, value, registers[slot as usize]));
    }

    fn named(&self, location: &Location, value: Value, bits: u64) -> NamedValue {
        let parts = self.program.parts();
        let (body, types) = match location.line {
            Place::Line { function: Some(function), .. } => {
                (&parts.functions[function.index()].body, &self.types[function.index()])
            }
            _ => (&parts.body, &self.types[parts.functions.len()]),
        };
        let ty = types[value.index()].expect("validated: values have types");
        NamedValue { name: format!("%{}", body.values[value.index()]), value: Literal::from_bits(ty, bits) }
    }

    /// A line's text, and how deep it is nested with the lines of its calls.
    fn line(&self, location: &Location) -> (String, usize) {
        let (text, depth) = self.line_at(location.line);
        let outside: usize = location.calls.iter().map(|call| self.line_at(*call).1 + 1).sum();
        (text.to_string(), depth + outside)
    }

    fn line_at(&self, place: Place) -> (&str, usize) {
        let span = self.map.span(place).expect("the printer maps every line");
        let start = self.line_starts[span.line as usize - 1];
        let line = self.source[start..].lines().next().unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        // A function's lines are one deeper than the main body's.
        let base = if matches!(place, Place::Line { function: Some(_), .. }) { 2 } else { 1 };
        (line.trim(), (indent / 2).saturating_sub(base))
    }
}
