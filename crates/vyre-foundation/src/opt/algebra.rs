//! Rewrites an op into a simpler one that gives the same bits for every input.
//!
//! | rule | exact because |
//! | --- | --- |
//! | literals go right in commutative ops | the ops are commutative, floats too, NaN bits aside |
//! | `x+0 x-0 x*1 x/1 x|0 x^0 x&-1 x<<0 rotl(x,0)` and saturating `x+0 x-0` are `x` (integers) | wrapping arithmetic has these identities |
//! | `x*0 x&0 mul_hi(x,0)` are 0, `x|-1` is -1 | the same |
//! | `x-x x^x` are 0, `x&x x|x min(x,x) max(x,x)` are `x` | integers; floats only for `min` and `max` |
//! | `x/0` is `x`, `x%0 x%1` are 0 | the language defines it so |
//! | `x * 2^k` is `x << k` | wrapping |
//! | unsigned `x / 2^k` is `x >> k`, `x % 2^k` is `x & (2^k - 1)` | no sign to round toward zero |
//! | `(x op a) op b` is `x op (a op b)` for integer `+ * & | ^` | wrapping `+` and `*` are associative |
//! | `x ^ -1` is `not x`, `0 - x` is `neg x` (signed) | two's complement |
//! | `not not x`, `neg neg x`, `abs abs x`, `abs neg x` | a sign bit flipped twice or cleared |
//! | `not (a < b)` is `a >= b`, and the like | integers; `eq` and `ne` on floats too, since exactly one holds for NaN |
//! | `x == x` and the like are known | integers and bool; on floats only `x < x` and `x > x`, false also for NaN |
//! | `x + -y` is `x - y`, `x - -y` is `x + y` | IEEE subtraction is addition of the negation |
//! | `x + -0.0`, `x - 0.0` are `x` | also for both zeros; `x + 0.0` is not: it turns -0 into +0 |
//! | `-0.0 - x` is `neg x` | also for both zeros; `0.0 - x` is not |
//! | `x * 1.0 x / 1.0` are `x`, `x * -1.0 x / -1.0` are `neg x` | no rounding; NaN stays some NaN |
//! | `x / 2^k` is `x * 2^-k` for floats | both round the same exact quotient, if `2^-k` is a float |
//! | `fma(x, 1.0, y)` is `x + y`, `fma(x, y, -0.0)` is `x * y` | one rounding of the same exact number |
//! | `floor ceil trunc round` of such a result is that result | it is integral already |
//! | `select(c, x, x)` is `x`, `select(c, true, false)` is `c` | either way |
//! | `select(not c, x, y)` is `select(c, y, x)` | the same choice |
//! | a cast to the operand's own type, or there and back through a wider type | nothing is lost on the way |
//! | `bitcast` there and back | not from integers through floats: a NaN pattern becomes canonical |
//!
//! Not here, because they are wrong: `x + 0.0`, `x * 0.0`, `x - x` on floats, `x == x` on floats, `min(x, inf)` (a NaN
//! gives way to infinity), signed division by shifts, and any reassociation of floats.

use super::edit::{Replacements, Surroundings, each_body, literal};
use super::fold;
use crate::ir::{Args, Block, Body, ComputeOp, DataType, Node, Operand, ProgramParts};
use smallvec::smallvec;

pub(super) fn run(parts: &mut ProgramParts) {
    each_body(parts, |around, body| {
        let mut algebra = Algebra::new(around, body);
        algebra.block(&mut body.block);
    });
}

/// The op that gives a value, as later rules look at it.
#[derive(Clone)]
struct Definition {
    op: ComputeOp,
    ty: DataType,
    args: Args,
}

/// What a line becomes.
enum Outcome {
    /// It stays.
    Same,
    /// Its value is this operand, and the line goes.
    Operand(Operand),
    /// Another op computes it.
    Op(ComputeOp, Args),
    /// Another op under another suffix computes it.
    Typed(ComputeOp, DataType, Args),
}

struct Algebra<'a> {
    around: &'a Surroundings<'a>,
    replaced: Replacements,
    definitions: Vec<Option<Definition>>,
    types: Vec<Option<DataType>>,
}

impl<'a> Algebra<'a> {
    fn new(around: &'a Surroundings<'a>, body: &Body) -> Algebra<'a> {
        let mut types = vec![None; body.values.len()];
        for (param, ty) in around.function.iter().flat_map(|function| &function.params) {
            types[param.index()] = Some(*ty);
        }
        Algebra {
            around,
            replaced: Replacements::new(body),
            definitions: vec![None; body.values.len()],
            types,
        }
    }

    fn block(&mut self, block: &mut Block) {
        block.retain_mut(|node| {
            self.replaced.apply(node);
            if let Some(result) = node.result() {
                self.types[result.index()] = self.around.result_type(node);
            }
            let keep = self.line(node);
            node.blocks_mut().for_each(|inner| self.block(inner));
            keep
        });
    }

    /// Simplifies a line. Says whether it stays.
    fn line(&mut self, node: &mut Node) -> bool {
        let Node::Compute { result, op, ty, args } = node else { return true };
        let replacement = self.simplify(op, ty, args);
        if let Some(operand) = replacement {
            self.replaced.put(*result, operand);
            return false;
        }
        let args = Args::from_slice(args);
        self.definitions[result.index()] = Some(Definition { op: *op, ty: *ty, args });
        true
    }

    /// Applies rules until none fits. Gives the operand that replaces the line, if one does.
    fn simplify(&self, op: &mut ComputeOp, ty: &mut DataType, args: &mut Args) -> Option<Operand> {
        // Every rule makes the op cheaper or its operands older; the bound only guards against a mistake in that.
        for _ in 0..8 {
            order_operands(*op, args);
            if let Some(operand) = fold::compute(*op, *ty, args) {
                return Some(operand);
            }
            match self.rule(*op, *ty, args) {
                Outcome::Same => return None,
                Outcome::Operand(operand) => return Some(operand),
                Outcome::Op(new_op, new_args) => (*op, *args) = (new_op, new_args),
                Outcome::Typed(new_op, new_ty, new_args) => (*op, *ty, *args) = (new_op, new_ty, new_args),
            }
        }
        None
    }

    // A new op has no rules until someone writes them, so the matches on ops below end in "no rule".

    fn rule(&self, op: ComputeOp, ty: DataType, args: &Args) -> Outcome {
        let outcome = match op {
            ComputeOp::Select => select(args, ty),
            ComputeOp::Cast | ComputeOp::Bitcast => self.conversion(op, ty, args[0]),
            ComputeOp::Eq | ComputeOp::Ne | ComputeOp::Lt | ComputeOp::Le | ComputeOp::Gt | ComputeOp::Ge => {
                comparison(op, ty, args)
            }
            _ if ty.is_float() => self.float(op, ty, args),
            _ => self.integer(op, ty, args),
        };
        match outcome {
            Outcome::Same => self.nested(op, ty, args),
            other => other,
        }
    }

    fn definition(&self, operand: Operand) -> Option<&Definition> {
        self.definitions.get(operand.value()?.index())?.as_ref()
    }

    fn type_of(&self, operand: Operand) -> Option<DataType> {
        match operand {
            Operand::Value(value) => self.types.get(value.index()).copied().flatten(),
            Operand::Literal(literal) => Some(literal.ty()),
        }
    }

    /// Rules on integers and bool with a literal or equal operands.
    fn integer(&self, op: ComputeOp, ty: DataType, args: &Args) -> Outcome {
        let x = args[0];
        let zero = Outcome::Operand(literal(ty, 0));
        let Some(y) = args.get(1).copied() else { return Outcome::Same };
        if x == y && args.len() == 2 {
            match op {
                ComputeOp::Sub | ComputeOp::Xor | ComputeOp::SubSat => return zero,
                ComputeOp::And | ComputeOp::Or | ComputeOp::Min | ComputeOp::Max => {
                    return Outcome::Operand(x);
                }
                _ => {}
            }
        }
        if let (ComputeOp::Sub, Some(0), true) = (op, bits(x), ty.is_signed()) {
            return Outcome::Op(ComputeOp::Neg, smallvec![y]);
        }
        if let (ComputeOp::SubSat | ComputeOp::Shl | ComputeOp::Rotl | ComputeOp::Rotr, Some(0)) =
            (op, bits(x))
            && !ty.is_signed()
        {
            return zero;
        }
        match bits(y) {
            Some(c) if args.len() == 2 => integer_by_literal(op, ty, x, c),
            _ => Outcome::Same,
        }
    }

    fn float(&self, op: ComputeOp, ty: DataType, args: &Args) -> Outcome {
        let x = args[0];
        let is = |operand: Operand, constant: f64| bits(operand) == Some(float_bits(ty, constant));
        let negated = |x: Operand| Outcome::Op(ComputeOp::Neg, smallvec![x]);
        match (op, args.get(1).copied()) {
            (ComputeOp::Add, Some(y)) if is(y, -0.0) => Outcome::Operand(x),
            (ComputeOp::Sub, Some(y)) if is(y, 0.0) => Outcome::Operand(x),
            (ComputeOp::Sub, Some(y)) if is(x, -0.0) => negated(y),
            (ComputeOp::Mul | ComputeOp::Div, Some(y)) if is(y, 1.0) => Outcome::Operand(x),
            (ComputeOp::Mul | ComputeOp::Div, Some(y)) if is(y, -1.0) => negated(x),
            (ComputeOp::Div, Some(y)) => match bits(y).and_then(|bits| reciprocal(ty, bits)) {
                Some(inverse) => Outcome::Op(ComputeOp::Mul, smallvec![x, literal(ty, inverse)]),
                None => Outcome::Same,
            },
            (ComputeOp::Min | ComputeOp::Max | ComputeOp::Copysign, Some(y)) if x == y => Outcome::Operand(x),
            (ComputeOp::Fma, Some(y)) if is(y, 1.0) => Outcome::Op(ComputeOp::Add, smallvec![x, args[2]]),
            (ComputeOp::Fma, Some(y)) if is(args[2], -0.0) => Outcome::Op(ComputeOp::Mul, smallvec![x, y]),
            _ => Outcome::Same,
        }
    }

    /// Rules that look at the op that gave an operand.
    fn nested(&self, op: ComputeOp, ty: DataType, args: &Args) -> Outcome {
        let Some(inner) = self.definition(args[0]) else { return self.nested_second(op, args) };
        let first = inner.args[0];
        match (op, inner.op) {
            (ComputeOp::Not, ComputeOp::Not) | (ComputeOp::Neg, ComputeOp::Neg) => Outcome::Operand(first),
            (ComputeOp::Select, ComputeOp::Not) => Outcome::Op(op, smallvec![first, args[2], args[1]]),
            (ComputeOp::Not, comparison) => match complement(comparison, inner.ty) {
                Some(other) => Outcome::Typed(other, inner.ty, inner.args.clone()),
                None => Outcome::Same,
            },
            (ComputeOp::Abs, ComputeOp::Abs) => Outcome::Operand(args[0]),
            (ComputeOp::Abs, ComputeOp::Neg) => Outcome::Op(op, smallvec![first]),
            (outer, inner) if is_rounding(outer) && is_rounding(inner) => Outcome::Operand(args[0]),
            (ComputeOp::Add | ComputeOp::Mul | ComputeOp::And | ComputeOp::Or | ComputeOp::Xor, inner_op)
                if op == inner_op && !ty.is_float() =>
            {
                self.reassociate(op, ty, args, inner)
            }
            _ => self.nested_second(op, args),
        }
    }

    fn nested_second(&self, op: ComputeOp, args: &Args) -> Outcome {
        let Some(y) = args.get(1).copied() else { return Outcome::Same };
        let negated =
            self.definition(y).filter(|inner| inner.op == ComputeOp::Neg).map(|inner| inner.args[0]);
        match (op, negated) {
            (ComputeOp::Add, Some(y)) => Outcome::Op(ComputeOp::Sub, smallvec![args[0], y]),
            (ComputeOp::Sub, Some(y)) => Outcome::Op(ComputeOp::Add, smallvec![args[0], y]),
            _ => Outcome::Same,
        }
    }

    fn reassociate(&self, op: ComputeOp, ty: DataType, args: &Args, inner: &Definition) -> Outcome {
        let (Some(outer), Some(inner_literal)) = (args[1].literal(), inner.args[1].literal()) else {
            return self.nested_second(op, args);
        };
        let both: Args = smallvec![inner_literal.into(), outer.into()];
        match fold::compute(op, ty, &both) {
            Some(constant) => Outcome::Op(op, smallvec![inner.args[0], constant]),
            None => Outcome::Same,
        }
    }

    fn conversion(&self, op: ComputeOp, ty: DataType, x: Operand) -> Outcome {
        let Some(source) = self.type_of(x) else { return Outcome::Same };
        if source == ty {
            // A bitcast to the own type would make a NaN canonical, but NaN bits are free in registers.
            return Outcome::Operand(x);
        }
        let Some(inner) = self.definition(x) else { return Outcome::Same };
        let Some(origin) = self.type_of(inner.args[0]) else { return Outcome::Same };
        let back = inner.op == op && origin == ty;
        let lossless = match op {
            ComputeOp::Cast => holds_all(source, origin),
            ComputeOp::Bitcast => source.bits() == origin.bits() && (origin.is_float() || !source.is_float()),
            _ => false,
        };
        if back && lossless { Outcome::Operand(inner.args[0]) } else { Outcome::Same }
    }
}

fn bits(operand: Operand) -> Option<u64> {
    operand.literal().map(|literal| literal.bits())
}

/// Whether operand order does not matter.
pub(super) const fn is_commutative(op: ComputeOp) -> bool {
    matches!(
        op,
        ComputeOp::Add
            | ComputeOp::Mul
            | ComputeOp::MulHi
            | ComputeOp::AddSat
            | ComputeOp::Min
            | ComputeOp::Max
            | ComputeOp::And
            | ComputeOp::Or
            | ComputeOp::Xor
            | ComputeOp::Eq
            | ComputeOp::Ne
            | ComputeOp::Fma
    )
}

/// Puts a literal behind a value, where the two may change places.
fn order_operands(op: ComputeOp, args: &mut Args) {
    let literal_first = matches!(args[..], [Operand::Literal(_), Operand::Value(_), ..]);
    if !literal_first {
        return;
    }
    if is_commutative(op) {
        args.swap(0, 1);
    }
}

fn integer_by_literal(op: ComputeOp, ty: DataType, x: Operand, c: u64) -> Outcome {
    let ones = ty.mask();
    let zero = Outcome::Operand(literal(ty, 0));
    let same = Outcome::Operand(x);
    let power = (c.is_power_of_two() && ty != DataType::Bool).then(|| c.trailing_zeros());
    let shift = |op, amount: u32| Outcome::Op(op, smallvec![x, literal(DataType::U32, u64::from(amount))]);
    match op {
        ComputeOp::Add | ComputeOp::Sub | ComputeOp::AddSat | ComputeOp::SubSat if c == 0 => same,
        ComputeOp::Or | ComputeOp::Xor if c == 0 => same,
        ComputeOp::Mul | ComputeOp::And | ComputeOp::MulHi if c == 0 => zero,
        ComputeOp::Mul | ComputeOp::Div if c == 1 => same,
        ComputeOp::MulHi if c == 1 && !ty.is_signed() => zero,
        ComputeOp::And if c == ones => same,
        ComputeOp::Or if c == ones => Outcome::Operand(literal(ty, ones)),
        ComputeOp::Xor if c == ones => Outcome::Op(ComputeOp::Not, smallvec![x]),
        ComputeOp::Div if c == 0 => same,
        ComputeOp::Rem if c <= 1 => zero,
        ComputeOp::Mul => power.map_or(Outcome::Same, |k| shift(ComputeOp::Shl, k)),
        ComputeOp::Div if !ty.is_signed() => power.map_or(Outcome::Same, |k| shift(ComputeOp::Shr, k)),
        ComputeOp::Rem if !ty.is_signed() && power.is_some() => {
            Outcome::Op(ComputeOp::And, smallvec![x, literal(ty, c - 1)])
        }
        ComputeOp::Shl | ComputeOp::Shr | ComputeOp::Rotl | ComputeOp::Rotr => {
            let amount = c as u32 % ty.bits();
            if amount == 0 {
                same
            } else if u64::from(amount) != c {
                shift(op, amount)
            } else {
                Outcome::Same
            }
        }
        ComputeOp::Min | ComputeOp::Max => integer_limit(op, ty, x, c),
        _ => Outcome::Same,
    }
}

/// `min` and `max` with the least or greatest value of an integer type.
fn integer_limit(op: ComputeOp, ty: DataType, x: Operand, c: u64) -> Outcome {
    let greatest = if ty.is_signed() { ty.mask() >> 1 } else { ty.mask() };
    let least = ty.mask() ^ greatest;
    match op {
        ComputeOp::Min if c == greatest => Outcome::Operand(x),
        ComputeOp::Max if c == least => Outcome::Operand(x),
        ComputeOp::Min if c == least => Outcome::Operand(literal(ty, c)),
        ComputeOp::Max if c == greatest => Outcome::Operand(literal(ty, c)),
        _ => Outcome::Same,
    }
}

fn select(args: &Args, ty: DataType) -> Outcome {
    let (cond, a, b) = (args[0], args[1], args[2]);
    if let Some(cond) = bits(cond) {
        return Outcome::Operand(if cond != 0 { a } else { b });
    }
    match (bits(a), bits(b)) {
        _ if a == b => Outcome::Operand(a),
        (Some(1), Some(0)) if ty == DataType::Bool => Outcome::Operand(cond),
        (Some(0), Some(1)) if ty == DataType::Bool => Outcome::Op(ComputeOp::Not, smallvec![cond]),
        _ => Outcome::Same,
    }
}

fn comparison(op: ComputeOp, ty: DataType, args: &Args) -> Outcome {
    let (x, y) = (args[0], args[1]);
    let known = |truth: bool| Outcome::Operand(literal(DataType::Bool, u64::from(truth)));
    if x == y {
        match op {
            ComputeOp::Lt | ComputeOp::Gt => return known(false),
            ComputeOp::Eq | ComputeOp::Le | ComputeOp::Ge if !ty.is_float() => return known(true),
            ComputeOp::Ne if !ty.is_float() => return known(false),
            _ => return Outcome::Same,
        }
    }
    if ty == DataType::Bool
        && let Some(truth) = bits(y)
    {
        return match (op, truth) {
            (ComputeOp::Eq, 1) | (ComputeOp::Ne, 0) => Outcome::Operand(x),
            _ => Outcome::Op(ComputeOp::Not, smallvec![x]),
        };
    }
    Outcome::Same
}

/// The comparison that holds exactly where this one does not.
const fn complement(op: ComputeOp, ty: DataType) -> Option<ComputeOp> {
    match op {
        ComputeOp::Eq => Some(ComputeOp::Ne),
        ComputeOp::Ne => Some(ComputeOp::Eq),
        // With a NaN neither of the two holds.
        _ if ty.is_float() => None,
        ComputeOp::Lt => Some(ComputeOp::Ge),
        ComputeOp::Ge => Some(ComputeOp::Lt),
        ComputeOp::Gt => Some(ComputeOp::Le),
        ComputeOp::Le => Some(ComputeOp::Gt),
        _ => None,
    }
}

const fn is_rounding(op: ComputeOp) -> bool {
    matches!(op, ComputeOp::Floor | ComputeOp::Ceil | ComputeOp::Trunc | ComputeOp::Round)
}

/// Whether every value of `narrow` is one of `wide`, so that a cast there and back changes nothing.
fn holds_all(wide: DataType, narrow: DataType) -> bool {
    /// Bits of a float's significand, the hidden one included.
    fn precision(ty: DataType) -> u32 {
        match ty {
            DataType::F16 => 11,
            DataType::BF16 => 8,
            DataType::F32 => 24,
            DataType::F64 => 53,
            other => other.bits(),
        }
    }
    match (wide.is_float(), narrow.is_float()) {
        (true, true) => wide == DataType::F64 || (wide == DataType::F32 && narrow != DataType::F64),
        // f16 has too small a range even for what its precision holds; the others have range to spare.
        (true, false) => wide != DataType::F16 && precision(wide) >= precision(narrow),
        (false, true) => false,
        (false, false) => wide.bits() >= narrow.bits() && wide != DataType::Bool,
    }
}

/// The bits of a small constant in a float type.
fn float_bits(ty: DataType, constant: f64) -> u64 {
    match ty {
        DataType::F16 => u64::from(half::f16::from_f64(constant).to_bits()),
        DataType::BF16 => u64::from(half::bf16::from_f64(constant).to_bits()),
        DataType::F32 => u64::from((constant as f32).to_bits()),
        _ => constant.to_bits(),
    }
}

/// The bits of `1 / c` where `c` is a power of two and so is the inverse, both normal.
fn reciprocal(ty: DataType, c: u64) -> Option<u64> {
    let (mantissa_bits, exponent_bits) = match ty {
        DataType::F16 => (10, 5),
        DataType::BF16 => (7, 8),
        DataType::F32 => (23, 8),
        DataType::F64 => (52, 11),
        _ => return None,
    };
    let mantissa = c & ((1 << mantissa_bits) - 1);
    let exponent = (c >> mantissa_bits) & ((1 << exponent_bits) - 1);
    let sign = c & !(ty.mask() >> 1);
    let bias: u64 = (1 << (exponent_bits - 1)) - 1;
    if mantissa != 0 || exponent == 0 || exponent >= 2 * bias {
        return None;
    }
    Some(sign | ((2 * bias - exponent) << mantissa_bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_of_powers_of_two_are_exact() {
        for power in -130..130 {
            let c = 2f32.powi(power);
            if let Some(inverse) = reciprocal(DataType::F32, u64::from(c.to_bits())) {
                assert_eq!(f32::from_bits(inverse as u32) * c, 1.0, "2^{power}");
            }
        }
        assert_eq!(reciprocal(DataType::F32, u64::from(3f32.to_bits())), None);
        assert_eq!(reciprocal(DataType::F32, 0), None);
        assert_eq!(reciprocal(DataType::F32, u64::from(f32::INFINITY.to_bits())), None);
    }
}
