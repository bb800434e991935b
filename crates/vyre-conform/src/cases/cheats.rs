//! Tests against cheating: backends that recognise the suite instead of implementing the language.
//!
//! A result may depend on the program and its inputs only: not on names, lengths, addresses, the order of
//! dispatches or the state after an earlier one. Each test changes one thing that matters and keeps those that do not,
//! or changes only things that do not matter. Literals, data, names and order come from the run's seed.

use super::fixture::{Fill, track_of};
use super::programs::source;
use super::{kernels, ops, random};
use crate::batch::{Batch, Content, Group, Level, Plan, Step, Track};
use crate::contract::OutputInit;
use crate::judge;
use std::collections::{HashMap, HashSet};
use vyre_foundation::ir::{Block, ComputeOp, DataType, Literal, Name, Node, Operand, Program, ProgramParts};
use vyre_foundation::launch::{admit_buffers, bound_buffers};
use vyre_foundation::text;
use vyre_generate::source::Seeded;
use vyre_reference::{FindingKind, Launch, Options};

type Trick = fn(&mut Maker<'_>);

pub(crate) fn groups() -> Vec<Group> {
    const TRICKS: [(&str, Trick); 7] = [
        ("bits", bits),
        ("order", order),
        ("sizes", sizes),
        ("state", state),
        ("lookup", lookup),
        ("twins", twins),
        ("impostors", impostors),
    ];
    let group = |track: Track, (name, trick): (&str, Trick)| {
        let name = format!("cheat/{name}/{track}");
        Group::seeded(name.clone(), Level::Random, track, move |plan| {
            let mut maker = Maker::new(plan, track, &name);
            trick(&mut maker);
            maker.batches
        })
    };
    Track::ALL.into_iter().flat_map(|track| TRICKS.map(|trick| group(track, trick))).collect()
}

/// The placeholders for the run's own literal, and for one that differs from it in a bit.
const LITERAL: &str = "1000003";
const OTHER_LITERAL: &str = "1000007";

/// Makes a group's batches.
struct Maker<'a> {
    plan: &'a Plan<'a>,
    track: Track,
    name: &'a str,
    random: Seeded,
    /// A number that goes into the programs as a literal.
    literal: u32,
    batches: Vec<Batch>,
}

impl<'a> Maker<'a> {
    fn new(plan: &'a Plan<'a>, track: Track, name: &'a str) -> Maker<'a> {
        let mut random = Seeded::new(plan.seed(name));
        let literal = random.next_u64() as u32 | 0x0100_0001;
        Maker { plan, track, name, random, literal, batches: Vec::new() }
    }

    /// A number below the bound.
    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound.max(1) as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }

    /// A program of this track; its literals are the run's own. The integer track has i32 in place of f32.
    fn program(&self, source: &str) -> Program {
        let mut source = source.to_owned();
        if self.track == Track::Integer {
            source = source.replace("f32", "i32").replace("1.25", "125").replace("0.5", "3");
        }
        // Last and in one go, because the digits of a literal may read like a type or like the other one.
        let [literal, other] = [self.literal, self.literal ^ 0x40].map(|number| format!("{number:#x}"));
        let parts: Vec<_> = source.split(LITERAL).map(|part| part.replace(OTHER_LITERAL, &other)).collect();
        let source = parts.join(&literal);
        match text::parse(&source) {
            Ok(parsed) => parsed.program,
            Err(findings) => panic!("a program of the suite does not parse: {findings:?}\n{source}"),
        }
    }

    /// Random elements: any bits, and of floats ordinary ones.
    fn data(&mut self, ty: DataType, count: usize) -> Content {
        Fill::Plain(count).content(ty, self.random.next_u64())
    }

    fn step(&mut self, grid: [u32; 3], contents: &[Content]) -> Step {
        let init = match self.below(4) {
            0 | 1 => OutputInit::Zero,
            2 => OutputInit::Uninitialized,
            _ => OutputInit::Poison(self.random.next_u64() as u8),
        };
        Step { grid, contents: contents.to_vec(), init, cases: 1 }
    }

    fn batch(&mut self, detail: &str, program: &Program, steps: Vec<Step>) {
        let name = format!("{}:{detail}", self.name);
        self.batches.push(Batch { name, program: program.clone(), steps, lookup: false });
    }
}

/// The content with one bit flipped.
fn flipped(content: &Content, bit: usize) -> Content {
    let mut bytes = content.to_bytes();
    let at = bit / 8 % bytes.len().max(1);
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << (bit % 8);
    }
    Content::Bytes(bytes)
}

/// Inputs that differ in one bit, in all, or not at all from an earlier one; lengths and addresses stay.
fn bits(maker: &mut Maker<'_>) {
    let program = maker.program(source!("mixer"));
    let ty = program.parts().buffers[0].ty;
    for (detail, count, lanes) in [("small", 9, 5), ("large", 701, 17)] {
        let base = maker.data(ty, count);
        let outputs = Content::Zeros(lanes * 4);
        let mut variants = vec![base.clone()];
        for _ in 0..3 {
            let bit = maker.below(count * ty.bytes() * 8);
            variants.push(flipped(&base, bit));
        }
        // Caches like to look at the ends only. The lowest bits of a float change no NaN.
        variants.extend([flipped(&base, 0), flipped(&base, (count - 1) * ty.bytes() * 8), base.clone()]);
        variants.push(maker.data(ty, count));
        variants.push(base);
        let grid = [lanes.div_ceil(16) as u32, 1, 1];
        let steps = variants.into_iter().map(|x| maker.step(grid, &[x, outputs.clone()])).collect();
        maker.batch(detail, &program, steps);
    }
    for at in 0..maker.plan.pick(4, 40) {
        changed_inputs(maker, at);
    }
}

/// A random program whose read-only inputs change by a bit, then come back.
fn changed_inputs(maker: &mut Maker<'_>, at: u64) {
    let seed = maker.random.next_u64();
    // An indirect grid would change with the inputs.
    let config = vyre_generate::Config { indirect: false, ..random::config(maker.plan, maker.track, at) };
    let mut cases = (0..).map(|more| vyre_generate::seeded(seed.wrapping_add(more), &config));
    let case = cases.find(|case| track_of(case.program.parts()) == maker.track).expect("seeds never end");
    let parts = case.program.parts();
    let grid = admit_buffers(&case.valid().expect("generated programs are valid"), case.grid, &case.buffers)
        .expect("generated launches are admitted")
        .grid;
    let bound = bound_buffers(parts);
    let base: Vec<Content> = case.buffers.iter().cloned().map(Content::Bytes).collect();
    let mut steps = vec![maker.step(grid, &base)];
    for place in 0..bound.len() {
        let mut contents = base.clone();
        let bit = maker.below(base[place].len() * 8);
        contents[place] = flipped(&base[place], bit);
        steps.push(maker.step(grid, &contents));
    }
    let fresh: Vec<Content> = bound
        .iter()
        .zip(&case.buffers)
        .map(|(id, bytes)| {
            let ty = parts.buffer(*id).ty;
            maker.data(ty, bytes.len() / ty.bytes())
        })
        .collect();
    steps.push(maker.step(grid, &fresh));
    steps.push(maker.step(grid, &base));
    maker.batch(&format!("program={at}"), &case.program, steps);
}

/// Programs that differ in one word each, under one name and with the same inputs, in an unpredictable order.
fn order(maker: &mut Maker<'_>) {
    let variants: [(&str, &str); 9] = [
        ("", ""),
        ("add.f32", "sub.f32"),
        (LITERAL, OTHER_LITERAL),
        ("div.i32", "rem.i32"),
        ("%d, 3", "%d, 4"),
        ("lt.i32", "gt.i32"),
        // Signed types become unsigned ones.
        ("i32", "u32"),
        ("%q, %a\n  %r", "%a, %q\n  %r"),
        ("xor.i32", "sub.i32"),
    ];
    let count = 50 + maker.below(40);
    let inputs = [maker.data(DataType::F32, count), maker.data(DataType::U32, count)];
    let outputs = Content::Zeros(count * 4);
    let mut sequence: Vec<usize> = (0..variants.len()).flat_map(|at| [at, at]).collect();
    maker.shuffle(&mut sequence);
    for (place, at) in sequence.into_iter().enumerate() {
        let (from, to) = variants[at];
        let source =
            if from.is_empty() { source!("family").into() } else { source!("family").replace(from, to) };
        let program = maker.program(&source);
        let contents = [inputs[0].clone(), inputs[1].clone(), outputs.clone()];
        let step = maker.step([count.div_ceil(32) as u32, 1, 1], &contents);
        maker.batch(&format!("{place}:variant={at}"), &program, vec![step]);
    }
}

/// One program on lengths that shrink, grow and vanish, over grids that fit, overshoot, fall short or are empty.
fn sizes(maker: &mut Maker<'_>) {
    let program = maker.program(source!("sizes"));
    let ty = program.parts().buffers[2].ty;
    let top = 90 + maker.below(30);
    for filled in [false, true] {
        let mut steps = Vec::new();
        for count in [top, top - 1, top - 3, 33, 1, 3, 0, 64, 65, top, 200 + top % 7, 2] {
            let x = maker.data(DataType::U8, count);
            let (y, z) = match filled {
                true => (maker.data(DataType::U8, count), maker.data(ty, count)),
                false => (Content::Zeros(count), Content::Zeros(count * ty.bytes())),
            };
            // The grid alone changes between these two.
            for over in [0, 2] {
                let groups = if count == 33 { over } else { count.div_ceil(8) + over };
                steps.push(maker.step([groups as u32, 1, 1], &[x.clone(), y.clone(), z.clone()]));
            }
        }
        maker.batch(if filled { "filled" } else { "zero" }, &program, steps);
    }
}

/// The same dispatch again and again, on memory that must be reset each time.
fn state(maker: &mut Maker<'_>) {
    let program = maker.program(source!("state"));
    let ty = program.parts().buffers[0].ty;
    let count = 40 + maker.below(24);
    let x = maker.data(ty, count);
    let zeros = |elements: usize| Content::Zeros(elements * 4);
    let contents = [x, zeros(count), zeros(count), zeros(3)];
    let grid = [count.div_ceil(16) as u32, 1, 1];
    let mut steps: Vec<Step> = (0..4).map(|_| maker.step(grid, &contents)).collect();
    // Then a dispatch that does nothing, one on other memory, and the first again.
    steps.push(maker.step([grid[0], 0, 1], &contents));
    let other = [maker.data(ty, count), maker.data(DataType::U32, count), zeros(count), zeros(3)];
    steps.push(maker.step(grid, &other));
    steps.push(maker.step(grid, &contents));
    maker.batch("repeated", &program, steps);
    // Nothing written at all, after all that.
    let silent = maker.program(&source!("state").replace("%i    = global_id x", "%i    = sub.u32 0, 1"));
    let step = maker.step(grid, &contents);
    maker.batch("silent", &silent, vec![step]);
}

/// Lookup data that changes while the input stays the same, and the reverse.
fn lookup(maker: &mut Maker<'_>) {
    let program = maker.program(source!("family"));
    let types = [program.parts().buffers[0].ty, program.parts().buffers[1].ty];
    let count = 33 + maker.below(20);
    let inputs = [maker.data(types[0], count), maker.data(types[0], count)];
    let table = maker.data(types[1], count);
    let bit = maker.below(count * 32);
    let tables = [table.clone(), flipped(&table, bit), maker.data(types[1], count)];
    let order = [(0, 0), (0, 1), (0, 2), (0, 0), (1, 0), (1, 2), (0, 2)];
    let grid = [count.div_ceil(32) as u32, 1, 1];
    let step = |(input, table): (usize, usize)| {
        maker.step(grid, &[inputs[input].clone(), tables[table].clone(), Content::Zeros(count * 4)])
    };
    let steps = order.map(step).to_vec();
    maker.batch("table", &program, steps);
    if let Some(batch) = maker.batches.last_mut() {
        batch.lookup = true;
    }
}

/// Known programs under random names.
fn twins(maker: &mut Maker<'_>) {
    for (at, batch) in chosen(maker).into_iter().enumerate() {
        let program = renamed(&batch.program, &mut maker.random);
        maker.batch(&format!("{at}:{}", title(&batch)), &program, batch.steps);
    }
}

/// Programs under known names, with the known buffers and inputs, that mean something else.
fn impostors(maker: &mut Maker<'_>) {
    for (at, batch) in chosen(maker).into_iter().enumerate() {
        // Some also have the name of an op.
        let name =
            (maker.below(2) == 0).then(|| ComputeOp::ALL[maker.below(ComputeOp::ALL.len())].info().name);
        if let Some(program) = changed(&batch, &mut maker.random, name) {
            maker.batch(&format!("{at}:{}", title(&batch)), &program, batch.steps);
        }
    }
}

/// The batch's name as a part of another's.
fn title(batch: &Batch) -> String {
    batch.name.replace([':', '/'], ".")
}

/// Known programs of this track with the first of their launches: kernels, and ops that are alone in their programs.
fn chosen(maker: &mut Maker<'_>) -> Vec<Batch> {
    let mut batches = kernels::batches(maker.plan, maker.track);
    maker.shuffle(&mut batches);
    batches.truncate(maker.plan.pick(6, 100));
    for batch in &mut batches {
        batch.steps.truncate(1);
    }
    let mut instances = ops::instances();
    // A quick run takes each op with one type, of either track.
    let quick = maker.plan.pick(true, false);
    let tracks: HashMap<ComputeOp, Vec<Track>> =
        instances.iter().fold(HashMap::new(), |mut tracks, instance| {
            tracks.entry(instance.op).or_insert_with(Vec::new).push(instance.track());
            tracks
        });
    let wanted = |op: ComputeOp| {
        let tracks = &tracks[&op];
        tracks[maker.plan.seed(op.info().name) as usize % tracks.len()]
    };
    instances
        .retain(|instance| instance.track() == maker.track && (!quick || wanted(instance.op) == maker.track));
    maker.shuffle(&mut instances);
    let mut seen = HashSet::new();
    instances.retain(|instance| !quick || seen.insert(instance.op));
    for instance in instances {
        let (lanes, seed) = (1 + maker.below(64) as u32, maker.random.next_u64());
        batches.push(instance.kernel(lanes).batch(instance.title(), &instance.random(seed, 131)));
    }
    batches
}

/// The same program with a new name for everything that has one.
fn renamed(program: &Program, random: &mut Seeded) -> Program {
    let mut parts = program.parts().clone();
    let mut serial = 0;
    let mut word = || {
        serial += 1;
        let bits = random.next_u64();
        let letters: String =
            (0..1 + bits % 9).map(|at| char::from(b'a' + (bits >> (5 * at + 4)) as u8 % 26)).collect();
        Name::from(format!("{letters}{serial}"))
    };
    parts.name = word();
    parts.buffers.iter_mut().for_each(|buffer| buffer.name = word());
    for function in &mut parts.functions {
        function.name = word();
    }
    let functions = parts.functions.iter_mut().map(|function| &mut function.body);
    for body in functions.chain([&mut parts.body]) {
        body.values.iter_mut().chain(&mut body.locals).for_each(|name| *name = word());
    }
    Program::new(parts).expect("only names changed")
}

/// The program with one op or literal changed, so that it is still valid and free of races and gives other bytes.
fn changed(batch: &Batch, random: &mut Seeded, name: Option<&str>) -> Option<Program> {
    let valid = judge::valid(&batch.program).ok()?;
    let before = judge::expected(&valid, &batch.steps[0]).ok()?;
    (0..24).find_map(|_| {
        let mut parts = change_one(batch.program.parts(), random);
        parts.name = name.map_or(parts.name, Into::into);
        let program = Program::new(parts).ok()?;
        let after = checked(&program, &batch.steps[0])?;
        (after != before).then_some(program)
    })
}

/// The outputs, if the program is valid, ends soon and has no race.
fn checked(program: &Program, step: &Step) -> Option<judge::Answer> {
    let valid = judge::valid(program).ok()?;
    // Counted rather than timed, so that every machine chooses alike.
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 20
    };
    let options = Options { check: true, stop: Some(&stop), ..Options::default() };
    let buffers = step.contents.iter().map(Content::to_bytes).collect();
    let outcome = vyre_reference::run(&valid, Launch { grid: Some(step.grid), buffers }, &options).ok()?;
    let races = outcome.findings.iter().any(|finding| finding.kind == FindingKind::Race);
    if races { None } else { judge::expected(&valid, step).ok() }
}

/// The program with one computing line changed.
fn change_one(parts: &ProgramParts, random: &mut Seeded) -> ProgramParts {
    let mut parts = parts.clone();
    let mut lines = 0_u32;
    let mut count = |_: &mut Node| lines += 1;
    each_compute(&mut parts, &mut count);
    let chosen = (random.next_u64() % u64::from(lines.max(1))) as i64;
    let (mut at, pick) = (-1, random.next_u64());
    each_compute(&mut parts, &mut |node| {
        at += 1;
        if at == chosen {
            change(node, pick);
        }
    });
    parts
}

fn each_compute(parts: &mut ProgramParts, f: &mut impl FnMut(&mut Node)) {
    fn go(block: &mut Block, f: &mut impl FnMut(&mut Node)) {
        for node in block {
            if matches!(node, Node::Compute { .. }) {
                f(node);
            }
            node.blocks_mut().for_each(|block| go(block, f));
        }
    }
    parts.functions.iter_mut().for_each(|function| go(&mut function.body.block, f));
    go(&mut parts.body.block, f);
}

/// Another op over the same operands, or another literal.
fn change(node: &mut Node, pick: u64) {
    let Node::Compute { op, ty, args, .. } = node else { return };
    if let Some(Operand::Literal(literal)) = args.last_mut()
        && pick & 1 == 0
    {
        *literal = Literal::from_bits(literal.ty(), literal.bits() ^ 1 << (pick >> 8 & 3));
        return;
    }
    let info = op.info();
    let alike = |other: &&ComputeOp| {
        let other = other.info();
        other.args == info.args
            && other.result == info.result
            && other.types.contains(*ty)
            && other.name != info.name
    };
    let others: Vec<&ComputeOp> = ComputeOp::ALL.iter().filter(alike).collect();
    if !others.is_empty() {
        *op = *others[(pick >> 8) as usize % others.len()];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Profile;
    use crate::suite::Size;

    #[test]
    fn literals_whose_digits_read_like_types_are_literals() {
        let profile = Profile::floor();
        for literal in [0xaf32_6a11, 0xaf32_6a51, 0x0100_0003, 0x0100_0007, 0x0100_0043, 0x0100_0047] {
            for track in Track::ALL {
                let plan = Plan { size: Size::Quick, profile: &profile, driver: true, seed: [1; 32] };
                let mut maker = Maker { literal, ..Maker::new(&plan, track, "order") };
                order(&mut maker);
                assert!(!maker.batches.is_empty(), "{literal:#x}");
            }
        }
    }
}
