//! The arithmetic of PTX, by the book: what an instruction on registers computes from its operands' bits.

/// A register's value in each lane of a warp: its bits, zero-extended. A predicate is 0 or 1.
pub type Row = [u64; 32];

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    U16x2,
    S16x2,
    F16,
    F16x2,
    BF16,
    BF16x2,
    TF32,
    F32,
    F64,
}

/// What an instruction does with one warp's registers. Rows hold something in every lane; results of lanes that do not run
/// are dropped by the caller.
#[derive(Clone, Copy)]
pub enum Fun {
    /// Of one operand.
    One(fn(&Row) -> Row),
    /// Of two.
    Two(fn(&Row, &Row) -> Row),
    /// Of three.
    Three(fn(&Row, &Row, &Row) -> Row),
    /// Anything else, lane by lane: the operands and the carry flag give up to two results and the flag.
    Lane(fn(&[u64], bool) -> Out),
}

/// What a lane's operation gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Out {
    /// The results, in the order of the destinations.
    pub values: [u64; 2],
    /// The carry flag.
    pub carry: bool,
}

/// An instruction on registers.
#[derive(Clone)]
pub struct Scalar {
    /// What it does.
    pub fun: Fun,
    /// The types of its destinations: one, or two for `p|q`. The second may be left out by the text.
    pub dests: Vec<Type>,
    /// The types of its sources, in order. One that the text may leave out has no place here: `lookup` is told how many there are.
    pub sources: Vec<Type>,
    /// Whether it reads the carry flag.
    pub reads_carry: bool,
    /// Whether it writes the carry flag.
    pub writes_carry: bool,
}

/// What `ptxas` decides legality by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// `.version`, as major * 10 + minor.
    pub version: u32,
    /// `.target`: 90 for `sm_90` and `sm_90a`.
    pub sm: u32,
    /// Whether it is an architecture-specific target: `sm_90a`.
    pub specific: bool,
}
