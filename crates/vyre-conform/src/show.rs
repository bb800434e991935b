//! Shows bytes and quoted texts so that people can read them safely.

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

/// A quoted text for a terminal: one line, at most 100 characters, nothing that moves the cursor.
pub(crate) fn line(text: &str) -> String {
    let short: String = text.chars().take(100).collect();
    short.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
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
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1000), number % 1000),
    }
}
