//! A program of the suite's own and its launches, as rows of a table.
//!
//! The text is parsed once in a process. What buffers start with is written by kind and count; the element type is the
//! program's. Which numbers come is fixed by the batch's name, so every run of the suite sends the same bytes.

use crate::batch::{Batch, Content, Group, Level, Plan, Step, Track};
use crate::contract::{Feature, OutputInit};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use vyre_foundation::ir::{DataType, Node, Program, ProgramParts, int_or_bool, walk};
use vyre_foundation::launch::bound_buffers;
use vyre_foundation::text;
use vyre_generate::edge;
use vyre_generate::source::Seeded;

/// The initial contents of a bound buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fill {
    /// This many elements, many at the edges of their type.
    Edge(usize),
    /// This many integers below the bound.
    Below(u64, usize),
    /// This many floats of ordinary size, all their bits in use.
    Plain(usize),
    /// 0, 1, 2, ...
    Count(usize),
    /// Those elements' bits.
    These(&'static [u64]),
    /// The text's bytes.
    Text(&'static str),
    /// This many zeros, which the backend provides.
    Zero(usize),
}

impl Fill {
    /// The content of a buffer of that type.
    pub(crate) fn content(self, ty: DataType, seed: u64) -> Content {
        let mut random = Seeded::new(seed);
        let bits: Vec<u64> = match self {
            Fill::Edge(count) => return Content::Bytes(edge::data(ty, count, seed)),
            Fill::Text(text) => return Content::Bytes(text.into()),
            Fill::Zero(count) => return Content::Zeros(count * ty.bytes()),
            Fill::Below(bound, count) => (0..count).map(|_| random.next_u64() % bound).collect(),
            Fill::Plain(count) => (0..count).map(|_| plain(ty, random.next_u64())).collect(),
            Fill::Count(count) => (0..count as u64).collect(),
            Fill::These(bits) => bits.to_vec(),
        };
        let bytes = bits.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(ty.bytes()));
        Content::Bytes(bytes.collect())
    }
}

/// A float between 2^-4 and 2^4, either sign, made of random bits.
fn plain(ty: DataType, random: u64) -> u64 {
    let (mantissa_bits, exponent_bits) = match ty {
        DataType::F16 => (10, 5),
        DataType::BF16 => (7, 8),
        DataType::F32 => (23, 8),
        DataType::F64 => (52, 11),
        int_or_bool!() => return random & ty.mask(),
    };
    let bias = (1u64 << (exponent_bits - 1)) - 1;
    let exponent = bias - 4 + (random >> 53) % 8;
    let sign = random >> 63;
    let mantissa = random & ((1 << mantissa_bits) - 1);
    sign << (mantissa_bits + exponent_bits) | exponent << mantissa_bits | mantissa
}

/// A launch of a fixture.
#[derive(Clone, Debug)]
struct Run {
    grid: [u32; 3],
    fills: Vec<Fill>,
    /// Only in a full run of the suite.
    full: bool,
}

/// A program of the suite and its launches.
#[derive(Clone, Debug)]
pub(crate) struct Fixture {
    subject: &'static str,
    name: String,
    program: Program,
    track: Track,
    runs: Vec<Run>,
    lookup: bool,
    feature: Option<Feature>,
    /// Only in a full run of the suite.
    full: bool,
    /// Every launch starts with zeros.
    plain: bool,
}

impl Fixture {
    /// A program under a subject, by its own name.
    ///
    /// # Panics
    /// If the text does not parse: it is the suite's own.
    pub(crate) fn new(subject: &'static str, source: &str) -> Fixture {
        let program = match text::parse(source) {
            Ok(parsed) => parsed.program,
            Err(findings) => panic!("a program of the suite does not parse: {findings:?}\n{source}"),
        };
        Fixture {
            subject,
            name: program.name().to_owned(),
            track: track_of(program.parts()),
            program,
            runs: Vec::new(),
            lookup: false,
            feature: None,
            full: false,
            plain: false,
        }
    }

    /// One program for each text that takes the place of `from`; its words go into the name.
    pub(crate) fn each(subject: &'static str, source: &str, from: &str, to: &[&str]) -> Vec<Fixture> {
        let fixture = |to: &&str| {
            let words: Vec<&str> =
                to.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
            Fixture::new(subject, &source.replace(from, to)).named(&words.join("-"))
        };
        to.iter().map(fixture).collect()
    }

    /// The same under a longer name.
    pub(crate) fn named(self, detail: &str) -> Fixture {
        Fixture { name: format!("{}:{detail}", self.name), ..self }
    }

    /// One more launch.
    pub(crate) fn run(mut self, grid: [u32; 3], fills: &[Fill]) -> Fixture {
        self.runs.push(Run { grid, fills: fills.to_vec(), full: false });
        self
    }

    /// One more launch for full runs.
    pub(crate) fn full_run(mut self, grid: [u32; 3], fills: &[Fill]) -> Fixture {
        self.runs.push(Run { grid, fills: fills.to_vec(), full: true });
        self
    }

    /// Sends the `read` buffer with the highest binding as lookup data.
    pub(crate) fn lookup(self) -> Fixture {
        Fixture { lookup: true, ..self }
    }

    /// Only for backends that publish the feature.
    pub(crate) fn needs(self, feature: Feature) -> Fixture {
        Fixture { feature: Some(feature), ..self }
    }

    /// Every launch starts with zeros, so that its grid is launched as it is.
    pub(crate) fn zeroed(self) -> Fixture {
        Fixture { plain: true, ..self }
    }

    /// Only for full runs.
    pub(crate) fn only_full(self) -> Fixture {
        Fixture { full: true, ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn track(&self) -> Track {
        self.track
    }

    fn group_name(&self) -> String {
        match self.subject.contains('/') {
            true => self.subject.into(),
            false => format!("{}/{}", self.subject, self.track),
        }
    }

    fn batch(&self, plan: &Plan<'_>) -> Option<Batch> {
        let has = self.feature.is_none_or(|feature| plan.profile.features.contains(&feature));
        if !has || self.full && plan.pick(true, false) {
            return None;
        }
        let name = format!("{}:{}", self.group_name(), self.name);
        let runs: Vec<&Run> = self.runs.iter().filter(|run| !run.full || plan.pick(false, true)).collect();
        // Each launch comes back with other inputs of the same size.
        let rounds = runs.iter().cycle().take(runs.len() * plan.pick(2, 6));
        let steps = rounds.enumerate().map(|(at, run)| self.step(&name, at, run)).collect();
        Some(Batch { name, program: self.program.clone(), steps, lookup: self.lookup })
    }

    fn step(&self, name: &str, at: usize, run: &Run) -> Step {
        let parts = self.program.parts();
        let bound = bound_buffers(parts);
        assert_eq!(bound.len(), run.fills.len(), "the suite's own `{name}` has a fill for each buffer");
        let seed = fixed_seed(&format!("{name}:{at}"));
        let contents =
            bound.iter().zip(&run.fills).enumerate().map(|(place, (id, fill))| {
                fill.content(parts.buffer(*id).ty, seed.wrapping_add(place as u64))
            });
        Step {
            grid: run.grid,
            contents: contents.collect(),
            init: if self.plain { OutputInit::Zero } else { init(at) },
            cases: 1,
        }
    }
}

/// A number that a name fixes.
fn fixed_seed(name: &str) -> u64 {
    u64::from_le_bytes(*blake3::hash(name.as_bytes()).as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

/// The policies in turn. Every other is zero: only then a grid is launched as it is, and not walked by one workgroup.
pub(crate) fn init(at: usize) -> OutputInit {
    const OTHERS: [OutputInit; 4] = [
        OutputInit::Poison(0xa5),
        OutputInit::Uninitialized,
        OutputInit::Poison(0xff),
        OutputInit::Poison(0x3c),
    ];
    if at.is_multiple_of(2) { OutputInit::Zero } else { OTHERS[at / 2 % OTHERS.len()] }
}

/// Whether a program has some float type.
pub(crate) fn track_of(parts: &ProgramParts) -> Track {
    let mut float = parts.buffers.iter().any(|buffer| buffer.ty.is_float());
    let bodies = parts.functions.iter().map(|function| &function.body).chain([&parts.body]);
    for body in bodies {
        walk(&body.block, |_, _, node| float |= has_float(node));
    }
    for function in &parts.functions {
        let types = function.params.iter().map(|(_, ty)| *ty).chain(function.result);
        float |= types.into_iter().any(DataType::is_float);
    }
    if float { Track::Float } else { Track::Integer }
}

fn has_float(node: &Node) -> bool {
    let mut float = node.suffix().is_some_and(DataType::is_float);
    node.for_each_operand(|operand| {
        float |= operand.literal().is_some_and(|literal| literal.ty().is_float());
    });
    float
}

/// One group for each subject and track of a table.
pub(crate) fn groups(table: &'static LazyLock<Vec<Fixture>>) -> Vec<Group> {
    let names: BTreeSet<(String, Track)> =
        table.iter().map(|fixture| (fixture.group_name(), fixture.track)).collect();
    let group = |(name, track): (String, Track)| {
        let wanted = name.clone();
        Group::fixed(name, Level::Programs, track, move |plan| {
            batches(table, plan, |fixture| fixture.group_name() == wanted)
        })
    };
    names.into_iter().map(group).collect()
}

/// The batches of those fixtures that are wanted.
pub(crate) fn batches(table: &[Fixture], plan: &Plan<'_>, wanted: impl Fn(&Fixture) -> bool) -> Vec<Batch> {
    table.iter().filter(|fixture| wanted(fixture)).filter_map(|fixture| fixture.batch(plan)).collect()
}
