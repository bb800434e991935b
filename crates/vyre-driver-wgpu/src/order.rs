//! Random programs in which a lane loads, stores and changes one element again and again, with what they must give.
//!
//! Compilers that are right about every op have been seen to move loads over stores to the same element, out of loops, or
//! down to where their value is used. So loaded values are used late, places are written in more ways than one, and some
//! lanes have no element at all. No lane touches another's element, so what must come out follows lane by lane.

use crate::battery::Random;
use std::fmt::Write;

/// Steps of a program.
const STEPS: usize = 16;
/// Lanes of a workgroup, and elements, of which a program takes one.
const SHAPES: [(u32, u32); 5] = [(1, 1), (8, 8), (8, 1), (64, 64), (64, 40)];
/// What accumulates starts so.
const START: u32 = 2_654_435_769;

/// A program on one workgroup and one buffer.
pub(crate) struct Order {
    pub(crate) source: String,
    /// The buffer before, and as it must be after.
    pub(crate) given: Vec<u32>,
    pub(crate) expected: Vec<u32>,
}

/// A value of every lane, by the name that the text has for it.
#[derive(Clone)]
struct Value {
    name: String,
    lanes: Vec<u32>,
}

/// A program being written, and run for every lane as it is.
struct Writer {
    random: Random,
    text: String,
    /// Which element lanes have; those without have one that nobody sees.
    memory: Vec<u32>,
    elements: usize,
    sum: Vec<u32>,
    values: Vec<Value>,
    names: usize,
}

impl Order {
    /// One of many.
    pub(crate) fn new(seed: u64) -> Order {
        let mut random = Random::new(seed);
        let (lanes, elements) = SHAPES[random.below(SHAPES.len())];
        let given: Vec<u32> = (0..elements).map(|_| random.word() as u32 >> random.below(32)).collect();
        let mut memory = given.clone();
        memory.resize(lanes as usize, 0);
        let index = Value { name: "%i".to_owned(), lanes: (0..lanes).collect() };
        let mut writer = Writer {
            random,
            text: format!(
                "program @order workgroup({lanes}, 1, 1) {{
                  buffer @y : read_write u32[] binding 0 output
                  %i = global_index
                  var $a : u32 = {START}\n"
            ),
            memory,
            elements: elements as usize,
            sum: vec![START; lanes as usize],
            values: vec![index],
            names: 0,
        };
        (0..STEPS).for_each(|_| writer.step());
        writer.finish(given)
    }
}

impl Writer {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("%v{}", self.names)
    }

    /// The lane's place. One that is alone has another name for it.
    fn place(&mut self) -> &'static str {
        if self.memory.len() == 1 && self.random.below(2) == 0 { "0" } else { "%i" }
    }

    /// A value from above, or a constant.
    fn operand(&mut self) -> Value {
        let at = self.random.below(self.values.len() + 2);
        self.values.get(at).cloned().unwrap_or_else(|| {
            let word = self.random.word() as u32 >> self.random.below(32);
            Value { name: word.to_string(), lanes: vec![word; self.memory.len()] }
        })
    }

    fn step(&mut self) {
        match self.random.below(9) {
            0 | 1 => {
                let value = self.load();
                self.values.push(value);
            }
            2 => {
                let value = self.operand();
                self.store(&value);
            }
            3 | 4 => self.atomic(),
            5 => {
                let value = self.operand();
                self.mix(&value);
            }
            6 => {
                let barrier = ["barrier", "grid_barrier"][self.random.below(2)];
                let _ = writeln!(self.text, "{barrier}");
            }
            7 => self.repeat(),
            _ => self.branch(),
        }
    }

    fn load(&mut self) -> Value {
        let (name, place) = (self.name(), self.place());
        let _ = writeln!(self.text, "{name} = load.u32 @y[{place}]");
        let has = |lane: usize| if lane < self.elements { self.memory[lane] } else { 0 };
        Value { lanes: (0..self.memory.len()).map(has).collect(), name }
    }

    fn store(&mut self, value: &Value) {
        let place = self.place();
        let _ = writeln!(self.text, "store.u32 @y[{place}], {}", value.name);
        self.memory.clone_from(&value.lanes);
    }

    fn atomic(&mut self) {
        type Fold = fn(u32, u32) -> u32;
        let folds: [(&str, Fold); 7] = [
            ("add", u32::wrapping_add),
            ("sub", u32::wrapping_sub),
            ("min", |a, b| a.min(b)),
            ("max", |a, b| a.max(b)),
            ("and", |a, b| a & b),
            ("or", |a, b| a | b),
            ("xor", |a, b| a ^ b),
        ];
        let (fold, value) = (folds[self.random.below(folds.len())], self.operand());
        let old = self.load_silently();
        let result = if self.random.below(2) == 0 { format!("{} = ", old.name) } else { String::new() };
        let place = self.place();
        let _ = writeln!(self.text, "{result}atomic_{}.u32 @y[{place}], {}", fold.0, value.name);
        self.memory.iter_mut().zip(&value.lanes).for_each(|(word, by)| *word = fold.1(*word, *by));
        if !result.is_empty() {
            self.values.push(old);
        }
    }

    /// What lanes find in their places, without a line that says so.
    fn load_silently(&mut self) -> Value {
        let length = self.text.len();
        let value = self.load();
        self.text.truncate(length);
        value
    }

    fn mix(&mut self, value: &Value) {
        let (bits, at, [old, turned, new]) =
            (1 + self.random.below(31), self.random.below(3), [(); 3].map(|()| self.name()));
        let (op, fold): (_, fn(u32, u32) -> u32) =
            [("add", u32::wrapping_add as _), ("sub", u32::wrapping_sub as _), ("xor", (|a, b| a ^ b) as _)]
                [at];
        let _ = writeln!(self.text, "{old} = get.u32 $a\n{turned} = rotl.u32 {old}, {bits}");
        let _ = writeln!(self.text, "{new} = {op}.u32 {turned}, {}\nset.u32 $a, {new}", value.name);
        let lanes = self.sum.iter_mut().zip(&value.lanes);
        lanes.for_each(|(sum, by)| *sum = fold(sum.rotate_left(bits as u32), *by));
    }

    /// Some trips that store the counter and look at what is there.
    fn repeat(&mut self) {
        let (counter, step, trips) = (self.name(), 1 + self.random.below(3), 1 + self.random.below(4));
        let (first, kept) = (self.random.below(8), self.values.len());
        let _ = writeln!(self.text, "for {counter} in {first}..{} step {step} {{", first + trips * step);
        let body = (self.text.len(), self.names);
        // The same lines in every trip, so the same choices.
        let state = self.random.clone();
        for trip in 0..trips {
            self.text.truncate(body.0);
            self.names = body.1;
            self.random = state.clone();
            self.values.truncate(kept);
            let count = (first + trip * step) as u32;
            let counter = Value { name: counter.clone(), lanes: vec![count; self.memory.len()] };
            if self.random.below(4) > 0 {
                self.store(&counter);
            }
            let value = self.load();
            self.mix(&value);
            if self.random.below(3) == 0 {
                self.atomic();
            }
        }
        // What was named in there is not known behind it.
        self.values.truncate(kept);
        let _ = writeln!(self.text, "}}");
    }

    /// A store behind a condition that some lanes meet, and a load behind that.
    fn branch(&mut self) {
        let (value, stored, test) = (self.operand(), self.operand(), self.name());
        let _ = writeln!(self.text, "{test} = ne.u32 {}, 4\nif {test} {{", value.name);
        let before = (self.memory.clone(), self.sum.clone());
        self.store(&stored);
        let loaded = self.load();
        self.mix(&loaded);
        for (lane, _) in value.lanes.iter().enumerate().filter(|(_, value)| **value == 4) {
            (self.memory[lane], self.sum[lane]) = (before.0[lane], before.1[lane]);
        }
        let _ = writeln!(self.text, "}}");
    }

    /// Everything that was loaded is used, the last of it just now.
    fn finish(mut self, given: Vec<u32>) -> Order {
        for value in self.values.split_off(1) {
            self.mix(&value);
        }
        let last = self.load();
        self.mix(&last);
        let _ = writeln!(self.text, "%sum = get.u32 $a\nstore.u32 @y[%i], %sum\n}}");
        self.sum.truncate(self.elements);
        Order { source: self.text, given, expected: self.sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vyre_driver::{DispatchConfig, VyreBackend};
    use vyre_driver_reference::ReferenceBackend;
    use vyre_foundation::text;

    #[test]
    fn the_reference_gives_what_is_expected() {
        let (mut atomics, mut loops) = (0, 0);
        for seed in 0..200 {
            let order = Order::new(seed);
            let parsed = text::parse(&order.source)
                .unwrap_or_else(|findings| panic!("{findings:?}\n{}", order.source));
            let bytes = order.given.iter().flat_map(|word| word.to_le_bytes()).collect();
            let config = DispatchConfig { grid_override: Some([1, 1, 1]), ..DispatchConfig::default() };
            let found = ReferenceBackend::default()
                .dispatch(&parsed.program, &[bytes], &config)
                .unwrap_or_else(|error| panic!("{error}\n{}", order.source));
            let expected: Vec<u8> = order.expected.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(found[0], expected, "seed {seed}\n{}", order.source);
            atomics += usize::from(order.source.contains("atomic"));
            loops += usize::from(order.source.contains("for "));
        }
        assert!(atomics > 100 && loops > 100, "{atomics} {loops}");
    }
}
