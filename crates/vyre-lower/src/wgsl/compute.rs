//! Ops on a lane's own values, as expressions.
//!
//! 32-bit integers have WGSL's own operators where those mean the same; everything else is a call of the library. What
//! is WGSL's business at compile time is kept from it: an op on nothing but literals gets its first one through a `let`,
//! shift amounts are reduced here, and what divides or has a bit field is a function of the library anyway.

use super::body::Body;
use super::module::word;
use vyre_foundation::ir::{ComputeOp, DataType, Literal, Operand};

/// A literal.
pub(super) fn literal(literal: Literal) -> String {
    let bits = literal.bits();
    match literal.ty() {
        DataType::Bool => (bits != 0).to_string(),
        DataType::U32 => format!("{bits}u"),
        // WGSL has no negative literals, and the least number is not the negation of one.
        DataType::I32 if (bits as i32) < 0 => format!("i32({})", bits as i32),
        DataType::I32 => format!("{bits}i"),
        DataType::U64 | DataType::I64 => format!("vec2u({}u, {}u)", bits as u32, bits >> 32),
        DataType::U8
        | DataType::I8
        | DataType::U16
        | DataType::I16
        | DataType::F16
        | DataType::BF16
        | DataType::F32
        | DataType::F64 => unreachable!("emulated by integers: no literal is of type {}", literal.ty()),
    }
}

impl Body<'_, '_> {
    /// The expression of a line, whose operands may be literals.
    pub(super) fn compute_line(&mut self, op: ComputeOp, ty: DataType, args: &[Operand]) -> String {
        let mut texts: Vec<String> = args.iter().map(|arg| self.operand(*arg)).collect();
        match (op, args.last().and_then(|arg| arg.literal())) {
            (ComputeOp::Shl | ComputeOp::Shr, Some(amount)) if ty.bits() == 32 => {
                texts[1] = format!("{}u", amount.bits() % 32);
            }
            (ComputeOp::Shl | ComputeOp::Shr, None) if ty.bits() == 32 => {
                texts[1] = format!("({} & 31u)", texts[1]);
            }
            _ => {}
        }
        if args.iter().all(|arg| arg.value().is_none()) {
            let name = self.temporary("literal");
            self.text.line(format!("let {name} = {};", texts[0]));
            texts[0] = name;
        }
        if matches!(op, ComputeOp::Cast | ComputeOp::Bitcast) {
            let source = self.type_of(args[0]);
            return convert(ty, source, &texts[0]);
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        self.compute(op, ty, &texts)
    }

    /// An op on expressions. Shift amounts are below the width already, or it is the library that shifts.
    pub(super) fn compute(&mut self, op: ComputeOp, ty: DataType, args: &[&str]) -> String {
        let wide = ty.bits() == 64;
        let infix = |operator: &str| format!("{} {operator} {}", args[0], args[1]);
        let call = |function: &str| format!("{function}({})", args.join(", "));
        match op {
            ComputeOp::And => infix("&"),
            ComputeOp::Or => infix("|"),
            ComputeOp::Xor if ty == DataType::Bool => infix("!="),
            ComputeOp::Xor => infix("^"),
            ComputeOp::Not if ty == DataType::Bool => format!("!{}", args[0]),
            ComputeOp::Not => format!("~{}", args[0]),
            ComputeOp::Select => format!("select({}, {}, {})", args[2], args[1], args[0]),
            ComputeOp::Eq if wide => format!("all({})", infix("==")),
            ComputeOp::Ne if wide => format!("any({})", infix("!=")),
            ComputeOp::Eq => infix("=="),
            ComputeOp::Ne => infix("!="),
            ComputeOp::Lt if !wide => infix("<"),
            ComputeOp::Le if !wide => infix("<="),
            ComputeOp::Gt if !wide => infix(">"),
            ComputeOp::Ge if !wide => infix(">="),
            ComputeOp::Gt => self.compute(ComputeOp::Lt, ty, &[args[1], args[0]]),
            ComputeOp::Le => format!("!{}", self.compute(ComputeOp::Lt, ty, &[args[1], args[0]])),
            ComputeOp::Ge => format!("!{}", self.compute(ComputeOp::Lt, ty, args)),
            ComputeOp::Add if !wide => infix("+"),
            ComputeOp::Sub if !wide => infix("-"),
            ComputeOp::Mul if !wide => infix("*"),
            ComputeOp::Shl if !wide => infix("<<"),
            ComputeOp::Shr if !wide => infix(">>"),
            ComputeOp::Neg if !wide => format!("-{}", args[0]),
            ComputeOp::Abs if !wide => call("abs"),
            ComputeOp::Min if !wide => call("min"),
            ComputeOp::Max if !wide => call("max"),
            ComputeOp::Popcount if !wide => call("countOneBits"),
            ComputeOp::Clz if !wide => call("countLeadingZeros"),
            ComputeOp::Ctz if !wide => call("countTrailingZeros"),
            ComputeOp::ReverseBits if !wide => call("reverseBits"),
            ComputeOp::Add
            | ComputeOp::Sub
            | ComputeOp::Mul
            | ComputeOp::Shl
            | ComputeOp::Shr
            | ComputeOp::Neg
            | ComputeOp::Abs
            | ComputeOp::Min
            | ComputeOp::Max
            | ComputeOp::Popcount
            | ComputeOp::Clz
            | ComputeOp::Ctz
            | ComputeOp::ReverseBits
            | ComputeOp::Lt
            | ComputeOp::Div
            | ComputeOp::Rem
            | ComputeOp::MulHi
            | ComputeOp::AddSat
            | ComputeOp::SubSat
            | ComputeOp::Rotl
            | ComputeOp::Rotr
            | ComputeOp::Extract
            | ComputeOp::Insert
            | ComputeOp::Dot4 => call(self.library_op(op, ty)),
            ComputeOp::Cast
            | ComputeOp::Bitcast
            | ComputeOp::Fma
            | ComputeOp::Sqrt
            | ComputeOp::Floor
            | ComputeOp::Ceil
            | ComputeOp::Trunc
            | ComputeOp::Round
            | ComputeOp::Copysign
            | ComputeOp::IsNan
            | ComputeOp::IsInf
            | ComputeOp::Clamp => unreachable!("prepared: {} does not reach WGSL", op.info().name),
        }
    }

    /// The library's function for an op: for its type, or for the unsigned one where the sign makes no difference.
    fn library_op(&mut self, op: ComputeOp, ty: DataType) -> &'static str {
        let own = format!("{}_{ty}", op.info().name);
        match self.module.has_helper(&own) {
            true => self.module.helper(&own),
            false => self.module.helper(&format!("{}_u{}", op.info().name, ty.bits())),
        }
    }
}

/// `cast` and `bitcast` among the types that are left.
fn convert(ty: DataType, source: DataType, x: &str) -> String {
    let wide = |low: &str, high: &str| format!("vec2u({low}, {high})");
    match (ty, source) {
        _ if ty == source => x.to_owned(),
        (DataType::Bool, DataType::U64 | DataType::I64) => format!("any({x} != vec2u())"),
        (DataType::Bool, _) => format!("{x} != {}(0)", word(source)),
        (DataType::U64 | DataType::I64, DataType::U64 | DataType::I64) => x.to_owned(),
        (DataType::U64 | DataType::I64, DataType::Bool) => wide(&format!("u32({x})"), "0u"),
        (DataType::U64 | DataType::I64, DataType::I32) => {
            wide(&format!("bitcast<u32>({x})"), &format!("bitcast<u32>({x} >> 31u)"))
        }
        (DataType::U64 | DataType::I64, _) => wide(x, "0u"),
        (_, DataType::Bool) => format!("{}({x})", word(ty)),
        (DataType::I32, DataType::U64 | DataType::I64) => format!("bitcast<i32>({x}.x)"),
        (_, DataType::U64 | DataType::I64) => format!("{x}.x"),
        _ => format!("bitcast<{}>({x})", word(ty)),
    }
}

/// A value as two words.
pub(super) fn to_words(ty: DataType, x: &str) -> String {
    convert(DataType::U64, if ty == DataType::I32 { DataType::U32 } else { ty }, &as_bits(ty, x))
}

fn as_bits(ty: DataType, x: &str) -> String {
    if ty == DataType::I32 { format!("bitcast<u32>({x})") } else { x.to_owned() }
}

/// The value that two words hold.
pub(super) fn from_words(ty: DataType, x: &str) -> String {
    match ty {
        DataType::Bool => format!("{x}.x != 0u"),
        _ => convert(ty, DataType::U64, x),
    }
}
