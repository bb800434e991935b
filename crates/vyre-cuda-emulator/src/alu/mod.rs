//! The arithmetic of PTX, by the book: what an instruction on registers computes from its operands' bits.
//!
//! [`lookup`] reads an instruction's name and modifiers and returns a function on whole warps. Each combination has a
//! function of its own, made from one closure by the macros below, so that the loop over the lanes vectorises.
//! Anything that the PTX ISA does not define bit for bit is refused, except where hardware has one answer that is worth
//! comparing with; those places say so.
//! Not here: `mov`, memory, control flow, warp-wide and matrix instructions.

// The closures are written once for all widths, so for one of them a cast changes nothing.
#![allow(clippy::unnecessary_cast)]

#[macro_use]
mod lanes;
mod bits;
mod carry;
mod compare;
mod convert;
mod exact;
mod float;
mod integer;
mod logic;
mod syntax;

use syntax::Reader;

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
    /// What it does. The first result, where it is not `Fun::Lane`.
    pub fun: Fun,
    /// What gives the second result from the same operands, where there are two and `fun` is not `Fun::Lane`.
    pub second: Option<Fun>,
    /// The types of its destinations: one, or two for `p|q`. The second may be left out by the text.
    pub dests: Vec<Type>,
    /// The types of its sources, in order. One that the text may leave out has no place here: `lookup` gets their number.
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

impl Scalar {
    /// With one result and no flag.
    fn plain(fun: Fun, dest: Type, sources: &[Type]) -> Scalar {
        Scalar {
            fun,
            second: None,
            dests: vec![dest],
            sources: sources.to_vec(),
            reads_carry: false,
            writes_carry: false,
        }
    }
}

/// Finds what an instruction does: `opcode` is `setp` and `modifiers` are `lt`, `and`, `u32` for `setp.lt.and.u32`.
/// `operand_count` counts destinations and sources, a pair `p|q` as one. The error is what `ptxas` would print.
pub fn lookup(
    opcode: &str,
    modifiers: &[&str],
    operand_count: usize,
    target: Target,
) -> Result<Scalar, String> {
    refuse_approximate(opcode, modifiers)?;
    let mut reader = Reader::new(opcode, modifiers, target);
    let reader = &mut reader;
    let scalar = match opcode {
        "add" | "sub" | "mul" | "mad" | "div" | "min" | "max" | "abs" | "neg"
            if reader.last_type().is_some_and(float::is_float) =>
        {
            float::read(reader)?
        }
        "fma" | "rcp" | "sqrt" | "copysign" | "testp" => float::read(reader)?,
        "add" | "sub" | "mad" if reader.rest().contains(&"cc") => carry::read(reader)?,
        "addc" | "subc" | "madc" => carry::read(reader)?,
        "add" | "sub" | "mul" | "mad" | "mul24" | "mad24" | "sad" | "div" | "rem" | "abs" | "neg" | "min"
        | "max" | "dp4a" | "dp2a" => integer::read(reader)?,
        "popc" | "clz" | "bfind" | "fns" | "brev" | "bfe" | "bfi" | "szext" | "bmsk" => bits::read(reader)?,
        "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt" => {
            logic::read(reader)?
        }
        "set" | "setp" | "selp" | "slct" => compare::read(reader)?,
        "cvt" => convert::read(reader)?,
        _ => return Err(format!("Not a name of any known instruction: '{opcode}'")),
    };
    reader.finish(&scalar, operand_count)?;
    Ok(scalar)
}

/// Refuses what has only a bound on its error.
fn refuse_approximate(opcode: &str, modifiers: &[&str]) -> Result<(), String> {
    let only_approximate = matches!(opcode, "sin" | "cos" | "lg2" | "ex2" | "tanh" | "rsqrt");
    let modifier = modifiers.iter().find(|m| matches!(**m, "approx" | "full"));
    if modifier.is_none() && !only_approximate {
        return Ok(());
    }
    let modifier = modifier.unwrap_or(&"approx");
    Err(format!(
        "results of .{modifier} are not defined bit for bit, so this emulator refuses it: '{opcode}'"
    ))
}
