//! A block of threads: its warps, its barriers, its shared memory, and what is under way in that.

use super::launch::Run;
use super::layout::SHARED_BASE;
use super::schedule::Order;
use super::warp::Warp;
use crate::choices::Choices;
use crate::fault::{Code, Fault};

/// Barriers of a block.
const BARRIERS: usize = 16;
/// Threads of a block, at most.
pub(super) const THREADS_MAX: u32 = 1024;
/// Instructions of one warp before the next warp's turn, and of one block before the next block's.
const WARP_TURN: u32 = 4096;
const BLOCK_TURN: u64 = 1 << 21;
/// What an access by which a block may wait for another counts: those who wait are soon put behind the others.
const POLL_COST: u64 = 1 << 14;

/// A block that runs.
pub(super) struct Cta {
    pub(super) warps: Vec<Warp>,
    pub(super) common: Common,
    choices: Choices,
}

/// What a block's warps share.
pub(super) struct Common {
    /// The block's place in the grid.
    pub(super) id: [u32; 3],
    /// Its number, counted along x first.
    pub(super) number: u64,
    pub(super) shared: Vec<u8>,
    /// By byte, whether something has written it.
    pub(super) written: Vec<bool>,
    /// By word, what asynchronous copies and products are doing to it; empty if the kernel has neither.
    pub(super) under_way: Vec<UnderWay>,
    /// Counts writes, fences and barriers, so that they can be ordered.
    pub(super) clock: u64,
    /// Loads and atomics of a warp, since the block's turn began, by which it may wait for another block.
    pub(super) polls: u64,
    /// By thread, the clock of its last fence between proxies, and of the last barrier it passed before that.
    pub(super) proxy_fences: Vec<[u64; 2]>,
    barriers: Vec<Barrier>,
    /// Threads that have not exited.
    alive: u32,
    /// Lanes that may go on: their warp, the instruction, the lanes, and a register with its value.
    released: Vec<Release>,
    /// Barriers that all have come to, for those who look for races.
    completed: Vec<u64>,
}

/// What is going on with one word of shared memory.
#[derive(Clone, Copy, Default)]
pub(super) struct UnderWay {
    /// A copy by `cp.async` that was not awaited.
    pub(super) copied: bool,
    /// Products by `wgmma` that may still read it.
    pub(super) read: u32,
    /// The thread that wrote it last, plus one, and when.
    pub(super) writer: u32,
    pub(super) time: u64,
}

#[derive(Clone, Default)]
struct Barrier {
    arrived: u32,
    expected: Option<u32>,
    waiting: Vec<Waiting>,
    /// Over the predicates of a fold: whether all are set, and how many are.
    all: bool,
    set: u32,
    fold: Option<Fold>,
    line: u32,
}

#[derive(Clone)]
struct Waiting {
    warp: usize,
    pc: u32,
    mask: u32,
    /// The destination of a fold and which one it is.
    fold: Option<(u32, Fold)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    And,
    Or,
    Popc,
}

struct Release {
    warp: usize,
    pc: u32,
    mask: u32,
    value: Option<(u32, u64)>,
}

/// Lanes that come to a barrier.
pub(super) struct Arrival {
    pub(super) warp: usize,
    /// Where they go on.
    pub(super) pc: u32,
    pub(super) line: u32,
    pub(super) mask: u32,
    /// How many threads count as having arrived.
    pub(super) threads: u32,
    pub(super) number: u64,
    pub(super) expected: Option<u32>,
    /// Whether they wait.
    pub(super) waits: bool,
    /// A fold's destination and kind, with the lanes whose predicate is set.
    pub(super) fold: Option<(u32, Fold, u32)>,
}

impl Cta {
    /// A block without a place yet, whose memory later blocks of the launch use again.
    pub(super) fn new(run: &Run<'_>) -> Cta {
        let threads: u32 = run.launch.block.iter().product();
        let shared = (run.kernel.shared_bytes + run.launch.shared_bytes) as usize;
        let code = &run.kernel.code;
        let words = if code.uses_wgmma || code.uses_cp_async { shared.div_ceil(4) } else { 0 };
        Cta {
            warps: (0..threads.div_ceil(32)).map(|index| Warp::new(run, index)).collect(),
            common: Common {
                id: [0; 3],
                number: 0,
                shared: vec![0; shared],
                written: vec![false; shared],
                under_way: vec![UnderWay::default(); words],
                clock: 0,
                polls: 0,
                proxy_fences: vec![[0; 2]; if words > 0 { threads as usize } else { 0 }],
                barriers: vec![Barrier::default(); BARRIERS],
                alive: threads,
                released: Vec::new(),
                completed: Vec::new(),
            },
            choices: Choices::new(0),
        }
    }

    /// Makes it the block of that number, at its start.
    pub(super) fn begin(&mut self, run: &Run<'_>, number: u64) {
        let [x, y, _] = run.launch.grid.map(u64::from);
        let common = &mut self.common;
        common.number = number;
        common.id = [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32];
        // What nothing wrote holds no zeros.
        common.shared.fill(0xd7);
        common.written.fill(false);
        common.under_way.fill(UnderWay::default());
        common.proxy_fences.fill([0; 2]);
        common.clock = 1;
        common.barriers.fill(Barrier::default());
        common.alive = run.launch.block.iter().product();
        common.released.clear();
        common.completed.clear();
        self.choices = Choices::new(run.schedule.seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        for warp in &mut self.warps {
            warp.begin(run, self.choices.next());
        }
    }

    /// Runs for a while; true when all threads have exited.
    pub(super) fn run(&mut self, run: &Run<'_>) -> Result<bool, Fault> {
        let mut used = 0;
        self.common.polls = 0;
        loop {
            let mut moved = false;
            let count = self.warps.len();
            let lockstep = run.schedule.order == Order::Lockstep;
            let first = if lockstep { 0 } else { self.choices.below(count) };
            for turn in 0..count {
                let at = (first + turn) % count;
                if !self.warps[at].is_ready() {
                    continue;
                }
                moved = true;
                let turn = if lockstep { WARP_TURN } else { 1 + self.choices.below(512) as u32 };
                used += u64::from(self.warps[at].run(run, &mut self.common, turn)?);
                self.release();
                if run.is_stopped() {
                    return Ok(true);
                }
            }
            if !moved {
                return if self.common.alive == 0 { self.finish(run) } else { Err(self.stuck(run)) };
            }
            if used + self.common.polls * POLL_COST >= BLOCK_TURN {
                return Ok(false);
            }
        }
    }

    fn finish(&self, run: &Run<'_>) -> Result<bool, Fault> {
        // Four warps begin the same products, or hardware waits for ever.
        for group in self.warps.chunks(4).filter(|_| run.kernel.code.uses_wgmma) {
            if let Some(odd) = group.iter().find(|warp| warp.products() != group[0].products()) {
                let what = "the warps of its group of four did not all execute the same wgmma instructions on the same factors";
                return Err(odd.fault(run, &self.common, Code::LaunchFailed, odd.last_line(), 0, what));
            }
        }
        Ok(true)
    }

    fn release(&mut self) {
        for Release { warp, pc, mask, value } in self.common.released.drain(..) {
            let warp = &mut self.warps[warp];
            if let Some((slot, value)) = value {
                warp.write(slot, &[value; 32], mask);
            }
            warp.synced(mask, self.common.clock);
            warp.resume(pc, mask);
        }
    }

    /// No thread can go on: says which threads wait, and for what.
    fn stuck(&self, run: &Run<'_>) -> Fault {
        for warp in &self.warps {
            if let Some((line, lane, what)) = warp.waiting(run) {
                return warp.fault(run, &self.common, Code::LaunchFailed, line, lane, &what);
            }
        }
        let mut barriers = self.common.barriers.iter().enumerate();
        let found = barriers.rfind(|(_, barrier)| !barrier.waiting.is_empty());
        let (number, barrier) = found.expect("a thread that is alive and not ready waits somewhere");
        let Waiting { warp, mask, .. } = barrier.waiting[0];
        let expected = barrier.expected.unwrap_or(self.common.alive);
        let what = format!(
            "waits at barrier {number}, which {} of {expected} threads have reached, and the others never come",
            barrier.arrived
        );
        let lane = mask.trailing_zeros();
        self.warps[warp].fault(run, &self.common, Code::LaunchFailed, barrier.line, lane, &what)
    }
}

impl Common {
    /// The byte of shared memory that an address of the shared space names, if all of so many bytes exist.
    pub(super) fn shared_at(&self, address: u64, byte_len: u32) -> Option<usize> {
        let at = address.checked_sub(SHARED_BASE)?;
        let end = at.checked_add(u64::from(byte_len))?;
        (end <= self.shared.len() as u64).then_some(at as usize)
    }

    /// Lanes come to a barrier. `Err` says what is wrong with that.
    pub(super) fn arrive(&mut self, arrival: &Arrival) -> Result<(), String> {
        let alive = self.alive;
        let Some(barrier) = self.barriers.get_mut(arrival.number as usize) else {
            return Err(format!("there is no barrier {}; a block has 16", arrival.number));
        };
        if arrival.expected.is_some_and(|count| count == 0 || count % 32 != 0 || count > THREADS_MAX) {
            return Err(
                "the number of threads at a barrier must be a multiple of 32, and a block's at most".into()
            );
        }
        let fold = arrival.fold.map(|(_, fold, _)| fold);
        if barrier.arrived > 0 && barrier.fold != fold {
            return Err(format!(
                "barrier {} is used by different instructions at the same time",
                arrival.number
            ));
        }
        if barrier.arrived > 0 && barrier.expected != arrival.expected {
            return Err(format!(
                "barrier {} is used with another number of threads at the same time",
                arrival.number
            ));
        }
        if barrier.arrived == 0 {
            (barrier.expected, barrier.all, barrier.set) = (arrival.expected, true, 0);
            barrier.fold = fold;
        }
        barrier.line = arrival.line;
        barrier.arrived += arrival.threads;
        let Arrival { warp, pc, mask, .. } = *arrival;
        if let Some((_, _, set)) = arrival.fold {
            barrier.all &= set & mask == mask;
            barrier.set += (set & mask).count_ones();
        }
        if arrival.waits {
            let fold = arrival.fold.map(|(slot, fold, _)| (slot, fold));
            barrier.waiting.push(Waiting { warp, pc, mask, fold });
        }
        self.complete(arrival.number as usize, alive)
    }

    fn complete(&mut self, number: usize, alive: u32) -> Result<(), String> {
        let barrier = &mut self.barriers[number];
        let expected = barrier.expected.unwrap_or(alive);
        if barrier.arrived == 0 || barrier.arrived < expected {
            return Ok(());
        }
        if barrier.arrived > expected {
            return Err(format!("{} threads came to a barrier of {expected}", barrier.arrived));
        }
        let barrier = std::mem::take(barrier);
        self.clock += 1;
        self.completed.push(number as u64);
        for Waiting { warp, pc, mask, fold } in barrier.waiting {
            let value = fold.map(|(slot, fold)| {
                let value = match fold {
                    Fold::And => u64::from(barrier.all),
                    Fold::Or => u64::from(barrier.set > 0),
                    Fold::Popc => u64::from(barrier.set),
                };
                (slot, value)
            });
            self.released.push(Release { warp, pc, mask, value });
        }
        Ok(())
    }

    /// Orders what came before barriers that all have come to.
    pub(super) fn completed(&mut self, run: &Run<'_>) {
        for barrier in self.completed.drain(..) {
            if let Some(races) = &run.races {
                races.meet(self.number, barrier);
            }
        }
    }

    /// Threads exit. Barriers of all threads wait for the others alone.
    pub(super) fn exit(&mut self, threads: u32) -> Result<(), String> {
        self.alive -= threads;
        let alive = self.alive;
        let open = |barrier: &Barrier| barrier.arrived > 0 && barrier.expected.is_none();
        let waiting: Vec<usize> = (0..BARRIERS).filter(|at| open(&self.barriers[*at])).collect();
        waiting.into_iter().try_for_each(|number| self.complete(number, alive))
    }
}
