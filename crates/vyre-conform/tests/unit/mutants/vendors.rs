//! Wrong backends behind the vendor's trait: those that run something else, or nothing, or too often, or only sometimes.
//!
//! Each is the reference with one flaw and declares the cause that a failure must name. Right answers are remembered
//! by everything that determines them, so that a backend costs only what it does wrong.

use crate::ReferenceBackend;
use crate::batch::{Content, Step};
use crate::contract::{Convention, DispatchConfig, OutputInit, Profile, VyreBackend};
use crate::failure::Cause;
use crate::judge::{self, Answer};
use crate::rules::{Mutation, rewrites, rules};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use vyre_foundation::ir::{BufferKind, DataType, Node, Program, walk};
use vyre_foundation::launch::bound_buffers;
use vyre_lower::convention::{self, OutputLayout};

type Reply = Result<Vec<u8>, String>;

/// A dispatch as a vendor gets it.
pub(super) struct Call<'a> {
    program: &'a [u8],
    input: &'a [u8],
    size: usize,
    config: &'a DispatchConfig,
}

/// What a wrong backend keeps between dispatches.
#[derive(Default)]
pub(super) struct State {
    count: u32,
    outputs: HashMap<Vec<u8>, Vec<u8>>,
    last_output: Vec<u8>,
    last_lookup: Option<Vec<u8>>,
    programs: HashMap<Vec<u8>, Vec<u8>>,
    last_input: HashMap<Vec<u8>, Vec<u8>>,
}

/// A wrong backend.
pub(super) struct Vendor {
    pub(super) name: &'static str,
    pub(super) cause: Cause,
    run: fn(&Call<'_>, &mut State) -> Reply,
    profile: fn(Profile) -> Profile,
    state: RefCell<State>,
}

fn vendor(name: &'static str, cause: Cause, run: fn(&Call<'_>, &mut State) -> Reply) -> Vendor {
    Vendor { name, cause, run, profile: |profile| profile, state: RefCell::default() }
}

impl VyreBackend for Vendor {
    fn name(&self) -> &str {
        "reference"
    }

    fn max_convention(&self) -> Convention {
        ReferenceBackend.max_convention()
    }

    fn profile(&self) -> Profile {
        (self.profile)(ReferenceBackend.profile())
    }

    fn dispatch(&self, _: &str, _: &[u8], _: usize, _: DispatchConfig) -> Reply {
        Err("this backend runs programs. Fix: call `dispatch_program`".into())
    }

    fn dispatch_program(&self, program: &[u8], input: &[u8], size: usize, config: DispatchConfig) -> Reply {
        let mut state = self.state.borrow_mut();
        state.count += 1;
        (self.run)(&Call { program, input, size, config: &config }, &mut state)
    }
}

/// Right answers by program, input, lookup data and size.
static RIGHT: LazyLock<Mutex<HashMap<[u8; 32], Reply>>> = LazyLock::new(Mutex::default);

impl Call<'_> {
    fn right(&self) -> Reply {
        let mut hasher = blake3::Hasher::new();
        let lookup = self.config.lookup_data.as_deref().unwrap_or(b"none");
        for part in [self.program, self.input, lookup, &self.size.to_le_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let key = *hasher.finalize().as_bytes();
        if let Some(known) = RIGHT.lock().expect("no answer panics").get(&key) {
            return known.clone();
        }
        let config = self.config.clone();
        let answer = ReferenceBackend.dispatch_program(self.program, self.input, self.size, config);
        RIGHT.lock().expect("no answer panics").insert(key, answer.clone());
        answer
    }

    fn open(&self) -> Option<(Program, Step, OutputLayout)> {
        let program = Program::from_bytes(self.program).ok()?;
        let launch =
            convention::unpack(program.parts(), self.input, self.config.lookup_data.as_deref()).ok()?;
        let contents = launch.contents.iter().map(Content::from).collect();
        let step = Step { grid: launch.grid, contents, init: self.config.output_init, cases: 0 };
        Some((program, step, launch.layout))
    }

    /// The outputs where the convention puts them.
    fn place(&self, answer: Answer, layout: &OutputLayout) -> Reply {
        match answer {
            Answer::Trap(code) => Err(format!("trap {code}. Fix: see the trap")),
            Answer::Outputs(outputs) => {
                let mut bytes = vec![0; self.size];
                for (output, (_, range)) in outputs.iter().zip(&layout.outputs) {
                    bytes[range.clone()].copy_from_slice(output);
                }
                Ok(bytes)
            }
        }
    }

    /// What the outputs held before the launch.
    fn before(&self, program: &Program, step: &Step, layout: &OutputLayout) -> Vec<u8> {
        let bound = bound_buffers(program.parts()).into_iter().zip(&step.contents);
        let outputs = bound.filter(|(id, _)| program.parts().buffer(*id).is_output());
        let contents = outputs.map(|(_, content)| content.to_bytes()).collect();
        self.place(Answer::Outputs(contents), layout).expect("outputs have places")
    }

    /// What a changed program gives; the right answer where there is nothing to change.
    fn under(&self, mutation: Mutation) -> Reply {
        let (program, step, layout) = self.open().expect("the suite's dispatches are well formed");
        let valid = judge::valid(&program).expect("the suite's programs are valid");
        match mutation.run(&valid, &step) {
            Some(Ok(answer)) => self.place(answer, &layout),
            Some(Err(error)) => Err(error.to_string()),
            None => self.right(),
        }
    }

    /// Everywhere where a rewrite of that name applies.
    fn rewritten(&self, name: &str) -> Reply {
        let rewrite = rewrites().find(|rewrite| rewrite.name == name).expect("the rewrite has that name");
        self.under(Mutation::Everywhere(rewrite))
    }

    /// On every row of which the rule of that name speaks.
    fn ruled(&self, name: &str) -> Reply {
        self.under(Mutation::Rows(rules().find(|rule| rule.name == name).expect("the rule has that name")))
    }

    /// The same program on other contents.
    fn with(&self, change: impl FnOnce(&Program, &mut Step)) -> Reply {
        let (program, mut step, layout) = self.open().expect("the suite's dispatches are well formed");
        change(&program, &mut step);
        let valid = judge::valid(&program).expect("the suite's programs are valid");
        match judge::expected(&valid, &step) {
            Ok(answer) => self.place(answer, &layout),
            Err(error) => Err(error.to_string()),
        }
    }

    fn name(&self) -> Vec<u8> {
        Program::from_bytes(self.program).map_or_else(|_| Vec::new(), |program| program.name().into())
    }

    fn mentions(&self, ty: DataType) -> bool {
        let program = Program::from_bytes(self.program).expect("the suite's programs are well formed");
        let parts = program.parts();
        let mut found = parts.buffers.iter().any(|buffer| buffer.ty == ty);
        for body in parts.functions.iter().map(|function| &function.body).chain([&parts.body]) {
            walk(&body.block, |_, _, node| found |= node.suffix() == Some(ty));
        }
        found
    }

    /// What came first under that key.
    fn cached(&self, state: &mut State, key: Vec<u8>) -> Reply {
        let right = self.right()?;
        let kept = state.outputs.entry(key).or_insert(right.clone());
        Ok(if kept.len() == right.len() { kept.clone() } else { right })
    }
}

fn resized(mut bytes: Vec<u8>, len: usize) -> Vec<u8> {
    bytes.resize(len, 0);
    bytes
}

fn key(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Every wrong backend.
pub(super) fn vendors() -> Vec<Vendor> {
    let mut all = transport();
    all.extend(kept());
    all.extend(launches());
    all.extend(numbers());
    all.extend(refusals());
    all
}

/// What happens to bytes on their way.
fn transport() -> Vec<Vendor> {
    vec![
        vendor("echo", Cause::Echo, |call, _| Ok(resized(call.input.to_vec(), call.size))),
        vendor("echo of the contents", Cause::Echo, |call, _| {
            let (_, step, _) = call.open().expect("the suite's dispatches are well formed");
            let first = step.contents.iter().find(|content| content.len() >= 16);
            first.map_or_else(|| call.right(), |content| Ok(resized(content.to_bytes(), call.size)))
        }),
        vendor("zeros", Cause::NotRun, |call, _| Ok(vec![0; call.size])),
        vendor("ones", Cause::NotRun, |call, _| Ok(vec![0xff; call.size])),
        vendor("not launched", Cause::NotRun, |call, _| {
            let byte = match call.config.output_init {
                OutputInit::Zero => 0,
                OutputInit::Poison(byte) => byte,
                OutputInit::Uninitialized => 0xcd,
            };
            Ok(vec![byte; call.size])
        }),
        vendor("initial contents written over results", Cause::NotRun, |call, _| {
            let (program, step, layout) = call.open().expect("the suite's dispatches are well formed");
            Ok(call.before(&program, &step, &layout))
        }),
        vendor("padded by four", Cause::WrongLength, |call, _| {
            call.right().map(|bytes| resized(bytes, call.size + 4))
        }),
        vendor("one byte short", Cause::WrongLength, |call, _| {
            call.right().map(|bytes| resized(bytes, call.size.saturating_sub(1)))
        }),
        vendor("rounded up to words", Cause::WrongLength, |call, _| {
            call.right().map(|bytes| resized(bytes, call.size.next_multiple_of(4)))
        }),
        vendor("rounded up to 16", Cause::WrongLength, |call, _| {
            call.right().map(|bytes| resized(bytes, call.size.next_multiple_of(16)))
        }),
        vendor("nothing returned", Cause::WrongLength, |_, _| Ok(Vec::new())),
        vendor("last part of a word missing", Cause::WrongLength, |call, _| {
            let mut bytes = call.right()?;
            let whole = bytes.len() / 4 * 4;
            bytes[whole..].fill(0);
            Ok(bytes)
        }),
        vendor("big-endian words", Cause::Layout, |call, _| {
            let mut bytes = call.right()?;
            bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
            Ok(bytes)
        }),
        vendor("bytes backwards", Cause::Layout, |call, _| {
            let mut bytes = call.right()?;
            bytes.reverse();
            Ok(bytes)
        }),
        vendor("words backwards", Cause::Layout, |call, _| {
            let bytes = call.right()?;
            Ok(resized(bytes.chunks_exact(4).rev().flatten().copied().collect(), call.size))
        }),
        vendor("shifted by a word", Cause::Layout, |call, _| {
            let mut bytes = call.right()?;
            let by = bytes.len().min(4);
            bytes.rotate_right(by);
            Ok(bytes)
        }),
        vendor("outputs in the order of their sizes", Cause::Layout, |call, _| {
            let (_, _, layout) = call.open().expect("the suite's dispatches are well formed");
            let bytes = call.right()?;
            let mut outputs: Vec<Vec<u8>> =
                layout.outputs.iter().map(|(_, range)| bytes[range.clone()].to_vec()).collect();
            outputs.reverse();
            let joined = outputs.concat();
            let mut at = 0;
            let outputs = layout.outputs.iter().map(|(_, range)| {
                at += range.len();
                joined[at - range.len()..at].to_vec()
            });
            call.place(Answer::Outputs(outputs.collect()), &layout)
        }),
        vendor("second half missing", Cause::MissingWorkgroups, |call, _| {
            let mut bytes = call.right()?;
            if bytes.len() >= 64 {
                let half = bytes.len() / 8 * 4;
                bytes[half..].fill(0);
            }
            Ok(bytes)
        }),
        vendor("only 4096 bytes", Cause::MissingWorkgroups, |call, _| {
            let mut bytes = call.right()?;
            bytes.iter_mut().skip(4096).for_each(|byte| *byte = 0);
            Ok(bytes)
        }),
        vendor("unwritten elements poisoned", Cause::UnwrittenOutput, |call, _| {
            let (program, step, layout) = call.open().expect("the suite's dispatches are well formed");
            let (mut right, before) = (call.right()?, call.before(&program, &step, &layout));
            let filled = |byte: u8| call.with(|program, step| fill_outputs(program, step, byte, false));
            let (a, b) = (filled(0x5a)?, filled(0xa6)?);
            for (id, range) in &layout.outputs {
                let size = program.parts().buffer(*id).ty.bytes();
                for start in range.clone().step_by(size) {
                    let element = start..start + size;
                    let kept =
                        |bytes: &[u8], byte: u8| bytes[element.clone()].iter().all(|other| *other == byte);
                    if kept(&a, 0x5a) && kept(&b, 0xa6) && right[element.clone()] == before[element.clone()] {
                        right[element].fill(0xee);
                    }
                }
            }
            Ok(right)
        }),
        vendor("initial contents ignored", Cause::UnwrittenOutput, |call, _| {
            call.with(|program, step| fill_outputs(program, step, 0, true))
        }),
        vendor("lookup data ignored", Cause::Lookup, |call, _| lookup(call, |data| vec![0; data.len()])),
        vendor("lookup data cut off", Cause::Lookup, |call, _| {
            lookup(call, |data| resized(data[..data.len() / 2].to_vec(), data.len()))
        }),
        vendor("lookup data of the last dispatch", Cause::Lookup, |call, state| {
            let last = std::mem::replace(&mut state.last_lookup, call.config.lookup_data.clone());
            match last {
                Some(last) => lookup(call, |data| resized(last, data.len())),
                None => call.right(),
            }
        }),
    ]
}

/// Fills the outputs that start at zero, or those that have contents.
fn fill_outputs(program: &Program, step: &mut Step, byte: u8, filled: bool) {
    for (id, content) in bound_buffers(program.parts()).into_iter().zip(&mut step.contents) {
        let writable = matches!(program.parts().buffer(id).kind, BufferKind::ReadWrite { .. });
        if writable && (filled || program.parts().buffer(id).is_output()) {
            *content = Content::Bytes(vec![byte; content.len()]);
        }
    }
}

fn lookup(call: &Call<'_>, change: impl FnOnce(&[u8]) -> Vec<u8>) -> Reply {
    let Some(data) = &call.config.lookup_data else { return call.right() };
    let config = DispatchConfig { lookup_data: Some(change(data)), ..call.config.clone() };
    Call { config: &config, ..*call }.right()
}

/// What a backend keeps from one dispatch to the next.
fn kept() -> Vec<Vendor> {
    vec![
        vendor("output of the dispatch before", Cause::StaleOutput, |call, state| {
            let right = call.right()?;
            let last = std::mem::replace(&mut state.last_output, right.clone());
            Ok(if last.is_empty() { right } else { resized(last, call.size) })
        }),
        vendor("output of the dispatch before if sizes match", Cause::StaleOutput, |call, state| {
            let right = call.right()?;
            let last = std::mem::replace(&mut state.last_output, right.clone());
            Ok(if last.len() == right.len() { last } else { right })
        }),
        vendor("input of the dispatch before", Cause::StaleOutput, |call, state| {
            let slot = key(&[call.program, &call.input.len().to_le_bytes(), &call.size.to_le_bytes()]);
            let last = state.last_input.insert(slot, call.input.to_vec());
            Call { input: last.as_deref().unwrap_or(call.input), ..*call }.right()
        }),
        vendor("cached by input length", Cause::CachedResult, |call, state| {
            call.cached(state, key(&[&call.input.len().to_le_bytes(), &call.size.to_le_bytes()]))
        }),
        vendor("cached by address", Cause::CachedResult, |call, state| {
            let address = (call.input.as_ptr() as usize).to_le_bytes();
            call.cached(state, key(&[&address, call.program, &call.input.len().to_le_bytes()]))
        }),
        vendor("cached by program name", Cause::CachedResult, |call, state| call.cached(state, call.name())),
        vendor("cached by program", Cause::CachedResult, |call, state| {
            call.cached(state, key(&[call.program, &call.size.to_le_bytes()]))
        }),
        vendor("cached by output size", Cause::CachedResult, |call, state| {
            call.cached(state, key(&[&call.size.to_le_bytes()]))
        }),
        vendor("cached by program and input length", Cause::CachedResult, |call, state| {
            call.cached(state, key(&[call.program, &call.input.len().to_le_bytes()]))
        }),
        vendor("cached by program and the input's start", Cause::CachedResult, |call, state| {
            call.cached(state, key(&[call.program, &call.input[..call.input.len().min(48)]]))
        }),
        vendor("cached by a weak sum of the input", Cause::CachedResult, |call, state| {
            let sum = call.input.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) & 1;
            call.cached(state, key(&[call.program, &call.input.len().to_le_bytes(), &[sum]]))
        }),
        vendor("pipelines by program name", Cause::SpecialCased, |call, state| {
            pipelined(call, state, call.name())
        }),
        vendor("pipelines by program length", Cause::SpecialCased, |call, state| {
            pipelined(call, state, call.program.len().to_le_bytes().to_vec())
        }),
        vendor("output memory not cleared", Cause::StateLeak, |call, state| kept_memory(call, state, true)),
        vendor("scratch memory not cleared", Cause::StateLeak, |call, state| kept_memory(call, state, false)),
        vendor("every seventh dispatch wrong", Cause::Nondeterminism, |call, state| {
            let mut bytes = call.right()?;
            if let (true, Some(byte)) = (state.count.is_multiple_of(7), bytes.last_mut()) {
                *byte ^= 4;
            }
            Ok(bytes)
        }),
        vendor("a bit by chance", Cause::Nondeterminism, |call, state| {
            let mut bytes = call.right()?;
            let at = state.count as usize * 7919;
            if let (true, false) = (at.is_multiple_of(3), bytes.is_empty()) {
                let len = bytes.len();
                bytes[at / 3 % len] ^= 1 << (at % 8);
            }
            Ok(bytes)
        }),
        vendor("the number of the dispatch in the output", Cause::Nondeterminism, |call, state| {
            let mut bytes = call.right()?;
            if let Some(byte) = bytes.first_mut() {
                *byte = byte.wrapping_add(state.count as u8);
            }
            Ok(bytes)
        }),
        vendor("tired after a hundred dispatches", Cause::NotRun, |call, state| {
            if state.count > 100 { Ok(vec![0; call.size]) } else { call.right() }
        }),
    ]
}

/// Runs on what the last dispatch left in outputs, or in the other writable buffers, where these should start at zero.
fn kept_memory(call: &Call<'_>, state: &mut State, outputs: bool) -> Reply {
    let (program, step, layout) = call.open().expect("the suite's dispatches are well formed");
    let parts = program.parts();
    let bound = bound_buffers(parts);
    let concerns = |at: usize| {
        let buffer = parts.buffer(bound[at]);
        matches!(step.contents[at], Content::Zeros(_)) && buffer.is_output() == outputs
    };
    let mut buffers: Vec<Vec<u8>> = step.contents.iter().map(Content::to_bytes).collect();
    // One stretch of memory for all of them, used from its start by each dispatch.
    let mut start = 0;
    for (_, buffer) in buffers.iter_mut().enumerate().filter(|(at, _)| concerns(*at)) {
        let left = state.last_output.iter().skip(start).take(buffer.len());
        buffer.iter_mut().zip(left).for_each(|(byte, left)| *byte = *left);
        start += buffer.len();
    }
    let valid = judge::valid(&program).expect("the suite's programs are valid");
    let grid = vyre_foundation::launch::indirect(parts).is_none().then_some(step.grid);
    let launch = vyre_reference::Launch { grid, buffers };
    let Ok(outcome) = vyre_reference::run(&valid, launch, &vyre_reference::Options::default()) else {
        return call.right();
    };
    let mut left: Vec<u8> = Vec::new();
    outcome
        .buffers
        .iter()
        .enumerate()
        .filter(|(at, _)| concerns(*at))
        .for_each(|(_, bytes)| left.extend(bytes));
    left.extend(state.last_output.iter().skip(left.len()));
    state.last_output = left;
    let all = bound.iter().zip(outcome.buffers).filter(|(id, _)| parts.buffer(**id).is_output());
    call.place(Answer::Outputs(all.map(|(_, bytes)| bytes).collect()), &layout)
}

/// Runs the first program that came under that key.
fn pipelined(call: &Call<'_>, state: &mut State, key: Vec<u8>) -> Reply {
    let program = state.programs.entry(key).or_insert_with(|| call.program.to_vec()).clone();
    let fits = Program::from_bytes(&program).is_ok_and(|program| {
        let lookup = call.config.lookup_data.as_deref();
        convention::unpack(program.parts(), call.input, lookup)
            .is_ok_and(|launch| launch.layout.output_bytes == call.size)
    });
    Call { program: if fits { &program } else { call.program }, ..*call }.right()
}

macro_rules! rewritten {
    ($($name:literal $cause:ident;)*) => {
        vec![$( vendor($name, Cause::$cause, |call, _| call.rewritten($name)), )*]
    };
}

/// Wrong launches, memory and order.
fn launches() -> Vec<Vendor> {
    let mut all = rewritten! {
        "one-workgroup-less-along-x" MissingWorkgroups;
        "one-workgroup-less-along-y" MissingWorkgroups;
        "one-workgroup-less-along-z" MissingWorkgroups;
        "last-workgroup-missing" MissingWorkgroups;
        "first-workgroup-only" MissingWorkgroups;
        "half-of-the-workgroups" MissingWorkgroups;
        "only-along-x" MissingWorkgroups;
        "one-workgroup-more-along-x" ExtraLanes;
        "one-workgroup-more-along-y" ExtraLanes;
        "grid-transposed" WrongIds;
        "grid-reversed" WrongIds;
        "workgroup-transposed" WrongIds;
        "y-first" WrongIds;
        "last-lane-missing" MissingLanes;
        "partial-warp-missing" MissingLanes;
        "first-lane-only" MissingLanes;
        "workgroup-memory-kept" UnzeroedWorkgroupMemory;
        "updates-lost" NonAtomic;
        "left-out-backwards" MissingBarrier;
        "subgroups-half-as-wide" SubgroupWidth;
        "subgroups-twice-as-wide" SubgroupWidth;
        "left-to-right" SubgroupWidth;
        "neighbour-cleared" NarrowStore;
        "upper-bits-spill" NarrowStore;
        "index-in-16-bits" OutOfBounds;
        "at-most-65535-trips" BoundaryComparison;
        "counts-bytes" OutOfBounds;
        "out-of-bounds-gives-ones" OutOfBounds;
    };
    all.push(vendor("launched twice", Cause::ExtraLanes, |call, _| {
        let (program, step, layout) = call.open().expect("the suite's dispatches are well formed");
        let first = call.right()?;
        let mut outputs = layout.outputs.iter().map(|(_, range)| first[range.clone()].to_vec());
        let mut again = step;
        for (id, content) in bound_buffers(program.parts()).into_iter().zip(&mut again.contents) {
            if program.parts().buffer(id).is_output() {
                *content = Content::Bytes(outputs.next().unwrap_or_default());
            }
        }
        let valid = judge::valid(&program).expect("the suite's programs are valid");
        judge::expected(&valid, &again)
            .map_or_else(|error| Err(error.to_string()), |answer| call.place(answer, &layout))
    }));
    all.push(vendor("last line left out", Cause::NotRun, |call, _| {
        let (program, step, layout) = call.open().expect("the suite's dispatches are well formed");
        let mut parts = program.parts().clone();
        fn cut(block: &mut Vec<Node>) {
            if let Some(Node::If { then, .. }) = block.last_mut() {
                return cut(then);
            }
            block.pop();
        }
        cut(&mut parts.body.block);
        let valid = Program::new(parts).ok().and_then(|program| judge::valid(&program).ok());
        match valid.map(|valid| judge::expected(&valid, &step)) {
            Some(Ok(answer)) => call.place(answer, &layout),
            _ => call.right(),
        }
    }));
    all
}

macro_rules! ruled {
    ($($name:literal $cause:ident;)*) => {
        vec![$( vendor(concat!("all ", $name), Cause::$cause, |call, _| call.ruled($name)), )*]
    };
}

/// Wrong numbers everywhere.
fn numbers() -> Vec<Vendor> {
    let mut all = ruled! {
        "subnormals-flushed" FlushedSubnormals;
        "subnormal-operands-flushed" FlushedSubnormals;
        "subnormal-result-flushed" FlushedSubnormals;
        "rounds-toward-zero" WrongRounding;
        "ties-away" WrongRounding;
        "through-f64" WrongRounding;
        "through-f32" WrongRounding;
        "by-the-reciprocal" WrongRounding;
        "unfused" UnfusedMultiplyAdd;
        "nan-wins" NanComparison;
        "true-if-unordered" NanComparison;
        "minus-zero-lost" SignedZero;
        "past-the-width-is-zero" UnmaskedShift;
        "other-signedness" Signedness;
        "halves-apart" WideInteger;
        "saturates" IntegerOverflow;
        "zero-divisor-gives-zero" DivisionByZero;
        "boundary" BoundaryComparison;
        "opposite-op" WrongOp;
    };
    all.extend(rewritten! {
        "contracted" FusedMultiplyAdd;
        "reassociated" WrongRounding;
        "cancelled" WrongRounding;
        "nan-bits-kept" NanBits;
        "nan-made-negative" NanBits;
    });
    all
}

fn refuse(reason: &str) -> Reply {
    Err(format!("{reason}. Fix: use another backend"))
}

/// Errors, panics, limits, traps.
fn refusals() -> Vec<Vendor> {
    let mut all = vec![
        vendor("an error without a fix", Cause::NoFix, |call, _| match call.mentions(DataType::F64) {
            true => Err("no doubles here".into()),
            false => call.right(),
        }),
        vendor("no 64-bit integers", Cause::Refused, |call, _| match call.mentions(DataType::U64) {
            true => refuse("no 64-bit integers"),
            false => call.right(),
        }),
        vendor("no empty grids", Cause::Refused, |call, _| match call.config.workgroup_count.contains(&0) {
            true => refuse("an empty grid"),
            false => call.right(),
        }),
        vendor("no empty outputs", Cause::Refused, |call, _| match call.size == 0 {
            true => refuse("an empty output"),
            false => call.right(),
        }),
        vendor("no large inputs", Cause::Refused, |call, _| match call.input.len() > 64 << 10 {
            true => refuse("the input is too large"),
            false => call.right(),
        }),
        vendor("a panic", Cause::Panicked, |call, _| {
            assert!(!call.mentions(DataType::BF16), "bf16 is not there yet");
            call.right()
        }),
        vendor("traps ignored", Cause::Trap, |call, _| call.rewritten_traps("left-out")),
        vendor("another trap's code", Cause::Trap, |call, _| call.rewritten_traps("other-code")),
        vendor("the last trap", Cause::Trap, |call, _| call.last_trap()),
        vendor("a trap and no code", Cause::Trap, |call, _| {
            call.right().map_err(|_| "a lane trapped with trap 4294967295. Fix: look".into())
        }),
    ];
    let small = |profile: Profile| Profile { invocations_max: 128, ..profile };
    all.push(Vendor {
        profile: small,
        ..vendor("workgroups of 128", Cause::BelowFloor, |call, _| call.right())
    });
    let small = |profile: Profile| Profile { buffer_bytes_max: 1 << 20, ..profile };
    all.push(Vendor {
        profile: small,
        ..vendor("buffers of 1 MiB", Cause::BelowFloor, |call, _| call.right())
    });
    all
}

impl Call<'_> {
    fn rewritten_traps(&self, name: &str) -> Reply {
        let rewrite = rewrites().find(|rewrite| rewrite.name == name && rewrite.cause == Cause::Trap);
        self.under(Mutation::Everywhere(rewrite.expect("traps have such a rewrite")))
    }

    /// The trap that comes last in the program: the one that is left when those before it are gone.
    fn last_trap(&self) -> Reply {
        let (program, step, _) = self.open().expect("the suite's dispatches are well formed");
        let mut parts = program.parts().clone();
        let mut last = self.right();
        loop {
            let valid = Program::new(parts.clone()).ok().and_then(|program| judge::valid(&program).ok());
            let Some(Ok(Answer::Trap(code))) = valid.map(|valid| judge::expected(&valid, &step)) else {
                return last;
            };
            last = Err(format!("trap {code}. Fix: see the trap"));
            let mut gone = false;
            let bodies =
                parts.functions.iter_mut().map(|function| &mut function.body).chain([&mut parts.body]);
            for body in bodies {
                remove_trap(&mut body.block, code, &mut gone);
            }
        }
    }
}

fn remove_trap(block: &mut Vec<Node>, wanted: u32, gone: &mut bool) {
    block.retain_mut(|node| {
        node.blocks_mut().for_each(|inner| remove_trap(inner, wanted, gone));
        let this = !*gone && matches!(node, Node::Trap { code } if *code == wanted);
        *gone |= this;
        !this
    });
}
