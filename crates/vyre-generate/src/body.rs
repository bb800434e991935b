//! The state of a program under construction: open blocks, values in scope, and how uniform they are.

use super::Config;
use super::memory::{Contents, Memory, Team};
use crate::edge;
use crate::source::Draw;
use smallvec::smallvec;
use vyre_foundation::ir::{
    Args, Block, Body, BufferId, BuiltinOp, ComputeOp, DataType, Local, Node, Operand, ProgramParts, Value,
};

/// Over which lanes a value, or the flow of control, is surely the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Grid,
    Workgroup,
    Varying,
}

/// A value in scope.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) value: Value,
    pub(super) ty: DataType,
    pub(super) level: Level,
}

/// A local in scope.
#[derive(Clone, Copy)]
pub(super) struct KnownLocal {
    pub(super) local: Local,
    pub(super) ty: DataType,
    pub(super) len: Option<u32>,
    /// The local is only assigned values this uniform, in flow this uniform.
    pub(super) level: Level,
}

/// A body under construction.
pub(super) struct Frame {
    pub(super) is_main: bool,
    body: Body,
    blocks: Vec<Block>,
    pub(super) values: Vec<Known>,
    pub(super) locals: Vec<KnownLocal>,
    /// Whether some line reads the value.
    used: Vec<bool>,
    /// The ids that indices are made of.
    pub(super) ids: Vec<(BuiltinOp, Value)>,
    /// The accumulators for 32 and 64 bits.
    pub(super) folds: Option<[Local; 2]>,
    pub(super) flow: Level,
    /// The flow inside each open loop.
    pub(super) loops: Vec<Level>,
    /// The product of the open loops' greatest trip counts.
    pub(super) trips: u32,
    pub(super) lines_left: u32,
    /// The widest team that a barrier has ordered since this was last cleared.
    pub(super) synced: Option<Team>,
}

impl Frame {
    pub(super) fn new(is_main: bool) -> Frame {
        Frame {
            is_main,
            body: Body::default(),
            blocks: vec![Block::new()],
            values: Vec::new(),
            locals: Vec::new(),
            used: Vec::new(),
            ids: Vec::new(),
            folds: None,
            flow: Level::Grid,
            loops: Vec::new(),
            trips: 1,
            lines_left: 0,
            synced: None,
        }
    }

    pub(super) fn finish(&mut self) -> Body {
        let block = self.blocks.pop().expect("every opened block is closed");
        Body { block, ..std::mem::take(&mut self.body) }
    }

    pub(super) fn new_value(&mut self) -> Value {
        let value = self.body.new_value(&format!("v{}", self.used.len()));
        self.used.push(false);
        value
    }

    pub(super) fn new_local(&mut self) -> Local {
        self.body.new_local(&format!("l{}", self.body.locals.len()))
    }

    pub(super) fn depth(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn is_used(&self, value: Value) -> bool {
        self.used[value.index()]
    }
}

/// How many values and locals were in scope when a block opened.
pub(super) struct Scope {
    values: usize,
    locals: usize,
}

impl Scope {
    /// Where the block's own values start.
    pub(super) const fn first_value(&self) -> usize {
        self.values
    }
}

/// A program under construction.
pub(super) struct Builder<'a> {
    pub(super) draw: Draw<'a>,
    pub(super) config: &'a Config,
    /// Types to choose from, with weights.
    pub(super) types: Vec<(DataType, u32)>,
    pub(super) parts: ProgramParts,
    pub(super) frame: Frame,
    /// Buffers and tables that no lane writes.
    pub(super) readable: Vec<BufferId>,
    /// Buffers that lanes write, with who may touch what.
    pub(super) memory: Vec<Memory>,
    /// What each buffer holds at the start, by buffer.
    pub(super) contents: Vec<Contents>,
}

impl Builder<'_> {
    /// Lanes of a workgroup.
    pub(super) fn lanes(&self) -> u32 {
        self.parts.workgroup.iter().product()
    }

    pub(super) fn emit(&mut self, node: Node) {
        let used = &mut self.frame.used;
        node.for_each_operand(|operand| {
            if let Operand::Value(value) = operand {
                used[value.index()] = true;
            }
        });
        self.frame.lines_left = self.frame.lines_left.saturating_sub(1);
        self.frame.blocks.last_mut().expect("a block is open").push(node);
    }

    /// Emits a line that assigns a new value.
    pub(super) fn assign(&mut self, ty: DataType, level: Level, node: impl FnOnce(Value) -> Node) -> Value {
        let value = self.frame.new_value();
        self.emit(node(value));
        self.frame.values.push(Known { value, ty, level });
        value
    }

    /// Emits a computing line whose result is as uniform as its operands.
    pub(super) fn compute(&mut self, op: ComputeOp, ty: DataType, args: Args) -> Value {
        let level = args.iter().map(|arg| self.level_of(*arg)).max().unwrap_or(Level::Grid);
        let result_ty = op.info().result.under(ty).expect("computing ops have results");
        self.assign(result_ty, level, |result| Node::Compute { result, op, ty, args })
    }

    /// A two-operand line on u32, as indices need them.
    pub(super) fn index_op(&mut self, op: ComputeOp, a: Operand, b: u32) -> Operand {
        self.compute(op, DataType::U32, smallvec![a, literal_u32(b)]).into()
    }

    pub(super) fn level_of(&self, operand: Operand) -> Level {
        let Operand::Value(value) = operand else { return Level::Grid };
        let known = self.frame.values.iter().rev().find(|known| known.value == value);
        known.map_or(Level::Varying, |known| known.level)
    }

    pub(super) fn open(&mut self) -> Scope {
        self.frame.blocks.push(Block::new());
        Scope { values: self.frame.values.len(), locals: self.frame.locals.len() }
    }

    pub(super) fn close(&mut self, scope: Scope) -> Block {
        self.frame.values.truncate(scope.values);
        self.frame.locals.truncate(scope.locals);
        self.frame.blocks.pop().expect("blocks open and close in pairs")
    }

    /// A type that computes.
    pub(super) fn any_type(&mut self) -> DataType {
        self.draw.weighted(&self.types).unwrap_or(DataType::U32)
    }

    /// A type of `set` that this configuration allows.
    pub(super) fn type_of(&mut self, set: vyre_foundation::ir::TypeSet) -> Option<DataType> {
        let fitting: Vec<_> = self.types.iter().copied().filter(|(ty, _)| set.contains(*ty)).collect();
        self.draw.weighted(&fitting)
    }

    pub(super) fn allows(&self, ty: DataType) -> bool {
        self.types.iter().any(|(allowed, _)| *allowed == ty.computes_as())
    }

    /// Something of type `ty` to read.
    pub(super) fn operand(&mut self, ty: DataType) -> Operand {
        self.operand_at(ty, Level::Varying)
    }

    /// Something of type `ty` that is at least as uniform as `level`.
    pub(super) fn operand_at(&mut self, ty: DataType, level: Level) -> Operand {
        self.operand_unlike(ty, level, &[])
    }

    /// Something of type `ty` that is at least as uniform as `level`, and seldom one of `others`: an op on two equal
    /// operands shows little. A constant, a value in scope, or a cast of one.
    pub(super) fn operand_unlike(&mut self, ty: DataType, level: Level, others: &[Operand]) -> Operand {
        let may_repeat = self.draw.chance(16);
        let fits = |known: &&Known| {
            known.level <= level && (may_repeat || !others.contains(&Operand::Value(known.value)))
        };
        let known: Vec<Known> = self.frame.values.iter().filter(fits).copied().collect();
        let same: Vec<Value> = known.iter().filter(|known| known.ty == ty).map(|known| known.value).collect();
        if !same.is_empty() && self.draw.below(6) > 0 {
            return self.recent(&same).into();
        }
        if same.is_empty() && !known.is_empty() && self.draw.below(3) > 0 {
            let other: Vec<Value> = known.iter().map(|known| known.value).collect();
            let source = self.recent(&other).into();
            return self.compute(ComputeOp::Cast, ty, smallvec![source]).into();
        }
        edge::literal(&mut self.draw, ty).into()
    }

    /// One of the values, the later ones more often: long dependency chains are where mistakes hide.
    fn recent(&mut self, values: &[Value]) -> Value {
        let count = values.len() as u32;
        let back = self.draw.below(count).min(self.draw.below(count));
        values[(count - 1 - back) as usize]
    }

    /// A truth value at least as uniform as `level`, mostly a fresh comparison.
    pub(super) fn condition(&mut self, level: Level) -> Operand {
        match self.draw.below(8) {
            0 | 1 => return self.operand_at(DataType::Bool, level),
            // Low bits are as often set as not, so that both sides of a branch run.
            2..=5 => {
                let (value, mask) = (self.operand_at(DataType::U32, level), self.draw.between(1, 3));
                let low = self.index_op(ComputeOp::And, value, mask);
                let op = self.draw.pick(&[ComputeOp::Eq, ComputeOp::Ne]);
                return self.compute(op, DataType::U32, smallvec![low, literal_u32(0)]).into();
            }
            _ => {}
        }
        const COMPARE: [ComputeOp; 6] =
            [ComputeOp::Lt, ComputeOp::Le, ComputeOp::Gt, ComputeOp::Ge, ComputeOp::Eq, ComputeOp::Ne];
        let op = self.draw.pick(&COMPARE);
        let ty = self.type_of(op.info().types).unwrap_or(DataType::U32);
        let a = self.operand_at(ty, level);
        let b = self.operand_unlike(ty, level, &[a]);
        self.compute(op, ty, smallvec![a, b]).into()
    }
}

/// A u32 written in place.
pub(super) fn literal_u32(value: u32) -> Operand {
    vyre_foundation::ir::Literal::u32(value).into()
}
