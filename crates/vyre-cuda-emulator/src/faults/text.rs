//! The text of a faults file, piece by piece.

use super::expression::Expression;
use super::pattern::{Condition, Guard, Line, Term, Word};

/// A line of the file that is being read.
pub(super) struct Cursor<'a> {
    rest: &'a str,
}

/// Registers that every kernel has. They stand for themselves, where others are names to bind.
const SPECIAL: [&str; 18] = [
    "laneid",
    "warpid",
    "nwarpid",
    "smid",
    "nsmid",
    "gridid",
    "clock",
    "clock_hi",
    "clock64",
    "globaltimer",
    "globaltimer_lo",
    "globaltimer_hi",
    "lanemask_eq",
    "lanemask_le",
    "lanemask_lt",
    "lanemask_ge",
    "lanemask_gt",
    "dynamic_smem_size",
];

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Cursor { rest: text.trim() }
    }

    /// What is not read yet.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Reads the sign or word if it is next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let found = self.rest.strip_prefix(text);
        if let Some(rest) = found {
            self.rest = rest.trim_start();
        }
        found.is_some()
    }

    pub(super) fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.take(text) { Ok(()) } else { Err(self.unexpected(&format!("`{text}`"))) }
    }

    pub(super) fn end(&self) -> Result<(), String> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.unexpected("the end of the line")) }
    }

    pub(super) fn unexpected(&self, wanted: &str) -> String {
        match self.rest {
            "" => format!("expected {wanted}, found the end of the line"),
            rest => format!("expected {wanted}, found `{rest}`"),
        }
    }

    fn while_in(&mut self, allowed: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c: char| !allowed(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    /// A name of letters, digits and `_`.
    pub(super) fn word(&mut self) -> Result<&'a str, String> {
        let missing = self.unexpected("a name");
        let word = self.while_in(|c| c.is_ascii_alphanumeric() || c == '_');
        if word.is_empty() { Err(missing) } else { Ok(word) }
    }

    /// A number in decimal, or in another base: `0x1f`, `0b101`.
    pub(super) fn number(&mut self) -> Result<i128, String> {
        let wrong = self.unexpected("a number");
        let word = self.while_in(|c| c.is_ascii_alphanumeric());
        let (digits, base) = match word.get(..2) {
            Some("0x" | "0X") => (&word[2..], 16),
            Some("0b" | "0B") => (&word[2..], 2),
            _ => (word, 10),
        };
        let number = u64::from_str_radix(digits, base).map(i128::from);
        number.map_err(|_| wrong)
    }

    /// A text between quotes.
    pub(super) fn quoted(&mut self) -> Result<&'a str, String> {
        self.expect("\"")?;
        let Some((text, rest)) = self.rest.split_once('"') else {
            return Err("the closing quote is missing".into());
        };
        self.rest = rest.trim_start();
        Ok(text)
    }
}

/// `@%p add.u32 %a, %b, 1`
pub(super) fn instruction(text: &str, number: u32) -> Result<Line, String> {
    let mut cursor = Cursor::new(text.trim_end().trim_end_matches(';'));
    let guard = guard(&mut cursor)?;
    let head = cursor.while_in(|c| !c.is_whitespace());
    let mut words = head.split('.').map(word);
    let opcode = words.next().unwrap_or_else(|| word(""))?;
    let modifiers = words.collect::<Result<_, _>>()?;
    if opcode == Word::Many {
        return Err("`**` stands for modifiers, not for an opcode".into());
    }
    let mut operands = Vec::new();
    if !cursor.rest.is_empty() {
        operands.push(operand(&mut cursor)?);
        while cursor.take(",") {
            operands.push(operand(&mut cursor)?);
        }
        cursor.end()?;
    }
    Ok(Line { number, guard, opcode, modifiers, operands })
}

fn guard(cursor: &mut Cursor<'_>) -> Result<Guard, String> {
    if !cursor.take("@") {
        return Ok(Guard::None);
    }
    if cursor.take("_") {
        return Ok(Guard::Any);
    }
    let negated = cursor.take("!");
    cursor.expect("%")?;
    Ok(Guard::Register(cursor.word()?.into(), negated))
}

fn word(text: &str) -> Result<Word, String> {
    let known = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    match text {
        "*" => Ok(Word::One),
        "**" => Ok(Word::Many),
        "" => Err("a part of the instruction's name is empty".into()),
        _ if !text.chars().all(known) => Err(format!("`{text}` is not part of an instruction's name")),
        _ if text.starts_with(|c: char| c.is_ascii_uppercase()) => Ok(Word::Variable(text.into())),
        _ => Ok(Word::Literal(text.into())),
    }
}

fn operand(cursor: &mut Cursor<'_>) -> Result<Term, String> {
    if cursor.take("[") {
        let base = operand(cursor)?;
        let offset = offset(cursor, &base)?;
        cursor.expect("]")?;
        return Ok(Term::Address(Box::new(base), Box::new(offset)));
    }
    if cursor.take("{") {
        let mut parts = vec![operand(cursor)?];
        while cursor.take(",") {
            parts.push(operand(cursor)?);
        }
        cursor.expect("}")?;
        return Ok(Term::Vector(parts));
    }
    if cursor.take("!") {
        cursor.expect("%")?;
        return Ok(Term::Not(cursor.word()?.into()));
    }
    if cursor.take("?") {
        return Ok(Term::Any(cursor.word()?.into()));
    }
    let first = simple(cursor)?;
    if matches!(first, Term::Register(_) | Term::Ignored) && cursor.take("|") {
        let second = simple(cursor)?;
        return Ok(Term::Pair(Box::new(first), Box::new(second)));
    }
    Ok(first)
}

fn simple(cursor: &mut Cursor<'_>) -> Result<Term, String> {
    if cursor.take("%") {
        let name = cursor.while_in(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let special = name.contains('.') || SPECIAL.contains(&name);
        return match name {
            "" => Err(cursor.unexpected("a register's name")),
            _ if special => Ok(Term::Special(format!("%{name}"))),
            _ => Ok(Term::Register(name.into())),
        };
    }
    if let Some(float) = float(cursor)? {
        return Ok(float);
    }
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    if cursor.rest.starts_with(letter) {
        let name = cursor.while_in(|c| letter(c) || c.is_ascii_digit());
        return Ok(if name == "_" { Term::Ignored } else { Term::Symbol(name.into()) });
    }
    number(cursor)
}

/// A number, or an expression of them.
fn number(cursor: &mut Cursor<'_>) -> Result<Term, String> {
    Ok(match Expression::parse(cursor)? {
        Expression::Name(name) => Term::Constant(name),
        other => Term::Number(other),
    })
}

/// `0f3F800000`, if that is next.
fn float(cursor: &mut Cursor<'_>) -> Result<Option<Term>, String> {
    let (digits, width) = match cursor.rest.get(..2) {
        Some("0f" | "0F") => (8, 32),
        Some("0d" | "0D") => (16, 64),
        _ => return Ok(None),
    };
    let wrong = cursor.unexpected(&format!("a float of {digits} hexadecimal digits"));
    let text = &cursor.while_in(|c| c.is_ascii_alphanumeric())[2..];
    match u64::from_str_radix(text, 16) {
        Ok(bits) if text.len() == digits => Ok(Some(Term::Float(bits, width))),
        _ => Err(wrong),
    }
}

fn offset(cursor: &mut Cursor<'_>, base: &Term) -> Result<Term, String> {
    if cursor.take("+") {
        return number(cursor);
    }
    if cursor.rest.starts_with('-') {
        return number(cursor);
    }
    // `[_]` is any address; `[%a]` is that one, without an offset.
    Ok(if *base == Term::Ignored { Term::Ignored } else { Term::Number(Expression::Number(0)) })
}

/// What follows `where`.
pub(super) fn condition(cursor: &mut Cursor<'_>) -> Result<Condition, String> {
    if cursor.rest.starts_with(|c: char| c.is_ascii_uppercase()) {
        let name = cursor.word()?.to_owned();
        cursor.expect("in")?;
        let mut words = vec![cursor.word()?.to_owned()];
        while cursor.take(",") {
            words.push(cursor.word()?.to_owned());
        }
        return Ok(Condition::Words(name, words));
    }
    let left = Expression::parse(cursor)?;
    if cursor.take("in") {
        let first = Expression::parse(cursor)?;
        cursor.expect("..")?;
        return Ok(Condition::Range(left, first, Expression::parse(cursor)?));
    }
    let Some(operator) =
        ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|operator| cursor.take(operator))
    else {
        return Err(cursor.unexpected("`in` or a comparison"));
    };
    Ok(Condition::Compared(operator, left, Expression::parse(cursor)?))
}
