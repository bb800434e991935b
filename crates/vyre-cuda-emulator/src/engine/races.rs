//! Which accesses nothing orders: a mode of its own, because it remembers the last accesses of every byte.
//!
//! Two accesses of one byte by different threads, at least one a write, must be ordered, unless both are atomic or
//! volatile. A barrier orders the threads that meet at it, `bar.warp.sync` its lanes, and a fence with an atomic or
//! volatile access behind it orders what came before with whoever reads that value and then fences. Time is counted over the
//! whole launch, so what a thread knows of another is a time: everything up to it happened before.
//!
//! It finds races that the schedule let happen side by side or not, but remembers only the last few readers of a byte. Not
//! here: races between kernels of different streams, and with copies.

use super::code::{Order, Strength};
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
    /// Atomic or volatile, and for whom.
    reach: Reach,
}

/// Among whom an access is atomic or volatile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Weak,
    Block,
    Device,
}

impl Event {
    /// Whether two accesses may happen at the same time because both are strong.
    fn is_strong_with(&self, other: &Event) -> bool {
        match (self.reach, other.reach) {
            (Reach::Weak, _) | (_, Reach::Weak) => false,
            (Reach::Device, Reach::Device) => true,
            _ => self.who.0 == other.who.0,
        }
    }
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
    near: Knowledge,
    far: Knowledge,
}

/// What was published at a place: for the threads of a block, by block, and for all.
#[derive(Default)]
struct Left {
    near: HashMap<u64, Knowledge>,
    far: Knowledge,
}

/// A thread that came to a barrier.
struct Arrived {
    who: Who,
    time: u64,
    /// What it knew then, if it goes on at once and so does not learn of the others.
    knew: Option<Knowledge>,
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
    places: HashMap<Memory, Left>,
    arrived: HashMap<(u64, u64), Vec<Arrived>>,
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
        strength: Strength,
        line: u32,
    ) -> Result<(), String> {
        let mut state = self.state();
        state.time += 1;
        let reach = match strength.is_strong() {
            false => Reach::Weak,
            true if strength.block_only => Reach::Block,
            true => Reach::Device,
        };
        let event = Event { who, time: state.time, line, writes: kind != Access::Read, reach };
        if reach != Reach::Weak {
            state.exchange(who, memory, kind, strength);
        }
        for byte in 0..u64::from(bytes) {
            state.note(memory.plus(byte), event, strength.order == Order::Constant)?;
        }
        Ok(())
    }

    /// Threads come to a barrier of the block, and wait there or not.
    pub(super) fn arrive(&self, block: u64, warp: u32, mask: u32, barrier: u64, waits: bool) {
        let mut state = self.state();
        let time = state.time;
        let arrived = threads_of(block, warp, mask).map(|who| {
            let knew = (!waits).then(|| state.threads.entry(who).or_default().knows.clone());
            Arrived { who, time, knew }
        });
        let arrived: Vec<Arrived> = arrived.collect();
        state.arrived.entry((block, barrier)).or_default().extend(arrived);
    }

    /// All have come.
    pub(super) fn meet(&self, block: u64, barrier: u64) {
        let mut state = self.state();
        let met = state.arrived.remove(&(block, barrier)).unwrap_or_default();
        let all = met.iter().filter(|arrived| arrived.knew.is_none()).count() >= self.threads;
        state.meet(&met, all.then_some(block));
    }

    /// Lanes meet at a `bar.warp.sync`.
    pub(super) fn warp_sync(&self, block: u64, warp: u32, mask: u32) {
        let mut state = self.state();
        let time = state.time;
        let met = threads_of(block, warp, mask).map(|who| Arrived { who, time, knew: None });
        state.meet(&met.collect::<Vec<_>>(), None);
    }

    pub(super) fn fence(&self, block: u64, warp: u32, mask: u32, device: bool) {
        let mut state = self.state();
        state.time += 1;
        threads_of(block, warp, mask).for_each(|who| state.fence(who, device));
    }
}

impl State {
    /// Those who wait know from now on what all did and knew when they came.
    fn meet(&mut self, met: &[Arrived], whole_block: Option<u64>) {
        self.time += 1;
        let mut all = Knowledge::default();
        for Arrived { who, knew, .. } in met {
            match knew {
                Some(knew) => all.learn(knew),
                None => all.learn(&self.threads.entry(*who).or_default().knows),
            }
        }
        match whole_block {
            Some(block) => {
                // What is known of the block covers what was known of its threads.
                all.threads.retain(|who, _| who.0 != block);
                all.blocks.insert(block, self.time);
            }
            None => {
                for Arrived { who, time, .. } in met {
                    let known = all.threads.entry(*who).or_default();
                    *known = (*known).max(*time);
                }
            }
        }
        for Arrived { who, .. } in met.iter().filter(|arrived| arrived.knew.is_none()) {
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
    fn exchange(&mut self, who: Who, memory: Memory, kind: Access, strength: Strength) {
        let time = self.time;
        let Strength { order, block_only } = strength;
        let thread = self.threads.entry(who).or_default();
        if kind != Access::Write
            && let Some(left) = self.places.get(&memory)
        {
            // What was published for a block reaches its own threads alone.
            if let Some(near) = left.near.get(&who.0) {
                thread.seen.near.learn(near);
            }
            if !block_only {
                thread.seen.far.learn(&left.far);
            }
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
            place.near.entry(who.0).or_default().learn(&published.near);
            if !block_only {
                place.far.learn(&published.far);
            }
        }
    }

    fn note(&mut self, memory: Memory, event: Event, constant: bool) -> Result<(), String> {
        let events = self.bytes.entry(memory).or_default();
        let knows = &self.threads.entry(event.who).or_default().knows;
        for other in events.iter() {
            let conflict = other.writes || event.writes;
            let weak = !event.is_strong_with(other);
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
        if event.writes && event.reach == Reach::Weak {
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
    Published { near, far }
}

fn threads_of(block: u64, warp: u32, mask: u32) -> impl Iterator<Item = Who> {
    (0..32).filter(move |lane| mask >> lane & 1 != 0).map(move |lane| (block, warp, lane))
}
