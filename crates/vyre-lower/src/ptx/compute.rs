//! Ops on a lane's own values.

use super::body::{Emit, Reg, Width, typed};
use super::suffix;
use vyre_foundation::ir::{ComputeOp, DataType, Literal, Operand};

impl Emit<'_> {
    pub(super) fn compute(&mut self, op: ComputeOp, ty: DataType, args: &[Operand]) -> Reg {
        let source = self.type_of(args[0]);
        let is = |arg: &Operand, test: fn(Literal) -> bool| matches!(arg, Operand::Literal(x) if test(*x));
        if matches!(op, ComputeOp::Min | ComputeOp::Max)
            && ty.is_float()
            && args.iter().any(|arg| is(arg, is_nan) || is(arg, is_minus_zero))
        {
            return self.bounded(op, ty, args);
        }
        let mut regs: Vec<Reg> = args.iter().map(|arg| self.operand(*arg)).collect();
        if is_comparison(op) && source.is_float() {
            // `ptxas` takes a magnitude for one that is never below zero, and forgets that NaN is no number.
            let sign_or_zero = |x: Literal| x.bits() == 0 || x.bits() > x.ty().mask() >> 1;
            for (arg, reg) in args.iter().zip(&mut regs).filter(|(arg, _)| is(arg, sign_or_zero)) {
                *reg = self.opaque(self.type_of(*arg), reg);
            }
        }
        if op == ComputeOp::Bitcast && ty.is_float() && !self.all_solid(args) {
            regs[0] = self.opaque(source, &regs[0]);
        }
        if op == ComputeOp::Shr && ty.is_signed() && Width::of(ty) == Width::B32 {
            // `ptxas` takes a known sign that is shifted by a known number for zero.
            regs[1] = self.opaque(DataType::U32, &regs[1]);
        }
        let args: Vec<&str> = regs.iter().map(String::as_str).collect();
        match op {
            ComputeOp::Cast => self.cast(ty, source, args[0]),
            ComputeOp::Bitcast => self.bitcast(ty, source, args[0]),
            ComputeOp::Select => self.select(Width::of(ty), args[0], args[1], args[2]),
            _ if ty == DataType::Bool => self.boolean(op, &args),
            _ if ty.is_float() => self.float(op, ty, &args),
            _ => self.integer(op, ty, &args),
        }
    }

    /// Whether a result is surely no choice between 1 and 0. `ptxas` takes one whose bits a float shows for the integer,
    /// and converts, rounds and negates that.
    pub(super) fn is_solid(&self, op: ComputeOp, args: &[Operand]) -> bool {
        let source = self.type_of(args[0]);
        op != ComputeOp::Select && source != DataType::Bool && (source.is_float() || self.all_solid(args))
    }

    fn all_solid(&self, args: &[Operand]) -> bool {
        args.iter().all(|arg| arg.value().is_none_or(|value| self.solid[value.index()]))
    }

    /// An op of two operands of its own type, on registers.
    pub(super) fn binary(&mut self, op: ComputeOp, ty: DataType, a: &str, b: &str) -> Reg {
        if ty.is_float() { self.float(op, ty, &[a, b]) } else { self.integer(op, ty, &[a, b]) }
    }

    /// `min` and `max` whose literals `ptxas` misreads. NaN gives way to a number, but is taken for a bound, and the
    /// sign of the result then for known. From -0 to 1 is taken for from 0 to 1.
    fn bounded(&mut self, op: ComputeOp, ty: DataType, args: &[Operand]) -> Reg {
        let is = |arg: &Operand, test: fn(Literal) -> bool| matches!(arg, Operand::Literal(x) if test(*x));
        let numbers: Vec<Operand> = args.iter().copied().filter(|arg| !is(arg, is_nan)).collect();
        let mut regs = Vec::new();
        for arg in &numbers {
            let reg = self.operand(*arg);
            regs.push(if is(arg, is_minus_zero) { self.opaque(ty, &reg) } else { reg });
        }
        match regs.as_slice() {
            [] => self.operand(args[0]),
            [number] => number.clone(),
            [a, b, ..] => self.float(op, ty, &[a, b]),
        }
    }

    fn boolean(&mut self, op: ComputeOp, args: &[&str]) -> Reg {
        let name = match op {
            ComputeOp::And => "and.pred",
            ComputeOp::Or => "or.pred",
            ComputeOp::Xor | ComputeOp::Ne => "xor.pred",
            ComputeOp::Not => return self.op(Width::Pred, "not.pred", args),
            ComputeOp::Eq => {
                let differ = self.op(Width::Pred, "xor.pred", args);
                return self.op(Width::Pred, "not.pred", &[&differ]);
            }
            other => unreachable!("validated: {other:?} is not of bool"),
        };
        self.op(Width::Pred, name, args)
    }

    /// A comparison; floats are ordered but for `ne`.
    fn compare(&mut self, op: ComputeOp, ty: DataType, args: &[&str]) -> Option<Reg> {
        let name = match op {
            ComputeOp::Eq => "eq",
            ComputeOp::Ne if ty.is_float() => "neu",
            ComputeOp::Ne => "ne",
            ComputeOp::Lt => "lt",
            ComputeOp::Le => "le",
            ComputeOp::Gt => "gt",
            ComputeOp::Ge => "ge",
            _ => return None,
        };
        Some(self.op(Width::Pred, &typed(&format!("setp.{name}"), ty), args))
    }

    fn integer(&mut self, op: ComputeOp, ty: DataType, args: &[&str]) -> Reg {
        if let Some(reg) = self.compare(op, ty, args) {
            return reg;
        }
        let width = Width::of(ty);
        let (bits, untyped) = (ty.bits(), width.bits());
        match op {
            ComputeOp::Add => self.op(width, &typed("add", ty), args),
            ComputeOp::Sub => self.op(width, &typed("sub", ty), args),
            ComputeOp::Mul => self.op(width, &typed("mul.lo", ty), args),
            ComputeOp::MulHi => self.op(width, &typed("mul.hi", ty), args),
            ComputeOp::Div => self.divide(ty, args[0], args[1], true),
            ComputeOp::Rem => self.divide(ty, args[0], args[1], false),
            ComputeOp::Neg => self.op(width, &typed("neg", ty), args),
            ComputeOp::Abs => self.absolute(ty, args[0]),
            ComputeOp::Min => self.op(width, &typed("min", ty), args),
            ComputeOp::Max => self.op(width, &typed("max", ty), args),
            ComputeOp::AddSat => self.add_sat(ty, args[0], args[1]),
            ComputeOp::SubSat => self.sub_sat(ty, args[0], args[1]),
            ComputeOp::And => self.op(width, &format!("and.{untyped}"), args),
            ComputeOp::Or => self.op(width, &format!("or.{untyped}"), args),
            ComputeOp::Xor => self.op(width, &format!("xor.{untyped}"), args),
            ComputeOp::Not => self.invert(width, args[0]),
            ComputeOp::Shl => {
                let n = self.op(Width::B32, "and.b32", &[args[1], &(bits - 1).to_string()]);
                self.op(width, &format!("shl.{untyped}"), &[args[0], &n])
            }
            ComputeOp::Shr => {
                let n = self.op(Width::B32, "and.b32", &[args[1], &(bits - 1).to_string()]);
                self.op(width, &typed("shr", ty), &[args[0], &n])
            }
            ComputeOp::Rotl => self.rotate(width, args[0], args[1], true),
            ComputeOp::Rotr => self.rotate(width, args[0], args[1], false),
            ComputeOp::Popcount => self.count(width, "popc", args[0]),
            ComputeOp::Clz => self.count(width, "clz", args[0]),
            ComputeOp::Ctz => {
                let reversed = self.op(width, &format!("brev.{untyped}"), args);
                self.count(width, "clz", &reversed)
            }
            ComputeOp::ReverseBits => self.op(width, &format!("brev.{untyped}"), args),
            ComputeOp::Extract => self.extract(ty, args[0], args[1], args[2]),
            ComputeOp::Insert => self.insert(ty, args),
            ComputeOp::Dot4 => self.op(width, &format!("dp4a.{0}.{0}", suffix(ty)), args),
            ComputeOp::Eq | ComputeOp::Ne | ComputeOp::Lt | ComputeOp::Le | ComputeOp::Gt | ComputeOp::Ge => {
                unreachable!("compared above")
            }
            ComputeOp::Select | ComputeOp::Cast | ComputeOp::Bitcast => unreachable!("of any type"),
            ComputeOp::Clamp => unreachable!("legalised: a maximum and a minimum"),
            ComputeOp::Fma
            | ComputeOp::Sqrt
            | ComputeOp::Floor
            | ComputeOp::Ceil
            | ComputeOp::Trunc
            | ComputeOp::Round
            | ComputeOp::Copysign
            | ComputeOp::IsNan
            | ComputeOp::IsInf => unreachable!("validated: of floats"),
        }
    }

    /// Inverts all bits, by a difference. `ptxas` forgets the inversion of `not` and of `xor` with ones where it knows the
    /// operand to be zero, as behind a branch, and ends with a fault where it looks into `lop3`.
    fn invert(&mut self, width: Width, x: &str) -> Reg {
        let name = if width == Width::B64 { "sub.u64" } else { "sub.u32" };
        self.op(width, name, &["-1", x])
    }

    /// `popc` and `clz` count in 32 bits, whatever they count in.
    fn count(&mut self, width: Width, op: &str, x: &str) -> Reg {
        let count = self.op(Width::B32, &format!("{op}.{}", width.bits()), &[x]);
        if width == Width::B64 { self.op(width, "cvt.u64.u32", &[&count]) } else { count }
    }

    /// A divisor of 0 or -1 becomes 1, which leaves `x / 0 = x`, `x % 0 = 0` and `x % -1 = 0`; `x / -1` is a negation.
    fn divide(&mut self, ty: DataType, a: &str, b: &str, quotient: bool) -> Reg {
        let width = Width::of(ty);
        let bits = width.bits();
        let zero = self.op(Width::Pred, &format!("setp.eq.{bits}"), &[b, "0"]);
        let mut divisor = self.op(width, &format!("selp.{bits}"), &["1", b, &zero]);
        if !ty.is_signed() {
            return self.op(width, &typed(if quotient { "div" } else { "rem" }, ty), &[a, &divisor]);
        }
        let minus_one = self.op(Width::Pred, &format!("setp.eq.{}", suffix(ty)), &[b, "-1"]);
        divisor = self.op(width, &format!("selp.{bits}"), &["1", &divisor, &minus_one]);
        let result = self.op(width, &typed(if quotient { "div" } else { "rem" }, ty), &[a, &divisor]);
        if !quotient {
            return result;
        }
        let negated = self.op(width, &typed("neg", ty), &[a]);
        self.select(width, &minus_one, &negated, &result)
    }

    fn add_sat(&mut self, ty: DataType, a: &str, b: &str) -> Reg {
        let width = Width::of(ty);
        if ty.is_signed() {
            return self.saturate_signed(ty, a, b, true);
        }
        let sum = self.op(width, &typed("add", ty), &[a, b]);
        let over = self.op(Width::Pred, &typed("setp.lt", ty), &[&sum, a]);
        let max = self.constant(Literal::from_bits(ty, u64::MAX));
        self.select(width, &over, &max, &sum)
    }

    fn sub_sat(&mut self, ty: DataType, a: &str, b: &str) -> Reg {
        let width = Width::of(ty);
        if ty.is_signed() {
            return self.saturate_signed(ty, a, b, false);
        }
        let least = self.op(width, &typed("min", ty), &[a, b]);
        self.op(width, &typed("sub", ty), &[a, &least])
    }

    /// Signed sums and differences overflow where the result's sign is not what the operands' signs allow. PTX has
    /// `add.sat.s32`, but its compiler folds a wrapping sum before it into it, and then that one saturates as well.
    fn saturate_signed(&mut self, ty: DataType, a: &str, b: &str, add: bool) -> Reg {
        let (width, bits) = (Width::of(ty), Width::of(ty).bits());
        let result = self.op(width, &typed(if add { "add" } else { "sub" }, ty), &[a, b]);
        let by_a = self.op(width, &format!("xor.{bits}"), &[a, &result]);
        let by_b = self.op(width, &format!("xor.{bits}"), &[if add { &result } else { a }, b]);
        let over = self.op(width, &format!("and.{bits}"), &[&by_a, &by_b]);
        let over = self.op(Width::Pred, &typed("setp.lt", ty), &[&over, "0"]);
        let sign = self.op(width, &typed("shr", ty), &[a, &(ty.bits() - 1).to_string()]);
        let limit = self.op(width, &format!("xor.{bits}"), &[&sign, &format!("{:#x}", ty.mask() >> 1)]);
        self.select(width, &over, &limit, &result)
    }

    /// By the sign's bits: `ptxas` gets a maximum with the negated operand wrong under another maximum and a minimum, and
    /// `abs` of the least value is left open by PTX.
    fn absolute(&mut self, ty: DataType, x: &str) -> Reg {
        let width = Width::of(ty);
        let sign = self.op(width, &typed("shr", ty), &[x, &(ty.bits() - 1).to_string()]);
        let turned = self.op(width, &format!("xor.{}", width.bits()), &[x, &sign]);
        self.op(width, &typed("sub", ty), &[&turned, &sign])
    }

    fn rotate(&mut self, width: Width, x: &str, n: &str, left: bool) -> Reg {
        if width == Width::B32 {
            return self.op(width, if left { "shf.l.wrap.b32" } else { "shf.r.wrap.b32" }, &[x, x, n]);
        }
        let by = self.op(Width::B32, "and.b32", &[n, "63"]);
        let rest = self.op(Width::B32, "sub.u32", &["64", &by]);
        let (first, second) = if left { (&by, &rest) } else { (&rest, &by) };
        // A shift by 64 gives 0 in PTX, which is what a rotation by 0 wants of its other half.
        let high = self.op(width, "shl.b64", &[x, first]);
        let low = self.op(width, "shr.u64", &[x, second]);
        self.op(width, "or.b64", &[&high, &low])
    }

    /// The offset clamped to the width, and the count clamped to what is left of it.
    fn clamp_field(&mut self, bits: u32, offset: &str, count: &str) -> (Reg, Reg) {
        let bits = bits.to_string();
        let offset = self.op(Width::B32, "min.u32", &[offset, &bits]);
        let left = self.op(Width::B32, "sub.u32", &[&bits, &offset]);
        let count = self.op(Width::B32, "min.u32", &[count, &left]);
        (offset, count)
    }

    /// Shifts up until the field touches the top, then down. PTX shifts by the width give 0, or all signs.
    fn extract(&mut self, ty: DataType, x: &str, offset: &str, count: &str) -> Reg {
        let (width, bits) = (Width::of(ty), ty.bits().to_string());
        let (offset, count) = self.clamp_field(ty.bits(), offset, count);
        let above = self.op(Width::B32, "sub.u32", &[&bits, &count]);
        let up = self.op(Width::B32, "sub.u32", &[&above, &offset]);
        let top = self.op(width, &format!("shl.{}", width.bits()), &[x, &up]);
        let field = self.op(width, &typed("shr", ty), &[&top, &above]);
        if !ty.is_signed() {
            return field;
        }
        let empty = self.op(Width::Pred, "setp.eq.u32", &[&count, "0"]);
        self.op(width, &format!("selp.{}", width.bits()), &["0", &field, &empty])
    }

    fn insert(&mut self, ty: DataType, args: &[&str]) -> Reg {
        let (width, bits) = (Width::of(ty), ty.bits().to_string());
        let untyped = width.bits();
        let (offset, count) = self.clamp_field(ty.bits(), args[2], args[3]);
        let above = self.op(Width::B32, "sub.u32", &[&bits, &count]);
        let ones = self.constant(Literal::from_bits(
            if width == Width::B64 { DataType::U64 } else { DataType::U32 },
            u64::MAX,
        ));
        let low = self.op(width, if width == Width::B64 { "shr.u64" } else { "shr.u32" }, &[&ones, &above]);
        let mask = self.op(width, &format!("shl.{untyped}"), &[&low, &offset]);
        let field = self.op(width, &format!("shl.{untyped}"), &[args[1], &offset]);
        let field = self.op(width, &format!("and.{untyped}"), &[&field, &mask]);
        let kept = self.invert(width, &mask);
        let kept = self.op(width, &format!("and.{untyped}"), &[args[0], &kept]);
        self.op(width, &format!("or.{untyped}"), &[&kept, &field])
    }

    fn float(&mut self, op: ComputeOp, ty: DataType, args: &[&str]) -> Reg {
        let width = Width::of(ty);
        match op {
            ComputeOp::Neg | ComputeOp::Abs | ComputeOp::Copysign | ComputeOp::IsInf => {
                return self.float_bits(op, ty, args);
            }
            _ => {}
        }
        if width == Width::B16 {
            return self.half(op, ty, args);
        }
        if let Some(reg) = self.compare(op, ty, args) {
            return reg;
        }
        let rounded = |name: &str| format!("{name}.rn.{}", suffix(ty));
        let to_integer = |mode: &str| format!("cvt.{mode}.{0}.{0}", suffix(ty));
        let name = match op {
            ComputeOp::Add => rounded("add"),
            ComputeOp::Sub => rounded("sub"),
            ComputeOp::Mul => rounded("mul"),
            ComputeOp::Div => rounded("div"),
            ComputeOp::Fma => rounded("fma"),
            ComputeOp::Sqrt => rounded("sqrt"),
            ComputeOp::Min => typed("min", ty),
            ComputeOp::Max => typed("max", ty),
            ComputeOp::Floor => to_integer("rmi"),
            ComputeOp::Ceil => to_integer("rpi"),
            ComputeOp::Trunc => to_integer("rzi"),
            ComputeOp::Round => to_integer("rni"),
            ComputeOp::IsNan => return self.is_nan(ty, args[0]),
            other => unreachable!("validated: {other:?} is not of floats, or has an arm above"),
        };
        self.op(width, &name, args)
    }

    /// Ops that move or test bits.
    fn float_bits(&mut self, op: ComputeOp, ty: DataType, args: &[&str]) -> Reg {
        let width = Width::of(ty);
        let untyped = width.bits();
        let sign = format!("{:#x}", 1u64 << (ty.bits() - 1));
        match op {
            ComputeOp::Neg => self.op(width, &format!("xor.{untyped}"), &[args[0], &sign]),
            ComputeOp::Abs => self.magnitude(ty, args[0]),
            ComputeOp::Copysign => {
                let rest = format!("{:#x}", ty.mask() >> 1);
                let magnitude = self.op(width, &format!("and.{untyped}"), &[args[0], &rest]);
                let signs = if ty == DataType::F32 {
                    // A difference that is NaN has no sign.
                    let zero = self.assign(Width::B32, "ld.param.u32 {}, [zero]");
                    let plain = self.op(width, "sub.rn.f32", &[args[1], &zero]);
                    self.op(width, "and.b32", &[&plain, &sign])
                } else {
                    let signs = self.op(width, &format!("and.{untyped}"), &[args[1], &sign]);
                    let nan = self.is_nan(ty, args[1]);
                    let plus = self.constant(Literal::from_bits(ty, 0));
                    self.select(width, &nan, &plus, &signs)
                };
                self.op(width, &format!("or.{untyped}"), &[&magnitude, &signs])
            }
            _ => {
                let magnitude = self.magnitude(ty, args[0]);
                let infinity = format!("{:#x}", infinity(ty));
                self.op(Width::Pred, &format!("setp.eq.{untyped}"), &[&magnitude, &infinity])
            }
        }
    }

    /// Without its sign.
    fn magnitude(&mut self, ty: DataType, x: &str) -> Reg {
        match Width::of(ty) {
            // There is no instruction for it on every target.
            Width::B16 => self.op(Width::B16, "and.b16", &[x, "0x7fff"]),
            width => {
                let magnitude = self.op(width, &typed("abs", ty), &[x]);
                if let Some(narrow) = self.widened.get(x).cloned() {
                    self.widened.insert(magnitude.clone(), narrow);
                }
                magnitude
            }
        }
    }

    pub(super) fn is_nan(&mut self, ty: DataType, x: &str) -> Reg {
        if Width::of(ty) == Width::B16 {
            let wide = self.widen(ty, x);
            return self.op(Width::Pred, "setp.nan.f32", &[&wide, &wide]);
        }
        if let Some(narrow) = self.widened.get(x).cloned() {
            return self.is_nan(DataType::F32, &narrow);
        }
        self.op(Width::Pred, &typed("setp.nan", ty), &[x, x])
    }

    /// f16 and bf16: native where the instruction is exact on every target, else in f32 and rounded once more, which f32
    /// is wide enough for (24 bits are at least 2 * 11 + 2).
    fn half(&mut self, op: ComputeOp, ty: DataType, args: &[&str]) -> Reg {
        if ty == DataType::F16
            && matches!(op, ComputeOp::Add | ComputeOp::Sub | ComputeOp::Mul | ComputeOp::Fma)
        {
            return self.op(Width::B16, &format!("{}.rn.f16", op.info().name), args);
        }
        if op == ComputeOp::Fma {
            return self.fma_bf16(args);
        }
        let wide: Vec<Reg> = args.iter().map(|arg| self.widen(ty, arg)).collect();
        let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
        let result = self.float(op, DataType::F32, &wide);
        match op {
            ComputeOp::Eq
            | ComputeOp::Ne
            | ComputeOp::Lt
            | ComputeOp::Le
            | ComputeOp::Gt
            | ComputeOp::Ge
            | ComputeOp::IsNan => result,
            _ => self.narrow(ty, &result),
        }
    }

    /// Product and sum in f64, the sum rounded to odd so that rounding it again to bf16 is right.
    fn fma_bf16(&mut self, args: &[&str]) -> Reg {
        if self.options.sm >= 80 {
            return self.op(Width::B16, "fma.rn.bf16", args);
        }
        let wide: Vec<Reg> = args
            .iter()
            .map(|arg| {
                let single = self.widen(DataType::BF16, arg);
                self.op(Width::B64, "cvt.f64.f32", &[&single])
            })
            .collect();
        let product = self.op(Width::B64, "mul.rn.f64", &[&wide[0], &wide[1]]);
        let zeroward = self.op(Width::B64, "add.rz.f64", &[&product, &wide[2]]);
        let down = self.op(Width::B64, "add.rm.f64", &[&product, &wide[2]]);
        let up = self.op(Width::B64, "add.rp.f64", &[&product, &wide[2]]);
        let exact = self.op(Width::Pred, "setp.equ.f64", &[&down, &up]);
        let odd = self.op(Width::B64, "or.b64", &[&zeroward, "1"]);
        // Where the sum is exact it is not odd, and its zero has the sign of rounding to nearest.
        let nearest = self.op(Width::B64, "add.rn.f64", &[&product, &wide[2]]);
        let sum = self.select(Width::B64, &exact, &nearest, &odd);
        self.cast(DataType::BF16, DataType::F64, &sum)
    }
}

const fn is_comparison(op: ComputeOp) -> bool {
    matches!(
        op,
        ComputeOp::Eq | ComputeOp::Ne | ComputeOp::Lt | ComputeOp::Le | ComputeOp::Gt | ComputeOp::Ge
    )
}

/// The bits of infinity.
pub(super) const fn infinity(ty: DataType) -> u64 {
    match ty {
        DataType::F16 => 0x7c00,
        DataType::BF16 => 0x7f80,
        DataType::F32 => 0x7f80_0000,
        _ => 0x7ff0_0000_0000_0000,
    }
}

fn is_nan(x: Literal) -> bool {
    x.bits() & (x.ty().mask() >> 1) > infinity(x.ty())
}

fn is_minus_zero(x: Literal) -> bool {
    x.bits() == x.ty().mask() ^ (x.ty().mask() >> 1)
}
