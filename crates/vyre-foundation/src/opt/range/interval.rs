//! Intervals of integers, and what each op does to them.
//!
//! A value is between `lo` and `hi` as a mathematical integer; a bool is 0 or 1. An op that could wrap gives its whole
//! type. Values that are not integers have the interval [`Interval::ANY`], which fits no type, so that whatever is
//! computed from one gives the whole type too.

use crate::ir::{ComputeOp, DataType, Literal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) lo: i128,
    pub(super) hi: i128,
}

impl Interval {
    /// Of a value that is no integer.
    pub(super) const ANY: Interval = Interval { lo: i128::MIN >> 32, hi: i128::MAX >> 32 };

    pub(super) const fn new(lo: i128, hi: i128) -> Interval {
        Interval { lo, hi }
    }

    pub(super) const fn only(value: i128) -> Interval {
        Interval { lo: value, hi: value }
    }

    /// Everything a type holds.
    pub(super) const fn full(ty: DataType) -> Interval {
        let bits = ty.bits();
        if ty.is_float() {
            Interval::ANY
        } else if ty.is_signed() {
            Interval::new(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            Interval::new(0, (1 << bits) - 1)
        }
    }

    pub(super) fn literal(literal: Literal) -> Interval {
        let (ty, bits) = (literal.ty(), literal.bits());
        if ty.is_float() {
            return Interval::ANY;
        }
        let unused = 64 - ty.bits();
        let value =
            if ty.is_signed() { i128::from(((bits << unused) as i64) >> unused) } else { i128::from(bits) };
        Interval::only(value)
    }

    /// The only value, if there is one.
    pub(super) const fn single(self) -> Option<i128> {
        if self.lo == self.hi { Some(self.lo) } else { None }
    }

    /// The smallest interval with both in it.
    pub(super) fn hull(self, other: Interval) -> Interval {
        Interval::new(self.lo.min(other.lo), self.hi.max(other.hi))
    }

    /// What is in both; `None` if nothing is.
    pub(super) fn meet(self, other: Interval) -> Option<Interval> {
        let both = Interval::new(self.lo.max(other.lo), self.hi.min(other.hi));
        (both.lo <= both.hi).then_some(both)
    }

    pub(super) fn fits(self, ty: DataType) -> bool {
        let full = Interval::full(ty);
        !ty.is_float() && full.lo <= self.lo && self.hi <= full.hi
    }

    pub(super) const fn is_natural(self) -> bool {
        self.lo >= 0
    }

    /// This interval, or the whole type where the type does not hold it: where the op might wrap.
    fn or_full(self, ty: DataType) -> Interval {
        if self.fits(ty) { self } else { Interval::full(ty) }
    }

    /// This interval cut to a type that the value certainly is of.
    fn within(self, ty: DataType) -> Interval {
        self.meet(Interval::full(ty)).unwrap_or(Interval::full(ty))
    }
}

/// What an op of integer type gives. Comparisons are decided elsewhere.
pub(super) fn compute(op: ComputeOp, ty: DataType, args: &[Interval]) -> Interval {
    let full = Interval::full(ty);
    if ty.is_float() {
        return full;
    }
    match (op, args) {
        (ComputeOp::Add, [a, b]) => Interval::new(a.lo + b.lo, a.hi + b.hi).or_full(ty),
        (ComputeOp::Sub, [a, b]) => Interval::new(a.lo - b.hi, a.hi - b.lo).or_full(ty),
        (ComputeOp::AddSat, [a, b]) => {
            Interval::new((a.lo + b.lo).clamp(full.lo, full.hi), (a.hi + b.hi).clamp(full.lo, full.hi))
        }
        (ComputeOp::SubSat, [a, b]) => {
            Interval::new((a.lo - b.hi).clamp(full.lo, full.hi), (a.hi - b.lo).clamp(full.lo, full.hi))
        }
        (ComputeOp::Mul, [a, b]) => product(*a, *b, ty),
        (ComputeOp::Neg, [a]) => Interval::new(-a.hi, -a.lo).or_full(ty),
        (ComputeOp::Abs, [a]) if a.is_natural() => *a,
        (ComputeOp::Min, [a, b]) => Interval::new(a.lo.min(b.lo), a.hi.min(b.hi)),
        (ComputeOp::Max, [a, b]) => Interval::new(a.lo.max(b.lo), a.hi.max(b.hi)),
        (ComputeOp::Clamp, [x, lo, hi]) => {
            Interval::new(x.lo.max(lo.lo).min(hi.lo), x.hi.max(lo.hi).min(hi.hi))
        }
        (ComputeOp::Select, [_, a, b]) => a.hull(*b),
        (ComputeOp::Cast | ComputeOp::Bitcast, [a]) if ty != DataType::Bool => a.or_full(ty),
        (ComputeOp::Popcount | ComputeOp::Clz | ComputeOp::Ctz, [_]) => {
            Interval::new(0, i128::from(ty.bits()))
        }
        (ComputeOp::Div | ComputeOp::Rem, [a, b]) if a.is_natural() && b.is_natural() => quotient(op, *a, *b),
        (ComputeOp::And, [a, b]) if ty == DataType::Bool => Interval::new(a.lo.min(b.lo), a.hi.min(b.hi)),
        (ComputeOp::Or, [a, b]) if ty == DataType::Bool => Interval::new(a.lo.max(b.lo), a.hi.max(b.hi)),
        (ComputeOp::And, [a, b]) => match (a.is_natural(), b.is_natural()) {
            (true, true) => Interval::new(0, a.hi.min(b.hi)),
            (true, false) => Interval::new(0, a.hi),
            (false, true) => Interval::new(0, b.hi),
            (false, false) => full,
        },
        (ComputeOp::Or | ComputeOp::Xor, [a, b]) if a.is_natural() && b.is_natural() => {
            let lo = if op == ComputeOp::Or { a.lo.max(b.lo) } else { 0 };
            Interval::new(lo, ones_up_to(a.hi.max(b.hi))).within(ty)
        }
        (ComputeOp::Shl, [a, by]) if is_shift(*by, ty) && a.is_natural() => {
            Interval::new(a.lo << by.lo, a.hi << by.hi).or_full(ty)
        }
        (ComputeOp::Shr, [a, by]) if is_shift(*by, ty) && a.is_natural() => {
            Interval::new(a.lo >> by.hi, a.hi >> by.lo)
        }
        (ComputeOp::Extract, [_, _, count]) if !ty.is_signed() && count.is_natural() => {
            let bits = count.hi.min(i128::from(ty.bits()));
            Interval::new(0, (1 << bits) - 1)
        }
        (ComputeOp::Not, [a]) if ty == DataType::Bool => Interval::new(1 - a.hi, 1 - a.lo),
        _ => full,
    }
}

fn product(a: Interval, b: Interval, ty: DataType) -> Interval {
    // Bounds of 64-bit types multiply within 128 bits; anything wider is not an integer.
    if !(a.fits(DataType::U64) || a.fits(DataType::I64)) || !(b.fits(DataType::U64) || b.fits(DataType::I64))
    {
        return Interval::full(ty);
    }
    let corners = [(a.lo, b.lo), (a.lo, b.hi), (a.hi, b.lo), (a.hi, b.hi)];
    let products = corners.map(|(a, b)| a.checked_mul(b));
    let [Some(p), Some(q), Some(r), Some(s)] = products else { return Interval::full(ty) };
    Interval::new(p.min(q).min(r).min(s), p.max(q).max(r).max(s)).or_full(ty)
}

/// `x / 0` is `x` and `x % 0` is 0.
fn quotient(op: ComputeOp, a: Interval, b: Interval) -> Interval {
    let by_zero = b.lo == 0;
    if op == ComputeOp::Div {
        let hi = if by_zero { a.hi } else { a.hi / b.lo };
        let lo = if b.hi == 0 { a.lo } else { a.lo / b.hi };
        return Interval::new(lo, hi);
    }
    if !by_zero && a.hi < b.lo {
        return a;
    }
    Interval::new(0, a.hi.min((b.hi - 1).max(0)))
}

/// Whether a shift amount is below the width, so that it is not taken modulo.
fn is_shift(by: Interval, ty: DataType) -> bool {
    by.is_natural() && by.hi < i128::from(ty.bits())
}

/// The least number of the form `2^k - 1` that is not below `value`.
fn ones_up_to(value: i128) -> i128 {
    let bits = 128 - value.leading_zeros();
    (1i128 << bits.min(126)) - 1
}

/// Whether a comparison holds for all pairs, for none, or (`None`) for some.
pub(super) fn decide(op: ComputeOp, a: Interval, b: Interval) -> Option<bool> {
    let less = |a: Interval, b: Interval| match () {
        () if a.hi < b.lo => Some(true),
        () if a.lo >= b.hi => Some(false),
        () => None,
    };
    let equal = || match (a.single(), b.single()) {
        (Some(a), Some(b)) if a == b => Some(true),
        _ if a.meet(b).is_none() => Some(false),
        _ => None,
    };
    match op {
        ComputeOp::Lt => less(a, b),
        ComputeOp::Gt => less(b, a),
        ComputeOp::Ge => less(a, b).map(|holds| !holds),
        ComputeOp::Le => less(b, a).map(|holds| !holds),
        ComputeOp::Eq => equal(),
        ComputeOp::Ne => equal().map(|holds| !holds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar;

    /// Every op on every pair of small intervals holds every result of its definition.
    #[test]
    fn intervals_hold_what_the_ops_give() {
        const EDGES: [i64; 12] =
            [0, 1, 2, 3, 7, 8, 31, 33, 0x7fff_fffe, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
        let mut checked = 0;
        for ty in [DataType::U32, DataType::I32, DataType::U64, DataType::I64] {
            let values: Vec<Literal> =
                EDGES.iter().flat_map(|e| [*e, -*e]).map(|e| Literal::from_bits(ty, e as u64)).collect();
            for op in ComputeOp::ALL {
                let Some(meaning) = scalar::meaning(*op, ty, ty) else { continue };
                let width = op.info().args.len();
                if op.info().result.under(ty) != Some(ty) || !(1..=2).contains(&width) {
                    continue;
                }
                let places: Vec<DataType> =
                    op.info().args.iter().map(|arg| arg.under(ty).unwrap_or(ty)).collect();
                for a in &values {
                    for b in &values {
                        let a2 = Literal::from_bits(places[0], a.bits());
                        let b2 = Literal::from_bits(*places.last().expect("an operand"), b.bits());
                        let args = [Interval::literal(a2), Interval::literal(b2)];
                        let given = compute(*op, ty, &args[..width]);
                        let result = meaning(&[a2.bits(), b2.bits(), 0, 0]);
                        let result = Interval::literal(Literal::from_bits(ty, result));
                        assert_eq!(given.hull(result), given, "{op:?}.{ty} {args:?}");
                        checked += 1;
                    }
                }
            }
        }
        assert!(checked > 40_000, "{checked}");
    }
}
