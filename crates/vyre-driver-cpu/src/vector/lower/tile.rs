//! The tile product.

use super::{Lower, context};
use crate::vector::code::{Address, Elem, Indexed, IntCond, IntOp, Kind, MaskOp, Num, Op, Reg};
use vyre_foundation::ir::Tile;

impl Lower<'_> {
    /// `c[i*n + j] += a[i*k + l] * b[j*k + l]` over the tiles, a vector of columns `j` at a time.
    pub(super) fn mma(&mut self, [m, n, k]: [u32; 3], tiles: [&Tile; 3]) {
        let [c, a, b] = tiles.map(|tile| self.tile(tile));
        let lanes = self.lanes_per_vector();
        self.count_to(m, &[], |this, i, _| {
            this.count_to(n.div_ceil(lanes), &[], |this, part, _| {
                let first = this.b.int_const(IntOp::Mul, part, lanes.into());
                let limit = this.b.const_(Kind::S32, n.into());
                let left = this.b.int(IntOp::Sub, limit, first);
                let columns = this.b.emit(Op::MaskFirst(left));
                let row = this.b.int_const(IntOp::Mul, i, n.into());
                let at = this.b.int(IntOp::Add, row, first);
                let (to, mask) = this.tile_row(c, at, columns);
                let sum = this.b.emit(Op::LoadV(Elem::B32, to, Some(mask)));
                let sums = this.count_to(k, &[sum], |this, l, sums| {
                    vec![this.mma_step([i, first, l], k, [a, b], columns, sums[0])]
                });
                this.b.effect(Op::StoreV(Elem::B32, to, sums[0], Some(mask)));
                Vec::new()
            });
            Vec::new()
        });
    }

    /// One product added to a vector of sums.
    fn mma_step(
        &mut self,
        [i, first, l]: [Reg; 3],
        k: u32,
        [a, b]: [TileRegs; 2],
        columns: Reg,
        sum: Reg,
    ) -> Reg {
        let row = self.b.int_const(IntOp::Mul, i, k.into());
        let at = self.b.int(IntOp::Add, row, l);
        let there = self.b.cmp(IntCond::LtU, at, a.left);
        let wide = self.b.convert(Num::U32, Num::U64, at);
        let inside = self.b.int(IntOp::Add, a.base, wide);
        let zero = self.b.int_const(IntOp::Add, self.context, context::ZERO as u64);
        let base = self.b.emit(Op::Select(there, inside, zero));
        let left = self.b.emit(Op::LoadS(Elem::I8, Address { base, index: None, disp: 0 }));
        let left = self.b.emit(Op::Splat(left));
        let lane = self.b.emit(Op::LaneIndex);
        let first = self.b.emit(Op::Splat(first));
        let column = self.b.int(IntOp::Add, lane, first);
        let start = self.b.int_const(IntOp::Mul, column, k.into());
        let l = self.b.emit(Op::Splat(l));
        let index = self.b.int(IntOp::Add, start, l);
        let limit = self.b.emit(Op::Splat(b.left));
        let inside = self.b.cmp(IntCond::LtU, index, limit);
        let mask = Some(self.b.emit(Op::Mask(MaskOp::And, inside, columns)));
        let from = Indexed { base: b.base, index, scale: 1, small: true, mask };
        let right = self.b.emit(Op::Gather(Elem::I8, from));
        let product = self.b.int(IntOp::Mul, left, right);
        self.b.int(IntOp::Add, sum, product)
    }

    /// Where a tile starts, and how many elements are there from then on. Indices are exact sums: none wraps.
    fn tile(&mut self, tile: &Tile) -> TileRegs {
        let regs = self.buffer(tile.buffer);
        let offset = self.scalar(tile.offset);
        let more = self.b.int(IntOp::MaxU, regs.len, offset);
        let left = self.b.int(IntOp::Sub, more, offset);
        let size = self.plan.parts.buffer(tile.buffer).ty.bytes() as u64;
        let wide = self.b.convert(Num::U32, Num::U64, offset);
        let bytes = self.b.int_const(IntOp::Mul, wide, size);
        TileRegs { base: self.b.int(IntOp::Add, regs.base, bytes), left }
    }

    /// A row of a tile of words from element `at` on: its address, and which of `columns` are there.
    fn tile_row(&mut self, tile: TileRegs, at: Reg, columns: Reg) -> (Address, Reg) {
        let more = self.b.int(IntOp::MaxU, tile.left, at);
        let left = self.b.int(IntOp::Sub, more, at);
        let there = self.b.emit(Op::MaskFirst(left));
        let mask = self.b.emit(Op::Mask(MaskOp::And, there, columns));
        let index = self.b.convert(Num::U32, Num::U64, at);
        (Address { base: tile.base, index: Some((index, 4)), disp: 0 }, mask)
    }
}

/// A tile's place.
#[derive(Clone, Copy)]
struct TileRegs {
    /// Its first element's address, an `S64`.
    base: Reg,
    /// The elements from there to the buffer's end, an `S32`.
    left: Reg,
}
