//! The tile product on tensor cores.
//!
//! Instructions multiply bytes and add wrapping, as the language does. From sm_80 on a warp multiplies 16 rows by 8 columns
//! over 32 bytes (`mma.sync`), on fragments that it reads into registers. On sm_90 four warps together multiply 64 rows by
//! up to 256 columns (`wgmma`), and read shared memory while the program goes on. The tile is divided among such units in
//! rectangles; each keeps its part of c in registers. A loop that does nothing to c but tile products keeps it there for
//! all trips, and what follows a product there runs beside it: the end of a product is awaited where its
//! factors are written, where lanes wait for each other, or where the next one begins.
//!
//! Eight rows of a factor, 16 bytes each, are read at once. They would be stored in the same banks of shared memory, so the
//! chunks of 16 bytes in a factor's buffer are exchanged: chunk `c` is stored at `c ^ ((c >> 3) & mask)`. `wgmma` knows this
//! arrangement, if a buffer begins where its pattern does.
//!
//! Not here: tiles of other shapes, offsets that are not known, and devices before sm_80. Those products are loops before
//! they come to the emitter.

use super::Options;
use super::body::{Emit, Reg, Width};
use vyre_foundation::ir::{
    Block, BufferId, BufferKind, DataType, Effect, Literal, Node, ProgramParts, Tile, walk,
};

/// Rows, columns and depth of one instruction.
const M: u32 = 16;
const N: u32 = 8;
const K: u32 = 32;
/// Rows of one instruction of four warps.
const GROUP_M: u32 = 64;
/// Registers of c that a thread may hold.
const HELD_MAX: u32 = 128;

/// A tile product that tensor cores can do, and how it is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// c, a and b: the buffer and the first element.
    tiles: [(BufferId, u32); 3],
    n: u32,
    k: u32,
    /// Warps that work as one: 1 or 4.
    unit: u32,
    /// Units along rows and along columns.
    units: [u32; 2],
    /// Instructions of one unit along rows, and its eights of columns.
    each: [u32; 2],
}

/// A part of c in registers.
pub(super) struct Held {
    plan: Plan,
    registers: Vec<[Reg; 4]>,
    /// The factors of the loop's products, in their order.
    factors: Vec<[BufferId; 2]>,
    /// How many products may still be in flight when another begins.
    ahead: usize,
    /// How deep in loops the one is that holds it.
    depth: usize,
}

impl Plan {
    /// The plan for units of that many warps, if the line is a tile product.
    pub(super) fn of_line(parts: &ProgramParts, options: &Options, unit: u32, node: &Node) -> Option<Plan> {
        let Node::Mma { m, n, k, c, a, b } = node else { return None };
        Plan::of(parts, options, unit, [*m, *n, *k], [*c, *a, *b])
    }

    /// The plan for units of that many warps.
    fn of(
        parts: &ProgramParts,
        options: &Options,
        unit: u32,
        [m, n, k]: [u32; 3],
        tiles: [Tile; 3],
    ) -> Option<Plan> {
        let lanes = parts.workgroup_lanes() as u32;
        let unit_rows = if unit == 1 { M } else { GROUP_M };
        let fits = m.is_multiple_of(unit_rows) && n.is_multiple_of(2 * N) && matches!(k, 32 | 64 | 128);
        if options.sm < 80 || !fits || !lanes.is_multiple_of(32 * unit) {
            return None;
        }
        // Where the arrangement of chunks repeats.
        let step = if unit == 1 { 16 } else { 8 * k };
        let elements = [m * n, m * k, n * k];
        let mut known = [(tiles[0].buffer, 0); 3];
        for (at, tile) in tiles.iter().enumerate() {
            let offset = tile.offset.literal()?.bits() as u32;
            let len = parts.buffer(tile.buffer).len.unwrap_or(0);
            let inside = u64::from(offset) + u64::from(elements[at]) <= u64::from(len);
            let shared = matches!(parts.buffer(tile.buffer).kind, BufferKind::Workgroup);
            if !inside || !shared || !offset.is_multiple_of(if at == 0 { 16 } else { step }) {
                return None;
            }
            known[at] = (tile.buffer, offset);
        }
        let (rows, pairs, units) = (m / unit_rows, n / (2 * N), lanes / 32 / unit);
        let divisions = (1..=units).flat_map(|down| (1..=units / down).map(move |across| [down, across]));
        let even =
            divisions.filter(|[down, across]| rows.is_multiple_of(*down) && pairs.is_multiple_of(*across));
        // As many units as possible, and then as little to read as possible: each instruction of four warps reads its rows
        // and columns anew, so it should have many columns.
        let best = even.min_by_key(|[down, across]| {
            let (rows, columns) = (rows / down, 2 * pairs / across);
            (units - down * across, if unit == 1 { 2 * rows + columns } else { rows })
        })?;
        let each = [rows / best[0], 2 * pairs / best[1]];
        let idle = unit > 1 && best[0] * best[1] < units;
        let held = each[0] * each[1] * 4 <= HELD_MAX && each[1] * N <= 256;
        (held && !idle).then_some(Plan { tiles: known, n, k, unit, units: best, each })
    }

    fn factors(&self) -> [BufferId; 2] {
        [self.tiles[1].0, self.tiles[2].0]
    }

    fn active(&self) -> u32 {
        self.units[0] * self.units[1] * self.unit
    }

    /// Rows of one instruction.
    fn rows(&self) -> u32 {
        if self.unit == 1 { M } else { GROUP_M }
    }

    /// Whether the other product adds to the same part of c.
    fn shares_c(&self, other: &Plan) -> bool {
        let Plan { tiles, .. } = *other;
        *self == Plan { tiles: [tiles[0], self.tiles[1], self.tiles[2]], ..*other }
    }
}

/// How a program's tile products use shared memory.
pub(super) struct Layout {
    /// By buffer, which chunks are exchanged: zero for none. Only buffers whose every tile has the same depth are.
    masks: Vec<u32>,
    /// Whether the program has tile products at all.
    pub(super) products: bool,
    /// Whether four warps work as one, in all products.
    pub(super) groups: bool,
}

impl Layout {
    pub(super) fn of(parts: &ProgramParts, options: &Options) -> Layout {
        let mut masks: Vec<Option<u32>> = vec![None; parts.buffers.len()];
        // `wgmma` is an instruction of this one architecture.
        let (mut products, mut groups) = (false, options.sm == 90);
        walk(&parts.body.block, |_, _, node| {
            let Node::Mma { m, n, k, c, a, b } = node else { return };
            products = true;
            let plan = |unit| Plan::of(parts, options, unit, [*m, *n, *k], [*c, *a, *b]);
            groups &= plan(4).is_some();
            let wanted = if plan(1).is_some() { k / 16 - 1 } else { 0 };
            for tile in [a, b] {
                let mask = &mut masks[tile.buffer.index()];
                let agreed = mask.is_none_or(|other| other == wanted);
                groups &= agreed;
                *mask = Some(if agreed { wanted } else { 0 });
            }
        });
        Layout {
            masks: masks.into_iter().map(|mask| mask.unwrap_or(0)).collect(),
            products,
            groups: groups && products,
        }
    }

    /// The bytes that a buffer's start is a multiple of: those after which its arrangement repeats.
    pub(super) fn align(&self, buffer: usize) -> u32 {
        match self.masks[buffer] {
            0 => 16,
            mask => 128 * (mask + 1),
        }
    }

    pub(super) fn has_exchanged(&self) -> bool {
        self.masks.iter().any(|mask| *mask != 0)
    }

    pub(super) fn is_exchanged(&self, buffer: BufferId) -> bool {
        self.masks[buffer.index()] != 0
    }
}

impl Emit<'_> {
    /// Where a byte of a swizzled buffer is stored, from where it would be without swizzling.
    pub(super) fn swizzled(&mut self, buffer: BufferId, offset: &str) -> Reg {
        let mask = self.layout.masks[buffer.index()];
        if mask == 0 {
            return offset.to_owned();
        }
        // The bits above a row's chunks, brought down to them.
        let above = self.op(Width::B32, "shr.u32", &[offset, "3"]);
        let moved = self.op(Width::B32, "and.b32", &[&above, &(mask << 4).to_string()]);
        self.op(Width::B32, "xor.b32", &[offset, &moved])
    }

    /// The plan of a tile product, if tensor cores can do it.
    pub(super) fn plan_of(&self, node: &Node) -> Option<Plan> {
        Plan::of_line(self.parts, self.options, if self.layout.groups { 4 } else { 1 }, node)
    }

    /// Takes c into registers for the loop that follows, if nothing else in it touches c.
    pub(super) fn hold(&mut self, body: &Block) -> bool {
        let plans: Vec<Plan> = body.iter().filter_map(|node| self.plan_of(node)).collect();
        let Some(plan) = plans.first().copied().filter(|_| self.held.is_none()) else { return false };
        let c = plan.tiles[0].0;
        // How many lines touch c, and how many may write it.
        let [inside, all] = [body, &self.parts.body.block].map(|block| {
            let mut touched = [0; 2];
            walk(block, |_, _, node| {
                let mut named = false;
                node.for_each_buffer(|buffer| named |= buffer == c);
                let reads = matches!(node, Node::Load { .. } | Node::UniformLoad { .. } | Node::Len { .. });
                touched[0] += usize::from(named);
                touched[1] += usize::from(named && !reads);
            });
            touched
        });
        if inside[0] != plans.len() || !plans.iter().all(|other| plan.shares_c(other)) {
            return false;
        }
        // What no line has written is zero.
        let fresh = self.loops.is_empty() && all[1] == inside[1];
        self.barrier();
        let registers = if fresh { self.zero_c(&plan) } else { self.take_c(&plan) };
        let factors: Vec<_> = plans.iter().map(Plan::factors).collect();
        let mut jumps = false;
        walk(body, |_, _, node| jumps |= matches!(node, Node::Break | Node::Continue));
        // Where there are many slices, the next product begins before the last one ends. Then the one before that has
        // ended, and its slices can be written.
        let ahead = usize::from(self.layout.groups && !jumps && factors.len() >= 4);
        self.held = Some(Held { plan, registers, factors, ahead, depth: self.loops.len() });
        self.hold_copies();
        true
    }

    /// Brings c back.
    pub(super) fn release(&mut self) {
        self.finish_copies();
        self.pending = true;
        self.settle();
        let Some(Held { plan, registers, .. }) = self.held.take() else { return };
        self.give_c(&plan, &registers);
        self.barrier();
    }

    /// A trip of a loop begins: the last products of the one before may still be in flight.
    pub(super) fn begin_trip(&mut self) {
        if let Some(held) = self.held.as_ref().filter(|held| held.depth == self.loops.len()) {
            self.pending = true;
            let first = if held.ahead == 0 { 0 } else { held.factors.len() - 1 - held.ahead };
            self.reading = held.factors[first..].to_vec();
        }
    }

    /// A trip of the loop within `depth` others ends.
    pub(super) fn end_trip(&mut self, depth: usize) {
        let holds = self.held.as_ref().is_some_and(|held| held.depth == depth);
        if holds { self.hand_copies_over() } else { self.finish_copies() }
    }

    /// Does before a line what it needs of tile products: those in flight end where it must not run beside them, and stores
    /// are fenced before loads are issued, because the fence would wait for those.
    pub(super) fn settle_before(&mut self, node: &Node) {
        let (harmless, stores_may_follow) = match node {
            // The product before the last has ended, so its factors may be written.
            Node::Store { buffer, .. } => {
                if self.reading.iter().flatten().any(|factor| factor == buffer) {
                    self.settle();
                }
                return;
            }
            Node::Load { buffer, .. } => {
                if self.copies.write(*buffer) {
                    self.finish_copies();
                }
                (true, false)
            }
            Node::Mma { .. } => (true, false),
            other => {
                let own = matches!(other.effect(), Effect::Pure | Effect::Gets | Effect::Sets);
                (own, own)
            }
        };
        if !stores_may_follow {
            self.fence_stores();
        }
        if !harmless {
            // A loop may hold a tile product, and then has its own say.
            if !matches!(node, Node::For { .. }) {
                self.finish_copies();
            }
            self.settle();
        }
    }

    /// Orders this lane's stores before the reads of shared memory by products of four warps.
    pub(super) fn fence_stores(&mut self) {
        if std::mem::take(&mut self.needs_proxy_fence) && self.layout.groups {
            self.line("fence.proxy.async.shared::cta;");
        }
    }

    /// Waits until all lanes have ended the last tile product.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.pending) {
            if self.layout.groups {
                self.line("wgmma.wait_group.sync.aligned 0;");
            }
            self.barrier();
            self.reading.clear();
        }
    }

    /// The tile product. Stores of all lanes before it are visible to it.
    pub(super) fn tensor(&mut self, plan: Plan) {
        self.await_copies(plan.factors());
        self.fence_stores();
        let held = self.held.as_ref().filter(|held| held.plan.shares_c(&plan));
        let ahead = held.map_or(0, |held| held.ahead);
        if std::mem::take(&mut self.pending) && self.layout.groups {
            self.line(&format!("wgmma.wait_group.sync.aligned {ahead};"));
        }
        self.barrier();
        self.reading.drain(..self.reading.len().saturating_sub(ahead));
        match self.held.take() {
            Some(held) if held.plan.shares_c(&plan) => {
                self.multiply(&plan, &held.registers);
                self.held = Some(held);
                self.pending = true;
                self.reading.push(plan.factors());
            }
            other => {
                self.held = other;
                let registers = self.take_c(&plan);
                self.multiply(&plan, &registers);
                if self.layout.groups {
                    self.line("wgmma.wait_group.sync.aligned 0;");
                }
                self.give_c(&plan, &registers);
                self.barrier();
            }
        }
    }

    fn multiply(&mut self, plan: &Plan, registers: &[[Reg; 4]]) {
        if plan.unit == 1 {
            self.multiply_warps(plan, registers)
        } else {
            self.multiply_groups(plan, registers)
        }
    }

    /// The unit's place among rows and columns of units; warps without one go to `idle`.
    fn unit(&mut self, plan: &Plan, idle: u32) -> [Reg; 2] {
        let index = self.local_index();
        let warp = self.op(Width::B32, "shr.u32", &[&index, "5"]);
        if u64::from(plan.active()) * 32 < self.parts.workgroup_lanes() {
            let without = self.op(Width::Pred, "setp.ge.u32", &[&warp, &plan.active().to_string()]);
            self.line(&format!("@{without} bra $L{idle};"));
        }
        let unit = self.op(Width::B32, "shr.u32", &[&warp, &plan.unit.ilog2().to_string()]);
        let across = plan.units[1];
        let ops = if across.is_power_of_two() {
            [("shr.u32", across.ilog2()), ("and.b32", across - 1)]
        } else {
            [("div.u32", across), ("rem.u32", across)]
        };
        ops.map(|(name, by)| self.op(Width::B32, name, &[&unit, &by.to_string()]))
    }

    /// This lane's first element of c in shared memory, in bytes: a row for every four lanes, two columns for each.
    fn first_c(&mut self, plan: &Plan, [down, across]: &[Reg; 2]) -> Reg {
        let index = self.local_index();
        let lane = self.op(Width::B32, "and.b32", &[&index, "31"]);
        let row = self.op(Width::B32, "shr.u32", &[&lane, "2"]);
        let row = self.op(Width::B32, "mad.lo.u32", &[down, &(plan.each[0] * plan.rows()).to_string(), &row]);
        // The warps of a unit are below each other.
        let warp = self.op(Width::B32, "shr.u32", &[&index, "5"]);
        let warp = self.op(Width::B32, "and.b32", &[&warp, &(plan.unit - 1).to_string()]);
        let row = self.op(Width::B32, "mad.lo.u32", &[&warp, &M.to_string(), &row]);
        let pair = self.op(Width::B32, "and.b32", &[&lane, "3"]);
        let column = self.op(Width::B32, "shl.b32", &[&pair, "1"]);
        let column = self.op(Width::B32, "mad.lo.u32", &[across, &(plan.each[1] * N).to_string(), &column]);
        let element = self.op(Width::B32, "mad.lo.u32", &[&row, &plan.n.to_string(), &column]);
        let start = self.assign(Width::B32, "mov.u32 {}, shared");
        let (buffer, offset) = plan.tiles[0];
        let first = self.shared[buffer.index()] + 4 * offset;
        let start = self.op(Width::B32, "add.u32", &[&start, &first.to_string()]);
        self.op(Width::B32, "mad.lo.u32", &[&element, "4", &start])
    }

    /// Where in bytes the two pairs of one instruction's c are from the first one.
    fn pairs(plan: &Plan, at: usize) -> [u32; 2] {
        let (row, column) = (at as u32 / plan.each[1] * plan.rows(), at as u32 % plan.each[1] * N);
        [0, 8].map(|below| 4 * ((row + below) * plan.n + column))
    }

    fn zero_c(&mut self, plan: &Plan) -> Vec<[Reg; 4]> {
        let count = plan.each[0] * plan.each[1];
        (0..count).map(|_| [(); 4].map(|()| self.constant(Literal::u32(0)))).collect()
    }

    fn take_c(&mut self, plan: &Plan) -> Vec<[Reg; 4]> {
        let registers = self.zero_c(plan);
        let idle = self.new_label();
        let unit = self.unit(plan, idle);
        let first = self.first_c(plan, &unit);
        for (at, [a, b, c, d]) in registers.iter().enumerate() {
            let [upper, lower] = Self::pairs(plan, at);
            self.line(&format!("ld.shared.v2.b32 {{{a}, {b}}}, [{first}+{upper}];"));
            self.line(&format!("ld.shared.v2.b32 {{{c}, {d}}}, [{first}+{lower}];"));
        }
        self.label(idle);
        registers
    }

    fn give_c(&mut self, plan: &Plan, registers: &[[Reg; 4]]) {
        let idle = self.new_label();
        let unit = self.unit(plan, idle);
        let first = self.first_c(plan, &unit);
        for (at, [a, b, c, d]) in registers.iter().enumerate() {
            let [upper, lower] = Self::pairs(plan, at);
            self.line(&format!("st.shared.v2.b32 [{first}+{upper}], {{{a}, {b}}};"));
            self.line(&format!("st.shared.v2.b32 [{first}+{lower}], {{{c}, {d}}};"));
        }
        self.label(idle);
    }

    /// The row of a factor that this lane reads for its warp, and the chunk in it: for a, two groups of eight rows, then the
    /// second chunk; for b, two chunks, then the second group.
    fn row_and_chunk(&mut self, groups_first: bool) -> [Reg; 2] {
        let index = self.local_index();
        let bit = |emit: &mut Self, by: &str| {
            let moved = emit.op(Width::B32, "shr.u32", &[&index, by]);
            emit.op(Width::B32, "and.b32", &[&moved, "1"])
        };
        let (third, fourth) = (bit(self, "3"), bit(self, "4"));
        let (group, chunk) = if groups_first { (third, fourth) } else { (fourth, third) };
        let row = self.op(Width::B32, "and.b32", &[&index, "7"]);
        [self.op(Width::B32, "mad.lo.u32", &[&group, "8", &row]), chunk]
    }

    /// Where a warp's rows of a factor begin, one address for each step along the depth.
    fn rows(&mut self, plan: &Plan, tile: usize, place: &str) -> Vec<Reg> {
        let (buffer, offset) = plan.tiles[tile];
        let rows = if tile == 1 { plan.each[0] * M } else { plan.each[1] * N };
        let [row, chunk] = self.row_and_chunk(tile == 1);
        let row = self.op(Width::B32, "mad.lo.u32", &[place, &rows.to_string(), &row]);
        let byte = self.op(Width::B32, "mul.lo.u32", &[&row, &plan.k.to_string()]);
        let byte = self.op(Width::B32, "mad.lo.u32", &[&chunk, "16", &byte]);
        let start = self.assign(Width::B32, "mov.u32 {}, shared");
        let start = self.op(Width::B32, "add.u32", &[&start, &self.shared[buffer.index()].to_string()]);
        let steps = 0..plan.k / K;
        steps
            .map(|step| {
                let own = self.op(Width::B32, "add.u32", &[&byte, &(offset + step * K).to_string()]);
                let own = self.swizzled(buffer, &own);
                self.op(Width::B32, "add.u32", &[&start, &own])
            })
            .collect()
    }

    /// Four matrices of eight rows with 16 bytes each.
    fn matrices(&mut self, address: &str, ahead: u32) -> [Reg; 4] {
        let regs = [(); 4].map(|()| self.register(Width::B32));
        let list = regs.join(", ");
        self.line(&format!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{list}}}, [{address}+{ahead}];"));
        regs
    }

    fn multiply_warps(&mut self, plan: &Plan, registers: &[[Reg; 4]]) {
        let idle = self.new_label();
        let [down, across] = self.unit(plan, idle);
        let (a_rows, b_rows) = (self.rows(plan, 1, &down), self.rows(plan, 2, &across));
        // The rows that one address leads to are a multiple of what exchanges chunks apart.
        let ahead = |group: u32| group * 16 * plan.k;
        for (a_row, b_row) in a_rows.iter().zip(&b_rows) {
            let a: Vec<[Reg; 4]> = (0..plan.each[0]).map(|row| self.matrices(a_row, ahead(row))).collect();
            for pair in 0..plan.each[1] / 2 {
                let b = self.matrices(b_row, ahead(pair));
                for (row, a) in a.iter().enumerate() {
                    for (half, b) in b.chunks_exact(2).enumerate() {
                        let at = row * plan.each[1] as usize + 2 * pair as usize + half;
                        let c = registers[at].join(", ");
                        let (a, b) = (a.join(", "), b.join(", "));
                        self.line(&format!(
                            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};"
                        ));
                    }
                }
            }
        }
        self.label(idle);
    }

    /// Where a unit's rows of a factor begin, as `wgmma` expects it: a row's bytes name the arrangement of chunks.
    fn descriptor(&mut self, plan: &Plan, tile: usize, place: &str) -> Reg {
        let (buffer, offset) = plan.tiles[tile];
        let rows = if tile == 1 { plan.each[0] * GROUP_M } else { plan.each[1] * N };
        let start = self.assign(Width::B32, "mov.u32 {}, shared");
        let start =
            self.op(Width::B32, "add.u32", &[&start, &(self.shared[buffer.index()] + offset).to_string()]);
        let start = self.op(Width::B32, "mad.lo.u32", &[place, &(rows * plan.k).to_string(), &start]);
        let start = self.op(Width::B32, "bfe.u32", &[&start, "4", "14"]);
        // The offset along the depth is not used in this arrangement, and is said to be 1.
        self.op(Width::B32, "or.b32", &[&start, "0x10000"])
    }

    /// Begins the product of four warps each, which they await later.
    fn multiply_groups(&mut self, plan: &Plan, registers: &[[Reg; 4]]) {
        let idle = self.new_label();
        let [down, across] = self.unit(plan, idle);
        let (a, b) = (self.descriptor(plan, 1, &down), self.descriptor(plan, 2, &across));
        // Groups of eight rows, in units of 16 bytes; 128, 64 and 32 bytes have the numbers 1, 2 and 3.
        let high = self.constant(Literal::u32((plan.k / 2) | ((8 - plan.k.ilog2()) << 30)));
        let adds = self.constant(Literal::from_bits(DataType::Bool, 1));
        self.line("wgmma.fence.sync.aligned;");
        let at = |emit: &mut Self, first: &str, bytes: u32| {
            let low = emit.op(Width::B32, "add.u32", &[first, &(bytes >> 4).to_string()]);
            emit.assign(Width::B64, &format!("mov.b64 {{}}, {{{low}, {high}}}"))
        };
        for (block, c) in (0u32..).zip(registers.chunks(plan.each[1] as usize)) {
            let c = c.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ");
            for step in 0..plan.k / K {
                let a = at(self, &a, block * GROUP_M * plan.k + step * K);
                let b = at(self, &b, step * K);
                let n = plan.each[1] * N;
                self.line(&format!(
                    "wgmma.mma_async.sync.aligned.m64n{n}k32.s32.s8.s8 {{{c}}}, {a}, {b}, {adds};"
                ));
            }
        }
        self.line("wgmma.commit_group.sync.aligned;");
        self.label(idle);
    }
}
