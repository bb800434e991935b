//! The tile product on tensor cores.
//!
//! `mma.sync` multiplies 16 rows by 8 columns over 32 bytes, one warp at a time, and adds wrapping, as the language does.
//! The tile is divided among the warps in rectangles; each keeps its part of c in registers. A loop that does nothing to c
//! but one tile product after the other keeps it there for all trips.
//!
//! Eight rows of a factor, 16 bytes each, are read at once. They would lie in the same banks of shared memory, so the
//! chunks of 16 bytes in a factor's buffer are exchanged: chunk `c` lies at `c ^ ((c >> 3) & mask)`.
//!
//! Not here: tiles of other shapes, offsets that are not known, and devices before sm_80. Those take the plain loop.

use super::Options;
use super::body::{Emit, Reg, Width};
use vyre_foundation::ir::{Block, BufferId, BufferKind, Literal, Node, ProgramParts, Tile, walk};

/// Rows, columns and depth of one instruction.
const M: u32 = 16;
const N: u32 = 8;
const K: u32 = 32;
/// Registers of c that a thread may hold.
const HELD_MAX: u32 = 128;

/// A tile product that tensor cores can do, and how warps divide it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// c, a and b: the buffer and the first element.
    tiles: [(BufferId, u32); 3],
    n: u32,
    k: u32,
    /// Warps along rows and along columns.
    warps: [u32; 2],
    /// Instructions of one warp along rows and along columns.
    each: [u32; 2],
}

/// A part of c in registers.
pub(super) struct Held {
    plan: Plan,
    registers: Vec<[Reg; 4]>,
}

impl Plan {
    pub(super) fn of(
        parts: &ProgramParts,
        options: &Options,
        [m, n, k]: [u32; 3],
        tiles: [Tile; 3],
    ) -> Option<Plan> {
        let lanes = parts.workgroup_lanes() as u32;
        let fits = m.is_multiple_of(M) && n.is_multiple_of(2 * N) && matches!(k, 32 | 64 | 128);
        if options.sm < 80 || !fits || !lanes.is_multiple_of(32) {
            return None;
        }
        let elements = [m * n, m * k, n * k];
        let mut known = [(tiles[0].buffer, 0); 3];
        for (at, tile) in tiles.iter().enumerate() {
            let offset = tile.offset.literal()?.bits() as u32;
            let len = parts.buffer(tile.buffer).len.unwrap_or(0);
            let inside = u64::from(offset) + u64::from(elements[at]) <= u64::from(len);
            let shared = matches!(parts.buffer(tile.buffer).kind, BufferKind::Workgroup);
            if !inside || !shared || !offset.is_multiple_of(16) {
                return None;
            }
            known[at] = (tile.buffer, offset);
        }
        let (rows, pairs) = (m / M, n / (2 * N));
        let divisions =
            (1..=lanes / 32).flat_map(|down| (1..=lanes / 32 / down).map(move |across| [down, across]));
        let even =
            divisions.filter(|[down, across]| rows.is_multiple_of(*down) && pairs.is_multiple_of(*across));
        // As many warps as possible, and then as few rows and columns to read as possible.
        let best = even.min_by_key(|[down, across]| {
            (lanes / 32 - down * across, 2 * rows / down + 2 * pairs / across)
        })?;
        let each = [rows / best[0], 2 * pairs / best[1]];
        (each[0] * each[1] * 4 <= HELD_MAX).then_some(Plan { tiles: known, n, k, warps: best, each })
    }

    fn active(&self) -> u32 {
        self.warps[0] * self.warps[1]
    }
}

/// By buffer, which chunks are exchanged: zero for none. Only buffers whose every tile has the same depth are.
pub(super) fn swizzles(parts: &ProgramParts, options: &Options) -> Vec<u32> {
    let mut masks: Vec<Option<u32>> = vec![None; parts.buffers.len()];
    walk(&parts.body.block, |_, _, node| {
        let Node::Mma { m, n, k, c, a, b } = node else { return };
        let wanted = match Plan::of(parts, options, [*m, *n, *k], [*c, *a, *b]) {
            Some(_) => k / 16 - 1,
            None => 0,
        };
        for tile in [a, b] {
            let mask = &mut masks[tile.buffer.index()];
            *mask = Some(mask.map_or(wanted, |other| if other == wanted { wanted } else { 0 }));
        }
    });
    masks.into_iter().map(|mask| mask.unwrap_or(0)).collect()
}

impl Emit<'_> {
    /// Where a byte of a swizzled buffer lies, from where it would lie.
    pub(super) fn swizzled(&mut self, buffer: BufferId, offset: &str) -> Reg {
        let mask = self.swizzles[buffer.index()];
        if mask == 0 {
            return offset.to_owned();
        }
        // The bits above a row's chunks, brought down to them.
        let above = self.op(Width::B32, "shr.u32", &[offset, "3"]);
        let moved = self.op(Width::B32, "and.b32", &[&above, &(mask << 4).to_string()]);
        self.op(Width::B32, "xor.b32", &[offset, &moved])
    }

    /// The plan of the one tile product in a loop, if c is touched by nothing else there.
    pub(super) fn held_in(&self, body: &Block) -> Option<Plan> {
        let mut plans = body.iter().filter_map(|node| match node {
            Node::Mma { m, n, k, c, a, b } => Plan::of(self.parts, self.options, [*m, *n, *k], [*c, *a, *b]),
            _ => None,
        });
        let plan = plans.next().filter(|_| self.held.is_none())?;
        let c = plan.tiles[0].0;
        let mut touched = 0;
        walk(body, |_, _, node| {
            touched += match node {
                Node::Load { buffer, .. }
                | Node::UniformLoad { buffer, .. }
                | Node::Store { buffer, .. }
                | Node::Atomic { buffer, .. } => usize::from(*buffer == c),
                Node::Mma { c: tile, .. } => usize::from(tile.buffer == c),
                _ => 0,
            };
        });
        (touched == 1).then_some(plan)
    }

    /// Takes c into registers for the loop that follows.
    pub(super) fn hold(&mut self, plan: Plan) {
        self.barrier();
        let registers = self.take_c(&plan);
        self.held = Some(Held { plan, registers });
    }

    /// Brings c back.
    pub(super) fn release(&mut self) {
        let Some(Held { plan, registers }) = self.held.take() else { return };
        self.give_c(&plan, &registers);
        self.barrier();
    }

    /// The tile product, if tensor cores can do it.
    pub(super) fn tensor(&mut self, plan: Plan) {
        self.barrier();
        match self.held.take() {
            Some(held) if held.plan == plan => {
                self.multiply(&plan, &held.registers);
                self.held = Some(held);
            }
            other => {
                self.held = other;
                let registers = self.take_c(&plan);
                self.multiply(&plan, &registers);
                self.give_c(&plan, &registers);
            }
        }
        self.barrier();
    }

    /// The warp's place among rows and columns of warps; those without one go to `idle`.
    fn warp(&mut self, plan: &Plan, idle: u32) -> [Reg; 2] {
        let index = self.local_index();
        let warp = self.op(Width::B32, "shr.u32", &[&index, "5"]);
        if u64::from(plan.active()) * 32 < self.parts.workgroup_lanes() {
            let without = self.op(Width::Pred, "setp.ge.u32", &[&warp, &plan.active().to_string()]);
            self.line(&format!("@{without} bra $L{idle};"));
        }
        let across = plan.warps[1].to_string();
        let down = self.op(Width::B32, "div.u32", &[&warp, &across]);
        let across = self.op(Width::B32, "rem.u32", &[&warp, &across]);
        [down, across]
    }

    /// This lane's first element of c in shared memory, in bytes: a row for every four lanes, two columns for each.
    fn first_c(&mut self, plan: &Plan, [down, across]: &[Reg; 2]) -> Reg {
        let index = self.local_index();
        let lane = self.op(Width::B32, "and.b32", &[&index, "31"]);
        let row = self.op(Width::B32, "shr.u32", &[&lane, "2"]);
        let row = self.op(Width::B32, "mad.lo.u32", &[down, &(plan.each[0] * M).to_string(), &row]);
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
        let (row, column) = (at as u32 / plan.each[1] * M, at as u32 % plan.each[1] * N);
        [0, 8].map(|below| 4 * ((row + below) * plan.n + column))
    }

    fn take_c(&mut self, plan: &Plan) -> Vec<[Reg; 4]> {
        let count = (plan.each[0] * plan.each[1]) as usize;
        let registers: Vec<[Reg; 4]> =
            (0..count).map(|_| [(); 4].map(|()| self.constant(Literal::u32(0)))).collect();
        let idle = self.new_label();
        let warp = self.warp(plan, idle);
        let first = self.first_c(plan, &warp);
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
        let warp = self.warp(plan, idle);
        let first = self.first_c(plan, &warp);
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

    fn multiply(&mut self, plan: &Plan, registers: &[[Reg; 4]]) {
        let idle = self.new_label();
        let [down, across] = self.warp(plan, idle);
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
}
