//! Loops.
//!
//! `ptxas` leaves loops as it finds them, and a short body then pays as much for its counter as for its work. So the body
//! is written several times in a row, with the counter of each; where the number of trips is not known, a second, plain
//! loop takes what is left.
//!
//! A loop that does nothing but arithmetic and leaves on a condition runs four trips before it looks at their four
//! conditions. What trips after the first true one computed is dropped: they had no effect but on locals, which get the values
//! of the trip that left.

use super::body::{Emit, Place, Reg, Width};
use vyre_foundation::ir::{Block, Literal, Local, Node, Operand, Value, walk};

/// Lines of a loop that becomes straight code.
const STRAIGHT_LINES_MAX: usize = 640;
/// Lines of a loop's body after unrolling.
const BODY_LINES_MAX: usize = 160;
/// Copies of a body where the trips are not known: more would leave many to the plain loop.
const COPIES_MAX: u32 = 4;
/// Lines that a tile product counts for.
const TILE_LINES: usize = 128;
/// Lines that unrolling may add to a program.
const ADDED_LINES_MAX: usize = 8192;

/// Lines in a row that end before a cancellation is awaited: the trips of an innermost loop together.
const UNSEEN_LINES_MAX: usize = 1 << 15;
/// Times around an innermost loop for one look at the cancel word: it is far away, and the loop waits for the answer.
const TRIPS_PER_LOOK: u32 = 32;

/// Trips whose conditions to leave are asked together. Each has a predicate until then, and a device has seven.
const ASKED_TOGETHER: u32 = 4;

/// How often a body is written.
struct Copies {
    count: u32,
    /// How many trips there are, if that is known.
    trips: Option<u32>,
    looks: Looks,
}

/// When a loop looks at the cancel word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    Never,
    /// Now and then.
    Sometimes,
    /// Each time around.
    Always,
}

/// Where a trip may leave its loop.
struct Left {
    /// Whether it or an earlier one did.
    gone: Reg,
    /// What its counter is above the register's, and what it knows there.
    count: u32,
    values: Vec<Reg>,
    locals: Vec<Reg>,
}

/// A local that a loop sets.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Set {
    local: Local,
    width: Width,
}

impl Copies {
    /// Whether trips may be left for a plain loop.
    fn leave_some(&self) -> bool {
        self.count == 1 || self.trips.is_none_or(|trips| !trips.is_multiple_of(self.count))
    }
}

impl Emit<'_> {
    pub(super) fn repeat(&mut self, counter: Value, bounds: [Operand; 2], step: u32, body: &Block) {
        let held = self.hold(body);
        if !held {
            self.finish_copies();
            // The loop may have no trips, so what is done in it is not done for what follows.
            self.fence_stores();
        }
        self.repeated(counter, bounds, step, body);
        if held {
            self.release();
        }
    }

    fn repeated(&mut self, counter: Value, [lo, hi]: [Operand; 2], step: u32, body: &Block) {
        let copies = self.copies([lo, hi], step, body);
        if copies.trips == Some(copies.count) {
            return self.straight(counter, lo, step, body, copies.count);
        }
        let (lo, hi) = (self.operand(lo), self.operand(hi));
        let end = self.new_label();
        let i = self.assign(Width::B32, &format!("mov.b32 {{}}, {lo}"));
        let over = self.op(Width::Pred, "setp.ge.u32", &[&i, &hi]);
        self.line(&format!("@{over} bra $L{end};"));
        let start = self.site + 1;
        let rest = self.new_label();
        if copies.count > 1 {
            self.unrolled_loop(counter, [&i, &hi], step, body, &copies, [rest, end]);
        }
        self.label(rest);
        if copies.leave_some() {
            self.site = start;
            // What several trips at a time leave is short.
            let looks = if copies.count > 1 { Looks::Never } else { copies.looks };
            self.plain_loop(counter, [&i, &hi], step, body, (end, looks));
        }
        self.label(end);
    }

    fn copies(&mut self, [lo, hi]: [Operand; 2], step: u32, body: &Block) -> Copies {
        let (mut lines, mut innermost, mut tiles) = (0, true, false);
        walk(body, |_, _, node| {
            let tile = matches!(node, Node::Mma { .. });
            tiles |= tile;
            lines += if tile { TILE_LINES } else { 1 };
            innermost &= !matches!(node, Node::For { .. });
        });
        let lines = lines.max(1) * self.coarse.lanes as usize;
        let literal = |operand: Operand| operand.literal().map(|literal| literal.bits() as u32);
        let trips = literal(lo).zip(literal(hi)).map(|(lo, hi)| hi.saturating_sub(lo).div_ceil(step));
        let room = ADDED_LINES_MAX.saturating_sub(self.unrolled);
        let fits = |copies: u32, most: usize| lines.saturating_mul(copies as usize) <= most.min(room);
        let count = match trips {
            _ if !innermost => 1,
            Some(trips) if fits(trips, STRAIGHT_LINES_MAX) => trips,
            // Nothing is left where the copies divide the trips.
            Some(trips) => {
                (1..=16).rev().find(|n| trips.is_multiple_of(*n) && fits(*n, BODY_LINES_MAX)).unwrap_or(1)
            }
            None => (1..=COPIES_MAX).rev().find(|n| fits(*n, BODY_LINES_MAX)).unwrap_or(1),
        };
        self.unrolled += lines * count.saturating_sub(1) as usize;
        let brief = |trips: u32| lines.saturating_mul(trips as usize) <= UNSEEN_LINES_MAX;
        let looks = match trips {
            _ if !self.options.poll => Looks::Never,
            _ if !innermost || tiles => Looks::Always,
            Some(trips) if brief(trips) => Looks::Never,
            // Counters of lanes differ, and lanes may not end one by one where others go on to a tile product.
            _ if !self.layout.products && brief(count.saturating_mul(2 * TRIPS_PER_LOOK)) => Looks::Sometimes,
            _ => Looks::Always,
        };
        Copies { count, trips, looks }
    }

    /// No loop at all.
    fn straight(&mut self, counter: Value, lo: Operand, step: u32, body: &Block, trips: u32) {
        let start = self.site + 1;
        let lo = lo.literal().map_or(0, |lo| lo.bits() as u32);
        let end = self.new_label();
        // The optimiser removes such loops. Should one be left, the lines below it must still find their facts.
        if trips == 0 {
            walk(body, |_, _, _| self.site += 1);
            self.site += 1;
        }
        for trip in 0..trips {
            let i = self.constant(Literal::u32(lo + trip * step));
            self.trip(counter, i, body, start, end);
        }
        self.label(end);
    }

    /// One copy of the body.
    fn trip(&mut self, counter: Value, i: Reg, body: &Block, start: u32, end: u32) {
        let next = self.new_label();
        self.bind(counter, i);
        self.site = start;
        self.begin_trip();
        self.loops.push((next, end));
        self.block(body);
        self.loops.pop();
        self.end_trip(self.loops.len());
        self.label(next);
    }

    /// A loop over several trips at a time. It goes to `rest` when fewer are left, and to `end` when none are.
    fn unrolled_loop(
        &mut self,
        counter: Value,
        [i, hi]: [&str; 2],
        step: u32,
        body: &Block,
        copies: &Copies,
        [rest, end]: [u32; 2],
    ) {
        let start = self.site + 1;
        let head = self.new_label();
        self.label(head);
        if copies.leave_some() {
            let left = self.op(Width::B32, "sub.u32", &[hi, i]);
            let before_last = u64::from(step) * u64::from(copies.count - 1);
            // More than any loop has left.
            let before_last = before_last.min(u64::from(u32::MAX)).to_string();
            let few = self.op(Width::Pred, "setp.le.u32", &[&left, &before_last]);
            self.line(&format!("@{few} bra $L{rest};"));
        }
        let locals = left_by_locals(body)
            .filter(|_| self.coarse.lanes == 1 && copies.count.is_multiple_of(ASKED_TOGETHER));
        for copy in 0..copies.count {
            // Many bodies never look at their counter, or only where they break: it is made where it is read.
            self.counters[counter.index()] = copy.wrapping_mul(step);
            match &locals {
                None => self.trip(counter, i.to_owned(), body, start, end),
                Some(locals) if copy.is_multiple_of(ASKED_TOGETHER) => {
                    self.bind(counter, i.to_owned());
                    self.ask_later((counter, step), body, locals, start, end);
                }
                Some(_) => {}
            }
        }
        self.counters[counter.index()] = 0;
        let last = (copies.count - 1).wrapping_mul(step).to_string();
        let last = self.op(Width::B32, "add.u32", &[i, &last]);
        self.look(copies.looks, &last, step.saturating_mul(copies.count));
        self.go_on([i, &last, hi], step, [head, end]);
        self.line(&format!("bra $L{end};"));
    }

    /// Several trips, and then a check whether one of them left the loop. The counter is that of the first.
    fn ask_later(
        &mut self,
        (counter, step): (Value, u32),
        body: &Block,
        locals: &[Set],
        start: u32,
        end: u32,
    ) {
        let before = self.registers_of(locals);
        let mut left: Vec<Left> = Vec::new();
        self.renames = true;
        for _ in 0..ASKED_TOGETHER {
            self.site = start;
            for node in body {
                if let Node::If { cond, then, .. } = node {
                    let mut gone = self.operand(*cond);
                    if let Some(earlier) = left.last() {
                        gone = self.op(Width::Pred, "or.pred", &[&gone, &earlier.gone]);
                    }
                    let count = self.counters[counter.index()];
                    left.push(Left {
                        gone,
                        count,
                        values: self.values[0].clone(),
                        locals: self.registers_of(locals),
                    });
                    self.site += 1 + then.len() as u32;
                } else {
                    self.node(node);
                    self.site += 1;
                }
            }
            self.counters[counter.index()] = self.counters[counter.index()].wrapping_add(step);
        }
        let (after, go_on) = (self.registers_of(locals), self.new_label());
        if let Some(last) = left.last() {
            self.line(&format!("@!{} bra $L{go_on};", last.gone));
        }
        let values = self.after_leaving(counter, body, locals, &left);
        self.renames = false;
        self.move_to(locals, &before, &values);
        self.line(&format!("bra $L{end};"));
        self.label(go_on);
        self.move_to(locals, &before, &after);
        self.keep_in(locals, &before);
    }

    /// What the first trip that left makes of the locals, knowing that one did.
    fn after_leaving(&mut self, counter: Value, body: &Block, locals: &[Set], left: &[Left]) -> Vec<Reg> {
        let exit =
            body.iter().find_map(|node| if let Node::If { then, .. } = node { Some(then) } else { None });
        let mut chosen: Vec<Reg> = Vec::new();
        for trip in left.iter().rev() {
            self.values[0].clone_from(&trip.values);
            self.counters[counter.index()] = trip.count;
            self.keep_in(locals, &trip.locals);
            let then = exit.into_iter().flatten().filter(|node| **node != Node::Break);
            then.for_each(|node| self.node(node));
            let own = self.registers_of(locals);
            chosen = match chosen.is_empty() {
                true => own,
                false => (0..own.len())
                    .map(|at| self.select(locals[at].width, &trip.gone, &own[at], &chosen[at]))
                    .collect(),
            };
        }
        chosen
    }

    fn registers_of(&mut self, locals: &[Set]) -> Vec<Reg> {
        let register = |place: &Place| match place {
            Place::Register(register) => register.clone(),
            Place::Nowhere | Place::Array { .. } => unreachable!("only locals in registers come here"),
        };
        locals.iter().map(|set| register(self.local(set.local))).collect()
    }

    fn keep_in(&mut self, locals: &[Set], registers: &[Reg]) {
        for (set, register) in locals.iter().zip(registers) {
            *self.local(set.local) = Place::Register(register.clone());
        }
    }

    fn move_to(&mut self, locals: &[Set], to: &[Reg], from: &[Reg]) {
        for ((set, to), from) in locals.iter().zip(to).zip(from) {
            self.line(&format!("mov.{} {to}, {from};", set.width.bits()));
        }
    }

    fn plain_loop(
        &mut self,
        counter: Value,
        [i, hi]: [&str; 2],
        step: u32,
        body: &Block,
        (end, looks): (u32, Looks),
    ) {
        let (start, head) = (self.site, self.new_label());
        self.label(head);
        self.trip(counter, i.to_owned(), body, start, end);
        self.look(looks, i, step);
        self.go_on([i, i, hi], step, [head, end]);
    }

    /// Looks at the cancel word at the end of a trip whose counter is `last`; the next one's is `stride` more.
    fn look(&mut self, looks: Looks, last: &str, stride: u32) {
        if looks == Looks::Never {
            return;
        }
        self.settle();
        let (Looks::Sometimes, Some([window, period])) = (looks, window(stride)) else {
            return self.poll();
        };
        let later = self.new_label();
        let place = self.op(Width::B32, "and.b32", &[last, &(period - 1).to_string()]);
        let outside = self.op(Width::Pred, "setp.ge.u32", &[&place, &window.to_string()]);
        self.line(&format!("@{outside} bra $L{later};"));
        self.poll();
        self.label(later);
    }

    /// Counts on from the last trip, whose counter is `last`, and goes to `head`, or to `end` after the last one.
    fn go_on(&mut self, [i, last, hi]: [&str; 3], step: u32, [head, end]: [u32; 2]) {
        if step == 1 {
            // Below `hi`, one more cannot wrap.
            self.line(&format!("add.u32 {i}, {last}, 1;"));
            let more = self.op(Width::Pred, "setp.lt.u32", &[i, hi]);
            self.line(&format!("@{more} bra $L{head};"));
            return;
        }
        // `hi - last` counts what is left, so the counter never passes `hi` and never wraps.
        let left = self.op(Width::B32, "sub.u32", &[hi, last]);
        let over = self.op(Width::Pred, "setp.le.u32", &[&left, &step.to_string()]);
        self.line(&format!("@{over} bra $L{end};"));
        self.line(&format!("add.u32 {i}, {last}, {step};"));
        self.line(&format!("bra $L{head};"));
    }
}

/// A loop looks where its counter modulo the second number is below the first. No trip can pass over that: the window is as
/// wide as the stride, or wider.
fn window(stride: u32) -> Option<[u32; 2]> {
    let window = stride.checked_next_power_of_two()?;
    Some([window, window.checked_mul(TRIPS_PER_LOOK)?])
}

/// The locals that a body sets, if it is arithmetic with one place where it leaves its loop.
fn left_by_locals(body: &Block) -> Option<Vec<Set>> {
    let mut locals = Vec::new();
    let mut is_plain = |node: &Node| match node {
        Node::Compute { .. } | Node::Builtin { .. } | Node::Len { .. } => true,
        Node::Get { index, .. } => index.is_none(),
        Node::Set { local, ty, index: None, .. } => {
            let set = Set { local: *local, width: Width::of(*ty) };
            if !locals.contains(&set) {
                locals.push(set);
            }
            true
        }
        _ => false,
    };
    let mut exits = 0;
    for node in body {
        match node {
            Node::If { then, otherwise, .. } => {
                let (last, before) = then.split_last()?;
                let leaves = *last == Node::Break && otherwise.is_empty() && before.iter().all(&mut is_plain);
                exits += 1;
                leaves.then_some(())?;
            }
            other => is_plain(other).then_some(())?,
        }
    }
    (exits == 1).then_some(locals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_looks_once_in_a_while_wherever_it_starts() {
        for stride in [1, 2, 3, 4, 5, 7, 12, 16, 63, 64, 65, 1000, 0x3ff_ffff] {
            let [window, period] = window(stride).expect("the stride is small");
            for lo in [0u32, 1, 31, 32, 12_345, 0x7fff_fff0] {
                let looks = |trip: &u32| lo.wrapping_add(trip.wrapping_mul(stride)) % period < window;
                let seen: Vec<u32> = (0..1000).filter(looks).collect();
                let gaps = seen.windows(2).map(|two| two[1] - two[0]).chain([seen[0] + 1]);
                assert!(gaps.max() <= Some(2 * TRIPS_PER_LOOK), "stride {stride} from {lo}");
                assert!(seen.len() <= 2 * 1000 / TRIPS_PER_LOOK as usize + 2, "stride {stride} from {lo}");
            }
        }
        assert_eq!([0x0800_0001, u32::MAX].map(window), [None; 2]);
    }
}
