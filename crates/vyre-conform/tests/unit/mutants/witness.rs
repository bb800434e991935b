//! Finds operands on which a rule gives another result than the language, without looking at the suite's cases.

use crate::rules::{Row, Rule};
use vyre_foundation::ir::{ComputeOp, DataType};
use vyre_foundation::scalar::{meaning, observe};
use vyre_generate::source::Seeded;

/// Mixed tuples tried before a rule counts as one that does not change the row.
const TRIES: u64 = 3000;
/// Tuples after which a rule that never spoke of the row is given up.
const SILENT: u64 = 200;

/// Operands on which the rule can be seen; `None` if none are found.
pub(super) fn witness(rule: &Rule, row: &Row) -> Option<[u64; 4]> {
    let args: Vec<DataType> = row.operands().collect();
    let corners: Vec<Vec<u64>> = args.iter().map(|ty| corners(*ty)).collect();
    let edges: Vec<Vec<u64>> = args.iter().map(|ty| edges(*ty)).collect();
    let all: usize = corners.iter().map(Vec::len).product();
    let mut random = Seeded::new(0x5eed);
    let mut spoken = false;
    // Two roundings differ from one on few operands.
    let tries = if matches!(row.op, ComputeOp::Fma | ComputeOp::Cast) { 8 * TRIES } else { TRIES };
    for attempt in 0..all as u64 + tries {
        let mut x = [0; 4];
        if attempt < all as u64 {
            let mut place = attempt as usize;
            for (x, corners) in x.iter_mut().zip(&corners) {
                *x = corners[place % corners.len()];
                place /= corners.len();
            }
        } else {
            for (at, edges) in edges.iter().enumerate() {
                x[at] = match random.next_u64() % 4 {
                    0 => random.next_u64() & args[at].mask(),
                    1 => close(args[at], x[0], random.next_u64()),
                    _ => edges[random.next_u64() as usize % edges.len()],
                };
            }
            cancel(row, &mut x, attempt);
            half_way(row, &mut x, random.next_u64());
        }
        let wrong = rule.apply(row, &x);
        spoken |= wrong.is_some();
        if !spoken && attempt > SILENT {
            return None;
        }
        let seen = |bits| observe(row.result(), bits);
        if wrong.is_some_and(|wrong| seen(wrong) != seen(row.right(&x))) {
            return Some(x);
        }
    }
    None
}

/// The few values whose pairs are where most ops have their special cases.
fn corners(ty: DataType) -> Vec<u64> {
    let (mask, sign) = (ty.mask(), ty.mask() ^ ty.mask() >> 1);
    let Some(nan) = ty.canonical_nan() else {
        let mut corners = vec![0, 1, mask, sign, mask >> 1, 3 & mask, 33 & mask, 0x1_0000_0000 & mask];
        corners.sort_unstable();
        corners.dedup();
        return corners;
    };
    let one = meaning(ComputeOp::Cast, ty, DataType::U32).expect("floats cast")(&[1, 0, 0, 0]);
    let largest = (nan & (nan << 1 | 1)) - 1;
    vec![0, sign, 1, sign | 1, one, sign | one, one + 1, largest, sign | largest, nan, sign | nan | 1]
}

/// A value near another one.
fn close(ty: DataType, to: u64, random: u64) -> u64 {
    to.wrapping_add(random % 9).wrapping_sub(4) & ty.mask()
}

/// Makes the addend of every other `fma` the product that it cancels, where one rounding and two differ most.
fn cancel(row: &Row, x: &mut [u64; 4], attempt: u64) {
    if row.op == ComputeOp::Fma && attempt % 2 == 1 {
        let product = meaning(ComputeOp::Mul, row.ty, row.ty).expect("floats multiply")(x);
        x[2] = product ^ (row.ty.mask() ^ row.ty.mask() >> 1) ^ (attempt / 2 % 4);
    }
}

/// Makes the operand of half of the casts one that lies between two results, or barely beside the middle.
fn half_way(row: &Row, x: &mut [u64; 4], random: u64) {
    let Some(kept) = fraction_bits(row.ty).filter(|_| row.op == ComputeOp::Cast && random.is_multiple_of(2))
    else {
        return;
    };
    let beside = random >> 60 & 1;
    match fraction_bits(row.source) {
        Some(own) if own > kept + 1 => {
            let dropped = own - kept;
            x[0] = x[0] >> dropped << dropped | 1 << (dropped - 1) | beside;
        }
        None if row.source.bits() > kept + 3 => {
            let digits = 1 << (kept + 1) | (random >> 1 & ((1 << kept) - 1)) << 1 | 1;
            let room = u64::from(row.source.bits() - kept - 2);
            x[0] = (digits << ((random >> 8) % room) | beside) & row.source.mask();
        }
        Some(_) | None => {}
    }
}

/// The bits of a float type's fraction.
fn fraction_bits(ty: DataType) -> Option<u32> {
    match ty {
        DataType::F16 => Some(10),
        DataType::BF16 => Some(7),
        DataType::F32 => Some(23),
        DataType::F64 => Some(52),
        _ => None,
    }
}

/// Values at which results change their kind.
fn edges(ty: DataType) -> Vec<u64> {
    let (mask, sign) = (ty.mask(), ty.mask() ^ ty.mask() >> 1);
    let mut edges = vec![0, 1];
    if ty == DataType::Bool {
        return edges;
    }
    for shift in [1, 2, 3, 4, 5, 7, 8, 15, 16, 24, 31, 32, 33, 47, 48, 53, 62, 63] {
        let power = 1u64.checked_shl(shift).unwrap_or(0);
        edges.extend([power - 1, power, power + 1, power.wrapping_neg(), power | power >> 1, !power]);
    }
    if let (Some(nan), Some(fraction)) = (ty.canonical_nan(), fraction_bits(ty)) {
        let cast = meaning(ComputeOp::Cast, ty, DataType::F64).expect("floats cast");
        for value in [0.5, 1.0, 1.5, 2.5, 3.0, 0.1, 1.0 / 3.0, 7.75, 1e4, 2147483648.0, 1e-3, 3e9, 1e19, 1e-5]
        {
            edges.extend([0, 1, 2].map(|up| cast(&[f64::to_bits(value), 0, 0, 0]) + up));
        }
        let (infinity, normal) = (nan & !(1 << (fraction - 1)), 1 << fraction);
        edges.extend([
            infinity,
            infinity - 1,
            infinity + 1,
            nan,
            nan + 1,
            normal - 1,
            normal,
            normal + 1,
            normal / 2,
        ]);
        edges.extend([
            infinity / 2 - normal,
            infinity / 2 + normal,
            infinity - normal,
            infinity - 2 * normal + 1,
        ]);
    }
    edges.iter_mut().for_each(|bits| *bits &= mask);
    edges.extend(edges.clone().into_iter().map(|bits| bits ^ sign));
    edges.sort_unstable();
    edges.dedup();
    edges
}
