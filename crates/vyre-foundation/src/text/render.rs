//! Shows a diagnostic with the source line it is about.

use super::source_map::SourceMap;
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::DataType;
use std::fmt::Write;

/// Characters of a source line that are shown; a longer line is cut around the place.
const SHOWN_MAX: usize = 120;

/// A diagnostic as a person reads it: code, place, message, the source line with carets, and the fix.
///
/// ```
/// use vyre_foundation::text::{SourceMap, parse, render};
/// let source = "program @p workgroup(1, 1, 1) {\n  %a = ad.f32 1.0, 2.0\n}\n";
/// let errors = parse(source).unwrap_err();
/// assert_eq!(
///     render(&errors[0], "p.vyre", source, &SourceMap::default()),
///     "error[P004] p.vyre:2:8: `ad` is not an op\n\
///      \x20 |   %a = ad.f32 1.0, 2.0\n\
///      \x20 |        ^^^^^^\n\
///      \x20 Fix: `vyre ops` lists every op with its form\n"
/// );
/// ```
pub fn render(diagnostic: &Diagnostic, file_name: &str, source: &str, map: &SourceMap) -> String {
    let message = render_message(diagnostic, file_name, source, map);
    format!("{message}  Fix: {}\n", as_written(&diagnostic.fix, source))
}

/// What [`render`] shows, without the line of the fix.
pub fn render_message(diagnostic: &Diagnostic, file_name: &str, source: &str, map: &SourceMap) -> String {
    let mut out = format!("error[{}] {file_name}", diagnostic.code);
    let span = map.span(diagnostic.place);
    if let Some(span) = span {
        let _ = write!(out, ":{}:{}", span.line, span.column);
    }
    let _ = writeln!(out, ": {}", as_written(&diagnostic.message, source));
    if let Some(span) = span
        && let Some(line) = source.split('\n').nth(span.line.max(1) as usize - 1)
    {
        excerpt(&mut out, line, span);
    }
    out
}

/// A message or fix with the names as `source` writes them: sealing calls the second `%k` of a body `%k.1`.
///
/// ```
/// use vyre_foundation::text::as_written;
/// let source = "for %k in 0..2 {\n}\nfor %k in 0..3 {\n}\n";
/// assert_eq!(as_written("`%k.1` is u32", source), "`%k` is u32");
/// ```
pub fn as_written(message: &str, source: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(['%', '$']) {
        let (before, from) = rest.split_at(at);
        let len = name_len(&from[1..]) + 1;
        out.push_str(before);
        out.push_str(written_name(&from[..len], source));
        rest = &from[len..];
    }
    out.push_str(rest);
    out
}

/// The name as the source has it, without the number that sealing appended.
fn written_name<'n>(name: &'n str, source: &str) -> &'n str {
    let Some((stem, number)) = name.rsplit_once('.') else { return name };
    // `%x.f32.1` is a new name that a fix proposes.
    let proposed = stem.rsplit('.').next().is_some_and(|last| DataType::from_name(last).is_some());
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || proposed || has_name(source, name) || !has_name(source, stem) {
        return name;
    }
    stem
}

/// Whether a name with its sigil stands in a source.
fn has_name(source: &str, name: &str) -> bool {
    source.match_indices(name).any(|(at, _)| name_len(&source[at + 1..]) + 1 == name.len())
}

/// The bytes of the name that a text starts with: letters, digits and `_`, with single dots between them.
fn name_len(text: &str) -> usize {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = text.as_bytes();
    let belongs =
        |at: usize| is_word(&bytes[at]) || (bytes[at] == b'.' && bytes.get(at + 1).is_some_and(is_word));
    (0..bytes.len()).find(|at| !belongs(*at)).unwrap_or(bytes.len())
}

/// Writes the part of a line around a span, and carets under the span.
fn excerpt(out: &mut String, line: &str, span: Span) {
    let line = line.trim_end_matches('\r');
    let start = floor_char(line, span.column.max(1) as usize - 1);
    let end = floor_char(line, start.saturating_add(span.columns as usize)).max(start);
    // Room before the place, so that one sees what it follows.
    let from = if start > SHOWN_MAX / 2 { floor_char(line, start - SHOWN_MAX / 2) } else { 0 };
    let shown: String = line[from..].chars().take(SHOWN_MAX).map(printable).collect();
    let left_out = line[from..].chars().nth(SHOWN_MAX).is_some();
    let (before, after) = (if from > 0 { "..." } else { "" }, if left_out { "..." } else { "" });
    let _ = writeln!(out, "  | {before}{shown}{after}");
    let blank = before.len() + line[from..start].chars().count();
    let room = SHOWN_MAX.saturating_sub(blank - before.len()).max(1);
    let carets = line[start..end].chars().take(room).count().max(1);
    let _ = writeln!(out, "  | {:blank$}{:^<carets$}", "", "");
}

/// Tabs and control characters would shift the carets.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// The last place that is not after `at` and not inside a character.
fn floor_char(line: &str, at: usize) -> usize {
    let at = at.min(line.len());
    (0..=at).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Place;

    fn rendered(source: &str, span: Span) -> String {
        let place = Place::Source(span);
        let diagnostic = Diagnostic { code: "P001", place, message: "m".into(), fix: "f".into() };
        render(&diagnostic, "x.vyre", source, &SourceMap::default())
    }

    #[test]
    fn points_at_the_place() {
        let table = [
            ("ab cd", (1, 4, 2), "  | ab cd\n  |    ^^\n"),
            ("é\tcd\r\nx", (1, 4, 2), "  | é cd\n  |   ^^\n"),
            ("ab", (1, 3, 1), "  | ab\n  |   ^\n"),
            ("ab", (1, 900, 900), "  | ab\n  |   ^\n"),
            ("a\nb\n", (3, 1, 1), "  | \n  | ^\n"),
            ("a", (9, 1, 1), ""),
            ("é", (1, 2, 1), "  | é\n  | ^\n"),
            ("", (0, 0, 0), "  | \n  | ^\n"),
        ];
        for (source, (line, column, columns), excerpt) in table {
            let expected = format!("error[P001] x.vyre:{line}:{column}: m\n{excerpt}  Fix: f\n");
            assert_eq!(rendered(source, Span { line, column, columns }), expected, "{source:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_source() {
        let table = [
            ("`%k.1` and `%k.1.f32`", "for %k in 0..2 {", "`%k` and `%k.1.f32`"),
            ("`%k.1`.", "%k = add.u32 %k.1, 2", "`%k.1`."),
            ("`$s.2`: 50% of %", "var $s : u32 = 0", "`$s`: 50% of %"),
            ("`%kk.1`", "%k = len @kk", "`%kk.1`"),
            ("`%x.f32.1 = cast.f32 %x`", "%x %x.f32", "`%x.f32.1 = cast.f32 %x`"),
        ];
        for (message, source, expected) in table {
            assert_eq!(as_written(message, source), expected);
        }
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let source = "x".repeat(10_000);
        let shown = rendered(&source, Span { line: 1, column: 5_000, columns: 9_000 });
        assert!(shown.len() < 500, "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[2].find('^'), Some("  | ...".len() + SHOWN_MAX / 2));
        assert_eq!(lines[2].matches('^').count(), SHOWN_MAX / 2);
    }
}
