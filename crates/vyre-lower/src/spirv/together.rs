//! Steps that lanes take together: barriers, subgroup ops, tile products, collectives, and zeroing workgroup memory.
//!
//! A module has one workgroup's barriers and nothing wider, so grid barriers and collectives are right on a grid of one
//! workgroup only. Subgroup ops are shuffles where the device's subgroups hold the logical ones, else exchanges in
//! workgroup memory, in the order that the language gives.

use super::body::Emit;
use super::module::cell_bytes;
use super::words::Id;
use crate::bindings::ZERO_WORDS;
use spirv::{MemorySemantics, Op, Scope, StorageClass};
use vyre_foundation::ir::{BufferKind, ComputeOp, DataType, Exchange, Operand, ReduceOp, SubgroupOp, Sweep};

impl Emit<'_, '_> {
    /// Orders workgroup and storage memory among the lanes of the workgroup.
    pub(super) fn barrier(&mut self) {
        let semantics = MemorySemantics::ACQUIRE_RELEASE
            | MemorySemantics::UNIFORM_MEMORY
            | MemorySemantics::WORKGROUP_MEMORY;
        let (scope, semantics) = (self.word(Scope::Workgroup as u32), self.word(semantics.bits()));
        self.effect(Op::ControlBarrier, &[scope, scope, semantics]);
    }

    /// A barrier, behind which the traps before it are those that count.
    pub(super) fn grid_barrier(&mut self) {
        self.barrier();
        let (Some(stopped), Some(status)) = (self.module.stopped, self.module.status) else { return };
        let zero = self.word(0);
        let word = self.module.words.uint(32);
        let ty = self.module.words.pointer(StorageClass::StorageBuffer, word);
        let pointer = self.op(Op::AccessChain, ty, &[status, zero, zero]);
        let scope = self.word(Scope::Device as u32);
        let site = self.word_op(Op::AtomicLoad, &[pointer, scope, zero]);
        let trapped = self.bool_op(Op::INotEqual, &[site, zero]);
        self.effect(Op::Store, &[stopped, trapped]);
        self.barrier();
    }

    pub(super) fn zero_workgroup_memory(&mut self) {
        let parts = self.module.parts;
        let lanes = parts.workgroup_lanes() as u32;
        let mut any = false;
        for (at, buffer) in parts.buffers.iter().enumerate() {
            if !matches!(buffer.kind, BufferKind::Workgroup) {
                continue;
            }
            any = true;
            let space = self.module.spaces[at];
            let bytes = u64::from(buffer.len.unwrap_or(1).max(1)) * buffer.ty.bytes() as u64;
            let cells = bytes.div_ceil(u64::from(cell_bytes(space.cell))) as u32;
            let element = self.module.cell_type(space.cell);
            let zero = self.module.words.intern(Op::ConstantNull, Some(element), [], "nothing");
            let bounds = [self.local_index(), self.word(cells)];
            self.counted(bounds, lanes, false, |emit, i| {
                let ty = emit.module.words.pointer(space.class, element);
                let pointer = emit.op(Op::AccessChain, ty, &[space.variable, i]);
                emit.effect(Op::Store, &[pointer, zero]);
            });
        }
        if any {
            self.barrier();
        }
    }

    /// Puts this lane's value where others find it, and waits for theirs.
    fn offer(&mut self, ty: DataType, x: Id) {
        let cell = match ty {
            DataType::Bool => {
                let (zero, one) = (self.word(0), self.word(1));
                self.word_op(Op::Select, &[x, one, zero])
            }
            _ => self.bits_of(ty, x),
        };
        let cell = if ty.bits() == 64 { self.as_pair(cell) } else { cell };
        let me = self.local_index();
        let pointer = self.exchanged(ty, me);
        self.effect(Op::Store, &[pointer, cell]);
        self.barrier();
    }

    /// What a lane offered.
    fn offered(&mut self, ty: DataType, lane: Id) -> Id {
        let word = self.module.words.uint(32);
        let pointer = self.exchanged(ty, lane);
        match ty {
            DataType::Bool => {
                let cell = self.op(Op::Load, word, &[pointer]);
                let zero = self.word(0);
                self.bool_op(Op::INotEqual, &[cell, zero])
            }
            _ if ty.bits() == 64 => {
                let two = self.module.words.vector(word, 2);
                let pair = self.op(Op::Load, two, &[pointer]);
                let bits = self.of_pair(DataType::U64, pair);
                self.float_of(ty, bits)
            }
            _ => {
                let bits = self.op(Op::Load, word, &[pointer]);
                self.float_of(ty, bits)
            }
        }
    }

    fn exchanged(&mut self, ty: DataType, lane: Id) -> Id {
        let is_wide = ty.bits() == 64;
        let variable = self.module.exchange(is_wide);
        let word = self.module.words.uint(32);
        let cell = if is_wide { self.module.words.vector(word, 2) } else { word };
        let ty = self.module.words.pointer(StorageClass::Workgroup, cell);
        self.op(Op::AccessChain, ty, &[variable, lane])
    }

    /// Whether logical subgroups are parts of the device's.
    fn has_native_subgroups(&self) -> bool {
        self.module.subgroup_lanes >= self.subgroup_width().max(2)
    }

    /// Brings the lanes of a subgroup together: they need not be behind a branch, wherever they took it.
    fn converge(&mut self) {
        let (scope, none) = (self.word(Scope::Subgroup as u32), self.word(0));
        self.effect(Op::ControlBarrier, &[scope, scope, none]);
    }

    /// A value of another lane of the device's subgroup.
    fn shuffled(&mut self, ty: DataType, x: Id, other: Id) -> Id {
        let scope = self.word(Scope::Subgroup as u32);
        let moved =
            |emit: &mut Self, word: Id| emit.word_op(Op::GroupNonUniformShuffle, &[scope, word, other]);
        match ty {
            DataType::Bool => {
                let (zero, one) = (self.word(0), self.word(1));
                let word = self.word_op(Op::Select, &[x, one, zero]);
                let word = moved(self, word);
                self.bool_op(Op::INotEqual, &[word, zero])
            }
            _ if ty.bits() == 64 => {
                let bits = self.bits_of(ty, x);
                let halves = self.halves(bits).map(|half| moved(self, half));
                let bits = self.join(DataType::U64, halves);
                self.float_of(ty, bits)
            }
            _ => {
                let bits = self.bits_of(ty, x);
                let bits = moved(self, bits);
                self.float_of(ty, bits)
            }
        }
    }

    /// The value that another lane of the workgroup gives, which is of the same logical subgroup.
    fn taken(&mut self, ty: DataType, x: Id, other: Id) -> Id {
        if self.has_native_subgroups() {
            self.converge();
            let mask = self.word(self.module.subgroup_lanes - 1);
            let other = self.word_op(Op::BitwiseAnd, &[other, mask]);
            return self.shuffled(ty, x, other);
        }
        self.offer(ty, x);
        let got = self.offered(ty, other);
        self.barrier();
        got
    }

    pub(super) fn subgroup(&mut self, op: SubgroupOp, ty: DataType, args: &[Operand]) -> Id {
        let source = self.type_of(args[0]);
        let x = self.operand(args[0]);
        let (me, width) = (self.local_index(), self.subgroup_width());
        let zero = self.word(0);
        match op.exchange() {
            Exchange::Ballot => self.votes(source, x, None),
            Exchange::Match => self.votes(source, x, Some(x)),
            Exchange::Any => {
                let votes = self.votes(source, x, None);
                self.bool_op(Op::INotEqual, &[votes, zero])
            }
            Exchange::All => {
                let (votes, all) = (self.votes(source, x, None), self.word(u32::MAX >> (32 - width)));
                self.bool_op(Op::IEqual, &[votes, all])
            }
            Exchange::Take => {
                let (lane, first, rest) =
                    (self.operand(args[1]), self.word(!(width - 1)), self.word(width - 1));
                let first = self.word_op(Op::BitwiseAnd, &[me, first]);
                let lane = self.word_op(Op::BitwiseAnd, &[lane, rest]);
                let other = self.word_op(Op::BitwiseOr, &[first, lane]);
                self.taken(ty, x, other)
            }
            Exchange::Fold(Sweep::Reduce, fold) => self.folded(fold, ty, x, true),
            Exchange::Fold(Sweep::Inclusive, fold) => self.folded(fold, ty, x, false),
            Exchange::Fold(Sweep::Exclusive, _) => unreachable!("legalised: an inclusive scan and a shuffle"),
        }
    }

    fn lane(&mut self) -> Id {
        let (me, rest) = (self.local_index(), self.word(self.subgroup_width() - 1));
        self.word_op(Op::BitwiseAnd, &[me, rest])
    }

    /// A count that compilers do not see through, so that they leave short loops with barriers as they are: unrolled,
    /// those take a software driver seconds to compile.
    pub(super) fn hidden_count(&mut self, count: u32) -> Id {
        let (count, zero) = (self.word(count), self.launch_word(ZERO_WORDS[0]));
        self.word_op(Op::IAdd, &[count, zero])
    }

    /// Bit k is set if lane k's value is `wanted`, or if none is given, is true.
    fn votes(&mut self, ty: DataType, x: Id, wanted: Option<Id>) -> Id {
        if wanted.is_none() && self.has_native_subgroups() {
            return self.ballot(x);
        }
        self.offer(ty, x);
        let width = self.subgroup_width();
        let (me, first, zero, one) =
            (self.local_index(), self.word(!(width - 1)), self.word(0), self.word(1));
        let first = self.word_op(Op::BitwiseAnd, &[me, first]);
        let word = self.module.words.uint(32);
        let votes = self.variable(word);
        self.effect(Op::Store, &[votes, zero]);
        let bounds = [zero, self.hidden_count(width)];
        self.counted(bounds, 1, false, |emit, k| {
            let lane = emit.word_op(Op::IAdd, &[first, k]);
            let other = emit.offered(ty, lane);
            let same = match wanted {
                None => other,
                Some(wanted) => emit.integer(ComputeOp::Eq, ty, &[other, wanted]),
            };
            let bit = emit.word_op(Op::Select, &[same, one, zero]);
            let bit = emit.word_op(Op::ShiftLeftLogical, &[bit, k]);
            let sum = emit.word_op(Op::Load, &[votes]);
            let sum = emit.word_op(Op::BitwiseOr, &[sum, bit]);
            emit.effect(Op::Store, &[votes, sum]);
        });
        self.barrier();
        self.word_op(Op::Load, &[votes])
    }

    /// The bits of this logical subgroup, out of those of the device's.
    fn ballot(&mut self, x: Id) -> Id {
        self.converge();
        let word = self.module.words.uint(32);
        let four = self.module.words.vector(word, 4);
        let scope = self.word(Scope::Subgroup as u32);
        let ballot = self.op(Op::GroupNonUniformBallot, four, &[scope, x]);
        let (me, width) = (self.local_index(), self.subgroup_width());
        let lanes = self.word(self.module.subgroup_lanes - 1);
        let (five, first, mask) = (self.word(5), self.word(32 - width), self.word(u32::MAX >> (32 - width)));
        let lane = self.word_op(Op::BitwiseAnd, &[me, lanes]);
        let at = self.word_op(Op::ShiftRightLogical, &[lane, five]);
        let bits = self.word_op(Op::VectorExtractDynamic, &[ballot, at]);
        let first = self.word_op(Op::BitwiseAnd, &[lane, first]);
        let bits = self.word_op(Op::ShiftRightLogical, &[bits, first]);
        self.word_op(Op::BitwiseAnd, &[bits, mask])
    }

    /// `x = x op xor_shuffle(x, d)`, or the scan `x = up(x, d) op x` where lane >= d, for d = 1, 2, 4, ...
    fn folded(&mut self, fold: ReduceOp, ty: DataType, x: Id, reduces: bool) -> Id {
        if self.has_native_subgroups() {
            let steps = self.subgroup_width().trailing_zeros();
            return (0..steps).fold(x, |x, k| {
                let distance = self.word(1 << k);
                self.folded_once(fold, ty, x, distance, reduces)
            });
        }
        let id = self.ty(ty);
        let variable = self.variable(id);
        self.effect(Op::Store, &[variable, x]);
        let (zero, one) = (self.word(0), self.word(1));
        let bounds = [zero, self.hidden_count(self.subgroup_width().trailing_zeros())];
        self.counted(bounds, 1, false, |emit, k| {
            let distance = emit.word_op(Op::ShiftLeftLogical, &[one, k]);
            let x = emit.op(Op::Load, id, &[variable]);
            let result = emit.folded_once(fold, ty, x, distance, reduces);
            emit.effect(Op::Store, &[variable, result]);
        });
        self.op(Op::Load, id, &[variable])
    }

    fn folded_once(&mut self, fold: ReduceOp, ty: DataType, x: Id, distance: Id, reduces: bool) -> Id {
        let (me, lane) = (self.local_index(), self.lane());
        if reduces {
            let other = self.word_op(Op::BitwiseXor, &[me, distance]);
            let other = self.taken(ty, x, other);
            return self.binary(fold.op(), ty, x, other);
        }
        let above = self.integer(ComputeOp::Max, DataType::U32, &[me, distance]);
        let below = self.word_op(Op::ISub, &[above, distance]);
        let below = self.taken(ty, x, below);
        let sum = self.binary(fold.op(), ty, below, x);
        let reaches = self.bool_op(Op::UGreaterThanEqual, &[lane, distance]);
        self.select(ty, reaches, sum, x)
    }
}
