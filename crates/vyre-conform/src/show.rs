//! Bytes and strangers' texts as people may see them.

use vyre_foundation::ir::{DataType, Literal};
use vyre_foundation::text::print_literal;

/// The elements of a buffer, as literals.
pub(crate) fn elements(ty: DataType, bytes: &[u8]) -> impl Iterator<Item = String> {
    bytes.chunks_exact(ty.bytes()).map(move |element| {
        let mut word = [0; 8];
        word[..element.len()].copy_from_slice(element);
        print_literal(Literal::from_bits(ty, u64::from_le_bytes(word)))
    })
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A stranger's text for a terminal: one line, not long, nothing that moves the cursor.
pub(crate) fn line(text: &str) -> String {
    let short: String = text.chars().take(100).collect();
    short.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}

/// A text of several lines in which strangers' words may stand, without what moves the cursor.
#[cfg(feature = "cli")]
pub(crate) fn lines(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// A text inside HTML or XML. Characters that XML cannot have become a replacement mark.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A number in groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
