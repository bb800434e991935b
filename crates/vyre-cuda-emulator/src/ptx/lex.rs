//! Words, numbers and signs of PTX, with their lines.

use super::Error;

/// The smallest part of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name, a directive or an instruction with its modifiers: `$L1`, `.reg`, `%tid.x`, `ld.shared::cta.u32`.
    Word(String),
    /// An integer.
    Int(i128),
    /// The bits of a float, written for 32 or 64 bits.
    Float(u64, u32),
    /// The text between quotes.
    Text(String),
    /// One of `,;:[]{}()<>|!+-=@`.
    Sign(char),
    /// The text is over.
    End,
}

/// The text as tokens, each with its line. No recursion, and as many tokens as the text has bytes at most.
pub(super) fn lex(source: &str) -> Result<Vec<(Token, u32)>, Error> {
    let mut lexer = Lexer { bytes: source.as_bytes(), at: 0, line: 1 };
    let mut tokens = Vec::with_capacity(source.len() / 4);
    loop {
        lexer.skip_blanks()?;
        let line = lexer.line;
        let token = lexer.token()?;
        let end = token == Token::End;
        tokens.push((token, line));
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error { line: self.line, message: message.into() })
    }

    fn skip_blanks(&mut self) -> Result<(), Error> {
        loop {
            match self.peek(0) {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if self.peek(1) == b'/' => {
                    while !matches!(self.peek(0), b'\n' | 0) {
                        self.at += 1;
                    }
                }
                b'/' if self.peek(1) == b'*' => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), Error> {
        let start = self.line;
        self.at += 2;
        while (self.peek(0), self.peek(1)) != (b'*', b'/') {
            if self.at >= self.bytes.len() {
                return Err(Error { line: start, message: "a comment has no end".into() });
            }
            self.line += u32::from(self.peek(0) == b'\n');
            self.at += 1;
        }
        self.at += 2;
        Ok(())
    }

    fn token(&mut self) -> Result<Token, Error> {
        match self.peek(0) {
            0 if self.at >= self.bytes.len() => Ok(Token::End),
            b'0'..=b'9' => self.number(),
            b'"' => self.text(),
            first if is_word_start(first) => Ok(Token::Word(self.word())),
            sign if b",;:[]{}()<>|!+-=@".contains(&sign) => {
                self.at += 1;
                Ok(Token::Sign(char::from(sign)))
            }
            other => self.error(format!("unexpected character '{}'", char::from(other).escape_default())),
        }
    }

    fn text(&mut self) -> Result<Token, Error> {
        let start = self.at + 1;
        let end = self.bytes[start..].iter().position(|byte| matches!(byte, b'"' | b'\n'));
        match end.map(|len| start + len) {
            Some(end) if self.bytes[end] == b'"' => {
                self.at = end + 1;
                Ok(Token::Text(String::from_utf8_lossy(&self.bytes[start..end]).into_owned()))
            }
            _ => self.error("a string has no end"),
        }
    }

    /// A name with everything behind dots and `::`.
    fn word(&mut self) -> String {
        let start = self.at;
        loop {
            match self.peek(0) {
                b':' if self.peek(1) == b':' => self.at += 2,
                byte if is_word_start(byte) || byte.is_ascii_digit() => self.at += 1,
                _ => break,
            }
        }
        String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned()
    }

    fn digits(&mut self, is_digit: fn(&u8) -> bool) -> String {
        let rest = &self.bytes[self.at..];
        let len = rest.iter().position(|byte| !is_digit(byte)).unwrap_or(rest.len());
        self.at += len;
        String::from_utf8_lossy(&rest[..len]).into_owned()
    }

    fn number(&mut self) -> Result<Token, Error> {
        let token = match (self.peek(0), self.peek(1)) {
            (b'0', b'f' | b'F') => self.float_bits(8)?,
            (b'0', b'd' | b'D') => self.float_bits(16)?,
            (b'0', b'x' | b'X') => self.int(2, 16)?,
            (b'0', b'b' | b'B') => self.int(2, 2)?,
            (b'0', b'0'..=b'9') => self.int(1, 8)?,
            _ => self.decimal()?,
        };
        if is_word_start(self.peek(0)) || self.peek(0).is_ascii_digit() {
            return self.error("a number ends in a letter or a digit that is not part of it");
        }
        Ok(token)
    }

    fn float_bits(&mut self, digits: usize) -> Result<Token, Error> {
        self.at += 2;
        let text = self.digits(u8::is_ascii_hexdigit);
        match u64::from_str_radix(&text, 16) {
            Ok(bits) if text.len() == digits => Ok(Token::Float(bits, digits as u32 * 4)),
            _ => self.error(format!("a float in bits has {digits} hexadecimal digits")),
        }
    }

    fn int(&mut self, prefix: usize, radix: u32) -> Result<Token, Error> {
        self.at += prefix;
        let text = self.digits(u8::is_ascii_hexdigit);
        self.finish_int(&text, radix)
    }

    fn decimal(&mut self) -> Result<Token, Error> {
        let start = self.at;
        let text = self.digits(u8::is_ascii_digit);
        if self.peek(0) != b'.' && !matches!(self.peek(0), b'e' | b'E') {
            return self.finish_int(&text, 10);
        }
        let part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E');
        self.digits(part);
        let exponent = matches!(self.bytes[self.at - 1], b'e' | b'E');
        if exponent && matches!(self.peek(0), b'+' | b'-') {
            self.at += 1;
            self.digits(u8::is_ascii_digit);
        }
        let text = String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned();
        match text.parse::<f64>() {
            Ok(value) => Ok(Token::Float(value.to_bits(), 64)),
            Err(_) => self.error(format!("'{text}' is not a number")),
        }
    }

    /// An integer has 64 bits; `U` behind it says that it is unsigned.
    fn finish_int(&mut self, text: &str, radix: u32) -> Result<Token, Error> {
        self.at += usize::from(self.peek(0) == b'U');
        match u64::from_str_radix(text, radix) {
            Ok(value) => Ok(Token::Int(i128::from(value))),
            Err(_) => self.error(format!("'{text}' is not an integer of 64 bits in base {radix}")),
        }
    }
}

const fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}
