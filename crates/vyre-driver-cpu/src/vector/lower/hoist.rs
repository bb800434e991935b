//! Checks of accesses that a loop need not make on each trip.
//!
//! An innermost loop stands there twice: without checks of the lines whose index grows with the counter and stays in bounds
//! on the last trip, and with all checks. Which one runs is decided before the first trip. The greatest index that any lane
//! could have is computed in 64 bits, where nothing wraps: an index that would wrap in 32 bits is out of bounds here. So an
//! index that is a sum may be taken apart: what the loop does not change becomes part of an address before it.
//!
//! Not here: indices that shrink, and those of atomics and private arrays.

use super::lane::Counted;
use super::{Bases, Linear, Lower, Val, Var};
use crate::vector::code::{Address, Elem, IntCond, IntOp, Kind, Num, Reg, ShiftOp};
use std::ops::Range;
use vyre_foundation::ir::{Block, BufferId, ComputeOp, DataType, Node, Operand, Value};

/// Lines of a loop that may be there twice.
const LINES_MAX: u32 = 100;
/// How deep an index may be computed.
const DEPTH_MAX: u32 = 6;
/// Steps from lane to lane that are looked at.
const STRIDE_MAX: u32 = 1 << 16;
/// No buffer has as many elements; twice that fits 64 bits, and a few times more.
const BEYOND: u64 = 1 << 60;

/// An access whose elements are there on all trips of a loop.
#[derive(Clone)]
pub(super) struct Assumed {
    pub(super) site: u32,
    /// The part of the address that the loop does not change, if it could be taken apart.
    split: Option<Split>,
}

#[derive(Clone)]
struct Split {
    /// Addresses, `S64`.
    bases: Bases,
    /// Elements from lane to lane: 0 or 1.
    stride: u32,
    /// What is added to the index on a trip.
    inside: Option<Operand>,
}

/// An access that may be assumed.
struct Access {
    site: u32,
    buffer: BufferId,
    index: Operand,
}

/// What an index is the greatest of.
struct Span {
    counter: Value,
    /// The counter's greatest value, an `S64`.
    last: Reg,
    /// The sites of the loop's lines.
    inside: Range<u32>,
}

impl<'a> Lower<'a> {
    /// A loop of which all lanes make the same trips, without the checks that can be made before it.
    pub(super) fn loop_unchecked(&mut self, looped: Counted, vars: Vec<Var>, body: &'a Block) {
        let site = looped.site;
        let before = self.assumed.len();
        let (conds, accesses, inside) = self.in_bounds_throughout(&looped, body);
        let go = |this: &mut Self| {
            this.loop_together(looped, &vars, |this| this.lane_block(body, site + 1, 0));
        };
        if conds.is_empty() {
            return go(self);
        }
        self.fork_every(
            &conds,
            &vars,
            |this| {
                for access in accesses {
                    let split = this.split(&access, &inside);
                    this.assumed.push(Assumed { site: access.site, split });
                }
                go(this);
                this.assumed.truncate(before);
            },
            |this| {
                this.b.enter_cold();
                go(this);
                this.b.leave_cold();
            },
        );
    }

    /// Conditions under which the elements of some lines of a loop are there on all trips, those lines, and all sites.
    fn in_bounds_throughout(
        &mut self,
        looped: &Counted,
        body: &'a Block,
    ) -> (Vec<Reg>, Vec<Access>, Range<u32>) {
        let info = self.plan.lines[looped.site as usize];
        let (mut conds, mut found) = (Vec::new(), Vec::new());
        let inside = looped.site + 1..looped.site + info.size;
        if info.nested_loop || info.size > LINES_MAX || self.b.is_cold() {
            return (conds, found, inside);
        }
        let one = self.b.const_(Kind::S32, 1);
        let last = self.b.int(IntOp::Sub, looped.hi, one);
        let span = Span {
            counter: looped.counter,
            last: self.b.convert(Num::U32, Num::U64, last),
            inside: inside.clone(),
        };
        self.look_at(body, looped.site + 1, &span, &mut conds, &mut found);
        (conds, found, inside)
    }

    /// Takes an index apart: a sum of what the loop does not change, and at most one operand that is the same for all lanes.
    fn split(&mut self, access: &Access, sites: &Range<u32>) -> Option<Split> {
        let mut work = vec![access.index];
        let (mut inside, mut outside) = (None, Val::Uniform(self.b.const_(Kind::S32, 0)));
        while let Some(operand) = work.pop() {
            let changes = operand.value().filter(|value| {
                // A loop's counter has the loop's own site.
                (sites.start - 1..sites.end).contains(&self.plan.sites[value.index()])
            });
            let Some(value) = changes else {
                let val = match operand {
                    Operand::Literal(literal) => Val::Uniform(self.literal(literal)),
                    Operand::Value(value) => self.value(value),
                };
                outside = self.plus(outside, val);
                continue;
            };
            match self.plan.defs[value.index()] {
                Some(Node::Compute { op: ComputeOp::Add, args, .. }) => work.extend(args.iter()),
                _ if inside.is_none() && self.plan.uniform[value.index()] => inside = Some(operand),
                _ => return None,
            }
        }
        let line = match outside {
            Val::Uniform(reg) => Linear { bases: Bases::Row(reg), stride: 0 },
            Val::Varying(_, line) => line.filter(|line| line.stride <= 1)?,
        };
        let start = self.buffer(access.buffer).base;
        let size = self.plan.parts.buffer(access.buffer).ty.bytes().trailing_zeros();
        let address = |this: &mut Self, base: &Reg| {
            let wide = this.b.convert(Num::U32, Num::U64, *base);
            let bytes = this.b.shift_const(ShiftOp::Shl, wide, size);
            this.b.int(IntOp::Add, start, bytes)
        };
        let bases = match &line.bases {
            Bases::Row(base) => Bases::Row(address(self, base)),
            Bases::Each(bases) => Bases::Each(bases.iter().map(|base| address(self, base)).collect()),
        };
        Some(Split { bases, stride: line.stride, inside })
    }

    /// The addresses of the vectors in flight, or of what their lanes share, in a line that was taken apart.
    pub(super) fn assumed_addresses(&mut self, site: u32, elem: Elem) -> Option<Vec<Address>> {
        let Assumed { split, .. } = self.assumed.iter().find(|assumed| assumed.site == site)?;
        let Split { bases, stride, inside } = split.clone()?;
        let index = inside.map(|inside| {
            let reg = self.scalar(inside);
            (self.b.convert(Num::U32, Num::U64, reg), elem.bytes() as u8)
        });
        let vector = (self.lanes_per_vector() * elem.bytes() * stride) as i32;
        Some(match bases {
            Bases::Row(base) => (0..self.vectors as i32)
                .map(|number| Address { base, index, disp: number * vector })
                .collect(),
            Bases::Each(bases) => bases.into_iter().map(|base| Address { base, index, disp: 0 }).collect(),
        })
    }

    fn look_at(
        &mut self,
        block: &'a Block,
        first: u32,
        span: &Span,
        conds: &mut Vec<Reg>,
        found: &mut Vec<Access>,
    ) {
        let mut site = first;
        for node in block {
            let info = self.plan.lines[site as usize];
            for (at, inner) in node.blocks().enumerate() {
                let start = if at == 0 { site + 1 } else { info.else_site };
                self.look_at(inner, start, span, conds, found);
            }
            if let Node::Load { ty, buffer, index, .. } | Node::Store { ty, buffer, index, .. } = node
                && !self.plan.facts.in_bounds(None, site)
                && *ty == self.plan.parts.buffer(*buffer).ty
                && let Some(greatest) = self.greatest(*index, span, DEPTH_MAX)
            {
                let len = self.buffer(*buffer).len;
                let len = self.b.convert(Num::U32, Num::U64, len);
                conds.push(self.b.cmp(IntCond::LtU, greatest, len));
                found.push(Access { site, buffer: *buffer, index: *index });
            }
            site += info.size;
        }
    }

    /// The greatest value of an index on any trip for any lane in flight, an `S64`; more if the index would wrap.
    fn greatest(&mut self, index: Operand, span: &Span, depth: u32) -> Option<Reg> {
        let Operand::Value(value) = index else {
            let reg = self.scalar(index);
            return Some(self.b.convert(Num::U32, Num::U64, reg));
        };
        if value == span.counter {
            return Some(span.last);
        }
        if self.plan.ty(index) != DataType::U32 || depth == 0 {
            return None;
        }
        if !span.inside.contains(&self.plan.sites[value.index()]) {
            return self.greatest_outside(value);
        }
        let Node::Compute { op, args, .. } = self.plan.defs[value.index()]? else { return None };
        let (a, b) = (args[0], *args.get(1)?);
        let sum = match op {
            ComputeOp::Add => {
                let (a, b) = (self.greatest(a, span, depth - 1)?, self.greatest(b, span, depth - 1)?);
                self.b.int(IntOp::Add, a, b)
            }
            // Factors below 2^32 have a product below 2^64.
            ComputeOp::Mul => {
                let (a, b) = (self.factor(a, span)?, self.factor(b, span)?);
                self.b.int(IntOp::Mul, a, b)
            }
            ComputeOp::Shl => {
                let a = self.factor(a, span)?;
                self.b.shift_const(ShiftOp::Shl, a, b.literal()?.bits() as u32 % 32)
            }
            _ => return None,
        };
        let beyond = self.b.const_(Kind::S64, BEYOND);
        Some(self.b.int(IntOp::MinU, sum, beyond))
    }

    /// The greatest value of an operand that is the same for the lanes in flight: below 2^32.
    fn factor(&mut self, operand: Operand, span: &Span) -> Option<Reg> {
        let counter = operand.value() == Some(span.counter);
        let inside =
            operand.value().is_some_and(|value| span.inside.contains(&self.plan.sites[value.index()]));
        if !counter && (inside || self.flat(operand).is_none()) {
            return None;
        }
        self.greatest(operand, span, 1)
    }

    /// The greatest value for any lane in flight of what the loop does not change.
    fn greatest_outside(&mut self, value: Value) -> Option<Reg> {
        if self.values[value.index()].is_none() && !self.plan.again[value.index()] {
            return None;
        }
        let (starts, stride, lanes) = match self.value(value) {
            Val::Uniform(reg) => (vec![reg], 0, 1),
            Val::Varying(_, Some(Linear { bases: Bases::Row(base), stride })) => {
                (vec![base], stride, self.stride())
            }
            Val::Varying(_, Some(Linear { bases: Bases::Each(bases), stride })) => {
                (bases.to_vec(), stride, self.lanes_per_vector())
            }
            Val::Varying(_, None) => return None,
        };
        if stride > STRIDE_MAX {
            return None;
        }
        let wide: Vec<Reg> = starts.iter().map(|reg| self.b.convert(Num::U32, Num::U64, *reg)).collect();
        let first = wide[1..].iter().fold(wide[0], |most, reg| self.b.int(IntOp::MaxU, most, *reg));
        Some(self.b.int_const(IntOp::Add, first, u64::from(stride) * u64::from(lanes - 1)))
    }
}
