//! Counts the matches of a deterministic automaton in many records of bytes, one lane for each record.
//!
//! Small tables are copied to workgroup memory first, where look-ups are cheap.

use crate::plan::{Plan, Role, count, grid, refused};
use crate::programs::built;
use vyre_driver::BackendError;
use vyre_foundation::ir::Program;
use vyre_foundation::ir::builder::{Bounds, Val};

const LANES: u32 = 256;
/// The most entries of a table in workgroup memory: eight states.
const SMALL: u32 = 2048;
/// Bit 31 of an entry: a match ends here.
const HIT: u32 = 1 << 31;

/// A deterministic automaton over bytes. Each record starts in state 0; a match is counted at every step that is marked as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dfa {
    /// For each state and byte the next state times 256, and bit 31 where a match ends.
    table: Vec<u32>,
}

impl Dfa {
    /// The automaton of `states` states in which `step` gives, for a state and a byte, the next state and whether a
    /// match ends.
    pub fn new(states: u32, step: impl Fn(u32, u8) -> (u32, bool)) -> Result<Dfa, BackendError> {
        if states == 0 || states > 1 << 22 {
            return refused(format!("an automaton has {states} states"), "give it 1 to 2^22 states");
        }
        let mut table = Vec::with_capacity(states as usize * 256);
        for (state, byte) in (0..states).flat_map(|state| (0..=255).map(move |byte| (state, byte))) {
            let (next, hit) = step(state, byte);
            if next >= states {
                return refused(
                    format!("byte {byte} leads from state {state} to {next}, and there are {states} states"),
                    "give next states below the number of states",
                );
            }
            table.push((next * 256) | if hit { HIT } else { 0 });
        }
        Ok(Dfa { table })
    }

    /// The table as [`Plan::dfa`] takes it.
    pub fn table(&self) -> &[u32] {
        &self.table
    }
}

fn program(small: bool) -> Program {
    built(if small { "dfa_small" } else { "dfa" }, [LANES, 1, 1], |k| {
        let text = k.read::<u32>("text", 0);
        let starts = k.read::<u32>("starts", 1);
        let lengths = k.read::<u32>("lengths", 2);
        let next = k.read::<u32>("next", 3);
        let matches = k.read_write::<u32>("matches", 4).output();
        let l = k.local_index();
        let table = small.then(|| k.workgroup::<u32>("table", SMALL));
        if let Some(table) = table {
            k.for_((l, next.len().min(SMALL)).step(LANES), |at| table.put(at, next.at(at)));
            k.barrier();
        }
        let r = k.workgroup_index() * LANES + l;
        k.if_(r.lt(matches.len()), || {
            let (start, bytes) = (starts.at(r), lengths.at(r));
            let (row, hits) = (k.var(0u32), k.var(0u32));
            let step = |byte: Val<'_, u32>| {
                let at = row.get() + byte;
                let entry = table.map_or_else(|| next.at(at), |table| table.at(at));
                row.set(entry & (HIT - 1));
                hits.update(|hits| hits + (entry >> 31));
            };
            let whole = start + (bytes >> 2);
            k.for_(start..whole, |at| {
                let word = text.at(at);
                (0..4).for_each(|byte| step(word.extract(8 * byte, 8)));
            });
            let word = text.at(whole);
            k.for_((0, bytes & 3), |byte| step(word.extract(byte << 3, 8)));
            matches.put(r, hits.get());
        });
    })
}

impl Plan {
    /// How many matches an automaton has in each of `records` records. Inputs are the text in `words` words of four
    /// bytes, where each record starts in it as a word's number, how many bytes it has, and the automaton's table; the
    /// output is a count of u32 a record.
    pub fn dfa(words: usize, records: usize, dfa: &Dfa) -> Result<Plan, BackendError> {
        count(words)?;
        let groups = count(records)?.div_ceil(LANES);
        let mut plan = Plan::default();
        let text = plan.buffer(words * 4, Role::Input);
        let [starts, lengths] = [(); 2].map(|()| plan.buffer(records * 4, Role::Input));
        let next = plan.buffer(dfa.table.len() * 4, Role::Input);
        let matches = plan.buffer(records * 4, Role::Output);
        let small = dfa.table.len() <= SMALL as usize;
        plan.step(&program(small), grid(groups), &[text, starts, lengths, next, matches]);
        Ok(plan)
    }
}
