//! What 128-bit vectors do lane by lane: odd ops, narrow elements, masked accesses, gathers, halves.

use super::emit::{Emit, Values, flags};
use crate::vector::code::{Address, Elem, Indexed, Kind, Num, Reg, ShiftOp};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32X4, I8X16, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};
use smallvec::smallvec;

impl Emit<'_> {
    /// A register's lanes.
    fn lanes(&mut self, a: Reg) -> [Value; 4] {
        let values = self.all(a);
        let wide = self.kind(a) == Kind::V64;
        [0u8, 1, 2, 3].map(|lane| match wide {
            true => self.c.ins().extractlane(values[usize::from(lane / 2)], lane % 2),
            false => self.c.ins().extractlane(values[0], lane),
        })
    }

    /// The register of four lanes, of 64 bits if `wide`.
    fn join(&mut self, lanes: [Value; 4], wide: bool) -> Values {
        if wide {
            let pair = |this: &mut Self, a, b| {
                let first = this.c.ins().scalar_to_vector(I64X2, a);
                this.c.ins().insertlane(first, b, 1)
            };
            return smallvec![pair(self, lanes[0], lanes[1]), pair(self, lanes[2], lanes[3])];
        }
        let mut vector = self.c.ins().scalar_to_vector(I32X4, lanes[0]);
        for lane in 1..4u8 {
            vector = self.c.ins().insertlane(vector, lanes[usize::from(lane)], lane);
        }
        smallvec![vector]
    }

    /// An op on each lane, or each pair of lanes; the result is as wide as the first operand.
    pub(super) fn by_lane(
        &mut self,
        a: Reg,
        b: Option<Reg>,
        f: impl Fn(&mut Self, Value, Value) -> Value,
    ) -> Values {
        let wide = self.kind(a) == Kind::V64;
        let x = self.lanes(a);
        let y = b.map_or(x, |b| self.lanes(b));
        let lanes = [0, 1, 2, 3].map(|lane| f(self, x[lane], y[lane]));
        self.join(lanes, wide)
    }

    pub(super) fn convert_lanes(&mut self, from: Num, to: Num, value: Reg) -> Values {
        let lanes = self.lanes(value).map(|x| self.convert_lane(from, to, x));
        self.join(lanes, to.is_wide())
    }

    /// Lane i gets lane `index[i] mod 4`.
    pub(super) fn permute(&mut self, a: Reg, index: Reg) -> Values {
        let three = self.splat32(3);
        let index_value = self.one(index);
        let index_value = self.c.ins().band(index_value, three);
        if self.kind(a) == Kind::V64 {
            let (to, values) = (self.c.ins().stack_addr(I64, self.spread, 0), self.all(a));
            self.c.ins().store(flags(), values[0], to, 0);
            self.c.ins().store(flags(), values[1], to, 16);
            let lanes = [0u8, 1, 2, 3].map(|lane| {
                let lane = self.c.ins().extractlane(index_value, lane);
                let lane = self.c.ins().uextend(I64, lane);
                let ahead = self.c.ins().ishl_imm_u(lane, 3);
                let from = self.c.ins().iadd(to, ahead);
                self.c.ins().load(I64, flags(), from, 0)
            });
            return self.join(lanes, true);
        }
        // Byte by byte: lane j's bytes are 4j to 4j + 3.
        let (fours, bytes) = (self.splat32(0x0404_0404), self.splat32(0x0302_0100));
        let index_value = self.c.ins().imul(index_value, fours);
        let index_value = self.c.ins().iadd(index_value, bytes);
        let picked = self.cast(I8X16, index_value);
        let source = self.one(a);
        let source = self.cast(I8X16, source);
        let found = self.c.ins().swizzle(source, picked);
        smallvec![self.cast(I32X4, found)]
    }

    /// Whether each lane is on, as something to select by.
    fn lane_bits(&mut self, mask: Reg) -> [Value; 4] {
        let mask = self.one(mask);
        [0u8, 1, 2, 3].map(|lane| self.c.ins().extractlane(mask, lane))
    }

    /// Each lane's address, or another where it is off.
    fn lane_addresses(&mut self, addresses: [Value; 4], mask: Option<Reg>, other: Value) -> [Value; 4] {
        let Some(mask) = mask else { return addresses };
        let on = self.lane_bits(mask);
        [0, 1, 2, 3].map(|lane| self.c.ins().select(on[lane], addresses[lane], other))
    }

    fn row(&mut self, elem: Elem, at: &Address) -> [Value; 4] {
        let base = self.whole_address(at);
        [0, 1, 2, 3].map(|lane| {
            let ahead = self.c.ins().iconst(I64, i64::from(lane * elem.bytes()));
            self.c.ins().iadd(base, ahead)
        })
    }

    fn indexed(&mut self, at: &Indexed) -> [Value; 4] {
        let base = self.one(at.base);
        self.lanes(at.index).map(|index| {
            let index = self.c.ins().uextend(I64, index);
            let ahead = self.c.ins().ishl_imm_u(index, i64::from(at.scale.trailing_zeros()));
            self.c.ins().iadd(base, ahead)
        })
    }

    fn load_lanes(&mut self, elem: Elem, addresses: [Value; 4], mask: Option<Reg>) -> Values {
        let zeros = self.c.ins().stack_addr(I64, self.zeros, 0);
        let addresses = self.lane_addresses(addresses, mask, zeros);
        let lanes = addresses.map(|from| self.load_element(elem, from, 0));
        self.join(lanes, elem == Elem::B64)
    }

    fn store_lanes(&mut self, elem: Elem, addresses: [Value; 4], value: Reg, mask: Option<Reg>) {
        let sink = self.c.ins().stack_addr(I64, self.sink, 0);
        let addresses = self.lane_addresses(addresses, mask, sink);
        let lanes = self.lanes(value);
        for lane in 0..4 {
            self.store_element(elem, lanes[lane], addresses[lane], 0);
        }
    }

    pub(super) fn load_vector(&mut self, elem: Elem, at: &Address, mask: Option<Reg>) -> Values {
        if mask.is_some() {
            let addresses = self.row(elem, at);
            return self.load_lanes(elem, addresses, mask);
        }
        let (base, offset) = self.address(at);
        match elem {
            Elem::B32 => smallvec![self.c.ins().load(I32X4, flags(), base, offset)],
            Elem::B64 => {
                let low = self.c.ins().load(I64X2, flags(), base, offset);
                // The constant part may be at its limit.
                let sixteen = self.c.ins().iconst(I64, 16);
                let next = self.c.ins().iadd(base, sixteen);
                smallvec![low, self.c.ins().load(I64X2, flags(), next, offset)]
            }
            Elem::U16 => smallvec![self.c.ins().uload16x4(flags(), base, offset)],
            Elem::I16 => smallvec![self.c.ins().sload16x4(flags(), base, offset)],
            Elem::U8 | Elem::I8 => {
                // Four bytes and not one more.
                let word = self.c.ins().load(I32, flags(), base, offset);
                let bytes = self.c.ins().scalar_to_vector(I32X4, word);
                let bytes = self.cast(I8X16, bytes);
                smallvec![match elem {
                    Elem::U8 => {
                        let halves = self.c.ins().uwiden_low(bytes);
                        self.c.ins().uwiden_low(halves)
                    }
                    _ => {
                        let halves = self.c.ins().swiden_low(bytes);
                        self.c.ins().swiden_low(halves)
                    }
                }]
            }
        }
    }

    pub(super) fn store_vector(&mut self, elem: Elem, at: &Address, value: Reg, mask: Option<Reg>) {
        if mask.is_some() || elem.bytes() < 4 {
            let addresses = self.row(elem, at);
            return self.store_lanes(elem, addresses, value, mask);
        }
        let values = self.all(value);
        let (mut base, offset) = self.address(at);
        for value in values {
            self.c.ins().store(flags(), value, base, offset);
            let sixteen = self.c.ins().iconst(I64, 16);
            base = self.c.ins().iadd(base, sixteen);
        }
    }

    pub(super) fn gather(&mut self, elem: Elem, at: &Indexed) -> Values {
        let addresses = self.indexed(at);
        self.load_lanes(elem, addresses, at.mask)
    }

    pub(super) fn scatter(&mut self, elem: Elem, at: &Indexed, value: Reg) {
        let addresses = self.indexed(at);
        self.store_lanes(elem, addresses, value, at.mask);
    }

    // Halves.

    /// The exponent and fraction, moved where f32 has them, times 2^112; that is exact for subnormals too. What lies from
    /// infinity on gets f32's greatest exponent.
    pub(super) fn half_to_float(&mut self, a: Reg) -> Value {
        let bits = self.one(a);
        let (magnitude_mask, sign_mask) = (self.splat32(0x7fff), self.splat32(0x8000));
        let magnitude = self.c.ins().band(bits, magnitude_mask);
        let sign = self.c.ins().band(bits, sign_mask);
        let sign = self.shift_by(ShiftOp::Shl, sign, 16);
        let moved = self.shift_by(ShiftOp::Shl, magnitude, 13);
        let moved = self.cast(F32X4, moved);
        let scale = self.splat32((127 + 112) << 23);
        let scale = self.cast(F32X4, scale);
        let scaled = self.c.ins().fmul(moved, scale);
        let scaled = self.cast(I32X4, scaled);
        let last = self.splat32(0x7bff);
        let special = self.c.ins().icmp(IntCC::SignedGreaterThan, magnitude, last);
        let exponent = self.splat32(0x7f80_0000);
        let exponent = self.c.ins().band(special, exponent);
        let result = self.c.ins().bor(scaled, exponent);
        self.c.ins().bor(result, sign)
    }

    /// Normals round in integers; subnormals by adding a number whose last bit is their unit, so that the addition
    /// rounds; from 2^16 on it is infinity, or NaN.
    pub(super) fn float_to_half(&mut self, a: Reg) -> Value {
        let bits = self.one(a);
        let sign_mask = self.splat32(0x8000_0000);
        let sign = self.c.ins().band(bits, sign_mask);
        let magnitude = self.c.ins().bxor(bits, sign);

        let odd = self.shift_by(ShiftOp::ShrU, magnitude, 13);
        let one = self.splat32(1);
        let odd = self.c.ins().band(odd, one);
        let rebias = self.splat32(0xc800_0fff);
        let normal = self.c.ins().iadd(magnitude, rebias);
        let normal = self.c.ins().iadd(normal, odd);
        let normal = self.shift_by(ShiftOp::ShrU, normal, 13);

        let magic = self.splat32(126 << 23);
        let (x, y) = (self.cast(F32X4, magnitude), self.cast(F32X4, magic));
        let sum = self.c.ins().fadd(x, y);
        let sum = self.cast(I32X4, sum);
        let small = self.c.ins().isub(sum, magic);

        let least_normal = self.splat32(0x3880_0000);
        let is_small = self.c.ins().icmp(IntCC::SignedLessThan, magnitude, least_normal);
        let result = self.c.ins().bitselect(is_small, small, normal);

        let (infinity, nan, limit) = (self.splat32(0x7c00), self.splat32(0x7e00), self.splat32(0x477f_ffff));
        let f32_infinity = self.splat32(0x7f80_0000);
        let is_nan = self.c.ins().icmp(IntCC::SignedGreaterThan, magnitude, f32_infinity);
        let large = self.c.ins().bitselect(is_nan, nan, infinity);
        let is_large = self.c.ins().icmp(IntCC::SignedGreaterThan, magnitude, limit);
        let result = self.c.ins().bitselect(is_large, large, result);
        let sign = self.shift_by(ShiftOp::ShrU, sign, 16);
        self.c.ins().bor(result, sign)
    }
}
