//! What is known of indices before a program runs: how they grow from lane to lane, which powers of two divide them, and
//! how far apart they are. Emitters decide by it which accesses are of neighbours, and whether these are aligned.
//!
//! PTX and the CPU's vector code share the rule for growth, [`stride`]; the former has lanes of one thread beside each
//! other, the latter lanes of one vector. SPIR-V and WGSL access one element at a time.
//!
//! Not here: bounds, which `vyre_foundation::opt::range` proves.

use vyre_foundation::ir::{
    Axis, BuiltinOp, ComputeOp, DataType, Literal, Node, Operand, ProgramParts, Value, walk,
};

/// How much a result of 32-bit integers grows from lane to lane, wrapping, where its operands grow by `strides`: 0 for what is
/// uniform. `None` if it grows unevenly. `constant` is an operand's value, if it is known.
pub fn stride(op: ComputeOp, strides: &[u32], constant: impl Fn(usize) -> Option<u32>) -> Option<u32> {
    if strides.iter().all(|stride| *stride == 0) {
        return Some(0);
    }
    match op {
        ComputeOp::Bitcast | ComputeOp::Cast => Some(strides[0]),
        ComputeOp::Add => Some(strides[0].wrapping_add(strides[1])),
        ComputeOp::Sub => Some(strides[0].wrapping_sub(strides[1])),
        ComputeOp::Mul => {
            let (grows, by) = if strides[0] == 0 { (1, 0) } else { (0, 1) };
            Some(strides[grows].wrapping_mul(constant(by)?))
        }
        ComputeOp::Shl => Some(strides[0] << (constant(1)? % 32)),
        _ => None,
    }
}

/// The greatest power of two, up to 16, that divides a number.
pub(crate) const fn divisor(number: u32) -> u32 {
    1 << (number | 16).trailing_zeros()
}

/// By value of the main body, a power of two that divides it, at most 16.
pub(crate) struct Multiples(Vec<u32>);

impl Multiples {
    /// What divides values in the first of so many lanes that run beside each other along x.
    pub(crate) fn find(parts: &ProgramParts, lanes: u32) -> Multiples {
        let mut found = Multiples(vec![1; parts.body.values.len()]);
        // Values are assigned before they are read, so one walk is enough.
        walk(&parts.body.block, |_, _, node| match node {
            Node::Compute { result, op, ty: DataType::U32, args } => {
                found.0[result.index()] = found.computed(*op, args);
            }
            Node::Builtin { result, op, axis } if grows_along_x(*op, *axis) => {
                found.0[result.index()] = lanes;
            }
            Node::For { counter, lo, step, .. } => {
                found.0[counter.index()] = found.of(*lo).min(divisor(*step));
            }
            _ => {}
        });
        found
    }

    pub(crate) fn of(&self, operand: Operand) -> u32 {
        match operand {
            Operand::Value(value) => self.0[value.index()],
            Operand::Literal(literal) => divisor(literal.bits() as u32),
        }
    }

    fn computed(&self, op: ComputeOp, args: &[Operand]) -> u32 {
        let of = |at: usize| self.of(args[at]);
        match op {
            ComputeOp::Add | ComputeOp::Sub | ComputeOp::Or | ComputeOp::Xor => of(0).min(of(1)),
            ComputeOp::And => of(0).max(of(1)),
            ComputeOp::Mul => (of(0) * of(1)).min(16),
            ComputeOp::Shl => match args[1].literal() {
                Some(by) => (u64::from(of(0)) << (by.bits() % 32)).min(16) as u32,
                None => of(0),
            },
            _ => 1,
        }
    }
}

/// Whether a place in the grid is one more for each lane along x.
pub(crate) fn grows_along_x(op: BuiltinOp, axis: Option<Axis>) -> bool {
    match op {
        BuiltinOp::GlobalId | BuiltinOp::LocalId => axis == Some(Axis::X),
        BuiltinOp::GlobalIndex | BuiltinOp::LocalIndex => true,
        BuiltinOp::SubgroupLane
        | BuiltinOp::SubgroupIndex
        | BuiltinOp::WorkgroupId
        | BuiltinOp::NumWorkgroups
        | BuiltinOp::WorkgroupSize
        | BuiltinOp::WorkgroupIndex => false,
    }
}

/// A value as a multiple of another and a constant, wrapping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Affine {
    root: Option<Value>,
    times: u32,
    plus: u32,
}

impl Affine {
    /// Whether the two are known to differ.
    pub(crate) fn is_apart_from(&self, other: &Affine) -> bool {
        self.root == other.root && self.times == other.times && self.plus != other.plus
    }

    fn then(self, op: ComputeOp, by: u32) -> Option<Affine> {
        let Affine { root, times, plus } = self;
        match op {
            ComputeOp::Add => Some(Affine { root, times, plus: plus.wrapping_add(by) }),
            ComputeOp::Mul => {
                Some(Affine { root, times: times.wrapping_mul(by), plus: plus.wrapping_mul(by) })
            }
            ComputeOp::Shl => self.then(ComputeOp::Mul, 1 << (by % 32)),
            _ => None,
        }
    }
}

/// A value as another and a constant, wrapping. Those with the same root are neighbours if their offsets are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The value itself, if there is no other; `None` for a constant.
    pub(crate) root: Option<Value>,
    pub(crate) offset: u32,
}

/// How far apart the values of the main body are.
pub(crate) struct Distances {
    places: Vec<Place>,
    affine: Vec<Affine>,
    multiples: Multiples,
}

impl Distances {
    pub(crate) fn find(parts: &ProgramParts) -> Distances {
        let values = || (0..parts.body.values.len() as u32).map(Value);
        let mut found = Distances {
            places: values().map(|value| Place { root: Some(value), offset: 0 }).collect(),
            affine: values().map(|value| Affine { root: Some(value), times: 1, plus: 0 }).collect(),
            multiples: Multiples::find(parts, 1),
        };
        walk(&parts.body.block, |_, _, node| {
            if let Node::Compute { result, op, ty: DataType::U32, args } = node {
                found.learn(*result, *op, args);
            }
        });
        found
    }

    fn learn(&mut self, result: Value, op: ComputeOp, args: &[Operand]) {
        if let [from, Operand::Literal(by)] = args
            && let Some(affine) = self.affine(*from).then(op, by.bits() as u32)
        {
            self.affine[result.index()] = affine;
        }
        if let (ComputeOp::Add, Some((value, literal))) = (op, value_and_literal(args)) {
            let Place { root, offset } = self.place(value);
            let offset = offset.wrapping_add(literal.bits() as u32);
            self.places[result.index()] = Place { root, offset };
        }
    }

    pub(crate) fn place(&self, operand: Operand) -> Place {
        match operand {
            Operand::Value(value) => self.places[value.index()],
            Operand::Literal(literal) => Place { root: None, offset: literal.bits() as u32 },
        }
    }

    pub(crate) fn affine(&self, operand: Operand) -> Affine {
        match operand {
            Operand::Value(value) => self.affine[value.index()],
            Operand::Literal(literal) => Affine { root: None, times: 1, plus: literal.bits() as u32 },
        }
    }

    /// A power of two that divides the root of a place, at most 16.
    pub(crate) fn root_multiple(&self, place: Place) -> u32 {
        place.root.map_or(16, |root| self.multiples.of(root.into()))
    }
}

fn value_and_literal(args: &[Operand]) -> Option<(Operand, Literal)> {
    match args {
        [value @ Operand::Value(_), Operand::Literal(literal)]
        | [Operand::Literal(literal), value @ Operand::Value(_)] => Some((*value, *literal)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_what_neighbouring_lanes_differ_by() {
        let constant = |at: usize| (at == 1).then_some(3);
        assert_eq!(stride(ComputeOp::Add, &[1, 2], constant), Some(3));
        assert_eq!(stride(ComputeOp::Sub, &[0, 1], constant), Some(u32::MAX));
        assert_eq!(stride(ComputeOp::Mul, &[5, 0], constant), Some(15));
        assert_eq!(stride(ComputeOp::Mul, &[0, 5], constant), None, "the factor is not known");
        assert_eq!(stride(ComputeOp::Shl, &[1, 0], constant), Some(8));
        assert_eq!(stride(ComputeOp::Div, &[0, 0], constant), Some(0));
        assert_eq!(stride(ComputeOp::Div, &[1, 0], constant), None);
    }
}
