//! Cuts source text into tokens.
//!
//! A token is a kind and two byte offsets: no text is copied. Newlines and comments are tokens, because lines matter to
//! the parser and comments to the formatter. Every byte belongs to a token or is white space, so the lexer cannot fail;
//! bytes that fit nowhere become [`Kind::Bad`] tokens, a whole run of them at a time.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword, an op with its suffixes, a type, `true`, `inf`, ...
    Word,
    /// A literal that starts with a digit or `-`, or a `nan(...)`.
    Number,
    /// `%name`
    Value,
    /// `$name`
    Local,
    /// `@name`
    Symbol,
    OpenBrace,
    CloseBrace,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    Comma,
    Colon,
    Equals,
    Arrow,
    /// `..`
    Range,
    /// `// ...` up to the end of the line.
    Comment,
    Newline,
    End,
    Bad,
}

/// A token: what it is and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Token {
    /// The text of the token.
    pub(super) fn text<'s>(&self, source: &'s str) -> &'s str {
        &source[self.start as usize..self.end as usize]
    }

    /// The text without the sigil, for values, locals and symbols.
    pub(super) fn name<'s>(&self, source: &'s str) -> &'s str {
        &source[self.start as usize + 1..self.end as usize]
    }
}

/// Gives the tokens of a source one after the other.
#[derive(Clone)]
pub(super) struct Lexer<'s> {
    bytes: &'s [u8],
    at: usize,
}

const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Bytes that can start or make up a token; all others are bad outside comments.
const fn is_known(byte: u8) -> bool {
    is_word_byte(byte)
        || matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'{' | b'}' | b'(' | b')' | b'[' | b']')
        || matches!(byte, b',' | b':' | b'=' | b'-' | b'.' | b'%' | b'$' | b'@' | b'/')
}

impl<'s> Lexer<'s> {
    /// A lexer at the start of `source`, which must be shorter than 4 GiB.
    pub(super) fn new(source: &'s str) -> Lexer<'s> {
        // Some editors put a byte order mark first; it means nothing in UTF-8.
        let at = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Lexer { bytes: source.as_bytes(), at }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The next token; [`Kind::End`] for ever once the source has ended.
    pub(super) fn next(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
        let start = self.at;
        let kind = if start < self.bytes.len() { self.scan() } else { Kind::End };
        Token { kind, start: start as u32, end: self.at as u32 }
    }

    fn scan(&mut self) -> Kind {
        let first = self.bytes[self.at];
        self.at += 1;
        match first {
            b'\n' => Kind::Newline,
            b'%' => self.name(Kind::Value),
            b'$' => self.name(Kind::Local),
            b'@' => self.name(Kind::Symbol),
            b'{' => Kind::OpenBrace,
            b'}' => Kind::CloseBrace,
            b'(' => Kind::OpenParen,
            b')' => Kind::CloseParen,
            b'[' => Kind::OpenBracket,
            b']' => Kind::CloseBracket,
            b',' => Kind::Comma,
            b':' => Kind::Colon,
            b'=' => Kind::Equals,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b'0'..=b'9' => self.number(),
            b'-' if self.peek(0) == b'>' => {
                self.at += 1;
                Kind::Arrow
            }
            b'-' if is_word_byte(self.peek(0)) => self.number(),
            b'.' if self.peek(0) == b'.' => {
                self.at += 1;
                Kind::Range
            }
            b'/' if self.peek(0) == b'/' => {
                let rest = &self.bytes[self.at..];
                self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                // The carriage return of a Windows line end is white space, not comment.
                while self.bytes[self.at - 1] == b'\r' {
                    self.at -= 1;
                }
                Kind::Comment
            }
            _ => self.bad(),
        }
    }

    /// Letters, digits and `_`, with single dots between them.
    fn dotted(&mut self) {
        loop {
            while is_word_byte(self.peek(0)) {
                self.at += 1;
            }
            if self.peek(0) != b'.' || !is_word_byte(self.peek(1)) {
                return;
            }
            self.at += 1;
        }
    }

    fn name(&mut self, kind: Kind) -> Kind {
        if !is_word_byte(self.peek(0)) {
            return Kind::Bad;
        }
        self.dotted();
        kind
    }

    fn word(&mut self) -> Kind {
        let start = self.at - 1;
        self.dotted();
        if &self.bytes[start..self.at] == b"nan" && self.peek(0) == b'(' {
            self.nan_payload();
            return Kind::Number;
        }
        Kind::Word
    }

    /// The rest of `nan(0x7fc00001)_f32`, if it stands like that.
    fn nan_payload(&mut self) {
        let mut end = self.at + 1;
        while self.bytes.get(end).is_some_and(|byte| is_word_byte(*byte)) {
            end += 1;
        }
        if self.bytes.get(end) == Some(&b')') {
            end += 1;
            while self.bytes.get(end).is_some_and(|byte| is_word_byte(*byte)) {
                end += 1;
            }
        }
        self.at = end;
    }

    /// Everything that could belong to a number; what it says is for the literal parser to judge.
    fn number(&mut self) -> Kind {
        let start = self.at - 1;
        let hex = self.bytes[start..].starts_with(b"0x") || self.bytes[start..].starts_with(b"-0x");
        loop {
            let byte = self.peek(0);
            let is_point = byte == b'.' && self.peek(1) != b'.';
            let after_e = matches!(self.bytes[self.at - 1], b'e' | b'E');
            let is_exponent_sign = matches!(byte, b'+' | b'-') && after_e && !hex;
            if !is_word_byte(byte) && !is_point && !is_exponent_sign {
                break;
            }
            self.at += 1;
        }
        if matches!(&self.bytes[start..self.at], b"-nan" | b"nan") && self.peek(0) == b'(' {
            self.nan_payload();
        }
        Kind::Number
    }

    fn bad(&mut self) -> Kind {
        // Runs of unknown bytes are one token, and never end inside a character.
        while self.bytes.get(self.at).is_some_and(|byte| !is_known(*byte)) {
            self.at += 1;
        }
        Kind::Bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<(Kind, &str)> {
        let mut lexer = Lexer::new(source);
        let tokens = std::iter::from_fn(|| Some(lexer.next()).filter(|token| token.kind != Kind::End));
        tokens.map(|token| (token.kind, token.text(source))).collect()
    }

    #[test]
    fn cuts_where_it_should() {
        use Kind::{
            Arrow, Bad, CloseParen, Comment, Equals, Local, Newline, Number, OpenParen, Range, Symbol, Value,
            Word,
        };
        let table: &[(&str, &[(Kind, &str)])] = &[
            ("", &[]),
            ("%a.1=mma.i32.i8", &[(Value, "%a.1"), (Equals, "="), (Word, "mma.i32.i8")]),
            ("0..%n", &[(Number, "0"), (Range, ".."), (Value, "%n")]),
            ("%lo..%hi", &[(Value, "%lo"), (Range, ".."), (Value, "%hi")]),
            ("1.5..2.5e-3f32", &[(Number, "1.5"), (Range, ".."), (Number, "2.5e-3f32")]),
            ("-inf nan", &[(Number, "-inf"), (Word, "nan")]),
            ("nan(0x7fc00001)_f32", &[(Number, "nan(0x7fc00001)_f32")]),
            ("nan(0x7f", &[(Number, "nan(0x7f")]),
            ("0x1e-5", &[(Number, "0x1e"), (Number, "-5")]),
            ("x // c\r\n$y", &[(Word, "x"), (Comment, "// c"), (Newline, "\n"), (Local, "$y")]),
            ("->@f()", &[(Arrow, "->"), (Symbol, "@f"), (OpenParen, "("), (CloseParen, ")")]),
            ("é\0! ; a", &[(Bad, "é\0!"), (Bad, ";"), (Word, "a")]),
            ("% .5 /", &[(Bad, "%"), (Bad, "."), (Number, "5"), (Bad, "/")]),
            ("\u{feff}a", &[(Word, "a")]),
        ];
        for (source, expected) in table {
            assert_eq!(&kinds(source), expected, "{source:?}");
        }
    }
}
