//! Which accesses nothing orders: a mode of its own, because it remembers the last accesses of every byte.
//!
//! Two accesses of one byte by different threads, at least one a write, must be ordered, unless both are atomic or
//! volatile. A barrier orders the threads that meet at it, `bar.warp.sync` its lanes, and a fence with an atomic or
//! volatile access behind it orders what came before with whoever reads that value and then fences. Time is counted over the
//! whole launch, so what a thread knows of another is a time: everything up to it happened before.
//!
//! It finds races that the schedule let happen side by side or not, but remembers only the last few readers of a byte. Not
//! here: races between kernels of different streams, and with copies.

use super::code::Order;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A thread: the number of its block, its warp and its lane.
pub(super) type Who = (u64, u32, u32);

/// A byte's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Memory {
    Global(u64),
    /// The block and the byte.
    Shared(u64, u64),
}

impl Memory {
    fn plus(self, bytes: u64) -> Memory {
        match self {
            Memory::Global(at) => Memory::Global(at + bytes),
            Memory::Shared(block, at) => Memory::Shared(block, at + bytes),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    Atomic,
}

/// Readers and writers of one byte that are remembered.
const REMEMBERED: usize = 6;

#[derive(Clone, Copy)]
struct Event {
    who: Who,
    time: u64,
    line: u32,
    writes: bool,
    /// Atomic or volatile.
    strong: bool,
}

/// What is known to have happened: up to which time, by block and by thread.
#[derive(Clone, Default)]
struct Knowledge {
    blocks: HashMap<u64, u64>,
    threads: HashMap<Who, u64>,
}

impl Knowledge {
    fn learn(&mut self, other: &Knowledge) {
        for (block, time) in &other.blocks {
            let own = self.blocks.entry(*block).or_default();
            *own = (*own).max(*time);
        }
        for (who, time) in &other.threads {
            let own = self.threads.entry(*who).or_default();
            *own = (*own).max(*time);
        }
    }

    fn knows(&self, event: &Event) -> bool {
        let by_block = self.blocks.get(&event.who.0).is_some_and(|time| *time >= event.time);
        by_block || self.threads.get(&event.who).is_some_and(|time| *time >= event.time)
    }
}

/// What a fence lets other threads learn, and whether those of other blocks do.
#[derive(Clone, Default)]
struct Published {
    block: u64,
    near: Knowledge,
    far: Knowledge,
}

#[derive(Default)]
struct Thread {
    knows: Knowledge,
    /// What its last fence published.
    released: Option<Published>,
    /// What it read and has not fenced yet.
    seen: Published,
}

#[derive(Default)]
struct State {
    time: u64,
    bytes: HashMap<Memory, Vec<Event>>,
    threads: HashMap<Who, Thread>,
    /// What atomics and volatile stores left at a place.
    places: HashMap<Memory, Published>,
    arrived: HashMap<(u64, u64), Vec<Who>>,
}

/// The accesses of a launch.
pub(super) struct Races {
    state: Mutex<State>,
    threads: usize,
}

impl Races {
    /// Of a launch whose blocks have that many threads.
    pub(super) fn new(threads: usize) -> Races {
        Races { state: Mutex::default(), threads }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An access; `Err` names the one that nothing orders with it.
    pub(super) fn access(
        &self,
        who: Who,
        memory: Memory,
        bytes: u32,
        kind: Access,
        order: Order,
        line: u32,
    ) -> Result<(), String> {
        let mut state = self.state();
        state.time += 1;
        let strong = kind == Access::Atomic || !matches!(order, Order::Weak | Order::Constant);
        let event = Event { who, time: state.time, line, writes: kind != Access::Read, strong };
        if strong {
            state.exchange(who, memory, kind, order);
        }
        for byte in 0..u64::from(bytes) {
            state.note(memory.plus(byte), event, order == Order::Constant)?;
        }
        Ok(())
    }

    /// Threads come to a barrier of the block.
    pub(super) fn arrive(&self, block: u64, warp: u32, mask: u32, barrier: u64) {
        let lanes = (0..32).filter(|lane| mask >> lane & 1 != 0).map(|lane| (block, warp, lane));
        self.state().arrived.entry((block, barrier)).or_default().extend(lanes);
    }

    /// All have come.
    pub(super) fn meet(&self, block: u64, barrier: u64) {
        let mut state = self.state();
        let met = state.arrived.remove(&(block, barrier)).unwrap_or_default();
        let all = met.len() >= self.threads;
        state.meet(&met, all.then_some(block));
    }

    /// Lanes meet at a `bar.warp.sync`.
    pub(super) fn warp_sync(&self, block: u64, warp: u32, mask: u32) {
        let met: Vec<Who> =
            (0..32).filter(|lane| mask >> lane & 1 != 0).map(|lane| (block, warp, lane)).collect();
        self.state().meet(&met, None);
    }

    pub(super) fn fence(&self, block: u64, warp: u32, mask: u32, device: bool) {
        let mut state = self.state();
        state.time += 1;
        for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
            state.fence((block, warp, lane), device);
        }
    }
}

impl State {
    /// Threads that know of each other from now on, and of whom the others knew.
    fn meet(&mut self, met: &[Who], whole_block: Option<u64>) {
        self.time += 1;
        let time = self.time;
        let mut all = Knowledge::default();
        for who in met {
            let thread = self.threads.entry(*who).or_default();
            all.learn(&thread.knows);
        }
        match whole_block {
            Some(block) => {
                // What is known of the block covers what was known of its threads.
                all.threads.retain(|who, _| who.0 != block);
                all.blocks.insert(block, time);
            }
            None => all.threads.extend(met.iter().map(|who| (*who, time))),
        }
        for who in met {
            self.threads.entry(*who).or_default().knows = all.clone();
        }
    }

    fn fence(&mut self, who: Who, device: bool) {
        let time = self.time;
        let thread = self.threads.entry(who).or_default();
        let seen = std::mem::take(&mut thread.seen);
        thread.knows.learn(&seen.near);
        if device {
            thread.knows.learn(&seen.far);
        }
        thread.released = Some(published(who, &thread.knows, time, device));
    }

    /// An atomic or volatile access: passes on what fences published, and picks it up.
    fn exchange(&mut self, who: Who, memory: Memory, kind: Access, order: Order) {
        let time = self.time;
        let thread = self.threads.entry(who).or_default();
        if kind != Access::Write
            && let Some(left) = self.places.get(&memory)
        {
            // What was published for a block reaches its own threads alone.
            if left.block == who.0 {
                thread.seen.near.learn(&left.near);
            }
            thread.seen.far.learn(&left.far);
            if matches!(order, Order::Acquire | Order::AcquireRelease) {
                let seen = std::mem::take(&mut thread.seen);
                thread.knows.learn(&seen.near);
                thread.knows.learn(&seen.far);
            }
        }
        if kind == Access::Read {
            return;
        }
        let now = matches!(order, Order::Release | Order::AcquireRelease);
        let published =
            if now { Some(published(who, &thread.knows, time, true)) } else { thread.released.clone() };
        if let Some(published) = published {
            let place = self.places.entry(memory).or_default();
            place.block = who.0;
            place.near.learn(&published.near);
            place.far.learn(&published.far);
        }
    }

    fn note(&mut self, memory: Memory, event: Event, constant: bool) -> Result<(), String> {
        let events = self.bytes.entry(memory).or_default();
        let knows = &self.threads.entry(event.who).or_default().knows;
        for other in events.iter() {
            let conflict = other.writes || event.writes;
            let weak = !(other.strong && event.strong);
            let ordered = other.who == event.who || knows.knows(other);
            if constant && other.writes {
                return Err(format!(
                    "which line {} wrote: ld.global.nc is for memory that a kernel does not write",
                    other.line
                ));
            }
            if conflict && weak && !ordered {
                let (block, warp, lane) = other.who;
                let did = if other.writes { "wrote" } else { "read" };
                let thread = 32 * warp + lane;
                return Err(format!(
                    "which thread {thread} of block number {block} {did} in line {}, and nothing orders the two",
                    other.line
                ));
            }
        }
        if event.writes && !event.strong {
            // Everything before is ordered before this.
            events.clear();
        }
        events.retain(|other| other.who != event.who || other.writes && !event.writes);
        if events.len() >= REMEMBERED {
            let oldest = events.iter().position(|other| !other.writes).unwrap_or(0);
            events.remove(oldest);
        }
        events.push(event);
        Ok(())
    }
}

/// What a thread's fence publishes: what it knows and what it did itself.
fn published(who: Who, knows: &Knowledge, time: u64, device: bool) -> Published {
    let mut near = knows.clone();
    near.threads.insert(who, time);
    let far = if device { near.clone() } else { Knowledge::default() };
    Published { block: who.0, near, far }
}
