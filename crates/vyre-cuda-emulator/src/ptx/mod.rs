//! PTX as text and as a tree.
//!
//! The tree is close to the text: an instruction is its name, its modifiers and its operands, as written. What they mean is
//! decided later (`engine::decode`), so rules that rewrite instructions see what a person reads.

mod lex;
mod parse;
mod print;

pub(crate) use parse::type_bits;
pub use parse::{Error, parse};
pub use print::print;

/// A whole module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// `.version`.
    pub version: (u32, u32),
    /// `.target`, the architecture first: `sm_90a`, and what else stands there.
    pub target: Vec<String>,
    /// `.global`, `.const` and `.shared` variables outside of functions.
    pub variables: Vec<Variable>,
    /// Kernels.
    pub entries: Vec<Entry>,
}

/// A declared variable: module-wide, `.shared`, `.local` or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// The line it is declared in, counted from 1.
    pub line: u32,
    /// `global`, `const`, `shared`, `local` or `param`.
    pub space: String,
    /// The name.
    pub name: String,
    /// The element type, as `u32` or `b8`; with its vector width, if it has one.
    pub ty: String,
    /// 1, 2 or 4.
    pub vector: u32,
    /// The alignment that was asked for, in bytes.
    pub align: Option<u32>,
    /// Elements: 1 for a scalar, `None` for `[]`.
    pub len: Option<u64>,
    /// Initial values, in order.
    pub init: Vec<Initial>,
    /// Whether it is `.extern`: its size is given at launch.
    pub external: bool,
}

/// One initial value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Initial {
    /// An integer.
    Int(i128),
    /// The bits of a float, which were written for 32 or 64 bits.
    Float(u64, u32),
    /// The address of another variable, plus bytes.
    Symbol(String, i64),
    /// `generic(name)`: the same as a generic address.
    Generic(String, i64),
}

/// A kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// The line of its name.
    pub line: u32,
    /// The name.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Variable>,
    /// `.reqntid`, `.maxntid`, `.maxnreg`, `.minnctapersm`, ... with their numbers.
    pub directives: Vec<(String, Vec<u64>)>,
    /// Registers, by name, with their type: `%r7` is one of `.reg .b32 %r<8>`.
    pub registers: Vec<(String, String)>,
    /// `.shared` and `.local` variables inside.
    pub variables: Vec<Variable>,
    /// What is run.
    pub body: Vec<Statement>,
}

/// A part of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `name:`
    Label(String),
    /// One instruction.
    Instruction(Instruction),
}

/// One instruction, as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// The line in the text, counted from 1.
    pub line: u32,
    /// `@p` or `@!p`: the register, and whether it is negated.
    pub guard: Option<(String, bool)>,
    /// The name up to the first dot: `ld`.
    pub opcode: String,
    /// What follows, without the dots: `["global", "nc", "v4", "u32"]`; `shared::cta` is one of them.
    pub modifiers: Vec<String>,
    /// The operands in order.
    pub operands: Vec<Operand>,
}

/// An operand, as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register that the kernel declares, `%r1`, or a special one, `%tid.x`.
    Register(String),
    /// `!%p1`.
    Not(String),
    /// An integer.
    Int(i128),
    /// The bits of a float that was written for 32 or 64 bits (`0f...`, `0d...`, or decimal, which is of 64).
    Float(u64, u32),
    /// A variable or a label.
    Symbol(String),
    /// `name+8`: a variable's address and bytes.
    Sum(String, i64),
    /// `[base+offset]`.
    Address(Box<Operand>, i64),
    /// `{a, b}`.
    Vector(Vec<Operand>),
    /// `a|b`.
    Pair(Box<Operand>, Box<Operand>),
    /// `_`.
    Discard,
}
