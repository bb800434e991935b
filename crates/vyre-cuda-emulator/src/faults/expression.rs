//! Numbers computed from the constants that a pattern binds: `#a + 1`, `32 - #a`, `~(#m << 2)`.

use super::text::Cursor;
use std::collections::HashMap;

/// An expression over bound constants.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Number(i128),
    Name(String),
    Negated(Box<Expression>),
    Inverted(Box<Expression>),
    Both(&'static str, Box<Expression>, Box<Expression>),
}

/// Binary operators, loosest first.
const LEVELS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*"]];

impl Expression {
    /// Reads one from the text, as much of it as there is.
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Expression, String> {
        Self::level(cursor, 0)
    }

    fn level(cursor: &mut Cursor<'_>, level: usize) -> Result<Expression, String> {
        let Some(operators) = LEVELS.get(level) else {
            return Self::atom(cursor);
        };
        let mut left = Self::level(cursor, level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| cursor.take(operator)) {
            let right = Self::level(cursor, level + 1)?;
            left = Expression::Both(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn atom(cursor: &mut Cursor<'_>) -> Result<Expression, String> {
        if cursor.take("-") {
            return Ok(Expression::Negated(Box::new(Self::atom(cursor)?)));
        }
        if cursor.take("~") {
            return Ok(Expression::Inverted(Box::new(Self::atom(cursor)?)));
        }
        if cursor.take("(") {
            let inside = Self::parse(cursor)?;
            cursor.expect(")")?;
            return Ok(inside);
        }
        if cursor.take("#") {
            return Ok(Expression::Name(cursor.word()?.into()));
        }
        cursor.number().map(Expression::Number)
    }

    /// The names it reads.
    pub(super) fn names(&self) -> Vec<&str> {
        match self {
            Expression::Number(_) => vec![],
            Expression::Name(name) => vec![name],
            Expression::Negated(of) | Expression::Inverted(of) => of.names(),
            Expression::Both(_, a, b) => [a.names(), b.names()].concat(),
        }
    }

    /// Its value. Every name it reads is bound: the file's parser has seen to that.
    pub(super) fn value(&self, constants: &HashMap<String, i128>) -> i128 {
        match self {
            Expression::Number(number) => *number,
            Expression::Name(name) => constants[name],
            Expression::Negated(of) => of.value(constants).wrapping_neg(),
            Expression::Inverted(of) => !of.value(constants),
            Expression::Both(operator, a, b) => binary(operator, a.value(constants), b.value(constants)),
        }
    }
}

fn binary(operator: &str, a: i128, b: i128) -> i128 {
    // A shift by more than a constant has bits leaves nothing, whatever its sign.
    let amount = u32::try_from(b).ok().filter(|amount| *amount < 128);
    match operator {
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "<<" => amount.map_or(0, |amount| a << amount),
        ">>" => amount.map_or(0, |amount| a >> amount),
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        _ => unreachable!("an operator of `LEVELS`"),
    }
}
