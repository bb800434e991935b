//! Lines that lanes take together: barriers, uniform loads, tile products, subgroup ops and collectives.

use super::body::{Builder, Level, literal_u32};
use super::memory::Team;
use vyre_foundation::ir::{
    Args, BufferId, BufferKind, ComputeOp, DataType, MemoryOrdering, Node, Operand, ReduceOp, SubgroupOp,
    SyncOp, Tile,
};

/// The barrier that orders a team.
pub(super) fn barrier(team: Team) -> Node {
    let ordering = match team {
        Team::Lane | Team::Subgroup => MemoryOrdering::Subgroup,
        Team::Workgroup => MemoryOrdering::Workgroup,
        Team::Grid => MemoryOrdering::GridSync,
    };
    Node::Barrier { ordering }
}

impl Builder<'_> {
    /// A barrier over `team`, and with it a new phase.
    pub(super) fn barrier(&mut self, team: Team) {
        self.emit(barrier(team));
        self.synced(team);
    }

    fn synced(&mut self, team: Team) {
        self.frame.synced = self.frame.synced.max(Some(team));
        self.new_phase(team);
    }

    /// A barrier that the flow here allows.
    pub(super) fn any_barrier(&mut self) {
        let grid = self.config.grid_barriers && self.frame.flow == Level::Grid;
        let teams = [
            (Team::Workgroup, 6),
            (Team::Subgroup, u32::from(self.parts.subgroup.is_some())),
            (Team::Grid, 2 * u32::from(grid)),
        ];
        let team = self.draw.weighted(&teams).unwrap_or(Team::Workgroup);
        self.barrier(team);
    }

    pub(super) fn uniform_load(&mut self) {
        let shared = self.reachable(|memory| memory.shared);
        if shared.is_empty() {
            return;
        }
        let memory = self.memory[self.draw.pick(&shared)];
        let index = self.uniform_index(memory.elements);
        let (ty, buffer) = (memory.ty, memory.buffer);
        self.assign(ty.computes_as(), Level::Workgroup, |result| Node::UniformLoad {
            result,
            ty,
            buffer,
            index,
        });
        self.synced(Team::Workgroup);
    }

    /// An index that is the same over the workgroup, mostly in bounds.
    fn uniform_index(&mut self, elements: u32) -> Operand {
        match self.draw.below(4) {
            0 | 1 => literal_u32(self.draw.below(elements + 1)),
            2 => {
                let free = self.operand_at(DataType::U32, Level::Workgroup);
                self.index_op(ComputeOp::Rem, free, elements)
            }
            _ => self.operand_at(DataType::U32, Level::Workgroup),
        }
    }

    pub(super) fn subgroup(&mut self) {
        let op = self.draw.pick(SubgroupOp::ALL);
        let ty = if op.info().types.is_empty() { Some(DataType::U32) } else { self.type_of(op.info().types) };
        let Some(ty) = ty else { return };
        let mut args = Args::new();
        for (at, arg) in op.info().args.iter().enumerate() {
            // The lane that a broadcast names is the same for all.
            let level =
                if op == SubgroupOp::Broadcast && at == 1 { Level::Workgroup } else { Level::Varying };
            args.push(self.operand_at(arg.under(ty).unwrap_or(ty), level));
        }
        let result_ty = op.info().result.under(ty).unwrap_or(ty);
        self.assign(result_ty, Level::Varying, |result| Node::Subgroup { result, op, ty, args });
    }

    pub(super) fn mma(&mut self) {
        let bytes = self.reachable(|memory| memory.shared && memory.ty == DataType::I8);
        let sums = self.reachable(|memory| memory.shared && memory.ty == DataType::I32);
        if bytes.is_empty() || sums.is_empty() {
            return;
        }
        let (m, n, k) = (self.draw.between(1, 4), self.draw.between(1, 4), self.draw.between(1, 8));
        let c = self.tile(&sums);
        let a = self.tile(&bytes);
        let b = self.tile(&bytes);
        self.emit(Node::Mma { m, n, k, c, a, b });
        self.synced(Team::Workgroup);
    }

    fn tile(&mut self, candidates: &[usize]) -> Tile {
        let memory = self.memory[self.draw.pick(candidates)];
        let offset = match self.draw.below(4) {
            0..=2 => literal_u32(self.draw.below(memory.elements / 2 + 1)),
            _ => self.uniform_index(memory.elements),
        };
        Tile { buffer: memory.buffer, offset }
    }

    /// Pairs of storage buffers of one type, the first writable.
    pub(super) fn collective_pairs(&self) -> Vec<(BufferId, BufferId, DataType)> {
        let mut pairs = Vec::new();
        for memory in self.memory.iter().filter(|memory| !memory.shared && !memory.pinned) {
            for (at, source) in self.parts.buffers.iter().enumerate() {
                let id = BufferId(at as u32);
                let stored = matches!(source.kind, BufferKind::Read { .. } | BufferKind::ReadWrite { .. });
                if stored && id != memory.buffer && source.ty == memory.ty {
                    pairs.push((memory.buffer, id, memory.ty));
                }
            }
        }
        pairs
    }

    pub(super) fn collective(&mut self) {
        let pairs = self.collective_pairs();
        if pairs.is_empty() {
            return;
        }
        let (dst, src, ty) = self.draw.pick(&pairs);
        let reduces = SyncOp::AllReduce.info().types.contains(ty);
        let op = self.draw.pick(&ReduceOp::ALL);
        let op = if op.op().info().types.contains(ty) { op } else { ReduceOp::Add };
        let node = match self.draw.below(4) {
            0 if reduces => Node::AllReduce { op, ty, dst, src },
            1 if reduces => Node::ReduceScatter { op, ty, dst, src },
            2 => Node::AllGather { ty, dst, src },
            _ => Node::Broadcast { ty, dst, src, root: self.draw.below(3) },
        };
        self.emit(node);
        self.synced(Team::Grid);
    }
}
