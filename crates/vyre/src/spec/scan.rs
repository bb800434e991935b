//! Reads SPECs and directives from a line of text.

use super::{Spec, SpecError};

/// A place in a line.
pub(crate) struct Scanner<'s> {
    text: &'s str,
    pub(crate) at: usize,
}

impl<'s> Scanner<'s> {
    pub(crate) fn new(text: &'s str) -> Scanner<'s> {
        let mut scanner = Scanner { text, at: 0 };
        scanner.skip_space();
        scanner
    }

    pub(crate) fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    pub(crate) fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes `prefix` if it is next.
    pub(crate) fn eat(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    /// Takes a word that ends here with white space or the end.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.rest().strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_name_char));
        if found {
            self.at += word.len();
            self.skip_space();
        }
        found
    }

    /// Takes everything up to white space.
    pub(crate) fn until_space(&mut self) -> &'s str {
        self.take_while(|c| !c.is_whitespace())
    }

    /// Takes a name, perhaps empty.
    pub(crate) fn name(&mut self) -> &'s str {
        self.take_while(is_name_char)
    }

    fn take_while(&mut self, mut keep: impl FnMut(char) -> bool) -> &'s str {
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Takes everything up to `close` and `close` itself.
    pub(crate) fn until(&mut self, close: char, what: &str) -> Result<&'s str, SpecError> {
        let rest = self.rest();
        let end = rest.find(close).ok_or_else(|| {
            SpecError::new(format!("the line ends inside {what}"), format!("close it with `{close}`"))
        })?;
        self.at += end + close.len_utf8();
        Ok(&rest[..end])
    }

    /// Nothing but white space may be left.
    pub(crate) fn end(&mut self) -> Result<(), SpecError> {
        self.skip_space();
        if self.is_empty() {
            return Ok(());
        }
        Err(SpecError::new(format!("`{}` follows the input", self.shown()), "write one input only"))
    }

    /// The next word, for messages.
    pub(crate) fn word(&self) -> &'s str {
        self.rest().split_whitespace().next().unwrap_or("")
    }

    /// The next word as a message shows it.
    pub(crate) fn shown(&self) -> String {
        shorten(self.word())
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// At most 40 characters of a text, for messages.
pub(crate) fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() {
        shown.push_str("...");
    }
    shown
}

/// The rest of a list, behind its `[`.
pub(super) fn list(scanner: &mut Scanner<'_>) -> Result<Spec, SpecError> {
    let inside = scanner.until(']', "a list")?;
    if let Some((element, count)) = inside.split_once(';') {
        let element = element.trim().to_owned();
        return Ok(Spec::Repeat { element, count: number("count", count.trim())? });
    }
    if inside.trim().is_empty() {
        return Ok(Spec::List(Vec::new()));
    }
    // A comma may follow the last element.
    let inside = inside.trim_end();
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    let items: Vec<String> = inside.split(',').map(|item| item.trim().to_owned()).collect();
    if items.iter().any(String::is_empty) {
        return Err(SpecError::new("a list has an empty element", "write a literal between each two commas"));
    }
    Ok(Spec::List(items))
}

/// The rest of a `hex"..."`, behind its first quote.
pub(super) fn hex(scanner: &mut Scanner<'_>) -> Result<Spec, SpecError> {
    let inside = scanner.until('"', "hex digits")?;
    let mut digits = Vec::with_capacity(inside.len());
    for c in inside.chars().filter(|c| !c.is_whitespace() && *c != '_') {
        let digit = c.to_digit(16).ok_or_else(|| {
            SpecError::new(format!("`{}` is not a hex digit", c.escape_debug()), "write digits 0-9 and a-f")
        })?;
        digits.push(digit as u8);
    }
    if !digits.len().is_multiple_of(2) {
        return Err(SpecError::new(
            format!("an odd number of hex digits ({})", digits.len()),
            "write two digits for each byte",
        ));
    }
    Ok(Spec::Hex(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
}

/// The rest of a `rand(...)`, behind its `(`.
pub(super) fn rand(scanner: &mut Scanner<'_>) -> Result<Spec, SpecError> {
    let inside = scanner.until(')', "`rand(`")?;
    let (mut seed, mut count) = (None, None);
    for item in inside.split(',') {
        match item.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("seed", value)) => seed = Some(number("seed", value)?),
            Some(("count", value)) => count = Some(number("count", value)?),
            _ => {
                return Err(SpecError::new(
                    format!("`rand` does not take `{}`", shorten(item.trim())),
                    "write `rand(seed=7, count=4096)`",
                ));
            }
        }
    }
    let seed =
        seed.ok_or_else(|| SpecError::new("`rand` has no seed", "write `rand(seed=7, count=4096)`"))?;
    Ok(Spec::Rand { seed, count })
}

/// A number that is not an element: a count, a seed.
pub(crate) fn number(what: &str, text: &str) -> Result<u64, SpecError> {
    text.parse().map_err(|_| {
        SpecError::new(
            format!("`{}` is not a {what}", shorten(text)),
            format!("write the {what} as a decimal number from 0 to {}", u64::MAX),
        )
    })
}

/// `(x, y, z)` behind its `(`, or `x,y,z`.
pub(crate) fn grid(text: &str) -> Result<[u32; 3], SpecError> {
    let wrong = || {
        SpecError::new(
            format!("`{}` is not a grid", shorten(text)),
            "write three counts of workgroups from 0 to 4294967295: `16,1,1`",
        )
    };
    let counts: Vec<u32> =
        text.split(',').map(|count| count.trim().parse()).collect::<Result<_, _>>().map_err(|_| wrong())?;
    counts.try_into().map_err(|_| wrong())
}
