//! The operands that an op is tested on.
//!
//! Three kinds. *Edge* takes the ends of each type and the values around them in all pairs, and in triples of the few
//! that matter most. *Special* is made for what the op computes: ties, cancellation, carries, limits, one step on both
//! sides of each. *Random* is drawn, with matching lengths and exponents.
//!
//! Not here: results.

mod cast;
mod float;
mod int;

pub(super) use super::rows::Row;
pub(super) use float::Format;

use std::collections::HashSet;
use vyre_foundation::ir::{ArgType, ComputeOp, DataType};
use vyre_generate::source::Seeded;

/// A computing op with its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) op: ComputeOp,
    /// The suffix.
    pub(super) ty: DataType,
    /// The operand's type, for `cast` and `bitcast`; otherwise the suffix.
    pub(super) source: DataType,
}

impl Instance {
    /// The types of its operands.
    pub(super) fn inputs(&self) -> Vec<DataType> {
        self.op.info().args.iter().map(|arg| arg.under(self.ty).unwrap_or(self.source)).collect()
    }

    /// Edge values of each operand, combined.
    pub(super) fn edge(&self) -> Vec<Row> {
        let Instance { op, ty, .. } = *self;
        match (op, op.info().args) {
            (ComputeOp::Shl | ComputeOp::Shr | ComputeOp::Rotl | ComputeOp::Rotr, _) => int::shifts(ty),
            (ComputeOp::Extract, _) => int::fields(ty, false),
            (ComputeOp::Insert, _) => int::fields(ty, true),
            (ComputeOp::Dot4, _) => int::dots(),
            (ComputeOp::Select, _) => {
                pairs(&core(ty)).into_iter().flat_map(|[a, b, ..]| [[1, a, b, 0], [0, a, b, 0]]).collect()
            }
            (_, [_]) => edges(self.source).into_iter().map(|x| [x, 0, 0, 0]).collect(),
            (_, [ArgType::Same, ArgType::Same]) => pairs(&edges(ty)),
            (_, [_, _, _]) => {
                let core = core(ty);
                pairs(&core)
                    .into_iter()
                    .flat_map(|[a, b, ..]| core.iter().map(move |c| [a, b, *c, 0]))
                    .collect()
            }
            (_, args) => unreachable!("no op has operands like {args:?}"),
        }
    }

    /// Cases made for what the op computes; empty where the edges are all there is.
    pub(super) fn special(&self) -> Vec<Row> {
        let Instance { op, ty, source } = *self;
        let alone = |values: Vec<u64>| values.into_iter().map(|x| [x, 0, 0, 0]).collect();
        match (op, Format::of(ty)) {
            (ComputeOp::Cast | ComputeOp::Bitcast, _) => alone(cast::values_into(ty, source)),
            (ComputeOp::Add | ComputeOp::Sub, Some(format)) => format.sums(),
            (ComputeOp::Mul, Some(format)) => format.products(),
            (ComputeOp::Div, Some(format)) => format.quotients(),
            (ComputeOp::Rem, Some(format)) => format.remainders(),
            (ComputeOp::Fma, Some(format)) => format.fused(),
            (ComputeOp::Sqrt, Some(format)) => alone(format.roots()),
            (ComputeOp::Floor | ComputeOp::Ceil | ComputeOp::Trunc | ComputeOp::Round, Some(format)) => {
                alone(format.halves())
            }
            (ComputeOp::Div | ComputeOp::Rem, None) => int::quotients(ty),
            (ComputeOp::Mul | ComputeOp::MulHi, None) => int::products(ty),
            (_, format) => match (op.info().args, format) {
                _ if ty == DataType::Bool => Vec::new(),
                ([_], _) => alone(values(ty)),
                ([ArgType::Same, ArgType::Same], Some(format)) => format.neighbours(),
                ([ArgType::Same, ArgType::Same], None) => int::neighbours(ty),
                ([ArgType::Same, ArgType::Same, ArgType::Same], Some(format)) => thirds(format.neighbours()),
                ([ArgType::Same, ArgType::Same, ArgType::Same], None) => thirds(int::neighbours(ty)),
                _ => Vec::new(),
            },
        }
    }

    /// Operands drawn from a seed.
    pub(super) fn random(&self, seed: u64, count: usize) -> Vec<Row> {
        let mut random = Seeded::new(seed);
        let inputs = self.inputs();
        (0..count)
            .map(|_| {
                let mut row = [0; 4];
                row.iter_mut().zip(&inputs).for_each(|(bits, ty)| *bits = value(*ty, &mut random));
                row
            })
            .collect()
    }
}

/// A random value of a type.
pub(super) fn value(ty: DataType, random: &mut Seeded) -> u64 {
    match (Format::of(ty), ty) {
        (Some(format), _) => format.random(random),
        (None, DataType::Bool) => random.next_u64() & 1,
        (None, _) => int::random(ty, random),
    }
}

/// The ends of a type and the values around them.
pub(super) fn edges(ty: DataType) -> Vec<u64> {
    match (Format::of(ty), ty) {
        (Some(format), _) => format.edges(),
        (None, DataType::Bool) => vec![0, 1],
        (None, _) => int::edges(ty),
    }
}

/// The few values that triples are made of.
fn core(ty: DataType) -> Vec<u64> {
    match (Format::of(ty), ty) {
        (Some(format), _) => format.core(),
        (None, DataType::Bool) => vec![0, 1],
        (None, _) => int::core(ty),
    }
}

/// All values that an op on one operand should see.
pub(super) fn values(ty: DataType) -> Vec<u64> {
    let mut random = Seeded::new(21);
    match (Format::of(ty), ty) {
        (Some(format), _) => {
            let mut values = format.edges();
            values.extend(format.halves());
            values.extend((0..200).map(|_| format.random(&mut random)));
            distinct(values)
        }
        (None, DataType::Bool) => vec![0, 1],
        (None, _) => int::bits(ty),
    }
}

fn pairs(values: &[u64]) -> Vec<Row> {
    values.iter().flat_map(|a| values.iter().map(|b| [*a, *b, 0, 0])).collect()
}

/// Triples of which the third is one of the first two, or the one before.
fn thirds(pairs: Vec<Row>) -> Vec<Row> {
    let third = |at: usize, [a, b, ..]: Row| match at % 3 {
        0 => [a, b, a, 0],
        1 => [a, b, b, 0],
        _ => [pairs[at - 1][0], a, b, 0],
    };
    pairs.iter().enumerate().map(|(at, pair)| third(at, *pair)).collect()
}

/// The values without repetitions, in their order.
fn distinct(values: Vec<u64>) -> Vec<u64> {
    let mut seen = HashSet::new();
    values.into_iter().filter(|bits| seen.insert(*bits)).collect()
}
