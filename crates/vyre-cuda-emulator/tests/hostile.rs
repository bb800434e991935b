//! Kernels that were changed at random: each is refused, is stopped, or ends, and none makes the emulator panic.

mod harness;

use harness::{Case, case, schedules, words};
use std::time::Duration;
use vyre_cuda_emulator::fault::Code;

const SEEDS: [&str; 6] = [
    include_str!("kernels.rs"),
    include_str!("checks.rs"),
    include_str!("races.rs"),
    include_str!("memory.rs"),
    include_str!("warps.rs"),
    include_str!("products.rs"),
];
const RUNS: usize = 3000;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % end.max(1)
    }

    fn one<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// The instructions of all tests' kernels: what ends in a semicolon and begins as PTX does.
fn instructions() -> Vec<&'static str> {
    let is_ptx = |text: &&str| {
        let name = text.trim_start_matches("@%").trim_start_matches("@!%");
        name.contains('%')
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && !text.contains(['"', '\n'])
    };
    SEEDS.iter().flat_map(|text| text.split(';')).map(str::trim).filter(is_ptx).collect()
}

const OPERANDS: [&str; 22] = [
    "%r0",
    "%r3",
    "%r4",
    "%r5",
    "%d0",
    "%d1",
    "%d2",
    "%d3",
    "%p0",
    "%p1",
    "%f0",
    "%h0",
    "0",
    "1",
    "-1",
    "31",
    "64",
    "0xffffffff",
    "0x7fffffffffffffff",
    "-9223372036854775808",
    "s",
    "18446744073709551615",
];

#[test]
fn changed_kernels() {
    let known = instructions();
    assert!(known.len() > 300);
    let mut random = Random(3);
    let (mut ran, mut stopped) = (0, 0);
    let schedules: Vec<_> = schedules().collect();
    for run in 0..RUNS {
        let mut body = String::from(
            "mov.b32 %r4, 4; mov.b32 %r5, %r0; mov.u64 %d3, s; mov.b64 %d4, %d1; setp.lt.u32 %p0, %r0, 9;
            setp.lt.u32 %p1, %r0, 40; mov.b32 %f0, 0f3F800000; mov.b16 %h0, 7;\n",
        );
        for _ in 0..1 + random.below(3) {
            let mut line = random.one(&known).to_owned();
            if random.below(2) == 0 {
                let from = random.one(&["%r4", "%r5", "%d3", "%r6", "%d4", " 1", " 0", " -1", "%r0"]);
                line = line.replacen(from, random.one(&OPERANDS), 1);
            }
            body += &format!("{line};\n");
        }
        let case = Case {
            module: ".shared .align 128 .b8 s[4096];",
            block: [[1, 20, 32, 128][random.below(4)], 1, 1],
            words: 128,
            input: words(0..64),
            races: random.below(3) == 0,
            patience: Duration::from_millis(100),
            ..case(&body)
        };
        match case.run(schedules[run % schedules.len()]) {
            Ok(_) => ran += 1,
            Err(fault) if fault.code == Code::InvalidPtx => {}
            Err(_) => stopped += 1,
        }
    }
    assert!(ran > RUNS / 20 && stopped > RUNS / 20, "{ran} ran and {stopped} were stopped");
}
