//! Blocks: branches, loops, functions, and the main body that holds them together.

use super::body::{Builder, Frame, Known, Level, literal_u32};
use super::memory::{Pattern, Team};
use super::sync::barrier;
use smallvec::smallvec;
use vyre_foundation::ir::{
    Block, BuiltinOp, ComputeOp, DataType, Function, FunctionId, Node, Operand, Value,
};

/// The bounds of a loop, and the most trips they allow.
struct Bounds {
    lo: Operand,
    hi: Operand,
    step: u32,
    trips_max: u32,
}

impl Builder<'_> {
    pub(super) fn main_body(&mut self) {
        self.declare_folds();
        self.declare_ids();
        self.load_inputs();
        self.frame.lines_left = self.config.lines;
        let phases = if self.config.barriers { self.draw.between(1, 4) } else { 1 };
        for phase in 0..phases {
            if phase > 0 && !self.draw.is_spent() {
                self.any_barrier();
            }
            self.traffic();
            self.lines(self.config.lines / phases);
        }
        self.read_back();
        self.fold_loose_values(0);
        self.store_folds();
    }

    /// Loads from workgroup memory once more, so that what was stored there last shows; but not always, because dead
    /// stores have their place too.
    fn read_back(&mut self) {
        let shared = self.reachable(|memory| memory.shared);
        if shared.is_empty() || self.draw.is_spent() || self.draw.chance(40) {
            return;
        }
        self.barrier(Team::Workgroup);
        for at in shared {
            self.memory[at].open_for_reading();
            let (ty, buffer) = (self.memory[at].ty, self.memory[at].buffer);
            let index = self.id(BuiltinOp::LocalIndex);
            self.assign(ty.computes_as(), Level::Varying, |result| Node::Load { result, ty, buffer, index });
        }
    }

    /// Stores the accumulators, mixed with the old contents, so that earlier stores count.
    fn store_folds(&mut self) {
        let Some(folds) = self.frame.folds else { return };
        for (at, local) in folds.into_iter().enumerate().take(if self.config.wide { 2 } else { 1 }) {
            let (ty, buffer) = (self.memory[at].ty, self.memory[at].buffer);
            let index = self.id(BuiltinOp::GlobalIndex);
            let sum = self.assign(ty, Level::Varying, |result| Node::Get { result, ty, local, index: None });
            let old = self.assign(ty, Level::Varying, |result| Node::Load { result, ty, buffer, index });
            let value = self.compute(ComputeOp::Xor, ty, smallvec![sum.into(), old.into()]).into();
            self.emit(Node::Store { ty, buffer, index, value });
        }
    }

    /// A block of up to `count` lines under `flow`.
    fn block(&mut self, flow: Level, count: u32) -> Block {
        let outer_flow = std::mem::replace(&mut self.frame.flow, flow);
        let scope = self.open();
        if self.config.barriers && self.frame.is_main && flow <= Level::Workgroup && self.draw.chance(60) {
            self.any_barrier();
            self.traffic();
        }
        self.lines(count);
        self.fold_loose_values(scope.first_value());
        self.maybe_leave_loop();
        self.frame.flow = outer_flow;
        self.close(scope)
    }

    /// Ends a block with `break` or `continue` where that does not make the loop's flow less uniform than promised.
    fn maybe_leave_loop(&mut self) {
        if self.frame.loops.last() == Some(&self.frame.flow) && self.draw.chance(70) {
            let node = self.draw.pick(&[0, 1]);
            self.emit(if node == 0 { Node::Break } else { Node::Continue });
        }
    }

    /// How uniform the flow in a new block should be.
    fn wanted_level(&mut self) -> Level {
        self.draw.pick(&[Level::Grid, Level::Workgroup, Level::Varying, Level::Varying])
    }

    pub(super) fn branch(&mut self) {
        let wanted = self.wanted_level();
        let cond = self.condition(wanted);
        let flow = self.frame.flow.max(self.level_of(cond));
        let synced_before = self.frame.synced.take();
        let memory_before = self.memory.clone();
        let count = self.draw.between(1, 6);
        let then = self.block(flow, count);
        self.memory = memory_before;
        let count = if self.draw.chance(160) { self.draw.between(1, 5) } else { 0 };
        let otherwise = if count > 0 { self.block(flow, count) } else { Block::new() };
        self.emit(Node::If { cond, then, otherwise });
        self.rejoin(synced_before);
    }

    /// After a block that may have passed barriers or not: one more barrier, so that both cases are ordered.
    fn rejoin(&mut self, synced_before: Option<Team>) {
        if let Some(team) = self.frame.synced.take() {
            self.barrier(team);
        }
        self.frame.synced = self.frame.synced.max(synced_before);
    }

    pub(super) fn repeat(&mut self) {
        let wanted = self.wanted_level();
        let Bounds { lo, hi, step, trips_max } = self.bounds(wanted);
        let leaving = self.draw.pick(&[Level::Grid, Level::Workgroup, Level::Grid, Level::Varying]);
        let flow = self.frame.flow.max(self.level_of(lo)).max(self.level_of(hi)).max(leaving);
        let synced_before = self.frame.synced.take();
        let trips_before = self.frame.trips;
        self.frame.trips *= trips_max.max(1);
        self.frame.loops.push(flow);
        let counter = self.frame.new_value();
        self.frame.values.push(Known { value: counter, ty: DataType::U32, level: flow });
        let count = self.draw.between(1, 7);
        let mut body = self.block(flow, count);
        self.frame.values.pop();
        self.frame.loops.pop();
        self.frame.trips = trips_before;
        if let Some(team) = self.frame.synced {
            // The next trip starts with the patterns of the first.
            body.insert(0, barrier(team));
        }
        self.emit(Node::For { counter, lo, hi, step, body });
        self.rejoin(synced_before);
    }

    /// Bounds at least as uniform as `level`, for a few trips at most.
    fn bounds(&mut self, level: Level) -> Bounds {
        match self.draw.below(8) {
            0..=3 => {
                let (lo, step) = (self.draw.below(3), self.draw.between(1, 3));
                let trips_max = self.draw.pick(&[1, 2, 3, 4, 2, 3, 0]);
                let hi = (lo + trips_max * step).saturating_sub(self.draw.below(step));
                Bounds { lo: literal_u32(lo), hi: literal_u32(hi), step, trips_max }
            }
            4 | 5 => {
                let free = self.operand_at(DataType::U32, level);
                let hi = self.index_op(ComputeOp::Rem, free, 5);
                let lo = if self.draw.chance(64) {
                    self.operand_at(DataType::U32, level)
                } else {
                    literal_u32(self.draw.below(2))
                };
                Bounds { lo, hi, step: self.draw.between(1, 2), trips_max: 4 }
            }
            6 => {
                // So large a step makes four trips at most between any bounds.
                let step = 0x4000_0000 + self.draw.below(0x8000_0000);
                let lo = self.operand_at(DataType::U32, level);
                let hi = self.operand_at(DataType::U32, level);
                Bounds { lo, hi, step, trips_max: 4 }
            }
            _ => {
                // The counter comes close to the end of its type and must not wrap.
                let (trips_max, step) = (self.draw.between(1, 4), self.draw.between(1, 5));
                let lo = u32::MAX - trips_max * step + self.draw.below(step);
                Bounds { lo: literal_u32(lo), hi: literal_u32(u32::MAX), step, trips_max }
            }
        }
    }

    /// Lets the one lane that may touch a buffer do so.
    pub(super) fn single(&mut self) {
        let singles = self.reachable(|memory| matches!(memory.pattern, Pattern::Single(_)));
        if singles.is_empty() {
            return self.branch();
        }
        let at = self.draw.pick(&singles);
        let pattern = self.memory[at].pattern;
        let Pattern::Single(lane) = pattern else { return };
        let member = self.member(at);
        let cond = self.compute(ComputeOp::Eq, DataType::U32, smallvec![member, literal_u32(lane)]).into();
        self.memory[at].pattern = Pattern::All;
        let count = self.draw.between(2, 6);
        let then = self.block(Level::Varying, count);
        self.memory[at].pattern = pattern;
        self.emit(Node::If { cond, then, otherwise: Block::new() });
    }

    pub(super) fn functions(&mut self) {
        if !self.config.functions {
            return;
        }
        for at in 0..self.draw.below(4) {
            let main = std::mem::replace(&mut self.frame, Frame::new(false));
            let function = self.function(at);
            self.parts.functions.push(function);
            self.frame = main;
        }
    }

    fn function(&mut self, at: u32) -> Function {
        // No line of a function needs uniform flow.
        self.frame.flow = Level::Varying;
        let params: Vec<(Value, DataType)> = (0..self.draw.below(4))
            .map(|_| {
                let (value, ty) = (self.frame.new_value(), self.any_type());
                self.frame.values.push(Known { value, ty, level: Level::Varying });
                (value, ty)
            })
            .collect();
        self.declare_folds();
        self.declare_ids();
        self.frame.lines_left = self.config.lines / 4;
        let count = self.draw.between(1, 10);
        self.lines(count);
        self.fold_loose_values(0);
        let result = self.draw.chance(230).then(|| self.any_type());
        self.function_result(result);
        Function { name: format!("f{at}").into(), params, result, body: self.frame.finish() }
    }

    /// Ends a function with a result that depends on all it computed.
    fn function_result(&mut self, result: Option<DataType>) {
        let (Some(ty), Some([local, _])) = (result, self.frame.folds) else {
            if self.draw.chance(128) {
                self.emit(Node::Return { value: None });
            }
            return;
        };
        let sum_ty = DataType::U32;
        let sum = self.assign(sum_ty, Level::Varying, |result| Node::Get {
            result,
            ty: sum_ty,
            local,
            index: None,
        });
        let sum = self.compute(ComputeOp::Cast, ty, smallvec![sum.into()]).into();
        let other = self.operand_unlike(ty, Level::Varying, &[sum]);
        let op = if ty.is_float() { ComputeOp::Add } else { ComputeOp::Xor };
        let value = self.compute(op, ty, smallvec![sum, other]).into();
        self.emit(Node::Return { value: Some(value) });
    }

    pub(super) fn call(&mut self) {
        let function = FunctionId(self.draw.below(self.parts.functions.len() as u32));
        let callee = &self.parts.functions[function.index()];
        let (params, result) = (callee.params.clone(), callee.result);
        let args: Vec<Operand> = params.iter().map(|(_, ty)| self.operand(*ty)).collect();
        match result {
            Some(ty) if !self.draw.chance(10) => {
                self.assign(ty, Level::Varying, |result| Node::Call { result: Some(result), function, args });
            }
            Some(_) | None => self.emit(Node::Call { result: None, function, args }),
        }
    }
}
