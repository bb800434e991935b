//! Ops between types: one rounding from the exact value.

use super::body::{Emit, Reg, Width, typed};
use super::suffix;
use vyre_foundation::ir::{DataType, Literal};

impl Emit<'_> {
    pub(super) fn cast(&mut self, to: DataType, from: DataType, x: &str) -> Reg {
        if to == from {
            return x.into();
        }
        match (to, from) {
            (DataType::Bool, _) => self.cast_to_bool(from, x),
            (_, DataType::Bool) => self.cast_bool(to, x),
            _ if to.is_float() && from.is_float() => self.float_to_float(to, from, x),
            _ if to.is_float() => self.integer_to_float(to, from, x),
            _ if from.is_float() => self.float_to_integer(to, from, x),
            _ => self.integer_to_integer(to, from, x),
        }
    }

    fn cast_to_bool(&mut self, from: DataType, x: &str) -> Reg {
        if Width::of(from) == Width::B16 {
            let wide = self.widen(from, x);
            return self.cast_to_bool(DataType::F32, &wide);
        }
        // Unordered, so NaN is true.
        let name = if from.is_float() { "setp.neu" } else { "setp.ne" };
        let zero = self.constant(Literal::from_bits(from, 0));
        self.op(Width::Pred, &typed(name, from), &[x, &zero])
    }

    fn cast_bool(&mut self, to: DataType, x: &str) -> Reg {
        let one = match to {
            DataType::F16 => 0x3c00,
            DataType::BF16 => 0x3f80,
            DataType::F32 => 0x3f80_0000,
            DataType::F64 => 0x3ff0_0000_0000_0000,
            _ => 1,
        };
        let [one, zero] = [one, 0].map(|bits| self.constant(Literal::from_bits(to, bits)));
        self.select(Width::of(to), x, &one, &zero)
    }

    fn integer_to_integer(&mut self, to: DataType, from: DataType, x: &str) -> Reg {
        match (Width::of(to), Width::of(from)) {
            (Width::B64, Width::B32) if from.is_signed() => self.op(Width::B64, "cvt.s64.s32", &[x]),
            (Width::B64, Width::B32) => self.op(Width::B64, "cvt.u64.u32", &[x]),
            (Width::B32, Width::B64) => self.op(Width::B32, "cvt.u32.u64", &[x]),
            _ => x.into(),
        }
    }

    /// f16 and bf16 as f32, exactly.
    pub(super) fn widen(&mut self, ty: DataType, x: &str) -> Reg {
        if ty == DataType::F16 {
            return self.op(Width::B32, "cvt.f32.f16", &[x]);
        }
        let bits = self.op(Width::B32, "cvt.u32.u16", &[x]);
        self.op(Width::B32, "shl.b32", &[&bits, "16"])
    }

    /// f32 rounded to f16 or bf16.
    pub(super) fn narrow(&mut self, ty: DataType, x: &str) -> Reg {
        if ty == DataType::F16 {
            return self.op(Width::B16, "cvt.rn.f16.f32", &[x]);
        }
        if self.options.sm >= 80 {
            return self.op(Width::B16, "cvt.rn.bf16.f32", &[x]);
        }
        // Adding just under half an ulp, and the last kept bit, rounds to nearest even; NaN must not overflow to zero.
        let last = self.op(Width::B32, "bfe.u32", &[x, "16", "1"]);
        let sum = self.op(Width::B32, "add.u32", &[x, "0x7fff"]);
        let sum = self.op(Width::B32, "add.u32", &[&sum, &last]);
        let top = self.op(Width::B32, "shr.u32", &[&sum, "16"]);
        let nan = self.op(Width::Pred, "setp.nan.f32", &[x, x]);
        let top = self.op(Width::B32, "selp.b32", &["0x7fc0", &top, &nan]);
        self.op(Width::B16, "cvt.u16.u32", &[&top])
    }

    fn float_to_float(&mut self, to: DataType, from: DataType, x: &str) -> Reg {
        match (to, from) {
            (DataType::F64, DataType::F32) => {
                let wide = self.op(Width::B64, "cvt.f64.f32", &[x]);
                self.widened.insert(wide.clone(), x.into());
                wide
            }
            (DataType::F32, DataType::F64) => self.op(Width::B32, "cvt.rn.f32.f64", &[x]),
            (DataType::F16, DataType::F64) => self.op(Width::B16, "cvt.rn.f16.f64", &[x]),
            (DataType::BF16, DataType::F64) => {
                // Rounded to odd in f32 first: cut off, and the last bit set if anything was lost.
                let cut = self.op(Width::B32, "cvt.rz.f32.f64", &[x]);
                let back = self.op(Width::B64, "cvt.f64.f32", &[&cut]);
                let exact = self.op(Width::Pred, "setp.equ.f64", &[&back, x]);
                let odd = self.op(Width::B32, "or.b32", &[&cut, "1"]);
                let odd = self.select(Width::B32, &exact, &cut, &odd);
                self.narrow(to, &odd)
            }
            (_, DataType::F16 | DataType::BF16) => {
                let wide = self.widen(from, x);
                self.cast(to, DataType::F32, &wide)
            }
            _ => self.narrow(to, x),
        }
    }

    fn integer_to_float(&mut self, to: DataType, from: DataType, x: &str) -> Reg {
        if to != DataType::BF16 {
            return self.op(Width::of(to), &format!("cvt.rn.{}.{}", suffix(to), suffix(from)), &[x]);
        }
        let cut = self.op(Width::B32, &format!("cvt.rz.f32.{}", suffix(from)), &[x]);
        let back = self.op(Width::of(from), &format!("cvt.rzi.{}.f32", suffix(from)), &[&cut]);
        let exact = self.op(Width::Pred, &typed("setp.eq", from), &[&back, x]);
        let odd = self.op(Width::B32, "or.b32", &[&cut, "1"]);
        let odd = self.select(Width::B32, &exact, &cut, &odd);
        self.narrow(to, &odd)
    }

    /// The conversion saturates; NaN gives 0 only from f32 to 32 bits, so it is asked for elsewhere.
    fn float_to_integer(&mut self, to: DataType, from: DataType, x: &str) -> Reg {
        if Width::of(from) == Width::B16 {
            let wide = self.widen(from, x);
            return self.float_to_integer(to, DataType::F32, &wide);
        }
        let width = Width::of(to);
        let result = self.op(width, &format!("cvt.rzi.{}.{}", suffix(to), suffix(from)), &[x]);
        if width == Width::B32 && from == DataType::F32 {
            return result;
        }
        let nan = self.is_nan(from, x);
        self.op(width, &format!("selp.{}", width.bits()), &["0", &result, &nan])
    }

    pub(super) fn bitcast(&mut self, to: DataType, from: DataType, x: &str) -> Reg {
        let observed = self.observe(from, x);
        match (Width::of(to), Width::of(from)) {
            (Width::B32, Width::B16) => self.op(Width::B32, "cvt.u32.u16", &[&observed]),
            (Width::B16, Width::B32) => self.op(Width::B16, "cvt.u16.u32", &[&observed]),
            _ => observed,
        }
    }

    /// The value as it is observed in storage and by bitcasts: every NaN is the canonical one.
    pub(super) fn observe(&mut self, ty: DataType, x: &str) -> Reg {
        let Some(canonical) = ty.canonical_nan() else { return x.into() };
        let nan = self.is_nan(ty, x);
        let canonical = self.constant(Literal::from_bits(ty, canonical));
        self.select(Width::of(ty), &nan, &canonical, x)
    }
}
