//! What lanes do together: barriers and subgroup ops.
//!
//! A logical subgroup is a stretch of a hardware warp: both count lanes by their place in the workgroup, and its width
//! divides 32. So its ops are warp instructions over the lanes of the warp that exist.

use super::body::{Emit, Reg, Width};

use vyre_foundation::ir::{BuiltinOp, DataType, Exchange, Literal, Operand, ReduceOp, SubgroupOp, Sweep};
use vyre_foundation::scalar::identity;

impl Emit<'_> {
    /// A barrier right after another adds nothing. Lanes of a warp may arrive apart: with `bar.sync` they must not, and
    /// `ptxas` does not see to it where the barrier stands behind a branch.
    pub(super) fn barrier(&mut self) {
        if !self.ends_with("barrier.sync 0;") {
            self.line("barrier.sync 0;");
        }
    }

    pub(super) fn subgroup_barrier(&mut self) {
        let members = self.members();
        self.line(&format!("bar.warp.sync {members};"));
    }

    /// Fills shared memory with zeros, all lanes together.
    pub(super) fn zero_shared(&mut self) {
        let end = self.shared_bytes;
        if end == 0 {
            return;
        }
        let start = self.assign(Width::B32, "mov.u32 {}, shared");
        let index = self.local_index();
        let at = self.op(Width::B32, "shl.b32", &[&index, "4"]);
        let zero = self.constant(Literal::u32(0));
        let (head, done) = (self.new_label(), self.new_label());
        self.label(head);
        let over = self.op(Width::Pred, "setp.ge.u32", &[&at, &end.to_string()]);
        self.line(&format!("@{over} bra $L{done};"));
        let address = self.op(Width::B32, "add.u32", &[&start, &at]);
        self.line(&format!("st.shared.v4.b32 [{address}], {{{zero}, {zero}, {zero}, {zero}}};"));
        let stride = 16 * self.parts.workgroup_lanes();
        self.line(&format!("add.u32 {at}, {at}, {stride};"));
        self.line(&format!("bra $L{head};"));
        self.label(done);
        self.barrier();
    }

    /// The lanes of this warp that exist: only the last warp of a workgroup may be short.
    fn members(&mut self) -> Reg {
        let lanes = self.parts.workgroup_lanes();
        if lanes.is_multiple_of(32) {
            return self.constant(Literal::u32(u32::MAX));
        }
        let index = self.local_index();
        let first = self.op(Width::B32, "and.b32", &[&index, "0xffffffe0"]);
        let left = self.op(Width::B32, "sub.u32", &[&lanes.to_string(), &first]);
        let left = self.op(Width::B32, "min.u32", &[&left, "32"]);
        let missing = self.op(Width::B32, "sub.u32", &["32", &left]);
        let ones = self.constant(Literal::u32(u32::MAX));
        self.op(Width::B32, "shr.u32", &[&ones, &missing])
    }

    pub(super) fn width(&self) -> u32 {
        self.parts.subgroup.expect("validated: subgroup ops have a declared width")
    }

    /// `shfl.sync` within the logical width, for any type. `mode` is `idx`, `bfly` or `up`.
    fn shuffle(&mut self, mode: &str, ty: DataType, x: &str, lane: &str) -> Reg {
        let segment = (32 - self.width()) << 8 | if mode == "up" { 0 } else { 0x1f };
        let members = self.members();
        let word = |emit: &mut Self, x: &str| {
            let args = [x, lane, &segment.to_string(), &members];
            emit.op(Width::B32, &format!("shfl.sync.{mode}.b32"), &args)
        };
        match Width::of(ty) {
            Width::B32 => word(self, x),
            Width::Pred => {
                let bit = self.op(Width::B32, "selp.b32", &["1", "0", x]);
                let moved = word(self, &bit);
                self.op(Width::Pred, "setp.ne.u32", &[&moved, "0"])
            }
            Width::B16 => {
                let bits = self.op(Width::B32, "cvt.u32.u16", &[x]);
                let moved = word(self, &bits);
                self.op(Width::B16, "cvt.u16.u32", &[&moved])
            }
            Width::B64 => {
                let (low, high) = (self.register(Width::B32), self.register(Width::B32));
                self.line(&format!("mov.b64 {{{low}, {high}}}, {x};"));
                let (low, high) = (word(self, &low), word(self, &high));
                self.assign(Width::B64, &format!("mov.b64 {{}}, {{{low}, {high}}}"))
            }
        }
    }

    pub(super) fn subgroup(&mut self, op: SubgroupOp, ty: DataType, args: &[Operand]) -> Reg {
        let source = self.type_of(args[0]);
        let mut regs: Vec<Reg> = args.iter().map(|arg| self.operand(*arg)).collect();
        if let Operand::Literal(_) = args[0] {
            regs[0] = self.opaque(source, &regs[0]);
        }
        let x = regs[0].as_str();
        match op.exchange() {
            Exchange::Fold(Sweep::Reduce, fold) => self.reduce(fold, ty, x),
            Exchange::Fold(Sweep::Inclusive, fold) => self.scan(fold, ty, x),
            Exchange::Fold(Sweep::Exclusive, fold) => {
                let inclusive = self.scan(fold, ty, x);
                let below = self.shuffle("up", ty, &inclusive, "1");
                let lane = self.builtin(BuiltinOp::SubgroupLane, None);
                let first = self.op(Width::Pred, "setp.eq.u32", &[&lane, "0"]);
                let identity = self.constant(Literal::from_bits(ty, identity(fold, ty)));
                self.select(Width::of(ty), &first, &identity, &below)
            }
            // The width is a power of two, so this is modulo.
            Exchange::Take => {
                let lane = self.op(Width::B32, "and.b32", &[&regs[1], &(self.width() - 1).to_string()]);
                self.shuffle("idx", ty, x, &lane)
            }
            Exchange::Match => self.matching(source, x),
            Exchange::Ballot => self.ballot(x),
            Exchange::Any => {
                let ballot = self.ballot(x);
                self.op(Width::Pred, "setp.ne.u32", &[&ballot, "0"])
            }
            Exchange::All => {
                let ballot = self.ballot(x);
                let all = u32::MAX >> (32 - self.width());
                self.op(Width::Pred, "setp.eq.u32", &[&ballot, &all.to_string()])
            }
        }
    }

    /// The same value, as one that `ptxas` does not know. It finds late that lanes exchange a constant, and then turns the
    /// sign of differences with it.
    pub(super) fn opaque(&mut self, ty: DataType, x: &str) -> Reg {
        let zero = self.assign(Width::B32, "ld.param.u32 {}, [zero]");
        match Width::of(ty) {
            Width::Pred => {
                let set = self.op(Width::Pred, "setp.ne.u32", &[&zero, "0"]);
                self.op(Width::Pred, "xor.pred", &[x, &set])
            }
            Width::B16 => {
                let zero = self.op(Width::B16, "cvt.u16.u32", &[&zero]);
                self.op(Width::B16, "xor.b16", &[x, &zero])
            }
            Width::B32 => self.op(Width::B32, "xor.b32", &[x, &zero]),
            Width::B64 => {
                let zero = self.op(Width::B64, "cvt.u64.u32", &[&zero]);
                self.op(Width::B64, "xor.b64", &[x, &zero])
            }
        }
    }

    /// The bits of this logical subgroup, out of a warp's.
    fn own_bits(&mut self, warp: &str) -> Reg {
        let index = self.local_index();
        let first = self.op(Width::B32, "and.b32", &[&index, &(32 - self.width()).to_string()]);
        let moved = self.op(Width::B32, "shr.u32", &[warp, &first]);
        let mask = u32::MAX >> (32 - self.width());
        self.op(Width::B32, "and.b32", &[&moved, &mask.to_string()])
    }

    fn ballot(&mut self, x: &str) -> Reg {
        let members = self.members();
        let warp = self.op(Width::B32, "vote.sync.ballot.b32", &[x, &members]);
        self.own_bits(&warp)
    }

    fn matching(&mut self, ty: DataType, x: &str) -> Reg {
        let members = self.members();
        let name = format!("match.any.sync.{}", Width::of(ty).bits());
        let warp = self.op(Width::B32, &name, &[x, &members]);
        self.own_bits(&warp)
    }

    fn combine(&mut self, fold: ReduceOp, ty: DataType, a: &str, b: &str) -> Reg {
        self.binary(fold.op(), ty, a, b)
    }

    /// `x = x op xor_shuffle(x, d)` for d = 1, 2, 4, ...
    fn reduce(&mut self, fold: ReduceOp, ty: DataType, x: &str) -> Reg {
        let mut x = x.to_owned();
        let mut distance = 1;
        while distance < self.width() {
            let other = self.shuffle("bfly", ty, &x, &distance.to_string());
            x = self.combine(fold, ty, &x, &other);
            distance *= 2;
        }
        x
    }

    /// `x = up(x, d) op x` where lane >= d, for d = 1, 2, 4, ...
    fn scan(&mut self, fold: ReduceOp, ty: DataType, x: &str) -> Reg {
        let mut x = x.to_owned();
        let lane = self.builtin(BuiltinOp::SubgroupLane, None);
        let mut distance = 1;
        while distance < self.width() {
            let below = self.shuffle("up", ty, &x, &distance.to_string());
            let sum = self.combine(fold, ty, &below, &x);
            let reaches = self.op(Width::Pred, "setp.ge.u32", &[&lane, &distance.to_string()]);
            x = self.select(Width::of(ty), &reaches, &sum, &x);
            distance *= 2;
        }
        x
    }

    /// All lanes of the grid meet. A recorded trap ends the launch here, so that a later one cannot take its place; a
    /// second meeting makes sure that everyone has looked before anyone traps in the next part.
    pub(super) fn grid_barrier(&mut self) {
        self.meet();
        if !self.has_traps {
            return;
        }
        let trap = self.assign(Width::B64, "ld.param.u64 {}, [trap]");
        let site = self.assign(Width::B32, &format!("ld.volatile.global.u32 {{}}, [{trap}]"));
        let trapped = self.op(Width::Pred, "setp.ne.u32", &[&site, "0xffffffff"]);
        self.meet();
        self.line(&format!("@{trapped} bra $exit;"));
    }

    /// Each workgroup counts itself in, and waits until all of this round have.
    fn meet(&mut self) {
        self.barrier();
        let (wait, done) = (self.new_label(), self.new_label());
        let index = self.local_index();
        let other = self.op(Width::Pred, "setp.ne.u32", &[&index, "0"]);
        self.line(&format!("@{other} bra $L{done};"));
        let counts = ["x", "y", "z"].map(|axis| {
            let narrow = self.assign(Width::B32, &format!("mov.u32 {{}}, %nctaid.{axis}"));
            self.op(Width::B64, "cvt.u64.u32", &[&narrow])
        });
        let plane = self.op(Width::B64, "mul.lo.u64", &[&counts[0], &counts[1]]);
        let groups = self.op(Width::B64, "mul.lo.u64", &[&plane, &counts[2]]);
        let counter = self.assign(Width::B64, "ld.param.u64 {}, [sync]");
        self.line("membar.gl;");
        let before = self.assign(Width::B64, &format!("atom.global.add.u64 {{}}, [{counter}], 1"));
        let round = self.op(Width::B64, "div.u64", &[&before, &groups]);
        let goal = self.op(Width::B64, "mad.lo.u64", &[&round, &groups, &groups]);
        self.label(wait);
        if self.options.poll {
            self.poll();
        }
        let now = self.assign(Width::B64, &format!("ld.volatile.global.u64 {{}}, [{counter}]"));
        let early = self.op(Width::Pred, "setp.lt.u64", &[&now, &goal]);
        self.line(&format!("@{early} bra $L{wait};"));
        self.line("membar.gl;");
        self.label(done);
        self.barrier();
    }
}
