//! Control flow among lanes.
//!
//! Where all lanes that run go the same way, it is a branch. Where they part, the lanes of each way run under a mask, and a
//! way that no lane takes is skipped. A loop that lanes leave one by one goes on while any is left.

use super::atomic::Atomic;
use super::{Bases, Exec, Lanes, Linear, Loop, Lower, Val, Var, uniform_kind, varying_kind};
use crate::vector::code::{Address, Elem, IntCond, IntOp, Kind, MaskOp, Op, Reg, Rmw};
use smallvec::SmallVec;
use vyre_foundation::ir::{Block, ComputeOp, DataType, Local, Node, Operand, Value, collective};

/// A loop's bounds, all uniform.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    pub(super) counter: Value,
    pub(super) lo: Reg,
    pub(super) hi: Reg,
    pub(super) step: u32,
    pub(super) site: u32,
}

/// Lines of a block that are cheaper to run under an empty mask than to jump over.
const INLINE_LINES_MAX: u32 = 3;
/// Lines behind a `break` that are worth a jump if no lane is left.
const SKIP_LINES_MIN: u32 = 6;
/// Lines of a block that may be there twice, with and without masks.
const COPIED_LINES_MAX: u32 = 300;
/// How deep lines nest that are there with and without masks.
const COPIES_MAX: u32 = 3;
/// Trips of an innermost loop that needs no look at whether to stop.
const UNPOLLED_TRIPS_MAX: u64 = 256;
/// How deep rests of blocks nest.
const SKIPS_MAX: usize = 8;

impl<'a> Lower<'a> {
    pub(super) fn lane_block(&mut self, block: &'a [Node], first: u32, skips: usize) {
        let (mut site, mut done) = (first, 0);
        for (at, node) in block.iter().enumerate() {
            let info = self.plan.lines[site as usize];
            if at < done {
                site += info.size;
                continue;
            }
            let together = self.atomics_together(&block[at..], site);
            if together > 1 {
                done = at + together;
                site += info.size;
                continue;
            }
            self.lane_line(node, site);
            if !self.b.is_open() || matches!(node, Node::Break | Node::Continue) {
                return;
            }
            site += info.size;
            let apart = matches!(self.loops.last(), Some(Loop::Apart { .. }));
            if info.leaves && apart && skips < SKIPS_MAX {
                let rest = &block[at + 1..];
                let left: u32 = self.sizes(rest, site);
                if left >= SKIP_LINES_MIN
                    && let Some(masks) = self.exec.masks.clone()
                {
                    let after =
                        self.skip_if_none(masks, rest, true, |this| this.lane_block(rest, site, skips + 1));
                    self.set_exec(after);
                    return;
                }
            }
        }
    }

    fn sizes(&self, block: &[Node], first: u32) -> u32 {
        block
            .iter()
            .fold((first, 0), |(site, sum), _| {
                let size = self.plan.lines[site as usize].size;
                (site + size, sum + size)
            })
            .1
    }

    pub(super) fn lane_line(&mut self, node: &'a Node, site: u32) {
        self.set_site(site);
        if let Some(result) = node.result()
            && self.plan.uniform[result.index()]
            && !matches!(node, Node::For { .. })
        {
            // What is the same for the grid may be known from the start.
            if self.values[result.index()].is_none() {
                self.uniform_line(node);
            }
            return;
        }
        match node {
            Node::Compute { result, op, ty, args } => {
                let val = self.compute_line(*result, *op, *ty, args);
                self.define(*result, val);
            }
            Node::Builtin { result, op, axis } => {
                let val = self.builtin(*op, *axis);
                self.define(*result, val);
            }
            Node::Subgroup { result, op, ty, args } => {
                let val = self.subgroup(*op, *ty, args);
                self.define(*result, val);
            }
            Node::Load { result, ty, buffer, index } => {
                let val = self.load(*ty, *buffer, *index, site);
                self.define(*result, val);
            }
            Node::Store { ty, buffer, index, value } => self.store(*ty, *buffer, *index, *value, site),
            Node::Atomic { result, op, ty, buffer, index, args } => {
                let line = Atomic { op: *op, ty: *ty, buffer: *buffer, index: *index, args };
                let old = self.atomic(line, result.is_some(), site);
                if let (Some(result), Some(old)) = (result, old) {
                    self.define(*result, Val::Varying(old, None));
                }
            }
            Node::Var { local, len, init, ty } => match len {
                None => {
                    self.local_versions[local.index()] = self.exec.version;
                    self.assign(*local, *init, false);
                }
                Some(len) => self.array_fill(*local, *ty, *len, *init),
            },
            Node::Get { result, ty, local, index } => {
                let val = match index {
                    None => self.local(*local),
                    Some(index) => self.array_get(*local, *ty, *index, site),
                };
                self.define(*result, val);
            }
            Node::Set { local, index, value, ty } => match index {
                None => self.assign(*local, *value, true),
                Some(index) => self.array_set(*local, *ty, *index, *value, site),
            },
            Node::If { cond, then, otherwise } => self.lane_if(*cond, then, otherwise, site),
            Node::For { counter, lo, hi, step, body } => {
                self.lane_for(*counter, [*lo, *hi], *step, body, site);
            }
            Node::Break => self.leave(false),
            Node::Continue => self.leave(true),
            Node::Trap { code } => self.trap(*code),
            Node::Mma { m, n, k, c, a, b } => self.mma([*m, *n, *k], [c, a, b]),
            // Lanes in flight run line by line, so these order nothing that is not in order.
            Node::Barrier { .. } | Node::IndirectDispatch { .. } => {}
            Node::Len { .. } | Node::UniformLoad { .. } => unreachable!("uniform lines"),
            Node::Call { .. } | Node::Return { .. } | collective!() => {
                unreachable!("prepared: inlined, and rewritten")
            }
        }
    }

    /// A line whose result, or local, is the same for all lanes.
    pub(super) fn uniform_line(&mut self, node: &'a Node) {
        match node {
            Node::Compute { result, op, ty, args } => {
                let val = self.compute_line(*result, *op, *ty, args);
                self.set_value(*result, val);
            }
            Node::Builtin { result, op, axis } => {
                let val = self.builtin(*op, *axis);
                self.set_value(*result, val);
            }
            Node::Len { result, buffer } => {
                let len = self.buffer(*buffer).len;
                self.set_value(*result, Val::Uniform(len));
            }
            Node::Load { result, ty, buffer, index } | Node::UniformLoad { result, ty, buffer, index } => {
                let reg = self.load_uniform(*ty, *buffer, *index);
                self.set_value(*result, Val::Uniform(reg));
            }
            Node::Subgroup { result, op, ty, args } => {
                let reg = self.reduce_all(*op, *ty, args);
                self.set_value(*result, Val::Uniform(reg));
            }
            Node::Get { result, local, .. } => {
                let val = self.local(*local);
                self.set_value(*result, val);
            }
            Node::Set { local, value, .. } | Node::Var { local, init: value, .. } => {
                let reg = self.scalar(*value);
                self.set_local(*local, Val::Uniform(reg));
            }
            other => unreachable!("{other:?} is not uniform"),
        }
    }

    fn define(&mut self, value: Value, val: Val) {
        if let (Some(slot), Some(_)) = (self.value_slots[value.index()], self.group) {
            self.store_slot(slot, self.plan.types[value.index()], &val);
        }
        self.set_value(value, val);
    }

    // Locals.

    /// What a local is now.
    pub(super) fn local(&mut self, local: Local) -> Val {
        if let Some(val) = &self.locals[local.index()] {
            return val.clone();
        }
        let slot = self.local_slots[local.index()]
            .unwrap_or_else(|| unreachable!("${} is used where it is not known", local.0));
        let val = self.load_slot(slot, self.plan.locals[local.index()].ty);
        self.set_local(local, val.clone());
        val
    }

    /// Assigns a local for the lanes that run; the others keep what they have, unless it is just being declared.
    fn assign(&mut self, local: Local, value: Operand, keep_others: bool) {
        let info = self.plan.locals[local.index()];
        if info.uniform {
            let reg = self.scalar(value);
            return self.set_local(local, Val::Uniform(reg));
        }
        let same_lanes = self.local_versions[local.index()] == self.exec.version;
        let masks = self.exec.masks.clone().filter(|_| keep_others && !same_lanes);
        let val = match masks {
            None => match value {
                Operand::Value(value) => match self.value(value) {
                    Val::Varying(lanes, line) => Val::Varying(lanes, line),
                    uniform @ Val::Uniform(_) => Val::Varying(self.spread(&uniform, info.ty), None),
                },
                Operand::Literal(_) => Val::Varying(self.vectors(value), None),
            },
            Some(masks) => {
                let old = self.local(local);
                let (new, old) = (self.vectors(value), self.spread(&old, info.ty));
                let blend = |at: usize| self.choose(masks[at], new[at], old[at]);
                Val::Varying((0..new.len()).map(blend).collect(), None)
            }
        };
        if self.local_slots[local.index()].is_some() && !self.dirty.contains(&local) {
            self.dirty.push(local);
        }
        self.set_local(local, val);
    }

    // Masks.

    pub(super) fn set_exec(&mut self, masks: Lanes) {
        self.versions += 1;
        self.exec = Exec { masks: Some(masks), version: self.versions };
    }

    /// The lanes that run, of those in `masks`.
    pub(super) fn running(&mut self, masks: &[Reg]) -> Lanes {
        match self.exec.masks.clone() {
            None => masks.into(),
            Some(exec) => self.zip_masks(MaskOp::And, &exec, masks),
        }
    }

    pub(super) fn exec_masks(&mut self) -> Lanes {
        match &self.exec.masks {
            Some(masks) => masks.clone(),
            None => {
                let all = self.mask_all();
                SmallVec::from_elem(all, self.vectors)
            }
        }
    }

    pub(super) fn zip_masks(&mut self, op: MaskOp, a: &[Reg], b: &[Reg]) -> Lanes {
        a.iter().zip(b).map(|(a, b)| self.b.emit(Op::Mask(op, *a, *b))).collect()
    }

    /// The masks in one: a branch on it asks whether any lane of any vector is on.
    pub(super) fn any(&mut self, masks: &[Reg]) -> Reg {
        let mut any = masks[0];
        for mask in &masks[1..] {
            any = self.b.emit(Op::Mask(MaskOp::Or, any, *mask));
        }
        any
    }

    // Merges.

    /// The registers of `vars`, one after the other.
    pub(super) fn state(&mut self, vars: &[Var]) -> Vec<Reg> {
        let mut regs = Vec::new();
        for var in vars {
            match var {
                Var::Local(local) => match self.local(*local) {
                    Val::Uniform(reg) => regs.push(reg),
                    Val::Varying(lanes, _) => regs.extend(lanes),
                },
                Var::Exec => regs.extend(self.exec_masks()),
                Var::Continued => regs.extend(self.continued.iter().copied()),
            }
        }
        regs
    }

    /// Takes `vars` as parameters of the block that was just begun.
    pub(super) fn bind(&mut self, vars: &[Var]) {
        for var in vars {
            match var {
                Var::Local(local) => {
                    let info = self.plan.locals[local.index()];
                    let val = if info.uniform {
                        Val::Uniform(self.b.param(uniform_kind(info.ty)))
                    } else {
                        Val::Varying(self.params(varying_kind(info.ty)), None)
                    };
                    self.set_local(*local, val);
                }
                Var::Exec => {
                    let masks = self.params(Kind::Mask);
                    self.set_exec(masks);
                }
                Var::Continued => self.continued = self.params(Kind::Mask),
            }
        }
    }

    fn params(&mut self, kind: Kind) -> Lanes {
        (0..self.vectors).map(|_| self.b.param(kind)).collect()
    }

    /// A branch that all lanes take together.
    pub(super) fn fork(
        &mut self,
        cond: Reg,
        vars: &[Var],
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        self.fork_every(&[cond], vars, then, otherwise);
    }

    /// A branch that all lanes take together, on several conditions that must all hold.
    pub(super) fn fork_every(
        &mut self,
        conds: &[Reg],
        vars: &[Var],
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let (exec, continued, mark) = (self.exec.clone(), self.continued.clone(), self.mark());
        if let Some(holds) = self.is_decided(conds) {
            if holds {
                then(self)
            } else {
                otherwise(self)
            }
            if !vars.contains(&Var::Exec) {
                self.exec = exec;
            }
            if !vars.contains(&Var::Continued) {
                self.continued = continued;
            }
            return;
        }
        let (yes, no, join) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let known = self.b.known();
        self.branch_every(conds, yes, no);
        self.b.begin_behind(yes, known);
        self.deciding(conds, true, then);
        let mut joins = self.jump_to(join, vars);
        self.back_to(mark);
        (self.exec, self.continued) = (exec.clone(), continued.clone());
        self.b.begin_behind(no, known);
        self.deciding(conds, false, otherwise);
        joins |= self.jump_to(join, vars);
        self.back_to(mark);
        (self.exec, self.continued) = (exec, continued);
        if joins {
            self.b.begin_behind(join, known);
            self.bind(vars);
        }
    }

    /// Whether all conditions hold, where earlier branches on them tell.
    pub(super) fn is_decided(&self, conds: &[Reg]) -> Option<bool> {
        let found = |cond: &Reg| self.decided.iter().find(|(reg, _)| reg == cond).map(|(_, holds)| *holds);
        let all = conds.iter().all(|cond| found(cond) == Some(true));
        if all { Some(true) } else { conds.iter().any(|cond| found(cond) == Some(false)).then_some(false) }
    }

    /// Runs what stands where all conditions hold, or where not all do.
    pub(super) fn deciding<T>(&mut self, conds: &[Reg], hold: bool, lines: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.decided.len();
        if hold || conds.len() == 1 {
            self.decided.extend(conds.iter().map(|cond| (*cond, hold)));
        }
        let result = lines(self);
        self.decided.truncate(before);
        result
    }

    /// Jumps with `vars`, unless the code has already gone elsewhere.
    fn jump_to(&mut self, to: crate::vector::code::BlockId, vars: &[Var]) -> bool {
        let open = self.b.is_open();
        if open {
            let args = self.state(vars);
            self.b.jump(to, &args);
        }
        open
    }

    /// What a block that may leave a loop changes beside locals.
    fn leaving_vars(&self, leaves: bool) -> &'static [Var] {
        match self.loops.last() {
            Some(Loop::Apart { continues: true }) if leaves => &[Var::Exec, Var::Continued],
            Some(Loop::Apart { continues: false }) if leaves => &[Var::Exec],
            _ => &[],
        }
    }

    fn lane_if(&mut self, cond: Operand, then: &'a Block, otherwise: &'a Block, site: u32) {
        let info = self.plan.lines[site as usize];
        let together = match self.plan.is_uniform(cond) {
            true => Some(self.scalar(cond)),
            false => self.flat_condition(cond),
        };
        if let Some(cond) = together {
            let mut vars = self.assigned(&[then, otherwise], false);
            vars.extend(self.leaving_vars(info.leaves));
            return self.fork(
                cond,
                &vars,
                |this| this.lane_block(then, site + 1, 0),
                |this| this.lane_block(otherwise, info.else_site, 0),
            );
        }
        // The masked copy has no further copies in it, so a line is there once more for each level.
        let copies = !info.leaves && self.copies < COPIES_MAX && info.size <= COPIED_LINES_MAX;
        match if copies { self.whole_group(cond, 4) } else { None } {
            Some(whole) => {
                let vars = self.assigned(&[then, otherwise], false);
                self.copies += 1;
                self.fork_every(
                    &whole,
                    &vars,
                    |this| this.lane_block(then, site + 1, 0),
                    |this| {
                        this.b.enter_cold();
                        this.part(cond, then, otherwise, site);
                        this.b.leave_cold();
                    },
                );
                self.copies -= 1;
            }
            None => self.part(cond, then, otherwise, site),
        }
    }

    /// Whether a condition holds for all lanes in flight, where one look tells: `S32`s that must all hold. Such are `i < n`
    /// and `i > n` with lanes in a row, what is the same for the lanes in flight, and both of two such. `depth` bounds the
    /// search.
    fn whole_group(&mut self, cond: Operand, depth: u32) -> Option<Lanes> {
        if self.exec.masks.is_some() || depth == 0 {
            return None;
        }
        let node = self.plan.defs[cond.value()?.index()]?;
        let Node::Compute { op, ty, args, .. } = node else { return None };
        if let (ComputeOp::And, DataType::Bool) = (op, ty) {
            let mut all = self.whole_group(args[0], depth - 1)?;
            all.extend(self.whole_group(args[1], depth - 1)?);
            return Some(all);
        }
        if let Some(holds) = self.steady_condition(cond) {
            return Some(holds);
        }
        let (small, large) = match (op, ty) {
            (ComputeOp::Lt, DataType::U32) => (args[0], args[1]),
            (ComputeOp::Gt, DataType::U32) => (args[1], args[0]),
            _ => return None,
        };
        let grows = |this: &mut Self, operand| this.line_of(operand).filter(|line| line.stride == 1);
        if let Some(line) = grows(self, small) {
            let limit = self.flat(large)?;
            let (starts, reach) = self.starts(&line);
            let more = self.b.int(IntOp::MaxU, limit, reach);
            let whole = self.b.int(IntOp::Sub, more, reach);
            return Some(starts.iter().map(|start| self.b.cmp(IntCond::LtU, *start, whole)).collect());
        }
        // The first lane is above the limit, and the last one has not wrapped.
        let line = grows(self, large)?;
        let limit = self.flat(small)?;
        let (starts, reach) = self.starts(&line);
        let above = starts.iter().map(|start| self.b.cmp(IntCond::LtU, limit, *start)).collect::<Lanes>();
        let last = self.b.int_const(IntOp::Xor, reach, u32::MAX.into());
        let straight = starts.iter().map(|start| self.b.cmp(IntCond::LeU, *start, last));
        Some(straight.chain(above).collect())
    }

    /// Where the rows of a line start, and how far the last lane of a row is from its first.
    fn starts(&mut self, line: &Linear) -> (Lanes, Reg) {
        let (starts, reach) = match &line.bases {
            Bases::Row(base) => (SmallVec::from_elem(*base, 1), self.stride() - 1),
            Bases::Each(bases) => (bases.clone(), self.lanes_per_vector() - 1),
        };
        (starts, self.b.const_(Kind::S32, reach.into()))
    }

    /// A comparison that comes out the same for the lanes of each vector: whether it holds, an `S32` for each.
    fn steady_condition(&mut self, cond: Operand) -> Option<Lanes> {
        let (op, ty, args) = self.comparison(cond)?;
        let (first, second) = (self.steady(args[0])?, self.steady(args[1])?);
        Some(first.iter().zip(&second).map(|(a, b)| self.compute(op, ty, ty, &[*a, *b])).collect())
    }

    /// The comparison of 32-bit integers that a condition is, if its operands are at hand: it may come from an earlier
    /// run, and what it was made of not.
    fn comparison(&self, cond: Operand) -> Option<(ComputeOp, DataType, [Operand; 2])> {
        let node = self.plan.defs[cond.value()?.index()]?;
        let Node::Compute { op, ty, args, .. } = node else { return None };
        let compares = matches!(
            op,
            ComputeOp::Eq | ComputeOp::Ne | ComputeOp::Lt | ComputeOp::Le | ComputeOp::Gt | ComputeOp::Ge
        );
        let fits = compares && matches!(ty, DataType::U32 | DataType::I32) && self.has_values(args);
        fits.then(|| (*op, *ty, [args[0], args[1]]))
    }

    /// A comparison that comes out the same for the lanes in flight, an `S32`.
    fn flat_condition(&mut self, cond: Operand) -> Option<Reg> {
        let (op, ty, args) = self.comparison(cond)?;
        let (first, second) = (self.flat(args[0])?, self.flat(args[1])?);
        Some(self.compute(op, ty, ty, &[first, second]))
    }

    fn has_values(&self, args: &[Operand]) -> bool {
        args.iter().all(|arg| {
            arg.value()
                .is_none_or(|value| self.values[value.index()].is_some() || self.plan.again[value.index()])
        })
    }

    /// An `if` on which lanes part.
    fn part(&mut self, cond: Operand, then: &'a Block, otherwise: &'a Block, site: u32) {
        let info = self.plan.lines[site as usize];
        let conds = self.vectors(cond);
        let exec = self.exec_masks();
        let yes = self.zip_masks(MaskOp::And, &exec, &conds);
        let no = self.zip_masks(MaskOp::AndNot, &exec, &conds);
        let before = self.exec.clone();
        let after_then = self.masked(yes, then, site + 1, info.leaves);
        let after_else =
            if otherwise.is_empty() { no } else { self.masked(no, otherwise, info.else_site, info.leaves) };
        if info.leaves {
            let left = self.zip_masks(MaskOp::Or, &after_then, &after_else);
            self.set_exec(left);
        } else {
            self.exec = before;
        }
    }

    /// Runs a block for some lanes; those of them that are still there afterwards.
    fn masked(&mut self, masks: Lanes, block: &'a Block, site: u32, leaves: bool) -> Lanes {
        // A local in one register for all lanes has no lanes to keep: its assignment must not run for nobody.
        let plain = block.iter().all(|node| match node {
            Node::Set { local, index: None, .. } => !self.plan.locals[local.index()].uniform,
            Node::Compute { .. } | Node::Get { index: None, .. } | Node::Break | Node::Continue => true,
            _ => false,
        });
        if plain && block.len() as u32 <= INLINE_LINES_MAX {
            self.set_exec(masks);
            self.lane_block(block, site, 0);
            return self.exec_masks();
        }
        self.skip_if_none(masks, block, leaves, |this| this.lane_block(block, site, 0))
    }

    /// Runs lines under a mask, or jumps over them if it is empty.
    fn skip_if_none(
        &mut self,
        masks: Lanes,
        lines: &'a [Node],
        leaves: bool,
        body: impl FnOnce(&mut Self),
    ) -> Lanes {
        let mut vars = self.assigned_in(lines);
        vars.extend(self.leaving_vars(leaves));
        let any = self.any(&masks);
        self.set_exec(masks.clone());
        self.fork(any, &vars, body, |_| {});
        if leaves { self.exec_masks() } else { masks }
    }

    fn leave(&mut self, goes_on: bool) {
        if matches!(self.loops.last(), Some(Loop::Together { .. })) {
            return self.leave_together(goes_on);
        }
        if goes_on {
            let (waiting, exec) = (self.continued.clone(), self.exec_masks());
            self.continued = self.zip_masks(MaskOp::Or, &waiting, &exec);
        }
        let none = self.mask_none();
        self.set_exec(SmallVec::from_elem(none, self.vectors));
    }

    // Loops.

    fn lane_for(&mut self, counter: Value, [lo, hi]: [Operand; 2], step: u32, body: &'a Block, site: u32) {
        let info = self.plan.lines[site as usize];
        if self.plan.is_uniform(lo) && self.plan.is_uniform(hi) && info.uniform_jumps {
            let (lo, hi) = (self.scalar(lo), self.scalar(hi));
            let vars = self.assigned(&[body], false);
            let looped = Counted { counter, lo, hi, step, site };
            return self.loop_unchecked(looped, vars, body);
        }
        self.loop_apart(counter, [lo, hi], step, body, site);
    }

    /// A loop of which all lanes that run make the same trips.
    pub(super) fn loop_together(&mut self, looped: Counted, vars: &[Var], body: impl FnOnce(&mut Self)) {
        let Counted { counter, lo, hi, step, site } = looped;
        let (head, exit, known) = (self.b.new_block(), self.b.new_block(), self.b.known());
        let next = self.plan.lines[site as usize].continues.then(|| self.b.new_block());
        let some = self.b.cmp(IntCond::LtU, lo, hi);
        let start = self.state(vars);
        let mut args = vec![lo];
        args.extend(&start);
        match self.b.constant(some) {
            Some(0) => return,
            Some(_) => self.b.jump(head, &args),
            None => {
                let (enter, skip) = (self.b.new_block(), self.b.new_block());
                self.b.branch(some, enter, skip);
                self.b.begin_behind(skip, known);
                self.b.jump(exit, &start);
                self.b.begin_behind(enter, known);
                self.b.jump(head, &args);
            }
        }
        let mark = self.mark();
        self.b.begin_behind(head, known);
        let count = self.b.param(Kind::S32);
        self.bind(vars);
        self.set_value(counter, Val::Uniform(count));
        self.loops.push(Loop::Together { exit, next, vars: vars.to_vec() });
        body(self);
        self.loops.pop();
        if let Some(next) = next {
            self.jump_to(next, vars);
            if self.b.is_target(next) {
                self.b.begin_behind(next, known);
                self.bind(vars);
            }
        }
        if self.b.is_open() {
            let next = self.b.int_const(IntOp::Add, count, step.into());
            let more = if step == 1 {
                self.b.cmp(IntCond::LtU, next, hi)
            } else {
                // The next count may wrap.
                let left = self.b.int(IntOp::Sub, hi, count);
                let step = self.b.const_(Kind::S32, step.into());
                self.b.cmp(IntCond::LtU, step, left)
            };
            let (again, out) = (self.b.new_block(), self.b.new_block());
            self.b.branch(more, again, out);
            let here = self.b.known();
            self.b.begin_behind(out, here);
            let end = self.state(vars);
            self.b.jump(exit, &end);
            self.b.begin_behind(again, here);
            self.poll_loop(site, lo, hi);
            let mut args = vec![next];
            args.extend(self.state(vars));
            self.b.jump(head, &args);
        }
        self.back_to(mark);
        self.b.begin_behind(exit, known);
        self.bind(vars);
    }

    /// A loop that lanes leave one by one.
    fn loop_apart(&mut self, counter: Value, [lo, hi]: [Operand; 2], step: u32, body: &'a Block, site: u32) {
        let one_counter = self.plan.uniform[counter.index()];
        let (lows, highs) = (self.vectors(lo), self.vectors(hi));
        let some: Lanes =
            lows.iter().zip(&highs).map(|(lo, hi)| self.b.cmp(IntCond::LtU, *lo, *hi)).collect();
        let active = self.running(&some);
        let before = self.exec.clone();
        let outer = self.continued.clone();
        let mut vars = self.assigned(&[body], false);
        let counts: Lanes = if one_counter { SmallVec::from_elem(self.scalar(lo), 1) } else { lows };
        let (head, exit, known) = (self.b.new_block(), self.b.new_block(), self.b.known());
        let any = self.any(&active);
        if self.b.constant(any).is_none_or(|bits| bits == 0) {
            let (enter, skip) = (self.b.new_block(), self.b.new_block());
            let start = self.state(&vars);
            self.b.branch(any, enter, skip);
            self.b.begin_behind(skip, known);
            self.b.jump(exit, &start);
            self.b.begin_behind(enter, known);
        }
        self.set_exec(active);
        vars.push(Var::Exec);
        let mut args: Vec<Reg> = counts.to_vec();
        args.extend(self.state(&vars));
        self.b.jump(head, &args);

        let mark = self.mark();
        self.b.begin_behind(head, known);
        let kind = if one_counter { Kind::S32 } else { Kind::V32 };
        let counts: Lanes = counts.iter().map(|_| self.b.param(kind)).collect();
        self.bind(&vars);
        let val = if one_counter { Val::Uniform(counts[0]) } else { Val::Varying(counts.clone(), None) };
        self.set_value(counter, val.clone());
        let none = self.mask_none();
        self.continued = SmallVec::from_elem(none, self.vectors);
        let continues = self.plan.lines[site as usize].continues;
        self.loops.push(Loop::Apart { continues });
        self.lane_block(body, site + 1, 0);
        self.loops.pop();

        // Who is still there or waited, and has trips left.
        let (exec, waiting) = (self.exec_masks(), self.continued.clone());
        let mut on = self.zip_masks(MaskOp::Or, &exec, &waiting);
        let (again, out) = (self.b.new_block(), self.b.new_block());
        if one_counter && self.plan.is_uniform(hi) {
            // One look at the counter tells for all.
            let (limit, step) = (self.scalar(hi), self.b.const_(Kind::S32, step.into()));
            let left = self.b.int(IntOp::Sub, limit, counts[0]);
            let more = self.b.cmp(IntCond::LtU, step, left);
            let (go_on, last) = (self.b.new_block(), self.b.new_block());
            self.b.branch(more, go_on, last);
            let here = self.b.known();
            self.b.begin_behind(last, here);
            let locals = &vars[..vars.len() - 1];
            let end = self.state(locals);
            self.b.jump(exit, &end);
            self.b.begin_behind(go_on, here);
        } else {
            let counts_now = self.spread(&val, DataType::U32);
            let step = self.b.const_(Kind::V32, step.into());
            let trips: Lanes = (0..self.vectors)
                .map(|at| {
                    let left = self.b.int(IntOp::Sub, highs[at], counts_now[at]);
                    self.b.cmp(IntCond::LtU, step, left)
                })
                .collect();
            on = self.zip_masks(MaskOp::And, &on, &trips);
        }
        let any = self.any(&on);
        self.b.branch(any, again, out);
        let here = self.b.known();
        self.b.begin_behind(out, here);
        vars.pop();
        let end = self.state(&vars);
        self.b.jump(exit, &end);
        self.b.begin_behind(again, here);
        self.poll();
        let mut args: Vec<Reg> =
            counts.iter().map(|count| self.b.int_const(IntOp::Add, *count, step.into())).collect();
        args.extend(self.state(&vars));
        args.extend(&on);
        self.b.jump(head, &args);
        self.back_to(mark);
        (self.exec, self.continued) = (before, outer);
        self.b.begin_behind(exit, known);
        self.bind(&vars);
    }

    /// Looks whether to stop, except in innermost loops of a few trips.
    fn poll_loop(&mut self, site: u32, lo: Reg, hi: Reg) {
        let trips = match (self.b.constant(lo), self.b.constant(hi)) {
            (Some(lo), Some(hi)) => hi.saturating_sub(lo),
            _ => u64::MAX,
        };
        let innermost = !self.plan.has_loop_inside(site);
        if trips > UNPOLLED_TRIPS_MAX || !innermost {
            self.poll();
        }
    }

    /// Records a trap if any lane is here.
    fn trap(&mut self, code: u32) {
        let record = |this: &mut Self| {
            let at = Address { base: this.context, index: None, disp: super::context::TRAP };
            let value = this.b.const_(Kind::S32, code.into());
            this.b.emit(Op::Rmw { op: Rmw::MinU, elem: Elem::B32, at, value, shared: true });
        };
        match self.exec.masks.clone() {
            None => record(self),
            Some(masks) => {
                let any = self.any(&masks);
                self.fork(any, &[], record, |_| {});
            }
        }
    }
}
