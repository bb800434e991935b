//! Counts the matches of `GET +/` in many records of text.

use crate::case::{Baseline, Benchmark, Case, OpKind, PLAIN, random, words};
use rayon::prelude::*;
use vyre::algorithms::{Dfa, Plan};

pub(super) static DFA: Benchmark = Benchmark {
    name: "dfa",
    about: "matches of a regular expression in records of text",
    unit: "bytes",
    size: 1 << 26,
    tiny: 20_000,
    size_min: 4,
    size_max: u32::MAX - 3,
    power: 1,
    make,
    // Extraction, index, mask, shift and sum; the look-up itself counts as memory.
    ops: |size, _| 5 * u64::from(size & !3),
    kind: OpKind::U32,
    baselines: &[Baseline { label: PLAIN, run: plain }, Baseline { label: "rust blocked", run: blocked }],
};

/// The states count how much of `GET +/` is seen: nothing, `G`, `GE`, `GET`, and `GET` followed by spaces.
fn automaton() -> Dfa {
    let next = |state: u32, byte: u8| match (state, byte) {
        (_, b'G') => 1,
        (1, b'E') => 2,
        (2, b'T') => 3,
        (3 | 4, b' ') => 4,
        _ => 0,
    };
    Dfa::new(5, |state, byte| (next(state, byte), (state, byte) == (4, b'/'))).expect("all states exist")
}

/// A log of requests: records of 32 to 287 bytes, each from a whole word on.
fn make(size: u32) -> Case {
    const WORDS: [&str; 8] = [
        "GET /index ",
        "POST /form ",
        "GET  /a/b/c ",
        "HTTP/1.1 ",
        "200 ",
        "GETTY ",
        "304 GE",
        "host=example ",
    ];
    let bytes = size as usize & !3;
    let (mut text, mut starts, mut lengths) = (Vec::with_capacity(bytes), Vec::new(), Vec::new());
    let mut at = 0;
    let mut draw = || {
        at += 1;
        random(10, at) as usize
    };
    while text.len() < bytes {
        let start = text.len();
        let end = (start + 32 + draw() % 256).min(bytes);
        while text.len() < end {
            text.extend_from_slice(WORDS[draw() % 8].as_bytes());
        }
        text.truncate(end);
        starts.push((start / 4) as u32);
        lengths.push((end - start) as u32);
        text.resize(end.next_multiple_of(4), b'\n');
    }
    let dfa = automaton();
    let plan = Plan::dfa(text.len() / 4, starts.len(), &dfa).expect("its size is checked");
    Case::of(plan, vec![words(&text), starts, lengths, dfa.table().to_vec()])
}

#[inline(always)]
fn step(table: &[u32], entry: u32, byte: u8) -> u32 {
    table[(entry & 0x7ff) as usize + usize::from(byte)]
}

fn count(table: &[u32], text: &[u8]) -> u32 {
    let (mut entry, mut count) = (0, 0);
    for byte in text {
        entry = step(table, entry, *byte);
        count += entry >> 31;
    }
    count
}

fn record(text: &[u8], start: u32, bytes: u32) -> &[u8] {
    &text[start as usize * 4..][..bytes as usize]
}

fn plain(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    let (text, table) = (bytemuck::cast_slice(&read[0]), &read[3]);
    let records = read[1].par_iter().zip(&read[2]).zip(write[0].par_iter_mut());
    records.for_each(|((start, bytes), matches)| *matches = count(table, record(text, *start, *bytes)));
}

/// Eight records at once: a look-up waits for the one before it, so others fill the time.
fn blocked(read: &[Vec<u32>], write: &mut [Vec<u32>]) {
    const LANES: usize = 8;
    let (text, table) = (bytemuck::cast_slice(&read[0]), &read[3]);
    write[0].par_chunks_mut(LANES).enumerate().for_each(|(at, matches)| {
        let texts = matches.len();
        let text = |lane: usize| match lane < texts {
            true => record(text, read[1][at * LANES + lane], read[2][at * LANES + lane]),
            false => &[][..],
        };
        let texts: [&[u8]; LANES] = std::array::from_fn(text);
        let common = texts.iter().map(|text| text.len()).min().unwrap_or(0);
        let heads = texts.map(|text| &text[..common]);
        let byte = |lane: usize, at: usize| heads[lane][at];
        let (mut entries, mut counts) = ([0; LANES], [0; LANES]);
        for at in 0..common {
            for lane in 0..LANES {
                entries[lane] = step(table, entries[lane], byte(lane, at));
                counts[lane] += entries[lane] >> 31;
            }
        }
        for (lane, matches) in matches.iter_mut().enumerate() {
            let mut entry = entries[lane];
            for byte in &texts[lane][common..] {
                entry = step(table, entry, *byte);
                counts[lane] += entry >> 31;
            }
            *matches = counts[lane];
        }
    });
}
